"""One session by itself: no start, turn or end, however it goes, leaves a state from which the next one cannot begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bot.accounts import Accounts
from bot.config import Credential
from bot.persistent_session import PersistentSession, SessionParts
from bot.ports import Answer, CallEnded, Compacting, CompactionGaveUp, SessionDied, StartFailed, StreamEvent, TurnDeadline, Usage
from bot.routes import RouteSettings
from bot.session_log import read_entries
from bot.session_states import IllegalMove
from bot.state_db import open_state
from bot.thread_routes import ThreadRoutes
from telemetry.events import CompactionFailed, ResetCause, SessionReset, SessionSeen, SessionStarted, SessionState, Thread
from telemetry.names import Attr, SpanName
from tests.bot.fakes import EPOCH, HANGS, MODEL, FakeClaude, FakeClock, called, compacted, failed, settled
from tests.bot.recording import RecordingEmit

THREAD = Thread("T1", "C1", "1700000001.000000")
ROUTE = RouteSettings(name="main", model=MODEL, tools=("Read",), cwd="/srv", autocompact=200_000, rotate_at=150_000)


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock, self.claude, self.emit = FakeClock(), FakeClaude(), RecordingEmit()
        self.db = open_state(folder / "state.db")
        self.threads = ThreadRoutes(self.db, clock=self.clock, boot="first")
        self.session = self.begin()

    def begin(self) -> PersistentSession:
        parts = SessionParts(
            starter=self.claude,
            threads=self.threads,
            folder=self.folder / "sessions",
            clock=self.clock,
            emit=self.emit,
            system_prompt=lambda route: f"prompt of {route.name}",
            accounts=Accounts([Credential("work", "ANTHROPIC_API_KEY", "sk")], clock=self.clock, emit=self.emit),
        )
        return PersistentSession(ROUTE, "main", parts)

    async def turn(self, text: str = "hello") -> Answer:
        await self.session.ready()
        reply = await self.session.send_prompt(text, on_event=lambda _: None)
        self.session.mark_thread_known(THREAD, epoch=reply.epoch)
        return reply.answer

    @property
    def resets(self) -> list[tuple[str, str, int]]:
        return [(f.cause.value, f.how.value, f.forgotten) for f in self.emit.of(SessionReset)]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.session.close()
    assert place.claude.unused == 0
    assert [span.tree() for span in place.emit.spans if not span.ends] == []
    place.db.close()


# -- starting ----------------------------------------------------------------------------------------------------------
async def test_a_session_starts_with_what_its_route_says(place: Place) -> None:
    await place.turn()

    (launch,) = place.claude.launches
    assert (launch.key, launch.model, launch.autocompact, launch.tools, launch.cwd) == ("main", MODEL, 200_000, ("Read",), "/srv")
    assert launch.system_prompt == "prompt of main" and launch.credential == ("ANTHROPIC_API_KEY", "sk")
    assert not launch.resume and launch.session_id == place.session.session_id
    assert [(f.how.value, f.account) for f in place.emit.of(SessionStarted)] == [("fresh", "work")]


async def test_what_no_reply_caused_hangs_under_the_sessions_own_span(place: Place) -> None:
    await place.session.ready()
    assert [root.tree() for root in place.emit.roots] == ["session(session.start)"]
    assert place.emit.named("session.start")[0].attributes[Attr.SESSION_PID] == place.claude.process.pid


async def test_in_a_reply_the_start_hangs_under_the_reply(place: Place) -> None:
    with place.emit.span(SpanName.PROCESS):
        await place.session.ready()

    assert [root.tree() for root in place.emit.roots] == ["process slack(session.start)", "session"]


async def test_a_living_process_is_not_started_twice(place: Place) -> None:
    await place.turn()
    await place.turn()

    assert len(place.claude.launches) == 1


@pytest.mark.parametrize("fault", [StartFailed("no CLI"), OSError("disk full"), asyncio.CancelledError()], ids=["cli", "disk", "cancelled"])
async def test_after_a_start_that_failed_in_any_way_the_next_one_can_begin(place: Place, fault: BaseException) -> None:
    place.claude.start_faults.append(fault)

    with pytest.raises(type(fault)):
        await place.session.ready()

    assert place.session.state is SessionState.FAILED
    assert (await place.turn()).text == "answer 1"
    assert place.resets == []


async def test_an_id_is_worth_resuming_only_once_a_turn_of_it_succeeded(place: Place) -> None:
    await place.session.ready()
    assert place.threads.session_id("main") == ""
    place.claude.turn(failed("overloaded"))
    await place.turn()
    assert place.threads.session_id("main") == ""

    await place.turn()

    assert place.threads.session_id("main") == place.session.session_id


async def test_where_neither_the_old_nor_a_fresh_session_starts_the_old_id_is_not_tried_again(place: Place) -> None:
    await place.turn()
    place.claude.process.die()
    place.claude.start_faults += [StartFailed("gone", dead_resume=True), StartFailed("no memory")]

    with pytest.raises(StartFailed):
        await place.session.ready()
    place.clock.advance(60.0)
    await place.turn()

    assert [launch.resume for launch in place.claude.launches] == [False, True, False, False]


# -- ending ------------------------------------------------------------------------------------------------------------
async def test_closing_keeps_the_id(place: Place) -> None:
    await place.turn()
    await place.session.close()

    assert place.claude.process.closed and place.session.state is SessionState.STOPPED
    place.session = place.begin()
    assert place.session.had_session
    await place.turn()
    assert place.claude.launches[1].resume and place.resets == [("restart", "resume", 0)]


async def test_closing_twice_or_before_any_start_is_nothing(place: Place) -> None:
    await place.session.close()
    await place.session.close()

    assert place.session.state is SessionState.STOPPED


async def test_closing_waits_for_the_running_turn(place: Place) -> None:
    goes_on = asyncio.Event()
    place.claude.turn(goes_on)

    async def turn() -> None:
        async with place.session.turn():
            await place.turn()

    async with asyncio.TaskGroup() as group:
        group.create_task(turn())
        await settled()
        closing = group.create_task(place.session.close())
        await settled()
        assert not closing.done()
        goes_on.set()


async def test_a_death_between_turns_is_seen_once(place: Place) -> None:
    await place.turn()
    place.claude.process.die()

    assert place.session.state is SessionState.FAILED and not place.session.knows_thread(THREAD)
    await place.turn()
    assert place.resets == [("crash", "none", 1)]


async def test_a_death_that_nobody_noticed_leaves_nothing_behind(place: Place) -> None:
    """The exit came while the turn's answer was on its way: the turn looked well, and the process was gone."""
    await place.turn()
    place.claude.process.die(noticed=False)

    await place.turn()

    assert place.resets == [("crash", "resume", 1)]
    assert [span.ends for span in place.emit.named("session")] == [1, 0]


