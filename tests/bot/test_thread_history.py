"""Reading a thread back: whole, or honest about what is missing; and what of it fits into a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import pytest

from bot.messages import Channel, ChannelKind, Role, Said, Speaker
from bot.ports import Page, SlackError
from bot.quoting import said_line, thread_block
from bot.slack_text import Me
from bot.thread_history import (
    MAX_HISTORY_CHARS,
    HistoryUnreadable,
    ThreadHistory,
    fetch_thread_history,
    unread_note,
)
from bot.thread_pages import TAIL
from telemetry.events import Reason, Thread

ROOT = "1000.000000"
ME = Me("U0BOT", "B0BOT")
GENERAL = Channel(id="C1", name="general", kind=ChannelKind.PUBLIC)


class SteppedClock:
    """Time moves only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_700_000_000 + self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class PagedSlack:
    """`replies` alone: pages of `size`, with `script` deciding what comes instead of the nth call."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], *, size: int = 1_000, script: Mapping[int, SlackError | float] | None = None):
        self.messages, self.size, self.script, self.calls = messages, size, dict(script or {}), 0

    async def replies(self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000) -> Page:
        self.calls += 1
        match self.script.get(self.calls):
            case SlackError() as error:
                raise error
            case float() as seconds:
                await asyncio.sleep(seconds)
        at = int(cursor or 0)
        end = at + min(limit, self.size)
        return Page(self.messages[at:end], str(end) if end < len(self.messages) else "")


def ts(number: int) -> str:
    return f"{1000 + number}.{number:06d}"


def thread(size: int, **root: Any) -> list[dict[str, Any]]:
    return [{"ts": ts(n), "user": "U1", "text": f"message {n}", **(root if n == 0 else {"thread_ts": ROOT})} for n in range(size)]


def limited(seconds: float, code: str = "ratelimited") -> SlackError:
    return SlackError("conversations.replies", code, retry_after=seconds)


def failed(code: str) -> SlackError:
    return SlackError("conversations.replies", code)


async def name_of(user: str) -> str:
    return {"U1": "Ann", "U2": "Bob", "U0BOT": "Insomnia"}.get(user, user)


async def read(slack: PagedSlack, *, before: str = "9999.000000", clock: SteppedClock | None = None, seconds: float = 20) -> ThreadHistory:
    return await fetch_thread_history(
        slack,  # type: ignore[arg-type]
        "C1",
        ROOT,
        bot_user_id="U0BOT",
        user_resolver=name_of,
        before=before,
        me=ME,
        verified=lambda user: user != "U9",
        clock=clock or SteppedClock(),
        seconds=seconds,
    )


def texts(history: ThreadHistory) -> list[str]:
    return [said.text for said in history.messages]


async def test_a_thread_is_read_to_its_end_with_names_and_trust() -> None:
    messages = [*thread(2), {"ts": ts(2), "user": "U9", "text": "ask <@U2>"}]
    history = await read(PagedSlack(messages, size=1))

    assert texts(history) == ["message 0", "message 1", "ask @Bob"]
    assert [said.speaker.verified for said in history.messages] == [True, True, False]
    assert (history.messages[0].speaker.name, history.read, history.pages) == ("Ann", 3, 3)
    assert (history.incomplete, history.why, history.root_missing, history.notes()) == (False, None, False, ())


async def test_c004_history_ends_strictly_before_the_message_being_answered() -> None:
    history = await read(PagedSlack(thread(6)), before=ts(3))

    assert texts(history) == ["message 0", "message 1", "message 2"]
    assert history.read == 3


async def test_the_bots_answers_belong_to_it_however_young_they_are() -> None:
    """An answer that was still under way when the next question was written is younger than that question."""
    answer = {"ts": ts(5), "thread_ts": ROOT, "user": "U0BOT", "bot_id": "B0BOT", "text": "my answer"}
    other_bot = {"ts": ts(6), "thread_ts": ROOT, "user": "U0CI", "bot_id": "B0CI", "text": "build 7 failed"}

    history = await read(PagedSlack([*thread(5), answer, other_bot]), before=ts(3))

    assert texts(history) == ["message 0", "message 1", "message 2", "my answer"]


@pytest.mark.parametrize("size", [250, 601, 2_502])
async def test_c005_root_and_newest_survive_a_long_thread_and_the_middle_is_counted(size: int) -> None:
    messages = thread(size)
    messages[0]["text"] = "ROOT-MARK " + "x" * 3_000
    messages[-1]["text"] = "LAST-MARK"
    history = await read(PagedSlack(messages, size=200))
    trimmed = history.trimmed()
    section = thread_block(
        trimmed.kept,
        nonce="0" * 8,
        channel=GENERAL,
        thread=Thread("T1", "C1", ROOT),
        tz=UTC,
        left_out=trimmed.omitted,
        gap_after=trimmed.gap_after,
        cap=trimmed.cap,
    )

    assert "ROOT-MARK" in section and "LAST-MARK" in section
    assert f"[{size - len(trimmed.kept)} messages left out here]" in section.split("\n")[3]
    assert len(section) <= MAX_HISTORY_CHARS
    assert len(history.messages) <= TAIL + 1
    assert history.read == size == len(history.messages) + history.omitted


async def test_the_tail_that_is_kept_covers_the_budget_even_with_the_shortest_lines() -> None:
    line = said_line(Said(ts=ts(1), speaker=Speaker(id="U", name="A", role=Role.OWN), text="x"), UTC)

    assert TAIL * (len(line) + 1) >= MAX_HISTORY_CHARS


async def test_c006_fifteen_a_page_and_one_call_a_minute_is_incomplete_and_says_by_how_much() -> None:
    slack = PagedSlack(thread(42, reply_count=41), size=15, script={2: limited(60)})
    history = await read(slack)

    assert (history.incomplete, history.why, history.retry_after, history.asked_to_wait) == (True, Reason.RATE_LIMITED, 60, 60)
    assert (history.read, history.pages, slack.calls) == (15, 1, 2)
    assert "15 of about 42 messages were read" in history.notes()[0]


@pytest.mark.parametrize(
    ("pages", "missing"),
    [
        ([[0, 1], [2, 3]], False),
        ([[0, 1], [0, 2], [0, 3]], False),
        ([[1, 2], [3]], True),
        ([[1, 0], [3, 2]], False),
    ],
)
async def test_c007_the_root_is_the_message_with_the_threads_ts(pages: list[list[int]], missing: bool) -> None:
    class Fixed(PagedSlack):
        async def replies(self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000) -> Page:
            at = int(cursor or 0)
            return Page([thread(4)[n] for n in pages[at]], str(at + 1) if at + 1 < len(pages) else "")

    history = await read(Fixed([]))

    assert texts(history) == [f"message {n}" for n in range(1 if missing else 0, 4)]
    assert history.root_missing is missing
    assert history.read == (3 if missing else 4)
    assert bool(history.notes()) is missing


async def test_a_gravestone_is_no_root() -> None:
    history = await read(
        PagedSlack([{"ts": ROOT, "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted."}, *thread(2)[1:]])
    )

    assert texts(history) == ["message 1"]
    assert history.root_missing


@pytest.mark.parametrize("code", ["ratelimited", "rate_limited"])
async def test_c010_every_retry_after_is_waited_for_and_all_pages_arrive(code: str) -> None:
    clock = SteppedClock()
    history = await read(PagedSlack(thread(5), size=2, script={2: limited(1, code), 3: limited(1, code)}), clock=clock)

    assert texts(history) == [f"message {n}" for n in range(5)]
    assert (clock.slept, history.asked_to_wait, history.retry_after, history.incomplete) == ([1, 1], 2, 0, False)


async def test_c010_beyond_the_bound_the_pages_read_are_used_and_called_incomplete() -> None:
    clock = SteppedClock()
    history = await read(PagedSlack(thread(5), size=2, script={2: limited(12), 3: limited(12)}), clock=clock)

    assert (texts(history), history.why, history.retry_after, history.asked_to_wait) == (
        ["message 0", "message 1"],
        Reason.RATE_LIMITED,
        12,
        24,
    )
    assert clock.slept == [12]


async def test_c013_own_answers_are_marked_as_such_in_order_and_in_their_last_version() -> None:
    own = {"user": "U0BOT", "bot_id": "B0BOT", "thread_ts": ROOT}
    messages = [
        *thread(1),
        *({**own, "ts": ts(n), "text": f"part {n}"} for n in (1, 2, 3)),
        {**own, "ts": ts(4), "text": "final", "edited": {"user": "U0BOT", "ts": "x"}},
        {**own, "ts": ts(5), "text": "half a sent", "streaming_state": "in_progress"},
    ]
    history = await read(PagedSlack(messages))

    assert [(said.text, said.speaker.role) for said in history.messages[1:]] == [
        *((f"part {n}", Role.OWN) for n in (1, 2, 3)),
        ("final", Role.OWN),
    ]


async def test_c036_a_page_with_broken_messages_stays_intact() -> None:
    broken: list[Any] = [
        {"ts": ts(1), "user": "U1", "text": None, "blocks": None},
        {"ts": ts(2), "user": "U1", "subtype": "file_share", "files": [{"name": "a.png", "mimetype": "image/png"}]},
        {"text": "no ts"},
        None,
    ]
    history = await read(PagedSlack([*thread(1), *broken, thread(4)[3]]))

    assert texts(history) == ["message 0", "", "[file: a.png, image/png]", "message 3"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("missing_scope", Reason.MISSING_SCOPE),
        ("not_in_channel", Reason.NOT_IN_CHANNEL),
        ("channel_not_found", Reason.NOT_IN_CHANNEL),
        ("thread_not_found", Reason.THREAD_GONE),
        ("invalid_auth", Reason.SLACK_ERROR),
    ],
)
async def test_nothing_read_is_an_error_with_its_reason(code: str, reason: Reason) -> None:
    slack = PagedSlack([], script={1: failed(code)})

    with pytest.raises(HistoryUnreadable) as caught:
        await read(slack)

    assert (caught.value.reason, slack.calls) == (reason, 1)
    assert reason in unread_note(reason)


async def test_a_wait_that_does_not_fit_is_an_error_that_says_how_long() -> None:
    with pytest.raises(HistoryUnreadable) as caught:
        await read(PagedSlack([], script={1: limited(5), 2: limited(30)}))

    assert (caught.value.reason, caught.value.retry_after, caught.value.asked_to_wait) == (Reason.RATE_LIMITED, 30, 35)


@pytest.mark.parametrize("code", ["internal_error", "fatal_error", "http_502", "timeout", "connection"])
async def test_a_passing_error_is_tried_again_twice_and_no_more(code: str) -> None:
    recovers = PagedSlack(thread(3), size=2, script={2: failed(code), 3: failed(code)})
    stays = PagedSlack(thread(3), size=2, script={n: failed(code) for n in range(2, 9)})

    assert (await read(recovers)).read == 3
    history = await read(stays)

    assert (history.read, history.incomplete, stays.calls) == (2, True, 4)
    assert history.why is (Reason.TIMEOUT if code == "timeout" else Reason.SLACK_ERROR)


async def test_a_call_that_hangs_ends_with_the_deadline() -> None:
    hanging = {n: 60.0 for n in range(1, 9)}

    with pytest.raises(HistoryUnreadable) as caught:
        await read(PagedSlack(thread(3), script=hanging), seconds=0.01)
    history = await read(PagedSlack(thread(3), size=2, script={2: 60.0}), seconds=0.01)

    assert caught.value.reason is Reason.TIMEOUT
    assert (history.read, history.why, history.messages[0].speaker.name) == (2, Reason.TIMEOUT, "Ann")


async def test_a_server_that_goes_in_circles_is_left() -> None:
    class Circle(PagedSlack):
        async def replies(self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000) -> Page:
            return Page(thread(2), "again")

    history = await read(Circle([]))

    assert (history.read, history.why) == (2, Reason.SLACK_ERROR)


async def test_a_name_that_cannot_be_had_is_the_id() -> None:
    async def nobody(user: str) -> str:
        raise failed("user_not_found")

    history = await fetch_thread_history(
        PagedSlack(thread(1)),  # type: ignore[arg-type]
        "C1",
        ROOT,
        bot_user_id="U0BOT",
        user_resolver=nobody,
        before="",
        me=ME,
        verified=lambda _: True,
        clock=SteppedClock(),
    )

    assert history.messages[0].speaker.name == "U1"


async def test_each_name_is_asked_for_once() -> None:
    asked: list[str] = []

    async def resolver(user: str) -> str:
        asked.append(user)
        return user

    await fetch_thread_history(
        PagedSlack([*thread(9), {"ts": ts(10), "user": "U2", "text": "<@U1> <@U3>"}]),  # type: ignore[arg-type]
        "C1",
        ROOT,
        bot_user_id="U0BOT",
        user_resolver=resolver,
        before="",
        me=ME,
        verified=lambda _: True,
        clock=SteppedClock(),
    )

    assert sorted(asked) == ["U1", "U2", "U3"]
