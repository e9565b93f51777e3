"""The reference: committed as it is printed, and true."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from telemetry import events
from telemetry.events import Fact
from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.metric_names import METRICS
from telemetry.names import Attr, Event, SpanName
from telemetry.reference import reference
from telemetry.reference_tables import ANYWHERE, EVENTS, FIELDS, RESOURCE, SPANS
from tests.telemetry import facts, memory_facts
from tests.telemetry.conftest import Recorded, recording

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
ON_METRICS = {Attr.GEN_AI_TOKEN_TYPE}

VARIANTS: tuple[Fact, ...] = (
    *facts.ALL,
    replace(facts.REPLY, outcome=events.Outcome.FAILED, reason=events.FailReason.DEADLINE),
    replace(facts.MODEL, error="overloaded"),
)
# The span that is current where the bot says a fact. (What else the bot puts on its spans: tests/integration.)
STEPS: tuple[tuple[Fact, SpanName], ...] = (
    (facts.GATE, SpanName.PROCESS),
    (facts.REFETCHED, SpanName.THREAD_REFETCH),
    (facts.INJECTED, SpanName.THREAD_INJECT),
    (facts.RESET, SpanName.PROCESS),
    (memory_facts.EXTRACT_DONE, SpanName.MEMORY_RUN),
    (memory_facts.CONSOLIDATION_DONE, SpanName.MEMORY_RUN),
    (memory_facts.EXTRACT_FAILED, SpanName.MEMORY_RUN),
)


@contextmanager
def everything_said(**settings: Any) -> Iterator[Recorded]:
    with recording(**settings) as recorded:
        for fact in VARIANTS:
            recorded.emit(fact)
        yield recorded


def test_the_committed_page_is_what_is_printed() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "mend: python -m telemetry.reference > docs/telemetry.md"


def test_every_name_has_its_place_on_the_page() -> None:
    page = reference()

    assert SPANS.keys() == set(SpanName)
    assert EVENTS.keys() | FIELDS.keys() == set(Event) and not EVENTS.keys() & FIELDS.keys()
    assert [metric.name for metric in METRICS if f"`{metric.name}` | `{metric.prometheus_name}` |" not in page] == []
    placed = {attr for attrs in (*SPANS.values(), *EVENTS.values(), RESOURCE, ANYWHERE) for attr in attrs}
    assert set(Attr) - placed == ON_METRICS


def test_no_row_is_told_twice_and_no_table_is_broken() -> None:
    for attrs in (*SPANS.values(), *EVENTS.values()):
        assert len(set(attrs)) == len(attrs)
    columns = 0
    for line in reference().splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        cells = line.replace("\\|", "").count("|")
        assert columns in (0, cells), line
        columns = cells


def test_the_attributes_of_each_log_event_are_those_that_are_written() -> None:
    written: dict[Event, set[str]] = defaultdict(set)
    with everything_said() as recorded:
        for record in recorded.records():
            written[Event(record["event_name"])] |= record["attributes"].keys()

    table = {event: {attr.value for attr in attrs} for event, attrs in EVENTS.items()}
    assert {event: written[event] for event in EVENTS} == table


def test_the_fields_of_each_memory_event_are_those_that_are_written() -> None:
    written: dict[Event, set[str]] = defaultdict(set)
    with everything_said() as recorded:
        for record in recorded.records():
            written[Event(record["event_name"])] |= set(_flat(record["attributes"]))

    of_memory = [event for event in FIELDS if event not in (Event.LOG_GAP, Event.LOG_REPAIRED)]
    assert {event: written[event] for event in of_memory} == {event: set(FIELDS[event]) for event in of_memory}


def test_every_log_event_is_emitted_by_some_fact_or_by_the_writer_of_the_lines() -> None:
    with everything_said() as recorded:
        emitted = {record["event_name"] for record in recorded.records()}

    assert set(Event) - emitted == {Event.LOG_GAP, Event.LOG_REPAIRED}


@pytest.mark.parametrize(("fact", "name"), STEPS, ids=lambda value: value if isinstance(value, SpanName) else type(value).__name__)
def test_what_a_fact_leaves_on_a_span_is_in_that_span_s_table(fact: Fact, name: SpanName, recorded: Recorded) -> None:
    with recorded.emit.span(name):
        recorded.emit(fact)

    for span in recorded.spans():
        known = {attr.value for attr in (*SPANS[_name(span["name"])], *ANYWHERE)}
        assert span["attributes"].keys() <= known


def test_the_reset_span_carries_exactly_its_table(recorded: Recorded) -> None:
    recorded.emit(facts.RESET)

    assert recorded.span("session.reset")["attributes"].keys() == {attr.value for attr in SPANS[SpanName.SESSION_RESET]}


def test_the_span_of_a_memory_run_carries_exactly_its_table(recorded: Recorded) -> None:
    for fact in (memory_facts.EXTRACT_DONE, memory_facts.EXTRACT_FAILED, memory_facts.CONSOLIDATION_DONE):
        with recorded.emit.span(SpanName.MEMORY_RUN, {Attr.MEMORY_LIMIT: 300.0}, label=fact.worker.value):
            recorded.emit(fact)

    carried = {key for span in recorded.spans() for key in span["attributes"]} - {attr.value for attr in ANYWHERE}
    assert carried == {attr.value for attr in SPANS[SpanName.MEMORY_RUN]}


def test_the_resource_carries_its_table() -> None:
    with recording(version="1", slack_mode="embedded") as recorded:
        recorded.emit(facts.RESET)

    assert {attr.value for attr in RESOURCE} <= recorded.kept.ended[0].resource.attributes.keys()


def test_what_the_log_says_of_itself_has_the_fields_of_its_table(tmp_path: Path) -> None:
    """No fact makes it: a line that was found broken off. (Lost lines: tests of the log.)"""
    with recording(log_exporters=[JsonlExporter(log_folders(tmp_path))]) as recorded:
        recorded.emit(facts.REPLY)
        (file,) = (tmp_path / "logs").glob("bot-*.log")
        with file.open("a") as torn:
            torn.write('{"torn":')
        recorded.emit(facts.REPLY)

    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    (repaired,) = [line for line in lines if line["event"] == Event.LOG_REPAIRED]
    assert FIELDS[Event.LOG_REPAIRED].keys() <= repaired.keys()


def _flat(fields: Any, prefix: str = "") -> Iterator[str]:
    """`usage.input` for what stands in an object; counts by kind are told as one."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if hasattr(value, "items") and name not in ("consolidation.dispositions", "consolidation.ops"):
            yield from _flat(value, f"{name}.")
        else:
            yield name


def _name(span_name: str) -> SpanName:
    return next(name for name in SpanName if span_name == name or span_name.startswith(f"{name.value} "))
