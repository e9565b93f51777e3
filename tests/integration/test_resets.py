"""Each way to lose a context: before it a known thread costs nothing, after it the thread's text is in the request again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from telemetry.events import Decision, Injection, Reason, ResetCause, ResetHow
from tests.integration.story import COMPACTING, MODEL_KEY, Place, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]

VAULT = ("The vault code is walnut-4711.", "And the alarm is off between two and three.")
KNOWN = (Decision.KNOWN.value, Reason.HELD.value, None)
QUICK_DEADLINE = "[routes.main]\nturn_seconds = 4.0\n"
SPARE = {"ANTHROPIC_API_KEY_2": "sk-ant-spare-key-of-the-story"}
TWO_ACCOUNTS = """
[accounts.main]
key_env = "ANTHROPIC_API_KEY"
[accounts.spare]
key_env = "ANTHROPIC_API_KEY_2"
"""
OWN_COMPACTION = '[routes.main]\nprefer = "compaction"\nrotate_at = 50000\nautocompact = 100000\n'


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The story, the thread that is to be forgotten, and another thread of the same session, for the turns between."""

    story: Story
    forgotten: Place
    other: Place

    async def one_turn(self) -> None:
        assert (await self.story.ask(self.other, "Go on.")).outcome == "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """`happens` between two messages in one thread, or is scripted for the second of them."""

    cause: ResetCause
    reason: Reason
    how: ResetHow
    happens: Callable[[Elsewhere], Awaitable[None]]
    config: str = COMPACTING
    environment: Mapping[str, str] = field(default_factory=dict)
    question: str = "What is the vault code?"


async def _budget_spent(here: Elsewhere) -> None:
    here.story.model.script.usage(160_000)
    await here.one_turn()


async def _compaction_at_the_start_of_the_turn(here: Elsewhere) -> None:
    here.story.model.script.usage(90_000)
    await here.one_turn()


async def _compaction_in_a_tool_loop(here: Elsewhere) -> None:
    here.story.model.script.tool("no_such_tool", {}, usage=90_000)


async def _prompt_too_long(here: Elsewhere) -> None:
    here.story.model.script.too_long()


async def _own_compaction(here: Elsewhere) -> None:
    here.story.model.script.usage(60_000)
    await here.one_turn()
    await here.story.until(lambda: any(request.is_compaction for request in here.story.model.requests))


async def _restart(here: Elsewhere) -> None:
    await here.story.stop()
    await here.story.start()


async def _restart_without_transcripts(here: Elsewhere) -> None:
    await here.story.stop()
    transcripts = list((here.story.workspace / ".insomnia" / "claude" / "projects").rglob("*.jsonl"))
    assert transcripts
    for transcript in transcripts:
        transcript.unlink()
    await here.story.start()


async def _bot_killed(here: Elsewhere) -> None:
    told = here.story
    await told.until(lambda: len(told.ended()) == len(told.prompts()))  # else its last row is open, and answered once more
    await told.kill()
    await told.start()


async def _cleared(here: Elsewhere) -> None:
    here.story.command("/clear")
    await here.story.until(lambda: bool(here.story.resets()))


async def _session_killed(here: Elsewhere) -> None:
    await here.story.kill_session()


async def _hung_turn(here: Elsewhere) -> None:
    here.story.model.script.hang()
    assert (await here.story.ask(here.forgotten, "Are you there?")).outcome == "failed"


async def _unannounced_compaction(here: Elsewhere) -> None:
    """The next prompt fills far less of the context than this one is said to have done."""
    here.story.model.script.usage(60_000)
    await here.one_turn()


async def _limit_reached(here: Elsewhere) -> None:
    here.story.model.script.limit(int(time.time()) + 3_600, key=MODEL_KEY)


async def _key_refused(here: Elsewhere) -> None:
    here.story.model.script.error(403, key=MODEL_KEY)


async def _nothing(here: Elsewhere) -> None:
    """The next message itself says it."""


LOSSES = {
    "budget_spent": Loss(cause=ResetCause.ROTATE_TOKENS, reason=Reason.AFTER_ROTATE, how=ResetHow.FRESH, happens=_budget_spent),
    "compaction_at_the_start_of_the_turn": Loss(
        cause=ResetCause.COMPACTION_AUTO, reason=Reason.AFTER_COMPACTION, how=ResetHow.NONE, happens=_compaction_at_the_start_of_the_turn
    ),
    "compaction_in_a_tool_loop": Loss(
        cause=ResetCause.COMPACTION_AUTO, reason=Reason.AFTER_COMPACTION, how=ResetHow.NONE, happens=_compaction_in_a_tool_loop
    ),
    "prompt_too_long": Loss(cause=ResetCause.COMPACTION_AUTO, reason=Reason.AFTER_COMPACTION, how=ResetHow.NONE, happens=_prompt_too_long),
    "own_compaction": Loss(
        cause=ResetCause.COMPACTION_MANUAL,
        reason=Reason.AFTER_COMPACTION,
        how=ResetHow.NONE,
        happens=_own_compaction,
        config=OWN_COMPACTION,
    ),
    "restart": Loss(cause=ResetCause.RESTART, reason=Reason.AFTER_RESTART, how=ResetHow.RESUME, happens=_restart),
    "dead_resume": Loss(
        cause=ResetCause.RESUME_FAILED, reason=Reason.AFTER_RESTART, how=ResetHow.FRESH, happens=_restart_without_transcripts
    ),
    "bot_killed": Loss(cause=ResetCause.RESTART, reason=Reason.AFTER_RESTART, how=ResetHow.RESUME, happens=_bot_killed),
    "cleared": Loss(cause=ResetCause.CLEARED, reason=Reason.AFTER_COMPACTION, how=ResetHow.NONE, happens=_cleared),
    "session_killed": Loss(cause=ResetCause.CRASH, reason=Reason.AFTER_RESTART, how=ResetHow.NONE, happens=_session_killed),
    "unannounced_compaction": Loss(
        cause=ResetCause.COMPACTION_INFERRED, reason=Reason.AFTER_COMPACTION, how=ResetHow.NONE, happens=_unannounced_compaction
    ),
    "limit_reached": Loss(
        cause=ResetCause.ACCOUNT_SWITCH,
        reason=Reason.AFTER_ACCOUNT_SWITCH,
        how=ResetHow.RESUME,
        happens=_limit_reached,
        config=TWO_ACCOUNTS,
        environment=SPARE,
    ),
    "key_refused": Loss(
        cause=ResetCause.ACCOUNT_SWITCH,
        reason=Reason.AFTER_ACCOUNT_SWITCH,
        how=ResetHow.RESUME,
        happens=_key_refused,
        config=TWO_ACCOUNTS,
        environment=SPARE,
    ),
    "hung_turn": Loss(cause=ResetCause.RESUME, reason=Reason.AFTER_RESUME, how=ResetHow.RESUME, happens=_hung_turn, config=QUICK_DEADLINE),
    "reread": Loss(
        cause=ResetCause.FORGET_MANUAL,
        reason=Reason.MANUAL,
        how=ResetHow.NONE,
        happens=_nothing,
        question="reread What is the vault code?",
    ),
}


@pytest.mark.kill
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_a_known_thread_costs_nothing_until_its_context_is_lost_and_is_read_in_again_then(loss: Loss, tmp_path: Path) -> None:
    async with story(tmp_path, config=loss.config, environment=loss.environment) as told:
        here = Elsewhere(told, told.old_thread(*VAULT), told.old_thread("Lunch is at noon."))
        await told.start()

        first = await told.ask(here.forgotten, "What is the vault code?")
        await here.one_turn()
        assert first.decided == (Decision.REFETCHED.value, Reason.NO_SESSION.value, Injection.FULL.value)
        await _costs_nothing(told, here.forgotten)

        await loss.happens(here)
        reads = told.reads()
        lost = await told.ask(here.forgotten, loss.question)
        assert lost.decided == (Decision.REFETCHED.value, loss.reason.value, Injection.FULL.value)
        assert told.reads() == reads + 1
        assert _quoted(told, here.forgotten) == list(VAULT)
        assert "“The vault code is walnut-4711.”" in lost.text

        await _costs_nothing(told, here.forgotten)
        await told.stop()
        assert told.resets() == [(loss.cause.value, loss.how.value)]
        assert told.counted("insomnia.session.resets", "route", "cause") == {("main", loss.cause.value): 1}
        assert told.model.script.pending == 0


async def test_a_compaction_that_failed_forgets_nothing(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        here = Elsewhere(told, told.old_thread(*VAULT), told.old_thread("Lunch is at noon."))
        await told.start()
        await told.ask(here.forgotten, "What is the vault code?")
        told.model.script.usage(90_000)
        told.model.script.compact_error(400)
        await here.one_turn()

        await _costs_nothing(told, here.forgotten)
        await told.stop()

        assert any(request.is_compaction for request in told.model.requests), "it was tried"
        assert told.resets() == []
        assert told.model.script.pending == 0


async def _costs_nothing(told: Story, thread: Place) -> None:
    reads, asked = told.reads(), told.last_request()

    known = await told.ask(thread, "And when is the alarm off?")

    assert known.decided == KNOWN
    assert told.reads() == reads
    (request,) = told.prompts(asked)
    assert "<thread-" not in request.newest_user_text and VAULT[1] not in request.newest_user_text
    assert "“And the alarm is off between two and three.”" in known.text


def _quoted(told: Story, thread: Place) -> list[str]:
    """Which of the thread's first lines stand in the thread block of the newest request's own prompt."""
    prompt = told.prompts()[-1].newest_user_text
    block = prompt[prompt.index("<thread-") : prompt.index("</thread-")]
    assert thread.ts in block.splitlines()[0]
    return [text for text in VAULT if f": {text}" in block]
