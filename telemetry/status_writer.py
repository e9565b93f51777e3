"""Brings the latest status into its file, in a thread of its own.

What must stay true: whoever changes the status waits for nothing, whatever the disk does; the file is whole and its
owner's alone; one that can no longer be replaced is taken away rather than left to be believed, and comes back as soon as
writing works again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from telemetry.status_file import Status, dumps, write_private_atomic
from telemetry.troubles import Troubles

PAUSE_SECONDS = 0.5  # between two files: a status line is drawn every second or two, a busy bot changes all the time
RETRY_SECONDS = 5.0
CLOSE_SECONDS = 1.0  # a disk that hangs costs the last status, not the exit


class StatusWriter:
    """`status` is asked at each writing, from the writer's thread."""

    def __init__(self, path: Path, status: Callable[[], Status], *, troubles: Troubles | None = None) -> None:
        self._path, self._status = path, status
        self._troubles = troubles or Troubles()
        self._dirty, self._closing = threading.Event(), threading.Event()
        self._one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="telemetry-status", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        self._dirty.set()

    def write(self) -> bool:
        """Now. False: it could not be; that is said once on stderr."""
        with self._one_at_a_time:
            written = False
            with self._troubles.caught(f"writing {self._path}"):
                write_private_atomic(self._path, dumps(self._status()))
                written = True
            if not written:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            return written

    def close(self) -> None:
        """The last status is in the file, unless the disk is too slow for that."""
        self._closing.set()
        self._dirty.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            if self.write():
                self._closing.wait(PAUSE_SECONDS)
            else:
                self._closing.wait(RETRY_SECONDS)
                self._dirty.set()
        self.write()
