"""Warm questions: many different real ones, after an edit, after a commit, beside ripgrep over the same words.

    python -m tests.bench query --repo PATH [--json FILE] [--count N]

Asked over a pipe of a server that has read everything, as a host asks. Edits and commits are made in a clone. The
first round asks each question for the first time, so outlines of new files are read from the store; the second finds
them in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench._measure import Host, Table, arguments, cloned, git, questions, run_peer, timed_queries


def main() -> None:
    typed = arguments(__doc__, count=200)
    table = Table()
    goals = questions(typed.repo, typed.count)
    with cloned(typed.repo) as place, tempfile.TemporaryDirectory() as store:
        host = Host(str(place), "--store", store, "--deadline", "0")
        host.query(goals[0])
        host.settle()
        table.spread("asked for the first time", *timed_queries(host, goals))
        table.spread("asked again", *timed_queries(host, goals))
        table.add("memory, workers idle", note=f"PSS {host.pss() / 1e6:.0f} MB")
        changed = _some_file(place)
        table.spread("after an edit each", *_after(host, goals[:40], lambda number: _edit(changed, number)))
        table.spread("after a commit each", *_after(host, goals[:40], lambda number: _commit(place, changed, number)))
        host.close()
        _ripgrep(table, str(place), goals)
    table.write(typed.json)


def _some_file(place: Path) -> Path:
    """The middle one of the tracked files by size that are neither small nor large."""
    files = [place / name for name in git(str(place), "ls-files", "-z").decode().split("\0") if name]
    sized = sorted((file.stat().st_size, file) for file in files if file.is_file() and not file.is_symlink())
    return [file for size, file in sized if 4_000 < size < 100_000][-1]


def _after(host: Host, goals: list[str], change: Callable[[int], None]) -> tuple[list[float], float]:
    times, cpu = [], 0.0
    for number, goal in enumerate(goals):
        change(number)
        found, used = timed_queries(host, [goal])
        times += found
        cpu += used
    return times, cpu


def _edit(file: Path, number: int) -> None:
    file.write_bytes(file.read_bytes() + b"# edit %d\n" % number)


def _commit(place: Path, file: Path, number: int) -> None:
    _edit(file, number)
    git(str(place), "commit", "-qam", f"Edit {number}")


def _ripgrep(table: Table, place: str, goals: list[str]) -> None:
    times, cpu = [], 0.0
    for goal in goals[:50]:
        words = [word for word in goal.split() if word.isalnum()] or ["the"]
        started = time.perf_counter()
        ran = run_peer("rg", "-c", "-i", "|".join(words), place)
        if ran is None:
            return
        times.append(time.perf_counter() - started)
        cpu += ran[1]
    table.spread("ripgrep: files with any of the words", times, cpu)


if __name__ == "__main__":
    main()
