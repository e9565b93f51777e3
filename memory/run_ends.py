"""A run's end as JSON, and back: what a process that died before it was told leaves to the next one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.run_files import RunFile, count_of
from telemetry.memory_events import (
    REASONS,
    ConsolidationWork,
    Disposition,
    ExtractWork,
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    RecordOp,
    TokenUsage,
)

_COUNTS = ("staging_count", "invalid_count", "consumed_count", "records", "records_lost", "specifics", "specifics_lost")


def end_fields(end: MemoryRunEnded) -> dict[str, Any]:
    """What the run file's name does not say."""
    return {
        "status": end.status,
        "reason": end.reason,
        "seconds": end.seconds,
        "detail": end.detail,
        "model": end.model,
        "usage": _plain(end.usage),
        "cost_usd": end.cost_usd,
        "extract": _plain(end.extract),
        "consolidation": _plain(end.consolidation),
    }


def end_from(file: RunFile) -> MemoryRunEnded | None:
    """None: it is not to be read; the run is judged by what it left."""
    told = file.told
    try:
        status, reason = MemoryStatus(told["status"]), MemoryReason(told["reason"])
        if reason not in REASONS[file.key.worker][status]:
            return None
        return MemoryRunEnded(
            run_id=file.run_id,
            worker=file.key.worker,
            trigger=file.trigger,
            status=status,
            reason=reason,
            seconds=float(told["seconds"]),
            detail=str(told["detail"]),
            model=str(told["model"]),
            usage=_usage(told["usage"]) if told["usage"] else None,
            cost_usd=None if told["cost_usd"] is None else float(told["cost_usd"]),
            extract=_extract(told["extract"]) if told["extract"] else None,
            consolidation=_consolidation(told["consolidation"]) if told["consolidation"] else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _plain(work: TokenUsage | ExtractWork | ConsolidationWork | None) -> dict[str, Any] | None:
    return {name: getattr(work, name) for name in work.__dataclass_fields__} if work else None


def _usage(read: Mapping[str, Any]) -> TokenUsage:
    return TokenUsage(**{name: count_of(read, name) for name in {**read}})


def _extract(read: Mapping[str, Any]) -> ExtractWork:
    first_and_last = _range(*read["range"]) if read["range"] else None
    counts = {name: count_of(read, name) for name in ("entries", "staged")}
    words = {name: str(read[name]) for name in ("session_id", "route", "staging_path")}
    ids = tuple(str(one) for one in read["staging_ids"])
    return ExtractWork(**{**read, **counts, **words, "range": first_and_last, "staging_ids": ids})


def _range(first: int, last: int) -> tuple[int, int]:
    ends = {"first": first, "last": last}
    return count_of(ends, "first"), count_of(ends, "last")


def _consolidation(read: Mapping[str, Any]) -> ConsolidationWork:
    dispositions = {Disposition(name): count_of(read["dispositions"], name) for name in read["dispositions"]}
    ops = {RecordOp(name): count_of(read["ops"], name) for name in read["ops"]}
    counts = {name: count_of(read, name) for name in _COUNTS if name in read}
    ids = tuple(str(one) for one in read["consumed_ids"])
    return ConsolidationWork(scope=str(read.get("scope", "")), consumed_ids=ids, dispositions=dispositions, ops=ops, **counts)
