"""The tools of one consolidation run: each call is held against its schema, the linter and the guards, and lands on the overlay.

What must stay true: each call is one span, each change one fact (`planned` or `rejected`, linter failures included); nothing here
touches the store; a refused call costs no budget; who calls without end is told to stop, and after the run nothing is taken.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory.consolidation.guards import Bounds, check
from memory.consolidation.holding import holds
from memory.consolidation.ledger import Ledger, Resolution
from memory.consolidation.overlay import Overlay, Step, same_text
from memory.consolidation.pending import Candidate
from memory.consolidation.schemas import STAGING, STAGING_LIST, STAGING_READ, WRITINGS, Writing
from memory.consolidation.steps import Making, step_of
from memory.lint import Change, Violation, lint
from memory.lint_rules import Rule, Severity
from memory.reading_schemas import READINGS
from memory.reading_tools import ReadingTools
from memory.record_types import is_slug
from memory.records import Record, RecordKind, path_of, render, sha256
from memory.redact import redact
from memory.tools import MAX_ARGUMENT_CHARS, Asker, Json, ToolAnswer, ToolRefused, to_json
from memory.tools import check as check_arguments
from telemetry.emit import AttrValue, Emit, Span
from telemetry.memory_events import Disposition, OperationStatus, RecordOperation
from telemetry.metric_names import NONE
from telemetry.names import Attr, SpanName

MAX_CALLS = 300  # forty candidates with a query, a reading and a change each, twice over
LISTED_CHARS = 200  # of a claim, so that a list of forty fits into one answer
MAX_REFUSALS = 40  # in a row: a model that has not found a way by then will not
# Refused before the linter sees it, and by the same rule.
_RULE_OF = {
    "not_found": Rule.SLUG_MISSING,
    "slug_taken": Rule.SLUG_TAKEN,
    "no_match": Rule.STALE,
    "unknown_candidate": Rule.FOREIGN_CANDIDATE,
}
Named = tuple[RecordKind | None, str]  # what a call means, as far as it says so
_HOLDS = frozenset({Disposition.DUPLICATE, Disposition.ALREADY_COVERED})

_OVER = ToolRefused("run_over", "the run is over, and nothing more is taken", "end your turn")
_TOO_MANY = ToolRefused("too_many_calls", "the tools of this run were called too often", "end your turn now")


class _Rejected(Exception):
    """By the linter or the guards."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__()
        self.violations = violations


