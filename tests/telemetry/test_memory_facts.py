"""What each memory fact puts on its span, into the metrics and into the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from telemetry import memory_events
from telemetry.memory_events import (
    REASONS,
    TRIGGERS,
    Disposition,
    MemoryFact,
    MemoryReason,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    OperationStatus,
    RecordOp,
)
from telemetry.names import Attr, Event, SpanName, Stream
from telemetry.otel_memory import MAX_CONSUMED_IDS, MAX_PATHS, MAX_QUERY, MAX_STAGING_IDS
from tests.telemetry import memory_facts as facts
from tests.telemetry.conftest import Recorded

USAGE = {"input": 900, "output": 80, "cache_read": 700, "cache_creation": 60}
WORK_READ = {"session_id": "5e55", "route": "main", "range": (11, 40), "entries": 30}
NO_OPS = dict.fromkeys(("write", "edit", "trim", "merge", "drop", "delete"), 0)
NOTHING_DISPOSED = dict.fromkeys(("applied", "duplicate", "already_covered", "discarded", "deferred"), 0)

# Fact → severity, summary and fields of its one log record, in which a line's object is an object.
RECORDS: list[tuple[MemoryFact, str, str, dict[str, Any]]] = [
    (
        facts.EXTRACT_STARTED,
        "INFO",
        "worker_lifecycle: MEMORY extract running…",
        {
            "run_id": "x1",
            "worker": "memory_extract",
            "status": "started",
            "trigger": "session_end",
            "model": "claude-x",
            "extract": {**WORK_READ, "staged": 0, "staging_ids": ()},
        },
    ),
    (
        facts.EXTRACT_DONE,
        "INFO",
        "worker_lifecycle: MEMORY extract done: staged 3",
        {
            "run_id": "x1",
            "worker": "memory_extract",
            "status": "completed",
            "trigger": "session_end",
            "reason": "candidates_found",
            "model": "claude-x",
            "usage": USAGE,
            "cost_usd": 0.02,
            "duration_ms": 4250,
            "extract": {**WORK_READ, "staged": 3, "staging_ids": ("a", "b", "c"), "staging_path": "memory/_staging/5e55.11"},
        },
    ),
    (
        facts.CONSOLIDATION_DONE,
        "INFO",
        "worker_lifecycle: MEMORY consolidation done: wrote 1, merged 2, dropped 4",
        {
            "run_id": "c1",
            "worker": "memory_consolidation",
            "status": "completed",
            "trigger": "idle",
            "reason": "records_updated",
            "usage": USAGE,
            "duration_ms": 12_000,
            "consolidation": {
                "staging_count": 9,
                "invalid_count": 1,
                "consumed_count": 8,
                "consumed_ids": ("a", "b"),
                "dispositions": {**NOTHING_DISPOSED, "applied": 6, "duplicate": 2},
                "ops": {**NO_OPS, "write": 1, "merge": 2, "drop": 4},
            },
        },
    ),
    (
        facts.EXTRACT_FAILED,
        "ERROR",
        "worker_lifecycle: MEMORY extract failed: model_error",
        {
            "run_id": "x2",
            "worker": "memory_extract",
            "status": "failed",
            "trigger": "startup_recovery",
            "reason": "model_error",
            "detail": "HTTP 529 three times",
            "duration_ms": 1000,
            "recovered": True,
        },
    ),
    (
        facts.NO_STAGING,
        "INFO",
        "worker_lifecycle: MEMORY consolidation skipped: no staging",
        {
            "run_id": "c2",
            "worker": "memory_consolidation",
            "status": "skipped",
            "trigger": "manual",
            "reason": "no_staging",
            "duration_ms": 0,
            "suppressed": 12,
        },
    ),
    (
        facts.CANCELLED,
        "WARN",
        "worker_lifecycle: MEMORY extract cancelled: superseded",
        {
            "run_id": "x3",
            "worker": "memory_extract",
            "status": "cancelled",
            "trigger": "idle",
            "reason": "superseded",
            "duration_ms": 500,
        },
    ),
    (
        facts.WRITTEN,
        "INFO",
        "record_operation: edit decision freeze applied",
        {
            "run_id": "c1",
            "kind": "decision",
            "slug": "freeze",
            "path": "memory/decision/freeze.md",
            "op": "edit",
            "status": "applied",
            "before_sha256": "0" * 64,
            "after_sha256": "1" * 64,
            "lint": (),
        },
    ),
    (
        facts.REJECTED,
        "WARN",
        "record_operation: write lesson Über[2J rejected: L102, W701",
        {
            "run_id": "c1",
            "kind": "lesson",
            "slug": "Über[2J",
            "path": "memory/lesson/Über.md",
            "op": "write",
            "status": "rejected",
            "lint": ("L102", "W701"),
        },
    ),
    (
        facts.UNAUDITED,
        "INFO",
        "record_operation: edit knowledge terms applied",
        {
            "kind": "knowledge",
            "slug": "terms",
            "path": "knowledge/terms.md",
            "op": "edit",
            "status": "applied",
            "before_sha256": "0" * 64,
            "after_sha256": "2" * 64,
            "lint": (),
            "unaudited": True,
        },
    ),
    (
        facts.COMMITTED,
        "INFO",
        "store_commit: 7 applied",
        {"run_id": "c1", "applied": 7, "paths": ("memory/decision/freeze.md",)},
    ),
    (
        facts.DISCARDED,
        "WARN",
        "store_discard: 7 planned, store_conflict",
        {"run_id": "c1", "planned": 7, "why": "store_conflict"},
    ),
    (
        facts.QUERIED,
        "INFO",
        "record_usage: query none found, 2 results",
        {"op": "query", "kind": "none", "query": "金曜のデプロイ", "results": 2, "status": "found", "caller": "main"},
    ),
    (
        facts.READ_ONE,
        "INFO",
        "record_usage: read decision not_found, 0 results",
        {
            "run_id": "c1",
            "op": "read",
            "kind": "decision",
            "slug": "gone",
            "results": 0,
            "status": "not_found",
            "caller": "memory_consolidation",
        },
    ),
]


@pytest.mark.parametrize(("fact", "severity", "body", "fields"), RECORDS, ids=[body.partition(": ")[2] for _, _, body, _ in RECORDS])
def test_a_memory_fact_is_one_log_record(recorded: Recorded, fact: MemoryFact, severity: str, body: str, fields: dict[str, Any]) -> None:
    recorded.emit(fact)

    (record,) = recorded.records()
    assert (record["severity"], record["body"]) == (severity, body)
    assert plain(record["attributes"]) == plain(fields)
    assert Event(record["event_name"]).stream is Stream.MEMORY


# Fact → the series that it moves, beside the histogram of durations.
RUN = {"worker": "memory_extract", "trigger": "session_end", "status": "completed", "reason": "candidates_found"}
CONSOLIDATION = {"worker": "memory_consolidation", "trigger": "idle", "status": "completed", "reason": "records_updated"}
COUNTED: list[tuple[MemoryFact, dict[str, list[tuple[dict[str, str], float]]]]] = [
    (facts.EXTRACT_STARTED, {}),
    (facts.EXTRACT_DONE, {"insomnia.memory.runs": [(RUN, 1)], "insomnia.memory.run.duration": [(RUN, 4.25)]}),
    (
        facts.CONSOLIDATION_DONE,
        {
            "insomnia.memory.runs": [(CONSOLIDATION, 1)],
            "insomnia.memory.run.duration": [(CONSOLIDATION, 12.0)],
            "insomnia.memory.dispositions": [({"disposition": "applied"}, 6), ({"disposition": "duplicate"}, 2)],
        },
    ),
    (
        facts.NOT_DUE,
        {
            "insomnia.memory.runs": [
                ({"worker": "memory_extract", "trigger": "turn_threshold", "status": "skipped", "reason": "below_threshold"}, 1)
            ]
        },
    ),
    (facts.WRITTEN, {"insomnia.memory.operations": [({"kind": "decision", "op": "edit", "status": "applied"}, 1)]}),
    (
        facts.REJECTED,
        {
            "insomnia.memory.operations": [({"kind": "lesson", "op": "write", "status": "rejected"}, 1)],
            "insomnia.memory.lint_failures": [({"rule": "L102"}, 1)],
        },
    ),
    (replace(facts.WRITTEN, status=OperationStatus.PLANNED, lint=("W701",)), {}),
    (facts.UNAUDITED, {"insomnia.memory.unaudited_changes": [({"kind": "knowledge"}, 1)]}),
    (facts.COMMITTED, {}),
    (facts.DISCARDED, {}),
    (facts.QUERIED, {"insomnia.memory.usage": [({"op": "query", "kind": "none", "status": "found"}, 1)]}),
    (facts.READ_ONE, {"insomnia.memory.usage": [({"op": "read", "kind": "decision", "status": "not_found"}, 1)]}),
]


@pytest.mark.parametrize(("fact", "moved"), COUNTED, ids=lambda value: type(value).__name__)
def test_a_memory_fact_moves_these_series_and_no_other(
    recorded: Recorded, fact: MemoryFact, moved: dict[str, list[tuple[dict[str, str], float]]]
) -> None:
    recorded.emit(fact)

    names = {point["name"] for point in recorded.points() if point["name"].startswith("insomnia.memory.") and point["value"]}
    assert {name: recorded.nonzero(name) for name in names} == moved


def test_every_memory_fact_is_compared_above() -> None:
    assert {type(fact) for fact, *_ in (*RECORDS, *COUNTED)} == set(get_args(MemoryFact))
    assert {type(fact) for fact in facts.ALL} == set(get_args(MemoryFact))


def test_the_end_of_a_run_stands_on_its_span_in_numbers(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.MEMORY_RUN, {Attr.MEMORY_LIMIT: 300.0}, label="memory_consolidation"):
        recorded.emit(facts.CONSOLIDATION_STARTED)
        recorded.emit(facts.CONSOLIDATION_DONE)

    span = recorded.span("memory.run memory_consolidation")
    assert span["status"] == "UNSET"
    assert span["attributes"] == {
        "insomnia.memory.limit_s": 300.0,
        "insomnia.memory.run_id": "c1",
        "insomnia.memory.worker": "memory_consolidation",
        "insomnia.memory.trigger": "idle",
        "insomnia.memory.status": "completed",
        "insomnia.memory.reason": "records_updated",
        "insomnia.memory.ops.write": 1,
        "insomnia.memory.ops.edit": 0,
        "insomnia.memory.ops.trim": 0,
        "insomnia.memory.ops.merge": 2,
        "insomnia.memory.ops.drop": 4,
        "insomnia.memory.ops.delete": 0,
    }
    assert {record["span_id"] for record in recorded.records()} == {span["span_id"]}


def test_a_failed_run_is_an_error_on_its_span_with_the_reason_as_its_class(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.MEMORY_RUN, label="memory_extract"):
        recorded.emit(facts.EXTRACT_FAILED)

    span = recorded.span("memory.run memory_extract")
    assert (span["status"], span["attributes"]["error.type"]) == ("ERROR", "model_error")


def test_a_skip_that_is_told_in_the_middle_of_a_reply_leaves_the_reply_s_span_alone(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS) as reply:
        recorded.emit(facts.NO_STAGING)

    assert recorded.span("process slack")["attributes"] == {}
    assert recorded.records()[0]["trace_id"] == reply.ref.trace_id


def test_a_skip_of_one_run_in_the_middle_of_another_leaves_that_one_s_span_alone(recorded: Recorded) -> None:
    about = {Attr.MEMORY_RUN_ID: "x1"}
    with recorded.emit.span(SpanName.MEMORY_RUN, about, label="memory_extract"):
        recorded.emit(facts.NO_STAGING)

    assert recorded.span("memory.run memory_extract")["attributes"] == {"insomnia.memory.run_id": "x1"}


def test_lists_are_cut_and_their_counts_are_not(recorded: Recorded) -> None:
    ids = tuple(f"id{number}" for number in range(500))
    recorded.emit(replace(facts.EXTRACT_DONE, extract=replace(facts.STAGED, staged=500, staging_ids=ids)))
    recorded.emit(replace(facts.CONSOLIDATION_DONE, consolidation=replace(facts.CONSOLIDATED, consumed_count=500, consumed_ids=ids)))
    recorded.emit(replace(facts.COMMITTED, applied=500, paths=ids))
    recorded.emit(replace(facts.QUERIED, query="記" * 500))

    extract, consolidation, commit, query = (record["attributes"] for record in recorded.records())
    assert (len(extract["extract"]["staging_ids"]), extract["extract"]["staged"]) == (MAX_STAGING_IDS, 500)
    assert (len(consolidation["consolidation"]["consumed_ids"]), consolidation["consolidation"]["consumed_count"]) == (
        MAX_CONSUMED_IDS,
        500,
    )
    assert (len(commit["paths"]), commit["applied"]) == (MAX_PATHS, 500)
    assert len(query["query"]) == MAX_QUERY


def test_dispositions_of_a_run_that_did_not_complete_are_not_counted(recorded: Recorded) -> None:
    failed = replace(facts.CONSOLIDATION_DONE, status=MemoryStatus.FAILED, reason=MemoryReason.STORE_CONFLICT)

    recorded.emit(failed)

    assert recorded.nonzero("insomnia.memory.dispositions") == []


def test_every_status_of_every_worker_has_its_reasons_and_every_reason_its_place() -> None:
    placed = {reason for of_worker in REASONS.values() for reasons in of_worker.values() for reason in reasons}

    assert REASONS.keys() == TRIGGERS.keys() == set(MemoryWorker)
    assert all(of_worker.keys() == set(MemoryStatus) - {MemoryStatus.STARTED} for of_worker in REASONS.values())
    assert placed == set(MemoryReason)


def test_our_code_never_says_that_a_trigger_is_unknown() -> None:
    assert all(MemoryTrigger.UNKNOWN not in triggers for triggers in TRIGGERS.values())
    assert all(getattr(fact, "trigger", None) is not MemoryTrigger.UNKNOWN for fact in facts.ALL)


def test_the_words_of_the_log_are_those_of_the_design() -> None:
    assert {status.value for status in MemoryStatus} == {"started", "completed", "skipped", "failed", "cancelled"}
    assert {op.value for op in RecordOp} == set(NO_OPS)
    assert {disposition.value for disposition in Disposition} == set(NOTHING_DISPOSED)
    assert memory_events.MemoryWorker.EXTRACT.value == "memory_extract"


def plain(value: Any) -> Any:
    """The SDK hands lists back as tuples and mappings as its own kind."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value
