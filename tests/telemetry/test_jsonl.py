"""From a fact to its line: fields, ids, numbers, what is lost and how that is told."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter

from telemetry import events
from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.jsonl_fields import COMMON, FIELDS
from telemetry.memory_events import (
    ExtractWork,
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    TokenUsage,
)
from telemetry.names import Event, SpanName, Stream
from tests.telemetry import facts, memory_facts
from tests.telemetry.conftest import Recorded, recording
from tests.telemetry.log_files import DAY, Logs, at, read, record

MODES: dict[str, dict[str, str]] = {
    "usual": {},
    "disabled": {"OTEL_SDK_DISABLED": "true"},
    "unsampled": {"OTEL_TRACES_SAMPLER": "always_off"},
    "parent unsampled": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    "no exporter": {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def one_reply(emit: Any) -> None:
    with emit.span(SpanName.PROCESS), emit.span(SpanName.THREAD_GATE):
        for fact in facts.BOT:
            emit(fact)


def written(state: Path, **settings: Any) -> tuple[list[dict[str, Any]], Recorded]:
    """The lines of one reply in the bot's log."""
    with recording(log_exporters=[JsonlExporter(log_folders(state))], **settings) as recorded:
        one_reply(recorded.emit)
    (file,) = (state / "logs").glob("bot-*.log")
    return read(file), recorded


def test_there_is_a_line_for_each_reply_decision_reset_drop_and_error_with_its_place_in_the_trace(tmp_path: Path) -> None:
    lines, recorded = written(tmp_path)

    by_event = {line["event"]: line for line in lines}
    gate, reset = recorded.span("thread.gate"), recorded.span("session.reset")
    assert by_event.keys() >= {"reply", "gate_decision", "session_reset", "message_dropped", "error"}
    assert {line["trace_id"] for line in lines} == {gate["trace_id"]}
    assert [by_event[event]["span_id"] for event in ("gate_decision", "reply", "error")] == [gate["span_id"]] * 3
    assert by_event["session_reset"]["span_id"] == reset["span_id"]


def test_a_line_has_the_common_fields_first_and_then_its_own(tmp_path: Path) -> None:
    lines, _ = written(tmp_path)
    (gate,) = (line for line in lines if line["event"] == "gate_decision")

    assert list(gate)[:4] == ["ts", "event", "level", "summary"] and list(gate)[-3:] == ["pid", "seq", "v"]
    assert {key: value for key, value in gate.items() if key not in ("ts", "trace_id", "span_id")} == {
        "event": "gate_decision",
        "level": "info",
        "summary": "refetched, after_rotate",
        "route": "main",
        "team": "T1",
        "channel": "C1",
        "thread_ts": "1700000000.000100",
        "decision": "refetched",
        "reason": "after_rotate",
        "known_threads": 7,
        "epoch": 3,
        "trace_flags": "03",
        "pid": os.getpid(),
        "seq": 1,
        "v": 1,
    }


def test_every_field_has_a_short_name_and_none_is_one_of_the_common_ones(tmp_path: Path) -> None:
    lines, _ = written(tmp_path)

    assert [key for line in lines for key in line if "." in key] == []
    assert set(FIELDS.values()) & (COMMON.keys() - {"route"}) == set()
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_no_field_of_a_record_is_lost_on_the_way_to_its_line(tmp_path: Path) -> None:
    kept = InMemoryLogRecordExporter()
    with recording(log_exporters=[kept, JsonlExporter(log_folders(tmp_path))]) as recorded:
        one_reply(recorded.emit)
    (file,) = (tmp_path / "logs").glob("bot-*.log")

    told = [sum(value != "" for value in (one.log_record.attributes or {}).values()) for one in kept.get_finished_logs()]
    assert [len(line.keys() - (COMMON.keys() - {"route"})) for line in read(file)] == told


