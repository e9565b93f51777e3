"""What became of candidates, joined to the replies in which they were said. Only reads.

What must stay true: people are ids, as everywhere; the one text is the candidate's own, without secrets, for the owner's terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bot.explain.run_finding import reply_of
from bot.explain.runs import Reply
from bot.explain.sources import Sources
from memory.consolidation.fates import Fate, State, with_texts
from memory.redact import redact
from telemetry.stored_values import text, whole
from telemetry.trace_reading import TraceReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One passage that shows it. `number`: of the entry in the session's log. `by`: the id of whoever said it. `said_at`: as the log
    has it. `reply`: in whose trace it was read; None: it names none.
    """

    number: int
    by: str
    said_at: str
    trust: str
    excerpt: str
    reply: Reply | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCandidate:
    fate: Fate
    evidence: tuple[Evidence, ...] = ()

    @property
    def state(self) -> str:
        """Of a settled one how."""
        resolution = self.fate.resolution
        return str(resolution.disposition) if self.fate.state is State.SETTLED and resolution else str(self.fate.state)


def traced(fates: Sequence[Fate], sources: Sources) -> list[TracedCandidate]:
    """With their texts."""
    fates = [with_texts(fate) for fate in fates]
    found = sources.ask_traces(lambda traces: [_traced(fate, traces) for fate in fates])
    return [_traced(fate, None) for fate in fates] if found is None else found


def _traced(fate: Fate, traces: TraceReader | None) -> TracedCandidate:
    return TracedCandidate(fate=fate, evidence=tuple(_evidence(fate, traces)))


def _evidence(fate: Fate, traces: TraceReader | None) -> Iterator[Evidence]:
    for one in fate.candidate.evidence if fate.candidate else ():
        yield Evidence(
            number=whole(one.get("n")) or 0,
            by=text(one.get("by")),
            said_at=text(one.get("ts")),
            trust=text(one.get("trust")),
            excerpt=redact(text(one.get("excerpt"))),
            reply=_reply(text(one.get("trace_id")), traces),
        )


def _reply(trace_id: str, traces: TraceReader | None) -> Reply | None:
    if not trace_id:
        return None
    about = next(iter(traces.by_prefix(trace_id)), None) if traces and len(trace_id) == 32 else None
    return reply_of(about) if about else Reply(trace_id=trace_id)


def as_json(one: TracedCandidate, *, now: float) -> Mapping[str, Any]:
    """Times as RFC 3339, spans of time in seconds; null: not known, or there is none."""
    fate = one.fate
    candidate, resolution = fate.candidate, fate.resolution
    waits = now - candidate.staged_at.timestamp() if candidate and fate.state is State.WAITING else None
    return {
        "id": fate.id,
        "state": fate.state,
        "path": fate.path or None,
        "problem": fate.problem or None,
        "disposition": resolution.disposition if resolution else None,
        "reason": resolution.reason if resolution else None,
        "record": (resolution.record or None) if resolution else None,
        "run_id": fate.run_id or None,
        "undone_by": fate.undone_by or None,
        "waits_seconds": None if waits is None else round(max(0.0, waits)),
        "put_off": fate.deferrals,
        "failed_runs": fate.failed,
        "staged_by": fate.staged_by or None,
        **_said(one),
        "evidence": [{**asdict(each), "reply": asdict(each.reply) if each.reply else None} for each in one.evidence],
    }


def _said(one: TracedCandidate) -> dict[str, Any]:
    words = ("kind", "claim", "why_useful", "trust", "confidence", "session_id", "route")
    candidate = one.fate.candidate
    if candidate is None:
        return dict.fromkeys((*words, "scope", "entries", "said_at", "staged_at"))
    return {
        **{word: getattr(candidate, word) for word in words},
        "scope": str(candidate.scope),
        "entries": candidate.entries,
        "said_at": candidate.said_at.isoformat(),
        "staged_at": candidate.staged_at.isoformat(),
    }
