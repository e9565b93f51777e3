from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memory.frontmatter import Field, split
from memory.lint_rules import Rule


def front(*lines: str) -> str:
    return "\n".join(("---", *lines, "---", "", "the text", ""))


def plain(fields: dict[str, Field]) -> dict[str, Any]:
    return {
        key: value if isinstance(value := field.value, str) else [plain(item) for item in value]  # a list of small tables
        for key, field in fields.items()
    }


def read(*lines: str) -> dict[str, Any]:
    parsed = split(front(*lines))
    assert parsed.problems == []
    return plain(parsed.fields)


def refused(*lines: str) -> list[tuple[Rule, int]]:
    return [(problem.rule, problem.line) for problem in split(front(*lines)).problems]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("012", "012"),
        ("2026-01-01", "2026-01-01"),
        ("channel:C1", "channel:C1"),
        ("a#b", "a#b"),
        ("-5", "-5"),
        ("'it''s'", "it's"),
        ('"a: b"', "a: b"),
        ('"\\u65e5\\x41\\U0001F600\\n\\t\\\\\\/"', "日A😀\n\t\\/"),
        ('""', ""),
        ("''", ""),
        ("\u3000全角\u3000", "\u3000全角\u3000"),
        ('"ends in \\\\"', "ends in \\"),
    ],
)
def test_a_value_is_the_text_that_it_looks_like(written: str, meant: str) -> None:
    assert read(f"key: {written}") == {"key": meant} == yaml.load(f"key: {written}", yaml.BaseLoader)


def test_a_list_may_stand_below_its_key_with_or_without_indent() -> None:
    table = [{"a": "1", "b": "2"}, {"a": "3"}]

    assert read("list:", "  - a: 1", "    b: 2", "  - a: 3", "x: y") == {"list": table, "x": "y"}
    assert read("list:", "- a: 1", "  b: 2", "- a: 3", "x: y") == {"list": table, "x": "y"}
    assert read("list: []") == {"list": []}


@pytest.mark.parametrize(
    "lines",
    [
        ("a: &anchor x",),
        ("a: *anchor",),
        ("a: !!str x",),
        ("a: |",),
        ("a: >",),
        ("a: [x, y]",),
        ("a: {x: y}",),
        ("a: - x",),
        ("a: ? x",),
        ("a: b: c",),
        ("a: b:",),
        ("a: b # c",),
        ("a: @b",),
        ("a: `b`",),
        ("a: %b",),
        ("a: 'x",),
        ("a: x' y: 'z'", "b: 'it's'"),
        ('a: "x',),
        ('a: "x" y"',),
        ('a: "x\\"',),
        ('a: "\\q"',),
        ('a: "\\ud800"',),
        ('a: "\\U00110000"',),
        ("a:b",),
        ("a :b",),
        ("# a comment",),
        ("a: x", "  and more"),
        ("a: x\ty\x07",),
        ("a: x\u2028y",),
        ("a: x\x85y",),
        ("a: x\ufeffy",),
        ("a: x\r",),
        ("? a",),
        ("<<: x",),
        ("a:",),
        ("a:", "b: x"),
        ("- a: x",),
        ("a:", "  - b: x", "   - c: y"),
        ("a:", "  - b:"),
        ("a:", "  - b: x", "      c: y"),
        ("a:", "  - x"),
        ("a:", "    - b: x", "  - c: y"),
    ],
)
def test_what_could_be_read_in_two_ways_or_would_be_lost_is_refused_with_its_line(lines: tuple[str, ...]) -> None:
    problems = split(front(*lines)).problems

    assert {problem.rule for problem in problems} == {Rule.LINE}
    assert all(2 <= problem.line <= 1 + len(lines) and problem.mend for problem in problems)


def test_a_key_that_is_there_twice_is_told_wherever_it_stands() -> None:
    assert refused("a: 1", "b: 2", "a: 3") == [(Rule.KEY_TWICE, 4)]
    assert refused("a:", "  - x: 1", "    x: 2") == [(Rule.KEY_TWICE, 4)]
    assert refused("a:", "  - x: 1", "a: 2") == [(Rule.KEY_TWICE, 4)]
    assert refused("a: 2", "a:", "  - x: 1")[0] == (Rule.KEY_TWICE, 3)


def test_a_comment_is_refused_as_what_it_is_because_a_tool_would_lose_it() -> None:
    (problem,) = split(front("a: x", "  # ask Tanaka: first")).problems

    assert "comment" in problem.message and "text below" in problem.mend


def test_every_mistake_is_told_and_not_only_the_first() -> None:
    assert refused("a: *x", "b: y", "c: [", "nothing") == [(Rule.LINE, 2), (Rule.LINE, 4), (Rule.LINE, 5)]


@pytest.mark.parametrize(
    "text", ["", "no frontmatter", "----\na: b\n---\n", " ---\na: b\n---\n", "---\na: b\n", "---", "\n---\na: b\n---\n"]
)
def test_a_file_without_a_whole_frontmatter_says_so(text: str) -> None:
    assert [problem.rule for problem in split(text).problems] == [Rule.NO_FRONTMATTER]


def test_windows_line_ends_are_named_as_what_they_are() -> None:
    assert [problem.rule for problem in split("---\r\na: b\r\n---\r\nx").problems] == [Rule.ENCODING]


def test_a_rule_line_in_the_text_belongs_to_the_text() -> None:
    assert split("---\na: b\n---\n\none\n---\ntwo\n").body == "one\n---\ntwo"


@given(st.lists(st.text(st.sampled_from("ab:-#'\"\\ nu0[]{}&*!|>,?x\t\x85é日\u3000%@`~"), max_size=14), max_size=6))
@example(["a: 'b'' c'", 'b: "\\\\"'])
def test_whatever_is_accepted_every_yaml_tool_reads_as_the_same_strings(lines: list[str]) -> None:
    parsed = split("\n".join(("---", *lines, "---", "")))

    if not parsed.problems and "---" not in lines:
        assert (yaml.load("\n".join(lines), yaml.BaseLoader) or {}) == plain(parsed.fields)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "  ", "- ", "  - ", "    "]),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([": x", ":", ": []", ": ''"]),
        )
    )
)
def test_lists_are_read_as_every_yaml_tool_reads_them(parts: list[tuple[str, str, str]]) -> None:
    lines = ["".join(part) for part in parts]
    parsed = split("\n".join(("---", *lines, "---", "")))

    if not parsed.problems:
        assert (yaml.load("\n".join(lines), yaml.BaseLoader) or {}) == plain(parsed.fields)
