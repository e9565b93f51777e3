"""The facts of the memory mechanism: runs of the two workers, operations on records, commits, reads.

As in `events`, nothing here knows a span, a metric or a file, and no text of a person or a model is a field, with one
exception: the query of `RecordUsed`. Which reason may stand with which status is said once, in `REASONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class MemoryWorker(StrEnum):
    EXTRACT = "memory_extract"
    CONSOLIDATION = "memory_consolidation"


class MemoryTrigger(StrEnum):
    """What asked for a run. `UNKNOWN` is for logs of others; our code never sends it."""

    SESSION_END = "session_end"
    TURN_THRESHOLD = "turn_threshold"
    TOKEN_THRESHOLD = "token_threshold"
    STAGING_BACKLOG = "staging_backlog"
    IDLE = "idle"
    MANUAL = "manual"
    STARTUP_RECOVERY = "startup_recovery"
    UNKNOWN = "unknown"


class MemoryStatus(StrEnum):
    """Every `STARTED` is followed by exactly one of the others; a `SKIPPED` decided before any work stands alone."""

    STARTED = "started"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


class MemoryReason(StrEnum):
    CANDIDATES_FOUND = "candidates_found"
    NO_CANDIDATES = "no_candidates"
    RECORDS_UPDATED = "records_updated"
    NOTHING_ADOPTED = "nothing_adopted"  # every candidate discarded, duplicate or covered
    NO_RECORD_CHANGES = "no_record_changes"  # adopted, but the text was the same
    NO_NEW_SESSION_RANGE = "no_new_session_range"
    NO_STAGING = "no_staging"
    NO_VALID_STAGING = "no_valid_staging"
    BELOW_THRESHOLD = "below_threshold"
    ALREADY_RUNNING = "already_running"
    COOLDOWN = "cooldown"
    BACKOFF = "backoff"
    DISABLED = "disabled"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MODEL_ERROR = "model_error"
    MODEL_TIMEOUT = "model_timeout"
    MODEL_OUTPUT_INVALID = "model_output_invalid"
    LINTER_FAILED = "linter_failed"
    SCOPE_ERROR = "scope_error"
    STORE_CONFLICT = "store_conflict"
    IO_ERROR = "io_error"
    DISK_FULL = "disk_full"
    SESSION_LOG_UNREADABLE = "session_log_unreadable"
    RANGE_QUARANTINED = "range_quarantined"
    INTERNAL_ERROR = "internal_error"
    INTERRUPTED = "interrupted"
    USER_CANCELLED = "user_cancelled"
    SUPERSEDED = "superseded"


_R = MemoryReason
_NOT_NOW = (_R.BELOW_THRESHOLD, _R.ALREADY_RUNNING, _R.COOLDOWN, _R.BACKOFF, _R.DISABLED, _R.BUDGET_EXHAUSTED)
_BROKEN = (
    *(_R.MODEL_ERROR, _R.MODEL_TIMEOUT, _R.MODEL_OUTPUT_INVALID, _R.SCOPE_ERROR),
    *(_R.IO_ERROR, _R.DISK_FULL, _R.INTERRUPTED, _R.INTERNAL_ERROR),
)
_STOPPED = (_R.INTERRUPTED, _R.USER_CANCELLED, _R.SUPERSEDED)

# How each worker may end.
REASONS: dict[MemoryWorker, dict[MemoryStatus, tuple[MemoryReason, ...]]] = {
    MemoryWorker.EXTRACT: {
        MemoryStatus.COMPLETED: (_R.CANDIDATES_FOUND, _R.NO_CANDIDATES),
        MemoryStatus.SKIPPED: (_R.NO_NEW_SESSION_RANGE, *_NOT_NOW),
        MemoryStatus.FAILED: (*_BROKEN, _R.SESSION_LOG_UNREADABLE, _R.RANGE_QUARANTINED),
        MemoryStatus.CANCELLED: _STOPPED,
    },
    MemoryWorker.CONSOLIDATION: {
        MemoryStatus.COMPLETED: (_R.RECORDS_UPDATED, _R.NOTHING_ADOPTED, _R.NO_RECORD_CHANGES),
        MemoryStatus.SKIPPED: (_R.NO_STAGING, _R.NO_VALID_STAGING, *_NOT_NOW),
        MemoryStatus.FAILED: (*_BROKEN, _R.LINTER_FAILED, _R.STORE_CONFLICT),
        MemoryStatus.CANCELLED: _STOPPED,
    },
}

# What may ask for a run of each worker.
TRIGGERS: dict[MemoryWorker, tuple[MemoryTrigger, ...]] = {
    MemoryWorker.EXTRACT: (
        *(MemoryTrigger.SESSION_END, MemoryTrigger.TURN_THRESHOLD, MemoryTrigger.TOKEN_THRESHOLD),
        *(MemoryTrigger.IDLE, MemoryTrigger.MANUAL, MemoryTrigger.STARTUP_RECOVERY),
    ),
    MemoryWorker.CONSOLIDATION: (
        *(MemoryTrigger.STAGING_BACKLOG, MemoryTrigger.IDLE, MemoryTrigger.MANUAL, MemoryTrigger.STARTUP_RECOVERY),
    ),
}


class RecordKind(StrEnum):
    """A directory of records each; `KNOWLEDGE` is the one beside them."""

    DECISION = "decision"
    REQUEST = "request"
    PREFERENCE = "preference"
    CONSTRAINT = "constraint"
    LESSON = "lesson"
    QUESTION = "question"
    KNOWLEDGE = "knowledge"


class RecordOp(StrEnum):
    WRITE = "write"
    EDIT = "edit"
    TRIM = "trim"
    MERGE = "merge"
    DROP = "drop"
    DELETE = "delete"


class OperationStatus(StrEnum):
    """`PLANNED`: accepted onto a run's overlay; it is applied, and told again as that, when the run commits."""

    APPLIED = "applied"
    PLANNED = "planned"
    REJECTED = "rejected"


