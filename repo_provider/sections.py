"""Outlines of text that has no grammar: headings of prose, line patterns of small formats, paragraphs of the rest.

Not a parser: one pass over the lines, so it cannot hang or crash and needs no worker's protection. `syntax` calls it
with what a language's manifest says under `[outline]` and is the only caller; a tree-sitter grammar, where there is
one, is used instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from repo_provider.model import Definition, Outline, Span


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
    title = re.sub(rb"!?\[([^\]\n]*)\](?:\([^()\n]*\)|\[[^\]\n]*\])?", rb"\1", title)
    title = _HTML_TAG.sub(b"", title)
    title = re.sub(rb"[ \t]*\{#[^{}\n]*\}[ \t]*\Z", b"", title)
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
