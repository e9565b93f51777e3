from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.local.slack_pages import BadCursor, page, within
from bot.local.slack_records import micros, ts_of


def message(number: int) -> dict[str, str]:
    return {"ts": ts_of(1_700_000_000_000_000 + number)}


def all_pages(items: list[str], limit: int, *, descending: bool = False) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = ""
    while not pages or cursor:
        found, cursor = page(items, key=str, cursor=cursor, limit=limit, descending=descending)
        pages.append(found)
    return pages


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 7), st.booleans())
def test_the_pages_together_are_the_whole_in_order(items: list[str], limit: int, descending: bool) -> None:
    items = sorted(items, reverse=descending)

    pages = all_pages(items, limit, descending=descending)

    assert [x for p in pages for x in p] == items
    assert all(len(p) == limit for p in pages[:-1])


def test_what_is_said_or_deleted_between_two_pages_shifts_nothing() -> None:
    _, cursor = page(["a", "b", "c", "d"], key=str, cursor="", limit=2)

    assert page(["a", "c", "d", "e"], key=str, cursor=cursor, limit=9)[0] == ["c", "d", "e"]
    assert page(["a", "b", "d"], key=str, cursor=cursor, limit=9)[0] == ["d"]


@pytest.mark.parametrize("cursor", ["nonsense", "bmV4dDo=", "b3RoZXI6MQ==", "あ"])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        page(["a"], key=str, cursor=cursor, limit=1)


def test_the_ends_of_a_window_are_left_out_unless_inclusive() -> None:
    said = [message(n) for n in range(5)]
    ends = {"oldest": said[1]["ts"], "latest": said[3]["ts"]}

    assert within(said, **ends, inclusive=False) == said[2:3]
    assert within(said, **ends, inclusive=True) == said[1:4]
    assert within(said, oldest="", latest="", inclusive=False) == said
    assert within(said, oldest="0", latest="", inclusive=False) == said


@pytest.mark.parametrize("ts", ["", "yesterday", "1.2.3", "-1", "12345678901.1", "1700000000.1234567", "１２"])
def test_what_is_no_ts_is_refused(ts: str) -> None:
    with pytest.raises(ValueError, match="not a ts"):
        micros(ts)


def test_a_ts_is_compared_by_its_value() -> None:
    assert micros("1700000000") < micros("1700000000.000001") < micros("1700000000.5")
    assert ts_of(micros("1700000000.5")) == "1700000000.500000"
