"""The reading tools over a real store and real telemetry, and what is left behind by what was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.reading_schemas import READINGS
from memory.reading_tools import ReadingTools
from memory.records import Record, Scope, render
from memory.redact import redact
from memory.store import Store
from memory.tools import Asker
from memory.usage import UsageLog
from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import log_folders
from telemetry.troubles import Troubles
from tests.memory.made_records import NOW, put
from tests.telemetry.conftest import Recorded, recording

ROUTE = "main"
OWNER = Asker(caller="cli", scope=None)


def in_channel(channel: str) -> Asker:
    return Asker(caller=ROUTE, scope=Scope.channel(channel))


def in_messages_of(user: str) -> Asker:
    return Asker(caller=ROUTE, scope=Scope.user(user))


@dataclass
class Desk:
    root: Path
    tools: ReadingTools
    recorded: Recorded
    troubles: Troubles

    def ask(self, name: str, asker: Asker = OWNER, /, **arguments: Any) -> dict[str, Any]:
        answer = self.tools.answer(READINGS[name], arguments, asker, call_id="toolu_1")
        said: dict[str, Any] = json.loads(answer.text)
        assert answer.failed == ("error" in said)
        return said

    def found(self, name: str, asker: Asker = OWNER, /, **arguments: Any) -> list[str]:
        return [result["slug"] for result in self.ask(name, asker, **arguments)["results"]]

    def usage(self) -> list[dict[str, Any]]:
        path = self.root / "memory" / "_usage" / "events.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()]

    def lines(self) -> list[dict[str, Any]]:
        """Of the memory's log on disk."""
        folder = self.root / "memory" / "_logs"
        return [json.loads(line) for path in sorted(folder.glob("memory-*.log")) for line in path.read_bytes().split(b"\n") if line]

    def everything_written(self) -> str:
        return "\n".join(path.read_text("utf-8") for path in self.root.rglob("*") if path.is_file() and path.suffix != ".md")


@contextmanager
def desk(root: Path, *records: Record) -> Iterator[Desk]:
    """Also writes the log files, as the bot does; `recorded.log` stays empty."""
    root.mkdir(parents=True, exist_ok=True)
    for each in records:
        put(root, render(each), each.slug, each.kind)
    troubles = Troubles()
    with recording(log_exporters=[JsonlExporter(log_folders(root))]) as recorded:
        usage = UsageLog(root, now=lambda: NOW, troubles=troubles)
        yield Desk(root, ReadingTools(Store(root), emit=recorded.emit, usage=usage, redact=redact), recorded, troubles)
