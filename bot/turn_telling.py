"""One message on its way through a session, and what is told of it: facts for telemetry, entries for the session log.

What must stay true: one decision is told for each message, however often it had to be asked, and it is the one that its
last prompt was made from; thread text is told each time it goes into a prompt, with the reason of that prompt's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.messages import Message, Said
from bot.persistent_session import PersistentSession
from bot.session_log import Entry, EntryKind
from bot.thread_sections import Section
from telemetry.emit import Emit
from telemetry.events import GateDecided, Reason, ThreadInjected
from telemetry.names import SpanName


@dataclass(slots=True)
class Turn:
    """The flags and counts bound how often the message may be asked. `overtaken`: the context was lost while the gate looked.

    `refused_by`: accounts. `logged_in`: the session in whose log the question stands.
    """

    message: Message
    said: Said
    verified: Sequence[str] | None
    override: Reason | None = None
    section: Section | None = None
    decided: GateDecided | None = None
    asked_again: bool = False
    died: bool = False
    hung: bool = False
    too_long: int = 0
    overtaken: int = 0
    poisoned: bool = False
    empty: bool = False
    refused_by: set[str] = field(default_factory=set)
    carry_on: bool = False
    logged_in: str = ""


class TurnTelling:
    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def decision(self, turn: Turn) -> None:
        if turn.decided is not None:
            self._emit(turn.decided)

    def injection(self, session: PersistentSession, turn: Turn, section: Section, block: str) -> None:
        """`block` stands in the prompt; where it holds notes only, no thread text was injected."""
        m = turn.message
        if section.messages and section.injection:
            with self._emit.span(SpanName.THREAD_INJECT):
                self._emit(
                    ThreadInjected(
                        route=m.route,
                        thread=m.thread,
                        reason=section.verdict.reason,
                        injection=section.injection,
                        messages=len(section.messages),
                        omitted=section.omitted,
                        chars=len(block),
                    )
                )
        trace, epoch = self._emit.current(), session.context.epoch
        session.telling.log(Entry(kind=EntryKind.INJECTED, text=block, epoch=epoch, thread=m.thread, trust="external", trace=trace))

    def question(self, session: PersistentSession, turn: Turn) -> None:
        if turn.logged_in == session.session_id:
            return  # asked again: it was said once
        turn.logged_in = session.session_id
        m, trust = turn.message, "person" if turn.said.speaker.verified else "external"
        session.telling.log(
            Entry(
                kind=EntryKind.USER,
                text=turn.said.text,
                epoch=session.context.epoch,
                thread=m.thread,
                message_ts=m.ts,
                speaker=turn.said.speaker,
                trust=trust,
                trace=self._emit.current(),
            )
        )

    def answer(self, session: PersistentSession, message: Message, text: str, own: Sequence[Said], *, epoch: int) -> None:
        """`own`: the messages that stand in Slack now."""
        session.telling.last_reply = self._emit.current()
        session.telling.log(
            Entry(
                kind=EntryKind.ASSISTANT,
                text=text,
                epoch=epoch,
                thread=message.thread,
                message_ts=own[0].ts if own else "",
                speaker=own[0].speaker if own else None,
                trace=self._emit.current(),
            )
        )
