"""The model that extract asks, as a port: what it is given, what it may hand in, and how its work can end.

What must stay true: a model hands in claims and the numbers of the entries that show them, and nothing else; who said it,
where, when and how far it may be trusted is attached by code. `stage` never raises, whatever a model sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memory.model_end import ModelEnd
from telemetry.memory_events import RecordKind

STAGE_TOOL = "stage_candidates"
MAX_CANDIDATES = 12  # of a run: more than that is a retelling, and consolidation takes 40 at a time
MAX_CLAIM, MAX_WHY, MAX_EVIDENCE = 600, 400, 12

STAGE_DESCRIPTION = (
    "Hand in what is worth remembering from the numbered entries. Call it once, with all candidates; "
    "an empty list says that nothing is worth keeping. Cite only numbers of entries that are marked as evidence."
)
STAGE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["candidates"],
    "properties": {
        "candidates": {
            "type": "array",
            "maxItems": MAX_CANDIDATES,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["kind", "claim", "why_useful", "evidence", "confidence"],
                "properties": {
                    "kind": {"type": "string", "enum": [kind.value for kind in RecordKind]},
                    "claim": {"type": "string", "minLength": 1, "maxLength": MAX_CLAIM},
                    "why_useful": {"type": "string", "minLength": 1, "maxLength": MAX_WHY},
                    "evidence": {"type": "array", "minItems": 1, "maxItems": MAX_EVIDENCE, "items": {"type": "integer"}},
                    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """`system` and `prompt` are complete: instructions, and the entries as JSON rows, secrets taken out. `evidence`: the
    entry numbers that may be cited. `seconds`: after that the run is given up; the model is cancelled then.
    """

    run_id: str
    session_id: str
    route: str
    system: str
    prompt: str
    evidence: frozenset[int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """The tool's answer. `stop`: no further call is taken; end the model's turn. Of a refusal: what is wrong, and the mend."""

    accepted: int = 0
    code: str = ""
    message: str = ""
    fix: str = ""
    stop: bool = False

    @property
    def ok(self) -> bool:
        return not self.code

    def as_json(self) -> dict[str, Any]:
        if self.ok:
            return {"staged": self.accepted}
        return {"code": self.code, "message": self.message, "fix": self.fix}


Stage = Callable[[Mapping[str, Any]], StageResult]


class ExtractModel(Protocol):
    """`name` is told in the run's first line, \"\" where it is not known yet."""

    @property
    def name(self) -> str: ...

    async def propose(self, request: ExtractRequest, stage: Stage) -> ModelEnd:
        """Shows the model the prompt and hands each call of STAGE_TOOL to `stage` (with the arguments as parsed JSON).

        Runs in the context of the run's span, so that a child process joins its trace. To be called again within one run
        when the range had to be halved. Whatever it raises ends the run as `model_error`; cancellation goes on.
        """
