"""The gate in its turn: what is read, what is injected, what is marked, and that no answer is given out without its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bot.messages import Message
from bot.ports import Answer, Compacting, CompactionGaveUp, SlackError, StreamEvent, ToolEnded, ToolStarted, Trimmed
from bot.routes import Destination
from telemetry.events import AskedAgain, FailReason, GateDecided, ThreadInjected
from telemetry.names import Attr
from tests.bot.bench import KNOWN, NEW, Bench, block, question, quoted, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CLEARED, CODE, EPOCH, GENERAL, called, compacted

TALK = ("The code is walnut.", "And the alarm is off.")


# -- the six holes of the seed's sketch --------------------------------------------------------------------------------
async def test_a_mark_earned_before_a_compaction_is_dropped(bench: Bench) -> None:
    """Here the boundary arrives between the answer and its mark."""
    root = bench.old_thread(*TALK)
    bench.claude.turn(called(), lambda: bench.claude.process.stray(compacted()), Answer(text="walnut"))

    first = await bench.ask("What is the code?", thread=root)

    assert first.text == "walnut"
    assert not bench.knows(root)
    second = await bench.ask("What is the code?", thread=root)
    assert second.gate == ("refetched", "not_known", "full")
    assert quoted(second.prompt)[:2] == list(TALK)


async def test_a_thread_that_could_not_be_read_stays_unknown(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.slack.fail("replies", SlackError("conversations.replies", "missing_scope"))

    first = await bench.ask("What is the code?", thread=root)

    assert first.gate == ("refetch_failed", "missing_scope", None)
    assert not bench.knows(root)
    assert "could not be read from Slack (missing_scope)" in block(first.prompt)[1]
    assert "I could not read this thread's earlier messages" in first.text
    second = await bench.ask("What is the code?", thread=root)
    assert second.gate == ("refetched", "not_known", "full")
    assert quoted(second.prompt)[:2] == list(TALK)


async def test_messages_of_one_unknown_thread_at_once_cost_one_reading(bench: Bench) -> None:
    """Even without a lane before it: the lock makes gate, prompt and mark one step."""
    root = bench.old_thread(*TALK)
    to = Destination(bench.settings["main"], "main")
    session = bench.sessions.session_for(to)
    asked = [bench.slack.put(GENERAL, f"question {n}", thread_ts=root) for n in range(3)]
    hold = asyncio.Event()
    bench.slack.fail("replies", hold)

    async def answer(body: dict[str, str]) -> tuple[str, str]:
        message = Message(
            row=1,
            thread=bench.asked(body["ts"], thread=root).thread,
            ts=body["ts"],
            user="U1",
            body=body,
            channel=bench.slack.channels[GENERAL],
            route="main",
            key="main",
            accepted_at=EPOCH,
        )
        said = await bench.reader.said(body, verified=None)
        _, gate = await bench.router.answer(session, message, said, verified=None)
        return gate.decision.value, gate.reason.value

    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(answer(body)) for body in asked]
        await asyncio.sleep(0)
        hold.set()

    assert [task.result() for task in answers] == [("refetched", "no_session"), KNOWN[:2], KNOWN[:2]]
    assert bench.reads == 1
    assert [bool(block(prompt)) for prompt in bench.claude.prompts] == [True, False, False]


async def test_the_same_ts_in_two_channels_is_two_threads(make_bench: Make) -> None:
    """On one route, so that both live in one context."""
    both = make_bench(settings=routes(channels=("general", "code")))
    root = both.old_thread(*TALK)
    for message in both.slack.thread(GENERAL, root):
        both.slack.messages[CODE, message["ts"]] = {**message, "text": "Something else."}
    await both.ask("What is the code?", thread=root)

    other = await both.ask("What is the code?", thread=root, channel=CODE)

    assert other.gate == ("refetched", "not_known", "full")
    assert quoted(other.prompt) == ["Something else."] * 2
    assert both.knows(root) and both.knows(root, channel=CODE)


async def test_what_others_wrote_in_a_known_thread_reaches_the_next_prompt(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.write("It is fig now.", thread=root, user="U2")
    bench.write("Since noon.", thread=root)

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == ("known", "held_delta", "delta")
    assert quoted(second.prompt) == ["It is fig now.", "Since noon."]
    assert bench.reads == 1
    third = await bench.ask("And now?", thread=root)
    assert third.gate == KNOWN and block(third.prompt) == []


async def test_an_answer_made_after_a_compaction_is_not_given_out_and_its_thread_is_read_in_again(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.claude.turn(Compacting(EPOCH), compacted(), called(1_500), Answer(text="I know nothing of a code"))

    again = await bench.ask("What is the code?", thread=root)

    assert [post["text"] for post in again.posts] == ["answer 3"]
    assert again.gate == ("refetched", "after_compaction", "full")
    assert [quoted(prompt)[:2] for prompt in again.prompts] == [[], list(TALK)]
    assert [question(prompt) for prompt in again.prompts] == ["What is the code?"] * 2
    assert [f.cause.value for f in bench.emit.of(AskedAgain)] == ["compaction_auto"]
    assert bench.resets == [("compaction_auto", "none", 1)]
    assert bench.knows(root)


# -- the decision ------------------------------------------------------------------------------------------------------
async def test_a_thread_that_begins_with_the_message_is_new_and_costs_nothing(bench: Bench) -> None:
    opened = await bench.ask("Good morning")

    assert opened.gate == NEW
    assert block(opened.prompt) == []
    follow_up = await bench.ask("And now?", thread=opened.ts)
    assert follow_up.gate == KNOWN
    assert bench.reads == 0


async def test_each_answered_message_has_one_decision_and_an_injection_has_the_same_reason(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("One", thread=root)
    await bench.ask("Two", thread=root)
    bench.write("News.", thread=root)
    await bench.ask("Three", thread=root)
    bench.claude.turn(compacted(), called(), Answer(text="amnesic"))
    await bench.ask("Four", thread=root)

    assert bench.decisions == [
        ("refetched", "no_session"),
        ("known", "held"),
        ("known", "held_delta"),
        ("refetched", "after_compaction"),
    ]
    assert bench.injections == [("no_session", "full", 2), ("held_delta", "delta", 1), ("after_compaction", "full", 9)]


async def test_the_decision_is_told_with_what_the_gate_saw(bench: Bench) -> None:
    await bench.ask("One")
    await bench.ask("Two")

    assert [(f.epoch, f.known_threads) for f in bench.emit.of(GateDecided)] == [(1, 0), (1, 1)]
    spans = bench.emit.named("thread.gate")
    assert [(s.attributes[Attr.SESSION_EPOCH], s.attributes[Attr.GATE_KNOWN_THREADS]) for s in spans] == [(1, 0), (1, 1)]


async def test_the_length_that_is_told_is_that_of_the_text_in_the_prompt(bench: Bench) -> None:
    root = bench.old_thread(*TALK)

    first = await bench.ask("What is the code?", thread=root)

    start, end = first.prompt.index("<thread-"), first.prompt.index("<message-")
    assert [f.chars for f in bench.emit.of(ThreadInjected)] == [len(first.prompt[start:end].rstrip())]


async def test_a_context_lost_while_the_thread_is_read_is_decided_on_again(bench: Bench) -> None:
    """The reading was made for a context that is gone; what it was filtered by does not hold any more."""
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    other = bench.old_thread("Lunch is at noon.")
    bench.slack.fail("replies", lambda: bench.claude.process.stray(compacted()))

    lunch = await bench.ask("When is lunch?", thread=other)

    assert lunch.gate == ("refetched", "not_known", "full")
    assert quoted(lunch.prompt) == ["Lunch is at noon."]
    assert bench.knows(other) and not bench.knows(root)
    assert len(bench.decisions) == 2


async def test_a_message_that_became_a_question_by_an_edit_does_not_make_its_thread_known(bench: Bench) -> None:
    """Others went on below it before the bot took part: nobody kept what they said."""
    root = bench.write("What is the code?")
    bench.write("walnut, I think", thread=root, user="U2")
    bench.edit(GENERAL, root, "<@U0BOT> What is the code?")
    await bench.ended()

    second = await bench.ask("Is he right?", thread=root)

    assert second.gate == ("refetched", "not_known", "full")
    assert quoted(second.prompt) == ["walnut, I think"]
    assert (await bench.ask("Sure?", thread=root)).gate == KNOWN


# -- compactions -------------------------------------------------------------------------------------------------------
async def test_a_compaction_between_two_turns_forgets_and_nothing_is_asked_twice(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.claude.process.stray(compacted())

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == ("refetched", "after_compaction", "full")
    assert len(second.prompts) == 1
    assert bench.resets == [("compaction_auto", "none", 1)]


async def test_an_answer_made_after_a_compaction_that_nobody_announced_is_not_given_out(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(called(60_000), Answer(text="walnut"))
    await bench.ask("What is the code?", thread=root)
    bench.claude.turn(called(4_000), Answer(text="I know nothing of a code"))
    bench.claude.turn(called(5_000), Answer(text="walnut"))

    again = await bench.ask("What is the code?", thread=root)

    assert (again.text, again.gate) == ("walnut", ("refetched", "after_compaction", "full"))
    assert bench.resets == [("compaction_inferred", "none", 1)]
    assert [(f.cause.value) for f in bench.emit.of(AskedAgain)] == ["compaction_inferred"]
    assert [span.attributes[Attr.GEN_AI_COMPACTED] for span in bench.emit.named("invoke_agent main")] == [False, True, False]
    assert bench.knows(root)


@pytest.mark.parametrize("announced", [compacted(), Trimmed(EPOCH), CLEARED], ids=["compaction", "microcompaction", "cleared"])
async def test_what_was_announced_between_two_turns_is_not_inferred_as_well(bench: Bench, announced: StreamEvent) -> None:
    bench.claude.turn(called(60_000), Answer(text="walnut"))
    await bench.ask("Hello")
    bench.claude.process.stray(announced)
    bench.claude.turn(called(4_000), Answer(text="hello again"))

    assert (await bench.ask("Hello?")).text == "hello again"
    assert "compaction_inferred" not in [cause for cause, *_ in bench.resets]


async def test_old_tool_results_that_are_left_out_make_no_thread_unknown(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(called(60_000), Answer(text="walnut"))
    await bench.ask("What is the code?", thread=root)
    bench.claude.turn(Trimmed(EPOCH), called(20_000), Answer(text="walnut"))

    assert (await bench.ask("Sure?", thread=root)).gate == KNOWN
    assert bench.resets == []


TOOL_LOOP = (called(80_000), ToolStarted(EPOCH, "t1", "Read"), ToolEnded(EPOCH, "t1", False), compacted(), called(1_500))
TOO_LONG = (Compacting(EPOCH), compacted(pre=200_000), called(1_500))


@pytest.mark.parametrize("steps", [(compacted(), called()), TOOL_LOOP, TOO_LONG], ids=["turn_start", "tool_loop", "too_long"])
@pytest.mark.parametrize("known", [True, False])
async def test_wherever_in_the_turn_the_context_was_compacted_the_message_is_asked_once_more(
    bench: Bench, steps: Sequence[object], known: bool
) -> None:
    root = bench.old_thread(*TALK)
    if known:
        await bench.ask("What is the code?", thread=root)
    bench.claude.turn(*steps, Answer(text="from a summary"))  # type: ignore[arg-type]

    again = await bench.ask("What is the code?", thread=root)

    assert again.gate == ("refetched", "after_compaction", "full")
    assert "from a summary" not in again.text
    assert quoted(again.prompts[-1])[:2] == list(TALK)
    assert len(bench.emit.of(AskedAgain)) == 1
    assert bench.resets == [("compaction_auto", "none", int(known))]
    assert bench.replies[-1].tree().count("invoke_agent") == 2
    turns = bench.emit.named("invoke_agent main")[-2:]
    assert [span.attributes[Attr.GEN_AI_COMPACTED] for span in turns] == [True, False]


async def test_a_second_compaction_is_an_honest_failure(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    for _ in range(2):
        bench.claude.turn(compacted(), called(), Answer(text="from a summary"))

    lost = await bench.ask("What is the code?", thread=root)

    assert lost.outcome == "failed" and "condensed twice" in lost.text
    assert bench.outcomes == [("failed", FailReason.COMPACTED_TWICE.value)]
    assert not bench.knows(root)
    assert bench.resets == [("compaction_auto", "none", 0)] * 2
    assert (await bench.ask("What is the code?", thread=root)).outcome == "answered"


async def test_a_route_with_tools_is_told_to_carry_on(make_bench: Make) -> None:
    """Or every tool would be used a second time."""
    bench = make_bench(settings=routes(tools=("Read",)))
    bench.claude.turn(*TOOL_LOOP, Answer(text="from a summary"))

    again = await bench.ask("Read it")

    assert ["Carry on" in prompt for prompt in again.prompts] == [False, True]


async def test_a_compaction_that_failed_is_no_reset(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.claude.turn(Compacting(EPOCH), CompactionGaveUp(EPOCH))

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == KNOWN and len(second.prompts) == 1
    assert bench.resets == []


# -- what was shown ----------------------------------------------------------------------------------------------------
async def test_after_a_gap_in_delivery_only_what_is_new_or_changed_is_injected(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    missed = bench.slack.put(GENERAL, "It is fig now.", user="U2", thread_ts=root)
    bench.slack.messages[GENERAL, root]["text"] = "The code was walnut."
    bench.sessions.doubt_delivery()

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == ("refetched", "delivery_gap", "catch_up")
    assert quoted(second.prompt) == ["[edited]: The code was walnut.", "It is fig now."]
    assert missed["text"] in second.prompt
    assert bench.resets == []
    assert (await bench.ask("Sure?", thread=root)).gate == KNOWN


async def test_a_gap_while_the_thread_is_being_answered_is_not_taken_for_covered(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(bench.sessions.doubt_delivery)
    await bench.ask("What is the code?", thread=root)
    bench.slack.put(GENERAL, "It is fig now.", user="U2", thread_ts=root)

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == ("refetched", "delivery_gap", "catch_up")
    assert quoted(second.prompt) == ["It is fig now."]


async def test_the_bots_own_answer_is_not_shown_to_the_session_that_wrote_it(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    first = await bench.ask("What is the code?", thread=root)
    bench.sessions.doubt_delivery()

    second = await bench.ask("Sure?", thread=root)

    assert second.gate == ("refetched", "delivery_gap", None)
    assert first.text not in second.prompt and block(second.prompt) == []


async def test_reread_forgets_one_thread_and_reads_it_whole(bench: Bench) -> None:
    root, other = bench.old_thread(*TALK), bench.old_thread("Lunch is at noon.")
    await bench.ask("What is the code?", thread=root)
    await bench.ask("When is lunch?", thread=other)

    again = await bench.ask("reread", thread=root)

    assert again.gate == ("refetched", "manual", "full")
    assert quoted(again.prompt) == [*TALK, "What is the code?", "answer 1"]
    assert bench.knows(other)
    assert bench.resets == [("forget_manual", "none", 1)]


async def test_reread_does_not_wait_for_the_end_of_a_hold_off(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.slack.page_size = 1
    bench.slack.fail("replies", None, SlackError("conversations.replies", "ratelimited", retry_after=120))
    await bench.ask("What is the code?", thread=root)
    bench.slack.page_size = 1_000

    again = await bench.ask("reread", thread=root)

    assert again.gate == ("refetched", "manual", "full")
    assert bench.knows(root)
