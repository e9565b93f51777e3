"""The line that says what memory last did: one wording for the console, `insomnia status --line` and the log's `summary`.

Pure, and free of anything slow. What must stay true: a line is never wider than asked for, in terminal cells (Japanese
signs take two); what it leaves out in a narrow place is the name first, then details and age, the outcome last, which
still stands in 20 columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from telemetry.status_file import FAILED, STARTED, RunStatus, Status, clean

NAME = "MEMORY"
NO_RUN, NO_STATUS, STOPPED = "MEMORY – no run yet", "MEMORY ? no status", "BOT stopped"
LIMIT_SECONDS = 900.0  # when a run says no limit of its own: no turn of a session may take longer either

# In the order of the telling. Files that a merge or a drop removed are told as that.
_DONE = {"write": "wrote", "edit": "edited", "merge": "merged", "trim": "trimmed", "drop": "dropped", "delete": "deleted"}
_BRIEF = {"consolidation": "consol."}  # where 20 columns must hold the outcome too
_ASCII = str.maketrans({"…": "...", "·": "|", "–": "-", "✓": "+", "✗": "x", "⟳": ">", "↷": "-", "⊘": "/", "◼": "#"})


class Colour(StrEnum):
    PLAIN = "plain"
    GREEN = "green"
    RED = "red"
    YELLOW = "yellow"
    CYAN = "cyan"
    GREY = "grey"


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    colour: Colour = Colour.PLAIN


@dataclass(frozen=True, slots=True)
class _Look:
    symbol: str
    word: str
    colour: Colour


_LOOKS = {
    STARTED: _Look("⟳", "running…", Colour.CYAN),
    "completed": _Look("✓", "done", Colour.GREEN),
    "skipped": _Look("↷", "skipped", Colour.GREY),
    FAILED: _Look("✗", "failed", Colour.RED),
    "cancelled": _Look("⊘", "cancelled", Colour.YELLOW),
}
_STALLED = _Look("?", "stalled?", Colour.YELLOW)
_UNKNOWN = _Look("?", "unknown", Colour.YELLOW)


def summary(*, worker: str, status: str, reason: str = "", staged: int = 0, ops: Mapping[str, int] | None = None) -> str:
    """`MEMORY extract done: staged 3`: the words without symbol and age."""
    look = _LOOKS.get(status, _UNKNOWN)
    details = ", ".join(_details(status, reason, staged, ops or {}))
    return f"{NAME} {_short(worker)} {look.word}" + (f": {details}" if details else "")


def status_line(status: Status | None, width: int, now: float, *, bot_up: bool = True, plain_ascii: bool = False) -> str:
    """`status` None: it cannot be read. `now` in seconds since the epoch."""
    return "".join(part.text for part in status_parts(status, width, now, bot_up=bot_up, plain_ascii=plain_ascii))


def status_parts(status: Status | None, width: int, now: float, *, bot_up: bool = True, plain_ascii: bool = False) -> tuple[Part, ...]:
    """The same line in pieces, each with the colour that a terminal may give it; no piece is told by its colour alone."""
    for parts in _wordings(status, now, bot_up=bot_up):
        if plain_ascii:
            parts = [Part(to_ascii(part.text), part.colour) for part in parts]
        if sum(cells(part.text) for part in parts) <= width:
            return tuple(parts)
    return _cut(parts, width, "." if plain_ascii else "…")


def age(seconds: float) -> str:
    """In the largest unit that fits: `4s`, `12m`, `3h`, `2d`; a clock that was set back says `0s`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(max(0.0, seconds))}s"


def cells(text: str) -> int:
    """How much room a text takes in a terminal."""
    return sum(_cells_of(sign) for sign in text)


def to_ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def _wordings(status: Status | None, now: float, *, bot_up: bool) -> Iterator[list[Part]]:
    """From the richest to the shortest."""
    if not bot_up:
        stopped = [Part("◼ ", Colour.GREY), Part(STOPPED)]
        if status:
            yield [*stopped, *_age(now - status.at)]
        yield stopped
    elif status is None:
        yield [Part(NO_STATUS, Colour.YELLOW)]
    elif status.memory is None:
        yield [Part(NO_RUN, Colour.GREY)]
    else:
        yield from _of_run(status.memory, now)


def _of_run(run: RunStatus, now: float) -> Iterator[list[Part]]:
    running = run.status == STARTED
    took = now - run.began_at
    look = _STALLED if running and took > (run.limit_seconds or LIMIT_SECONDS) else _LOOKS.get(run.status, _UNKNOWN)
    symbol, worker, word = Part(f"{look.symbol} ", look.colour), Part(f"{_short(run.worker)} "), Part(look.word, look.colour)
    details = _details(run.status, run.reason, run.staged, run.ops)
    since = _age(took if running else now - run.at)
    yield [symbol, Part(f"{NAME} "), worker, word, *_told(details), *since]
    for kept in range(len(details), 0, -1):
        told = _told([*details[:kept], *(["…"] if kept < len(details) else [])])
        yield [symbol, worker, word, *told, *since]
    yield [symbol, worker, word, *since]
    yield [symbol, worker, word]
    brief = Part(f"{_BRIEF.get(_short(run.worker), _short(run.worker))} ")
    yield [symbol, brief, word, *since]
    yield [symbol, brief, word]
    yield [symbol, word]


def _told(details: Sequence[str]) -> list[Part]:
    return [Part(f": {', '.join(details)}")] if details else []


def _age(seconds: float) -> list[Part]:
    return [Part(f" · {age(seconds)}", Colour.GREY)]


def _details(status: str, reason: str, staged: int, ops: Mapping[str, int]) -> list[str]:
    if status == STARTED:
        return []
    if status == FAILED:
        return [clean(reason)] if reason else []  # as it is looked up
    if status == "completed" and (done := counts(staged, ops)):
        return done
    return [clean(reason).replace("_", " ")] if reason else []


def counts(staged: int, ops: Mapping[str, int]) -> list[str]:
    """What a run did, in words; nothing for what it did not."""
    told = {op: count for op, count in ops.items() if count}
    if told.keys() & {"merge", "drop"}:
        told.pop("delete", None)
    return [*([f"staged {staged}"] if staged else []), *(f"{done} {told[op]}" for op, done in _DONE.items() if op in told)]


def _short(worker: str) -> str:
    return clean(worker).removeprefix("memory_") or "run"


def _cut(parts: Sequence[Part], width: int, mark: str) -> tuple[Part, ...]:
    """Even the shortest wording is too wide: as much of it as there is room for."""
    if width <= 0:
        return ()
    kept: list[Part] = []
    room = width - 1
    for part in parts:
        text = ""
        for sign in part.text:
            room -= _cells_of(sign)
            if room < 0:
                return (*kept, Part(text + mark, part.colour))
            text += sign
        kept.append(Part(text, part.colour))
    return tuple(kept)


def _cells_of(sign: str) -> int:
    if unicodedata.combining(sign) or unicodedata.category(sign) in ("Cc", "Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1
