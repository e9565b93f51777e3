"""What stood on disk at one moment: every record, and whatever else lay where records should. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memory.lint_rules import Rule
from memory.records import BadRecord, Record, RecordKind

Key = tuple[RecordKind, str]
MAX_FILE_BYTES = 64 * 1024  # a body of 8,000 Japanese characters is 24,000 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file. `path` below `.insomnia`; `text` is empty where it is no text. `unaudited`: a person wrote it last, not a tool."""

    kind: RecordKind
    slug: str
    path: str
    record: Record | BadRecord
    sha256: str
    text: str
    unaudited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Something that is never read. `path` below `.insomnia`."""

    rule: Rule
    path: str
    message: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """A snapshot; it does not change. In the order of kinds and slugs."""

    stored: Mapping[Key, Stored]
    strays: tuple[Stray, ...] = ()

    def get(self, kind: RecordKind, slug: str) -> Stored | None:
        return self.stored.get((kind, slug))

    def records(self) -> Iterator[Record]:
        """The good ones."""
        return (each.record for each in self.stored.values() if isinstance(each.record, Record))
