"""What of a session log is not read yet, and how much of it one run takes.

What must stay true: the ranges of completed runs partition the log: each begins where the one before ended; a range ends
with a turn where it can, holds one readable entry at least, and no more tokens than allowed. Its end is never below its start,
whatever numbers the log carries. Where it is in doubt whether an entry was read, it is read. Pure but for `unread`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memory.cursors import Cursor, known_again, remembering
from memory.extract_rows import row_tokens
from memory.session_entries import MAX_LINE_BYTES, LogEntry, LogUnreadable, Skipped, entries, line_sha256, opened

MAX_TOKENS = 12_000  # a fraction of any window, so that the model reads it closely
MIN_TOKENS = 750  # the smallest piece: a paragraph or two
MAX_READ_BYTES = 32 * 1024 * 1024  # in one go; what is left out (re-reads of threads) may be far larger than what is read
CONTEXT_ENTRIES, CONTEXT_BYTES = 4, 64 * 1024  # the two turns before


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """`start`: where the next range begins. `context`, `seen`: what was read before it. `more`: there is more than was looked at."""

    generation: int
    start: int
    entries: Sequence[LogEntry]
    context: Sequence[LogEntry] = ()
    seen: str = ""
    skipped: int = 0
    more: bool = False

    @property
    def turns(self) -> int:
        return sum(entry.kind == "user" for entry in self.entries if entry.readable)

    @property
    def tokens(self) -> int:
        return sum(row_tokens(entry) for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One range. `entries` of it, the left out ones included. `tokens`: what one entry may take at most."""

    generation: int
    start: int
    entries: Sequence[LogEntry]
    context: Sequence[LogEntry]
    tokens: int
    seen: str = ""

    @property
    def range(self) -> tuple[int, int]:
        return self.start, self.entries[-1].seq

    @property
    def readable(self) -> list[LogEntry]:
        return [entry for entry in self.entries if entry.readable]

    @property
    def weight(self) -> int:
        """Tokens of all its entries, uncut."""
        return sum(row_tokens(entry) for entry in self.entries)

    def after(self, run_id: str) -> Cursor:
        """The cursor once it is read."""
        last = self.entries[-1]
        return Cursor(
            generation=self.generation,
            next=last.seq + 1,
            offset=last.end,
            anchor=last.sha256,
            said_at=last.ts,
            run_id=run_id,
            seen=remembering(self.seen, (entry.sha256 for entry in self.readable)),
        )


def unread(log: Path, cursor: Cursor, *, tokens: int = MAX_TOKENS) -> Unread:
    """Looks at a little more than `tokens`. Raises LogUnreadable."""
    with opened(log) as fd:
        if fd is None:
            if cursor.anchor:
                raise LogUnreadable("the session log is gone")
            return Unread(generation=cursor.generation, start=cursor.next, entries=())
        skipped = Skipped()
        place, found = _continue(fd, cursor, skipped)
        taken, more = _bounded(found, tokens)
        if not taken and skipped.lines and not cursor.anchor:
            raise LogUnreadable(f"none of {skipped.lines} lines of the session log can be read")
        start = place.next if place.generation == cursor.generation else (taken[0].seq if taken else place.next)
        context = _before(fd, cursor) if place.generation == cursor.generation else ()
        return Unread(
            generation=place.generation,
            start=start,
            entries=taken,
            context=context,
            seen=cursor.seen,
            skipped=skipped.lines,
            more=more,
        )


def take(found: Unread, *, tokens: int = MAX_TOKENS, open_tail: bool) -> Piece | None:
    """The next range: up to the last complete turn that fits; `open_tail`: a turn without an answer counts too."""
    kept, full = _fitting(found.entries, tokens)
    ends = [at for at, entry in enumerate(kept) if entry.kind == "assistant"]
    if ends and (full or found.more or not open_tail):
        kept = _with_what_is_left_out(found.entries, ends[-1])
    elif not (full or found.more or open_tail):
        return None
    if not any(entry.readable for entry in kept):
        return None
    return Piece(generation=found.generation, start=found.start, entries=kept, context=found.context, tokens=tokens, seen=found.seen)


