"""What of a thread fits into a prompt: the root and the newest, whole messages, never over the budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.messages import Role, Said, Speaker
from bot.quoting import MAX_MESSAGE_CHARS, said_line
from bot.thread_history import LONG_MESSAGE_CHARS, LONG_THREAD, MAX_HISTORY_CHARS, trim

ROOT = "1000.000000"


def ts(number: int) -> str:
    return f"{1000 + number}.{number:06d}"


def said(number: int, text: str, speaker: Speaker | None = None) -> Said:
    return Said(ts=ts(number), speaker=speaker or Speaker(id="U0ALICE", name="Alice Tanaka"), text=text)


def owed(messages: Sequence[Said]) -> int:
    """How many messages any bot owes the model: the newest within the budget at 120 characters a line, the root's place kept free."""
    cap = MAX_MESSAGE_CHARS if len(messages) <= LONG_THREAD else LONG_MESSAGE_CHARS
    costs = [min(len(message.text), cap) + 120 for message in messages]
    left, count = MAX_HISTORY_CHARS - costs[0], 0
    for cost in reversed(costs[1:]):
        left -= cost
        if left < 0:
            return count
        count += 1
    return count


def test_a_thread_that_fits_is_kept_whole_without_a_gap() -> None:
    trimmed = trim([said(n, "x") for n in range(20)], total=20)

    assert (len(trimmed.kept), trimmed.omitted, trimmed.gap_after, trimmed.cap) == (20, 0, None, MAX_MESSAGE_CHARS)


def test_long_threads_get_the_smaller_cap_by_their_whole_length() -> None:
    assert trim([said(0, "x")], total=LONG_THREAD + 1).cap == LONG_MESSAGE_CHARS


def test_the_gap_stands_first_where_the_root_is_gone() -> None:
    trimmed = trim([said(n, "x" * 3_900) for n in range(1, 9)], total=8, root_ts=ROOT)

    assert (trimmed.gap_after, trimmed.kept[-1].ts) == (0, ts(8))


def test_what_was_shown_already_is_left_out_and_the_gap_stays_in_place() -> None:
    trimmed = trim([said(n, "x" * 1_900) for n in range(30)], total=30)
    newer = trimmed.without(lambda message: message.ts in (ROOT, ts(29)))

    assert trimmed.gap_after == 1
    assert (newer.gap_after, newer.omitted) == (0, trimmed.omitted)
    assert [message.ts for message in newer.kept] == [message.ts for message in trimmed.kept[1:-1]]


def test_digests_are_of_the_whole_text() -> None:
    long = said(0, "x" * 9_000)

    assert trim([long], total=1).kept[0].digest == long.digest


speakers = st.sampled_from(
    [
        Speaker(id="U1", name="A", role=Role.OWN),
        Speaker(id="U0123456789", name="名前" * 30, verified=False),
        Speaker(id="U0ALICE", name="Alice"),
    ]
)
lengths = st.sampled_from([0, 1, 40, 300, 1_999, 2_001, 3_880, 5_000])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(lengths, speakers, st.sampled_from(["x", "y\n", "<"])), min_size=1, max_size=40), st.integers(0, 50))
def test_the_budget_holds_what_is_owed_and_is_never_exceeded(shapes: list[tuple[int, Speaker, str]], let_go: int) -> None:
    messages = [said(n, (sign * length)[:length], speaker) for n, (length, speaker, sign) in enumerate(shapes)]
    trimmed = trim(messages, total=len(messages) + (let_go if len(messages) > LONG_THREAD else 0))
    lines = [said_line(message, UTC, cap=trimmed.cap) for message in trimmed.kept]

    assert sum(len(line) + 1 for line in lines) <= MAX_HISTORY_CHARS
    assert len(trimmed.kept) - 1 >= owed(messages)
    assert trimmed.kept[0] is messages[0]
    assert [*trimmed.kept[1:]] == messages[len(messages) - len(trimmed.kept) + 1 :]
    assert all(older.ts < newer.ts for older, newer in pairwise(trimmed.kept))
