"""Every fault of the embedded workspace, in every moment of a reply: what comes of it stands in a table, and the whole bot is asked.

Each cell asks in a thread of its own that the bot has to read (three pages), lets the fault happen in that moment, and asks
once more. Whatever happens: nothing stands outside of its thread, no part of an answer stands twice, each question has one
end, the second question is answered, and what others said meanwhile is in its prompt. A fault that is added to the embedded
workspace gets its row here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.local.slack_faults import FaultKind, Faults
from bot.local.slack_threads import answer_parts
from tests.integration.story import Answer, Story, story

pytestmark = [pytest.mark.cli, pytest.mark.slack]
HELD_SECONDS = 0.4  # how long a moment lasts, so that a fault can happen in it
MESSAGES, PAGE = 20, 8
LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 150 for number in range(10))  # two posts
IDLE, MID_TURN, MID_FETCH, MID_POST = MOMENTS = ("idle", "mid-turn", "mid-fetch", "mid-post")

# What came of the question · how the next one in the same thread found the thread.
#   whole: the thread was read and the answer stands there   apologised: a line says that it could not be given
#   partly: so it was, and says what is missing              unsure: nobody knows whether it was taken; it is not repeated
#   unread: answered, and says that it could not be read     nothing: there is no thread to answer in
WHOLE = "whole · known held"
DELTA = "whole · known held_delta"
GAP = "whole · refetched delivery_gap"
Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class Fault:
    """`begins` in the moment. One that lasts `ends` once the first question has its end, after others have spoken; one that
    comes while nothing is asked has gone before the question. `deaf`: what is said while it lasts is lost."""

    row: Row
    begins: Callable[[Cell], None]
    ends: Callable[[Cell], None] | None = None
    deaf: bool = False


class Cell:
    def __init__(self, told: Story, moment: str, name: str) -> None:
        self.told, self.moment, self.name = told, moment, name
        self.place = told.old_thread(f"The code of {name} is walnut.", *(f"{name}, remark {n}" for n in range(MESSAGES - 1)))

    @property
    def faults(self) -> Any:
        return self.told.slack.faults

    @property
    def next_method(self) -> str:
        return "conversations.replies" if self.moment in (IDLE, MID_FETCH) else "chat.postMessage"

    async def run(self, fault: Fault) -> str:
        self._prepare()
        if self.moment == IDLE:
            fault.begins(self)
            await self._lasts(fault)
        first = self._say("What is the code?")
        if self.moment != IDLE:
            await self._moment()
            fault.begins(self)
        await self._ended(1)
        came = self._what_came_of(first)
        answer = await self._once_more(fault)
        await self._ended(2)
        self._check(answer)
        self.faults.clear()
        self.told.model.script.clear()
        return f"{came} · {' '.join(answer.decided[:2])}"

    async def _lasts(self, fault: Fault) -> None:
        if fault.ends:
            await asyncio.sleep(HELD_SECONDS)
            fault.ends(self)

    async def _once_more(self, fault: Fault) -> Answer:
        remark = f"By the way, {self.name}."
        if fault.ends is None or self.moment == IDLE:
            return await self.told.answer_to("general", self._say("And once more?"))
        self.told.slack.say("general", "lena", remark, thread_ts=self.place.ts)
        second = "" if fault.deaf else self._say("And once more?")
        await self._lasts(fault)
        answer = await self.told.answer_to("general", second or self._say("And once more?"))
        assert self.told.prompts()[-1].newest_user_text.count(remark) == 1, "what was said meanwhile is not in the prompt"
        return answer

    def _prepare(self) -> None:
        self.ends_before = len(self.told.ended())
        self.requests = self.told.last_request()
        self.faults.add("conversations.replies", "page_size", size=PAGE)
        script = self.told.model.script
        match self.moment:
            case "mid-turn":
                script.slow(HELD_SECONDS, match="What is the code?")
            case "mid-fetch":
                self.held = self.faults.add("conversations.replies", "slow", seconds=HELD_SECONDS)
            case "mid-post":
                script.say(LONG, match="What is the code?")
                self.held = self.faults.add("chat.postMessage", "slow", seconds=HELD_SECONDS)

    async def _moment(self) -> None:
        if self.moment == MID_TURN:
            await self.told.until(lambda: bool(self.told.prompts(self.requests)))
        else:
            await self.told.until(lambda: self.held not in self.faults._faults)

    def _say(self, text: str) -> str:
        said = self.told.slack.say("general", "tom", f"{text} ({self.name})", thread_ts=self.place.ts, mention=True)
        return str(said["ts"])

    async def _ended(self, count: int) -> None:
        await self.told.until(lambda: len(self.told.ended()) >= self.ends_before + count)

    def _what_came_of(self, ts: str) -> str:
        channel = self.told.slack.workspace.conversation("general").id
        parts = answer_parts(self.told.slack.workspace.store.messages(channel, after=ts), message=self.told.id_of("general", ts))
        outcome = self.told.ended()[self.ends_before][0]
        assert [p["metadata"]["event_payload"]["part"] for p in parts] == list(range(1, len(parts) + 1)), "a part stands twice, or lacks"
        if not parts or outcome != parts[0]["metadata"]["event_payload"]["outcome"]:
            return "unsure" if parts else "nothing"
        if outcome == "failed":
            return "apologised"
        text = "".join(part["text"] for part in parts)
        if "I could not read this thread" in text:
            return "unread"
        return "partly" if "I could read this thread only in part" in text else "whole"

    def _check(self, answer: Answer) -> None:
        assert answer.outcome == "answered"
        store = self.told.slack.workspace.store
        channel = self.told.slack.workspace.conversation("general").id
        strays = [m for m in store.timeline(channel) if m.get("user") == self.told.slack.bot_user_id and "thread_ts" not in m]
        assert strays == [], "something of the bot stands outside of its thread"
        assert len(self.told.ended()) == self.ends_before + 2


MET: set[str] = set()  # what the tables below use of the faults


def _web(kind: str, **options: Any) -> Callable[[Cell], None]:
    MET.add(kind)
    return lambda cell: cell.faults.add(cell.next_method, kind, **options)


def _set(name: str, value: object) -> Callable[[Cell], None]:
    MET.add(name)
    return lambda cell: setattr(cell.faults if hasattr(cell.faults, name) else cell.faults.script, name, value)


def _do(name: str, *arguments: object) -> Callable[[Cell], None]:
    MET.add(name)
    return lambda cell: getattr(cell.faults, name)(*arguments)


def _sold(cell: Cell) -> None:
    cell.faults.add("conversations.replies", "distributed", size=PAGE)


def _reading(unread: str, partly: str, *, posting: str) -> Row:
    return (unread, posting, partly, posting)


def _everywhere(row: str) -> Row:
    return (row, row, row, row)


# Of the Web API: the next page, or the next post, once the moment has come. Of sockets: what costs no event.
#                             idle · mid-turn · mid-fetch · mid-post
PASSING = {
    "ratelimited": Fault(_everywhere(WHOLE), _web("ratelimited", retry_after=1)),
    "ratelimited, as a success": Fault(_everywhere(WHOLE), _web("ratelimited_200")),
    "http_500": Fault(_everywhere(WHOLE), _web("http_500")),
    "http_502": Fault(_everywhere(WHOLE), _web("http_502")),
    "slow": Fault(_everywhere(WHOLE), _web("slow", seconds=0.5)),
    "error": Fault(_everywhere(WHOLE), _web("error")),
    "missing_scope": Fault(
        _reading("unread · refetched not_known", "partly · refetch_failed missing_scope", posting="apologised · known held"),
        _web("missing_scope"),
    ),
    "smaller pages": Fault(_everywhere(WHOLE), _web("page_size", size=3)),
    "the thread is gone": Fault(
        _reading("unread · refetched not_known", "partly · refetch_failed thread_gone", posting="nothing · known held"), _web("thread_gone")
    ),
    "answer lost": Fault(_everywhere(WHOLE), _web("lost")),
    "the root on every page": Fault(_everywhere(WHOLE), _set("root_on_every_page", True)),
    "message first": Fault(_everywhere(WHOLE), _set("mention_first", "message")),
    "app_mention first": Fault(_everywhere(WHOLE), _set("mention_first", "app_mention")),
    "refresh": Fault(_everywhere(WHOLE), _do("disconnect", "refresh_requested")),
    "warning": Fault(_everywhere(WHOLE), _do("disconnect", "warning")),
    "another connection": Fault(_everywhere(WHOLE), _do("connect_another")),
    "events held back": Fault((WHOLE, *[DELTA] * 3), _do("withhold"), _do("release")),
}
# Connections that are lost: the library takes seconds to notice. A question that waited for the next one is older than the
# doubt, so its reading does not end it.
LOST = {
    "cut": Fault(_everywhere(GAP), _do("drop_sockets"), lambda cell: None),
    "down for a while": Fault(_everywhere(GAP), _do("socket_down"), _do("socket_up")),
    "deaf, then cut": Fault(_everywhere(GAP), _do("deafen"), _do("drop_sockets")),
}
# What concerns everything for a minute, so that each needs a bot of its own. No reading within that minute ends the doubt.
LIMITED = {"too many events": Fault(_everywhere(GAP), _do("limit_events"), _do("free_events"), deaf=True)}
SOLD = {
    "an app that is sold": Fault(
        _reading("partly · refetch_failed rate_limited", "partly · refetch_failed rate_limited", posting=WHOLE),
        _sold,
    )
}


async def _column(folder: Path, moment: str, faults: dict[str, Fault]) -> dict[str, str]:
    folder.mkdir()
    async with story(folder) as told:
        await told.start()
        await told.ask(told.old_thread("Hello."), "Warming up.")
        await told.until(lambda: len(told.ended()) == 1)
        return {name: await Cell(told, moment, name).run(fault) for name, fault in faults.items()}


@pytest.mark.parametrize("faults", [PASSING, LOST, LIMITED, SOLD], ids=["passing", "lost", "limited", "sold"])
async def test_each_fault_in_each_moment_ends_as_the_table_says(faults: dict[str, Fault], tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as bots:
        columns = [bots.create_task(_column(tmp_path / moment, moment, faults)) for moment in MOMENTS]

    rows = {name: tuple(column.result()[name] for column in columns) for name in faults}
    assert rows == {name: fault.row for name, fault in faults.items()}


def test_every_fault_of_the_embedded_workspace_has_its_row() -> None:
    acts = {name for name in vars(Faults) if not name.startswith("_")} - {"add", "clear", "take", "page_size"}

    assert {kind.value for kind in FaultKind} - MET == {"distributed"}  # `_sold`
    assert acts - MET == set()
