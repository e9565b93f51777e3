"""Records what the real CLI prints, for the tests of the parser: `PYTHONPATH=. python tests/bot/claude_lines/record.py [name ...]`.

Each scenario is a process of its own against the embedded model; its lines become `<name>.jsonl` beside this file. What
differs from run to run, and whatever names a machine, is replaced, so that a new recording shows only what the CLI changed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bot.claude_launch import arguments, environment, find_cli
from bot.local.model import EmbeddedModel
from bot.ports import Launch

HERE = Path(__file__).parent
MODEL = "claude-opus-5-5"
SECONDS = 60
KEPT_CHARS = 200  # of any one text: the shape counts, not the words
Line = dict[str, Any]


class Recorder:
    """One CLI process; all that it prints is kept."""

    def __init__(self, model: EmbeddedModel, process: asyncio.subprocess.Process) -> None:
        self.model, self.lines = model, list[Line]()
        self._process = process

    async def turn(self, text: str, *, composed: bool = True) -> None:
        await self.say(text, composed=composed)
        await self.until("result")

    async def say(self, text: str, *, composed: bool = True) -> None:
        message = {"role": "user", "content": text}
        await self.write(type="user", uuid=str(uuid.uuid4()), client_composed=composed, message=message, parent_tool_use_id=None)

    async def interrupt(self) -> None:
        await self.write(type="control_request", request_id="r1", request={"subtype": "interrupt"})

    async def write(self, **line: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, kind: str) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            async for raw in self._process.stdout:
                self.lines.append(json.loads(raw))
                if kind in _kinds(self.lines[-1]):
                    return


def _kinds(line: Line) -> set[str]:
    return {str(line.get("type")), str(line.get("subtype")), str(line.get("event", {}).get("type"))}


async def three_turns(cli: Recorder) -> None:
    for question in ("hello", "when is the release?", "thanks"):
        await cli.turn(question)


async def compaction_before_a_turn(cli: Recorder) -> None:
    await cli.turn("hello")
    cli.model.script.usage(90_000)
    await cli.turn("hm?")
    await cli.turn("when is the release?")


async def compaction_in_a_tool_loop(cli: Recorder) -> None:
    await cli.turn("hello")
    cli.model.script.tool("no_such_tool", {"q": "x"}, usage=90_000)
    await cli.turn("when is the release?")


async def compaction_after_too_long(cli: Recorder) -> None:
    await cli.turn("hello")
    await cli.turn("hm?")
    cli.model.script.too_long()
    await cli.turn("when is the release?")


async def compaction_manual(cli: Recorder) -> None:
    await cli.turn("hello")
    await cli.turn("hm?")
    await cli.turn("/compact", composed=False)


async def compaction_failed(cli: Recorder) -> None:
    await cli.turn("hello")
    cli.model.script.usage(90_000)
    await cli.turn("hm?")
    cli.model.script.compact_error(500)
    await cli.turn("when is the release?")


async def compaction_manual_failed(cli: Recorder) -> None:
    await cli.turn("hello")
    await cli.turn("hm?")
    cli.model.script.compact_error(500)
    await cli.turn("/compact", composed=False)


async def cleared(cli: Recorder) -> None:
    await cli.turn("hello")
    await cli.turn("/clear", composed=False)


async def tool_use(cli: Recorder) -> None:
    cli.model.script.tool("no_such_tool", {"q": "x"})
    await cli.turn("when is the release?")


async def api_errors(cli: Recorder) -> None:
    for status in (400, 401, 403, 404, 500, 529):
        cli.model.script.error(status, times=10)
        await cli.turn(f"{status}?")
        cli.model.script.clear()


async def usage_limit(cli: Recorder) -> None:
    cli.model.script.limit(resets_at=4_102_444_800)
    await cli.turn("hello")


async def usage_limit_of_a_plan(cli: Recorder) -> None:
    cli.model.script.near_limit(resets_at=4_102_444_800)
    await cli.turn("hello")
    cli.model.script.limit(resets_at=4_102_444_800)
    await cli.turn("hello again")


async def too_long_on_the_only_exchange(cli: Recorder) -> None:
    cli.model.script.too_long(times=10)
    await cli.turn("hello")


async def retried(cli: Recorder) -> None:
    cli.model.script.error(529)
    await cli.turn("hello")


async def dropped(cli: Recorder) -> None:
    cli.model.script.drop()
    await cli.turn("hello")


async def not_streamed(cli: Recorder) -> None:
    cli.model.script.stream_error(times=10)
    await cli.turn("when is the release?")


async def interrupted(cli: Recorder) -> None:
    cli.model.script.hang()
    await cli.say("hello")
    await cli.until("stream_event")
    await cli.interrupt()
    await cli.until("result")
    await cli.turn("and now?")


async def interrupted_after_words(cli: Recorder) -> None:
    cli.model.script.slow(5)
    await cli.say("hello")
    await cli.until("content_block_delta")
    await cli.interrupt()
    await cli.until("result")


async def resume_unknown(cli: Recorder) -> None:
    await cli.until("result")


Scenario = Callable[[Recorder], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        *(three_turns, compaction_before_a_turn, compaction_in_a_tool_loop, compaction_after_too_long, compaction_manual),
        *(compaction_failed, compaction_manual_failed, cleared, tool_use, api_errors, usage_limit, too_long_on_the_only_exchange),
        *(usage_limit_of_a_plan, retried, dropped, not_streamed, interrupted, interrupted_after_words, resume_unknown),
    )
}


@asynccontextmanager
async def recorder(folder: Path, *, resume: bool, variable: str) -> AsyncIterator[Recorder]:
    """`variable`: that of the credential."""
    pipe, prompt_file = asyncio.subprocess.PIPE, folder / "prompt"
    prompt_file.write_text("You are Insomnia.", encoding="utf-8")
    launch = Launch(
        key="recorded",
        session_id=str(uuid.uuid4()),
        resume=resume,
        model=MODEL,
        autocompact=100_000,
        system_prompt="",
        credential=(variable, "made-up-key"),
    )
    async with EmbeddedModel(control_token="made-up-token") as model:
        variables = environment(
            launch, config_dir=folder / "claude", runtime_dir=folder, cache_dir=folder, base_url=model.url, inherited={"PATH": "/bin"}
        )
        variables |= {"HOME": str(folder), "CLAUDE_CODE_MAX_RETRIES": "1"}
        argv = arguments(find_cli("").path, launch, prompt_file=prompt_file)
        process = await asyncio.create_subprocess_exec(*argv, env=variables, cwd=folder, stdin=pipe, stdout=pipe, limit=64 * 2**20)
        try:
            yield Recorder(model, process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


# -- scrubbing ---------------------------------------------------------------------------------------------------------
NUMBERED = {  # each found one is replaced by its number in the file
    re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"): "00000000-0000-4000-8000-{:012x}",
    re.compile(r"msg_[0-9a-f]{24}"): "msg_{}",
    re.compile(r"toolu_[0-9a-f]{24}"): "toolu_{}",
    re.compile(r"req_[0-9a-f]{24}"): "req_{}",
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
PORT = re.compile(r"127\.0\.0\.1:\d+")
MEASURED = re.compile(r"_(ms|us)$")
NOT_READ = frozenset(
    ("slash_commands", "terminal_slash_commands", "agents", "skills", "plugins", "memory_paths", "messaging_socket_path")
) | frozenset(("capabilities", "output_style", "subagent_stats", "modelUsage", "output_tokens_details", "server_tool_use"))


class Scrubber:
    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._numbers: dict[str, int] = {}

    def scrub(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {k: self.scrub(v, k) for k, v in value.items() if k not in NOT_READ}
        if isinstance(value, list):
            return [self.scrub(v) for v in value]
        if isinstance(value, str):
            return self._text(value)
        return 500 if value and MEASURED.search(name) else value

    def _text(self, text: str) -> str:
        text = PORT.sub("127.0.0.1:1", TIME.sub("2026-11-30T12:00:00.000Z", text.replace(self._folder, "/home/bot")))
        for pattern, shape in NUMBERED.items():
            for found in dict.fromkeys(pattern.findall(text)):
                text = text.replace(found, shape.format(self._number(found)))
        return text if len(text) <= KEPT_CHARS else text[:KEPT_CHARS] + "…"

    def _number(self, found: str) -> int:
        return self._numbers.setdefault(found, len(self._numbers) + 1)


async def record(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        variable = "CLAUDE_CODE_OAUTH_TOKEN" if name == usage_limit_of_a_plan.__name__ else "ANTHROPIC_API_KEY"
        async with recorder(folder, resume=name == resume_unknown.__name__, variable=variable) as cli:
            await SCENARIOS[name](cli)
        scrubber = Scrubber(folder)
        lines = [json.dumps(scrubber.scrub(line), ensure_ascii=False, separators=(",", ":")) for line in cli.lines]
        (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}: {len(lines)} lines")


async def main(names: list[str]) -> None:
    for name in names or SCENARIOS:
        await record(name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
