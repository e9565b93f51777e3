"""Reads a thread back from Slack: all pages, within a deadline, in bounded memory, and honest about what is missing.

A history is whole, or it says `incomplete` and why; when nothing could be read, HistoryUnreadable says why. Nothing here
returns an empty history in place of an error. Only messages before the one being answered belong to it, whatever Slack sends,
and the bot's own answers: they were given before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from bot.messages import Role, Said
from bot.ports import Clock, SlackError, SlackPort
from bot.quoting import LINE_CHARS, MAX_MESSAGE_CHARS, said_line
from bot.slack_text import Me, author_of, mentioned_users, said_of, speaker_of
from bot.thread_pages import Deadline, Pages, Window, read_all
from telemetry.events import Reason

MAX_HISTORY_CHARS = 16_000  # about 4k tokens of English, 16k of Japanese: a tenth of rotate_at at worst
LONG_MESSAGE_CHARS = 2_000  # of one message, once the thread is long
LONG_THREAD = 20  # messages; longer threads get the smaller bound, so that one report does not push ten answers out
FRAME_CHARS = 500  # what the block has besides its lines: tags, the sentence about quoting, notes, the mark of the gap
FETCH_SECONDS = 20.0  # for everything, waits included: a person is waiting
NAME_SECONDS = 1.0  # for names, even when the pages took all the time: most are cached, and a reader needs them


class HistoryUnreadable(Exception):
    """Not one page could be read. `retry_after`: seconds Slack still asks to wait; `asked_to_wait`: in all, waits kept included."""

    def __init__(self, reason: Reason, *, retry_after: float = 0.0, asked_to_wait: float = 0.0) -> None:
        super().__init__(f"thread history could not be read: {reason}")
        self.reason, self.retry_after, self.asked_to_wait = reason, retry_after, asked_to_wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What of a thread goes into a prompt, whole; `cap` is how much of one message its line may show.

    `gap_after` of the kept messages stand before the place where `omitted` others were left out.
    """

    kept: tuple[Said, ...]
    omitted: int
    gap_after: int | None
    cap: int

    def without(self, shown: Callable[[Said], bool]) -> Trimmed:
        """The same without what the session was shown already; the mark of the gap stays in its place."""
        left = tuple(said for said in self.kept if not shown(said))
        before = set(self.kept[: self.gap_after or 0])
        return replace(self, kept=left, gap_after=None if self.gap_after is None else sum(said in before for said in left))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHistory:
    """`messages`: the root, where it is there, and the newest of the rest, oldest first: more than the budget holds, never all.

    `read` counts every message that Slack gave and that belongs to it; `expected` is Slack's own count of the thread, None
    where it told none. `retry_after`: seconds Slack still asks to wait; `asked_to_wait`: in all.
    """

    thread_ts: str
    messages: tuple[Said, ...]
    read: int
    pages: int
    expected: int | None = None
    incomplete: bool = False
    why: Reason | None = None
    retry_after: float = 0.0
    asked_to_wait: float = 0.0

    @property
    def root_missing(self) -> bool:
        return not self.messages or self.messages[0].ts != self.thread_ts

    @property
    def omitted(self) -> int:
        """Read, but let go while reading: the budget could not have held them."""
        return self.read - len(self.messages)

    def trimmed(self) -> Trimmed:
        return trim(self.messages, total=self.read, root_ts=self.thread_ts)

    def notes(self) -> tuple[str, ...]:
        """What the model has to know of this reading, in words for `quoting.thread_block`."""
        count = f"{self.read} of about {self.expected} messages" if self.expected and self.expected > self.read else f"{self.read} messages"
        part = f"Incomplete: Slack could not be read to the end ({self.why}); {count} were read, later ones are missing."
        gone = "The first message of this thread is gone, it was deleted."
        return (part,) * self.incomplete + (gone,) * self.root_missing


def unread_note(reason: Reason) -> str:
    """What the model has to know where there is no history at all."""
    return f"The earlier messages of this thread could not be read from Slack ({reason}): say so, do not guess what they said."


