"""What is known of a repository's files, filled on demand: facts, level-one counts, outlines, bytes.

Everything here hangs on content (blob id and language), so it serves any snapshot, and everything is a function of
that content, so what is remembered changes speed and never an answer (P1). Called by `provider` alone. Owns no
algorithm: `files` says what a file is, `lexical` counts, `syntax` parses (in `workers`), `store` remembers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache

import msgspec
from msgspec import Struct

from repo_provider import files, imports, lexical, syntax
from repo_provider.cache import Cache
from repo_provider.errors import Unavailable
from repo_provider.model import BlobId, CommitId, Outline, Path, Snapshot, Text
from repo_provider.repository import Repository
from repo_provider.store import Store
from repo_provider.workers import Workers

FACTS_VERSION = 1
"""Raised when `files` would say something else of the same path and bytes."""
FEW = 12
"""Files analysed on the spot; more of them are worth the way to the workers."""
FIRST = 48
"""Files counted on the spot while the workers start."""
FIRST_BATCH_BYTES, BATCH_BYTES = 1 << 16, 1 << 20
"""Bytes of files a worker counts at a time: few at first, so that a deadline finds something done, then ever more."""
FILE_BYTES = 1 << 11
"""What any file counts as at least there: it has to be opened, however small it is."""
KEPT_AT = 32
"""Files counted one by one after which the counts move into the store."""
WALL = 10.0
"""Seconds a file may take in a worker before the worker is killed: far beyond any file that parses at all."""
STRIKES = 4
"""Requests for which a file may cost a worker its life before it is passed over."""
MOST_FAILING = 8
"""Files that a grammar may cost workers, none of its files ever being parsed, before it is tried no more."""
AT_ONCE = 64
"""Files parsed at a time in the background."""
TEXT_CACHE_BYTES = 72 << 20
OUTLINE_CACHE_BYTES = 32 << 20

Touches = Sequence[tuple[CommitId, Sequence[Path]]]
"""Commits with the paths they touched, their texts being counted already."""


class Facts(Struct, frozen=True, array_like=True):
    """What a path with a content is. `unserved` is why it is not served, "" where it is."""

    language: str
    unserved: str = ""
    traits: frozenset[str] = frozenset()


class Survey(Struct, frozen=True):
    """Level one of a snapshot: its view and what each file is.

    `missing` files were not counted in time; `unreadable` ones could not be read now.
    """

    snapshot: Snapshot
    view: lexical.View
    facts: Mapping[Path, Facts]
    missing: int = 0
    unreadable: tuple[Path, ...] = ()

    def prose(self, path: Path) -> bool:
        """Whether a file is text for people rather than code."""
        return files.languages()[self.facts[path].language].prose

    def serves(self, path: Path) -> bool:
        """Whether a path is a text that is searched and shown."""
        return path in self.facts and not self.facts[path].unserved


class Outlined(Struct, frozen=True):
    """Outlines of files. `late` were not reached in time; `lost` cost their worker its life."""

    outlines: Mapping[Path, Outline]
    late: int = 0
    lost: tuple[Path, ...] = ()


Report = Callable[[int, int, Path], None]
"""Told how far a bulk analysis is: files done, all files, a file in work."""


class Corpus:
    """Fills and remembers. Safe to use from many threads."""

    def __init__(self, repository: Repository, store: Store, workers: Workers) -> None:
        self._repository, self._store, self._workers = repository, store, workers
        self.index = lexical.Index(store)
        self._facts: dict[bytes, Facts] = {}
        self._texts: Cache[BlobId, Text] = Cache(TEXT_CACHE_BYTES)
        self._outlines: Cache[bytes, Outline] = Cache(OUTLINE_CACHE_BYTES)
        self._strikes, self._passed = Counter[bytes](), Counter[bytes]()
        self._failing, self._parsing = Counter[str](), set[str]()  # languages: files lost, and whether any was parsed
        self._filling, self._changing = threading.Lock(), threading.Lock()
        self._urgent: deque[Path] = deque()
        self._unkept = 0
        self._behind: threading.Thread | None = None
        self._surveyed: list[tuple[Touches, Survey]] = []
        self._modules: list[tuple[Snapshot, imports.Modules]] = []
        self._closed = False

    def close(self) -> None:
        """Ends bulk work at the next batch; what was finished is kept."""
        self._closed = True
        self.keep()

    # --- bytes ------------------------------------------------------------------------------------------------

    def text(self, snapshot: Snapshot, path: Path) -> Text | None:
        """The exact bytes the snapshot names; None where they cannot be had (any more)."""
        entry = snapshot.entries.get(path)
        if entry is None:
            return None
        text = self._texts.get(entry.blob)
        if text is None:
            data = self._repository.read(snapshot, path)
            if data is None:
                return None
            text = Text(data)
            self._texts.put(entry.blob, text, 4 * len(data) + 200)  # with its lines and words
        return text

    def texts(self, snapshot: Snapshot, paths: Iterable[Path]) -> dict[Path, Text]:
        """The texts there are of these paths."""
        found = ((path, self.text(snapshot, path)) for path in paths)
        return {path: text for path, text in found if text is not None}

    def modules(self, snapshot: Snapshot) -> imports.Modules:
        """What imports mean in a snapshot: a matter of its paths and the bytes of its build files."""
        for known, modules in self._modules:
            if known is snapshot:
                return modules
        same = (each for known, each in self._modules if _same_build(known, snapshot, each.tree.configs))
        modules = next(same, None) or imports.Modules(
            imports.Tree(snapshot.entries), _import_rules, lambda path: self._data(snapshot, path)
        )
        self._modules = [(snapshot, modules), *[pair for pair in self._modules if pair[1] is not modules][:3]]
        return modules

    def _data(self, snapshot: Snapshot, path: Path) -> bytes | None:
        text = self.text(snapshot, path)
        return None if text is None else text.data

    # --- level one --------------------------------------------------------------------------------------------

    def count(
        self,
        snapshot: Snapshot,
        deadline: float | None,
        *,
        urgent: Callable[[], Iterable[Path]] = tuple,
        report: Report | None = None,
    ) -> tuple[Path, ...]:
        """Count every file of a snapshot, or as many as the deadline (a reading of `time.monotonic`) lets.

        `urgent` names those to begin with where there may be no time for all. Gives the files that cannot be read.
        """
        if any(survey.snapshot is snapshot for _, survey in self._surveyed):
            return ()
        if deadline is not None:
            self._urgent = deque(urgent())
        return tuple(self._fill(snapshot, deadline, report))

    def survey(self, snapshot: Snapshot, touches: Touches, unreadable: Sequence[Path] = ()) -> Survey:
        """Level one of a snapshot as far as it is counted."""
        for said, survey in self._surveyed:
            if said is touches and survey.snapshot is snapshot:
                return survey
        survey = self._view(snapshot, touches, unreadable)
        if not survey.missing and not unreadable:
            self._surveyed = [(touches, survey), *self._surveyed[:3]]
        return survey

    def _view(self, snapshot: Snapshot, touches: Touches, unreadable: Sequence[Path]) -> Survey:
        facts = self.facts(snapshot)
        served = [
            (path, _content_key(entry.blob, facts[path].language))
            for path, entry in snapshot.entries.items()
            if path in facts and not facts[path].unserved
        ]
        uncounted = set(self.index.missing(key for _, key in served))
        counted = [(path, key) for path, key in served if key not in uncounted] if uncounted else served
        missing = len(served) - len(counted) + len(snapshot.entries) - len(facts) - len(unreadable)
        return Survey(snapshot, self.index.view(counted, touches), facts, missing, tuple(unreadable))

    def facts(self, snapshot: Snapshot) -> dict[Path, Facts]:
        """What is known of the snapshot's files, in path order."""
        found = ((path, self._facts.get(entry.blob + path)) for path, entry in snapshot.entries.items())
        return {path: facts for path, facts in found if facts is not None}

    def _recall(self, snapshot: Snapshot) -> None:
        """Takes from the store what it knows of these files."""
        wanted = [key for path, entry in snapshot.entries.items() if (key := entry.blob + path) not in self._facts]
        if wanted:
            for key, value in self._store.get_many(_facts_table(), wanted).items():
                with suppress(msgspec.DecodeError):  # P7: a store may hold anything
                    self._facts[key] = msgspec.msgpack.decode(value, type=Facts)

    def _todo(self, snapshot: Snapshot) -> list[Path]:
        """Files whose facts or counts are not known yet, each content once."""
        facts = self.facts(snapshot)
        contents: dict[bytes, Path] = {}
        todo = [path for path in snapshot.entries if path not in facts]
        for path, known in facts.items():
            if not known.unserved:
                contents.setdefault(_content_key(snapshot.entries[path].blob, known.language), path)
        return sorted(todo + [contents[key] for key in self.index.missing(contents)])

    def _fill(self, snapshot: Snapshot, deadline: float | None, report: Report | None) -> list[Path]:
        """Finds facts and counts words until all is done or the deadline comes; the files that cannot be read."""
        unreadable: list[Path] = []
        if not self._filling.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            return unreadable  # somebody else is at it; what is counted so far is what there is
        try:
            self._recall(snapshot)
            todo = self._todo(snapshot)
            done = 0
            if len(todo) > FEW:
                self._workers.start(_COUNT_TASK)
            for batch in self._batches(snapshot, todo, unreadable):
                if self._closed or (done and _over(deadline)):  # the first few always: something beats nothing
                    break
                if report is not None:
                    report(done, len(todo), batch[0][0])
                self._analyse(snapshot, batch, deadline, on_the_spot=len(todo) <= FEW or done < FIRST)
                done += len(batch)
                self._unkept += len(batch)
        finally:
            self._filling.release()
        return unreadable

    def go_on(self, survey: Survey) -> None:
        """Finish behind the answer what a deadline cut short, and keep what was counted."""
        if not survey.missing and self._unkept < KEPT_AT:
            return
        with self._changing:
            if self._closed or (self._behind is not None and self._behind.is_alive()):
                return
            self._behind = threading.Thread(target=self._finish, args=(survey.snapshot,), daemon=True)
            with suppress(RuntimeError, MemoryError):  # no thread to be had: the next answer tries again
                self._behind.start()

    def _finish(self, snapshot: Snapshot) -> None:
        with suppress(Unavailable):  # which the next question will meet, and report
            self._fill(snapshot, None, None)
            self.keep()

    def keep(self) -> None:
        """Move what was counted since the last time into the store."""
        if self._unkept:
            self._unkept = 0
            self.index.flush()

    def prune(self, snapshot: Snapshot, commits: Set[CommitId]) -> None:
        """Forget, also in the store, every file that neither this snapshot nor any history holds, and other messages.

        Gives the space back to the system.
        """
        tables = {table: self._store.keys(table) for table in (_facts_table(), "outlines")}
        contents = self.index.contents()
        served = {entry.blob for entry in snapshot.entries.values()}
        held = {BlobId(key[:_BLOB]) for key in contents.union(*tables.values())}
        kept = served | self._repository.reached(held - served)
        self.index.prune({key for key in contents if key[:_BLOB] in kept}, snapshot.entries.keys(), commits)
        for table, keys in tables.items():
            self._store.keep_only(table, {key for key in keys if key[:_BLOB] in kept})
        self._store.vacuum()

    def _batches(
        self, snapshot: Snapshot, paths: Sequence[Path], unreadable: list[Path]
    ) -> Iterator[list[tuple[Path, Text]]]:
        """Files with their bytes, as many at a time as keep every worker busy for a moment; urgent ones first."""
        batch: list[tuple[Path, Text]] = []
        size, enough = 0, FIRST_BATCH_BYTES
        for path in self._by_urgency(paths):
            text = self.text(snapshot, path)
            if text is None:
                unreadable.append(path)
                continue
            batch.append((path, text))
            size += max(len(text.data), FILE_BYTES)
            if size >= enough * self._workers.count:
                yield batch
                batch, size, enough = [], 0, min(2 * enough, BATCH_BYTES)
        if batch:
            yield batch

    def _by_urgency(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Each path once, those that somebody has meanwhile called urgent before the rest."""
        left = dict.fromkeys(paths)
        while left:
            path = self._next_urgent(left)
            if path is None:
                path = next(iter(left))
            del left[path]
            yield path

    def _next_urgent(self, left: Mapping[Path, None]) -> Path | None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                path = self._urgent.popleft()
                if path in left:
                    return path
        return None

    def _analyse(
        self, snapshot: Snapshot, batch: Sequence[tuple[Path, Text]], deadline: float | None, *, on_the_spot: bool
    ) -> None:
        learned: dict[bytes, Facts] = {}
        items: dict[bytes, tuple[bytes, bytes, lexical.Rules]] = {}
        for path, text in batch:
            blob = snapshot.entries[path].blob
            learned[blob + path] = facts = self._facts.get(blob + path) or _facts_about(path, text)
            if not facts.unserved:
                key = _content_key(blob, facts.language)
                items[key] = (key, text.data, _rules(facts.language))
        wanted = [items[key] for key in self.index.missing(items)]
        if on_the_spot:
            self.index.add(wanted)
        else:
            self._count_in_workers(wanted, deadline)
        self._facts.update(learned)
        self._store.put_many(_facts_table(), {key: msgspec.msgpack.encode(facts) for key, facts in learned.items()})

    def _count_in_workers(self, items: Sequence[tuple[bytes, bytes, lexical.Rules]], deadline: float | None) -> None:
        parts = [part for part in _split(items, self._workers.count) if part]
        payloads = [lexical.analyse_payload(part) for part in parts]
        counted = self._workers.run(_COUNT_TASK, payloads, wall=WALL, deadline=deadline)
        for part, segment in zip(parts, counted, strict=True):
            if segment is not None:
                self.index.add_segment(segment)
            elif not _over(deadline):
                self.index.add(part)  # counting is plain Python: a dead worker is no reason to lose a file

    # --- level two --------------------------------------------------------------------------------------------

    def outlines(self, texts: Mapping[Path, Text], facts: Mapping[Path, Facts], deadline: float | None) -> Outlined:
        """The outlines of these texts, parsed where they are not remembered, until the deadline comes."""
        keys = {path: _outline_key(text.blob, facts[path].language) for path, text in texts.items()}
        found = self._recalled(keys)
        todo = {keys[path]: path for path in texts if keys[path] not in found}
        tasks = {key: (texts[path].data, facts[path].language) for key, path in todo.items()}
        tried = {key: task for key, task in tasks.items() if self._worth_a_try(key, task[1])}
        parsed = self._parsed(tried, deadline)
        for key, encoded in parsed.items():
            found[key] = self._keep(key, syntax.decode_outline(encoded), len(encoded))
        self._store.put_many("outlines", parsed)
        failed = [key for key in todo if key not in parsed]
        late = sum(not self._strikes[key] for key in failed) if _over(deadline) else 0
        lost = {key for key in failed if not late or self._strikes[key]}
        found |= {key: Outline(tasks[key][1], complete=False, note="its parser was stopped") for key in lost}
        outlines = {path: found[key] for path, key in keys.items() if key in found}
        return Outlined(outlines, late, tuple(path for path in texts if keys[path] in lost))

    def _parsed(
        self, tasks: Mapping[bytes, tuple[bytes, str]], deadline: float | None, *, background: bool = False
    ) -> dict[bytes, bytes]:
        """Encoded outlines of (text, language) tasks, as far as the workers live to give them.

        A worker may have been killed for nothing its file did, so what is lost is tried once more, and again by later
        requests, ever more rarely.
        """
        found: dict[bytes, bytes] = {}
        hanging = time.monotonic() + WALL
        for attempt in range(2):
            wanted = [key for key in tasks if key not in found and not (attempt and self._strikes[key])]
            payloads = [syntax.encode_task(*tasks[key]) for key in wanted]
            encoded = self._workers.run(_OUTLINE_TASK, payloads, wall=WALL, deadline=deadline, background=background)
            found |= {key: data for key, data in zip(wanted, encoded, strict=True) if data is not None}
            if len(found) == len(tasks) or self._given_up(deadline) or _over(hanging):
                break
        self._parsing.update(tasks[key][1] for key in found)
        if not self._given_up(deadline):
            lost = [key for key in tasks if key not in found]
            self._strikes.update(lost)
            self._failing.update(tasks[key][1] for key in lost)
        return found

    def _given_up(self, deadline: float | None) -> bool:
        """Whether what was not parsed is nobody's fault but ours."""
        return _over(deadline) or self._closed or self._workers.starved

    def _worth_a_try(self, key: bytes, language: str) -> bool:
        """Whether to risk a worker on a file; one that cost many is passed over 1, 3, 7, ... times in between."""
        if self._shut_out(language):
            return False
        if self._strikes[key] < STRIKES:
            return True
        self._passed[key] += 1
        if self._passed[key] < 2 ** (self._strikes[key] - STRIKES + 1):
            return False
        self._passed.pop(key, None)
        return True

    def _shut_out(self, language: str) -> bool:
        """Whether a grammar has only ever cost workers: then it is at fault, not its files."""
        return self._failing[language] >= MOST_FAILING and language not in self._parsing

    def outline(self, path: Path, text: Text) -> Outline | None:
        """One file's outline; None where its parser had to be stopped."""
        return self.outlines_of({path: text}).get(path)

    def outlines_of(self, texts: Mapping[Path, Text]) -> dict[Path, Outline]:
        """The outlines of these files, whatever they are, but for those whose parser had to be stopped."""
        facts = {path: self._facts.get(text.blob + path) or _facts_about(path, text) for path, text in texts.items()}
        found = self.outlines(texts, facts, None)
        return {path: outline for path, outline in found.outlines.items() if path not in found.lost}

    def outline_all(self, survey: Survey, report: Report | None = None) -> None:
        """Parse whatever of a snapshot was not parsed yet, giving way to questions; changes speed, never an answer."""
        paths = list(survey.view.paths)
        for start in range(0, len(paths), AT_ONCE):
            if self._closed:
                return
            if report is not None:
                report(start, len(paths), paths[start])
            self._outline_unknown(survey, paths[start : start + AT_ONCE])

    def _outline_unknown(self, survey: Survey, paths: Sequence[Path]) -> None:
        entries = survey.snapshot.entries
        keys = {path: _outline_key(entries[path].blob, survey.facts[path].language) for path in paths}
        known = self._store.get_many("outlines", keys.values())
        todo = {key: path for path, key in keys.items() if key not in known and not self._strikes[key]}
        texts = self.texts(survey.snapshot, todo.values())
        tasks = {key: (texts[path].data, survey.facts[path].language) for key, path in todo.items() if path in texts}
        tasks = {key: task for key, task in tasks.items() if not self._shut_out(task[1])}
        self._store.put_many("outlines", self._parsed(tasks, None, background=True))

    def _recalled(self, keys: Mapping[Path, bytes]) -> dict[bytes, Outline]:
        found: dict[bytes, Outline] = {}
        for key in keys.values():
            outline = self._outlines.get(key)
            if outline is not None:
                found[key] = outline
        stored = self._store.get_many("outlines", [key for key in keys.values() if key not in found])
        for key, encoded in stored.items():
            with suppress(msgspec.DecodeError):  # P7: a store may hold anything
                found[key] = self._keep(key, syntax.decode_outline(encoded), len(encoded))
        return found

    def _keep(self, key: bytes, outline: Outline, size: int) -> Outline:
        self._outlines.put(key, outline, 10 * size + 200)  # decoded structs take about ten times their packed bytes
        return outline


_COUNT_TASK = "repo_provider.lexical:analyse_task"
_OUTLINE_TASK = "repo_provider.syntax:outline_task"

_BLOB = 20
"""Bytes of a blob's id, with which every key begins."""

# --- keys and rules ---------------------------------------------------------------------------------------------


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _facts_about(path: Path, text: Text) -> Facts:
    reason = files.unserved(path, text.raw)
    return Facts(files.language_of(path, text.data).name, reason or "", files.traits(path, text.data))


@cache
def _facts_table() -> str:
    """Facts depend on the manifests; another set of them starts another table."""
    names = hashlib.sha256(b"%d" % FACTS_VERSION)
    for manifest in sorted(files.grammars_folder().glob("*/manifest.toml")):
        names.update(manifest.parent.name.encode() + b"\0" + manifest.read_bytes() + b"\0")
    return f"facts_{names.hexdigest()[:12]}"


@cache
def _rules(language: str) -> lexical.Rules:
    spoken = files.languages()[language]
    pattern = spoken.definition_line
    return lexical.Rules(
        language, None if pattern is None else pattern.pattern, spoken.line_comments, spoken.block_comments
    )


@cache
def _import_rules(language: str) -> imports.Rules:
    return imports.rules(language, files.languages()[language].imports)


def _same_build(one: Snapshot, other: Snapshot, configs: Iterable[Path]) -> bool:
    """Whether two snapshots hold the same paths, and the same bytes at these."""
    entries, others = one.entries, other.entries
    return entries.keys() == others.keys() and all(entries[path].blob == others[path].blob for path in configs)


def _content_key(blob: BlobId, language: str) -> bytes:
    return lexical.key(blob, _rules(language))


def _outline_key(blob: BlobId, language: str) -> bytes:
    return blob + bytes.fromhex(syntax.analyser_version(language))


def _split(
    items: Sequence[tuple[bytes, bytes, lexical.Rules]], parts: int
) -> Iterator[list[tuple[bytes, bytes, lexical.Rules]]]:
    """The items in `parts` runs of about the same number of bytes."""
    share = sum(len(item[1]) for item in items) / parts
    part: list[tuple[bytes, bytes, lexical.Rules]] = []
    size = 0
    for item in items:
        part.append(item)
        size += len(item[1])
        if size >= share:
            yield part
            part, size = [], 0
    yield part
