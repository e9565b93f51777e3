"""When consolidation runs in a running bot, with a consolidator that only records: triggers, order, who waits for whom."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from memory.consolidation.due import StagingBacklog
from memory.consolidation.past import Past
from telemetry.memory_events import MemoryReason, MemoryTrigger, MemoryWorker
from telemetry.names import SpanName
from tests.bot.memory_ground import EMPTY, FEW, FULL, LINK, MANY, SOME, Ground

T = MemoryTrigger
HOUR = 3_600.0


@pytest.fixture
def ground() -> Ground:
    return Ground(look_seconds=0.01)


# -- triggers ------------------------------------------------------------------------------------------------------------
async def test_an_extract_run_that_staged_enough_is_followed_by_consolidation_linked_to_the_same_reply(ground: Ground) -> None:
    ground.extract.stages.add("s1")
    ground.extract.when_staged = lambda: setattr(ground.consolidator, "waiting", FULL)
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", MANY)
        with ground.emit.span(SpanName.PROCESS) as reply:
            workers.turn_ended("main", "main", "s1")

        assert (await ground.extract.next())[1] is T.TURN_THRESHOLD
        assert await ground.consolidator.next() == (T.STAGING_BACKLOG, reply.ref)


async def test_it_comes_before_the_sessions_that_wait_for_extract() -> None:
    ground = Ground()
    ground.extract.stages |= {"s1", "s2"}
    ground.extract.when_staged = lambda: setattr(ground.consolidator, "waiting", FULL)
    order: list[str] = []
    async with ground.workers as workers:
        for id in ("s1", "s2"):
            ground.session(id, FEW)
            workers.session_ended("main", "main", id, LINK)
        workers.begin()
        for _ in range(2):
            order.append((await ground.extract.next())[0])
            order.append((await ground.consolidator.next())[0])

    assert order == ["s1", T.STAGING_BACKLOG, "s2", T.STAGING_BACKLOG]


async def test_staging_too_little_is_a_count_and_nothing_else() -> None:
    ground = Ground(look_seconds=0.01)
    ground.extract.stages.add("s1")
    ground.consolidator.waiting = SOME
    async with ground.workers as workers:
        workers.begin()
        ground.session("s1", FEW)
        workers.session_ended("main", "main", "s1", LINK)
        await ground.until(lambda: ground.not_due(MemoryWorker.CONSOLIDATION))
        await ground.after_looks()

    assert ground.not_due(MemoryWorker.CONSOLIDATION) == 1, "a look that finds nothing due is no check that somebody asked for"
    assert ground.consolidator.drained.empty() and ground.consolidator.skipped == []


async def test_an_extract_run_that_staged_nothing_asks_for_nothing() -> None:
    ground = Ground()
    async with ground.workers as workers:
        workers.begin()
        await ground.until(lambda: ground.counted)
        checks = ground.consolidator.checks
        ground.session("s1", FEW)
        workers.session_ended("main", "main", "s1", LINK)
        await ground.extract.next()
        await ground.until(lambda: len(ground.counted) > 1)

    assert ground.not_due(MemoryWorker.CONSOLIDATION) == 0 and checks > 0


@pytest.mark.parametrize(
    "waiting",
    [
        FULL,
        StagingBacklog(candidates=2, fresh=2, bytes=32 * 1024),
        StagingBacklog(candidates=1, fresh=1, bytes=10, oldest_seconds=24 * HOUR),
    ],
)
async def test_a_backlog_is_found_by_looking_now_and_then(ground: Ground, waiting: StagingBacklog) -> None:
    async with ground.workers as workers:
        workers.begin()
        await ground.after_looks(1)
        ground.consolidator.waiting = waiting
        ground.clock.at += 60.0

        assert await ground.consolidator.next() == (T.STAGING_BACKLOG, None)


async def test_looks_are_made_at_their_time_however_often_somebody_speaks() -> None:
    ground = Ground(look_seconds=60.0)
    async with ground.workers as workers:
        workers.begin()
        for _ in range(5):
            workers.turn_ended("main", "main", "s1")
            await asyncio.sleep(0.01)
        often = ground.consolidator.checks
        ground.clock.at += 60.0
        workers.turn_ended("main", "main", "s1")
        await ground.until(lambda: ground.consolidator.checks > often)

    assert often <= 4  # the count at start, the first look, and its count


async def test_half_an_hour_of_quiet_brings_it_on_once_in_six_hours(ground: Ground) -> None:
    ground.consolidator.waiting = SOME
    ground.consolidator.history = Past(ended=ground.clock.now() - 5.4 * HOUR)
    async with ground.workers as workers:
        workers.begin()
        await ground.after_looks()
        ground.clock.at += 0.5 * HOUR
        workers.turn_ended("main", "main", "s1")  # it is 5.9 hours and some looks since the last run; and then it is not quiet
        await ground.after_looks(10)
        assert ground.consolidator.drained.empty()
        ground.clock.at += 0.5 * HOUR

        assert await ground.consolidator.next() == (T.IDLE, None)


async def test_quiet_alone_is_not_enough_before_six_hours_have_passed(ground: Ground) -> None:
    ground.consolidator.waiting = SOME
    ground.consolidator.history = Past(ended=ground.clock.now())
    async with ground.workers as workers:
        workers.begin()
        ground.clock.at += 5 * HOUR
        await ground.after_looks()
        assert ground.consolidator.drained.empty()
        ground.clock.at += HOUR

        assert await ground.consolidator.next() == (T.IDLE, None)


async def test_a_dead_run_that_got_its_end_at_this_start_is_followed_by_another_before_sessions_are_read() -> None:
    ground = Ground(recovered=True)
    ground.consolidator.waiting = SOME
    ground.extract.known = [ground.session("old", FEW)]
    async with ground.workers as workers:
        workers.begin()

        assert await ground.consolidator.next() == (T.STARTUP_RECOVERY, None)
        assert ground.extract.recovered == 1
        assert (await ground.extract.next())[:2] == ("old", T.STARTUP_RECOVERY)


@pytest.mark.parametrize(("recovered", "waiting"), [(True, EMPTY), (False, SOME)])
async def test_no_run_follows_a_start_where_none_died_or_nothing_waits(recovered: bool, waiting: StagingBacklog) -> None:
    ground = Ground(recovered=recovered)
    ground.consolidator.waiting = waiting
    async with ground.workers as workers:
        workers.begin()
        await ground.until(lambda: ground.counted)

    assert ground.consolidator.drained.empty()


async def test_the_store_is_looked_after_before_each_run(ground: Ground) -> None:
    seen: list[int] = []
    async with ground.workers as workers:
        workers.begin()
        for _ in range(2):
            ground.consolidator.waiting = FULL
            ground.clock.at += 60.0
            await ground.consolidator.next()
            seen.append(ground.consolidator.looked_after)
        await workers.consolidate_now()

    assert seen == [1, 2] and ground.consolidator.looked_after == 3


# -- asked for by a person -----------------------------------------------------------------------------------------------
async def test_a_person_who_asks_gets_it_at_once_after_what_is_under_way() -> None:
    ground = Ground()
    ground.extract.stuck.add("long")
    async with ground.workers as workers:
        workers.begin()
        for id in ("long", "s2"):
            ground.session(id, FEW)
            workers.session_ended("main", "main", id, LINK)
        await ground.extract.next()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(workers.consolidate_now())
            await asyncio.sleep(0.02)
            assert ground.consolidator.drained.empty() and not asking.done()
            ground.extract.let_go()
            assert await ground.consolidator.next() == (T.MANUAL, None)
            assert ground.extract.drained.empty(), "a session that waited came first"

    assert [result.run_id for result in asking.result()] == ["c"]


@pytest.mark.parametrize("asks", ["extract_now", "consolidate_now"])
async def test_a_person_who_asks_while_an_idle_run_is_under_way_waits_for_its_end(ground: Ground, asks: str) -> None:
    ground.consolidator.waiting, ground.consolidator.stuck = SOME, True
    async with ground.workers as workers:
        workers.begin()
        ground.clock.at += 6 * HOUR
        assert (await ground.consolidator.next())[0] is T.IDLE
        ground.extract.known = [ground.session("s1", FEW)]
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(getattr(workers, asks)())
            await asyncio.sleep(0.02)
            assert not asking.done() and ground.extract.drained.empty() and ground.consolidator.drained.empty()
            ground.consolidator.let_go()

    assert asking.result() and ground.consolidator.cancelled == []


async def test_a_person_who_hangs_up_cancels_the_run_as_his_wish(ground: Ground) -> None:
    ground.consolidator.stuck = True
    async with ground.workers as workers:
        workers.begin()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(workers.consolidate_now())
            await ground.consolidator.next()
            asking.cancel()
        ground.consolidator.stuck = False

        assert ground.consolidator.cancelled == [(MemoryReason.USER_CANCELLED,)]


async def test_a_person_who_hangs_up_before_it_began_begins_nothing_and_cancels_nobody(ground: Ground) -> None:
    ground.consolidator.waiting, ground.consolidator.stuck = SOME, True
    async with ground.workers as workers:
        workers.begin()
        ground.clock.at += 6 * HOUR
        await ground.consolidator.next()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(workers.consolidate_now())
            await asyncio.sleep(0.02)
            asking.cancel()
        ground.consolidator.let_go()
        await ground.after_looks()

    assert ground.consolidator.cancelled == [] and ground.consolidator.drained.empty()


# -- the end of the bot --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("asked", [True, False])
async def test_at_the_end_a_run_is_cut_within_the_drain_as_interrupted(asked: bool) -> None:
    ground = Ground(look_seconds=0.01, drain_seconds=0.05)
    ground.consolidator.stuck = True
    asking: asyncio.Task[object] | None = None
    async with asyncio.timeout(2):
        async with ground.workers as workers:
            workers.begin()
            if asked:
                asking = asyncio.get_running_loop().create_task(workers.consolidate_now())
            else:
                ground.consolidator.waiting = FULL
            await ground.consolidator.next()

    assert ground.consolidator.cancelled == [(MemoryReason.INTERRUPTED,)]
    assert asking is None or ((await asyncio.gather(asking, return_exceptions=True)) and asking.cancelled())


async def test_who_is_sent_away_as_the_bot_ends_has_not_hung_up(ground: Ground) -> None:
    ground.consolidator.stuck = True
    async with ground.workers as workers:
        workers.begin()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(workers.consolidate_now())
            await ground.consolidator.next()
            workers.leave()
            asking.cancel()

    assert ground.consolidator.cancelled == [(MemoryReason.INTERRUPTED,)]


async def test_once_the_bot_ends_no_further_run_begins(ground: Ground) -> None:
    ground.consolidator.stuck = True
    async with ground.workers as workers:
        workers.begin()
        async with asyncio.TaskGroup() as group:
            first, second = (group.create_task(workers.consolidate_now()) for _ in range(2))
            await ground.consolidator.next()
            assert ground.consolidator.goes_on()
            workers.leave()
            assert not ground.consolidator.goes_on(), "the wish under way ends with the run under way"
            ground.consolidator.let_go()

    assert len(first.result()) == 1 and second.result() == [] and ground.consolidator.drained.empty()


async def test_a_run_that_ends_in_time_is_let_end(ground: Ground) -> None:
    ground.consolidator.waiting = FULL
    ground.consolidator.stuck = True
    async with ground.workers as workers:
        workers.begin()
        await ground.consolidator.next()
        asyncio.get_running_loop().call_later(0.05, ground.consolidator.let_go)

    assert ground.consolidator.cancelled == [] and ground.consolidator.waiting is EMPTY


async def test_what_the_end_of_the_bot_stages_is_left_to_the_next_start() -> None:
    ground = Ground()
    ground.extract.stages |= {"s1", "s2"}
    ground.extract.when_staged = lambda: setattr(ground.consolidator, "waiting", FULL)
    async with ground.workers as workers:
        workers.begin()
        await ground.until(lambda: ground.counted)
        for id in ("s1", "s2"):
            ground.session(id, FEW)
            workers.turn_ended("main", "main", id)

    assert [(await ground.extract.next())[:2] for _ in range(2)] == [("s1", T.SESSION_END), ("s2", T.SESSION_END)]
    assert ground.consolidator.drained.empty() and ground.consolidator.waiting is FULL


# -- switched off --------------------------------------------------------------------------------------------------------
async def test_switched_off_it_says_so_where_it_would_have_begun_and_runs_when_asked() -> None:
    ground = Ground(consolidates=False, recovered=True, look_seconds=0.01)
    ground.extract.stages.add("s1")
    ground.consolidator.waiting = FULL
    async with ground.workers as workers:
        workers.begin()
        await ground.after_looks()
        assert ground.consolidator.skipped == [] and ground.consolidator.drained.empty()
        ground.session("s1", FEW)
        workers.session_ended("main", "main", "s1", LINK)
        await ground.until(lambda: ground.consolidator.skipped)
        await ground.after_looks()
        assert ground.consolidator.skipped == [(T.STAGING_BACKLOG, MemoryReason.DISABLED)] and ground.consolidator.drained.empty()

        await workers.consolidate_now()

    assert await ground.consolidator.next() == (T.MANUAL, None)


async def test_it_runs_by_itself_where_only_extract_is_switched_off() -> None:
    ground = Ground(extracts=False, look_seconds=0.01)
    ground.consolidator.waiting = SOME
    ground.consolidator.history = Past(ended=datetime(2020, 1, 1, tzinfo=UTC).timestamp())
    async with ground.workers as workers:
        workers.begin()
        ground.clock.at += 0.4 * HOUR
        workers.turn_ended("main", "main", "s1")
        ground.clock.at += 0.4 * HOUR
        await ground.after_looks()
        assert ground.consolidator.drained.empty(), "somebody spoke, though nothing is read of it"
        ground.clock.at += 0.4 * HOUR

        assert (await ground.consolidator.next())[0] is T.IDLE
