"""Counts what a collector did not take in the end, since the SDK counts some of it as exported.

Metrics need no such count: they are cumulative, so the next batch brings what the last one lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

Lost = Callable[[int], None]


class CountingSpanExporter(SpanExporter):
    def __init__(self, onward: SpanExporter, lost: Lost) -> None:
        self._onward, self._lost = onward, lost

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._onward.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost(len(spans))
        return result

    def shutdown(self) -> None:
        self._onward.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._onward.force_flush(timeout_millis)


class CountingLogExporter(LogRecordExporter):
    def __init__(self, onward: LogRecordExporter, lost: Lost) -> None:
        self._onward, self._lost = onward, lost

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = self._onward.export(batch)
        if result is not LogRecordExportResult.SUCCESS:
            self._lost(len(batch))
        return result

    def shutdown(self) -> None:
        self._onward.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._onward.force_flush(timeout_millis)
