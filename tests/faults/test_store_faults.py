"""Faults that stores of this kind really had: locks, damage, disks, leftovers, two processes."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha1
from pathlib import Path
from time import monotonic, sleep

import pytest

from repo_provider import lexical, model
from repo_provider import store as store_module
from repo_provider.lexical import Index, Rules
from repo_provider.model import BlobId
from repo_provider.store import Store
from tests.faults import fault
from tests.spec import requirement

KEY = "/home/me/project/.git"
NOW = 1_700_000_000


def opened(tmp_path: Path, *, network: bool | None = False) -> Store:
    return Store.open(str(tmp_path / "stores"), KEY, network=network, clock=lambda: NOW)


def filled(tmp_path: Path) -> Path:
    """A closed store with a few thousand values and one segment; its folder."""
    store = opened(tmp_path)
    store.put_many("t", {b"%d" % n: b"value %d" % n * 50 for n in range(3_000)})
    store.replace_segments("contents", [], b"segment")
    store.close()
    (folder,) = (tmp_path / "stores").iterdir()
    return folder


def works(store: Store) -> bool:
    store.put_many("t", {b"new": b"value"})
    return store.get_many("t", [b"new"]) == {b"new": b"value"}


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_READ_SECONDS", "_WRITE_SECONDS", "_REST_SECONDS"):
        monkeypatch.setattr(store_module, name, 0.0)


# --- 55: a busy store is not a damaged one ---------------------------------------------------------------------


@contextmanager
def held_by_another_program(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("CREATE TABLE IF NOT EXISTS scratch (x)")
        yield
        other.execute("ROLLBACK")


@fault(55)
@requirement("P7")
@pytest.mark.usefixtures("no_waiting")
def test_a_store_that_another_program_holds_is_left_alone(tmp_path: Path) -> None:
    """Fault 55: same inode, same bytes, a bounded wait, one note, and it is used again afterwards."""
    database = filled(tmp_path) / "store.sqlite"
    before = (database.stat().st_ino, database.read_bytes())
    with held_by_another_program(database):
        store = opened(tmp_path)
        assert {} == store.get_many("t", [b"7"])
        assert works(store)
        assert store.replace_segments("contents", [], b"other") is None
        assert 0 == store.facts().rebuilds.count
        assert 1 == len(store.notes)
        assert "busy" in store.notes[0]
        assert before == (database.stat().st_ino, database.read_bytes())
    until(lambda: {b"7": b"value 7" * 50} == store.get_many("t", [b"7"]))  # our own writer may be at it first
    assert store.flush()
    store.close()


def until(true: Callable[[], bool]) -> None:
    ends = monotonic() + 30
    while not true():
        assert monotonic() < ends
        sleep(0.01)


@fault(55)
@pytest.mark.usefixtures("no_waiting")
def test_a_store_that_becomes_busy_later_keeps_what_was_put(tmp_path: Path) -> None:
    """Fault 55."""
    folder = filled(tmp_path)
    store = opened(tmp_path)
    with closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert works(store)
        assert not store.flush()
    assert store.flush()
    store.close()
    again = opened(tmp_path)
    assert {b"new": b"value"} == again.get_many("t", [b"new"])
    again.close()


# --- 57: damage is told ----------------------------------------------------------------------------------------


def damage_everything(database: Path) -> None:
    database.write_bytes(b"not a database" * 1_000)


def damage_the_middle(database: Path) -> None:
    data = bytearray(database.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 2_000] = b"\xff" * 2_000
    database.write_bytes(bytes(data))


def damage_a_value(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE item SET value = x'00'")


@fault(57)
@requirement("P7")
@pytest.mark.parametrize("damage", [damage_everything, damage_the_middle, damage_a_value])
def test_a_damaged_store_is_set_aside_and_rebuilt_and_says_so(
    tmp_path: Path, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 57: the reason, the time, where it was put, and how often it happened."""
    assert callable(damage)
    for count in (1, 2):
        folder = filled(tmp_path)
        damage(folder / "store.sqlite")
        damaged = (folder / "store.sqlite").read_bytes()
        store = opened(tmp_path)
        assert {} == store.get_many("t", [b"7"])
        facts = store.facts()
        assert (count, "corrupt", NOW) == (facts.rebuilds.count, facts.rebuilds.reason, facts.rebuilds.time)
        assert facts.rebuilds.quarantine == str(folder / "quarantine.sqlite")
        assert damaged == (folder / "quarantine.sqlite").read_bytes()
        assert ("the store was rebuilt: corrupt",) == facts.notes
        assert works(store)
        assert store.flush()
        store.close()
    assert ("", "") == tuple(capsys.readouterr())


