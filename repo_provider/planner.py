"""From a query to what it asks for: terms with weights, names, places, phrases, kinds and anchors.

Pure: knows words and the spellings of anchors, not the repository; whether anything exists is for those it hands the
plan to. Called by `provider` once a query. Both `goal` and `query_text` count, `query_text` for more. Any text gives
a plan, in time linear in its length and bounded (P5): the patterns here never backtrack over more than one word.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import unquote_to_bytes

from repo_provider.model import Anchor, Name, Path, Place, Plan, normal_path
from repo_provider.protocol import KINDS, ContextQuery, parse_instant, parse_range
from repo_provider.words import STOP_WORDS, identifiers, subwords, terms, whole

GOAL = 0.4  # weight of the goal's words beside a query_text
STOP = 0.05  # of a stop word where there are others
PAIR = 0.7  # of two neighbouring words read as one name
TITLE = 3.0  # of the first line of a long text
LONG = 60  # words from which a text counts as long: its first line is its title, its terms count by log
MOST_TERMS = 200
MOST_NAMES = 60
MOST_PLACES = 40
MOST_PHRASES = 16
MOST_BYTES = 200_000  # of one text; what lies beyond is not read


def plan(query: ContextQuery, *, roots: Sequence[str] = ()) -> Plan:
    """What the query asks for. `roots` are the absolute spellings of the repository's root.

    Raises BadRequest (`invalid_time`) for an `as_of` that is not an instant.
    """
    texts = _texts(query)
    weights = _term_weights(texts)
    anchors, notes = _anchors(query.anchors, roots)
    return Plan(
        terms=tuple(term for term, _ in weights),
        weights=tuple(weight for _, weight in weights),
        names=_heaviest(MOST_NAMES, ((n, w) for text, w in texts for n in _names(text)), Name),
        places=_places(texts),
        phrases=tuple(dict.fromkeys(p for text, _ in texts for p in _phrases(text)))[:MOST_PHRASES],
        single=all(_single(text) for text, _ in texts),
        wanted=frozenset(_wanted(texts)),
        kinds=tuple(kind for kind in KINDS if not query.kinds or kind in query.kinds),
        mixed=not query.kinds,
        history=any(_HISTORY.search(text) for text, _ in texts),
        structure=next((asked for text, _ in texts if (asked := _structure(text))), ""),
        anchors=anchors,
        as_of=None if query.as_of is None else parse_instant(query.as_of),
        max_frames=query.max_frames,
        max_tokens=query.max_tokens,
        notes=notes,
    )


def _texts(query: ContextQuery) -> list[tuple[str, float]]:
    """The texts that ask, heaviest first."""
    goal, asked = query.goal[:MOST_BYTES], (query.query_text or "")[:MOST_BYTES]
    if not asked.strip() or asked.strip() == goal.strip():
        return [(goal, 1.0)]
    return [(asked, 1.0), (goal, GOAL)]


# --- words -----------------------------------------------------------------------------------------------------

_PUNCTUATED = re.compile(r"[,;!?(){}\[\]\"'`|]|\.(?=\s|$)|:(?=\s|$)|\n")


def _term_weights(texts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The heaviest terms of the texts, sorted by term."""
    total: dict[str, float] = defaultdict(float)
    for text, weight in texts:
        for term, value in _words_of(text).items():
            total[term] += weight * value
    heaviest = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:MOST_TERMS]
    return sorted((term, round(weight, 6)) for term, weight in heaviest)


def _words_of(text: str) -> dict[str, float]:
    """Weights of one text's terms: once each in a question, by the log of their number in a long text."""
    lines = [identifiers(line.encode("utf-8", "replace")) for line in _PUNCTUATED.split(text)]
    title = next((line for line in lines if line), [])
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        for word in line:
            for term in terms(word):
                found[term] += 1.0
    if sum(map(len, lines)) >= LONG:
        found = defaultdict(float, {term: 1.0 + math.log(n) for term, n in found.items()})
        for term in {term for word in title for term in terms(word)}:
            found[term] *= TITLE
        lines = [title]
    else:
        found = defaultdict(float, dict.fromkeys(found, 1.0))
    for line in lines:
        for pair in _pairs(line):
            found[pair] = max(found[pair], PAIR)
    if all(term in _STOP_TERMS for term in found):
        return found if _single(text) else {}  # `get` may be a name, "how is it" asks for nothing
    return {term: value * (STOP if term in _STOP_TERMS else 1.0) for term, value in found.items()}


_STOP_TERMS = frozenset(term for word in STOP_WORDS for term in terms(word.encode()))


def _pairs(line: Sequence[bytes]) -> Iterator[str]:
    """Words of a line, alone and with their neighbour, as one whole name: `rate limiter` -> `=ratelimiter`."""
    for word in line:
        if len(word) > 3 and word.isascii() and word.decode().lower() not in STOP_WORDS:
            yield whole((word.decode().lower().replace("_", ""),))
    for left, right in itertools.pairwise(line):
        names = left.decode("utf-8", "ignore").lower(), right.decode("utf-8", "ignore").lower()
        if all(name.isascii() and name not in STOP_WORDS for name in names):
            yield whole(tuple(name.replace("_", "") for name in names))


