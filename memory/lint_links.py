"""What records say of each other: references, successors, and texts that say the same twice."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from memory.lint_rules import Rule
from memory.lint_text import Finding
from memory.records import Record, RecordKind, Status

Key = tuple[RecordKind, str]
REFERENCE = re.compile(r"\[\[([^\[\]\n|]{1,100})(?:\|[^\[\]\n]{0,200})?\]\]")
# `[[ -f x ]]` in a shell script refers to nothing.
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ALIKE = 0.8  # of all pieces that two texts have, how many are in both
MOST_TWINS = 3  # of a text that is there a hundred times, three are enough to say so


def references(record: Record) -> list[str]:
    """The `slug` or `kind/slug` of each `[[...]]` in the text, code left out."""
    return [match[1].strip() for match in REFERENCE.finditer(_CODE.sub("", record.body))]


class Links:
    """`unreadable`: what is there and is no record at the moment; to refer to it is no mistake."""

    def __init__(self, records: Iterable[Record], unreadable: Collection[Key] = ()) -> None:
        self._records = {(record.kind, record.slug): record for record in records}
        self._there = {(str(kind), slug) for kind, slug in (*self._records, *unreadable)}
        self._slugs = {slug for _, slug in self._there}

    def check(self, record: Record) -> Iterator[Finding]:
        for name in dict.fromkeys(references(record)):
            if not self._has(name):
                mend = "name a record that is there, as slug or kind/slug, or take the brackets away"
                yield Finding(Rule.REFERENCE, f"[[{name}]] is not there", mend)
        if (record.status is Status.REPLACED) != bool(record.replaced_by):
            mend = "give both, or neither: status replaced, and in replaced_by the slug of what holds now"
            yield Finding(Rule.REPLACED_STATUS, f"status {record.status} and replaced_by do not agree", mend)
        if record.replaced_by:
            yield from self._check_successor(record)

    def check_removal(self, kind: RecordKind, slug: str) -> Iterator[Finding]:
        for record in self._records.values():
            replaced = record.kind is kind and record.replaced_by == slug
            named = any(_means(name, kind, slug) and not self._has(name) for name in references(record))
            if replaced or named:
                mend = "mend that one first, or name a successor in replaced_by and keep this one"
                yield Finding(Rule.STILL_REFERRED_TO, f"{record.kind}/{record.slug} refers to it", mend)

    def _check_successor(self, record: Record) -> Iterator[Finding]:
        if record.replaced_by == record.slug or not self._has(f"{record.kind}/{record.replaced_by}"):
            what = "itself" if record.replaced_by == record.slug else f"{record.replaced_by}, which is not there"
            mend = f"name the slug of another {record.kind} that is there"
            yield Finding(Rule.REPLACED_BY, f"replaced_by names {what}", mend)
        elif self._comes_back(record):
            mend = "let the one that holds have no replaced_by"
            yield Finding(Rule.REPLACED_CYCLE, f"following replaced_by from {record.slug} leads back to it", mend)

    def _comes_back(self, record: Record) -> bool:
        seen: set[str] = set()
        slug = record.replaced_by
        while slug and slug not in seen and (at := self._records.get((record.kind, slug))):
            if slug == record.slug:
                return True
            seen.add(slug)
            slug = at.replaced_by
        return False

    def _has(self, name: str) -> bool:
        kind, slash, slug = name.rpartition("/")
        return (kind, slug) in self._there if slash else slug in self._slugs


def _means(name: str, kind: RecordKind, slug: str) -> bool:
    return name in (slug, f"{kind}/{slug}")


def near_duplicates(records: Iterable[Record]) -> dict[Key, tuple[str, ...]]:
    """For each record the `kind/slug` of at most MOST_TWINS before it, of its kind and scope, that say nearly the same.
    Replaced ones do not count.
    """
    groups: dict[tuple[str, str], list[tuple[Record, frozenset[str]]]] = defaultdict(list)
    for record in records:
        if record.status is not Status.REPLACED and (pieces := pieces_of(record.body)):
            groups[str(record.kind), str(record.scope)].append((record, pieces))
    twins: dict[Key, tuple[str, ...]] = {}
    for group in groups.values():
        for record, others in _alike(group):
            twins[record.kind, record.slug] = tuple(f"{other.kind}/{other.slug}" for other in others)
    return twins


def twins_of(record: Record, others: Iterable[Record]) -> tuple[str, ...]:
    """The same for one record that is to be written: it is the last."""
    pieces = pieces_of(record.body)
    if record.status is Status.REPLACED or not pieces:
        return ()
    beside = (each for each in others if (each.kind, each.scope) == (record.kind, record.scope) and each.status is not Status.REPLACED)
    alike = (f"{each.kind}/{each.slug}" for each in beside if _same(pieces, pieces_of(each.body)))
    return tuple(islice(alike, MOST_TWINS))


def _alike(group: list[tuple[Record, frozenset[str]]]) -> Iterator[tuple[Record, list[Record]]]:
    """Two sets that have ALIKE of their pieces in common have at least k of them among the rarest (1 - ALIKE) + k of each: only
    those that do are compared.
    """
    common = Counter(piece for _, pieces in group for piece in pieces)
    needed = [max(1, min(10, len(pieces) // 20)) for _, pieces in group]
    by_rare: dict[str, list[int]] = defaultdict(list)
    for number, (record, pieces) in enumerate(group):
        most = len(pieces) - math.ceil(ALIKE * len(pieces)) + needed[number]
        rarest = sorted(pieces, key=lambda piece: (common[piece], piece))[:most]
        shared = Counter(earlier for piece in rarest for earlier in by_rare[piece])
        candidates = sorted(earlier for earlier, times in shared.items() if times >= min(needed[number], needed[earlier]))
        alike = (group[earlier][0] for earlier in candidates if _same(pieces, group[earlier][1]))
        if found := list(islice(alike, MOST_TWINS)):
            yield record, found
        for piece in rarest:
            by_rare[piece].append(number)


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    both = len(one & other) if min(len(one), len(other)) >= ALIKE * max(len(one), len(other)) else 0
    return both >= ALIKE * (len(one) + len(other) - both)


def pieces_of(text: str) -> frozenset[str]:
    """Every four characters in a row: of two characters, any two long English texts have most in common."""
    plain = "".join(unicodedata.normalize("NFKC", text).casefold().split())
    return frozenset(plain[at : at + 4] for at in range(max(len(plain) - 3, 1))) if plain else frozenset()
