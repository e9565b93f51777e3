"""What a person reads first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.banner import MONTH_DAYS, SHOWN, banner_lines
from bot.claude_launch import Cli
from bot.config import Settings
from bot.workspace import Workspace

QUESTION = ("When is the release?", "The release")
CLI = Cli(path=Path("claude"), version="2.1.332", source="PATH")


def thread(ts: str = "1758000000.000100", *, days: float = 40.5, channel: str = "general", words: str = "release") -> dict[str, Any]:
    return {"channel": channel, "thread_ts": ts, "age_days": days, "messages": 12, "first_words": words}


def lines(root: Path, *threads: dict[str, Any], full: bool = True, recovered: int = 0, env: dict[str, str] | None = None) -> list[str]:
    settings = Settings.build(root, {}, env) if env else Settings.for_demo(root)
    workspace = Workspace(root)
    return list(
        banner_lines(
            settings, workspace, CLI, "http://127.0.0.1:1/api/", recovered=recovered, threads=threads, question=QUESTION, full=full
        )
    )


def test_it_says_what_answers_and_where(tmp_path: Path) -> None:
    first, where, last = lines(tmp_path)

    assert first.startswith("insomnia is up: an embedded workspace · the embedded model (no language model")
    assert first.endswith("Claude CLI 2.1.332 (PATH)")
    assert "http://127.0.0.1:1/api/" in where
    assert str(tmp_path / ".insomnia" / "local") in where
    assert last == "Stop it with Ctrl-C."


def test_short_it_is_one_line(tmp_path: Path) -> None:
    assert len(lines(tmp_path, thread(), full=False)) == 1


@pytest.mark.parametrize(("count", "words"), [(1, "1 message that"), (3, "3 messages that")])
def test_it_says_what_an_earlier_run_left(tmp_path: Path, count: int, words: str) -> None:
    assert words in lines(tmp_path, full=False, recovered=count)[1]


def test_old_threads_are_shown_with_a_command_that_picks_one_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    shown = lines(tmp_path, thread("1.1", words="one"), thread("2.2", words="two"))

    assert "  #general  2.2  40 days, 12 messages: two" in shown
    assert shown[-2] == '  insomnia say "What was decided here?" --thread 2.2'


def test_from_elsewhere_the_command_names_the_workspace(tmp_path: Path) -> None:
    root = tmp_path / "my bot"
    root.mkdir()

    assert lines(root, thread())[-2].endswith(f" --workspace '{root}'")


def test_young_threads_and_direct_messages_are_not_shown_and_never_too_many(tmp_path: Path) -> None:
    old = [thread(f"{n}.0", words=f"old {n}") for n in range(SHOWN + 3)]

    shown = "\n".join(lines(tmp_path, thread(days=MONTH_DAYS - 1, words="of last week"), thread(channel="@ann", words="between us"), *old))

    assert "of last week" not in shown
    assert "between us" not in shown
    assert shown.count("#general") == SHOWN
    assert f"old {SHOWN + 2}" in shown


def test_nothing_that_somebody_wrote_moves_the_cursor(tmp_path: Path) -> None:
    shown = lines(tmp_path, thread(words="a\x1b[2Jb\nc"))

    assert not any("\x1b" in line or "\n" in line for line in shown)


def test_the_question_is_asked_where_its_answer_is(tmp_path: Path) -> None:
    shown = lines(tmp_path, thread("1.1", words="The release is on Friday"), thread("2.2", words="lunch"))

    assert any('insomnia say "When is the release?" --thread 1.1' in line for line in shown)
