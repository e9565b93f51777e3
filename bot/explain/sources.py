"""What an explanation is looked up in: the trace store, the inbox, the bot's log. All of them are only read.

What must stay true: each may be missing, damaged or locked without hiding the others; what could not be read is told of
only where nothing was found.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TypeVar

from bot.explain.explanation import Explanation
from bot.explain.inbox import InboxReader, InboxUnreadable, reading_inbox
from bot.explain.log import Line, first_day, lines_with
from bot.explain.spans import explain, session_of
from telemetry.trace_file import TraceFileUnusable
from telemetry.trace_reading import StoredTrace, TraceReader, reading
from telemetry.trace_rows import REPLY

T = TypeVar("T")


class Sources:
    """`traces` and `state`: files, which need not be there. `logs`: the folder of the bot's log."""

    def __init__(self, *, traces: Path, state: Path, logs: Path, bot_runs: Callable[[], bool]) -> None:
        self._traces, self._state, self._logs = traces, state, logs
        self.bot_runs = bot_runs

    def ask_traces(self, question: Callable[[TraceReader], T]) -> T | None:
        try:
            with reading(self._traces) as traces:
                return question(traces)
        except (FileNotFoundError, TraceFileUnusable):
            return None

    def ask_inbox(self, question: Callable[[InboxReader], T]) -> T | None:
        try:
            with reading_inbox(self._state) as inbox:
                return question(inbox)
        except (FileNotFoundError, InboxUnreadable):
            return None

    def lines(self, *, trace: str = "", message: str = "", since: date | None, channel: str = "") -> list[Line]:
        """Of the trace with this id or beginning of one, or else of this message."""

        def is_mine(line: Line) -> bool:
            found = str(line.get("trace_id", "")).startswith(trace) if trace else line.get("message_ts") == message
            return found and (not channel or line.get("channel", channel) == channel)

        try:
            return lines_with(self._logs, trace or message, since=since, mine=is_mine) if trace or message else []
        except OSError:
            return []

    def searched(self) -> list[str]:
        return [self._since_traces(), self._since_inbox(), self._since_log()]

    def _since_traces(self) -> str:
        try:
            with reading(self._traces) as traces:
                return f"the trace store, {_since(traces.oldest())}"
        except FileNotFoundError:
            return "the trace store, which is not there yet"
        except TraceFileUnusable as error:
            return f"not the trace store: {error.why}"

    def _since_inbox(self) -> str:
        try:
            with reading_inbox(self._state) as inbox:
                return f"the inbox, {_since(inbox.oldest())}"
        except FileNotFoundError:
            return "the inbox, which is not there yet"
        except InboxUnreadable as error:
            return f"not the inbox: {error}"

    def _since_log(self) -> str:
        try:
            day = first_day(self._logs)
        except OSError as error:
            return f"not the bot's log: it cannot be read ({error.strerror})"
        return f"the bot's log, since {day}" if day else "the bot's log, which is empty"


def explained(stored: StoredTrace, traces: TraceReader) -> Explanation:
    """With what other traces of the store say of it."""
    key, session_id = session_of(stored)
    ended = stored.about.ended
    return explain(
        stored,
        account=traces.account(session_id) if session_id else "",
        since=traces.resets(key, since=ended) if key and ended is not None and stored.about.kind == REPLY else (),
        following=next((later.trace_id for later in traces.following(stored.about.trace_id)), ""),
    )


def _since(seconds: float | None) -> str:
    return "which is empty" if seconds is None else f"since {datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"
