"""Labels stay closed, gauges add up, counters start at nought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider

from telemetry import account_events, events, metric_names
from telemetry.events import Decision, DropReason, FailReason, Outcome, ResetCause, SessionState, SlackOutcome
from telemetry.metric_kinds import MAX_FIRST_SEEN, Kind, Metric, Source
from telemetry.metric_names import METRICS
from telemetry.metrics import Metrics, legal_combinations
from telemetry.names import DECISION_REASONS, INJECTED
from tests.telemetry import facts, memory_facts
from tests.telemetry.conftest import Recorded, recording

ROUTES = ("main", "coder")


def primed(recorded: Recorded, name: str) -> set[tuple[str, ...]]:
    (metric,) = (metric for metric in METRICS if metric.name == name)
    keys = [label.key for label in metric.labels]
    return {tuple(point["attributes"][key] for key in keys) for point in recorded.points() if point["name"] == name}


def test_the_gate_is_primed_with_what_it_can_say_and_nothing_else(recorded: Recorded) -> None:
    legal = {
        (route, str(decision), str(reason)) for route in ROUTES for decision, reasons in DECISION_REASONS.items() for reason in reasons
    }

    assert primed(recorded, "insomnia.gate.decisions") == legal
    assert ("main", Decision.KNOWN, "timeout") not in legal
    assert ("main", INJECTED, "held") not in legal


def test_every_counter_that_knows_its_labels_starts_at_nought(recorded: Recorded) -> None:
    counters = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}

    started = {point["name"] for point in recorded.points() if point["value"] == 0} & counters

    unknown_before = {"insomnia.cost", "insomnia.memory.lint_failures"}  # models that answer, rules of the linter
    assert counters - started == unknown_before
    assert all(point["value"] == 0 for point in recorded.points() if point["name"] in counters)


def test_messages_are_primed_with_legal_reasons_only(recorded: Recorded) -> None:
    per_route = {("answered", "none"), ("cancelled", "stopped")}
    per_route |= {("failed", str(reason)) for reason in FailReason if reason is not FailReason.STOPPED}
    per_route |= {("dropped", str(reason)) for reason in DropReason}
    nowhere = {("none", "dropped", str(reason)) for reason in DropReason}

    assert primed(recorded, "insomnia.messages") == nowhere | {(route, *rest) for route in ROUTES for rest in per_route}


def test_resets_are_primed_for_each_cause_and_retries_for_compactions_only(recorded: Recorded) -> None:
    assert primed(recorded, "insomnia.session.resets") == {(route, str(cause)) for route in ROUTES for cause in ResetCause}
    assert {cause for _, cause in primed(recorded, "insomnia.gate.asked_again")} == {
        "compaction_auto",
        "compaction_manual",
        "compaction_inferred",
        "cleared",
    }


def test_what_is_primed_is_what_a_fact_then_counts(recorded: Recorded) -> None:
    before = {(point["name"], *sorted(point["attributes"].items())) for point in recorded.points()}

    for fact in facts.ALL:
        recorded.emit(fact)

    late = {"insomnia.cost", "insomnia.memory.lint_failures"}
    counters = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER} - late
    after = {(point["name"], *sorted(point["attributes"].items())) for point in recorded.points() if point["name"] in counters}
    assert after <= before


def test_no_combination_is_primed_twice() -> None:
    combinations = [(metric.name, *sorted(labels.items())) for metric, labels in legal_combinations(ROUTES)]

    assert len(combinations) == len(set(combinations))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_label_outside_of_its_set_cannot_be_written(metric: Metric) -> None:
    metrics = Metrics(NoOpMeterProvider().get_meter("test"), routes=ROUTES)
    allowed = {label.key: {*label.values, label.fallback, *(ROUTES if label.source is Source.ROUTES else ())} for label in metric.labels}
    for number in range(max([label.most for label in metric.labels], default=0)):
        metrics.labels(metric, {label.key: f"first {number}" for label in metric.labels})

    written = metrics.labels(metric, {label.key: "1700000000.000100" for label in metric.labels})

    assert all(written[key] in values for key, values in allowed.items())


@pytest.mark.parametrize("given", [{}, {"route": "main", "cause": "crash", "thread": "1"}])
def test_a_missing_or_invented_label_is_an_error(given: dict[str, str]) -> None:
    metrics = Metrics(NoOpMeterProvider().get_meter("test"), routes=ROUTES)

    with pytest.raises(KeyError):
        metrics.labels(metric_names.SESSION_RESETS, given)


def test_unknown_routes_and_methods_share_a_series(recorded: Recorded) -> None:
    for number in range(50):
        recorded.emit(events.MessageDropped(reason=DropReason.NOT_ROUTED, route=f"route {number}"))
        recorded.emit(events.SlackCalled(method=f"made.up{number}", outcome=SlackOutcome.OK, seconds=0.1))

    assert recorded.value("insomnia.messages", route="none", outcome="dropped", reason="not_routed") == 50
    assert recorded.value("insomnia.slack.calls", method="other", outcome="ok") == 50


def test_five_hundred_sessions_make_no_series_of_their_own() -> None:
    with recording() as recorded:
        for number in range(500):
            _one_session(recorded, number)
        points = recorded.points()

    own = [point for point in points if point["name"].startswith(("insomnia.", "gen_ai."))]
    written = {str(value) for point in own for value in point["attributes"].values()}
    assert not [point for point in points if "otel.metric.overflow" in point["attributes"]]
    assert not [value for value in written if "17000" in value or "session-" in value or "C-" in value or "dm:" in value]
    assert len({value for value in written if value.startswith("model ")}) == MAX_FIRST_SEEN
    assert len([point for point in own if point["name"] == "insomnia.gate.decisions"]) == len(ROUTES) * sum(
        map(len, DECISION_REASONS.values())
    )


@pytest.mark.sweep
def test_c088_ten_thousand_threads_over_fifty_sessions_leave_the_number_of_series_as_it_was() -> None:
    with recording() as recorded:
        for number in range(50):
            _one_session(recorded, number)
        before = own_series(recorded.points())

        for number in range(10_000):
            thread = events.Thread("T1", f"C{number % 7}", f"{1_700_000_000 + number}.000100")
            recorded.emit(replace(facts.GATE, thread=thread))
            recorded.emit(replace(facts.REPLY, thread=thread, message_ts=thread.ts))
            recorded.emit(replace(facts.SEEN, key=f"dm:{number % 50}"))
        points = recorded.points()

    assert own_series(points) == before
    assert sum(point["value"] for point in points if point["name"] == "insomnia.gate.decisions") > 10_000


def test_memory_runs_records_and_rules_make_no_series_of_their_own() -> None:
    with recording() as recorded:
        for number in range(500):
            recorded.emit(replace(memory_facts.EXTRACT_DONE, run_id=f"run {number}"))
            recorded.emit(replace(memory_facts.REJECTED, slug=f"slug-{number}", run_id=f"run {number}", lint=(f"L{number}",)))
            recorded.emit(replace(memory_facts.READ_ONE, slug=f"slug-{number}", caller=f"caller {number}"))
        written = {str(value) for point in recorded.points() for value in point["attributes"].values()}

    assert not [value for value in written if value.startswith(("run ", "slug-", "caller "))]
    assert len([value for value in written if value.startswith("L")]) == metric_names.MAX_RULES


def own_series(points: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(p["name"], *sorted(p["attributes"].items())) for p in points if not p["name"].startswith("otel.")}


def _one_session(recorded: Recorded, number: int) -> None:
    key, thread = f"dm:{number}", events.Thread("T1", f"C-{number}", f"17000{number:05}.000100")
    recorded.emit(replace(facts.GATE, thread=thread, epoch=number))
    recorded.emit(replace(facts.INJECTED, thread=thread))
    recorded.emit(replace(facts.REPLY, thread=thread, message_ts=thread.ts))
    recorded.emit(replace(facts.RESET, key=key, session_id=f"session-{number}"))
    recorded.emit(replace(facts.SEEN, key=key))
    recorded.emit(replace(facts.MODEL, model=f"model {number}"))


def test_gauges_sum_threads_and_peak_tokens_over_the_sessions_of_a_route(recorded: Recorded) -> None:
    recorded.emit(facts.SEEN)
    recorded.emit(replace(facts.SEEN, key="dm:1", known_threads=3, context_tokens=90_000, state=SessionState.BUSY))
    recorded.emit(replace(facts.SEEN, known_threads=0))

    assert recorded.value("insomnia.session.known_threads", route="main") == 3
    assert recorded.value("insomnia.session.context_tokens", route="main") == 90_000
    assert recorded.value("insomnia.session.context_limit_tokens", route="main") == 150_000
    assert recorded.value("insomnia.session.known_threads", route="coder") == 0
    assert recorded.nonzero("insomnia.session.state") == [({"route": "main", "state": "idle"}, 1), ({"route": "main", "state": "busy"}, 1)]


def test_the_depth_of_a_route_is_that_of_all_its_lanes(recorded: Recorded) -> None:
    for key, depth in (("main", 2), ("dm:1", 3), ("main", 0)):
        recorded.emit(events.LaneDepth(route="main", key=key, depth=depth))

    assert recorded.value("insomnia.lane.depth", route="main") == 3


def test_an_account_is_in_one_state_at_a_time_and_its_rest_ends_by_itself() -> None:
    now = [100.0]
    metrics = Metrics(NoOpMeterProvider().get_meter("test"), routes=ROUTES, accounts=("work", "spare"), monotonic=lambda: now[0])

    def states() -> dict[str, list[str]]:
        told = metrics.latest.values(metric_names.ACCOUNT_STATE)
        return {name: [labels["state"] for labels, value in told if labels["account"] == name and value] for name in ("work", "spare")}

    metrics.latest.account(facts.LIMITED)
    metrics.latest.account(account_events.AccountSeen(account="spare", state=account_events.AccountState.WARNED))
    while_it_rests, now[0] = states(), 100.0 + facts.LIMITED.rest_seconds

    assert while_it_rests == {"work": ["limited"], "spare": ["warned"]}
    assert states() == {"work": ["available"], "spare": ["warned"]}


def test_switches_are_counted_by_the_account_that_was_left(recorded: Recorded) -> None:
    for fact in facts.BOT:
        recorded.emit(fact)

    assert recorded.nonzero("insomnia.account.switches") == [({"account": "work", "cause": "limit"}, 1)]


def test_the_age_of_the_last_event_counts_from_the_start_and_begins_anew_with_each() -> None:
    now = [100.0]
    metrics = Metrics(NoOpMeterProvider().get_meter("test"), routes=ROUTES, monotonic=lambda: now[0])

    now[0] = 160.0
    since_start = metrics.latest.values(metric_names.SLACK_LAST_EVENT_AGE)
    metrics.latest.event()
    now[0] = 165.0

    assert since_start == [({}, 60.0)]
    assert metrics.latest.values(metric_names.SLACK_LAST_EVENT_AGE) == [({}, 5.0)]


def test_histograms_have_the_buckets_of_the_table(recorded: Recorded) -> None:
    for fact in facts.ALL:
        recorded.emit(fact)

    bounds = {point["name"]: point["bounds"] for point in recorded.points() if point["bounds"]}
    table = {metric.name: list(metric.buckets) for metric in METRICS if metric.kind is Kind.HISTOGRAM}
    assert {name: bounds[name] for name in table} == table


def test_units_arrive_as_the_table_has_them(recorded: Recorded) -> None:
    for fact in facts.ALL:
        recorded.emit(fact)

    units = {point["name"]: point["unit"] for point in recorded.points()}
    assert {metric.name: units.get(metric.name) for metric in METRICS} == {metric.name: metric.unit for metric in METRICS}


def test_an_outcome_of_a_reply_is_never_dropped() -> None:
    assert Outcome.DROPPED not in metric_names.OUTCOME.values
