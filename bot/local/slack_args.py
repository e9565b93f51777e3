"""The arguments of one Web API call, read the way Slack reads them, and the error that Slack answers with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bot.local.slack_records import Json


class SlackSays(Exception):
    """`ok: false` with Slack's own word and whatever Slack tells beside it."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.body: Json = {"ok": False, "error": code, **more}


class Args:
    """The same argument may come as a JSON value or as a string in a query or a form."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def text(self, name: str) -> str:
        value = self.given.get(name)
        return "" if value is None else str(value)

    def required(self, name: str) -> str:
        if not (value := self.text(name)):
            raise SlackSays("invalid_arguments", response_metadata={"messages": [f"[ERROR] missing required field: {name}"]})
        return value

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in {"1", "true"}

    def limit(self, *, default: int, most: int = 1000) -> int:
        try:
            limit = int(self.text("limit") or default)
        except ValueError as error:
            raise SlackSays("invalid_limit") from error
        if limit < 1:
            raise SlackSays("invalid_limit")
        return min(limit, most)

    def structure(self, name: str, *, error: str) -> Any:
        """A JSON value, parsed when it came as a string; None when it was not given."""
        value = self.given.get(name)
        if not isinstance(value, str) or not value:
            return value or None
        try:
            return json.loads(value)
        except ValueError as bad:
            raise SlackSays(error) from bad
