"""`insomnia`, on a machine whose wall clock is off by as many seconds as the file in SET_CLOCK says, read at each look."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

FILE = Path(os.environ.pop("SET_CLOCK"))
now, now_ns = time.time, time.time_ns


def off() -> float:
    return float(FILE.read_text())


def _set(name: str, clock: Callable[[], float]) -> None:
    setattr(time, name, clock)


_set("time", lambda: now() + off())
_set("time_ns", lambda: now_ns() + int(off() * 1e9))

if __name__ == "__main__":
    from bot.__main__ import main

    sys.exit(main(sys.argv[1:]))
