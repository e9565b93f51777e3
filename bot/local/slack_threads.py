"""What the control API tells of threads: one row of a list, and the bot's answer to a message. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bot.local.slack_records import BOT_USER_ID, Conversation, Json, Message

FIRST_WORDS = 60
DAY_SECONDS = 86_400


def thread_row(conversation: Conversation, thread: Sequence[Message], *, words: Callable[[str], str], now: float) -> Json:
    """`age_days` counts from what was said last."""
    root, last = thread[0], thread[-1]
    return {
        "channel": conversation.name,
        "channel_id": conversation.id,
        "thread_ts": root["ts"],
        "last_ts": last["ts"],
        "age_days": max(0, int((now - float(last["ts"])) // DAY_SECONDS)),
        "messages": len(thread),
        "first_words": _cut(" ".join(words(_told(root)).split())),
    }


def answer_parts(messages: Iterable[Message], *, message: str) -> list[Message]:
    """The bot's posts whose metadata say that they answer `message` ("team/channel/ts")."""
    return [m for m in messages if m.get("user") == BOT_USER_ID and _payload(m).get("message") == message]


def complete(parts: Sequence[Message]) -> bool:
    """The last part is there. A post that counts no parts is the whole answer."""
    return any(_payload(m).get("part", 1) == _payload(m).get("parts", 1) for m in parts)


def _payload(message: Message) -> dict[str, Any]:
    payload: dict[str, Any] = message.get("metadata", {}).get("event_payload", {})
    return payload


def _told(message: Message) -> str:
    """An alert often has no text of its own, a file only a name."""
    attached = [str(a.get("title") or a.get("fallback") or a.get("text") or "") for a in message.get("attachments", [])]
    files = [str(f.get("name", "")) for f in message.get("files", [])]
    return message.get("text") or next((t for t in (*attached, *files) if t), "")


def _cut(text: str) -> str:
    return text if len(text) <= FIRST_WORDS else text[: FIRST_WORDS - 1].rstrip() + "…"
