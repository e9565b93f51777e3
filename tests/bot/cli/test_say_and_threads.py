"""`say` and `threads` against a control server on loopback that says what the embedded workspace's would."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.cli import dispatch
from bot.workspace import Control, RunningBot, Workspace

pytestmark = pytest.mark.slack

TOKEN = "control-token"
THREAD = "1761559200.000100"
TRACE = "1a2b3c4d5e6f708192a3b4c5d6e7f801"
GATE = {"decision": "refetched", "reason": "not_known", "injection": "full", "messages": 7, "omitted": 0}
THREADS = [
    {"channel": "一般", "channel_id": "C2", "thread_ts": THREAD, "age_days": 31.5, "messages": 7, "first_words": "リリース\x1b[2J"},
    {"channel": "general", "channel_id": "C1", "thread_ts": "1761559300.000200", "age_days": 33.0, "messages": 1, "first_words": "Hi"},
]


def part(text: str, *, number: int = 1, of: int = 1, outcome: str = "answered") -> dict[str, Any]:
    payload = {"v": 1, "message": "T/C/1", "part": number, "parts": of, "trace_id": TRACE, "outcome": outcome, "gate": GATE}
    return {"ts": f"1764.00000{number}", "text": text, "metadata": {"event_type": "insomnia_reply", "event_payload": payload}}


class FakeControl(http.server.ThreadingHTTPServer):
    """Answers each `wait` with the next of `answers`, the last one again and again; keeps what was said."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.answers: list[list[dict[str, Any]]] = [[part("the release is on Friday")]]
        self.said: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refuse_with: str | None = None
        self.on_wait: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/control/"

    def answer(self, what: str, query: dict[str, str]) -> Any:
        self.asked.append((what, query))
        if what == "threads":
            return [thread for thread in THREADS if query.get("channel", thread["channel"]) == thread["channel"]]
        if what == "wait":
            self.on_wait()
            posts = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return {"done": bool(posts), "messages": posts, "ephemerals": [], "status": "", "thread_ts": THREAD}
        raise AssertionError(what)


class FakeHandler(http.server.BaseHTTPRequestHandler):
    server: FakeControl

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        self._answer(self.server.answer(url.path.removeprefix("/control/"), dict(urllib.parse.parse_qsl(url.query))))

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.said.append(said)
        self._answer({"channel": "C1", "ts": "1764.000001", "thread_ts": said["thread_ts"] or "1764.000001"})

    def _answer(self, body: Any) -> None:
        status = 200
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, body = 401, {"error": "the token is wrong"}
        elif self.server.refuse_with:
            status, body = 404, {"error": self.server.refuse_with}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def control() -> Iterator[FakeControl]:
    with FakeControl() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def workspace(tmp_path: Path, control: FakeControl) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    with workspace.lock():
        address = Control(slack=control.url, token=TOKEN)
        workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack="embedded", control=address))
        yield workspace


