"""Web API methods that only read: who the bot is, conversations, people, and what was said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bot.local.slack_args import Args, SlackSays
from bot.local.slack_faults import Faults
from bot.local.slack_pages import BadCursor, page, within
from bot.local.slack_records import APP_ID, BOT_ID, BOT_USER_ID, TEAM_ID, TEAM_NAME, Conversation, Json, Message, Person, micros
from bot.local.slack_workspace import Workspace
from bot.messages import ChannelKind

LIST_PAGE = 100  # Slack's default for lists; conversations.replies gives 1,000
TYPES = {ChannelKind.PUBLIC: "public_channel", ChannelKind.PRIVATE: "private_channel", ChannelKind.DIRECT: "im"}

T = TypeVar("T")


class Reading:
    def __init__(self, workspace: Workspace, faults: Faults) -> None:
        self._workspace, self._store, self._faults = workspace, workspace.store, faults

    def methods(self) -> Mapping[str, Callable[[Args], Json]]:
        return {
            "auth.test": self.auth_test,
            "bots.info": self.bots_info,
            "conversations.history": self.conversations_history,
            "conversations.info": self.conversations_info,
            "conversations.list": self.conversations_list,
            "conversations.open": self.conversations_open,
            "conversations.replies": self.conversations_replies,
            "users.conversations": self.users_conversations,
            "users.info": self.users_info,
            "users.list": self.users_list,
        }

    # -- messages -----------------------------------------------------------------------------------------------------
    def conversations_replies(self, args: Args) -> Json:
        conversation = readable(self._workspace, args)
        root = self._store.root_ts(conversation.id, args.required("ts"))
        if not root:
            raise SlackSays("thread_not_found")
        first, *replies = self._store.thread(conversation.id, root)
        found = [first, *self._window(args, replies)]
        messages, cursor = self._page(args, "conversations.replies", found, key=lambda m: m["ts"], default=1000)
        if self._faults.root_on_every_page and messages and messages[0] is not first:
            messages = [first, *messages]
        return _messages(args, messages, cursor)

    def conversations_history(self, args: Args) -> Json:
        conversation = readable(self._workspace, args)
        found = self._window(args, self._store.timeline(conversation.id))[::-1]
        messages, cursor = self._page(args, "conversations.history", found, key=lambda m: m["ts"], default=LIST_PAGE, descending=True)
        return _messages(args, messages, cursor) | {"pin_count": 0}

    # -- conversations ------------------------------------------------------------------------------------------------
    def conversations_info(self, args: Args) -> Json:
        conversation = visible(self._workspace, args)
        count = {"num_members": len(conversation.members)} if args.flag("include_num_members") else {}
        return {"channel": _conversation(conversation) | count}

    def conversations_list(self, args: Args) -> Json:
        return self._conversations(args, "conversations.list", member_only=False)

    def users_conversations(self, args: Args) -> Json:
        return self._conversations(args, "users.conversations", member_only=True)

    def conversations_open(self, args: Args) -> Json:
        if args.text("channel"):
            conversation, existed = visible(self._workspace, args), True
        else:
            conversation, existed = self._workspace.direct(self._one_user(args))
        channel = _conversation(conversation) if args.flag("return_im") else {"id": conversation.id}
        return {"channel": channel} | ({"no_op": True, "already_open": True} if existed else {})

    def _conversations(self, args: Args, method: str, *, member_only: bool) -> Json:
        wanted = set((args.text("types") or "public_channel").replace(" ", "").split(","))
        if not wanted <= {*TYPES.values(), "mpim"}:
            raise SlackSays("invalid_types")
        found = [c for c in self._store.conversations.values() if TYPES[c.kind] in wanted and _listed(c, member_only=member_only)]
        if args.flag("exclude_archived"):
            found = [c for c in found if not c.archived]
        found.sort(key=lambda c: c.id)
        conversations, cursor = self._page(args, method, found, key=lambda c: c.id, default=LIST_PAGE)
        return {"channels": [_conversation(c) for c in conversations], "response_metadata": {"next_cursor": cursor}}

    # -- people -------------------------------------------------------------------------------------------------------
    def auth_test(self, args: Args) -> Json:
        team = {"url": "https://embedded.slack.com/", "team": TEAM_NAME, "team_id": TEAM_ID}
        return {**team, "user": "insomnia", "user_id": BOT_USER_ID, "bot_id": BOT_ID, "is_enterprise_install": False}

    def users_info(self, args: Args) -> Json:
        if not (person := self._store.people.get(args.text("user"))):
            raise SlackSays("user_not_found")
        return {"user": _user(person)}

    def users_list(self, args: Args) -> Json:
        everybody = sorted(self._store.people.values(), key=lambda p: p.id)
        people, cursor = self._page(args, "users.list", everybody, key=lambda p: p.id, default=1000)
        return {"members": [_user(p) for p in people], "response_metadata": {"next_cursor": cursor}}

    def bots_info(self, args: Args) -> Json:
        found = next((p for p in self._store.people.values() if p.is_bot and p.bot_id == args.text("bot")), None)
        if not found:
            raise SlackSays("bot_not_found")
        app = APP_ID if found.id == BOT_USER_ID else "A0" + found.id.removeprefix("U0")
        return {"bot": {"id": found.bot_id, "deleted": False, "name": found.display_name, "app_id": app, "user_id": found.id}}

    def _one_user(self, args: Args) -> Person:
        users = [u for u in args.text("users").replace(" ", "").split(",") if u]
        if not users:
            raise SlackSays("users_list_not_supplied")
        if len(users) > 1:
            raise SlackSays("too_many_users")  # group messages are not part of the embedded workspace
        if not (person := self._store.people.get(users[0])):
            raise SlackSays("user_not_found")
        if person.is_bot:
            raise SlackSays("cannot_dm_bot")
        return person

    # -- parts --------------------------------------------------------------------------------------------------------
    def _page(
        self, args: Args, method: str, items: Sequence[T], *, key: Callable[[T], str], default: int, descending: bool = False
    ) -> tuple[list[T], str]:
        limit = self._faults.page_size(method, args.given, args.limit(default=default))
        try:
            return page(items, key=key, cursor=args.text("cursor"), limit=limit, descending=descending)
        except BadCursor as error:
            raise SlackSays("invalid_cursor") from error

    def _window(self, args: Args, messages: Sequence[Message]) -> list[Message]:
        bounds = {name: args.text(name) for name in ("oldest", "latest")}
        for name, ts in bounds.items():
            try:
                micros(ts or "0")
            except ValueError as error:
                raise SlackSays(f"invalid_ts_{name}") from error
        return within(messages, oldest=bounds["oldest"], latest=bounds["latest"], inclusive=args.flag("inclusive"))


def visible(workspace: Workspace, args: Args) -> Conversation:
    """The channel argument, if the bot may know that it exists. By id only, as Slack wants it for bots."""
    found = workspace.store.conversations.get(args.text("channel"))
    if not found or (found.kind is not ChannelKind.PUBLIC and not found.has_bot):
        raise SlackSays("channel_not_found")
    return found


def readable(workspace: Workspace, args: Args) -> Conversation:
    found = visible(workspace, args)
    if not found.has_bot:
        raise SlackSays("not_in_channel")
    return found


def _messages(args: Args, messages: Sequence[Message], cursor: str) -> Json:
    hidden = set() if args.flag("include_all_metadata") else {"metadata"}
    shown = [{k: v for k, v in m.items() if k not in hidden} for m in messages]
    more = {"response_metadata": {"next_cursor": cursor}} if cursor else {}
    return {"messages": shown, "has_more": bool(cursor), **more}


def _listed(conversation: Conversation, *, member_only: bool) -> bool:
    return conversation.has_bot or (conversation.kind is ChannelKind.PUBLIC and not member_only)


def _conversation(c: Conversation) -> Json:
    base = {
        "id": c.id,
        "created": c.created,
        "is_archived": c.archived,
        "is_mpim": False,
        "is_org_shared": False,
        "is_ext_shared": c.shared,
    }
    if c.kind is ChannelKind.DIRECT:
        other = next((m for m in c.members if m != BOT_USER_ID), BOT_USER_ID)
        return base | {"is_im": True, "is_channel": False, "is_group": False, "is_private": True, "user": other, "is_open": True}
    private = c.kind is ChannelKind.PRIVATE
    text = {"topic": {"value": c.topic, "creator": "", "last_set": 0}, "purpose": {"value": "", "creator": "", "last_set": 0}}
    names = {"name": c.name, "name_normalized": c.name, "creator": next(iter(c.members), "")}
    # a private channel made today is a "channel" with is_private; only the old ones with G ids are groups
    kinds = {"is_channel": not c.id.startswith("G"), "is_group": c.id.startswith("G"), "is_im": False, "is_private": private}
    return base | names | kinds | text | {"is_member": c.has_bot, "is_general": c.name == "general"}


def _user(p: Person) -> Json:
    profile = {"display_name": p.display_name, "real_name": p.real_name, "display_name_normalized": p.display_name}
    names = {
        "name": p.name,
        "real_name": p.real_name,
        "profile": profile | {"real_name_normalized": p.real_name, "team": p.team or TEAM_ID},
    }
    flags = {"deleted": False, "is_bot": p.is_bot, "is_app_user": False, "is_restricted": False}
    return {"id": p.id, "team_id": p.team or TEAM_ID, **names, **flags, "tz": "Etc/UTC", "tz_offset": 0}
