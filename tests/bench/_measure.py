"""What the benchmarks share: rows that are printed and kept, a provider spoken to as hosts do, questions, clones."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct


class Row(Struct, frozen=True):
    """One line of a table: seconds by the clock, processor seconds where they are known, and what else is to say."""

    name: str
    seconds: float | None = None
    cpu: float | None = None
    note: str = ""


class Table:
    """Rows as they are measured, in one run, the peer beside us."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, name: str, seconds: float | None = None, cpu: float | None = None, note: str = "") -> None:
        self.rows.append(Row(name, seconds, cpu, note))
        shown = [
            "" if value is None else f"{value * 1000:.1f} ms{unit}" for value, unit in ((seconds, ""), (cpu, " cpu"))
        ]
        print(f"{name:58}{shown[0]:>13}{shown[1]:>17}  {note}", flush=True)

    def timed(self, name: str, work: Callable[[], object], note: Callable[[Any], str] = lambda _: "") -> None:
        started, cpu_started = time.perf_counter(), cpu_seconds()
        said = work()
        self.add(name, time.perf_counter() - started, cpu_seconds() - cpu_started, note(said))

    def spread(self, name: str, seconds: Sequence[float], cpu: float | None = None, note: str = "") -> None:
        """The median, with the higher percentiles beside it; `cpu` is that of all of them together."""
        each = None if cpu is None else cpu / len(seconds)
        others = f"p95 {percentile(seconds, 95) * 1000:.1f} ms, p99 {percentile(seconds, 99) * 1000:.1f} ms"
        self.add(name, percentile(seconds, 50), each, f"median of {len(seconds)}; {others}{'; ' if note else ''}{note}")

    def write(self, path: str | None) -> None:
        if path:
            rows = [{"row": row.name, "seconds": row.seconds, "cpu": row.cpu, "note": row.note} for row in self.rows]
            Path(path).write_text(json.dumps(rows, indent=1))


def percentile(values: Sequence[float], share: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def arguments(doc: str | None, **more: Any) -> argparse.Namespace:
    """What is typed after the name of a benchmark: `--repo`, `--json`, and numbers with their defaults."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--repo", required="repo" not in more, default=more.pop("repo", None))
    parser.add_argument("--json", help="also write the rows to this file")
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    typed = parser.parse_args()
    typed.repo = typed.repo and os.path.abspath(typed.repo)
    return typed


class Host:
    """A spawned provider with a host's environment, spoken to in lock-step."""

    def __init__(self, repo: str, *options: str, command: Sequence[str] = ()) -> None:
        self.spawned = time.perf_counter()
        self._process = subprocess.Popen(
            command or [sys.executable, "-m", "repo_provider", "serve", "-C", repo, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        self.ask({"type": "handshake", "protocol_version": "contextgraph/1.0"})
        self.ready = time.perf_counter()

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        return reply

    def query(self, goal: str, **members: Any) -> dict[str, Any]:
        asked = {"goal": goal, "max_frames": 8, "max_tokens": 2000, **members}
        reply = self.ask({"type": "query", "query": asked})
        assert reply["type"] == "frames", reply
        return reply

    def cpu(self) -> float:
        return tree_cpu(self._process.pid)

    def pss(self) -> int:
        return tree_pss(self._process.pid)

    def files(self) -> int:
        """Files the server has open."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def settle(self, seconds: float = 120.0) -> None:
        """Wait until work in the background has ended: until the processes use no more processor time."""
        ends, before, quiet = time.monotonic() + seconds, self.cpu(), 0
        while time.monotonic() < ends:
            time.sleep(1.0)
            now = self.cpu()
            quiet = quiet + 1 if now - before < 0.02 else 0
            if quiet == 3:
                return
            before = now

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def timed_queries(host: Host, goals: Sequence[str], **members: Any) -> tuple[list[float], float]:
    """Seconds of each, and the processor seconds of all."""
    times, cpu = [], host.cpu()
    for goal in goals:
        started = time.perf_counter()
        host.query(goal, **members)
        times.append(time.perf_counter() - started)
    return times, host.cpu() - cpu


def questions(repo: str, count: int) -> list[str]:
    """Different real questions: what the repository's own commits say they did, evenly over its history."""
    subjects = git(repo, "log", "--no-merges", "--format=%s").decode("utf-8", "replace").splitlines()
    told = [text for text in dict.fromkeys(subjects) if len(text.split()) >= 3]
    return [told[len(told) * number // count] for number in range(min(count, len(told)))]


def git(repo: str, *typed: str) -> bytes:
    return subprocess.run(["git", "-C", repo, *typed], check=True, stdout=subprocess.PIPE).stdout


@contextmanager
def cloned(repo: str) -> Iterator[Path]:
    """A clone to change, gone afterwards."""
    with tempfile.TemporaryDirectory() as parent:
        place = Path(parent, "clone")
        subprocess.run(["git", "clone", "-q", repo, str(place)], check=True)
        git(str(place), "config", "user.email", "bench@example.com")
        git(str(place), "config", "user.name", "Bench")
        yield place


def run_peer(*command: str) -> tuple[float, float] | None:
    """Seconds and processor seconds of another program; None where it is not there."""
    if shutil.which(command[0]) is None:
        return None
    started, cpu = time.perf_counter(), os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    done = os.times()
    return (
        time.perf_counter() - started,
        done.children_user + done.children_system - cpu.children_user - cpu.children_system,
    )


def cpu_seconds() -> float:
    """Processor seconds of this process and its children so far."""
    ended = os.times()
    running = sum(tree_cpu(pid) for pid in _children(os.getpid()))
    return time.process_time() + ended.children_user + ended.children_system + running


def tree_cpu(pid: int) -> float:
    """Processor seconds of a process and those below it; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(tree_cpu(child) for child in _children(pid))


def tree_pss(pid: int) -> int:
    """Proportional set size of a process and those below it, in bytes; 0 where the system does not tell."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    own = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
    return own + sum(tree_pss(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    try:
        listed = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in listed for child in text.split()]


def folder_bytes(path: str | Path) -> int:
    return sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file())
