"""`insomnia doctor`: what is wrong, and how to mend it. Exit codes: 0 nothing is broken (there may be warnings), 1 something is."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Sequence

from bot.cli import FAILED, USAGE, CommandError
from bot.cli.terminal import as_the_terminal_has_it, grey, has_colours, safe
from bot.doctor.collect import collect
from bot.doctor.rules import findings
from bot.doctor.seen import Finding, Level
from bot.workspace import Workspace

SIGNS = {Level.OK: "✓", Level.INFO: "·", Level.WARN: "!", Level.FAIL: "✗"}
SGR = {Level.OK: "32", Level.INFO: "90", Level.WARN: "33", Level.FAIL: "31"}
INDENT = " " * 15


def doctor(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace.resolve())
    if not workspace.root.is_dir():
        raise CommandError(f"there is no directory {workspace.root}; name the bot's workspace: --workspace DIR", USAGE)
    found = findings(collect(workspace, os.environ))
    failed = any(each.level is Level.FAIL for each in found)
    if args.json:
        about = {"ok": not failed, "findings": [dataclasses.asdict(each) for each in found]}
        print(json.dumps(about, ensure_ascii=False, indent=2))
    else:
        print(page(found))
    return FAILED if failed else 0


def page(found: Sequence[Finding]) -> str:
    lines = [line for each in found for line in _lines(each)]
    return as_the_terminal_has_it("\n".join([*lines, "", _summary(found)]))


def _lines(each: Finding) -> list[str]:
    sign = SIGNS[each.level]
    shown = f"\033[{SGR[each.level]}m{sign}\033[0m" if has_colours() else sign
    head = f"{shown} {each.check:<12} {safe(each.found)}"
    return [head, grey(f"{INDENT}{safe(each.mend)}")] if each.mend else [head]


def _summary(found: Sequence[Finding]) -> str:
    failed, warned = (sum(each.level is level for each in found) for level in (Level.FAIL, Level.WARN))
    if not failed and not warned:
        return "Nothing is wrong."
    told = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((failed, "failure"), (warned, "warning")) if count]
    return f"{' and '.join(told)}; what to do stands below each."
