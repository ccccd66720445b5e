"""Commits no tool would write: times, people, parents and messages at the edge of what an object can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

import pygit2
import pytest

from repo_provider.history import History
from repo_provider.model import CommitId
from repo_provider.protocol import ContextFrame, ContextQuery, ContextQueryResult, FrameId, Instant, parse_instant
from repo_provider.provider import Provider
from repo_provider.repository import MAX_PARENTS, MAX_TIME, Repository
from repo_provider.settings import Settings
from repo_provider.store import Store
from tests.faults import fault
from tests.repos import Made, make_repo, seconds

FIRST = 1_700_000_000


@pytest.fixture
def made(tmp_path: FilePath) -> Made:
    return make_repo([(FIRST, {"a.py": "def first(): pass\n"})], tmp_path / "r")


def committed(
    made: Made, people: bytes, *, message: bytes = b"more\n", parents: list[CommitId] | None = None
) -> CommitId:
    """A commit upon the tip with these lines below its parents; it is the tip then."""
    number = len(made.commits)
    flat = made.flat(made.tip()) | {b"a.py": (0o100644, made.repo.create_blob(b"def first(): return %d\n" % number))}
    lines = [b"tree %s" % str(made.tree(flat)).encode()]
    lines += [b"parent %s" % parent.hex().encode() for parent in parents or [made.tip()]]
    data = b"\n".join([*lines, people]) + b"\n\n" + message
    made.commits.append(CommitId(made.repo.odb.write(pygit2.enums.ObjectType.COMMIT, data).raw))
    (made.path / ".git" / "refs" / "heads" / "main").write_text(made.commits[-1].hex() + "\n")
    return made.commits[-1]


def people(stamp: str) -> bytes:
    return f"author A <a@b> {stamp}\ncommitter A <a@b> {stamp}".encode()


@pytest.fixture
def serving(made: Made) -> Iterator[Provider]:
    provider = Provider(Settings(path=str(made.path), workers=1, store=None))
    yield provider
    provider.close()


def ask(provider: Provider, goal: str, **members: object) -> ContextQueryResult:
    return provider.query(ContextQuery(goal=goal, max_frames=9, max_tokens=9_999, **members))  # type: ignore[arg-type]  # by name


EDGES = [
    ("1700000100 +51800", 1_700_000_100),
    ("1700000100 -13068837", 1_700_000_100),
    ("4102444800 +0000", 4_102_444_800),
    ("253402300800 +0000", 253_402_300_800),
    ("9999999999999 +0000", 9_999_999_999_999),
    (f"{2**63} +0000", MAX_TIME),
    ("9" * 26 + " +9999999", MAX_TIME),
    (f"-{'9' * 26} +0000", -MAX_TIME),
    ("-1 +0000", -1),
    ("0 +0000", 0),
    ("+0000", 0),
    ("", 0),
    ("1700000100", 1_700_000_100),
    ("1700000100 +0000 +0000", 1_700_000_100),
    ("1e9 +0000", 1),
    ("0x10 +0000", 0),
]


@fault(29)
@pytest.mark.parametrize(("stamp", "written"), EDGES)
def test_any_time_is_served_and_kept(
    made: Made, serving: Provider, tmp_path: FilePath, stamp: str, written: int
) -> None:
    commit = committed(made, people(stamp))
    for store in (None, Store.open(str(tmp_path / "stores"), "key")):
        line = History(Repository.open(str(made.path)), store).line(commit)
        assert [FIRST, written] == line.written
        if store is not None:
            store.close()
    assert ask(serving, "first").frames
    assert ask(serving, "why was first changed", kinds=("episode",)).frames
    told = serving.status()
    assert commit.hex() == told["head"]
    for when in ("1970-01-01T00:00:00Z", "2023-11-14T22:13:20Z", "2200-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        instant = parse_instant(when)
        answer = ask(serving, "first", as_of=when)
        assert bool(answer.frames) == (instant >= FIRST)
        for frame in answer.frames:
            assert frame.valid_from is None or parse_instant(frame.valid_from) <= instant
            assert frame.valid_to is None or instant < parse_instant(frame.valid_to)


@fault(29)
@pytest.mark.parametrize(
    "lines",
    [
        b"author\ncommitter",
        b"author A\ncommitter B",
        b"author A <a@b>\ncommitter B <b@c>",
        b"author <>>> 5 +0000\ncommitter <<< 1700000100 +0000",
        b"author \xff\x1b[31m <\0> 1 +0000\ncommitter \xff <> 1 +0000",
        b"nonsense",
        b"committer A <a@b> 1700000100 +0000\nauthor A <a@b> 1700000100 +0000",
        b"author A <a@b> 1 +0000\ngpgsig -----BEGIN\n \n -----END\ncommitter A <a@b> 1 +0000",
        b"author " + b"A" * 1_000_000 + b" <a@b> 1 +0000",
    ],
)
def test_a_commit_with_nobody_and_no_time_is_told(made: Made, serving: Provider, lines: bytes) -> None:
    commit = committed(made, lines)
    assert commit == serving.repository.head()
    (frame, *_) = ask(serving, "why was first changed", kinds=("episode",)).frames
    assert frame.title
    assert "\x1b" not in frame.title + frame.citation_label
    assert ["valid"] == [verdict.status for verdict in serving.verify(_held([frame]))]
    assert ask(serving, "first").frames
    serving.status()


def _held(shown: list[ContextFrame]) -> list[FrameId]:
    return [FrameId("repo-provider", frame.id, frame.content_digest) for frame in shown]


@fault(72)
def test_of_thousands_of_parents_the_first_counts_and_so_many_are_walked(made: Made, serving: Provider) -> None:
    lost = [CommitId(number.to_bytes(20, "big")) for number in range(1, 3 * MAX_PARENTS)]
    commit = committed(made, people("1700000100 +0000"), parents=[made.tip(), *lost])
    with serving.repository.objects() as objects:
        assert MAX_PARENTS == len(objects.header(commit).parents)
    assert [made.commits[0], commit] == serving.history.line(commit).commits
    assert ask(serving, "first", as_of="2023-11-14T22:13:20Z").frames
    assert ask(serving, "first").frames


@fault(29, 82)
@pytest.mark.parametrize(
    "encoding",
    ["punycode", "IDNA", "unicode_escape", "raw-unicode-escape", "zlib", "rot13", "nonsense", "\xff", "utf-16"],
)
def test_no_encoding_that_a_message_claims_breaks_or_delays_it(made: Made, serving: Provider, encoding: str) -> None:
    text = b"Explain the cap \\ud800 \xff\n" + b"a" * 300_000 + b"-" + b"b9" * 300_000
    commit = committed(made, people("1700000100 +0000") + b"\nencoding " + encoding.encode("latin-1"), message=text)
    assert serving.history.commit(commit).message.encode("utf-8")
    assert ask(serving, "first").frames


@fault(22)
def test_of_a_message_without_end_the_start_is_read(made: Made, serving: Provider) -> None:
    commit = committed(made, people("1700000100 +0000"), message=b"Explain the cap\n\n" + b"word other\n" * 1_000_000)
    seen = serving.history.at(Instant(seconds("2026-01-01")))
    assert seen is not None
    assert "Explain the cap" == serving.history.messages(seen).items[0].text.partition("\n")[0]
    assert 100_000 > len(serving.history.messages(seen).items[0].text)
    assert 2_000_000 > len(serving.history.commit(commit).message)
    assert ["Explain the cap"] == [f.title for f in ask(serving, "why the cap", kinds=("episode",)).frames][:1]
