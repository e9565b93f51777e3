"""The real Claude CLI against the embedded model: what the rest of the bot's tests build on."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.local.model import EmbeddedModel

pytestmark = pytest.mark.cli
TURN_SECONDS = 60.0
NOT_HELD = "I have no earlier message of this thread in my context."
ROOT = "2026-10-28T10:03:11+09:00 Alice Tanaka (U0ALICE, person): we moved the release ⏎ to Friday"
LUNCH = "2026-10-29T09:00:00+09:00 Bob (U0BOB, person): lunch is on Thursday"
Line = dict[str, Any]
OpenCli = Callable[..., AbstractAsyncContextManager["Cli"]]


def find_claude() -> str:
    spec = importlib.util.find_spec("claude_agent_sdk")
    bundled = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else None
    return os.environ.get("INSOMNIA_CLAUDE") or (str(bundled) if bundled and bundled.exists() else "")


def prompt(question: str, *lines: str, thread: str = "T0/C0/1761.000100") -> str:
    nonce = uuid.uuid4().hex[:8]
    quoted = "".join(f"{line}\n" for line in lines)
    section = f'<thread-{nonce} id="{thread}" messages="{len(lines)}">\n{quoted}</thread-{nonce}>\n' if lines else ""
    head = f'<message-{nonce} channel="#general" id="{thread}" at="2026-11-30T12:00:00+09:00" from="Carol (U0CAROL, person)">'
    return f"{section}{head}\n{question}\n</message-{nonce}>"


class Cli:
    """One resident process; a turn is a line in and lines out up to its result."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def turn(self, text: str, *, composed: bool = True) -> list[Line]:
        assert self._process.stdin is not None
        message = {"role": "user", "content": text}
        line = {"type": "user", "uuid": str(uuid.uuid4()), "client_composed": composed, "message": message, "parent_tool_use_id": None}
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        async with asyncio.timeout(TURN_SECONDS):
            return [line async for line in self._until_result()]

    async def _until_result(self) -> AsyncIterator[Line]:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line: Line = json.loads(raw)
            yield line
            if line["type"] == "result":
                return
        raise AssertionError(f"the CLI ended with {await self._process.wait()}")


def kinds(lines: list[Line]) -> list[str]:
    return [line.get("subtype") or line["type"] for line in lines]


@pytest.fixture
async def model() -> AsyncIterator[EmbeddedModel]:
    async with EmbeddedModel(control_token="made-up-token") as running:
        yield running


@pytest.fixture
def open_cli(model: EmbeddedModel, tmp_path: Path) -> OpenCli:
    claude = find_claude()
    if not claude:
        pytest.skip("no Claude CLI: install insomnia-bot[claude] or set INSOMNIA_CLAUDE")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "made-up-key",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    arguments = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--model", "claude-opus-5-5"]
    arguments += [
        "--autocompact",
        "100000",
        "--tools",
        "",
        "--strict-mcp-config",
        "--setting-sources=",
        "--system-prompt",
        "You are Insomnia.",
    ]

    @asynccontextmanager
    async def opened() -> AsyncIterator[Cli]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            claude, *arguments, env=environment, cwd=tmp_path, stdin=pipe, stdout=pipe, limit=64 * 2**20
        )
        try:
            yield Cli(process)
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 10)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return opened


