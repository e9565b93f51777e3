"""`docs/telemetry.md` says which attribute stands on which span: held against a bot that answers, fails and forgets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from telemetry.names import Attr, Event, SpanName, Stream
from telemetry.reference_tables import ANYWHERE, EVENTS, RESOURCE, SPANS
from tests.integration.story import story

pytestmark = [pytest.mark.cli, pytest.mark.slack, pytest.mark.kill]

# tests/telemetry, tests/memory and tests/bot/cli compare them.
NOT_HERE = {SpanName.MEMORY_RUN, SpanName.MEMORY_SNAPSHOT, SpanName.MEMORY_ROLLBACK, SpanName.MEMORY_UNDO}
# What this story does not bring about; each has a test where it is set.
SELDOM = {
    Attr.REPLY_ATTEMPT,
    Attr.REPLY_MISPLACED,
    Attr.REPLY_FALLBACK,
    Attr.REPLY_FOUND,
    Attr.TOOL_LATE,
    Attr.MEMORY_RUN_ID,
    Attr.MEMORY_OP,
    Attr.MEMORY_OP_STATUS,
    Attr.MEMORY_KIND,
    Attr.MEMORY_SLUG,
    Attr.MEMORY_RESULTS,
    Attr.MEMORY_BEFORE,
    Attr.MEMORY_AFTER,
    Attr.MEMORY_LINT,
    Attr.MEMORY_CANDIDATE,
    Attr.MEMORY_DISPOSITION,
}


async def test_every_attribute_of_every_span_stands_in_the_reference_and_the_other_way_round(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault, lunch = told.old_thread("The vault code is walnut-4711.", "And the alarm is off."), told.old_thread("Lunch is at noon.")
        await told.start()
        await told.ask(vault, "What is the vault code?")
        await told.ask(lunch, "When is lunch?")
        told.model.script.tool("no_such_tool", {}, usage=90_000)
        await told.ask(vault, "And the alarm?")
        told.model.script.error(403)
        await told.ask(lunch, "And today?")
        told.slack.faults.add("conversations.replies", "missing_scope")
        await told.ask(vault, "reread And now?")
        await told.kill_session()
        await told.ask(lunch, "And tomorrow?")
        await told.stop()
        spans, logs = told.collector.spans, told.collector.logs

    carried = {name: keys for name, keys in attributes_by_span(spans).items() if name not in NOT_HERE}
    for name, keys in carried.items():
        assert keys - {attr.value for attr in ANYWHERE} <= {attr.value for attr in SPANS[name]}, name
    missing = {(name, attr) for name in SPANS if name not in NOT_HERE for attr in SPANS[name] if attr.value not in carried[name]}
    assert {attr for _, attr in missing} <= SELDOM, missing
    for record in logs:
        if Event(record["event_name"]).stream is Stream.MEMORY:
            continue  # nested fields; tests/telemetry compares them
        assert record["attributes"].keys() <= {
            attr.value for event, attrs in EVENTS.items() if event == record["event_name"] for attr in attrs
        }
    assert {attr.value for attr in RESOURCE} <= spans[0]["resource"].keys()


def attributes_by_span(spans: Sequence[dict[str, Any]]) -> dict[SpanName, set[str]]:
    found: dict[SpanName, set[str]] = defaultdict(set)
    for span in spans:
        (name,) = [name for name in SpanName if span["name"] == name or span["name"].startswith(f"{name.value} ")]
        found[name] |= span["attributes"].keys()
    return found
