"""Each way to lose the context: the set is empty at once, exactly one reset is told, and the next answer has its thread again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.ports import Answer, Compacting, CompactionGaveUp, SessionDied, SlackError, StartFailed
from telemetry.events import FailReason, SessionReset
from tests.bot.bench import Bench, block, quoted, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CLEARED, EPOCH, GENERAL, HANGS, called, compacted, failed
from tests.bot.old_talk import TALK, known, read_in_again

TURN = "lane.wait thread.gate(thread.refetch) thread.inject invoke_agent main(chat model-1)"


# -- rotate ------------------------------------------------------------------------------------------------------------
async def test_a_rotate_comes_before_the_gate(bench: Bench) -> None:
    """With a message that waits there is no time between the turns: it happens in the turn, and the spans stand in this order."""
    root = await known(bench)
    bench.claude.turn(called(160_000), Answer(text="a long one"))
    bench.mention("Something long", thread=root)
    bench.mention("What is the code?", thread=root)
    await bench.ended()

    assert bench.resets == [("rotate_tokens", "fresh", 1)]
    assert bench.decisions[-1] == ("refetched", "after_rotate")
    waits, *rest = bench.replies[-1].children
    assert waits.name == "lane.wait"
    assert [span.name for span in rest] == ["session.start", "thread.gate", "thread.inject", "invoke_agent main", "slack.reply"]


async def test_between_turns_a_rotate_is_off_the_replys_path(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(called(150_000), Answer(text="a long one"))
    await bench.ask("Something long", thread=root)

    assert bench.resets == [("rotate_tokens", "fresh", 1)]
    assert len(bench.claude.launches) == 2 and not bench.claude.launches[1].resume
    assert bench.claude.processes[0].closed
    (reset,) = bench.emit.of(SessionReset)
    assert reset.linked == bench.replies[-1].ref
    await read_in_again(bench, root, "after_rotate")
    assert "session.start" not in bench.replies[-2].tree()


async def test_occupancy_counts_what_came_from_the_cache(bench: Bench) -> None:
    bench.claude.turn(called(149_999), Answer(text="nearly"))
    await bench.ask("One")
    assert bench.resets == []

    bench.claude.turn(called(80_000), called(150_000), Answer(text="enough"))
    await bench.ask("Two")
    assert bench.resets == [("rotate_tokens", "fresh", 2)]


async def test_the_summary_recalls_other_threads_and_they_need_not_be_shown_again(bench: Bench) -> None:
    root = await known(bench)
    lunch = await bench.ask("When is lunch?")
    bench.claude.turn(called(160_000), Answer(text="a long one"))
    await bench.ask("Something long")

    again = await bench.ask("What is the code?", thread=root)

    summary = again.prompt[again.prompt.index("<summary-") : again.prompt.index("</summary-")]
    assert "When is lunch?" in summary and "answer 2" in summary
    assert "What is the code?" not in summary, "the thread in question is read in whole beside it"
    other = await bench.ask("Are you sure?", thread=lunch.ts)
    assert other.gate == ("refetched", "after_rotate", None)
    assert block(other.prompt) == [] and "<summary-" not in other.prompt


async def test_what_the_summary_shortened_is_shown_whole_once_its_thread_comes_up(bench: Bench) -> None:
    long = await bench.ask("long " * 300)
    bench.claude.turn(called(160_000), Answer(text="done"))
    await bench.ask("Something else")
    await bench.ask("A third thing")

    again = await bench.ask("And?", thread=long.ts)

    (text,) = quoted(again.prompt)
    assert text.count("long") == 300 and not text.startswith("[edited]")


async def test_a_route_that_prefers_compaction_compacts_between_turns(make_bench: Make) -> None:
    bench = make_bench(settings=routes(prefer="compaction"))
    root = await known(bench)
    bench.claude.turn(called(160_000), Answer(text="a long one"))
    await bench.ask("Something long", thread=root)

    assert bench.resets == [("compaction_manual", "none", 1)]
    assert len(bench.claude.launches) == 1
    await read_in_again(bench, root, "after_compaction")


@pytest.mark.parametrize("fault", [CompactionGaveUp(EPOCH), SessionDied(-9), HANGS], ids=["gave_up", "died", "hung"])
async def test_where_its_own_compaction_fails_the_bot_rotates(make_bench: Make, fault: CompactionGaveUp | Exception) -> None:
    bench = make_bench(settings=routes(prefer="compaction"))
    root = await known(bench)
    bench.claude.turn(called(160_000), Answer(text="a long one"))
    bench.claude.compactions.append((Compacting(EPOCH), fault))
    await bench.ask("Something long", thread=root)

    assert bench.resets == [("rotate_tokens", "fresh", 1)]
    again = await bench.ask("What is the code?", thread=root)
    assert again.gate and again.gate[0] == "refetched"


async def test_a_rotate_that_cannot_start_between_turns_is_made_good_by_the_next_message(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(called(160_000), Answer(text="a long one"))
    bench.claude.start_faults.append(StartFailed("no memory"))
    await bench.ask("Something long", thread=root)

    assert bench.resets == [("rotate_tokens", "none", 1)]
    await read_in_again(bench, root, "after_rotate")
    assert len(bench.resets) == 1


# -- crashes -----------------------------------------------------------------------------------------------------------
async def test_a_crash_in_the_turn_is_resumed_and_the_message_asked_once_more(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(SessionDied(-9))

    again = await bench.ask("Sure?", thread=root)

    assert again.gate == ("refetched", "after_restart", "full") and len(again.prompts) == 2
    assert quoted(again.prompts[1]) == [*TALK, "What is the code?", "answer 1"]
    assert bench.claude.launches[1].resume
    assert bench.claude.launches[1].session_id == bench.claude.launches[0].session_id
    assert bench.resets == [("crash", "resume", 1)]
    assert bench.replies[-1].tree() == (
        f"process slack(lane.wait thread.gate invoke_agent main session.start {TURN.removeprefix('lane.wait ')} slack.reply)"
    )


async def test_a_second_crash_is_told_and_the_next_message_is_answered(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(SessionDied(-9))
    bench.claude.turn(SessionDied(-9))

    lost = await bench.ask("Sure?", thread=root)

    assert lost.outcome == "failed" and "my session ended" in lost.text
    assert bench.outcomes[-1] == ("failed", FailReason.SESSION_DIED.value)
    await read_in_again(bench, root, "after_restart")
    assert bench.resets == [("crash", "resume", 1), ("resume_failed", "fresh", 0)], "what died twice in a row is not resumed a third time"


async def test_an_answer_between_two_crashes_makes_each_of_them_the_first(bench: Bench) -> None:
    root = await known(bench)
    for _ in range(2):
        bench.claude.turn(SessionDied(-9))
        assert (await bench.ask("Sure?", thread=root)).outcome == "answered"

    assert [launch.resume for launch in bench.claude.launches] == [False, True, True]


async def test_a_crash_of_an_idle_session_forgets_at_once(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.process.die()

    assert not bench.knows(root)
    assert bench.resets == [("crash", "none", 1)]
    await read_in_again(bench, root, "after_restart")
    assert len(bench.resets) == 1


async def test_a_death_that_nobody_noticed_is_met_before_the_gate(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.process.die(noticed=False)

    await read_in_again(bench, root, "after_restart")

    assert bench.resets == [("crash", "resume", 1)]


async def test_c051_a_crash_of_the_first_turn_ever_begins_afresh(bench: Bench) -> None:
    """Its id was never worth resuming."""
    bench.claude.turn(SessionDied(1))

    first = await bench.ask("Good morning")

    assert first.outcome == "answered"
    assert [launch.resume for launch in bench.claude.launches] == [False, False]
    assert bench.claude.launches[0].session_id != bench.claude.launches[1].session_id
    assert bench.resets == [("crash", "fresh", 0)]


async def test_a_context_that_was_cleared_is_forgotten(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.process.stray(CLEARED)

    await read_in_again(bench, root, "after_compaction")

    assert bench.resets == [("cleared", "none", 1)]


# -- restarts ----------------------------------------------------------------------------------------------------------
async def test_after_a_restart_the_session_is_resumed_and_its_threads_read_again(make_bench: Make) -> None:
    first = make_bench()
    root = await known(first)
    await first.sessions.close_all()
    second = make_bench(before=first)

    await read_in_again(second, root, "after_restart")

    assert first.resets == []
    assert second.resets == [("restart", "resume", 0)]
    assert first.claude.launches[1].resume


async def test_c051_a_dead_resume_id_is_tried_once_and_never_again(make_bench: Make) -> None:
    first = make_bench()
    root = await known(first)
    other = await first.ask("When is lunch?")
    await first.sessions.close_all()
    second = make_bench(before=first)
    dead = first.claude.launches[0].session_id
    first.claude.start_faults.append(StartFailed("No conversation found", dead_resume=True))

    again = await second.ask("What is the code?", thread=root)

    assert again.gate == ("refetched", "after_restart", "full") and len(again.prompts) == 1
    assert "<summary-" in again.prompt and other.text in again.prompt
    assert second.resets == [("resume_failed", "fresh", 0)]
    assert [launch.session_id == dead for launch in first.claude.launches] == [True, True, False]
    assert second.threads.session_id("main") == first.claude.launches[2].session_id


async def test_a_poisoned_transcript_gets_one_fresh_start(make_bench: Make) -> None:
    first = make_bench()
    root = await known(first)
    await first.sessions.close_all()
    second = make_bench(before=first)
    first.claude.turn(failed("unknown", status=400))

    again = await second.ask("What is the code?", thread=root)

    assert again.outcome == "answered" and len(again.prompts) == 2
    assert second.resets == [("restart", "resume", 0), ("resume_failed", "fresh", 0)]
    assert [launch.resume for launch in first.claude.launches] == [False, True, False]


async def test_a_bad_request_of_a_proven_session_is_an_error_and_no_reset(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(failed("unknown", status=400))

    lost = await bench.ask("Sure?", thread=root)

    assert lost.outcome == "failed" and bench.outcomes[-1] == ("failed", FailReason.MODEL_ERROR.value)
    assert bench.resets == [] and bench.knows(root)


@pytest.mark.parametrize(
    "happens",
    [
        lambda bench: bench.claude.process.stray(compacted()),
        lambda bench: bench.claude.process.die(),
        lambda bench: bench.sessions.doubt_delivery(),
    ],
    ids=["compacted", "died", "gap"],
)
async def test_when_the_thread_cannot_be_read_again_what_others_said_since_still_goes_in(
    bench: Bench, happens: Callable[[Bench], None]
) -> None:
    root = await known(bench)
    bench.write("It is fig now.", thread=root, user="U2")
    happens(bench)
    bench.slack.fail("replies", SlackError("conversations.replies", "not_in_channel"))

    again = await bench.ask("What is the code?", thread=root)

    assert again.gate == ("refetch_failed", "not_in_channel", "delta")
    assert quoted(again.prompt) == ["It is fig now."]
    assert "not a member of this channel" in again.text
    healed = await bench.ask("And now?", thread=root)
    assert healed.gate and healed.gate[0] == "refetched"
    assert bench.slack.thread(GENERAL, root)
