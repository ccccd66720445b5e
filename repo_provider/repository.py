"""The only place that knows libgit2: opening, revisions, objects, trees, and the working tree as a snapshot.

Nothing here ever writes into the repository, runs a filter or a hook, or looks at `GIT_*` variables (P6). Objects
are read as raw bytes and checked against their ids here, with a faster sha1 than libgit2's own; commit parents are
read as they are written, so grafts and replacements do not exist (`git --no-replace-objects` is our reading).

A handle serves one caller at a time: `objects()` lends one out, from a stock that is thrown away when the packs of
the repository change, so packs that `git gc` deleted are not held for ever. Every method may be called from any
thread. Foreign exceptions end here: Unavailable for what cannot be opened or whose objects are out of reach,
BadRequest (`invalid_revision`) for a revision, Missing for a single object that is not there.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import cached_property

import pygit2
from msgspec import Struct
from msgspec.structs import replace
from pygit2.enums import ConfigLevel, ObjectType, Option, RepositoryOpenFlag

from repo_provider import disk
from repo_provider.errors import BadRequest, Unavailable
from repo_provider.model import BlobId, CommitId, Entry, KeyValues, Late, Path, Snapshot, check, in_time
from repo_provider.refs import BadRef, Refs
from repo_provider.worktree import (
    Excludes,
    Scan,
    Tracked,
    UnreadableIndex,
    WorkingTree,
    ignore_rules,
    read_index,
    read_inside,
    tracked,
)

pygit2.option(Option.SET_EXTENSIONS, ["partialclone", "preciousobjects"], 2)
pygit2.option(Option.ENABLE_STRICT_HASH_VERIFICATION, False)  # checked here instead, in half the time
pygit2.option(Option.SET_CACHE_MAX_SIZE, 16 << 20)
_WINDOW = 4 << 20
pygit2.option(Option.SET_MWINDOW_SIZE, _WINDOW)  # mapped pack pages count as ours
pygit2.option(Option.SET_MWINDOW_MAPPED_LIMIT, 64 << 20)

_FAILURES = (KeyError, ValueError, OSError, pygit2.GitError)
"""What libgit2 may raise of a repository that is not as it should be."""

MAX_FILE_BYTES = 1 << 20
MAX_TREE_ENTRIES, MAX_REPEATED_ENTRIES = 1_000_000, 100_000
"""What a tree may list, and what of it in trees that it has elsewhere already; the rest is `too_many`.

A tree of trees of trees can name more files than a disk holds.
"""
MAX_PATH_BYTES = 4096
"""What a file system takes; a longer path in a tree names nothing here."""
MAX_OBJECT_BYTES = 64 << 20
"""A few bytes on disk can be an object larger than memory; a larger one is as good as not here."""
MAX_PARENTS = 1024
MAX_TIME = 1 << 62
"""Seconds from the epoch, either way, past which a commit's time is taken for this one: the store holds 64 bits."""
MAX_ALTERNATES = 64
MAX_SETTINGS = 64
"""Files of settings, those included counted as often as they are."""
MAX_INDEX_BYTES = 256 << 20
MAX_SHALLOW_BYTES = 1 << 20
MAX_TAGS = 64
"""Tags of tags that are followed to a commit."""


class Missing(Exception):
    """An object is not in the object database: promised by a partial clone, or lost."""

    def __init__(self, name: bytes) -> None:
        super().__init__(name.hex())
        self.name = name


# --- objects ---------------------------------------------------------------------------------------------------


class Header(Struct, frozen=True):
    """What history needs of a commit. `time` is the committer's, as written; 0 where it cannot be read."""

    tree: bytes
    parents: tuple[CommitId, ...]
    time: int


_TREE_ENTRY = re.compile(  # old tools wrote modes with leading zeros; what is no entry is one match without groups
    rb"(?:0*+(?=[1-7]))?+([0-7]++) ([^\0]++)\0(.{20})|[^\0]*+\0.{0,20}|.++", re.DOTALL
)
_HEAD = re.compile(rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)")
_COMMITTER_TIME = re.compile(rb"\ncommitter [^\n]*>[ \t\v\f\r]*(-?\d{1,30})(?!\d)[^>\n]*\n")

TREE, LINK, GITLINK, FILE, EXECUTABLE = b"40000", b"120000", b"160000", b"100644", b"100755"
_MODES = frozenset((TREE, LINK, GITLINK, FILE, EXECUTABLE))


def usual_mode(mode: bytes) -> bytes:
    """A tree entry's mode as git takes it: old tools wrote the permissions on disk, `40755` and `100664`."""
    if mode in _MODES:
        return mode
    bits = int(mode, 8) & 0o177777
    if stat.S_ISREG(bits):
        return EXECUTABLE if bits & 0o100 else FILE
    return TREE if stat.S_ISDIR(bits) else LINK if stat.S_ISLNK(bits) else GITLINK


