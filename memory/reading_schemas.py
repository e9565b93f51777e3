"""The four reading tools as a model sees them: names, when to call them, strict schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.records import STATUSES, KnowledgeKind, RecordKind, Status
from memory.tools import SLUG_ARGUMENT, Json, ToolSpec, object_of, one_of
from telemetry.memory_events import UsageOp

MAX_QUERY_CHARS = 200
MOST_RESULTS, USUAL_RESULTS = 20, 5

_KINDS = tuple(kind for kind in RecordKind if kind is not RecordKind.KNOWLEDGE)
_QUERY: Json = {
    "type": "string",
    "maxLength": MAX_QUERY_CHARS,
    "description": "Words or a whole question, in any language; operators are plain text. Empty: list the newest.",
}
_LIMIT: Json = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_RESULTS,
    "description": f"How many at most; {USUAL_RESULTS} if not given.",
}


def _words_of(kinds: tuple[RecordKind, ...]) -> tuple[str, ...]:
    return tuple(str(status) for status in Status if any(status in STATUSES[kind] for kind in kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`kinds`: which records it looks at."""

    op: UsageOp
    kinds: tuple[RecordKind, ...]
    spec: ToolSpec


MEMORY_READ = Reading(
    op=UsageOp.READ,
    kinds=_KINDS,
    spec=ToolSpec(
        name="memory_read",
        description="Read one record of the memory in full. Find its kind and slug with memory_query.",
        schema=object_of({"kind": one_of(tuple(map(str, _KINDS)), "The record's kind."), "slug": SLUG_ARGUMENT}, required=("kind", "slug")),
    ),
)
MEMORY_QUERY = Reading(
    op=UsageOp.QUERY,
    kinds=_KINDS,
    spec=ToolSpec(
        name="memory_query",
        description="Search what was decided, asked for, preferred, ruled out, learnt or left open in earlier talks. "
        "Call it before you say that you do not know.",
        schema=object_of(
            {
                "query": _QUERY,
                "kind": one_of(tuple(map(str, _KINDS)), "Only this kind; all if not given."),
                "status": one_of(_words_of(_KINDS), "Only this status; all if not given."),
                "limit": _LIMIT,
            },
            required=("query",),
        ),
    ),
)
KNOWLEDGE_READ = Reading(
    op=UsageOp.READ,
    kinds=(RecordKind.KNOWLEDGE,),
    spec=ToolSpec(
        name="knowledge_read",
        description="Read one record of the knowledge in full. Find its slug with knowledge_query.",
        schema=object_of({"slug": SLUG_ARGUMENT}, required=("slug",)),
    ),
)
KNOWLEDGE_QUERY = Reading(
    op=UsageOp.QUERY,
    kinds=(RecordKind.KNOWLEDGE,),
    spec=ToolSpec(
        name="knowledge_query",
        description="Search the terms, policies, rules, facts and how-tos of this workspace.",
        schema=object_of(
            {
                "query": _QUERY,
                "knowledge_kind": one_of(tuple(map(str, KnowledgeKind)), "Only this kind; all if not given."),
                "status": one_of(_words_of((RecordKind.KNOWLEDGE,)), "Only this status; all if not given."),
                "limit": _LIMIT,
            },
            required=("query",),
        ),
    ),
)
READINGS: Mapping[str, Reading] = {reading.spec.name: reading for reading in (MEMORY_READ, MEMORY_QUERY, KNOWLEDGE_READ, KNOWLEDGE_QUERY)}
# For a person at the files: memory and knowledge at once, as `memory_query`.
EVERYTHING = Reading(op=UsageOp.QUERY, kinds=tuple(RecordKind), spec=MEMORY_QUERY.spec)
