"""A workspace with a trace store, an inbox and a log, as a bot leaves them; and the page of what is found in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.explain.explanation import Explanation
from bot.explain.find import Finder
from bot.explain.page import page
from bot.explain.ref import parse_ref
from bot.explain.sources import Sources
from bot.inbox import Inbox
from bot.state_db import open_state
from bot.workspace import Workspace
from telemetry.events import Outcome, Thread, TraceRef
from telemetry.trace_rows import Begun
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles
from tests.bot.ground import FakeClock
from tests.telemetry.made_traces import BEGAN, CHANNEL, MS, TEAM, THREAD_TS, TS, Made

NOW = BEGAN / 1e9 + 120


class Left:
    """What a bot left; `runs`: whether it still does. `sleeps`: how often the finder waited."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder)
        folder.mkdir(exist_ok=True)
        self.workspace.prepare()
        self.clock = FakeClock(BEGAN / 1e9)
        self.runs, self.sleeps = True, 0
        self.while_waiting = lambda: None
        self._elapsed = 0.0

    # -- leaving -------------------------------------------------------------------------------------------------------
    def traces(self, *made: Made, unended: bool = False) -> None:
        """`unended`: the root only began."""
        writer = TraceWriter(self.workspace.traces_db, troubles=Troubles(), seconds=1e9, max_bytes=1 << 30)
        for one in made:
            assert writer.write([Begun(one.spans[0]), *one.spans[1:]] if unended else one.spans) == 0
        writer.close()

    def row(
        self, made: Made, *, ts: str = TS, state: str = "waiting", outcome: Outcome | None = None, reason: str = "", **body: Any
    ) -> None:
        db = open_state(self.workspace.state_db)
        inbox = Inbox(db, clock=self.clock)
        thread, trace = Thread(TEAM, CHANNEL, THREAD_TS), TraceRef(made.id, "1" * 16)
        row = inbox.accept(thread, ts, user="U012ABC", channel_type="channel", body={"text": "a secret", **body}, trace=trace)
        inbox.route(row.id, route="main", key="main")
        if state != "waiting":
            inbox.begin(row.id)
        if outcome:
            self.clock.at += 2
            inbox.end(row.id, outcome, reason)
        db.close()

    def line(self, after_ms: float, event: str, /, **fields: Any) -> None:
        at = datetime.fromtimestamp((BEGAN + after_ms * MS) / 1e9, UTC)
        with (self.workspace.logs / f"bot-{at:%Y-%m-%d}.log").open("a", errors="backslashreplace") as file:
            ts = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
            file.write(json.dumps({"ts": ts, "event": event, "level": "info", **fields}, ensure_ascii=False) + "\n")

    # -- finding -------------------------------------------------------------------------------------------------------
    def find(self, ref: str) -> Explanation:
        w = self.workspace
        sources = Sources(traces=w.traces_db, state=w.state_db, logs=w.logs, bot_runs=lambda: self.runs)
        finder = Finder(sources, now=lambda: self.clock.at, sleep=self._sleep, monotonic=lambda: self._elapsed)
        return finder.find(parse_ref(ref))

    def _sleep(self, seconds: float) -> None:
        self.sleeps, self._elapsed = self.sleeps + 1, self._elapsed + seconds
        self.while_waiting()

    def page(self, ref: str, **options: Any) -> str:
        return shown(self.find(ref), **options)


def shown(explanation: Explanation, *, width: int = 80, links: Mapping[str, str] | None = None, ascii_only: bool = False) -> str:
    return "\n".join(page(explanation, links=links or {}, width=width, now=NOW, zone=UTC, ascii_only=ascii_only))
