"""What becomes of each candidate of a run: one disposition each, with its reason.

What must stay true: every candidate ends with exactly one; `applied` is earned by a change that cites it, and a candidate that
a record is said to hold already is settled only while that record is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memory.consolidation.pending import Candidate
from memory.tools import ToolRefused
from telemetry.memory_events import Disposition

UNDECIDED = "the run ended before it was decided"
GONE = "the record that was to hold it is not there any more"
_HELD = frozenset({Disposition.APPLIED, Disposition.DUPLICATE, Disposition.ALREADY_COVERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """`record`: kind/slug of what holds it. `reason`: a model's words, or ours."""

    disposition: Disposition
    reason: str
    record: str = ""


class Ledger:
    def __init__(self, candidates: Mapping[str, Candidate]) -> None:
        self._candidates = candidates
        self._settled: dict[str, Resolution] = {}

    def settled(self, candidate: str) -> Resolution | None:
        return self._settled.get(candidate)

    @property
    def undecided(self) -> Sequence[str]:
        return [one for one in self._candidates if one not in self._settled]

    def cite(self, candidates: Sequence[str], record: str) -> None:
        """They stand in that record now; in a second one only beside it."""
        for one in candidates:
            before = self._settled.get(one)
            if before is None or before.disposition is not Disposition.APPLIED:
                self._settled[one] = Resolution(disposition=Disposition.APPLIED, reason="it stands in the record", record=record)

    def resolve(self, candidate: str, resolution: Resolution) -> None:
        """Raises ToolRefused."""
        if candidate not in self._candidates:
            raise ToolRefused("unknown_candidate", "there is no such candidate in this run", "use an id that staging_list shows")
        before = self._settled.get(candidate)
        if before is not None and before.disposition is Disposition.APPLIED:
            if resolution.disposition is Disposition.APPLIED:
                self._settled[candidate] = replace(before, reason=resolution.reason)
                return
            raise ToolRefused("already_applied", "a change of this run cites it", "leave it as it is")
        if resolution.disposition is Disposition.APPLIED:
            raise ToolRefused("not_cited", "no change of this run cites it", "cite it in a write, an edit or a merge")
        self._settled[candidate] = resolution

    def closed(self, there: frozenset[str]) -> Mapping[str, Resolution]:
        """Of every candidate, in their order. `there`: kind/slug of every record as it will be."""
        settled = {}
        for one in self._candidates:
            found = self._settled.get(one) or Resolution(disposition=Disposition.DEFERRED, reason=UNDECIDED)
            lost = found.disposition in _HELD and found.record not in there
            settled[one] = Resolution(disposition=Disposition.DEFERRED, reason=GONE) if lost else found
        return settled
