"""One step of the embedded model's script: what becomes of a request, and which requests it waits for. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """`text` None: by the rules; "" : no text at all. `seconds`: how long the answer takes. `headers`: besides the usual ones."""

    text: str | None = None
    tool: ToolCall | None = None
    stop_reason: str = ""
    seconds: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """An HTTP error in the API's form."""

    status: int
    type: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """The stream begins and then only pings, until the client leaves."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks in the middle of the stream."""


@dataclass(frozen=True, slots=True)
class BreakStream:
    """An `error` event in the middle of the stream. Without a stream it does nothing and is not used up."""

    type: str


Effect = Respond | Refuse | Hang | Drop | BreakStream


class Asking(Protocol):
    """What a step may be bound to, of a request."""

    @property
    def newest_user_text(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def is_compaction(self) -> bool: ...
    @property
    def is_memory(self) -> bool: ...
    @property
    def stream(self) -> bool: ...


@dataclass(slots=True, kw_only=True)
class Step:
    effect: Effect
    compaction: bool = False
    match: str = ""
    key: str = ""
    memory: bool = False
    times: int = 1
    usage: int | None = None
    compacting: str | None = None  # the session whose compaction it is breaking

    def fits(self, asked: Asking) -> bool:
        streamed = asked.stream or not isinstance(self.effect, BreakStream)
        same = self.compacting in (None, asked.session_id)
        return (
            streamed
            and same
            and self.compaction == asked.is_compaction
            and self.memory == asked.is_memory
            and self.match in asked.newest_user_text
            and self.key in ("", asked.key)
        )
