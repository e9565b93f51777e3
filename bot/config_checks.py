"""What a table alone cannot tell: two settings that contradict each other, a half-given secret, a file that is not there.

Each check returns sentences; none of them holds a secret's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bot.config_errors import HIDDEN
from bot.config_schema import ADDRESS, ADDRESS_IN_WORDS, EVERY_PUBLIC_CHANNEL, NAME, TEMPLATES, Account, File, Route, SlackTable

NAME_IN_WORDS = "a name is lower-case letters, digits, - and _, begins with a letter and has at most 32 characters"
BOT, APP, SIGNING = "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"
TOKENS = {
    BOT: "the bot token, xoxb-...",
    APP: "the app-level token, xapp-...",
    SIGNING: "the signing secret, a row of letters and digits",
}
SWAPPED = ((BOT, "xapp-"), (APP, "xoxb-"), (SIGNING, "xoxb-"), (SIGNING, "xapp-"))


def check_environment(env: Mapping[str, str]) -> list[str]:
    return [f"environment: {sentence}" for sentence in (*_tokens(env), *_addresses(env))]


def _tokens(env: Mapping[str, str]) -> Iterator[str]:
    """The bot token speaks; beside it exactly one secret decides how events come in."""
    ways = [name for name in (APP, SIGNING) if name in env]
    if BOT in env and not ways:
        yield (
            f"{BOT} is set, but neither {APP} ({TOKENS[APP]}: Socket Mode) nor {SIGNING} ({TOKENS[SIGNING]}: HTTP) is; "
            "set one of them for real Slack, or none of the three for the embedded workspace"
        )
    if ways and BOT not in env:
        verb = "are" if len(ways) > 1 else "is"
        yield f"{' and '.join(ways)} {verb} set, but {BOT} ({TOKENS[BOT]}) is not; set it too, or unset the rest for the embedded workspace"
    if len(ways) > 1:
        yield f"{APP} (Socket Mode) and {SIGNING} (HTTP) are both set, and events come in one way only; unset the other one"
    if BOT not in env and not ways and "SLACK_API_URL" in env:
        yield f"SLACK_API_URL is set, but {BOT} and {APP} or {SIGNING} are not; set them, or unset it to use the embedded workspace"
    for name, wrong in SWAPPED:
        if env.get(name, "").startswith(wrong):
            yield f"{name} holds a token that begins with {wrong}; it takes {TOKENS[name]}"


def _addresses(env: Mapping[str, str]) -> Iterator[str]:
    for name in ("SLACK_API_URL", "ANTHROPIC_BASE_URL"):
        if name in env and not re.fullmatch(ADDRESS, env[name]):
            yield f"{name} is {HIDDEN}; allowed: {ADDRESS_IN_WORDS}"


def check_file(file: File, routes: Mapping[str, Route], workspace: Path) -> list[str]:
    found = (*_names(file), *_channels(file, routes), *_paths(file, workspace))
    return [f"insomnia.toml: {sentence}" for sentence in found]


def _names(file: File) -> Iterator[str]:
    for table, names in (("accounts", file.accounts), ("routes", file.routes)):
        yield from (f"{table}.{name}: {NAME_IN_WORDS}" for name in names if not NAME.fullmatch(name))


def _channels(file: File, routes: Mapping[str, Route]) -> Iterator[str]:
    for name in TEMPLATES:
        if name in file.routes and file.routes[name].channels:
            meant = "direct messages" if name == "dm" else "private channels"
            yield f"routes.{name}.channels: the route {name} is the template for {meant} and takes no channels; remove the key"
    taken: dict[str, str] = {}
    for name, route in routes.items():
        if not route.channels and name not in TEMPLATES:
            yield f'routes.{name}.channels is empty; name the channels that the route serves, such as ["general"]'
        for channel in dict.fromkeys(route.channels):
            if channel in taken:
                which = "every public channel" if channel == EVERY_PUBLIC_CHANNEL else f"the channel {channel}"
                yield f"routes.{taken[channel]} and routes.{name} both take {which}; a channel belongs to one route"
            taken.setdefault(channel, name)


def _paths(file: File, workspace: Path) -> Iterator[str]:
    for name, route in file.routes.items():
        if route.prompt_file and not (workspace / Path(route.prompt_file).expanduser()).is_file():
            yield f'routes.{name}.prompt_file is "{route.prompt_file}", but there is no such file from {workspace}'
        if route.cwd and not (workspace / Path(route.cwd).expanduser()).is_dir():
            yield f'routes.{name}.cwd is "{route.cwd}", but there is no such directory from {workspace}'


def check_real_slack(accounts: Mapping[str, Account], routes: Mapping[str, Route], slack: SlackTable, *, may_answer: bool) -> list[str]:
    """What holds only once real people are on the other side."""
    errors = []
    if not may_answer:
        variables = " or ".join(account.key_env for account in accounts.values()) or "a credential (and its [accounts.NAME])"
        errors.append(
            f"Slack tokens are set, but nothing is there to answer: set {variables}, or claude.base_url, "
            "or claude.embedded = true to let the embedded model answer (it is no language model)"
        )
    for name, route in routes.items():
        if route.tools and not (route.users or slack.users):
            errors.append(
                f"insomnia.toml: routes.{name} has tools, and everyone who may talk to it runs them; "
                f"name these people in routes.{name}.users (Slack user ids), or remove routes.{name}.tools"
            )
    return errors
