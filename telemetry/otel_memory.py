"""Facts of the memory mechanism → span attributes, metrics, log records. Which fact goes where is said once, in `sink`.

A memory log record carries the fields that its line in the log has, under the same names, nested where the line is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.trace import Status, StatusCode

from telemetry import metric_names
from telemetry.actionbar import summary
from telemetry.emit import AttrValue
from telemetry.memory_events import (
    ConsolidationWork,
    Disposition,
    ExtractWork,
    MemoryCounted,
    MemoryFact,
    MemoryRunEnded,
    MemoryRunNotDue,
    MemoryRunStarted,
    MemoryStatus,
    OperationStatus,
    RecordOp,
    RecordOperation,
    RecordUsed,
    StoreCommitted,
    StoreDiscarded,
    TokenUsage,
)
from telemetry.metrics import Metrics
from telemetry.names import Attr, Event, SpanName
from telemetry.spans import plain
from telemetry.status_file import clean

# A line has room for 32 KiB; the counts beside the lists stay whole.
MAX_STAGING_IDS, MAX_CONSUMED_IDS, MAX_PATHS = 50, 100, 100
MAX_QUERY = 200

_SEVERITY = {MemoryStatus.FAILED: SeverityNumber.ERROR, MemoryStatus.CANCELLED: SeverityNumber.WARN}
OPS = {
    RecordOp.WRITE: Attr.MEMORY_WRITTEN,
    RecordOp.EDIT: Attr.MEMORY_EDITED,
    RecordOp.TRIM: Attr.MEMORY_TRIMMED,
    RecordOp.MERGE: Attr.MEMORY_MERGED,
    RecordOp.DROP: Attr.MEMORY_DROPPED,
    RecordOp.DELETE: Attr.MEMORY_DELETED,
}
DISPOSITIONS = {
    Disposition.APPLIED: Attr.MEMORY_ADOPTED,
    Disposition.DUPLICATE: Attr.MEMORY_DUPLICATE,
    Disposition.ALREADY_COVERED: Attr.MEMORY_COVERED,
    Disposition.DISCARDED: Attr.MEMORY_DISCARDED,
    Disposition.DEFERRED: Attr.MEMORY_DEFERRED,
}

Fields = dict[str, Any]


class Record(Protocol):
    def __call__(self, event: Event, fields: Mapping[str, Any], what: str, severity: SeverityNumber) -> None: ...


class MemorySinks:
    """`record` writes a log record."""

    def __init__(self, metrics: Metrics, *, record: Record) -> None:
        self._metrics, self._record = metrics, record

    def sink(self, fact: MemoryFact) -> None:
        match fact:
            case MemoryRunStarted():
                self._run_started(fact)
            case MemoryRunEnded():
                self._run_ended(fact)
            case MemoryRunNotDue():
                labels = {"worker": fact.worker, "trigger": fact.trigger, "status": MemoryStatus.SKIPPED, "reason": fact.reason}
                self._metrics.add(metric_names.MEMORY_RUNS, labels)
            case RecordOperation():
                self._operation(fact)
            case StoreCommitted():
                fields: Fields = {"run_id": fact.run_id, "applied": fact.applied, "paths": fact.paths[:MAX_PATHS]}
                self._record(Event.STORE_COMMIT, fields, f"{fact.applied} applied", SeverityNumber.INFO)
            case StoreDiscarded():
                fields = {"run_id": fact.run_id, "why": fact.why.value}
                fields |= {} if fact.planned is None else {"planned": fact.planned}
                planned = "what was planned" if fact.planned is None else f"{fact.planned} planned"
                self._record(Event.STORE_DISCARD, fields, f"{planned}, {fact.why}", SeverityNumber.WARN)
            case RecordUsed():
                self._used(fact)
            case MemoryCounted():
                self._metrics.memory.counted(fact)
            case _:
                assert_never(fact)

    def _run_started(self, fact: MemoryRunStarted) -> None:
        _note({Attr.MEMORY_RUN_ID: fact.run_id, Attr.MEMORY_WORKER: fact.worker, Attr.MEMORY_TRIGGER: fact.trigger})
        fields: Fields = {
            "run_id": fact.run_id,
            "worker": fact.worker.value,
            "status": MemoryStatus.STARTED.value,
            "trigger": fact.trigger.value,
            **_given(model=fact.model),
            **_work(fact.extract, fact.consolidation),
        }
        self._record(Event.WORKER_LIFECYCLE, fields, summary(worker=fact.worker, status=MemoryStatus.STARTED), SeverityNumber.INFO)

    def _run_ended(self, fact: MemoryRunEnded) -> None:
        _note(_on_span(fact), error=fact.reason.value if fact.status is MemoryStatus.FAILED else "")
        labels = {"worker": fact.worker, "trigger": fact.trigger, "status": fact.status, "reason": fact.reason}
        self._metrics.add(metric_names.MEMORY_RUNS, labels)
        self._metrics.record(metric_names.MEMORY_RUN_DURATION, labels, fact.seconds)
        if work := _carried_out(fact):
            for disposition, count in work.dispositions.items():
                self._metrics.add(metric_names.MEMORY_DISPOSITIONS, {"disposition": disposition}, count)
            for what, lost in zip(metric_names.LOST_OF_MEMORY, (work.records_lost, work.specifics_lost), strict=True):
                self._metrics.add(metric_names.MEMORY_LOST, {"what": what}, lost)
        words = summary(worker=fact.worker, status=fact.status, reason=fact.reason, **_counts(fact))
        self._record(Event.WORKER_LIFECYCLE, _ended(fact), words, _SEVERITY.get(fact.status, SeverityNumber.INFO))

    def _operation(self, fact: RecordOperation) -> None:
        kind = fact.kind.value if fact.kind else metric_names.NONE
        labels = {"kind": kind, "op": fact.op, "status": fact.status}
        rejected = fact.status is OperationStatus.REJECTED
        if fact.unaudited:
            self._metrics.add(metric_names.MEMORY_UNAUDITED, {"kind": kind})
        elif fact.status is not OperationStatus.PLANNED:
            self._metrics.add(metric_names.MEMORY_OPERATIONS, labels)
        for rule in fact.lint if rejected else ():
            if not rule.startswith("W"):  # a warning alone refuses nothing
                self._metrics.add(metric_names.MEMORY_LINT_FAILURES, {"rule": rule})
        fields: Fields = {
            **_given(run_id=fact.run_id),
            "kind": kind,
            "slug": clean(fact.slug),  # of a rejected operation it is whatever the model wrote
            "path": clean(fact.path),
            "op": fact.op.value,
            "status": fact.status.value,
            **_given(before_sha256=fact.before_sha256, after_sha256=fact.after_sha256),
            "lint": fact.lint,
            **_given(unaudited=fact.unaudited),
        }
        what = f"{fact.op} {kind} {clean(fact.slug)} {fact.status}" + (f": {', '.join(fact.lint)}" if fact.lint else "")
        self._record(Event.RECORD_OPERATION, fields, what, SeverityNumber.WARN if rejected else SeverityNumber.INFO)

    def _used(self, fact: RecordUsed) -> None:
        kind = fact.kind.value if fact.kind else metric_names.NONE
        self._metrics.add(metric_names.MEMORY_USAGE, {"op": fact.op, "kind": kind, "status": fact.status})
        fields: Fields = {
            **_given(run_id=fact.run_id),
            "op": fact.op.value,
            "kind": kind,
            **_given(slug=clean(fact.slug), query=fact.query[:MAX_QUERY]),
            "results": fact.results,
            "status": fact.status.value,
            "caller": fact.caller,
        }
        self._record(Event.RECORD_USAGE, fields, f"{fact.op} {kind} {fact.status}, {fact.results} results", SeverityNumber.INFO)


def _note(about: Mapping[Attr, AttrValue], *, error: str = "") -> None:
    """Onto the run's own span. A skip may be told where there is none, in a reply for instance, or in another run."""
    span = trace.get_current_span()
    known: Mapping[str, Any] = getattr(span, "attributes", None) or {}
    is_own = str(about[Attr.MEMORY_RUN_ID]).startswith(str(known.get(Attr.MEMORY_RUN_ID.value, "")))
    if is_own and str(getattr(span, "name", "")).partition(" ")[0] == SpanName.MEMORY_RUN:
        span.set_attributes(plain(about))
        if error:
            span.set_attribute(Attr.ERROR_TYPE.value, error)
            span.set_status(Status(StatusCode.ERROR))


