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
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct


class Rules(Struct, frozen=True):
    """The rules of one file, and one expression a name or path must fit for any of them to matter."""

    by_name: re.Pattern[bytes] | None
    by_path: re.Pattern[bytes] | None
    rules: tuple[Rule, ...]

    def verdict(self, path: bytes, name: bytes, is_directory: bool) -> bool | None:
        """True: ignored; False: taken back with `!`; None: this file says nothing. `path` is relative to the file."""
        named = self.by_name is not None and self.by_name.match(name)
        placed = self.by_path is not None and self.by_path.match(path)
        if not named and not placed:
            return None
        for rule in reversed(self.rules):
            if (is_directory or not rule.directories) and rule.pattern.match(name if rule.named else path):
                return not rule.taken_back
        return None


class Rule(Struct, frozen=True):
    pattern: re.Pattern[bytes]
    named: bool
    directories: bool
    taken_back: bool


@lru_cache(maxsize=4096)
def rules(text: bytes, ignore_case: bool = False) -> Rules | None:
    """The rules of a `.gitignore`; None where it has none."""
    found = tuple(rule for line in _lines(text) if (rule := _rule(line, ignore_case)) is not None)
    if not found:
        return None
    return Rules(_any(rule for rule in found if rule.named), _any(rule for rule in found if not rule.named), found)


def _any(found: Iterable[Rule]) -> re.Pattern[bytes] | None:
    patterns = [rule.pattern for rule in found]
    if not patterns:
        return None
    return re.compile(b"|".join(b"(?:" + pattern.pattern + b")" for pattern in patterns), patterns[0].flags)


def _lines(text: bytes) -> Iterable[bytes]:
    text = text.removeprefix(b"\xef\xbb\xbf")
    for line in text.split(b"\n"):
        if not line or line.startswith(b"#"):
            continue
        yield _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])


def _without_trailing_spaces(line: bytes) -> bytes:
    end = len(line.rstrip(b" "))
    backslashes = len(line[:end]) - len(line[:end].rstrip(b"\\"))
    return line[: end + 1] if backslashes % 2 and end < len(line) else line[:end]


def _rule(line: bytes, ignore_case: bool) -> Rule | None:
    taken_back = line.startswith(b"!")
    line = line[taken_back:]
    directories = line.endswith(b"/")
    line = line[: len(line) - directories]
    if not line:
        return None
    named = b"/" not in line
    expression = _expression(line if named else line.removeprefix(b"/"), named)
    if expression is None:
        return None
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return Rule(re.compile(expression + rb"\Z", flags), named, directories, taken_back)


_SPECIAL = re.compile(rb"[*?\[\\]")


def _expression(glob: bytes, named: bool) -> bytes | None:
    """A regular expression for a glob; None for one that can match nothing."""
    wild = _SPECIAL.search(glob)
    if wild is None:
        return re.escape(glob)
    pieces = _pieces(glob[wild.start() :], named)
    return None if pieces is None else re.escape(glob[: wild.start()]) + _joined(pieces)


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

    The first place where the text between two stars fits is as good as any later one, unless the later star is
    stopped by a slash that the earlier one is not; so it is taken for good, and many stars stay linear.
    """
    stars = [index for index, piece in enumerate(pieces) if piece in (_STAR, _STARS, _STARS_SLASH)]
    out = b"".join(pieces[: stars[0]] if stars else pieces)
    for this, following in zip(stars, [*stars[1:], len(pieces)], strict=bool(stars)):
        between = b"".join(pieces[this + 1 : following])
        if following == len(pieces):
            out += pieces[this] + between
        elif pieces[this] == _STAR or (pieces[this] == _STARS and pieces[following] == _STARS):
            out += b"(?>" + pieces[this] + b"?" + between + b")"
        else:
            out += pieces[this] + between
    return out
