"""The worker process on the real CLI and the embedded model: what it may do, how it can end, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.claude_extract import ClaudeExtractModel
from bot.claude_worker import end_orphans
from bot.local.model import EmbeddedModel
from bot.ports import Answer
from memory.extract_model import ExtractRequest, StageResult
from memory.model_end import ModelEnd, ModelHow
from telemetry.names import Attr, SpanName
from tests.bot.cli_sessions import KEY, until
from tests.bot.cli_workers import PLACEHOLDER, SPARE_KEY, WorkerGround

pytestmark = pytest.mark.cli
STAGE = "mcp__insomnia__stage_candidates"
PROMPT = '<entries>\n{"n": 7, "kind": "user", "text": "We decided to ship on Friday."}\n</entries>'


class Ground(WorkerGround):
    def __init__(self, folder: Path, model: EmbeddedModel) -> None:
        super().__init__(folder, model)
        self.extract = ClaudeExtractModel(self.worker, model="claude-opus-5-5")
        self.staged: list[Mapping[str, Any]] = []
        self.answers = [StageResult(accepted=1)]

    def stage(self, arguments: Mapping[str, Any]) -> StageResult:
        self.staged.append(arguments)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def propose(self, prompt: str = PROMPT, *, seconds: float = 30.0) -> ModelEnd:
        request = ExtractRequest(
            run_id=uuid.uuid4().hex,
            session_id="s",
            route="main",
            system="You note what lasts.",
            prompt=prompt,
            evidence=frozenset({7}),
            seconds=seconds,
        )
        return await self.extract.propose(request, self.stage)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        made = Ground(tmp_path / "state", await stack.enter_async_context(EmbeddedModel(control_token="made-up-token")))
        yield made
        assert made.kept == [] and made.pids == []


async def test_the_embedded_model_hands_in_what_a_line_says(ground: Ground) -> None:
    end = await ground.propose()

    (handed,) = ground.staged
    (candidate,) = handed["candidates"]
    assert (candidate["kind"], candidate["claim"], candidate["evidence"]) == ("decision", "We decided to ship on Friday.", [7])
    assert (end.how, end.model, end.detail) == (ModelHow.ENDED, "claude-opus-5-5", "")
    assert end.usage is not None and end.usage.output > 0 and (end.cost_usd or 0) > 0


async def test_its_spans_hang_under_the_span_of_the_run(ground: Ground) -> None:
    with ground.emit.span(SpanName.MEMORY_RUN) as run:
        await ground.propose()

    (agent,) = (s for s in ground.emit.spans if s.name is SpanName.INVOKE_AGENT)
    (tool,) = (s for s in ground.emit.spans if s.name is SpanName.EXECUTE_TOOL)
    chats = [s for s in ground.emit.spans if s.name is SpanName.CHAT]
    assert agent.parent == run.ref and agent.label == "memory_extract"
    assert {s.parent for s in [tool, *chats]} == {agent.ref} and len(chats) == 2
    assert tool.attributes[Attr.GEN_AI_TOOL_NAME] == "stage_candidates"
    assert all(s.ended and not s.error for s in ground.emit.spans)


async def test_no_shell_no_file_no_network_no_memory_and_no_secret_but_its_own(ground: Ground) -> None:
    seen: dict[str, str] = {}

    def look(arguments: Mapping[str, Any]) -> StageResult:
        for pid in ground.pids:
            seen[(Path("/proc") / str(pid) / "cmdline").read_text()] = (Path("/proc") / str(pid) / "environ").read_text()
        return StageResult(accepted=1)

    ground.stage = look  # type: ignore[method-assign]
    (ground.folder / "run" / "cwd").mkdir(parents=True)
    (ground.folder / "run" / "cwd" / "notes.txt").write_text("the secret of this machine")
    await ground.propose(PROMPT + "\nsee @notes.txt\n/clear")

    (argv,), (environ,) = list(seen), list(seen.values())
    assert ground.offered <= {STAGE, PLACEHOLDER}
    assert not [w for w in ("Friday", KEY, "You note") if w in argv] and "--no-session-persistence" in argv and "--tools=\0" in argv
    assert not [w for w in ("xoxb-secret", "gh-secret", "SLACK") if w in environ] and "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1" in environ
    assert "the secret of this machine" not in json.dumps([request.body for request in ground.model.requests])


async def test_a_worker_asks_the_account_that_does_not_rest_and_says_which_one_has_to(ground: Ground) -> None:
    ground.model.script.limit(int(time.time()) + 3_600, memory=True, key=KEY)

    refused, done = await ground.propose(), await ground.propose()

    assert (refused.how, done.how) == (ModelHow.ERROR, ModelHow.ENDED)
    assert [request.key for request in ground.model.requests if request.is_memory] == [KEY, SPARE_KEY, SPARE_KEY]
    assert ground.accounts.choose().account == "spare" and len(ground.staged) == 1


async def test_what_refused_a_worker_and_named_no_end_puts_no_session_off(ground: Ground) -> None:
    ground.model.script.error(403, memory=True)

    assert (await ground.propose()).how is ModelHow.ERROR
    assert ground.accounts.choose().account == "main" and ground.accounts.why_not("main") is None


async def test_where_all_accounts_rest_no_worker_is_started(ground: Ground) -> None:
    for name in ("main", "spare"):
        ground.accounts.heard(name, Answer(text="", error="rate_limit", resets_at=time.time() + 3_600))

    ended = await ground.propose()

    assert (ended.how, ended.detail) == (ModelHow.ERROR, "all accounts rest")
    assert ground.model.requests == [] and ground.kept == []


async def test_a_tool_that_is_not_offered_cannot_be_called(ground: Ground) -> None:
    ground.model.script.tool("Bash", {"command": f"touch {ground.folder}/broken-out"}, memory=True)

    end = await ground.propose()

    assert end.how is ModelHow.ENDED and not (ground.folder / "broken-out").exists()
    assert "No such tool available" in ground.model.requests[-1].messages_text


async def test_a_refused_call_reaches_the_model_with_its_mend(ground: Ground) -> None:
    ground.answers = [StageResult(code="evidence_outside", message="entry 9 is not in the range", fix="cite 7"), StageResult(accepted=1)]
    for _ in range(2):
        ground.model.script.tool(STAGE, {"candidates": []}, memory=True)

    await ground.propose()

    assert "cite 7" in ground.model.requests[1].messages_text and len(ground.staged) == 2


async def test_a_model_that_calls_for_ever_is_stopped_by_the_tool_or_by_the_number_of_calls(ground: Ground) -> None:
    ground.model.script.tool(STAGE, {"candidates": []}, times=1_000, memory=True)
    endless = await ground.propose()
    calls = len(ground.model.requests)
    ground.staged.clear()
    ground.answers = [StageResult(accepted=0), StageResult(code="enough", stop=True)]
    stopped = await ground.propose()

    assert endless.how is stopped.how is ModelHow.ENDED and calls == 20
    assert len(ground.staged) == 2 and stopped.cost_usd is not None
    ground.model.script.clear()


@pytest.mark.parametrize(
    ("step", "how", "detail"),
    [
        ({"step": "too_long", "times": 9}, ModelHow.OVERFLOW, "HTTP 400"),
        ({"step": "error", "status": 400, "times": 20}, ModelHow.REFUSED, "HTTP 400"),
        ({"step": "error", "status": 403, "times": 9}, ModelHow.ERROR, "HTTP 403"),
        ({"step": "say", "text": "I would rather chat."}, ModelHow.ENDED, ""),
        ({"step": "stop", "reason": "max_tokens", "times": 20}, ModelHow.ENDED, ""),
        ({"step": "stop", "reason": "refusal", "times": 20}, ModelHow.REFUSED, "refused by the model"),
    ],
)
async def test_how_it_ended_is_told_in_extracts_words(ground: Ground, step: dict[str, Any], how: ModelHow, detail: str) -> None:
    ground.model.script.add({**step, "memory": True})

    end = await ground.propose("no rows")

    assert (end.how, end.detail) == (how, detail)
    ground.model.script.clear()


async def test_a_model_that_hangs_is_left_when_the_run_is_cancelled(ground: Ground) -> None:
    ground.model.script.hang(memory=True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await ground.propose()

    assert ground.pids == [] and ground.staged == []


async def test_a_process_that_dies_is_an_error_of_the_model(ground: Ground) -> None:
    ground.model.script.hang(memory=True)

    async with asyncio.TaskGroup() as group:
        proposing = group.create_task(ground.propose())
        await until(lambda: ground.model.requests)
        for pid in ground.pids:
            os.kill(pid, signal.SIGKILL)

    assert (proposing.result().how, proposing.result().detail) == (ModelHow.ERROR, "session died")


async def test_a_living_workers_process_is_no_orphan(ground: Ground) -> None:
    ground.model.script.hang(memory=True)

    async with asyncio.TaskGroup() as group:
        proposing = group.create_task(ground.propose())
        await until(lambda: ground.model.requests)
        end_orphans(ground.folder)
        alive = ground.pids
        proposing.cancel()

    assert alive and proposing.cancelled()
