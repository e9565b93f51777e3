"""A damaged `state.db`: put aside whole, told, and what can be read of it taken over."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from bot.inbox import Inbox
from bot.messages import Change
from bot.outbox import Outbox
from bot.reply_parts import Reply
from bot.state_db import StateUnreadable, open_state
from bot.state_rescue import Rescued, open_or_rescue
from bot.thread_routes import ThreadRoutes
from telemetry.events import Outcome, Thread, TraceRef
from tests.bot.ground import TRACE, FakeClock, Store

PAGE = 4_096
INTERIOR = 5  # the kind of a page of a table that only leads to others, in its first byte


def talked(path: Path, *, ended: int = 150, waiting: int = 3) -> list[str]:
    """A file with something in every table; returns the ts of what waits in it."""
    store = Store(path)
    for n in range(ended + waiting):
        thread = Thread("T0", "C0", f"{1_761_000_000 + n}.000100")
        row = store.accept(thread.ts, thread, text=f"question {n} " + "x" * 300)
        store.threads.bind(thread, route="main", key="main")
        if n < ended:
            store.inbox.end(row.id, Outcome.ANSWERED)
        store.inbox.keep(thread, f"{1_761_100_000 + n}.000100", Change.POSTED, {"text": "said " + "x" * 300})
    store.threads.remember_session("main", route="main", session_id="5e55", account="work")
    store.inbox.tell_once("not_routed T0/C9")
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.db.close()
    return [f"{1_761_000_000 + n}.000100" for n in range(ended, ended + waiting)]


def rescued_from(path: Path) -> tuple[sqlite3.Connection, Rescued]:
    db, rescued = open_or_rescue(path, clock=FakeClock())
    assert rescued is not None
    return db, rescued


def open_ts(db: sqlite3.Connection) -> list[str]:
    return [row["ts"] for row in db.execute("SELECT ts FROM messages WHERE state != 'ended' ORDER BY ts")]


def scribble(path: Path, page: int) -> bytes:
    whole = path.read_bytes()
    broken = whole[: page * PAGE] + b"\xee" * PAGE + whole[(page + 1) * PAGE :]
    path.write_bytes(broken)
    return broken


def damaged_page_of(path: Path, table: str) -> int:
    """A leaf of this table in the middle of it."""
    db = sqlite3.connect(path)
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name=?", (table,)).fetchone()[0]
    db.close()
    whole = path.read_bytes()
    page = whole[(root - 1) * PAGE : root * PAGE]
    if page[0] != INTERIOR:
        return int(root) - 1
    cells = [int.from_bytes(page[12 + 2 * n : 14 + 2 * n]) for n in range(int.from_bytes(page[3:5]))]
    leaves = [int.from_bytes(page[at : at + 4]) for at in cells]
    return leaves[len(leaves) // 2] - 1


def test_a_whole_file_is_opened_and_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talked(tmp_path / "state.db")

    db, rescued = open_or_rescue(tmp_path / "state.db", clock=FakeClock())

    assert rescued is None and len(open_ts(db)) == 3 and capsys.readouterr().err == ""
    db.close()


@pytest.mark.parametrize("content", [b"no database at all " * 200, b"SQLite format 3\x00" + b"\xff" * 2_000], ids=["text", "header"])
def test_what_is_no_database_is_put_aside_as_it_is_and_told(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)

    db, rescued = rescued_from(path)

    assert rescued.aside.name == "state.db.damaged-20251020T224000Z" and rescued.aside.read_bytes() == content
    told = capsys.readouterr().err
    assert "put aside as state.db.damaged-20251020T224000Z, and a new one begun" in told and "Taken over: nothing" in told
    assert open_ts(db) == [] and rescued.open_messages == 0
    db.close()


def test_what_can_be_read_around_the_damage_is_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.db"
    waiting = talked(path)
    broken = scribble(path, damaged_page_of(path, "messages"))

    db, rescued = rescued_from(path)

    assert open_ts(db) == waiting and rescued.open_messages == 3
    assert 100 < rescued.rows["messages"] < 153 and rescued.rows["threads"] == 153 and rescued.rows["sessions"] == 1
    assert f"{rescued.rows['messages']} of messages" in capsys.readouterr().err
    assert rescued.aside.read_bytes() == broken, "nothing of it is changed"
    db.close()


def test_what_was_taken_over_serves_the_next_bot(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    waiting = talked(path, ended=3)
    scribble(path, damaged_page_of(path, "said"))

    db, rescued = rescued_from(path)
    db.close()
    store = Store(path)

    assert [row.ts for row in store.inbox.unanswered()] == waiting and rescued.rows["sessions"] == 1
    assert store.threads.session_id("main") == "5e55" and not store.inbox.tell_once("not_routed T0/C9")
    store.db.close()


def test_threads_that_are_taken_over_are_read_again(tmp_path: Path) -> None:
    """What others said in them is not taken over."""
    path = tmp_path / "state.db"
    talked(path, ended=3)
    scribble(path, damaged_page_of(path, "said"))

    db, _ = rescued_from(path)
    row = ThreadRoutes(db, clock=FakeClock(), boot="next").get_thread_route(Thread("T0", "C0", "1761000000.000100"))

    assert row is not None and row.overflowed and row.carried and row.route == "main"
    assert db.execute("SELECT count(*) FROM said").fetchone()[0] == 0
    db.close()


def test_rows_that_make_no_sense_are_left(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    waiting = talked(path, ended=0, waiting=5)
    db = open_state(path)
    for ts, change in zip(waiting, ("body='not json'", "state='odd'", "ts='soon'", "accepted_at='never'"), strict=False):
        db.execute(f"UPDATE messages SET {change} WHERE ts=?", (ts,))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    scribble(path, damaged_page_of(path, "said"))

    db, rescued = rescued_from(path)

    assert open_ts(db) == waiting[4:] and rescued.rows["messages"] == 1
    db.close()


def test_a_second_damage_in_the_same_second_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    names = []
    for text in (b"one " * 500, b"two " * 500):
        path.write_bytes(text)
        for beside in tmp_path.glob("state.db-*"):
            beside.unlink()
        db, rescued = rescued_from(path)
        db.close()
        names.append(rescued.aside.name)

    assert names == ["state.db.damaged-20251020T224000Z", "state.db.damaged-20251020T224000Z-2"]


def test_what_stood_in_the_log_beside_it_is_taken_over_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    talked(path, ended=2, waiting=0)
    store = Store(path)
    store.accept("1761000900.000100", Thread("T0", "C0", "1761000900.000100"), text="late")
    log = (tmp_path / "state.db-wal").read_bytes()
    main = path.read_bytes()
    store.db.close()
    path.write_bytes(main[: 3 * PAGE] + b"\xee" * 64 + main[3 * PAGE + 64 :])
    (tmp_path / "state.db-wal").write_bytes(log)

    try:
        db, rescued = open_or_rescue(path, clock=FakeClock())
    finally:
        names = {p.name for p in tmp_path.iterdir()}

    assert rescued is None or (f"{rescued.aside.name}-wal" in names and "1761000900.000100" in open_ts(db))
    db.close()


@pytest.mark.parametrize("kind", ["newer", "foreign", "held"])
def test_what_is_no_damage_stays_where_it_is(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.state_db.BUSY_SECONDS", 0.0)
    path = tmp_path / "state.db"
    other = sqlite3.connect(path)
    if kind == "held":
        open_state(path).close()
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
    else:
        other.executescript(f"CREATE TABLE messages (id, theirs); PRAGMA user_version={99 if kind == 'newer' else 1};")
    before = path.read_bytes()

    with pytest.raises(StateUnreadable):
        open_or_rescue(path, clock=FakeClock())

    assert path.read_bytes() == before and list(tmp_path.glob("*damaged*")) == []
    other.close()


@pytest.mark.sweep
def test_wherever_the_damage_is_the_bot_can_begin_and_nothing_is_deleted(tmp_path: Path) -> None:
    chance = random.Random(11)
    whole_folder = tmp_path / "whole"
    whole_folder.mkdir()
    waiting = set(talked(whole_folder / "state.db"))
    whole = (whole_folder / "state.db").read_bytes()
    kept = 0
    for n in range(60):
        folder = tmp_path / str(n)
        folder.mkdir()
        path, at = folder / "state.db", chance.randrange(len(whole))
        broken = whole[:at] + bytes(chance.randrange(256) for _ in range(chance.choice((1, 64, 5_000))))
        path.write_bytes(broken + (whole[len(broken) :] if chance.random() < 0.7 else b""))
        content = path.read_bytes()

        db, rescued = open_or_rescue(path, clock=FakeClock())

        assert set(open_ts(db)) <= waiting and db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert rescued is None or rescued.aside.read_bytes() == content
        assert {row.ts for row in Inbox(db, clock=FakeClock()).unanswered()} <= waiting
        kept += set(open_ts(db)) == waiting
        db.close()
    assert kept > 30, "most damage leaves the open messages readable"


def test_the_trace_of_an_open_message_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    talked(path, ended=0, waiting=1)
    scribble(path, damaged_page_of(path, "said"))
    db, _ = rescued_from(path)
    db.close()

    (row,) = Store(path).inbox.unanswered()

    assert row.trace == TraceRef(TRACE.trace_id, TRACE.span_id) and row.body["text"].startswith("question 0")


def test_replies_and_deaths_are_taken_over_with_their_messages_and_never_without(tmp_path: Path) -> None:
    """Or the message that gets the id of one that was lost would be answered with the words for that one."""
    path = tmp_path / "state.db"
    store = Store(path)
    rows = []
    for n in range(3):
        thread = Thread("T0", "C0", f"{1_761_000_000 + n}.000100")
        rows.append(store.accept(thread.ts, thread, text="a question").id)
        Outbox(store.db).keep(rows[n], Reply(text=f"answer {n}", outcome=Outcome.ANSWERED, trace_id="7" * 32))
        store.db.execute("INSERT INTO deaths VALUES (?, 1)", (rows[n],))
    kept, unread, lost = rows
    store.db.execute("UPDATE replies SET body='{' WHERE message=?", (unread,))
    store.db.execute("UPDATE messages SET body='{' WHERE id=?", (lost,))
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.db.close()

    db, rescued = rescued_from(path)

    assert rescued.open_messages == 2
    assert [row[0] for row in db.execute("SELECT message FROM replies")] == [kept]
    assert [row[0] for row in db.execute("SELECT message FROM deaths ORDER BY message")] == [kept, unread]
    assert Outbox(db).kept(kept) is not None and Outbox(db).kept(lost) is None
    db.close()
