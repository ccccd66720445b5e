"""`--path GLOB`: which paths of a repository a person means.

Not gitignore and not a shell: one small grammar, the same on every platform and for every command.

    src  src/  ./src      that directory and everything below it (`src` also a file of that name)
    src/a.py  src\\a.py    that file; a backslash is read as a slash
    src/*                 the files directly in src
    src/**                everything below src
    *.py  **/*.py         every file whose name ends so, at any depth
    **/tests              every file or directory called tests, with everything below it
    {a,b}  [a-c]  [!a] ?  one of these texts; one character of, not of, any; never a slash
    !src                  leave out what `src` means; alone: everything else
    /abs/repo/src         the same as src, when /abs/repo is the root; refused elsewhere

Names are compared case-sensitively. A special character stands for itself in brackets: `[*]`. What is none of this
raises BadRequest (`invalid_filter`); a pattern that no path of a snapshot matches is named by `unmatched`, so that
no filter ever gives nothing in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from repo_provider.errors import BadRequest
from repo_provider.model import Path

_LONGEST = 1_024
_ALTERNATIVES = 256


class PathFilter:
    """Some patterns as one predicate: a path passes if any plain pattern takes it and no `!` pattern does."""

    def __init__(self, patterns: Sequence[str], roots: Sequence[str] = ()) -> None:
        """`roots` are the spellings of the working tree's absolute path. Raises BadRequest (`invalid_filter`)."""
        self.patterns = tuple(patterns)
        self._wanted = [(p, _compile(p, p, roots)) for p in patterns if not p.startswith("!")]
        self._refused = [(p, _compile(p[1:], p, roots)) for p in patterns if p.startswith("!")]

    def matches(self, path: Path) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        wanted = not self._wanted or any(regex.fullmatch(text) for _, regex in self._wanted)
        return wanted and not any(regex.fullmatch(text) for _, regex in self._refused)

    def unmatched(self, paths: Iterable[Path]) -> list[str]:
        """One line for each pattern that no path matches, with what may have been meant."""
        texts = [path.decode("utf-8", "surrogateescape") for path in paths]
        return [
            f"no path matches {pattern!r}{_suggestion(regex, texts)}"
            for pattern, regex in self._wanted + self._refused
            if not any(map(regex.fullmatch, texts))
        ]


def _suggestion(regex: re.Pattern[str], texts: Sequence[str]) -> str:
    loose = re.compile(regex.pattern, re.DOTALL | re.IGNORECASE)
    found = next(filter(loose.fullmatch, texts), None)
    return "" if found is None else f"; names are case-sensitive, and there is {found!r}"


# --- one pattern -> one regular expression ---------------------------------------------------------------------


def _compile(pattern: str, typed: str, roots: Sequence[str]) -> re.Pattern[str]:
    if len(pattern) > _LONGEST or "\0" in pattern:
        raise _invalid(typed, f"it is longer than {_LONGEST} characters or holds a NUL")
    relative = _relative(pattern.replace("\\", "/"), typed, roots)
    choices = [_translate(choice, typed) for choice in _braces(relative, typed)]
    return re.compile("|".join(dict.fromkeys(choices)), re.DOTALL)


def _relative(pattern: str, typed: str, roots: Sequence[str]) -> str:
    if not pattern:
        raise _invalid(typed, "it is empty; `.` means the whole repository")
    if pattern.startswith("/") or re.match(r"[A-Za-z]:/", pattern):
        for root in (root.replace("\\", "/").rstrip("/") for root in roots):
            if pattern == root or pattern.startswith(root + "/"):
                return "./" + pattern[len(root) :].lstrip("/")  # with its slash: `*.py` here means the root alone
        raise _invalid(typed, "it is an absolute path outside the repository")
    return pattern


def _braces(pattern: str, typed: str) -> list[str]:
    """The pattern once for each way through its braces."""
    opened, closed = _outside_brackets(pattern, "{"), _outside_brackets(pattern, "}")
    if opened is None and closed is None:
        return [pattern]
    if opened is None or closed is None or closed < opened or "{" in pattern[opened + 1 : closed]:
        raise _invalid(typed, "its braces do not pair up; they do not nest, and `[{]` is a brace itself")
    before, inner = pattern[:opened], pattern[opened + 1 : closed]
    after = _braces(pattern[closed + 1 :], typed)
    choices = [before + choice + rest for choice in inner.split(",") for rest in after]
    if len(choices) > _ALTERNATIVES:
        raise _invalid(typed, f"its braces stand for more than {_ALTERNATIVES} patterns")
    return choices


def _outside_brackets(pattern: str, character: str) -> int | None:
    bare = re.sub(r"\[[!^]?\]?[^\]]*+(?:\]|\Z)", lambda found: "x" * len(found[0]), pattern)
    return bare.find(character) if character in bare else None


def _translate(pattern: str, typed: str) -> str:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _invalid(typed, "`..` leads out of the repository")
    if not parts:
        return ".*"
    if "/" not in pattern and _wild(parts[0]):
        parts.insert(0, "**")  # a name pattern holds at any depth
    whole = _components(parts, typed)
    if pattern.endswith("/"):
        return whole if parts[-1] == "**" else whole + "/.+"
    return whole if _wild(parts[-1]) else whole + "(?:/.+)?"  # a plain name is a file or a whole directory


def _wild(part: str) -> bool:
    return any(character in part for character in "*?[")


def _components(parts: Sequence[str], typed: str) -> str:
    """The components between slashes; `**` stands for any number of them, `_characters` does the same within one."""
    runs: list[list[str]] = [[]]
    for part in parts:
        if part != "**":
            runs[-1].append(_characters(part, typed))
        elif runs[-1] or len(runs) == 1:
            runs.append([])
    head, *rest = ["".join(f"{part}/" for part in run) for run in runs]
    if not rest:
        return head[:-1]
    middle = "".join(f"(?>(?:[^/]+/)*?{run})" for run in rest[:-1])
    return head + middle + (f"(?:[^/]+/)*{rest[-1][:-1]}" if rest[-1] else ".+")


def _characters(part: str, typed: str) -> str:
    """One path component. A star takes the least that lets the next literal match, and never gives it back."""
    pieces: list[str] = [""]
    position = 0
    while position < len(part):
        character = part[position]
        position += 1
        if character == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            text, position = _bracket(part, position, typed)
            pieces[-1] += text
        else:
            pieces[-1] += re.escape(character)
    head, *rest = pieces
    if not rest:
        return head
    # atomic: without it `*a*a*a*b` tries every way to share out the letters
    return head + "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1]) + "[^/]*" + rest[-1]


def _bracket(part: str, position: int, typed: str) -> tuple[str, int]:
    negated = part[position : position + 1] in ("!", "^")
    start = position + negated
    end = part.find("]", start + 1)
    if end < 0:
        raise _invalid(typed, "a `[` has no `]`; `[[]` is a bracket itself")
    members = re.sub(r"([\\\[\]^&~|]|(?<=-)-)", r"\\\1", part[start:end])
    text = f"(?!/)[{'^' if negated else ''}{members}]"
    try:
        re.compile(text)
    except re.error:
        raise _invalid(typed, f"[{part[start:end]}] is no set of characters") from None
    return text, end + 1


def _invalid(typed: str, why: str) -> BadRequest:
    return BadRequest(f"--path {typed!r} cannot be read: {why}", reason="invalid_filter")
