"""One owner per Claude session: an flock that the CLI process inherits, so it tells the truth after a SIGKILL of the bot.

An orphan works on for seconds after its bot was killed; a second process on the same id would silently lose turns. The
descriptor is passed to the child, and the lock is free only when the last process that holds it is gone. The file also
names the process group to end if the owner does not go by itself. Its content proves nothing; the lock does.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from bot.ports import Clock, StartFailed

PATIENCE_SECONDS = 10.0  # an orphan finishes the turn it was killed in, measured at 8 s
STEP_SECONDS = 0.1


async def take_lock(path: Path, *, clock: Clock) -> int:
    """An inheritable, locked descriptor; the caller closes it. Raises StartFailed if the owner survives even SIGKILL."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not await _wait(fd, PATIENCE_SECONDS, clock):
            _end_owner(fd)
            if not await _wait(fd, PATIENCE_SECONDS, clock):
                raise StartFailed(f"another process holds {path.name}; end it, or wait until it is gone")
    except BaseException:
        os.close(fd)
        raise
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
    if not recorded.isdigit():
        return
    try:
        os.killpg(int(recorded), signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # gone, or not ours: the wait that follows tells


def note_owner(fd: int, process_group: int) -> None:
    os.pwrite(fd, f"{process_group}\n".ljust(32).encode(), 0)