class Desk:
    """`asker`: the worker, with the scope of the run. `rejected`: the rules that refused each refused change."""

    def __init__(
        self, overlay: Overlay, ledger: Ledger, *, bounds: Bounds, making: Making, reading: ReadingTools, asker: Asker, emit: Emit
    ) -> None:
        self._overlay, self._ledger, self._bounds, self._making = overlay, ledger, bounds, making
        self._reading, self._asker, self._emit = reading, asker, emit
        self._refusals, self._closed, self._one_at_a_time = 0, False, threading.Lock()
        self.calls = 0
        self.rejected: list[frozenset[Rule]] = []

    @property
    def overrun(self) -> bool:
        return self.calls > MAX_CALLS or self._refusals >= MAX_REFUSALS

    @property
    def used(self) -> bool:
        """Something was planned or settled."""
        return bool(self._overlay.steps) or len(self._ledger.undecided) < len(self._bounds.candidates)

    def close(self) -> None:
        """What a child that goes on sends from now on is refused; a call under way is waited for."""
        with self._one_at_a_time:
            self._closed = True

    async def call(self, name: str, arguments: Json, call_id: str) -> ToolAnswer:
        self.calls += 1
        if self.overrun:
            return _stopping(_TOO_MANY)
        if name in READINGS:
            answer = await self._reading.call(name, arguments, self._asker, call_id=call_id)
        else:  # in a thread: the linter may have thousands of records to look through
            answer = await asyncio.to_thread(self._answer, name, arguments, call_id)
        self._refusals = self._refusals + 1 if answer.failed else 0
        return answer

    def _answer(self, name: str, arguments: Json, call_id: str) -> ToolAnswer:
        with self._one_at_a_time:
            return _stopping(_OVER) if self._closed else self._told_answer(name, arguments, call_id)

    def _told_answer(self, name: str, arguments: Json, call_id: str) -> ToolAnswer:
        about: dict[Attr, AttrValue] = {
            Attr.GEN_AI_OPERATION: "execute_tool",
            Attr.GEN_AI_TOOL_NAME: name if name in WRITINGS or name in STAGING else "unknown",
            Attr.MEMORY_RUN_ID: self._asker.run_id,
            **({Attr.GEN_AI_TOOL_CALL_ID: call_id} if call_id else {}),
        }
        with self._emit.span(SpanName.EXECUTE_TOOL, about, label=str(about[Attr.GEN_AI_TOOL_NAME])) as span:
            try:
                if name in WRITINGS:
                    return self._write(WRITINGS[name], arguments, span)
                if name in STAGING:
                    return ToolAnswer(to_json(self._staging(name, arguments, span)))
                raise ToolRefused("unknown_tool", "there is no such tool", "use the tools that you were given")
            except ToolRefused as refused:
                span.fail(refused.code)
                return refused.answer()

    # -- candidates ----------------------------------------------------------------------------------------------------
    def _staging(self, name: str, arguments: Json, span: Span) -> Json:
        check_arguments(arguments, STAGING[name].schema)
        if name == STAGING_LIST:
            return {"candidates": [self._listed(one) for one in self._bounds.candidates.values()]}
        candidate = self._bounds.candidates.get(arguments["candidate"])
        if candidate is None:
            raise ToolRefused("unknown_candidate", "there is no such candidate in this run", "use an id that staging_list shows")
        span.set({Attr.MEMORY_CANDIDATE: candidate.id})
        if name == STAGING_READ:
            return {**shown(candidate), **self._listed(candidate), "claim": candidate.claim, **evidence_of(candidate)}
        disposition = Disposition(arguments["disposition"])
        record = self._record_holding(candidate, arguments.get("record", "")) if disposition in _HOLDS else ""
        reason = redact(" ".join(arguments["reason"].split()))
        if not reason:
            raise ToolRefused("no_reason", "the reason is empty", "say in one sentence why")
        self._ledger.resolve(candidate.id, Resolution(disposition=disposition, reason=reason, record=record))
        span.set({Attr.MEMORY_DISPOSITION: disposition})
        return {"candidate": candidate.id, "disposition": disposition, "undecided": len(self._ledger.undecided)}

    def _listed(self, candidate: Candidate) -> Json:
        settled = self._ledger.settled(candidate.id)
        short = {"id": candidate.id, "kind": candidate.kind, "claim": candidate.claim[:LISTED_CHARS]}
        return {**short, "settled": settled.disposition if settled else None}

    def _record_holding(self, candidate: Candidate, name: str) -> str:
        kind, _, slug = name.rpartition("/")
        found = self._overlay.view().get(RecordKind(kind), slug) if kind in list(RecordKind) else None
        if found is None or not isinstance(found.record, Record) or not self._asker.may_see(found.record.scope):
            raise ToolRefused("unknown_record", "record names no record that is there", "name it as kind/slug, as a query shows it")
        if not holds(found.record, candidate.claim):
            what = "hardly a word of the candidate, or not half of its numbers, stands in that record"
            raise ToolRefused("not_in_record", what, "cite it in a change of the record; or discard it, and say why")
        return f"{found.kind}/{found.slug}"

    # -- records -------------------------------------------------------------------------------------------------------
    def _write(self, writing: Writing, arguments: Json, span: Span) -> ToolAnswer:
        named = _named(writing, arguments)
        try:
            step = self._step(writing, arguments)
            warned = self._check(step)
        except ToolRefused as refused:
            rules = tuple(rule for code, rule in _RULE_OF.items() if code == refused.code)
            self.rejected += [frozenset(rules)] if rules else []
            self._tell(span, writing, named, OperationStatus.REJECTED, None, rules)
            raise
        except _Rejected as rejected:
            rules = tuple(sorted({each.rule for each in rejected.violations}))
            self.rejected.append(frozenset(rules))
            self._tell(span, writing, named, OperationStatus.REJECTED, None, rules)
            span.fail("linter")
            return _refused_by(rejected.violations)
        key, record = step.key, step.records[step.key]
        before = self._overlay.view().get(*key)
        changed = len(step.records) > 1 or record is None or before is None or not same_text(before, record)
        if changed:
            self._tell(span, writing, key, OperationStatus.PLANNED, record, tuple(sorted({each.rule for each in warned})))
            self._overlay.accept(step)
        self._ledger.cite(step.cited, f"{key[0]}/{key[1]}")
        left = self._bounds.operations - len(self._overlay.steps)
        said = {"kind": key[0], "slug": key[1], "changed": changed, "changes_left": left, "undecided": len(self._ledger.undecided)}
        return ToolAnswer(to_json({**said, **({"warnings": list(map(_told, warned))} if warned else {})}))

    def _step(self, writing: Writing, arguments: Json) -> Step:
        check_arguments(arguments, writing.spec.schema)
        try:
            if len(to_json(arguments)) > MAX_ARGUMENT_CHARS:
                raise ToolRefused("too_long", "the arguments are too long", "say it in fewer words, or in several records")
            return step_of(writing, arguments, self._overlay.view(), self._making)
        except ValueError as error:  # half of a surrogate pair, or another text that no file can hold
            raise ToolRefused("malformed", "a text has characters that cannot be written", "write it anew") from error

    def _check(self, step: Step) -> tuple[Violation, ...]:
        """Returns the warnings. Raises _Rejected with everything that is wrong."""
        view, violations = self._overlay.view(), list[Violation]()
        after = Overlay(view)
        for key, record in sorted(step.records.items(), key=lambda each: each[1] is None):
            stored = after.view().get(*key)
            change = Change(kind=key[0], slug=key[1], after=record, expected_sha256=stored.sha256 if stored else None)
            violations += map(self._without_hidden_names, lint(after.view(), change).violations)
            after.accept(Step(op=step.op, records={key: record}))
        for finding in check(step, self._overlay, self._bounds):
            path = path_of(*step.key)
            violations.append(
                Violation(rule=finding.rule, severity=finding.rule.severity, path=path, message=finding.message, mend=finding.mend)
            )
        if any(each.severity is Severity.ERROR for each in violations):
            raise _Rejected(tuple(violations))
        return tuple(violations)

    def _without_hidden_names(self, violation: Violation) -> Violation:
        """What refers to a record may be a private one, and its name says what it is about."""
        hidden = (record for record in self._overlay.view().records() if not self._asker.may_see(record.scope))
        if violation.rule is not Rule.STILL_REFERRED_TO or not any(f"{each.kind}/{each.slug} " in violation.message for each in hidden):
            return violation
        return replace(violation, message="a record that cannot be shown here refers to it", mend="keep this one")

    def _tell(
        self, span: Span, writing: Writing, named: Named, status: OperationStatus, record: Record | None, rules: Sequence[Rule] = ()
    ) -> None:
        kind, slug = named
        before = self._overlay.view().get(kind, slug) if kind else None
        hashes = (before.sha256 if before else "", sha256(render(record)) if record else "")
        about: dict[Attr, AttrValue] = {Attr.MEMORY_OP: writing.op, Attr.MEMORY_OP_STATUS: status, Attr.MEMORY_KIND: kind or NONE}
        told = {Attr.MEMORY_SLUG: slug, Attr.MEMORY_BEFORE: hashes[0], Attr.MEMORY_AFTER: hashes[1]}
        span.set({**about, **{attr: text for attr, text in told.items() if text}, **({Attr.MEMORY_LINT: list(rules)} if rules else {})})
        self._emit(
            RecordOperation(
                kind=kind,
                slug=slug,
                path=path_of(kind, slug) if kind and slug else "",
                op=writing.op,
                status=status,
                before_sha256=hashes[0],
                after_sha256=hashes[1],
                lint=tuple(map(str, rules)),
                run_id=self._asker.run_id,
            )
        )


