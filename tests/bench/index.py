"""Whole-repository indexing beside a bare parse of the same bytes and ctags, its memory and its store.

    python -m tests.bench.index --repo PATH [--json FILE]

Each row is timed in this one run, in the order printed. "Bare parse + query" is what any tool pays that parses every
file with tree-sitter and runs the same queries over it, and then throws the result away; "ours" are the stages of this
provider. Rows name how many processes they use; the last row compares what used the same number, by the processor
time that all of them took (by the clock where the system does not tell), so that a busy machine does not decide it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from repo_provider import corpus, files, lexical, syntax
from repo_provider.model import Path as RepositoryPath
from repo_provider.model import Text
from repo_provider.repository import Repository
from repo_provider.store import Store
from repo_provider.workers import Workers

Row = tuple[str, float, str]
_Item = tuple[RepositoryPath, bytes, Text]


def measure(repository_path: str) -> list[Row]:
    repository = Repository.open(repository_path)
    rows: list[Row] = []

    cpu: dict[str, float] = {}

    def timed(name: str, work: Callable[[], str]) -> None:
        started, cpu_started = time.perf_counter(), _cpu()
        said = work()
        cpu[name] = _cpu() - cpu_started
        rows.append((name, time.perf_counter() - started, said))
        print(f"{name:52}{rows[-1][1]:9.3f} s {cpu[name]:9.3f} s cpu   {said}", flush=True)

    items: list[_Item] = []
    timed("list and read every file", lambda: _read(repository, items))
    timed("bare tree-sitter parse + query, one process", lambda: _bare_parse(items))
    workers = Workers(os.cpu_count() or 1)
    timed(f"bare tree-sitter parse + query, {workers.count} workers", lambda: _bare_in_workers(items, workers))
    if shutil.which("ctags"):
        timed("ctags -R", lambda: _ctags(repository_path))
    timed("ours: level one, one process", lambda: _level_one(items))
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(directory, repository_path)
        timed(f"ours: level one, {workers.count} workers", lambda: _in_workers(items, workers, lexical.Index(store)))
        timed(f"ours: level one into the store, {workers.count} workers", lambda: _stored(items, workers, store))
        timed("ours: level one back from the store, first view", lambda: _back(items, store))
        timed(f"ours: outlines of every file, {workers.count} workers", lambda: _outlines(items, workers, store))
        timed("store, flushed", lambda: f"{store.flush() and store.facts().size / 1e6:.1f} MB")
        parts = [name for name in cpu if name.startswith(("ours: level one into", "ours: outl", "store"))]
        ours = sum(map(cpu.__getitem__, parts))
        bare = cpu[f"bare tree-sitter parse + query, {workers.count} workers"]
        rows.append(("level one + outlines + store : bare parse + query", ours, f"{ours / bare:.2f}"))
        print(f"{rows[-1][0]:52}{'':12}{ours:9.3f} s cpu   {rows[-1][2]}")
        rows.append(("PSS of this process and its workers", 0.0, f"{_pss() / 1e6:.0f} MB"))
        print(f"{rows[-1][0]:52}{'':9}     {rows[-1][2]}")
        workers.close()
        store.close()
    return rows


def _read(repository: Repository, items: list[_Item]) -> str:
    snapshot = repository.working_tree()
    for path, entry in snapshot.entries.items():
        data = repository.read(snapshot, path)
        if data is not None and files.unserved(path, data) is None:
            items.append((path, entry.blob, Text(data)))
    return f"{len(items)} files, {sum(len(text.data) for _, _, text in items) / 1e6:.1f} MB"


def _bare_parse(items: Sequence[_Item]) -> str:
    parsed = sum(len(t.data) for p, _, t in items if _parse(t.data, files.language_of(p, t.data).name))
    return f"{parsed / 1e6:.1f} MB of languages with a grammar"


def _bare_in_workers(items: Sequence[_Item], workers: Workers) -> str:
    payloads = [syntax.encode_task(text.data, files.language_of(path, text.data).name) for path, _, text in items]
    done = workers.run("tests.bench.index:bare_task", payloads, wall=60.0)
    return f"{len(done) - done.count(None)} files"


def bare_task(payload: bytes) -> bytes:
    language, data = msgspec.msgpack.decode(payload, type=tuple[str, bytes])
    _parse(data, language)
    return b""


def _parse(data: bytes, language: str) -> bool:
    """Parse and match, as `syntax` would, and drop what is found; False where there is no grammar."""
    from tree_sitter import QueryCursor

    analyser = syntax._analyser(language)
    if isinstance(analyser, str):
        return False
    tree = analyser.parser.parse(data)
    QueryCursor(analyser.query, match_limit=syntax.MATCH_LIMIT).matches(tree.root_node)
    return True


def _ctags(path: str) -> str:
    command = ["ctags", "-R", "--exclude=.git", "-f", "-", path]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    tags = done.stdout.count(b"\n")
    return "failed" if done.returncode else f"{tags:,} tags"


def _keyed(items: Sequence[_Item]) -> list[tuple[bytes, bytes, lexical.Rules]]:
    rules = [corpus._rules(files.language_of(path, text.data).name) for path, _, text in items]
    return [(blob + b"", text.data, rule) for (_, blob, text), rule in zip(items, rules, strict=True)]


def _level_one(items: Sequence[_Item]) -> str:
    segment = lexical.segment_of(_keyed(items))
    return f"{segment.size:,} postings, {len(segment.to_bytes()) / 1e6:.1f} MB"


def _in_workers(items: Sequence[_Item], workers: Workers, index: lexical.Index) -> str:
    batches: list[list[tuple[bytes, bytes, lexical.Rules]]] = [[]]
    size = 0
    for item in _keyed(items):
        batches[-1].append(item)
        size += len(item[1])
        if size >= 1 << 20:
            batches.append([])
            size = 0
    payloads = [lexical.analyse_payload(batch) for batch in batches]
    counted = workers.run("repo_provider.lexical:analyse_task", payloads, wall=60.0)
    index.add_segments([segment for segment in counted if segment is not None])
    return f"{len(payloads)} batches"


def _stored(items: Sequence[_Item], workers: Workers, store: Store) -> str:
    index = lexical.Index(store)
    _in_workers(items, workers, index)
    _view(items, index)
    index.flush()
    return f"{store.facts().size / 1e6:.1f} MB"


def _back(items: Sequence[_Item], store: Store) -> str:
    view = _view(items, lexical.Index(store))
    return f"{view.match(['matrix', 'token', 'error']).lengths['body'].sum():,.0f} words"


def _view(items: Sequence[_Item], index: lexical.Index) -> lexical.View:
    return index.view([(path, blob) for path, blob, _ in items])


def _outlines(items: Sequence[_Item], workers: Workers, store: Store) -> str:
    payloads = [syntax.encode_task(text.data, files.language_of(path, text.data).name) for path, _, text in items]
    outlines = workers.run("repo_provider.syntax:outline_task", payloads, wall=60.0)
    found = {blob: data for (_, blob, _), data in zip(items, outlines, strict=True) if data is not None}
    store.put_many("outlines", found)
    return f"{len(found)} outlines, {sum(map(len, found.values())) / 1e6:.1f} MB"


def _cpu() -> float:
    """Processor seconds of this process and its children so far; the clock where the system does not tell."""
    if not Path("/proc/self/stat").exists():
        return time.perf_counter()
    ticks = 0
    for pid in _children():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system + ticks / os.sysconf("SC_CLK_TCK")


def _pss() -> int:
    """Proportional set size of this process and its children, 0 where the system does not tell."""
    total = 0
    for pid in [os.getpid(), *_children()]:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
    return total


def _children() -> list[int]:
    """Child processes of any of our threads."""
    return [int(pid) for listed in Path("/proc/self/task").glob("*/children") for pid in listed.read_text().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repo", required=True)
    parser.add_argument("--json", help="also write the rows to this file")
    typed = parser.parse_args()
    rows = measure(os.path.abspath(typed.repo))
    if typed.json:
        Path(typed.json).write_text(json.dumps([{"row": n, "seconds": s, "note": t} for n, s, t in rows], indent=1))


if __name__ == "__main__":
    main()
