"""The driver with the real CLI on the embedded model: what it answers, and what reached the model."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot import claude_cli, claude_launch
from bot.ports import CallEnded, Compacted, Interrupted, SessionDied, StartFailed, TurnDeadline
from tests.bot.cli_sessions import KEY, SYSTEM_PROMPT, Bot, bot_on, runs, until

pytestmark = pytest.mark.cli
SECRET = "the secret of this machine"


@pytest.fixture
async def bot(tmp_path: Path) -> AsyncIterator[Bot]:
    async with bot_on(tmp_path / "state") as bot:
        yield bot


# -- turns -----------------------------------------------------------------------------------------------------------
async def test_one_process_answers_turn_after_turn_in_one_context(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.say("the first answer")
    first = await session.ask("the first question")
    bot.model.script.say("the second answer")
    second = await session.ask("the second question")

    assert [first.text, second.text, first.error, second.error] == ["the first answer", "the second answer", None, None]
    assert "the first question\nthe first answer\nthe second question" in bot.model.requests[-1].messages_text
    assert {request.session_id for request in bot.model.requests} == {session.id}
    assert {request.key for request in bot.model.requests} == {KEY}
    assert session.kinds() == ["CallStarted", "CallEnded"] * 2
    assert second.cost_usd > 0 and list(second.cost_by_model) == ["claude-opus-5-5"]
    assert session.process.alive and (session.strays, session.exits) == ([], [])


async def test_two_turns_at_once_are_a_mistake_of_ours(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.say("the only answer")

    async with asyncio.TaskGroup() as group:
        first = group.create_task(session.ask("one"))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already in flight"):
            await session.ask("two")

    assert first.result().text == "the only answer"


async def test_a_huge_prompt_and_a_huge_answer_pass_whole(bot: Bot) -> None:
    session, prompt, answer = await bot.start(), "本" * 100_000 + "?", "y" * 200_000
    bot.model.script.say(answer)

    told = await session.ask(prompt)

    assert len(prompt.encode()) > 300_000 and bot.model.requests[-1].newest_user_text == prompt
    assert told.text == answer


async def test_an_api_error_is_an_error_and_the_process_lives_on(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.error(403)

    refused = await session.ask("may I?")
    answered = await session.ask("and now?")

    assert (refused.error, refused.status, answered.error) == ("authentication_failed", 403, None)


# -- sessions --------------------------------------------------------------------------------------------------------
async def test_a_resumed_session_holds_its_context_and_takes_a_new_system_prompt(bot: Bot) -> None:
    first = await bot.start(system_prompt="You are Alpha.")
    await first.ask("remember the zebra")
    told_then = bot.sent
    await first.process.close()

    second = await bot.start(resume=first.id, system_prompt="You are Beta.")
    await second.ask("which animal?")

    assert "You are Alpha." in told_then
    assert "remember the zebra" in bot.model.requests[-1].messages_text
    assert "You are Beta." in bot.sent and "You are Alpha." not in bot.sent
    assert {request.session_id for request in bot.model.requests} == {first.id}


async def test_an_id_that_the_cli_does_not_know_is_a_dead_one(bot: Bot) -> None:
    with pytest.raises(StartFailed) as failed:
        await bot.start(resume=str(uuid.uuid4()))

    assert failed.value.dead_resume
    assert "No conversation found" in failed.value.why


async def test_an_id_that_was_used_before_cannot_be_begun_again(bot: Bot) -> None:
    first = await bot.start()
    await first.ask("hello")
    await first.process.close()

    with pytest.raises(StartFailed, match="already in use") as failed:
        await bot.start(begin=first.id)

    assert not failed.value.dead_resume


async def test_a_start_that_fails_leaves_the_session_to_the_next_one(bot: Bot) -> None:
    with pytest.raises(StartFailed):
        await bot.start(resume=str(uuid.uuid4()))
    with pytest.raises(StartFailed, match="could not be started"):
        await bot.start(cwd=str(bot.folder / "nowhere"))

    assert (await (await bot.start()).ask("hello")).error is None


async def test_old_transcripts_are_kept_although_the_cli_would_delete_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bots at once: one as ours, one with the CLI's own 30 days, which shows that the CLI had time to delete."""
    old = time.time() - 45 * 86_400
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    transcripts = [folder / "claude" / "projects" / "-home-bot" / f"{uuid.uuid4()}.jsonl" for folder in folders]
    for transcript in transcripts:
        transcript.parent.mkdir(parents=True)
        transcript.write_text("{}\n")
        os.utime(transcript, (old, old))

    async with bot_on(folders[0]) as ours, bot_on(folders[1]) as theirs:
        await (await ours.start()).ask("hello")
        monkeypatch.setattr(claude_launch, "KEEP_TRANSCRIPT_DAYS", 30)
        await (await theirs.start()).ask("hello")
        await until(lambda: not transcripts[1].exists())

    assert transcripts[0].exists()


