"""The closed vocabulary of facts: what the bot says happened, as plain data.

Nothing here knows a span, a metric or a file; `telemetry.otel` gives every fact its sinks, and a fact that has none
there is a type error. Ids (thread, message, session) may stand in a fact; which of them reach a metric label is decided
by the sink, never here. No message text is ever a field of a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from telemetry.account_events import AccountFact
from telemetry.memory_events import MemoryFact
from telemetry.slack_events import DeliveryGap as DeliveryGap
from telemetry.slack_events import GapReason as GapReason
from telemetry.slack_events import SlackCalled as SlackCalled
from telemetry.slack_events import SlackConnection as SlackConnection
from telemetry.slack_events import SlackEventSeen as SlackEventSeen
from telemetry.slack_events import SlackFact
from telemetry.slack_events import SlackOutcome as SlackOutcome
from telemetry.slack_events import SlackReconnected as SlackReconnected
from telemetry.state_events import BudgetSpent as BudgetSpent
from telemetry.state_events import StateFact
from telemetry.state_events import StateTrouble as StateTrouble
from telemetry.state_events import StateTroubled as StateTroubled


@dataclass(frozen=True, slots=True, order=True)
class Thread:
    """One Slack thread. `ts` (of the root) is unique within its channel only, so all three belong to the identity."""

    team: str
    channel: str
    ts: str

    def __str__(self) -> str:
        return f"{self.team}/{self.channel}/{self.ts}"


@dataclass(frozen=True, slots=True)
class TraceRef:
    """Where a fact can be looked up: lower-case hex, 32 and 16 digits."""

    trace_id: str
    span_id: str


class Decision(StrEnum):
    """What the gate says of the thread of one message; exactly one per answered message."""

    KNOWN = "known"
    NEW = "new"
    REFETCHED = "refetched"
    REFETCH_FAILED = "refetch_failed"


class Reason(StrEnum):
    """Why the gate decided so."""

    HELD = "held"
    HELD_DELTA = "held_delta"
    FIRST_MESSAGE = "first_message"
    NO_SESSION = "no_session"
    NOT_KNOWN = "not_known"
    AFTER_ROTATE = "after_rotate"
    AFTER_COMPACTION = "after_compaction"
    AFTER_RESUME = "after_resume"
    AFTER_ACCOUNT_SWITCH = "after_account_switch"
    AFTER_RESTART = "after_restart"
    DELIVERY_GAP = "delivery_gap"
    MANUAL = "manual"
    RATE_LIMITED = "rate_limited"
    MISSING_SCOPE = "missing_scope"
    NOT_IN_CHANNEL = "not_in_channel"
    THREAD_GONE = "thread_gone"
    SLACK_ERROR = "slack_error"
    TIMEOUT = "timeout"


class Injection(StrEnum):
    """How thread text went into a prompt."""

    FULL = "full"
    DELTA = "delta"
    CATCH_UP = "catch_up"


class ResetCause(StrEnum):
    """Why the known-thread set was emptied."""

    ROTATE_TOKENS = "rotate_tokens"
    ROTATE_MANUAL = "rotate_manual"
    COMPACTION_AUTO = "compaction_auto"
    COMPACTION_MANUAL = "compaction_manual"
    COMPACTION_INFERRED = "compaction_inferred"
    CLEARED = "cleared"
    RESUME = "resume"
    HIBERNATE = "hibernate"
    RESUME_FAILED = "resume_failed"
    CRASH = "crash"
    RESTART = "restart"
    ACCOUNT_SWITCH = "account_switch"
    FORGET_MANUAL = "forget_manual"


REASON_AFTER: dict[ResetCause, Reason] = {
    ResetCause.ROTATE_TOKENS: Reason.AFTER_ROTATE,
    ResetCause.ROTATE_MANUAL: Reason.AFTER_ROTATE,
    ResetCause.COMPACTION_AUTO: Reason.AFTER_COMPACTION,
    ResetCause.COMPACTION_MANUAL: Reason.AFTER_COMPACTION,
    ResetCause.COMPACTION_INFERRED: Reason.AFTER_COMPACTION,
    ResetCause.CLEARED: Reason.AFTER_COMPACTION,
    ResetCause.RESUME: Reason.AFTER_RESUME,
    ResetCause.HIBERNATE: Reason.AFTER_RESUME,
    ResetCause.RESUME_FAILED: Reason.AFTER_RESTART,
    ResetCause.CRASH: Reason.AFTER_RESTART,
    ResetCause.RESTART: Reason.AFTER_RESTART,
    ResetCause.ACCOUNT_SWITCH: Reason.AFTER_ACCOUNT_SWITCH,
    ResetCause.FORGET_MANUAL: Reason.MANUAL,
}


class ResetHow(StrEnum):
    """How the session went on after a reset."""

    FRESH = "fresh"
    RESUME = "resume"
    NONE = "none"


class SessionState(StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ROTATING = "rotating"
    HIBERNATED = "hibernated"
    STOPPING = "stopping"
    FAILED = "failed"


class Outcome(StrEnum):
    """How a reply's trace closed; `DROPPED` never has a trace, only a count."""

    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DROPPED = "dropped"


