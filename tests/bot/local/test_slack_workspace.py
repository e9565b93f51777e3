from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.local import slack_seed
from bot.local.slack_faults import SocketScript
from bot.local.slack_records import BOT_USER_ID
from bot.local.slack_store import Store
from bot.local.slack_threads import answer_parts, complete
from bot.local.slack_workspace import STATUS_SECONDS, Unknown, Workspace

BOT = f"<@{BOT_USER_ID}>"


class World:
    """A workspace whose events are kept in a list, with a clock that is moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_790_000_000.0
        self.payloads: list[dict[str, Any]] = []
        self.script = SocketScript()
        self.store = Store(folder, clock=lambda: self.now, opening=lambda: slack_seed.people_and_channels(self.now))
        self.there = Workspace(self.store, clock=lambda: self.now, send=self.payloads.append, script=self.script)

    def events(self) -> list[dict[str, Any]]:
        events = [p["event"] for p in self.payloads]
        self.payloads.clear()
        return events


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [e.get("subtype", e["type"]) for e in events]


def test_a_mention_is_two_events_of_one_ts_and_of_two_ids(world: World) -> None:
    said = world.there.say("general", "mika", "why?", mention=True)

    ids = {p["event_id"] for p in world.payloads}
    events = {e["type"]: e for e in world.events()}
    assert len(ids) == 2
    assert events["message"]["channel_type"] == "channel" and "channel_type" not in events["app_mention"]
    assert {e["ts"] for e in events.values()} == {said["ts"]}
    assert {e["text"] for e in events.values()} == {f"{BOT} why?"}


@pytest.mark.parametrize("first", ["message", "app_mention"])
def test_which_event_of_a_mention_comes_first_can_be_scripted(world: World, first: Any) -> None:
    world.script.mention_first = first

    for _ in range(8):
        world.there.say("general", "mika", BOT)
        assert world.events()[0]["type"] == first


def test_by_itself_the_order_of_the_two_is_left_to_chance(world: World) -> None:
    firsts = set()
    for _ in range(64):
        world.there.say("general", "mika", BOT)
        firsts.add(world.events()[0]["type"])

    assert firsts == {"message", "app_mention"}


def test_where_the_bot_is_no_member_only_the_mention_comes(world: World) -> None:
    world.there.set_member("general", BOT_USER_ID, member=False)

    said = world.there.say("general", "mika", BOT)
    world.there.say("general", "mika", "nothing for the bot")
    world.there.edit("general", said["ts"], f"{BOT} again")
    world.there.delete("general", said["ts"])

    assert kinds(world.events()) == ["app_mention", "app_mention"]


def test_a_mention_in_a_direct_message_is_one_event(world: World) -> None:
    world.there.say("@mika", "mika", f"{BOT} hello")

    (event,) = world.events()
    assert (event["type"], event["channel_type"], event["channel"]) == ("message", "im", "D0MIKA")


def test_a_private_channel_is_a_group(world: World) -> None:
    world.there.say("hiring", "lena", "between us")

    assert [e["channel_type"] for e in world.events()] == ["group"]


def test_a_reply_names_its_root_and_any_message_of_the_thread_will_do(world: World) -> None:
    root = world.there.say("general", "mika", "root")
    first = world.there.say("general", "tom", "one", thread_ts=root["ts"])
    second = world.there.say("general", "tom", "two", thread_ts=first["ts"])

    assert second["thread_ts"] == root["ts"]
    assert world.events()[-1]["parent_user_id"] == "U0MIKA"


def test_an_edit_is_a_change_and_a_fresh_mention_if_the_new_text_holds_one(world: World) -> None:
    said = world.there.say("general", "mika", "hello")
    world.events()

    world.there.edit("general", said["ts"], f"{BOT} hello")

    events = {e.get("subtype", e["type"]): e for e in world.events()}
    changed, mention = events["message_changed"], events["app_mention"]
    assert changed["hidden"] and changed["previous_message"]["text"] == "hello" and changed["message"]["text"] == f"{BOT} hello"
    assert changed["ts"] != said["ts"] and mention["ts"] == said["ts"]
    assert mention["edited"] == changed["message"]["edited"]


def test_an_unfurl_is_a_change_without_an_edit(world: World) -> None:
    said = world.there.say("general", "mika", f"{BOT} <https://x.example>")
    world.events()

    world.there.unfurl("general", said["ts"], {"from_url": "https://x.example", "title": "X"})

    (event,) = world.events()
    assert event["subtype"] == "message_changed" and "edited" not in event["message"]
    assert event["message"]["text"] == event["previous_message"]["text"]


def test_a_deleted_reply_is_gone(world: World) -> None:
    root = world.there.say("general", "mika", "root")
    reply = world.there.say("general", "tom", "reply", thread_ts=root["ts"])
    world.events()

    world.there.delete("general", reply["ts"])

    (event,) = world.events()
    assert (event["subtype"], event["deleted_ts"], event["previous_message"]["text"]) == ("message_deleted", reply["ts"], "reply")
    assert len(world.store.thread("C0GENERAL", root["ts"])) == 1


def test_a_deleted_root_with_replies_leaves_a_tombstone_until_its_last_reply_goes(world: World) -> None:
    root = world.there.say("general", "mika", "root")
    reply = world.there.say("general", "tom", "reply", thread_ts=root["ts"])
    world.events()

    world.there.delete("general", root["ts"])

    (event,) = world.events()
    assert event["subtype"] == "message_changed"
    assert (event["message"]["subtype"], event["message"]["user"]) == ("tombstone", "USLACKBOT")
    assert [m["text"] for m in world.store.thread("C0GENERAL", root["ts"])] == ["This message was deleted.", "reply"]

    world.there.delete("general", reply["ts"])
    assert world.store.root_ts("C0GENERAL", root["ts"]) is None


def test_a_file_comes_as_file_share_and_may_have_no_text_at_all(world: World) -> None:
    said = world.there.say("general", "mika", None, files=["plan.pdf", {"name": "x", "mimetype": "text/x"}])

    (event,) = world.events()
    assert event["subtype"] == "file_share" and "text" not in event and "blocks" not in event
    assert [f["mimetype"] for f in said["files"]] == ["application/pdf", "text/x"]


def test_a_mention_under_a_file_is_a_mention_without_subtype(world: World) -> None:
    world.there.say("general", "mika", "what is this?", mention=True, files=["a.png"])

    events = {e["type"]: e for e in world.events()}
    assert "subtype" not in events["app_mention"] and events["app_mention"]["files"]


def test_a_reply_that_is_sent_to_the_channel_too_carries_its_root(world: World) -> None:
    root = world.there.say("general", "mika", "root")
    world.there.say("general", "tom", "for all", thread_ts=root["ts"], subtype="thread_broadcast")

    event = world.events()[-1]
    assert (event["subtype"], event["root"]["text"]) == ("thread_broadcast", "root")


def test_other_bots_speak_with_a_bot_id(world: World) -> None:
    world.there.say("general", "lighthouse", "", subtype="bot_message", attachments=[{"title": "fire"}])
    world.there.say("general", "lighthouse", "plain")

    old, new = world.events()
    assert "user" not in old and (old["bot_id"], old["username"]) == ("B0LIGHT", "Lighthouse")
    assert (new["user"], new["bot_id"]) == ("U0LIGHT", "B0LIGHT") and "client_msg_id" not in new


def test_own_posts_and_own_updates_come_back_as_events_without_metadata(world: World) -> None:
    conversation = world.there.conversation("general")
    posted = world.there.post(conversation, {"text": f"{BOT} **as sent**", "metadata": {"event_type": "x", "event_payload": {}}})
    world.there.update(conversation, posted, {"text": "b"})

    events = world.events()
    assert kinds(events) == ["message", "message_changed"]
    assert events[0]["text"] == f"{BOT} **as sent**" and events[0]["bot_id"] == "B0INSOMNIA"
    assert "metadata" not in events[0] and posted["metadata"]


def test_a_post_into_a_thread_that_is_gone_stands_in_the_channel(world: World) -> None:
    root = world.there.say("general", "mika", "root")
    world.there.delete("general", root["ts"])

    posted = world.there.post(world.there.conversation("general"), {"text": "late", "thread_ts": root["ts"]})

    assert "thread_ts" not in posted


def test_what_is_not_delivered_is_stored_all_the_same(world: World) -> None:
    root = world.there.say("general", "mika", "missed", mention=True, deliver=False)
    world.there.edit("general", root["ts"], "missed too", deliver=False)
    gone = world.there.say("general", "mika", "gone", deliver=False)
    world.there.delete("general", gone["ts"], deliver=False)

    assert world.events() == []
    assert [m["text"] for m in world.store.timeline("C0GENERAL")] == ["missed too"]


def test_a_reaction_is_told_once(world: World) -> None:
    said = world.there.say("general", "mika", "hello")
    world.events()

    assert world.there.react("general", said["ts"], "tom", "question")
    assert not world.there.react("general", said["ts"], "tom", "question")
    assert world.there.react("general", said["ts"], "tom", "question", added=False)

    assert kinds(world.events()) == ["reaction_added", "reaction_removed"]
    assert world.store.shown("C0GENERAL", said["ts"])["reactions"] == []


def test_a_status_is_over_after_two_minutes_and_with_the_reply(world: World) -> None:
    root = world.there.say("general", "mika", "q")["ts"]
    world.there.set_status("C0GENERAL", root, "thinking")
    assert world.there.status("C0GENERAL", root) == "thinking"
    world.now += STATUS_SECONDS
    assert world.there.status("C0GENERAL", root) == ""

    world.there.set_status("C0GENERAL", root, "thinking")
    world.there.post(world.there.conversation("general"), {"text": "a", "thread_ts": root})
    assert world.there.status("C0GENERAL", root) == ""


@pytest.mark.parametrize("word", ["general", "#general", "C0GENERAL"])
def test_a_channel_is_found_by_name_and_by_id(world: World, word: str) -> None:
    assert world.there.conversation(word).id == "C0GENERAL"


@pytest.mark.parametrize("word", ["mika", "@mika", "U0MIKA", "Mika Sato", "MIKA"])
def test_a_person_is_found_by_any_of_their_names(world: World, word: str) -> None:
    assert world.there.person(word).id == "U0MIKA"


def test_what_is_not_there_is_answered_with_what_there_is(world: World) -> None:
    world.there.say("general", "mika", "hello")

    for ask, told in (
        (lambda: world.there.conversation("geneal"), "There are: #general, #release, #日本語, #hiring, @mika."),
        (lambda: world.there.person(""), "There are: mika, tom, lena"),
        (
            lambda: world.there.say("general", "mika", "x", thread_ts="1.2"),
            "#general has no thread 1.2. Its newest threads: 1790000000.000000.",
        ),
        (lambda: world.there.edit("release", "1.2", "x"), "Nothing was said there yet."),
    ):
        with pytest.raises(Unknown, match=re.escape(told)):
            ask()


def test_an_answer_is_complete_with_its_last_part() -> None:
    def post(part: int, parts: int = 2, message: str = "T/C/1") -> dict[str, Any]:
        payload = {"message": message, "part": part, "parts": parts}
        return {"user": BOT_USER_ID, "ts": str(part), "metadata": {"event_payload": payload}}

    said = [{"user": "U0MIKA", "ts": "0"}, post(1), post(1, message="T/C/2"), {**post(2), "user": "U0MIKA"}]

    assert [m["ts"] for m in answer_parts(said, message="T/C/1")] == ["1"]
    assert not complete(answer_parts(said, message="T/C/1"))
    assert complete(answer_parts([*said, post(2)], message="T/C/1"))
    assert complete([{"user": BOT_USER_ID, "metadata": {"event_payload": {"message": "T/C/1"}}}])
    assert not complete([])
