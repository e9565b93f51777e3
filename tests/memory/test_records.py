from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory.records import (
    STATUSES,
    BadRecord,
    KnowledgeKind,
    Record,
    RecordKind,
    Scope,
    ScopeKind,
    Source,
    Status,
    Trust,
    is_slug,
    moment,
    parse,
    path_of,
    render,
    sha256,
)
from tests.memory.made_records import NOW, record, source, text_of

WORKSPACE, CHANNEL, OTHER_CHANNEL = Scope.workspace(), Scope.channel("C1"), Scope.channel("C2")
USER, OTHER_USER = Scope.user("U1"), Scope.user("U2")

texts = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    ["no", "~", "12:30", "0o17", "2026-01-01", " x ", "a: b", "a #b", "- a", "'q'", '"q"', "\\", "x:", "\u3000x\u3000", "\x85", "😀", "%a"]
)
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(lambda time: time.replace(microsecond=0, tzinfo=UTC))
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
sources = st.builds(
    Source,
    session=names,
    range=st.tuples(st.integers(0, 10**11), st.integers(0, 10**11)).map(lambda pair: (min(pair), max(pair))),
    candidate=names,
    ts=times,
)
scopes = st.just(WORKSPACE) | st.builds(
    Scope, st.sampled_from([ScopeKind.CHANNEL, ScopeKind.USER]), st.from_regex(r"[A-Za-z0-9]{1,64}", fullmatch=True)
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(RecordKind))
    return Record(
        kind=kind,
        slug="a",
        title=draw(texts),
        description=draw(texts),
        status=draw(st.sampled_from(sorted(STATUSES[kind]))),
        scope=draw(scopes),
        trust=draw(st.sampled_from(Trust)),
        body=draw(st.text(st.characters(codec="utf-8"), max_size=200) | st.sampled_from(["---\nx\n---", "a\r\nb", "\n\n  code\n"])),
        created_at=(first := draw(times)),
        updated_at=max(first, draw(times)),
        pinned=draw(st.booleans()),
        sources=tuple(draw(st.lists(sources, max_size=3))),
        replaced_by=draw(texts),
        run_id=draw(texts),
        knowledge_kind=draw(st.sampled_from(KnowledgeKind)) if kind is RecordKind.KNOWLEDGE else None,
    )


@given(records())
def test_every_record_is_read_back_as_it_was_written(made: Record) -> None:
    assert parse(made.kind, made.slug, render(made)) == made


@given(records())
def test_every_yaml_tool_reads_the_same_strings(made: Record) -> None:
    front = render(made).split("---\n")[1]

    read = yaml.load(front, yaml.BaseLoader)

    assert (read["title"], read["description"], read["scope"]) == (made.title, made.description, str(made.scope))
    assert [(s["session"], s["range"], s["candidate"]) for s in read.get("sources", [])] == [
        (s.session, f"{s.range[0]}-{s.range[1]}", s.candidate) for s in made.sources
    ]


@given(texts)
def test_no_yaml_tool_takes_a_text_for_a_number_a_date_or_a_truth_value(text: str) -> None:
    read = yaml.safe_load(render(record(title=text, replaced_by=text)).split("---\n")[1])

    assert read["title"] == text
    assert read.get("replaced_by", "") == text


def test_a_record_looks_as_a_person_would_write_it() -> None:
    made = record(title="Release: what holds", body="Friday.\n", sources=(source(),), pinned=True, run_id="01JE", replaced_by="other")

    assert render(made) == (
        '---\ntitle: "Release: what holds"\ndescription: Before a deploy\nstatus: active\nscope: workspace\ntrust: user\n'
        "pinned: true\nreplaced_by: other\ncreated_at: 2025-12-01T00:00:00Z\nupdated_at: 2025-12-01T00:00:00Z\n"
        'run_id: "01JE"\nsources:\n  - session: "5e1d"\n    range: "12-15"\n    candidate: "5e1d.12.1"\n    ts: 2025-12-01T00:00:00Z\n'
        "---\n\nFriday.\n"
    )


