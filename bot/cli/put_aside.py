"""Ranges that extract put aside for good: one line, wherever a person looks at what the memory holds."""

from __future__ import annotations

from pathlib import Path

from bot.cli.terminal import one_line
from memory.disk import Disk
from memory.quarantine import Quarantine

MOST = 5  # named in the line


def put_aside(state: Path) -> str:
    """`state`: `.insomnia`. Empty: there is none."""
    ranges = Quarantine(state / "memory" / "_state", disk=Disk()).all()
    if not ranges:
        return ""
    named = ", ".join(f"{one_line(one.session_id)[:8]} {one.first} to {one.last}" for one in ranges[:MOST])
    more = f" and {len(ranges) - MOST} more" if len(ranges) > MOST else ""
    return f"Put aside, as the model could not read it (the text is still in the session's log): entries of {named}{more}."
