"""One message is one row, in whatever shape and however often Slack tells of it: both events, redeliveries, edits, deletions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from telemetry.events import DropReason, Outcome, Thread
from tests.bot.ground import Ground, app_mention, changed, deleted, mention, message

ROOT, NEXT = "1761000000.000100", "1761000010.000100"
HERE = Thread("T0", "C0", ROOT)
Events = Sequence[dict[str, Any]]


def ts(n: float) -> str:
    return f"{1_761_000_000 + n:.6f}"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "state.db")
    yield ground
    ground.db.close()


@pytest.fixture
def answered(ground: Ground) -> Ground:
    ground.take(mention(ROOT))
    ground.answer(ground.accepted.pop())
    return ground


def edit(before: dict[str, Any], at: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two events of an edit: `message_changed`, and the fresh `app_mention` where the new text holds the mention."""
    event = changed(before, at, text=text)
    return event, {**app_mention(before["ts"], text), "edited": event["message"]["edited"], "event_ts": at}


# -- both events of a mention ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "come", [(mention(ROOT), app_mention(ROOT)), (app_mention(ROOT), mention(ROOT)), (app_mention(ROOT),), (mention(ROOT),)]
)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_both_events_of_a_mention_in_either_order_are_one_row(ground: Ground, come: Events, restarted: bool, ended: bool) -> None:
    for event in come:
        ground.take(event)
        if ended:
            ground.inbox.end(1, Outcome.ANSWERED)
        if restarted:
            ground.restart()

    assert len(ground.accepted) == ground.count("messages") == 1
    assert ground.emit.dropped == [DropReason.DUPLICATE] * (len(come) - 1)


def test_a_message_that_named_the_bot_only_in_the_second_event_is_accepted_once_and_no_longer_kept(answered: Ground) -> None:
    text = "no mention to be found in it"

    answered.take(message(NEXT, text, thread_ts=ROOT), app_mention(NEXT, text, thread_ts=ROOT), message(NEXT, text, thread_ts=ROOT))

    assert [row.ts for row in answered.accepted] == [NEXT]
    assert answered.kept(HERE) == []


# -- redelivery --------------------------------------------------------------------------------------------------------
def test_c027_deliveries_at_any_time_after_any_number_of_others_and_a_restart_are_one_answer(ground: Ground) -> None:
    ground.db.execute("PRAGMA synchronous=OFF")  # two thousand waits for the disk are not what is tested
    event = mention(ROOT)
    for seconds in (0, 0, 1, 60, 301):
        ground.clock.at = 1_761_000_000 + seconds
        ground.take(event)
    ground.answer(ground.accepted[0])

    for n in range(2_000):
        ground.take(message(ts(400 + n)))
    ground.restart()
    ground.take(event)

    assert len(ground.accepted) == 1
    assert ground.emit.dropped.count(DropReason.DUPLICATE) == 5
    assert ground.inbox.unanswered() == []


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("carried", [False, True])
def test_a_late_delivery_of_something_kept_is_kept_once_and_undoes_no_edit(answered: Ground, restarted: bool, carried: bool) -> None:
    said = message(NEXT, "Monday", thread_ts=ROOT)
    answered.take(said, said, changed(said, ts(20), text="Tuesday"))
    assert answered.kept(HERE) == [(NEXT, "edited", "Tuesday")]
    if carried:
        answered.inbox.carried(HERE, before=ts(30), upto=answered.inbox.newest_seq())
    answered.clock.at += 301
    if restarted:
        answered.restart()

    answered.take(said, changed(said, ts(20), text="Tuesday"))

    assert answered.kept(HERE) == ([] if carried else [(NEXT, "edited", "Tuesday")])


# -- edits of an accepted message --------------------------------------------------------------------------------------
def test_an_edit_of_a_waiting_message_rewords_it(ground: Ground) -> None:
    before = mention(ROOT, "<@U0BOT> Monday?")
    ground.take(before, *edit(before, ts(5), "<@U0BOT> no, Tuesday?"))

    assert ground.inbox.body(ground.accepted[0].id)["text"] == "<@U0BOT> no, Tuesday?"
    assert ground.kept(HERE) == []
    assert len(ground.accepted) == 1


def test_where_the_bot_is_no_member_the_edited_mention_alone_rewords_it(ground: Ground) -> None:
    _, again = edit(mention(ROOT), ts(5), "<@U0BOT> no, Tuesday?")

    ground.take(app_mention(ROOT), again)

    assert ground.inbox.body(ground.accepted[0].id)["text"] == "<@U0BOT> no, Tuesday?"


def test_a_changed_text_of_an_answered_message_is_kept_as_edited(answered: Ground) -> None:
    answered.take(*edit(mention(ROOT), ts(50), "<@U0BOT> something else"))

    assert answered.accepted == []
    assert answered.kept(HERE) == [(ROOT, "edited", "<@U0BOT> something else")]
    assert answered.emit.dropped == [DropReason.DUPLICATE] * 2


def test_a_changed_text_of_a_message_that_is_being_answered_is_kept_as_edited(ground: Ground) -> None:
    ground.take(mention(ROOT))
    ground.inbox.begin(ground.accepted[0].id)

    ground.take(changed(mention(ROOT), ts(5), text="<@U0BOT> other"))

    assert ground.kept(HERE) == [(ROOT, "edited", "<@U0BOT> other")]


