"""What may lie in the place of a repository's own files, and what its objects may claim to be."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path as FilePath

import pygit2
import pytest
from pygit2.enums import ObjectType

from repo_provider.errors import BadRequest, Unavailable
from repo_provider.history import History
from repo_provider.model import CommitId, Path, Snapshot
from repo_provider.protocol import Instant
from repo_provider.refs import BadRef, Refs
from repo_provider.repository import MAX_OBJECT_BYTES, Missing, Repository
from tests.faults import fault
from tests.repos import Made, make_repo, seconds

ENDLESS = 1 << 40
"""Bytes of a file that takes no room on disk and has no room in memory."""


@pytest.fixture(autouse=True)
def _nothing_is_waited_for() -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def over(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def made(tmp_path: FilePath) -> Made:
    return make_repo([("2026-01-01", {"a.py": "x = 1\n"}), ("2026-01-02", {"a.py": "x = 2\n"})], tmp_path / "r")


def opened(made: Made) -> Repository:
    return Repository.open(str(made.path))


def looked_at(repository: Repository) -> Snapshot:
    """Everything a question would ask of it."""
    snapshot = repository.working_tree()
    repository.notes()
    repository.head_name()
    with suppress(Missing):
        History(repository).at(Instant(seconds("2027-01-01")))
    return snapshot


def assert_served_or_refused(look: Callable[[], Snapshot]) -> None:
    """In one clear line, where it is refused."""
    refusals: list[Unavailable] = []
    entries: Mapping[Path, object] = {}
    try:
        entries = look().entries
    except Unavailable as error:
        refusals.append(error)
    assert Path(b"a.py") in entries or refusals
    assert all(error.reason and "\n" not in error.message for error in refusals)


def manifest(where: FilePath) -> list[tuple[str, int, int, int]]:
    """Every file with its inode, size and time of change."""
    found = []
    for folder, _, names in os.walk(where):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            found.append((os.path.join(folder, name), status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found)


# --- what is no file, or one without end -----------------------------------------------------------------------


def pipe(place: FilePath) -> None:
    os.mkfifo(place)


def device(place: FilePath) -> None:
    place.symlink_to("/dev/zero")


def endless(place: FilePath) -> None:
    with open(place, "wb") as file:
        file.truncate(ENDLESS)


def folder(place: FilePath) -> None:
    place.mkdir()


KINDS = [pipe, device, endless, folder]
PLACES = [
    "HEAD",
    "FETCH_HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/commit-graph",
    f"objects/pack/pack-{'1' * 40}.idx",
    "packed-refs",
    "refs/heads/main",
    "refs/replace/x",
    "shallow",
]


def put(kind: Callable[[FilePath], None], place: FilePath) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        place.unlink()
    kind(place)


@fault(8, 10, 16, 63, 67, 69)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_is_refused_or_left_out(made: Made, place: str, kind: Callable[[FilePath], None]) -> None:
    put(kind, made.path / ".git" / place)
    before = manifest(made.path)
    assert_served_or_refused(lambda: looked_at(opened(made)))
    assert before == manifest(made.path)


@fault(16, 63, 69)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("kind", [pipe, device, endless])
@pytest.mark.parametrize("place", [place for place in PLACES if not place.startswith("objects/pack")])
def test_nor_does_it_hold_up_who_is_serving_already(made: Made, place: str, kind: Callable[[FilePath], None]) -> None:
    repository = opened(made)
    looked_at(repository)
    put(kind, made.path / ".git" / place)
    assert_served_or_refused(lambda: looked_at(repository))


@fault(64)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("kind", [pipe, device, endless])
@pytest.mark.parametrize("line", ['[include]\n\tpath = "od\\\\d"\n', '[includeIf "onbranch:x"] PATH=od\\\\d ; so\n'])
def test_settings_include_no_more_than_files(made: Made, kind: Callable[[FilePath], None], line: str) -> None:
    put(kind, made.path / ".git" / "od\\d")
    with open(made.path / ".git" / "config", "a") as config:
        config.write(line)
    with pytest.raises(Unavailable, match="cannot be opened") as caught:
        opened(made)
    assert "unreadable_repository" == caught.value.reason


@fault(64)
def test_settings_that_include_one_another_without_end_are_refused(made: Made) -> None:
    for number in range(9):
        lines = f"[include]\n\tpath = more{number + 1}\n" * 10
        (made.path / ".git" / (f"more{number}" if number else "config")).write_text(lines)
    with pytest.raises(Unavailable, match="includes too many files"):
        opened(made)


@fault(7, 67)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["commit", "tree", "blob"])
def test_an_object_that_is_no_file_is_missing(made: Made, kind: Callable[[FilePath], None], which: str) -> None:
    commit = made.repo[made.repo.head.target]
    name = {"commit": commit.id, "tree": commit.tree.id, "blob": commit.tree["a.py"].id}[which]
    repository = opened(made)
    put(kind, made.path / ".git" / "objects" / str(name)[:2] / str(name)[2:])
    assert Path(b"a.py") in looked_at(repository).entries
    with repository.objects() as objects, pytest.raises(Missing):
        objects.commit(CommitId(name.raw))


@fault(22)
@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_an_object_larger_than_memory_is_missing(made: Made, kind: str) -> None:
    """A few bytes on disk say so, and would be so."""
    name = bytes.fromhex("12" * 20)
    place = made.path / ".git" / "objects" / "12" / ("12" * 19)
    place.parent.mkdir()
    place.write_bytes(zlib.compress(f"{kind} {MAX_OBJECT_BYTES + 1}\0".encode() + bytes(100)))
    with opened(made).objects() as objects:
        for read in (objects.commit, objects.tree_bytes, objects.blob):
            with pytest.raises(Missing):
                read(name)  # type: ignore[arg-type]  # any of them


# --- objects that are not what they should be ------------------------------------------------------------------


def written(made: Made, kind: ObjectType, data: bytes) -> CommitId:
    """An object as libgit2 would never write it."""
    name = {ObjectType.COMMIT: b"commit", ObjectType.TREE: b"tree", ObjectType.TAG: b"tag"}[kind]
    whole = b"%s %d\0" % (name, len(data)) + data
    digits = hashlib.sha1(whole).hexdigest()
    place = made.path / ".git" / "objects" / digits[:2] / digits[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(whole))
    return CommitId(bytes.fromhex(digits))


def point(made: Made, commit: CommitId) -> None:
    (made.path / ".git" / "refs" / "heads" / "main").write_text(commit.hex() + "\n")


@fault(29, 69)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\xff\n" * 200,
        b"tree zz\n",
        b"tree \xff\xfe\n\n",
        b"tree " + b"1" * 40 + b"\nparent \xff\n\n",
        b"tree " + b"1" * 40,
        b"tree " + b"g" * 40 + b"\n\nx",
    ],
)
def test_a_commit_of_rubbish_is_as_good_as_none(made: Made, data: bytes) -> None:
    point(made, written(made, ObjectType.COMMIT, data))
    assert Path(b"a.py") in looked_at(opened(made)).entries
    tree = made.flat(made.commits[1])
    point(made, made.raw_commit(made.tree(tree), [written(made, ObjectType.COMMIT, data)], "1800000000 +0000", "m"))
    assert Path(b"a.py") in looked_at(opened(made)).entries


@fault(69)
def test_a_ref_to_tags_of_a_blob_or_to_tags_without_end_names_no_commit(made: Made) -> None:
    blob = str(made.repo[made.repo.head.target].tree["a.py"].id)
    one = written(made, ObjectType.TAG, f"object {blob}\ntype blob\ntag t\n\nx".encode())
    many = made.commits[1]
    for _ in range(200):
        many = written(made, ObjectType.TAG, f"object {many.hex()}\ntype tag\ntag t\n\nx".encode())
    for tag in (one, many):
        (made.path / ".git" / "refs" / "tags" / "t").write_text(tag.hex() + "\n")
        with pytest.raises(BadRequest, match="names no commit"):
            opened(made).resolve("t")
        point(made, tag)
        assert None is opened(made).head()
        assert Path(b"a.py") in looked_at(opened(made)).entries


@fault(14, 18, 84)
def test_whatever_a_tree_names_is_taken_as_bytes_or_left_out(made: Made) -> None:
    blob = made.repo.create_blob(b"y = 1\n").raw
    folder = written(made, ObjectType.TREE, b"100644 in.py\0" + blob)
    rows = [
        (b"100644", b"", blob),
        (b"100644", b".", blob),
        (b"40000", b"..", folder),
        (b"100644", b".git", blob),
        (b"100644", b"../out", blob),
        (b"100644", b"twice", blob),
        (b"40000", b"twice", folder),
        (b"40000", b"blob-as-tree", blob),
        (b"100644", b"tree-as-blob.py", folder),
        (b"77777777777777777777777", b"mode", blob),
        (b"100644", b"\x1b[31m\xff.py", blob),
        (b"100644", b"n" * 100_000, blob),
    ]
    tree = written(made, ObjectType.TREE, b"".join(b"%s %s\0" % row[:2] + row[2] for row in rows))
    commit = made.raw_commit(pygit2.Oid(raw=tree), made.commits[1:2], "1800000000 +0000", "m")
    point(made, commit)
    seen = opened(made).tree(commit)
    assert {b"twice", b"twice/in.py", b"\x1b[31m\xff.py"} <= seen.entries.keys()
    assert all(len(path) < 5_000 and {b"..", b".git"}.isdisjoint(path.split(b"/")) for path in seen.entries)
    assert {b"blob-as-tree", b"tree-as-blob.py"} <= set(seen.skipped["missing_object"])
    assert Path(b"a.py") in looked_at(opened(made)).entries


@fault(87)
@pytest.mark.parametrize("leaf", [True, False])
def test_a_tree_of_billions_of_places_has_an_end(made: Made, leaf: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repo_provider.repository.MAX_REPEATED_ENTRIES", 2_000)
    monkeypatch.setattr("repo_provider.changes.MAX_CHANGES", 2_000)
    blob = made.repo.create_blob(b"y = 1\n").raw
    tree = written(made, ObjectType.TREE, b"100644 f.py\0" + blob if leaf else b"")
    for _ in range(12):
        tree = written(made, ObjectType.TREE, b"".join(b"40000 %d\0" % name + tree for name in range(10)))
    commit = made.raw_commit(pygit2.Oid(raw=tree), made.commits[1:2], "1800000000 +0000", "m")
    point(made, commit)
    of = History(opened(made))
    seen = of.repository.tree(commit)
    assert 4_000 > len(seen.entries)
    assert seen.skipped["too_many"]
    assert of.build()
    assert [commit, made.commits[1], made.commits[0]] == [message.commit for message in of.messages(seen).items]
    assert () == of.commit(commit).files
    assert made.commits[1] == of.snapshot(made.commits[1]).commit


@fault(36)
def test_a_tree_of_trees_thousands_deep_has_an_end(made: Made) -> None:
    tree = written(made, ObjectType.TREE, b"100644 f.py\0" + made.repo.create_blob(b"y = 1\n").raw)
    for _ in range(2_500):
        tree = written(made, ObjectType.TREE, b"40000 d\0" + tree)
    commit = made.raw_commit(pygit2.Oid(raw=tree), made.commits[1:2], "1800000000 +0000", "m")
    point(made, commit)
    of = History(opened(made))
    assert {} == of.repository.tree(commit).entries
    assert ["path_too_long"] == list(of.repository.tree(commit).skipped)
    assert of.build()


# --- refs ------------------------------------------------------------------------------------------------------


@fault(69)
@pytest.mark.parametrize(
    "content",
    [
        "ref: refs/heads/main\n",
        "ref: HEAD\n",
        "ref: refs/../../a.py\n",
        "ref: ../../../../etc/passwd\n",
        "ref: /etc/passwd\n",
        "ref: refs/heads//main\n",
        "ref:\n",
        "",
        "1234\n",
        "\0" * 50,
    ],
)
def test_a_head_that_leads_nowhere_is_told(made: Made, content: str) -> None:
    (made.path / ".git" / "refs" / "heads" / "main").write_text(content)
    with pytest.raises(Unavailable) as caught:
        looked_at(opened(made))
    assert "invalid_head" == caught.value.reason


@fault(69)
def test_refs_are_read_as_git_reads_them(made: Made) -> None:
    git_dir = made.path / ".git"
    first, second = (commit.hex() for commit in made.commits)
    (git_dir / "HEAD").unlink()
    (git_dir / "HEAD").symlink_to("refs/heads/main")
    assert "refs/heads/main" == opened(made).head_name()
    assert made.commits[1] == opened(made).head()
    (git_dir / "HEAD").unlink()
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "refs" / "heads" / "main").unlink()
    (git_dir / "refs" / "heads" / "main").mkdir()  # git leaves folders behind
    (git_dir / "packed-refs").write_bytes(
        b"# pack-refs with: peeled fully-peeled sorted \n"
        + f"^{first}\nnonsense\n{first} refs/heads/main2\n{second} refs/heads/o".encode()
        + f"\xff\n{second} refs/heads/main\n^zzz\n{first} refs/tags/last".encode("latin-1")
    )
    refs = Refs(str(git_dir), str(git_dir))
    assert ("refs/heads/main", made.commits[1]) == refs.resolve("HEAD")
    assert made.commits[1] == refs.read("refs/heads/o\udcff")
    assert made.commits[1] == opened(made).head()
    assert made.commits[0] == opened(made).resolve("main2")
    assert None is refs.read("refs/tags/last"), "a line that was cut off is none"
    assert None is refs.read("refs/heads/mai")


@fault(69)
def test_symbolic_refs_are_followed_so_far_and_no_further(made: Made) -> None:
    heads = made.path / ".git" / "refs" / "heads"
    for number in range(6):
        (heads / f"s{number}").write_text(f"ref: refs/heads/{f's{number + 1}' if number < 5 else 'main'}\n")
    refs = Refs(str(made.path / ".git"), str(made.path / ".git"))
    assert ("refs/heads/main", made.commits[1]) == refs.resolve("refs/heads/s1")
    with pytest.raises(BadRef, match="loop"):
        refs.resolve("refs/heads/s0")


# --- where it lies ---------------------------------------------------------------------------------------------


@fault(67)
def test_object_directories_that_borrow_in_a_ring_or_from_many_are_read(made: Made) -> None:
    info = made.path / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    for lines in ([str(info.parent), "../objects", "."], [f"/nonexistent/{number}" for number in range(10_000)]):
        (info / "alternates").write_text("\n".join([*lines, ""]))
        repository = opened(made)
        assert made.commits[1] == repository.head()
        assert 70 > len(repository.notes())


@fault(5, 13)
@pytest.mark.parametrize(
    "content", [b"gitdir: .git\n", b"gitdir: inner/.git\n", b"gitdir: \0\n", b"gitdir:", b"\xff", b"gitdir: ../none"]
)
def test_a_git_file_that_leads_round_or_nowhere_is_no_repository(tmp_path: FilePath, content: bytes) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / ".git").write_bytes(content)
    (tmp_path / "inner" / ".git").write_bytes(b"gitdir: ../.git\n")
    with pytest.raises(Unavailable) as caught:
        Repository.open(str(tmp_path / "inner"))
    assert "not_a_repository" == caught.value.reason


@fault(5)
@pytest.mark.parametrize("content", [b".\n", b"../.git\n", b"\0", b""])
def test_a_git_directory_that_is_its_own_common_one_is_read(made: Made, content: bytes) -> None:
    (made.path / ".git" / "commondir").write_bytes(content)
    assert_served_or_refused(lambda: looked_at(opened(made)))


@fault(2)
@pytest.mark.parametrize("gone", ["objects", "refs", "HEAD"])
def test_a_repository_without_one_of_its_parts_is_none(made: Made, gone: str) -> None:
    part = made.path / ".git" / gone
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(Unavailable) as caught:
        opened(made)
    assert "not_a_repository" == caught.value.reason


# --- the index -------------------------------------------------------------------------------------------------


def _damaged_index(kind: str) -> bytes:
    if kind == "a count that lies":
        return b"DIRC\0\0\0\2\xff\xff\xff\xff" + bytes(1000)
    if kind == "names that grow":  # each is the one before and a byte more: a few bytes make gigabytes
        row = bytes(24) + (0o100644).to_bytes(4, "big") + bytes(32) + b"\x0f\xff"
        rows = row + b"\0" + b"a" * 4000 + b"/\0" + (row + b"\0b\0") * 20_000
        return b"DIRC\0\0\0\4" + (20_001).to_bytes(4, "big") + rows + bytes(20)
    return b"DIRC" + hashlib.sha512(kind.encode()).digest() * 100


@fault(16, 63)
@pytest.mark.parametrize("kind", ["a count that lies", "names that grow", "rubbish"])
def test_a_damaged_index_costs_the_index(made: Made, kind: str) -> None:
    (made.path / ".git" / "index").write_bytes(_damaged_index(kind))
    repository = opened(made)
    assert [Path(b"a.py")] == list(repository.working_tree().entries)
    assert any("index cannot be read" in note for note in repository.notes())
