"""`insomnia config`: every setting in force and where it came from. Of a secret only whether it is set."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import Any

from bot.cli.settings import read_settings
from bot.cli.terminal import one_line, table
from bot.config import Settings
from bot.workspace import Workspace

SET, NOT_SET = "set", "not set"
ASKS = {"embedded": "the embedded workspace", "socket": "real Slack (Socket Mode)", "http": "real Slack (HTTP)"}
ANSWERS = {"embedded": "the embedded model", "anthropic": "Claude"}


def config(args: argparse.Namespace) -> int:
    settings = read_settings(Workspace(args.workspace.resolve()), os.environ)
    rows = [*_settings(settings), *_environment(settings)]
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    print(table([("SETTING", "VALUE", "FROM"), *((row["key"], _in_words(row["value"]), row["origin"]) for row in rows)]))
    print(f"\nWith these settings {ASKS[settings.slack_kind]} asks, and {ANSWERS[settings.model_kind]} answers.")
    return 0


def _in_words(value: Any) -> str:
    """As it would stand in the file; words of ours bare."""
    return value if value in (SET, NOT_SET) else one_line(json.dumps(value, ensure_ascii=False))


def _settings(settings: Settings) -> Iterator[dict[str, Any]]:
    for path, origin in settings.origins.items():
        yield {"key": path, "value": _value(settings, path), "origin": origin}


def _value(settings: Settings, path: str) -> Any:
    if path == "claude.base_url":
        return settings.base_url
    place: Any = settings
    for part in path.split("."):
        place = place[part] if hasattr(place, "keys") else getattr(place, part)
    return place


def _environment(settings: Settings) -> Iterator[dict[str, Any]]:
    of = settings.secrets
    secrets = {
        "SLACK_BOT_TOKEN": of.slack_bot_token,
        "SLACK_APP_TOKEN": of.slack_app_token,
        "SLACK_SIGNING_SECRET": of.slack_signing_secret,
    }
    secrets |= {account.key_env: settings.secrets.keys.get(account.key_env, "") for account in settings.accounts.values()}
    for name, value in secrets.items():
        yield {"key": name, "value": SET if value else NOT_SET, "origin": "environment"}
    yield {"key": "SLACK_API_URL", "value": settings.slack_api_url or NOT_SET, "origin": "environment"}
    yield {"key": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": SET if settings.otlp else NOT_SET, "origin": "environment"}
