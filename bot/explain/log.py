"""From the bot's log lines to an `Explanation`: what is left of a reply whose process died before its trace was stored.

Lines are written at once and survive a kill; each tells of one moment. What a line does not hold stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from bot.explain.explanation import INTERRUPTED, OK, ROOT, AskedMessage, Explanation, Gate, History, Part, Reset, Session
from telemetry.events import Outcome, RefetchOutcome
from telemetry.jsonl_days import day_files
from telemetry.names import Event, Stream
from telemetry.stored_values import moment as date_of
from telemetry.stored_values import number, text, whole

Line = Mapping[str, Any]
LONGEST = 1_000_000  # bytes; more than this without an end is no line
_WELL = ("debug", "info")
_COUNTS = frozenset({"epoch", "known_threads", "forgotten", "pre_tokens", "post_tokens", "messages", "omitted"})
_LONGEST_SECONDS = 1e9
_TOOK = frozenset({Event.THREAD_REFETCHED, Event.SESSION_STARTED, Event.REPLY})  # their `seconds` end with the line


def lines_with(folder: Path, word: str, *, since: date | None = None, mine: Callable[[Line], bool]) -> list[Line]:
    """Lines that hold the word and are `mine`, in order. Raises OSError where the folder cannot be read."""
    wanted = word.encode("utf-8", "replace")
    names = [name for day, name in day_files(folder, Stream.BOT) if since is None or day >= since]
    return [line for name in names for line in _read(folder / name, wanted) if mine(line)]


def first_day(folder: Path) -> date | None:
    return next((day for day, _ in day_files(folder, Stream.BOT)), None)


def _read(path: Path, wanted: bytes) -> Iterator[Line]:
    """Most lines are of other replies: they are not taken apart."""
    with path.open("rb") as file:
        while raw := file.readline(LONGEST):
            if wanted in raw and (line := _line(raw)) is not None:
                yield line


def _line(raw: bytes) -> Line | None:
    """None: broken off, or not ours. Its fields are of the types that they have to be; one that is not is left out."""
    try:
        read = json.loads(raw)
        is_ours = isinstance(read["event"], str) and date_of(at(read)) is not None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    return {key: kept for key, value in read.items() if (kept := _kept(key, value)) is not None} if is_ours else None


def _kept(key: str, value: Any) -> str | int | float | None:
    if key in _COUNTS:
        return whole(value)
    if key == "seconds":
        seconds = number(value)
        return seconds if seconds is not None and 0 <= seconds < _LONGEST_SECONDS else None
    return text(value)


def at(line: Line) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(line["ts"]).timestamp()


def explain_lines(lines: Sequence[Line]) -> Explanation:
    """`lines`: of one trace, or of one message that has none; at least one. Without its end it was interrupted."""
    last: dict[str, Line] = {line["event"]: line for line in lines}
    gate, reply = last.get(Event.GATE_DECISION, {}), last.get(Event.REPLY, {})
    dropped, injected = last.get(Event.MESSAGE_DROPPED, {}), last.get(Event.THREAD_INJECTED, {})
    end = reply or dropped
    began = min(at(line) - _took(line) for line in lines)
    return Explanation(
        trace_id=_first(lines, "trace_id"),
        source="log",
        message=AskedMessage(
            team=_first(lines, "team"),
            channel=_first(lines, "channel"),
            ts=_first(lines, "message_ts"),
            thread_ts=_first(lines, "thread_ts"),
        ),
        outcome=str(end.get("outcome", INTERRUPTED)),
        reason=str(end.get("reason", "")),
        began=began,
        seconds=reply.get("seconds"),
        gate=Gate(
            decision=str(gate.get("decision", "")),
            reason=str(gate.get("reason", "")),
            injection=str(injected.get("injection", "")),
            epoch=gate.get("epoch"),
            known_threads=gate.get("known_threads"),
        ),
        history=_history(last.get(Event.THREAD_REFETCHED, {}), injected),
        session=_session(lines),
        parts=tuple(_parts(lines, end, began=began)),
    )


def _first(lines: Sequence[Line], key: str) -> str:
    return next((str(line[key]) for line in lines if line.get(key)), "")


def _history(refetched: Line, injected: Line) -> History:
    return History(
        read=int(refetched.get("messages", 0)),
        injected=int(injected.get("messages", 0)),
        omitted=int(injected.get("omitted", 0)),
        incomplete=refetched.get("outcome") in (RefetchOutcome.INCOMPLETE, RefetchOutcome.FAILED),
    )


def _session(lines: Sequence[Line]) -> Session:
    resets = [line for line in lines if line["event"] == Event.SESSION_RESET]
    return Session(
        route=_first(lines, "route"),
        key=_first(lines, "session_key"),
        id=_first(lines[::-1], "session_id"),
        account=_first(lines[::-1], "account"),
        resets=tuple(
            Reset(
                cause=str(line.get("cause", "")),
                how=str(line.get("how", "")),
                epoch=line.get("epoch"),
                forgotten=line.get("forgotten"),
                pre_tokens=line.get("pre_tokens"),
                post_tokens=line.get("post_tokens"),
            )
            for line in resets
        ),
    )


def _parts(lines: Sequence[Line], end: Line, *, began: float) -> Iterator[Part]:
    """The whole first, then each line as the moment it is."""
    seconds = end.get("seconds")
    ms = None if not end else round(float(seconds or 0.0) * 1000, 1)
    status = INTERRUPTED if not end else OK if end.get("outcome") == Outcome.ANSWERED else str(end.get("reason") or end.get("outcome"))
    yield Part(name=ROOT, start_ms=0.0, ms=ms, status=status)
    yield from (moment(line, began=began) for line in lines if line is not end)


def moment(line: Line, *, began: float) -> Part:
    took = _took(line) * 1000
    status = OK if line.get("level") in _WELL else str(line.get("error") or line.get("level") or OK)
    start = round(max((at(line) - began) * 1000 - took, 0.0), 1)
    return Part(name=line["event"], start_ms=start, ms=round(took, 1) if line["event"] in _TOOK else None, status=status, depth=1)


def _took(line: Line) -> float:
    """Seconds."""
    return float(line.get("seconds") or 0.0) if line["event"] in _TOOK else 0.0
