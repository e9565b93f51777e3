"""The bot, its CLI processes, or both are killed at any time: every message is answered, none twice, none lost, in order."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ordeal import Mishap, Ordeal, mishaps_of
from tests.integration.story import Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack, pytest.mark.kill]

LANES = {"general": ("general", "twin"), "release": ("release",), "nihongo": ("日本語",)}
CONFIG = "[memory]\nextract = false\n" + "".join(
    f"[routes.{lane}]\nchannels = [{', '.join(repr(channel) for channel in channels)}]\n" for lane, channels in LANES.items()
)


async def test_a_few_dozen_messages_survive_kills_of_the_bot_and_of_its_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mishaps = [("kill_bot", "posted"), ("kill_child", "any"), ("kill_both", "slow"), ("kill_draining", "posted"), ("restart", "any")]
    await _survives(tmp_path, capsys, messages=32, mishaps=mishaps, slow=2, seed=1)


@pytest.mark.soak
async def test_a_thousand_messages_survive_kills_of_the_bot_and_of_its_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`INSOMNIA_SOAK_MESSAGES` and `INSOMNIA_SOAK_SEED` make it another one."""
    messages, seed = (int(os.environ.get(f"INSOMNIA_SOAK_{name}", default)) for name, default in (("MESSAGES", 1_000), ("SEED", 1)))
    await _survives(tmp_path, capsys, messages=messages, mishaps=mishaps_of(messages // 10, seed), slow=messages // 25, seed=seed)


async def _survives(
    folder: Path, capsys: pytest.CaptureFixture[str], *, messages: int, mishaps: Sequence[Mishap], slow: int, seed: int
) -> None:
    async with story(folder, config=CONFIG, opening=False) as told:
        told.slack.add_channel("twin")
        ordeal = Ordeal(told, random.Random(seed), LANES, messages=messages, mishaps=mishaps, slow=slow)
        await told.start()
        seconds = await ordeal.run()
        await told.stop()

        figures = _judged(ordeal, told)
        with capsys.disabled():
            print(f"\n{messages} messages in {seconds:.0f} s, {dict(ordeal.happened)}")
            print(f"{dict(figures)}; {_of_traces(told)}; asked of the model: {sum(ordeal.answering.asked.values())}")

        wrong = {name: count for name, count in figures.items() if name != "once" and count}
        assert (figures["once"], wrong) == (messages, {})
        assert _unlinked(told) == []


def _judged(ordeal: Ordeal, told: Story) -> Counter[str]:
    found: Counter[str] = Counter()
    there = {(channel, post["ts"]): post for channel, post in _own_posts(told)}
    by_question: dict[str, list[dict[str, Any]]] = {}
    for post in there.values():
        by_question.setdefault(post["metadata"]["event_payload"]["message"], []).append(post)
    for asked, question in ordeal.questions.items():
        posts = sorted(by_question.pop(asked, []), key=lambda post: str(post["ts"]))
        payloads = [post["metadata"]["event_payload"] for post in posts]
        numbers = [payload["part"] for payload in payloads]
        whole = bool(payloads) and numbers == list(range(1, payloads[0]["parts"] + 1))
        found["once"] += whole
        found["lost"] += not payloads
        found["double or in part"] += bool(payloads) and not whole
        found["failed"] += any(payload["outcome"] != "answered" for payload in payloads)
        found["another one's answer"] += whole and question.token not in "".join(post["text"] for post in posts)
        found["elsewhere"] += any(post.get("thread_ts") != question.thread_ts for post in posts)
    found["nobody's"] = len(by_question)
    found["taken back"] = len(ordeal.posts.keys() - there.keys())
    found["overtaken"] = _overtaken(told, there)
    found["events dropped"] = told.slack.sockets.dropped
    found["left in state.db"] = sum(_rows(told, f"SELECT count(*) FROM {table}")[0][0] for table in ("replies", "deaths"))
    found["left open"] = _rows(told, "SELECT count(*) FROM messages WHERE state != 'ended'")[0][0]
    return found


def _own_posts(told: Story) -> Iterator[tuple[str, dict[str, Any]]]:
    store = told.slack.workspace.store
    for channel in store.conversations:
        for message in store.messages(channel):
            if message.get("user") == told.slack.bot_user_id and "metadata" in message:
                yield channel, message


def _overtaken(told: Story, there: dict[tuple[str, str], dict[str, Any]]) -> int:
    """Answers that stand before the answer to a message that their lane accepted earlier."""
    first: dict[tuple[str, str], str] = {}
    for (channel, ts), post in sorted(there.items(), key=lambda item: item[0][1]):
        first.setdefault((channel, post["metadata"]["event_payload"]["message"].rpartition("/")[2]), ts)
    lanes: dict[str, list[str]] = {}
    for key, channel, ts in _rows(told, "SELECT key, channel, ts FROM messages ORDER BY id"):
        lanes.setdefault(key, []).append(first.get((channel, ts), ""))
    return sum(later < earlier for lane in lanes.values() for earlier, later in pairwise(lane))


def _rows(told: Story, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(told.workspace / ".insomnia" / "state.db")
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def _roots(told: Story) -> list[dict[str, Any]]:
    return [span for span in told.collector.spans if span["name"] == "process slack"]


def _unlinked(told: Story) -> list[str]:
    """Later attempts that do not say which one was before them."""
    later = [root for root in _roots(told) if root["attributes"].get("insomnia.reply.attempt", 1) > 1]
    return [root["trace_id"] for root in later if len(root["links"]) != 1]


def _of_traces(told: Story) -> dict[str, int]:
    attempts = Counter(root["attributes"].get("insomnia.reply.attempt", 1) for root in _roots(told))
    found = sum("insomnia.reply.found" in span["attributes"] for span in told.collector.spans)
    return {"attempts beyond the first": sum(n for attempt, n in attempts.items() if attempt > 1), "found in Slack": found}