@pytest.mark.parametrize(
    ("scope", "seen_from"),
    [(WORKSPACE, {WORKSPACE, CHANNEL, OTHER_CHANNEL, USER, OTHER_USER}), (CHANNEL, {CHANNEL}), (USER, {USER})],
)
def test_what_was_said_in_one_place_is_told_there_only(scope: Scope, seen_from: set[Scope]) -> None:
    everywhere = (WORKSPACE, CHANNEL, OTHER_CHANNEL, USER, OTHER_USER)

    assert {asking for asking in everywhere if scope.admits(asking)} == seen_from


def test_a_channel_and_a_person_of_one_id_are_two_scopes() -> None:
    assert not Scope.channel("X1").admits(Scope.user("X1"))


def test_a_time_with_another_zone_is_the_same_moment() -> None:
    read = parse(RecordKind.DECISION, "a", text_of(updated_at="2026-11-30T18:00:00+09:00"))

    assert read.updated_at == datetime(2026, 11, 30, 9, tzinfo=UTC)
    assert "updated_at: 2026-11-30T09:00:00Z" in render(read)


@pytest.mark.parametrize(
    "changed",
    [
        {"created_at": datetime(2026, 1, 1)},
        {"updated_at": datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)},
        {"status": Status.OPEN},
        {"knowledge_kind": KnowledgeKind.FACT},
        {"kind": RecordKind.KNOWLEDGE, "knowledge_kind": None},
        {"updated_at": moment(NOW - 1)},
        {"title": "\ud800"},
        {"body": "\udc00"},
    ],
)
def test_a_record_that_could_not_be_read_back_cannot_be_made(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        record(**changed)


@pytest.mark.parametrize("changed", [{"session": ""}, {"candidate": ""}, {"range": (3, 2)}, {"range": (-1, 2)}, {"range": (1, 10**12)}])
def test_a_source_that_could_not_be_read_back_cannot_be_made(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        source(**changed)


@pytest.mark.parametrize(("kind", "id"), [("workspace", "C1"), ("channel", ""), ("user", "U 1"), ("user", "U1\nx"), ("channel", "C" * 65)])
def test_a_scope_that_could_not_be_read_back_cannot_be_made(kind: str, id: str) -> None:
    with pytest.raises(ValueError):
        Scope(ScopeKind(kind), id)


def test_times_in_other_zones_are_written_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))

    assert "created_at: 2026-01-31T00:00:00Z" in render(
        record(created_at=datetime(2026, 1, 31, 9, tzinfo=tokyo), updated_at=datetime(2026, 1, 31, 9, tzinfo=tokyo))
    )


@pytest.mark.parametrize("slug", ["a", "deploy-freeze", "2026-plan", "a" * 64])
def test_slugs(slug: str) -> None:
    assert is_slug(slug)


@pytest.mark.parametrize("slug", ["", "A", "a--b", "-a", "a-", "a.b", "../a", "a/b", "a\n", "日本", "a_b", "a" * 65, ".", "a\0"])
def test_what_is_no_slug(slug: str) -> None:
    assert not is_slug(slug)


def test_knowledge_lies_beside_memory() -> None:
    assert path_of(RecordKind.KNOWLEDGE, "a") == "knowledge/a.md"
    assert path_of(RecordKind.LESSON, "a") == "memory/lesson/a.md"


def test_a_hash_is_that_of_the_file() -> None:
    assert sha256("日本") == sha256("日本".encode()) == hashlib.sha256(b"\xe6\x97\xa5\xe6\x9c\xac").hexdigest()


def test_all_problems_are_told_at_once_in_the_order_of_lines() -> None:
    text = text_of(status="actve", scope="everyone", trust=None, updated_at="yesterday", pinned="yes")

    with pytest.raises(BadRecord) as caught:
        parse(RecordKind.DECISION, "a", text)

    assert [(str(problem.rule), problem.line) for problem in caught.value.problems] == [
        ("L205", 1),
        ("L206", 4),
        ("L206", 5),
        ("L207", 7),
        ("L206", 8),
    ]
