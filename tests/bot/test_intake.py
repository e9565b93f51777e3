"""From a Slack event to a row: what is accepted, what is kept, what is dropped, and that it is all on disk first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bot.routes import RouteSettings
from bot.thread_routes import MAX_BOT_STREAK
from telemetry.events import DropReason, SlackEventSeen, Thread
from telemetry.names import Attr, SpanName
from tests.bot.ground import Ground, app_mention, callback, deleted, mention, message
from tests.bot.odd_events import events, json_values

ROOT, NEXT = "1761000000.000100", "1761000010.000100"
HERE = Thread("T0", "C0", ROOT)


def ts(n: float) -> str:
    return f"{1_761_000_000 + n:.6f}"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "state.db")
    yield ground
    ground.db.close()


@pytest.fixture
def answered(ground: Ground) -> Ground:
    """A thread in which the bot has answered."""
    ground.take(mention(ROOT))
    ground.answer(ground.accepted.pop())
    return ground


# -- accepted ----------------------------------------------------------------------------------------------------------
def test_a_mention_is_on_disk_when_it_is_told_on(ground: Ground) -> None:
    on_disk: list[str] = []

    def look() -> None:
        other = sqlite3.connect(ground.path)
        on_disk.extend(r[0] for r in other.execute("SELECT ts FROM messages WHERE state='waiting'"))
        other.close()

    ground.when_accepted = look
    ground.take(mention(ROOT))

    assert on_disk == [ROOT]


def test_an_accepted_message_carries_what_an_answer_needs(ground: Ground) -> None:
    ground.take(mention(NEXT, "<@U0BOT> 会議は?", thread_ts=ROOT))

    (row,) = ground.accepted
    (span,) = ground.emit.spans
    assert (row.thread, row.ts, row.user, row.channel_type, row.attempt) == (HERE, NEXT, "U1", "channel", 1)
    assert row.body["text"] == "<@U0BOT> 会議は?"
    assert (span.name, span.ref, span.parent, span.ended) == (SpanName.PROCESS, row.trace, None, False)
    assert span.attributes[Attr.MESSAGING_CONVERSATION_ID] == ROOT
    assert ground.emit.dropped == []
    assert ground.threads.get_thread_route(HERE) is not None


def test_every_event_is_seen_once(ground: Ground) -> None:
    ground.take(mention(ROOT), message(NEXT), {"type": "reaction_added"})

    assert sum(isinstance(fact, SlackEventSeen) for fact in ground.emit.facts) == 3


def test_a_direct_message_needs_no_mention(ground: Ground) -> None:
    ground.take(message(ROOT, "hello", channel="D0", channel_type="im"))

    assert [row.thread.channel for row in ground.accepted] == ["D0"]


def test_a_group_of_people_needs_one(ground: Ground) -> None:
    ground.take(message(ROOT, "hello", channel="G0", channel_type="mpim"))

    assert ground.accepted == []
    assert ground.emit.dropped == [DropReason.NOT_ADDRESSED]


def test_a_mention_in_blocks_alone_counts(ground: Ground) -> None:
    element = {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U0BOT"}]}
    ground.take(message(ROOT, "", blocks=[{"type": "rich_text", "elements": [element]}]))

    assert len(ground.accepted) == 1


def test_slacks_own_word_that_the_bot_is_mentioned_counts(ground: Ground) -> None:
    ground.take(app_mention(ROOT, "a text in which no mention can be found"))

    assert len(ground.accepted) == 1


def test_c031_a_mention_under_a_file_is_accepted_with_its_file(ground: Ground) -> None:
    files = [{"name": "plan.pdf", "mimetype": "application/pdf"}]
    ground.take(mention(ROOT, "<@U0BOT> what is this?", subtype="file_share", files=files))

    assert ground.accepted[0].body["files"] == files


def test_a_reply_that_is_also_sent_to_the_channel_is_one_message_of_its_thread(ground: Ground) -> None:
    ground.take(mention(NEXT, subtype="thread_broadcast", thread_ts=ROOT, root={"text": "the root"}))

    assert [row.thread for row in ground.accepted] == [HERE]


def test_the_bots_own_messages_are_ignored_even_in_its_threads(answered: Ground) -> None:
    answered.take(mention(NEXT, user="U0BOT", bot_id="B0BOT", thread_ts=ROOT))

    assert answered.accepted == []
    assert answered.kept(HERE) == []
    assert answered.emit.dropped == [DropReason.OWN_MESSAGE]


# -- who may -----------------------------------------------------------------------------------------------------------
def test_only_those_on_the_list_are_answered(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "state.db", users=["U1"])

    ground.take(mention(ROOT, user="U1"), mention(NEXT, user="U2", thread_ts=ROOT))

    assert [row.user for row in ground.accepted] == ["U1"]
    assert ground.emit.dropped == [DropReason.NOT_ALLOWED]
    assert ground.kept(HERE) == [(NEXT, "posted", "<@U0BOT> hello")]  # it was said in the thread all the same
    ground.db.close()


def bot(ts: str, *, bot_id: str = "B7", **more: Any) -> dict[str, Any]:
    return mention(ts, user="", bot_id=bot_id, subtype="bot_message", **more)


@pytest.mark.parametrize(
    "by", [{"user": "", "bot_id": "B7", "subtype": "bot_message"}, {"user": "U7", "bot_id": "B7"}, {"user": "USLACKBOT"}], ids=str
)
def test_other_bots_are_dropped(ground: Ground, by: dict[str, str]) -> None:
    ground.take(mention(ROOT, **by))

    assert ground.accepted == []
    assert ground.emit.dropped == [DropReason.OTHER_BOT]


@pytest.mark.parametrize("listed", ["B7", "U7"])
def test_a_bot_that_is_listed_by_either_id_is_answered(tmp_path: Path, listed: str) -> None:
    ground = Ground(tmp_path / "state.db", bots=[listed], users=["U1"])

    ground.take(mention(ROOT, user="U7", bot_id="B7"))

    assert len(ground.accepted) == 1
    ground.db.close()


def test_two_bots_do_not_talk_for_ever(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "state.db", bots=["B7"])
    for n in range(MAX_BOT_STREAK + 2):
        ground.take(bot(ts(n + 1), thread_ts=ROOT))
        for row in ground.accepted[n:]:
            ground.answer(row, by_bot=True)

    assert len(ground.accepted) == MAX_BOT_STREAK == 5
    assert ground.emit.dropped == [DropReason.BOT_LOOP] * 2

    ground.take(mention(ts(20), thread_ts=ROOT))
    ground.answer(ground.accepted[-1])
    ground.take(bot(ts(21), thread_ts=ROOT))

    assert ground.accepted[-1].ts == ts(21)
    ground.db.close()


def test_a_burst_of_a_bot_or_answers_that_fail_end_as_well(tmp_path: Path) -> None:
    """Nothing of it is answered: it all waits, or what is posted instead of an answer calls the other bot again."""
    ground = Ground(tmp_path / "state.db", bots=["B7"])

    ground.take(*(bot(ts(n), thread_ts=ROOT) for n in range(20)))

    assert len(ground.accepted) == MAX_BOT_STREAK
    ground.db.close()


def test_the_count_of_bots_survives_a_restart_and_is_each_threads_own(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "state.db", bots=["B7"])
    ground.take(*(bot(ts(n), thread_ts=ROOT) for n in range(5)))

    ground.restart()
    ground.take(bot(ts(6), thread_ts=ROOT), bot(ts(7)))

    assert [row.thread.ts for row in ground.accepted[5:]] == [ts(7)]
    ground.db.close()


# -- follow = "thread" -------------------------------------------------------------------------------------------------
@pytest.fixture
def following(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "state.db", routes=[RouteSettings(name="main", model="m", channels=("*",), follow="thread")])
    ground.take(mention(ROOT))
    ground.answer(ground.accepted.pop())
    yield ground
    ground.db.close()


def test_a_reply_in_an_answered_thread_is_followed(following: Ground) -> None:
    following.take(message(NEXT, "and tomorrow?", thread_ts=ROOT))

    assert [row.ts for row in following.accepted] == [NEXT]


@pytest.mark.parametrize("text", ["<@U2> and you?", "<!here> lunch", "<!subteam^S1|@ops> look"])
def test_a_reply_that_calls_somebody_else_is_not(following: Ground, text: str) -> None:
    following.take(message(NEXT, text, thread_ts=ROOT))

    assert following.accepted == []
    assert following.kept(HERE) == [(NEXT, "posted", text)]


def test_a_reply_that_calls_the_bot_and_somebody_else_is(following: Ground) -> None:
    following.take(message(NEXT, "<@U2> <@U0BOT> what do you both think?", thread_ts=ROOT))

    assert len(following.accepted) == 1


def test_neither_the_channel_nor_a_thread_without_an_answer_is_followed(following: Ground) -> None:
    following.take(message(NEXT, "in the channel"))
    following.take(mention(ts(30)), message(ts(31), "not answered yet", thread_ts=ts(30)))

    assert [row.ts for row in following.accepted] == [ts(30)]


def test_a_bot_is_not_followed_unless_it_is_listed(following: Ground) -> None:
    following.take(message(NEXT, "beep", user="", bot_id="B7", subtype="bot_message", thread_ts=ROOT))

    assert following.accepted == []


def test_by_default_nothing_is_followed(answered: Ground) -> None:
    answered.take(message(NEXT, "and tomorrow?", thread_ts=ROOT))

    assert answered.accepted == []


def test_a_thread_of_a_route_that_is_gone_is_not_followed(following: Ground) -> None:
    following.threads.bind(HERE, route="removed", key="removed")

    following.take(message(NEXT, "and tomorrow?", thread_ts=ROOT))

    assert following.accepted == []


# -- what others say ---------------------------------------------------------------------------------------------------
def test_all_that_others_say_in_a_thread_with_a_route_is_kept_in_order(answered: Ground) -> None:
    answered.take(
        message(ts(20), "one", thread_ts=ROOT),
        message(ts(21), "", user="U2", subtype="file_share", files=[{"name": "a.png"}], thread_ts=ROOT),
        message(ts(22), "three", thread_ts=ROOT),
        message(ts(23), "beep", user="", bot_id="B7", subtype="bot_message", thread_ts=ROOT),
    )

    assert [kept for kept, _, _ in answered.kept(HERE)] == [ts(20), ts(21), ts(22), ts(23)]
    assert answered.emit.dropped == [DropReason.NOT_ADDRESSED] * 4


def test_a_file_without_text_or_text_key_is_kept(answered: Ground) -> None:
    event = message(NEXT, subtype="file_share", files=[{"name": "a.png"}], thread_ts=ROOT)
    del event["text"]

    answered.take(event)

    (heard,) = answered.inbox.heard(HERE, before="~")
    assert heard.body["files"] == [{"name": "a.png"}]


def test_text_of_channels_and_of_threads_without_a_route_is_not_kept(answered: Ground) -> None:
    answered.take(
        message(ts(20), "a secret of the channel"),
        message(ts(21), "a secret of a thread", thread_ts=ts(19)),
        deleted(message(ts(22), "a secret that is gone", thread_ts=ts(19)), ts(23)),
    )

    answered.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"secret" not in answered.path.read_bytes()
    assert answered.count("said") == 0


def test_the_same_ts_in_another_channel_is_another_message(answered: Ground) -> None:
    answered.take(mention(ROOT, channel="C1"), message(NEXT, "not ours", channel="C2", thread_ts=ROOT))

    assert [row.thread.channel for row in answered.accepted] == ["C1"]
    assert answered.kept(HERE) == []


def test_a_mention_that_was_deleted_before_it_arrived_is_not_answered(answered: Ground) -> None:
    event = mention(NEXT, thread_ts=ROOT)

    answered.take(deleted(event, ts(20)), event, app_mention(NEXT, thread_ts=ROOT))

    assert answered.accepted == []
    assert answered.kept(HERE) == [(NEXT, "deleted", "")]


# -- the disk ----------------------------------------------------------------------------------------------------------
def test_an_event_that_the_disk_refuses_raises_and_is_accepted_when_it_comes_again(ground: Ground) -> None:
    """Unacknowledged, Slack delivers it again."""
    pages = ground.db.execute("PRAGMA page_count").fetchone()[0]
    ground.db.execute(f"PRAGMA max_page_count={pages}")
    big = mention(ROOT, "<@U0BOT> " + "x" * 100_000)

    with pytest.raises(sqlite3.OperationalError):
        ground.take(big)

    assert ground.accepted == []
    assert [(s.error, s.ended) for s in ground.emit.spans] == [("OperationalError", True)]
    ground.db.execute("PRAGMA max_page_count=1000000")
    ground.take(big)
    assert len(ground.accepted) == 1


# -- malformed ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A thread is watched at each ts that the made up events have, so that they come as far as the disk."""
    ground = Ground(tmp_path_factory.mktemp("hostile") / "state.db", bots=["B7"])
    ground.db.execute("PRAGMA synchronous=OFF")
    ground.threads.watch(Thread("T0", "C0", ROOT))
    yield ground
    ground.db.close()


@given(json_values)
def test_no_json_makes_the_intake_raise(watching: Ground, value: Any) -> None:
    watching.intake.take(value)
    watching.intake.take({"team_id": "T0", "event": value})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events())
def test_no_event_with_anything_in_its_places_makes_the_intake_raise(watching: Ground, event: dict[str, Any]) -> None:
    watching.intake.take(callback({**event, "event_ts": ROOT}))
    watching.intake.take(callback(event))

    for row in watching.inbox.unanswered():
        json.dumps(row.body)
    watching.kept(Thread("T0", "C0", ROOT))
