"""When the embedded model looks into the memory, and what it says of what it finds there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bot.local.model_answers import by_rules
from bot.local.model_recall import QUERY, asks
from bot.local.model_record import RequestRecord
from bot.local.model_rules import ENGLISH, JAPANESE
from bot.local.model_steps import ToolCall
from memory.reading_answers import as_found
from memory.reading_schemas import MAX_QUERY_CHARS, MEMORY_QUERY
from memory.records import Status, Trust
from memory.store_view import Stored
from memory.tools import check
from tests.memory.made_records import record

HEAD = 'channel="#general" id="T0/C0/1761.000100" at="2026-11-30T12:00:00+09:00" from="Carol (U0CAROL, person)"'
QUESTION = "On which day are release branches cut?"
HELD = "2026-10-28T10:03:11+09:00 Alice (U0ALICE, person): release branches are cut on Mondays"


def prompt(question: str, *lines: str) -> dict[str, Any]:
    quoted = "".join(f"{line}\n" for line in lines)
    section = f'<thread-0123abcd id="T0/C0/1761.000100">\n{quoted}</thread-0123abcd>\n' if lines else ""
    text = f"{section}<message-0123abcd {HEAD}>\n{question}\n</message-0123abcd>"
    return {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]}


def used(answer: object, *, name: str = QUERY) -> list[dict[str, Any]]:
    """The call, and what the tool answered."""
    call = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": json.dumps(answer, ensure_ascii=False)}]}
    reminder = {"role": "user", "content": "<system-reminder>x</system-reminder>"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}, reminder]


def found(*bodies: str, question: str = QUESTION, **changed: Any) -> object:
    """As the tool answers."""
    records = [record(f"note-{n}", **{"title": "Release branches", "body": body, **changed}) for n, body in enumerate(bodies)]
    shown = [Stored(kind=each.kind, slug=each.slug, path="", record=each, sha256="", text="") for each in records]
    return as_found(shown, question, of=len(shown))


def answered(*messages: dict[str, Any], offered: Sequence[str] = (QUERY,)) -> tuple[str, ToolCall | None]:
    body = {"tools": [{"name": name} for name in offered], "messages": list(messages)}
    return by_rules(RequestRecord().add(body, key="k", size=1))


@pytest.mark.parametrize(
    "text", ["When?", "いつですか。", "いつ？", "決まりましたか", "When? Thanks.", "いつですか。よろしく。", "(really?)", "first?\nsecond."]
)
def test_a_message_that_asks_is_known(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["Thank you.", "ありがとう。", "see http://x/?a=b", "しっかり。", "かどうか見ます。", ""])
def test_a_message_that_only_says_something_asks_nothing(text: str) -> None:
    assert not asks(text)


def test_a_question_in_a_thread_that_holds_nothing_is_looked_up() -> None:
    text, call = answered(prompt(QUESTION))

    assert (text, call) == ("", ToolCall(QUERY, {"query": QUESTION}))


def test_so_is_one_that_no_line_of_the_thread_fits() -> None:
    assert answered(prompt(QUESTION, "2026-10-28T10:03:11+09:00 Alice (U0ALICE, person): lunch is at noon"))[1] is not None


def test_so_is_one_that_was_only_asked_before() -> None:
    assert answered(prompt(QUESTION, "2026-10-28T10:03:11+09:00 Alice (U0ALICE, person): when are release branches cut?"))[1] is not None


def test_a_long_question_is_cut_to_what_the_tool_takes() -> None:
    call = answered(prompt("release " * 100 + "?"))[1]

    assert call is not None and len(call.input["query"]) <= MAX_QUERY_CHARS
    check(call.input, MEMORY_QUERY.spec.schema)


@pytest.mark.parametrize(
    "messages",
    [
        [prompt(QUESTION, HELD)],
        [prompt("Release branches are cut on Mondays.")],
        [prompt(QUESTION), *used({"results": []})],
        [prompt(QUESTION), *used("no such tool", name="no_such_tool")],
        [{"role": "user", "content": "when?"}],
        [],
    ],
    ids=["a line fits", "nothing is asked", "it was looked up", "another tool was called", "no thread", "nothing"],
)
def test_nothing_else_is_looked_up(messages: list[dict[str, Any]]) -> None:
    assert answered(*messages)[1] is None


def test_nothing_is_looked_up_where_the_tool_is_not_offered_or_the_context_was_just_compacted() -> None:
    summary = "This session is being continued.\nOpen request in thread T0/C0/1.1 from Carol at x: when?"

    assert answered(prompt(QUESTION), offered=())[1] is None
    assert answered({"role": "user", "content": summary})[1] is None


def test_the_record_that_fits_is_told_as_memory_by_its_name() -> None:
    text, call = answered(prompt(QUESTION), *used(found("The canteen opens at noon.", "Release branches are cut on Mondays.")))

    assert call is None
    assert text == f"From memory (decision/note-1): “Release branches are cut on Mondays.”. {ENGLISH.nothing} {ENGLISH.signature}"


def test_lines_that_do_not_fit_are_only_counted_beside_it() -> None:
    lunch = "2026-10-28T10:03:11+09:00 Alice (U0ALICE, person): lunch is at noon"

    text, _ = answered(prompt(QUESTION, lunch), *used(found("Release branches are cut on Mondays.")))

    assert text.endswith(f"Mondays.”. {ENGLISH.one_held} {ENGLISH.signature}")


def test_a_japanese_question_is_answered_from_memory_in_japanese() -> None:
    question = "リリースブランチはいつ切りますか。"

    text, _ = answered(prompt(question), *used(found("リリースブランチは月曜に切ります。", question=question)))

    assert text == f"記憶より（decision/note-0）：「リリースブランチは月曜に切ります。」。{JAPANESE.nothing}{JAPANESE.signature}"


def test_what_a_page_said_is_told_as_that() -> None:
    text, _ = answered(prompt(QUESTION), *used(found("Release branches are cut on Mondays.", trust=Trust.EXTERNAL)))

    assert text.startswith("From memory (decision/note-0, as a tool or a page said it, not a person): “")


@pytest.mark.parametrize(
    "answer",
    [
        found(),
        found("Lunch is at noon.", title="Lunch"),
        found("Release branches are cut on Mondays.", status=Status.REPLACED, replaced_by="x"),
        {"error": {"code": "unavailable"}},
        "there is no message that this is asked for",
        [],
    ],
    ids=["nothing", "what does not fit", "what was replaced", "an error", "no object", "a list"],
)
def test_where_nothing_is_found_it_says_what_it_says_without_memory(answer: object) -> None:
    assert answered(prompt(QUESTION), *used(answer))[0] == f"{ENGLISH.nothing} {ENGLISH.signature}"


def test_what_another_tool_answered_is_not_told_as_memory() -> None:
    text, _ = answered(prompt(QUESTION), *used(found("Release branches are cut on Mondays."), name="mcp__other__query"))

    assert text == f"{ENGLISH.nothing} {ENGLISH.signature}"


def test_missing_history_is_still_admitted_before_anything_else() -> None:
    asked = prompt(QUESTION)
    asked["content"][0]["text"] = f"They could not be read from Slack (rate_limited): do not guess.\n{asked['content'][0]['text']}"

    text, _ = answered(asked, *used(found("Release branches are cut on Mondays.")))

    assert text.startswith("Please note: They could not be read from Slack (rate_limited). From memory (decision/note-0): “Release")


def test_the_next_question_in_the_thread_does_not_quote_the_answer_from_memory() -> None:
    first, _ = answered(prompt(QUESTION), *used(found("Release branches are cut on Mondays.")))
    said = [prompt(QUESTION), {"role": "assistant", "content": first}]

    _, call = answered(*said, prompt("And who cuts them?"))
    text, _ = answered(*said, prompt("And who cuts them?"), *used({"results": []}))

    assert call is not None and "Mondays" not in text


def test_an_old_lookup_says_nothing_about_the_question_that_is_asked_now() -> None:
    said = [prompt(QUESTION), *used(found("Release branches are cut on Mondays.")), {"role": "assistant", "content": "On Mondays."}]

    text, call = answered(*said, prompt("Thank you for the release branches."))

    assert call is None and "From memory" not in text
