"""The extract worker: what a session log says after its cursor becomes candidates, one bounded range at a time.

What must stay true: no entry is read twice by a run that completed, and none is left out, whatever dies whenever: the
candidates of a range are published by one rename, the cursor moves after it, and the end is told last. Between asking the
model and having told the end nothing waits, so nothing can be cancelled half done. Nothing here raises into the bot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memory.clock import Clock
from memory.cursors import Attempts, Cursor, Cursors, StateUnreadable
from memory.disk import Disk
from memory.extract_model import ExtractModel, ExtractRequest, Stage, StageResult
from memory.extraction import USUAL_LIMITS, Extraction, ExtractLimits, Parts, RunResult, Session, result, result_of, staged_work
from memory.model_end import ModelEnd, ModelHow
from memory.provenance import ScopeOf, by_channel_id
from memory.quarantine import Quarantine
from memory.ranges import Piece, Unread, take, unread
from memory.run_files import SESSION_ID, RunFile, RunKey, count_of
from memory.runs import Runs, disk_reason
from memory.session_entries import LogUnreadable
from memory.staging import Staging
from memory.triggers import Backlog, Skips
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import ExtractWork, MemoryReason, MemoryRunNotDue, MemoryStatus, MemoryTrigger, MemoryWorker

__all__ = [
    "Backlog",
    "ExtractLimits",
    "ExtractModel",
    "ExtractRequest",
    "Extractor",
    "ModelEnd",
    "ModelHow",
    "RunResult",
    "Session",
    "Stage",
    "StageResult",
]

WORKER = MemoryWorker.EXTRACT
# A turn is running while these fire, or may be: its half is left for the next range.
_WHOLE_TURNS = frozenset({MemoryTrigger.TURN_THRESHOLD, MemoryTrigger.TOKEN_THRESHOLD})


class Extractor:
    """`insomnia`: the directory `.insomnia`. `scope_of`: from channel and person to where it may be told again; the default
    knows a direct message by its id, and takes every channel for a private one.

    Cancel with `task.cancel(MemoryReason.USER_CANCELLED)` (or SUPERSEDED); without a word it was interrupted. Cancellation
    is the only thing that leaves these methods.
    """

    def __init__(
        self,
        insomnia: Path,
        *,
        model: ExtractModel,
        emit: Emit,
        clock: Clock,
        limits: ExtractLimits = USUAL_LIMITS,
        scope_of: ScopeOf = by_channel_id,
        disk: Disk | None = None,
    ) -> None:
        disk = disk or Disk()
        memory = insomnia / "memory"
        self._sessions = insomnia / "sessions"
        self._cursors, self._staging = Cursors(memory / "_state", disk=disk), Staging(memory, disk=disk)
        self._runs = Runs(memory, emit=emit, clock=clock, disk=disk)
        self._emit, self._clock, self._limits = emit, clock, limits
        self._parts = Parts(
            model=model,
            emit=emit,
            clock=clock,
            limits=limits,
            scope_of=scope_of,
            cursors=self._cursors,
            staging=self._staging,
            runs=self._runs,
            quarantine=Quarantine(memory / "_state", disk=disk),
        )
        self._skips = Skips()

    def sessions(self) -> Sequence[Session]:
        """Every session log there is, those of workers left out."""
        logs = sorted(self._sessions.glob("*/*.jsonl"))
        workers = frozenset(MemoryWorker)
        return [
            Session(id=log.stem, route=log.parent.name, log=log)
            for log in logs
            if SESSION_ID.fullmatch(log.stem) and log.parent.name not in workers
        ]

    def backlog(self, session: Session) -> Backlog:
        """Nothing where log or cursor cannot be read: the run that finds out tells it."""
        try:
            found = unread(session.log, self._cursors.read(session.id), tokens=self._limits.tokens)
        except (LogUnreadable, StateUnreadable, OSError):
            return Backlog()
        return Backlog(turns=found.turns, tokens=found.tokens, entries=sum(entry.readable for entry in found.entries))

    def recover(self) -> Sequence[RunResult]:
        """At start, before anything else: every run of a dead process gets its end, and what it left half written goes.

        After it, run STARTUP_RECOVERY for each session with a backlog. Runs of living processes are left alone.
        """
        found: list[RunResult] = []
        for key in sorted(self._runs.keys(), key=lambda key: key.name):
            if key.worker is WORKER:
                try:
                    with self._runs.locked(key) as mine:
                        found += self._recover(key) if mine else []
                except OSError:
                    continue  # the next run of that session tries again, and tells what it meets
        return found

    def skip(self, session: Session, trigger: MemoryTrigger, reason: MemoryReason) -> RunResult:
        """A skip that the caller decided (DISABLED, BUDGET_EXHAUSTED, COOLDOWN). Repeated ones are counted, not told."""
        key = RunKey(WORKER, session.id)
        suppressed = self._skips.tell(trigger, reason, session.id, now=self._clock.monotonic())
        if suppressed is None:
            self._emit(MemoryRunNotDue(worker=WORKER, trigger=trigger, reason=reason))
            return RunResult(run_id="", status=MemoryStatus.SKIPPED, reason=reason, session_id=session.id)
        work = ExtractWork(session_id=session.id, route=session.route)
        return result(self._runs.skipped(key, trigger, reason, suppressed=suppressed, work=work))

    def not_due(self, trigger: MemoryTrigger) -> None:
        """A threshold check that did not fire: a metric, no event."""
        self._emit(MemoryRunNotDue(worker=WORKER, trigger=trigger))

    async def run(self, session: Session, trigger: MemoryTrigger, *, link: TraceRef | None = None) -> RunResult:
        """One range. `link`: the reply that triggered it."""
        key = RunKey(WORKER, session.id)
        try:
            with self._runs.locked(key) as mine:
                if not mine:
                    return self.skip(session, trigger, MemoryReason.ALREADY_RUNNING)
                self._recover(key)
                return await self._next_range(session, trigger, link)
        except OSError as error:
            return self._broken(session, trigger, *disk_reason(error), link=link)

    async def drain(self, session: Session, trigger: MemoryTrigger, *, link: TraceRef | None = None) -> Sequence[RunResult]:
        """Range after range until none is left, or one does not complete. That there is no more is told only if there was none."""
        results: list[RunResult] = []
        place = self._place(session)
        while True:
            results.append(await self.run(session, trigger, link=link))
            before, place = place, self._place(session)
            if not results[-1].moved_on or place == before or not await asyncio.to_thread(self._has_more, session, trigger):
                return results

    # -- one range -----------------------------------------------------------------------------------------------------
    async def _next_range(self, session: Session, trigger: MemoryTrigger, link: TraceRef | None) -> RunResult:
        try:
            cursor = self._cursor(session)
            attempts = self._cursors.attempts(session.id, cursor)
            if trigger is not MemoryTrigger.MANUAL and attempts.waits(self._clock.now()):
                return self.skip(session, trigger, MemoryReason.BACKOFF)
            found = await asyncio.to_thread(unread, session.log, cursor, tokens=self._limits.tokens)
        except StateUnreadable as error:
            return self._broken(session, trigger, MemoryReason.IO_ERROR, str(error), link=link)
        except LogUnreadable as error:
            self._cursors.note_attempts(session.id, replace(attempts, failures=attempts.failures + 1, at=self._clock.now()))
            return self._broken(session, trigger, MemoryReason.SESSION_LOG_UNREADABLE, str(error), link=link)
        session = replace(session, route=next((entry.route for entry in found.entries if entry.route), session.route))
        if (found.generation, found.start) != cursor.place:  # another log under the old name: it has not failed yet
            attempts = Attempts(generation=found.generation, start=found.start)
        piece = self._take(found, trigger, attempts.tokens or self._limits.tokens)
        if piece is None:
            return self.skip(session, trigger, MemoryReason.NO_NEW_SESSION_RANGE)
        return await Extraction(self._parts, session, trigger, found, attempts).run(piece, link)

    def _take(self, found: Unread, trigger: MemoryTrigger, tokens: int) -> Piece | None:
        return take(found, tokens=tokens, open_tail=trigger not in _WHOLE_TURNS)

    def _place(self, session: Session) -> tuple[int, int] | None:
        """None: it cannot be read."""
        try:
            return self._cursors.read(session.id).place
        except (StateUnreadable, OSError):
            return None

    def _has_more(self, session: Session, trigger: MemoryTrigger) -> bool:
        try:
            found = unread(session.log, self._cursors.read(session.id), tokens=self._limits.tokens)
        except (LogUnreadable, StateUnreadable, OSError):
            return True  # the next run tells it
        return self._take(found, trigger, self._limits.tokens) is not None

    def _cursor(self, session: Session) -> Cursor:
        """Past what is published already: a process may have died between the two, and its run file been lost."""
        cursor = self._cursors.read(session.id)
        while batch := self._staging.published(session.id, cursor.generation, cursor.next):  # it moves the cursor, or is none
            self._cursors.advance(session.id, batch.cursor)
            cursor = batch.cursor
        return cursor

    def _broken(self, session: Session, trigger: MemoryTrigger, reason: MemoryReason, detail: str, *, link: TraceRef | None) -> RunResult:
        """A run that fails before it has a range."""
        work = ExtractWork(session_id=session.id, route=session.route)
        key = RunKey(WORKER, session.id)
        with self._runs.memory_run(key, trigger, limit_seconds=self._limits.seconds, extract=work, link=link) as run:
            run.fail(reason, detail)
        return result_of(run)

    # -- what dead runs left -------------------------------------------------------------------------------------------
    def _recover(self, key: RunKey) -> list[RunResult]:
        """The caller holds the lock."""
        self._staging.sweep(self._runs.dead(key))  # first: without its run file nobody would know whose it was
        self._cursors.sweep(key.session_id)
        self._parts.quarantine.sweep(key.session_id)
        return [result(end) for end in self._runs.recover(key, self._judge)]

    def _judge(self, file: RunFile) -> tuple[MemoryStatus, MemoryReason, ExtractWork | None]:
        """By what stands on the disk: its batch, then its cursor."""
        session_id, about = file.key.session_id, file.about
        work = ExtractWork(session_id=session_id, route=str(about.get("route", "")))
        try:
            generation, start, last, count = (count_of(about, name) for name in ("generation", "start", "last", "entries"))
            cursor = self._cursors.read(session_id)
        except (ValueError, StateUnreadable):
            return MemoryStatus.FAILED, MemoryReason.INTERRUPTED, work
        batch = self._staging.published(session_id, generation, start)
        if batch and batch.run_id == file.run_id:
            self._cursors.advance(session_id, batch.cursor)
            return MemoryStatus.COMPLETED, MemoryReason.CANDIDATES_FOUND, staged_work(work, batch)
        work = replace(work, range=(start, last), entries=count)
        if cursor.place <= (generation, start) or cursor.run_id != file.run_id:
            return MemoryStatus.FAILED, MemoryReason.INTERRUPTED, work
        if about.get("quarantines"):
            return MemoryStatus.FAILED, MemoryReason.RANGE_QUARANTINED, work
        return MemoryStatus.COMPLETED, MemoryReason.NO_CANDIDATES, work
