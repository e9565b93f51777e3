"""Web API methods by which the bot acts: posts, updates, deletions, reactions, statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bot.local.slack_args import Args, SlackSays
from bot.local.slack_reading import readable
from bot.local.slack_records import BOT_USER_ID, Conversation, Json, Message
from bot.local.slack_workspace import Workspace

POST_CHARS, UPDATE_CHARS, MARKDOWN_CHARS = 40_000, 4_000, 12_000  # Slack's limits; a post is cut, the others are refused
MARKDOWN_BLOCK_CHARS = 13_000  # refused past this in all, as measured against Slack
MAX_BLOCKS, SECTION_CHARS, HEADER_CHARS = 50, 3_000, 150
SESSION_STATUSES = {"processing", "active", "suspended", "closed"}


class Writing:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._store = workspace, workspace.store

    def methods(self) -> Mapping[str, Callable[[Args], Json]]:
        return {
            "agents.sessions.setStatus": self.agents_sessions_set_status,
            "assistant.threads.setStatus": self.assistant_threads_set_status,
            "chat.delete": self.chat_delete,
            "chat.postEphemeral": self.chat_post_ephemeral,
            "chat.postMessage": self.chat_post_message,
            "chat.update": self.chat_update,
            "reactions.add": self.reactions_add,
            "reactions.remove": self.reactions_remove,
        }

    # -- chat ---------------------------------------------------------------------------------------------------------
    def chat_post_message(self, args: Args) -> Json:
        conversation = self._writable(args)
        content = _content(args)
        cut = len(content["text"]) > POST_CHARS
        content["text"] = content["text"][:POST_CHARS]
        if thread_ts := args.text("thread_ts"):
            content["thread_ts"] = thread_ts
            if args.flag("reply_broadcast") and self._store.root_ts(conversation.id, thread_ts):
                content["subtype"] = "thread_broadcast"
        message = self._workspace.post(conversation, content)
        warned = {"warning": "message_truncated", "response_metadata": {"warnings": ["message_truncated"]}} if cut else {}
        return {"channel": conversation.id, "ts": message["ts"], "message": self._store.shown(conversation.id, message["ts"]), **warned}

    def chat_update(self, args: Args) -> Json:
        conversation = self._writable(args)
        old = self._own(conversation, args.required("ts"), refusal="cant_update_message")
        content = _content(args)
        if len(content["text"]) > UPDATE_CHARS:
            raise SlackSays("msg_too_long")
        new = self._workspace.update(conversation, old, content)
        return {"channel": conversation.id, "ts": new["ts"], "text": new["text"], "message": self._store.shown(conversation.id, new["ts"])}

    def chat_delete(self, args: Args) -> Json:
        conversation = self._writable(args)
        old = self._own(conversation, args.required("ts"), refusal="cant_delete_message")
        self._workspace.delete(conversation.id, old["ts"])
        return {"channel": conversation.id, "ts": old["ts"]}

    def chat_post_ephemeral(self, args: Args) -> Json:
        conversation, user = self._writable(args), args.required("user")
        if user not in conversation.members:
            raise SlackSays("user_not_in_channel")
        content = _content(args)
        if root := self._store.root_ts(conversation.id, args.text("thread_ts")):
            content["thread_ts"] = root
        return {"message_ts": self._workspace.whisper(conversation, user, content)}

    # -- reactions ----------------------------------------------------------------------------------------------------
    def reactions_add(self, args: Args) -> Json:
        return self._react(args, added=True, nothing_to_do="already_reacted")

    def reactions_remove(self, args: Args) -> Json:
        return self._react(args, added=False, nothing_to_do="no_reaction")

    def _react(self, args: Args, *, added: bool, nothing_to_do: str) -> Json:
        conversation, ts = readable(self._workspace, args), args.text("timestamp")
        name = args.text("name").strip(":")
        if not name:
            raise SlackSays("invalid_name")
        if not self._store.get(conversation.id, ts):
            raise SlackSays("message_not_found")
        if not self._workspace.react(conversation.id, ts, BOT_USER_ID, name, added=added):
            raise SlackSays(nothing_to_do)
        return {}

    # -- statuses -----------------------------------------------------------------------------------------------------
    def assistant_threads_set_status(self, args: Args) -> Json:
        conversation, root = self._thread(args)
        self._workspace.set_status(conversation.id, root, args.text("status"))
        return {}

    def agents_sessions_set_status(self, args: Args) -> Json:
        conversation, root = self._thread(args)
        if args.text("status") not in SESSION_STATUSES:
            raise SlackSays("invalid_status")
        self._workspace.session_statuses[conversation.id, root] = args.text("status")
        self._workspace.changed.strike()
        return {}

    def _thread(self, args: Args) -> tuple[Conversation, str]:
        conversation = readable(self._workspace, Args({"channel": args.text("channel_id")}))
        if not (root := self._store.root_ts(conversation.id, args.required("thread_ts"))):
            raise SlackSays("thread_not_found")
        return conversation, root

    # -- parts --------------------------------------------------------------------------------------------------------
    def _writable(self, args: Args) -> Conversation:
        conversation = readable(self._workspace, args)
        if conversation.archived:
            raise SlackSays("is_archived")
        return conversation

    def _own(self, conversation: Conversation, ts: str, *, refusal: str) -> Message:
        if not (message := self._store.get(conversation.id, ts)):
            raise SlackSays("message_not_found")
        if message.get("user") != BOT_USER_ID:
            raise SlackSays(refusal)
        return message


def _content(args: Args) -> Json:
    """Text, blocks, attachments and metadata of a message; the text as it was sent."""
    text, markdown = args.text("text"), args.text("markdown_text")
    blocks = _blocks(args.structure("blocks", error="invalid_blocks_format"))
    attachments = args.structure("attachments", error="invalid_attachments")
    if markdown and (text or blocks):
        raise SlackSays("markdown_text_conflict")
    if len(markdown) > MARKDOWN_CHARS:
        raise SlackSays("msg_too_long")
    if not (text or markdown or blocks or attachments):
        raise SlackSays("no_text")
    metadata = _metadata(args.structure("metadata", error="invalid_metadata_format"))
    extra = {"blocks": blocks, "attachments": attachments, "metadata": metadata}
    return {"text": text or markdown, **{k: v for k, v in extra.items() if v}}


def _metadata(given: Any) -> Json | None:
    if given is None:
        return None
    if not isinstance(given, dict) or not isinstance(given.get("event_type"), str) or not isinstance(given.get("event_payload"), dict):
        raise SlackSays("invalid_metadata_schema")
    return {"event_type": given["event_type"], "event_payload": given["event_payload"]}


def _blocks(given: Any) -> list[Json] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(b, dict) and b.get("type") for b in given):
        raise SlackSays("invalid_blocks_format")
    if len(given) > MAX_BLOCKS or any(_too_long(b) for b in given):
        raise SlackSays("invalid_blocks")
    if sum(len(str(b.get("text", ""))) for b in given if b["type"] == "markdown") > MARKDOWN_BLOCK_CHARS:
        raise SlackSays("msg_blocks_too_long")
    return given


def _too_long(block: Json) -> bool:
    most = {"section": SECTION_CHARS, "header": HEADER_CHARS}.get(block["type"])
    text = block.get("text")
    return most is not None and isinstance(text, dict) and len(str(text.get("text", ""))) > most
