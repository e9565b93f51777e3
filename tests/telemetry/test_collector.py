"""Collectors as operators have them: paths and headers of their own, and answers that are no success."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.names import SpanName
from telemetry.otlp_session import CollectorSession, Redirected
from tests.telemetry import facts
from tests.telemetry.conftest import Recorded, recording

pytestmark = pytest.mark.slack  # loopback sockets


class Collector(http.server.ThreadingHTTPServer):
    """Answers every request with `status`, and keeps path and headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.location = 200, ""
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust us hangs up in the middle."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def traces_only(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Collector:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    return collector


def one_span(recorded: Recorded) -> None:
    with recorded.emit.span(SpanName.PROCESS):
        recorded.emit(facts.GATE)


def exported(recorded: Recorded) -> dict[str, float]:
    """Spans by what became of them, as the SDK counts; "" is a success."""
    wait_for_export(recorded)
    return {labels.get("error.type", ""): count for labels, count in recorded.nonzero("otel.sdk.exporter.span.exported")}


def wait_for_export(recorded: Recorded, counter: str = "otel.sdk.exporter.span.exported") -> None:
    done = threading.Event()
    for _ in range(500):
        if recorded.nonzero(counter):
            return
        done.wait(0.02)
    raise AssertionError("nothing was exported within 10 s")


def test_headers_reach_the_collector_and_those_of_a_signal_win(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.url}/tenant")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a,authorization=Bearer%20all")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20traces")

    with recording() as recorded:
        one_span(recorded)

    told = {path: (headers.get("x-team"), headers.get("authorization")) for path, headers in collector.asked}
    assert told == {
        "/tenant/v1/traces": (None, "Bearer traces"),
        "/tenant/v1/metrics": ("a", "Bearer all"),
        "/tenant/v1/logs": ("a", "Bearer all"),
    }


def test_an_endpoint_of_one_signal_is_taken_as_it_stands(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"{collector.url}/ingest/logs")

    with recording() as recorded:
        one_span(recorded)

    assert {path for path, _ in collector.asked} == {"/ingest/logs"}


def test_a_sampler_with_an_argument_is_honoured(traces_only: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")

    with recording() as recorded:
        for _ in range(400):
            recorded.emit.begin(SpanName.PROCESS, root=True).end()
        sampled = sum(span.context.trace_flags.sampled for span in recorded.kept.ended if span.context)

    assert len(recorded.kept.ended) == 400
    assert 40 < sampled < 200


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "answers 401 Unauthorized; check OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "answers 404 Not Found; check the endpoint, or switch this signal off"),
        (500, "answers 500 Internal Server Error"),
    ],
)
def test_a_refusal_is_told_once_in_words_and_counted(
    status: int, said: str, traces_only: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    traces_only.status = status

    with recording() as recorded:
        for _ in range(3):
            one_span(recorded)
            wait_for_export(recorded)
        counted = exported(recorded)
        lost = recorded.value("insomnia.telemetry.lost", signal="traces")

    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("insomnia: telemetry: ") and said in told
    assert counted.keys() == {"Refused"}
    assert lost is not None and lost >= 1


def test_a_collector_that_stays_unavailable_is_counted_though_the_sdk_takes_it_for_exported(
    traces_only: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces_only.status = 503
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")

    with recording() as recorded:
        one_span(recorded)
        wait_for_export(recorded)
        lost = recorded.value("insomnia.telemetry.lost", signal="traces")

    assert lost == 1


def test_lost_log_records_are_counted_too(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    collector.status = 500
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"{collector.url}/v1/logs")
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")

    with recording() as recorded:
        one_span(recorded)
        wait_for_export(recorded, "otel.sdk.exporter.log.exported")
        lost = recorded.value("insomnia.telemetry.lost", signal="logs")

    assert lost == 1


def test_a_redirect_is_no_success_and_says_where_to_point_the_endpoint(traces_only: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    traces_only.status, traces_only.location = 302, "https://login.example/"

    with recording() as recorded:
        one_span(recorded)
        counted = exported(recorded)

    (told,) = capsys.readouterr().err.splitlines()
    assert "redirects to https://login.example/, which is not followed; set the endpoint to the final address" in told
    assert counted == {"Redirected": 1}
    assert len(traces_only.asked) == 1


def test_a_certificate_that_is_not_trusted_is_told_once_in_words_and_not_tried_again(
    collector: Collector, certificate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    collector.socket = context.wrap_socket(collector.socket, server_side=True)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"https://127.0.0.1:{collector.server_port}/v1/traces")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")

    with recording() as recorded:
        one_span(recorded)
        counted = exported(recorded)
    (told,) = capsys.readouterr().err.splitlines()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificate))
    with recording() as recorded:
        one_span(recorded)
        trusted = exported(recorded)

    assert "TLS with https://127.0.0.1" in told and "certificate" in told and "OTEL_EXPORTER_OTLP_CERTIFICATE" in told
    assert counted == {"NotTrusted": 1}
    assert trusted == {"": 1}


def test_a_collector_that_refuses_connections_is_told_in_words(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = f"{collector.url}/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint)
    collector.socket.close()

    with recording(exit_seconds=1.0) as recorded:
        one_span(recorded)

    told = capsys.readouterr().err
    assert f"{endpoint} cannot be reached (Connection refused)" in told
    assert "Max retries exceeded" not in told


def test_a_redirect_is_an_error_of_the_session_whatever_its_code(collector: Collector) -> None:
    for collector.status in (301, 302, 303, 307, 308):
        with pytest.raises(Redirected), CollectorSession(direct=True) as session:
            session.post(collector.url, data=b"x", allow_redirects=False)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Self-signed, key and certificate in one file."""
    path = tmp_path / "collector.pem"
    request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(path), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(["openssl", *request.split(), *files], check=True, capture_output=True)
    with path.open("a") as both:
        both.write((tmp_path / "cert.pem").read_text())
    return path


@pytest.mark.parametrize("status", [307, 401, 500, 0], ids=str)
def test_no_secret_of_an_address_or_a_header_is_said_of_a_collector_that_fails(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    collector.status, collector.location = status, "http://user:SECRET@elsewhere/x?token=SECRET" if status == 307 else ""
    port = collector.server_port if status else 9
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:SECRET@127.0.0.1:{port}/?token=SECRET")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=SECRET,SECRET")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")  # nothing goes on trying behind the test
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")

    with recording(exit_seconds=1.0) as recorded:
        one_span(recorded)

    said = capsys.readouterr().err
    assert "127.0.0.1" in said and "SECRET" not in said, said
    assert status != 307 or "redirects to http://elsewhere/x, which is not followed" in said
