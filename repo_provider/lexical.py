"""Level one: how often every word stands in every file, for any snapshot, without parsing one.

Content is counted once, whatever paths and snapshots hold it: immutable segments of numpy arrays (`Segment`) keep,
per field, which rows hold a term and how often. A snapshot is a view (`View`): a map from the rows of every segment to
the rows of that snapshot, so that document frequencies, lengths and counts are exactly those of its files, no matter
what else is indexed and how it lies in segments. Cold, warm and no store give equal matches (P1).

It does not read files, know languages (a caller hands in `Rules`), weigh terms or keep anything of a query (P6).
`provider` calls it; `workers` run `analyse_task` for bulk work.

A term is its 64-bit hash from here on: two words of one repository share one with a chance of about 1 in 10^9.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Protocol
from weakref import WeakSet

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from repo_provider import words
from repo_provider.model import FIELDS, BlobId, CommitId, Matches, Path, Touched

VERSION = 1
"""Raised when the same bytes would be counted differently; part of every key, so old counts are not found."""

CONTENT = ("body", "names", "comments")
"""The fields that depend on a file's bytes and language alone."""
_DEFINED, _MENTIONED = "defined", "mentioned"
"""Whole names as written, only to see which files mention what a file defines. Never asked by a query."""

_MOST = 0xFFFF
"""A count above this is stored as this."""
_NAME = re.compile(rb"[A-Za-z_$][\w$]{2,63}", re.ASCII)


# --- one text --------------------------------------------------------------------------------------------------


class Rules(Struct, frozen=True, array_like=True):
    """What level one has to know of a language: which lines define a name and what marks a comment.

    `definition_line` is a regular expression for the line break before a definition and the line itself; every group
    that matched is a defined name.
    """

    language: str = "text"
    definition_line: bytes | None = None
    line_comments: tuple[bytes, ...] = ()
    block_comments: tuple[tuple[bytes, bytes], ...] = ()


class Counts(Struct, frozen=True):
    """How often each identifier, as written, stands in the fields of one text."""

    body: Counter[bytes]
    names: Counter[bytes]
    comments: Counter[bytes]


def key(blob: BlobId, rules: Rules) -> bytes:
    """What a content's counts hang on: its bytes, its language and this version of the analysis."""
    return blob + _tag(rules)


@lru_cache(maxsize=256)
def _tag(rules: Rules) -> bytes:
    return blake2b(msgspec.msgpack.encode((VERSION, rules)), digest_size=8).digest()


def analyse(data: bytes, rules: Rules) -> Counts:
    """The identifiers of a text in its three fields; `data` is UTF-8 or any superset of ASCII."""
    names = _defined_names(data, rules)
    return Counts(
        Counter(words.identifiers(data)),
        Counter(words.identifiers(b" ".join(names))),
        Counter(words.identifiers(_comments(data, rules))),
    )


def _defined_names(data: bytes, rules: Rules) -> list[bytes]:
    if rules.definition_line is None:
        return []
    found = _pattern(rules.definition_line).findall(b"\n" + data)
    return [name for groups in found for name in (groups if isinstance(groups, tuple) else (groups,)) if name]


def _comments(data: bytes, rules: Rules) -> bytes:
    pattern = _comment_pattern(rules)
    if pattern is None:
        return b""
    return b"\n".join(match[match.lastindex or 0] for match in pattern.finditer(data))


@lru_cache(maxsize=256)
def _pattern(source: bytes) -> re.Pattern[bytes]:
    return re.compile(source)


@lru_cache(maxsize=256)
def _comment_pattern(rules: Rules) -> re.Pattern[bytes] | None:
    """One pass over a text that captures what its comments and doc strings say.

    Every alternative starts with the literal mark, which lets the matcher skip ahead; what stands before a line mark
    is looked at after it (a `#` or `//` inside a word or address opens no comment). An unclosed block ends the text.
    """
    longest_first = sorted(rules.block_comments, key=lambda marks: (-len(marks[0]), marks))
    blocks = [_block(opening, closing) for opening, closing in longest_first]
    lines = [
        re.escape(mark) + rb"(?<![^\s(){};,]" + re.escape(mark) + rb")([^\n]*)"
        for mark in sorted(rules.line_comments, key=lambda mark: (-len(mark), mark))
    ]
    return re.compile(b"|".join(blocks + lines)) if blocks or lines else None


def _block(opening: bytes, closing: bytes) -> bytes:
    first, rest = re.escape(closing[:1]), re.escape(closing[1:])
    other = b"[^" + first + b"]*+"
    inside = other + b"(?:" + first + b"(?!" + rest + b")" + other + b")*+" if rest else other
    return re.escape(opening) + b"(" + inside + b")(?:" + re.escape(closing) + b")?"


