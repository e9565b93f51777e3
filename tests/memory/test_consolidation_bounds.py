"""How much a run takes, lists and keeps, how a change is counted, and what is kept of why it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.claude_mcp import RESULT_CHARS
from memory.consolidation.run import ConsolidationLimits
from memory.consolidation.steps import MAX_SOURCES
from memory.cursors import Cursor, Cursors
from memory.disk import Disk
from memory.extract_model import MAX_CLAIM
from memory.records import moment
from memory.tools import to_json
from memory.usage import USED_FOUND, USED_SECONDS, UsageLog
from telemetry.memory_events import MemoryReason, MemoryTrigger, RecordKind, RecordOperation, RecordUsed, UsageOp, UsageStatus
from telemetry.troubles import Troubles
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import SESSION, Bench, Hand, candidate, stage, waiting
from tests.memory.made_records import NOW, put, record, source, text_of

FREEZE = "The freeze begins on Friday at 15:00, says Tanaka. It is a long freeze, and it was asked for by many people of the team."


async def discards(hand: Hand) -> None:
    for one in await hand.candidates():
        await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="Not worth keeping.")


async def test_a_scope_whose_runs_fail_lets_the_others_go_first(tmp_path: Path) -> None:
    async def fails_in_private(hand: Hand) -> None:
        if "user:U1" in hand.request.prompt.splitlines()[0]:
            raise RuntimeError("always")
        await discards(hand)

    bench = Bench(tmp_path, fails_in_private)
    stage(tmp_path, candidate("Alice likes tea.", scope="user:U1", staged_at="2026-11-30T08:00:00Z"))
    stage(tmp_path, candidate("Lunch is at noon."), start=5)

    reasons = [(await bench.run()).reason for _ in range(3)]

    assert reasons == [MemoryReason.MODEL_ERROR, MemoryReason.NOTHING_ADOPTED, MemoryReason.MODEL_ERROR]
    assert waiting(tmp_path) == ["Alice likes tea."]


async def test_a_snapshot_is_no_longer_than_a_prompt_may_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path, discards, limits=ConsolidationLimits(chars=2_500))
    stage(tmp_path, *(candidate(f"{n} " + "x" * 500) for n in range(6)))

    results = await bench.consolidator.drain(MemoryTrigger.MANUAL)

    assert [result.work.staging_count for result in results] == [2, 2, 2]


async def test_a_list_of_all_that_a_run_takes_reaches_the_model_whole(tmp_path: Path) -> None:
    async def lists(hand: Hand) -> None:
        lengths.append(len(to_json(await hand("staging_list"))))
        one = (await hand.candidates())[0]["id"]
        whole.append((await hand("staging_read", candidate=one))["claim"])
        await discards(hand)

    lengths, whole = list[int](), list[str]()
    bench = Bench(tmp_path, lists)
    stage(tmp_path, *(candidate(f"{n:02d} " + "x" * (MAX_CLAIM - 3)) for n in range(40)))
    await bench.run()

    assert lengths[0] < RESULT_CHARS and len(whole[0]) == MAX_CLAIM


async def test_arguments_that_are_too_long_together_are_refused(tmp_path: Path) -> None:
    async def floods(hand: Hand) -> None:
        pieces = [f"{n}" * 7_000 for n in range(5)]
        answers.append(await hand("memory_trim", kind="decision", slug="deploy-freeze", remove=pieces, why="All of it."))

    answers: list[dict[str, dict[str, str]]] = []
    bench = Bench(tmp_path, floods)
    bench.put(record())
    stage(tmp_path, candidate("Lunch is at noon."))
    await bench.run()

    assert answers[0]["error"]["code"] == "too_long"


async def test_a_person_s_edit_between_two_runs_is_told_as_theirs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, discards)
    bench.put(record())
    put(tmp_path, text_of(body="By hand."))
    stage(tmp_path, candidate("Lunch is at noon."))

    await bench.run()

    assert [(fact.slug, fact.unaudited) for fact in bench.told(RecordOperation)] == [("deploy-freeze", True)]


async def test_a_batch_is_kept_until_the_session_was_read_past_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, discards)
    (one,) = stage(tmp_path, candidate("Lunch is at noon."), read=False)
    batch = tmp_path / "memory" / "_staging" / one.rpartition(".")[0]

    await bench.run()
    kept = sorted(path.name for path in batch.iterdir())
    Cursors(tmp_path / "memory" / "_state", disk=Disk()).advance(SESSION, Cursor(next=3, run_id="extract1"))
    stage(tmp_path, candidate("Dinner is at six."), start=9)
    await bench.run()

    assert kept == ["batch.json"] and not batch.exists()


async def test_a_record_from_the_future_can_be_changed(tmp_path: Path) -> None:
    async def edits(hand: Hand) -> None:
        (one,) = await hand.candidates()
        new = "begins on Friday. Lunch is at noon."
        answer = await hand(
            "memory_edit", kind="decision", slug="later", old_text="begins on Friday.", new_text=new, candidates=[one["id"]]
        )
        assert answer["changed"]

    bench = Bench(tmp_path, edits)
    later = moment(NOW + 9_000_000)
    bench.put(record("later", body="It begins on Friday.", created_at=later, updated_at=later))
    stage(tmp_path, candidate("Lunch is at noon."))
    await bench.run()

    changed = bench.records()["decision/later"]
    assert "noon" in changed.body and changed.updated_at == later


async def test_of_many_sources_the_newest_are_kept(tmp_path: Path) -> None:
    async def edits(hand: Hand) -> None:
        (one,) = await hand.candidates()
        await hand(
            "memory_edit", kind="decision", slug="old", old_text="Friday.", new_text="Friday. Lunch is at noon.", candidates=[one["id"]]
        )

    bench = Bench(tmp_path, edits)
    bench.put(record("old", body="It begins on Friday.", sources=tuple(source(candidate=f"c{n}") for n in range(MAX_SOURCES))))
    (one,) = stage(tmp_path, candidate("Lunch is at noon."))
    await bench.run()

    kept = [each.candidate for each in bench.records()["decision/old"].sources]
    assert kept == [*(f"c{n}" for n in range(1, MAX_SOURCES)), one]


async def test_each_change_is_counted_as_what_it_was_and_says_why(tmp_path: Path) -> None:
    async def tidies(hand: Hand) -> None:
        (one,) = await hand.candidates()
        await hand("memory_drop", kind="decision", slug="gone", category="outdated", why="It ended\nlong ago; the key was sk-ant-REDACTED")
        await hand("memory_trim", kind="decision", slug="long", remove=[" It is a long freeze,"], why="It says so twice.")
        lost = [{"text": "Tanaka", "why": "She has left."}]
        edit = {"old_text": ", says Tanaka", "new_text": "", "dropped_specifics": lost, "candidates": []}
        await hand("memory_edit", kind="decision", slug="named", **edit)
        await hand("staging_resolve", candidate=one["id"], disposition="discarded", reason="Not worth keeping.")

    bench = Bench(tmp_path, tidies)
    bench.put(record("gone", body="A note."), record("long", body=FREEZE), record("named", body=FREEZE))
    stage(tmp_path, candidate("Lunch is at noon."))
    result = await bench.run()

    assert result.work.ops == {"drop": 1, "delete": 1, "trim": 1, "edit": 1}
    manifest = bench.consolidator._commit.journals.manifest(result.run_id)
    assert manifest is not None
    why = {each.slug: each.note for each in manifest.done}
    assert why["long"] == "It says so twice." and why["named"] == "Tanaka: She has left."
    assert why["gone"].startswith("outdated: It ended long ago") and "sk-ant-api03" not in why["gone"]


@pytest.mark.parametrize(
    ("caller", "seconds", "used"), [("main", 60.0, True), ("main", USED_SECONDS + 60, False), ("memory_consolidation", 60.0, False)]
)
def test_used_is_what_somebody_but_a_worker_read_within_ninety_days(caller: str, seconds: float, used: bool, tmp_path: Path) -> None:
    read = RecordUsed(op=UsageOp.QUERY, status=UsageStatus.FOUND, caller=caller, results=5)
    UsageLog(tmp_path, now=lambda: NOW - seconds, troubles=Troubles()).keep(read, [f"decision/note-{n}" for n in range(5)])

    found = UsageLog(tmp_path, now=lambda: NOW, troubles=Troubles()).used_lately()

    assert found == ({(RecordKind.DECISION, f"note-{n}") for n in range(USED_FOUND)} if used else frozenset())


async def test_why_a_change_was_made_is_no_part_of_any_line_or_span(tmp_path: Path) -> None:
    async def drops(hand: Hand) -> None:
        await hand("memory_drop", kind="decision", slug="gone", category="outdated", why="A word of the model.")
        await discards(hand)

    bench = Bench(tmp_path, drops)
    bench.put(record("gone", body="A note."))
    stage(tmp_path, candidate("Lunch is at noon."))
    await bench.run()

    emit = bench.emit
    assert isinstance(emit, RecordingEmit) and bench.records() == {}
    assert "A word of the model" not in str(emit.told) + str([span.attributes for span in emit.spans])
