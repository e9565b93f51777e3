"""The consolidation worker: what is staged becomes records, one bounded snapshot at a time.

What must stay true: no candidate is lost and none is applied twice, whatever dies whenever; before anything else a run finishes what
a dead one committed, and ends it. A snapshot holds candidates of one scope, and its model sees no record that is not to be read
there: so nothing can be carried from a private place into a wider one. Nothing here raises into the bot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from memory.clock import Clock
from memory.consolidation.commit import Commit
from memory.consolidation.due import StagingBacklog, is_tired
from memory.consolidation.journal import JournalUnreadable, Manifest
from memory.consolidation.model import ConsolidationModel
from memory.consolidation.outcome import Result, result, result_of, tell, verdict, work_of
from memory.consolidation.past import Past, PastFile
from memory.consolidation.pending import Candidate, Waiting
from memory.consolidation.run import KEY, WORKER, ConsolidationLimits, ConsolidationRun, Parts, Snapshot
from memory.disk import Disk, OwnDisk
from memory.run_files import RunFile, count_of
from memory.runs import Runs, disk_reason
from memory.store import Store, StoreBusy
from memory.triggers import Skips
from memory.usage import UsageLog
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import (
    ConsolidationWork,
    MemoryReason,
    MemoryRunNotDue,
    MemoryStatus,
    MemoryTrigger,
    StoreDiscarded,
)
from telemetry.troubles import Troubles

USUAL_LIMITS = ConsolidationLimits()
MAX_UNASKED_RUNS = 5  # in a row; what waits beside them, extract above all, comes first then
_UNASKED = frozenset({MemoryTrigger.STAGING_BACKLOG, MemoryTrigger.IDLE})


class Consolidator:
    """`insomnia`: the directory `.insomnia`. Cancel with `task.cancel(MemoryReason.USER_CANCELLED)` (or SUPERSEDED); without a word
    it was interrupted. Cancellation is the only thing that leaves these methods.
    """

    def __init__(
        self,
        insomnia: Path,
        *,
        model: ConsolidationModel,
        emit: Emit,
        clock: Clock,
        limits: ConsolidationLimits = USUAL_LIMITS,
        disk: Disk | None = None,
    ) -> None:
        memory, store = insomnia / "memory", Store(insomnia)
        disk = OwnDisk(disk or Disk(), memory)
        self._runs = Runs(memory, emit=emit, clock=clock, disk=disk)
        self._commit, self._store = Commit(insomnia, store=store, disk=disk), store
        self._past = PastFile(memory / "_state", disk=disk)
        self._emit, self._clock, self._limits = emit, clock, limits
        self._skips = Skips()
        self._broke = Past()  # of this process: runs that failed before there was anything to note it in
        self._parts = Parts(
            model=model,
            emit=emit,
            clock=clock,
            limits=limits,
            store=store,
            runs=self._runs,
            commit=self._commit,
            usage=UsageLog(insomnia, now=clock.now, troubles=Troubles()),
        )

    def backlog(self) -> StagingBacklog:
        """Nothing where the staging cannot be read: the run that finds out tells it."""
        try:
            waiting = self._commit.pending.look().candidates
        except OSError:
            return StagingBacklog()
        past, now = self._past.read(), self._clock.now()
        fresh = [one for one in waiting if not is_tired(deferrals=past.deferrals.get(one.id, 0), failures=past.failed.get(one.id, 0))]
        oldest = max((now - one.staged_at.timestamp() for one in fresh), default=0.0)
        return StagingBacklog(
            candidates=len(waiting), fresh=len(fresh), bytes=sum(one.size for one in fresh), oldest_seconds=max(0.0, oldest)
        )

    def past(self) -> Past:
        return self._past.read()

    def recover(self) -> Sequence[Result]:
        """At start, before anything else looks at the records: what a dead run committed is finished, and every dead run gets its end."""
        try:
            with self._runs.locked(KEY) as mine:
                return self._recover() if mine else []
        except (OSError, StoreBusy, JournalUnreadable):
            return []  # the next run tries again, and tells what it meets

    @property
    def unfinished(self) -> bool:
        """Something is committed and not done yet."""
        return self._commit.journals.stands

    def skip(self, trigger: MemoryTrigger, reason: MemoryReason, *, invalid: int = 0) -> Result:
        """A skip that the caller decided (DISABLED, BUDGET_EXHAUSTED). Repeated ones are counted, not told."""
        suppressed = self._skips.tell(trigger, reason, "", now=self._clock.monotonic())
        if suppressed is None:
            self._emit(MemoryRunNotDue(worker=WORKER, trigger=trigger, reason=reason))
            return Result(run_id="", status=MemoryStatus.SKIPPED, reason=reason)
        work = ConsolidationWork(invalid_count=invalid)
        return result(self._runs.skipped(KEY, trigger, reason, suppressed=suppressed, work=work))

    async def run(self, trigger: MemoryTrigger, *, link: TraceRef | None = None, leaving_out: frozenset[str] = frozenset()) -> Result:
        """One snapshot, of candidates that are not in `leaving_out`. `link`: the reply that triggered it."""
        if trigger is not MemoryTrigger.MANUAL and self._broke.backs_off(self._clock.now()):
            return self.skip(trigger, MemoryReason.BACKOFF)
        try:
            with self._runs.locked(KEY) as mine:
                if not mine:
                    return self.skip(trigger, MemoryReason.ALREADY_RUNNING)
                self._recover()
                self._broke = Past()
                return await self._next_snapshot(trigger, link, leaving_out)
        except JournalUnreadable as error:
            return self._broken(trigger, MemoryReason.IO_ERROR, str(error), link)
        except StoreBusy as error:
            return self._broken(trigger, MemoryReason.IO_ERROR, str(error), link)
        except OSError as error:
            return self._broken(trigger, *disk_reason(error), link)

    async def drain(
        self, trigger: MemoryTrigger, *, link: TraceRef | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> Sequence[Result]:
        """Snapshot after snapshot until every candidate was looked at once, or a run does not complete; before each but the first
        `go_on` is asked.
        """
        most = inf if trigger is MemoryTrigger.MANUAL else MAX_UNASKED_RUNS
        results, seen = list[Result](), frozenset[str]()
        while True:
            last = await self.run(trigger, link=link, leaving_out=seen)
            results.append(last)
            seen |= frozenset(last.given)
            ends = not last.completed or len(results) >= most or not await asyncio.to_thread(self._waits, seen)
            if ends or not go_on():
                return results

    # -- one snapshot --------------------------------------------------------------------------------------------------
    async def _next_snapshot(self, trigger: MemoryTrigger, link: TraceRef | None, leaving_out: frozenset[str]) -> Result:
        past, now = self._past.read(), self._clock.now()
        if not leaving_out and trigger is not MemoryTrigger.MANUAL:
            if past.backs_off(now):
                return self.skip(trigger, MemoryReason.BACKOFF)
            if trigger in _UNASKED and past.cools_down(now):
                return self.skip(trigger, MemoryReason.COOLDOWN)
        waiting = await asyncio.to_thread(self._commit.pending.look)
        self._commit.pending.put_aside(waiting.invalid)
        snapshot = self._snapshot(waiting, past, leaving_out)
        if snapshot is None:
            invalid = len(waiting.invalid)
            return self.skip(trigger, MemoryReason.NO_VALID_STAGING if invalid else MemoryReason.NO_STAGING, invalid=invalid)
        ended = await ConsolidationRun(self._parts, trigger, snapshot).run(link)
        self._note(past, ended)
        return ended

    def _snapshot(self, waiting: Waiting, past: Past, leaving_out: frozenset[str]) -> Snapshot | None:
        """Of the scope that has waited longest, as many as a run takes; those that were tried before come last."""
        open_ = [one for one in waiting.candidates if one.id not in leaving_out]
        if not open_:
            return None
        ordered = sorted(open_, key=lambda one: past.tries(one.id))
        taken, chars = list[Candidate](), 0
        for one in ordered:
            if one.scope == ordered[0].scope and len(taken) < self._limits.candidates:
                chars += one.size
                if taken and chars > self._limits.chars:
                    break
                taken.append(one)
        return Snapshot(scope=ordered[0].scope, candidates=taken, invalid=len(waiting.invalid))

    def _note(self, past: Past, ended: Result) -> None:
        with suppress(OSError):  # it only spares the next run some haste
            self._past.write(past.after(ended, self._clock.now()))

    def _waits(self, seen: frozenset[str]) -> bool:
        """A candidate that was not looked at."""
        try:
            return any(one.id not in seen for one in self._commit.pending.look().candidates)
        except OSError:
            return True  # the next run tells it

    def _broken(self, trigger: MemoryTrigger, reason: MemoryReason, detail: str, link: TraceRef | None) -> Result:
        """A run that fails before it has a snapshot."""
        with self._runs.memory_run(KEY, trigger, limit_seconds=self._limits.seconds, consolidation=ConsolidationWork(), link=link) as run:
            run.before_end = lambda _, why: self._emit(StoreDiscarded(run_id=run.id, planned=0, why=why))
            run.fail(reason, detail)
        ended = result_of(run)
        self._broke = self._broke.after(ended, self._clock.now())
        return ended

    # -- what dead runs left -------------------------------------------------------------------------------------------
    def _recover(self) -> list[Result]:
        """The caller holds the lock."""
        self._past.sweep()
        finished = self._commit.finish_dead()
        dead = set(self._runs.dead(KEY))
        if finished and finished.run_id not in dead:  # its run file was removed by somebody: there is nobody to end
            tell(self._emit, finished.run_id, finished.done, committed=True)
        return [result(end) for end in self._runs.recover(KEY, self._judge)]

    def _judge(self, file: RunFile) -> tuple[MemoryStatus, MemoryReason, ConsolidationWork]:
        manifest = self._commit.journals.manifest(file.run_id)
        if manifest is None:
            self._emit(StoreDiscarded(run_id=file.run_id, planned=None, why=MemoryReason.INTERRUPTED))
            return MemoryStatus.FAILED, MemoryReason.INTERRUPTED, _given(file)
        return self._of(manifest)

    def _of(self, manifest: Manifest) -> tuple[MemoryStatus, MemoryReason, ConsolidationWork]:
        tell(self._emit, manifest.run_id, manifest.done, committed=True)
        status, reason = verdict(manifest)
        return status, reason, work_of(manifest)


def _given(file: RunFile) -> ConsolidationWork:
    try:
        staging, invalid = count_of(file.about, "staging"), count_of(file.about, "invalid")
    except ValueError:
        return ConsolidationWork()
    return ConsolidationWork(staging_count=staging, invalid_count=invalid, scope=str(file.about.get("scope", "")))
