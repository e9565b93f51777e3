"""Every call of a reading tool, however it ends: one span, one line in the memory's log, one count, one line of usage."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.reading_schemas import MEMORY_QUERY
from memory.records import RecordKind, Scope
from memory.tools import Asker
from telemetry.names import SpanName
from tests.memory.made_records import record
from tests.memory.reading_desk import ROUTE, Desk, desk, in_channel

SECRETS = {
    "slack_token": "xoxb-" + "1" * 12 + "-abcdefghijklmnop",
    "anthropic_key": "sk-ant-" + "api03-abcdefghijklmnopqrst",
    "password": "パスワードは" + "hunter2hunter2",
}


@pytest.fixture
def a_desk(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "state", record(), record("lane", kind=RecordKind.KNOWLEDGE), record("own", scope=Scope.user("U1"))) as made:
        yield made


# Call → what the line, the span and the count say of it.
CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("memory_query", {"query": "凍結"}, {"op": "query", "kind": "none", "status": "found", "results": 1, "query": "凍結"}),
    (
        "memory_query",
        {"query": "zebra", "kind": "lesson"},
        {"op": "query", "kind": "lesson", "status": "not_found", "results": 0, "query": "zebra"},
    ),
    ("memory_query", {"query": "長" * 201}, {"op": "query", "kind": "none", "status": "rejected", "results": 0}),
    ("memory_query", {"query": 3}, {"op": "query", "kind": "none", "status": "rejected", "results": 0}),
    (
        "memory_read",
        {"kind": "decision", "slug": "deploy-freeze"},
        {"op": "read", "kind": "decision", "status": "found", "results": 1, "slug": "deploy-freeze"},
    ),
    (
        "memory_read",
        {"kind": "decision", "slug": "own"},
        {"op": "read", "kind": "decision", "status": "not_found", "results": 0, "slug": "own"},
    ),
    (
        "memory_read",
        {"kind": "decision", "slug": "../passwd"},
        {"op": "read", "kind": "decision", "status": "rejected", "results": 0},
    ),
    ("knowledge_query", {"query": ""}, {"op": "query", "kind": "knowledge", "status": "found", "results": 1}),
    ("knowledge_read", {"slug": "lane"}, {"op": "read", "kind": "knowledge", "status": "found", "results": 1, "slug": "lane"}),
]


@pytest.mark.parametrize(("name", "arguments", "told"), CALLS)
def test_each_call_is_told_once_everywhere_and_everywhere_the_same(
    a_desk: Desk, name: str, arguments: dict[str, Any], told: dict[str, Any]
) -> None:
    a_desk.ask(name, in_channel("C1"), **arguments)

    (span,) = a_desk.recorded.spans()
    assert span["name"] == f"execute_tool {name}"
    assert {key.removeprefix("insomnia.memory."): value for key, value in span["attributes"].items() if "memory." in key} == {
        "op": told["op"],
        "op.status": told["status"],
        "kind": told["kind"],
        "results": told["results"],
        **({"slug": told["slug"]} if "slug" in told else {}),
    }
    assert span["attributes"]["gen_ai.tool.call.id"] == "toolu_1"
    assert span["status"] == ("ERROR" if told["status"] == "rejected" else "UNSET")

    (line,) = a_desk.lines()
    assert {key: line[key] for key in line if key in {"op", "kind", "slug", "query", "results", "status", "caller"}} == {
        **told,
        "caller": ROUTE,
    }
    assert (line["event"], line["trace_id"], line["span_id"]) == ("record_usage", span["trace_id"], span["span_id"])

    labels = {"op": told["op"], "kind": told["kind"], "status": told["status"]}
    assert a_desk.recorded.nonzero("insomnia.memory.usage") == [(labels, 1)]

    (used,) = a_desk.usage()
    assert {key: used[key] for key in ("op", "status", "results", "caller")} == {
        **{key: told[key] for key in ("op", "status", "results")},
        "caller": ROUTE,
    }
    assert len(used["found"]) == told["results"]


def test_a_call_is_a_child_of_the_turn_that_asked_also_from_its_thread(a_desk: Desk) -> None:
    with a_desk.recorded.emit.span(SpanName.INVOKE_AGENT, label="main"):
        asyncio.run(a_desk.tools.call("memory_query", {"query": "凍結"}, in_channel("C1")))

    assert a_desk.recorded.tree() == [{"invoke_agent main": ["execute_tool memory_query"]}]


def test_a_worker_is_told_with_its_run(a_desk: Desk) -> None:
    a_desk.ask("memory_query", Asker(caller="memory_consolidation", scope=None, run_id="c1"), query="凍結")

    assert a_desk.lines()[0]["run_id"] == a_desk.usage()[0]["run_id"] == "c1"
    assert a_desk.recorded.spans()[0]["attributes"]["insomnia.memory.run_id"] == "c1"


def test_the_usage_file_is_its_owners_alone_and_names_what_was_shown(a_desk: Desk) -> None:
    for _ in range(3):
        a_desk.ask("memory_query", in_channel("C1"), query="凍結")

    path = a_desk.root / "memory" / "_usage" / "events.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [used["found"][0] for used in a_desk.usage()] == ["decision/deploy-freeze"] * 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", a_desk.usage()[0]["ts"])


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items())
def test_a_secret_in_a_query_stands_nowhere(a_desk: Desk, kind: str, secret: str) -> None:
    a_desk.ask("memory_query", query=f"what is {secret} 凍結")
    a_desk.ask("memory_query", query=f"{secret} " * 40)  # refused: too long
    a_desk.ask("memory_query", query="a", **{secret: "x"})
    a_desk.ask("memory_read", kind="decision", slug=secret)

    written = a_desk.everything_written() + str(a_desk.recorded.spans())
    assert secret.removeprefix("パスワードは") not in written
    assert f"[REDACTED:{kind}]" in a_desk.lines()[0]["query"]


def test_the_text_of_a_query_stands_in_the_local_log_and_nowhere_else(a_desk: Desk) -> None:
    a_desk.ask("memory_query", query="凍結の理由")

    assert a_desk.lines()[0]["query"] == "凍結の理由"
    elsewhere = [str(a_desk.recorded.spans()), str(a_desk.recorded.points()), str(a_desk.usage())]
    assert [text for text in elsewhere if "凍結の理由" in text] == []


def test_usage_that_cannot_be_kept_is_said_and_stops_nobody(a_desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    (a_desk.root / "memory" / "_usage").symlink_to(a_desk.root)  # a place that is not ours to write to

    assert a_desk.found("memory_query", in_channel("C1"), query="凍結") == ["deploy-freeze"]
    assert a_desk.troubles.counts == {"memory usage": 1}
    assert "memory usage" in capfd.readouterr().err
    assert not (a_desk.root / "events.jsonl").exists()


def test_a_defect_of_ours_is_told_as_a_failed_call_and_goes_on(a_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("memory.store.Store.view", defect)

    with pytest.raises(ZeroDivisionError):
        a_desk.tools.answer(MEMORY_QUERY, {"query": "a"}, in_channel("C1"))

    (span,) = a_desk.recorded.spans()
    assert (span["status"], span["attributes"]["insomnia.memory.op.status"]) == ("ERROR", "failed")
    assert [line["status"] for line in a_desk.lines()] == [used["status"] for used in a_desk.usage()] == ["failed"]
