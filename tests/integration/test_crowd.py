"""Two hundred questions in some twenty threads on the real CLI, under every mishap of this issue, before an oracle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.crowd import PLANS, Crowd, a_month_ago, posts_of
from tests.integration.oracle import Ledger, Teller, judge
from tests.integration.story import Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]

SEED = 1
MENTIONS = 200
OLD_THREADS = 6  # a route
TWINS = 3  # of these, where the route has two channels: one in each, with the same root ts
CONFIG = """
[routes.general]
channels = ["general", "twin"]
rotate_at = 150000
autocompact = 100000

[routes.release]
channels = ["release"]
rotate_at = 150000
autocompact = 100000

[routes.nihongo]
channels = ["日本語"]
prefer = "compaction"
rotate_at = 60000
autocompact = 100000
"""
ROUTES = {"general": ("general", "twin"), "release": ("release",), "nihongo": ("日本語",)}
HURRY = {"general": 0.5, "release": 0.5, "nihongo": 0.0}  # a session is compacted by the bot only while nobody waits


async def test_every_answer_was_made_from_its_thread_and_nothing_was_put_in_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger()
    teller = Teller(ledger)
    async with story(tmp_path, config=CONFIG, opening=False) as told:
        told.model.script = teller
        told.slack.add_channel("twin")
        crowds = [_crowd(lane, told, ledger, teller) for lane in ROUTES]
        await told.start()
        async with asyncio.TaskGroup() as talking:
            for number, crowd in enumerate(crowds):
                talking.create_task(crowd.run(MENTIONS // 3 + (number < MENTIONS % 3)))
        await told.stop()

        posts = posts_of(told)
        ledger.add_answers(posts)
        figures = judge(ledger, teller, posts)
        again = told.counted("insomnia.gate.asked_again", "cause")
        resets = told.counted("insomnia.session.resets", "cause")
        decided = told.counted("insomnia.gate.decisions", "decision", "reason")
        done = sum((Counter(crowd.changed) for crowd in crowds), Counter())
        threads = len({mention.said.thread for mention in ledger.mentions.values()})
        with capsys.disabled():
            print(f"\n{dict(figures)}\nthreads {threads}, people {dict(done)}, mishaps {dict(teller.happened)}, reads {told.reads()}")
            print(f"asked again {again}, resets {resets}\n{decided}")

        assert figures.pop("answers") == MENTIONS
        assert 2 <= figures.pop("unread") <= done["refuse"]
        assert not +figures, f"{dict(figures)}"
        assert Counter(cause for cause, _ in told.resets()) == {cause: count for (cause,), count in resets.items()}
        # The crowd did what it was asked for, or the figures say little.
        assert threads >= 18 and min(done["say"], done["edit"], done["delete"]) >= 10
        assert {"compaction_auto", "compaction_manual", "rotate_tokens"} <= {cause for (cause,) in resets}
        assert min(teller.happened[plan] for plan in PLANS) >= 3 and sum(again.values()) >= 10
        assert decided["known", "held"] >= 20 and decided["known", "held_delta"] >= 10


def _crowd(lane: str, told: Story, ledger: Ledger, teller: Teller) -> Crowd:
    rng = random.Random(f"{SEED} {lane}")
    begun = a_month_ago()
    crowd = Crowd(lane, ROUTES[lane], told, ledger, teller, rng, HURRY[lane])
    for number in range(OLD_THREADS):
        channels = ROUTES[lane] if number < TWINS else (rng.choice(ROUTES[lane]),)
        for channel in channels:
            crowd.old_thread(channel, root=f"{begun + number * 100_000}.000100", size=rng.choice((1, 2, 3, 5, 8, 20, 60)))
    return crowd