def _on_span(fact: MemoryRunEnded) -> dict[Attr, AttrValue]:
    about: dict[Attr, AttrValue] = {
        Attr.MEMORY_RUN_ID: fact.run_id,
        Attr.MEMORY_WORKER: fact.worker,
        Attr.MEMORY_TRIGGER: fact.trigger,
        Attr.MEMORY_STATUS: fact.status,
        Attr.MEMORY_REASON: fact.reason,
        **({Attr.MEMORY_DETAIL: fact.detail} if fact.detail else {}),
        **({Attr.MEMORY_RECOVERED: True} if fact.recovered else {}),
        **(_what_was_read(fact.extract) if fact.extract else {}),
    }
    if fact.extract:
        about[Attr.MEMORY_STAGED] = fact.extract.staged
    if fact.consolidation:
        about |= _consolidation_on_span(fact.consolidation)
    if work := _carried_out(fact):
        about |= {Attr.MEMORY_RECORDS_LOST: work.records_lost, Attr.MEMORY_SPECIFICS_LOST: work.specifics_lost}
    return about


def _consolidation_on_span(work: ConsolidationWork) -> dict[Attr, AttrValue]:
    return {
        **({Attr.MEMORY_SCOPE: work.scope} if work.scope else {}),
        Attr.MEMORY_CANDIDATES: work.staging_count,
        Attr.MEMORY_INVALID: work.invalid_count,
        Attr.MEMORY_CONSUMED: work.consumed_count,
        **{attr: work.dispositions.get(disposition, 0) for disposition, attr in DISPOSITIONS.items()},
        **{attr: work.ops.get(op, 0) for op, attr in OPS.items()},
    }


