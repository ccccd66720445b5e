"""The versions of a file, or of one definition in it, along the served line: what `history PATH[#NAME]` lists.

Not the history index and not a diff: `history` says which contents a path had, and when; here those in which the
definition reads the same become one version. Called by the command line and by the other edges made for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from time import monotonic

from msgspec import Struct, structs

from repo_provider import planner
from repo_provider.commits import subject
from repo_provider.errors import BadRequest, Unavailable
from repo_provider.history import Run
from repo_provider.model import Anchor, CommitId, Entry, Path, Snapshot, Span, Text
from repo_provider.protocol import Instant
from repo_provider.provider import Provider
from repo_provider.repository import Missing


class Version(Struct, frozen=True):
    """A time in which it read the same, half open. `path` and `lines` are where it stood last.

    `commit` opened it, and `subject` is the first line of what that commit said.
    """

    path: Path
    lines: tuple[int, int]
    commit: CommitId
    subject: str
    opens: Instant
    closes: Instant | None


class Versions(Struct, frozen=True):
    """Newest first, none empty. `until` is the effective time of the tip, up to which the line was read.

    `cut`: there was no time for older ones, and the last one may have begun earlier.
    """

    place: str
    found: tuple[Version, ...]
    until: Instant
    cut: bool = False


def versions(provider: Provider, place: str, deadline: float | None = None) -> Versions:
    """The versions of PATH or PATH#NAME, in any spelling an anchor may have. Raises BadRequest where there are none.

    `deadline` is a reading of `time.monotonic`.
    """
    anchor = planner.anchor(place, provider.roots)
    if anchor is None or anchor.lines is not None:
        raise BadRequest(f"{place!r} is no PATH or PATH#NAME of this repository", reason="usage")
    shown = anchor.path.decode("utf-8", "replace")
    tip = provider.repository.head()
    snapshot = None
    with suppress(Missing):
        snapshot = None if tip is None else provider.history.snapshot(tip)
    runs = [] if snapshot is None else provider.history.runs(anchor.path, snapshot)
    if snapshot is None or not runs:
        raise BadRequest(f"{shown} is not in the newest commit of what is served", reason="no_such_path")
    late = False

    def timely() -> Iterator[Run]:
        nonlocal late
        for run in runs:
            if late := deadline is not None and monotonic() >= deadline:
                return
            yield run

    merged = list(_merged(provider, anchor, timely()))
    if late and not merged:
        raise Unavailable(f"the versions of {shown} were not read in time; ask again", reason="late")
    if not merged:
        raise BadRequest(f"no version of {shown} defines {anchor.name}", reason="no_such_name")
    name = "" if anchor.name is None else f"#{anchor.name}"
    found = tuple(structs.replace(one, subject=_subject(provider, one.commit)) for one in merged)
    until = max(found[0].opens, snapshot.opens or found[0].opens)
    return Versions(shown + name, found, until, late)


def _merged(provider: Provider, anchor: Anchor, runs: Iterable[Run]) -> Iterator[Version]:
    version: Version | None = None
    content = b""
    for run in runs:
        text, span = _where(provider, anchor, run, content)
        if version is not None and span is not None and text.slice(span) == content and version.opens == run.closes:
            version = structs.replace(version, commit=run.commit, opens=run.opens)
            continue
        if version is not None:
            yield version
        version, content = None, b""
        if span is not None:
            content = text.slice(span)
            version = Version(run.path, text.lines(span), run.commit, "", run.opens, run.closes)
    if version is not None:
        yield version


def _where(provider: Provider, anchor: Anchor, run: Run, newer: bytes) -> tuple[Text, Span | None]:
    """The file at that time, and what was asked for in it. Where it still reads as later, nothing is parsed."""
    snapshot = Snapshot({run.path: Entry(run.blob)}, commit=run.commit)
    text = provider.corpus.text(snapshot, run.path)
    if text is None:
        return Text(b""), None
    if anchor.name is None:
        return text, Span(0, len(text.data))
    start = text.data.find(newer) if newer else -1
    if start == 0 or (start > 0 and text.data[start - 1 : start] == b"\n"):
        return text, Span(start, start + len(newer))
    outline = provider.corpus.outline(run.path, text)
    definitions = () if outline is None else outline.definitions
    exact = [one.span for one in definitions if one.qualified == anchor.name]
    return text, next(iter([*exact, *(one.span for one in definitions if one.name == anchor.name)]), None)


def _subject(provider: Provider, commit: CommitId) -> str:
    try:
        with provider.repository.objects() as objects:
            return subject(objects.commit(commit))
    except Missing:
        return ""