class Objects:
    """An open object database, for one thread at a time. `lacked`: something was asked for that is not here.

    `places` are the directories its objects lie in.
    """

    def __init__(
        self,
        repository: pygit2.Repository,
        stamp: object,
        places: tuple[str, ...],
        explain: Callable[[bytes], Exception],
    ) -> None:
        self.repository = repository
        self.stamp = stamp
        self._folders: dict[str, list[str]] = {}  # of loose objects, by the first digits of their ids
        for place in places:
            with suppress(OSError):
                for name in os.listdir(place):
                    self._folders.setdefault(name, []).append(f"{place}/{name}")
        self._odb = repository.odb
        self._explain = explain
        self.lacked = False

    @cached_property
    def config(self) -> pygit2.Config:
        """The settings as they were when this was opened."""
        return self.repository.config.snapshot()

    def close(self) -> None:
        """Let go of packs and their mappings now, not when a collector comes by."""
        del self._odb
        self.repository.free()

    def _read(self, name: bytes, kind: ObjectType) -> bytes:
        """The raw bytes of an object. Raises Missing, or Unavailable where a missing alternate explains it."""
        oid = pygit2.Oid(raw=name)
        try:
            # of a packed one it is half as dear to find out its size as to read it: only blobs are worth that
            unsure = self._loose(name) or kind == ObjectType.BLOB
            if unsure and self._odb.read_header(oid)[1] > MAX_OBJECT_BYTES:
                raise OSError("larger than is read")
            found, data = self._odb.read(oid)
        except _FAILURES:
            self.lacked = True
            raise self._explain(name) from None
        if found != kind or _checksum(kind, data) != name:
            self.lacked = True
            raise Missing(name)
        return data

    def _header(self, name: bytes) -> tuple[int, int]:
        """What an object is and its size as it will be read. Raises as `_read`."""
        try:
            self._loose(name)
            return self._odb.read_header(pygit2.Oid(raw=name))
        except _FAILURES:
            self.lacked = True
            raise self._explain(name) from None

    def _loose(self, name: bytes) -> bool:
        """Whether a file of its own holds an object. Raises OSError of what libgit2 would wait for or not hold."""
        digits = name.hex()
        for folder in self._folders.get(digits[:2], ()):
            path = f"{folder}/{digits[2:]}"
            if os.access(path, os.F_OK):
                disk.check(path, MAX_OBJECT_BYTES)
                return True
        return False

    def peeled(self, name: bytes) -> CommitId | None:
        """The commit that an object is or, being a tag, leads to. Raises as `_read` where it cannot be read."""
        for _ in range(MAX_TAGS):
            kind, _ = self._header(name)
            if kind == ObjectType.COMMIT:
                self.header(CommitId(name))
                return CommitId(name)
            tagged = _TAGGED.match(self._read(name, ObjectType.TAG)) if kind == ObjectType.TAG else None
            if tagged is None:
                return None
            name = _id(tagged[1])
        return None

    def expanded(self, digits: str) -> bytes:
        """The object whose id begins so. Raises one of `_FAILURES` where there is none or more than one."""
        return self.repository.expand_id(digits).raw

    def commit(self, name: CommitId) -> bytes:
        return self._read(name, ObjectType.COMMIT)

    def header(self, name: CommitId) -> Header:
        try:
            return parse_header(self.commit(name))
        except ValueError:
            self.lacked = True
            raise Missing(name) from None

    def tree_bytes(self, name: bytes) -> bytes:
        return self._read(name, ObjectType.TREE)

    def tree(self, name: bytes) -> list[tuple[bytes, bytes, bytes]]:
        """(mode, name, id) of every entry, in the order written."""
        entries = _TREE_ENTRY.findall(self.tree_bytes(name))
        if {mode for mode, _, _ in entries} <= _MODES:
            return entries
        return [(usual_mode(mode), entry, identity) for mode, entry, identity in entries if mode]

    def blob(self, name: BlobId) -> bytes:
        return self._read(name, ObjectType.BLOB)

    def size(self, name: BlobId) -> int:
        """A blob's length, without reading it; Missing is raised for what is none."""
        kind, size = self._header(name)
        if kind != ObjectType.BLOB:
            self.lacked = True
            raise Missing(name)
        return size


_TAGGED = re.compile(rb"object ([0-9a-f]{40})\n")
_KIND_NAMES = {
    ObjectType.COMMIT: b"commit",
    ObjectType.TREE: b"tree",
    ObjectType.BLOB: b"blob",
    ObjectType.TAG: b"tag",
}


def _checksum(kind: ObjectType, data: bytes) -> bytes:
    header = b"%s %d\0" % (_KIND_NAMES[kind], len(data))
    return hashlib.sha1(header + data, usedforsecurity=False).digest()


def parse_header(data: bytes) -> Header:
    """The header of a raw commit. Its time is the number behind the last `>`; 0, as to git, where there is none.

    Raises ValueError for what names no tree or parent. Parents past a thousand are left out.
    """
    head = _HEAD.match(data)
    if head is None:
        raise ValueError("no commit")
    parents = head[2][: MAX_PARENTS * 48].split()[1::2]
    end = data.find(b"\n\n", head.end() - 1)
    time = _COMMITTER_TIME.search(data, head.end() - 1, len(data) if end < 0 else end + 1)
    seconds = max(-MAX_TIME, min(MAX_TIME, int(time[1]))) if time else 0
    return Header(_id(head[1]), tuple(CommitId(_id(parent)) for parent in parents), seconds)


