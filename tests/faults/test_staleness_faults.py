"""A working tree that changes while it is looked at, and one that is too much to look at."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path as FilePath

import pytest

from repo_provider import disk, ignores, worktree
from repo_provider.model import Late
from repo_provider.protocol import ContextQuery
from repo_provider.provider import Provider
from repo_provider.repository import Repository
from repo_provider.settings import Settings
from tests.faults import fault
from tests.repos import Made, git, make_repo, needs_git

PAST = 0.0
"""A deadline that is over."""


@pytest.fixture
def made(tmp_path: FilePath) -> Made:
    return make_repo([("2026-01-01", {"a.py": "x = 1\n", "d/b.py": "y = 1\n", "d/e/c.py": "z = 1\n"})], tmp_path / "r")


def opened(made: Made) -> Repository:
    return Repository.open(str(made.path))


def listed(repository: Repository) -> list[bytes]:
    return list(repository.working_tree().entries)


def served(repository: Repository) -> dict[bytes, bytes | None]:
    snapshot = repository.working_tree()
    return {path: repository.read(snapshot, path) for path in snapshot.entries}


# --- something else in its place, between listing and reading ---------------------------------------------------


def _a_link_out(place: FilePath, outside: FilePath) -> None:
    place.symlink_to(outside)


def _a_pipe(place: FilePath, outside: FilePath) -> None:
    os.mkfifo(place)


def _a_folder(place: FilePath, outside: FilePath) -> None:
    place.mkdir()


def _nothing(place: FilePath, outside: FilePath) -> None:
    pass


@fault(74, 80, 84)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("replace", [_a_link_out, _a_pipe, _a_folder, _nothing])
@pytest.mark.parametrize("what", ["a.py", "d", "d/b.py", "d/e"])
def test_what_takes_a_files_place_while_it_is_looked_at_is_not_followed(
    made: Made,
    tmp_path: FilePath,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    replace: Callable[[FilePath, FilePath], None],
) -> None:
    outside = tmp_path / "outside"
    for inside in ("b.py", "e/c.py", "e/e/c.py"):
        (outside / inside).parent.mkdir(parents=True, exist_ok=True)
        (outside / inside).write_text("secret = 1\n")
    place = made.path / what
    items = worktree._Folder.items

    def listing(folder: worktree._Folder) -> object:
        found = items(folder)
        if folder.prefix == os.fsencode(what).rpartition(b"/")[0] + b"/" * ("/" in what) and place.exists():
            place.rename(tmp_path / "moved away")
            replace(place, outside if place.suffix == "" else outside / "b.py")
        return found

    monkeypatch.setattr(worktree._Folder, "items", listing)
    repository = opened(made)
    assert all(data is None or b"secret" not in data for data in served(repository).values())
    assert all(data is not None for data in served(repository).values()), "and the next look is right"


@fault(75, 87)
def test_a_file_that_grows_while_it_is_read_is_read_so_far_and_no_further(tmp_path: FilePath) -> None:
    place = tmp_path / "log"
    place.write_bytes(b"x" * 100)
    assert 100 == len(disk.read(place.as_posix(), 100)[0])
    with pytest.raises(disk.TooLarge):
        disk.read(place.as_posix(), 99)
    if os.path.exists("/proc/self/status"):  # says that it is empty, and is not
        with pytest.raises(disk.TooLarge):
            disk.read("/proc/self/status", 10)


# --- too many rules, too many files ------------------------------------------------------------------------------


@fault(88)
@pytest.mark.parametrize(
    "rules",
    [
        "".join(f"*.e{number}\n" for number in range(40_000)),
        "a*" * 10_000,
        "some/long/name/*.txt\n" * 60_000,
    ],
)
@pytest.mark.parametrize("place", [".gitignore", "d/.gitignore", ".git/info/exclude"])
def test_of_more_ignore_rules_than_are_read_nothing_untracked_is_served(made: Made, rules: str, place: str) -> None:
    """So what they hide stays hidden, and what is tracked is served."""
    made.write("d/secret.env", "KEY = 1\n")
    made.write(place, rules)
    repository = opened(made)
    assert [b"a.py", b"d/b.py", b"d/e/c.py"] == [name for name in listed(repository) if name.endswith(b".py")]
    assert b"d/secret.env" not in listed(repository)
    assert any("ignore rules" in note and os.path.basename(place) in note for note in repository.notes())


@fault(88)
def test_rules_add_up_on_the_way_down(made: Made) -> None:
    for number, folder in enumerate(("", "d/", "d/e/")):
        lines = (f"*.{number}x{line}\n" for line in range(ignores.MAX_WILD // 2))
        made.write(f"{folder}.gitignore", "".join(lines))
        made.write(f"{folder}new.py", "n = 1\n")
    assert {b"new.py", b"d/new.py"} == {name for name in listed(opened(made)) if name.endswith(b"new.py")}


@fault(88)
@needs_git
def test_forty_thousand_names_are_rules_like_any_other(made: Made) -> None:
    made.write(".gitignore", "".join(f"name{number}\n/d/here{number}\n" for number in range(20_000)) + "!name7\n")
    for name in ("name6", "name7", "d/name8", "d/here9", "here9", "d/e/name10/x"):
        made.write(name, "n\n")
    told = git(made.path, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    assert sorted(filter(None, told)) == listed(opened(made))


@fault(88)
@pytest.mark.parametrize("pattern", [b"**/a/" * 40 + b"b", b"a*/**/" * 40 + b"b", b"**/" * 400 + b"x", b"/*a" * 40])
def test_many_double_stars_do_not_run_away(pattern: bytes) -> None:
    rules = ignores.rules(pattern + b"\n")
    assert rules is not None
    path = b"a/" * 1_000
    assert None is rules.verdict(path + b"c", b"c", False)


@fault(80, 98)
def test_a_tree_that_cannot_be_listed_in_time_is_listed_further_by_the_next_question(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = opened(made)
    with pytest.raises(Late):
        repository.working_tree(PAST)
    looks = iter(range(1_000))

    def soon(deadline: float | None) -> None:
        if deadline is not None and next(looks) % 8 == 7:
            raise Late

    monkeypatch.setattr(worktree, "check", soon)
    some = repository.working_tree(time.monotonic() + 60)
    assert some.partial
    assert 0 < len(some.entries) < 3
    monkeypatch.undo()
    assert [b"a.py", b"d/b.py", b"d/e/c.py"] == listed(repository)
    assert not repository.working_tree(PAST + time.monotonic() + 60).partial


@fault(80, 98)
def test_while_another_thread_lists_the_tree_a_question_is_answered_from_what_it_found(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider(Settings(path=str(made.path), workers=1, store=None))
    reached, go_on = threading.Event(), threading.Event()
    stat = worktree._Folder.stat

    def slow(folder: worktree._Folder, path: bytes) -> os.stat_result:
        if path == b"d/e/c.py":
            reached.set()
            assert go_on.wait(20)
        return stat(folder, path)

    monkeypatch.setattr(worktree._Folder, "stat", slow)
    behind = threading.Thread(target=provider.now)
    behind.start()
    assert reached.wait(20)
    told = provider.query(ContextQuery(goal="x y z", max_frames=9, max_tokens=999), time.monotonic() + 3)
    go_on.set()
    behind.join(20)
    assert told.truncated
    assert None is told.dropped_estimate
    assert {"a.py", "d/b.py"} >= {frame.citation_label.partition(" ")[0] for frame in told.frames}
    assert not provider.now().partial
    provider.close()


@fault(84, 87)
@pytest.mark.skipif(os.name == "nt", reason="paths have another limit there")
def test_folders_deeper_than_any_path_may_be_are_counted(made: Made) -> None:
    here = os.open(made.path, os.O_RDONLY)
    for _ in range(2_200):
        os.mkdir("d" * 2, dir_fd=here)
        inner = os.open("d" * 2, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("deep.py", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    snapshot = opened(made).working_tree()
    assert [b"a.py", b"d/b.py", b"d/e/c.py"] == list(snapshot.entries)
    assert 1 == len(snapshot.skipped["path_too_long"])
    subprocess.run(["rm", "-rf", str(made.path / ("d" * 2))], check=True)  # pytest gives up on folders so deep
