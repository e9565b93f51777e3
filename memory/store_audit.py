"""Tells of records that somebody changed outside the tools: at start, and before a worker begins.

What must stay true: each such change is told once, and never undone; a change whose telling was cut short by a kill is told
again rather than not at all.
"""

from __future__ import annotations

from memory.store import Store, Unaudited
from telemetry.emit import Emit
from telemetry.memory_events import OperationStatus, RecordOperation


def tell_unaudited(store: Store, emit: Emit) -> tuple[Unaudited, ...]:
    """Raises OSError and StoreBusy."""
    changes = store.unaudited()
    for change in changes:
        emit(
            RecordOperation(
                kind=change.kind,
                slug=change.slug,
                path=change.path,
                op=change.op,
                status=OperationStatus.APPLIED,
                before_sha256=change.before_sha256,
                after_sha256=change.after_sha256,
                unaudited=True,
            )
        )
    store.notice(changes)
    return changes
