"""When extract runs inside a running bot: after turns, at the end of a session, when it is idle, at start, when asked.

What must stay true: nobody who answers waits for any of it: `turn_ended` and `session_ended` only note, one task does the
rest, one run at a time; dead runs are ended before anything else; a session waits for at most one run, and what asked for
it first is its trigger; leaving takes `DRAIN_SECONDS` at most, and what was not read then is read at the next start.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from bot.ports import Clock
from memory.extract import RunResult, Session
from memory.triggers import Backlog, Thresholds, due
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import MemoryReason, MemoryRunNotDue, MemoryTrigger, MemoryWorker

DRAIN_SECONDS = 10.0  # at the end: two or three short runs; a long one is cut, and nothing is lost by it
USUAL = Thresholds()
LOOK_SECONDS = 30.0  # how often it is looked for sessions that have gone idle


class Extracting(Protocol):
    """What is needed of `memory.extract.Extractor`."""

    def sessions(self) -> Sequence[Session]: ...

    def backlog(self, session: Session) -> Backlog: ...

    def recover(self) -> Sequence[RunResult]: ...

    async def drain(self, session: Session, trigger: MemoryTrigger, *, link: TraceRef | None = None) -> Sequence[RunResult]: ...


@dataclass(frozen=True, slots=True)
class _Due:
    session: Session
    trigger: MemoryTrigger
    link: TraceRef | None


@dataclass(slots=True)
class _Seen:
    """A session that spoke since the start. `at`: of the last turn, or of the last look after it. Clock.monotonic seconds."""

    session: Session
    link: TraceRef | None
    at: float
    to_check: bool = True


class MemoryWorkers:
    """An async context manager around `begin`. `folder`: where the session logs lie, a folder a session key.

    Not `unasked`: nothing runs but what a person asks for.
    """

    def __init__(
        self,
        extractor: Extracting,
        *,
        folder: Path,
        clock: Clock,
        emit: Emit,
        unasked: bool = True,
        thresholds: Thresholds = USUAL,
        look_seconds: float = LOOK_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._extractor, self._folder, self._clock, self._emit = extractor, folder, clock, emit
        self._unasked = unasked
        self._thresholds, self._look_seconds, self._drain_seconds = thresholds, look_seconds, drain_seconds
        self._seen: dict[str, _Seen] = {}
        self._due: dict[str, _Due] = {}  # by session id, in the order in which they came up
        self._wake = asyncio.Event()
        self._leaving = False
        self._one_at_a_time = asyncio.Lock()  # a worker takes as much memory as a session
        self._task: asyncio.Task[None] | None = None  # owned here, ended in `__aexit__`

    # -- what the bot tells; nothing here waits ------------------------------------------------------------------------
    def turn_ended(self, route: str, key: str, session_id: str) -> None:
        """After the answer stands in Slack; called in the context of the reply."""
        if session_id and self._unasked:
            self._seen[session_id] = _Seen(self._session(route, key, session_id), self._emit.current(), self._clock.monotonic())
            self._wake.set()

    def session_ended(self, route: str, key: str, session_id: str, link: TraceRef | None) -> None:
        """Its context was emptied or shrunk, whatever the cause. `link`: its last reply."""
        if session_id and self._unasked:
            self._want(self._session(route, key, session_id), MemoryTrigger.SESSION_END, link)

    def _session(self, route: str, key: str, session_id: str) -> Session:
        return Session(id=session_id, route=route, log=self._folder / key / f"{session_id}.jsonl")

    def _want(self, session: Session, trigger: MemoryTrigger, link: TraceRef | None) -> None:
        self._due.setdefault(session.id, _Due(session, trigger, link))
        self._wake.set()

    # -- what a person asks for ----------------------------------------------------------------------------------------
    async def extract_now(self) -> list[RunResult]:
        """Every session, to its end. Cancelled: the run under way is cancelled as its user's wish, and the rest is left."""
        task = asyncio.get_running_loop().create_task(self._extract_all())  # owned here, awaited below
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel(MemoryReason.USER_CANCELLED)
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def _extract_all(self) -> list[RunResult]:
        ended: list[RunResult] = []
        async with self._one_at_a_time:
            for session in await asyncio.to_thread(self._extractor.sessions):
                self._due.pop(session.id, None)
                ended += await self._extractor.drain(session, MemoryTrigger.MANUAL)
        return ended

    # -- life ----------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Once the bot listens: what an earlier process left is read after that, and holds up no start."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """What the sessions still hold is read as far as `drain_seconds` allows."""
        self._leaving = True
        for seen in self._seen.values():
            self._want(seen.session, MemoryTrigger.SESSION_END, seen.link)
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._drain_seconds)
            self._task.cancel(MemoryReason.INTERRUPTED)
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        await self._guarded(self._recover())
        while self._due or not self._leaving:
            if self._due:
                await self._guarded(self._next())
            else:
                await self._look()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """The boundary: extract ends its runs itself; whatever is raised beside that must not end the next one."""
        try:
            await work
        except Exception as e:  # noqa: BLE001 - see above
            print(f"insomnia: {type(e).__name__} around a memory run; the bot goes on", file=sys.stderr)
            traceback.print_tb(e.__traceback__, limit=-3)

    async def _recover(self) -> None:
        async with self._one_at_a_time:
            await asyncio.to_thread(self._extractor.recover)
        if not self._unasked:
            return
        for session in await asyncio.to_thread(self._extractor.sessions):
            if (await asyncio.to_thread(self._extractor.backlog, session)).entries:
                self._want(session, MemoryTrigger.STARTUP_RECOVERY, None)

    async def _next(self) -> None:
        wanted = self._due.pop(next(iter(self._due)))
        seen = self._seen.get(wanted.session.id)
        if self._leaving and wanted.trigger is MemoryTrigger.SESSION_END and not (await self._backlog(wanted.session)).entries:
            return  # nothing was asked for: the bot ends, and this session has been read
        async with self._one_at_a_time:
            await self._extractor.drain(wanted.session, wanted.trigger, link=wanted.link)
        if seen is not None:
            seen.at = self._clock.monotonic()

    # -- checks --------------------------------------------------------------------------------------------------------
    async def _look(self) -> None:
        """Waits until something is said, or for a while; then checks what there is to check."""
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        for seen in list(self._seen.values()):
            idle = self._clock.monotonic() - seen.at
            if seen.to_check or idle >= self._thresholds.idle_seconds:
                await self._guarded(self._check(seen, idle))

    async def _check(self, seen: _Seen, idle: float) -> None:
        after_turn, seen.to_check = seen.to_check, False
        trigger = due(await self._backlog(seen.session), idle_seconds=idle, thresholds=self._thresholds)
        if trigger is not None:
            self._want(seen.session, trigger, seen.link)
        elif after_turn:
            self._emit(MemoryRunNotDue(worker=MemoryWorker.EXTRACT, trigger=MemoryTrigger.TURN_THRESHOLD))
        elif self._seen.get(seen.session.id) is seen:  # else a turn came while it was looked
            del self._seen[seen.session.id]  # idle, and read to its end: the next turn brings it back

    async def _backlog(self, session: Session) -> Backlog:
        return await asyncio.to_thread(self._extractor.backlog, session)