def _carried_out(fact: MemoryRunEnded) -> ConsolidationWork | None:
    """None for a run that did not complete: it took nothing away, whatever it had planned."""
    return fact.consolidation if fact.status is MemoryStatus.COMPLETED else None


def _ended(fact: MemoryRunEnded) -> Fields:
    return {
        "run_id": fact.run_id,
        "worker": fact.worker.value,
        "status": fact.status.value,
        "trigger": fact.trigger.value,
        "reason": fact.reason.value,
        **_given(detail=fact.detail, model=fact.model),
        **({"usage": _usage(fact.usage)} if fact.usage else {}),
        **({"cost_usd": fact.cost_usd} if fact.cost_usd is not None else {}),
        "duration_ms": round(fact.seconds * 1000),
        **_given(recovered=fact.recovered, suppressed=fact.suppressed),
        **_work(fact.extract, fact.consolidation, completed=fact.status is MemoryStatus.COMPLETED),
    }


def _usage(usage: TokenUsage) -> Fields:
    return {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read, "cache_creation": usage.cache_creation}


def _work(extract: ExtractWork | None, consolidation: ConsolidationWork | None, *, completed: bool = False) -> Fields:
    return {
        **({"extract": _extract(extract)} if extract else {}),
        **({"consolidation": _consolidation(consolidation, completed=completed)} if consolidation else {}),
    }


def _extract(work: ExtractWork) -> Fields:
    return {
        "session_id": work.session_id,
        "route": work.route,
        **({"range": work.range} if work.range else {}),
        "entries": work.entries,
        "staged": work.staged,
        "staging_ids": work.staging_ids[:MAX_STAGING_IDS],
        **_given(staging_path=work.staging_path),
    }


def _consolidation(work: ConsolidationWork, *, completed: bool) -> Fields:
    return {
        **_given(scope=work.scope),
        "staging_count": work.staging_count,
        "invalid_count": work.invalid_count,
        "consumed_count": work.consumed_count,
        "consumed_ids": work.consumed_ids[:MAX_CONSUMED_IDS],
        "dispositions": {disposition.value: work.dispositions.get(disposition, 0) for disposition in Disposition},
        "ops": {op.value: work.ops.get(op, 0) for op in RecordOp},
        **({"survival": _survival(work)} if completed else {}),
    }


def _survival(work: ConsolidationWork) -> Fields:
    return {
        "records": work.records,
        "records_lost": work.records_lost,
        "specifics": work.specifics,
        "specifics_lost": work.specifics_lost,
    }


def _counts(fact: MemoryRunEnded) -> Fields:
    ops = fact.consolidation.ops if fact.consolidation else {}
    return {"staged": fact.extract.staged if fact.extract else 0, "ops": {op.value: count for op, count in ops.items()}}


def _given(**fields: str | int | bool) -> Fields:
    """Those that say something."""
    return {name: value for name, value in fields.items() if value}


def _what_was_read(work: ExtractWork) -> dict[Attr, AttrValue]:
    first, last = work.range or (0, 0)
    known: dict[Attr, AttrValue] = {Attr.ROUTE: work.route, Attr.MEMORY_SESSION: work.session_id}
    numbers: dict[Attr, AttrValue] = {Attr.MEMORY_FIRST: first, Attr.MEMORY_LAST: last, Attr.MEMORY_ENTRIES: work.entries}
    return {attr: value for attr, value in (known | (numbers if work.range else {})).items() if value != ""}