def test_a_damaged_segment_is_told_too(tmp_path: Path) -> None:
    """Fault 57."""
    index, store = fresh_index(tmp_path)
    index.add([item(b"alpha")])
    index.flush()
    store.close()
    (segment,) = Path(tmp_path / "stores").glob("*/*.segment")
    segment.write_bytes(segment.read_bytes()[:-9])
    again, store = fresh_index(tmp_path)
    assert 1 == len(again.missing([item(b"alpha")[0]]))
    assert (1, "corrupt segment") == (store.facts().rebuilds.count, store.facts().rebuilds.reason)
    assert not segment.exists()
    store.close()


def test_an_empty_segment_file_is_damage(tmp_path: Path) -> None:
    index, store = fresh_index(tmp_path)
    index.add([item(b"alpha")])
    index.flush()
    store.close()
    (segment,) = Path(tmp_path / "stores").glob("*/*.segment")
    segment.write_bytes(b"")
    again, store = fresh_index(tmp_path)
    assert 1 == len(again.missing([item(b"alpha")[0]]))
    store.close()


# --- 58: network file systems ----------------------------------------------------------------------------------


@fault(58)
def test_there_is_no_write_ahead_log_on_a_network_file_system(tmp_path: Path) -> None:
    """Fault 58: a rollback journal instead, one warning, same answers."""
    store = opened(tmp_path, network=True)
    assert works(store)
    assert store.flush()
    (folder,) = (tmp_path / "stores").iterdir()
    assert [] == list(folder.glob("store.sqlite-*"))
    assert 1 == len(store.notes)
    assert "network" in store.notes[0]
    store.close()


@pytest.mark.parametrize(
    ("folder", "network"),
    [("/home/me", True), ("/home/me/local/x", False), ("/homes", False), ("/", False), ("/with space/x", True)],
)
def test_the_kind_of_file_system_is_that_of_the_innermost_mount(tmp_path: Path, folder: str, network: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 0:5 / /home rw shared:3 - nfs4 server:/home rw\n"
        "3 2 8:2 / /home/me/local rw - xfs /dev/sdb1 rw\n"
        "4 1 0:6 / /with\\040space rw - cifs //server/share rw\n"
    )
    assert network == store_module._on_network(folder, str(mounts))
    assert not store_module._on_network(folder, str(tmp_path / "nothing"))


# --- 60: a disk that refuses -----------------------------------------------------------------------------------


def a_folder_in_place_of_the_database(directory: Path) -> None:
    (only,) = directory.iterdir()
    for file in only.iterdir():
        file.unlink()
    (only / "store.sqlite").mkdir()


def a_file_in_place_of_the_folder(directory: Path) -> None:
    (only,) = directory.iterdir()
    for file in only.iterdir():
        file.unlink()
    only.rmdir()
    only.write_bytes(b"")


def nothing_may_be_read(directory: Path) -> None:
    (only,) = directory.iterdir()
    only.chmod(0)
    if os.access(only, os.R_OK):
        only.chmod(0o700)
        pytest.skip("this user may read everything")


def nothing_may_be_written(directory: Path) -> None:
    (only,) = directory.iterdir()
    only.chmod(0o500)
    if os.access(only, os.W_OK):
        only.chmod(0o700)
        pytest.skip("this user may write everything")