class DropReason(StrEnum):
    """Why an event was acknowledged and not answered."""

    DUPLICATE = "duplicate"
    NOT_ADDRESSED = "not_addressed"
    NOT_ALLOWED = "not_allowed"
    ASKED_STOP = "asked_stop"  # to what is being answered in the thread; the model heard nothing of it
    ASKED_WHY = "asked_why"  # about the bot's last answer; whoever asked was told, the model was not
    NOT_ROUTED = "not_routed"
    OWN_MESSAGE = "own_message"
    OTHER_BOT = "other_bot"
    BOT_LOOP = "bot_loop"
    LATE_EDIT = "late_edit"
    IGNORED_EVENT = "ignored_event"
    MALFORMED = "malformed"


class FailReason(StrEnum):
    """Why a message got an error line, or nothing, instead of an answer (`insomnia.messages{outcome=failed}`)."""

    MODEL_ERROR = "model_error"
    MODEL_LIMIT = "model_limit"
    MODEL_AUTH = "model_auth"
    PROMPT_TOO_LONG = "prompt_too_long"
    EMPTY_ANSWER = "empty_answer"
    SESSION_DIED = "session_died"
    START_FAILED = "start_failed"
    DEADLINE = "deadline"
    COMPACTED_TWICE = "compacted_twice"
    THREAD_GONE = "thread_gone"
    SLACK_ERROR = "slack_error"
    BUDGET = "budget"
    STOPPED = "stopped"  # somebody asked for it; the outcome is `cancelled`
    BOT_DIED = "bot_died"  # at each attempt; it was given up
    INTERNAL = "internal"


class RefetchOutcome(StrEnum):
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecided:
    """The gate's word on one message. `known_threads` is the size of the set when it decided."""

    route: str
    thread: Thread
    decision: Decision
    reason: Reason
    epoch: int
    known_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInjected:
    """Thread text went into a prompt. `reason` is the one of the decision; `chars` is the length of the section."""

    route: str
    thread: Thread
    reason: Reason
    injection: Injection
    messages: int
    omitted: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRefetched:
    """Slack was read for one thread, waits included. `retry_after_seconds`: what Slack asked us to wait, in all."""

    route: str
    thread: Thread
    outcome: RefetchOutcome
    seconds: float
    pages: int
    messages: int
    retry_after_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgain:
    """The context was compacted before the answer was made; the thread was read in again and the model asked once more."""

    route: str
    cause: ResetCause


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReset:
    """The context was emptied or shrunk, and the known-thread set with it. `epoch` is the new one. Unknown numbers: None.

    `linked`: the session's last reply, for a reset that no reply met. `duration_seconds`: how long a compaction took.
    """

    route: str
    key: str
    session_id: str
    cause: ResetCause
    how: ResetHow
    epoch: int
    forgotten: int
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_seconds: float | None = None
    linked: TraceRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed:
    """The CLI tried to compact and could not; nothing was lost. `error` is a class of ours, never model text."""

    route: str
    key: str
    session_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """A CLI process answered its first control request."""

    route: str
    key: str
    session_id: str
    how: ResetHow
    account: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeen:
    """The gauges of one session; reported at each change. A route's gauges sum (threads) or peak (tokens) over its sessions."""

    route: str
    key: str
    state: SessionState
    known_threads: int
    context_tokens: int
    limit_tokens: int
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWaited:
    route: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDepth:
    """Messages of one lane that wait or are being answered; `key` is the session key, `depth` the new value."""

    route: str
    key: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEnded:
    """One accepted message got its end. `seconds` since it was accepted; `reason` only when it failed."""

    route: str
    thread: Thread
    message_ts: str
    outcome: Outcome
    seconds: float
    reason: FailReason | None = None
    first_token_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDropped:
    """An event was acknowledged and is not answered. `route` is "" where none was found."""

    reason: DropReason
    route: str = ""
    channel: str = ""
    message_ts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """One model call as the stream told it. `input_tokens` includes cached ones (GenAI conventions). Cost in USD."""

    route: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySpent:
    """What a turn cost, as the CLI reports it (USD)."""

    route: str
    model: str
    usd: float


Fact = (
    GateDecided
    | ThreadInjected
    | ThreadRefetched
    | AskedAgain
    | SessionReset
    | CompactionFailed
    | SessionStarted
    | SessionSeen
    | AccountFact
    | LaneWaited
    | LaneDepth
    | ReplyEnded
    | MessageDropped
    | SlackFact
    | StateFact
    | ModelCalled
    | MoneySpent
    | MemoryFact
)
