"""What the doctor says to what was seen. Pure.

What must stay true: each fault gives one finding that names it, with the mend; what cannot be looked at is said to be so, never
that it is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bot.claude_launch import OLDEST
from bot.doctor.seen import Finding, Level, ModelSeen, Seen
from bot.slack_app import BOT_SCOPES, ESSENTIAL, EVENTS, OPTIONAL_SCOPES

TESTED_CLI = (2, 1, 332)
LITTLE, TOO_LITTLE = 1 << 30, 100 << 20  # bytes of disk
CLOCK_WARN, CLOCK_FAIL = 30.0, 240.0  # seconds; Slack's signatures are good for 300
UNAUTHORISED = (401, 403)

SLACK_WORDS = {
    "invalid_auth": "the token is wrong",
    "not_authed": "the token is empty",
    "account_inactive": "the app was removed from the workspace, or its user was deactivated",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "not_allowed_token_type": "it is another kind of token",
    "connection_refused": "nothing answers at that address",
    "connection": "the connection broke",
    "timeout": "it does not answer in time",
}
_REINSTALL = "reinstall the app to your workspace (api.slack.com, your app, Install App), and set the new token"

Rule = Callable[[Seen], Iterator[Finding]]


def findings(seen: Seen) -> list[Finding]:
    if seen.settings_errors:
        mend = "mend insomnia.toml or the environment; README explains every setting"
        return [Finding(check="configuration", level=Level.FAIL, found=error, mend=mend) for error in seen.settings_errors]
    return [Finding(check="configuration", level=Level.OK, found="it can be used"), *(each for rule in RULES for each in rule(seen))]


def _slack(seen: Seen) -> Iterator[Finding]:
    if seen.slack_kind == "embedded":
        yield Finding(check="slack", level=Level.INFO, found="no Slack token is set: the embedded workspace is used")
        return
    shapes = {"SLACK_BOT_TOKEN": "xoxb-", "SLACK_APP_TOKEN": "xapp-"}
    for variable, right in seen.tokens.items():
        if not right and variable in shapes:
            mend = f"copy it again from your app's page; it begins with {shapes[variable]}"
            yield Finding(check="token_shape", level=Level.FAIL, found=f"{variable} does not look like such a token", mend=mend)
    slack = seen.slack
    if slack is None:
        return
    if slack.error:
        word = SLACK_WORDS.get(slack.error, "Slack's own word for it")
        network = slack.error in ("connection_refused", "connection", "timeout")
        mend = "check the network, proxies, and SLACK_API_URL where it is set" if network else f"check SLACK_BOT_TOKEN, or {_REINSTALL}"
        yield Finding(check="slack_token", level=Level.FAIL, found=f"auth.test: {slack.error} ({word})", mend=mend)
        return
    if not slack.is_bot:
        mend = "set the token of the bot (xoxb-), or answers would be posted as that person"
        yield Finding(check="slack_token", level=Level.FAIL, found="SLACK_BOT_TOKEN is a person's token", mend=mend)
    else:
        yield Finding(check="slack_token", level=Level.OK, found="Slack knows the bot")
    if slack.app_error:
        word = SLACK_WORDS.get(slack.app_error, "Slack's own word for it")
        mend = "make an app-level token with the scope connections:write, switch Socket Mode on, and set it in SLACK_APP_TOKEN"
        yield Finding(check="app_token", level=Level.FAIL, found=f"apps.connections.open: {slack.app_error} ({word})", mend=mend)
    elif slack.app_error is not None:
        yield Finding(check="app_token", level=Level.OK, found="a socket can be opened")


def _scopes(seen: Seen) -> Iterator[Finding]:
    slack = seen.slack
    if slack is None or slack.error:
        return
    if slack.scopes is None:
        yield Finding(check="scopes", level=Level.INFO, found="Slack did not tell which scopes the token has")
    else:
        missing = [scope for scope in BOT_SCOPES if scope not in slack.scopes]
        for scope in missing:
            level = Level.FAIL if scope in ESSENTIAL else Level.WARN
            mend = f"add {scope} under OAuth & Permissions, and {_REINSTALL}"
            yield Finding(
                check="scopes", level=level, found=f"{scope} is missing: without it the bot cannot {BOT_SCOPES[scope]}", mend=mend
            )
        for scope in (scope for scope in OPTIONAL_SCOPES if scope not in slack.scopes):
            found = f"{scope} is missing: without it the bot does not {OPTIONAL_SCOPES[scope]}"
            yield Finding(check="scopes", level=Level.INFO, found=found, mend=f"if you want that: add {scope}, and {_REINSTALL}")
        if not missing:
            yield Finding(check="scopes", level=Level.OK, found=f"all {len(BOT_SCOPES)} are granted")
    found = "which events Slack sends cannot be asked with these tokens"
    yield Finding(check="events", level=Level.INFO, found=found, mend=f"compare under Event Subscriptions: {', '.join(EVENTS)}")


def _membership(seen: Seen) -> Iterator[Finding]:
    slack = seen.slack
    if slack is None or slack.error or slack.channels is None:
        return
    for name in slack.missing:
        mend = f"invite it there (/invite @your-bot in {name}), or take the channel out of insomnia.toml"
        yield Finding(check="membership", level=Level.FAIL, found=f"the bot is not a member of {name}, which a route names", mend=mend)
    if not slack.channels:
        mend = "invite it to a channel: /invite @your-bot"
        yield Finding(check="membership", level=Level.WARN, found="the bot is a member of no channel, so nobody can mention it", mend=mend)
    elif not slack.missing:
        yield Finding(check="membership", level=Level.OK, found=f"member of {slack.channels} channels and direct messages")


def _sockets(seen: Seen) -> Iterator[Finding]:
    if seen.connections and seen.connections > 1:
        mend = "stop the other program that uses this app token, or give it a token of its own: each event goes to one of them only"
        found = f"{seen.connections} connections are open on this app token"
        yield Finding(check="sockets", level=Level.WARN, found=found, mend=mend)


def _clock(seen: Seen) -> Iterator[Finding]:
    off = seen.slack.clock_off if seen.slack else None
    if off is None:
        return
    if abs(off) < CLOCK_WARN:
        yield Finding(check="clock", level=Level.OK, found="it agrees with Slack's")
        return
    way = "behind" if off > 0 else "ahead of"
    level = Level.FAIL if abs(off) >= CLOCK_FAIL else Level.WARN
    mend = "let the machine set its clock (timedatectl set-ntp true, or chrony)"
    yield Finding(check="clock", level=level, found=f"this machine's clock is {abs(off):.0f} s {way} Slack's", mend=mend)


def _cli(seen: Seen) -> Iterator[Finding]:
    if seen.cli.error:
        yield Finding(check="claude_cli", level=Level.FAIL, found=seen.cli.error.split(". ")[0], mend=seen.cli.error.partition(". ")[2])
        return
    numbers = tuple(int(part) for part in seen.cli.version.split(".") if part.isdigit())
    told = f"{seen.cli.version} at {seen.cli.path} (from {seen.cli.source})"
    if numbers > TESTED_CLI:
        tested = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, TESTED_CLI))}"
        mend = "it will most likely work; to be sure: pip install 'insomnia-bot[claude]'"
        yield Finding(check="claude_cli", level=Level.WARN, found=f"{told} is newer than what was tested ({tested})", mend=mend)
    else:
        yield Finding(check="claude_cli", level=Level.OK, found=told)


def _model(seen: Seen) -> Iterator[Finding]:
    if seen.model_kind == "embedded":
        yield Finding(check="credentials", level=Level.INFO, found="no model credential is set: the embedded model answers, by plain rules")
        return
    for name in seen.unset_accounts:
        mend = f"set the variable that accounts.{name}.key_env names, or remove the account"
        yield Finding(check="credentials", level=Level.WARN, found=f"the account {name} has no key", mend=mend)
    yield from (_account(model) for model in seen.models)


def _account(model: ModelSeen) -> Finding:
    if model.benched_until:
        mend = "nothing: the next account answers until then"
        return Finding(
            check="credentials", level=Level.WARN, found=f"the account {model.account} waits until {model.benched_until}", mend=mend
        )
    if model.status == 0:
        mend = "check the network, proxies, and claude.base_url"
        return Finding(check="endpoint", level=Level.FAIL, found=f"the model of account {model.account} cannot be reached", mend=mend)
    if model.status in UNAUTHORISED:
        mend = "make a new key and set it in the variable of that account"
        return Finding(
            check="credentials", level=Level.FAIL, found=f"the key of account {model.account} is refused (HTTP {model.status})", mend=mend
        )
    if model.status >= 500:
        mend = "wait, or see the provider's status page"
        return Finding(check="endpoint", level=Level.WARN, found=f"the model endpoint answers HTTP {model.status}", mend=mend)
    return Finding(check="credentials", level=Level.OK, found=f"the account {model.account} is accepted")


def _state(seen: Seen) -> Iterator[Finding]:
    state = seen.state
    if not state.exists:
        yield Finding(check="workspace", level=Level.INFO, found="there is no .insomnia here yet; the first start makes it")
        return
    for path in state.unwritable:
        yield Finding(
            check="workspace",
            level=Level.FAIL,
            found=f"{path} cannot be written",
            mend=f"give it to the bot's user: chown -R $(id -un) {path}",
        )
    for path in state.readable_by_others:
        yield Finding(
            check="workspace", level=Level.WARN, found=f"other users of this machine can read {path}", mend=f"chmod -R go-rwx {path}"
        )
    if not (state.unwritable or state.readable_by_others):
        yield Finding(check="workspace", level=Level.OK, found="only its owner can read and write it")
    free = f"{state.free_bytes / (1 << 30):.1f} GiB free"
    level = Level.FAIL if state.free_bytes < TOO_LITTLE else Level.WARN if state.free_bytes < LITTLE else Level.OK
    yield Finding(check="disk", level=level, found=free, mend="make room: a full disk stops answers" if level is not Level.OK else "")
    if state.database:
        mend = "restart the bot: it puts the file aside, takes over what can be read of it, and looks for open questions in Slack"
        yield Finding(check="state_db", level=Level.FAIL, found=f"state.db is damaged: {state.database}", mend=mend)
    else:
        yield Finding(check="state_db", level=Level.OK, found="state.db is whole")


def _memory(seen: Seen) -> Iterator[Finding]:
    state = seen.state
    if state.journal:
        yield Finding(check="memory", level=Level.FAIL, found=state.journal.split("; ")[0], mend=state.journal.partition("; ")[2])
    if state.lint_errors is None:
        yield Finding(
            check="memory", level=Level.WARN, found="the records could not be looked through", mend="insomnia memory lint says why"
        )
    elif state.lint_errors:
        found = f"{state.lint_errors} errors in memory records; such a record is in no answer"
        yield Finding(check="memory", level=Level.WARN, found=found, mend="insomnia memory lint")
    if state.put_aside:
        found = f"{state.put_aside} ranges of session logs could not be read by the model and were put aside"
        yield Finding(
            check="memory", level=Level.WARN, found=found, mend="their text stays in the session logs; insomnia memory list names them"
        )
    if state.invalid:
        found = f"{state.invalid} staged files were no candidates and were put aside"
        yield Finding(
            check="memory", level=Level.WARN, found=found, mend="look at .insomnia/memory/_staging/_invalid, and remove what is not needed"
        )
    if state.exists and state.lint_errors == 0 and not (state.journal or state.put_aside or state.invalid):
        yield Finding(check="memory", level=Level.OK, found="every record can be read")


def _otlp(seen: Seen) -> Iterator[Finding]:
    if seen.otlp is None:
        yield Finding(check="otlp", level=Level.INFO, found="no OTLP endpoint is set; traces and logs stay on this machine")
    elif seen.otlp:
        mend = "start the collector, or check OTEL_EXPORTER_OTLP_ENDPOINT (4318 is HTTP, 4317 is gRPC); answers do not wait for it"
        yield Finding(check="otlp", level=Level.WARN, found=f"the OTLP endpoint does not answer ({seen.otlp})", mend=mend)
    else:
        yield Finding(check="otlp", level=Level.OK, found="the OTLP endpoint answers")


def _packages(seen: Seen) -> Iterator[Finding]:
    for name in seen.elsewhere:
        mend = "start from another directory, or remove that path from PYTHONPATH: another package of that name comes first"
        yield Finding(check="packages", level=Level.FAIL, found=f"the package {name} is not this program's own", mend=mend)
    for name in seen.outdated:
        yield Finding(
            check="packages",
            level=Level.WARN,
            found=f"{name} is not a version this program was made for",
            mend="pip install --upgrade insomnia-bot",
        )
    if not (seen.elsewhere or seen.outdated):
        yield Finding(check="packages", level=Level.OK, found="all are this program's own, in their bounds")


def _routes(seen: Seen) -> Iterator[Finding]:
    for name in seen.mixed_routes:
        mend = f"if that is not meant: mixed = false in routes.{name}"
        found = f"the route {name} shares one context between private and public channels: who asks in one can learn of the other"
        yield Finding(check="routes", level=Level.WARN, found=found, mend=mend)


def _bot(seen: Seen) -> Iterator[Finding]:
    words = {True: "it is running", False: "it is not running", None: "whether it runs cannot be told; insomnia status says why"}
    yield Finding(check="bot", level=Level.INFO, found=words[seen.bot_up])


RULES: tuple[Rule, ...] = (
    *(_packages, _cli, _model, _slack, _scopes, _membership, _sockets, _clock),
    *(_state, _memory, _routes, _otlp, _bot),
)