def shown(candidate: Candidate) -> dict[str, Any]:
    """As a model sees it."""
    return {
        "id": candidate.id,
        "kind": candidate.kind,
        "claim": candidate.claim,
        "why_useful": candidate.why_useful,
        "trust": candidate.trust,
        "confidence": candidate.confidence,
        "said_at": candidate.said_at.isoformat().replace("+00:00", "Z"),
    }


def evidence_of(candidate: Candidate) -> Json:
    return {"evidence": [{"ts": one["ts"], "trust": one.get("trust", ""), "excerpt": redact(one["excerpt"])} for one in candidate.evidence]}


def _named(writing: Writing, arguments: Mapping[str, Any]) -> Named:
    """Of what may not hold to the schema: only what cannot be anybody's text."""
    kind, slug = arguments.get("kind"), arguments.get("slug")
    known = RecordKind(kind) if isinstance(kind, str) and kind in list(RecordKind) else None
    return RecordKind.KNOWLEDGE if writing.knowledge else known, redact(slug) if isinstance(slug, str) and is_slug(slug) else ""


def _refused_by(violations: Sequence[Violation]) -> ToolAnswer:
    error = {
        "code": "refused",
        "message": "nothing of this was taken",
        "fix": "mend every violation, and call it again",
        "violations": [_told(each) for each in violations],
    }
    return ToolAnswer(to_json({"error": error}), failed=True)


def _told(violation: Violation) -> Json:
    return {"rule": violation.rule, "message": violation.message, "mend": violation.mend}


def _stopping(refused: ToolRefused) -> ToolAnswer:
    return ToolAnswer(refused.answer().text, failed=True, stop=True)