# -- deadlines -------------------------------------------------------------------------------------------------------
async def test_a_model_that_only_pings_ends_at_the_deadline_and_the_next_answer_is_right(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.hang()

    with pytest.raises(TurnDeadline) as late:
        await session.ask("the first question", seconds=1.5)
    bot.model.script.say("the second answer")
    answer = await session.ask("the second question")

    assert (late.value.killed, answer.text, answer.error) == (False, "the second answer", None)


async def test_a_turn_that_is_cancelled_is_interrupted_and_the_next_answer_is_right(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.slow(20)

    async with asyncio.TaskGroup() as group:
        turn = group.create_task(session.ask("the first question"))
        await until(lambda: "CallStarted" in session.kinds() and bot.model.requests)
        turn.cancel()
    bot.model.script.say("the second answer")

    assert turn.cancelled()
    assert (await session.ask("the second question")).text == "the second answer"


async def test_what_a_cancelled_turn_cost_until_then_is_told(bot: Bot) -> None:
    session = await bot.start()
    bot.model.script.tool("no_such_tool", {})
    bot.model.script.slow(20)

    async with asyncio.TaskGroup() as group:
        turn = group.create_task(session.ask("the first question"))
        await until(lambda: len(bot.model.requests) == 2)
        turn.cancel()
    told = session.events[-1]
    bot.model.script.say("the second answer")
    answer = await session.ask("the second question")

    assert isinstance(told, Interrupted) and told.cost_by_model["claude-opus-5-5"] > 0
    assert 0 < answer.cost_usd < 2 * told.cost_by_model["claude-opus-5-5"], "it is counted once"


# -- what a person writes is text ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "prompt",
    ["/clear", "/compact keep nothing", "!ls /", "@/etc/passwd", "see @notes.txt and @~/notes.txt", "<thread>\n@{folder}/notes.txt"],
)
async def test_what_a_person_writes_is_plain_text(bot: Bot, prompt: str) -> None:
    session = await bot.start()
    for folder in (bot.folder, bot.folder / "run" / "cwd"):  # the home directory and the working directory of the child
        (folder / "notes.txt").write_text(SECRET)
    prompt = prompt.replace("{folder}", str(bot.folder))
    await session.ask("remember the zebra")

    answer = await session.ask(prompt)

    assert answer.error is None and bot.model.requests[-1].newest_user_text == prompt
    assert "remember the zebra" in bot.model.requests[-1].messages_text
    assert SECRET not in bot.sent and "root:x:" not in bot.sent
    assert session.kinds() == ["CallStarted", "CallEnded"] * 2


async def test_without_the_flag_the_cli_would_run_what_a_person_writes(bot: Bot) -> None:
    """The control of the test above; should the CLI change, one of the two says so."""
    session = await bot.start()
    await session.ask("remember the zebra")

    await session.process._ask("/clear", command=True, on_event=session.events.append, seconds=30)

    assert session.kinds()[-1] == "Cleared"


async def test_no_tool_is_offered_to_the_model(bot: Bot) -> None:
    await (await bot.start()).ask("hello")

    assert bot.model.requests[-1].body.get("tools", []) == []


async def test_a_route_with_tools_is_offered_those_and_no_others(bot: Bot) -> None:
    await (await bot.start(tools=("Read",))).ask("hello")

    names = {tool["name"] for tool in bot.model.requests[-1].body["tools"]}
    assert "Read" in names and names <= {"Read", "DeferredToolPlaceholder"}  # the CLI's own, which does nothing


# -- compaction ------------------------------------------------------------------------------------------------------
async def test_our_own_compaction_runs_and_has_one_boundary(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("remember the zebra")
    await session.ask("and the lion")
    session.events.clear()

    answer = await session.compact()

    (boundary,) = (event for event in session.events if isinstance(event, Compacted))
    assert (answer.error, boundary.trigger, session.kinds()) == (None, "manual", ["Compacting", "Compacted"])
    assert answer.cost_usd > 0


async def test_a_compaction_inside_a_turn_is_told_before_the_answer(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("remember the zebra")
    bot.model.script.usage(90_000)
    await session.ask("and the lion")
    session.events.clear()

    answer = await session.ask("which animal?")

    assert answer.error is None
    assert session.kinds() == ["CallStarted", "Compacting", "Compacted", "CallStarted", "CallEnded"]
    assert isinstance(session.events[-1], CallEnded) and session.events[-1].usage.occupancy < 10_000


async def test_a_boundary_between_turns_is_told_as_a_stray(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("remember the zebra")
    message = {"role": "user", "content": "/compact"}

    await session.process._write({"type": "user", "message": message, "parent_tool_use_id": None})
    await until(lambda: any(isinstance(event, Compacted) for event in session.strays))
    answer = await session.ask("and now?")

    assert answer.error is None


# -- the process -----------------------------------------------------------------------------------------------------
async def test_no_secret_and_no_word_stands_in_the_arguments_and_the_credential_alone_in_the_environment(bot: Bot) -> None:
    session = await bot.start()
    await session.ask("remember the zebra")
    process = Path(f"/proc/{session.process.pid}")
    argv, environ = (process / "cmdline").read_text(), (process / "environ").read_text()

    assert not [word for word in (KEY, SYSTEM_PROMPT, "zebra", "xoxb-secret") if word in argv]
    assert f"ANTHROPIC_API_KEY={KEY}" in environ.split("\0")
    assert not [word for word in ("SLACK", "xoxb-secret", "gh-secret", "zebra") if word in environ]


async def test_the_system_prompt_lies_where_only_the_bots_user_reads(bot: Bot) -> None:
    await bot.start()
    home = bot.folder / "sessions" / "main"

    assert (home / "system-prompt.txt").read_text() == SYSTEM_PROMPT
    assert home.stat().st_mode & 0o077 == 0


async def test_closing_leaves_no_process_and_may_be_repeated(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_cli, "CLOSE_SECONDS", 1)
    idle, busy = await bot.start(key="idle"), await bot.start(key="busy")
    bot.model.script.hang()

    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.TaskGroup() as group:
            group.create_task(busy.ask("hello"))
            await until(lambda: bot.model.requests)
            for session in (idle, busy, idle):
                await session.process.close()

    assert ended.group_contains(SessionDied)
    assert not [s for s in (idle, busy) if runs(s.process.pid) or s.process.alive or s.exits]
