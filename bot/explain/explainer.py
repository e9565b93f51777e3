"""Answers `@bot why` in Slack: finds the trace that is meant and says it in a sentence, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.explain.explanation import Explanation
from bot.explain.sentence import never_answered, sentence_of
from bot.explain.sources import explained
from bot.words import Language
from telemetry.events import Outcome, Thread
from telemetry.trace_file import TraceFileUnusable
from telemetry.trace_reading import Summary, TraceReader, reading
from telemetry.trace_rows import REPLY

PATIENCE_SECONDS = 2.0  # for a reply whose trace is just being written
POLL_SECONDS = 0.1
_MADE_OR_BEING_MADE = frozenset({Outcome.ANSWERED.value, Outcome.FAILED.value, ""})


@dataclass(frozen=True, slots=True)
class Why:
    """`thread_ts`: the root of the thread in which the explained answer stands."""

    sentence: str
    thread_ts: str


@dataclass(frozen=True, slots=True)
class _Look:
    """`never`: there is nothing, and there would be if the bot had ever answered."""

    found: Explanation | None = None
    never: bool = False


class Explainer:
    """`traces`: the file of the trace store, which need not be there. It is opened for each question, to read only."""

    def __init__(
        self, traces: Path, *, sleep: Callable[[float], None] = time.sleep, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._traces, self._sleep, self._monotonic = traces, sleep, monotonic

    async def sentence_for(self, thread: Thread, language: Language, *, message_ts: str = "", besides: str = "") -> Why:
        """Of the reply that `message_ts` is (the question, or any message of the answer); without it, of the thread's newest.

        `besides`: the message in which it is asked, which is no question to the model. Always a sentence: also where
        nothing is known any more, or the store cannot be read.
        """
        return await asyncio.to_thread(self.sentence, thread, language, message_ts=message_ts, besides=besides)

    def sentence(self, thread: Thread, language: Language, *, message_ts: str = "", besides: str = "") -> Why:
        """Waits, where the reply is just ending; not for the event loop."""
        deadline = self._monotonic() + PATIENCE_SECONDS
        while _may_change(look := self._look(thread, message_ts, besides)) and self._monotonic() < deadline:
            self._sleep(POLL_SECONDS)
        root = look.found.message.thread_ts if look.found else ""
        return Why(never_answered(language) if look.never else sentence_of(look.found, language), root or thread.ts)

    def _look(self, thread: Thread, message_ts: str, besides: str) -> _Look:
        try:
            with reading(self._traces) as traces:
                found = _explained(_meant(thread, message_ts, besides, traces), traces)
                return _Look(found, never=found is None and not message_ts and _reaches_back(traces, thread))
        except (FileNotFoundError, TraceFileUnusable):
            return _Look()


def _may_change(look: _Look) -> bool:
    return look.found is None or look.found.seconds is None


def _reaches_back(traces: TraceReader, thread: Thread) -> bool:
    """To before the thread began."""
    oldest = traces.oldest()
    try:
        return oldest is not None and oldest < float(thread.ts)
    except ValueError:
        return False


def _meant(thread: Thread, message_ts: str, besides: str, traces: TraceReader) -> Summary | None:
    """In a thread: the newest reply that was made or is being made, or else the newest attempt at one."""
    if message_ts:
        found = traces.by_post(message_ts, channel=thread.channel) or traces.by_message(message_ts, channel=thread.channel)
        return next((summary for summary in found if summary.team in ("", thread.team)), None)
    found = traces.by_thread(thread.ts, channel=thread.channel)
    here = [s for s in found if s.kind == REPLY and s.team in ("", thread.team) and s.ts != besides and s.outcome != Outcome.DROPPED]
    return next((summary for summary in here if summary.outcome in _MADE_OR_BEING_MADE), next(iter(here), None))


def _explained(meant: Summary | None, traces: TraceReader) -> Explanation | None:
    trace = traces.trace(meant.trace_id) if meant else None
    return explained(trace, traces) if trace else None