def _continue(fd: int, cursor: Cursor, skipped: Skipped) -> tuple[Cursor, Iterator[LogEntry]]:
    """Where the last line read is found again, what follows it; else the log is another one, and what was not read before is new."""
    if not cursor.anchor:
        return cursor, _rising(entries(fd, 0, skipped), cursor.next)
    if _line_before(fd, cursor.offset) == cursor.anchor:
        return cursor, _rising(entries(fd, cursor.offset, skipped), cursor.next)
    was_read = known_again(cursor)
    for entry in entries(fd, 0, Skipped()):
        if entry.readable and not cursor.forgot and not was_read(entry.sha256, entry.ts):
            break
        if entry.sha256 == cursor.anchor:
            return cursor, _rising(entries(fd, entry.end, skipped), cursor.next)
    new = (entry for entry in entries(fd, 0, skipped) if not was_read(entry.sha256, entry.ts))
    another = Cursor(generation=cursor.generation + 1)
    return another, _rising(new, another.next)


def _rising(found: Iterator[LogEntry], first: int) -> Iterator[LogEntry]:
    """A number may stand twice (a write that failed after all but its newline). One that goes back, or has been read already,
    is read under the number of its place: else its range would end before it begins.
    """
    last = first - 1
    for entry in found:
        numbered = entry if entry.seq >= max(first, last) else replace(entry, seq=last + 1)
        last = numbered.seq
        yield numbered


def _bounded(found: Iterator[LogEntry], tokens: int) -> tuple[list[LogEntry], bool]:
    """What is left out before the first readable entry is passed over, however much it is."""
    taken: list[LogEntry] = []
    total = 0
    for entry in found:
        if taken and not taken[0].readable:
            taken = []
        if taken and (total > tokens or entry.end - taken[0].end > MAX_READ_BYTES) and entry.seq != taken[-1].seq:
            return taken, True
        taken.append(entry)
        total += row_tokens(entry)
    return taken, False


def _fitting(found: Sequence[LogEntry], tokens: int) -> tuple[list[LogEntry], bool]:
    """As many as fit, one readable at least; entries of one number stay together. And whether something did not."""
    kept: list[LogEntry] = []
    total, readable = 0, False
    for entry in found:
        cost = row_tokens(entry)
        if cost and readable and total + cost > tokens and entry.seq != kept[-1].seq:
            return kept, True
        kept.append(entry)
        total, readable = total + cost, readable or entry.readable
    return kept, False


def _with_what_is_left_out(found: Sequence[LogEntry], last: int) -> list[LogEntry]:
    """What nobody reads goes with the turn before it."""
    end = last + 1
    while end < len(found) and (not found[end].readable or found[end].seq == found[last].seq):
        end += 1
    return list(found[:end])


def _line_before(fd: int, offset: int) -> str:
    """The sha256 of the line that ends at this byte; \"\" where none does."""
    start, line = offset, b""
    while start > 0 and b"\n" not in line[:-1]:
        size = min(CONTEXT_BYTES, start)
        start -= size
        line = os.pread(fd, size, start) + line
        if not line.endswith(b"\n") or len(line) < offset - start or len(line) > MAX_LINE_BYTES + 1:
            return ""
    return line_sha256(line[:-1].rpartition(b"\n")[2]) if line else ""


def _before(fd: int, cursor: Cursor) -> Sequence[LogEntry]:
    start = max(0, cursor.offset - CONTEXT_BYTES)
    if start:  # a line that began earlier is not whole
        start += os.pread(fd, CONTEXT_BYTES, start).find(b"\n") + 1
    kept: deque[LogEntry] = deque(maxlen=CONTEXT_ENTRIES)
    for entry in entries(fd, start, Skipped()):
        if entry.end > cursor.offset:
            break
        if entry.citable and entry.kind != "tool_call":
            kept.append(entry)
    return tuple(kept)
