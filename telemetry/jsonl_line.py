"""One line: the fields of an event, formatted by python-json-logger, never longer than readers were promised."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pythonjsonlogger.json import JsonFormatter

from telemetry.jsonl_text import escape, plain, shortened

MAX_BYTES = 32 * 1024  # the newline included: a follower may read with a buffer of this size
VERSION = 1

# What every line has, however long the rest of it was; cut, if at all, only behind what ids and times of ours may have.
ALWAYS = ("ts", "event", "level", "summary", "route", "run_id", "trace_id", "span_id", "trace_flags", "pid", "seq", "v")
# The longest texts first lose what is too much; only a line of very many fields ever comes down to the last one.
_LENGTHS = (16_384, 4_096, 1_024, 256, 64, 16)
_AT_LEAST = 64


class LineFormatter:
    def __init__(self) -> None:
        # No field of LogRecord's own, Japanese as it is. Its encoder would also write a bare NaN: `plain` comes before.
        self._json = JsonFormatter([], json_ensure_ascii=False)

    def line(self, fields: Mapping[str, object]) -> bytes:
        """Whole, with its newline. Where something was left out, `shortened` is true."""
        cleaned = {key: plain(value) for key, value in fields.items()}
        line = self._format(cleaned)
        for most in _LENGTHS:
            if len(line) <= MAX_BYTES:
                return line
            line = self._format({**{key: shortened(value, _room(key, most)) for key, value in cleaned.items()}, "shortened": True})
        return line if len(line) <= MAX_BYTES else self._format(_least(cleaned))

    def _format(self, fields: dict[str, object]) -> bytes:
        # As a dict in `msg`, no key can clash with a LogRecord's own.
        text = self._json.format(logging.LogRecord("insomnia", logging.INFO, "", 0, fields, None, None))
        if not text.isascii() or "\x7f" in text:
            text = escape(text)
        return f"{text}\n".encode()


def _room(key: str, most: int) -> int:
    return max(most, _AT_LEAST) if key in ALWAYS else most


def _least(fields: dict[str, object]) -> dict[str, object]:
    kept = {key: shortened(fields[key], _AT_LEAST) for key in ALWAYS if isinstance(fields.get(key), str | int | float)}
    return {**kept, "shortened": True, "left_out": len(fields) - len(kept)}
