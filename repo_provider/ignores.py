"""Which untracked files git would ignore: `.gitignore` text to a judge of paths, as C git judges them.

Pure: bytes in, verdicts out. `worktree` reads the files and calls it, because libgit2's own judgement differs from
git's in corners and costs a walk for every path asked. A verdict is about one name inside one directory; that a
directory is ignored and so everything in it is the caller's to remember, as it is git's (nothing below an ignored
directory can be taken back).

Git's matching is kept to the letter: the last rule of a file that fits decides, a rule without a slash looks at the
name alone, the part of a rule before its first wildcard is compared as text and only the rest is a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

MAX_WILD = 2_000
"""Rules with wildcards that one path may be held against."""
MAX_LINE_BYTES = 4_096


class TooMany(Exception):
    """More rules with wildcards, or a longer one, than can be judged by in reasonable time."""


class Rule(Struct, frozen=True):
    """`expression` is none for a rule without wildcards, which is its `text`."""

    text: bytes
    expression: bytes | None
    named: bool
    directories: bool
    taken_back: bool


class Rules:
    """The rules of one file, ready to judge by. `wild` of them have wildcards."""

    def __init__(self, rules: Sequence[Rule], wild: int, ignore_case: bool) -> None:
        self.wild = wild
        self._rules = rules
        self._ignore_case = ignore_case
        self._judges: dict[tuple[bool, bool], _Judge] = {}

    def verdict(self, path: bytes, name: bytes, is_directory: bool) -> bool | None:
        """True: ignored; False: taken back with `!`; None: this file says nothing. `path` is relative to the file."""
        last = max(self._last(name, True, is_directory), self._last(path, False, is_directory))
        return None if last < 0 else not self._rules[last].taken_back

    def _last(self, text: bytes, named: bool, is_directory: bool) -> int:
        """Where the last of the rules on names, or on paths, that fits stands in the file; -1 where none does."""
        judge = self._judges.get((named, is_directory))
        if judge is None:
            fits = [at for at, one in enumerate(self._rules) if one.named == named and is_directory >= one.directories]
            judge = self._judges[named, is_directory] = _Judge(self._rules, fits, self._ignore_case)
        return judge.last(text)


class _Judge:
    """Some of the rules: those without wildcards as a table, the others as one expression, the last one first."""

    def __init__(self, rules: Sequence[Rule], places: Sequence[int], ignore_case: bool) -> None:
        self._fold = bytes.lower if ignore_case else bytes
        self._literal = {self._fold(rules[at].text): at for at in places if rules[at].expression is None}
        wild = [(at, expression) for at in reversed(places) if (expression := rules[at].expression) is not None]
        self._groups = [-1, *(at for at, _ in wild)]
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._wild = re.compile(b"|".join(b"(%s)" % expression for _, expression in wild), flags) if wild else None

    def last(self, text: bytes) -> int:
        found = None if self._wild is None else self._wild.fullmatch(text)
        literal = self._literal.get(self._fold(text), -1)
        return literal if found is None else max(literal, self._groups[found.lastindex or 0])


@lru_cache(maxsize=4096)
def rules(text: bytes, ignore_case: bool = False) -> Rules | None:
    """The rules of a `.gitignore`; None where it has none. Raises TooMany."""
    found: list[Rule] = []
    wild = 0
    for line in _lines(text):
        if (rule := _rule(line)) is not None:
            found.append(rule)
            wild += rule.expression is not None
            if wild > MAX_WILD:
                raise TooMany
    return Rules(found, wild, ignore_case) if found else None


def _lines(text: bytes) -> Iterable[bytes]:
    text = text.removeprefix(b"\xef\xbb\xbf")
    for line in text.split(b"\n"):
        if not line or line.startswith(b"#"):
            continue
        line = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
        if len(line) > MAX_LINE_BYTES:
            raise TooMany
        yield line


def _without_trailing_spaces(line: bytes) -> bytes:
    end = len(line.rstrip(b" "))
    backslashes = len(line[:end]) - len(line[:end].rstrip(b"\\"))
    return line[: end + 1] if backslashes % 2 and end < len(line) else line[:end]


def _rule(line: bytes) -> Rule | None:
    taken_back = line.startswith(b"!")
    line = line[taken_back:]
    directories = line.endswith(b"/")
    line = line[: len(line) - directories]
    if not line:
        return None
    named = b"/" not in line
    glob = line if named else line.removeprefix(b"/")
    wild = _SPECIAL.search(glob)
    if wild is None:
        return Rule(glob, None, named, directories, taken_back)
    pieces = _pieces(glob[wild.start() :], named)
    if pieces is None:
        return None  # it can match nothing
    return Rule(glob, re.escape(glob[: wild.start()]) + _joined(pieces), named, directories, taken_back)


_SPECIAL = re.compile(rb"[*?\[\\]")
_STAR, _STARS, _STARS_SLASH = b"[^/]*", b".*", b"(?:.*/)?"


def _pieces(glob: bytes, named: bool) -> list[bytes] | None:
    """The expression in pieces: stars stand alone, so that `_joined` can tell them from what is between them."""
    pieces: list[bytes] = []
    at = 0
    while at < len(glob):
        byte = glob[at : at + 1]
        if byte == b"*":
            piece, at = _stars(glob, at, named)
        elif byte == b"?":
            piece, at = b"[^/]", at + 1
        elif byte == b"\\":
            if at + 1 == len(glob):
                return None
            piece, at = re.escape(glob[at + 1 : at + 2]), at + 2
        elif byte == b"[":
            bracket = _bracket(glob, at + 1)
            if bracket is None:
                return None
            piece, at = bracket
        else:
            piece, at = re.escape(byte), at + 1
        pieces.append(piece)
    return pieces


def _stars(glob: bytes, at: int, named: bool) -> tuple[bytes, int]:
    end = at
    while glob[end : end + 1] == b"*":
        end += 1
    whole = (at == 0 or glob[at - 1 : at] == b"/") and (
        end == len(glob) or glob[end : end + 1] == b"/" or glob[end : end + 2] == b"\\/"
    )
    if named or end - at == 1 or not whole:
        return _STAR, end
    return (_STARS_SLASH, end + 1) if glob[end : end + 1] == b"/" else (_STARS, end)


_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb" \t\n\v\f\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


def _bracket(glob: bytes, at: int) -> tuple[bytes, int] | None:
    """The expression of a bracket whose `[` stands before `at`, and where it ends; None where git finds it broken."""
    negated = glob[at : at + 1] in (b"!", b"^") and at < len(glob)
    at += negated
    items: list[bytes] = []
    previous = b""
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        byte = glob[at : at + 1]
        if byte == b"[" and glob[at + 1 : at + 2] == b":":
            end = glob.find(b"]", at + 2)
            if end < 0:
                return None
            if end > at + 2 and glob[end - 1 : end] == b":":
                known = _CLASSES.get(glob[at + 2 : end - 1])
                if known is None:
                    return None
                items.append(known)
                previous, at = b"", end + 1
                continue
        is_range = byte == b"-" and previous and glob[at + 1 : at + 2] not in (b"", b"]")
        at += bool(is_range)
        if glob[at : at + 1] == b"\\":
            at += 1
        byte = glob[at : at + 1]
        if not byte:
            return None
        items.append(_range(previous, byte) if is_range else _byte(byte))
        previous = b"" if is_range else byte
        at += 1
    inside = b"".join(items)
    if negated:
        return b"[^/" + inside + b"]", at + 1
    return (b"(?!/)[" + inside + b"]" if inside else b"(?!)"), at + 1


def _byte(byte: bytes) -> bytes:
    return b"\\x%02x" % byte[0]


def _range(low: bytes, high: bytes) -> bytes:
    return _byte(low) + b"-" + _byte(high) if low <= high else b""


def _joined(pieces: list[bytes]) -> bytes:
    """The pieces as one expression that cannot run away.

    The first place where what stands between two double stars fits is as good as any later one, and so is that
    between two single stars unless a double star follows; it is taken for good, and many stars stay linear.
    """
    doubles = [index for index, piece in enumerate(pieces) if piece in (_STARS, _STARS_SLASH)]
    out = _segment(pieces[: doubles[0]] if doubles else pieces)
    for this, following in zip(doubles, [*doubles[1:], len(pieces)], strict=bool(doubles)):
        segment = _segment(pieces[this + 1 : following])
        if following == len(pieces):
            out += pieces[this] + segment
        else:
            out += b"(?>" + (b".*?" if pieces[this] == _STARS else b"(?:.*?/)??") + segment + b")"
    return out


def _segment(pieces: list[bytes]) -> bytes:
    """Pieces with single stars alone. They stop at a slash, so all but the last may take the first place that fits."""
    stars = [index for index, piece in enumerate(pieces) if piece == _STAR]
    out = b"".join(pieces[: stars[0]] if stars else pieces)
    for this, following in zip(stars, [*stars[1:], len(pieces)], strict=bool(stars)):
        between = b"".join(pieces[this + 1 : following])
        out += _STAR + between if following == len(pieces) else b"(?>" + _STAR + b"?" + between + b")"
    return out
