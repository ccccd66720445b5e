"""What commits say: their messages as text that explains files, and one commit with the hunks of its diff.

`history` owns the line and asks here for what lies beside it: the newest commits reachable from an instant's commit
along all parents, merges left out (their subjects are boilerplate, the merged commits speak for themselves), each
with the files it touched. Hunks are cut by libgit2's diff from plain bytes with fixed options, so neither attributes
nor configuration reach them and their ordinals name them for good (P4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from msgspec import Struct

from repo_provider.changes import Change, Differ, renames
from repo_provider.model import BlobId, CommitId, Path
from repo_provider.protocol import Instant
from repo_provider.repository import Header, Missing, Objects, diff_hunks, parse_header

# --- messages --------------------------------------------------------------------------------------------------

BULK = 8
"""A commit that touches more files explains none of them."""

_MOST_FILES = 32
_MOST_EXPLAINED = 1 << 16


class Message(Struct, frozen=True, array_like=True):
    """A commit's explaining text and the files it touched (none kept past 32; `files` counts up to 33).

    `moved` are (new, old) pairs of files whose bytes it only moved.
    """

    commit: CommitId
    time: int
    text: str
    files: int
    paths: tuple[Path, ...] = ()
    moved: tuple[tuple[Path, Path], ...] = ()

    @property
    def bulk(self) -> bool:
        return self.files > BULK


class Messages(Struct, frozen=True, dict=True):
    """The newest messages seen from a commit, newest first, with paths as that commit calls them.

    `opens` is when each commit came to be on the line: the effective time of the first commit there that reaches it.
    """

    items: tuple[Message, ...] = ()
    opens: Mapping[CommitId, Instant] = {}

    @cached_property
    def touching(self) -> Mapping[Path, tuple[int, ...]]:
        """Path -> places in `items` of the commits that touched it, bulk ones left out."""
        found: dict[Path, list[int]] = {}
        for index, message in enumerate(self.items):
            if not message.bulk:
                for path in message.paths:
                    found.setdefault(path, []).append(index)
        return {path: tuple(indices) for path, indices in found.items()}

    @cached_property
    def index(self) -> Mapping[CommitId, int]:
        return {message.commit: index for index, message in enumerate(self.items)}

    @property
    def bulk(self) -> int:
        """How many of them touch too many files to explain any."""
        return sum(message.bulk for message in self.items)

    def changed_together(self, path: Path, most: int = 10) -> list[tuple[Path, float]]:
        """Other files that changed in the same commits; a commit of few files weighs more."""
        weights: dict[Path, float] = {}
        for index in self.touching.get(path, ()):
            others = [other for other in self.items[index].paths if other != path]
            for other in others:
                weights[other] = weights.get(other, 0.0) + 1.0 / len(others)
        return sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:most]

    def previous(self, commit: CommitId, paths: Sequence[Path]) -> CommitId | None:
        """The next older commit that touched any of the paths."""
        here = self.index.get(commit)
        if here is None:
            return None
        older = [index for path in paths for index in self.touching.get(path, ()) if index > here]
        return self.items[min(older)].commit if older else None


def renamed_forward(messages: Sequence[Message]) -> Iterator[Message]:
    """Newest first: each with its paths as later moves call them."""
    names: dict[Path, Path] = {}
    for message in messages:
        if names.keys().isdisjoint(message.paths):
            yield message
        else:
            paths = tuple(sorted({names.get(path, path) for path in message.paths}))
            yield Message(message.commit, message.time, message.text, message.files, paths, message.moved)
        for new, old in message.moved:
            names.setdefault(old, names.get(new, new))


def read_message(objects: Objects, differ: Differ, commit: CommitId, header: Header, shallow: bool) -> Message:
    """A commit's message and files. One whose parent or trees are not here touches nothing that is known."""
    text = explanation(_message(objects.commit(commit))[:_MOST_EXPLAINED])
    changes: list[Change] = []
    files = _MOST_FILES + 1
    if not shallow:
        try:
            before = objects.header(header.parents[0]).tree if header.parents else None
            changes = list(islice(differ.changes(before, header.tree), files))
            files = len(changes)
        except Missing:
            changes = []
    if files > _MOST_FILES:
        return Message(commit, header.time, text, files)
    moved = renames(changes, None)
    paths = {change.path for change in changes} - set(moved.values())
    return Message(commit, header.time, text, files, tuple(sorted(paths)), tuple(sorted(moved.items())))


_TRAILER = re.compile(r"(?:[A-Za-z][A-Za-z-]*-by|Change-Id|Cc|CC|git-svn-id|Fixes|Closes|Reported-at|See-also): .*")
_BOILERPLATE = re.compile(
    r"Merge (?:pull request #\d+ from \S+|(?:remote-tracking )?branch(?:es)? .*|tag .*|commit .*)"
    r"|\(cherry picked from commit [0-9a-f]+\)|This reverts commit [0-9a-f]+\.?|[-=*#_~]{3,}"
)


