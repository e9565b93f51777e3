"""The ports of the bot's core, faked once for all unit tests: a clock, Slack, the Claude CLI.

They keep the promises of `bot/ports.py`, do what a test scripts, and remember what was asked of
them. Nothing here sleeps, opens a socket or starts a process: time moves when a test moves it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.explain.explainer import Why
from bot.messages import Channel, ChannelKind
from bot.ports import (
    Answer,
    CallEnded,
    CallStarted,
    Cleared,
    Compacted,
    Launch,
    Page,
    Posted,
    SessionDied,
    SlackError,
    StreamEvent,
    TurnDeadline,
    Usage,
)
from bot.slack_text import Me
from bot.words import Language
from telemetry.events import Thread

EPOCH = 1_700_000_000.0
ME = Me("U0BOT", "B0BOT")
MODEL = "model-1"
ROUNDS = 120  # of the event loop: more than any chain of steps in these tests takes
JUMPS = 60  # of the clock; a flow that sleeps more often than this does not end


async def settled() -> None:
    """Runs whatever can run without time passing."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


class FakeClock:
    """Stands still until it is moved; whoever sleeps then long enough wakes up."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.set_off = 0.0  # how far somebody has set the wall clock from where it was
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return EPOCH + self.elapsed + self.set_off

    def monotonic(self) -> float:
        return self.elapsed

    def set_by(self, seconds: float) -> None:
        """The wall clock is set; whoever sleeps does not notice."""
        self.set_off += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.elapsed + seconds, woken))
        await woken

    def advance(self, seconds: float) -> None:
        self.elapsed += seconds
        for when, woken in [s for s in self._sleepers if s[0] <= self.elapsed]:
            if not woken.done():
                woken.set_result(None)
            self._sleepers.remove((when, woken))

    def next_wake(self) -> float | None:
        waiting = [when for when, woken in self._sleepers if not woken.done()]
        return min(waiting, default=None)

    async def run(self, work: Awaitable[Any]) -> Any:
        """Awaits it, and moves on to the next sleeper's time whenever nothing else can run."""
        task = asyncio.ensure_future(work)  # noqa: TID251 - awaited below, whatever happens
        for _ in range(JUMPS):
            await settled()
            if task.done() or (wake := self.next_wake()) is None:
                break
            self.advance(wake - self.elapsed)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise AssertionError("it waits for something that no clock brings about")
        return task.result()


# -- Slack -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SlackCall:
    method: str
    channel: str
    thread_ts: str = ""
    text: str = ""
    metadata: Mapping[str, Any] | None = None
    user: str = ""


Fault = SlackError | asyncio.Event | Callable[[], None]


