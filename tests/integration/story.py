"""The bot as a real process on the real CLI, between an embedded workspace and model that live in the test's own process.

So a test scripts faults and looks at what reached the model endpoint without any door of its own. What must stay true: the
bot is started as a service manager would start it (`insomnia run`, real tokens by form, nothing else in its environment),
every process that was started here is gone at the end, and nothing waits without a limit.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.local.model import EmbeddedModel
from bot.local.model_record import ModelRequest
from bot.local.slack import EmbeddedSlack
from bot.local.slack_threads import answer_parts, complete
from telemetry.receiver import Receiver

ROOT = Path(__file__).parents[2]
BOT_TOKEN = "xoxb-1234-bot-token-of-the-story"
APP_TOKEN = "xapp-1234-app-token-of-the-story"
SIGNING_SECRET = "5169a6e5b6d04d3e8a7f1c2b3d4e5f60"
MODEL_KEY = "sk-ant-key-of-the-story"
UP_SECONDS = 30.0
ANSWER_SECONDS = 60.0
EXIT_SECONDS = 40.0  # draining (20 s) and telemetry (3 s) have limits of their own; this one only ends a hung test
MONTH_SECONDS = 30 * 86_400
COMPACTING = """
[routes.main]
rotate_at = 150000
autocompact = 100000
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A thread by channel name and root ts."""

    channel: str
    ts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`text` of all parts; `gate`, `outcome` and `trace_id` as the reply's metadata tell them."""

    asked: str
    ts: str
    thread_ts: str | None
    text: str
    outcome: str
    gate: dict[str, Any] | None
    trace_id: str

    @property
    def decided(self) -> tuple[str, str, str | None]:
        assert self.gate is not None, f"no gate in the metadata of {self.text!r}"
        return self.gate["decision"], self.gate["reason"], self.gate["injection"]


@dataclass(slots=True)
class BotProcess:
    process: asyncio.subprocess.Process
    stderr: Path
    said: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        """The sessions' CLI processes, and nothing else; those of memory workers come and go by themselves."""
        return [int(pid) for pid in self._processes() if not _is_worker(pid)]

    def workers(self) -> list[int]:
        return [int(pid) for pid in self._processes() if _is_worker(pid)]

    def _processes(self) -> list[str]:
        found: list[str] = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile, and had none
                found += (task / "children").read_text().split()
        return found