def explanation(message: str) -> str:
    """The words of a message that somebody chose: merge lines, trailers and ruled lines go."""
    lines = (line.strip() for line in message.splitlines())
    return "\n".join(
        line for line in lines if line and not _TRAILER.fullmatch(line) and not _BOILERPLATE.fullmatch(line)
    )


def subject(data: bytes) -> str:
    """The first line of a commit's message that somebody chose, as `explanation` sees it; else its first line."""
    message = _message(data)
    return next(iter((explanation(message) or message.strip()).splitlines()), "")


# --- one commit ------------------------------------------------------------------------------------------------


class Hunk(Struct, frozen=True):
    """A run of changed lines with three of context around them. `ordinal` counts through the commit's whole diff.

    `text` are its lines, each led by a blank, `+` or `-`; line numbers are 1-based, 0 lines of a side allowed.
    """

    ordinal: int
    path: Path
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    text: bytes


class FileChange(Struct, frozen=True):
    """A file a commit touched. `before` is its old path; None where it is new. `gone` where it was deleted."""

    path: Path
    before: Path | None
    gone: bool = False


class Commit(Struct, frozen=True):
    """A commit as an episode tells it. `cut` says that its diff has more than is kept here.

    `lacking`: some of what it changed is not in this clone, which tells it otherwise than a whole one would.
    """

    id: CommitId
    parents: tuple[CommitId, ...]
    author: str
    authored: int
    committed: int
    message: str
    files: tuple[FileChange, ...]
    hunks: tuple[Hunk, ...]
    cut: bool = False
    lacking: bool = False

    @property
    def subject(self) -> str:
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


_DIFF_FILES = 100
_DIFF_BYTES = 1 << 20
_DIFF_HUNKS = 1000
_AUTHOR = re.compile(rb"\nauthor (.*?) ?<[^>\n]*>(?: (-?\d{1,18})\b)?")


def read_commit(objects: Objects, commit: CommitId, shallow: bool) -> Commit:
    """A commit with its diff to its first parent. Raises Missing where the commit is not here."""
    data = objects.commit(commit)
    header = parse_header(data)
    author = _AUTHOR.search(data)
    changes, cut = _changes(objects, header, shallow)
    old_paths = renames(changes, objects)
    moved_away = set(old_paths.values())
    before = {change.path: change.before for change in changes}
    files: list[FileChange] = []
    hunks: list[Hunk] = []
    for change in changes:
        if change.path in moved_away:
            continue
        old_path = old_paths.get(change.path, change.path if change.before is not None else None)
        files.append(FileChange(change.path, old_path, change.after is None))
        was = before[old_path] if old_path is not None else None
        cut = _add_hunks(objects, hunks, change.path, was, change.after) or cut
    return Commit(
        commit,
        header.parents,
        _text(author[1], b"") if author else "",
        int(author[2]) if author and author[2] else 0,
        header.time,
        _message(data),
        tuple(files),
        tuple(hunks),
        cut,
        shallow or objects.lacked,
    )


def _changes(objects: Objects, header: Header, shallow: bool) -> tuple[list[Change], bool]:
    if shallow:
        return [], True
    try:
        before = objects.header(header.parents[0]).tree if header.parents else None
        found = sorted(Differ(objects).changes(before, header.tree), key=lambda change: change.path)
    except Missing:
        return [], True
    return found[:_DIFF_FILES], len(found) > _DIFF_FILES


def _add_hunks(objects: Objects, hunks: list[Hunk], path: Path, before: BlobId | None, after: BlobId | None) -> bool:
    """Append a file's hunks; True where it has some that are not kept."""
    old, new = _diffable(objects, before), _diffable(objects, after)
    if old is None or new is None:
        return True
    for old_start, old_lines, new_start, new_lines, text in diff_hunks(old, new):
        if len(hunks) == _DIFF_HUNKS:
            return True
        hunks.append(Hunk(len(hunks), path, old_start, old_lines, new_start, new_lines, text))
    return False


def _diffable(objects: Objects, blob: BlobId | None) -> bytes | None:
    """A side of a diff; None for one that is large, binary or not here."""
    if blob is None:
        return b""
    try:
        data = objects.blob(blob) if objects.size(blob) <= _DIFF_BYTES else b"\0"
    except Missing:
        return None
    return None if b"\0" in data[:8000] else data


_MOST_TEXT = 1 << 20
_ENCODING = re.compile(rb"\nencoding (\S+)")
_NOT_OF_MESSAGES = re.compile(r"idna|punycode|.*[-_ ]escape", re.IGNORECASE)
"""Encodings of Python's that nobody writes messages in; the first two take the square of a text's length."""


def _message(data: bytes) -> str:
    head, _, message = data.partition(b"\n\n")
    encoding = _ENCODING.search(head)
    return _text(message[:_MOST_TEXT], encoding[1] if encoding else b"")


def _text(data: bytes, encoding: bytes) -> str:
    """Text in the encoding a commit names, UTF-8 where it names none that is known; always valid Unicode."""
    try:
        name = encoding.decode("ascii") or "utf-8"
        text = data.decode("utf-8" if _NOT_OF_MESSAGES.fullmatch(name) else name, "replace")
    except (LookupError, ValueError):
        text = data.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode("utf-8")
