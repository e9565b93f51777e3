"""How the work of a model ended, for either worker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from telemetry.memory_events import TokenUsage


class ModelHow(StrEnum):
    """How a model's work ended. Only what lies in the prompt itself may be held against it: OVERFLOW and REFUSED."""

    ENDED = "ended"  # its turn is over, whatever it said
    OVERFLOW = "overflow"  # the prompt was too long for it
    REFUSED = "refused"  # the provider takes this prompt never: an HTTP 400 that is no overflow
    ERROR = "error"  # an outage: 401, 429, 5xx, no connection, a process that died


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnd:
    """`detail` in our own words and numbers (`HTTP 529 three times`), never a model's. Tokens and USD of this one call."""

    how: ModelHow = ModelHow.ENDED
    model: str = ""
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    detail: str = ""
