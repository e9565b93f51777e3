"""From the arguments of a writing tool to the step that they mean. Pure.

What must stay true: the frontmatter is made here and never by a model: sources, scope, trust and times come from the candidates
and the record as it was. A trim only takes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from memory.consolidation.overlay import Step
from memory.consolidation.pending import Candidate, lowest
from memory.consolidation.schemas import Writing
from memory.records import STATUSES, KnowledgeKind, Record, RecordKind, Scope, Source, Status, path_of
from memory.redact import redact
from memory.store_view import Stored, StoreView
from memory.tools import Json, ToolRefused
from telemetry.memory_events import RecordOp

MAX_SOURCES = 12  # the newest of them; every candidate is in the trash of the run that settled it


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What steps are made with. `scope`: of the run; `now`: in whole seconds."""

    candidates: Mapping[str, Candidate]
    scope: Scope
    now: datetime
    run_id: str


def step_of(writing: Writing, arguments: Json, view: StoreView, making: Making) -> Step:
    """The arguments hold to the schema. Raises ToolRefused."""
    kind = RecordKind.KNOWLEDGE if writing.knowledge else RecordKind(arguments["kind"])
    return _MAKE[writing.op](kind, arguments, view, making)


def _write(kind: RecordKind, arguments: Json, view: StoreView, making: Making) -> Step:
    slug, cited = arguments["slug"], tuple(dict.fromkeys(arguments["candidates"]))
    _expect_free(kind, slug, view)
    return Step(op=RecordOp.WRITE, records={(kind, slug): _new(kind, slug, arguments, making, cited)}, cited=cited)


def _edit(kind: RecordKind, arguments: Json, view: StoreView, making: Making) -> Step:
    before = _there(kind, arguments["slug"], view, making).record
    assert isinstance(before, Record)
    old, new = arguments.get("old_text"), arguments.get("new_text")
    if (old is None) != (new is None):
        raise ToolRefused("half_an_edit", "old_text and new_text go together", "give both, or neither")
    body = before.body if old is None else _replaced(before.body, old, str(new))
    status = Status(arguments.get("status", before.status))
    if status not in STATUSES[kind]:
        words = ", ".join(sorted(STATUSES[kind]))
        raise ToolRefused("unknown_word", f"a {kind} is never {status}", f"use one of: {words}")
    replaced_by = arguments.get("replaced_by", before.replaced_by if status is Status.REPLACED else "")
    changed = replace(
        before,
        title=arguments.get("title", before.title),
        description=arguments.get("description", before.description),
        body=body,
        status=status,
        replaced_by=replaced_by,
    )
    cited = tuple(dict.fromkeys(arguments.get("candidates", ())))
    return Step(
        op=RecordOp.EDIT,
        records={(kind, before.slug): changed if changed == before else _touched(changed, making, cited)},
        cited=cited,
        dropped=_dropped(arguments),
        note=_why_dropped(arguments),
    )


def _trim(kind: RecordKind, arguments: Json, view: StoreView, making: Making) -> Step:
    before = _there(kind, arguments["slug"], view, making).record
    assert isinstance(before, Record)
    body = before.body
    for piece in arguments["remove"]:
        body = _replaced(body, piece, "")
    while "\n\n\n" in body:
        body = body.replace("\n\n\n", "\n\n")
    step = {(kind, before.slug): _touched(replace(before, body=body), making, ())}
    return Step(op=RecordOp.TRIM, records=step, dropped=tuple(arguments["remove"]), note=_said(arguments["why"]))


def _merge(kind: RecordKind, arguments: Json, view: StoreView, making: Making) -> Step:
    slug, sources = arguments["slug"], list(dict.fromkeys(arguments["from"]))
    if slug in sources:
        raise ToolRefused("merges_itself", "the record that stays is also in `from`", "leave it out of `from`")
    merged = [_there(kind, each, view, making).record for each in sources]
    if not view.get(kind, slug):
        _expect_free(kind, slug, view)
    stays = _there(kind, slug, view, making).record if view.get(kind, slug) else None
    parts = [record for record in (stays, *merged) if isinstance(record, Record)]
    if len(parts) < 2:
        raise ToolRefused("nothing_to_merge", "one record alone is not merged", "edit it, or name a second one in `from`")
    cited = tuple(dict.fromkeys(arguments.get("candidates", ())))
    basis = stays if isinstance(stays, Record) else max(parts, key=lambda record: record.updated_at)
    result = replace(
        basis,
        slug=slug,
        title=arguments.get("title", basis.title),
        description=arguments.get("description", basis.description),
        body=arguments["content"],
        knowledge_kind=KnowledgeKind(arguments["knowledge_kind"]) if "knowledge_kind" in arguments else basis.knowledge_kind,
        created_at=min(record.created_at for record in parts),
        trust=lowest([record.trust for record in parts]),
        sources=_newest([source for record in parts for source in record.sources]),
    )
    records: dict[tuple[RecordKind, str], Record | None] = {(kind, slug): _touched(result, making, cited)}
    return Step(
        op=RecordOp.MERGE,
        records={**records, **{(kind, each): None for each in sources}},
        cited=cited,
        dropped=_dropped(arguments),
        note=_why_dropped(arguments),
    )


