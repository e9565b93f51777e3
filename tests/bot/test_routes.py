"""Which session a channel belongs to; a session key is the boundary of confidentiality."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.messages import Channel, ChannelKind
from bot.routes import RouteSettings, destination

PUBLIC, PRIVATE, DIRECT = ChannelKind.PUBLIC, ChannelKind.PRIVATE, ChannelKind.DIRECT
TEMPLATES = (RouteSettings(name="dm", model="m"), RouteSettings(name="private", model="m"))


def table(*routes: RouteSettings) -> dict[str, RouteSettings]:
    return {route.name: route for route in (*routes, *TEMPLATES)}


def route(name: str, *channels: str, mixed: bool = False) -> RouteSettings:
    return RouteSettings(name=name, model="m", channels=channels, mixed=mixed)


def channel(kind: ChannelKind, name: str = "general", id: str = "C1") -> Channel:
    return Channel(id=id, name=name, kind=kind)


@pytest.mark.parametrize(
    ("where", "routes", "to"),
    [
        (channel(PUBLIC), [route("main", "*")], ("main", "main")),
        (channel(PUBLIC), [route("main", "*"), route("coder", "general")], ("coder", "coder")),
        (channel(PUBLIC), [route("coder", "C1"), route("main", "*")], ("coder", "coder")),
        (channel(PUBLIC), [route("coder", "other")], None),
        (channel(PUBLIC), [], None),
        (channel(PRIVATE), [route("main", "*")], ("private", "private-C1")),
        (channel(PRIVATE), [route("coder", "general")], ("coder", "coder-C1")),
        (channel(PRIVATE), [route("coder", "general", mixed=True)], ("coder", "coder")),
        (channel(PRIVATE), [route("main", "*", mixed=True)], ("private", "private-C1")),
        (channel(DIRECT, "", "D1"), [route("main", "*")], ("dm", "dm-D1")),
        (channel(DIRECT, "", "D1"), [route("main", "*", mixed=True)], ("dm", "dm-D1")),
        (channel(DIRECT, "", "D1"), [route("coder", "D1")], ("coder", "dm-D1")),
        (channel(DIRECT, "", "D1"), [route("coder", "D1", mixed=True)], ("coder", "dm-D1")),
        (channel(DIRECT, "", "D1"), [route("odd", "")], ("dm", "dm-D1")),
        (channel(PRIVATE, "*"), [route("main", "*")], ("private", "private-C1")),
        (channel(PUBLIC, ""), [route("main", "*")], ("main", "main")),
    ],
)
def test_every_kind_of_channel_has_its_route_and_key(where: Channel, routes: list[RouteSettings], to: tuple[str, str] | None) -> None:
    found = destination(where, table(*routes))

    assert (found and (found.route.name, found.key)) == to


channels = st.builds(
    Channel, id=st.sampled_from(["C1", "C2", "D1", "G1"]), name=st.sampled_from(["", "*", "a", "b"]), kind=st.sampled_from(ChannelKind)
)
named = st.lists(st.sampled_from(["*", "a", "b", "C1", "C2", "D1", "G1"]), max_size=3)
tables = st.tuples(
    st.builds(lambda c, m: route("main", *c, mixed=m), named, st.booleans()),
    st.builds(lambda c, m: route("coder", *c, mixed=m), named, st.booleans()),
)


@given(channels, channels, tables)
def test_nobody_shares_a_private_conversation_unless_the_route_is_mixed(
    one: Channel, other: Channel, routes: tuple[RouteSettings, ...]
) -> None:
    first, second = (destination(where, table(*routes)) for where in (one, other))

    if first and second and first.key == second.key and one.id != other.id:
        assert DIRECT not in (one.kind, other.kind)
        assert first.route.mixed or (one.kind is other.kind is PUBLIC)


def test_a_route_admits_everyone_or_those_on_its_list() -> None:
    assert RouteSettings(name="main", model="m").admits("U1")
    assert RouteSettings(name="main", model="m", users=["U1"]).admits("U1")
    assert not RouteSettings(name="main", model="m", users=["U1"]).admits("U2")
