"""The CLI process of one session, and the span of its life.

What must stay true: at most one process; its span is begun before it is spawned and ended with it, however it ends. What
the process means for the context (epochs, resets, states) is not decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from bot.accounts import Accounts
from bot.config import Credential
from bot.ports import ClaudeSession, ClaudeStarter, Clock, Launch, StartFailed, StreamEvent, Tool
from bot.routes import RouteSettings
from bot.session_telling import SessionTelling
from bot.thread_routes import ThreadRoutes
from telemetry.emit import Emit, Span
from telemetry.events import ResetHow, TraceRef
from telemetry.names import Attr, SpanName

LONGEST_BACKOFF = 60.0


async def _is_room() -> None:
    """Where nobody counts processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """What every session of the bot shares. `folder`: where the session logs lie, a folder a key.

    `own_tools`: of our own process. `make_room` is awaited before each start. `ended` hears of each end of a session's
    context: route, key, session id, its last reply.
    """

    starter: ClaudeStarter
    threads: ThreadRoutes
    folder: Path
    clock: Clock
    emit: Emit
    system_prompt: Callable[[RouteSettings], str]
    accounts: Accounts
    own_tools: Sequence[Tool] = ()
    make_room: Callable[[], Awaitable[None]] = _is_room
    ended: Callable[[str, str, str, TraceRef | None], None] = lambda route, key, session_id, last_reply: None


class SessionProcess:
    """`current` is the process as it was last seen; it may have died meanwhile (`alive`). `account`: that it runs, or ran, under."""

    def __init__(
        self,
        route: RouteSettings,
        key: str,
        parts: SessionParts,
        *,
        telling: SessionTelling,
        on_exit: Callable[[int | None], None],
        on_stray: Callable[[StreamEvent], None],
    ) -> None:
        self._route, self._key, self._parts, self._telling = route, key, parts, telling
        self._on_exit, self._on_stray = on_exit, on_stray
        self.current: ClaudeSession | None = None
        self.span: Span | None = None  # of the live process; replies link to it
        self.account = ""
        self._failed_starts = 0  # in a row
        self._failed_at = 0.0

    @property
    def alive(self) -> bool:
        return self.current is not None and self.current.alive

    def check_backoff(self) -> None:
        """Raises StartFailed while it is too early for another try: 2 s after the second failure in a row, up to a minute."""
        waits = min(LONGEST_BACKOFF, 2.0 ** (self._failed_starts - 1)) if self._failed_starts > 1 else 0.0
        if self._parts.clock.monotonic() < self._failed_at + waits:
            raise StartFailed(f"the last {self._failed_starts} starts failed")

    async def start(self, session_id: str, how: ResetHow, *, under: Credential) -> None:
        """Raises StartFailed."""
        emit, clock = self._parts.emit, self._parts.clock
        self.account, credential = under.account, (under.variable, under.value)
        self.span = emit.begin(SpanName.SESSION, {Attr.ROUTE: self._route.name, Attr.SESSION_KEY: self._key}, root=True)
        attributes = {Attr.RESET_HOW: how.value, Attr.SESSION_ACCOUNT: self.account, Attr.GEN_AI_CONVERSATION_ID: session_id}
        try:
            with self._adopted(self.span), emit.span(SpanName.SESSION_START, attributes) as span:
                began = clock.monotonic()
                launch = self._launch(session_id, how, credential)
                self.current = await self._parts.starter.start(launch, on_exit=self._on_exit, on_stray=self._on_stray)
                self._failed_starts = 0
                span.set({Attr.SESSION_PID: self.current.pid})
                self._telling.started(session_id=session_id, how=how, account=self.account, seconds=clock.monotonic() - began)
        finally:
            if self.current is None:
                self._failed_starts, self._failed_at = self._failed_starts + 1, clock.monotonic()
                self.gone()

    def _adopted(self, span: Span) -> AbstractContextManager[None]:
        """What no reply caused hangs under the session's own span."""
        return nullcontext() if self._parts.emit.current() is not None else self._parts.emit.within(span)

    def _launch(self, session_id: str, how: ResetHow, credential: tuple[str, str]) -> Launch:
        route = self._route
        return Launch(
            key=self._key,
            session_id=session_id,
            resume=how is ResetHow.RESUME,
            model=route.model,
            autocompact=route.autocompact,
            system_prompt=self._parts.system_prompt(route),
            tools=route.tools,
            own_tools=self._parts.own_tools,
            cwd=route.cwd,
            credential=credential,
        )

    async def end(self) -> None:
        process, self.current = self.current, None
        try:
            if process is not None:
                await process.close()
        finally:
            self.gone()

    def gone(self) -> None:
        """There is none any more, or it never came up."""
        self.current = None
        if self.span is not None:
            self.span.end()
