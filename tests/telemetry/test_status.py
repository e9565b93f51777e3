"""The latest status: what facts and spans make of it, in every mode, and what another process reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from telemetry import account_events, events
from telemetry.actionbar import status_line
from telemetry.emit import Emit
from telemetry.memory_events import MemoryReason, MemoryRunEnded, MemoryRunStarted, MemoryStatus, MemoryTrigger, MemoryWorker
from telemetry.names import Attr, SpanName
from telemetry.status import MAX_SESSIONS, LatestStatus
from telemetry.status_file import MAX_BYTES, RunStatus, SessionStatus, Status, read_status
from tests.telemetry import facts, memory_facts
from tests.telemetry.conftest import Recorded, recording

RUN = {Attr.MEMORY_RUN_ID: "x1", Attr.MEMORY_WORKER: "memory_extract", Attr.MEMORY_TRIGGER: "session_end", Attr.MEMORY_LIMIT: 300.0}
MODES = {
    "usual": {},
    "disabled": {"OTEL_SDK_DISABLED": "true"},
    "always off": {"OTEL_TRACES_SAMPLER": "always_off"},
    "parent off": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    "no ratio": {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
    "no attributes": {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0"},
    "short values": {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1"},
}


class Watched:
    def __init__(self, recorded: Recorded, latest: LatestStatus) -> None:
        self.emit: Emit = recorded.emit
        self.recorded, self.latest = recorded, latest

    @property
    def status(self) -> Status:
        return self.latest.latest()

    @property
    def run(self) -> RunStatus:
        assert self.status.memory is not None
        return self.status.memory

    @property
    def shown(self) -> str:
        return status_line(self.status, 80, self.status.at).rpartition(" · ")[0]


@contextmanager
def watching(path: Path | None = None, **settings: Any) -> Iterator[Watched]:
    latest = LatestStatus(path, slack_mode="embedded", model_kind="anthropic")
    with recording(span_processors=[latest], listeners=[latest.hear], **settings) as recorded:
        yield Watched(recorded, latest)


@pytest.fixture
def watched() -> Iterator[Watched]:
    with watching() as watched:
        yield watched


def ended(status: MemoryStatus, reason: MemoryReason, *, run_id: str, trigger: MemoryTrigger = MemoryTrigger.IDLE) -> MemoryRunEnded:
    return MemoryRunEnded(run_id=run_id, worker=MemoryWorker.CONSOLIDATION, trigger=trigger, status=status, reason=reason, seconds=0.0)


def without_times(status: Status) -> Status:
    memory = replace(status.memory, at=0.0, began_at=0.0, trace_id="") if status.memory else None
    reply = replace(status.reply, at=0.0, seconds=0.0, trace_id="") if status.reply else None
    accounts = tuple(replace(account, until=bool(account.until)) for account in status.accounts)
    return replace(status, at=0.0, last_event_at=None, memory=memory, reply=reply, accounts=accounts)


# -- what is told ------------------------------------------------------------------------------------------------------
def test_before_anything_happens_only_the_modes_are_known(watched: Watched) -> None:
    status = watched.status

    assert (status.slack_mode, status.model_kind, status.connected, status.last_event_at) == ("embedded", "anthropic", None, None)
    assert (status.sessions, status.queue_depth, status.memory, status.reply) == ((), 0, None, None)


def test_sessions_queue_slack_and_account_are_what_was_last_said(watched: Watched) -> None:
    watched.emit(facts.SEEN)
    watched.emit(replace(facts.SEEN, state=events.SessionState.BUSY, epoch=4, context_tokens=60_000))
    watched.emit(replace(facts.SEEN, route="coder", key="dm:1"))
    for key, depth in (("main", 2), ("dm:1", 3), ("main", 0)):
        watched.emit(events.LaneDepth(route="main", key=key, depth=depth))
    watched.emit(events.SessionStarted(route="main", key="main", session_id="5", how=events.ResetHow.FRESH, account="work", seconds=0.1))
    watched.emit(events.SlackEventSeen())
    heard_at = watched.status.last_event_at
    watched.emit(events.SlackConnection(up=False))

    status = watched.status
    assert status.sessions == (
        SessionStatus(route="main", key="main", state="busy", epoch=4, known_threads=7, context_tokens=60_000, limit_tokens=150_000),
        SessionStatus(route="coder", key="dm:1", state="idle", epoch=0, known_threads=7, context_tokens=50_000, limit_tokens=150_000),
    )
    assert (status.queue_depth, status.account, status.connected, status.last_event_at) == (3, "work", False, heard_at)
    assert heard_at is not None


def test_accounts_are_told_with_the_end_of_their_rest(watched: Watched) -> None:
    watched.emit(facts.LIMITED)
    watched.emit(account_events.AccountSeen(account="spare", state=account_events.AccountState.WARNED))

    limited, warned = watched.status.accounts

    assert (limited.name, limited.state, limited.until - watched.status.at == pytest.approx(3_600.0, abs=5.0)) == ("work", "limited", True)
    assert (warned.name, warned.state, warned.until) == ("spare", "warned", 0.0)


def test_a_socket_that_came_back_or_brings_an_event_is_up(watched: Watched) -> None:
    watched.emit(events.SlackConnection(up=False))
    watched.emit(events.SlackReconnected(reason="closed", down_seconds=1.0))
    after_reconnect = watched.status.connected
    watched.emit(events.SlackConnection(up=False))
    watched.emit(events.SlackEventSeen())

    assert (after_reconnect, watched.status.connected) == (True, True)


def test_other_connections_of_the_app_are_counted_until_slack_counts_them_no_more(watched: Watched) -> None:
    counts = []
    for connections in (2, 1):
        watched.emit(events.SlackConnection(up=True, connections=connections))
        counts.append(watched.status.connections)

    assert counts == [2, 1]


def test_the_sessions_heard_of_last_are_kept_and_the_file_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with watching(path) as watched:
        for number in range(10 * MAX_SESSIONS):
            watched.emit(replace(facts.SEEN, key=f"dm:{number}"))
            watched.emit(facts.SEEN)
        assert watched.latest.force_flush()

    read = read_status(path)
    assert read is not None and len(read.sessions) == MAX_SESSIONS
    assert read.sessions[-1].key == "main"
    assert path.stat().st_size < MAX_BYTES / 2


def test_the_last_reply_is_told_by_its_fact_with_its_trace(watched: Watched) -> None:
    with watched.emit.span(SpanName.PROCESS, {Attr.MESSAGING_MESSAGE_ID: "1700000009.000100"}) as root:
        watched.emit(replace(facts.REPLY, outcome=events.Outcome.FAILED, reason=events.FailReason.DEADLINE))

    reply = watched.status.reply
    assert reply is not None
    assert (reply.route, reply.outcome, reply.reason, reply.seconds) == ("main", "failed", "deadline", 3.0)
    assert (reply.message_ts, reply.trace_id) == ("1700000009.000100", root.ref.trace_id)


def test_a_reply_of_which_only_the_span_tells_was_cancelled(watched: Watched) -> None:
    with watched.emit.span(SpanName.PROCESS, {Attr.MESSAGING_MESSAGE_ID: "1700000009.000100"}):
        pass

    assert watched.status.reply is not None
    assert (watched.status.reply.outcome, watched.status.reply.message_ts) == ("cancelled", "1700000009.000100")


def test_a_message_that_was_dropped_is_no_reply(watched: Watched) -> None:
    watched.emit(facts.REPLY)
    with watched.emit.span(SpanName.PROCESS) as span:
        watched.emit(events.MessageDropped(reason=events.DropReason.NOT_ALLOWED, route="main"))
        span.set({Attr.REPLY_OUTCOME: "cancelled", Attr.REPLY_REASON: "not_allowed"})

    assert watched.status.reply is not None and watched.status.reply.outcome == "answered"


# -- memory runs -------------------------------------------------------------------------------------------------------
def test_a_run_is_running_while_its_span_is_open_and_done_when_its_fact_says_so(watched: Watched) -> None:
    with watched.emit.span(SpanName.MEMORY_RUN, RUN, label="memory_extract") as span:
        by_span = watched.run
        watched.emit(memory_facts.EXTRACT_STARTED)
        by_fact = watched.run
        watched.emit(memory_facts.EXTRACT_DONE)
        done = watched.run

    assert (by_span.status, by_span.run_id, by_span.limit_seconds) == ("started", "x1", 300.0)
    assert by_fact == replace(by_span, at=by_fact.at)
    assert (done.status, done.reason, done.staged, done.trigger) == ("completed", "candidates_found", 3, "session_end")
    assert done.trace_id == span.ref.trace_id
    assert watched.run == done, "the end of the span changes nothing any more"


def test_a_run_without_a_span_is_told_by_its_facts(watched: Watched) -> None:
    watched.emit(memory_facts.CONSOLIDATION_STARTED)
    running = watched.shown
    watched.emit(memory_facts.CONSOLIDATION_DONE)

    assert running == "⟳ MEMORY consolidation running…"
    assert watched.shown == "✓ MEMORY consolidation done: wrote 1, merged 2, dropped 4"


def test_the_status_on_a_span_counts_where_no_fact_was_heard(watched: Watched) -> None:
    about = {Attr.MEMORY_STATUS: "completed", Attr.MEMORY_REASON: "records_updated", Attr.MEMORY_WRITTEN: 2, Attr.MEMORY_DROPPED: 1}
    with watched.emit.span(SpanName.MEMORY_RUN, RUN, label="memory_consolidation") as span:
        span.set(about)

    assert (watched.run.status, watched.run.ops) == ("completed", {"write": 2, "drop": 1})


async def test_a_run_whose_span_ended_without_a_status_was_cancelled(watched: Watched) -> None:
    async def work() -> None:
        with watched.emit.span(SpanName.MEMORY_RUN, RUN, label="memory_extract"):
            watched.emit(memory_facts.EXTRACT_STARTED)
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work())
        await asyncio.sleep(0)
        task.cancel()

    assert (watched.run.status, watched.run.reason, watched.run.run_id) == ("cancelled", "interrupted", "x1")
    assert watched.shown == "⊘ MEMORY extract cancelled: interrupted"


def test_a_check_that_did_not_fire_replaces_nothing(watched: Watched) -> None:
    watched.emit(memory_facts.EXTRACT_DONE)
    before = watched.run

    watched.emit(memory_facts.NOT_DUE)

    assert watched.run == before


def test_c065_a_skip_after_a_success_leaves_the_success(watched: Watched) -> None:
    watched.emit(memory_facts.CONSOLIDATION_DONE)
    with watched.emit.span(SpanName.MEMORY_RUN, {**RUN, Attr.MEMORY_RUN_ID: "c9"}, label="memory_consolidation"):
        watched.emit(ended(MemoryStatus.SKIPPED, MemoryReason.NO_STAGING, run_id="c9"))
    watched.emit(memory_facts.NOT_DUE)

    assert watched.shown == "✓ MEMORY consolidation done: wrote 1, merged 2, dropped 4"
    skips = [record["attributes"]["reason"] for record in watched.recorded.records() if record["attributes"]["status"] == "skipped"]
    assert skips == ["no_staging"], "the log has it all the same"


def test_a_failure_is_not_hidden_by_a_skip_either(watched: Watched) -> None:
    watched.emit(memory_facts.EXTRACT_FAILED)
    watched.emit(ended(MemoryStatus.SKIPPED, MemoryReason.BACKOFF, run_id="c9", trigger=MemoryTrigger.STAGING_BACKLOG))

    assert watched.shown == "✗ MEMORY extract failed: model_error"


def test_a_skip_is_shown_where_there_is_nothing_better_or_a_person_asked(watched: Watched) -> None:
    watched.emit(ended(MemoryStatus.SKIPPED, MemoryReason.COOLDOWN, run_id="c8"))
    first = watched.shown
    watched.emit(ended(MemoryStatus.SKIPPED, MemoryReason.BACKOFF, run_id="c9"))
    newer = watched.shown
    watched.emit(memory_facts.EXTRACT_DONE)
    watched.emit(memory_facts.NO_STAGING)

    assert first == "↷ MEMORY consolidation skipped: cooldown"
    assert newer == "↷ MEMORY consolidation skipped: backoff"
    assert watched.shown == "↷ MEMORY consolidation skipped: no staging"


def test_a_person_who_has_several_sessions_read_sees_what_came_of_it_and_not_the_last_that_had_nothing(watched: Watched) -> None:
    watched.emit(memory_facts.EXTRACT_DONE)
    done = watched.shown
    skip = {"worker": MemoryWorker.EXTRACT, "trigger": MemoryTrigger.MANUAL, "extract": None, "run_id": "c10"}
    watched.emit(replace(memory_facts.EXTRACT_DONE, status=MemoryStatus.SKIPPED, reason=MemoryReason.NO_NEW_SESSION_RANGE, **skip))

    assert watched.shown == done


def test_a_run_that_is_under_way_is_not_hidden_by_a_skip_even_of_a_person(watched: Watched) -> None:
    with watched.emit.span(SpanName.MEMORY_RUN, RUN, label="memory_extract"):
        watched.emit(memory_facts.NO_STAGING)
        assert watched.shown == "⟳ MEMORY extract running…"


def test_of_two_runs_at_once_the_newest_word_is_shown_and_the_other_one_is_not_lost(watched: Watched) -> None:
    extract = watched.emit.begin(SpanName.MEMORY_RUN, RUN, label="memory_extract", root=True)
    watched.emit(memory_facts.CONSOLIDATION_DONE)
    after_the_other = watched.shown
    extract.end()

    assert after_the_other == "✓ MEMORY consolidation done: wrote 1, merged 2, dropped 4"
    assert watched.shown == "⊘ MEMORY extract cancelled: interrupted"


def test_a_clock_that_is_set_back_does_not_freeze_the_status() -> None:
    now = [5_000.0]
    latest = LatestStatus(now=lambda: now[0])
    latest.hear(memory_facts.EXTRACT_DONE)
    now[0] = 10.0
    latest.hear(MemoryRunStarted(run_id="c2", worker=MemoryWorker.CONSOLIDATION, trigger=MemoryTrigger.IDLE))

    memory = latest.latest().memory
    assert memory is not None and memory.run_id == "c2"


# -- in every mode -----------------------------------------------------------------------------------------------------
def told_in(mode: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Status, str]]:
    with monkeypatch.context() as patched:
        for name, value in mode.items():
            patched.setenv(name, value)
        with watching() as watched:
            told = []
            with watched.emit.span(SpanName.PROCESS, root_attributes()):
                for fact in facts.BOT:
                    watched.emit(fact)
            for run in ((memory_facts.EXTRACT_STARTED, memory_facts.EXTRACT_DONE), (memory_facts.CONSOLIDATION_STARTED,)):
                about = {Attr.MEMORY_RUN_ID: run[0].run_id, Attr.MEMORY_LIMIT: 300.0}
                with watched.emit.span(SpanName.MEMORY_RUN, about, label=run[0].worker.value):
                    for fact in run:
                        watched.emit(fact)
                        told.append((without_times(watched.status), watched.shown))
            told.append((without_times(watched.status), watched.shown))
    return told


def root_attributes() -> dict[Attr, str]:
    return {Attr.ROUTE: "main", Attr.MESSAGING_MESSAGE_ID: "1700000009.000100"}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "usual"])
def test_no_sampler_and_no_limit_changes_the_status_or_the_line(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, told = told_in({}, monkeypatch), told_in(MODES[mode], monkeypatch)

    assert [line for _, line in told] == [line for _, line in usual]
    assert [line for _, line in usual] == [
        "⟳ MEMORY extract running…",
        "✓ MEMORY extract done: staged 3",
        "⟳ MEMORY consolidation running…",
        "⊘ MEMORY consolidation cancelled: interrupted",
    ]
    # The limit of a run stands on its span alone; without it the general one holds.
    assert [without_limit(status) for status, _ in told] == [without_limit(status) for status, _ in usual]


def without_limit(status: Status) -> Status:
    return replace(status, memory=replace(status.memory, limit_seconds=0.0) if status.memory else None)


# -- the file ----------------------------------------------------------------------------------------------------------
def test_another_process_reads_what_this_one_said(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with watching(path) as watched:
        for fact in facts.ALL:
            watched.emit(fact)
        assert watched.latest.force_flush()
        said = watched.status

    read = read_status(path)
    assert read is not None
    assert replace(read, at=0.0) == replace(said, at=0.0)


def test_after_a_restart_the_last_run_and_reply_are_still_known_and_a_dead_run_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with watching(path) as before:
        before.emit(facts.REPLY)
        before.emit(memory_facts.CONSOLIDATION_STARTED)
        before.emit(facts.SEEN)

    status = LatestStatus(path).latest()

    assert status.memory is not None and status.reply is not None
    assert (status.memory.run_id, status.memory.status, status.memory.reason) == ("c1", "failed", "interrupted")
    assert status.reply.outcome == "answered"
    assert status.sessions == ()
