"""Which sessions wait for extract, and what asked for each: a turn, the end of a session, its idleness, a start of the bot.

What must stay true: telling of a turn or of an end only notes; a session waits for at most one run, and what asked for it first is
its trigger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bot.ports import Clock
from memory.extract import RunResult, Session
from memory.triggers import Backlog, Thresholds, due
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import MemoryRunNotDue, MemoryTrigger, MemoryWorker

USUAL = Thresholds()


class Extracting(Protocol):
    """What is needed of `memory.extract.Extractor`."""

    def sessions(self) -> Sequence[Session]: ...

    def backlog(self, session: Session) -> Backlog: ...

    def recover(self) -> Sequence[RunResult]: ...

    async def drain(self, session: Session, trigger: MemoryTrigger, *, link: TraceRef | None = None) -> Sequence[RunResult]: ...


@dataclass(frozen=True, slots=True)
class Due:
    session: Session
    trigger: MemoryTrigger
    link: TraceRef | None


@dataclass(slots=True)
class Seen:
    """A session that spoke since the start. `at`: of the last turn, or of the last look after it. Clock.monotonic seconds."""

    session: Session
    link: TraceRef | None
    at: float
    to_check: bool = True


class Extractions:
    """`folder`: where the session logs lie, a folder a session key. `wake`: called when there is something to do or to check.

    Not `unasked`: nothing waits but what a person asks for.
    """

    def __init__(
        self,
        extractor: Extracting,
        *,
        folder: Path,
        clock: Clock,
        emit: Emit,
        wake: Callable[[], None],
        unasked: bool = True,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self._extractor, self._folder, self._clock, self._emit, self._wake = extractor, folder, clock, emit, wake
        self._unasked, self._thresholds = unasked, thresholds
        self._seen: dict[str, Seen] = {}
        self._due: dict[str, Due] = {}  # by session id, in the order in which they came up

    @property
    def waiting(self) -> Sequence[Due]:
        return tuple(self._due.values())

    # -- what the bot tells; nothing here waits ------------------------------------------------------------------------
    def turn_ended(self, route: str, key: str, session_id: str) -> None:
        """Called in the context of the reply."""
        if session_id and self._unasked:
            self._seen[session_id] = Seen(self._session(route, key, session_id), self._emit.current(), self._clock.monotonic())
            self._wake()

    def session_ended(self, route: str, key: str, session_id: str, link: TraceRef | None) -> None:
        if session_id and self._unasked:
            self._want(self._session(route, key, session_id), MemoryTrigger.SESSION_END, link)

    def leave(self) -> None:
        """The bot ends: what the sessions still hold is wanted."""
        for seen in self._seen.values():
            self._want(seen.session, MemoryTrigger.SESSION_END, seen.link)

    def _session(self, route: str, key: str, session_id: str) -> Session:
        return Session(id=session_id, route=route, log=self._folder / key / f"{session_id}.jsonl")

    def _want(self, session: Session, trigger: MemoryTrigger, link: TraceRef | None) -> None:
        self._due.setdefault(session.id, Due(session, trigger, link))
        self._wake()

    # -- runs ----------------------------------------------------------------------------------------------------------
    async def recover(self) -> None:
        """Before anything else runs: dead runs get their end, and what earlier processes left unread is wanted."""
        await asyncio.to_thread(self._extractor.recover)
        for session in await asyncio.to_thread(self._extractor.sessions) if self._unasked else ():
            if (await self._backlog(session)).entries:
                self._want(session, MemoryTrigger.STARTUP_RECOVERY, None)

    async def next(self, *, leaving: bool) -> tuple[Sequence[RunResult], TraceRef | None]:
        """One session that waits, to its end; and the reply that asked for it."""
        wanted = self._due.pop(next(iter(self._due)))
        seen = self._seen.get(wanted.session.id)
        if leaving and wanted.trigger is MemoryTrigger.SESSION_END and not (await self._backlog(wanted.session)).entries:
            return (), None  # nothing was asked for: the bot ends, and this session has been read
        ended = await self._extractor.drain(wanted.session, wanted.trigger, link=wanted.link)
        if seen is not None:
            seen.at = self._clock.monotonic()
        return ended, wanted.link

    async def all(self) -> list[RunResult]:
        """Every session, to its end, as a person asks for it."""
        ended: list[RunResult] = []
        for session in await asyncio.to_thread(self._extractor.sessions):
            self._due.pop(session.id, None)
            ended += await self._extractor.drain(session, MemoryTrigger.MANUAL)
        return ended

    # -- checks --------------------------------------------------------------------------------------------------------
    def to_check(self) -> Sequence[Seen]:
        """Sessions with a turn since the last look, and idle ones."""
        now = self._clock.monotonic()
        return [seen for seen in self._seen.values() if seen.to_check or now - seen.at >= self._thresholds.idle_seconds]

    async def check(self, seen: Seen) -> None:
        after_turn, seen.to_check = seen.to_check, False
        idle = self._clock.monotonic() - seen.at
        trigger = due(await self._backlog(seen.session), idle_seconds=idle, thresholds=self._thresholds)
        if trigger is not None:
            self._want(seen.session, trigger, seen.link)
        elif after_turn:
            self._emit(MemoryRunNotDue(worker=MemoryWorker.EXTRACT, trigger=MemoryTrigger.TURN_THRESHOLD))
        elif self._seen.get(seen.session.id) is seen:  # else a turn came while it was looked
            del self._seen[seen.session.id]  # idle, and read to its end: the next turn brings it back

    async def _backlog(self, session: Session) -> Backlog:
        return await asyncio.to_thread(self._extractor.backlog, session)
