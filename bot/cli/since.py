"""`--since`: how long ago, or a time."""

from __future__ import annotations

import re
import time
from datetime import datetime

from bot.cli import USAGE, CommandError
from bot.cli.terminal import one_line

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def since(text: str) -> float:
    """Seconds since the epoch."""
    ago = re.fullmatch(r"(\d{1,9})([smhdw])", text, re.ASCII)
    try:
        return time.time() - int(ago[1]) * UNITS[ago[2]] if ago else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise CommandError(
            f"--since {one_line(text)}: say how long ago (90s, 15m, 1h, 2d, 1w) or a time (2026-01-31T09:00)", USAGE
        ) from error
