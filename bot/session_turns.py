"""What a turn of a session comes to: a reply, or the cause of the reset that follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bot.ports import Answer, SessionDied, TurnDeadline
from telemetry.events import ResetCause


@dataclass(frozen=True, slots=True)
class Reply:
    """`epoch` is the one the prompt was sent into; `moved_by` is what ended that epoch before the answer was made."""

    answer: Answer
    epoch: int
    moved_by: ResetCause | None


def lost_by(error: BaseException, *, hung_compacting: bool) -> ResetCause:
    if isinstance(error, SessionDied):
        return ResetCause.CRASH
    return ResetCause.ROTATE_TOKENS if isinstance(error, TurnDeadline) and hung_compacting else ResetCause.RESUME
