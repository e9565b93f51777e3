"""The doctor's page as a person sees it, its JSON and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bot.cli import dispatch
from bot.cli.doctor import page
from bot.doctor.seen import Finding, Level
from bot.slack_app import BOT_SCOPES, EVENTS, OPTIONAL_SCOPES

README = Path(__file__).parents[3] / "README.md"
FOUND = [
    Finding(check="slack_token", level=Level.OK, found="Slack knows the bot"),
    Finding(check="clock", level=Level.WARN, found="this machine's clock is 60 s behind Slack's", mend="let the machine set its clock"),
    Finding(check="disk", level=Level.FAIL, found="0.0 GiB free", mend="make room"),
]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SLACK_API_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def test_what_to_do_stands_below_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.cli.terminal.is_utf8", lambda: True)

    assert page(FOUND).splitlines() == [
        "✓ slack_token  Slack knows the bot",
        "! clock        this machine's clock is 60 s behind Slack's",
        "               let the machine set its clock",
        "✗ disk         0.0 GiB free",
        "               make room",
        "",
        "1 failure and 1 warning; what to do stands below each.",
    ]


def test_a_sound_workspace_ends_with_0_and_a_broken_one_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = dispatch(["doctor", "--workspace", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    (tmp_path / "insomnia.toml").write_text("[slack]\nuser = 1\n", encoding="utf-8")
    broken = dispatch(["doctor", "--workspace", str(tmp_path)])
    page_of_broken = capsys.readouterr().out

    assert (sound, told["ok"]) == (0, True) and {"check", "level", "found", "mend"} == set(told["findings"][0])
    assert broken == 1 and "configuration" in page_of_broken and "1 failure" in page_of_broken
    assert dispatch(["doctor", "--workspace", str(tmp_path / "nowhere")]) == 2


def test_readme_names_the_scopes_and_events_that_the_doctor_asks_for() -> None:
    text = README.read_text(encoding="utf-8")
    (scopes,) = re.findall(r"- the bot scopes (.*);", text)
    (events,) = re.findall(r"- the bot events (.*)\.", text)

    assert re.findall(r"`([^`]+)`", scopes) == [*BOT_SCOPES, *OPTIONAL_SCOPES]
    assert re.findall(r"`([^`]+)`", events) == list(EVENTS)
