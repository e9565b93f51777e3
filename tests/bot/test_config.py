from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.config import ConfigError, Settings, load_settings

TOKENS = {"SLACK_BOT_TOKEN": "xoxb-1-secretbot", "SLACK_APP_TOKEN": "xapp-1-secretapp"}
SIGNING = {"SLACK_SIGNING_SECRET": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}
KEY = {"ANTHROPIC_API_KEY": "sk-ant-api03-secretkey"}


def load(workspace: Path, toml: str = "", environment: dict[str, str] | None = None) -> Settings:
    (workspace / "insomnia.toml").write_text(toml, encoding="utf-8")
    return load_settings(workspace, environment or {})


def errors(workspace: Path, toml: str = "", environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(workspace, toml, environment)
    return list(caught.value.errors)


def test_without_a_file_one_route_takes_every_public_channel(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {})

    assert settings.routes["main"].channels == ("*",)
    assert settings.route_names == ("main", "dm", "private")
    assert settings.accounts["main"].key_env == "ANTHROPIC_API_KEY"
    assert (settings.slack_kind, settings.model_kind) == ("embedded", "embedded")


def test_a_wrong_type_is_told_with_key_value_and_what_is_allowed(tmp_path: Path) -> None:
    told = errors(tmp_path, '[routes.main]\nrotate_at = "many"')

    assert told == ['insomnia.toml: routes.main.rotate_at is "many"; allowed: a whole number of at least 20000']


@pytest.mark.parametrize(
    ("toml", "key", "allowed"),
    [
        ('language = "de"', 'language is "de"', '"auto", "en" or "ja"'),
        ('timezone = "Mars/Base"', 'timezone is "Mars/Base"', "an IANA name"),
        ('timezone = "Europe"', 'timezone is "Europe"', "an IANA name"),
        ("slack = 3", "slack is 3", "a table: [slack]"),
        ('[slack]\nusers = ["U1", 2]', "slack.users[2] is 2", "a list of Slack user ids"),
        ('[slack]\nlisten = "3000"', 'slack.listen is "3000"', "HOST:PORT"),
        ('[slack]\nlisten = "0.0.0.0:99999"', 'slack.listen is "0.0.0.0:99999"', "HOST:PORT"),
        ("[claude]\nmax_resident = true", "claude.max_resident is true", "a whole number from 1 to 1000"),
        ('[claude]\nbase_url = "ftp://x"', 'claude.base_url is "ftp://x"', "begins with http:// or https://"),
        ('[claude]\nembedded = "yes"', 'claude.embedded is "yes"', "true or false"),
        ('[telemetry]\nviewer = "http://x/trace"', 'telemetry.viewer is "http://x/trace"', "with {trace_id} where the trace's id goes"),
        ('[telemetry]\nviewer = "ftp://x/{trace_id}"', 'telemetry.viewer is "ftp://x/{trace_id}"', "begins with http:// or https://"),
        ('[telemetry]\nviewer = "javascript:{trace_id}"', 'telemetry.viewer is "javascript:{trace_id}"', "begins with http:// or https://"),
        ('[telemetry]\nviewer = "http://x/{trace}"', 'telemetry.viewer is "http://x/{trace}"', "with {trace_id}"),
        ("[routes.main]\nrotate_at = 19999", "routes.main.rotate_at is 19999", "at least 20000"),
        ("[routes.main]\nautocompact = 99999", "routes.main.autocompact is 99999", "at least 100000"),
        ("[routes.main]\nautocompact = -1", "routes.main.autocompact is -1", "at least 100000"),
        ('[routes.main]\nfollow = "always"', 'routes.main.follow is "always"', '"mention" or "thread"'),
        ('[routes.main]\nmodel = ""', 'routes.main.model is ""', "the name of a Claude model"),
        ('[routes.main]\ntools = "Read"', 'routes.main.tools is "Read"', "a list of"),
        ("[routes.main]\nturn_seconds = 0", "routes.main.turn_seconds is 0", "a number above 0"),
        ("[routes.main]\nturn_seconds = nan", "routes.main.turn_seconds is NaN", "a number above 0"),
        ("routes = []", "routes is []", "tables: [routes.NAME]"),
    ],
)
def test_each_wrong_value_names_what_is_allowed(tmp_path: Path, toml: str, key: str, allowed: str) -> None:
    (told,) = errors(tmp_path, toml)

    assert told.startswith(f"insomnia.toml: {key}; allowed: ")
    assert allowed in told


def test_an_unknown_key_is_told_with_the_nearest_known_one(tmp_path: Path) -> None:
    (told,) = errors(tmp_path, "[routes.main]\nrotateat = 5")

    assert told.startswith("insomnia.toml: routes.main.rotateat = 5 is unknown; did you mean rotate_at? allowed: channels, model,")


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    told = errors(tmp_path, 'langage = "en"\n[claude]\nmax_resident = 0\n[routes.main]\nprefer = "no"')

    assert len(told) == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("not toml", b"x = = 1", "insomnia.toml is not TOML"),
        ("not text", b"\xff\xfe", "insomnia.toml is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / "insomnia.toml").write_bytes(content)

    with pytest.raises(ConfigError, match=said):
        load_settings(tmp_path, {})


def test_a_directory_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "insomnia.toml").mkdir()

    with pytest.raises(ConfigError, match=r"insomnia\.toml cannot be read"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize(
    "toml",
    [
        '[accounts.main]\nkey_env = "sk-ant-api03-secretkey"',
        '[accounts.main]\napi = "secretkey"',
        '[accounts.main]\nkey = "secretkey"',
        '[acounts.main]\nkey = "secretkey"',
        '[slack]\nbot_token = "secretkey"',
        '[slack]\nusers = "xoxb-secretkey"',
        '[claude]\nbase_url = "https://me:secretkey@host"',
        'language = "sk-secretkey"',
    ],
)
def test_a_secret_written_into_the_file_is_never_repeated(tmp_path: Path, toml: str) -> None:
    told = errors(tmp_path, toml)

    assert "secretkey" not in "".join(told)
    assert "(value hidden)" in told[0]


def test_secrets_are_in_no_repr(tmp_path: Path) -> None:
    settings = load(tmp_path, "", TOKENS | KEY)

    assert settings.credentials[0].value == KEY["ANTHROPIC_API_KEY"]
    shown = f"{settings!r}{settings.secrets!r}{settings.credentials!r}"
    assert not [value for value in (TOKENS | KEY).values() if value in shown]


def test_autocompact_in_force_is_the_net_above_rotate_at(tmp_path: Path) -> None:
    settings = load(tmp_path, '[routes.a]\nchannels = ["a"]\nrotate_at = 80_000\n[routes.b]\nchannels = ["b"]\nrotate_at = 20_000')

    assert settings.routes["a"].autocompact == 130_000
    assert settings.routes["b"].autocompact == 100_000  # the CLI takes no smaller window
    assert settings.routes["dm"].autocompact == 200_000


def test_autocompact_may_lie_below_rotate_at_when_it_is_written(tmp_path: Path) -> None:
    assert load(tmp_path, "[routes.main]\nautocompact = 100_000").routes["main"].autocompact == 100_000


def test_templates_inherit_from_main_but_not_where_it_listens(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[routes.main]\nchannels = ["general"]\nmixed = true\nrotate_at = 90_000\nmodel = "m"\n[routes.dm]\nrotate_at = 60_000',
    )
    dm, private = settings.routes["dm"], settings.routes["private"]

    assert (dm.model, dm.rotate_at, dm.autocompact) == ("m", 60_000, 110_000)
    assert (private.model, private.rotate_at, private.channels, private.mixed) == ("m", 90_000, (), False)
    assert settings.origins["routes.dm.rotate_at"] == "insomnia.toml"
    assert settings.origins["routes.dm.model"] == "routes.main"
    assert settings.origins["routes.dm.follow"] == "default"


def test_a_template_alone_leaves_the_default_route_in_place(tmp_path: Path) -> None:
    settings = load(tmp_path, '[routes.dm]\nfollow = "thread"')

    assert settings.routes["main"].channels == ("*",)
    assert settings.routes["dm"].follow == "thread"


def test_configured_routes_replace_the_default_one(tmp_path: Path) -> None:
    settings = load(tmp_path, '[routes.coder]\nchannels = ["#dev", "C012345"]')

    assert settings.route_names == ("coder", "dm", "private")
    assert settings.routes["coder"].channels == ("dev", "C012345")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[routes.a]\nchannels = ["x"]\n[routes.b]\nchannels = ["#x"]', "routes.a and routes.b both take the channel x"),
        ('[routes.a]\nchannels = ["*"]\n[routes.main]', "routes.a and routes.main both take every public channel"),
        ("[routes.a]", "routes.a.channels is empty"),
        ('[routes.dm]\nchannels = ["x"]', "template for direct messages and takes no channels"),
        ('[routes.Coder]\nchannels = ["x"]', "routes.Coder: a name is lower-case letters"),
        ("[accounts.'a b']", "accounts.a b: a name is lower-case letters"),
        ('[routes.main]\nprompt_file = "none.md"', "there is no such file"),
        ('[routes.main]\ncwd = "none"', "there is no such directory"),
    ],
)
def test_settings_that_contradict_each_other_are_told(tmp_path: Path, toml: str, said: str) -> None:
    (told,) = errors(tmp_path, toml)

    assert said in told


