"""Two small parts of anything that waits: a set of tasks that their owner ends, and a beat that many can wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class OwnTasks:
    """Holds its tasks, so that none is collected while it runs; a task that fails is told to the loop's handler."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            task.get_loop().call_exception_handler({"message": "embedded workspace", "exception": error, "task": task})


class Beat:
    """`strike` wakes everybody who waits for the next one; nothing is remembered for those who come later."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def strike(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def next(self, seconds: float) -> bool:
        """False when none came in time. The caller checks its condition before it waits: nothing can slip in between,
        since both run in one loop."""
        try:
            async with asyncio.timeout(seconds):
                await self._next.wait()
        except TimeoutError:
            return False
        return True