def test_a_preview_of_a_link_in_an_answered_message_is_nothing(answered: Ground) -> None:
    answered.take(changed(mention(ROOT), ts(5), attachments=[{"from_url": "https://x.org", "text": "A page"}]))

    assert answered.kept(HERE) == []
    assert answered.emit.dropped == [DropReason.IGNORED_EVENT]


def test_edits_and_deletions_of_what_others_said_are_kept_as_such(answered: Ground) -> None:
    one, two = message(ts(20), "one", thread_ts=ROOT), message(ts(21), "two", thread_ts=ROOT)

    answered.take(one, two, changed(one, ts(30), text="eins"), deleted(two, ts(31)))

    assert answered.kept(HERE) == [(ts(20), "edited", "eins"), (ts(21), "deleted", "")]


def test_an_edit_in_a_thread_that_nobody_watches_is_not_kept(ground: Ground) -> None:
    ground.take(changed(message(ROOT, "a"), ts(5), text="b"))

    assert ground.count("said") == ground.count("messages") == 0


def test_a_root_that_became_a_tombstone_is_one_deletion(answered: Ground) -> None:
    root = mention(ROOT)
    stone = {**root, "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.", "thread_ts": ROOT}

    answered.take(changed(root, ts(5), **{k: stone[k] for k in ("subtype", "user", "text", "thread_ts")}))
    answered.take(changed(stone, ts(6), reply_count=1), deleted(stone, ts(7)))

    assert answered.kept(HERE) == [(ROOT, "deleted", "")]
    assert answered.inbox.heard(HERE, before="~")[0].body == {"user": "U1"}


# -- edits that add the mention ----------------------------------------------------------------------------------------
BEFORE = message(ROOT, "what is the plan?")


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
@pytest.mark.parametrize("answered_between", [False, True])
def test_c035_a_mention_added_within_five_minutes_is_accepted_once_with_the_edited_text(
    ground: Ground, order: tuple[int, ...], answered_between: bool
) -> None:
    pair = edit(BEFORE, ts(60), "<@U0BOT> what is the plan?")
    ground.take(BEFORE)

    for n in order:
        ground.take(pair[n])
        if answered_between and n == order[0]:
            ground.answer(ground.accepted[0])

    assert [row.body["text"] for row in ground.accepted] == ["<@U0BOT> what is the plan?"]
    assert ground.emit.dropped == [DropReason.NOT_ADDRESSED, DropReason.DUPLICATE]


def test_c035_later_edits_answer_nothing_and_become_edits_in_the_thread(ground: Ground) -> None:
    first, second = edit(BEFORE, ts(60), "<@U0BOT> the plan?"), edit(mention(ROOT, "<@U0BOT> the plan?"), ts(90), "<@U0BOT> which plan?")
    third = edit(mention(ROOT, "<@U0BOT> which plan?"), ts(200), "<@U0BOT> whose plan?")
    ground.take(BEFORE, *first)
    ground.answer(ground.accepted[0])

    ground.take(*second, *reversed(third))

    assert len(ground.accepted) == 1
    assert ground.kept(HERE) == [(ROOT, "edited", "<@U0BOT> whose plan?")]


@pytest.mark.parametrize("order", [0, 1])
def test_a_mention_added_after_five_minutes_is_too_late(ground: Ground, order: int) -> None:
    pair = edit(BEFORE, ts(302), "<@U0BOT> what is the plan?")

    ground.take(BEFORE, pair[order], pair[1 - order])

    assert ground.accepted == []
    assert ground.emit.dropped == [DropReason.NOT_ADDRESSED, DropReason.LATE_EDIT, DropReason.LATE_EDIT]


def test_a_late_edit_in_a_watched_thread_is_part_of_what_was_said(answered: Ground) -> None:
    before = message(NEXT, "hm", thread_ts=ROOT)

    answered.take(before, changed(before, ts(900), text="<@U0BOT> hm?"))

    assert answered.accepted == []
    assert answered.kept(HERE) == [(NEXT, "edited", "<@U0BOT> hm?")]


def test_an_edit_answers_only_for_the_mention_that_it_adds(ground: Ground) -> None:
    """It mentioned the bot before: whatever kept it from being answered then still holds."""
    before = mention(ROOT, "<@U0BOT> hi")

    ground.take(changed(before, ts(5), text="<@U0BOT> hi!"))

    assert ground.accepted == []
    assert ground.emit.dropped == [DropReason.NOT_ADDRESSED]


def test_a_mention_added_by_somebody_who_may_not_is_dropped_for_that(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "state.db", users=["U9"])

    ground.take(*edit(BEFORE, ts(60), "<@U0BOT> the plan?"))

    assert ground.accepted == []
    assert ground.emit.dropped == [DropReason.NOT_ALLOWED] * 2
    ground.db.close()


def test_a_bot_that_writes_piece_by_piece_is_answered_when_it_is_done(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "state.db", bots=["B7"])
    piece = mention(ROOT, "<@U0BOT> how", user="U7", bot_id="B7", streaming_state="in_progress")

    ground.take(piece, changed(piece, ts(1), text="<@U0BOT> how are"))
    assert ground.accepted == []

    ground.take(changed(piece, ts(2), text="<@U0BOT> how are you?", streaming_state="completed"))
    assert [row.body["text"] for row in ground.accepted] == ["<@U0BOT> how are you?"]
    ground.db.close()
