"""Lines of so many terminal cells, Japanese and English alike. Pure.

A line breaks at a space, or between two wide characters; no line begins with a sign that closes what stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from telemetry.actionbar import cells

_JOINED = "\ue000"  # of nobody's alphabet, one cell wide: stands for a space at which no line breaks
_CLOSES = frozenset("、。，．）」』】〕！？ー・…々ゃゅょっァィゥェォャュョッ%％")


def wrap(text: str, width: int, *, label: str = "", indent: int | None = None) -> list[str]:
    """`label` stands before the first line, as many cells before the others (or `indent`). At least one line; newlines are spaces."""
    lines, hanging = list[str](), " " * (cells(label) if indent is None else indent)
    line, is_empty = label, True
    for before, word in _words(text):
        for piece in _pieces(word, max(width - len(hanging), 2)):
            joint = "" if is_empty else before
            if (not is_empty or cells(line) > len(hanging)) and cells(line) + len(joint) + cells(piece) > width:
                lines.append(line.rstrip())
                line, joint = hanging, ""
            line, is_empty, before = f"{line}{joint}{piece}", False, ""
    return [each.replace(_JOINED, " ") for each in (*lines, line.rstrip())]


def whole(command: str) -> str:
    """What is to be copied: `wrap` does not break it as long as one line can take it."""
    return command.replace(" ", _JOINED)


def cut(text: str, width: int) -> str:
    """With a mark where something is left out."""
    if cells(text) <= width:
        return text
    kept, room = "", max(width - 1, 0)
    for sign in text:
        room -= cells(sign)
        if room < 0:
            break
        kept += sign
    return f"{kept.rstrip()}…"


def _words(text: str) -> Iterator[tuple[str, str]]:
    """What may stand on a line of its own, each with the space before it."""
    for number, word in enumerate(text.split()):
        before, held = " " if number else "", ""
        for sign in word:
            if held and sign not in _CLOSES and (cells(sign) == 2 or cells(held[-1]) == 2):
                yield before, held
                before, held = "", ""
            held += sign
        yield before, held


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word that no line can take is cut."""
    piece = ""
    for sign in word:
        if cells(piece) + cells(sign) > width:
            yield piece
            piece = ""
        piece += sign
    yield piece
