"""Every sentence the bot says to a person, by id, in English and Japanese. The model's own words are not here.

A sentence says what happened and, where somebody can do something about it, what. Values are filled in by name, and both
languages of a sentence take the same ones (a test compares them). What somebody else chose, a channel's name say, has to
be neutralised like the model's words.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from telemetry.events import FailReason, Reason


class Language(StrEnum):
    ENGLISH = "en"
    JAPANESE = "ja"


class Sentence(StrEnum):
    STATUS_THINKING = "status_thinking"
    HISTORY_RATE_LIMITED = "history_rate_limited"
    HISTORY_MISSING_SCOPE = "history_missing_scope"
    HISTORY_NOT_IN_CHANNEL = "history_not_in_channel"
    HISTORY_THREAD_GONE = "history_thread_gone"
    HISTORY_SLACK_ERROR = "history_slack_error"
    HISTORY_TIMEOUT = "history_timeout"
    HISTORY_INCOMPLETE = "history_incomplete"
    HISTORY_INCOMPLETE_OF = "history_incomplete_of"
    MODEL_ERROR = "model_error"
    MODEL_LIMIT = "model_limit"
    MODEL_LIMIT_UNTIL = "model_limit_until"
    MODEL_AUTH = "model_auth"
    PROMPT_TOO_LONG = "prompt_too_long"
    EMPTY_ANSWER = "empty_answer"
    SESSION_DIED = "session_died"
    START_FAILED = "start_failed"
    DEADLINE = "deadline"
    COMPACTED_TWICE = "compacted_twice"
    SLACK_ERROR = "slack_error"
    BOT_DIED = "bot_died"
    INTERNAL = "internal"
    BUDGET = "budget"
    STOPPED = "stopped"
    NOTHING_TO_STOP = "nothing_to_stop"
    NOT_ALLOWED = "not_allowed"
    NOT_TAKEN = "not_taken"
    KEPT_FOR_LATER = "kept_for_later"
    EMPTY_MENTION = "empty_mention"
    RESTARTING = "restarting"
    NOT_ROUTED = "not_routed"
    TRACE = "trace"
    FOOTER_HELD = "footer_held"
    FOOTER_READ = "footer_read"
    FOOTER_ADDED = "footer_added"
    FOOTER_OMITTED = "footer_omitted"


# Why the thread was not read. Reasons of other decisions need no words.
HISTORY_UNREAD: dict[Reason, Sentence] = {
    Reason.RATE_LIMITED: Sentence.HISTORY_RATE_LIMITED,
    Reason.MISSING_SCOPE: Sentence.HISTORY_MISSING_SCOPE,
    Reason.NOT_IN_CHANNEL: Sentence.HISTORY_NOT_IN_CHANNEL,
    Reason.THREAD_GONE: Sentence.HISTORY_THREAD_GONE,
    Reason.SLACK_ERROR: Sentence.HISTORY_SLACK_ERROR,
    Reason.TIMEOUT: Sentence.HISTORY_TIMEOUT,
}

# Why there is no answer. Where the thread is gone there is no place to say anything.
NO_ANSWER: dict[FailReason, Sentence] = {
    FailReason.MODEL_ERROR: Sentence.MODEL_ERROR,
    FailReason.MODEL_LIMIT: Sentence.MODEL_LIMIT,
    FailReason.MODEL_AUTH: Sentence.MODEL_AUTH,
    FailReason.PROMPT_TOO_LONG: Sentence.PROMPT_TOO_LONG,
    FailReason.EMPTY_ANSWER: Sentence.EMPTY_ANSWER,
    FailReason.SESSION_DIED: Sentence.SESSION_DIED,
    FailReason.START_FAILED: Sentence.START_FAILED,
    FailReason.DEADLINE: Sentence.DEADLINE,
    FailReason.COMPACTED_TWICE: Sentence.COMPACTED_TWICE,
    FailReason.SLACK_ERROR: Sentence.SLACK_ERROR,
    FailReason.BUDGET: Sentence.BUDGET,
    FailReason.STOPPED: Sentence.STOPPED,
    FailReason.BOT_DIED: Sentence.BOT_DIED,
    FailReason.INTERNAL: Sentence.INTERNAL,
}

# The same where it is known until when.
NO_ANSWER_UNTIL: dict[FailReason, Sentence] = {
    FailReason.MODEL_LIMIT: Sentence.MODEL_LIMIT_UNTIL,
}

# English, Japanese. A status stands behind the bot's name: "Insomnia is thinking…".
SENTENCES: dict[Sentence, tuple[str, str]] = {
    Sentence.STATUS_THINKING: ("is thinking…", "考えています…"),
    Sentence.HISTORY_RATE_LIMITED: (
        "I could not read this thread's earlier messages: Slack asks me to wait. Next time you write here, I will try again.",
        "このスレッドの過去のメッセージを読めませんでした（Slackから待つよう求められています）。次に書き込まれたときに、もう一度試します。",
    ),
    Sentence.HISTORY_MISSING_SCOPE: (
        "I could not read this thread's earlier messages: the app lacks the permission (scope). Please tell whoever runs me.",
        "このスレッドの過去のメッセージを読めませんでした（アプリに権限（スコープ）がありません）。管理者にお知らせください。",
    ),
    Sentence.HISTORY_NOT_IN_CHANNEL: (
        "I could not read this thread's earlier messages: I am not a member of this channel. Please /invite me.",
        "このスレッドの過去のメッセージを読めませんでした（このチャンネルに参加していません）。/invite で招待してください。",
    ),
    Sentence.HISTORY_THREAD_GONE: (
        "I could not read this thread's earlier messages: Slack no longer has them.",
        "このスレッドの過去のメッセージを読めませんでした（Slackにもう残っていません）。",
    ),
    Sentence.HISTORY_SLACK_ERROR: (
        "I could not read this thread's earlier messages: Slack returned an error. Next time you write here, I will try again.",
        "このスレッドの過去のメッセージを読めませんでした（Slackがエラーを返しました）。次に書き込まれたときに、もう一度試します。",
    ),
    Sentence.HISTORY_TIMEOUT: (
        "I could not read this thread's earlier messages: Slack took too long. Next time you write here, I will try again.",
        "このスレッドの過去のメッセージを読めませんでした（Slackの応答が間に合いませんでした）。次に書き込まれたときに、もう一度試します。",
    ),
    Sentence.HISTORY_INCOMPLETE: (
        "I could read this thread only in part ({read} messages), so something may be missing from my answer.",
        "このスレッドは一部（{read}件）しか読めなかったため、回答に漏れがあるかもしれません。",
    ),
    Sentence.HISTORY_INCOMPLETE_OF: (
        "I could read this thread only in part ({read} of about {expected} messages), so something may be missing from my answer.",
        "このスレッドは一部（約{expected}件のうち{read}件）しか読めなかったため、回答に漏れがあるかもしれません。",
    ),
    Sentence.MODEL_ERROR: (
        "Sorry, the model returned an error and I have no answer. Please try again in a moment.",
        "すみません、モデルのエラーで回答できませんでした。少し待ってから、もう一度お試しください。",
    ),
    Sentence.MODEL_LIMIT: (
        "Sorry, the model's usage limit is reached. Please try again later.",
        "すみません、モデルの利用上限に達しています。時間をおいて、もう一度お試しください。",
    ),
    Sentence.MODEL_LIMIT_UNTIL: (
        "Sorry, the model's usage limit is reached until {until}. Please ask me again after that.",
        "すみません、モデルの利用上限に達しており、{until}まで回答できません。その後にもう一度お尋ねください。",
    ),
    Sentence.MODEL_AUTH: (
        "Sorry, the model refused my credentials. Please tell whoever runs me.",
        "すみません、モデルの認証に失敗しました。管理者にお知らせください。",
    ),
    Sentence.PROMPT_TOO_LONG: (
        "Sorry, this is too long for the model. Please ask again with less text, or in a new thread.",
        "すみません、長すぎてモデルが処理できません。文章を短くするか、新しいスレッドでお試しください。",
    ),
    Sentence.EMPTY_ANSWER: (
        "Sorry, the model ended without an answer. Please ask once more.",
        "すみません、モデルから回答がありませんでした。もう一度お尋ねください。",
    ),
    Sentence.SESSION_DIED: (
        "Sorry, my session ended in the middle of the answer. Please ask once more; I will read this thread again.",
        "すみません、回答の途中でセッションが終了しました。もう一度お尋ねください。このスレッドを読み直します。",
    ),
    Sentence.START_FAILED: (
        "Sorry, my session could not be started. Please try again in a few minutes, or tell whoever runs me.",
        "すみません、セッションを開始できませんでした。数分後にもう一度試すか、管理者にお知らせください。",
    ),
    Sentence.DEADLINE: (
        "Sorry, I stopped after {minutes} min without an answer. A smaller question may help.",
        "すみません、{minutes}分以内に回答がまとまらず、中断しました。質問を小さく分けてお試しください。",
    ),
    Sentence.COMPACTED_TWICE: (
        "Sorry, my memory was condensed twice while I was answering, so I would have answered without this thread. Please ask once more.",
        "すみません、回答中に記憶が二度圧縮され、このスレッドの内容を失いました。もう一度お尋ねください。",
    ),
    Sentence.SLACK_ERROR: (
        "Sorry, Slack did not take my answer. Please ask once more.",
        "すみません、回答をSlackに投稿できませんでした。もう一度お尋ねください。",
    ),
    Sentence.BOT_DIED: (
        "Sorry, I broke down {times} times while I was answering this, so I have given it up. "
        "Please ask in another way, or tell whoever runs me.",
        "すみません、この質問に答えている途中で{times}回停止したため、回答をあきらめました。別の聞き方をするか、管理者にお知らせください。",
    ),
    Sentence.INTERNAL: (
        "Sorry, something went wrong on my side. Please try again, or tell whoever runs me.",
        "すみません、内部エラーが起きました。もう一度試すか、管理者にお知らせください。",
    ),
    Sentence.BUDGET: (
        "Sorry, today's budget ({limit} USD) is spent, so I cannot answer this. Ask again after {until}, or tell whoever runs me.",
        "すみません、本日の予算（{limit} USD）を使い切ったため回答できません。{until}以降にお尋ねいただくか、管理者にお知らせください。",
    ),
    Sentence.STOPPED: ("Stopped.", "止めました。"),
    Sentence.NOTHING_TO_STOP: (
        "I am not answering anything here, so there is nothing to stop.",
        "ここでは今何も処理していないので、止めるものはありません。",
    ),
    Sentence.NOT_ALLOWED: (
        "Sorry, I may not answer you here: you are not on my list of people. Whoever runs me can add you.",
        "すみません、許可された利用者の一覧に含まれていないため、ここでは回答できません。管理者に追加を依頼してください。",
    ),
    Sentence.NOT_TAKEN: (
        "Sorry, I could not take your message: my disk is full or broken. I will try again for some minutes; "
        "if no answer comes, please ask once more, and tell whoever runs me.",
        "すみません、ディスクの空きがないか故障のため、メッセージを受け付けられませんでした。数分間は再試行します。"
        "回答がなければ、もう一度お尋ねのうえ、管理者にお知らせください。",
    ),
    Sentence.KEPT_FOR_LATER: (
        "My disk is full or broken. Your message is kept, and I will answer it as soon as that is mended. Please tell whoever runs me.",
        "ディスクの空きがないか故障しています。メッセージは保存済みで、復旧し次第回答します。管理者にお知らせください。",
    ),
    Sentence.EMPTY_MENTION: ("What can I do for you?", "ご用件は何でしょうか。"),
    Sentence.RESTARTING: (
        "I am being restarted in the middle of this. I will answer it when I am back.",
        "回答の途中で再起動することになりました。再起動したあとで回答します。",
    ),
    Sentence.NOT_ROUTED: (
        "This channel has no route, so I do not answer here. Whoever runs me can add one to insomnia.toml.",
        "このチャンネルにはルートがないため、ここでは回答しません。管理者が insomnia.toml に追加できます。",
    ),
    Sentence.TRACE: ("trace {trace}", "トレース {trace}"),
    Sentence.FOOTER_HELD: ("nothing re-read", "読み直しなし"),
    Sentence.FOOTER_READ: ("thread re-read: {messages}", "スレッドを読み直し（{messages}件）"),
    Sentence.FOOTER_ADDED: ("added: {messages}", "その後の発言を追加（{messages}件）"),
    Sentence.FOOTER_OMITTED: ("left out: {omitted}", "省略（{omitted}件）"),
}

_JAPANESE = re.compile("[\u3005\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f]")


def say(sentence: Sentence, language: Language, **values: object) -> str:
    """Raises KeyError where a value that the sentence needs is missing."""
    english, japanese = SENTENCES[sentence]
    return (japanese if language is Language.JAPANESE else english).format_map(values)


def moment(seconds: float, *, now: float, tz: tzinfo) -> str:
    """A time to come, as short as it can be understood: of another day with its date."""
    then, today = datetime.fromtimestamp(seconds, tz), datetime.fromtimestamp(now, tz).date()
    up = then + timedelta(seconds=59) if then.second or then.microsecond else then  # a minute too late rather than too early
    return f"{up:%H:%M %Z}" if up.date() == today else f"{up:%Y-%m-%d %H:%M %Z}"


def language_of(text: str, setting: str = "auto") -> Language:
    """The language to speak in: the configured one, or for `auto` the script of the person's message."""
    if setting != "auto":
        return Language(setting)
    return Language.JAPANESE if _JAPANESE.search(text) else Language.ENGLISH
