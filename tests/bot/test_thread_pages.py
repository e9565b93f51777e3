"""The window over a thread's pages: the root, the newest, and an honest count."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.thread_pages import TAIL, Window

ROOT = "1000.000000"


def ts(number: int) -> str:
    return f"{1000 + number}.{number:06d}"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 3 * TAIL), st.integers(1, 200), st.randoms(use_true_random=False))
def test_pages_that_overlap_and_repeat_the_root_are_counted_once(size: int, page: int, rng: random.Random) -> None:
    window = Window(ROOT, "")
    for start in range(0, size + 1, page):
        overlap = range(max(0, start - rng.randrange(9)), min(size + 1, start + page))
        for number in (0, *overlap):
            window.take({"ts": ts(number), "text": str(number)})

    assert window.read == size + 1
    assert [message["ts"] for message in window.messages()] == [ts(n) for n in (0, *range(max(1, size + 1 - TAIL), size + 1))]


def test_a_window_stays_bounded() -> None:
    window = Window(ROOT, "")
    for number in range(5_000):
        window.take({"ts": ts(number)})
        assert len(window.newest) < 2 * TAIL

    assert window.read == 5_000


def test_a_later_reading_of_a_message_replaces_the_earlier_one() -> None:
    window = Window(ROOT, "")
    for text in ("first", "edited"):
        window.take({"ts": ts(1), "text": text})

    assert [message["text"] for message in window.messages()] == ["edited"]
    assert window.expected is None
