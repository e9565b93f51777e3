"""The instruments behind `metric_names`: labels held to their closed sets, gauges read from what was last reported, priming.

A label that is not in the metric's table, or one that is missing, is an error here (caught at telemetry's boundary), a
value outside of the set becomes the label's fallback. So no fact, whatever it carries, can make a series of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from opentelemetry import metrics as otel

from telemetry import metric_names as names
from telemetry.account_events import AccountSeen, AccountState, SwitchCause
from telemetry.events import (
    DropReason,
    FailReason,
    GapReason,
    LaneDepth,
    Outcome,
    ResetCause,
    SessionSeen,
    SessionState,
    SlackOutcome,
    StateTrouble,
)
from telemetry.memory_events import (
    REASONS,
    TRIGGERS,
    Disposition,
    MemoryWorker,
    OperationStatus,
    RecordKind,
    RecordOp,
    UsageOp,
    UsageStatus,
)
from telemetry.memory_gauges import MemoryGauges
from telemetry.metric_kinds import OTHER, Kind, Label, Metric, Source
from telemetry.names import DECISION_REASONS, Stream

_COMPACTIONS = (ResetCause.COMPACTION_AUTO, ResetCause.COMPACTION_MANUAL, ResetCause.COMPACTION_INFERRED, ResetCause.CLEARED)

Labels = Mapping[str, str]


class Metrics:
    """`monotonic` and `now` in seconds, `now` since the epoch."""

    def __init__(
        self,
        meter: otel.Meter,
        *,
        routes: Sequence[str],
        accounts: Sequence[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._routes, self._accounts = tuple(dict.fromkeys(routes)), tuple(dict.fromkeys(accounts))
        self._allowed = {
            Source.ROUTES: frozenset((*self._routes, *MemoryWorker, names.NONE)),  # model calls and cost of a worker stand under its name
            Source.ACCOUNTS: frozenset(accounts),
        }
        self._first_seen: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self.latest = Latest(self._routes, route_of=self._route, monotonic=monotonic)
        self.memory = MemoryGauges(monotonic=monotonic, now=now)
        self._counters: dict[str, otel.Counter] = {}
        self._histograms: dict[str, otel.Histogram] = {}
        for metric in names.METRICS:
            self._create(meter, metric)

    def add(self, metric: Metric, labels: Labels, amount: float = 1) -> None:
        self._counters[metric.name].add(amount, self.labels(metric, labels))

    def record(self, metric: Metric, labels: Labels, value: float) -> None:
        self._histograms[metric.name].record(value, self.labels(metric, labels))

    def prime(self) -> None:
        """A counter first touched by its first event never shows that event in `increase()`: legal combinations start at 0."""
        for metric, labels in legal_combinations(self._routes, self._accounts):
            self.add(metric, labels, 0)

    def labels(self, metric: Metric, given: Labels) -> dict[str, str]:
        wrong = given.keys() ^ {label.key for label in metric.labels if not label.optional or label.key in given}
        if wrong:
            raise KeyError(f"labels of {metric.name}: {sorted(wrong)}")
        return {label.key: self._value(label, str(given[label.key])) for label in metric.labels if label.key in given}

    def _value(self, label: Label, value: str) -> str:
        if label.source is Source.CLOSED:
            return value if value in label.values else label.fallback
        if label.source is Source.FIRST_SEEN:
            return value if self._is_among_first(label, value) else label.fallback
        return value if value in self._allowed[label.source] else label.fallback

    def _is_among_first(self, label: Label, value: str) -> bool:
        with self._lock:
            seen = self._first_seen.setdefault(label.key, set())
            if len(seen) < label.most:
                seen.add(value)
            return value in seen

    def _route(self, route: str) -> str:
        return self._value(names.ROUTE, route)

    def _create(self, meter: otel.Meter, metric: Metric) -> None:
        unit, description = metric.unit, metric.description
        if metric.observed:
            meter.create_observable_counter(metric.name, [self._reader(metric)], unit, description)
        elif metric.kind is Kind.COUNTER:
            self._counters[metric.name] = meter.create_counter(metric.name, unit, description)
        elif metric.kind is Kind.HISTOGRAM:
            self._histograms[metric.name] = meter.create_histogram(
                metric.name, unit, description, explicit_bucket_boundaries_advisory=metric.buckets
            )
        else:
            meter.create_observable_gauge(metric.name, [self._reader(metric)], unit, description)

    def _reader(self, metric: Metric) -> Callable[[otel.CallbackOptions], Iterable[otel.Observation]]:
        def read(_: otel.CallbackOptions) -> Iterator[otel.Observation]:
            for labels, value in (self.memory if metric in names.MEMORY_GAUGES else self.latest).values(metric):
                yield otel.Observation(value, self.labels(metric, labels))

        return read


class Latest:
    """What sessions and lanes last said of themselves. A route's value is the sum or the peak over its sessions."""

    def __init__(self, routes: Sequence[str], *, route_of: Callable[[str], str], monotonic: Callable[[], float]) -> None:
        self._routes = routes
        self._route_of = route_of
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], SessionSeen] = {}
        self._lanes: dict[tuple[str, str], LaneDepth] = {}
        self._accounts: dict[str, tuple[AccountState, float]] = {}  # and when its rest is over
        self._last_event = monotonic()
        self.lines: Callable[[Metric, Stream], int] = lambda metric, stream: 0  # of the log files; their writer keeps the sums

    def session(self, fact: SessionSeen) -> None:
        with self._lock:
            self._sessions[fact.route, fact.key] = fact

    def lane(self, fact: LaneDepth) -> None:
        with self._lock:
            self._lanes[fact.route, fact.key] = fact
            if fact.depth == 0:
                del self._lanes[fact.route, fact.key]

    def event(self) -> None:
        self._last_event = self._monotonic()

    def account(self, fact: AccountSeen) -> None:
        with self._lock:
            self._accounts[fact.account] = (fact.state, self._monotonic() + fact.rest_seconds)

    def values(self, metric: Metric) -> list[tuple[Labels, float]]:
        with self._lock:
            sessions = list(self._sessions.values())
            lanes = list(self._lanes.values())
        if metric is names.SESSION_KNOWN_THREADS:
            return self._by_route(((s.route, s.known_threads) for s in sessions), sum)
        if metric is names.SESSION_CONTEXT_TOKENS:
            return self._by_route(((s.route, s.context_tokens) for s in sessions), max)
        if metric is names.SESSION_LIMIT_TOKENS:
            return self._by_route(((s.route, s.limit_tokens) for s in sessions), max)
        if metric is names.SESSION_STATE:
            return [
                ({**labels, "state": state}, count)
                for state in SessionState
                for labels, count in self._by_route(((s.route, int(s.state is state)) for s in sessions), sum)
            ]
        if metric is names.ACCOUNT_STATE:
            return self._by_account()
        if metric is names.LANE_DEPTH:
            return self._by_route(((lane.route, lane.depth) for lane in lanes), sum)
        if metric is names.SLACK_LAST_EVENT_AGE:
            return [({}, self._monotonic() - self._last_event)]
        if metric in names.AUDIT:
            return [({"stream": stream}, self.lines(metric, stream)) for stream in Stream]
        raise KeyError(f"nobody reads the gauge {metric.name}")

    def _by_account(self) -> list[tuple[Labels, float]]:
        """Nobody tells the end of a rest: it is over when its time has come."""
        with self._lock:
            accounts = dict(self._accounts)
        values: list[tuple[Labels, float]] = []
        for name, (told, until) in accounts.items():
            rests = told in (AccountState.LIMITED, AccountState.REFUSED)
            now = AccountState.AVAILABLE if rests and self._monotonic() >= until else told
            values += [({"account": name, "state": state}, int(state is now)) for state in AccountState]
        return values

    def _by_route(self, pairs: Iterable[tuple[str, int]], fold: Callable[[list[int]], int]) -> list[tuple[Labels, float]]:
        values: dict[str, list[int]] = {route: [0] for route in self._routes}
        for route, value in pairs:
            values.setdefault(self._route_of(route), [0]).append(value)
        return [({"route": route}, fold(numbers)) for route, numbers in values.items()]


