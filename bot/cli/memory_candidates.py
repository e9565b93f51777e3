"""`insomnia memory candidates`: what became of each candidate, and where it was said."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from bot.cli import USAGE, CommandError, complain
from bot.cli.memory_files import memory_workspace
from bot.cli.memory_runs import sources_of, tell_of_the_store
from bot.cli.terminal import as_the_terminal_has_it, fitted, grey, is_utf8, one_line, page_width, safe
from bot.explain.candidate_page import HEADINGS, WIDE_ONLY, page, row, summary
from bot.explain.candidates import as_json, traced
from bot.workspace import Workspace
from memory.consolidation.fates import Fate, Fates

MOST_NAMED = 5


def candidates(args: argparse.Namespace) -> int:
    workspace = memory_workspace(args)
    try:
        fates = Fates(workspace.state).all()
    except OSError as error:
        raise CommandError(f"the candidates in {workspace.state} cannot be read ({error.strerror or error})") from error
    return _one(args, workspace, fates) if args.id is not None else _list(args, workspace, fates)


def _list(args: argparse.Namespace, workspace: Workspace, fates: Sequence[Fate]) -> int:
    wanted = [fate for fate in fates if args.state in (None, fate.state)]
    now, found = time.time(), traced(wanted[: args.limit], sources_of(workspace))
    if args.json:
        print(json.dumps([as_json(one, now=now) for one in found], ensure_ascii=not is_utf8(), indent=2))
        return 0
    if not found:
        what = f"no candidate is {args.state}; all there are: insomnia memory candidates" if fates else "nothing was staged yet"
        complain(f"{what}; to read now what was said: insomnia memory run extract" if not fates else what, 0)
        return 0
    rows = [HEADINGS, *(tuple(map(one_line, row(one, now=now))) for one in found)]
    print(as_the_terminal_has_it(fitted(rows, WIDE_ONLY, to_terminal=sys.stdout.isatty())))
    print(grey(summary(fates)))
    if (left := len(wanted) - len(found)) > 0:
        print(grey(f"{left} more are not shown: --limit {len(wanted)}"))
    return 0


def _one(args: argparse.Namespace, workspace: Workspace, fates: Sequence[Fate]) -> int:
    tell_of_the_store(workspace)
    (one,) = traced([_find(fates, args.id)], sources_of(workspace))
    if args.json:
        print(json.dumps(as_json(one, now=time.time()), ensure_ascii=not is_utf8(), indent=2))
        return 0
    for line in page(one, width=page_width(), now=time.time(), zone=None):
        print(as_the_terminal_has_it(safe(line)))
    return 0


def _find(fates: Sequence[Fate], prefix: str) -> Fate:
    begin = [fate for fate in fates if prefix and fate.id.startswith(prefix)]
    found = [fate for fate in begin if fate.id == prefix] or begin
    if len({fate.id for fate in found}) > 1:
        named = ", ".join(one_line(fate.id) for fate in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise CommandError(f"{one_line(prefix)} may be each of these; say which: {named}{more}", USAGE)
    if not found:
        raise CommandError(f"there is no candidate {one_line(prefix)!r:.90}; see which there are: insomnia memory candidates")
    return found[0]
