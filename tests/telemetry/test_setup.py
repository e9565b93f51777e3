"""Providers: what local sinks see in each mode, whose word counts on the resource, what stays out of the process."""

from __future__ import annotations

import logging

import pytest
from opentelemetry import metrics, trace

from telemetry.names import SpanName
from telemetry.troubles import Troubles, hear_sdk_log
from tests.telemetry import facts
from tests.telemetry.conftest import Recorded, recording


def one_reply(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS), recorded.emit.span(SpanName.THREAD_GATE):
        recorded.emit(facts.GATE)


@pytest.mark.parametrize(
    "mode",
    [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_SAMPLER": "always_off"}, {"OTEL_TRACES_SAMPLER": "parentbased_always_off"}],
    ids=["usual", "disabled", "unsampled", "parent unsampled"],
)
def test_local_sinks_see_the_same_in_every_mode(mode: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mode.items():
        monkeypatch.setenv(name, value)

    with recording() as recorded:
        one_reply(recorded)

    assert recorded.tree() == [{"process slack": ["thread.gate"]}]
    (record,) = recorded.records()
    assert record["trace_id"] == recorded.span("process slack")["trace_id"]


def test_a_sampler_decides_what_exporters_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")

    with recording() as recorded:
        one_reply(recorded)

    assert [span.context.trace_flags.sampled for span in recorded.kept.ended if span.context] == [False, False]


def test_the_operator_s_word_wins_on_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "bot of team A")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")

    with recording(version="1.2", slack_mode="embedded") as recorded:
        one_reply(recorded)

    resource = recorded.kept.ended[0].resource.attributes
    assert resource["service.name"] == "bot of team A"
    assert resource["service.version"] == "1.2"
    assert resource["deployment.environment.name"] == "test"
    assert resource["insomnia.slack.mode"] == "embedded"
    assert resource["service.instance.id"]


def test_without_a_word_the_service_is_insomnia() -> None:
    with recording() as recorded:
        one_reply(recorded)

    assert recorded.kept.ended[0].resource.attributes["service.name"] == "insomnia"


def test_no_provider_is_global() -> None:
    with recording() as recorded:
        with trace.get_tracer("another library").start_as_current_span("theirs"):
            pass
        metrics.get_meter("another library").create_counter("theirs").add(1)
        names = {point["name"] for point in recorded.points()}

    assert recorded.spans() == []
    assert "theirs" not in names


def test_the_sdk_measures_itself_unless_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured() -> bool:
        with recording() as recorded:
            one_reply(recorded)
            return any(point["name"].startswith("otel.sdk.") for point in recorded.points())

    by_default = measured()
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "false")

    assert (by_default, measured()) == (True, False)


def test_a_wrong_value_costs_the_signal_and_not_the_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")

    with recording() as recorded:
        one_reply(recorded)

    assert recorded.tree() == [{"process slack": ["thread.gate"]}]
    assert "OTLP traces failed: ValueError" in capsys.readouterr().err


def test_the_sdk_s_log_is_one_line_a_kind_and_stays_out_of_root_logging(capsys: pytest.CaptureFixture[str]) -> None:
    hear_sdk_log(Troubles())
    log = logging.getLogger("opentelemetry.exporter.any")

    for delay in range(5):
        log.warning("Transient error %s, retrying in %.2fs.", "refused\nby peer", delay)

    assert capsys.readouterr().err == "insomnia: telemetry: Transient error refused by peer, retrying in 0.00s. (said once)\n"
    assert not logging.getLogger("opentelemetry").propagate
