"""What the live context holds, and all that may be taken from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot import known_threads
from bot.known_threads import KnownThreads
from bot.messages import Role, Said, Speaker
from telemetry.events import REASON_AFTER, Reason, ResetCause, Thread

A, B = Thread("T0", "C0", "1761000000.000000"), Thread("T0", "C0", "1761000001.000000")


def said(ts: str, text: str = "x", role: Role = Role.PERSON) -> Said:
    return Said(ts=ts, speaker=Speaker(id="U1", name="Ann", role=role), text=text)


@pytest.fixture
def context() -> KnownThreads:
    context = KnownThreads()
    context.mark(A, epoch=0)
    return context


def turn(context: KnownThreads, thread: Thread, ts: str) -> None:
    """One answered turn: the gate looks, the message is shown, the thread is marked."""
    context.is_gapped(thread)
    context.note_shown(thread, [said(ts)], epoch=context.epoch)
    context.mark(thread, epoch=context.epoch)


# -- the set -----------------------------------------------------------------------------------------------------------
def test_nothing_is_known_at_the_beginning() -> None:
    assert len(KnownThreads()) == 0
    assert A not in KnownThreads()


def test_a_ts_is_known_only_in_its_own_channel_and_workspace(context: KnownThreads) -> None:
    assert A in context
    assert Thread("T0", "C1", A.ts) not in context
    assert Thread("T1", "C0", A.ts) not in context


def test_a_mark_earned_before_a_reset_is_dropped_and_changes_nothing(context: KnownThreads) -> None:
    context.forget(ResetCause.COMPACTION_AUTO, session_id="s")

    assert not context.mark(A, epoch=0)

    assert A not in context
    assert context.lost_because(A) is Reason.AFTER_COMPACTION


def test_a_reset_forgets_all_and_opens_an_epoch_even_when_nothing_was_known() -> None:
    context = KnownThreads()

    loss = context.forget(ResetCause.CRASH, session_id="s1")

    assert (loss.cause, loss.session_id, loss.forgotten, context.epoch) == (ResetCause.CRASH, "s1", 0, 1)


@pytest.mark.parametrize("cause", ResetCause)
def test_every_reset_leaves_its_reason_with_the_threads_that_were_known(context: KnownThreads, cause: ResetCause) -> None:
    loss = context.forget(cause, session_id="s")

    assert loss.forgotten == 1
    assert len(context) == 0
    assert context.lost_because(A) is REASON_AFTER[cause]
    assert context.lost_because(B) is None


def test_a_second_reset_does_not_rename_what_the_first_one_took(context: KnownThreads) -> None:
    context.forget(ResetCause.ROTATE_TOKENS, session_id="s")

    context.forget(ResetCause.RESTART, session_id="s")

    assert context.lost_because(A) is Reason.AFTER_ROTATE


def test_a_thread_that_was_read_again_is_lost_no_more(context: KnownThreads) -> None:
    context.forget(ResetCause.CRASH, session_id="s")

    assert context.mark(A, epoch=1)

    assert A in context
    assert context.lost_because(A) is None


def test_to_reread_one_thread_touches_no_other(context: KnownThreads) -> None:
    context.mark(B, epoch=0)
    context.note_shown(A, [said("1.1")], epoch=0)
    context.note_shown(B, [said("1.2")], epoch=0)

    loss = context.forget_one(A, session_id="s")

    assert (loss.cause, loss.forgotten, context.epoch) == (ResetCause.FORGET_MANUAL, 1, 0)
    assert A not in context
    assert B in context
    assert not context.holds_message(A, "1.1")
    assert context.holds_message(B, "1.2")
    assert context.lost_because(A) is Reason.MANUAL


def test_to_reread_what_was_not_known_forgets_nothing_and_still_gives_the_reason() -> None:
    context = KnownThreads()

    assert context.forget_one(A, session_id="s").forgotten == 0
    assert context.lost_because(A) is Reason.MANUAL


def test_only_the_newest_losses_are_remembered(context: KnownThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_threads, "LOST_REMEMBERED", 3)
    context.forget(ResetCause.CRASH, session_id="s")
    for n in range(3):
        context.forget_one(Thread("T0", "C0", f"{n}.0"), session_id="s")
    assert context.lost_because(Thread("T0", "C0", "0.0")) is Reason.MANUAL
    context.forget_one(Thread("T0", "C0", "0.0"), session_id="s")
    context.forget_one(Thread("T0", "C0", "9.0"), session_id="s")

    assert context.lost_because(A) is None
    assert context.lost_because(Thread("T0", "C0", "1.0")) is None
    assert context.lost_because(Thread("T0", "C0", "0.0")) is Reason.MANUAL


# -- gaps --------------------------------------------------------------------------------------------------------------
def test_after_a_gap_every_known_thread_is_doubted_but_stays_known(context: KnownThreads) -> None:
    context.doubt_delivery()

    assert A in context
    assert context.is_gapped(A)
    assert not context.is_gapped(B)


def test_a_turn_after_the_gap_ends_the_doubt(context: KnownThreads) -> None:
    context.doubt_delivery()

    turn(context, A, "1761000100.000000")

    assert not context.is_gapped(A)


@pytest.mark.parametrize("thread", [A, B])
def test_a_gap_inside_a_turn_is_not_covered_by_what_that_turn_had_read(context: KnownThreads, thread: Thread) -> None:
    context.is_gapped(thread)
    context.doubt_delivery()
    context.note_shown(thread, [said("1761000100.000000")], epoch=0)

    context.mark(thread, epoch=0)

    assert context.is_gapped(thread)
    turn(context, thread, "1761000200.000000")
    assert not context.is_gapped(thread)


@pytest.mark.parametrize("thread", [A, B])
def test_a_question_that_waited_over_the_gap_does_not_end_it(context: KnownThreads, thread: Thread) -> None:
    """Its reading ends before itself, and what was missed came later."""
    context.doubt_delivery(at="1761000500.000000")

    turn(context, thread, "1761000100.000000")
    context.note_shown(thread, [said("1761000510.000000", role=Role.OWN)], epoch=0)
    turn(context, thread, "1761000200.000000")
    assert context.is_gapped(thread)

    turn(context, thread, "1761000600.000000")
    assert not context.is_gapped(thread)


def test_a_mark_that_nobody_asked_the_gate_about_is_trusted(context: KnownThreads) -> None:
    context.mark(B, epoch=0)

    assert not context.is_gapped(B)


def test_a_reset_ends_every_doubt(context: KnownThreads) -> None:
    context.is_gapped(B)
    context.doubt_delivery()

    context.forget(ResetCause.CRASH, session_id="s")
    assert not context.is_gapped(A)

    context.mark(B, epoch=1)
    assert not context.is_gapped(B)


@pytest.mark.parametrize("lost", [lambda c: c.forget(ResetCause.CRASH, session_id="s"), lambda c: c.forget_one(A, session_id="s")])
def test_what_was_shown_before_a_reset_does_not_end_a_doubt(context: KnownThreads, lost: Callable[[KnownThreads], object]) -> None:
    turn(context, A, "1761000600.000000")
    lost(context)
    context.doubt_delivery(at="1761000500.000000")

    turn(context, A, "1761000100.000000")

    assert context.is_gapped(A)


def test_to_reread_a_thread_ends_the_doubt_about_it(context: KnownThreads) -> None:
    context.doubt_delivery()

    context.forget_one(A, session_id="s")

    assert not context.is_gapped(A)


# -- what was shown ----------------------------------------------------------------------------------------------------
def test_a_message_was_shown_in_these_very_words_or_in_any(context: KnownThreads) -> None:
    context.note_shown(A, [said("1.1", "before")], epoch=0)

    assert context.was_shown(A, said("1.1", "before"))
    assert not context.was_shown(A, said("1.1", "after"))
    assert context.holds_message(A, "1.1")
    assert not context.holds_message(A, "1.2")
    assert not context.was_shown(B, said("1.1", "before"))


def test_the_newest_words_count(context: KnownThreads) -> None:
    context.note_shown(A, [said("1.1", "before")], epoch=0)
    context.note_shown(A, [said("1.1", "after")], epoch=0)

    assert context.was_shown(A, said("1.1", "after"))
    assert not context.was_shown(A, said("1.1", "before"))


def test_what_was_shown_before_a_reset_was_not_shown(context: KnownThreads) -> None:
    context.note_shown(A, [said("1.1")], epoch=0)

    context.forget(ResetCause.RESUME, session_id="s")
    context.note_shown(A, [said("1.2")], epoch=0)

    assert not context.holds_message(A, "1.1")
    assert not context.holds_message(A, "1.2")
