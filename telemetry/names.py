"""Every span, attribute and log event name with its unit and meaning, spelled once; metrics stand in `metric_names`.

Code, docs and dashboards take names from here and nowhere else. A name that has left the house once keeps its meaning.
GenAI and messaging names follow the OpenTelemetry conventions, in constants of our own: their module is on the move.
"""

from __future__ import annotations

from enum import StrEnum

from telemetry.events import Decision, Reason


class SpanName(StrEnum):
    """`SpanName.CHAT.meaning`. A label, where there is one, follows after a space: `chat <model>`."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> SpanName:
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member

    PROCESS = "process slack", "one accepted message, from the inbox to its end; the root of a reply's trace"
    LANE_WAIT = "lane.wait", "time in the queue of the route's session"
    SESSION = "session", "one life of a CLI process; replies link to it"
    SESSION_RESET = "session.reset", "the context was emptied or shrunk, and the known-thread set with it"
    SESSION_START = "session.start", "a CLI process is started or resumed"
    THREAD_GATE = "thread.gate", "the gate's decision on one message"
    THREAD_REFETCH = "thread.refetch", "the thread is read from Slack"
    THREAD_INJECT = "thread.inject", "thread text goes into the prompt"
    INVOKE_AGENT = "invoke_agent", "one prompt to the session; label: the route"
    CHAT = "chat", "one model call; label: the model"
    EXECUTE_TOOL = "execute_tool", "one tool use; label: the tool"
    SLACK_REPLY = "slack.reply", "the answer is posted"
    MEMORY_RUN = "memory.run", "one run of a memory worker, a root linked to the reply that triggered it; label: the worker"
    MEMORY_READ_RANGE = "memory.read_range", "a part of a session log is made into a prompt, secrets taken out"
    MEMORY_SNAPSHOT = "memory.snapshot", "a consolidation run reads the candidates that wait, and the records as they are"
    MEMORY_COMMIT = "memory.commit", "what a run made is published: candidates and the cursor, or records and the journal"
    MEMORY_ROLLBACK = "memory.rollback", "a consolidation run ends without changing anything"
    MEMORY_UNDO = "memory.undo", "what a consolidation run did is taken back, as a person asked"


class Attr(StrEnum):
    """A key on spans, log records and the resource: `Attr.X.meaning`, `Attr.X.unit` ("" where there is none)."""

    meaning: str
    unit: str

    def __new__(cls, name: str, meaning: str, unit: str = "") -> Attr:
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        member.unit = unit
        return member

    MESSAGING_SYSTEM = "messaging.system", "always `slack`"
    MESSAGING_OPERATION_NAME = "messaging.operation.name", "always `process`"
    MESSAGING_OPERATION_TYPE = "messaging.operation.type", "always `process`"
    MESSAGING_DESTINATION = "messaging.destination.name", "id of the Slack channel"
    MESSAGING_MESSAGE_ID = "messaging.message.id", "ts of the message that is answered"
    MESSAGING_CONVERSATION_ID = "messaging.message.conversation_id", "ts of the thread's root"
    GEN_AI_OPERATION = "gen_ai.operation.name", "chat, invoke_agent, execute_tool, retrieval"
    GEN_AI_PROVIDER = "gen_ai.provider.name", "always `anthropic`"
    GEN_AI_AGENT = "gen_ai.agent.name", "the route"
    GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id", "session id of the CLI"
    GEN_AI_COMPACTED = "gen_ai.conversation.compacted", "true: the context was compacted inside this turn"
    GEN_AI_REQUEST_MODEL = "gen_ai.request.model", "the model that was asked for"
    GEN_AI_RESPONSE_MODEL = "gen_ai.response.model", "the model that answered"
    GEN_AI_RESPONSE_ID = "gen_ai.response.id", "the provider's id of the answer"
    GEN_AI_FINISH_REASONS = "gen_ai.response.finish_reasons", "why the model stopped"
    GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens", "tokens of the prompt, cached ones included", "{token}"
    GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens", "tokens of the answer", "{token}"
    GEN_AI_CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens", "of the prompt: read from the cache", "{token}"
    GEN_AI_CACHE_CREATION_TOKENS = (
        "gen_ai.usage.cache_creation.input_tokens",
        "the same as cache_write, as the conventions name it",
        "{token}",
    )
    GEN_AI_CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens", "of the prompt: written to the cache", "{token}"
    GEN_AI_TOKEN_TYPE = "gen_ai.token.type", "input, output, cache_read, cache_write; the last two are part of input"
    GEN_AI_TOOL_NAME = "gen_ai.tool.name", "the tool"
    GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id", "the provider's id of the tool use"
    ERROR_TYPE = "error.type", "class of the failure: a word of ours or the name of an exception, never text"
    SERVICE_NAME = "service.name", "of the resource; OTEL_SERVICE_NAME wins"
    SERVICE_VERSION = "service.version", "of the resource"
    SLACK_MODE = "insomnia.slack.mode", "of the resource: embedded, socket, http"
    SLACK_METHOD = "insomnia.slack.method", "Web API method"
    SLACK_OUTCOME = "insomnia.slack.outcome", "ok, error, rate_limited, timeout"
    SLACK_RECONNECT_REASON = "insomnia.slack.reconnect.reason", "disconnect, closed, stale, silent"
    SLACK_CONNECTED = "insomnia.slack.connected", "true: events can arrive"
    SLACK_CONNECTIONS = "insomnia.slack.connections", "how many sockets share the events, as Slack counts"
    SLACK_GAP_REASON = "insomnia.slack.gap.reason", "socket_lost, late_delivery, events_limited, not_stored"
    SLACK_DOWN = "insomnia.slack.down_s", "how long no event could arrive", "s"
    ROUTE = "insomnia.route", "the route's configured name"
    SESSION_KEY = "insomnia.session.key", "which session of the route"
    SESSION_EPOCH = "insomnia.session.epoch", "counts the context's lives; each reset opens a new one"
    SESSION_ACCOUNT = "insomnia.session.account", "configured name of the Claude account"
    SESSION_PID = "insomnia.session.pid", "process id of the CLI"
    SESSION_HOW = "insomnia.session.how", "fresh, resume"
    SESSION_START_SECONDS = "insomnia.session.start_s", "until the process answered its first request", "s"
    ACCOUNT_STATE = "insomnia.account.state", "available, warned, limited, refused"
    ACCOUNT_REST = "insomnia.account.rest_s", "how long the account will rest", "s"
    ACCOUNT_TO = "insomnia.account.to", "the account that the session went on under"
    ACCOUNT_CAUSE = "insomnia.account.cause", "limit, auth"
    GATE_DECISION = "insomnia.gate.decision", "known, new, refetched, refetch_failed"
    GATE_REASON = "insomnia.gate.reason", "why the gate decided so"
    GATE_KNOWN_THREADS = "insomnia.gate.known_threads", "size of the known-thread set when it decided", "{thread}"
    THREAD_TEAM = "insomnia.thread.team", "Slack workspace of the thread"
    THREAD_CHANNEL = "insomnia.thread.channel", "Slack channel of the thread"
    THREAD_TS = "insomnia.thread.ts", "ts of the thread's root"
    REPLY_OUTCOME = "insomnia.reply.outcome", "answered, failed, cancelled, dropped"
    REPLY_REASON = "insomnia.reply.reason", "why it failed or was dropped"
    REPLY_ATTEMPT = "insomnia.reply.attempt", "2 and more: tried again after a crash"
    REPLY_SECONDS = "insomnia.reply.duration_s", "from accepted to ended", "s"
    LANE_POSITION = "insomnia.lane.position", "messages ahead in the queue", "{message}"
    RESET_CAUSE = "insomnia.reset.cause", "why the set was emptied"
    RESET_HOW = "insomnia.reset.how", "fresh, resume, none"
    RESET_FORGOTTEN = "insomnia.reset.forgotten", "threads that were known until then", "{thread}"
    RESET_PRE_TOKENS = "insomnia.reset.pre_tokens", "occupancy of the context before", "{token}"
    RESET_POST_TOKENS = "insomnia.reset.post_tokens", "occupancy of the context after", "{token}"
    REFETCH_OUTCOME = "insomnia.refetch.outcome", "complete, incomplete, failed"
    REFETCH_PAGES = "insomnia.refetch.pages", "pages read", "{page}"
    REFETCH_MESSAGES = "insomnia.refetch.messages", "messages read", "{message}"
    REFETCH_CHARS = "insomnia.refetch.chars", "characters read", "{char}"
    REFETCH_SECONDS = "insomnia.refetch.duration_s", "waits included", "s"
    REFETCH_RETRY_AFTER = "insomnia.refetch.retry_after_s", "what Slack asked us to wait, in all", "s"
    REFETCH_TRUNCATED = "insomnia.refetch.truncated", "true: pages are missing"
    INJECT_INJECTION = "insomnia.inject.injection", "full, delta, catch_up"
    INJECT_MESSAGES = "insomnia.inject.messages", "messages that went into the prompt", "{message}"
    INJECT_OMITTED = "insomnia.inject.omitted", "messages that the budget left out", "{message}"
    INJECT_CHARS = "insomnia.inject.chars", "length of the section", "{char}"
    MODEL_FIRST_TOKEN = "insomnia.model.time_to_first_token_s", "until the first streamed token", "s"
    COST_USD = "insomnia.cost.usd", "as the CLI reports it", "USD"
    BUDGET_LIMIT = "insomnia.budget.limit_usd", "what may be spent a day", "USD"
    BUDGET_USED = "insomnia.budget.used_usd", "what was spent today", "USD"
    STATE_TROUBLE = "insomnia.state.trouble", "not_taken, not_begun, not_ended, damaged"
    STATE_OPEN = "insomnia.state.open", "messages without an answer that were taken over from a damaged file", "{message}"
    TOOL_LATE = "insomnia.tool.late", "true: the tool ended after its turn"
    REPLY_CHUNKS = "insomnia.reply.chunks", "messages the answer was cut into", "{message}"
    REPLY_FOUND = "insomnia.reply.found", "of these: in Slack already, posted by an attempt before this one", "{message}"
    REPLY_TS = "insomnia.reply.ts", "ts of the messages that the answer became, in order"
    REPLY_METHOD = "insomnia.reply.method", "how the answer was posted"
    REPLY_MISPLACED = "insomnia.reply.misplaced", "true: Slack put the answer outside of its thread"
    REPLY_FALLBACK = "insomnia.reply.fallback", "true: posted in a plainer way than meant"
    MEMORY_RUN_ID = "insomnia.memory.run_id", "which run of a memory worker"
    MEMORY_WORKER = "insomnia.memory.worker", "memory_extract, memory_consolidation"
    MEMORY_TRIGGER = "insomnia.memory.trigger", "what asked for the run"
    MEMORY_STATUS = "insomnia.memory.status", "completed, skipped, failed, cancelled; a run whose span ended without it was cancelled"
    MEMORY_REASON = "insomnia.memory.reason", "why the run ended so"
    MEMORY_LIMIT = "insomnia.memory.limit_s", "a run that takes longer is given up", "s"
    MEMORY_DETAIL = "insomnia.memory.detail", "more of why a run ended so, in words and numbers of ours"
    MEMORY_RECOVERED = "insomnia.memory.recovered", "true: the end of a run whose process had died, told by a later one"
    MEMORY_SESSION = "insomnia.memory.session", "id of the session whose log an extract run read"
    MEMORY_FIRST = "insomnia.memory.range.first", "first entry of the session log that an extract run read"
    MEMORY_LAST = "insomnia.memory.range.last", "last entry of the session log that an extract run read"
    MEMORY_ENTRIES = "insomnia.memory.entries", "entries that an extract run showed to the model", "{entry}"
    MEMORY_UNDOES = "insomnia.memory.undoes", "the run that is taken back"
    MEMORY_STAGED = "insomnia.memory.staged", "candidates that an extract run staged", "{candidate}"
    MEMORY_WRITTEN = "insomnia.memory.ops.write", "records created", "{record}"
    MEMORY_EDITED = "insomnia.memory.ops.edit", "records changed", "{record}"
    MEMORY_TRIMMED = "insomnia.memory.ops.trim", "records only shortened", "{record}"
    MEMORY_MERGED = "insomnia.memory.ops.merge", "merges", "{merge}"
    MEMORY_DROPPED = "insomnia.memory.ops.drop", "records removed without successor", "{record}"
    MEMORY_DELETED = "insomnia.memory.ops.delete", "files removed by anything", "{file}"
    MEMORY_SCOPE = "insomnia.memory.scope", "whose candidates a consolidation run took: workspace, channel:ID, user:ID"
    MEMORY_CANDIDATES = "insomnia.memory.candidates", "candidates that a consolidation run was given", "{candidate}"
    MEMORY_INVALID = "insomnia.memory.invalid", "staged files that were no candidates and were put aside", "{file}"
    MEMORY_CONSUMED = "insomnia.memory.consumed", "candidates that a consolidation run settled for good", "{candidate}"
    MEMORY_ADOPTED = "insomnia.memory.dispositions.applied", "candidates that went into a record", "{candidate}"
    MEMORY_DUPLICATE = "insomnia.memory.dispositions.duplicate", "candidates that said what another one says", "{candidate}"
    MEMORY_COVERED = "insomnia.memory.dispositions.already_covered", "candidates that said what a record says", "{candidate}"
    MEMORY_DISCARDED = "insomnia.memory.dispositions.discarded", "candidates that were not worth keeping", "{candidate}"
    MEMORY_DEFERRED = "insomnia.memory.dispositions.deferred", "candidates that wait for a later run", "{candidate}"
    MEMORY_RECORDS_LOST = "insomnia.memory.lost.records", "records that left without a successor", "{record}"
    MEMORY_SPECIFICS_LOST = "insomnia.memory.lost.specifics", "names, numbers and dates that stand in no record any more", "{specific}"
    MEMORY_CANDIDATE = "insomnia.memory.candidate", "which staged candidate a tool settled"
    MEMORY_DISPOSITION = "insomnia.memory.disposition", "applied, duplicate, already_covered, discarded, deferred"
    MEMORY_OP = "insomnia.memory.op", "what a memory tool was to do: read, query, write, edit, trim, merge, drop"
    MEMORY_OP_STATUS = "insomnia.memory.op.status", "how that ended: found, not_found, planned, applied, rejected, failed"
    MEMORY_BEFORE = "insomnia.memory.before_sha256", "hash of the record's file as it was"
    MEMORY_AFTER = "insomnia.memory.after_sha256", "hash of the record's file as it is to be"
    MEMORY_LINT = "insomnia.memory.lint", "ids of the rules that refused it, or warned"
    MEMORY_KIND = "insomnia.memory.kind", "kind of record; none: all kinds"
    MEMORY_SLUG = "insomnia.memory.slug", "name of the record"
    MEMORY_RESULTS = "insomnia.memory.results", "records found", "{record}"


class Stream(StrEnum):
    """Where a log record is written on this machine: one file a day each."""

    BOT = "bot"
    MEMORY = "memory"


class Event(StrEnum):
    """`event_name` of a log record: what an operator may look up. Values never stand in a name."""

    meaning: str
    stream: Stream

    def __new__(cls, name: str, meaning: str, stream: Stream = Stream.BOT) -> Event:
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        member.stream = stream
        return member

    GATE_DECISION = "gate_decision", "the gate decided on a message"
    THREAD_REFETCHED = "thread_refetched", "a thread was read from Slack"
    THREAD_INJECTED = "thread_injected", "thread text went into a prompt"
    ASKED_AGAIN = "asked_again", "the context was compacted before the answer; the model was asked once more"
    SESSION_STARTED = "session_started", "a CLI process is up"
    SESSION_RESET = "session_reset", "the context was emptied or shrunk"
    COMPACTION_FAILED = "compaction_failed", "the CLI could not compact; nothing was lost"
    ACCOUNT_STATE = "account_state", "an account of Claude may be asked, is near its limit, or rests"
    ACCOUNT_SWITCHED = "account_switched", "a session went on under another account"
    REPLY = "reply", "an accepted message got its end"
    MESSAGE_DROPPED = "message_dropped", "an event was acknowledged and is not answered"
    SLACK_CONNECTION = "slack_connection", "events of Slack can arrive, or cannot any more"
    SLACK_RECONNECTED = "slack_reconnected", "the socket is up again"
    DELIVERY_GAP = "delivery_gap", "events of Slack may have been missed; threads that are held are read again"
    BUDGET_SPENT = "budget_spent", "what may be spent a day was spent; the route answers again tomorrow"
    STATE_TROUBLE = "state_trouble", "state.db could not be written, or was damaged and put aside"
    ERROR = "error", "a call to Slack or to the model failed"
    LOG_GAP = "log_gap", "lines could not be written and are lost; this one tells how many (in the stream that lost them)"
    LOG_REPAIRED = "log_repaired", "a line that had broken off was closed; the lines after it are whole (in the stream it stands in)"
    WORKER_LIFECYCLE = "worker_lifecycle", "a memory run started or ended", Stream.MEMORY
    RECORD_OPERATION = "record_operation", "a record was written, changed, removed, or was not allowed to be", Stream.MEMORY
    STORE_COMMIT = "store_commit", "the changes of a memory run were applied", Stream.MEMORY
    STORE_DISCARD = "store_discard", "the changes of a memory run were not applied", Stream.MEMORY
    RECORD_USAGE = "record_usage", "records were read or searched", Stream.MEMORY


# Beside the decision, one more count with the same reason when thread text went into the prompt; the two are never added up.
INJECTED = "injected"

_REFETCHED = (
    Reason.NO_SESSION,
    Reason.NOT_KNOWN,
    Reason.AFTER_ROTATE,
    Reason.AFTER_COMPACTION,
    Reason.AFTER_RESUME,
    Reason.AFTER_ACCOUNT_SWITCH,
    Reason.AFTER_RESTART,
    Reason.DELIVERY_GAP,
    Reason.MANUAL,
)
_REFETCH_FAILED = (
    Reason.RATE_LIMITED,
    Reason.MISSING_SCOPE,
    Reason.NOT_IN_CHANNEL,
    Reason.THREAD_GONE,
    Reason.SLACK_ERROR,
    Reason.TIMEOUT,
)

# The table of what the gate may say. After a failed read, what was read before is injected again: hence both lists.
DECISION_REASONS: dict[str, tuple[Reason, ...]] = {
    Decision.KNOWN: (Reason.HELD, Reason.HELD_DELTA),
    Decision.NEW: (Reason.FIRST_MESSAGE,),
    Decision.REFETCHED: _REFETCHED,
    Decision.REFETCH_FAILED: _REFETCH_FAILED,
    INJECTED: (Reason.HELD_DELTA, *_REFETCHED, *_REFETCH_FAILED),
}
