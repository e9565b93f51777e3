"""`insomnia memory undo`: every file as it was or nothing at all, told in the log and in the traces, beside a bot or without one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bot.cli import dispatch
from bot.workspace import RunningBot
from memory.consolidation.run import KEY
from memory.disk import Disk
from memory.run_files import RunFiles
from memory.store import Store
from telemetry.trace_reading import Wanted, reading
from telemetry.trace_rows import Begun
from telemetry.trace_writing import TraceWriter
from telemetry.troubles import Troubles
from tests.bot.cli.remembering import FIRST, SECOND, Capture, Remembering, as_json, merged, then, two_notes, wrote
from tests.memory.consolidating import Hand, candidate, stage
from tests.memory.made_records import record
from tests.telemetry.made_traces import known

FREEZE, FRIDAY = "memory/decision/deploy-freeze.md", "memory/decision/friday-freeze.md"


def test_every_removed_and_changed_file_comes_back_byte_for_byte(there: Remembering, capsys: Capture) -> None:
    wrote(there)
    before = there.texts()
    run_id = merged(there)
    assert there.texts().keys() == {FREEZE}

    assert there.command("undo", run_id[:6]) == 0

    assert there.texts() == before
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"Run {run_id} was taken back, by ")
    assert told[2:4] == [f"put back  {FRIDAY}", f"restored  {FREEZE}"]


@pytest.mark.parametrize("body", ["", "---\r\n", "\N{BYTE ORDER MARK}", "  trailing  \n\n\n"])
def test_a_file_that_a_person_had_written_in_their_own_way_comes_back_in_that_way(there: Remembering, body: str, capsys: Capture) -> None:
    """The run changed what it had read: the person's own bytes, comments and order of keys."""
    store = Store(there.state)
    store.write(record("deploy-freeze", body="The freeze starts Friday 15:00."), None)
    path = there.state / FREEZE
    head, _, text = path.read_text("utf-8").partition("title:")
    path.write_bytes(f"{head}title:{text.rstrip()} Ask Yui.\n{'' if body.startswith(('-', chr(0xFEFF))) else body}".encode())
    before = path.read_bytes()
    stage(there.state, candidate("The freeze is on kestrel-12.", n=7), start=7)

    async def edits(hand: Hand, ids: list[str]) -> None:
        await hand(
            "memory_edit", kind="decision", slug="deploy-freeze", old_text="Ask Yui.", new_text="Ask Yui. On kestrel-12.", candidates=ids
        )

    run_id = there.run(then(edits)).run_id
    assert path.read_bytes() != before

    assert there.command("undo", run_id) == 0
    assert path.read_bytes() == before


