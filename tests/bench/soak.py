"""One server for a long time: questions, edits, commits, branch switches, verdicts; what grows and what slows down.

    python -m tests.bench soak --repo PATH [--minutes N] [--json FILE]

Works on a clone. Every minute is one round of the same work: questions about the working tree and about past instants,
with and without anchors and kinds, each followed by verdicts on what has been handed out; an edit, a new file, a
commit, a switch to another branch and back. Rows, each of the second five minutes and of the last ten: memory of all
processes (PSS, workers come and go) and open files of the server; a question's time by the clock and by the processor,
since a machine is rarely alone for an hour. Every answer is checked for what must never happen: an error, a frame
outside its budget, a frame just handed out that is not valid.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.bench._measure import Host, Table, arguments, cloned, git, percentile, questions

KINDS: tuple[tuple[str, ...], ...] = ((), (), (), ("snippet",), ("doc",), ("episode",), ("graph",), ("symbol",))


class Round(Struct):
    """One minute: seconds a question took, each, by the clock; by the processor, all; what the processes held after."""

    wall: list[float]
    cpu: float
    pss: int
    files: int


class Soak:
    def __init__(self, host: Host, place: Path, goals: list[str]) -> None:
        self.host, self.place, self.goals = host, place, goals
        self.chance = random.Random(1)
        times = map(int, git(str(place), "log", "--first-parent", "-400", "--format=%ct", "HEAD").split())
        self.instants = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in times]
        self.paths = [name for name in git(str(place), "ls-files").decode().splitlines() if name.endswith(".py")]
        self.faults: list[str] = []
        git(str(place), "branch", "-q", "soak-before", "HEAD~3")
        self.home = git(str(place), "rev-parse", "--abbrev-ref", "HEAD").decode().strip()

    def minute(self, number: int) -> Round:
        """The work of one minute, and rest until it is over."""
        ends = time.monotonic() + 60
        done = Round([], 0.0, 0, 0)
        for turn in range(12):
            self.change(number, turn)
            for _ in range(5):
                self.ask(done)
            time.sleep(max(0.0, ends - 60 + 5 * (turn + 1) - time.monotonic()))
        done.pss, done.files = self.host.pss(), self.host.files()
        return done

    def change(self, number: int, turn: int) -> None:
        """What a person does meanwhile."""
        repo = str(self.place)
        if turn % 4 == 0:
            file = self.place / self.chance.choice(self.paths)
            if file.is_file():
                file.write_bytes(file.read_bytes() + b"\n# soak %d %d\n" % (number, turn))
        elif turn == 5:
            (self.place / f"soak_{number % 10}.py").write_text(f"def soak_{number}():\n    return {number}\n")
            git(repo, "add", "-A")
            git(repo, "commit", "-q", "-m", f"Soak {number}")
        elif turn in (6, 7):
            git(repo, "stash", "-q", "-u")
            git(repo, "checkout", "-q", "soak-before" if turn == 6 else self.home)

    def ask(self, done: Round) -> None:
        """One question, then verdicts on its frames."""
        members: dict[str, Any] = {"goal": self.chance.choice(self.goals), "max_frames": 8, "max_tokens": 2000}
        if kinds := self.chance.choice(KINDS):
            members["kinds"] = kinds
        if self.chance.random() < 0.3:
            members["as_of"] = self.chance.choice(self.instants)
        if self.chance.random() < 0.4:
            members["anchors"] = [self.chance.choice(self.paths)]
        started, cpu = time.perf_counter(), self.host.cpu()
        reply = self.host.ask({"type": "query", "query": members})
        done.wall.append(time.perf_counter() - started)
        done.cpu += self.host.cpu() - cpu
        if reply["type"] != "frames":
            self.faults.append(f"{reply}"[:200])
            return
        frames = reply["result"]["frames"]
        if len(frames) > 8 or sum(frame["token_cost"] for frame in frames) > 2000:
            self.faults.append(f"over budget: {members}")
        held = [
            {"provider_id": "repo-provider", "frame_id": frame["id"], "content_digest": frame["content_digest"]}
            for frame in frames
        ]
        verdicts = self.host.ask({"type": "verify", "request": {"frames": held}})["response"]["verdicts"]
        self.faults += [f"{verdict}" for verdict in verdicts if verdict["status"] != "valid"]


def main() -> None:
    typed = arguments(__doc__, minutes=60)
    table = Table()
    with cloned(typed.repo) as place, tempfile.TemporaryDirectory() as store:
        git(str(place), "config", "gc.auto", "0")
        host = Host(str(place), "--store", store)
        soak = Soak(host, place, questions(typed.repo, 300))
        rounds = []
        for number in range(typed.minutes):
            rounds.append(soak.minute(number))
            last = rounds[-1]
            median, each = percentile(last.wall, 50) * 1000, last.cpu / len(last.wall) * 1000
            shown = f"{last.pss / 1e6:.0f} MB, {last.files} files, {median:.0f} ms, {each:.0f} ms cpu"
            print(f"minute {number}: {shown}, {len(soak.faults)} faults", flush=True)
        host.close()
    early, late = rounds[5:10] or rounds, rounds[-10:]
    for name, some in (("a question, second five minutes", early), ("a question, last ten minutes", late)):
        wall = [each for one in some for each in one.wall]
        table.spread(name, wall, sum(one.cpu for one in some))
    for what, unit in (("pss", 1e6), ("files", 1)):
        start, end = (sum(getattr(one, what) for one in some) / len(some) / unit for some in (early, late))
        table.add(f"{what}, the same minutes, means", note=f"{start:.0f} -> {end:.0f} ({end / start - 1:+.1%})")
    table.add("faults", note=f"{len(soak.faults)} {soak.faults[:3]}")
    table.write(typed.json)


if __name__ == "__main__":
    main()
