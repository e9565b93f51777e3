from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.local import slack_seed
from bot.local.slack_journal import Journal, JournalInUse, JournalUnreadable
from bot.local.slack_outbox import KEEP_SECONDS, Outbox
from bot.local.slack_store import FILE_NAME, Store

NOW = 1_790_000_000.0


def open_store(folder: Path, now: float = NOW) -> Store:
    return Store(folder, clock=lambda: now, opening=lambda: slack_seed.people_and_channels(now))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "local")
    yield store
    store.close()


def say(store: Store, channel: str = "C0GENERAL", **fields: Any) -> str:
    ts: str = fields.pop("ts", None) or store.next_ts(channel)
    store.put(channel, {"type": "message", "user": "U0MIKA", "text": "hi", "ts": ts, **fields})
    return ts


def test_ts_grow_strictly_within_a_channel_while_the_clock_stands_still(store: Store) -> None:
    first = [store.next_ts("C0GENERAL") for _ in range(3)]

    assert first == ["1790000000.000000", "1790000000.000001", "1790000000.000002"]
    assert store.next_ts("C0RELEASE") == first[0]


def test_ts_grow_on_when_the_clock_went_back_over_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    said = say(store)
    store.remove("C0GENERAL", said)
    store.close()

    again = open_store(tmp_path, now=NOW - 3600)

    assert again.next_ts("C0GENERAL") > said
    again.close()


def test_any_message_of_a_thread_leads_to_it(store: Store) -> None:
    root = say(store)
    replies = [say(store, thread_ts=root) for _ in range(3)]

    assert {store.root_ts("C0GENERAL", ts) for ts in (root, *replies)} == {root}
    assert [m["ts"] for m in store.thread("C0GENERAL", root)] == [root, *replies]
    assert store.root_ts("C0GENERAL", "1.000000") is None
    assert store.root_ts("C0RELEASE", root) is None


def test_a_root_tells_of_its_replies_and_a_reply_of_its_root(store: Store) -> None:
    root = say(store)
    assert "thread_ts" not in store.shown("C0GENERAL", root)

    reply = say(store, thread_ts=root, user="U0TOM")

    shown = store.shown("C0GENERAL", root)
    assert (shown["thread_ts"], shown["reply_count"], shown["reply_users"], shown["latest_reply"]) == (root, 1, ["U0TOM"], reply)
    assert store.shown("C0GENERAL", reply)["parent_user_id"] == "U0MIKA"


def test_a_message_that_came_late_is_put_where_it_belongs(store: Store) -> None:
    root, last = say(store, ts="1789000000.000001"), say(store, ts="1789000000.000009", thread_ts="1789000000.000001")

    middle = say(store, ts="1789000000.000005", thread_ts=root)

    assert [m["ts"] for m in store.thread("C0GENERAL", root)] == [root, middle, last]
    assert [m["ts"] for m in store.messages("C0GENERAL", after=root)] == [middle, last]


def test_the_timeline_holds_roots_and_replies_sent_to_the_channel_too(store: Store) -> None:
    root = say(store)
    say(store, thread_ts=root)
    both = say(store, thread_ts=root, subtype="thread_broadcast")

    assert [m["ts"] for m in store.timeline("C0GENERAL")] == [root, both]


def test_a_ts_twice_in_a_channel_and_a_reply_to_nothing_are_refused_and_leave_no_trace(store: Store, tmp_path: Path) -> None:
    ts, size = say(store), (tmp_path / "local" / FILE_NAME).stat().st_size + 0

    for fields in ({"ts": ts}, {"thread_ts": "1.000000"}, {"ts": "soon"}):
        with pytest.raises(ValueError):
            say(store, **fields)

    assert (tmp_path / "local" / FILE_NAME).stat().st_size == size


def test_everything_said_is_there_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    root = say(store, text="日本語 \ud83d and a lone surrogate")
    reply, gone = say(store, thread_ts=root), say(store, thread_ts=root)
    store.change("C0GENERAL", {**(store.get("C0GENERAL", reply) or {}), "text": "changed"})
    store.remove("C0GENERAL", gone)
    before = store.thread("C0GENERAL", root)
    store.close()

    again = open_store(tmp_path)

    assert again.thread("C0GENERAL", root) == before
    assert (again.people, again.conversations) == (store.people, store.conversations)
    again.close()


def test_the_opening_is_asked_for_once_in_the_life_of_a_folder(tmp_path: Path) -> None:
    open_store(tmp_path).close()

    again = Store(tmp_path, clock=lambda: NOW, opening=lambda: pytest.fail("asked again"))

    assert "C0GENERAL" in again.conversations
    again.close()


def test_an_opening_that_was_interrupted_leaves_no_half_workspace(tmp_path: Path) -> None:
    def interrupted() -> Iterator[dict[str, Any]]:
        yield from list(slack_seed.people_and_channels(NOW))[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path, clock=lambda: NOW, opening=interrupted)

    whole = open_store(tmp_path)
    assert len(whole.conversations) == len(slack_seed.CONVERSATIONS)
    whole.close()


@pytest.mark.parametrize("torn", [1, 7, 40])
def test_a_torn_last_line_is_cut_off_and_the_next_one_is_whole(tmp_path: Path, torn: int) -> None:
    store = open_store(tmp_path)
    kept, lost = say(store), say(store, text="a last line of some length, longer than what is torn off")
    store.close()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:-torn])

    again = open_store(tmp_path)
    new = say(again)
    again.close()
    third = open_store(tmp_path)

    assert third.get("C0GENERAL", kept) and third.get("C0GENERAL", new)
    assert lost != new or third.get("C0GENERAL", lost)
    third.close()


def test_a_line_that_is_damaged_before_the_end_is_named(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    path = tmp_path / FILE_NAME
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b'{"kind":', *lines[2:]]))

    with pytest.raises(JournalUnreadable, match=r"workspace\.jsonl: line 2 is damaged"):
        open_store(tmp_path)


def test_a_newer_format_is_refused_not_guessed(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"v":2,"kind":"insomnia.slack"}\n', encoding="utf-8")

    with pytest.raises(JournalUnreadable, match="reads 1; update it"):
        open_store(tmp_path)


def test_one_process_at_a_time_serves_a_folder(store: Store, tmp_path: Path) -> None:
    with pytest.raises(JournalInUse, match="another process"):
        open_store(tmp_path / "local")


def test_nobody_else_on_the_machine_can_read_the_workspace(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "local"

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}


def test_a_journal_keeps_its_header_when_it_is_emptied(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append({"a": 1})
    journal.reset()
    journal.append({"b": 2})
    journal.close()

    again = Journal(tmp_path / "j")
    assert again.records == [{"b": 2}]
    again.close()


def test_events_that_nobody_acknowledged_are_pending_after_a_restart(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, clock=lambda: NOW)
    payloads = [{"event_id": f"Ev{n}"} for n in range(3)]
    for payload in payloads:
        outbox.put(payload)
    outbox.done(payloads[1])
    outbox.close()

    again = Outbox(tmp_path, clock=lambda: NOW + 60)
    assert again.pending == [payloads[0], payloads[2]]
    again.close()

    too_late = Outbox(tmp_path, clock=lambda: NOW + KEEP_SECONDS + 1)
    assert too_late.pending == []
    too_late.close()