def test_a_bot_token_alone_names_both_ways_for_events_to_come_in(tmp_path: Path) -> None:
    (told,) = errors(tmp_path, "", KEY | {"SLACK_BOT_TOKEN": TOKENS["SLACK_BOT_TOKEN"]})

    assert told.startswith("environment: SLACK_BOT_TOKEN is set, but neither SLACK_APP_TOKEN ")
    assert "SLACK_SIGNING_SECRET" in told and "Socket Mode" in told and "HTTP" in told


@pytest.mark.parametrize("there", [{"SLACK_APP_TOKEN": "xapp-1-secretapp"}, SIGNING])
def test_a_secret_for_events_without_the_bot_token_names_it(tmp_path: Path, there: dict[str, str]) -> None:
    (told,) = errors(tmp_path, "", KEY | there)

    assert told.startswith(f"environment: {next(iter(there))} is set, but SLACK_BOT_TOKEN ")


def test_two_ways_for_events_to_come_in_are_one_too_many(tmp_path: Path) -> None:
    (told,) = errors(tmp_path, "", KEY | TOKENS | SIGNING)

    assert told.startswith("environment: SLACK_APP_TOKEN (Socket Mode) and SLACK_SIGNING_SECRET (HTTP) are both set")
    assert "secret" not in told.replace("SLACK_SIGNING_SECRET", "")


