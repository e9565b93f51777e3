"""Time by part: one row a part, a bar where it stood in the whole. Pure; widths are terminal cells.

A part that is in no trace but in the log is a moment and gets a tick. What has not ended is drawn open to the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bot.explain.explanation import INTERRUPTED, OK, RUNNING, Part

MOST_ROWS = 40  # a page; the rest is in the JSON
_NAME, _LEAST_NAME, _TIME, _LEAST_BAR = 30, 12, 10, 12
_FULL, _OPEN, _TICK = "█", "░", "│"


def waterfall(parts: Sequence[Part], *, width: int) -> Iterator[str]:
    """`width` in cells. Nothing for no parts."""
    if not parts:
        return
    shown = parts[:MOST_ROWS]
    names = [f"{'  ' * part.depth}{part.name}" for part in shown]
    statuses = [part.status if part.status != OK else "" for part in shown]
    status_wide = max(map(len, statuses))
    room = width - _TIME - status_wide - (2 if status_wide else 0) - 2
    names_wide = min(max(map(len, names)), _NAME, max(room - _LEAST_BAR, _LEAST_NAME))
    bar_wide = max(room - names_wide, _LEAST_BAR)
    end = max((part.start_ms + (part.ms or 0.0) for part in parts), default=0.0)
    for part, name, status in zip(shown, names, statuses, strict=True):
        bar = _bar(part, end=end, cells=bar_wide)
        yield f"{_cut(name, names_wide):{names_wide}} {bar} {_time(part):>{_TIME}}{'  ' + status if status else ''}".rstrip()
    if len(parts) > MOST_ROWS:
        yield f"and {len(parts) - MOST_ROWS} more: --json shows them all"


def duration(ms: float) -> str:
    if ms < 999.5:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _bar(part: Part, *, end: float, cells: int) -> str:
    """At least one cell, and never beyond the last."""
    scale = cells / end if end > 0 else 0.0
    first = min(max(int(part.start_ms * scale), 0), cells - 1)
    if part.ms is None:
        drawn = _OPEN * (cells - first) if part.status in (RUNNING, INTERRUPTED) else _TICK
    else:
        drawn = _FULL * min(max(round(part.ms * scale), 1), cells - first)
    return (" " * first + drawn).ljust(cells)


def _time(part: Part) -> str:
    return duration(part.ms) if part.ms is not None else "" if part.status in (RUNNING, INTERRUPTED) else f"+{duration(part.start_ms)}"


def _cut(name: str, wide: int) -> str:
    return name if len(name) <= wide else f"{name[: wide - 1]}…"