def _id(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode("ascii"))


def diff_hunks(old: bytes, new: bytes) -> list[tuple[int, int, int, int, bytes]]:
    """(old start, old lines, new start, new lines, text) of every hunk between two texts, three lines of context.

    From bytes alone, so that no attribute and no configuration has a say.
    """
    patch = pygit2.Patch.create_from(old, new, context_lines=3, interhunk_lines=0)
    return [
        (
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            b"".join(_SIGNS.get(line.origin, b"") + line.raw_content for line in hunk.lines),
        )
        for hunk in patch.hunks
    ]


_SIGNS = {" ": b" ", "+": b"+", "-": b"-"}


# --- the repository --------------------------------------------------------------------------------------------


class Repository:
    """One git repository, read only.

    `root` is the working tree's root as it was typed: absolute, its links not resolved; None where it is bare.
    `git_dir` is this working tree's own git directory, `common_dir` the one all of its working trees share.
    `store` may be set to a place where facts about files on disk survive the process.
    """

    def __init__(self, root: str | None, git_dir: str, common_dir: str, ref: str | None, max_file_bytes: int) -> None:
        self.root = root
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.ref = ref
        self.max_file_bytes = max_file_bytes
        self.store: KeyValues | None = None
        self._lacking = False
        self.refs = Refs(git_dir, common_dir)
        self._own_objects = os.path.join(common_dir, "objects")
        self._config_files: tuple[str, ...] = ()
        self._borrowed: tuple[object, tuple[str, ...]] = (None, ())
        self._boundary: tuple[object, frozenset[CommitId]] = (None, frozenset())
        self._lock = threading.Lock()
        self._stock: list[Objects] = []
        self._stock_stamp: object = None
        self._tree_lock = threading.Lock()
        self._trees: OrderedDict[CommitId, tuple[Snapshot, object]] = OrderedDict()
        self._sizes: dict[BlobId, int] = {}
        self._scan_lock = threading.Lock()
        self._index: tuple[bytes, Tracked] = (b"", Tracked(frozenset(), frozenset(), frozenset(), {}))
        self._index_note: str | None = None
        self._seen: tuple[object, Snapshot, object] = (None, Snapshot({}), None)
        self._working = None if root is None else WorkingTree(root, max_file_bytes)

    @classmethod
    def open(cls, path: str, *, ref: str | None = None, max_file_bytes: int = MAX_FILE_BYTES) -> Repository:
        """The repository that encloses an absolute path.

        Raises Unavailable (`not_a_repository`, `foreign_owner`, `unsupported_format`, `unreadable_repository`) with
        the remedy in its message, and BadRequest (`invalid_revision`) for a `ref` that names no commit.
        """
        folder, found = _discover(path)
        config_files = _look_before_opening(found, path)
        handle = _open(found, path)
        workdir = _working_tree_of(folder, found)
        root = None if workdir is None else _as_typed(path, workdir.rstrip("/") or "/")
        git_dir = handle.path.rstrip("/")
        repository = cls(root, git_dir, _common_dir(git_dir), None, max_file_bytes)
        repository._config_files = config_files
        if ref is not None:
            repository.ref = repository._served(ref)
        return repository

    @property
    def bare(self) -> bool:
        return self.root is None

    # --- revisions

    def head(self) -> CommitId | None:
        """The tip of what is served: the chosen ref's commit, else HEAD's; None before the first commit."""
        if self.ref is not None:
            return self.resolve(self.ref)
        try:
            ref, name = self.refs.resolve("HEAD")
        except BadRef as error:
            raise Unavailable(f"HEAD of {self.git_dir} cannot be read: {error}", reason="invalid_head") from None
        if ref == "HEAD" and name is None:
            raise _not_there(self.git_dir)
        with self.objects() as objects, suppress(Missing):
            return None if name is None else objects.peeled(name)
        return None

    def head_name(self) -> str:
        """What `head` follows: a full ref name, or a commit id where HEAD is detached or a commit was chosen."""
        if self.ref is not None:
            return self.ref
        try:
            target = self.refs.read("HEAD")
        except BadRef:
            return "HEAD"
        return target.hex() if isinstance(target, bytes) else target or "HEAD"

    def resolve(self, revision: str) -> CommitId:
        """The commit of `HEAD`, a full ref name, a tag, a branch, or at least seven digits of a commit id.

        Nothing else is a revision here: no reflog, no date, no search, no `^` or `~`. Tags are peeled.
        Raises BadRequest (`invalid_revision`).
        """
        with self.objects() as objects:
            name = self._ref_name(revision)
            found = None
            with suppress(Missing, BadRef, *_FAILURES):
                if name is not None:
                    object_id = self.refs.resolve(name)[1]
                elif _HEX.fullmatch(revision):
                    object_id = objects.expanded(revision.lower())
                else:
                    object_id = None
                found = None if object_id is None else objects.peeled(object_id)
        if found is None:
            raise BadRequest(
                f"{_shown(revision)} names no commit here: give a branch, a tag, a full ref name "
                "or at least seven digits of a commit id",
                reason="invalid_revision",
            )
        return found

    def _ref_name(self, revision: str) -> str | None:
        """The full name of the ref a revision means; None where it means none (a commit id maybe)."""
        if len(revision) == 40 and _HEX.fullmatch(revision):
            return None  # as git: forty digits are an id, whatever a branch is called
        names = ["HEAD"] if revision == "HEAD" else [revision] if revision.startswith("refs/") else []
        names = names or [f"refs/{kind}/{revision}" for kind in ("tags", "heads", "remotes")]
        for name in names:
            with suppress(BadRef, ValueError):
                if (
                    pygit2.reference_is_valid_name(name)
                    and not revision.startswith("-")
                    and self.refs.read(name) is not None
                ):
                    return name
        return None

    def _served(self, ref: str) -> str:
        """The full name of a chosen ref, so that it keeps its meaning; a commit id stays one."""
        return self._ref_name(ref) or self.resolve(ref).hex()

    # --- objects

    @contextmanager
    def objects(self) -> Iterator[Objects]:
        """Lend an object database out for a `with` block."""
        stamp = self._packs(), tuple(map(disk.state, (self._own_objects, *self._config_files)))
        with self._lock:
            if stamp != self._stock_stamp:
                self._empty_stock()
                self._stock_stamp = stamp
            lent = self._stock.pop() if self._stock else None
        if lent is None:
            lent = self._opened(stamp)
        lent.lacked = False
        try:
            yield lent
        finally:
            with self._lock:
                if lent.stamp == self._stock_stamp:
                    self._stock.append(lent)
                else:
                    lent.close()

    def _opened(self, stamp: object) -> Objects:
        self._config_files = _look_before_opening(self.git_dir, self.git_dir)
        places = (self._own_objects, *self._alternates())
        return Objects(_open(self.git_dir, self.git_dir), stamp, places, self._why_missing)

    def release(self) -> None:
        """Let go of every file of the repository that is held open between queries."""
        with self._lock:
            self._empty_stock()

    def _empty_stock(self) -> None:
        while self._stock:
            self._stock.pop().close()

    def blob(self, name: BlobId) -> bytes | None:
        """A blob's bytes; None where it is not there (`promised` may say why)."""
        with self.objects() as objects, suppress(Missing):
            return objects.blob(name)
        return None

    def blobs(self, names: list[BlobId]) -> dict[BlobId, bytes]:
        """Those of the blobs that are there."""
        found: dict[BlobId, bytes] = {}
        with self.objects() as objects:
            for name in names:
                with suppress(Missing):
                    found[name] = objects.blob(name)
        return found

    def reached(self, wanted: Set[BlobId]) -> set[BlobId]:
        """Those of the blobs that the history of some ref or working tree holds, as far as it is here.

        Takes as long as reading all trees of all history, unless they are all found before.
        """
        with self.objects() as objects:
            here = {name for name in wanted if pygit2.Oid(raw=name) in objects.repository.odb}
            left, seen, pending = set[bytes](here), set[bytes](), self._tips(objects)
            while pending and left:
                commit = pending.pop()
                if commit not in seen:
                    seen.add(commit)
                    with suppress(Missing):
                        header = objects.header(commit)
                        pending += header.parents
                        _cross_off(objects, header.tree, left, seen)
        return {name for name in here if name not in left}

    def _tips(self, objects: Objects) -> list[CommitId]:
        """The commits that refs lead to, and the HEADs of this working tree and of those beside it."""
        beside = os.path.join(self.common_dir, "worktrees")
        folders = [os.path.join(beside, name) for name in os.listdir(beside)] if os.path.isdir(beside) else []
        heads = [(Refs(folder, self.common_dir), "HEAD") for folder in (self.git_dir, self.common_dir, *folders)]
        tips = []
        for refs, name in (*heads, *((self.refs, name) for name in sorted(self.refs.under("refs/")))):
            with suppress(BadRef, Missing):
                target = refs.resolve(name)[1]
                commit = None if target is None else objects.peeled(target)
                tips += [] if commit is None else [commit]
        return tips

    def has(self, name: bytes) -> bool:
        with self.objects() as objects:
            return pygit2.Oid(raw=name) in objects.repository.odb

    @property
    def promised(self) -> bool:
        """Whether this is a partial clone: what is missing may still be got, by git and on the user's word."""
        with self.objects() as objects:
            if "extensions.partialclone" in objects.config:
                return True
            return any(e.name.endswith(".promisor") and e.value == "true" for e in objects.config)

    def _why_missing(self, name: bytes) -> Exception:
        disk.check_means(_WINDOW)
        self._lacking = True
        return self._out_of_reach() or Missing(name)

    def _out_of_reach(self) -> Unavailable | None:
        """Why objects may be missing though nothing is lost: what they were borrowed from is not there now."""
        gone = [path for path in self._alternates() if not os.path.isdir(path)]
        if not gone:
            return None
        return Unavailable(
            f"objects of this repository live in {gone[0]}, which is not there: "
            f"put it back or run `git repack -a` where it is",
            reason="object_store_unavailable",
        )

    def _alternates(self) -> tuple[str, ...]:
        """Object directories this repository borrows from, theirs too; read again when their lists change."""
        state, found = self._borrowed
        if state is None or state != _listed(self._own_objects, found):
            found = tuple(_borrowed_from(self._own_objects))
            self._borrowed = (_listed(self._own_objects, found), found)
        return found

    def _packs(self) -> object:
        """Changes when packs come or go, here or in an alternate."""
        return tuple(disk.state(path + "/pack") for path in (self._own_objects, *self._alternates()))

    # --- snapshots

    def tree(self, commit: CommitId, deadline: float | None = None) -> Snapshot:
        """The files of a commit's tree; a path whose object is not there is skipped as `missing_object`.

        Raises Missing where the commit or its root tree is not there, and Late.
        """
        with in_time(self._tree_lock, deadline):  # one at a time: the next one may find it here
            known, state = self._trees.get(commit, (None, None))
            if known is None or (state is not None and state != self.state()):
                state = self.state()
                with self.objects() as objects:
                    known = self._read_tree(objects, commit, deadline)
                self._trees[commit] = known, state if "missing_object" in known.skipped else None
                while len(self._trees) > 8:
                    self._trees.popitem(last=False)
            self._trees.move_to_end(commit)
            return known

    def _read_tree(self, objects: Objects, commit: CommitId, deadline: float | None) -> Snapshot:
        entries: dict[Path, Entry] = {}
        skipped: dict[str, list[Path]] = {}
        for path, mode, name in _leaves(objects, objects.header(commit).tree, skipped, deadline=deadline):
            reason = self._unserved(objects, mode, name)
            if reason is None:
                entries[path] = Entry(name, mode == EXECUTABLE)
            else:
                skipped.setdefault(reason, []).append(path)
        return Snapshot(entries, commit=commit, skipped=_frozen(skipped))

    def _unserved(self, objects: Objects, mode: bytes, name: BlobId) -> str | None:
        if mode in (LINK, GITLINK):
            return "symlink" if mode == LINK else "submodule"
        size = self._sizes.get(name)
        if size is None:
            try:
                size = objects.size(name)
            except Missing:
                return "missing_object"
            if len(self._sizes) > 500_000:
                self._sizes.clear()
            self._sizes[name] = size
        return "oversize" if size > self.max_file_bytes else None

    def working_tree(self, deadline: float | None = None) -> Snapshot:
        """The files on disk as they are now: tracked, and untracked but not ignored.

        At the deadline those found so far. Raises Unavailable (`bare`) where there is no working tree, and Late.
        """
        if self._working is None:
            raise Unavailable("a bare repository has no working tree", reason="bare")
        commit = self._head_in_reach()
        try:
            at_head = None if commit is None else self._at_head(commit, deadline)
            with in_time(self._scan_lock, deadline):
                names = self._tracked(at_head, deadline)
                scan = self._working.scan(names, self._excludes(), self.blob, self.store, deadline)
                of = commit, id(at_head), id(names), id(scan)
                if self._seen[0] != of:
                    self._seen = of, _beside(commit, at_head, names, scan), (at_head, names, scan)
                return self._seen[1]
        except Late:
            found = self._working.so_far()
            if not found:
                raise
            return Snapshot(found, head_commit=commit, partial=True)

    def _head_in_reach(self) -> CommitId | None:
        """None also where its objects are out of reach: the files on disk are here all the same."""
        try:
            return self.head()
        except Unavailable as error:
            if error.reason != "object_store_unavailable":
                raise
            return None

    def _at_head(self, commit: CommitId, deadline: float | None) -> Snapshot | None:
        try:
            return self.tree(commit, deadline)
        except Missing:
            return None

    def _tracked(self, at_head: Snapshot | None, deadline: float | None) -> Tracked:
        """The names in the index; HEAD's where the index is in a form that is not read here."""
        try:
            data = self._index_bytes()
            if self._index[0] == data:
                return self._index[1]
            names = self._with_absent_trees(read_index(data, deadline), deadline) if data else tracked({}, [])
            if names == self._index[1]:
                names = self._index[1]  # the same object again, so that directories need not be judged again
            self._index = (data, names)
            self._index_note = None
        except (UnreadableIndex, OSError) as error:
            self._index_note = f"the index cannot be read ({error}): tracked files are those of HEAD"
            entries = {} if at_head is None else {path: entry.blob for path, entry in at_head.entries.items()}
            names = tracked(entries, () if at_head is None else at_head.skipped.get("submodule", ()))
        return names

    def _index_bytes(self) -> bytes:
        try:
            return disk.read(os.path.join(self.git_dir, "index"), MAX_INDEX_BYTES)[0]
        except FileNotFoundError:
            return b""

    def _with_absent_trees(self, names: Tracked, deadline: float | None) -> Tracked:
        """A sparse index names whole directories it leaves out; their files take their places."""
        if not names.absent_trees:
            return names
        leaves: list[tuple[Path, bytes, BlobId]] = []
        with self.objects() as objects:
            for prefix, tree in names.absent_trees:
                with suppress(Missing):  # never fetched by a partial clone
                    leaves += _leaves(objects, tree, {}, prefix, deadline)
        absent = {**names.absent, **{path: blob for path, mode, blob in leaves if mode not in (LINK, GITLINK)}}
        return replace(names, files=names.files | frozenset(absent), absent=absent, absent_trees=())

    def _excludes(self) -> Excludes:
        """What is ignored everywhere: `info/exclude`, then the user's own file."""
        with self.objects() as objects:
            ignore_case = _config_bool(objects.config, "core.ignorecase")
            named = _config_text(objects.config, "core.excludesfile")
        own = _users_own_ignores() if named is None else _expanded(named, self.root)
        paths = [os.path.join(self.common_dir, "info", "exclude"), *([own] if own else [])]
        return Excludes(tuple((path, ignore_rules(path)) for path in paths), ignore_case)

    def read(self, snapshot: Snapshot, path: Path) -> bytes | None:
        """Exactly the bytes whose id the snapshot gives for a path; None where they are not to be had any more."""
        entry = snapshot.entries.get(path)
        if entry is None:
            return None
        if snapshot.commit is not None:
            return self.blob(entry.blob)
        data = None if self.root is None else read_inside(self.root, path, self.max_file_bytes)
        if data is None or _checksum(ObjectType.BLOB, data) != entry.blob:
            return None
        return data

    def state(self) -> object:
        """Changes when objects may be here that were not: some came or went, a shallow clone was deepened."""
        loose = [disk.state(f"{self._own_objects}/{first:02x}") for first in range(256)] if self._lacking else None
        return self._packs(), self.shallow(), loose

    # --- what is unusual about it

    def shallow(self) -> frozenset[CommitId]:
        """Commits whose parents a shallow clone has cut off."""
        path = os.path.join(self.common_dir, "shallow")
        state = disk.state(path)
        if state is None or state != self._boundary[0]:
            try:
                lines = disk.read(path, MAX_SHALLOW_BYTES)[0].split()
            except OSError:
                lines = []
            self._boundary = state, frozenset(CommitId(_id(line)) for line in lines if _FULL_HEX.fullmatch(line))
        return self._boundary[1]

    def notes(self) -> list[str]:
        """What a reader of an answer should know about this repository, in fixed order."""
        notes: list[str] = []
        if self.shallow():
            notes.append("shallow clone: history before its boundary is not here")
        if self.promised:
            notes.append("partial clone: objects that were never fetched are left out")
        replaced = self._count_replacements()
        if replaced:
            notes.append(f"{replaced} replace refs are ignored, as with git --no-replace-objects")
        if os.path.exists(os.path.join(self.common_dir, "info", "grafts")):
            notes.append("grafts in info/grafts are ignored")
        notes += [
            f"borrowed objects are out of reach: {path}" for path in self._alternates() if not os.path.isdir(path)
        ]
        if self._index_note:
            notes.append(self._index_note)
        if self._working is not None:
            notes += self._working.notes
        return notes

    def _count_replacements(self) -> int:
        with suppress(BadRef):
            return len(self.refs.under("refs/replace/"))
        return 0


