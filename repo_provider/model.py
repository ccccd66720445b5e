"""Values that never cross the wire: what the inner modules hand each other through `provider`.

A path is raw repository-relative bytes with `/` between its parts. Spans are half-open 0-based byte offsets and
always cover whole lines. Nothing here does I/O; nothing here is ever changed after it is built.
"""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NewType, Protocol, TypeAlias

from msgspec import Struct, msgpack

from repo_provider.protocol import Digest, Instant, digest, format_range, line_starts, lines_span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Path = NewType("Path", bytes)
BlobId = NewType("BlobId", bytes)
"""20 raw bytes of git's sha1 over a blob's header and content, also for files that git has never stored."""
CommitId = NewType("CommitId", bytes)
"""20 raw bytes."""


class Late(Exception):
    """A deadline passed before the answer was there; asking again goes on where this stopped."""


def check(deadline: float | None) -> None:
    """Raises Late where a deadline, a reading of `time.monotonic`, has passed."""
    if deadline is not None and time.monotonic() > deadline:
        raise Late


@contextmanager
def in_time(lock: threading.Lock, deadline: float | None) -> Iterator[None]:
    """Hold a lock; raises Late where it is not to be had before a deadline."""
    if not lock.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
        raise Late
    try:
        yield
    finally:
        lock.release()


def normal_path(written: bytes, folder: bytes = b"") -> bytes | None:
    """The path without `.`, `..` and empty parts, from a folder of the repository; None where `..` leads out."""
    parts = folder.split(b"/") if folder else []
    for part in written.split(b"/"):
        if part == b"..":
            if not parts:
                return None
            parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts)


class KeyValues(Protocol):
    """What is kept of derived facts between processes: a cache that may forget anything at any time (P7)."""

    def get_many(self, table: str, keys: Iterable[bytes]) -> Mapping[bytes, bytes]: ...

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None: ...


# --- where the bytes are ---------------------------------------------------------------------------------------


class Entry(Struct, frozen=True):
    """One regular file of a snapshot. `executable` is git's 100755."""

    blob: BlobId
    executable: bool = False


class Snapshot(Struct, frozen=True):
    """Which bytes every path had: the working tree (`commit` None) or a commit's tree.

    `entries` is sorted by path. `opens` and `closes` are the effective times of the commit and of the next one on
    the line: the window that is certain for anything in it without a look at history; both None for the working
    tree. `head` is HEAD's tree as (path -> blob) beside a working tree, None where there is no commit.
    `skipped` counts what the snapshot names but does not serve: reason -> paths. `sparse` are the paths that a sparse
    checkout leaves out of the working tree, with the blobs they have in the index. `partial`: there was no time to
    list all of it.
    """

    entries: Mapping[Path, Entry]
    commit: CommitId | None = None
    opens: Instant | None = None
    closes: Instant | None = None
    head: Mapping[Path, BlobId] | None = None
    head_commit: CommitId | None = None
    skipped: Mapping[str, tuple[Path, ...]] = {}
    sparse: Mapping[Path, BlobId] = {}
    partial: bool = False


class Span(Struct, frozen=True, order=True, gc=False):
    """Half-open byte range [start, end) of whole lines."""

    start: int
    end: int


Fidelity: TypeAlias = Literal["exact", "normalized"]
"""Whether a frame's content is the file's bytes themselves, or those bytes decoded into another encoding."""