class Story:
    """One workspace. `slack`, `model` and `collector` outlive the bot, which may be started, stopped and killed in between."""

    def __init__(
        self,
        folder: Path,
        *,
        slack: EmbeddedSlack,
        model: EmbeddedModel,
        collector: Receiver,
        config: str,
        environment: Mapping[str, str],
    ) -> None:
        self.folder, self.slack, self.model, self.collector = folder, slack, model, collector
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "insomnia.toml").write_text(config, encoding="utf-8")
        self._more = environment
        self.program = ("-m", "bot")
        self.request_url = ""
        self._bots: list[BotProcess] = []
        self._threads = 0

    @property
    def bot(self) -> BotProcess:
        return self._bots[-1]

    @property
    def errors(self) -> str:
        """What all processes of the bot wrote to stderr."""
        return "".join(bot.stderr.read_text(encoding="utf-8") for bot in self._bots)

    @property
    def outputs(self) -> str:
        return "".join(line for bot in self._bots for line in bot.said)

    async def listen_over_http(self) -> None:
        """Before the start: the bot is told to, and Slack is given the request URL once it is up (`verify`)."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.request_url = f"http://127.0.0.1:{port}/slack/events"
        with (self.workspace / "insomnia.toml").open("a", encoding="utf-8") as config:
            config.write(f'[slack]\nlisten = "127.0.0.1:{port}"\n')

    async def verify(self) -> bool:
        return await self.slack.deliver_to(self.request_url, SIGNING_SECRET)

    # -- the bot -------------------------------------------------------------------------------------------------------
    async def start(self) -> BotProcess:
        stderr = self.folder / f"stderr-{len(self._bots)}.txt"
        with stderr.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *self.program, "run", "--workspace", str(self.workspace)),
                cwd=ROOT,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        bot = BotProcess(process, stderr)
        self._bots.append(bot)
        await self._up(bot)
        return bot

    async def _up(self, bot: BotProcess) -> None:
        assert bot.process.stdout is not None
        async with asyncio.timeout(UP_SECONDS):
            while not (bot.said and bot.said[-1].startswith("insomnia is up")):
                line = await bot.process.stdout.readline()
                assert line, f"the bot ended before it was up: {self.errors}"
                bot.said.append(line.decode())

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return kept | {
            "HOME": str(self.folder),
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            **({"SLACK_SIGNING_SECRET": SIGNING_SECRET} if self.request_url else {"SLACK_APP_TOKEN": APP_TOKEN}),
            "SLACK_API_URL": self.slack.url,
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": MODEL_KEY,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "100",  # milliseconds: a test may wait for a span
            **self._more,
        }

    async def stop(self) -> float:
        """SIGTERM; returns the seconds until it was gone. Everything that it had to tell has arrived then."""
        began = time.monotonic()
        self.bot.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(EXIT_SECONDS):
            out, _ = await self.bot.process.communicate()
        self.bot.said.append(out.decode())
        assert self.bot.process.returncode == 0, self.errors
        return time.monotonic() - began

    async def kill_session(self) -> None:
        """SIGKILL to the one CLI process; returns when the bot has noticed it."""
        (child,) = self.bot.children()
        os.kill(child, signal.SIGKILL)
        await self.until(lambda: child not in self.bot.children())

    def command(self, text: str) -> None:
        """A line on the CLI's own stdin that the bot did not write: a command of the CLI runs."""
        (child,) = self.bot.children()
        line = {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}
        with Path(f"/proc/{child}/fd/0").open("w", encoding="utf-8") as stdin:
            stdin.write(json.dumps(line) + "\n")

    async def kill(self) -> None:
        """SIGKILL to the bot alone: its CLI process has to end by itself, or be ended by the next bot."""
        self.bot.process.kill()
        await self.bot.process.wait()

    async def close(self) -> None:
        for bot in self._bots:
            if bot.process.returncode is None:
                bot.process.kill()
                await bot.process.wait()

    # -- people --------------------------------------------------------------------------------------------------------
    def old_thread(self, *texts: str, channel: str = "general") -> Place:
        """Said a month ago, before the bot was there to hear it."""
        self._threads += 1
        began = int(time.time()) - MONTH_SECONDS + 3_600 * self._threads
        root = self.slack.say(channel, "mika", texts[0], deliver=False, ts=f"{began}.000100")["ts"]
        for number, text in enumerate(texts[1:], start=1):
            self.slack.say(channel, ("tom", "lena")[number % 2], text, thread_ts=root, deliver=False, ts=f"{began + 60 * number}.000100")
        return Place(channel, root)

    async def ask(self, place: Place, text: str, *, user: str = "tom") -> Answer:
        said = self.slack.say(place.channel, user, text, thread_ts=place.ts, mention=True)
        return await self.answer_to(place.channel, said["ts"])

    def id_of(self, channel: str, ts: str) -> str:
        """As the metadata of its answer names a message."""
        return f"{self.slack.team_id}/{self.slack.workspace.conversation(channel).id}/{ts}"

    async def answer_to(self, channel: str, ts: str) -> Answer:
        """The bot's answer to one message, whole."""
        asked, messages = self.id_of(channel, ts), self.slack.workspace.store.messages
        place = self.slack.workspace.conversation(channel).id
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            parts = answer_parts(messages(place, after=ts), message=asked)
            if complete(parts):
                return _answer(asked, parts)
            assert await self.slack.workspace.changed.next(deadline - time.monotonic()), f"no answer to {asked}: {self.errors}"

    @staticmethod
    async def until(happened: Callable[[], bool]) -> None:
        """For what nobody announces."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not happened():
                await asyncio.sleep(0.01)

    # -- what was seen -------------------------------------------------------------------------------------------------
    def reads(self) -> int:
        return sum(call.method == "conversations.replies" for call in self.slack.calls)

    def prompts(self, after: int = 0) -> list[ModelRequest]:
        """Requests of sessions that were asked after the request number `after`, compactions left out."""
        found = (request for request in self.model.requests if request.n > after and not request.is_memory)
        return [request for request in found if not request.is_compaction]

    def last_request(self) -> int:
        return self.model.requests[-1].n if self.model.requests else 0

    def ended(self) -> list[tuple[str, str]]:
        """(outcome, trace id) of each message whose end has been told: nothing of it is left to do then."""
        return [(s["attributes"]["insomnia.reply.outcome"], s["trace_id"]) for s in self.collector.spans if s["name"] == "process slack"]

    def resets(self) -> list[tuple[str, str]]:
        """(cause, how) of each `session.reset` span that has arrived."""
        told = [span["attributes"] for span in self.collector.spans if span["name"] == "session.reset"]
        return [(about["insomnia.reset.cause"], about["insomnia.reset.how"]) for about in told]

    def counted(self, name: str, *labels: str) -> dict[tuple[str, ...], int]:
        """What a counter of the newest process says, by these labels, summed over the others; zeros left out."""
        found: dict[tuple[str, ...], int] = {}
        for point in self.collector.metrics(name):
            key = tuple(point["attributes"][label] for label in labels)
            found[key] = found.get(key, 0) + point["value"]
        return {key: value for key, value in found.items() if value}


@asynccontextmanager
async def story(
    folder: Path, *, config: str = COMPACTING, environment: Mapping[str, str] | None = None, opening: bool = True
) -> AsyncIterator[Story]:
    """Servers up, the bot not yet. `environment`: of the bot, beside what every bot of a story has."""
    (folder / "slack").mkdir()
    with Receiver() as collector:
        async with (
            EmbeddedSlack(folder / "slack", control_token="of-the-story", opening=opening) as slack,
            EmbeddedModel(control_token="of-the-story") as model,
        ):
            told = Story(folder, slack=slack, model=model, collector=collector, config=config, environment=environment or {})
            try:
                yield told
            finally:
                await told.close()


def _is_worker(pid: str) -> bool:
    try:
        return b"--no-session-persistence" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # gone meanwhile


def _answer(asked: str, parts: Sequence[dict[str, Any]]) -> Answer:
    told = parts[0]["metadata"]["event_payload"]
    return Answer(
        asked=asked,
        ts=parts[0]["ts"],
        thread_ts=parts[0].get("thread_ts"),
        text="".join(part["text"] for part in parts),
        outcome=told["outcome"],
        gate=told["gate"],
        trace_id=told["trace_id"],
    )
