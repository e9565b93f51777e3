"""The driver with a program in the CLI's place that misbehaves (odd_cli.py): nothing hangs, nothing is left over."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot import claude_cli
from bot.claude_launch import Cli
from bot.ports import Compacted, SessionDied, StartFailed, StreamEvent, TurnDeadline
from tests.bot.cli_sessions import Bot, Session, bot_on, runs, until

pytestmark = pytest.mark.kill


@pytest.fixture
async def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    program = tmp_path / "odd-claude"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).parent / "odd_cli.py"}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(claude_cli, "CLOSE_SECONDS", 0.3)
    monkeypatch.setattr(claude_cli, "INTERRUPT_SECONDS", 0.3)
    async with bot_on(tmp_path / "state", cli=Cli(program, "9.9.9", "configuration")) as bot:
        yield bot


async def start(bot: Bot, behaviour: str) -> Session:
    return await bot.start(system_prompt=behaviour)


async def test_an_answer_is_found_by_its_uuid_never_by_its_place(bot: Bot) -> None:
    session = await start(bot, "foreign_results")

    assert [(await session.ask("hello")).text for _ in range(2)] == ["mine", "mine"]


async def test_lines_that_nobody_understands_are_passed_over(bot: Bot) -> None:
    assert (await (await start(bot, "odd_lines")).ask("hello")).text == "after all"


async def test_after_a_line_that_is_no_json_the_process_is_not_trusted_any_more(bot: Bot, capsys: pytest.CaptureFixture[str]) -> None:
    session = await start(bot, "broken_json")

    with pytest.raises(SessionDied) as died:
        await session.ask("hello")

    assert isinstance(died.value.__cause__, ValueError) and session.exits == [-9]
    assert "JSONDecodeError while reading the CLI's lines" in capsys.readouterr().err


async def test_a_line_beyond_the_limit_ends_the_process_and_not_the_bot(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_cli, "LINE_LIMIT", 100_000)
    session = await start(bot, "too_long_a_line")

    with pytest.raises(SessionDied):
        await session.ask("hello")


async def test_a_listener_that_fails_ends_its_turn_at_once_and_is_named(bot: Bot) -> None:
    session = await start(bot, "compacts")

    def listen(event: StreamEvent) -> None:
        raise KeyError("a mistake of ours")

    with pytest.raises(SessionDied) as died:
        await session.process.send("hello", on_event=listen, seconds=30)

    assert isinstance(died.value.__cause__, KeyError)


async def test_events_are_told_in_the_context_of_the_turn_that_asked(bot: Bot) -> None:
    session, asking, heard = await start(bot, "compacts"), contextvars.ContextVar[str]("asking"), list[Any]()

    for question in ("one", "two"):
        asking.set(question)
        await session.process.send(question, on_event=lambda e: heard.append((asking.get(), type(e))), seconds=30)

    assert heard == [("one", Compacted), ("two", Compacted)]


async def test_what_the_cli_asks_for_is_denied_and_it_goes_on(bot: Bot) -> None:
    assert (await (await start(bot, "asks_for_a_tool")).ask("hello")).text == "deny t1"


async def test_a_process_that_does_not_listen_to_an_interrupt_is_killed(bot: Bot) -> None:
    session = await start(bot, "deaf")

    with pytest.raises(TurnDeadline) as late:
        await session.ask("hello", seconds=0.3)

    assert (late.value.killed, late.value.seconds) == (True, 0.3)
    await until(lambda: session.exits == [-9])
    assert not runs(session.process.pid)


async def test_a_process_that_reads_nothing_is_met_by_the_deadline_too(bot: Bot) -> None:
    session = await start(bot, "does_not_read")

    with pytest.raises(TurnDeadline) as late:
        await session.ask("x" * 2_000_000, seconds=0.3)

    assert late.value.killed


async def test_closing_ends_what_heeds_neither_its_input_nor_a_signal(bot: Bot) -> None:
    session = await start(bot, "deaf")

    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.ask("hello"))
            await until(lambda: session.events)
            await session.process.close()

    assert ended.group_contains(SessionDied)
    assert not runs(session.process.pid) and session.exits == []


async def test_closing_ends_what_the_process_has_started(bot: Bot) -> None:
    session = await start(bot, "leaves_a_child")
    child = int((await session.ask("hello")).text)
    assert runs(child)

    await session.process.close()

    await until(lambda: not runs(child))


async def test_a_start_without_an_answer_fails_and_leaves_nothing(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_cli, "START_SECONDS", 0.5)

    with pytest.raises(StartFailed, match="did not answer"):
        await start(bot, "mute")

    assert not runs(owner_of(bot))


async def test_a_start_that_is_cancelled_leaves_nothing(bot: Bot) -> None:
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(start(bot, "mute"))
        await until(lambda: (bot.folder / "sessions" / "main" / "lock").exists() and owner_of(bot))
        starting.cancel()

    assert starting.cancelled() and not runs(owner_of(bot))


@pytest.mark.parametrize(("behaviour", "why"), [("dies", r"exit 3\): Error: no such thing$"), ("refuses", "refused to begin")])
async def test_a_start_that_fails_says_why_in_one_line(bot: Bot, behaviour: str, why: str) -> None:
    with pytest.raises(StartFailed, match=why) as failed:
        await start(bot, behaviour)

    assert not failed.value.dead_resume
    assert not runs(owner_of(bot))


def owner_of(bot: Bot) -> int:
    return int((bot.folder / "sessions" / "main" / "lock").read_text() or 0)
