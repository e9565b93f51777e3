"""The log files: an OpenTelemetry exporter that writes each record as one JSON line, at once.

What must stay true: a line that was reported written is whole and stays; a line that cannot be written is counted, and the
file itself tells how many were lost as soon as it can; nothing latches: each line tries anew; and nothing that goes wrong
here reaches whoever emitted. It stands behind a synchronous processor, because a batch is lost with its process.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

from telemetry.jsonl_days import KEEP_DAYS
from telemetry.jsonl_fields import fields_of, stream_of
from telemetry.jsonl_stream import Counts, LineStream
from telemetry.metric_kinds import Metric
from telemetry.metric_names import AUDIT_DROPPED, AUDIT_LINES, AUDIT_REPAIRED
from telemetry.names import Stream
from telemetry.troubles import Troubles

_SUMS: Mapping[str, Callable[[Counts], int]] = {
    AUDIT_LINES.name: lambda counts: counts.lines,
    AUDIT_DROPPED.name: lambda counts: counts.dropped,
    AUDIT_REPAIRED.name: lambda counts: counts.repaired,
}


class JsonlExporter(LogRecordExporter):
    def __init__(self, folders: Mapping[Stream, Path], *, keep_days: int = KEEP_DAYS, now: Callable[[], int] = time.time_ns) -> None:
        """`folders`: see `jsonl_days.log_folders`. `now` in nanoseconds; a record's own time decides about its file."""
        self._now = now
        self._streams = {
            stream: LineStream(stream, folders[stream], keep_days=keep_days, now=now, complain=self._complain) for stream in Stream
        }
        self._begin()
        # Nothing can be taken off that list again: it must not keep the exporter alive.
        after_fork = weakref.WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: (call := after_fork()) and call())

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """From whatever thread. SUCCESS: every line is in its file."""
        written = [self._export(readable) for readable in batch]
        return LogRecordExportResult.SUCCESS if all(written) else LogRecordExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Onto the disk: what was written is already safe from this process, but not from a power cut."""
        with self._lock:
            return all([stream.sync() for stream in self._streams.values()])

    def shutdown(self) -> None:
        """Tells of lines that were lost and closes the files. A straggler behind it opens its file again."""
        with self._lock:
            for stream in self._streams.values():
                stream.close()

    def sum_of(self, metric: Metric, stream: Stream) -> int:
        """`insomnia.audit.*` of this process; read by the metrics at each export."""
        return _SUMS[metric.name](self._streams[stream].counts)

    def _export(self, readable: ReadableLogRecord) -> bool:
        record = readable.log_record
        stream = self._streams[stream_of(record)]
        at = record.timestamp or record.observed_timestamp or self._now()
        with self._lock:
            try:
                stream.write(fields_of(record, at=at), at=at)
            except Exception as error:  # noqa: BLE001 whatever a record holds or a disk does: the caller is answering somebody
                stream.drop(error)
                return False
        return True

    def _begin(self) -> None:
        # Re-entrant: a signal handler may log in the middle of a line.
        self._lock = threading.RLock()
        self._troubles = Troubles()

    def _after_fork(self) -> None:
        """In the child. The locks may be held by threads that do not exist here."""
        self._begin()
        for stream in self._streams.values():
            stream.after_fork()

    def _complain(self, kind: str, text: str) -> None:
        with contextlib.suppress(Exception):  # stderr of a daemon may be anything
            self._troubles.say(kind, text)
