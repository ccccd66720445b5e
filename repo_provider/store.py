"""What outlives the process: one folder a repository, with a SQLite file, segment files beside it, and a lock.

A cache and nothing else (P7): no method raises into a query, a busy store is waited for briefly and then done without,
a damaged one is set aside and rebuilt, a full or read-only disk leaves everything in memory with one note. What is
stored is derived from the repository alone, never from a query (P6). Values are bytes; what they mean is the caller's.
`provider` opens one; `lexical` keeps its segments here through a protocol of its own.

One process writes: the *owner*, the holder of the lock file. Others read what is there and keep their own work in
memory; the first of them to notice that the owner is gone takes over. Everything is keyed by content, so what a reader
sees late is old, never wrong.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SCHEMA = 1
"""Raised when the tables change. Another number in the file, older or newer, means a rebuild, with a notice."""

_T = TypeVar("_T")
_Item = tuple[tuple[str, bytes], bytes]

_MEMORY_LIMIT = 64 << 20
_DISK_LIMIT = 4 << 30
_AT_ONCE = 500
_READ_SECONDS, _WRITE_SECONDS, _REST_SECONDS = 0.2, 1.0, 1.0

_DATABASE, _REPOSITORY, _REBUILDS, _QUARANTINE = "store.sqlite", "repository", "rebuilds.json", "quarantine.sqlite"
_SEGMENT, _UNFINISHED = ".segment", ".tmp"
_CORRUPT = "corrupt"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)
"""Statements are constant, so one that SQLite does not understand means other tables than ours (SQLITE_ERROR)."""
_NONSENSE = (ValueError, TypeError, LookupError, OverflowError)
"""What values of another type raise here: a table's row that no longer holds what was put there."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Rebuilds(Struct, frozen=True):
    """How often a store was started anew, and of the last time: why, when (Unix seconds), what was set aside."""

    count: int = 0
    reason: str = ""
    time: int = 0
    quarantine: str | None = None


class Facts(Struct, frozen=True):
    """What `status` tells of a store. `location` is None where there is only memory."""

    role: Literal["owner", "reader", "memory"]
    location: str | None
    size: int
    generation: int
    rebuilds: Rebuilds
    notes: tuple[str, ...]


