"""Every metric: name, kind, unit, meaning, labels with their closed value sets, buckets.

What must stay true: no id is ever a label. Names hold neither unit nor `total`, and no unit is `1`, so that they come
out alike over OTLP and Prometheus.
"""

from __future__ import annotations

from telemetry.account_events import AccountState, SwitchCause
from telemetry.events import (
    DropReason,
    FailReason,
    GapReason,
    Injection,
    Outcome,
    Reason,
    RefetchOutcome,
    ResetCause,
    ResetHow,
    SessionState,
    SlackOutcome,
    StateTrouble,
)
from telemetry.memory_events import (
    Disposition,
    MemoryReason,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    OperationStatus,
    RecordKind,
    RecordOp,
    UsageOp,
    UsageStatus,
)
from telemetry.metric_kinds import OTHER, Kind, Label, Metric, Source
from telemetry.names import DECISION_REASONS, Attr, Stream

NONE = "none"
MAX_RULES = 128  # of the linter; each has an id of its own

# From a cached lookup to the longest turn a route may take (600 s) and what waits behind it.
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
CHARS = (100.0, 250.0, 500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0, 16_000.0, 32_000.0, 64_000.0)
# Both as the GenAI conventions give them; the durations go on doubling up to the longest turn.
GEN_AI_SECONDS = tuple(0.01 * 2**n for n in range(17))
GEN_AI_TOKENS = tuple(float(4**n) for n in range(14))

# The Web API methods that the bot calls; any other is counted as `other`.
SLACK_METHODS = (
    "agents.sessions.setStatus",
    "apps.connections.open",
    "assistant.threads.setStatus",
    "auth.test",
    "bots.info",
    "chat.delete",
    "chat.getPermalink",
    "chat.postEphemeral",
    "chat.postMessage",
    "chat.update",
    "conversations.history",
    "conversations.info",
    "conversations.list",
    "conversations.open",
    "conversations.replies",
    "reactions.add",
    "reactions.remove",
    "users.conversations",
    "users.info",
)
TOKEN_TYPES = ("input", "output", "cache_read", "cache_write")
LOST_SIGNALS = ("traces", "logs")
LOST_OF_MEMORY = ("records", "specifics")
RECONNECT_REASONS = ("disconnect", "closed", "stale", "silent")

ROUTE = Label(key="route", source=Source.ROUTES, fallback=NONE)
REASON = Label(key="reason", values=tuple(Reason))
CAUSE = Label(key="cause", values=tuple(ResetCause))
ACCOUNT = Label(key="account", source=Source.ACCOUNTS)
METHOD = Label(key="method", values=SLACK_METHODS)
OUTCOME = Label(key="outcome", values=(Outcome.ANSWERED, Outcome.FAILED, Outcome.CANCELLED))
MODEL = Label(key=Attr.GEN_AI_REQUEST_MODEL.value, source=Source.FIRST_SEEN)
_GEN_AI = (
    Label(key=Attr.GEN_AI_OPERATION.value, values=("chat",)),
    Label(key=Attr.GEN_AI_PROVIDER.value, values=("anthropic",)),
    MODEL,
    Label(key=Attr.ROUTE.value, source=Source.ROUTES, fallback=NONE),
)


def _counter(name: str, unit: str, description: str, *labels: Label) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, unit=unit, description=description, labels=labels)


def _gauge(name: str, unit: str, description: str, *labels: Label) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, unit=unit, description=description, labels=labels)


def _seconds(name: str, description: str, *labels: Label) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, unit="s", description=description, labels=labels, buckets=SECONDS)


def _audit(name: str, description: str) -> Metric:
    stream = Label(key="stream", values=tuple(Stream))
    return Metric(name=name, kind=Kind.COUNTER, unit="{line}", description=description, labels=(stream,), observed=True)


