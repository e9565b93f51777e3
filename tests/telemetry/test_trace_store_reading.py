"""Found by all that people have in hand; compared whole with what was ended; interrupted where a process died."""

from __future__ import annotations

import dataclasses
import sqlite3
import subprocess
import sys
import textwrap
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from telemetry.names import Attr
from telemetry.trace_file import open_to_read
from telemetry.trace_reading import CANDIDATES, StoredTrace, Wanted, reading
from telemetry.trace_rows import INTERRUPTED
from tests.telemetry.made_traces import (
    BEGAN,
    CHANNEL,
    MS,
    POST_TS,
    SESSION,
    THREAD_TS,
    TS,
    Made,
    failed,
    known,
    refetched,
    reset,
    root,
    run,
)
from tests.telemetry.stores import begun, found, ids, store, stored, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.db"


def plain(span: ReadableSpan) -> dict[str, object]:
    context, parent = span.context, span.parent
    assert context
    return {
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{parent.span_id:016x}" if parent else "",
        "name": span.name,
        "start": span.start_time,
        "end": span.end_time,
        "status": span.status.status_code.value,
        "attributes": {key: list(v) if isinstance(v, tuple) else v for key, v in (span.attributes or {}).items()},
        "links": [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in span.links],
    }


def compared(trace: StoredTrace) -> list[dict[str, object]]:
    return [{**dataclasses.asdict(span), "links": [(ref.trace_id, ref.span_id) for ref in span.links]} for span in trace.spans]


@pytest.mark.parametrize("make", [refetched, known, failed, run])
def test_a_stored_tree_is_what_ended_span_for_span(make: Callable[[int], Made], path: Path) -> None:
    made = make(1)
    into = writer(path)
    for span in reversed(made.spans):  # children end before their parents, in batches as they come
        into.write([span])
    into.close()

    expected = sorted((plain(span) for span in made.spans), key=lambda span: (span["start"], span["end"]))
    assert compared(stored(path, made.id)) == expected


def test_the_columns_are_the_roots_own_words(path: Path) -> None:
    store(path, failed())

    (about,) = found(path)

    assert dataclasses.asdict(about) == {
        "trace_id": failed().id,
        "kind": "reply",
        "name": "process slack",
        "started": BEGAN / 1e9,
        "ended": BEGAN / 1e9 + 9.0,
        "outcome": "failed",
        "reason": "model_limit",
        "decision": "refetched",
        "gate_reason": "after_compaction",
        "route": "main",
        "team": "T012ABC",
        "channel": CHANNEL,
        "ts": TS,
        "thread_ts": THREAD_TS,
        "attempt": 1,
        "previous": "",
    }


def test_a_cancelled_reply_and_one_that_says_nothing_are_cancelled_and_a_dropped_one_is_dropped(path: Path) -> None:
    cancelled, silent, dropped = Made(1), Made(2), Made(3)
    root(cancelled, 5, REPLY_OUTCOME="cancelled")
    root(silent, 5)
    root(dropped, 5, REPLY_OUTCOME="dropped", REPLY_REASON="not_allowed")
    store(path, cancelled, silent, dropped)

    assert {about.trace_id: (about.outcome, about.reason) for about in found(path)} == {
        cancelled.id: ("cancelled", ""),
        silent.id: ("cancelled", ""),
        dropped.id: ("dropped", "not_allowed"),
    }


def test_a_tool_that_ends_after_its_root_is_in_the_same_trace(path: Path) -> None:
    made = refetched()
    late = made.spans.pop(9)
    store(path, made)

    writer(path).write([late])

    assert [span.name for span in stored(path, made.id).spans].count("execute_tool Read") == 1
    assert found(path)[0].outcome == "answered"


def test_a_session_has_no_outcome(path: Path) -> None:
    made = Made(1)
    made.span("session", 0, 5)
    store(path, made)

    assert [(about.kind, about.outcome) for about in found(path)] == [("session", "")]


def test_a_trace_is_found_by_everything_that_people_have_in_hand(path: Path) -> None:
    store(path, refetched(0xAAAA0001), known(0xAAAA0002, began=BEGAN + MS), known(0xBBBB0001, began=BEGAN + 2 * MS))

    with reading(path) as traces:
        assert ids(traces.by_prefix("aaaa0001")) == [0xAAAA0001]
        assert ids(traces.by_prefix("aaaa")) == [0xAAAA0002, 0xAAAA0001]
        assert ids(traces.by_prefix(known(0xBBBB0001).id)) == [0xBBBB0001]
        assert traces.by_prefix("cccc") == []
        assert len(traces.by_message(TS)) == len(traces.by_message(TS, channel=CHANNEL)) == 3
        assert traces.by_message(TS, channel="C999") == traces.by_message("1.2") == []
        assert ids(traces.by_post(POST_TS, channel=CHANNEL)) == [0xBBBB0001, 0xAAAA0002, 0xAAAA0001]
        assert traces.by_post(POST_TS, channel="C999") == traces.by_post(TS) == []
        assert len(traces.by_thread(THREAD_TS, channel=CHANNEL)) == 3
        assert traces.by_thread(TS) == []
        assert traces.account(SESSION) == "work"
        assert traces.account("other") == ""
        assert traces.oldest() == BEGAN / 1e9


def test_a_prefix_never_gives_more_candidates_than_help(path: Path) -> None:
    store(path, *(known(0xAAAA0000 + n) for n in range(CANDIDATES + 5)))

    with reading(path) as traces:
        assert len(traces.by_prefix("aaaa")) == CANDIDATES


