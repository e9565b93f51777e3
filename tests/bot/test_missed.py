"""What others said where the bot could not hear it: it is not heard in time, but never for good."""

from __future__ import annotations

import asyncio

import pytest

from tests.bot.bench import MENTION, Bench, question, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import GENERAL, compacted, settled


@pytest.mark.parametrize("opens", [False, True], ids=["in_a_thread", "opens_a_thread"])
@pytest.mark.parametrize("begun", [False, True], ids=["waiting", "being_answered"])
async def test_what_was_said_while_no_bot_ran_is_read_after_the_message_that_waited_is_answered(
    make_bench: Make, opens: bool, begun: bool
) -> None:
    first = make_bench()
    root = "" if opens else first.old_thread("The code is walnut.", "ok")
    if begun:
        first.claude.turn(asyncio.Event())
    ts = first.mention("What is it?", thread=root)
    if begun:
        await settled()
    await first.app.drain(0)
    first.slack.put(GENERAL, "It changed to hazel.", user="U2", thread_ts=root or ts)
    second = make_bench(before=first)

    second.app.recover()
    await second.ended()
    again = await second.ask("And now?", thread=root or ts)

    assert again.gate == ("refetched", "delivery_gap", "catch_up")
    assert "It changed to hazel." in quoted(again.prompt)
    assert (await second.ask("Sure?", thread=root or ts)).gate == ("known", "held", None)


@pytest.mark.parametrize("opens", [False, True], ids=["in_a_thread", "opens_a_thread"])
async def test_a_reply_that_overtook_the_mention_above_it_is_read_with_the_next_one(bench: Bench, opens: bool) -> None:
    root = "" if opens else bench.old_thread("The code is walnut.", "ok")
    mention = bench.slack.put(GENERAL, f"{MENTION}What is it?", thread_ts=root)
    thread = root or mention["ts"]
    bench.deliver(GENERAL, bench.slack.put(GENERAL, "It changed to hazel.", user="U2", thread_ts=thread))
    bench.deliver(GENERAL, mention)
    await bench.ended()

    again = await bench.ask("And now?", thread=thread)

    assert again.gate == ("refetched", "delivery_gap", "catch_up")
    assert "It changed to hazel." in quoted(again.prompt)


async def test_a_message_that_is_deleted_while_it_waits_is_not_asked(bench: Bench) -> None:
    goes = asyncio.Event()
    bench.claude.turn(goes)
    bench.mention("first")
    await settled()
    second = bench.mention("oops, my password is x")
    await settled()

    bench.delete(GENERAL, second)
    goes.set()
    await bench.ended()

    assert [question(prompt) for prompt in bench.claude.prompts] == ["first"]
    assert bench.slack.count("post") == 1
    assert bench.db.execute("SELECT count(*) FROM messages WHERE body LIKE '%password%'").fetchone()[0] == 0


async def test_a_context_that_is_lost_while_the_gate_looks_up_a_name_is_read_in_again(bench: Bench) -> None:
    root = bench.old_thread("The code is walnut.")
    await bench.ask("What is the code?", thread=root)
    bench.write("Bob says so too.", thread=root, user="U2")
    resolve = bench.slack.user_name

    async def slowly(user: str) -> str:
        if user == "U2":
            bench.slack.user_name = resolve  # type: ignore[method-assign]
            bench.claude.process.stray(compacted())
        return await resolve(user)

    bench.slack.user_name = slowly  # type: ignore[method-assign]

    again = await bench.ask("Sure?", thread=root)

    assert again.gate == ("refetched", "after_compaction", "full")
    assert quoted(again.prompt)[0] == "The code is walnut." and "Bob says so too." in quoted(again.prompt)


async def test_a_session_that_dies_each_time_its_thread_is_read_is_told_and_does_not_go_on_for_ever(bench: Bench) -> None:
    root = bench.old_thread("The code is walnut.")
    bench.slack.fail("replies", *[lambda: bench.claude.process.die()] * 50)

    lost = await bench.ask("What is the code?", thread=root)

    assert lost.outcome == "failed" and "my session ended" in lost.text
    assert len(bench.claude.launches) == 4
    bench.slack.faults.clear()
    assert (await bench.ask("What is the code?", thread=root)).outcome == "answered"
