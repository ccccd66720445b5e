"""Level two: bytes and a grammar -> Outline (definitions, references, imports, places to cut).

The only module that touches tree-sitter's binding, and it does so inside functions: whoever asks for a version
string pays nothing for it. An outline is a function of (bytes, language, `analyser_version(language)`); native code
runs here, so callers that must not die or hang run `outline_task` in `workers`.

What a language's queries may capture:

    @definition.KIND   a definition's node        with @name, and maybe @body, @doc (doc string), @scope (a receiver)
    @container.KIND    a node that qualifies names inside it without being a definition, with @name
    @comment           a comment; directly above a definition it is its doc comment
    @attached          a decorator or attribute; directly above a definition it belongs to it
    @reference.KIND    the name used: call, inherit, type, name; with @qualifier for what stands before it
    @head              what ends the head of a definition without a @body
    @end               what ends a definition, where that is not its own node (a body that is a sibling)
    @import            the statement, with any of @module, @imported, @alias, @relative in one or several patterns

`(#set! KEY VALUE)` gives what the text does not: imported, prefix (of the module), relative, name, onward.
`(#like? @capture "PATTERN")` is a search in the captured bytes. Two rules for authors, both because of the binding (a
test holds them): no `#match?`, which fails on bytes that are not UTF-8; and `#set!` before any other predicate, for
one after it frees the other's memory twice.
Trees can be absurdly deep, so nothing here recurses and nothing asks for parents, fields or descendants.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module, metadata, util
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from repo_provider import sections
from repo_provider.files import PLAIN, Grammar, Language, grammars_folder, languages
from repo_provider.model import Definition, Import, Outline, Reference, Span, packed
from repo_provider.protocol import line_starts

if TYPE_CHECKING:
    import tree_sitter

REVISION = "6"
"""Changes whenever this module, `sections` or a struct they fill would give another outline for the same bytes."""

MAX_BYTES = 4 << 20
MAX_DEFINITIONS = 20_000
MAX_REFERENCES = 20_000
MAX_QUALIFIER = 80
MAX_ENCODED = 64 << 20
MATCH_LIMIT = 4096
"""Unfinished matches the query engine may hold at once; past it the oldest are dropped, the same ones every time."""


def outline(data: bytes, language: str) -> Outline:
    """The outline of a text. Never raises for what the text holds: what cannot be parsed is cut as plain text."""
    spoken = languages().get(language) or languages()[PLAIN]
    engine = spoken.outline.get("engine")
    if engine == "headings":
        return sections.headings(data, spoken.name, spoken.outline["style"])
    if engine == "lines":
        return _by_lines(data, spoken)
    if engine == "notebook":
        return _notebook(data, spoken)
    if not spoken.grammars:
        return sections.paragraphs(data, spoken.name)
    if len(data) > MAX_BYTES:
        return _plain(data, spoken, "too large to parse")
    analyser = _analyser(spoken.name)
    if isinstance(analyser, str):
        return _plain(data, spoken, analyser)
    return analyser.outline(data)


def _by_lines(data: bytes, language: Language) -> Outline:
    test = language.outline.get("test_name")
    own = sections.by_lines(
        data, language.name, _rules(language.name), language.line_comments, re.compile(test) if test else None
    )
    return _with_embedded(own, data, language)


@cache
def _rules(language: str) -> tuple[sections.Rule, ...]:
    return sections.line_rules(languages()[language].outline)


def _with_embedded(own: Outline, data: bytes, language: Language) -> Outline:
    """Adds what is written in other languages inside a file: the scripts of a page or component.

    All parts of one language are read together with everything around them blanked out, so that every offset is one
    of the whole file.
    """
    for part in language.outline.get("embedded", ()):
        found: dict[str, list[re.Match[bytes]]] = {}
        for match in re.finditer(part["pattern"].encode(), data):
            found.setdefault(_embedded_language(part, match.groupdict().get("language")), []).append(match)
        for name, matches in sorted(found.items()):
            inner = outline(_only(data, [Span(*match.span("text")) for match in matches]), name)
            own = _joined(own, inner, [Span(*match.span()) for match in matches])
    return own


def _embedded_language(part: Mapping[str, Any], named: bytes | None) -> str:
    languages_by_name: Mapping[str, str] = part.get("languages", {})
    fallback: str = part["language"]
    return languages_by_name.get(named.decode("utf-8", "replace"), fallback) if named else fallback


def _only(data: bytes, parts: Sequence[Span]) -> bytes:
    kept, last = [], 0
    for part in parts:
        kept += [_blank(data[last : part.start]), data[part.start : part.end]]
        last = part.end
    return b"".join((*kept, _blank(data[last:])))


def _blank(data: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", data)


def _joined(outer: Outline, inner: Outline, parts: Sequence[Span]) -> Outline:
    """Two outlines of one file as one; inner definitions keep their names, whatever is around them."""
    merged = sorted(
        [(d.span.start, -d.span.end, 0, i) for i, d in enumerate(outer.definitions)]
        + [(d.span.start, -d.span.end, 1, i) for i, d in enumerate(inner.definitions)]
    )
    place = {(side, index): position for position, (_, _, side, index) in enumerate(merged)}
    sides = (outer.definitions, inner.definitions)
    return msgspec.structs.replace(
        outer,
        definitions=tuple(
            msgspec.structs.replace(sides[side][i], parent=place.get((side, sides[side][i].parent), -1))
            for _, _, side, i in merged
        ),
        uses=packed(
            msgspec.structs.replace(r, scope=place.get((side, r.scope), -1))
            for side, refs in enumerate((outer.references, inner.references))
            for r in refs
        ),
        imports=(*outer.imports, *inner.imports),
        blocks=tuple(sorted({*outer.blocks, *(b for b in inner.blocks if _is_inside(b, parts))})),
        complete=outer.complete and inner.complete,
        note=outer.note or inner.note,
    )


def _is_inside(offset: int, parts: Sequence[Span]) -> bool:
    at = bisect_right(parts, offset, key=lambda part: part.start) - 1
    return at >= 0 and parts[at].start < offset < parts[at].end


def _notebook(data: bytes, language: Language) -> Outline:
    """A notebook: its cells, and what their code defines; outputs are left out.

    Cells are stored as JSON strings, one line of source on each line of the file in every notebook that a tool has
    written. The code is read from a copy that has each source line on the line that stores it.
    """
    written = sections.notebook_code(data)
    code = sections.moved(outline(written, language.outline["code"]), written, data)
    return _joined(sections.notebook(data, language.name), code, [Span(0, len(data))])


def _plain(data: bytes, language: Language, note: str) -> Outline:
    plain = sections.paragraphs(data, language.name)
    return msgspec.structs.replace(plain, complete=False, note=note)


def outline_task(payload: bytes) -> bytes:
    """`outline` for a worker: payload and result as `encode_task` and `decode_outline` know them."""
    language, data = msgspec.msgpack.decode(payload, type=tuple[str, bytes])
    return zlib.compress(msgspec.msgpack.encode(outline(data, language)), 1)


def encode_task(data: bytes, language: str) -> bytes:
    return msgspec.msgpack.encode((language, data))


def decode_outline(encoded: bytes) -> Outline:
    """Raises msgspec.DecodeError for what is none."""
    packed = zlib.decompressobj()
    try:
        data = packed.decompress(encoded, MAX_ENCODED)
    except zlib.error as error:
        raise msgspec.DecodeError("not an outline") from error
    return msgspec.msgpack.decode(data, type=Outline)


# --- versions and status ---------------------------------------------------------------------------------------


class LanguageStatus(Struct, frozen=True):
    """What `status --languages` shows of one language. `error` is "" where the grammar loaded or none is needed;
    `note` names what an unexpected version of a grammar does not know."""

    name: str
    level: str
    source: str = ""
    version: str = ""
    abi: int = 0
    error: str = ""
    note: str = ""


@cache
def analyser_version(language: str) -> str:
    """Names everything but the bytes that an outline depends on: this code, the queries, the grammar, the binding."""
    spoken = languages().get(language) or languages()[PLAIN]
    digest = hashlib.sha256(f"{REVISION}\0{spoken.name}\0{_installed('tree_sitter')}\0{_source(spoken)}".encode())
    for folder in (spoken.name, *spoken.queries):
        for path in sorted((grammars_folder() / folder).glob("*")):
            if path.suffix in (".toml", ".scm"):
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def _all_versions() -> str:
    return hashlib.sha256("".join(map(analyser_version, languages())).encode()).hexdigest()[:16]


def __getattr__(name: str) -> str:
    if name == "ANALYSER_VERSION":
        return _all_versions()
    raise AttributeError(name)


def languages_status() -> tuple[LanguageStatus, ...]:
    """Loads every grammar there is; slow the first time, so for a person who asked."""
    return tuple(_status(language) for language in languages().values())


def _status(language: Language) -> LanguageStatus:
    if not language.grammars:
        return LanguageStatus(language.name, language.level)
    analyser = _analyser(language.name)
    if isinstance(analyser, str):
        return LanguageStatus(language.name, language.level, _source(language), error=analyser)
    source, _, version = _source(language).partition(" ")
    return LanguageStatus(
        language.name, language.level, source, version, analyser.grammar.abi_version, note=analyser.lost
    )


def _source(language: Language) -> str:
    """The first installed source of a language's grammar as `distribution version`, "" where there is none."""
    for grammar in language.grammars:
        for module, _ in _places(grammar):
            if version := _installed(module):
                return f"{module.replace('_', '-')} {version}"
    return ""


