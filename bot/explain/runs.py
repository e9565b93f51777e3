"""A memory run as plain values, and what its trace says of it. Pure; what else is known is added in `run_finding`.

What must stay true: no text of a message, a record or a prompt is in it: ids, words of ours and numbers. The one exception are the
reasons of `Settled`, a model's words, which are shown at the owner's terminal alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from bot.explain.explanation import ModelCall
from bot.explain.spans import RUN_COUNTS, explain
from telemetry.emit import AttrValue
from telemetry.names import Attr, SpanName
from telemetry.stored_values import text, whole
from telemetry.trace_reading import StoredSpan, StoredTrace

TRACE, MANIFEST, RUN_FILE = "trace", "manifest", "run_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply after which a run began, or by which a candidate became known. Without a `ts` the store has forgotten it."""

    trace_id: str
    team: str = ""
    channel: str = ""
    ts: str = ""
    thread_ts: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """What an extract run read. `first` and `last` entry of the session's log; 0: not known."""

    session_id: str = ""
    route: str = ""
    first: int = 0
    last: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """How much of the memory, in the run's scope, left with it. What there was before is None where only the trace tells."""

    records_lost: int
    specifics_lost: int
    records: int | None = None
    specifics: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of a tool. `outcome`: found, not_found, planned, rejected, failed, settled, or the class of its failure.
    `applied`: None where nothing is to be applied, or it is not known.
    """

    tool: str
    outcome: str
    kind: str = ""
    slug: str = ""
    rules: tuple[str, ...] = ()
    candidate: str = ""
    disposition: str = ""
    results: int | None = None
    applied: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One file below `.insomnia`, as it came out. `into`: the slug that took it up. `why`: the model's words."""

    path: str
    op: str
    applied: bool
    into: str = ""
    why: str = ""
    new: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    candidate: str
    disposition: str
    reason: str
    record: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun:
    """`began`: seconds since the epoch. `source`: what knows of it: trace, manifest (the trace store has forgotten it), run_file.
    `recovered`: a later process told its end. `died`: the trace of the process that died. None of a count: it is not known.
    `undoes`: the run that it took back; `undone_by`: the one that took it back.
    """

    id: str
    trace_id: str
    source: str
    began: float
    worker: str = ""
    trigger: str = ""
    status: str = ""
    reason: str = ""
    detail: str = ""
    seconds: float | None = None
    recovered: bool = False
    died: str = ""
    reply: Reply | None = None
    read: ReadRange | None = None
    scope: str = ""
    given: int | None = None
    invalid: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    dispositions: Mapping[str, int] = field(default_factory=dict)
    survival: Survival | None = None
    model: tuple[ModelCall, ...] = ()
    undoes: str = ""
    undone_by: str = ""
    operations: tuple[Operation, ...] = ()
    changed: tuple[Changed, ...] = ()
    settled: tuple[Settled, ...] = ()

    @property
    def cost_usd(self) -> float | None:
        known = [call.cost_usd for call in self.model if call.cost_usd is not None]
        return sum(known) if known else None

    @property
    def tokens(self) -> tuple[int, int] | None:
        """In and out."""
        if not self.model:
            return None
        return sum(call.input_tokens or 0 for call in self.model), sum(call.output_tokens or 0 for call in self.model)


def run_of(stored: StoredTrace) -> MemoryRun:
    about, told = stored.about, explain(stored)
    root: Mapping[str, AttrValue] = stored.root.attributes if stored.root else {}
    return MemoryRun(
        id=told.run.id or _id_below(stored),
        trace_id=about.trace_id,
        source=TRACE,
        began=about.started,
        worker=told.run.worker or about.name.partition(" ")[2],
        trigger=told.run.trigger,
        status=told.outcome,
        reason=about.reason,
        detail=text(root.get(Attr.MEMORY_DETAIL)),
        seconds=about.seconds,
        recovered=bool(root.get(Attr.MEMORY_RECOVERED)),
        read=_read(root),
        scope=text(root.get(Attr.MEMORY_SCOPE)),
        given=_given(stored, root),
        invalid=whole(root.get(Attr.MEMORY_INVALID)) or 0,
        counts={word: told.run.counts[word] for word in RUN_COUNTS.values() if word in told.run.counts},
        survival=_survival(root),
        model=told.model,
        operations=tuple(_operations(stored)),
    )


def joined(later: MemoryRun, earlier: MemoryRun) -> MemoryRun:
    """One run that two processes left traces of: the later one told its end, the earlier one did its work."""
    return replace(
        later,
        began=earlier.began,
        seconds=None,
        recovered=True,
        died=earlier.trace_id,
        given=earlier.given if later.given is None else later.given,
        model=(*earlier.model, *later.model),
        operations=(*earlier.operations, *later.operations),
        reply=earlier.reply or later.reply,
    )


def _id_below(stored: StoredTrace) -> str:
    """Of a root that never ended: its children may have told it."""
    return next((found for span in stored.spans if (found := text(span.attributes.get(Attr.MEMORY_RUN_ID)))), "")


def _read(root: Mapping[str, AttrValue]) -> ReadRange | None:
    session = text(root.get(Attr.MEMORY_SESSION))
    first, last, entries = (whole(root.get(attr)) or 0 for attr in (Attr.MEMORY_FIRST, Attr.MEMORY_LAST, Attr.MEMORY_ENTRIES))
    if not session:
        return None
    return ReadRange(session_id=session, route=text(root.get(Attr.ROUTE)), first=first, last=last, entries=entries)


def _given(stored: StoredTrace, root: Mapping[str, AttrValue]) -> int | None:
    places = (root, *(span.attributes for span in stored.named(SpanName.MEMORY_SNAPSHOT.value)))
    return next((count for place in places if (count := whole(place.get(Attr.MEMORY_CANDIDATES))) is not None), None)


def _survival(root: Mapping[str, AttrValue]) -> Survival | None:
    records, specifics = whole(root.get(Attr.MEMORY_RECORDS_LOST)), whole(root.get(Attr.MEMORY_SPECIFICS_LOST))
    return None if records is None or specifics is None else Survival(records_lost=records, specifics_lost=specifics)


def _operations(stored: StoredTrace) -> Iterator[Operation]:
    """The memory's own spans of its tools; those that the model's side makes of the same calls say nothing of what came of them."""
    for span in stored.named(SpanName.EXECUTE_TOOL.value):
        if Attr.MEMORY_RUN_ID in span.attributes:
            yield _operation(span)


def _operation(span: StoredSpan) -> Operation:
    a = span.attributes
    rules, error, disposition = a.get(Attr.MEMORY_LINT), text(a.get(Attr.ERROR_TYPE)), text(a.get(Attr.MEMORY_DISPOSITION))
    return Operation(
        tool=text(a.get(Attr.GEN_AI_TOOL_NAME)) or span.name.partition(" ")[2],
        outcome=text(a.get(Attr.MEMORY_OP_STATUS)) or error or ("settled" if disposition else ""),
        kind="" if (kind := text(a.get(Attr.MEMORY_KIND))) == "none" else kind,
        slug=text(a.get(Attr.MEMORY_SLUG)),
        rules=tuple(rules) if isinstance(rules, list) else (),
        candidate=text(a.get(Attr.MEMORY_CANDIDATE)),
        disposition=disposition,
        results=whole(a.get(Attr.MEMORY_RESULTS)),
    )
