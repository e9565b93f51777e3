"""What a run may not do to the store, however good its reasons. Pure: the steps so far and one more, and what is wrong with it.

What must stay true: rails are here and not in a prompt. What a person pinned stays as it is; what is being used keeps its
specifics; a run takes away little; nothing said in a private place, and nothing that no person said, gains reach or weight by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memory.consolidation.overlay import Overlay, Step
from memory.consolidation.pending import Candidate
from memory.consolidation.specifics import flat, lost
from memory.consolidation.survival import all_text
from memory.lint_links import pieces_of
from memory.lint_rules import Rule
from memory.lint_text import Finding
from memory.records import KnowledgeKind, Record, RecordKind, Scope, Status, Trust
from memory.store_view import Key
from telemetry.memory_events import RecordOp

MAX_OPERATIONS = 12  # of a run
LEAST_REMOVABLE, REMOVABLE_SHARE = 3, 5  # three, or a fifth of what the run may change
KEPT_SHARE = 0.5  # a text that keeps less of itself was replaced, whatever the tool is called
MAX_NAMED = 5

PERSONS = frozenset({Trust.USER, Trust.ASSISTANT})
_RULES_OF_KNOWLEDGE = frozenset({KnowledgeKind.POLICY, KnowledgeKind.RULE})
_RULES = frozenset({RecordKind.DECISION, RecordKind.REQUEST, RecordKind.PREFERENCE, RecordKind.CONSTRAINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`scope`: of the run: only its records are changed. `candidates`: by id. `used`: records that somebody read lately."""

    scope: Scope
    candidates: Mapping[str, Candidate]
    used: frozenset[Key] = frozenset()
    operations: int = MAX_OPERATIONS


def check(step: Step, overlay: Overlay, bounds: Bounds) -> tuple[Finding, ...]:
    """Everything that forbids the step."""
    before = {key: stored.record for key in step.records if (stored := overlay.view().get(*key))}
    old = {key: record for key, record in before.items() if isinstance(record, Record)}
    return (
        *_budget(overlay, bounds),
        *_pinned(old),
        *_scope(step, old, bounds),
        *_trust(step, old, bounds),
        *_specifics(step, old, bounds),
        *_merge(step, overlay),
        *_removals(step, overlay, bounds),
    )


def removed(overlay: Overlay, step: Step | None = None) -> int:
    """How many records that were there are gone, replaced, or hardly themselves any more."""
    after: dict[Key, Record | None] = {}
    for each in (*overlay.steps, *([step] if step else [])):
        after |= each.records
    count = 0
    for key, record in after.items():
        base = overlay.base.get(*key)
        if base is not None and isinstance(base.record, Record):
            count += record is None or _is_gutted(base.record, record) or _is_retired(base.record, record)
    return count


