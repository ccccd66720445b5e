"""The first-parent line of what is served, as an index: which commit an instant means, and how long a content stood.

The one rule: the effective time of a commit on the line is the later of its committer time and the effective time of
its first parent, in whole seconds; an instant is answered from the newest commit whose effective time is not after
it. So a later instant never gives an older commit, whatever clocks said (unlike `git rev-list --before`). Windows
are half open (Q2, P3): from the effective time of the commit that brought a content to that of the one that took it.

Everything is a function of the repository's state (P1). What is worked out is kept in parts of `PART` commits, in
memory and in the store, so a new tip costs the commits that are new; a store that forgets costs time only (P7).
Deadlines are readings of `time.monotonic`; where one passes, `Late` is raised or a shorter, certain answer given.
"""

from __future__ import annotations

import hashlib
import time
from bisect import bisect_right
from collections import OrderedDict
from functools import cached_property

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import replace

from repo_provider.model import CommitId, KeyValues, Snapshot
from repo_provider.protocol import Instant
from repo_provider.repository import Header, Missing, Objects, Repository

PART = 512


class Late(Exception):
    """The deadline passed before the answer was there; asking again goes on where this stopped."""


def check(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() > deadline:
        raise Late


# --- the line --------------------------------------------------------------------------------------------------


class Line:
    """First-parent commits, oldest first, with their root trees, committer times and effective times.

    `cut` says that there is older history which is not here (shallow clone, lost object).
    """

    def __init__(self, commits: list[CommitId], trees: list[bytes], written: list[int], cut: bool) -> None:
        self.commits = commits
        self.trees = trees
        self.written = written
        self.cut = cut
        self.times: list[int] = []
        latest = None
        for when in written:
            latest = when if latest is None else max(latest, when)
            self.times.append(latest)

    def __len__(self) -> int:
        return len(self.commits)

    @cached_property
    def positions(self) -> dict[CommitId, int]:
        return {commit: position for position, commit in enumerate(self.commits)}

    def at(self, instant: int) -> int:
        """Position of the commit an instant means; -1 before the first."""
        return bisect_right(self.times, instant) - 1

    def window(self, position: int) -> tuple[Instant | None, Instant | None]:
        """When the commit itself was the answer. Nothing for one that no instant means: hidden by the next one."""
        opens = Instant(self.times[position])
        if position + 1 == len(self):
            return opens, None
        closes = Instant(self.times[position + 1])
        return (None, None) if opens == closes else (opens, closes)

    def ahead(self) -> list[tuple[CommitId, int]]:
        """Commits dated later than a commit after them, with how many of those they hide."""
        found: list[tuple[CommitId, int]] = []
        position = 0
        while position < len(self):
            end = self.at(self.times[position])
            hidden = sum(when < self.times[position] for when in self.written[position + 1 : end + 1])
            if hidden:
                found.append((self.commits[position], hidden))
            position = end + 1
        return found

    def upto(self, position: int) -> Line:
        end = position + 1
        return Line(self.commits[:end], self.trees[:end], self.written[:end], self.cut)


class _Part(Struct, frozen=True, array_like=True):
    """`PART` commits of a line as the store keeps them, found by the last one's id. `before` is the part before's."""

    before: bytes
    commits: bytes
    trees: bytes
    written: list[int]


_encoder = msgpack.Encoder()
_part_decoder = msgpack.Decoder(_Part)


class History:
    """What a repository's history says; for any number of threads."""

    def __init__(self, repository: Repository, store: KeyValues | None = None) -> None:
        self.repository = repository
        self.store = store
        self._headers: dict[CommitId, Header] = {}
        self._lines: OrderedDict[CommitId, Line] = OrderedDict()

    # --- instants

    def line(self, tip: CommitId, deadline: float | None = None) -> Line:
        """The first-parent line that ends in a commit. Raises Late."""
        known = self._lines.get(tip)
        if known is None:
            known = self._known_line(tip) or self._read_line(tip, deadline)
            self._lines[tip] = known
            while len(self._lines) > 4:
                self._lines.popitem(last=False)
        return known

    def at(self, instant: Instant, deadline: float | None = None) -> Snapshot | None:
        """The snapshot an instant means; None before the first commit, or where there is none. Raises Late."""
        tip = self.repository.head()
        if tip is None:
            return None
        line = self.line(tip, deadline)
        position = line.at(instant)
        return None if position < 0 else self._snapshot(line, position, tip)

    def snapshot(self, commit: CommitId, deadline: float | None = None) -> Snapshot:
        """A commit's files. `opens` and `closes` are None where it is not on the served line. Raises Late, Missing."""
        tip = self.repository.head()
        line = None if tip is None else self.line(tip, deadline)
        position = None if line is None else line.positions.get(commit)
        if tip is None or line is None or position is None:
            return self.repository.tree(commit)
        return self._snapshot(line, position, tip)

    def _snapshot(self, line: Line, position: int, tip: CommitId) -> Snapshot:
        opens, closes = line.window(position)
        tree = self.repository.tree(line.commits[position])
        return replace(tree, opens=opens, closes=closes, head_commit=tip)

    def _known_line(self, tip: CommitId) -> Line | None:
        for line in list(self._lines.values()):
            position = line.positions.get(tip)
            if position is not None:
                return line.upto(position)
        return None

    def _read_line(self, tip: CommitId, deadline: float | None) -> Line:
        """Walk back to the first commit that a known line or the store holds, then take the rest from there."""
        shallow = self.repository.shallow()
        before: Line | None = None
        new: list[tuple[CommitId, Header]] = []
        cut = False
        with self.repository.objects() as objects:
            commit = tip
            while True:
                before = self._known_line(commit)
                if before is None and len(new) % PART == PART - 1:
                    before = self._stored_line(new, shallow)
                if before is not None:
                    break
                try:
                    header = self.header(objects, commit)
                except Missing:
                    if not new:
                        raise
                    cut = True
                    break
                new.append((commit, header))
                if commit in shallow or not header.parents:
                    cut = commit in shallow
                    break
                commit = header.parents[0]
                if not len(new) % 64:
                    check(deadline)
        return self._joined(before, new, cut, shallow)

    def _joined(
        self,
        before: Line | None,
        new: list[tuple[CommitId, Header]],
        cut: bool,
        shallow: frozenset[CommitId],
    ) -> Line:
        held = 0 if before is None else len(before)
        start = Line([], [], [], cut) if before is None else before
        new = [pair for pair in new if before is None or pair[0] not in before.positions]
        line = Line(
            start.commits + [commit for commit, _ in reversed(new)],
            start.trees + [header.tree for _, header in reversed(new)],
            start.written + [header.time for _, header in reversed(new)],
            start.cut,
        )
        self._keep(line, held, shallow)
        return line

    def header(self, objects: Objects, commit: CommitId) -> Header:
        known = self._headers.get(commit)
        if known is None:
            known = objects.header(commit)
            if len(self._headers) > 200_000:
                self._headers.clear()
            self._headers[commit] = known
        return known

    # --- parts of the line in the store

    def _keep(self, line: Line, held: int, shallow: frozenset[CommitId]) -> None:
        if self.store is None or (line.cut and line.commits[0] not in shallow):
            return  # cut by a lost object: positions would move when it comes back
        parts: dict[bytes, bytes] = {}
        for start in range(held // PART * PART, len(line) - PART + 1, PART):
            end = start + PART
            part = _Part(
                line.commits[start - 1] if start else b"",
                b"".join(line.commits[start:end]),
                b"".join(line.trees[start:end]),
                line.written[start:end],
            )
            parts[_key(shallow, line.commits[end - 1])] = _encoder.encode(part)
        if parts:
            self.store.put_many("line", parts)

    def _stored_line(self, new: list[tuple[CommitId, Header]], shallow: frozenset[CommitId]) -> Line | None:
        """The line up to the one among the newest commits walked that ends a stored part."""
        if self.store is None:
            return None
        keys = {_key(shallow, commit): commit for commit, _ in new[-PART:]}
        found = {keys[key]: value for key, value in self.store.get_many("line", list(keys)).items()}
        parts: list[_Part] = []
        for commit, value in found.items():
            parts = self._chain(commit, value, shallow)
        if not parts:
            return None
        parts.reverse()
        return Line(
            [CommitId(part.commits[at : at + 20]) for part in parts for at in range(0, len(part.commits), 20)],
            [part.trees[at : at + 20] for part in parts for at in range(0, len(part.trees), 20)],
            [when for part in parts for when in part.written],
            cut=parts[0].commits[:20] in shallow,
        )

    def _chain(self, commit: CommitId, value: bytes | None, shallow: frozenset[CommitId]) -> list[_Part]:
        """All parts up to one, the newest first; nothing where one of them is gone."""
        parts: list[_Part] = []
        name: bytes = commit
        while value is not None and self.store is not None:
            try:
                part = _part_decoder.decode(value)
            except (DecodeError, ValueError):
                return []
            if part.commits[-20:] != name or len(part.commits) != 20 * PART:
                return []
            parts.append(part)
            name = part.before
            if not name:
                return parts
            key = _key(shallow, CommitId(name))
            value = self.store.get_many("line", [key]).get(key)
        return []


def _key(shallow: frozenset[CommitId], commit: CommitId) -> bytes:
    """Where a clone is shallow decides how far back a line goes, so it is part of the name."""
    where = hashlib.sha1(b"".join(sorted(shallow)), usedforsecurity=False).digest()[:8] if shallow else b""
    return where + commit