def test_what_a_run_made_is_removed_and_can_be_had_again(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    before = there.texts()

    assert there.command("undo", run_id, "--json") == 0
    first = as_json(capsys)
    assert there.texts() == {} and [each["what"] for each in first["files"]] == ["removed", "removed"]
    assert (first["of"], first["done"], first["conflicts"]) == (run_id, True, [])

    assert there.command("undo", first["run_id"], "--json") == 0
    second = as_json(capsys)
    assert there.texts() == before and [each["what"] for each in second["files"]] == ["put_back", "put_back"]

    assert there.command("undo", second["run_id"]) == 0
    assert there.texts() == {}


def test_what_was_taken_back_is_not_taken_back_twice(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    assert there.command("undo", run_id, "--json") == 0
    undo = as_json(capsys)["run_id"]

    assert there.command("undo", run_id) == 1

    assert f"insomnia memory undo {undo}" in capsys.readouterr().err


def test_a_dry_run_shows_each_file_with_its_difference_and_writes_nothing_at_all(there: Remembering, capsys: Capture) -> None:
    wrote(there)
    run_id = merged(there)
    before = there.tree()

    assert there.command("undo", run_id, "--dry-run") == 0

    assert there.tree() == before
    told = capsys.readouterr().out
    assert f"would be put back  {FRIDAY}\n    @@" in told and f"    +{SECOND}\n" in told
    assert f"would be restored  {FREEZE}\n" in told and f"    -{FIRST} {SECOND} On kestrel-12.\n    +{FIRST}\n" in told


def test_a_long_difference_is_counted_and_stands_in_the_json(there: Remembering, capsys: Capture) -> None:
    text = "\n".join(f"Line {number} of the plan." for number in range(60))
    two_notes(there)

    async def long(hand: Hand, ids: list[str]) -> None:
        await hand.write("plan", ids[0], content=text)
        await hand("staging_resolve", candidate=ids[1], disposition="discarded", reason="Not now.")

    run_id = there.run(then(long)).run_id

    assert there.command("undo", run_id, "--dry-run") == 0
    told = capsys.readouterr().out
    assert "would be removed  memory/decision/plan.md\n    0 lines come, 76 go; see them all: --json\n" in told and "Line 7" not in told
    assert there.command("undo", run_id, "--dry-run", "--json") == 0
    told_json = as_json(capsys)
    assert "-Line 59 of the plan." in told_json["files"][0]["diff"] and not told_json["done"]


def test_a_persons_edit_is_never_overwritten_and_is_named_with_what_to_do(there: Remembering, capsys: Capture) -> None:
    """C057."""
    wrote(there)
    run_id = merged(there)
    path = there.state / FREEZE
    path.write_text(path.read_text("utf-8") + "\nExcept on release days.\n", "utf-8")
    before, told_before = there.texts(), len(there.operations())

    assert there.command("undo", run_id, "--dry-run") == 1
    assert f"{FREEZE}  (but it was changed since)" in capsys.readouterr().out
    assert len(there.operations()) == told_before
    assert there.command("undo", run_id) == 1

    assert there.texts() == before
    (told,) = there.operations()[told_before:]
    assert (told["status"], told["path"], told["lint"]) == ("rejected", FREEZE, ["L106"])
    err = " ".join(capsys.readouterr().err.split())
    assert f"{FREEZE}: somebody changed it since by hand, and that stays; copy back by hand what is wanted of it" in err
    (old,) = (there.state / "memory" / "_trash" / run_id / "decision").glob("deploy-freeze*")
    assert str(old.relative_to(there.state)) in err


def test_conflicts_as_json_name_the_remedy_too(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    (there.state / FREEZE).unlink()

    assert there.command("undo", run_id, "--json") == 1

    told = as_json(capsys)
    assert (told["done"], told["run_id"]) == (False, None)
    assert [each["path"] for each in told["conflicts"]] == [FREEZE]
    assert told["conflicts"][0]["remedy"].startswith("somebody deleted, moved or replaced it since; the run made this file")
    assert there.texts().keys() == {FRIDAY}


def test_a_later_run_that_is_in_the_way_is_named_and_is_taken_back_first(there: Remembering, capsys: Capture) -> None:
    first = wrote(there)
    second = merged(there)

    assert there.command("undo", first) == 1
    err = " ".join(capsys.readouterr().err.split())
    assert err.count(f"run {second} changed it since; take that one back first: insomnia memory undo {second}") == 2
    assert there.command("undo", second) == there.command("undo", first) == 0

    assert there.texts() == {}


def test_a_file_that_was_replaced_by_a_link_is_a_conflict_and_the_link_is_not_followed(
    there: Remembering, tmp_path: Path, capsys: Capture
) -> None:
    run_id = wrote(there)
    outside = tmp_path / "outside.md"
    shutil.move(there.state / FREEZE, outside)
    (there.state / FREEZE).symlink_to(outside)
    before = outside.read_bytes()

    assert there.command("undo", run_id) == 1

    assert outside.read_bytes() == before and (there.state / FREEZE).is_symlink()


def test_it_is_told_in_the_log_and_in_the_traces_under_the_undos_own_id(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    told_before = len(there.operations())

    assert there.command("undo", run_id, "--json") == 0

    undo = as_json(capsys)["run_id"]
    told = there.operations()[told_before:]
    assert [(each["op"], each["status"], each["run_id"]) for each in told] == [("delete", "applied", undo)] * 2
    (trace_id,) = {each["trace_id"] for each in told}
    with reading(there.workspace.traces_db) as traces:
        stored = traces.trace(trace_id)
    assert stored and stored.root and stored.root.name == "memory.undo"
    assert stored.root.attributes == {"insomnia.memory.run_id": undo, "insomnia.memory.undoes": run_id}
    assert json.loads((there.state / "memory" / "_trash" / undo / "run.json").read_text())["trace_id"] == trace_id


def test_beside_a_running_bot_it_leaves_the_bots_own_traces_alone(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    bot = TraceWriter(there.workspace.traces_db, troubles=Troubles(), seconds=1e9, max_bytes=1 << 30)
    reply = known(7)
    bot.write([Begun(reply.spans[0])])
    with there.workspace.lock():
        there.workspace.publish(RunningBot(pid=1, started_at=0.0, version="0", slack="embedded"))

        assert there.command("undo", run_id) == 0

        with reading(there.workspace.traces_db) as traces:
            kinds = {one.name: one.outcome for one in traces.listing(Wanted(kinds=("reply", "other")))}
        assert kinds == {"process slack": "", "memory.undo": ""}
    assert bot.write(reply.spans) == 0
    bot.close()
    assert there.texts() == {}


def test_without_a_trace_store_it_makes_none(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    for each in there.workspace.telemetry.glob("traces.db*"):
        each.unlink()

    assert there.command("undo", run_id) == 0

    assert not there.workspace.traces_db.exists() and there.texts() == {}


def test_while_a_consolidation_runs_it_says_so_and_does_nothing(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    before = there.texts()

    with RunFiles(there.state / "memory" / "_state", disk=Disk()).locked(KEY) as mine:
        assert mine
        assert there.command("undo", run_id) == 1

    assert "a consolidation run is under way; try again" in capsys.readouterr().err
    assert there.texts() == before


def test_a_trash_that_was_deleted_is_said_and_nothing_is_changed(there: Remembering, capsys: Capture) -> None:
    wrote(there)
    run_id = merged(there)
    before = there.texts()
    shutil.rmtree(there.state / "memory" / "_trash" / run_id / "decision")
    for argv in (["undo", run_id], ["undo", run_id, "--dry-run"]):
        assert there.command(*argv) == 1
        assert f"is not in memory/_trash/{run_id} any more; nothing was changed" in capsys.readouterr().err
    shutil.rmtree(there.state / "memory" / "_trash" / run_id)

    assert there.command("undo", run_id) == 1

    assert f"memory/_trash/{run_id} in .insomnia is gone" in capsys.readouterr().err
    assert there.texts() == before


def test_a_manifest_that_cannot_be_read_is_named(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    before = there.texts()
    (there.state / "memory" / "_trash" / run_id / "run.json").write_text('{"v": 1, "run_id"')
    for each in there.workspace.telemetry.glob("traces.db*"):
        each.unlink()

    assert there.command("undo", run_id) == 1

    assert f".insomnia/memory/_trash/{run_id}/run.json cannot be read" in capsys.readouterr().err
    assert there.texts() == before


def test_what_names_no_run_or_several_is_refused(there: Remembering, capsys: Capture) -> None:
    first = wrote(there)
    second = merged(there)
    trash = there.state / "memory" / "_trash"
    for run_id, new in ((first, "aaaa0001"), (second, "aaaa0002")):
        shutil.move(trash / run_id, trash / new)
        text = (trash / new / "run.json").read_text()
        (trash / new / "run.json").write_text(text.replace(f'"run_id": "{run_id}"', f'"run_id": "{new}"'))

    assert there.command("undo", "ffff") == 1
    assert "there is no memory run 'ffff'; see which there are: insomnia memory runs" in capsys.readouterr().err
    assert there.command("undo", "aaaa") == 2
    told = capsys.readouterr().err
    assert "aaaa may be each of these" in told and "aaaa0001" in told and "aaaa0002" in told
    assert there.command("undo", "") == 1
    assert there.command("undo", "../../etc") == 1
    assert dispatch(["memory", "undo", "x", "--workspace", str(there.workspace.root / "none")]) == 2
    with pytest.raises(SystemExit) as ended:
        there.command("undo")
    assert ended.value.code == 2


def test_a_run_whose_id_begins_another_is_found_by_its_whole_id(there: Remembering, capsys: Capture) -> None:
    first = wrote(there)
    second = merged(there)
    trash = there.state / "memory" / "_trash"
    shutil.move(trash / second, trash / f"{first}2")
    text = (trash / f"{first}2" / "run.json").read_text()
    (trash / f"{first}2" / "run.json").write_text(text.replace(f'"run_id": "{second}"', f'"run_id": "{first}2"'))

    assert there.command("undo", first) == 1
    assert f"undo {first}2" in capsys.readouterr().err
    assert there.command("undo", f"{first}2") == there.command("undo", first) == 0


def test_a_run_that_changed_nothing_has_nothing_to_take_back(there: Remembering, capsys: Capture) -> None:
    two_notes(there)

    async def discards(hand: Hand, ids: list[str]) -> None:
        for one in ids:
            await hand("staging_resolve", candidate=one, disposition="discarded", reason="Small talk.")

    run_id = there.run(then(discards)).run_id

    assert there.command("undo", run_id) == 1
    assert "has changed no record, so there is nothing to take back" in capsys.readouterr().err


def test_control_characters_of_a_record_do_not_reach_the_terminal(there: Remembering, capsys: Capture) -> None:
    run_id = wrote(there)
    path = there.state / FREEZE
    path.write_text(path.read_text("utf-8") + "\x1b[2J\u202e", "utf-8")

    assert there.command("undo", run_id, "--dry-run") == 1

    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)
