"""What one session tells of itself: facts for telemetry, entries for its session log.

What must stay true: telling never raises. It is called from the reader of the stream and after an answer was posted, where
a full disk must neither end the session nor turn an answered message into a failed one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bot.known_threads import Loss
from bot.ports import Clock, Compacted
from bot.session_log import Entry, EntryKind, Recalled, SessionLog, build_context_summary
from telemetry.account_events import AccountSwitched, SwitchCause
from telemetry.emit import Emit
from telemetry.events import (
    CompactionFailed,
    ResetHow,
    SessionReset,
    SessionSeen,
    SessionStarted,
    SessionState,
    Thread,
    TraceRef,
)


class SessionTelling:
    """`last_reply`: what a reset that no reply met is linked to."""

    def __init__(self, *, route: str, key: str, limit_tokens: int, folder: Path, clock: Clock, emit: Emit) -> None:
        self._route, self._key, self._limit, self._folder, self._clock, self._emit = route, key, limit_tokens, folder, clock, emit
        self._log: SessionLog | None = None
        self._log_fails = self._warned = False
        self.last_reply: TraceRef | None = None

    def open_log(self, session_id: str) -> None:
        try:
            self._log = SessionLog(self._folder, route=self._route, session_id=session_id, clock=self._clock)
        except OSError as e:
            self._log = None
            self._log_failed(e)

    def log(self, entry: Entry) -> None:
        if self._log is None:
            return
        try:
            self._log.append(entry)
            self._log_fails = False
        except OSError as e:
            self._log_failed(e)

    def recalled(self, *, without: Thread) -> list[Recalled]:
        """What the session before this one is remembered by; nothing where its log cannot be read."""
        try:
            return build_context_summary(self._folder, without=without)
        except OSError as e:
            self._log_failed(e)
            return []

    def _log_failed(self, error: OSError) -> None:
        """Said once for each time it begins to fail."""
        if not self._log_fails:
            print(f"insomnia: the session log in {self._folder} cannot be used ({error.strerror}); the bot goes on", file=sys.stderr)
        self._log_fails = True

    def started(self, *, session_id: str, how: ResetHow, account: str, seconds: float) -> None:
        self._emit(SessionStarted(route=self._route, key=self._key, session_id=session_id, how=how, account=account, seconds=seconds))

    def compaction_failed(self, *, session_id: str) -> None:
        self._emit(CompactionFailed(route=self._route, key=self._key, session_id=session_id, error="compaction_failed"))

    def switched(self, *, session_id: str, account: str, to: str, cause: SwitchCause) -> None:
        self._emit(AccountSwitched(route=self._route, key=self._key, session_id=session_id, account=account, to=to, cause=cause))

    def unannounced(self) -> None:
        """Said once a session: the CLI seems to compact without telling, as each of its `compaction_inferred` resets says too."""
        if not self._warned:
            print(f"insomnia: session {self._key} lost context that the CLI did not announce; its threads are read again", file=sys.stderr)
        self._warned = True

    def reset(self, loss: Loss, how: ResetHow, *, epoch: int, boundary: Compacted | None = None) -> None:
        self._emit(
            SessionReset(
                route=self._route,
                key=self._key,
                session_id=loss.session_id,
                cause=loss.cause,
                how=how,
                epoch=epoch,
                forgotten=loss.forgotten,
                pre_tokens=boundary.pre_tokens if boundary else None,
                post_tokens=boundary.post_tokens if boundary else None,
                duration_seconds=boundary.duration_seconds if boundary else None,
                linked=self.last_reply,
            )
        )
        self.log(Entry(kind=EntryKind.RESET, text=loss.cause.value, epoch=epoch, trace=self._emit.current()))

    def seen(self, *, state: SessionState, known_threads: int, context_tokens: int, epoch: int) -> None:
        self._emit(
            SessionSeen(
                route=self._route,
                key=self._key,
                state=state,
                known_threads=known_threads,
                context_tokens=context_tokens,
                limit_tokens=self._limit,
                epoch=epoch,
            )
        )
