"""Text and values as they may stand in a line: readable, harmless to a terminal, and always JSON.

What must stay true: whatever goes in comes out of a JSON parser as the same text, on one line. Letters of every script
stay as they are; what moves a cursor, turns the direction of writing or ends a line for some reader is written `\\uXXXX`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

# DEL and C1 controls; soft hyphen, direction marks, embeddings, overrides and isolates; U+2028/2029 and other invisible
# formatters, tags included; lone surrogates, which UTF-8 cannot carry. ZWNJ and ZWJ stay: scripts and emoji need them.
_UNSAFE = re.compile(
    "[\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001-\U000e007f]"
)

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})  # nearly all there are; asking for the type alone is cheap


def escape(json_text: str) -> str:
    """Of a whole JSON text: outside of its strings none of these characters can stand, so every one of them is in a string."""
    return _UNSAFE.sub(_escaped, json_text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def plain(value: object) -> object:
    """Dicts, lists, text, numbers and nothing else. JSON has no word for NaN and the infinities: they become text."""
    if type(value) in _AS_THEY_ARE or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, Sequence | set | frozenset):
        return [plain(one) for one in value]
    return str(value)


def shortened(value: object, most: int) -> object:
    """Text of at most `most` characters, and lists in proportion; what is left out is said where it stood."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value) - most} more characters)"
    if isinstance(value, dict):
        return {key: shortened(one, most) for key, one in value.items()}
    if isinstance(value, list):
        kept = [shortened(one, most) for one in value[: max(1, most // 16)]]
        return kept if len(kept) == len(value) else [*kept, f"… ({len(value) - len(kept)} more)"]
    return value
