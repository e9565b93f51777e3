"""Bugs of others that the store and the linter must not have; the ids are those of the list of cases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory.lint import Change, lint
from memory.lint_rules import Rule
from memory.records import Scope, render, sha256
from memory.store import Store, StoreConflict
from tests.memory.made_records import put, record, text_of, view_of


def test_c056_a_persons_edit_during_a_long_run_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    read = store.write(record(body="Friday."), None).after_sha256
    path = put(tmp_path, text_of(body="Friday. Not on the 25th!"))  # the model is still thinking

    with pytest.raises(StoreConflict):
        store.write(record(body="Friday, 15:00."), read)

    assert path.read_text(encoding="utf-8") == text_of(body="Friday. Not on the 25th!")
    assert "Not on the 25th!" in next(Store(tmp_path).view().records()).body


def test_c057_a_stale_copy_does_not_replace_what_was_written_since(tmp_path: Path) -> None:
    store = Store(tmp_path)
    long, short = record(body="x" * 7_900), record(body="y" * 100)
    stale = store.write(short, None).after_sha256
    path = put(tmp_path, render(long))
    change = Change(kind=short.kind, slug=short.slug, after=short, expected_sha256=stale)

    (violation,) = lint(store.view(), change).errors
    with pytest.raises(StoreConflict) as caught:
        store.write(short, stale)

    assert (violation.rule, violation.rule.value) == (Rule.STALE, "L106") and "read it again" in violation.mend
    assert caught.value.found == sha256(render(long)) and "read it again" in str(caught.value)
    assert path.read_bytes() == render(long).encode()


def test_c059_the_number_of_a_living_process_in_the_lock_file_stops_nobody(tmp_path: Path) -> None:
    lock = tmp_path / "memory" / "_state" / "store.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"{os.getppid()}\n", encoding="ascii")

    Store(tmp_path).write(record(), None)

    assert len(Store(tmp_path).view().stored) == 1


def test_c074_a_reference_to_nothing_is_an_error_of_the_tool_and_of_the_files_alike(tmp_path: Path) -> None:
    good, bad = record("good"), record("bad", body="See [[good]] and [[missing-slug]].")

    before = lint(view_of(tmp_path, good), Change(kind=bad.kind, slug=bad.slug, after=bad))
    after = lint(view_of(tmp_path, bad))

    assert before.errors == after.errors and [each.rule for each in after.errors] == [Rule.REFERENCE]


def test_c074_a_record_that_others_refer_to_is_not_dropped(tmp_path: Path) -> None:
    good = record("good")
    view = view_of(tmp_path, good, record("other", body="See [[good]]."))

    change = Change(kind=good.kind, slug=good.slug, after=None, expected_sha256=sha256(render(good)))

    assert [each.rule for each in lint(view, change).errors] == [Rule.STILL_REFERRED_TO]


def test_c077_temporary_files_of_dead_writers_are_no_notes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(record(), None)
    left = tmp_path / "memory" / "decision" / ".tmp-ab12"
    left.write_text(text_of(body="half done"), encoding="utf-8")

    view = store.view()

    assert ([slug for _, slug in view.stored], view.strays, lint(view).violations) == (["deploy-freeze"], (), ())
    assert store.sweep() == 1 and not left.exists() and os.listdir(left.parent) == ["deploy-freeze.md"]


def test_c093_a_private_record_is_admitted_only_where_it_was_said() -> None:
    said_privately = record(scope=Scope.user("U1"))

    assert said_privately.scope.admits(Scope.user("U1"))
    assert not said_privately.scope.admits(Scope.user("U2"))
    assert not said_privately.scope.admits(Scope.channel("C1"))
    assert not said_privately.scope.admits(Scope.workspace())
