"""One made repository at growing sizes: time, memory and store a step, and a long history.

    python -m tests.bench scale [--files N] [--commits N] [--json FILE]

Sizes grow tenfold from 1,000 files to `--files`; then a repository of 1,000 files gets `--commits` commits. Each row
set is of a fresh store: the first answer under the default deadline (cut or not), the time until everything is read,
warm questions, the scan for edits on its own, memory with idle workers, the store beside the text.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from repo_provider.repository import Repository
from tests.bench._measure import Host, Table, arguments, folder_bytes, git, percentile, timed_queries

WORDS = [
    a + b
    for a in "ba ce di fo gu ha je ki lo mu na pe ri so tu".split()
    for b in "ck ld mp nt rd sh tter vel wing zon".split()
]


def main() -> None:
    typed = arguments(__doc__, repo="", files=10_000, commits=10_000)
    table = Table()
    size = 1_000
    while size <= typed.files:
        _step(table, f"{size:,} files", size, 1)
        size *= 10
    _step(table, f"{typed.commits:,} commits", 1_000, typed.commits)
    table.write(typed.json)


def _step(table: Table, name: str, files: int, commits: int) -> None:
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as store:
        git(place, "init", "-q", "--initial-branch=main")
        subprocess.run(
            ["git", "-C", place, "fast-import", "--quiet"], input=b"".join(_stream(files, commits)), check=True
        )
        git(place, "reset", "-q", "--hard", "main")
        goals = [f"where is {WORDS[n]} {WORDS[-n - 1]} handled" for n in range(40)]
        host = Host(place, "--store", store)
        started = time.perf_counter()
        result = host.query(goals[0])["result"]
        cut = result["truncated"] and "dropped_estimate" not in result
        table.add(f"{name}: first answer", time.perf_counter() - started, note="cut" if cut else "complete")
        host.settle(600)
        table.add(f"{name}: everything read", time.perf_counter() - host.spawned, host.cpu())
        times, cpu = timed_queries(host, goals)
        table.spread(f"{name}: warm questions", times, cpu)
        repository = Repository.open(place)
        repository.working_tree()
        scans = []
        for _ in range(10):
            started = time.perf_counter()
            repository.working_tree()
            scans.append(time.perf_counter() - started)
        table.add(f"{name}: scan for edits", percentile(scans, 50))
        time.sleep(12)  # until idle workers have ended
        text = sum(each.stat().st_size for each in Path(place).rglob("*.py"))
        told = f"PSS {host.pss() / 1e6:.0f} MB, store {folder_bytes(store) / 1e6:.1f} MB, text {text / 1e6:.1f} MB"
        table.add(f"{name}: memory and store", note=told)
        host.close()


def _stream(files: int, commits: int) -> Iterator[bytes]:
    """What `git fast-import` makes the repository of: all files at once, then a file a commit."""
    chance = random.Random(1)
    for number in range(commits):
        yield b"commit refs/heads/main\ncommitter A <a@b> %d +0000\n" % (1_600_000_000 + 60 * number)
        told = f"Handle {chance.choice(WORDS)} in {chance.choice(WORDS)}\n".encode()
        yield b"data %d\n%s\n" % (len(told), told)
        for file in range(files) if number == 0 else [chance.randrange(files)]:
            text = _text(chance, file).encode()
            yield b"M 644 inline src/part%d/module%d.py\ndata %d\n%s\n" % (file // 100, file, len(text), text)


def _text(chance: random.Random, number: int) -> str:
    def words(count: int) -> list[str]:
        return chance.choices(WORDS, k=count)

    functions = (
        f'def {"_".join(words(2))}(value):\n    """{" ".join(words(8))}."""\n'
        + "".join(f"    {'_'.join(words(2))} = {'.'.join(words(2))}(value)\n" for _ in range(6))
        + f"    return {chance.choice(WORDS)}\n\n\n"
        for _ in range(5)
    )
    return f'"""Module {number}: {" ".join(words(6))}."""\n\n\n' + "".join(functions)


if __name__ == "__main__":
    main()
