"""The provider: queries, verdicts, indexing, status, composed of the modules that know how.

Owns no algorithm. A query goes `planner` -> `history` (which snapshot) -> `corpus` and `lexical` (which files) ->
`ranking` (which regions) -> `frames` (which fit). Sessions, the command line and every other edge call this and
nothing behind it. Threads may share one provider; nothing in it changes an answer but the repository (P1).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from repo_provider import frames, planner, ranking
from repo_provider.corpus import Corpus, Facts, Report, Survey
from repo_provider.errors import BadRequest, UnsupportedKind
from repo_provider.globs import PathFilter
from repo_provider.history import History
from repo_provider.model import BlobId, CommitId, Hit, Outline, Path, Plan, Snapshot, Text
from repo_provider.protocol import (
    ContextFrame,
    ContextQuery,
    ContextQueryResult,
    Digest,
    FrameId,
    FrameVerdict,
    Instant,
    format_instant,
)
from repo_provider.repository import Repository
from repo_provider.settings import Settings, store_outside
from repo_provider.store import Store
from repo_provider.workers import Workers

OUTLINED = 40
"""Files of the shortlist that are parsed: those that may end up in the answer."""
LEVEL_ONE_SHARE = 0.6
"""Of the time a query has: what counting words may take before the files counted so far have to do."""
MESSAGES = 8_000
"""Newest commits whose messages count as words about the files they touched."""


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
        self.repository = Repository.open(settings.path, ref=settings.ref, max_file_bytes=settings.max_file_size)
        places = (self.repository.root, self.repository.git_dir, self.repository.common_dir)
        directory, note = store_outside(settings, places)
        self._say_once(*([note] if note else []))
        self.store = Store.open(directory, self.repository.common_dir)
        self._say_once(*self.store.notes)
        self.repository.store = self.store
        self.workers = Workers(settings.workers)
        self.history = History(self.repository, self.store)
        self.corpus = Corpus(self.repository, self.store, self.workers)
        self._recent = threading.Lock()
        self._working: Snapshot | None = None
        self._closed = False

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute spellings of the repository's root: as typed, and with its links resolved."""
        root = self.repository.root
        return () if root is None else tuple(dict.fromkeys((root, os.path.realpath(root))))

    def warm(self) -> None:
        """Prepare for the first question: the index of what is served now, then the outlines of all of it."""
        snapshot = self._now()
        self.corpus.survey(snapshot, self._messages(snapshot, None), None)

    def close(self) -> None:
        """End every process and thread of this provider; what is known stays in the store."""
        self._closed = True
        self.corpus.close()
        self.workers.close()
        self.store.close()

    # --- snapshots ----------------------------------------------------------------------------------------------

    def _snapshot(self, as_of: Instant | None) -> Snapshot | None:
        return self._now() if as_of is None else self.history.at(as_of)

    def _now(self) -> Snapshot:
        """The working tree; the tip of the served ref where there is none or a ref was chosen."""
        if self.repository.root is None or self.settings.ref is not None:
            tip = self.repository.head()
            return Snapshot({}) if tip is None else self.history.snapshot(tip)
        fresh = self.repository.working_tree()
        with self._recent:
            if self._working != fresh:  # the same object again is what lets views be remembered
                self._working = fresh
            return self._working

    def _messages(self, snapshot: Snapshot, deadline: float | None) -> list[tuple[CommitId, Sequence[Path]]]:
        return []

    # --- query --------------------------------------------------------------------------------------------------

    def query(
        self, query: ContextQuery, deadline: float | None = None, paths: PathFilter | None = None
    ) -> ContextQueryResult:
        """The frames that answer a query, best first, within its budgets (B1, B4), all true at its instant (Q2).

        `deadline` is a reading of `time.monotonic`; what it cuts short is said in one line to the log.
        """
        plan = planner.plan(query, roots=self.roots)
        self._say_once(*plan.notes)
        if not plan.kinds:
            raise UnsupportedKind(f"none of the kinds asked for is served: {', '.join(query.kinds)}")
        if not plan.max_frames or not plan.max_tokens:
            return ContextQueryResult((), truncated=False)
        snapshot = self._snapshot(plan.as_of)
        if snapshot is None:
            return ContextQueryResult((), truncated=False)
        cut = _Cut()
        survey = self._surveyed(snapshot, deadline, cut)
        hits, texts, outlines = self._hits(plan, survey, paths, deadline, cut)
        selection = frames.select(
            hits, texts, max_frames=plan.max_frames, max_tokens=plan.max_tokens, outlines=outlines
        )
        built = self._built(selection.pieces, snapshot, texts, deadline, cut)
        if cut.reasons:
            self._log(f"cut answer: {'; '.join(cut.reasons)}")
            return ContextQueryResult(built, truncated=True)
        return ContextQueryResult(built, selection.truncated, selection.dropped or None)

    def _surveyed(self, snapshot: Snapshot, deadline: float | None, cut: _Cut) -> Survey:
        share = None if deadline is None else deadline - (1 - LEVEL_ONE_SHARE) * max(0.0, deadline - time.monotonic())
        survey = self.corpus.survey(snapshot, self._messages(snapshot, share), share)
        if survey.missing:
            cut(f"{survey.missing} of {len(snapshot.entries)} files were not counted in time")
        return survey

    def _hits(
        self, plan: Plan, survey: Survey, paths: PathFilter | None, deadline: float | None, cut: _Cut
    ) -> tuple[list[Hit], dict[Path, Text], Mapping[Path, Outline]]:
        matches = survey.view.match(plan.terms)
        shortlist = ranking.candidates(plan, matches, lambda path: survey.facts[path].traits)
        if paths is not None:
            shortlist = [candidate for candidate in shortlist if paths.matches(candidate.path)]
        texts = self.corpus.texts(survey.snapshot, (candidate.path for candidate in shortlist))
        parsed = {one.path: texts[one.path] for one in shortlist[:OUTLINED] if one.path in texts}
        outlined = self.corpus.outlines(survey.snapshot, parsed, survey.facts, deadline)
        if outlined.late:
            cut(f"{outlined.late} files were not parsed in time")
        if outlined.lost:
            cut(f"the parser was stopped over {_shown(outlined.lost[0])}")
        hits = ranking.rank(plan, shortlist, texts, outlined.outlines, ranking.weigh(plan, matches))
        return [hit for hit in hits if hit.kind in plan.kinds], texts, outlined.outlines

    def _built(
        self,
        pieces: Sequence[frames.Piece],
        snapshot: Snapshot,
        texts: Mapping[Path, Text],
        deadline: float | None,
        cut: _Cut,
    ) -> tuple[ContextFrame, ...]:
        origin = frames.Origin(self.repository.root, snapshot.commit, snapshot.head_commit)
        return tuple(
            frames.build(
                piece,
                texts[piece.path],
                origin,
                blob=_committed_blob(snapshot, piece.path),
                window=(snapshot.opens, snapshot.closes),
            )
            for piece in pieces
        )

    def _say_once(self, *notes: str) -> None:
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._log(note)

    # --- verify -------------------------------------------------------------------------------------------------

    def verify(self, held: Sequence[FrameId]) -> list[FrameVerdict]:
        """What has become of each frame (V3), a function of the repository and the identities alone (P4)."""
        resolver = _Resolver(self)
        return [frames.verdict(frame, self.settings.name, resolver) for frame in held]

    # --- the command line ---------------------------------------------------------------------------------------

    def index(self, report: Report | None = None) -> None:
        """Count and outline every file of what is served now."""
        self.corpus.survey(self._now(), [], None, report)

    def instant(self, revision: str) -> Instant:
        """The effective time of a commit, branch or tag on the served line. Raises BadRequest where it is not one."""
        commit = self.repository.resolve(revision)
        opens = self.history.snapshot(commit).opens
        if opens is None:
            raise BadRequest(f"{revision} is not on the first-parent line of what is served", reason="invalid_revision")
        return opens


