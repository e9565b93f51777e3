"""What the tests of the stores, the intake and the gate stand on: a clock that they move, an `Emit` that only records, two stores
in one file, and events as Slack sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.inbox import Inbox, Row
from bot.intake import Audience, Intake
from bot.messages import Change
from bot.outbox import Outbox
from bot.routes import RouteSettings
from bot.slack_events import Wondered
from bot.slack_text import Me
from bot.state_db import open_state
from bot.thread_routes import ThreadRoutes
from telemetry.emit import AttrValue, Span
from telemetry.events import DropReason, Fact, MessageDropped, Outcome, Thread, TraceRef
from telemetry.names import Attr, SpanName

ME = Me("U0BOT", "B0BOT")
TEAM, CHANNEL = "T0", "C0"
ROOT = "1761000000.000000"
HERE = Thread(TEAM, CHANNEL, ROOT)
TRACE = TraceRef("1" * 32, "2" * 16)
START = 1_761_000_000.0  # 2025-10-20, so that every ts has the width that Slack's have


class FakeClock:
    """Time passes when a test says so, or somebody sleeps."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds

    def ts(self, after: float = 0.0) -> str:
        return f"{self.at + after:.6f}"


@dataclass
class RecordedSpan:
    name: SpanName
    ref: TraceRef
    parent: TraceRef | None
    label: str = ""
    links: tuple[TraceRef, ...] = ()
    attributes: dict[Attr, AttrValue] = field(default_factory=dict)
    error: str = ""
    ended: bool = False

    def set(self, attributes: Mapping[Attr, AttrValue]) -> None:
        self.attributes.update(attributes)

    def fail(self, error_type: str) -> None:
        self.error = error_type

    def end(self) -> None:
        self.ended = True


_current: ContextVar[RecordedSpan | None] = ContextVar("current", default=None)


class RecordingEmit:
    """`telemetry.emit.Emit`: facts and spans in the order in which they came."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.spans: list[RecordedSpan] = []

    def __call__(self, fact: Fact) -> None:
        self.facts.append(fact)

    def begin(
        self,
        name: SpanName,
        attributes: Mapping[Attr, AttrValue] | None = None,
        *,
        label: str = "",
        root: bool = False,
        links: Sequence[TraceRef] = (),
    ) -> RecordedSpan:
        above, number = None if root else _current.get(), len(self.spans) + 1
        ref = TraceRef(above.ref.trace_id if above else f"{number:032x}", f"{number:016x}")
        span = RecordedSpan(name, ref, above.ref if above else None, label, tuple(links), dict(attributes or {}))
        self.spans.append(span)
        return span

    @contextmanager
    def span(
        self, name: SpanName, attributes: Mapping[Attr, AttrValue] | None = None, *, label: str = "", links: Sequence[TraceRef] = ()
    ) -> Iterator[Span]:
        span = self.begin(name, attributes, label=label, links=links)
        token = _current.set(span)
        try:
            yield span
        except BaseException as e:
            span.fail(type(e).__name__)
            raise
        finally:
            _current.reset(token)
            span.end()

    @contextmanager
    def within(self, span: Span) -> Iterator[None]:
        token = _current.set(next(s for s in self.spans if s.ref == span.ref))
        try:
            yield
        finally:
            _current.reset(token)

    def current(self) -> TraceRef | None:
        span = _current.get()
        return span.ref if span else None

    @property
    def dropped(self) -> list[DropReason]:
        return [fact.reason for fact in self.facts if isinstance(fact, MessageDropped)]


class Store:
    """The two adapters on one file, as a process has them."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, FakeClock()
        self.open()

    def open(self) -> None:
        self.db = open_state(self.path)
        self.inbox, self.threads = Inbox(self.db, clock=self.clock), ThreadRoutes(self.db, clock=self.clock, boot="b")
        self.outbox = Outbox(self.db)

    def restart(self) -> None:
        self.db.close()
        self.open()

    def accept(self, ts: str = ROOT, thread: Thread = HERE, **body: Any) -> Row:
        self.threads.watch(thread)
        return self.inbox.accept(thread, ts, user="U1", channel_type="channel", body=body, trace=TRACE)

    def post(self, ts: str, text: str = "x", **body: Any) -> None:
        self.inbox.keep(HERE, ts, Change.POSTED, {"text": text, **body})

    def edit(self, ts: str, text: str, at: str, *, event_ts: str = "") -> None:
        self.inbox.keep(HERE, ts, Change.EDITED, {"text": text, "edited": {"ts": at}, "event_ts": event_ts})

    def delete(self, ts: str) -> None:
        self.inbox.keep(HERE, ts, Change.DELETED, {"user": "U1"})

    def heard(self, before: str = "~") -> list[tuple[str, str, str]]:
        return [(h.ts, h.change.value, str(h.body.get("text", ""))) for h in self.inbox.heard(HERE, before=before)]

    @property
    def overflowed(self) -> bool:
        row = self.threads.get_thread_route(HERE)
        return row is not None and row.overflowed

    def texts_on_disk(self) -> str:
        tables = ("messages", "said", "replies")
        return " ".join(str(r[0]) for table in tables for r in self.db.execute(f"SELECT body FROM {table}"))


