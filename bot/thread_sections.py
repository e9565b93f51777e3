"""What of a thread goes into the next prompt: read from Slack, or from what the inbox kept, less what was shown already.

What must stay true: a section is `complete` only if the thread was read to its end (or is held, with all that was said
since); only then may the thread be marked known. Nothing that this context life was shown goes in twice. Slack is read
again after an incomplete read only when its wait is over; until then the last reading serves, with what the inbox heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.gate import Verdict
from bot.inbox import Heard, Inbox
from bot.known_threads import KnownThreads
from bot.messages import Change, Message, Said
from bot.ports import Clock, SlackPort
from bot.quoting import MAX_MESSAGE_CHARS
from bot.slack_text import Me, author_of, mentioned_users, said_of
from bot.thread_history import HistoryUnreadable, ThreadHistory, fetch_thread_history, trim, unread_note
from telemetry.emit import Emit
from telemetry.events import Decision, Injection, Reason, RefetchOutcome, Thread, ThreadRefetched
from telemetry.names import Attr, SpanName

LEAST_WAIT_SECONDS = 60.0  # between two readings of a thread of which Slack gave only a part
HELD_READINGS = 100  # of incomplete threads; older ones are read again
# For a model that found the whole prompt too long: the root and the newest few, a third of what a section takes at most.
SMALL_MESSAGES = 8
SMALL_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """`upto`: the inbox's sequence that it covers. `failed`, `incomplete`: what the person is told about the reading,
    with `read` messages of about `expected`."""

    verdict: Verdict
    messages: tuple[Said, ...] = ()
    injection: Injection | None = None
    omitted: int = 0
    gap_after: int | None = None
    cap: int = MAX_MESSAGE_CHARS
    notes: tuple[str, ...] = ()
    complete: bool = True
    upto: int = 0
    incomplete: Reason | None = None
    read: int = 0
    expected: int | None = None

    @property
    def failed(self) -> Reason | None:
        return self.verdict.reason if self.verdict.decision is Decision.REFETCH_FAILED else None


@dataclass(frozen=True, slots=True)
class _Held:
    until: float
    history: ThreadHistory
    why: Reason


class ThreadReader:
    def __init__(self, slack: SlackPort, inbox: Inbox, *, me: Me, clock: Clock, emit: Emit) -> None:
        self._slack, self._inbox, self._me, self._clock, self._emit = slack, inbox, me, clock, emit
        self._held: dict[Thread, _Held] = {}

    def held_off(self, thread: Thread) -> Reason | None:
        held = self._held.get(thread)
        return held.why if held and self._clock.monotonic() < held.until else None

    def forget(self, thread: Thread) -> None:
        self._held.pop(thread, None)

    async def said(self, body: Mapping[str, Any], *, verified: Iterable[str] | None, change: Change = Change.POSTED) -> Said:
        """A stored message object as it is shown. `verified`: the allow-list, None for everyone of this workspace."""
        users = {author_of(body), *mentioned_users(body)} - {""}
        names = {user: await self._slack.user_name(user) for user in users}
        allowed = None if verified is None else frozenset(verified)
        return said_of(body, me=self._judge(allowed), names=names, verified=lambda u: allowed is None or u in allowed, change=change)

    def _judge(self, allowed: frozenset[str] | None) -> Me:
        """Whoever is on a list is verified by it, wherever they are from."""
        return self._me if allowed is None else replace(self._me, home=frozenset())

    async def section(
        self, message: Message, verdict: Verdict, context: KnownThreads, *, verified: Iterable[str] | None, small: bool = False
    ) -> Section:
        """`small`: the model found the whole prompt too long."""
        if verdict.reads:
            section = await self._read(message, verdict, context, verified)
        elif verdict.decision is Decision.REFETCH_FAILED:
            section = await self._held_off(message, verdict, context, verified)
        else:
            section = await self._since(message, verdict, context, verified)
        return _smaller(section, message.thread) if small else section

    # -- what others said since ----------------------------------------------------------------------------------------
    async def _since(self, message: Message, verdict: Verdict, context: KnownThreads, verified: Iterable[str] | None) -> Section:
        upto = self._inbox.newest_seq()
        delta = await self._delta(message, context, verified)
        if not delta and verdict.decision is Decision.KNOWN:
            verdict = Verdict(Decision.KNOWN, Reason.HELD)
        return Section(verdict=verdict, messages=delta, injection=Injection.DELTA if delta else None, upto=upto)

    async def _delta(self, message: Message, context: KnownThreads, verified: Iterable[str] | None) -> tuple[Said, ...]:
        newest: dict[str, Heard] = {h.ts: h for h in self._inbox.heard(message.thread, before=message.ts)}
        lines = [await self._line(newest[ts], message.thread, context, verified) for ts in sorted(newest)]
        return tuple(line for line in lines if line is not None)

    async def _line(self, heard: Heard, thread: Thread, context: KnownThreads, verified: Iterable[str] | None) -> Said | None:
        """The last state of one message, or None where the session already has it, or never had what is gone."""
        held = context.holds_message(thread, heard.ts)
        if heard.change is Change.DELETED:
            return await self.said({**heard.body, "ts": heard.ts}, verified=verified, change=Change.DELETED) if held else None
        said = await self.said(heard.body, verified=verified, change=Change.EDITED if held else Change.POSTED)
        return None if context.was_shown(thread, said) else said

    # -- reading -------------------------------------------------------------------------------------------------------
    async def _read(self, message: Message, verdict: Verdict, context: KnownThreads, verified: Iterable[str] | None) -> Section:
        upto = self._inbox.newest_seq()
        history = await self._fetch(message, verified)
        if isinstance(history, HistoryUnreadable):  # nothing to fall back on: the next message tries again, it may be mended
            return _unread(history.reason, await self._delta(message, context, verified))
        self._hold(message.thread, history)
        since = await self._delta(message, context, verified)
        return self._of_history(history, message, verdict, context, upto=upto, since=since)

    async def _held_off(self, message: Message, verdict: Verdict, context: KnownThreads, verified: Iterable[str] | None) -> Section:
        thread, history = message.thread, self._held[message.thread].history
        since = await self._delta(message, context, verified)
        still = tuple(said for said in history.messages if not self._inbox.was_deleted(thread, said.ts))
        history = replace(history, messages=still, read=history.read - len(history.messages) + len(still))
        return self._of_history(history, message, verdict, context, upto=0, since=since)

    async def _fetch(self, message: Message, verified: Iterable[str] | None) -> ThreadHistory | HistoryUnreadable:
        """The error is given back, not raised: on its way through the span it would replace the reason by its class."""
        began = self._clock.monotonic()
        with self._emit.span(SpanName.THREAD_REFETCH, {Attr.GEN_AI_OPERATION: "retrieval"}) as span:
            try:
                history = await self._history(message, verified)
            except HistoryUnreadable as e:
                span.fail(e.reason.value)
                self._tell(message, RefetchOutcome.FAILED, began, waited=e.asked_to_wait)
                return e
            chars = sum(len(s.text) for s in history.messages)
            span.set({Attr.REFETCH_CHARS: chars, Attr.REFETCH_TRUNCATED: history.incomplete})
            outcome = RefetchOutcome.INCOMPLETE if history.incomplete else RefetchOutcome.COMPLETE
            self._tell(message, outcome, began, pages=history.pages, messages=history.read, waited=history.asked_to_wait)
        return history

    async def _history(self, message: Message, verified: Iterable[str] | None) -> ThreadHistory:
        allowed = None if verified is None else frozenset(verified)
        return await fetch_thread_history(
            self._slack,
            message.thread.channel,
            message.thread.ts,
            bot_user_id=self._me.user_id,
            user_resolver=self._slack.user_name,
            before=message.ts,
            me=self._judge(allowed),
            verified=lambda u: allowed is None or u in allowed,
            clock=self._clock,
        )

    def _tell(self, message: Message, outcome: RefetchOutcome, began: float, *, pages: int = 0, messages: int = 0, waited: float) -> None:
        self._emit(
            ThreadRefetched(
                route=message.route,
                thread=message.thread,
                outcome=outcome,
                seconds=self._clock.monotonic() - began,
                pages=pages,
                messages=messages,
                retry_after_seconds=waited,
            )
        )

    def _hold(self, thread: Thread, history: ThreadHistory) -> None:
        self._held.pop(thread, None)
        if not history.incomplete:
            return
        until = self._clock.monotonic() + max(LEAST_WAIT_SECONDS, history.retry_after)
        self._held[thread] = _Held(until, history, history.why or Reason.SLACK_ERROR)
        while len(self._held) > HELD_READINGS:
            del self._held[next(iter(self._held))]

    def _of_history(
        self, history: ThreadHistory, message: Message, verdict: Verdict, context: KnownThreads, *, upto: int, since: Iterable[Said]
    ) -> Section:
        """What is new in the reading, and of what the inbox heard that which the reading cannot hold: all that was deleted,
        and, where its end is missing, all that was said."""
        thread = message.thread
        new = {said.ts: _changed(said, thread, context) for said in history.messages if not self._is_held(said, thread, context)}
        already = len(history.messages) - len(new)
        new |= {said.ts: said for said in since if history.incomplete or said.change is Change.DELETED}
        catching_up = verdict.reason is Reason.DELIVERY_GAP
        let_go = 0 if catching_up else history.omitted  # most of them the session was shown before the gap
        whole = trim([new[ts] for ts in sorted(new)], total=len(new) + let_go, root_ts=thread.ts)
        return Section(
            verdict=verdict,
            messages=whole.kept,
            injection=(Injection.CATCH_UP if catching_up else Injection.FULL) if whole.kept else None,
            omitted=whole.omitted,
            gap_after=whole.gap_after,
            cap=whole.cap,
            notes=(*history.notes(), *((_shown_note(already),) if already and whole.kept else ())),
            complete=not history.incomplete,
            upto=upto,
            incomplete=history.why if history.incomplete else None,
            read=history.read,
            expected=history.expected,
        )

    def _is_held(self, said: Said, thread: Thread, context: KnownThreads) -> bool:
        """The bot's own words are held by their ts alone: nobody else changes them."""
        own = said.speaker.id == self._me.user_id
        return context.holds_message(thread, said.ts) if own else context.was_shown(thread, said)


def _unread(reason: Reason, since: tuple[Said, ...]) -> Section:
    return Section(
        verdict=Verdict(Decision.REFETCH_FAILED, reason),
        messages=since,
        injection=Injection.DELTA if since else None,
        notes=(unread_note(reason),),
        complete=False,
    )


def _smaller(section: Section, thread: Thread) -> Section:
    root = section.messages[:1] if section.messages and section.messages[0].ts == thread.ts else ()
    rest = section.messages[len(root) :]
    kept = (*root, *rest[-SMALL_MESSAGES:])
    omitted = section.omitted + len(section.messages) - len(kept)
    gap_after = len(root) if omitted else None
    cap = min(section.cap, SMALL_MESSAGE_CHARS)
    return replace(section, messages=kept, omitted=omitted, gap_after=gap_after, cap=cap, complete=section.complete and not omitted)


def _changed(said: Said, thread: Thread, context: KnownThreads) -> Said:
    if not context.holds_message(thread, said.ts):
        return said
    return Said(ts=said.ts, speaker=said.speaker, text=said.text, change=Change.EDITED)


def _shown_note(count: int) -> str:
    return f"{count} earlier message{'s' if count != 1 else ''} of this thread you were shown before; they are not repeated."
