"""The provider: queries, verdicts, indexing, status, composed of the modules that know how.

Owns no algorithm. A query goes `planner` -> `history` (which snapshot) -> `corpus` and `lexical` (which files) ->
`ranking` (which regions) -> `frames` (which fit). Sessions, the command line and every other edge call this and
nothing behind it. Threads may share one provider; nothing in it changes an answer but the repository (P1).
"""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from repo_provider import episodes, files, frames, graph, planner, ranking, syntax
from repo_provider.commits import Messages, subject
from repo_provider.corpus import Corpus, Report, Survey, Touches
from repo_provider.errors import BadRequest, BudgetUnsatisfiable, Unavailable, UnsupportedKind
from repo_provider.globs import PathFilter
from repo_provider.history import History
from repo_provider.model import Anchor, BlobId, CommitId, Hit, Late, Outline, Path, Plan, Snapshot, Span, Text
from repo_provider.protocol import (
    KINDS,
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    Digest,
    FrameId,
    FrameVerdict,
    Instant,
    Provenance,
    Relation,
    digest,
    file_uri,
    format_instant,
    token_cost,
)
from repo_provider.repository import Missing, Repository
from repo_provider.settings import Settings, store_outside, typed_instant
from repo_provider.store import Store
from repo_provider.workers import Workers

if TYPE_CHECKING:
    from repo_provider.tokens import Counts

OUTLINED = 40
"""Files of the shortlist that are parsed: those that may end up in the answer."""
IN_TIME = 0.94
"""Of the time a query has: what all of it may take; the rest is for writing the answer down on a busy machine."""
LISTING = 0.4
"""Of the time a query has: what listing the files on disk may take before those found so far have to do."""
COUNTING = 0.6
"""Of the time a query has: what counting words may take before the files counted so far have to do."""
EXPLAINING, EXPLAINING_EARLY = 0.3, 0.6
"""Of the time left then: what reading commit messages may take; more where counting ended before it had to."""
PARSING = 0.6
"""Of the time left then: what parsing the best files may take; regions, windows and relations come after it."""
READING_WALL = 60.0
"""Seconds a worker may take over a part of history."""
HOPPED = 4
"""Anchors whose surroundings are looked at."""
_MINOR = frozenset(("test", "example", "bench", "docs", "vendored", "generated", "lockfile"))
"""Traits of files that only repeat names."""
_REVISION = re.compile(";anchor=swh:1:rev:([0-9a-f]{40})")
_RELATIONS_LATE = "files were not parsed in time: relations were left out"


class Basis(Struct, frozen=True):
    """Which state an answer speaks of: a commit and its effective time, or the working tree upon it.

    `commit` None is no commit at all: an instant before the first one, or a repository without any.
    """

    commit: CommitId | None
    at: Instant | None
    working_tree: bool


class Contents(Struct, frozen=True):
    """What lies at a path: a file's bytes and outline (None where its parser had to be stopped), or a folder's files.

    `path` is what it is called in the state that was asked.
    """

    basis: Basis
    path: Path
    text: Text | None = None
    outline: Outline | None = None
    files: tuple[Path, ...] = ()


class Reading(Struct, frozen=True):
    """A frame made again from its id; where it was cut to fit, `rest` is the id of what follows."""

    basis: Basis
    frame: ContextFrame
    rest: str | None = None


