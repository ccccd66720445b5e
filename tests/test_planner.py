"""What a question asks for: words and their weights, names, places, phrases, kinds of answer, anchors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider.model import Plan
from repo_provider.planner import MOST_NAMES, MOST_PHRASES, MOST_PLACES, MOST_TERMS, anchor, plan
from repo_provider.protocol import ContextQuery
from repo_provider.words import terms


def query(
    goal: str, query_text: str | None = None, kinds: tuple[str, ...] = (), anchors: tuple[str, ...] = ()
) -> ContextQuery:
    return ContextQuery(goal, 8, 4000, query_text, kinds, anchors)


def planned(goal: str, query_text: str | None = None) -> Plan:
    return plan(query(goal, query_text))


def stem(word: str) -> str:
    (term,) = terms(word.encode())
    return term


def weights(goal: str, query_text: str | None = None) -> dict[str, float]:
    asked = planned(goal, query_text)
    return dict(zip(asked.terms, asked.weights, strict=True))


# --- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["rate limiter", "rateLimiter", "RateLimiter", "rate_limiter", "RATE_LIMITER", "rate-limiter"]
)
def test_a_name_asks_for_the_same_however_it_is_spelled(text: str) -> None:
    assert {stem("rate"), stem("limiter"), "=ratelimiter"} <= set(planned(text).terms)


def test_words_of_the_query_text_weigh_more_than_the_goals() -> None:
    both = weights("fix the parser", "token budget")
    assert both[stem("parser")] < both[stem("budget")]


def test_stop_words_hardly_count_beside_others_and_alone_ask_for_nothing() -> None:
    assert weights("where is the parser").get(stem("where"), 0.0) < 0.1
    assert () == planned("how is it").terms


def test_the_first_line_of_a_long_text_is_its_title() -> None:
    asked = weights("Scheduler hangs\n\n" + "the reactor was asked to stop once more and more often " * 20)
    assert asked[stem("hangs")] > asked[stem("reactor")] / 2


@pytest.mark.parametrize(
    "text", ["", " \n\t", "?!.,;", "(((((", "\ud83d", "\n" * 200_000, "x" * 300_000, "a b " * 100_000, "重跑" * 9]
)
def test_any_text_gives_a_bounded_plan(text: str) -> None:
    asked = planned(text)
    assert len(asked.terms) <= MOST_TERMS
    assert len(asked.names) <= MOST_NAMES
    assert len(asked.places) <= MOST_PLACES
    assert len(asked.phrases) <= MOST_PHRASES


@given(st.text(), st.none() | st.text())
def test_a_plan_is_a_function_of_its_query(goal: str, asked: str | None) -> None:
    assert planned(goal, asked) == planned(goal, asked)


def test_words_that_are_not_latin_are_asked_for() -> None:
    assert planned("重跑 gen_itgc").terms


# --- names, places, phrases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("what does Session.receive return", [("Session", "receive")]),
        ("std::fs::read_to_string fails", [("std", "fs", "read_to_string")]),
        ("call `retry` twice", [("retry",)]),
        ("why does connect() block", [("connect",)]),
        ("retry", [("retry",)]),
        ("retry twice", []),
        ("HTTPServer and parse2FAToken", [("HTTPServer",), ("parse2FAToken",)]),
        ("Foo#bar of Ruby", [("Foo", "bar")]),
        ("ptr->next_one", [("ptr", "next_one")]),
    ],
)
def test_what_is_written_as_code_is_a_name(text: str, names: list[tuple[str, ...]]) -> None:
    assert names == [name.parts for name in planned(text).names if name.parts != ("Ruby",)]


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("see src/net/client.py:120", b"src/net/client.py", 120),
        ("src/net/client.py:120:5: error", b"src/net/client.py", 120),
        ('  File "/home/me/app/src/net.py", line 17, in send', b"home/me/app/src/net.py", 17),
        ("   0: app::run\n             at ./src/main.rs:42:13", b"src/main.rs", 42),
        ("at com.example.App.main(App.java:31)", b"App.java", 31),
        ("    at send (/srv/app/lib/net.js:8:21)", b"srv/app/lib/net.js", 8),
        ("main.main()\n\t/src/app/main.go:12 +0x1d", b"src/app/main.go", 12),
        ("C:\\work\\app\\net.cs:line 9", b"work/app/net.cs", 0),
        ("app/models/user.rb:3:in `save'", b"app/models/user.rb", 3),
        ("net.c(77): warning", b"net.c", 77),
        ("README.md#L10", b"README.md", 10),
    ],
)
def test_files_named_in_a_text_are_places_with_their_lines(text: str, path: bytes, line: int) -> None:
    assert (path, line) in [(place.path, place.line) for place in planned(text).places]


@pytest.mark.parametrize("text", ["version 3.14", "one. two", "https://example.org/", "1.2.3"])
def test_what_only_has_dots_is_no_place(text: str) -> None:
    assert () == planned(text).places


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ('it prints "connection was reset by peer"', b"connection was reset by peer"),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", b"unsupported operand type"),
        ("panicked: index out of bounds: the len is 3", b"index out of bounds: the len is"),
    ],
)
def test_literal_pieces_are_phrases(text: str, phrase: bytes) -> None:
    assert phrase in planned(text).phrases


# --- what kind of answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "why was the timeout raised",
        "when did retries change",
        "who introduced backoff",
        "show me commits that touch it",
    ],
)
def test_a_question_about_the_past_is_known_as_one(text: str) -> None:
    assert planned(text).history


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("what is in net.py", "holds"),
        ("outline of src/net.py", "holds"),
        ("list the functions in client.rs", "holds"),
        ("which files import requests", "users"),
        ("who calls retry_delay", "users"),
        ("how are retries limited", ""),
        ("what is in net.py " + "and more of it " * 40, ""),
    ],
)
def test_a_question_about_structure_is_known_as_one(text: str, structure: str) -> None:
    assert structure == planned(text).structure


def test_tests_and_docs_are_wanted_where_a_short_text_names_them() -> None:
    assert {"test", "docs"} <= planned("tests and documentation of the parser").wanted
    assert frozenset() == planned("the parser").wanted


def test_kinds_that_are_not_served_are_left_out() -> None:
    asked = plan(query("x", kinds=("memory", "doc")))
    assert (("doc",), False) == (asked.kinds, asked.mixed)


# --- anchors ---------------------------------------------------------------------------------------------------

ROOT = "/home/me/app"


@pytest.mark.parametrize(
    ("uri", "path", "lines", "name"),
    [
        ("src/net.py", b"src/net.py", None, None),
        ("./src/../src/net.py", b"src/net.py", None, None),
        ("src/net.py#L10-20", b"src/net.py", (10, 20), None),
        ("src/net.py:10-20", b"src/net.py", (10, 20), None),
        ("src/net.py:10", b"src/net.py", (10, 10), None),
        ("src/net.py#Client.send", b"src/net.py", None, "Client.send"),
        ("src\\net.py", b"src/net.py", None, None),
        ("/home/me/app/src/net.py", b"src/net.py", None, None),
        ("file:///home/me/app/src/net.py", b"src/net.py", None, None),
        ("file:///home/me/app/src/net.py#L3", b"src/net.py", (3, 3), None),
        ("file://localhost/home/me/app/a%20b.py", b"a b.py", None, None),
        ("file:///home/me/app/back%5Cslash.py", b"back\\slash.py", None, None),
        ("symbol:///src/net.py#Client.send", b"src/net.py", None, "Client.send"),
        ("symbol:///src/caf%C3%A9.py", "src/café.py".encode(), None, None),
        (f"swh:1:cnt:{'a' * 40};path=/src/net.py;lines=5-9", b"src/net.py", (5, 9), None),
        (f"swh:1:cnt:{'a' * 40};path=/src/net.py;lines=5", b"src/net.py", (5, 5), None),
    ],
)
def test_an_anchor_is_understood_in_every_spelling(
    uri: str, path: bytes, lines: tuple[int, int] | None, name: str | None
) -> None:
    found = anchor(uri, [ROOT])
    assert found is not None
    assert (uri, path, lines, name) == (found.uri, found.path, found.lines, found.name)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "#L3",
        "../outside.py",
        "/etc/passwd",
        "file:///etc/passwd",
        "file:///home/me/app",
        "https://example.org/a.py",
        "untitled:/Untitled-1",
        "file:///home/me/app/../../x",
        "a\0b",
        "swh:1:cnt:0",
        "file:",
    ],
)
def test_an_anchor_that_names_no_place_inside_is_noted_and_nothing_more(uri: str) -> None:
    asked = plan(query("x", anchors=(uri,)), roots=[ROOT])
    assert ((), 1) == (asked.anchors, len(asked.notes))
