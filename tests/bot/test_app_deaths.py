"""A message over which the bot dies again and again is given up with a sentence, and no other message with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.messages import MOST_DEATHS
from bot.outbox import Outbox
from bot.reply_parts import Reply
from telemetry.events import FailReason, Outcome, ReplyEnded
from telemetry.names import Attr
from tests.bot.bench import Bench, question
from tests.bot.fakes import CODE, GENERAL, settled
from tests.bot.mortal import Mortal, Steps, bury


class Lives:
    """One bot after the other in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        steps = self.steps = Steps()
        self.bench = Bench(folder, mortal=lambda port: Mortal(port, steps))

    async def die(self) -> None:
        await settled()
        self.steps.dead = True
        await bury(self.bench)

    async def again(self) -> None:
        """A new bot takes up what the last one left, as far as it gets without time passing."""
        steps = self.steps = Steps()
        self.bench = Bench(self.folder, before=self.bench, mortal=lambda port: Mortal(port, steps))
        self.bench.app.recover()
        await settled()

    async def drain(self) -> None:
        await self.bench.app.drain(0)
        await self.bench.close()


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    lives = Lives(tmp_path)
    yield lives
    lives.bench.db.close()


async def test_what_keeps_killing_the_bot_is_given_up_and_whoever_asked_is_told(lives: Lives, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(MOST_DEATHS):
        lives.bench.claude.turn(asyncio.Event())
    ts = lives.bench.mention("A question that kills")
    for _ in range(MOST_DEATHS - 1):
        await lives.die()
        await lives.again()
    await lives.die()
    asked = len(lives.bench.claude.prompts)

    await lives.again()
    await lives.bench.ended()

    given_up = lives.bench.asked(ts)
    assert asked == MOST_DEATHS == len(lives.bench.claude.prompts)
    assert len(given_up.posts) == 1 and given_up.outcome == "failed"
    assert given_up.text.startswith("Sorry, I broke down 3 times while I was answering this, so I have given it up.")
    (end,) = lives.bench.emit.of(ReplyEnded)
    assert (end.outcome, end.reason) == ("failed", "bot_died")
    (root,) = lives.bench.replies
    assert root.attributes[Attr.REPLY_ATTEMPT] == MOST_DEATHS + 1 and root.attributes[Attr.REPLY_REASON] == "bot_died"
    assert f"{ts} is given up: the bot died 3 times over it" in capsys.readouterr().err
    assert (await lives.bench.ask("Another one")).outcome == "answered"


async def test_each_attempt_is_linked_to_the_one_before_it(lives: Lives) -> None:
    for _ in range(2):
        lives.bench.claude.turn(asyncio.Event())
    lives.bench.mention("One")
    await settled()
    traces = [lives.bench.replies[0].ref]
    for _ in range(2):
        await lives.die()
        await lives.again()
        traces.append(lives.bench.replies[0].ref)
        assert lives.bench.replies[0].links == [traces[-2]]

    assert lives.bench.replies[0].attributes[Attr.REPLY_ATTEMPT] == 3
    await lives.bench.ended()


async def test_what_was_being_answered_beside_it_is_not_given_up_with_it(lives: Lives) -> None:
    for _ in range(2 * MOST_DEATHS):
        lives.bench.claude.turn(asyncio.Event())
    guilty = lives.bench.mention("A question that kills")
    innocent = lives.bench.mention("A slow one", channel=CODE)
    for life in range(MOST_DEATHS):
        await lives.die()
        if life == MOST_DEATHS - 1:
            lives.bench.claude.no_more_turns()
        await lives.again()

    await lives.bench.ended()

    assert [question(p) for p in lives.bench.claude.prompts[-2:]] == ["A question that kills", "A slow one"]
    assert lives.bench.asked(guilty).outcome == "failed"
    assert lives.bench.asked(innocent, channel=CODE).outcome == "answered"


async def test_to_be_restarted_is_no_death(lives: Lives) -> None:
    for _ in range(MOST_DEATHS + 2):
        lives.bench.claude.turn(asyncio.Event())
    ts = lives.bench.mention("A very slow one")
    await settled()
    for _ in range(MOST_DEATHS + 2):
        await lives.drain()
        await lives.again()

    await lives.bench.ended()

    assert lives.bench.asked(ts).outcome == "answered"
    assert lives.bench.replies[0].attributes[Attr.REPLY_ATTEMPT] == MOST_DEATHS + 3
    assert sum("being restarted" in call.text for call in lives.bench.slack.of("post")) == 1, "said once"


async def test_that_it_is_restarted_is_not_said_outside_of_the_thread(lives: Lives) -> None:
    lives.bench.claude.turn(asyncio.Event())
    ts = lives.bench.mention("A very slow one")
    await settled()
    lives.bench.slack.erase(GENERAL, ts)

    await lives.drain()

    assert lives.bench.slack.messages == {}
    await lives.again()


async def test_an_answer_that_was_being_posted_is_posted_by_the_next_bot_and_not_made_anew(lives: Lives) -> None:
    lives.bench.slack.fail("post", asyncio.Event())
    ts = lives.bench.mention("One")
    await settled()
    await lives.drain()
    await lives.again()

    await lives.bench.ended()

    assert lives.bench.asked(ts).text == "answer 1" and len(lives.bench.claude.prompts) == 1
    assert lives.bench.replies[0].attributes[Attr.REPLY_OUTCOME] == "answered"


async def test_where_even_to_say_so_kills_the_bot_nothing_is_said(lives: Lives, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(MOST_DEATHS):
        lives.bench.claude.turn(asyncio.Event())
    for _ in range(MOST_DEATHS):
        lives.bench.slack.fail("post", asyncio.Event())
    ts = lives.bench.mention("A question that kills")
    for _ in range(2 * MOST_DEATHS):
        await lives.die()
        await lives.again()

    await lives.bench.ended()

    assert lives.bench.asked(ts).posts == ()
    assert [(f.outcome, f.reason) for f in lives.bench.emit.of(ReplyEnded)] == [("failed", "bot_died")]
    assert "the bot died 6 times over it" in capsys.readouterr().err


async def test_who_was_stopped_while_waiting_is_told_so_once_also_by_the_next_bot(lives: Lives) -> None:
    root = lives.bench.old_thread("Which one?")
    lives.bench.claude.turn(asyncio.Event())
    lives.bench.mention("One that takes long")
    waits = lives.bench.mention("And this", thread=root)
    await settled()
    lives.bench.slack.fail("post", asyncio.Event())
    lives.bench.mention("stop", thread=root)
    await lives.die()

    await lives.again()
    await lives.bench.ended()

    asked = lives.bench.asked(waits)
    assert asked.outcome == "cancelled" and len(asked.posts) == 1
    assert not any("And this" in prompt for prompt in lives.bench.claude.prompts)
    ended = next(fact for fact in lives.bench.emit.of(ReplyEnded) if fact.message_ts == waits)
    assert ended.reason is FailReason.STOPPED


async def test_what_an_earlier_bot_began_to_post_is_not_stopped(lives: Lives) -> None:
    """It waits behind another one, and half of it may stand there."""
    root = lives.bench.old_thread("Which one?")
    for _ in range(2):
        lives.bench.claude.turn(asyncio.Event())
    lives.bench.mention("One that takes long")
    await lives.die()
    await lives.again()
    waits = lives.bench.mention("And this", thread=root)
    await settled()
    row = lives.bench.db.execute("SELECT id FROM messages WHERE ts=?", (waits,)).fetchone()[0]
    Outbox(lives.bench.db).keep(row, Reply(text="made before", outcome=Outcome.ANSWERED, trace_id="7" * 32))
    lives.bench.mention("stop", thread=root)
    await settled()
    await lives.die()

    await lives.again()
    await lives.bench.ended()

    assert lives.bench.asked(waits).text == "made before"
