"""What the runs of the last day have made of the records: those that they changed, as they were before.

What must stay true: it is read from the trash of the runs alone, which is what happened; what is not there any more counts for
nothing. So many runs in a row are held to a bound too, and a text that loses a little in each of them is seen to go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.consolidation.journal import Manifest
from memory.records import Record, Scope
from memory.store import Store
from memory.store_scan import stored_of
from memory.store_view import Key

LATELY_SECONDS = 86_400.0


def before_lately(store: Store, manifests: Sequence[Manifest], *, scope: Scope, now: float) -> Mapping[Key, Record]:
    """Of that scope. `manifests`: oldest first."""
    before: dict[Key, Record] = {}
    for manifest in reversed([each for each in manifests if abs(now - each.at) < LATELY_SECONDS]):
        for done in manifest.applied:
            content = store.trashed(done.kind, manifest.run_id, done.before_sha256) if done.before_sha256 else None
            record = stored_of(done.kind, done.slug, content, lambda *_: True).record if content is not None else None
            if isinstance(record, Record) and record.scope == scope:
                before[done.kind, done.slug] = record
            elif not done.before_sha256:
                before.pop((done.kind, done.slug), None)
    return before
