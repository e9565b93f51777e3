from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.local import slack_seed
from bot.local.slack_records import BOT_USER_ID, Message
from bot.local.slack_seed_threads import THREADS
from bot.local.slack_store import Store
from bot.local.slack_threads import thread_row
from bot.messages import ChannelKind

NOW = datetime(2026, 12, 2, 9, 30, tzinfo=UTC).timestamp()
DAY = 86_400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path, clock=lambda: NOW, opening=lambda: slack_seed.opening(NOW))
    yield store
    store.close()


def threads(store: Store) -> list[tuple[str, list[Message]]]:
    return [(c, store.thread(c, m["ts"])) for c in store.conversations for m in store.timeline(c)]


@given(st.datetimes(min_value=datetime(2025, 1, 1), max_value=datetime(2032, 1, 1), timezones=st.just(UTC)))
def test_every_thread_is_a_month_or_two_old_and_begins_on_a_monday_or_tuesday(today: datetime) -> None:
    now = today.timestamp()
    roots = [r["message"] for r in slack_seed.opening(now) if r["kind"] == "message" and "thread_ts" not in r["message"]]

    assert len(roots) == len(THREADS)
    for root in roots:
        assert 30 <= (now - float(root["ts"])) / DAY <= 60
        assert datetime.fromtimestamp(float(root["ts"])).astimezone().weekday() <= 1


def test_there_are_public_channels_a_private_one_and_a_direct_message(store: Store) -> None:
    kinds = [c.kind for c in store.conversations.values()]

    assert kinds.count(ChannelKind.PUBLIC) == 3
    assert kinds.count(ChannelKind.PRIVATE) == kinds.count(ChannelKind.DIRECT) == 1
    assert [c.name for c in store.conversations.values() if c.default] == ["general"]
    assert [p.name for p in store.people.values() if p.default] == ["mika"]
    assert all(c.has_bot for c in store.conversations.values())


def test_each_thread_reads_in_order_and_every_placeholder_is_filled(store: Store) -> None:
    for _, thread in threads(store):
        assert all(a["ts"] < b["ts"] for a, b in pairwise(thread))
        assert not any(c in m["text"] for m in thread for c in "{}")


def test_the_threads_come_in_both_languages_and_hold_what_can_be_asked_for(store: Store) -> None:
    said = "\n".join(m["text"] for _, thread in threads(store) for m in thread)

    for fact in ("47 minutes", "kestrel-07", "4C19", "782,000円", "みなと食堂", "5,800円", "312件", "R-0417"):
        assert fact in said
    assert len([t for c, t in threads(store) if store.conversations[c].kind is ChannelKind.PUBLIC]) >= 6


def test_one_thread_begins_with_an_alert_without_text_one_with_a_file_and_one_holds_an_answer_of_the_bot(store: Store) -> None:
    roots = [thread[0] for _, thread in threads(store)]
    alerts = [m for m in roots if m.get("subtype") == "bot_message"]
    files = [m for m in roots if m.get("subtype") == "file_share"]
    answers = [m for c, t in threads(store) for m in t if m.get("user") == BOT_USER_ID and c == "C0GENERAL"]

    assert [(a["text"], "user" in a, len(a["attachments"]), len(a["blocks"])) for a in alerts] == [("", False, 1, 2)]
    assert [f["files"][0]["mimetype"] for f in files] == ["application/pdf"]
    assert len(answers) == 1


def test_a_row_of_the_list_says_where_how_old_how_long_and_what(store: Store) -> None:
    alert = next(t for _, t in threads(store) if t[0].get("subtype") == "bot_message")

    row = thread_row(store.conversations["C0RELEASE"], alert, words=str, now=NOW)

    assert row["first_words"] == "Disk latency high on kestrel-07"
    assert (row["channel"], row["messages"], row["thread_ts"]) == ("release", 5, alert[0]["ts"])
    assert 30 <= row["age_days"] <= 60


def test_dates_in_the_texts_are_in_the_language_of_the_text() -> None:
    day = slack_seed.Day(datetime(2026, 10, 27, tzinfo=UTC))

    assert f"{day:en+7} {day:ja+2} {day:en}" == "Tuesday 3 November 10月29日(木) Tuesday 27 October"
