"""What every tool of the memory has in common: a strict schema, arguments held against it, errors that can be mended.

What must stay true: what the schema says is what is checked; an error names a code, what was wrong and how to mend it, in
our own words: of what the model wrote it repeats nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.records import MAX_SLUG_CHARS, Scope

Json = Mapping[str, Any]
_TYPES: Mapping[str, type] = {"string": str, "integer": int, "array": list, "object": Mapping}
MAX_ARGUMENT_CHARS = 32 * 1024  # of one call, as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """`caller`: the route or worker. `scope`: where the answer will be read, a channel or a person's direct messages; None: by
    the owner of the files, who may see all of them. `run_id`: of a worker.
    """

    caller: str
    scope: Scope | None
    run_id: str = ""

    def may_see(self, scope: Scope) -> bool:
        return self.scope is None or scope.admits(self.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """`schema`: JSON Schema of an object without additional properties, of texts, whole numbers, and lists and objects of them."""

    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """`text` is JSON. `failed`: it says what went wrong, and how to mend it. `stop`: no further call is taken."""

    text: str
    failed: bool = False
    stop: bool = False


class ToolRefused(Exception):
    """`code` is a word of a closed set; `fix` tells a model what to do next."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.code, self.message, self.fix = code, message, fix

    def answer(self) -> ToolAnswer:
        return ToolAnswer(to_json({"error": {"code": self.code, "message": self.message, "fix": self.fix}}), failed=True)


def to_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def object_of(properties: Mapping[str, Json], *, required: tuple[str, ...]) -> Json:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def one_of(words: tuple[str, ...], description: str) -> Json:
    return {"type": "string", "enum": list(words), "description": description}


SLUG_ARGUMENT: Json = {
    "type": "string",
    "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$",
    "maxLength": MAX_SLUG_CHARS,
    "description": "The record's name, as a query shows it.",
}


def list_of(items: Json, description: str, *, most: int, least: int = 0) -> Json:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, "description": description}


def text(description: str, *, most: int) -> Json:
    return {"type": "string", "maxLength": most, "description": description}


def check(arguments: Json, schema: Json) -> None:
    """Raises ToolRefused with the first thing that is wrong."""
    properties: Mapping[str, Json] = schema["properties"]
    if unknown := len(arguments.keys() - properties.keys()):
        raise ToolRefused("unknown_argument", f"{unknown} of the arguments are not known here", f"use only: {', '.join(properties)}")
    for name in schema["required"]:
        if name not in arguments:
            raise ToolRefused("missing_argument", f"{name} is missing", f"call it again with {name}")
    for name, value in arguments.items():
        _check_value(name, value, properties[name])


def _check_value(name: str, value: object, schema: Json) -> None:
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise ToolRefused("wrong_type", f"{name} is not of the type {kind}", f"give {name} as a {kind}")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolRefused("unknown_word", f"{name} is none of the words it may be", f"use one of: {', '.join(schema['enum'])}")
    if isinstance(value, int) and not schema["minimum"] <= value <= schema["maximum"]:
        bounds = f"{schema['minimum']} to {schema['maximum']}"
        raise ToolRefused("out_of_range", f"{name} is outside of {bounds}", f"give a number from {bounds}")
    if isinstance(value, str):
        _check_text(name, value, schema)
    if isinstance(value, list):
        _check_list(name, value, schema)
    if isinstance(value, Mapping):
        check(value, schema)


def _check_list(name: str, value: list[object], schema: Json) -> None:
    least, most = schema["minItems"], schema["maxItems"]
    if not least <= len(value) <= most:
        raise ToolRefused("wrong_length", f"{name} has {len(value)} items; {least} to {most} are allowed", f"mend {name}")
    for number, item in enumerate(value, 1):
        _check_value(f"item {number} of {name}", item, schema["items"])


def _check_text(name: str, value: str, schema: Json) -> None:
    most = schema.get("maxLength", len(value))
    if len(value) > most:
        raise ToolRefused("too_long", f"{name} has {len(value)} characters, {most} are allowed", f"shorten {name}")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        raise ToolRefused("malformed", f"{name} does not have the form {schema['pattern']}", "use the name that a query shows")
