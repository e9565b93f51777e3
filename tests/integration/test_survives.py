"""Limits, refused keys and more routes than processes, on the real CLI: everybody gets an answer, or is told until when."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from telemetry.events import Decision, Reason
from tests.integration.story import MODEL_KEY, ROOT, Place, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]

VAULT = ("The vault code is walnut-4711.", "And the alarm is off between two and three.")
TOKENS = {"CLAUDE_CODE_OAUTH_TOKEN": "plan-of-mika", "CLAUDE_CODE_OAUTH_TOKEN_2": "plan-of-tom"}
TWO_PLANS = """
[accounts.mika]
key_env = "CLAUDE_CODE_OAUTH_TOKEN"
[accounts.tom]
key_env = "CLAUDE_CODE_OAUTH_TOKEN_2"
"""
ONE_PROCESS = """
[claude]
max_resident = 1
[memory]
extract = false
[routes.main]
channels = ["general"]
[routes.other]
channels = ["release"]
"""


async def status_of(told: Story) -> dict[str, Any]:
    argv = (sys.executable, "-m", "bot", "status", "--json", "--workspace", str(told.workspace))
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    found: dict[str, Any] = json.loads(out)
    return found


async def accounts_of(told: Story, **wanted: str) -> list[dict[str, Any]]:
    """Once they are in these states: the status is written twice a second at most."""
    while True:
        accounts: list[dict[str, Any]] = (await status_of(told))["accounts"]
        if {account["name"]: account["state"] for account in accounts} == wanted:
            return accounts


async def test_where_all_accounts_are_limited_the_person_is_told_until_when(tmp_path: Path) -> None:
    async with story(tmp_path, config=TWO_PLANS, environment=TOKENS) as told:
        thread, ends = told.old_thread(*VAULT), int(time.time()) + 3_600
        await told.start()
        await told.ask(thread, "What is the vault code?")
        told.model.script.limit(ends, times=2)

        limited = await told.ask(thread, "Sure?")
        asked = told.last_request()
        waiting = await told.ask(thread, "Hello?")

        until = datetime.fromtimestamp(ends + 59).astimezone()
        for answer in (limited, waiting):
            assert answer.outcome == "failed" and f"{until:%H:%M}" in answer.text and "hit your" not in answer.text
        assert told.last_request() == asked, "an account that rests is not asked"
        accounts = await accounts_of(told, mika="limited", tom="limited")
        assert [datetime.fromisoformat(account["until"]).timestamp() for account in accounts] == [ends, ends]
        await told.stop()
        assert told.counted("insomnia.account.switches", "account", "cause") == {("mika", "limit"): 1}
        assert told.counted("insomnia.account.state", "account", "state") == {("mika", "limited"): 1, ("tom", "limited"): 1}


async def test_a_warning_moves_nobody(tmp_path: Path) -> None:
    async with story(tmp_path, config=TWO_PLANS, environment=TOKENS) as told:
        await told.start()
        thread = told.old_thread(*VAULT)
        told.model.script.near_limit(int(time.time()) + 3_600)

        await told.ask(thread, "What is the vault code?")
        known = await told.ask(thread, "Sure?")

        assert known.decided[0] == Decision.KNOWN.value
        assert {request.key for request in told.prompts()} == {"plan-of-mika"}
        await accounts_of(told, mika="warned", tom="available")
        await told.stop()
        assert told.resets() == [] and told.counted("insomnia.account.switches", "account") == {}


async def test_a_refused_key_costs_one_message_seconds_and_nobody_an_answer(tmp_path: Path) -> None:
    config, spare = '[accounts.main]\n[accounts.spare]\nkey_env = "ANTHROPIC_API_KEY_2"\n', {"ANTHROPIC_API_KEY_2": "sk-ant-spare"}
    async with story(tmp_path, config=config, environment=spare) as told:
        told.model.script.error(401, key=MODEL_KEY, times=10)
        await told.start()
        thread = told.old_thread(*VAULT)

        first = await told.ask(thread, "What is the vault code?")
        second = await told.ask(thread, "Sure?")

        assert first.outcome == second.outcome == "answered" and "walnut-4711" in first.text
        assert second.decided[0] == Decision.KNOWN.value
        assert told.prompts()[-1].key == "sk-ant-spare"
        await told.stop()
        assert told.resets() == [("account_switch", "fresh")]


async def test_a_hibernated_session_comes_back_with_its_context_and_reads_its_thread_again(tmp_path: Path) -> None:
    async with story(tmp_path, config=ONE_PROCESS) as told:
        here, there = told.old_thread(*VAULT), told.old_thread("Lunch is at noon.", channel="release")
        bot = await told.start()
        await told.ask(here, "What is the vault code?")
        first = bot.children()
        reads = told.reads()

        await told.ask(there, "When is lunch?")
        second = bot.children()
        again = await told.ask(here, "What is the vault code?")

        assert again.decided == (Decision.REFETCHED.value, Reason.AFTER_RESUME.value, "full") and "walnut-4711" in again.text
        assert told.reads() == reads + 2
        assert [len(found) for found in (first, second, bot.children())] == [1, 1, 1]
        assert len({request.session_id for request in told.prompts()}) == 2, "it was resumed, not begun"
        await told.stop()
        assert told.resets() == [("hibernate", "none")] * 2
        assert told.counted("insomnia.session.resets", "route", "cause") == {("main", "hibernate"): 1, ("other", "hibernate"): 1}


ROUTES, RESIDENT, AT_ONCE = 60, 8, 4


async def test_sixty_routes_live_in_eight_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"room{number}" for number in range(ROUTES)]
    routes = "\n".join(f'[routes.{name}]\nchannels = ["{name}"]' for name in names)
    async with story(tmp_path, config=f"[claude]\nmax_resident = {RESIDENT}\n[memory]\nextract = false\n{routes}\n") as told:
        for name in names:
            told.slack.add_channel(name)
        places = [told.old_thread(f"The code of {name} is walnut-{number}.", channel=name) for number, name in enumerate(names)]
        bot = await told.start()
        seen: list[int] = []
        watching = asyncio.get_running_loop().create_task(_watch(lambda: seen.append(len(bot.children()))))

        first = await _ask_all(told, places)
        newest = [await told.ask(place, "Sure?") for place in places[-AT_ONCE:]]
        oldest = [await told.ask(place, "What is the code?") for place in places[:AT_ONCE]]
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        left = len(bot.children())
        await told.stop()

        with capsys.disabled():
            print(f"\n{ROUTES} routes, {told.counted('insomnia.session.resets', 'cause')}, processes at most {max(seen)}, left {left}")
        assert first == ["answered"] * ROUTES
        assert max(seen) <= RESIDENT and left == RESIDENT
        assert [answer.decided[0] for answer in newest] == ["known"] * AT_ONCE
        assert [answer.decided for answer in oldest] == [("refetched", "after_resume", "full")] * AT_ONCE
        assert all(f"walnut-{number}" in answer.text for number, answer in enumerate(oldest))
        assert told.counted("insomnia.session.resets", "cause") == {("hibernate",): ROUTES + AT_ONCE - RESIDENT}


async def _ask_all(told: Story, places: list[Place]) -> list[str]:
    some = asyncio.Semaphore(AT_ONCE)

    async def ask(place: Place) -> str:
        async with some:
            return (await told.ask(place, "What is the code?")).outcome

    return list(await asyncio.gather(*map(ask, places)))


async def _watch(look: Any) -> None:
    while True:
        look()
        await asyncio.sleep(0.02)
