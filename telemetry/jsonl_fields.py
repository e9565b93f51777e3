"""From an attribute to the short name it has in a line: the one table, from which the reference is generated too.

What must stay true: no two attributes that stand on one record share a name, and a name once given keeps its meaning. An
attribute that is not in the table is written under its full name rather than lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from opentelemetry._logs import LogRecord
from opentelemetry.trace import format_span_id, format_trace_id

from telemetry.jsonl_days import timestamp
from telemetry.names import Attr, Event, Stream

# What stands in a line whatever it tells of; `route`, `run_id` and the trace's ids only where there are any.
COMMON: Mapping[str, str] = MappingProxyType(
    {
        "ts": "when, RFC 3339 in UTC, to the millisecond",
        "event": "what kind of line this is",
        "level": "debug, info, warn, error",
        "summary": "the same in words",
        "route": "the route's configured name",
        "run_id": "the memory run that it is of",
        "trace_id": "the trace it belongs to, 32 hex digits",
        "span_id": "the span within the trace, 16 hex digits",
        "trace_flags": "2 hex digits; the last bit: sampled",
        "pid": "the process that wrote the line",
        "seq": "counts that process's lines in this stream from 1; a number that is missing was a line that was lost",
        "v": "version of this format",
        "shortened": "true where a text or a list was cut to keep the line within 32 KiB",
        "left_out": "how many fields were left out, where cutting was not enough",
    }
)

# Of the bot's records. Those of memory carry the names of their line already (`otel_memory`).
FIELDS: Mapping[Attr, str] = MappingProxyType(
    {
        Attr.ROUTE: "route",
        Attr.SESSION_KEY: "session_key",
        Attr.GEN_AI_CONVERSATION_ID: "session_id",
        Attr.SESSION_EPOCH: "epoch",
        Attr.SESSION_ACCOUNT: "account",
        Attr.ACCOUNT_STATE: "state",
        Attr.ACCOUNT_REST: "rest_seconds",
        Attr.ACCOUNT_TO: "to",
        Attr.ACCOUNT_CAUSE: "cause",
        Attr.SESSION_HOW: "how",
        Attr.SESSION_START_SECONDS: "seconds",
        Attr.THREAD_TEAM: "team",
        Attr.THREAD_CHANNEL: "channel",
        Attr.THREAD_TS: "thread_ts",
        Attr.MESSAGING_DESTINATION: "channel",
        Attr.MESSAGING_CONVERSATION_ID: "thread_ts",
        Attr.MESSAGING_MESSAGE_ID: "message_ts",
        Attr.GATE_DECISION: "decision",
        Attr.GATE_REASON: "reason",
        Attr.GATE_KNOWN_THREADS: "known_threads",
        Attr.GEN_AI_OPERATION: "operation",
        Attr.REFETCH_OUTCOME: "outcome",
        Attr.REFETCH_PAGES: "pages",
        Attr.REFETCH_MESSAGES: "messages",
        Attr.REFETCH_CHARS: "chars",
        Attr.REFETCH_SECONDS: "seconds",
        Attr.REFETCH_RETRY_AFTER: "retry_after_seconds",
        Attr.REFETCH_TRUNCATED: "truncated",
        Attr.INJECT_INJECTION: "injection",
        Attr.INJECT_MESSAGES: "messages",
        Attr.INJECT_OMITTED: "omitted",
        Attr.INJECT_CHARS: "chars",
        Attr.RESET_CAUSE: "cause",
        Attr.RESET_HOW: "how",
        Attr.RESET_FORGOTTEN: "forgotten",
        Attr.RESET_PRE_TOKENS: "pre_tokens",
        Attr.RESET_POST_TOKENS: "post_tokens",
        Attr.REPLY_OUTCOME: "outcome",
        Attr.REPLY_REASON: "reason",
        Attr.REPLY_SECONDS: "seconds",
        Attr.REPLY_ATTEMPT: "attempt",
        Attr.MODEL_FIRST_TOKEN: "first_token_seconds",
        Attr.GEN_AI_REQUEST_MODEL: "model",
        Attr.BUDGET_LIMIT: "limit_usd",
        Attr.BUDGET_USED: "used_usd",
        Attr.STATE_TROUBLE: "trouble",
        Attr.STATE_OPEN: "open_messages",
        Attr.SLACK_METHOD: "method",
        Attr.SLACK_OUTCOME: "outcome",
        Attr.SLACK_RECONNECT_REASON: "reason",
        Attr.SLACK_CONNECTED: "connected",
        Attr.SLACK_CONNECTIONS: "connections",
        Attr.SLACK_DOWN: "down_seconds",
        Attr.SLACK_GAP_REASON: "reason",
        Attr.ERROR_TYPE: "error",
    }
)
_NAMES: Mapping[str, str] = {attr.value: name for attr, name in FIELDS.items()}
_STREAMS: Mapping[str, Stream] = {event.value: event.stream for event in Event}


def stream_of(record: LogRecord) -> Stream:
    """An event that is none of ours is still something the bot did."""
    return _STREAMS.get(record.event_name or "", Stream.BOT)


def fields_of(record: LogRecord, *, at: int) -> dict[str, object]:
    """Without what only the writer knows: pid, seq, v. No attribute takes the place of what every line has."""
    event = record.event_name or "log"
    always: dict[str, object] = {
        "ts": timestamp(at),
        "event": event,
        "level": (record.severity_text or "info").lower(),
        "summary": str(record.body or "").removeprefix(f"{event}: "),
    }
    told = {_NAMES.get(name, name): value for name, value in (record.attributes or {}).items() if value != ""}
    return {**always, **told, **always, **_ids(record)}


def _ids(record: LogRecord) -> dict[str, object]:
    if not record.trace_id:
        return {}
    return {
        "trace_id": format_trace_id(record.trace_id),
        "span_id": format_span_id(record.span_id or 0),
        "trace_flags": f"{int(record.trace_flags or 0):02x}",
    }