@cache
def _installed(module: str) -> str:
    if util.find_spec(module) is None:
        return ""
    try:
        return metadata.version(module.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "unknown"


# --- grammars --------------------------------------------------------------------------------------------------


def _places(grammar: Grammar) -> Iterable[tuple[str, str]]:
    """Modules a grammar may be in, with its name there: its own wheel first, then the bundles."""
    if grammar.module:
        yield grammar.module, grammar.function
    if grammar.bundled:
        yield "tree_sitter_languages", grammar.bundled
        yield "tree_sitter_language_pack", grammar.bundled


@cache
def _analyser(language: str) -> _Analyser | str:
    """The analyser of a language, or why there is none. Whatever goes wrong here costs this language only."""
    spoken = languages()[language]
    reason = "no grammar installed"
    for grammar in spoken.grammars:
        for module, name in _places(grammar):
            if _installed(module):
                try:
                    return _Analyser(spoken, _load(module, name))
                except Exception as error:
                    reason = f"{module}: {error}"
    return reason


def _load(module: str, name: str) -> tree_sitter.Language:
    from tree_sitter import Language

    if module == "tree_sitter_languages":
        return Language(_bundled(name))
    if module == "tree_sitter_language_pack":
        return Language(import_module(module).get_binding(name))
    pointer = getattr(import_module(module), name)()
    return Language(_capsule(pointer) if isinstance(pointer, int) else pointer)


def _bundled(name: str) -> object:
    """A grammar out of the shared library of tree-sitter-languages, whose own loader does not know today's binding."""
    import ctypes

    spec = util.find_spec("tree_sitter_languages")
    folder = (spec.submodule_search_locations or [""])[0] if spec else ""
    suffix = "dll" if sys.platform == "win32" else "so"
    function = getattr(ctypes.CDLL(f"{folder}/languages.{suffix}"), f"tree_sitter_{name}")
    function.restype = ctypes.c_void_p
    return _capsule(function())


def _capsule(pointer: int) -> object:
    """Old wheels hand out a bare pointer, which the binding does not like any more."""
    import ctypes

    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    made: object = capsule(pointer, b"tree_sitter.Language", None)
    return made


def _queries(language: Language) -> str:
    parts = []
    for folder in language.queries:
        for name in ("definitions", "references", "imports"):
            path = grammars_folder() / folder / f"{name}.scm"
            if path.is_file():
                parts.append(path.read_text("utf-8"))
    return "\n".join(parts)


# --- one parse -------------------------------------------------------------------------------------------------

Captures = Mapping[str, Sequence["tree_sitter.Node"]]
_CLASSES = frozenset(("class", "struct", "interface", "trait", "enum", "impl", "extension", "object", "protocol"))
_NOT_QUALIFYING = frozenset(("type", "prototype", "constructor"))
_BREAKS = re.compile(rb"\s+")
_GENERIC = re.compile(rb"(?:::)?<[^<>]*>")
_KINDS = ("inherit", "call", "type", "name")
_SIMPLE = re.compile(rb"[\w.:$@>?!-]+")


class _Found(Struct, gc=False):
    """A definition or container in the making. `rank` is the place of its pattern: where two read one node, the
    later one knows better."""

    start: int
    end: int
    kind: str
    name: bytes
    name_at: int
    body: int = -1
    head: int = -1
    doc: tuple[int, int] | None = None
    scope: str = ""
    container: bool = False
    rank: int = -1
    onward: bool = False  # holds for what follows, up to the next of its kind: `package A;` in Perl


class _Pattern(Struct, frozen=True):
    """What one pattern of the queries says: its role, the texts it sets, and what its capture `liked` must be like."""

    role: str
    kind: str
    capture: str
    rank: int
    settings: Mapping[str, str]
    liked: str = ""
    like: re.Pattern[bytes] | None = None


class _Analyser:
    """One language's grammar with its compiled queries."""

    def __init__(self, language: Language, grammar: tree_sitter.Language) -> None:
        from tree_sitter import Parser

        self.language = language
        self.grammar = grammar
        self.parser = Parser(grammar)
        self.query, source, self.lost = _compiled(grammar, _queries(language))
        self.patterns = tuple(_pattern(self.query, source.encode(), i) for i in range(self.query.pattern_count))
        options = language.outline
        self.separator = options.get("separator", "").encode()
        self.scope_drop = re.compile(options["scope_drop"]) if "scope_drop" in options else None
        self.fuse = bool(options.get("fuse"))
        self.name_drop = _bytes_pattern(options, "name_drop")
        self.module_drop = _bytes_pattern(options, "module_drop")
        self.masks = tuple(re.compile(mask.encode()) for mask in options.get("mask", ()))
        self.not_calls = frozenset(name.encode() for name in options.get("not_calls", ()))
        self.test_name = re.compile(options["test_name"]) if "test_name" in options else None
        self.test_attached = _bytes_pattern(options, "test_attached")

    def outline(self, data: bytes) -> Outline:
        from tree_sitter import QueryCursor

        tree = self.parser.parse(self.masked(data))
        try:
            matches = QueryCursor(self.query, match_limit=MATCH_LIMIT).matches(tree.root_node)
        except SystemError as error:
            return _plain(data, self.language, f"query failed: {error}")  # fault 116
        return _Reading(self, data).outline(matches, tree.root_node)

    def masked(self, data: bytes) -> bytes:
        """The text with what no grammar knows blanked out: macros of C, one side of a conflict. Offsets stay.

        Each pattern finds its literal start fast, and its group is what is blanked.
        """
        if b"<<<<<<< " in data:
            data = _CONFLICT.sub(_with_blank, _CONFLICT_START.sub(_with_blank, data))
        for mask in self.masks:
            data = mask.sub(_with_blank, data)
        return data


_CONFLICT_START = re.compile(rb"(?m)^(<{7} [^\n]*)$")
_CONFLICT = re.compile(
    rb"(?m)^((?:\|{7} [^\n]*\n(?:(?!={7}\r?$)[^\n]*\n)*)?={7}\r?\n(?:(?!>{7} )[^\n]*\n)*>{7} [^\n]*)$"
)
"""From the end of our side to the end of theirs."""


def _with_blank(found: re.Match[bytes]) -> bytes:
    start, (first, end) = found.start(), found.span(1)
    return found[0][: first - start] + _blank(found[1]) + found[0][end - start :]


def _bytes_pattern(options: Mapping[str, Any], name: str) -> re.Pattern[bytes] | None:
    return re.compile(options[name].encode()) if name in options else None


def _compiled(grammar: tree_sitter.Language, source: str) -> tuple[tree_sitter.Query, str, str]:
    """The compiled queries, their text, and what is wrong with the patterns that had to be left out.

    A grammar of another version may lack a node that one pattern names; the others still hold.
    """
    from tree_sitter import Query, QueryError

    source += "\n(ERROR) @error\n"
    try:
        return Query(grammar, source), source, ""
    except QueryError:
        kept, lost = [], []
        for pattern in _PATTERNS.findall(_COMMENTS.sub("", source)):
            try:
                Query(grammar, pattern)
                kept.append(pattern)
            except QueryError as error:
                lost.append(str(error).partition(": ")[2] or str(error))
        source = "\n".join(kept)
        return Query(grammar, source), source, ", ".join(lost)


_COMMENTS = re.compile(r"(?m)^;.*$")
_PATTERNS = re.compile(r"(?m)^[(\[\"][\s\S]*?(?=^[(\[\"]|\Z)")
"""A pattern begins at the start of a line; what goes on is indented."""


def _pattern(query: tree_sitter.Query, source: bytes, index: int) -> _Pattern:
    text = source[query.start_byte_for_pattern(index) : query.end_byte_for_pattern(index)].decode()
    settings = {key: value or "" for key, value in query.pattern_settings(index).items()}
    found = _LIKE.search(text)
    liked, like = (found[1], re.compile(found[2].encode())) if found else ("", None)
    for name in _CAPTURE.findall(_SCM_NOISE.sub("", text)):
        role, _, kind = name.partition(".")
        if role in ("definition", "container", "reference", "import", "comment", "attached", "error"):
            return _Pattern(role, kind, name, index, settings, liked, like)
    return _Pattern("", "", "", index, settings)


_SCM_NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*')
_CAPTURE = re.compile(r"@([A-Za-z_.]+)")
_LIKE = re.compile(r'#like\? @([\w.]+) "([^"]*)"')


class _Reading:
    """One text being read: collects what the matches say, then puts it together."""

    def __init__(self, analyser: _Analyser, data: bytes) -> None:
        self.analyser = analyser
        self.data = data
        self.starts = line_starts(data)
        self.found: dict[int, _Found] = {}
        self.references: dict[int, tuple[bytes, str, str]] = {}
        self.qualifiers: dict[bytes, str] = {}
        self.bodies: dict[tuple[int, int, int], int] = {}
        self.aliases: set[int] = set()  # names that imports bring: not defined here
        self.opened: set[int] = set()  # lines on which a definition begins
        self.imports: dict[int, _Importing] = {}
        self.errors: list[tuple[int, int]] = []
        self.above: dict[int, tuple[int, bool]] = {}  # last line of a comment or attribute -> first line, is comment

    def outline(self, matches: Sequence[tuple[int, Captures]], root: tree_sitter.Node) -> Outline:
        self.collect(matches)
        self.recover()
        definitions, scopes = self.definitions()
        return Outline(
            language=self.analyser.language.name,
            definitions=definitions,
            uses=packed(self.scoped(scopes)),
            imports=tuple(each for _, found in sorted(self.imports.items()) for each in found.imports()),
            blocks=self.blocks(root, definitions),
        )

    # -- lines

    def line(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def line_start(self, offset: int) -> int:
        return self.starts[self.line(offset)]

    def after(self, end: int) -> int:
        """Start of the line after the one that holds the last byte before `end`."""
        line = self.line(max(0, end - 1)) + 1
        return self.starts[line] if line < len(self.starts) else len(self.data)

    def text(self, node: tree_sitter.Node) -> bytes:
        return self.data[node.start_byte : node.end_byte]

    # -- matches

    def collect(self, matches: Sequence[tuple[int, Captures]]) -> None:
        """Takes in what the matches say. Most of them are references met once, so those are read right here."""
        data, references, not_calls = self.data, self.references, self.analyser.not_calls
        patterns = self.analyser.patterns
        for index, captures in matches:
            pattern = patterns[index]
            if pattern.like is not None and not pattern.like.search(self.text(captures[pattern.liked][0])):
                continue
            if pattern.role != "reference":
                self.take(captures, pattern)
                continue
            node = captures[pattern.capture][0]
            at = node.start_byte
            name = data[at : node.end_byte]
            if name in not_calls:
                continue
            qualifier = self.qualifier(captures["qualifier"][0]) if "qualifier" in captures else ""
            if at in references:
                references[at] = _closer(references[at], (name, pattern.kind, qualifier))
            elif len(references) < MAX_REFERENCES:
                references[at] = (name, pattern.kind, qualifier)

    def take(self, captures: Captures, pattern: _Pattern) -> None:
        if pattern.role in ("definition", "container"):
            self.define(captures, pattern)
        elif pattern.role in ("comment", "attached"):
            self.attach(captures[pattern.capture], pattern.role == "comment")
        elif pattern.role == "import":
            self.bring(captures, pattern)
        elif pattern.role == "error":
            self.errors.append((captures["error"][0].start_byte, captures["error"][0].end_byte))

    def attach(self, nodes: Sequence[tree_sitter.Node], comment: bool) -> None:
        for node in nodes:
            start, end = node.start_byte, node.end_byte
            first = last = bisect_right(self.starts, start) - 1
            if self.data[self.starts[first] : start].strip():
                continue  # something stands before it on its line
            while end > start + 1 and self.data[end - 1] in b"\r\n":
                end -= 1
            if first + 1 < len(self.starts) and end > self.starts[first + 1]:
                last = self.line(end - 1)
            self.above[last] = (first, comment)

    def define(self, captures: Captures, pattern: _Pattern) -> None:
        names = captures.get("name")
        if not names:
            return
        node, name = captures[pattern.capture][0], names[0]
        text, at, scope = self.name(name)
        if "scope" in captures:
            scope = self.scope(captures["scope"][0]) or scope
        made = _Found(
            node.start_byte,
            (captures["end"][0] if "end" in captures else node).end_byte,
            pattern.kind,
            pattern.settings["name"].encode() if "name" in pattern.settings else text,
            at,
            captures["body"][0].start_byte if "body" in captures else -1,
            captures["head"][0].end_byte if "head" in captures else -1,
            (captures["doc"][0].start_byte, captures["doc"][0].end_byte) if "doc" in captures else None,
            scope,
            pattern.role == "container",
            pattern.rank,
            "onward" in pattern.settings,
        )
        if not made.name or (at not in self.found and len(self.found) >= MAX_DEFINITIONS):
            return
        if made.body >= 0 and (other := self.bodies.setdefault((made.start, made.end, made.body), at)) != at:
            if other in self.found and self.found[other].rank > made.rank:
                return
            self.found.pop(other, None)
            self.bodies[made.start, made.end, made.body] = at
        self.found[at] = made if at not in self.found else _merged(self.found[at], made)

    def name(self, node: tree_sitter.Node) -> tuple[bytes, int, str]:
        """A name without quotes and line breaks, where it is, and the scope written before it (`A::B::` in C++)."""
        at, text = node.start_byte, self.text(node)
        separator, scope = self.analyser.separator, ""
        if separator and separator in text and not text.startswith(b"operator"):
            before, _, text = text.rpartition(separator)
            at += len(before) + len(separator)
            scope = self.dotted(before)
        stripped = text.strip(b"\"'`") or text
        if cut := self.analyser.name_drop:
            stripped = cut.sub(b"", stripped) or stripped
        whole = stripped if stripped.isalnum() else _BREAKS.sub(b" ", stripped)
        return whole[:200], at + text.find(stripped), scope

    def scope(self, node: tree_sitter.Node) -> str:
        text = self.text(node)
        scope = self.dotted(text) if len(text) <= MAX_QUALIFIER and _SIMPLE.fullmatch(text) else ""
        return self.analyser.scope_drop.sub("", scope) if self.analyser.scope_drop else scope

    def dotted(self, text: bytes) -> str:
        plain = _GENERIC.sub(b"", text)
        if self.analyser.separator:
            plain = plain.replace(self.analyser.separator, b".")
        return _BREAKS.sub(b"", plain).strip(b".").decode("utf-8", "replace")

    def qualifier(self, node: tree_sitter.Node) -> str:
        """What stands before a name when it is a plain path; `()` where it is something to be computed."""
        start = node.start_byte
        text = self.data[start : min(node.end_byte, start + MAX_QUALIFIER + 1)]
        known = self.qualifiers.get(text)
        if known is None:
            known = self.qualifiers[text] = _plain_path(text)
        return known

    def bring(self, captures: Captures, pattern: _Pattern) -> None:
        at = captures["import"][0].start_byte
        found = self.imports.setdefault(at, _Importing(at))
        settings = pattern.settings
        if module := captures.get("module"):
            found.module = settings.get("prefix", "") + self.module(module[0])
        if relative := captures.get("relative"):
            found.relative = self.text(relative[0]).count(b".")
        elif "relative" in settings:
            found.relative = int(settings["relative"])
        name = captures.get("imported", [])
        alias = captures.get("alias", [])
        self.aliases.update(node.start_byte for node in (*name, *alias))
        if name or alias:
            imported = _unquoted(self.text(name[0])) if name else settings.get("imported", "")
            found.names.append((imported, _unquoted(self.text(alias[0])) if alias else imported))

    def module(self, node: tree_sitter.Node) -> str:
        text = self.text(node)
        if drop := self.analyser.module_drop:
            text = drop.sub(b"", text)
        return _unquoted(text)

    # -- broken text

    def recover(self) -> None:
        """Definitions that the parser lost inside what it could not read, by the line pattern of level one."""
        pattern = self.analyser.language.definition_line
        if pattern is None:
            return
        past = 0
        for start, end in sorted(self.errors):
            first = max(past, self.line_start(start))
            text = b"\n" + self.data[first:end]
            for match in pattern.finditer(text):
                at = match.start(match.lastindex or 0) + first - 1
                if start <= at and at not in self.found and len(self.found) < MAX_DEFINITIONS:
                    self.found[at] = self.recovered(match[match.lastindex or 0], at)
            past = max(past, end)

    def recovered(self, name: bytes, at: int) -> _Found:
        """A definition from its first line down to where the indentation comes back to that of this line."""
        line = self.line(at)
        last = min(line + MAX_RECOVERED_LINES, len(self.starts))
        own = self.indent(line)
        below = next((i for i in range(line + 1, last) if -1 < self.indent(i) <= own), last)
        if below < last and self.data[self.starts[below] :].lstrip()[:3].startswith((b"}", b")", b"end")):
            below += 1
        while below - 1 > line and self.indent(below - 1) < 0:
            below -= 1
        start, end = self.starts[line], self.starts[below] if below < len(self.starts) else len(self.data)
        body = self.starts[line + 1] if below > line + 1 else -1
        return _Found(start, end, self.recovered_kind(start, at, end), name, at, body)

    def recovered_kind(self, start: int, at: int, end: int) -> str:
        if self.data[start:at].lstrip().startswith(b"#"):
            return "macro"
        if word := _KEYWORD.search(self.data, start, at):
            return word[0].decode().replace("typedef", "type")
        return "prototype" if self.data[start:end].rstrip().endswith(b");") else "function"

    def indent(self, line: int) -> int:
        """How far a line is indented; -1 for a blank one."""
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.data)
        text = self.data[self.starts[line] : end].rstrip()
        return len(text) - len(text.lstrip()) if text else -1

    # -- putting it together

    def definitions(self) -> tuple[tuple[Definition, ...], _Scopes]:
        defined = (found for at, found in self.found.items() if at not in self.aliases)
        order = sorted(defined, key=lambda found: (found.start, -found.end, found.name_at))
        end = len(self.data)
        for found in reversed(order) if any(found.onward for found in order) else ():
            if found.onward:
                found.end = end
            if found.kind == "module":
                end = found.start
        if self.analyser.fuse:
            order = self.fused(order)
        made: list[Definition] = []
        scopes = _Scopes()
        for found in order:
            around = scopes.enter(found.start, found.end)
            qualified, kind, test = self.qualified(found, around)
            if not found.container:
                made.append(self.definition(found, kind, qualified, around))
                test = made[-1].test
            index = around.index if found.container else len(made) - 1
            inner = around.name if kind in _NOT_QUALIFYING else qualified
            scopes.open(_Scope(found.start, found.end, index, inner, kind, test))
        return _ordered(made, scopes)

    def fused(self, order: Sequence[_Found]) -> list[_Found]:
        """A signature and the equations under it are one definition (Haskell)."""
        made: list[_Found] = []
        for found in order:
            last = made[-1] if made else None
            near = last is not None and last.end <= found.start and not self.data[last.end : found.start].strip()
            if last and near and last.name == found.name:
                last.body = last.body if last.body >= 0 else found.start
                last.end, last.kind = max(last.end, found.end), found.kind
            else:
                made.append(found)
        return made

    def qualified(self, found: _Found, around: _Scope) -> tuple[str, str, bool]:
        name = found.name.decode("utf-8", "replace")
        kind = found.kind
        if kind == "macro" and self.data.startswith(b"#", found.start):
            return name, kind, around.test  # the preprocessor knows no scopes
        parts = (around.name, found.scope, name)
        if around.kind in _CLASSES and kind in _MEMBER_KINDS:
            kind = _MEMBER_KINDS[kind]
        elif found.scope and kind == "function":
            kind = "method"
        elif kind == "variable" and len(name) > 1 and name.isupper():
            kind = "constant"
        return ".".join(part for part in parts if part), kind, around.test

    def definition(self, found: _Found, kind: str, qualified: str, around: _Scope) -> Definition:
        first = line = self.line(found.start)
        comments: list[tuple[int, int]] = []
        # What stands above belongs to the first definition on a line.
        if first not in self.opened:
            self.opened.add(first)
            while line - 1 in self.above:
                above, comment = self.above[line - 1]
                if comment:
                    comments.append((above, line))
                line = above
        start, end = self.starts[line], self.after(found.end)
        return Definition(
            found.name.decode("utf-8", "replace"),
            qualified,
            kind,
            Span(start, end),
            Span(start, self.head_end(found, end)),
            found.name_at,
            around.index,
            self.doc(found, comments) if found.doc or comments else None,
            around.test or self.is_test(found, kind, qualified, start),
        )

    def head_end(self, found: _Found, end: int) -> int:
        if found.doc:
            return self.after(found.doc[1])
        if found.head >= 0:
            return min(end, self.after(found.head))
        if found.body < 0:
            return end
        signature = self.data[found.start : found.body].rstrip()
        return self.after(max(found.name_at + 1, found.start + len(signature)))

    def doc(self, found: _Found, comments: Sequence[tuple[int, int]]) -> Span:
        """The doc string, or the run of comments nearest above the definition and what is attached to it."""
        if found.doc:
            return Span(self.line_start(found.doc[0]), self.after(found.doc[1]))
        start, end = comments[0]
        for above, below in comments[1:]:
            if below != start:
                break
            start = above
        return Span(self.starts[start], self.starts[end] if end < len(self.starts) else len(self.data))

    def is_test(self, found: _Found, kind: str, qualified: str, start: int) -> bool:
        analyser = self.analyser
        if kind == "test" or (analyser.test_name and analyser.test_name.search(qualified)):
            return True
        return bool(analyser.test_attached and analyser.test_attached.search(self.data[start : found.name_at]))

    def scoped(self, scopes: _Scopes) -> tuple[Reference, ...]:
        """References with the definition around each; the first of every kind that a definition repeats."""
        made: list[Reference] = []
        seen: set[tuple[bytes, str, str]] = set()
        edges, place, scope = [*scopes.edges, len(self.data) + 1], 0, -1
        seen_in = {scope: seen}
        for at, use in sorted(self.references.items()):
            if edges[place] <= at:
                while edges[place] <= at:
                    place += 1
                scope = scopes.inner[place - 1]
                seen = seen_in.setdefault(scope, set())
            if use not in seen and at not in self.found:
                seen.add(use)
                name, kind, qualifier = use
                made.append(Reference(name.decode("utf-8", "replace"), kind, at, scope, qualifier))
        return tuple(made)

    # -- places to cut

    def blocks(self, root: tree_sitter.Node, definitions: Sequence[Definition]) -> tuple[int, ...]:
        found = {definition.span.start for definition in definitions}
        waiting, budget = [root], MAX_BLOCK_NODES
        starts, above, data = self.starts, self.above, self.data
        while waiting and budget > 0:
            node = waiting.pop()
            count = node.child_count
            if count > MAX_CHILDREN:
                continue
            budget -= count + 1
            for child in node.children:
                start = child.start_byte
                if child.end_byte - start > MIN_CUT_BYTES:
                    waiting.append(child)
                if data[start - 1 : start].strip() or not child.is_named:
                    continue  # something stands before it on its line
                line = bisect_right(starts, start) - 1
                if line - 1 not in above and not data[starts[line] : start].strip():
                    found.add(starts[line])
        return tuple(sorted(found))


MAX_BLOCK_NODES = 200_000
MAX_CHILDREN = 10_000
MIN_CUT_BYTES = 600
MAX_RECOVERED_LINES = 400
_KEYWORD = re.compile(rb"\b(?:class|struct|interface|enum|trait|module|namespace|type|typedef|macro)\b")
_MEMBER_KINDS = {"function": "method", "variable": "field", "constant": "field"}


def _closer(old: tuple[bytes, str, str], new: tuple[bytes, str, str]) -> tuple[bytes, str, str]:
    """Two patterns met one use: the kind that says more, and a qualifier that either knows."""
    best = min(old, new, key=lambda each: _KINDS.index(each[1]))
    return best[0], best[1], old[2] or new[2]


def _plain_path(text: bytes) -> str:
    if b"<" in text:
        text = _GENERIC.sub(b"", text)
    return text.decode("utf-8", "replace") if len(text) <= MAX_QUALIFIER and _SIMPLE.fullmatch(text) else "()"


def _merged(old: _Found, new: _Found) -> _Found:
    """Two patterns met one name: the wider node counts, then the later pattern; a doc string is never lost."""
    wider = max(old, new, key=lambda found: (found.end - found.start, found.rank))
    other = old if wider is new else new
    if wider.end - wider.start > other.end - other.start and wider.kind == "variable":
        wider.kind = other.kind
    wider.doc = wider.doc or other.doc
    wider.body = wider.body if wider.body >= 0 else other.body
    wider.head = max(wider.head, other.head)
    wider.scope = wider.scope or other.scope
    return wider


class _Scope(Struct, frozen=True, gc=False):
    start: int
    end: int
    index: int
    name: str
    kind: str
    test: bool


_OUTSIDE = _Scope(0, 0, -1, "", "", False)


class _Scopes:
    """The scopes of a text as they nest, and afterwards the innermost one around any byte."""

    def __init__(self) -> None:
        self.open_: list[_Scope] = []
        self.edges: list[int] = [0]
        self.inner: list[int] = [-1]

    def enter(self, start: int, end: int) -> _Scope:
        """The scope around a definition about to open; those that end before it are closed."""
        while self.open_ and (self.open_[-1].end < end or self.open_[-1].end <= start or self._same(start, end)):
            self._close()
        return self.open_[-1] if self.open_ else _OUTSIDE

    def _same(self, start: int, end: int) -> bool:
        """`int a, b;` is one declaration of two names, neither inside the other."""
        return (self.open_[-1].start, self.open_[-1].end) == (start, end)

    def open(self, scope: _Scope) -> None:
        self.open_.append(scope)
        self._edge(scope.start, scope.index)

    def _close(self) -> None:
        closed = self.open_.pop()
        self._edge(closed.end, self.open_[-1].index if self.open_ else -1)

    def _edge(self, at: int, index: int) -> None:
        self.edges.append(max(at, self.edges[-1]))
        self.inner.append(index)

    def finish(self, renumbered: Sequence[int]) -> None:
        while self.open_:
            self._close()
        self.inner = [renumbered[index] if index >= 0 else -1 for index in self.inner]

    def at(self, offset: int) -> int:
        return self.inner[bisect_right(self.edges, offset) - 1]


def _ordered(made: Sequence[Definition], scopes: _Scopes) -> tuple[tuple[Definition, ...], _Scopes]:
    """By start of span, outer before inner: a doc comment can move a definition before a neighbour on its line."""
    order = sorted(range(len(made)), key=lambda i: (made[i].span.start, -made[i].span.end, i))
    place = sorted(range(len(made)), key=order.__getitem__)
    scopes.finish(place)
    return tuple(_placed(made[index], place) for index in order), scopes


def _placed(definition: Definition, place: Sequence[int]) -> Definition:
    parent = definition.parent
    if parent < 0 or place[parent] == parent:
        return definition
    return msgspec.structs.replace(definition, parent=place[parent])


# --- imports ---------------------------------------------------------------------------------------------------


class _Importing(Struct):
    at: int
    module: str = ""
    names: list[tuple[str, str]] = []
    relative: int = 0

    def imports(self) -> list[Import]:
        if "{" not in self.module:
            module, alias = _aliased(self.module)
            names = tuple(dict.fromkeys(self.names)) or alias
            return [Import(module, names, self.at, self.relative)] if module or names or self.relative else []
        return [
            Import(module, names, self.at, self.relative) for module, names in map(_aliased, _expanded(self.module))
        ]


_NAMED = re.compile(r"(\w+)\s*=\s*([^=>].*)")
_ALIAS = re.compile(r"(?<!\s)\s+(?:as|=>)\s+")


def _aliased(module: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """`a::b as c` or `c = a.b` -> the module and the alias for all of it."""
    if "=" in module and (named := _NAMED.fullmatch(module)):
        return named[2].strip(), (("", named[1]),)
    path, *alias = _ALIAS.split(module, 1)
    return path.strip(), (("", alias[0].strip()),) if alias else ()


def _expanded(module: str) -> list[str]:
    """`a::{b, c::{d, e}}` -> `a::b`, `a::c::d`, `a::c::e`; `self` inside braces is what stands before them."""
    found: list[str] = []
    prefixes, current = [""], ""

    def leaf() -> None:
        name = current.strip()
        if name and name.split()[0] in ("self", "this"):
            found.append(re.sub(r"(?:::|[.\\])$", "", prefixes[-1]) + name[4:])
        elif name:
            found.append(prefixes[-1] + name)

    for sign in module:
        if sign == "{":
            prefixes.append(prefixes[-1] + current.strip())
            current = ""
        elif sign in ",}":
            leaf()
            current = ""
            if sign == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            current += sign
    leaf()
    return found


def _unquoted(text: bytes) -> str:
    plain = text.strip()
    if len(plain) > 1 and plain[:1] in b"\"'`<" and plain[-1:] in b"\"'`>":
        plain = plain[1:-1]
    return _BREAKS.sub(b" ", plain).decode("utf-8", "replace")
