"""Where a reference leads: store, inbox, log; waiting for what is just ending; and what is said where there is nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bot.explain.explanation import INTERRUPTED, RUNNING, WAITING, as_json
from bot.explain.find import PATIENCE_SECONDS, POLL_SECONDS, Ambiguous, NotFound
from telemetry.events import Outcome
from tests.bot.explain.explaining import Left
from tests.telemetry.made_traces import (
    BEGAN,
    CHANNEL,
    MODEL,
    MS,
    POST_TS,
    SESSION,
    TEAM,
    THREAD_TS,
    TS,
    Made,
    failed,
    known,
    refetched,
    root,
)

LINK = f"https://example.slack.com/archives/{CHANNEL}"
EVERY_FORM = [
    TS,
    f"{CHANNEL}/{TS}",
    f"{LINK}/p1796040190000200",
    f"{LINK}/p1796040190000200?thread_ts={THREAD_TS}&cid={CHANNEL}",
    POST_TS,  # a message of the answer
    f"{LINK}/p1796040194000300?thread_ts={THREAD_TS}&cid={CHANNEL}",
    THREAD_TS,  # the thread, in which it is the newest reply
    f"{LINK}/p1796040000000100",
    known().id,
    known().id[:8],
    known().id[:4].upper(),
    "last",
]


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


@pytest.mark.parametrize("ref", EVERY_FORM)
@pytest.mark.parametrize("with_inbox", [True, False])
def test_every_form_of_a_reference_leads_to_the_reply(left: Left, ref: str, with_inbox: bool) -> None:
    left.traces(known())
    if with_inbox:
        left.row(known(), state="answering", outcome=Outcome.ANSWERED)

    found = left.find(ref)

    assert (found.trace_id, found.outcome, found.source, left.sleeps) == (known().id, "answered", "trace", 0)


def test_the_json_of_a_reply_whole(left: Left) -> None:
    left.traces(refetched())
    tools = [
        {"name": "Grep", "ms": 120.0, "status": "tool_error"},
        {"name": "Read", "ms": 1285.0, "status": "late"},
        {"name": "mcp__insomnia__memory_query", "ms": 30.0, "status": "ok"},
    ]

    assert as_json(left.find("last"), ref="last", links={"viewer": "http://x"}) == {
        "v": 1,
        "ref": "last",
        "trace_id": refetched().id,
        "message": {"team": TEAM, "channel": CHANNEL, "ts": TS, "thread_ts": THREAD_TS},
        "outcome": "answered",
        "gate": {"decision": "refetched", "reason": "after_compaction", "injection": "full", "epoch": 4},
        "history": {"read": 30, "omitted": 2, "incomplete": False},
        "session": {"route": "main", "key": "main", "id": SESSION, "account": "work", "resets": []},
        "parts": [
            {"name": "process slack", "start_ms": 0.0, "ms": 3400.0, "status": "ok"},
            {"name": "lane.wait", "start_ms": 0.0, "ms": 200.0, "status": "ok"},
            {"name": "session.start", "start_ms": 200.0, "ms": 320.0, "status": "ok"},
            {"name": "thread.gate", "start_ms": 520.0, "ms": 500.0, "status": "ok"},
            {"name": "thread.refetch", "start_ms": 530.0, "ms": 480.0, "status": "ok"},
            {"name": "thread.inject", "start_ms": 1020.0, "ms": 1.0, "status": "ok"},
            {"name": "invoke_agent main", "start_ms": 1025.0, "ms": 2175.0, "status": "ok"},
            {"name": f"chat {MODEL}", "start_ms": 1030.0, "ms": 870.0, "status": "ok"},
            {"name": "execute_tool Grep", "start_ms": 1900.0, "ms": 120.0, "status": "tool_error"},
            {"name": "execute_tool Read", "start_ms": 1905.0, "ms": 1285.0, "status": "late"},
            {"name": "execute_tool mcp__insomnia__memory_query", "start_ms": 1950.0, "ms": 30.0, "status": "ok"},
            {"name": f"chat {MODEL}", "start_ms": 2030.0, "ms": 1160.0, "status": "ok"},
            {"name": "slack.reply", "start_ms": 3200.0, "ms": 190.0, "status": "ok"},
        ],
        "model": [
            {"model": MODEL, "input_tokens": 12_400, "output_tokens": 90, "cache_read_tokens": 11_000, "cost_usd": None},
            {"model": MODEL, "input_tokens": 13_100, "output_tokens": 310, "cache_read_tokens": 12_400, "cost_usd": 0.0312},
        ],
        "tools": tools,
        "memory": tools[2:],
        "links": {"viewer": "http://x"},
    }


def test_the_json_of_a_failure_says_why_in_its_first_part_and_knows_the_resets(left: Left) -> None:
    left.traces(failed())

    told = as_json(left.find(TS), ref=TS, links={})

    assert (told["outcome"], told["parts"][0]["status"]) == ("failed", "model_limit")
    assert told["history"] == {"read": 12, "omitted": 0, "incomplete": True}
    assert told["session"]["resets"] == [
        {"cause": "compaction_auto", "how": "resume", "epoch": 4, "forgotten": 7, "pre_tokens": 190_000, "post_tokens": 20_000}
    ]


def test_the_json_of_a_drop_whole(left: Left) -> None:
    left.line(0, "message_dropped", channel=CHANNEL, message_ts=TS, outcome="dropped", reason="not_addressed")

    assert as_json(left.find(TS), ref=TS, links={}) == {
        "v": 1,
        "ref": TS,
        "trace_id": None,
        "message": {"team": None, "channel": CHANNEL, "ts": TS, "thread_ts": None},
        "outcome": "dropped",
        "gate": {"decision": None, "reason": None, "injection": None, "epoch": None},
        "history": {"read": 0, "omitted": 0, "incomplete": False},
        "session": {"route": None, "key": None, "id": None, "account": None, "resets": []},
        "parts": [{"name": "process slack", "start_ms": 0.0, "ms": 0.0, "status": "not_addressed"}],
        "model": [],
        "tools": [],
        "memory": [],
        "links": {},
    }


# -- waiting -----------------------------------------------------------------------------------------------------------
def test_right_after_a_reply_its_trace_is_waited_for(left: Left) -> None:
    left.traces(known(), unended=True)
    left.row(known(), state="answering", outcome=Outcome.ANSWERED)
    left.while_waiting = lambda: left.traces(known()) if left.sleeps == 3 else None

    found = left.find(TS)

    assert (found.outcome, found.source, found.seconds, left.sleeps) == ("answered", "trace", 1.5, 3)


def test_a_trace_that_never_comes_is_waited_for_two_seconds(left: Left) -> None:
    left.row(known(), state="answering", outcome=Outcome.FAILED, reason="deadline")

    found = left.find(TS)

    assert left.sleeps == PATIENCE_SECONDS / POLL_SECONDS
    assert (found.outcome, found.reason, found.source, found.parts[0].status) == ("failed", "deadline", "inbox", "deadline")


def test_what_ended_long_ago_is_not_waited_for(left: Left) -> None:
    left.row(known(), state="answering", outcome=Outcome.ANSWERED)
    left.clock.at += 3_600

    assert (left.find(TS).source, left.sleeps) == ("inbox", 0)


def test_without_a_bot_nothing_is_waited_for(left: Left) -> None:
    left.traces(known(), unended=True)
    left.row(known(), state="answering")
    left.runs = False

    found = left.find(TS)

    assert (found.outcome, found.bot_runs, left.sleeps) == (INTERRUPTED, False, 0)


@pytest.mark.parametrize(("state", "outcome"), [("waiting", WAITING), ("answering", RUNNING)])
def test_a_message_without_an_end_is_waiting_or_in_hand(left: Left, state: str, outcome: str) -> None:
    left.row(known(), state=state)

    assert left.find(TS).outcome == left.find(known().id[:6]).outcome == outcome


def test_the_last_reply_is_the_one_before_a_message_that_is_still_in_hand(left: Left) -> None:
    left.traces(refetched(1))
    left.traces(known(2, began=BEGAN + MS), unended=True)
    left.row(known(2), state="answering")

    assert left.find("last").trace_id == refetched(1).id
    assert left.sleeps == PATIENCE_SECONDS / POLL_SECONDS


def test_the_last_reply_is_not_one_that_waits_or_was_dropped(left: Left) -> None:
    left.traces(refetched(1), known(2))
    left.row(refetched(1), state="answering", outcome=Outcome.ANSWERED)
    left.row(known(2), ts="1796040191.000000", outcome=Outcome.DROPPED, reason="not_allowed")
    left.row(known(3), ts="1796040192.000000")

    assert left.find("last").trace_id == refetched(1).id


def test_a_last_reply_that_has_no_trace_yet_is_known_from_the_inbox(left: Left) -> None:
    left.traces(refetched(1))
    left.row(known(2), state="answering", outcome=Outcome.ANSWERED)
    left.while_waiting = lambda: left.traces(known(2))

    assert left.find("last").trace_id == known(2).id


# -- after a crash -----------------------------------------------------------------------------------------------------
def test_after_a_crash_the_log_tells_what_no_span_does(left: Left) -> None:
    left.runs = False
    of = {"trace_id": known().id, "route": "main", "team": TEAM, "channel": CHANNEL, "thread_ts": THREAD_TS}
    left.line(10, "gate_decision", decision="known", reason="held", epoch=2, known_threads=3, **of)
    left.line(20, "session_reset", cause="crash", how="fresh", epoch=3, forgotten=3, session_key="main", session_id=SESSION, **of)

    found = left.find(known().id[:10])

    assert (found.outcome, found.source, found.gate.decision, found.gate.epoch) == (INTERRUPTED, "log", "known", 2)
    assert [(reset.cause, reset.forgotten) for reset in found.session.resets] == [("crash", 3)]
    assert [part.name for part in found.parts] == ["process slack", "gate_decision", "session_reset"]


def test_a_reply_that_only_the_log_knows_is_found_by_its_message(left: Left) -> None:
    of = {"trace_id": known().id, "channel": CHANNEL, "thread_ts": THREAD_TS}
    left.line(10, "gate_decision", decision="known", reason="held", **of)
    left.line(1_500, "reply", outcome="failed", reason="slack_error", message_ts=TS, seconds=1.5, **of)
    left.line(1_600, "reply", outcome="answered", message_ts="1796040199.000000", seconds=1.0, trace_id=known(2).id, channel=CHANNEL)

    found = left.find(f"{CHANNEL}/{TS}")

    assert (found.outcome, found.reason, found.gate.decision, found.seconds) == ("failed", "slack_error", "known", 1.5)
    with pytest.raises(NotFound):
        left.find(f"C0OTHER/{TS}")


def test_lines_that_are_broken_or_foreign_are_passed_over(left: Left) -> None:
    left.line(10, "gate_decision", decision="known", reason="held", trace_id=known().id)
    with next(left.workspace.logs.glob("bot-*.log")).open("ab") as file:
        for bad in (
            '{"trace_id": "%s"',
            '{"event": "x", "trace_id": "%s"}',
            '["%s"]',
            '{"event": 1, "ts": "2026-11-30T12:00:00Z", "t": "%s"}',
        ):
            file.write((bad % known().id).encode() + b"\n")
        file.write(b"\xff" + known().id.encode() + b"\n")

    assert [part.name for part in left.find(known().id).parts] == ["process slack", "gate_decision"]


# -- nothing, or too much ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ref", [TS, f"{CHANNEL}/{TS}", "ffff", "last", f"{LINK}/p1796040190000200"])
def test_where_there_is_nothing_it_says_where_it_looked(left: Left, ref: str) -> None:
    with pytest.raises(NotFound) as nothing:
        left.find(ref)

    assert nothing.value.searched == (
        "the trace store, which is not there yet",
        "the inbox, which is not there yet",
        "the bot's log, which is empty",
    )


def test_it_says_since_when_there_is_something(left: Left) -> None:
    left.traces(known())
    left.row(known(), outcome=Outcome.ANSWERED)
    left.line(0, "reply", trace_id=known().id)

    with pytest.raises(NotFound) as nothing:
        left.find("ffff")

    traces, inbox, log = nothing.value.searched
    assert traces.startswith("the trace store, since 2026-1")
    assert inbox.startswith("the inbox, since 2026-1")
    assert log == "the bot's log, since 2026-11-30"


def test_a_source_that_cannot_be_read_does_not_hide_the_others(left: Left) -> None:
    left.workspace.traces_db.write_bytes(b"damaged")
    left.row(known(), state="answering", outcome=Outcome.ANSWERED)

    assert left.find(TS).outcome == "answered"

    left.workspace.state_db.write_bytes(b"damaged")
    left.line(0, "reply", outcome="answered", trace_id=known().id, message_ts=TS, seconds=0.0)
    assert left.find(TS).source == "log"
    with pytest.raises(NotFound) as nothing:
        left.find("ffff")
    assert nothing.value.searched[:2] == (
        "not the trace store: it is damaged (file is not a database)",
        "not the inbox: it cannot be read (file is not a database)",
    )


def test_a_prefix_of_several_traces_lists_them(left: Left) -> None:
    left.traces(known(0xAAAA0001), known(0xAAAA0002, began=BEGAN + MS))

    with pytest.raises(Ambiguous) as several:
        left.find("aaaa")

    assert [c.trace_id for c in several.value.candidates] == [known(0xAAAA0002).id, known(0xAAAA0001).id]


def test_a_time_stamp_of_two_channels_lists_them(left: Left) -> None:
    other = Made(2)
    root(other, 5, REPLY_OUTCOME="answered", MESSAGING_DESTINATION="C0OTHER")
    left.traces(known(), other)

    with pytest.raises(Ambiguous) as several:
        left.find(TS)

    assert {c.channel for c in several.value.candidates} == {CHANNEL, "C0OTHER"}
    assert left.find(f"C0OTHER/{TS}").trace_id == other.id


def test_a_prefix_that_only_the_log_knows_may_be_ambiguous_too(left: Left) -> None:
    for number in (0xAAAA0001, 0xAAAA0002):
        left.line(0, "reply", trace_id=known(number).id)

    with pytest.raises(Ambiguous):
        left.find("aaaa")


def test_the_beginning_of_a_trace_id_is_none_of_a_message_s_time(left: Left) -> None:
    left.line(1, "gate_decision", trace_id=known().id, message_ts=TS, channel=CHANNEL, decision="known")

    assert left.find(TS).gate.decision == "known"
    with pytest.raises(NotFound):
        left.find(TS[:10])


def test_what_a_line_leads_to_is_told_from_the_store_where_that_has_it(left: Left) -> None:
    left.traces(refetched())
    left.line(1, "gate_decision", trace_id=refetched().id, message_ts="1796040191.000200", decision="known")

    found = left.find("1796040191.000200")

    assert (found.source, found.gate.decision, found.history.read) == ("trace", "refetched", 30)


def test_several_attempts_at_a_message_are_no_ambiguity_and_the_newest_is_meant(left: Left) -> None:
    again = Made(2, BEGAN + MS)
    root(again, 900, links=[known(1).id], REPLY_ATTEMPT=2, REPLY_OUTCOME="answered")
    left.traces(known(1), again)
    left.row(again, state="answering", outcome=Outcome.ANSWERED)

    assert left.find(TS).trace_id == again.id
    assert left.find(known(1).id).next == again.id


def test_how_the_second_attempt_ended_is_not_told_of_the_first(left: Left) -> None:
    again = Made(2, BEGAN + MS)
    root(again, 900, links=[known(1).id], REPLY_ATTEMPT=2, REPLY_OUTCOME="answered")
    left.traces(known(1), unended=True)
    left.traces(again)
    left.row(again, state="answering", outcome=Outcome.ANSWERED)

    assert (left.find(known(1).id).outcome, left.find(again.id).outcome) == (INTERRUPTED, "answered")


def test_nothing_is_written_by_looking(left: Left) -> None:
    left.traces(known())
    left.row(known(), state="answering", outcome=Outcome.ANSWERED)
    paths = (left.workspace.traces_db, left.workspace.state_db)
    before = [path.read_bytes() for path in paths]

    left.find(TS)

    assert [path.read_bytes() for path in paths] == before
    for path in paths:
        db = sqlite3.connect(path)
        assert db.execute("PRAGMA quick_check").fetchone()[0] == "ok"
        db.close()


def test_no_text_of_a_message_comes_out(left: Left) -> None:
    left.row(known(), text="a secret")

    assert "secret" not in repr(left.find(TS))
