"""The facts of what the bot keeps and spends: trouble with its files, budgets that are spent. Part of `events`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StateTrouble(StrEnum):
    """What the bot could not do with `state.db`, or had to."""

    NOT_TAKEN = "not_taken"  # an event could not be stored; it was not acknowledged, so Slack delivers it again
    NOT_BEGUN = "not_begun"  # an accepted message waits until the disk lets it be begun
    NOT_KEPT = "not_kept"  # an answer is there, and is posted once it is on disk
    NOT_ENDED = "not_ended"  # a message has its end in Slack, and not yet on disk
    DAMAGED = "damaged"  # the file was put aside at the start, and a new one begun


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTroubled:
    """`error`: a class or a code of ours, never text. `open_messages`: of a damaged file, those that were taken over unanswered."""

    trouble: StateTrouble
    error: str
    open_messages: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent:
    """What a route (or, where `route` is "", everything together) may cost a day has been spent; told once a day. USD."""

    route: str
    usd: float
    limit_usd: float


StateFact = StateTroubled | BudgetSpent
