"""A process that dies at every step of an extraction, and again while it recovers; and protocols that are wrong on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory import extraction, runs, staging
from tests.memory.dying import History, Steps

pytestmark = pytest.mark.sweep

RANDOM_HISTORIES = 60


def steps_of_a_whole_life(folder: Path) -> int:
    steps = Steps()
    history = History(folder)
    assert history.live(steps) and history.faults() == []
    return steps.count


def faults_after_dying(folder: Path, *deaths: int) -> list[str]:
    history = History(folder)
    for death in deaths:
        history.live(Steps(death))
    assert history.live(Steps())
    return history.faults()


def test_a_death_at_any_step_skips_nothing_and_reads_nothing_twice(tmp_path: Path) -> None:
    total = steps_of_a_whole_life(tmp_path / "whole")

    found = {step: faults for step in range(1, total + 1) if (faults := faults_after_dying(tmp_path / str(step), step))}

    assert total > 150
    assert found == {}


def test_deaths_in_recovery_change_nothing_either(tmp_path: Path) -> None:
    total = steps_of_a_whole_life(tmp_path / "whole")
    chance = random.Random(4)
    histories = [(chance.randint(1, total), *(chance.randint(1, 25) for _ in range(chance.randint(1, 3)))) for _ in range(RANDOM_HISTORIES)]

    found = {deaths: faults for n, deaths in enumerate(histories) if (faults := faults_after_dying(tmp_path / str(n), *deaths))}

    assert found == {}


# -- orders that are wrong, each plausible: the same sweep has to find them ----------------------------------------------
def cursor_first(patch: pytest.MonkeyPatch) -> None:
    commit = extraction.Extraction._commit

    def wrong(self: Any, run: Any, piece: Any, proposals: Any) -> None:
        self._parts.cursors.advance(self._session.id, piece.after(run.id))
        commit(self, run, piece, proposals)

    patch.setattr(extraction.Extraction, "_commit", wrong)


def file_by_file_under_a_name_of_the_attempt(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, batch: Any, candidates: Any) -> Any:
        folder = self._folder / f"{batch.session_id[:8]}.{batch.run_id}"
        self._disk.mkdir(folder)
        for number, candidate in enumerate(candidates):
            self._disk.create(folder / f"{folder.name}.{number:03d}.json", staging._json(candidate))
        return batch

    patch.setattr(staging.Staging, "publish", wrong)


def run_file_gone_before_the_end_is_told(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, file: Any, end: Any, **_: Any) -> None:
        self._files.remove(file)
        self._emit(end)

    patch.setattr(runs.Runs, "_tell", wrong)


def started_before_there_is_a_run_file(patch: pytest.MonkeyPatch) -> None:
    begin = runs.Runs._begin

    def wrong(self: Any, run: Any) -> None:
        save, self._files.save = self._files.save, lambda file: None
        try:
            begin(self, run)
        finally:
            self._files.save = save
        self._files.save(run.file)

    patch.setattr(runs.Runs, "_begin", wrong)


def end_told_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, file: Any, end: Any, **_: Any) -> None:
        self._emit(end)
        self._files.remove(file)

    patch.setattr(runs.Runs, "_tell", wrong)


def what_was_published_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staging.Staging, "published", lambda *_: None)


def no_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs.Runs, "recover", lambda *_: [])


WRONG: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "cursor first": (cursor_first, "lost"),
    "file by file": (file_by_file_under_a_name_of_the_attempt, "twice"),
    "run file first": (run_file_gone_before_the_end_is_told, "0 ends"),
    "started first": (started_before_there_is_a_run_file, "0 ends"),
    "end not stored": (end_told_before_it_is_stored, "2 ends"),
    "published unseen": (what_was_published_is_not_looked_for, "twice"),
    "no recovery": (no_recovery, "0 ends"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_sweep_finds_a_wrong_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, symptom = WRONG[name]
    total = steps_of_a_whole_life(tmp_path / "right")
    wrong(monkeypatch)

    steps = random.Random(7).sample(range(1, total + 1), total)  # the first that shows it is enough, wherever it is
    symptoms = (fault for step in steps for fault in faults_after_dying(tmp_path / str(step), step))

    assert any(fault.startswith(symptom) for fault in symptoms)
