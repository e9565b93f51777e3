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
from telemetry.names import Event, Stream
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
                "scope": "channel:C1",
                "survival": {"records": 31, "records_lost": 4, "specifics": 120, "specifics_lost": 7},
            },
        },
    ),
    (
        facts.CONSOLIDATION_STARTED,
        "INFO",
        "worker_lifecycle: MEMORY consolidation running…",
        {
            "run_id": "c1",
            "worker": "memory_consolidation",
            "status": "started",
            "trigger": "idle",
            "consolidation": {
                "staging_count": 9,
                "invalid_count": 1,
                "consumed_count": 0,
                "consumed_ids": (),
                "dispositions": NOTHING_DISPOSED,
                "ops": NO_OPS,
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
        facts.DISCARDED_BY_DEATH,
        "WARN",
        "store_discard: what was planned, interrupted",
        {"run_id": "c4", "why": "interrupted"},
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
            "insomnia.memory.lost": [({"what": "records"}, 4), ({"what": "specifics"}, 7)],
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
    (facts.DISCARDED_BY_DEATH, {}),
    (
        replace(facts.COUNTED, last_success={}),
        {
            "insomnia.memory.backlog": [({}, 11)],
            "insomnia.memory.backlog.age": [({}, pytest.approx(3_600, abs=60))],
            "insomnia.memory.records": [({"kind": "decision"}, 12), ({"kind": "knowledge"}, 3)],
            "insomnia.memory.unextracted_entries": [({}, 250)],
        },
    ),
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
