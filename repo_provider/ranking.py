"""Which files, and which regions of them, answer a plan best; what a score means.

Two steps, one model: a file's score is the sum of its parts times `WEIGHTS`. `candidates` knows the parts that level
one counts (words per field, names, paths) and shortlists files; `rank` adds the parts that need bytes and outlines and
turns files into regions. Pure: no I/O, no syntax, no clock. float64, terms in sorted order, scores rounded to six
decimals, ties by path bytes, then line (P1). `provider` calls it once a query; it never imports its neighbours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from heapq import nlargest
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from repo_provider.model import FIELDS, Candidate, Definition, Hit, Matches, Name, Outline, Path, Plan, Span, Text
from repo_provider.words import root, stem, subwords

Floats = NDArray[np.float64]

WEIGHTS: Mapping[str, float] = {
    # level one: BM25 of the question's words in each field, as a share of the question's information
    "body": 0.1,
    "path": 0.3,
    "names": 0.1,
    "comments": 0.3,
    # share of the question's information that a field has at all
    "names_share": 0.6,
    "comments_share": 0.9,
    "share": 0.3,
    # whole names, from adjacent words too: `rate limiter` -> `RateLimiter`
    "whole_body": 0.8,
    "whole_names": 1.6,
    "whole_comments": 1.4,
    "commits": 1.5,  # messages of the commits that touched the file say what it is for
    "stem": 1.5,  # how much of the file's name the question says
    "stem_share": 0.4,  # how much of the question the file's name says
    "stem_all": 0.7,
    "folder": 0.9,
    "central": 0.25,  # log of the number of files that mention what it defines
    "place": 3.0,  # the question mentions this file
    "anchor": 2.0,  # the host has this file at hand
    "near": 1.0,  # how near the file is to an anchored one, in [0, 1]
    # level two
    "block": 0.4,
    "block_share": 0.3,
    "coherence": 0.17,
    "head": 0.8,
    "definition": 0.6,
    "exact": 0.5,
    "phrase": 1.0,
    # traits that the question does not ask for
    "unwanted": -1.5,
    "unwanted_docs": -1.5,
    "unwanted_test": -1.2,
    "unwanted_bench": -0.7,
    "unwanted_vendored": -1.0,
    "unwanted_lockfile": -2.0,
}
"""What each part adds to a file's score."""

_NOBODY: Mapping[Path, float] = {}
SATURATION = 1.2  # BM25's k1
LENGTH = {"path": 0.5, "messages": 0.3}  # BM25's b, 0.75 elsewhere
SHORTLIST = 40
"""Files that are looked into: at least so many, and four times as many as frames are asked for, up to MOST_LISTED."""
MOST_LISTED = 300
PREVIEW = 400  # rows whose names and traits are looked at before the shortlist is cut


def candidates(
    plan: Plan,
    matches: Matches,
    traits: Callable[[Path], frozenset[str]],
    *,
    accepts: Callable[[Path], bool] | None = None,
    neighbours: Mapping[Path, float] = _NOBODY,
) -> list[Candidate]:
    """The files level one puts forward: those the host has at hand, then the others, each best first.

    Files that `accepts` refuses are left out. `neighbours` are files near the anchored ones and how near, in [0, 1].
    `parts` are what the score is made of.
    """
    information = weigh(plan, matches)
    fields = _field_parts(matches, information)
    words = sum((WEIGHTS.get(name, 0.0) * values for name, values in fields.items()), np.zeros(len(matches.paths)))
    central = np.log1p(matches.centrality)
    score = words + WEIGHTS.get("central", 0.0) * central * (words > 0)
    given = {"place": _mentioned(plan, matches.paths), **_at_hand(plan, matches.paths, neighbours)}
    for name, rows_of in given.items():
        for row, value in rows_of.items():
            score[row] += WEIGHTS.get(name, 0.0) * value
    if accepts is not None:
        score[[not accepts(path) for path in matches.paths]] = 0.0
    rows = [row for row in _best(score, PREVIEW) if score[row] > 0]
    said: dict[str, float] = {}
    for term, value in zip(matches.terms, information, strict=True):
        if term[0] != "=" and value:
            said[root(term)] = max(value, said.get(root(term), 0.0))
    whole = frozenset(term[1:] for term in matches.terms if term[0] == "=")
    everything = sum(said.values()) or 1.0
    most = min(max(SHORTLIST, 4 * plan.max_frames), MOST_LISTED)
    rough = score + WEIGHTS.get("central", 0.0) * central * (words <= 0)
    told: list[tuple[float, int, dict[str, float]]] = []
    for row, known in zip(rows, rough[rows].tolist(), strict=True):
        path = matches.paths[row]
        of_path = _path_parts(path, said, whole, everything) | _trait_parts(traits(path) - plan.wanted)
        told.append((known + total(of_path) if of_path else known, row, of_path))
    least = sorted((about for about, _, _ in told), reverse=True)[:most][-1] - ROUGHLY if told else 0.0
    found = []
    for about, row, of_path in told:
        if about >= least or row in given.get("anchor", ()):
            parts = {name: float(values[row]) for name, values in fields.items() if values[row]}
            parts["central"] = float(central[row])
            parts |= {name: rows_of[row] for name, rows_of in given.items() if row in rows_of}
            parts |= of_path
            found.append(Candidate(matches.paths[row], total(parts), parts))
    found.sort(key=lambda candidate: ("anchor" not in candidate.parts, -candidate.score, candidate.path))
    return found[:most]


