"""The memory steps of the demo see it when something is wrong: each is shown one lie at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.cli.demo_bot import Answer
from bot.cli.demo_files import MemoryFiles
from bot.cli.demo_memory import CONSOLIDATION, DECISION, hostile_steps
from bot.cli.demo_steps import Seen
from bot.local.model_script import Script
from memory.records import render
from tests.memory.consolidating import candidate, stage
from tests.memory.made_records import put, record

PATH = "memory/decision/release-branches.md"
ID = "5e551011.00000001.000"
TRACE = "1a" * 16
Lie = Callable[["Bot"], None]
END: dict[str, Any] = {
    "event": "worker_lifecycle",
    "run_id": "r1",
    "worker": "memory_consolidation",
    "trigger": "manual",
    "status": "completed",
    "reason": "records_updated",
    "trace_id": TRACE,
    "summary": "MEMORY consolidation done: wrote 1",
}


class Bot:
    """All is well with it until a test changes something. `runs`: what each consolidation does to the files, and gives."""

    def __init__(self, root: Path) -> None:
        self.root, self.memory = root, MemoryFiles(root)
        self.lines: list[dict[str, Any]] = [END]
        self.status = END
        self.runs: list[Callable[[MemoryFiles], dict[str, Any]]] = []
        self.answer = Answer(text="", trace_id=TRACE, outcome="answered", gate={}, seen="", prompt="", context="")
        self.spans: list[dict[str, Any]] = []
        self.script_steps: list[dict[str, Any]] = []

    def command(self, *argv: str) -> str:
        if argv[:2] == ("status", "--json"):
            return json.dumps({"memory": self.status})
        if argv[0] == "status":
            return f"✓ {self.status['summary']} · 0s"
        return "\n".join(map(json.dumps, self.lines)) if argv[0] == "logs" else "[]"

    def patience(self) -> Iterator[None]:
        yield

    def consolidate(self, root: Path | None = None) -> list[dict[str, Any]]:
        return [self.runs.pop(0)(MemoryFiles(root) if root else self.memory)]

    def ask(self, channel: str, thread: str, text: str) -> Answer:
        return self.answer

    def threads(self, channel: str) -> list[dict[str, Any]]:
        return [{"thread_ts": "1.0"}]

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        return self.spans

    def script(self, **step: Any) -> None:
        self.script_steps.append(step)

    def end_script(self) -> None:
        self.script_steps.clear()


def judged(bot: Bot, name: str) -> bool:
    act = next(act for act in CONSOLIDATION if act.__name__ == f"_{name}")
    return act(bot, Seen(thread="1.0", staged=[{"id": ID}], record=PATH))[0]  # type: ignore[arg-type]


def wrote(bot: Bot, **changed: Any) -> None:
    whole = render(record("release-branches", body=DECISION, run_id="r1"))
    text = whole.replace("run_id", f'sources:\n  - candidate: "{ID}"\nrun_id', 1)
    put(bot.root / ".insomnia", {"text": text, **changed}["text"], "release-branches")


def result(**changed: Any) -> dict[str, Any]:
    return {"run_id": "r1", "status": "completed", "reason": "records_updated", "detail": "", "work": {"dispositions": {}}, **changed}


@pytest.fixture
def bot(tmp_path: Path) -> Bot:
    return Bot(tmp_path)


# -- consolidation_wrote -----------------------------------------------------------------------------------------------
def _is_written(bot: Bot) -> None:
    wrote(bot)
    bot.runs = [lambda _: result()]


def _is_left_waiting(bot: Bot) -> None:
    stage(bot.root / ".insomnia", candidate(DECISION))


def _is_said_otherwise_by_the_status(bot: Bot) -> None:
    bot.status = {**END, "reason": "nothing_adopted"}


def _has_no_source(bot: Bot) -> None:
    wrote(bot, text=render(record("release-branches", body=DECISION, run_id="r1")))


def _failed(bot: Bot) -> None:
    bot.runs = [lambda _: result(status="failed")]


def _nothing(_: Bot) -> None:
    pass


@pytest.mark.parametrize("lie", [_is_left_waiting, _is_said_otherwise_by_the_status, _has_no_source, _failed, _nothing])
def test_a_decision_was_written_only_if_file_line_and_status_say_so(lie: Lie, bot: Bot) -> None:
    _is_written(bot)
    lie(bot)

    assert judged(bot, "consolidation_wrote") is (lie is _nothing)


# -- memory_answers_elsewhere ------------------------------------------------------------------------------------------
FROM_MEMORY = f"From memory (decision/release-branches): “{DECISION}”."


@pytest.mark.parametrize(
    ("text", "context", "looked", "ok"),
    [
        (FROM_MEMORY, "another thread", ["found"], True),
        ("I do not know.", "another thread", ["found"], False),
        (f"From this thread: “{DECISION}”.", "another thread", ["found"], False),
        (FROM_MEMORY, f"it stood there: {DECISION}", ["found"], False),
        (FROM_MEMORY, "another thread", [], False),
        (FROM_MEMORY, "another thread", ["found", "found"], False),
    ],
)
def test_an_answer_is_from_memory_only_if_it_was_looked_up_and_stood_nowhere_else(
    text: str, context: str, looked: list[str], ok: bool, bot: Bot
) -> None:
    bot.answer = Answer(text=text, trace_id=TRACE, outcome="answered", gate={}, seen="", prompt="", context=context)
    bot.spans = [{"name": "execute_tool memory_query", "attributes": {"insomnia.memory.op.status": status}} for status in looked]

    assert judged(bot, "memory_answers_elsewhere") is ok


# -- log_is_not_input --------------------------------------------------------------------------------------------------
def consolidates(files: MemoryFiles, *, dispositions: dict[str, int] | None = None, body: str = "The old word.") -> dict[str, Any]:
    old = record("old", body=body, status="replaced", replaced_by="new")
    put(files.state, render(old), "old")
    return result(work={"dispositions": dispositions or {"applied": 2, "already_covered": 1}})


@pytest.mark.parametrize(
    ("other", "ok"),
    [({}, True), ({"dispositions": {"applied": 3}}, False), ({"body": "Another word."}, False)],
    ids=["alike", "other dispositions", "other records"],
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_logs_are_no_input_only_if_three_runs_end_alike(which: int, other: dict[str, Any], ok: bool, bot: Bot) -> None:
    (bot.root / ".insomnia" / "memory" / "_logs").mkdir(parents=True)
    bot.runs = [lambda files, more=(other if at == which else {}): consolidates(files, **more) for at in range(3)]  # type: ignore[misc]

    assert judged(bot, "log_is_not_input") is ok


# -- hostile_model_contained -------------------------------------------------------------------------------------------
REFUSED = [["L602", "L603"], [], [], ["L406"], ["L602"]]


def hostile(**changed: Any) -> dict[str, Any]:
    return result(run_id="r2", status="failed", reason="model_output_invalid", detail="41 calls", **changed)


def takes_up(files: MemoryFiles) -> dict[str, Any]:
    for file in (files.state / "memory" / "_staging").glob("*/*.json"):
        file.unlink()
    return result(run_id="r3", work={"dispositions": {"applied": 3}})


def _rewrites(bot: Bot) -> None:
    def run(files: MemoryFiles) -> dict[str, Any]:
        put(files.state, render(record("release-branches", body="Nobody cuts anything.")), "release-branches")
        return hostile()

    bot.runs[0] = run


def _takes_a_candidate(bot: Bot) -> None:
    def run(files: MemoryFiles) -> dict[str, Any]:
        takes_up(files)
        return hostile()

    bot.runs[0] = run


def _is_believed(bot: Bot) -> None:
    bot.runs[0] = lambda _: result(run_id="r2")


def _is_not_told(bot: Bot) -> None:
    bot.lines = [line for line in bot.lines if line.get("lint") != ["L406"]]


def _had_a_path_taken(bot: Bot) -> None:
    bot.lines = [line for line in bot.lines if line.get("lint") != []]


def _planned_something(bot: Bot) -> None:
    bot.lines[-1] = {**bot.lines[-1], "status": "planned"}


def _spoils_the_next_run(bot: Bot) -> None:
    bot.runs[1] = lambda _: result(status="failed")


LIES = [_rewrites, _takes_a_candidate, _is_believed, _is_not_told, _had_a_path_taken, _planned_something, _spoils_the_next_run, _nothing]


@pytest.mark.parametrize("lie", LIES)
def test_a_hostile_model_is_contained_only_if_nothing_changed_and_all_of_it_is_told(lie: Lie, bot: Bot) -> None:
    wrote(bot)
    stage(bot.root / ".insomnia", *(candidate(f"Claim {n}.", n=n) for n in (1, 2, 3)))
    bot.lines = [{"event": "record_operation", "run_id": "r2", "status": "rejected", "lint": rules} for rules in REFUSED]
    bot.lines.append({"event": "record_operation", "status": "applied", "lint": []})  # of the person who pinned it
    bot.lines[-1], bot.lines[-2] = bot.lines[-2], bot.lines[-1]
    bot.runs = [lambda _: hostile(), takes_up]
    lie(bot)

    assert judged(bot, "hostile_model_contained") is (lie is _nothing)


def test_the_hostile_steps_are_steps_that_the_script_takes() -> None:
    script = Script()

    for step in hostile_steps(PATH, [ID]):
        script.add({**step, "memory": True, "match": "<candidates>"})

    assert script.pending == 6
