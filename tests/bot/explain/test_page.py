"""The page, compared whole: a reply that read its thread again, a known one, a failed, a dropped and an interrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest

import bot.assembly
from bot.cli.terminal import width
from bot.explain.bars import MOST_ROWS, duration
from bot.explain.explanation import Explanation, Gate, History, ModelCall, Session, as_json
from bot.explain.page import EMBEDDED_ACCOUNT, ago
from telemetry.events import Outcome
from tests.bot.explain.explaining import Left, shown
from tests.telemetry.made_traces import BEGAN, CHANNEL, MS, SESSION, TEAM, THREAD_TS, TS, Made, failed, known, refetched, reset, root, run


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


REFETCHED = """\
Answered in 3.40 s · 2026-11-30 12:03:11 (2 minutes ago)

Asked     by U012ABC in C012ABC, message 1796040190.000200, in the thread
          1796040000.000100
Gate      the thread was read again from Slack, because the session's context
          had been compacted since (refetched, after_compaction)
History   30 messages read from Slack, 28 put into the prompt (full), 2 left out
          for their length
Session   route main, account work, 0b9d3c1e-5e55-4c1f-9a51-6a7e2f3c4d5e,
          context number 4, 7 known threads
Resets    none on the way
Model     claude-opus-5-5: 2 calls, 25,500 tokens in (23,400 from the cache),
          400 out, $0.0312
Tools     Grep 120 ms (tool_error), Read 1.28 s (late)
Memory    mcp__insomnia__memory_query 30 ms

Where the time went:
process slack                  ██████████████████████████     3.40 s
  lane.wait                    ██                             200 ms
  session.start                 ██                            320 ms
  thread.gate                     ████                        500 ms
    thread.refetch                 ████                       480 ms
  thread.inject                       █                         1 ms
  invoke_agent main                   █████████████████       2.17 s
    chat claude-opus-5-5              ███████                 870 ms
    execute_tool Grep                        █                120 ms  tool_error
    execute_tool Read                        ██████████       1.28 s  late
    execute_tool mcp__insomni…               █                 30 ms
    chat claude-opus-5-5                      █████████       1.16 s
  slack.reply                                          █      190 ms

Trace     000000014bf92f3577b34da6a3ce929d
Viewer    http://localhost:3000/explore?trace=1"""

KNOWN_IN_ASCII = """\
Answered in 1.50 s - 2026-11-30 12:03:11 (2 minutes ago)

Asked     in C012ABC, message 1796040190.000200, in the thread 1796040000.000100
Gate      the thread was still in the session's context, so it was not read
          again (known, held)
History   nothing read from Slack
Session   route main, 0b9d3c1e-5e55-4c1f-9a51-6a7e2f3c4d5e, context number 4, 7
          known threads
Resets    none on the way
Model     claude-opus-5-5: 1 call, 12,400 tokens in (11,000 from the cache), 90
          out, $0.0312

Where the time went:
process slack            ############################################     1.50 s
  thread.gate            #                                                  1 ms
  invoke_agent main      #########################################        1.40 s
    chat claude-opus-5-5 #########################################        1.39 s
  slack.reply                                                     ###     100 ms

Trace     000000014bf92f3577b34da6a3ce929d"""

FAILED = """\
No answer after 9.00 s, because the model's usage limit was reached
(model_limit) · 2026-11-30 12:03:11 (2 minutes ago)

Asked     in C012ABC, message 1796040190.000200, in the thread 1796040000.000100
Gate      the thread was read again from Slack, because the session's context
          had been compacted since (refetched, after_compaction); asked 2 times,
          since the context was lost before an answer was made
History   12 messages read from Slack, which is not all of the thread
Session   route main, 0b9d3c1e-5e55-4c1f-9a51-6a7e2f3c4d5e, context number 4, 0
          known threads
Resets    on the way: the CLI compacted the context (compaction_auto), 7 threads
          forgotten, 190,000 tokens → 20,000; since then: hibernate
Model     claude-opus-5-5: 2 calls, 12,400 tokens in (11,000 from the cache), 90
          out, $0.0312

Where the time went:
process slack            ███████████████████████████████     9.00 s  model_limit
  thread.gate            █                                     1 ms
  invoke_agent main      ██████████████                      4.00 s
    session.reset        ███████                             1.99 s
    chat claude-opus-5-5       ███████                       1.99 s
  thread.gate                         ██                     490 ms
    thread.refetch                    ██                     470 ms
  invoke_agent main                     ███████████████      4.39 s  rate_limit
    chat claude-opus-5-5                ███████████████      4.37 s  rate_limit
  slack.reply                                          █     100 ms

Trace     000000014bf92f3577b34da6a3ce929d"""

