"""When extract runs in a running bot, with an extractor that only records: order, triggers, and that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.memory_extracting import Extractions
from memory.extract import RunResult, Session
from memory.triggers import Backlog, Thresholds
from telemetry.memory_events import MemoryReason, MemoryTrigger
from telemetry.names import SpanName
from tests.bot.ground import FakeClock, RecordingEmit
from tests.bot.memory_ground import FEW, LINK, MANY, NONE, Ground

T = MemoryTrigger


@pytest.fixture
def ground() -> Ground:
    return Ground()


async def test_what_earlier_processes_left_is_ended_first_and_then_read(ground: Ground) -> None:
    ground.extract.known = [ground.session("old", FEW), ground.session("read")]

    async with ground.workers as workers:
        workers.begin()
        first = await ground.extract.next()

    assert first == ("old", T.STARTUP_RECOVERY, None) and ground.extract.drained.empty()


async def test_the_end_of_a_session_is_read_at_once_and_linked_to_its_last_reply(ground: Ground) -> None:
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", FEW)
        ground.workers.session_ended("main", "main", "s1", LINK)
        ground.workers.session_ended("main", "main", "", LINK)

        assert await ground.extract.next() == ("s1", T.SESSION_END, LINK)


@pytest.mark.parametrize(("backlog", "trigger"), [(MANY, T.TURN_THRESHOLD), (Backlog(turns=3, tokens=8_000, entries=6), T.TOKEN_THRESHOLD)])
async def test_a_turn_that_passes_a_threshold_is_followed_by_a_run(ground: Ground, backlog: Backlog, trigger: MemoryTrigger) -> None:
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", backlog)
        with ground.emit.span(SpanName.PROCESS) as reply:
            ground.workers.turn_ended("main", "main", "s1")

        assert await ground.extract.next() == ("s1", trigger, reply.ref)


async def test_a_turn_below_the_thresholds_is_a_count_and_nothing_else() -> None:
    ground = Ground(look_seconds=0.01)
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", FEW)
        ground.workers.turn_ended("main", "main", "s1")
        async with asyncio.timeout(5):
            while not ground.not_due():
                await asyncio.sleep(0)
        assert ground.extract.drained.empty()

    assert ground.not_due() == 1


async def test_a_session_that_nobody_spoke_to_for_ten_minutes_is_read() -> None:
    ground = Ground(look_seconds=0.01)
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", FEW)
        ground.workers.turn_ended("main", "main", "s1")
        async with asyncio.timeout(5):
            while not ground.not_due():
                await asyncio.sleep(0)
        ground.clock.at += Thresholds().idle_seconds

        assert (await ground.extract.next())[:2] == ("s1", T.IDLE)


async def test_a_session_waits_for_one_run_at_most_and_its_first_trigger_stays(ground: Ground) -> None:
    ground.extract.stuck.add("long")
    async with ground.workers as workers:
        workers.begin()
        ground.workers.session_ended("main", "main", "long", None)
        await ground.extract.next()
        for id, link in (("s1", LINK), ("s2", None), ("s1", None)):
            ground.session(id, FEW)
            ground.workers.session_ended("main", "main", id, link)
        waiting = [(due.session.id, due.link) for due in ground.workers._extractions.waiting]
        ground.workers._drain_seconds = 0.0

    assert waiting == [("s1", LINK), ("s2", None)]


async def test_telling_the_workers_of_a_turn_waits_for_nothing_even_while_a_run_hangs(ground: Ground) -> None:
    ground.extract.stuck.add("long")
    async with ground.workers as workers:
        workers.begin()
        ground.workers.session_ended("main", "main", "long", None)
        await ground.extract.next()

        assert not asyncio.iscoroutinefunction(ground.workers.turn_ended) and not asyncio.iscoroutinefunction(ground.workers.session_ended)
        ground.workers.turn_ended("main", "main", "s1")
        ground.workers._drain_seconds = 0.0


async def test_a_defect_around_one_run_does_not_end_the_next_one(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    async with ground.workers as workers:
        workers.begin()
        for id in ("broken", "s1"):
            ground.session(id, FEW)
            ground.workers.session_ended("main", "main", id, None)

        assert [(await ground.extract.next())[0] for _ in range(2)] == ["broken", "s1"]

    assert "RuntimeError around a memory run" in capsys.readouterr().err


# -- asked for by a person -----------------------------------------------------------------------------------------------
async def test_a_person_who_asks_gets_every_session_read(ground: Ground) -> None:
    async with ground.workers as workers:
        workers.begin()
        while not ground.extract.recovered:
            await asyncio.sleep(0.001)
        ground.extract.known = [ground.session("s1", FEW), ground.session("s2")]

        ended = await ground.workers.extract_now()

    assert [result.session_id for result in ended] == ["s1", "s2"]
    assert [(await ground.extract.next())[1] for _ in range(2)] == [T.MANUAL, T.MANUAL]


async def test_a_person_who_hangs_up_cancels_the_run_as_his_wish() -> None:
    ground = Ground(extracts=False)  # what it does by itself would come between
    ground.extract.stuck.add("long")
    async with ground.workers as workers:
        workers.begin()
        while not ground.extract.recovered:
            await asyncio.sleep(0.001)
        ground.extract.known = [ground.session("long", FEW), ground.session("s2", FEW)]
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ground.workers.extract_now())
            await ground.extract.next()
            asking.cancel()
        ground.extract.stuck.clear()

        assert ground.extract.cancelled == [(MemoryReason.USER_CANCELLED,)] and ground.extract.drained.empty()


# -- the end of the bot --------------------------------------------------------------------------------------------------
async def test_at_the_end_what_is_unread_is_read_and_what_is_read_is_left_alone(ground: Ground) -> None:
    async with ground.workers as workers:
        workers.begin()
        for id, backlog in (("s1", FEW), ("s2", NONE)):
            ground.session(id, backlog)
            ground.workers.turn_ended("main", "main", id)

    assert (await ground.extract.next())[:2] == ("s1", T.SESSION_END) and ground.extract.drained.empty()


async def test_a_run_that_does_not_end_is_cut_at_the_drain_as_interrupted() -> None:
    ground = Ground(drain_seconds=0.05)
    ground.extract.stuck.add("long")
    async with asyncio.timeout(2):
        async with ground.workers as workers:
            workers.begin()
            ground.session("long", FEW)
            ground.workers.session_ended("main", "main", "long", None)
            await ground.extract.next()

    assert ground.extract.cancelled == [(MemoryReason.INTERRUPTED,)]


async def test_where_it_is_switched_off_nothing_runs_but_what_a_person_asks_for() -> None:
    ground = Ground(extracts=False, consolidates=False)
    ground.extract.known = [ground.session("s1", FEW)]
    async with ground.workers as workers:
        workers.begin()
        ground.workers.turn_ended("main", "main", "s1")
        ground.workers.session_ended("main", "main", "s1", None)
        while not ground.extract.recovered:
            await asyncio.sleep(0.001)

        await ground.workers.extract_now()

    assert (await ground.extract.next())[1] == T.MANUAL and ground.extract.drained.empty()


async def test_a_turn_that_comes_while_an_idle_session_is_looked_at_is_not_forgotten() -> None:
    class Meanwhile:
        """A turn comes while the backlog of the session is looked at."""

        def backlog(self, session: Session) -> Backlog:
            if turns:
                extractions.turn_ended(*turns.pop())
            return NONE

        def sessions(self) -> Sequence[Session]:
            return ()

        def recover(self) -> Sequence[RunResult]:
            return ()

        async def drain(self, session: Session, *_: object, **__: object) -> Sequence[RunResult]:
            return ()

    turn, turns = ("main", "main", "s1"), list[tuple[str, str, str]]()
    extractions = Extractions(
        Meanwhile(),
        folder=Path("/sessions"),
        clock=FakeClock(),
        emit=RecordingEmit(),
        wake=lambda: None,
        thresholds=Thresholds(idle_seconds=0.0),
    )
    extractions.turn_ended(*turn)
    (seen,) = extractions.to_check()
    seen.to_check = False

    turns.append(turn)
    await extractions.check(seen)

    (newer,) = extractions.to_check()
    assert newer is not seen
    newer.to_check = False
    await extractions.check(newer)
    assert not extractions.to_check()
