"""`history PATH[#NAME]`: every version of a file or a definition, each with its time, through renames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from repo_provider.errors import BadRequest, Unavailable
from repo_provider.provider import Provider
from repo_provider.settings import Settings
from repo_provider.versions import Version, versions
from tests.repos import Made, make_repo, seconds

ONE = "def fetch(url):\n    return 1\n"
TWO = "def fetch(url):\n    return 2\n"
OTHER = "\n\ndef other():\n    return 0\n"


@pytest.fixture(scope="module")
def made() -> Made:
    made = make_repo()
    made.commit("2026-01-01", {"old.py": ONE}, message="First words\n\nA body.\n")
    made.commit("2026-02-01", {"old.py": ONE + OTHER}, message="Another function\n")
    made.commit("2026-03-01", {"old.py": None, "src/new.py": ONE + OTHER}, message="Move\n")
    made.commit("2026-04-01", {"src/new.py": OTHER.lstrip() + "\n\n" + TWO}, message="Change\n")
    made.commit("2026-05-01", {"unrelated.txt": "words\n"}, message="Aside\n")
    return made


@pytest.fixture(scope="module")
def provider(made: Made) -> Iterator[Provider]:
    provider = Provider(Settings(path=str(made.path), workers=1))
    yield provider
    provider.close()


def told(found: tuple[Version, ...]) -> list[tuple[str, tuple[int, int], str, int, int | None]]:
    return [(one.path.decode(), one.lines, one.subject, one.opens, one.closes) for one in found]


def test_a_definition_has_a_version_for_each_way_it_read(provider: Provider) -> None:
    assert [
        ("src/new.py", (5, 6), "Change", seconds("2026-04-01"), None),
        ("src/new.py", (1, 2), "First words", seconds("2026-01-01"), seconds("2026-04-01")),
    ] == told(versions(provider, "src/new.py#fetch").found)


def test_at_the_deadline_there_are_as_many_versions_as_were_read(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = versions(provider, "src/new.py")
    clock = iter(range(100))
    monkeypatch.setattr("repo_provider.versions.monotonic", lambda: float(next(clock)))
    cut = versions(provider, "src/new.py", deadline=2.0)
    assert (False, True) == (whole.cut, cut.cut)
    assert [one.closes for one in whole.found[:2]] == [one.closes for one in cut.found]
    with pytest.raises(Unavailable, match="ask again"):
        versions(provider, "src/new.py", deadline=0.0)


def test_a_file_has_a_version_for_each_content_through_renames(provider: Provider) -> None:
    listed = versions(provider, "src/new.py")
    assert [
        ("src/new.py", (1, 6), "Change", seconds("2026-04-01"), None),
        ("src/new.py", (1, 6), "Another function", seconds("2026-02-01"), seconds("2026-04-01")),
        ("old.py", (1, 2), "First words", seconds("2026-01-01"), seconds("2026-02-01")),
    ] == told(listed.found)
    assert ("src/new.py", seconds("2026-05-01")) == (listed.place, listed.until)


def test_a_definition_is_there_from_the_commit_that_wrote_it(provider: Provider) -> None:
    assert [("src/new.py", (1, 2), "Another function", seconds("2026-02-01"), None)] == told(
        versions(provider, "src/new.py#other").found
    )


def test_a_place_is_named_as_anchors_are(provider: Provider, made: Made) -> None:
    expected = versions(provider, "src/new.py#fetch")
    assert expected == versions(provider, f"{made.path}/src/new.py#fetch")
    assert expected == versions(provider, "symbol:///src/new.py#fetch")


def test_a_qualified_name_is_preferred_to_a_bare_one() -> None:
    made = make_repo(
        [("2026-01-01", {"a.py": "def run():\n    pass\n\n\nclass Job:\n    def run(self):\n        pass\n"})]
    )
    provider = Provider(Settings(path=str(made.path), workers=1))
    assert [(1, 2)] == [one.lines for one in versions(provider, "a.py#run").found]
    assert [(6, 7)] == [one.lines for one in versions(provider, "a.py#Job.run").found]
    provider.close()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.py", "nowhere.py is not in the newest commit"),
        ("src/new.py#nothing", "no version of src/new.py defines nothing"),
        ("src/new.py#L1-2", "no PATH or PATH#NAME"),
        ("https://example.com/a", "no PATH or PATH#NAME"),
        ("../outside", "no PATH or PATH#NAME"),
    ],
)
def test_a_place_without_a_history_is_named(provider: Provider, place: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        versions(provider, place)


def test_a_repository_without_commits_has_no_versions() -> None:
    made = make_repo()
    made.write("a.py", ONE)
    provider = Provider(Settings(path=str(made.path), workers=1))
    with pytest.raises(BadRequest, match="not in the newest commit"):
        versions(provider, "a.py")
    provider.close()