# --- names, places, phrases ------------------------------------------------------------------------------------

_NAME = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->|\\)[^\W\d]\w*)*(?:\(\)?)?")
_JOINT = re.compile(r"\.|::|#|->|\\")
_RUN = re.compile(r"[\w.@+~/\\:-]+")
_SOURCE_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$", re.ASCII)


def _single(text: str) -> bool:
    """Nothing but one name, however it is spelled."""
    stripped = text.strip().strip("`\"'?!.")
    return _NAME.fullmatch(stripped) is not None


def _names(text: str) -> Iterator[tuple[str, ...]]:
    """What is written the way code is: mixed case, `_`, `::`, `()`, in back quotes, or the only word there is."""
    alone = _single(text)
    for match in _NAME.finditer(text):
        written = match[0]
        if len(written) > 200:
            continue
        parts = tuple(part for part in _JOINT.split(written.rstrip("()")) if part)
        quoted = text[match.start() - 1 : match.start()] == "`" == text[match.end() : match.end() + 1]
        if parts and (alone or quoted or written.endswith("(") or written.endswith(")") or _codelike(parts)):
            yield parts


def _codelike(parts: tuple[str, ...]) -> bool:
    return len(parts) > 1 or (len(subwords(parts[0])) > 1) or "_" in parts[0] or any(c.isupper() for c in parts[0][1:])


def _heaviest(most: int, found: Iterator[tuple[tuple[str, ...], float]], kind: type[Name]) -> tuple[Name, ...]:
    weights: dict[tuple[str, ...], float] = {}
    for parts, weight in found:
        weights[parts] = max(weight, weights.get(parts, 0.0))
    order = sorted(weights.items(), key=lambda item: -item[1])[:most]  # stable: among equals the first mentioned
    return tuple(kind(parts, weight) for parts, weight in order)


def _places(texts: Sequence[tuple[str, float]]) -> tuple[Place, ...]:
    """Files named in the texts, tracebacks' lines included, in order of mention."""
    found: dict[tuple[bytes, int], float] = {}
    for text, weight in texts:
        for match in _RUN.finditer(text):
            place = _place(match[0][:400], text[match.end() : match.end() + 24])
            if place is not None:
                found.setdefault(place, weight)
    return tuple(Place(Path(path), line, weight) for (path, line), weight in list(found.items())[:MOST_PLACES])


_LINE_AFTER = re.compile(r"""["']?,? line (\d{1,7})|\((\d{1,7})[,)]|#L(\d{1,7})""", re.ASCII)


def _place(run: str, after: str) -> tuple[bytes, int] | None:
    """A word that reads as a file, with the line written behind it: `a/b.py:12:5`, `File "b.py", line 12`."""
    drive = run[1:3] in (":\\", ":/")
    path, *numbers = (run[2:] if drive else run).rstrip(".:").replace("\\", "/").split(":")
    if path in ("http", "https", "file") and numbers:
        path, numbers = numbers[0], numbers[1:]
    path = path.lstrip("/").removeprefix("./")
    name = path.rpartition("/")[2]
    if not _SOURCE_FILE.search(name) or not (stem := name.rpartition(".")[0]) or stem.isdigit():
        return None
    line = int(numbers[0]) if numbers and numbers[0].isdigit() and len(numbers[0]) < 8 else 0
    if not line and (match := _LINE_AFTER.match(after)):
        line = int(match[1] or match[2] or match[3])
    return path.encode("utf-8", "replace"), line


_QUOTED = re.compile(r""""([^"\n]{4,200})"|'([^'\n]{4,200})'(?!\w)|`([^`\n]{4,200})`|“([^”\n]{4,200})”""")
_ERROR = re.compile(
    r"^[ \t]*+(?:[\w.]*(?:Error|Exception|Warning|panic|panicked|error|fatal))\b[^:\n]{0,80}: (.{6,300})", re.M
)
_VARIABLE = re.compile(r"""["'`<>{}\[\]()\d]+""")


def _phrases(text: str) -> Iterator[bytes]:
    """Literal pieces: what stands in quotes and what an error message says between its values."""
    for match in _QUOTED.finditer(text):
        quoted = next(group for group in match.groups() if group)
        if " " in quoted.strip():
            yield quoted.strip().lower().encode("utf-8", "replace")
    for match in _ERROR.finditer(text):
        for piece in _VARIABLE.split(match[1]):
            if len(piece.strip()) >= 8 and " " in piece.strip():
                yield piece.strip().lower().encode("utf-8", "replace")


