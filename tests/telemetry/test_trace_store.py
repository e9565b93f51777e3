"""The span processor: real threads, a real file, and whatever is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.names import Attr, SpanName
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.trace_store import TraceStore
from tests.telemetry import memory_facts
from tests.telemetry.made_traces import known, refetched
from tests.telemetry.stores import found, ids, stored

Make = Callable[..., TraceStore]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[TraceStore] = []

    def store(path: Path = tmp_path / "traces.db", **settings: object) -> TraceStore:
        made.append(TraceStore(path, **{"delay_seconds": 0.0, **settings}))  # type: ignore[arg-type]
        return made[-1]

    yield store
    for one in made:
        one.shutdown()


def end(store: TraceStore, *spans: object) -> None:
    for span in spans:
        store.on_end(span)  # type: ignore[arg-type]


def test_what_ended_before_a_flush_is_found_after_it(make: Make, tmp_path: Path) -> None:
    store = make()

    end(store, *refetched().spans)

    assert store.force_flush()
    assert ids(found(tmp_path / "traces.db")) == [1]
    assert store.dropped == 0


def test_a_consolidation_is_found_with_its_scope_its_dispositions_and_what_it_cost(make: Make, tmp_path: Path) -> None:
    store = make()
    about = {Attr.MEMORY_RUN_ID: "c1", Attr.MEMORY_WORKER: "memory_consolidation"}

    with (
        telemetry(TelemetrySettings(span_processors=[store])) as emit,
        emit.span(SpanName.MEMORY_RUN, about, label="memory_consolidation") as run,
    ):
        emit(memory_facts.CONSOLIDATION_DONE)

    root = stored(tmp_path / "traces.db", run.ref.trace_id).root.attributes
    assert (root[Attr.MEMORY_SCOPE], root[Attr.MEMORY_CANDIDATES], root[Attr.MEMORY_INVALID], root[Attr.MEMORY_CONSUMED]) == (
        *("channel:C1", 9),
        *(1, 8),
    )
    assert (root[Attr.MEMORY_ADOPTED], root[Attr.MEMORY_DUPLICATE], root[Attr.MEMORY_DEFERRED]) == (6, 2, 0)
    assert (root[Attr.MEMORY_RECORDS_LOST], root[Attr.MEMORY_SPECIFICS_LOST]) == (4, 7)


def test_the_file_is_its_owners_alone(make: Make, tmp_path: Path) -> None:
    make().force_flush()

    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_what_waits_at_the_shutdown_is_written(make: Make, tmp_path: Path) -> None:
    store = make(delay_seconds=60.0)
    end(store, *known().spans)

    store.shutdown()

    assert ids(found(tmp_path / "traces.db")) == [1]


def test_what_ends_after_the_shutdown_is_counted_as_lost(make: Make) -> None:
    told: list[int] = []
    store = make(on_drop=told.append)
    store.shutdown()

    end(store, *known().spans)

    assert (store.dropped, sum(told)) == (5, 5)


def test_a_queue_that_is_full_drops_and_counts_and_never_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    hang, hanging = threading.Event(), threading.Event()

    def stuck(*_: object) -> int:
        hanging.set()
        hang.wait(10)
        return 0

    store = make(queued_spans=10)
    store.force_flush()
    monkeypatch.setattr(store._writer, "write", stuck)
    end(store, known().spans[0])
    assert hanging.wait(10)

    end(store, *[span for _ in range(5) for span in known().spans])

    assert store.dropped == 15
    hang.set()


def test_spans_of_many_threads_are_all_there(make: Make, tmp_path: Path) -> None:
    store = make()
    threads = [threading.Thread(target=lambda n=n: [end(store, *known(n * 100 + i).spans) for i in range(50)]) for n in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.force_flush()
    assert len(found(tmp_path / "traces.db")) == 400
    assert store.dropped == 0


def test_nothing_is_written_on_the_thread_that_ends_a_span(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store, wrote = make(), set[int]()
    write = store._writer.write
    monkeypatch.setattr(store._writer, "write", lambda batch: wrote.add(threading.get_ident()) or write(batch))  # type: ignore[func-returns-value]

    end(store, *known().spans)
    store.force_flush()

    assert wrote and threading.get_ident() not in wrote


def test_a_forked_child_neither_hangs_nor_writes(make: Make, tmp_path: Path) -> None:
    store = make()
    store.force_flush()

    child = os.fork()
    if child == 0:
        end(store, *known().spans)
        os._exit(1 if store.force_flush() else len(store._queue))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert found(tmp_path / "traces.db") == []


def test_a_folder_that_is_not_there_is_said_once_and_tried_again(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.trace_writing.RETRY_SECONDS", 0.0)
    store = make(tmp_path / "gone" / "deeper" / "traces.db")
    end(store, *known(1).spans)
    store.force_flush()
    end(store, *known(2).spans)
    store.force_flush()
    (tmp_path / "gone").mkdir()

    end(store, *known(3).spans)
    store.force_flush()

    assert ids(found(tmp_path / "gone" / "deeper" / "traces.db")) == [3]
    assert store.dropped == 10
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "traces are missing until it can, replies are not affected" in told


def test_a_folder_that_is_deleted_under_a_running_bot_is_made_again(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "telemetry" / "traces.db"
    store = make(path)
    end(store, *known(1).spans)
    store.force_flush()
    shutil.rmtree(path.parent)

    end(store, *known(2).spans)
    store.force_flush()

    assert (ids(found(path)), store.dropped) == ([2], 0)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == ""


def test_a_file_that_somebody_locks_costs_only_those_spans(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.trace_file.BUSY_SECONDS", 0.01)
    store = make()
    store.force_flush()
    other = sqlite3.connect(tmp_path / "traces.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    end(store, *known(1).spans)
    store.force_flush()
    other.execute("ROLLBACK")
    other.close()

    end(store, *known(2).spans)
    store.force_flush()

    assert (ids(found(tmp_path / "traces.db")), store.dropped) == ([2], 5)


def test_a_file_that_was_deleted_by_hand_is_begun_anew(make: Make, tmp_path: Path) -> None:
    store = make()
    end(store, *known(1).spans)
    store.force_flush()
    for path in tmp_path.iterdir():
        path.unlink()

    end(store, *known(2).spans)
    store.force_flush()

    assert ids(found(tmp_path / "traces.db")) == [2]


def test_a_counter_that_raises_does_not_end_the_store(make: Make, tmp_path: Path) -> None:
    def broken(count: int) -> None:
        raise RuntimeError

    store = make(tmp_path / "gone" / "traces.db", on_drop=broken)
    end(store, *known(1).spans)

    assert store.force_flush()
    assert store.force_flush()


def test_a_root_that_only_began_is_there_at_once(make: Make, tmp_path: Path) -> None:
    store = make()
    with telemetry(TelemetrySettings(span_processors=[store])) as emit:
        from telemetry.names import Attr, SpanName

        span = emit.begin(SpanName.PROCESS, {Attr.MESSAGING_MESSAGE_ID: "1.2"}, root=True)
        store.force_flush()
        (running,) = found(tmp_path / "traces.db")
        span.set({Attr.REPLY_OUTCOME: "answered"})
        span.end()
        store.force_flush()
        (ended,) = found(tmp_path / "traces.db")

    assert (running.ts, running.ended, running.outcome) == ("1.2", None, "")
    assert (ended.trace_id, ended.outcome, ended.ended is not None) == (running.trace_id, "answered", True)


def test_attributes_that_change_while_they_are_read_do_not_stop_the_store(make: Make, tmp_path: Path) -> None:
    from telemetry.names import Attr, SpanName

    store = make()
    with telemetry(TelemetrySettings(span_processors=[store])) as emit:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            span = emit.begin(SpanName.PROCESS, root=True)
            for n in range(50):
                span.set({Attr.ROUTE: "main", Attr.SESSION_EPOCH: n})
            span.set({Attr.REPLY_OUTCOME: "answered"})
            span.end()
        store.force_flush()

    every = found(tmp_path / "traces.db")
    assert store.dropped == 0
    assert {summary.outcome for summary in every} == {"answered"}
    assert stored(tmp_path / "traces.db", every[0].trace_id).root is not None
