"""What the demo does to the files of a memory, and what it sees of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bot.cli.demo_files import MemoryFiles
from memory.records import RecordKind, moment, parse, render
from tests.memory.consolidating import candidate, stage
from tests.memory.made_records import NOW, put, record

PATH = "memory/decision/deploy-freeze.md"


def made(root: Path) -> MemoryFiles:
    for each in (record(), record("slo", kind=RecordKind.KNOWLEDGE)):
        put(root / ".insomnia", render(each), each.slug, each.kind)
    return MemoryFiles(root)


def test_records_are_seen_and_what_lies_beside_them_is_not(tmp_path: Path) -> None:
    files = made(tmp_path)
    stage(tmp_path / ".insomnia", candidate("One."), candidate("Two."))
    for other in ("_trash/run/decision/x.md", "_logs/x.md", "_staging/_invalid/x.json"):
        path = tmp_path / ".insomnia" / "memory" / other
        path.parent.mkdir(parents=True)
        path.write_text("gone", encoding="utf-8")

    assert files.records() == {PATH: render(record()), "knowledge/slo.md": render(record("slo", kind=RecordKind.KNOWLEDGE))}
    assert [each["claim"] for each in files.staged()] == ["One.", "Two."]


def test_two_runs_that_say_the_same_are_equal_but_for_their_names_and_times(tmp_path: Path) -> None:
    one, other, different = (made(tmp_path / name) for name in ("one", "other", "different"))
    put(tmp_path / "other" / ".insomnia", render(record(run_id="r2", created_at=moment(NOW + 5), updated_at=moment(NOW + 9))))
    put(tmp_path / "different" / ".insomnia", render(record(title="Something else")))

    assert one.records() != other.records()
    assert one.said_in_records() == other.said_in_records() != different.said_in_records()


def test_a_pin_makes_the_record_pinned_and_goes_again_without_a_trace(tmp_path: Path) -> None:
    files = made(tmp_path)

    files.pin(PATH)
    pinned = parse(RecordKind.DECISION, "deploy-freeze", files.records()[PATH])
    files.unpin(PATH)

    assert pinned == replace(record(), pinned=True)
    assert files.records()[PATH] == render(record())


def test_a_copy_is_a_workspace_of_its_own_and_its_logs_may_be_deleted_or_spoilt(tmp_path: Path) -> None:
    files = made(tmp_path / "first")
    log = tmp_path / "first" / ".insomnia" / "memory" / "_logs" / "memory-2026-12-01.log"
    log.parent.mkdir()
    log.write_text("{}\n", encoding="utf-8")

    deleted, spoilt = files.copy_to(tmp_path / "deleted"), files.copy_to(tmp_path / "spoilt")
    deleted.delete_logs()
    spoilt.spoil_logs()

    assert deleted.records() == spoilt.records() == files.records() and log.read_text(encoding="utf-8") == "{}\n"
    assert not (tmp_path / "deleted" / ".insomnia" / "memory" / "_logs").exists()
    assert b"half a line" in (tmp_path / "spoilt" / ".insomnia" / "memory" / "_logs" / log.name).read_bytes()