def test_a_memory_event_is_in_the_memory_log_nested_as_it_is_told(tmp_path: Path) -> None:
    run = MemoryRunEnded(
        run_id="r1",
        worker=MemoryWorker.EXTRACT,
        trigger=MemoryTrigger.IDLE,
        status=MemoryStatus.COMPLETED,
        reason=MemoryReason.CANDIDATES_FOUND,
        seconds=4.0,
        usage=TokenUsage(input=10, output=5),
        extract=ExtractWork(session_id="s1", route="main", range=(3, 9), entries=7, staged=2, staging_ids=("a", "b")),
    )
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded, recorded.emit.span(SpanName.MEMORY_RUN):
        recorded.emit(run)

    ((line,),) = (read(file) for file in (tmp_path / "memory" / "_logs").glob("memory-*.log"))
    assert line.items() >= {"event": "worker_lifecycle", "run_id": "r1", "summary": "MEMORY extract done: staged 2"}.items()
    assert (line["extract"]["range"], line["extract"]["staging_ids"], line["usage"]["input"]) == ([3, 9], ["a", "b"], 10)
    assert line["trace_id"] == recorded.span("memory.run")["trace_id"]


def test_a_consolidation_tells_its_scope_and_what_survived_it_in_its_line(tmp_path: Path) -> None:
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        for fact in (memory_facts.CONSOLIDATION_STARTED, memory_facts.DISCARDED_BY_DEATH, memory_facts.CONSOLIDATION_DONE):
            recorded.emit(fact)
        recorded.emit(memory_facts.COUNTED)

    ((started, discard, done),) = (read(file) for file in (tmp_path / "memory" / "_logs").glob("memory-*.log"))
    survival = {"records": 31, "records_lost": 4, "specifics": 120, "specifics_lost": 7}
    assert (done["consolidation"]["scope"], done["consolidation"]["survival"]) == ("channel:C1", survival)
    assert not started["consolidation"].keys() & {"scope", "survival"}, "neither is known before it has looked"
    assert (discard["why"], "planned" in discard) == ("interrupted", False)


