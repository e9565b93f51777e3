"""The memory workers of a bot with an extractor and a consolidator that only record, and a store that is empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.memory_consolidating import Consolidations
from bot.memory_counting import MemoryCounting
from bot.memory_workers import MemoryWorkers
from memory.consolidation.due import StagingBacklog
from memory.consolidation.outcome import Result
from memory.consolidation.past import Past
from memory.extract import RunResult, Session
from memory.store_view import StoreView
from memory.triggers import Backlog
from telemetry.events import TraceRef
from telemetry.memory_events import MemoryCounted, MemoryReason, MemoryRunNotDue, MemoryStatus, MemoryTrigger, MemoryWorker
from telemetry.troubles import Troubles
from tests.bot.ground import FakeClock, RecordingEmit

LINK = TraceRef("a" * 32, "b" * 16)
MANY, FEW, NONE = Backlog(turns=20, entries=40), Backlog(turns=1, entries=2), Backlog()
FULL, SOME, EMPTY = (StagingBacklog(candidates=n, fresh=n, bytes=n, oldest_seconds=60.0 * bool(n)) for n in (10, 2, 0))


class OneAtATime:
    """Both fakes hold it while they run: two at once are a failure of the test."""

    def __init__(self) -> None:
        self.running = ""

    def begin(self, who: str) -> None:
        assert not self.running, f"{who} runs while {self.running} does"
        self.running = who

    def end(self) -> None:
        self.running = ""


class Extracting:
    """`drained` tells of each drain as it begins; one of a session in `stuck` does not end by itself; one in `stages` stages something."""

    def __init__(self, one: OneAtATime) -> None:
        self._one = one
        self.recovered = 0
        self.known: list[Session] = []
        self.backlogs: dict[str, Backlog] = {}
        self.drained: asyncio.Queue[tuple[str, MemoryTrigger, TraceRef | None]] = asyncio.Queue()
        self.stuck: set[str] = set()
        self._go_on = asyncio.Event()
        self.stages: set[str] = set()
        self.when_staged: Callable[[], None] = lambda: None
        self.cancelled: list[tuple[Any, ...]] = []
        self.looked_at: list[str] = []

    def sessions(self) -> Sequence[Session]:
        return self.known

    def backlog(self, session: Session) -> Backlog:
        self.looked_at.append(session.id)
        return self.backlogs.get(session.id, NONE)

    def recover(self) -> Sequence[RunResult]:
        self.recovered += 1
        return []

    async def drain(self, session: Session, trigger: MemoryTrigger, *, link: TraceRef | None = None) -> Sequence[RunResult]:
        assert self.recovered == 1, "before recovery"
        self.drained.put_nowait((session.id, trigger, link))
        self._one.begin("extract")
        try:
            if session.id in self.stuck:
                await self._go_on.wait()
            if session.id == "broken":
                raise RuntimeError("a defect")
        except asyncio.CancelledError as e:
            self.cancelled.append(e.args)
            raise
        finally:
            self._one.end()
        self.backlogs.pop(session.id, None)
        staged, reason = (("c1",), MemoryReason.CANDIDATES_FOUND) if session.id in self.stages else ((), MemoryReason.NO_CANDIDATES)
        if staged:
            self.when_staged()
        return [RunResult(run_id="r", status=MemoryStatus.COMPLETED, reason=reason, session_id=session.id, staged_ids=staged)]

    def let_go(self) -> None:
        self.stuck.clear()
        self._go_on.set()

    async def next(self) -> tuple[str, MemoryTrigger, TraceRef | None]:
        async with asyncio.timeout(5):
            return await self.drained.get()


class Consolidating:
    """`drained` tells of each drain as it begins; while `stuck` it does not end by itself."""

    def __init__(self, one: OneAtATime) -> None:
        self._one = one
        self.waiting, self.history = EMPTY, Past()
        self.drained: asyncio.Queue[tuple[MemoryTrigger, TraceRef | None]] = asyncio.Queue()
        self.stuck = False
        self.goes_on: Callable[[], bool] = lambda: True
        self._go_on = asyncio.Event()
        self.cancelled: list[tuple[Any, ...]] = []
        self.skipped: list[tuple[MemoryTrigger, MemoryReason]] = []
        self.looked_after = 0
        self.checks = 0

    def look_after(self) -> Sequence[Result]:
        self.looked_after += 1
        return []

    def backlog(self) -> StagingBacklog:
        self.checks += 1
        return self.waiting

    def past(self) -> Past:
        return self.history

    def skip(self, trigger: MemoryTrigger, reason: MemoryReason) -> Result:
        self.skipped.append((trigger, reason))
        return Result(run_id="", status=MemoryStatus.SKIPPED, reason=reason)

    async def drain(
        self, trigger: MemoryTrigger, *, link: TraceRef | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> Sequence[Result]:
        self.drained.put_nowait((trigger, link))
        self.goes_on = go_on
        self._one.begin("consolidation")
        try:
            if self.stuck:
                await self._go_on.wait()
        except asyncio.CancelledError as e:
            self.cancelled.append(e.args)
            raise
        finally:
            self._one.end()
        self.waiting = EMPTY
        return [Result(run_id="c", status=MemoryStatus.COMPLETED, reason=MemoryReason.RECORDS_UPDATED)]

    def let_go(self) -> None:
        self.stuck = False
        self._go_on.set()

    async def next(self) -> tuple[MemoryTrigger, TraceRef | None]:
        async with asyncio.timeout(5):
            return await self.drained.get()


@dataclass
class Records:
    view_of: StoreView

    def view(self) -> StoreView:
        return self.view_of


class Ground:
    """`options`: of the workers; `consolidates`, `recovered`: of consolidation."""

    def __init__(self, *, consolidates: bool = True, recovered: bool = False, **options: Any) -> None:
        one = OneAtATime()
        self.extract, self.consolidator, self.clock, self.emit = Extracting(one), Consolidating(one), FakeClock(), RecordingEmit()
        self.records, self.troubles = Records(StoreView(stored={})), Troubles()
        consolidations = Consolidations(
            self.consolidator,
            look_after=self.consolidator.look_after,
            clock=self.clock,
            emit=self.emit,
            unasked=consolidates,
            recovered=recovered,
        )
        counting = MemoryCounting(self.records, self.extract, self.consolidator, clock=self.clock, emit=self.emit, troubles=self.troubles)
        options = {"look_seconds": 60.0, "drain_seconds": 5.0, **options}
        self.workers = MemoryWorkers(
            self.extract, consolidations, counting, folder=Path("/sessions"), clock=self.clock, emit=self.emit, **options
        )

    def session(self, id: str, backlog: Backlog = NONE) -> Session:
        self.extract.backlogs[id] = backlog
        return Session(id=id, route="main", log=Path("/sessions/main") / f"{id}.jsonl")

    def not_due(self, worker: MemoryWorker = MemoryWorker.EXTRACT) -> int:
        return sum(isinstance(fact, MemoryRunNotDue) and fact.worker is worker for fact in self.emit.facts)

    @property
    def counted(self) -> list[MemoryCounted]:
        return [fact for fact in self.emit.facts if isinstance(fact, MemoryCounted)]

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not happened():
                await asyncio.sleep(0.001)

    async def after_looks(self, number: int = 2) -> None:
        """So many looks more have been made, each a while after the one before."""
        for _ in range(number):
            before, self.clock.at = self.consolidator.checks, self.clock.at + 60.0
            await self.until(lambda: self.consolidator.checks > before)  # noqa: B023 - awaited before the next round
