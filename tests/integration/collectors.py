"""Where a bot may send its telemetry: nowhere, to a collector, or to one that is dead, hangs, or comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from itertools import cycle
from pathlib import Path

from telemetry.receiver import Answer, Receiver
from tests.integration.story import Story, story

PATIENT = {"OTEL_EXPORTER_OTLP_TIMEOUT": "600000"}  # milliseconds: an exporter that hangs goes on hanging
PHASE_SECONDS = 0.3  # of one that comes and goes: several of them in the time of a few replies


class Kind(StrEnum):
    NONE = "none"
    GOOD = "good"
    DEAD = "dead"
    HANGING = "hanging"
    FLAPPING = "flapping"


@asynccontextmanager
async def story_with(kind: Kind, folder: Path) -> AsyncIterator[Story]:
    """A story whose bot has this collector, from its start to its end."""
    folder.mkdir(exist_ok=True)
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": ""} if kind is Kind.NONE else PATIENT
    async with story(folder, environment=environment) as told, asyncio.TaskGroup() as group:
        flapping = group.create_task(_flap(told.collector)) if kind is Kind.FLAPPING else None
        if kind is Kind.HANGING:
            told.collector.answer = Answer.HANG
        if kind is Kind.DEAD:
            told.collector.stop()
        try:
            yield told
        finally:
            if flapping:
                flapping.cancel()


async def _flap(collector: Receiver) -> None:
    """Each way to be unwell, and well again in between."""
    for answer in cycle((Answer.UNAVAILABLE, Answer.OK, Answer.HANG, Answer.OK, None, Answer.OK)):
        if answer is None:
            await asyncio.to_thread(collector.stop)
            await asyncio.sleep(PHASE_SECONDS)
            collector.start()
        else:
            collector.answer = answer
            await asyncio.sleep(PHASE_SECONDS)
