"""Every regular expression of the package and of the grammars takes time linear in what it reads, as it is used."""

from __future__ import annotations

import ast
import re
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from repo_provider import files, syntax

PACKAGE = Path(files.__file__).parent
LENGTH = 100_000
PATIENCE = 10.0
"""Processor seconds for one text of that length: a linear pattern takes a hundredth, a quadratic one minutes."""
SHORT = {
    "settings._ORIGIN": 1_000,  # what was typed
}
"""Patterns that are given short texts only, and the most bytes these have."""
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class Used(NamedTuple):
    """A pattern, where it stands, and the method it is used by."""

    where: str
    pattern: re.Pattern[Any]
    method: str

    def run(self, subject: str) -> None:
        """Use it on a text of ASCII."""
        text: Any = subject if isinstance(self.pattern.pattern, str) else subject.encode()
        if self.method == "sub":
            self.pattern.sub(text[:0], text)
        elif self.method == "finditer":
            for _ in self.pattern.finditer(text):
                pass
        else:
            getattr(self.pattern, self.method)(text)


def every() -> Iterator[Used]:
    for path in sorted(PACKAGE.glob("*.py")):
        if path.stem != "__main__":
            yield from _of_module(path)
    yield from _of_grammars()


def _of_module(path: Path) -> Iterator[Used]:
    """Constants, by each method called on them (a whole match where handed on), and those written where used."""
    source = path.read_text("utf-8")
    for name, value in vars(import_module(f"repo_provider.{path.stem}")).items():
        if isinstance(value, re.Pattern):
            called = {method for method in METHODS if re.search(rf"\b{name}\.{method}\b", source)}
            for method in sorted(called) or ["fullmatch"]:
                yield Used(f"{path.stem}.{name}", value, method)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(str() | bytes() as text), *rest]):
                written = map(ast.unparse, (*rest, *(keyword.value for keyword in node.keywords)))
                flags = [getattr(re, each[3:]) for each in written if re.fullmatch(r"re\.[A-Z]+", each)]
                if method in METHODS:
                    yield Used(f"{path.stem}:{node.lineno}", _compiled(text, *flags), method)


def _compiled(text: Any, *flags: re.RegexFlag) -> re.Pattern[Any]:
    return re.compile(text, *flags)


def _of_grammars() -> Iterator[Used]:
    for language in files.languages().values():
        for part in ("content", "definition_line"):
            if (pattern := getattr(language, part)) is not None:
                yield Used(f"{language.name} {part}", pattern, "search" if part == "content" else "findall")
        if language.outline.get("engine") == "lines":
            for rule in syntax._rules(language.name):
                yield Used(f"{language.name} rule", rule.pattern, "match")
        for part in language.outline.get("embedded", ()):
            yield Used(f"{language.name} embedded", re.compile(part["pattern"].encode()), "finditer")
        for name in ("scope_drop", "test_name"):
            if name in language.outline:
                yield Used(f"{language.name} {name}", re.compile(language.outline[name]), "search")
        for mask in language.outline.get("mask", ()):
            yield Used(f"{language.name} mask", re.compile(mask.encode()), "sub")
        if skip := language.imports.get("skip"):
            yield Used(f"{language.name} skip", re.compile(skip.encode()), "finditer")


def subjects(pattern: re.Pattern[Any], length: int) -> Iterator[str]:
    """Texts that nearly match: what a pattern is made of, again and again, with and without a beginning before it."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    words = re.findall(r"[A-Za-z_]{3,}", re.sub(r"\(\?P<\w+>|\\.", " ", source))
    signs = {sign[-1:] for sign in re.findall(r"[^\w\s?+*(){}|\\.^$]|\\[^\w]", source)}
    signs = {sign for sign in signs if sign.isascii() and sign.isprintable()}
    units = ["a", " ", "\n", "1", "a ", " \n", "A", "a.", *sorted(signs), *words[:3], *_openers(source)]
    for unit in dict.fromkeys(units):
        yield unit * (length // len(unit)) + "\1"
    for before in ("\n", "\na", "\npublic a", *words[:1]):
        for unit in ("a", " ", "1", "a ", *sorted(signs)[:4]):
            yield before + unit * (length // len(unit)) + "\1"
    yield "a" + "1" * length + "A"


def _openers(source: str) -> list[str]:
    """The literal a pattern starts with: what every search of it comes back to."""
    start = re.match(r"(?:\(\?[a-z]+\))?((?:[^\[\](){}?+*|\\.^$]|\\[^\w])+)", source)
    plain = start[1].replace("\\", "") if start else ""
    return [plain, f"{plain}a", f"{plain} ", f"{plain}>"] if plain.isascii() and plain else []


class TooSlow(Exception):
    pass


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow


@pytest.mark.skipif(sys.platform == "win32", reason="nobody to ring after so much processor time")
def test_no_pattern_takes_more_than_linear_time() -> None:
    before, slow = signal.signal(signal.SIGVTALRM, _too_slow), []
    try:
        for used in every():
            for subject in subjects(used.pattern, SHORT.get(used.where, LENGTH)):
                signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
                try:
                    used.run(subject)
                except TooSlow:
                    slow.append((used.where, used.method, subject[:40]))
                    break
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert [] == slow