def _hashes(terms: Iterable[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(map(_hash, terms)), "<u8")


def _hash(term: bytes) -> bytes:
    return blake2b(term, digest_size=8).digest()


# --- segments --------------------------------------------------------------------------------------------------


class Postings:
    """One field of a segment: for each term, in order of its hash, the rows that hold it and how often.

    `rows[starts[i]:starts[i + 1]]` belong to `hashes[i]`. Where only presence counts, `counts` is empty.
    """

    def __init__(
        self,
        hashes: NDArray[np.uint64],
        starts: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        counts: NDArray[np.uint16],
    ) -> None:
        self.hashes, self.starts, self.rows, self.counts = hashes, starts, rows, counts

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows hold each term."""
        starts = self.starts.astype(np.int64)
        return starts[1:] - starts[:-1]

    def slices(self, at: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The postings of the terms at these places: each one's position, and whose of `at` it is."""
        starts = self.starts[at].astype(np.int64)
        lengths = self.starts[at + 1].astype(np.int64) - starts
        return _ranges(starts, lengths), np.repeat(np.arange(len(at)), lengths)


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """`start, start + 1, ... start + length - 1` of every pair, one after the other."""
    ends: NDArray[np.int64] = np.cumsum(lengths)
    positions = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    positions += np.repeat(starts - (ends - lengths), lengths)
    return positions


class Segment:
    """Counts of some rows, never changed after it is built. Row `i` is what `keys[i]` names."""

    def __init__(
        self, keys: Sequence[bytes], fields: Mapping[str, Postings], lengths: Mapping[str, NDArray[np.uint32]]
    ) -> None:
        self.keys, self.fields, self.lengths = keys, fields, lengths

    @property
    def size(self) -> int:
        """How many postings it holds."""
        return sum(len(postings.rows) for postings in self.fields.values())

    def to_bytes(self) -> bytes:
        """A self-describing, checksummed form that `from_buffer` maps without copying."""
        arrays: dict[str, NDArray[np.generic]] = {
            "key_lengths": np.array([len(key) for key in self.keys], np.uint32),
            "keys": np.frombuffer(b"".join(self.keys), np.uint8),
        }
        for field, postings in self.fields.items():
            for part in _PARTS:
                arrays[f"{field}.{part}"] = getattr(postings, part)
            if field in self.lengths:
                arrays[f"{field}.lengths"] = self.lengths[field]
        described = msgspec.json.encode([(name, array.dtype.str, array.nbytes) for name, array in arrays.items()])
        body = bytearray(described.ljust(_padded(len(described))))
        for array in arrays.values():
            body += array.tobytes()
            body += bytes(-len(body) % _ALIGN)
        body[:0] = len(described).to_bytes(_ALIGN, "little")
        return _MAGIC + zlib.crc32(body).to_bytes(_ALIGN, "little") + bytes(body)

    @classmethod
    def from_buffer(cls, buffer: bytes | memoryview) -> Segment | None:
        """The segment in these bytes, its arrays still inside them; None where damaged or of another version."""
        view = memoryview(buffer)
        magic, crc, size = (bytes(view[at : at + _ALIGN]) for at in range(0, 3 * _ALIGN, _ALIGN))
        if magic != _MAGIC or crc != zlib.crc32(view[2 * _ALIGN :]).to_bytes(_ALIGN, "little"):
            return None
        start = 3 * _ALIGN
        end = start + int.from_bytes(size, "little")
        arrays, at = {}, _padded(end)
        for name, dtype, nbytes in msgspec.json.decode(view[start:end], type=list[tuple[str, str, int]]):
            arrays[name] = np.frombuffer(view[at : at + nbytes], np.dtype(dtype))
            at += _padded(nbytes)
        return cls(*_from_arrays(arrays))


_MAGIC = b"RPSEG\x00\x00\x01"
_ALIGN = 8
_PARTS = ("hashes", "starts", "rows", "counts")


def _padded(size: int) -> int:
    return size + -size % _ALIGN


def _from_arrays(
    arrays: Mapping[str, NDArray[np.generic]],
) -> tuple[list[bytes], dict[str, Postings], dict[str, NDArray[np.uint32]]]:
    ends = np.cumsum(arrays["key_lengths"], dtype=np.int64).tolist()
    blob = arrays["keys"].tobytes()
    keys = [blob[start:end] for start, end in pairwise([0, *ends])]
    names = dict.fromkeys(name.partition(".")[0] for name in arrays if "." in name)
    fields = {name: Postings(*(arrays[f"{name}.{part}"] for part in _PARTS)) for name in names}  # type: ignore[arg-type]  # dtypes are those written
    lengths = {name: arrays[f"{name}.lengths"].view(np.uint32) for name in fields if f"{name}.lengths" in arrays}
    return keys, fields, lengths


# --- building segments -----------------------------------------------------------------------------------------


class _Builder:
    """Gathers counted identifiers row by row; identifiers are numbered and split into terms at the end, all at once."""

    def __init__(self, *fields: str) -> None:
        self.keys: list[bytes] = []
        self._counters: dict[str, list[Counter[bytes]]] = {field: [] for field in fields}

    def add(self, key: bytes, *counts: Counter[bytes]) -> None:
        """A row, with its counts in the order of the fields."""
        self.keys.append(key)
        for counters, counter in zip(self._counters.values(), counts, strict=True):
            counters.append(counter)

    def segment(self) -> Segment:
        identifiers = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(self._counters.values()))))
        numbers = dict(zip(identifiers, range(len(identifiers)), strict=True))
        splits = _Splits(identifiers)
        triples = {field: _triples(counters, numbers) for field, counters in self._counters.items()}
        fields, lengths = {}, {}
        for field, found in triples.items():
            fields[field], lengths[field] = splits.postings(*found, len(self.keys))
        if "body" in fields:
            fields[_MENTIONED] = splits.presence(*triples["body"])
            fields[_DEFINED] = splits.presence(*triples["names"])
        return Segment(tuple(self.keys), fields, lengths)


