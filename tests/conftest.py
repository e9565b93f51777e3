"""What every test stands on: no credential and no proxy of this machine, no socket in a unit test, no silent omission."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from typing import Any, NoReturn

import hypothesis
import pytest

OF_THE_MACHINE = ("SLACK_", "ANTHROPIC_", "CLAUDE_", "OTEL_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BEYOND_UNIT = ("cli", "slack", "kill", "root")
LEFT_OUT = pytest.StashKey[dict[str, int]]()

hypothesis.settings.register_profile("house", deadline=None)  # the machine's speed is not what is tested
hypothesis.settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        if name.startswith(OF_THE_MACHINE) or name.lower() in PROXIES:
            del os.environ[name]
    config.stash[LEFT_OUT] = {}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background; what tests start would not hear Ctrl-C either
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Outside of CI what this machine cannot run is left out, and said so at the end; in CI it runs, and fails."""
    if _in_ci():
        return
    kept, dropped = [], []
    for item in items:
        why = next((how for marker, how in _missing().items() if item.get_closest_marker(marker)), None)
        (kept if why is None else dropped).append(item)
        if why:
            config.stash[LEFT_OUT][why] = config.stash[LEFT_OUT].get(why, 0) + 1
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for how, count in config.stash[LEFT_OUT].items():
        terminalreporter.write_line(f"left out: {count} tests; {how}", yellow=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _in_ci() and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        reporter.write_line("\nCI accepts no skipped test", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


def _missing() -> dict[str, str]:
    missing = {}
    if not shutil.which("claude") and importlib.util.find_spec("claude_agent_sdk") is None:
        missing["cli"] = "they need the Claude CLI: pip install 'insomnia-bot[claude]'"
    if os.geteuid() != 0:
        missing["root"] = "they need root: run them as root, in a container for instance"
    return missing


@pytest.fixture(autouse=True)
def _no_socket_in_a_unit_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not any(request.node.get_closest_marker(marker) for marker in BEYOND_UNIT):
        monkeypatch.setattr(socket.socket, "connect", _refused)
        monkeypatch.setattr(socket.socket, "bind", _refused)
    yield


def _refused(opened: socket.socket, *_: object) -> NoReturn:
    opened.close()
    raise AssertionError("a unit test opens no socket: mark it (slack, cli, kill) or give it a fake")