@pytest.mark.parametrize("mode", MODES)
def test_lines_are_the_same_in_every_mode(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, _ = written(tmp_path / "usual")
    for name, value in MODES[mode].items():
        monkeypatch.setenv(name, value)

    lines, _ = written(tmp_path / "mode")

    ids = ("ts", "trace_id", "span_id", "trace_flags")
    assert [{**line, **dict.fromkeys(ids)} for line in lines] == [{**line, **dict.fromkeys(ids)} for line in usual]
    assert len({line["trace_id"] for line in lines}) == 1 and len({line["span_id"] for line in lines}) == 2
    assert {int(line["trace_flags"], 16) & 1 for line in lines} == {0 if "unsampled" in mode else 1}


def test_no_attribute_takes_the_place_of_what_every_line_has(logs: Logs) -> None:
    logs.write({"ts": "never", "event": "other", "summary": "x", "level": "x", "pid": -1, "seq": -1, "v": -1, "name": "kept", "message": 1})

    (line,) = logs.lines()
    assert (line["ts"], line["event"], line["pid"], line["seq"], line["v"]) == (f"{DAY}T12:00:00.000Z", "reply", os.getpid(), 1, 1)
    assert (line["name"], line["message"]) == ("kept", 1)


def test_lines_that_could_not_be_written_are_told_before_the_next_one(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.write({"n": 1})
    with monkeypatch.context() as full:
        full.setattr(os, "write", _full)
        for second in range(3):
            logs.now = at(f"{DAY}T12:00:0{second}")
            assert not logs.write({"n": 2 + second})

    assert logs.write({"n": 5})

    gap, last = logs.lines()[1:]
    assert (
        gap.items()
        >= {
            "event": "log_gap",
            "level": "warn",
            "summary": "3 lines were lost (ENOSPC)",
            "dropped": 3,
            "since": f"{DAY}T12:00:00.000Z",
            "until": f"{DAY}T12:00:02.000Z",
            "error": "ENOSPC",
        }.items()
    )
    assert (last["n"], last["seq"] - logs.lines()[0]["seq"] - 1) == (5, 3 + 1)  # three lines, and the one that tells
    assert logs.counts() == (3, 3, 0)


def test_a_gap_is_told_at_the_exit_where_no_line_came_any_more(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "write", _full)
        logs.write()

    logs.exporter.shutdown()

    assert [line["event"] for line in logs.lines()] == ["log_gap"]
    assert logs.write() and len(logs.lines()) == 2  # a straggler


def test_a_record_with_an_impossible_time_costs_itself_alone(logs: Logs) -> None:
    assert not logs.write({"n": 1}, when=10**30)
    assert logs.write({"n": 2})

    gap, line = logs.lines()
    assert (gap["dropped"], gap["error"], line["n"]) == (1, "OverflowError", 2)


def test_a_record_that_nothing_can_be_made_of_costs_itself_alone(logs: Logs) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert not logs.write({"n": Unspeakable()})
    assert logs.write({"n": 2}) and logs.counts() == (2, 1, 0)


def test_nothing_that_goes_wrong_reaches_whoever_emitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")

    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        one_reply(recorded.emit)
        dropped = recorded.value("insomnia.audit.dropped", stream="bot")

    assert dropped and dropped > 10
    assert capsys.readouterr().err.count("\n") == 1


def test_the_metrics_say_what_the_files_say_and_are_there_before_the_first_line(tmp_path: Path) -> None:
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        names = ("insomnia.audit.lines", "insomnia.audit.dropped", "insomnia.audit.repaired")
        before = [recorded.value(name, stream=stream) for name in names for stream in Stream]
        one_reply(recorded.emit)
        lines = recorded.value("insomnia.audit.lines", stream="bot")
        (file,) = (tmp_path / "logs").glob("bot-*.log")

        assert before == [0] * 6 and lines == len(read(file))


def test_many_threads_write_whole_lines_with_numbers_of_their_own(logs: Logs) -> None:
    def work() -> None:
        for n in range(200):
            logs.write({"n": n, "text": "金曜" * n})

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [line["seq"] for line in logs.lines()] == list(range(1, 1601))


def test_two_exporters_on_one_file_lose_nothing(logs: Logs) -> None:
    other = logs.another()
    for n in range(50):
        logs.write({"n": n})
        other.export([record({"n": n})])

    assert [line["n"] for line in logs.lines()] == [n for n in range(50) for _ in range(2)]
    assert logs.counts() == (50, 0, 0)


def test_a_signal_handler_may_log_in_the_middle_of_a_line(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: logs.write({"n": "signal"}))
    really = os.write

    def interrupted(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", really)
        signal.raise_signal(signal.SIGUSR1)
        return os.write(fd, data)

    monkeypatch.setattr(os, "write", interrupted)
    try:
        assert logs.write({"n": "main"})
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert [line["n"] for line in logs.lines()] == ["signal", "main"]


def test_what_is_flushed_is_on_the_disk(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    logs.write(event=Event.REPLY)
    logs.write(event=Event.RECORD_USAGE)

    assert logs.exporter.force_flush() and len(synced) == 2


def test_a_disk_that_cannot_sync_is_said_and_not_raised(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.write()
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))

    assert not logs.exporter.force_flush()
    assert "cannot be brought onto the disk" in capsys.readouterr().err


def test_a_drop_without_a_route_has_none_in_its_line(tmp_path: Path) -> None:
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        recorded.emit(events.MessageDropped(reason=events.DropReason.NOT_ROUTED, channel="C9"))
    (file,) = (tmp_path / "logs").glob("bot-*.log")

    (line,) = read(file)
    assert (line["reason"], "route" in line, "trace_id" in line) == ("not_routed", False, False)


def _full(fd: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