def _triples(
    counters: Sequence[Counter[bytes]], numbers: Mapping[bytes, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(row, identifier, times) of everything counted in one field."""
    sizes = list(map(len, counters))
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(counters)), np.int64, sum(sizes))
    times = np.fromiter(chain.from_iterable(counter.values() for counter in counters), np.int64, sum(sizes))
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes), ids, times


@lru_cache(maxsize=1 << 16)
def _coded(identifier: bytes) -> tuple[bytes, bool, bytes]:
    """The hashes of an identifier's terms, whether the last is the whole of it, and its own where it can be a name."""
    terms = words.terms(identifier)
    name = _hash(identifier) if _NAME.fullmatch(identifier) else b""
    return b"".join([_hash(term.encode()) for term in terms]), len(terms) > 1 and terms[-1][0] == "=", name


class _Splits:
    """The terms of every identifier of a builder, as arrays."""

    def __init__(self, identifiers: Sequence[bytes]) -> None:
        coded = list(map(_coded, identifiers))
        hashes = np.frombuffer(b"".join([of_it for of_it, _, _ in coded]), "<u8")
        self._lengths = np.array([len(of_it) for of_it, _, _ in coded], np.int64) // 8
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._hashes, self._flat = np.unique(hashes, return_inverse=True)
        joined = np.array([joined for _, joined, _ in coded], bool)
        self._plain = np.ones(len(self._hashes), bool)
        self._plain[self._flat[(self._starts + self._lengths - 1)[joined]]] = False
        self._named = np.array([bool(name) for _, _, name in coded], bool)
        self._own = b"".join([name for _, _, name in coded])

    def postings(
        self, rows: NDArray[np.int64], ids: NDArray[np.int64], times: NDArray[np.int64], row_count: int
    ) -> tuple[Postings, NDArray[np.uint32]]:
        """Postings of these identifiers' terms and each row's number of words (joined identifiers not among them)."""
        each = self._lengths[ids]
        terms = self._flat[_ranges(self._starts[ids], each)]
        rows, times = np.repeat(rows, each), np.repeat(times, each)
        words_of = np.bincount(rows, np.where(self._plain[terms], times, 0), row_count).astype(np.uint32)
        return _postings(self._hashes, terms, rows, times), words_of

    @cached_property
    def _names(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hashes of the identifiers that can be names, and the place of each identifier among them, or -1."""
        hashes, places = np.unique(np.frombuffer(self._own, "<u8"), return_inverse=True)
        rank = np.full(len(self._named), -1, np.int64)
        rank[self._named] = places
        return hashes, rank

    def presence(self, rows: NDArray[np.int64], ids: NDArray[np.int64], times: NDArray[np.int64]) -> Postings:
        """Which rows hold which identifiers, as written; what cannot be a name is left out."""
        hashes, rank = self._names
        kept = rank[ids] >= 0
        found = _postings(hashes, rank[ids[kept]], rows[kept], times[kept])
        return Postings(found.hashes, found.starts, found.rows, np.empty(0, np.uint16))


def _postings(
    hashes: NDArray[np.uint64], terms: NDArray[np.int64], rows: NDArray[np.int64], times: NDArray[np.int64]
) -> Postings:
    """Postings of (term, row, times) triples in any order; `terms` are places in `hashes`, which is sorted."""
    terms, rows, times = _summed(terms, rows, times)
    used, counts = np.unique(terms, return_counts=True)
    starts = np.zeros(len(used) + 1, np.uint32)
    np.cumsum(counts, out=starts[1:])
    narrow = np.uint16 if not len(rows) or rows.max() <= 0xFFFF else np.uint32
    return Postings(hashes[used], starts, rows.astype(narrow), np.minimum(times, _MOST).astype(np.uint16))


def _summed(
    terms: NDArray[np.int64], rows: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The triples in order of term and row, times of equal ones added up."""
    if not len(terms):
        return terms, rows, times
    width = int(rows.max()) + 1
    keys = terms * width + rows
    if int(keys.max()) < _DENSE * len(keys):
        total = np.bincount(keys, times)
        keys = np.flatnonzero(total)
        return keys // width, keys % width, total[keys].astype(np.int64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return terms[order[firsts]], rows[order[firsts]], np.add.reduceat(times[order], firsts)


_DENSE = 8
"""Up to so many cells for each triple, one pass over a table of all (term, row) cells is faster than sorting."""


def merge(segments: Sequence[Segment], keep: Sequence[NDArray[np.bool_]] | None = None) -> Segment:
    """One segment with the rows of several, those not in `keep` left out."""
    masks = keep or [np.ones(len(segment.keys), bool) for segment in segments]
    renumbered = []
    base = 0
    for mask in masks:
        renumbered.append(np.where(mask, np.cumsum(mask) - 1 + base, -1))
        base += int(mask.sum())
    keys = tuple(
        k for segment, mask in zip(segments, masks, strict=True) for k, m in zip(segment.keys, mask, strict=True) if m
    )
    fields = {name: _merged([s.fields[name] for s in segments], renumbered) for name in segments[0].fields}
    lengths = {
        name: np.concatenate([s.lengths[name][mask] for s, mask in zip(segments, masks, strict=True)])
        for name in segments[0].lengths
    }
    return Segment(keys, fields, lengths)


def _merged(fields: Sequence[Postings], renumbered: Sequence[NDArray[np.int64]]) -> Postings:
    hashes = np.unique(np.concatenate([field.hashes for field in fields]))
    terms, rows, times = [], [], []
    for field, numbers in zip(fields, renumbered, strict=True):
        row = numbers[field.rows]
        term = np.repeat(np.searchsorted(hashes, field.hashes), field.sizes)
        kept = row >= 0
        terms.append(term[kept])
        rows.append(row[kept])
        times.append((field.counts if len(field.counts) else np.ones(len(row), np.uint16))[kept].astype(np.int64))
    found = _postings(hashes, np.concatenate(terms), np.concatenate(rows), np.concatenate(times))
    presence = not any(len(field.counts) for field in fields)
    return Postings(found.hashes, found.starts, found.rows, np.empty(0, np.uint16)) if presence else found


def segment_of(items: Iterable[tuple[bytes, bytes, Rules]]) -> Segment:
    """Counts of (key, text, rules) items."""
    builder = _Builder(*CONTENT)
    for row_key, data, rules in items:
        counts = analyse(data, rules)
        builder.add(row_key, counts.body, counts.names, counts.comments)
    return builder.segment()


def analyse_payload(items: Sequence[tuple[bytes, bytes, Rules]]) -> bytes:
    """What `analyse_task` takes."""
    return msgspec.msgpack.encode(items)


def analyse_task(payload: bytes) -> bytes:
    """For a worker process: (key, text, rules) items in, a segment's bytes out (`Index.add_segment`)."""
    return segment_of(msgspec.msgpack.decode(payload, type=list[tuple[bytes, bytes, Rules]])).to_bytes()


# --- views -----------------------------------------------------------------------------------------------------


class _Projection:
    """One corpus seen from one snapshot: which rows of the view each row of each segment stands for.

    A row may stand for several (a content at two paths, a commit that touched three files) or for none. The view rows
    of row `r` of a segment are `targets[starts[r]:starts[r + 1]]`.
    """

    def __init__(
        self, segments: Mapping[int, Segment], sources: NDArray[np.int64], targets: NDArray[np.int64], rows: int
    ) -> None:
        self.row_count = rows
        self._parts: list[tuple[Segment, NDArray[np.int64], NDArray[np.int64]]] = []
        order = np.argsort(sources, kind="stable")
        sources, targets = sources[order], targets[order]
        numbers = sources >> _ROW_BITS
        for number in np.unique(numbers).tolist():
            first, last = np.searchsorted(numbers, (number, number + 1))
            segment = segments[number]
            own_rows = sources[first:last] & _ROW_MASK
            starts = np.zeros(len(segment.keys) + 1, np.int64)
            np.cumsum(np.bincount(own_rows, minlength=len(segment.keys)), out=starts[1:])
            self._parts.append((segment, starts, targets[first:last]))

    def lengths(self, field: str) -> NDArray[np.float64]:
        total = np.zeros(self.row_count)
        for segment, starts, targets in self._parts:
            total += np.bincount(targets, np.repeat(segment.lengths[field], np.diff(starts)), self.row_count)
        return total

    def postings(
        self, field: str, hashes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(place in `hashes`, view row, times) of every posting of these terms, in that order."""
        found = [self._expanded(part, field, hashes) for part in self._parts]
        terms, rows, times = (np.concatenate(column) for column in zip(*found, strict=True)) if found else _NO_POSTINGS
        return _summed(terms, rows, times)

    @staticmethod
    def _expanded(
        part: tuple[Segment, NDArray[np.int64], NDArray[np.int64]], field: str, hashes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        segment, starts, targets = part
        postings = segment.fields[field]
        which, at = _found(hashes, postings.hashes)
        places, of = postings.slices(at)
        own = postings.rows[places]
        each = starts[own + 1] - starts[own]
        times = postings.counts[places] if len(postings.counts) else np.ones(len(places), np.uint16)
        return (
            np.repeat(which[of], each),
            targets[_ranges(starts[own], each)],
            np.repeat(times, each).astype(np.int64),
        )

    def centrality(self) -> NDArray[np.float64]:
        """See `View.centrality`. Segment by segment, so that one more small segment costs next to nothing."""
        defines = [_Live(segment.fields[_DEFINED], starts) for segment, starts, _ in self._parts]
        mentions = [_Live(segment.fields[_MENTIONED], starts) for segment, starts, _ in self._parts]
        total = np.zeros(self.row_count)
        for names, (segment, starts, targets) in zip(defines, self._parts, strict=True):
            definers = sum((names.shared(other) for other in defines), np.zeros(len(names.rows), np.int64))
            mentioned = sum((names.shared(other) for other in mentions), np.zeros(len(names.rows), np.int64))
            others = (mentioned - 1) / np.maximum(definers, 1)
            postings = segment.fields[_DEFINED]
            each_row = np.bincount(postings.rows, np.repeat(others, postings.sizes), len(segment.keys))
            total[targets] = np.repeat(each_row, np.diff(starts))
        return total


class _Live:
    """The terms of one field of a segment with the number of the view's rows that hold each."""

    def __init__(self, postings: Postings, starts: NDArray[np.int64]) -> None:
        self.hashes = postings.hashes
        seen = np.concatenate(([0], np.cumsum(np.diff(starts)[postings.rows])))
        self.rows: NDArray[np.int64] = seen[postings.starts[1:]] - seen[postings.starts[:-1]]

    def shared(self, other: _Live) -> NDArray[np.int64]:
        """For each term here, the number of rows that hold it there."""
        total = np.zeros(len(self.rows), np.int64)
        mine, others = _common(self.hashes, other.hashes)
        total[mine] = other.rows[others]
        return total


def _common(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The places in both of what two sorted arrays have in common; the shorter is looked up in the longer."""
    return _found(one, other) if len(one) <= len(other) else _found(other, one)[::-1]


def _found(wanted: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of `wanted` are among sorted hashes, and their places there."""
    if not len(hashes):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    at = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
    found = np.flatnonzero(hashes[at] == wanted)
    return found, at[found]


_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1
_NO_POSTINGS = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class View:
    """Level one of one snapshot. Rows are its text files in path order; nothing outside it is ever counted."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        keys: Sequence[bytes],
        content: _Projection,
        names: _Projection,
        messages: _Projection,
        touched: Touched,
    ) -> None:
        self.paths = paths
        self.keys = keys
        self.touched = touched
        self._projections = dict.fromkeys(CONTENT, content) | {"path": names, "messages": messages}
        self._content = content

    def match(self, terms: Iterable[str]) -> Matches:
        """Where these terms stand. The terms of the result are in sorted order, each once."""
        wanted = tuple(sorted(set(terms)))
        hashes = _hashes(term.encode() for term in wanted)
        rows, counts = {}, {}
        for field in FIELDS:
            of, where, times = self._projections[field].postings(field, hashes)
            bounds = np.searchsorted(of, np.arange(len(wanted) + 1)).tolist()
            spans = list(pairwise(bounds))
            narrow, exact = where.astype(np.int32), times.astype(np.float64)
            rows[field] = tuple(narrow[start:end] for start, end in spans)
            counts[field] = tuple(exact[start:end] for start, end in spans)
        return Matches(self.paths, wanted, rows, counts, self.lengths, self.centrality, self.touched)

    def document_frequency(self, terms: Sequence[str], field: str = "body") -> NDArray[np.int64]:
        """How many files hold each of these terms in a field, in the order asked."""
        hashes = _hashes(term.encode() for term in terms)
        return np.bincount(self._projections[field].postings(field, hashes)[0], minlength=len(terms))

    def defining(self, names: Sequence[str], most: int = 64) -> Mapping[str, tuple[Path, ...]]:
        """The files that define each of these names, as written, in path order; none for one that more define.

        By the line patterns of level one: a name they miss is not found, so nothing found proves nothing.
        """
        rows = self._with_names(_DEFINED, names)
        return {
            name: tuple(self.paths[row] for row in of_it) if len(of_it) <= most else ()
            for name, of_it in zip(names, rows, strict=True)
        }

    def using(self, names: Sequence[str], most: int = 64) -> Mapping[Path, float]:
        """The files that mention any of these names: one is worth the more, the fewer mention it; 0 beyond `most`."""
        worth: dict[int, float] = {}
        for rows in self._with_names(_MENTIONED, sorted(set(names))):
            for row in rows if len(rows) <= most else ():
                worth[row] = worth.get(row, 0.0) + 1.0 / len(rows)
        return {self.paths[row]: worth[row] for row in sorted(worth)}

    def _with_names(self, field: str, names: Sequence[str]) -> list[list[int]]:
        hashes = _hashes(name.encode("utf-8", "surrogatepass") for name in names)
        of, where, _ = self._content.postings(field, hashes)
        bounds = np.searchsorted(of, np.arange(len(names) + 1)).tolist()
        return [where[start:end].tolist() for start, end in pairwise(bounds)]

    @cached_property
    def lengths(self) -> Mapping[str, NDArray[np.float64]]:
        return {field: self._projections[field].lengths(field) for field in FIELDS}

    @cached_property
    def centrality(self) -> NDArray[np.float64]:
        """For each file and name it defines, how many other files mention the name, shared among all that define it.

        So a name that every other file defines (`setUp`, `toString`) makes none of them central.
        """
        return self._content.centrality()


# --- the index -------------------------------------------------------------------------------------------------


class SegmentStore(Protocol):
    """Where segments outlive the process. None of these raises; what cannot be done is simply not done."""

    def generation(self) -> int:
        """A number that differs whenever the stored segments do; 0 where that cannot be known now."""

    def segment_names(self, corpus: str) -> Sequence[str] | None:
        """The stored segments of a corpus; None where that cannot be known now."""

    def segment(self, name: str) -> memoryview | None:
        """A stored segment's bytes; None where it is not there any more."""

    def replace_segments(self, corpus: str, removed: Sequence[str], data: bytes) -> str | None:
        """Store one in place of others; its name, or None where it was not stored."""

    def discard_segment(self, name: str) -> None:
        """Drop one that is damaged."""


class _Corpus:
    """Segments over one kind of row, each row reached by its key. A key counted twice is found once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.segments: dict[int, Segment] = {}
        self.stored: dict[int, str] = {}
        self.in_work: frozenset[int] = frozenset()
        self._next = 0
        self._at: dict[bytes, int] = {}

    def __contains__(self, row_key: bytes) -> bool:
        return row_key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def add(self, segment: Segment, stored_as: str | None = None) -> None:
        number = self._next
        self._next += 1
        self.segments[number] = segment
        if stored_as is not None:
            self.stored[number] = stored_as
        first = number << _ROW_BITS
        self._at.update(zip(segment.keys, range(first, first + len(segment.keys)), strict=True))

    def remove(self, number: int) -> None:
        for row_key in self.segments.pop(number).keys:
            if self._at.get(row_key, -1) >> _ROW_BITS == number:
                del self._at[row_key]
        self.stored.pop(number, None)

    def sources(self, keys: Iterable[bytes]) -> NDArray[np.int64]:
        """Where each of these rows lies; -1 where it was never counted."""
        get = self._at.get
        return np.array([get(row_key, -1) for row_key in keys], np.int64)

    def fresh(self) -> list[int]:
        """The segments that are neither stored nor about to be, oldest first."""
        return [number for number in self.segments if number not in self.stored and number not in self.in_work]

    def kept(self, number: int, dead: Set[bytes]) -> NDArray[np.bool_]:
        """Which rows of a segment are worth keeping: not dead, and not found in another segment."""
        keys = self.segments[number].keys
        own: NDArray[np.bool_] = self.sources(keys) == np.arange(len(keys)) + (number << _ROW_BITS)
        return own & ~np.array([row_key in dead for row_key in keys], bool) if dead else own


class Index:
    """Every content, path and commit message counted so far, and the views over them.

    Threads may share one; a view, once built, needs no lock.
    """

    def __init__(self, store: SegmentStore | None = None) -> None:
        self._store = store
        self._generation = 0
        self._lock = threading.RLock()
        self._flushing = threading.Lock()
        self._contents, self._paths, self._messages = _Corpus("contents"), _Corpus("paths"), _Corpus("messages")
        self._recent: tuple[tuple[Path, ...], object, _Projection, _Projection, Touched] | None = None
        self._views: WeakSet[View] = WeakSet()
        self._last: tuple[View, NDArray[np.int64]] | None = None
        self._outdated: set[bytes] = set()
        self._replaces = True
        self._refresh()

    # --- adding ------------------------------------------------------------------------------------------------

    def missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """The contents among these (see `key`) that were not counted yet, each once, in the order given."""
        return self._missing(self._contents, list(dict.fromkeys(keys)))

    def missing_messages(self, commits: Iterable[CommitId]) -> list[CommitId]:
        """The commits among these whose messages were not counted yet."""
        missing = self._missing(self._messages, [commit + _MESSAGE_TAG for commit in dict.fromkeys(commits)])
        return [CommitId(tagged.removesuffix(_MESSAGE_TAG)) for tagged in missing]

    def _missing(self, corpus: _Corpus, keys: Sequence[bytes]) -> list[bytes]:
        with self._lock:
            self._outdated.difference_update(keys)  # what somebody is about to look at again is not dropped
            missing = [row_key for row_key in keys if row_key not in corpus]
            if missing and self._refresh():
                missing = [row_key for row_key in missing if row_key not in corpus]
        return missing

    def add(self, items: Iterable[tuple[bytes, bytes, Rules]]) -> None:
        """Count the texts of (key, text, rules) items here and now."""
        self._insert(self._contents, segment_of(items))

    def add_segment(self, data: bytes) -> bool:
        """Take in what `analyse_task` gave back; False where it is damaged."""
        return self.add_segments([data])

    def add_segments(self, batch: Iterable[bytes]) -> bool:
        """Take in the work of several workers, joined into one; False where any of it is damaged."""
        segments = [Segment.from_buffer(data) for data in batch]
        sound = [segment for segment in segments if segment is not None]
        if sound:
            self._insert(self._contents, merge(sound) if len(sound) > 1 else sound[0])
        return len(sound) == len(segments)

    def add_messages(self, messages: Iterable[tuple[CommitId, bytes]]) -> None:
        """Count the words of (commit, message text) items."""
        builder = _Builder("messages")
        for commit, text in messages:
            builder.add(commit + _MESSAGE_TAG, Counter(words.identifiers(text)))
        self._insert(self._messages, builder.segment())

    def _add_paths(self, paths: Sequence[Path]) -> None:
        builder = _Builder("path")
        for path in paths:
            builder.add(path + _PATH_TAG, Counter(words.identifiers(path)))
        self._insert(self._paths, builder.segment())

    def _insert(self, corpus: _Corpus, segment: Segment) -> None:
        """Add a segment, joined with those before it as long as that is next to nothing to do.

        So hundreds of edits leave a handful of segments, and an edit never waits for a large one to be rewritten.
        """
        if not segment.keys:
            return
        with self._lock:
            if corpus is self._messages:
                self._recent = None
            for number in reversed(corpus.fresh()):
                before = corpus.segments[number]
                if before.size > 2 * segment.size or before.size + segment.size > _SMALL:
                    break
                segment = merge([before, segment], [corpus.kept(number, set()), np.ones(len(segment.keys), bool)])
                corpus.remove(number)
            corpus.add(segment)

    # --- views -------------------------------------------------------------------------------------------------

    def view(
        self, files: Sequence[tuple[Path, bytes]], messages: Sequence[tuple[CommitId, Sequence[Path]]] = ()
    ) -> View:
        """The view over these (path, content key) files, in path order, and these (commit, paths it touched).

        A content or message never added counts as empty. The same `messages` object again costs nothing.
        """
        paths = tuple(path for path, _ in files)
        keys = [row_key for _, row_key in files]
        with self._lock:
            names, said, touched = self._names_and_messages(paths, messages)
            sources = self._contents.sources(keys)
            content = _projected(self._contents, sources, np.arange(len(keys)), len(keys))
            view = View(paths, keys, content, names, said, touched)
            self._watch_edits(view, sources)
        return view

    def said(self, commits: Sequence[CommitId], terms: Iterable[str]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """How often each of these terms, sorted, stands in each commit's message: one row a term."""
        wanted = tuple(sorted(set(terms)))
        hashes = _hashes(term.encode() for term in wanted)
        with self._lock:
            sources = self._messages.sources(commit + _MESSAGE_TAG for commit in commits)
            said = _projected(self._messages, sources, np.arange(len(commits)), len(commits))
        of, where, times = said.postings("messages", hashes)
        table = np.zeros((len(wanted), len(commits)))
        table[of, where] = times
        return wanted, table

    def _watch_edits(self, view: View, sources: NDArray[np.int64]) -> None:
        """Note what a few changed files were before: nobody is likely to ask for that again."""
        self._views.add(view)
        if self._last is not None and self._last[0].paths == view.paths:
            changed = np.flatnonzero(self._last[1] != sources)
            for row in changed.tolist() if len(changed) <= _FEW_EDITS else ():
                self._outdated.add(self._last[0].keys[row])
        self._last = (view, sources)

    def _names_and_messages(
        self, paths: tuple[Path, ...], messages: Sequence[tuple[CommitId, Sequence[Path]]]
    ) -> tuple[_Projection, _Projection, Touched]:
        """The parts of a view that an edit leaves as they were."""
        if self._recent is not None and self._recent[1] is messages and self._recent[0] == paths:
            return self._recent[2:]
        tagged = [path + _PATH_TAG for path in paths]
        missing = set(self._missing(self._paths, tagged))
        self._add_paths([path for path, key_of_it in zip(paths, tagged, strict=True) if key_of_it in missing])
        names = _projected(self._paths, self._paths.sources(tagged), np.arange(len(paths)), len(paths))
        commits = self._messages.sources(commit + _MESSAGE_TAG for commit, _ in messages)
        said = _projected(self._messages, commits, np.arange(len(messages)), len(messages))
        touched = _touched(paths, messages)
        self._recent = (paths, messages, names, said, touched)
        return names, said, touched

    # --- keeping -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Join what lies in many segments and keep it in the store. May take a while: not for a query to wait on.

        What a file held between two edits is not kept, unless a view still holds it.
        """
        with self._flushing:
            dead = self._dead()
            for corpus in (self._contents, self._paths, self._messages):
                self._rewrite(corpus, lambda corpus: _due(corpus, self._replaces), dead)

    def contents(self) -> set[bytes]:
        """The contents counted so far."""
        with self._lock:
            self._refresh()
            return {row_key for segment in self._contents.segments.values() for row_key in segment.keys}

    def prune(self, contents: Set[bytes], paths: Set[Path], commits: Set[CommitId]) -> None:
        """Forget everything but these, also in the store."""
        kept = {
            self._contents: contents,
            self._paths: {path + _PATH_TAG for path in paths},
            self._messages: {commit + _MESSAGE_TAG for commit in commits},
        }
        with self._flushing:
            for corpus, keys in kept.items():
                with self._lock:
                    self._refresh()
                    dead = {row_key for segment in corpus.segments.values() for row_key in segment.keys} - keys
                self._rewrite(corpus, lambda corpus: list(corpus.segments), dead)

    def _dead(self) -> Set[bytes]:
        with self._lock:
            dead = self._outdated.difference(*(view.keys for view in self._views))
            self._outdated = set()
        return dead

    def _rewrite(self, corpus: _Corpus, which: Callable[[_Corpus], list[int]], dead: Set[bytes]) -> None:
        """One segment, stored where there is a store to be had, in place of several."""
        with self._lock:  # chosen and marked in one step: an insertion joins segments too
            numbers = which(corpus)
            if not numbers:
                return
            old = [corpus.segments[number] for number in numbers]
            masks = [corpus.kept(number, dead) for number in numbers]
            names = [corpus.stored[number] for number in numbers if number in corpus.stored]
            corpus.in_work = frozenset(numbers)
        try:
            merged, name = self._stored(corpus, merge(old, masks), names)
            with self._lock:
                if name is not None or not names:  # else the store is another's, and what is there stays as it is
                    self._recent = None
                    for number in numbers:
                        corpus.remove(number)
                    corpus.add(merged, name)
                if name is not None and self._store is not None:
                    self._generation = self._store.generation()
        finally:
            with self._lock:
                corpus.in_work = frozenset()

    def _stored(self, corpus: _Corpus, segment: Segment, replaced: Sequence[str]) -> tuple[Segment, str | None]:
        """A segment as it lies in the store, where there is one and it takes it, and its name there."""
        if self._store is None:
            return segment, None
        name = self._store.replace_segments(corpus.name, replaced, segment.to_bytes())
        self._replaces = name is not None
        return _stored_segment(self._store, name) or segment, name

    def _refresh(self) -> bool:
        """Take in what another process has stored meanwhile; False where that is nothing."""
        if self._store is None or (generation := self._store.generation()) in (0, self._generation):
            return False
        corpora = (self._contents, self._paths, self._messages)
        if any(corpus.in_work for corpus in corpora):  # the change may be our own, half done
            return False
        for corpus in corpora:
            names = self._store.segment_names(corpus.name)
            if names is None:
                return False
            for number, name in list(corpus.stored.items()):
                if name not in names:
                    corpus.remove(number)
            for name in names:
                if name not in corpus.stored.values() and (segment := _stored_segment(self._store, name)) is not None:
                    corpus.add(segment, name)
        self._generation = generation
        return True


_PATH_TAG = _MESSAGE_TAG = VERSION.to_bytes(4, "little")
_SMALL = 50_000
"""Postings that are joined while a query waits."""
_FEW_EDITS = 64
"""More changed files than this between two views are another branch or commit, not somebody typing."""


def _touched(paths: Sequence[Path], messages: Sequence[tuple[CommitId, Sequence[Path]]]) -> Touched:
    row_of = {path: row for row, path in enumerate(paths)}
    pairs = [(at, row_of[path]) for at, (_, changed) in enumerate(messages) for path in changed if path in row_of]
    commits, files = np.array(pairs, np.int64).reshape(-1, 2).T
    return Touched(commits, files, np.array([len(changed) for _, changed in messages], np.float64))


def _projected(corpus: _Corpus, sources: NDArray[np.int64], targets: NDArray[np.int64], row_count: int) -> _Projection:
    known = sources >= 0
    return _Projection(corpus.segments, sources[known], targets[known], row_count)


def _due(corpus: _Corpus, replaces: bool) -> list[int]:
    """The segments to rewrite as one: all that are not stored and, of the stored, those not much larger than these."""
    due = corpus.fresh()
    size = sum(corpus.segments[number].size for number in due)
    stored = corpus.stored if due and replaces else ()
    for number in sorted(stored, key=lambda number: (corpus.segments[number].size, number)):
        if corpus.segments[number].size > 2 * size:
            break
        due.append(number)
        size += corpus.segments[number].size
    return due


def _stored_segment(store: SegmentStore, name: str | None) -> Segment | None:
    data = None if name is None else store.segment(name)
    segment = None if data is None else Segment.from_buffer(data)
    if data is not None and segment is None and name is not None:
        store.discard_segment(name)
    return segment
