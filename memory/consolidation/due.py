"""When consolidation is due. Pure: whoever acts brings the numbers and the time."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.memory_events import MemoryTrigger

# A candidate that was put off, or was in runs that failed, so often asks for nothing any more; it is taken along when others do.
USUAL_DEFERRALS, USUAL_FAILURES = 3, 20  # the pauses between failures grow: so many are two days and a half


def is_tired(*, deferrals: int, failures: int) -> bool:
    return deferrals >= USUAL_DEFERRALS or failures >= USUAL_FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingBacklog:
    """`candidates` that wait, and of them the `fresh` ones, which are not tired, with their `bytes` and how long the first has waited."""

    candidates: int = 0
    fresh: int = 0
    bytes: int = 0
    oldest_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingThresholds:
    candidates: int = 10
    bytes: int = 32 * 1024
    oldest_seconds: float = 86_400.0
    idle_seconds: float = 1_800.0  # since anybody spoke
    since_last_seconds: float = 21_600.0  # since the last run, before an idle one


def due(backlog: StagingBacklog, *, idle_seconds: float, since_last: float, thresholds: StagingThresholds) -> MemoryTrigger | None:
    """`since_last`: seconds since a run ended; infinite if there was none."""
    if not backlog.fresh:
        return None
    full = backlog.fresh >= thresholds.candidates or backlog.bytes >= thresholds.bytes
    if full or backlog.oldest_seconds >= thresholds.oldest_seconds:
        return MemoryTrigger.STAGING_BACKLOG
    if idle_seconds >= thresholds.idle_seconds and since_last >= thresholds.since_last_seconds:
        return MemoryTrigger.IDLE
    return None
