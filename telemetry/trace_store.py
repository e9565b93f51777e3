"""The local trace store: every span of this bot in `traces.db`, so that a reply can be explained without any backend.

What must stay true: nothing of it happens on a reply's path, which only puts a span into a bounded queue; a thread of its
own writes. Sampled or not, every span comes here. Whatever is wrong with the disk or the file is said once, costs the
spans of that moment, which are counted, and is over as soon as writing works again. The file stays inside its bounds.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from telemetry.trace_rows import Begun
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles

DELAY_SECONDS = 0.2  # spans of a reply are written together; a person who asks `why` at once does not notice
QUEUED_SPANS = 8_192  # a second of the busiest bot there is; a disk that hangs longer costs spans, not memory
IDLE_SECONDS = 60.0  # how often a bot that has nothing to do looks for what has grown too old
CLOSE_SECONDS = 2.0
KEPT_DAYS = 90
KEPT_BYTES = 2 * 1024**3


class TraceStore(SpanProcessor):
    """`dropped` counts spans that were not written; `on_drop` is told of each loss, from either thread. `guest`: see TraceWriter."""

    def __init__(
        self,
        path: Path,
        *,
        days: float = KEPT_DAYS,
        max_bytes: int = KEPT_BYTES,
        delay_seconds: float = DELAY_SECONDS,
        queued_spans: int = QUEUED_SPANS,
        guest: bool = False,
        on_drop: Callable[[int], None] = lambda count: None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.dropped = 0
        self._counting = threading.Lock()
        self.on_drop = on_drop
        self._troubles = Troubles()
        self._writer = TraceWriter(path, troubles=self._troubles, seconds=days * 86_400, max_bytes=max_bytes, now=now, guest=guest)
        self._delay, self._room = delay_seconds, queued_spans
        self._queue: deque[ReadableSpan | Begun] = deque()
        self._flushing: deque[threading.Event] = deque()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="trace-store", daemon=True)
        self._thread.start()

    # -- on the reply's path -------------------------------------------------------------------------------------------
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """A root is told of as it begins: what its process does not live to end can be found all the same."""
        if span.parent is None:
            self._put(Begun(span))

    def on_end(self, span: ReadableSpan) -> None:
        if not self._put(span):
            self._lost(1)

    def _put(self, item: ReadableSpan | Begun) -> bool:
        if os.getpid() != self._pid:
            return True  # a fork: the thread is not there, and the locks are as they happened to be
        if len(self._queue) >= self._room or self._stop.is_set():
            return False
        self._queue.append(item)
        if not self._wake.is_set():
            self._wake.set()
        return True

    def _lost(self, count: int) -> None:
        with self._counting:
            self.dropped += count
        self.on_drop(count)

    # -- the end, and tests --------------------------------------------------------------------------------------------
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """True once everything that was ended before the call is written, or counted as lost."""
        if not self._thread.is_alive() or os.getpid() != self._pid:
            return False
        written = threading.Event()
        self._flushing.append(written)
        self._wake.set()
        return written.wait(timeout_millis / 1000)

    def shutdown(self) -> None:
        self._stop.set()
        self._wake.set()
        if os.getpid() == self._pid:
            self._thread.join(CLOSE_SECONDS)

    # -- the thread ----------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        with self._troubles.caught("trace store"):
            self._writer.write([])  # opens the file: what an earlier process left unfinished is marked
        while not self._stop.is_set():
            self._wake.wait(IDLE_SECONDS)
            if not self._flushing:
                self._stop.wait(self._delay)
            self._wake.clear()
            self._turn()
        self._turn()
        self._writer.close()

    def _turn(self) -> None:
        flushing = list(self._flushing)
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        lost = sum(not isinstance(item, Begun) for item in batch)
        with self._troubles.caught("trace store"):
            lost = self._writer.write(batch)
            if self._writer.prune():
                self._wake.set()  # there is more of it than one step takes
        with self._troubles.caught("trace store"):
            if lost:
                self._lost(lost)
        for written in flushing:
            self._flushing.popleft()
            written.set()
