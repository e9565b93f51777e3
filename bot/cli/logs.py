"""`insomnia logs`: the log files as a person reads them, or as JSON lines; with `-f` it stays and shows what comes."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import heapq
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from bot.cli import USAGE, CommandError, complain
from bot.cli.since import since
from bot.cli.terminal import PLAIN, grey, has_colours, one_line
from bot.workspace import Workspace
from telemetry.jsonl_days import day_files, day_of, log_folders, timestamp
from telemetry.jsonl_text import escape
from telemetry.log_reading import LogLine, LogReader
from telemetry.names import Event

DEFAULT_SINCE = "24h"
LAST_LINES, LAST_BYTES = 10, 1 << 18  # what `-f` begins with, and where it looks for that
POLL_SECONDS = 0.2  # a tenth of what a reply takes; costs about 1 ms of work a second
WIDEST_EVENT = max(map(len, Event))
MOST_OF_UNREADABLE = 100  # characters; enough to recognise it

DEBUG = "debug"
COLOURS = {"warn": "\033[33m", "error": "\033[31m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`since` as lines say when. Lines that cannot be read belong to no event and no route, and are no debug lines."""

    since: str
    event: str | None
    route: str | None
    readable_only: bool
    debug: bool

    def is_early(self, line: LogLine) -> bool:
        return line.at < self.since

    def is_debug(self, line: LogLine) -> bool:
        """One that is not wanted."""
        return not self.debug and line.fields is not None and line.fields.get("level") == DEBUG

    def is_other(self, line: LogLine) -> bool:
        if line.fields is None:
            return bool(self.event or self.route or self.readable_only)
        return self.event not in (None, line.fields["event"]) or self.route not in (None, _route(line.fields))


def logs(args: argparse.Namespace) -> int:
    wanted = Wanted(
        since=timestamp(max(0, int(since(DEFAULT_SINCE if args.since is None else args.since))) * 10**9),
        event=_event(args.event),
        route=args.route,
        readable_only=args.json,
        debug=args.all or args.json or args.event is not None,
    )
    output = _Output(wanted, as_json=args.json)
    try:
        only_the_end = args.follow and args.since is None
        readers = _readers(args, wanted, last_bytes=LAST_BYTES if only_the_end else None)
        if args.follow:
            with contextlib.suppress(KeyboardInterrupt):  # how following ends
                _follow(readers, output, last_lines=LAST_LINES if only_the_end else None)
        else:
            output.show(_merged(readers))
            output.show(itertools.chain.from_iterable(reader.close() for reader in readers))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"the logs cannot be read: {error}. They belong to the user that runs the bot.") from error
    output.tell_of_the_rest(follow=args.follow)
    return 0


def _readers(args: argparse.Namespace, wanted: Wanted, *, last_bytes: int | None) -> list[LogReader]:
    workspace = Workspace(args.workspace.resolve())
    if not workspace.root.is_dir():
        raise CommandError(f"there is no directory {workspace.root}; name the one of the bot: --workspace DIR", USAGE)
    folders = {stream: folder for stream, folder in log_folders(workspace.state).items() if args.stream in (None, stream)}
    if not any(day_files(folder, stream) for stream, folder in folders.items()):
        what = f"there are no {args.stream + ' ' if args.stream else ''}logs yet in {workspace.root}"
        if not args.follow:
            raise CommandError(f"{what}; the bot writes them as it works: insomnia up")
        complain(f"{what}; waiting for the first line", 0)
    today = lambda: day_of(time.time_ns())  # noqa: E731
    since = date.fromisoformat(wanted.since[:10])
    return [LogReader(folder, stream, since=since, today=today, last_bytes=last_bytes) for stream, folder in folders.items()]


def _follow(readers: list[LogReader], output: _Output, *, last_lines: int | None) -> None:
    if last_lines is not None:
        output.show(_merged(readers), last=last_lines)
    while True:
        output.show(_merged(readers))
        time.sleep(POLL_SECONDS)


def _merged(readers: list[LogReader]) -> Iterator[LogLine]:
    return heapq.merge(*(reader.new_lines() for reader in readers), key=lambda line: line.at)


class _Output:
    def __init__(self, wanted: Wanted, *, as_json: bool) -> None:
        self._wanted, self._as_json = wanted, as_json
        self._shown = self._unreadable = self._hidden = 0

    def show(self, lines: Iterable[LogLine], *, last: int | None = None) -> None:
        wanted = self._chosen(lines)
        for line in wanted if last is None else deque(wanted, last):
            self._shown += 1
            print(_json(line.fields) if self._as_json and line.fields else _words(line))
        sys.stdout.flush()

    def tell_of_the_rest(self, *, follow: bool) -> None:
        if self._unreadable:
            lines = "1 line" if self._unreadable == 1 else f"{self._unreadable} lines"
            complain(f"{lines} could not be read: broken off, or damaged; the others are whole", 0)
        if self._hidden and not (self._shown or follow):
            complain(f"nothing but debug lines since {_local(self._wanted.since)}; to see them: insomnia logs --all", 0)
        elif not (self._shown or follow):
            complain(f"nothing to show since {_local(self._wanted.since)}; further back: insomnia logs --since 7d", 0)

    def _chosen(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        for line in lines:
            if not self._wanted.is_early(line):
                self._unreadable += line.fields is None
                if self._wanted.is_other(line):
                    continue
                if self._wanted.is_debug(line):
                    self._hidden += 1
                else:
                    yield line


def _words(line: LogLine) -> str:
    if line.fields is None:
        return f"{grey(_local(line.at))}  ?      {'unreadable':{WIDEST_EVENT}}  {one_line(line.text)[:MOST_OF_UNREADABLE]}"
    level, event, summary = (one_line(str(line.fields.get(name, ""))) for name in ("level", "event", "summary"))
    where = " · ".join(one_line(str(word)) for word in (_route(line.fields), str(line.fields.get("trace_id", ""))[:8]) if word)
    return f"{grey(_local(line.at))}  {_coloured(level)}  {event:{WIDEST_EVENT}}  {summary}{grey(f'  {where}') if where else ''}"


def _coloured(level: str) -> str:
    return f"{COLOURS[level]}{level:5}{PLAIN}" if level in COLOURS and has_colours() else f"{level:5}"


def _json(fields: Mapping[str, Any]) -> str:
    """Not the bytes of the file: whoever else wrote there may have left in it what moves a terminal's cursor."""
    return escape(json.dumps(fields, ensure_ascii=False))


def _route(fields: Mapping[str, Any]) -> str | None:
    """Of a memory run: the route whose session it read."""
    extract = fields.get("extract")
    return fields.get("route") or (extract.get("route") if isinstance(extract, dict) else None)


def _local(ts: str) -> str:
    try:
        return f"{datetime.fromisoformat(ts).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):  # a date that no calendar has
        return f"{ts:19.19}"


def _event(name: str | None) -> str | None:
    if name is None or name in set(Event):
        return name
    near = difflib.get_close_matches(name, list(Event), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise CommandError(f"there is no event {one_line(name)}; {hint}There are: {', '.join(sorted(Event))}", USAGE)
