"""Names: spelled once, explained, and the same on every path."""

from __future__ import annotations

import re

import pytest

from telemetry.events import Decision, Reason
from telemetry.metric_kinds import Kind, Metric, Source
from telemetry.metric_names import METRICS
from telemetry.names import DECISION_REASONS, INJECTED, Attr, Event, SpanName

ids = [metric.name for metric in METRICS]


def test_every_name_says_what_it_means() -> None:
    assert all(name.meaning for name in (*SpanName, *Attr, *Event))
    assert all(metric.description for metric in METRICS)


def test_a_number_on_a_span_has_a_unit_or_is_an_id() -> None:
    named_seconds = [attr for attr in Attr if attr.value.endswith("_s")]

    assert named_seconds
    assert all(attr.unit == "s" for attr in named_seconds)


def test_no_metric_is_registered_twice() -> None:
    assert len(set(ids)) == len(ids)
    assert len({metric.prometheus_name for metric in METRICS}) == len(ids)


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_a_metric_name_comes_out_the_same_everywhere(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", metric.name)
    assert metric.unit not in ("", "1")
    assert not re.search(r"total|second|_usd", metric.name)


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_a_histogram_has_buckets_of_its_own(metric: Metric) -> None:
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_a_closed_label_lists_its_values(metric: Metric) -> None:
    for label in metric.labels:
        assert bool(label.values) == (label.source is Source.CLOSED)


def test_prometheus_names_are_spelled_as_both_paths_spell_them() -> None:
    spelled = {metric.name: metric.prometheus_name for metric in METRICS}

    assert spelled["insomnia.gate.decisions"] == "insomnia_gate_decisions_total"
    assert spelled["insomnia.reply.duration"] == "insomnia_reply_duration_seconds"
    assert spelled["insomnia.cost"] == "insomnia_cost_USD_total"
    assert spelled["insomnia.session.known_threads"] == "insomnia_session_known_threads"
    assert spelled["insomnia.slack.last_event_age"] == "insomnia_slack_last_event_age_seconds"
    assert spelled["insomnia.memory.backlog"] == "insomnia_memory_backlog"
    assert spelled["insomnia.memory.backlog.age"] == "insomnia_memory_backlog_age_seconds"
    assert spelled["insomnia.memory.lost"] == "insomnia_memory_lost_total"
    assert spelled["gen_ai.client.token.usage"] == "gen_ai_client_token_usage"


def test_each_reason_belongs_to_exactly_one_decision() -> None:
    of_decisions = [reason for decision in Decision for reason in DECISION_REASONS[decision]]

    assert sorted(of_decisions) == sorted(Reason)
    assert DECISION_REASONS.keys() == {*Decision, INJECTED}


def test_there_is_no_name_for_what_people_or_models_say() -> None:
    """The conventions have names for content; whoever wants to record it has to add one here first."""
    content = ("messages", "arguments", "result", "instructions", "prompt", "completion", "text", "body", "exception")

    assert [attr for attr in Attr if attr.value.rpartition(".")[2] in content and attr.unit != "{message}"] == []
