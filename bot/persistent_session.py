"""One rolling Claude session of one route: its context, its turns, its resets.

What must stay true: whatever empties or shrinks the context goes through `_forget_threads` before anything else may
fail, and tells exactly one reset. `_do_start` is the only way to a process, and forgets first. One turn at a time, under
`turn()`, so that nothing slips between the gate and the mark. However a turn or a start ends, the state it leaves allows
the next one.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bot.config import Credential
from bot.known_threads import KnownThreads, Loss
from bot.occupancy import Fall, Occupancy
from bot.ports import (
    Answer,
    ClaudeSession,
    Cleared,
    Compacted,
    CompactionGaveUp,
    LimitTold,
    SessionDied,
    StartFailed,
    StreamEvent,
)
from bot.routes import RouteSettings
from bot.session_process import SessionParts as SessionParts
from bot.session_process import SessionProcess
from bot.session_states import check_move
from bot.session_telling import SessionTelling
from bot.session_turns import Reply, lost_by
from telemetry.emit import Span
from telemetry.events import ResetCause, ResetHow, SessionState, Thread

# Of one thread only; and what an earlier process left is read at the start, before any session is.
STILL_THE_SAME = (ResetCause.FORGET_MANUAL, ResetCause.RESTART)
COMPACT_SECONDS = 180  # a summary of a full window is one long model answer
GIVE_UPS = 2  # turns in a row that died or hung: resuming what they were resumed from does not help
OnEvent = Callable[[StreamEvent], None]


class PersistentSession:
    def __init__(self, route: RouteSettings, key: str, parts: SessionParts) -> None:
        self.route, self.key, self._parts = route, key, parts
        self.state = SessionState.STOPPED
        self.session_id = parts.threads.session_id(key)
        self.needs_summary = False
        self.empty_answers = 0  # in a row
        self.telling = SessionTelling(
            route=route.name, key=key, limit_tokens=route.rotate_at, folder=self.log_folder, clock=parts.clock, emit=parts.emit
        )
        self._process = SessionProcess(route, key, parts, telling=self.telling, on_exit=self._exited, on_stray=self._on_stray)
        self._known_threads = KnownThreads()
        self._occupancy = Occupancy()
        self._auto_compact_count = 0
        self._given_up = 0  # turns in a row
        self._wanted = 0  # turns under way or waiting for the lock
        self._resumable = bool(self.session_id)
        self._ever_started = self._resumed = self._answered_since_start = False
        self._loss: Loss | None = None
        self._spared = False
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        known, epoch = len(self._known_threads), self._known_threads.epoch
        return f"<PersistentSession {self.key} {self.state.value} epoch={epoch} known={known} tokens={self.context_tokens}>"

    # -- the set -------------------------------------------------------------------------------------------------------
    @property
    def context(self) -> KnownThreads:
        return self._known_threads

    def knows_thread(self, thread: Thread) -> bool:
        return thread in self._known_threads

    def mark_thread_known(self, thread: Thread, *, epoch: int) -> bool:
        marked = self._known_threads.mark(thread, epoch=epoch)
        self._seen()
        return marked

    def forget_thread(self, thread: Thread) -> None:
        self._tell(self._known_threads.forget_one(thread, session_id=self.session_id), ResetHow.NONE)

    def _forget_threads(self, cause: ResetCause) -> Loss:
        return self._known_threads.forget(cause, session_id=self.session_id)

    def _lose(self, cause: ResetCause) -> None:
        """Forgets now; how the session goes on is told with the start that follows. A loss that still waits goes on as this one."""
        loss = self._forget_threads(cause)
        if self._loss is None:
            self._loss = loss
        else:
            self._loss.cause = cause

    # -- what the router asks ------------------------------------------------------------------------------------------
    @property
    def had_session(self) -> bool:
        """Whether the route had a session before the turn that asks."""
        return self._ever_started or self._resumable

    @property
    def context_tokens(self) -> int:
        return self._occupancy.tokens

    @property
    def account(self) -> str:
        """Under which its process runs, or ran."""
        return self._process.account

    @property
    def is_resident(self) -> bool:
        """It has a process, or is about to."""
        return self.state in (SessionState.STARTING, SessionState.IDLE, SessionState.BUSY)

    @property
    def is_idle(self) -> bool:
        """Its process can be ended without anybody waiting for it."""
        return self.state is SessionState.IDLE and not self._wanted

    @property
    def over_budget(self) -> bool:
        return self.context_tokens >= self.route.rotate_at

    @property
    def hung_compacting(self) -> bool:
        """Of the last turn, if it was given up: asked again in this session, it would hang again."""
        return self._occupancy.compacting

    @property
    def unproven_resume(self) -> bool:
        """Resumed, and no turn has ended well since: its transcript may be what the model refuses."""
        return self._resumed and not self._answered_since_start

    @property
    def span(self) -> Span | None:
        """Of the live process; replies link to it."""
        return self._process.span

    @property
    def log_folder(self) -> Path:
        return self._parts.folder / self.key

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The lock under which gate, prompt and mark belong together."""
        self._wanted += 1
        try:
            async with self._lock:
                yield
        finally:
            self._wanted -= 1

    # -- life ----------------------------------------------------------------------------------------------------------
    async def ready(self, *, guesses: bool = True) -> None:
        """A living process, resumed or begun, under an account that may be asked (`guesses`: see `Accounts.choose`).

        Raises AllRest, and nothing has changed then; StartFailed, and the set is empty then.
        """
        accounts = self._parts.accounts
        if self._process.alive and accounts.why_not(self.account) is None:
            return
        under = accounts.choose(now_under=self.account, guesses=guesses)
        if self._process.alive and under.account == self.account:
            return
        if self._process.alive:
            await self._leave_account(under)
        self._process.check_backoff()
        cause = self._unnoticed_loss()
        if not self._resumable:
            await self._do_start(ResetHow.FRESH, cause=cause, under=under)
            return
        try:
            await self._do_start(ResetHow.RESUME, cause=cause, under=under)
        except StartFailed:
            await self._start_anew(ResetCause.RESUME_FAILED)

    async def _leave_account(self, to: Credential) -> None:
        """Its account rests. The next start carries the context on under the other one, and forgets."""
        why = self._parts.accounts.why_not(self.account)
        self._lose(ResetCause.ACCOUNT_SWITCH)
        if why is not None:
            self.telling.switched(session_id=self.session_id, account=self.account, to=to.account, cause=why)
        await self._stop()

    async def _stop(self) -> None:
        self._enter(SessionState.STOPPING)
        try:
            await self._process.end()
        finally:
            self._enter(SessionState.STOPPED)

    async def hibernate(self) -> None:
        """Ends the process of an idle session; the next message resumes it. What another session's turn is about has no part in it."""
        async with self.turn():
            if self.state is not SessionState.IDLE:
                return
            loss = self._forget_threads(ResetCause.HIBERNATE)
            self._enter(SessionState.HIBERNATED)
            contextvars.Context().run(self._tell, loss, ResetHow.NONE)
            await self._process.end()

    def _unnoticed_loss(self) -> ResetCause | None:
        """A death in the moment between an answer and its mark, or the end of the bot before this one; other ends were seen."""
        if self._process.current is not None:
            self._process.gone()
            self._enter(SessionState.FAILED)
            return ResetCause.CRASH
        return ResetCause.RESTART if self._resumable and not self._ever_started else None

    async def rotate(self, cause: ResetCause) -> None:
        """A fresh session; the summary of the old one goes in front of its first prompt. Raises StartFailed."""
        self._lose(cause)
        self._enter(SessionState.ROTATING)
        await self._process.end()
        await self._start_anew(cause)

    def _renounce(self) -> None:
        """Its id is not resumed any more; what it held is recalled by a summary."""
        self._parts.threads.drop_session(self.key)
        self._resumable, self.needs_summary, self._given_up, self.empty_answers = False, True, 0, 0

    async def _start_anew(self, cause: ResetCause) -> None:
        self._renounce()
        if self._loss is None:
            await self._do_start(ResetHow.FRESH, cause=cause)
        else:
            self._loss.cause = cause  # the same loss, of which it is known now that it goes on afresh
            await self._do_start(ResetHow.FRESH, cause=None)

    async def _do_start(self, how: ResetHow, *, cause: ResetCause | None, under: Credential | None = None) -> None:
        """Forgets, then spawns. `cause` is None where the loss was met, or told, before."""
        if cause is not None:
            self._lose(cause)
        else:
            self._forget_threads(ResetCause.RESTART)
        if how is ResetHow.FRESH:
            self.session_id = str(uuid.uuid4())
        self._enter(SessionState.STARTING)
        self._occupancy.begin_anew()
        try:
            await self._parts.make_room()
            await self._process.start(self.session_id, how, under=under or self._parts.accounts.for_start())
        finally:
            self._enter(SessionState.IDLE if self._process.current is not None else SessionState.FAILED)
        self._ever_started, self._resumed, self._answered_since_start = True, how is ResetHow.RESUME, False
        self.telling.open_log(self.session_id)
        self.tell_loss(how)

    async def close(self) -> None:
        """For the end of the bot: the id stays resumable."""
        async with self.turn():
            if self.state is not SessionState.STOPPED:
                await self._stop()
            self.tell_loss(ResetHow.NONE)

    def _exited(self, code: int | None) -> None:
        """The process ended by itself, between turns. (Inside a turn the turn tells; a start that fails tells by itself.)"""
        if self.state is SessionState.IDLE:
            loss = self._forget_threads(ResetCause.CRASH)
            self._process.gone()
            self._enter(SessionState.FAILED)
            self._tell(loss, ResetHow.NONE)

    # -- turns ---------------------------------------------------------------------------------------------------------
    async def send_prompt(self, prompt: str, *, on_event: OnEvent) -> Reply:
        """Raises SessionDied and TurnDeadline; the process is gone then, the set empty, and `ready` starts it again."""
        reply = await self._ask(lambda process, on: process.send(prompt, on_event=on, seconds=self.route.turn_seconds), on_event)
        if reply.answer.error is not None:
            return reply
        if (fall := self._occupancy.end_turn()) is not None:
            reply = replace(reply, moved_by=self._infer_compaction(fall))
        self._answered()
        return reply

    def spare_process(self) -> None:
        """The turn under way is about to be cancelled, and nothing is wrong with it: the driver interrupts it, and the context stays."""
        self._spared = True

    async def compact(self) -> None:
        """The bot's own `/compact`, between turns; its boundary tells what was forgotten. A failed one changes nothing."""
        await self._ask(lambda process, on: process.compact(on_event=on, seconds=COMPACT_SECONDS), lambda _: None)

    async def _ask(self, send: Callable[[ClaudeSession, OnEvent], Awaitable[Answer]], on_event: OnEvent) -> Reply:
        process, epoch = self._process.current, self._known_threads.epoch
        if process is None:
            raise SessionDied(None)
        moved: list[ResetCause] = []

        def watch(event: StreamEvent) -> None:
            if (cause := self._context_event(event)) is not None:
                moved.append(cause)
            on_event(event)

        self._enter(SessionState.BUSY)
        self._occupancy.begin_turn()
        self._spared = False
        try:
            answer = await send(process, watch)
        except BaseException as e:
            if self._spared and isinstance(e, asyncio.CancelledError) and process.alive:
                self._enter(SessionState.IDLE)
            else:
                await self._give_up(lost_by(e, hung_compacting=self.hung_compacting))
            raise
        self._enter(SessionState.IDLE)
        self._given_up = 0
        self._parts.accounts.heard(self.account, answer)
        return Reply(answer, epoch, moved[-1] if moved else None)

    async def _give_up(self, cause: ResetCause) -> None:
        """The process died, or hung and is not trusted any more; the next start resumes what it wrote down, if that ever helped."""
        self._given_up += 1
        if self._given_up >= GIVE_UPS and self._resumable:
            self._renounce()
            cause = ResetCause.RESUME_FAILED
        self._lose(cause)
        self._enter(SessionState.FAILED)
        await self._process.end()

    def _answered(self) -> None:
        self._answered_since_start = True
        if not self._resumable:  # an id is worth resuming only once a turn of it has succeeded
            self._resumable = True
            self._parts.threads.remember_session(self.key, route=self.route.name, session_id=self.session_id, account=self.account)
        self._seen()

    # -- what the stream says of the context ---------------------------------------------------------------------------
    def _context_event(self, event: StreamEvent) -> ResetCause | None:
        self._occupancy.feed(event)
        match event:
            case CompactionGaveUp():
                self.telling.compaction_failed(session_id=self.session_id)
            case Compacted():
                return self._log_auto_compact(event)
            case Cleared():
                self._tell(self._forget_threads(ResetCause.CLEARED), ResetHow.NONE)
                return ResetCause.CLEARED
            case LimitTold():
                self._parts.accounts.warned(self.account, near=event.near)
            case _:
                pass
        return None

    def _log_auto_compact(self, boundary: Compacted) -> ResetCause:
        """Every boundary comes here; those that the CLI decided on are counted."""
        manual = boundary.trigger == "manual"
        self._auto_compact_count += not manual
        loss = self._forget_threads(ResetCause.COMPACTION_MANUAL if manual else ResetCause.COMPACTION_AUTO)
        self._tell(loss, ResetHow.NONE, boundary)
        return loss.cause

    def _infer_compaction(self, fall: Fall) -> ResetCause:
        """Nobody announced it: the answer was made without what is missing."""
        loss = self._forget_threads(ResetCause.COMPACTION_INFERRED)
        self.telling.unannounced()
        self._tell(loss, ResetHow.NONE, Compacted(self._parts.clock.now(), "inferred", fall.before, fall.after, None))
        return loss.cause

    def _on_stray(self, event: StreamEvent) -> None:
        self._context_event(event)

    # -- telling -------------------------------------------------------------------------------------------------------
    def tell_loss(self, how: ResetHow) -> None:
        """A loss that waited for the start that follows it; NONE where nobody starts the session again."""
        loss, self._loss = self._loss, None
        if loss is not None:
            self._tell(loss, how)

    def _tell(self, loss: Loss, how: ResetHow, boundary: Compacted | None = None) -> None:
        self.telling.reset(loss, how, epoch=self._known_threads.epoch, boundary=boundary)
        if loss.cause not in STILL_THE_SAME:
            self._parts.ended(self.route.name, self.key, loss.session_id, self.telling.last_reply)
        self._seen()

    def _enter(self, state: SessionState) -> None:
        self.state = check_move(self.key, self.state, state)
        self._seen()

    def _seen(self) -> None:
        known = self._known_threads
        self.telling.seen(state=self.state, known_threads=len(known), context_tokens=self.context_tokens, epoch=known.epoch)
