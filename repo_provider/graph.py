"""What a region of code has to do with the rest: edges to files and definitions, one file's outline as prose, hops.

Pure and lazy. `Graph` is built for one answer from what its caller hands in: what imports mean (`imports.Modules`),
which files define a name (level one's line patterns, no parse) and outlines. `drafts` says what each region needs,
`opened` which few other files have to be parsed for that, `edges` turns the two into edges. A name is resolved by what
the file itself defines, then by its imports, then by what it sees without any, last by being the only one of that name;
what stays in doubt is left out. Called by `provider` alone.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from repo_provider.imports import Binding, Modules
from repo_provider.model import Anchor, Definition, Import, Outline, Path, Reference, Span, Text
from repo_provider.protocol import quote

MOST_EDGES = 12
"""Edges of one region."""
MOST_OPENED = 12
"""Files that are parsed for the edges of one answer, beside those it parsed anyway."""
MOST_LOOKED_AT = 32
"""Names used in one region that are looked for."""
MOST_MENTIONS = 40
FOLLOWED = 3
"""Files through which a name is followed that each only pass on."""
MOST_NAMES = 200
"""Names of one file that its users are known by."""
HOPS: Mapping[str, float] = {"callers": 1.0, "uses": 0.8, "calls": 0.8, "imports": 0.6, "together": 0.5}
"""How near a file is at most that does this with the anchored one, or has this done by it."""
_QUOTAS: Mapping[str, int] = {
    "code.calls": 5,
    "code.defines": 3,
    "code.imports": 4,
    "code.references": 3,
    "doc.documents": 8,
}
"""Edges of a kind, in order of use; what one kind leaves free others take."""


class Region(Struct, frozen=True):
    """A part of a file that an answer shows. `prose` is text for people, read for what it mentions."""

    path: Path
    outline: Outline
    span: Span
    text: Text
    prose: bool = False


class Edge(Struct, frozen=True):
    """From a region to a file, or to the definition `name` in it."""

    rel: str
    path: Path
    name: str = ""


class Wish(Struct, frozen=True):
    """An edge that outlines have to confirm: to the definition `member`, in the first of `places` that has it.

    A place may only pass on what others define: `others` are the files that may be meant then.
    """

    rel: str
    places: tuple[Path, ...]
    member: tuple[str, ...]
    others: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        return self.places + self.others


Draft: TypeAlias = Edge | Wish
Definers: TypeAlias = Callable[[Sequence[str]], Mapping[str, tuple[Path, ...]]]


class Graph:
    """What is known for one answer.

    `definers` gives the files that define each of some names; `language` says what a file is written in, and `minor`
    whether it only repeats names (tests, examples, vendored code). `asked` are the (path, name or "") the host has at
    hand: edges to them come first and are never left out.
    """

    def __init__(
        self,
        modules: Modules,
        definers: Definers,
        language: Callable[[Path], str],
        minor: Callable[[Path], bool],
        asked: frozenset[tuple[Path, str]] = frozenset(),
    ) -> None:
        self.modules, self.minor, self.asked = modules, minor, asked
        self._definers, self._language = definers, language

    def drafts(self, regions: Sequence[Region]) -> list[list[Draft]]:
        """What the edges of each region may be, most useful first."""
        readings = [_Reading(self, region) for region in regions]
        wanted = sorted({name for reading in readings for name in reading.names()})
        defined = self._definers(wanted) if wanted else {}
        return [list(dict.fromkeys(reading.drafts(defined))) for reading in readings]

    def opened(self, drafts: Iterable[Sequence[Draft]], known: Mapping[Path, Outline]) -> list[Path]:
        """The files to parse that are not known yet: what most regions need, never more than a few."""
        asked: Counter[Path] = Counter()
        for draft in drafts:
            asked.update({path for each in draft if isinstance(each, Wish) for path in each.files} - known.keys())
        return sorted(asked, key=lambda path: (-asked[path], path))[:MOST_OPENED]

    def edges(self, draft: Sequence[Draft], outlines: Mapping[Path, Outline]) -> tuple[Edge, ...]:
        """The edges of a region, most useful first."""
        found = dict.fromkeys(edge for each in draft if (edge := self._confirmed(each, outlines)) is not None)
        asked = [edge for edge in found if (edge.path, edge.name) in self.asked]
        by_use = {rel: [edge for edge in found if edge.rel == rel and edge not in asked] for rel in _QUOTAS}
        within = [edge for rel, most in _QUOTAS.items() for edge in by_use[rel][:most]]
        beyond = [edge for rel, most in _QUOTAS.items() for edge in by_use[rel][most:]]
        kept = {*within[: MOST_EDGES - len(asked)], *beyond[: max(0, MOST_EDGES - len(asked) - len(within))]}
        return (*asked, *(edge for edges in by_use.values() for edge in edges if edge in kept))

    def hops(
        self,
        anchor: Anchor,
        outline: Outline,
        text: Text,
        using: Callable[[Sequence[str]], Mapping[Path, float]],
        together: Mapping[Path, float],
    ) -> dict[Path, float]:
        """How near other files are to an anchored one, in [0, 1]: as near as in the nearest of `HOPS`.

        `using` gives the files that use any of some names, `together` those that changed with it, both by weight.
        """
        whole = Region(anchor.path, outline, Span(0, len(text.data)), text)
        pointed = pointed_at(anchor, outline, text)
        names = [one.name for one in outline.definitions if _is_top(outline, one)][:MOST_NAMES]
        imported = (path for binding in _Reading(self, whole).bindings for path in binding.files[:MOST_OPENED])
        kinds: dict[str, Mapping[Path, float]] = {
            "imports": dict.fromkeys(imported, 1.0),
            "uses": using(names),
            "together": together,
        }
        if pointed is not None:
            kinds["callers"] = using([pointed.name])
            drafts = self.drafts([Region(anchor.path, outline, pointed.span, text)])[0]
            kinds["calls"] = {each.places[0]: 1.0 for each in drafts if isinstance(each, Wish)}
        found: dict[Path, float] = {}
        for kind, weights in kinds.items():
            most = max(weights.values(), default=0.0)
            for path, weight in weights.items():
                if weight > 0 and path != anchor.path:
                    found[path] = max(found.get(path, 0.0), round(HOPS[kind] * (weight / most) ** 0.5, 6))
        return found

    def _confirmed(self, draft: Draft, outlines: Mapping[Path, Outline]) -> Edge | None:
        if isinstance(draft, Edge):
            return draft
        for path in draft.places:
            if (edge := self._followed(draft.rel, path, draft.member, outlines, FOLLOWED)) is not None:
                return edge
        inside = _below(draft.places[0], draft.others) if draft.places else ()
        return self._followed(draft.rel, inside[0], draft.member, outlines, 0) if len(inside) == 1 else None

    def _followed(
        self, rel: str, path: Path, member: Sequence[str], outlines: Mapping[Path, Outline], hops: int
    ) -> Edge | None:
        """The definition in a file, or in the file where that has it from."""
        outline = outlines.get(path)
        if outline is None or not member:
            return None
        definition = defined(outline, member)
        if definition is not None or not hops:
            return None if definition is None else Edge(rel, path, definition.qualified)
        for binding in self.modules.bindings(path, outline):
            inner = [*_members(binding), *member[1:]] if binding.alias == member[0] else member
            if binding.alias in ("", member[0]):
                for place in binding.files[:FOLLOWED]:
                    if (edge := self._followed(rel, place, inner, outlines, hops - 1)) is not None:
                        return edge
        return None

    def imports(self, path: Path, outline: Outline, wanted: Collection[Path]) -> bool:
        """Whether a file imports any of some files."""
        return any(one in wanted for binding in self.modules.bindings(path, outline) for one in binding.files)

    # --- for the readings

    def family(self, path: Path) -> str:
        return self.modules.rules(self._language(path)).family

    def likely(self, places: Iterable[Path], family: str) -> tuple[Path, ...]:
        """Those of a family, without tests and the like where there are others."""
        own = [path for path in places if self.family(path) == family]
        return tuple([path for path in own if not self.minor(path)] or own)

    def only(self, places: Iterable[Path], family: str) -> tuple[Path, ...]:
        """The one that is meant among several; none where that is not clear."""
        own = self.likely(places, family)
        return own if len(own) == 1 else ()


def symbol_uri(edge: Edge) -> str:
    """The uri of the definition an edge leads to."""
    return f"symbol:///{quote(edge.path)}#{quote(edge.name.encode('utf-8', 'surrogatepass'))}"


def pointed_at(anchor: Anchor, outline: Outline, text: Text) -> Definition | None:
    """The definition an anchor names, or the smallest one around its lines."""
    if anchor.name is not None:
        called = [one for one in outline.definitions if anchor.name in (one.qualified, one.name)]
        return next((one for one in called if one.qualified == anchor.name), called[0] if called else None)
    span = None if anchor.lines is None else text.span(*anchor.lines)
    if span is None:
        return None
    around = [one for one in outline.definitions if one.span.start <= span.start and span.end <= one.span.end]
    return min(around, key=lambda one: (one.span.end - one.span.start, one.span), default=None)


def defined(outline: Outline, member: Sequence[str]) -> Definition | None:
    """The definition these names lead to, outermost first; None where that is nothing or more than one thing.

    One name alone is of something at the top of the file; an empty one before it stands for a type that is not known.
    """
    *around, name = member
    called = [one for one in outline.named.get(name, ()) if one.kind != "section"]
    tops = [one for one in called if _is_top(outline, one)]
    if not around:
        called = tops
    elif around == [""]:
        called = [one for one in called if one not in tops]
    else:
        tail = ".".join(member)
        inside = [one for one in called if one.qualified == tail or one.qualified.endswith("." + tail)]
        called = inside or (tops if _is_namespace(outline, around[-1]) else [])
    return called[0] if len({one.qualified for one in called}) == 1 else None


_AROUND = frozenset(("module", "namespace", "package"))


def _is_top(outline: Outline, one: Definition) -> bool:
    return one.parent < 0 or outline.definitions[one.parent].kind in _AROUND


def _is_namespace(outline: Outline, name: str) -> bool:
    """Whether a name that stands before another is not a type of this file: then it is the module itself."""
    return name not in outline.named


# --- one region ------------------------------------------------------------------------------------------------

_FUNCTIONS = frozenset(("function", "method", "test"))
_RELATIONS = {"call": "code.calls"}
_JOINT = re.compile(r"(?<!\?)\?*+\.|::|->|\\|#|/")
_SELF = frozenset(("self", "this", "cls", "Self", "static", "$this", "@"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_ACCESSORS = frozenset("get set is has to of on add for with start starts end ends".split())
_CODE = re.compile(
    r"(?<!`)`++([^`\n]{2,120})`++|(?<![\w$./~-])([\w$./~-]+/[\w.-]+\.\w{1,8})\b|\b([A-Za-z_]\w*(?:(?:\.|::|#|->)\w+)*)"
)
_CALLED = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->|\\)[A-Za-z_$][\w$]*)*")


class _Use(Struct, frozen=True):
    """A name used: what stands before it, and the definition around it or -1."""

    rel: str
    parts: tuple[str, ...]
    scope: int = -1


class _Reading:
    """One region being read."""

    def __init__(self, graph: Graph, region: Region) -> None:
        self.graph, self.region, self.outline = graph, region, region.outline
        self.rules = graph.modules.rules(region.outline.language)

    def names(self) -> Iterator[str]:
        """The names whose definers have to be known."""
        for use in self.uses:
            yield use.parts[-1]
            if len(use.parts) > 1:
                yield use.parts[-2]
        for parts in self.mentions[0]:
            yield parts[-1]

    def drafts(self, defined_in: Mapping[str, tuple[Path, ...]]) -> Iterator[Draft]:
        yield from self.definitions()
        if self.region.prose:
            yield from self.documented(defined_in)
        for use in self.uses:
            draft, binding = self.resolved(use, defined_in)
            if binding is not None and binding.files:
                yield from self.importing(self.imported(binding, use, defined_in))
            if draft is not None:
                yield draft
        for binding in self.bindings:
            here = self.region.span.start <= binding.at < self.region.span.end
            for path in binding.files:
                if (path, "") in self.graph.asked or (here and path == binding.files[0]):
                    yield from self.importing(path)

    def importing(self, path: Path) -> Iterator[Edge]:
        if path != self.region.path:
            yield Edge("code.imports", path)

    # --- what stands in the region

    def definitions(self) -> Iterator[Edge]:
        """What the region defines, outermost first."""
        span = self.region.span
        if not self.region.prose:
            inside = [
                one
                for one in self.outline.definitions
                if span.start <= one.name_at < span.end or (one.head.start <= span.start and span.end <= one.head.end)
            ]
            inside.sort(key=lambda one: one.qualified.count("."))
            for one in inside[: MOST_EDGES // 2]:
                yield Edge("code.defines", self.region.path, one.qualified)

    @cached_property
    def uses(self) -> list[_Use]:
        found: dict[tuple[str, ...], _Use] = {}
        for reference in self.outline.used_in(self.region.span):
            if len(found) >= MOST_LOOKED_AT:
                break
            parts = _parts(reference)
            if parts:
                rel = _RELATIONS.get(reference.kind, "code.references")
                found.setdefault(parts, _Use(rel, parts, reference.scope))
        return list(found.values())

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        return self.graph.modules.bindings(self.region.path, self.outline)

    @cached_property
    def _aliases(self) -> Mapping[str, Sequence[Binding]]:
        found: dict[str, list[Binding]] = {}
        for binding in self.bindings:
            if binding.alias:
                found.setdefault(binding.alias, []).append(binding)
        return found

    def _reaches(self, at: int) -> bool:
        """Whether an import holds for the region: not one inside a function elsewhere."""
        span = self.region.span
        index = bisect_right(self.outline.definitions, at, key=lambda one: one.span.start) - 1
        around = (one for one in self.around(index) if one.span.start <= at < one.span.end and one.kind in _FUNCTIONS)
        return all(one.span.start < span.end and span.start < one.span.end for one in around)

    @cached_property
    def _seen(self) -> frozenset[Path]:
        """Files whose names the file may use: those it opens and those it sees without importing them."""
        opened = [path for binding in self.bindings if binding.open for path in binding.files]
        return frozenset((*opened, *self.graph.modules.shared(self.region.path, self.outline.language)))

    # --- names

    def resolved(self, use: _Use, defined_in: Mapping[str, tuple[Path, ...]]) -> tuple[Draft | None, Binding | None]:
        """What a name used here is, and the import that says so."""
        own = self.own(use)
        if own is not None:
            inside = self.region.span.start <= own.name_at < self.region.span.end
            return (None if inside else Edge(use.rel, self.region.path, own.qualified)), None
        binding, rest = self.bound(use.parts)
        if binding is not None:
            return self.through(binding, rest, use, defined_in), binding
        if self.rules.inline and len(use.parts) > 1:
            binding, rest = self.spelled(use.parts)
            if binding is not None:
                return self.through(binding, rest, use, defined_in), None
        return self.seen(use, defined_in), None

    def own(self, use: _Use) -> Definition | None:
        """A definition of this file: of the class around, of a class that is named, or at the top."""
        name, before = use.parts[-1], use.parts[:-1]
        called = self.outline.named.get(name)
        if not called:
            return None
        around = [one.qualified for one in self.around(use.scope)]
        if before and before[-1] in _SELF:
            wanted = [f"{scope}.{name}" for scope in around]
        elif before:
            wanted = [".".join(use.parts), *(f"{scope}.{'.'.join(use.parts)}" for scope in around)]
        else:
            wanted = [*(f"{scope}.{name}" for scope in around), name]
            wanted += [one.qualified for one in called if _is_top(self.outline, one)]
        return next((one for each in wanted for one in called if one.qualified == each), None)

    def around(self, scope: int) -> Iterator[Definition]:
        while scope >= 0:
            one = self.outline.definitions[scope]
            yield one
            scope = one.parent

    def bound(self, parts: tuple[str, ...]) -> tuple[Binding | None, tuple[str, ...]]:
        """The import whose name a use begins with, the longest first, and what follows it."""
        for count in range(len(parts), 0, -1):
            for alias in (".".join(parts[:count]), "::".join(parts[:count])) if count > 1 else (parts[0],):
                binding = next((each for each in self._aliases.get(alias, ()) if self._reaches(each.at)), None)
                if binding is not None:
                    return binding, parts[count:]
        return None, ()

    def spelled(self, parts: tuple[str, ...]) -> tuple[Binding | None, tuple[str, ...]]:
        """A module that code names in full: `crate::util::retry()`, `Phoenix.Router.match()`."""
        separator = self.rules.separator if self.rules.scheme != "crates" else "::"
        written = Import(separator.join(parts[:-1]), at=self.region.span.start)
        found = self.graph.modules.bindings(self.region.path, Outline(self.outline.language, imports=(written,)))
        binding = next((each for each in found if each.files), None)
        return binding, parts[-1:]

    def through(
        self, binding: Binding, rest: Sequence[str], use: _Use, defined_in: Mapping[str, tuple[Path, ...]]
    ) -> Draft | None:
        """What an import's name, and what follows it, stand for."""
        member = (*_members(binding), *rest)
        if not binding.files or not (member or binding.member == "default"):
            return None
        if not member:
            return Wish(use.rel, binding.files[:1], use.parts[-1:])
        definers = self.graph.likely(defined_in.get(member[-1], ()), self.rules.family)
        inside = tuple(path for path in binding.files if path in definers)
        if len(binding.files) > 1:
            return Wish(use.rel, inside[:2], member) if inside else None
        others = () if inside else tuple(_below(binding.files[0], definers) or (definers if binding.member else ()))
        return Wish(use.rel, binding.files, member, others[:FOLLOWED])

    def imported(self, binding: Binding, use: _Use, defined_in: Mapping[str, tuple[Path, ...]]) -> Path:
        """The file of an imported module that a use is about."""
        definers = defined_in.get(use.parts[-1], ())
        return next((path for path in binding.files if path in definers), binding.files[0])

    def seen(self, use: _Use, defined_in: Mapping[str, tuple[Path, ...]]) -> Draft | None:
        """A name that no import brings: of a file that is seen anyway, else the only one of that name."""
        name = use.parts[-1]
        definers = [path for path in defined_in.get(name, ()) if path != self.region.path]
        if len(use.parts) > 1:
            return self.member(use, definers, defined_in)
        near = [path for path in definers if path in self._seen]
        place = tuple(near[:1]) if len(near) == 1 else self.graph.only(near, self.rules.family)
        if not place and self.rules.loose:
            place = self.graph.only(definers, self.rules.family)
        return Wish(use.rel, place, (name,)) if place else None

    def member(self, use: _Use, definers: Sequence[Path], defined_in: Mapping[str, tuple[Path, ...]]) -> Draft | None:
        """`x.name`: of a type that is seen, else of a file that is imported, else the only one of a telling name."""
        before, name = use.parts[-2:]
        if before[:1].isupper():
            types = defined_in.get(before, ())
            near = [path for path in types if path in self._seen]
            place = self.graph.only(near or (types if self.rules.loose or self.rules.inline else ()), self.rules.family)
            if place:
                return Wish(use.rel, place, (before, name))
        if not _is_telling(name):
            return None
        place = self.graph.only(definers, self.rules.family)
        return Wish(use.rel, place, ("", name)) if place else None

    # --- prose

    @cached_property
    def mentions(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """Names and paths that a text for people mentions, in order."""
        names: dict[tuple[str, ...], None] = {}
        paths: dict[str, None] = {}
        if self.region.prose:
            text = self.region.text.content(self.region.span)[0]
            for quoted, path, plain in (match.groups() for match in _CODE.finditer(text)):
                written = quoted or path or plain
                if "/" in written or (quoted and re.fullmatch(r"[\w.-]+\.\w{1,8}", quoted)):
                    paths.setdefault(written.strip("`'\"./ "))
                for found in _CALLED.findall(quoted) if quoted else [plain] if plain else ():
                    parts = tuple(part for part in _JOINT.split(found) if part)
                    code = len(parts) > 1 or _is_telling(parts[-1])
                    if code or (quoted and (found[0].isupper() or f"{found}(" in quoted)):
                        names.setdefault(parts)
        return list(names)[:MOST_MENTIONS], list(paths)[:MOST_MENTIONS]

    def documented(self, defined_in: Mapping[str, tuple[Path, ...]]) -> Iterator[Draft]:
        names, paths = self.mentions
        for written in paths:
            place = self.place(written)
            if place is not None and place != self.region.path:
                yield Edge("doc.documents", place)
        for parts in names:
            code = [path for path in defined_in.get(parts[-1], ()) if path != self.region.path]
            own = [path for path in code if not self.graph.minor(path)] or code
            if len(own) == 1 or (own and len(parts) > 1):
                yield Wish("doc.documents", tuple(own[:2]), parts[-2:])

    def place(self, written: str) -> Path | None:
        tree, raw = self.graph.modules.tree, written.encode("utf-8", "replace")
        folder = self.region.path[: self.region.path.rfind(b"/") + 1]
        exact = next((path for path in (Path(folder + raw), Path(raw)) if path in tree), None)
        if exact is not None or b"." not in raw:
            return exact
        found = tree.ending(raw)
        return found[0] if len(found) == 1 else None


def _members(binding: Binding) -> tuple[str, ...]:
    return tuple(part for part in binding.member.split(".") if part and part != "default")


def _is_telling(name: str) -> bool:
    """Whether a name is of so many words that it is seldom that of two things."""
    words = [] if name.startswith("__") else _WORD.findall(name)
    return len(words) > 2 or (len(words) == 2 and len(name) > 7 and words[0].lower() not in _ACCESSORS)


def _parts(reference: Reference) -> tuple[str, ...]:
    """`os.path.join` as its parts; none where what stands before the name is computed."""
    if reference.qualifier == "":
        return tuple(part for part in _JOINT.split(reference.name) if part)
    if "()" in reference.qualifier:
        return ("()", reference.name)
    return (*(part for part in _JOINT.split(reference.qualifier) if part), reference.name)


def _below(path: Path, others: Iterable[Path]) -> list[Path]:
    """Those in the folder of a file, or below it: where a package's own file takes its names from."""
    folder = path[: path.rfind(b"/") + 1]
    return [other for other in others if other.startswith(folder)]


# --- one file as prose -----------------------------------------------------------------------------------------

MOST_TOLD = 48
MOST_CALLS = 24
_LINE = 90


def tell(text: Text, outline: Outline, title: str) -> str:
    """What a file defines, imports and calls, in words; a function of its bytes and its language (`title`) alone."""
    parts = [f"{title}, {_count(text.line_count, 'line')}."]
    if imports := _imports(outline):
        parts.append(_listed("Imports", imports, MOST_CALLS))
    if outline.definitions:
        parts.append(_definitions(text, outline))
    if calls := _calls(outline):
        parts.append(_listed("Calls", calls, MOST_CALLS))
    return "\n\n".join(parts) + "\n"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(what: str, items: Sequence[str], most: int) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return f"{what}: {', '.join(items[:most])}{more}."


def _imports(outline: Outline) -> list[str]:
    names: dict[str, list[str]] = {}
    for each in outline.imports:
        dots = "." * each.relative if not each.module.startswith((".", "/")) and outline.language == "python" else ""
        own = names.setdefault(_short(dots + each.module), [])
        own += [name for name, _ in each.names if name not in ("", "*", *own)]
    return [f"{module} ({', '.join(own[:8])})" if own else module for module, own in names.items() if module]


def _definitions(text: Text, outline: Outline) -> str:
    """Two levels of definitions, the outer ones first where there are too many."""
    levels = [_level(outline, one) for one in outline.definitions]
    kept = sorted(range(len(levels)), key=lambda at: (levels[at], at))[:MOST_TOLD]
    shown = [at for at in sorted(kept) if levels[at] < 3]
    lines = [f"Defines {_count(len(levels), 'name')}:"]
    for at in shown:
        one = outline.definitions[at]
        what = "" if one.kind == "section" else f"{one.kind} "
        lines.append(f"{'  ' * levels[at]}- {what}{_short(one.name)}, {_lines(text, one)}{_said(text, one)}")
    if len(shown) < len(levels):
        lines.append(f"- and {len(levels) - len(shown)} more")
    return "\n".join(lines)


def _level(outline: Outline, one: Definition) -> int:
    level = 0
    while one.parent >= 0:
        level, one = level + 1, outline.definitions[one.parent]
    return level


def _lines(text: Text, one: Definition) -> str:
    first, last = text.lines(one.span)
    return f"line {first}" if first == last else f"lines {first}-{last}"


_MARKS = re.compile(r"^[\s/*#:!;%\"'<>{}|=~-]+|(?<![\s*/\"'#{}|=~-])[\s*/\"'#{}|=~-]++$")


def _said(text: Text, one: Definition) -> str:
    """The first sentence of a definition's documentation."""
    if one.doc is None:
        return ""
    lines = [_MARKS.sub("", line) for line in text.content(one.doc)[0].split("\n")[:12]]
    first = next((at for at, line in enumerate(lines) if re.search(r"\w", line)), len(lines))
    paragraph = " ".join(itertools.takewhile(bool, lines[first:]))
    sentence = re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]
    return f": {_short(sentence)}" if sentence else ""


def _calls(outline: Outline) -> list[str]:
    """What is called and not defined here, by the number of definitions that do."""
    own = {one.name for one in outline.definitions}
    counted = Counter(
        one.name if one.qualifier in ("", "()") else f"{one.qualifier}.{one.name}"
        for one in outline.references
        if one.kind == "call" and one.name not in own
    )
    return [_short(name) for name, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]


def _short(text: str) -> str:
    plain = re.sub(r"\s+", " ", text).strip()
    return plain if len(plain) <= _LINE else plain[: _LINE - 1] + "\u2026"
