"""People who ask in several lanes at once, and somebody who kills the bot, its CLI processes, or both, seeded.

What must stay true: nobody here waits for ever; over one message the bot dies at most twice, and no turn loses its CLI twice
(a third time it would rightly be given up); a kill strikes at any time, or in the moment after a post, or inside a slow turn.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bot.local.model_script import Script
from bot.local.model_steps import Asking, Respond, Step
from tests.integration.story import BotProcess, Story

PEOPLE = ("mika", "tom", "lena", "priya")
PROMPT = re.compile(r"<message-([0-9a-f]{8}) [^>]*>\n(.*?)\n</message-\1>", re.DOTALL)
TOKEN = re.compile(r"\bask\d{5}\b")
SLOW_SECONDS = 5.0
LONG = "\n".join("y" * 99 for _ in range(90))  # with its first line three parts
OPEN_AT_ONCE = 3  # questions that wait in one lane
NEW_THREAD = 0.3
ANSWER_SECONDS = 150.0  # two deaths, an orphan that works on, and a slow turn in between
ACTS = {"kill_bot": 4, "kill_child": 3, "kill_both": 3, "restart": 1, "kill_draining": 1}
MOMENTS = {"any": 4, "posted": 4, "slow": 2}
Mishap = tuple[str, str]  # an act and its moment


def mishaps_of(count: int, seed: int) -> list[Mishap]:
    rng = random.Random(f"{seed} harm")
    return list(zip(rng.choices(list(ACTS), ACTS.values(), k=count), rng.choices(list(MOMENTS), MOMENTS.values(), k=count), strict=True))


@dataclass(frozen=True, slots=True)
class Question:
    """`asked`: as the metadata of its answer names it."""

    token: str
    lane: str
    channel: str
    thread_ts: str
    ts: str
    asked: str
    plan: str


class Answering(Script):
    """Answers each prompt with its own token, however often it is asked. `plans`: token -> plain | slow | long."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.slow_began = asyncio.Event()

    def take(self, asked: Asking) -> Step | None:
        prompts = PROMPT.findall(asked.newest_user_text)
        if asked.is_compaction or asked.is_memory or not prompts:
            return None
        (token,) = TOKEN.findall(prompts[-1][1])
        self.asked[token] += 1
        plan = self.plans[token]
        if plan == "slow":
            self.slow_began.set()
        text = f"{token} is answered." + (f"\n{LONG}" if plan == "long" else "")
        return Step(effect=Respond(text=text, seconds=SLOW_SECONDS if plan == "slow" else 0.0))


