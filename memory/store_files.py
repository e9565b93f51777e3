"""Files of the store, by directory descriptor and name, never by path.

What must stay true: nothing here follows a link, waits for a reader of a FIFO, or reads or replaces what is not a plain
file of one name; a write is whole, on the disk, and its owner's alone, or the old file stands as it was. What somebody saved
in the instant of an exchange is still to be found.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from memory.store_view import MAX_FILE_BYTES

TEMPORARY = ".tmp-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, since 3.15; Python has no name for the call
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotPlain(Exception):
    """In a record's place is something else; the text says what."""


@contextlib.contextmanager
def directory(root: Path, *names: str, make: bool = False) -> Iterator[int]:
    """A descriptor of `root`/names. Raises NotPlain where one of `names` is a link or no directory, FileNotFoundError."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if make:
                _make(name, at)
            try:
                deeper = os.open(name, _DIRECTORY, dir_fd=at)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise NotPlain(f"{name} is a link, or no directory") from error
                raise
            os.close(at)
            at = deeper
        yield at
    finally:
        os.close(at)


def _make(name: str, at: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
        os.fsync(at)


def read(at: int, name: str, *, limit: int | None = MAX_FILE_BYTES) -> bytes | None:
    """The content, at most one byte more than `limit` of it; None: there is no such file. Raises NotPlain, OSError."""
    try:
        descriptor = os.open(name, _READ, dir_fd=at)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise NotPlain("it is a link or a socket") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPlain("it is a directory, a FIFO or a device")
        if found.st_nlink > 1:
            raise NotPlain("it has a second name elsewhere (a hard link)")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read() if limit is None else file.read(limit + 1)
    finally:
        os.close(descriptor)


def write_temporary(at: int, content: bytes) -> str:
    """A synced file under a name of its own, to be renamed. Raises OSError and leaves nothing then."""
    name = f"{TEMPORARY}{secrets.token_hex(8)}"
    descriptor = os.open(name, _CREATE, 0o600, dir_fd=at)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        remove_quietly(at, name)
        raise
    return name


def replace(at: int, name: str, content: bytes) -> None:
    """Whole or not at all, whatever stood there. Raises OSError."""
    temporary = write_temporary(at, content)
    try:
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        remove_quietly(at, temporary)
        raise
    os.fsync(at)


def exchange(at: int, one: str, other: str) -> bool:
    """Each takes the other's name, in one step. False: the system, or this file system, cannot. Raises OSError."""
    if _RENAMEAT2 is None:
        return False
    if _RENAMEAT2(at, one.encode(), at, other.encode(), _EXCHANGE) == 0:
        return True
    error = ctypes.get_errno()
    if error in _CANNOT:
        return False
    raise OSError(error, os.strerror(error), other)


def remove_quietly(at: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=at)


def sweep(at: int) -> int:
    """Removes what dead writers left; how many. The caller holds the lock that every writer holds."""
    left = [name for name in os.listdir(at) if name.startswith(TEMPORARY) and _is_file(at, name)]
    for name in left:
        remove_quietly(at, name)
    return len(left)


def _is_file(at: int, name: str) -> bool:
    """Links count: the link goes, what it points to stays."""
    with contextlib.suppress(OSError):
        return not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    return False
