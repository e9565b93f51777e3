"""The query of `record_usage` stays on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.local_fields import WithoutLocalFields
from telemetry.memory_events import RecordUsed, UsageOp, UsageStatus
from tests.otlp_receiver import Receiver
from tests.telemetry import facts
from tests.telemetry.conftest import recording
from tests.telemetry.log_files import read, record

USED = RecordUsed(op=UsageOp.QUERY, status=UsageStatus.FOUND, caller="main", results=3, query="予算 2027")


class Onward(LogRecordProcessor):
    def __init__(self) -> None:
        self.seen: list[dict[str, object]] = []
        self.closed = False

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        self.seen.append(dict(log_record.log_record.attributes or {}))

    def shutdown(self) -> None:
        self.closed = True

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return timeout_millis == 1


def writable(attributes: dict[str, object], event: str) -> ReadWriteLogRecord:
    made = record(attributes, event=event)
    return ReadWriteLogRecord(made.log_record, made.resource)


def test_a_local_field_is_taken_off_for_the_one_and_left_for_the_others() -> None:
    onward, original = Onward(), writable({"query": "予算", "results": 3}, "record_usage")

    WithoutLocalFields(onward).on_emit(original)

    assert onward.seen == [{"results": 3}]
    assert original.log_record.attributes == {"query": "予算", "results": 3}


def test_the_same_name_in_another_event_is_another_field() -> None:
    onward = Onward()

    WithoutLocalFields(onward).on_emit(writable({"query": "x"}, "reply"))

    assert onward.seen == [{"query": "x"}]


def test_flush_and_end_are_passed_on() -> None:
    onward = Onward()

    assert (WithoutLocalFields(onward).force_flush(1), WithoutLocalFields(onward).force_flush(2)) == (True, False)
    WithoutLocalFields(onward).shutdown()
    assert onward.closed


@pytest.mark.slack  # a loopback collector
def test_a_query_is_in_the_file_and_never_on_the_wire(otlp_receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp_receiver.endpoint)

    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        recorded.emit(USED)

    ((line,),) = (read(file) for file in (tmp_path / "memory" / "_logs").glob("memory-*.log"))
    (sent,) = otlp_receiver.logs
    assert line["query"] == "予算 2027"
    assert "query" not in sent["attributes"] and sent["attributes"]["results"] == 3


@pytest.mark.slack  # a loopback collector
def test_limits_cut_what_is_sent_and_not_the_line_in_the_file(
    otlp_receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp_receiver.endpoint)
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")

    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        recorded.emit(facts.GATE)

    ((line,),) = (read(file) for file in (tmp_path / "logs").glob("bot-*.log"))
    (sent,) = otlp_receiver.logs
    assert line["decision"] == facts.GATE.decision
    assert sent["attributes"]["insomnia.gate.decision"] == facts.GATE.decision[:3]
