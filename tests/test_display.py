"""Answers drawn for a person: complete, plain on a pipe, and safe whatever the repository holds."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from repo_provider import display
from repo_provider.protocol import ContextFrame, ContextQuery, ContextQueryResult, Provenance, digest, token_cost

ASKED = ContextQuery(goal="retry", max_frames=8, max_tokens=4_000)


def frame(content: str = "def retry():\n    pass\n", **changes: object) -> ContextFrame:
    values: dict[str, object] = {
        "id": "snippet:src/net.py#retry",
        "kind": "snippet",
        "title": "retry",
        "score": 0.87654321,
        "token_cost": token_cost(content),
        "content": content,
        "content_digest": digest(content.encode("utf-8", "replace")),
        "uri": "file:///repo/src/net.py",
        "provenance": (Provenance("file", "file:///repo/src/net.py", "L99-100", digest(b"")),),
        "citation_label": "src/net.py L99-100 (retry)",
    }
    return ContextFrame(**(values | changes))  # type: ignore[arg-type]  # values as a table


def drawn(result: ContextQueryResult, *, terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", soft_wrap=True, markup=False)
    for line in display.answer(ASKED, result):
        (console if terminal else display.console(file)).print(line)
    return file.getvalue()


def test_an_answer_on_a_pipe_is_plain_text_with_the_lines_and_what_they_cost() -> None:
    told = drawn(ContextQueryResult((frame(valid_from="2026-01-01T00:00:00Z"),), truncated=True, dropped_estimate=3))
    assert (
        "1. src/net.py L99-100 (retry)  snippet  score 0.877  6 tokens  since 2026-01-01T00:00:00Z\n"
        "   99 │ def retry():\n"
        "  100 │     pass\n"
        "\n"
        "1 frame of 8, 6 of 4,000 tokens; about 3 more did not fit\n"
    ) == told


def test_code_is_highlighted_on_a_terminal_by_the_name_of_its_file() -> None:
    told = drawn(ContextQueryResult((frame(),), truncated=False), terminal=True)
    assert re.search(r"\x1b\[[0-9;]*mdef\x1b", told)
    as_of = "swh:1:cnt:" + "0" * 40 + ";anchor=swh:1:rev:" + "1" * 40 + ";path=/src/n%65t.py;lines=1-2"
    assert re.search(r"\x1b\[[0-9;]*mdef\x1b", drawn(ContextQueryResult((frame(uri=as_of),), False), terminal=True))


def test_a_cut_answer_says_what_to_do_and_an_empty_one_says_so() -> None:
    assert "0 frames of 8, 0 of 4,000 tokens; cut at the deadline, --deadline 0 waits for all of it\n" == drawn(
        ContextQueryResult((), truncated=True)
    )
    assert "0 frames of 8, 0 of 4,000 tokens\n" == drawn(ContextQueryResult((), truncated=False))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((None, None), "no committed version"),
        (("2026-01-01T00:00:00Z", None), "since 2026-01-01T00:00:00Z"),
        (("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"), "2026-01-01T00:00:00Z until 2026-02-01T00:00:00Z"),
        ((None, "2026-02-01T00:00:00Z"), "the beginning until 2026-02-01T00:00:00Z"),
    ],
)
def test_a_window_is_said_in_words(bounds: tuple[str | None, str | None], expected: str) -> None:
    assert expected == display.window(frame(valid_from=bounds[0], valid_to=bounds[1]))


def test_lines_are_numbered_only_where_they_are_lines_of_a_file() -> None:
    derived = frame(kind="graph", provenance=(Provenance("derivation", range="L1-2"),))
    whole = frame(provenance=(Provenance("file", "file:///x"),))
    for one in (derived, whole, frame(provenance=())):
        assert ["  │ def retry():", "  │     pass"] == [line.plain for line in display.code(one)]


def test_lines_end_at_line_feeds_alone() -> None:
    content = "a\x0cb\u2028c\u0085d\re\r\nf"
    assert [" 99 │ a␌b�c�d␍e", "100 │ f"] == [line.plain.strip("\n")[2:] for line in display.code(frame(content))]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\ud800\x7f\r\n"


def test_nothing_a_repository_says_steers_the_terminal() -> None:
    hostile = frame(HOSTILE.replace("\ud800", ""), citation_label=HOSTILE, kind=HOSTILE, uri="file:///" + HOSTILE)
    told = drawn(ContextQueryResult((hostile,), truncated=False), terminal=True)
    assert set() == set(re.sub(r"\x1b\[[0-9;]*m", "", told)) & set("\x1b\x07\x9b\u202e\u2066\ud800\x7f\r")
    assert "␛]0;owned␇␛[2J�31m�gnp.exe��␡␍␊" == display.visible(HOSTILE)


def test_markup_and_links_in_a_repository_are_text() -> None:
    told = drawn(ContextQueryResult((frame("[red]x[/red] :smile: [link=http://x]y[/link]\n"),), truncated=False))
    assert "   99 │ [red]x[/red] :smile: [link=http://x]y[/link]\n" in told


@given(st.text())
def test_every_character_keeps_its_column(text: str) -> None:
    assert len(text) == len(display.visible(text, lines=True))
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", display.visible(text, lines=True)
    )


@given(st.text())
def test_every_line_of_the_content_is_drawn(content: str) -> None:
    lines = [row.plain.partition("│ ")[2] for row in display.code(frame(content))]
    plain = display.visible(content.replace("\r\n", "\n"), lines=True)
    assert plain.removesuffix("\n").split("\n") == lines or not content
