"""Which files are put forward: filters apply before the shortlist is cut, files at hand are sure of their place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repo_provider.globs import PathFilter
from repo_provider.protocol import ContextFrame, ContextQuery
from repo_provider.provider import Provider
from repo_provider.ranking import SHORTLIST, _Wanted, _Words
from repo_provider.settings import Settings
from tests.repos import Files, make_repo

STRONG = "def zebra_gateway_%d():\n    '''The zebra gateway.'''\n"
WEAK = "def other():\n    return 'zebra'\n"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    files: Files = {f"a/zebra_gateway_{n}.py": STRONG % n for n in range(SHORTLIST + 20)}
    made = make_repo([("2026-01-01", {**files, "b/other.py": WEAK, "c/apart.py": "def apart():\n    return 1\n"})])
    opened = Provider(Settings(path=str(made.path), workers=1))
    yield opened
    opened.close()


def ask(provider: Provider, *anchors: str, paths: PathFilter | None = None) -> tuple[ContextFrame, ...]:
    query = ContextQuery(goal="zebra gateway", max_frames=5, max_tokens=5_000, anchors=anchors)
    return provider.query(query, paths=paths).frames


def test_a_path_filter_applies_before_the_shortlist_is_cut(provider: Provider) -> None:
    assert not any("b/other.py" in frame.id for frame in ask(provider))
    assert ["b/other.py" in frame.id for frame in ask(provider, paths=PathFilter(["b"]))] == [True]


def test_a_file_at_hand_is_shown_first_even_where_nothing_of_the_question_stands(provider: Provider) -> None:
    frames = ask(provider, "c/apart.py")
    assert "c/apart.py" in frames[0].id
    scores = [frame.score for frame in frames]
    assert scores == sorted(scores, reverse=True)


def test_an_anchor_with_lines_shows_what_stands_there(provider: Provider) -> None:
    assert "def other" in ask(provider, "b/other.py#L2")[0].content


LETTERS = b"aAbBcC1_ \n\xc3\xa9"


def begins(data: bytes, at: int) -> bool:
    """A word begins behind anything but a letter, and at a hump: a capital behind a small letter or before one."""
    if at == 0 or not data[at - 1 : at].isalpha():
        return True
    return data[at : at + 1].isupper() and not (data[at - 1 : at].isupper() and data[at + 1 : at + 2].isupper())


@given(
    st.lists(st.sampled_from(LETTERS), max_size=60).map(bytes),
    st.sets(st.text("abc1\u00e9", min_size=1, max_size=11), min_size=1, max_size=4),
)
def test_words_are_found_where_they_begin(data: bytes, words: set[str]) -> None:
    places, which = _Words(data).beginnings(_Wanted(dict.fromkeys(sorted(words), 1.0)))
    found = sorted(zip(which.tolist(), places.tolist(), strict=True))
    sought = [(number, word.encode()) for number, word in enumerate(sorted(words))]
    lower = data.lower()
    assert found == [
        (number, at)
        for number, word in sought
        for at in range(len(data))
        if lower.startswith(word, at) and begins(data, at)
    ]


def test_where_a_definition_does_not_fit_its_signature_is_what_is_shown() -> None:
    comment = "".join(f"// line {number} of what it is good for, and of when it is not\n" for number in range(25))
    code = f"package far\n\n{comment}func zebraGateway(total int) int {{\n\treturn total + 1\n}}\n"
    made = make_repo([("2026-01-01", {"far.go": code})])
    opened = Provider(Settings(path=str(made.path), workers=1))
    (frame,) = opened.query(ContextQuery(goal="zebra gateway", kinds=("snippet",), max_frames=1, max_tokens=60)).frames
    opened.close()
    assert "func zebraGateway" in frame.content
