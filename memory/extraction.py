"""One extract run: a range is shown to the model, what it hands in is published, the cursor moves, the end is told.

What must stay true: nothing waits between the model's last word and the end of the run, so that a cancel finds it either
asked or done; the candidates are published before the cursor moves, the cursor before the end is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory.candidates import candidate_fields
from memory.clock import Clock
from memory.cursors import Attempts, Cursors
from memory.extract_attempts import blames_range, judge_failure, smaller
from memory.extract_model import ExtractModel, ExtractRequest
from memory.extract_prompt import SYSTEM, prompt
from memory.model_end import ModelEnd, ModelHow
from memory.proposals import Proposals
from memory.provenance import ScopeOf, persons
from memory.quarantine import Quarantine
from memory.ranges import MAX_TOKENS, Piece, Unread, take
from memory.redact import redact
from memory.run_files import SESSION_ID, RunKey
from memory.runs import Run, Runs, where
from memory.staging import Batch, Staging
from telemetry.emit import Emit
from telemetry.events import TraceRef
from telemetry.memory_events import (
    ExtractWork,
    MemoryReason,
    MemoryRunEnded,
    MemoryStatus,
    MemoryTrigger,
    MemoryWorker,
    TokenUsage,
)
from telemetry.names import SpanName

# Neither the model's fault nor the range's: tried again, but not at once.
_OURS = frozenset({MemoryReason.INTERNAL_ERROR, MemoryReason.IO_ERROR, MemoryReason.DISK_FULL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session log: `.insomnia/sessions/<route key>/<id>.jsonl`. `route` is the configured name, or the folder's."""

    id: str
    route: str
    log: Path

    def __post_init__(self) -> None:
        if not SESSION_ID.fullmatch(self.id):  # it becomes part of file names
            raise ValueError(f"not a session id: {self.id!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, or a skip. `range`: first and last entry, both included. `recovered`: a dead process began it."""

    run_id: str
    status: MemoryStatus
    reason: MemoryReason
    detail: str = ""
    range: tuple[int, int] | None = None
    staged_ids: tuple[str, ...] = ()
    session_id: str = ""
    recovered: bool = False

    @property
    def completed(self) -> bool:
        return self.status is MemoryStatus.COMPLETED

    @property
    def moved_on(self) -> bool:
        """The cursor moved, so that there may be more to read behind it."""
        return self.completed or self.reason is MemoryReason.RANGE_QUARANTINED


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractLimits:
    """`seconds` of a whole run; `tokens` of a range, estimated as `extract_rows` says."""

    seconds: float = 120.0
    tokens: int = MAX_TOKENS


USUAL_LIMITS = ExtractLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every run of a workspace shares."""

    model: ExtractModel
    emit: Emit
    clock: Clock
    limits: ExtractLimits
    scope_of: ScopeOf
    cursors: Cursors
    staging: Staging
    runs: Runs
    quarantine: Quarantine


class Extraction:
    """`attempts`: what failed at this place before."""

    def __init__(self, parts: Parts, session: Session, trigger: MemoryTrigger, found: Unread, attempts: Attempts) -> None:
        self._parts, self._session, self._trigger, self._found, self._attempts = parts, session, trigger, found, attempts
        self._refused = False

    async def run(self, piece: Piece, link: TraceRef | None) -> RunResult:
        """The caller holds the session's lock."""
        parts = self._parts
        with parts.runs.memory_run(
            RunKey(MemoryWorker.EXTRACT, self._session.id),
            self._trigger,
            limit_seconds=parts.limits.seconds,
            model=parts.model.name,
            extract=self._work(piece),
            about=self._about(piece),
            link=link,
        ) as run:
            if run.said is None:
                await self._extract(run, piece)
        ended = result_of(run)
        if ended.reason in _OURS:
            failed = replace(self._attempts, failures=self._attempts.failures + 1, at=parts.clock.now())
            with suppress(OSError):  # it only spares the next try some haste
                parts.cursors.note_attempts(self._session.id, failed)
        return ended

    async def _extract(self, run: Run, piece: Piece) -> None:
        """Asks until a piece is short enough for the model."""
        began = self._parts.clock.monotonic()
        while True:
            left = self._parts.limits.seconds - (self._parts.clock.monotonic() - began)
            proposals, end = await self._ask(run, piece, left)
            shorter = self._smaller(piece) if end is not None and end.how is ModelHow.OVERFLOW else None
            if shorter is None:
                break
            piece = shorter
            run.extract = self._work(piece)
            run.note(self._about(piece))
        self._refused = end is not None and end.how in (ModelHow.OVERFLOW, ModelHow.REFUSED)
        failure = _failure(end, proposals)
        if failure is None:
            self._commit(run, piece, proposals)
        else:
            self._give_up(run, piece, *failure)

    async def _ask(self, run: Run, piece: Piece, seconds: float) -> tuple[Proposals, ModelEnd | None]:
        """The model's end; None: it took too long."""
        with self._parts.emit.span(SpanName.MEMORY_READ_RANGE):
            text = await asyncio.to_thread(prompt, piece)
        citable = [entry for entry in piece.entries if entry.citable]
        with_whom = persons([*piece.context, *piece.readable])
        try:
            async with asyncio.timeout(seconds) as limit:
                proposals = Proposals(
                    citable,
                    scope_of=self._parts.scope_of,
                    with_whom=with_whom,
                    cut_off=lambda: limit.reschedule(asyncio.get_running_loop().time()),
                )
                request = ExtractRequest(
                    run_id=run.id,
                    session_id=self._session.id,
                    route=self._session.route,
                    system=SYSTEM,
                    prompt=text,
                    evidence=proposals.numbers,
                    seconds=seconds,
                )
                end = await self._propose(request, proposals)
        except TimeoutError:
            return proposals, None
        run.model = end.model or run.model
        run.usage = _sum(run.usage, end.usage)
        run.cost_usd = end.cost_usd if run.cost_usd is None else run.cost_usd + (end.cost_usd or 0.0)
        return proposals, end

    async def _propose(self, request: ExtractRequest, proposals: Proposals) -> ModelEnd:
        try:
            return await self._parts.model.propose(request, proposals.call)
        except Exception as error:  # noqa: BLE001 whatever the model's side raises is a failure of the model
            return ModelEnd(how=ModelHow.ERROR, detail=where(error))

    def _smaller(self, piece: Piece) -> Piece | None:
        """Half of it, as far as there is a half."""
        tokens = smaller(piece)
        return take(self._found, tokens=tokens, open_tail=True) if tokens else None

    def _commit(self, run: Run, piece: Piece, proposals: Proposals) -> None:
        session, parts = self._session, self._parts
        with parts.emit.span(SpanName.MEMORY_COMMIT):
            cursor = piece.after(run.id)
            if proposals.accepted:
                at = _iso(parts.clock.now())
                files = [
                    candidate_fields(p, session_id=session.id, route=session.route, span=piece.range, run_id=run.id, staged_at=at)
                    for p in proposals.accepted
                ]
                batch = Batch(
                    session_id=session.id,
                    route=session.route,
                    start=piece.start,
                    cursor=cursor,
                    run_id=run.id,
                    entries=len(piece.readable),
                    staged_at=at,
                )
                batch = parts.staging.publish(batch, files)
                run.extract, cursor = staged_work(self._work(piece), batch), batch.cursor
            parts.cursors.advance(session.id, cursor)
        run.complete(MemoryReason.CANDIDATES_FOUND if proposals.accepted else MemoryReason.NO_CANDIDATES)
        parts.cursors.forget_attempts(session.id)

    def _give_up(self, run: Run, piece: Piece, reason: MemoryReason, detail: str) -> None:
        parts = self._parts
        blamed = blames_range(reason, refused=self._refused)
        verdict = judge_failure(self._attempts, piece, blames_range=blamed, now=parts.clock.now(), usual=parts.limits.tokens)
        if not verdict.quarantine:
            run.fail(reason, detail)
            parts.cursors.note_attempts(self._session.id, verdict.attempts)
            return
        run.note({**self._about(piece), "quarantines": True})
        parts.quarantine.put(
            self._session.id, route=self._session.route, piece=piece, why=reason, run_id=run.id, at=_iso(parts.clock.now())
        )
        parts.cursors.advance(self._session.id, piece.after(run.id))
        run.fail(
            MemoryReason.RANGE_QUARANTINED, f"{reason} {verdict.attempts.blamed} times at entries {piece.range[0]} to {piece.range[1]}"
        )
        parts.cursors.forget_attempts(self._session.id)

    def _work(self, piece: Piece) -> ExtractWork:
        return ExtractWork(session_id=self._session.id, route=self._session.route, range=piece.range, entries=len(piece.readable))

    def _about(self, piece: Piece) -> Mapping[str, Any]:
        first, last = piece.range
        route, count = self._session.route, len(piece.readable)
        return {"route": route, "generation": piece.generation, "start": first, "last": last, "entries": count}


def result(end: MemoryRunEnded) -> RunResult:
    work = end.extract or ExtractWork(session_id="", route="")
    return RunResult(
        run_id=end.run_id,
        status=end.status,
        reason=end.reason,
        detail=end.detail,
        range=work.range,
        staged_ids=work.staging_ids,
        session_id=work.session_id,
        recovered=end.recovered,
    )


def result_of(run: Run) -> RunResult:
    assert run.said is not None  # its block is left
    status, reason, detail = run.said
    work = run.extract or ExtractWork(session_id="", route="")
    return RunResult(
        run_id=run.id,
        status=status,
        reason=reason,
        detail=detail,
        range=work.range,
        staged_ids=work.staging_ids,
        session_id=work.session_id,
    )


def staged_work(work: ExtractWork, batch: Batch) -> ExtractWork:
    return replace(work, range=batch.range, entries=batch.entries, staged=len(batch.ids), staging_ids=batch.ids, staging_path=batch.path)


def _failure(end: ModelEnd | None, proposals: Proposals) -> tuple[MemoryReason, str] | None:
    """None: the tool was used as it should be. A model that goes on for ever is cut off, and what it said does not count."""
    if proposals.overrun:
        return MemoryReason.MODEL_OUTPUT_INVALID, f"the tool was called more than {proposals.calls - 1} times"
    if end is None:
        return MemoryReason.MODEL_TIMEOUT, ""
    if end.how is not ModelHow.ENDED:
        return MemoryReason.MODEL_ERROR, redact(end.detail) or end.how.value
    if not proposals.valid:
        return MemoryReason.MODEL_OUTPUT_INVALID, f"{proposals.calls} calls of the tool, none of them valid"
    return None


def _sum(before: TokenUsage | None, now: TokenUsage | None) -> TokenUsage | None:
    if before is None or now is None:
        return now or before
    return TokenUsage(
        input=before.input + now.input,
        output=before.output + now.output,
        cache_read=before.cache_read + now.cache_read,
        cache_creation=before.cache_creation + now.cache_creation,
    )


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
