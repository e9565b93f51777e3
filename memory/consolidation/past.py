"""What earlier consolidation runs mean for the next: when the last one was, failures in a row, how often a candidate was put off.

What must stay true: losing this file costs a run too many, and nothing else; no candidate and no record depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from memory.consolidation.outcome import Result
from memory.cursors import BACK_OFF_SECONDS
from memory.disk import Disk, read_small
from memory.disk import replace as replace_file
from telemetry.memory_events import MemoryStatus

FORMAT = 1
NAME = "consolidation.json"
COOL_DOWN_SECONDS = 600.0  # after any run, before one that nobody asked for
MAX_COUNTED = 4_096  # candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Times in seconds since the epoch; 0: never. By candidate: `deferrals`, and failed runs that it was in (`failed`)."""

    ended: float = 0.0
    succeeded: float = 0.0
    failures: int = 0
    deferrals: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)

    def tries(self, candidate: str) -> int:
        return self.deferrals.get(candidate, 0) + self.failed.get(candidate, 0)

    def since_last(self, now: float) -> float:
        """A clock that was put back counts as long ago: one run too many does no harm, years of waiting would."""
        return now - self.ended if self.ended and now >= self.ended else float("inf")

    def cools_down(self, now: float) -> bool:
        return not self.failures and self.since_last(now) < COOL_DOWN_SECONDS

    def backs_off(self, now: float) -> bool:
        return self.failures > 0 and self.since_last(now) < BACK_OFF_SECONDS[min(self.failures, len(BACK_OFF_SECONDS)) - 1]

    def after(self, ended: Result, now: float) -> Past:
        if ended.status is MemoryStatus.CANCELLED:
            return self
        if not ended.completed:
            return replace(self, ended=now, failures=self.failures + 1, failed=_more(self.failed, ended.given, ended.given))
        off = [one for one in ended.given if one not in ended.work.consumed_ids]
        failed = {one: count for one, count in self.failed.items() if one not in ended.given}
        return Past(ended=now, succeeded=now, deferrals=_more(self.deferrals, off, ended.given), failed=failed)


def _more(counts: Mapping[str, int], again: Sequence[str], given: Sequence[str]) -> dict[str, int]:
    """Of the `given` ones only those that come again go on being counted; the newest are kept."""
    others = {one: count for one, count in counts.items() if one not in given}
    return dict(list((others | {one: counts.get(one, 0) + 1 for one in again}).items())[-MAX_COUNTED:])


class PastFile:
    """`state`: `.insomnia/memory/_state`. Writing raises OSError; the writer holds the worker's lock."""

    def __init__(self, state: Path, *, disk: Disk) -> None:
        self._path, self._disk = state / NAME, disk

    def read(self) -> Past:
        try:
            read = json.loads(read_small(self._path) or b"{}")
            if read.pop("v") != FORMAT:
                return Past()
            deferrals, failed = ({str(one): int(count) for one, count in read[name].items()} for name in ("deferrals", "failed"))
            ended, succeeded, failures = float(read["ended"]), float(read["succeeded"]), max(0, int(read["failures"]))
            return Past(ended=ended, succeeded=succeeded, failures=failures, deferrals=deferrals, failed=failed)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return Past()

    def write(self, past: Past) -> None:
        self._disk.mkdir(self._path.parent)
        replace_file(self._disk, self._path, json.dumps({"v": FORMAT, **asdict(past)}).encode() + b"\n")

    def sweep(self) -> None:
        """What a dead process left half written."""
        temporary = self._path.with_name(f".tmp-{NAME}")
        if temporary.exists():
            self._disk.unlink(temporary)
