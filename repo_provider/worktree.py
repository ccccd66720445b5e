"""What lies on disk: the files of a working tree, each with the git blob id of its very bytes.

The set is that of `git ls-files --cached --others --exclude-standard`, as far as it exists on disk as regular files
inside real directories; links, submodules and repositories inside are not followed, nor is a link that takes a
directory's place while it is looked at. The index is read for its names
only and never written. `scan` stats every file and directory at every call; bytes are hashed again only where path,
size, times or inode changed, directories listed again only where theirs did, and either where the last change was so
shortly before that a second one could hide.

Called by `repository` alone, which hands over what takes an object database: the tracked set when the index cannot
be read, blobs of ignore files that are not checked out. No libgit2 here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

from msgspec import Struct, msgpack

from repo_provider import disk, ignores
from repo_provider.model import BlobId, Entry, KeyValues, Late, Path, check

# --- the index: names only -------------------------------------------------------------------------------------


class Tracked(Struct, frozen=True):
    """What the index names: regular files and links, submodules, and what sparse checkout leaves out."""

    files: frozenset[bytes]
    directories: frozenset[bytes]
    submodules: frozenset[bytes]
    absent: Mapping[Path, BlobId]
    absent_trees: tuple[tuple[Path, bytes], ...] = ()


class UnreadableIndex(Exception):
    """An index in a form that is not read here (split, damaged, of a future version)."""


MAX_NAME_BYTES = 4096
"""What a file system takes. Shorter than what a few bytes can make of a name that builds on the one before."""

MAX_DIRECTORIES = 1_000_000
"""What lies below further ones is `too_many`."""

_GITLINK, _DIRECTORY = 0o160000, 0o040000


def read_index(data: bytes, deadline: float | None = None) -> Tracked:
    """The names in index bytes. Raises UnreadableIndex, and Late."""
    try:
        return _tracked(list(_entries(data, deadline)))
    except (IndexError, ValueError) as error:
        raise UnreadableIndex(str(error)) from error


def tracked(files: Mapping[Path, BlobId], submodules: Sequence[Path]) -> Tracked:
    """The same from a tree's names, where there is no index to be read."""
    names = frozenset(files)
    return Tracked(names, _above([*names, *submodules]), frozenset(submodules), {})


def _tracked(entries: list[tuple[bytes, int, bytes, bool]]) -> Tracked:
    files = frozenset(name for name, mode, _, _ in entries if mode not in (_GITLINK, _DIRECTORY))
    submodules = frozenset(name for name, mode, _, _ in entries if mode == _GITLINK)
    absent = {Path(name): BlobId(blob) for name, mode, blob, skip in entries if skip and stat.S_ISREG(mode)}
    trees = tuple((Path(name), blob) for name, mode, blob, _ in entries if mode == _DIRECTORY)
    return Tracked(files, _above([*files, *submodules]), submodules, absent, trees)


def _above(names: Sequence[bytes]) -> frozenset[bytes]:
    found: set[bytes] = set()
    for name in names:
        end = name.rfind(b"/")
        while end > 0 and name[:end] not in found:
            found.add(name[:end])
            end = name.rfind(b"/", 0, end)
    return frozenset(found)


def _entries(data: bytes, deadline: float | None) -> Iterator[tuple[bytes, int, bytes, bool]]:
    """(name, mode, object id, skip-worktree) of every entry, whatever its stage."""
    if data[:4] != b"DIRC":
        raise ValueError("no index signature")
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if version not in (2, 3, 4):
        raise ValueError(f"index version {version}")
    at, name = 12, b""
    for number in range(count):
        if not number % 4096:
            check(deadline)
        start = at
        if at + 62 > len(data):
            raise ValueError("index ends early")
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        extended = int.from_bytes(data[at + 62 : at + 64], "big") if flags & 0x4000 else 0
        at += 64 if flags & 0x4000 else 62
        if version == 4:
            strip, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - strip] + data[at:end]
            at = end + 1
            if len(name) > MAX_NAME_BYTES:
                raise ValueError("a name too long")
        else:
            end = at + (flags & 0xFFF) if flags & 0xFFF < 0xFFF else data.index(b"\0", at)
            name = data[at:end]
            at = end + 8 - (end - start) % 8
        mode = int.from_bytes(data[start + 24 : start + 28], "big")
        yield name, mode, data[start + 40 : start + 60], bool(extended & 0x4000)
    _check_extensions(data, at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1 << 7) | (data[at] & 0x7F)
    return value, at + 1


