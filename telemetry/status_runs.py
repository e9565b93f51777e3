"""Which memory run the status shows: what facts said of runs, and the ends of spans where nobody said anything.

What must stay true: a run has an end as soon as its span has, and is cancelled if nobody said how it ended; a skip never
hides a result, unless a person asked for that run; the order is that of arrival, since clocks are set back. Not for
several threads: `status` holds the lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_trace_id

from telemetry.memory_events import MemoryStatus, MemoryTrigger
from telemetry.names import Attr, SpanName
from telemetry.otel_memory import OPS
from telemetry.status_file import INTERRUPTED, STARTED, RunStatus

FRESH_SECONDS = 60.0
Key = int | str  # of a run: its span's id, or its own where it has no span


class Runs:
    """`result`: what the process before left."""

    def __init__(self, result: RunStatus | None) -> None:
        self._words = 0
        self._running: dict[Key, tuple[int, RunStatus]] = {}
        self._result = (0, result) if result else None
        self._told: set[int] = set()  # spans still open of runs whose end was said

    def latest(self) -> RunStatus | None:
        newest = max(self._running.values(), key=lambda said: said[0], default=None)
        if newest is None or self._result is None:
            said = newest or self._result
            return said[1] if said else None
        return newest[1] if newest[0] > self._result[0] or _is_skip(self._result[1]) else self._result[1]

    def key_of(self, run_id: str) -> Key:
        """The span that is current, if it is this run's: an operator's limits may have cut its run id short, or off."""
        span_id = trace.get_current_span().get_span_context().span_id
        run = self.running(span_id)
        if run and run_id.startswith(run.run_id):
            return span_id
        return next((key for key, (_, run) in self._running.items() if run.run_id == run_id), run_id)

    def running(self, key: Key) -> RunStatus | None:
        return self._running[key][1] if key in self._running else None

    def started(self, key: Key, run: RunStatus) -> None:
        self._words += 1
        self._running[key] = self._words, run

    def ended(self, key: Key, run: RunStatus) -> None:
        self._words += 1
        if self._running.pop(key, None) and isinstance(key, int):
            self._told.add(key)
        if not (_is_skip(run) and self._result is not None and self._outlives(self._result[1], run)):
            self._result = self._words, run

    @staticmethod
    def _outlives(result: RunStatus, skip: RunStatus) -> bool:
        """A person who asks is told of the skip, but not in place of what the same wish has just brought about elsewhere."""
        just_now = skip.worker == result.worker and skip.at - result.at < FRESH_SECONDS
        return not _is_skip(result) and (just_now or skip.trigger != MemoryTrigger.MANUAL)

    def span_started(self, span: ReadableSpan) -> None:
        if span.context:
            self.started(span.context.span_id, run_of(span, status=STARTED, at=seconds_of(span.start_time)))

    def span_ended(self, span: ReadableSpan) -> None:
        key = span.context.span_id if span.context else 0
        if key in self._told:
            self._told.discard(key)
            return
        at, status = seconds_of(span.end_time), text_of(span.attributes or {}, Attr.MEMORY_STATUS)
        run = run_of(span, status=status, at=at)
        if not status:
            said = self.running(key) or run
            run = replace(said, status=MemoryStatus.CANCELLED.value, reason=INTERRUPTED, at=at)
        self.ended(key, run)
        self._told.discard(key)


def _is_skip(run: RunStatus) -> bool:
    return run.status == MemoryStatus.SKIPPED


def is_run(span_name: str) -> bool:
    return span_name.partition(" ")[0] == SpanName.MEMORY_RUN


def run_of(span: ReadableSpan, *, status: str, at: float) -> RunStatus:
    about = span.attributes or {}
    return RunStatus(
        run_id=text_of(about, Attr.MEMORY_RUN_ID),
        worker=text_of(about, Attr.MEMORY_WORKER) or span.name.partition(" ")[2],
        trigger=text_of(about, Attr.MEMORY_TRIGGER),
        status=status,
        at=at,
        reason=text_of(about, Attr.MEMORY_REASON),
        began_at=seconds_of(span.start_time),
        limit_seconds=_number(about, Attr.MEMORY_LIMIT),
        trace_id=format_trace_id(span.context.trace_id) if span.context else "",
        staged=int(_number(about, Attr.MEMORY_STAGED)),
        ops={op.value: int(_number(about, attr)) for op, attr in OPS.items() if attr.value in about},
    )


def text_of(about: Mapping[str, Any], attr: Attr) -> str:
    return str(about.get(attr.value, ""))


def seconds_of(nanoseconds: int | None) -> float:
    return (nanoseconds or 0) / 1e9


def current_trace() -> str:
    """Of whatever span the fact was said in; \"\" outside of any."""
    context = trace.get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else ""


def _number(about: Mapping[str, Any], attr: Attr) -> float:
    value = about.get(attr.value, 0)
    return float(value) if isinstance(value, int | float) else 0.0
