"""Facts and their sinks."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest

from telemetry import events
from telemetry.events import Fact, ResetCause, TraceRef
from telemetry.names import SpanName
from tests.telemetry import facts
from tests.telemetry.conftest import Recorded, recording

REF = TraceRef("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


def test_there_is_an_example_of_each_fact() -> None:
    assert {type(fact) for fact in facts.ALL} == set(typing.get_args(Fact))


@pytest.mark.parametrize("fact", facts.ALL, ids=lambda fact: type(fact).__name__)
def test_each_fact_reaches_its_sinks_without_a_failure(fact: Fact, capsys: pytest.CaptureFixture[str]) -> None:
    with recording() as recorded:
        before = recorded.points()

        recorded.emit(fact)

        assert recorded.value("insomnia.telemetry.failures") == 0
        changed = [point for point in recorded.points() if point not in before]
        assert recorded.records() or changed
    assert capsys.readouterr().err == ""


def test_every_record_has_a_time_a_name_and_a_body_that_opens_with_it(recorded: Recorded) -> None:
    for fact in facts.ALL:
        recorded.emit(fact)

    assert recorded.records()
    for record in recorded.records():
        assert record["timestamp"]
        assert record["body"].startswith(f"{record['event_name']}: ")


def test_a_gate_decision_stands_on_its_span_in_the_metric_and_in_the_log(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.THREAD_GATE) as gate:
        recorded.emit(facts.GATE)

    assert recorded.nonzero("insomnia.gate.decisions") == [({"route": "main", "decision": "refetched", "reason": "after_rotate"}, 1)]
    (record,) = recorded.records()
    assert (record["trace_id"], record["span_id"]) == (gate.ref.trace_id, gate.ref.span_id)
    assert record["attributes"] == recorded.span("thread.gate")["attributes"]
    assert record["attributes"] == {
        "insomnia.route": "main",
        "insomnia.thread.team": "T1",
        "insomnia.thread.channel": "C1",
        "insomnia.thread.ts": "1700000000.000100",
        "insomnia.gate.decision": "refetched",
        "insomnia.gate.reason": "after_rotate",
        "insomnia.gate.known_threads": 7,
        "insomnia.session.epoch": 3,
    }


def test_an_injection_counts_beside_the_decision_with_the_same_reason(recorded: Recorded) -> None:
    recorded.emit(facts.GATE)
    recorded.emit(facts.INJECTED)

    counted = {(labels["decision"], labels["reason"]) for labels, _ in recorded.nonzero("insomnia.gate.decisions")}
    assert counted == {("refetched", "after_rotate"), ("injected", "after_rotate")}
    assert recorded.value("insomnia.gate.injected_chars", route="main", injection="full") == 4_321


def test_a_refetch_tells_its_span_what_was_read(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.THREAD_REFETCH):
        recorded.emit(facts.REFETCHED)

    attributes = recorded.span("thread.refetch")["attributes"]
    assert attributes["gen_ai.operation.name"] == "retrieval"
    assert attributes["insomnia.refetch.truncated"] is True
    assert attributes["insomnia.refetch.retry_after_s"] == 1.0
    assert recorded.value("insomnia.gate.refetch.duration", route="main", outcome="incomplete") == 1.5


def test_a_reset_inside_a_turn_is_its_child_and_began_when_the_compaction_did(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.INVOKE_AGENT) as turn:
        recorded.emit(replace(facts.RESET, linked=REF))

    reset = recorded.span("session.reset")
    assert reset["parent_id"] == turn.ref.span_id
    assert reset["links"] == []
    assert reset["seconds"] == 12.0
    assert recorded.value("insomnia.session.resets", route="main", cause="compaction_auto") == 1
    assert recorded.value("insomnia.session.forgotten_threads", route="main", cause="compaction_auto") == 7


def test_a_reset_that_no_reply_met_is_a_root_linked_to_the_last_reply(recorded: Recorded) -> None:
    idle = replace(facts.RESET, cause=ResetCause.HIBERNATE, duration_seconds=None, pre_tokens=None, post_tokens=None, linked=REF)

    recorded.emit(idle)

    reset = recorded.span("session.reset")
    assert (reset["parent_id"], reset["links"], reset["seconds"]) == ("", [REF.span_id], 0.0)
    assert "insomnia.reset.pre_tokens" not in reset["attributes"]
    assert recorded.records()[0]["trace_id"] == reset["trace_id"]


def test_a_reset_of_a_session_that_never_answered_has_no_link(recorded: Recorded) -> None:
    recorded.emit(facts.RESET)

    assert recorded.span("session.reset")["links"] == []


def test_a_failed_reply_is_an_error_in_the_log_and_names_its_reason_in_the_metric(recorded: Recorded) -> None:
    recorded.emit(replace(facts.REPLY, outcome=events.Outcome.FAILED, reason=events.FailReason.MODEL_LIMIT))

    assert recorded.nonzero("insomnia.messages") == [({"route": "main", "outcome": "failed", "reason": "model_limit"}, 1)]
    assert recorded.records()[0]["severity"] == "ERROR"


def test_what_a_busy_channel_is_full_of_is_logged_below_info(recorded: Recorded) -> None:
    recorded.emit(events.MessageDropped(reason=events.DropReason.NOT_ADDRESSED, route="main"))
    recorded.emit(events.MessageDropped(reason=events.DropReason.BOT_LOOP, route="main"))

    assert [record["severity"] for record in recorded.records()] == ["DEBUG", "INFO"]


def test_tokens_are_counted_by_type_and_failures_by_class(recorded: Recorded) -> None:
    recorded.emit(facts.MODEL)
    recorded.emit(replace(facts.MODEL, input_tokens=0, output_tokens=0, cache_read_tokens=0, error="rate_limit"))

    usage = {labels["gen_ai.token.type"]: value for labels, value in recorded.nonzero("gen_ai.client.token.usage")}
    assert usage == {"input": 900, "output": 90, "cache_read": 800}
    durations = [labels.get("error.type") for labels, _ in recorded.nonzero("gen_ai.client.operation.duration")]
    assert sorted(durations, key=str) == [None, "rate_limit"]


def test_a_metric_inside_a_span_leads_back_to_its_trace(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS) as root:
        recorded.emit(facts.REPLY)

    (duration,) = (point for point in recorded.points() if point["name"] == "insomnia.reply.duration")
    assert duration["exemplars"] == [root.ref.trace_id]


def test_a_sink_that_fails_is_counted_said_once_and_never_raised(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    nonsense = replace(facts.REPLY, seconds=typing.cast(float, "soon"))

    recorded.emit(nonsense)
    recorded.emit(nonsense)

    assert recorded.value("insomnia.telemetry.failures") == 2
    assert capsys.readouterr().err.count("fact ReplyEnded failed") == 1
