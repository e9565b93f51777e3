from __future__ import annotations

import pytest

from bot.cli.say import gate_in_words
from bot.cli.terminal import one_line, safe, table, width
from bot.cli.threads import age, where


def test_text_of_others_cannot_move_the_cursor() -> None:
    assert safe("a\x1b[2Jb\rc\x07\u202ed\x9b") == "a\ufffd[2Jb\ufffdc\ufffd\ufffdd\ufffd"


def test_newlines_stay_in_a_text_and_go_in_a_cell() -> None:
    assert safe("a\n\tb") == "a\n\tb"
    assert one_line(" a\n\tb ") == "a b"


def test_joined_emoji_stay_whole() -> None:
    assert safe("👩\u200d💻") == "👩\u200d💻"


def test_japanese_takes_two_cells() -> None:
    assert width("日本go") == 6
    assert width("か\u3099") == 2


def test_columns_stand_in_line_in_japanese_too() -> None:
    assert table([("一般", "x"), ("dev", "y")]) == "一般  x\ndev   y"


@pytest.mark.parametrize(("days", "said"), [(0.5, "today"), (1.0, "1 day"), (1.9, "1 day"), (31.7, "31 days")])
def test_an_age_is_told_in_days(days: float, said: str) -> None:
    assert age(days) == said


def test_a_direct_message_is_no_channel() -> None:
    assert (where("general"), where("@mika")) == ("#general", "@mika")


@pytest.mark.parametrize(
    ("decision", "reason", "messages", "omitted", "said"),
    [
        ("refetched", "not_known", 7, 0, "re-read 7 messages (not_known)"),
        ("refetched", "after_rotate", 1, 12, "re-read 1 message (after_rotate, 12 left out)"),
        ("known", "held", 0, 0, "known, nothing re-read (held)"),
        ("known", "held_delta", 3, 0, "known, 3 messages by others added (held_delta)"),
        ("new", "first_message", 0, 0, "a new thread (first_message)"),
        ("refetch_failed", "missing_scope", 0, 0, "the thread could not be read (missing_scope)"),
        ("something_newer", "why", 0, 0, "something_newer (why)"),
    ],
)
def test_the_gate_is_told_in_words(decision: str, reason: str, messages: int, omitted: int, said: str) -> None:
    assert gate_in_words({"decision": decision, "reason": reason, "messages": messages, "omitted": omitted}) == said


def test_without_a_gate_there_is_nothing_to_tell() -> None:
    assert gate_in_words(None) == ""
