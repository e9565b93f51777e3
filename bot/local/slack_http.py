"""Delivery over HTTP: events posted to the bot's request URL, signed and tried again as Slack does.

Each try is signed anew, at its own time. What was sent is kept for a while, so that a test can send it once more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import aiohttp

from bot.local.slack_records import Clock, Json

KEPT_REQUESTS = 2_000
CHALLENGE = "a-challenge-of-the-embedded-workspace"


class Sent(NamedTuple):
    headers: Mapping[str, str]
    body: bytes
    status: int  # 0: no answer


@dataclass(frozen=True, slots=True)
class Try:
    """`why`: as `X-Slack-Retry-Reason` says it; "" where it was taken. `final`: the answer asked for no other try."""

    why: str = ""
    final: bool = False


class RequestUrl:
    def __init__(self, url: str, signing_secret: str, *, clock: Clock, ack_seconds: float) -> None:
        self.url, self.sent = url, list[Sent]()
        self._secret, self._clock, self._ack_seconds = signing_secret.encode(), clock, ack_seconds

    async def verify(self) -> bool:
        """Whether the challenge comes back, as it must before Slack takes a request URL."""
        body = json.dumps({"token": "embedded", "challenge": CHALLENGE, "type": "url_verification"}).encode()
        try:
            async with self._session() as session, session.post(self.url, data=body, headers=self.signed(body)) as response:
                told = await response.json(content_type=None) if response.status == 200 else {}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return False
        return isinstance(told, dict) and told.get("challenge") == CHALLENGE

    async def post(self, payload: Json, *, attempt: int, why: str) -> Try:
        body = json.dumps(payload).encode()
        retry = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": why} if attempt else {}
        headers = {**self.signed(body), **retry}
        status = 0
        try:
            async with self._session() as session, session.post(self.url, data=body, headers=headers) as response:
                status = response.status
                final = "X-Slack-No-Retry" in response.headers
            return Try() if 200 <= status < 300 else Try("http_error", final=final)
        except TimeoutError:
            return Try("http_timeout")
        except (aiohttp.ClientError, OSError):
            return Try("connection_failed")
        finally:
            self.sent.append(Sent(headers, body, status))
            del self.sent[:-KEPT_REQUESTS]

    def signed(self, body: bytes, *, at: float | None = None) -> dict[str, str]:
        """`at`: seconds since the epoch; None: now."""
        time = str(int(self._clock() if at is None else at))
        signature = hmac.new(self._secret, b"v0:" + time.encode() + b":" + body, hashlib.sha256).hexdigest()
        return {"Content-Type": "application/json", "X-Slack-Request-Timestamp": time, "X-Slack-Signature": f"v0={signature}"}

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._ack_seconds))
