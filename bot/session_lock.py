"""One owner per Claude session: an flock that the CLI process inherits, so it tells the truth after a SIGKILL of the bot.

An orphan works on for seconds after its bot was killed; a second process on the same id would silently lose turns. The
descriptor is passed to the child, and the lock is free only when the last process that holds it is gone. The file also
names the process group to end if the owner does not go by itself. Its content proves nothing; the lock does: a group is
only ever ended when one of its processes has this very file open.
"""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

from bot.ports import Clock, StartFailed

PATIENCE_SECONDS = 10.0  # an orphan finishes the turn it was killed in, measured at 8 s
STEP_SECONDS = 0.1
PROC = Path("/proc")  # where it is not there, nobody is ended


async def take_lock(path: Path, *, clock: Clock) -> int:
    """An inheritable, locked descriptor; the caller closes it. Raises StartFailed if the owner survives even SIGKILL."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as e:
        raise StartFailed(f"the lock {path} cannot be opened ({e.strerror})") from e
    try:
        if not await _wait(fd, PATIENCE_SECONDS, clock):
            _end_owner(fd)
            if not await _wait(fd, PATIENCE_SECONDS, clock):
                raise StartFailed(f"another process holds {path}; end it, or wait until it is gone")
        os.ftruncate(fd, 0)  # the owner before is gone: its number may be anybody's from now on
    except OSError as e:
        os.close(fd)
        raise StartFailed(f"{path} cannot be locked ({e.strerror})") from e
    except BaseException:
        os.close(fd)
        raise
    return fd


def end_holder(path: Path) -> None:
    """Ends the process group that the lock names, where one of its processes holds it; does not wait for it to be gone."""
    with suppress(OSError):  # no lock, or not ours
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _end_owner(fd)
        finally:
            os.close(fd)


def owned(path: Path) -> int | None:
    """A lock of this process alone, which no child inherits: its descriptor, or None where another process lives that has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


async def _wait(fd: int, seconds: float, clock: Clock) -> bool:
    deadline = clock.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock.monotonic() >= deadline:
                return False
        await clock.sleep(STEP_SECONDS)


def _end_owner(fd: int) -> None:
    recorded = os.pread(fd, 32, 0).strip()
    group = int(recorded) if recorded.isdigit() else 0
    # To the system, group 0 means our own, and group 1 means every process that we may end.
    if group > 1 and group != os.getpgrp() and _holds(group, fd):
        with suppress(ProcessLookupError, PermissionError):  # gone, or not ours: the wait that follows tells
            os.killpg(group, signal.SIGKILL)


def _holds(group: int, fd: int) -> bool:
    """Whether a process of the group has the lock's file open."""
    lock = os.fstat(fd)
    return any(
        os.path.samestat(lock, opened)
        for process in _numbered(PROC)
        if _group_of(int(process.name)) == group
        for opened in _opened(process / "fd")
    )


def _group_of(pid: int) -> int:
    with suppress(OSError):
        return os.getpgid(pid)
    return 0


def _opened(folder: Path) -> list[os.stat_result]:
    found = []
    for descriptor in _numbered(folder):
        with suppress(OSError):  # closed meanwhile
            found.append(descriptor.stat())
    return found


def _numbered(folder: Path) -> list[Path]:
    with suppress(OSError):  # gone, or not ours to look into
        return [entry for entry in folder.iterdir() if entry.name.isdigit()]
    return []


def note_owner(fd: int, process_group: int) -> None:
    os.pwrite(fd, f"{process_group}\n".ljust(32).encode(), 0)
