"""The embedded model at work for consolidation: from the prompt and what the tools answered so far, the next tool call.

Pure, and without memory of its own: the conversation is gone through again for each call. Must stay true: a candidate is filed in its
own words, and never more than one step from them; a record is said to hold it only where its words do; one is replaced only by what was
said later, of the same kind, scope and subject, and with room left for both changes; what is refused is mended once, or deferred.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.local.model_filing import another_slug, description_of, knowledge_kind_of, slug_of, title_of
from bot.local.model_likeness import Likeness, likeness
from bot.local.model_ranking import is_japanese
from bot.local.model_steps import ToolCall
from bot.local.model_turns import TOOLS, object_of
from memory.consolidation.guards import LEAST_REMOVABLE, MAX_OPERATIONS
from memory.consolidation.prompt import MAX_RELATED
from memory.reading_schemas import MAX_QUERY_CHARS

LISTS = f"{TOOLS}staging_list"
DONE = "Filed. (embedded model: no language model, I go by plain rules)"
KNOWLEDGE = "knowledge"
HOLDS = ("active", "open")
PERSONS = ("user", "assistant")
RULES = ("decision", "request", "preference", "constraint")  # which only people make
WAITS = ("request", "question")  # an answer elsewhere is no answer to them

Json = Mapping[str, Any]
Talk = Generator[ToolCall, Json, None]
Told = Generator[ToolCall, Json, bool]


@dataclass(frozen=True, slots=True)
class _Reason:
    english: str
    japanese: str

    def told(self, claim: str, **names: str) -> str:
        return (self.japanese if is_japanese(claim) else self.english).format(**names)


SAME = _Reason("The record {record} says this in the same words.", "記録 {record} が同じ言葉で述べています。")
COVERED = _Reason("The record {record} says this, and as much or more.", "記録 {record} がすでに述べています。")
OLDER = _Reason("The record {record} was changed after this was said.", "この発言の後に記録 {record} が変更されています。")
NO_ROOM = _Reason("This run has no changes left for it.", "この実行で使える変更の回数が足りません。")
REFUSED = _Reason("The change was refused ({code}).", "変更が拒否されました（{code}）。")
BOTH_HOLD = _Reason(
    "It is filed; {record} could not be marked as replaced ({code}).", "記録しましたが、{record} を置換済みにできませんでした（{code}）。"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A record as far as it was shown. `since`: not before then was it written or changed, "": not known. `own`: written in this run."""

    kind: str
    slug: str
    text: str
    scope: str
    trust: str
    status: str
    pinned: bool = False
    since: str = ""
    own: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.slug}"


def next_call(prompt: str, done: Iterable[tuple[ToolCall, Json]]) -> ToolCall | None:
    """None: everything is settled. `done`: the calls so far with their answers; those that no rule made are passed over."""
    talk = _Work(prompt).talk()
    wanted = next(talk, None)
    for call, answer in done:
        if wanted is not None and call == wanted:
            try:
                wanted = talk.send(answer)
            except StopIteration:
                wanted = None
    return wanted


