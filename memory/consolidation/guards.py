"""What a run may not do to the store, however good its reasons. Pure: the steps so far and one more, and what is wrong with it.

What must stay true: rails are here and not in a prompt. What a person pinned stays as it is; what is being used keeps its
specifics; a run takes away little; nothing said in a private place, and nothing that no person said, gains reach or weight by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory.consolidation.holding import holds
from memory.consolidation.overlay import Overlay, Step
from memory.consolidation.pending import Candidate
from memory.consolidation.specifics import Kept, has_number, lost
from memory.consolidation.survival import all_text
from memory.lint_links import pieces_of
from memory.lint_rules import Rule
from memory.lint_text import Finding
from memory.records import BadRecord, KnowledgeKind, Record, RecordKind, Scope, Status, Trust
from memory.store_view import Key
from telemetry.memory_events import RecordOp

MAX_OPERATIONS = 12  # of a run
LEAST_REMOVABLE, REMOVABLE_SHARE = 3, 5  # three, or a fifth of what the run may change
RUNS_A_DAY = 2  # that take away so much; a drain may be a hundred runs long
KEPT_SHARE = 0.5  # a text that keeps less of itself was replaced, whatever the tool is called
MAX_NAMED = 5

PERSONS = frozenset({Trust.USER, Trust.ASSISTANT})
_RULES_OF_KNOWLEDGE = frozenset({KnowledgeKind.POLICY, KnowledgeKind.RULE})
_IN_FORCE = frozenset({Status.OPEN, Status.ACTIVE})
_RULES = frozenset({RecordKind.DECISION, RecordKind.REQUEST, RecordKind.PREFERENCE, RecordKind.CONSTRAINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`scope`: of the run: only its records are changed. `candidates`: by id. `used`: records that somebody read lately. `before`:
    those that earlier runs changed within a day, as they were.
    """

    scope: Scope
    candidates: Mapping[str, Candidate]
    used: frozenset[Key] = frozenset()
    before: Mapping[Key, Record] = field(default_factory=dict)
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
        *_held(step, overlay, bounds),
        *_specifics(step, old, bounds),
        *_used(step, old, bounds),
        *_successor(step, old, overlay, bounds),
        *_merge(step, old, overlay),
        *_removals(step, overlay, bounds),
    )


def removed(overlay: Overlay, step: Step | None = None, *, before: Mapping[Key, Record] | None = None) -> int:
    """How many records that were there are gone, replaced, or hardly themselves any more: against the beginning of the run, and those
    of `before` against what they were then.
    """
    earlier = {(record.kind, record.slug): record for record in overlay.base.records()} | dict(before or {})
    after: dict[Key, Record | BadRecord | None] = {key: stored.record for key, stored in overlay.view().stored.items()}
    after |= step.records if step else {}
    touched = {key for each in (*overlay.steps, *([step] if step else [])) for key in each.records} | (before or {}).keys()
    return sum(_is_lost(earlier[key], after.get(key)) for key in touched & earlier.keys())