ROUGHLY = 1e-6
"""More than the order of adding can change a score by."""


def total(parts: Mapping[str, float]) -> float:
    """The score of these parts, rounded so that no order of adding shows."""
    return round(sum([WEIGHTS.get(name, 0.0) * value for name, value in parts.items()]), 9)


def worth(parts: Mapping[str, float]) -> dict[str, float]:
    """What each of these parts adds to the score; those that add nothing are left out."""
    return {name: value for name in sorted(parts) if (value := round(WEIGHTS.get(name, 0.0) * parts[name], 6))}


def weigh(plan: Plan, matches: Matches) -> list[float]:
    """The information of each of the plan's terms in this snapshot: its weight times its inverse document frequency.

    Words that stand nowhere tell no file from another, and a long text is about its heaviest words: the others have
    none.
    """
    count = len(matches.paths)
    weights = dict(zip(plan.terms, plan.weights, strict=True))
    result = []
    for i, term in enumerate(matches.terms):
        frequency = max(len(matches.rows[field][i]) for field in ("body", "path"))
        known = frequency or len(matches.rows["messages"][i])
        information = math.log1p((count - frequency + 0.5) / (frequency + 0.5)) if known else 0.0
        result.append(weights.get(term, 0.0) * information)
    words = [value for term, value in zip(matches.terms, result, strict=True) if term[0] != "="]
    least = min(nlargest(MOST_WORDS, words), default=0.0)
    return [
        value if term[0] == "=" or value >= least else 0.0 for term, value in zip(matches.terms, result, strict=True)
    ]


MOST_WORDS = 16
"""Words of a question that files are ranked by."""


# --- level one -------------------------------------------------------------------------------------------------


CONTENT = tuple(field for field in FIELDS if field != "messages")


def _field_parts(matches: Matches, information: Sequence[float]) -> dict[str, Floats]:
    """Per field: BM25 of words, BM25 of whole names, share of the information there at all; all relative to the sum."""
    count = len(matches.paths)
    shares = _shares(matches.terms, information)
    parts: dict[str, Floats] = {}
    for field in CONTENT:
        for name in (field, f"whole_{field}", f"{field}_share"):
            parts[name] = np.zeros(count)
        for i, rows, gain in _gains(matches, field, shares):
            if matches.terms[i][0] == "=":
                parts[f"whole_{field}"][rows] += gain
            else:
                parts[field][rows] += gain
                parts[f"{field}_share"][rows] += shares[i]
    return parts | {"share": _share(matches, shares), "commits": _commits(matches, shares)}


def _shares(terms: Sequence[str], information: Sequence[float]) -> list[float]:
    """Each term's part of all the information there is in the question's words."""
    everything = sum(value for term, value in zip(terms, information, strict=True) if term[0] != "=") or 1.0
    return [value / everything for value in information]


