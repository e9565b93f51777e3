"""What the span of an extract run says of what was read, and any run's of why it ended so."""

from __future__ import annotations

from telemetry.names import SpanName
from tests.telemetry import memory_facts as facts
from tests.telemetry.conftest import Recorded


def test_what_an_extract_run_read_stands_on_its_span_and_why_it_ended_so(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.MEMORY_RUN, label="memory_extract"):
        recorded.emit(facts.EXTRACT_DONE)
    with recorded.emit.span(SpanName.MEMORY_RUN, label="memory_consolidation"):
        recorded.emit(facts.EXTRACT_FAILED)

    done, failed = (recorded.span(f"memory.run {worker}")["attributes"] for worker in ("memory_extract", "memory_consolidation"))
    assert done == {
        "insomnia.memory.run_id": "x1",
        "insomnia.memory.worker": "memory_extract",
        "insomnia.memory.trigger": "session_end",
        "insomnia.memory.status": "completed",
        "insomnia.memory.reason": "candidates_found",
        "insomnia.memory.staged": 3,
        "insomnia.route": "main",
        "insomnia.memory.session": "5e55",
        "insomnia.memory.range.first": 11,
        "insomnia.memory.range.last": 40,
        "insomnia.memory.entries": 30,
    }
    assert (failed["insomnia.memory.detail"], failed["insomnia.memory.recovered"]) == ("HTTP 529 three times", True)
