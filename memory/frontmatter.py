"""The frontmatter of a record: a small, strict part of YAML, so that every YAML tool reads the same strings as we do.

What must stay true: text in, strings out, nothing is taken for a number, a date or a truth value; what could be read in
two ways is a problem with its line and a way to mend it, never a guess. Why no library: docs/decisions/frontmatter.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from memory.lint_rules import Rule

FENCE = "---"
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):(?: +(.*))?")
_ITEM = re.compile(r"( {0,8})- ([A-Za-z_][A-Za-z0-9_]*:.*)")
_INDENTED = re.compile(r"( +)(\S.*)")
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SHORT = {sign: letter for letter, sign in _ESCAPED.items() if letter not in '"\\/'}
# Control signs, the line ends that only some programs know, the byte order mark, and what is no character at all.
_UNPLAIN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_TO_ESCAPE = re.compile(f'["\\\\]|{_UNPLAIN.pattern}')
# Words that some YAML tool takes for something else than text.
_TAKEN = frozenset({"yes", "no", "on", "off", "y", "n", "true", "false", "null", "nan", "inf"})


@dataclass(frozen=True, slots=True)
class Problem:
    """`line` counts from 1 in the whole file."""

    rule: Rule
    line: int
    message: str
    mend: str


@dataclass(frozen=True, slots=True)
class Field:
    """One key's value: a text, or a list of small tables. `line` is the key's."""

    line: int
    value: str | list[dict[str, Field]]


@dataclass(slots=True)
class Front:
    """What could be read, and all that could not. `body` is everything below the frontmatter, without the layout's empty lines."""

    fields: dict[str, Field] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    body: str = ""


class _Unreadable(Exception):
    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


def split(text: str) -> Front:
    lines = text.split("\n")
    front = Front()
    if lines[0].rstrip(" ") != FENCE:
        front.problems.append(_no_start(lines[0]))
        return front
    end = next((n for n, line in enumerate(lines) if n and line.rstrip(" ") == FENCE), None)
    if end is None:
        mend = "put a line of --- between the fields and the text"
        front.problems.append(Problem(Rule.NO_FRONTMATTER, len(lines), "the frontmatter has no end", mend))
        return front
    front.body = "\n".join(lines[end + 1 :]).strip("\n")
    _Reader(front).read(lines[1:end])
    return front


def _no_start(first: str) -> Problem:
    if first.rstrip("\r ") == FENCE:
        return Problem(Rule.ENCODING, 1, "the lines end in CRLF", "save the file with Unix line ends (LF)")
    return Problem(
        Rule.NO_FRONTMATTER, 1, "the file does not begin with a line of ---", "begin it with the fields, between two lines of ---"
    )