class FakeSlack:
    """One workspace. `faults[method]` comes instead of the next calls: an error, something to wait for, or something to do."""

    def __init__(self, clock: FakeClock, *, team: str = "T1") -> None:
        self.clock, self.team = clock, team
        self.channels = {c.id: c for c in CHANNELS}
        self.names = {"U1": "Ann", "U2": "Bob", "U9": "Mallory", ME.user_id: "Insomnia"}
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}  # (channel, ts)
        self.reactions: set[tuple[str, str, str]] = set()  # (channel, ts, name): the bot's
        self.faults: dict[str, deque[Fault | None]] = {}
        self.calls: list[SlackCall] = []
        self.page_size = 1_000
        self.limit: int | None = None  # characters of one post that it takes

    # -- what people do, without events --------------------------------------------------------------------------------
    def put(self, channel: str, text: str, *, user: str = "U1", thread_ts: str = "", **more: Any) -> dict[str, Any]:
        self.clock.advance(1.0)
        ts = f"{self.clock.now() - self.clock.set_off:.6f}"  # nobody sets Slack's clock
        message = {"type": "message", "ts": ts, "user": user, "text": text, **({"thread_ts": thread_ts} if thread_ts else {}), **more}
        self.messages[channel, ts] = message
        return message

    def erase(self, channel: str, ts: str) -> None:
        del self.messages[channel, ts]

    def fail(self, method: str, *faults: Fault | None) -> None:
        """None: that call works."""
        self.faults.setdefault(method, deque()).extend(faults)

    def thread(self, channel: str, ts: str) -> list[dict[str, Any]]:
        return [m for (c, _), m in sorted(self.messages.items()) if c == channel and ts in (m["ts"], m.get("thread_ts"))]

    def count(self, method: str) -> int:
        return sum(call.method == method for call in self.calls)

    def of(self, method: str) -> list[SlackCall]:
        return [call for call in self.calls if call.method == method]

    async def _called(self, call: SlackCall) -> None:
        self.calls.append(call)
        waiting = self.faults.get(call.method)
        match waiting.popleft() if waiting else None:
            case SlackError() as error:
                raise error
            case asyncio.Event() as event:
                await event.wait()
            case None:
                pass
            case act:
                act()

    # -- SlackPort -----------------------------------------------------------------------------------------------------
    async def replies(
        self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000, oldest: str = "", metadata: bool = False
    ) -> Page:
        await self._called(SlackCall("looks" if metadata else "replies", channel, thread_ts))
        there = self.thread(channel, thread_ts)
        if not there or (channel, thread_ts) not in self.messages:
            raise SlackError("conversations.replies", "thread_not_found")
        there = [m for m in there if m["ts"] > oldest or m["ts"] == thread_ts]
        if not metadata:
            there = [{k: v for k, v in m.items() if k != "metadata"} for m in there]
        start = int(cursor or 0)
        end = start + min(self.page_size, limit)
        return Page(there[start:end], str(end) if end < len(there) else "")

    async def history(self, channel: str, *, limit: int) -> Page:
        await self._called(SlackCall("history", channel))
        roots = [m for (c, _), m in self.messages.items() if c == channel and m.get("thread_ts", m["ts"]) == m["ts"]]
        return Page([self._counted(channel, m) for m in sorted(roots, key=lambda m: str(m["ts"]), reverse=True)[:limit]])

    def _counted(self, channel: str, root: dict[str, Any]) -> dict[str, Any]:
        below = [m["ts"] for m in self.thread(channel, root["ts"]) if m is not root]
        return {**root, "reply_count": len(below), "latest_reply": max(below)} if below else root

    async def post(self, channel: str, text: str, *, thread_ts: str, metadata: Mapping[str, Any] | None = None) -> Posted:
        await self._called(SlackCall("post", channel, thread_ts, text, metadata))
        if self.limit is not None and len(text) > self.limit:
            raise SlackError("chat.postMessage", "msg_too_long")
        inside = thread_ts if (channel, thread_ts) in self.messages else ""
        message = self.put(channel, text, user=ME.user_id, thread_ts=inside, bot_id=ME.bot_id, metadata=metadata)
        return Posted(message["ts"], inside or None)

    async def whisper(self, channel: str, user: str, text: str, *, thread_ts: str) -> None:
        await self._called(SlackCall("whisper", channel, thread_ts, text, user=user))

    async def delete(self, channel: str, ts: str) -> None:
        await self._called(SlackCall("delete", channel, ts))
        self.messages.pop((channel, ts), None)

    async def react(self, channel: str, ts: str, name: str, *, on: bool) -> None:
        await self._called(SlackCall("react" if on else "unreact", channel, text=name, thread_ts=ts))
        (self.reactions.add if on else self.reactions.discard)((channel, ts, name))

    async def set_working(self, channel: str, thread_ts: str, *, on: bool) -> None:
        await self._called(SlackCall("set_working", channel, thread_ts, "processing" if on else "active"))

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        await self._called(SlackCall("set_status", channel, thread_ts, status))

    async def user_name(self, user: str) -> str:
        return self.names.get(user, user)

    async def channel(self, channel: str) -> Channel:
        await self._called(SlackCall("channel", channel))
        if channel not in self.channels:
            raise SlackError("conversations.info", "channel_not_found")
        return self.channels[channel]


class FakeExplains:
    """Knows why of the answers and threads that a test put into `known`, by their ts; and in which language it was asked.

    `asked_by`: the messages that asked. `broken`: what it raises instead.
    """

    def __init__(self) -> None:
        self.known: dict[str, Why] = {}
        self.languages: list[Language] = []
        self.asked_by: list[str] = []
        self.broken: Exception | None = None

    async def sentence_for(self, thread: Thread, language: Language, *, message_ts: str = "", besides: str = "") -> Why:
        self.languages.append(language)
        self.asked_by.append(besides)
        if self.broken:
            raise self.broken
        return self.known.get(message_ts or thread.ts, Why("I have no record of that answer any more.", thread.ts))


GENERAL, CODE, SECRET, DIRECT, UNROUTED = "C1", "C2", "C3", "D1", "C4"
CHANNELS = (
    Channel(id=GENERAL, name="general", kind=ChannelKind.PUBLIC),
    Channel(id=CODE, name="code", kind=ChannelKind.PUBLIC),
    Channel(id=SECRET, name="secret", kind=ChannelKind.PRIVATE),
    Channel(id=DIRECT, name="", kind=ChannelKind.DIRECT),
    Channel(id=UNROUTED, name="unrouted", kind=ChannelKind.PUBLIC),
)


