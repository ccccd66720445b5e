"""What a file is, from its path and its first bytes: language, reasons not to serve it, traits that rank it lower.

Not a parser and not a walker: no tree-sitter, no file system but the grammars' manifests. Called once per path and
content by whoever lists or indexes files, so everything here is a few dictionary look-ups and anchored patterns.
A language is a folder under `grammars/` with a `manifest.toml`; none is named in this code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path as Folder
from typing import Any

from msgspec import Struct

from repo_provider.model import Path

HEAD_BYTES = 8192
"""How much of a file decides what it is: enough for a licence and the first lines behind it."""

PLAIN = "text"
"""Name of the language of everything no manifest claims."""


class Grammar(Struct, frozen=True):
    """One place a tree-sitter grammar can come from: `module.function()` of a wheel, or a name in a bundle of many."""

    module: str
    function: str = "language"
    bundled: str = ""


class Language(Struct, frozen=True):
    """One language as its manifest describes it.

    `definition_line` finds the names a text defines without parsing it. It begins with a line break, so run it over
    `b"\\n" + data`; the name is the group `name`. `line_comments` and `block_comments` mark what level one counts as
    comment words (doc strings too). `prose` is text for people: sections, not code. `level` is `depth` where
    definitions, imports and calls are known, `outline` where only names and nesting are, `text` for plain blocks.
    `queries` are the folders whose queries describe it, `grammars` its sources in order of preference. `outline` and
    `imports` are the tables that `syntax` and `imports` read.
    """

    name: str
    title: str = ""
    level: str = "text"
    prose: bool = False
    extensions: tuple[str, ...] = ()
    filenames: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()
    modelines: tuple[str, ...] = ()
    content: re.Pattern[bytes] | None = None
    definition_line: re.Pattern[bytes] | None = None
    line_comments: tuple[bytes, ...] = ()
    block_comments: tuple[tuple[bytes, bytes], ...] = ()
    queries: tuple[str, ...] = ()
    grammars: tuple[Grammar, ...] = ()
    outline: Mapping[str, Any] = {}
    imports: Mapping[str, Any] = {}

    def names(self, data: bytes) -> list[bytes]:
        """Names that the line pattern takes for definitions, in file order, repeats included."""
        return [] if self.definition_line is None else _found(self.definition_line, data)


def _found(pattern: re.Pattern[bytes], data: bytes) -> list[bytes]:
    """A pattern with several ways to spell a definition has one group for each; the one that matched is the name."""
    found = pattern.findall(b"\n" + data)
    if pattern.groups < 2:
        return found
    return [next(filter(None, groups), b"") for groups in found]


# --- manifests -------------------------------------------------------------------------------------------------


@cache
def grammars_folder() -> Folder:
    """Where the grammars are: inside the installed package, or beside it in a source tree."""
    here = Folder(__file__).resolve().parent
    inside = here / "grammars"
    return inside if inside.is_dir() else here.parent / "grammars"


@cache
def languages() -> Mapping[str, Language]:
    """Every language by name, sorted."""
    found = sorted(grammars_folder().glob("*/manifest.toml"))
    return {path.parent.name: _language(path.parent.name, tomllib.loads(path.read_text("utf-8"))) for path in found}


def _language(name: str, manifest: dict[str, Any]) -> Language:
    strings = {field: tuple(manifest.get(field, ())) for field in ("extensions", "filenames", "shebangs", "modelines")}
    return Language(
        name=name,
        title=manifest.get("title", name),
        level=manifest.get("level", "text"),
        prose=manifest.get("prose", False),
        content=_pattern(manifest.get("content"), b"(?m:%s)"),
        definition_line=_pattern(manifest.get("definition_line"), rb"\n(?m:%s)"),
        line_comments=tuple(mark.encode() for mark in manifest.get("line_comments", ())),
        block_comments=tuple((a.encode(), b.encode()) for a, b in manifest.get("block_comments", ())),
        queries=tuple(manifest.get("queries", (name,))),
        grammars=tuple(Grammar(**source) for source in manifest.get("grammar", ())),
        outline=manifest.get("outline", {}),
        imports=manifest.get("imports", {}),
        **strings,
    )


def _pattern(text: str | None, frame: bytes) -> re.Pattern[bytes] | None:
    return None if text is None else re.compile(frame % text.encode())


class _Table(Struct, frozen=True):
    names: Mapping[bytes, Language]
    extensions: Mapping[bytes, tuple[Language, ...]]
    shebangs: Mapping[bytes, Language]
    modelines: Mapping[bytes, Language]


@cache
def _table() -> _Table:
    names: dict[bytes, Language] = {}
    extensions: dict[bytes, tuple[Language, ...]] = {}
    shebangs: dict[bytes, Language] = {}
    modelines: dict[bytes, Language] = {}
    for language in languages().values():
        names |= {name.lower().encode(): language for name in language.filenames}
        shebangs |= {name.encode(): language for name in language.shebangs}
        modelines |= {name.encode(): language for name in (language.name, *language.modelines)}
        for extension in language.extensions:
            key = extension.lower().encode()
            extensions[key] = (*extensions.get(key, ()), language)
    return _Table(names, extensions, shebangs, modelines)


# --- language --------------------------------------------------------------------------------------------------

_EMACS = re.compile(rb"-\*-(?:[^\n]{0,200}?\bmode:)?[ \t]*([A-Za-z][\w+#-]*)[ \t]*(?:;[^\n]{0,200}?)?-\*-", re.I)
_VIM = re.compile(rb"\b(?:vim?|ex):[^\n]{0,200}?\b(?:ft|filetype|syntax)=([\w+#-]+)")
_SHEBANG = re.compile(
    rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*(?:\S*/)?)?([A-Za-z][\w+-]*?)[\d.]*(?:\s|$)"
)


def language_of(path: Path, data: bytes) -> Language:
    """The language of a file: modeline, file name, extension (content decides between several), shebang; else text.

    `Dockerfile.dev` is a Dockerfile.
    A lock file is plain text whatever it is written in: a grammar gains nothing from it.
    """
    table = _table()
    written = path[path.rfind(b"/") + 1 :]
    name = written.lower()
    if _LOCKFILE.fullmatch(name):
        return languages()[PLAIN]
    return (
        _by_modeline(table, data)
        or table.names.get(name)
        or _by_extension(table, name, data)
        or _by_stem(table, written)
        or _by_shebang(table, data)
        or languages()[PLAIN]
    )


def _by_modeline(table: _Table, data: bytes) -> Language | None:
    first = data[:400]
    if b"-*-" in first and (found := _EMACS.search(b"\n".join(first.split(b"\n", 2)[:2]))):
        return table.modelines.get(found[1].lower())
    for end in (first, data[-400:]):
        if b"vi" in end and (found := _VIM.search(end)):
            return table.modelines.get(found[1].lower())
    return None


def _by_extension(table: _Table, name: bytes, data: bytes) -> Language | None:
    """The extension after the last dot; `a.py.in` and the like count as what they are templates of."""
    for suffix in (b"", b".in", b".tmpl", b".template", b".dist", b".example"):
        if name.endswith(suffix):
            stem = name[: len(name) - len(suffix)]
            claims = table.extensions.get(stem[stem.rfind(b".") + 1 :], ()) if b"." in stem else ()
            if claims:
                return claims[0] if len(claims) == 1 else _by_content(claims, data)
    return None


def _by_stem(table: _Table, name: bytes) -> Language | None:
    """`Dockerfile.dev` and `Makefile.am`, spelled as the manifest has them: `build.log` is no `BUILD`."""
    stem = name.partition(b".")[0]
    language = table.names.get(stem.lower())
    return language if language and stem.decode("utf-8", "replace") in language.filenames else None


def _by_content(claims: tuple[Language, ...], data: bytes) -> Language:
    """Among languages that share an extension: the first whose content pattern is found, else the one without one."""
    head = data[: 4 * HEAD_BYTES]
    for language in claims:
        if language.content is not None and language.content.search(head):
            return language
    return next((language for language in claims if language.content is None), claims[0])


def _by_shebang(table: _Table, data: bytes) -> Language | None:
    if not data.startswith(b"#!"):
        return None
    found = _SHEBANG.match(data[:200])
    return table.shebangs.get(found[1]) if found else None


# --- what is not served ----------------------------------------------------------------------------------------

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_MAGIC = (b"%PDF-", b"%!PS-Adobe", b"\x1f\x8b", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\b") | {127})
_MINIFIED = re.compile(rb"[.-]min\.(?:js|mjs|cjs|css)")
_LONGEST_MEAN = 200
_LONGEST_MEAN_PROSE = 2000


def unserved(path: Path, data: bytes) -> str | None:
    """Why a file's text is not searched or shown: `binary`, `lfs_pointer`, `minified`; None for one that is."""
    if data.startswith(_LFS) and len(data) < 1024:
        return "lfs_pointer"
    if not data.startswith(_WIDE):
        head = data[:HEAD_BYTES]
        if b"\0" in head or data.startswith(_MAGIC):
            return "binary"
        if len(head) - len(head.translate(None, _CONTROL)) > len(head) // 10:
            return "binary"
    return "minified" if _minified(path, data) else None