CRASHED = """\
Interrupted: the bot's process ended before it was done; the message is answered
at the next start · 2026-11-30 12:03:11 (2 minutes ago)
From the bot's log: the trace of it was not, or not wholly, stored.

Asked     by Mika (U012ABC) in C012ABC, message 1796040190.000200, in the thread
          1796040000.000100
Gate      the thread was read again from Slack, because the session's context
          had been compacted since (refetched, after_compaction)
History   30 messages read from Slack, 28 put into the prompt (full), 2 left out
          for their length
Session   route main, account work, 0b9d3c1e-5e55-4c1f-9a51-6a7e2f3c4d5e,
          context number 4, 7 known threads
Resets    none on the way

Where the time went so far:
process slack     ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░             interrupted
  lane.wait       ██                                         200 ms
  session.start    ███                                       320 ms
  thread.gate         █████                                  500 ms
  thread_injected          │                                +1.02 s
  error                                                │    +4.00 s  overloaded

Trace     000000014bf92f3577b34da6a3ce929d"""

NOT_ADDRESSED = """\
Not answered: it did not address the bot (not_addressed) · 2026-11-30 12:03:11
(2 minutes ago)
From the bot's log: what is not taken up has no trace.

Asked     in C012ABC, message 1796040190.000200
Gate      it was not asked
"""

NOT_ALLOWED = """\
Not answered: its author may not use the bot here (not_allowed) · 2026-11-30
12:03:11 (2 minutes ago)
From the inbox: there is neither a trace nor a log line of it.

Asked     by U012ABC in C012ABC, message 1796040190.000200, in the thread
          1796040000.000100
Gate      it was not asked
Session   route main

Trace     000000014bf92f3577b34da6a3ce929d"""

WAITING = """\
Waiting for its turn, with 1 message before it · 2026-11-30 12:03:11 (2 minutes
ago)
From the inbox: there is neither a trace nor a log line of it.

Asked     by U012ABC in C012ABC, message 1796040190.000200, in the thread
          1796040000.000100
Session   route main

Trace     000000024bf92f3577b34da6a3ce929d"""

RUN = """\
memory.run memory_consolidation: completed after 1 min 01 s · 2026-11-30
12:03:11 (2 minutes ago)

Run       r-7, triggered by staging_backlog
Did       written 1, merged 2
Model     claude-opus-5-5: 1 call, 12,400 tokens in (11,000 from the cache), 90
          out, $0.1100

Where the time went:
memory.run memory_consolidati… ██████████████████████████████████████ 1 min 01 s
  invoke_agent memory_consoli… █████████████████████████████████████     59.99 s
    chat claude-opus-5-5       █████████████████████████████████████     58.98 s

Trace     000000014bf92f3577b34da6a3ce929d"""


def crashed(left: Left) -> Made:
    """The spans up to the gate were stored, the rest is in the log; then the process was killed."""
    made = refetched()
    made.spans = made.spans[:4]
    left.runs = False
    left.traces(made, unended=True)
    left.row(made, state="answering", user_profile={"display_name": "Mika"})
    of, where = {"trace_id": made.id, "route": "main"}, {"team": TEAM, "channel": CHANNEL, "thread_ts": THREAD_TS}
    left.line(520, "session_started", session_key="main", session_id=SESSION, how="resume", account="work", seconds=0.32, **of)
    left.line(1_010, "thread_refetched", outcome="complete", pages=1, messages=30, seconds=0.48, **where, **of)
    left.line(1_022, "thread_injected", injection="full", messages=28, omitted=2, chars=15_800, **where, **of)
    left.line(4_000, "error", level="warn", error="overloaded", **of)
    return made


def test_a_reply_that_read_its_thread_again(left: Left) -> None:
    left.traces(refetched())
    left.row(refetched(), state="answering", outcome=Outcome.ANSWERED)

    assert left.page(TS, links={"viewer": "http://localhost:3000/explore?trace=1"}) == REFETCHED


def test_a_known_one_on_a_terminal_that_knows_ascii_alone(left: Left) -> None:
    left.traces(known())

    assert left.page(TS, ascii_only=True) == KNOWN_IN_ASCII


def test_a_failed_one_whose_session_was_reset_on_the_way_and_since(left: Left) -> None:
    left.traces(failed(), reset(2, "hibernate", began=BEGAN + 60_000 * MS))

    assert left.page(TS) == FAILED


def test_one_after_a_crash(left: Left) -> None:
    crashed(left)

    assert left.page(TS) == CRASHED


