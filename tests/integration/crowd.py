"""People who talk, seeded: mentions at once in several threads, others in between who write, edit and delete.

One crowd a route. It says everything through the embedded workspace and writes it into the oracle's ledger in the same
breath, so that the ledger's order is that of the events.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

from tests.integration.oracle import Ledger, Mention, Posted, Said, Teller, Thread
from tests.integration.story import MONTH_SECONDS, Story

PEOPLE = ("mika", "tom", "lena", "priya", "yuki", "haruto")
WORDS = [
    "release",
    "queue",
    "staging",
    "node",
    "friday",
    "billing",
    "numbers",
    "本番",
    "来週",
    "確認",
    "deploy",
    "alarm",
    "lunch",
    "ticket",
    "rollback",
    "会議",
    "report",
]
# Per hundred mentions; what is left over are plain ones.
PLANS = {"compact_next": 8, "spend_budget": 6, "tool_loop": 8, "too_long": 8}
NEW_THREAD = 0.03
UNREADABLE = 0.08  # how often Slack refuses the next reading of a channel
SAME_THREAD = 0.4  # how often questions that do not wait for each other are asked in one thread
BREATH_SECONDS = 0.05  # of those who are in no hurry: long enough for a session to tidy up behind an answer
LONGEST_WORDS = 220  # of a message: below what a thread line or a summary shortens, above what a few leave room for


@dataclass(slots=True)
class Crowd:
    """`channels` belong to one route. `hurry`: how often people do not wait for each other, 0 to 1."""

    lane: str
    channels: tuple[str, ...]
    story: Story
    ledger: Ledger
    teller: Teller
    rng: random.Random
    hurry: float
    threads: list[tuple[str, str]] = field(default_factory=list)  # channel, root ts
    changed: dict[str, int] = field(default_factory=dict)

    # -- before the bot is there ---------------------------------------------------------------------------------------
    def old_thread(self, channel: str, *, root: str, size: int) -> None:
        self.threads.append((channel, root))
        for number in range(size):
            seconds, micros = root.split(".")
            ts = root if number == 0 else f"{int(seconds) + number * 600}.{micros}"
            self._say(channel, root if number else None, ts=ts, deliver=False)

    # -- while it is ---------------------------------------------------------------------------------------------------
    async def run(self, mentions: int) -> None:
        """Returns when all are answered."""
        async with asyncio.TaskGroup() as waiting:
            while mentions > 0:
                self._others()
                if self.rng.random() < UNREADABLE:
                    self._refuse_a_reading(self.rng.choice(self.channels))
                at_once = self.rng.choice((2, 3, 4)) if self.rng.random() < self.hurry else 1
                place = self._anywhere() if self.rng.random() < SAME_THREAD else None
                for _ in range(min(mentions, at_once)):
                    mentions -= 1
                    waiting.create_task(self._answered(self._mention(place or self._anywhere())))
                self._others()
                await self._patience()

    async def _patience(self) -> None:
        """Mostly until everybody has an answer; now and then people do not wait for each other."""
        impatient = self.rng.random() < self.hurry / 2
        while not impatient and any(not m.answered for m in self._own_mentions()):
            if not await self.story.slack.workspace.changed.next(60):
                raise AssertionError(f"no answer in {self.lane}: {self.story.errors}")
            await asyncio.sleep(0)  # whoever waits for the same answer notes it first
        await asyncio.sleep(BREATH_SECONDS * (1 - self.hurry))

    def _own_mentions(self) -> list[Mention]:
        return [mention for mention in self.ledger.mentions.values() if mention.lane == self.lane]

    async def _answered(self, mention: Mention) -> None:
        await self.story.answer_to(mention.said.thread[0], mention.said.ts)
        mention.answered = next(self.ledger.steps)

    def _anywhere(self) -> tuple[str, str | None]:
        """A channel and a thread of it; None begins a new one."""
        if self.rng.random() < NEW_THREAD:
            return self.rng.choice(self.channels), None
        return self.rng.choice(self.threads[-3:] if self.rng.random() < 0.4 else self.threads)

    def _mention(self, place: tuple[str, str | None]) -> Mention:
        channel, root = place
        said, token = self._say(channel, root, mention=True, words=40)
        if root is None:
            self.threads.append((channel, said.ts))
        else:
            self.threads.sort(key=lambda thread: thread == (channel, root))  # the last ones are talked in most
        (plan,) = self.rng.choices((*PLANS, ""), weights=(*PLANS.values(), 100 - sum(PLANS.values())))
        if plan:
            self.teller.plans[token] = plan
        mention = self.ledger.mentions[token] = Mention(said, token, self.lane, asked=said.versions[0][0])
        return mention

    def _others(self) -> None:
        for _ in range(self.rng.choice((0, 0, 1, 2, 3))):
            channel, root = self.rng.choice(self.threads)
            match self.rng.choices(("say", "edit", "delete"), weights=(6, 3, 1))[0]:
                case "say":
                    self._say(channel, root, words=LONGEST_WORDS)
                case "edit":
                    self._edit(channel, root)
                case "delete":
                    self._delete(channel, root)

    def _refuse_a_reading(self, channel: str) -> None:
        where = {"channel": self.story.slack.workspace.conversation(channel).id}
        self.story.slack.faults.add("conversations.replies", "missing_scope", where=where)
        self._note("refuse")

    # -- one act -------------------------------------------------------------------------------------------------------
    def _say(
        self,
        channel: str,
        root: str | None,
        *,
        mention: bool = False,
        words: int = LONGEST_WORDS,
        ts: str | None = None,
        deliver: bool = True,
    ) -> tuple[Said, str]:
        token = self.ledger.token()
        text = self._text(token, words)
        user = self.rng.choice(PEOPLE)
        stored = self.story.slack.say(channel, user, text, thread_ts=root, mention=mention, ts=ts, deliver=deliver)
        self._note("mention" if mention else "say")
        return self.ledger.add(self._thread(channel, root or stored["ts"]), stored["ts"], token, stored["text"]), token

    def _edit(self, channel: str, root: str) -> None:
        """Also the root, also a question that was answered: then it goes on being one."""
        found = self._editable(channel, root)
        if not found:
            return
        said, token = self.rng.choice(found), self.ledger.token()
        tag = f"<@{self.story.slack.bot_user_id}> " if self._asked(said) else ""
        stored = self.story.slack.edit(channel, said.ts, tag + self._text(token, LONGEST_WORDS if not tag else 40))
        self.ledger.change(said, token, stored["text"])
        self._note("edit")

    def _delete(self, channel: str, root: str) -> None:
        found = [said for said in self._editable(channel, root) if said.ts != root and not self._asked(said)]
        if found:
            said = self.rng.choice(found[-6:])
            self.story.slack.delete(channel, said.ts)
            self.ledger.change(said, None)
            self._note("delete")

    def _editable(self, channel: str, root: str) -> list[Said]:
        """What was not deleted; a question only once it was answered, or it would be asked in other words."""
        answered = {m.said.ts for m in self._own_mentions() if m.answered}
        there = [said for said in self.ledger.threads[self._thread(channel, root)] if said.versions[-1][1] is not None]
        return [said for said in there if not self._asked(said) or said.ts in answered]

    def _asked(self, said: Said) -> bool:
        return said.versions[0][1] in self.ledger.mentions

    def _thread(self, channel: str, root: str) -> Thread:
        return self.story.slack.workspace.conversation(channel).id, root

    def _text(self, token: str, words: int) -> str:
        count = 1 + int(words * self.rng.random() ** 3)  # mostly a few words, now and then a page
        said = [self.rng.choice(WORDS) for _ in range(count)]
        if count > 4 and self.rng.random() < 0.2:
            said[3] += "\n"
        return f"{token} {' '.join(said)}"

    def _note(self, what: str) -> None:
        self.changed[what] = self.changed.get(what, 0) + 1


def posts_of(story: Story) -> list[Posted]:
    """Everything that the bot posted, wherever, in order."""
    found = []
    for conversation in story.slack.workspace.store.conversations.values():
        for message in story.slack.workspace.store.messages(conversation.id):
            if message.get("user") == story.slack.bot_user_id and "metadata" in message:
                thread = (conversation.id, message.get("thread_ts", message["ts"]))
                told = message["metadata"]["event_payload"]
                unread = bool(told["gate"]) and told["gate"]["decision"] == "refetch_failed"
                found.append(Posted(thread, message["ts"], told["message"].rpartition("/")[2], message["text"], unread))
    return sorted(found, key=lambda post: post.ts)


def a_month_ago() -> int:
    return int(time.time()) - MONTH_SECONDS
