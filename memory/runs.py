"""The life of a memory run: `with memory_run(...) as run:` started, then exactly one end, whatever happens inside.

What must stay true: every run that was told as started is told an end, by its process or by a later one (`recover`), with the
same run id; span, line, metric and status say the same, because one fact says it; the end is stored before it is told, and
the run file goes last, so that an end that is told twice is twice the same.
"""

from __future__ import annotations

import asyncio
import errno
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from memory.clock import Clock
from memory.disk import Disk, NotOurs
from memory.run_ends import end_fields, end_from
from memory.run_files import FINISHING, RunFile, RunFiles, RunKey
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import (
    REASONS,
    ConsolidationWork,
    ExtractWork,
    MemoryReason,
    MemoryRunEnded,
    MemoryRunStarted,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    TokenUsage,
)
from telemetry.names import Attr, SpanName

MAX_DETAIL = 300


class Run:
    """What a run may say of itself. The first end that is said counts; saying none is an internal error."""

    def __init__(self, file: RunFile, *, keep: Callable[[RunFile], None]) -> None:
        self.file, self._keep = file, keep
        self.model = file.model
        self.usage: TokenUsage | None = None
        self.cost_usd: float | None = None
        self.extract: ExtractWork | None = None
        self.consolidation: ConsolidationWork | None = None
        self.said: tuple[MemoryStatus, MemoryReason, str] | None = None
        self.filed, self.left = False, False
        self.before_end: Callable[[MemoryStatus, MemoryReason], None] = lambda status, reason: None  # tells what stands before it

    @property
    def id(self) -> str:
        return self.file.run_id

    def note(self, about: Mapping[str, Any]) -> None:
        """For whoever recovers this run. Raises OSError."""
        self.file = replace(self.file, about=about)
        self._keep(self.file)

    def complete(self, reason: MemoryReason, detail: str = "") -> None:
        self._say(MemoryStatus.COMPLETED, reason, detail)

    def fail(self, reason: MemoryReason, detail: str = "") -> None:
        self._say(MemoryStatus.FAILED, reason, detail)

    def cancel(self, reason: MemoryReason, detail: str = "") -> None:
        self._say(MemoryStatus.CANCELLED, reason, detail)

    def leave(self) -> None:
        """It has gone too far to fail, and cannot go on: whoever finds its file finishes it, and tells its end."""
        self.left = True

    def _say(self, status: MemoryStatus, reason: MemoryReason, detail: str) -> None:
        if reason not in REASONS[self.file.key.worker][status]:
            raise ValueError(f"{self.file.key.worker} does not end as {status} with {reason}")
        self.said = self.said or (status, reason, detail[:MAX_DETAIL])


# From what a dead run left: how it ended, if it got so far that it did.
Judge = Callable[[RunFile], tuple[MemoryStatus, MemoryReason, ExtractWork | ConsolidationWork | None]]


