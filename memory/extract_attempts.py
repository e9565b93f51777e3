"""What a failure means for the next try: wait, read less, or put the range aside. Pure.

What must stay true: an outage never costs an entry: only a range that the model was shown, and that failed by what stands in
it, is made smaller, and only the smallest piece is put aside, after its third failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memory.cursors import Attempts
from memory.ranges import MIN_TOKENS, Piece
from telemetry.memory_events import MemoryReason

TRIES = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """`quarantine`: the range is put aside, and the cursor moves."""

    attempts: Attempts
    quarantine: bool = False


def smaller(piece: Piece) -> int | None:
    """How many tokens half of it are; None: there is no smaller piece than one entry, cut short."""
    half = min(piece.tokens, piece.weight) // 2
    if len(piece.readable) > 1:
        return half
    return max(MIN_TOKENS, half) if min(piece.tokens, piece.weight) > MIN_TOKENS else None


def judge_failure(before: Attempts, piece: Piece, *, blames_range: bool, now: float, usual: int) -> Verdict:
    """`before`: at this place. `blames_range`: the model was reached, and this range is why it failed. `usual`: tokens of a
    piece that was not made smaller yet.
    """
    failed = replace(before, failures=before.failures + 1, at=now)
    if not blames_range:
        return Verdict(failed)
    shrunk = piece.tokens < usual
    blamed = replace(failed, blamed=before.blamed + 1, tokens=piece.tokens if shrunk else 0)
    if len(piece.readable) == 1:
        return Verdict(blamed, quarantine=blamed.blamed >= TRIES)
    if not shrunk and blamed.blamed < TRIES:
        return Verdict(blamed)
    # Each larger piece on the way down gets one try, the smallest gets its own three.
    return Verdict(replace(blamed, tokens=smaller(piece) or piece.tokens, blamed=0))


def blames_range(reason: MemoryReason, *, refused: bool) -> bool:
    """A prompt the provider refuses as such, and an answer that is none. Time and errors may be anybody's fault."""
    return reason is MemoryReason.MODEL_OUTPUT_INVALID or refused
