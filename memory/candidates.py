"""A candidate's file: what the model proposed, and beside it everything that code knows of where it was said. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.extract_rows import clean_text
from memory.proposals import Proposal
from memory.provenance import trust_of
from memory.session_entries import LogEntry

MAX_EXCERPT = 300


def candidate_fields(
    proposal: Proposal, *, session_id: str, route: str, span: tuple[int, int], run_id: str, staged_at: str
) -> Mapping[str, Any]:
    """Without its id, which its place gives it. `said_at`: of the latest entry cited. `span`: the range it was read in."""
    return {
        "run_id": run_id,
        "session_id": session_id,
        "route": route,
        "range": span,
        "staged_at": staged_at,
        "said_at": max(entry.ts for entry in proposal.cited),
        "kind": proposal.kind,
        "claim": proposal.claim,
        "why_useful": proposal.why_useful,
        "confidence": proposal.confidence,
        "scope": str(proposal.scope),
        "trust": proposal.trust,
        "evidence": [_evidence(entry) for entry in proposal.cited],
    }


def _evidence(entry: LogEntry) -> Mapping[str, Any]:
    return {
        "n": entry.seq,
        "ts": entry.ts,
        "by": entry.speaker,
        "trust": trust_of(entry),
        "trace_id": entry.trace_id,
        "excerpt": clean_text(entry.text)[:MAX_EXCERPT],
    }
