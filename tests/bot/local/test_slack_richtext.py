from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.local import slack_richtext
from bot.local.slack_seed import PEOPLE

EVERYBODY = {p.id: p for p in PEOPLE}


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("@insomnia why?", "<@U0INSOMNIA> why?"),
        ("@Insomnia教えて", "<@U0INSOMNIA>教えて"),
        ("@陽斗さん、@tom.", "<@U0HARU>さん、<@U0TOM>."),
        ("write to me@tom.example, @tommy", "write to me@tom.example, @tommy"),
        ("see https://x.example/a?b=1&c=2.", "see <https://x.example/a?b=1&amp;c=2>."),
        ("<@U0TOM> and <!here>, not <script>", "<@U0TOM> and <!here>, not &lt;script&gt;"),
    ],
)
def test_typed_words_become_what_a_client_stores(typed: str, stored: str) -> None:
    assert slack_richtext.typed(typed, EVERYBODY) == stored


@given(st.text(alphabet="ab<>&@ \n"))
def test_words_without_entities_are_read_as_they_were_typed(text: str) -> None:
    assert slack_richtext.words(slack_richtext.typed(text, EVERYBODY), EVERYBODY, {}) == text


def test_a_person_reads_names_and_labels() -> None:
    text = "<@U0TOM> in <#C0RELEASE> and <#C1|ops>: <https://x.example|the page>, <!here> <!subteam^S1|@ops> &lt;3 <mailto:a@b.example>"

    assert slack_richtext.words(text, EVERYBODY, {"C0RELEASE": "release"}) == (
        "@Tom in #release and #ops: the page, @here @ops <3 a@b.example"
    )


def test_blocks_say_the_same_as_the_text() -> None:
    (block,) = slack_richtext.blocks("<@U0TOM> see <https://x.example?a=1&amp;b=2|this> &amp; <#C0RELEASE>, <!here>\n<!date^1^x|today>")

    assert block["elements"][0]["elements"] == [
        {"type": "user", "user_id": "U0TOM"},
        {"type": "text", "text": " see "},
        {"type": "link", "url": "https://x.example?a=1&b=2", "text": "this"},
        {"type": "text", "text": " & "},
        {"type": "channel", "channel_id": "C0RELEASE"},
        {"type": "text", "text": ", "},
        {"type": "broadcast", "range": "here"},
        {"type": "text", "text": "\n"},
        {"type": "text", "text": "today"},
    ]