def _gains(matches: Matches, field: str, shares: Sequence[float]) -> Iterator[tuple[int, NDArray[np.int32], Floats]]:
    """BM25: what each term adds to the rows of a field that hold it."""
    lengths = matches.lengths[field]
    b = LENGTH.get(field, 0.75)
    normal = SATURATION * (1 - b + b * lengths / max(float(lengths.mean()) if len(lengths) else 0.0, 1e-9))
    for i, share in enumerate(shares):
        rows, counts = matches.rows[field][i], matches.counts[field][i]
        if len(rows) and share:
            yield i, rows, share * counts * (SATURATION + 1) / (counts + normal[rows])


def _share(matches: Matches, shares: Sequence[float]) -> Floats:
    """The part of the information that a file has anywhere."""
    total = np.zeros(len(matches.paths))
    for i, term in enumerate(matches.terms):
        if term[0] != "=" and shares[i]:
            here = np.zeros(len(total), bool)
            for field in ("body", "path", "names"):
                here[matches.rows[field][i]] = True
            total += here * shares[i]
    return total


COMMITS = 5.0


def _commits(matches: Matches, shares: Sequence[float]) -> Floats:
    """What the commits that touched a file say of it: each message is a passage of its own.

    Squared, so that one message to the point outweighs many that share a word; less each where a commit touched more.
    """
    touched = matches.touched
    said = np.zeros(len(touched.spread))
    for _, rows, gain in _gains(matches, "messages", shares):
        said[rows] += gain
    squares = said * said / np.sqrt(np.maximum(touched.spread, 1.0))
    total = np.bincount(touched.files, squares[touched.commits], len(matches.paths))
    scaled: Floats = np.log1p(COMMITS * total)
    return scaled


def _best(score: Floats, most: int) -> list[int]:
    """Rows of the highest scores, best first, ties by row (paths are sorted)."""
    if len(score) > most:
        edge = np.partition(score, -most)[-most]
        rows = np.flatnonzero(score >= edge)
    else:
        rows = np.arange(len(score))
    order = np.lexsort((rows, -score[rows]))
    return [int(row) for row in rows[order][:most]]


_CONTAINERS = frozenset(["mod", "index", "init", "main", "lib"])
"""File names that say nothing: there the folder is the name."""


