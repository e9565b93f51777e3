"""What the bot last said of itself: sessions, queue, Slack, its last reply, its last memory run.

A span processor and a listener of facts. The facts say what happened; the end of a span tells of what nobody said any
more. In-process readers ask `latest()`, other processes read the file that `StatusWriter` replaces.

What must stay true: it holds with any sampler, with OTEL_SDK_DISABLED, and with any limit that an operator sets for
spans, since what a fact said never depends on an attribute.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import format_trace_id

from telemetry import account_events, events
from telemetry.events import Fact, Outcome
from telemetry.memory_events import MemoryRunEnded, MemoryRunStarted
from telemetry.names import Attr, SpanName
from telemetry.status_file import STARTED, AccountStatus, ReplyStatus, RunStatus, SessionStatus, Status, abandoned, read_status
from telemetry.status_runs import Runs, current_trace, is_run, seconds_of, text_of
from telemetry.status_writer import StatusWriter

_DROPPED = frozenset(reason.value for reason in events.DropReason)
MAX_SESSIONS = 500  # the least recently heard of goes first; the file stays far below what its readers take


class LatestStatus(SpanProcessor):
    """`slack_mode` = embedded | socket | http, `model_kind` = embedded | anthropic. `path`: the file, None for none.

    What the process before said of memory and replies still holds; a run that it did not end is taken for interrupted.
    """

    def __init__(
        self, path: Path | None = None, *, slack_mode: str = "", model_kind: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._lock = threading.Lock()
        before = read_status(path) if path else None
        self._status = Status(
            pid=os.getpid(),
            at=now(),
            slack_mode=slack_mode,
            model_kind=model_kind,
            reply=before.reply if before else None,
        )
        self._sessions: dict[tuple[str, str], SessionStatus] = {}
        self._accounts: dict[str, AccountStatus] = {}
        self._lanes: dict[tuple[str, str], int] = {}
        self._runs = Runs(abandoned(before.memory) if before else None)
        self._writer = StatusWriter(path, self.latest) if path else None
        self._changed = self._writer.changed if self._writer else lambda: None
        self._changed()

    def latest(self) -> Status:
        with self._lock:
            return replace(
                self._status,
                at=self._now(),
                sessions=tuple(self._sessions.values()),
                accounts=tuple(self._accounts.values()),
                queue_depth=sum(self._lanes.values()),
                memory=self._runs.latest(),
            )

    # -- facts ---------------------------------------------------------------------------------------------------------
    def hear(self, fact: Fact) -> None:
        with self._lock:
            heard = self._hear(fact)
        if heard:
            self._changed()

    def _hear(self, fact: Fact) -> bool:
        match fact:
            case events.SessionSeen():
                self._session(fact)
            case events.LaneDepth():
                self._lanes[fact.route, fact.key] = fact.depth
                if fact.depth == 0:
                    del self._lanes[fact.route, fact.key]
            case events.SessionStarted():
                self._set(account=fact.account)
            case account_events.AccountSeen():
                self._account(fact)
            case events.SlackConnection():
                self._set(connected=fact.up, connections=fact.connections)
            case events.SlackReconnected():
                self._set(connected=True)
            case events.SlackEventSeen():
                self._set(connected=True, last_event_at=self._now())
            case events.ReplyEnded():
                self._reply_ended(fact)
            case MemoryRunStarted():
                self._run_started(fact)
            case MemoryRunEnded():
                self._run_ended(fact)
            case _:
                return False
        return True

    def _set(self, **changed: Any) -> None:
        self._status = replace(self._status, **changed)

    def _session(self, fact: events.SessionSeen) -> None:
        self._sessions.pop((fact.route, fact.key), None)  # the last heard of stands last
        self._sessions[fact.route, fact.key] = SessionStatus(
            route=fact.route,
            key=fact.key,
            state=fact.state.value,
            epoch=fact.epoch,
            known_threads=fact.known_threads,
            context_tokens=fact.context_tokens,
            limit_tokens=fact.limit_tokens,
        )
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def _account(self, fact: account_events.AccountSeen) -> None:
        until = self._now() + fact.rest_seconds if fact.rest_seconds else 0.0
        self._accounts[fact.account] = AccountStatus(name=fact.account, state=fact.state.value, until=until)

    def _reply_ended(self, fact: events.ReplyEnded) -> None:
        self._set(
            reply=ReplyStatus(
                route=fact.route,
                outcome=fact.outcome.value,
                at=self._now(),
                seconds=fact.seconds,
                reason=fact.reason.value if fact.reason else "",
                message_ts=fact.message_ts,
                trace_id=current_trace(),
            )
        )

    def _run_started(self, fact: MemoryRunStarted) -> None:
        key = self._runs.key_of(fact.run_id)
        begun = self._runs.running(key)
        self._runs.started(
            key,
            RunStatus(
                run_id=fact.run_id,
                worker=fact.worker.value,
                trigger=fact.trigger.value,
                status=STARTED,
                at=self._now(),
                began_at=begun.began_at if begun else self._now(),
                limit_seconds=begun.limit_seconds if begun else 0.0,
                trace_id=current_trace(),
            ),
        )

    def _run_ended(self, fact: MemoryRunEnded) -> None:
        now = self._now()
        run = RunStatus(
            run_id=fact.run_id,
            worker=fact.worker.value,
            trigger=fact.trigger.value,
            status=fact.status.value,
            at=now,
            reason=fact.reason.value,
            began_at=now - fact.seconds,
            trace_id=current_trace(),
            staged=fact.extract.staged if fact.extract else 0,
            ops={op.value: count for op, count in fact.consolidation.ops.items()} if fact.consolidation else {},
        )
        self._runs.ended(self._runs.key_of(fact.run_id), run)

    # -- spans ---------------------------------------------------------------------------------------------------------
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if is_run(span.name):
            with self._lock:
                self._runs.span_started(span)
            self._changed()

    def on_end(self, span: ReadableSpan) -> None:
        if is_run(span.name):
            with self._lock:
                self._runs.span_ended(span)
        elif span.name == SpanName.PROCESS:
            with self._lock:
                self._reply_span_ended(span)
        else:
            return
        self._changed()

    def _reply_span_ended(self, span: ReadableSpan) -> None:
        """A reply that was left to the next process has no other end. A message that was dropped got no reply."""
        about, trace_id = span.attributes or {}, format_trace_id(span.context.trace_id) if span.context else ""
        if self._status.reply and self._status.reply.trace_id == trace_id:
            return
        if text_of(about, Attr.REPLY_REASON) in _DROPPED:
            return
        self._set(
            reply=ReplyStatus(
                route=text_of(about, Attr.ROUTE),
                outcome=text_of(about, Attr.REPLY_OUTCOME) or Outcome.CANCELLED.value,
                at=seconds_of(span.end_time),
                seconds=seconds_of(span.end_time) - seconds_of(span.start_time),
                reason=text_of(about, Attr.REPLY_REASON),
                message_ts=text_of(about, Attr.MESSAGING_MESSAGE_ID),
                trace_id=trace_id,
            )
        )

    def shutdown(self) -> None:
        """Writes what is left to write; the file stays, for those who ask what was last."""
        if self._writer:
            self._writer.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._writer is None or self._writer.write()
