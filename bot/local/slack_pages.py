"""Cursors and windows, as Slack has them: a cursor names the first item of the next page, so a page stays right when
something is said or deleted between two calls. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TypeVar

from bot.local.slack_records import Message, micros

MAX_PAGE = 1000  # Slack's own limit for conversations.*

T = TypeVar("T")


class BadCursor(ValueError):
    pass


def page(items: Sequence[T], *, key: Callable[[T], str], cursor: str, limit: int, descending: bool = False) -> tuple[list[T], str]:
    """The page that the cursor names ("": the first) and the cursor of the next one ("": there is none). `items` are in
    the order in which they are shown. Raises BadCursor."""
    start = 0
    if cursor:
        first = _read(cursor)
        start = next((i for i, item in enumerate(items) if (key(item) <= first if descending else key(item) >= first)), len(items))
    end = start + limit
    return list(items[start:end]), _write(key(items[end])) if end < len(items) else ""


def within(messages: Sequence[Message], *, oldest: str, latest: str, inclusive: bool) -> list[Message]:
    """Slack's window: both ends are left out unless `inclusive`. Empty ends are open. Raises ValueError for a bad ts."""
    low, high = micros(oldest) if oldest else -1, micros(latest) if latest else None
    edge = 1 if inclusive else 0
    return [m for m in messages if micros(m["ts"]) > low - edge and (high is None or micros(m["ts"]) < high + edge)]


def _write(key: str) -> str:
    return base64.b64encode(b"next:" + key.encode()).decode()


def _read(cursor: str) -> str:
    try:
        kind, _, key = base64.b64decode(cursor, validate=True).decode().partition(":")
    except ValueError as error:  # not base64, or not UTF-8
        raise BadCursor(cursor) from error
    if kind != "next" or not key:
        raise BadCursor(cursor)
    return key
