"""One consolidation run: a snapshot is shown to the model, its tools work on the overlay, and what they made is committed.

What must stay true: from the last look at the store to the end of the run nothing can be cancelled, so that a cancel finds it either
asked or done; `store_commit` or `store_discard` stands before the end; a run that committed never fails: it is finished, now or
by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from memory.clock import Clock
from memory.consolidation.commit import Commit
from memory.consolidation.desk import Desk
from memory.consolidation.guards import Bounds
from memory.consolidation.journal import Change, Journal
from memory.consolidation.lately import before_lately
from memory.consolidation.ledger import Ledger
from memory.consolidation.model import ConsolidationModel, ConsolidationRequest
from memory.consolidation.outcome import Result, result_of, tell, verdict, work_of
from memory.consolidation.overlay import Overlay
from memory.consolidation.pending import Candidate
from memory.consolidation.prompt import SYSTEM, prompt, related
from memory.consolidation.schemas import SPECS
from memory.consolidation.steps import Making
from memory.consolidation.survival import survival
from memory.lint_rules import Rule
from memory.model_end import ModelEnd, ModelHow
from memory.reading_tools import ReadingTools
from memory.records import Record, Scope, moment, render
from memory.redact import redact
from memory.run_files import RunKey
from memory.runs import Run, Runs, disk_reason, where
from memory.search_records import RecordSearch
from memory.store import Store, StoreBusy
from memory.store_audit import tell_unaudited
from memory.store_view import Key, Stored, StoreView
from memory.tools import Asker
from memory.usage import UsageLog
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import (
    ConsolidationWork,
    MemoryReason,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    StoreDiscarded,
)
from telemetry.names import Attr, SpanName

WORKER = MemoryWorker.CONSOLIDATION
KEY = RunKey(WORKER)
_SCOPE_RULES = frozenset({Rule.SCOPE, Rule.FOREIGN_CANDIDATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationLimits:
    """`seconds` of a run; `candidates` and their `chars` of a snapshot."""

    seconds: float = 300.0
    candidates: int = 40
    chars: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every run of a workspace shares."""

    model: ConsolidationModel
    emit: Emit
    clock: Clock
    limits: ConsolidationLimits
    store: Store
    runs: Runs
    commit: Commit
    usage: UsageLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Candidates of one scope, and the files beside them that were none."""

    scope: Scope
    candidates: Sequence[Candidate]
    invalid: int


class ConsolidationRun:
    def __init__(self, parts: Parts, trigger: MemoryTrigger, snapshot: Snapshot) -> None:
        self._parts, self._trigger, self._snapshot = parts, trigger, snapshot
        self._by_id = {one.id: one for one in snapshot.candidates}
        self._planned = 0
        self._committed = False

    async def run(self, link: TraceRef | None) -> Result:
        """The caller holds the worker's lock."""
        parts, count = self._parts, len(self._by_id)
        work = ConsolidationWork(staging_count=count, invalid_count=self._snapshot.invalid, scope=str(self._snapshot.scope))
        about = {"staging": count, "invalid": self._snapshot.invalid, "scope": str(self._snapshot.scope)}
        with parts.runs.memory_run(
            KEY,
            self._trigger,
            limit_seconds=parts.limits.seconds,
            model=parts.model.name,
            consolidation=work,
            about=about,
            link=link,
        ) as run:
            run.before_end = lambda _, reason: self._before_end(run.id, reason)
            if run.said is None:
                await self._consolidate(run)
        return result_of(run, tuple(self._by_id))

    async def _consolidate(self, run: Run) -> None:
        try:
            await self._work(run)
        except StoreBusy as busy:
            run.fail(MemoryReason.IO_ERROR, str(busy))

    async def _work(self, run: Run) -> None:
        parts, now = self._parts, moment(self._parts.clock.now())
        with parts.emit.span(SpanName.MEMORY_SNAPSHOT, {Attr.MEMORY_CANDIDATES: len(self._by_id)}):
            await asyncio.to_thread(tell_unaudited, parts.store, parts.emit)
            view = await asyncio.to_thread(parts.store.view)
            text = await asyncio.to_thread(self._prompt, view, now)
            used = await asyncio.to_thread(parts.usage.used_lately)
            before = await asyncio.to_thread(self._before)
        overlay, ledger = Overlay(view), Ledger(self._by_id)
        bounds = Bounds(scope=self._snapshot.scope, candidates=self._by_id, used=used, before=before)
        desk = self._desk(run, overlay, ledger, bounds=bounds, now=now)
        end = await self._ask(run, desk, text)
        await asyncio.to_thread(desk.close)
        self._planned = len(overlay.steps)
        failure = _failure(end, desk)
        if failure:
            run.fail(*failure)
        else:
            await _to_its_end(self._commit, run, overlay, ledger)

    def _desk(self, run: Run, overlay: Overlay, ledger: Ledger, *, bounds: Bounds, now: datetime) -> Desk:
        parts, scope = self._parts, self._snapshot.scope
        return Desk(
            overlay,
            ledger,
            bounds=bounds,
            making=Making(candidates=self._by_id, scope=scope, now=now, run_id=run.id),
            reading=ReadingTools(overlay, emit=parts.emit, usage=parts.usage, redact=redact),
            asker=Asker(caller=WORKER.value, scope=scope, run_id=run.id),
            emit=parts.emit,
        )

    def _before(self) -> Mapping[Key, Record]:
        parts = self._parts
        manifests = parts.commit.journals.manifests()
        return before_lately(parts.store, manifests, scope=self._snapshot.scope, now=parts.clock.now())

    def _prompt(self, view: StoreView, now: datetime) -> str:
        scope, search = self._snapshot.scope, RecordSearch()

        def seen(stored: Stored) -> bool:
            return isinstance(stored.record, Record) and stored.record.scope.admits(scope)

        near = related(self._snapshot.candidates, lambda query: search.search(view, query, seen=seen))
        return prompt(self._snapshot.candidates, near, scope=str(scope), today=now.astimezone(UTC).date().isoformat())

    async def _ask(self, run: Run, desk: Desk, text: str) -> ModelEnd | None:
        """None: it took too long."""
        seconds = self._parts.limits.seconds
        request = ConsolidationRequest(run_id=run.id, system=SYSTEM, prompt=text, tools=SPECS, seconds=seconds)
        try:
            async with asyncio.timeout(seconds):
                end = await self._parts.model.work(request, desk.call)
        except TimeoutError:
            return None
        except Exception as error:  # noqa: BLE001 whatever the model's side raises is a failure of the model
            end = ModelEnd(how=ModelHow.ERROR, detail=where(error))
        run.model, run.usage, run.cost_usd = end.model or run.model, end.usage, end.cost_usd
        return end

    def _commit(self, run: Run, overlay: Overlay, ledger: Ledger) -> None:
        """In a thread; nobody takes it back once it has begun."""
        parts = self._parts
        with parts.emit.span(SpanName.MEMORY_COMMIT) as span:
            now = parts.store.view()
            journal = self._journal(run, overlay, ledger, now)
            if conflicts := parts.commit.conflicts(journal.changes, now):
                tell(parts.emit, run.id, (), refused=conflicts)
                run.fail(MemoryReason.STORE_CONFLICT, f"{len(conflicts)} of {len(journal.changes)} records were changed meanwhile")
                span.fail(MemoryReason.STORE_CONFLICT)
                return
            parts.commit.journals.commit(journal)
            self._committed = True
            try:
                manifest = parts.commit.finish(journal)
            except (OSError, StoreBusy) as error:
                reason = disk_reason(error) if isinstance(error, OSError) else (MemoryReason.IO_ERROR, str(error))
                run.fail(reason[0], f"{reason[1]}; what was committed is finished by the next run")
                run.leave()
                span.fail(reason[0])
                return
            run.consolidation = work_of(manifest)
            status, reason_ = verdict(manifest)
            tell(parts.emit, run.id, manifest.done, committed=True)
            if status is MemoryStatus.COMPLETED:
                run.complete(reason_)
            else:
                run.fail(reason_, "every record of it was changed meanwhile")

    def _journal(self, run: Run, overlay: Overlay, ledger: Ledger, now: StoreView) -> Journal:
        """`now`: the store as it is; a record that somebody deleted meanwhile holds no candidate."""
        files = overlay.files()
        before = survival(overlay, self._snapshot.scope)
        changes = tuple(
            Change(
                op=each.op,
                kind=each.key[0],
                slug=each.key[1],
                before_sha256=each.before_sha256,
                after=render(each.after) if each.after else None,
                cited=each.cited,
                into=each.into,
                lost=before.losses.get(each.key, 0),
                note=each.note,
            )
            for each in files
        )
        keys = now.stored.keys() - {each.key for each in files if each.after is None} | {each.key for each in files if each.after}
        counts = {"staging": len(self._by_id), "invalid": self._snapshot.invalid, "records": before.records, "specifics": before.specifics}
        ref = self._parts.emit.current()
        return Journal(
            run_id=run.id,
            at=self._parts.clock.now(),
            trace_id=ref.trace_id if ref else "",
            scope=str(self._snapshot.scope),
            changes=changes,
            resolutions=ledger.closed(frozenset(f"{kind}/{slug}" for kind, slug in keys)),
            counts=counts,
        )

    def _before_end(self, run_id: str, why: MemoryReason) -> None:
        if not self._committed:
            with self._parts.emit.span(SpanName.MEMORY_ROLLBACK):
                self._parts.emit(StoreDiscarded(run_id=run_id, planned=self._planned, why=why))


