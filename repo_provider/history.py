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
import os
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import accumulate, islice, pairwise
from typing import TypeAlias, cast

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import replace

from repo_provider.changes import MAX_CHANGES, Differ, Wanted, file_at, renames, wanted
from repo_provider.commits import Commit, Message, Messages, read_commit, read_message, renamed_forward
from repo_provider.model import BlobId, CommitId, KeyValues, Late, Path, Snapshot, Text, check
from repo_provider.protocol import Digest, Instant, digest
from repo_provider.repository import Header, Missing, Objects, Repository

PART, STEP = 512, 128
"""Commits in a stored part of the line, and in one of what they changed: few reads for a whole line, little to redo."""

MESSAGES = 8000
"""How many of the newest commits' messages explain files."""

AT_ONCE = 16
"""Parts worked out at a time."""

FORESEEN = 1 << 15
"""How many of the newest commits' messages are read ahead, for questions about instants to come."""

MANY = 1024
"""Messages to read for which other processes are worth their way."""

RUNS = 64
"""How many contents of a file a window is followed through, each way."""


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
        self.times = list(accumulate(written, max))

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


Event: TypeAlias = tuple[int, BlobId | None, BlobId | None]
"""Position on the line of a commit that changed a path, and the path's file before and after it."""


class Events(Struct, frozen=True, array_like=True, dict=True):
    """What the commits of one part of a line changed, path by path: packed, since there is much and little is asked.

    `ends` are those of each path's events in `positions`; `blobs` are the file before and after each, zeros for none.
    """

    paths: list[bytes]
    ends: list[int]
    positions: list[int]
    blobs: bytes

    @classmethod
    def packed(cls, found: Mapping[Path, Sequence[Event]]) -> Events:
        events = [event for mine in found.values() for event in mine]
        blobs = b"".join((was or _NO_BLOB) + (now or _NO_BLOB) for _, was, now in events)
        return cls(list(found), list(accumulate(map(len, found.values()))), [event[0] for event in events], blobs)

    def of(self, path: Path) -> list[Event]:
        place = self._places.get(path)
        if place is None:
            return []
        start = self.ends[place - 1] if place else 0
        return [
            (self.positions[at], self._blob(2 * at), self._blob(2 * at + 1)) for at in range(start, self.ends[place])
        ]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {path: place for place, path in enumerate(self.paths)}

    def _blob(self, at: int) -> BlobId | None:
        blob = self.blobs[20 * at : 20 * at + 20]
        return None if blob == _NO_BLOB else BlobId(blob)


_NO_BLOB = bytes(20)

_encoder = msgpack.Encoder()
_part_decoder = msgpack.Decoder(_Part)
_events_decoder = msgpack.Decoder(Events)
_message_decoder = msgpack.Decoder(Message)
_landed_decoder = msgpack.Decoder(tuple[bytes, list[tuple[CommitId, Instant]]])
_renames_decoder = msgpack.Decoder(dict[bytes, bytes])


class Window(Struct, frozen=True):
    """Half open; None where nothing bounds it on that side."""

    opens: Instant | None = None
    closes: Instant | None = None


class Windows(Struct, frozen=True):
    """One window a piece. `complete` is False where the deadline cut some short to what is certain."""

    windows: tuple[Window, ...]
    complete: bool = True


class Run(Struct, frozen=True):
    """A time in which a file read the same: its path then, its blob, and when."""

    path: Path
    blob: BlobId
    commit: CommitId
    opens: Instant
    closes: Instant | None = None


Bulk: TypeAlias = Callable[[str, Sequence[bytes], float | None], Sequence[bytes | None]]
"""Does a task (`module:function`, bytes to bytes) for many payloads elsewhere, until a deadline; None: not done."""


