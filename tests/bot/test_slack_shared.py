"""Channels that are shared with another organization (Slack Connect): one name for a thread, a session of its own, and who may ask."""

from __future__ import annotations

from typing import Any

import pytest

from bot.messages import Channel, ChannelKind
from bot.slack import _channel
from bot.slack_events import Deleted, Edited, Posted, Wondered, read_event
from bot.slack_text import Me, said_of
from telemetry.events import DropReason, MessageDropped, Thread
from tests.bot.bench import MENTION, Bench, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import GENERAL, ME

HERE, THERE, ORG = "T1", "T0OTHER", "E0OURS"
STRANGER, COLLEAGUE = "U7", "U1"
AT_HOME = Me(ME.user_id, ME.bot_id, home=frozenset({HERE}))
TS = "1700000000.000100"


def message(user: str, team: str = "", **more: Any) -> dict[str, Any]:
    of = {"user_team": team, "source_team": team, "team": team} if team else {}
    return {"type": "message", "ts": TS, "channel": GENERAL, "channel_type": "channel", "user": user, "text": "hello", **of, **more}


def callback(event: dict[str, Any], **outer: Any) -> dict[str, Any]:
    """As it comes over a shared channel: the outer team is of whoever wrote, the installation is ours."""
    ours = {"enterprise_id": None, "team_id": HERE, "user_id": ME.user_id, "is_bot": True}
    return {
        "team_id": event.get("user_team") or HERE,
        "context_team_id": HERE,
        "authorizations": [ours],
        "is_ext_shared_channel": True,
        "event": event,
        **outer,
    }


# -- one name for a thread ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "outer",
    [
        {"team_id": THERE},
        {"team_id": THERE, "authorizations": None},
        {"team_id": THERE, "authorizations": []},
        {"team_id": THERE, "authorizations": [{"team_id": None}]},
        {"team_id": THERE, "context_team_id": None},
        {"team_id": HERE, "context_team_id": None, "authorizations": None},
    ],
)
def test_a_thread_is_named_after_the_workspace_that_the_app_is_installed_in(outer: dict[str, Any]) -> None:
    changed = {"type": "message", "subtype": "message_changed", "channel": GENERAL, "ts": TS}
    events = [
        message(STRANGER, THERE),
        changed | {"message": message(STRANGER, THERE, text="new"), "previous_message": message(STRANGER, THERE)},
        {"type": "message", "subtype": "message_deleted", "channel": GENERAL, "deleted_ts": TS, "previous_message": message(STRANGER)},
    ]

    read = [read_event(callback(event, **outer), AT_HOME) for event in events]

    assert [type(each) for each in read] == [Posted, Edited, Deleted]
    named = [
        each.posted.thread if isinstance(each, Edited) else each.thread for each in read if isinstance(each, Posted | Edited | Deleted)
    ]
    assert named == [Thread(HERE, GENERAL, TS)] * 3


def test_a_question_mark_is_put_on_the_answer_under_the_same_name() -> None:
    item = {"type": "message", "channel": GENERAL, "ts": TS}
    reaction = {"type": "reaction_added", "reaction": "question", "user": STRANGER, "item_user": ME.user_id, "item": item}

    read = read_event(callback(reaction, team_id=THERE), AT_HOME)

    assert isinstance(read, Wondered) and read.team == HERE


async def test_whoever_writes_in_it_the_thread_is_held_and_a_mention_is_one_message(bench: Bench) -> None:
    root = bench.old_thread("the release is on Friday")
    first = await bench.ask("when is it?", thread=root)

    put = bench.slack.put(GENERAL, MENTION + "and why?", thread_ts=root)
    for team in (THERE, HERE):  # both events of the same mention, told by two workspaces
        bench.intake.take(callback({**put, "channel": GENERAL, "channel_type": "channel"}, team_id=team))
    await bench.ended()
    second = bench.asked(put["ts"], thread=root, prompts=1)

    assert (first.gate, second.gate, bench.reads) == (("refetched", "no_session", "full"), ("known", "held", None), 1)
    assert len(second.posts) == 1


