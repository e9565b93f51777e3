"""`insomnia memory undo` after a process that died over it: once it has begun it is done, whoever asks next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from memory.consolidation.undo import Undoer
from tests.bot.cli.remembering import Capture, Remembering, merged, wrote
from tests.bot.recording import RecordingEmit
from tests.memory.consolidating import Clock
from tests.memory.dying import Death, DyingDisk, Steps


@pytest.mark.sweep
def test_a_death_at_any_step_is_finished_by_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """From the journal on it is done, whoever asks next; before it nothing has happened."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    original = Remembering(tmp_path / "original")
    wrote(original)
    back = original.texts()
    run_id = merged(original)
    at, ended = 0, False
    while not ended:
        at += 1
        folder = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "original", folder, symlinks=True)
        there = Remembering(folder)
        try:
            Undoer(there.state, emit=RecordingEmit(), clock=Clock(), disk=DyingDisk(Steps(at))).undo(run_id)
            ended = True
        except Death:
            was_done = not there.is_committing and there.texts() == back
            assert there.command("undo", run_id) == (1 if was_done else 0), at
            assert not was_done or "it was taken back already" in capsys.readouterr().err
        assert there.texts() == back, at
        assert not there.is_committing
        undos = [
            path for path in (there.state / "memory" / "_trash").glob("*/run.json") if json.loads(path.read_text())["undoes"] == run_id
        ]
        assert len(undos) == 1, at
    assert at > 10
    capsys.readouterr()


def test_an_undo_that_was_cut_off_is_finished_told_and_found_to_be_what_was_asked_for(
    there: Remembering, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    run_id = wrote(there)

    def dies(*_: object) -> None:
        raise Death

    with monkeypatch.context() as patched, pytest.raises(Death):
        patched.setattr("memory.consolidation.journal.Journals.close", dies)
        Undoer(there.state, emit=RecordingEmit(), clock=Clock()).undo(run_id)
    told_before = len(there.operations())

    assert there.command("undo", run_id, "--dry-run") == 1 and there.is_committing
    assert "a run is committing just now, or its process died over it" in capsys.readouterr().err
    assert there.command("undo", run_id) == 0

    assert there.texts() == {}
    assert f"Run {run_id} was taken back, by " in capsys.readouterr().out
    assert [each["status"] for each in there.operations()[told_before:]] == ["applied", "applied"]