def _check_extensions(data: bytes, at: int) -> None:
    """An extension in lower case changes what the entries mean; `sdir` alone (whole directories left out) is known."""
    while at < len(data) - 20:
        signature, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
        if not signature[:1].isupper() and signature != b"sdir":
            raise ValueError(f"index extension {signature!r}")
        at += 8 + size
    if at != len(data) - 20:
        raise ValueError("index ends early")


# --- the scan --------------------------------------------------------------------------------------------------


class Excludes(Struct, frozen=True):
    """Rules that hold in every directory, the strongest first, and how names compare.

    Each text goes with the file it is from, and is None where that is too large.
    """

    texts: tuple[tuple[str, bytes | None], ...] = ()
    ignore_case: bool = False


class Scan(Struct, frozen=True):
    entries: Mapping[Path, Entry]
    skipped: Mapping[str, tuple[Path, ...]]
    notes: tuple[str, ...] = ()


_Stamp = tuple[int, int, int, int]
_SETTLED_NS = 2_000_000_000  # coarser than the coarsest file time in use (FAT: 2 s)


class _Known(Struct, frozen=True, array_like=True):
    stamp: _Stamp
    hashed_at: int
    entry: Entry

    def holds(self, status: os.stat_result) -> bool:
        return self.stamp == _stamp(status) and self.entry.executable == _executable(status) and self.settled

    @property
    def settled(self) -> bool:
        return self.hashed_at - self.stamp[2] > _SETTLED_NS


def _stamp(status: os.stat_result) -> _Stamp:
    changed = status.st_mtime_ns if _CREATED else status.st_ctime_ns
    return status.st_size, status.st_mtime_ns, changed, status.st_ino


_CREATED = os.name == "nt"  # there ctime is the time of creation


def _executable(status: os.stat_result) -> bool:
    return bool(status.st_mode & 0o100)


