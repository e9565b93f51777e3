"""The words of an explanation, in English and Japanese: decisions, reasons, causes and ends, each spelled once.

Clauses without a subject, so that they fit the page in the terminal and the bot's own sentence in Slack alike. A value that
this version does not know is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.words import Language
from telemetry.events import Decision, DropReason, FailReason, Reason, ResetCause

Both = tuple[str, str]  # English, Japanese

WHAT: Mapping[str, Both] = {
    Decision.KNOWN: (
        "the thread was still in the session's context, so it was not read again",
        "スレッドはまだコンテキストにあり、読み直しは不要でした",
    ),
    Decision.NEW: ("the thread began with this message", "このメッセージから始まるスレッドでした"),
    Decision.REFETCHED: ("the thread was read again from Slack", "スレッドをSlackから読み直しました"),
    Decision.REFETCH_FAILED: (
        "the thread should have been read again, and could not be",
        "スレッドを読み直す必要がありましたが、読めませんでした",
    ),
}

# Nothing stands here for reasons that only say what the decision says.
WHY: Mapping[str, Both] = {
    Reason.HELD_DELTA: ("what others had written since was added", "その後の他の人の発言を加えました"),
    Reason.NO_SESSION: ("there was no session yet", "まだセッションがありませんでした"),
    Reason.NOT_KNOWN: ("the session had not seen it yet", "セッションがまだ読んでいないスレッドでした"),
    Reason.AFTER_ROTATE: ("the session had begun a new context since", "その間にセッションが新しいコンテキストに切り替わりました"),
    Reason.AFTER_COMPACTION: ("the session's context had been compacted since", "その間にコンテキストが圧縮されました"),
    Reason.AFTER_RESUME: ("the session had been resumed after a pause", "休止していたセッションを再開しました"),
    Reason.AFTER_ACCOUNT_SWITCH: ("the session had moved to another account", "セッションのアカウントが切り替わりました"),
    Reason.AFTER_RESTART: ("the session had been restarted since", "その間にセッションが再起動されました"),
    Reason.DELIVERY_GAP: (
        "messages may have been missed while Slack was not connected",
        "Slackとの接続が切れ、届いていない発言がありえました",
    ),
    Reason.MANUAL: ("somebody had asked for it", "読み直すよう依頼がありました"),
    Reason.RATE_LIMITED: ("Slack asked to wait", "Slackから待つよう求められました"),
    Reason.MISSING_SCOPE: ("the app lacks the permission (scope)", "アプリに権限（スコープ）がありません"),
    Reason.NOT_IN_CHANNEL: ("the bot is not a member of the channel", "ボットがチャンネルに参加していません"),
    Reason.THREAD_GONE: ("Slack no longer has it", "Slackにもう残っていません"),
    Reason.SLACK_ERROR: ("Slack returned an error", "Slackがエラーを返しました"),
    Reason.TIMEOUT: ("Slack took too long", "Slackの応答が間に合いませんでした"),
}

NO_ANSWER: Mapping[str, Both] = {
    FailReason.MODEL_ERROR: ("the model returned an error", "モデルがエラーを返しました"),
    FailReason.MODEL_LIMIT: ("the model's usage limit was reached", "モデルの利用上限に達しました"),
    FailReason.MODEL_AUTH: ("the model refused the credentials", "モデルの認証に失敗しました"),
    FailReason.PROMPT_TOO_LONG: ("the prompt was too long for the model", "モデルには長すぎました"),
    FailReason.EMPTY_ANSWER: ("the model ended without an answer", "モデルから回答がありませんでした"),
    FailReason.SESSION_DIED: ("the session ended in the middle of the answer", "回答の途中でセッションが終了しました"),
    FailReason.START_FAILED: ("the session could not be started", "セッションを開始できませんでした"),
    FailReason.DEADLINE: ("the answer took longer than allowed", "制限時間内に回答できませんでした"),
    FailReason.COMPACTED_TWICE: ("the context was compacted twice while answering", "回答中にコンテキストが二度圧縮されました"),
    FailReason.THREAD_GONE: ("the thread is gone from Slack", "スレッドがSlackにもうありません"),
    FailReason.SLACK_ERROR: ("Slack did not take the answer", "回答をSlackに投稿できませんでした"),
    FailReason.BUDGET: ("today's budget was spent", "本日の予算を使い切っていました"),
    FailReason.STOPPED: ("somebody asked to stop", "停止の依頼がありました"),
    FailReason.BOT_DIED: ("the bot broke down at each attempt", "回答のたびにボットが停止しました"),
    FailReason.INTERNAL: ("of an error in the bot itself", "ボットの内部エラーが起きました"),
}

DROPPED: Mapping[str, Both] = {
    DropReason.DUPLICATE: ("Slack delivered it once more; it was taken the first time", "Slackからの再配信で、すでに受け付けていました"),
    DropReason.NOT_ADDRESSED: ("it did not address the bot", "ボット宛てではありませんでした"),
    DropReason.NOT_ALLOWED: ("its author may not use the bot here", "ここでボットを使う許可がない人の発言でした"),
    DropReason.ASKED_STOP: ("it asked to stop what was being answered", "処理を止める依頼でした"),
    DropReason.ASKED_WHY: ("it asked why, and that was told to its author alone", "理由の質問だったので、本人だけに答えました"),
    DropReason.NOT_ROUTED: ("its channel has no route", "チャンネルにルートがありません"),
    DropReason.OWN_MESSAGE: ("it is the bot's own", "ボット自身の発言でした"),
    DropReason.OTHER_BOT: ("another bot wrote it", "別のボットの発言でした"),
    DropReason.BOT_LOOP: ("bots had been answering each other", "ボット同士の応答が続いていました"),
    DropReason.LATE_EDIT: ("it came to address the bot by an edit, too late", "編集でボット宛てになりましたが、遅すぎました"),
    DropReason.IGNORED_EVENT: ("it was deleted, or is of a kind that is not answered", "削除されたか、回答の対象ではない種類でした"),
    DropReason.MALFORMED: ("it could not be read", "読み取れませんでした"),
}

RESETS: Mapping[str, Both] = {
    ResetCause.ROTATE_TOKENS: ("the context was full, a new one was begun", "コンテキストがいっぱいになり、新しくしました"),
    ResetCause.ROTATE_MANUAL: ("a new context was begun by hand", "手動で新しいコンテキストにしました"),
    ResetCause.COMPACTION_AUTO: ("the CLI compacted the context", "CLIがコンテキストを圧縮しました"),
    ResetCause.COMPACTION_MANUAL: ("the bot had the context compacted", "ボットがコンテキストを圧縮しました"),
    ResetCause.COMPACTION_INFERRED: ("the context shrank without notice", "予告なくコンテキストが縮みました"),
    ResetCause.CLEARED: ("the context was cleared", "コンテキストが消去されました"),
    ResetCause.RESUME: ("the session was resumed", "セッションを再開しました"),
    ResetCause.HIBERNATE: ("the session was put to sleep", "セッションを休止しました"),
    ResetCause.RESUME_FAILED: ("the session could not be resumed", "セッションを再開できませんでした"),
    ResetCause.CRASH: ("the session's process died", "セッションのプロセスが落ちました"),
    ResetCause.RESTART: ("the session was restarted", "セッションを再起動しました"),
    ResetCause.ACCOUNT_SWITCH: ("another account took over", "別のアカウントに切り替えました"),
    ResetCause.FORGET_MANUAL: ("the thread was forgotten on request", "依頼によりスレッドを忘れました"),
}


def in_words(words: Mapping[str, Both], value: str, language: Language = Language.ENGLISH) -> str:
    """ "" for "", and for a reason that has no words of its own; an unknown value as it is."""
    english, japanese = words.get(value, (value, value))
    return japanese if language is Language.JAPANESE else english


def why(reason: str, language: Language = Language.ENGLISH) -> str:
    """ "" where the decision says it all."""
    return "" if reason in (Reason.HELD, Reason.FIRST_MESSAGE) else in_words(WHY, reason, language)