def removable(overlay: Overlay, scope: Scope, *, before: Mapping[Key, Record] | None = None) -> int:
    there = {(record.kind, record.slug) for record in overlay.base.records() if record.scope == scope}
    return max(LEAST_REMOVABLE, len(there | (before or {}).keys()) // REMOVABLE_SHARE)


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
    if result is not None and (_is_nobodys_rule(result) or (not old and _is_rule(result) and not any(map(_has_a_persons_word, cited)))):
        mend = "keep it as a fact, a lesson or a question, as what was claimed; or discard it"
        yield Finding(Rule.NOBODYS_RULE, "no person said this, so it is no decision, rule or request", mend)
    if result is not None and result.kind is RecordKind.KNOWLEDGE and not old and not _is_well_founded(cited):
        mend = "wait for a second source (defer it), or keep it as a lesson or question"
        yield Finding(Rule.KNOWLEDGE_SOURCES, "knowledge needs the word of a person, or two sources", mend)


def _is_nobodys_rule(record: Record) -> bool:
    return record.trust not in PERSONS and _is_rule(record)


def _is_rule(record: Record) -> bool:
    return record.kind in _RULES or record.knowledge_kind in _RULES_OF_KNOWLEDGE


def _has_a_persons_word(candidate: Candidate) -> bool:
    """The bot's own sentence alone may be what it had read on a page."""
    return any(entry.get("trust") == Trust.USER for entry in candidate.evidence)


def _is_well_founded(cited: Sequence[Candidate]) -> bool:
    said = {(one.session_id, entry.get("n")) for one in cited for entry in one.evidence}
    return any(one.trust is Trust.USER for one in cited) or (len(cited) > 1 and len(said) > 1)


def _held(step: Step, overlay: Overlay, bounds: Bounds) -> Iterator[Finding]:
    """Of what a change settles for the first time; in a second record it stands only beside it."""
    result = step.records[step.key]
    before = {one for each in overlay.steps for one in each.cited}
    cited = [bounds.candidates[one] for one in step.cited if one in bounds.candidates and one not in before]
    if result is not None and (missing := [one for one in cited if not holds(result, one.claim)]):
        mend = "say in it what the candidate says, in its language and with its numbers; or settle the candidate in another way"
        yield Finding(Rule.NOT_HELD, f"{len(missing)} of the cited candidates do not stand in the record", mend)


def _specifics(step: Step, old: Mapping[Key, Record], bounds: Bounds) -> Iterator[Finding]:
    """A drop is declared as a whole; of all else what is missing is named, or kept."""
    if step.op is RecordOp.DROP or not old:
        return
    before, after = list(map(all_text, old.values())), [all_text(record) for record in step.records.values() if record is not None]
    missing = lost(before, after)
    undeclared = sorted(one for one in missing if one not in Kept(step.dropped))
    if undeclared:
        named = ", ".join(undeclared[:MAX_NAMED]) + (f" and {len(undeclared) - MAX_NAMED} more" if len(undeclared) > MAX_NAMED else "")
        mend = "keep them, or name each in dropped_specifics with its reason"
        yield Finding(Rule.SPECIFICS_LOST, f"the new text has lost: {named}", mend)
    if step.op is RecordOp.TRIM and any(map(has_number, lost(after, before))):
        mend = "take out whole lines or sentences"
        yield Finding(Rule.SPECIFICS_LOST, "what is left reads as a number that was not there", mend)
    used = [key for key in old if key in bounds.used]
    if missing and used:
        mend = "keep its names, numbers and dates; if they are wrong now, let a newer record replace it"
        yield Finding(Rule.IN_USE, f"{_name(used[0])} was read by somebody lately, and loses some of what it says", mend)


def _used(step: Step, old: Mapping[Key, Record], bounds: Bounds) -> Iterator[Finding]:
    """What is read keeps most of its text, and goes out of use only because of something that was said."""
    result = step.records[step.key]
    if result is None:
        return
    for key in old.keys() & bounds.used:
        if _is_gutted(old[key], result):
            mend = "keep its text and add to it; if it is wrong now, let a newer record replace it"
            yield Finding(Rule.IN_USE, f"{_name(key)} was read by somebody lately, and would lose most of its text", mend)
        if _is_retired(old[key], result) and not step.cited:
            yield Finding(Rule.IN_USE, f"{_name(key)} was read by somebody lately", "cite the candidate that says that it holds no more")


def _successor(step: Step, old: Mapping[Key, Record], overlay: Overlay, bounds: Bounds) -> Iterator[Finding]:
    """That there is one at all is the linter's."""
    result = step.records[step.key]
    if result is None or not result.replaced_by or all(result.replaced_by == before.replaced_by for before in old.values()):
        return
    found = overlay.view().get(result.kind, result.replaced_by)
    successor = found.record if found else None
    if isinstance(successor, Record) and not successor.scope.admits(bounds.scope):
        yield Finding(Rule.REPLACED_BY, f"replaced_by names {result.replaced_by}, which is not there", "name one that a query shows")
    elif isinstance(successor, Record) and successor.status not in _IN_FORCE:
        yield Finding(Rule.REPLACED_BY, f"{result.replaced_by} is {successor.status} itself", "name the one that holds now")


def _merge(step: Step, old: Mapping[Key, Record], overlay: Overlay) -> Iterator[Finding]:
    result, anew = step.records[step.key], step.op in (RecordOp.MERGE, RecordOp.WRITE)
    if any(overlay.touched(key) for key in step.records if anew or step.records[key] is None):
        yield Finding(Rule.STALE, "this run has changed one of these already", "say it in one call, or leave the rest to a later run")
    if step.op is RecordOp.MERGE and result is not None and any(kind is not result.kind for kind, _ in step.records):
        yield Finding(Rule.MERGE_ACROSS, "records of different kinds are not one", "merge those of one kind")
    if step.op is RecordOp.MERGE and len({record.status for record in old.values()}) > 1:
        yield Finding(Rule.MERGE_ACROSS, "what holds and what does not are not one", "merge those of one status")


def _removals(step: Step, overlay: Overlay, bounds: Bounds) -> Iterator[Finding]:
    used = [key for key, record in step.records.items() if record is None and key in bounds.used]
    if used and step.op is RecordOp.DROP:
        yield Finding(
            Rule.IN_USE, f"{_name(used[0])} was read by somebody lately", "keep it; if it is wrong, let a newer record replace it"
        )
    most = removable(overlay, bounds.scope)
    if removed(overlay, step) > max(most, removed(overlay)):
        yield Finding(Rule.LOSS_CAP, f"a run takes away, replaces or rewrites at most {most} records", "leave the rest to a later run")
    lately = RUNS_A_DAY * removable(overlay, bounds.scope, before=bounds.before)
    if removed(overlay, step, before=bounds.before) > max(lately, removed(overlay, before=bounds.before)):
        yield Finding(Rule.LOSS_CAP, f"runs take away, replace or rewrite at most {lately} records a day", "leave the rest to tomorrow")


def _is_lost(before: Record, after: Record | BadRecord | None) -> bool:
    """What a person broke is still there."""
    return after is None or (isinstance(after, Record) and (_is_gutted(before, after) or _is_retired(before, after)))


def _is_gutted(before: Record, after: Record) -> bool:
    pieces = pieces_of(before.body)
    return len(pieces & pieces_of(after.body)) < KEPT_SHARE * len(pieces)


def _is_retired(before: Record, after: Record) -> bool:
    return after.status not in _IN_FORCE and before.status != after.status


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}"
