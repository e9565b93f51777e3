"""Events over HTTP, signed by the embedded workspace and checked by Slack's own library: nothing is believed twice or lost."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from bot import slack_http
from bot.clock import SystemClock
from bot.local.slack import EmbeddedSlack
from bot.local.slack_http import RequestUrl
from bot.slack_http import EVENTS_PATH, HEALTH_PATH, WINDOW_SECONDS, CannotListen, EventsApi
from bot.slack_time import SlackTime
from telemetry.emit import Emit
from telemetry.events import DeliveryGap, Fact, GapReason, SlackConnection

pytestmark = pytest.mark.slack
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
WORDS = "a word in confidence"


class HandClock(SystemClock):
    """The true time, until it is held; both sides read it."""

    held: float | None = None

    def now(self) -> float:
        return time.time() if self.held is None else self.held


@dataclass
class Bot:
    """`before` runs inside of `take`, before the event counts as stored."""

    clock: HandClock = field(default_factory=HandClock)
    stored: list[Mapping[str, Any]] = field(default_factory=list)
    doubts: list[float] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    before: Callable[[Mapping[str, Any]], None] = lambda body: None

    def __post_init__(self) -> None:
        self.api = EventsApi(
            SECRET, host="127.0.0.1", port=0, take=self.take, doubt=self.doubt, clock=self.clock, emit=cast(Emit, self.facts.append)
        )

    def take(self, body: Mapping[str, Any]) -> None:
        self.before(body)
        self.stored.append(body)

    def doubt(self, *, until: float) -> None:
        self.doubts.append(until)

    @property
    def url(self) -> str:
        return f"http://{self.api.address}{EVENTS_PATH}"

    @property
    def texts(self) -> list[str]:
        return [str(body["event"].get("text")) for body in self.stored]

    @property
    def gaps(self) -> list[GapReason]:
        return [fact.reason for fact in self.facts if isinstance(fact, DeliveryGap)]


@dataclass(frozen=True)
class Client:
    """Whoever can reach the port."""

    session: aiohttp.ClientSession
    bot: Bot

    async def post(self, body: bytes, headers: Any) -> tuple[int, Mapping[str, str]]:
        async with self.session.post(self.bot.url, data=body, headers=headers) as response:
            return response.status, response.headers

    async def health(self) -> int:
        async with self.session.get(f"http://{self.bot.api.address}{HEALTH_PATH}") as response:
            return response.status

    def signer(self, secret: str = SECRET) -> RequestUrl:
        return RequestUrl(self.bot.url, secret, clock=self.bot.clock.now, ack_seconds=3.0)


@pytest.fixture
async def bot() -> AsyncIterator[Bot]:
    bot = Bot()
    await bot.api.prepare()
    await bot.api.connect()
    yield bot
    await bot.api.close()


@pytest.fixture
async def client(bot: Bot) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, bot)


@pytest.fixture
async def slack(tmp_path: Path, bot: Bot) -> AsyncIterator[EmbeddedSlack]:
    delays = (0.0, 0.0, 0.0)
    async with EmbeddedSlack(
        tmp_path, control_token="t", clock=bot.clock.now, ack_seconds=3.0, retry_delays=delays, opening=False
    ) as slack:
        assert await slack.deliver_to(bot.url, SECRET)
        yield slack


async def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def deliveries(slack: EmbeddedSlack) -> list[tuple[int, bool]]:
    return [(d.attempt, d.acked) for d in slack.sockets.deliveries]


def event(text: str = WORDS, *, event_id: str = "Ev1") -> bytes:
    told = {"type": "message", "channel": "C1", "user": "U1", "text": text, "ts": "1700000000.000100"}
    return json.dumps({"type": "event_callback", "team_id": "T1", "event_id": event_id, "event": told}).encode()


# -- acknowledging -----------------------------------------------------------------------------------------------------
async def test_a_request_url_is_verified_only_where_the_secret_is_the_same(bot: Bot, client: Client) -> None:
    assert await client.signer().verify() is True
    assert await client.signer("another secret").verify() is False
    assert bot.stored == []


async def test_an_event_is_answered_200_when_it_is_stored_and_not_before(slack: EmbeddedSlack, bot: Bot) -> None:
    answered: list[bool] = []

    def look(body: Mapping[str, Any]) -> None:
        time.sleep(0.05)
        answered.append(bool(deliveries(slack)))

    bot.before = look
    slack.say("general", "mika", "hello")
    await until(lambda: deliveries(slack))

    assert (answered, deliveries(slack), bot.texts) == ([False], [(0, True)], ["hello"])
    assert (bot.stored[0]["type"], bot.stored[0]["team_id"]) == ("event_callback", slack.team_id)


async def test_what_could_not_be_stored_comes_again_although_its_signature_is_the_same(
    slack: EmbeddedSlack, bot: Bot, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of Slack's later tries comes at once, within the same second."""
    bot.clock.held = time.time()
    tries: list[str] = []

    def full(body: Mapping[str, Any]) -> None:
        tries.append(str(body["event_id"]))
        if len(tries) < 2:
            raise OSError(f"the disk is full, and {WORDS}")

    bot.before = full
    slack.say("general", "mika", WORDS)
    await until(lambda: bot.stored)

    told = slack.sockets.request_url
    assert told is not None and told.sent[0].headers["X-Slack-Signature"] == told.sent[1].headers["X-Slack-Signature"]
    assert ([s.status for s in told.sent], len(set(tries)), bot.texts) == ([500, 200], 1, [WORDS])
    assert bot.gaps == [GapReason.NOT_STORED]
    said = capsys.readouterr().err
    assert "an event could not be stored (OSError)" in said and "confidence" not in said


