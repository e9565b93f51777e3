"""What is wrong with the configuration, in sentences that say how to mend it: the key, its value, what is allowed.

A value that may be a secret is never shown, whichever key it was written under.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

MAX_SHOWN = 60  # characters of a wrong value; enough to find it in the file
HIDDEN = "(value hidden)"
MAY_BE_SECRET = re.compile(r"^accounts\b|key|token|secret|password|credential|xox[a-z]-|xapp-|sk-|://[^/\s]*@", re.IGNORECASE)


class ConfigError(Exception):
    """The configuration cannot be used. Each of `errors` is a whole sentence; no secret is in any of them."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


def shown(key: str, value: object) -> str:
    """A value as it stands in the file, cut; hidden if it or its key looks like a secret."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if MAY_BE_SECRET.search(f"{key} {text}"):
        return HIDDEN
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def sentences(error: ValidationError, model: type[BaseModel], where: str) -> list[str]:
    """Pydantic's errors, each once and in the order of the file."""
    return list(dict.fromkeys(_sentence(detail, model, where) for detail in error.errors(include_url=False)))


def _sentence(detail: ErrorDetails, model: type[BaseModel], where: str) -> str:
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    table, allowed = _lookup(model, path)
    if detail["type"] == "extra_forbidden":
        known = list(table.model_fields)
        return f"{where}: {key} = {shown(key, detail['input'])} is unknown; {did_you_mean(path[-1], known)}allowed: {', '.join(known)}"
    return f"{where}: {_key_in_words(path)} is {shown(key, detail['input'])}; allowed: {allowed}"


def _lookup(model: type[BaseModel], path: Sequence[str]) -> tuple[type[BaseModel], str]:
    """The table that the last key of `path` stands in, and what its nearest known field allows."""
    table, allowed = model, "tables and keys of the reference in README"
    for name in path:
        field = table.model_fields.get(name)
        if field is None:
            continue  # a name (accounts.NAME), a place in a list, or the unknown key itself
        allowed = field.description or allowed
        inner = _table_of(field.annotation)
        if inner is None:
            break
        table = inner
    return table, allowed


def _table_of(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation: itself, or the values of a dict of tables."""
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _key_in_words(path: Sequence[str]) -> str:
    """`routes.main.channels[2]` for the second entry of a list: people count from 1."""
    return "".join(f"[{int(part) + 1}]" if part.isdigit() else f".{part}" for part in path).lstrip(".")