class WorkingTree:
    """One root on disk and what is remembered about the files below it. Not for two threads at once."""

    def __init__(self, root: str, file_limit: int) -> None:
        self.root = os.fsencode(root)
        self.file_limit = file_limit
        self._known: dict[bytes, _Known] = {}
        self._hashed: dict[bytes, _Known] = {}  # by scans that did not come to their end
        self._found: dict[bytes, _Known] = {}  # by the scan that is under way
        self._asked: set[bytes] = set()
        self._names: Tracked | None = None
        self._directories: dict[bytes, _Directory] = {}
        self._settled: dict[bytes, _Settled] = {}
        self._last: tuple[dict[bytes, _Known], Scan] = ({}, Scan({}, {}))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of an answer should know of the last scan."""
        return self._last[1].notes

    def scan(
        self,
        names: Tracked,
        excludes: Excludes,
        absent_blob: Callable[[BlobId], bytes | None],
        store: KeyValues | None,
        deadline: float | None = None,
    ) -> Scan:
        """Every served file under the root, and what is there but not served, by reason.

        The same object again where nothing changed. Raises Late; what was hashed by then is remembered.
        """
        known = self._directories if names is self._names else {}
        walk = _Walk(self.root, names, excludes, absent_blob, known)
        self._recall({b"", *names.directories}, store)
        found = self._found = {}
        try:
            for folder, directory in walk.run(deadline):
                found |= self._files(folder, directory, walk.skipped, deadline, store)
        except Late:
            self._names, self._directories = names, {**known, **walk.directories}
            self._hashed |= found
            raise
        self._names, self._directories, self._hashed = names, walk.directories, {}
        self._settled = {prefix: one for prefix, one in self._settled.items() if prefix in walk.directories}
        notes = tuple(sorted(walk.notes))
        skipped = {
            reason: tuple(Path(path) for path in sorted(paths)) for reason, paths in sorted(walk.skipped.items())
        }
        listed, last = self._last
        if found != listed or (skipped, notes) != (last.skipped, last.notes):
            self._remember(found, store)
            self._known = found
            last = Scan({Path(path): found[path].entry for path in sorted(found)}, skipped, notes)
            self._last = found, last
        return last

    def so_far(self) -> Mapping[Path, Entry]:
        """What scans have found, one under way in another thread included; of no one moment, and not all of it."""
        found = {**self._last[0], **self._hashed, **self._found}
        return {Path(path): found[path].entry for path in sorted(found)}

    def _files(
        self,
        folder: _Folder,
        directory: _Directory,
        skipped: dict[str, list[bytes]],
        deadline: float | None,
        store: KeyValues | None,
    ) -> Mapping[bytes, _Known]:
        """What is served of a directory; the same object again where no file in it changed."""
        before = self._settled.get(folder.prefix)
        if before is not None and before.files is directory.files and folder.all_hold(before, deadline):
            return before.found
        self._recall({folder.prefix.rstrip(b"/")}, store)
        found = {}
        for path in directory.files:
            check(deadline)
            one = self._one(folder, path, skipped)
            if one is not None:
                found[path] = one
        if len(found) == len(directory.files) and all(one.settled for one in found.values()):
            skip = len(folder.prefix)
            stamps = [(path[skip:], one.stamp, one.entry.executable) for path, one in found.items()]
            self._settled[folder.prefix] = _Settled(directory.files, found, stamps)
        else:
            self._settled.pop(folder.prefix, None)
        return found

    def _one(self, folder: _Folder, path: bytes, skipped: dict[str, list[bytes]]) -> _Known | None:
        try:
            status = folder.stat(path)
            for known in (self._known.get(path), self._hashed.get(path)):
                if known is not None and known.holds(status) and status.st_size <= self.file_limit:
                    return known
            if not stat.S_ISREG(status.st_mode):
                return None
            hashed_at = time.time_ns()  # only ever makes a file be hashed once more; no answer depends on it
            data, status = folder.read(path, self.file_limit)
        except (FileNotFoundError, disk.NotAFile):
            return None
        except disk.TooLarge:
            skipped.setdefault("oversize", []).append(path)
            return None
        except OSError:
            skipped.setdefault("unreadable", []).append(path)
            return None
        return _Known(_stamp(status), hashed_at, Entry(git_blob_id(data), _executable(status)))

    def _recall(self, directories: Set[bytes], store: KeyValues | None) -> None:
        """Take over what an earlier process knew of directories that this one has not seen."""
        new = directories - self._asked
        if store is None or not new:
            return
        self._asked |= new
        keys = {self._key(directory): directory for directory in new}
        for key, value in store.get_many(_TABLE, list(keys)).items():
            with suppress(ValueError):
                for name, known in _decoder.decode(value).items():
                    self._known.setdefault(os.path.join(keys[key], name), known)

    def _remember(self, known: Mapping[bytes, _Known], store: KeyValues | None) -> None:
        if store is None:
            return
        changed = {os.path.dirname(path) for path, one in known.items() if self._known.get(path) is not one}
        changed |= {os.path.dirname(path) for path in self._known.keys() - known.keys()}
        if not changed:
            return
        below: dict[bytes, dict[bytes, _Known]] = {directory: {} for directory in changed}
        for path, one in known.items():
            directory, _, name = path.rpartition(b"/")
            if directory in changed and one.settled:
                below[directory][name] = one
        store.put_many(_TABLE, {self._key(directory): _encoder.encode(names) for directory, names in below.items()})

    def _key(self, directory: bytes) -> bytes:
        return self.root + b"\0" + directory


_TABLE = "working-tree"
_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(dict[bytes, _Known])


def git_blob_id(data: bytes) -> BlobId:
    """The id git gives these bytes, no filter applied."""
    return BlobId(hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest())


_RuleList = list[tuple[bytes, ignores.Rules]]


class _Directory(Struct, frozen=True):
    """What a directory held when it was listed, and what its ignore rules made of that.

    `below` are directories to walk, with whether they are ignored ones; `untracked` too, unless they turn out to be
    repositories of their own.
    """

    stamp: tuple[int, int, int]
    listed_at: int
    ignored: bool
    rules: _RuleList
    has_rules: bool
    files: list[bytes]
    below: list[tuple[bytes, bool]]
    untracked: list[bytes]
    skipped: list[tuple[str, bytes]]

    def holds(self, stamp: tuple[int, int, int]) -> bool:
        """Whether nothing can have come or gone since; a change of the ignore rules is another matter."""
        return self.stamp == stamp and self.listed_at - stamp[1] > _SETTLED_NS and os.name != "nt"


class _Settled(Struct, frozen=True):
    """The files of a directory as listed, all of them served, and none changed so lately that it must be read again."""

    files: list[bytes]
    found: Mapping[bytes, _Known]
    stamps: list[tuple[bytes, _Stamp, bool]]


class _Folder:
    """A directory below the root, opened when its names or bytes are wanted: no link led there, whatever happens."""

    def __init__(self, root: bytes, prefix: bytes, above: _Folder | None = None) -> None:
        """`prefix` is empty or ends in `/`; `above` is on the way there."""
        self.prefix = prefix
        self._root, self._above = root, above
        self._path = root + b"/" + prefix
        self._descriptor: int | None = None

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def status(self) -> os.stat_result:
        """Of the directory, or of what took its place."""
        try:
            return os.lstat(self._path[:-1]) if self.prefix else os.stat(self._path)
        except OSError:  # a path too long, for one, is in reach all the same
            descriptor = self._opened()
            return os.stat(self._path if descriptor is None else descriptor)

    def all_hold(self, settled: _Settled, deadline: float | None) -> bool:
        """Whether every one of these files is as it was. Raises Late."""
        try:
            for name, stamp, executable in settled.stamps:
                check(deadline)
                status = os.lstat(self._path + name)
                if stamp != _stamp(status) or executable != _executable(status):
                    return False
        except OSError:
            return False
        return True

    def stat(self, path: bytes) -> os.stat_result:
        """Of a path directly below; of a link itself."""
        descriptor = self._opened()
        return os.stat(self._name(path), dir_fd=descriptor, follow_symlinks=False)

    def read(self, path: bytes, most: int) -> tuple[bytes, os.stat_result]:
        """As `disk.read`, of a path directly below that is no link."""
        descriptor = self._opened()
        return disk.read(self._name(path), most, folder=descriptor, follow=False)

    def items(self) -> list[tuple[bytes, os.DirEntry[Any]]]:
        """Raises as `disk.read`."""
        descriptor = self._opened()
        try:
            with os.scandir(self._path if descriptor is None else descriptor) as listing:
                return [(os.fsencode(item.name), item) for item in listing]
        except OSError as error:
            raise disk.refused(error) from None

    def _opened(self) -> int | None:
        """None where the system opens no directories."""
        if self._descriptor is None and os.open in os.supports_dir_fd:
            above = self._above if self._above is not None and self._above._descriptor is not None else None
            start, left = (
                (None, self.prefix) if above is None else (above._descriptor, self.prefix[len(above.prefix) :])
            )
            try:
                self._descriptor = _descend(self._root, start, left)
            except OSError as error:
                raise disk.refused(error) from None
        return self._descriptor

    def _name(self, path: bytes) -> bytes:
        name = path[len(self.prefix) :]
        return self._path + name if self._descriptor is None else name


_FOLDER = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK"))


def _descend(root: bytes, start: int | None, prefix: bytes) -> int:
    """The directory at a prefix of the one that is open at `start`, else of the root's."""
    descriptor = os.open(root, _FOLDER) if start is None else start
    for part in prefix.split(b"/")[:-1]:
        try:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            if descriptor != start:
                os.close(descriptor)
        descriptor = inner
    return descriptor


