"""Whatever OTEL_* say about what leaves the machine, what stays on it tells the same: the stored trace, `why`, log and status."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bot.explain.explainer import Explainer
from bot.explain.explanation import as_json
from bot.explain.find import Finder
from bot.explain.ref import parse_ref
from bot.explain.sources import Sources
from bot.words import Language
from telemetry.actionbar import status_line
from telemetry.events import Thread
from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.names import Attr, SpanName
from telemetry.setup import TelemetrySettings, telemetry
from telemetry.status import LatestStatus
from telemetry.status_file import read_status
from telemetry.trace_reading import StoredTrace, reading
from telemetry.trace_store import TraceStore
from tests.telemetry import facts

HERE = Thread("T012ABC", "C012ABC", "1796040000.000100")
TS, POSTED = "1796040190.000200", "1796040194.000300"
TOOLS = 200  # more attributes and links than the SDK would keep of one span
MODES = {
    "always off": {"OTEL_TRACES_SAMPLER": "always_off"},
    "parent off": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    "no ratio": {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
    "disabled": {"OTEL_SDK_DISABLED": "true"},
    "limits": {
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "2",
        "OTEL_SPAN_LINK_COUNT_LIMIT": "0",
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "0",
    },
}


def left(folder: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> dict[str, Any]:
    """All that one reply leaves on this machine, times and ids aside."""
    folder.mkdir()
    with monkeypatch.context() as patched:
        for name, value in environ.items():
            patched.setenv(name, value)
        reply(folder)
    with reading(folder / "traces.db") as traces:
        (about,) = traces.by_message(TS, channel=HERE.channel)
        stored = traces.trace(about.trace_id)
    assert stored is not None
    sources = Sources(traces=folder / "traces.db", state=folder / "none", logs=folder / "logs", bot_runs=lambda: True)
    found = Finder(sources, sleep=lambda _: None).find(parse_ref(TS))
    whole = as_json(replace(found, trace_id="", parts=tuple(replace(part, ms=0.0, start_ms=0.0) for part in found.parts)), ref=TS, links={})
    status = read_status(folder / "status.json")
    assert status is not None and status.reply is not None
    return {
        "tree": tree(stored),
        "why": {**whole, "tools": len(whole["tools"])},
        "slack": re.sub(r"\d+\.\d s, trace \w+", "", Explainer(folder / "traces.db").sentence(HERE, Language.ENGLISH).sentence),
        "log": [line(text) for text in (folder / "logs" / "current.log").read_text(encoding="utf-8").splitlines()],
        "status": {**asdict(status.reply), "at": 0, "trace_id": ""},
        "actionbar": status_line(status, 80, status.at, bot_up=True),
    }


def reply(folder: Path) -> None:
    status = LatestStatus(folder / "status.json")
    settings = TelemetrySettings(
        routes=("main",),
        span_processors=(status, TraceStore(folder / "traces.db")),
        log_exporters=(JsonlExporter(log_folders(folder)),),
        listeners=(status.hear,),
    )
    about = {
        Attr.MESSAGING_DESTINATION: HERE.channel,
        Attr.MESSAGING_MESSAGE_ID: TS,
        Attr.MESSAGING_CONVERSATION_ID: HERE.ts,
        Attr.THREAD_TEAM: HERE.team,
    }
    with telemetry(settings) as emit, emit.span(SpanName.PROCESS, about) as root:
        root.set({Attr.ROUTE: "main", Attr.SESSION_KEY: "main", Attr.GATE_DECISION: "refetched", Attr.GATE_REASON: "after_rotate"})
        decided = {Attr.GATE_DECISION: "refetched", Attr.GATE_REASON: "after_rotate"}
        with emit.span(SpanName.THREAD_GATE, decided), emit.span(SpanName.THREAD_REFETCH, {Attr.REFETCH_MESSAGES: 30}):
            emit(facts.GATE)
        with emit.span(SpanName.INVOKE_AGENT, {Attr.GEN_AI_AGENT: "main"}, label="main", links=[root.ref] * TOOLS):
            emit(facts.RESET)
            for number in range(TOOLS):
                with emit.span(SpanName.EXECUTE_TOOL, {Attr.GEN_AI_TOOL_NAME: f"Read{number}"}, label="Read"):
                    pass
        with emit.span(SpanName.SLACK_REPLY, {Attr.REPLY_TS: [POSTED]}):
            emit(facts.REPLY)
        root.set({Attr.REPLY_OUTCOME: "answered"})


def tree(stored: StoredTrace) -> list[Any]:
    names = {span.span_id: span.name for span in stored.spans}
    return [(span.name, names.get(span.parent_id), span.status, dict(span.attributes), len(span.links)) for span in stored.spans]


def line(text: str) -> dict[str, Any]:
    read = json.loads(text)
    assert re.fullmatch(r"[0-9a-f]{32}", read["trace_id"])
    return {key: value for key, value in read.items() if key not in ("ts", "trace_id", "span_id", "trace_flags", "pid")}


@pytest.mark.parametrize("mode", MODES)
def test_what_stays_on_the_machine_is_the_same_in_every_mode(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = left(tmp_path / "usual", monkeypatch, {})
    other = left(tmp_path / "other", monkeypatch, MODES[mode])

    assert other == usual
    assert usual["why"]["gate"]["decision"] == "refetched" and usual["why"]["tools"] == TOOLS
    assert usual["slack"].startswith("The thread was read again from Slack")
    assert {name: attributes for name, _, _, attributes, _ in usual["tree"]}["slack.reply"] == {"insomnia.reply.ts": [POSTED]}
