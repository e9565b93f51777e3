"""The judge at the model endpoint: what was in the context of each answer, against what the threads say.

Every message carries a token of its own, and so does every answer, so a request to the model shows which messages it held,
and a post in Slack shows which request produced it. The oracle shares no code with the gate. It owns the meaning of two
words: what is *owed* (`Ledger.owed`), and what a *context life* is: it ends when a context loses what it held, which is
when a summary takes its place or another session id begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise

from bot.local.model_script import Script
from bot.local.model_steps import Asking, Refuse, Respond, Step, ToolCall

BUDGET_CHARS = 16_000  # of thread text that is owed, newest first
LINE_CHARS = 120  # of these, for time, speaker and role of each message
TOKEN = re.compile(r"\btok\d{5}\b")
MARK = re.compile(r"\bmark\d{5}\b")
PROMPT = re.compile(r"<message-([0-9a-f]{8}) [^>]*>\n(.*?)\n</message-\1>", re.DOTALL)
SUMMARY = re.compile(r"<summary-([0-9a-f]{8})>.*?</summary-\1>", re.DOTALL)
COMPACTS_NEXT, SPENDS_BUDGET = 90_000, 160_000  # tokens: above the CLI's threshold, above `rotate_at`
COMPACTABLE = 2  # exchanges that a context has to hold before the CLI compacts it
PLANNED_USAGE = {"compact_next": COMPACTS_NEXT, "spend_budget": SPENDS_BUDGET}

Thread = tuple[str, str]  # channel id, root ts


# -- what was said ---------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Said:
    """`versions`: (step, token) of each wording; a token of None is a deletion. `chars`: of the longest wording."""

    thread: Thread
    ts: str
    versions: list[tuple[int, str | None]]
    chars: int

    def acceptable(self, since: int, until: int) -> set[str | None]:
        """What may be shown for it to a question of step `since` that was answered at `until`."""
        current = [token for step, token in self.versions if step <= since][-1:]
        return {*current, *(token for step, token in self.versions if since < step <= until)}


@dataclass(slots=True)
class Mention:
    """A message that has to be answered once. `asked`, `answered`: steps."""

    said: Said
    token: str
    lane: str
    asked: int
    answered: int = 0


@dataclass(frozen=True, slots=True)
class Posted:
    """A post of the bot. `answers`: the ts of the message that its metadata names. `unread`: it owns up to a thread it could not read."""

    thread: Thread
    ts: str
    answers: str
    text: str
    unread: bool = False


class Ledger:
    """Who said what, in steps: one a message, edit, deletion or answer."""

    def __init__(self) -> None:
        self.steps, self._tokens = count(1), count(1)
        self.threads: dict[Thread, list[Said]] = {}
        self.mentions: dict[str, Mention] = {}

    def token(self) -> str:
        return f"tok{next(self._tokens):05d}"

    def add(self, thread: Thread, ts: str, token: str, text: str) -> Said:
        said = Said(thread, ts, [(next(self.steps), token)], len(text))
        self.threads.setdefault(thread, []).append(said)
        return said

    def change(self, said: Said, token: str | None, text: str = "") -> None:
        said.versions.append((next(self.steps), token))
        said.chars = max(said.chars, len(text))

    def add_answers(self, posts: Iterable[Posted]) -> None:
        """Afterwards: the bot's own posts stand in the threads, too."""
        for post in posts:
            for token in TOKEN.findall(post.text)[:1]:
                self.threads.setdefault(post.thread, []).append(Said(post.thread, post.ts, [(0, token)], len(post.text)))

    def owed(self, mention: Mention) -> list[set[str]]:
        """For each message that the answer has to be made from: the tokens of which one must be in the context.

        A message that was deleted still takes its room in the budget, and an edited one the room of its longest wording: so
        what is owed never reaches back to what an earlier, complete reading was allowed to leave out.
        """
        before = sorted((s for s in self.threads[mention.said.thread] if s.ts < mention.said.ts), key=lambda s: s.ts)
        root, rest = before[:1], before[1:]
        left, window = BUDGET_CHARS - sum(s.chars + LINE_CHARS for s in root), list(root)
        for said in reversed(rest):
            left -= said.chars + LINE_CHARS
            if left < 0:
                break
            window.append(said)
        wanted = [said.acceptable(mention.asked, mention.answered) for said in window]
        return [{token for token in tokens if token} for tokens in wanted if None not in tokens]

    def outdated(self, mention: Mention) -> set[str]:
        """Wordings that were edited away or deleted before the question."""
        older = [[t for step, t in s.versions if step <= mention.asked] for s in self.threads[mention.said.thread]]
        return {token for tokens in older for token in tokens[:-1] if token}