class Disposition(StrEnum):
    """What became of a staged candidate."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    ALREADY_COVERED = "already_covered"
    DISCARDED = "discarded"
    DEFERRED = "deferred"


class UsageOp(StrEnum):
    READ = "read"
    QUERY = "query"


class UsageStatus(StrEnum):
    FOUND = "found"
    NOT_FOUND = "not_found"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of a whole run. `input` without cached ones, as the provider counts."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_creation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractWork:
    """What an extract run reads, and what it staged. `range`: first and last entry of the session log, both included."""

    session_id: str
    route: str
    range: tuple[int, int] | None = None
    entries: int = 0
    staged: int = 0
    staging_ids: tuple[str, ...] = ()
    staging_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationWork:
    """What a consolidation run was given, and what it did. `ops` counts what happened: write = records created, edit =
    changed, trim = only shortened, merge = one a call, drop = removed without successor, delete = files removed by anything.
    `scope`: of the candidates. The survival of a run: `records` and `specifics` (names, numbers, dates) there were in that scope,
    and how many of them are gone, records without a successor.
    """

    staging_count: int = 0
    invalid_count: int = 0
    consumed_count: int = 0
    consumed_ids: tuple[str, ...] = ()
    dispositions: Mapping[Disposition, int] = field(default_factory=dict)
    ops: Mapping[RecordOp, int] = field(default_factory=dict)
    scope: str = ""
    records: int = 0
    records_lost: int = 0
    specifics: int = 0
    specifics_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRunStarted:
    run_id: str
    worker: MemoryWorker
    trigger: MemoryTrigger
    model: str = ""
    extract: ExtractWork | None = None
    consolidation: ConsolidationWork | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRunEnded:
    """`status` is never STARTED. `detail` is built from our own words and numbers. `recovered`: told at a later start, for a
    process that died. `suppressed`: how many identical skips before this one were counted and not told.
    """

    run_id: str
    worker: MemoryWorker
    trigger: MemoryTrigger
    status: MemoryStatus
    reason: MemoryReason
    seconds: float
    detail: str = ""
    model: str = ""
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    recovered: bool = False
    suppressed: int = 0
    extract: ExtractWork | None = None
    consolidation: ConsolidationWork | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRunNotDue:
    """A check that did not fire, or a skip like the one before: counted, and nothing else."""

    worker: MemoryWorker
    trigger: MemoryTrigger
    reason: MemoryReason = MemoryReason.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOperation:
    """One operation on one record. `path` below `.insomnia`. `unaudited`: not done by a tool but found, a person's edit. `kind` None:
    of a call that was refused and named none.
    """

    kind: RecordKind | None
    slug: str
    path: str
    op: RecordOp
    status: OperationStatus
    before_sha256: str = ""
    after_sha256: str = ""
    lint: tuple[str, ...] = ()
    unaudited: bool = False
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommitted:
    """Stands before the end of the run. `paths` below `.insomnia`."""

    run_id: str
    applied: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDiscarded:
    """Stands before the end of the run. `why`: the reason that the run ends with. `planned` None: its process died with it."""

    run_id: str
    planned: int | None
    why: MemoryReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordUsed:
    """An explicit read or query. `query` is redacted before it gets here; `kind` None: all kinds; `caller`: route or worker."""

    op: UsageOp
    status: UsageStatus
    caller: str
    results: int = 0
    kind: RecordKind | None = None
    slug: str = ""
    query: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounted:
    """How the memory stands; told now and then. `backlog`: candidates that wait. `oldest_seconds`: how long the first of them has.
    `unextracted`: entries of session logs that were not read yet. `last_success`: seconds since the epoch.
    """

    backlog: int
    oldest_seconds: float
    unextracted: int
    records: Mapping[RecordKind, int]
    last_success: Mapping[MemoryWorker, float]


MemoryFact = (
    MemoryRunStarted | MemoryRunEnded | MemoryRunNotDue | RecordOperation | StoreCommitted | StoreDiscarded | RecordUsed | MemoryCounted
)
