"""Stored data that parses and makes no sense: whoever asks why is still told something, in words, and nothing raises."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.cli import traces as traces_command
from bot.explain.explainer import Explainer
from bot.explain.explanation import as_json
from bot.explain.find import Ambiguous, NotFound
from bot.words import Language
from telemetry.events import Thread
from telemetry.names import Attr
from telemetry.trace_reading import Wanted, reading
from tests.bot.explain.explaining import Left, shown
from tests.telemetry.made_traces import BEGAN, CHANNEL, TEAM, THREAD_TS, TS, Made, known, refetched, run

PREFIX = "00000001"
ODD = [None, True, "x", "\ud800", "\x1b[31m\n", -1, 0, 10**30, 2**63, 1.5, 1e300, float("nan"), float("inf"), [], [1, None], {}, {"a": [1]}]
BODIES = [
    "null",
    "[]",
    "[null]",
    "[[]]",
    "{}",
    "[" * 5_000,
    '[["a","","x",1,2,0,null]]',
    '[["a","","x","q",2,0,{}]]',
    '[["a","","process slack",1,2,0,{}],["b","a","x",1,2,0,{}],["a","b","y",1,2,0,{}]]',
    '[["r","","process slack",0,2,0,{}],["a","b","x",1,2,0,{}],["b","a","x",1,2,0,{}],["c","c","y",1,2,0,{}]]',
    json.dumps([[f"{n}", f"{n - 1}" if n else "", "x", n, 1, 0, {}] for n in range(3_000)]),
]


def told(left: Left, *refs: str) -> None:
    """On the command line and in Slack."""
    for ref in refs:
        try:
            found = left.find(ref)
        except (NotFound, Ambiguous):
            continue
        json.dumps(as_json(found, ref=ref, links={}), allow_nan=False)
        assert shown(found) and shown(found, ascii_only=True)
    explainer = Explainer(left.workspace.traces_db, sleep=lambda _: None, monotonic=iter(range(10_000)).__next__)
    for language in Language:
        for ts in ("", TS):
            assert explainer.sentence(Thread(TEAM, CHANNEL, THREAD_TS), language, message_ts=ts).sentence
    with reading(left.workspace.traces_db) as traces:
        listed = traces.listing(Wanted(limit=10**40, since=1e300)) + traces.listing(Wanted(since=-1e300))
        traces.oldest(), traces.account("x"), traces.resets("main", since=-1e300, until=1e300)
    json.dumps([traces_command._as_json(summary) for summary in listed], allow_nan=False)
    assert traces_command._table(listed)


def changed(left: Left, change: Callable[[sqlite3.Connection], object]) -> None:
    db = sqlite3.connect(left.workspace.traces_db)
    with db:
        change(db)
    db.close()


@pytest.fixture
def left(tmp_path: Path) -> Left:
    left = Left(tmp_path)
    left.traces(refetched(1), known(2, began=BEGAN + 1), run(3, began=BEGAN + 2))
    return left


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:40])
def test_a_body_of_spans_may_be_anything(left: Left, body: str) -> None:
    changed(left, lambda db: db.execute("UPDATE spans SET body=?", (body,)))

    told(left, PREFIX, "last", TS, "00000003")
    assert left.find(PREFIX).gate.decision == "refetched", "the row of the trace still tells what it knows"


def test_spans_in_a_circle_are_shown_once_each(left: Left) -> None:
    circle = [["r", "", "process slack"], ["a", "b", "one"], ["b", "a", "two"], ["c", "c", "three"], ["d", "a", "four"], ["e", "?", "five"]]
    body = json.dumps([[*names, BEGAN + at, 1, 0, {}] for at, names in enumerate(circle)])
    changed(left, lambda db: db.execute("UPDATE spans SET body=? WHERE trace=1", (body,)))

    parts = [(part.name, part.depth) for part in left.find(PREFIX).parts]

    assert parts == [("process slack", 0), ("five", 1), ("one", 1), ("two", 2), ("four", 2), ("three", 1)]


@pytest.mark.parametrize("table", ["traces", "resets", "starts", "posts"])
@pytest.mark.parametrize("value", ["x", b"\xff", None, 5, 2**63 - 1, -(2**63), 1e300])
def test_a_column_may_hold_anything(left: Left, table: str, value: Any) -> None:
    columns = [row[1] for row in sqlite3.connect(left.workspace.traces_db).execute(f"PRAGMA table_info({table})")]
    for column in columns:
        try:
            changed(left, lambda db, column=column: db.execute(f"UPDATE {table} SET {column}=? WHERE rowid=1", (value,)))
        except sqlite3.Error:
            continue  # the file itself refuses it
        told(left, PREFIX, "last", TS)


def test_a_row_without_a_date_hides_no_other(left: Left) -> None:
    changed(left, lambda db: db.execute("UPDATE traces SET started='zz' WHERE id=1"))

    with reading(left.workspace.traces_db) as traces:
        assert [summary.trace_id[:8] for summary in traces.listing(Wanted(limit=2))] == ["00000003", "00000002"]
        assert traces.oldest() is not None


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_attribute_may_be_anything(left: Left, value: Any) -> None:
    read = sqlite3.connect(left.workspace.traces_db).execute("SELECT id, body FROM spans").fetchall()
    keys = {key for _, body in read for span in json.loads(body) for key in span[6]} | {Attr.ERROR_TYPE.value}
    bodies = [(json.dumps([[*span[:6], dict.fromkeys(keys, value)] for span in json.loads(body)]), id) for id, body in read]
    changed(left, lambda db: db.executemany("UPDATE spans SET body=? WHERE id=?", bodies))

    told(left, PREFIX, "00000003")


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_field_of_a_log_line_may_be_anything(tmp_path: Path, value: Any) -> None:
    words = ("seconds", "outcome", "reason", "trace_id", "messages", "omitted", "epoch", "known_threads", "channel", "team", "message_ts")
    more = ("error", "summary", "route", "forgotten", "pre_tokens", "decision", "injection", "cause", "level", "event", "ts", "thread_ts")
    left = Left(tmp_path)
    for key in (*words, *more):
        for file in left.workspace.logs.iterdir():
            file.unlink()
        for event in ("gate_decision", "session_reset", "thread_refetched", "thread_injected", "reply", "message_dropped"):
            left.line(1, event, **{"trace_id": Made(1).id, "message_ts": TS, "channel": CHANNEL, key: value})
        for ref in (PREFIX, TS):
            try:
                found = left.find(ref)
            except (NotFound, Ambiguous):
                continue
            json.dumps(as_json(found, ref=ref, links={}), allow_nan=False)
            assert shown(found)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["", "a", "b", BEGAN, "process slack"]),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.sampled_from(list(Attr)) | st.text(max_size=4), inner, max_size=5),
    max_leaves=40,
)
a_span = st.tuples(
    *(st.sampled_from(["a", "b", "c", ""]) | anything,) * 2,
    st.sampled_from(["process slack", "thread.gate", "chat m", "invoke_agent m", "session.reset", "execute_tool x", "session.start"]),
    *(st.integers(BEGAN, BEGAN + 10**9) | anything,) * 2,
    st.integers(0, 2) | anything,
    st.dictionaries(st.sampled_from(list(Attr)), anything, max_size=4) | anything,
)


@pytest.mark.sweep
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(spans=st.lists(a_span | anything, max_size=8) | anything)
def test_whatever_the_spans_of_a_trace_are_it_is_told_in_words(spans: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        left = Left(Path(folder))
        left.traces(known(1))
        changed(left, lambda db: db.execute("UPDATE spans SET body=?", (json.dumps(spans),)))

        told(left, PREFIX, TS)