async def test_only_a_living_session_that_nobody_waits_for_is_idle(place: Place) -> None:
    assert not place.session.is_idle
    await place.turn()
    assert place.session.is_idle

    async with place.session.turn():
        assert not place.session.is_idle
    await place.session.hibernate()

    assert not place.session.is_idle and place.claude.process.closed


async def test_who_has_no_process_has_nothing_to_hibernate(place: Place) -> None:
    await place.session.hibernate()

    assert place.session.state is SessionState.STOPPED and place.resets == []


async def test_what_the_cli_compacted_without_a_word_is_found_out_before_the_mark(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.claude.turn(called(60_000), Answer(text="first"))
    await place.turn()
    for tokens in (8_000, 60_000, 9_000):
        place.claude.turn(called(tokens), Answer(text="from a summary"))
        await place.turn()

    assert [(f.cause.value, f.how.value, f.forgotten, f.pre_tokens, f.post_tokens) for f in place.emit.of(SessionReset)] == [
        ("compaction_inferred", "none", 1, 60_000, 8_000),
        ("compaction_inferred", "none", 1, 60_000, 9_000),
    ]
    assert not place.session.knows_thread(THREAD) and place.session.context_tokens == 9_000
    assert capsys.readouterr().err.count("did not announce") == 1


# -- turns -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "cause"),
    [(SessionDied(-9), "crash"), (HANGS, "resume"), (RuntimeError("a bug"), "resume")],
    ids=["died", "hung", "bug"],
)
async def test_after_a_turn_that_failed_in_any_way_the_next_one_can_begin(place: Place, fault: Exception, cause: str) -> None:
    await place.turn()
    place.claude.turn(fault)

    with pytest.raises(type(fault)):
        await place.turn()

    assert not place.session.knows_thread(THREAD) and place.claude.process.closed
    assert place.resets == [], "how it goes on is not known yet"
    await place.turn()
    assert place.resets == [(cause, "resume", 1)]


async def test_a_cancelled_turn_ends_its_process(place: Place) -> None:
    """The CLI would finish it behind our back, and the next answer would be one behind."""
    place.claude.turn(asyncio.Event(), Answer(text="never"))
    await place.session.ready()
    turn = asyncio.get_running_loop().create_task(place.turn())
    await settled()

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert place.claude.process.closed and place.session.state is SessionState.FAILED


async def test_a_loss_that_is_followed_by_a_rotate_is_told_once_with_what_it_cost(place: Place) -> None:
    await place.turn()
    place.claude.turn(HANGS)
    with pytest.raises(TurnDeadline):
        await place.turn()

    await place.session.rotate(ResetCause.ROTATE_TOKENS)

    assert place.resets == [("rotate_tokens", "fresh", 1)]


