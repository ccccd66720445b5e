"""Refs as they lie on disk: HEAD, loose files, `packed-refs`. One step at a time, with bounds.

libgit2's own reader would wait for a pipe in a ref's place and read whatever size it has. Names are text as the file
system gives it (odd bytes are surrogates). Nothing here looks at objects: what an id leads to is `repository`'s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from repo_provider import disk

MAX_STEPS = 5
"""Symbolic refs that follow on one another, as git has it."""
MAX_PACKED_BYTES = 256 << 20
MAX_LISTED = 10_000

_ID = re.compile(rb"[0-9a-f]{40}(?=\s|\Z)")
_OWN = re.compile(r"[A-Z_]+|refs/(?:bisect|worktree|rewritten)/.*", re.DOTALL)
"""Refs that every working tree has for itself."""


class BadRef(Exception):
    """A ref that is there and leads nowhere that can be told."""


class Refs:
    """The refs of one working tree. For any number of threads."""

    def __init__(self, git_dir: str, common_dir: str) -> None:
        self._git_dir = git_dir
        self._common_dir = common_dir
        self._packed: tuple[object, dict[str, bytes | None]] = (None, {})

    def resolve(self, name: str) -> tuple[str, bytes | None]:
        """The ref that a name leads to through symbolic ones, and its object id: None where there is none (yet).

        Raises BadRef.
        """
        for _ in range(MAX_STEPS + 1):
            target = self.read(name)
            if not isinstance(target, str):
                return name, target
            name = target
        raise BadRef(f"{name} is one of a loop of symbolic refs")

    def read(self, name: str) -> str | bytes | None:
        """What a ref says: another ref's name, or an object id of 20 bytes; None where it is not there.

        Raises BadRef.
        """
        if not _inside(name):
            raise BadRef(f"{name!r} is no name of a ref")
        path = os.path.join(self._git_dir if _OWN.fullmatch(name) else self._common_dir, name)
        linked = _linked(path)
        if linked is not None:
            return linked
        try:
            return _parsed(name, disk.read(path)[0])
        except (FileNotFoundError, NotADirectoryError):
            return self._in_packed(name)
        except OSError as error:
            if os.path.isdir(path):  # a folder of refs, maybe an empty one that was left behind
                return self._in_packed(name)
            raise BadRef(str(error)) from None

    def under(self, prefix: str) -> set[str]:
        """The names of refs that start with a prefix, the first ten thousand of either kind."""
        packed = re.findall(rb" (" + os.fsencode(prefix) + rb"[^\n]+)\n", self._packed_bytes())
        loose = _below(os.path.join(self._common_dir, prefix))
        return set(map(os.fsdecode, packed[:MAX_LISTED])) | {prefix + name for name in islice(loose, MAX_LISTED)}

    def _in_packed(self, name: str) -> bytes | None:
        state = disk.state(os.path.join(self._common_dir, "packed-refs"))
        of, known = self._packed
        if state != of or len(known) > MAX_LISTED:
            self._packed = state, known = state, {}
        if name not in known:
            packed = self._packed_bytes()
            at = packed.find(b" " + os.fsencode(name) + b"\n")
            found = _ID.fullmatch(packed, at - 40, at) if at >= 40 else None
            known[name] = bytes.fromhex(found[0].decode("ascii")) if found else None
        return known[name]

    def _packed_bytes(self) -> bytes:
        try:
            return disk.read(os.path.join(self._common_dir, "packed-refs"), MAX_PACKED_BYTES)[0]
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise BadRef(str(error)) from None


def _inside(name: str) -> bool:
    """Whether a name is one of the refs' folder, not a way out of it."""
    return name == "HEAD" or (
        name.startswith("refs/") and "\0" not in name and {"", ".", ".."}.isdisjoint(name.split("/"))
    )


def _linked(path: str) -> str | None:
    """The ref that a symbolic link means, as git once wrote HEAD."""
    try:
        target = os.readlink(path)
    except OSError:
        return None
    return target if target.startswith("refs/") and _inside(target) else None


def _parsed(name: str, data: bytes) -> str | bytes:
    if data.startswith(b"ref:"):
        target = os.fsdecode(data[4:].strip())
        if _inside(target):
            return target
    elif (found := _ID.match(data)) is not None:
        return bytes.fromhex(found[0].decode("ascii"))
    raise BadRef(f"{name} holds neither an object id nor the name of a ref")


def _below(folder: str) -> Iterator[str]:
    for above, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(above, name), folder)
