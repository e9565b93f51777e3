"""Text for a terminal: nothing that somebody wrote in Slack may move the cursor, and columns stand in line in Japanese too."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence

from bot.explain.wrapping import cut

NARROWEST, WIDEST = 60, 110  # columns of a page
LEAST_LAST = 25  # cells in which a sentence can still be recognised
GREY, PLAIN = "\033[90m", "\033[0m"


def safe(text: str) -> str:
    """Without control characters, but for newlines and tabs."""
    return "".join(c if c in "\n\t" or not _controls(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def is_utf8() -> bool:
    """As the locale has it: Python itself prints UTF-8 in the C locale too, and the terminal would show something else."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "C")
    named = locale.upper().replace("-", "").endswith("UTF8")
    return named and os.environ.get("TERM") != "dumb" and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def as_the_terminal_has_it(text: str) -> str:
    """In ASCII, where it knows no more: a question mark for each other letter."""
    return text if is_utf8() else text.encode("ascii", "replace").decode()


def one_line(text: str) -> str:
    return " ".join(safe(text).split())


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def grey(text: str) -> str:
    return f"{GREY}{text}{PLAIN}" if has_colours() else text


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the last one as it comes."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(_padded(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows)


def page_width() -> int:
    """Of prose: longer lines are hard to read."""
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def fitted(rows: Sequence[Sequence[str]], dispensable: Sequence[str], *, to_terminal: bool) -> str:
    """A table with headings, as wide as a terminal is. `dispensable` columns go where they are empty, then one after the other as
    long as the last column has less than LEAST_LAST cells; what is too long for it is cut.
    """
    columns, shown = shutil.get_terminal_size().columns, ""
    left_out = {name for name in dispensable if not any(cells[rows[0].index(name)] for cells in rows[1:])}
    for heading in ("", *dispensable):
        left_out.add(heading)
        kept = [place for place, name in enumerate(rows[0]) if name not in left_out]
        shown = table([[cells[place] for place in kept] for cells in rows])
        before = shown.splitlines()[0].rindex(rows[0][-1])
        if not to_terminal or columns - before >= min(LEAST_LAST, max(width(cells[-1]) for cells in rows)):
            break
    return "\n".join(cut(line, columns) for line in shown.splitlines()) if to_terminal else shown


def width(text: str) -> int:
    """Terminal cells: East Asian wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(cell: str, wide: int) -> str:
    return cell + " " * (wide - width(cell))


def _controls(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") and character != "\N{ZERO WIDTH JOINER}"  # it binds emoji
