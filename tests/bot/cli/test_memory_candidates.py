"""`insomnia memory candidates`: what became of each, and where it was said."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from memory.consolidation.past import Past, PastFile
from memory.disk import Disk
from telemetry.actionbar import cells
from tests.bot.cli.remembering import FIRST, SECOND, Capture, Remembering, as_json, then, two_notes, writes
from tests.memory.consolidating import SESSION, Hand, candidate, stage
from tests.telemetry.made_traces import CHANNEL, THREAD_TS, TS, known

JAPANESE = "東京オフィスの鍵の暗証番号は毎月一日に変わり、総務の田中さんが各部署へ通知することになっている。"


def facts(capsys: Capture) -> dict[str, str]:
    """Of a page, each on one line."""
    told: dict[str, str] = {}
    label = ""
    for line in capsys.readouterr().out.partition("\n\n")[2].partition("\n\n")[0].splitlines():
        label = line[:10].strip() or label
        told[label] = " ".join(filter(None, (told.get(label, ""), line[10:])))
    return told


async def discards_and_defers(hand: Hand, ids: list[str]) -> None:
    await hand("staging_resolve", candidate=ids[0], disposition="discarded", reason="Small talk.")
    await hand("staging_resolve", candidate=ids[1], disposition="deferred", reason="Nobody said when.")


def of_all_kinds(there: Remembering) -> tuple[str, str]:
    """One of each; the ids of the run that applied and of the one that put off."""
    two_notes(there)
    first = there.run(writes("deploy-freeze", "friday-freeze")).run_id
    stage(there.state, candidate("Hello, all of you.", n=5), candidate("We move later.", n=7), start=5)
    second = there.run(then(discards_and_defers)).run_id
    stage(there.state, candidate(JAPANESE, n=11), start=11)
    broken(there, "abcd0000.00000001", "{broken")
    return first, second


def broken(there: Remembering, batch: str, text: str) -> Path:
    folder = there.state / "memory" / "_staging" / batch
    folder.mkdir(parents=True)
    (folder / f"{batch}.000.json").write_text(text)
    return folder / f"{batch}.000.json"


def test_each_candidate_is_a_line_broken_ones_first_then_those_that_wait(there: Remembering, capsys: Capture) -> None:
    of_all_kinds(there)

    assert there.command("candidates") == 0

    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told[1:-1]] == [
        "abcd0000.00000001.000",
        "5e551011.00000005.001",
        "5e551011.00000011.000",
        "5e551011.00000005.000",
        "5e551011.00000001.000",
        "5e551011.00000001.001",
    ]
    path = "memory/_staging/abcd0000.00000001/abcd0000.00000001.000.json"
    assert told[1].split()[1] == "invalid" and told[1].endswith(f"(it cannot be read as JSON: {path})")
    assert ", put off 1x  decision" in told[2] and told[3].endswith(JAPANESE)
    assert [line.split()[1] for line in told[4:7]] == ["discarded", "applied", "applied"]
    assert told[-1] == "Of 6 candidates wait: 2, are settled: 3, cannot be read: 1."


@pytest.mark.parametrize(("state", "count"), [("waiting", 2), ("settled", 3), ("invalid", 1)])
def test_the_list_is_narrowed_by_state_and_says_what_it_leaves_out(there: Remembering, state: str, count: int, capsys: Capture) -> None:
    of_all_kinds(there)

    assert there.command("candidates", "--state", state, "--json") == 0
    assert [one["state"] for one in as_json(capsys)] == [state] * count
    assert there.command("candidates", "--state", state, "--limit", "1") == 0
    assert (f"{count - 1} more are not shown: --limit {count}" in capsys.readouterr().out) == (count > 1)


def test_the_page_of_a_settled_one_says_where_it_went_and_where_it_was_said(there: Remembering, capsys: Capture) -> None:
    there.replies(known(1))
    first, _ = of_all_kinds(there)

    assert there.command("candidates", "5e551011.00000001.000") == 0

    page = capsys.readouterr().out
    assert page.startswith("Candidate 5e551011.00000001.000: applied, it went into a record\n")
    head, said = page.split("\n\nIt was said:\n")
    assert f"Claim     {FIRST}\n" in head and "Record    decision/deploy-freeze: insomnia memory show decision/deploy-freeze\n" in head
    told = " ".join(head.split())
    assert f"Settled by run {first}, " in told and f"(insomnia memory runs {first[:8]})" in told
    assert f"Staged 2026-11-30 10:00 from entry 1 of the session {SESSION} (route main), by run extract1" in told
    assert f"File .insomnia/memory/_trash/{first}/_staging/5e551011.00000001.000.json" in told
    assert said.splitlines() == [
        "  entry 1, by U0ALICE (user), 2026-11-30 09:00",
        f"    | {FIRST}",
        f"    in {CHANNEL}, message {TS}, thread {THREAD_TS}: insomnia why 00000001",
    ]


def test_a_reply_that_the_store_has_forgotten_is_told_by_its_trace(there: Remembering, capsys: Capture) -> None:
    of_all_kinds(there)

    assert there.command("candidates", "5e551011.00000011") == 0
    assert f"in the trace {11:032x}, which the trace store does not have (any more)" in capsys.readouterr().out


def test_one_that_waits_says_how_long_how_often_it_was_put_off_and_why(there: Remembering, capsys: Capture) -> None:
    _, second = of_all_kinds(there)

    assert there.command("candidates", "5e551011.00000005.001") == 0
    told = facts(capsys)
    assert " ago; put off once, last by run " in told["Waits"] and second in told["Waits"]
    assert told["Reason"] == "Nobody said when."

    past = PastFile(there.state / "memory" / "_state", disk=Disk())
    past.write(Past(deferrals={"5e551011.00000005.001": 4}, failed={"5e551011.00000005.001": 2}))
    assert there.command("candidates", "5e551011.00000005.001") == 0
    waits = facts(capsys)["Waits"]
    assert "put off 4 times" in waits and "2 runs that it was in have failed" in waits and "asks for no run of its own" in waits


def test_json_joins_the_candidate_to_its_message_and_its_runs(there: Remembering, capsys: Capture) -> None:
    there.replies(known(1))
    first, second = of_all_kinds(there)

    assert there.command("candidates", "--json") == 0

    by_id = {one["id"]: one for one in as_json(capsys)}
    applied, waiting, invalid = (by_id[one] for one in ("5e551011.00000001.000", "5e551011.00000005.001", "abcd0000.00000001.000"))
    assert (applied["state"], applied["disposition"], applied["record"]) == ("settled", "applied", "decision/deploy-freeze")
    assert (applied["run_id"], applied["staged_by"], applied["waits_seconds"]) == (first, "extract1", None)
    assert (applied["session_id"], applied["route"], applied["scope"], applied["said_at"]) == (
        SESSION,
        "main",
        "workspace",
        "2026-11-30T09:00:00+00:00",
    )
    (said,) = applied["evidence"]
    assert (said["by"], said["excerpt"], said["reply"]["channel"], said["reply"]["ts"]) == ("U0ALICE", FIRST, CHANNEL, TS)
    assert (waiting["state"], waiting["put_off"], waiting["run_id"], waiting["reason"]) == ("waiting", 1, second, "Nobody said when.")
    assert waiting["waits_seconds"] > 0
    assert (invalid["state"], invalid["problem"], invalid["claim"]) == ("invalid", "it cannot be read as JSON", None)


def test_what_was_put_aside_keeps_its_reason(there: Remembering, capsys: Capture) -> None:
    of_all_kinds(there)
    broken(there, "abcd0000.00000002", json.dumps({"v": 9, "id": "abcd0000.00000002.000"}))
    broken(there, "abcd0000.00000003", json.dumps({"v": 1, "id": "abcd0000.00000003.000", "claim": 3}))
    (there.state / "memory" / "_staging" / "stray").write_text("x")

    there.run(then(discards_and_defers))

    assert there.command("candidates", "--state", "invalid", "--json") == 0
    told = {one["id"]: (one["problem"], "_invalid" in one["path"]) for one in as_json(capsys)}
    assert told == {
        "abcd0000.00000001.000": ("it cannot be read as JSON", True),
        "abcd0000.00000002.000": ("it was written by another version", True),
        "abcd0000.00000003.000": ("it is no whole candidate", True),
        "stray": ("it cannot be read as JSON", True),
    }
    assert there.command("candidates", "abcd0000.00000001") == 0
    page = capsys.readouterr().out
    assert page.startswith("Candidate abcd0000.00000001.000: it cannot be read, and was put aside\n")
    assert "File      .insomnia/memory/_staging/_invalid/abcd0000.00000001/abcd0000.00000001.000.json\n" in page


def test_a_candidate_whose_run_was_taken_back_says_so(there: Remembering, capsys: Capture) -> None:
    first, _ = of_all_kinds(there)
    assert there.command("undo", first, "--json") == 0
    undo = as_json(capsys)["run_id"]

    assert there.command("candidates", "--state", "settled") == 0
    told = capsys.readouterr().out.splitlines()
    assert [", taken back" in line for line in told[1:4]] == [False, True, True]
    assert there.command("candidates", "5e551011.00000001.000") == 0
    assert f"that run was taken back by {undo}; the candidate stays settled" in facts(capsys)["Settled"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"v": 1}', "null", "\x00"])
def test_a_settled_file_that_is_broken_or_gone_still_has_its_disposition(there: Remembering, damage: str, capsys: Capture) -> None:
    first, _ = of_all_kinds(there)
    folder = there.state / "memory" / "_trash" / first / "_staging"
    (folder / "5e551011.00000001.000.json").write_text(damage)
    (folder / "5e551011.00000001.001.json").unlink()

    assert there.command("candidates", "--state", "settled") == 0

    told = capsys.readouterr().out
    assert "5e551011.00000001.000  applied" in told and "(it cannot be read any more as it was when it was settled: memory/_trash/" in told
    assert "5e551011.00000001.001  applied" in told and "(its file is gone from the trash)" in told
    for one in ("000", "001"):
        assert there.command("candidates", f"5e551011.00000001.{one}") == 0
        page = facts(capsys)
        assert page["Problem"] and page["Reason"] == "it stands in the record"


def test_an_id_that_is_none_or_several_is_an_error(there: Remembering, capsys: Capture) -> None:
    of_all_kinds(there)

    assert there.command("candidates", "5e551011") == 2
    told = capsys.readouterr().err
    assert "5e551011 may be each of these; say which: 5e551011.00000005.001, " in told
    for none in ("ffff", "", "x" * 500, "../../etc", "\x1b[2J"):
        assert there.command("candidates", none) == 1
        err = capsys.readouterr().err
        assert "there is no candidate" in err and "insomnia memory candidates" in err and "\x1b" not in err


def test_where_nothing_was_staged_it_says_so(there: Remembering, capsys: Capture) -> None:
    assert there.command("candidates") == 0
    told = capsys.readouterr()
    assert told.out == "" and "nothing was staged yet; to read now what was said: insomnia memory run extract" in told.err
    assert there.command("candidates", "--json") == 0
    assert as_json(capsys) == []

    stage(there.state, candidate("A note."))
    assert there.command("candidates", "--state", "invalid") == 0
    assert "no candidate is invalid; all there are: insomnia memory candidates" in capsys.readouterr().err
    shutil.rmtree(there.state)
    assert there.command("candidates") == 2


def test_a_staging_that_is_a_link_is_not_followed(there: Remembering, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "elsewhere").mkdir()
    (there.state / "memory" / "_staging").symlink_to(tmp_path / "elsewhere")

    assert there.command("candidates") == 1
    assert "_staging in .insomnia is a link or no directory" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_list_and_page_keep_to_the_terminal_in_japanese_too(
    there: Remembering, columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_all_kinds(there)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert there.command("candidates") == 0
    told = capsys.readouterr().out.splitlines()
    assert max(map(cells, told)) <= columns and "東京" in "".join(told)
    for one in ("5e551011.00000011.000", "5e551011.00000001.001"):
        assert there.command("candidates", one) == 0
        assert max(map(cells, capsys.readouterr().out.splitlines())) <= min(columns, 110)


def test_claims_and_excerpts_cannot_move_the_cursor_and_hold_no_secret(there: Remembering, capsys: Capture) -> None:
    secret = "xoxb-" + "1234567890-abcdefghij"
    (one,) = stage(there.state, candidate(f"\x1b[2J\u202e The token is {secret}\nand a second line", by="\x1b[1m"))

    for argv in ((), (one,), ("--json",), (one, "--json")):
        assert there.command("candidates", *argv) == 0
        told = capsys.readouterr().out
        assert not {"\x1b", "\u202e"} & set(told.replace("\\u001b", "").replace("\\u202e", "")) or "--json" in argv
        assert secret not in told


def test_a_terminal_that_knows_ascii_only_is_told_in_ascii(there: Remembering, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    of_all_kinds(there)
    monkeypatch.setenv("LC_ALL", "C")

    for argv in ((), ("5e551011.00000011.000",), ("--json",)):
        assert there.command("candidates", *argv) == 0
        assert capsys.readouterr().out.isascii()


def test_looking_changes_nothing(there: Remembering, capsys: Capture) -> None:
    of_all_kinds(there)
    before = there.tree()

    for argv in ((), ("--json",), ("5e551011.00000011.000",), ("abcd",)):
        assert there.command("candidates", *argv) == 0
    assert there.tree() == before and SECOND in capsys.readouterr().out


@pytest.mark.sweep
def test_two_thousand_candidates_are_quick(there: Remembering, capsys: Capture) -> None:
    for start in range(1, 2_000, 20):
        stage(there.state, *(candidate(f"Note {n}: {JAPANESE}", n=n) for n in range(start, start + 20)), start=start)

    began = time.monotonic()
    assert there.command("candidates") == 0
    assert there.command("candidates", "5e551011.00001981.019") == 0
    assert time.monotonic() - began < 6.0

    told = capsys.readouterr().out
    assert "Of 2000 candidates wait: 2000" in told and "1980 more are not shown: --limit 2000" in told
