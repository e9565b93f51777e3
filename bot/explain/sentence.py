"""An explanation for the person who asks in Slack: what was decided and why, in one line, in that person's language.

Nothing of it was written by somebody else: ids, numbers and words of ours. It never says more than the page does.
"""

from __future__ import annotations

from bot.explain.explanation import INTERRUPTED, RUNNING, WAITING, Explanation
from bot.explain.words import DROPPED, NO_ANSWER, WHAT, in_words, why
from bot.words import Language
from telemetry.events import Outcome, Reason

SHORT_ID = 8  # digits of a trace id; `insomnia why` takes them

_NEVER = ("I have not answered in this thread yet.", "このスレッドではまだ回答していません。")
_NOTHING = ("I have no record of that answer any more.", "その回答の記録はもう残っていません。")
_STILL = ("I am still working on it.", "まだ処理中です。")
_BROKEN_OFF = ("I was stopped before I could answer.", "回答の前に停止しました。")


def sentence_of(explanation: Explanation | None, language: Language) -> str:
    """None: nothing is known of it."""
    if explanation is None:
        return _in(_NOTHING, language)
    parts = (_end(explanation, language), _gate(explanation, language), _history(explanation, language), _since(explanation, language))
    sentences = [*filter(None, parts), _where(explanation, language)]
    return ("" if language is Language.JAPANESE else " ").join(sentences)


def never_answered(language: Language) -> str:
    return _in(_NEVER, language)


def _in(both: tuple[str, str], language: Language) -> str:
    return both[language is Language.JAPANESE]


def _end(e: Explanation, language: Language) -> str:
    """Only where there is no answer."""
    if e.outcome in (WAITING, RUNNING):
        return _in(_STILL, language)
    if e.outcome in (INTERRUPTED, Outcome.CANCELLED):
        return _in(_BROKEN_OFF, language)
    if e.outcome == Outcome.FAILED:
        clause = in_words(NO_ANSWER, e.reason, language)
        return f"回答できませんでした（{clause}）。" if language is Language.JAPANESE else f"I could not answer, because {clause}."
    if e.outcome == Outcome.DROPPED:
        clause = in_words(DROPPED, e.reason, language)
        return f"回答しませんでした（{clause}）。" if language is Language.JAPANESE else f"I did not answer: {clause}."
    return ""


def _gate(e: Explanation, language: Language) -> str:
    if not e.gate.decision:
        return ""
    what, because = in_words(WHAT, e.gate.decision, language), why(e.gate.reason, language)
    if language is Language.JAPANESE:
        return f"{what}（{because}）。" if because else f"{what}。"
    joint = "; " if e.gate.reason == Reason.HELD_DELTA else ", because "
    return f"{what[0].upper()}{what[1:]}{joint if because else ''}{because}."


def _history(e: Explanation, language: Language) -> str:
    h = e.history
    if not (h.read or h.injected or h.omitted):
        return ""
    if language is Language.JAPANESE:
        read = f"{h.read}件を読み" if h.read else f"{h.injected}件を加え"
        return f"{read}、{h.omitted}件を省きました{'（全部は読めませんでした）' if h.incomplete else ''}。"
    read = f"{_messages(h.read)} read" if h.read else f"{_messages(h.injected)} added"
    return f"{read}, {h.omitted} left out{', though not all could be read' if h.incomplete else ''}."


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _since(e: Explanation, language: Language) -> str:
    count = len(e.session.since)
    if not count:
        return ""
    if language is Language.JAPANESE:
        return f"その後、コンテキストは{count}回リセットされました。"
    return f"The context was reset {'once' if count == 1 else f'{count} times'} since."


def _where(e: Explanation, language: Language) -> str:
    short = e.trace_id[:SHORT_ID]
    if language is Language.JAPANESE:
        took = "" if e.seconds is None else f"{e.seconds:.1f}秒、"
        return f"（{took}トレース {short}）"
    took = "" if e.seconds is None else f"{e.seconds:.1f} s, "
    return f"({took}trace {short})"
