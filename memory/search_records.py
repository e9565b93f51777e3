"""The store's records in a search index that follows what changes on disk.

What must stay true: what is searched is the view that was given, hand-made changes included; a file that is no record is
found by its text, for it must not vanish; whoever may not see a record learns nothing of it, not even from the order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from memory.records import BadRecord, Status
from memory.search import Document, Index
from memory.store_view import Key, Stored, StoreView


class RecordSearch:
    """May be asked from several threads."""

    def __init__(self) -> None:
        self._index: Index[Key] = Index()
        self._hashes: dict[Key, str] = {}
        self._lock = threading.Lock()

    def search(self, view: StoreView, query: str, *, seen: Callable[[Stored], bool]) -> Sequence[Stored]:
        """Best first, what was replaced behind all others."""
        among = {key for key, stored in view.stored.items() if seen(stored)}
        with self._lock:
            self._follow(view)
            hits = self._index.search(query, among=among)
        found = [view.stored[hit.key] for hit in hits]
        return sorted(found, key=_is_replaced)

    def _follow(self, view: StoreView) -> None:
        for key in self._hashes.keys() - view.stored.keys():
            self._index.remove(key)
            del self._hashes[key]
        for key, stored in view.stored.items():
            if self._hashes.get(key) != stored.sha256:
                self._index.put(_document(key, stored))
                self._hashes[key] = stored.sha256


def _document(key: Key, stored: Stored) -> Document[Key]:
    """A slug says in English what a title may say in Japanese."""
    record, slug = stored.record, stored.slug.replace("-", " ")
    if isinstance(record, BadRecord):
        return Document(key, slug, "", stored.text)
    return Document(key, f"{record.title}\n{slug}", record.description, record.body, record.updated_at.isoformat())


def _is_replaced(stored: Stored) -> bool:
    return not isinstance(stored.record, BadRecord) and stored.record.status is Status.REPLACED
