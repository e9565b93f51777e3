"""A trace store's writer on a file of a test, and what a reader finds in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from telemetry.trace_reading import StoredTrace, Summary, Wanted, reading
from telemetry.trace_rows import Begun
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles
from tests.telemetry.made_traces import BEGAN, Made

YEAR = 365 * 86_400.0
GIB = 1 << 30


def writer(
    path: Path,
    *,
    seconds: float = YEAR,
    max_bytes: int = GIB,
    now: int = BEGAN,
    clock: Callable[[], int] | None = None,
    troubles: Troubles | None = None,
    guest: bool = False,
) -> TraceWriter:
    """Its clock stands still at `now`, unless it is given one."""
    clock = clock or (lambda: now)
    return TraceWriter(
        path, troubles=troubles or Troubles(), seconds=seconds, max_bytes=max_bytes, now=clock, monotonic=lambda: 0.0, guest=guest
    )


def store(path: Path, *made: Made) -> None:
    """Each in a batch of its own, and closed."""
    into = writer(path)
    for one in made:
        assert into.write(one.spans) == 0
    into.close()


def begun(made: Made) -> list[ReadableSpan | Begun]:
    """What the store is told as the root begins, and then its children; the root itself never ends."""
    return [Begun(made.spans[0]), *made.spans[1:]]


def found(path: Path, wanted: Wanted | None = None) -> list[Summary]:
    with reading(path) as traces:
        return traces.listing(wanted or Wanted(kinds=("reply", "run", "session", "reset", "other", ""), limit=10_000))


def stored(path: Path, trace_id: str) -> StoredTrace:
    with reading(path) as traces:
        trace = traces.trace(trace_id)
    assert trace is not None
    return trace


def ids(summaries: Iterable[Summary]) -> list[int]:
    return [int(summary.trace_id[:8], 16) for summary in summaries]
