"""Session logs of every kind of damage: what is read of them, once, and where the next range begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.cursors import Cursor
from memory.extract_rows import CUT, estimate, row
from memory.ranges import Unread, take, unread
from memory.session_entries import LogEntry, LogUnreadable
from telemetry.memory_events import MemoryReason, MemoryTrigger
from tests.memory.dying import partition_faults
from tests.memory.talk import Ground, Log


def entry(seq: int, kind: str, text: str = "x") -> LogEntry:
    about = {"ts": "", "route": "main", "channel": "C1", "speaker": "U1", "speaker_name": "A", "trust": "person", "trace_id": ""}
    return LogEntry(seq=seq, kind=kind, text=text, end=seq, sha256=str(seq), **about)


KINDS = st.sampled_from(["user", "assistant", "injected", "tool_result", "reset"])


@given(
    kinds=st.lists(st.tuples(KINDS, st.integers(0, 4_000)), max_size=40),
    tokens=st.integers(20, 3_000),
    open_tail=st.booleans(),
    repeats=st.sets(st.integers(1, 40)),
)
def test_ranges_partition_the_log_end_with_turns_and_keep_their_bound(
    kinds: list[tuple[str, int]], tokens: int, open_tail: bool, repeats: set[int]
) -> None:
    numbers = []
    for at in range(len(kinds)):
        numbers.append(numbers[-1] if numbers and at in repeats else (numbers[-1] if numbers else 0) + 1)
    rest = [entry(seq, kind, "x" * size) for seq, (kind, size) in zip(numbers, kinds, strict=True)]
    start, ranges = 1, []
    while piece := take(Unread(generation=0, start=start, entries=rest), tokens=tokens, open_tail=open_tail):
        weight = [estimate(row(one, tokens=10**9)) for one in piece.readable]
        assert sum(weight) <= tokens or len({one.seq for one in piece.readable}) == 1 or repeats
        assert piece.readable
        ranges.append(piece.range)
        rest, start = rest[len(piece.entries) :], piece.range[1] + 1

    assert partition_faults(ranges, start - 1) == []
    assert not any(one.readable for one in rest) or not open_tail
    assert not any(one.kind == "assistant" for one in rest)


def test_a_turn_without_an_answer_waits_but_at_the_end_of_a_session_it_counts(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.turn("whole")
    log.add("user", "half")
    found = unread(log.path, Cursor())

    whole, half = take(found, open_tail=False), take(found, open_tail=True)

    assert whole and whole.range == (1, 2)
    assert half and half.range == (1, 3)


def test_an_entry_that_is_too_long_is_cut_with_a_mark() -> None:
    cut = row(entry(1, "user", "長い話" * 20_000), tokens=1_000)

    assert estimate(cut) <= 1_000 and CUT in cut


async def test_a_line_without_its_newline_is_read_once_it_is_whole(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    ground.log.seq += 1
    line = ground.log.line("user", "keep two")
    with ground.log.path.open("ab") as file:
        file.write(line[:40])
    assert (await ground.drain())[-1].range == (1, 2)

    with ground.log.path.open("ab") as file:
        file.write(line[40:])
    await ground.drain()

    assert ground.claims == ["keep one", "keep two"]


async def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    with ground.log.path.open("ab") as file:
        file.write(b'{"v":1,"seq":9,"ki\n[1,2]\nnull\n{"v":2,"seq":1}\n{"v":1,"seq":"1"}\n' + b"[" * 100_000 + b"\n\xff\xfe\n")
    ground.log.turn("keep \ud83d\ude00 it".encode("utf-16", "surrogatepass").decode("utf-16"))

    assert (await ground.run()).completed and len(ground.claims) == 1


async def test_two_entries_of_one_number_are_both_read(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    ground.log.seq -= 1
    ground.log.turn("keep two")

    await ground.drain()

    assert sorted(ground.claims) == ["keep one", "keep two"]


async def test_a_huge_line_and_a_huge_log_are_read_in_bounded_memory(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    ground.log.add("injected", "x" * 6_000_000)
    ground.log.turn("keep two")

    await ground.drain()

    assert ground.claims == ["keep one", "keep two"]


async def test_of_a_log_that_was_cut_short_only_what_is_new_is_read(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    for n in range(5):
        ground.log.turn(f"keep {n}")
    await ground.drain()
    lines = ground.log.path.read_bytes().splitlines(keepends=True)
    ground.log.path.write_bytes(b"".join(lines[:4]))
    assert (await ground.run()).reason is MemoryReason.NO_NEW_SESSION_RANGE

    ground.log.seq = 4
    ground.log.turn("keep the new one")
    await ground.drain()

    assert ground.claims == [*(f"keep {n}" for n in range(5)), "keep the new one"]


async def test_a_log_that_was_replaced_is_read_on_though_its_numbers_begin_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep the old one")
    await ground.drain()
    ground.log.path.unlink()
    ground.log.seq = 0
    ground.log.turn("keep the new one")

    await ground.drain()
    await ground.drain()

    assert sorted(ground.claims) == ["keep the new one", "keep the old one"]
    assert len(list((tmp_path / "memory" / "_staging").iterdir())) == 2


async def test_a_log_that_was_moved_byte_for_byte_behind_another_head_is_found_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    await ground.drain()
    ground.log.path.write_bytes(b"# a note somebody put here\n" + ground.log.path.read_bytes())
    ground.log.turn("keep two")

    await ground.drain()

    assert ground.claims == ["keep one", "keep two"]


@pytest.mark.parametrize("what", ["directory", "fifo", "link", "binary", "gone"])
async def test_what_is_no_log_fails_visibly_and_is_not_tried_at_once_again(what: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    path = ground.log.path
    if what == "gone":
        ground.log.turn("keep")
        await ground.run()
        path.unlink()
    elif what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "link":
        (tmp_path / "elsewhere").write_bytes(b"")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_bytes(os.urandom(500) + b"\n")

    first, second = await ground.run(MemoryTrigger.IDLE), await ground.run(MemoryTrigger.IDLE)

    assert first.reason is MemoryReason.SESSION_LOG_UNREADABLE and first.detail
    assert second.reason is MemoryReason.BACKOFF


async def test_a_clock_that_goes_back_neither_stops_nor_repeats_anything(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.log.turn("keep one")
    await ground.drain()
    ground.clock.at -= 10_000_000
    ground.log.second = 0
    ground.log.turn("keep two")
    await ground.drain()

    assert ground.claims == ["keep one", "keep two"]


def test_a_log_that_cannot_be_opened_says_why_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "secret-name"
    path.symlink_to(tmp_path)

    with pytest.raises(LogUnreadable, match="ELOOP") as told:
        unread(path, Cursor())

    assert "secret-name" not in str(told.value)
