"""The linter: what is wrong with the store, or with one change that somebody is about to make to it.

What must stay true: pure, and the same rules for tools and for files edited by hand; all violations at once, so that a model
or a person can mend them in one go; no message repeats a secret or more than a few words of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memory.lint_links import Links, near_duplicates, twins_of
from memory.lint_rules import Rule, Severity
from memory.lint_text import Finding, check_secrets, check_text
from memory.records import BadRecord, Record, RecordKind, is_slug, path_of, render
from memory.store_view import MAX_FILE_BYTES, Stored, StoreView


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be made of a record. `after` None: it is removed. `expected_sha256`: what it was read as, None for a new one."""

    kind: RecordKind
    slug: str
    after: Record | None
    expected_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """`path` below `.insomnia`; `line` counts from 1, 0 where it is not about a line. `mend`: what to do about it."""

    rule: Rule
    severity: Severity
    path: str
    message: str
    mend: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    violations: tuple[Violation, ...]

    @property
    def errors(self) -> tuple[Violation, ...]:
        return tuple(each for each in self.violations if each.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Violation, ...]:
        return tuple(each for each in self.violations if each.severity is Severity.WARNING)


def lint(view: StoreView, change: Change | None = None) -> Report:
    """Without a change: of everything that is there. With one: only of what the change does."""
    return Report(tuple(_of_store(view) if change is None else _of_change(view, change)))


def _of_store(view: StoreView) -> Iterator[Violation]:
    for stray in view.strays:
        yield _violation(stray.path, Finding(stray.rule, stray.message, stray.mend))
    links = Links(view.records(), _unreadable(view))
    twins = near_duplicates(view.records())
    for stored in view.stored.values():
        if isinstance(stored.record, BadRecord):
            for problem in stored.record.problems:
                yield _violation(stored.path, Finding(problem.rule, problem.message, problem.mend), problem.line)
            for finding in check_secrets("file", stored.text):
                yield _violation(stored.path, finding)
        else:
            yield from _of_record(stored.record, links, twins.get((stored.kind, stored.slug), ()))


def _of_record(record: Record, links: Links, twins: tuple[str, ...]) -> Iterator[Violation]:
    path = path_of(record.kind, record.slug)
    for finding in (*check_text(record), *check_secrets("slug", record.slug), *links.check(record)):
        yield _violation(path, finding)
    for twin in twins:
        mend = f"make one record of it and {twin}: `replaced_by` in the older one"
        yield _violation(path, Finding(Rule.NEAR_DUPLICATE, f"it says nearly the same as {twin}", mend))


def _of_change(view: StoreView, change: Change) -> Iterator[Violation]:
    path = path_of(change.kind, change.slug)
    if not is_slug(change.slug):
        yield _violation("", Finding(Rule.SLUG, "the slug is none", "use small letters, digits and single hyphens, at most 64"))
        return
    if conflict := _conflict(view.get(change.kind, change.slug), change):
        yield _violation(path, conflict)
        return
    others = [record for record in view.records() if (record.kind, record.slug) != (change.kind, change.slug)]
    if change.after is None:
        for finding in Links(others, _unreadable(view)).check_removal(change.kind, change.slug):
            yield _violation(path, finding)
        return
    if len(render(change.after).encode("utf-8", "replace")) > MAX_FILE_BYTES:
        yield _violation(path, Finding(Rule.FILE_LONG, "the file would be too long", "make several records of it"))
    after = (*others, change.after)
    yield from _of_record(change.after, Links(after, _unreadable(view)), twins_of(change.after, others))


def _unreadable(view: StoreView) -> list[tuple[RecordKind, str]]:
    return [key for key, stored in view.stored.items() if isinstance(stored.record, BadRecord)]


def _conflict(stored: Stored | None, change: Change) -> Finding | None:
    if change.expected_sha256 is None:
        taken = Finding(Rule.SLUG_TAKEN, "there is a record of this slug", "edit that one, or take another slug")
        return taken if stored else None
    if stored is None:
        return Finding(Rule.SLUG_MISSING, "there is no such record any more", "write it anew if it is still true")
    if stored.sha256 != change.expected_sha256:
        return Finding(Rule.STALE, "the record was changed after you read it", "read it again, and repeat your change on what it says now")
    return None


def _violation(path: str, finding: Finding, line: int = 0) -> Violation:
    rule = finding.rule
    return Violation(rule=rule, severity=rule.severity, path=path, message=finding.message, mend=finding.mend, line=line)
