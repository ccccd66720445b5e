"""A provider of a few lines that does what the goal of a query says; `python -m tests.fake` serves it over stdio.

Tests of the conversation and of the edges ask it for what a real provider does only on a bad day.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from threading import Event
from typing import NoReturn

from repo_provider import stdio
from repo_provider.errors import BudgetUnsatisfiable, Unavailable
from repo_provider.protocol import (
    Capabilities,
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    DataFlow,
    FrameId,
    FrameVerdict,
    ProviderInfo,
    QueryCapability,
    digest,
    token_cost,
)
from repo_provider.session import Service

NAME = "fake"


class Fake:
    """Goals: `hang`, `fail`, `busy`, `poor`, `print`, `surrogate`, `bytes N`, `frames N of M bytes`; else one frame."""

    def __init__(self) -> None:
        self.never = Event()
        self.release = Event()
        self.running = Event()
        self.deadlines: list[float | None] = []
        self.warmed = Event()
        self.closed = Event()

    def query(self, query: ContextQuery, deadline: float | None) -> ContextQueryResult:
        self.deadlines.append(deadline)
        match query.goal.split():
            case ["hang"]:
                self.running.set()
                self.never.wait()
            case ["wait"]:
                self.running.set()
                self.release.wait()
            case ["fail"]:
                raise ZeroDivisionError("secret source text in /home/someone")
            case ["busy"]:
                raise Unavailable("the repository is locked")
            case ["poor"]:
                raise BudgetUnsatisfiable("no line fits into max_tokens")
            case ["print"]:
                print("not an envelope")
                os.write(1, b"not an envelope either\n")
                warnings.warn("nor is this", stacklevel=1)
            case ["surrogate"]:
                return ContextQueryResult((frame("\ud800"), frame("good")), False)
            case ["bytes", size]:
                return ContextQueryResult((frame("x" * int(size)),), False)
            case ["frames", count, "of", size, "bytes"]:
                return ContextQueryResult(tuple(frame("x" * int(size), f"f{n}") for n in range(int(count))), False)
        return ContextQueryResult((frame(query.goal),), False)

    def verify(self, frames: Sequence[FrameId]) -> Sequence[FrameVerdict]:
        return [FrameVerdict(frame, "valid" if frame.provider_id == NAME else "unknown") for frame in frames]

    def warm(self) -> None:
        self.warmed.set()

    def close(self) -> None:
        self.closed.set()


def frame(content: str, id: str = "doc:README.md:L1") -> ContextFrame:
    data = content.encode("utf-8", "replace")
    return ContextFrame(
        id=id,
        kind="doc",
        title="README.md",
        score=0.5,
        token_cost=token_cost(data.decode()),
        content=content,
        content_digest=digest(data),
        citation_label="README.md L1",
    )


def service(provider: Fake | None = None) -> Service:
    return Service(
        ProviderInfo(NAME, "1.0", DataFlow(reads=True, writes=False, egress=False, egress_scopes=("local-only",))),
        Capabilities(QueryCapability(("snippet", "doc")), correlation=True, verify=True),
        lambda: provider or Fake(),
        log=stdio.log,
    )


def main() -> NoReturn:
    deadline = float(sys.argv[1]) if len(sys.argv) > 1 else stdio.DEADLINE
    stdin, stdout = stdio.claim()
    stdio.leave(stdio.serve(service(), stdin, stdout, deadline=deadline))


if __name__ == "__main__":
    main()
