"""How a consolidation run came out: from its manifest to the facts, the counts and the result of it. Pure but for telling.

What must stay true: counts are what happened on disk; a run and whoever finishes it after its death say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.consolidation.journal import Change, Done, Manifest
from memory.lint_rules import Rule
from memory.runs import Run
from telemetry.emit import Emit
from telemetry.memory_events import (
    ConsolidationWork,
    Disposition,
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    OperationStatus,
    RecordOp,
    RecordOperation,
    StoreCommitted,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run ended, or a skip. `given`: ids of its candidates. `recovered`: a dead process began it."""

    run_id: str
    status: MemoryStatus
    reason: MemoryReason
    detail: str = ""
    work: ConsolidationWork = field(default_factory=ConsolidationWork)
    given: tuple[str, ...] = ()
    recovered: bool = False

    @property
    def completed(self) -> bool:
        return self.status is MemoryStatus.COMPLETED


def result(end: MemoryRunEnded) -> Result:
    work = end.consolidation or ConsolidationWork()
    return Result(run_id=end.run_id, status=end.status, reason=end.reason, detail=end.detail, work=work, recovered=end.recovered)


def result_of(run: Run, given: tuple[str, ...] = ()) -> Result:
    assert run.said is not None  # its block is left
    status, reason, detail = run.said
    work = run.consolidation or ConsolidationWork()
    return Result(run_id=run.id, status=status, reason=reason, detail=detail, work=work, given=given)


def verdict(manifest: Manifest) -> tuple[MemoryStatus, MemoryReason]:
    if manifest.applied:
        return MemoryStatus.COMPLETED, MemoryReason.RECORDS_UPDATED
    if manifest.done:
        return MemoryStatus.FAILED, MemoryReason.STORE_CONFLICT
    adopted = any(found.disposition is Disposition.APPLIED for found in manifest.resolutions.values())
    return MemoryStatus.COMPLETED, MemoryReason.NO_RECORD_CHANGES if adopted else MemoryReason.NOTHING_ADOPTED


def work_of(manifest: Manifest) -> ConsolidationWork:
    ops = Counter(each.op for each in manifest.applied)
    ops[RecordOp.DELETE] += ops[RecordOp.DROP]  # a file is removed by either
    return ConsolidationWork(
        staging_count=manifest.counts.get("staging", 0),
        invalid_count=manifest.counts.get("invalid", 0),
        consumed_count=len(manifest.consumed),
        consumed_ids=tuple(manifest.consumed),
        dispositions=dict(Counter(found.disposition for found in manifest.resolutions.values())),
        ops={op: count for op, count in ops.items() if count},
        scope=manifest.scope,
        records=manifest.counts.get("records", 0),
        records_lost=ops[RecordOp.DROP],
        specifics=manifest.counts.get("specifics", 0),
        specifics_lost=sum(each.lost for each in manifest.applied),
    )


def tell(emit: Emit, run_id: str, done: Sequence[Done], *, refused: Sequence[Change] = (), committed: bool = False) -> None:
    """`refused`: what could not be done because the files are not what they were."""
    told: list[Done | Change] = [*done, *refused]
    for each in told:
        applied = isinstance(each, Done) and each.applied
        emit(
            RecordOperation(
                kind=each.kind,
                slug=each.slug,
                path=each.path,
                op=each.op,
                status=OperationStatus.APPLIED if applied else OperationStatus.REJECTED,
                before_sha256=each.before_sha256,
                after_sha256=each.after_sha256,
                lint=() if applied else (Rule.STALE.value,),
                run_id=run_id,
            )
        )
    if committed:
        paths = tuple(each.path for each in done if each.applied)
        emit(StoreCommitted(run_id=run_id, applied=len(paths), paths=paths))
