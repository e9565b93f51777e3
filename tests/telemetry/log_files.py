"""What tests of the log files share: records as the SDK hands them to an exporter, and the lines that became of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource

from telemetry.jsonl import JsonlExporter
from telemetry.jsonl_days import KEEP_DAYS, log_folders
from telemetry.metric_names import AUDIT
from telemetry.names import Event, Stream

DAY, NEXT_DAY = "2026-03-01", "2026-03-02"
SECOND = 10**9


def at(text: str) -> int:
    """`2026-03-01T12:00:00` (UTC) in nanoseconds since the epoch."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000) * 10**6


NOON = at(f"{DAY}T12:00:00")


def record(attributes: dict[str, Any] | None = None, *, when: int = NOON, event: str = Event.REPLY, body: str = "") -> ReadableLogRecord:
    made = LogRecord(
        timestamp=when,
        observed_timestamp=when,
        severity_text="INFO",
        severity_number=SeverityNumber.INFO,
        body=body or f"{event}: answered",
        attributes=attributes or {},
        event_name=event,
    )
    return ReadableLogRecord(made, Resource.get_empty())


def read(path: Path, *, torn: int = 0) -> list[dict[str, Any]]:
    """Every line of a file but the first `torn`; fails on one that is no JSON. Blank lines are none."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[torn:] if line]


@dataclass
class Logs:
    """An exporter below a folder, with a clock that stands still until it is moved."""

    state: Path
    keep_days: int = KEEP_DAYS
    now: int = NOON
    exporter: JsonlExporter = field(init=False)

    def __post_init__(self) -> None:
        self.exporter = self.another()

    def another(self) -> JsonlExporter:
        """As a second process would have it."""
        return JsonlExporter(log_folders(self.state), keep_days=self.keep_days, now=lambda: self.now)

    @property
    def folder(self) -> Path:
        return self.state / "logs"

    @property
    def file(self) -> Path:
        return self.folder / f"bot-{DAY}.log"

    @property
    def current(self) -> Path:
        return self.folder / "current.log"

    def write(self, attributes: dict[str, Any] | None = None, **about: Any) -> bool:
        return self.exporter.export([record(attributes, **about)]).name == "SUCCESS"

    def lines(self, day: str = DAY, *, torn: int = 0) -> list[dict[str, Any]]:
        return read(self.folder / f"bot-{day}.log", torn=torn)

    def counts(self, stream: Stream = Stream.BOT) -> tuple[int, int, int]:
        """Written, dropped, repaired."""
        lines, dropped, repaired = (self.exporter.sum_of(metric, stream) for metric in AUDIT)
        return lines, dropped, repaired