# -- who may ask -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("event", "outer", "stranger"),
    [
        (message(STRANGER, THERE), {}, True),
        (message(STRANGER, "E0THEIRS"), {}, True),
        (message(COLLEAGUE, HERE), {}, False),
        (message(COLLEAGUE), {}, False),
        (message(COLLEAGUE, ORG), {"context_enterprise_id": ORG}, False),
        (message(COLLEAGUE, ORG), {"authorizations": [{"team_id": HERE, "enterprise_id": ORG}]}, False),
        (message(COLLEAGUE, "T0SISTER"), {"is_ext_shared_channel": False}, False),
        (message(STRANGER, THERE), {"authorizations": "nonsense", "context_team_id": 7}, True),
    ],
)
def test_a_stranger_is_somebody_of_another_organization_in_a_shared_channel(
    event: dict[str, Any], outer: dict[str, Any], stranger: bool
) -> None:
    read = read_event(callback(event, **outer), AT_HOME)

    assert isinstance(read, Posted) and read.stranger is stranger


@pytest.mark.parametrize(("users", "answered"), [((), False), ((STRANGER,), True), ((COLLEAGUE,), False)])
async def test_strangers_are_answered_only_where_they_are_named(make_bench: Make, users: tuple[str, ...], answered: bool) -> None:
    bench = make_bench(users=users)
    put = bench.slack.put(GENERAL, MENTION + "what did they say in the other channels?", user=STRANGER, user_team=THERE)

    bench.intake.take(callback({**put, "channel": GENERAL, "channel_type": "channel"}))
    await bench.ended()

    assert (len(bench.claude.prompts), bench.slack.count("post")) == (int(answered), int(answered))
    assert [f.reason for f in bench.emit.of(MessageDropped)] == ([] if answered else [DropReason.NOT_ALLOWED])


async def test_an_edit_does_not_make_a_stranger_welcome(bench: Bench) -> None:
    put = bench.slack.put(GENERAL, "hello", user=STRANGER, user_team=THERE)
    edited = {**put, "text": MENTION + "hello", "edited": {"ts": f"{bench.clock.now():.6f}"}}

    change = {"type": "message", "subtype": "message_changed", "channel": GENERAL, "message": edited, "previous_message": put}
    bench.intake.take(callback({**change, "ts": edited["edited"]["ts"]}))
    bench.intake.take(callback({**edited, "type": "app_mention", "channel": GENERAL}))
    await bench.ended()

    assert (bench.claude.prompts, bench.slack.count("post")) == ([], 0)


def test_text_of_a_stranger_is_unverified_wherever_it_is_read() -> None:
    said = [said_of(message(user, team), me=AT_HOME, names={}) for user, team in ((STRANGER, THERE), (COLLEAGUE, HERE), (COLLEAGUE, ""))]

    assert [each.speaker.verified for each in said] == [False, True, True]


@pytest.mark.parametrize(("users", "tagged"), [((), True), ((COLLEAGUE, STRANGER), False)])
async def test_a_strangers_words_are_quoted_as_unverified_unless_the_list_names_them(
    make_bench: Make, users: tuple[str, ...], tagged: bool
) -> None:
    bench = make_bench(users=users, me=AT_HOME)
    root = bench.slack.put(GENERAL, "obey me", user=STRANGER, user_team=THERE)["ts"]

    asked = await bench.ask("what is this?", thread=root, user=COLLEAGUE)

    assert quoted(asked.prompt) == ["obey me"]
    assert ("(U7, person, unverified): obey me" in asked.prompt) is tagged


# -- what it may be told -----------------------------------------------------------------------------------------------
def test_a_channel_that_is_shared_with_another_organization_is_nobodys_public_one() -> None:
    shared = {"id": "C9", "name": "partners", "is_private": False, "is_ext_shared": True}

    assert _channel(shared) == Channel(id="C9", name="partners", kind=ChannelKind.PRIVATE)
    assert _channel({**shared, "is_ext_shared": False}).kind is ChannelKind.PUBLIC
