"""Which CLI, which arguments, which environment."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.claude_launch import DENY_ALL, DENY_NARROW, Cli, CliNotFound, arguments, environment, find_cli
from bot.ports import Launch

LAUNCH: dict[str, Any] = dict(key="main", session_id="u-1", resume=False, model="m", autocompact=200_000, system_prompt="Be Insomnia.")
LOOPBACK = "http://127.0.0.1:4310"
OWN_VARIABLES = {
    "PATH": "/usr/bin",
    "HOME": "/home/bot",
    "LANG": "ja_JP.UTF-8",
    "TZ": "Asia/Tokyo",
    "SLACK_BOT_TOKEN": "xoxb-secret",
    "SLACK_APP_TOKEN": "xapp-secret",
    "ANTHROPIC_API_KEY": "sk-other-account",
    "CLAUDE_CODE_OAUTH_TOKEN": "oauth-other-account",
    "ANTHROPIC_BASE_URL": "https://elsewhere.example",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "GITHUB_TOKEN": "gh-secret",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "NODE_OPTIONS": "--require /tmp/evil.js",
    "LD_PRELOAD": "/tmp/evil.so",
    "HTTPS_PROXY": "http://user:word@proxy:3128",
    "https_proxy": "http://proxy:3128",
    "NO_PROXY": "localhost",
}


def program(folder: Path, says: str, *, name: str = "claude") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A wheel of the SDK whose binary must not be run: its version stands in a file."""
    bundled = program(tmp_path / "wheel" / "_bundled", "exit 9")
    (bundled.parent / "claude.version").write_text("2.1.332 (Claude Code)\n")
    spec = SimpleNamespace(origin=str(tmp_path / "wheel" / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "claude_agent_sdk" else None)
    return bundled


# -- which one -------------------------------------------------------------------------------------------------------
def test_the_configured_cli_comes_before_all_others(tmp_path: Path, wheel: Path) -> None:
    mine = program(tmp_path / "mine", "echo '2.1.400 (Claude Code)'", name="my-claude")
    program(tmp_path / "bin", "echo 2.1.300")

    assert find_cli(str(mine), path_variable=str(tmp_path / "bin")) == Cli(mine, "2.1.400", "configuration")


def test_the_one_on_the_path_comes_before_the_wheels(tmp_path: Path, wheel: Path) -> None:
    on_path = program(tmp_path / "bin", "echo '2.1.300 (Claude Code)'")

    assert find_cli("", path_variable=str(tmp_path / "bin")) == Cli(on_path, "2.1.300", "PATH")


def test_the_wheels_own_is_found_without_importing_or_running_anything(tmp_path: Path, wheel: Path) -> None:
    assert find_cli("", path_variable=str(tmp_path)) == Cli(wheel, "2.1.332", "wheel")


def test_without_any_cli_a_person_learns_how_to_get_one(tmp_path: Path, no_wheel: None) -> None:
    with pytest.raises(CliNotFound, match=r"no Claude CLI on this machine.*pip install 'insomnia-bot\[claude\]'.*PATH.*claude\.path"):
        find_cli("", path_variable=str(tmp_path))


def test_a_configured_path_with_nothing_there_is_named_and_nothing_else_is_taken(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(CliNotFound, match=r"claude\.path is '/nowhere/claude'"):
        find_cli("/nowhere/claude", path_variable=str(tmp_path))


@pytest.mark.parametrize("version", ["2.1.247 (Claude Code)", "2.0.999", "1.9", "", "unknown"])
def test_a_cli_that_knows_no_composed_messages_is_refused(tmp_path: Path, version: str) -> None:
    old = program(tmp_path, f"echo '{version}'")

    with pytest.raises(CliNotFound, match=r"2\.1\.248 or newer is needed"):
        find_cli(str(old))


@pytest.mark.parametrize("version", ["2.1.248", "2.2.0 (Claude Code)", "3.0.0-beta.1"])
def test_the_oldest_that_will_do_and_any_later_one_are_taken(tmp_path: Path, version: str) -> None:
    assert find_cli(str(program(tmp_path, f"echo '{version}'"))).version == version.split()[0]


def test_a_program_that_does_not_run_is_not_taken(tmp_path: Path) -> None:
    broken = program(tmp_path, "")
    broken.write_bytes(b"\x7fELF and nothing more")

    with pytest.raises(CliNotFound, match="does not run"):
        find_cli(str(broken))
    with pytest.raises(CliNotFound, match="does not run"):
        find_cli(str(tmp_path))


def test_asking_for_the_version_gives_no_secret_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    asked = program(tmp_path, f"env > {tmp_path}/seen; echo 2.1.332")

    find_cli(str(asked))

    assert "xoxb-secret" not in (tmp_path / "seen").read_text()


# -- arguments -------------------------------------------------------------------------------------------------------
def test_a_route_without_tools_is_started_with_exactly_these_arguments() -> None:
    settings = {"permissions": {"deny": ["Read(//**)"]}, "cleanupPeriodDays": 3650}

    argv = arguments(Path("/opt/claude"), Launch(**LAUNCH), prompt_file=Path("/state/system-prompt.txt"))

    assert argv == [
        *("/opt/claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--session-id", "u-1", "--model", "m", "--autocompact", "200000"),
        *("--tools=", "--permission-mode", "dontAsk", "--strict-mcp-config", "--setting-sources=", "--settings", json.dumps(settings)),
        *("--system-prompt-file", "/state/system-prompt.txt", "--system-prompt-snapshot", "off"),
    ]


def test_a_session_is_carried_on_by_its_id_and_never_begun_at_the_same_time() -> None:
    argv = arguments(Path("/opt/claude"), Launch(**{**LAUNCH, "resume": True}), prompt_file=Path("/p"))

    assert argv[argv.index("--resume") + 1] == "u-1"
    assert "--session-id" not in argv


def test_nothing_that_a_person_wrote_and_no_credential_stands_in_the_arguments() -> None:
    launch = Launch(**LAUNCH, credential=("ANTHROPIC_API_KEY", "sk-secret"))

    argv = " ".join(arguments(Path("/opt/claude"), launch, prompt_file=Path("/p")))

    assert "Be Insomnia" not in argv and "sk-secret" not in argv


def test_a_route_with_tools_gets_these_alone_and_may_not_read_secrets_of_the_machine() -> None:
    argv = arguments(Path("/opt/claude"), Launch(**LAUNCH, tools=("Read", "Grep")), prompt_file=Path("/p"))
    settings = json.loads(argv[argv.index("--settings") + 1])

    assert "--tools=Read,Grep" in argv
    assert argv[argv.index("--allowedTools") + 1] == "Read,Grep"
    assert settings["permissions"]["deny"] == DENY_NARROW
    assert not set(DENY_ALL) & set(DENY_NARROW)
    assert {"Read(//etc/**)", "Read(//proc/**)", "Read(//run/**)", "Read(~/.*/**)", "Read(**/.insomnia/**)"} <= set(DENY_NARROW)


# -- environment -----------------------------------------------------------------------------------------------------
def child(base_url: str = LOOPBACK, *, inherited: dict[str, str] = OWN_VARIABLES, **more: Any) -> dict[str, str]:
    launch = Launch(**{**LAUNCH, "credential": ("ANTHROPIC_API_KEY", "sk-this-account"), **more})
    folders = {"config_dir": Path("/s/claude"), "runtime_dir": Path("/s/run"), "cache_dir": Path("/s/claude/cache")}
    return environment(launch, **folders, base_url=base_url, inherited=inherited)


def test_the_environment_is_built_from_nothing() -> None:
    assert child() == {
        "PATH": "/usr/bin",
        "HOME": "/home/bot",
        "LANG": "ja_JP.UTF-8",
        "TZ": "Asia/Tokyo",
        "CLAUDE_CONFIG_DIR": "/s/claude",
        "XDG_RUNTIME_DIR": "/s/run",
        "XDG_CACHE_HOME": "/s/claude/cache",
        "CLAUDE_CODE_MAX_RETRIES": "3",
        "API_TIMEOUT_MS": "300000",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "ANTHROPIC_BASE_URL": LOOPBACK,
        "ANTHROPIC_API_KEY": "sk-this-account",
    }


def test_the_one_credential_is_the_accounts_whatever_the_bots_own_variables_say() -> None:
    env = child("", credential=("CLAUDE_CODE_OAUTH_TOKEN", "oauth-this-account"))

    assert env["CLAUDE_CODE_OAUTH_TOKEN"] == "oauth-this-account"
    assert not {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"} & set(env)


def test_without_a_credential_none_is_taken_from_elsewhere() -> None:
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"} & set(child(credential=None))


@pytest.mark.parametrize("url", [LOOPBACK, "http://localhost:1", "http://[::1]:1", "http://127.9.9.9"])
def test_a_model_on_this_machine_is_not_asked_through_a_proxy(url: str) -> None:
    assert not [name for name in child(url) if "proxy" in name.lower()]


@pytest.mark.parametrize("url", ["", "https://models.example", "http://127.0.0.1.example", "http://localhost.example", "http://10.0.0.1"])
def test_any_other_model_is(url: str) -> None:
    env = child(url)

    assert (env["HTTPS_PROXY"], env["https_proxy"], env["NO_PROXY"]) == ("http://user:word@proxy:3128", "http://proxy:3128", "localhost")


def test_a_bot_with_no_variables_at_all_still_gives_what_the_cli_needs() -> None:
    env = child(inherited={})

    assert (env["PATH"], env["LANG"]) == (os.defpath, "C.UTF-8")
