"""Opening repositories, reading revisions and objects, and the working tree as a snapshot."""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repo_provider import ignores
from repo_provider.errors import BadRequest, Unavailable
from repo_provider.model import BlobId, CommitId, Path, Snapshot
from repo_provider.repository import Missing, Repository, parse_header
from repo_provider.worktree import UnreadableIndex, read_index
from tests.faults import fault
from tests.repos import Executable, Files, Gitlink, Link, Made, blob_id, git, make_repo, needs_git
from tests.spec import requirement

faulthandler.enable()


def opened(where: FilePath | Made, ref: str | None = None) -> Repository:
    return Repository.open(str(where.path if isinstance(where, Made) else where), ref=ref)


def listed(snapshot: Snapshot) -> list[bytes]:
    return list(snapshot.entries)


class Memory:
    """A store that keeps everything, and counts."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], bytes] = {}
        self.written = 0

    def get_many(self, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        return {key: self.kept[table, key] for key in keys if (table, key) in self.kept}

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        self.kept.update({(table, key): value for key, value in items.items()})
        self.written += len(items)


# --- opening ---------------------------------------------------------------------------------------------------


def test_a_path_inside_finds_the_repository_around_it(tmp_path: FilePath) -> None:
    made = make_repo([("2026-01-01", {"a/b/c.py": "x = 1\n"})], tmp_path / "r")
    repository = Repository.open(str(tmp_path / "r" / "a" / "b"))
    assert str(tmp_path / "r") == repository.root
    assert str(tmp_path / "r" / ".git") == repository.git_dir == repository.common_dir
    assert not repository.bare
    assert made.commits[0] == repository.head()
    assert "refs/heads/main" == repository.head_name()


def test_outside_a_repository_there_is_nothing_to_serve(tmp_path: FilePath) -> None:
    with pytest.raises(Unavailable, match="no git repository at") as caught:
        opened(tmp_path)
    assert "not_a_repository" == caught.value.reason


def test_a_path_that_does_not_exist_is_no_repository(tmp_path: FilePath) -> None:
    with pytest.raises(Unavailable) as caught:
        opened(tmp_path / "none")
    assert "not_a_repository" == caught.value.reason


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
@fault(2)
def test_a_foreign_owner_is_told_from_no_repository() -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    for directory, _, files in os.walk(made.path):
        for name in [".", *files]:
            os.chown(os.path.join(directory, name), 4321, 4321)
    for inside in (made.path, made.path / ".git"):
        with pytest.raises(Unavailable, match=r"git config --global --add safe\.directory") as caught:
            opened(inside)
        assert "foreign_owner" == caught.value.reason


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("extensions", "objectformat", "sha256"),
        ("extensions", "refstorage", "reftable"),
        ("extensions", "somethingnew", "true"),
        ("core", "repositoryformatversion", "9"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_the_remedy(section: str, name: str, value: str) -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    made.repo.config["core.repositoryformatversion"] = "1"
    made.repo.config[f"{section}.{name}"] = value
    with pytest.raises(Unavailable, match="sha1 repositories") as caught:
        opened(made)
    assert "unsupported_format" == caught.value.reason


@fault(5)
def test_relative_worktrees_are_read() -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    made.repo.config["core.repositoryformatversion"] = "1"
    made.repo.config["extensions.relativeWorktrees"] = "true"
    beside = made.path.parent / "w"
    inner = made.path / ".git" / "worktrees" / "w"
    inner.mkdir(parents=True)
    beside.mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "commondir").write_text("../..\n")
    (inner / "gitdir").write_text("../../../../w/.git\n")
    (beside / ".git").write_text("gitdir: ../repo/.git/worktrees/w\n")
    (beside / "only.py").write_text("y\n")
    repository = opened(beside)
    assert [b"only.py"] == listed(repository.working_tree())
    assert made.commits[0] == repository.head()
    assert os.path.realpath(made.path / ".git") == repository.common_dir
    assert [b"a.py"] == listed(opened(made).working_tree())


@fault(5)
def test_the_lower_bound_of_pygit2_carries_a_library_that_reads_them() -> None:
    import tomllib

    project = tomllib.loads((FilePath(__file__).parents[1] / "pyproject.toml").read_text())
    bound = next(name for name in project["project"]["dependencies"] if name.startswith("pygit2"))
    assert "pygit2>=1.19.1,<2" == bound  # the first whose wheels carry libgit2 1.9.2
    assert (1, 9) <= tuple(int(part) for part in pygit2.LIBGIT2_VERSION.split(".")[:2])


def test_a_bare_repository_has_snapshots_of_commits_only() -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})], bare=True)
    repository = opened(made)
    assert repository.bare
    assert None is repository.root
    assert [b"a.py"] == listed(repository.tree(made.tip()))
    with pytest.raises(Unavailable) as caught:
        repository.working_tree()
    assert "bare" == caught.value.reason


@fault(11)
def test_before_the_first_commit_the_files_on_disk_are_served() -> None:
    made = make_repo()
    made.write("a.py", "def f(): pass\n")
    repository = opened(made)
    snapshot = repository.working_tree()
    assert None is repository.head()
    assert [b"a.py"] == listed(snapshot)
    assert None is snapshot.head
    assert None is snapshot.head_commit
    assert b"def f(): pass\n" == repository.read(snapshot, Path(b"a.py"))


@fault(64)
def test_the_environment_of_a_hook_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_repo([("2026-01-01", {"other.py": "x\n"})])
    made = make_repo([("2026-01-01", {"mine.py": "x\n"})])
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.excludesFile")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "/dev/null")
    repository = opened(made)
    assert str(made.path) == repository.root
    assert [b"mine.py"] == listed(repository.working_tree())
    assert [b"mine.py"] == listed(repository.tree(made.tip()))


def test_the_root_keeps_the_spelling_that_was_typed(tmp_path: FilePath) -> None:
    make_repo([("2026-01-01", {"a/b.py": "x\n"})], tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "deep").symlink_to(tmp_path / "real" / "a")
    assert str(tmp_path / "link") == opened(tmp_path / "link" / "a").root
    assert os.path.realpath(tmp_path / "real") == opened(tmp_path / "deep").root


def test_a_git_directory_elsewhere_does_not_bring_its_neighbours_along(tmp_path: FilePath) -> None:
    made = make_repo([("2026-01-01", {"a.py": "x = 1\n"})], tmp_path / "r")
    (tmp_path / "gits").mkdir()
    (tmp_path / "gits" / "private.py").write_text("y = 2\n")
    shutil.move(made.path / ".git", tmp_path / "gits" / "r.git")
    for lead in (
        lambda: (made.path / ".git").write_text(f"gitdir: {tmp_path}/gits/r.git\n"),
        lambda: (made.path / ".git").symlink_to(tmp_path / "gits" / "r.git"),
    ):
        lead()
        repository = opened(made)
        assert str(made.path) == repository.root
        assert [b"a.py"] == listed(repository.working_tree())
        (made.path / ".git").unlink()
    assert opened(tmp_path / "gits" / "r.git").bare


def test_a_git_directory_that_is_gone_is_not_looked_for_above(tmp_path: FilePath) -> None:
    make_repo([("2026-01-01", {"a.py": "x = 1\n"})], tmp_path / "outer")
    inner = make_repo([("2026-01-01", {"b.py": "x = 2\n"})], tmp_path / "outer" / "inner")
    repository = opened(inner)
    for entry in ("HEAD", "objects", "refs"):
        (inner.path / ".git" / entry).rename(tmp_path / entry)
    with pytest.raises(Unavailable):
        repository.head()


@fault(14)
def test_a_submodule_is_a_repository_of_its_own(tmp_path: FilePath) -> None:
    inner = make_repo([("2026-01-01", {"lib.py": "x\n"})], tmp_path / "inner")
    outer = make_repo([("2026-01-01", {"a.py": "x\n", "lib": Gitlink(inner.tip().hex())})], tmp_path / "outer")
    shutil.copytree(inner.path / ".git", outer.path / ".git" / "modules" / "lib")
    (outer.path / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")
    (outer.path / "lib" / "lib.py").write_text("x\n")
    config = pygit2.Config(str(outer.path / ".git" / "modules" / "lib" / "config"))
    config["core.worktree"] = "../../../lib"
    assert str(outer.path / "lib") == opened(outer.path / "lib").root
    assert [b"lib.py"] == listed(opened(outer.path / "lib").working_tree())
    snapshot = opened(outer).working_tree()
    assert [b"a.py"] == listed(snapshot)
    assert (b"lib",) == snapshot.skipped["submodule"]


# --- revisions -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tagged() -> Made:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})])
    made.set_ref("refs/heads/other", made.commits[0])
    made.set_ref("refs/remotes/origin/far", made.commits[0])
    made.set_ref("refs/tags/light", made.commits[0])
    target = pygit2.Oid(raw=made.commits[0])
    me = pygit2.Signature("Ann", "ann@example.com", 1_767_225_600)
    tag = made.repo.create_tag("v1", target, pygit2.enums.ObjectType.COMMIT, me, "one")
    made.repo.create_tag("v1-again", tag, pygit2.enums.ObjectType.TAG, me, "a tag of a tag")
    blob = made.repo[target].peel(pygit2.Tree)["a.py"].id
    made.repo.create_tag("a-blob", blob, pygit2.enums.ObjectType.BLOB, me, "no commit")
    return made


@pytest.mark.parametrize(
    "revision",
    ["v1", "v1-again", "light", "other", "origin/far", "refs/heads/other", "refs/tags/v1", "refs/remotes/origin/far"],
)
def test_documented_forms_of_a_revision_name_the_commit(tagged: Made, revision: str) -> None:
    assert tagged.commits[0] == opened(tagged).resolve(revision)


def test_a_commit_is_named_by_seven_digits_or_more(tagged: Made) -> None:
    text = tagged.commits[0].hex()
    assert [tagged.commits[0]] * 3 == [opened(tagged).resolve(word) for word in (text, text[:7], text[:12].upper())]
    assert tagged.commits[1] == opened(tagged).resolve("HEAD")


@pytest.mark.parametrize(
    "revision",
    [
        *(
            "e",
            "HEAD@{yesterday}",
            "HEAD@{0}",
            ":/in",
            "--help",
            "main ",
            " main",
            "refs/heads/none",
            "HEAD~1",
            "HEAD^",
        ),
        *("", "main:a.py", "v1^{commit}", "main..other", "a-blob", "0" * 40, "main\n", "\0", "\udc80", "-", "@"),
        "x" * 5000,
    ],
)
@fault(69)
def test_nothing_else_is_a_revision(tagged: Made, revision: str) -> None:
    with pytest.raises(BadRequest) as caught:
        opened(tagged).resolve(revision)
    assert "invalid_revision" == caught.value.reason
    caught.value.message.encode()


@fault(69)
def test_ids_of_blobs_and_trees_are_no_revisions(tagged: Made) -> None:
    tree = tagged.repo[pygit2.Oid(raw=tagged.tip())].peel(pygit2.Tree)
    for identity in (str(tree.id), str(tree["a.py"].id), str(tree.id)[:10]):
        with pytest.raises(BadRequest):
            opened(tagged).resolve(identity)


def test_a_chosen_ref_is_followed_as_it_moves() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    made.set_ref("refs/heads/other", made.commits[0])
    repository = opened(made, ref="other")
    assert ("refs/heads/other", made.commits[0]) == (repository.head_name(), repository.head())
    later = made.commit("2026-01-02", {"a.py": "2\n"}, ref="refs/heads/other")
    assert later == repository.head()
    with pytest.raises(BadRequest):
        opened(made, ref="none")


def test_a_detached_head_is_a_head() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})])
    made.repo.set_head(pygit2.Oid(raw=made.commits[0]))
    repository = opened(made)
    assert (made.commits[0], made.commits[0].hex()) == (repository.head(), repository.head_name())


# --- objects ---------------------------------------------------------------------------------------------------


@fault(18)
def test_a_commit_tree_is_read_byte_for_byte() -> None:
    files: Files = {
        "a.py": b"x = 1\r\n",
        "b/c.sh": Executable(b"#!/bin/sh\n"),
        b"caf\xc3\xa9.py": "composed\n",
        b"cafe\xcc\x81.py": "decomposed\n",
        b"\xff\xfe.py": b"\x00",
        "link": Link("a.py"),
        "sub": Gitlink("1" * 40),
        "b.c": "",
    }
    made = make_repo([("2026-01-01", files)])
    repository = opened(made)
    snapshot = repository.tree(made.tip())
    assert sorted([b"a.py", b"b/c.sh", b"caf\xc3\xa9.py", b"cafe\xcc\x81.py", b"\xff\xfe.py", b"b.c"]) == listed(
        snapshot
    )
    assert {"submodule": (b"sub",), "symlink": (b"link",)} == snapshot.skipped
    assert snapshot.entries[Path(b"b/c.sh")].executable
    assert b"composed\n" == repository.read(snapshot, Path(b"caf\xc3\xa9.py"))
    assert b"x = 1\r\n" == repository.read(snapshot, Path(b"a.py"))
    assert None is repository.read(snapshot, Path(b"link"))
    on_disk = repository.working_tree()
    assert on_disk.entries == snapshot.entries == {path: on_disk.entries[path] for path in snapshot.entries}


def test_files_over_the_limit_are_counted_not_read() -> None:
    made = make_repo([("2026-01-01", {"big.py": "x" * 101, "small.py": "x" * 100})])
    repository = Repository.open(str(made.path), max_file_bytes=100)
    for snapshot in (repository.tree(made.tip()), repository.working_tree()):
        assert [b"small.py"] == listed(snapshot)
        assert {"oversize": (b"big.py",)} == snapshot.skipped


def test_a_tree_that_git_would_refuse_names_nothing_outside() -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    blob = made.repo.create_blob(b"evil\n").raw
    names = (b"..", b".git", b"a/b", b"fine.py")
    data = b"".join(b"100644 %s\0%s" % (name, blob) for name in names)
    tree = made.repo.odb.write(pygit2.enums.ObjectType.TREE, data)
    commit = made.raw_commit(tree, [], "1767225600 +0000", "odd")
    assert [b"fine.py"] == listed(opened(made).tree(commit))


def test_a_tree_of_trees_of_trees_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repo_provider.repository.MAX_TREE_ENTRIES", 1000)
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    tree = made.tree(made.flat(made.tip()))
    for _ in range(12):
        tree = made.repo.odb.write(
            pygit2.enums.ObjectType.TREE, b"".join(b"40000 %d\0%s" % (n, tree.raw) for n in range(10))
        )
    commit = made.raw_commit(tree, [], "1767225600 +0000", "bomb")
    assert ["too_many"] == list(opened(made).tree(commit).skipped)


def test_a_damaged_object_is_missing_not_served() -> None:
    made = make_repo([("2026-01-01", {"a.py": "good\n", "b.py": "fine\n"})])
    name = blob_id(b"good\n").hex()
    loose = made.path / ".git" / "objects" / name[:2] / name[2:]
    other = blob_id(b"fine\n").hex()
    loose.chmod(0o644)
    loose.write_bytes((made.path / ".git" / "objects" / other[:2] / other[2:]).read_bytes())
    repository = opened(made)
    assert None is repository.blob(blob_id(b"good\n"))
    assert b"fine\n" == repository.blob(blob_id(b"fine\n"))


def test_objects_that_are_gone_are_counted_by_path() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "d/b.py": "2\n", "d/e/c.py": "3\n"})])
    _lose(made, blob_id(b"1\n"))
    tree = made.repo[pygit2.Oid(raw=made.tip())].peel(pygit2.Tree)
    _lose(made, bytes(tree["d/e"].id.raw))
    snapshot = opened(made).tree(made.tip())
    assert [b"d/b.py"] == listed(snapshot)
    assert {"missing_object": (b"a.py", b"d/e")} == snapshot.skipped


def _lose(made: Made, name: bytes) -> None:
    (made.path / ".git" / "objects" / name.hex()[:2] / name.hex()[2:]).unlink()


def test_a_commit_that_is_gone_is_missing() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    with pytest.raises(Missing):
        opened(made).tree(CommitId(b"\1" * 20))


@needs_git
@fault(7)
def test_a_partial_clone_answers_from_what_it_has(tmp_path: FilePath) -> None:
    source = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n", "b.py": "3\n"})])
    git(source.path, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{source.path}", "pc")
    repository = opened(tmp_path / "pc")
    assert repository.promised
    assert any("partial clone" in note for note in repository.notes())
    snapshot = repository.tree(source.commits[0])
    assert [] == listed(snapshot)
    assert {"missing_object": (b"a.py",)} == snapshot.skipped
    assert not repository.has(blob_id(b"1\n"))
    assert not opened(source).promised


@fault(67)
def test_borrowed_objects_out_of_reach_are_named_and_come_back(tmp_path: FilePath) -> None:
    lender = make_repo([("2026-01-01", {"a.py": "1\n"}), ("2026-01-02", {"a.py": "2\n"})], tmp_path / "lender")
    borrower = make_repo(at=tmp_path / "borrower")
    alternates = borrower.path / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"# a comment\n{lender.path}/.git/objects\n")
    (borrower.path / ".git" / "refs" / "heads" / "main").write_text(lender.tip().hex() + "\n")
    repository = opened(borrower)
    assert [b"a.py"] == listed(repository.tree(lender.commits[0]))
    shutil.move(lender.path, tmp_path / "away")
    with pytest.raises(Unavailable, match=str(lender.path)) as caught:
        repository.tree(lender.commits[1])
    assert "object_store_unavailable" == caught.value.reason
    with pytest.raises(Unavailable):
        repository.blob(blob_id(b"2\n"))
    assert any(str(lender.path) in note for note in repository.notes())
    shutil.move(tmp_path / "away", lender.path)
    assert b"2\n" == repository.read(repository.tree(lender.commits[1]), Path(b"a.py"))
    assert [] == repository.notes()


@fault(10)
def test_replacements_and_grafts_are_ignored_and_said_so() -> None:
    made = make_repo([(f"2026-01-0{day}", {"a.py": f"{day}\n"}) for day in (1, 2, 3)])
    made.repo.references.create(f"refs/replace/{made.commits[1].hex()}", pygit2.Oid(raw=made.commits[0]))
    (made.path / ".git" / "info").mkdir(exist_ok=True)
    (made.path / ".git" / "info" / "grafts").write_text(f"{made.commits[2].hex()}\n")
    repository = opened(made)
    with repository.objects() as objects:
        assert (made.commits[1],) == objects.header(made.commits[2]).parents
        assert (made.commits[0],) == objects.header(made.commits[1]).parents
    assert b"2\n" == repository.read(repository.tree(made.commits[1]), Path(b"a.py"))
    assert [True, True] == ["replace refs" in repository.notes()[0], "grafts" in repository.notes()[1]]


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("1700000000 +51800", 1_700_000_000),
        ("1700000000 -13068837", 1_700_000_000),
        ("4102444800 +0000", 4_102_444_800),
        ("253402300800 +0000", 253_402_300_800),
        ("9999999999999 +0000", 9_999_999_999_999),
        ("-86400 +0000", -86_400),
        ("0 +0000", 0),
        ("1700000000", 1_700_000_000),
        (" 1700000000 +0000", 1_700_000_000),
        ("\t1700000000x +0000", 1_700_000_000),
        ("1 <b> x 1700000000 +0000", 0),
        ("soon +0000", 0),
        ("", 0),
        ("9" * 40 + " +0000", 0),
    ],
)
@fault(29)
def test_any_time_a_commit_bears_is_read_as_an_integer(stamp: str, time: int) -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    commit = made.raw_commit(made.tree({}), [made.tip()], stamp, "odd times\n\ncommitter x <y> 5 +0000\n")
    with opened(made).objects() as objects:
        header = objects.header(commit)
    assert (time, (made.commits[0],)) == (header.time, header.parents)


def test_a_header_is_read_past_odd_names() -> None:
    name = b"A > B <x> 1 +0000 <a@b>"
    data = b"tree %s\nauthor %s 5 +0000\ncommitter %s 7 +0000\nencoding x\n\nbody\n" % (b"0" * 40, name, name)
    assert (bytes(20), (), 7) == (parse_header(data).tree, parse_header(data).parents, parse_header(data).time)


@fault(68)
def test_many_threads_read_what_one_would() -> None:
    made = make_repo([(day, {f"f{day % 7}.py": f"content {day}\n"}) for day in range(60)])
    expected = {commit: {path: leaf[1].raw for path, leaf in made.flat(commit).items()} for commit in made.commits}
    repository = opened(made)
    wrong: list[object] = []

    def read(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            commit = chance.choice(made.commits)
            snapshot = repository.tree(commit)
            got = {bytes(path): bytes(entry.blob) for path, entry in snapshot.entries.items()}
            data = repository.read(snapshot, chance.choice(list(snapshot.entries)))
            if got != expected[commit] or data is None or not data.startswith(b"content "):
                wrong.append(commit)

    def refresh() -> None:
        for _ in range(100):
            repository.working_tree()
            repository.release()

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    threads.append(threading.Thread(target=refresh))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [] == wrong


@needs_git
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@fault(21)
def test_packs_that_gc_deleted_are_let_go() -> None:
    made = make_repo([("2026-01-01", {"a.py": "0\n"})])
    repository = opened(made)
    for round_ in range(1, 7):
        made.write("a.py", f"{round_}\n")
        git(made.path, "commit", "-q", "-a", "-m", "round")
        git(made.path, "gc", "-q", "--prune=now")
        tip = repository.head()
        assert tip is not None
        assert f"{round_}\n".encode() == repository.read(repository.tree(tip), Path(b"a.py"))
    maps = FilePath("/proc/self/maps").read_text()
    held = {line.split()[-2] for line in maps.splitlines() if line.endswith("(deleted)") and str(made.path) in line}
    assert len(held) <= 2
    repository.release()
    maps = FilePath("/proc/self/maps").read_text()
    assert [] == [line for line in maps.splitlines() if line.endswith("(deleted)") and str(made.path) in line]


# --- the working tree ------------------------------------------------------------------------------------------


def test_the_working_tree_is_what_lies_on_disk() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "gone.py": "2\n", "same.py": "3\n"})])
    made.write("a.py", "edited\n")
    made.write("new.py", "untracked\n")
    made.delete("gone.py")
    snapshot = opened(made).working_tree()
    assert [b"a.py", b"new.py", b"same.py"] == listed(snapshot)
    assert blob_id(b"edited\n") == snapshot.entries[Path(b"a.py")].blob
    assert snapshot.head is not None
    assert {b"a.py": blob_id(b"1\n"), b"gone.py": blob_id(b"2\n"), b"same.py": blob_id(b"3\n")} == snapshot.head
    assert made.tip() == snapshot.head_commit
    assert (None, None, None) == (snapshot.commit, snapshot.opens, snapshot.closes)


@fault(25)
def test_no_filter_comes_between_disk_and_digest() -> None:
    made = make_repo(
        [("2026-01-01", {"f.py": "a\r\nb\r\n"}), ("2026-01-02", {".gitattributes": "* text=auto ident\n"})]
    )
    repository, store = opened(made), Memory()
    repository.store = store
    first = repository.working_tree()
    assert blob_id(b"a\r\nb\r\n") == first.entries[Path(b"f.py")].blob
    assert [first.entries] * 4 == [repository.working_tree().entries for _ in range(4)]


def test_reading_gives_the_bytes_of_the_snapshot_or_nothing() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "d/b.py": "2\n"})])
    repository = opened(made)
    snapshot = repository.working_tree()
    assert b"1\n" == repository.read(snapshot, Path(b"a.py"))
    made.write("a.py", "2\n")
    assert None is repository.read(snapshot, Path(b"a.py"))
    shutil.move(made.path / "d", made.path / "e")
    (made.path / "d").symlink_to("e")
    assert None is repository.read(snapshot, Path(b"d/b.py"))
    assert None is repository.read(snapshot, Path(b"../outside"))


@fault(75)
def test_an_edit_of_the_same_size_and_time_is_seen() -> None:
    made = make_repo()
    repository = opened(made)
    made.write("a.py", "x = 0\n")
    stamp = (made.path / "a.py").stat().st_mtime_ns
    for round_ in range(200):
        data = b"x = %d\n" % (round_ % 10)
        made.write("a.py", data)
        os.utime(made.path / "a.py", ns=(stamp, stamp))
        assert blob_id(data) == repository.working_tree().entries[Path(b"a.py")].blob


def test_directories_that_did_not_change_are_not_listed_again_and_no_change_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "d/b.py": "2\n", "d/e/c.py": "3\n", ".gitignore": "*.log\n"})])
    made.write("new/x.py", "x\n")
    later = made.path.stat().st_ctime_ns + 10**12
    monkeypatch.setattr("repo_provider.worktree.time.time_ns", lambda: later)
    scanned: list[object] = []
    scandir = os.scandir

    def scanning(path: Any) -> Any:
        scanned.append(path)
        return scandir(path)

    monkeypatch.setattr("repo_provider.worktree.os.scandir", scanning)
    root, repository = made.path, opened(made)

    def link() -> None:
        (root / "d" / "e" / "c.py").unlink()
        (root / "d" / "e" / "c.py").symlink_to("../b.py")

    changes: list[tuple[str, Callable[[], object]]] = [
        ("d/e", lambda: made.write("d/e/fresh.py", "f\n")),
        ("d/e", lambda: made.write("d/e/fresh.log", "f\n")),
        ("d", lambda: made.write("d/.gitignore", "!*.log\n")),
        ("", lambda: made.write(".gitignore", "*.txt\n")),
        ("d", lambda: made.write("d/.gitignore", "fresh*\n")),
        ("d", lambda: os.unlink(root / "d" / ".gitignore")),
        ("new", lambda: pygit2.init_repository(str(root / "new"))),
        ("new", lambda: shutil.rmtree(root / "new" / ".git")),
        ("d/e", link),
        ("d/e", lambda: os.unlink(root / "d" / "e" / "c.py")),
        ("d", lambda: shutil.rmtree(root / "d" / "e")),
        ("d", lambda: made.write("d/e", "a file now\n")),
        ("d", lambda: os.rename(root / "d", root / "moved")),
        ("", lambda: made.add("a.py", "moved/b.py")),
    ]
    for where, change in changes:
        for _ in range(2):
            seen = repository.working_tree()
            assert opened(made).working_tree() == seen
        scanned.clear()
        assert seen is repository.working_tree()
        assert [] == scanned
        before = (root / where).stat().st_ctime_ns
        change()
        while (root / where).exists() and (root / where).stat().st_ctime_ns == before:
            os.utime(root / where)  # a clock that ticks slowly is another test's matter
    assert opened(made).working_tree() == repository.working_tree()


@pytest.mark.parametrize("year", [1970, 2038])
@fault(76)
def test_no_file_time_is_newer_than_another(year: int) -> None:
    made = make_repo([("2026-01-01", {"a.py": "old\n"})])
    repository, store = opened(made), Memory()
    repository.store = store
    repository.working_tree()
    made.write("a.py", "new\n")
    stamp = (year - 1970) * 31_556_952
    os.utime(made.path / "a.py", (stamp, stamp))
    assert blob_id(b"new\n") == repository.working_tree().entries[Path(b"a.py")].blob


def test_settled_files_are_not_read_again_by_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "d/b.py": "2\n", "d/c.py": "3\n"})])
    store = Memory()
    later = max(path.stat().st_ctime_ns for path in made.path.rglob("*.py")) + 3_000_000_000
    monkeypatch.setattr("repo_provider.worktree.time.time_ns", lambda: later)
    first = opened(made)
    first.store = store
    expected = first.working_tree().entries
    written = store.written
    reads: list[bytes] = []
    monkeypatch.setattr("repo_provider.worktree._Folder.read", lambda folder, path, most: reads.append(path))
    second = opened(made)
    second.store = store
    assert expected == second.working_tree().entries
    assert [] == reads
    assert written == store.written


def test_a_store_full_of_rubbish_changes_nothing() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "d/b.py": "2\n"})])
    expected = opened(made).working_tree().entries

    class Rubbish(Memory):
        def get_many(self, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
            return dict.fromkeys(keys, b"\x93\x01rubbish")

    repository = opened(made)
    repository.store = Rubbish()
    assert expected == repository.working_tree().entries


@fault(78)
def test_each_of_identical_files_has_its_own_path() -> None:
    made = make_repo([("2026-01-01", {"a/__init__.py": "", "b/__init__.py": "", "v/x.txt": "", "x.py": ""})])
    repository = opened(made)
    assert [b"a/__init__.py", b"b/__init__.py", b"v/x.txt", b"x.py"] == listed(repository.working_tree())
    shutil.rmtree(made.path / "a")
    shutil.move(made.path / "b", made.path / "c")
    assert [b"c/__init__.py", b"v/x.txt", b"x.py"] == listed(repository.working_tree())


@fault(74)
def test_a_switched_branch_is_served_at_once() -> None:
    made = make_repo([("2026-01-01", {f"{n}.py": f"main {n}\n" for n in range(20)})])
    made.set_ref("refs/heads/other", made.tip())
    made.commit("2026-01-02", {f"{n}.py": f"other {n}\n" for n in range(20)}, ref="refs/heads/other")
    repository = opened(made)
    for branch in ("other", "main", "other"):
        made.set_head(f"refs/heads/{branch}")
        snapshot = repository.working_tree()
        assert 20 == len(snapshot.entries)
        assert made.tip(f"refs/heads/{branch}") == snapshot.head_commit
        assert {f"{branch} {n}\n".encode() for n in range(20)} == {
            repository.read(snapshot, p) for p in snapshot.entries
        }


@fault(84)
def test_links_are_counted_and_never_followed(tmp_path: FilePath) -> None:
    made = make_repo([("2026-01-01", {"real.py": "1\n", "py/lib/x.py": "2\n", "tracked": Link("real.py")})])
    (made.path / "self").symlink_to(".")
    (made.path / "up").symlink_to("..")
    (made.path / "root").symlink_to("/")
    (made.path / "a").symlink_to("b")
    (made.path / "b").symlink_to("a")
    (made.path / "py" / "cross").symlink_to("lib")
    snapshot = opened(made).working_tree()
    assert [b"py/lib/x.py", b"real.py"] == listed(snapshot)
    assert (b"a", b"b", b"py/cross", b"root", b"self", b"tracked", b"up") == snapshot.skipped["symlink"]


def test_a_directory_swapped_for_a_link_takes_its_tracked_files_away() -> None:
    made = make_repo([("2026-01-01", {"d/b.py": "2\n"})])
    shutil.move(made.path / "d", made.path.parent / "elsewhere")
    (made.path / "d").symlink_to(made.path.parent / "elsewhere")
    assert [] == listed(opened(made).working_tree())


@needs_git
def test_a_git_that_leads_nowhere_is_no_border(tmp_path: FilePath) -> None:
    made = make_repo([("2026-01-01", {"a.py": "x\n"})])
    for name in ("empty", "junk", "real", "led"):
        made.write(f"{name}/f.py", f"{name}\n")
    (made.path / "empty" / ".git").mkdir()
    made.write("junk/.git", "junk\n")
    git(made.path / "real", "init", "-q")
    git(made.path / "led", "init", "-q", "--separate-git-dir", str(tmp_path / "led.git"))
    listed_by_git = git(made.path, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    snapshot = opened(made).working_tree()
    assert sorted(name for name in listed_by_git if name.endswith(b".py")) == [
        path for path in listed(snapshot) if path.endswith(b".py")
    ]
    assert (b"led", b"real") == snapshot.skipped["nested_repository"]


@fault(13)
def test_repositories_inside_are_borders() -> None:
    made = make_repo([("2026-01-01", {"a.py": "def only_once(): pass\n"})])
    make_repo([("2026-01-01", {"a.py": "def only_once(): pass\n"})], made.path / "nested" / "deep")
    made.write(".wt/x/.git", f"gitdir: {made.path}/.git/worktrees/x\n")
    made.write(".wt/x/a.py", "def only_once(): pass\n")
    made.write("mod/.git", "gitdir: ../.git/modules/m/worktrees/x\n")
    made.write("mod/a.py", "def only_once(): pass\n")
    snapshot = opened(made).working_tree()
    assert [b"a.py"] == listed(snapshot)
    assert (b".wt/x", b"mod", b"nested/deep") == snapshot.skipped["nested_repository"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_file_is_not_opened() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    os.mkfifo(made.path / "pipe")
    assert [b"a.py"] == listed(opened(made).working_tree())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
@fault(80)
def test_an_unreadable_file_is_counted() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "b.py": "2\n"})])
    (made.path / "b.py").chmod(0)
    snapshot = opened(made).working_tree()
    assert [b"a.py"] == listed(snapshot)
    assert (b"b.py",) == snapshot.skipped["unreadable"]


@requirement("P6")
@fault(19)
def test_looking_writes_nothing_into_the_repository() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", "b/c.py": "2\n"})])
    made.write("a.py", "edited\n")
    made.write("new.py", "x\n")
    os.utime(made.path / "b" / "c.py", (1, 1))

    def state() -> dict[str, object]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino, path.read_bytes() if path.is_file() else None)
            for path in sorted(made.path.rglob("*"))
        }

    before = state()
    repository = opened(made)
    for _ in range(3):
        snapshot = repository.working_tree()
        for path in snapshot.entries:
            repository.read(snapshot, path)
        repository.tree(made.tip())
        repository.notes()
    assert before == state()


@pytest.mark.slow
@needs_git
@fault(19)
def test_the_users_own_commits_never_meet_our_lock() -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n"})])
    program = (
        "import sys; from repo_provider.repository import Repository\n"
        "repository = Repository.open(sys.argv[1])\n"
        "while True: repository.working_tree()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(made.path)])
    try:
        for round_ in range(40):
            made.write("a.py", f"{round_}\n")
            git(made.path, "add", "a.py")
            git(made.path, "commit", "-q", "-m", "round")
    finally:
        child.kill()
        child.wait()
    assert not (made.path / ".git" / "index.lock").exists()


# --- the index -------------------------------------------------------------------------------------------------


@needs_git
@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_the_index_is_read(version: int) -> None:
    made = make_repo()
    names = [f"d{n % 7}/" + "x" * n + ".py" for n in range(1, 60)] + ["long/" + "/".join(["y" * 200] * 25) + ".py"]
    for name in names:
        made.write(name, name) if len(name) < 1000 else None
    git(made.path, "add", ".")
    git(made.path, "update-index", "--index-version", str(version))
    if version == 3:
        made.write("later.py", "intended\n")
        git(made.path, "add", "-N", "later.py")
    if version != 4:
        long = git(made.path, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
        git(made.path, "update-index", "--index-info", stdin=f"100644 {long} 0\t{names[-1]}\n".encode())
    data = (made.path / ".git" / "index").read_bytes()
    assert version == int.from_bytes(data[4:8], "big")
    expected = git(made.path, "ls-files", "--cached", "-z").split(b"\0")[:-1]
    assert set(expected) == read_index(data).files


@given(st.binary(max_size=300))
def test_any_bytes_are_an_index_or_an_unreadable_one(data: bytes) -> None:
    for candidate in (data, b"DIRC\0\0\0\2" + data, b"DIRC\0\0\0\4\0\0\0\1" + data):
        try:
            read_index(candidate)
        except UnreadableIndex:
            continue


def _split(made: Made) -> None:
    git(made.path, "update-index", "--split-index")


def _damaged(made: Made) -> None:
    (made.path / ".git" / "index").write_bytes(b"DIRC\0\0\0\x09rubbish")


@needs_git
@pytest.mark.parametrize("spoil", [_split, _damaged])
@fault(63)
def test_where_the_index_cannot_be_read_tracked_means_in_heads_tree(spoil: Callable[[Made], None]) -> None:
    made = make_repo([("2026-01-01", {"a.py": "1\n", ".gitignore": "*.log\n", "kept.log": "2\n"})])
    made.write("other.log", "ignored\n")
    made.write("b.py", "untracked\n")
    spoil(made)
    repository = opened(made)
    assert [b".gitignore", b"a.py", b"b.py", b"kept.log"] == listed(repository.working_tree())
    assert any("the index cannot be read" in note for note in repository.notes())
    assert [b".gitignore", b"a.py", b"kept.log"] == listed(repository.tree(made.tip()))


@needs_git
@pytest.mark.parametrize("sparse_index", [False, True])
@fault(15, 16)
def test_what_sparse_checkout_leaves_out_is_known_not_gone(sparse_index: bool) -> None:
    made = make_repo([("2026-01-01", {"a/x.py": "1\n", "b/y.py": "2\n", "b/c/z.py": "3\n", "top.py": "4\n"})])
    git(made.path, "update-index", "--refresh")
    git(made.path, "sparse-checkout", "set", "--cone", *(["--sparse-index"] if sparse_index else []), "a")
    assert sparse_index == (b"sdir" in (made.path / ".git" / "index").read_bytes())
    repository = opened(made)
    snapshot = repository.working_tree()
    assert [b"a/x.py", b"top.py"] == listed(snapshot)
    assert {b"b/c/z.py": blob_id(b"3\n"), b"b/y.py": blob_id(b"2\n")} == snapshot.sparse
    assert (b"b/c/z.py", b"b/y.py") == snapshot.skipped["not_checked_out"]
    assert b"2\n" == repository.blob(snapshot.sparse[Path(b"b/y.py")])
    assert [] == repository.notes()


# --- ignored files, compared with git --------------------------------------------------------------------------


def git_files(made: Made) -> list[bytes]:
    """What `git ls-files` lists and is a regular file on disk, no link on the way."""
    out = git(made.path, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split(b"\0")[:-1]
    root = os.path.realpath(os.fsencode(made.path))
    paths = {path for path in out if not path.endswith(b"/")}
    return sorted(
        path
        for path in paths
        if os.path.realpath(root + b"/" + path) == root + b"/" + path and os.path.isfile(root + b"/" + path)
    )


@needs_git
@fault(88)
def test_ignored_files_are_those_of_git() -> None:
    made = make_repo([("2026-01-01", {"lib/tracked.py": "1\n", "a.py": "2\n"})])
    made.write(".gitignore", "/tmp/*\n!/tmp/keep.py\n.env*\nlib/\n*.py[co]\n")
    for path in (
        "tmp/keep.py",
        "tmp/drop.py",
        ".env",
        ".env.local",
        "lib/untracked.py",
        "x.pyc",
        "x.pyd",
        "q/tmp/y.py",
    ):
        made.write(path, path)
    made.write("sub/.gitignore", "!x.pyc\n/only\n")
    for path in ("sub/x.pyc", "sub/only", "sub/deep/only", "sub/deep/x.pyo"):
        made.write(path, path)
    made.write(".git/info/exclude", "excluded.*\n")
    made.write("excluded.py", "x")
    made.write("mine.swp", "x")
    made.write(".git/my-excludes", "*.swp\n")
    made.repo.config["core.excludesFile"] = str(made.path / ".git" / "my-excludes")
    found = listed(opened(made).working_tree())
    assert git_files(made) == found
    assert b"lib/tracked.py" in found
    assert not {b".env", b".env.local", b"excluded.py", b"mine.swp", b"lib/untracked.py"} & set(found)


NAMES = st.sampled_from(
    ["a", "b", "ab", "a b", "abc", "a.py", "b.py", "aa", "A", "[x]", "a!", "#a", "é", "b-c", "a\\b"]
)
GLOBS = NAMES | st.sampled_from(
    r"* ** a* *b *.py ? ?? a? [ab] [!a] [^a]* [a-c]* []a] [a a[ \a a\ [[:alpha:]] [[:digit:]a]* [[:none:]] a** **b *** "
    r"a*b*c \* [\]a] [a-] [--0] \#a \!a ! # [!-a] *a*a*a* [[:alpha:]-z] [a\-c] [c-a]".split(" ")
)
LINES = st.builds(
    lambda negated, lead, parts, tail, end: negated + lead + "/".join(parts) + tail + end,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(GLOBS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", "/*"]),
    st.sampled_from(["", "", "", " ", "\\ ", "\r"]),
)
TREES = st.lists(st.lists(NAMES, min_size=1, max_size=4), min_size=1, max_size=14)


@needs_git
@settings(max_examples=(settings().max_examples + 3) // 4)  # each is a repository and a few processes
@given(
    trees=TREES,
    tracked=st.integers(0, 5),
    files=st.dictionaries(st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(LINES, max_size=6), max_size=3),
    exclude=st.lists(LINES, max_size=2),
)
@fault(88)
def test_any_rules_give_the_files_git_gives(
    trees: list[list[str]], tracked: int, files: dict[str, list[str]], exclude: list[str]
) -> None:
    made = make_repo()
    try:
        paths = [path for parts in trees if _placed(made, path := "/".join(parts))]
        for path in paths[:tracked]:
            git(made.path, "add", "-f", "--", f":(literal){path}")
        for directory, lines in files.items():
            if (made.path / directory).is_dir():
                _placed(made, directory + ".gitignore", "\n".join(lines).encode() + b"\n")
        made.write(".git/info/exclude", "\n".join(exclude))
        assert git_files(made) == listed(opened(made).working_tree())
    finally:
        shutil.rmtree(made.path)


def _placed(made: Made, path: str, data: bytes = b"x") -> bool:
    try:
        made.write(path, data)
    except OSError:  # a file where a directory would have to be, or the other way round
        return False
    return True


def test_many_stars_do_not_run_away() -> None:
    rules = ignores.rules(b"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n/*a*a*a*a*a*a*a*a*a*a*a*a*a*a/b\n")
    assert rules is not None
    assert None is rules.verdict(b"a" * 255, b"a" * 255, False)
    assert True is rules.verdict(b"a" * 254 + b"b", b"a" * 254 + b"b", False)


def test_case_is_folded_where_the_repository_says_so() -> None:
    made = make_repo()
    made.write(".gitignore", "*.LOG\n/Build/x\n")
    for path in ("a.log", "build/x", "build/y"):
        made.write(path, "x")
    made.repo.config["core.ignorecase"] = True
    assert [b".gitignore", b"build/y"] == listed(opened(made).working_tree())


def test_the_users_own_ignore_file_is_found_in_their_home(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "ignore").write_text("*.swp\n")
    (tmp_path / "named").write_text("*.bak\n")
    made = make_repo()
    for path in ("a.py", "a.swp", "a.bak"):
        made.write(path, "x")
    level = pygit2.enums.ConfigLevel
    before = pygit2.settings.search_path[level.XDG], pygit2.settings.search_path[level.GLOBAL]
    try:
        pygit2.settings.search_path[level.XDG] = str(tmp_path / "git")
        pygit2.settings.search_path[level.GLOBAL] = str(tmp_path)
        assert [b"a.bak", b"a.py"] == listed(opened(made).working_tree())
        made.repo.config["core.excludesFile"] = "~/named"
        assert [b"a.py", b"a.swp"] == listed(opened(made).working_tree())
    finally:
        pygit2.settings.search_path[level.XDG], pygit2.settings.search_path[level.GLOBAL] = before


def test_a_blob_is_named_as_git_names_it() -> None:
    assert BlobId(bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")) == blob_id(b"")