class _Work:
    def __init__(self, prompt: str) -> None:
        self._candidates = list(_rows(prompt, "candidates", of=("id", "kind", "claim", "trust", "said_at")))
        self._held = [_held(row, text=row["text"]) for row in _rows(prompt, "records", of=("kind", "slug", "text"))]
        self._not_all_shown = len(self._held) >= MAX_RELATED
        self._scope = _scope(prompt)
        self._changes, self._replaceable = MAX_OPERATIONS, LEAST_REMOVABLE

    def talk(self) -> Talk:
        """What was said first comes first, so that the last word stays."""
        for one in sorted(self._candidates, key=lambda one: str(one.get("said_at", ""))):
            if self._not_all_shown:
                yield from self._look_for(one)
            if not (yield from self._is_held(one)):
                yield from self._file(one)

    # -- what is there already -----------------------------------------------------------------------------------------
    def _look_for(self, one: Json) -> Talk:
        tool = "knowledge_query" if one["kind"] == KNOWLEDGE else "memory_query"
        answer = yield _call(tool, query=str(one["claim"])[:MAX_QUERY_CHARS])
        known = {each.name for each in self._held}
        found = [_held(row, text=str(row.get("excerpt", ""))) for row in answer.get("results", ()) if "status" in row]
        self._held += [each for each in found if each.name not in known]

    def _is_held(self, one: Json) -> Told:
        claim, trusted = one["claim"], one["trust"] in PERSONS
        standing = [each for each in self._held if each.status in HOLDS and _same_sort(one["kind"], each.kind)]
        may_speak = [each for each in standing if each.trust in PERSONS or not trusted]
        for like, disposition, why in ((Likeness.SAME, "duplicate", SAME), (Likeness.COVERED, "already_covered", COVERED)):
            for each in may_speak:
                if likeness(claim, each.text) is like:
                    yield _resolve(one, disposition, why.told(claim, record=each.name), record=each.name)
                    return True
        return False

    # -- what is not ---------------------------------------------------------------------------------------------------
    def _file(self, one: Json) -> Talk:
        against = yield from self._contradicted(one)
        if any(each.since > one["said_at"] for each in against):
            yield _resolve(one, "deferred", OLDER.told(one["claim"], record=against[0].name))
        elif self._changes < 1 + len(against) or self._replaceable < len(against):
            yield _resolve(one, "deferred", NO_ROOM.told(one["claim"]))
        elif against or not (yield from self._added(one)):
            written = yield from self._written(one)
            if written is not None:
                for each in against:
                    yield from self._replaced(each, written, one)

    def _contradicted(self, one: Json) -> Generator[ToolCall, Json, list[_Held]]:
        """Each is read whole first: what stands beside the sentence that was shown would go out of use with it."""
        found = []
        for at, each in enumerate(self._held):
            if self._may_change(each, one) and likeness(one["claim"], each.text) is Likeness.AGAINST:
                whole = each if each.own else (yield from self._read(each))
                self._held[at] = whole
                if likeness(one["claim"], whole.text) is Likeness.AGAINST:
                    found.append(whole)
        return found

    def _read(self, held: _Held) -> Generator[ToolCall, Json, _Held]:
        answer = yield _call(*_tool("read", held.kind), slug=held.slug)
        return replace(held, text=str(answer.get("content", "")), since=str(answer.get("updated_at", "")))

    def _added(self, one: Json) -> Told:
        """To the record that says less; False: there is none, or it could not be changed."""
        less = [each for each in self._held if self._may_change(each, one) and likeness(one["claim"], each.text) is Likeness.MORE]
        for each in less[:1]:
            passage = {"old_text": each.text, "new_text": one["claim"]}
            answer = yield _call(*_tool("edit", each.kind), slug=each.slug, **passage, candidates=[one["id"]])
            if not _error(answer):
                self._count(answer)
                self._held[self._held.index(each)] = replace(each, text=one["claim"])
                return True
        return False

    def _written(self, one: Json) -> Generator[ToolCall, Json, _Held | None]:
        kind = "lesson" if one["kind"] in RULES and one["trust"] not in PERSONS else one["kind"]
        slug = slug_of(kind, one["claim"])
        answer = yield _write(one, kind, slug)
        if _error(answer) == "slug_taken":
            slug = another_slug(slug, one["id"])
            answer = yield _write(one, kind, slug)
        self._count(answer)
        if code := _error(answer):
            yield _resolve(one, "deferred", REFUSED.told(one["claim"], code=code))
            return None
        new = _Held(
            kind=kind,
            slug=slug,
            text=one["claim"],
            scope=self._scope,
            trust=one["trust"],
            status="open" if kind in WAITS else "active",
            since=one["said_at"],
            own=True,
        )
        self._held.append(new)
        return new

    def _replaced(self, old: _Held, new: _Held, one: Json) -> Talk:
        fields = {"status": "replaced", "replaced_by": new.slug, "candidates": [one["id"]]}
        answer = yield _call(*_tool("edit", old.kind), slug=old.slug, **fields)
        self._count(answer)
        if code := _error(answer):
            yield _resolve(one, "applied", BOTH_HOLD.told(one["claim"], record=old.name, code=code))
            return
        self._replaceable -= not old.own
        self._held[self._held.index(old)] = replace(old, status="replaced")

    def _may_change(self, held: _Held, one: Json) -> bool:
        same_people = (held.trust in PERSONS) == (one["trust"] in PERSONS)
        return held.kind == one["kind"] and held.scope == self._scope and held.status in HOLDS and not held.pinned and same_people

    def _count(self, answer: Json) -> None:
        self._changes = int(answer.get("changes_left", self._changes))


def _write(one: Json, kind: str, slug: str) -> ToolCall:
    sort = {"knowledge_kind": knowledge_kind_of(one["claim"])} if kind == KNOWLEDGE else {}
    text = {"title": title_of(one["claim"]), "description": description_of(one["claim"]), "content": one["claim"]}
    return _call(*_tool("write", kind), slug=slug, **sort, **text, candidates=[one["id"]])


def _resolve(one: Json, disposition: str, reason: str, *, record: str = "") -> ToolCall:
    named = {"record": record} if record else {}
    return _call("staging_resolve", candidate=one["id"], disposition=disposition, reason=reason, **named)


def _tool(op: str, kind: str) -> tuple[str, Json]:
    return (f"knowledge_{op}", {}) if kind == KNOWLEDGE else (f"memory_{op}", {"kind": kind})


def _call(tool: str, first: Json | None = None, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"{TOOLS}{tool}", {**(first or {}), **arguments})


def _same_sort(one: str, other: str) -> bool:
    """A decision may say what a constraint says; what is still open is not closed by either."""
    return one == other or not {one, other} & set(WAITS)


def _error(answer: Json) -> str:
    """The rules that refused it, or the code; "" if it was taken. An answer that is no object was none of ours."""
    error = answer.get("error") if answer else {"code": "no answer"}
    if not isinstance(error, Mapping):
        return ""
    return ", ".join(_rules(answer)) or str(error.get("code", "refused"))


def _rules(answer: Json) -> Sequence[str]:
    error = answer.get("error")
    violations = error.get("violations", ()) if isinstance(error, Mapping) else ()
    return [str(each.get("rule", "")) for each in violations if isinstance(each, Mapping)]


def _rows(prompt: str, mark: str, *, of: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Between the marks, one JSON object a line; what a row says cannot end the line that it stands in."""
    inside = False
    for line in prompt.split("\n"):
        if line in (f"<{mark}>", f"</{mark}>"):
            inside = line == f"<{mark}>"
        elif inside:
            row = object_of(line)
            if all(isinstance(row.get(name), str) for name in of):
                yield dict(row)


def _held(row: Json, *, text: str) -> _Held:
    return _Held(
        kind=str(row.get("kind", "")),
        slug=str(row.get("slug", "")),
        text=text,
        scope=str(row.get("scope", "")),
        trust=str(row.get("trust", "")),
        status=str(row.get("status", "")),
        pinned=row.get("pinned") is True,
    )


def _scope(prompt: str) -> str:
    """Of the run: `Where they were said, and may be read again: channel:C1.`"""
    return prompt.partition("may be read again: ")[2].partition(".\n")[0]
