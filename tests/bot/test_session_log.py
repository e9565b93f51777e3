"""One line an entry, whatever the disk or a crash does; and what a fresh session is told of the one before."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from bot import session_log
from bot.messages import Role, Speaker
from bot.quoting import LINE_CHARS
from bot.session_log import (
    SUMMARY_CHARS,
    SUMMARY_ENTRY_CHARS,
    Entry,
    EntryKind,
    SessionLog,
    build_context_summary,
    read_entries,
    summary_line,
)
from telemetry.events import Thread, TraceRef
from tests.bot.ground import FakeClock

HERE, THERE = Thread("T0", "C0", "1761000000.000000"), Thread("T0", "C1", "1761000000.000000")
ANN = Speaker(id="U1", name="Ann")
BOT = Speaker(id="U0BOT", name="Insomnia", role=Role.OWN)


def log(folder: Path, session_id: str = "s1") -> SessionLog:
    return SessionLog(folder, route="main", session_id=session_id, clock=FakeClock())


def asked(text: str, *, thread: Thread = HERE, ts: str = "1761000000.000001", **more: Any) -> Entry:
    return Entry(**{"kind": EntryKind.USER, "text": text, "epoch": 1, "thread": thread, "message_ts": ts, "speaker": ANN, **more})


def texts(path: Path) -> list[str]:
    return [e["text"] for e in read_entries(path)]


# -- lines -------------------------------------------------------------------------------------------------------------
def test_an_entry_is_one_line_with_all_that_leads_back_to_its_reply(tmp_path: Path) -> None:
    written = log(tmp_path / "main")

    written.append(asked("いつ?\nいつ? \u2028", trust="person", trace=TraceRef("a" * 32, "b" * 16)))

    (line,) = written.path.read_text(encoding="utf-8").splitlines()[:1]
    assert written.path.read_bytes().count(b"\n") == 1
    assert "いつ" in line
    assert json.loads(written.path.read_bytes()) == {
        "v": 1,
        "seq": 1,
        "ts": "2025-10-20T22:40:00.000Z",
        "kind": "user",
        "route": "main",
        "session_id": "s1",
        "epoch": 1,
        "thread": {"team": "T0", "channel": "C0", "ts": "1761000000.000000"},
        "message_ts": "1761000000.000001",
        "speaker": {"id": "U1", "name": "Ann", "role": "person"},
        "trust": "person",
        "text": "いつ?\nいつ? \u2028",
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
    }


def test_an_entry_of_no_thread_says_so(tmp_path: Path) -> None:
    written = log(tmp_path)

    written.append(Entry(kind=EntryKind.RESET, text="crash", epoch=2))

    entry = next(read_entries(written.path))
    assert (entry["thread"], entry["speaker"], entry["trace_id"], entry["trust"]) == (None, None, "", "own")
    assert "message_ts" not in entry


def test_folder_and_file_are_their_owners_alone(tmp_path: Path) -> None:
    written = log(tmp_path / "main")
    written.append(asked("x"))

    assert stat.S_IMODE(written.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(written.path.stat().st_mode) == 0o600


def test_each_entry_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, really = log(tmp_path), os.write
    writes: list[bytes] = []

    def watched(fd: int, data: bytes) -> int:
        writes.append(data)
        return really(fd, data)

    monkeypatch.setattr(os, "write", watched)

    for n in range(3):
        written.append(asked("x" * 100_000 * n))

    assert len(writes) == 3
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in writes)


def test_half_a_character_does_not_stop_the_log(tmp_path: Path) -> None:
    written = log(tmp_path)

    written.append(asked("a\ud800b"))

    assert texts(written.path) == ["a?b"]


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    written = log(tmp_path)
    written.path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError):
        written.append(asked("x"))


# -- crashes -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_tail_is_closed_and_skipped_and_the_sequence_goes_on(tmp_path: Path, cut: int) -> None:
    first = log(tmp_path)
    for n in range(3):
        first.append(asked(f"{n}"))
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[:-cut])

    second = log(tmp_path)
    second.append(asked("after"))

    kept = ["0", "1", "2"] if cut == 1 else ["0", "1"]  # without its newline alone it is whole
    assert texts(second.path) == [*kept, "after"]
    assert [e["seq"] for e in read_entries(second.path)] == list(range(1, len(kept) + 2))


def test_a_tail_of_zeros_left_by_a_power_cut_is_skipped(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.append(asked("before"))
    with written.path.open("ab") as f:
        f.write(b"\0" * 100)

    log(tmp_path).append(asked("after"))

    assert texts(written.path) == ["before", "after"]


def test_a_disk_that_takes_only_a_part_is_told_and_the_next_entry_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = log(tmp_path)
    written.append(asked("first"))
    really = os.write

    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: really(fd, data[:20]))
        with pytest.raises(OSError, match="No space left"):
            written.append(asked("lost"))
    written.append(asked("next"))

    assert [(e["seq"], e["text"]) for e in read_entries(written.path)] == [(1, "first"), (2, "next")]


def test_the_sequence_goes_on_after_a_line_longer_than_the_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "TAIL_BYTES", 1_000)
    written = log(tmp_path)
    for text in ("a", "b", "x" * 5_000):
        written.append(asked(text))
    with written.path.open("ab") as f:
        f.write(b'{"torn": "' + b"y" * 5_000)

    log(tmp_path).append(asked("after"))

    assert [e["seq"] for e in read_entries(written.path, tail=None)] == [1, 2, 3, 4]


# -- reading -----------------------------------------------------------------------------------------------------------
def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(read_entries(tmp_path / "none.jsonl")) == []


def test_the_tail_holds_whole_lines_only_and_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"v": 1, "seq": n}).encode() + b"\n" for n in range(10)]
    path.write_bytes(b"".join(lines))
    width = len(lines[0])

    assert [e["seq"] for e in read_entries(path, tail=3 * width)] == [7, 8, 9]
    assert [e["seq"] for e in read_entries(path, tail=3 * width - 1)] == [8, 9]
    assert [e["seq"] for e in read_entries(path, tail=10 * width)] == list(range(10))


FOREIGN = [
    b"",
    b"null",
    b"[]",
    b'"x"',
    b'{"v": 2, "seq": 9}',
    b"{}",
    b"\xff\xfe",
    b"{" * 100_000,
    b"[" * 100_000,
    b'{"v": 1, "seq": "9"}',
    b'{"v": 1}',
]


def test_foreign_lines_neither_stop_a_reader_nor_a_new_session(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.append(asked("first"))
    with written.path.open("ab") as f:
        f.write(
            b"\n".join(
                [*FOREIGN, json.dumps({"v": 1, "kind": "user", "message_ts": "1.0", "thread": 5, "speaker": [], "text": {}}).encode(), b""]
            )
        )

    log(tmp_path).append(asked("second"))

    ours = [e for e in read_entries(written.path) if e.get("session_id") == "s1"]
    assert [(e["seq"], e["text"]) for e in ours] == [(1, "first"), (2, "second")]
    assert [r.said.text for r in build_context_summary(tmp_path, without=THERE)] == ["second"]


# -- the summary -------------------------------------------------------------------------------------------------------
def test_a_summary_holds_the_newest_turns_of_other_threads_oldest_first(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.append(asked("question here", ts="1761000000.000001"))
    written.append(asked("answer here", kind=EntryKind.ASSISTANT, ts="1761000000.000002", speaker=BOT))
    written.append(asked("question there", thread=THERE, ts="1761000000.000003"))
    written.append(asked("answer there", kind=EntryKind.ASSISTANT, thread=THERE, ts="1761000000.000004", speaker=BOT))

    found = build_context_summary(tmp_path, without=THERE)

    assert [(r.thread, r.said.ts, r.said.speaker, r.said.text, r.whole) for r in found] == [
        (HERE, "1761000000.000001", ANN, "question here", True),
        (HERE, "1761000000.000002", BOT, "answer here", True),
    ]


def test_only_what_was_said_to_the_bot_and_by_it_is_recalled(tmp_path: Path) -> None:
    written = log(tmp_path)
    for kind in EntryKind:
        written.append(asked(kind.value, kind=kind, ts=f"1761000000.00000{list(EntryKind).index(kind)}"))
    written.append(Entry(kind=EntryKind.USER, text="of nobody", epoch=1, thread=HERE))

    assert [r.said.text for r in build_context_summary(tmp_path, without=THERE)] == ["user", "assistant"]


def test_a_summary_reaches_back_over_sessions_newest_first(tmp_path: Path) -> None:
    for n in range(3):
        written = log(tmp_path, f"s{n}")
        written.append(asked(f"{n}", ts=f"176100000{n}.000000"))
        os.utime(written.path, (n, n))

    assert [r.said.text for r in build_context_summary(tmp_path, without=THERE)] == ["0", "1", "2"]
    line = len(summary_line(build_context_summary(tmp_path, without=THERE)[0], UTC)) + 1
    assert [r.said.text for r in build_context_summary(tmp_path, without=THERE, total=2 * line)] == ["1", "2"]


def test_a_message_that_was_asked_in_two_sessions_stands_once(tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        log(tmp_path, name).append(asked("asked again after a crash"))

    assert len(build_context_summary(tmp_path, without=THERE)) == 1


def test_who_may_not_tell_the_bot_what_to_do_may_not_after_a_rotate_either(tmp_path: Path) -> None:
    log(tmp_path).append(asked("do it", trust="external"))

    (recalled,) = build_context_summary(tmp_path, without=THERE)

    assert not recalled.said.speaker.verified
    assert "unverified" in summary_line(recalled, UTC)


@pytest.mark.parametrize("sign", ["x", "あ", "👩‍👩‍👧", "\n"])
def test_a_summary_stays_within_its_budget_as_it_is_shown(tmp_path: Path, sign: str) -> None:
    written = log(tmp_path)
    for n in range(200):
        written.append(asked(sign * (n * 13 % 1_500) or "y", ts=f"1761000{n:03}.000000", speaker=Speaker(id="U" * 20, name=sign * 50)))

    found = build_context_summary(tmp_path, without=THERE)
    shown = sum(len(summary_line(r, UTC)) + 1 for r in found)

    assert shown <= SUMMARY_CHARS
    assert shown > SUMMARY_CHARS - SUMMARY_ENTRY_CHARS - 2 * LINE_CHARS
    assert [r.said.ts for r in found] == sorted(r.said.ts for r in found)
    assert found[-1].said.ts == "1761000199.000000"


def test_a_long_message_is_cut_and_does_not_count_as_shown(tmp_path: Path) -> None:
    written = log(tmp_path)
    written.append(asked("長" * SUMMARY_ENTRY_CHARS, ts="1761000000.000001"))
    written.append(asked("長" * (SUMMARY_ENTRY_CHARS + 1), ts="1761000000.000002"))

    whole, cut = build_context_summary(tmp_path, without=THERE)

    assert (whole.whole, len(whole.said.text)) == (True, SUMMARY_ENTRY_CHARS)
    assert (cut.whole, len(cut.said.text)) == (False, SUMMARY_ENTRY_CHARS + 2)


def test_a_route_without_a_log_has_no_summary(tmp_path: Path) -> None:
    assert build_context_summary(tmp_path / "none", without=HERE) == []
