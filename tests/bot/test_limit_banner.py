"""When a limit ends, as the CLI words it. `now` is Tuesday 14 November 2023, 22:13:20 UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.limit_banner import is_banner, resets_at
from tests.bot.fakes import EPOCH


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.limit_banner._here", lambda: UTC)


@pytest.mark.parametrize(
    ("text", "banner"),
    [
        ("You've hit your session limit · resets 11:10pm", True),
        ("You've hit your limit - resets 8:42pm (UTC)", True),
        ("You’ve reached your 5-hour limit · resets 3:51am (UTC)", True),
        ("Claude AI usage limit reached|1700003600", True),
        ("The CLI says “You've hit your limit · resets 9pm” then.", False),
        ("You've hit your stride", False),
        ("", False),
    ],
)
def test_a_banner_begins_with_its_own_words(text: str, banner: bool) -> None:
    assert is_banner(text) is banner


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("You've hit your session limit · resets 11:10pm", "2023-11-14T23:10"),
        ("You've hit your limit - resets 8:42pm (UTC)", "2023-11-15T20:42"),
        ("You've hit your limit · resets 9am (Asia/Tokyo)", "2023-11-15T00:00"),
        ("You've hit your limit · resets 12am (UTC)", "2023-11-15T00:00"),
        ("You've hit your limit · resets 12pm (Nowhere/Land)", "2023-11-15T12:00"),
        ("You've hit your weekly limit · resets Nov 17, 9pm (UTC)", "2023-11-17T21:00"),
        ("You've hit your weekly limit · resets Jan 2 at 9:30am (UTC)", "2024-01-02T09:30"),
        ("Claude AI usage limit reached|1700003600", "2023-11-14T23:13:20"),
    ],
)
def test_the_time_that_is_told_is_the_next_one_of_its_kind(text: str, then: str) -> None:
    told = resets_at(text, now=EPOCH)

    assert told is not None
    assert datetime.fromtimestamp(told, UTC) == datetime.fromisoformat(then).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["You've hit your limit", "resets soon", "resets 99pm", "You've hit your limit · resets Xyz 3, 9pm", "resets Feb 31, 9pm", "", "9pm"],
)
def test_a_time_that_nobody_told_is_none(text: str) -> None:
    assert resets_at(text, now=EPOCH) is None