class _Resolver:
    """The repository as `frames.verdict` asks for it, for one verify request: every snapshot is looked at once."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._snapshots: dict[CommitId | None, Snapshot | frames.Missing] = {}

    def _snapshot(self, commit: CommitId | None) -> Snapshot | frames.Missing:
        if commit not in self._snapshots:
            self._snapshots[commit] = self._look(commit)
        return self._snapshots[commit]

    def _look(self, commit: CommitId | None) -> Snapshot | frames.Missing:
        if commit is None:
            return self._provider._now()
        return self._provider.history.snapshot(commit)

    def text(self, path: Path, commit: CommitId | None) -> Text | frames.Missing:
        snapshot = self._snapshot(commit)
        if not isinstance(snapshot, Snapshot):
            return snapshot
        text = self._provider.corpus.text(snapshot, path)
        if text is not None:
            return text
        return "unknown" if path in snapshot.entries else "gone"

    def outline(self, path: Path, commit: CommitId | None) -> Outline | None:
        snapshot = self._snapshot(commit)
        text = self.text(path, commit)
        if not isinstance(snapshot, Snapshot) or not isinstance(text, Text):
            return None
        return self._provider.corpus.outline(snapshot, path, text)

    def derived(self, name: frames.FrameName) -> Digest | frames.Missing:
        return "unknown"


def _committed_blob(snapshot: Snapshot, path: Path) -> BlobId | None:
    """The git object with exactly a served file's bytes: of the as-of tree, or of HEAD's where it is unchanged."""
    blob = snapshot.entries[path].blob
    if snapshot.commit is not None:
        return blob
    return blob if snapshot.head is not None and snapshot.head.get(path) == blob else None


def _shown(path: Path) -> str:
    return frames.printable(path.decode("utf-8", "replace"))
