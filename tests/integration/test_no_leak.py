"""Secrets stay where they are needed, and what was said stays where it is kept: neither is in anything that is told.

The CLI gets the one credential that it needs, and no Slack token; what was said is in the inbox, the session log and the CLI's
own transcripts, and nowhere else.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.story import APP_TOKEN, BOT_TOKEN, MODEL_KEY, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]

SECRETS = (BOT_TOKEN, APP_TOKEN, MODEL_KEY)
# In a thread's old message, in one said since, in questions, in an answer: each a word that nothing else has.
TEXTS = ("walnut-4711", "fig-1234", "which-vault-6", "almond-77")
KEPT_IN = ("state.db", "state.db-wal", "state.db-shm", "sessions/", "claude/")  # below `.insomnia/`: the memory of what was said


async def test_the_cli_gets_its_one_credential_and_nothing_of_slack(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await _trouble(told)

        (child,) = told.bot.children()
        environment = _words(child, "environ")

        assert f"ANTHROPIC_API_KEY={MODEL_KEY}" in environment
        names = {entry.partition("=")[0] for entry in environment}
        assert [name for name in sorted(names) if name.startswith(("SLACK", "OTEL", "INSOMNIA"))] == []
        assert _leaks("\n".join(environment)) == [MODEL_KEY]
        assert _leaks("\n".join(_words(child, "cmdline"))) == []


async def test_no_secret_and_no_text_is_in_any_argument_span_log_metric_or_line(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        bot = await told.start()
        await _trouble(told)
        told.slack.faults.drop_sockets()  # what the SDK says about a lost connection
        assert (await told.ask(told.old_thread("Lunch is at noon."), "When is lunch?")).outcome == "answered"
        arguments = [word for pid in (bot.pid, *bot.children()) for word in _words(pid, "cmdline")]
        await told.stop()

        assert _leaks("\n".join(arguments)) == []
        assert told.collector.spans and told.collector.logs and told.collector.metrics()
        assert _leaks(json.dumps([told.collector.spans, told.collector.logs, told.collector.metrics()])) == []
        assert _leaks(told.errors + told.outputs) == []


async def test_no_secret_is_written_into_the_workspace(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await _trouble(told)
        await told.stop()

        written = _written(told)
        assert len(written) > 5
        assert {name: _leaks(text, SECRETS) for name, text in written.items() if _leaks(text, SECRETS)} == {}


async def test_what_was_said_is_kept_nowhere_but_in_the_inbox_the_session_log_and_the_transcripts(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await told.start()
        await _trouble(told)
        await told.stop()

        written = _written(told)
        holding = {name for name, text in written.items() if _leaks(text, TEXTS)}
        assert {name for name in holding if not name.startswith(KEPT_IN)} == set()
        assert {name.split("/")[0] for name in holding} >= {"sessions", "claude"}, "it is looked for where it is, too"


async def _trouble(told: Story) -> None:
    """Answers, and errors of each kind that prints, logs or fails a span."""
    place = told.old_thread("The vault code is walnut-4711.")
    told.slack.faults.add("auth.test", "error", code="invalid_auth")
    told.slack.faults.add("conversations.replies", "missing_scope")
    told.slack.faults.add("chat.postMessage", "http_502")
    told.slack.faults.add("users.info", "ratelimited")
    told.model.script.say("It is almond-77.", match="which-vault-6")
    assert (await told.ask(place, "What is the code, which-vault-6?")).outcome == "answered"
    told.slack.say(place.channel, "lena", "It is fig-1234 now.", thread_ts=place.ts)
    told.model.script.error(403, message="may not say walnut-4711")
    assert (await told.ask(place, "And now, which-vault-6?")).outcome == "failed"
    told.model.script.tool("no_such_tool", {"vault": "walnut-4711"})
    assert (await told.ask(place, "And what is it now?")).outcome == "answered"


def _words(pid: int, what: str) -> list[str]:
    return Path(f"/proc/{pid}/{what}").read_bytes().decode("utf-8", "replace").split("\0")


def _written(told: Story) -> dict[str, str]:
    """Path below `.insomnia/` → content, of every file."""
    state = told.workspace / ".insomnia"
    files = [path for path in state.rglob("*") if path.is_file()]
    return {str(path.relative_to(state)): path.read_bytes().decode("utf-8", "replace") for path in files}


def _leaks(text: str, wanted: tuple[str, ...] = (*SECRETS, *TEXTS)) -> list[str]:
    return [one for one in wanted if one in text]