async def test_twenty_events_at_once_on_a_slow_disk_are_answered_within_slacks_three_seconds(slack: EmbeddedSlack, bot: Bot) -> None:
    bot.before = lambda body: time.sleep(0.05)

    for number in range(20):
        slack.say("general", "mika", str(number))
    await until(lambda: len(deliveries(slack)) == 20)

    assert set(deliveries(slack)) == {(0, True)} and sorted(map(int, bot.texts)) == list(range(20))


async def test_both_events_of_a_mention_arrive(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.say("general", "mika", "hello", mention=True)

    await until(lambda: len(bot.stored) == 2)

    assert {body["event"]["type"] for body in bot.stored} == {"message", "app_mention"}


# -- belief ------------------------------------------------------------------------------------------------------------
async def test_a_signature_is_believed_once(bot: Bot, client: Client) -> None:
    body = event()
    headers = client.signer().signed(body)

    first, _ = await client.post(body, headers)
    again, told = await client.post(body, headers)

    assert (first, again, told["X-Slack-No-Retry"], len(bot.stored)) == (200, 403, "1", 1)


async def test_no_second_header_makes_a_spent_signature_look_new(bot: Bot, client: Client) -> None:
    body = event()
    headers = client.signer().signed(body)
    await client.post(body, headers)

    for decoys in (("before", *headers.items()), (*headers.items(), "after")):
        pairs = [("X-Slack-Signature", f"v0={each}") if isinstance(each, str) else each for each in decoys]
        status, _ = await client.post(body, pairs)

        assert status in (401, 403)

    assert len(bot.stored) == 1


@pytest.mark.parametrize("seconds", [-WINDOW_SECONDS - 2, WINDOW_SECONDS + 2])
async def test_a_request_of_another_time_is_refused(bot: Bot, client: Client, seconds: int) -> None:
    body = event()

    status, _ = await client.post(body, client.signer().signed(body, at=bot.clock.now() + seconds))

    assert (status, bot.stored) == (401, [])


async def test_a_signature_is_remembered_as_long_as_it_would_be_believed(bot: Bot, client: Client) -> None:
    body, now = event(), time.time()
    bot.clock.held = now
    early = client.signer().signed(body, at=now + WINDOW_SECONDS - 1)  # a clock that is ahead of ours
    assert (await client.post(body, early))[0] == 200

    bot.clock.held = now + 2 * WINDOW_SECONDS - 2

    assert (await client.post(body, early))[0] == 403
    bot.clock.held = now + 2 * WINDOW_SECONDS
    assert (await client.post(body, early))[0] == 401 and len(bot.stored) == 1


def _without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {key: value for key, value in headers.items() if key != name}


def _with(name: str, value: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {**headers, name: value}


@pytest.mark.parametrize(
    "changed",
    [
        _without("X-Slack-Signature"),
        _without("X-Slack-Request-Timestamp"),
        _with("X-Slack-Signature", "v0=" + "0" * 64),
        _with("X-Slack-Signature", "v0=ü"),
        _with("X-Slack-Request-Timestamp", "soon"),
        _with("X-Slack-Request-Timestamp", "9" * 400),
        _with("X-Slack-Request-Timestamp", "-1"),
    ],
)
async def test_whatever_is_not_signed_is_refused_and_told_once(
    bot: Bot, client: Client, changed: Callable[[dict[str, str]], dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    body = event()

    refused = [(await client.post(body, changed(client.signer().signed(body))))[0] for _ in range(2)]

    assert (refused, bot.stored) == ([401, 401], [])
    told = capsys.readouterr().err
    assert told.count("was refused") == 1 and "SLACK_SIGNING_SECRET" in told
    assert SECRET not in told and WORDS not in told


async def test_a_body_that_was_changed_on_its_way_is_refused(bot: Bot, client: Client) -> None:
    headers = client.signer().signed(event("pay Ann"))

    assert ((await client.post(event("pay Bob"), headers))[0], bot.stored) == (401, [])


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 100_000])
async def test_signed_nonsense_is_neither_taken_nor_an_error_of_ours(bot: Bot, client: Client, body: bytes) -> None:
    status, _ = await client.post(body, client.signer().signed(body))

    assert status in (400, 401) and bot.stored == []


async def test_a_huge_body_is_not_read(bot: Bot, client: Client) -> None:
    body = b"x" * (slack_http.MAX_BODY_BYTES + 1)

    async with client.session.post(bot.url, data=io.BytesIO(body), headers=client.signer().signed(body)) as response:
        assert (response.status, bot.stored) == (413, [])


async def test_a_body_that_does_not_end_holds_nobody_up(bot: Bot, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_http, "READ_SECONDS", 0.2)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5.0)

    async with asyncio.timeout(3.0), client.session.post(bot.url, data=endless()) as response:
        assert response.status == 408
    assert bot.stored == []


# -- late and missing events -------------------------------------------------------------------------------------------
async def test_an_event_that_needed_a_later_try_makes_delivery_doubtful(bot: Bot, client: Client) -> None:
    body = event()

    await client.post(body, {**client.signer().signed(body), "X-Slack-Retry-Num": "2", "X-Slack-Retry-Reason": "connection_failed"})

    assert (bot.gaps, len(bot.doubts), len(bot.stored)) == ([GapReason.LATE_DELIVERY], 1, 1)


async def test_a_workspace_with_too_many_events_makes_delivery_doubtful_to_the_end_of_the_minute(slack: EmbeddedSlack, bot: Bot) -> None:
    slack.faults.limit_events()
    slack.say("general", "mika", "lost")
    await until(lambda: bot.doubts)
    slack.faults.free_events()
    slack.say("general", "mika", "heard")
    await until(lambda: bot.stored)

    assert (bot.gaps, bot.texts) == ([GapReason.EVENTS_LIMITED], ["heard"])
    assert bot.clock.now() <= bot.doubts[0] <= bot.clock.now() + 60 and bot.doubts[0] % 60 == pytest.approx(0, abs=0.001)


# -- the server --------------------------------------------------------------------------------------------------------
async def test_health_tells_whether_events_are_taken() -> None:
    bot = Bot()
    await bot.api.prepare()
    async with aiohttp.ClientSession() as session:
        client = Client(session, bot)
        before, refused = await client.health(), (await client.post(event(), client.signer().signed(event())))[0]
        await bot.api.connect()
        taking = await client.health()
        await bot.api.close()

        assert (before, refused, taking) == (503, 503, 200)
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.health()
    assert [fact.up for fact in bot.facts if isinstance(fact, SlackConnection)] == [True, False]


async def test_only_this_machine_reaches_it_unless_the_settings_say_otherwise(bot: Bot) -> None:
    assert bot.api.address.startswith("127.0.0.1:")


async def test_a_port_that_is_taken_is_told_in_a_sentence(bot: Bot) -> None:
    port = int(bot.api.address.rpartition(":")[2])
    second = EventsApi(SECRET, host="127.0.0.1", port=port, take=bot.take, doubt=bot.doubt, clock=bot.clock, emit=cast(Emit, list().append))

    with pytest.raises(CannotListen, match=f"slack.listen is 127.0.0.1:{port}, but nothing can listen there: another program uses"):
        await second.prepare()


@pytest.mark.parametrize(("method", "path", "status"), [("GET", EVENTS_PATH, 405), ("POST", HEALTH_PATH, 405), ("GET", "/", 404)])
async def test_there_is_nothing_else_on_the_port(client: Client, method: str, path: str, status: int) -> None:
    async with client.session.request(method, f"http://{client.bot.api.address}{path}") as response:
        assert response.status == status


# -- a clock that somebody sets ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("hours", [-3, 3])
async def test_what_slack_signs_now_is_believed_whatever_this_machines_clock_says(hours: int) -> None:
    """What time it is for Slack, the answers of its Web API tell."""
    machine, there = HandClock(), HandClock()
    machine.held = time.time() + hours * 3_600
    slack_time = SlackTime(machine)
    slack_time.told(formatdate(there.now(), usegmt=True))
    bot = Bot(clock=cast(HandClock, slack_time))
    await bot.api.prepare()
    await bot.api.connect()
    async with aiohttp.ClientSession() as session:
        client = Client(session, bot)
        signer = RequestUrl(bot.url, SECRET, clock=there.now, ack_seconds=3.0)
        now, _ = await client.post(event("of now"), signer.signed(event("of now")))
        there.held = machine.held
        then, _ = await client.post(event("of then"), signer.signed(event("of then")))
    await bot.api.close()

    assert (now, then, bot.texts) == (200, 401, ["of now"])
