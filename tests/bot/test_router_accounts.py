"""An account that may not be asked costs a session its context, and nobody an answer, as long as there is another account."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.ports import Answer, LimitTold, SessionDied
from telemetry.account_events import AccountSeen, AccountSwitched, SwitchCause
from telemetry.events import FailReason
from tests.bot.bench import KNOWN, Bench, quoted, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, EPOCH, called, failed
from tests.bot.old_talk import TALK, known, read_in_again

HOUR = 3_600.0
BANNER = "You've hit your limit · resets 11:13pm (UTC)"
LIMITED = Answer(text=BANNER, error="rate_limit", status=429, resets_at=EPOCH + HOUR)
REFUSED = Answer(text="Failed to authenticate. API Error: 401", error="authentication_failed", status=401)


@pytest.fixture
def two(make_bench: Make) -> Bench:
    return make_bench(accounts=("a", "b"))


def keys(bench: Bench) -> list[str]:
    return [launch.credential[1] for launch in bench.claude.launches if launch.credential]


@pytest.mark.parametrize(
    ("refusal", "cause"), [(LIMITED, SwitchCause.LIMIT), (REFUSED, SwitchCause.AUTH), (failed("billing_error", 400), SwitchCause.LIMIT)]
)
async def test_c052_in_the_middle_of_a_turn_the_next_account_takes_over_with_the_context(
    two: Bench, refusal: Answer, cause: SwitchCause
) -> None:
    root = await known(two)
    two.claude.turn(refusal)

    answered = await two.ask("Sure?", thread=root)

    assert (answered.text, answered.gate, len(answered.posts)) == ("answer 3", ("refetched", "after_account_switch", "full"), 1)
    assert quoted(answered.prompts[1]) == [*TALK, "What is the code?", "answer 1"]
    assert two.resets == [("account_switch", "resume", 1)]
    assert keys(two) == ["key-of-a", "key-of-b"]
    assert two.claude.launches[1].resume and two.claude.launches[1].session_id == two.claude.launches[0].session_id
    assert [(f.account, f.to, f.cause) for f in two.emit.of(AccountSwitched)] == [("a", "b", cause)]
    assert two.claude.processes[0].closed and two.knows(root)
    assert two.outcomes == [("answered", None)] * 2


async def test_the_switch_stands_in_the_trace_of_the_message_that_met_it(two: Bench) -> None:
    root = await known(two)
    two.claude.turn(LIMITED)

    await two.ask("Sure?", thread=root)

    assert two.replies[-1].tree() == (
        "process slack(lane.wait thread.gate invoke_agent main session.start thread.gate(thread.refetch) thread.inject"
        " invoke_agent main(chat model-1) slack.reply)"
    )
    first, second = two.emit.named("invoke_agent main")[-2:]
    assert (first.error, second.error) == ("rate_limit", None)


async def test_a_session_whose_very_first_turn_is_refused_begins_under_the_next_account(two: Bench) -> None:
    root = two.old_thread(*TALK)
    two.claude.turn(LIMITED)

    first = await two.ask("What is the code?", thread=root)

    assert first.outcome == "answered" and quoted(first.prompts[1]) == list(TALK)
    assert [launch.resume for launch in two.claude.launches] == [False, False]
    assert two.resets == [("account_switch", "fresh", 0)]


async def test_other_sessions_leave_the_account_before_they_ask_it(two: Bench) -> None:
    """Nobody else has to be refused first; and each comes to it before its gate."""
    root = await known(two)
    elsewhere = await two.ask("And here?", channel=CODE)
    two.claude.turn(LIMITED)
    await two.ask("Sure?", thread=root)

    again = await two.ask("Still there?", channel=CODE, thread=elsewhere.ts)

    assert again.gate == ("refetched", "after_account_switch", "full") and len(again.prompts) == 1
    assert keys(two) == ["key-of-a", "key-of-a", "key-of-b", "key-of-b"]


async def test_a_session_stays_where_it_is_when_the_first_account_may_be_asked_again(two: Bench) -> None:
    root = await known(two)
    two.claude.turn(LIMITED)
    await two.ask("Sure?", thread=root)
    two.clock.advance(HOUR)

    assert (await two.ask("And now?", thread=root)).gate == KNOWN
    assert len(two.claude.launches) == 2
    two.claude.process.die()
    await read_in_again(two, root, "after_restart")
    assert keys(two) == ["key-of-a", "key-of-b", "key-of-a"], "a process that has to be started anyway is started under the first"


# -- all of them rest --------------------------------------------------------------------------------------------------
async def test_where_all_rest_the_person_is_told_until_when_and_nothing_is_lost(two: Bench) -> None:
    root = await known(two)
    two.claude.turn(LIMITED)
    two.claude.turn(LIMITED)
    lost = await two.ask("Sure?", thread=root)
    prompts = len(two.claude.prompts)

    waiting = await two.ask("Hello?", thread=root)

    assert "until 23:14 UTC" in lost.text and "until 23:14 UTC" in waiting.text
    assert datetime.fromtimestamp(EPOCH + HOUR, UTC).strftime("%H:%M:%S") == "23:13:20"
    assert two.outcomes[-2:] == [("failed", FailReason.MODEL_LIMIT.value)] * 2
    assert len(two.claude.prompts) == prompts, "an account that rests is not asked"
    two.clock.advance(HOUR)
    assert (await two.ask("And now?", thread=root)).outcome == "answered"
    assert two.resets == [("account_switch", "resume", 1)]


async def test_a_known_thread_is_still_known_when_the_only_account_has_rested(bench: Bench) -> None:
    root = await known(bench)
    bench.claude.turn(LIMITED)
    lost = await bench.ask("Sure?", thread=root)

    bench.clock.advance(HOUR)
    after = await bench.ask("And now?", thread=root)

    assert lost.outcome == "failed" and after.gate and after.gate[0] == "known"
    assert bench.resets == [] and len(bench.claude.launches) == 1


async def test_a_refused_credential_is_told_with_whom_to_ask(bench: Bench) -> None:
    bench.claude.turn(REFUSED)

    lost = await bench.ask("Hello")

    assert "refused my credentials" in lost.text and "tell whoever runs me" in lost.text
    assert bench.outcomes == [("failed", FailReason.MODEL_AUTH.value)]


async def test_the_only_account_is_asked_again_at_once_unless_it_was_named_until_when_it_rests(bench: Bench) -> None:
    root = await known(bench)
    for refusal in (REFUSED, failed("rate_limit", 429)):
        bench.claude.turn(refusal)
        assert (await bench.ask("Sure?", thread=root)).outcome == "failed"

        assert (await bench.ask("And now?", thread=root)).outcome == "answered"

    assert bench.resets == [] and len(bench.claude.launches) == 1


async def test_two_accounts_that_rest_for_nobody_knows_how_long_are_not_swapped_with_every_message(two: Bench) -> None:
    for _ in range(2):
        two.claude.turn(failed("rate_limit", 429))
    assert (await two.ask("Hello")).outcome == "failed"

    two.claude.turn(failed("rate_limit", 429))
    lost = await two.ask("Hello?")

    assert lost.outcome == "failed" and "try again later" in lost.text and len(lost.prompts) == 1
    assert (await two.ask("And now?")).outcome == "answered"
    assert keys(two) == ["key-of-a", "key-of-b"]


async def test_a_time_of_another_day_is_told_with_its_date_and_in_japanese(make_bench: Make) -> None:
    bench = make_bench(language="ja")
    bench.claude.turn(Answer(text=BANNER, error="rate_limit", resets_at=EPOCH + 2 * 86_400.0))

    assert "2023-11-16 22:14 UTCまで回答できません" in (await bench.ask("Hello")).text


async def test_a_rest_that_is_over_before_the_message_is_does_not_send_it_round_in_circles(two: Bench) -> None:
    for _ in range(3):
        two.claude.turn(lambda: two.clock.advance(100.0), failed("rate_limit", 429))

    lost = await two.ask("Hello")

    assert lost.outcome == "failed" and len(lost.prompts) == 3
    assert two.outcomes == [("failed", FailReason.MODEL_LIMIT.value)]


# -- what is not posted, and who does not rest -------------------------------------------------------------------------
async def test_c053_a_banner_is_never_posted(two: Bench) -> None:
    two.claude.turn(LIMITED)
    two.claude.turn(LIMITED)

    lost = await two.ask("Hello")

    assert "hit your" not in lost.text and "resets" not in lost.text


async def test_c054_a_warning_moves_no_session_and_is_told(two: Bench) -> None:
    root = await known(two)
    two.claude.turn(LimitTold(EPOCH, near=True), called(), Answer(text="sure"))

    assert (await two.ask("Sure?", thread=root)).gate == KNOWN
    two.claude.process.stray(LimitTold(EPOCH, near=False))

    assert (await two.ask("Really?", thread=root)).gate == KNOWN
    assert keys(two) == ["key-of-a"]
    assert [(f.account, f.state.value) for f in two.emit.of(AccountSeen)][2:] == [("a", "warned"), ("a", "available")]


async def test_a_limit_that_is_met_after_a_crash_still_gets_its_answer(two: Bench) -> None:
    root = await known(two)
    two.claude.turn(SessionDied(-9))
    two.claude.turn(LIMITED)

    answered = await two.ask("Sure?", thread=root)

    assert answered.outcome == "answered" and len(answered.posts) == 1
    assert two.resets == [("crash", "resume", 1), ("account_switch", "resume", 0)]


async def test_a_route_with_tools_is_told_to_carry_on_under_the_other_account(make_bench: Make) -> None:
    bench = make_bench(accounts=("a", "b"), settings=routes(tools=("Read",)))
    bench.claude.turn(LIMITED)

    answered = await bench.ask("Read it")

    assert "do not repeat tool calls" not in answered.prompts[0] and "do not repeat tool calls" in answered.prompts[1]


async def test_a_bot_that_is_started_again_knows_which_account_rests(make_bench: Make) -> None:
    first = make_bench(accounts=("a", "b"))
    root = await known(first)
    first.claude.turn(LIMITED)
    await first.ask("Sure?", thread=root)
    await first.sessions.close_all()

    second = make_bench(accounts=("a", "b"), before=first)
    await read_in_again(second, root, "after_restart")

    assert keys(second)[-1] == "key-of-b"