class Runs:
    """`memory`: `.insomnia/memory`."""

    def __init__(self, memory: Path, *, emit: Emit, clock: Clock, disk: Disk) -> None:
        self._files = RunFiles(memory / "_state", disk=disk)
        self._emit, self._clock = emit, clock

    def locked(self, key: RunKey) -> AbstractContextManager[bool]:
        """False: another run has it. Raises OSError."""
        return self._files.locked(key)

    @contextmanager
    def memory_run(
        self,
        key: RunKey,
        trigger: MemoryTrigger,
        *,
        limit_seconds: float,
        model: str = "",
        extract: ExtractWork | None = None,
        consolidation: ConsolidationWork | None = None,
        about: Mapping[str, Any] | None = None,
        link: TraceRef | None = None,
    ) -> Iterator[Run]:
        """The caller holds the lock. Errors end the run and go no further; only cancellation and the like do. Where the disk
        takes no run file, `run.said` is set from the beginning, and nothing is to be done.

        A cancel's message may be its reason: `task.cancel(MemoryReason.USER_CANCELLED)`.
        """
        began = self._clock.monotonic()
        with self._span(key, trigger, _new_id(), limit_seconds=limit_seconds, link=link) as (run_id, ref):
            file = RunFile(key=key, trigger=trigger, run_id=run_id, started_at=self._clock.now(), about=about or {}, model=model)
            run = Run(replace(file, trace_id=ref.trace_id, span_id=ref.span_id), keep=self._files.save)
            run.extract, run.consolidation = extract, consolidation
            self._begin(run)
            try:
                yield run
            except asyncio.CancelledError as stopped:
                run.cancel(_why(stopped, key.worker))
                raise
            except OSError as error:
                run.fail(*disk_reason(error))
            except Exception as error:  # noqa: BLE001 the boundary of a run: it ends, and whoever waits for a reply never notices
                run.fail(MemoryReason.INTERNAL_ERROR, where(error))
            except BaseException:
                run.cancel(MemoryReason.INTERRUPTED)
                raise
            finally:
                if not run.left:
                    self._end(run, max(0.0, self._clock.monotonic() - began))

    def skipped(
        self,
        key: RunKey,
        trigger: MemoryTrigger,
        reason: MemoryReason,
        *,
        suppressed: int = 0,
        work: ExtractWork | ConsolidationWork | None = None,
    ) -> MemoryRunEnded:
        """Decided before any work: it stands alone."""
        with self._span(key, trigger, _new_id()) as (run_id, _):
            end = _ended(key, trigger, run_id, MemoryStatus.SKIPPED, reason, work=work, suppressed=suppressed)
            self._emit(end)
        return end

    def dead(self, key: RunKey) -> Sequence[str]:
        """Their ids. The caller holds the lock, which proves that they are dead. Raises OSError."""
        return [file.run_id for file in self._files.dead(key)]

    def recover(self, key: RunKey, judge: Judge) -> Sequence[MemoryRunEnded]:
        """Ends every run of a dead process. The caller holds the lock. Raises OSError."""
        return [self._end_dead(file, judge) for file in self._files.dead(key)]

    def keys(self) -> set[RunKey]:
        """Of every run that has not ended, dead or not."""
        return self._files.keys()

    def _begin(self, run: Run) -> None:
        """Told only once there is a file by which a later process would find it. A disk that takes none ends the run here."""
        try:
            self._files.save(run.file)
            run.filed = True
        except OSError as error:
            run.fail(*disk_reason(error))
        key, trigger = run.file.key, run.file.trigger
        self._emit(
            MemoryRunStarted(
                run_id=run.id,
                worker=key.worker,
                trigger=trigger,
                model=run.model,
                extract=run.extract,
                consolidation=run.consolidation,
            )
        )

    def _end(self, run: Run, seconds: float) -> None:
        if run.said is None:
            run.fail(MemoryReason.INTERNAL_ERROR, "the run ended without a word")
        assert run.said is not None
        status, reason, detail = run.said
        run.before_end(status, reason)
        end = MemoryRunEnded(
            run_id=run.id,
            worker=run.file.key.worker,
            trigger=run.file.trigger,
            status=status,
            reason=reason,
            seconds=seconds,
            detail=detail,
            model=run.model,
            usage=run.usage,
            cost_usd=run.cost_usd,
            extract=run.extract,
            consolidation=run.consolidation,
        )
        self._tell(run.file, end, filed=run.filed)

    def _tell(self, file: RunFile, end: MemoryRunEnded, *, filed: bool = True) -> None:
        try:
            self._files.save(replace(file, state=FINISHING, told=end_fields(end)))
        except NotOurs:
            if filed:  # its file lies where nothing is to be changed: who has it back tells its end
                return
        except OSError:  # a full disk: what a later process would find is RUNNING, and it judges by what is staged
            pass
        self._emit(end)
        with suppress(OSError):
            self._files.remove(file)

    def _end_dead(self, file: RunFile, judge: Judge) -> MemoryRunEnded:
        ref = TraceRef(file.trace_id, file.span_id) if len(file.trace_id) == 32 and len(file.span_id) == 16 else None
        with self._span(file.key, file.trigger, file.run_id, link=ref):
            end = end_from(file) if file.state == FINISHING else None
            if end is None:
                status, reason, work = judge(file)
                seconds = max(0.0, self._clock.now() - file.started_at) if file.started_at else 0.0
                end = _ended(file.key, file.trigger, file.run_id, status, reason, seconds=seconds, work=work, model=file.model)
            end = replace(end, recovered=True)
            self._tell(file, end)
        return end

    @contextmanager
    def _span(
        self, key: RunKey, trigger: MemoryTrigger, run_id: str, *, limit_seconds: float = 0.0, link: TraceRef | None = None
    ) -> Iterator[tuple[str, TraceRef]]:
        about = {Attr.MEMORY_RUN_ID: run_id, Attr.MEMORY_WORKER: key.worker, Attr.MEMORY_TRIGGER: trigger}
        limit = {Attr.MEMORY_LIMIT: limit_seconds} if limit_seconds else {}
        span = self._emit.begin(SpanName.MEMORY_RUN, {**about, **limit}, label=key.worker, root=True, links=[link] if link else [])
        try:
            with self._emit.within(span):
                yield run_id, span.ref
        finally:
            span.end()


def disk_reason(error: OSError) -> tuple[MemoryReason, str]:
    """With its errno for a detail, or our own sentence; of a path nothing is told."""
    if isinstance(error, NotOurs):
        return MemoryReason.IO_ERROR, str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return (MemoryReason.DISK_FULL if full else MemoryReason.IO_ERROR), errno.errorcode.get(error.errno or 0, type(error).__name__)


def where(error: BaseException) -> str:
    """Class and place of an error; its message may quote anybody."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else type(error).__name__


def _why(stopped: asyncio.CancelledError, worker: MemoryWorker) -> MemoryReason:
    said = stopped.args[0] if stopped.args else ""
    return next((reason for reason in REASONS[worker][MemoryStatus.CANCELLED] if reason == said), MemoryReason.INTERRUPTED)


def _ended(
    key: RunKey,
    trigger: MemoryTrigger,
    run_id: str,
    status: MemoryStatus,
    reason: MemoryReason,
    *,
    seconds: float = 0.0,
    work: ExtractWork | ConsolidationWork | None = None,
    suppressed: int = 0,
    model: str = "",
) -> MemoryRunEnded:
    return MemoryRunEnded(
        run_id=run_id,
        worker=key.worker,
        trigger=trigger,
        status=status,
        reason=reason,
        seconds=seconds,
        extract=work if isinstance(work, ExtractWork) else None,
        consolidation=work if isinstance(work, ConsolidationWork) else None,
        suppressed=suppressed,
        model=model,
    )


def _new_id() -> str:
    return uuid4().hex[:16]
