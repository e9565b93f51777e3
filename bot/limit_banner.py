"""The sentence with which the CLI says itself that an account's usage limit is reached, and when that ends. Pure.

What must stay true: only what the CLI words itself is ever given to it; a model or a person may quote the same sentence.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

_BANNER = re.compile(r"(?:you(?:['’]ve| have) (?:hit|reached) your\b.*\blimit|claude (?:ai )?usage limit reached)", re.IGNORECASE)
_EPOCH = re.compile(r"limit reached\|(\d{10})\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\bresets?(?: at)? (?:([a-z]{3}) (\d{1,2}),? (?:at )?)?(\d{1,2})(?::(\d\d))? ?([ap])m(?: ?\(([^)]+)\))?", re.IGNORECASE
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def is_banner(text: str) -> bool:
    return _BANNER.match(text.lstrip()) is not None


def resets_at(text: str, *, now: float) -> float | None:
    """Seconds since the epoch; the next such moment after `now`. None where no time is told. A time without a zone is local."""
    if told := _EPOCH.search(text):
        return float(told[1])
    if (told := _CLOCK.search(text)) is None:
        return None
    month, day, hour, minute, half, zone = told.groups()
    here = datetime.fromtimestamp(now, _zone(zone))
    if not 1 <= int(hour) <= 12:
        return None
    try:
        then = here.replace(hour=int(hour) % 12 + 12 * (half.lower() == "p"), minute=int(minute or 0), second=0, microsecond=0)
        if month:
            then = then.replace(month=_MONTHS.index(month.lower()) + 1, day=int(day))
    except ValueError:
        return None
    if then <= here:
        then = then.replace(year=then.year + 1) if month else then + timedelta(days=1)
    return then.timestamp()


def _here() -> tzinfo | None:
    """The system's own, in which the CLI tells the time."""
    return datetime.now().astimezone().tzinfo


def _zone(name: str | None) -> tzinfo | None:
    """An unknown one is taken for UTC."""
    if name is None:
        return _here()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC
