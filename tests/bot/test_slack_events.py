"""Payloads become values, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from bot.slack_events import (
    KEPT_DEPTH,
    KEPT_KEYS,
    Deleted,
    Edited,
    Ignored,
    Posted,
    SlackEvent,
    calls_somebody,
    is_late,
    mentioned,
    read_event,
)
from telemetry.events import DropReason, Thread
from tests.bot.ground import ME, app_mention, callback, changed, deleted, mention, message
from tests.bot.odd_events import events, json_values

TS, LATER = "1761000000.000100", "1761000060.000200"
ROOT = "1760000000.000000"


def read(event: dict[str, Any]) -> SlackEvent:
    return read_event(callback(event), ME)


def posted(event: dict[str, Any]) -> Posted:
    found = read(event)
    assert isinstance(found, Posted)
    return found


def why_ignored(event: dict[str, Any]) -> DropReason:
    found = read(event)
    assert isinstance(found, Ignored)
    return found.reason


def rich(*elements: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": list(elements)}]}]


# -- posted ------------------------------------------------------------------------------------------------------------
def test_a_message_opens_its_own_thread() -> None:
    found = posted(message(TS, "hi"))

    assert (found.thread, found.ts, found.user, found.channel_type) == (Thread("T0", "C0", TS), TS, "U1", "channel")
    assert not found.edited
    assert not found.named


def test_a_reply_stands_in_its_roots_thread() -> None:
    assert posted(message(TS, thread_ts=ROOT)).thread == Thread("T0", "C0", ROOT)


def test_an_app_mention_tells_no_kind_of_channel_but_names_the_bot() -> None:
    found = posted(app_mention(TS))

    assert found.channel_type == ""
    assert found.named
    assert found.mentions("U0BOT")


@pytest.mark.parametrize("subtype", [None, "", "file_share", "thread_broadcast", "bot_message", "me_message"])
def test_kinds_of_messages_that_people_read_are_accepted(subtype: str | None) -> None:
    assert posted(message(TS, subtype=subtype)).ts == TS


@pytest.mark.parametrize("subtype", ["channel_join", "huddle_thread", "reminder_add", "message_replied", 7, ["file_share"], {"a": 1}, True])
def test_every_other_kind_is_ignored(subtype: object) -> None:
    assert why_ignored(message(TS, subtype=subtype)) is DropReason.IGNORED_EVENT


def test_a_file_without_any_text_is_a_message() -> None:
    event = message(TS, subtype="file_share", files=[{"name": "a.png"}])
    del event["text"]

    assert posted(event).body["files"] == [{"name": "a.png"}]


def test_a_reply_that_was_also_sent_to_the_channel_does_not_bring_its_root_along() -> None:
    event = message(TS, subtype="thread_broadcast", thread_ts=ROOT, root={"text": "the root", "ts": ROOT}, files=[{"name": "a"}])

    assert "root" not in posted(event).body
    assert posted(event).thread.ts == ROOT


def test_only_what_makes_up_a_text_is_kept() -> None:
    body = posted(message(TS, client_msg_id="x", reply_count=3, metadata={"a": 1}, blocks=[{"type": "divider"}])).body

    assert set(body) <= KEPT_KEYS
    assert body["blocks"] == [{"type": "divider"}]


def test_another_bot_is_known_by_its_bot_id() -> None:
    event = message(TS, subtype="bot_message", bot_id="B7")
    del event["user"]

    assert (posted(event).user, posted(event).bot_id) == ("B7", "B7")


@pytest.mark.parametrize("own", [{"user": "U0BOT"}, {"bot_id": "B0BOT"}, {"user": "U0BOT", "bot_id": "B0BOT"}])
def test_the_bots_own_words_are_told_apart_in_every_event(own: dict[str, str]) -> None:
    event = message(TS, **own)

    assert why_ignored(event) is DropReason.OWN_MESSAGE
    assert why_ignored(changed(event, LATER, text="other")) is DropReason.OWN_MESSAGE
    assert why_ignored(deleted(event, LATER)) is DropReason.OWN_MESSAGE


def test_a_message_that_is_still_being_written_comes_when_it_is_done() -> None:
    piece = message(TS, "hel", bot_id="B7", streaming_state="in_progress")

    assert why_ignored(piece) is DropReason.IGNORED_EVENT
    assert why_ignored(changed(piece, LATER, text="hello, wor")) is DropReason.IGNORED_EVENT

    whole = posted(changed(piece, LATER, text="hello, world", streaming_state="completed"))
    assert not whole.edited
    assert whole.body["text"] == "hello, world"


@pytest.mark.parametrize(
    "broken",
    [
        {"ts": ""},
        {"ts": None},
        {"ts": 1761000000.0001},
        {"ts": "1761000000"},
        {"ts": "²³.¹"},
        {"ts": "１７６１.１"},
        {"ts": "-1.5"},
        {"ts": "1.5\n"},
        {"ts": "nan.0"},
        {"user": ""},
        {"user": "U 1"},
        {"user": ["U1"]},
        {"user": "U\ud800"},
        {"channel": ""},
        {"channel": None},
        {"channel": {"id": "C0"}},
        {"channel": "../../etc"},
        {"channel": "C" * 65},
    ],
)
def test_ids_and_times_of_another_shape_make_an_event_malformed(broken: dict[str, Any]) -> None:
    assert why_ignored({**message(TS), **broken}) is DropReason.MALFORMED


@pytest.mark.parametrize("thread_ts", ["", None, "x", 5, ["1.0"], "²."])
def test_a_thread_that_cannot_be_one_is_taken_for_the_message_itself(thread_ts: object) -> None:
    assert posted({**message(TS), "thread_ts": thread_ts}).thread.ts == TS


@pytest.mark.parametrize(
    "body", [{}, {"event": None}, {"event": []}, {"event": {"type": "reaction_added"}}, {"event": {"type": ["message"]}}]
)
def test_what_is_no_message_is_ignored(body: dict[str, Any]) -> None:
    assert read_event(body, ME) == Ignored(reason=DropReason.IGNORED_EVENT)


@pytest.mark.parametrize("team", [None, "", 5, {}])
def test_an_event_of_no_workspace_is_malformed(team: object) -> None:
    assert read_event({"team_id": team, "event": message(TS)}, ME) == Ignored(reason=DropReason.MALFORMED, channel="C0")


# -- edited ------------------------------------------------------------------------------------------------------------
def test_another_text_is_an_edit_and_tells_its_time() -> None:
    found = read(changed(message(TS, "before"), LATER, text="after"))

    assert isinstance(found, Edited)
    assert (found.posted.ts, found.posted.body["text"], found.before["text"], found.late) == (TS, "after", "before", False)
    assert found.posted.body["event_ts"] == LATER
    assert found.posted.edited


@pytest.mark.parametrize(
    "now",
    [
        {"attachments": [{"from_url": "https://x.org", "title": "A preview", "text": "of a link"}]},
        {"reply_count": 4, "latest_reply": LATER},
        {"subscribed": True},
    ],
)
def test_previews_and_counts_are_no_edit(now: dict[str, Any]) -> None:
    assert why_ignored(changed(message(TS, "https://x.org"), LATER, **now)) is DropReason.IGNORED_EVENT


def test_a_mention_that_comes_or_goes_is_an_edit_although_the_words_stay() -> None:
    assert isinstance(read(changed(message(TS, "hello"), LATER, text="<@U0BOT> hello")), Edited)
    assert isinstance(read(changed(mention(TS, "<@U0BOT> hello"), LATER, text="hello")), Edited)


def test_a_file_that_was_taken_out_is_an_edit() -> None:
    assert isinstance(read(changed(message(TS, "see", files=[{"name": "a.png"}]), LATER, text="see", files=[])), Edited)


def test_an_edit_without_the_message_before_it_is_an_edit() -> None:
    event = changed(message(TS, "before"), LATER, text="after")
    del event["previous_message"]

    found = read(event)

    assert isinstance(found, Edited)
    assert found.before == {}


@pytest.mark.parametrize("inner", [None, [], "text", {}, 5])
def test_an_edit_of_nothing_is_malformed(inner: object) -> None:
    assert why_ignored({**changed(message(TS), LATER), "message": inner}) is DropReason.MALFORMED


def test_changes_of_what_is_no_message_are_ignored() -> None:
    event = changed(message(TS, "huddle", subtype="huddle_thread"), LATER, text="huddle with 3 people")

    assert why_ignored(event) is DropReason.IGNORED_EVENT


@pytest.mark.parametrize(("seconds", "late"), [(-5, False), (0, False), (300, False), (301, True), (86_400, True)])
def test_an_edit_is_late_after_five_minutes(seconds: int, late: bool) -> None:
    at = f"{1_761_000_000 + seconds}.000100"
    found = read(changed(message(TS, "a"), at, text="b"))

    assert isinstance(found, Edited)
    assert found.late is late


def test_the_time_of_an_edit_is_its_own_and_else_the_events() -> None:
    without = posted(app_mention(TS, edited={"user": "U1"}))

    assert not is_late(without, "")
    assert is_late(without, "1761000301.000000")
    assert not is_late(posted(app_mention(TS, edited={"ts": "1761000060.000000"})), "1761009999.000000")


# -- deleted -----------------------------------------------------------------------------------------------------------
def test_a_deletion_is_told_in_its_thread() -> None:
    assert read(deleted(message(TS, thread_ts=ROOT), LATER)) == Deleted(thread=Thread("T0", "C0", ROOT), ts=TS, user="U1")


def test_a_deletion_that_does_not_tell_what_was_there_still_tells_its_ts() -> None:
    event = deleted(message(TS), LATER)
    del event["previous_message"]

    assert read(event) == Deleted(thread=Thread("T0", "C0", TS), ts=TS, user="")


def test_a_root_that_became_a_tombstone_is_a_deletion_by_the_one_who_wrote_it() -> None:
    stone = {"subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.", "thread_ts": TS, "hidden": True}

    assert read(changed(message(TS, "root"), LATER, **stone)) == Deleted(thread=Thread("T0", "C0", TS), ts=TS, user="U1")


def test_the_bots_own_root_that_became_a_tombstone_is_its_own() -> None:
    stone = {"subtype": "tombstone", "user": "USLACKBOT", "bot_id": None, "text": "This message was deleted.", "thread_ts": TS}

    assert why_ignored(changed(message(TS, user="U0BOT"), LATER, **stone)) is DropReason.OWN_MESSAGE


def test_what_slack_does_with_a_tombstone_is_nothing_new() -> None:
    stone = message(TS, "This message was deleted.", user="USLACKBOT", subtype="tombstone", thread_ts=TS)

    assert why_ignored(changed(stone, LATER, reply_count=2)) is DropReason.IGNORED_EVENT
    assert why_ignored(deleted(stone, LATER)) is DropReason.IGNORED_EVENT


def test_a_deletion_of_nothing_is_malformed() -> None:
    assert why_ignored({**deleted(message(TS), LATER), "deleted_ts": None}) is DropReason.MALFORMED


# -- mentions ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "users"),
    [
        ({"text": "<@U1> and <@W2|name>, not &lt;@U3&gt; or @U4"}, {"U1", "W2"}),
        ({"text": None, "blocks": None}, set()),
        ({"blocks": rich({"type": "user", "user_id": "U5"})}, {"U5"}),
        ({"blocks": rich({"type": "text", "text": "<@U6>"})}, set()),  # somebody typed these very signs
        ({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "<@U7>"}}]}, {"U7"}),
        ({"blocks": [{"type": "section", "text": {"type": "plain_text", "text": "<@U8>"}}]}, set()),
        ({"blocks": [{"type": "markdown", "text": "<@U9>"}]}, {"U9"}),
        ({"text": {"a": "<@U1>"}, "blocks": {"user_id": "U1"}}, set()),
        ({"blocks": [{"type": "user", "user_id": {"x": 1}}, {"type": ["user"], "user_id": "U1"}]}, set()),
    ],
)
def test_mentions_are_found_where_slack_writes_them(body: dict[str, Any], users: set[str]) -> None:
    assert mentioned(body) == users


@pytest.mark.parametrize("text", ["<@U1> hm", "<!here> hm", "<!channel|channel>", "<!everyone>", "<!subteam^S1|@ops>"])
def test_a_person_a_group_and_everyone_are_somebody(text: str) -> None:
    assert calls_somebody({"text": text})
    assert calls_somebody({"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]})


def test_rich_text_calls_groups_by_elements() -> None:
    assert calls_somebody({"blocks": rich({"type": "usergroup", "usergroup_id": "S1"})})
    assert calls_somebody({"blocks": rich({"type": "broadcast", "range": "here"})})
    assert not calls_somebody({"text": "<#C1|general> <https://x.org>", "blocks": rich({"type": "channel", "channel_id": "C1"})})


# -- hostile input -----------------------------------------------------------------------------------------------------
def test_half_characters_and_endless_depth_are_not_kept() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]

    body = posted(message(TS, "a\ud800b", blocks=deep, attachments=[{"\udfff": "\ud800"}])).body

    assert body["text"] == "a\ufffdb"
    assert body["attachments"] == [{"\ufffd": "\ufffd"}]
    assert str(body["blocks"]).count("[") == KEPT_DEPTH + 1  # the innermost one empty
    assert "x" not in str(body["blocks"])


@given(json_values)
def test_no_json_makes_reading_raise(value: Any) -> None:
    read_event(value, ME)
    read_event({"team_id": "T0", "event": value}, ME)


@given(events())
def test_no_event_with_anything_in_its_places_makes_reading_raise(event: dict[str, Any]) -> None:
    found = read(event)

    if isinstance(found, Posted | Edited):
        body = (found.posted if isinstance(found, Edited) else found).body
        assert set(body) <= KEPT_KEYS
        mentioned(body)
        calls_somebody(body)