def test_the_list_is_filtered_and_newest_first(path: Path) -> None:
    made = (refetched(1), known(2, began=BEGAN + MS), failed(3, began=BEGAN + 2 * MS), run(4, began=BEGAN + 3 * MS))
    store(path, *made, reset(5, "crash", began=BEGAN + 4 * MS))

    def listed(**wanted: object) -> list[int]:
        return ids(found(path, Wanted(**wanted)))  # type: ignore[arg-type]

    assert listed() == [4, 3, 2, 1]
    assert listed(route="main") == [3, 2, 1]
    assert listed(outcome="failed") == [3]
    assert listed(outcome="completed") == [4]
    assert listed(decision="refetched") == [3, 1]
    assert listed(since=BEGAN / 1e9 + 0.0015) == [4, 3]
    assert listed(limit=2) == [4, 3]


def test_resets_of_a_session_are_found_in_the_order_in_which_they_happened(path: Path) -> None:
    store(path, reset(1, "hibernate", began=BEGAN), reset(2, "crash", began=BEGAN + MS), failed(3, began=BEGAN + 2 * MS))

    with reading(path) as traces:
        assert [r.cause for r in traces.resets("main", since=0)] == ["hibernate", "crash", "compaction_auto"]
        assert [r.cause for r in traces.resets("main", since=BEGAN / 1e9)] == ["crash", "compaction_auto"]
        assert [r.cause for r in traces.resets("main", since=0, limit=1)] == ["compaction_auto"]
        assert traces.resets("other", since=0) == []


def test_what_a_dead_process_left_is_interrupted_once_the_next_one_opens_the_file(path: Path) -> None:
    writer(path).write(begun(known(1)))
    before = found(path)

    writer(path).write([])

    assert ([about.outcome for about in before], [about.outcome for about in found(path)]) == ([""], [INTERRUPTED])
    assert len(stored(path, known(1).id).spans) == 4


def test_a_second_attempt_marks_the_first_and_is_linked_to_it(path: Path) -> None:
    again = Made(2)
    root(again, 900, links=[known(1).id], REPLY_ATTEMPT=2, REPLY_OUTCOME="answered")
    into = writer(path)
    into.write(begun(known(1)))
    into.write(again.spans)
    into.close()

    second, first = sorted(found(path), key=lambda about: about.attempt, reverse=True)
    assert (first.outcome, second.previous, second.attempt) == (INTERRUPTED, first.trace_id, 2)
    with reading(path) as traces:
        assert [about.trace_id for about in traces.following(first.trace_id)] == [second.trace_id]


def test_a_store_that_was_never_written_is_not_there(path: Path) -> None:
    with pytest.raises(FileNotFoundError), reading(path):
        pass
    path.touch()
    with pytest.raises(FileNotFoundError), reading(path):
        pass


def test_a_reader_in_the_middle_of_reading_holds_up_nobody_and_can_change_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.trace_file.BUSY_SECONDS", 0.0)
    into = writer(path)
    into.write(known(1).spans)
    db = open_to_read(path)
    db.execute("BEGIN")
    count = "SELECT count(*) FROM traces"
    before = db.execute(count).fetchone()[0]

    assert into.write(known(2).spans) == 0

    assert (before, db.execute(count).fetchone()[0]) == (1, 1)
    db.execute("COMMIT")
    assert db.execute(count).fetchone()[0] == 2
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM traces")
    db.close()
    into.close()


class Changing(UserDict[str, Any]):
    """As a root's attributes are while its reply replaces one of them: its key is there, and then it is not."""

    def __getitem__(self, key: str) -> Any:
        if key == Attr.ROUTE:
            raise KeyError(key)
        return super().__getitem__(key)


def test_an_attribute_that_is_just_being_replaced_is_left_out(path: Path) -> None:
    made = known(1)
    made.spans[0]._attributes = Changing(made.spans[0].attributes or {})  # type: ignore[assignment]
    writer(path).write(begun(made)[:1])

    assert [(about.ts, about.route) for about in found(path)] == [(TS, "")]


@pytest.mark.kill
def test_another_process_reads_whole_traces_while_this_one_writes(path: Path) -> None:
    """And it never waits for the writer, nor the writer for it."""
    into = writer(path)
    into.write(known(1).spans)
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from telemetry.trace_reading import Wanted, reading
        seen = 0
        while seen < 300:
            with reading(Path(sys.argv[1])) as traces:
                every = traces.listing(Wanted(limit=1000))
                assert all(len(traces.trace(about.trace_id).spans) == 5 for about in every[:5])
            seen = len(every)
            print(seen, flush=True)
    """)
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline().strip() == "1"
        for number in range(2, 301):
            assert into.write(known(number).spans) == 0
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    into.close()

    assert (child.returncode, err) == (0, "")
    assert len(set(out.split())) > 1, "it never saw the file in between"


@pytest.mark.kill
def test_a_process_that_is_killed_leaves_what_it_had_flushed(path: Path) -> None:
    program = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from telemetry.names import SpanName
        from telemetry.setup import TelemetrySettings, telemetry
        from telemetry.trace_store import TraceStore
        store = TraceStore(Path(sys.argv[1]))
        with telemetry(TelemetrySettings(span_processors=[store])) as emit:
            span = emit.begin(SpanName.PROCESS, root=True)
            with emit.within(span), emit.span(SpanName.LANE_WAIT):
                pass
            store.force_flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)

    writer(path).write([])

    assert ran.returncode == -9, ran.stderr
    (about,) = found(path)
    assert about.outcome == INTERRUPTED
    assert [span.name for span in stored(path, about.trace_id).spans] == ["lane.wait"]