def legal_combinations(routes: Sequence[str], accounts: Sequence[str] = ()) -> list[tuple[Metric, Labels]]:
    """Every label set that a counter can really show, and no other."""
    by_account = [(names.ACCOUNT_SWITCHES, {"account": account, "cause": cause}) for account in accounts for cause in SwitchCause]
    by_route = [(metric, {"route": route, **labels}) for route in routes for metric, labels in _legal_of_a_route()]
    nowhere = [(names.MESSAGES, {"route": names.NONE, **labels}) for labels in _dropped()]
    return [*_legal_without_route(), *by_route, *by_account, *nowhere]


def _legal_of_a_route() -> Iterator[tuple[Metric, Labels]]:
    for decision, reasons in DECISION_REASONS.items():
        for reason in reasons:
            yield names.GATE_DECISIONS, {"decision": decision, "reason": reason}
    for cause in ResetCause:
        yield names.SESSION_RESETS, {"cause": cause}
        yield names.SESSION_FORGOTTEN, {"cause": cause}
    for cause in _COMPACTIONS:
        yield names.GATE_ASKED_AGAIN, {"cause": cause}
    yield names.MESSAGES, {"outcome": Outcome.ANSWERED, "reason": names.NONE}
    for why in FailReason:
        outcome = Outcome.CANCELLED if why is FailReason.STOPPED else Outcome.FAILED
        yield names.MESSAGES, {"outcome": outcome, "reason": why}
    yield names.BUDGETS_SPENT, {}
    for labels in _dropped():
        yield names.MESSAGES, labels


