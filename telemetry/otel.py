"""Fact → span, metric, log record. One exhaustive `match`: a fact without a sink is a type error.

Metric labels are routes, enums and closed lists; ids of threads, messages and sessions go onto spans and log records only.
A log record's body opens with its event name, since some log stores lose `event_name`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from opentelemetry import trace
from opentelemetry._logs import Logger, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.util.types import AnyValue

from telemetry import account_events, events, memory_events, metric_names
from telemetry.account_events import AccountState
from telemetry.emit import AttrValue
from telemetry.events import DropReason, Fact, Outcome, RefetchOutcome, ResetCause, SlackOutcome, Thread
from telemetry.metrics import Metrics
from telemetry.names import INJECTED, Attr, Event, SpanName
from telemetry.otel_memory import MemorySinks
from telemetry.spans import Spans, plain, to_link
from telemetry.troubles import Troubles

About = Mapping[Attr, AttrValue]

# What a busy channel is full of; at INFO it would bury everything else.
_ORDINARY_DROPS = frozenset({DropReason.DUPLICATE, DropReason.NOT_ADDRESSED, DropReason.OWN_MESSAGE, DropReason.IGNORED_EVENT})


class OtelEmit(Spans):
    """Implements `emit.Emit`. `now` in nanoseconds since the epoch. `listeners` hear each fact after its sinks."""

    def __init__(
        self,
        tracer: trace.Tracer,
        logger: Logger,
        metrics: Metrics,
        troubles: Troubles,
        *,
        now: Callable[[], int] = time.time_ns,
        listeners: Sequence[Callable[[Fact], None]] = (),
    ) -> None:
        super().__init__(tracer, troubles)
        self._logger = logger
        self._metrics = metrics
        self._now = now
        self._listeners = listeners
        self._memory = MemorySinks(metrics, record=self._record)

    def __call__(self, fact: Fact) -> None:
        with self._troubles.caught(f"fact {type(fact).__name__}"):
            self._sink(fact)
        for listener in self._listeners:
            with self._troubles.caught("fact listener"):
                listener(fact)

    def _sink(self, fact: Fact) -> None:
        match fact:
            case events.GateDecided():
                self._gate_decided(fact)
            case events.ThreadInjected():
                self._thread_injected(fact)
            case events.ThreadRefetched():
                self._thread_refetched(fact)
            case events.AskedAgain():
                self._metrics.add(metric_names.GATE_ASKED_AGAIN, {"route": fact.route, "cause": fact.cause})
                self._log(Event.ASKED_AGAIN, {Attr.ROUTE: fact.route, Attr.RESET_CAUSE: fact.cause}, fact.cause, SeverityNumber.WARN)
            case events.SessionReset():
                self._session_reset(fact)
            case events.CompactionFailed():
                about = {**_session(fact.route, fact.key, fact.session_id), Attr.ERROR_TYPE: fact.error}
                self._log(Event.COMPACTION_FAILED, about, fact.error, SeverityNumber.WARN)
            case events.SessionStarted():
                self._session_started(fact)
            case events.SessionSeen():
                self._metrics.latest.session(fact)
            case account_events.AccountSeen():
                self._metrics.latest.account(fact)
                about = {Attr.SESSION_ACCOUNT: fact.account, Attr.ACCOUNT_STATE: fact.state, Attr.ACCOUNT_REST: fact.rest_seconds}
                rests = f" for {fact.rest_seconds:.0f} s" if fact.rest_seconds else ""
                severity = SeverityNumber.INFO if fact.state is AccountState.AVAILABLE else SeverityNumber.WARN
                self._log(Event.ACCOUNT_STATE, about, f"{fact.account} {fact.state}{rests}", severity)
            case account_events.AccountSwitched():
                self._account_switched(fact)
            case events.LaneWaited():
                self._metrics.record(metric_names.LANE_WAIT_DURATION, {"route": fact.route}, fact.seconds)
            case events.LaneDepth():
                self._metrics.latest.lane(fact)
            case events.ReplyEnded():
                self._reply_ended(fact)
            case events.MessageDropped():
                self._message_dropped(fact)
            case events.SlackCalled():
                self._slack_called(fact)
            case events.SlackConnection():
                severity = SeverityNumber.INFO if fact.up else SeverityNumber.WARN
                of_it = {Attr.SLACK_CONNECTED: fact.up, Attr.SLACK_CONNECTIONS: fact.connections}
                self._log(Event.SLACK_CONNECTION, of_it, "up" if fact.up else "down", severity)
            case events.SlackReconnected():
                self._metrics.add(metric_names.SLACK_RECONNECTS, {"reason": fact.reason})
                about = {Attr.SLACK_RECONNECT_REASON: fact.reason, Attr.SLACK_DOWN: fact.down_seconds}
                self._log(Event.SLACK_RECONNECTED, about, f"{fact.reason}, down for {fact.down_seconds:.1f} s", SeverityNumber.WARN)
            case events.DeliveryGap():
                self._metrics.add(metric_names.SLACK_GAPS, {"reason": fact.reason})
                self._log(Event.DELIVERY_GAP, {Attr.SLACK_GAP_REASON: fact.reason}, fact.reason, SeverityNumber.WARN)
            case events.StateTroubled():
                self._state_troubled(fact)
            case events.BudgetSpent():
                self._metrics.add(metric_names.BUDGETS_SPENT, {"route": fact.route or metric_names.NONE})
                about = {Attr.ROUTE: fact.route, Attr.BUDGET_USED: fact.usd, Attr.BUDGET_LIMIT: fact.limit_usd}
                what = f"{fact.route or 'all routes'}, {fact.usd:.2f} of {fact.limit_usd:.2f} USD"
                self._log(Event.BUDGET_SPENT, about, what, SeverityNumber.WARN)
            case events.SlackEventSeen():
                self._metrics.latest.event()
            case events.ModelCalled():
                self._model_called(fact)
            case events.MoneySpent():
                labels = {"route": fact.route, metric_names.MODEL.key: fact.model}
                self._metrics.add(metric_names.COST, labels, fact.usd)
            case (
                memory_events.MemoryRunStarted()
                | memory_events.MemoryRunEnded()
                | memory_events.MemoryRunNotDue()
                | memory_events.RecordOperation()
                | memory_events.StoreCommitted()
                | memory_events.StoreDiscarded()
                | memory_events.RecordUsed()
                | memory_events.MemoryCounted()
            ):
                self._memory.sink(fact)
            case _:
                assert_never(fact)

    def _gate_decided(self, fact: events.GateDecided) -> None:
        about: About = {
            Attr.ROUTE: fact.route,
            **_thread(fact.thread),
            Attr.GATE_DECISION: fact.decision,
            Attr.GATE_REASON: fact.reason,
            Attr.GATE_KNOWN_THREADS: fact.known_threads,
            Attr.SESSION_EPOCH: fact.epoch,
        }
        self._note(about)
        self._metrics.add(metric_names.GATE_DECISIONS, {"route": fact.route, "decision": fact.decision, "reason": fact.reason})
        self._log(Event.GATE_DECISION, about, f"{fact.decision}, {fact.reason}")

    def _thread_injected(self, fact: events.ThreadInjected) -> None:
        about: About = {
            Attr.ROUTE: fact.route,
            **_thread(fact.thread),
            Attr.GATE_REASON: fact.reason,
            Attr.INJECT_INJECTION: fact.injection,
            Attr.INJECT_MESSAGES: fact.messages,
            Attr.INJECT_OMITTED: fact.omitted,
            Attr.INJECT_CHARS: fact.chars,
        }
        self._note(about)
        self._metrics.add(metric_names.GATE_DECISIONS, {"route": fact.route, "decision": INJECTED, "reason": fact.reason})
        self._metrics.record(metric_names.GATE_INJECTED_CHARS, {"route": fact.route, "injection": fact.injection}, fact.chars)
        self._log(
            Event.THREAD_INJECTED, about, f"{fact.injection}, {fact.messages} messages, {fact.omitted} omitted, {fact.chars} characters"
        )

    def _thread_refetched(self, fact: events.ThreadRefetched) -> None:
        about: About = {
            Attr.ROUTE: fact.route,
            **_thread(fact.thread),
            Attr.GEN_AI_OPERATION: "retrieval",
            Attr.REFETCH_OUTCOME: fact.outcome,
            Attr.REFETCH_PAGES: fact.pages,
            Attr.REFETCH_MESSAGES: fact.messages,
            Attr.REFETCH_RETRY_AFTER: fact.retry_after_seconds,
            Attr.REFETCH_TRUNCATED: fact.outcome is RefetchOutcome.INCOMPLETE,
        }
        self._note(about)
        self._metrics.record(metric_names.GATE_REFETCH_DURATION, {"route": fact.route, "outcome": fact.outcome}, fact.seconds)
        severity = SeverityNumber.INFO if fact.outcome is RefetchOutcome.COMPLETE else SeverityNumber.WARN
        what = f"{fact.outcome}, {fact.messages} messages on {fact.pages} pages in {fact.seconds:.2f} s"
        self._log(Event.THREAD_REFETCHED, {**about, Attr.REFETCH_SECONDS: fact.seconds}, what, severity)

    def _session_reset(self, fact: events.SessionReset) -> None:
        about: dict[Attr, AttrValue] = {
            **_session(fact.route, fact.key, fact.session_id),
            Attr.SESSION_EPOCH: fact.epoch,
            Attr.RESET_CAUSE: fact.cause,
            Attr.RESET_HOW: fact.how,
            Attr.RESET_FORGOTTEN: fact.forgotten,
        }
        if fact.pre_tokens is not None:
            about[Attr.RESET_PRE_TOKENS] = fact.pre_tokens
        if fact.post_tokens is not None:
            about[Attr.RESET_POST_TOKENS] = fact.post_tokens
        labels = {"route": fact.route, "cause": fact.cause}
        self._metrics.add(metric_names.SESSION_RESETS, labels)
        self._metrics.add(metric_names.SESSION_FORGOTTEN, labels, fact.forgotten)
        reset = self._reset_span(fact, about)
        what = f"{fact.cause}, {fact.how}, {fact.forgotten} threads forgotten"
        severity = SeverityNumber.WARN if fact.cause is ResetCause.COMPACTION_INFERRED else SeverityNumber.INFO
        self._log(Event.SESSION_RESET, about, what, severity, context=trace.set_span_in_context(reset))

    def _reset_span(self, fact: events.SessionReset, about: About) -> trace.Span:
        """The only span that a sink makes: a child of what caused or met the reset, else a root with a link to the last reply."""
        end = self._now()
        links = [to_link(fact.linked)] if fact.linked and self.current() is None else []
        start = end - int((fact.duration_seconds or 0.0) * 1e9)
        span = self._tracer.start_span(SpanName.SESSION_RESET.value, attributes=plain(about), links=links, start_time=start)
        span.end(end)
        return span

    def _session_started(self, fact: events.SessionStarted) -> None:
        about: About = {
            **_session(fact.route, fact.key, fact.session_id),
            Attr.SESSION_HOW: fact.how,
            Attr.SESSION_ACCOUNT: fact.account,
            Attr.SESSION_START_SECONDS: fact.seconds,
        }
        self._metrics.record(metric_names.SESSION_START_DURATION, {"route": fact.route, "how": fact.how}, fact.seconds)
        self._log(Event.SESSION_STARTED, about, f"{fact.how} in {fact.seconds:.2f} s")

    def _account_switched(self, fact: account_events.AccountSwitched) -> None:
        about: About = {
            **_session(fact.route, fact.key, fact.session_id),
            Attr.SESSION_ACCOUNT: fact.account,
            Attr.ACCOUNT_TO: fact.to,
            Attr.ACCOUNT_CAUSE: fact.cause,
        }
        self._metrics.add(metric_names.ACCOUNT_SWITCHES, {"account": fact.account, "cause": fact.cause})
        self._log(Event.ACCOUNT_SWITCHED, about, f"from {fact.account} to {fact.to}, {fact.cause}", SeverityNumber.WARN)

    def _reply_ended(self, fact: events.ReplyEnded) -> None:
        about: dict[Attr, AttrValue] = {
            Attr.ROUTE: fact.route,
            **_thread(fact.thread),
            Attr.MESSAGING_MESSAGE_ID: fact.message_ts,
            Attr.REPLY_OUTCOME: fact.outcome,
            Attr.REPLY_SECONDS: fact.seconds,
        }
        labels = {"route": fact.route, "outcome": fact.outcome}
        self._metrics.record(metric_names.REPLY_DURATION, labels, fact.seconds)
        if fact.first_token_seconds is not None:
            about[Attr.MODEL_FIRST_TOKEN] = fact.first_token_seconds
            self._metrics.record(metric_names.REPLY_FIRST_TOKEN, labels, fact.first_token_seconds)
        if fact.reason is not None:
            about[Attr.REPLY_REASON] = fact.reason
        self._metrics.add(metric_names.MESSAGES, {**labels, "reason": fact.reason or metric_names.NONE})
        severity = SeverityNumber.ERROR if fact.outcome is Outcome.FAILED else SeverityNumber.INFO
        what = f"{fact.outcome} after {fact.seconds:.2f} s" + (f", {fact.reason}" if fact.reason else "")
        self._log(Event.REPLY, about, what, severity)

    def _message_dropped(self, fact: events.MessageDropped) -> None:
        about: About = {
            Attr.ROUTE: fact.route,
            Attr.MESSAGING_DESTINATION: fact.channel,
            Attr.MESSAGING_MESSAGE_ID: fact.message_ts,
            Attr.REPLY_OUTCOME: Outcome.DROPPED,
            Attr.REPLY_REASON: fact.reason,
        }
        self._metrics.add(metric_names.MESSAGES, {"route": fact.route, "outcome": Outcome.DROPPED, "reason": fact.reason})
        severity = SeverityNumber.DEBUG if fact.reason in _ORDINARY_DROPS else SeverityNumber.INFO
        self._log(Event.MESSAGE_DROPPED, about, fact.reason, severity)

    def _state_troubled(self, fact: events.StateTroubled) -> None:
        about: dict[Attr, AttrValue] = {Attr.STATE_TROUBLE: fact.trouble, Attr.ERROR_TYPE: fact.error}
        if fact.open_messages is not None:
            about[Attr.STATE_OPEN] = fact.open_messages
        self._metrics.add(metric_names.STATE_TROUBLES, {"trouble": fact.trouble})
        self._log(Event.STATE_TROUBLE, about, f"{fact.trouble}, {fact.error}", SeverityNumber.ERROR)

    def _slack_called(self, fact: events.SlackCalled) -> None:
        self._metrics.add(metric_names.SLACK_CALLS, {"method": fact.method, "outcome": fact.outcome})
        self._metrics.record(metric_names.SLACK_CALL_DURATION, {"method": fact.method}, fact.seconds)
        if fact.outcome is SlackOutcome.RATE_LIMITED:
            self._metrics.add(metric_names.SLACK_RATE_LIMITED, {"method": fact.method})
        if fact.outcome is not SlackOutcome.OK:
            about: About = {Attr.SLACK_METHOD: fact.method, Attr.SLACK_OUTCOME: fact.outcome, Attr.ERROR_TYPE: fact.outcome}
            self._log(Event.ERROR, about, f"slack {fact.method}, {fact.outcome}", SeverityNumber.WARN)

    def _model_called(self, fact: events.ModelCalled) -> None:
        labels = {
            Attr.GEN_AI_OPERATION.value: "chat",
            Attr.GEN_AI_PROVIDER.value: "anthropic",
            Attr.GEN_AI_REQUEST_MODEL.value: fact.model,
            Attr.ROUTE.value: fact.route,
        }
        failed = {Attr.ERROR_TYPE.value: fact.error} if fact.error else {}
        self._metrics.record(metric_names.OPERATION_DURATION, {**labels, **failed}, fact.seconds)
        tokens = (fact.input_tokens, fact.output_tokens, fact.cache_read_tokens, fact.cache_write_tokens)
        for kind, count in zip(metric_names.TOKEN_TYPES, tokens, strict=True):
            if count:
                self._metrics.record(metric_names.TOKEN_USAGE, {**labels, Attr.GEN_AI_TOKEN_TYPE.value: kind}, count)
        if fact.error:
            about: About = {Attr.ROUTE: fact.route, Attr.GEN_AI_REQUEST_MODEL: fact.model, Attr.ERROR_TYPE: fact.error}
            self._log(Event.ERROR, about, f"model, {fact.error}", SeverityNumber.WARN)

    def _note(self, about: About) -> None:
        """Onto the span that the bot has opened around this very step."""
        trace.get_current_span().set_attributes(plain(about))

    def _log(
        self, event: Event, about: About, what: str, severity: SeverityNumber = SeverityNumber.INFO, *, context: Context | None = None
    ) -> None:
        self._record(event, plain(about), what, severity, context=context)

    def _record(
        self, event: Event, fields: Mapping[str, AnyValue], what: str, severity: SeverityNumber, *, context: Context | None = None
    ) -> None:
        now = self._now()
        self._logger.emit(
            timestamp=now,
            observed_timestamp=now,
            context=context,
            severity_number=severity,
            severity_text=severity.name,
            body=f"{event.value}: {what}",
            attributes=fields,
            event_name=event.value,
        )


def _thread(thread: Thread) -> About:
    return {Attr.THREAD_TEAM: thread.team, Attr.THREAD_CHANNEL: thread.channel, Attr.THREAD_TS: thread.ts}


def _session(route: str, key: str, session_id: str) -> About:
    return {Attr.ROUTE: route, Attr.SESSION_KEY: key, Attr.GEN_AI_CONVERSATION_ID: session_id}
