"""What a run costs the memory: records without a successor, and names, numbers and dates that stand nowhere any more. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.consolidation.overlay import Overlay
from memory.consolidation.specifics import Kept, specifics
from memory.records import Record, Scope
from memory.store_view import Key, StoreView


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """`records` and `specifics`: how much there was before the run, in its scope. `losses`, of each record that the run changes: how
    many specifics it takes with it; one that two of them had counts once.
    """

    records: int
    specifics: int
    losses: Mapping[Key, int]


def survival(overlay: Overlay, scope: Scope) -> Survival:
    """Each text is looked through once: a commit waits for this."""
    before, after = _texts(overlay.base, scope), _texts(overlay.view(), scope)
    found = {text: specifics(text) for text in {*before.values(), *after.values()}}
    kept = Kept(after.values(), known=found.__getitem__)
    counted_already: set[str] = set()
    losses: dict[Key, int] = {}
    for key in [each.key for each in overlay.files() if each.key in before]:
        gone = {one for one in found[before[key]] if one not in kept} - counted_already
        counted_already |= gone
        losses[key] = len(gone)
    every = frozenset[str]().union(*(found[text] for text in before.values()))
    return Survival(records=len(before), specifics=len(every), losses=losses)


def _texts(view: StoreView, scope: Scope) -> dict[Key, str]:
    return {(record.kind, record.slug): all_text(record) for record in view.records() if record.scope == scope}


def all_text(record: Record) -> str:
    return f"{record.title}\n{record.description}\n{record.body}"
