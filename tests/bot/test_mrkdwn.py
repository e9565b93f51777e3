"""The model's answer on its way to Slack."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.chunks import CHUNK_CHARS
from bot.mrkdwn import neutralise, split


def shown(sent: str) -> str:
    """As Slack shows it: the three signs unescaped."""
    return sent.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_c044_nobody_is_pinged_the_link_works_and_signs_show_as_written() -> None:
    pings = "<!channel> <!here> <!everyone> <!subteam^S1> <@U2> <#C1>"
    answer = f"{pings}\n<https://example.com|doc>\na < b && c > d\n```\n<!here> & <@U2>\n```\n`<!here>`"
    sent = neutralise(answer)

    assert re.findall("<[^>]*>", sent) == ["<https://example.com|doc>"]
    assert shown(sent) == answer
    assert "a &lt; b &amp;&amp; c &gt; d" in sent


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("&amp; &lt;b&gt; &nbsp;", "&amp; &lt;b&gt; &amp;nbsp;"),
        ("`&amp;` and ```&lt;```", "`&amp;amp;` and ```&amp;lt;```"),
        ("<https://x.org?a=1&b=2>", "<https://x.org?a=1&amp;b=2>"),
        ("<https://x.org?a=1&amp;b=2|a & b>", "<https://x.org?a=1&amp;b=2|a &amp; b>"),
        ("<mailto:a@b.org|mail>", "<mailto:a@b.org|mail>"),
        ("<javascript:x|y>", "&lt;javascript:x|y&gt;"),
        ("> quoted", "&gt; quoted"),
        ("**bold** and __init__ and 2**3**4", "*bold* and __init__ and 2**3**4"),
        ("これは**重要**です", "これは*重要*です"),
        ("***both*** ~~gone~~", "*_both_* ~gone~"),
        ("**see `a*b*c` and [x](https://x.org)**", "*see `a*b*c` and <https://x.org|x>*"),
        ("[label](https://x.org/a_(b)?c=1&d=2)", "<https://x.org/a_(b)?c=1&amp;d=2|label>"),
        ('![alt](https://x.org/i.png "title")', "<https://x.org/i.png|alt>"),
        ("[`foo.py`](https://x.org) [**b**](mailto:a@b.org)", "<https://x.org|foo.py> <mailto:a@b.org|b>"),
        ("[<!here>](https://x.org) [](https://x.org)", "<https://x.org|&lt;!here&gt;> <https://x.org>"),
        ("[rel](../a.md) [x](<!channel>)", "[rel](../a.md) [x](&lt;!channel&gt;)"),
        ("`[x](https://x.org) **b** # h`", "`[x](https://x.org) **b** # h`"),
        ("# Head **x**\n### About C#\n## Closed ##\n#no\n####### no", "*Head x*\n*About C#*\n*Closed*\n#no\n####### no"),
        ("* one\n  * two\n* **Item**: x\n- three", "• one\n  • two\n• *Item*: x\n- three"),
        ("```python\n# no **head**\n```", "```python\n# no **head**\n```"),
        ("```\nleft open", "```\nleft open\n```"),
        ("stray ```", "stray "),
        ("````md\n```py\nx\n```\n````", "```md\n'''py\nx\n'''\n```"),
        ("a\x00b\ud800\ufdd00\ufdd1", "a\ufffdb\ufffd\ufffd0\ufffd"),
        ("", ""),
    ],
)
def test_markdown_becomes_what_slack_knows(written: str, sent: str) -> None:
    assert neutralise(written) == sent


pieces_of_markdown = st.sampled_from(
    [
        "<!here>",
        "<@U2>",
        "<",
        ">",
        "|",
        "&",
        "&amp;",
        "[",
        "](",
        "https://x.org",
        ")",
        "`",
        "```",
        "````",
        "**",
        "*",
        "~~",
        "# ",
        "\n",
        " ",
        "a",
        "]",
        "<https://x|",
    ]
)
answers = st.lists(pieces_of_markdown, max_size=30).map("".join)


@settings(max_examples=300, deadline=None)
@given(answers)
def test_whatever_the_model_writes_only_links_are_entities_and_fences_are_even(answer: str) -> None:
    sent = neutralise(answer)

    assert all(re.match(r"<(https?://|mailto:)[^\s<>|]+(\|[^<>\n]+)?>", sent[at.start() :]) for at in re.finditer("<", sent))
    assert not re.search("&(?!(amp|lt|gt);)", sent)
    assert sent.count("```") % 2 == 0


@pytest.mark.parametrize("length", [5_000, 12_000])
def test_c038_a_long_answer_arrives_whole_in_several_posts(length: int) -> None:
    answer = ("A sentence of the answer. " * (length // 26 + 1))[:length]
    chunks = split(neutralise(answer))

    assert all(0 < len(chunk) <= CHUNK_CHARS for chunk in chunks)
    assert "".join(chunks) == answer


@pytest.mark.parametrize(
    "answer",
    [
        "a\n" * 1_500 + "b",
        "word " * 800 + "w",
        "x" * 40_001,
        "x" * 3_500 + "\n" + "y" * 3_500,
        "日本語の文です。" * 1_000,
        "👨‍👩‍👧" * 2_000,
        "& < >" * 3_000,
    ],
)
def test_c039_every_chunk_is_within_its_limit_and_together_they_are_the_answer(answer: str) -> None:
    chunks = split(neutralise(answer))

    assert all(chunk.strip() and len(chunk) <= CHUNK_CHARS for chunk in chunks)
    assert shown("".join(chunks)) == answer


def test_c040_no_payload_comes_near_twelve_thousand() -> None:
    chunks = split(neutralise("\n\n".join("x" * 1_400 for _ in range(10))))

    assert max(map(len, chunks)) < 12_000
    assert [chunk.count("x") for chunk in chunks] == [2_800] * 5


def test_c045_code_that_is_split_has_balanced_fences_its_language_and_all_its_lines() -> None:
    code = "".join(f"def function_{n}(a: int) -> int:\n    return a < {n}\n\n" for n in range(180))
    chunks = split(neutralise(f"Here it is:\n```python\n{code}```\nDone."))

    assert len(code) > 9_000
    assert all(chunk.count("```") == 2 and len(chunk) <= CHUNK_CHARS for chunk in chunks)
    assert all(chunk.startswith("```python\n") for chunk in chunks[1:])
    assert shown("".join(re.search(r"```python\n(.*?)```", chunk, re.DOTALL)[1] for chunk in chunks)) == code  # type: ignore[index]
