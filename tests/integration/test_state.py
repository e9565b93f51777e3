"""What the bot stands on breaks: the disk is full, `state.db` is damaged, somebody sets the clock. The whole bot, the real CLI."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.story import Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]
HOURS = 3_600.0


def posts(told: Story, words: str) -> list[str]:
    """The threads in which the bot said that."""
    channel = told.slack.workspace.conversation("general").id
    return [m.get("thread_ts", "") for m in told.slack.workspace.store.messages(channel) if words in (m.get("text") or "")]


def state(told: Story) -> Path:
    return told.workspace / ".insomnia" / "state.db"


def damage(path: Path) -> bytes:
    """All pages after the first two, once what stood in the log beside it is in them."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    whole = path.read_bytes()
    broken = whole[:8_192] + b"\xee" * (len(whole) - 8_192)
    path.write_bytes(broken)
    return broken


@pytest.mark.kill
async def test_a_damaged_file_is_put_aside_and_questions_that_it_held_are_found_in_slack(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        await told.ask(place, "What is the vault code?")
        told.model.script.slow(15.0, match="Say it again.")
        before = told.last_request()
        said = told.slack.say("general", "tom", "Say it again.", thread_ts=place.ts, mention=True)
        await told.until(lambda: bool(told.prompts(before)))
        await told.kill()
        told.model.script.clear()
        broken = damage(state(told))

        await told.start()
        answer = await told.answer_to("general", said["ts"])

        assert answer.outcome == "answered" and "walnut-4711" in answer.text
        (aside,) = state(told).parent.glob("state.db.damaged-*Z")
        assert aside.read_bytes() == broken
        assert "It was put aside as state.db.damaged-" in told.errors and "and a new one begun" in told.errors
        await told.until(lambda: "1 questions of the last hour stand in Slack" in told.errors)
        assert sum("walnut-4711" in (m.get("text") or "") for m in told.slack.thread("general", place.ts)[1:]) == 2, "each answered once"
        await told.stop()
        assert told.counted("insomnia.state.troubles", "trouble") == {("damaged",): 1}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.root
async def test_on_a_full_disk_people_are_told_and_everything_is_answered_once_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    (small_disk / "state").mkdir(mode=0o700)
    async with story(tmp_path) as told:
        (told.workspace / ".insomnia").symlink_to(small_disk / "state")
        await told.start()
        await told.answer_to("general", told.slack.say("general", "tom", "Hello", mention=True)["ts"])
        told.model.script.slow(3.0, match="the one in hand")
        before = told.last_request()
        in_hand = told.slack.say("general", "tom", "the one in hand", mention=True)["ts"]
        waiting = told.slack.say("general", "tom", "the one that waits", mention=True)["ts"]
        await told.until(lambda: bool(told.prompts(before)))
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(b"x" * 4_096)
        arriving = told.slack.say("general", "lena", "the one that arrives " + "x" * 6_000, mention=True)["ts"]

        await told.until(lambda: posts(told, "could not take your message") == [arriving])
        await told.until(lambda: posts(told, "Your message is kept") == [in_hand])
        ballast.unlink()

        assert (await told.answer_to("general", in_hand)).outcome == "answered", "once it is on disk, and not before"
        assert (await told.answer_to("general", waiting)).outcome == "answered"
        assert (await told.answer_to("general", arriving)).outcome == "answered", "Slack delivered it again"
        await told.stop()
        assert [outcome for outcome, _ in told.ended() if outcome != "failed"] == ["answered"] * 4
        troubles = told.counted("insomnia.state.troubles", "trouble")
        assert {trouble for (trouble,) in troubles} >= {"not_taken", "not_kept"}


def set_off(file: Path, seconds: float) -> None:
    """In one piece: the bot looks at any time."""
    new = file.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(file)


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_a_clock_that_is_set_by_hours_changes_nothing(tmp_path: Path, way: str) -> None:
    off = tmp_path / "off"
    set_off(off, 0.0)
    async with story(tmp_path, environment={"SET_CLOCK": str(off), "PYTHONPATH": str(Path(__file__).parents[2])}) as told:
        told.program = (str(Path(__file__).with_name("set_clock.py")),)
        if way == "http":
            await told.listen_over_http()
        place = told.old_thread("The vault code is walnut-4711.")
        await told.start()
        assert way == "socket" or await told.verify()
        answers = [await told.ask(place, "What is the vault code?")]
        for hours in (3, -3, 30, -30):
            set_off(off, hours * HOURS)
            told.slack.say("general", "lena", f"By the way, {hours}", thread_ts=place.ts)
            answers.append(await told.ask(place, f"And {hours} hours later?"))

        assert [answer.decided[:2] for answer in answers] == [("refetched", "no_session"), *[("known", "held_delta")] * 4]
        assert told.errors == ""
        await told.stop()
        assert [outcome for outcome, _ in told.ended()] == ["answered"] * 5
