"""The standard variables, as we read them."""

from __future__ import annotations

import os

import pytest

from telemetry import otlp
from telemetry.otlp import Target
from telemetry.troubles import Troubles

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


def read(**environ: str) -> dict[str, Target]:
    return {str(signal): target for signal, target in otlp.targets(environ, Troubles()).items()}


def test_nothing_is_exported_before_an_endpoint_is_set() -> None:
    assert read() == {}
    assert read(OTEL_EXPORTER_OTLP_ENDPOINT="") == {}


def test_one_endpoint_serves_all_signals_over_http() -> None:
    assert {signal: target.endpoint for signal, target in read(**BASE).items()} == {
        "traces": "http://collector:4318/v1/traces",
        "metrics": "http://collector:4318/v1/metrics",
        "logs": "http://collector:4318/v1/logs",
    }


def test_an_endpoint_for_one_signal_is_taken_as_it_stands_and_switches_on_that_signal_only() -> None:
    targets = read(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="http://store/opentelemetry/v1/metrics")

    assert {signal: target.endpoint for signal, target in targets.items()} == {"metrics": "http://store/opentelemetry/v1/metrics"}


def test_grpc_is_chosen_for_all_or_for_one_signal() -> None:
    everywhere = read(**BASE, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    traces_only = read(**BASE, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc")

    assert {target.protocol for target in everywhere.values()} == {"grpc"}
    assert everywhere["logs"].endpoint == BASE["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert {signal: target.protocol for signal, target in traces_only.items()} == {
        "traces": "grpc",
        "metrics": "http/protobuf",
        "logs": "http/protobuf",
    }


def test_a_signal_can_be_switched_off_or_asked_for_without_an_endpoint() -> None:
    assert read(**BASE, OTEL_METRICS_EXPORTER="none").keys() == {"traces", "logs"}
    assert read(OTEL_TRACES_EXPORTER="otlp")["traces"].endpoint == "http://localhost:4318/v1/traces"


def test_the_time_out_is_in_milliseconds_and_one_of_a_signal_wins() -> None:
    targets = read(**BASE, OTEL_EXPORTER_OTLP_TIMEOUT="2500", OTEL_EXPORTER_OTLP_LOGS_TIMEOUT="500")

    assert {signal: target.timeout_seconds for signal, target in targets.items()} == {"traces": 2.5, "metrics": 2.5, "logs": 0.5}


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_EXPORTER_OTLP_TIMEOUT", "ten"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"), ("OTEL_TRACES_EXPORTER", "zipkin")],
)
def test_a_value_that_we_do_not_know_is_said_and_replaced_by_the_default(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    targets = read(**BASE, **{name: value})

    assert targets == read(**BASE)
    assert value in capsys.readouterr().err


@pytest.mark.parametrize("own", ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"])
def test_a_wrong_time_out_is_named_by_the_variable_that_has_it(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(**BASE, **{own: "9" * 5_000})["traces"].timeout_seconds == 10
    assert f"telemetry: {own}=9" in capsys.readouterr().err


@pytest.mark.parametrize("blank", ["", " "])
def test_what_is_blank_counts_as_not_set(blank: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_LOGS_EXPORTER")

    assert read(**BASE, **dict.fromkeys(names, blank)) == read(**BASE)
    assert read(OTEL_EXPORTER_OTLP_ENDPOINT=blank) == {}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_an_endpoint_without_a_scheme_is_named_and_used_over_grpc_only(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {name: "user:SECRET@collector:4318"}

    assert read(**environ) == {}
    assert capsys.readouterr().err.splitlines() == [
        f"insomnia: telemetry: {name} has to begin with http:// or https://; nothing is sent there (said once)"
    ]
    assert read(**environ, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")["traces"].endpoint == environ[name]


@pytest.mark.parametrize(
    "address", ["http://user:SEC/RET@collector", "http://[::1", "http://collector:99999", "http://", "http://collector:0"]
)
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_an_address_that_is_none_is_said_once_and_not_quoted(address: str, protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_PROTOCOL=protocol) == {}

    said = capsys.readouterr().err
    assert said.startswith("insomnia: telemetry: OTEL_EXPORTER_OTLP_ENDPOINT ") and said.count("\n") == 1
    assert "SEC" not in said and "nothing is sent there" in said


@pytest.mark.parametrize("address", ["collector:4317", "unix:///run/collector.sock", "dns:///collector:4317", "https://collector"])
def test_grpc_has_addresses_of_its_own(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    targets = read(OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")

    assert {target.endpoint for target in targets.values()} == {address} and capsys.readouterr().err == ""


def test_disabled_means_that_nothing_leaves_the_machine() -> None:
    assert read(**BASE, OTEL_SDK_DISABLED="true") == {}
    assert read(**BASE, OTEL_SDK_DISABLED="false").keys() == {"traces", "metrics", "logs"}


@pytest.mark.parametrize(
    ("endpoint", "is_loopback"),
    [
        ("http://localhost:4318/v1/traces", True),
        ("http://127.0.0.2:4318", True),
        ("http://[::1]:4317", True),
        ("localhost:4317", True),
        ("https://collector.example:4318", False),
        ("http://10.0.0.1:4318", False),
    ],
)
def test_a_loopback_endpoint_is_known_as_one(endpoint: str, is_loopback: bool) -> None:
    assert Target(signal="traces", protocol="grpc", endpoint=endpoint, timeout_seconds=1.0).is_loopback is is_loopback


def test_the_environment_is_as_it_was_once_the_sdk_has_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")
    before = dict(os.environ)

    with otlp.sdk_environment():
        assert "OTEL_SDK_DISABLED" not in os.environ
        assert "OTEL_EXPORTER_OTLP_TIMEOUT" not in os.environ
        assert os.environ[otlp.INTERNAL_METRICS] == "true"

    assert dict(os.environ) == before


def test_internal_metrics_can_be_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(otlp.INTERNAL_METRICS, "false")

    with otlp.sdk_environment():
        assert os.environ[otlp.INTERNAL_METRICS] == "false"
