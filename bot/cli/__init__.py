"""The command line. Exit codes: 0 it worked, 1 it failed, 2 it was asked for wrongly.

What must stay true: parsing and `--help` import nothing that is slow (no OpenTelemetry, Slack, aiohttp, pydantic); each
command is imported only when it runs. Results go to stdout; errors go to stderr and say what to do next.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

FAILED, USAGE = 1, 2


class CommandError(Exception):
    """A command cannot do what was asked; the text says what to do next."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def dispatch(argv: Sequence[str]) -> int:
    from bot.cli.parser import build_parser

    args = build_parser().parse_args(argv)
    module, function = args.entry
    try:
        return int(getattr(importlib.import_module(module), function)(args))
    except CommandError as error:
        return complain(str(error), error.code)
    except KeyboardInterrupt:
        return complain("interrupted", FAILED)
    except BrokenPipeError:  # `insomnia threads | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def complain(text: str, code: int) -> int:
    print(f"insomnia: {text}", file=sys.stderr)
    return code
