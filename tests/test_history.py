"""Instants, windows, names and messages: what history says, compared with C git where it has an opinion."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path as FilePath

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repo_provider import history as history_module
from repo_provider.changes import Change, renames
from repo_provider.commits import Messages, explanation
from repo_provider.history import RUNS, Edit, Event, History, Line, Window, _edit, place
from repo_provider.model import BlobId, CommitId, Late, Path, Snapshot
from repo_provider.protocol import Instant, format_instant, parse_instant
from repo_provider.repository import Header, Missing, Objects, Repository
from tests.faults import fault
from tests.repos import Executable, Files, Gitlink, Made, When, blob_id, git, make_repo, needs_git, seconds
from tests.spec import requirement
from tests.test_repository import Memory

DAY = 86_400


def history(made: Made, store: Memory | None = None, ref: str | None = None) -> History:
    return History(Repository.open(str(made.path), ref=ref), store)


def at(made: Made, when: When) -> CommitId | None:
    found = history(made).at(Instant(seconds(when)))
    return None if found is None else found.commit


def snapshot(of: History, when: When) -> Snapshot:
    found = of.at(Instant(seconds(when)))
    assert found is not None
    return found


def window(of: History, seen: Snapshot, path: str, piece: str) -> tuple[int | None, int | None]:
    answer = of.windows([(Path(path.encode()), piece.encode())], seen)
    assert answer.complete
    return answer.windows[0].opens, answer.windows[0].closes


def days(*dates: str | None) -> tuple[int | None, ...]:
    return tuple(None if date is None else seconds(date) for date in dates)


def line_of(made: Made, files: Sequence[Files], start: str = "2026-01-01") -> Made:
    """One commit a day on top of what is there."""
    for number, changes in enumerate(files):
        made.commit(seconds(start) + number * DAY, changes)
    return made


# --- which commit an instant means -----------------------------------------------------------------------------


def test_an_instant_means_the_newest_commit_not_after_it() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-05", {"a.py": "2\n"})])
    first, second = made.commits
    assert None is at(made, "2025-12-31")
    assert [first, first, first] == [at(made, seconds("2026-01-01") + after) for after in (0, 1, 4 * DAY - 1)]
    assert [second, second] == [at(made, "2026-01-05"), at(made, "2030-01-01")]


def test_the_snapshot_knows_its_commits_own_time() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-05", {"a.py": "2\n"})])
    of = history(made)
    early, late = snapshot(of, "2026-01-03"), snapshot(of, "2026-01-09")
    assert days("2026-01-01", "2026-01-05") == (early.opens, early.closes)
    assert days("2026-01-05", None) == (late.opens, late.closes)
    assert [made.tip()] * 2 == [early.head_commit, late.head_commit]
    assert early == of.snapshot(made.commits[0])


SKEWED = [("2026-01-10", "1"), ("2026-03-01", "2"), ("2026-02-01", "3"), ("2026-04-01", "4")]


@fault(26)
def test_a_clock_that_ran_ahead_hides_later_commits_until_then() -> None:
    made = make_repo([(when, {"v": text}) for when, text in SKEWED])
    v1, _, v3, v4 = made.commits
    instants = ("2026-01-20", "2026-02-15", "2026-03-01", "2026-04-01")
    assert [v1, v1, v3, v4] == [at(made, when) for when in instants]
    of = history(made)
    assert [(made.commits[1], 1)] == of.line(made.tip()).ahead()
    hidden = of.snapshot(made.commits[1])
    assert (None, None) == (hidden.opens, hidden.closes)


@needs_git
@fault(26)
def test_the_rule_differs_from_rev_list_before_on_purpose() -> None:
    made = make_repo([(when, {"v": text}) for when, text in SKEWED])
    before = seconds("2026-02-15")
    listed = git(made.path, "rev-list", "-1", "--first-parent", f"--before={before}", "main").decode().strip()
    assert made.commits[2].hex() == listed
    assert made.commits[0] == at(made, before)


@needs_git
@fault(70)
def test_without_skew_it_is_the_commit_rev_list_finds(tmp_path: FilePath) -> None:
    made = make_repo(
        [(f"{year}-{month:02}-03", {"a.py": f"{year} {month}\n"}) for year in (2020, 2022) for month in (1, 6)]
    )
    git(tmp_path, "clone", "-q", f"file://{made.path}", "copy")
    copied = History(Repository.open(str(tmp_path / "copy")))
    for when in ("2020-01-02", "2020-01-03", "2021-06-01T23:59:59+00:00", "2022-01-02T23:59:59+00:00", "2026-01-01"):
        listed = (
            git(made.path, "rev-list", "-1", "--first-parent", f"--before={seconds(when)}", "main").decode().strip()
        )
        for of in (history(made), copied):
            found = of.at(Instant(seconds(when)))
            assert listed == ("" if found is None or found.commit is None else found.commit.hex())


def test_of_commits_of_one_second_the_last_is_the_answer() -> None:
    made = make_repo([("2026-01-01", {"a": "1\n"}), ("2026-01-01", {"a": "2\n"}), ("2026-01-01", {"a": "3\n"})])
    of = history(made)
    assert made.commits[2] == snapshot(of, "2026-01-01").commit
    assert days("2026-01-01", None) == window(of, snapshot(of, "2026-01-01"), "a", "3\n")
    assert [(None, None)] * 2 == [(of.snapshot(c).opens, of.snapshot(c).closes) for c in made.commits[:2]]


@pytest.mark.parametrize(
    ("stamps", "instant", "expected"),
    [
        (["-315619200 +0000", "0 +0000"], -1, 0),
        (["-315619200 +0000", "0 +0000"], 0, 1),
        (["-315619200 +0000", "0 +0000"], -315_619_201, None),
        (["4294967296 +0000", "9999999999 +0000"], 4_294_967_296, 0),
        (["253402300800 +0000", "9999999999999 +0000"], 253_402_300_800, 0),
        (["1000 +0000", "soon +0000"], 999, None),
        (["1000 +0000", "soon +0000"], 1000, 1),
        (["7200 +0200", "7201 -1100"], 7200, 0),
        (["1700000000 +51800", "1700000001 -13068837"], 1_700_000_001, 1),
    ],
)
@fault(29)
def test_times_are_integers_whatever_was_written(stamps: list[str], instant: int, expected: int | None) -> None:
    made = make_repo()
    for stamp in stamps:
        tree = made.tree({b"a.py": (0o100644, made.repo.create_blob(stamp.encode()))})
        made.set_ref("refs/heads/main", made.raw_commit(tree, made.commits[-1:], stamp, "odd"))
    assert (None if expected is None else made.commits[expected]) == at(made, instant)
    assert made.commits[-1] == history(made).repository.head()


@fault(72)
def test_a_side_branch_is_not_on_the_line_before_its_merge() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    side = made.commit("2026-01-03", {"s.py": "side\n"}, ref="refs/heads/side", parents=[made.tip()])
    merge = made.commit("2026-01-10", {"s.py": "side\n"}, parents=[made.tip(), side])
    of = history(made)
    assert made.commits[0] == snapshot(of, "2026-01-05").commit
    assert merge == snapshot(of, "2026-01-10").commit
    assert days("2026-01-10", None) == window(of, snapshot(of, "2026-01-11"), "s.py", "side\n")


def test_an_octopus_has_one_first_parent() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    arms = [
        made.commit(f"2026-01-0{n}", {f"{n}.py": "x\n"}, ref=f"refs/heads/{n}", parents=[made.tip()]) for n in (2, 3, 4)
    ]
    made.commit("2026-01-10", {f"{n}.py": "x\n" for n in (2, 3, 4)}, parents=[made.tip(), *arms])
    assert [made.commits[0], made.commits[-1]] == history(made).line(made.tip()).commits


@fault(31)
def test_rewritten_history_answers_from_what_is_reachable_now() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})])
    of = history(made)
    assert made.commits[1] == snapshot(of, "2026-01-02").commit
    made.set_ref("refs/heads/main", made.commits[0])
    made.commit("2026-01-03", {"a.py": "3\n"})
    assert made.commits[0] == snapshot(of, "2026-01-02").commit
    off = of.snapshot(made.commits[1])
    assert (None, None, None) == (off.opens, off.closes, off.head_commit)


def test_a_pinned_ref_and_a_detached_head_have_their_own_line() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})])
    made.set_ref("refs/heads/old", made.commits[0])
    assert made.commits[0] == snapshot(history(made, ref="old"), "2026-02-01").commit
    of = history(made)
    made.repo.set_head(pygit2.Oid(raw=made.commits[0]))
    assert made.commits[0] == snapshot(of, "2026-02-01").commit
    made.set_head("refs/heads/main")
    assert made.commits[1] == snapshot(of, "2026-02-01").commit


@fault(11)
def test_without_commits_there_is_no_instant() -> None:
    of = history(make_repo())
    assert None is of.at(Instant(0))
    assert of.build()


@needs_git
@fault(8, 9)
def test_a_shallow_clone_answers_back_to_its_boundary(tmp_path: FilePath) -> None:
    made = make_repo([(f"2026-01-0{day}", {"a.py": f"{day}\n"}) for day in range(1, 6)])
    side = made.commit("2026-01-06", {"b.py": "s\n"}, ref="refs/heads/side", parents=[made.commits[0]])
    made.commit("2026-01-07", {"b.py": "s\n"}, parents=[made.tip(), side])
    git(tmp_path, "clone", "-q", "--depth", "2", "--no-tags", f"file://{made.path}", "sh")
    of = History(Repository.open(str(tmp_path / "sh")))
    listed = git(tmp_path / "sh", "rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
    tip = of.repository.head()
    assert tip is not None
    line = of.line(tip)
    assert listed == [commit.hex() for commit in line.commits]
    assert line.cut
    assert None is of.at(Instant(seconds("2026-01-04")))
    inside = snapshot(of, "2026-01-06")
    assert made.commits[4] == inside.commit
    assert days("2026-01-05", None) == window(of, inside, "a.py", "5\n")
    assert 3 > len(of.messages(snapshot(of, "2026-01-08")).items)
    assert any("shallow" in note for note in of.repository.notes())


@needs_git
def test_deepening_a_clone_moves_its_boundary_with_a_warm_store(tmp_path: FilePath) -> None:
    made = make_repo([(f"2026-01-{day:02}", {"a.py": f"{day // 4}\n", "b": f"{day}\n"}) for day in range(1, 25)])
    git(tmp_path, "clone", "-q", "--depth", "12", f"file://{made.path}", "sh")
    store = Memory()
    for depth in (12, 18, 24):
        git(tmp_path / "sh", "fetch", "-q", "--depth", str(depth))
        warm, cold = (History(Repository.open(str(tmp_path / "sh")), kept) for kept in (store, None))
        for when in ("2026-01-08", "2026-01-15", "2026-01-24"):
            assert warm.at(Instant(seconds(when))) == cold.at(Instant(seconds(when)))
        seen = snapshot(cold, "2026-01-24")
        assert window(cold, seen, "a.py", "6\n") == window(warm, seen, "a.py", "6\n")


@needs_git
def test_a_clone_deepened_under_a_running_server_is_told_from_further_back(tmp_path: FilePath) -> None:
    made = make_repo([(f"2026-01-{day:02}", {"a.py": f"keep\n{day}\n"}) for day in range(1, 13)])
    git(tmp_path, "clone", "-q", "--depth", "4", f"file://{made.path}", "sh")
    of = History(Repository.open(str(tmp_path / "sh")))
    assert None is of.at(Instant(seconds("2026-01-05")))
    assert days("2026-01-09", None) == window(of, snapshot(of, "2026-01-12"), "a.py", "keep\n")
    assert 4 == len(of.messages(snapshot(of, "2026-01-12")).items)
    git(tmp_path / "sh", "fetch", "-q", "--unshallow")
    assert made.commits[4] == snapshot(of, "2026-01-05").commit
    assert days("2026-01-01", None) == window(of, snapshot(of, "2026-01-12"), "a.py", "keep\n")
    assert 12 == len(of.messages(snapshot(of, "2026-01-12")).items)


@needs_git
@pytest.mark.parametrize("kept_back", ["blob:none", "tree:0"])
def test_a_partial_clone_answers_what_is_here_in_any_order(tmp_path: FilePath, kept_back: str) -> None:
    made = make_repo([(f"2026-01-0{day}", {"a.py": f"keep\n{day}\n", f"d{day}/b.py": "b\n"}) for day in range(1, 7)])
    git(made.path, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", f"--filter={kept_back}", f"file://{made.path}", "part")
    path, store = str(tmp_path / "part"), Memory()
    for of in (History(Repository.open(path)), History(Repository.open(path), store)):
        seen = of.snapshot(made.tip())
        assert {b"a.py", *(b"d%d/b.py" % day for day in range(1, 7))} == set(seen.entries)
        assert days("2026-01-06", None) == window(of, seen, "a.py", "keep\n")
        expected = days("2026-01-03" if kept_back == "blob:none" else "2026-01-06", None)
        assert expected == window(of, seen, "d3/b.py", "b\n")
        assert of.build()
        assert expected == window(of, seen, "d3/b.py", "b\n")
        early = of.at(Instant(seconds("2026-01-02"))) if kept_back == "blob:none" else None
        if early is not None:  # d1/b.py has the very blob of those at the tip, the old a.py was never fetched
            assert {b"d1/b.py", b"d2/b.py"} == set(early.entries)
            assert (b"a.py",) == early.skipped["missing_object"]
        else:
            with pytest.raises(Missing):
                of.at(Instant(seconds("2026-01-02")))
    git(path, "config", "--unset", "remote.origin.partialclonefilter")
    git(path, "fetch", "-q", "--refetch", "--no-filter", "origin")
    for whole in (of, History(Repository.open(path), store)):
        assert days("2026-01-01", None) == window(whole, whole.snapshot(made.tip()), "a.py", "keep\n")
        assert days("2026-01-03", None) == window(whole, whole.snapshot(made.tip()), "d3/b.py", "b\n")
        assert [2] * 6 == [message.files for message in whole.messages(whole.snapshot(made.tip())).items]


@needs_git
def test_grafts_and_replacements_change_nothing(tmp_path: FilePath) -> None:
    made = make_repo([(f"2026-01-0{day}", {"a.py": f"{day}\n"}) for day in range(1, 5)])
    other = made.commit("2025-01-01", {"z.py": "z\n"}, ref="refs/heads/other", parents=[])
    root, second = made.commits[0].hex(), made.commits[1].hex()
    git(made.path, "replace", "--graft", root, other.hex())
    git(made.path, "replace", "-f", second, made.commits[2].hex())
    (made.path / ".git" / "info").mkdir(exist_ok=True)
    (made.path / ".git" / "info" / "grafts").write_text(f"{root} {other.hex()}\n")
    asked = ("--no-replace-objects", "rev-list", "--first-parent", "--reverse", "main")
    (made.path / ".git" / "info" / "grafts").rename(tmp_path / "grafts")
    listed = git(made.path, *asked).decode().split()
    (tmp_path / "grafts").rename(made.path / ".git" / "info" / "grafts")
    of = history(made)
    assert listed == [commit.hex() for commit in of.line(made.tip()).commits]
    assert None is of.at(Instant(seconds("2025-06-01")))
    assert made.commits[1] == snapshot(of, "2026-01-02").commit
    assert b"2\n" == of.repository.read(snapshot(of, "2026-01-02"), Path(b"a.py"))


def test_fractions_of_a_second_are_of_that_second() -> None:
    made = make_repo([("2026-01-01T00:00:00+00:00", {"a": "1\n"}), ("2026-01-01T00:00:01+00:00", {"a": "2\n"})])
    asked = ("2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:01.0Z")
    assert [None, *made.commits] == [at(made, parse_instant(text)) for text in asked]


def test_a_branch_switched_or_moved_while_serving_is_followed_and_a_pinned_one_stays() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})])
    made.commit("2026-01-03", {"a.py": "other\n"}, ref="refs/heads/other", parents=[made.commits[0]])
    following, pinned = history(made), history(made, ref="main")
    late = Instant(seconds("2026-02-01"))
    for head, expected in (("other", b"other\n"), ("main", b"2\n"), ("other", b"other\n")):
        made.set_head(f"refs/heads/{head}")
        for of, content in ((following, expected), (pinned, b"2\n")):
            seen = of.at(late)
            assert seen is not None
            assert content == of.repository.read(seen, Path(b"a.py"))
            opens = {b"2\n": "2026-01-02", b"other\n": "2026-01-03"}[content]
            assert days(opens, None) == window(of, seen, "a.py", content.decode())
    made.set_ref("refs/heads/main", made.commits[0])
    assert made.commits[0] == snapshot(pinned, "2026-02-01").commit


def test_a_lost_commit_cuts_the_line_there() -> None:
    made = make_repo([(f"2026-01-0{day}", {"a.py": f"{day}\n"}) for day in range(1, 5)])
    name = made.commits[1].hex()
    (made.path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    line = history(made).line(made.tip())
    assert (made.commits[2:], True) == (line.commits, line.cut)


def test_the_deadline_is_kept_and_the_next_try_goes_on() -> None:
    made = line_of(make_repo(), [{"a.py": f"{number}\n"} for number in range(200)])
    of = history(made)
    past = time.monotonic() - 1
    for wanted in (lambda: of.at(Instant(0), past), lambda: of.messages(of.snapshot(made.tip()), deadline=past)):
        with pytest.raises(Late):
            wanted()
    assert made.tip() == snapshot(of, "2030-01-01").commit


# --- windows ---------------------------------------------------------------------------------------------------


def test_a_window_is_that_of_the_very_lines() -> None:
    made = line_of(
        make_repo(),
        [{"a.py": "one\n"}, {"a.py": "one\ntwo\n"}, {"a.py": "zero\none\ntwo\n"}, {"a.py": "zero\none\n2\n"}],
    )
    of = history(made)
    seen = snapshot(of, "2026-01-03")
    assert days("2026-01-01", None) == window(of, seen, "a.py", "one\n")
    assert days("2026-01-02", "2026-01-04") == window(of, seen, "a.py", "two\n")
    assert days("2026-01-02", "2026-01-04") == window(of, seen, "a.py", "one\ntwo\n")
    assert days("2026-01-03", "2026-01-04") == window(of, seen, "a.py", "zero\none\ntwo\n")


def test_what_was_worked_out_over_a_damaged_object_is_not_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(9))
    made = line_of(make_repo(), [{"a.py": text}, {"a.py": None, "b.py": text + "more\n"}])
    name = blob_id(text.encode()).hex()
    loose = made.path / ".git" / "objects" / name[:2] / name[2:]
    whole = loose.read_bytes()
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(b"blob 1\0x"))
    store = Memory()
    for expected in ("2026-01-02", "2026-01-01"):
        of = history(made, store)
        assert days(expected, None) == window(of, snapshot(of, "2026-01-02"), "b.py", "line 1\n")
        loose.write_bytes(whole)


def test_a_whole_file_stood_as_long_as_there_was_nothing_beside_it() -> None:
    made = line_of(make_repo(), [{"a.py": text} for text in ("one\ntwo\n", "one\n", "one\nthree\n")])
    of = history(made)
    seen = snapshot(of, "2026-01-02")
    assert days("2026-01-01", None) == window(of, seen, "a.py", "one\n")
    (whole,) = of.windows([(Path(b"a.py"), b"one\n")], seen, whole=True).windows
    assert days("2026-01-02", "2026-01-03") == (whole.opens, whole.closes)


def test_a_window_of_transcoded_text_has_an_end() -> None:
    """Pieces of a UTF-16 file are cut from it as UTF-8, and looked for in its other contents as such."""
    made = line_of(make_repo(), [{"a.py": f"x = {number}\ny\n".encode("utf-16")} for number in range(3)])
    of = history(made)
    assert days("2026-01-02", "2026-01-03") == window(of, snapshot(of, "2026-01-02"), "a.py", "x = 1\n")
    assert days("2026-01-01", None) == window(of, snapshot(of, "2026-01-02"), "a.py", "y\n")


def test_lines_count_as_lines_only_whole() -> None:
    made = line_of(make_repo(), [{"a.py": "x = 1"}, {"a.py": "x = 1\ny = 2\n"}, {"a.py": "xx = 1\ny = 2\nx = 1\n"}])
    of = history(made)
    assert days("2026-01-02", None) == window(of, snapshot(of, "2026-01-03"), "a.py", "x = 1\n")
    assert days("2026-01-01", "2026-01-02") == window(of, snapshot(of, "2026-01-01"), "a.py", "x = 1")


def test_beside_the_working_tree_only_committed_files_have_a_beginning() -> None:
    made = line_of(make_repo(), [{"a.py": "1\n", "b.py": "2\n"}, {"c.py": "3\n"}])
    made.write("b.py", "edited\n")
    made.write("new.py", "untracked\n")
    of = history(made)
    seen = of.repository.working_tree()
    pieces = [(b"a.py", b"1\n"), (b"b.py", b"edited\n"), (b"new.py", b"untracked\n"), (b"c.py", b"3\n")]
    answer = of.windows([(Path(path), piece) for path, piece in pieces], seen)
    expected = [Window(Instant(seconds("2026-01-01"))), Window(), Window(), Window(Instant(seconds("2026-01-02")))]
    assert expected == list(answer.windows)


def test_the_untouched_lines_of_an_edited_file_have_their_beginning() -> None:
    made = line_of(make_repo(), [{"a.py": "1\n2\n3\n"}, {"a.py": "1\n2\nthree\n"}])
    made.write("a.py", "new\n1\ntwo\nthree\n")
    of = history(made)
    seen = of.repository.working_tree()
    pieces = [(Path(b"a.py"), piece) for piece in (b"1\n", b"three\n", b"two\n", b"1\ntwo\n", b"new\n1\n")]
    expected = [Window(Instant(seconds("2026-01-01"))), Window(Instant(seconds("2026-01-02"))), *[Window()] * 3]
    assert expected == list(of.windows(pieces, seen).windows)
    assert [Window()] == list(of.windows(pieces[:1], seen, whole=True).windows)


def test_past_the_deadline_nothing_is_sure_of_an_edited_file() -> None:
    made = line_of(make_repo(), [{"a.py": "1\n2\n"}, {"a.py": "1\n3\n"}])
    made.write("a.py", "1\nthree\n")
    of = history(made)
    seen = of.repository.working_tree()
    of.windows([], seen)  # the line is known, its files are not
    late = of.windows([(Path(b"a.py"), b"1\n")], seen, deadline=0.0)
    assert ((Window(),), False) == (late.windows, late.complete)


LONG = "".join(f"line {number}\n" for number in range(20))


@pytest.mark.parametrize(
    ("moves", "then", "now"),
    [
        ([{"a.py": None, "a.py/x/y.py": LONG + "z\n"}, {"a.py/x/y.py": None, "a.py": LONG}], "a.py", "a.py"),
        ([{"a.py": None, "b.py": LONG}], "a.py", "b.py"),
        ([{"a.py": None, "b.py": LONG + "more\n"}], "a.py", "b.py"),
        (
            [{"a.py": None, "b.py": LONG}, {"b.py": LONG + "x\n"}, {"b.py": None, "d/c.py": LONG + "x\n"}],
            "a.py",
            "d/c.py",
        ),
        ([{"a.py": None, "A.py": LONG}], "a.py", "A.py"),
        ([{"a.py": None, "a.py/inner.py": LONG}], "a.py", "a.py/inner.py"),
    ],
)
def test_renames_are_followed_both_ways(moves: list[Files], then: str, now: str) -> None:
    made = line_of(make_repo(), [{"a.py": LONG, "z.py": "z\n"}, *moves, {"z.py": "end\n"}])
    of = history(made)
    old, new = snapshot(of, "2026-01-01"), snapshot(of, "2026-02-01")
    assert days("2026-01-01", None) == window(of, old, then, "line 3\nline 4\n")
    assert days("2026-01-01", None) == window(of, new, now, "line 3\nline 4\n")
    assert Path(now.encode()) == of.path_now(Path(then.encode()), old)
    assert Path(then.encode()) == of.path_then(Path(now.encode()), old)
    assert Path(b"z.py") == of.path_now(Path(b"z.py"), old) == of.path_then(Path(b"z.py"), old)
    assert None is of.path_then(Path(b"never.py"), old)


def test_a_copy_is_a_new_file() -> None:
    made = line_of(make_repo(), [{"a.py": LONG}, {"b.py": LONG}])
    of = history(made)
    assert days("2026-01-02", None) == window(of, snapshot(of, "2026-01-02"), "b.py", LONG)
    assert days("2026-01-01", None) == window(of, snapshot(of, "2026-01-02"), "a.py", LONG)


def test_a_deleted_file_ends_and_starts_anew() -> None:
    made = line_of(make_repo(), [{"a.py": "1\n"}, {"a.py": None, "b.py": "0\n"}, {"a.py": "1\n"}])
    of = history(made)
    assert days("2026-01-01", "2026-01-02") == window(of, snapshot(of, "2026-01-01"), "a.py", "1\n")
    assert days("2026-01-03", None) == window(of, snapshot(of, "2026-01-03"), "a.py", "1\n")
    assert None is of.path_now(Path(b"a.py"), snapshot(of, "2026-01-02")) or True
    assert [days("2026-01-03", None)] == [
        (run.opens, run.closes) for run in of.runs(Path(b"a.py"), snapshot(of, "2026-01-03"))
    ]


def test_what_came_and_went_within_a_second_was_never_there() -> None:
    made = line_of(make_repo(), [{"a.py": "1\nkeep\n"}])
    made.commit("2026-01-02", {"a.py": None, "b.py": "0\n"})
    made.commit("2026-01-02", {"a.py": "2\nkeep\n"})
    made.commit("2026-01-03", {"a.py": "gone for a moment\n"})
    made.commit("2026-01-03", {"a.py": "2\nkeep\n"})
    of = history(made)
    for when in ("2026-01-01", "2026-01-02", "2026-01-03"):
        assert days("2026-01-01", None) == window(of, snapshot(of, when), "a.py", "keep\n")
    assert days("2026-01-02", None) == window(of, snapshot(of, "2026-01-02"), "a.py", "2\n")


def test_modes_submodules_and_empty_commits_change_no_content() -> None:
    made = make_repo([("2026-01-01", {"a.sh": "echo\n", "sub": Gitlink("1" * 40)})])
    line_of(made, [{"a.sh": Executable(b"echo\n")}, {"sub": Gitlink("2" * 40)}, {}], "2026-01-02")
    of = history(made)
    assert days("2026-01-01", None) == window(of, snapshot(of, "2026-01-04"), "a.sh", "echo\n")
    assert made.commits[3] == snapshot(of, "2026-01-04").commit
    assert [made.commits[0]] == [run.commit for run in of.runs(Path(b"a.sh"), snapshot(of, "2026-01-04"))]


def test_a_walk_stops_after_so_many_contents() -> None:
    made = line_of(make_repo(), [{"a.py": f"keep\n{number}\n"} for number in range(2 * RUNS + 20)])
    of = history(made)
    middle = RUNS + 10
    seen = of.snapshot(made.commits[middle])
    start = seconds("2026-01-01")
    expected = (start + (middle - RUNS) * DAY, start + (middle + RUNS + 1) * DAY)
    assert expected == window(of, seen, "a.py", "keep\n")


def test_past_the_deadline_a_window_is_what_is_certain() -> None:
    made = line_of(make_repo(), [{"a.py": "keep\n"}, {"a.py": "keep\n1\n"}, {"a.py": "keep\n2\n"}])
    of = history(made)
    seen = snapshot(of, "2026-01-02")
    answer = of.windows([(Path(b"a.py"), b"keep\n")], seen, time.monotonic() - 1)
    assert not answer.complete
    assert [Window(*(Instant(seconds(f"2026-01-0{day}")) for day in (2, 3)))] == list(answer.windows)
    late = of.windows([(Path(b"a.py"), b"keep\n2\n")], of.repository.working_tree(), time.monotonic() - 1)
    assert (False, (Window(Instant(seconds("2026-01-03"))),)) == (late.complete, late.windows)


def test_past_the_deadline_and_without_a_line_a_file_at_hand_has_no_window() -> None:
    made = line_of(make_repo(), [{"a.py": f"keep\n{number}\n"} for number in range(70)])
    cold = history(made)
    late = cold.windows([(Path(b"a.py"), b"keep\n")], cold.repository.working_tree(), time.monotonic() - 1)
    assert (False, (Window(),)) == (late.complete, late.windows)


def test_where_an_older_content_is_not_here_the_window_starts_after_it() -> None:
    made = line_of(make_repo(), [{"a.py": "keep\n1\n"}, {"a.py": "keep\n2\n"}, {"a.py": "keep\n3\n"}])
    name = blob_id(b"keep\n1\n").hex()
    (made.path / ".git" / "objects" / name[:2] / name[2:]).unlink()
    of = history(made)
    assert days("2026-01-02", None) == window(of, snapshot(of, "2026-01-03"), "a.py", "keep\n")


def test_runs_tell_every_content_of_a_file_newest_first() -> None:
    made = line_of(
        make_repo(), [{"a.py": LONG}, {"b.py": "x\n"}, {"a.py": None, "c.py": LONG + "1\n"}, {"c.py": "new\n"}]
    )
    of = history(made)
    found = of.runs(Path(b"c.py"), of.repository.working_tree())
    told = [(run.path, format_instant(run.opens), format_instant(run.closes)) for run in found]
    expected = [("c.py", "04", None), ("c.py", "03", "04"), ("a.py", "01", "03")]
    assert [(p.encode(), f"2026-01-{o}T00:00:00Z", c and f"2026-01-{c}T00:00:00Z") for p, o, c in expected] == told
    assert [made.commits[3], made.commits[2], made.commits[0]] == [run.commit for run in found]


# --- renames and pieces ----------------------------------------------------------------------------------------


def test_the_same_bytes_win_over_alike_ones_and_the_same_name_over_another() -> None:
    made = make_repo([("2026-01-01", {"x": LONG})])
    alike = made.repo.create_blob(LONG + "more\n").raw
    same = blob_id(LONG.encode())

    def gone(path: str, blob: bytes) -> Change:
        return Change(Path(path.encode()), BlobId(blob), None)

    def come(path: str, blob: bytes) -> Change:
        return Change(Path(path.encode()), None, BlobId(blob))

    with Repository.open(str(made.path)).objects() as objects:
        changes = [gone("a/m.py", same), gone("b/n.py", alike), come("c/n.py", same), come("c/m.py", alike)]
        assert {b"c/n.py": b"a/m.py", b"c/m.py": b"b/n.py"} == renames(changes, objects)
        assert {b"c/n.py": b"a/m.py", b"c/m.py": b"b/n.py"} == renames(changes, None)
        twins = [gone("a/m.py", same), gone("a/n.py", same), come("b/n.py", same), come("b/m.py", same)]
        assert {b"b/m.py": b"a/m.py", b"b/n.py": b"a/n.py"} == renames(twins, objects)
        empty = made.repo.create_blob(b"").raw
        assert {} == renames([gone("a", empty), come("b", empty)], objects)
        other = made.repo.create_blob(b"nothing alike\n" * 30).raw
        assert {} == renames([gone("a", same), come("b", other), come("c", b"\1" * 20)], objects)


@needs_git
@pytest.mark.parametrize("kept", range(0, 21, 2))
def test_what_counts_as_a_rename_is_what_git_takes_for_one(kept: int) -> None:
    fresh = "".join(f"fresh {number}\n" for number in range(kept, 20))
    new = "".join(f"line {number}\n" for number in range(kept)) + fresh
    made = line_of(make_repo(), [{"a.py": LONG}, {"a.py": None, "b.py": new}])
    told = git(made.path, "diff", "--name-status", "-M50%", "HEAD~1", "HEAD").decode()
    of = history(made)
    assert (Path(b"b.py") if told.startswith("R") else None) == of.path_now(Path(b"a.py"), snapshot(of, "2026-01-01"))


TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"ab\n", b"\n", b"a"]), max_size=8).map(b"".join)


@given(TEXTS, TEXTS, st.integers(0, 8), st.integers(1, 8))
def test_what_two_contents_share_places_pieces_where_a_look_would(
    one: bytes, other: bytes, first: int, count: int
) -> None:
    lines = one.splitlines(keepends=True)
    piece = b"".join(lines[first : first + count])
    if piece:
        start = sum(map(len, lines[:first]))
        moved = _edit(one, other).moved(start, piece)
        if moved is not None:
            assert piece == other[moved : moved + len(piece)]
            assert 0 <= place(other, piece)
            assert moved == 0 or other[moved - 1 : moved] == b"\n"
            assert piece.endswith(b"\n") or moved + len(piece) == len(other)


def test_pieces_outside_the_change_need_no_second_look() -> None:
    edit = _edit(b"a\nb\nc\nd\n", b"a\nb\nX\nY\nd\n")
    assert Edit(prefix=4, suffix=2, grown=2, size=8) == edit
    assert [0, 8, None] == [edit.moved(0, b"a\nb\n"), edit.moved(6, b"d\n"), edit.moved(4, b"c\n")]


# --- the store -------------------------------------------------------------------------------------------------


def told(of: History, instants: Iterable[int]) -> list[object]:
    """Everything a history says about some instants."""
    found: list[object] = []
    for instant in instants:
        seen = of.at(Instant(instant))
        if seen is None:
            found.append(None)
            continue
        pieces = [(path, of.repository.read(seen, path) or b"") for path in seen.entries]
        found += [seen.commit, seen.entries, of.windows(pieces, seen), of.messages(seen)]
        found += [of.path_now(path, seen) for path in seen.entries]
    return found


def by_ourselves(task: str, payloads: Sequence[bytes], deadline: float | None) -> list[bytes | None]:
    """Stands for processes that do a task; the first payload is always lost."""
    module, _, name = task.partition(":")
    return [None, *map(getattr(import_module(module), name), payloads[1:])]


@requirement("P1", "P7")
@pytest.mark.parametrize("rubbish", [b"", b"\x93\x01", b"\xc1", b"\x94\xa0\xa0\xa0\x90"])  # the store sums the rest
def test_a_warm_store_and_a_damaged_one_say_what_none_says(rubbish: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "PART", 8)
    monkeypatch.setattr(history_module, "STEP", 4)
    made = line_of(make_repo(), [{"a.py": f"keep\n{n // 3}\n", f"f{n % 5}.py": f"{n}\n"} for n in range(30)])
    made.commit("2026-01-20", {"a.py": None, "b.py": "keep\n9\n"})
    instants = [seconds("2026-01-01") + DAY * number for number in (-1, 0, 7, 8, 15, 29, 40)]
    expected = told(history(made), instants)
    store = Memory()
    filling = history(made, store)
    filling.bulk = by_ourselves
    assert filling.build()
    assert expected == told(filling, instants)
    written = store.written
    assert {"line", "changes", "messages"} <= {table for table, _ in store.kept}
    assert expected == told(history(made, store), instants)
    assert written == store.written
    store.kept = dict.fromkeys(store.kept, rubbish)
    assert expected == told(history(made, store), instants)


def test_what_questions_about_the_past_need_is_read_ahead_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MESSAGES", 10)
    monkeypatch.setattr(history_module, "STEP", 4)
    made = line_of(make_repo(), [{"a.py": f"{number}\n"} for number in range(40)])
    store = Memory()
    running = history(made, store)
    tasks: list[str] = []

    def helping(task: str, payloads: Sequence[bytes], deadline: float | None) -> list[bytes | None]:
        tasks.append(task)
        return by_ourselves(task, payloads, deadline)

    running.bulk = helping
    running.foresee(stop=lambda: True)
    assert not tasks
    running.foresee()
    read = {key for table, key in store.kept if table == "messages"}
    assert set(made.commits[:26]) == read  # all but the newest ten, and a payload's four that were lost
    asked = len(tasks)
    running.foresee()
    made.commit("2027-01-01", {"a.py": "new\n"})
    running.foresee()
    assert asked == len(tasks)
    seen = snapshot(running, "2026-01-20")
    assert history(made).messages(seen, 10) == running.messages(seen, 10)


def test_after_a_new_tip_only_the_difference_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "PART", 8)
    monkeypatch.setattr(history_module, "STEP", 4)
    made = line_of(make_repo(), [{"a.py": f"{number}\n"} for number in range(40)])
    store = Memory()
    running = history(made, store)
    running.line(made.tip())
    made.commit("2027-01-01", {"a.py": "new\n"})
    made.set_ref("refs/heads/main", made.commits[38])
    forced = made.commit("2027-01-02", {"a.py": "other\n"})
    read: list[CommitId] = []
    header = History.header

    def reading(of: History, objects: Objects, commit: CommitId) -> Header:
        read.append(commit)
        return header(of, objects, commit)

    monkeypatch.setattr(History, "header", reading)
    assert 40 == len(running.line(forced))
    assert [forced] == read
    read.clear()
    fresh = history(made, store)
    assert running.line(forced).commits == fresh.line(forced).commits
    assert len(read) <= 8
    walked: list[int] = []
    events = History._read_events

    def walking(of: History, line: Line, part: int, deadline: float | None) -> dict[Path, list[Event]] | None:
        walked.append(part)
        return events(of, line, part, deadline)

    monkeypatch.setattr(History, "_read_events", walking)
    running.build()
    assert 10 == len(walked)
    walked.clear()
    fresh.build()
    assert [] == walked


def test_building_can_be_stopped_and_goes_on() -> None:
    made = line_of(make_repo(), [{"a.py": f"{number}\n"} for number in range(300)])
    of = history(made)
    asked = iter([False, True])
    assert not of.build(lambda: next(asked))
    assert 1 == len(of._parts)
    assert of.build()
    assert 3 == len(of._parts)


@pytest.mark.slow
@needs_git
@fault(22)
def test_memory_stays_flat_over_twenty_thousand_commits(tmp_path: FilePath) -> None:
    import resource

    def stream() -> Iterable[bytes]:
        for number in range(20_000):
            data = b"%d\n" % number
            yield b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\n" % (1_700_000_000 + number)
            yield b"M 644 inline f%d.py\ndata %d\n%s\n" % (number % 3, len(data), data)

    git(tmp_path, "init", "-q", "--initial-branch=main", "r")
    git(tmp_path / "r", "fast-import", "--quiet", stdin=b"".join(stream()))

    def go() -> int:
        of = History(Repository.open(str(tmp_path / "r")))
        of.build()
        of.messages(snapshot(of, "2030-01-01"))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first, second = go(), go()
    assert second <= first * 1.1
    assert second < 500_000


# --- messages and commits --------------------------------------------------------------------------------------


def merged() -> tuple[Made, CommitId, CommitId]:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "b.py": "1\n"})])
    side = made.commit(
        "2026-01-03",
        {"a.py": "2\n"},
        message="Fix the retry\n\nBecause of load.\n\nSigned-off-by: A <a@b>\n",
        ref="refs/heads/side",
        parents=[made.tip()],
    )
    merge = made.commit(
        "2026-01-10", {"a.py": "2\n"}, message="Merge pull request #7 from x/y\n", parents=[made.tip(), side]
    )
    made.commit("2026-01-11", {"b.py": "3\n", "c.py": "4\n"}, message="Grow\n")
    made.commit("2026-01-12", {f"{n}.txt": "x\n" for n in range(9)}, message="Bulk\n")
    return made, side, merge


def test_messages_are_those_reachable_from_the_instant_without_merges() -> None:
    made, _, merge = merged()
    of = history(made)
    items = of.messages(snapshot(of, "2026-02-01")).items
    assert ["Bulk", "Grow", "Fix the retry\nBecause of load.", "Commit 1"] == [message.text for message in items]
    assert [9, 2, 1, 2] == [message.files for message in items]
    assert [b"b.py", b"c.py"] == list(items[1].paths)
    assert merge not in {message.commit for message in items}
    before = of.messages(snapshot(of, "2026-01-05"))
    assert [made.commits[0]] == [message.commit for message in before.items]
    assert 1 == of.messages(snapshot(of, "2026-02-01")).bulk


def test_a_message_is_heard_from_when_its_commit_came_to_the_line() -> None:
    made, side, _ = merged()
    of = history(made)
    opens = of.messages(snapshot(of, "2026-02-01")).opens
    assert days("2026-01-10", "2026-01-01", "2026-01-11") == tuple(
        opens[commit] for commit in (side, made.commits[0], made.commits[3])
    )


def test_a_bounded_number_of_the_newest_is_kept() -> None:
    made, _, _ = merged()
    of = history(made)
    newest = of.messages(snapshot(of, "2026-02-01"), limit=2)
    assert ["Bulk", "Grow"] == [message.text for message in newest.items]
    assert 2 == len(newest.opens)


def test_messages_grow_with_the_line_as_if_read_anew() -> None:
    made, _, _ = merged()
    running, store = history(made), Memory()
    for number, when in enumerate(("2026-02-01", "2025-01-01", "2026-02-02", "2026-02-02")):
        side = made.commit(when, {"s.py": f"{number}\n"}, ref=f"refs/heads/s{number}", parents=[made.tip()])
        made.commit(when, {"s.py": f"{number}\n"}, parents=[made.tip(), side] if number == 2 else None)
        for limit in (3, 100):
            fresh, stored = history(made), history(made, store)
            expected = fresh.messages(fresh.snapshot(made.tip()), limit)
            for of in (running, stored):
                found = of.messages(of.snapshot(made.tip()), limit)
                assert (expected, dict(expected.opens)) == (found, dict(found.opens))


def test_messages_follow_a_file_to_its_new_name() -> None:
    made = line_of(
        make_repo(), [{"a.py": "1\n"}, {"a.py": "2\n"}, {"a.py": None, "b.py": "2\n"}, {"b.py": "3\n", "c.py": "x\n"}]
    )
    of = history(made)
    messages = of.messages(of.snapshot(made.tip()))
    assert (0, 1, 2, 3) == messages.touching[Path(b"b.py")]
    assert b"a.py" not in messages.touching
    assert [(b"b.py",)] * 2 == [message.paths for message in messages.items[2:]]


def test_files_that_change_together_are_neighbours() -> None:
    made = line_of(
        make_repo(),
        [
            {"a": "1", "b": "1", "c": "1", "d": "1"},
            {"a": "2", "b": "2"},
            {"a": "3", "c": "3", "b": "3"},
            {"d": "4", "c": "4"},
        ],
    )
    of = history(made)
    messages = of.messages(of.snapshot(made.tip()))
    third = 1 / 3
    together = messages.changed_together(Path(b"a"))
    assert [b"b", b"c", b"d"] == [path for path, _ in together]
    assert pytest.approx([1.5 + third, 0.5 + third, third]) == [weight for _, weight in together]
    assert made.commits[1] == messages.previous(made.commits[2], [Path(b"a")])
    assert made.commits[2] == messages.previous(made.commits[3], [Path(b"c"), Path(b"d")])
    assert None is messages.previous(made.commits[0], [Path(b"a")])
    assert [] == Messages().changed_together(Path(b"a"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Subject\n\nBody  \n\nSigned-off-by: A <a@b>\nCo-authored-by: B <b@c>\n", "Subject\nBody"),
        ("Merge pull request #12 from user/branch\n\nReal title\n", "Real title"),
        ("Merge branch 'main' of https://x into y\n", ""),
        ("Merge the two loops\n", "Merge the two loops"),
        ("Fix\n\n(cherry picked from commit 0123abc)\ngit-svn-id: https://x@1 2\n----\n", "Fix"),
        ("", ""),
    ],
)
def test_an_explanation_leaves_out_what_nobody_wrote(message: str, expected: str) -> None:
    assert expected == explanation(message)


def test_a_commit_is_told_with_its_hunks() -> None:
    made = line_of(make_repo(), [{"a.py": LONG, "b.py": "x\n", "z": b"\0"}])
    edited = LONG.replace("line 2\n", "second\n").replace("line 17\n", "")
    changes: Files = {"a.py": None, "n.py": edited, "b.py": None, "c.py": "new\nfile\n", "z": b"\0\1"}
    made.commit("2026-01-02T03:04:05", changes, message="Why: because\n\nDetails.\n", author="Zoë")
    told = history(made).commit(made.tip())
    assert ("Why: because", "Zoë", (made.commits[0],)) == (told.subject, told.author, told.parents)
    assert (seconds("2026-01-02T03:04:05"),) * 2 == (told.authored, told.committed)
    assert [(b"b.py", b"b.py", True), (b"c.py", None, False), (b"n.py", b"a.py", False), (b"z", b"z", False)] == [
        (file.path, file.before, file.gone) for file in told.files
    ]
    assert [(0, b"b.py"), (1, b"c.py"), (2, b"n.py"), (3, b"n.py")] == [
        (hunk.ordinal, hunk.path) for hunk in told.hunks
    ]
    assert b" line 0\n line 1\n-line 2\n+second\n line 3\n line 4\n line 5\n" == told.hunks[2].text
    assert (1, 6, 1, 6) == (
        told.hunks[2].old_start,
        told.hunks[2].old_lines,
        told.hunks[2].new_start,
        told.hunks[2].new_lines,
    )
    assert (0, 0, 1, 2, b"+new\n+file\n") == tuple(
        getattr(told.hunks[1], name) for name in ("old_start", "old_lines", "new_start", "new_lines", "text")
    )
    assert told.cut


def test_attributes_and_settings_have_no_say_in_a_diff() -> None:
    made = line_of(make_repo(), [{"a.py": "1\n2\n3\n4\n5\n"}, {"a.py": "1\n2\nx\n4\n5\n"}])
    plain = history(made).commit(made.tip())
    made.write(".gitattributes", "*.py -diff binary\n")
    made.repo.config["diff.context"] = "0"
    made.repo.config["core.attributesFile"] = str(made.path / ".gitattributes")
    assert plain == history(made).commit(made.tip())
    assert [b" 1\n 2\n-3\n+x\n 4\n 5\n"] == [hunk.text for hunk in plain.hunks]


def test_the_root_commit_and_odd_encodings_are_told_too() -> None:
    made = make_repo()
    tree = made.tree({b"a": (0o100644, made.repo.create_blob(b"x"))})
    latin = made.raw_commit(tree, [], "5 +0000", "caf\u00e9".encode("latin-1"))
    data = made.repo[pygit2.Oid(raw=latin)].read_raw()
    for encoding, expected in (
        (b"ISO-8859-1", "caf\u00e9"),
        (b"no-such", "caf\ufffd"),
        (b"zlib", "caf\ufffd"),
        (b"utf-7", None),
    ):
        head, _, body = data.partition(b"\n\n")
        made.set_ref(
            "refs/heads/main",
            CommitId(
                made.repo.odb.write(
                    pygit2.enums.ObjectType.COMMIT, head + b"\nencoding " + encoding + b"\n\n" + body
                ).raw
            ),
        )
        told = history(made).commit(made.tip())
        assert expected in (None, told.message)
        told.message.encode()
        assert [b"+x"] == [hunk.text.partition(b"\n")[0] for hunk in told.hunks]


# --- any history -----------------------------------------------------------------------------------------------

ACTIONS = ("edit", "edit", "add", "delete", "move", "move and edit", "revert", "merge", "nothing")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10**6), st.sampled_from([-3, -1, 0, 0, 1, 1, 2, 5])),
    min_size=2,
    max_size=16,
)


class Story:
    """A history grown from random steps; every line of every file is written once and never copied."""

    def __init__(self) -> None:
        self.made = make_repo()
        self.when = 1000
        self.lines = 0

    def grow(self, steps: Sequence[tuple[str, int, int]]) -> None:
        self.made.commit(self.when, {"f0": self._fresh(12), "d/f1": self._fresh(12)})
        for action, pick, passed in steps:
            self.when += passed
            self._step(action, pick)

    def _step(self, action: str, pick: int) -> None:
        files = {path: self.made.repo[leaf[1]].read_raw() for path, leaf in self.made.flat(self.made.tip()).items()}
        if action == "merge":
            changes = self._changes("edit", pick, files)
            side = self.made.commit(self.when - pick % 3, changes, ref=f"refs/heads/{pick}", parents=[self.made.tip()])
            self.made.commit(self.when, changes, parents=[self.made.tip(), side])
        elif action == "revert":
            tree = self.made.flat(self.made.commits[pick % len(self.made.commits)])
            old: Files = {path: self.made.repo[leaf[1]].read_raw() for path, leaf in tree.items()}
            self.made.commit(self.when, {**dict.fromkeys(files), **old})
        else:
            self.made.commit(self.when, self._changes(action, pick, files))

    def _changes(self, action: str, pick: int, files: Mapping[bytes, bytes]) -> Files:
        if action == "add" or not files:
            return {f"{'d/' if pick % 2 else ''}f{pick}": self._fresh(12)}
        path = sorted(files)[pick % len(files)]
        if action == "nothing":
            return {}
        if action == "delete":
            return {path: None}
        data = files[path]
        if action != "move":
            lines = data.splitlines(keepends=True)
            where = pick // 7 % len(lines)
            data = b"".join([*lines[:where], self._fresh(1).encode(), *lines[where + 1 :]])
        return {path: data} if action == "edit" else {path: None, f"m{pick}/moved": data}

    def _fresh(self, count: int) -> str:
        self.lines += count
        return "".join(f"line {number} of the story\n" for number in range(self.lines - count, self.lines))


@needs_git
@requirement("P3", "Q2")
@settings(max_examples=(settings().max_examples + 3) // 4)
@given(STEPS, st.lists(st.integers(-4, 40), min_size=1, max_size=4))
def test_any_history_is_told_as_git_has_it_and_windows_are_true(
    steps: list[tuple[str, int, int]], asked: list[int]
) -> None:
    story = Story()
    story.grow(steps)
    made = story.made
    of, built = history(made), history(made)
    assert built.build()
    listed = git(made.path, "log", "--first-parent", "--reverse", "--format=%H %ct %T", "main").decode().split()
    commits, times, trees = listed[0::3], [int(text) for text in listed[1::3]], listed[2::3]
    line = of.line(made.tip())
    assert commits == [commit.hex() for commit in line.commits]
    assert trees == [tree.hex() for tree in line.trees]
    effective = [max(times[: index + 1]) for index in range(len(times))]
    assert effective == line.times
    for instant in sorted({1000 + offset for offset in asked} | {effective[len(effective) // 2]}):
        picked = [index for index, when in enumerate(effective) if when <= instant]
        seen = of.at(Instant(instant))
        assert (commits[picked[-1]] if picked else None) == (seen.commit.hex() if seen and seen.commit else None)
        if seen is not None:
            _check_snapshot(made, seen, instant)
            _check_windows(of, seen, instant)
            _check_windows(built, seen, instant)


def _check_snapshot(made: Made, seen: Snapshot, instant: int) -> None:
    assert seen.commit is not None
    out = git(made.path, "ls-tree", "-r", "-z", seen.commit.hex()).split(b"\0")[:-1]
    leaves = {line.partition(b"\t")[2]: bytes.fromhex(line.split()[2].decode()) for line in out}
    assert leaves == {bytes(path): bytes(entry.blob) for path, entry in seen.entries.items()}
    assert seen.opens is not None
    assert seen.opens <= instant
    assert seen.closes is None or instant < seen.closes


def _check_windows(of: History, seen: Snapshot, instant: int) -> None:
    pieces: list[tuple[Path, bytes]] = []
    for path in seen.entries:
        lines = (of.repository.read(seen, path) or b"").splitlines(keepends=True)
        pieces += [(path, lines[0]), (path, lines[len(lines) // 2]), (path, lines[-1])]
    for (path, piece), found in zip(pieces, of.windows(pieces, seen).windows, strict=True):
        assert found.opens is not None
        assert found.opens <= instant
        assert found.closes is None or instant < found.closes
        assert _anywhere(of, piece, found.opens)
        assert not _anywhere(of, piece, found.opens - 1), (path, piece)
        if found.closes is not None:
            assert _anywhere(of, piece, found.closes - 1)
            assert not _anywhere(of, piece, found.closes), (path, piece)


def _anywhere(of: History, piece: bytes, instant: int) -> bool:
    seen = of.at(Instant(instant))
    return seen is not None and any(place(of.repository.read(seen, path) or b"", piece) >= 0 for path in seen.entries)


@settings(max_examples=(settings().max_examples + 3) // 4)
@given(STEPS)
def test_later_instants_never_give_older_commits(steps: list[tuple[str, int, int]]) -> None:
    story = Story()
    story.grow(steps)
    of = history(story.made)
    line = of.line(story.made.tip())
    places = [line.at(instant) for instant in range(990, story.when + 30)]
    assert all(earlier <= later for earlier, later in pairwise(places))
    assert len(line) - 1 == places[-1] or line.times[-1] >= story.when + 30


@needs_git
@pytest.mark.parametrize("mode", [b"040000", b"40755", b"40775"])
def test_directories_whose_modes_old_tools_wrote_are_directories(mode: bytes) -> None:
    """Such commits stand in many histories; git looks at the kind alone."""
    made = line_of(make_repo([]), [{"docs/a.md": "one\n", "b.md": "two\n"}])
    tree = made.repo[pygit2.Oid(raw=made.commits[0])].peel(pygit2.Tree).read_raw()
    padded = made.repo.odb.write(
        pygit2.enums.ObjectType.TREE, tree.replace(b"40000", mode).replace(b"100644", b"100664")
    )
    odd = made.raw_commit(padded, [made.commits[0]], f"{seconds('2026-01-02')} +0000", "Padded\n")
    made.set_ref("refs/heads/main", odd)
    made.commit("2026-01-03", {"b.md": "three\n"})
    of = history(made)
    seen = snapshot(of, "2026-01-02")
    assert git(made.path, "ls-tree", "-r", "--name-only", odd.hex()).split() == list(seen.entries)
    assert days("2026-01-01", None) == window(of, seen, "docs/a.md", "one\n")
    assert days("2026-01-01", "2026-01-03") == window(of, seen, "b.md", "two\n")