async def fetch_thread_history(
    client: SlackPort,
    channel: str,
    thread_ts: str,
    *,
    bot_user_id: str,
    user_resolver: Callable[[str], Awaitable[str]],
    before: str,
    me: Me,
    verified: Callable[[str], bool],
    clock: Clock,
    seconds: float = FETCH_SECONDS,
) -> ThreadHistory:
    """All messages of the thread before the ts `before` ("": all), and all of the bot's own.

    Raises HistoryUnreadable where not one page could be read.
    """
    me = replace(me, user_id=bot_user_id or me.user_id)
    deadline = Deadline(clock, clock.monotonic() + seconds)
    pages = Pages(client, channel, thread_ts, deadline=deadline)
    window = Window(thread_ts, before, is_own=lambda message: speaker_of(message, me, {}).role is Role.OWN)
    stopped = await read_all(pages, window)
    if stopped and not pages.read:
        raise HistoryUnreadable(stopped.reason, retry_after=stopped.retry_after, asked_to_wait=pages.asked_to_wait) from stopped
    raw = window.messages()
    names = await _names(raw, user_resolver, seconds=deadline.remaining())
    return ThreadHistory(
        thread_ts=thread_ts,
        messages=tuple(said_of(message, me=me, names=names, verified=verified) for message in raw),
        read=window.read,
        pages=pages.read,
        expected=window.expected,
        incomplete=stopped is not None,
        why=stopped.reason if stopped else None,
        retry_after=stopped.retry_after if stopped else 0.0,
        asked_to_wait=pages.asked_to_wait,
    )


def trim(messages: Sequence[Said], *, total: int, root_ts: str | None = None) -> Trimmed:
    """The root and, newest first, all that the budget holds; `total` counts the thread, with those that were let go before.

    The first message is the root unless `root_ts` says that it is another. The lines and their frame stay within
    MAX_HISTORY_CHARS; only where a few long messages fill it to the brim the frame comes on top, so that whatever fits at
    LINE_CHARS a line is always there.
    """
    cap = LONG_MESSAGE_CHARS if total > LONG_THREAD else MAX_MESSAGE_CHARS
    has_root = bool(messages) and root_ts in (None, messages[0].ts)
    root, rest = (list(messages[:1]), messages[1:]) if has_root else ([], messages)
    newest = _newest(rest, cap=cap, taken=root)
    omitted = total - len(root) - len(newest)
    return Trimmed(kept=(*root, *newest), omitted=omitted, gap_after=len(root) if omitted else None, cap=cap)


def _newest(rest: Sequence[Said], *, cap: int, taken: Sequence[Said]) -> list[Said]:
    shown = MAX_HISTORY_CHARS - FRAME_CHARS - sum(_line(said, cap) for said in taken)
    counted = MAX_HISTORY_CHARS - sum(_at_most(said, cap) for said in taken)
    newest: list[Said] = []
    for said in reversed(rest):
        shown, counted = shown - _line(said, cap), counted - _at_most(said, cap)
        if shown < 0 and counted < 0:
            break
        newest.append(said)
    return newest[::-1]


def _line(said: Said, cap: int) -> int:
    return len(said_line(said, UTC, cap=cap)) + 1


def _at_most(said: Said, cap: int) -> int:
    return min(len(said.text), cap) + LINE_CHARS


async def _names(messages: Sequence[Mapping[str, Any]], resolve: Callable[[str], Awaitable[str]], *, seconds: float) -> Mapping[str, str]:
    """The display names that can be had in time; a missing one shows as its id."""
    names: dict[str, str] = {}

    async def ask(user: str) -> None:
        with suppress(SlackError, TimeoutError):
            names[user] = await resolve(user)

    users = {user for message in messages for user in (author_of(message), *mentioned_users(message)) if user}
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, NAME_SECONDS)), asyncio.TaskGroup() as group:
            for user in sorted(users):
                group.create_task(ask(user))
    return names