_HISTORY = re.compile(r"\b(?:why|when|who|whose|since|introduced|history|blame|commits?|regress\w*|changelog)\b", re.I)
_HOLDS = re.compile(
    r"\b(?:structure|outline|overview|layout|contents?) of\b"
    r"|\bwhat(?:['\u2019]s| is| are)?(?: all)? (?:in|inside|defined (?:in|by)|imported by|exported by)\b"
    r"|\bwhat (?:does|do) \S+ (?:define|declare|export|import|contain|hold)\b"
    r"|\b(?:list|show)(?: me)?(?: all)?(?: the)? (?:functions|class(?:es)?|methods|definitions|types|symbols|imports)"
    r" (?:in|of)\b",
    re.I,
)
_USERS = re.compile(
    r"\b(?:what|which|who)(?: (?!does\b|do\b)\w+){0,2} (?:imports?|depends? on|includes?|requires?)\b"
    r"|\b(?:importers|dependents) of\b|\bwhere is \S+ imported\b|\bwho (?:uses|calls)\b",
    re.I,
)
SHORT = 300  # characters up to which a text may ask for nothing but what a file holds or who uses it


def _structure(text: str) -> Literal["", "holds", "users"]:
    if len(text) > SHORT:
        return ""
    return "holds" if _HOLDS.search(text) else "users" if _USERS.search(text) else ""


_TRAITS = {
    "test": "test tests testing tested fixture fixtures",
    "example": "example examples sample samples demo demos",
    "bench": "bench benchmark benchmarks",
    "docs": "doc docs documentation readme guide tutorial changelog manual",
    "vendored": "vendor vendored",
    "generated": "generated",
    "lockfile": "lockfile",
}
_TRAIT_OF = {word: trait for trait, words in _TRAITS.items() for word in words.split()}


def _wanted(texts: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Traits named by a short text; a long one mentions tests and docs in passing."""
    for text, _ in texts:
        words = re.findall(r"[a-z]+", text.lower()[:2000])
        if len(words) < LONG:
            yield from (_TRAIT_OF[word] for word in words if word in _TRAIT_OF)


# --- anchors ---------------------------------------------------------------------------------------------------


def _anchors(uris: Sequence[str], roots: Sequence[str]) -> tuple[tuple[Anchor, ...], tuple[str, ...]]:
    found = [(uri, anchor(uri, roots)) for uri in dict.fromkeys(uris)]
    notes = tuple(f"anchor not understood: {uri[:200]!r}" for uri, resolved in found if resolved is None)
    return tuple(resolved for _, resolved in found if resolved is not None), notes


def anchor(uri: str, roots: Sequence[str]) -> Anchor | None:
    """The place an anchor names, in any of the spellings hosts use; None for any other and for places outside."""
    if uri.startswith("swh:1:cnt:"):
        return _software_heritage(uri)
    if uri.startswith("symbol:///"):
        path, _, name = uri.removeprefix("symbol:///").partition("#")
        return _built(uri, unquote_to_bytes(path), None, unquote_to_bytes(name).decode("utf-8", "replace") or None)
    if uri.startswith("file:"):
        rest, _, fragment = uri.removeprefix("file:").partition("#")
        rest = rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest.removeprefix("//")
        return _built(uri, _inside(unquote_to_bytes(rest), roots), fragment)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", uri):
        return None
    path, _, fragment = uri.partition("#")
    if not fragment:
        path, lines = _line_suffix(path)
        fragment = lines
    raw = path.encode("utf-8", "replace")
    if b"/" not in raw:  # as Windows writes paths; in a uri a backslash is part of a name
        raw = raw.replace(b"\\", b"/")
    return _built(uri, _inside(raw, roots) if raw.startswith(b"/") else raw, fragment)


def _line_suffix(path: str) -> tuple[str, str]:
    """`a.py:10-20` -> (`a.py`, `L10-20`)."""
    before, colon, lines = path.rpartition(":")
    if colon and before and parse_range("L" + lines) is not None:
        return before, "L" + lines
    return path, ""


def _software_heritage(uri: str) -> Anchor | None:
    parts = (part.partition("=") for part in uri.split(";")[1:])
    qualifiers = {key: value for key, _, value in parts}
    path = unquote_to_bytes(qualifiers.get("path", ""))
    return _built(uri, path.lstrip(b"/"), "L" + qualifiers.get("lines", ""))


def _inside(absolute: bytes, roots: Sequence[str]) -> bytes | None:
    """A path below one of the roots, relative to it."""
    clean = normal_path(absolute)
    for root in roots:
        below = normal_path(root.encode("utf-8", "surrogateescape"))
        if clean is not None and below is not None and (clean.startswith(below + b"/") or not below):
            return clean[len(below) + 1 :] if below else clean
    return None


def _built(uri: str, path: bytes | None, fragment: str | None, name: str | None = None) -> Anchor | None:
    clean = None if path is None else normal_path(path)
    if not clean or b"\0" in clean:
        return None
    lines = parse_range(fragment) if fragment else None
    if fragment and lines is None and re.match(r"[^\W\d]", fragment):
        name = unquote_to_bytes(fragment).decode("utf-8", "replace")
    return Anchor(uri, Path(clean), lines, name)