async def test_turns_are_answered_from_the_context_that_the_cli_keeps(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        first = await cli.turn(prompt("when is the release?", ROOT, LUNCH))
        second = await cli.turn(prompt("and when do we have lunch?"))
        elsewhere = await cli.turn(prompt("when is the release?", thread="T0/C0/1762.000200"))

    assert "“we moved the release to Friday”" in first[-1]["result"] and "I hold 2 messages" in first[-1]["result"]
    assert "“lunch is on Thursday”" in second[-1]["result"]
    assert elsewhere[-1]["result"].startswith(NOT_HELD)
    assert len({request.session_id for request in model.requests}) == 1 and model.requests[0].session_id == first[-1]["session_id"]
    assert model.requests[0].key == "made-up-key"
    assert first[-1]["usage"]["input_tokens"] < 10 < first[-1]["usage"]["cache_creation_input_tokens"]


async def test_a_high_usage_compacts_before_the_next_answer_and_the_thread_is_gone(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        await cli.turn(prompt("when is the release?", ROOT))
        model.script.usage(90_000)
        await cli.turn(prompt("hm?", thread="T0/C0/1762.000200"))
        compacted = await cli.turn(prompt("when is the release?"))

    assert kinds(compacted).index("compact_boundary") < kinds(compacted).index("assistant")
    assert compacted[-1]["result"].startswith(NOT_HELD)
    assert [request.is_compaction for request in model.requests] == [False, False, True, False]
    assert "Friday" not in model.requests[-1].messages_text


async def test_the_bots_own_compaction_leaves_the_threads_name_and_not_its_text(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        await cli.turn(prompt("hello", ROOT, LUNCH, thread="T0/C0/1762.000200"))
        await cli.turn(prompt("hm?"))
        compacted = await cli.turn("/compact", composed=False)
        after = await cli.turn(prompt("when is the release?", thread="T0/C0/1762.000200"))

    assert "compact_boundary" in kinds(compacted)
    assert after[-1]["result"].startswith(NOT_HELD)
    assert "- thread T0/C0/1762.000200 began:" in model.requests[-1].messages_text


async def test_a_tool_loop_compacts_inside_the_turn_and_loses_its_own_prompt(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        await cli.turn(prompt("hello"))
        model.script.tool("no_such_tool", {"q": "x"}, usage=90_000)
        looped = await cli.turn(prompt("when is the release?", ROOT))

    assert kinds(looped).count("compact_boundary") == 1
    assert looped[-1]["result"].startswith(NOT_HELD) and looped[-1]["is_error"] is False
    assert "Open request in thread T0/C0/1761.000100" in model.requests[-1].messages_text


async def test_a_prompt_that_is_too_long_is_compacted_and_asked_again(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        await cli.turn(prompt("what do we know?", LUNCH))
        await cli.turn(prompt("hm?", thread="T0/C0/1762.000200"))
        model.script.too_long()
        retried = await cli.turn(prompt("when is the release?", ROOT, thread="T0/C0/1763.000300"))

    assert kinds(retried).count("compact_boundary") == 1
    assert "“we moved the release to Friday”" in retried[-1]["result"]
    assert model.script.pending == 0


async def test_after_broken_streams_the_answer_comes_whole(open_cli: OpenCli, model: EmbeddedModel) -> None:
    model.script.stream_error(times=10)

    async with open_cli() as cli:
        lines = await cli.turn(prompt("when is the release?", ROOT))

    assert "“we moved the release to Friday”" in lines[-1]["result"]
    assert model.requests[0].stream and not model.requests[-1].stream


async def test_a_failed_compaction_has_no_boundary_and_the_turn_goes_on(open_cli: OpenCli, model: EmbeddedModel) -> None:
    async with open_cli() as cli:
        await cli.turn(prompt("when is the release?", ROOT))
        model.script.usage(90_000)
        await cli.turn(prompt("hm?", thread="T0/C0/1762.000200"))
        model.script.compact_error(500)
        lines = await cli.turn(prompt("when is the release?"))

    assert "compact_boundary" not in kinds(lines) and model.script.pending == 0
    assert "“we moved the release to Friday”" in lines[-1]["result"]


async def test_a_usage_limit_ends_one_turn_and_the_next_one_is_answered(open_cli: OpenCli, model: EmbeddedModel) -> None:
    model.script.limit(resets_at=4102444800)

    async with open_cli() as cli:
        limited = await cli.turn(prompt("hello"))
        recovered = await cli.turn(prompt("when is the release?", ROOT))

    assert (limited[-1]["is_error"], limited[-1]["api_error_status"]) == (True, 429)
    assert "“we moved the release to Friday”" in recovered[-1]["result"]