@pytest.mark.parametrize(("secret", "kind"), [({"SLACK_APP_TOKEN": "xapp-1-secretapp"}, "socket"), (SIGNING, "http")])
def test_the_secret_that_is_set_decides_how_events_come_in(tmp_path: Path, secret: dict[str, str], kind: str) -> None:
    settings = load(tmp_path, "", KEY | {"SLACK_BOT_TOKEN": "xoxb-1-secretbot"} | secret)

    assert settings.slack_kind == kind
    assert next(iter(secret.values())) not in f"{settings!r}{settings.secrets!r}"


def test_servers_listen_on_loopback_unless_told_otherwise(tmp_path: Path) -> None:
    assert (load(tmp_path).slack.listen_host, load(tmp_path).slack.listen_port) == ("127.0.0.1", 3000)

    told = load(tmp_path, '[slack]\nlisten = "[::1]:8080"').slack

    assert (told.listen_host, told.listen_port) == ("::1", 8080)


def test_swapped_slack_tokens_are_told_without_being_shown(tmp_path: Path) -> None:
    told = errors(tmp_path, "", KEY | {"SLACK_BOT_TOKEN": "xapp-1-secretapp", "SLACK_APP_TOKEN": "xoxb-1-secretbot"})

    assert len(told) == 2
    assert "secret" not in "".join(told)


def test_an_api_address_without_tokens_is_told(tmp_path: Path) -> None:
    (told,) = errors(tmp_path, "", {"SLACK_API_URL": "http://127.0.0.1:1/api/"})

    assert "SLACK_API_URL is set, but SLACK_BOT_TOKEN and SLACK_APP_TOKEN or SLACK_SIGNING_SECRET are not" in told