class Text:
    """A file's exact bytes with its line table: the one place that turns offsets into lines and back.

    `raw` are the bytes as they lie on disk or in git; `data` is what every offset, span and line is of. The two are
    one object, but for a file that a byte order mark says is UTF-16 or UTF-32: there `data` is the same text as
    UTF-8 (without the mark), and `transcoded` is True. Analysis is always of `data`.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.data = _transcoded(raw)
        self.transcoded = self.data is not raw

    @cached_property
    def blob(self) -> BlobId:
        """Git's name for these bytes."""
        return BlobId(hashlib.sha1(b"blob %d\0" % len(self.raw) + self.raw, usedforsecurity=False).digest())

    @cached_property
    def starts(self) -> list[int]:
        return line_starts(self.data)

    @property
    def line_count(self) -> int:
        return len(self.starts)

    def line_of(self, offset: int) -> int:
        """1-based line that holds this byte; past the end: the last line."""
        return max(1, bisect_right(self.starts, offset))

    def lines(self, span: Span) -> tuple[int, int]:
        """1-based inclusive lines of a non-empty span."""
        return self.line_of(span.start), self.line_of(max(span.start, span.end - 1))

    def range(self, span: Span) -> str:
        """F17 text of a span."""
        return format_range(*self.lines(span))

    def span(self, first: int, last: int) -> Span | None:
        """Span of 1-based inclusive lines, clamped at the end; None past the last line."""
        found = lines_span(self.data, first, last, self.starts)
        return None if found is None else Span(*found)

    def whole_lines(self, start: int, end: int) -> Span:
        """The smallest span of whole lines around these bytes."""
        last = self.line_of(max(start, end - 1))
        first = self.line_of(start)
        return self.span(first, last) or Span(start, end)

    def slice(self, span: Span) -> bytes:
        return self.data[span.start : span.end]

    def digest(self, span: Span) -> Digest:
        return digest(self.slice(span))

    def content(self, span: Span) -> tuple[str, Fidelity]:
        """The span as text. Bytes that are not UTF-8 are read as latin-1, where every byte is a character."""
        data = self.slice(span)
        try:
            return data.decode("utf-8"), "normalized" if self.transcoded else "exact"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "normalized"

    def content_bytes(self, span: Span) -> bytes:
        """The content's UTF-8 bytes, which are the file's own where the content is exact."""
        return self.content(span)[0].encode("utf-8") if self._mixed else self.slice(span)

    def content_digest(self, span: Span) -> Digest:
        """D1."""
        return digest(self.content_bytes(span))

    def cited(self, span: Span) -> tuple[str | None, Digest]:
        """F17 range and F5 digest of the file's bytes behind a span; a transcoded file is cited whole."""
        return (None, digest(self.raw)) if self.transcoded else (self.range(span), self.digest(span))

    @cached_property
    def _mixed(self) -> bool:
        """Whether some bytes are not UTF-8."""
        try:
            self.data.decode("utf-8")
        except UnicodeDecodeError:
            return True
        return False


_MARKS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def _transcoded(raw: bytes) -> bytes:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw.decode(encoding, "replace").encode("utf-8")
    return raw


# --- syntax (level two) ----------------------------------------------------------------------------------------


class Definition(Struct, frozen=True, array_like=True, gc=False):
    """A named piece of a file: a function, class, type, constant, section, ...

    `span` covers whole lines from the first decorator, attribute or attached doc comment to the end of the body;
    `head` the part of it that says what it is: those lines, the signature and the doc string. `name_at` is the byte
    offset of the name itself. `parent` is the index in `Outline.definitions` of the enclosing definition, or -1.
    `doc` is the doc comment or doc string, where there is one.
    """

    name: str
    qualified: str
    kind: str
    span: Span
    head: Span
    name_at: int
    parent: int = -1
    doc: Span | None = None
    test: bool = False


class Reference(Struct, frozen=True, array_like=True, gc=False):
    """A place that uses a name. `kind` is `call`, `inherit`, `type` or `name`; `scope` the definition around it or -1.

    `qualifier` is the text before the name (`os.path` in `os.path.join(...)`), "" where there is none.
    """

    name: str
    kind: str
    at: int
    scope: int = -1
    qualifier: str = ""


class Import(Struct, frozen=True, array_like=True, gc=False):
    """One import as written: `module` is the text that names where from, `names` (name, local alias) pairs."""

    module: str
    names: tuple[tuple[str, str], ...] = ()
    at: int = 0
    relative: int = 0


class Run(Struct, frozen=True, array_like=True, gc=False):
    """References one after the other, the first of them at `at`."""

    at: int
    packed: bytes


class Outline(Struct, frozen=True, array_like=True, dict=True):
    """What a file defines, uses and imports; a function of its bytes and language alone.

    `definitions` are in order of `span.start`, outer before inner. `blocks` are the places where a long run of
    lines is best cut: starts of statements or paragraphs, as sorted byte offsets of line starts.
    `complete` is False where parsing was given up (`note` says why): then the outline is of plain text.
    `uses` are the `references`, packed by `packed`: they are most of an outline, and few are ever asked for.
    """

    language: str
    definitions: tuple[Definition, ...] = ()
    uses: tuple[Run, ...] = ()
    imports: tuple[Import, ...] = ()
    blocks: tuple[int, ...] = ()
    complete: bool = True
    note: str = ""

    @property
    def references(self) -> tuple[Reference, ...]:
        """Unpacked anew each time: take them once."""
        return tuple(reference for run in self.uses for reference in _references.decode(run.packed))

    def used_in(self, span: Span) -> Iterator[Reference]:
        """The references whose names begin in a span."""
        for run in self.uses[max(0, bisect_right(self.uses, span.start, key=lambda one: one.at) - 1) :]:
            if run.at >= span.end:
                break
            yield from (each for each in _references.decode(run.packed) if span.start <= each.at < span.end)

    @cached_property
    def named(self) -> Mapping[str, Sequence[Definition]]:
        """The definitions by name, each name's in order."""
        found: dict[str, list[Definition]] = {}
        for one in self.definitions:
            found.setdefault(one.name, []).append(one)
        return found


