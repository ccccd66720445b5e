"""Hits and bytes become frames that fit a budget; frame identities become verdicts.

Four things that must agree with each other, and so live together: how a frame is named (`FrameName`), which
regions fit the budget (`select`), what the frame of a region says (`build`, `derived`), and whether an identity
still holds (`verdict`). Nothing here reads a file, knows git or ranks: `provider` hands in texts, blocks and
windows, and answers `verdict`'s questions through `Resolver`.

Rules kept here: F1-F5 and F17 of every frame, D1-D3, B1, B3, B4, V3, V5, and the host's composition rule that no
two frames of one answer share a digest, a line or a `file` link.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from repo_provider.errors import BudgetUnsatisfiable
from repo_provider.model import BlobId, CommitId, Definition, Fidelity, Hit, Outline, Path, Span, Text
from repo_provider.protocol import (
    KINDS,
    ContextFrame,
    Digest,
    FrameId,
    FrameVerdict,
    Provenance,
    Relation,
    digest,
    file_uri,
    format_instant,
    format_range,
    parse_range,
    quote,
    token_cost,
    unquote,
)

# --- names -----------------------------------------------------------------------------------------------------


class FrameName(Struct, frozen=True):
    """What a frame id says: which content, never which query.

    A file's frame has a `path` and, but for `graph`, either a qualified `name` with its `ordinal` among those of
    that name, or `lines`. An episode has `episode` and the ordinals of the `hunks` it shows instead of a path.
    `commit` is where an as-of frame was read.
    """

    kind: str
    path: Path = Path(b"")
    name: str | None = None
    ordinal: int = 0
    lines: tuple[int, int] | None = None
    episode: CommitId | None = None
    hunks: tuple[int, ...] = ()
    commit: CommitId | None = None


def format_name(name: FrameName) -> str:
    """The frame id: `snippet:src/net.rs#Client.retry~1`, `snippet:src/net.rs:L10-40`, `episode:<commit>+0,3`, ..."""
    at = f"@{name.commit.hex()}" if name.commit else ""
    if name.episode is not None:
        hunks = "+" + ",".join(map(str, sorted(set(name.hunks)))) if name.hunks else ""
        return f"{name.kind}:{name.episode.hex()}{hunks}{at}"
    return f"{name.kind}:{quote(name.path)}{_part(name)}{at}"


def _part(name: FrameName) -> str:
    if name.lines is not None:
        return ":" + format_range(*name.lines)
    if name.name is None:
        return ""
    quoted = quote(name.name.encode("utf-8", "surrogatepass")).replace("~", "%7E")  # ~ starts the ordinal
    return f"#{quoted}~{name.ordinal}" if name.ordinal else f"#{quoted}"


_COMMIT = "[0-9a-f]{40}"
_FILE_ID = re.compile(
    r"(snippet|symbol|doc|graph):([\w.~/%-]+)(?:#([\w./%-]+)(?:~(\d{1,9}))?|:(L[\d-]+))?(?:@(" + _COMMIT + "))?",
    re.ASCII,
)
_EPISODE_ID = re.compile(rf"episode:({_COMMIT})(?:\+(\d{{1,9}}(?:,\d{{1,9}})*))?(?:@({_COMMIT}))?", re.ASCII)


def parse_name(frame_id: str) -> FrameName | None:
    """What a frame id says; None for any text that `format_name` does not write."""
    name = _parse_file(frame_id) or _parse_episode(frame_id)
    return name if name is not None and format_name(name) == frame_id else None


def _parse_file(frame_id: str) -> FrameName | None:
    match = _FILE_ID.fullmatch(frame_id)
    if match is None or (match[1] == "graph") != (match[3] is None and match[5] is None):
        return None
    try:
        name = None if match[3] is None else unquote(match[3]).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    lines = None if match[5] is None else parse_range(match[5])
    return FrameName(match[1], Path(unquote(match[2])), name, int(match[4] or 0), lines=lines, commit=_commit(match[6]))


def _parse_episode(frame_id: str) -> FrameName | None:
    match = _EPISODE_ID.fullmatch(frame_id)
    if match is None:
        return None
    hunks = tuple(int(hunk) for hunk in match[2].split(",")) if match[2] else ()
    return FrameName("episode", episode=_commit(match[1]), hunks=hunks, commit=_commit(match[3]))


def _commit(text: str | None) -> CommitId | None:
    return CommitId(bytes.fromhex(text)) if text else None


# --- packing ---------------------------------------------------------------------------------------------------

FLOOR = 96
"""Budget tokens a piece may always take: about a dozen lines, less says little."""
CEILING = 1_000
"""Budget tokens no cut piece exceeds, however large the budget: a reader wants the place, not the file."""
WHOLE = 1.5
"""How far a whole definition may exceed its fair share: better whole and a little long than cut."""
SCRAP = 40
"""A cut piece smaller than this is not worth a frame once the answer has others."""
LONGEST_NAME = 300
"""Characters of a name in a frame id: a heading may be a whole paragraph, and is then named by its lines."""
SECOND = 0.2
"""What each further frame of a file counts for when frames or tokens are short: several files before many of one."""

Counter: TypeAlias = Callable[[Path, Span, str], int | None]
"""Model tokens of a piece of content; None where they could not be counted."""


class Piece(Struct, frozen=True):
    """A region as it goes into a frame. `tokens` are model tokens; `same` are other paths that hold this content."""

    hit: Hit
    span: Span
    content: str
    fidelity: Fidelity
    digest: Digest
    cost: int
    tokens: int | None = None
    same: tuple[Path, ...] = ()

    @property
    def path(self) -> Path:
        return self.hit.path

    @property
    def name(self) -> str | None:
        """The definition this piece is the whole of; None where its name is too long to be one."""
        fits = self.hit.name is not None and len(self.hit.name) <= LONGEST_NAME
        return self.hit.name if fits and self.span == self.hit.span else None


class Selection(Struct, frozen=True):
    """The pieces of an answer, best first. `dropped` counts the candidates that nothing in it shows."""

    pieces: tuple[Piece, ...] = ()
    dropped: int = 0

    @property
    def truncated(self) -> bool:
        return self.dropped > 0


def select(
    hits: Sequence[Hit],
    texts: Mapping[Path, Text],
    *,
    max_frames: int,
    max_tokens: int,
    outlines: Mapping[Path, Outline] | None = None,
    counter: Counter | None = None,
) -> Selection:
    """The most useful set of pieces within both budgets: never more frames (B4), never more tokens (B1).

    Breadth comes before depth: each hit first gets a fair share, whole where that is small, else the blocks around
    its focus; what is left over widens the best ones. With a counter, its tokens must fit `max_tokens` too.
    A hit whose text is missing is passed over. Raises BudgetUnsatisfiable where there are candidates and not one
    line of them fits.
    """
    readable = (hit for hit in hits if hit.path in texts and _says_something(texts[hit.path], hit.span))
    wanted = sorted((_tidy(hit, texts[hit.path]) for hit in readable), key=_order)
    if not wanted or not max_frames or not max_tokens:
        return Selection(dropped=len(wanted))
    packer = _Packer(texts, outlines or {}, max_frames, max_tokens, counter)
    dropped = packer.fill(wanted)
    if not packer.pieces:
        raise BudgetUnsatisfiable(f"no line of any of {len(wanted)} candidates fits into {max_tokens} tokens")
    packer.widen()
    packer.merge()
    return Selection(tuple(sorted(packer.pieces, key=lambda piece: _order(piece.hit))), dropped)


def _order(hit: Hit) -> tuple[float, bytes, Span, int, str, int]:
    return -hit.score, hit.path, hit.span, KINDS.index(hit.kind), hit.name or "", hit.ordinal


def _tidy(hit: Hit, text: Text) -> Hit:
    """A region that is no definition starts and ends with lines that say something."""
    return hit if hit.name else replace(hit, name=None, span=_trimmed(text, hit.span))


def _says_something(text: Text, span: Span) -> bool:
    return bool(text.content(span)[0].strip().strip("\ufeff"))


class _Packer:
    """The answer while it is being put together."""

    def __init__(
        self,
        texts: Mapping[Path, Text],
        outlines: Mapping[Path, Outline],
        max_frames: int,
        max_tokens: int,
        counter: Counter | None,
    ) -> None:
        self.pieces: list[Piece] = []
        self._texts, self._outlines, self._counter = texts, outlines, counter
        self._max_frames, self._max_tokens = max_frames, max_tokens
        self._left = max_tokens
        self._share = CEILING
        self._edges: dict[tuple[Path, Span, bool], list[int]] = {}

    def fill(self, wanted: Sequence[Hit]) -> int:
        """Takes hits by usefulness while there is room; says how many were left out."""
        self._share = min(max(self._max_tokens // min(self._max_frames, len(wanted)), FLOOR), CEILING)
        dropped = sum(not self._take(hit) for hit in self._by_use(wanted))
        if self.pieces:
            return dropped
        return dropped - any(self._take_any_line(hit) for hit in wanted)

    def _by_use(self, wanted: Sequence[Hit]) -> Iterator[Hit]:
        """Hits by score, each halved for every frame its content already has at the time it comes up."""
        queue = [(-hit.score, 0, place) for place, hit in enumerate(wanted)]
        heapq.heapify(queue)
        while queue:
            _, reckoned, place = heapq.heappop(queue)
            hit = wanted[place]
            taken = len(self._siblings(hit.path))
            if taken == reckoned:
                yield hit
            else:
                heapq.heappush(queue, (-hit.score * SECOND**taken, taken, place))

    def _take(self, hit: Hit) -> bool:
        """False where the hit is left out; True where a piece was made of it or already shows it."""
        if self._shown(hit):
            return True
        if len(self.pieces) >= self._max_frames:
            return False
        piece = self._whole_or_cut(hit, _focus(hit), self._siblings(hit.path), min(self._left, self._share), self._left)
        if piece is None or (piece.span != hit.span and self.pieces and self._weight(piece) < SCRAP):
            return False
        return self._add(piece)

    def _take_any_line(self, hit: Hit) -> bool:
        """The last resort of a small budget: any line of the region that fits, with its neighbours."""
        text = self._texts[hit.path]
        edges = self._lines(hit.path, hit.span)
        for start, end in pairwise(edges):
            line = Span(start, end)
            if _says_something(text, line) and token_cost(text.content(line)[0]) <= self._left:
                piece = self._cut(hit, line, hit.span, self._left)
                if piece is not None:
                    return self._add(piece)
        return False

    def _add(self, piece: Piece) -> bool:
        for at, other in enumerate(self.pieces):
            if other.digest == piece.digest:
                self.pieces[at] = _also(other, piece.path)
                return True
        self.pieces.append(piece)
        self._left -= self._weight(piece)
        return True

    def _shown(self, hit: Hit) -> bool:
        """Whether a piece already has a line of the hit's focus, or is all that may be cited of that file."""
        focus = _focus(hit)
        for at, other in enumerate(self.pieces):
            if self._same_bytes(other.path, hit.path) and (
                self._texts[hit.path].transcoded or (other.span.start < focus.end and focus.start < other.span.end)
            ):
                self.pieces[at] = _also(other, hit.path)
                return True
        return False

    def _siblings(self, path: Path) -> list[Piece]:
        return [piece for piece in self.pieces if self._same_bytes(piece.path, path)]

    def _same_bytes(self, path: Path, other: Path) -> bool:
        return path == other or self._texts[path].raw == self._texts[other].raw

    def _whole_or_cut(self, hit: Hit, keep: Span, others: Sequence[Piece], limit: int, most: int) -> Piece | None:
        """The hit whole where that is within the limit or little more, else the blocks around what to keep."""
        free, bound = _free(hit, keep, others), min(most, int(limit * WHOLE))
        if free == hit.span and free.end - free.start <= bound * 4:  # no use counting the tokens of more
            whole = self._piece(hit, free)
            if self._weight(whole) <= bound:
                return whole
        return self._cut(hit, keep, free, limit)

    def _cut(self, hit: Hit, focus: Span, region: Span, limit: int) -> Piece | None:
        """The widest run of blocks, else of lines, around the focus that weighs no more than the limit."""
        text, room = self._texts[hit.path], limit * 4
        while room > 0:
            runs = self._runs(hit.path, focus, region, room)
            span = next((run for run in runs if run is not None and _says_something(text, run)), None)
            if span is None:
                return None
            piece = self._piece(hit, _trimmed(text, span))
            weight = self._weight(piece)
            if weight <= limit:
                return piece
            size = span.end - span.start
            room = min(size - 1, size * limit // weight)
        return None

    def _runs(self, path: Path, focus: Span, region: Span, room: int) -> Iterator[Span | None]:
        yield _run(self._blocks(path, region), focus, room)
        yield _run(self._lines(path, region), focus, room)
        yield _first_run(self._texts[path], self._lines(path, region), focus, room)

    def _blocks(self, path: Path, region: Span) -> list[int]:
        key = (path, region, True)
        if key not in self._edges:
            outline = self._outlines.get(path)
            blocks = outline.blocks if outline is not None else ()
            inside = blocks[bisect_right(blocks, region.start) : bisect_left(blocks, region.end)]
            self._edges[key] = [region.start, *inside, region.end]
        return self._edges[key]

    def _lines(self, path: Path, region: Span) -> list[int]:
        key = (path, region, False)
        if key not in self._edges:
            starts = self._texts[path].starts
            inside = starts[bisect_right(starts, region.start) : bisect_left(starts, region.end)]
            self._edges[key] = [region.start, *inside, region.end]
        return self._edges[key]

    def _piece(self, hit: Hit, span: Span, same: tuple[Path, ...] = ()) -> Piece:
        text = self._texts[hit.path]
        content, fidelity = text.content(span)
        tokens = self._counter(hit.path, span, content) if self._counter is not None else None
        return Piece(
            hit, span, content, fidelity, text.content_digest(span), token_cost(content), tokens=tokens, same=same
        )

    def _weight(self, piece: Piece) -> int:
        return weight(piece.cost, piece.content, piece.tokens, self._counter is not None)

    def widen(self) -> None:
        """Spends what is left on the cut pieces, by and by: whole where it fits, else more blocks."""
        limit = self._share
        while limit < CEILING and self._left > 0:
            limit = min(limit * 2, CEILING)
            self._widen_to(limit)

    def _widen_to(self, limit: int) -> None:
        for at in sorted(range(len(self.pieces)), key=lambda at: _order(self.pieces[at].hit)):
            piece = self.pieces[at]
            if piece.span == piece.hit.span or self._left <= 0:
                continue
            others = [other for other in self._siblings(piece.path) if other is not piece]
            most = self._weight(piece) + self._left
            wider = self._whole_or_cut(piece.hit, piece.span, others, min(most, limit), most)
            if wider is not None and self._replaces(wider, piece):
                self._left += self._weight(piece) - self._weight(wider)
                self.pieces[at] = replace(wider, same=self._copies(piece))

    def _replaces(self, wider: Piece, piece: Piece) -> bool:
        covers = wider.span.start <= piece.span.start and piece.span.end <= wider.span.end
        return covers and wider.span != piece.span and all(wider.digest != other.digest for other in self.pieces)

    def merge(self) -> None:
        """Cut pieces of one file that touch become one frame."""
        self.pieces.sort(key=lambda piece: (piece.path, piece.span))
        merged: list[Piece] = []
        for piece in self.pieces:
            joined = self._joined(merged[-1], piece) if merged else None
            if joined is None:
                merged.append(piece)
            else:
                self._left += self._weight(merged[-1]) + self._weight(piece) - self._weight(joined)
                merged[-1] = joined
        self.pieces = merged

    def _joined(self, one: Piece, two: Piece) -> Piece | None:
        if (one.path, one.hit.kind) != (two.path, two.hit.kind) or one.name or two.name:
            return None
        if self._texts[one.path].slice(Span(one.span.end, two.span.start)).strip():
            return None
        better = min(one.hit, two.hit, key=_order)
        span = Span(one.span.start, two.span.end)
        region = Span(min(one.hit.span.start, two.hit.span.start), max(one.hit.span.end, two.hit.span.end))
        joined = self._piece(replace(better, name=None, span=region), span, self._copies(one, two))
        most = self._weight(one) + self._weight(two) + self._left
        fits = self._weight(joined) <= min(most, CEILING)
        return joined if fits and all(joined.digest != other.digest for other in self.pieces) else None

    def _copies(self, *pieces: Piece) -> tuple[Path, ...]:
        """The paths known to hold the whole file again: where a piece grows, it still stands there."""
        known = {path for piece in pieces for path in piece.same if self._same_bytes(path, piece.path)}
        return tuple(sorted(known))


def weight(cost: int, content: str, tokens: int | None, counting: bool) -> int:
    """What content takes of a budget: its B3 cost and, where those are counted, its model tokens.

    Uncounted content has as many of them as bytes: there are never more.
    """
    return max(cost, len(content.encode("utf-8")) if tokens is None else tokens) if counting else cost


def _also(piece: Piece, path: Path) -> Piece:
    """The piece, known to stand at this path too."""
    if path == piece.path or path in piece.same:
        return piece
    return replace(piece, same=tuple(sorted((*piece.same, path))))


def _free(hit: Hit, keep: Span, others: Sequence[Piece]) -> Span:
    """The hit's region without what other pieces, none of which overlaps `keep`, took before and after it."""
    start = max((piece.span.end for piece in others if piece.span.end <= keep.start), default=0)
    end = min((piece.span.start for piece in others if piece.span.start >= keep.end), default=hit.span.end)
    return Span(max(start, hit.span.start), min(end, hit.span.end))


def _focus(hit: Hit) -> Span:
    """What to keep of a hit: its best lines, else its first."""
    focus = hit.focus or Span(hit.span.start, hit.span.start + 1)
    start = min(max(focus.start, hit.span.start), hit.span.end - 1)
    return Span(start, max(start + 1, min(focus.end, hit.span.end)))


def _run(edges: Sequence[int], focus: Span, room: int) -> Span | None:
    """The widest run between edges around the focus that fits, grown after and before in turn."""
    low = max(bisect_right(edges, focus.start) - 1, 0)
    high = max(bisect_left(edges, focus.end), low + 1)
    if high >= len(edges) or edges[high] - edges[low] > room:
        return None
    grew = True
    while grew:
        grew = False
        if high + 1 < len(edges) and edges[high + 1] - edges[low] <= room:
            high, grew = high + 1, True
        if low > 0 and edges[high] - edges[low - 1] <= room:
            low, grew = low - 1, True
    return Span(edges[low], edges[high])


def _first_run(text: Text, edges: Sequence[int], focus: Span, room: int) -> Span | None:
    """A focus that does not fit: as many of its lines as do, from its first fitting line that says something."""
    for at in range(max(bisect_right(edges, focus.start) - 1, 0), len(edges) - 1):
        if edges[at] >= focus.end:
            return None
        line = Span(edges[at], edges[at + 1])
        if line.end - line.start <= room and _says_something(text, line):
            return _run(edges[at:], line, room)
    return None


def _trimmed(text: Text, span: Span) -> Span:
    """Without blank lines at either end."""
    data = text.slice(span)
    start = span.start + data.rfind(b"\n", 0, len(data) - len(data.lstrip())) + 1
    body = len(data.rstrip())
    end = data.find(b"\n", body)
    return Span(start, span.end if end < 0 else span.start + end + 1)


# --- frames ----------------------------------------------------------------------------------------------------


class Origin(Struct, frozen=True):
    """Where the bytes of one answer's frames lie.

    `root` is the working tree's folder as it was typed, absolute; None where there is none. `commit` is None for
    the working tree, else the commit an as-of answer was read from. `head` is HEAD's commit beside a working tree.
    """

    root: str | None
    commit: CommitId | None = None
    head: CommitId | None = None


Window: TypeAlias = tuple[int | None, int | None]
"""valid_from, valid_to: half-open, None is unbounded."""


def build(
    piece: Piece,
    text: Text,
    origin: Origin,
    *,
    blob: BlobId | None = None,
    window: Window = (None, None),
    current: Path | None = None,
    same: Sequence[Path] | None = None,
    relations: Sequence[Relation] = (),
    tokenizer: str | None = None,
) -> ContextFrame:
    """The frame of a piece.

    `blob` is the git object with exactly the file's bytes: of the tree an as-of answer was read from; of HEAD's
    tree at that path for the working tree, and only where they are equal. `current` is today's path of an as-of
    frame's file, and `same` are those of the copies, which become relations too; left out, the piece's own are meant.
    """
    lines = text.lines(piece.span)
    name = FrameName(piece.hit.kind, piece.path, commit=origin.commit)
    part = {"lines": lines} if piece.name is None else {"name": piece.name, "ordinal": piece.hit.ordinal}
    links = _links(piece, text, origin, blob)
    inside = piece.name or piece.hit.enclosing
    return ContextFrame(
        id=format_name(replace(name, **part)),
        kind=piece.hit.kind,
        title=f"{printable(inside)} in {_shown_path(piece.path)}" if inside else _place(piece.path, lines),
        score=piece.hit.score,
        token_cost=piece.cost,  # B3
        content=piece.content,
        content_digest=piece.digest,
        uri=links[0].uri,
        content_fidelity=piece.fidelity,
        canonical_token_cost=None if tokenizer is None else piece.tokens,
        tokenizer_ref=None if piece.tokens is None else tokenizer,
        valid_from=format_instant(window[0]),
        valid_to=format_instant(window[1]),
        provenance=links,
        citation_label=_citation(piece.path, lines, inside, origin.commit),
        relations=(*elsewhere(origin, current, piece.same if same is None else same), *relations),
    )


def _links(piece: Piece, text: Text, origin: Origin, blob: BlobId | None) -> tuple[Provenance, ...]:
    """Closest to the source first: the file on disk, then the git object that holds the same bytes."""
    range_, cited = text.cited(piece.span)
    links = []
    if origin.commit is None and origin.root is not None:
        links.append(Provenance("file", file_uri(origin.root, piece.path), range_, cited))
    commit = origin.commit or origin.head
    if blob is not None and commit is not None:
        links.append(Provenance("git", swhid(blob, commit, piece.path, range_), range_, cited))
    return tuple(links)


def elsewhere(origin: Origin, current: Path | None, same: Sequence[Path] = ()) -> Iterator[Relation]:
    """Where today's working tree has this file, and the same bytes again."""
    if origin.root is None:
        return
    if origin.commit is not None and current is not None:
        yield Relation("git:current-path", file_uri(origin.root, current), f"{_shown_path(current)} today")
    for path in same:
        yield Relation("git:same-content", file_uri(origin.root, path), f"the same content in {_shown_path(path)}")


def swhid(blob: BlobId, commit: CommitId, path: Path, range_: str | None = None) -> str:
    """The SWHID (ISO/IEC 18670) of a blob at a path of a commit, with lines in its own spelling."""
    lines = "" if range_ is None else f";lines={range_[1:]}"
    return f"swh:1:cnt:{blob.hex()};anchor=swh:1:rev:{commit.hex()};path=/{quote(path)}{lines}"


def derived(
    name: FrameName,
    content: str,
    *,
    title: str,
    label: str,
    score: float,
    links: Sequence[Provenance],
    uri: str | None = None,
    window: Window = (None, None),
    relations: Sequence[Relation] = (),
    tokens: int | None = None,
    tokenizer: str | None = None,
) -> ContextFrame:
    """A frame whose content was written here about what its links cite (`graph`, `episode`)."""
    return ContextFrame(
        id=format_name(name),
        kind=name.kind,
        title=printable(title),
        score=score,
        token_cost=token_cost(content),
        content=content,
        content_digest=digest(content.encode("utf-8")),
        uri=uri,
        content_fidelity="summarized",
        canonical_token_cost=None if tokenizer is None else tokens,
        tokenizer_ref=None if tokens is None else tokenizer,
        valid_from=format_instant(window[0]),
        valid_to=format_instant(window[1]),
        provenance=tuple(links),
        citation_label=printable(label),
        relations=tuple(relations),
    )


def _citation(path: Path, lines: tuple[int, int], inside: str | None, commit: CommitId | None) -> str:
    at = f" @{commit.hex()[:10]}" if commit else ""
    return _place(path, lines) + (f" ({printable(inside)})" if inside else "") + at


def _place(path: Path, lines: tuple[int, int]) -> str:
    return f"{_shown_path(path)} {format_range(*lines)}"


def _shown_path(path: Path) -> str:
    return printable(path.decode("utf-8", "replace"))


# Controls, line and paragraph separators, what turns the direction of writing, byte order marks, lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_LABEL_LENGTH = 200


def printable(text: str, length: int = _LABEL_LENGTH) -> str:
    """The text as one line for a person: no control characters, never empty, not endless."""
    shown = _UNPRINTABLE.sub("\ufffd", text).strip() or "\ufffd"
    return shown if len(shown) <= length else shown[: length - 1] + "\u2026"


# --- verdicts --------------------------------------------------------------------------------------------------

Missing: TypeAlias = Literal["gone", "unknown"]
"""`gone`: it is not in the snapshot, or the snapshot is not on the line. `unknown`: it cannot be read here and now."""


class Resolver(Protocol):
    """What `verdict` asks of a repository. `commit` None is the working tree."""

    def text(self, path: Path, commit: CommitId | None) -> Text | Missing: ...

    def outline(self, path: Path, commit: CommitId | None) -> Outline | None:
        """None where it could not be had."""

    def derived(self, name: FrameName, held: str) -> Digest | Missing:
        """The content digest of a `graph` or `episode` frame made again; `held` is the one the host has."""


def verdict(frame: FrameId, provider: str, resolver: Resolver) -> FrameVerdict:
    """What has become of a frame (V3). The identity is echoed whole, whatever it holds."""
    name, held = parse_name(frame.frame_id), frame.content_digest
    if frame.provider_id != provider or name is None or not isinstance(held, str):  # V5
        return FrameVerdict(frame, "unknown")
    found = _judged(name, held, resolver)
    if found in ("valid", "stale", "gone", "unknown"):
        return FrameVerdict(frame, found)  # type: ignore[arg-type]  # a digest is none of the four words
    return FrameVerdict(frame, "stale", Digest(found))


def _judged(name: FrameName, held: str, resolver: Resolver) -> str:
    """A status, or the digest that takes the place of a stale one."""
    if name.lines is None and name.name is None:
        found = resolver.derived(name, held)
        return "valid" if found == held else found
    text = resolver.text(name.path, name.commit)
    if not isinstance(text, Text):
        return text
    if name.lines is not None:
        return "valid" if _has_run(text, name.lines, held) else "stale"
    outline = resolver.outline(name.path, name.commit)
    return "unknown" if outline is None else _named(name, held, text, outline)


def _named(name: FrameName, held: str, text: Text, outline: Outline) -> str:
    spans = [_region(name.kind, one) for one in outline.definitions if one.qualified == name.name]
    if not spans:
        return "gone" if outline.complete else "unknown"
    digests = [text.content_digest(span) for span in spans]
    if held in digests:
        return "valid"
    return digests[name.ordinal] if name.ordinal < len(digests) else "stale"


def _region(kind: str, definition: Definition) -> Span:
    return definition.head if kind == "symbol" else definition.span


_SEARCHED = 32 * 2**20
"""Bytes hashed at most in search of lines that moved: every place in a file of any usual size."""


def _has_run(text: Text, lines: tuple[int, int], held: str) -> bool:
    """Whether those lines, or as many lines anywhere else in the file, have the digest; nearest places first."""
    first, count = lines[0] - 1, lines[1] - lines[0] + 1
    last = text.line_count - count
    wanted = bytes.fromhex(held[7:]) if _DIGEST.fullmatch(held) else None
    if wanted is None or last < 0:
        return False
    starts, left = text.starts, _SEARCHED
    for at in _outward(min(first, last), last):
        end = starts[at + count] if at + count < len(starts) else len(text.data)
        content = text.content_bytes(Span(starts[at], end))
        if hashlib.sha256(content).digest() == wanted:
            return True
        left -= len(content)
        if left < 0:
            return False
    return False


_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def _outward(start: int, last: int) -> Iterator[int]:
    """0 ... last, by distance from a start among them."""
    yield start
    for distance in range(1, max(start, last - start) + 1):
        if start + distance <= last:
            yield start + distance
        if start >= distance:
            yield start - distance