def _beside(commit: CommitId | None, at_head: Snapshot | None, names: Tracked, scan: Scan) -> Snapshot:
    """The files of a scan as a snapshot beside HEAD's tree."""
    sparse = {path: blob for path, blob in sorted(names.absent.items()) if path not in scan.entries}
    skipped = dict(scan.skipped)
    if sparse:
        skipped["not_checked_out"] = tuple(sparse)
    head = None if at_head is None else {path: entry.blob for path, entry in at_head.entries.items()}
    return Snapshot(scan.entries, head=head, head_commit=commit, skipped=skipped, sparse=sparse)


def _frozen(skipped: Mapping[str, list[Path]]) -> dict[str, tuple[Path, ...]]:
    return {reason: tuple(sorted(paths)) for reason, paths in sorted(skipped.items())}


def _leaves(
    objects: Objects,
    tree: bytes,
    skipped: dict[str, list[Path]],
    prefix: bytes = b"",
    deadline: float | None = None,
) -> Iterator[tuple[Path, bytes, BlobId]]:
    """(path, mode, id) below a tree, in path order. A missing subtree is noted; a missing root raises Missing."""
    stack = [_places(objects.tree(tree), prefix)]
    opened = {tree}
    count = again = 0
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
            continue
        path, mode, name = item
        count += 1
        if not count % 256:
            check(deadline)
        if count > MAX_TREE_ENTRIES or again > MAX_REPEATED_ENTRIES:
            skipped.setdefault("too_many", []).append(path)
            return
        if len(path) > MAX_PATH_BYTES:
            skipped.setdefault("path_too_long", []).append(Path(path[:MAX_PATH_BYTES]))
        elif mode != TREE:
            yield path, mode, BlobId(name)
        else:
            try:
                entries = objects.tree(name)
                again += len(entries) if name in opened else 0
                opened.add(name)
                stack.append(_places(entries, path + b"/"))
            except Missing:
                skipped.setdefault("missing_object", []).append(path)


