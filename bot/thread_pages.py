"""The pages of one thread as Slack gives them: read within a deadline, tried again where that can help, kept in bounded memory.

Nothing that was read is lost to a later failure: a page that cannot be had in time stops the reading, with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.ports import Clock, Page, SlackError, SlackPort
from bot.slack_blocks import string
from telemetry.events import Reason

CALL_SECONDS = 8.0  # for one page, so that a dead connection leaves time for another try
PAGE_SIZE = 1_000  # Slack's maximum; it gives what it likes
TAIL = 400  # messages besides the root: more of the shortest lines than MAX_HISTORY_CHARS can hold
RETRY_PAUSES = (0.5, 1.5)  # seconds before each further try of a page
SHORTEST_WAIT = 1.0  # seconds, where Slack limits the rate and does not say for how long

_RATE_LIMITED = frozenset({"ratelimited", "rate_limited"})
_TRANSIENT = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "timeout", "connection", "connection_refused"}
)
_REASONS = {
    **dict.fromkeys(_RATE_LIMITED, Reason.RATE_LIMITED),
    "missing_scope": Reason.MISSING_SCOPE,
    "not_in_channel": Reason.NOT_IN_CHANNEL,
    "channel_not_found": Reason.NOT_IN_CHANNEL,
    "thread_not_found": Reason.THREAD_GONE,
    "timeout": Reason.TIMEOUT,
    "request_timeout": Reason.TIMEOUT,
}


class Stopped(Exception):
    """No further page can be read in time."""

    def __init__(self, reason: Reason, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.retry_after = reason, retry_after


@dataclass(frozen=True, slots=True)
class Deadline:
    clock: Clock
    ends: float

    def remaining(self) -> float:
        return self.ends - self.clock.monotonic()


@dataclass(slots=True)
class Pages:
    """The pages of one thread. A page that cannot be had in time raises Stopped, whatever was read before stays read."""

    client: SlackPort
    channel: str
    thread_ts: str
    deadline: Deadline
    read: int = 0
    asked_to_wait: float = 0.0

    async def page(self, cursor: str) -> Page:
        for pause in (*RETRY_PAUSES, None):
            try:
                page = await self._patiently(cursor)
            except SlackError as error:
                if pause is None or not _is_transient(error.code) or pause >= self.deadline.remaining():
                    raise Stopped(_REASONS.get(error.code, Reason.SLACK_ERROR), error.retry_after) from error
                await self.deadline.clock.sleep(pause)
            else:
                self.read += 1
                return page
        raise AssertionError("unreachable: the last try returns or raises")

    async def _patiently(self, cursor: str) -> Page:
        """Waits as often as Slack asks, as long as it can be done in time."""
        while True:
            try:
                return await self._call(cursor)
            except SlackError as error:
                if error.code not in _RATE_LIMITED:
                    raise
                wait = max(error.retry_after, SHORTEST_WAIT)
                self.asked_to_wait += wait
                if wait >= self.deadline.remaining():
                    raise Stopped(Reason.RATE_LIMITED, wait) from error
                await self.deadline.clock.sleep(wait)

    async def _call(self, cursor: str) -> Page:
        remaining = self.deadline.remaining()
        if remaining <= 0:
            raise Stopped(Reason.TIMEOUT)
        try:
            async with asyncio.timeout(min(remaining, CALL_SECONDS)):
                return await self.client.replies(self.channel, self.thread_ts, cursor=cursor, limit=PAGE_SIZE)
        except TimeoutError as error:
            raise SlackError("conversations.replies", "timeout") from error


def _is_transient(code: str) -> bool:
    return code in _TRANSIENT or code.startswith("http_5")


@dataclass(slots=True)
class Window:
    """The root and the newest messages before `before`, by ts; the rest is only counted.

    The bot's own messages belong to it whatever their ts: one after `before` is the answer to an earlier question, which was
    still under way when the message at `before` was written. No later reading would have a reason to bring it.
    Slack may repeat messages on later pages, so those at or below the oldest one that was let go count as seen.
    """

    thread_ts: str
    before: str
    is_own: Callable[[Mapping[str, Any]], bool] = lambda _: False
    root: Mapping[str, Any] | None = None
    newest: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    let_go: int = 0
    floor: str = ""

    @property
    def read(self) -> int:
        return self.let_go + len(self.newest) + (self.root is not None)

    @property
    def expected(self) -> int | None:
        replies = self.root.get("reply_count") if self.root else None
        return replies + 1 if isinstance(replies, int) else None

    def take(self, message: Mapping[str, Any]) -> None:
        ts = string(message.get("ts"))
        if not ts or not _is_settled(message) or (self.before and ts >= self.before and not self.is_own(message)):
            return
        if ts == self.thread_ts:
            self.root = message
        elif ts > self.floor:
            self.newest[ts] = message
            self._let_go()

    def _let_go(self) -> None:
        if len(self.newest) < 2 * TAIL:
            return
        order = sorted(self.newest)
        gone, kept = order[:-TAIL], order[-TAIL:]
        self.newest = {ts: self.newest[ts] for ts in kept}
        self.let_go, self.floor = self.let_go + len(gone), gone[-1]

    def messages(self) -> list[Mapping[str, Any]]:
        tail = [self.newest[ts] for ts in sorted(self.newest)[-TAIL:]]
        return [self.root, *tail] if self.root is not None else tail


def _is_settled(message: Mapping[str, Any]) -> bool:
    """Not what is still being written, and not the gravestone of a deleted root."""
    return message.get("streaming_state") != "in_progress" and message.get("subtype") != "tombstone"


async def read_all(pages: Pages, window: Window) -> Stopped | None:
    """None when the thread was read to its end."""
    cursor, seen = "", set[str]()
    try:
        while True:
            page = await pages.page(cursor)
            for message in page.messages:
                if isinstance(message, Mapping):
                    window.take(message)
            cursor = page.next_cursor
            if not cursor:
                return None
            if cursor in seen:  # a server that goes in circles would hold the lane until the deadline
                return Stopped(Reason.SLACK_ERROR)
            seen.add(cursor)
    except Stopped as stopped:
        return stopped
