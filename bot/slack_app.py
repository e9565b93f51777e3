"""What the Slack app has to be allowed: the scopes and events that this program uses, and what for.

What must stay true: a scope or event stands here because some code needs it, and nothing else does; README and `doctor` take
them from here.
"""

from __future__ import annotations

from collections.abc import Mapping

# What cannot be done without it.
BOT_SCOPES: Mapping[str, str] = {
    "app_mentions:read": "hear that it was mentioned",
    "channels:history": "read threads of public channels",
    "channels:read": "know public channels by name",
    "chat:write": "answer",
    "groups:history": "read threads of private channels",
    "groups:read": "know private channels by name",
    "im:history": "read direct messages",
    "im:read": "know direct messages from channels",
    "reactions:read": "hear the question mark that asks why, and the cross that asks to stop",
    "users:read": "know people by name",
}
# What it is nicer with. Without one of these nothing fails, and nothing is said; Slack's refusal is counted once.
OPTIONAL_SCOPES: Mapping[str, str] = {
    "assistant:write": "show Slack's own stop button",
    "reactions:write": "put 👀 on messages that wait",
}
ESSENTIAL = ("app_mentions:read", "channels:history", "chat:write")
EVENTS: Mapping[str, str] = {
    "app_mention": "somebody mentions the bot",
    "message.channels": "messages in public channels",
    "message.groups": "messages in private channels",
    "message.im": "direct messages",
    "reaction_added": "the question mark that asks why, and the cross that asks to stop",
    "agent_session_stopped": "Slack's own stop button",
}
