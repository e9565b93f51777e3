"""Planted faults: for each the doctor names the right thing, at the right weight, with a mend; and a sound workspace is called sound."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.doctor import collect as collecting
from bot.doctor.collect import collect
from bot.doctor.rules import findings
from bot.doctor.seen import Finding, Level, Seen, SlackSeen, StateSeen
from bot.local.model import EmbeddedModel
from bot.local.slack import EmbeddedSlack
from bot.slack_app import OPTIONAL_SCOPES
from bot.workspace import RunningBot, Workspace
from telemetry.status_file import AccountStatus, Status, dumps, write_private_atomic
from tests.memory.consolidating import candidate, stage
from tests.memory.made_records import put, text_of

pytestmark = pytest.mark.slack

BOT_TOKEN, APP_TOKEN, KEY = "xoxb-100-embedded", "xapp-1-embedded-100", "sk-ant-api03-of-the-doctor"


@dataclass
class Patient:
    """A sound bot on loopback: everything below is changed by one fault."""

    workspace: Workspace
    slack: EmbeddedSlack
    env: dict[str, str]
    toml: str = '[accounts.main]\nkey_env = "ANTHROPIC_API_KEY"\n'
    clock_off: float = 0.0
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    async def examined(self) -> list[Finding]:
        (self.workspace.root / "insomnia.toml").write_text(self.toml, encoding="utf-8")
        seen = await asyncio.to_thread(lambda: collect(self.workspace, self.env, now=lambda: time.time() + self.clock_off))
        return findings(seen)


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Patient]:
    workspace = Workspace(tmp_path)
    workspace.prepare()
    async with (
        EmbeddedSlack(tmp_path / ".insomnia" / "local", control_token="secret-of-the-test") as slack,
        EmbeddedModel(control_token="secret-of-the-test") as model,
    ):
        env = {
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "SLACK_API_URL": slack.url,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": model.url,
        }
        patient = Patient(workspace, slack, env)
        yield patient
        patient.patch.undo()


Plant = Callable[[Patient], Any]


def sets(**env: str) -> Plant:
    return lambda patient: patient.env.update(env)


def slack_says(method: str, code: str) -> Plant:
    return lambda patient: patient.slack.faults.add(method, "error", code=code)


def toml(text: str) -> Plant:
    def plant(patient: Patient) -> None:
        patient.toml += text

    return plant


def without_scope(scope: str) -> Plant:
    from bot.local import slack_api

    scopes = ",".join(each for each in slack_api.SCOPES.split(",") if each != scope)
    return lambda patient: patient.patch.setattr(slack_api, "SCOPES", scopes)


def clock(seconds: float) -> Plant:
    def plant(patient: Patient) -> None:
        patient.clock_off = seconds

    return plant


def disk(free: int) -> Plant:
    usage = type("Usage", (), {"free": free})
    return lambda patient: patient.patch.setattr(collecting.shutil, "disk_usage", lambda _: usage)


def old_cli(patient: Patient) -> None:
    path = patient.workspace.root / "claude"
    path.write_text("#!/bin/sh\necho 2.0.1\n", encoding="utf-8")
    path.chmod(0o755)
    patient.toml += '\n[claude]\npath = "claude"\n'


def newer_cli(patient: Patient) -> None:
    old_cli(patient)
    (patient.workspace.root / "claude").write_text("#!/bin/sh\necho 3.0.0\n", encoding="utf-8")


def damaged_database(patient: Patient) -> None:
    with sqlite3.connect(patient.workspace.state_db) as db:
        db.execute("CREATE TABLE t (a)")
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    content = bytearray(patient.workspace.state_db.read_bytes())
    content[4_096:12_288] = b"\xff" * 8_192
    patient.workspace.state_db.write_bytes(content)


def invalid_candidate(patient: Patient) -> None:
    folder = patient.workspace.state / "memory" / "_staging" / "_invalid" / "b"
    folder.mkdir(parents=True)
    (folder / "b.000.json").write_text("{", encoding="utf-8")


def broken_journal(patient: Patient) -> None:
    folder = patient.workspace.state / "memory" / "_state"
    folder.mkdir(exist_ok=True)
    (folder / "journal.json").write_text("{", encoding="utf-8")


def broken_record(patient: Patient) -> None:
    put(patient.workspace.state, text_of(status="actve"))


def readable(patient: Patient) -> None:
    patient.workspace.sessions.chmod(0o755)


def closed_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def shadowed(patient: Patient) -> None:
    (patient.workspace.root / "dashboards").mkdir()
    (patient.workspace.root / "dashboards" / "__init__.py").touch()
    import sys

    patient.patch.delitem(sys.modules, "dashboards", raising=False)
    patient.patch.syspath_prepend(str(patient.workspace.root))


def outdated(patient: Patient) -> None:
    real = collecting.importlib.metadata.version
    patient.patch.setattr(collecting.importlib.metadata, "version", lambda name: "2.0.0" if name == "slack_sdk" else real(name))


F, W = Level.FAIL, Level.WARN
FAULTS: dict[str, tuple[Plant, str, Level, str]] = {
    "no such setting": (toml("\n[slack]\nuser = 1\n"), "configuration", F, "user"),
    "app token missing": (lambda patient: patient.env.pop("SLACK_APP_TOKEN"), "configuration", F, "SLACK_APP_TOKEN"),
    "bot token of another shape": (sets(SLACK_BOT_TOKEN="abc-123"), "token_shape", F, "SLACK_BOT_TOKEN"),
    "app token of another shape": (sets(SLACK_APP_TOKEN="abc-123"), "token_shape", F, "SLACK_APP_TOKEN"),
    "bot token revoked": (slack_says("auth.test", "token_revoked"), "slack_token", F, "was revoked"),
    "slack unreachable": (lambda patient: patient.env.update(SLACK_API_URL=closed_port() + "/api/"), "slack_token", F, "connection"),
    "app token without its scope": (slack_says("apps.connections.open", "missing_scope"), "app_token", F, "missing_scope"),
    "a scope is missing": (without_scope("users:read"), "scopes", W, "users:read"),
    "an essential scope is missing": (without_scope("chat:write"), "scopes", F, "chat:write"),
    "not in a channel": (toml('\n[routes.main]\nchannels = ["no-such-channel"]\n'), "membership", F, "no-such-channel"),
    "clock behind": (clock(-60), "clock", W, "behind"),
    "clock ahead": (clock(600), "clock", F, "ahead"),
    "no cli": (toml('\n[claude]\npath = "nowhere"\n'), "claude_cli", F, "no program"),
    "cli too old": (old_cli, "claude_cli", F, "2.0.1"),
    "cli untested": (newer_cli, "claude_cli", W, "3.0.0"),
    "model unreachable": (lambda patient: patient.env.update(ANTHROPIC_BASE_URL=closed_port()), "endpoint", F, "main"),
    "account without a key": (toml('\n[accounts.second]\nkey_env = "SECOND_KEY"\n'), "credentials", W, "second"),
    "disk nearly full": (disk(500 << 20), "disk", W, "0.5 GiB"),
    "disk full": (disk(1 << 20), "disk", F, "0.0 GiB"),
    "state readable by others": (readable, "workspace", W, "sessions"),
    "database damaged": (damaged_database, "state_db", F, "damaged"),
    "record broken": (broken_record, "memory", W, "1 error"),
    "candidate put aside": (invalid_candidate, "memory", W, "1 staged file"),
    "journal damaged": (broken_journal, "memory", F, "journal.json"),
    "collector down": (lambda patient: patient.env.update(OTEL_EXPORTER_OTLP_ENDPOINT=closed_port()), "otlp", W, "no connection"),
    "mixed route": (toml('\n[routes.main]\nchannels = ["*"]\nmixed = true\n'), "routes", W, "main"),
    "package shadowed": (shadowed, "packages", F, "dashboards"),
    "package outdated": (outdated, "packages", W, "slack_sdk"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_doctor_names_the_fault_and_nothing_else(fault: str, patient: Patient) -> None:
    plant, check, level, word = FAULTS[fault]
    before = {(each.check, each.found) for each in await patient.examined() if each.level in (F, W)}
    plant(patient)

    found = [each for each in await patient.examined() if each.level in (F, W) and (each.check, each.found) not in before]

    assert before == set()
    assert {(each.check, each.level) for each in found} >= {(check, level)}, found
    named = next(each for each in found if each.check == check)
    assert word in named.found and named.mend
    assert len(found) == 1 or "of another shape" in fault  # which Slack does not know either


async def test_a_sound_bot_is_called_sound(patient: Patient) -> None:
    stage(patient.workspace.state, candidate("Lunch is at noon."))

    found = await patient.examined()

    assert {each.level for each in found} <= {Level.OK, Level.INFO}
    assert {"slack_token", "app_token", "scopes", "membership", "clock", "claude_cli", "credentials", "disk", "state_db"} <= {
        each.check for each in found if each.level is Level.OK
    }


@pytest.mark.parametrize("scope", OPTIONAL_SCOPES)
async def test_a_scope_that_is_a_courtesy_is_mentioned_and_nothing_is_wrong(patient: Patient, scope: str) -> None:
    without_scope(scope)(patient)

    found = [each for each in await patient.examined() if scope in each.found]

    assert [(each.check, each.level) for each in found] == [("scopes", Level.INFO)] and "if you want that" in found[0].mend


async def test_a_refused_key_is_told_from_an_endpoint_that_is_down(patient: Patient) -> None:
    async def refuses(request: web.Request) -> web.Response:
        assert request.headers["x-api-key"] == KEY
        return web.json_response({"error": "no"}, status=401)

    app = web.Application()
    app.router.add_get("/v1/models", refuses)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    patient.env["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        found = await patient.examined()
    finally:
        await runner.cleanup()

    (refused,) = [each for each in found if each.level is F]
    assert refused.check == "credentials" and "401" in refused.found and "new key" in refused.mend


async def test_what_the_running_bot_says_of_its_accounts_and_sockets_is_told(patient: Patient) -> None:
    workspace = patient.workspace
    with workspace.lock():
        workspace.publish(RunningBot(pid=4242, started_at=1.0, version="0.1.0", slack="socket"))
        rests = AccountStatus(name="main", state="limited", until=time.time() + 3_600)
        status = Status(pid=4242, at=time.time(), slack_mode="socket", model_kind="anthropic", accounts=(rests,), connections=2)
        write_private_atomic(workspace.status_json, dumps(status))
        found = {each.check: each for each in await patient.examined() if each.level is not Level.OK}

    assert found["bot"].found == "it is running"
    assert found["credentials"].found.startswith("the account main waits until 20") and found["credentials"].level is W
    assert found["sockets"].found == "2 connections are open on this app token" and found["sockets"].level is W


async def test_what_cannot_be_looked_at_is_not_called_sound(patient: Patient) -> None:
    put(patient.workspace.state, text_of())
    patient.patch.setattr(collecting, "Store", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))

    with patient.workspace.lock():
        patient.workspace.bot_json.write_text("{}", encoding="utf-8")
        found = {each.check: each for each in await patient.examined()}

    assert (found["memory"].level, found["memory"].found) == (W, "the records could not be looked through")
    assert "cannot be told" in found["bot"].found


def test_a_person_s_token_and_a_folder_of_somebody_else_are_named() -> None:
    seen = Seen(slack_kind="socket", slack=SlackSeen(is_bot=False), state=StateSeen(unwritable=["/srv/bot/.insomnia"]))

    found = {each.check: each for each in findings(seen) if each.level is F}

    assert "person's token" in found["slack_token"].found and "chown" in found["workspace"].mend


async def test_an_endpoint_that_wants_no_key_is_looked_at_too(patient: Patient) -> None:
    patient.env.pop("ANTHROPIC_API_KEY")
    patient.toml = ""

    sound = [each for each in await patient.examined() if each.check in ("credentials", "endpoint")]
    patient.env["ANTHROPIC_BASE_URL"] = closed_port()
    down = [each for each in await patient.examined() if each.check == "endpoint"]

    assert [each.level for each in sound] == [Level.OK] and [each.level for each in down] == [F]


async def test_no_secret_is_in_what_the_doctor_says_and_nothing_is_written(patient: Patient) -> None:
    await patient.examined()
    before = sorted((str(path), path.stat().st_mtime_ns) for path in patient.workspace.root.rglob("*") if "local" not in path.parts)

    told = json.dumps([str(each) for each in await patient.examined()])

    after = sorted((str(path), path.stat().st_mtime_ns) for path in patient.workspace.root.rglob("*") if "local" not in path.parts)
    assert not any(secret in told for secret in (BOT_TOKEN, APP_TOKEN, KEY))
    assert [each for each in after if "insomnia.toml" not in each[0]] == [each for each in before if "insomnia.toml" not in each[0]]
