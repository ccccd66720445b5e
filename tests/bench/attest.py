"""What it costs to sign an answer, and to check one.

    python -m tests.bench.attest [--frames N] [--json FILE]

The frames are as long as those of a real answer, with the two links that frames of unchanged files carry. CPU time of
this process, the least of many rounds; the encoding of the same answer stands beside it for comparison.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from repo_provider import attest, wire
from repo_provider.protocol import ContextFrame, ContextQueryResult, Provenance, digest, token_cost

ROUNDS = 200
ISSUED_AT = "2026-01-01T00:00:00Z"


def answer(frames: int) -> ContextQueryResult:
    return ContextQueryResult(tuple(map(_frame, range(frames))), truncated=False)


def _frame(number: int) -> ContextFrame:
    content = f"    value = compute({number})\n" * 30
    cited = digest(content.encode())
    path = f"src/package/module_{number}.py"
    return ContextFrame(
        id=f"snippet:{path}#Some.function",
        kind="snippet",
        title=f"Some.function in {path}",
        score=0.5,
        token_cost=token_cost(content),
        content=content,
        content_digest=cited,
        provenance=(
            Provenance("file", f"file:///home/someone/{path}", "L1-30", cited),
            Provenance(
                "git", f"swh:1:cnt:{'0' * 40};anchor=swh:1:rev:{'1' * 40};path=/{path};lines=1-30", "L1-30", cited
            ),
        ),
        citation_label=f"{path} L1-30 (Some.function)",
    )


def measure(frames: int) -> dict[str, float]:
    result, key = answer(frames), attest.make_key(bytes(32))
    public = key.published.public_key
    signed = attest.sign_result(result, key, "repo-provider", ISSUED_AT)
    steps: dict[str, Callable[[], object]] = {
        "encode, unsigned": lambda: wire.frames(result),
        "sign": lambda: attest.sign_result(result, key, "repo-provider", ISSUED_AT),
        "sign, each frame too": lambda: attest.sign_result(result, key, "repo-provider", ISSUED_AT, each=True),
        "verify": lambda: attest.verify_result(signed, "repo-provider", public),
    }
    return {name: _least(step) for name, step in steps.items()}


def _least(step: Callable[[], object]) -> float:
    """Milliseconds."""
    spent = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        step()
        spent.append(time.process_time() - begun)
    return round(min(spent) * 1_000, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.attest", description="The cost of a signed answer.")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--json")
    chosen = parser.parse_args(arguments)
    table = measure(chosen.frames)
    for name, milliseconds in table.items():
        print(f"{name:22}{milliseconds:9.3f} ms for {chosen.frames} frames")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