# -- what reached the model ------------------------------------------------------------------------------------------------
Life = tuple[str, str]  # session id, mark of the summary that it begins with


@dataclass(slots=True)
class Prompt:
    """`born` is the life in which it was seen first, `sent_into` the one that the session was in until then."""

    n: int
    nonce: str
    mention: str
    born: Life
    sent_into: Life
    tokens: Counter[str]
    outside_summary: set[str]
    posted: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    n: int
    life: Life
    prompt: Prompt
    present: frozenset[str]


@dataclass(slots=True)
class _Session:
    life: Life
    held: set[str] = field(default_factory=set)
    current: Prompt | None = None


class Teller(Script):
    """The embedded model's script as an oracle: looks at every request, answers with a token, and mishaps as planned.

    `plans`: token of a mention → `compact_next` | `spend_budget` | `tool_loop` | `too_long`, for its first prompt only.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.plans: dict[str, str] = {}
        self.prompts: list[Prompt] = []
        self.answers: dict[str, Answer] = {}
        self.happened: Counter[str] = Counter()  # of the plans, those that were carried out
        self.unannounced = 0  # contexts that lost a prompt though no summary took their place
        self._ledger = ledger
        self._sessions: dict[str, _Session] = {}
        self._requests, self._marks = count(1), count(1)

    def take(self, asked: Asking) -> Step:
        if asked.is_compaction:
            mark = f"mark{next(self._marks):05d}"
            return Step(effect=Respond(text=f"<analysis>none</analysis><summary>{mark}: nothing was kept.</summary>"))
        n, text = next(self._requests), getattr(asked, "messages_text", "")
        session = self._look(asked.session_id, text)
        plan = self._prompt(session, n, asked.newest_user_text)
        assert session.current is not None
        if plan == "too_long":
            message = "prompt is too long: 250000 tokens > 200000 maximum"
            return Step(effect=Refuse(status=400, type="invalid_request_error", message=message))
        if plan == "tool_loop":
            return Step(effect=Respond(text="", tool=ToolCall("no_such_tool", {})), usage=COMPACTS_NEXT)
        token = self._ledger.token()
        self.answers[token] = Answer(n, session.life, session.current, frozenset(TOKEN.findall(text)))
        usage = PLANNED_USAGE.get(plan)
        return Step(effect=Respond(text=f"{token} is my answer."), usage=usage)

    def _look(self, session_id: str, text: str) -> _Session:
        life = (session_id, (MARK.findall(text) or [""])[-1])
        held = {nonce for nonce, _ in PROMPT.findall(text)}
        session = self._sessions.setdefault(session_id, _Session(life))
        self.unannounced += session.life == life and not session.held <= held
        session.held = held
        session.life, before = life, session.life
        self._before = before
        return session

    def _prompt(self, session: _Session, n: int, newest: str) -> str:
        """The plan, if this request brings a prompt that was not seen before, and its mention has not been asked before."""
        found = PROMPT.search(newest)
        if found is None or (session.current and session.current.nonce == found[1]):
            return ""
        (mention,) = TOKEN.findall(found[2])
        outside = set(TOKEN.findall(SUMMARY.sub("", newest)))
        session.current = Prompt(n, found[1], mention, session.life, self._before, Counter(TOKEN.findall(newest)), outside)
        self.prompts.append(session.current)
        plan = self.plans.pop(mention, "")
        compacted = session.current.born != session.current.sent_into
        if compacted and plan in PLANNED_USAGE:
            return ""  # an answer that may not be given out must not compact the next one as well
        if plan == "too_long" and sum(prompt.born == session.life for prompt in self.prompts) <= COMPACTABLE:
            return ""  # the CLI could only give up, and the bot would read the thread back in small: less is owed then
        self.happened.update([plan] if plan else [])
        return plan


# -- the verdict -----------------------------------------------------------------------------------------------------------
def judge(ledger: Ledger, teller: Teller, posts: Iterable[Posted]) -> Counter[str]:
    """Figures; all but `answers` have to be 0, and `unread` at most the number of readings that Slack refused."""
    figures: Counter[str] = Counter()
    by_message: dict[tuple[str, str], list[Posted]] = {}
    for post in posts:
        by_message.setdefault((post.thread[0], post.answers), []).append(post)
    for mention in ledger.mentions.values():
        own = by_message.pop((mention.said.thread[0], mention.said.ts), [])
        figures["answered not once"] += len(own) != 1
        for post in own:
            figures.update(_judge_answer(ledger, teller, mention, post))
    figures["answers to nothing"] = sum(map(len, by_message.values()))
    figures["out of order"] = _out_of_order(ledger, posts)
    figures["put in twice"] = len(put_in_twice(teller))
    figures["outdated"] = sum(len(p.outside_summary & ledger.outdated(ledger.mentions[p.mention])) for p in teller.prompts)
    figures["lost unannounced"] = teller.unannounced
    return figures


def _judge_answer(ledger: Ledger, teller: Teller, mention: Mention, post: Posted) -> Counter[str]:
    answer = next((teller.answers[token] for token in TOKEN.findall(post.text) if token in teller.answers), None)
    if answer is None:
        return Counter({"no answer of the model": 1})
    answer.prompt.posted = True
    wrong = int(post.thread != mention.said.thread or answer.prompt.mention != mention.token)
    if post.unread:
        return Counter({"answers": 1, "unread": 1, "wrong thread": wrong})
    missing = [tokens for tokens in ledger.owed(mention) if not tokens & answer.present]
    own = sum(bool(tokens & teller.answers.keys()) for tokens in missing)
    amnesic = {"amnesic answers": int(bool(missing)), "missing": len(missing) - own, "missing of its own": own}
    return Counter({"answers": 1, "wrong thread": wrong, **amnesic})


def _out_of_order(ledger: Ledger, posts: Iterable[Posted]) -> int:
    at = {(post.thread[0], post.answers): post.ts for post in posts}
    lanes: dict[str, list[str]] = {}
    for mention in sorted(ledger.mentions.values(), key=lambda m: m.asked):
        lanes.setdefault(mention.lane, []).append(at.get((mention.said.thread[0], mention.said.ts), ""))
    return sum(later < earlier for answered in lanes.values() for earlier, later in pairwise(answered))


def put_in_twice(teller: Teller) -> Mapping[tuple[Life, str], int]:
    """How often a token was put into one context life beyond the first time, by prompts and by the model's own answers.

    A prompt that was sent into a life which was compacted before the answer is of that older life, though it may survive in
    the new one; its answer was not posted, or it is amnesic and counted as that.
    """
    events: list[tuple[int, int, Life, Counter[str]]] = []
    for prompt in teller.prompts:
        if prompt.posted or prompt.born == prompt.sent_into:
            events.append((prompt.n, 0, prompt.born, prompt.tokens))
    events += [(answer.n, 1, answer.life, Counter([token])) for token, answer in teller.answers.items()]
    put: Counter[tuple[Life, str]] = Counter()
    for _, _, life, tokens in sorted(events, key=lambda event: event[:2]):
        put.update({(life, token): number for token, number in tokens.items()})
    return {key: number - 1 for key, number in put.items() if number > 1}
