"""What the end of a memory run puts on its span, and on no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telemetry.memory_events import MemoryReason, MemoryStatus
from telemetry.names import Attr, SpanName
from tests.telemetry import memory_facts as facts
from tests.telemetry.conftest import Recorded


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
        "insomnia.memory.scope": "channel:C1",
        "insomnia.memory.candidates": 9,
        "insomnia.memory.invalid": 1,
        "insomnia.memory.consumed": 8,
        "insomnia.memory.dispositions.applied": 6,
        "insomnia.memory.dispositions.duplicate": 2,
        "insomnia.memory.dispositions.already_covered": 0,
        "insomnia.memory.dispositions.discarded": 0,
        "insomnia.memory.dispositions.deferred": 0,
        "insomnia.memory.lost.records": 4,
        "insomnia.memory.lost.specifics": 7,
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


@pytest.mark.parametrize(
    ("status", "reason"), [(MemoryStatus.FAILED, MemoryReason.STORE_CONFLICT), (MemoryStatus.CANCELLED, MemoryReason.USER_CANCELLED)]
)
def test_of_a_run_that_did_not_complete_no_disposition_is_counted_and_nothing_is_said_to_be_lost(
    recorded: Recorded, status: MemoryStatus, reason: MemoryReason
) -> None:
    with recorded.emit.span(SpanName.MEMORY_RUN, label="memory_consolidation"):
        recorded.emit(replace(facts.CONSOLIDATION_DONE, status=status, reason=reason))

    about, line = recorded.span("memory.run memory_consolidation")["attributes"], recorded.records()[0]["attributes"]["consolidation"]
    assert (recorded.nonzero("insomnia.memory.dispositions"), recorded.nonzero("insomnia.memory.lost")) == ([], [])
    assert (about["insomnia.memory.candidates"], line["staging_count"], line["scope"]) == (9, 9, "channel:C1")
    assert "survival" not in line and not [key for key in about if ".lost." in key]
