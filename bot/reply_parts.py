"""A reply as the parts that it becomes in Slack, and how each of them is recognised there. Pure.

What must stay true: a part says whose answer it is and which one of how many, so that a bot that died between two steps, or
never heard what became of a post, can tell what stands there from what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.messages import GateSummary, Message
from bot.mrkdwn import split
from telemetry.events import FailReason, Outcome

EVENT_TYPE = "insomnia_reply"
PAYLOAD_FORMAT = 1
PART_CHARS = 4_000  # Slack's advice for `text`, and what chat.update takes at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`text` is neutralised; `reason`: why it is no answer; `trace_id`, `session_id`: of the attempt that made it."""

    text: str
    outcome: Outcome
    trace_id: str
    gate: Mapping[str, Any] | None = None
    reason: FailReason | None = None
    session_id: str = ""
    part_chars: int = PART_CHARS

    @property
    def parts(self) -> list[str]:
        return split(self.text, self.part_chars)

    def metadata(self, message: Message, number: int) -> dict[str, Any]:
        """`number` counts from 1."""
        payload = {
            "v": PAYLOAD_FORMAT,
            "message": identity(message),
            "trace_id": self.trace_id,
            "outcome": self.outcome.value,
            "gate": self.gate,
            "part": number,
            "parts": len(self.parts),
        }
        return {"event_type": EVENT_TYPE, "event_payload": payload}

    def number_of(self, posted: Mapping[str, Any], message: Message) -> int | None:
        """Which part of this reply to `message` a message of the bot's own is; None for anything else."""
        metadata = posted.get("metadata")
        payload = metadata.get("event_payload") if isinstance(metadata, Mapping) and metadata.get("event_type") == EVENT_TYPE else None
        if not isinstance(payload, Mapping):
            return None
        number = payload.get("part")
        expected = self.metadata(message, 1)["event_payload"]
        same = all(payload.get(name) == expected[name] for name in ("message", "trace_id", "outcome", "parts"))
        return number if same and isinstance(number, int) and 1 <= number <= expected["parts"] else None


def identity(message: Message) -> str:
    """As the metadata of its answer names a message."""
    return f"{message.thread.team}/{message.thread.channel}/{message.ts}"


def gate_payload(gate: GateSummary | None) -> dict[str, Any] | None:
    if gate is None:
        return None
    injection = gate.injection.value if gate.injection else None
    return {
        "decision": gate.decision.value,
        "reason": gate.reason.value,
        "injection": injection,
        "messages": gate.messages,
        "omitted": gate.omitted,
    }
