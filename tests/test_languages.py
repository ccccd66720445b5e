"""Every language's outline of a small real-looking sample, compared whole.

`fixtures/languages/LANGUAGE/` holds samples and, beside each, the outline we say it has. `--update` rewrites those;
the difference is read before it is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from repo_provider import files, model, syntax

SAMPLES = Path(__file__).parents[1] / "fixtures" / "languages"
FOUND = sorted(path for path in SAMPLES.glob("*/*") if path.suffix != ".outline")


@pytest.mark.parametrize("sample", FOUND, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_a_sample_has_exactly_the_outline_we_say(sample: Path, update: bool) -> None:
    shown = rendered(sample)
    expected = sample.with_name(sample.name + ".outline")
    if update:
        expected.write_text(shown, encoding="utf-8")
    assert expected.read_text("utf-8") == shown


@pytest.mark.parametrize("language", sorted(files.languages()))
def test_every_language_has_a_sample(language: str) -> None:
    assert language in {path.parent.name for path in FOUND}


@pytest.mark.parametrize("sample", FOUND, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_an_outline_keeps_its_own_rules(sample: Path) -> None:
    data = sample.read_bytes()
    outline = syntax.outline(data, sample.parent.name)
    check(outline, data)
    assert outline == syntax.decode_outline(syntax.outline_task(syntax.encode_task(data, sample.parent.name)))


@pytest.mark.parametrize("sample", FOUND, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_the_line_pattern_knows_most_of_what_the_grammar_finds(sample: Path) -> None:
    """Level one ranks by names it takes from lines; it may miss a few and must not invent a language of its own."""
    data = sample.read_bytes()
    language = files.languages()[sample.parent.name]
    if language.level != "depth":
        return
    kinds = {"function", "method", "class", "struct", "interface", "trait", "enum"}
    outline = syntax.outline(data, language.name)
    defined = {d.name for d in outline.definitions if d.kind in kinds and d.name.isidentifier()}
    assert 0.8 * len(defined) <= len(defined & {name.decode() for name in language.names(data)})


# --- broken code ------------------------------------------------------------------------------------------------

PARSED = [path for path in FOUND if files.languages()[path.parent.name].grammars]
GARBAGE = b"%% ) ] = @\n"


@pytest.mark.parametrize("sample", PARSED, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_a_text_cut_short_keeps_what_came_before(sample: Path) -> None:
    data, found = sample.read_bytes(), Counter[bool]()
    whole = syntax.outline(data, sample.parent.name).definitions
    for at in places(data):
        outline = syntax.outline(data[:at], sample.parent.name)
        check(outline, data[:at])
        names = {definition.name for definition in outline.definitions}
        found.update(definition.name in names for definition in whole if definition.span.end <= at)
    assert 0.9 <= (1 + found[True]) / (1 + found.total()), found


@pytest.mark.parametrize("sample", PARSED, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_a_line_of_garbage_keeps_what_is_around_it(sample: Path) -> None:
    """All but the smallest pieces that the line falls into, of which only the outermost counts."""
    data, found = sample.read_bytes(), Counter[bool]()
    whole = syntax.outline(data, sample.parent.name).definitions
    for at in places(data):
        broken = data[:at] + GARBAGE + data[at:]
        outline = syntax.outline(broken, sample.parent.name)
        check(outline, broken)
        names = {definition.name for definition in outline.definitions}
        hit = [d for d in whole if d.parent >= 0 and d.span.start < at < d.span.end]
        found.update(d.name in names for d in whole if d.kind in OUTLINED and d not in hit)
    assert 0.9 <= (1 + found[True]) / (1 + found.total()), found


OUTLINED = frozenset(("function", "method", "class", "struct", "module", "trait", "interface", "enum"))


def places(data: bytes) -> list[int]:
    """Line starts all over a text."""
    return model.Text(data).starts[2:-1:3]


def check(outline: model.Outline, data: bytes) -> None:
    """What holds for every outline whatever the bytes."""
    text = model.Text(data)
    starts = set(text.starts)
    ends = starts | {len(data)}
    spans = [d.span for d in outline.definitions]
    assert spans == sorted(spans, key=lambda span: (span.start, -span.end))
    for index, definition in enumerate(outline.definitions):
        assert definition.name
        assert definition.qualified.endswith(definition.name)
        for span in filter(None, (definition.span, definition.head, definition.doc)):
            assert span.start in starts
            assert span.end in ends
            assert span.start < span.end
        assert definition.span.start <= definition.head.start
        assert definition.head.end <= definition.span.end
        assert definition.span.start <= definition.name_at < definition.span.end
        assert -1 <= definition.parent < index
    assert list(outline.blocks) == sorted(set(outline.blocks))
    assert starts.issuperset(outline.blocks)
    for reference in outline.references:
        assert -1 <= reference.scope < len(outline.definitions)
        assert 0 <= reference.at < len(data)


# --- an outline as text ----------------------------------------------------------------------------------------


def rendered(sample: Path) -> str:
    data = sample.read_bytes()
    outline = syntax.outline(data, sample.parent.name)
    return "\n".join(_lines(outline, model.Text(data))) + "\n"


def _lines(outline: model.Outline, text: model.Text) -> Iterator[str]:
    yield f"{outline.language}, {'complete' if outline.complete else 'plain: ' + outline.note}"
    yield "definitions:"
    for definition in outline.definitions:
        yield "  " + _definition(outline, definition, text)
    yield "imports:"
    for each in outline.imports:
        names = ", ".join(name if name == alias else f"{name or '(module)'} as {alias}" for name, alias in each.names)
        yield f"  {text.line_of(each.at)} {'.' * each.relative}{each.module}{': ' + names if names else ''}"
    yield "references:"
    for scope in (-1, *range(len(outline.definitions))):
        used = [_reference(r) for r in outline.references if r.scope == scope]
        if used:
            yield f"  {outline.definitions[scope].qualified if scope >= 0 else '(file)'}: {', '.join(used)}"
    yield f"blocks: {' '.join(str(text.line_of(block)) for block in outline.blocks)}"


def _definition(outline: model.Outline, definition: model.Definition, text: model.Text) -> str:
    depth, parent = 0, definition.parent
    while parent >= 0:
        depth, parent = depth + 1, outline.definitions[parent].parent
    first, last = text.lines(definition.span)
    parts = [f"{first}-{last}", f"{'  ' * depth}{definition.kind} {definition.qualified}"]
    parts.append(f"head {'-'.join(map(str, text.lines(definition.head)))}")
    if definition.doc:
        parts.append(f"doc {'-'.join(map(str, text.lines(definition.doc)))}")
    if definition.test:
        parts.append("test")
    if definition.name_at < 0 or not text.data[definition.name_at :].startswith(definition.name.encode()):
        parts.append("renamed")
    return "  ".join(parts)


def _reference(reference: model.Reference) -> str:
    before = f"{reference.qualifier}|" if reference.qualifier else ""
    return f"{reference.kind} {before}{reference.name}"
