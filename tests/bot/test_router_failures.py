"""What cannot start, end or be answered is told in words; nothing is marked, and the next message is answered."""

from __future__ import annotations

import pytest

from bot.ports import Answer, Compacting, StartFailed
from telemetry.events import FailReason
from tests.bot.bench import Bench, block, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import EPOCH, HANGS, called, failed
from tests.bot.old_talk import TALK, known, read_in_again


async def test_a_session_that_cannot_start_is_told_and_its_lane_lives_on(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.start_faults.append(StartFailed("no CLI"))

    lost = await bench.ask("What is the code?", thread=root)

    assert lost.outcome == "failed" and "could not be started" in lost.text
    assert bench.decisions == [] and bench.resets == []
    again = await bench.ask("What is the code?", thread=root)
    assert again.gate == ("refetched", "no_session", "full")


async def test_a_turn_beyond_its_deadline_is_told_and_the_next_message_answered(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(HANGS)

    lost = await bench.ask("Sure?", thread=root)

    assert lost.outcome == "failed" and "stopped after 10 min" in lost.text and len(lost.prompts) == 1
    assert bench.replies[-1].error == FailReason.DEADLINE.value
    assert not bench.knows(root) and bench.claude.processes[0].closed
    await read_in_again(bench, root, "after_resume")
    assert bench.resets == [("resume", "resume", 1)]


async def test_a_loss_that_no_start_followed_is_told_when_the_bot_ends(make_bench: Make) -> None:
    bench = make_bench()
    root = await known(bench)
    bench.claude.turn(HANGS)
    await bench.ask("Sure?", thread=root)
    assert bench.resets == []

    await bench.sessions.close_all()

    assert bench.resets == [("resume", "none", 1)]


async def test_a_turn_that_hung_in_a_compaction_gets_a_fresh_session_and_is_answered(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(Compacting(EPOCH), HANGS)

    again = await bench.ask("Sure?", thread=root)

    assert again.gate == ("refetched", "after_rotate", "full") and len(again.prompts) == 2
    assert not bench.claude.launches[1].resume
    assert bench.resets == [("rotate_tokens", "fresh", 1)]


async def test_a_compaction_that_ended_does_not_make_a_later_hang_its_fault(bench: Bench) -> None:
    """The CLI says when it begins, and not always how it ended: a hook may have called it off."""
    await bench.ask("Good morning")
    bench.claude.turn(Compacting(EPOCH))
    await bench.ask("And?")
    bench.claude.turn(HANGS)

    lost = await bench.ask("Sure?")

    assert lost.outcome == "failed" and bench.outcomes[-1] == ("failed", FailReason.DEADLINE.value)


async def test_two_hangs_in_a_compaction_are_told(bench: Bench) -> None:
    for _ in range(2):
        bench.claude.turn(Compacting(EPOCH), HANGS)

    lost = await bench.ask("Good morning")

    assert lost.outcome == "failed" and bench.outcomes == [("failed", FailReason.DEADLINE.value)]
    assert (await bench.ask("Are you there?")).outcome == "answered"
    assert bench.resets == [("rotate_tokens", "fresh", 0)] * 2


async def test_a_prompt_too_long_for_its_session_is_asked_whole_in_a_fresh_one(bench: Bench) -> None:
    root = bench.old_thread(*(f"line {n}" for n in range(19)))
    bench.claude.turn(failed("prompt_too_long", 400))

    again = await bench.ask("Summarise", thread=root)

    assert again.outcome == "answered"
    assert [len(quoted(prompt)) for prompt in again.prompts] == [19, 19]
    assert bench.resets == [("resume_failed", "fresh", 0)]
    assert bench.knows(root)


async def test_a_prompt_too_long_for_an_empty_session_gets_a_smaller_section_and_the_rest_with_the_next_message(bench: Bench) -> None:
    root = bench.old_thread(*(f"line {n} " + "x" * 600 for n in range(19)))
    for _ in range(2):
        bench.claude.turn(failed("prompt_too_long", 400))

    again = await bench.ask("Summarise", thread=root)

    assert again.outcome == "answered"
    *_, whole, small = (quoted(prompt) for prompt in again.prompts)
    assert len(whole) == 19 and [text.split()[1] for text in small] == ["0", *map(str, range(11, 19))]
    assert max(map(len, small)) <= 500
    assert "[10 messages left out here]" in block(again.prompts[-1])
    assert not bench.knows(root)
    rest = await bench.ask("And line 5?", thread=root)
    assert [text.split()[1] for text in quoted(rest.prompt)[:10]] == [str(n) for n in range(1, 11)] and bench.knows(root)


async def test_a_prompt_too_long_three_times_is_told(bench: Bench) -> None:
    for _ in range(3):
        bench.claude.turn(failed("prompt_too_long", 400))

    lost = await bench.ask("Summarise")

    assert lost.outcome == "failed" and "too long for the model" in lost.text
    assert (await bench.ask("And now?")).outcome == "answered"


async def test_an_empty_answer_is_told_and_nothing_is_marked(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(called(), Answer(text=" \n"))

    lost = await bench.ask("What is the code?", thread=root)

    assert lost.outcome == "failed" and "without an answer" in lost.text
    assert not bench.knows(root) and bench.resets == []


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        ("rate_limit", FailReason.MODEL_LIMIT, "usage limit"),
        ("authentication_failed", FailReason.MODEL_AUTH, "refused my credentials"),
        ("overloaded", FailReason.MODEL_ERROR, "returned an error"),
    ],
)
async def test_an_error_of_the_model_is_told_in_words_and_marks_nothing(bench: Bench, error: str, reason: FailReason, words: str) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(failed(error))

    lost = await bench.ask("What is the code?", thread=root)

    assert words in lost.text and "API Error" not in lost.text
    assert bench.outcomes == [("failed", reason.value)]
    assert not bench.knows(root) and bench.resets == []
    assert bench.emit.named("invoke_agent main")[0].error == error