# -- the Claude CLI ----------------------------------------------------------------------------------------------------
def called(occupancy: int = 1_000, *, first_token_at: float | None = None, model: str = MODEL) -> CallEnded:
    """A model call that ended well; nearly all of its prompt came from the cache, as it does."""
    usage = Usage(input=10, output=5, cache_read=occupancy - 10)
    return CallEnded(EPOCH, "msg_1", model, usage, "end_turn", first_token_at)


def compacted(trigger: str = "auto", *, pre: int | None = 90_000, post: int | None = 2_000) -> Compacted:
    return Compacted(EPOCH, trigger, pre, post, 1.5)


def failed(error: str, status: int | None = None) -> Answer:
    return Answer(text="API Error", error=error, status=status)


Step = StreamEvent | Answer | Exception | asyncio.Event | Callable[[], None]


class FakeClaude:
    """Starts fake processes. `turn(...)` scripts the turns to come, in order; with none left, a turn answers "answer N"."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.processes: list[FakeProcess] = []
        self.prompts: list[str] = []
        self.compactions: deque[Sequence[Step]] = deque()
        self.start_faults: deque[BaseException | None] = deque()
        self.start_gate: asyncio.Event | None = None  # a start waits for it
        self._turns: deque[Sequence[Step]] = deque()

    def turn(self, *steps: Step) -> None:
        self._turns.append(steps)

    def no_more_turns(self) -> None:
        """What was scripted and not asked for is not wanted any more."""
        self._turns.clear()

    @property
    def unused(self) -> int:
        return len(self._turns) + len(self.compactions) + len(self.start_faults)

    @property
    def process(self) -> FakeProcess:
        return self.processes[-1]

    async def start(self, launch: Launch, *, on_exit: Callable[[int | None], None], on_stray: Callable[[StreamEvent], None]) -> FakeProcess:
        self.launches.append(launch)
        if self.start_gate is not None:
            await self.start_gate.wait()
        fault = self.start_faults.popleft() if self.start_faults else None
        if fault is not None:
            raise fault
        process = FakeProcess(self, launch, pid=100 + len(self.launches), on_exit=on_exit, on_stray=on_stray)
        self.processes.append(process)
        return process

    def steps(self) -> Sequence[Step]:
        steps = self._turns.popleft() if self._turns else ()
        if not any(isinstance(step, Answer | Exception) for step in steps):
            steps = (*steps, CallStarted(EPOCH), called(), Answer(text=f"answer {len(self.prompts)}"))
        return steps


class FakeProcess:
    def __init__(
        self,
        claude: FakeClaude,
        launch: Launch,
        *,
        pid: int,
        on_exit: Callable[[int | None], None],
        on_stray: Callable[[StreamEvent], None],
    ) -> None:
        self._claude, self.launch, self.pid, self._on_exit, self.stray = claude, launch, pid, on_exit, on_stray
        self.alive = True
        self.closed = False
        self._in_flight = False

    async def send(self, prompt: str, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        self._claude.prompts.append(prompt)
        return await self._turn(self._claude.steps(), on_event)

    async def compact(self, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        steps = self._claude.compactions.popleft() if self._claude.compactions else (compacted("manual"),)
        return await self._turn((*steps, Answer(text="")), on_event)

    async def _turn(self, steps: Sequence[Step], on_event: Callable[[StreamEvent], None]) -> Answer:
        assert not self._in_flight, "a second turn would be merged with the one in flight"
        if not self.alive:
            raise SessionDied(None)
        self._in_flight = True
        try:
            for step in steps:
                match step:
                    case Answer():
                        return step
                    case SessionDied():
                        self.alive = False
                        raise step
                    case Exception():
                        raise step
                    case asyncio.Event():
                        await step.wait()
                    case _ if callable(step):
                        step()
                    case _:
                        on_event(step)
            raise AssertionError("a turn ends with an answer or an error")
        finally:
            self._in_flight = False

    def die(self, code: int = -9, *, noticed: bool = True) -> None:
        """Between turns. Not `noticed`: in the moment in which its exit tells nobody anything."""
        self.alive = False
        if noticed:
            self._on_exit(code)

    async def close(self) -> None:
        self.alive, self.closed = False, True


HANGS = TurnDeadline(600.0, killed=False)
CLEARED = Cleared(EPOCH)