GATE_DECISIONS = _counter(
    "insomnia.gate.decisions",
    "{decision}",
    "What the gate said, once per answered message; `injected` counts beside it when thread text went into the prompt.",
    ROUTE,
    Label(key="decision", values=tuple(DECISION_REASONS)),
    REASON,
)
GATE_INJECTED_CHARS = Metric(
    name="insomnia.gate.injected_chars",
    kind=Kind.HISTOGRAM,
    unit="{char}",
    description="Length of the thread section of a prompt.",
    labels=(ROUTE, Label(key="injection", values=tuple(Injection))),
    buckets=CHARS,
)
GATE_ASKED_AGAIN = _counter(
    "insomnia.gate.asked_again", "{message}", "The context was compacted before the answer; the model was asked once more.", ROUTE, CAUSE
)
GATE_REFETCH_DURATION = _seconds(
    "insomnia.gate.refetch.duration",
    "Reading a thread from Slack, waits included.",
    ROUTE,
    Label(key="outcome", values=tuple(RefetchOutcome)),
)
SESSION_RESETS = _counter("insomnia.session.resets", "{reset}", "The context was emptied or shrunk.", ROUTE, CAUSE)
SESSION_FORGOTTEN = _counter("insomnia.session.forgotten_threads", "{thread}", "Known threads that a reset made unknown.", ROUTE, CAUSE)
SESSION_KNOWN_THREADS = _gauge(
    "insomnia.session.known_threads", "{thread}", "Threads held in context, over all sessions of the route.", ROUTE
)
SESSION_CONTEXT_TOKENS = _gauge("insomnia.session.context_tokens", "{token}", "Occupancy of the fullest context of the route.", ROUTE)
SESSION_LIMIT_TOKENS = _gauge("insomnia.session.context_limit_tokens", "{token}", "Where the bot rotates; the largest of the route.", ROUTE)
SESSION_STATE = _gauge(
    "insomnia.session.state",
    "{session}",
    "Sessions in each state; one series a state.",
    ROUTE,
    Label(key="state", values=tuple(SessionState)),
)
SESSION_START_DURATION = _seconds(
    "insomnia.session.start.duration",
    "Until a CLI process answered its first request.",
    ROUTE,
    Label(key="how", values=(ResetHow.FRESH, ResetHow.RESUME)),
)
ACCOUNT_STATE = _gauge(
    "insomnia.account.state",
    "{account}",
    "1 for the state that the account is in; one series a state. `limited` and `refused` rest.",
    ACCOUNT,
    Label(key="state", values=tuple(AccountState)),
)
ACCOUNT_SWITCHES = _counter(
    "insomnia.account.switches",
    "{switch}",
    "Sessions that left this account for another, because it ran into its limit or was refused.",
    ACCOUNT,
    Label(key="cause", values=tuple(SwitchCause)),
)
REPLY_DURATION = _seconds("insomnia.reply.duration", "From accepted to ended.", ROUTE, OUTCOME)
REPLY_FIRST_TOKEN = _seconds("insomnia.reply.time_to_first_token", "From accepted to the first token of the answer.", ROUTE, OUTCOME)
LANE_WAIT_DURATION = _seconds("insomnia.lane.wait.duration", "Time in the queue of the route's session.", ROUTE)
LANE_DEPTH = _gauge("insomnia.lane.depth", "{message}", "Messages that wait or are being answered.", ROUTE)
MESSAGES = _counter(
    "insomnia.messages",
    "{message}",
    "What became of each event of Slack; `reason` says why it failed or was dropped.",
    ROUTE,
    Label(key="outcome", values=tuple(Outcome)),
    Label(key="reason", values=(NONE, *dict.fromkeys((*FailReason, *DropReason))), fallback=OTHER),
)
SLACK_CALLS = _counter("insomnia.slack.calls", "{call}", "Web API calls.", METHOD, Label(key="outcome", values=tuple(SlackOutcome)))
SLACK_CALL_DURATION = _seconds("insomnia.slack.call.duration", "One Web API call.", METHOD)
SLACK_RATE_LIMITED = _counter("insomnia.slack.rate_limited", "{call}", "Web API calls that Slack put off.", METHOD)
SLACK_RECONNECTS = _counter(
    "insomnia.slack.reconnects", "{reconnect}", "The socket came up again.", Label(key="reason", values=RECONNECT_REASONS)
)
SLACK_GAPS = _counter("insomnia.slack.gaps", "{gap}", "Signs that events were missed.", Label(key="reason", values=tuple(GapReason)))
SLACK_LAST_EVENT_AGE = _gauge("insomnia.slack.last_event_age", "s", "Since Slack sent anything; since the start if it has not yet.")
TOKEN_USAGE = Metric(
    name="gen_ai.client.token.usage",
    kind=Kind.HISTOGRAM,
    unit="{token}",
    description="Tokens of a model call. `input` includes cached ones; `cache_read` and `cache_write` are parts of it.",
    labels=(*_GEN_AI, Label(key=Attr.GEN_AI_TOKEN_TYPE.value, values=TOKEN_TYPES)),
    buckets=GEN_AI_TOKENS,
)
OPERATION_DURATION = Metric(
    name="gen_ai.client.operation.duration",
    kind=Kind.HISTOGRAM,
    unit="s",
    description="One model call.",
    labels=(*_GEN_AI, Label(key=Attr.ERROR_TYPE.value, source=Source.FIRST_SEEN, optional=True)),
    buckets=GEN_AI_SECONDS,
)
COST = _counter("insomnia.cost", "USD", "What turns cost, as the CLI reports it.", ROUTE, MODEL)
BUDGETS_SPENT = _counter("insomnia.budget.spent", "{budget}", "Daily budgets that were spent; `none`: that of everything together.", ROUTE)
STATE_TROUBLES = _counter(
    "insomnia.state.troubles", "{trouble}", "What could not be done with state.db.", Label(key="trouble", values=tuple(StateTrouble))
)
_RUN = (
    Label(key="worker", values=tuple(MemoryWorker)),
    Label(key="trigger", values=tuple(MemoryTrigger)),
    Label(key="status", values=tuple(status for status in MemoryStatus if status is not MemoryStatus.STARTED)),
    Label(key="reason", values=tuple(MemoryReason)),
)
KIND = Label(key="kind", values=(*RecordKind, NONE))
MEMORY_RUNS = _counter(
    "insomnia.memory.runs", "{run}", "Runs of the memory workers, each once, at its end; checks that did not fire too.", *_RUN
)
MEMORY_RUN_DURATION = _seconds("insomnia.memory.run.duration", "One run of a memory worker.", *_RUN)
MEMORY_OPERATIONS = _counter(
    "insomnia.memory.operations",
    "{operation}",
    "What the tools did to records, or refused to; a run's changes count when it commits.",
    KIND,
    Label(key="op", values=tuple(RecordOp)),
    Label(key="status", values=(OperationStatus.APPLIED, OperationStatus.REJECTED)),
)
MEMORY_DISPOSITIONS = _counter(
    "insomnia.memory.dispositions",
    "{candidate}",
    "What became of staged candidates in runs that completed.",
    Label(key="disposition", values=tuple(Disposition)),
)
MEMORY_LOST = _counter(
    "insomnia.memory.lost",
    "{item}",
    "What runs that completed took away: records without a successor; names, numbers and dates that stand in none any more.",
    Label(key="what", values=LOST_OF_MEMORY),
)
MEMORY_LINT_FAILURES = _counter(
    "insomnia.memory.lint_failures",
    "{failure}",
    "Rules that refused an operation.",
    Label(key="rule", source=Source.FIRST_SEEN, most=MAX_RULES),
)
MEMORY_UNAUDITED = _counter("insomnia.memory.unaudited_changes", "{change}", "Records that were changed outside of the tools.", KIND)
MEMORY_USAGE = _counter(
    "insomnia.memory.usage",
    "{call}",
    "Explicit reads and queries; `kind` is none where all kinds were searched.",
    Label(key="op", values=tuple(UsageOp)),
    KIND,
    Label(key="status", values=tuple(UsageStatus)),
)
MEMORY_BACKLOG = _gauge(
    "insomnia.memory.backlog", "{candidate}", "Staged candidates that wait. This gauge and the next four begin with the first count."
)
MEMORY_BACKLOG_AGE = _gauge("insomnia.memory.backlog.age", "s", "How long the first of them has waited; 0 where none waits.")
MEMORY_RECORDS = _gauge("insomnia.memory.records", "{record}", "Records that there are.", Label(key="kind", values=tuple(RecordKind)))
MEMORY_LAST_SUCCESS_AGE = _gauge(
    "insomnia.memory.last_success_age",
    "s",
    "Since a run of the worker last succeeded; no series until one has.",
    Label(key="worker", values=tuple(MemoryWorker)),
)
MEMORY_UNEXTRACTED = _gauge("insomnia.memory.unextracted_entries", "{entry}", "Entries of session logs that were not read yet.")
MEMORY_GAUGES = (MEMORY_BACKLOG, MEMORY_BACKLOG_AGE, MEMORY_RECORDS, MEMORY_LAST_SUCCESS_AGE, MEMORY_UNEXTRACTED)
AUDIT_LINES = _audit("insomnia.audit.lines", "Lines written to the log files of this machine.")
AUDIT_DROPPED = _audit("insomnia.audit.dropped", "Lines that could not be written to them; a `log_gap` line follows once they can.")
AUDIT_REPAIRED = _audit("insomnia.audit.repaired", "Lines found broken off in them, and closed.")
AUDIT = (AUDIT_LINES, AUDIT_DROPPED, AUDIT_REPAIRED)
SINK_FAILURES = _counter("insomnia.telemetry.failures", "{failure}", "Facts and spans that telemetry itself could not record.")
EXPORT_LOST = _counter(
    "insomnia.telemetry.lost",
    "{item}",
    "Spans and log records that a collector did not take. What a full queue drops: `otel.sdk.processor.*.processed`.",
    Label(key="signal", values=LOST_SIGNALS),
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
