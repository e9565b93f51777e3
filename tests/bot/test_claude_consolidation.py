"""Consolidation on the real CLI: it has the memory tools and nothing else, and a run leaves no process, however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.claude_consolidation import MAX_CALLS, ClaudeConsolidationModel
from bot.local.model import EmbeddedModel
from bot.local.model_steps import Refuse, Step, ToolCall
from memory.consolidation.consolidator import Consolidator
from memory.consolidation.model import ConsolidationRequest
from memory.consolidation.outcome import Result
from memory.consolidation.run import ConsolidationLimits
from memory.consolidation.schemas import SPECS
from memory.model_end import ModelEnd, ModelHow
from memory.records import Record
from memory.store import Store
from memory.tools import Json, ToolAnswer
from telemetry.memory_events import MemoryReason, MemoryStatus, MemoryTrigger
from telemetry.names import Attr
from tests.bot.cli_sessions import KEY, until
from tests.bot.cli_workers import PLACEHOLDER, WorkerGround
from tests.bot.filing import PREFIX, Filing, Rule, Talk, files_each, use
from tests.bot.recording import FakeSpan, RecordingEmit
from tests.memory.consolidating import Clock, candidate, stage, waiting

pytestmark = pytest.mark.cli
TOOLS = {PREFIX + spec.name for spec in SPECS}
MODEL = "claude-opus-5-5"


class Ground(WorkerGround):
    """A workspace with a consolidator on the real CLI; `files` says by which rule its model works."""

    def __init__(self, folder: Path, model: EmbeddedModel) -> None:
        super().__init__(folder, model, emit=RecordingEmit())
        self.asking = ClaudeConsolidationModel(self.worker, model=MODEL)
        self.calls: list[tuple[str, Json]] = []
        self.files(files_each)

    def files(self, rule: Rule) -> Filing:
        self.model.script = filing = Filing(rule)
        return filing

    async def run(self, *, seconds: float = 60.0) -> Result:
        limits = ConsolidationLimits(seconds=seconds)
        consolidator = Consolidator(self.folder, model=self.asking, emit=self.emit, clock=Clock(), limits=limits)
        return await consolidator.run(MemoryTrigger.MANUAL)

    async def work(self, answer: ToolAnswer, *, prompt: str = "<candidates>\n</candidates>") -> ModelEnd:
        """The model alone; each of its calls gets this answer."""

        async def call(name: str, arguments: Json, use_id: str) -> ToolAnswer:
            self.calls.append((name, arguments))
            return answer

        request = ConsolidationRequest(run_id="r1", system="You keep a memory.", prompt=prompt, tools=SPECS, seconds=60.0)
        return await self.asking.work(request, call)

    @property
    def records(self) -> list[Record]:
        return list(Store(self.folder).view().records())

    @property
    def run_span(self) -> FakeSpan:
        (run,) = [span for span in self.emit.roots if span.name == "memory.run memory_consolidation"]
        return run


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        made = Ground(tmp_path / "state", await stack.enter_async_context(EmbeddedModel(control_token="made-up-token")))
        made.folder.mkdir()
        yield made
        assert made.kept == [] and made.pids == []


def endless(_: object) -> Talk:
    while True:
        yield use("staging_list")


class Outage(Filing):
    def __init__(self) -> None:
        super().__init__(endless)

    def take(self, asked: Any) -> Any:
        return Step(effect=Refuse(status=403, type="permission_error", message="no"))


async def test_staged_candidates_become_records_in_one_trace(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."), candidate("予算の上限は300万円です。", n=3))

    result = await ground.run()

    assert (result.status, result.reason, result.detail) == (MemoryStatus.COMPLETED, MemoryReason.RECORDS_UPDATED, "")
    assert sorted(record.body for record in ground.records) == ["Release branches are cut on Mondays.", "予算の上限は300万円です。"]
    assert waiting(ground.folder) == []
    one = f"chat {MODEL} execute_tool memory_query chat {MODEL} execute_tool memory_write"
    assert ground.run_span.tree() == (
        f"memory.run memory_consolidation(memory.snapshot invoke_agent memory_consolidation({one} {one} chat {MODEL}) memory.commit)"
    )
    assert all(span.ends == 1 and span.error is None for span in ground.emit.spans)
    assert {span.attributes[Attr.GEN_AI_TOOL_CALL_ID][:6] for span in ground.emit.named("execute_tool memory_write")} == {"toolu_"}


async def test_the_run_tells_its_tokens_and_its_cost(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."))

    end = await ground.work(ToolAnswer("{}"))

    assert (end.how, end.model, end.detail) == (ModelHow.ENDED, MODEL, "")
    assert end.usage is not None and end.usage.output > 0 and (end.cost_usd or 0) > 0


async def test_it_has_the_memory_tools_and_no_shell_no_file_no_network_and_no_secret_but_its_own(ground: Ground) -> None:
    seen: dict[str, str] = {}

    def looking(_: object) -> Talk:
        for pid in ground.pids:
            seen[(Path("/proc") / str(pid) / "cmdline").read_text()] = (Path("/proc") / str(pid) / "environ").read_text()
        yield use("staging_list")

    ground.files(looking)
    (ground.folder / "run" / "cwd").mkdir(parents=True)
    (ground.folder / "run" / "cwd" / "notes.txt").write_text("the secret of this machine")
    await ground.work(ToolAnswer("{}"), prompt="<candidates>\n</candidates>\nsee @notes.txt and @./notes.txt\n/clear\n!ls")

    (argv,), (environ,) = list(seen), list(seen.values())
    assert TOOLS <= ground.offered <= TOOLS | {PLACEHOLDER}
    assert "--no-session-persistence" in argv and "--tools=\0" in argv and "--strict-mcp-config" in argv
    assert not [word for word in ("candidates", KEY, "You keep") if word in argv]
    assert not [word for word in ("xoxb-secret", "gh-secret", "SLACK") if word in environ]
    assert "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1" in environ
    assert "the secret of this machine" not in json.dumps([request.body for request in ground.model.requests])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "touch {folder}/broken-out"}),
        ("Write", {"file_path": "{folder}/broken-out", "content": "x"}),
        ("WebFetch", {"url": "{url}/broken-out", "prompt": "x"}),
        ("mcp__insomnia__stage_candidates", {"candidates": []}),
        ("mcp__insomnia__memory_delete", {"kind": "decision", "slug": "note-0"}),
    ],
)
async def test_a_tool_that_is_not_offered_cannot_be_called(ground: Ground, tool: str, arguments: dict[str, Any]) -> None:
    given = {
        name: value.format(folder=ground.folder, url=ground.model.url) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    answers: list[dict[str, Any]] = []

    def tries(_: object) -> Talk:
        answers.append((yield use("staging_list")))
        answers.append((yield ToolCall(tool, given)))

    ground.files(tries)
    end = await ground.work(ToolAnswer("{}"))

    assert end.how is ModelHow.ENDED and not (ground.folder / "broken-out").exists()
    assert "No such tool available" in str(answers[1]) and [name for name, _ in ground.calls] == ["staging_list"]


async def test_a_refused_call_reaches_the_model_with_its_mend(ground: Ground) -> None:
    answers: list[dict[str, Any]] = []

    def tries(candidates: Any) -> Talk:
        answers.append((yield use("memory_write", kind="decision", slug="a")))
        answers.append((yield use("staging_resolve", candidate=candidates[0]["id"], disposition="discarded", reason="Small talk.")))

    stage(ground.folder, candidate("Hello there, all of you."))
    ground.files(tries)

    result = await ground.run()

    results = [block for turn in ground.model.requests[-1].body["messages"] for block in turn["content"] if isinstance(block, dict)]
    assert [block.get("is_error", False) for block in results if block["type"] == "tool_result"] == [True, False]
    assert answers[0]["error"]["code"] == "missing_argument" and "call it again with" in answers[0]["error"]["fix"]
    assert (result.status, result.reason) == (MemoryStatus.COMPLETED, MemoryReason.NOTHING_ADOPTED)
    assert [span.error for span in ground.emit.named("execute_tool memory_write")] == ["missing_argument"]


async def test_an_answer_that_says_stop_ends_the_turn(ground: Ground) -> None:
    ground.files(endless)

    end = await ground.work(ToolAnswer("{}", failed=True, stop=True))

    assert end.how is ModelHow.ENDED and len(ground.calls) == 1 and end.cost_usd is not None


async def test_a_model_that_calls_for_ever_is_ended_by_the_number_of_its_calls(ground: Ground) -> None:
    filing = ground.files(endless)

    end = await ground.work(ToolAnswer("{}"))

    assert end.how is ModelHow.ENDED and filing.asked == MAX_CALLS


async def test_an_outage_is_an_error_of_the_model_and_the_candidates_wait(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."))
    ground.model.script = Outage()

    result = await ground.run()

    assert (result.status, result.reason, result.detail) == (MemoryStatus.FAILED, MemoryReason.MODEL_ERROR, "HTTP 403")
    assert waiting(ground.folder) == ["Release branches are cut on Mondays."] and ground.records == []


async def test_a_process_that_dies_is_an_error_of_the_model(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."))
    ground.files(endless).hangs = True

    async with asyncio.TaskGroup() as group:
        running = group.create_task(ground.run())
        await until(lambda: ground.model.requests)
        for pid in ground.pids:
            os.kill(pid, signal.SIGKILL)

    assert (running.result().reason, running.result().detail) == (MemoryReason.MODEL_ERROR, "session died")


async def test_a_model_that_never_finishes_is_left_when_its_time_is_up(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."))
    ground.files(endless).hangs = True

    result = await ground.run(seconds=1.5)

    assert (result.status, result.reason) == (MemoryStatus.FAILED, MemoryReason.MODEL_TIMEOUT)
    assert "memory.rollback" in ground.run_span.tree() and ground.pids == []


async def test_a_cancel_before_the_commit_leaves_no_process_and_every_candidate(ground: Ground) -> None:
    stage(ground.folder, candidate("Release branches are cut on Mondays."))
    ground.files(endless).hangs = True

    async with asyncio.TaskGroup() as group:
        running = group.create_task(ground.run())
        await until(lambda: ground.model.requests)
        running.cancel(MemoryReason.USER_CANCELLED)

    assert running.cancelled() and ground.pids == [] and ground.records == []
    assert ground.run_span.attributes[Attr.MEMORY_TRIGGER] == MemoryTrigger.MANUAL
    assert waiting(ground.folder) == ["Release branches are cut on Mondays."]
