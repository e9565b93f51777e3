"""What the embedded model says: a quotation of its context, or the honest word that it has none.

Pure. Must stay true: nothing is said of a thread that does not stand in the context, what comes from memory is called that, and a
summary never keeps a whole line, so that a thread which was forgotten shows as forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.local.model_context import Asked, Context, Line, lines_in_order
from bot.local.model_ranking import best, is_japanese

QUOTE_CHARS = 200  # a line is quoted up to here
SKETCH_CHARS = 40  # of a thread's first line in a summary, and never more than half of it
SKETCHES = 40  # threads that a summary lists, the newest ones
REQUEST_CHARS = 2_000  # of an open request in a summary


@dataclass(frozen=True, slots=True)
class Phrases:
    signature: str
    nothing: str
    only_answers: str
    no_thread: str
    quoted: str
    person: str
    bot_itself: str
    undated: str
    undated_itself: str
    single: str
    begins: str
    one_held: str
    held: str
    note: str
    recalled: str
    reported: str
    gap: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """`record`: kind/slug of the one that fits the question."""

    record: str
    text: str
    by_person: bool = True


ENGLISH = Phrases(
    signature="(embedded model: no language model, I only quote my context)",
    nothing="I have no earlier message of this thread in my context.",
    only_answers="Of this thread I hold nothing but an answer of my own.",
    no_thread="I can only quote Slack threads, and there is none in this prompt.",
    quoted="From this thread: {quotes}.",
    person="{name} wrote on {day}: “{text}”",
    bot_itself="I wrote on {day}: “{text}”",
    undated="{name} wrote: “{text}”",
    undated_itself="I wrote: “{text}”",
    single="All I hold of this thread: {first}.",
    begins="No line fits your question. The thread begins: {first}. Newest: {last}.",
    one_held="I hold 1 message of this thread.",
    held="I hold {count} messages of this thread.",
    note="Please note: {note}.",
    recalled="From memory ({record}): “{text}”.",
    reported="From memory ({record}, as a tool or a page said it, not a person): “{text}”.",
    gap=" ",
)
JAPANESE = Phrases(
    signature="（埋め込みモデル：言語モデルではなく、手元の文脈を引用するだけです）",
    nothing="このスレッドのこれまでのメッセージは、手元の文脈にありません。",
    only_answers="このスレッドで手元にあるのは、私自身の返答だけです。",
    no_thread="引用できるのは Slack のスレッドだけですが、このプロンプトにはありません。",
    quoted="このスレッドより：{quotes}。",
    person="{name}さん（{day}）「{text}」",
    bot_itself="私（{day}）「{text}」",
    undated="{name}さん「{text}」",
    undated_itself="私「{text}」",
    single="このスレッドで手元にあるもの：{first}。",
    begins="質問に合う行は見つかりません。スレッドの始まり：{first}。最新：{last}。",
    one_held="このスレッドのメッセージを1件持っています。",
    held="このスレッドのメッセージを{count}件持っています。",
    note="ご注意：このスレッドの履歴はそろっていません（{note}）。",
    recalled="記憶より（{record}）：「{text}」。",
    reported="記憶より（{record}、人ではなくツールやページの記述）：「{text}」。",
    gap="",
)
_INSTRUCTION = re.compile(r"[:;.] (?:say|tell|do not)\b", re.IGNORECASE)
_SIGNATURES = (ENGLISH.signature, JAPANESE.signature)


def answer(context: Context, recalled: Recalled | None = None) -> str:
    """`recalled`: what the memory says of it, where the thread says nothing."""
    asked = context.asked
    phrases = JAPANESE if is_japanese(asked.line.text if asked else context.plain) else ENGLISH
    if asked is None:
        return phrases.gap.join([phrases.no_thread, phrases.signature])
    notes = [phrases.note.format(note=_as_told(note)) for note in asked.notes[:1]]
    of_thread = _of_thread(asked, context.earlier(), phrases)
    if recalled:  # then the lines do not fit: how many there are is enough
        return phrases.gap.join([*notes, _from_memory(recalled, phrases), of_thread[-1], phrases.signature])
    return phrases.gap.join([*notes, *of_thread, phrases.signature])


def quotable(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not _is_quotation(line)]


def summary(context: Context) -> str:
    """The answer to a compaction request."""
    began = _beginnings(context)
    listed = list(began.items())[-SKETCHES:]
    parts = ["Written by Insomnia's embedded model: it lists threads and keeps none of their lines."]
    parts += [f"- thread {thread} began: {words}" for thread, words in listed]
    if len(began) > len(listed):
        parts.append(f"{len(began) - len(listed)} older threads are not listed.")
    if context.open and context.asked is not None:
        line = context.asked.line
        text = shorten(line.text.replace("\n", " ⏎ "), limit=REQUEST_CHARS)
        parts.append(f"Open request in thread {context.asked.thread} from {line.name} at {line.when}: {text}")
    body = "\n".join(parts)
    return f"<analysis>\nThreads were listed, lines were left out.\n</analysis>\n<summary>\n{body}\n</summary>"


def shorten(text: str, *, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _of_thread(asked: Asked, earlier: Sequence[Line], phrases: Phrases) -> list[str]:
    if not earlier:
        return [phrases.nothing]
    lines = quotable(earlier)
    if not lines:
        return [phrases.only_answers]
    count = phrases.one_held if len(earlier) == 1 else phrases.held.format(count=len(earlier))
    return [_quotes(asked, lines, phrases), count]


def _from_memory(recalled: Recalled, phrases: Phrases) -> str:
    text = shorten(" ".join(recalled.text.split()), limit=QUOTE_CHARS)
    return (phrases.recalled if recalled.by_person else phrases.reported).format(record=recalled.record, text=text)


def _as_told(note: str) -> str:
    """Without what it tells the model to do (`…: say so, do not guess`)."""
    return shorten(_INSTRUCTION.split(note)[0], limit=QUOTE_CHARS).rstrip("。.")


def _quotes(asked: Asked, lines: Sequence[Line], phrases: Phrases) -> str:
    fitting = best(asked.line.text, [line.text for line in lines])
    if fitting:
        between = "；" if phrases is JAPANESE else "; "
        return phrases.quoted.format(quotes=between.join(_quote(lines[index], phrases) for index in fitting))
    first, last = _quote(lines[0], phrases), _quote(lines[-1], phrases)
    return (phrases.single if len(lines) == 1 else phrases.begins).format(first=first, last=last)


def _quote(line: Line, phrases: Phrases) -> str:
    text = shorten(" ".join(line.text.replace("⏎", " ").split()), limit=QUOTE_CHARS)
    if line.when:
        template = phrases.bot_itself if line.own else phrases.person
    else:
        template = phrases.undated_itself if line.own else phrases.undated
    return template.format(name=line.name, day=line.when[:10], text=text)


def _is_quotation(line: Line) -> bool:
    """An answer of this model's own: to quote it would be to quote a quotation, and would pass off as held what is not."""
    return line.own and any(signature in line.text for signature in _SIGNATURES)


def _beginnings(context: Context) -> dict[str, str]:
    """First words by thread; threads of an older summary first. A sketch is kept as it is: its line is gone."""
    began = {thread: words for thread, words in context.sketches.items() if not context.threads.get(thread)}
    for thread, lines in context.threads.items():
        held = quotable(lines_in_order(lines))
        if thread and (held or thread in context.sketches):
            began[thread] = context.sketches.get(thread) or _first_words(held[0].text)
    return began


def _first_words(line: str) -> str:
    """Never the whole line: what a compaction drops has to be gone."""
    text = " ".join(line.split())
    return text[: min(SKETCH_CHARS, len(text) // 2)].rstrip() + "…"
