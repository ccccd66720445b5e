"""`--path GLOB` means what its table says, and never nothing in silence."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider.errors import BadRequest
from repo_provider.globs import PathFilter
from repo_provider.model import Path
from tests.faults import fault

ROOT = "/abs/repo"
PATHS = (
    "Dockerfile",
    "a.py",
    "lib/src/d.py",
    "lib/tests/t.py",
    "src/a.py",
    "src/b.c",
    "src/deep/er/c.py",
    "tests/t.py",
    "we[i]rd/x*y",
)


def chosen(*patterns: str) -> list[str]:
    wanted = PathFilter(patterns, [ROOT])
    return [path for path in PATHS if wanted.matches(Path(path.encode()))]


SRC = ["src/a.py", "src/b.c", "src/deep/er/c.py"]
PYTHON = [path for path in PATHS if path.endswith(".py")]

TABLE = [
    # the fault book's own rows
    ("src", SRC),
    ("src/", SRC),
    ("./src", SRC),
    ("src/*", ["src/a.py", "src/b.c"]),
    ("src/**", SRC),
    ("**/*.py", PYTHON),
    ("*.py", PYTHON),
    ("SRC", []),
    ("src\\a.py", ["src/a.py"]),
    ("/abs/repo/src", SRC),
    ("{a,b}", []),
    ("!src", [path for path in PATHS if path not in SRC]),
    # the rest of the grammar
    (".", list(PATHS)),
    ("/abs/repo", list(PATHS)),
    ("/abs/repo/", list(PATHS)),
    ("**", list(PATHS)),
    ("**/", list(PATHS)),
    ("**/tests", ["lib/tests/t.py", "tests/t.py"]),
    ("**/tests/", ["lib/tests/t.py", "tests/t.py"]),
    ("**/src/**", ["lib/src/d.py", *SRC]),
    ("src/**/*.py", ["src/a.py", "src/deep/er/c.py"]),
    ("src/**/er/**/c.py", ["src/deep/er/c.py"]),
    ("src//a.py", ["src/a.py"]),
    ("*/", [path for path in PATHS if "/" in path]),
    ("*/src", ["lib/src/d.py"]),
    ("src/a.py", ["src/a.py"]),
    ("src/a.py/", []),
    ("src/{a,b}.*", ["src/a.py", "src/b.c"]),
    ("{src/a.py,tests}", ["src/a.py", "tests/t.py"]),
    ("*.{c,h}", ["src/b.c"]),
    ("?.py", PYTHON),
    ("./*.py", ["a.py"]),
    ("/abs/repo/*.py", ["a.py"]),
    ("src/[ab].*", ["src/a.py", "src/b.c"]),
    ("src/[!a].*", ["src/b.c"]),
    ("src/[^a].*", ["src/b.c"]),
    ("src/[a-b].py", ["src/a.py"]),
    ("we[[]i]rd/x[*]y", ["we[i]rd/x*y"]),
    ("D*f*e", ["Dockerfile"]),
    ("D*e*f", []),
]


@pytest.mark.parametrize(("pattern", "expected"), TABLE, ids=[pattern for pattern, _ in TABLE])
def test_a_pattern_chooses_what_the_table_says(pattern: str, expected: list[str]) -> None:
    assert sorted(expected) == chosen(pattern)


def test_several_patterns_add_up_and_an_exclusion_takes_away_from_all_of_them() -> None:
    assert ["src/a.py", "src/b.c", "tests/t.py"] == chosen("src", "tests", "!src/deep")
    assert ["Dockerfile", "we[i]rd/x*y"] == chosen("!*.py", "!*.c")


MALFORMED = ["", "!", "[", "src/[ab", "src/[]", "{", "}", "{a", "a}", "{a,{b,c}}", "..", "src/../../x", "/etc", "/src",
             "C:\\src", "[z-a]", "a\0b", "x" * 1_025, "{a,b}" * 9]  # fmt: skip


@pytest.mark.parametrize("pattern", MALFORMED, ids=lambda pattern: repr(pattern[:12]))
def test_a_malformed_pattern_is_refused_and_says_which_it_was(pattern: str) -> None:
    with pytest.raises(BadRequest, match="--path") as caught:
        PathFilter([pattern], [ROOT])
    assert "invalid_filter" == caught.value.reason
    assert repr(pattern) in caught.value.message


def test_an_absolute_path_is_refused_where_there_is_no_working_tree() -> None:
    with pytest.raises(BadRequest, match="absolute path outside the repository"):
        PathFilter(["/abs/repo/src"])


def test_a_pattern_that_matches_nothing_is_named_with_what_may_have_been_meant() -> None:
    wanted = PathFilter(["src", "SRC", "nowhere/*", "!gone"], [ROOT])
    assert [
        "no path matches 'SRC'; names are case-sensitive, and there is 'src/a.py'",
        "no path matches 'nowhere/*'",
        "no path matches '!gone'",
    ] == wanted.unmatched([Path(path.encode()) for path in PATHS])


def test_a_path_that_is_not_utf_8_can_be_chosen() -> None:
    assert PathFilter(["b?d"]).matches(Path(b"b\xffd"))
    assert PathFilter(["caf?.py"]).matches(Path("café.py".encode()))


def test_no_pattern_takes_more_than_linear_tries() -> None:
    assert not PathFilter(["*a" * 200 + "b"]).matches(Path(b"a" * 2_000))
    assert not PathFilter(["**/a/" * 60 + "b"]).matches(Path(b"a/" * 400 + b"c"))


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_any_text_is_a_filter_or_a_refusal(pattern: str, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            PathFilter([pattern], [ROOT]).matches(Path(path.encode("utf-8", "surrogatepass")))
        except BadRequest as error:
            reason = error.reason
        else:
            return
    assert "invalid_filter" == reason


@given(st.lists(st.sampled_from(["src", "a.py", "*", "**", "?", "[a-c]", "{a,b}", "x*y"]), min_size=1, max_size=6))
@fault(110)
def test_a_translated_pattern_agrees_with_matching_part_by_part(parts: list[str]) -> None:
    wanted = PathFilter(["/".join(["", "abs", "repo", *parts])], [ROOT])
    for path in PATHS:
        assert _by_parts(parts, path.split("/")) == wanted.matches(Path(path.encode())), path


def _by_parts(parts: list[str], names: list[str]) -> bool:
    """The grammar again, as plain recursion: the twin the compiled form is compared with."""
    if not parts:
        return not names
    first, *rest = parts
    if first == "**":
        if not rest:
            return bool(names)
        return _by_parts(rest, names) or (bool(names) and _by_parts(parts, names[1:]))
    if not names or not _name_matches(first, names[0]):
        return False
    plain_end = not rest and not any(character in first for character in "*?[")
    return plain_end or _by_parts(rest, names[1:])


def _name_matches(part: str, name: str) -> bool:
    if part == "{a,b}":
        return name in ("a", "b")
    if part == "[a-c]":
        return name in ("a", "b", "c")
    if part == "?":
        return len(name) == 1
    if part == "*":
        return True
    if part == "x*y":
        return name.startswith("x") and name.endswith("y") and len(name) >= 2
    return part == name