def _minified(path: Path, data: bytes) -> bool:
    """Whether lines are far longer on average than people write; text of unknown kind is given more room."""
    if len(data) <= 4 * _LONGEST_MEAN:
        return False
    mean = len(data) / (data.count(b"\n") + 1)
    if mean <= _LONGEST_MEAN:
        return False
    if _MINIFIED.search(path.lower()):
        return True
    language = language_of(path, data)
    return mean > (_LONGEST_MEAN_PROSE if language.prose or language.level == "text" else _LONGEST_MEAN)


# --- traits ----------------------------------------------------------------------------------------------------


def _folders(*names: str) -> str:
    return f"/(?:{'|'.join(names)})/"


def _compile(*patterns: str) -> re.Pattern[bytes]:
    return re.compile("|".join(patterns).encode())


_LOCKFILE = re.compile(
    rb"(?:package-lock|npm-shrinkwrap|packages\.lock|deno-lock)\.json|pnpm-lock\.ya?ml|bun\.lockb?|go\.sum"
    rb"|package\.resolved|cartfile\.resolved|gradle\.lockfile|[\w.-]+\.lock"
)
_PATHS: Mapping[str, re.Pattern[bytes]] = {
    # Matched against b"/" + path in lower case.
    "test": _compile(
        _folders(
            r"tests?",
            r"__tests__",
            r"specs?",
            r"\w+-tests?",
            r"tests?-\w+",
            r"test_?data",
            r"fixtures?",
            r"e2e",
            r"mocks?",
            r"__mocks__",
            r"cypress",
            r"unit_?tests?",
            r"integration_?tests?",
            r"\w+\.tests?",
            r"t",
        ),
        r"/(?:test_|conftest\.py)[^/]*\Z",
        r"[_.-](?:tests?|specs?|e2e)\.\w+\Z",
        r"/(?:spec|test)_helper\.\w+\Z",
        r"/tests?\.\w+\Z",
    ),
    "example": _compile(
        _folders(
            r"examples?",
            r"samples?",
            r"demos?",
            r"tutorials?",
            r"playground",
            r"cookbook",
            r"docs?_src",
            r"snippets",
            r"\w+[_-]examples?",
            r"examples?[_-]\w+",
        ),
    ),
    "bench": _compile(
        _folders(r"bench", r"benches", r"benchmarks?", r"asv_bench", r"\w+[_-]bench(?:marks?)?", r"perf"),
        r"/bench(?:mark)?[_-][^/]*\Z",
        r"[_-]bench(?:mark)?\.\w+\Z",
    ),
    "docs": _compile(
        _folders(r"docs?", r"documentation", r"man", r"website", r"guides?"),
        r"/(?:change(?:s|log)|history|news|release[_-]?notes|authors|contributors|contributing|code_of_conduct|licen[cs]e"
        r"|security|upgrading|whats_?new)[^/]*\Z",
    ),
    "vendored": _compile(
        _folders(
            r"_?vendor(?:ed)?",
            r"third[_-]?party",
            r"node_modules",
            r"bower_components",
            r"site-packages",
            r"pods",
            r"carthage",
            r"\.yarn",
            r"jspm_packages",
            r"externals?/\w+/src",
        ),
        r"/gradlew(?:\.bat)?\Z|/mvnw(?:\.cmd)?\Z",
        r"[.-]min\.(?:m?js|css)\Z|/jquery[\w.-]*\.js\Z",
    ),
    "generated": _compile(
        _folders(r"gen", r"generated", r"__generated__", r"autogen", r"__snapshots__"),
        r"_pb2(?:_grpc)?\.pyi?\Z|\.pb(?:\.gw)?\.(?:go|cc|h|swift)\Z|\.(?:g|freezed|gr)\.dart\Z",
        r"\.(?:designer|generated|g)\.\w+\Z|[_.]generated\.\w+\Z|\.snap\Z|/dist/[^/]*\.(?:m?js|cjs|css)\Z",
        r"[.-]min\.(?:m?js|css)\Z|\.(?:js|css)\.map\Z",
    ),
}
# `FooTest.java` is a test and `Latest.java` is not, so this one sees the path as it is written.
_CAMEL_TEST = re.compile(rb"(?:[a-z0-9](?:Tests?|TestCase|Specs?|IT)\.\w+|/Test[A-Z]\w*\.\w+|/\w*(?<=[a-z])Tests?/)")
_GENERATED = re.compile(
    rb"@generated\b|code generated by|auto(?:matically)?[ -]?generated|generated (?:by|from|code|file|automatically)"
    rb"|do not (?:edit|modify)(?: |\b)(?:this|by hand|manually|directly|[-.!*]|$)",
    re.I | re.M,
)
_GENERATED_HEAD = 1024


def traits(path: Path, data: bytes) -> frozenset[str]:
    """Which of test, example, bench, docs, vendored, generated and lockfile a file is."""
    whole = b"/" + path
    lower = whole.lower()
    found = {trait for trait, pattern in _PATHS.items() if pattern.search(lower)}
    if _CAMEL_TEST.search(whole):
        found.add("test")
    if _LOCKFILE.fullmatch(lower[lower.rfind(b"/") + 1 :]):
        found.add("lockfile")
    if _says_generated(path, data):
        found.add("generated")
    return frozenset(found)


def _says_generated(path: Path, data: bytes) -> bool:
    """A comment near the top says so. Prose that talks about generated files is not one, nor is a string in code."""
    head = data[:_GENERATED_HEAD]
    if not (found := _GENERATED.search(head)):
        return False
    language = language_of(path, data)
    if language.prose or not (language.line_comments or language.block_comments):
        return False
    line = head[head.rfind(b"\n", 0, found.start()) + 1 : found.start()].lstrip()
    return line.startswith((*language.line_comments, *(a for a, _ in language.block_comments), b"*", b"@")) or (
        any(head.rfind(a, 0, found.start()) > head.rfind(b, 0, found.start()) for a, b in language.block_comments)
    )
