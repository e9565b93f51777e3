"""The gauges of the memory: what `MemoryCounted` said last, with ages that go on growing until it is said again.

What must stay true: nothing is claimed before the first count; an age grows with the monotonic clock, so that no clock
that is set moves it, and is never below nought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telemetry import metric_names as names
from telemetry.memory_events import MemoryCounted, RecordKind
from telemetry.metric_kinds import Metric

Values = list[tuple[Mapping[str, str], float]]


class MemoryGauges:
    """`monotonic` and `now` in seconds, `now` since the epoch."""

    def __init__(self, *, monotonic: Callable[[], float], now: Callable[[], float]) -> None:
        self._monotonic, self._now = monotonic, now
        self._said: tuple[MemoryCounted, dict[str, float], float] | None = None  # replaced whole: readers are in other threads

    def counted(self, fact: MemoryCounted) -> None:
        since_success = {worker.value: max(0.0, self._now() - at) for worker, at in fact.last_success.items()}
        self._said = fact, since_success, self._monotonic()

    def values(self, metric: Metric) -> Values:
        if self._said is None:
            return []
        fact, since_success, said_at = self._said
        since_said = self._monotonic() - said_at
        if metric is names.MEMORY_BACKLOG:
            return [({}, fact.backlog)]
        if metric is names.MEMORY_BACKLOG_AGE:
            return [({}, max(0.0, fact.oldest_seconds) + since_said if fact.backlog else 0.0)]
        if metric is names.MEMORY_RECORDS:
            return [({"kind": kind}, fact.records.get(kind, 0)) for kind in RecordKind]
        if metric is names.MEMORY_LAST_SUCCESS_AGE:
            return [({"worker": worker}, age + since_said) for worker, age in since_success.items()]
        if metric is names.MEMORY_UNEXTRACTED:
            return [({}, fact.unextracted)]
        raise KeyError(f"nobody reads the gauge {metric.name}")
