"""Bugs of comparable products around the gate and its lanes, as cases that ours must not have; the numbers are our list's."""

from __future__ import annotations

import asyncio

from bot.ports import Answer, Compacting, SlackError, ToolEnded, ToolStarted
from telemetry.events import LaneWaited, SessionReset
from tests.bot.bench import KNOWN, Bench, block, question, quoted, routes
from tests.bot.conftest import Make
from tests.bot.fakes import CODE, EPOCH, GENERAL, HANGS, ME, called, compacted, settled

TALK = ("The code is walnut.", "And the alarm is off.")


async def test_c001_the_history_of_a_thread_goes_in_once_and_not_with_every_message(bench: Bench) -> None:
    root = bench.old_thread(*(f"line {n}" for n in range(12)))

    asked = [await bench.ask(f"question {n}", thread=root) for n in range(3)]

    assert [a.gate for a in asked] == [("refetched", "no_session", "full"), KNOWN, KNOWN]
    assert [len(quoted(a.prompt)) for a in asked] == [12, 0, 0]
    assert bench.reads == 1 and [a.outcome for a in asked] == ["answered"] * 3


async def test_c002_a_session_that_is_to_be_replaced_is_replaced_before_the_gate_is_asked(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.claude.turn(called(150_001), Answer(text="a long one"))
    bench.mention("Something long")
    last = bench.mention("Sure?", thread=root)
    await bench.ended()

    prompt = bench.claude.prompts[-1]
    assert bench.asked(last, thread=root).gate == ("refetched", "after_rotate", "full")
    assert prompt.index("<summary-") < prompt.index("<thread-") < prompt.index("<message-")
    assert quoted(prompt)[:2] == list(TALK)
    names = [span.name for span in bench.replies[-1].children]
    assert names == ["lane.wait", "session.start", "thread.gate", "thread.inject", "invoke_agent main", "slack.reply"]


async def test_c003_whatever_moves_after_the_decision_what_is_told_as_injected_is_in_the_prompt(bench: Bench) -> None:
    root = bench.old_thread(*TALK)

    def everything_moves() -> None:
        """While the thread is read: another session works, somebody writes, delivery is doubted."""
        bench.mention("Elsewhere", channel=CODE)
        bench.write("Something else", thread=root, user="U2")
        bench.sessions.doubt_delivery()
        bench.threads.bind(bench.asked(root).thread, route="coder", key="coder")

    bench.slack.fail("replies", everything_moves)

    asked = await bench.ask("What is the code?", thread=root)

    assert asked.gate == ("refetched", "no_session", "full")
    (prompt,) = [p for p in bench.claude.prompts if "What is the code?" in p]
    assert quoted(prompt) == list(TALK)
    assert ("no_session", "full", 2) in bench.injections


async def test_c004_the_question_stands_in_its_prompt_once_and_later_messages_wait(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    goes_on = asyncio.Event()
    bench.slack.fail("replies", goes_on)
    first = bench.mention("What is the code?", thread=root)
    await settled()
    bench.write("it is fig", thread=root, user="U2")
    bench.write("no, plum", thread=root, user="U1")
    goes_on.set()
    await bench.ended()

    (prompt,) = bench.claude.prompts
    assert quoted(prompt) == list(TALK) and prompt.count("What is the code?") == 1
    assert bench.asked(first, thread=root).text == "answer 1"
    assert quoted((await bench.ask("Which?", thread=root)).prompt) == ["it is fig", "no, plum"]


async def test_c008_after_a_gap_the_missing_replies_arrive_in_order_each_once(bench: Bench) -> None:
    """The design wins over the case: the whole thread is read again, since an old message may have been edited."""
    root = bench.old_thread(*(f"line {n}" for n in range(20)))
    await bench.ask("Well?", thread=root)
    for n in range(20, 30):
        bench.slack.put(GENERAL, f"line {n}", thread_ts=root)
    bench.sessions.doubt_delivery()

    caught_up = await bench.ask("And now?", thread=root)

    assert caught_up.gate == ("refetched", "delivery_gap", "catch_up")
    assert quoted(caught_up.prompt) == [f"line {n}" for n in range(20, 30)]
    assert bench.injections[-1] == ("delivery_gap", "catch_up", 10)


async def test_c009_a_failed_reading_is_no_empty_thread(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.slack.fail(
        "replies",
        SlackError("conversations.replies", "missing_scope", needed="channels:history"),
        SlackError("conversations.replies", "ratelimited", retry_after=30),
    )

    first = await bench.ask("What is the code?", thread=root)
    second = await bench.ask("What is the code?", thread=root)
    known = bench.knows(root)
    third = await bench.ask("What is the code?", thread=root)

    assert [a.gate for a in (first, second, third)] == [
        ("refetch_failed", "missing_scope", None),
        ("refetch_failed", "rate_limited", None),
        ("refetched", "not_known", "full"),
    ]
    assert not known and bench.knows(root)
    assert "missing_scope" in block(first.prompt)[1] and "rate_limited" in block(second.prompt)[1]
    assert "permission" in first.text and "asks me to wait" in second.text and third.text == "answer 3"


async def test_c011_what_people_and_other_bots_wrote_since_is_in_the_next_prompt(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.write("It changed.", thread=root, user="U2")
    bench.write("", thread=root, user="U1", subtype="file_share", files=[{"name": "plan.pdf", "mimetype": "application/pdf"}])
    bench.write("", thread=root, user="", subtype="bot_message", bot_id="B7", username="CI", attachments=[{"text": "build is red"}])
    bench.write("Since noon.", thread=root, user="U1")

    second = await bench.ask("What is the code?", thread=root)

    assert second.gate == ("known", "held_delta", "delta")
    texts = quoted(second.prompt)
    assert texts[0] == "It changed." and "plan.pdf" in texts[1] and texts[2:] == ["build is red", "Since noon."]
    assert bench.reads == 1 and bench.injections[-1] == ("held_delta", "delta", 4)


async def test_c012_what_was_written_while_the_bot_was_down_is_in_the_prompt_once(make_bench: Make) -> None:
    first = make_bench()
    root = first.old_thread(*TALK)
    await first.ask("What is the code?", thread=root)
    await first.sessions.close_all()
    for text in ("It changed.", "It is fig."):
        first.slack.put(GENERAL, text, user="U2", thread_ts=root)
    second = make_bench(before=first)

    again = await second.ask("What is the code?", thread=root)

    assert again.gate == ("refetched", "after_restart", "full")
    assert quoted(again.prompt) == [*TALK, "What is the code?", "answer 1", "It changed.", "It is fig."]


async def test_c013_the_bots_own_answers_are_in_a_thread_that_is_read_again(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    bench.claude.turn(called(), Answer(text="\n".join("z" * 99 for _ in range(100))))
    long = await bench.ask("Tell me all", thread=root)
    changed = await bench.ask("And now?", thread=root)
    bench.slack.messages[GENERAL, changed.posts[0]["ts"]]["text"] = "answer 2, mended"
    bench.claude.process.stray(compacted())

    again = await bench.ask("Sure?", thread=root)

    own = [line for line in block(again.prompt) if "(U0BOT, you)" in line]
    texts = [line.partition("): ")[2] for line in own]
    assert len(long.posts) == 3 and len(texts) == 4 and texts[-1] == "answer 2, mended"
    assert "".join(texts[:3]).replace("⏎", "").replace(" ", "") == "z" * 9_900


async def test_c015_a_first_mention_in_a_running_thread_sees_the_thread(bench: Bench) -> None:
    root = bench.write("line 0")
    for n in range(1, 8):
        bench.write(f"line {n}", thread=root, user=("U1", "U2")[n % 2])

    asked = await bench.ask("summarise this", thread=root)

    assert asked.gate == ("refetched", "no_session", "full")
    assert quoted(asked.prompt) == [f"line {n}" for n in range(8)]


async def test_c020_the_root_is_injected_once_and_never_with_a_delta_or_a_catch_up(bench: Bench) -> None:
    root = bench.old_thread("The marker is zanzibar.", "Indeed.")
    for n in range(5):
        await bench.ask(f"question {n}", thread=root)
        if n == 2:
            bench.slack.put(GENERAL, "missed", user="U2", thread_ts=root)
            bench.sessions.doubt_delivery()
        else:
            bench.write(f"chatter {n}", thread=root, user="U2")

    assert ["zanzibar" in prompt for prompt in bench.claude.prompts] == [True, False, False, False, False]
    assert [(kind, count) for _, kind, count in bench.injections] == [
        ("full", 2),
        ("delta", 1),
        ("delta", 1),
        ("catch_up", 1),
        ("delta", 1),
    ]


async def test_c021_a_yes_after_a_compaction_finds_the_draft_that_it_is_about(bench: Bench) -> None:
    draft = "\n".join(f"段落{n} " + "文" * 290 for n in range(20))
    bench.claude.turn(called(), Answer(text=draft))
    opened = await bench.ask("下書きをお願いします")
    bench.claude.process.stray(compacted())

    yes = await bench.ask("はい、それで", thread=opened.ts)

    assert yes.gate == ("refetched", "after_compaction", "full")
    own = [line.partition("): ")[2] for line in block(yes.prompt) if ", you): " in line]
    assert [f"段落{n} " in "".join(own) for n in range(20)] == [True] * 20
    assert len(own) == len(opened.posts) == 2


async def test_c023_an_answer_whose_session_died_with_it_is_in_the_next_prompt(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    first = await bench.ask("What is the code?", thread=root)
    bench.claude.process.die(noticed=False)

    why = await bench.ask("Why did you say that?", thread=root)

    assert why.gate == ("refetched", "after_restart", "full")
    assert f"(U0BOT, you): {first.text}" in block(why.prompt)[-1]
    assert bench.resets == [("crash", "resume", 1)]


async def test_c025_a_compaction_that_hangs_does_not_leave_a_session_that_knows_nothing(bench: Bench) -> None:
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    elsewhere = await bench.ask("When is lunch?")
    bench.claude.turn(Compacting(EPOCH), HANGS)

    hung = bench.mention("Sure?", thread=root)
    waiting = [bench.mention("And the alarm?", thread=root), bench.mention("And lunch?", thread=elsewhere.ts)]
    await bench.ended()

    answers = [bench.asked(ts, thread=root) for ts in (hung, waiting[0])] + [bench.asked(waiting[1], thread=elsewhere.ts)]
    assert [a.gate for a in answers] == [("refetched", "after_rotate", "full"), KNOWN, ("refetched", "after_rotate", None)]
    again = bench.claude.prompts[3]
    assert question(again) == "Sure?" and "When is lunch?" in again[again.index("<summary-") : again.index("</summary-")]
    assert bench.resets == [("rotate_tokens", "fresh", 2)]


async def test_c032_a_second_message_during_a_turn_is_answered_after_it_and_never_beside_it(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    root = bench.old_thread(*TALK)
    one = bench.mention("Move it to Monday", thread=root)
    await settled()
    two = bench.mention("no, I meant Tuesday", thread=root)
    elsewhere = bench.mention("Good morning")
    await settled()
    assert len(bench.claude.prompts) == 1
    bench.clock.advance(5)
    goes_on.set()
    await bench.ended()

    assert [question(p) for p in bench.claude.prompts] == ["Move it to Monday", "no, I meant Tuesday", "Good morning"]
    posts = {**{ts: bench.asked(ts, thread=root) for ts in (one, two)}, elsewhere: bench.asked(elsewhere)}
    assert [posts[ts].posts[0]["thread_ts"] for ts in (one, two, elsewhere)] == [root, root, elsewhere]
    assert posts[one].posts[0]["ts"] < posts[two].posts[0]["ts"]
    assert [f.seconds >= 5 for f in bench.emit.of(LaneWaited)] == [False, True, True]


async def test_c033_another_route_answers_at_once(bench: Bench) -> None:
    goes_on = asyncio.Event()
    bench.claude.turn(goes_on)
    bench.mention("Something long")
    await settled()

    quick = bench.mention("Something short", channel=CODE)
    await settled()

    assert bench.asked(quick, channel=CODE).outcome == "answered"
    assert bench.open_messages == 1
    goes_on.set()
    await bench.ended()


async def test_c037_each_answer_stands_in_the_thread_of_its_own_message(make_bench: Make) -> None:
    bench = make_bench(settings=routes(channels=("general", "code"), tools=("Read",)))
    goes_on = asyncio.Event()
    bench.claude.turn(called(), ToolStarted(EPOCH, "t1", "Read"), goes_on, ToolEnded(EPOCH, "t1", False))
    roots = {GENERAL: bench.old_thread("In general"), CODE: bench.old_thread("In code", channel=CODE)}
    asked = {}
    for channel, root in roots.items():
        asked[channel] = bench.mention(f"Question in {channel}", thread=root, channel=channel)
        await settled()
        bench.clock.advance(2)
    goes_on.set()
    await bench.ended()

    for number, (channel, root) in enumerate(roots.items(), start=1):
        answer = bench.asked(asked[channel], thread=root, channel=channel)
        assert answer.text == f"answer {number}" and answer.posts[0]["thread_ts"] == root
    own = [(key[0], m["text"]) for key, m in bench.slack.messages.items() if m["user"] == ME.user_id]
    assert own == [(GENERAL, "answer 1"), (CODE, "answer 2")]


async def test_every_reset_of_these_stories_is_linked_or_inside_a_reply(bench: Bench) -> None:
    """A reset that no reply met leads to the reply before it."""
    root = bench.old_thread(*TALK)
    await bench.ask("What is the code?", thread=root)
    bench.claude.process.stray(compacted())

    (reset,) = bench.emit.of(SessionReset)
    assert reset.linked == bench.replies[-1].ref


async def test_c019_a_thread_keeps_its_route_through_a_restart_and_is_read_again_there(make_bench: Make) -> None:
    first = make_bench()
    root = first.old_thread(*TALK, channel=CODE)
    await first.ask("What is the code?", thread=root, channel=CODE)
    await first.sessions.close_all()
    second = make_bench(before=first)

    again = await second.ask("And the alarm?", thread=root, channel=CODE)

    assert again.gate == ("refetched", "after_restart", "full")
    assert second.knows(root, channel=CODE, key="coder") and second.sessions.peek_session("main") is None


async def test_c031_the_name_and_the_type_of_a_file_are_in_the_prompt(bench: Bench) -> None:
    files = [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf", "filetype": "pdf"}]

    asked = await bench.ask("what is this?", subtype="file_share", files=files)

    assert asked.outcome == "answered" and "plan.pdf" in asked.prompt and "application/pdf" in asked.prompt
