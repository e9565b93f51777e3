"""What others said in a thread, for as long as it waits: its newest state, once, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.inbox import CARRIED_SECONDS, GONE, KEPT_CHARS, KEPT_MESSAGES, KEPT_SECONDS
from bot.messages import Change
from telemetry.events import Outcome, Thread
from tests.bot.ground import HERE, ROOT, Store


def ts(n: float) -> str:
    return f"{1_761_000_000 + n:.6f}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.db")
    yield store
    store.db.close()


# -- what others said --------------------------------------------------------------------------------------------------
def test_what_others_said_is_heard_in_the_order_of_arrival_up_to_the_message_that_asks(store: Store) -> None:
    store.accept()
    for n in (3, 1, 2, 7):
        store.post(ts(n), str(n))

    assert [text for _, _, text in store.heard(before=ts(7))] == ["3", "1", "2"]


def test_threads_do_not_hear_each_other(store: Store) -> None:
    store.accept()
    for team, channel in (("T0", "C1"), ("T1", "C0")):
        store.inbox.keep(Thread(team, channel, ROOT), ts(1), Change.POSTED, {"text": "elsewhere"})

    assert store.heard() == []


def test_only_the_newest_state_of_a_message_is_kept(store: Store) -> None:
    store.accept()
    store.post(ts(1), "first")
    store.edit(ts(1), "second", ts(10))
    store.post(ts(2), "stays")
    store.post(ts(3), "goes")
    store.delete(ts(3))

    assert store.heard() == [(ts(1), "edited", "second"), (ts(2), "posted", "stays"), (ts(3), "deleted", "")]
    assert "goes" not in store.texts_on_disk()


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_late_delivery_of_what_was_kept_changes_nothing(store: Store, carried: bool, restarted: bool) -> None:
    store.accept()
    store.post(ts(1), "first")
    store.edit(ts(1), "second", ts(10))
    store.post(ts(2), "gone")
    store.delete(ts(2))
    if carried:
        store.inbox.carried(HERE, before=ts(100), upto=store.inbox.newest_seq())
    before = store.heard()
    store.clock.at += 301
    if restarted:
        store.restart()

    store.post(ts(1), "first")
    store.edit(ts(1), "between", ts(5))
    store.edit(ts(1), "second", ts(10))
    store.post(ts(2), "gone")
    store.edit(ts(2), "gone, edited", ts(50))
    store.delete(ts(2))

    assert store.heard() == before
    assert carried == (before == [])


def test_a_newer_edit_of_what_was_carried_is_heard_again(store: Store) -> None:
    store.accept()
    store.post(ts(1), "first")
    store.inbox.carried(HERE, before=ts(100), upto=store.inbox.newest_seq())

    store.edit(ts(1), "second", ts(110))

    assert store.heard() == [(ts(1), "edited", "second")]


def test_an_edit_that_tells_no_time_is_believed_once(store: Store) -> None:
    store.accept()
    store.post(ts(1), "first")

    store.inbox.keep(HERE, ts(1), Change.EDITED, {"text": "second"})

    assert store.heard() == [(ts(1), "edited", "second")]


def test_an_edit_of_an_answered_message_is_kept_and_a_late_one_that_it_already_held_is_not(store: Store) -> None:
    row = store.accept(text="as edited", edited={"ts": ts(10)})
    store.inbox.end(row.id, Outcome.ANSWERED)

    store.edit(ROOT, "before", ts(5))
    assert store.heard() == []

    store.edit(ROOT, "since", ts(20))
    assert store.heard() == [(ROOT, "edited", "since")]


def test_a_deletion_is_known_as_long_as_it_is_remembered(store: Store) -> None:
    store.accept()
    store.post(ts(1))
    store.delete(ts(2))

    assert not store.inbox.was_deleted(HERE, ts(1))
    assert store.inbox.was_deleted(HERE, ts(2))
    assert not store.inbox.was_deleted(Thread("T0", "C1", ROOT), ts(2))


# -- carried -----------------------------------------------------------------------------------------------------------
def test_carried_keeps_what_arrived_later_and_what_was_said_later(store: Store) -> None:
    store.accept()
    store.post(ts(1), "carried")
    store.post(ts(9), "said after the question")
    upto = store.inbox.newest_seq()
    store.post(ts(2), "arrived while the model thought")
    store.edit(ts(1), "edited meanwhile", ts(30))

    store.inbox.carried(HERE, before=ts(5), upto=upto)

    assert store.heard() == [
        (ts(9), "posted", "said after the question"),
        (ts(2), "posted", "arrived while the model thought"),
        (ts(1), "edited", "edited meanwhile"),
    ]


def test_what_was_carried_leaves_no_text_and_no_trace_after_a_while(store: Store) -> None:
    store.accept()
    store.post(ts(1), "secret")

    store.inbox.carried(HERE, before=ts(5), upto=store.inbox.newest_seq())
    assert "secret" not in store.texts_on_disk()

    store.clock.at += CARRIED_SECONDS + 1
    store.post(ts(2))
    assert [h for h, _, _ in store.heard()] == [ts(2)]
    assert store.db.execute("SELECT count(*) FROM said").fetchone()[0] == 1
    assert not store.overflowed


def test_the_sequence_never_goes_back(store: Store) -> None:
    store.accept()
    assert store.inbox.newest_seq() == 0
    store.post(ts(1))
    store.inbox.carried(HERE, before=ts(5), upto=99)
    store.clock.at += CARRIED_SECONDS + 1
    store.restart()  # nothing is left

    upto = store.inbox.newest_seq()
    store.post(ts(2))

    assert store.inbox.newest_seq() > upto
    store.inbox.carried(HERE, before=ts(5), upto=upto)
    assert store.heard() != []


# -- bounds ------------------------------------------------------------------------------------------------------------
def test_at_the_bounds_all_is_kept_and_past_them_the_thread_overflows(store: Store) -> None:
    store.accept()
    for n in range(KEPT_MESSAGES):
        store.post(ts(n + 1))
    assert len(store.heard()) == KEPT_MESSAGES
    assert not store.overflowed

    store.post(ts(KEPT_MESSAGES + 1))

    assert store.heard() == []
    assert store.overflowed


def test_characters_are_counted_as_people_do(store: Store) -> None:
    store.accept()
    store.post(ts(1), "あ" * (KEPT_CHARS - 100))
    assert not store.overflowed

    store.post(ts(2), "い" * 200)

    assert store.overflowed
    assert store.heard() == []
    assert "あ" not in store.texts_on_disk()


def test_what_was_carried_counts_against_no_bound(store: Store) -> None:
    store.accept()
    for n in range(KEPT_MESSAGES + 10):
        store.post(ts(n + 1))
        if n % 50 == 0:
            store.inbox.carried(HERE, before="~", upto=store.inbox.newest_seq())

    assert not store.overflowed


def test_deletions_outlive_an_overflow_because_no_reading_tells_of_them(store: Store) -> None:
    store.accept()
    store.post(ts(1), "one")
    store.delete(ts(1))

    for n in range(2, KEPT_MESSAGES + 2):
        store.post(ts(n))

    assert store.overflowed
    assert store.heard() == [(ts(1), "deleted", "")]


def test_deletions_alone_do_not_grow_without_end(store: Store) -> None:
    store.accept()
    for n in range(3 * KEPT_MESSAGES):
        store.delete(ts(n + 1))

    assert len(store.heard()) <= KEPT_MESSAGES
    assert store.overflowed


@pytest.mark.parametrize("restarted", [False, True])
def test_what_waited_for_two_weeks_is_read_again_instead(store: Store, restarted: bool) -> None:
    store.accept()
    store.post(ts(1), "old")
    store.clock.at += KEPT_SECONDS + 1

    if restarted:
        store.restart()
    else:
        store.post(ts(2), "new")

    assert store.heard() == ([] if restarted else [(ts(2), "posted", "new")])
    assert store.overflowed
    assert "old" not in store.texts_on_disk()


def overflow(store: Store, first: int) -> None:
    for n in range(first, first + KEPT_MESSAGES + 1):
        store.post(ts(n))


def test_a_full_reading_ends_an_overflow(store: Store) -> None:
    store.accept()
    overflow(store, 1)

    store.inbox.carried(HERE, before=ts(1_000), upto=store.inbox.newest_seq())
    store.threads.caught_up(HERE)

    assert not store.overflowed


def test_an_overflow_while_the_model_thought_has_to_be_read_still(store: Store) -> None:
    store.accept()
    overflow(store, 1)
    upto = store.inbox.newest_seq()
    overflow(store, 300)

    store.inbox.carried(HERE, before=ts(1_000), upto=upto)
    store.threads.caught_up(HERE)

    assert store.overflowed


def test_a_reading_up_to_an_older_message_does_not_end_an_overflow_of_newer_ones(store: Store) -> None:
    """A question waited in its lane while the thread went on behind it."""
    store.accept()
    overflow(store, 100)

    store.inbox.carried(HERE, before=ts(50), upto=store.inbox.newest_seq())
    store.threads.caught_up(HERE)
    assert store.overflowed

    store.inbox.carried(HERE, before=ts(1_000), upto=store.inbox.newest_seq())
    store.threads.caught_up(HERE)
    assert not store.overflowed


def test_the_bounds_are_those_of_the_design() -> None:
    assert (KEPT_MESSAGES, KEPT_CHARS, KEPT_SECONDS / 86_400) == (200, 64_000, 14)
    assert GONE > "9999999999.999999"