@pytest.fixture
def insomnia(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*argv: str) -> tuple[int, str, str]:
        code = dispatch([*argv, "--workspace", str(workspace.root)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


Insomnia = Callable[..., tuple[int, str, str]]


def test_threads_are_listed_with_their_age(insomnia: Insomnia) -> None:
    code, out, _ = insomnia("threads")

    assert code == 0
    assert out.splitlines() == [
        "CHANNEL   THREAD             AGE      MESSAGES  FIRST WORDS",
        "#一般     1761559200.000100  31 days  7         リリース\ufffd[2J",
        "#general  1761559300.000200  33 days  1         Hi",
    ]


def test_threads_of_one_channel(insomnia: Insomnia, control: FakeControl) -> None:
    code, out, _ = insomnia("threads", "--channel", "general", "--json")

    assert (code, json.loads(out)) == (0, [THREADS[1]])
    assert control.asked[-1] == ("threads", {"channel": "general"})


def test_an_answer_is_shown_with_what_the_gate_decided(insomnia: Insomnia, control: FakeControl) -> None:
    code, out, err = insomnia("say", "when?", "--thread", THREAD, "--channel", "一般", "--user", "bob")

    assert (code, err) == (0, "")
    assert out == "the release is on Friday\nre-read 7 messages (not_known) · trace 1a2b3c4d\n"
    assert control.said == [{"text": "when?", "channel": "一般", "thread_ts": THREAD, "user": "bob", "mention": True}]


def test_an_answer_as_json_is_exactly_the_interface(insomnia: Insomnia) -> None:
    code, out, _ = insomnia("say", "when?", "--thread", THREAD, "--json")

    assert code == 0
    assert json.loads(out) == {
        "channel": "C1",
        "ts": "1764.000001",
        "thread_ts": THREAD,
        "outcome": "answered",
        "reply": {"text": "the release is on Friday", "ts": "1764.000001", "parts": 1},
        "trace_id": TRACE,
        "gate": GATE,
    }


def test_without_a_channel_the_threads_own_is_taken_or_the_workspace_chooses(insomnia: Insomnia, control: FakeControl) -> None:
    insomnia("say", "when?", "--thread", THREAD)
    insomnia("say", "when?")

    assert [(said["channel"], said["user"]) for said in control.said] == [("一般", None), (None, None)]


def test_a_thread_that_is_in_two_channels_needs_its_channel(
    insomnia: Insomnia, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(THREADS[1], "thread_ts", THREAD)

    code, _, err = insomnia("say", "when?", "--thread", THREAD)

    assert (code, control.said) == (2, [])
    assert "--channel 一般 or general" in err


def test_a_thread_that_is_nowhere_is_told(insomnia: Insomnia, control: FakeControl) -> None:
    code, _, err = insomnia("say", "when?", "--thread", "1.000001")

    assert (code, control.said) == (1, [])
    assert "there is no thread 1.000001" in err


def test_a_long_answer_is_whole_before_it_is_shown(insomnia: Insomnia, control: FakeControl) -> None:
    first, second = part("one", number=1, of=2), part("two", number=2, of=2)
    control.answers = [[], [first], [second, first]]

    code, out, _ = insomnia("say", "when?", "--json")

    assert code == 0
    assert json.loads(out)["reply"] == {"text": "one\ntwo", "ts": "1764.000001", "parts": 2}


def test_an_answer_that_was_cut_anew_is_shown_once(insomnia: Insomnia, control: FakeControl) -> None:
    control.answers = [
        [part("a long", number=1, of=2), part("a", number=1, of=3), part("long", number=2, of=3), part("one", number=3, of=3)]
    ]

    _, out, _ = insomnia("say", "when?", "--json")

    assert json.loads(out)["reply"]["text"] == "a\nlong\none"


def test_a_person_sees_names_and_a_program_what_was_posted(insomnia: Insomnia, control: FakeControl) -> None:
    control.answers = [[part("ask <@U1> &amp; co") | {"shown": "ask @bob & co"}]]

    assert insomnia("say", "who?")[1].startswith("ask @bob & co\n")
    assert json.loads(insomnia("say", "who?", "--json")[1])["reply"]["text"] == "ask <@U1> &amp; co"


def test_posts_of_others_are_not_the_answer(insomnia: Insomnia, control: FakeControl) -> None:
    other = {"ts": "1764.000009", "text": "ci passed", "metadata": {"event_type": "ci", "event_payload": {}}}
    control.answers = [[other, {"ts": "1764.000010", "text": "x"}, part("mine")]]

    _, out, _ = insomnia("say", "when?", "--json")

    assert json.loads(out)["reply"]["text"] == "mine"


def test_a_failed_answer_is_shown_and_is_exit_1(insomnia: Insomnia, control: FakeControl) -> None:
    control.answers = [[part("I could not answer.", outcome="failed")]]

    code, out, _ = insomnia("say", "when?")

    assert code == 1
    assert out.startswith("I could not answer.\n")


def test_no_answer_in_time_is_told_and_is_exit_1(insomnia: Insomnia, control: FakeControl) -> None:
    control.answers = [[]]

    code, out, err = insomnia("say", "when?", "--timeout", "0.01", "--json")

    assert code == 1
    assert "no answer within 0.01 s" in err
    read = json.loads(out)
    assert (read["outcome"], read["reply"], read["trace_id"], read["gate"]) == ("timeout", None, None, None)


def test_without_a_mention_nothing_is_waited_for(insomnia: Insomnia, control: FakeControl) -> None:
    code, out, _ = insomnia("say", "just talking", "--no-mention", "--json")

    assert (code, json.loads(out)["outcome"]) == (0, None)
    assert control.said[0]["mention"] is False
    assert "wait" not in [what for what, _ in control.asked]


def test_a_bot_that_stops_while_it_is_waited_for_is_told(insomnia: Insomnia, control: FakeControl, workspace: Workspace) -> None:
    control.answers = [[]]
    control.on_wait = workspace.bot_json.unlink

    code, _, err = insomnia("say", "when?")

    assert code == 1
    assert "no bot is up" in err


def test_what_the_workspace_refuses_is_told_in_its_words(insomnia: Insomnia, control: FakeControl) -> None:
    control.refuse_with = "there is no person carol; there are: alice, bob"

    code, _, err = insomnia("say", "when?", "--user", "carol")

    assert (code, err) == (1, "insomnia: there is no person carol; there are: alice, bob\n")


def test_a_workspace_that_does_not_answer_is_told(insomnia: Insomnia, control: FakeControl, workspace: Workspace) -> None:
    gone = Control(slack="http://127.0.0.1:1/control/", token=TOKEN)
    workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack="embedded", control=gone))

    code, _, err = insomnia("threads")

    assert code == 1
    assert "does not answer" in err


def test_a_proxy_of_the_environment_is_not_used(insomnia: Insomnia, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert insomnia("threads")[0] == 0
