"""The requests that the embedded model got, the newest ones, for tests and for whoever asks what the model was shown.

Must stay true: bounded in number and in characters, whatever the contexts grow to; numbers (`n`) are never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.local.model_consolidation import LISTS
from bot.local.model_memory import STAGE
from bot.local.model_turns import is_compaction, newest_user_text, offers, turns

MAX_REQUESTS = 500
MAX_CHARS = 32 * 2**20  # of bodies as they came over the wire: some hundred thousand tokens of context, a hundred times


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """`key`: the credential it came with. `messages_text`: all texts of user and assistant and tool results, the CLI's own left out."""

    n: int
    session_id: str
    key: str
    body: Mapping[str, Any] = field(repr=False)
    size: int
    is_compaction: bool
    messages_text: str = field(repr=False)
    newest_user_text: str

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def is_memory(self) -> bool:
        """A memory worker asks, not a session."""
        return offers(self.body, STAGE) or self.is_consolidation

    @property
    def is_consolidation(self) -> bool:
        return offers(self.body, LISTS)

    def as_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "session_id": self.session_id,
            "is_compaction": self.is_compaction,
            "is_memory": self.is_memory,
            "text": self.messages_text,
            "newest_user_text": self.newest_user_text,
        }


class RequestRecord:
    def __init__(self, *, max_requests: int = MAX_REQUESTS, max_chars: int = MAX_CHARS) -> None:
        self.requests: list[ModelRequest] = []
        self._max_requests, self._max_chars = max_requests, max_chars
        self._next = 1

    def add(self, body: Mapping[str, Any], *, key: str, size: int) -> ModelRequest:
        conversation = turns(body)
        texts = (text for turn in conversation for text in (*turn.texts, *turn.results))
        request = ModelRequest(
            n=self._next,
            session_id=session_of(body),
            key=key,
            body=body,
            size=size,
            is_compaction=is_compaction(conversation),
            messages_text="\n".join(texts),
            newest_user_text=newest_user_text(conversation),
        )
        self._next += 1
        self.requests.append(request)
        self._trim()
        return request

    def _trim(self) -> None:
        """The newest one stays, however large it is."""
        total = sum(request.size for request in self.requests)
        drop = 0
        while drop < len(self.requests) - 1 and (len(self.requests) - drop > self._max_requests or total > self._max_chars):
            total -= self.requests[drop].size
            drop += 1
        del self.requests[:drop]


def session_of(body: Mapping[str, Any]) -> str:
    """The CLI puts a JSON string into `metadata.user_id`."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    try:
        parsed = json.loads(user) if isinstance(user, str) else None
    except ValueError:
        return ""
    return str(parsed.get("session_id", "")) if isinstance(parsed, Mapping) else ""
