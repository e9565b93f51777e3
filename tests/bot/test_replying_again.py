"""What stands in Slack already is not posted again: after a post of which nobody heard, and after the death of the bot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.ports import SlackError
from bot.reply_parts import PART_CHARS
from bot.replying import RATE_LIMIT_WAITS, SHORTER_CHARS, ReplyLost
from telemetry.events import FailReason
from telemetry.names import Attr
from tests.bot.desk import Desk, refused
from tests.bot.fakes import GENERAL, settled


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "state.db")
    yield desk
    desk.db.close()


# -- nobody heard of it ---------------------------------------------------------------------------------------------------
async def test_what_was_never_sent_is_posted_again_without_a_look(desk: Desk) -> None:
    desk.slack.fail("post", refused("connection_refused"))

    await desk.post("Friday")

    assert len(desk.own) == 1 and desk.slack.count("post") == 2 and desk.slack.count("looks") == 0


DOUBTFUL = ["timeout", "connection", "internal_error", "fatal_error", "service_unavailable", "invalid_response", "http_502", "http_504"]


@pytest.mark.parametrize("code", DOUBTFUL)
async def test_what_slack_may_have_taken_is_looked_for_and_posted_again_where_it_did_not(desk: Desk, code: str) -> None:
    desk.slack.fail("post", refused(code))

    delivered = await desk.post("Friday")

    (post,) = desk.own
    assert delivered.parts == (post["ts"],) and desk.slack.count("post") == 2


@pytest.mark.parametrize("code", DOUBTFUL)
async def test_what_slack_took_without_saying_so_is_found_and_not_posted_again(desk: Desk, code: str) -> None:
    desk.slack.fail("post", None, desk.lands(refused(code)))

    delivered = await desk.post("y" * 9_000)

    assert [p["metadata"]["event_payload"]["part"] for p in desk.own] == [1, 2, 3]
    assert delivered.parts == tuple(p["ts"] for p in desk.own)
    assert desk.slack.count("post") == 3 and desk.slack.count("delete") == 0


@pytest.mark.parametrize("after", [0.5, 3.0, 9.0])
async def test_a_post_that_was_timed_out_and_comes_late_is_waited_for(desk: Desk, after: float) -> None:
    call = desk.slack.calls
    desk.slack.fail("post", refused("timeout"))
    posting = asyncio.get_running_loop().create_task(desk.post("Friday"))
    await settled()
    late = asyncio.get_running_loop().create_task(_later(desk, after, lambda: desk.land("Friday", call[0].metadata)))

    delivered = await posting
    late.cancel()  # of no effect where it was waited for
    await asyncio.gather(late, return_exceptions=True)

    (post,) = desk.own
    assert delivered.parts == (post["ts"],) and desk.slack.count("post") == 1


async def _later(desk: Desk, seconds: float, act: Callable[[], Any]) -> None:
    await desk.clock.sleep(seconds)
    act()


async def test_one_that_comes_even_later_is_taken_back(desk: Desk) -> None:
    def both() -> None:
        call = desk.slack.of("post")[-1]
        desk.land(call.text, call.metadata)

    desk.slack.fail("post", refused("timeout"), both)

    delivered = await desk.post("Friday")

    (post,) = desk.own
    assert delivered.parts == (post["ts"],)
    assert desk.slack.count("post") == 2 and desk.slack.count("delete") == 1


async def test_a_look_waits_until_slack_can_be_asked(desk: Desk) -> None:
    desk.slack.fail("post", desk.lands(refused("timeout")))
    desk.slack.fail("looks", *(SlackError("conversations.replies", code) for code in ("timeout", "internal_error", "connection_refused")))
    desk.slack.fail("looks", SlackError("conversations.replies", "ratelimited", retry_after=30))

    await desk.post("Friday")

    assert len(desk.own) == 1 and desk.slack.count("post") == 1
    assert desk.clock.slept == [1, 1, 2, 5, 30]


@pytest.mark.parametrize("codes", [("missing_scope",), ("timeout",) * 20])
async def test_where_slack_does_not_tell_nothing_is_posted_again(desk: Desk, codes: tuple[str, ...]) -> None:
    desk.slack.fail("post", refused("timeout"))
    desk.slack.fail("looks", *(SlackError("conversations.replies", code) for code in codes))

    lost = await desk.lost()

    assert (lost.reason, lost.unsure) == (FailReason.SLACK_ERROR, True)
    assert desk.slack.count("post") == 1


async def test_an_answer_whose_end_may_stand_there_keeps_its_beginning(desk: Desk) -> None:
    desk.slack.fail("post", None, refused("timeout"))
    desk.slack.fail("looks", SlackError("conversations.replies", "missing_scope"))

    lost = await desk.lost("word " * PART_CHARS)

    assert lost.unsure and [posted["metadata"]["event_payload"]["part"] for posted in desk.own] == [1]
    assert desk.slack.count("delete") == 0


async def test_what_never_arrives_is_given_up_and_then_it_is_known_that_it_is_not_there(desk: Desk) -> None:
    desk.slack.fail("post", *(refused("internal_error") for _ in range(RATE_LIMIT_WAITS + 1)))

    lost = await desk.lost()

    assert (lost.reason, lost.unsure) == (FailReason.SLACK_ERROR, False)
    assert desk.own == [] and desk.slack.count("post") == RATE_LIMIT_WAITS + 1


# -- begun by a bot that died ------------------------------------------------------------------------------------------
async def test_a_reply_that_stands_there_whole_is_not_posted_again(desk: Desk) -> None:
    await desk.post("y" * 6_000)
    there = [post["ts"] for post in desk.own]
    desk.slack.calls.clear()
    desk.emit.spans.clear()

    delivered = await desk.resume()

    assert [call.method for call in desk.slack.calls] == ["looks"]
    assert delivered.parts == tuple(there) and [post["ts"] for post in desk.own] == there
    assert (desk.span[Attr.REPLY_FOUND], desk.span[Attr.REPLY_TS]) == (2, delivered.parts)


@pytest.mark.parametrize("gone", [(1,), (2,), (3,), (1, 3), (1, 2, 3)])
async def test_the_parts_that_are_missing_are_posted_and_no_other(desk: Desk, gone: tuple[int, ...]) -> None:
    text = "\n".join(f"line {n} " + "x" * 90 for n in range(120))
    await desk.post(text)
    for number, post in enumerate(desk.own, start=1):
        if number in gone:
            desk.slack.erase(GENERAL, post["ts"])
    desk.slack.calls.clear()

    delivered = await desk.resume()

    parts = {post["metadata"]["event_payload"]["part"]: post for post in desk.own}
    assert len(desk.own) == 3 and "".join(parts[n]["text"] for n in (1, 2, 3)) == text
    assert delivered.parts == tuple(parts[n]["ts"] for n in (1, 2, 3))
    assert [call.text for call in desk.slack.of("post")] == [parts[n]["text"] for n in gone]


async def test_what_the_dead_bot_had_sent_and_comes_late_is_taken_back(desk: Desk) -> None:
    await desk.post("Friday")
    (first,) = desk.own
    desk.slack.erase(GENERAL, first["ts"])
    desk.slack.fail("post", lambda: desk.land("Friday", first["metadata"]))  # type: ignore[arg-type, return-value]

    delivered = await desk.resume()

    (post,) = desk.own
    assert delivered.parts == (post["ts"],)


@pytest.mark.parametrize(
    "forged",
    [
        {"user": "U9", "bot_id": ""},
        {"user": "U9", "bot_id": "B9"},
        {"part": 3},
        {"part": "1"},
        {"parts": 2},
        {"message": "T1/C1/1.000100"},
        {"trace_id": "of another attempt"},
        {"outcome": "failed"},
        {"event_type": "another_app"},
        {"event_payload": None},
        {"metadata": "nothing"},
    ],
    ids=str,
)
async def test_only_the_bots_own_part_of_this_reply_counts_as_one(desk: Desk, forged: dict[str, Any]) -> None:
    await desk.post("Friday")
    (first,) = desk.own
    desk.slack.erase(GENERAL, first["ts"])
    by = {name: forged[name] for name in ("user", "bot_id") if name in forged}
    inside = {name: value for name, value in forged.items() if name in first["metadata"]["event_payload"]}
    around = {name: value for name, value in forged.items() if name in first["metadata"]}
    metadata = {**first["metadata"], "event_payload": {**first["metadata"]["event_payload"], **inside}, **around}
    other = desk.land("Friday", forged.get("metadata", metadata), **by)

    delivered = await desk.resume()

    assert len(desk.own) == 2 and other not in delivered.parts


async def test_a_reply_is_looked_for_on_every_page_below_its_message(desk: Desk) -> None:
    for n in range(30):
        desk.slack.put(GENERAL, f"talk {n}", thread_ts=desk.root)
    await desk.post("y" * 6_000)
    desk.slack.page_size = 7
    desk.slack.calls.clear()

    await desk.resume()

    assert {call.method for call in desk.slack.calls} == {"looks"} and len(desk.own) == 32


async def test_shorter_parts_are_recognised_as_well(desk: Desk) -> None:
    desk.slack.limit = 3_000
    await desk.post("y" * 6_000)
    *_, last = desk.own
    desk.slack.erase(GENERAL, last["ts"])

    await desk.resume()

    assert "".join(post["text"] for post in desk.own) == "y" * 6_000
    assert max(len(post["text"]) for post in desk.own) <= SHORTER_CHARS


async def test_where_the_thread_went_with_the_dead_bot_nothing_is_posted(desk: Desk) -> None:
    await desk.post("Friday")
    desk.lose_the_root()
    desk.slack.calls.clear()

    with pytest.raises(ReplyLost) as raised:
        await desk.resume()

    assert raised.value.reason is FailReason.THREAD_GONE and desk.slack.count("post") == 0


async def test_what_was_kept_is_found_also_for_a_message_that_no_turn_was_begun_for(desk: Desk) -> None:
    """A message that waits, and is stopped, has a reply and no attempt."""
    assert desk.replies.begun(desk.message) is None
    await desk.post("Friday")

    begun = desk.replies.begun(desk.message)

    assert desk.message.attempt == 1 and begun is not None and begun.text == "Friday"
