"""What the core of the bot asks of the world. Adapters implement these; unit tests put fakes here and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.messages import Channel


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SlackError(Exception):
    """Slack said no. `code` is Slack's own word (`missing_scope`, `ratelimited`, `timeout`, `internal_error`, `http_502`, ...)."""

    def __init__(self, method: str, code: str, *, retry_after: float = 0.0, needed: str = "") -> None:
        super().__init__(f"{method}: {code}")
        self.method, self.code, self.retry_after, self.needed = method, code, retry_after, needed


@dataclass(frozen=True, slots=True)
class Posted:
    """`thread_ts` is what Slack says it became: None when the message stands in the channel itself."""

    ts: str
    thread_ts: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of `conversations.replies`; the messages are Slack's own objects, oldest first."""

    messages: Sequence[Mapping[str, Any]]
    next_cursor: str = ""


class SlackPort(Protocol):
    """Each call is one Web API call; all raise SlackError, never a library's own exception."""

    async def replies(
        self, channel: str, thread_ts: str, *, cursor: str = "", limit: int = 1000, oldest: str = "", metadata: bool = False
    ) -> Page:
        """`oldest`: only what came after that ts (Slack may add the root). `metadata`: with the metadata of each message."""

    async def history(self, channel: str, *, limit: int) -> Page:
        """The newest messages of a channel, newest first, replies left out."""

    async def post(self, channel: str, text: str, *, thread_ts: str, metadata: Mapping[str, Any] | None = None) -> Posted: ...

    async def whisper(self, channel: str, user: str, text: str, *, thread_ts: str) -> None:
        """Shown to that one person, and kept nowhere."""

    async def delete(self, channel: str, ts: str) -> None: ...

    async def react(self, channel: str, ts: str, name: str, *, on: bool) -> None:
        """The bot's own reaction on a message, put there or taken away. Does nothing where the app may not."""

    async def set_working(self, channel: str, thread_ts: str, *, on: bool) -> None:
        """Shows Slack's own stop button, where Slack and the app's scopes have it; does nothing elsewhere."""

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        """An empty status clears it."""

    async def user_name(self, user: str) -> str:
        """The display name; the id itself where Slack knows none. Resolved once, then cached."""

    async def channel(self, channel: str) -> Channel: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call. `input` excludes cached ones, as the API counts it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def occupancy(self) -> int:
        """What of the context window this call's prompt filled."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The CLI asks the model."""

    at: float


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The model answered. `first_token_at` is None when nothing was streamed. Times: `Clock.now` seconds."""

    at: float
    id: str
    model: str
    usage: Usage
    stop_reason: str
    first_token_at: float | None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    at: float
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    at: float
    id: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction boundary. `trigger` = auto | manual. Numbers the CLI did not tell are None."""

    at: float
    trigger: str
    pre_tokens: int | None
    post_tokens: int | None
    duration_seconds: float | None


@dataclass(frozen=True, slots=True)
class Compacting:
    """The CLI began to compact; a boundary, a failure, or nothing at all may follow."""

    at: float


@dataclass(frozen=True, slots=True)
class CompactionGaveUp:
    at: float


@dataclass(frozen=True, slots=True)
class Cleared:
    at: float


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Old tool results were left out of the context: it is smaller, and holds every thread that it held."""

    at: float


@dataclass(frozen=True, slots=True)
class LimitTold:
    """The provider told how the account stands. `near`: not far from its usage limit, and not beyond it."""

    at: float
    near: bool


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The turn was given up from our side. What it cost all the same, by model, in USD."""

    at: float
    cost_by_model: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ApiRetry:
    at: float
    attempt: int
    error: str


StreamEvent = (
    CallStarted
    | CallEnded
    | ToolStarted
    | ToolEnded
    | Compacting
    | Compacted
    | CompactionGaveUp
    | Cleared
    | Trimmed
    | LimitTold
    | Interrupted
    | ApiRetry
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One turn's end. `error` is None when `text` may be posted; else one of the CLI's classes (`ModelFailure`).

    `resets_at`: when the usage limit that was reached ends, in seconds since the epoch, where that was told.
    """

    text: str
    error: str | None = None
    status: int | None = None
    resets_at: float | None = None
    cost_usd: float = 0.0
    cost_by_model: Mapping[str, float] = field(default_factory=dict)


class StartFailed(Exception):
    """The process did not come up. `dead_resume`: the id it was to resume is unknown to the CLI."""

    def __init__(self, why: str, *, dead_resume: bool = False) -> None:
        super().__init__(why)
        self.why, self.dead_resume = why, dead_resume


class SessionDied(Exception):
    """The process ended inside the turn; `code` is its exit code."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"exit {code}")
        self.code = code


class TurnDeadline(Exception):
    """The turn took too long; it was interrupted, and `killed` if it did not listen."""

    def __init__(self, seconds: float, *, killed: bool) -> None:
        super().__init__(f"no answer within {seconds:.0f} s")
        self.seconds, self.killed = seconds, killed


class ClaudeSession(Protocol):
    """One CLI process. One turn at a time; `on_event` is called in the order of the stream, in the turn's context."""

    @property
    def alive(self) -> bool: ...

    @property
    def pid(self) -> int: ...

    async def send(self, prompt: str, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        """Raises SessionDied, TurnDeadline."""

    async def compact(self, *, on_event: Callable[[StreamEvent], None], seconds: float) -> Answer:
        """The bot's own `/compact`, between turns."""

    async def interrupt(self) -> None:
        """Ends the turn under way early; `send` returns what came of it. Raises SessionDied."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`failed`: the model is told that it is an error, and may try again."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of our own process. `schema`: JSON Schema of its arguments. `call` gets the arguments and the id of the tool use."""

    name: str
    description: str
    schema: Mapping[str, Any]
    call: Callable[[Mapping[str, Any], str], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a CLI process is started with. `resume`: carry `session_id` on; else begin it. `credential`: (variable, value).

    `one_shot`: for a single turn that nothing is kept of; its lock and prompt lie apart from those of the sessions.
    `max_calls`: of the model in one turn, 0 for no limit.
    """

    key: str
    session_id: str
    resume: bool
    model: str
    autocompact: int
    system_prompt: str
    tools: Sequence[str] = ()
    own_tools: Sequence[Tool] = ()
    cwd: str = ""
    credential: tuple[str, str] | None = None
    one_shot: bool = False
    max_calls: int = 0


class ClaudeStarter(Protocol):
    async def start(
        self, launch: Launch, *, on_exit: Callable[[int | None], None], on_stray: Callable[[StreamEvent], None]
    ) -> ClaudeSession:
        """Raises StartFailed. `on_exit` is called once when the process ends by itself; `on_stray` for events between turns."""
