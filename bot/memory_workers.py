"""The memory workers inside a running bot: extract and consolidation, unasked and asked for, one run at a time.

What must stay true: nobody who answers waits for any of it: `turn_ended` and `session_ended` only note, one task does the rest;
dead runs are ended before anything else; what a person asks for comes next after what is under way; leaving takes `DRAIN_SECONDS`
at most, begins no consolidation, and what was not read then is read at the next start.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from bot.memory_consolidating import Consolidations
from bot.memory_counting import MemoryCounting
from bot.memory_extracting import USUAL, Extracting, Extractions
from bot.ports import Clock
from memory.consolidation.outcome import Result
from memory.extract import RunResult
from memory.triggers import Thresholds
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import MemoryReason

DRAIN_SECONDS = 10.0  # at the end: two or three short runs; a long one is cut, and nothing is lost by it
LOOK_SECONDS = 30.0  # how often it is looked for sessions that have gone idle, and for candidates that have waited long enough
T = TypeVar("T")


class MemoryWorkers:
    """An async context manager around `begin`. `folder`: where the session logs lie. Not `extracts`: only when a person asks for it."""

    def __init__(
        self,
        extractor: Extracting,
        consolidations: Consolidations,
        counting: MemoryCounting,
        *,
        folder: Path,
        clock: Clock,
        emit: Emit,
        extracts: bool = True,
        thresholds: Thresholds = USUAL,
        look_seconds: float = LOOK_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._wake = asyncio.Event()
        self._extractions = Extractions(
            extractor, folder=folder, clock=clock, emit=emit, wake=self._wake.set, unasked=extracts, thresholds=thresholds
        )
        self._consolidations, self._counting, self._clock = consolidations, counting, clock
        self._look_seconds, self._drain_seconds = look_seconds, drain_seconds
        self._looked_at = float("-inf")
        self._staged: list[TraceRef | None] = []  # what asked for the extract runs that brought candidates since the last check
        self._leaving = False
        self._one_at_a_time = asyncio.Lock()  # a worker takes as much memory as a session; whoever waits gets it in turn
        self._task: asyncio.Task[None] | None = None  # owned here, ended in `__aexit__`, as are those of people who asked
        self._asking: set[asyncio.Task[Any]] = set()

    # -- what the bot tells; nothing here waits ------------------------------------------------------------------------
    def turn_ended(self, route: str, key: str, session_id: str) -> None:
        """After the answer stands in Slack; called in the context of the reply."""
        self._consolidations.spoken()
        self._extractions.turn_ended(route, key, session_id)

    def session_ended(self, route: str, key: str, session_id: str, link: TraceRef | None) -> None:
        """Its context was emptied or shrunk, whatever the cause. `link`: its last reply."""
        self._extractions.session_ended(route, key, session_id, link)

    # -- what a person asks for ----------------------------------------------------------------------------------------
    async def extract_now(self) -> list[RunResult]:
        """Every session, to its end. Cancelled: the run under way is cancelled as its user's wish, and the rest is left."""
        return await self._asked(self._extract_all())

    async def consolidate_now(self) -> list[Result]:
        """Every candidate, as `extract_now`."""
        return await self._asked(self._consolidate_all())

    async def _asked(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.get_running_loop().create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel(MemoryReason.INTERRUPTED if self._leaving else MemoryReason.USER_CANCELLED)
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _extract_all(self) -> list[RunResult]:
        async with self._one_at_a_time:
            ended = await self._extractions.all()
        await self._extracted(ended, None)
        return ended

    async def _consolidate_all(self) -> list[Result]:
        async with self._one_at_a_time:
            ended = await self._consolidations.now()
        await self._guarded(self._counting.tell())
        return ended

    # -- life ----------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Once the bot listens: what an earlier process left is read after that, and holds up no start."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    def leave(self) -> None:
        """The bot ends, and all that still begins is to read what the sessions hold."""
        self._leaving = True
        self._consolidations.leave()
        self._extractions.leave()
        self._wake.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """What is under way, and what the sessions still hold, goes on as far as `drain_seconds` allow."""
        self.leave()
        tasks = [*([self._task] if self._task else []), *self._asking]
        if tasks:
            await asyncio.wait(tasks, timeout=self._drain_seconds)
        for task in tasks:
            task.cancel(MemoryReason.INTERRUPTED)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        await self._guarded(self._recover())
        while self._extractions.waiting or not self._leaving:
            if self._staged and not self._leaving:
                await self._guarded(self._consolidate())
            elif self._extractions.waiting:
                await self._guarded(self._extract())
            else:
                await self._look()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """The boundary: the workers end their runs themselves; whatever is raised beside that must not end the next one."""
        try:
            await work
        except Exception as e:  # noqa: BLE001 - see above
            print(f"insomnia: {type(e).__name__} around a memory run; the bot goes on", file=sys.stderr)
            traceback.print_tb(e.__traceback__, limit=-3)

    async def _recover(self) -> None:
        async with self._one_at_a_time:
            await self._extractions.recover()
            if not self._leaving:
                await self._consolidations.at_start()
        await self._counting.tell()

    async def _extract(self) -> None:
        async with self._one_at_a_time:
            ended, link = await self._extractions.next(leaving=self._leaving)
        await self._extracted(ended, link)

    async def _extracted(self, ended: Sequence[RunResult], link: TraceRef | None) -> None:
        if any(result.staged_ids for result in ended):
            self._staged.append(link)
            self._wake.set()
        if ended:
            self._counting.extracted(ended)
            await self._guarded(self._counting.tell())

    async def _consolidate(self) -> None:
        staged, self._staged = self._staged, []
        async with self._one_at_a_time:
            ended = await self._consolidations.if_due(staged=bool(staged), link=staged[-1] if staged else None)
        if ended:
            await self._counting.tell()

    async def _look(self) -> None:
        """Waits until something is said, or for a while; then checks what there is to check."""
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        for seen in self._extractions.to_check():
            await self._guarded(self._extractions.check(seen))
        if not self._leaving and self._clock.monotonic() - self._looked_at >= self._look_seconds:
            self._looked_at = self._clock.monotonic()
            await self._guarded(self._consolidate())
            await self._guarded(self._counting.tell())