_MOST_OPEN = 64


class _Walk:
    """One pass over the directories; collects files to serve, what is left out, and what there is to say of it."""

    def __init__(
        self,
        root: bytes,
        names: Tracked,
        excludes: Excludes,
        absent_blob: Callable[[BlobId], bytes | None],
        known: Mapping[bytes, _Directory],
    ) -> None:
        self.root = root
        self.names = names
        self.absent_blob = absent_blob
        self.ignore_case = excludes.ignore_case
        self.notes: list[str] = []
        self.general: _RuleList = []
        for where, text in excludes.texts:
            if (rules := self._rules(text, where, self.general)) is not None:
                self.general.append((b"", rules))
        self.known = known
        self.directories: dict[bytes, _Directory] = {}
        self.skipped: dict[str, list[bytes]] = {}

    def run(self, deadline: float | None) -> Iterator[tuple[_Folder, _Directory]]:
        """Every directory that is walked, open while it is the caller's turn. Raises Late."""
        pending: list[tuple[bytes, bool, _RuleList]] = [(b"", False, self.general)]
        way: list[_Folder] = []  # those above, the nearest last, as far as they are kept open
        try:
            while pending:
                check(deadline)
                prefix, ignored, above = pending.pop()
                while way and not prefix.startswith(way[-1].prefix):
                    way.pop().close()
                if len(prefix) > MAX_NAME_BYTES or len(self.directories) == MAX_DIRECTORIES:
                    too_long = len(prefix) > MAX_NAME_BYTES
                    self._skip("path_too_long" if too_long else "too_many", prefix.rstrip(b"/"))
                    continue
                if len(way) == _MOST_OPEN:
                    way.pop(0).close()
                try:
                    way.append(_Folder(self.root, prefix, way[-1] if way else None))
                    one = self._directory(way[-1], ignored, above, deadline)
                except OSError as error:
                    self._lost(prefix, error)
                    continue
                self.directories[prefix] = one
                for reason, path in one.skipped:
                    self._skip(reason, path)
                yield way[-1], one
                for path in one.untracked:
                    if _is_repository(os.path.join(self.root, path, b".git")):
                        self._skip("nested_repository", path)
                    else:
                        pending.append((path + b"/", False, one.rules))
                pending.extend((path + b"/", below, one.rules) for path, below in one.below)
        finally:
            for folder in way:
                folder.close()

    def _lost(self, prefix: bytes, error: OSError) -> None:
        """A directory that went away meanwhile is none any more, as is one that a file or a link took the place of."""
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            self._skip("unreadable", prefix.rstrip(b"/"))

    def _directory(self, folder: _Folder, ignored: bool, above: _RuleList, deadline: float | None) -> _Directory:
        listed_at = time.time_ns()  # only ever makes a directory be listed once more; no answer depends on it
        prefix, status = folder.prefix, folder.status()
        stamp = status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        known = self.known.get(prefix)
        if known is not None and known.holds(stamp):
            rules = above if ignored else self._with_own(folder, known.has_rules, above)
            if known.ignored == ignored and known.rules == rules:
                return known
        items = folder.items()
        has_rules = any(name == b".gitignore" and item.is_file(follow_symlinks=False) for name, item in items)
        rules = above if ignored else self._with_own(folder, has_rules, above)
        one = _Directory(stamp, listed_at, ignored, rules, has_rules, [], [], [], [])
        for name, item in items:
            check(deadline)
            self._visit(name, item, prefix + name, one)
        return one

    def _visit(self, name: bytes, item: os.DirEntry[Any], path: bytes, into: _Directory) -> None:
        """Take a file in, or a directory that is to be walked."""
        if name == b".git":
            return
        try:
            if item.is_dir(follow_symlinks=False):
                self._visit_directory(name, path, into)
            elif path in self.names.files or not (into.ignored or _ignored(into.rules, path, name, False)):
                if item.is_symlink():
                    into.skipped.append(("symlink", path))
                elif item.is_file(follow_symlinks=False):
                    into.files.append(path)
        except FileNotFoundError:
            pass
        except OSError:
            into.skipped.append(("unreadable", path))

    def _visit_directory(self, name: bytes, path: bytes, into: _Directory) -> None:
        if path in self.names.submodules:
            into.skipped.append(("submodule", path))
            return
        ignored = into.ignored or _ignored(into.rules, path, name, True)
        if path in self.names.directories:
            into.below.append((path, ignored))
        elif not ignored:
            into.untracked.append(path)

    def _with_own(self, folder: _Folder, has_rules: bool, above: _RuleList) -> _RuleList:
        place = Path(folder.prefix + b".gitignore")
        if has_rules:
            text = _rules_text(lambda: folder.read(place, disk.SMALL)[0])
        elif place in self.names.absent:
            text = self.absent_blob(self.names.absent[place]) or b""
        else:
            return above
        own = self._rules(text, place.decode("utf-8", "replace"), above)
        return above if own is None else [(folder.prefix, own), *above]

    def _rules(self, text: bytes | None, where: str, above: _RuleList) -> ignores.Rules | None:
        """The rules in a text. Where they are too many, what git might ignore is not served: nothing untracked."""
        try:
            found = None if text is None else ignores.rules(text, self.ignore_case)
            wild = sum(rules.wild for _, rules in above) + (found.wild if found else 0)
            if text is None or wild > ignores.MAX_WILD:
                raise ignores.TooMany
            return found
        except ignores.TooMany:
            self.notes.append(f"more ignore rules than are read in {where}: nothing untracked below it is served")
            return ignores.rules(b"*")

    def _skip(self, reason: str, path: bytes) -> None:
        self.skipped.setdefault(reason, []).append(path)


