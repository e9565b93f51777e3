"""An answer as Slack messages: split, neutralised, each part with the metadata that says whose answer it is.

What must stay true: every part stands in the thread of its message or nowhere; a refusal by Slack is answered with
plainer, shorter text, never with silence; the status is cleared at every end and never set again after the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bot.messages import GateSummary, Message
from bot.mrkdwn import neutralise, split
from bot.ports import Clock, Posted, SlackError, SlackPort
from telemetry.emit import Emit, Span
from telemetry.events import FailReason, Outcome
from telemetry.names import Attr, SpanName

EVENT_TYPE = "insomnia_reply"
PAYLOAD_FORMAT = 1
PART_CHARS = 4_000  # Slack's advice for `text`, and what chat.update takes at most
SHORTER_CHARS = 2_500  # after a refusal: below the 3,000 of a section, in which some clients render text
STATUS_REFRESH_SECONDS = 90.0  # Slack clears a status by itself after two minutes
RATE_LIMIT_WAITS = 5
LONGEST_WAIT_SECONDS = 60.0
REFUSED_FOR_SIZE = frozenset({"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format"})
# Slack, or the network, did not take the post. A lost connection or a time-out is not among them: it may stand there already.
NOT_TAKEN = frozenset({"internal_error", "fatal_error", "service_unavailable", "connection_refused", "http_502", "http_503"})
# Nobody knows whether it stands in Slack: it is not repeated, and nobody is told that it was not taken.
UNSURE = frozenset({"timeout", "request_timeout", "connection"})
ROOT_IS_GONE = frozenset({"thread_not_found", "cannot_reply_to_message"})


class ReplyLost(Exception):
    """The answer could not be put into its thread; `reason` says why. Nothing of it is left elsewhere.

    `unsure`: the connection was lost over it, so it may stand there all the same.
    """

    def __init__(self, reason: FailReason, *, unsure: bool = False) -> None:
        super().__init__(reason.value)
        self.reason, self.unsure = reason, unsure


@dataclass(frozen=True, slots=True)
class Delivered:
    parts: tuple[str, ...]


class Replies:
    def __init__(self, slack: SlackPort, *, clock: Clock, emit: Emit) -> None:
        self._slack, self._clock, self._emit = slack, clock, emit

    async def post(self, message: Message, text: str, *, outcome: Outcome, trace_id: str, gate: GateSummary | None) -> Delivered:
        """Raises ReplyLost."""
        parts = split(neutralise(text), PART_CHARS)
        payload = {
            "v": PAYLOAD_FORMAT,
            "message": f"{message.thread.team}/{message.thread.channel}/{message.ts}",
            "trace_id": trace_id,
            "outcome": outcome.value,
            "gate": _gate(gate),
        }
        with self._emit.span(SpanName.SLACK_REPLY, {Attr.REPLY_METHOD: "chat.postMessage", Attr.REPLY_CHUNKS: len(parts)}) as span:
            try:
                return await self._whole(message, parts, payload, span)
            except _Refused:
                shorter = split(neutralise(text), SHORTER_CHARS)
                span.set({Attr.REPLY_FALLBACK: True, Attr.REPLY_CHUNKS: len(shorter)})
            except ReplyLost as e:
                span.set({Attr.REPLY_MISPLACED: e.reason is FailReason.THREAD_GONE})
                raise
            try:
                return await self._whole(message, shorter, payload, span)
            except _Refused as e:
                raise ReplyLost(FailReason.SLACK_ERROR) from e

    async def _whole(self, message: Message, parts: list[str], payload: Mapping[str, Any], span: Span) -> Delivered:
        delivered = Delivered(tuple([p.ts for p in await self._parts(message, parts, payload)]))
        span.set({Attr.REPLY_TS: delivered.parts})  # by which an answer is found that somebody points at
        return delivered

    async def _parts(self, message: Message, parts: list[str], payload: Mapping[str, Any]) -> list[Posted]:
        posted: list[Posted] = []
        for number, part in enumerate(parts, start=1):
            metadata = {"event_type": EVENT_TYPE, "event_payload": {**payload, "part": number, "parts": len(parts)}}
            try:
                posted.append(await self._one(message, part, metadata))
            except (_Refused, ReplyLost) as e:
                if not (isinstance(e, ReplyLost) and e.unsure):  # else its end may stand there: without its beginning it would be worse
                    await self._take_back(message, posted)
                raise
        return posted

    async def _one(self, message: Message, text: str, metadata: Mapping[str, Any]) -> Posted:
        thread = message.thread
        for attempt in range(RATE_LIMIT_WAITS + 1):
            try:
                posted = await self._slack.post(thread.channel, text, thread_ts=thread.ts, metadata=metadata)
            except SlackError as e:
                await self._bear(e, last=attempt == RATE_LIMIT_WAITS)
                continue
            if posted.thread_ts != thread.ts:  # the root is gone, and Slack put the reply into the channel
                await self._take_back(message, [posted])
                raise ReplyLost(FailReason.THREAD_GONE)
            return posted
        raise ReplyLost(FailReason.SLACK_ERROR)

    async def _bear(self, e: SlackError, *, last: bool) -> None:
        """Waits where another try makes sense; else raises what the refusal means."""
        if e.code in REFUSED_FOR_SIZE:
            raise _Refused from e
        if e.code in ROOT_IS_GONE:
            raise ReplyLost(FailReason.THREAD_GONE) from e
        rate_limited = e.code in ("ratelimited", "rate_limited", "message_limit_exceeded")
        if last or not (rate_limited or e.code in NOT_TAKEN):
            raise ReplyLost(FailReason.SLACK_ERROR, unsure=e.code in UNSURE) from e
        await self._clock.sleep(min(e.retry_after or 1.0, LONGEST_WAIT_SECONDS))

    async def _take_back(self, message: Message, posted: list[Posted]) -> None:
        """Half an answer, or one in the wrong place, is worse than none."""
        for part in posted:
            with suppress(SlackError):  # counted by the adapter; there is nothing better to do
                await self._slack.delete(message.thread.channel, part.ts)


class Status:
    """ "is thinking…" in one thread: refreshed before Slack drops it, cleared at its end whatever happened."""

    def __init__(self, slack: SlackPort, message: Message, *, clock: Clock) -> None:
        self._slack, self._message, self._clock = slack, message, clock
        self._working = False
        self._refreshing: asyncio.Task[None] | None = None

    async def show(self, words: str) -> None:
        """Replaces what is shown; does not wait for Slack."""
        await self.settle()
        self._refreshing = asyncio.get_running_loop().create_task(self._keep(words))  # owned: `settle` awaits it

    async def settle(self) -> None:
        """Before the reply: from now on nothing sets the status again."""
        task, self._refreshing = self._refreshing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # its end only: a cancellation of ours goes on

    async def _keep(self, words: str) -> None:
        await self._set(words)
        if not self._working:
            self._working = True
            await self._work(on=True)
        while True:
            await self._clock.sleep(STATUS_REFRESH_SECONDS)
            await self._set(words)

    async def _set(self, words: str) -> None:
        with suppress(SlackError):  # a courtesy; the adapter counts the failure
            await self._slack.set_status(self._message.thread.channel, self._message.thread.ts, words)

    async def __aenter__(self) -> Status:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.settle()
        await asyncio.gather(self._set(""), *([self._work(on=False)] if self._working else []))

    async def _work(self, *, on: bool) -> None:
        with suppress(SlackError):  # a courtesy, too
            await self._slack.set_working(self._message.thread.channel, self._message.thread.ts, on=on)


class _Refused(Exception):
    """Slack found the text too long, whatever its documentation says."""


def _gate(gate: GateSummary | None) -> dict[str, Any] | None:
    if gate is None:
        return None
    injection = gate.injection.value if gate.injection else None
    return {
        "decision": gate.decision.value,
        "reason": gate.reason.value,
        "injection": injection,
        "messages": gate.messages,
        "omitted": gate.omitted,
    }
