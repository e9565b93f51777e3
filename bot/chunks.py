"""Where a long Slack text may be cut: at paragraphs, lines and words first, never inside an entity, a link or a visible sign.

The bodies of the pieces, put together again, are the text (but for pieces that would be blank, which Slack refuses). Code
that is cut gets its fence closed and opened again with its language; both are counted in the limit and kept apart from the body.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

CHUNK_CHARS = 4_000  # Slack recommends it for a post, and refuses more in an update
SHORTEST_LIMIT = 64  # characters: room for both fences, a language and something of the code
FENCE = "```"

_LANGUAGE = re.compile(r"([\w+#.-]{0,24})\n")
_ENTITY = re.compile(r"&(?:amp|lt|gt);")
_LINK = re.compile(r"<[^<>\n]*>")
_INLINE_CODE = re.compile(r"`[^`\n]+`")
# What to cut after, best first, and how much of the room a cut there must fill at least.
_SEAMS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("\n\n",), 0.5),
    (("\n",), 0.25),
    ((" ", "\u3000", "。", "、", "！", "？"), 0.25),
)


@dataclass(frozen=True, slots=True)
class Piece:
    body: str
    opening: str = ""
    closing: str = ""

    @property
    def shown(self) -> str:
        return self.opening + self.body + self.closing


def pieces(text: str, limit: int) -> list[Piece]:
    """Raises ValueError where `limit` leaves no room for fences."""
    if limit < SHORTEST_LIMIT:
        raise ValueError(f"a chunk of {limit} characters cannot hold a code fence; at least {SHORTEST_LIMIT}")
    cloth, at, cut = _Cloth(text, limit), 0, list[Piece]()
    while at < len(text):
        end = cloth.end(at)
        piece = Piece(text[at:end], cloth.opening(at), cloth.closing(end))
        if piece.body.strip():
            cut.append(piece)
        at = end
    return cut


class _Cloth:
    """One text and the places where it must not be cut: `_kept_whole[i]` is set where a cut before sign i would harm."""

    def __init__(self, text: str, limit: int) -> None:
        self._text, self._limit = text, limit
        self._fences = [found.end() for found in re.finditer(FENCE, text)]
        self._kept_whole = bytearray(len(text) + 1)
        for pattern, longest in ((_ENTITY, limit), (_LINK, limit - 8), (_INLINE_CODE, limit // 4)):
            for found in pattern.finditer(text):
                if len(found[0]) <= longest:
                    self._keep_whole(found.start(), found.end())
        for place, end in enumerate(self._fences):
            self._keep_fence(end, opens=place % 2 == 0)

    def opening(self, at: int) -> str:
        """The fence to begin with when the text goes on at `at`."""
        if not self._in_code(at):
            return ""
        language = _LANGUAGE.match(self._text, self._fences[bisect_right(self._fences, at) - 1])
        return f"{FENCE}{language[1] if language else ''}\n"

    def closing(self, end: int) -> str:
        if not self._in_code(end):
            return ""
        return FENCE if self._text[end - 1] == "\n" else "\n" + FENCE

    def end(self, at: int) -> int:
        """Where the piece that begins at `at` ends."""
        room = self._limit - len(self.opening(at))
        last = min(at + room, len(self._text))
        if last == len(self._text) and self._fits(at, last, room):
            return last
        for marks, filled in _SEAMS:
            if (end := max(self._seam(at, last, room, mark=mark, low=at + int(room * filled)) for mark in marks)) > at:
                return end
        return self._anywhere(at, last, room)

    def _seam(self, at: int, last: int, room: int, *, mark: str, low: int) -> int:
        """The last place behind `mark` where a cut does no harm; -1 where there is none."""
        found = self._text.rfind(mark, low, last)
        while found >= 0:
            end = found + len(mark)
            if not self._harms(end) and self._fits(at, end, room):
                return end
            found = self._text.rfind(mark, low, end - 1)
        return -1

    def _anywhere(self, at: int, last: int, room: int) -> int:
        """In one long word; what is longer than a whole piece has to be cut where the room ends."""
        fitting = [end for end in range(last, at, -1) if self._fits(at, end, room)]
        return next((end for end in fitting if not self._harms(end)), fitting[0])

    def _fits(self, at: int, end: int, room: int) -> bool:
        return end - at + len(self.closing(end)) <= room

    def _in_code(self, at: int) -> bool:
        return bisect_right(self._fences, at) % 2 == 1

    def _harms(self, at: int) -> bool:
        return bool(self._kept_whole[at]) or _splits_a_sign(self._text, at)

    def _keep_whole(self, start: int, end: int) -> None:
        start = max(start, 0)
        self._kept_whole[start + 1 : end] = b"\x01" * max(end - start - 1, 0)

    def _keep_fence(self, end: int, *, opens: bool) -> None:
        """Neither its language nor an empty block is left alone on one side of a cut."""
        start = end - len(FENCE)
        if not opens:
            self._keep_whole(start - 2, end)
            return
        language = _LANGUAGE.match(self._text, end)
        self._keep_whole(start, min((language.end() if language else end) + 1, len(self._text)))


def _splits_a_sign(text: str, at: int) -> bool:
    """Whether what is seen as one sign (accents, emoji made of several, flags, half-width voiced kana) would be torn."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if unicodedata.category(after)[0] == "M" or after in "\u200d\uff9e\uff9f" or before == "\u200d":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    return _is_regional(after) and _regionals_before(text, at) % 2 == 1


def _is_regional(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _regionals_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return at - start
