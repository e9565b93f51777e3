"""The tools of a consolidation run as its model sees them: names, when to call them, strict schemas.

What must stay true: a model names records by kind and slug and candidates by id, never a path; who said something, where, when
and how far it is trusted is no argument of any tool. One tool a purpose, so that what is counted is what was meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.lint_text import MAX_BODY_CHARS, MAX_DESCRIPTION_CHARS, MAX_TITLE_CHARS
from memory.reading_schemas import READINGS
from memory.records import STATUSES, KnowledgeKind, RecordKind, Status
from memory.tools import SLUG_ARGUMENT, Json, ToolSpec, list_of, object_of, one_of, text
from telemetry.memory_events import Disposition, RecordOp

MAX_CANDIDATES = 40  # of one run
MAX_REASON_CHARS = 300
MAX_PIECES, MAX_FROM, MAX_LOST = 12, 8, 40
CATEGORIES = ("outdated", "superseded", "unused", "noisy")
MEMORY_KINDS = tuple(kind for kind in RecordKind if kind is not RecordKind.KNOWLEDGE)

STAGING_LIST, STAGING_READ, STAGING_RESOLVE = "staging_list", "staging_read", "staging_resolve"

_CANDIDATE = text("The candidate's id, as staging_list shows it.", most=200)
_CITED = list_of(_CANDIDATE, "Ids of the candidates that say this. Sources, scope and trust are taken from them.", most=MAX_CANDIDATES)
_CITED_SOME = {**_CITED, "minItems": 1}
_TITLE = text("One line; in the language of the text.", most=MAX_TITLE_CHARS)
_DESCRIPTION = text("When to read this record: one line.", most=MAX_DESCRIPTION_CHARS)
_BODY = text("The text, in Markdown: what is so, with names, numbers and absolute dates.", most=MAX_BODY_CHARS)
_LOST = list_of(
    object_of(
        {"text": text("The name, number, date or address, as it stands in the old text.", most=200), "why": text("Why it goes.", most=200)},
        required=("text", "why"),
    ),
    "Every name, number and date of the old text that is not in the new one. Nothing else may be missing.",
    most=MAX_LOST,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A tool that changes records. `knowledge`: of that one kind; else of the others."""

    op: RecordOp
    knowledge: bool
    spec: ToolSpec


def _words_of(kinds: tuple[RecordKind, ...]) -> tuple[str, ...]:
    return tuple(str(status) for status in Status if any(status in STATUSES[kind] for kind in kinds))


def _writings(*, knowledge: bool) -> list[Writing]:
    prefix, what = ("knowledge", "record of the knowledge") if knowledge else ("memory", "record of the memory")
    kinds = (RecordKind.KNOWLEDGE,) if knowledge else MEMORY_KINDS
    kind: dict[str, Json] = {} if knowledge else {"kind": one_of(tuple(map(str, kinds)), "The record's kind.")}
    named: dict[str, Json] = {**kind, "slug": SLUG_ARGUMENT}
    status = one_of(_words_of(kinds), "`replaced` goes with replaced_by; leave it out to keep it.")
    sort: dict[str, Json] = {"knowledge_kind": one_of(tuple(map(str, KnowledgeKind)), "What sort of knowledge.")} if knowledge else {}

    def writing(op: RecordOp, description: str, properties: Mapping[str, Json], *required: str) -> Writing:
        schema = object_of({**named, **properties}, required=(*named, *required))
        return Writing(op=op, knowledge=knowledge, spec=ToolSpec(name=f"{prefix}_{op}", description=description, schema=schema))

    return [
        writing(
            RecordOp.WRITE,
            f"Create a {what}. The slug is new: small English letters, digits and hyphens that say what it is about.",
            {**sort, "title": _TITLE, "description": _DESCRIPTION, "content": _BODY, "candidates": _CITED_SOME},
            *(*sort, "title", "description", "content", "candidates"),
        ),
        writing(
            RecordOp.EDIT,
            f"Change a {what}: old_text, which stands in it exactly once, becomes new_text; title, description or status too. "
            "What it says stays, unless candidates say otherwise: then name what goes in dropped_specifics.",
            {
                "old_text": text("As it stands in the record; leave both texts out to change other fields only.", most=MAX_BODY_CHARS),
                "new_text": text("What stands there instead.", most=MAX_BODY_CHARS),
                **{"title": _TITLE, "description": _DESCRIPTION, "status": status},
                "replaced_by": text("The slug of the record of the same kind that holds now.", most=64),
                **{"candidates": _CITED, "dropped_specifics": _LOST},
            },
        ),
        writing(
            RecordOp.TRIM,
            f"Shorten a {what}: each piece is taken out exactly as it stands; nothing can be added.",
            {
                "remove": list_of(
                    text("A piece of the text, exactly once in it.", most=MAX_BODY_CHARS), "Pieces.", most=MAX_PIECES, least=1
                ),
                "why": text("Why they are not needed.", most=MAX_REASON_CHARS),
            },
            *("remove", "why"),
        ),
        writing(
            RecordOp.MERGE,
            f"Make one {what} of several that say the same: `slug` is the one that stays, or a new one; those in `from` go to the trash.",
            {
                **sort,
                "from": list_of(SLUG_ARGUMENT, "Slugs of the same kind.", most=MAX_FROM, least=1),
                **{"title": _TITLE, "description": _DESCRIPTION, "content": _BODY, "candidates": _CITED, "dropped_specifics": _LOST},
            },
            *("from", "content"),
        ),
        writing(
            RecordOp.DROP,
            f"Remove a {what} that has no successor and that nobody needs. It is rarely right; most runs drop nothing.",
            {"category": one_of(CATEGORIES, "Why it goes."), "why": text("In a sentence.", most=MAX_REASON_CHARS)},
            *("category", "why"),
        ),
    ]


WRITINGS: Mapping[str, Writing] = {writing.spec.name: writing for knowledge in (False, True) for writing in _writings(knowledge=knowledge)}
_STAGING = (
    ToolSpec(
        name=STAGING_LIST,
        description="The candidates of this run, and which of them are settled.",
        schema=object_of({}, required=()),
    ),
    ToolSpec(
        name=STAGING_READ,
        description="One candidate in full, with the passages that show it.",
        schema=object_of({"candidate": _CANDIDATE}, required=("candidate",)),
    ),
    ToolSpec(
        name=STAGING_RESOLVE,
        description="Say what becomes of a candidate. `applied` is said by citing it in a write, edit or merge. duplicate: a record says "
        "exactly this; already_covered: a record says this and more (name it in record); discarded: not worth keeping; deferred: "
        "cannot be decided now, and comes again.",
        schema=object_of(
            {
                "candidate": _CANDIDATE,
                "disposition": one_of(tuple(map(str, Disposition)), "What becomes of it."),
                "reason": text("Why, in one concrete sentence.", most=MAX_REASON_CHARS),
                "record": text("kind/slug of the record that says it; for duplicate and already_covered.", most=80),
            },
            required=("candidate", "disposition", "reason"),
        ),
    ),
)
STAGING: Mapping[str, ToolSpec] = {spec.name: spec for spec in _STAGING}
SPECS: tuple[ToolSpec, ...] = (
    *STAGING.values(),
    *(reading.spec for reading in READINGS.values()),
    *(writing.spec for writing in WRITINGS.values()),
)
