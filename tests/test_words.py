"""words: one way of splitting for the index and for the question (faults 52, 53, 104)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider.words import STOP_WORDS, count, identifiers, root, stem, subwords, terms
from tests.faults import fault


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("getUserName", ("get", "user", "name")),
        ("get_user_name", ("get", "user", "name")),
        ("GET_USER_NAME", ("get", "user", "name")),
        ("HTTPSConnection", ("https", "connection")),
        ("user_id", ("user", "id")),
        ("parse2FAToken", ("parse", "2fa", "token")),
        ("MAX_RETRY", ("max", "retry")),
        ("__init__", ("init",)),
        ("IOError", ("io", "error")),
        ("userIDs", ("user", "ids")),
        ("utf8Decode", ("utf8", "decode")),
        ("HTTP2Server", ("http2", "server")),
        ("vec3D", ("vec", "3d")),
        ("0x", ("0", "x")),
        ("", ()),
        ("___", ()),
        ("CaféCrème", ("cafe", "creme")),
        ("ПриветМир", ("привет", "мир")),
        ("重跑gen_itgc后50条", ("重", "跑", "重跑", "gen", "itgc", "后", "50", "条")),
    ],
)
def test_an_identifier_splits_into_its_words(identifier: str, parts: tuple[str, ...]) -> None:
    """Fault 104."""
    assert parts == subwords(identifier)


@fault(104)
def test_every_case_style_of_a_name_shares_the_whole_term() -> None:
    for spelling in (b"getUserName", b"get_user_name", b"GetUserName", b"GET_USER_NAME"):
        assert "=getusername" in terms(spelling)


@pytest.mark.parametrize(
    ("forms", "common"),
    [
        (("route", "routes", "routed", "routing"), "rout"),
        (("handle", "handles", "handled", "handling"), "handl"),
        (("process", "processes", "processing"), "process"),
        (("match", "matches", "matched", "matching"), "match"),
        (("run", "runs", "running"), "run"),
        (("entry", "entries"), "entry"),
        (("class", "classes"), "class"),
        (("status",), "status"),
        (("string", "strings"), "string"),
        (("2fa",), "2fa"),
    ],
)
def test_forms_of_a_word_share_a_stem(forms: tuple[str, ...], common: str) -> None:
    assert {common} == {stem(form) for form in forms}


def test_words_of_different_meaning_keep_different_stems() -> None:
    assert 3 == len({stem("parser"), stem("parse"), stem("parsable")})


@fault(52)
def test_dotted_and_hyphenated_words_split_alike_in_a_text_and_a_question() -> None:
    """Fault 52."""
    text = count(b"version 38.101 dutch-made os.path.join")
    for asked in (b"38.101", b"dutch-made", b"os.path.join", b"path.join"):
        assert set() == set(count(asked)) - set(text)


@fault(53)
def test_cjk_and_the_identifiers_beside_it_are_found() -> None:
    """Fault 53."""
    text = count("# 重跑gen_itgc后50条引用\n".encode())
    for asked in ("重跑", "gen_itgc", "引用", "50", "用"):
        assert {"=genitgc"} >= set(count(asked.encode())) - set(text)


def test_counts_are_of_every_occurrence() -> None:
    assert {"a": 2, "b": 1, "=ab": 1} == dict(count(b"a_b, a"))


def test_an_object_id_is_one_word() -> None:
    assert ("3f2a9c0d1e2f3a4b5c6d",) == subwords("3f2a9c0d1e2f3a4b5c6d")


def test_a_very_long_word_is_looked_at_in_part() -> None:
    assert len(terms(b"aB" * 100_000)) < 300


def test_stop_words_are_plain_words() -> None:
    assert all(word.isascii() and word.islower() for word in STOP_WORDS)


@given(st.lists(st.text(min_size=1), max_size=8))
def test_any_word_of_a_text_is_found_when_it_is_asked(words: list[str]) -> None:
    """Fault 52: the two sides never split apart."""
    data = " ".join(words).encode("utf-8", "ignore")
    text = count(data)
    for token in identifiers(data):
        assert set(count(token)) <= set(text)


@given(st.binary(max_size=200))
def test_any_bytes_have_terms(data: bytes) -> None:
    assert all(term and times > 0 for term, times in count(data).items())


@pytest.mark.parametrize(
    ("forms", "common"),
    [
        (("route", "router", "routing"), "rout"),
        (("validate", "validator", "validation"), "validat"),
        (("serialize", "serializer", "serialization"), "serializ"),
        (("format", "formatter", "formatting"), "format"),
        (("compress", "compression"), "compress"),
        (("重跑",), "重跑"),
        (("ion",), "ion"),
    ],
)
def test_a_doer_and_its_deed_share_a_root(forms: tuple[str, ...], common: str) -> None:
    assert {common} == {root(stem(form)) for form in forms}
