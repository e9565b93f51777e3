"""The demo's bot: a real `insomnia run` in a workspace of its own, and what the demo may ask of it and do to it.

Its environment is built from nothing, so whatever tokens and keys there are, it runs on the embedded workspace and model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.cli import CommandError
from bot.cli.control import SlackControl, find_control
from bot.cli.demo_files import MemoryFiles
from bot.workspace import RunningBot, Workspace
from telemetry.receiver import Receiver

CONFIG = """\
# The demo's own: compactions must come where it causes them, an account has to have one behind it, and a process to make room.
[claude]
max_resident = 1

[accounts.first]
[accounts.second]
key_env = "ANTHROPIC_API_KEY_2"

[routes.main]
channels = ["*"]
rotate_at = 150_000
autocompact = 100_000
"""
START_SECONDS, STOP_SECONDS, ANSWER_SECONDS, TRACE_SECONDS = 40.0, 30.0, 60.0, 20.0
LOOKS, LOOK_SECONDS = 20, 0.25
INHERITED = ("PATH", "HOME", "LANG", "TZ", "VIRTUAL_ENV", "PYTHONPATH")


@dataclass(frozen=True, slots=True)
class Answer:
    """`gate`: {decision, reason, injection, messages, omitted}; `seen`: the text of the request that it was made from; `context`: of the
    first request for it, before any tool was called.
    """

    text: str
    trace_id: str
    outcome: str
    gate: Mapping[str, Any]
    seen: str
    prompt: str
    context: str


class DemoBot:
    def __init__(self, root: Path, receiver: Receiver) -> None:
        self._root, self._receiver = root, receiver
        self._process: subprocess.Popen[bytes] | None = None
        self._log = root / "demo-bot.log"
        (root / "insomnia.toml").write_text(CONFIG, encoding="utf-8")

    # -- life ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._receiver.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }
        with self._log.open("ab") as log:
            argv = [sys.executable, "-m", "bot", "run", "--workspace", str(self._root)]
            self._process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while Workspace(self._root).running_bot() is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CommandError(f"the demo's bot did not come up:\n{self._log.read_text(errors='replace').strip()}")
            time.sleep(0.05)

    def stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    # -- people --------------------------------------------------------------------------------------------------------
    @property
    def _slack(self) -> SlackControl:
        return find_control(self._root)

    def threads(self, channel: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._slack.get("threads", {"channel": channel})
        return found

    def tell(self, channel: str, thread: str, text: str) -> None:
        """Somebody talks in the thread, but not to the bot."""
        self._slack.post("say", {"channel": channel, "thread_ts": thread, "text": text, "mention": False})

    def ask(self, channel: str, thread: str, text: str) -> Answer:
        before = len(self.requests())
        said = self._slack.post("say", {"channel": channel, "thread_ts": thread, "text": text, "mention": True})
        query = {"channel": said["channel"], "ts": said["ts"], "timeout": f"{ANSWER_SECONDS:g}"}
        told = self._slack.get("wait", query, wait_seconds=ANSWER_SECONDS)
        if not told["done"]:
            raise CommandError(f"no answer within {ANSWER_SECONDS:g} s to: {text}")
        payload = told["messages"][0]["metadata"]["event_payload"]
        made_from = [r for r in self.requests()[before:] if not r["is_compaction"] and not r["is_memory"]]
        first, last = (made_from[0], made_from[-1]) if made_from else ({"text": ""}, {"text": "", "newest_user_text": ""})
        return Answer(
            text="\n".join(str(m["text"]) for m in told["messages"]),
            trace_id=payload["trace_id"],
            outcome=payload["outcome"],
            gate=payload["gate"] or {},
            seen=last["text"],
            prompt=last["newest_user_text"],
            context=first["text"],
        )

    # -- mishaps -------------------------------------------------------------------------------------------------------
    def slack_fails(self, method: str, code: str) -> None:
        self._slack.post("fault", {"method": method, "kind": "error", "code": code, "times": None})

    def slack_works(self) -> None:
        self._slack.post("clear_faults", {})

    def script(self, **step: Any) -> None:
        self._model("script", step)

    def end_script(self) -> None:
        """Steps that nobody has asked for yet are forgotten."""
        self._model("clear", {})

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._model("requests?after=0")
        return found

    def _model(self, what: str, body: Mapping[str, Any] | None = None) -> Any:
        bot: RunningBot | None = Workspace(self._root).running_bot()
        if bot is None:
            raise CommandError("the demo's bot is gone")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{bot.control.model}{what}", data, {"Authorization": f"Bearer {bot.control.token}"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=20) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise CommandError(f"the embedded model does not answer ({error})") from error

    # -- the operator --------------------------------------------------------------------------------------------------
    @property
    def memory(self) -> MemoryFiles:
        return MemoryFiles(self._root)

    def command(self, *argv: str, codes: tuple[int, ...] = (0,), root: Path | None = None) -> str:
        """What `insomnia` prints in this workspace, or in another one, where no bot runs. `codes`: what it may end with."""
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        whole = [sys.executable, "-m", "bot", *argv, "--workspace", str(root or self._root)]
        done = subprocess.run(whole, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS, check=False)
        if done.returncode not in codes:
            raise CommandError(f"insomnia {' '.join(argv)} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode()

    @staticmethod
    def patience() -> Iterator[None]:
        """For what nobody announces."""
        for _ in range(LOOKS):
            yield
            time.sleep(LOOK_SECONDS)

    def consolidate(self, root: Path | None = None) -> list[dict[str, Any]]:
        """How its runs ended, those that failed too."""
        found: list[dict[str, Any]] = json.loads(self.command("memory", "run", "consolidation", "--json", codes=(0, 1), root=root))
        return found

    # -- traces --------------------------------------------------------------------------------------------------------
    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of one reply, once its root has arrived."""

        def arrived(receiver: Receiver) -> bool:
            return any(s["trace_id"] == trace_id and not s["parent_id"] for s in receiver.spans)

        self._receiver.wait_for(arrived, TRACE_SECONDS)
        return sorted((s for s in self._receiver.spans if s["trace_id"] == trace_id), key=lambda s: s["start"])

    def resets(self, cause: str) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            spans = self._receiver.spans
            return [s for s in spans if s["name"] == "session.reset" and s["attributes"]["insomnia.reset.cause"] == cause]

        self._receiver.wait_for(lambda _: bool(found()), TRACE_SECONDS)
        return found()
