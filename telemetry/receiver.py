"""A small OTLP/HTTP receiver on loopback: what was exported, as plain dicts. `insomnia demo` and the tests look into it.

It can be a bad collector as well: never answer, answer 503, or (stopped) refuse. A stopped one has closed the connections
that it had accepted: kept alive, they would go on answering.
"""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry import otlp_decode as decode

MAX_KEPT = 100_000  # spans and log records each; a demo makes hundreds, a load test some ten thousand


class Answer(Enum):
    OK = auto()
    HANG = auto()
    UNAVAILABLE = auto()


class Receiver:
    """`with Receiver() as receiver:`. A stopped one keeps its port: it refuses there, and may be started again."""

    def __init__(self, port: int = 0) -> None:
        self.answer = Answer.OK
        self.requests = 0
        self._port = port
        self._spans: deque[dict[str, Any]] = deque(maxlen=MAX_KEPT)
        self._logs: deque[dict[str, Any]] = deque(maxlen=MAX_KEPT)
        self._points: dict[tuple[str, ...], dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._stopping = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT; known once it was started."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def spans(self) -> list[dict[str, Any]]:
        with self._arrived:
            return list(self._spans)

    @property
    def logs(self) -> list[dict[str, Any]]:
        with self._arrived:
            return list(self._logs)

    def metrics(self, name: str = "") -> list[dict[str, Any]]:
        """The last value of each series, of one metric or of all."""
        with self._arrived:
            return [point for point in self._points.values() if not name or point["name"] == name]

    def wait_for(self, predicate: Callable[[Receiver], bool], seconds: float) -> bool:
        """Looks whenever something arrived; False when the time is over."""
        deadline = time.monotonic() + seconds
        while not predicate(self):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._arrived:
                self._arrived.wait(min(left, 0.5))
        return True

    def start(self) -> None:
        self._stopping.clear()
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="otlp-receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._stopping.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join()
        self._server = self._thread = None

    def take(self, path: str, body: bytes) -> int:
        """One request; returns the HTTP status."""
        with self._arrived:
            self.requests += 1
            self._arrived.notify_all()
        if self.answer is Answer.HANG:
            self._stopping.wait()
            return 503
        if self.answer is Answer.UNAVAILABLE:
            return 503
        return self._keep(path, body)

    def _keep(self, path: str, body: bytes) -> int:
        with self._arrived:
            if path == "/v1/traces":
                self._spans.extend(decode.spans(ExportTraceServiceRequest.FromString(body)))
            elif path == "/v1/logs":
                self._logs.extend(decode.logs(ExportLogsServiceRequest.FromString(body)))
            elif path == "/v1/metrics":
                for series, point in decode.points(ExportMetricsServiceRequest.FromString(body)):
                    self._points[series] = point
            else:
                return 404
            self._arrived.notify_all()
        return 200


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, receiver: Receiver, port: int) -> None:
        self.receiver = receiver
        self._accepted: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._lock:
            self._accepted.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._accepted.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        with self._lock:
            accepted = list(self._accepted)
        for connection in accepted:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        encoding = (self.headers.get("content-encoding") or "").lower()
        if encoding == "gzip":
            body = gzip.decompress(body)
        elif encoding == "deflate":
            body = zlib.decompress(body)
        status = self.server.receiver.take(self.path, body)
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")  # an empty message of the response's type
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silence: whoever reads stderr looks for the bot's words."""
