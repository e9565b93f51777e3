"""Pieces of blocks, attachments and files, in Slack's own escaped form."""

from __future__ import annotations

from typing import Any

import pytest

from bot.slack_blocks import attachment_pieces, block_pieces, file_pieces, is_unfurl, maps, string


def test_pieces_are_escaped_mrkdwn_whatever_they_were_in_the_payload() -> None:
    elements = [
        {"type": "text", "text": "a < b & <@U9>"},
        {"type": "link", "url": "https://x.org/?a=1&b=2|3", "text": "<x>"},
        {"type": "usergroup", "usergroup_id": "S1"},
    ]
    (piece,) = block_pieces([{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]}])

    assert piece == "a &lt; b &amp; &lt;@U9&gt;<https://x.org/?a=1&amp;b=2%7C3|&lt;x&gt;><!subteam^S1>"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "section", "text": None, "fields": "no list"},
        {"type": "section", "fields": [None, "x", {"text": {"deep": 1}}]},
        {"type": "rich_text", "elements": [{"type": "rich_text_list", "elements": [{"elements": None}], "indent": "x", "offset": True}]},
        {"type": "table", "rows": [None, 3]},
        {"type": "table", "rows": "x"},
        {"type": "context", "elements": {}},
        {"type": 7},
        {},
    ],
)
def test_a_malformed_block_is_no_text_and_no_error(block: dict[str, Any]) -> None:
    assert all(piece.strip() == "•" for piece in block_pieces([block]))


def test_an_unknown_block_is_read_by_its_text() -> None:
    assert block_pieces([{"type": "brand_new", "text": "hello"}]) == ["hello"]


def test_a_fallback_counts_only_alone() -> None:
    assert attachment_pieces({"title": "t", "fallback": "f"}) == ["t"]
    assert attachment_pieces({"fallback": "f"}) == ["f"]
    assert attachment_pieces({}) == [""]


def test_previews_are_told_from_what_was_forwarded() -> None:
    assert is_unfurl({"from_url": "https://x.org"}) and is_unfurl({"is_msg_unfurl": True})
    assert not is_unfurl({"is_share": True, "is_msg_unfurl": True, "from_url": "https://x.org"})
    assert not is_unfurl({"title_link": "https://x.org"})


def test_files_are_named_once_each() -> None:
    assert file_pieces([{"id": "F1"}, {"id": "F1"}, {"name": "a", "filetype": "zip"}, {}, None]) == [
        "[file: F1]",
        "[file: a, zip]",
        "[file: unnamed]",
    ]


def test_json_values_are_read_by_what_they_are() -> None:
    assert (string(3), string(True), string(None), string([1])) == ("3", "", "", "")
    assert (maps("text"), maps([1, {"a": 1}]), maps(None)) == ([], [{"a": 1}], [])
