"""What resident sessions, workers and people read the memory with: `memory_read`, `memory_query` and the two of knowledge.

What must stay true: each call is one span, one `record_usage` fact (a line and a count) and one line of usage, however it
ends; who asks sees what the scope of a record admits, and of all others not even that they exist; the text of a query goes
nowhere but, redacted, into the fact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.reading_answers import as_found, as_read
from memory.reading_schemas import READINGS, USUAL_RESULTS, Reading
from memory.records import BadRecord, RecordKind, is_slug
from memory.search_records import RecordSearch
from memory.store import StoreBusy, Stored, StoreView
from memory.tools import Asker, Json, ToolAnswer, ToolRefused, check, to_json
from memory.usage import UsageLog
from telemetry.emit import AttrValue, Emit
from telemetry.memory_events import RecordUsed, UsageOp, UsageStatus
from telemetry.metric_names import NONE
from telemetry.names import Attr, SpanName

UNAVAILABLE = ToolRefused("unavailable", "the memory cannot be read at the moment", "go on without it, or try once more later")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`shown`: what is handed out, the best first; `results`: how many there are; `error`: why not, a word of ours."""

    status: UsageStatus
    answer: ToolAnswer
    shown: Sequence[Stored] = ()
    results: int = 0
    error: str = ""


class Readable(Protocol):
    """The store, or what a run has made of it so far."""

    def view(self) -> StoreView: ...


class ReadingTools:
    """`redact` takes secrets out of a text."""

    def __init__(self, store: Readable, *, emit: Emit, usage: UsageLog, redact: Callable[[str], str]) -> None:
        self._store, self._emit, self._usage, self._redact = store, emit, usage, redact
        self._search = RecordSearch()

    async def call(self, name: str, arguments: Json, asker: Asker, *, call_id: str = "") -> ToolAnswer:
        """`name`: a key of READINGS. `call_id`: the provider's id of the tool use. In a thread: the store is files."""
        return await asyncio.to_thread(self.answer, READINGS[name], arguments, asker, call_id=call_id)

    def answer(self, reading: Reading, arguments: Json, asker: Asker, *, call_id: str = "") -> ToolAnswer:
        """What goes wrong is an answer too. An exception is a defect of ours; it is told as a failed call before it goes on."""
        outcome = _Outcome(UsageStatus.FAILED, UNAVAILABLE.answer(), error="defect")
        about: dict[Attr, AttrValue] = {
            Attr.GEN_AI_OPERATION: "execute_tool",
            Attr.GEN_AI_TOOL_NAME: reading.spec.name,
            **({Attr.GEN_AI_TOOL_CALL_ID: call_id} if call_id else {}),
        }
        with self._emit.span(SpanName.EXECUTE_TOOL, about, label=reading.spec.name) as span:
            try:
                outcome = self._outcome(reading, arguments, asker)
            finally:
                used = self._used(reading, arguments, asker, outcome)
                span.set(_on_span(used))
                if outcome.error:
                    span.fail(outcome.error)
                self._emit(used)
                self._usage.keep(used, [f"{stored.kind}/{stored.slug}" for stored in outcome.shown])
        return outcome.answer

    def _outcome(self, reading: Reading, arguments: Json, asker: Asker) -> _Outcome:
        try:
            check(arguments, reading.spec.schema)
            if reading.op is UsageOp.READ:
                return self._read(_kind(reading, arguments) or reading.kinds[0], arguments["slug"], asker)
            return self._query(reading, arguments, asker)
        except ToolRefused as refused:
            return _Outcome(UsageStatus.REJECTED, refused.answer(), error=refused.code)
        except (OSError, StoreBusy) as error:
            return _Outcome(UsageStatus.FAILED, UNAVAILABLE.answer(), error=type(error).__name__)

    def _read(self, kind: RecordKind, slug: str, asker: Asker) -> _Outcome:
        stored = self._store.view().get(kind, slug)
        if stored is None or not _may_see(asker, stored):
            query = "knowledge_query" if kind is RecordKind.KNOWLEDGE else "memory_query"
            refused = ToolRefused("not_found", "there is no such record", f"search for it with {query}, and use the slug that it shows")
            return _Outcome(UsageStatus.NOT_FOUND, refused.answer())
        return _Outcome(UsageStatus.FOUND, ToolAnswer(to_json(as_read(stored))), (stored,), 1)

    def _query(self, reading: Reading, arguments: Json, asker: Asker) -> _Outcome:
        kind = _kind(reading, arguments)
        kinds, query = ((kind,) if kind else reading.kinds), arguments["query"]

        def seen(stored: Stored) -> bool:
            return stored.kind in kinds and _may_see(asker, stored) and _is_like(stored, arguments)

        found = self._search.search(self._store.view(), query, seen=seen)
        shown = found[: arguments.get("limit", USUAL_RESULTS)]
        answer = ToolAnswer(to_json(as_found(shown, query, of=len(found))))
        return _Outcome(UsageStatus.FOUND if found else UsageStatus.NOT_FOUND, answer, shown, len(found))

    def _used(self, reading: Reading, arguments: Json, asker: Asker, outcome: _Outcome) -> RecordUsed:
        """Of refused arguments only what cannot be a text of somebody: a secret may stand where a slug should."""
        slug, query = arguments.get("slug"), arguments.get("query")
        was_checked = outcome.status is not UsageStatus.REJECTED
        return RecordUsed(
            op=reading.op,
            status=outcome.status,
            caller=asker.caller,
            results=outcome.results,
            kind=_kind(reading, arguments),
            slug=self._redact(slug) if was_checked and isinstance(slug, str) and is_slug(slug) else "",
            query=self._redact(query) if was_checked and isinstance(query, str) else "",
            run_id=asker.run_id,
        )


def _kind(reading: Reading, arguments: Json) -> RecordKind | None:
    """The one that is asked for; None: several."""
    asked = arguments.get("kind")
    return reading.kinds[0] if len(reading.kinds) == 1 else next((kind for kind in reading.kinds if kind == asked), None)


def _may_see(asker: Asker, stored: Stored) -> bool:
    """A file that is no record has no scope that could be trusted."""
    return asker.scope is None if isinstance(stored.record, BadRecord) else asker.may_see(stored.record.scope)


def _is_like(stored: Stored, arguments: Json) -> bool:
    return all(getattr(stored.record, name, None) == arguments[name] for name in ("status", "knowledge_kind") if name in arguments)


def _on_span(used: RecordUsed) -> dict[Attr, AttrValue]:
    return {
        Attr.MEMORY_OP: used.op,
        Attr.MEMORY_OP_STATUS: used.status,
        Attr.MEMORY_KIND: used.kind or NONE,
        Attr.MEMORY_RESULTS: used.results,
        **({Attr.MEMORY_SLUG: used.slug} if used.slug else {}),
        **({Attr.MEMORY_RUN_ID: used.run_id} if used.run_id else {}),
    }
