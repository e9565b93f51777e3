"""What can be typed: commands, arguments and their help. Only argparse and lists of words, so that `--help` is instant."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from bot.version import VERSION

Commands = argparse._SubParsersAction  # the only name that argparse has for it


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="insomnia",
        description="A Slack bot that does not forget, and that can always be asked why it answered as it did.",
        epilog="First time: `insomnia up`, then, in another terminal, `insomnia threads` and `insomnia say`.",
    )
    parser.add_argument("--version", action="version", version=f"insomnia {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _up_and_run(commands)
    _threads(commands)
    _say(commands)
    _why(commands)
    _traces(commands)
    _status(commands)
    _logs(commands)
    _memory(commands)
    _config(commands)
    _doctor(commands)
    _demo(commands)
    return parser


def _command(commands: Commands[argparse.ArgumentParser], name: str, *, entry: str, summary: str, example: str) -> argparse.ArgumentParser:
    """`entry` = module:function; the function takes the parsed arguments and returns the exit code."""
    command = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command=name, entry=tuple(entry.split(":")))
    return command


def _workspace(command: argparse.ArgumentParser, *, default: Path | None, where: str) -> None:
    command.add_argument("--workspace", metavar="DIR", type=Path, default=default, help=where)


HERE = "the directory that holds, or will hold, insomnia.toml and .insomnia/ (default: here)"
MOST_DIGITS, MOST_SHOWN = 9, 40
JSON = "print JSON instead of text"
# Spelled here as well, so that nothing is imported for `--help`; a test compares.
RECORD_KINDS = ("decision", "request", "preference", "constraint", "lesson", "question", "knowledge")
RECORD_STATUSES = ("open", "resolved", "active", "stale", "replaced")
RUN_WORKERS, CANDIDATE_STATES = ("extract", "consolidation"), ("waiting", "settled", "invalid")


def _up_and_run(commands: Commands[argparse.ArgumentParser]) -> None:
    up = _command(
        commands, "up", entry="bot.cli.run:run", summary="run the bot and say what to try with it", example="insomnia up --workspace ~/bot"
    )
    run = _command(
        commands,
        "run",
        entry="bot.cli.run:run",
        summary="run the bot alone, for a service manager",
        example="insomnia run --workspace /srv/bot",
    )
    for command in (up, run):
        _workspace(command, default=Path(), where=HERE)


def _threads(commands: Commands[argparse.ArgumentParser]) -> None:
    threads = _command(
        commands,
        "threads",
        entry="bot.cli.threads:threads",
        summary="list the threads of the embedded workspace",
        example="insomnia threads --channel general",
    )
    threads.add_argument("--channel", metavar="NAME", help="only this channel")
    threads.add_argument("--json", action="store_true", help=JSON)
    _workspace(threads, default=Path(), where=HERE)


def _say(commands: Commands[argparse.ArgumentParser]) -> None:
    say = _command(
        commands,
        "say",
        entry="bot.cli.say:say",
        summary="say something in the embedded workspace and wait for the bot's answer",
        example='insomnia say "What did we decide?" --channel general --thread 1761559200.000100',
    )
    say.add_argument("text", metavar="TEXT", help="what to say; the mention of the bot is put in front of it")
    say.add_argument("--channel", metavar="NAME", help="where (default: the thread's channel, or the workspace's first)")
    say.add_argument("--thread", metavar="TS", help="in this thread, as `insomnia threads` shows it (default: begin a new one)")
    say.add_argument("--user", metavar="NAME", help="as this person (default: the workspace's first)")
    say.add_argument("--no-mention", action="store_true", help="do not mention the bot, and do not wait for an answer")
    say.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=120.0, help="how long to wait for the answer (default: 120)")
    say.add_argument("--json", action="store_true", help=JSON)
    _workspace(say, default=Path(), where=HERE)


def _why(commands: Commands[argparse.ArgumentParser]) -> None:
    why = _command(
        commands,
        "why",
        entry="bot.cli.why:why",
        summary="explain one reply on a page: what was decided, read and left out, by which session, where the time went",
        example="insomnia why last\n  insomnia why https://example.slack.com/archives/C012ABC/p1761559200000100",
    )
    why.add_argument("ref", metavar="REF", help="a Slack permalink, CHANNEL/TS, TS, a trace id or the beginning of one, or `last`")
    why.add_argument("--json", action="store_true", help=JSON)
    _workspace(why, default=Path(), where=HERE)


def _traces(commands: Commands[argparse.ArgumentParser]) -> None:
    traces = _command(
        commands,
        "traces",
        entry="bot.cli.traces:traces",
        summary="list recent replies and memory runs, newest first",
        example="insomnia traces --outcome failed --since 1d",
    )
    traces.add_argument("--route", metavar="NAME", help="only this route")
    traces.add_argument("--outcome", metavar="WORD", help="only these, such as answered, failed, dropped, interrupted")
    traces.add_argument("--decision", metavar="WORD", help="only this decision of the gate: known, new, refetched, refetch_failed")
    traces.add_argument("--since", metavar="WHEN", help="how long ago (90s, 15m, 1h, 2d, 1w), or a time (2026-01-31T09:00)")
    traces.add_argument("--limit", metavar="N", type=_count, default=20, help="at most so many (default: 20)")
    traces.add_argument("--json", action="store_true", help=JSON)
    _workspace(traces, default=Path(), where=HERE)


def _logs(commands: Commands[argparse.ArgumentParser]) -> None:
    logs = _command(
        commands,
        "logs",
        entry="bot.cli.logs:logs",
        summary="show what the bot and its memory workers logged, the last 24 hours of it",
        example="insomnia logs memory --since 7d --event worker_lifecycle\n  insomnia logs -f",
    )
    logs.add_argument("stream", metavar="memory|bot", nargs="?", choices=("memory", "bot"), help="only this log (default: both, by time)")
    logs.add_argument("-f", "--follow", action="store_true", help="begin with the last 10 lines and go on until Ctrl-C, days and all")
    logs.add_argument("--since", metavar="WHEN", help="how long ago (90s, 15m, 1h, 2d, 1w), or a time (2026-01-31T09:00)")
    logs.add_argument("--event", metavar="NAME", help="only this event, such as gate_decision or worker_lifecycle")
    logs.add_argument("--route", metavar="NAME", help="only this route")
    logs.add_argument("--all", action="store_true", help="debug lines too, as with --event or --json: what did not address the bot, say")
    logs.add_argument("--json", action="store_true", help="print the lines as JSON, one object a line")
    _workspace(logs, default=Path(), where=HERE)


def _status(commands: Commands[argparse.ArgumentParser]) -> None:
    status = _command(
        commands,
        "status",
        entry="bot.cli.status:status",
        summary="say whether the bot is up, and what it, its sessions and memory last did",
        example="insomnia status --line --width 40",
    )
    form = status.add_mutually_exclusive_group()
    form.add_argument("--line", action="store_true", help="one line for a status bar or prompt; always ends with 0")
    form.add_argument("--json", action="store_true", help=JSON)
    status.add_argument("--width", metavar="N", type=_columns, help="how many columns there are (default: the terminal's, or 80)")
    _workspace(status, default=Path(), where=HERE)


def _memory(commands: Commands[argparse.ArgumentParser]) -> None:
    memory = commands.add_parser(
        "memory",
        help="show, search and check what the bot remembers",
        description="Show, search and check what the bot remembers: the files in .insomnia/memory and .insomnia/knowledge.",
    )
    on_memory = memory.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _memory_files(on_memory)
    _memory_query(on_memory)
    _memory_run(on_memory)
    _memory_runs(on_memory)
    _memory_candidates(on_memory)
    _memory_undo(on_memory)


def _memory_files(on_memory: Commands[argparse.ArgumentParser]) -> None:
    lint = _command(
        on_memory,
        "lint",
        entry="bot.cli.memory_files:lint",
        summary="check the files, those edited by hand too; ends with 1 if there is an error",
        example="insomnia memory lint --json",
    )
    listed = _command(
        on_memory,
        "list",
        entry="bot.cli.memory_files:list_records",
        summary="list what is remembered, the newest first",
        example="insomnia memory list --kind decision --status active",
    )
    listed.add_argument("--kind", choices=RECORD_KINDS, help="only this kind")
    listed.add_argument("--status", choices=RECORD_STATUSES, help="only this status")
    show = _command(
        on_memory,
        "show",
        entry="bot.cli.memory_files:show",
        summary="show one record as it stands in its file",
        example="insomnia memory show decision/deploy-freeze",
    )
    show.add_argument("record", metavar="RECORD", help="KIND/SLUG, or the slug alone")
    for command in (lint, listed, show):
        command.add_argument("--json", action="store_true", help=JSON)
        _workspace(command, default=Path(), where=HERE)


def _memory_query(on_memory: Commands[argparse.ArgumentParser]) -> None:
    query = _command(
        on_memory,
        "query",
        entry="bot.cli.memory_query:query",
        summary="search what is remembered, in Japanese or English, with words or a whole question",
        example='insomnia memory query "金曜のデプロイは？"\n  insomnia memory query refunds --scope channel:C012ABC',
    )
    query.add_argument("text", metavar="TEXT", help="what to look for; operators are plain text")
    query.add_argument("--scope", metavar="WHERE", help="what would be found there: workspace, channel:ID or user:ID (default: everything)")
    query.add_argument("--json", action="store_true", help=JSON)
    _workspace(query, default=Path(), where=HERE)


def _memory_run(on_memory: Commands[argparse.ArgumentParser]) -> None:
    run = _command(
        on_memory,
        "run",
        entry="bot.cli.memory_run:run",
        summary="let a memory worker run now, in the running bot or, where none runs, here",
        example="insomnia memory run extract\n  insomnia memory run consolidation --json",
    )
    run.add_argument(
        "worker",
        choices=("extract", "consolidation"),
        help="extract: read what was said since the last time, and stage what will last; consolidation: work what is staged into memory",
    )
    run.add_argument("--json", action="store_true", help=JSON)
    _workspace(run, default=Path(), where=HERE)


def _memory_runs(on_memory: Commands[argparse.ArgumentParser]) -> None:
    runs = _command(
        on_memory,
        "runs",
        entry="bot.cli.memory_runs:runs",
        summary="show what each memory run did and why, newest first; with RUN all of that one on a page",
        example="insomnia memory runs --worker consolidation --since 2d\n  insomnia memory runs 3f2a91bc",
    )
    runs.add_argument("run", metavar="RUN", nargs="?", help="a run's id or its trace's, or the beginning of one")
    runs.add_argument("--worker", choices=RUN_WORKERS, help="only this worker")
    runs.add_argument("--since", metavar="WHEN", help="how long ago (90s, 15m, 1h, 2d, 1w), or a time (2026-01-31T09:00)")
    runs.add_argument("--limit", metavar="N", type=_count, default=20, help="at most so many (default: 20)")
    runs.add_argument("--json", action="store_true", help=JSON)
    _workspace(runs, default=Path(), where=HERE)


def _memory_candidates(on_memory: Commands[argparse.ArgumentParser]) -> None:
    candidates = _command(
        on_memory,
        "candidates",
        entry="bot.cli.memory_candidates:candidates",
        summary="show what became of what was staged: what waits, what was settled and how, what was put aside",
        example="insomnia memory candidates --state waiting\n  insomnia memory candidates 5e551011.00000012.000",
    )
    candidates.add_argument("id", metavar="ID", nargs="?", help="a candidate's id or the beginning of one: all of it on a page")
    candidates.add_argument("--state", choices=CANDIDATE_STATES, help="only these")
    candidates.add_argument("--limit", metavar="N", type=_count, default=20, help="at most so many (default: 20)")
    candidates.add_argument("--json", action="store_true", help=JSON)
    _workspace(candidates, default=Path(), where=HERE)


def _memory_undo(on_memory: Commands[argparse.ArgumentParser]) -> None:
    undo = _command(
        on_memory,
        "undo",
        entry="bot.cli.memory_undo:undo",
        summary="take back what a consolidation run, or another undo, did: every file as it was, or nothing at all",
        example="insomnia memory undo 3f2a91bc --dry-run",
    )
    undo.add_argument("run", metavar="RUN", help="the run's id or the beginning of it, as `insomnia memory runs` shows it")
    undo.add_argument("--dry-run", action="store_true", help="only show what would be done")
    undo.add_argument("--json", action="store_true", help=JSON)
    _workspace(undo, default=Path(), where=HERE)


def _config(commands: Commands[argparse.ArgumentParser]) -> None:
    config = _command(
        commands,
        "config",
        entry="bot.cli.config:config",
        summary="show the settings in force and where each came from, secrets masked",
        example="insomnia config --workspace ~/bot",
    )
    config.add_argument("--json", action="store_true", help=JSON)
    _workspace(config, default=Path(), where=HERE)


def _doctor(commands: Commands[argparse.ArgumentParser]) -> None:
    doctor = _command(
        commands,
        "doctor",
        entry="bot.cli.doctor:doctor",
        summary="look at everything the bot stands on, and say how to mend what is wrong; changes nothing",
        example="insomnia doctor --json",
    )
    doctor.add_argument("--json", action="store_true", help=JSON)
    _workspace(doctor, default=Path(), where=HERE)


def _demo(commands: Commands[argparse.ArgumentParser]) -> None:
    demo = _command(
        commands,
        "demo",
        entry="bot.cli.demo:demo_main",
        summary="show and check, step by step, that an old thread is remembered (embedded workspace and model only)",
        example="insomnia demo --json",
    )
    demo.add_argument("--json", action="store_true", help="print one JSON object a step")
    demo.add_argument("--keep", action="store_true", help="leave the workspace on disk and say where it is")
    _workspace(demo, default=None, where="a directory to work in (default: a fresh temporary one)")


def _count(text: str) -> int:
    return _whole(text, "a whole number")


def _columns(text: str) -> int:
    return _whole(text, "a whole number of columns")


def _whole(text: str, what: str) -> int:
    """As argparse would word it, it would name the function."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text[:MOST_SHOWN]} is not {what} from 1 to {10**MOST_DIGITS - 1}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"{text[:MOST_SHOWN]} is not a number of seconds above 0")
    return seconds
