"""Slack's message objects as plain text, and whose they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.messages import Role
from bot.slack_text import Me, is_unfurl_only, mentioned_users, plain_text, said_of, speaker_of

ME = Me("U0BOT", "B0BOT")
NAMES = {"U1": "Ann", "U2": "Bob", "U0BOT": "Insomnia", "C9": "ops"}


def text(message: dict[str, Any]) -> str:
    return plain_text(message, bot_user_id="U0BOT", names=NAMES)


def rich(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "rich_text", "elements": list(elements)}


def section(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "rich_text_section", "elements": list(elements)}


def word(words: str, **style: bool) -> dict[str, Any]:
    return {"type": "text", "text": words, **({"style": style} if style else {})}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<@U0BOT> please", "please"),
        ("hey <@U0BOT> do it", "hey do it"),
        ("see <@U0BOT|insomnia>", "see"),
        ("one\n<@U0BOT> two", "one\ntwo"),
        ("これ<@U0BOT>見て", "これ見て"),
        ("<@U0BOT>", ""),
        ("assign to <@U2>, not <@U7|zoe> or <@U8>", "assign to @Bob, not @zoe or @U8"),
        ("<#C1|general> <#C9> <#C8>", "#general #ops #C8"),
        ("<!here> <!channel|channel> <!subteam^S1|@team> <!subteam^S2>", "@here @channel @team @S2"),
        ("<https://x.org/a?b=1&amp;c=2|the page>", "the page (https://x.org/a?b=1&c=2)"),
        ("<https://x.org> <http://example.com|example.com>", "https://x.org http://example.com"),
        ("<mailto:a@b.org|a@b.org>", "a@b.org"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("<!date^1392734382^{date}>", "2014-02-18T14:39:42+00:00"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2, &amp;lt;", "1 < 2 && 3 > 2, &lt;"),
        ("a <b> c < d", "a <b> c < d"),
        ("two\r\nlines", "two\nlines"),
    ],
)
def test_entities_become_words_and_only_the_own_tag_goes(raw: str, shown: str) -> None:
    assert text({"text": raw}) == shown


def test_a_name_that_looks_like_an_entity_is_not_read_again() -> None:
    assert plain_text({"text": "<@U1>"}, bot_user_id="U0BOT", names={"U1": "&lt;<@U2>"}) == "@&lt;<@U2>"


def test_names_may_be_a_function() -> None:
    assert plain_text({"text": "<@U1>"}, bot_user_id="", names={"U1": "Ann"}.get) == "@Ann"


def test_a_message_and_its_rich_text_are_one_text() -> None:
    message = {
        "text": "<@U0BOT> *now* see <#C1|general> and <https://x.org|x>:\n• one\n• two\n&gt; quoted\n```a &lt; b```\n:wave::skin-tone-2:",
        "blocks": [
            rich(
                section(
                    {"type": "user", "user_id": "U0BOT"},
                    word(" "),
                    word("now", bold=True),
                    word(" see "),
                    {"type": "channel", "channel_id": "C1"},
                    word(" and "),
                    {"type": "link", "url": "https://x.org", "text": "x"},
                    word(":\n"),
                ),
                {"type": "rich_text_list", "style": "bullet", "elements": [section(word("one")), section(word("two"))]},
                {"type": "rich_text_quote", "elements": [word("quoted")]},
                {"type": "rich_text_preformatted", "elements": [word("a < b")]},
                section({"type": "emoji", "name": "wave", "skin_tone": 2}),
            )
        ],
    }

    assert text(message) == "*now* see #general and x (https://x.org):\n• one\n• two\n> quoted\n```a < b```\n:wave::skin-tone-2:"


def test_rich_text_alone_is_read_in_order() -> None:
    blocks = [
        rich(
            section(word("ask "), {"type": "user", "user_id": "U2"}, word(" <or> "), {"type": "broadcast", "range": "here"}),
            {"type": "rich_text_list", "style": "ordered", "offset": 2, "elements": [section(word("c")), section(word("d"))]},
            {"type": "rich_text_list", "style": "bullet", "indent": 1, "elements": [section(word("deep"))]},
            {"type": "rich_text_quote", "elements": [word("q1\nq2")]},
            {"type": "rich_text_preformatted", "elements": [word("x = 1")]},
            section({"type": "date", "timestamp": 0, "format": "{date}", "fallback": "Monday"}, {"type": "color", "value": "#fff"}),
        )
    ]

    assert text({"blocks": blocks}) == "ask @Bob <or> @here\n3. c\n4. d\n• deep\n> q1\n> q2\n```\nx = 1\n```\nMonday#fff"


def test_blocks_of_apps_are_read_and_a_fallback_text_that_they_hold_is_not_doubled() -> None:
    message = {
        "text": "Deploy failed",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Deploy failed on web-1"}},
            {"type": "divider"},
            {"type": "section", "text": {"type": "mrkdwn", "text": "*why*: disk"}, "fields": [{"type": "mrkdwn", "text": "*env*\nprod"}]},
            {"type": "context", "elements": [{"type": "image", "alt_text": "logo"}, {"type": "mrkdwn", "text": "by <@U1>"}]},
            {"type": "markdown", "text": "**more** &amp; more"},
            {"type": "image", "title": {"type": "plain_text", "text": "graph"}, "alt_text": "g"},
            {
                "type": "table",
                "rows": [
                    [{"type": "raw_text", "text": "a"}, rich(section(word("b")))],
                    [{"type": "raw_text", "text": "1 < 2"}, {"value": 2}],
                ],
            },
        ],
    }

    assert text(message).split("\n") == [
        "Deploy failed on web-1",
        "*why*: disk",
        "*env*",
        "prod",
        "[image: logo] by @Ann",
        "**more** & more",
        "[image: graph]",
        "a | b",
        "1 < 2 | 2",
    ]


def test_text_and_blocks_that_differ_are_both_kept() -> None:
    message = {"text": "summary of it", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "the whole story"}}]}

    assert text(message) == "summary of it\nthe whole story"


def test_a_short_piece_inside_another_word_is_not_taken_for_a_repetition() -> None:
    message = {"text": "broken", "attachments": [{"text": "ok"}]}

    assert text(message) == "broken\nok"


def test_c016_alerts_without_text_are_read_from_attachments_and_blocks() -> None:
    alert = {
        "text": "",
        "attachments": [
            {
                "pretext": "Grafana",
                "title": "[FIRING] disk",
                "title_link": "https://g.org/1",
                "text": "web-1 is full",
                "fields": [{"title": "Severity", "value": "high"}, {"title": "Free", "value": 3}],
                "fallback": "[FIRING] disk web-1 is full",
            }
        ],
    }
    in_blocks = {
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Alert"}},
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "cpu 99"}]},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "since 9:00"}]},
        ]
    }

    assert text(alert) == "Grafana\n[FIRING] disk (https://g.org/1)\nweb-1 is full\nSeverity: high\nFree: 3"
    assert text(in_blocks) == "Alert\ncpu 99\nsince 9:00"
    assert text({"attachments": [{"fallback": "only this"}]}) == "only this"
    assert text({"attachments": [{"blocks": in_blocks["blocks"], "fallback": "no"}]}) == "Alert\ncpu 99\nsince 9:00"


@pytest.mark.parametrize("filled", ["&gt; `retries=3` is too low", "retries=3", ""])
def test_c017_a_quote_that_begins_with_code_is_whole_and_there_once(filled: str) -> None:
    quote = {"type": "rich_text_quote", "elements": [word(""), word("retries=3", code=True), word(" is too low")]}

    assert text({"text": filled, "blocks": [rich(quote)]}) == "> `retries=3` is too low"


def test_c018_a_broadcast_reply_names_its_files_and_leaves_the_root_out() -> None:
    reply = {
        "subtype": "thread_broadcast",
        "text": "see here",
        "root": {"text": "the root", "files": [{"name": "root.txt"}]},
        "files": [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf"}],
        "attachments": [{"files": [{"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf"}]}],
    }

    assert text(reply) == "see here\n[file: plan.pdf, application/pdf]"


def test_c022_a_message_that_is_only_a_file_names_it() -> None:
    assert text({"text": "", "files": [{"name": "notes\n.txt", "mimetype": "text/plain"}]}) == "[file: notes .txt, text/plain]"
    assert text({"text": "<@U0BOT>"}) == ""


def test_c024_a_message_with_text_still_names_each_of_its_files() -> None:
    files = [{"name": "error.png", "mimetype": "image/png"}, {"title": "log", "filetype": "text"}, {"mode": "tombstone", "id": "F3"}]

    assert text({"text": "looks wrong, see the screenshot", "files": files}).split("\n") == [
        "looks wrong, see the screenshot",
        "[file: error.png, image/png]",
        "[file: log, text]",
        "[file: deleted]",
    ]


def test_c036_missing_and_null_keys_are_no_errors() -> None:
    assert text({"subtype": "file_share", "files": [{"name": "a.png", "mimetype": "image/png"}]}) == "[file: a.png, image/png]"
    assert text({"text": None, "blocks": None, "attachments": None, "files": None}) == ""
    assert text({}) == ""


def test_previews_count_only_where_there_is_nothing_else() -> None:
    preview = {"from_url": "https://x.org", "title": "X", "text": "about x"}

    assert text({"text": "look: <https://x.org>", "attachments": [preview]}) == "look: https://x.org"
    assert text({"text": "", "attachments": [preview]}) == "X\nabout x"


def test_a_forwarded_message_is_content_and_no_preview() -> None:
    shared = {"is_share": True, "is_msg_unfurl": True, "from_url": "https://x.slack.com/p1", "text": "the forwarded words"}
    without_text = {**shared, "text": "", "message_blocks": [{"message": {"blocks": [rich(section(word("in blocks")))]}}]}

    assert text({"text": "what of this?", "attachments": [shared]}) == "what of this?\nthe forwarded words"
    assert text({"text": "what of this?", "attachments": [without_text]}) == "what of this?\nin blocks"


def test_c030_previews_and_counts_are_no_change_but_words_and_files_are() -> None:
    before = {"text": "see <https://x.org>", "ts": "1.0"}
    preview = {"from_url": "https://x.org", "title": "X"}

    assert is_unfurl_only(before, {**before, "attachments": [preview], "edited": {"ts": "2"}, "reply_count": 3})
    assert is_unfurl_only({"text": ""}, {"text": "", "attachments": [preview]})
    assert not is_unfurl_only(before, {**before, "text": "see that"})
    assert not is_unfurl_only(before, {**before, "files": [{"name": "a"}]})


def test_the_digest_of_an_event_and_of_the_history_are_equal() -> None:
    event = {"type": "message", "user": "U1", "text": "hi <@U2>", "ts": "1.0", "channel": "C1", "event_ts": "1.0", "client_msg_id": "x"}
    stored = {
        "user": "U1",
        "text": "hi <@U2>",
        "ts": "1.0",
        "reply_count": 4,
        "edited": {"ts": "9"},
        "attachments": [{"from_url": "https://y"}],
    }

    assert said_of(event, me=ME, names=NAMES).digest == said_of(stored, me=ME, names=NAMES).digest


def test_mentioned_users_are_found_in_every_source() -> None:
    message = {
        "text": "<@U1>",
        "blocks": [rich(section({"type": "user", "user_id": "U2"}))],
        "attachments": [{"text": "<@U3|c>"}, {"from_url": "x", "text": "<@U4>"}],
    }

    assert mentioned_users(message) == {"U1", "U2", "U3", "U4"}


def test_c014_only_the_own_ids_make_a_message_the_bots_own() -> None:
    ci = speaker_of({"subtype": "bot_message", "bot_id": "B7", "username": "CI"}, ME, NAMES)
    workflow = speaker_of({"user": "U7", "bot_id": "B8", "bot_profile": {"name": "Flow"}}, ME, NAMES)
    impostor = speaker_of({"user": "U9", "bot_id": "B9", "username": "Insomnia"}, ME, NAMES)
    own = [speaker_of(message, ME, NAMES) for message in ({"user": "U0BOT"}, {"bot_id": "B0BOT", "username": "x"})]

    assert [(s.id, s.name, s.role) for s in (ci, workflow)] == [("B7", "CI", Role.BOT), ("U7", "Flow", Role.BOT)]
    assert impostor.role is Role.BOT
    assert {(s.id, s.name, s.role) for s in own} == {("U0BOT", "Insomnia", Role.OWN)}


def test_people_carry_their_name_or_their_id() -> None:
    assert speaker_of({"user": "U1"}, ME, NAMES).name == "Ann"
    assert speaker_of({"user": "U5", "user_profile": {"display_name": "Eve"}}, ME, NAMES).name == "Eve"
    assert speaker_of({"user": "U6"}, ME, lambda user: user).name == "U6"
    assert speaker_of({}, Me("", ""), NAMES).role is Role.PERSON


def test_who_is_verified_is_asked_for_everybody_but_the_bot_itself() -> None:
    people = [said_of({"user": user, "ts": "1.0"}, me=ME, names=NAMES, verified={"U1"}.__contains__) for user in ("U1", "U2", "U0BOT")]

    assert [said.speaker.verified for said in people] == [True, False, True]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["rich_text", "section", "table", "<@U1>", "<"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "elements", "blocks", "fields", "attachments", "files", "rows", "name", "style", "user"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["text", "blocks", "attachments", "files", "user", "bot_id", "bot_profile", "ts"]), json_values))
def test_no_payload_raises(message: dict[str, Any]) -> None:
    said = said_of(message, me=ME, names=NAMES)

    assert said == said_of(json.loads(json.dumps(message)), me=ME, names=NAMES)
    assert mentioned_users(message) >= set()