class History:
    """What a repository's history says; for any number of threads. `bulk` is who helps where there is much to read."""

    def __init__(self, repository: Repository, store: KeyValues | None = None, bulk: Bulk | None = None) -> None:
        self.repository = repository
        self.store = store
        self.bulk = bulk
        self._lock = threading.Lock()
        self._headers: dict[CommitId, Header] = {}
        self._lines: OrderedDict[CommitId, Line] = OrderedDict()
        self._parts: OrderedDict[tuple[CommitId, int], Events] = OrderedDict()
        self._looked: OrderedDict[tuple[CommitId, int], dict[Path, list[Event] | None]] = OrderedDict()
        self._not_stored: set[tuple[CommitId, int]] = set()
        self._windows: OrderedDict[tuple[object, ...], Window] = OrderedDict()
        self._messages: OrderedDict[tuple[CommitId, int], Messages] = OrderedDict()
        self._message: dict[CommitId, Message] = {}
        self._commits: OrderedDict[CommitId, Commit] = OrderedDict()
        self._edits: OrderedDict[tuple[BlobId, BlobId], Edit] = OrderedDict()
        self._renamed: OrderedDict[CommitId, dict[Path, Path]] = OrderedDict()
        self._landings: tuple[CommitId | None, int, dict[CommitId, Instant]] = (None, 0, {})
        self._state: object = None

    def _keep_up(self) -> None:
        """Forget what may hang on objects that were not here: a clone was deepened, packs came or went."""
        state = self.repository.state()
        with self._lock:
            if state != self._state:
                self._state = state
                self._lines.clear()
                self._looked.clear()
                self._windows.clear()
                self._messages.clear()
                self._message.clear()
                self._commits.clear()
                self._renamed.clear()
                self._landings = (None, 0, {})

    # --- instants

    def line(self, tip: CommitId, deadline: float | None = None) -> Line:
        """The first-parent line that ends in a commit. Raises Late."""
        self._keep_up()
        known = self._lines.get(tip)
        if known is None:
            known = self._known_line(tip) or self._read_line(tip, deadline)
        with self._lock:
            self._lines[tip] = known
            self._lines.move_to_end(tip)
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
        return None if position < 0 else self._snapshot(line, position, tip, deadline)

    def snapshot(self, commit: CommitId, deadline: float | None = None) -> Snapshot:
        """A commit's files. `opens` and `closes` are None where it is not on the served line. Raises Late, Missing."""
        tip = self.repository.head()
        line = None if tip is None else self.line(tip, deadline)
        position = None if line is None else line.positions.get(commit)
        if tip is None or line is None or position is None:
            return self.repository.tree(commit, deadline)
        return self._snapshot(line, position, tip, deadline)

    def _snapshot(self, line: Line, position: int, tip: CommitId, deadline: float | None) -> Snapshot:
        opens, closes = line.window(position)
        tree = self.repository.tree(line.commits[position], deadline)
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

    # --- what changed

    def build(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Work out what every commit on the line changed, newest first; False where `stop` said so in between."""
        tip = self.repository.head()
        if tip is None:
            return True
        line = self.line(tip)
        parts = range((len(line) - 1) // STEP, -1, -1)
        at_once = 1 if self.bulk is None else AT_ONCE
        for start in range(0, len(parts), at_once):
            if stop():
                return False
            self._build(line, parts[start : start + at_once])
        return True

    def _build(self, line: Line, parts: Sequence[int]) -> None:
        """Make sure that these parts are in the store; where there is none, in memory."""
        lasting = self.store is not None and self.bulk is not None and self._lasting(line)
        todo = [part for part in parts if _name(line, part)[0] not in self._parts]
        keys = {_key(self.repository.shallow(), _name(line, part)[0][0]): part for part in todo}
        if self.store is not None:
            keys = {key: keys[key] for key in keys.keys() - self.store.get_many("changes", list(keys)).keys()}
        whole = {part: key for key, part in keys.items() if lasting and _name(line, part)[1]}
        payloads = [_encoder.encode(_EventsTask.of(self.repository, line, part)) for part in whole]
        done = [] if self.bulk is None or not payloads else self.bulk(_EVENTS_TASK, payloads, None)
        found = {part: data for part, data in zip(whole, done, strict=False) if data}
        if self.store is not None and found:
            self.store.put_many("changes", {whole[part]: data for part, data in found.items()})
        self._not_stored.clear()
        for part in sorted(set(keys.values()) - found.keys(), reverse=True):
            self.events(line, part)

    def events(self, line: Line, part: int, deadline: float | None = None) -> Events | None:
        """What the commits of one part of the line changed; None where a tree is missing. Raises Late."""
        name, whole = _name(line, part)
        known = self._known_events(line, part)
        if known is not None:
            return known
        found = self._read_events(line, part, deadline)
        if found is None:
            return None
        events = Events.packed(found)
        self._hold(name, events)
        if self.store is not None and whole and self._lasting(line):
            self.store.put_many("changes", {_key(self.repository.shallow(), name[0]): _encoder.encode(events)})
        return events

    def events_of(
        self, path: Path, line: Line, part: int, deadline: float | None, company: Sequence[Path] = ()
    ) -> Sequence[Event] | None:
        """What they did to one path; None where a tree on the way is missing. Raises Late.

        Where it is not known what they changed, no more is looked at than this and the paths in its company.
        """
        name, _ = _name(line, part)
        looked = self._looked.get(name, {})
        if path in looked:
            return looked[path]
        known = self._known_events(line, part)
        if known is not None:
            return known.of(path)
        with self._lock:
            looked = self._looked.setdefault(name, looked)
            while len(self._looked) > 1024:
                self._looked.popitem(last=False)
        if path not in looked:
            new = {path, *company} - looked.keys()
            found = self._read_events(line, part, deadline, wanted(new))
            if found is None and new != {path}:
                new = {path}
                found = self._read_events(line, part, deadline, wanted(new))
            looked.update((one, None if found is None else found.get(one, [])) for one in new)
        return looked[path]

    def _known_events(self, line: Line, part: int) -> Events | None:
        name, whole = _name(line, part)
        if whole and name not in self._parts and name not in self._not_stored:
            self._fetch_events(line, part)
        return self._parts.get(name)

    def _read_events(self, line: Line, part: int, deadline: float | None, only: Wanted | None = None) -> _Found | None:
        end = min((part + 1) * STEP, len(line))
        first = part * STEP
        if first == 0 and line.cut:
            first = 1  # what the first one here changed is not known
        with self.repository.objects() as objects:
            return _events(objects, line.trees[max(first - 1, 0) : end], first, deadline, only)

    def _fetch_events(self, line: Line, part: int) -> None:
        """Take this part and its neighbours from the store."""
        if self.store is None:
            return
        shallow = self.repository.shallow()
        first = part // 16 * 16
        keys: dict[bytes, tuple[CommitId, int]] = {}
        for near in range(first, min(first + 16, len(line) // STEP)):
            name = line.commits[(near + 1) * STEP - 1], near
            if name not in self._parts and name not in self._not_stored:
                keys[_key(shallow, name[0])] = name
        for key, value in self.store.get_many("changes", list(keys)).items():
            with suppress(DecodeError, ValueError):
                self._hold(keys.pop(key), _events_decoder.decode(value))
        self._not_stored.update(keys.values())

    def _hold(self, name: tuple[CommitId, int], events: Events) -> None:
        with self._lock:
            self._parts[name] = events
            while len(self._parts) > 512:
                self._parts.popitem(last=False)

    def _renames(
        self, commit: CommitId, before: bytes | None, after: bytes, deadline: float | None = None
    ) -> dict[Path, Path]:
        """New path -> old path of the files a commit on the line moved."""
        known = self._renamed.get(commit)
        if known is None:
            known = self._stored_renames(commit)
        if known is None:
            with self.repository.objects() as objects:
                try:
                    known = renames(list(Differ(objects, deadline).changes(before, after)), objects, deadline)
                except Missing:
                    known = {}
                lasting = not objects.lacked
            if self.store is not None and lasting:
                self.store.put_many("renames", {commit: _encoder.encode(known)})
        with self._lock:
            self._renamed[commit] = known
            while len(self._renamed) > 1024:
                self._renamed.popitem(last=False)
        return known

    def _stored_renames(self, commit: CommitId) -> dict[Path, Path] | None:
        value = None if self.store is None else self.store.get_many("renames", [commit]).get(commit)
        if value is not None:
            with suppress(DecodeError, ValueError):
                return cast("dict[Path, Path]", _renames_decoder.decode(value))
        return None

    # --- windows

    def windows(
        self,
        pieces: Sequence[tuple[Path, bytes]],
        snapshot: Snapshot,
        deadline: float | None = None,
        *,
        whole: bool = False,
    ) -> Windows:
        """How long each piece, whole lines of a path's file in a snapshot, stood there, through renames.

        `whole`: the pieces are whole files, and stood as long as there was nothing beside them.
        Beside the working tree only what HEAD's tree holds byte for byte has a beginning: of an edited file the lines
        that were not touched. Nothing is raised: past the deadline a piece has the window of the snapshot's commit,
        in which it surely stood, or none where that is not sure.
        """
        tip = snapshot.head_commit
        certain = Window(snapshot.opens, snapshot.closes)
        if tip is None:
            return Windows((certain,) * len(pieces))
        try:
            line = self.line(tip, deadline)
        except Late:
            return Windows((certain,) * len(pieces), complete=False)
        position = line.positions.get(snapshot.commit or tip)
        if position is None or line.window(position) == (None, None):
            return Windows((certain,) * len(pieces))
        found: dict[int, Window] = {}
        complete = True
        keys = [
            (tip, snapshot.commit, path, hashlib.sha1(data, usedforsecurity=False).digest(), whole)
            for path, data in pieces
        ]
        paths = sorted({path for path, _ in pieces})
        with self.repository.objects() as objects:
            for path in paths:
                mine = {index: data for index, (of, data) in enumerate(pieces) if of == path}
                edited = snapshot.commit is None and not _committed(snapshot, path)
                if edited and (whole or path not in (snapshot.head or ())):
                    found |= dict.fromkeys(mine, Window())
                    continue
                found |= {index: window for index in mine if (window := self._windows.get(keys[index])) is not None}
                mine = {index: data for index, data in mine.items() if index not in found}
                trace = _Trace(self, objects, line, path, position, deadline, paths, whole)
                try:
                    traced = trace.windows(mine, forward=snapshot.commit is not None, edited=edited) if mine else {}
                except Late:
                    opens, closes = line.window(position)
                    sure = Window() if edited else Window(opens, None if snapshot.commit is None else closes)
                    found |= dict.fromkeys(mine, sure)
                    complete = False
                else:
                    found |= traced
                    self._note({keys[index]: window for index, window in traced.items()})
        return Windows(tuple(found[index] for index in range(len(pieces))), complete)

    def _note(self, windows: Mapping[tuple[object, ...], Window]) -> None:
        with self._lock:
            self._windows.update(windows)
            while len(self._windows) > 20_000:
                self._windows.popitem(last=False)

    def runs(self, path: Path, snapshot: Snapshot, deadline: float | None = None) -> list[Run]:
        """Every content a path's file had up to a snapshot, newest first, through renames. Raises Late."""
        place = self._lines_of(snapshot, deadline)
        if place is None or path not in self.repository.tree(place[0].commits[place[1]], deadline).entries:
            return []
        line, position = place
        found: list[Run] = []
        closes: Instant | None = None
        with self.repository.objects() as objects:
            for at, name, blob in _Trace(self, objects, line, path, position, deadline, (path,)).back():
                opens = Instant(line.times[at])
                found.append(Run(name, blob, line.commits[at], opens, closes))
                closes = opens
        return found

    # --- commits

    def messages(self, snapshot: Snapshot, limit: int = MESSAGES, deadline: float | None = None) -> Messages:
        """The newest non-merge messages seen from a snapshot's commit along all parents.

        Newest means first met on a walk that always takes the latest committer time next, then the larger id: the
        order of `git log`. Raises Late; what was worked out by then is kept.
        """
        tip = snapshot.commit or snapshot.head_commit
        if tip is None:
            return Messages()
        known = self._messages.get((tip, limit))
        if known is None:
            landed = self._landed(snapshot.head_commit or tip, tip, limit, deadline)
            found = self._read_messages(list(landed), deadline)
            known = Messages(tuple(renamed_forward(found)), landed)
            with self._lock:
                self._messages[tip, limit] = known
                while len(self._messages) > 4:
                    self._messages.popitem(last=False)
        return known

    def foresee(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Put into the store what the first question about a past instant would have to read: once for a branch.

        Later commits need nothing more, since each was among the newest before it was among the old.
        """
        tip, place = self.repository.head(), b"foreseen " + self._branch
        if tip is None or self.store is None or self.bulk is None:
            return
        line = self.line(tip)
        upto = self.store.get_many("newest", [place]).get(place)
        if upto in line.positions or not self._lasting(line):
            return
        with suppress(Missing):
            commits = self._newest(tip, FORESEEN, None)[1][MESSAGES:]
            for start in range(0, len(commits), AT_ONCE * STEP):
                if stop():
                    return
                some = commits[start : start + AT_ONCE * STEP]
                known = self.store.get_many("messages", some)
                self._work_out_in_bulk([commit for commit in some if commit not in known], None)
            self.store.put_many("newest", {place: tip})

    def _newest(
        self, tip: CommitId, limit: int, deadline: float | None
    ) -> tuple[dict[CommitId, tuple[CommitId, ...]], list[CommitId]]:
        """Every commit the walk met with its parents, and those of them that are asked for."""
        shallow = self.repository.shallow()
        walked: dict[CommitId, tuple[CommitId, ...]] = {}
        chosen: list[CommitId] = []
        seen = {tip}
        with self.repository.objects() as objects:
            queue = [(-self.header(objects, tip).time, tip)]
            while queue and len(chosen) < limit:
                commit = heappop(queue)[1]
                header = self.header(objects, commit)
                walked[commit] = () if commit in shallow else header.parents
                if len(header.parents) < 2:
                    chosen.append(commit)
                for parent in walked[commit]:
                    if parent not in seen:
                        seen.add(parent)
                        with suppress(Missing):
                            heappush(queue, (-self.header(objects, parent).time, parent))
                        if not len(seen) % 64:
                            check(deadline)
        return walked, chosen

    def _read_messages(self, commits: Sequence[CommitId], deadline: float | None) -> list[Message]:
        found = {commit: self._message[commit] for commit in commits if commit in self._message}
        if self.store is not None:
            for key, value in self.store.get_many("messages", [c for c in commits if c not in found]).items():
                with suppress(DecodeError, ValueError):
                    found[CommitId(key)] = self._message[CommitId(key)] = _message_decoder.decode(value)
        missing = [commit for commit in commits if commit not in found]
        if self.bulk is not None and len(missing) > MANY:
            helped = self._work_out_in_bulk(missing, deadline)
            self._message.update(helped)
            check(deadline)
            found |= helped
            missing = [commit for commit in missing if commit not in helped]
        for start in range(0, len(missing), STEP):
            found |= self._work_out(missing[start : start + STEP], deadline)
        if len(self._message) > 4 * MESSAGES:
            self._message = dict(found)
        return [found[commit] for commit in commits]

    def _work_out_in_bulk(self, commits: Sequence[CommitId], deadline: float | None) -> dict[CommitId, Message]:
        assert self.bulk is not None
        runs = [commits[start : start + STEP] for start in range(0, len(commits), STEP)]
        payloads = [_encoder.encode(_MessagesTask.of(self.repository, run)) for run in runs]
        found: dict[CommitId, Message] = {}
        for done in self.bulk(_MESSAGES_TASK, payloads, deadline):
            answer = None if done is None else _messages_decoder.decode(done)
            if answer is not None:
                found |= {message.commit: message for message in answer.messages}
                if self.store is not None:
                    kept = {message.commit: _encoder.encode(message) for message in answer.messages}
                    self.store.put_many("messages", {key: kept[key] for key in answer.lasting})
        return found

    def _work_out(self, commits: Sequence[CommitId], deadline: float | None) -> dict[CommitId, Message]:
        shallow = self.repository.shallow()
        found: dict[CommitId, Message] = {}
        with self.repository.objects() as objects:
            differ = Differ(objects, deadline)
            for commit in commits:
                check(deadline)
                header = self.header(objects, commit)
                found[commit] = read_message(objects, differ, commit, header, commit in shallow)
            lasting = not objects.lacked
        self._message.update(found)
        if self.store is not None and lasting:
            kept = {commit: _encoder.encode(found[commit]) for commit in commits if commit not in shallow}
            self.store.put_many("messages", cast(dict[bytes, bytes], kept))
        return found

    def _landed(self, served: CommitId, tip: CommitId, limit: int, deadline: float | None) -> dict[CommitId, Instant]:
        """The newest commits and when each came to be on the line: with the first commit there that reaches it."""
        known = self._known_landings(tip, limit) if served == tip else None
        if known is not None:
            return known
        line = self.line(served, deadline)
        found = self._landed_upon(line, limit) if served == tip else None
        if found is None:
            found = self._land(line, tip, limit, deadline)
        if served == tip:
            self._landings = tip, limit, found
            if self.store is not None and self._lasting(line):
                self.store.put_many("newest", {self._branch: _encoder.encode((self._of(tip, limit), [*found.items()]))})
        return found

    @property
    def _branch(self) -> bytes:
        """What landings are stored under: one row a branch, since only its tip's are worth keeping."""
        return os.fsencode(self.repository.head_name())

    def _of(self, tip: CommitId, limit: int) -> bytes:
        return _key(self.repository.shallow(), tip) + limit.to_bytes(4, "big")

    def _known_landings(self, tip: CommitId, limit: int) -> dict[CommitId, Instant] | None:
        """What was worked out for this commit before, here or in the store."""
        if self._landings[:2] == (tip, limit):
            return self._landings[2]
        kept = None if self.store is None else self.store.get_many("newest", [self._branch]).get(self._branch)
        if kept is not None:
            with suppress(DecodeError, ValueError):
                whose, pairs = _landed_decoder.decode(kept)
                if whose == self._of(tip, limit):
                    self._landings = tip, limit, dict(pairs)
                    return self._landings[2]
        return None

    def _landed_upon(self, line: Line, limit: int) -> dict[CommitId, Instant] | None:
        """The same for a commit right upon the one it was last worked out for: the walk goes on from there."""
        before, same_limit, known = self._landings
        if len(line) < 2 or line.commits[-2] != before or same_limit != limit:
            return None
        with self.repository.objects() as objects:
            if len(self.header(objects, line.commits[-1]).parents) != 1:
                return None
        return {line.commits[-1]: Instant(line.times[-1]), **dict(islice(known.items(), limit - 1))}

    def _land(self, line: Line, tip: CommitId, limit: int, deadline: float | None) -> dict[CommitId, Instant]:
        walked, chosen = self._newest(tip, limit, deadline)
        landed: dict[CommitId, Instant] = {}
        for position in sorted(line.positions[commit] for commit in walked if commit in line.positions):
            pending = [line.commits[position]]
            while pending:
                commit = pending.pop()
                if commit in walked and commit not in landed:
                    landed[commit] = Instant(line.times[position])
                    pending.extend(walked[commit])
        return {commit: landed[commit] for commit in chosen}

    def commit(self, commit: CommitId) -> Commit:
        """A commit with its message and the hunks of its diff. Raises Missing."""
        self._keep_up()
        known = self._commits.get(commit)
        if known is None:
            with self.repository.objects() as objects:
                known = read_commit(objects, commit, commit in self.repository.shallow())
            with self._lock:
                self._commits[commit] = known
                while len(self._commits) > 64:
                    self._commits.popitem(last=False)
        return known

    def cited(self, commit: CommitId) -> Digest:
        """The digest of a commit object as git stores it. Raises Missing."""
        with self.repository.objects() as objects:
            return digest(objects.commit(commit))

    def reaches(self, tip: CommitId, commit: CommitId) -> bool:
        """Whether a commit is part of the history that ends in `tip`, along all parents.

        Raises Missing where some of that history is not here and the rest does not have the commit.
        """
        if commit in (self._known_landings(tip, MESSAGES) or ()):
            return True
        shallow = self.repository.shallow()
        seen, pending = {tip}, [(0, tip)]  # parents of the newest first: what is asked for is seldom old
        whole = True
        with self.repository.objects() as objects:
            while pending:
                _, name = heappop(pending)
                if name == commit:
                    return True
                try:
                    header = None if name in shallow else self.header(objects, name)
                except Missing:
                    header = None
                if header is None:
                    whole = False
                    continue
                for parent in header.parents:
                    if parent not in seen:
                        heappush(pending, (-header.time, parent))
                        seen.add(parent)
        if not whole:
            raise Missing(commit)
        return False

    # --- names

    def path_then(self, path: Path, snapshot: Snapshot, deadline: float | None = None) -> Path | None:
        """What a path of today was called in a snapshot: itself where that holds it, else through renames.

        None where it was not there yet. Raises Late.
        """
        if path in snapshot.entries:
            return path
        found = self._lines_of(snapshot, deadline)
        if found is None:
            return None
        line, position = found
        with self.repository.objects() as objects:
            trace = _Trace(self, objects, line, path, len(line) - 1, deadline, (path,))
            return trace.then(position, snapshot.entries)

    def path_now(self, path: Path, snapshot: Snapshot, deadline: float | None = None) -> Path | None:
        """What a path of a snapshot is called in the tip's tree; None where it is not there any more. Raises Late."""
        found = self._lines_of(snapshot, deadline)
        if found is None:
            return path if snapshot.commit is None else None
        line, position = found
        today = self.repository.tree(line.commits[-1], deadline).entries
        if path in today:
            return path
        with self.repository.objects() as objects:
            return _Trace(self, objects, line, path, position, deadline, (path,)).now(today)

    def _lines_of(self, snapshot: Snapshot, deadline: float | None) -> tuple[Line, int] | None:
        """The served line of a snapshot and its place there."""
        tip = snapshot.head_commit
        if tip is None:
            return None
        line = self.line(tip, deadline)
        position = line.positions.get(snapshot.commit or tip)
        return None if position is None else (line, position)

    def edit(self, one: BlobId, other: BlobId, read: Callable[[BlobId], bytes]) -> Edit:
        """What two contents share. Raises Missing where one of them is not here."""
        known = self._edits.get((one, other))
        if known is None:
            known = _edit(read(one), read(other))
            with self._lock:
                self._edits[one, other] = known
                while len(self._edits) > 100_000:
                    self._edits.popitem(last=False)
        return known

    # --- parts of the line in the store

    def _lasting(self, line: Line) -> bool:
        """Not so where a lost object cuts the line: positions would move when it comes back."""
        return not line.cut or line.commits[0] in self.repository.shallow()

    def _keep(self, line: Line, held: int, shallow: frozenset[CommitId]) -> None:
        if self.store is None or not self._lasting(line):
            return
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


def _name(line: Line, part: int) -> tuple[tuple[CommitId, int], bool]:
    """What a part of the line is called in memory, and whether it is a whole one."""
    end = min((part + 1) * STEP, len(line))
    return (line.commits[end - 1], part), end == (part + 1) * STEP


def _key(shallow: frozenset[CommitId], commit: CommitId) -> bytes:
    """Where a clone is shallow decides how far back a line goes, so it is part of the name."""
    where = hashlib.sha1(b"".join(sorted(shallow)), usedforsecurity=False).digest()[:8] if shallow else b""
    return where + commit


_Found: TypeAlias = dict[Path, list[Event]]


def _events(
    objects: Objects, trees: Sequence[bytes], first: int, deadline: float | None = None, only: Wanted | None = None
) -> _Found | None:
    """What the commits with these trees changed, from position `first` on; the tree before that leads, if any.

    None where a tree is missing, or they changed more than is looked at.
    """
    found: _Found = {}
    differ = Differ(objects, deadline)
    befores = [None, *trees] if first == 0 else trees
    count = 0
    try:
        for position, (before, after) in enumerate(pairwise(befores), first):
            check(deadline)
            for change in differ.changes(before, after, only):
                found.setdefault(change.path, []).append((position, change.before, change.after))
                count += 1
                if count > MAX_CHANGES:
                    return None
    except Missing:
        return None
    return found


def _committed(snapshot: Snapshot, path: Path) -> bool:
    entry = snapshot.entries.get(path)
    return entry is not None and snapshot.head is not None and snapshot.head.get(path) == entry.blob


def place(data: bytes, piece: bytes) -> int:
    """Where a run of whole lines stands in a file, byte for byte, as whole lines; -1 where it does not."""
    at = data.find(piece)
    while at >= 0:
        end = at + len(piece)
        if (at == 0 or data[at - 1] == 10) and (end == len(data) or data[end - 1] == 10):
            return at
        at = data.find(piece, at + 1)
    return -1


class Edit(Struct, frozen=True):
    """What two contents of a file share at both ends, in whole lines: most pieces are told from it, with no reading."""

    prefix: int
    suffix: int
    grown: int
    size: int

    def moved(self, start: int, piece: bytes) -> int | None:
        """Where a piece of the one content stands in the other; None where only a look can tell."""
        if start + len(piece) <= self.prefix and piece.endswith(b"\n"):
            return start
        return start + self.grown if start >= self.size - self.suffix else None


def _edit(one: bytes, other: bytes) -> Edit:
    shorter = min(len(one), len(other))
    prefix = _common(shorter, lambda size: one[:size] == other[:size])
    suffix = _common(shorter, lambda size: one[len(one) - size :] == other[len(other) - size :])
    line_end = one.find(b"\n", len(one) - suffix) + 1
    return Edit(
        one.rfind(b"\n", 0, prefix) + 1, len(one) - line_end if line_end else 0, len(other) - len(one), len(one)
    )


def _common(most: int, equal: Callable[[int], bool]) -> int:
    """The largest size at which two things are equal, being equal at every smaller one."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if equal(middle) else (least, middle - 1)
    return least


class _Trace:
    """One file followed from a commit on the line, back and forward. `company` are paths whose turn comes, too.

    Only the last commit of an instant is ever an answer, so only what it holds counts as a state: what came and went
    between two commits of one effective time was never there. An event's effect is seen at its time's last commit.
    """

    def __init__(
        self,
        history: History,
        objects: Objects,
        line: Line,
        path: Path,
        position: int,
        deadline: float | None,
        company: Sequence[Path],
        whole: bool = False,
    ) -> None:
        self.whole = whole
        self.history = history
        self.objects = objects
        self.line = line
        self.path = path
        self.position = position
        self.deadline = deadline
        self.company = company
        self._read: dict[BlobId, bytes] = {}

    def windows(self, pieces: Mapping[int, bytes], forward: bool, edited: bool = False) -> dict[int, Window]:
        """With `edited`, what the commit does not hold is in no commit, and has no beginning."""
        own = self._blob_at(self.position, self.path)
        standing = {} if own is None else self._placed(pieces, own)
        opens: dict[int, Instant | None] = dict.fromkeys(
            pieces, None if edited else Instant(self.line.times[self.position])
        )
        if own is not None:
            opens |= self._opens(pieces, standing, own)
        closes = self._closes(pieces, standing, own) if forward and own is not None else {}
        return {index: Window(opens[index], closes.get(index)) for index in pieces}

    def _opens(self, pieces: Mapping[int, bytes], standing: dict[int, int], blob: BlobId) -> dict[int, Instant]:
        opens: dict[int, Instant] = {}
        for count, (at, _, older) in enumerate(self.back()):
            if count:
                standing = self._still(pieces, standing, blob, older)
            opens |= dict.fromkeys(standing, Instant(self.line.times[at]))
            blob = older
            if not standing or count == RUNS:
                break
        return opens

    def _closes(self, pieces: Mapping[int, bytes], standing: dict[int, int], blob: BlobId) -> dict[int, Instant]:
        closes: dict[int, Instant] = {}
        for count, (at, newer) in enumerate(self.forward()):
            left = {} if newer is None or count == RUNS else self._still(pieces, standing, blob, newer)
            closes |= dict.fromkeys(standing.keys() - left.keys(), Instant(self.line.times[at]))
            if newer is None or not left:
                break
            standing, blob = left, newer
        return closes

    def _placed(self, pieces: Mapping[int, bytes], blob: BlobId) -> dict[int, int]:
        """Where each piece stands in a content; none where that content is not there to be read."""
        try:
            data = self._blob(blob)
        except Missing:
            return {}
        found = {index: place(data, piece) for index, piece in pieces.items()}
        return {index: at for index, at in found.items() if at >= 0}

    def _still(
        self, pieces: Mapping[int, bytes], standing: dict[int, int], blob: BlobId, other: BlobId
    ) -> dict[int, int]:
        """Of the pieces standing in one content those that another holds too, and where."""
        check(self.deadline)
        if self.whole:
            return standing if blob == other else {}
        try:
            edit = self.history.edit(blob, other, self._blob)
        except Missing:
            return {}
        moved = {index: edit.moved(at, pieces[index]) for index, at in standing.items()}
        left = {index: at for index, at in moved.items() if at is not None}
        unsure = {index: pieces[index] for index, at in moved.items() if at is None}
        return left | self._placed(unsure, other) if unsure else left

    def _blob(self, blob: BlobId) -> bytes:
        """A content as pieces are cut from it, the last two remembered: each is compared with both its neighbours."""
        data = self._read.get(blob)
        if data is None:
            data = Text(self.objects.blob(blob)).data
            for old in list(self._read)[:-1]:
                del self._read[old]
            self._read[blob] = data
        return data

    def back(self) -> Iterator[tuple[int, Path, BlobId]]:
        """(position where it began, path, blob) of the contents up to here, the newest first."""
        path, position = self.path, self.position
        while True:
            event = self._latest(path, position)
            if event is _UNKNOWN:
                return
            if event is None:
                blob = self._blob_at(0, path)
                if blob is not None:
                    yield 0, path, blob
                return
            at, _, blob = event
            if blob is None:
                return
            yield at, path, blob
            before = self._before(path, event)
            if before is None:
                return
            path, position = before

    def _before(self, path: Path, event: Event) -> tuple[Path, int] | None:
        """Where the file was at the last commit of the instant before an event's; None where it was not."""
        last = bisect_left(self.line.times, self.line.times[event[0]]) - 1
        if last < 0:
            return None
        name: Path | None = path
        found: Event | None = event
        while name is not None and found is not None and found is not _UNKNOWN and found[0] > last:
            if found[1] is None:
                name = self._moved_from(name, found[0])
            if name is not None:
                found = self._latest(name, found[0] - 1)
        if name is None:  # it came with no past; but it may have been away for less than an instant
            name = path if self._blob_at(last, path) is not None else None
        return None if name is None else (name, last)

    def forward(self) -> Iterator[tuple[int, BlobId | None]]:
        """(position, blob) of every later content; None for the end of the file."""
        path, position = self.path, self.position
        while (event := self._earliest(path, position)) is not None and event is not _UNKNOWN:
            last = self.line.at(self.line.times[event[0]])
            after = self._after(path, event, last)
            yield event[0], None if after is None else self._blob_at(last, after)
            if after is None:
                return
            path, position = after, last

    def _after(self, path: Path, event: Event, last: int) -> Path | None:
        """The file's path at the last commit of an event's instant; None where it is gone."""
        name: Path | None = path
        found: Event | None = event
        while name is not None and found is not None and found is not _UNKNOWN and found[0] <= last:
            if found[2] is None:
                name = self._moved_to(name, found[0])
            if name is not None:
                found = self._earliest(name, found[0])
        if name is None:
            name = path if self._blob_at(last, path) is not None else None
        return name

    # --- names

    def then(self, goal: int, there: Container[Path]) -> Path | None:
        """The first of the file's names, going back from here, that the tree at an older position holds."""
        path, position = self.path, self.position
        while True:
            event = self._latest(path, position)
            if event is None or event[0] <= goal:
                return None
            if event[1] is None:
                source = self._moved_from(path, event[0])
                if source is None or source in there:
                    return source
                path = source
            position = event[0] - 1

    def now(self, there: Container[Path]) -> Path | None:
        """The first of the file's names, going forward from here, that the line's last tree holds."""
        path, position = self.path, self.position
        while (event := self._earliest(path, position)) is not None and event is not _UNKNOWN:
            if event[2] is None:
                target = self._moved_to(path, event[0])
                if target is None or target in there:
                    return target
                path = target
            position = event[0]
        return None

    # --- events

    def _latest(self, path: Path, position: int) -> Event | None:
        """The last event of a path at or before a position; None where it has none since the line began."""
        for part in range(position // STEP, -1, -1):
            mine = self.history.events_of(path, self.line, part, self.deadline, self.company)
            if mine is None:
                return _UNKNOWN
            index = bisect_right(mine, position, key=_position)
            if index:
                return mine[index - 1]
        return None

    def _earliest(self, path: Path, position: int) -> Event | None:
        """The first event of a path after a position."""
        for part in range((position + 1) // STEP, (len(self.line) - 1) // STEP + 1):
            mine = self.history.events_of(path, self.line, part, self.deadline, self.company)
            if mine is None:
                return _UNKNOWN
            index = bisect_right(mine, position, key=_position)
            if index < len(mine):
                return mine[index]
        return None

    def _moved_from(self, path: Path, position: int) -> Path | None:
        return self._renames(position).get(path)

    def _moved_to(self, path: Path, position: int) -> Path | None:
        return next((new for new, old in self._renames(position).items() if old == path), None)

    def _renames(self, position: int) -> dict[Path, Path]:
        check(self.deadline)
        before = self.line.trees[position - 1] if position else None
        return self.history._renames(self.line.commits[position], before, self.line.trees[position], self.deadline)

    def _blob_at(self, position: int, path: Path) -> BlobId | None:
        """The file of a path at a position, by way of its last event."""
        event = self._latest(path, position)
        if event is None or event is _UNKNOWN:
            with suppress(Missing):
                return file_at(self.objects, self.line.trees[position], path)
            return None
        return event[2]


_UNKNOWN: Event = (-1, None, None)


def _position(event: Event) -> int:
    return event[0]


# --- elsewhere ---------------------------------------------------------------------------------------------------


class _EventsTask(Struct, frozen=True, array_like=True):
    """One part of a line for another process: its trees, led by the one before."""

    git_dir: bytes
    common_dir: bytes
    first: int
    trees: list[bytes]

    @classmethod
    def of(cls, repository: Repository, line: Line, part: int) -> _EventsTask:
        first = 1 if part == 0 and line.cut else part * STEP
        return cls(*_where(repository), first, line.trees[max(first - 1, 0) : (part + 1) * STEP])


class _MessagesTask(Struct, frozen=True, array_like=True):
    git_dir: bytes
    common_dir: bytes
    commits: list[CommitId]

    @classmethod
    def of(cls, repository: Repository, commits: Sequence[CommitId]) -> _MessagesTask:
        return cls(*_where(repository), list(commits))


class _MessagesDone(Struct, frozen=True, array_like=True):
    """`lasting` are those that no object to come can change."""

    messages: list[Message]
    lasting: list[CommitId]


_EVENTS_TASK, _MESSAGES_TASK = "repo_provider.history:events_task", "repo_provider.history:messages_task"
_messages_decoder = msgpack.Decoder(_MessagesDone)


def events_task(payload: bytes) -> bytes:
    """Encoded events of one part; nothing where a tree is missing."""
    task = msgpack.decode(payload, type=_EventsTask)
    with _opened(task.git_dir, task.common_dir).objects() as objects:
        found = _events(objects, task.trees, task.first)
    return b"" if found is None else _encoder.encode(Events.packed(found))


def messages_task(payload: bytes) -> bytes:
    task = msgpack.decode(payload, type=_MessagesTask)
    repository = _opened(task.git_dir, task.common_dir)
    shallow = repository.shallow()
    with repository.objects() as objects:
        differ = Differ(objects)
        found = [
            read_message(objects, differ, commit, objects.header(commit), commit in shallow) for commit in task.commits
        ]
        lasting = [] if objects.lacked else [commit for commit in task.commits if commit not in shallow]
    return _encoder.encode(_MessagesDone(found, lasting))


def _where(repository: Repository) -> tuple[bytes, bytes]:
    return os.fsencode(repository.git_dir), os.fsencode(repository.common_dir)


@lru_cache(maxsize=1)
def _opened(git_dir: bytes, common_dir: bytes) -> Repository:
    return Repository(None, os.fsdecode(git_dir), os.fsdecode(common_dir), None, 0)
