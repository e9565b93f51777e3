"""An append-only file of JSON lines that survives a kill at any byte: a torn last line is cut off when it is opened.

One process at a time holds the file (flock). The first line carries the version; a newer one than ours is refused.
A line is in the kernel's hands when `append` returns, which a kill of the process survives; a power cut may lose it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VERSION = 1
_HEADER = {"v": VERSION, "kind": "insomnia.slack"}


class JournalInUse(OSError):
    """Another process serves this folder."""


class JournalUnreadable(OSError):
    """The file was written by a newer version, or is damaged before its end."""


def create(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Writes a whole new journal; it is there completely or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(_lines(_HEADER, *records))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


class Journal:
    """`records` is what the file held when it was opened, without the header."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._lock()
            os.fchmod(self._fd, 0o600)
            self.records = self._read()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def append(self, *records: dict[str, Any]) -> None:
        """All of them or none: a disk that is full part-way leaves no torn line behind."""
        before, data = self.size, _lines(*records)
        if (written := os.write(self._fd, data)) < len(data):
            os.ftruncate(self._fd, before)
            raise OSError(f"{self._path}: only {written} of {len(data)} bytes could be written; is the disk full?")

    def reset(self) -> None:
        os.ftruncate(self._fd, 0)
        self.append(_HEADER)

    def close(self) -> None:
        os.close(self._fd)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalInUse(f"{self._path.parent} is served by another process; stop that one, or use another workspace") from error

    def _read(self) -> list[dict[str, Any]]:
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._fd, whole)
        records = [self._parse(number, line) for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1)]
        if not records:
            self.reset()
            return []
        if (version := records[0].get("v")) != VERSION:
            raise JournalUnreadable(
                f"{self._path}: format {version!r}, this version of Insomnia reads {VERSION}; update it, or move the file away"
            )
        return records[1:]

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise JournalUnreadable(f"{self._path}: line {number} is damaged; remove that line, or move the file away") from error
        if not isinstance(record, dict):
            raise JournalUnreadable(f"{self._path}: line {number} is not an object; remove that line, or move the file away")
        return record


def _lines(*records: dict[str, Any]) -> bytes:
    # surrogatepass: a lone surrogate that came in as a JSON escape must not stop the workspace
    return "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records).encode("utf-8", "surrogatepass")
