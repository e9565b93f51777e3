"""What a person reads when the bot has come up: what answers, where, and what to try."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.claude_launch import Cli
from bot.config import Settings
from bot.quoting import quote_line
from bot.workspace import Workspace

SLACK = {"embedded": "an embedded workspace", "socket": "Slack (Socket Mode)", "http": "Slack (HTTP)"}
MODEL = {"embedded": "the embedded model (no language model: it quotes its context)", "anthropic": "Claude"}
MONTH_DAYS = 25
SHOWN = 8


def banner_lines(
    settings: Settings,
    workspace: Workspace,
    cli: Cli,
    slack_url: str,
    *,
    listening: str = "",
    recovered: int,
    threads: Sequence[Mapping[str, Any]],
    question: tuple[str, str],
    full: bool,
) -> Iterator[str]:
    """`listening`: where events arrive over HTTP.

    `question`: one that can be asked, and the first words of the thread that knows the answer.
    """
    yield f"insomnia is up: {SLACK[settings.slack_kind]} · {MODEL[settings.model_kind]} · Claude CLI {cli.version} ({cli.source})"
    if recovered:
        yield f"Answering {recovered} message{'s' if recovered != 1 else ''} that an earlier run left open."
    if not full:
        return
    if settings.slack_kind == "http":
        yield f"Slack's events are heard at http://{listening}/slack/events; the app's request URL has to lead there."
    if settings.slack_kind == "embedded":
        yield f"The workspace listens at {slack_url} and is kept in {workspace.local}."
    if old := [t for t in threads if t["age_days"] >= MONTH_DAYS and not str(t["channel"]).startswith("@")]:
        yield from _old_threads(old[-SHOWN:], workspace.root, question)
    yield "Stop it with Ctrl-C."


def _old_threads(threads: Sequence[Mapping[str, Any]], root: Path, question: tuple[str, str]) -> Iterator[str]:
    yield "Old threads, which the bot has to read again:"
    for t in threads:
        yield f"  #{t['channel']}  {t['thread_ts']}  {int(t['age_days'])} days, {t['messages']} messages: {quote_line(t['first_words'])}"
    where = "" if root == Path.cwd() else f" --workspace {shlex.quote(str(root))}"
    yield "Pick one up from another terminal:"
    words, begins = question
    known = next((t for t in threads if str(t["first_words"]).startswith(begins)), None)
    asked, thread = (words, known) if known else ("What was decided here?", threads[-1])
    yield f'  insomnia say "{asked}" --thread {thread["thread_ts"]}{where}'
