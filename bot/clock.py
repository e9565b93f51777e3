"""The real clock behind the `Clock` port, and the zone in which people are shown times."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from datetime import UTC, datetime, tzinfo
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
    """With its changes of offset, which a fixed offset of today would get wrong for a thread of last summer.

    Only a TZ that names no zone (`JST-9`) leaves nothing better than the C library's offset of today.
    """
    name = os.environ.get("TZ")
    if name is None:
        return _zone_in(LOCALTIME) or UTC
    name = name.removeprefix(":")
    if not name:
        return UTC  # as the C library takes it
    found = _zone_in(Path(name)) if name.startswith("/") else _zone_called(name)
    return found or datetime.now().astimezone().tzinfo or UTC


def _zone_called(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _zone_in(path: Path) -> tzinfo | None:
    try:
        with path.open("rb") as f:
            return ZoneInfo.from_file(f, key=path.name)
    except (ValueError, OSError, struct.error):  # the last one: a file that breaks off
        return None
