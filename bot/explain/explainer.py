"""Answers `@bot why` in Slack: finds the trace that is meant and says it in a sentence, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.explain.explanation import Explanation
from bot.explain.sentence import sentence_of
from bot.explain.sources import explained
from bot.words import Language
from telemetry.events import Outcome, Thread
from telemetry.trace_file import TraceFileUnusable
from telemetry.trace_reading import Summary, TraceReader, reading
from telemetry.trace_rows import REPLY

PATIENCE_SECONDS = 2.0  # for a reply whose trace is just being written
POLL_SECONDS = 0.1
_MADE = frozenset({Outcome.ANSWERED.value, Outcome.FAILED.value})


@dataclass(frozen=True, slots=True)
class Why:
    """`thread_ts`: the root of the thread in which the explained answer stands."""

    sentence: str
    thread_ts: str


class Explainer:
    """`traces`: the file of the trace store, which need not be there. It is opened for each question, to read only."""

    def __init__(
        self, traces: Path, *, sleep: Callable[[float], None] = time.sleep, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._traces, self._sleep, self._monotonic = traces, sleep, monotonic

    async def sentence_for(self, thread: Thread, language: Language, *, message_ts: str = "") -> Why:
        """Of the reply that `message_ts` is (the question, or any message of the answer); without it, of the thread's newest.

        Always a sentence: also where nothing is known any more, or the store cannot be read.
        """
        return await asyncio.to_thread(self.sentence, thread, language, message_ts=message_ts)

    def sentence(self, thread: Thread, language: Language, *, message_ts: str = "") -> Why:
        """Waits, where the reply is just ending; not for the event loop."""
        deadline = self._monotonic() + PATIENCE_SECONDS
        while ((found := self._look(thread, message_ts)) is None or found.seconds is None) and self._monotonic() < deadline:
            self._sleep(POLL_SECONDS)
        root = found.message.thread_ts if found else ""
        return Why(sentence_of(found, language), root or thread.ts)

    def _look(self, thread: Thread, message_ts: str) -> Explanation | None:
        try:
            with reading(self._traces) as traces:
                return _explained(_meant(thread, message_ts, traces), traces)
        except (FileNotFoundError, TraceFileUnusable):
            return None


def _meant(thread: Thread, message_ts: str, traces: TraceReader) -> Summary | None:
    if message_ts:
        found = traces.by_post(message_ts, channel=thread.channel) or traces.by_message(message_ts, channel=thread.channel)
        return next((summary for summary in found if summary.team in ("", thread.team)), None)
    here = [s for s in traces.by_thread(thread.ts, channel=thread.channel) if s.kind == REPLY and s.team in ("", thread.team)]
    return next((summary for summary in here if summary.outcome in _MADE), None)


def _explained(meant: Summary | None, traces: TraceReader) -> Explanation | None:
    trace = traces.trace(meant.trace_id) if meant else None
    return explained(trace, traces) if trace else None
