"""Events that no Slack would send: any JSON at all, and right ones with anything in their places."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bot.slack_events import KEPT_KEYS
from tests.bot.ground import app_mention, changed, deleted, message

TS, LATER = "1761000000.000100", "1761000060.000200"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from([TS, LATER, "U0BOT", "C0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KEYS = sorted(KEPT_KEYS | {"channel", "channel_type", "message", "previous_message", "deleted_ts", "hidden", "root"})
KINDS = ["", "message_changed", "message_deleted", "file_share", "tombstone", "bot_message"]
inner_messages = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=8)


def events() -> st.SearchStrategy[dict[str, Any]]:
    """Nearly right ones: each begins as one that Slack would send, with any values in some of its places."""
    right = st.sampled_from([message(TS), app_mention(TS), changed(message(TS), LATER, text="b"), deleted(message(TS), LATER)])
    inner = st.fixed_dictionaries({}, optional={"message": inner_messages, "previous_message": inner_messages})
    kinds = st.fixed_dictionaries({}, optional={"subtype": st.sampled_from(KINDS)})
    return st.tuples(right, inner_messages, inner, kinds).map(lambda parts: {k: v for part in parts for k, v in part.items()})
