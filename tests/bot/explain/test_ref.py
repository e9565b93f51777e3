from __future__ import annotations

import pytest

from bot.explain.ref import BadRef, Ref, parse_ref

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("text", "channel", "ts", "thread_ts"),
    [
        ("https://example.slack.com/archives/C012ABC/p1796040190000200", "C012ABC", "1796040190.000200", ""),
        (
            "https://example.slack.com/archives/C012ABC/p1796040190000200?thread_ts=1796040000.000100&cid=C012ABC",
            "C012ABC",
            "1796040190.000200",
            "1796040000.000100",
        ),
        ("http://127.0.0.1:4711/archives/D012ABC/p1796040190000200", "D012ABC", "1796040190.000200", ""),
        ("<https://example.slack.com/archives/G012ABC/p1796040190000200|a label>", "G012ABC", "1796040190.000200", ""),
        ("'https://example.slack.com/archives/C012ABC/p1796040190000200'", "C012ABC", "1796040190.000200", ""),
        ("https://app.slack.com/client/T012ABC/C012ABC/thread/C012ABC-1796040000.000100", "C012ABC", "1796040000.000100", ""),
        ("https://app.slack.com/client/T012ABC/C012ABC/p1796040190000200", "C012ABC", "1796040190.000200", ""),
        ("C012ABC/1796040190.000200", "C012ABC", "1796040190.000200", ""),
        ("C012ABC/p1796040190000200", "C012ABC", "1796040190.000200", ""),
        (" 1796040190.000200 ", "", "1796040190.000200", ""),
        ("p1796040190000200", "", "1796040190.000200", ""),
    ],
)
def test_a_message_is_named_in_many_ways(text: str, channel: str, ts: str, thread_ts: str) -> None:
    assert parse_ref(text) == Ref(text, channel=channel, ts=ts, thread_ts=thread_ts)


@pytest.mark.parametrize(("text", "prefix"), [(TRACE, TRACE), (TRACE.upper(), TRACE), ("4bf9", "4bf9"), ("12345678", "12345678")])
def test_a_trace_is_named_by_its_id_or_the_beginning_of_it(text: str, prefix: str) -> None:
    assert parse_ref(text) == Ref(text, prefix=prefix)


@pytest.mark.parametrize("text", ["last", "LAST", " last "])
def test_the_last_one_needs_no_name(text: str) -> None:
    assert parse_ref(text).is_last


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "4bf",
        TRACE + "0",
        "1796040190.0002",
        "general/1796040190.000200",
        "/1796040190.000200",
        "C012ABC/",
        "https://example.slack.com/archives/C012ABC",
        "https://example.slack.com/",
        "https://[::1/archives/C012ABC/p1796040190000200",
        "ftp://example.slack.com/archives/C012ABC/p1796040190000200",
        "１７９６０４０１９０.000200",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRef):
        parse_ref(text)