def _cross_off(objects: Objects, tree: bytes, left: set[bytes], seen: set[bytes]) -> None:
    """Takes from `left` what is in a tree, but for what is in trees `seen` before."""
    pending = [tree]
    while pending and left:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            with suppress(Missing):
                for mode, _, entry in objects.tree(name):
                    if mode == TREE:
                        pending.append(entry)
                    else:
                        left.discard(entry)


def _places(entries: list[tuple[bytes, bytes, bytes]], prefix: bytes) -> Iterator[tuple[Path, bytes, bytes]]:
    for mode, name, identity in entries:
        if b"/" not in name and name not in NO_NAMES:
            yield Path(prefix + name), mode, identity


NO_NAMES = frozenset((b".", b"..", b".git"))
"""git refuses trees with these names; here they name nothing."""


def _borrowed_from(objects: str) -> list[str]:
    """The object directories that one borrows from, and those that they borrow from, each once."""
    found: list[str] = []
    pending = [objects]
    while pending and len(found) < MAX_ALTERNATES:
        directory = pending.pop()
        with suppress(OSError):
            for line in disk.read(os.path.join(directory, "info", "alternates"))[0].split(b"\n")[:MAX_ALTERNATES]:
                path = os.path.normpath(os.path.join(directory, os.fsdecode(line)))
                if line and b"\0" not in line and not line.startswith(b"#") and path not in found:
                    found.append(path)
                    pending.append(path)
    return found


