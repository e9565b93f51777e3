"""👀 on a message that waits in its lane longer than a moment, until it has its end. A courtesy: nothing waits for it.

What must stay true: where it was put it is taken away again, also by the process after this one; a message that is answered at
once costs no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bot.ports import Clock, SlackError, SlackPort

EYES = "eyes"
MOMENT_SECONDS = 3.0  # most turns before this one end by then, or this one's own status shows
CLOSE_SECONDS = 5.0


@dataclass(slots=True)
class _Sign:
    channel: str
    ts: str
    there: bool  # an earlier process may have put it there
    asked: bool = False  # this one has asked Slack for it
    showing: asyncio.Task[None] | None = None


class Eyes:
    def __init__(self, slack: SlackPort, *, clock: Clock) -> None:
        self._slack, self._clock = slack, clock
        self._signs: dict[int, _Sign] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def waits(self, row: int, channel: str, ts: str, *, again: bool) -> None:
        """`again`: an earlier process took it, and may have put the sign there."""
        sign = self._signs[row] = _Sign(channel, ts, there=again)
        sign.showing = self._own(self._show(sign))

    def begun(self, row: int) -> None:
        """It waits no more: what does not show yet will not."""
        sign = self._signs.get(row)
        if sign is not None and sign.showing is not None and not sign.asked:
            sign.showing.cancel()

    def ended(self, row: int) -> None:
        self.begun(row)
        sign = self._signs.pop(row, None)
        if sign is not None and (sign.asked or sign.there):
            self._own(self._take_away(sign))

    async def _show(self, sign: _Sign) -> None:
        await self._clock.sleep(MOMENT_SECONDS)
        sign.asked = True
        await self._set(sign, on=True)

    async def _take_away(self, sign: _Sign) -> None:
        if sign.showing is not None:
            await asyncio.gather(sign.showing, return_exceptions=True)  # or it would be put there after it was taken away
        await self._set(sign, on=False)

    async def _set(self, sign: _Sign, *, on: bool) -> None:
        with suppress(SlackError):  # counted by the adapter
            await self._slack.react(sign.channel, sign.ts, EYES, on=on)

    async def close(self) -> None:
        """What still waits keeps its sign for the next process."""
        for sign in self._signs.values():
            if sign.showing is not None:
                sign.showing.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
