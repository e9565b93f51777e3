"""Which attribute stands on which span, and which field in which log event. The reference is printed from these tables.

They are held against what is really emitted: the tests compare them with every fact's records, and with the spans of a bot
that answers. An attribute or field that is not in its table, or one that nothing writes any more, fails there.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.names import Attr, Event, SpanName

RESOURCE = (Attr.SERVICE_NAME, Attr.SERVICE_VERSION, Attr.SLACK_MODE)
ANYWHERE = (Attr.ERROR_TYPE,)  # on every span that failed or was cancelled

_THREAD = (Attr.THREAD_TEAM, Attr.THREAD_CHANNEL, Attr.THREAD_TS)
_SESSION = (Attr.ROUTE, Attr.SESSION_KEY, Attr.GEN_AI_CONVERSATION_ID)
_GATE = (Attr.GATE_DECISION, Attr.GATE_REASON, Attr.GATE_KNOWN_THREADS, Attr.SESSION_EPOCH)
_RESET = (
    *_SESSION,
    Attr.SESSION_EPOCH,
    Attr.RESET_CAUSE,
    Attr.RESET_HOW,
    Attr.RESET_FORGOTTEN,
    Attr.RESET_PRE_TOKENS,
    Attr.RESET_POST_TOKENS,
)
_INJECT = (
    Attr.ROUTE,
    *_THREAD,
    Attr.GATE_REASON,
    Attr.INJECT_INJECTION,
    Attr.INJECT_MESSAGES,
    Attr.INJECT_OMITTED,
    Attr.INJECT_CHARS,
)
_REFETCH = (
    Attr.GEN_AI_OPERATION,
    Attr.ROUTE,
    *_THREAD,
    Attr.REFETCH_OUTCOME,
    Attr.REFETCH_PAGES,
    Attr.REFETCH_MESSAGES,
    Attr.REFETCH_RETRY_AFTER,
    Attr.REFETCH_TRUNCATED,
)
_USAGE = (Attr.GEN_AI_INPUT_TOKENS, Attr.GEN_AI_OUTPUT_TOKENS, Attr.GEN_AI_CACHE_READ_TOKENS)

SPANS: Mapping[SpanName, tuple[Attr, ...]] = {
    SpanName.PROCESS: (
        Attr.MESSAGING_SYSTEM,
        Attr.MESSAGING_OPERATION_NAME,
        Attr.MESSAGING_OPERATION_TYPE,
        Attr.MESSAGING_DESTINATION,
        Attr.MESSAGING_MESSAGE_ID,
        Attr.MESSAGING_CONVERSATION_ID,
        *_THREAD,
        *_SESSION,
        *_GATE,
        Attr.REPLY_ATTEMPT,
        Attr.REPLY_OUTCOME,
        Attr.REPLY_REASON,
    ),
    SpanName.LANE_WAIT: (Attr.LANE_POSITION,),
    SpanName.SESSION: (Attr.ROUTE, Attr.SESSION_KEY),
    SpanName.SESSION_RESET: _RESET,
    SpanName.SESSION_START: (Attr.RESET_HOW, Attr.SESSION_ACCOUNT, Attr.GEN_AI_CONVERSATION_ID, Attr.SESSION_PID),
    SpanName.THREAD_GATE: _GATE,
    SpanName.THREAD_REFETCH: (*_REFETCH, Attr.REFETCH_CHARS),
    SpanName.THREAD_INJECT: _INJECT,
    SpanName.INVOKE_AGENT: (
        Attr.GEN_AI_OPERATION,
        Attr.GEN_AI_AGENT,
        Attr.GEN_AI_PROVIDER,
        Attr.GEN_AI_CONVERSATION_ID,
        Attr.GEN_AI_COMPACTED,
        *_USAGE,
        Attr.COST_USD,
    ),
    SpanName.CHAT: (
        Attr.GEN_AI_OPERATION,
        Attr.GEN_AI_PROVIDER,
        Attr.GEN_AI_REQUEST_MODEL,
        Attr.GEN_AI_RESPONSE_MODEL,
        Attr.GEN_AI_RESPONSE_ID,
        Attr.GEN_AI_FINISH_REASONS,
        *_USAGE,
        Attr.GEN_AI_CACHE_CREATION_TOKENS,
        Attr.GEN_AI_CACHE_WRITE_TOKENS,
        Attr.MODEL_FIRST_TOKEN,
    ),
    SpanName.EXECUTE_TOOL: (
        Attr.GEN_AI_OPERATION,
        Attr.GEN_AI_TOOL_NAME,
        Attr.GEN_AI_TOOL_CALL_ID,
        Attr.TOOL_LATE,
        Attr.MEMORY_RUN_ID,
        Attr.MEMORY_OP,
        Attr.MEMORY_OP_STATUS,
        Attr.MEMORY_KIND,
        Attr.MEMORY_SLUG,
        Attr.MEMORY_RESULTS,
    ),
    SpanName.SLACK_REPLY: (Attr.REPLY_METHOD, Attr.REPLY_CHUNKS, Attr.REPLY_TS, Attr.REPLY_MISPLACED, Attr.REPLY_FALLBACK),
    SpanName.MEMORY_READ_RANGE: (),
    SpanName.MEMORY_COMMIT: (),
    SpanName.MEMORY_RUN: (
        Attr.MEMORY_RUN_ID,
        Attr.MEMORY_WORKER,
        Attr.MEMORY_TRIGGER,
        Attr.MEMORY_LIMIT,
        Attr.MEMORY_STATUS,
        Attr.MEMORY_REASON,
        Attr.MEMORY_STAGED,
        Attr.MEMORY_WRITTEN,
        Attr.MEMORY_EDITED,
        Attr.MEMORY_TRIMMED,
        Attr.MEMORY_MERGED,
        Attr.MEMORY_DROPPED,
        Attr.MEMORY_DELETED,
    ),
}

EVENTS: Mapping[Event, tuple[Attr, ...]] = {
    Event.GATE_DECISION: (Attr.ROUTE, *_THREAD, *_GATE),
    Event.THREAD_REFETCHED: (*_REFETCH, Attr.REFETCH_SECONDS),
    Event.THREAD_INJECTED: _INJECT,
    Event.ASKED_AGAIN: (Attr.ROUTE, Attr.RESET_CAUSE),
    Event.SESSION_STARTED: (*_SESSION, Attr.SESSION_HOW, Attr.SESSION_ACCOUNT, Attr.SESSION_START_SECONDS),
    Event.SESSION_RESET: _RESET,
    Event.COMPACTION_FAILED: (*_SESSION, Attr.ERROR_TYPE),
    Event.REPLY: (
        Attr.ROUTE,
        *_THREAD,
        Attr.MESSAGING_MESSAGE_ID,
        Attr.REPLY_OUTCOME,
        Attr.REPLY_REASON,
        Attr.REPLY_SECONDS,
        Attr.MODEL_FIRST_TOKEN,
    ),
    Event.MESSAGE_DROPPED: (
        Attr.ROUTE,
        Attr.MESSAGING_DESTINATION,
        Attr.MESSAGING_MESSAGE_ID,
        Attr.REPLY_OUTCOME,
        Attr.REPLY_REASON,
    ),
    Event.SLACK_CONNECTION: (Attr.SLACK_CONNECTED, Attr.SLACK_CONNECTIONS),
    Event.SLACK_RECONNECTED: (Attr.SLACK_RECONNECT_REASON, Attr.SLACK_DOWN),
    Event.DELIVERY_GAP: (Attr.SLACK_GAP_REASON,),
    Event.BUDGET_SPENT: (Attr.ROUTE, Attr.BUDGET_USED, Attr.BUDGET_LIMIT),
    Event.STATE_TROUBLE: (Attr.STATE_TROUBLE, Attr.STATE_OPEN, Attr.ERROR_TYPE),
    Event.ERROR: (Attr.ROUTE, Attr.SLACK_METHOD, Attr.SLACK_OUTCOME, Attr.GEN_AI_REQUEST_MODEL, Attr.ERROR_TYPE),
}

_RUN = {"run_id": "which run", "worker": "memory_extract, memory_consolidation"}

# Events whose fields have no other name than the one in the line; `a.b` stands in the object `a`.
FIELDS: Mapping[Event, Mapping[str, str]] = {
    Event.LOG_GAP: {
        "dropped": "lines that were lost",
        "since": "when the first of them was lost",
        "until": "when the last of them was lost",
        "error": "why: an errno, or the class of an exception",
    },
    Event.LOG_REPAIRED: {"repaired": "lines that were found broken off"},
    Event.WORKER_LIFECYCLE: {
        **_RUN,
        "status": "started, completed, skipped, failed, cancelled",
        "trigger": "what asked for the run",
        "reason": "why it ended so; not of `started`",
        "detail": "more on that, in our own words and numbers",
        "model": "the model that worked",
        "usage.input": "tokens of all prompts, cached ones not included",
        "usage.output": "tokens of all answers",
        "usage.cache_read": "tokens read from the cache",
        "usage.cache_creation": "tokens written to the cache",
        "cost_usd": "as the CLI reports it",
        "duration_ms": "how long it took; not of `started`",
        "recovered": "true: told at a later start, for a process that died",
        "suppressed": "identical skips before this one that were counted and not told",
        "extract.session_id": "session that was read",
        "extract.route": "its route",
        "extract.range": "first and last entry of its log that was read, both included",
        "extract.entries": "entries read",
        "extract.staged": "candidates staged",
        "extract.staging_ids": "the first 50 of them",
        "extract.staging_path": "where they lie, below `.insomnia`",
        "consolidation.staging_count": "candidates the run was given",
        "consolidation.invalid_count": "candidates that could not be read and were put aside",
        "consolidation.consumed_count": "candidates that got their disposition",
        "consolidation.consumed_ids": "the first 100 of them",
        "consolidation.dispositions": "how many of each: applied, duplicate, already_covered, discarded, deferred",
        "consolidation.ops": "how many of each: write (created), edit (changed), trim (only shortened), merge (one a call), "
        "drop (removed without successor), delete (files removed by anything)",
    },
    Event.RECORD_OPERATION: {
        "run_id": "of a worker's operation",
        "kind": "decision, request, preference, constraint, lesson, question, knowledge",
        "slug": "the record's name",
        "path": "its file, below `.insomnia`",
        "op": "write, edit, trim, merge, drop, delete",
        "status": "applied, planned (and told again when the run commits), rejected",
        "before_sha256": "of the file, where there was one",
        "after_sha256": "of the file, where there is one",
        "lint": "rules that were broken",
        "unaudited": "true: not done by a tool, but found",
    },
    Event.STORE_COMMIT: {"run_id": "which run", "applied": "operations applied", "paths": "the first 100 files, below `.insomnia`"},
    Event.STORE_DISCARD: {"run_id": "which run", "planned": "operations that were not applied", "why": "the reason the run ends with"},
    Event.RECORD_USAGE: {
        "run_id": "of a worker's reading",
        "op": "read, query",
        "kind": "as above; none: all kinds",
        "slug": "the record that was read",
        "query": "what was searched for, redacted, 200 characters at most; on this machine only",
        "results": "how many were found",
        "status": "found, not_found, rejected, failed",
        "caller": "route or worker",
    },
}
