"""An answer as Slack messages: split, neutralised, each part with the metadata that says whose answer it is.

What must stay true: every part stands in the thread of its message once, or nowhere; what became of a post is looked up
where nobody told, never guessed; a refusal by Slack is answered with plainer, shorter text, never with silence; the status
is cleared at every end and never set again after the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from bot.messages import GateSummary, Message
from bot.mrkdwn import neutralise
from bot.outbox import Outbox
from bot.patience import Patience
from bot.ports import Clock, SlackError, SlackPort
from bot.reply_parts import Reply, gate_payload
from bot.slack_codes import NEVER_SENT, RATE_LIMITED, TIMED_OUT, is_doubtful
from bot.slack_text import Me
from bot.standing import LONGEST_WAIT_SECONDS, Standing
from telemetry.emit import Emit, Span
from telemetry.events import FailReason, Outcome, StateTrouble
from telemetry.names import Attr, SpanName

SHORTER_CHARS = 2_500  # after a refusal: below the 3,000 of a section, in which some clients render text
STATUS_REFRESH_SECONDS = 90.0  # Slack clears a status by itself after two minutes
RATE_LIMIT_WAITS = 5
REFUSED_FOR_SIZE = frozenset({"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format"})
ROOT_IS_GONE = frozenset({"thread_not_found", "cannot_reply_to_message"})
# Before each look whether a post arrived. One that was timed out may still be on its way through Slack.
ARRIVAL_PAUSES, LATE_ARRIVAL_PAUSES = (1.0,), (1.0, 4.0, 10.0)


class ReplyLost(Exception):
    """The answer could not be put into its thread; `reason` says why. Nothing of it is left elsewhere.

    `unsure`: nobody knows what became of a post, and Slack does not tell, so it may stand there all the same.
    """

    def __init__(self, reason: FailReason, *, unsure: bool = False) -> None:
        super().__init__(reason.value)
        self.reason, self.unsure = reason, unsure


@dataclass(frozen=True, slots=True)
class Delivered:
    parts: tuple[str, ...]


class Replies:
    def __init__(self, slack: SlackPort, outbox: Outbox, *, me: Me, clock: Clock, emit: Emit, patience: Patience) -> None:
        self._slack, self._outbox, self._clock, self._emit, self._patience = slack, outbox, clock, emit, patience
        self._standing = Standing(slack, me=me, clock=clock)

    async def post(
        self,
        message: Message,
        text: str,
        *,
        outcome: Outcome,
        trace_id: str,
        gate: GateSummary | None,
        reason: FailReason | None = None,
        session_id: str = "",
        put_off: Callable[[], Awaitable[None]] | None = None,
    ) -> Delivered:
        """`put_off`: called where the disk does not take the reply now. Raises ReplyLost; GivenUp where the bot ends before it does."""
        reply = Reply(
            text=neutralise(text), outcome=outcome, trace_id=trace_id, gate=gate_payload(gate), reason=reason, session_id=session_id
        )
        await self._keep(message, reply, put_off)
        return await self._deliver(message, reply, begun=False)

    def begun(self, message: Message) -> Reply | None:
        """What an earlier attempt was about to post, or has posted."""
        return self._outbox.kept(message.row)

    async def say_beside(self, message: Message, text: str) -> None:
        """A sentence in the thread that is no answer; a courtesy, so once and without another try."""
        with suppress(SlackError):
            posted = await self._slack.post(message.thread.channel, text, thread_ts=message.thread.ts)
            if posted.thread_ts != message.thread.ts:
                await self._take_back(message, [posted.ts])

    async def resume(self, message: Message, reply: Reply) -> Delivered:
        """Posts what of a begun reply is missing. Raises ReplyLost, GivenUp."""
        return await self._deliver(message, reply, begun=True)

    async def _keep(self, message: Message, reply: Reply, put_off: Callable[[], Awaitable[None]] | None = None) -> None:
        await self._patience.insist(lambda: self._outbox.keep(message.row, reply), trouble=StateTrouble.NOT_KEPT, tell=put_off)

    async def _deliver(self, message: Message, reply: Reply, *, begun: bool) -> Delivered:
        with self._emit.span(SpanName.SLACK_REPLY, {Attr.REPLY_METHOD: "chat.postMessage", Attr.REPLY_CHUNKS: len(reply.parts)}) as span:
            try:
                return await self._whole(message, reply, span, begun=begun)
            except _Refused as e:
                if reply.part_chars == SHORTER_CHARS:
                    raise ReplyLost(FailReason.SLACK_ERROR) from e
            except ReplyLost as e:
                span.set({Attr.REPLY_MISPLACED: e.reason is FailReason.THREAD_GONE})
                raise
            shorter = replace(reply, part_chars=SHORTER_CHARS)
            span.set({Attr.REPLY_FALLBACK: True, Attr.REPLY_CHUNKS: len(shorter.parts)})
            await self._keep(message, shorter)
            try:
                return await self._whole(message, shorter, span, begun=False)
            except _Refused as e:
                raise ReplyLost(FailReason.SLACK_ERROR) from e

    async def _whole(self, message: Message, reply: Reply, span: Span, *, begun: bool) -> Delivered:
        there = await self._look(message, reply) if begun else {}
        if there:
            span.set({Attr.REPLY_FOUND: len(there)})
        posted = await self._parts(message, reply, there, begun=begun)
        delivered = Delivered(tuple(posted[number] for number in sorted(posted)))
        span.set({Attr.REPLY_TS: delivered.parts})  # by which an answer is found that somebody points at
        return delivered

    async def _parts(self, message: Message, reply: Reply, there: dict[int, tuple[str, ...]], *, begun: bool) -> dict[int, str]:
        posted, doubted = {number: ts[0] for number, ts in there.items()}, False
        try:
            for number in range(1, len(reply.parts) + 1):
                if number not in posted:
                    posted[number], repeated = await self._one(message, reply, number)
                    doubted |= repeated or begun  # what the dead bot had sent may have been under way
        except (_Refused, ReplyLost) as e:
            if not (isinstance(e, ReplyLost) and e.unsure):  # else its end may stand there: without its beginning it would be worse
                await self._take_back(message, posted.values())
            raise
        if doubted:
            with suppress(ReplyLost):  # every part stands there; only that none stands there twice is not known
                there = await self._look(message, reply)
        await self._take_back(message, (ts for twice in there.values() for ts in twice[1:]))
        return posted | {number: ts[0] for number, ts in there.items()}

    async def _one(self, message: Message, reply: Reply, number: int) -> tuple[str, bool]:
        """Its ts, and whether a try before that was given up may still arrive."""
        thread, text, repeated = message.thread, reply.parts[number - 1], False
        for attempt in range(RATE_LIMIT_WAITS + 1):
            try:
                posted = await self._slack.post(thread.channel, text, thread_ts=thread.ts, metadata=reply.metadata(message, number))
            except SlackError as e:
                if is_doubtful(e.code):
                    if (ts := await self._arrived(message, reply, number, e)) is not None:
                        return ts, False
                    repeated = True
                await self._bear(e, last=attempt == RATE_LIMIT_WAITS)
                continue
            if posted.thread_ts != thread.ts:  # the root is gone, and Slack put the reply into the channel
                await self._take_back(message, [posted.ts])
                raise ReplyLost(FailReason.THREAD_GONE)
            return posted.ts, repeated
        raise ReplyLost(FailReason.SLACK_ERROR)

    async def _bear(self, e: SlackError, *, last: bool) -> None:
        """Waits where another try makes sense; else raises what the refusal means."""
        if e.code in REFUSED_FOR_SIZE:
            raise _Refused from e
        if e.code in ROOT_IS_GONE:
            raise ReplyLost(FailReason.THREAD_GONE) from e
        if last or not (e.code in RATE_LIMITED or e.code in NEVER_SENT or is_doubtful(e.code)):
            raise ReplyLost(FailReason.SLACK_ERROR) from e
        if not is_doubtful(e.code):  # who was in doubt has waited already
            await self._clock.sleep(min(e.retry_after or 1.0, LONGEST_WAIT_SECONDS))

    # -- what stands there ---------------------------------------------------------------------------------------------
    async def _arrived(self, message: Message, reply: Reply, number: int, e: SlackError) -> str | None:
        """The ts under which the part stands after all."""
        for pause in LATE_ARRIVAL_PAUSES if e.code in TIMED_OUT else ARRIVAL_PAUSES:
            await self._clock.sleep(pause)
            if ts := (await self._look(message, reply)).get(number):
                return ts[0]
        return None

    async def _look(self, message: Message, reply: Reply) -> dict[int, tuple[str, ...]]:
        try:
            return await self._standing.parts(message, reply)
        except SlackError as e:
            if e.code in ROOT_IS_GONE:
                raise ReplyLost(FailReason.THREAD_GONE) from e
            raise ReplyLost(FailReason.SLACK_ERROR, unsure=True) from e

    async def _take_back(self, message: Message, posted: Iterable[str]) -> None:
        """Half an answer, one that stands twice or in the wrong place, is worse than none."""
        for ts in posted:
            with suppress(SlackError):  # counted by the adapter; there is nothing better to do
                await self._slack.delete(message.thread.channel, ts)


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
