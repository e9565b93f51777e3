"""The bounds: days and bytes, the oldest first, in small steps; and what is found afterwards."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from telemetry.trace_reading import reading
from tests.telemetry.made_traces import BEGAN, MS, known, refetched, reset
from tests.telemetry.stores import found, ids, stored, writer

DAY = 86_400_000 * MS
KIB = 1024
PAGE = 4 * KIB  # a last free one may stay


def size_of(path: Path) -> int:
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size


def test_what_is_older_than_the_days_goes_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    into = writer(path, seconds=3 * 86_400, now=BEGAN + 10 * DAY)
    for day in range(11):
        into.write(known(day + 1, began=BEGAN + day * DAY).spans)

    while into.prune():
        pass
    into.close()

    assert ids(found(path)) == [11, 10, 9, 8]
    assert len(stored(path, known(8).id).spans) == 5


def test_the_oldest_traces_go_when_the_file_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    into = writer(path, max_bytes=400 * KIB)
    for number in range(1, 400, 10):
        into.write([span for n in range(number, number + 10) for span in refetched(n, began=BEGAN + n * MS).spans])
        into.prune()
    into.close()

    left = ids(found(path))
    assert left == list(range(400, 400 - len(left), -1))
    assert 40 < len(left) < 200
    assert size_of(path) <= 400 * KIB + PAGE


def test_what_is_dropped_is_given_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    begin = writer(path)
    begin.write([span for number in range(1, 300) for span in refetched(number).spans])
    begin.close()
    before = size_of(path)

    into = writer(path, max_bytes=100 * KIB)
    into.write([])
    while into.prune():
        pass
    into.close()

    assert before > 800 * KIB
    assert size_of(path) <= 100 * KIB + PAGE


def test_with_a_trace_goes_all_that_it_is_found_by(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    into = writer(path, seconds=86_400, now=BEGAN + 10 * DAY)
    into.write(refetched(1).spans)
    into.write(reset(2, "hibernate", began=BEGAN).spans)
    for number, day in enumerate((8, 9, 10), 3):
        into.write(known(number, began=BEGAN + day * DAY).spans)

    into.prune()
    into.close()

    db = sqlite3.connect(path)
    counts = {
        table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("traces", "spans", "posts", "resets", "starts")
    }
    db.close()
    assert counts == {"traces": 2, "spans": 2, "posts": 2, "resets": 0, "starts": 0}


def test_one_turn_takes_only_some_steps_and_says_that_there_is_more(tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    into = writer(path, seconds=1, now=BEGAN + DAY)
    into.write([known(number).spans[0] for number in range(1, 1_200)])

    assert into.prune()
    assert len(found(path)) == 199
    assert not into.prune()
    assert found(path) == []
    into.close()


def test_a_span_that_comes_after_its_trace_was_dropped_begins_it_anew(tmp_path: Path) -> None:
    path, late = tmp_path / "traces.db", known(1)
    into = writer(path, seconds=1, now=BEGAN + DAY)
    into.write(late.spans[1:])
    into.prune()

    assert into.write(late.spans[:1]) == 0
    into.close()

    with reading(path) as traces:
        trace = traces.trace(late.id)
    assert trace and len(trace.spans) == 1


def test_a_clock_that_leaps_ahead_deletes_nothing_and_hinders_nothing_later(tmp_path: Path) -> None:
    path, clock = tmp_path / "traces.db", [BEGAN]
    into = writer(path, seconds=90 * 86_400, clock=lambda: clock[0])
    future = known(1, began=BEGAN + 3_650 * DAY)
    for number in range(2, 102):
        into.write(known(number, began=BEGAN + number * MS).spans)

    clock[0] = BEGAN + 3_650 * DAY
    into.write(future.spans)
    leapt = into.prune() or len(found(path))
    clock[0] = BEGAN
    into.write(known(102, began=BEGAN).spans)
    for day in (198, 199, 200):
        clock[0] = BEGAN + day * DAY
        into.write(known(1_000 + day, began=clock[0]).spans)
    while into.prune():
        pass
    into.close()

    assert leapt == 101
    assert ids(found(path)) == [1, 1_200, 1_199, 1_198]
