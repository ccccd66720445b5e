"""The fault book and the tests hold each other to account."""

from __future__ import annotations

import pytest

from tests.faults import AREAS, BOOK, fault, shown


@pytest.mark.parametrize("area", sorted(AREAS))
def test_every_row_is_shown_by_a_test(area: str) -> None:
    tests = shown()
    assert {} == {number: title for number, title in AREAS[area].items() if number not in tests}


def test_every_test_names_rows_that_exist() -> None:
    assert {} == {number: tests for number, tests in shown().items() if number not in BOOK}


def test_the_book_has_seventy_seven_rows_each_once() -> None:
    assert 77 == len(BOOK) == sum(map(len, AREAS.values()))


def test_an_unknown_row_is_refused_where_it_is_written() -> None:
    with pytest.raises(LookupError, match="12"):
        fault(2, 12)
