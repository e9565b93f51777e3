"""One of each fact of the memory mechanism, with everything that it can say."""

from __future__ import annotations

from telemetry.memory_events import (
    ConsolidationWork,
    Disposition,
    ExtractWork,
    MemoryCounted,
    MemoryFact,
    MemoryReason,
    MemoryRunEnded,
    MemoryRunNotDue,
    MemoryRunStarted,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    OperationStatus,
    RecordKind,
    RecordOp,
    RecordOperation,
    RecordUsed,
    StoreCommitted,
    StoreDiscarded,
    TokenUsage,
    UsageOp,
    UsageStatus,
)

USAGE = TokenUsage(input=900, output=80, cache_read=700, cache_creation=60)
READ = ExtractWork(session_id="5e55", route="main", range=(11, 40), entries=30)
STAGED = ExtractWork(
    session_id="5e55",
    route="main",
    range=(11, 40),
    entries=30,
    staged=3,
    staging_ids=("a", "b", "c"),
    staging_path="memory/_staging/5e55.11",
)
CONSOLIDATED = ConsolidationWork(
    staging_count=9,
    invalid_count=1,
    consumed_count=8,
    consumed_ids=("a", "b"),
    dispositions={Disposition.APPLIED: 6, Disposition.DUPLICATE: 2},
    ops={RecordOp.WRITE: 1, RecordOp.MERGE: 2, RecordOp.DROP: 4},
    scope="channel:C1",
    records=31,
    records_lost=4,
    specifics=120,
    specifics_lost=7,
)

EXTRACT_STARTED = MemoryRunStarted(
    run_id="x1", worker=MemoryWorker.EXTRACT, trigger=MemoryTrigger.SESSION_END, model="claude-x", extract=READ
)
EXTRACT_DONE = MemoryRunEnded(
    run_id="x1",
    worker=MemoryWorker.EXTRACT,
    trigger=MemoryTrigger.SESSION_END,
    status=MemoryStatus.COMPLETED,
    reason=MemoryReason.CANDIDATES_FOUND,
    seconds=4.25,
    model="claude-x",
    usage=USAGE,
    cost_usd=0.02,
    extract=STAGED,
)
CONSOLIDATION_STARTED = MemoryRunStarted(
    run_id="c1",
    worker=MemoryWorker.CONSOLIDATION,
    trigger=MemoryTrigger.IDLE,
    consolidation=ConsolidationWork(staging_count=9, invalid_count=1),
)
CONSOLIDATION_DONE = MemoryRunEnded(
    run_id="c1",
    worker=MemoryWorker.CONSOLIDATION,
    trigger=MemoryTrigger.IDLE,
    status=MemoryStatus.COMPLETED,
    reason=MemoryReason.RECORDS_UPDATED,
    seconds=12.0,
    usage=USAGE,
    consolidation=CONSOLIDATED,
)
EXTRACT_FAILED = MemoryRunEnded(
    run_id="x2",
    worker=MemoryWorker.EXTRACT,
    trigger=MemoryTrigger.STARTUP_RECOVERY,
    status=MemoryStatus.FAILED,
    reason=MemoryReason.MODEL_ERROR,
    seconds=1.0,
    detail="HTTP 529 three times",
    recovered=True,
)
NO_STAGING = MemoryRunEnded(
    run_id="c2",
    worker=MemoryWorker.CONSOLIDATION,
    trigger=MemoryTrigger.MANUAL,
    status=MemoryStatus.SKIPPED,
    reason=MemoryReason.NO_STAGING,
    seconds=0.0,
    suppressed=12,
)
CANCELLED = MemoryRunEnded(
    run_id="x3",
    worker=MemoryWorker.EXTRACT,
    trigger=MemoryTrigger.IDLE,
    status=MemoryStatus.CANCELLED,
    reason=MemoryReason.SUPERSEDED,
    seconds=0.5,
)
NOT_DUE = MemoryRunNotDue(worker=MemoryWorker.EXTRACT, trigger=MemoryTrigger.TURN_THRESHOLD)
WRITTEN = RecordOperation(
    kind=RecordKind.DECISION,
    slug="freeze",
    path="memory/decision/freeze.md",
    op=RecordOp.EDIT,
    status=OperationStatus.APPLIED,
    before_sha256="0" * 64,
    after_sha256="1" * 64,
    run_id="c1",
)
REJECTED = RecordOperation(
    kind=RecordKind.LESSON,
    slug="Über\x1b[2J",
    path="memory/lesson/Über.md",
    op=RecordOp.WRITE,
    status=OperationStatus.REJECTED,
    lint=("L102", "W701"),
    run_id="c1",
)
UNAUDITED = RecordOperation(
    kind=RecordKind.KNOWLEDGE,
    slug="terms",
    path="knowledge/terms.md",
    op=RecordOp.EDIT,
    status=OperationStatus.APPLIED,
    before_sha256="0" * 64,
    after_sha256="2" * 64,
    unaudited=True,
)
COMMITTED = StoreCommitted(run_id="c1", applied=7, paths=("memory/decision/freeze.md",))
DISCARDED = StoreDiscarded(run_id="c1", planned=7, why=MemoryReason.STORE_CONFLICT)
DISCARDED_BY_DEATH = StoreDiscarded(run_id="c4", planned=None, why=MemoryReason.INTERRUPTED)
SUCCEEDED_AT = 1_700_000_000.0
COUNTED = MemoryCounted(
    backlog=11,
    oldest_seconds=3_600.0,
    unextracted=250,
    records={RecordKind.DECISION: 12, RecordKind.KNOWLEDGE: 3},
    last_success={MemoryWorker.CONSOLIDATION: SUCCEEDED_AT},
)
QUERIED = RecordUsed(op=UsageOp.QUERY, status=UsageStatus.FOUND, caller="main", results=2, query="金曜のデプロイ")
READ_ONE = RecordUsed(
    op=UsageOp.READ, status=UsageStatus.NOT_FOUND, caller="memory_consolidation", kind=RecordKind.DECISION, slug="gone", run_id="c1"
)

ALL: tuple[MemoryFact, ...] = (
    *(EXTRACT_STARTED, EXTRACT_DONE, CONSOLIDATION_STARTED, CONSOLIDATION_DONE),
    *(EXTRACT_FAILED, NO_STAGING, CANCELLED, NOT_DUE),
    *(WRITTEN, REJECTED, UNAUDITED, COMMITTED, DISCARDED, DISCARDED_BY_DEATH, QUERIED, READ_ONE, COUNTED),
)
