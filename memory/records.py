"""A record: one thing worth knowing, as a Markdown file with frontmatter that people read, edit and compare.

What must stay true: the file's name is its identity; `parse(kind, slug, render(record)) == record` for every record that
can be made; a file is a record whole or not at all (`BadRecord` with every problem of it); pure, nothing here touches a file.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from memory.frontmatter import Field, Problem, split, written
from memory.lint_rules import Rule
from memory.record_types import (
    MAX_SLUG_CHARS,
    STATUSES,
    KnowledgeKind,
    Record,
    Scope,
    ScopeKind,
    Source,
    Status,
    Trust,
    is_slug,
    moment,
    path_of,
    sha256,
)
from telemetry.memory_events import RecordKind

__all__ = [
    "MAX_SLUG_CHARS",
    "STATUSES",
    "BadRecord",
    "KnowledgeKind",
    "Problem",
    "Record",
    "RecordKind",
    "Scope",
    "ScopeKind",
    "Source",
    "Status",
    "Trust",
    "is_slug",
    "moment",
    "parse",
    "path_of",
    "render",
    "sha256",
]

_REQUIRED = ("title", "description", "status", "scope", "trust", "created_at", "updated_at")
_OPTIONAL = ("pinned", "replaced_by", "run_id", "sources")
_OF_SOURCE = ("session", "range", "candidate", "ts")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)")
_RANGE = re.compile(r"(\d{1,12})-(\d{1,12})")
_TIME_MEND = "write it as 2026-01-31T09:00:00Z, or with +09:00 at its end"


class BadRecord(Exception):
    """The text is no record; `problems` are all that is wrong with it, in the order of its lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"line {problem.line}: {problem.message}" for problem in problems))
        self.problems = problems


def parse(kind: RecordKind, slug: str, text: str) -> Record:
    """Raises BadRecord with every problem."""
    front = split(text)
    if not front.fields and front.problems:
        raise BadRecord(tuple(front.problems))
    read = _Fields(front.fields, front.problems)
    keys = (*_REQUIRED, "knowledge_kind") if kind is RecordKind.KNOWLEDGE else _REQUIRED
    read.check_keys(keys, (*keys, *_OPTIONAL))
    status = read.one_of("status", tuple(sorted(STATUSES[kind])))
    scope, trust = read.scope("scope"), read.one_of("trust", tuple(Trust))
    created_at, updated_at = read.time("created_at"), read.time("updated_at")
    knowledge_kind = read.one_of("knowledge_kind", tuple(KnowledgeKind)) if kind is RecordKind.KNOWLEDGE else None
    pinned = read.one_of("pinned", ("true", "false"))
    sources = read.sources("sources")
    if created_at and updated_at and updated_at < created_at:
        read.wrong("updated_at", "updated_at is before created_at", "make it the later one", Rule.TIME)
    title, description, replaced_by, run_id = map(read.text, ("title", "description", "replaced_by", "run_id"))
    if front.problems or not (status and scope and trust and created_at and updated_at):
        raise BadRecord(tuple(sorted(front.problems, key=lambda problem: problem.line)))
    return Record(
        kind=kind,
        slug=slug,
        title=title,
        description=description,
        status=Status(status),
        scope=scope,
        trust=Trust(trust),
        body=front.body,
        created_at=created_at,
        updated_at=updated_at,
        pinned=pinned == "true",
        sources=sources,
        replaced_by=replaced_by,
        run_id=run_id,
        knowledge_kind=KnowledgeKind(knowledge_kind) if knowledge_kind else None,
    )


def render(record: Record) -> str:
    """The file's text; UTF-8 with Unix line ends."""
    lines = [
        ("title", written(record.title)),
        ("description", written(record.description)),
        *([("knowledge_kind", str(record.knowledge_kind))] if record.knowledge_kind else []),
        ("status", str(record.status)),
        ("scope", str(record.scope)),
        ("trust", str(record.trust)),
        *([("pinned", "true")] if record.pinned else []),
        *([("replaced_by", written(record.replaced_by))] if record.replaced_by else []),
        ("created_at", _utc(record.created_at)),
        ("updated_at", _utc(record.updated_at)),
        *([("run_id", written(record.run_id))] if record.run_id else []),
    ]
    front = "".join(f"{key}: {value}\n" for key, value in lines)
    sources = "sources:\n" + "".join(map(_source, record.sources)) if record.sources else ""
    return f"---\n{front}{sources}---\n\n{record.body}\n"


