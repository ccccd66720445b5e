"""Edges, outlines as prose and hops, over a few files with no repository, store or parser process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider import graph, imports, syntax
from repo_provider.files import language_of, languages
from repo_provider.graph import Edge, Graph, Region, Wish, symbol_uri
from repo_provider.imports import Modules, Tree
from repo_provider.model import Anchor, Outline, Path, Span, Text
from repo_provider.planner import anchor as understood


class Made:
    """Small files with their outlines, and a graph over them that knows definers by their outlines."""

    def __init__(self, files: Mapping[str, str], asked: Sequence[tuple[str, str]] = ()) -> None:
        self.texts = {Path(path.encode()): Text(text.encode()) for path, text in sorted(files.items())}
        self.languages = {path: language_of(path, text.data).name for path, text in self.texts.items()}
        self.outlines = {path: syntax.outline(text.data, self.languages[path]) for path, text in self.texts.items()}
        modules = Modules(
            Tree(self.texts),
            lambda language: imports.rules(language, languages()[language].imports),
            lambda path: self.texts[path].data,
        )
        wanted = frozenset((Path(path.encode()), name) for path, name in asked)
        self.graph = Graph(
            modules, self.definers, self.languages.__getitem__, lambda path: path.startswith(b"tests/"), wanted
        )

    def definers(self, names: Sequence[str]) -> dict[str, tuple[Path, ...]]:
        return {
            name: tuple(
                path
                for path, outline in self.outlines.items()
                if any(one.name == name and one.kind != "section" for one in outline.definitions)
            )
            for name in names
        }

    def region(self, path: str, name: str = "") -> Region:
        at = Path(path.encode())
        outline, text = self.outlines[at], self.texts[at]
        spans = [one.span for one in outline.definitions if name and one.qualified == name]
        prose = languages()[self.languages[at]].prose
        return Region(at, outline, spans[0] if spans else Span(0, len(text.data)), text, prose)

    def edges(self, path: str, name: str = "") -> list[tuple[str, str]]:
        (draft,) = self.graph.drafts([self.region(path, name)])
        opened = {one: self.outlines[one] for one in self.graph.opened([draft], {})}
        return [
            (edge.rel, edge.path.decode() + (f"#{edge.name}" if edge.name else ""))
            for edge in self.graph.edges(draft, opened)
        ]

    def of(self, rel: str, path: str, name: str = "") -> list[str]:
        return [target for found, target in self.edges(path, name) if found == rel]


RETRY = "class Policy:\n    def next_delay(self):\n        return cap(1)\n\n\ndef cap(value):\n    return value\n"
CLIENT = (
    "import os\nfrom app.retry import Policy, cap as limited\nfrom app import retry\n\n\n"
    "def fetch(policy: Policy):\n    print(os.getpid())\n    retry.cap(2)\n    limited(3)\n    policy.next_delay()\n"
    "    return Fetcher().go()\n\n\n"
    "class Fetcher(Policy):\n    def go(self):\n        self.wait()\n        return fetch(self)\n\n"
    "    def wait(self):\n        pass\n"
)
PYTHON = {"app/__init__.py": "", "app/retry.py": RETRY, "app/client.py": CLIENT}


# --- what a region has to do with others


def test_a_function_calls_what_its_imports_bring_and_what_its_file_defines() -> None:
    made = Made(PYTHON)
    assert [
        ("code.calls", "app/retry.py#cap"),
        ("code.calls", "app/retry.py#Policy.next_delay"),
        ("code.calls", "app/client.py#Fetcher"),
        ("code.defines", "app/client.py#fetch"),
        ("code.imports", "app/retry.py"),
        ("code.references", "app/retry.py#Policy"),
    ] == made.edges("app/client.py", "fetch")


def test_a_method_calls_methods_of_its_class_by_self() -> None:
    made = Made(PYTHON)
    assert ["app/client.py#Fetcher.wait", "app/client.py#fetch"] == made.of("code.calls", "app/client.py", "Fetcher.go")
    assert ["app/retry.py#cap"] == made.of("code.calls", "app/retry.py", "Policy.next_delay")


def test_a_region_that_holds_imports_names_them_all() -> None:
    assert ["app/retry.py"] == Made(PYTHON).of("code.imports", "app/client.py")


def test_what_comes_from_outside_is_never_taken_for_something_of_the_same_name_here() -> None:
    made = Made(
        {
            "a.py": "from numpy import array\n\n\ndef f():\n    array(1)\n    sorted(2)\n",
            "b.py": "def array():\n    pass\n\n\ndef sorted():\n    pass\n",
        }
    )
    assert [("code.defines", "a.py#f")] == made.edges("a.py", "f")


def test_a_name_is_followed_through_files_that_pass_it_on() -> None:
    files = {
        "app/__init__.py": "from .api import get as get\n",
        "app/api.py": "from .deep import *\n",
        "app/deep.py": "def get():\n    pass\n",
        "other/deep.py": "def get():\n    pass\n",
        "main.py": "import app\nfrom app import get\n\n\ndef run():\n    get()\n    app.get()\n",
    }
    assert ["app/deep.py#get"] == Made(files).of("code.calls", "main.py", "run")


def test_an_import_inside_a_function_holds_there_alone() -> None:
    text = "def one():\n    from b import app\n    app()\n\n\ndef two(app):\n    app()\n"
    made = Made({"a.py": text, "b.py": "def app():\n    pass\n"})
    assert (["b.py#app"], []) == (made.of("code.calls", "a.py", "one"), made.of("code.calls", "a.py", "two"))


def test_a_method_of_something_unknown_is_resolved_by_a_telling_name_alone() -> None:
    files = {
        "a.py": "def f(x):\n    x.next_delay()\n    x.get()\n    x.run_twice()\n",
        "b.py": "class B:\n    def next_delay(self): ...\n    def get(self): ...\n    def run_twice(self): ...\n",
        "c.py": "class C:\n    def run_twice(self): ...\n",
        "tests/b.py": "def next_delay(): ...\n",
    }
    assert ["b.py#B.next_delay"] == Made(files).of("code.calls", "a.py", "f")


def test_names_that_half_the_world_has_are_of_nothing_here() -> None:
    names = ("getName", "has_next", "toList", "get", "__enter__", "as_view", "setNestingLimit")
    files = {
        "a.py": "def f(x):\n" + "".join(f"    x.{name}()\n" for name in names),
        "b.py": "class B:\n" + "".join(f"    def {name}(self): ...\n" for name in names),
    }
    assert ["b.py#B.setNestingLimit"] == Made(files).of("code.calls", "a.py", "f")


def test_a_bare_name_from_another_file_is_of_its_top_alone() -> None:
    files = {
        "src/a/A.kt": "package a\n\nclass A {\n    fun check() {}\n}\n\nfun top() {}\n",
        "src/a/B.kt": "package a\n\nfun f() {\n    check()\n    top()\n}\n",
    }
    assert ["src/a/A.kt#top"] == Made(files).of("code.calls", "src/a/B.kt", "f")


def test_languages_of_one_family_see_each_other_and_others_do_not() -> None:
    files = {"a.js": "import { get } from './b'\nfunction f() { get(); }\n", "b.ts": "export function get() {}\n"}
    assert ["b.ts#get"] == Made(files).of("code.calls", "a.js", "f")
    made = Made({"a.py": "def f(x):\n    x.next_delay()\n", "b.rb": "def next_delay\nend\n"})
    assert [] == made.of("code.calls", "a.py", "f")


@pytest.mark.parametrize(
    ("files", "place", "expected"),
    [
        pytest.param(
            {
                "go.mod": "module m\n",
                "net/a.go": "package net\n\nfunc Get() {}\n",
                "net/b.go": "package net\n\nfunc F() { Get() }\n",
            },
            ("net/b.go", "F"),
            ["net/a.go#Get"],
            id="go: the same folder",
        ),
        pytest.param(
            {
                "go.mod": "module m\n",
                "net/net.go": "package net\n",
                "net/a.go": "package net\n\nfunc Get() {}\n",
                "main.go": 'package main\n\nimport "m/net"\n\nfunc main() { net.Get() }\n',
            },
            ("main.go", "main"),
            ["net/a.go#Get"],
            id="go: the file of a package that defines the name",
        ),
        pytest.param(
            {
                "Cargo.toml": '[package]\nname = "x"\n',
                "src/lib.rs": "mod net;\n",
                "src/net.rs": "pub struct Client;\nimpl Client { pub fn open() {} }\npub fn get() {}\n",
                "src/a.rs": "use crate::net::Client;\nfn f() { Client::open(); crate::net::get(); }\n",
            },
            ("src/a.rs", "f"),
            ["src/net.rs#Client.open", "src/net.rs#get"],
            id="rust: a type's function, and a full path",
        ),
        pytest.param(
            {
                "src/a/B.java": "package a;\nclass B {\n  static void go() {}\n}\n",
                "src/a/C.java": "package a;\nclass C {\n  void f() { B.go(); }\n}\n",
            },
            ("src/a/C.java", "C.f"),
            ["src/a/B.java#B.go"],
            id="java: a type of the same package",
        ),
        pytest.param(
            {
                "include/x.h": "int x_get(int a);\n",
                "main.c": "#include <x.h>\n\nint main(void) {\n  return x_get(1);\n}\n",
            },
            ("main.c", "main"),
            ["include/x.h#x_get"],
            id="c: an included header",
        ),
        pytest.param(
            {
                "lib/x.rb": "module Acme\n  class Net\n    def self.get; end\n  end\nend\n",
                "a.rb": "def f\n  Acme::Net.get\nend\n",
            },
            ("a.rb", "f"),
            ["lib/x.rb#Acme.Net.get"],
            id="ruby: a constant from anywhere",
        ),
        pytest.param(
            {
                "lib/acme/net.ex": "defmodule Acme.Net do\n  def get(x), do: x\nend\n",
                "lib/a.ex": "defmodule A do\n  alias Acme.Net\n"
                "  def f, do: Net.get(1)\n  def g, do: Acme.Net.get(1)\nend\n",
            },
            ("lib/a.ex", "A.g"),
            ["lib/acme/net.ex#Acme.Net.get"],
            id="elixir: a module by its full name",
        ),
    ],
)
def test_calls_are_resolved_as_the_language_does(
    files: dict[str, str], place: tuple[str, str], expected: list[str]
) -> None:
    assert expected == Made(files).of("code.calls", *place)


def test_prose_documents_the_files_and_definitions_that_it_names() -> None:
    doc = (
        "# Guide\n\nSee `Policy` and `Policy.next_delay()` in src/app/retry.py, also `README.md`. "
        "The word policy, `the`\n"
        "and `value` name nothing; [cap](../app/retry.py) and next_delay do.\n"
    )
    files = {**PYTHON, "docs/guide.md": doc, "README.md": "", "src/app/retry.py": ""}
    found = Made(files).of("doc.documents", "docs/guide.md")
    assert {"src/app/retry.py", "README.md", "app/retry.py#Policy", "app/retry.py#Policy.next_delay"} <= set(found)
    assert set(found) <= {
        "src/app/retry.py",
        "README.md",
        "app/retry.py",
        "app/retry.py#Policy",
        "app/retry.py#Policy.next_delay",
    }


def test_edges_are_few_and_those_to_what_is_at_hand_are_never_left_out() -> None:
    text = "from b import last\n\n\n" + "".join(f"def f{i}():\n    g{i}()\n\n\n" for i in range(40))
    text += "def last_one():\n    pass\n"
    files = {"a.py": text, "b.py": "def last():\n    pass\n"}
    assert graph.MOST_EDGES >= len(Made(files).edges("a.py"))
    assert ("code.defines", "a.py#last_one") not in Made(files).edges("a.py")
    asked = Made(files, [("b.py", "")]).edges("a.py", "f3")
    assert ("code.imports", "b.py") == asked[0]


def test_a_part_of_the_head_of_a_definition_defines_it() -> None:
    made = Made({"A.java": "/** What it\n * is for.\n */\nclass A {\n  int b;\n}\n"})
    whole = made.region("A.java")
    part = msgspec.structs.replace(whole, span=Span(0, 12))
    (draft,) = made.graph.drafts([part])
    assert (Edge("code.defines", Path(b"A.java"), "A"),) == made.graph.edges(draft, {})


def test_few_files_are_opened_and_those_that_most_regions_need_first() -> None:
    names = [f"m{i}" for i in range(30)]
    files = {f"{name}.py": f"def run_{name}():\n    pass\n" for name in names}
    lines = "".join(f"    {name}.run_{name}()\n" for name in names)
    files["a.py"] = (
        "".join(f"import {name}\n" for name in names) + f"\n\ndef f():\n{lines}\n\ndef g():\n    m9.run_m9()\n"
    )
    made = Made(files)
    drafts = made.graph.drafts([made.region("a.py", "f"), made.region("a.py", "g")])
    opened = made.graph.opened(drafts, {})
    assert (graph.MOST_OPENED, b"m9.py") == (len(opened), opened[0])
    assert [] == made.graph.opened(drafts, made.outlines)


def test_nothing_is_said_of_definitions_whose_outline_is_not_there() -> None:
    made = Made(PYTHON)
    (draft,) = made.graph.drafts([made.region("app/client.py", "fetch")])
    assert any(isinstance(each, Wish) for each in draft)
    assert {"app/client.py", "app/retry.py"} == {edge.path.decode() for edge in made.graph.edges(draft, {})}
    assert all(not edge.name or edge.path == b"app/client.py" for edge in made.graph.edges(draft, {}))


def test_a_backslash_parts_a_path_but_not_a_uri() -> None:
    for anchor, expected in [
        ("src\\net.rs", b"src/net.rs"),
        ("file:///r/odd%5Cname.rs", b"odd\\name.rs"),
        ("swh:1:cnt:" + "0" * 40 + ";path=/odd%5Cname.rs", b"odd\\name.rs"),
    ]:
        found = understood(anchor, ("/r",))
        assert found is not None
        assert expected == found.path


def test_the_uri_of_a_definition_is_an_anchor_that_finds_it() -> None:
    for path, name in ((b"src/a b#.py", "Ä.get~1"), (b"x.rb", "Rack.no_body?"), (b"\xff.js", "a b")):
        found = understood(symbol_uri(Edge("code.calls", Path(path), name)), ())
        assert found is not None
        assert (path, name) == (found.path, found.name)


@given(st.text(max_size=300), st.sampled_from(["python", "ruby", "rust", "go", "markdown", "typescript", "c", "text"]))
def test_any_text_has_edges_and_an_outline_in_words(text: str, language: str) -> None:
    data = Text(text.encode("utf-8", "replace"))
    path = Path(b"a/b")
    outline = syntax.outline(data.data, language)
    found = Graph(
        Modules(Tree([path]), lambda name: imports.rules(name, languages()[name].imports), lambda _: None),
        lambda names: dict.fromkeys(names, (path,)),
        lambda _: language,
        lambda _: False,
    )
    region = Region(path, outline, Span(0, len(data.data)), data, languages()[language].prose)
    drafts = found.drafts([region])
    assert graph.MOST_EDGES >= len(found.edges(drafts[0], {path: outline}))
    assert graph.tell(data, outline, language).endswith("\n")


# --- a file as prose


def test_a_file_is_told_by_what_it_imports_defines_and_calls() -> None:
    text = (
        '"""Doc."""\nimport os.path\nfrom . import util\nfrom ..net import get as g, put\n\nLIMIT = 3\n\n\n'
        'class Policy:\n    """How often\n    to retry. More."""\n\n'
        "    def wait(self):\n        util.sleep(LIMIT)\n        g()\n\n\n"
        "# Runs it.\ndef run():\n    Policy().wait()\n    util.sleep(1)\n"
    )
    data = text.encode()
    told = graph.tell(Text(data), syntax.outline(data, "python"), "Python")
    assert (
        "Python, 21 lines.\n\nImports: os.path, . (util), ..net (get, put).\n\n"
        "Defines 4 names:\n- constant LIMIT, line 6\n"
        "- class Policy, lines 9-15: How often to retry.\n  - method wait, lines 13-15\n"
        "- function run, lines 18-21: Runs it.\n\nCalls: util.sleep, g.\n"
    ) == told


def test_a_file_of_many_definitions_is_told_by_the_outer_ones() -> None:
    text = "".join(f"class C{i}:\n    def m(self): ...\n\n\n" for i in range(40)).encode()
    told = graph.tell(Text(text), syntax.outline(text, "python"), "Python")
    assert all(f"class C{i}," in told for i in range(40))
    assert f"- and {80 - graph.MOST_TOLD} more" in told
    assert 1_000 > len(told.split())


def test_a_file_without_anything_is_told_by_its_size() -> None:
    assert "Plain text, 0 lines.\n" == graph.tell(Text(b""), Outline("text"), "Plain text")
    assert "Plain text, 1 line.\n" == graph.tell(Text(b"a"), Outline("text"), "Plain text")


# --- hops


def hops(made: Made, anchor: Anchor, using: Mapping[str, Mapping[str, float]], **together: float) -> dict[str, float]:
    def users(names: Sequence[str]) -> dict[Path, float]:
        found: dict[Path, float] = {}
        for name in names:
            found |= {Path(path.encode()): weight for path, weight in using.get(name, {}).items()}
        return found

    changed = {Path(path.encode()): weight for path, weight in together.items()}
    near = made.graph.hops(anchor, made.outlines[anchor.path], made.texts[anchor.path], users, changed)
    return {path.decode(): nearness for path, nearness in near.items()}


def test_near_a_file_are_its_imports_its_users_and_what_changed_with_it() -> None:
    made = Made(PYTHON)
    assert {"app/retry.py": graph.HOPS["imports"], "notes": graph.HOPS["together"]} == hops(
        made, Anchor("", Path(b"app/client.py")), {}, notes=3.0
    )
    using = {"Policy": {"app/client.py": 0.5, "app/retry.py": 0.5}, "cap": {"far.py": 0.125}}
    found = hops(made, Anchor("", Path(b"app/retry.py")), using)
    assert {"app/client.py": graph.HOPS["uses"], "far.py": graph.HOPS["uses"] / 2} == found


def test_near_a_definition_are_its_callers_and_what_it_calls() -> None:
    made = Made(PYTHON)
    using = {"next_delay": {"app/client.py": 0.25, "tests/test_retry.py": 0.25}}
    by_name = Anchor("", Path(b"app/retry.py"), name="Policy.next_delay")
    by_lines = Anchor("", Path(b"app/retry.py"), lines=(3, 3))
    assert (
        {"app/client.py": 1.0, "tests/test_retry.py": 1.0} == hops(made, by_name, using) == hops(made, by_lines, using)
    )
    assert graph.HOPS["calls"] == hops(made, Anchor("", Path(b"app/client.py"), name="fetch"), {})["app/retry.py"]
    assert {} == hops(made, Anchor("", Path(b"app/retry.py"), name="nothing", lines=(99, 99)), {})
