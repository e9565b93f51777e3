"""What a model hands in, checked: all of a call is taken, or nothing of it and every fault is named.

What must stay true: nothing that a model sends raises; no field of it becomes provenance; evidence is cited from this very
range; the number of calls and candidates is bounded, and who goes on past the bounds is cut off.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.extract_model import MAX_CANDIDATES, MAX_CLAIM, MAX_EVIDENCE, MAX_WHY, StageResult
from memory.provenance import ScopeOf, least_trust, narrowest, only_quoted
from memory.records import Scope, Trust
from memory.redact import redact, visible
from memory.session_entries import LogEntry
from telemetry.memory_events import RecordKind

MAX_CALLS = 8
MAX_REFUSALS = 3  # in a row: a model that has not mended it by then will not
MAX_TOLD = 8  # faults in one answer
_KEYS = frozenset({"kind", "claim", "why_useful", "evidence", "confidence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A candidate with where it came from."""

    kind: RecordKind
    claim: str
    why_useful: str
    confidence: float
    cited: tuple[LogEntry, ...]
    scope: Scope
    trust: Trust


class Proposals:
    """`call` is the tool. `accepted` is empty and `calls` 1 when a model said that nothing is worth keeping."""

    def __init__(
        self, citable: Sequence[LogEntry], *, scope_of: ScopeOf, with_whom: Mapping[str, str], cut_off: Callable[[], None]
    ) -> None:
        self._entries: dict[int, list[LogEntry]] = {}
        for entry in citable:
            self._entries.setdefault(entry.seq, []).append(entry)
        self._scope_of, self._with_whom, self._cut_off = scope_of, with_whom, cut_off
        self._found: dict[tuple[RecordKind, str], Proposal] = {}
        self._taken = self._refusals = 0
        self.calls = 0

    @property
    def accepted(self) -> Sequence[Proposal]:
        return tuple(self._found.values())

    @property
    def valid(self) -> bool:
        """The tool was used as it should be, at least once, and not without end."""
        return self._taken > 0 and not self.overrun

    @property
    def overrun(self) -> bool:
        return self.calls > MAX_CALLS

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self._entries)

    def call(self, arguments: Mapping[str, Any]) -> StageResult:
        self.calls += 1
        if self.calls > MAX_CALLS:
            self._cut_off()
            return _refused("too_many_calls", "This tool was called too often.", "End your turn now.", stop=True)
        answer = self._judge(arguments)
        self._refusals = 0 if answer.ok else self._refusals + 1
        if self._refusals < MAX_REFUSALS:
            return answer
        return _refused(answer.code, answer.message, "Stop: no further call is taken.", stop=True)

    def _judge(self, arguments: object) -> StageResult:
        if not isinstance(arguments, Mapping) or set(arguments) != {"candidates"} or not isinstance(arguments["candidates"], list):
            return _refused("invalid_arguments", "The arguments are one object with the list `candidates`.", "Send that, and nothing else.")
        sent = arguments["candidates"]
        if len(sent) + len(self._found) > MAX_CANDIDATES:
            return _refused("too_many_candidates", f"{MAX_CANDIDATES} at most in a run.", "Keep the ones that matter most.")
        read = [self._read(number, candidate) for number, candidate in enumerate(sent)]
        faults = [fault for fault in read if isinstance(fault, str)]
        if faults:
            told = "; ".join(faults[:MAX_TOLD])
            return _refused("invalid_candidates", told, "Mend these and send the whole list again; nothing of it was taken.")
        self._taken += 1
        for proposal in read:
            if isinstance(proposal, Proposal):
                self._found.setdefault((proposal.kind, _folded(proposal.claim)), proposal)
        return StageResult(accepted=len(sent))

    def _read(self, number: int, sent: object) -> Proposal | str:
        """Or what is wrong with it; of what was sent, only its place in the list is repeated."""
        at = f"candidate {number}"
        if not isinstance(sent, Mapping) or set(sent) != _KEYS:
            return f"{at} must have exactly the fields {', '.join(sorted(_KEYS))}"
        if not isinstance(sent["kind"], str) or sent["kind"] not in list(RecordKind):
            return f"{at}: kind is one of {', '.join(RecordKind)}"
        claim, why = _words(sent["claim"]), _words(sent["why_useful"])
        if not 0 < len(claim) <= MAX_CLAIM or not 0 < len(why) <= MAX_WHY:
            return f"{at}: claim takes 1 to {MAX_CLAIM} characters, why_useful 1 to {MAX_WHY}"
        confidence = sent["confidence"]
        if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
            return f"{at}: confidence is a number from 0 to 1"
        cited = self._cited(sent["evidence"])
        if not cited:
            return f"{at}: evidence is 1 to {MAX_EVIDENCE} numbers of entries that stand in this range as evidence"
        scope = narrowest(cited, self._scope_of, self._with_whom)
        if scope is None:
            return f"{at}: its evidence comes from two private places; cite entries of one, or make two candidates"
        kind, trust = RecordKind(sent["kind"]), Trust.EXTERNAL if only_quoted(claim, cited) else least_trust(cited)
        return Proposal(kind=kind, claim=claim, why_useful=why, confidence=float(confidence), cited=cited, scope=scope, trust=trust)

    def _cited(self, numbers: object) -> tuple[LogEntry, ...]:
        if not isinstance(numbers, list) or not 0 < len(numbers) <= MAX_EVIDENCE:
            return ()
        if any(type(n) is not int or n not in self._entries for n in numbers):
            return ()
        return tuple(entry for n in sorted(set(numbers)) for entry in self._entries[n])


def _refused(code: str, message: str, fix: str, *, stop: bool = False) -> StageResult:
    return StageResult(code=code, message=message, fix=fix, stop=stop)


def _words(sent: object) -> str:
    """Without secrets, and without signs that nobody sees. Far too long stays so; it is only cut short of costing time."""
    if not isinstance(sent, str):
        return ""
    return redact(visible(sent[: 4 * MAX_CLAIM].encode("utf-8", "replace").decode("utf-8"))).strip()


def _folded(claim: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", claim).casefold().split())