def test_the_api_address_ends_in_a_slash(tmp_path: Path) -> None:
    settings = load(tmp_path, "", TOKENS | KEY | {"SLACK_API_URL": "http://127.0.0.1:1/api"})

    assert settings.slack_api_url == "http://127.0.0.1:1/api/"
    assert settings.slack_kind == "socket"


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    settings = load(tmp_path, "", {"SLACK_BOT_TOKEN": "", "ANTHROPIC_API_KEY": "  "})

    assert (settings.slack_kind, settings.model_kind, settings.credentials) == ("embedded", "embedded", ())


@pytest.mark.parametrize(("toml", "env"), [("", KEY), ("", {"ANTHROPIC_BASE_URL": "http://h"}), ('[claude]\nbase_url = "http://h"', {})])
def test_a_credential_or_an_address_means_that_claude_answers(tmp_path: Path, toml: str, env: dict[str, str]) -> None:
    assert load(tmp_path, toml, env).model_kind == "anthropic"


def test_the_file_wins_over_the_environment_for_the_models_address(tmp_path: Path) -> None:
    settings = load(tmp_path, '[claude]\nbase_url = "http://file"', {"ANTHROPIC_BASE_URL": "http://env"})

    assert (settings.base_url, settings.origins["claude.base_url"]) == ("http://file", "insomnia.toml")


def test_the_embedded_model_does_not_answer_real_slack_unless_told_to(tmp_path: Path) -> None:
    (told,) = errors(tmp_path, "", TOKENS)

    assert "ANTHROPIC_API_KEY" in told
    assert "claude.embedded = true" in told
    assert load(tmp_path, "[claude]\nembedded = true", TOKENS).model_kind == "embedded"


def test_a_route_with_tools_on_real_slack_needs_an_allow_list(tmp_path: Path) -> None:
    tools = '[routes.main]\ntools = ["Read"]\n[routes.dm]\ntools = []\n[routes.private]\ntools = []\n'
    (told,) = errors(tmp_path, tools, TOKENS | KEY)

    assert "routes.main has tools" in told
    assert load(tmp_path, tools + '[slack]\nusers = ["U1"]', TOKENS | KEY).users_of("main") == ("U1",)
    assert load(tmp_path, tools).slack_kind == "embedded"


def test_accounts_are_tried_in_the_order_of_the_file_and_only_those_that_are_set(tmp_path: Path) -> None:
    variables = {"z": "ANTHROPIC_API_KEY_2", "a": "NOT_SET", "b": "CLAUDE_CODE_OAUTH_TOKEN"}
    toml = "\n".join(f'[accounts.{name}]\nkey_env = "{variable}"' for name, variable in variables.items())
    settings = load(tmp_path, toml, {"CLAUDE_CODE_OAUTH_TOKEN": "o", "ANTHROPIC_API_KEY_2": "k", "ANTHROPIC_API_KEY": "unnamed"})

    assert [(c.account, c.variable, c.value) for c in settings.credentials] == [
        ("z", "ANTHROPIC_API_KEY", "k"),
        ("b", "CLAUDE_CODE_OAUTH_TOKEN", "o"),
    ]


def test_the_demo_knows_no_credential_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "insomnia.toml").write_text("nonsense")
    for name, value in (TOKENS | KEY | {"ANTHROPIC_BASE_URL": "http://h"}).items():
        monkeypatch.setenv(name, value)

    settings = Settings.for_demo(tmp_path, {"routes": {"main": {"rotate_at": 30_000}}})

    assert (settings.slack_kind, settings.model_kind) == ("embedded", "embedded")
    assert settings.routes["main"].rotate_at == 30_000


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings: Any = load(tmp_path)

    for change in (
        lambda: setattr(settings, "language", "en"),
        lambda: setattr(settings.routes["main"], "rotate_at", 1),
        lambda: settings.routes.__setitem__("x", settings.routes["main"]),
    ):
        with pytest.raises((AttributeError, TypeError, ValueError)):
            change()


def test_every_setting_has_an_origin(tmp_path: Path) -> None:
    settings = load(tmp_path, 'language = "ja"\n[routes.main]\nrotate_at = 90_000', {"ANTHROPIC_BASE_URL": "http://h"})

    assert settings.origins["language"] == "insomnia.toml"
    assert settings.origins["routes.main.rotate_at"] == "insomnia.toml"
    assert settings.origins["routes.main.model"] == "default"
    assert settings.origins["claude.base_url"] == "environment ANTHROPIC_BASE_URL"