def packed(references: Iterable[Reference]) -> tuple[Run, ...]:
    """References as `Outline.uses` holds them."""
    listed = sorted(references, key=lambda one: one.at)
    runs = (listed[start : start + RUN] for start in range(0, len(listed), RUN))
    return tuple(Run(run[0].at, msgpack.encode(run)) for run in runs)


RUN = 64
"""References that are unpacked together."""
_references = msgpack.Decoder(tuple[Reference, ...])


# --- lexical (level one) ---------------------------------------------------------------------------------------

FIELDS = ("body", "names", "comments", "path", "messages")
"""The fields that level one counts words in; `path` belongs to a path, `messages` to commits, the rest to bytes."""


class Touched(Struct, frozen=True):
    """Which commit touched which file: parallel arrays of a commit's row and a file's row, commits ascending.

    `spread[commit]` is how many paths the commit touched, with those that are gone.
    """

    commits: NDArray[np.int64]
    files: NDArray[np.int64]
    spread: NDArray[np.float64]


class Matches(Struct, frozen=True):
    """What level one knows about the words of a query in one snapshot.

    Rows are the snapshot's text files in path order: `paths[row]`. For field `f` and term `i`, `rows[f][i]` are the
    rows that hold the term (int32, ascending), `counts[f][i]` how often (float64); the document frequency is their
    number, exact under the snapshot. `lengths[f]` is each row's number of words in that field.
    The rows of field `messages` are commits, newest first; `touched` ties them to files.
    `centrality[row]` counts the other files that mention the names a file defines.
    """

    paths: tuple[Path, ...]
    terms: tuple[str, ...]
    rows: Mapping[str, tuple[NDArray[np.int32], ...]]
    counts: Mapping[str, tuple[NDArray[np.float64], ...]]
    lengths: Mapping[str, NDArray[np.float64]]
    centrality: NDArray[np.float64]
    touched: Touched


# --- query -> answer -------------------------------------------------------------------------------------------


class Anchor(Struct, frozen=True):
    """A place the host says is near: a path, maybe lines, maybe a qualified name. `uri` is the host's spelling."""

    uri: str
    path: Path
    lines: tuple[int, int] | None = None
    name: str | None = None


class Name(Struct, frozen=True, order=True):
    """A definition the question names: the parts of `Rack::Response` or `os.path.join` as written, outermost first."""

    parts: tuple[str, ...]
    weight: float = 1.0


class Place(Struct, frozen=True, order=True):
    """A file the question's own text mentions, as written there (any prefix may be foreign), with a line or 0."""

    path: Path
    line: int = 0
    weight: float = 1.0


class Plan(Struct, frozen=True):
    """What a query asks for, in the terms the inner modules count in.

    `terms` (sorted, see `words`) and `weights` are parallel.
    `phrases` are literal pieces of text in lower case. `single` says that the question is nothing but one name.
    `wanted` are the traits of files the question asks for by word ("test", "docs", "example", ...): they are not
    demoted. `kinds` are the kinds to answer with, all that we serve when `mixed`. `history` says that the question
    asks why, when or by whom, `structure` that it asks what a file `holds` or for those that use it, its `users`.
    `notes` name what was not understood.
    """

    terms: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    names: tuple[Name, ...] = ()
    places: tuple[Place, ...] = ()
    phrases: tuple[bytes, ...] = ()
    single: bool = False
    wanted: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()
    mixed: bool = True
    history: bool = False
    structure: Literal["", "holds", "users"] = ""
    anchors: tuple[Anchor, ...] = ()
    as_of: Instant | None = None
    max_frames: int = 0
    max_tokens: int = 0
    notes: tuple[str, ...] = ()


class Candidate(Struct, frozen=True):
    """A file that level one put forward, with its score and the parts that make it up (for `explain`)."""

    path: Path
    score: float
    parts: Mapping[str, float] = {}


class Hit(Struct, frozen=True):
    """A region of a file worth answering with, before it is cut to a budget.

    `kind` is the frame kind. `name` is the qualified name where the region is exactly a definition (`snippet`,
    `doc`) or its head (`symbol`), and `ordinal` tells definitions of one name apart in file order. `focus` are the
    best lines inside the region as a span: what to keep when it does not fit whole.
    """

    path: Path
    kind: str
    span: Span
    score: float
    name: str | None = None
    ordinal: int = 0
    focus: Span | None = None
    enclosing: str | None = None
    parts: Mapping[str, float] = {}
