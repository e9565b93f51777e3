"""What one session tells of itself: facts for telemetry, entries for its session log."""

from __future__ import annotations

from pathlib import Path

from bot.known_threads import Loss
from bot.ports import Clock, Compacted
from bot.session_log import Entry, EntryKind, SessionLog
from telemetry.emit import Emit
from telemetry.events import (
    CompactionFailed,
    ResetHow,
    SessionReset,
    SessionSeen,
    SessionStarted,
    SessionState,
    TraceRef,
)


class SessionTelling:
    """`last_reply`: what a reset that no reply met is linked to."""

    def __init__(self, *, route: str, key: str, limit_tokens: int, folder: Path, clock: Clock, emit: Emit) -> None:
        self._route, self._key, self._limit, self._folder, self._clock, self._emit = route, key, limit_tokens, folder, clock, emit
        self._log: SessionLog | None = None
        self.last_reply: TraceRef | None = None

    def open_log(self, session_id: str) -> None:
        self._log = SessionLog(self._folder, route=self._route, session_id=session_id, clock=self._clock)

    def log(self, entry: Entry) -> None:
        if self._log is not None:
            self._log.append(entry)

    def started(self, *, session_id: str, how: ResetHow, account: str, seconds: float) -> None:
        self._emit(SessionStarted(route=self._route, key=self._key, session_id=session_id, how=how, account=account, seconds=seconds))

    def compaction_failed(self, *, session_id: str) -> None:
        self._emit(CompactionFailed(route=self._route, key=self._key, session_id=session_id, error="compaction_failed"))

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

    def seen(self, *, state: SessionState, known_threads: int, context_tokens: int) -> None:
        self._emit(
            SessionSeen(
                route=self._route,
                key=self._key,
                state=state,
                known_threads=known_threads,
                context_tokens=context_tokens,
                limit_tokens=self._limit,
            )
        )