async def _to_its_end(commit: Callable[[Run, Overlay, Ledger], None], run: Run, overlay: Overlay, ledger: Ledger) -> None:
    """Replies go on meanwhile, and a cancel waits: it finds a run that has ended."""
    work = asyncio.get_running_loop().create_task(asyncio.to_thread(commit, run, overlay, ledger))  # owned here, awaited below
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):  # whoever asks twice is told once
                await asyncio.wait([work])
        work.result()
        raise


def _failure(end: ModelEnd | None, desk: Desk) -> tuple[MemoryReason, str] | None:
    """None: what the model did counts."""
    if desk.overrun:
        return MemoryReason.MODEL_OUTPUT_INVALID, f"the tools were called {desk.calls} times without an end"
    if end is None:
        return MemoryReason.MODEL_TIMEOUT, ""
    if end.how is not ModelHow.ENDED:
        return MemoryReason.MODEL_ERROR, redact(end.detail) or end.how.value
    if desk.used:
        return None
    if desk.rejected:
        rules = ", ".join(sorted(frozenset[str]().union(*desk.rejected)))
        of_scope = all(rules <= _SCOPE_RULES for rules in desk.rejected)
        return (
            MemoryReason.SCOPE_ERROR if of_scope else MemoryReason.LINTER_FAILED,
            f"every change was refused ({len(desk.rejected)}): {rules}",
        )
    return MemoryReason.MODEL_OUTPUT_INVALID, f"no candidate was settled (calls of the tools: {desk.calls})"