class Ground:
    """An intake on a real `state.db`; `restart` is a new process on the same file."""

    def __init__(self, path: Path, *, routes: Sequence[RouteSettings] = (), users: Sequence[str] = (), bots: Sequence[str] = ()) -> None:
        self.path, self.clock, self.emit = path, FakeClock(), RecordingEmit()
        self.routes = {route.name: route for route in (routes or (RouteSettings(name="main", model="m", channels=("*",)),))}
        self.audience = Audience(users=users, bots=bots)
        self.accepted: list[Row] = []
        self.wondered: list[Wondered] = []
        self.when_accepted: Callable[[], None] = lambda: None
        self._boots = 0
        self._start()

    def _start(self) -> None:
        self._boots += 1
        self.db = open_state(self.path)
        self.inbox = Inbox(self.db, clock=self.clock)
        self.threads = ThreadRoutes(self.db, clock=self.clock, boot=f"boot{self._boots}")
        self.intake = Intake(
            inbox=self.inbox,
            threads=self.threads,
            me=ME,
            audience=self.audience,
            routes=self.routes,
            emit=self.emit,
            accepted=self._note,
            wondered=self.wondered.append,
        )

    def _note(self, row: Row, _: Span) -> None:
        self.accepted.append(row)
        self.when_accepted()

    def restart(self) -> None:
        self.db.close()
        self._start()

    def take(self, *events: Mapping[str, Any]) -> None:
        for event in events:
            self.intake.take(callback(event))

    def answer(self, row: Row, *, by_bot: bool = False) -> None:
        """What the app does of its own accord: bind, begin, answer, end."""
        self.threads.bind(row.thread, route="main", key="main")
        self.inbox.begin(row.id)
        self.threads.answered(row.thread, by_bot=by_bot)
        self.inbox.end(row.id, Outcome.ANSWERED)

    def kept(self, thread: Thread) -> list[tuple[str, str, str]]:
        """(ts, change, text) of what waits for the thread's next prompt."""
        return [(h.ts, h.change.value, str(h.body.get("text", ""))) for h in self.inbox.heard(thread, before="~")]

    def count(self, table: str) -> int:
        return int(self.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


# -- events as Slack sends them ----------------------------------------------------------------------------------------
def callback(event: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "event_callback", "team_id": TEAM, "event_id": "Ev1", "event": dict(event)}


def message(ts: str, text: str = "hello", *, user: str = "U1", thread_ts: str = "", **more: Any) -> dict[str, Any]:
    within = {"thread_ts": thread_ts, "parent_user_id": "U1"} if thread_ts else {}
    where = {"channel": CHANNEL, "channel_type": "channel"}
    return {"type": "message", "ts": ts, "event_ts": ts, "user": user, "text": text, **where, **within, **more}


def mention(ts: str, text: str = "<@U0BOT> hello", **more: Any) -> dict[str, Any]:
    return message(ts, text, **more)


def app_mention(ts: str, text: str = "<@U0BOT> hello", **more: Any) -> dict[str, Any]:
    event = {**message(ts, text, **more), "type": "app_mention"}
    del event["channel_type"]
    return event


def changed(before: Mapping[str, Any], at: str, **now: Any) -> dict[str, Any]:
    """`message_changed` at `at`; Slack's `edited` tells whole seconds."""
    inner = {k: v for k, v in before.items() if k not in ("channel", "channel_type", "event_ts")}
    edited = {"edited": {"user": before.get("user"), "ts": f"{int(float(at))}.000000"}} if "text" in now or "blocks" in now else {}
    where = {"channel": before["channel"], "channel_type": "channel"}
    event = {"type": "message", "subtype": "message_changed", "hidden": True, "ts": at, "event_ts": at, **where}
    return {**event, "message": {**inner, **edited, **now}, "previous_message": inner}


def deleted(before: Mapping[str, Any], at: str) -> dict[str, Any]:
    inner = {k: v for k, v in before.items() if k not in ("channel", "channel_type", "event_ts")}
    event = {"type": "message", "subtype": "message_deleted", "hidden": True, "ts": at, "event_ts": at, "channel": before["channel"]}
    return {**event, "channel_type": "channel", "deleted_ts": before["ts"], "previous_message": inner}
