"""Every accepted message once, and on disk before it is acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.inbox import KEPT_CHARS, REMEMBERED_SECONDS
from bot.reply_parts import Reply
from telemetry.events import FailReason, Outcome, Thread, TraceRef
from tests.bot.ground import HERE, ROOT, TRACE, Store


def ts(n: float) -> str:
    return f"{1_761_000_000 + n:.6f}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.db")
    yield store
    store.db.close()


# -- accepted ----------------------------------------------------------------------------------------------------------
def test_a_row_is_on_disk_before_accept_returns(store: Store) -> None:
    row = store.accept(text="会議は?")

    other = sqlite3.connect(store.path)
    found = other.execute("SELECT id, team, channel, ts, body, state, accepted_at FROM messages").fetchall()
    assert found == [(row.id, "T0", "C0", ROOT, '{"text":"会議は?"}', "waiting", store.clock.now())]
    other.close()


def test_nothing_of_a_row_that_the_disk_refused_is_there(store: Store) -> None:
    pages = store.db.execute("PRAGMA page_count").fetchone()[0]
    store.db.execute(f"PRAGMA max_page_count={pages}")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.accept(text="x" * 100_000)

    assert not store.inbox.has(HERE, ROOT)
    store.db.execute("PRAGMA max_page_count=1000000")
    assert store.accept(text="x" * 100_000).attempt == 1


def test_a_message_is_found_by_team_channel_and_ts_after_a_restart(store: Store) -> None:
    store.accept()

    store.restart()

    assert store.inbox.has(HERE, ROOT)
    assert store.inbox.has(Thread("T0", "C0", ts(5)), ROOT)  # the thread is no part of its identity
    assert not store.inbox.has(Thread("T1", "C0", ROOT), ROOT)
    assert not store.inbox.has(Thread("T0", "C1", ROOT), ROOT)
    assert not store.inbox.has(HERE, ts(1))


def test_a_message_cannot_be_accepted_twice(store: Store) -> None:
    store.accept()

    with pytest.raises(sqlite3.IntegrityError):
        store.accept()

    assert len(store.inbox.unanswered()) == 1


def test_what_was_kept_of_a_message_goes_when_it_is_accepted_itself(store: Store) -> None:
    store.accept()
    store.post(ts(1), "plain")

    store.accept(ts(1), text="with a mention")

    assert store.heard() == []


def test_what_was_not_ended_comes_back_oldest_first_and_what_had_begun_counts_one_more_attempt(store: Store) -> None:
    first, second, third = (store.accept(ts(n), text=str(n)) for n in (1, 2, 3))
    store.inbox.begin(first.id)
    store.inbox.begin(second.id)
    store.inbox.end(second.id, Outcome.ANSWERED)

    store.restart()
    rows = store.inbox.unanswered()

    assert [(r.ts, r.attempt, r.body, r.trace) for r in rows] == [(ts(1), 2, {"text": "1"}, TRACE), (ts(3), 1, {"text": "3"}, TRACE)]
    assert third.id == rows[1].id
    assert [(r.attempt, r.deaths) for r in store.inbox.unanswered()] == [(2, 1), (1, 0)]


def test_deaths_are_counted_and_what_was_put_back_is_none(store: Store) -> None:
    row = store.accept()
    for _ in range(2):
        store.inbox.begin(row.id)
        store.restart()
        store.inbox.unanswered()
    store.inbox.begin(row.id)
    store.inbox.put_back(row.id)
    store.restart()

    (found,) = store.inbox.unanswered()

    assert (found.attempt, found.deaths) == (4, 2)


def test_what_ended_is_not_put_back(store: Store) -> None:
    row = store.accept()
    store.inbox.end(row.id, Outcome.ANSWERED)

    store.inbox.put_back(row.id)

    assert store.inbox.unanswered() == []


def test_a_reply_outlives_the_bot_and_goes_with_the_end_of_its_message(store: Store) -> None:
    row, reply = store.accept(), Reply(text="a lone \ud83d half, 会議", outcome=Outcome.FAILED, trace_id="ab", reason=FailReason.DEADLINE)
    store.outbox.keep(row.id, replace(reply, text="before"))
    store.outbox.keep(row.id, reply)
    store.inbox.begin(row.id)

    store.restart()
    store.inbox.unanswered()

    assert store.outbox.kept(row.id) == reply
    store.inbox.end(row.id, Outcome.FAILED)
    assert store.outbox.kept(row.id) is None and "lone" not in store.texts_on_disk()
    assert store.db.execute("SELECT count(*) FROM deaths").fetchone()[0] == 0


@pytest.mark.parametrize("change", ["edit", "deletion"])
def test_a_message_whose_reply_is_being_posted_is_asked_no_more(store: Store, change: str) -> None:
    row = store.accept(text="Monday")
    store.outbox.keep(row.id, Reply(text="Fine", outcome=Outcome.ANSWERED, trace_id="ab"))

    if change == "edit":
        assert not store.inbox.reword(HERE, ROOT, {"text": "Tuesday", "edited": {"ts": ts(9)}})
    else:
        store.inbox.withdraw(HERE, ROOT)

    assert store.inbox.body(row.id) == {"text": "Monday"}


def test_an_ended_message_is_remembered_without_its_text(store: Store) -> None:
    row = store.accept(text="a secret of the people")

    store.inbox.end(row.id, Outcome.ANSWERED, "deadline")

    assert store.inbox.has(HERE, ROOT)
    assert store.inbox.unanswered() == []
    assert "secret" not in store.texts_on_disk()
    assert tuple(store.db.execute("SELECT outcome, reason, ended_at FROM messages").fetchone()) == (
        "answered",
        "deadline",
        store.clock.now(),
    )


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DROPPED, Outcome.CANCELLED])
def test_what_got_no_answer_was_said_all_the_same(store: Store, outcome: Outcome) -> None:
    row = store.accept(ts(1), text="first")
    store.inbox.reword(HERE, ts(1), {"text": "as it stood last", "edited": {"ts": ts(2)}})

    store.inbox.end(row.id, outcome)
    store.inbox.end(row.id, outcome)
    store.edit(ts(1), "older", ts(1.5))

    assert store.heard() == [(ts(1), "posted", "as it stood last")]


def test_what_was_answered_need_not_be_told_again(store: Store) -> None:
    store.inbox.end(store.accept(ts(1), text="first").id, Outcome.ANSWERED)

    assert store.heard() == []


def test_an_edit_or_a_deletion_during_an_answer_that_failed_is_what_counts(store: Store) -> None:
    rows = [store.accept(ts(n), text="first") for n in (1, 2)]
    store.edit(ts(1), "second", ts(5))
    store.delete(ts(2))

    for row in rows:
        store.inbox.end(row.id, Outcome.FAILED)

    assert store.heard() == [(ts(1), "edited", "second"), (ts(2), "deleted", "")]


def test_what_got_no_answer_counts_against_the_bounds(store: Store) -> None:
    store.inbox.end(store.accept(ts(1), text="x" * KEPT_CHARS).id, Outcome.FAILED)

    assert store.heard() == []
    assert store.overflowed


def test_what_belongs_to_no_route_is_not_kept_when_it_ends(store: Store) -> None:
    row = store.accept(text="a secret of another channel")

    store.threads.release(HERE)
    store.inbox.end(row.id, Outcome.DROPPED, "not_routed")

    assert "secret" not in store.texts_on_disk()


def test_ended_messages_are_forgotten_after_their_time_without_a_restart(store: Store) -> None:
    old, waiting = store.accept(ts(1)), store.accept(ts(2))
    store.inbox.end(old.id, Outcome.ANSWERED)

    store.clock.at += REMEMBERED_SECONDS + 1
    store.inbox.end(store.accept(ts(3)).id, Outcome.ANSWERED)

    assert not store.inbox.has(HERE, ts(1))
    assert store.inbox.has(HERE, waiting.ts)
    assert store.inbox.has(HERE, ts(3))


def test_route_and_trace_of_a_row_can_be_told_later(store: Store) -> None:
    row = store.accept()

    store.inbox.route(row.id, route="main", key="main-C0")
    store.inbox.retrace(row.id, TraceRef("a" * 32, "b" * 16))

    assert tuple(store.db.execute("SELECT route, key FROM messages").fetchone()) == ("main", "main-C0")
    assert store.inbox.unanswered()[0].trace == TraceRef("a" * 32, "b" * 16)


# -- edits of what waits -----------------------------------------------------------------------------------------------
def test_an_edit_rewords_a_message_that_waits(store: Store) -> None:
    row = store.accept(text="Monday")

    assert store.inbox.reword(HERE, ROOT, {"text": "Tuesday", "edited": {"ts": ts(9)}})

    assert store.inbox.body(row.id)["text"] == "Tuesday"


def test_an_older_edit_that_comes_late_does_not_undo_a_newer_one(store: Store) -> None:
    row = store.accept(text="Monday")
    store.inbox.reword(HERE, ROOT, {"text": "Wednesday", "edited": {"ts": ts(20)}})

    assert store.inbox.reword(HERE, ROOT, {"text": "Tuesday", "edited": {"ts": ts(10)}})

    assert store.inbox.body(row.id)["text"] == "Wednesday"


def test_two_edits_within_one_second_are_told_apart_by_their_events(store: Store) -> None:
    row = store.accept(text="a")

    for text, at in (("b", ts(9.2)), ("d", ts(9.8)), ("c", ts(9.5))):
        store.inbox.reword(HERE, ROOT, {"text": text, "edited": {"ts": ts(9)}, "event_ts": at})

    assert store.inbox.body(row.id)["text"] == "d"


@pytest.mark.parametrize("state", ["begun", "ended", "never accepted"])
def test_what_does_not_wait_is_not_reworded(store: Store, state: str) -> None:
    if state != "never accepted":
        row = store.accept(text="Monday")
        (store.inbox.begin if state == "begun" else lambda r: store.inbox.end(r, Outcome.ANSWERED))(row.id)

    assert not store.inbox.reword(HERE, ROOT, {"text": "Tuesday", "edited": {"ts": ts(9)}})

    assert "Tuesday" not in store.texts_on_disk()


# -- told once ---------------------------------------------------------------------------------------------------------
def test_a_thing_is_told_once_for_ever(store: Store) -> None:
    assert store.inbox.tell_once("not_routed T0/C0")
    assert not store.inbox.tell_once("not_routed T0/C0")
    assert store.inbox.tell_once("not_routed T0/C1")

    store.restart()

    assert not store.inbox.tell_once("not_routed T0/C0")
