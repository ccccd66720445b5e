"""Bytes of files that somebody else put there: regular files only, never waited for, never more than were asked for.

In a repository anything may lie in a file's place: a pipe that nobody writes to, a device without an end, a file
larger than memory, a link to any of them. `read` is how the package reads all of it, but for objects; `check` looks
at what libgit2 is about to read itself, which waits and takes any size.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat

from repo_provider.errors import Unavailable

SMALL = 1 << 20
"""Bytes of what is written by hand or by git in a line or two: settings, ignore rules, one ref."""


class NotAFile(OSError):
    """A folder, a pipe, a socket or a device lies in a file's place."""


class TooLarge(OSError):
    """A file is longer than what its reader takes."""


_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def read(
    path: str | bytes, most: int = SMALL, *, folder: int | None = None, follow: bool = True
) -> tuple[bytes, os.stat_result]:
    """A regular file's bytes, all of them, and its state before they were read.

    `path` hangs on the descriptor of a `folder` where one is given. Raises OSError: NotAFile, TooLarge, and what the
    system says, of a link too where it is not to be followed. Raises Unavailable as `refused` has it.
    """
    try:
        descriptor = os.open(path, _READ | (0 if follow else _NO_LINK), dir_fd=folder)
    except OSError as error:
        raise refused(error) from None
    except ValueError as error:  # a zero byte in the path, which somebody else wrote down
        raise FileNotFoundError(str(error)) from None
    try:
        status = os.fstat(descriptor)
        _check(status, path, most)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(min(status.st_size, most) + 1)
            data += file.read(most + 1 - len(data)) if len(data) > status.st_size else b""  # it grew meanwhile
        if len(data) > most:
            raise TooLarge(_told(path, f"is larger than {most} bytes"))
        return data, status
    finally:
        os.close(descriptor)


_SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN))


def refused(error: OSError) -> Exception:
    """What to raise for a file that could not be opened: Unavailable where it was not the file's doing.

    A process that may open no more files knows nothing of those there are, and an answer that went without them would
    pass for a whole one.
    """
    if error.errno in _SHORT:
        return Unavailable(f"the system gives no more files or memory for now: {error.strerror}", reason="exhausted")
    return error


def check_means(size: int) -> None:
    """That a file could be opened now, and so many bytes of it be mapped. Raises Unavailable."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise refused(error) from None


def check(path: str, most: int = SMALL) -> None:
    """That a file may be read by others: it is not there, or it is regular and not too large. Raises as `read`."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    _check(status, path, most)


def _check(status: os.stat_result, path: str | bytes, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotAFile(_told(path, "is not a file"))
    if status.st_size > most:
        raise TooLarge(_told(path, f"is larger than {most} bytes"))


def _told(path: str | bytes, fault: str) -> str:
    return f"{os.fsdecode(path)} {fault}"


def state(path: str) -> tuple[int, int, int, int] | None:
    """What differs where a file or a folder's list of names differs; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
