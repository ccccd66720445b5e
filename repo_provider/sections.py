"""Outlines of text that has no grammar: headings of prose, line patterns of small formats, paragraphs of the rest.

Not a parser: one pass over the lines, so it cannot hang or crash and needs no worker's protection. `syntax` calls it
with what a language's manifest says under `[outline]` and is the only caller; a tree-sitter grammar, where there is
one, is used instead.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from repo_provider.model import Definition, Outline, Span, packed


class Line(Struct, frozen=True):
    """One line: its bytes without the line break, and where it starts and the next one starts."""

    text: bytes
    start: int
    end: int

    @property
    def blank(self) -> bool:
        return not self.text.strip()


class Heading(Struct, frozen=True):
    """A section's title. `line` and `last` are indices of the lines it takes, adornment included."""

    title: bytes
    level: int
    line: int
    last: int


def lines_of(data: bytes) -> list[Line]:
    found, start = [], 0
    for text in data.split(b"\n"):
        end = min(len(data), start + len(text) + 1)
        if start < len(data):
            found.append(Line(text.removesuffix(b"\r"), start, end))
        start = end
    return found


def paragraphs(data: bytes, language: str) -> Outline:
    """Plain text: no definitions, cut at blank lines."""
    return Outline(language=language, blocks=tuple(_paragraph_starts(lines_of(data))))


def headings(data: bytes, language: str, style: str) -> Outline:
    """Prose: one definition of kind `section` for each heading, down to the next one that is not below it."""
    lines = lines_of(data)
    found = list(_STYLES[style](lines))
    starts = {lines[heading.line].start for heading in found}
    blocks = sorted(starts.union(_paragraph_starts(lines)))
    return Outline(language=language, definitions=tuple(_sections(found, lines, data)), blocks=tuple(blocks))


def _paragraph_starts(lines: Sequence[Line]) -> Iterator[int]:
    blank = True
    for line in lines:
        if blank and not line.blank:
            yield line.start
        blank = line.blank


def _sections(found: Sequence[Heading], lines: Sequence[Line], data: bytes) -> Iterator[Definition]:
    ends = _ends(found, len(lines))
    open_: list[tuple[int, int, str]] = []
    for index, heading in enumerate(found):
        while open_ and open_[-1][0] >= heading.level:
            open_.pop()
        last = ends[index] - 1
        while last > heading.last and lines[last].blank:
            last -= 1
        name = heading.title.decode("utf-8", "replace")
        qualified = f"{open_[-1][2]}.{name}" if open_ else name
        start = lines[heading.line].start
        yield Definition(
            name=name,
            qualified=qualified,
            kind="section",
            span=Span(start, lines[last].end),
            head=Span(start, lines[heading.last].end),
            name_at=start + max(0, data.find(heading.title, start, lines[heading.last].end) - start),
            parent=open_[-1][1] if open_ else -1,
        )
        open_.append((heading.level, index, qualified))


def _ends(found: Sequence[Heading], end: int) -> list[int]:
    """For each heading the line of the next one that is not below it."""
    ends = [end] * len(found)
    waiting: list[int] = []
    for index, heading in enumerate(found):
        while waiting and found[waiting[-1]].level >= heading.level:
            ends[waiting.pop()] = heading.line
        waiting.append(index)
    return ends


# --- heading styles --------------------------------------------------------------------------------------------

_ATX = re.compile(rb" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\Z")
_SETEXT = re.compile(rb" {0,3}(=+|-+)[ \t]*\Z")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})")
_HTML_TAG = re.compile(rb"<[^<>]{1,200}>")


def _markdown(lines: Sequence[Line]) -> Iterator[Heading]:
    for index, line in _outside_fences(lines):
        if line.text.lstrip()[:1] == b"#" and (found := _ATX.match(line.text)):
            if title := _plain(found[2] or b""):
                yield Heading(title, len(found[1]), index, index)
        elif line.text[:4].lstrip()[:1] in (b"=", b"-") and (found := _SETEXT.match(line.text)) and index:
            above = lines[index - 1]
            if _setext_title(lines, index - 1):
                yield Heading(_plain(above.text.strip()), 1 if found[1].startswith(b"=") else 2, index - 1, index)


def _setext_title(lines: Sequence[Line], index: int) -> bool:
    """A single line of plain text under a blank one; not the end of front matter, a list, a table or a quote."""
    text = lines[index].text.strip()
    before = index == 0 or lines[index - 1].blank
    return before and bool(text) and not text.startswith((b"#", b"-", b"*", b">", b"|", b"=", b"```", b"<!--"))


