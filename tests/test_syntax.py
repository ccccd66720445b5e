"""Level two on texts that are broken, deep, huge or strange; versions; grammars that do not load."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider import files, sections, syntax
from repo_provider.model import Outline
from repo_provider.workers import Workers
from tests.faults import fault
from tests.test_languages import check

WALL = 60.0
TASK = "repo_provider.syntax:outline_task"


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    workers = Workers(1)
    yield workers
    workers.close()


def names(outline: Outline) -> list[str]:
    return [definition.qualified for definition in outline.definitions]


# --- broken text -----------------------------------------------------------------------------------------------


def test_an_error_does_not_lose_the_definitions_around_it() -> None:
    data = b"def a():\n    return 1\n\nclass B(:\n    def m(self):\n        return (\n\ndef c():\n    pass\n"
    assert {"a", "c"} <= set(names(syntax.outline(data, "python")))


def test_a_definition_that_the_parser_swallows_is_found_by_its_line() -> None:
    data = b"x = [1, 2\n\ndef last(a):\n    return a\n\n\ndef very_last():\n    pass\n"
    outline = syntax.outline(data, "python")
    check(outline, data)
    assert {"last", "very_last"} <= set(names(outline))


CONFLICT = b"""class A {
<<<<<<< HEAD
  void f() {
    g();
||||||| base
  void f(
=======
  void h() { {
>>>>>>> topic
  }
  int last() { return 1; }
}
"""


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_of_a_conflict_our_side_is_read(end: bytes) -> None:
    data = CONFLICT.replace(b"\n", end)
    outline = syntax.outline(data, "java")
    check(outline, data)
    assert ["A", "A.f", "A.last"] == names(outline)


def test_scripts_of_one_page_are_read_together() -> None:
    """Their number does not multiply the work: each was read with the whole page around it."""
    data = b"<p>\n<script>\nfunction f() {}\n</script>\n<script lang=ts>\nenum E { a }\n</script>\n" * 2_000
    outline = syntax.outline(data, "vue")
    check(outline, data)
    assert 2_000 == names(outline).count("f") == names(outline).count("E")


@fault(83)
def test_a_byte_order_mark_does_not_hide_the_first_definition() -> None:
    data = b"\xef\xbb\xbfdef first(): pass\n"
    outline = syntax.outline(data, "python")
    assert ["first"] == names(outline)
    assert 0 == outline.definitions[0].span.start


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\r\n", b"\0", b"\xff\xfd", b"def", b"def f(): pass", b"\\\n\\"])
@pytest.mark.parametrize("language", sorted(files.languages()))
def test_odd_bytes_give_an_outline(language: str, data: bytes) -> None:
    check(syntax.outline(data, language), data)


def test_windows_line_ends_change_nothing_but_offsets() -> None:
    data = b'# About.\ndef f():\n    """Doc."""\n\n\nclass A:\n    x = 1\n'
    unix, windows = syntax.outline(data, "python"), syntax.outline(data.replace(b"\n", b"\r\n"), "python")
    assert names(unix) == names(windows)
    assert len(unix.blocks) == len(windows.blocks)


PIECES = st.sampled_from(
    rb"""def f(a): |class A: |    |# note|@d|return x.y()|"|'|(|)|import os|{|}|fn f() |/** d */|function g() {|=|<!--
|---|## Title|struct S {};|end|do |interface I {|\t|A::b(c);|\xff|<script>|</script>|"""
    b'"""|\xff|\r|\n|\n'.split(b"|")
)


@given(st.lists(PIECES, max_size=30), st.sampled_from(sorted(files.languages())))
def test_every_text_gives_an_outline_that_keeps_the_rules(pieces: list[bytes], language: str) -> None:
    data = b"".join(pieces)
    outline = syntax.outline(data, language)
    check(outline, data)
    assert outline == syntax.outline(data, language)  # P1


# --- deep and huge text ----------------------------------------------------------------------------------------

DEEP = {
    "python": b"x = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n",
    "javascript": b"x = " + b"(" * 100_000 + b"1" + b")" * 100_000 + b"\n",
    "cpp": b"int t[] = { " + b"{1, 2}, " * 15_000 + b"};\n",
    "java": b"class A { void f() " + b"{" * 10_000 + b"}" * 10_000 + b" }\n",
    "c": b"static const int t[] = { " + b", ".join(b"%d" % i for i in range(400_000)) + b" };\n",
    "rust": b"fn f() " + b"{" * 10_000 + b"}" * 10_000 + b"\n",
    "go": b"package a\nvar x = " + b"[]int{" * 5_000 + b"}" * 5_000 + b"\n",
    "markdown": b"> " * 5_000 + b"\n" + b"# a\n" * 50_000,
}
ENDLESS = {"typescript": b"(" * 200_000}
PLAIN = syntax.encode_task(b"def f(): pass\n", "python")
PLAIN_OUTLINE = syntax.outline_task(PLAIN)


@fault(36, 37, 41)
@pytest.mark.parametrize("language", sorted(DEEP))
def test_a_deep_or_long_text_has_an_outline(language: str, pool: Workers) -> None:
    """Faults 36, 37, 41: without recursion, in a process that could be killed."""
    payloads = [PLAIN, syntax.encode_task(DEEP[language], language), PLAIN]
    before, deep, after = pool.run(TASK, payloads, wall=WALL)
    assert PLAIN_OUTLINE == before == after
    assert deep is not None
    assert language == syntax.decode_outline(deep).language


@fault(39)
@pytest.mark.parametrize("language", sorted(ENDLESS))
def test_a_text_that_takes_a_grammar_minutes_costs_itself_only(language: str, pool: Workers) -> None:
    """Fault 39: nothing inside the process stops it, so it is ended from outside."""
    payloads = [PLAIN, syntax.encode_task(ENDLESS[language], language), PLAIN]
    assert [PLAIN_OUTLINE, None, PLAIN_OUTLINE] == pool.run(TASK, payloads, wall=2.0)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory it takes from /proc")
def test_memory_does_not_grow_with_the_number_of_parses() -> None:
    """Fault 43, in short; the long form is below."""
    assert growth(2_000) < 4 << 20


@fault(43)
@pytest.mark.slow
def test_memory_does_not_grow_over_twenty_thousand_parses() -> None:
    assert growth(20_000) < 20 << 20


def growth(parses: int) -> int:
    """Bytes that the process of many parses of a 200-line file gains after a warm-up."""
    script = (
        "from repo_provider import syntax\n"
        'data = b\'\'.join(b\'class C%d(B):\\n    """D."""\\n    def m(self, a):\\n        return self.n(a)\\n\' % i'
        " for i in range(50))\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "for _ in range(300): syntax.outline(data, 'python')\n"
        "start = resident()\n"
        f"for _ in range({parses}): syntax.outline(data, 'python')\n"
        "print(resident() - start)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=dict(os.environ))
    return int(done.stdout)


def test_a_text_too_large_to_parse_is_cut_as_plain_text() -> None:
    outline = syntax.outline(b"x = 1\n\n" * (syntax.MAX_BYTES // 7 + 1), "python")
    assert not outline.complete
    assert "too large to parse" == outline.note
    assert outline.blocks


# --- grammars --------------------------------------------------------------------------------------------------


def test_every_grammar_loads_and_says_where_it_is_from() -> None:
    """Faults 34, 35."""
    for status in syntax.languages_status():
        assert "" == status.error, status
        if files.languages()[status.name].grammars:
            assert status.version
            assert 13 <= status.abi <= 15


@fault(34)
def test_a_grammar_that_does_not_load_costs_its_language_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 34, 115."""
    broken = files.Language(
        "broken", level="depth", grammars=(files.Grammar("tree_sitter_python", "no_such_function"),)
    )
    monkeypatch.setattr(syntax, "languages", lambda: {**files.languages(), "broken": broken})
    outline = syntax.outline(b"def f(): pass\n\n\nx\n", "broken")
    assert not outline.complete
    assert "no_such_function" in outline.note
    assert (0, 16) == outline.blocks
    assert ["f"] == names(syntax.outline(b"def f(): pass\n", "python"))
    (status,) = [status for status in syntax.languages_status() if status.name == "broken"]
    assert "no_such_function" in status.error


def test_a_query_that_fails_costs_its_pattern_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar of another version may not know a node that a pattern names."""
    text = "(no_such_node) @reference.call\n(function_definition name: (identifier) @name) @definition.function\n"
    monkeypatch.setattr(syntax, "_queries", lambda language: text)
    analyser = syntax._Analyser(files.languages()["python"], syntax._load("tree_sitter_python", "language"))
    assert ["f"] == names(analyser.outline(b"def f(): pass\n"))
    assert "no_such_node" in analyser.lost


SCM = sorted(files.grammars_folder().glob("*/*.scm"))


@pytest.mark.parametrize("path", SCM, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_queries_stay_clear_of_what_the_binding_gets_wrong(path: Path) -> None:
    """`#match?` raises on bytes that are not UTF-8; a `#set!` behind another predicate frees that one twice."""
    text = path.read_text("utf-8")
    assert "match?" not in text
    for pattern in syntax._PATTERNS.findall(text):
        kinds = re.findall(r"\(#([\w-]+[?!])", pattern)
        assert kinds == sorted(kinds, key=lambda kind: kind != "set!")


def test_dropping_a_query_frees_nothing_twice() -> None:
    script = (
        "from repo_provider import files, syntax\n"
        "for language in files.languages().values():\n"
        "    for grammar in language.grammars[:1]:\n"
        "        for _ in range(3): syntax._Analyser(language, syntax._load(grammar.module, grammar.function))\n"
        "print('done')\n"
    )
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "165"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment)
    assert (0, b"done\n") == (done.returncode, done.stdout)


@pytest.mark.parametrize(
    ("language", "data"),
    [
        ("python", b"if x:\n    A = 1\n    s = 'gar\xe7on'\n\ndef last(): pass\n"),
        ("javascript", b"const a = <Gar\xe7on/>;\nfunction last() {}\n"),
        ("elixir", b"defmodule A do\n  alias A.B, gar\xe7on: C\n  def last, do: 1\nend\n"),
        ("objc", b"typedef NS_ENUM(gar\xe7on, T) { a };\nint last() { return 1; }\n"),
        ("cpp", b"TEST(Gar\xe7on, A) {}\nint last() { return 1; }\n"),
    ],
)
def test_bytes_that_are_not_utf_8_cost_nothing(language: str, data: bytes) -> None:
    outline = syntax.outline(data, language)
    assert outline.complete
    assert "last" in {definition.name for definition in outline.definitions}


@fault(116)
def test_a_query_that_raises_costs_its_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 116."""

    class Failing:
        def __init__(self, query: object, match_limit: int) -> None:
            pass

        def matches(self, node: object) -> None:
            raise SystemError("from the query layer")

    monkeypatch.setattr("tree_sitter.QueryCursor", Failing)
    outline = syntax.outline(b"def f(): pass\n", "python")
    assert (False, "query failed: from the query layer") == (outline.complete, outline.note)


def test_an_unknown_language_is_plain_text() -> None:
    assert ((), (0,)) == (syntax.outline(b"a\n", "klingon").definitions, syntax.outline(b"a\n", "klingon").blocks)


def test_the_version_names_code_queries_grammar_and_binding() -> None:
    versions = {language: syntax.analyser_version(language) for language in files.languages()}
    assert len(versions) == len(set(versions.values()))
    assert all(len(version) == 16 for version in versions.values())
    assert syntax.ANALYSER_VERSION == syntax.ANALYSER_VERSION


def test_a_version_is_had_without_the_native_binding() -> None:
    script = (
        "import sys\nfrom repo_provider import syntax\nsyntax.ANALYSER_VERSION\n"
        "print([name for name in sys.modules if name.startswith('tree_sitter')])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=dict(os.environ))
    assert b"[]" == done.stdout.strip()


# --- prose -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "style", "data"),
    [
        (["A", "A.B", "C"], "markdown", b"# A\n## B\n# C\n"),
        (["A"], "markdown", b"A\n===\n\nb\nc\n---\n"),
        (["A", "A.B", "C"], "rest", b"A\n=\n\n===\nA\n===\n\nB\n---\n\n===\nC\n===\n"),
        (["A", "A.B"], "asciidoc", b"= A\n\n----\n== no\n----\n\n== B\n"),
        (["link"], "markdown", b"# [link](http://a.b/c)\n"),
    ],
)
def test_headings_make_sections(expected: list[str], style: str, data: bytes) -> None:
    assert expected == names(sections.headings(data, "prose", style))