@lru_cache(maxsize=1 << 16)
def _named(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Roots of a file's name and of its folder's, and the name joined; `foo/mod.rs` is called `foo`."""
    *folders, base = path.split(b"/")
    name = base.lstrip(b".").split(b".")[0].decode("utf-8", "replace")
    folder = folders[-1].decode("utf-8", "replace") if folders else ""
    words = subwords(name)
    if len(words) == 1 and words[0] in _CONTAINERS and folder:
        words = subwords(folder)
    return _roots(words), _roots(subwords(folder)), "".join(words)


def _roots(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(root(stem(word)) for word in words)


UNSAID = 3.0  # information of a word of a file's name that the question does not say
MEANT = 8.0
"""A name counts in full where it says an eighth of the question or more: a long text says most names in passing."""


def _path_parts(path: Path, said: Mapping[str, float], whole: frozenset[str], everything: float) -> dict[str, float]:
    words, folder, joined = _named(path)
    if said.keys().isdisjoint(words) and said.keys().isdisjoint(folder) and joined not in whole:
        return {}
    share = sum(said[word] for word in words if word in said) / everything
    all_said = joined in whole or (bool(words) and all(word in said for word in words))
    return {
        "stem": _meant(words, said, everything),
        "stem_share": share,
        "stem_all": min(1.0, MEANT * share) if all_said else 0.0,
        "folder": _meant(folder, said, everything),
    }


def _meant(name: Sequence[str], said: Mapping[str, float], everything: float) -> float:
    """How much of a name the question says, less where it says little else of the question."""
    hit = sum(said[word] for word in name if word in said)
    unsaid = UNSAID * sum(word not in said for word in name)
    return min(1.0, MEANT * hit / everything) * hit / (hit + unsaid) if hit else 0.0


def _trait_parts(unwanted: frozenset[str]) -> dict[str, float]:
    return {"unwanted": 1.0, **{f"unwanted_{trait}": 1.0 for trait in sorted(unwanted)}} if unwanted else {}


def _mentioned(plan: Plan, paths: Sequence[Path]) -> dict[int, float]:
    """Rows of files the question mentions, by how much of the mention they share; a name many files bear says less."""
    found: dict[int, float] = {}
    for place in plan.places:
        parts = place.path.split(b"/")
        rows = [(row, _common_tail(parts, path)) for row, path in enumerate(paths) if path.endswith(parts[-1])]
        longest = max((common for _, common in rows), default=0)
        best = [row for row, common in rows if common == longest and common]
        for row in best:
            value = place.weight / len(best) if longest == 1 else place.weight
            found[row] = max(found.get(row, 0.0), value)
    return found


FEW_ANCHORS = 20
"""Files at hand that are sure of a place in the shortlist."""


def _at_hand(plan: Plan, paths: Sequence[Path], neighbours: Mapping[Path, float]) -> dict[str, dict[int, float]]:
    """Rows of the files the host has at hand, and of those near them; what lies in an anchored folder is near."""
    if not plan.anchors and not neighbours:
        return {}
    row_of = {path: row for row, path in enumerate(paths)}
    anchored = list(dict.fromkeys(anchor.path for anchor in plan.anchors))
    folders = tuple(path + b"/" for path in anchored if path not in row_of)
    near = {row: IN_FOLDER for row, path in enumerate(paths) if folders and path.startswith(folders)}
    near |= {row_of[path]: nearness for path, nearness in neighbours.items() if path in row_of}
    return {"anchor": {row_of[path]: 1.0 for path in anchored[:FEW_ANCHORS] if path in row_of}, "near": near}


IN_FOLDER = 0.5


def _common_tail(parts: Sequence[bytes], path: Path) -> int:
    common = 0
    for ours, theirs in zip(reversed(parts), reversed(path.split(b"/")), strict=False):
        if ours != theirs:
            break
        common += 1
    return common


# --- level two: where in a file --------------------------------------------------------------------------------

CELL = 512
"""Bytes of half a block. Blocks are counted in bytes, so that no line table is needed to find the best one."""
MOST_CELLS = 160  # of one file; beyond it cells grow
HEAD = 1_500
"""Bytes at the start of a file that tell what it is for."""


REGIONS = ("snippet", "symbol", "doc")
"""The kinds of frames that are a region of a file."""


class Region(NamedTuple):
    """A part of a file as a kind of frame. `definition` is set where it is exactly that, or its head (`symbol`)."""

    kind: str
    span: Span
    definition: Definition | None


class _Words:
    """Where the words of a text begin, sorted by their first letters: a question's words are found by bisection.

    A word begins at a letter or digit behind anything but a letter, and inside an identifier at a hump (`getUser`).
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        letters = np.frombuffer(data, np.uint8)
        low = np.frombuffer(data.lower() + bytes(_KEY), np.uint8)
        small = (low >= ord("a")) & (low <= ord("z"))
        capital = letters != low[:-_KEY]
        word = small[:-_KEY] | (letters >= 0x80) | ((letters >= ord("0")) & (letters <= ord("9")))
        word[1:] &= ~small[: -_KEY - 1] | (capital[1:] & (~capital[:-1] | ~np.append(capital[2:], False)))
        begins = np.flatnonzero(word)
        keys = np.lib.stride_tricks.sliding_window_view(low, _KEY)[begins].view(">u8").ravel().astype(np.uint64)
        order = np.argsort(keys)
        self._keys = keys[order]
        self._at = begins[order].astype(np.int32)

    def beginnings(self, wanted: _Wanted) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Offsets where a word begins with the letters of a wanted one, and which; in order of the wanted."""
        if not wanted.stems:
            return np.zeros(0, np.int32), wanted.numbers
        lows, highs = self._keys.searchsorted(wanted.lows), self._keys.searchsorted(wanted.highs, "right")
        found = [self._at[low:high] for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
        for i, word in wanted.long:
            found[i] = found[i][[self._data[at : at + len(word)].lower() == word for at in found[i].tolist()]]
        return np.concatenate(found), wanted.numbers.repeat([len(at) for at in found])


_KEY = 8
"""Letters of a word that it is sorted by; longer words are compared on."""

_KNOWN: WeakKeyDictionary[Text, _Words] = WeakKeyDictionary()
"""As long as a text is kept, so are its words."""


def _words_in(text: Text) -> _Words:
    known = _KNOWN.get(text)
    if known is None:
        known = _KNOWN[text] = _Words(text.data)
    return known


class _Wanted:
    """The words of a question to look for, with their shares of its information, in sorted order."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        words = [word.encode() for word in shares]
        self.stems = shares
        self.shares: Floats = np.array(list(shares.values()))
        self.lows = np.array([int.from_bytes(word[:_KEY].ljust(_KEY, b"\0"), "big") for word in words], np.uint64)
        self.highs = np.array([int.from_bytes(word[:_KEY].ljust(_KEY, b"\xff"), "big") for word in words], np.uint64)
        self.numbers = np.arange(len(words), dtype=np.int32)
        self.long = [(i, word) for i, word in enumerate(words) if len(word) > _KEY]


class _Names:
    """The definitions of an outline, found by the words of their names, by their whole names and by their places."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self.definitions = definitions
        self.called: dict[str, list[int]] = {}
        self._saying: dict[str, list[int]] = {}
        self._lengths: list[int] = []
        for index, definition in enumerate(definitions):
            self.called.setdefault(_plain(definition.name), []).append(index)
            stems = _stems(definition.name)
            self._lengths.append(len(stems))
            for word in stems:
                self._saying.setdefault(word, []).append(index)
        self._starts = np.array([one.span.start for one in definitions], np.int64)
        self._ends = np.array([one.span.end for one in definitions], np.int64)

    def saying(self, shares: Mapping[str, float]) -> dict[int, float]:
        """Definitions whose names say some of a question: how much of it, times how much of the name, by index."""
        said: dict[int, list[float]] = {}
        for word, share in shares.items():
            for index in self._saying.get(word, ()):
                said.setdefault(index, []).append(share)
        values = {}
        for index in sorted(said):
            hit = sum(said[index])
            values[index] = hit * hit / (hit + 0.3 * (self._lengths[index] - len(said[index])))
        return values

    def smallest(self, at: int) -> Definition | None:
        """The smallest definition around an offset."""
        holding = np.flatnonzero((self._starts <= at) & (at < self._ends)).tolist()
        around = [self.definitions[index] for index in holding]
        return min(around, key=lambda one: (_length(one), one.span.start), default=None)


_NO_NAMES = _Names(())
_KNOWN_NAMES: WeakKeyDictionary[Text, tuple[Outline, _Names]] = WeakKeyDictionary()


def _names_in(text: Text, outline: Outline | None) -> _Names:
    if outline is None:
        return _NO_NAMES
    known = _KNOWN_NAMES.get(text)
    if known is None or known[0] is not outline:
        known = _KNOWN_NAMES[text] = outline, _Names(outline.definitions)
    return known[1]


class _Where(NamedTuple):
    """Where a file has the question's words.

    `at` are the offsets. For each block of two cells of `cell` bytes: `blocks` is what the words in it are worth, those
    in both cells more, `shares` their part of the question. `head` is the part that the start of the file says.
    """

    at: NDArray[np.int32]
    cell: int
    blocks: Floats
    shares: Floats
    head: float


def _where(texts: Sequence[Text], wanted: _Wanted) -> Iterator[_Where]:
    """Of each text; counted for all of them in one go."""
    if not texts:
        return
    lengths = np.array([len(text.data) for text in texts])
    cells = np.maximum(CELL, -(-lengths // MOST_CELLS))
    firsts = np.append(0, np.cumsum(lengths // cells + 2))
    found = [_words_in(text).beginnings(wanted) for text in texts]
    at, which = (np.concatenate(parts) for parts in zip(*found, strict=True))
    files = np.arange(len(texts)).repeat([len(places) for places, _ in found])
    present = np.zeros((len(wanted.stems), firsts[-1]), bool)
    present[which, firsts[files] + at // cells[files]] = True
    shares = wanted.shares @ (present[:, :-1] | present[:, 1:])
    blocks = shares + wanted.shares @ (present[:, :-1] & present[:, 1:]) / 3
    early = at < HEAD
    heads = np.zeros((len(wanted.stems), len(texts)), bool)
    heads[which[early], files[early]] = True
    said = wanted.shares @ heads
    for i, (places, _) in enumerate(found):
        block = slice(firsts[i], firsts[i + 1] - 1)
        yield _Where(places, int(cells[i]), blocks[block], shares[block], float(said[i]))


class _File:
    """What one file has to say to the question, and where."""

    def __init__(
        self,
        plan: Plan,
        path: Path,
        text: Text,
        outline: Outline | None,
        wanted: _Wanted,
        where: _Where,
        *,
        prose: bool,
    ) -> None:
        self.path, self.text, self.outline, self._plan, self._where = path, text, outline, plan, where
        self._prose = prose
        self._kinds = frozenset(REGIONS).intersection(plan.kinds) or frozenset(REGIONS)
        self._names = _names_in(text, outline)
        self._name_values = self._names.saying(wanted.stems)
        self.named = self._named_definitions()

    def parts(self) -> dict[str, float]:
        best = sorted(self._where.blocks.tolist(), reverse=True)
        parts = {
            "block": best[0],
            "block_share": float(self._where.shares.max()),
            "coherence": sum(best[:8:2]),
            "head": self._head(),
            "phrase": self._phrases(),
            "exact": max((value for value, _ in self.named), default=0.0),
        }
        if self.outline is not None:
            parts["definition"] = math.log1p(sum(self._name_values.values()))
        return {name: value for name, value in parts.items() if value}

    def _head(self) -> float:
        """How much of the question the start of the file says; a short file is about one thing, and counts as said."""
        return 1.0 if len(self.text.data) < HEAD else self._where.head

    def _phrases(self) -> float:
        """How many of the question's literal pieces stand in the file."""
        if not self._plan.phrases:
            return 0.0
        lower = self.text.data.lower()
        return float(sum(phrase in lower for phrase in self._plan.phrases))

    def _named_definitions(self) -> list[tuple[float, int]]:
        """Definitions the question asks for by name: how exactly, and their index; best first."""
        found: dict[int, float] = {}
        for name in self._plan.names:
            for index in self._names.called.get(_plain(name.parts[-1]), ()):
                found[index] = max(_exactness(name, self._names.definitions[index]), found.get(index, 0.0))
        return sorted(((value, index) for index, value in found.items()), key=lambda item: (-item[0], item[1]))

    # --- regions

    def regions(self, most: int) -> list[Region]:
        """Regions of the kinds asked for that do not overlap: what is at hand or asked for by name, then the rest."""
        found: list[Region] = []
        for span, definition in self._places():
            region = self._shown(span, definition)
            if region is not None and not any(
                region.span.start < other.span.end and other.span.start < region.span.end for other in found
            ):
                found.append(region)
            if len(found) == most:
                break
        return found

    def _places(self) -> Iterator[tuple[Span, Definition | None]]:
        """Where to look, best first."""
        definitions = self._names.definitions
        yield from self._anchored()
        for _, index in self.named[:2]:
            yield definitions[index].span, definitions[index]
        values = self._name_values
        telling = max(sorted(values), key=lambda index: values[index], default=None)
        if telling is not None and values[telling] >= TELLING:
            yield definitions[telling].span, definitions[telling]
        blocks = self._where.blocks
        for cell in (-blocks).argsort(kind="stable")[:6].tolist():
            if blocks[cell] > 0 or cell == 0:
                yield self._around(self._densest(cell))
        if "snippet" not in self._kinds:  # heads alone: there may be none around the best lines
            for index in sorted(values, key=lambda index: (-values[index], index)) or range(min(3, len(definitions))):
                yield definitions[index].span, definitions[index]

    def _anchored(self) -> Iterator[tuple[Span, Definition | None]]:
        """The definition or the lines that the host points at."""
        definitions = self._names.definitions
        for anchor in self._plan.anchors:
            if anchor.path != self.path:
                continue
            called = [one for one in definitions if anchor.name and anchor.name in (one.qualified, one.name)]
            if called:
                best = next((one for one in called if one.qualified == anchor.name), called[0])
                yield best.span, best
            lines = self.text.span(*anchor.lines) if anchor.lines is not None else None
            if lines is not None and anchor.uri.startswith("swh:"):  # names a frame, lines and all: G4
                yield lines, next((one for one in definitions if one.span == lines), None)
            elif lines is not None:
                start, end = max(0, lines.start - CELL // 2), min(lines.end + CELL // 2, len(self.text.data))
                yield self._around(_whole_lines(self.text.data, start, end), lines)

    def _shown(self, span: Span, definition: Definition | None) -> Region | None:
        """A place as a frame of one of the kinds asked for; None where it cannot be one."""
        kinds = self._kinds
        if self._prose or (definition is not None and definition.kind == "section"):
            if definition is not None and not _is_small(definition):
                span, definition = self._first_lines(definition), None
            return Region("doc", span, definition) if "doc" in kinds else None
        if definition is None and "snippet" not in kinds:
            definition = self._names.smallest((span.start + span.end) // 2)
        if "snippet" in kinds and (definition is None or _is_small(definition)):
            return Region("snippet", span, definition)
        if definition is not None and "symbol" in kinds:
            return Region("symbol", definition.head, definition)
        if definition is not None and "snippet" in kinds:
            return Region("snippet", self._first_lines(definition), None)
        return None

    def focus(self, region: Region) -> Span | None:
        """What to keep of a region that does not fit: the line of its name, else the middle of the question's words."""
        if region.definition is not None and region.span.start <= region.definition.name_at < region.span.end:
            return Span(region.definition.name_at, region.definition.name_at + 1)
        places = self._places_of_words
        places = places[np.searchsorted(places, region.span.start) : np.searchsorted(places, region.span.end)]
        middle = int(places[len(places) // 2]) if len(places) else region.span.start
        return Span(middle, middle + 1)

    def _first_lines(self, definition: Definition) -> Span:
        return _whole_lines(
            self.text.data, definition.span.start, min(definition.span.end, definition.span.start + 2 * CELL)
        )

    def _densest(self, cell: int) -> Span:
        """The whole lines of a block that hold the question's words, and enough lines around them to be understood."""
        size = self._where.cell
        start, end = cell * size, min((cell + 2) * size, len(self.text.data))
        places = self._places_of_words
        places = places[np.searchsorted(places, start) : np.searchsorted(places, end)].tolist()
        if places and size == CELL:
            start, end = places[0], places[-1] + 1
        elif places:  # a large file's block is itself cut to where the words crowd
            middle = places[len(places) // 2]
            start, end = max(start, middle - CELL), min(end, middle + CELL)
        lack = max(0, CELL - (end - start))
        return _whole_lines(self.text.data, max(0, start - lack // 2), min(end + lack - lack // 2, len(self.text.data)))

    @cached_property
    def _places_of_words(self) -> NDArray[np.int32]:
        """Offsets of all the question's words, in order of the text."""
        return np.sort(self._where.at)

    def _around(self, block: Span, core: Span | None = None) -> tuple[Span, Definition | None]:
        """The smallest definition that holds the middle of a block or of its core, if it is small; else the block.

        One that is much smaller than the block (a field, an alias) says too little by itself.
        """
        start, end = (block.start, block.end) if core is None else (core.start, core.end)
        smallest = self._names.smallest((start + end) // 2)
        if smallest is None or not _is_small(smallest) or (core is None and _length(smallest) < (end - start) // 2):
            return block, None
        return smallest.span, smallest


TELLING = 0.5
"""Part of the question that a definition's name must say to be shown for its name alone."""
SMALL = 2_400
"""Bytes up to which a definition is shown whole."""


def _is_small(definition: Definition) -> bool:
    return _length(definition) <= SMALL


def _length(definition: Definition) -> int:
    return definition.span.end - definition.span.start


def _exactness(name: Name, definition: Definition) -> float:
    """How well a definition of that name, in any case style, is the one meant."""
    value = 1.0 if definition.name == name.parts[-1] else 0.7
    if len(name.parts) > 1:
        outer = {_plain(part) for part in re.split(r"\W+", definition.qualified)}
        value *= 1.0 if _plain(name.parts[-2]) in outer else 0.8
    return name.weight * value


def _whole_lines(data: bytes, start: int, end: int) -> Span:
    last = data.find(b"\n", max(start, end - 1))
    return Span(data.rfind(b"\n", 0, start) + 1, last + 1 if last >= 0 else len(data))


@lru_cache(maxsize=1 << 17)
def _stems(name: str) -> tuple[str, ...]:
    """The words of a name, in sorted order, each once."""
    return tuple(sorted(set(map(stem, subwords(name)))))


@lru_cache(maxsize=1 << 17)
def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# --- hits ------------------------------------------------------------------------------------------------------

SEVERAL = 3
"""Regions of one file at most, in the files that lead."""
SEVERAL_HEADS = 8
"""The same where only heads of definitions, or sections, are asked for."""
LEADING = 12
SHOWN = 24
"""Files that regions are looked for in beside those at hand, or three times as many as frames are asked for."""


def rank(
    plan: Plan,
    shortlist: Sequence[Candidate],
    texts: Mapping[Path, Text],
    outlines: Mapping[Path, Outline],
    information: Sequence[float],
    *,
    prose: Callable[[Path], bool] = lambda path: False,
    limit: int = 200,
) -> list[Hit]:
    """The regions of the shortlisted files that answer best, best first, the best of each file before its others.

    All are of the plan's kinds, of every kind where it has none of a region: others look at the files alone. What is
    `prose` is a `doc`, everything else code. The best region of a file that the
    host has at hand comes first, whatever its score would have been (G4).
    """
    wanted = _Wanted(_wordlist(plan, information))
    looked: list[tuple[float, Path, Mapping[str, float], _File]] = []
    told = [(one, texts[one.path]) for one in shortlist if one.path in texts and texts[one.path].data]
    for (candidate, text), where in zip(told, _where([text for _, text in told], wanted), strict=True):
        path = candidate.path
        file = _File(plan, path, text, outlines.get(path), wanted, where, prose=prose(path))
        parts = {**candidate.parts, **file.parts()}
        looked.append((calibrated(total(parts)), candidate.path, parts, file))
    looked.sort(key=lambda item: (-item[0], item[1]))
    most = max(SHOWN, 3 * plan.max_frames)
    shown = [one for place, one in enumerate(looked) if place < most or one[2].get("anchor")]
    several = SEVERAL if plan.mixed or "snippet" in plan.kinds else SEVERAL_HEADS
    hits = [
        _hit(path, file, region, round(score * 0.7**nth, 6), parts)
        for place, (score, path, parts, file) in enumerate(shown)
        for nth, region in enumerate(file.regions(several if place < LEADING else 1))
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.path, hit.span))
    return _anchored_first(hits)[:limit]


def _anchored_first(hits: Sequence[Hit]) -> list[Hit]:
    """The best hit in a file at hand is raised to the top, by as little as that takes."""
    at = next((at for at, hit in enumerate(hits) if hit.parts.get("anchor")), 0)
    if not at:
        return list(hits)
    return [replace(hits[at], score=round(hits[0].score + 1e-6, 6)), *hits[:at], *hits[at + 1 :]]


def _wordlist(plan: Plan, information: Sequence[float]) -> dict[str, float]:
    """The words worth looking for in texts, with their share of the question's information."""
    said = [(t, v) for t, v in zip(plan.terms, information, strict=True) if t[0] != "=" and v > 0]
    everything = sum(v for _, v in said) or 1.0
    return {term: value / everything for term, value in sorted(said)}


def calibrated(score: float) -> float:
    """A file's score as something that means the same for every question, above 0 and below 1."""
    return round(min(1 / (1 + math.exp(-(score - 7) / 3)), BELOW_ONE), 6)


BELOW_ONE = 0.99999
"""Leaves room for what the host has at hand."""


def _hit(path: Path, file: _File, region: Region, score: float, parts: Mapping[str, float]) -> Hit:
    kind, span, definition = region
    focus = file.focus(region)
    if definition is None or file.outline is None:
        return Hit(path, kind, span, score, focus=focus, parts=parts)
    twins = [d for d in file.outline.named[definition.name] if d.qualified == definition.qualified]
    return Hit(path, kind, span, score, definition.qualified, twins.index(definition), focus, parts=parts)
