"""Ends that nobody planned: the CLI is killed, or the bot is and the CLI goes on without it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot import session_lock
from bot.ports import SessionDied
from tests.bot.cli_sessions import Bot, bot_on, runs, until

pytestmark = [pytest.mark.cli, pytest.mark.kill]
ROOT = Path(__file__).parents[2]
OWNER = Path(__file__).parent / "cli_owner.py"


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with bot_on(tmp_path / "state") as bot:
        yield bot


async def test_a_cli_that_is_killed_in_a_turn_ends_it_and_what_it_held_can_be_resumed(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("remember the zebra")
    bot.model.script.hang()

    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.ask("which animal?"))
            await until(lambda: len(bot.model.requests) == 2)
            os.kill(session.process.pid, signal.SIGKILL)

    assert ended.group_contains(SessionDied, match="exit -9")
    assert (session.process.alive, session.exits) == (False, [-9])
    resumed = await bot.start(resume=session.id)
    assert (await resumed.ask("and now?")).error is None
    assert "remember the zebra" in bot.model.requests[-1].messages_text


async def test_a_cli_that_is_killed_between_turns_is_told_once(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("hello")

    os.kill(session.process.pid, signal.SIGKILL)
    await until(lambda: session.exits)

    assert (session.exits, session.process.alive) == ([-9], False)
    with pytest.raises(SessionDied):
        await session.ask("anybody?")
    await session.process.close()
    assert session.exits == [-9]


@asynccontextmanager
async def killed_owner(bot: Bot, session_id: str) -> AsyncIterator[int]:
    """Another bot on the same folder, killed in the middle of its first turn; gives the process id of its CLI."""
    command = [sys.executable, str(OWNER), str(bot.folder), bot.model.url, session_id, "remember the zebra"]
    env = {**bot.own_variables, "PYTHONPATH": str(ROOT)}
    owner = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE)
    try:
        assert owner.stdout is not None
        async with asyncio.timeout(30):
            orphan = int(await owner.stdout.readline())
        await until(lambda: bot.model.requests)
    finally:
        owner.kill()
        await owner.wait()
    try:
        assert runs(orphan)
        yield orphan
    finally:
        if runs(orphan):
            os.killpg(orphan, signal.SIGKILL)


async def test_a_new_bot_waits_for_the_turn_that_a_killed_one_left_and_then_holds_it(bot: Bot) -> None:
    id = str(uuid.uuid4())
    bot.model.script.slow(1.5)

    async with killed_owner(bot, id) as orphan:
        session = await bot.start(resume=id)
        assert not runs(orphan)
        await session.ask("which animal?")

    assert "remember the zebra" in bot.model.requests[-1].messages_text
    assert "I can only quote" in bot.model.requests[-1].messages_text  # what the orphan answered to nobody


async def test_an_orphan_that_does_not_end_is_killed_when_patience_ends(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_lock, "PATIENCE_SECONDS", 0.6)
    id = str(uuid.uuid4())
    bot.model.script.hang()

    async with killed_owner(bot, id) as orphan:
        session = await bot.start(resume=id)
        assert not runs(orphan)

    assert (await session.ask("anybody?")).error is None


async def test_a_cli_that_has_no_bot_any_more_ends_by_itself(bot: Bot) -> None:
    bot.model.script.slow(0.5)

    async with killed_owner(bot, str(uuid.uuid4())) as orphan:
        await until(lambda: not runs(orphan))


async def test_two_bots_do_not_share_a_session(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start takes the session over: the first owner is ended, and its bot sees it end."""
    monkeypatch.setattr(session_lock, "PATIENCE_SECONDS", 0.3)
    first = await bot.start()
    await first.ask("remember the zebra")

    second = await bot.start(resume=first.id)

    await until(lambda: first.exits == [-9])
    assert (await second.ask("which animal?")).error is None