@fault(60)
@requirement("P7")
@pytest.mark.parametrize(
    "spoil",
    [
        a_folder_in_place_of_the_database,
        a_file_in_place_of_the_folder,
        nothing_may_be_read,
        nothing_may_be_written,
    ],
)
def test_a_folder_that_cannot_be_used_leaves_everything_in_memory(
    tmp_path: Path, spoil: object, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault 60: one note, no exception, nothing printed."""
    filled(tmp_path)
    assert callable(spoil)
    spoil(tmp_path / "stores")
    store = opened(tmp_path)
    assert works(store)
    assert store.replace_segments("contents", [], b"segment") is None
    assert "memory" == store.facts().role
    assert 1 == len(store.notes)
    assert "memory" in store.notes[0]
    store.close()
    assert ("", "") == tuple(capfd.readouterr())


@pytest.mark.parametrize("refused", ["makedirs", "open"])
def test_a_system_that_refuses_leaves_everything_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Fault 60, also for a user who may do everything."""

    def no(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, refused, no)
        store = opened(tmp_path)
    assert works(store)
    assert "memory" == store.facts().role
    assert 1 == len(store.notes)
    assert "Permission denied" in store.notes[0]
    store.close()


def test_a_store_that_was_given_up_can_be_had_by_another_process(tmp_path: Path) -> None:
    """Faults 60, 114."""
    first, second = opened(tmp_path), opened(tmp_path)
    writer = first._disk._writer if first._disk is not None else None
    assert writer is not None
    writer.execute("PRAGMA max_page_count = 8")
    first.put_many("t", {b"%d" % n: b"v" * 1_000 for n in range(100)})
    assert not first.flush()
    assert ("memory", "owner") == (first.facts().role, second.facts().role)
    assert second.replace_segments("contents", [], b"data") is not None
    first.close()
    second.close()


@fault(60)
@requirement("P7")
def test_a_full_disk_leaves_everything_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 60."""
    store = opened(tmp_path)
    writer = store._disk._writer if store._disk is not None else None
    assert writer is not None
    writer.execute("PRAGMA max_page_count = 8")
    store.put_many("t", {b"%d" % n: b"v" * 1_000 for n in range(100)})
    assert not store.flush()
    assert {b"7": b"v" * 1_000} == store.get_many("t", [b"7"])
    assert "memory" == store.facts().role
    assert 1 == len(store.notes)
    store.close()


def test_a_disk_that_fills_up_during_a_segment_keeps_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults 60, 62."""
    index, store = fresh_index(tmp_path)
    index.add([item(b"alpha")])

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        index.flush()
    assert [] == index.missing([item(b"alpha")[0]])
    assert "memory" == store.facts().role
    (folder,) = (tmp_path / "stores").iterdir()
    assert [] == list(folder.glob("*.tmp"))
    store.close()


# --- 61, 62: what is left behind -------------------------------------------------------------------------------

TEXT = Rules()


def item(data: bytes) -> tuple[bytes, bytes, Rules]:
    return lexical.key(BlobId(sha1(data).digest()), TEXT), data, TEXT


def fresh_index(tmp_path: Path) -> tuple[Index, Store]:
    store = opened(tmp_path)
    return Index(store), store


def refresh(index: Index, files: dict[str, bytes]) -> lexical.View:
    """What a provider does when files were saved."""
    items = [item(data) for data in files.values()]
    wanted = set(index.missing([key for key, _, _ in items]))
    index.add([one for one in items if one[0] in wanted])
    return index.view([(model.Path(path.encode()), item(data)[0]) for path, data in sorted(files.items())])


def source(seed: int) -> bytes:
    return b"\n".join(b"name_%d = call_%d(word%d)" % (n * seed % 977, n * seed % 511, n % 300) for n in range(200))


@fault(61)
def test_hundreds_of_edits_and_branches_do_not_swell_the_store(tmp_path: Path) -> None:
    """Fault 61: after pruning no larger than a fresh index, and after edits not even without it."""
    base = {f"{n}.py": source(n) for n in range(1, 60)}
    fresh, store = fresh_index(tmp_path / "fresh")
    refresh(fresh, base)
    fresh.flush()
    size = store.facts().size
    store.close()

    index, store = fresh_index(tmp_path / "used")
    for edit in range(200):
        refresh(index, base | {"7.py": source(7) + b"\nedit_%d = 1" % edit})
        index.flush()
    store.vacuum()
    assert store.facts().size < 1.5 * size
    for branch in range(20):
        refresh(index, {path: data + b"\nbranch_%d = 1" % branch for path, data in base.items()})
        index.flush()
    current = refresh(index, base)
    index.prune(set(current.keys), set(current.paths), set())
    store.vacuum()
    assert store.facts().size < 1.5 * size
    assert [] == index.missing(current.keys)
    store.close()


def test_a_store_that_grew_past_its_limit_starts_anew(tmp_path: Path) -> None:
    """Fault 61: without anybody asking."""
    folder = filled(tmp_path)
    store = Store.open(str(tmp_path / "stores"), KEY, network=False, disk_limit=100_000)
    assert "100000" in store.facts().rebuilds.reason
    assert store.facts().size < 100_000
    assert not (folder / "quarantine.sqlite").exists()
    store.close()


@fault(62)
def test_an_owner_that_was_killed_leaves_nothing_its_successor_does_not_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 62: killed before the rename, and between the rename and the entry in the list."""
    folder = filled(tmp_path)
    for n in range(10):
        (folder / f"{n:032x}.segment.{n}.tmp").write_bytes(b"half")
        (folder / f"{n:032x}.segment").write_bytes(b"never listed")
    store = opened(tmp_path)
    assert {"lock", "repository", "store.sqlite", "store.sqlite-shm", "store.sqlite-wal"} == {
        file.name for file in folder.iterdir() if file.suffix != ".segment"
    }
    assert 1 == len(list(folder.glob("*.segment")))
    assert 1 == len(store.segment_names("contents") or ())
    store.close()


# --- 114: two processes ----------------------------------------------------------------------------------------

_OWNER = """
import sys
from repo_provider.store import Store
store = Store.open(sys.argv[1], sys.argv[2], network=False)
store.put_many("t", {b"theirs": b"value"})
store.flush()
print(store.facts().role, flush=True)
sys.stdin.read()
"""


@fault(114)
def test_when_the_owner_is_killed_another_process_takes_over(tmp_path: Path) -> None:
    """Fault 114: both work meanwhile, and each says what it is."""
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "stores"), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert b"owner\n" == owner.stdout.readline()
        store = opened(tmp_path)
        assert "reader" == store.facts().role
        assert {b"theirs": b"value"} == store.get_many("t", [b"theirs"])
        assert works(store)
        assert not store.flush()
        assert store.replace_segments("contents", [], b"mine") is None
        owner.kill()
    assert "owner" == store.facts().role
    assert store.flush()
    assert store.replace_segments("contents", [], b"mine") is not None
    store.close()


def test_a_reader_goes_on_when_the_owner_starts_anew(tmp_path: Path) -> None:
    """Fault 114: the reader's file is gone from the folder; it looks for the new one."""
    owner, reader = opened(tmp_path), opened(tmp_path)
    owner.put_many("t", {b"k": b"old"})
    owner.flush()
    assert {b"k": b"old"} == reader.get_many("t", [b"k"])
    generation = reader.generation()
    owner._unfit = "corrupt"
    owner.put_many("t", {b"k": b"new"})
    assert owner.flush()
    assert {b"k": b"new"} == reader.get_many("t", [b"k"])
    assert generation != reader.generation()
    assert ("owner", "reader") == (owner.facts().role, reader.facts().role)
    owner.close()
    reader.close()


def test_a_reader_never_sets_a_store_aside(tmp_path: Path, no_waiting: None) -> None:
    """Faults 55, 114: a losing process that sees damage leaves it to the owner."""
    owner, reader = opened(tmp_path), opened(tmp_path)
    (folder,) = (tmp_path / "stores").iterdir()
    owner.put_many("t", {b"k": b"v"})
    owner.flush()
    damage_a_value(folder / "store.sqlite")
    assert {} == reader.get_many("t", [b"k"])
    assert 0 == reader.facts().rebuilds.count
    assert {} == owner.get_many("t", [b"k"])
    assert 1 == owner.facts().rebuilds.count
    owner.close()
    reader.close()