class Store:
    """Tables of byte values and lists of segments. Threads may share one."""

    def __init__(self, disk: _Disk | None, clock: Callable[[], float]) -> None:
        self._disk = disk
        self._clock = clock
        self._pending = _Pending(_MEMORY_LIMIT)
        self._notes: dict[str, None] = {}
        self._writing = threading.RLock()  # whoever needs both locks takes this one first
        self._reading = threading.RLock()
        self._unfit = ""
        self._useless = False
        self._rests_until = 0.0
        self._thread: threading.Thread | None = None
        self._wake = threading.Condition()
        self._closing = False

    @classmethod
    def open(
        cls,
        directory: str | None,
        key: str,
        *,
        network: bool | None = None,
        clock: Callable[[], float] = time.time,
        disk_limit: int = _DISK_LIMIT,
    ) -> Store:
        """The store of one repository, `key` (its common directory), below `directory`; None: memory only.

        Never fails: where the folder cannot be used, `notes` says why and everything stays in memory. `network`
        overrides the look at what kind of file system it is.
        """
        if directory is None:
            return cls(None, clock)
        folder = os.path.join(directory, _folder_name(key))
        try:
            store = cls(_Disk(folder, key, network, disk_limit), clock)
        except OSError as error:
            store = cls(None, clock)
            store._note(_refused(error))
            return store
        if store._disk is not None and store._disk.network:
            store._note("the store is on a network file system, so it works without a write-ahead log")
        with store._writing:
            store._ready()
        return store

    # --- values ----------------------------------------------------------------------------------------------

    def get_many(self, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values there are for these keys."""
        wanted = list(dict.fromkeys(keys))
        found = self._pending.get_many(table, wanted)
        rest = [key for key in wanted if key not in found]
        if rest:
            nothing: dict[bytes, bytes] = {}
            found |= self._read(lambda disk: disk.values(table, rest), nothing)
        return found

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        """Keep these values: readable at once, on disk soon, or never where the disk refuses."""
        self._pending.put_many(table, items)
        if not items or self._disk is None:
            return
        with self._wake:
            if self._thread is None and not self._closing:
                thread = threading.Thread(target=self._write_behind, name="store", daemon=True)
                with suppress(RuntimeError, MemoryError):  # none to be had now: a later call, or `close`, writes it
                    thread.start()
                    self._thread = thread
            self._wake.notify()

    def flush(self) -> bool:
        """Write what is waiting now; False where it has to wait on."""
        while items := self._pending.oldest(_AT_ONCE):
            if not self._write(partial(_Disk.put, items=items), False):
                return False
            self._pending.written(items)
        return True

    def _write_behind(self) -> None:
        while not self._closing and self._disk is not None:
            done = self.flush()
            with self._wake:
                if not self._closing and not (done and self._pending):
                    self._wake.wait(None if done else _REST_SECONDS)

    def keys(self, table: str) -> set[bytes]:
        """The keys of a table on disk."""
        nothing: set[bytes] = set()
        self.flush()
        return self._read(lambda disk: disk.keys(table), nothing)

    def keep_only(self, table: str, keys: Collection[bytes]) -> None:
        """Forget every value of a table but these."""
        self.flush()
        self._write(lambda disk: disk.drop(table, frozenset(keys)), None)

    # --- segments --------------------------------------------------------------------------------------------

    def generation(self) -> int:
        """A number that differs whenever the stored segments do; 0 where nothing can be read."""
        return self._read(_Disk.generation, 0)

    def segment_names(self, corpus: str) -> list[str] | None:
        """The stored segments of a corpus, in a fixed order; None where they cannot be read now."""
        return self._read(lambda disk: disk.segment_names(corpus), None)

    def segment(self, name: str) -> memoryview | None:
        """The bytes of a stored segment; None where it is not there any more."""
        return self._read(lambda disk: disk.segment(name), None)

    def replace_segments(self, corpus: str, removed: Sequence[str], data: bytes) -> str | None:
        """Store a segment in place of others; its name, or None where it was not stored."""
        return self._write(lambda disk: disk.replace_segments(corpus, removed, data), None)

    def discard_segment(self, name: str) -> None:
        """A segment turned out damaged: drop it, and say so in `facts`."""

        def discard(disk: _Disk) -> None:
            disk.replace_segments("", [name], None)
            disk.record("corrupt segment", int(self._clock()), None)

        self._write(discard, None)

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of this store, each once."""
        return tuple(self._notes)

    def facts(self) -> Facts:
        """What there is; a reader that finds the owner gone becomes the owner here (fault 114)."""
        with self._writing:
            self._ready()
            disk = self._disk
        if disk is None:
            return Facts("memory", None, self._pending.size, 0, Rebuilds(), self.notes)
        role: Literal["owner", "reader"] = "owner" if disk.claim.held else "reader"
        return Facts(role, disk.folder, _size(disk.folder), self.generation(), disk.rebuilds(), self.notes)

    def vacuum(self) -> None:
        """Give the space of what was dropped back to the disk, and that of a store set aside."""
        self._write(_Disk.vacuum, None)

    def close(self, seconds: float = 1.0) -> None:
        """Write what is waiting, for so long at most, and let go of the store."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return
        self.flush()
        with self._writing:
            self._leave()

    # --- doing it, or doing without ----------------------------------------------------------------------------

    def _read(self, work: Callable[[_Disk], _T], otherwise: _T) -> _T:
        with self._reading:
            if self._disk is None or self._useless or self._unfit or self._resting():
                return otherwise
            try:
                return work(self._disk)
            except _TROUBLE as error:
                self._failed(error)
        return otherwise

    def _write(self, work: Callable[[_Disk], _T], otherwise: _T) -> _T:
        with self._writing:
            if not self._ready() or self._disk is None:
                return otherwise
            try:
                return work(self._disk)
            except _TROUBLE as error:
                self._failed(error)
        return otherwise

    def _ready(self) -> bool:
        """Whether this process owns the store and it is fit to be written; what is unfit is started anew first."""
        for _ in range(2):
            if self._useless:
                self._leave()
            if self._disk is None or self._resting():
                return False
            try:
                if not self._disk.claim.take():
                    return False
                if self._unfit:
                    self._start_anew(self._disk)
                self._disk.prepare()
                return True
            except _TROUBLE as error:
                self._failed(error)
        return False

    def _start_anew(self, disk: _Disk) -> None:
        with self._reading:
            disk.start_anew(self._unfit, int(self._clock()))
            self._note(f"the store was rebuilt: {self._unfit}")
            self._unfit = ""

    def _leave(self) -> None:
        """Let go of the disk, for another process to have. `_writing` is held."""
        with self._reading:
            if self._disk is not None:
                self._disk.close()
            self._disk = None

    def _resting(self) -> bool:
        return time.monotonic() < self._rests_until

    def _failed(self, error: Exception) -> None:
        """What a failure means. Only real damage ever costs the file (fault 55)."""
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        undecodable = isinstance(error, sqlite3.OperationalError) and not primary
        damaged = primary in _DAMAGE or undecodable or isinstance(error, _NONSENSE)
        unfit = error.reason if isinstance(error, _Unfit) else _CORRUPT if damaged else ""
        if unfit and self._disk is not None and self._disk.claim.held:
            self._unfit = unfit
        elif unfit:  # the owner will see it too, or whoever takes over
            self._rests_until = time.monotonic() + _REST_SECONDS
        elif primary in _BUSY:
            self._rests_until = time.monotonic() + _REST_SECONDS
            self._note("the store was busy: another program holds it; answers are the same, only slower")
        else:
            self._note(_refused(error))
            self._useless = True

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _refused(error: Exception) -> str:
    return f"the store cannot be used, so everything stays in memory: {error}"


class _Pending:
    """Values in memory: those the disk does not have yet, and all of them where there is no disk; oldest go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: dict[tuple[str, bytes], bytes] = {}
        self._lock = threading.Lock()
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def get_many(self, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            return {key: value for key in keys if (value := self._items.get((table, key))) is not None}

    def put_many(self, table: str, items: Mapping[bytes, bytes]) -> None:
        with self._lock:
            for key, value in items.items():
                self._forget((table, key))
                self._items[table, key] = value
                self.size += len(key) + len(value)
            while self.size > self._limit:
                self._forget(next(iter(self._items)))

    def oldest(self, most: int) -> list[_Item]:
        with self._lock:
            return list(islice(self._items.items(), most))

    def written(self, items: Iterable[_Item]) -> None:
        with self._lock:
            for at, value in items:
                if self._items.get(at) is value:
                    self._forget(at)

    def _forget(self, at: tuple[str, bytes]) -> None:
        value = self._items.pop(at, None)
        if value is not None:
            self.size -= len(at[1]) + len(value)


# --- the folder ------------------------------------------------------------------------------------------------


class _Unfit(Exception):
    """What is on disk cannot be used and has to be made anew."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_TROUBLE = (sqlite3.Error, OSError, _Unfit, *_NONSENSE)


class _Disk:
    """One store's folder. Methods raise what SQLite and the operating system raise; `Store` decides what that means."""

    def __init__(self, folder: str, key: str, network: bool | None, limit: int) -> None:
        self.folder = folder
        self._limit = limit
        self._writer: sqlite3.Connection | None = None
        self._reader: tuple[int, sqlite3.Connection] | None = None
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.network = _on_network(folder) if network is None else network
        self.claim = _Claim(self._path("lock"))
        if not os.path.exists(self._path(_REPOSITORY)):
            self._write_file(_REPOSITORY, os.fsencode(key))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _write_file(self, name: str, data: bytes) -> None:
        """A whole file or none: readers never see half of one, and a full disk gets back what was written."""
        unfinished = f"{name}.{os.getpid()}{_UNFINISHED}"
        try:
            with open(os.open(self._path(unfinished), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            os.replace(self._path(unfinished), self._path(name))
        except OSError:
            self._remove(unfinished)
            raise

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # on Windows a file that is mapped stays; the next owner removes it
            os.remove(self._path(name))

    def close(self) -> None:
        self._disconnect()
        self.claim.release()

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader[1].close()
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    # --- the owner's upkeep -----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Connect for writing, with the tables there and nothing lying around. Raises _Unfit for another version."""
        if self._writer is not None:
            return
        with suppress(FileExistsError):  # closing a second handle of a file in use would drop SQLite's locks on it
            os.close(os.open(self._path(_DATABASE), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = _connect(self._path(_DATABASE), _WRITE_SECONDS)
        try:
            connection.execute(f"PRAGMA journal_mode={'DELETE' if self.network else 'WAL'}")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint=250")  # 1 MB of log, then it is folded in and used again
            _create_tables(connection, self.rebuilds().count << 32)
            _check_version(connection)
            self._remove_orphans(connection)
        except BaseException:
            connection.close()
            raise
        self._writer = connection

    def _remove_orphans(self, connection: sqlite3.Connection) -> None:
        """Only the owner writes, so whatever is not listed was left by one that died (fault 62)."""
        known = {name for (name,) in connection.execute("SELECT name FROM segment")}
        for name in os.listdir(self.folder):
            if name.endswith(_UNFINISHED) or (name.endswith(_SEGMENT) and name not in known):
                self._remove(name)
        if _size(self.folder) > self._limit:
            raise _Unfit(f"it had grown past {self._limit} bytes")

    def start_anew(self, reason: str, now: int) -> None:
        """Begin with an empty store; a damaged one is set aside, one at most."""
        self._disconnect()
        quarantine = self._path(_QUARANTINE) if reason == _CORRUPT else None
        if quarantine is not None:
            with suppress(FileNotFoundError):
                os.replace(self._path(_DATABASE), quarantine)
        for suffix in ("", "-wal", "-shm", "-journal"):
            self._remove(_DATABASE + suffix)
        self.record(reason, now, quarantine)

    def record(self, reason: str, now: int, quarantine: str | None) -> None:
        """Damage is told, with time and place, not passed off as routine (fault 57)."""
        rebuilds = Rebuilds(self.rebuilds().count + 1, reason, now, quarantine)
        self._write_file(_REBUILDS, msgspec.json.encode(rebuilds))

    def rebuilds(self) -> Rebuilds:
        try:
            with open(self._path(_REBUILDS), "rb") as file:
                return msgspec.json.decode(file.read(), type=Rebuilds)
        except (OSError, msgspec.DecodeError):
            return Rebuilds()

    # --- reading -----------------------------------------------------------------------------------------------

    def _reading(self) -> sqlite3.Connection | None:
        """A connection to the file that is there now; None where there is none. Raises _Unfit for another version."""
        try:
            inode = os.stat(self._path(_DATABASE)).st_ino
        except FileNotFoundError:
            return None
        if self._reader is not None and self._reader[0] != inode:  # the owner started anew
            self._reader[1].close()
            self._reader = None
        if self._reader is None:
            connection = _connect(self._path(_DATABASE), _READ_SECONDS)
            try:
                _check_version(connection)
            except BaseException:
                connection.close()
                raise
            self._reader = (inode, connection)
        return self._reader[1]

    def values(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        connection = self._reading()
        found: dict[bytes, bytes] = {}
        if connection is None:
            return found
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            statement = f"SELECT key, value, crc FROM item WHERE collection = ? AND key IN ({marks})"
            for key, value, crc in connection.execute(statement, (table, *some)):
                if crc != _crc(key, value):
                    raise _Unfit(_CORRUPT)
                found[key] = value
        return found

    def keys(self, table: str) -> set[bytes]:
        connection = self._reading()
        statement = "SELECT key FROM item WHERE collection = ?"
        return {key for (key,) in connection.execute(statement, (table,))} if connection else set()

    def generation(self) -> int:
        connection = self._reading()
        rows = connection.execute("SELECT number FROM generation").fetchall() if connection else [(0,)]
        return int(rows[0][0])

    def segment_names(self, corpus: str) -> list[str]:
        connection = self._reading()
        statement = "SELECT name FROM segment WHERE corpus = ? ORDER BY name"
        return [name for (name,) in connection.execute(statement, (corpus,))] if connection else []

    def segment(self, name: str) -> memoryview | None:
        """Read, not mapped: a map would change, or kill us, with a file that is damaged later (P7)."""
        try:
            with open(self._path(name), "rb") as file:
                return memoryview(file.read())
        except FileNotFoundError:  # replaced a moment ago
            return None

    # --- writing -----------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        assert self._writer is not None, "prepare() comes first"
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield self._writer
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        self._writer.execute("COMMIT")

    def put(self, items: Sequence[_Item]) -> bool:
        rows = [(table, key, value, _crc(key, value)) for (table, key), value in items]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)", rows)
        return True

    def drop(self, table: str, kept: Collection[bytes]) -> None:
        with self._transaction() as connection:
            gone = [(table, key) for key in self.keys(table) if key not in kept]
            connection.executemany("DELETE FROM item WHERE collection = ? AND key = ?", gone)

    def replace_segments(self, corpus: str, removed: Sequence[str], data: bytes | None) -> str | None:
        name = None if data is None else blake2b(data, digest_size=16).hexdigest() + _SEGMENT
        if name is not None and data is not None:
            self._write_file(name, data)
        with self._transaction() as connection:
            connection.executemany("DELETE FROM segment WHERE name = ?", [(old,) for old in removed])
            if name is not None:
                connection.execute("INSERT OR REPLACE INTO segment VALUES (?, ?)", (name, corpus))
            connection.execute("UPDATE generation SET number = number + 1")
        for old in removed:
            if old != name:
                self._remove(old)
        return name

    def vacuum(self) -> None:
        assert self._writer is not None, "prepare() comes first"
        self._writer.execute("VACUUM")
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._remove(_QUARANTINE)


_TABLES = """
CREATE TABLE item (collection TEXT, key BLOB, value BLOB, crc INTEGER, PRIMARY KEY (collection, key));
CREATE TABLE segment (name TEXT PRIMARY KEY, corpus TEXT);
CREATE TABLE generation (number INTEGER);
"""


def _connect(path: str, seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False)


def _check_version(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found != SCHEMA:
        raise _Unfit("it was made by an older version" if found < SCHEMA else "it was made by a newer version")


def _create_tables(connection: sqlite3.Connection, generation: int) -> None:
    """Make a new file's tables in one step; a file that has any is left as it is. Only an owner calls this."""
    if connection.execute("SELECT 1 FROM sqlite_master").fetchall():
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.strip().splitlines():
        connection.execute(statement)
    connection.execute("INSERT INTO generation VALUES (?)", (generation,))
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def _crc(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


class _Claim:
    """The lock file that makes one process the owner. The system lets go of it when the process ends, however."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.held = False

    def take(self) -> bool:
        """Whether this process is the owner now. Raises OSError where there are no locks to be had."""
        if not self.held:
            try:
                if sys.platform == "win32":
                    msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
                else:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # somebody else has it
                return False
            self.held = True
        return self.held

    def release(self) -> None:
        self.held = False
        os.close(self._file)


def _folder_name(key: str) -> str:
    return blake2b(os.fsencode(key), digest_size=16).hexdigest()


def _size(folder: str) -> int:
    with suppress(OSError), os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return 0


_NETWORK = frozenset(
    b"9p afs beegfs ceph cifs fuse.sshfs glusterfs gpfs lustre ncpfs nfs nfs4 orangefs smb3 smbfs".split()
)


def _on_network(folder: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Whether a folder lies on a file system of another machine, where SQLite's write-ahead log is unsafe (fault 58).

    Only Linux says so in a file; elsewhere the answer is no.
    """
    try:
        with open(mounts, "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return False
    path = os.fsencode(os.path.realpath(folder))
    under = [(len(point), kind) for point, kind in map(_mount, lines) if _holds(point, path)]
    return bool(under) and max(under)[1] in _NETWORK


def _mount(fields: Sequence[bytes]) -> tuple[bytes, bytes]:
    point = fields[4].replace(rb"\040", b" ").replace(rb"\011", b"\t").replace(rb"\134", b"\\")
    return point, fields[fields.index(b"-") + 1]


def _holds(point: bytes, path: bytes) -> bool:
    return path == point or path.startswith(point.rstrip(b"/") + b"/")


# --- all stores of a directory ---------------------------------------------------------------------------------


class Stored(Struct, frozen=True, order=True):
    """A store found on disk: its folder, the repository it was made for and its bytes."""

    folder: str
    repository: str
    size: int


def stores(directory: str) -> list[Stored]:
    """Every store below a directory, so that those whose repository is gone can be removed (fault 61)."""
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(directory)):
            folder = os.path.join(directory, name)
            with suppress(OSError), open(os.path.join(folder, _REPOSITORY), "rb") as file:
                found.append(Stored(folder, os.fsdecode(file.read()), _size(folder)))
    return found


def remove(folder: str) -> bool:
    """Delete a store; False where a running process owns it or the system refuses."""
    try:
        claim = _Claim(os.path.join(folder, "lock"))
    except OSError:
        return False
    free = False
    with suppress(OSError):
        free = claim.take()
    if free:
        shutil.rmtree(folder, ignore_errors=True)
    claim.release()
    return free and not os.path.exists(folder)
