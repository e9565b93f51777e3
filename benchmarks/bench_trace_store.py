"""What the trace store costs a reply, and what a look into a full one costs: ratios, measured side by side in one run.

Wall times of one machine say little; a ratio is the median over rounds in which both sides take turns. Run it with
`make bench`. Each figure has a bar; the exit code is 1 where one is missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import SpanContext

from telemetry.emit import Emit
from telemetry.names import Attr, SpanName
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.trace_reading import Wanted, reading
from telemetry.trace_store import TraceStore
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles

SPANS = 12  # of one reply
ROUNDS, REPLIES = 15, 150  # a round is over before the store's thread wakes up: it shows what a reply waits for
LOOKS = 200
SMALL, LARGE = 100, 25_000  # traces: 1,200 and 300,000 spans
CHILD = {Attr.ROUTE: "main", Attr.GATE_DECISION: "refetched", Attr.GATE_REASON: "after_rotate", Attr.SESSION_EPOCH: 3}
ROOT = {Attr.MESSAGING_DESTINATION: "C012ABC", Attr.MESSAGING_CONVERSATION_ID: "1.1", Attr.THREAD_TEAM: "T012ABC", **CHILD}
BEGAN = 1_796_040_000_000_000_000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        kept = [emit_cost(Path(folder)), cpu_cost(Path(folder)), *lookups(Path(folder))]
    return 0 if all(kept) else 1


# -- emitting ----------------------------------------------------------------------------------------------------------
def emit_cost(folder: Path) -> bool:
    """What stands between a reply and its end."""
    plain, with_store = _emits(folder / "emit", clock=time.perf_counter, settle=False)
    return _told("a reply's spans, with the store / without (time on its path)", with_store, plain, bar=1.5)


def cpu_cost(folder: Path) -> bool:
    """Writing included, of all threads."""
    plain, with_store = _emits(folder / "cpu", clock=time.process_time, settle=True)
    return _told("a reply's spans, with the store / without (CPU, writing included)", with_store, plain, bar=3.0)


def _emits(folder: Path, *, clock: Callable[[], float], settle: bool) -> tuple[list[float], list[float]]:
    """Seconds a reply, round by round: without and with the store."""
    folder.mkdir()
    store = TraceStore(folder / "traces.db")
    sides: list[tuple[Emit, TraceStore | None, list[float]]] = []
    with ExitStack() as stack:
        for processors in ((), (store,)):
            emit = stack.enter_context(telemetry(TelemetrySettings(span_processors=[Idle(), *processors], routes=("main",))))
            sides.append((emit, store if processors else None, []))
        for _ in range(ROUNDS):
            for emit, side_store, seconds in sides:
                store.force_flush()
                began = clock()
                for _ in range(REPLIES):
                    _reply(emit)
                if settle and side_store:
                    side_store.force_flush()
                seconds.append((clock() - began) / REPLIES)
    assert store.dropped == 0
    return sides[0][2], sides[1][2]


class Idle(SpanProcessor):
    """On both sides, so that the SDK has a processor to call."""


def _reply(emit: Emit) -> None:
    root = emit.begin(SpanName.PROCESS, ROOT, root=True)
    with emit.within(root):
        for _ in range(SPANS - 1):
            with emit.span(SpanName.CHAT, CHILD, label="model"):
                pass
    root.end()


# -- looking -----------------------------------------------------------------------------------------------------------
def lookups(folder: Path) -> Iterable[bool]:
    small, large = _filled(folder / "small.db", SMALL), _filled(folder / "large.db", LARGE)
    megabytes = large.stat().st_size / 1e6
    print(f"\n{LARGE * SPANS:,} spans take {megabytes:.0f} MB, {large.stat().st_size / (LARGE * SPANS):.0f} bytes a span")
    for what, look in (("by trace id", _by_id), ("by message", _by_message), ("the newest 20", _newest)):
        times: dict[Path, list[float]] = {small: [], large: []}
        for n in range(LOOKS):
            for path, count in ((small, SMALL), (large, LARGE)):
                began = time.perf_counter()
                look(path, (n * 7919) % count + 1)
                times[path].append(time.perf_counter() - began)
        yield _told(
            f"{what}: {LARGE * SPANS:,} spans / {SMALL * SPANS:,}, opened and closed each time", times[large], times[small], bar=2.0
        )


def _filled(path: Path, traces: int) -> Path:
    writer = TraceWriter(path, troubles=Troubles(), seconds=1e9, max_bytes=1 << 40)
    for first in range(1, traces + 1, 1_000):
        writer.write([span for number in range(first, min(first + 1_000, traces + 1)) for span in _spans(number)])
    writer.close()
    return path


def _spans(number: int) -> list[ReadableSpan]:
    top = SpanContext(number, 1, is_remote=False)
    about = {**CHILD, Attr.MESSAGING_MESSAGE_ID: str(number)}
    parts = [(SpanContext(number, n + 2, is_remote=False), top, "chat model", CHILD) for n in range(SPANS - 1)]
    return [
        ReadableSpan(
            name,
            context=context,
            parent=parent,
            attributes={str(key): value for key, value in attributes.items()},
            resource=Resource.get_empty(),
            start_time=BEGAN + number * 1_000_000,
            end_time=BEGAN + number * 1_000_000 + 500_000,
        )
        for context, parent, name, attributes in [*parts, (top, None, "process slack", {**ROOT, **about})]
    ]


def _by_id(path: Path, number: int) -> None:
    with reading(path) as traces:
        assert traces.trace(f"{number:032x}")


def _by_message(path: Path, number: int) -> None:
    with reading(path) as traces:
        assert traces.by_message(str(number), channel="C012ABC")


def _newest(path: Path, _: int) -> None:
    with reading(path) as traces:
        assert len(traces.listing(Wanted(limit=20))) == 20


def _told(what: str, ours: list[float], theirs: list[float], *, bar: float) -> bool:
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    numbers = f"{statistics.median(ours) * 1e6:,.0f} µs / {statistics.median(theirs) * 1e6:,.0f} µs"
    print(f"{ratio:5.2f}×  (bar {bar:g})  {'' if ratio <= bar else 'MISSED  '}{what}: {numbers}", flush=True)
    return ratio <= bar


if __name__ == "__main__":
    sys.exit(main())
