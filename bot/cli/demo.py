"""`insomnia demo`: the bot's story on the embedded workspace and model, checked step by step. Also a smoke test."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.cli import FAILED, USAGE, CommandError
from bot.cli.demo_bot import DemoBot
from bot.cli.demo_steps import Step
from bot.cli.demo_story import steps
from bot.cli.terminal import one_line
from telemetry.receiver import Receiver


def demo_main(args: argparse.Namespace) -> int:
    """0 only if every step was observed."""
    with _workspace(args.workspace, keep=args.keep) as root, Receiver() as receiver:
        bot = DemoBot(root, receiver)
        bot.start()
        try:
            done = [_shown(step, as_json=args.json) for step in steps(bot)]
        finally:
            bot.stop()
    return 0 if all(step.ok for step in done) else FAILED


def _shown(step: Step, *, as_json: bool) -> Step:
    if as_json:
        line = json.dumps({"step": step.name, "ok": step.ok, "evidence": step.evidence}, ensure_ascii=False)
    else:
        line = f"{'ok  ' if step.ok else 'FAIL'}  {step.name}\n      {one_line(step.evidence)}"
    print(line, flush=True)
    return step


@contextmanager
def _workspace(given: Path | None, *, keep: bool) -> Iterator[Path]:
    """A fresh one; a given directory is never cleaned away by us if it was there before."""
    if given is not None and (given / ".insomnia").exists():
        raise CommandError(f"{given} is a workspace already, and the demo needs a fresh one: name an empty directory", USAGE)
    made = given is None or not given.exists()
    root = Path(tempfile.mkdtemp(prefix="insomnia-demo-")) if given is None else given
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield root.resolve()
    finally:
        if keep:
            print(f"The workspace is kept: {root}", file=sys.stderr)
        elif made:
            shutil.rmtree(root, ignore_errors=True)