@dataclass(slots=True)
class Ordeal:
    """`lanes`: route -> its channels. `mishaps`: spread over all messages. `slow`: how many questions take `SLOW_SECONDS`."""

    story: Story
    rng: random.Random
    lanes: Mapping[str, Sequence[str]]
    messages: int
    mishaps: Sequence[Mishap]
    slow: int
    questions: dict[str, Question] = field(default_factory=dict)
    open: dict[str, Question] = field(default_factory=dict)
    posts: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    answering: Answering = field(default_factory=Answering)
    _answered: int = 0
    _seen: dict[str, str] = field(default_factory=dict)

    async def run(self) -> float:
        """Returns the seconds until all were answered."""
        began, self.story.model.script = time.monotonic(), self.answering
        plans = ["slow"] * self.slow + ["long"] * (self.messages // 20)
        plans += ["plain"] * (self.messages - len(plans))
        self.rng.shuffle(plans)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            async with asyncio.TaskGroup() as all_of_them:
                for number, lane in enumerate(self.lanes):
                    all_of_them.create_task(self._people(lane, plans[number :: len(self.lanes)]))
                all_of_them.create_task(self._harm())
            await self._until(lambda: not self.open)
            watching.cancel()
        return time.monotonic() - began

    # -- people --------------------------------------------------------------------------------------------------------
    async def _people(self, lane: str, plans: Sequence[str]) -> None:
        threads: list[tuple[str, str]] = []
        for plan in plans:
            await self._until(lambda: sum(q.lane == lane for q in self.open.values()) < OPEN_AT_ONCE)
            await asyncio.sleep(self.rng.random() * 0.2)
            new = not threads or self.rng.random() < NEW_THREAD
            channel, root = (self.rng.choice(self.lanes[lane]), "") if new else self.rng.choice(threads[-8:])
            question = self._ask(lane, channel, root, plan)
            if new:
                threads.append((channel, question.ts))

    def _ask(self, lane: str, channel: str, root: str, plan: str) -> Question:
        token = f"ask{len(self.questions) + 1:05d}"
        self.answering.plans[token] = plan
        said = self.story.slack.say(channel, self.rng.choice(PEOPLE), f"{token}?", thread_ts=root or None, mention=True)
        ts = said["ts"]
        question = Question(token, lane, channel, root or ts, ts, self.story.id_of(channel, ts), plan)
        self.questions[question.asked] = self.open[question.asked] = question
        return question

    # -- what is seen --------------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        while True:
            self._look()
            await self.story.slack.workspace.changed.next(1.0)

    def _look(self) -> None:
        store = self.story.slack.workspace.store
        for channel in store.conversations:
            for message in list(store.messages(channel, after=self._seen.get(channel, ""))):
                self._seen[channel] = message["ts"]
                if message.get("user") == self.story.slack.bot_user_id and "metadata" in message:
                    self._posted(channel, message)

    def _posted(self, channel: str, message: dict[str, object]) -> None:
        self.posts[channel, str(message["ts"])] = message
        payload = message["metadata"]["event_payload"]  # type: ignore[index]
        if payload["part"] == payload["parts"]:
            self._answered += self.open.pop(payload["message"], None) is not None

    async def _until(self, holds: object) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while not holds():  # type: ignore[operator]
            left = deadline - time.monotonic()
            assert left > 0, f"no answer to {[q.token for q in self.open.values()]}: {self.story.errors[-3000:]}"
            await self.story.slack.workspace.changed.next(min(left, 0.2))
            await asyncio.sleep(0)  # the watcher looks first

    # -- harm ----------------------------------------------------------------------------------------------------------
    async def _harm(self) -> None:
        for number, (act, moment) in enumerate(self.mishaps):
            due = (number + 0.5) * self.messages / (len(self.mishaps) + 1)
            await self._until(lambda due=due: self._answered >= due)
            await self._moment(moment)
            in_hand = {lane: next((q.asked for q in self.open.values() if q.lane == lane), "") for lane in self.lanes}
            await getattr(self, f"_{act}")()
            self.happened[act] += 1
            await self._until(lambda in_hand=in_hand: not self.open.keys() & set(in_hand.values()))

    async def _moment(self, moment: str) -> None:
        if moment == "posted":
            posted = len(self.posts)
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while len(self.posts) == posted:
                        await self.story.slack.workspace.changed.next(1.0)
                        self._look()
        elif moment == "slow":
            self.answering.slow_began.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await self.answering.slow_began.wait()
            await asyncio.sleep(self.rng.uniform(0, SLOW_SECONDS))
        else:
            await asyncio.sleep(self.rng.uniform(0, 2))
        self.happened[f"at {moment}"] += 1

    async def _kill_bot(self) -> None:
        await self.story.kill()
        await self._again()

    async def _kill_both(self) -> None:
        children = self.story.bot.children()
        self.story.bot.process.kill()
        for child in children:
            _kill(child)
        await self.story.bot.process.wait()
        await self._again()

    async def _kill_child(self) -> None:
        children = self.story.bot.children()
        if children:
            _kill(self.rng.choice(children))

    async def _restart(self) -> None:
        await self.story.stop()
        await self.story.start()

    async def _kill_draining(self) -> None:
        self.story.bot.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(self.rng.uniform(0, 1))
        with suppress(ProcessLookupError):  # it had nothing to end, and is gone
            self.story.bot.process.kill()
        await self.story.bot.process.wait()
        await self._again()

    async def _again(self) -> None:
        """Up again; now and then it is killed once more on the way, or soon after."""
        if self.rng.random() < 0.3:
            before = self.story.bot
            starting = asyncio.get_running_loop().create_task(self.story.start())
            await self._until(lambda: self.story.bot is not before)
            await asyncio.sleep(self.rng.uniform(0, 4))
            await self._end(self.story.bot, starting)
            self.happened["kill_starting"] += 1
        await self.story.start()

    @staticmethod
    async def _end(bot: BotProcess, starting: asyncio.Task[BotProcess]) -> None:
        with suppress(ProcessLookupError):
            bot.process.kill()
        await bot.process.wait()
        await asyncio.gather(starting, return_exceptions=True)  # it may not have come up


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
