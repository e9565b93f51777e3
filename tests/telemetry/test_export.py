"""Over loopback: what arrives at a good collector, and what a bad one costs."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceServicer, add_TraceServiceServicer_to_server

from telemetry.names import Attr, SpanName
from telemetry.setup import TelemetrySettings, telemetry
from tests.otlp_receiver import Answer, Receiver
from tests.telemetry import facts
from tests.telemetry.conftest import recording

pytestmark = pytest.mark.slack  # loopback sockets

ROOT = Path(__file__).parents[2]
EXIT_GUARD = 5.0  # the contract is 3 s; the rest is a busy machine's


@pytest.fixture
def endpoint(otlp_receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp_receiver.endpoint)
    return otlp_receiver


def one_reply() -> None:
    with (
        telemetry(TelemetrySettings(routes=("main",), version="1.2", slack_mode="embedded")) as emit,
        emit.span(SpanName.PROCESS, {Attr.ROUTE: "main"}) as root,
        emit.span(SpanName.CHAT, label="claude-x", links=[root.ref]),
    ):
        for fact in facts.ALL:
            emit(fact)


def test_all_three_signals_arrive_and_lead_to_each_other(endpoint: Receiver) -> None:
    one_reply()

    spans = {span["name"]: span for span in endpoint.spans}
    root, chat = spans["process slack"], spans["chat claude-x"]
    assert spans.keys() == {"process slack", "chat claude-x", "session.reset"}
    assert (root["kind"], root["parent_id"], root["attributes"]["insomnia.route"]) == ("CONSUMER", "", "main")
    assert chat["parent_id"] == root["span_id"]
    assert chat["links"][0]["span_id"] == root["span_id"]
    assert {record["trace_id"] for record in endpoint.logs} == {root["trace_id"]}
    (decided,) = [p for p in endpoint.metrics("insomnia.gate.decisions") if p["value"] and p["attributes"]["decision"] == "refetched"]
    assert decided["exemplars"][0]["trace_id"] == root["trace_id"]
    assert root["resource"]["service.version"] == "1.2"


def test_primed_counters_are_exported_before_anything_happens(endpoint: Receiver) -> None:
    with telemetry(TelemetrySettings(routes=("main",))):
        arrived = endpoint.wait_for(lambda receiver: bool(receiver.metrics("insomnia.session.resets")), 10)
        values = {point["value"] for point in endpoint.metrics("insomnia.session.resets")}

    assert arrived
    assert values == {0}


def test_traces_arrive_over_grpc_and_past_a_proxy(grpc_traces: list[str], proxy: list[str]) -> None:
    one_reply()

    assert set(grpc_traces) == {"process slack", "chat claude-x", "session.reset"}
    assert proxy == []


def test_a_missing_collector_is_no_worse_over_grpc() -> None:
    result = run({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, spans=100)

    assert result["exit"] < EXIT_GUARD


def test_a_loopback_collector_is_reached_past_a_proxy(endpoint: Receiver, proxy: list[str]) -> None:
    one_reply()

    assert endpoint.spans
    assert proxy == []


def test_disabled_sends_nothing(endpoint: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    one_reply()

    assert endpoint.requests == 0


def test_unsampled_spans_stay_at_home_and_the_rest_goes_out(endpoint: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")

    one_reply()

    assert endpoint.spans == []
    assert endpoint.logs
    assert all(record["trace_id"] for record in endpoint.logs)


def test_limits_of_spans_are_kept_by_what_leaves_the_machine_alone(endpoint: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "2")
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "1")

    with recording() as recorded, recorded.emit.span(SpanName.PROCESS, {Attr.ROUTE: "main", Attr.SESSION_KEY: "main"}) as root:
        recorded.emit.begin(SpanName.CHAT, links=[root.ref, root.ref]).end()

    sent, kept = {span["name"]: span for span in endpoint.spans}, recorded.span("process slack")
    assert (sent["process slack"]["attributes"], len(sent["chat"]["links"])) == ({"insomnia.session.key": "ma"}, 1)
    assert sent["process slack"]["kind"] == "CONSUMER" and sent["chat"]["parent_id"] == sent["process slack"]["span_id"]
    assert kept["attributes"] == {"insomnia.route": "main", "insomnia.session.key": "main"}
    assert len(recorded.span("chat")["links"]) == 2


def test_a_collector_that_comes_back_gets_what_waited(endpoint: Receiver) -> None:
    endpoint.answer = Answer.UNAVAILABLE

    def mend_once_asked() -> None:
        assert endpoint.wait_for(lambda receiver: receiver.requests > 0, 10)
        endpoint.answer = Answer.OK

    back = threading.Thread(target=mend_once_asked)
    back.start()

    one_reply()
    back.join()

    assert endpoint.spans


def test_what_a_full_queue_drops_is_counted(endpoint: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.answer = Answer.HANG
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")

    with recording(exit_seconds=0.1) as recorded:
        for _ in range(200):
            recorded.emit.begin(SpanName.PROCESS).end()
        processed = recorded.nonzero("otel.sdk.processor.span.processed")

    assert [count for labels, count in processed if labels.get("error.type") == "queue_full" and count > 100]


def test_a_stopped_receiver_refuses_and_may_start_again(otlp_receiver: Receiver) -> None:
    address = ("127.0.0.1", int(otlp_receiver.endpoint.rpartition(":")[2]))
    otlp_receiver.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    otlp_receiver.start()

    socket.create_connection(address).close()


def test_a_stopped_receiver_lets_go_of_who_was_connected(otlp_receiver: Receiver) -> None:
    client = http.client.HTTPConnection(otlp_receiver.endpoint.removeprefix("http://"), timeout=5)
    client.request("POST", "/v1/traces", body=b"")
    client.getresponse().read()
    connected = client.sock

    otlp_receiver.stop()

    assert connected.recv(1) == b""
    client.close()


def test_no_collector_holds_up_the_work_or_the_exit(otlp_receiver: Receiver) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp_receiver.endpoint}
    nothing = run({}, spans=3_000)
    good = run(environ, spans=3_000)
    otlp_receiver.answer = Answer.HANG
    hanging = run(environ, spans=3_000)
    otlp_receiver.stop()
    refusing = run(environ, spans=3_000)

    for bad in (hanging, refusing):
        assert bad["exit"] < EXIT_GUARD
        assert bad["process"] - bad["work"] - bad["exit"] < EXIT_GUARD, "and nothing waits after the exit"
        # Against a collector that answers at once, a bad one adds nothing to the work itself (both share two cores with it).
        assert bad["work"] < 3 * max(good["work"], nothing["work"])
        assert len(bad["stderr"]) == len(set(bad["stderr"])) < 12, "each trouble is said once"
        assert all(line.startswith("insomnia: telemetry: ") for line in bad["stderr"])


def run(environ: dict[str, str], *, spans: int) -> dict[str, Any]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.telemetry.exporting", str(spans)],
        env={**clean, **environ},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return {**json.loads(done.stdout), "process": time.perf_counter() - started, "stderr": done.stderr.splitlines()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def grpc_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the spans that a gRPC collector was sent."""
    names: list[str] = []

    class Service(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:
            names.extend(span.name for group in request.resource_spans for scope in group.scope_spans for span in scope.spans)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    yield names
    server.stop(None).wait()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A proxy that takes everything and tells what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_error(502)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_address[1]}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()
