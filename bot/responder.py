"""One message from its lane to its answer in Slack, and all that a person is told instead when there is none.

The boundary at which errors become words: nothing that is raised while one message is answered goes further, except
cancellation. Whoever asked sees a sentence and the short trace id under which the operator finds the rest.
"""

from __future__ import annotations

import asyncio
import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from bot.budgets import Budgets, Spent
from bot.footer import footer_line
from bot.inbox import Row
from bot.intake import Audience, root_attributes
from bot.messages import MOST_DEATHS, GateSummary, Message, Role, Said, Speaker
from bot.patience import GivenUp
from bot.persistent_session import PersistentSession
from bot.ports import Clock, SlackError, SlackPort
from bot.reply_parts import Reply
from bot.replying import Delivered, Replies, ReplyLost, Status
from bot.router import Answered, Router, TurnFailed
from bot.routes import Destination
from bot.sessions import Sessions
from bot.slack_text import Me
from bot.stops import Stopped, Stops
from bot.thread_routes import ThreadRoutes
from bot.thread_sections import Section, ThreadReader
from bot.words import HISTORY_UNREAD, NO_ANSWER, NO_ANSWER_UNTIL, Language, Sentence, language_of, moment, say
from telemetry.emit import Emit, Span
from telemetry.events import FailReason, Injection, Outcome, Thread
from telemetry.names import Attr, SpanName

REREAD = "reread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """`session_id`: of the CLI's session that answered, "" where none was asked. `first_token_at`: clock seconds."""

    outcome: Outcome
    reason: FailReason | None = None
    first_token_at: float | None = None
    session_id: str = ""


STOPPED = Ended(outcome=Outcome.CANCELLED, reason=FailReason.STOPPED)


