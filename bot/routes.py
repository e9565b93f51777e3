"""Which route and which session a channel belongs to. Pure.

A route is the boundary of confidentiality: all that share a session key share one context. So a direct message and a
private channel have keys of their own, unless the route says `mixed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.messages import Channel, ChannelKind

EVERY_PUBLIC_CHANNEL = "*"
DIRECT_TEMPLATE, PRIVATE_TEMPLATE = "dm", "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """One configured route, or one of the two templates. `rotate_at`, `autocompact`: tokens of occupancy."""

    name: str
    model: str
    channels: Sequence[str] = ()
    prompt: str = ""
    tools: Sequence[str] = ()
    cwd: str = ""
    users: Sequence[str] = ()
    follow: str = "mention"
    mixed: bool = False
    rotate_at: int = 150_000
    autocompact: int = 200_000
    prefer: str = "rotate"
    turn_seconds: float = 600.0
    budget_usd_day: float = 0.0

    def names(self, channel: Channel) -> bool:
        """By id or by name; a channel without a name (a direct message) and one that is called `*` only by id."""
        return channel.id in self.channels or (channel.name not in ("", EVERY_PUBLIC_CHANNEL) and channel.name in self.channels)

    def admits(self, user: str) -> bool:
        return not self.users or user in self.users


@dataclass(frozen=True, slots=True)
class Destination:
    route: RouteSettings
    key: str


def may_share(channel: Channel, to: Destination) -> bool:
    """Whether messages of this channel may go into that session: a channel that was made private leaves a shared one."""
    return channel.kind is ChannelKind.PUBLIC or to.key != to.route.name or (channel.kind is ChannelKind.PRIVATE and to.route.mixed)


def destination(channel: Channel, routes: Mapping[str, RouteSettings]) -> Destination | None:
    """None: no route names this channel, and there is no route for every public one."""
    named = next((r for r in routes.values() if r.names(channel)), None)
    if channel.kind is ChannelKind.DIRECT:
        return Destination(named or routes[DIRECT_TEMPLATE], f"{DIRECT_TEMPLATE}-{channel.id}")
    if channel.kind is ChannelKind.PRIVATE and named is None:
        return Destination(routes[PRIVATE_TEMPLATE], f"{PRIVATE_TEMPLATE}-{channel.id}")
    route = named or next((r for r in routes.values() if EVERY_PUBLIC_CHANNEL in r.channels), None)
    if route is None:
        return None
    apart = channel.kind is ChannelKind.PRIVATE and not route.mixed
    return Destination(route, f"{route.name}-{channel.id}" if apart else route.name)