def _source(source: Source) -> str:
    first, last = source.range
    return (
        f"  - session: {written(source.session)}\n"
        f'    range: "{first}-{last}"\n'
        f"    candidate: {written(source.candidate)}\n"
        f"    ts: {_utc(source.ts)}\n"
    )


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


class _Fields:
    """Reads typed values out of one table, and notes what is wrong. An absent key reads as empty."""

    def __init__(self, fields: dict[str, Field], problems: list[Problem], line: int = 1) -> None:
        self._fields = fields
        self._problems = problems
        self._line = line

    def wrong(self, key: str, message: str, mend: str, rule: Rule = Rule.VALUE) -> None:
        line = self._fields[key].line if key in self._fields else self._line
        self._problems.append(Problem(rule, line, message, mend))

    def check_keys(self, required: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        for key in self._fields:
            if key not in allowed:
                self.wrong(key, f"{key} is not a key of these records", f"known are: {', '.join(allowed)}", Rule.KEY_UNKNOWN)
        unread = {problem.line for problem in self._problems if problem.rule is Rule.LINE}
        for key in required:
            if key not in self._fields and not unread:  # it may be on one of the lines that could not be read
                self.wrong(key, f"{key} is missing", f"add a line `{key}: ...`", Rule.KEY_MISSING)

    def text(self, key: str) -> str:
        value = self._fields[key].value if key in self._fields else ""
        if isinstance(value, str):
            return value
        self.wrong(key, f"{key} is a list", "write it as one text")
        return ""

    def one_of(self, key: str, words: tuple[str, ...]) -> str:
        value = self.text(key)
        if key in self._fields and value not in words:
            self.wrong(key, f"{key} is none of the words that it may be", f"use one of: {', '.join(words)}")
            return ""
        return value

    def scope(self, key: str) -> Scope | None:
        kind, colon, place = self.text(key).partition(":")
        try:
            if colon and not place:
                raise ValueError("nothing after the colon")
            return Scope(ScopeKind(kind), place)
        except ValueError:
            if key in self._fields:
                self.wrong(key, f"{key} names no scope", "use workspace, channel:<id> or user:<id>, with Slack's id")
            return None

    def time(self, key: str) -> datetime | None:
        value = self.text(key)
        try:
            if not _TIME.fullmatch(value):
                raise ValueError("another form")
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            if key in self._fields:
                self.wrong(key, f"{key} is no time that records know", _TIME_MEND, Rule.TIME)
            return None

    def sources(self, key: str) -> tuple[Source, ...]:
        value = self._fields[key].value if key in self._fields else []
        if isinstance(value, str):
            self.wrong(key, f"{key} is a text", "write a list: one `- session: ...` for each, with range, candidate and ts below it")
            return ()
        line = self._fields[key].line if key in self._fields else self._line
        read = (_Fields(item, self._problems, next((f.line for f in item.values()), line)).source() for item in value)
        return tuple(source for source in read if source)

    def source(self) -> Source | None:
        self.check_keys(_OF_SOURCE, _OF_SOURCE)
        session, candidate, ts = self.text("session"), self.text("candidate"), self.time("ts")
        bounds = _RANGE.fullmatch(self.text("range"))
        if "range" in self._fields and not (bounds and int(bounds[1]) <= int(bounds[2])):
            self.wrong("range", "range is not `first-last`", "write the numbers of two entries of the session's log, as in 12-15")
            return None
        for key in ("session", "candidate"):
            if key in self._fields and not self.text(key):
                self.wrong(key, f"{key} is empty", "name it, or remove the source")
        return (
            Source(session=session, range=(int(bounds[1]), int(bounds[2])), candidate=candidate, ts=ts)
            if session and candidate and ts and bounds
            else None
        )