class _Cut:
    """What one answer had to go without, in words. An answer that went without anything is a cut one (P1)."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)


class Provider:
    """One repository's provider. Opening the repository raises Unavailable with the remedy in its message."""

    def __init__(self, settings: Settings, *, log: Callable[[str], None] = lambda text: None) -> None:
        self.settings = settings
        self._log = log
        self._said: set[str] = set()
        self._counts: Counts | None = None
        if settings.tokenizer is not None:
            from repo_provider.tokens import Counts, tokenizer  # tiktoken, for those who count with it

            self._counts = Counts(tokenizer(settings.tokenizer, settings.tokenizers))
        self.repository = Repository.open(settings.path, ref=settings.ref, max_file_bytes=settings.max_file_size)
        places = (self.repository.root, self.repository.git_dir, self.repository.common_dir)
        directory, note = store_outside(settings, places)
        self._say_once(*([note] if note else []))
        self.store = Store.open(directory, self.repository.common_dir)
        self._say_once(*self.store.notes)
        self.repository.store = self.store
        self.workers = Workers(settings.workers)
        self.history = History(self.repository, self.store, self._bulk)
        self.corpus = Corpus(self.repository, self.store, self.workers)
        self._recent, self._reading = threading.Lock(), threading.Lock()
        self._working: Snapshot | None = None
        self._said_before: list[tuple[Messages, Touches]] = []
        self._closed = False

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute spellings of the repository's root: as typed, and with its links resolved."""
        root = self.repository.root
        return () if root is None else tuple(dict.fromkeys((root, os.path.realpath(root))))

    def warm(self) -> None:
        """Prepare for the first question: the index of what is served now, then the outlines of all of it."""
        if self._counts is not None:
            with suppress(RuntimeError, MemoryError):  # no thread to be had: the first question loads it
                threading.Thread(target=self._counts.tokenizer.warm, daemon=True).start()
        self._fill(self.now(), None)

    def _fill(self, snapshot: Snapshot, report: Report | None) -> None:
        unreadable = self.corpus.count(snapshot, None, report=report)
        self.corpus.keep()
        messages = self._explained(snapshot, None, _Cut())
        survey = self.corpus.survey(snapshot, self._touches(messages), unreadable)
        self.corpus.keep()
        self.history.build(lambda: self._closed)
        self.corpus.outline_all(survey, report)
        self.history.foresee(lambda: self._closed)

    def prune(self) -> bool:
        """Forget what no ref, commit or working tree leads to any more; False where another process has the store."""
        if self.store.facts().role != "owner":
            return False
        snapshot = self.now()
        self.corpus.count(snapshot, None)
        messages = self._explained(snapshot, None, _Cut())
        self.corpus.prune(snapshot, {message.commit for message in messages.items})
        return True

    def _bulk(self, task: str, payloads: Sequence[bytes], deadline: float | None) -> Sequence[bytes | None]:
        """History's helpers; what nobody waits for gives way."""
        return self.workers.run(task, payloads, wall=READING_WALL, deadline=deadline, background=deadline is None)

    def close(self) -> None:
        """End every process and thread of this provider; what is known stays in the store."""
        self._closed = True
        self.corpus.close()
        self.workers.close()
        self.store.close()

    # --- snapshots ----------------------------------------------------------------------------------------------

    def _snapshot(self, as_of: Instant | None, deadline: float | None) -> Snapshot | None:
        return self.now(_share(deadline, LISTING)) if as_of is None else self.at(as_of, deadline)

    def at(self, instant: Instant, deadline: float | None = None) -> Snapshot | None:
        """The snapshot an instant means; None where it has no answer: before the first commit, or not here."""
        try:
            found = self.history.at(instant, deadline)
        except Missing:
            self._say_once("the tree of a commit asked for is not here: such instants have no answer")
            return None
        if found is None and self.repository.shallow():
            self._say_once("a shallow clone: instants before its boundary have no answer")
        return found

    def now(self, deadline: float | None = None) -> Snapshot:
        """The working tree; the tip of the served ref where there is none or a ref was chosen.

        At the deadline the files found so far. Raises Late.
        """
        if self.repository.root is None or self.settings.ref is not None:
            tip = self.repository.head()
            try:
                return Snapshot({}) if tip is None else self.history.snapshot(tip, deadline)
            except Missing:
                self._say_once("the tree of the tip is not here: there is nothing to answer from")
                return Snapshot({})
        fresh = self.repository.working_tree(deadline)
        if fresh.partial:
            return fresh
        with self._recent:
            if self._working != fresh:  # the same object again is what lets views be remembered
                self._working = fresh
            return self._working

    def _explained(self, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> Messages:
        """The newest commits' messages seen from a snapshot; none where there was no time to read them."""
        if self._reading.acquire(timeout=_seconds_until(deadline)):  # one reader: the next one finds it all there
            try:
                return self.history.messages(snapshot, deadline=deadline)
            except Late:
                pass
            finally:
                self._reading.release()
        cut("commit messages were not read in time")
        return Messages()

    def _touches(self, messages: Messages) -> Touches:
        """The messages as `corpus` counts them. The same messages give the same object again."""
        with self._recent:
            for said, touches in self._said_before:
                if said is messages:
                    return touches
        telling = [message for message in messages.items if not message.bulk]
        missing = set(self.corpus.index.missing_messages(message.commit for message in telling))
        texts = ((message.commit, message.text.encode()) for message in telling if message.commit in missing)
        if missing:
            self.corpus.index.add_messages(texts)
        touches = tuple((message.commit, message.paths) for message in telling)
        with self._recent:
            self._said_before = [(messages, touches), *self._said_before[:3]]
        return touches

    # --- query --------------------------------------------------------------------------------------------------

    def query(
        self,
        query: ContextQuery,
        deadline: float | None = None,
        paths: PathFilter | None = None,
        report: Report | None = None,
    ) -> ContextQueryResult:
        """The frames that answer a query, best first, within its budgets (B1, B4), all true at its instant (Q2).

        `deadline` is a reading of `time.monotonic`; what it cuts short is said in one line to the log. `report` is
        told how far the counting of files is, where there is any to do; what it raises ends the query.
        """
        return self.explain(query, deadline, paths, report)[0]

    def explain(
        self,
        query: ContextQuery,
        deadline: float | None = None,
        paths: PathFilter | None = None,
        report: Report | None = None,
    ) -> tuple[ContextQueryResult, tuple[Mapping[str, float], ...]]:
        """The answer to a query, and for each of its frames what each part adds to its score."""
        plan = planner.plan(query, roots=self.roots)
        self._say_once(*plan.notes)
        if not plan.kinds:
            raise UnsupportedKind(f"none of the kinds asked for is served: {', '.join(query.kinds)}")
        if not plan.max_frames or not plan.max_tokens:
            return ContextQueryResult((), truncated=False), ()
        cut, deadline = _Cut(), _share(deadline, IN_TIME)
        try:
            snapshot = self._snapshot(plan.as_of, deadline)
        except Late:
            self._log(
                f"cut answer: {'files were not listed' if plan.as_of is None else 'history was not read'} in time"
            )
            return ContextQueryResult((), truncated=True), ()
        if snapshot is None:
            return ContextQueryResult((), truncated=False), ()
        if snapshot.partial:
            cut("files were not all listed in time")
        plan = self._anchored(plan, snapshot, deadline, cut)
        survey, messages = self._surveyed(plan, snapshot, deadline, cut, report)
        found = self._graph(plan, survey)
        used = self._asked_about(plan, survey, found)
        if used:  # what is asked about is looked at as what is at hand
            found = self._graph(replace(plan, anchors=(*plan.anchors, *used)), survey)
        near = self._near(found, (*plan.anchors, *used), survey, messages, deadline, cut)
        hits, texts, outlines = self._hits(plan, survey, near, paths, deadline, cut)
        told = self._told(plan, _told_of(plan, hits, survey, found, used, outlines), survey, texts, outlines)
        derived = [frame for _, frame in told]
        derived += self._episodes(self._less(plan, derived), snapshot, messages, hits, paths)
        selection = self._selected(plan, snapshot, hits, texts, outlines, derived)
        built = self._built(selection.pieces, snapshot, texts, deadline, cut)
        summaries, others = self._dated(told, snapshot, texts, deadline, cut), derived[len(told) :]
        places = [(path, Span(0, len(texts[path].data)), False) for path, _ in told]
        places += [(piece.path, piece.span, piece.hit.kind == "doc") for piece in selection.pieces]
        related = self._related(found, (*summaries, *built), places, survey, texts, outlines, deadline, cut)
        parts: list[Mapping[str, float]] = [{} for _ in told]
        parts += [ranking.worth(piece.hit.parts) for piece in selection.pieces] + [{} for _ in others]
        answer = sorted(zip((*related, *others), parts, strict=True), key=lambda shown: -shown[0].score)
        if cut.reasons:
            self._log(f"cut answer: {'; '.join(cut.reasons)}")
        truncated, dropped = (True, None) if cut.reasons else (selection.truncated, selection.dropped or None)
        result = ContextQueryResult(tuple(frame for frame, _ in answer), truncated, dropped)
        return result, tuple(shown for _, shown in answer)

    def _selected(
        self,
        plan: Plan,
        snapshot: Snapshot,
        hits: Sequence[Hit],
        texts: Mapping[Path, Text],
        outlines: Mapping[Path, Outline],
        derived: Sequence[ContextFrame],
    ) -> frames.Selection:
        """The regions that fit beside the frames there are already."""
        hits = [hit for hit in hits if hit.kind in plan.kinds]
        counts, left = self._counts, self._less(plan, derived)
        try:
            return frames.select(
                hits,
                texts,
                max_frames=left.max_frames,
                max_tokens=left.max_tokens,
                outlines=outlines,
                counter=None if counts is None else counts.of(lambda path: snapshot.entries[path].blob),
            )
        except BudgetUnsatisfiable:
            if derived:
                return frames.Selection(dropped=len(hits))
            raise

    def _episodes(
        self, plan: Plan, snapshot: Snapshot, messages: Messages, hits: Sequence[Hit], paths: PathFilter | None
    ) -> list[ContextFrame]:
        """Commits that explain: as many as the question asks for, none where it does not ask about the past."""
        if "episode" not in plan.kinds or (plan.mixed and not plan.history):
            return []
        most, budget = plan.max_frames, plan.max_tokens
        if plan.mixed:
            most, budget = (most + 1) // 2, budget // 2
        telling = [message.commit for message in messages.items if not message.bulk]
        said = self.corpus.index.said(telling, plan.terms)
        weights = dict(zip(plan.terms, plan.weights, strict=True))
        files = {hit.path: hit.score for hit in reversed(hits)}
        found: list[ContextFrame] = []
        for episode in episodes.choose(
            messages, said, weights, files, asked=plan.history, alone=plan.kinds == ("episode",)
        ):
            message = messages.items[episode.index]
            if len(found) == most or (paths is not None and not any(map(paths.matches, message.paths))):
                continue
            frame = self._episode(plan, snapshot, messages, episode, budget)
            if frame is not None and self._weight(frame) <= budget:
                found.append(frame)
                budget -= self._weight(frame)
        return found

    def _episode(
        self, plan: Plan, snapshot: Snapshot, messages: Messages, episode: episodes.Episode, budget: int
    ) -> ContextFrame | None:
        message = messages.items[episode.index]
        try:
            commit = self.history.commit(message.commit)
        except Missing:
            return None
        words = [term for term in plan.terms if term[0] != "="]
        hunks = episodes.hunks_that_matter(commit, words, budget)
        shown = commit.id.hex()[:10]
        previous = messages.previous(commit.id, message.paths)
        follows = () if previous is None else (_follows(messages, previous),)
        return self._derived(
            frames.FrameName("episode", episode=commit.id, hunks=hunks, commit=snapshot.commit),
            episodes.tell(commit, hunks),
            title=commit.subject or shown,
            label=f"{shown} {commit.subject}",
            score=episode.score,
            links=(Provenance("git", f"swh:1:rev:{commit.id.hex()}", digest=self.history.cited(commit.id)),),
            uri=f"swh:1:rev:{commit.id.hex()}",
            window=(messages.opens[commit.id], None),
            relations=(*self._touched(message.paths), *follows),
        )

    def _derived(self, name: frames.FrameName, content: str, **members: Any) -> ContextFrame:
        """A derived frame with its model tokens, where they are counted and could be."""
        tokens = None if self._counts is None else self._counts.tokenizer.count(content)
        return frames.derived(name, content, tokens=tokens, tokenizer=self._tokenizer_ref, **members)

    @property
    def _tokenizer_ref(self) -> str | None:
        return None if self._counts is None else self._counts.tokenizer.ref

    def _less(self, plan: Plan, taken: Sequence[ContextFrame]) -> Plan:
        """The plan with the budgets that these frames leave."""
        spent = sum(map(self._weight, taken))
        return replace(plan, max_frames=plan.max_frames - len(taken), max_tokens=plan.max_tokens - spent)

    def _weight(self, frame: ContextFrame) -> int:
        """What a frame takes of the budget."""
        return frames.weight(frame.token_cost, frame.content, frame.canonical_token_cost, self._counts is not None)

    def _touched(self, paths: Sequence[Path]) -> Iterator[Relation]:
        root = self.repository.root
        if root is not None:
            for path in paths:
                yield Relation("git:touches", file_uri(root, path), _shown(path))

    def _surveyed(
        self, plan: Plan, snapshot: Snapshot, deadline: float | None, cut: _Cut, report: Report | None
    ) -> tuple[Survey, Messages]:
        until = _share(deadline, COUNTING)
        unreadable = self.corpus.count(snapshot, until, urgent=lambda: _by_name(plan, snapshot), report=report)
        early = until is None or time.monotonic() < until
        messages = self._explained(snapshot, _share(deadline, EXPLAINING_EARLY if early else EXPLAINING), cut)
        survey = self.corpus.survey(snapshot, self._touches(messages), unreadable)
        self.corpus.go_on(survey)
        if survey.missing:
            cut(f"{survey.missing} of {len(snapshot.entries)} files were not counted in time")
        return survey, messages

    def _hits(
        self,
        plan: Plan,
        survey: Survey,
        near: Mapping[Path, float],
        paths: PathFilter | None,
        deadline: float | None,
        cut: _Cut,
    ) -> tuple[list[Hit], dict[Path, Text], Mapping[Path, Outline]]:
        if "graph" in plan.kinds:  # whatever is found in a file speaks for the whole of it
            plan = replace(plan, kinds=KINDS)
        matches = survey.view.match(plan.terms)
        shortlist = ranking.candidates(
            plan,
            matches,
            lambda path: survey.facts[path].traits - _wanted(plan, near.get(path, 0.0)),
            accepts=_accepts(plan, survey, paths),
            neighbours=near,
        )
        texts = self.corpus.texts(survey.snapshot, (candidate.path for candidate in shortlist))
        parsed = {one.path: texts[one.path] for one in shortlist[:OUTLINED] if one.path in texts}
        outlined = self.corpus.outlines(parsed, survey.facts, _share(deadline, PARSING))
        if outlined.late:
            cut(f"{outlined.late} files were not parsed in time")
        if outlined.lost:
            cut(f"the parser was stopped over {_shown(outlined.lost[0])}")
        information = ranking.weigh(plan, matches)
        hits = ranking.rank(plan, shortlist, texts, outlined.outlines, information, prose=survey.prose)
        return hits, texts, outlined.outlines

    def _built(
        self,
        pieces: Sequence[frames.Piece],
        snapshot: Snapshot,
        texts: Mapping[Path, Text],
        deadline: float | None,
        cut: _Cut,
    ) -> tuple[ContextFrame, ...]:
        origin = frames.Origin(self.repository.root, snapshot.commit, snapshot.head_commit)
        contents = [(piece.path, texts[piece.path].slice(piece.span)) for piece in pieces]
        windows = self.history.windows(contents, snapshot, deadline)
        if not windows.complete:
            cut("history was not read in time: windows are those of the commit")
        return tuple(
            frames.build(
                piece,
                texts[piece.path],
                origin,
                blob=_committed_blob(snapshot, piece.path),
                window=(window.opens, window.closes),
                current=self._today(piece.path, snapshot, deadline, cut),
                same=self._copies(piece, snapshot, deadline, cut),
                tokenizer=self._tokenizer_ref,
            )
            for piece, window in zip(pieces, windows.windows, strict=True)
        )

    def _copies(self, piece: frames.Piece, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> tuple[Path, ...]:
        """Where else a frame's content stands, by today's paths; what is gone today is left out."""
        if snapshot.commit is None:
            return piece.same
        today = {self._today(path, snapshot, deadline, cut) for path in piece.same}
        today -= {None, self._today(piece.path, snapshot, deadline, cut) if today else None}
        return tuple(sorted(path for path in today if path is not None))

    # --- the graph

    def _asked_about(self, plan: Plan, survey: Survey, found: graph.Graph) -> tuple[Anchor, ...]:
        """The files whose users a question asks for, by path or by what they define."""
        if plan.structure != "users":
            return ()
        named = [found.modules.tree.ending(place.path) for place in plan.places]
        names = [name.parts[-1] for name in plan.names]
        named += [[path for path in paths if not found.minor(path)] for paths in survey.view.defining(names).values()]
        return tuple(dict.fromkeys(Anchor("", paths[0]) for paths in named if len(paths) == 1))

    def _told(
        self,
        plan: Plan,
        scores: Mapping[Path, float],
        survey: Survey,
        texts: Mapping[Path, Text],
        outlines: Mapping[Path, Outline],
    ) -> list[tuple[Path, ContextFrame]]:
        """Outlines of whole files as prose, best first, as many as an answer has room for."""
        alone = plan.kinds == ("graph",)
        most = plan.max_frames if alone else max(1, plan.max_frames // 2)
        budget = plan.max_tokens if alone else plan.max_tokens // 2
        found: dict[Digest | None, tuple[Path, ContextFrame]] = {}
        for path, score in scores.items():
            outline = outlines.get(path)
            if len(found) < most and outline is not None and (outline.definitions or outline.imports):
                frame = self._summary(path, texts[path], outline, survey.snapshot, score)
                if self._weight(frame) <= budget and frame.content_digest not in found:
                    found[frame.content_digest] = path, frame
                    budget -= self._weight(frame)
        return list(found.values())

    def _summary(self, path: Path, text: Text, outline: Outline, snapshot: Snapshot, score: float) -> ContextFrame:
        """A file's outline; its first link cites the file's bytes as they were read."""
        root, cited = self.repository.root, digest(text.raw)
        commit, blob = snapshot.commit or snapshot.head_commit, _committed_blob(snapshot, path)
        links = []
        if snapshot.commit is None and root is not None:
            links.append(Provenance("derivation", file_uri(root, path), digest=cited, method="outline"))
        if commit is not None and blob is not None:
            kind, uri = "git" if links else "derivation", frames.swhid(blob, commit, path)
            links.append(Provenance(kind, uri, digest=cited, method=None if links else "outline"))
        return self._derived(
            frames.FrameName("graph", path, commit=snapshot.commit),
            _told(text, outline),
            title=f"Outline of {_shown(path)}",
            label=f"{_shown(path)} (outline)" + (f" @{snapshot.commit.hex()[:10]}" if snapshot.commit else ""),
            score=score,
            links=links,
            uri=links[0].uri,
        )

    def _dated(
        self,
        told: Sequence[tuple[Path, ContextFrame]],
        snapshot: Snapshot,
        texts: Mapping[Path, Text],
        deadline: float | None,
        cut: _Cut,
    ) -> list[ContextFrame]:
        """Summaries with the window in which the whole file was as it is, and where an old one is today."""
        if not told:
            return []
        origin = frames.Origin(self.repository.root, snapshot.commit, snapshot.head_commit)
        pieces = [(path, texts[path].data) for path, _ in told]
        windows = self.history.windows(pieces, snapshot, deadline, whole=True)
        if not windows.complete:
            cut("history was not read in time: windows are those of the commit")
        return [
            replace(
                frame,
                valid_from=format_instant(window.opens),
                valid_to=format_instant(window.closes),
                relations=tuple(frames.elsewhere(origin, self._today(path, snapshot, deadline, cut))),
            )
            for (path, frame), window in zip(told, windows.windows, strict=True)
        ]

    def _graph(self, plan: Plan, survey: Survey) -> graph.Graph:
        return graph.Graph(
            self.corpus.modules(survey.snapshot),
            survey.view.defining,
            lambda path: survey.facts[path].language if path in survey.facts else files.PLAIN,
            lambda path: path in survey.facts and not _MINOR.isdisjoint(survey.facts[path].traits),
            frozenset((anchor.path, anchor.name or "") for anchor in plan.anchors),
        )

    def _related(
        self,
        found: graph.Graph,
        shown: Sequence[ContextFrame],
        places: Sequence[tuple[Path, Span, bool]],
        survey: Survey,
        texts: Mapping[Path, Text],
        outlines: Mapping[Path, Outline],
        deadline: float | None,
        cut: _Cut,
    ) -> list[ContextFrame]:
        """Frames with what they define, call, import, mention; without any of it where there is no time for all."""
        known = {**outlines}
        known |= self._read_for(
            {path: texts[path] for path, _, _ in places if path not in known}, survey, deadline, cut
        )
        if _RELATIONS_LATE in cut.reasons:
            return list(shown)
        drafts = found.drafts([graph.Region(path, known[path], span, texts[path], doc) for path, span, doc in places])
        asked = self.corpus.texts(survey.snapshot, filter(survey.serves, found.opened(drafts, known)))
        known |= self._read_for(asked, survey, deadline, cut)
        if _RELATIONS_LATE in cut.reasons:
            return list(shown)
        today: dict[Path, Path | None] = {}
        return [
            replace(
                frame,
                relations=(
                    *frame.relations,
                    *self._relations(found.edges(draft, known), survey.snapshot, today, deadline, cut),
                ),
            )
            for frame, draft in zip(shown, drafts, strict=True)
        ]

    def _read_for(
        self, texts: Mapping[Path, Text], survey: Survey, deadline: float | None, cut: _Cut
    ) -> Mapping[Path, Outline]:
        """Outlines of a few more files, for what they say of others."""
        if not texts:
            return {}
        outlined = self.corpus.outlines(texts, survey.facts, deadline)
        if outlined.late:
            cut(_RELATIONS_LATE)
        elif outlined.lost:
            cut(f"the parser was stopped over {_shown(outlined.lost[0])}")
        return outlined.outlines

    def _relations(
        self,
        edges: Sequence[graph.Edge],
        snapshot: Snapshot,
        today: dict[Path, Path | None],
        deadline: float | None,
        cut: _Cut,
    ) -> Iterator[Relation]:
        """Edges as the wire knows them: definitions by the snapshot's path, files by today's."""
        root = self.repository.root
        for edge in edges:
            if edge.name:
                yield Relation(
                    edge.rel, graph.symbol_uri(edge), f"{frames.printable(edge.name)} in {_shown(edge.path)}"
                )
            elif root is not None:
                if edge.path not in today:
                    known = snapshot.commit is None
                    today[edge.path] = edge.path if known else self._today(edge.path, snapshot, deadline, cut)
                if (current := today[edge.path]) is not None:
                    yield Relation(edge.rel, file_uri(root, current), _shown(current))

    def _near(
        self,
        found: graph.Graph,
        anchors: Sequence[Anchor],
        survey: Survey,
        messages: Messages,
        deadline: float | None,
        cut: _Cut,
    ) -> Mapping[Path, float]:
        """The files around what the host has at hand or the question is about, and how near each is."""
        anchors = [anchor for anchor in anchors if survey.serves(anchor.path)][:HOPPED]
        if not anchors:
            return {}
        texts = self.corpus.texts(survey.snapshot, [anchor.path for anchor in anchors])
        outlines = self._read_for(texts, survey, deadline, cut)
        near: dict[Path, float] = {}
        for anchor in anchors:
            if anchor.path in outlines:
                together = dict(messages.changed_together(anchor.path))
                hops = found.hops(anchor, outlines[anchor.path], texts[anchor.path], survey.view.using, together)
                near |= {path: max(nearness, near.get(path, 0.0)) for path, nearness in hops.items()}
        return near

    def _today(self, path: Path, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> Path | None:
        """What an as-of file is called today; None where it is gone, or for the working tree itself."""
        if snapshot.commit is None:
            return None
        try:
            return self.history.path_now(path, snapshot, deadline)
        except Late:
            cut("renames were not read in time")
            return None
        except Missing:
            return None

    def _anchored(self, plan: Plan, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> Plan:
        """The plan with its anchors' paths as the snapshot calls them."""
        anchors = (self._called_there(anchor, snapshot, deadline, cut) for anchor in plan.anchors)
        return replace(plan, anchors=tuple(anchors))

    def _called_there(self, anchor: Anchor, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> Anchor:
        """An anchor whose path is one of today, or of the commit that its SWHID names."""
        if anchor.path in snapshot.entries:
            return anchor
        path: Path | None = anchor.path
        try:
            if (named := _REVISION.search(anchor.uri)) is not None:
                then = self.history.snapshot(CommitId(bytes.fromhex(named[1])), deadline)
                path = self.history.path_now(anchor.path, then, deadline)
            if path is not None and snapshot.commit is not None:
                path = self.history.path_then(path, snapshot, deadline)
        except Late:
            cut("renames were not read in time")
            return anchor
        except Missing:
            return anchor
        return replace(anchor, path=path or anchor.path)

    def _say_once(self, *notes: str) -> None:
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._log(note)

    # --- verify -------------------------------------------------------------------------------------------------

    def verify(self, held: Sequence[FrameId]) -> list[FrameVerdict]:
        """What has become of each frame (V3), a function of the repository and the identities alone (P4)."""
        resolver = _Resolver(self)
        resolver.look_ahead([frame for frame in held if frame.provider_id == self.settings.name])
        return [frames.verdict(frame, self.settings.name, resolver) for frame in held]

    # --- one place ----------------------------------------------------------------------------------------------

    def basis(self, as_of: Instant | None = None) -> Basis:
        """The state that an answer for this instant speaks of."""
        snapshot = self._snapshot(as_of, None)
        return Basis(None, None, False) if snapshot is None else self._basis(snapshot)

    def _basis(self, snapshot: Snapshot) -> Basis:
        commit = snapshot.commit or snapshot.head_commit
        if commit is None or snapshot.commit is not None:
            return Basis(commit, snapshot.opens, commit is None)
        line = self.history.line(commit)
        return Basis(commit, Instant(line.times[-1]) if line.times else None, True)

    def contents(self, place: str, as_of: Instant | None = None) -> Contents:
        """The file or folder at a path as it was at an instant; the path is today's, in any spelling of an anchor.

        Raises BadRequest (`no_such_path`) that names what may have been meant.
        """
        snapshot = self._state(as_of)
        path = Path(b"") if self._is_root(place) else self._called(self._place(place).path, snapshot)
        text = self.corpus.text(snapshot, path)
        if text is not None:
            return Contents(self._basis(snapshot), path, text, self.corpus.outline(path, text))
        inside = tuple(one for one in snapshot.entries if one.startswith(path + b"/" if path else b""))
        if not inside:
            raise BadRequest(f"{_shown(path)} is not there{_similar(snapshot, path)}", reason="no_such_path")
        return Contents(self._basis(snapshot), path, files=inside)

    def _state(self, as_of: Instant | None) -> Snapshot:
        snapshot = self._snapshot(as_of, None)
        if snapshot is None:
            raise BadRequest("there was no commit yet at that instant", reason="no_commit")
        return snapshot

    def _called(self, path: Path, snapshot: Snapshot) -> Path:
        """Today's path as the snapshot calls it."""
        if snapshot.commit is None or path in snapshot.entries:
            return path
        return self.history.path_then(path, snapshot) or path

    def _is_root(self, place: str) -> bool:
        return place.rstrip("/.") == "" or place.rstrip("/") in self.roots

    def _place(self, place: str) -> Anchor:
        anchor = planner.anchor(place, self.roots)
        if anchor is None:
            raise BadRequest(f"{place!r} names no place in this repository", reason="no_such_path")
        return anchor

    def read(self, place: str, max_tokens: int, as_of: Instant | None = None) -> Reading:
        """The frame of an id, or of today's PATH, PATH#NAME or PATH:10-20, made again from what is there.

        An id that names a commit is of that commit; anything else is of `as_of`. What is longer than `max_tokens` is
        cut after a whole line or hunk. Raises BadRequest where there is no such place, and BudgetUnsatisfiable where
        not one line fits.
        """
        name = frames.parse_name(place) or self._named(place)
        if name.commit is None:
            snapshot = self._state(as_of)
            name = replace(name, path=self._called(name.path, snapshot), commit=snapshot.commit)
        else:
            found = _Resolver(self).snapshot(name.commit)
            if not isinstance(found, Snapshot):
                raise BadRequest(f"its commit {name.commit.hex()[:10]} is {found} here", reason="no_such_commit")
            snapshot = found
        basis = self._basis(snapshot)
        if name.episode is not None:
            return self._told_again(basis, name, snapshot, max_tokens)
        text = self.corpus.text(snapshot, name.path)
        if text is None:
            raise BadRequest(
                f"{_shown(name.path)} is no file here{_similar(snapshot, name.path)}", reason="no_such_path"
            )
        if name.kind == "graph":
            return Reading(basis, self._summary_again(name, text, snapshot, max_tokens))
        hit = self._hit(name, text)
        span = _first_lines(text, hit.span, max_tokens)
        content, fidelity = text.content(span)
        piece = frames.Piece(hit, span, content, fidelity, text.content_digest(span), token_cost(content))
        (frame,) = self._built([piece], snapshot, {name.path: text}, None, _Cut())
        if span == hit.span:
            return Reading(basis, frame)
        lines = (text.lines(span)[1] + 1, text.lines(hit.span)[1])
        rest = frames.FrameName(hit.kind, name.path, lines=lines, commit=name.commit)
        return Reading(basis, frame, frames.format_name(rest))

    def _summary_again(self, name: frames.FrameName, text: Text, snapshot: Snapshot, max_tokens: int) -> ContextFrame:
        outline = self.corpus.outline(name.path, text)
        if outline is None:
            raise BadRequest(f"{_shown(name.path)} could not be parsed", reason="no_outline")
        frame = self._summary(name.path, text, outline, snapshot, 1.0)
        if frame.token_cost > max_tokens:
            raise BudgetUnsatisfiable(f"the outline of {_shown(name.path)} is longer than {max_tokens} tokens")
        return self._dated([(name.path, frame)], snapshot, {name.path: text}, None, _Cut())[0]

    def _named(self, place: str) -> frames.FrameName:
        """The frame that a place which is no id means."""
        anchor = self._place(place)
        lines = anchor.lines or (None if anchor.name else (1, 10**9))
        return frames.FrameName("snippet", anchor.path, name=anchor.name, lines=lines)

    def _hit(self, name: frames.FrameName, text: Text) -> Hit:
        """The whole region that a file's frame shows."""
        if name.lines is not None:
            span = text.span(*name.lines)
            if span is None or span.start == span.end:
                raise BadRequest(f"{_shown(name.path)} has {text.line_count} lines", reason="no_such_lines")
            return Hit(name.path, name.kind, span, 1.0)
        outline = self.corpus.outline(name.path, text)
        definitions = () if outline is None else outline.definitions
        found = [one for one in definitions if one.qualified == name.name]
        found = found or [one for one in definitions if one.name == name.name and name.name]
        if not found:
            raise BadRequest(f"{_shown(name.path)} defines no {name.name}", reason="no_such_name")
        ordinal = min(name.ordinal, len(found) - 1)
        one = found[ordinal]
        span = one.head if name.kind == "symbol" else one.span
        return Hit(name.path, name.kind, span, 1.0, one.qualified, ordinal, enclosing=one.qualified)

    def _told_again(self, basis: Basis, name: frames.FrameName, snapshot: Snapshot, max_tokens: int) -> Reading:
        """A commit with as many of its hunks as fit."""
        tip = snapshot.commit or snapshot.head_commit
        assert name.episode is not None
        try:
            if tip is None or not self.history.reaches(tip, name.episode):
                raise BadRequest("that commit is not in the history of what is served", reason="no_such_commit")
            commit = self.history.commit(name.episode)
        except Missing:
            raise BadRequest("that commit's objects are not here", reason="no_such_commit") from None
        shown, hunks = commit.id.hex()[:10], name.hunks
        while token_cost(told := episodes.tell(commit, hunks)) > max_tokens:
            if not hunks:
                raise BudgetUnsatisfiable(f"what commit {shown} says alone is longer than {max_tokens} tokens")
            hunks = hunks[:-1]
        frame = frames.derived(
            replace(name, hunks=hunks),
            told,
            title=commit.subject or shown,
            label=f"{shown} {commit.subject}",
            score=1.0,
            links=(Provenance("git", f"swh:1:rev:{commit.id.hex()}", digest=self.history.cited(commit.id)),),
            uri=f"swh:1:rev:{commit.id.hex()}",
            window=(self._reached(commit.id, tip, snapshot), None),
        )
        rest = replace(name, hunks=name.hunks[len(hunks) :])
        return Reading(basis, frame, frames.format_name(rest) if rest.hunks else None)

    def _reached(self, commit: CommitId, tip: CommitId, snapshot: Snapshot) -> int | None:
        """Since when a commit is in the history of what is served; None where that lies beyond what is read of it."""
        line = self.history.line(self.repository.head() or tip)
        at = line.positions.get(commit)
        if at is not None:
            return line.times[at]
        return self._explained(snapshot, None, _Cut()).opens.get(commit)

    # --- the command line ---------------------------------------------------------------------------------------

    def index(self, report: Report | None = None) -> None:
        """Count and outline every file of what is served now, and read its history, so that no question waits."""
        self._fill(self.now(), report)
        self.store.flush()

    def instant(self, typed: str) -> Instant:
        """What a person means by a time: a timestamp, a date, or a commit of the served line. Raises BadRequest."""
        at = typed_instant(typed)
        if at is None:
            at = self._effective(typed)
        if format_instant(at) is None:
            raise BadRequest(f"{typed!r} lies outside the years a timestamp can say", reason="invalid_time")
        return at

    def _effective(self, revision: str) -> Instant:
        """The effective time of a commit, branch or tag on the served line. Raises BadRequest where it is not one."""
        try:
            tip, commit = self.repository.head(), self.repository.resolve(revision)
        except BadRequest as error:
            raise BadRequest(f"{error}; or a date like 2026-08-09", reason=error.reason) from None
        line = None if tip is None else self.history.line(tip)
        opens = None if line is None or commit not in line.positions else line.window(line.positions[commit])[0]
        if opens is None:
            raise BadRequest(f"{revision} is not on the first-parent line of what is served", reason="invalid_revision")
        return opens

    def timeline(self, limit: int) -> dict[str, object]:
        """The commits an instant can mean, oldest first, as plain values; of more than `limit` an even sample."""
        head = self.repository.head()
        place = self.repository.root or self.repository.git_dir
        told: dict[str, object] = {"name": os.path.basename(place.rstrip("/")), "root": file_uri(place, b"")}
        if head is None:
            return {**told, "basis": "", "working_tree": self.repository.root is not None, "total": 0, "commits": []}
        line = self.history.line(head)
        named = [position for position in range(len(line)) if format_instant(line.window(position)[0])]
        last = len(named) - 1
        sample = named if last < limit else [named[last * step // (limit - 1)] for step in range(limit)]
        with self.repository.objects() as objects:
            shown = [(line.commits[position], line.times[position]) for position in sample]
            commits = [
                {"commit": commit.hex(), "at": format_instant(at), "subject": subject(objects.commit(commit))}
                for commit, at in shown
            ]
        return {
            **told,
            "basis": f"reachable history of {self.repository.head_name()}",
            "working_tree": self.repository.root is not None and self.settings.ref is None,
            "total": len(named),
            "commits": commits,
        }

    def status(self, paths: PathFilter | None = None, *, languages: bool = False) -> dict[str, object]:
        """What is served, what is left out and why, as names and plain values. With `paths`, each one's own fate."""
        snapshot = self.now()
        survey = self.corpus.survey(snapshot, (), self.corpus.count(snapshot, None))
        skipped = _skipped(survey)
        if paths is not None:
            return {"paths": _fates(snapshot, survey, skipped, paths)}
        told: dict[str, object] = {
            "repository": self.repository.root or self.repository.git_dir,
            "basis": f"reachable history of {self.repository.head_name()}",
            "head": None if (head := self.repository.head()) is None else head.hex(),
            "serves": "the working tree" if snapshot.commit is None else f"commit {snapshot.commit.hex()}",
            "files": {
                "seen": len(snapshot.entries) + sum(map(len, snapshot.skipped.values())),
                "indexed": len(survey.view.paths),
                "skipped": {reason: _examples(found) for reason, found in sorted(skipped.items())},
            },
            "languages": _spoken(survey),
            "history": self._history_status(head),
            "store": self._store_status(),
            "budget": self._budget_status(survey),
            "notes": [*self.settings.notes, *self.repository.notes()],
        }
        if languages:
            told["grammars"] = [
                f"{one.name}: {one.error or f'{one.source} {one.version}, ABI {one.abi}'.strip()}"
                for one in syntax.languages_status()
                if one.source or one.error
            ]
            told["languages_load"] = not any(one.error for one in syntax.languages_status())
        return told

    def _history_status(self, head: CommitId | None) -> dict[str, object]:
        if head is None:
            return {"commits": 0, "rule": "first_parent"}
        line = self.history.line(head)
        return {
            "commits": len(line),
            "from": format_instant(line.times[0]) or line.times[0],
            "to": format_instant(line.times[-1]) or line.times[-1],
            "rule": "first_parent",
            "history_truncated": line.cut,
            "dated_ahead": [f"{commit.hex()} hides {hidden} later commits" for commit, hidden in line.ahead()[:10]],
        }

    def _budget_status(self, survey: Survey) -> object:
        """What a token is here, and which counts are estimates."""
        if self._counts is None:
            return "a token is four bytes, an estimate; --budget-tokenizer counts those of a model"
        tokens, estimated = 0, []
        for path in survey.view.paths:
            text = self.corpus.text(survey.snapshot, path)
            content = "" if text is None else text.content(Span(0, len(text.data)))[0]
            counted = self._counts.tokenizer.count(content)
            if counted is None:
                estimated.append(path)
            tokens += len(content.encode()) if counted is None else counted
        told: dict[str, object] = {"tokenizer": self._tokenizer_ref, "tokens": tokens}
        return told | ({"estimated": f"{_examples(estimated)}: a token a byte"} if estimated else {})

    def _store_status(self) -> dict[str, object]:
        facts = self.store.facts()
        return {name: getattr(facts, name) for name in facts.__struct_fields__}


class _Resolver:
    """The repository as `frames.verdict` asks for it, for one verify request: every snapshot is looked at once."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._snapshots: dict[CommitId | None, Snapshot | frames.Missing] = {}
        self._outlines: dict[tuple[Path, CommitId | None], Outline | None] = {}

    def text(self, path: Path, commit: CommitId | None) -> Text | frames.Missing:
        snapshot = self.snapshot(commit)
        if not isinstance(snapshot, Snapshot):
            return snapshot
        try:
            text = self._provider.corpus.text(snapshot, path)
            if text is None and path in snapshot.sparse:
                data = self._provider.repository.blob(snapshot.sparse[path])
                text = None if data is None else Text(data)
        except Unavailable:
            return "unknown"
        return self._why_not(snapshot, path) if text is None else text

    def _why_not(self, snapshot: Snapshot, path: Path) -> frames.Missing:
        """A path that is there but cannot be read or served says nothing about what it holds."""
        there = path in snapshot.entries or path in snapshot.sparse
        kept_back = any(path in snapshot.skipped.get(reason, ()) for reason in ("oversize", "unreadable"))
        above = (path[:end] for end in (*(at for at, byte in enumerate(path) if byte == 47), len(path)))
        lost = not set(snapshot.skipped.get("missing_object", ())).isdisjoint(above)
        return "unknown" if there or kept_back or (lost and self._provider.repository.promised) else "gone"

    def look_ahead(self, held: Sequence[FrameId]) -> None:
        """Find the outlines that frames of named regions need, many at a time."""
        names = (frames.parse_name(frame.frame_id) for frame in held)
        wanted: dict[CommitId | None, dict[Path, None]] = {}
        for name in names:
            if name is not None and name.name is not None:
                wanted.setdefault(name.commit, {})[name.path] = None
        for commit, paths in wanted.items():
            for start in range(0, len(paths), OUTLINED):
                some = islice(paths, start, start + OUTLINED)
                texts = {path: text for path in some if isinstance(text := self.text(path, commit), Text)}
                outlines = self._provider.corpus.outlines_of(texts)
                self._outlines |= {(path, commit): outlines.get(path) for path in texts}

    def outline(self, path: Path, commit: CommitId | None) -> Outline | None:
        place = path, commit
        if place not in self._outlines:
            text = self.text(path, commit)
            known = self._provider.corpus.outline(path, text) if isinstance(text, Text) else None
            self._outlines[place] = known
        return self._outlines[place]

    def derived(self, name: frames.FrameName, held: str) -> Digest | frames.Missing:
        """An episode stands as long as its commit is reachable from what is served, a summary as long as its file."""
        snapshot = self.snapshot(name.commit)
        if not isinstance(snapshot, Snapshot):
            return snapshot
        if name.episode is None:
            return self._summary(name)
        try:
            tip = snapshot.commit or snapshot.head_commit or self._provider.repository.head()
            if tip is None or not self._provider.history.reaches(tip, name.episode):
                return "gone"
            commit = self._provider.history.commit(name.episode)
        except (Missing, Unavailable):  # behind the boundary of a clone, or out of reach for now
            return "unknown"
        if not set(name.hunks) <= {hunk.ordinal for hunk in commit.hunks}:
            return "unknown" if commit.lacking else "gone"
        found = digest(episodes.tell(commit, name.hunks).encode())
        return "unknown" if commit.lacking and found != held else found

    def _summary(self, name: frames.FrameName) -> Digest | frames.Missing:
        text, outline = self.text(name.path, name.commit), self.outline(name.path, name.commit)
        if not isinstance(text, Text):
            return text
        return "unknown" if outline is None else digest(_told(text, outline).encode())

    def snapshot(self, commit: CommitId | None) -> Snapshot | frames.Missing:
        if commit not in self._snapshots:
            try:
                self._snapshots[commit] = self._look(commit)
            except Missing:
                self._snapshots[commit] = "unknown" if self._provider.repository.promised else "gone"
            except Unavailable:  # an alternate that is not there now may be there again
                self._snapshots[commit] = "unknown"
        return self._snapshots[commit]

    def _look(self, commit: CommitId | None) -> Snapshot | frames.Missing:
        """A commit counts as long as it is on the first-parent line of what is served, as far as that is here."""
        if commit is None:
            return self._provider.now()
        tip = self._provider.repository.head()
        line = None if tip is None else self._provider.history.line(tip)
        if line is None or commit not in line.positions:
            return "unknown" if line is not None and line.cut else "gone"
        return self._provider.history.snapshot(commit)


def _seconds_until(deadline: float | None) -> float:
    """As `Lock.acquire` takes it: -1 waits."""
    return -1 if deadline is None else max(0.0, deadline - time.monotonic())


def _share(deadline: float | None, share: float) -> float | None:
    """The instant at which this share of the time left is spent."""
    return None if deadline is None else deadline - (1 - share) * _seconds_until(deadline)


def _accepts(plan: Plan, survey: Survey, paths: PathFilter | None) -> Callable[[Path], bool] | None:
    """Which files may answer: those of the paths asked for that can give a frame of the kinds asked for."""
    code, prose = bool(set(plan.kinds) - {"doc"}), bool(set(plan.kinds) - {"snippet", "symbol"})
    if code and prose:
        return None if paths is None else paths.matches
    return lambda path: (paths is None or paths.matches(path)) and survey.prose(path) == prose


_TEST = frozenset(("test",))


def _wanted(plan: Plan, nearness: float) -> frozenset[str]:
    """Traits that do not count against a file: being a test where it is as near as can be to a definition at hand."""
    return _TEST if nearness >= 1.0 and any(anchor.name for anchor in plan.anchors) else frozenset()


def _by_name(plan: Plan, snapshot: Snapshot) -> list[Path]:
    """Files whose path says words of the question, most first: where to look when there is no time for all."""
    words = [term.encode() for term in plan.terms if term[0] != "=" and len(term) > 2]
    said = ((sum(word in path.lower() for word in words), path) for path in snapshot.entries)
    return [path for count, path in sorted(said, key=lambda item: (-item[0], item[1])) if count]


def _follows(messages: Messages, previous: CommitId) -> Relation:
    text = messages.items[messages.index[previous]].text
    subject = frames.printable(text.partition("\n")[0]) if text else previous.hex()[:10]
    return Relation("episode.follows", f"swh:1:rev:{previous.hex()}", subject)


def _committed_blob(snapshot: Snapshot, path: Path) -> BlobId | None:
    """The git object with exactly a served file's bytes: of the as-of tree, or of HEAD's where it is unchanged."""
    blob = snapshot.entries[path].blob
    if snapshot.commit is not None:
        return blob
    return blob if snapshot.head is not None and snapshot.head.get(path) == blob else None


def _similar(snapshot: Snapshot, path: Path) -> str:
    """Files of the same name elsewhere, as the end of a sentence."""
    name = path.rpartition(b"/")[2].lower()
    found = [_shown(one) for one in snapshot.entries if one.rpartition(b"/")[2].lower() == name]
    return f"; there is {', '.join(found[:3])}" if found and name else ""


def _first_lines(text: Text, span: Span, max_tokens: int) -> Span:
    """As many whole lines from the start of a span as fit."""
    if token_cost(text.content(span)[0]) <= max_tokens:
        return span
    first, last = text.lines(span)
    fits = bisect_right(
        range(first, last), max_tokens, key=lambda line: token_cost(text.content(_upto(text, span, line))[0])
    )
    if not fits:
        raise BudgetUnsatisfiable(f"line {first} alone is longer than {max_tokens} tokens")
    return _upto(text, span, first + fits - 1)


def _upto(text: Text, span: Span, line: int) -> Span:
    return Span(span.start, text.starts[line] if line < text.line_count else span.end)


def _told_of(
    plan: Plan,
    hits: Sequence[Hit],
    survey: Survey,
    found: graph.Graph,
    used: Sequence[Anchor],
    outlines: Mapping[Path, Outline],
) -> dict[Path, float]:
    """The files whose outlines answer, with their scores: the best where those are asked for by kind.

    Else the one file that is asked about, or a few of those that import it.
    """
    if "graph" not in plan.kinds or (plan.mixed and not plan.structure):
        return {}
    scores: dict[Path, float] = {}
    for hit in hits:
        if not plan.mixed or hit.parts.get("place") or not survey.prose(hit.path):
            scores.setdefault(hit.path, hit.score)
    if not plan.mixed:
        return scores
    if plan.structure == "users":
        wanted = frozenset(anchor.path for anchor in used)
        users = (path for path in scores if path in outlines and found.imports(path, outlines[path], wanted))
        return {path: scores[path] for path in islice(users, MOST_USERS)}
    return {path: scores[path] for path in islice(scores, 1)}


MOST_USERS = 3


def _told(text: Text, outline: Outline) -> str:
    return graph.tell(text, outline, files.languages()[outline.language].title)


def _shown(path: Path) -> str:
    return frames.printable(path.decode("utf-8", "replace"))


# --- status -----------------------------------------------------------------------------------------------------


def _skipped(survey: Survey) -> dict[str, list[Path]]:
    """Paths that are not served, by reason; the reasons of listing and of content together."""
    skipped = {reason: list(paths) for reason, paths in survey.snapshot.skipped.items()}
    for path, facts in survey.facts.items():
        if facts.unserved:
            skipped.setdefault(facts.unserved, []).append(path)
    if survey.unreadable:
        skipped.setdefault("unreadable", []).extend(survey.unreadable)
    return skipped


def _examples(paths: Sequence[Path]) -> str:
    shown = ", ".join(_shown(path) for path in sorted(paths)[:3])
    return f"{len(paths)} ({shown}{', ...' if len(paths) > 3 else ''})"


def _spoken(survey: Survey) -> dict[str, int]:
    counted = Counter(survey.facts[path].language for path in survey.view.paths)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _fates(
    snapshot: Snapshot, survey: Survey, skipped: Mapping[str, Sequence[Path]], wanted: PathFilter
) -> dict[str, str]:
    """What becomes of each path that a filter takes: its language, or why it is not served."""
    fates = {path: f"served as {survey.facts[path].language}" for path in survey.view.paths}
    fates |= {path: f"not served: {reason}" for reason, paths in skipped.items() for path in paths}
    return {_shown(path): fates[path] for path in sorted(fates) if wanted.matches(path)}