def _is_repository(dot_git: bytes) -> bool:
    """Whether a `.git` makes its folder a repository of its own, as git sees it; one that cannot be read does."""
    if not os.path.lexists(dot_git):
        return False
    if os.path.isdir(dot_git):
        return all(os.path.lexists(os.path.join(dot_git, name)) for name in (b"HEAD", b"objects", b"refs"))
    try:
        data, _ = disk.read(dot_git)
        return data.startswith(b"gitdir: ")  # wherever to: a worktree whose repository moved stays one
    except (FileNotFoundError, disk.NotAFile):
        return False
    except OSError:
        return True


def _ignored(rules: _RuleList, path: bytes, name: bytes, is_directory: bool) -> bool:
    for prefix, one in rules:
        verdict = one.verdict(path[len(prefix) :], name, is_directory)
        if verdict is not None:
            return verdict
    return False


# --- bytes -----------------------------------------------------------------------------------------------------


def ignore_rules(path: str) -> bytes | None:
    """The text of a file of ignore rules, empty where there is none to be read; None where it is too large."""
    return _rules_text(lambda: disk.read(path)[0])


def _rules_text(read: Callable[[], bytes]) -> bytes | None:
    try:
        return read()
    except disk.TooLarge:
        return None
    except OSError:
        return b""


def read_inside(root: str, path: bytes, most: int) -> bytes | None:
    """The bytes of a regular file below a root, no link followed on the way; None where there is none so small."""
    try:
        with _Folder(os.fsencode(root), path[: path.rfind(b"/") + 1]) as folder:
            return folder.read(path, most)[0]
    except OSError:
        return None
