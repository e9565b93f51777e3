"""One turn, in order, under the session's lock: rotate? → gate → history → section → send → mark.

What must stay true: one decision travels from the gate to the prompt; an answer is given out only if the thread's text
was in the context that produced it, so when the epoch moved before the answer was made, nothing is posted, the thread is
read in again and the model asked once more; a thread is marked known only by an answered turn whose section was whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo

from bot.accounts import REFUSALS, AllRest
from bot.gate import View, decide
from bot.inbox import Inbox
from bot.memory_tools import SELF_TOLD, asking
from bot.messages import Channel, GateSummary, Message, Said
from bot.persistent_session import PersistentSession
from bot.ports import Interrupted, SessionDied, StartFailed, StreamEvent, TurnDeadline
from bot.prompts import Prompt, compose
from bot.quoting import new_nonce, thread_block
from bot.session_log import Recalled
from bot.session_turns import Reply
from bot.thread_routes import ThreadRoutes
from bot.thread_sections import Section, ThreadReader
from bot.turn_spans import PROVIDER, TurnSpans
from bot.turn_telling import Turn, TurnTelling
from telemetry.account_events import SwitchCause
from telemetry.emit import Emit
from telemetry.events import (
    REASON_AFTER,
    AskedAgain,
    FailReason,
    GateDecided,
    MoneySpent,
    ResetCause,
    ResetHow,
    Thread,
)
from telemetry.names import Attr, SpanName

MOST_OVERTAKEN = 3  # a session that dies each time while its thread is read will not answer at the fourth try either
MOST_EMPTY_ANSWERS = 3  # in a row: then it is the session that has nothing to say, and a fresh one is asked
RESTS = {SwitchCause.LIMIT: FailReason.MODEL_LIMIT, SwitchCause.AUTH: FailReason.MODEL_AUTH}
FAILURES = {
    "rate_limit": FailReason.MODEL_LIMIT,
    "billing_error": FailReason.MODEL_LIMIT,
    "authentication_failed": FailReason.MODEL_AUTH,
    "prompt_too_long": FailReason.PROMPT_TOO_LONG,
}


class TurnFailed(Exception):
    """No answer; `reason` is told to the person in words. `until`: before that time (epoch seconds) there is no use in trying again."""

    def __init__(self, reason: FailReason, *, until: float | None = None) -> None:
        super().__init__(reason.value)
        self.reason, self.until = reason, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """`first_token_at`: clock seconds, None where nothing was streamed."""

    text: str
    section: Section
    epoch: int
    first_token_at: float | None


def _build_thread_section(section: Section, *, nonce: str, channel: Channel, thread: Thread, tz: tzinfo) -> str:
    """The quoted block, or "" where there is nothing to show and nothing to say."""
    if not section.messages and not section.notes:
        return ""
    return thread_block(
        section.messages,
        nonce=nonce,
        channel=channel,
        thread=thread,
        tz=tz,
        left_out=section.omitted,
        gap_after=section.gap_after,
        notes=section.notes,
        cap=section.cap,
    )


class Router:
    def __init__(self, *, reader: ThreadReader, inbox: Inbox, threads: ThreadRoutes, emit: Emit, tz: tzinfo) -> None:
        self._reader, self._inbox, self._threads, self._emit, self._tz = reader, inbox, threads, emit, tz
        self._telling = TurnTelling(emit)

    async def answer(
        self, session: PersistentSession, message: Message, said: Said, *, verified: Sequence[str] | None, reread: bool = False
    ) -> tuple[Answered, GateSummary]:
        """Raises TurnFailed. The caller posts the answer, still in the lane, and then calls `posted`."""
        turn = Turn(message, said, verified)
        async with session.turn():
            if reread:
                session.forget_thread(message.thread)
                self._reader.forget(message.thread)
            had_session = session.had_session
            try:
                while (answered := await self._ask(session, turn, had_session=had_session)) is None:
                    pass
            except StartFailed as e:
                session.tell_loss(ResetHow.NONE)
                raise TurnFailed(FailReason.START_FAILED) from e
            except AllRest as e:
                raise TurnFailed(RESTS[e.cause], until=e.until) from e
            finally:
                self._telling.decision(turn)
            return answered, summary_of(answered.section)

    async def _ask(self, session: PersistentSession, turn: Turn, *, had_session: bool) -> Answered | None:
        """One try. None: the context was lost, or has to be renewed, and the message is to be asked once more."""
        if session.over_budget:
            await session.rotate(ResetCause.ROTATE_TOKENS)
        await session.ready(guesses=not turn.refused_by)
        epoch = session.context.epoch
        section = turn.section = await self._gate(session, turn, had_session=had_session)
        if session.context.epoch != epoch:  # lost while the thread was read: what was decided does not hold any more
            turn.overtaken += 1
            if turn.overtaken > MOST_OVERTAKEN:
                raise TurnFailed(FailReason.SESSION_DIED)
            return None
        prompt, recalled = self._prompt(session, turn, section)
        spans = TurnSpans(self._emit, route=session.route.name, model=session.route.model, self_told=SELF_TOLD)
        try:
            reply = await self._send(session, turn, prompt, spans)
        except SessionDied as e:
            self._once(turn, "died", e, FailReason.SESSION_DIED)
            return None
        except TurnDeadline as e:
            await self._deadline(session, turn, e)
            return None
        if reply.answer.error is not None:
            await self._refused(session, turn, reply)
            return None
        session.needs_summary = False
        if reply.moved_by is not None:
            self._ask_again(session, turn, reply.moved_by)
            return None
        if not reply.answer.text.strip():
            await self._empty(session, turn)
            return None
        session.empty_answers = 0
        self._keep(session, turn, section, recalled, reply)
        return Answered(text=reply.answer.text.strip(), section=section, epoch=reply.epoch, first_token_at=spans.first_token_at)

    # -- before the prompt ---------------------------------------------------------------------------------------------
    async def _gate(self, session: PersistentSession, turn: Turn, *, had_session: bool) -> Section:
        m, context = turn.message, session.context
        with self._emit.span(SpanName.THREAD_GATE) as span:
            row = self._threads.get_thread_route(m.thread)
            epoch, known_threads = context.epoch, len(context)
            verdict = decide(
                View(
                    opens_thread=m.opens_thread,
                    known=session.knows_thread(m.thread),
                    waiting=len(self._inbox.heard(m.thread, before=m.ts)),
                    gap=context.is_gapped(m.thread) or bool(row and row.overflowed),
                    lost=turn.override or context.lost_because(m.thread),
                    carried=bool(row and row.carried),
                    had_session=had_session,
                    held_off=self._reader.held_off(m.thread),
                )
            )
            section = await self._reader.section(m, verdict, context, verified=turn.verified, small=turn.too_long > 1)
            verdict = section.verdict
            span.set({Attr.GATE_DECISION: verdict.decision.value, Attr.GATE_REASON: verdict.reason.value})
            span.set({Attr.SESSION_EPOCH: epoch, Attr.GATE_KNOWN_THREADS: known_threads})
        turn.decided = GateDecided(
            route=m.route,
            thread=m.thread,
            decision=verdict.decision,
            reason=verdict.reason,
            epoch=epoch,
            known_threads=known_threads,
        )
        return section

    def _prompt(self, session: PersistentSession, turn: Turn, section: Section) -> tuple[str, list[Recalled]]:
        m, nonce = turn.message, new_nonce()
        block = _build_thread_section(section, nonce=nonce, channel=m.channel, thread=m.thread, tz=self._tz)
        recalled = session.telling.recalled(without=m.thread) if session.needs_summary else []
        prompt = compose(
            Prompt(
                nonce=nonce,
                tz=self._tz,
                channel=m.channel,
                thread=m.thread,
                said=turn.said,
                recalled=recalled,
                block=block,
                carry_on=turn.carry_on,
            )
        )
        if block:
            self._telling.injection(session, turn, section, block)
        return prompt, recalled

    # -- the turn itself -----------------------------------------------------------------------------------------------
    async def _send(self, session: PersistentSession, turn: Turn, prompt: str, spans: TurnSpans) -> Reply:
        links = [session.span.ref] if session.span else []
        attributes = {
            Attr.GEN_AI_OPERATION: "invoke_agent",
            Attr.GEN_AI_AGENT: session.route.name,
            Attr.GEN_AI_PROVIDER: PROVIDER,
            Attr.GEN_AI_CONVERSATION_ID: session.session_id,
        }
        self._telling.question(session, turn)

        def watch(event: StreamEvent) -> None:
            if isinstance(event, Interrupted):
                self._spent(session, event.cost_by_model)
            spans.on_event(event)

        with self._emit.span(SpanName.INVOKE_AGENT, attributes, label=session.route.name, links=links) as span:
            failed: str | None = "interrupted"
            try:
                with asking(turn.message):
                    reply = await session.send_prompt(prompt, on_event=watch)
                failed = reply.answer.error
            finally:
                spans.finish(failed)
            u = spans.usage
            span.set(
                {Attr.GEN_AI_INPUT_TOKENS: u.occupancy, Attr.GEN_AI_OUTPUT_TOKENS: u.output, Attr.GEN_AI_CACHE_READ_TOKENS: u.cache_read}
            )
            span.set({Attr.GEN_AI_COMPACTED: reply.moved_by is not None, Attr.COST_USD: reply.answer.cost_usd})
            if reply.answer.error:
                span.fail(reply.answer.error)
            self._spent(session, reply.answer.cost_by_model)
        return reply

    def _spent(self, session: PersistentSession, by_model: Mapping[str, float]) -> None:
        for model, usd in by_model.items():
            self._emit(MoneySpent(route=session.route.name, model=model, usd=usd))

    # -- what else can come of it --------------------------------------------------------------------------------------
    def _ask_again(self, session: PersistentSession, turn: Turn, cause: ResetCause) -> None:
        """The answer was made from a summary: it is not given out."""
        if turn.asked_again:
            raise TurnFailed(FailReason.COMPACTED_TWICE)
        turn.asked_again, turn.override = True, REASON_AFTER[cause]
        turn.carry_on = bool(session.route.tools)
        self._emit(AskedAgain(route=session.route.name, cause=cause))

    def _once(self, turn: Turn, what: str, error: Exception, reason: FailReason) -> None:
        if getattr(turn, what):
            raise TurnFailed(reason) from error
        setattr(turn, what, True)

    async def _deadline(self, session: PersistentSession, turn: Turn, error: TurnDeadline) -> None:
        """A turn that hung is not repeated, but one that hung in a compaction had no chance: it gets a fresh session."""
        if not session.hung_compacting:
            raise TurnFailed(FailReason.DEADLINE) from error
        self._once(turn, "hung", error, FailReason.DEADLINE)
        await session.rotate(ResetCause.ROTATE_TOKENS)

    async def _empty(self, session: PersistentSession, turn: Turn) -> None:
        """It is asked once more; a session that has said nothing for long, in another one."""
        session.empty_answers += 1
        if turn.empty:
            raise TurnFailed(FailReason.EMPTY_ANSWER)
        turn.empty = True
        if session.empty_answers >= MOST_EMPTY_ANSWERS:
            await session.rotate(ResetCause.RESUME_FAILED)

    async def _refused(self, session: PersistentSession, turn: Turn, reply: Reply) -> None:
        """One fresh start where the session's own past is what the model refuses, another account where this one may not be asked;
        every other error is told."""
        error, status = reply.answer.error or "", reply.answer.status
        if error in REFUSALS:
            self._elsewhere(session, turn, FAILURES[error])
            return
        if error == "prompt_too_long" and turn.too_long < 2:
            turn.too_long += 1  # first an empty session, and only if that does not help a smaller section
        elif status == 400 and session.unproven_resume and not turn.poisoned:
            turn.poisoned = True
        else:
            raise TurnFailed(FAILURES.get(error, FailReason.MODEL_ERROR))
        await session.rotate(ResetCause.RESUME_FAILED)

    def _elsewhere(self, session: PersistentSession, turn: Turn, reason: FailReason) -> None:
        """The account rests now, and the next try begins under another one, if there is any. Each is asked once."""
        if session.account in turn.refused_by:
            raise TurnFailed(reason)  # its rest was shorter than what this message took
        turn.refused_by.add(session.account)
        turn.carry_on = bool(session.route.tools)

    # -- after an answered turn ----------------------------------------------------------------------------------------
    def _keep(self, session: PersistentSession, turn: Turn, section: Section, recalled: Sequence[Recalled], reply: Reply) -> None:
        m, context, epoch = turn.message, session.context, reply.epoch
        context.note_shown(m.thread, [*section.messages, turn.said], epoch=epoch)
        for r in recalled:
            if r.whole:
                context.note_shown(r.thread, [r.said], epoch=epoch)
        if section.complete:
            self._mark(session, turn, section, epoch=epoch)

    def _mark(self, session: PersistentSession, turn: Turn, section: Section, *, epoch: int) -> None:
        m = turn.message
        if m.body.get("edited"):
            return  # it may have become a question long after others had gone on below it: the next one reads those
        session.mark_thread_known(m.thread, epoch=epoch)
        self._inbox.carried(m.thread, before=m.ts, upto=section.upto)
        if section.verdict.reads:
            self._threads.caught_up(m.thread)

    def posted(self, session: PersistentSession, message: Message, answered: Answered, own: Sequence[Said]) -> None:
        """The answer stands in Slack as these messages; they need not be shown to the session that wrote them."""
        session.context.note_shown(message.thread, own, epoch=answered.epoch)
        self._telling.answer(session, message, answered.text, own, epoch=answered.epoch)

    async def settle(self, session: PersistentSession) -> None:
        """Between turns, off the reply's path: what the next message would otherwise wait for."""
        if not session.over_budget:
            return
        async with session.turn():
            try:
                if session.route.prefer == "compaction":
                    await self._compact(session)
                if session.over_budget:
                    await session.rotate(ResetCause.ROTATE_TOKENS)
            except StartFailed:
                session.tell_loss(ResetHow.NONE)  # the next message starts it again

    async def _compact(self, session: PersistentSession) -> None:
        """Where it cannot be done, the budget stays spent, and a rotate takes its place."""
        with suppress(SessionDied, TurnDeadline):
            await session.compact()


def summary_of(section: Section) -> GateSummary:
    v = section.verdict
    return GateSummary(
        decision=v.decision, reason=v.reason, injection=section.injection, messages=len(section.messages), omitted=section.omitted
    )
