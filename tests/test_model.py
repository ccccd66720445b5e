"""Texts: offsets, lines, and what becomes of bytes that are not UTF-8."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider.model import Span, Text
from tests.faults import fault


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def whole(text: Text) -> Span:
    return Span(0, len(text.data))


def test_utf8_is_itself() -> None:
    text = Text("größe\n".encode())
    assert ("größe\n", "exact") == text.content(whole(text))
    assert text.raw is text.data
    assert sha256(text.raw) == text.content_digest(whole(text))
    assert ("L1", sha256(text.raw)) == text.cited(whole(text))


@fault(83)
def test_a_utf8_byte_order_mark_is_content() -> None:
    text = Text(b"\xef\xbb\xbfdef first(): pass\n")
    assert ("\ufeffdef first(): pass\n", "exact") == text.content(whole(text))
    assert ("L1", sha256(text.raw)) == text.cited(whole(text))


@fault(82)
def test_bytes_that_are_not_utf8_are_read_as_latin1_where_they_stand() -> None:
    text = Text("größe\n".encode() + b"# fa\xe7ade\n")
    first, second = text.span(1, 1), text.span(2, 2)
    assert first is not None
    assert second is not None
    assert ("größe\n", "exact") == text.content(first)
    assert ("# façade\n", "normalized") == text.content(second)
    assert sha256("# façade\n".encode()) == text.content_digest(second)
    assert ("L2", sha256(b"# fa\xe7ade\n")) == text.cited(second)


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
        (b"\0\0\xfe\xff", "utf-32-be"),
    ],
)
@fault(82)
def test_a_byte_order_mark_says_how_to_read_a_file(mark: bytes, encoding: str) -> None:
    text = Text(mark + "class Größe\r\n{\n}\n".encode(encoding))
    assert "class Größe\r\n{\n}\n".encode() == text.data
    assert text.transcoded
    assert ("{\n", "normalized") == text.content(Span(15, 17))
    assert sha256(b"{\n") == text.content_digest(Span(15, 17))
    assert (None, sha256(text.raw)) == text.cited(Span(15, 17))  # lines of it would be lines of other bytes


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\xff\xfe\x00\xd8a\0", b"\xff\xfe\0\0\xff\xff\xff\xff", b"\xff\xfe"])
def test_a_broken_utf16_file_is_still_text(raw: bytes) -> None:
    text = Text(raw)
    text.data.decode("utf-8")
    assert text.content(whole(text))[0] == text.data.decode("utf-8")


@fault(82)
def test_a_nul_byte_is_a_character() -> None:
    text = Text(b"a\0b\n")
    assert ("a\0b\n", "exact") == text.content(whole(text))


@given(st.binary())
def test_any_bytes_have_content_that_is_unicode(raw: bytes) -> None:
    text = Text(raw)
    content, fidelity = text.content(whole(text))
    assert content.encode("utf-8") == text.content_bytes(whole(text))
    if fidelity == "exact":
        assert content.encode("utf-8") == raw


@given(st.lists(st.sampled_from([b"a\n", b"\n", b"\r\n", b"bc\r", b"\xc3\xa9\n", b"d"])).map(b"".join))
def test_lines_and_offsets_agree(raw: bytes) -> None:
    text = Text(raw)
    assert text.line_count == raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"")  # F17
    for line in range(1, text.line_count + 1):
        span = text.span(line, line)
        assert span is not None
        assert (line, line) == text.lines(span)
        assert f"L{line}" == text.range(span)
        assert span == text.whole_lines(span.start, span.end)
    assert text.span(text.line_count + 1, text.line_count + 9) is None