def test_one_that_was_dropped_at_the_door(left: Left) -> None:
    left.line(0, "message_dropped", channel=CHANNEL, message_ts=TS, outcome="dropped", reason="not_addressed")
    left.line(5, "message_dropped", channel=CHANNEL, message_ts=TS, outcome="dropped", reason="duplicate")

    assert left.page(TS) == NOT_ADDRESSED


def test_one_that_was_accepted_and_dropped(left: Left) -> None:
    left.row(known(), outcome=Outcome.DROPPED, reason="not_allowed")

    assert left.page(TS) == NOT_ALLOWED


def test_one_that_waits(left: Left) -> None:
    left.row(known(1), ts="1.1", state="answering")
    left.row(known(2))

    assert left.page(TS) == WAITING


def test_a_memory_run(left: Left) -> None:
    left.traces(run())

    assert left.page(run().id) == RUN


@pytest.mark.parametrize("columns", [60, 80, 100, 110])
@pytest.mark.parametrize("make", [refetched, known, failed, run])
def test_no_line_is_wider_than_the_terminal(left: Left, columns: int, make: type[Made]) -> None:
    made = make(1)
    left.traces(made)

    assert max(map(width, left.page(made.id, width=columns).splitlines())) <= columns


def test_ascii_means_ascii(left: Left) -> None:
    left.traces(failed())

    assert left.page(TS, ascii_only=True).isascii()


def test_a_reply_of_many_parts_still_fits_a_page(left: Left) -> None:
    made = Made(1)
    top = root(made, 1_000, REPLY_OUTCOME="answered")
    for n in range(100):
        made.span("execute_tool Read", n, n + 1, under=top)
    left.traces(made)

    page = left.page(TS)

    assert page.count("execute_tool Read") == MOST_ROWS - 1
    assert "and 61 more: --json shows them all" in page


def test_the_attempts_at_a_message_point_at_each_other(left: Left) -> None:
    again = Made(2, BEGAN + MS)
    root(again, 900, links=[known(1).id], REPLY_ATTEMPT=2, REPLY_OUTCOME="answered")
    left.traces(known(1), unended=True)
    left.traces(again)

    assert f"this is attempt 2 at the message; the one before it:\n          {known(1).id}" in left.page(TS)
    assert f"the one after it:\n          {again.id}" in left.page(known(1).id)
    assert left.page(known(1).id).startswith("Interrupted: the bot's process ended before it was done · ")


def test_a_message_that_had_only_waited_has_no_attempt_before_it(left: Left) -> None:
    again = Made(2, BEGAN + MS)
    root(again, 900, links=[known(1).id], REPLY_OUTCOME="answered")
    left.traces(again)

    page = left.page(TS)

    assert f"it had waited before, until the bot was stopped:\n          {known(1).id}" in page
    assert "attempt 1" not in page and "the one before" not in page


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (History(incomplete=True), "the thread could not be read from Slack"),
        (History(), "nothing read from Slack"),
        (History(read=1, incomplete=True), "1 message read from Slack, which is not all of the thread"),
    ],
)
def test_how_much_was_read_is_said_without_contradicting_itself(history: History, words: str) -> None:
    told = shown(Explanation(trace_id="1" * 32, gate=Gate(decision="refetch_failed"), history=history))

    assert f"History   {words}\n" in told


@pytest.mark.parametrize(("account", "is_billed"), [("embedded", False), ("work", True)])
def test_what_a_stand_in_costs_is_billed_to_nobody(account: str, is_billed: bool) -> None:
    call = ModelCall(model="m", input_tokens=1, output_tokens=1, cost_usd=0.1 + 0.2)
    told = Explanation(trace_id="1" * 32, session=Session(account=account), model=(call,))

    assert ("$0.3000 (embedded model: nothing is billed)" in " ".join(shown(told).split())) is not is_billed
    assert as_json(told, ref="x", links={})["model"][0]["cost_usd"] == 0.3
    assert EMBEDDED_ACCOUNT == bot.assembly.EMBEDDED_ACCOUNT


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0.2, "0 ms"), (999, "999 ms"), (1_000, "1.00 s"), (59_990, "59.99 s"), (59_999, "1 min 00 s"), (3_600_000, "1 h 00 min")],
)
def test_durations_are_told_as_people_read_them(ms: float, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "just now"), (-5, "just now"), (59, "59 seconds ago"), (60, "1 minute ago"), (7_300, "2 hours ago"), (200_000, "2 days ago")],
)
def test_how_long_ago_is_told_roughly(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_a_word_of_a_later_version_is_shown_as_it_is() -> None:
    page = shown(Explanation(trace_id="", outcome="failed", reason="novel", gate=Gate(decision="guessed", reason="hunch")))

    assert "No answer, because novel (novel)" in page
    assert "guessed, because hunch (guessed, hunch)" in page
