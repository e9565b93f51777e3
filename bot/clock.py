"""The real clock behind the `Clock` port, and the zone in which people are shown times."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def system_zone() -> tzinfo:
    """With its changes of offset, which a fixed offset of today would get wrong for a thread of last summer."""
    try:
        if name := os.environ.get("TZ"):
            return ZoneInfo(name.removeprefix(":"))
        with LOCALTIME.open("rb") as f:
            return ZoneInfo.from_file(f, key="localtime")
    except (KeyError, ValueError, OSError):
        return UTC
