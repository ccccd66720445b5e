"""What a commit changed: two trees compared by id, equal subtrees never opened; and which files only moved.

Works on trees and blobs read through `repository.Objects`; knows neither lines nor instants. `history` and `commits`
call it. Only regular files are files here: a link or a submodule in a file's place means that the file is gone.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import Struct

from repo_provider.model import BlobId, Path, check
from repo_provider.repository import GITLINK, LINK, MAX_PATH_BYTES, NO_NAMES, TREE, Missing, Objects, usual_mode
from repo_provider.worktree import git_blob_id


class Change(Struct, frozen=True, array_like=True):
    """A path's file before and after; None where there was or is none."""

    path: Path
    before: BlobId | None
    after: BlobId | None


# --- trees -----------------------------------------------------------------------------------------------------

_ENTRY = re.compile(  # old tools wrote modes with leading zeros; what is no entry is one match without groups
    rb"(?:0*+(?=[1-7]))?+([0-7]++ [^\0]++\0.{20})|[^\0]*+\0.{0,20}|.++", re.DOTALL
)
MAX_CHANGES = 300_000
"""Names in which two trees may differ: a few bytes can make trees of trees of trees that differ in billions."""

_Entries: TypeAlias = frozenset[bytes]
Wanted: TypeAlias = Mapping[bytes, "Wanted | None"]
"""Names to look at, and below directories the names in them; None below a file's name."""


def wanted(paths: Iterable[Path]) -> Wanted:
    """The paths as a tree of names. A name may be wanted as a file and hold wanted ones as a directory."""
    top: dict[bytes, Wanted | None] = {}
    for path in paths:
        *above, name = path.split(b"/")
        here = top
        for part in above:
            below = here.get(part)
            if below is None:
                below = here[part] = {}
            here = cast("dict[bytes, Wanted | None]", below)
        here.setdefault(name, None)
    return top


class Differ:
    """Compares trees, remembering the last few it read: along a line every tree is read as new and as old."""

    def __init__(self, objects: Objects, deadline: float | None = None) -> None:
        self.objects = objects
        self.deadline = deadline
        self._known: OrderedDict[bytes, _Entries] = OrderedDict()

    def changes(self, before: bytes | None, after: bytes | None, only: Wanted | None = None) -> Iterator[Change]:
        """Every file that differs, in no order. `only` restricts the look; None stands for no tree at all.

        Raises Missing where a tree that has to be opened is not there or they differ in more than `MAX_CHANGES`
        names, and Late.
        """
        count = 0
        pending: list[tuple[bytes | None, bytes | None, bytes, Wanted | None]] = [(before, after, b"", only)]
        while pending:
            old, new, prefix, names = pending.pop()
            if old == new:
                continue
            was, now = self._entries(old), self._entries(new)
            gone, come = _by_name(was - now), _by_name(now - was)
            looked_at = gone.keys() | come.keys()
            count += len(looked_at)
            if count > MAX_CHANGES or len(prefix) > MAX_PATH_BYTES:
                raise Missing(old or new or b"")
            if not count % 16:
                check(self.deadline)
            for name in looked_at - NO_NAMES if names is None else looked_at & names.keys():
                if b"/" in name:
                    continue
                old_mode, old_id = gone.get(name, _NOTHING)
                new_mode, new_id = come.get(name, _NOTHING)
                old_tree, new_tree = old_id if old_mode == TREE else None, new_id if new_mode == TREE else None
                if old_tree or new_tree:
                    below = None if names is None else names[name]
                    if names is None or below is not None:
                        pending.append((old_tree, new_tree, prefix + name + b"/", below))
                old_file, new_file = _file(old_mode, old_id), _file(new_mode, new_id)
                if old_file != new_file:
                    yield Change(Path(prefix + name), old_file, new_file)

    def _entries(self, tree: bytes | None) -> _Entries:
        if tree is None:
            return frozenset()
        known = self._known.get(tree)
        if known is None:
            known = self._known[tree] = frozenset(filter(None, _ENTRY.findall(self.objects.tree_bytes(tree))))
            if len(self._known) > 256:
                self._known.popitem(last=False)
        return known


_NOTHING = (b"", None)


def _by_name(entries: Iterable[bytes]) -> dict[bytes, tuple[bytes, bytes]]:
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for entry in sorted(entries):  # of two of one name always the same one
        mode, _, rest = entry.partition(b" ")
        found[rest[:-21]] = usual_mode(mode), rest[-20:]
    return found