def removable(overlay: Overlay, scope: Scope) -> int:
    total = sum(record.scope == scope for record in overlay.base.records())
    return max(LEAST_REMOVABLE, total // REMOVABLE_SHARE)


def _budget(overlay: Overlay, bounds: Bounds) -> Iterator[Finding]:
    if len(overlay.steps) >= bounds.operations:
        mend = "resolve what is left as deferred; it comes again in the next run"
        yield Finding(Rule.BUDGET, f"this run has made its {bounds.operations} changes", mend)


def _pinned(old: Mapping[Key, Record]) -> Iterator[Finding]:
    for key, record in old.items():
        if record.pinned:
            yield Finding(Rule.PINNED, f"{_name(key)} is pinned: only people change it", "write what is new into a record of its own")


def _scope(step: Step, old: Mapping[Key, Record], bounds: Bounds) -> Iterator[Finding]:
    for key, record in old.items():
        if record.scope != bounds.scope:
            mend = f"write a record of its own: this run's is {bounds.scope}"
            yield Finding(Rule.SCOPE, f"{_name(key)} has the scope {record.scope}, and other places may read it", mend)
    foreign = [one for one in step.cited if one not in bounds.candidates]
    if foreign:
        yield Finding(
            Rule.FOREIGN_CANDIDATE, f"{len(foreign)} of the cited candidates are not of this run", "cite ids as staging_list shows them"
        )
    if any(bounds.candidates[one].scope != bounds.scope for one in step.cited if one in bounds.candidates):
        yield Finding(Rule.SCOPE, "a cited candidate was said in another place", f"cite those of the scope {bounds.scope}")


def _trust(step: Step, old: Mapping[Key, Record], bounds: Bounds) -> Iterator[Finding]:
    cited = [bounds.candidates[one] for one in step.cited if one in bounds.candidates]
    trusts = {one.trust in PERSONS for one in cited} | {record.trust in PERSONS for record in old.values()}
    if len(trusts) > 1:
        mend = "write what a tool or a page said into a record of its own"
        yield Finding(Rule.TRUST, "it would mix what people said with what a tool or a page said", mend)
    result = step.records[step.key]
    if result is not None and _is_nobodys_rule(result):
        mend = "keep it as a fact, a lesson or a question, as what was claimed; or discard it"
        yield Finding(Rule.NOBODYS_RULE, "no person said this, so it is no decision, rule or request", mend)
    if result is not None and result.kind is RecordKind.KNOWLEDGE and not old and not _is_well_founded(cited):
        mend = "wait for a second source (defer it), or keep it as a lesson or question"
        yield Finding(Rule.KNOWLEDGE_SOURCES, "knowledge needs the word of a person, or two sources", mend)


def _is_nobodys_rule(record: Record) -> bool:
    return record.trust not in PERSONS and (record.kind in _RULES or record.knowledge_kind in _RULES_OF_KNOWLEDGE)


def _is_well_founded(cited: Sequence[Candidate]) -> bool:
    said = {(one.session_id, entry.get("n")) for one in cited for entry in one.evidence}
    return any(one.trust is Trust.USER for one in cited) or (len(cited) > 1 and len(said) > 1)


def _specifics(step: Step, old: Mapping[Key, Record], bounds: Bounds) -> Iterator[Finding]:
    """A drop is declared as a whole; of all else what is missing is named, or kept."""
    if step.op is RecordOp.DROP or not old:
        return
    after = [all_text(record) for record in step.records.values() if record is not None]
    missing = lost((all_text(record) for record in old.values()), after)
    declared = [flat(one) for one in step.dropped]
    undeclared = sorted(one for one in missing if not any(one in each for each in declared))
    if undeclared:
        named = ", ".join(undeclared[:MAX_NAMED]) + (f" and {len(undeclared) - MAX_NAMED} more" if len(undeclared) > MAX_NAMED else "")
        mend = "keep them, or name each in dropped_specifics with its reason"
        yield Finding(Rule.SPECIFICS_LOST, f"the new text has lost: {named}", mend)
    used = [key for key in old if key in bounds.used]
    if missing and used:
        mend = "keep its names, numbers and dates; if they are wrong now, let a newer record replace it"
        yield Finding(Rule.IN_USE, f"{_name(used[0])} was read by somebody lately, and loses some of what it says", mend)


def _merge(step: Step, overlay: Overlay) -> Iterator[Finding]:
    result = step.records[step.key]
    if any(overlay.touched(key) for key in step.records if step.op is RecordOp.MERGE or step.records[key] is None):
        yield Finding(Rule.STALE, "this run has changed one of these already", "say it in one call, or leave the rest to a later run")
    if step.op is RecordOp.MERGE and result is not None and any(kind is not result.kind for kind, _ in step.records):
        yield Finding(Rule.MERGE_ACROSS, "records of different kinds are not one", "merge those of one kind")


def _removals(step: Step, overlay: Overlay, bounds: Bounds) -> Iterator[Finding]:
    used = [key for key, record in step.records.items() if record is None and key in bounds.used]
    if used and step.op is RecordOp.DROP:
        yield Finding(
            Rule.IN_USE, f"{_name(used[0])} was read by somebody lately", "keep it; if it is wrong, let a newer record replace it"
        )
    most = removable(overlay, bounds.scope)
    if removed(overlay, step) > max(most, removed(overlay)):
        yield Finding(Rule.LOSS_CAP, f"a run takes away, replaces or rewrites at most {most} records", "leave the rest to a later run")


def _is_gutted(before: Record, after: Record) -> bool:
    pieces = pieces_of(before.body)
    return len(pieces & pieces_of(after.body)) < KEPT_SHARE * len(pieces)


def _is_retired(before: Record, after: Record) -> bool:
    return after.status in (Status.REPLACED, Status.STALE, Status.RESOLVED) and before.status != after.status


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}"
