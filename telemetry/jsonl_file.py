"""One open log file, to which several processes append.

What must stay true: a line is one write, at the end of the file; it never continues what another process left half
written; nothing but a regular file of ours, reached through no symlink, is ever written to.

No lock between processes: a stopped process that held it would stop all the others. The kernel keeps appends apart. What
is left is the line that breaks off, by a kill in the middle of a write or a full disk. It is looked for before each write,
where somebody else has written since ours, and once more behind it, where the answer is certain.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

# A write of another process that is under way looks like a line that broke off; it is given this long to get to its end.
TRIES, PAUSE_SECONDS = 20, 0.001
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Replaced(OSError):
    """The file was unlinked, or another one has taken its name: it has to be opened anew."""


class AppendFile:
    def __init__(self, folder: Path, name: str) -> None:
        """Makes the folder (and the one above) where it is missing. Raises OSError."""
        self.path = folder / name
        self._fd = _open(folder, name)
        status = os.fstat(self._fd)
        self._id = (status.st_dev, status.st_ino)
        self._our_end = 0  # where our last line ended; unknown at first, and then nothing is there to be continued
        self._broken_at = -1  # a size at which the file is known to end in half a line

    def append(self, line: bytes) -> bool:
        """True: a line that had broken off stands before this one now, closed. Raises OSError; the line is then not there."""
        size = self._size()
        leading = size != self._our_end and self._ends_broken(size)
        start = self._write(b"\n" + line if leading else line)
        if start == size == self._our_end and not leading:
            self._our_end = start + len(line)
            return False
        broken = self._is_broken(start)
        if broken and not leading:
            self._write(line)  # it was swallowed by a line that broke off just before it
        self._our_end = os.lseek(self._fd, 0, os.SEEK_CUR)
        return broken

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _size(self) -> int:
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError as error:
            raise Replaced(errno.ENOENT, "unlinked", str(self.path)) from error
        if (status.st_dev, status.st_ino) != self._id:
            raise Replaced(errno.ESTALE, "replaced", str(self.path))
        return status.st_size

    def _write(self, data: bytes) -> int:
        """Where in the file it begins."""
        written = os.write(self._fd, data)
        end = os.lseek(self._fd, 0, os.SEEK_CUR)
        if written != len(data):
            self._broken_at = end
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written", str(self.path))
        return end - written

    def _ends_broken(self, size: int) -> bool:
        for _ in range(TRIES):
            if not self._is_broken(size):
                return False
            if size == self._broken_at:
                return True
            time.sleep(PAUSE_SECONDS)
            size = os.fstat(self._fd).st_size
        self._broken_at = size
        return True

    def _is_broken(self, end: int) -> bool:
        """Whether the file's first `end` bytes end within a line."""
        return end > 0 and os.pread(self._fd, 1, end - 1) not in (b"\n", b"")


def _open(folder: Path, name: str) -> int:
    within = _open_folder(folder)
    try:
        opened = os.open(name, _FLAGS, 0o600, dir_fd=within)
    finally:
        os.close(within)
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENOTSUP, "not a regular file", str(folder / name))
        if stat.S_IMODE(status.st_mode) != 0o600:
            os.fchmod(opened, 0o600)
    except OSError:
        os.close(opened)
        raise
    return opened


def _open_folder(folder: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(folder, flags)
    except FileNotFoundError:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return os.open(folder, flags)
