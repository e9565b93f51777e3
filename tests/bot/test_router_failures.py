"""What cannot start, end or be answered is told in words; nothing is marked, and the next message is answered."""

from __future__ import annotations

import pytest

from bot.ports import Answer, Compacting, StartFailed, StreamEvent, ToolStarted
from telemetry.events import FailReason
from tests.bot.bench import Bench, block, quoted
from tests.bot.conftest import Make
from tests.bot.fakes import EPOCH, HANGS, called, compacted, failed
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


EMPTY = (called(), Answer(text=" \n"))


async def test_an_empty_answer_is_asked_for_once_more(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(*EMPTY)

    answered = await bench.ask("What is the code?", thread=root)

    assert (answered.text, len(answered.prompts)) == ("answer 2", 2)
    assert [quoted(prompt) for prompt in answered.prompts] == [list(TALK)] * 2
    assert bench.knows(root) and bench.resets == []


async def test_a_second_empty_answer_is_told_and_nothing_is_marked(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    for _ in range(2):
        bench.claude.turn(*EMPTY)

    lost = await bench.ask("What is the code?", thread=root)

    assert lost.outcome == "failed" and "without an answer" in lost.text and len(lost.prompts) == 2
    assert bench.outcomes == [("failed", FailReason.EMPTY_ANSWER.value)]
    assert not bench.knows(root) and bench.resets == []


async def test_a_session_that_has_nothing_to_say_any_more_is_renewed(bench: Bench) -> None:
    root = await known(bench)
    for _ in range(3):
        bench.claude.turn(*EMPTY)
    assert (await bench.ask("Sure?", thread=root)).outcome == "failed"

    again = await bench.ask("Really?", thread=root)

    assert again.outcome == "answered" and again.gate == ("refetched", "after_restart", "full")
    assert bench.resets == [("resume_failed", "fresh", 1)]
    assert [launch.resume for launch in bench.claude.launches] == [False, False]


async def test_words_in_between_end_a_row_of_empty_answers(bench: Bench) -> None:
    for _ in range(4):
        bench.claude.turn(*EMPTY)
        assert (await bench.ask("Anything?")).outcome == "answered"

    assert bench.resets == []


async def test_a_session_that_hangs_after_its_compaction_gets_a_fresh_one_and_is_answered(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(Compacting(EPOCH), compacted(), HANGS)

    again = await bench.ask("Sure?", thread=root)

    assert again.outcome == "answered" and len(again.prompts) == 2
    assert bench.resets == [("compaction_auto", "none", 1), ("rotate_tokens", "fresh", 0)]


@pytest.mark.parametrize("work", [called(2_000), ToolStarted(EPOCH, "t1", "Read")], ids=["call", "tool"])
async def test_a_turn_that_worked_on_after_its_compaction_is_not_repeated(bench: Bench, work: StreamEvent) -> None:
    bench.claude.turn(Compacting(EPOCH), compacted(), work, HANGS)

    lost = await bench.ask("Good morning")

    assert lost.outcome == "failed" and len(lost.prompts) == 1
    assert bench.outcomes == [("failed", FailReason.DEADLINE.value)]


async def test_a_session_that_hangs_twice_in_a_row_is_not_resumed_again(bench: Bench) -> None:
    root = await known(bench)
    await bench.ask("When is lunch?")
    for _ in range(2):
        bench.claude.turn(HANGS)
        assert (await bench.ask("Sure?", thread=root)).outcome == "failed"

    again = await bench.ask("Sure?", thread=root)

    assert again.gate == ("refetched", "after_resume", "full") and "<summary-" in again.prompt
    assert [launch.resume for launch in bench.claude.launches] == [False, True, False]
    assert bench.resets == [("resume", "resume", 2), ("resume_failed", "fresh", 0)]


async def test_starts_that_fail_again_and_again_are_not_tried_with_each_message(bench: Bench) -> None:
    """The third failure in a row is followed by four seconds in which nobody tries; a message and its apology take two."""
    bench.claude.start_faults += [StartFailed("no CLI")] * 3
    for _ in range(3):
        assert (await bench.ask("Good morning")).outcome == "failed"

    too_early = await bench.ask("Good morning")

    assert too_early.outcome == "failed" and "could not be started" in too_early.text
    assert (len(bench.claude.launches), bench.claude.unused) == (3, 0)
    bench.clock.advance(4.0)
    assert (await bench.ask("Good morning")).outcome == "answered"


async def test_the_waits_between_starts_that_fail_in_a_row_grow_to_a_minute(bench: Bench) -> None:
    async def until_tried() -> float:
        tried, began = len(bench.claude.launches), bench.clock.elapsed
        while len(bench.claude.launches) == tried:
            bench.clock.advance(1.0)
            with pytest.raises(StartFailed):
                await session.ready()
        return bench.clock.elapsed - began

    bench.claude.start_faults += [StartFailed("no memory")] * 10
    await bench.ask("Good morning")
    session = bench.session()

    assert [await until_tried() for _ in range(9)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    bench.clock.advance(60.0)
    assert (await bench.ask("Good morning")).outcome == "answered"


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
