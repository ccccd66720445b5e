"""Whole conversations as they are written down in `fixtures/sessions/`, held in process and over a real pipe.

A file is NDJSON. Its first row says what it shows and with which provider; every other row has what the host writes
(`host`: an envelope, or the characters of a line that is none) and what comes back (`reply`: null where nothing is
waited for). `pytest tests/test_golden.py --update` rewrites the replies; the difference is for a person to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.connect import FAKE, ROOT, Connection, InProcess, OverStdio, Served, encode, repository
from tests.repos import Files, make_repo
from tests.spec import requirement

SESSIONS = ROOT / "fixtures" / "sessions"
PLACE = b"/made/repository"
"""Stands in the files for wherever the repository of this run lies."""
HELD: dict[str, Callable[[Served], Connection]] = {"in_process": InProcess, "stdio": OverStdio}


@cache
def made() -> Path:
    retry = "def retry_delay(attempt):\n    return %s\n"
    readme = "# Client\n\n## Retries\n\nThe delay between two attempts doubles each time.\n"
    first: Files = {"src/retry.py": retry % "1.0", "README.md": readme}
    return make_repo([("2026-01-01", first), ("2026-03-01", {"src/retry.py": retry % "2.0**attempt"})]).path


PROVIDERS: dict[str, Callable[[], tuple[Served, bytes]]] = {
    "fake": lambda: (FAKE, PLACE),
    "repository": lambda: (repository(made()), str(made()).encode()),
}


@requirement("shape", "line", "stdout", "host-environment", "shutting_down")
@pytest.mark.parametrize("way", HELD)
@pytest.mark.parametrize("path", sorted(SESSIONS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_a_session_is_held_as_it_is_written(path: Path, way: str, update: bool) -> None:
    head, *rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if way not in head.get("ways", HELD):
        return
    served, place = PROVIDERS[head["provider"]]()
    connection = HELD[way](served)
    held = list(hold(connection, rows, place))
    assert [] == connection.close()
    if update:
        lines = [json.dumps(row, ensure_ascii=False) for row in (head, *held)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert rows == held


def hold(connection: Connection, rows: Sequence[Any], place: bytes) -> Iterator[dict[str, Any]]:
    for row in rows:
        line = encode(row["host"]) if isinstance(row["host"], dict) else row["host"].encode("latin-1")
        connection.send(line.replace(PLACE, place))
        reply = None if row["reply"] is None else connection.receive()
        yield {"host": row["host"], "reply": json.loads(settled(json.dumps(reply), place.decode()))}


def settled(reply: str, place: str) -> str:
    """The reply with the repository at its usual place; scores are left to the ranking's own golden files."""
    return re.sub(r'"score": [-+.e0-9]+', '"score": 0.5', reply.replace(place, PLACE.decode()))


def test_there_is_a_golden_session_for_each_envelope_and_each_error_code() -> None:
    rows = [json.loads(line) for path in SESSIONS.glob("*.ndjson") for line in path.read_text().splitlines()[1:]]
    said = {row["host"]["type"] for row in rows if isinstance(row["host"], dict)}
    replies = [row["reply"] for row in rows if row["reply"] is not None]
    assert {"handshake", "query", "verify", "shutdown"} <= said
    assert {"handshake_ack", "frames", "verified", "error"} == {reply["type"] for reply in replies}
    codes = "bad_request unsupported_kind unsupported_representation incompatible_version budget_unsatisfiable "
    codes += "unavailable shutting_down internal"
    assert set(codes.split()) == {reply["code"] for reply in replies if reply["type"] == "error"}
