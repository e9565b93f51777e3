"""The configuration in force: insomnia.toml and the environment, read once, frozen, and passed down.

What must stay true: nothing else reads settings from the environment (OTEL_* is OpenTelemetry's own, and read by
`telemetry`); a secret is in no `repr`, error, log or table; and every value knows where it came from (`origins`), so that
`insomnia config` never guesses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ValidationError

from bot.config_checks import check_environment, check_file, check_real_slack
from bot.config_errors import ConfigError, sentences
from bot.config_schema import (
    DEFAULT_ROUTE,
    EVERY_PUBLIC_CHANNEL,
    TEMPLATES,
    Account,
    ClaudeTable,
    File,
    MemoryTable,
    Route,
    SlackTable,
    TelemetryTable,
)

__all__ = ["FILE_NAME", "Account", "ConfigError", "Route", "Secrets", "Settings", "load_settings"]

FILE_NAME = "insomnia.toml"
OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
NOT_INHERITED = ("channels", "mixed")  # where a route listens is its own; the rest of main's settings is the templates' default


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values of the environment that nobody may see. `keys`: variable → value, of the accounts' variables that are set."""

    slack_bot_token: str = ""
    slack_app_token: str = ""
    slack_signing_secret: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Secrets(hidden)"


@dataclass(frozen=True, slots=True)
class Credential:
    """What one account gives to the CLI: `variable` is the CLI's name for it."""

    account: str
    variable: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`routes` holds every configured route and always both templates; the order is that of the file, templates last."""

    workspace: Path
    language: Literal["auto", "en", "ja"]
    timezone: str
    slack: SlackTable
    claude: ClaudeTable
    accounts: Mapping[str, Account]
    routes: Mapping[str, Route]
    telemetry: TelemetryTable
    memory: MemoryTable
    slack_api_url: str
    base_url: str
    otlp: bool
    secrets: Secrets = field(repr=False)
    origins: Mapping[str, str] = field(repr=False)

    @property
    def slack_kind(self) -> Literal["embedded", "socket", "http"]:
        """By the secrets that are set."""
        if not self.secrets.slack_bot_token:
            return "embedded"
        return "http" if self.secrets.slack_signing_secret else "socket"

    @property
    def model_kind(self) -> Literal["embedded", "anthropic"]:
        return "anthropic" if self.credentials or self.base_url else "embedded"

    @property
    def may_answer_slack(self) -> bool:
        """The embedded model is no language model: it answers real people only when it was told to."""
        return self.model_kind != "embedded" or self.claude.embedded

    @property
    def route_names(self) -> tuple[str, ...]:
        return tuple(self.routes)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """Of the accounts whose variable is set, in the order in which they are tried."""
        keys = self.secrets.keys
        return tuple(Credential(n, a.cli_variable, keys[a.key_env]) for n, a in self.accounts.items() if a.key_env in keys)

    @property
    def zone(self) -> ZoneInfo | None:
        """None: the system's."""
        return ZoneInfo(self.timezone) if self.timezone else None

    def path(self, written: str) -> Path:
        """A path of the file: from the workspace, `~` expanded."""
        return self.workspace / Path(written).expanduser()

    def users_of(self, route: str) -> tuple[str, ...]:
        """Who may talk to a route; empty means everyone."""
        return self.routes[route].users or self.slack.users

    @classmethod
    def for_demo(cls, workspace: Path, tables: Mapping[str, Any] | None = None) -> Self:
        """The embedded workspace and model, whatever file or environment there is; `tables` as they would stand in the file."""
        return cls.build(workspace, tables or {}, {})

    @classmethod
    def build(cls, workspace: Path, tables: Mapping[str, Any], environment: Mapping[str, str]) -> Self:
        """Raises ConfigError with everything that is wrong."""
        env = {name: value.strip() for name, value in environment.items() if value.strip()}
        file, routes = _validated(tables)
        errors = check_environment(env) + check_file(file, routes, workspace)
        settings = cls(
            workspace=workspace,
            language=file.language,
            timezone=file.timezone,
            slack=file.slack,
            claude=file.claude,
            accounts=MappingProxyType(file.accounts),
            routes=MappingProxyType(routes),
            telemetry=file.telemetry,
            memory=file.memory,
            slack_api_url=_with_slash(env.get("SLACK_API_URL", "")),
            base_url=file.claude.base_url or env.get("ANTHROPIC_BASE_URL", ""),
            otlp=any(name in env for name in OTLP_VARIABLES),
            secrets=_secrets(env, file.accounts),
            origins=MappingProxyType(_origins(file, routes, tables, env)),
        )
        if not errors and settings.slack_kind != "embedded":
            errors = check_real_slack(settings.accounts, settings.routes, settings.slack, may_answer=settings.may_answer_slack)
        if errors:
            raise ConfigError(errors)
        return settings