def _dropped() -> list[Labels]:
    return [{"outcome": Outcome.DROPPED, "reason": reason} for reason in DropReason]


def _legal_without_route() -> Iterator[tuple[Metric, Labels]]:
    for method in (*names.SLACK_METHODS, OTHER):
        yield names.SLACK_RATE_LIMITED, {"method": method}
        for outcome in SlackOutcome:
            yield names.SLACK_CALLS, {"method": method, "outcome": outcome}
    for reason in names.RECONNECT_REASONS:
        yield names.SLACK_RECONNECTS, {"reason": reason}
    for gap in GapReason:
        yield names.SLACK_GAPS, {"reason": gap}
    for trouble in StateTrouble:
        yield names.STATE_TROUBLES, {"trouble": trouble}
    yield names.BUDGETS_SPENT, {"route": names.NONE}
    yield names.SINK_FAILURES, {}
    for signal in names.LOST_SIGNALS:
        yield names.EXPORT_LOST, {"signal": signal}
    yield from _legal_of_runs()
    yield from _legal_of_records()


def _legal_of_runs() -> Iterator[tuple[Metric, Labels]]:
    for worker, reasons_of in REASONS.items():
        for trigger in TRIGGERS[worker]:
            for status, reasons in reasons_of.items():
                for reason in reasons:
                    yield names.MEMORY_RUNS, {"worker": worker, "trigger": trigger, "status": status, "reason": reason}
    for disposition in Disposition:
        yield names.MEMORY_DISPOSITIONS, {"disposition": disposition}
    for what in names.LOST_OF_MEMORY:
        yield names.MEMORY_LOST, {"what": what}


def _legal_of_records() -> Iterator[tuple[Metric, Labels]]:
    for kind in RecordKind:
        yield names.MEMORY_UNAUDITED, {"kind": kind}
        for op in RecordOp:
            for status in (OperationStatus.APPLIED, OperationStatus.REJECTED):
                yield names.MEMORY_OPERATIONS, {"kind": kind, "op": op, "status": status}
    for use in UsageOp:
        for what in (*RecordKind, names.NONE) if use is UsageOp.QUERY else RecordKind:
            for outcome in UsageStatus:
                yield names.MEMORY_USAGE, {"op": use, "kind": what, "status": outcome}
