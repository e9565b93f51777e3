"""The shape of insomnia.toml: every key with its default, its unit and what is allowed.

A field's `description` is the sentence that a wrong value is answered with ("allowed: ..."), so it says in words what
the constraint beside it says in code. Nothing here reads a file or the environment.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

TEMPLATES = ("dm", "private")  # routes that stand for many sessions: one for each direct message, each private channel
DEFAULT_ROUTE = "main"
DEFAULT_KEY_ENV = "ANTHROPIC_API_KEY"
EVERY_PUBLIC_CHANNEL = "*"
COMPACTION_NET = 50_000  # how far above rotate_at the CLI's own compaction waits
LEAST_AUTOCOMPACT = 100_000  # the CLI takes no smaller window

ADDRESS = r"https?://[^\s@]+"
LISTEN = r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})"
ADDRESS_IN_WORDS = "an address that begins with http:// or https:// and holds no password"
TRACE_ID = "{trace_id}"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")

Text = Annotated[str, Field(max_length=1_000)]
Texts = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(strict=False)]
BUDGET = "a number of US dollars a day, from 0 to 1000000; 0 means no limit"
ID_LIST = 'a list of Slack user ids, such as ["U012ABCDEF"]'


class Table(BaseModel):
    """One table of the file: read once, never changed, no key that we do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SlackTable(Table):
    users: Texts = Field(default=(), description=f"{ID_LIST}; [] means everyone in the workspace")
    bots: Texts = Field(default=(), description='a list of Slack bot or user ids, such as ["B012ABCDEF"]; [] means that no bot is answered')
    # Loopback: who is to be heard from outside comes through a proxy, which has the certificate.
    listen: Text = Field(default="127.0.0.1:3000", description='HOST:PORT, such as "127.0.0.1:3000" or "[::1]:3000"')

    footer: bool = Field(default=False, description="true or false; true puts a line under each answer: what was re-read, and the trace")

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        found = re.fullmatch(LISTEN, value)
        if not found or int(found["port"]) > 65_535:
            raise ValueError("not an address to listen at")
        return value

    @property
    def listen_host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def listen_port(self) -> int:
        return int(self.listen.rpartition(":")[2])


class ClaudeTable(Table):
    path: Text = Field(default="", description='the path of the claude program; "" means PATH, then the installed wheel')
    base_url: Text = Field(default="", pattern=rf"^({ADDRESS})?$", description=ADDRESS_IN_WORDS)
    embedded: bool = Field(default=False, description="true or false; true lets the embedded model answer real Slack, saying so")
    # CLI processes kept alive at once; one takes about 200 MiB.
    max_resident: int = Field(default=32, ge=1, le=1_000, description="a whole number from 1 to 1000")
    budget_usd_day: float = Field(default=0.0, ge=0, le=1_000_000, description=BUDGET)


class Account(Table):
    """One Claude credential, by the name of the variable that holds it."""

    key_env: Text = Field(
        default=DEFAULT_KEY_ENV, description="the name of an environment variable, such as ANTHROPIC_API_KEY (never the key itself)"
    )

    @field_validator("key_env")
    @classmethod
    def _a_name(cls, value: str) -> str:
        if not VARIABLE.fullmatch(value):
            raise ValueError("not a variable's name")
        return value

    @property
    def cli_variable(self) -> str:
        """The variable in which the CLI expects this credential; its name begins ours (ANTHROPIC_API_KEY_2)."""
        names = ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", DEFAULT_KEY_ENV)
        return next((name for name in names if self.key_env.startswith(name)), DEFAULT_KEY_ENV)


