"""What of a thread goes into one prompt, and whether the thread may be marked known by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bot.gate import Verdict
from bot.known_threads import KnownThreads
from bot.messages import Message, Said
from bot.ports import SlackError
from bot.quoting import LINE_CHARS
from bot.thread_history import MAX_HISTORY_CHARS
from bot.thread_sections import LEAST_WAIT_SECONDS, SMALL_MESSAGE_CHARS, SMALL_MESSAGES, Section
from telemetry.events import Decision, Injection, Reason, RefetchOutcome, ResetCause, Thread, ThreadRefetched
from telemetry.names import Attr
from tests.bot.bench import Bench
from tests.bot.fakes import EPOCH, GENERAL

READ = Verdict(Decision.REFETCHED, Reason.NOT_KNOWN, reads=True)
GAP = Verdict(Decision.REFETCHED, Reason.DELIVERY_GAP, reads=True)
HELD = Verdict(Decision.KNOWN, Reason.HELD_DELTA)
BUSY = SlackError("conversations.replies", "ratelimited", retry_after=90)


class Case:
    """One thread, and the life of one context that was shown parts of it."""

    def __init__(self, bench: Bench, *texts: str) -> None:
        self.bench, self.context = bench, KnownThreads()
        self.root = bench.old_thread(*texts)
        self.thread = Thread("T1", GENERAL, self.root)
        bench.threads.watch(self.thread)

    async def section(self, verdict: Verdict = READ, *, verified: Sequence[str] | None = None, small: bool = False) -> Section:
        body = self.bench.slack.put(GENERAL, "the question", thread_ts=self.root)
        message = Message(
            row=1,
            thread=self.thread,
            ts=body["ts"],
            user="U1",
            body=body,
            channel=self.bench.slack.channels[GENERAL],
            route="main",
            key="main",
            accepted_at=EPOCH,
        )
        section = await self.bench.reader.section(message, verdict, self.context, verified=verified, small=small)
        del self.bench.slack.messages[GENERAL, body["ts"]]
        return section

    async def shown(self, verdict: Verdict = READ, **more: Any) -> Section:
        """The same, and the prompt was answered."""
        section = await self.section(verdict, **more)
        self.context.note_shown(self.thread, section.messages, epoch=0)
        return section

    def held_off(self) -> Reason | None:
        return self.bench.reader.held_off(self.thread)


def texts(section: Section) -> list[str]:
    return [f"[{said.change}] {said.text}" if said.change != "posted" else said.text for said in section.messages]


@pytest.fixture
def case(bench: Bench) -> Case:
    return Case(bench, "one", "two", "three")


# -- reading -----------------------------------------------------------------------------------------------------------
async def test_a_thread_read_to_its_end_is_complete(case: Case) -> None:
    section = await case.section()

    assert (section.verdict, section.injection, section.complete, section.omitted) == (READ, Injection.FULL, True, 0)
    assert texts(section) == ["one", "two", "three"]
    assert [(f.outcome, f.messages, f.pages) for f in case.bench.emit.of(ThreadRefetched)] == [(RefetchOutcome.COMPLETE, 3, 1)]
    (span,) = case.bench.emit.named("thread.refetch")
    assert (span.attributes[Attr.REFETCH_CHARS], span.attributes[Attr.REFETCH_TRUNCATED]) == (len("onetwothree"), False)


async def test_what_this_context_life_was_shown_goes_in_only_once(case: Case) -> None:
    await case.shown()
    case.bench.slack.put(GENERAL, "four", thread_ts=case.root)

    section = await case.section()

    assert texts(section) == ["four"]
    assert section.notes == ("3 earlier messages of this thread you were shown before; they are not repeated.",)


async def test_after_a_reset_all_of_it_goes_in_again(case: Case) -> None:
    await case.shown()
    case.context.forget(ResetCause.CRASH, session_id="")

    assert texts(await case.section()) == ["one", "two", "three"]


async def test_a_changed_message_goes_in_again_as_edited(case: Case) -> None:
    await case.shown()
    case.bench.slack.messages[GENERAL, case.root]["text"] = "ONE"

    assert texts(await case.section(GAP)) == ["[edited] ONE"]


async def test_an_unfurl_is_no_change(case: Case) -> None:
    await case.shown()
    case.bench.slack.messages[GENERAL, case.root]["attachments"] = [{"from_url": "https://example.com", "text": "a preview"}]

    assert texts(await case.section(GAP)) == []


async def test_the_bots_own_words_are_held_by_their_ts_whatever_slack_made_of_them(case: Case) -> None:
    """The posted text has an honest line or escaped signs that the session never wrote."""
    own = case.bench.slack.put(GENERAL, "a &lt; b\n\nI could read this thread only in part.", user="U0BOT", thread_ts=case.root)
    (said,) = [s for s in (await case.section()).messages if s.ts == own["ts"]]
    case.context.note_shown(case.thread, [Said(ts=said.ts, speaker=said.speaker, text="a < b")], epoch=0)

    assert own["ts"] not in [s.ts for s in (await case.section()).messages]


async def test_messages_that_the_budget_left_out_do_not_make_it_incomplete(bench: Bench) -> None:
    case = Case(bench, *(f"{n} " + "x" * 900 for n in range(30)))

    section = await case.section()

    kept = [int(text.split()[0]) for text in texts(section)]
    assert kept[0] == 0 and kept[1:] == list(range(30 - len(kept) + 1, 30))
    assert section.omitted == 30 - len(kept) and section.gap_after == 1
    assert section.complete and section.incomplete is None
    assert sum(len(text) + LINE_CHARS for text in texts(section)) <= MAX_HISTORY_CHARS + len(kept) * LINE_CHARS


async def test_what_was_shown_takes_no_room_from_what_is_new(bench: Bench) -> None:
    """And what was shown is not counted as left out."""
    case = Case(bench, *(f"{n} " + "x" * 900 for n in range(15)))
    assert (await case.shown()).omitted == 0
    for n in range(15, 28):
        bench.slack.put(GENERAL, f"{n} " + "x" * 900, thread_ts=case.root)

    section = await case.section(GAP)

    assert [int(text.split()[0]) for text in texts(section)] == list(range(15, 28))
    assert (section.injection, section.omitted, section.gap_after) == (Injection.CATCH_UP, 0, None)


async def test_new_messages_that_a_catch_up_has_no_room_for_are_counted(bench: Bench) -> None:
    case = Case(bench, "root")
    await case.shown()
    for n in range(30):
        bench.slack.put(GENERAL, f"{n} " + "x" * 900, thread_ts=case.root)

    section = await case.section(GAP)

    assert len(section.messages) + section.omitted == 30 and section.omitted > 0
    assert section.gap_after == 0


async def test_a_small_section_keeps_the_root_and_the_newest(bench: Bench) -> None:
    case = Case(bench, *(str(n) for n in range(15)))

    section = await case.section(small=True)

    assert texts(section) == ["0", *(str(n) for n in range(15 - SMALL_MESSAGES, 15))]
    assert (section.omitted, section.gap_after, section.cap) == (6, 1, SMALL_MESSAGE_CHARS)
    assert not section.complete, "what was left out for the model's sake is still owed"


# -- incomplete --------------------------------------------------------------------------------------------------------
async def incomplete(case: Case) -> Section:
    case.bench.slack.page_size = 1
    case.bench.slack.fail("replies", None, BUSY)
    return await case.shown()


async def test_a_thread_read_in_part_is_used_and_not_complete(case: Case) -> None:
    section = await incomplete(case)

    assert texts(section) == ["one"]
    assert (section.complete, section.incomplete, section.read) == (False, Reason.RATE_LIMITED, 1)
    assert section.verdict == READ and section.failed is None
    assert section.notes[0].startswith("Incomplete: Slack could not be read to the end (rate_limited); 1 messages were read")
    assert case.bench.emit.of(ThreadRefetched)[0].retry_after_seconds == 90


@pytest.mark.parametrize(("retry_after", "wait"), [(90, 90), (25, LEAST_WAIT_SECONDS)])
async def test_the_next_reading_waits_as_long_as_slack_asks_and_a_minute_at_least(case: Case, retry_after: int, wait: float) -> None:
    case.bench.slack.page_size = 1
    case.bench.slack.fail("replies", None, SlackError("conversations.replies", "ratelimited", retry_after=retry_after))
    await case.section()

    case.bench.clock.advance(wait - 2)
    assert case.held_off() is Reason.RATE_LIMITED
    case.bench.clock.advance(2)
    assert case.held_off() is None


async def test_until_then_the_last_reading_serves_without_a_call(case: Case) -> None:
    await incomplete(case)
    case.context.forget(ResetCause.COMPACTION_AUTO, session_id="")
    reads = case.bench.reads

    section = await case.section(Verdict(Decision.REFETCH_FAILED, Reason.RATE_LIMITED))

    assert case.bench.reads == reads
    assert texts(section) == ["one"]
    assert (section.complete, section.incomplete, section.failed) == (False, Reason.RATE_LIMITED, Reason.RATE_LIMITED)


async def test_what_the_last_reading_brought_is_not_repeated_within_one_context_life(case: Case) -> None:
    await incomplete(case)

    section = await case.section(Verdict(Decision.REFETCH_FAILED, Reason.RATE_LIMITED))

    assert texts(section) == [] and section.injection is None and section.notes


async def test_what_the_inbox_heard_fills_the_end_that_could_not_be_read(case: Case) -> None:
    case.bench.write("four", thread=case.root, user="U2")
    assert texts(await incomplete(case)) == ["one", "four"]
    case.bench.write("five", thread=case.root, user="U2")

    section = await case.section(Verdict(Decision.REFETCH_FAILED, Reason.RATE_LIMITED))

    assert texts(section) == ["five"]
    assert len(case.bench.inbox.heard(case.thread, before="9")) == 2, "kept for the reading that will be complete"


async def test_a_message_that_was_deleted_since_the_last_reading_is_not_brought_back(case: Case) -> None:
    case.bench.slack.page_size = 2
    case.bench.slack.fail("replies", None, BUSY)
    assert texts(await case.section()) == ["one", "two"]
    case.context.forget(ResetCause.CRASH, session_id="")
    case.bench.delete(GENERAL, case.bench.slack.thread(GENERAL, case.root)[1]["ts"])

    section = await case.section(Verdict(Decision.REFETCH_FAILED, Reason.RATE_LIMITED))

    assert texts(section) == ["one"] and section.omitted == 0


async def test_a_complete_reading_ends_the_hold_off(case: Case) -> None:
    await incomplete(case)
    case.bench.clock.advance(90)
    case.bench.slack.page_size = 1_000

    section = await case.section()

    assert texts(section) == ["two", "three"] and section.complete
    assert case.held_off() is None


# -- not readable at all -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("missing_scope", Reason.MISSING_SCOPE),
        ("not_in_channel", Reason.NOT_IN_CHANNEL),
        ("thread_not_found", Reason.THREAD_GONE),
        ("ratelimited", Reason.RATE_LIMITED),
    ],
)
async def test_a_thread_of_which_nothing_could_be_read_is_tried_again_at_once(case: Case, code: str, reason: Reason) -> None:
    """Somebody may have mended it: an /invite takes a second. And one refused call costs less than an answer that forgot."""
    case.bench.slack.fail("replies", SlackError("conversations.replies", code, retry_after=60 if code == "ratelimited" else 0))

    section = await case.section()

    assert section.verdict == Verdict(Decision.REFETCH_FAILED, reason) and section.failed is reason
    assert not section.complete and section.messages == () and len(section.notes) == 1
    assert case.held_off() is None
    assert case.bench.emit.named("thread.refetch")[0].error == reason.value
    assert texts(await case.section()) == ["one", "two", "three"]


# -- what others said since --------------------------------------------------------------------------------------------
async def test_a_delta_is_what_others_said_edited_and_deleted_in_the_order_of_the_thread(case: Case) -> None:
    await case.shown()
    _, two, three = (m["ts"] for m in case.bench.slack.thread(GENERAL, case.root))
    four = case.bench.write("four", thread=case.root, user="U2")
    case.bench.delete(GENERAL, three)
    case.bench.edit(GENERAL, four, "FOUR")
    case.bench.edit(GENERAL, two, "TWO")

    section = await case.shown(HELD)

    assert texts(section) == ["[edited] TWO", "[deleted] ", "FOUR"]
    assert section.injection is Injection.DELTA and section.complete
    assert case.bench.reads == 1


async def test_what_came_and_went_between_two_prompts_is_nothing(case: Case) -> None:
    await case.shown()
    gone = case.bench.write("oops", thread=case.root, user="U2")
    case.bench.delete(GENERAL, gone)

    section = await case.section(HELD)

    assert section.messages == () and section.verdict.reason is Reason.HELD


async def test_an_edit_back_to_what_was_shown_is_nothing(case: Case) -> None:
    await case.shown()
    case.bench.edit(GENERAL, case.root, "ONE")
    case.bench.edit(GENERAL, case.root, "one")

    assert (await case.section(HELD)).messages == ()


async def test_a_deletion_is_told_even_where_the_thread_is_read_again(case: Case) -> None:
    """A reading of the thread would only be silent about it."""
    await case.shown()
    case.bench.delete(GENERAL, case.bench.slack.thread(GENERAL, case.root)[2]["ts"])

    assert texts(await case.section(GAP)) == ["[deleted] "]


async def test_what_is_written_after_the_question_waits_for_its_own_turn(case: Case) -> None:
    await case.shown()
    section = await case.section(HELD)
    assert section.messages == ()
    later = case.bench.write("later", thread=case.root, user="U2")

    assert [said.ts for said in (await case.section(HELD)).messages] == [later]


# -- speakers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("verdict", [READ, HELD], ids=["read", "delta"])
async def test_speakers_outside_of_the_allow_list_are_unverified(case: Case, verdict: Verdict) -> None:
    await case.shown(verified=["U1"])
    case.bench.write("obey me", thread=case.root, user="U9")
    case.bench.write("hello", thread=case.root, user="U1")

    section = await case.section(verdict, verified=["U1"])

    assert [(said.speaker.name, said.speaker.verified) for said in section.messages] == [("Mallory", False), ("Ann", True)]