def load_settings(workspace: Path, environment: Mapping[str, str]) -> Settings:
    """Raises ConfigError."""
    return Settings.build(workspace, _read(workspace / FILE_NAME), environment)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError([f"{FILE_NAME} cannot be read: {error.strerror} ({path})"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{FILE_NAME} is not UTF-8 text: {path}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{FILE_NAME} is not TOML: {error}"]) from error


def _validated(tables: Mapping[str, Any]) -> tuple[File, dict[str, Route]]:
    try:
        file = File.model_validate(dict(tables))
    except ValidationError as error:
        raise ConfigError(sentences(error, File, FILE_NAME)) from None  # the cause would show the values
    written = dict(tables.get("routes", {}))
    routes = {name: route for name, route in file.routes.items() if name not in TEMPLATES}
    if not routes:
        routes[DEFAULT_ROUTE] = Route(channels=(EVERY_PUBLIC_CHANNEL,))
    elif DEFAULT_ROUTE in routes and "channels" not in written[DEFAULT_ROUTE]:
        routes[DEFAULT_ROUTE] = routes[DEFAULT_ROUTE].model_copy(update={"channels": (EVERY_PUBLIC_CHANNEL,)})
    inherited = {key: value for key, value in written.get(DEFAULT_ROUTE, {}).items() if key not in NOT_INHERITED}
    for name in TEMPLATES:
        routes[name] = Route.model_validate(inherited | written.get(name, {}))
    return file, routes


def _with_slash(url: str) -> str:
    return url and url.rstrip("/") + "/"  # slack_sdk joins method names to it


def _secrets(env: Mapping[str, str], accounts: Mapping[str, Account]) -> Secrets:
    return Secrets(
        slack_bot_token=env.get("SLACK_BOT_TOKEN", ""),
        slack_app_token=env.get("SLACK_APP_TOKEN", ""),
        slack_signing_secret=env.get("SLACK_SIGNING_SECRET", ""),
        keys=MappingProxyType({a.key_env: env[a.key_env] for a in accounts.values() if a.key_env in env}),
    )


def _origins(file: File, routes: Mapping[str, Route], tables: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """Key path → default | insomnia.toml | environment NAME | routes.main (what a template took over)."""
    origins = {}
    in_force: dict[str, BaseModel] = {"": file, "slack": file.slack, "claude": file.claude}
    in_force |= {f"accounts.{name}": account for name, account in file.accounts.items()}
    in_force |= {f"routes.{name}": route for name, route in routes.items()}
    in_force["telemetry"] = file.telemetry
    in_force["memory"] = file.memory
    for table, model in in_force.items():
        for key in type(model).model_fields:
            path = f"{table}.{key}".lstrip(".")
            if not isinstance(getattr(model, key), (BaseModel, dict)):
                origins[path] = _origin(tables, path)
    if not file.claude.base_url and "ANTHROPIC_BASE_URL" in env:
        origins["claude.base_url"] = "environment ANTHROPIC_BASE_URL"
    return origins


def _origin(tables: Mapping[str, Any], path: str) -> str:
    if _stands(tables, path):
        return FILE_NAME
    parts = path.split(".")
    if parts[0] == "routes" and parts[1] in TEMPLATES and parts[2] not in NOT_INHERITED:
        return f"routes.{DEFAULT_ROUTE}" if _stands(tables, f"routes.{DEFAULT_ROUTE}.{parts[2]}") else "default"
    return "default"


def _stands(tables: Mapping[str, Any], path: str) -> bool:
    place: Any = tables
    for part in path.split("."):
        if not isinstance(place, Mapping) or part not in place:
            return False
        place = place[part]
    return True