def _listed(objects: str, alternates: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(disk.state(path + "/info/alternates") for path in (objects, *alternates))


# --- opening ---------------------------------------------------------------------------------------------------


def _discover(path: str) -> tuple[str, str]:
    """The folder where the repository around a path is found, and its git directory. As git: not across devices."""
    with suppress(OSError):
        folder = os.path.realpath(path, strict=True)
        device = os.stat(folder).st_dev
        while os.stat(folder).st_dev == device:
            for found in (_git_dir_of(os.path.join(folder, ".git"), path), folder):
                if found is not None and _is_git_dir(found):
                    return folder, found
            if folder == (folder := os.path.dirname(folder)):
                break
    raise Unavailable(
        f"no git repository at {path} or above it: give a path inside one with -C, or run `git init`",
        reason="not_a_repository",
    )


def _git_dir_of(dot_git: str, shown: str) -> str | None:
    """What a `.git` is, or where it leads; None where it is neither a folder nor a file."""
    if not os.path.isfile(dot_git):
        return dot_git
    try:
        data = disk.read(dot_git)[0]
    except OSError as error:
        raise _unreadable(shown, str(error)) from None
    target = os.fsdecode(data.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    return os.path.normpath(os.path.join(os.path.dirname(dot_git), target)) if data.startswith(b"gitdir: ") else None


def _is_git_dir(path: str) -> bool:
    common = _common_dir(path)
    places = (os.path.join(path, "HEAD"), os.path.join(common, "objects"), os.path.join(common, "refs"))
    return all(map(os.path.lexists, places))


_READ_AT_OPENING = {
    "HEAD": disk.SMALL,
    "commondir": disk.SMALL,
    "gitdir": disk.SMALL,
    "shallow": MAX_SHALLOW_BYTES,
    "info/grafts": MAX_SHALLOW_BYTES,
}


def _look_before_opening(git_dir: str, shown: str) -> tuple[str, ...]:
    """The files of settings that libgit2 will read. It waits for pipes and takes in files of any size: not these.

    Raises Unavailable (`unreadable_repository`).
    """
    try:
        common = _common_dir(git_dir)
        for name, most in _READ_AT_OPENING.items():
            disk.check(os.path.join(git_dir, name), most)
            disk.check(os.path.join(common, name), most)
        own = os.path.join(common, "objects")
        for objects in (own, *_borrowed_from(own)):
            disk.check(os.path.join(objects, "info", "alternates"))
            _look_at_packs(os.path.join(objects, "pack"))
        return tuple(_settings(git_dir, common))
    except OSError as error:
        raise _unreadable(shown, str(error)) from None


def _look_at_packs(folder: str) -> None:
    try:
        with os.scandir(folder) as names:
            for item in names:
                if not item.is_file() and not item.is_dir():
                    raise disk.NotAFile(f"{item.path} is not a file")
    except (FileNotFoundError, NotADirectoryError):
        pass


def _settings(git_dir: str, common: str) -> Iterator[str]:
    """Every file of settings, those they include too, looked at before libgit2 reads it. Raises OSError."""
    pending = [os.path.join(common, "config"), os.path.join(git_dir, "config.worktree")]
    for level, name in _USERS_SETTINGS.items():
        pending += [os.path.join(folder, name) for folder in pygit2.settings.search_path[level].split(os.pathsep)]
    for count, path in enumerate(pending):
        if count > MAX_SETTINGS:
            raise disk.TooLarge(f"{pending[0]} includes too many files")
        yield path
        try:
            data = disk.read(path)[0]
        except FileNotFoundError:
            continue
        pending += _included(path, data)


_USERS_SETTINGS = {ConfigLevel.GLOBAL: ".gitconfig", ConfigLevel.XDG: "config", ConfigLevel.SYSTEM: "gitconfig"}
_INCLUDE = re.compile(rb"^[^\n]*?\bpath[ \t]*=[ \t]*([^\n]*)", re.IGNORECASE | re.MULTILINE)


def _included(path: str, data: bytes) -> Iterator[str]:
    """What a file of settings may include, whatever the conditions: too many rather than too few."""
    if b"include" not in data.lower():
        return
    for line in _INCLUDE.findall(data.replace(b"\\\r\n", b"").replace(b"\\\n", b"")):
        for value in {line, re.split(rb"[#;]", line)[0]}:
            named = os.fsdecode(re.sub(rb'\\(.)|"', rb"\1", value).strip())
            if named and "\0" not in named and (found := _expanded(named, os.path.dirname(path))) is not None:
                yield found


def _open(git_dir: str, shown: str) -> pygit2.Repository:
    try:
        return pygit2.Repository(git_dir, RepositoryOpenFlag.NO_SEARCH)
    except _FAILURES as error:
        raise _refusal(git_dir, shown, str(error)) from None


def _working_tree_of(folder: str, git_dir: str) -> str | None:
    """The root of the working tree of the repository found in a folder; None where there is none.

    A git directory may lie anywhere and does not know who points at it: asked alone, libgit2 takes the folder
    around it, with whatever lies there, for its working tree.
    """
    with suppress(*_FAILURES):
        handle = pygit2.Repository(folder, RepositoryOpenFlag.NO_SEARCH)
        root = None if handle.workdir is None else str(handle.workdir)
        if root is None or "core.worktree" in handle.config:
            return root
        owned = _git_dir_of(os.path.join(root, ".git"), root)
        return root if owned is not None and os.path.samefile(owned, git_dir) else None
    return None


def _refusal(git_dir: str, shown: str, said: str) -> Unavailable:
    if "not owned" in said:
        return _foreign_owner(git_dir)
    if re.search(r"unsupported|object format|extension", said):
        return Unavailable(
            f"the repository at {shown} is in a format that is not served ({said}): "
            "sha1 repositories with files for refs are",
            reason="unsupported_format",
        )
    if _foreign(git_dir):
        return _foreign_owner(git_dir)
    if not os.path.isdir(git_dir):
        return _not_there(shown)
    return _unreadable(shown, said)


def _not_there(shown: str) -> Unavailable:
    return Unavailable(f"the repository at {shown} is not there any more", reason="not_a_repository")


def _unreadable(shown: str, said: str) -> Unavailable:
    return Unavailable(f"the repository at {shown} cannot be opened: {said}", reason="unreadable_repository")


def _foreign_owner(git_dir: str) -> Unavailable:
    top = os.path.dirname(git_dir.rstrip("/")) if git_dir.rstrip("/").endswith("/.git") else git_dir
    return Unavailable(
        f"the repository at {top} belongs to another user: if you trust it, run "
        f"`git config --global --add safe.directory {top}`",
        reason="foreign_owner",
    )


def _foreign(git_dir: str) -> bool:
    if not hasattr(os, "geteuid"):
        return False
    with suppress(OSError):
        return os.stat(git_dir).st_uid != os.geteuid()
    return False


def _as_typed(path: str, root: str) -> str:
    """The spelling of a root that the typed path starts with, where there is one; else the resolved one."""
    typed = os.path.abspath(path)
    while True:
        with suppress(OSError):
            if os.path.samefile(typed, root):
                return typed
        above = os.path.dirname(typed)
        if above == typed:
            return root
        typed = above


def _common_dir(git_dir: str) -> str:
    try:
        named = disk.read(os.path.join(git_dir, "commondir"))[0].rstrip(b"\r\n")
    except OSError:
        return git_dir
    return os.path.normpath(os.path.join(git_dir, os.fsdecode(named)))


# --- revisions -------------------------------------------------------------------------------------------------

_HEX = re.compile(r"[0-9a-fA-F]{7,40}")
_FULL_HEX = re.compile(rb"[0-9a-f]{40}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


# --- configuration ---------------------------------------------------------------------------------------------


def _config_bool(config: pygit2.Config, name: str) -> bool:
    with suppress(KeyError, ValueError, pygit2.GitError):
        return config.get_bool(name)
    return False


def _config_text(config: pygit2.Config, name: str) -> str | None:
    with suppress(KeyError, ValueError, pygit2.GitError):
        return str(config[name])
    return None


def _users_own_ignores() -> str | None:
    with suppress(*_FAILURES):
        directory = pygit2.settings.search_path[ConfigLevel.XDG].split(os.pathsep)[0]
        return os.path.join(directory, "ignore") if directory else None
    return None


def _expanded(path: str, root: str | None) -> str | None:
    """A path as git configuration writes it: `~/` is the user's home, a relative one hangs on the root."""
    if path.startswith("~/"):
        with suppress(*_FAILURES):
            home = pygit2.settings.search_path[ConfigLevel.GLOBAL].split(os.pathsep)[0]
            return os.path.join(home, path[2:]) if home else None
        return None
    return os.path.join(root or "", path) if path else None
