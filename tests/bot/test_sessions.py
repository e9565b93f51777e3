"""More routes than processes: who was used longest ago makes room, and comes back when it is asked."""

from __future__ import annotations

import asyncio

import pytest

from bot.ports import Answer, SessionDied
from telemetry.events import SessionReset, SessionSeen, SessionState
from tests.bot.bench import KNOWN, Bench, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, DIRECT, GENERAL, SECRET, called, settled
from tests.bot.old_talk import known, read_in_again

MAIN, CODER, DM, PRIVATE = "main", "coder", f"dm-{DIRECT}", f"private-{SECRET}"


@pytest.fixture
def one(make_bench: Make) -> Bench:
    return make_bench(max_resident=1)


def alive(bench: Bench) -> list[str]:
    return [process.launch.key for process in bench.claude.processes if process.alive]


def hibernated(bench: Bench) -> list[tuple[str, str, int]]:
    return [(f.key, f.how.value, f.forgotten) for f in bench.emit.of(SessionReset) if f.cause.value == "hibernate"]


async def test_the_process_that_was_used_longest_ago_makes_room(make_bench: Make) -> None:
    bench = make_bench(max_resident=2)
    for channel in (GENERAL, CODE, GENERAL, DIRECT, SECRET):
        await bench.ask("Hello", channel=channel)

    assert alive(bench) == [DM, PRIVATE]
    assert hibernated(bench) == [(CODER, "none", 1), (MAIN, "none", 2)]
    assert bench.session(CODER).state is SessionState.HIBERNATED


async def test_there_is_room_before_the_next_process_starts(one: Bench) -> None:
    await one.ask("Hello")
    at_start: list[list[str]] = []
    starts = one.claude.start

    async def start(*args: object, **more: object) -> object:
        at_start.append(alive(one))
        return await starts(*args, **more)  # type: ignore[arg-type]

    one.claude.start = start  # type: ignore[method-assign, assignment]
    await one.ask("Hello", channel=CODE)

    assert at_start == [[]]


async def test_a_hibernated_session_is_resumed_and_its_thread_read_again(one: Bench) -> None:
    root = await known(one)
    await one.ask("Hello", channel=CODE)
    assert not one.knows(root)

    await read_in_again(one, root, "after_resume")

    last = one.claude.launches[-1]
    assert last.resume and last.session_id == one.claude.launches[0].session_id
    assert one.resets == [("hibernate", "none", 1), ("hibernate", "none", 1)], "told once each, and the resume is no loss of its own"


async def test_as_long_as_there_is_room_nobody_is_disturbed(make_bench: Make) -> None:
    bench = make_bench(max_resident=2)
    root = await known(bench)
    await bench.ask("Hello", channel=CODE)

    assert (await bench.ask("Sure?", thread=root)).gate == KNOWN
    assert bench.resets == []


async def test_the_reset_is_a_root_of_its_own_that_leads_to_the_sessions_last_reply(one: Bench) -> None:
    await one.ask("Hello")
    last = one.replies[-1].ref
    await one.ask("Hello", channel=CODE)

    ((reset, inside),) = [(fact, span) for fact, span in one.emit.told if isinstance(fact, SessionReset)]
    assert inside is None, "the other session's reply has no part in it"
    assert reset.linked == last
    assert [span.ends for span in one.emit.named("session")] == [1, 0]


async def test_a_session_at_work_is_left_alone_and_makes_room_when_it_is_done(one: Bench) -> None:
    goes_on = asyncio.Event()
    one.claude.turn(goes_on, called(), Answer(text="at last"))
    slow = one.mention("Something long")
    await settled()

    quick = one.mention("Hello", channel=CODE)
    await settled()
    done, living = bool(one.asked(quick, channel=CODE).posts), alive(one)
    goes_on.set()
    await one.ended()

    assert done, "two routes never wait for each other"
    assert living == [MAIN], "the one that is done makes room, and not the one at work"
    assert one.asked(slow).text == "at last" and one.resets == [("hibernate", "none", 1)]


async def test_a_session_over_its_budget_is_rotated_and_not_resumed(make_bench: Make) -> None:
    bench = make_bench(max_resident=1, settings=routes(rotate_at=150_000))
    await bench.ask("Hello")
    await bench.ask("Hello", channel=CODE)
    session = bench.session(MAIN)
    assert session.state is SessionState.HIBERNATED

    bench.claude.turn(called(160_000), Answer(text="a long one"))
    await bench.ask("Something long")

    assert bench.resets[-1] == ("rotate_tokens", "fresh", 1)
    assert alive(bench) == [MAIN]


async def test_a_crash_of_a_resumed_session_is_met_as_any_other(one: Bench) -> None:
    root = await known(one)
    await one.ask("Hello", channel=CODE)
    one.claude.turn(SessionDied(-9))

    again = await one.ask("Sure?", thread=root)

    assert again.outcome == "answered" and len(again.prompts) == 2
    assert ("crash", "resume", 0) in one.resets


async def test_a_hibernated_session_can_be_closed(one: Bench) -> None:
    await one.ask("Hello")
    await one.ask("Hello", channel=CODE)

    await one.sessions.close_all()

    assert {one.session(key).state for key in (MAIN, CODER)} == {SessionState.STOPPED}


async def test_the_state_is_told_for_the_gauge(one: Bench) -> None:
    await one.ask("Hello")
    await one.ask("Hello", channel=CODE)

    states = [f.state.value for f in one.emit.of(SessionSeen) if f.key == MAIN]
    assert states[-1] == "hibernated" and one.emit.of(SessionSeen)[-1].known_threads == 1


async def test_two_sessions_that_start_at_once_do_not_end_each_other(one: Bench) -> None:
    await one.ask("Hello", channel=DIRECT)
    asked = [one.mention("Hello"), one.mention("Hello", channel=CODE)]
    await one.ended()

    assert one.asked(asked[0]).outcome == one.asked(asked[1], channel=CODE).outcome == "answered"
    assert len(alive(one)) == 1