async def test_the_boundary_is_told_with_its_numbers_and_unknown_ones_stay_unknown(place: Place) -> None:
    await place.turn()
    place.claude.turn(compacted(pre=90_000, post=2_000))
    await place.turn()
    place.claude.turn(compacted(pre=None, post=None))
    await place.turn()

    assert [(f.pre_tokens, f.post_tokens, f.duration_seconds) for f in place.emit.of(SessionReset)] == [
        (90_000, 2_000, 1.5),
        (None, None, 1.5),
    ]


async def test_a_compaction_that_gave_up_is_an_event_and_no_reset(place: Place) -> None:
    await place.turn()
    place.claude.turn(Compacting(EPOCH), CompactionGaveUp(EPOCH))
    await place.turn()

    assert place.resets == [] and len(place.emit.of(CompactionFailed)) == 1
    assert place.session.knows_thread(THREAD) and not place.session.hung_compacting


@pytest.mark.parametrize(
    ("steps", "tokens"),
    [
        ((called(40_000), called(80_000)), 80_000),
        ((called(80_000), compacted(post=3_000)), 3_000),
        ((compacted(post=3_000), called(9_000)), 9_000),
        ((CallEnded(EPOCH, "m", MODEL, Usage(), "", None),), 500),
    ],
    ids=["last_call", "compacted_after_it", "compacted_before_it", "no_usage"],
)
async def test_occupancy_is_that_of_the_last_call_of_the_context_as_it_now_is(
    place: Place, steps: tuple[StreamEvent, ...], tokens: int
) -> None:
    place.claude.turn(called(500), Answer(text="first"))
    await place.turn()
    place.claude.turn(*steps, Answer(text="second"))
    await place.turn()

    assert place.session.context_tokens == tokens


async def test_usage_of_a_turn_that_failed_counts_for_nothing(place: Place) -> None:
    place.claude.turn(called(500), Answer(text="first"))
    await place.turn()
    place.claude.turn(called(160_000), failed("overloaded"))
    await place.turn()

    assert place.session.context_tokens == 500 and not place.session.over_budget


async def test_the_gauges_follow_every_change(place: Place) -> None:
    await place.turn()
    assert place.emit.of(SessionSeen)[-1] == SessionSeen(
        route="main", key="main", state=SessionState.IDLE, known_threads=1, context_tokens=1_000, limit_tokens=150_000, epoch=1
    )

    place.claude.process.die()
    assert place.emit.of(SessionSeen)[-1].known_threads == 0


async def test_a_session_says_what_it_is(place: Place) -> None:
    await place.turn()

    assert repr(place.session) == "<PersistentSession main idle epoch=1 known=1 tokens=1000>"


async def test_a_second_turn_at_once_is_refused_and_changes_nothing(place: Place) -> None:
    goes_on = asyncio.Event()
    place.claude.turn(goes_on)
    async with asyncio.TaskGroup() as group:
        group.create_task(place.turn())
        await settled()

        with pytest.raises(IllegalMove):
            await place.session.send_prompt("too early", on_event=lambda _: None)

        assert place.session.state is SessionState.BUSY
        goes_on.set()


# -- the session log ---------------------------------------------------------------------------------------------------
async def test_a_reset_stands_in_the_log_of_the_session_that_went_on(place: Place) -> None:
    await place.turn()
    await place.session.rotate(ResetCause.ROTATE_TOKENS)

    (entry,) = read_entries(place.session.log_folder / f"{place.session.session_id}.jsonl")
    assert (entry["kind"], entry["text"], entry["epoch"]) == ("reset", "rotate_tokens", 3)


@pytest.mark.parametrize("blocked", ["folder", "file"])
async def test_a_log_that_cannot_be_written_ends_neither_turn_nor_session(
    place: Place, capsys: pytest.CaptureFixture[str], blocked: str
) -> None:
    obstacle: Callable[[Path], object] = Path.touch if blocked == "folder" else Path.mkdir
    if blocked == "folder":
        place.session.log_folder.parent.mkdir()
        obstacle(place.session.log_folder)
    await place.session.ready()
    if blocked == "file":
        obstacle(place.session.log_folder / f"{place.session.session_id}.jsonl")

    for _ in range(2):
        place.claude.turn(compacted())
        assert (await place.turn()).error is None

    assert len(place.resets) == 2
    assert capsys.readouterr().err.count("cannot be used") == 1


async def test_a_log_that_cannot_be_read_recalls_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    await place.turn()
    (place.session.log_folder / "another.jsonl").mkdir()

    assert place.session.telling.recalled(without=THREAD) == []
    assert "cannot be used" in capsys.readouterr().err
