"""One of each fact."""

from __future__ import annotations

from telemetry import account_events, events
from telemetry.events import Fact, Thread
from tests.telemetry import memory_facts

THREAD = Thread("T1", "C1", "1700000000.000100")

GATE = events.GateDecided(
    route="main", thread=THREAD, decision=events.Decision.REFETCHED, reason=events.Reason.AFTER_ROTATE, epoch=3, known_threads=7
)
INJECTED = events.ThreadInjected(
    route="main", thread=THREAD, reason=events.Reason.AFTER_ROTATE, injection=events.Injection.FULL, messages=12, omitted=2, chars=4_321
)
REFETCHED = events.ThreadRefetched(
    route="main", thread=THREAD, outcome=events.RefetchOutcome.INCOMPLETE, seconds=1.5, pages=2, messages=30, retry_after_seconds=1.0
)
RESET = events.SessionReset(
    route="main",
    key="main",
    session_id="5e55",
    cause=events.ResetCause.COMPACTION_AUTO,
    how=events.ResetHow.RESUME,
    epoch=4,
    forgotten=7,
    pre_tokens=190_000,
    post_tokens=20_000,
    duration_seconds=12.0,
)
REPLY = events.ReplyEnded(
    route="main", thread=THREAD, message_ts="1700000009.000100", outcome=events.Outcome.ANSWERED, seconds=3.0, first_token_seconds=1.0
)
MODEL = events.ModelCalled(
    route="main", model="claude-x", input_tokens=900, output_tokens=90, cache_read_tokens=800, cache_write_tokens=0, seconds=2.0
)
SEEN = events.SessionSeen(
    route="main", key="main", state=events.SessionState.IDLE, known_threads=7, context_tokens=50_000, limit_tokens=150_000
)
LIMITED = account_events.AccountSeen(account="work", state=account_events.AccountState.LIMITED, rest_seconds=3_600.0)

BOT: tuple[Fact, ...] = (
    GATE,
    INJECTED,
    REFETCHED,
    events.AskedAgain(route="main", cause=events.ResetCause.COMPACTION_AUTO),
    RESET,
    events.CompactionFailed(route="main", key="main", session_id="5e55", error="compaction_failed"),
    events.SessionStarted(route="main", key="main", session_id="5e55", how=events.ResetHow.FRESH, account="work", seconds=0.4),
    SEEN,
    LIMITED,
    account_events.AccountSwitched(
        route="main", key="main", session_id="5e55", account="work", to="spare", cause=account_events.SwitchCause.LIMIT
    ),
    events.LaneWaited(route="main", seconds=0.2),
    events.LaneDepth(route="main", key="main", depth=2),
    REPLY,
    events.MessageDropped(reason=events.DropReason.NOT_ROUTED, channel="C9", message_ts="1700000010.000100"),
    events.SlackCalled(method="chat.postMessage", outcome=events.SlackOutcome.RATE_LIMITED, seconds=0.1),
    events.SlackConnection(up=True),
    events.SlackReconnected(reason="stale", down_seconds=40.0),
    events.DeliveryGap(reason=events.GapReason.LATE_DELIVERY),
    events.StateTroubled(trouble=events.StateTrouble.DAMAGED, error="damaged", open_messages=2),
    events.BudgetSpent(route="main", usd=5.25, limit_usd=5.0),
    events.SlackEventSeen(),
    MODEL,
    events.MoneySpent(route="main", model="claude-x", usd=0.02),
)
ALL: tuple[Fact, ...] = (*BOT, *memory_facts.ALL)