def _file(mode: bytes, identity: bytes | None) -> BlobId | None:
    return None if identity is None or mode in (TREE, LINK, GITLINK) else BlobId(identity)


def file_at(objects: Objects, tree: bytes, path: Path) -> BlobId | None:
    """The regular file at a path of a tree. Raises Missing where a tree on the way is not there."""
    *above, name = path.split(b"/")
    for part in above:
        below = next((identity for mode, entry, identity in objects.tree(tree) if entry == part and mode == TREE), None)
        if below is None:
            return None
        tree = below
    return next((_file(mode, identity) for mode, entry, identity in objects.tree(tree) if entry == name), None)


# --- renames ---------------------------------------------------------------------------------------------------

_EMPTY = git_blob_id(b"")
_MOST_PAIRS = 40_000
_LARGEST = 1 << 20
_ENOUGH = 0.5


def renames(changes: Sequence[Change], objects: Objects | None, deadline: float | None = None) -> dict[Path, Path]:
    """New path -> old path: pairs of the same bytes first, then, given `objects`, the most alike above one half.

    Like C git: what two files share, counted in bytes of equal lines, over the size of the larger one; one old path
    has one new path; among equals the same file name wins, then path order. Empty files did not move from anywhere.
    Raises Late.
    """
    gone = {change.path: change.before for change in changes if change.after is None and change.before != _EMPTY}
    come = {change.path: change.after for change in changes if change.before is None and change.after != _EMPTY}
    places: dict[BlobId | None, list[Path]] = {}
    for path, blob in gone.items():
        places.setdefault(blob, []).append(path)
    pairs = _paired((0.0, old, new) for new, blob in come.items() for old in places.get(blob, ()))
    if objects is None:
        return pairs
    left = {path: blob for path, blob in gone.items() if path not in set(pairs.values()) and blob is not None}
    right = {path: blob for path, blob in come.items() if path not in pairs and blob is not None}
    if not left or not right:
        return pairs
    return {**pairs, **_paired(_alike(left, right, objects, deadline))}


def _paired(candidates: Iterable[tuple[float, Path, Path]]) -> dict[Path, Path]:
    """Best first, each path once. A candidate is (unlikeness, old, new)."""
    pairs: dict[Path, Path] = {}
    used: set[Path] = set()
    for _, _, old, new in sorted((unlike, _name(old) != _name(new), old, new) for unlike, old, new in candidates):
        if new not in pairs and old not in used:
            pairs[new] = old
            used.add(old)
    return pairs


def _name(path: Path) -> bytes:
    return path.rpartition(b"/")[2]


def _alike(
    left: Mapping[Path, BlobId], right: Mapping[Path, BlobId], objects: Objects, deadline: float | None
) -> Iterator[tuple[float, Path, Path]]:
    same_name_only = len(left) * len(right) > _MOST_PAIRS
    lines: dict[BlobId, tuple[int, Counter[bytes]] | None] = {}
    for blob in {*left.values(), *right.values()} if not same_name_only else ():
        check(deadline)
        lines[blob] = _lines(objects, blob)
    for old, was in left.items():
        check(deadline)
        for new, blob in right.items():
            if same_name_only:
                if _name(old) != _name(new):
                    continue
                for each in (was, blob):
                    if each not in lines:
                        lines[each] = _lines(objects, each)
            alike = _likeness(lines[was], lines[blob])
            if alike >= _ENOUGH:
                yield -alike, old, new


def _lines(objects: Objects, blob: BlobId) -> tuple[int, Counter[bytes]] | None:
    """Size and lines of a blob; None for one that is not there or too large to be worth it."""
    try:
        if objects.size(blob) > _LARGEST:
            return None
        data = objects.blob(blob)
    except Missing:
        return None
    return len(data), Counter(data.split(b"\n"))


def _likeness(one: tuple[int, Counter[bytes]] | None, other: tuple[int, Counter[bytes]] | None) -> float:
    if one is None or other is None:
        return 0.0
    larger, smaller = max(one[0], other[0]), min(one[0], other[0])
    if smaller < larger * _ENOUGH:
        return 0.0
    counts, others = one[1], other[1]
    if len(counts) > len(others):
        counts, others = others, counts
    shared = sum((len(line) + 1) * min(count, others[line]) for line, count in counts.items() if line in others)
    return min(1.0, shared / larger)
