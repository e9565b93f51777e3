"""The address at which a command asks the bot for a memory run: who may ask, and what hanging up does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from bot.memory_control import MemoryControl
from telemetry.memory_events import MemoryReason, MemoryTrigger
from tests.bot.memory_ground import FEW, Ground

pytestmark = pytest.mark.slack  # loopback sockets
TOKEN = {"Authorization": "Bearer of-the-test"}


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    made = Ground()
    async with made.workers as workers:
        workers.begin()
        await made.until(lambda: made.counted)
        yield made


@pytest.fixture
async def control(ground: Ground) -> AsyncIterator[MemoryControl]:
    async with MemoryControl(ground.workers, token="of-the-test") as made:
        yield made


@pytest.mark.parametrize(("worker", "ids"), [("extract", ["r"]), ("consolidation", ["c"])])
async def test_who_has_the_token_gets_the_run_and_how_it_ended(ground: Ground, control: MemoryControl, worker: str, ids: list[str]) -> None:
    ground.extract.known = [ground.session("s1", FEW)]

    async with aiohttp.ClientSession() as http, http.post(control.url + worker, headers=TOKEN, json={}) as answer:
        ended = await answer.json()

    assert answer.status == 200 and [result["run_id"] for result in ended] == ids


@pytest.mark.parametrize("worker", ["extract", "consolidation"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {**TOKEN, "Origin": "http://localhost"}])
async def test_nobody_else_gets_one(ground: Ground, control: MemoryControl, worker: str, headers: dict[str, str]) -> None:
    ground.extract.known = [ground.session("s1", FEW)]

    async with aiohttp.ClientSession() as http, http.post(control.url + worker, headers=headers, json={}) as answer:
        told = await answer.json()

    assert (answer.status, told) == (401, {"error": "the bot's token is missing or wrong"})
    assert ground.extract.drained.empty() and ground.consolidator.drained.empty()


async def test_whoever_hangs_up_cancels_what_he_asked_for(ground: Ground, control: MemoryControl) -> None:
    ground.consolidator.stuck = True
    async with aiohttp.ClientSession() as http:
        asking = asyncio.get_running_loop().create_task(http.post(control.url + "consolidation", headers=TOKEN, json={}))
        assert (await ground.consolidator.next())[0] is MemoryTrigger.MANUAL
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await ground.until(lambda: ground.consolidator.cancelled)
    ground.consolidator.stuck = False

    assert ground.consolidator.cancelled == [(MemoryReason.USER_CANCELLED,)]


async def test_who_still_waits_as_the_bot_ends_has_not_hung_up() -> None:
    ground = Ground(drain_seconds=0.05)
    ground.consolidator.stuck = True
    async with aiohttp.ClientSession() as http:
        async with ground.workers as workers, MemoryControl(workers, token="of-the-test") as control:
            workers.begin()
            asking = asyncio.get_running_loop().create_task(http.post(control.url + "consolidation", headers=TOKEN, json={}))
            await ground.consolidator.next()
        await asyncio.gather(asking, return_exceptions=True)

    assert ground.consolidator.cancelled == [(MemoryReason.INTERRUPTED,)]
