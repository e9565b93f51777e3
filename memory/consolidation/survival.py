"""What a run costs the memory: records without a successor, and names, numbers and dates that stand nowhere any more. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.consolidation.overlay import Overlay
from memory.consolidation.specifics import lost, specifics
from memory.records import Record, Scope
from memory.store_view import Key, StoreView


def counted(overlay: Overlay, scope: Scope) -> Mapping[str, int]:
    """How much there was before the run, in its scope."""
    before = _texts(overlay.base, scope)
    return {"records": len(before), "specifics": len(frozenset[str]().union(*map(specifics, before.values())))}


def losses(overlay: Overlay, scope: Scope) -> Mapping[Key, int]:
    """Of the records that the run changes: how many specifics each takes with it; one that two of them had counts once."""
    before, after = _texts(overlay.base, scope), list(_texts(overlay.view(), scope).values())
    changed = [each.key for each in overlay.files() if each.key in before]
    counted_already: set[str] = set()
    found: dict[Key, int] = {}
    for key in changed:
        gone = lost([before[key]], after) - counted_already
        counted_already |= gone
        found[key] = len(gone)
    return found


def _texts(view: StoreView, scope: Scope) -> dict[Key, str]:
    return {(record.kind, record.slug): all_text(record) for record in _of(view, scope)}


def _of(view: StoreView, scope: Scope) -> Sequence[Record]:
    return [record for record in view.records() if record.scope == scope]


def all_text(record: Record) -> str:
    return f"{record.title}\n{record.description}\n{record.body}"
