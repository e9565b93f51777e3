"""A file for each run that has not ended, and the locks that say whether its process lives.

What must stay true: whoever holds a lock knows that every run file behind it is dead; lock files are never unlinked, and
their content means nothing; a run file's name alone is enough to end its run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory.disk import FOLDERS, TEMPORARY, Disk, no_links, read_small, replace
from telemetry.memory_events import MemoryTrigger, MemoryWorker

FORMAT = 1
SESSION_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
RUNNING, FINISHING = "running", "finishing"


@dataclass(frozen=True, slots=True)
class RunKey:
    """What only one process may work on: a session for extract, everything for consolidation (`session_id` empty)."""

    worker: MemoryWorker
    session_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.worker}~{self.session_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """`state` FINISHING: `told` holds the end as it was, or will be, told. `about`: what the worker needs to judge its remains."""

    key: RunKey
    trigger: MemoryTrigger
    run_id: str
    state: str = RUNNING
    started_at: float = 0.0
    trace_id: str = ""
    span_id: str = ""
    model: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.key.name}~{self.trigger}~{self.run_id}.json"


class RunFiles:
    """`state`: `.insomnia/memory/_state`. All raise OSError."""

    def __init__(self, state: Path, *, disk: Disk) -> None:
        self._memory = state.parent
        self._locks, self._runs, self._disk = state / "locks", state / "runs", disk

    @contextmanager
    def locked(self, key: RunKey) -> Iterator[bool]:
        """False: another run has it, in whatever process. Raises NotOurs where a folder of the memory is a link."""
        no_links(self._memory)
        self._disk.mkdir(self._locks)
        fd = os.open(self._locks / f"{key.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

    def save(self, run: RunFile) -> None:
        """One that has done its work needs its own folder only."""
        no_links(self._memory, FOLDERS if run.state == RUNNING else ("", "_state", "_state/runs"))
        self._disk.mkdir(self._runs)
        about = {name: value for name, value in asdict(run).items() if name not in ("key", "trigger", "run_id")}
        replace(self._disk, self._runs / run.name, json.dumps({"v": FORMAT, **about}).encode())

    def remove(self, run: RunFile) -> None:
        self._disk.unlink(self._runs / run.name)

    def dead(self, key: RunKey) -> Sequence[RunFile]:
        """The caller holds the lock. Removes what dead processes left half written besides."""
        for left in self._runs.glob(f"{TEMPORARY}{key.name}~*.json") if self._runs.is_dir() else []:
            self._disk.unlink(left)
        return [run for run in self.all() if run.key == key]

    def keys(self) -> set[RunKey]:
        """Of every run that has not ended, dead or not, half written ones included."""
        paths = self._runs.glob("*.json") if self._runs.is_dir() else []
        return {known.key for path in paths if (known := _known(path.name.removeprefix(TEMPORARY)))}

    def all(self) -> Sequence[RunFile]:
        found = [_parse(path) for path in sorted(self._runs.glob("*.json"))] if self._runs.is_dir() else []
        return [run for run in found if run is not None]


def _known(name: str) -> RunFile | None:
    """What a name says; None: it is not one of ours."""
    try:
        worker, session_id, trigger, run_id = name.removesuffix(".json").split("~")
        return RunFile(key=RunKey(MemoryWorker(worker), session_id), trigger=MemoryTrigger(trigger), run_id=run_id)
    except ValueError:
        return None


def _parse(path: Path) -> RunFile | None:
    known = _known(path.name)
    if known is None:
        return None
    try:
        read = json.loads(read_small(path) or b"")
        if read.pop("v") != FORMAT or read["state"] not in (RUNNING, FINISHING) or not isinstance(read["about"], dict):
            return known
        run = RunFile(key=known.key, trigger=known.trigger, run_id=known.run_id, **read)
        words = (run.trace_id, run.span_id, run.model)
        whole = all(isinstance(word, str) for word in words) and isinstance(run.told, dict) and _is_time(run.started_at)
        return run if whole else known
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return known


def count_of(read: Mapping[str, Any], name: str) -> int:
    """A number that counts something. Raises ValueError for whatever else stands there."""
    value = read.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is no count")
    return value


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12  # type: ignore[operator]
