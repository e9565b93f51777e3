"""What a doctor looks at, as data: no value of a secret is in it, only its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`check`: a stable word. `mend`: what to do, empty where nothing is to be done."""

    check: str
    level: Level
    found: str
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackSeen:
    """`error`: Slack's own word for why auth.test did not answer; "" it did. `app_error` of apps.connections.open, None: not asked.
    `scopes` None: not told. `channels`: names of those that it is a member of; `missing`: of configured ones it is not.
    `clock_off`: seconds that Slack's clock is ahead of ours.
    """

    error: str = ""
    is_bot: bool = True
    app_error: str | None = None
    scopes: frozenset[str] | None = None
    channels: int | None = None
    missing: Sequence[str] = ()
    clock_off: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSeen:
    """`status`: HTTP status of the endpoint's list of models with that account's credential; 0: no connection. `benched_until`: what the
    running bot says of it, where it rests.
    """

    account: str
    status: int
    benched_until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliSeen:
    """`error`: why there is none, with its mend."""

    path: str = ""
    version: str = ""
    source: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSeen:
    """`.insomnia`. `readable_by_others`, `unwritable`: paths below it. `free_bytes` of its disk. `database`: "" whole, else what is
    wrong. `lint_errors` (None: it could not be looked through), `put_aside` (ranges), `invalid` (staged files), `journal` ("" fine): of the
    memory.
    """

    exists: bool = True
    readable_by_others: Sequence[str] = ()
    unwritable: Sequence[str] = ()
    free_bytes: int = 1 << 40
    database: str = ""
    lint_errors: int | None = 0
    put_aside: int = 0
    invalid: int = 0
    journal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`tokens`: by variable, whether its shape is right. `settings_errors`: then nothing else could be looked at. `otlp`: None no
    endpoint is set, "" it answers, else why not. `elsewhere`: packages that resolve to another place than this program's. `outdated`:
    distributions outside of their bounds. `bot_up` None: it cannot be told.
    `connections`: on the app token, as Slack told the running bot; None: not told.
    """

    settings_errors: Sequence[str] = ()
    tokens: Mapping[str, bool] = field(default_factory=dict)
    slack_kind: str = "embedded"
    slack: SlackSeen | None = None
    model_kind: str = "embedded"
    models: Sequence[ModelSeen] = ()
    unset_accounts: Sequence[str] = ()
    cli: CliSeen = CliSeen()
    state: StateSeen = StateSeen()
    otlp: str | None = None
    elsewhere: Sequence[str] = ()
    outdated: Sequence[str] = ()
    mixed_routes: Sequence[str] = ()
    bot_up: bool | None = False
    connections: int | None = None
