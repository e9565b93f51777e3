"""Turns that somebody may stop: by a word in the thread, by ❌ on the question, by Slack's own button.

What must stay true: a turn is stopped from its first step until its answer is made, and not while it is being posted; the
session's process lives on, so that a stop costs no other thread its place in the context.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.persistent_session import PersistentSession


class Stopped(Exception):
    """Somebody stopped this turn; nothing of it is posted."""


class Stops:
    """By the row of the message that is answered."""

    def __init__(self) -> None:
        self._turns: dict[int, tuple[asyncio.Timeout, PersistentSession]] = {}

    @asynccontextmanager
    async def stoppable(self, row: int, session: PersistentSession) -> AsyncIterator[None]:
        """Raises Stopped out of the block."""
        try:
            async with asyncio.timeout(None) as scope:
                self._turns[row] = (scope, session)
                yield
        except TimeoutError as e:
            if scope.expired():
                raise Stopped from e
            raise
        finally:
            self._turns.pop(row, None)

    def stop(self, row: int) -> bool:
        """False: it is not being answered, or its answer is there already."""
        scope, session = self._turns.get(row, (None, None))
        if scope is None or session is None:
            return False
        if scope.when() is None:  # else it was stopped before, and is about to end
            session.spare_process()
            scope.reschedule(asyncio.get_running_loop().time())
        return True
