"""What people see and do in Slack beside asking: stopping, 👀, the status, refusals, budgets, the footer. The whole bot, the real CLI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.story import Answer, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]
LONG_SECONDS = 30.0


def status(told: Story, ts: str) -> str:
    return told.slack.workspace.status(told.slack.workspace.conversation("general").id, ts)


def reactions(told: Story, ts: str) -> list[str]:
    (message,) = [m for m in told.slack.thread("general", ts) if m["ts"] == ts]
    return [r["name"] for r in message.get("reactions", [])]


def whispers(told: Story) -> list[tuple[str, str]]:
    return [(e["user"], e["text"]) for e in told.slack.workspace.ephemerals]


async def long_answer(told: Story, text: str = "Count to a million.") -> str:
    """A question of which the answer takes half a minute; returns once the model is asked."""
    told.model.script.slow(LONG_SECONDS, match=text)
    before = told.last_request()
    said = told.slack.say("general", "tom", text, mention=True)
    await told.until(lambda: bool(told.prompts(before)))
    return str(said["ts"])


async def stopped(told: Story, stop: Callable[[Story, str], object]) -> Answer:
    async with asyncio.timeout(LONG_SECONDS / 2):
        ts = await long_answer(told)
        await told.until(lambda: any(at == ts for _, at in told.slack.workspace.session_statuses))
        stop(told, ts)
        return await told.answer_to("general", ts)


def by_word(told: Story, ts: str) -> None:
    told.slack.say("general", "lena", "止めて", thread_ts=ts, mention=True)


def by_cross(told: Story, ts: str) -> None:
    told.slack.workspace.react("general", ts, "lena", "x")


def by_button(told: Story, ts: str) -> None:
    channel = told.slack.workspace.conversation("general").id
    assert told.slack.workspace.session_statuses[channel, ts] == "processing", "else Slack shows no button"
    told.slack.workspace.press_stop("general", ts, "lena")


@pytest.mark.parametrize("stop", [by_word, by_cross, by_button])
async def test_an_answer_is_stopped_within_seconds_and_its_session_keeps_its_context(
    tmp_path: Path, stop: Callable[[Story, str], object]
) -> None:
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        await told.ask(place, "What is the vault code?")
        children = told.bot.children()

        answer = await stopped(told, stop)
        again = await told.ask(place, "And once more: what is the vault code?")

        assert (answer.text, answer.outcome) == ("Stopped.", "cancelled")
        assert again.decided == ("known", "held", None) and "walnut-4711" in again.text
        assert told.bot.children() == children and told.errors == ""
        await told.until(lambda: {outcome for outcome, _ in told.ended()} >= {"answered", "cancelled"})
        channel = told.slack.workspace.conversation("general").id
        assert told.slack.workspace.session_statuses[channel, answer.thread_ts or ""] == "active"


async def test_the_next_question_in_that_thread_gets_its_own_answer(tmp_path: Path) -> None:
    """Not the one that was stopped, and not one behind."""
    async with story(tmp_path) as told:
        await told.start()
        answer = await stopped(told, by_word)
        told.model.script.say("forty-two", match="What is six times seven?")

        said = told.slack.say("general", "tom", "What is six times seven?", thread_ts=answer.thread_ts, mention=True)

        assert (await told.answer_to("general", said["ts"])).text == "forty-two"


async def test_eyes_stand_on_what_waits_until_it_is_answered(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        told.model.script.slow(6.0, match="the slow one")
        first = told.slack.say("general", "tom", "the slow one", mention=True)["ts"]
        second = told.slack.say("general", "lena", "the one that waits", mention=True)["ts"]

        await told.until(lambda: reactions(told, second) == ["eyes"])
        await told.answer_to("general", second)
        await told.until(lambda: reactions(told, second) == [])

        assert reactions(told, first) == []


async def test_without_the_scope_it_is_tried_once_and_nobody_misses_it(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        told.slack.faults.add("reactions.add", "missing_scope", times=None)
        told.slack.faults.add("agents.sessions.setStatus", "missing_scope", times=None)
        await told.start()
        for n in range(2):
            told.model.script.slow(4.0, match=f"slow {n}")
            told.slack.say("general", "tom", f"slow {n}", mention=True)
            said = told.slack.say("general", "lena", f"and {n}", mention=True)
            await told.answer_to("general", said["ts"])

        assert [c.method for c in told.slack.calls if c.method in ("reactions.add", "agents.sessions.setStatus")] == [
            "agents.sessions.setStatus",
            "reactions.add",
        ]
        assert told.errors == ""


async def test_whatever_ends_an_answer_the_status_is_gone(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        ts = await long_answer(told)
        await told.until(lambda: status(told, ts) != "")
        by_word(told, ts)
        await told.answer_to("general", ts)
        await told.until(lambda: status(told, ts) == "")

        ts = await long_answer(told, "The next one dies.")
        await told.kill_session()
        told.model.script.clear()
        await told.answer_to("general", ts)
        await told.until(lambda: status(told, ts) == "")

        told.model.script.error(400, match="The next one fails.", times=10)
        ts = told.slack.say("general", "tom", "The next one fails.", mention=True)["ts"]
        assert (await told.answer_to("general", ts)).outcome == "failed"
        await told.until(lambda: status(told, ts) == "")

        ts = await long_answer(told, "The bot ends over this one.")
        await told.until(lambda: status(told, ts) != "")
        await told.stop()
        assert status(told, ts) == ""
        told.model.script.clear()
        await told.start()
        await told.answer_to("general", ts)
        await told.until(lambda: status(told, ts) == "")


async def test_who_is_not_on_the_list_is_told_alone_and_once(tmp_path: Path) -> None:
    config = '[slack]\nusers = ["U0TOM"]\n'
    async with story(tmp_path, config=config) as told:
        await told.start()
        for text in ("こんにちは", "もしもし"):
            told.slack.say("general", "lena", text, mention=True)
        await told.until(lambda: bool(whispers(told)))
        answered = await told.answer_to("general", told.slack.say("general", "tom", "Hello", mention=True)["ts"])

        (told_to,) = whispers(told)
        assert told_to[0] == "U0LENA" and "許可された利用者の一覧に含まれていない" in told_to[1]
        assert answered.outcome == "answered" and len(told.prompts()) == 1


async def test_a_budget_that_is_spent_is_said_in_words_also_after_a_restart(tmp_path: Path) -> None:
    config = "[claude]\nbudget_usd_day = 0.000001\n"
    async with story(tmp_path, config=config) as told:
        await told.start()
        first = await told.answer_to("general", told.slack.say("general", "tom", "Hello", mention=True)["ts"])
        assert first.outcome == "answered" and told.counted("insomnia.cost", "route") is not None
        second = await told.answer_to("general", told.slack.say("general", "tom", "Hello", mention=True)["ts"])
        await told.stop()
        await told.start()
        third = await told.answer_to("general", told.slack.say("general", "tom", "予算は？", mention=True)["ts"])

        assert "today's budget (0.00 USD) is spent" in second.text and "本日の予算" in third.text
        assert (second.outcome, third.outcome) == ("failed", "failed")
        assert (told.workspace / ".insomnia" / "spent.json").is_file()


async def test_the_footer_says_what_was_read_again(tmp_path: Path) -> None:
    async with story(tmp_path, config="[slack]\nfooter = true\n") as told:
        place = told.old_thread("The vault code is walnut-4711.", "And the alarm is off.")
        await told.start()

        read, held = await told.ask(place, "What is the vault code?"), await told.ask(place, "Sure?")

        assert read.text.splitlines()[-1] == f"_thread re-read: 2 · trace {read.trace_id[:8]}_"
        assert held.text.splitlines()[-1] == f"_nothing re-read · trace {held.trace_id[:8]}_"
