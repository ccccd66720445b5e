"""Real repositories for tests, built with pygit2: fixed names, fixed dates, nobody's configuration.

    made = make_repo([("2026-01-01", {"a.py": "x = 1\n"}), ("2026-01-02", {"a.py": None, "b.py": "x = 1\n"})])

A commit's files are changes to its parent's: text or bytes write a file, None deletes it, `Executable`, `Link` and
`Gitlink` say the rest. `raw_commit` writes any bytes as a commit object, for times no tool would write. Tests never
run git, but for those that compare with it: they use `git` (a scrubbed environment) under `needs_git`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pygit2
import pytest
from pygit2.enums import ConfigLevel, FileMode

from repo_provider.model import BlobId, CommitId

for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL, ConfigLevel.PROGRAMDATA):
    pygit2.settings.search_path[level] = ""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="C git is not installed: nothing to compare with")

NAME, EMAIL = "Ann Author", "ann@example.com"


class Executable(bytes):
    """Content of a 100755 file."""


class Link(str):
    """A symbolic link to this target."""


class Gitlink(str):
    """A submodule at this 40-digit commit id."""


Content: TypeAlias = str | bytes | Link | Gitlink | None
Files: TypeAlias = Mapping[str | bytes, Content]
When: TypeAlias = str | int
_Flat: TypeAlias = dict[bytes, tuple[int, pygit2.Oid]]


def seconds(when: When) -> int:
    """Seconds since the epoch of an integer, a date (its midnight, UTC) or an ISO timestamp."""
    if isinstance(when, int):
        return when
    moment = datetime.fromisoformat(when)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def blob_id(data: bytes) -> BlobId:
    return BlobId(pygit2.hash(data).raw)


class Made:
    """A repository under construction; `path` is its working tree (or the bare repository itself)."""

    def __init__(self, path: Path, *, bare: bool = False) -> None:
        self.path = path
        self.repo = pygit2.init_repository(str(path), bare=bare, initial_head="main")
        self.repo.config["core.autocrlf"] = False
        self.bare = bare
        self.commits: list[CommitId] = []

    def commit(
        self,
        when: When,
        files: Files,
        *,
        message: str = "",
        ref: str = "refs/heads/main",
        parents: Sequence[CommitId] | None = None,
        offset: int = 0,
        author: str = NAME,
    ) -> CommitId:
        """Commit changes on top of `parents` (default: the ref's tip) and check them out when the ref is HEAD's."""
        if parents is None:
            parents = [self.tip(ref)] if ref in self.repo.references else []
        base = self.flat(parents[0]) if parents else {}
        tree = self.tree(self._changed(base, files))
        stamp = f"{seconds(when)} {'-' if offset < 0 else '+'}{abs(offset) // 60:02}{abs(offset) % 60:02}"
        made = self.raw_commit(tree, parents, stamp, message or f"Commit {len(self.commits) + 1}\n", author=author)
        self.set_ref(ref, made)
        if not self.bare and self._is_head(ref):
            self.checkout(made)
        return made

    def raw_commit(
        self, tree: pygit2.Oid, parents: Sequence[CommitId], stamp: str, message: str | bytes, *, author: str = NAME
    ) -> CommitId:
        """Write a commit object whose author and committer lines end in exactly `stamp`; no ref moves."""
        text = message if isinstance(message, bytes) else message.encode()
        lines = [f"tree {tree}", *(f"parent {parent.hex()}" for parent in parents)]
        lines += [f"author {author} <{EMAIL}> {stamp}", f"committer {author} <{EMAIL}> {stamp}"]
        data = "\n".join(lines).encode() + b"\n\n" + text
        made = CommitId(self.repo.odb.write(pygit2.enums.ObjectType.COMMIT, data).raw)
        self.commits.append(made)
        return made

    def tip(self, ref: str = "refs/heads/main") -> CommitId:
        return CommitId(self.repo.references[ref].peel(pygit2.Commit).id.raw)

    def set_ref(self, ref: str, commit: CommitId) -> None:
        self.repo.references.create(ref, pygit2.Oid(raw=commit), force=True)

    def set_head(self, ref: str) -> None:
        """Switch branches: HEAD, the index and the files on disk."""
        self.repo.set_head(ref)
        self.checkout(self.tip(ref))

    def checkout(self, commit: CommitId) -> None:
        """Make the index and the tracked files those of a commit, byte for byte and with no filter."""
        for entry in list(self.repo.index):
            path = self.path / entry.path
            if path.is_file() or path.is_symlink():
                path.unlink()
        flat = self.flat(commit)
        for name, (mode, oid) in flat.items():
            self._place(os.fsencode(self.path) + b"/" + name, mode, oid)
        self.repo.index.read_tree(self.repo[pygit2.Oid(raw=commit)].peel(pygit2.Tree))
        self.repo.index.write()

    def write(self, path: str | bytes, data: str | bytes) -> None:
        """Put a file on disk, telling git nothing."""
        full = os.fsencode(self.path) + b"/" + _raw(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(_raw(data))

    def delete(self, path: str | bytes) -> None:
        os.unlink(os.fsencode(self.path) + b"/" + _raw(path))

    def add(self, *paths: str) -> None:
        """Stage files as `git add` does."""
        self.repo.index.read()
        for path in paths:
            self.repo.index.add(path)
        self.repo.index.write()

    def flat(self, commit: CommitId) -> _Flat:
        """The leaves of a commit's tree: path -> (mode, id)."""
        found: _Flat = {}

        def visit(tree: pygit2.Tree, prefix: bytes) -> None:
            for item in tree:
                name = prefix + (item.raw_name or b"")
                if isinstance(item, pygit2.Tree):
                    visit(item, name + b"/")
                else:
                    found[name] = (int(item.filemode), item.id)

        visit(self.repo[pygit2.Oid(raw=commit)].peel(pygit2.Tree), b"")
        return found

    def tree(self, flat: _Flat) -> pygit2.Oid:
        """Write the tree with these leaves."""
        items = {path: leaf for path, leaf in flat.items() if b"/" not in path}
        below: dict[bytes, _Flat] = {}
        for path, leaf in flat.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = leaf
        items |= {name: (FileMode.TREE, self.tree(leaves)) for name, leaves in below.items()}
        in_order = sorted(items, key=lambda name: name + b"/" if name in below else name)
        data = b"".join(b"%o %s\0%s" % (items[name][0], name, items[name][1].raw) for name in in_order)
        return self.repo.odb.write(pygit2.enums.ObjectType.TREE, data)

    def _changed(self, base: _Flat, files: Files) -> _Flat:
        flat = dict(base)
        for path, content in files.items():
            name = _raw(path)
            if content is None:
                del flat[name]
                continue
            parts = name.split(b"/")
            above = {b"/".join(parts[:count]) for count in range(1, len(parts))}
            flat = {old: leaf for old, leaf in flat.items() if old not in above and not old.startswith(name + b"/")}
            flat[name] = self._leaf(content)
        return flat

    def _leaf(self, content: str | bytes | Link | Gitlink) -> tuple[int, pygit2.Oid]:
        if isinstance(content, Gitlink):
            return FileMode.COMMIT, pygit2.Oid(hex=content)
        mode = {Executable: FileMode.BLOB_EXECUTABLE, Link: FileMode.LINK}.get(type(content), FileMode.BLOB)
        return mode, self.repo.create_blob(_raw(content))

    def _place(self, full: bytes, mode: int, oid: pygit2.Oid) -> None:
        if mode == FileMode.COMMIT:
            os.makedirs(full, exist_ok=True)
            return
        os.makedirs(os.path.dirname(full), exist_ok=True)
        data = self.repo[oid].peel(pygit2.Blob).data
        if mode == FileMode.LINK:
            os.symlink(data, full)
            return
        if os.path.isdir(full):
            shutil.rmtree(full)  # what a checkout left of a directory in this file's place
        with open(full, "wb") as file:
            file.write(data)
        os.chmod(full, 0o755 if mode == FileMode.BLOB_EXECUTABLE else 0o644)

    def _is_head(self, ref: str) -> bool:
        head = self.repo.lookup_reference("HEAD")
        return head.target == ref


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else os.fsencode(text)


def make_repo(commits: Sequence[tuple[When, Files]] = (), at: Path | None = None, *, bare: bool = False) -> Made:
    """A repository with these commits on `main`, in order; at a temporary place unless told where."""
    if at is None:
        parent = tempfile.mkdtemp(prefix="made-")
        atexit.register(shutil.rmtree, parent, ignore_errors=True)
        at = Path(parent) / "repo"
    made = Made(at, bare=bare)
    for when, files in commits:
        made.commit(when, files)
    return made


def git(where: Path | str, *arguments: str | bytes, stdin: bytes | None = None, **extra: str) -> bytes:
    """What C git prints, with no configuration but the repository's own."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": NAME,
        "GIT_AUTHOR_EMAIL": EMAIL,
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": EMAIL,
        "GIT_AUTHOR_DATE": "1767225600 +0000",
        "GIT_COMMITTER_DATE": "1767225600 +0000",
        "GIT_TERMINAL_PROMPT": "0",
        **extra,
    }
    command = [b"git", b"-c", b"protocol.file.allow=always", *(_raw(argument) for argument in arguments)]
    done = subprocess.run(command, cwd=where, env=environment, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
