"""How the memory stands, counted for the gauges: what waits for either worker, what there is, when each last succeeded.

What must stay true: the loop waits for no file; a session log is read again only once it, or the cursor in it, has moved.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bot.memory_extracting import Extracting
from bot.ports import Clock
from memory.consolidation.due import StagingBacklog
from memory.consolidation.past import Past
from memory.extract import RunResult, Session
from memory.store import StoreBusy
from memory.store_view import StoreView
from telemetry.emit import Emit
from telemetry.memory_events import MemoryCounted, MemoryWorker, RecordKind
from telemetry.troubles import Troubles


class Viewed(Protocol):
    """What is needed of `memory.store.Store`. Raises OSError and StoreBusy."""

    def view(self) -> StoreView: ...


class Remembering(Protocol):
    """What is needed of `memory.consolidation.consolidator.Consolidator`."""

    def backlog(self) -> StagingBacklog: ...

    def past(self) -> Past: ...


class MemoryCounting:
    def __init__(
        self, store: Viewed, extractor: Extracting, consolidator: Remembering, *, clock: Clock, emit: Emit, troubles: Troubles
    ) -> None:
        self._store, self._extractor, self._consolidator = store, extractor, consolidator
        self._clock, self._emit, self._troubles = clock, emit, troubles
        self._extracted_at = 0.0  # since this process began
        self._unread: dict[Path, tuple[tuple[int, int], int]] = {}  # by log: its time and size, and what of it was unread then

    def extracted(self, ended: Sequence[RunResult]) -> None:
        if any(result.completed for result in ended):
            self._extracted_at = self._clock.now()
        moved = {result.session_id for result in ended}
        self._unread = {log: known for log, known in self._unread.items() if log.stem not in moved}

    async def tell(self) -> None:
        """Nothing where the records cannot be looked at: the gauges stay as they were."""
        try:
            counted = await asyncio.to_thread(self._count)
        except (OSError, StoreBusy) as error:
            self._troubles.say("memory count", f"the memory could not be counted: {type(error).__name__}")
        else:
            self._emit(counted)

    def _count(self) -> MemoryCounted:
        waiting, past = self._consolidator.backlog(), self._consolidator.past()
        last = {MemoryWorker.EXTRACT: self._extracted_at, MemoryWorker.CONSOLIDATION: past.succeeded}
        there = Counter(record.kind for record in self._store.view().records())
        return MemoryCounted(
            backlog=waiting.candidates,
            oldest_seconds=waiting.oldest_seconds,
            unextracted=sum(map(self._unread_of, self._extractor.sessions())),
            records={kind: there[kind] for kind in RecordKind},
            last_success={worker: at for worker, at in last.items() if at},
        )

    def _unread_of(self, session: Session) -> int:
        try:
            stat = session.log.stat()
        except FileNotFoundError:
            return 0  # removed since it was listed
        now = stat.st_mtime_ns, stat.st_size
        before, entries = self._unread.get(session.log, ((0, 0), 0))
        if before != now:
            entries = self._extractor.backlog(session).entries
            self._unread[session.log] = now, entries
        return entries
