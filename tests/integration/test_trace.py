"""One trace a reply, as an OTLP receiver gets it: complete, without orphans, compared whole; and counters that tell the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.story import story
from tests.integration.traces import CHAT, REPLY, ROOT, asked, chat, gate, inject, orphans, refetch, reset, root, span, start, told_of, tool

pytestmark = [pytest.mark.cli, pytest.mark.slack]

VAULT = ("The vault code is walnut-4711.", "And the alarm is off between two and three.")
ID = re.compile(r"\d{10}\.\d{6}|[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{16}|\b[CDGTU]0[A-Z0-9]{4,}")


async def test_an_old_thread_that_is_read_again(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread(*VAULT)
        await told.start()

        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        assert told_of(told.collector.spans, answer) == root(
            start("fresh"),
            gate("refetched", "no_session", refetch(2), epoch=1, known=0),
            inject("full", "no_session", 2),
            asked(CHAT),
            REPLY,
            decision="refetched",
            reason="no_session",
        )


async def test_a_known_thread_in_which_others_went_on(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")

        told.slack.say("general", "lena", "It is fig-2 now.", thread_ts=vault.ts)
        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        assert told_of(told.collector.spans, answer) == root(
            gate("known", "held_delta", epoch=1, known=1),
            inject("delta", "held_delta", 1),
            asked(CHAT),
            REPLY,
            decision="known",
            reason="held_delta",
        )


async def test_a_compaction_in_a_tool_loop_asks_again_under_the_same_root(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")
        await told.ask(vault, "And the alarm?")

        told.model.script.tool("no_such_tool", {}, usage=90_000)
        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        assert told_of(told.collector.spans, answer) == root(
            gate("known", "held", epoch=1, known=1),
            asked(
                chat("tool_use"),
                tool("no_such_tool", error="tool_error"),
                CHAT,
                reset("compaction_auto", "none", forgotten=1, epoch=2),
                compacted=True,
            ),
            gate("refetched", "after_compaction", refetch(6), epoch=2, known=0),
            inject("full", "after_compaction", 6),
            asked(CHAT),
            REPLY,
            decision="refetched",
            reason="after_compaction",
        )


async def test_a_thread_that_could_not_be_read(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault, other = told.old_thread(*VAULT), told.old_thread("Lunch is at noon.")
        await told.start()
        await told.ask(other, "When is lunch?")

        told.slack.faults.add("conversations.replies", "missing_scope")
        answer = await told.ask(vault, "What is the vault code?")
        await told.stop()

        failed = span(
            "thread.refetch",
            refetch__outcome="failed",
            refetch__pages=0,
            refetch__messages=0,
            refetch__truncated=False,
            error="missing_scope",
        )
        assert told_of(told.collector.spans, answer) == root(
            gate("refetch_failed", "missing_scope", failed, epoch=1, known=1),
            asked(chat("tool_use"), tool("memory_query", memory__op__status="not_found"), CHAT),
            REPLY,
            decision="refetch_failed",
            reason="missing_scope",
        )


async def test_traces_are_whole_and_the_counters_tell_what_happened(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        places = [told.old_thread(*VAULT), told.old_thread("Lunch is at noon."), told.old_thread("船は三時に出ます。", channel="日本語")]
        await told.start()

        answers = [await told.ask(place, "What do we know?") for place in places]
        told.slack.say("general", "lena", "Not any more.", thread_ts=places[0].ts)
        told.model.script.usage(90_000)
        answers += [await told.ask(place, "And now?") for place in places]
        told.model.script.usage(160_000)
        answers += [await told.ask(place, "And then?") for place in places]
        told.slack.faults.add("conversations.replies", "missing_scope", where={"channel": "C0GENERAL"})
        answers += [await told.ask(places[0], "reread And at last?")]
        await told.stop()

        spans = told.collector.spans
        assert orphans(spans) == []
        assert Counter(one["name"] for one in spans if not one["parent_id"])[ROOT] == len(answers)
        assert {one["trace_id"] for one in spans if one["name"] == ROOT} == {answer.trace_id for answer in answers}
        injected = Counter(one["attributes"]["insomnia.gate.reason"] for one in spans if one["name"] == "thread.inject")
        assert told.counted("insomnia.gate.decisions", "decision", "reason") == {
            **Counter(answer.decided[:2] for answer in answers),
            **{("injected", reason): count for reason, count in injected.items()},
        }
        causes = Counter(cause for cause, _ in told.resets())
        assert causes == {"compaction_auto": 1, "rotate_tokens": 1, "forget_manual": 1}
        assert told.counted("insomnia.session.resets", "cause") == {(cause,): count for cause, count in causes.items()}
        assert told.counted("insomnia.gate.asked_again", "cause") == {("compaction_auto",): 1}
        assert told.counted("insomnia.messages", "outcome")[("answered",)] == len(answers)


async def test_no_id_is_in_a_metric_label(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        vault = told.old_thread(*VAULT)
        await told.start()
        await told.ask(vault, "What is the vault code?")
        told.model.script.error(403)
        await told.ask(vault, "What is the vault code?")
        await told.ask(vault, "reread What is the vault code?", user="lena")
        await told.stop()

        ours = [point for point in told.collector.metrics() if point["name"].startswith(("insomnia.", "gen_ai."))]
        labels = {f"{key}={value}" for point in ours for key, value in point["attributes"].items()}
        assert len(labels) > 50
        assert [label for label in sorted(labels) if ID.search(label)] == []