def _drop(kind: RecordKind, arguments: Json, view: StoreView, making: Making) -> Step:
    record = _there(kind, arguments["slug"], view, making)
    return Step(op=RecordOp.DROP, records={(kind, record.slug): None}, note=_said(f"{arguments['category']}: {arguments['why']}"))


_MAKE = {RecordOp.WRITE: _write, RecordOp.EDIT: _edit, RecordOp.TRIM: _trim, RecordOp.MERGE: _merge, RecordOp.DROP: _drop}


def _there(kind: RecordKind, slug: str, view: StoreView, making: Making) -> Stored:
    """One that this run may know of."""
    found = view.get(kind, slug)
    if found is None or not isinstance(found.record, Record) or not found.record.scope.admits(making.scope):
        raise ToolRefused("not_found", "there is no such record", "search for it with a query, and use the slug that it shows")
    return found


def _expect_free(kind: RecordKind, slug: str, view: StoreView) -> None:
    """Also of what is there and cannot be read: the commit would find it, and the whole run would be for nothing."""
    if view.get(kind, slug) or any(stray.path == path_of(kind, slug) for stray in view.strays):
        raise ToolRefused("slug_taken", "there is a record of this slug", "edit that one, or take another slug")


def _new(kind: RecordKind, slug: str, arguments: Json, making: Making, cited: Sequence[str]) -> Record:
    candidates = _known(cited, making)
    return Record(
        kind=kind,
        slug=slug,
        title=arguments["title"],
        description=arguments["description"],
        status=Status.OPEN if Status.OPEN in STATUSES[kind] else Status.ACTIVE,
        scope=making.scope,
        trust=lowest([one.trust for one in candidates]),
        body=arguments["content"],
        created_at=making.now,
        updated_at=making.now,
        sources=_newest([one.source for one in candidates]),
        run_id=making.run_id,
        knowledge_kind=KnowledgeKind(arguments["knowledge_kind"]) if kind is RecordKind.KNOWLEDGE else None,
    )


def _touched(record: Record, making: Making, cited: Sequence[str]) -> Record:
    candidates = _known(cited, making) if cited else []
    return replace(
        record,
        updated_at=max(making.now, record.created_at),
        run_id=making.run_id,
        trust=lowest([record.trust, *(one.trust for one in candidates)]),
        sources=_newest([*record.sources, *(one.source for one in candidates)]),
    )


def _known(cited: Sequence[str], making: Making) -> list[Candidate]:
    """Those of this run; where there is none of them there is no source. The guards tell of the others."""
    known = [making.candidates[one] for one in cited if one in making.candidates]
    if not known:
        raise ToolRefused("unknown_candidate", "none of the candidates is of this run", "cite ids as staging_list shows them")
    return known


def _newest(sources: Sequence[Source]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(sources))[-MAX_SOURCES:]


def _replaced(body: str, old: str, new: str) -> str:
    found = body.count(old) if old else 0
    if found != 1:
        what = "is empty" if not old else "does not stand in the record" if not found else f"stands in the record {found} times"
        raise ToolRefused("no_match", f"the passage {what}", "read the record, and give a passage that stands in it exactly once")
    return body.replace(old, new)


def _dropped(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(each["text"] for each in arguments.get("dropped_specifics", ()) if each["why"].strip())


def _why_dropped(arguments: Mapping[str, Any]) -> str:
    return _said("; ".join(f"{each['text']}: {each['why']}" for each in arguments.get("dropped_specifics", ())))


def _said(text: str) -> str:
    """On one line, without secrets."""
    return redact(" ".join(text.split()))