class Route(Table):
    """A role of the bot and the boundary of confidentiality: all its channels share one context."""

    channels: Texts = Field(
        default=(), description='a list of channel names or ids; ["*"] is every public channel that no other route names'
    )
    model: Text = Field(
        default="claude-opus-5-5", min_length=1, pattern=r"^\S+$", description="the name of a Claude model, such as claude-opus-5-5"
    )
    prompt_file: Text = Field(default="", description='the path of a text file, from the workspace; "" means the built-in prompt')
    tools: Texts = Field(default=(), description='a list of the CLI\'s tool names, such as ["Read", "Grep"]; [] means none')
    cwd: Text = Field(default="", description='the path of a directory, from the workspace; "" means an empty one of the bot\'s own')
    users: Texts = Field(default=(), description=f"{ID_LIST}; [] means those of [slack]")
    follow: Literal["mention", "thread"] = Field(default="mention", description='"mention" or "thread"')
    mixed: bool = Field(default=False, description="true or false; true lets private and public channels share this route's context")
    # Tokens. 150k: the largest thread section in Japanese is a tenth of it, and a reply after a pause does not cost dollars.
    rotate_at: int = Field(default=150_000, ge=20_000, description="a whole number of at least 20000")
    autocompact: int = Field(
        default=0,
        validate_default=True,
        description="0 (rotate_at + 50000) or a whole number of at least 100000",
    )
    prefer: Literal["rotate", "compaction"] = Field(default="rotate", description='"rotate" or "compaction"')
    turn_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="a number above 0, up to 86400: seconds that one answer may take"
    )

    budget_usd_day: float = Field(default=0.0, ge=0, le=1_000_000, description=BUDGET)

    @field_validator("channels")
    @classmethod
    def _without_hash(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(channel.removeprefix("#") for channel in value)

    @field_validator("autocompact")
    @classmethod
    def _in_force(cls, value: int, info: ValidationInfo) -> int:
        if value == 0:
            return max(LEAST_AUTOCOMPACT, int(info.data.get("rotate_at", 0)) + COMPACTION_NET)
        if value < LEAST_AUTOCOMPACT:
            raise ValueError("too small")
        return value


class TelemetryTable(Table):
    content: bool = Field(default=False, description="true or false; true puts (redacted) message text into spans and logs")
    viewer: Text = Field(
        default="",
        pattern=rf"^({ADDRESS})?$",
        description=f'{ADDRESS_IN_WORDS}, with {TRACE_ID} where the trace\'s id goes; "" means no link',
    )

    @field_validator("viewer")
    @classmethod
    def _a_template(cls, value: str) -> str:
        if value and TRACE_ID not in value:
            raise ValueError("no place for the trace's id")
        return value


class MemoryTable(Table):
    """`extract`: whether the bot reads by itself what was said; `consolidation`: whether it works that into memory. A person may always
    ask for either.
    """

    extract: bool = Field(default=True, description="true or false")
    consolidation: bool = Field(default=True, description="true or false")
    model: Text = Field(default="", description='the name of a Claude model; "" means that of the first route')


class File(Table):
    """insomnia.toml, whole."""

    language: Literal["auto", "en", "ja"] = Field(default="auto", description='"auto", "en" or "ja"')
    timezone: Text = Field(default="", description='an IANA name such as "Asia/Tokyo"; "" means the system\'s')
    slack: SlackTable = Field(default_factory=SlackTable, description="a table: [slack]")
    claude: ClaudeTable = Field(default_factory=ClaudeTable, description="a table: [claude]")
    accounts: dict[str, Account] = Field(default_factory=lambda: {DEFAULT_ROUTE: Account()}, description="tables: [accounts.NAME]")
    routes: dict[str, Route] = Field(default_factory=dict, description="tables: [routes.NAME]")
    telemetry: TelemetryTable = Field(default_factory=TelemetryTable, description="a table: [telemetry]")
    memory: MemoryTable = Field(default_factory=MemoryTable, description="a table: [memory]")

    @field_validator("timezone")
    @classmethod
    def _a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value or "UTC")
        except (KeyError, OSError) as error:  # unknown; or the name of a folder of zones
            raise ValueError("no such zone") from error
        return value
