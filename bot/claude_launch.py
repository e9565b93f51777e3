"""How a CLI process is started: which binary, which arguments, which environment. Pure but for looking for the binary.

The environment is built from nothing, so no Slack token can reach the child. Nothing that a person wrote stands in argv,
which every user of the machine can read. Each flag here closes a hole that was measured (docs/decisions/claude-cli.md).
"""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bot.claude_mcp import config_arguments, full_names
from bot.ports import Launch

OLDEST = (2, 1, 248)  # before it, `client_composed` is not known and Slack text could pull in files
HOW_TO_INSTALL = (
    "Install it with `pip install 'insomnia-bot[claude]'` (it carries Anthropic's Claude CLI, under Anthropic's terms), "
    "put `claude` on PATH, or set claude.path in insomnia.toml."
)
DENY_ALL = ["Read(//**)"]  # a second lock beside client_composed; it would kill a Read tool, so routes with tools get DENY_NARROW
DENY_NARROW = ["Read(//etc/**)", "Read(//proc/**)", "Read(//run/**)", "Read(~/.*)", "Read(~/.*/**)", "Read(**/.insomnia/**)"]
KEEP_TRANSCRIPT_DAYS = 3650  # the CLI deletes transcripts after 30 days by itself: another way to forget
API_RETRIES = 3  # ten, the default, are three minutes of silence on a bad key
API_TIMEOUT_MS = 300_000


class CliNotFound(Exception):
    """No CLI, or one that is too old; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Cli:
    path: Path
    version: str
    source: str  # configuration | PATH | wheel


def find_cli(configured: str, *, path_variable: str | None = None) -> Cli:
    """`claude.path`, then PATH, then the wheel's own binary (located without importing its package)."""
    if configured:
        if not os.access(configured, os.X_OK):
            raise CliNotFound(f"claude.path is {configured!r}, and there is no program there. {HOW_TO_INSTALL}")
        return _checked(Path(configured), "configuration")
    if on_path := shutil.which("claude", path=path_variable):
        return _checked(Path(on_path), "PATH")
    spec = importlib.util.find_spec("claude_agent_sdk")
    bundled = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else None
    if bundled and os.access(bundled, os.X_OK):
        return _checked(bundled, "wheel")
    raise CliNotFound(f"There is no Claude CLI on this machine. {HOW_TO_INSTALL}")


def _checked(path: Path, source: str) -> Cli:
    version = _version(path)
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise CliNotFound(f"The Claude CLI at {path} is version {version or 'unknown'}; {oldest} or newer is needed. {HOW_TO_INSTALL}")
    return Cli(path, version, source)


def _version(path: Path) -> str:
    told = path.with_name(path.name + ".version")  # the wheel says it in a file: no process needed
    if told.exists():
        return _first_word(told.read_text(encoding="utf-8"))
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # no secret, here neither
    try:
        ran = subprocess.run([path, "--version"], env=env, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise CliNotFound(f"The Claude CLI at {path} does not run ({type(e).__name__}). {HOW_TO_INSTALL}") from e
    return _first_word(ran.stdout)


def _first_word(text: str) -> str:
    return (text.split() or [""])[0]


def arguments(cli: Path, launch: Launch, *, prompt_file: Path) -> list[str]:
    tools = ",".join(launch.tools)
    allowed = ",".join([*launch.tools, *full_names(launch.own_tools)])
    settings = {"permissions": {"deny": DENY_NARROW if launch.tools else DENY_ALL}, "cleanupPeriodDays": KEEP_TRANSCRIPT_DAYS}
    return [
        str(cli),
        "-p",
        *("--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
        *(("--resume", launch.session_id) if launch.resume else ("--session-id", launch.session_id)),
        *(("--no-session-persistence",) if launch.one_shot else ()),
        *(("--max-turns", str(launch.max_calls)) if launch.max_calls else ()),
        *("--model", launch.model, "--autocompact", str(launch.autocompact)),
        *(f"--tools={tools}", *(("--allowedTools", allowed) if allowed else ()), "--permission-mode", "dontAsk"),
        *("--strict-mcp-config", *config_arguments(launch.own_tools), "--setting-sources=", "--settings", json.dumps(settings)),
        *("--system-prompt-file", str(prompt_file), "--system-prompt-snapshot", "off"),
    ]


def environment(
    launch: Launch, *, config_dir: Path, runtime_dir: Path, cache_dir: Path, base_url: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """`inherited`: this process's own variables, of which only the harmless and the needed are taken.

    `cache_dir`: where the CLI writes what our tools refused; by default that would be the home directory.
    """
    keep = ("PATH", "HOME", "LANG", "TZ") + (
        () if _loopback(base_url) else ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE")
    )
    env = {name: inherited[name] for name in keep if name in inherited} | {
        "CLAUDE_CONFIG_DIR": str(config_dir),
        "XDG_RUNTIME_DIR": str(runtime_dir),
        "XDG_CACHE_HOME": str(cache_dir),
        "CLAUDE_CODE_MAX_RETRIES": str(API_RETRIES),
        "API_TIMEOUT_MS": str(API_TIMEOUT_MS),
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    env.setdefault("PATH", os.defpath)
    env.setdefault("LANG", "C.UTF-8")
    if base_url:
        env["ANTHROPIC_BASE_URL"] = base_url
    if launch.credential:
        env[launch.credential[0]] = launch.credential[1]
    return env


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
