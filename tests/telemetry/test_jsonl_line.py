"""One line: always JSON, always short enough, the same text again when it is read, and harmless to look at."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.jsonl_line import ALWAYS, MAX_BYTES, LineFormatter

FORMAT = LineFormatter()
ID = "0123456789abcdef" * 2
HEAD = {"ts": "2026-03-01T12:00:00.000Z", "event": "reply", "level": "info", "summary": "answered", "trace_id": ID, "seq": 1, "v": 1}


def line(fields: Mapping[str, object]) -> dict[str, Any]:
    raw = FORMAT.line(fields)
    assert raw.endswith(b"\n") and raw.count(b"\n") == 1 and len(raw) <= MAX_BYTES
    read = json.loads(raw.decode("utf-8"), parse_constant=pytest.fail)
    assert isinstance(read, dict)
    return read


def test_japanese_and_emoji_stand_there_as_they_are() -> None:
    text = "金曜のデプロイは？ ﾃﾞｰﾀﾍﾞｰｽ 👩‍👩‍👧 é"  # with zero width joiners, which bind the family

    assert text in FORMAT.line({"text": text}).decode()
    assert line({"text": text}) == {"text": text}


def test_what_moves_a_cursor_or_turns_the_direction_is_escaped() -> None:
    nasty = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp") and code not in (0x200C, 0x200D)
    ]

    raw = FORMAT.line({"text": "".join(nasty)})

    assert raw[:-1].isascii() and raw[:-1].decode().isprintable()
    assert line({"text": "".join(nasty)}) == {"text": "".join(nasty)}


def test_lone_surrogates_survive() -> None:
    assert line({"text": "a\ud800b\udfff", "\udc00": 1}) == {"text": "a\ud800b\udfff", "\udc00": 1}


def test_numbers_that_json_does_not_have_become_words() -> None:
    assert line({"n": [math.nan, math.inf, -math.inf, 1.5]}) == {"n": ["NaN", "Infinity", "-Infinity", 1.5]}


def test_a_backslash_before_an_escaped_character_stays_one() -> None:
    assert line({"text": "\\\u202e\\\\\u2028"}) == {"text": "\\\u202e\\\\\u2028"}


def test_whatever_type_a_value_has_there_is_a_line() -> None:
    odd = {"bytes": b"\xff\xe9\x87\x91", "set": {1}, "none": None, "nested": {"a": ({"b": [True]},)}, "object": ValueError("x")}

    assert line(odd) == {
        "bytes": "\\xff金",
        "set": [1],
        "none": None,
        "nested": {"a": [{"b": [True]}]},
        "object": "x",
    }


texts = st.text(st.characters(exclude_categories=()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@pytest.mark.sweep
@settings(max_examples=30)  # building such things is what takes the time
@given(st.dictionaries(texts, values, max_size=5))
def test_anything_becomes_one_line_of_json(fields: dict[str, Any]) -> None:
    line(fields)


@given(texts.filter(lambda text: not any(0xD800 <= ord(sign) < 0xE000 for sign in text)))
def test_any_text_is_the_same_when_it_is_read_again(text: str) -> None:
    assert line({"text": text, text: 1})["text"] in (text, 1)


@pytest.mark.parametrize(
    "big",
    [
        {"text": "x" * 100_000},
        {"text": "金" * 30_000},
        {"text": "\x1b" * 30_000},
        {"ids": [ID] * 5_000},
        {"lists": [["x" * 50] * 200] * 200},
        {f"key {n}": "some words of text" for n in range(3_000)},
        {f"key {n}": "some words of text, as long as a sentence of this length may be, and then still some more" for n in range(400)},
        {"k" * 40_000: 1},
        {"deep": {f"key {n}": n for n in range(10_000)}},
        {"summary": "x" * 40_000, "route": {f"key {n}": n for n in range(10_000)}, "run_id": ID * 2},
    ],
    ids=[
        "text",
        "Japanese",
        "controls",
        "list",
        "lists of lists",
        "very many fields",
        "many fields",
        "a long name",
        "an object",
        "in the common ones",
    ],
)
def test_a_line_too_long_is_cut_says_so_and_keeps_what_it_is_found_by(big: dict[str, Any]) -> None:
    read = line({**HEAD, **big})

    assert read["shortened"] is True
    assert {key: read[key] for key in HEAD if key not in big} == {key: HEAD[key] for key in HEAD if key not in big}
    assert read.get("run_id", ID * 2) == ID * 2


def test_a_line_just_short_enough_is_not_touched() -> None:
    empty = len(FORMAT.line({"text": ""}))

    assert line({"text": "x" * (MAX_BYTES - empty)}) == {"text": "x" * (MAX_BYTES - empty)}
    assert line({"text": "x" * (MAX_BYTES - empty + 1)})["shortened"] is True


def test_what_was_cut_says_how_much_is_missing() -> None:
    read = line({"text": "x" * 40_000, "ids": ["a", "b"], "n": 1})

    assert read["text"] == "x" * 16_384 + "… (23616 more characters)"
    assert (read["ids"], read["n"]) == (["a", "b"], 1)


def test_every_field_that_is_always_kept_is_kept_whole_up_to_what_ids_need() -> None:
    fields = {key: ID * 2 for key in ALWAYS}

    assert {**line({**fields, **{f"key {n}": "some words" for n in range(3_000)}})}.items() >= fields.items()
