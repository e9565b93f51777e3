"""Values read back from a file that somebody or some disk may have damaged: each as the type that it has to have, or as nothing.

What must stay true: nothing here raises, whatever it is given, and what it gives can be shown, added up and turned into dates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from telemetry.emit import AttrValue

MOST_WHOLE = 2**63  # beyond it SQLite has no integers either
FIRST_MOMENT, LAST_MOMENT = -1e10, 1e11  # seconds since the epoch, the years 1653 and 5138: dates that every calendar has


def text(value: object) -> str:
    """Empty for what is no text and no number; without lone surrogates, which neither SQLite nor a terminal takes."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, bool) or whole(value) is not None or number(value) is not None else ""


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -MOST_WHOLE <= value < MOST_WHOLE else None


def number(value: object) -> float | None:
    if isinstance(value, float):
        return value if math.isfinite(value) and abs(value) < MOST_WHOLE else None
    return None if (found := whole(value)) is None else float(found)


def moment(value: object) -> float | None:
    """Seconds since the epoch."""
    at = number(value)
    return at if at is not None and FIRST_MOMENT < at < LAST_MOMENT else None


def moment_ns(value: object) -> int | None:
    """Nanoseconds since the epoch."""
    at = whole(value)
    return at if at is not None and moment(at / 1e9) is not None else None


def attributes(value: object) -> dict[str, AttrValue]:
    """Those of a span whose values attributes can have."""
    if not isinstance(value, Mapping):
        return {}
    return {text(key): kept for key, one in value.items() if (kept := _attribute(one)) is not None}


def _attribute(value: Any) -> AttrValue | None:
    if isinstance(value, list):
        return [text(one) for one in value]
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool):
        return value
    return whole(value) if isinstance(value, int) else number(value)
