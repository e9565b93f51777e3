"""When consolidation runs inside a running bot: after an extract run that staged something, now and then, at start, when asked.

What must stay true: whether it is due is looked at with nothing else under way, right before it begins; before each run what a dead
one committed is finished and what people changed by hand is told, so that a run never passes off their edit as its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from bot.ports import Clock
from memory.consolidation.due import StagingBacklog, StagingThresholds, due
from memory.consolidation.outcome import Result
from memory.consolidation.past import Past
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import MemoryReason, MemoryRunNotDue, MemoryTrigger, MemoryWorker

USUAL = StagingThresholds()


class Consolidating(Protocol):
    """What is needed of `memory.consolidation.consolidator.Consolidator`."""

    def backlog(self) -> StagingBacklog: ...

    def past(self) -> Past: ...

    def skip(self, trigger: MemoryTrigger, reason: MemoryReason) -> Result: ...

    async def drain(
        self, trigger: MemoryTrigger, *, link: TraceRef | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> Sequence[Result]: ...


class Consolidations:
    """Whoever calls makes sure that no other memory run is under way. `look_after`: see `memory_parts.look_after_store`. `recovered`:
    at this start a dead run got its end.

    Not `unasked`: nothing runs but what a person asks for.
    """

    def __init__(
        self,
        consolidator: Consolidating,
        *,
        look_after: Callable[[], Sequence[Result]],
        clock: Clock,
        emit: Emit,
        unasked: bool = True,
        recovered: bool = False,
        thresholds: StagingThresholds = USUAL,
    ) -> None:
        self._consolidator, self._look_after, self._clock, self._emit = consolidator, look_after, clock, emit
        self._unasked, self._recovered, self._thresholds = unasked, recovered, thresholds
        self._spoken_at, self._left = clock.monotonic(), False

    def leave(self) -> None:
        """The bot ends: no further run begins."""
        self._left = True

    def spoken(self) -> None:
        """Somebody was answered just now."""
        self._spoken_at = self._clock.monotonic()

    async def at_start(self) -> Sequence[Result]:
        if not (self._unasked and self._recovered and (await asyncio.to_thread(self._consolidator.backlog)).candidates):
            return ()
        return await self._run(MemoryTrigger.STARTUP_RECOVERY, None)

    async def if_due(self, *, staged: bool, link: TraceRef | None = None) -> Sequence[Result]:
        """`staged`: an extract run has just brought candidates; `link`: the reply that asked for that run."""
        trigger = await self._due()
        if trigger is not None and self._unasked:
            return await self._run(trigger, link)
        if trigger is not None and staged:
            self._consolidator.skip(trigger, MemoryReason.DISABLED)
        elif staged:
            self._emit(MemoryRunNotDue(worker=MemoryWorker.CONSOLIDATION, trigger=MemoryTrigger.STAGING_BACKLOG))
        return ()

    async def now(self) -> list[Result]:
        """Until every candidate was looked at, as a person asks for it. With the ends of dead runs."""
        return [*await asyncio.to_thread(self._look_after), *await self._drain(MemoryTrigger.MANUAL, None)]

    async def _run(self, trigger: MemoryTrigger, link: TraceRef | None) -> Sequence[Result]:
        await asyncio.to_thread(self._look_after)
        return await self._drain(trigger, link)

    async def _drain(self, trigger: MemoryTrigger, link: TraceRef | None) -> Sequence[Result]:
        return () if self._left else await self._consolidator.drain(trigger, link=link, go_on=lambda: not self._left)

    async def _due(self) -> MemoryTrigger | None:
        backlog = await asyncio.to_thread(self._consolidator.backlog)
        past = await asyncio.to_thread(self._consolidator.past)
        return due(
            backlog,
            idle_seconds=self._clock.monotonic() - self._spoken_at,
            since_last=past.since_last(self._clock.now()),
            thresholds=self._thresholds,
        )
