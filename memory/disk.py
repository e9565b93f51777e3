"""The few things that the workers' own files need of a disk, each of them one step that a process may die before or after.

What must stay true: a file that is seen under its name is whole and on the disk; a directory is published, with all that is
in it, by one rename. Directories 0700, files 0600. Nothing here follows a link in the last part of a path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TEMPORARY = ".tmp-"
MAX_STATE_BYTES = 256 * 1024  # of a file of ours; the largest is a candidate or a run's end, some KiB


# What is written below the memory's own folder.
FOLDERS = (
    "",
    "_staging",
    "_state",
    "_trash",
    *(f"_state/{name}" for name in ("attempts", "cursors", "locks", "quarantined", "runs")),
)


class NotOurs(OSError):
    """Something else stands where a folder of ours should. The text is ours, and names no place outside."""


class Disk:
    """Steps. All raise OSError."""

    def create(self, path: Path, content: bytes) -> None:
        """A new file, on the disk when this returns; FileExistsError if there is one."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Over a file, or onto a directory that is empty or not there; the new name is on the disk when this returns."""
        os.rename(source, target)
        self.sync(target.parent)

    def unlink(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            path.unlink()

    def rmdir(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            path.rmdir()

    def mkdir(self, path: Path) -> None:
        """With its parents. NotADirectoryError where a link or a file stands in its place."""
        if not path.parent.exists():
            self.mkdir(path.parent)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    def sync(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class OwnDisk(Disk):
    """Before each step it looks whether a folder on the way to it is a link by now; `memory`: `.insomnia/memory`. Raises NotOurs too."""

    def __init__(self, disk: Disk, memory: Path) -> None:
        self._disk, self._memory = disk, memory

    def create(self, path: Path, content: bytes) -> None:
        self._look(path)
        self._disk.create(path, content)

    def rename(self, source: Path, target: Path) -> None:
        self._look(source)
        self._look(target)
        self._disk.rename(source, target)

    def unlink(self, path: Path) -> None:
        self._look(path)
        self._disk.unlink(path)

    def rmdir(self, path: Path) -> None:
        self._look(path)
        self._disk.rmdir(path)

    def mkdir(self, path: Path) -> None:
        if not path.parent.exists():
            self.mkdir(path.parent)
        self._look(path)
        self._disk.mkdir(path)

    def sync(self, folder: Path) -> None:
        self._disk.sync(folder)

    def _look(self, path: Path) -> None:
        folders = list(path.relative_to(self._memory).parents)
        no_links(self._memory, [str(folder).removeprefix(".") for folder in reversed(folders)])


def no_links(memory: Path, folders: Sequence[str] = FOLDERS) -> None:
    """Raises NotOurs where a link or a file stands for one of them: what is written there would end up elsewhere."""
    for name in folders:
        folder = memory / name
        try:
            odd = not stat.S_ISDIR(folder.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if odd:
            told = f"memory/{name}".rstrip("/")
            raise NotOurs(f"{told} in .insomnia is a link or no directory; put a real directory there, or remove it")


def temporary_of(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY}{path.name}")


def replace(disk: Disk, path: Path, content: bytes) -> None:
    """Whole or not at all. Each file has one writer at a time, so what lies under the temporary name is a dead one's."""
    temporary = temporary_of(path)
    if temporary.exists():
        disk.unlink(temporary)
    try:
        disk.create(temporary, content)
        disk.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            disk.unlink(temporary)
        raise


def remove_folder(disk: Disk, folder: Path) -> None:
    """Of files only, as ours are."""
    for entry in sorted(folder.iterdir()):
        disk.unlink(entry)
    disk.rmdir(folder)


def read_small(path: Path, *, most: int = MAX_STATE_BYTES) -> bytes | None:
    """None: there is no such file. Raises OSError, also for what is no plain file or far too large to be ours (`most` bytes)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError(errno.EINVAL, "not a file of ours", str(path))
        return file.read()
