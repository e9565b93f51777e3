"""From inbox rows to answers: one serial lane for each route session, made on demand; two lanes never wait for each other.

It owns the tasks of all lanes. A message's span travels with it through the queue, and closes exactly once, with its
outcome. Whatever goes wrong with one message is told in its thread and never reaches the next.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from bot.asides import Asides
from bot.eyes import Eyes
from bot.inbox import WITHDRAWN, Inbox, Row
from bot.messages import MOST_DEATHS, Channel, ChannelKind, Message
from bot.patience import GivenUp, Patience
from bot.ports import Clock, SlackError, SlackPort
from bot.responder import STOPPED, Ended, Responder
from bot.routes import Destination, RouteSettings, destination, may_share
from bot.slack_events import Posted, StopAsked, Wondered, asks_stop, asks_why
from bot.slack_text import Me
from bot.state_db import disk_refusal
from bot.thread_routes import ThreadRoutes
from bot.whys import Whys
from bot.words import Sentence
from telemetry.emit import Emit, Span
from telemetry.events import DropReason, LaneDepth, LaneWaited, MessageDropped, Outcome, ReplyEnded, StateTrouble, StateTroubled, Thread
from telemetry.names import Attr, SpanName

NOT_TAKEN_REMEMBERED = 1_000
KIND_BY_TYPE = {"channel": ChannelKind.PUBLIC, "im": ChannelKind.DIRECT}


@dataclass(frozen=True, slots=True)
class _Waiting:
    row: Row
    channel: Channel
    to: Destination
    span: Span
    wait: Span
    since: float


class App:
    def __init__(
        self,
        *,
        inbox: Inbox,
        threads: ThreadRoutes,
        routes: Mapping[str, RouteSettings],
        slack: SlackPort,
        responder: Responder,
        whys: Whys,
        asides: Asides,
        me: Me,
        clock: Clock,
        emit: Emit,
        patience: Patience,
        turn_ended: Callable[[str, str, str], None] = lambda route, key, session_id: None,
    ) -> None:
        self._turn_ended, self._asides, self._eyes = turn_ended, asides, Eyes(slack, clock=clock)
        self._inbox, self._threads, self._routes, self._slack = inbox, threads, routes, slack
        self._responder, self._whys, self._me, self._clock, self._emit = responder, whys, me, clock, emit
        self._lanes: dict[str, deque[_Waiting]] = {}
        self._busy: set[str] = set()  # lanes that are being served
        self._answering: dict[str, _Waiting] = {}  # of them the message in hand; none between two
        self._alone = asyncio.Lock()  # for messages over which the bot died before, so that the next death tells whose it is
        self._doors: dict[str, asyncio.Lock] = {}  # one a channel: its messages enter their lane in the order of arrival
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self._not_taken: dict[tuple[str, str], None] = {}  # messages of which it was said; Slack delivers each of them four times
        self._patience = patience
        self._recovered: frozenset[int] = frozenset()  # rows of an earlier process

    # -- entering ------------------------------------------------------------------------------------------------------
    def accepted(self, row: Row, span: Span) -> None:
        """Called before the acknowledgement; only starts what follows."""
        self._own(self._enter(row, span))

    def wondered(self, by: Wondered) -> None:
        self._own(self._whys.wondered(by.team, by.channel, by.ts, by.user))

    def refused(self, p: Posted) -> None:
        """Not on the list of people who may ask."""
        self._own(self._asides.refuse(p.thread.channel, p.user, str(p.body.get("text") or ""), thread_ts=p.thread.ts))

    def not_taken(self, p: Posted, error: BaseException) -> None:
        """It could not be stored, and Slack was not told that it arrived: it comes again, for some minutes."""
        refusal = disk_refusal(error) or type(error).__name__
        self._emit(StateTroubled(trouble=StateTrouble.NOT_TAKEN, error=refusal))
        if (p.thread.channel, p.ts) not in self._not_taken:
            self._not_taken[p.thread.channel, p.ts] = None
            if len(self._not_taken) > NOT_TAKEN_REMEMBERED:
                del self._not_taken[next(iter(self._not_taken))]
            self._own(self._responder.say_to(p.thread, str(p.body.get("text") or ""), Sentence.NOT_TAKEN))

    def recover(self) -> int:
        """What an earlier process accepted and did not end is answered now; each is a new trace, linked to the one before."""
        rows = self._inbox.unanswered()
        self._recovered = frozenset(row.id for row in rows)
        for row in rows:
            span = self._responder.begin_again(row)
            self._inbox.retrace(row.id, span.ref)
            self._inbox.miss(row.thread, row.ts)  # nobody listened while no bot ran
            self.accepted(row, span)
        return len(rows)

    async def _enter(self, row: Row, span: Span) -> None:
        async with self._doors.setdefault(row.thread.channel, asyncio.Lock()):
            channel = await self._channel(row)
            try:
                to = await self._patience.insist(
                    lambda: self._destination(row, channel),
                    trouble=StateTrouble.NOT_BEGUN,
                    tell=lambda: self._responder.say_aside(row, Sentence.KEPT_FOR_LATER),
                )
            except GivenUp:
                _leave_open(span)
                return
        if to is None:
            await self._not_routed(row, span)
            return
        span.set({Attr.ROUTE: to.route.name, Attr.SESSION_KEY: to.key})
        if not to.route.admits(row.user):
            self._drop(row, span, DropReason.NOT_ALLOWED, to.route.name)
            await self._asides.refuse(row.thread.channel, row.user, str(row.body.get("text") or ""), thread_ts=row.thread.ts)
        elif (row.ts != row.thread.ts or channel.kind is ChannelKind.DIRECT) and asks_stop(row.body, self._me):
            self._drop(row, span, DropReason.ASKED_STOP, to.route.name)
            await self._stop_by_word(row, channel)
        elif row.ts != row.thread.ts and asks_why(row.body, self._me):
            self._drop(row, span, DropReason.ASKED_WHY, to.route.name)
            await self._whys.asked_in(row.thread, row.user, str(row.body.get("text") or ""), ts=row.ts)
        else:
            self._join(_Waiting(row, channel, to, span, self._wait_span(span, to.key), self._clock.monotonic()))

    async def _channel(self, row: Row) -> Channel:
        """Where Slack does not tell, the event's own word counts; with neither, the channel is taken for a private one."""
        try:
            return await self._slack.channel(row.thread.channel)
        except SlackError:
            return Channel(id=row.thread.channel, name="", kind=KIND_BY_TYPE.get(row.channel_type, ChannelKind.PRIVATE))

    def _destination(self, row: Row, channel: Channel) -> Destination | None:
        """A thread keeps the route it once had, as long as that route is configured and the channel may still share its key."""
        bound, to = self._threads.get_thread_route(row.thread), destination(channel, self._routes)
        if bound and bound.key and bound.route in self._routes:
            kept = Destination(self._routes[bound.route], bound.key)
            to = kept if may_share(channel, kept) else to
        if to is not None:
            self._threads.bind(row.thread, route=to.route.name, key=to.key)
            self._inbox.route(row.id, route=to.route.name, key=to.key)
        return to

    def _wait_span(self, span: Span, key: str) -> Span:
        with self._emit.within(span):
            return self._emit.begin(SpanName.LANE_WAIT, {Attr.LANE_POSITION: self._depth(key)})

    # -- not answered --------------------------------------------------------------------------------------------------
    async def _not_routed(self, row: Row, span: Span) -> None:
        if self._inbox.tell_once(f"not_routed {row.thread.team}/{row.thread.channel}"):
            await self._responder.tell_not_routed(row)
        self._threads.release(row.thread)
        self._drop(row, span, DropReason.NOT_ROUTED, "")

    def _drop(self, row: Row, span: Span, reason: DropReason, route: str) -> None:
        with self._emit.within(span):
            self._emit(MessageDropped(reason=reason, route=route, channel=row.thread.channel, message_ts=row.ts))
        self._end(row, Outcome.DROPPED, reason.value)
        span.set({Attr.REPLY_OUTCOME: Outcome.DROPPED.value, Attr.REPLY_REASON: reason.value})
        span.end()

    # -- stopping ------------------------------------------------------------------------------------------------------
    def stop_asked(self, by: StopAsked) -> None:
        self._own(self._stop_by_sign(by))

    async def _stop_by_sign(self, by: StopAsked) -> None:
        thread = Thread(by.team, by.channel, by.thread_ts)
        stopped = await self._stop(lambda row: row.thread == thread or (row.thread.channel, row.ts) == (by.channel, by.ts), by.user)
        if not stopped and by.thread_ts:  # or the button would stand there for ever
            with suppress(SlackError):
                await self._slack.set_working(by.channel, by.thread_ts, on=False)

    async def _stop_by_word(self, row: Row, channel: Channel) -> None:
        """In a direct message, where each line may begin a thread of its own, the word is for all that is asked there."""
        everywhere = channel.kind is ChannelKind.DIRECT and row.ts == row.thread.ts
        stopped = await self._stop(lambda r: r.thread == row.thread or (everywhere and r.thread.channel == row.thread.channel), row.user)
        if not stopped:
            text = str(row.body.get("text") or "")
            await self._asides.nothing_to_stop(row.thread.channel, row.user, text, thread_ts=row.thread.ts)

    async def _stop(self, chosen: Callable[[Row], bool], user: str) -> bool:
        """What is being answered says by itself that it was stopped; of those that still wait, one does for all."""
        told = False
        for w in list(self._answering.values()):
            if chosen(w.row) and w.to.route.admits(user):
                told = self._responder.stop(w.row.id) or told
        mine = [w for lane in self._lanes.values() for w in lane if chosen(w.row) and w.to.route.admits(user)]
        waiting = deque(w for w in mine if not self._responder.has_reply(self._message(w)))
        for w in waiting:
            self._lanes[w.to.key].remove(w)
        try:
            while waiting:
                await self._end_stopped(waiting[0], told=told)
                waiting.popleft()
                told = True
        finally:
            for w in waiting:
                _leave(w)
        return told

    async def _end_stopped(self, w: _Waiting, *, told: bool) -> None:
        w.wait.end()
        with self._emit.within(w.span):
            ended = STOPPED if told else await self._responder.say_stopped(self._message(w), str(w.row.body.get("text") or ""))
            self._close(w, ended)
        self._tell_depth(w)

    # -- lanes ---------------------------------------------------------------------------------------------------------
    def _join(self, waiting: _Waiting) -> None:
        if self._draining:
            _leave(waiting)
            return
        key = waiting.to.key
        lane = self._lanes.setdefault(key, deque())
        at = len(lane)
        while at and lane[at - 1].row.id > waiting.row.id:  # its channel had to be looked up: it goes before those that came after it
            at -= 1
        lane.insert(at, waiting)
        self._eyes.waits(waiting.row.id, waiting.row.thread.channel, waiting.row.ts, again=waiting.row.id in self._recovered)
        self._tell_depth(waiting)
        if key not in self._busy:
            self._busy.add(key)
            self._own(self._serve(key))

    async def _serve(self, key: str) -> None:
        lane = self._lanes[key]
        try:
            while lane and not self._draining:
                waiting = lane.popleft()
                self._answering[key] = waiting
                self._eyes.begun(waiting.row.id)
                try:
                    await self._one(waiting)
                except Exception as e:  # noqa: BLE001 - the boundary of a lane: what the disk refuses to one message, others must not wait for
                    self._put_back(waiting)
                    _complain("a message could not be brought to its end", e)
                finally:
                    del self._answering[key]
                    self._tell_depth(waiting)
                if not lane and not self._draining:
                    await self._responder.settle(waiting.to)
        finally:
            self._busy.discard(key)

    async def _one(self, w: _Waiting) -> None:
        try:
            async with self._alone if w.row.deaths >= MOST_DEATHS - 1 else nullcontext():
                await self._answer(w)
        except asyncio.CancelledError:
            self._put_back(w)
            raise

    def _put_back(self, w: _Waiting) -> None:
        _leave(w)
        self._inbox.put_back(w.row.id)

    async def _answer(self, w: _Waiting) -> None:
        waited = self._clock.monotonic() - w.since
        w.wait.end()
        message = self._message(w)
        if message.body == WITHDRAWN:
            self._drop(w.row, w.span, DropReason.IGNORED_EVENT, w.to.route.name)
            self._eyes.ended(w.row.id)
            return
        try:
            await self._patience.insist(
                lambda: self._inbox.begin(w.row.id),
                trouble=StateTrouble.NOT_BEGUN,
                tell=lambda: self._responder.say_aside(w.row, Sentence.KEPT_FOR_LATER),
            )
        except GivenUp:
            _leave(w)
            return
        with self._emit.within(w.span):
            self._emit(LaneWaited(route=w.to.route.name, seconds=waited))
            try:
                ended = await self._responder.respond(message, w.to)
            except GivenUp:
                self._put_back(w)
                return
            self._close(w, ended)

    def _message(self, w: _Waiting) -> Message:
        return Message(
            row=w.row.id,
            thread=w.row.thread,
            ts=w.row.ts,
            user=w.row.user,
            body=self._inbox.body(w.row.id),
            channel=w.channel,
            route=w.to.route.name,
            key=w.to.key,
            accepted_at=w.row.accepted_at,
            attempt=w.row.attempt,
            deaths=w.row.deaths,
        )

    def _close(self, w: _Waiting, ended: Ended) -> None:
        self._eyes.ended(w.row.id)
        self._end(w.row, ended.outcome, ended.reason.value if ended.reason else "")
        w.span.set({Attr.REPLY_OUTCOME: ended.outcome.value})
        if ended.session_id:
            w.span.set({Attr.GEN_AI_CONVERSATION_ID: ended.session_id})
        if ended.reason is not None:
            w.span.set({Attr.REPLY_REASON: ended.reason.value})
            if ended.outcome is Outcome.FAILED:
                w.span.fail(ended.reason.value)
        self._emit(
            ReplyEnded(
                route=w.to.route.name,
                thread=w.row.thread,
                message_ts=w.row.ts,
                outcome=ended.outcome,
                seconds=max(0.0, self._clock.now() - w.row.accepted_at),  # a clock may be set back meanwhile
                reason=ended.reason,
                first_token_seconds=max(0.0, ended.first_token_at - w.row.accepted_at) if ended.first_token_at else None,
            )
        )
        w.span.end()
        if ended.outcome is Outcome.ANSWERED:
            self._turn_ended(w.to.route.name, w.to.key, ended.session_id)

    def _end(self, row: Row, outcome: Outcome, reason: str) -> None:
        try:
            self._inbox.end(row.id, outcome, reason)
        except Exception as e:
            if not disk_refusal(e):
                raise
            self._own(self._end_later(row, outcome, reason))

    async def _end_later(self, row: Row, outcome: Outcome, reason: str) -> None:
        """It has its end in Slack. A bot that does not live to write it down finds the message open."""
        with suppress(GivenUp):
            await self._patience.insist(lambda: self._inbox.end(row.id, outcome, reason), trouble=StateTrouble.NOT_ENDED)

    def _depth(self, key: str) -> int:
        """Messages that wait or are being answered."""
        return len(self._lanes.get(key, ())) + (key in self._answering)

    def _tell_depth(self, w: _Waiting) -> None:
        self._emit(LaneDepth(route=w.to.route.name, key=w.to.key, depth=self._depth(w.to.key)))

    # -- the end -------------------------------------------------------------------------------------------------------
    async def drain(self, seconds: float) -> bool:
        """Running turns end, waiting messages stay in the inbox. False: some did not end in time and were cancelled."""
        self._draining = True
        self._patience.end()
        for lane in self._lanes.values():
            for waiting in lane:
                _leave(waiting)
        _, late = await asyncio.wait(self._tasks, timeout=seconds) if self._tasks else (set(), set())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await self._eyes.close()
        return not late

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """All tasks live here, and what one of them raises is said, not lost."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _complain("a task of the bot ended", error)


def _complain(what: str, error: BaseException) -> None:
    """Without a word of what was said: an exception may quote it."""
    print(f"insomnia: {what} ({type(error).__name__}); it is answered at the next start", file=sys.stderr)


def _leave(w: _Waiting) -> None:
    w.wait.end()
    _leave_open(w.span)


def _leave_open(span: Span) -> None:
    """Not answered by this process: the row stays open, and the next one answers it."""
    span.set({Attr.REPLY_OUTCOME: Outcome.CANCELLED.value})
    span.end()
