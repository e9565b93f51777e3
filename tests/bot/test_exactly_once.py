"""The bot may die between any two steps: every message is answered, none twice, none in part, and in order."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.ports import Answer
from bot.state_db import open_state
from tests.bot.bench import MENTION, Bench
from tests.bot.fakes import CODE, GENERAL, called, settled
from tests.bot.mortal import Death, Mortal, Steps, bury

LONG = "\n".join("y" * 99 for _ in range(60))  # two parts
WRITTEN = ((GENERAL, "a long question"), (GENERAL, "a short one"), (CODE, "and one in another lane"), (GENERAL, ""))


class Town:
    """Four messages in two lanes, and one bot after the other. What was not acknowledged is delivered again, as Slack does it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bench, self.unheard = folder, None, list[tuple[str, dict[str, Any]]]()
        self.asked: list[tuple[str, str]] = []

    async def live(self, at: int, *, first: bool) -> tuple[bool, int]:
        """One life of the bot, to its death at a step (False) or until nothing is left to do; and its steps."""
        steps = Steps()
        self.bench = bench = Bench(self.folder, before=self.bench, mortal=lambda port: Mortal(port, steps))
        bench.db.execute("PRAGMA synchronous=OFF")  # the process dies, not the disk
        if first:
            self._people_write(bench)
        steps.begin(at)
        try:
            bench.app.recover()
            while self.unheard:
                bench.deliver(*self.unheard[0])
                self.unheard.pop(0)
                await settled()
            await self._to_the_end(bench, steps)
        except Death:
            await bury(bench)
            return False, steps.count
        count = steps.count
        steps.begin(0)
        await bench.close()
        return True, count

    def _people_write(self, bench: Bench) -> None:
        root = bench.old_thread("The code is walnut.", "ok")
        for channel, text in WRITTEN:
            in_thread = root if channel == GENERAL and text else ""
            message = bench.slack.put(channel, MENTION + text, thread_ts=in_thread)
            self.unheard.append((channel, message))
            self.asked.append((channel, message["ts"]))
        bench.claude.turn(called(), Answer(text=LONG))

    @staticmethod
    async def _to_the_end(bench: Bench, steps: Steps) -> None:
        while True:
            await settled()
            if steps.dead:
                raise Death
            if not bench.app._tasks:
                return
            wake = bench.clock.next_wake()
            assert wake is not None, "it waits for something that no clock brings about"
            bench.clock.advance(wake - bench.clock.elapsed)

    # -- what people see -----------------------------------------------------------------------------------------------
    def answers(self) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
        for channel, ts in self.asked:
            yield channel, ts, list(self.bench.asked(ts, channel=channel).posts)

    def check(self) -> None:
        lanes: dict[str, list[str]] = {}
        for channel, ts, posts in self.answers():
            told = [post["metadata"]["event_payload"] for post in posts]
            assert told, f"{ts} in {channel} was lost"
            assert [t["part"] for t in told] == list(range(1, told[0]["parts"] + 1)), f"{ts} is not there exactly once"
            assert {t["outcome"] for t in told} == {"answered"} and len({t["trace_id"] for t in told}) == 1
            lanes.setdefault(channel, []).extend(post["ts"] for post in posts)
        assert self.bench.slack.count("delete") == 0, "something was seen twice, if only for a moment"
        assert all(lane == sorted(lane) for lane in lanes.values()), "an answer overtook another one of its lane"


def empty(folder: Path) -> Path:
    """Made once: to make it takes longer than a life."""
    path = folder / "empty.db"
    if not path.exists():
        open_state(path).close()
    return path


async def lived(folder: Path, *deaths: int) -> list[int]:
    """The steps of each life. Each death is counted from the start of its life."""
    folder.mkdir()
    shutil.copy(empty(folder.parent), folder / "state.db")
    town, counts = Town(folder), []
    for at in (*deaths, 0):
        ended, steps = await town.live(at, first=not counts)
        counts.append(steps)
        if ended:
            break
    town.check()
    return counts


@pytest.mark.sweep
async def test_a_death_at_any_step_costs_no_message_and_answers_none_twice(tmp_path: Path) -> None:
    (whole,) = await lived(tmp_path / "whole")

    for at in range(1, whole + 1):
        assert len(await lived(tmp_path / str(at), at)) == 2, f"nothing dies at step {at}"


@pytest.mark.sweep
async def test_nor_do_two_deaths_one_after_the_other(tmp_path: Path) -> None:
    rng = random.Random(1)
    (whole,) = await lived(tmp_path / "whole")

    for n in range(120):
        await lived(tmp_path / str(n), rng.randint(1, whole), rng.randint(1, whole))
