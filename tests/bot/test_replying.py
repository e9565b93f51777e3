"""An answer in its thread, whole or not at all; and a status that never outlives the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.ports import SlackError
from bot.reply_parts import PART_CHARS
from bot.replying import RATE_LIMIT_WAITS, SHORTER_CHARS, Status
from bot.standing import LONGEST_WAIT_SECONDS
from telemetry.events import FailReason
from telemetry.names import Attr
from tests.bot.desk import Desk, refused
from tests.bot.fakes import GENERAL, settled


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "state.db")
    yield desk
    desk.db.close()


# -- whole -------------------------------------------------------------------------------------------------------------
async def test_an_answer_stands_in_the_thread_of_its_message_and_says_whose_it_is(desk: Desk) -> None:
    delivered = await desk.post("Friday")

    (post,) = desk.own
    assert (post["text"], post["thread_ts"], delivered.parts) == ("Friday", desk.root, (post["ts"],))
    assert post["metadata"] == {
        "event_type": "insomnia_reply",
        "event_payload": {
            "v": 1,
            "message": f"T1/{GENERAL}/{desk.root}",
            "trace_id": "abc",
            "outcome": "answered",
            "gate": {"decision": "refetched", "reason": "not_known", "injection": "full", "messages": 3, "omitted": 1},
            "part": 1,
            "parts": 1,
        },
    }
    assert desk.span == {Attr.REPLY_METHOD: "chat.postMessage", Attr.REPLY_CHUNKS: 1, Attr.REPLY_TS: delivered.parts}


async def test_a_long_answer_comes_in_parts_that_say_how_many_there_are(desk: Desk) -> None:
    text = "\n".join(f"line {n} " + "x" * 90 for n in range(120))

    delivered = await desk.post(text)

    assert all(len(post["text"]) <= PART_CHARS for post in desk.own)
    assert "".join(post["text"] for post in desk.own) == text
    numbers = [(p["metadata"]["event_payload"]["part"], p["metadata"]["event_payload"]["parts"]) for p in desk.own]
    assert numbers == [(n, len(desk.own)) for n in range(1, len(desk.own) + 1)] and len(numbers) >= 3
    assert delivered.parts == tuple(post["ts"] for post in desk.own)
    assert desk.span[Attr.REPLY_CHUNKS] == len(desk.own)


async def test_nobody_is_pinged(desk: Desk) -> None:
    await desk.post("Hey <!channel> and <@U2>")

    assert desk.own[0]["text"] == "Hey &lt;!channel&gt; and &lt;@U2&gt;"


# -- refused -----------------------------------------------------------------------------------------------------------
async def test_what_slack_finds_too_long_comes_in_shorter_parts_and_only_once(desk: Desk) -> None:
    desk.slack.limit = 3_000
    text = "short\n\n" + "\n".join("y" * 99 for _ in range(60))

    await desk.post(text)

    assert "".join(post["text"] for post in desk.own) == text
    assert max(len(post["text"]) for post in desk.own) <= SHORTER_CHARS
    assert desk.span[Attr.REPLY_FALLBACK] is True and desk.span[Attr.REPLY_CHUNKS] == len(desk.own)


async def test_parts_that_stood_already_are_taken_back_before_the_shorter_ones_come(desk: Desk) -> None:
    desk.slack.fail("post", None, refused("msg_blocks_too_long"))

    await desk.post("\n".join("y" * 99 for _ in range(60)))

    assert "".join(post["text"] for post in desk.own) == "\n".join("y" * 99 for _ in range(60))
    assert desk.slack.count("delete") == 1


async def test_what_is_refused_even_so_is_lost_and_nothing_of_it_stays(desk: Desk) -> None:
    desk.slack.limit = 1_000

    lost = await desk.lost("z" * 5_000)

    assert (lost.reason, lost.unsure) == (FailReason.SLACK_ERROR, False)
    assert desk.own == []


async def test_a_rate_limit_is_waited_out(desk: Desk) -> None:
    desk.slack.fail("post", refused("ratelimited", 30), refused("ratelimited", 7))

    await desk.post("Friday")

    assert desk.clock.slept == [30, 7] and len(desk.own) == 1


async def test_no_wait_is_longer_than_a_minute_and_there_are_only_so_many(desk: Desk) -> None:
    desk.slack.fail("post", *(refused("ratelimited", 600) for _ in range(RATE_LIMIT_WAITS + 1)))

    lost = await desk.lost()

    assert lost.reason is FailReason.SLACK_ERROR
    assert desk.clock.slept == [LONGEST_WAIT_SECONDS] * RATE_LIMIT_WAITS


async def test_half_an_answer_is_taken_back(desk: Desk) -> None:
    desk.slack.fail("post", None, refused("is_archived"))

    lost = await desk.lost("y" * 6_000)

    assert (lost.reason, lost.unsure) == (FailReason.SLACK_ERROR, False)
    assert desk.own == []


# -- the root is gone --------------------------------------------------------------------------------------------------
async def test_where_the_root_is_gone_nothing_is_left_in_the_channel(desk: Desk) -> None:
    desk.lose_the_root()

    lost = await desk.lost("y" * 6_000)

    assert lost.reason is FailReason.THREAD_GONE
    assert desk.own == []
    assert desk.span[Attr.REPLY_MISPLACED] is True


async def test_where_the_root_goes_between_two_parts_both_are_taken_back(desk: Desk) -> None:
    desk.slack.fail("post", None, desk.lose_the_root)

    lost = await desk.lost("y" * 6_000)

    assert lost.reason is FailReason.THREAD_GONE and desk.own == []


async def test_what_cannot_be_taken_back_is_borne(desk: Desk) -> None:
    desk.lose_the_root()
    desk.slack.fail("delete", SlackError("chat.delete", "internal_error"))

    assert (await desk.lost()).reason is FailReason.THREAD_GONE


@pytest.mark.parametrize("code", ["thread_not_found", "cannot_reply_to_message"])
async def test_slack_may_say_so_itself(desk: Desk, code: str) -> None:
    desk.slack.fail("post", refused(code))

    assert (await desk.lost()).reason is FailReason.THREAD_GONE
    assert desk.span[Attr.REPLY_MISPLACED] is True


# -- the status --------------------------------------------------------------------------------------------------------
def statuses(desk: Desk) -> list[str]:
    return [call.text for call in desk.slack.of("set_status")]


def follow(desk: Desk) -> list[tuple[str, str]]:
    """Everything that reached Slack, as (method, status)."""
    seen: list[tuple[str, str]] = []

    async def set_status(channel: str, thread_ts: str, status: str) -> None:
        seen.append((thread_ts, status))

    desk.slack.set_status = set_status  # type: ignore[method-assign]
    return seen


async def test_a_status_is_refreshed_before_slack_drops_it_and_cleared_at_the_end(desk: Desk) -> None:
    seen = follow(desk)

    async with Status(desk.slack, desk.message, clock=desk.clock) as status:
        await status.show("is thinking…")
        for _ in range(10):
            await settled()
            desk.clock.advance(30)
            await settled()

    assert seen == [(desk.root, "is thinking…")] * 4 + [(desk.root, "")]
    assert all(seconds < 120 for seconds in desk.clock.slept)


async def raises() -> None:
    raise RuntimeError


async def cancels() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("turn", [raises, cancels])
async def test_a_status_is_cleared_however_the_turn_ends(desk: Desk, turn: Callable[[], Any]) -> None:
    seen = follow(desk)

    with pytest.raises((RuntimeError, asyncio.CancelledError)):
        async with Status(desk.slack, desk.message, clock=desk.clock) as status:
            await status.show("is thinking…")
            await settled()
            await turn()

    assert seen[-1] == (desk.root, "")


async def test_once_settled_nothing_sets_it_again(desk: Desk) -> None:
    """A refresh that races the reply would stand there for two minutes."""
    seen = follow(desk)

    async with Status(desk.slack, desk.message, clock=desk.clock) as status:
        await status.show("is thinking…")
        await settled()
        await status.settle()
        desk.clock.advance(600)
        await settled()
        assert seen == [(desk.root, "is thinking…")]

    desk.clock.advance(600)
    await settled()
    assert seen == [(desk.root, "is thinking…"), (desk.root, "")]


async def test_what_is_shown_later_replaces_what_was_shown(desk: Desk) -> None:
    seen = follow(desk)

    async with Status(desk.slack, desk.message, clock=desk.clock) as status:
        await status.show("is thinking…")
        await settled()
        await status.show("is reading…")
        desk.clock.advance(95)
        await settled()

    assert [words for _, words in seen] == ["is thinking…", "is reading…", ""]


async def test_a_status_that_slack_refuses_harms_nobody(desk: Desk) -> None:
    desk.slack.fail("set_status", *(SlackError("assistant.threads.setStatus", "missing_scope") for _ in range(3)))

    async with Status(desk.slack, desk.message, clock=desk.clock) as status:
        await status.show("is thinking…")
        await settled()

    assert statuses(desk) == ["is thinking…", ""]


async def test_a_cancellation_while_the_status_settles_goes_on(desk: Desk) -> None:
    stuck = asyncio.Event()

    async def never_ends(channel: str, thread_ts: str, status: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await stuck.wait()

    desk.slack.set_status = never_ends  # type: ignore[method-assign]
    status = Status(desk.slack, desk.message, clock=desk.clock)
    await status.show("is thinking…")
    await settled()
    settling = asyncio.get_running_loop().create_task(status.settle())
    await settled()

    settling.cancel()
    await settled()
    stuck.set()

    with pytest.raises(asyncio.CancelledError):
        await settling
