"""The words of a memory run: how it ended and why, what became of its candidates, what its changes are called. Each spelled once."""

from __future__ import annotations

from collections.abc import Mapping

from bot.explain.explanation import INTERRUPTED, RUNNING
from telemetry.memory_events import Disposition, MemoryReason, MemoryStatus, MemoryTrigger, RecordOp

UNDO = "undo"  # the status of what took a run back

STATUSES: Mapping[str, str] = {
    MemoryStatus.COMPLETED: "completed",
    MemoryStatus.SKIPPED: "did not begin",
    MemoryStatus.FAILED: "failed",
    MemoryStatus.CANCELLED: "was cancelled",
    INTERRUPTED: "was interrupted: its process ended before it did; the next run ends it",
    RUNNING: "is running just now",
    UNDO: "taken back by hand",
    "": "has an end that is not known any more",
}

TRIGGERS: Mapping[str, str] = {
    MemoryTrigger.SESSION_END: "a session ended, or its context was emptied",
    MemoryTrigger.TURN_THRESHOLD: "so many turns had not been read",
    MemoryTrigger.TOKEN_THRESHOLD: "so much had been said that was not read",
    MemoryTrigger.STAGING_BACKLOG: "many candidates waited, or one for long",
    MemoryTrigger.IDLE: "nobody had spoken for a while",
    MemoryTrigger.MANUAL: "somebody asked for it",
    MemoryTrigger.STARTUP_RECOVERY: "the bot started, and found something left to do",
}

REASONS: Mapping[str, str] = {
    MemoryReason.CANDIDATES_FOUND: "something was worth keeping, and is staged",
    MemoryReason.NO_CANDIDATES: "nothing that was said was worth keeping",
    MemoryReason.RECORDS_UPDATED: "records were changed",
    MemoryReason.NOTHING_ADOPTED: "every candidate was discarded, a duplicate, known already or put off",
    MemoryReason.NO_RECORD_CHANGES: "what it adopted stood in the records already, word for word",
    MemoryReason.NO_NEW_SESSION_RANGE: "nothing had been said since the last time",
    MemoryReason.NO_STAGING: "no candidate waited",
    MemoryReason.NO_VALID_STAGING: "what was staged could not be read, and was put aside",
    MemoryReason.BELOW_THRESHOLD: "there was too little to begin with",
    MemoryReason.ALREADY_RUNNING: "another run was under way",
    MemoryReason.COOLDOWN: "the last run was only a moment ago",
    MemoryReason.BACKOFF: "the last run failed; it is tried again later",
    MemoryReason.DISABLED: "it is switched off in insomnia.toml",
    MemoryReason.BUDGET_EXHAUSTED: "what it may cost had been spent",
    MemoryReason.MODEL_ERROR: "the model returned an error",
    MemoryReason.MODEL_TIMEOUT: "the model took too long; nothing was changed",
    MemoryReason.MODEL_OUTPUT_INVALID: "what the model did made no sense; nothing was changed",
    MemoryReason.LINTER_FAILED: "every change that the model asked for was refused",
    MemoryReason.SCOPE_ERROR: "the model asked only for changes outside of what this run may touch",
    MemoryReason.STORE_CONFLICT: "somebody had changed the same records meanwhile; theirs stay, and the candidates come again",
    MemoryReason.IO_ERROR: "a file could not be read or written",
    MemoryReason.DISK_FULL: "the disk was full",
    MemoryReason.SESSION_LOG_UNREADABLE: "the session's log could not be read",
    MemoryReason.RANGE_QUARANTINED: "the model failed three times at one passage, which was put aside",
    MemoryReason.INTERNAL_ERROR: "of an error in the program itself",
    MemoryReason.INTERRUPTED: "its process ended before it did; nothing was changed, and it is done again",
    MemoryReason.USER_CANCELLED: "whoever asked for it took that back",
    MemoryReason.SUPERSEDED: "another run took its place",
}

DISPOSITIONS: Mapping[str, str] = {
    Disposition.APPLIED: "it went into a record",
    Disposition.DUPLICATE: "a record says exactly this",
    Disposition.ALREADY_COVERED: "a record says this and more",
    Disposition.DISCARDED: "it was not worth keeping",
    Disposition.DEFERRED: "it was put off, and comes again",
}

DONE: Mapping[str, str] = {
    RecordOp.WRITE: "written",
    RecordOp.EDIT: "edited",
    RecordOp.TRIM: "trimmed",
    RecordOp.MERGE: "merged",
    RecordOp.DROP: "dropped",
    RecordOp.DELETE: "deleted",
}