class _Reader:
    """Goes through the lines once; `_list` is the list that the last key without a value may have begun, at `_indent`."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._open: tuple[str, int] | None = None
        self._list: list[dict[str, Field]] | None = None
        self._indent = ""

    def read(self, lines: list[str]) -> None:
        for number, line in enumerate(lines, start=2):
            if not line.strip(" "):
                continue
            try:
                self._line(number, line)
            except _Unreadable as error:
                self._front.problems.append(Problem(Rule.LINE, number, str(error), error.mend))
        self._close()

    def _line(self, number: int, line: str) -> None:
        if odd := _UNPLAIN.search(line):
            raise _Unreadable(f"the character U+{ord(odd[0]):04X} is in it", "remove it, or write it inside double quotes as \\uXXXX")
        if line.lstrip(" ").startswith("#"):
            raise _Unreadable("a comment would be lost when the record is next written", "move it into the text below")
        if (item := _ITEM.fullmatch(line)) and (self._open or self._list is not None):
            self._item(number, item)
        elif (more := _INDENTED.fullmatch(line)) and self._list and more[1] == f"{self._indent}  ":
            self._put(self._list[-1], number, more[2])
        else:
            self._close()
            self._put(self._front.fields, number, line)

    def _item(self, number: int, item: re.Match[str]) -> None:
        if self._open:
            key, at = self._open
            self._list, self._indent, self._open = [], item[1], None
            self._front.fields[key] = Field(at, self._list)
        if self._list is None or item[1] != self._indent:
            raise _Unreadable("the list is not in line", "begin each of its `- ` in the same column")
        self._list.append({})
        self._put(self._list[-1], number, item[2])

    def _put(self, fields: dict[str, Field], number: int, line: str) -> None:
        match = _KEY.fullmatch(line.rstrip(" "))
        if match is None:
            raise _Unreadable("this is not `key: value`", 'write one key a line; a long text goes on one line, in "double quotes"')
        key, text = match[1], (match[2] or "").strip(" ")
        if key in fields or (self._open and self._open[0] == key):
            self._front.problems.append(Problem(Rule.KEY_TWICE, number, f"{key} is there twice", "keep the one that is right"))
            return
        if text:
            fields[key] = Field(number, [] if text == "[]" else scalar(text))
        elif fields is self._front.fields:
            self._open = (key, number)
        else:
            raise _Unreadable(f"{key} has no value", 'give it one, or remove the line; "" is an empty text')

    def _close(self) -> None:
        """The list, if there was one, is at its end; a key that was to begin one and did not has no value."""
        if self._open:
            key, at = self._open
            mend = 'give it one, or remove the line; "" is an empty text'
            self._front.problems.append(Problem(Rule.LINE, at, f"{key} has no value", mend))
        self._open = self._list = None


def scalar(text: str) -> str:
    """The text that a value means. `text` without spaces around it."""
    if text.startswith('"'):
        return _double(text)
    if text.startswith("'"):
        return _single(text)
    if text[0] in "[]{}&*!|>%@`,#" or (text[0] in "-?:" and (text[1:2] in ("", " "))):
        raise _Unreadable(f"a value that begins with {text[0]} means something else in YAML", 'put it in "double quotes"')
    if ": " in text or text.endswith(":") or " #" in text:
        raise _Unreadable("a value with `: ` or ` #` in it may be read in two ways", 'put it in "double quotes"')
    return text


def _double(text: str) -> str:
    inner = text[1:-1]
    if len(text) < 2 or not text.endswith('"') or re.search(r'(?<!\\)(?:\\\\)*"', inner) or re.search(r"(?<!\\)(?:\\\\)*\\$", inner):
        raise _Unreadable("the double quotes do not end where the line ends", 'end it with ", and write \\" for one inside')
    if "\\" in _ESCAPE.sub("", inner):
        raise _Unreadable(
            "there is an escape that is not known", 'known are \\" \\\\ \\n \\t \\r \\xXX \\uXXXX \\UXXXXXXXX; write \\\\ for one \\'
        )
    return _ESCAPE.sub(_unescape, inner)


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _ESCAPED[match[1]]
    code = int(match[2] or match[3] or match[4], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise _Unreadable(f"{match[0]} is no character", "write the character itself")
    return chr(code)


def _single(text: str) -> str:
    inner = text[1:-1]
    if len(text) < 2 or not text.endswith("'") or "'" in inner.replace("''", ""):
        raise _Unreadable("the single quotes do not end where the line ends", "end it with ', and write '' for one inside")
    return inner.replace("''", "'")


def written(value: str) -> str:
    """A value as it is written: as it stands where no tool can take it for anything but text, else in double quotes."""
    plain = value[:1].isalpha() and value.casefold() not in _TAKEN and value == value.strip(" ") and not _UNPLAIN.search(value)
    if plain and ": " not in value and " #" not in value and not value.endswith(":"):
        return value
    return '"' + _TO_ESCAPE.sub(_escape, value) + '"'


def _escape(match: re.Match[str]) -> str:
    sign = match[0]
    if sign in '"\\':
        return f"\\{sign}"
    return f"\\{_SHORT[sign]}" if sign in _SHORT else f"\\u{ord(sign):04X}"
