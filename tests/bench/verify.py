"""Verdicts on 1, 100, 1,000 and 10,000 frames a host still holds, beside hashing as many files once.

    python -m tests.bench verify --repo PATH [--json FILE] [--count N]

The frames are those of real answers, of now and of past instants; more are had by repeating them. A fresh server
verifies them with outlines from the store, then once more. The peer is what the simplest verifier would do: read and
hash the file of every frame.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench._measure import Host, Table, arguments, git, questions


def main() -> None:
    typed = arguments(__doc__, count=150)
    table = Table()
    goals = questions(typed.repo, typed.count)
    with tempfile.TemporaryDirectory() as store:
        host = Host(typed.repo, "--store", store, "--deadline", "0")
        held: list[dict[str, Any]] = []
        for goal in goals:
            held += map(_held, host.query(goal)["result"]["frames"])
        host.settle()
        host.close()
        print(f"{len(held)} different frames")
        for size in (1, 100, 1_000, 10_000):
            asked = [held[number % len(held)] for number in range(size)]
            host = Host(typed.repo, "--store", store, "--deadline", "0")
            host.query(goals[0])
            host.settle()
            for name in ("first", "again"):
                before, started = host.cpu(), time.perf_counter()
                reply = host.ask({"type": "verify", "request": {"frames": asked}})
                seconds = time.perf_counter() - started
                verdicts = [each["status"] for each in reply["response"]["verdicts"]]
                said = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted(set(verdicts)))
                table.add(f"{size} frames, {name}", seconds, host.cpu() - before, said)
            host.close()
    started, cpu = time.perf_counter(), time.process_time()
    files = [Path(typed.repo, name) for name in git(typed.repo, "ls-files", "-z").decode().split("\0") if name]
    hashed = sum(bool(hashlib.sha256(file.read_bytes()).digest()) for file in files[:1_000] if file.is_file())
    table.add(f"read and hash {hashed} files", time.perf_counter() - started, time.process_time() - cpu)
    table.write(typed.json)


def _held(frame: dict[str, Any]) -> dict[str, Any]:
    return {"provider_id": "repo-provider", "frame_id": frame["id"], "content_digest": frame["content_digest"]}


if __name__ == "__main__":
    main()