class Responder:
    def __init__(
        self,
        *,
        sessions: Sessions,
        router: Router,
        reader: ThreadReader,
        replies: Replies,
        slack: SlackPort,
        threads: ThreadRoutes,
        audience: Audience,
        language: str,
        me: Me,
        clock: Clock,
        emit: Emit,
        budgets: Budgets,
        tz: tzinfo,
        footer: bool = False,
    ) -> None:
        self._budgets, self._tz, self._footer, self._stops = budgets, tz, footer, Stops()
        self._sessions, self._router, self._reader, self._replies, self._slack = sessions, router, reader, replies, slack
        self._threads, self._audience, self._language, self._me, self._clock, self._emit = threads, audience, language, me, clock, emit

    async def respond(self, message: Message, to: Destination) -> Ended:
        """Always one end; only CancelledError goes on, and GivenUp: the next bot answers."""
        try:
            return await self._respond(message, to)
        except GivenUp:
            raise
        except Exception as e:  # noqa: BLE001 - the boundary: one message's failure must not end its lane
            _report(e, f"while answering {message.thread} {message.ts}")
        try:
            return await self._apologise(message, "", FailReason.INTERNAL)
        except GivenUp:
            raise
        except Exception as e:  # noqa: BLE001 - the same boundary: not even this could be said
            _report(e, "and it could not be told in the thread")
            return Ended(outcome=Outcome.FAILED, reason=FailReason.INTERNAL)

    async def _respond(self, message: Message, to: Destination) -> Ended:
        if message.deaths >= 2 * MOST_DEATHS:
            return _given_up(message)  # even to say so ends the bot
        allowed = self._allowed(to)
        said = await self._reader.said(message.body, verified=allowed)
        if (begun := self._replies.begun(message)) is not None:
            return await self._carry_on(message, said, begun)
        if message.deaths >= MOST_DEATHS:
            _given_up(message)
            return await self._apologise(message, said.text, FailReason.BOT_DIED, values={"times": message.deaths})
        if not said.text and message.opens_thread:
            return await self._greet(message, said)
        if (spent := self._budgets.spent_up(to.route.name)) is not None:
            return await self._apologise(message, said.text, FailReason.BUDGET, values=self._in_words(spent))
        session = self._sessions.session_for(to)
        reread = said.text.lower().split(maxsplit=1)[:1] == [REREAD] and not message.opens_thread
        async with Status(self._slack, message, clock=self._clock) as status:
            await status.show(say(Sentence.STATUS_THINKING, self._lang(said.text)))
            try:
                async with self._stops.stoppable(message.row, session):
                    answered, gate = await self._router.answer(session, message, said, verified=allowed, reread=reread)
            except Stopped:
                await status.settle()
                ended = await self.say_stopped(message, said.text)
            except asyncio.CancelledError:
                await status.settle()
                await self._tell_restart(message, said.text)
                raise
            except TurnFailed as e:
                await status.settle()
                minutes = math.ceil(to.route.turn_seconds / 60)
                ended = await self._apologise(message, said.text, e.reason, values={"minutes": minutes}, until=e.until)
            else:
                await status.settle()
                ended = await self._give(session, message, said, answered, gate)
        return replace(ended, session_id=session.session_id)

    def _allowed(self, to: Destination) -> Sequence[str] | None:
        """Whose words may instruct the bot here; None: everybody's."""
        users = to.route.users or self._audience.users
        return (*users, *self._audience.bots) if users else None

    async def _give(self, session: PersistentSession, message: Message, said: Said, answered: Answered, gate: GateSummary) -> Ended:
        text = "\n\n".join([answered.text, *self._honest_lines(answered.section, said.text), *self._footers(answered.section, said.text)])
        try:
            delivered = await self._post(message, text, outcome=Outcome.ANSWERED, gate=gate, session_id=session.session_id)
        except ReplyLost as e:
            return await self._lost(message, said, e)
        try:
            self._note(session, message, said, answered, delivered)
        except Exception as e:  # noqa: BLE001 - the answer stands in Slack: whatever fails now, no apology may come below it
            _report(e, f"after answering {message.thread} {message.ts}")
        return Ended(outcome=Outcome.ANSWERED, first_token_at=answered.first_token_at)

    async def _post(
        self,
        message: Message,
        text: str,
        *,
        outcome: Outcome,
        gate: GateSummary | None = None,
        reason: FailReason | None = None,
        session_id: str = "",
    ) -> Delivered:
        return await self._replies.post(
            message,
            text,
            outcome=outcome,
            trace_id=self._trace_id(),
            gate=gate,
            reason=reason,
            session_id=session_id,
            put_off=lambda: self.say_to(message.thread, str(message.body.get("text") or ""), Sentence.KEPT_FOR_LATER),
        )

    def _note(self, session: PersistentSession, message: Message, said: Said, answered: Answered, delivered: Delivered) -> None:
        speaker = Speaker(id=self._me.user_id, name="Insomnia", role=Role.OWN)
        own = [Said(ts=ts, speaker=speaker, text=answered.text) for ts in delivered.parts]
        self._router.posted(session, message, answered, own)
        self._threads.answered(message.thread, by_bot=said.speaker.role is Role.BOT)

    async def _carry_on(self, message: Message, said: Said, begun: Reply) -> Ended:
        """An earlier attempt had its answer, or its apology, and was posting it."""
        try:
            await self._replies.resume(message, begun)
        except ReplyLost as e:
            return await self._lost(message, said, e)
        if begun.outcome is Outcome.ANSWERED:
            self._threads.answered(message.thread, by_bot=said.speaker.role is Role.BOT)
        return Ended(outcome=begun.outcome, reason=begun.reason, session_id=begun.session_id)

    async def _lost(self, message: Message, said: Said, lost: ReplyLost) -> Ended:
        """Where the answer may stand all the same, or its thread is gone, there is nothing to say, or no place for it."""
        if lost.unsure:
            print(f"insomnia: Slack does not tell whether the answer to {message.thread} {message.ts} was posted", file=sys.stderr)
        if lost.unsure or lost.reason is FailReason.THREAD_GONE:
            return Ended(outcome=Outcome.FAILED, reason=lost.reason)
        return await self._apologise(message, said.text, lost.reason)

    def _honest_lines(self, section: Section, text: str) -> Sequence[str]:
        lang = self._lang(text)
        if section.incomplete is not None:
            values = {"read": section.read, "expected": section.expected}
            known = section.expected is not None and section.expected > section.read
            return [say(Sentence.HISTORY_INCOMPLETE_OF if known else Sentence.HISTORY_INCOMPLETE, lang, **values)]
        return [say(HISTORY_UNREAD[section.failed], lang)] if section.failed is not None else []

    def _footers(self, section: Section, text: str) -> Sequence[str]:
        if not self._footer:
            return []
        put_in, since = len(section.messages), section.injection is Injection.DELTA
        read, added = (0, put_in) if since else (put_in, 0)
        return [footer_line(self._lang(text), read=read, added=added, omitted=section.omitted, trace_id=self._trace_id())]

    async def settle(self, to: Destination) -> None:
        session = self._sessions.peek_session(to.key)
        if session is None:
            return
        try:
            await self._router.settle(session)
            await self._sessions.make_room()
        except Exception as e:  # noqa: BLE001 - the boundary: what is done between messages must not end their lane
            _report(e, f"between two messages of {to.key}")

    # -- instead of an answer ------------------------------------------------------------------------------------------
    async def _greet(self, message: Message, said: Said) -> Ended:
        words = say(Sentence.EMPTY_MENTION, self._lang(said.text))
        try:
            await self._post(message, words, outcome=Outcome.ANSWERED)
        except ReplyLost as e:
            return Ended(outcome=Outcome.FAILED, reason=e.reason)
        self._threads.answered(message.thread, by_bot=said.speaker.role is Role.BOT)
        return Ended(outcome=Outcome.ANSWERED)

    def stop(self, row: int) -> bool:
        """The turn of this message ends without its answer. False: it is not being answered, or its answer is there already."""
        return self._stops.stop(row)

    def has_reply(self, message: Message) -> bool:
        """An earlier bot made it, and it waits only to be posted: it is too late to stop it."""
        return self._replies.begun(message) is not None

    async def say_stopped(self, message: Message, text: str) -> Ended:
        words = say(Sentence.STOPPED, self._lang(text))
        with suppress(ReplyLost):  # whoever stopped it knows; the adapter counts the failure
            await self._post(message, words, outcome=Outcome.CANCELLED, reason=FailReason.STOPPED)
        return STOPPED

    def _in_words(self, spent: Spent) -> Mapping[str, object]:
        return {"limit": f"{spent.limit_usd:.2f}", "until": f"{datetime.fromtimestamp(spent.until, self._tz):%H:%M %Z}"}

    async def _apologise(
        self, message: Message, text: str, reason: FailReason, *, values: Mapping[str, object] | None = None, until: float | None = None
    ) -> Ended:
        lang = self._lang(text)
        if until is None or reason not in NO_ANSWER_UNTIL:
            why = say(NO_ANSWER[reason], lang, **(values or {}))
        else:
            why = say(NO_ANSWER_UNTIL[reason], lang, until=moment(until, now=self._clock.now(), tz=self._tz))
        line = f"{why} ({say(Sentence.TRACE, lang, trace=self._trace_id()[:8])})"
        try:
            await self._post(message, line, outcome=Outcome.FAILED, reason=reason)
        except ReplyLost as e:
            return Ended(outcome=Outcome.FAILED, reason=e.reason)
        return Ended(outcome=Outcome.FAILED, reason=reason)

    async def _tell_restart(self, message: Message, text: str) -> None:
        """Whoever waits longer than a drain does learns why; but not again when that happens again."""
        if message.attempt == 1:
            await self._replies.say_beside(message, say(Sentence.RESTARTING, self._lang(text)))

    async def say_aside(self, row: Row, sentence: Sentence) -> None:
        """About a message that has no end yet."""
        await self.say_to(row.thread, str(row.body.get("text") or ""), sentence)

    async def say_to(self, thread: Thread, text: str, sentence: Sentence) -> None:
        """`text`: of the message that it is about."""
        with suppress(SlackError):  # counted by the adapter
            await self._slack.post(thread.channel, say(sentence, self._lang(text)), thread_ts=thread.ts)

    async def tell_not_routed(self, row: Row) -> None:
        lang = self._lang(str(row.body.get("text") or ""))
        try:
            await self._slack.post(row.thread.channel, say(Sentence.NOT_ROUTED, lang), thread_ts=row.thread.ts)
        except SlackError as e:
            print(f"insomnia: could not say that channel {row.thread.channel} has no route ({e.code})", file=sys.stderr)

    # -- traces --------------------------------------------------------------------------------------------------------
    def begin_again(self, row: Row) -> Span:
        attributes: Mapping[Attr, str | int] = {**root_attributes(row.thread, row.ts), Attr.REPLY_ATTEMPT: row.attempt}
        return self._emit.begin(SpanName.PROCESS, attributes, root=True, links=[row.trace])

    def _trace_id(self) -> str:
        ref = self._emit.current()
        return ref.trace_id if ref else ""

    def _lang(self, text: str) -> Language:
        return language_of(text, self._language)


def _given_up(message: Message) -> Ended:
    print(f"insomnia: {message.thread} {message.ts} is given up: the bot died {message.deaths} times over it", file=sys.stderr)
    return Ended(outcome=Outcome.FAILED, reason=FailReason.BOT_DIED)


def _report(error: Exception, where: str) -> None:
    """To the operator, without a word of what was said: a message in an exception may quote it."""
    print(f"insomnia: {type(error).__name__} {where}", file=sys.stderr)
    traceback.print_tb(error.__traceback__, limit=-3)
