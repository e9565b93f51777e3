from __future__ import annotations

from bot.local.model_context import Asked, Context, Line, read
from bot.local.model_rules import ENGLISH, JAPANESE, REQUEST_CHARS, answer, summary
from bot.local.model_turns import turns

THREAD = "T0/C0/1761.000100"


def said(text: str, *, day: str = "2026-10-28", name: str = "Alice") -> Line:
    return Line(when=f"{day}T10:00:00+09:00", name=name, speaker=f"U{name.upper()}", text=text)


def own(text: str, *, day: str = "2026-10-28") -> Line:
    return Line(when=f"{day}T10:00:00+09:00", name="", speaker="", text=text, own=True)


def asking(question: str, *held: Line, notes: tuple[str, ...] = (), thread: str = THREAD) -> Context:
    line = Line(when="2026-11-30T12:00:00+09:00", name="Carol", speaker="UCAROL", text=question)
    return Context(threads={thread: [*held, line]}, asked=Asked(thread=thread, line=line, notes=notes), open=True)


RELEASE = said("we moved the release ⏎ to Friday")
LUNCH = said("lunch is on Thursday", day="2026-10-29", name="Bob")


def test_the_line_that_fits_is_quoted_with_speaker_and_date() -> None:
    text = answer(asking("when is the release?", RELEASE, LUNCH))

    assert text == (
        "From this thread: Alice wrote on 2026-10-28: “we moved the release to Friday”. I hold 2 messages of this thread. "
        "(embedded model: no language model, I only quote my context)"
    )


def test_a_japanese_question_is_answered_in_japanese() -> None:
    text = answer(asking("リリースはいつ？", said("リリースは金曜に変更しました")))

    assert text.startswith(
        "このスレッドより：Aliceさん（2026-10-28）「リリースは金曜に変更しました」。このスレッドのメッセージを1件持っています。"
    )
    assert text.endswith(JAPANESE.signature)


def test_nothing_held_is_said_plainly() -> None:
    assert answer(asking("when is the release?")).startswith("I have no earlier message of this thread in my context. (")
    assert answer(asking("リリースはいつ？")).startswith("このスレッドのこれまでのメッセージは、手元の文脈にありません。")


def test_a_question_that_nothing_fits_gets_the_threads_beginning_and_end() -> None:
    text = answer(asking("what about the weather?", RELEASE, said("so be it", name="Bob"), LUNCH))

    assert "The thread begins: Alice wrote on 2026-10-28: “we moved the release to Friday”." in text
    assert "Newest: Bob wrote on 2026-10-29: “lunch is on Thursday”." in text
    assert "I hold 3 messages of this thread." in text


def test_the_only_line_is_not_told_twice() -> None:
    assert answer(asking("what about the weather?", RELEASE)).count("Friday") == 1


def test_missing_history_is_admitted_before_anything_else() -> None:
    note = "They could not be read from Slack (rate_limited): say so, do not guess what they said."

    english, japanese = answer(asking("when?", notes=(note,))), answer(asking("いつ release？", RELEASE, notes=(note,)))

    assert english.startswith("Please note: They could not be read from Slack (rate_limited). I have no earlier message")
    assert japanese.startswith("ご注意：このスレッドの履歴はそろっていません（They could not be read from Slack (rate_limited)）。")


def test_an_answer_of_its_own_rules_is_counted_and_never_quoted() -> None:
    before = answer(asking("when is the release?", RELEASE))

    assert answer(asking("when is the release?", RELEASE, own(before))).count("Friday") == 1
    assert "I hold 2 messages" in answer(asking("when is the release?", RELEASE, own(before)))
    assert "Friday" not in answer(asking("when is the release?", own(before)))


def test_a_plain_answer_of_the_bot_is_quoted_as_its_own() -> None:
    assert "I wrote on 2026-10-28: “the release slips”" in answer(asking("release?", own("the release slips")))


def test_a_long_line_is_shortened() -> None:
    assert len(answer(asking("release", said("release " * 500)))) < 450


def test_a_prompt_without_a_thread_is_told_what_it_can_do() -> None:
    assert answer(Context(plain="hello")).startswith(ENGLISH.no_thread)
    assert answer(Context(plain="こんにちは")).startswith(JAPANESE.no_thread)


def test_a_summary_names_threads_and_keeps_no_line() -> None:
    context = asking("when is the release?", RELEASE)
    context.threads["T0/C0/1762.000200"] = [LUNCH]

    text = summary(context)

    assert text.startswith("<analysis>") and text.endswith("</summary>")
    assert f"- thread {THREAD} began: we moved the rel…" in text and "T0/C0/1762.000200" in text
    assert "Friday" not in text and "Thursday" not in text


def test_a_thread_stands_in_a_summary_with_sixty_characters_at_most() -> None:
    long = said("0123456789" * 50)

    lines = [line for line in summary(asking("hm", long)).splitlines() if line.startswith("- thread")]

    assert len(lines[0].partition("began: ")[2]) <= 60


def test_a_summary_carries_on_older_sketches_and_the_open_request() -> None:
    context = asking("when is the release?\nplease", RELEASE)
    context.sketches["T0/C0/1.1"] = "older words…"

    text = summary(context)

    assert "- thread T0/C0/1.1 began: older words…" in text
    assert f"Open request in thread {THREAD} from Carol at 2026-11-30T12:00:00+09:00: when is the release? ⏎ please" in text


def test_an_answered_request_is_not_open() -> None:
    context = asking("when?", RELEASE)
    context.open = False

    assert "Open request" not in summary(context)


def test_a_huge_request_is_cut_in_a_summary() -> None:
    assert len(summary(asking("x" * 10_000))) < REQUEST_CHARS + 500


def test_after_a_compaction_the_open_request_is_answered_from_nothing() -> None:
    shrunk = summary(asking("when is the release?", RELEASE))
    continued = f"This session is being continued from a previous conversation.\n\nSummary:\n{shrunk}\n\nContinue the conversation."

    context = read(turns({"messages": [{"role": "user", "content": continued}]}))

    assert context.asked is not None and context.asked.line.text == "when is the release?"
    assert context.sketches == {THREAD: "we moved the rel…"}
    assert answer(context).startswith(ENGLISH.nothing)
    assert summary(context).count("we moved the rel…") == 1


def test_many_threads_leave_a_summary_short() -> None:
    context = Context(threads={f"T0/C0/{number}.1": [said(f"thread number {number}")] for number in range(100)})

    text = summary(context)

    assert "60 older threads are not listed." in text and "T0/C0/99.1" in text and "T0/C0/5.1 " not in text
