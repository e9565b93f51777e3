"""The Web API adapter with the real slack_sdk against the embedded workspace, and against answers that Slack should not give."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bot import slack as adapter
from bot.clock import SystemClock
from bot.local.slack import EmbeddedSlack
from bot.messages import ChannelKind
from bot.ports import Posted, SlackError
from bot.slack import SlackWeb, is_loopback
from bot.slack_text import Me
from telemetry.emit import Emit
from telemetry.events import SlackCalled, SlackOutcome

pytestmark = pytest.mark.slack
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
WORDS = "what somebody wrote in confidence"


@dataclass
class Web:
    """The adapter, and the facts that it told."""

    slack: SlackWeb
    facts: list[SlackCalled] = field(default_factory=list)

    @property
    def outcomes(self) -> list[tuple[str, SlackOutcome]]:
        return [(fact.method, fact.outcome) for fact in self.facts]


@asynccontextmanager
async def web_on(url: str, *, token: str = EmbeddedSlack.BOT_TOKEN) -> AsyncIterator[Web]:
    facts: list[SlackCalled] = []
    async with aiohttp.ClientSession() as session:
        yield Web(SlackWeb(token, api_url=url, session=session, clock=SystemClock(), emit=cast(Emit, facts.append)), facts)


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[EmbeddedSlack]:
    async with EmbeddedSlack(tmp_path, control_token="made-up-token", opening=False) as workspace:
        yield workspace


@pytest.fixture
async def web_api(workspace: EmbeddedSlack) -> AsyncIterator[Web]:
    async with web_on(workspace.url) as made:
        yield made


async def refused(call: Any) -> SlackError:
    with pytest.raises(SlackError) as error:
        await call
    return error.value


def called(workspace: EmbeddedSlack, method: str) -> int:
    return sum(call.method == method for call in workspace.calls)


# -- the start -------------------------------------------------------------------------------------------------------
async def test_the_start_says_who_the_bot_is(workspace: EmbeddedSlack, web_api: Web) -> None:
    assert await web_api.slack.start() == Me(user_id=workspace.bot_user_id, bot_id=workspace.bot_id)
    assert web_api.outcomes == [("auth.test", SlackOutcome.OK)]


@pytest.mark.parametrize(
    ("token", "code"), [("nonsense", "invalid_auth"), ("xoxp-1", "invalid_auth"), ("xapp-1", "not_allowed_token_type")]
)
async def test_a_bad_bot_token_is_refused_at_the_start_with_slacks_word(workspace: EmbeddedSlack, token: str, code: str) -> None:
    async with web_on(workspace.url, token=token) as made:
        error = await refused(made.slack.start())

    assert (error.method, error.code, str(error)) == ("auth.test", code, f"auth.test: {code}")


async def test_a_persons_token_is_no_bots(free_answers: Answers) -> None:
    free_answers.answer = lambda: web.json_response({"ok": True, "user_id": "U0MIKA", "team_id": "T0"})

    error = await refused(free_answers.api.slack.start())

    assert (error.method, error.code) == ("auth.test", "not_allowed_token_type")


@pytest.mark.parametrize(("token", "code"), [("nonsense", "invalid_auth"), ("xoxb-1", "not_allowed_token_type")])
async def test_a_bad_app_token_is_refused_although_the_library_would_try_it_for_ever(web_api: Web, token: str, code: str) -> None:
    error = await refused(web_api.slack.check_app_token(token))

    assert (error.method, error.code) == ("apps.connections.open", code)


async def test_a_good_app_token_passes_and_the_bots_own_stays_in_use(workspace: EmbeddedSlack, web_api: Web) -> None:
    await web_api.slack.check_app_token(workspace.APP_TOKEN)

    assert (await web_api.slack.start()).bot_id


# -- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "options", "code", "outcome"),
    [
        ("ratelimited", {"retry_after": 7}, "ratelimited", SlackOutcome.RATE_LIMITED),
        ("ratelimited_200", {}, "ratelimited", SlackOutcome.RATE_LIMITED),
        ("http_500", {}, "http_500", SlackOutcome.ERROR),
        ("http_502", {}, "http_502", SlackOutcome.ERROR),
        ("error", {"code": "not_in_channel"}, "not_in_channel", SlackOutcome.ERROR),
        ("missing_scope", {"needed": "chat:write"}, "missing_scope", SlackOutcome.ERROR),
        ("lost", {}, "connection", SlackOutcome.ERROR),
    ],
)
async def test_every_refusal_is_a_slack_error_with_slacks_word(
    workspace: EmbeddedSlack, web_api: Web, kind: str, options: dict[str, Any], code: str, outcome: SlackOutcome
) -> None:
    workspace.faults.add("chat.postMessage", kind, **options)

    error = await refused(web_api.slack.post("C0GENERAL", WORDS, thread_ts="1.000100"))

    assert (error.method, error.code) == ("chat.postMessage", code)
    assert error.retry_after == options.get("retry_after", 0.0) and error.needed == options.get("needed", "")
    assert web_api.outcomes == [("chat.postMessage", outcome)]
    assert called(workspace, "chat.postMessage") == 1  # nothing is repeated below the one who knows whether that is safe


async def test_an_answer_that_does_not_come_ends_in_time(workspace: EmbeddedSlack, web_api: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "CALL_SECONDS", 0.2)
    workspace.faults.add("chat.postMessage", "slow", seconds=5)

    error = await refused(web_api.slack.post("C0GENERAL", WORDS, thread_ts="1.000100"))

    assert (error.code, web_api.outcomes) == ("timeout", [("chat.postMessage", SlackOutcome.TIMEOUT)])


async def test_an_endpoint_that_nobody_serves_was_never_reached(web_api: Web) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        async with web_on(f"http://127.0.0.1:{reserved.getsockname()[1]}/api/") as made:
            error = await refused(made.slack.start())

    assert error.code == "connection_refused"


async def test_a_post_whose_answer_was_lost_stands_there_once(workspace: EmbeddedSlack, web_api: Web) -> None:
    root = workspace.say("general", "mika", "hello")["ts"]
    workspace.faults.add("chat.postMessage", "lost")

    await refused(web_api.slack.post("C0GENERAL", "only once", thread_ts=root))

    assert [message["text"] for message in workspace.thread("general", root)] == ["hello", "only once"]


@dataclass
class Answers:
    """A server that answers whatever it is told, and nothing that Slack would."""

    api: Web
    answer: Callable[[], web.StreamResponse]


@pytest.fixture
async def free_answers() -> AsyncIterator[Answers]:
    answers: list[Answers] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        return answers[0].answer()

    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", serve)
    async with TestServer(app) as server, web_on(str(server.make_url("/api/"))) as made:
        answers.append(Answers(made, web.Response))
        yield answers[0]


@pytest.mark.parametrize(
    ("status", "kind", "body", "code"),
    [
        (200, "text/html", f"<html>{WORDS}</html>", "invalid_response"),
        (200, "text/plain", WORDS, "invalid_response"),
        (200, "application/json", "{" + WORDS, "invalid_response"),
        (200, "application/json", "[]", "invalid_response"),
        (200, "application/json", "{}", "invalid_response"),
        (200, "application/json", "", "invalid_response"),
        (503, "text/plain", WORDS, "http_503"),
        (503, "application/json", '{"ok": false, "error": "service_unavailable"}', "http_503"),
        (403, "text/html", WORDS, "http_403"),
        (404, "application/json", "{" + WORDS, "http_404"),
        (429, "text/html", WORDS, "ratelimited"),
    ],
)
async def test_whatever_comes_back_is_a_slack_error_and_none_of_it_is_printed(
    free_answers: Answers, status: int, kind: str, body: str, code: str
) -> None:
    headers = {"Retry-After": "30"} if status == 429 else {}
    free_answers.answer = lambda: web.Response(status=status, text=body, content_type=kind, headers=headers)

    error = await refused(free_answers.api.slack.post("C0GENERAL", WORDS, thread_ts="1.000100"))

    printed = "".join(traceback.format_exception(error)) + repr(error)
    assert (error.code, error.retry_after) == (code, 30.0 if status == 429 else 0.0)
    assert WORDS not in printed and EmbeddedSlack.BOT_TOKEN not in printed


@pytest.mark.parametrize("kind", ["lost", "missing_scope", "http_500", "ratelimited"])
async def test_no_word_and_no_token_stands_in_what_is_raised(workspace: EmbeddedSlack, web_api: Web, kind: str) -> None:
    workspace.faults.add("chat.postMessage", kind)

    error = await refused(web_api.slack.post("C0GENERAL", WORDS, thread_ts="1.000100"))

    printed = "".join(traceback.format_exception(error)) + repr(error)
    assert WORDS not in printed and workspace.BOT_TOKEN not in printed


# -- calls -----------------------------------------------------------------------------------------------------------
async def test_a_post_stands_in_its_thread_with_its_metadata_and_unfolds_no_links(workspace: EmbeddedSlack, web_api: Web) -> None:
    root = workspace.say("general", "mika", "hello")["ts"]
    metadata = {"event_type": "insomnia_reply", "event_payload": {"part": 1, "of": "由紀"}}

    posted = await web_api.slack.post("C0GENERAL", "<b> & 由紀", thread_ts=root, metadata=metadata)

    reply = workspace.thread("general", root)[1]
    assert posted == Posted(ts=reply["ts"], thread_ts=root)
    assert (reply["text"], reply["metadata"]) == ("<b> & 由紀", metadata)
    assert {workspace.calls[-1].args[name] for name in ("unfurl_links", "unfurl_media")} == {"false"}


async def test_a_post_to_a_thread_that_is_gone_says_where_it_stands(workspace: EmbeddedSlack, web_api: Web) -> None:
    workspace.faults.add("chat.postMessage", "thread_gone")

    posted = await web_api.slack.post("C0GENERAL", "hello", thread_ts="1.000100")
    await web_api.slack.delete("C0GENERAL", posted.ts)

    assert posted.thread_ts is None
    assert (await refused(web_api.slack.delete("C0GENERAL", posted.ts))).code == "message_not_found"


async def test_a_thread_is_read_page_by_page_oldest_first(workspace: EmbeddedSlack, web_api: Web) -> None:
    root = workspace.say("general", "mika", "0")["ts"]
    for n in range(1, 5):
        workspace.say("general", "tom", str(n), thread_ts=root)

    first = await web_api.slack.replies("C0GENERAL", root, limit=3)
    second = await web_api.slack.replies("C0GENERAL", root, limit=3, cursor=first.next_cursor)

    assert [m["text"] for page in (first, second) for m in page.messages] == ["0", "1", "2", "3", "4"]
    assert (bool(first.next_cursor), second.next_cursor) == (True, "")


async def test_a_status_is_set_and_cleared(workspace: EmbeddedSlack, web_api: Web) -> None:
    root = workspace.say("general", "mika", "hello")["ts"]

    await web_api.slack.set_status("C0GENERAL", root, "is thinking…")
    await web_api.slack.set_status("C0GENERAL", root, "")

    assert [call.args["status"] for call in workspace.calls] == ["is thinking…", ""]


# -- names and channels ----------------------------------------------------------------------------------------------
async def test_a_name_is_asked_for_once(workspace: EmbeddedSlack, web_api: Web) -> None:
    names = [await web_api.slack.user_name(user) for user in ("U0YUKI", "U0YUKI", "U0MIKA")]

    assert names == ["由紀", "由紀", "Mika"]
    assert called(workspace, "users.info") == 2


async def test_somebody_without_a_display_name_is_called_by_the_next_best(workspace: EmbeddedSlack, web_api: Web) -> None:
    person = workspace.add_person("nobody")
    workspace.workspace.store.add_person(type(person)(id=person.id, name="nobody", display_name="", real_name="No Body"))

    assert await web_api.slack.user_name(person.id) == "No Body"


async def test_somebody_whom_slack_does_not_know_is_asked_for_once_and_called_by_the_id(workspace: EmbeddedSlack, web_api: Web) -> None:
    assert [await web_api.slack.user_name("U0GONE") for _ in range(2)] == ["U0GONE", "U0GONE"]
    assert called(workspace, "users.info") == 1


async def test_a_name_that_slack_could_not_tell_now_is_asked_for_again(workspace: EmbeddedSlack, web_api: Web) -> None:
    workspace.faults.add("users.info", "ratelimited")

    assert [await web_api.slack.user_name("U0TOM") for _ in range(2)] == ["U0TOM", "Tom"]


async def test_names_do_not_pile_up(workspace: EmbeddedSlack, web_api: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "NAMES_KEPT", 2)

    for user in ("U0MIKA", "U0TOM", "U0LENA", "U0LENA"):
        await web_api.slack.user_name(user)

    assert len(web_api.slack._names) <= 2 and called(workspace, "users.info") == 3


@pytest.mark.parametrize(
    ("channel", "name", "kind"),
    [("C0GENERAL", "general", ChannelKind.PUBLIC), ("G0HIRING", "hiring", ChannelKind.PRIVATE), ("D0MIKA", "", ChannelKind.DIRECT)],
)
async def test_a_channel_is_asked_for_once_and_has_its_kind(
    workspace: EmbeddedSlack, web_api: Web, channel: str, name: str, kind: ChannelKind
) -> None:
    found = [await web_api.slack.channel(channel) for _ in range(2)]

    assert {(c.id, c.name, c.kind) for c in found} == {(channel, name, kind)}
    assert called(workspace, "conversations.info") == 1


async def test_a_channel_that_is_unknown_is_an_error_and_is_asked_for_again(workspace: EmbeddedSlack, web_api: Web) -> None:
    for _ in range(2):
        assert (await refused(web_api.slack.channel("C0NOWHERE"))).code == "channel_not_found"

    assert called(workspace, "conversations.info") == 2


async def test_channels_that_were_learned_are_not_asked_for(workspace: EmbeddedSlack, web_api: Web) -> None:
    workspace.faults.add("users.conversations", "page_size", size=2)
    await web_api.slack.learn_channels()

    kinds = [(await web_api.slack.channel(c)).kind for c in ("C0GENERAL", "C0NIHONGO", "G0HIRING", "D0MIKA")]

    assert kinds == [ChannelKind.PUBLIC, ChannelKind.PUBLIC, ChannelKind.PRIVATE, ChannelKind.DIRECT]
    assert called(workspace, "conversations.info") == 0


async def test_learning_channels_is_only_a_head_start(workspace: EmbeddedSlack, web_api: Web) -> None:
    workspace.faults.add("users.conversations", "missing_scope")

    await web_api.slack.learn_channels()

    assert (await web_api.slack.channel("C0GENERAL")).name == "general"


async def test_a_channel_is_asked_for_again_after_a_while_and_its_old_word_counts_while_slack_does_not_tell(
    workspace: EmbeddedSlack, web_api: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    await web_api.slack.learn_channels()
    monkeypatch.setattr(adapter, "CHANNEL_SECONDS", -1.0)
    workspace.faults.add("conversations.info", "error", code="internal_error")

    assert (await web_api.slack.channel("C0GENERAL")).name == "general"
    assert (await web_api.slack.channel("C0GENERAL")).kind is ChannelKind.PUBLIC
    assert called(workspace, "conversations.info") == 2


# -- proxies ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("variable", PROXY_VARIABLES)
async def test_a_workspace_on_this_machine_is_not_asked_through_a_proxy(
    workspace: EmbeddedSlack, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")

    async with web_on(workspace.url) as made:
        assert (await made.slack.start()).bot_id == workspace.bot_id


async def test_slack_itself_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    async with web_on("") as made:
        assert (made.slack.client.base_url, made.slack.client.proxy) == ("https://slack.com/api/", "http://127.0.0.1:9")
        assert (await refused(made.slack.start())).code == "connection_refused"


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1/api/", True),
        ("http://localhost/api/", True),
        ("http://[::1]:1/", True),
        ("http://127.0.0.1.example/", False),
        ("http://localhost.example/", False),
        ("https://slack.com/api/", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_and_no_name_that_looks_like_it(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


async def test_twenty_calls_at_once_are_twenty_answers(workspace: EmbeddedSlack, web_api: Web) -> None:
    root = workspace.say("general", "mika", "hello")["ts"]

    posted = await asyncio.gather(*(web_api.slack.post("C0GENERAL", str(n), thread_ts=root) for n in range(20)))

    assert len({p.ts for p in posted}) == 20 == len(workspace.thread("general", root)) - 1
