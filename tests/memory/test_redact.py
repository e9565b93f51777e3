"""Secrets of every common shape go; what only looks a little like one stays readable."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.redact import redact
from tests.memory.secret_shapes import SECRETS, WRITTEN

# Put together here, so that no scanner takes this file for a leak.
KEY = "wJalrXUtnFEMI" + "K7MDENGbPxRfiCYEXAMPLEKEY"
# What stands around it, and what of it must go.
HOSTILE = [
    "curl -u ",
    "password below\n",
    "ghp_\nabc",
    "\u200b",
    "ﾊﾟ",
    "a\u0301",
    "password for ",
    "PIN ",
    "パスワードを",
    "[REDACTED:aws_key]",
]
PHRASES = [
    ("Authorization: Bearer {}", "abcDEF123456789.xyz"),
    ("curl -H 'Authorization: Basic {}'", "dXNlcjpwYXNzd29yZA=="),
    ("postgres://admin:{}@db.internal:5432/app", "hunter2hunter2"),
    ("https://alice:{}@example.com/x", "s3cr3t!pw"),
    ("aws_secret_access_key = {}", KEY),
    ("password: {}", "correct-horse"),
    ("the password is {}", "correct-horse"),
    ("PASSWORD={}", "Tr0ub4dor&3"),
    ('{{"api_key": "{}"}}', "0123456789abcdef"),
    ("export API_TOKEN={}", "abcdef012345"),
    ("client secret = `{}`", "abcdef012345"),
    ("パスワードは {} です", "ひみつのことば123"),
    ("パスワード：{}", "himitsu-123"),
    ("暗証番号は{}。", "4711-9921"),
    ("APIキー＝「{}」", "abcdef-0123"),
]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("around", ["{}", "the key is {} ok", "鍵は{}です", '{{"k":"{}"}}', "<{}>", "a\n{}\nb"])
def test_a_secret_goes_wherever_it_stands(name: str, around: str) -> None:
    redacted = redact(around.format(SECRETS[name]))

    assert "[REDACTED:" in redacted
    tail = SECRETS[name].replace("-----END RSA PRIVATE KEY-----", "").strip().split("\n")[-1][-8:]
    assert tail not in redacted


@pytest.mark.parametrize(("around", "secret"), PHRASES + WRITTEN)
def test_what_is_called_a_secret_goes(around: str, secret: str) -> None:
    redacted = redact(around.format(secret))

    assert "[REDACTED:" in redacted and secret not in redacted


@pytest.mark.parametrize(
    "text",
    [
        "The deploy freeze begins on Friday 15:00.",
        "金曜のデプロイは15時から止めます。担当は田中さん。",
        "Ask in #ops-team, see https://example.com/a/b?c=d#e and mail bob@example.com.",
        "The token bucket refills every second; the password policy is strict.",
        "task-force sk-8 and ghp are words; commit 0123456789abcdef0123456789abcdef01234567",
        "パスワードの変更は来週です。",
        "パスワードは毎月変更する",
        "パスワードは12文字以上にしてください。",
        "パスワードを定期的に変更する。",
        "パスワードはSlackで共有しない。",
        "パスワードは次の会議で決める。\n議題は三つ。",
        "password SHA-256 hash; the password reset/change page",
        "ｶﾞｲﾄﾞ\u200b ① e\u0301 \ufeff⚠\ufe0f",
        "\u200b\u200b",
        "トークンは3600秒で切れる。",
        "暗証番号は4桁です。",
        "give the token <@U0ALICE1> asked for",
        "Bearer bonds are old.",
        "C0TEAM 1764547200.000100 U0ALICE",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.text(max_size=300))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", [f"password is {s}" for s in SECRETS.values()] + [a.format(s) for a, s in PHRASES + WRITTEN])
def test_redacting_a_redacted_secret_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "part", ["a", "eyJ.", "://a:", "password ", "aws key ", "-----BEGIN RSA PRIVATE KEY-----", "sk-", "Bearer ", " ", *HOSTILE]
)
def test_no_text_makes_it_slow(part: str) -> None:
    text = part * (200_000 // len(part))
    began = time.process_time()

    redact(text)

    assert time.process_time() - began < 5.0  # it takes a twentieth; a pattern that is not bounded takes minutes
