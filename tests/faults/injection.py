"""Faults that are made to happen to a real process: what they are done to, and what must be true afterwards.

    with Place(tmp_path) as place:
        with serving(place) as host: ...        # something happens to it
        place.holds()                           # and the next one's answers are right, and nothing was left behind

Right answers are those of a process without a store or a deadline. `REPO_PROVIDER_ROUNDS=200` makes everything that is
done at random be done so often, and everything that takes a while take a minute.
"""

from __future__ import annotations

import os
import random
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path
from time import monotonic, sleep

from tests import fake
from tests.connect import HANDSHAKE, PATIENCE, Envelope, InProcess, OverStdio, Served, query, repository
from tests.repos import Files, make_repo

LONG = int(os.environ.get("REPO_PROVIDER_ROUNDS", "0"))
SECONDS = 60.0 if LONG else 2.0
"""What is done for a while is done for so long."""
BRANCHES = ("refs/heads/main", "refs/heads/side", "refs/heads/far")
UNPRIVILEGED = """
import ctypes, struct
libc = ctypes.CDLL(None)
libc.prctl(8, 1, 0, 0, 0)  # keep what root may do
os.setgroups([]), os.setgid(65534), os.setuid(65534)
may_read = struct.pack("6I", 6, 6, 6, 0, 0, 0)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
assert libc.syscall(126, struct.pack("Ii", 0x20080522, 0), may_read) == 0
assert not any(libc.prctl(47, 2, right, 0, 0) for right in (1, 2))  # also behind exec
"""
"""Python that makes root nobody but for reading and writing whatever it likes."""

QUESTIONS: Sequence[Envelope] = (
    query("harbour master berths a ship", "1"),
    query("where is a cargo weighed", "2", anchors=["lib/part_3.rb"]),
    query("why was the crane changed", "3", kinds=["episode"]),
    query("manifest of part 5", "4", as_of="2026-01-03T00:00:00Z"),
    query("tide table", "5", kinds=["symbol", "doc", "graph"]),
)


def rounds(short: int) -> int:
    return LONG or short


def chance(*seed: object) -> random.Random:
    return random.Random(repr(seed))


def source(suffix: str, number: int, edit: int = 0) -> str:
    """A file of a dozen definitions, of no other file's words but a few."""
    of = [f"{what}_{number}_{n}" for n in range(3) for what in ("berth", "weigh", "crane", "tide")]
    if suffix == "rb":
        return "\n".join(f"def {name}(cargo)\n  harbour.master(cargo, {edit})\nend\n" for name in of)
    if suffix == "md":
        return "\n".join(f"# {name}\n\nThe harbour master's tide table, edition {edit}.\n" for name in of)
    return "\n".join(f"def {name}(cargo):\n    return harbour_master(cargo, {edit})\n" for name in of)


class Place:
    """A repository with branches and a past, a store for it, and what is to be answered from it."""

    def __init__(self, folder: Path, files: int = 40) -> None:
        self.store = folder / "stores"
        self.names = [f"lib/part_{n}.{('py', 'rb', 'md')[n % 3]}" for n in range(files)]
        first: Files = {name: source(name[-2:], n) for n, name in enumerate(self.names)}
        self.made = make_repo([("2026-01-01", first)], folder / "repo")
        self.path = self.made.path
        for day in range(2, 6):
            self.made.commit(f"2026-01-0{day}", {self.names[day]: self.edited(day, day)}, message=f"Crane {day}\n")
        for number, branch in enumerate(BRANCHES[1:]):
            changed: Files = {name: self.edited(n, 99) for n, name in enumerate(self.names) if n % (4 + number) == 0}
            self.made.commit("2026-01-07", changed, ref=branch, parents=[self.made.tip()])
        self._reference: InProcess | None = None

    def edited(self, number: int, edit: int) -> str:
        return source(self.names[number][-2:], number, edit)

    def edit(self, number: int, edit: int) -> None:
        self.made.write(self.names[number], self.edited(number, edit))

    def command(self, *options: str) -> tuple[str, ...]:
        typed = ("-C", str(self.path), "--store", str(self.store), "--workers", "2", *options)
        return (sys.executable, "-m", "repo_provider", "serve", *typed)

    def expected(self) -> list[object]:
        """The answers of a process without a store or a deadline."""
        if self._reference is None:
            self._reference = InProcess(repository(self.path))
            self._reference.ask(HANDSHAKE)
        return self.answers(self._reference)

    def answers(self, host: InProcess | OverStdio) -> list[object]:
        return [answered(host, question) for question in QUESTIONS]

    def holds(self, *options: str) -> None:
        """The next process's answers are right, and then its store holds what is listed there and nothing else."""
        with serving(self, "--deadline", "0", *options) as host:
            assert self.expected() == self.answers(host)
        assert [] == self.leftovers()

    def leftovers(self) -> list[str]:
        return [str(file) for file in self.store.rglob("*") if file.name.endswith(".tmp")]

    def close(self) -> None:
        if self._reference is not None:
            self._reference.close()

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def answered(host: InProcess | OverStdio, question: Envelope) -> object:
    """What is to be the same: everything but the order in which answers come."""
    reply = host.ask(question)
    assert "frames" == reply["type"], reply
    return reply["result"]


def spawned(command: Sequence[str]) -> OverStdio:
    return OverStdio(Served(fake.service, command))  # of the two, the command


def honest(reply: Envelope, expected: object) -> bool:
    """Whether an answer is the whole one, says that it is not, or is none and says so."""
    if reply["type"] == "error":
        return reply["code"] in ("unavailable", "internal")
    cut = reply["result"]["truncated"] and "dropped_estimate" not in reply["result"]
    return cut or reply["result"] == expected


@contextmanager
def serving(place: Place, *options: str, limits: str = "") -> Iterator[OverStdio]:
    """A process that has shaken hands. `limits` is Python that it runs before it is what it is."""
    command = place.command(*options)
    if limits:
        start = "import os, resource, signal, sys\n" + limits + "\nos.execv(sys.argv[1], sys.argv[1:])"
        command = (sys.executable, "-c", start, *command)
    with nothing_written(place.path):
        host = spawned(command)
        try:
            host.ask(HANDSHAKE)
            yield host
        finally:
            try:
                host.close()
            finally:
                assert [] == orphans(host)


@contextmanager
def nothing_written(where: Path) -> Iterator[None]:
    before = manifest(where)
    yield
    assert before == manifest(where)


def manifest(where: Path) -> Mapping[str, object]:
    """Everything in a repository, `.git` included: what it is, when it changed, what it holds."""
    found: dict[str, object] = {}
    for folder, folders, names in os.walk(where):
        for name in (".", *folders, *names):
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            held = sha1(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
            found[path] = (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, held)
    return found


def orphans(host: OverStdio) -> list[int]:
    """Processes of a host's session that are still there after a moment."""
    until = monotonic() + 10
    while (left := _session(host.process.pid)) and monotonic() < until:
        sleep(0.02)
    return left


def _session(leader: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                state, _, _, session = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:4]
                if session == str(leader) and state != "Z":
                    found.append(int(name))
    return found


def workers(host: OverStdio) -> list[int]:
    return [process for process in _session(host.process.pid) if process != host.process.pid]


def kill(host: OverStdio) -> None:
    """As a host does that has no patience, or the system that has no memory: without a word."""
    with suppress(ProcessLookupError):
        os.kill(host.process.pid, signal.SIGKILL)
    host.process.wait(PATIENCE)
    for pipe in (host.process.stdin, host.process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