def _outside_fences(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    fence = b""
    front = bool(lines) and lines[0].text.rstrip() == b"---"
    for index, line in enumerate(lines):
        if front:
            front = index == 0 or line.text.rstrip() not in (b"---", b"...")
            continue
        found = _FENCE.match(line.text)
        if fence:
            if found and found[1].startswith(fence) and not line.text.strip().strip(fence[:1]):
                fence = b""
        elif found:
            fence = found[1]
        else:
            yield index, line


def _plain(title: bytes) -> bytes:
    """A heading's words without markup: links become their text, code its content; anchors and tags go."""
    title = re.sub(rb"!?\[([^\]\n]*+)\](?:\([^()\n]*\)|\[[^\]\n]*\])?|(\[[^\]\n]*+\Z)", rb"\1\2", title)
    title = _HTML_TAG.sub(b"", title)
    title = re.sub(rb"(?<![ \t])[ \t]*+\{#[^{}\n]*\}[ \t]*\Z", b"", title)
    return title.replace(b"`", b"").replace(b"**", b"").strip()


_ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1{2,}[ \t]*\Z")


def _rest(lines: Sequence[Line]) -> Iterator[Heading]:
    """reStructuredText: adorned titles; a style's level is the order in which styles are first met."""
    levels: list[bytes] = []
    for index, line in enumerate(lines):
        found = _ADORNMENT.match(line.text)
        if not found or index == 0:
            continue
        title = lines[index - 1].text
        over = index >= 2 and lines[index - 2].text.strip() == line.text.strip()
        under = not title[:1].isspace() and (index < 2 or lines[index - 2].blank)
        if title.strip() and (over or under) and len(line.text.rstrip()) + 2 >= len(title.strip()):
            if _ADORNMENT.match(title):
                continue
            style = found[1] * (2 if over else 1)
            if style not in levels:
                levels.append(style)
            first = index - 2 if over else index - 1
            yield Heading(title.strip().replace(b"`", b""), levels.index(style) + 1, first, index)


_EQUALS = re.compile(rb"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*\Z")
_DELIMITED = re.compile(rb"(-{4,}|\.{4,}|`{3,}|/{4,}|\+{4,}|={4,})[ \t]*\Z")


def _asciidoc(lines: Sequence[Line]) -> Iterator[Heading]:
    inside = b""
    for index, line in enumerate(lines):
        if found := _DELIMITED.match(line.text):
            inside = b"" if inside == found[1] else inside or found[1]
        elif not inside and (found := _EQUALS.match(line.text)):
            yield Heading(found[2], len(found[1]), index, index)


_STYLES: dict[str, Callable[[Sequence[Line]], Iterator[Heading]]] = {
    "markdown": _markdown,
    "rest": _rest,
    "asciidoc": _asciidoc,
}


# --- small formats ---------------------------------------------------------------------------------------------


class Rule(Struct, frozen=True):
    """A line that defines something, and how far it reaches.

    `pattern` is matched at the start of a line; group `name` is the name, `scope` stands before it, the length of
    `level` (or `rank`) says what ends it where `ends` is `next`. `ends`: `line`, `indent` (down to a line indented no
    further), `tag` (to the line that closes it), `braces` or `parens` (to the one that closes the first opened),
    `next` (the next of its rank or above).
    """

    pattern: re.Pattern[bytes]
    kind: str
    ends: str = "line"
    rank: int = 9


def line_rules(options: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(
        Rule(re.compile(rule["pattern"].encode()), rule["kind"], rule.get("ends", "line"), rule.get("rank", 9))
        for rule in options["definition"]
    )


def by_lines(
    data: bytes, language: str, rules: Sequence[Rule], comments: Sequence[bytes], test: re.Pattern[str] | None = None
) -> Outline:
    """Definitions by line patterns, nested as their spans are; comments directly above belong to them."""
    lines = lines_of(data)
    brackets = {
        ends: _Brackets(data, pair, comments)
        for ends, pair in _PAIRS.items()
        if any(rule.ends == ends for rule in rules)
    }
    found = list(_matched(lines, rules))
    ends = _reaches(found, lines, brackets, comments)
    definitions = tuple(_nested(found, ends, lines, comments, test))
    blocks = sorted({d.span.start for d in definitions}.union(_paragraph_starts(lines)))
    return Outline(language=language, definitions=definitions, blocks=tuple(blocks))


MAX_FOUND = 5_000
_PAIRS = {"braces": b"{}", "parens": b"()"}


class _Match(Struct, frozen=True):
    line: int
    name: bytes
    at: int
    scope: bytes
    rule: Rule
    rank: int


def _matched(lines: Sequence[Line], rules: Sequence[Rule]) -> Iterator[_Match]:
    count = 0
    for index, line in enumerate(lines):
        for rule in rules:
            found = rule.pattern.match(line.text)
            if found and (name := found["name"].strip()):
                groups = found.groupdict()
                rank = len(groups["level"]) if groups.get("level") else rule.rank
                yield _Match(index, name, line.start + found.start("name"), groups.get("scope") or b"", rule, rank)
                count += 1
                break
        if count >= MAX_FOUND:
            return


def _reaches(
    found: Sequence[_Match], lines: Sequence[Line], brackets: Mapping[str, _Brackets], comments: Sequence[bytes]
) -> list[tuple[int, int]]:
    """For each match the line its head ends on and the one after its last."""
    reaches: list[tuple[int, int]] = []
    indents = [-1 if line.blank else len(line.text) - len(line.text.lstrip()) for line in lines]
    for index, match in enumerate(found):
        head = match.line
        end = head + 1
        if match.rule.ends in brackets:
            head, end = brackets[match.rule.ends].reach(match, lines)
        elif match.rule.ends == "indent":
            end = _indented(head, lines, indents)
        elif match.rule.ends == "tag":
            end = _closed_tag(match, lines, indents)
        elif match.rule.ends == "next":
            end = _next(index, found, lines, comments)
        reaches.append((head, end))
    return reaches


def _next(index: int, found: Sequence[_Match], lines: Sequence[Line], comments: Sequence[bytes]) -> int:
    """Down to the next definition of this rank or above, or to the comments that belong to it."""
    match = found[index]
    following = (later for later in found[index + 1 :] if later.rule.ends == "next" and later.rank <= match.rank)
    end = next((later.line for later in following), len(lines))
    while end < len(lines) and end - 1 > match.line and lines[end - 1].text.startswith(tuple(comments) or b"\n"):
        end -= 1
    while end - 1 > match.line and lines[end - 1].blank:
        end -= 1
    return end


def _closed_tag(match: _Match, lines: Sequence[Line], indents: Sequence[int]) -> int:
    closing = b"</" + match.name + b">"
    for index in range(match.line, len(lines)):
        if closing in lines[index].text and indents[index] <= indents[match.line]:
            return index + 1
    return match.line + 1


def _indented(first: int, lines: Sequence[Line], indents: Sequence[int]) -> int:
    end = last = first + 1
    while end < len(lines) and not -1 < indents[end] <= indents[first]:
        end += 1
        last = end if indents[end - 1] >= 0 else last
    closes = end < len(lines) and lines[end].text.lstrip().startswith((b"}", b")", b"]", b"end", b"</"))
    return end + 1 if closes and indents[end] == indents[first] and end > first + 1 else last


class _Brackets:
    """Where every opening bracket of a text is closed; those in strings and comments do not count."""

    def __init__(self, data: bytes, pair: bytes, comments: Sequence[bytes]) -> None:
        marks = b"|".join(re.escape(mark) + rb"[^\n]*" for mark in comments)
        skip = rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'' + (b"|" + marks if marks else b"")
        self.opened: list[int] = []
        self.closed: dict[int, int] = {}
        waiting: list[int] = []
        for token in re.finditer(skip + b"|[" + re.escape(pair) + b"]", data):
            if token[0] == pair[:1]:
                self.opened.append(token.start())
                waiting.append(token.start())
            elif token[0] == pair[1:] and waiting:
                self.closed[waiting.pop()] = token.end()

    def reach(self, match: _Match, lines: Sequence[Line]) -> tuple[int, int]:
        line = lines[match.line]
        following = lines[match.line + 1] if match.line + 1 < len(lines) else line
        index = bisect_left(self.opened, line.start)
        opened = self.opened[index] if index < len(self.opened) else len(line.text)
        if index == len(self.opened) or opened >= following.end or line.text.rstrip().endswith(b";"):
            return match.line, match.line + 1
        if opened >= line.end and not following.text.strip().startswith((b"{", b"(")):
            return match.line, match.line + 1
        head = match.line if opened < line.end else match.line + 1
        closed = self.closed.get(opened)
        end = match.line + 1
        if closed is not None:
            end = max(end, bisect_left(lines, closed, key=lambda each: each.end) + 1)
        return match.line, max(end, head + 1)


def _nested(
    found: Sequence[_Match],
    ends: Sequence[tuple[int, int]],
    lines: Sequence[Line],
    comments: Sequence[bytes],
    test: re.Pattern[str] | None,
) -> Iterator[Definition]:
    open_: list[tuple[int, int, str]] = []
    for index, (match, (head, end)) in enumerate(zip(found, ends, strict=True)):
        while open_ and (open_[-1][0] <= match.line or open_[-1][0] < end):
            open_.pop()
        name = match.name.decode("utf-8", "replace")
        around = open_[-1][2] if open_ else ""
        qualified = ".".join(part for part in (around, match.scope.decode("utf-8", "replace"), name) if part)
        first = match.line
        while first > 0 and comments and lines[first - 1].text.lstrip().startswith(tuple(comments)):
            first -= 1
        yield Definition(
            name=name,
            qualified=qualified,
            kind=match.rule.kind,
            span=Span(lines[first].start, lines[end - 1].end),
            head=Span(lines[first].start, lines[head].end),
            name_at=match.at,
            parent=open_[-1][1] if open_ else -1,
            doc=Span(lines[first].start, lines[match.line].start) if first < match.line else None,
            test=bool(test and test.search(qualified)),
        )
        open_.append((end, index, qualified))


# --- notebooks -------------------------------------------------------------------------------------------------

_CELL_TYPE = re.compile(rb'\s*"cell_type"\s*:\s*"(\w+)"')
_SOURCE = re.compile(rb'\s*"source"\s*:\s*\[\s*\Z')
_STRING = re.compile(rb'\s*("(?:[^"\\]|\\.)*")\s*,?\s*\Z')


class Cell(Struct, frozen=True):
    """A cell's kind and, for each line of its source, the index of the line that stores it with its text."""

    kind: str
    first: int
    last: int
    source: tuple[tuple[int, bytes], ...]

    @property
    def title(self) -> bytes:
        if self.kind == "markdown":
            for _, text in self.source:
                if found := _ATX.match(text):
                    return _plain(found[2] or b"")
        return b""


def cells_of(data: bytes) -> list[Cell]:
    """The cells of a notebook as every tool writes one: a line of source on each line. Outputs are left out."""
    found: list[Cell] = []
    kind, inside = "code", -1
    source: list[tuple[int, bytes]] = []
    for index, line in enumerate(lines_of(data)):
        if inside < 0:
            if named := _CELL_TYPE.match(line.text):
                kind = named[1].decode()
            elif _SOURCE.match(line.text):
                inside, source = index, []
        elif stored := _STRING.match(line.text):
            source.append((index, _unescaped(stored[1])))
        else:
            found.append(Cell(kind, inside, index, tuple(source)))
            inside = -1
    return found


def _unescaped(stored: bytes) -> bytes:
    try:
        text = json.loads(stored.decode("utf-8", "replace"))
    except ValueError:
        return b""
    return text.replace("\r", "").replace("\n", "").encode("utf-8", "replace") if isinstance(text, str) else b""


def notebook(data: bytes, language: str) -> Outline:
    """One definition for each cell, named by its heading or its number."""
    lines = lines_of(data)
    definitions = []
    for number, cell in enumerate(cells_of(data), start=1):
        name = cell.title.decode("utf-8", "replace") or f"cell {number}"
        span = Span(lines[cell.first].start, lines[cell.last].end)
        definitions.append(Definition(name, name, "cell", span, span, span.start))
    blocks = tuple(definition.span.start for definition in definitions)
    return Outline(language=language, definitions=tuple(definitions), blocks=blocks)


def notebook_code(data: bytes) -> bytes:
    """The code of a notebook's cells, each line on the line that stores it and every other line empty."""
    texts = [b""] * len(lines_of(data))
    for cell in cells_of(data):
        for index, text in cell.source if cell.kind == "code" else ():
            texts[index] = b"" if text.startswith((b"%", b"!", b"?")) else text
    return b"\n".join(texts)


def moved(outline: Outline, written: bytes, data: bytes) -> Outline:
    """An outline of one text as one of another with the same lines stored differently."""
    old, new = [line.start for line in lines_of(written)], [line.start for line in lines_of(data)]

    def at(offset: int) -> int:
        line = bisect_right(old, offset) - 1
        return new[line] if 0 <= line < len(new) else len(data)

    def end(offset: int) -> int:
        line = bisect_left(old, offset)
        return new[line] if line < len(new) else len(data)

    def span(each: Span) -> Span:
        return Span(at(each.start), end(each.end))

    return structs.replace(
        outline,
        definitions=tuple(
            structs.replace(
                d, span=span(d.span), head=span(d.head), doc=span(d.doc) if d.doc else None, name_at=at(d.name_at)
            )
            for d in outline.definitions
        ),
        uses=packed(structs.replace(r, at=at(r.at)) for r in outline.references),
        imports=tuple(structs.replace(i, at=at(i.at)) for i in outline.imports),
        blocks=tuple(sorted({at(block) for block in outline.blocks})),
    )
