"""The list of requirements and the tests hold each other to account."""

from __future__ import annotations

import pytest

from tests.spec import GAPS, REQUIREMENTS, requirement, shown


def test_every_rule_is_shown_by_a_test_or_is_a_named_gap() -> None:
    assert [] == sorted(set(REQUIREMENTS) - set(shown()) - set(GAPS))


def test_every_test_names_rules_that_exist() -> None:
    assert {} == {id: tests for id, tests in shown().items() if id not in REQUIREMENTS}


def test_every_gap_is_a_rule_and_says_who_closes_it() -> None:
    assert [] == sorted(set(GAPS) - set(REQUIREMENTS))
    assert all(GAPS.values())


def test_an_unknown_rule_is_refused_where_it_is_written() -> None:
    with pytest.raises(LookupError, match="Z9"):
        requirement("B3", "Z9")
