"""Asks Slack what it thinks of our tokens: three calls that change nothing. Tokens go into the calls and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import WebClient

from bot.doctor.seen import SlackSeen
from bot.slack import LOGGER, PUBLIC_API, is_loopback

SECONDS = 10
PAGES = 20  # of 200 channels


class _Answer(Protocol):
    @property
    def data(self) -> Any: ...

    @property
    def headers(self) -> Any: ...


def probe(*, bot_token: str, app_token: str, api_url: str, named: Sequence[str], now: Callable[[], float]) -> SlackSeen:
    """`app_token` \"\": no socket is to be opened. `named`: channels that routes name."""
    client = WebClient(token=bot_token, base_url=api_url or PUBLIC_API, timeout=SECONDS, retry_handlers=[], logger=LOGGER)
    if is_loopback(client.base_url):
        client.proxy = None
    error, answer = _asked(lambda: client.api_call("auth.test"))
    if answer is None:
        return SlackSeen(error=error)
    headers = {str(key).lower(): value for key, value in dict(answer.headers or {}).items()}
    app_error = None
    if app_token:
        app_error = _asked(lambda: client.api_call("apps.connections.open", headers={"Authorization": f"Bearer {app_token}"}))[0]
    channels = _channels(client)
    return SlackSeen(
        is_bot=bool(answer.data.get("bot_id")),
        app_error=app_error,
        scopes=_scopes(headers),
        channels=None if channels is None else len(channels),
        missing=[] if channels is None else [name for name in named if not _is_in(name, channels)],
        clock_off=_clock_off(headers, now()),
    )


def _asked(call: Callable[[], _Answer]) -> tuple[str, _Answer | None]:
    """Slack's word for what is wrong, and no answer; or \"\" and the answer."""
    try:
        return "", call()
    except SlackApiError as error:
        data = error.response.data if isinstance(error.response.data, dict) else {}
        return str(data.get("error") or f"http_{error.response.status_code}"), None
    except TimeoutError:
        return "timeout", None
    except (OSError, SlackClientError, ValueError):
        return "connection", None


def _channels(client: WebClient) -> list[Mapping[str, Any]] | None:
    found: list[Mapping[str, Any]] = []
    cursor = ""
    for _ in range(PAGES):
        args = {"types": "public_channel,private_channel,mpim,im", "limit": 200, **({"cursor": cursor} if cursor else {})}
        _, answer = _asked(lambda args=args: client.api_call("users.conversations", data=args))  # type: ignore[misc]
        if answer is None:
            return None
        found += answer.data.get("channels") or []
        cursor = str((answer.data.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            break
    return found


def _is_in(name: str, channels: Sequence[Mapping[str, Any]]) -> bool:
    return any(name.lstrip("#") in (channel.get("name"), channel.get("id")) for channel in channels)


def _scopes(headers: Mapping[str, Any]) -> frozenset[str] | None:
    told = _one(headers.get("x-oauth-scopes"))
    return frozenset(scope.strip() for scope in told.split(",") if scope.strip()) if told else None


def _clock_off(headers: Mapping[str, Any], now: float) -> float | None:
    try:
        return parsedate_to_datetime(_one(headers.get("date"))).timestamp() - now
    except (ValueError, TypeError):
        return None


def _one(value: object) -> str:
    return str(value[0] if isinstance(value, list) and value else value or "")
