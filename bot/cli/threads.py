"""`insomnia threads`: what there is to pick up again in the embedded workspace."""

from __future__ import annotations

import argparse
import json
from typing import Any

from bot.cli.control import find_control
from bot.cli.terminal import one_line, table


def threads(args: argparse.Namespace) -> int:
    control = find_control(args.workspace)
    found: list[dict[str, Any]] = control.get("threads", {"channel": args.channel} if args.channel else {})
    if args.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    elif found:
        print(table([("CHANNEL", "THREAD", "AGE", "MESSAGES", "FIRST WORDS"), *(_row(thread) for thread in found)]))
    else:
        print("There are no threads yet.")
    return 0


def _row(thread: dict[str, Any]) -> tuple[str, ...]:
    return (
        where(one_line(thread["channel"])),
        thread["thread_ts"],
        age(thread["age_days"]),
        str(thread["messages"]),
        one_line(thread["first_words"]),
    )


def where(channel: str) -> str:
    """A direct message is named after the person: `@mika`."""
    return channel if channel.startswith("@") else f"#{channel}"


def age(days: float) -> str:
    if days < 1:
        return "today"
    return "1 day" if days < 2 else f"{int(days)} days"
