"""The opening content of the embedded workspace: who is there, and what they said a month ago and more.

Ages are relative to the first start, and dates in the texts follow the age of their thread, on working days and in
office hours, so that the first thing a person sees makes sense on any day of the year.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.local import slack_richtext
from bot.local.slack_files import file_object
from bot.local.slack_records import (
    APP_ID,
    BOT_ID,
    BOT_USER_ID,
    TEAM_ID,
    Conversation,
    Json,
    Person,
    conversation_record,
    person_record,
)
from bot.local.slack_seed_threads import THREADS, Line, SeedThread
from bot.messages import ChannelKind

PEOPLE = (
    Person(id="U0MIKA", name="mika", display_name="Mika", real_name="Mika Sato", default=True),
    Person(id="U0TOM", name="tom", display_name="Tom", real_name="Tom Okafor"),
    Person(id="U0LENA", name="lena", display_name="Lena", real_name="Lena Fischer"),
    Person(id="U0PRIYA", name="priya", display_name="Priya", real_name="Priya Nair"),
    Person(id="U0YUKI", name="yuki", display_name="由紀", real_name="小林 由紀"),
    Person(id="U0HARU", name="haruto", display_name="陽斗", real_name="山本 陽斗"),
    Person(id="U0LIGHT", name="lighthouse", display_name="Lighthouse", real_name="Lighthouse Alerts", bot_id="B0LIGHT"),
    Person(id=BOT_USER_ID, name="insomnia", display_name="Insomnia", real_name="Insomnia", bot_id=BOT_ID),
)
EVERYBODY = tuple(p.id for p in PEOPLE)
CONVERSATIONS = (
    Conversation(
        id="C0GENERAL", name="general", kind=ChannelKind.PUBLIC, members=EVERYBODY, topic="Everything that concerns all of us", default=True
    ),
    Conversation(id="C0RELEASE", name="release", kind=ChannelKind.PUBLIC, members=EVERYBODY, topic="Releases, incidents, machines"),
    Conversation(id="C0NIHONGO", name="日本語", kind=ChannelKind.PUBLIC, members=EVERYBODY, topic="日本語の雑談と相談"),
    Conversation(
        id="G0HIRING", name="hiring", kind=ChannelKind.PRIVATE, members=("U0MIKA", "U0LENA", BOT_USER_ID), topic="Confidential: candidates"
    ),
    Conversation(id="D0MIKA", name="@mika", kind=ChannelKind.DIRECT, members=("U0MIKA", BOT_USER_ID)),
)
WEEKDAYS_JA = "月火水木金土日"


@dataclass(frozen=True, slots=True)
class Day:
    """A date in a text, so many days after the thread began: `{day:en+5}` or `{day:ja+5}`."""

    date: datetime

    def __format__(self, spec: str) -> str:
        day = self.date + timedelta(days=int(spec[2:] or 0))
        if spec[:2] == "ja":
            return f"{day.month}月{day.day}日({WEEKDAYS_JA[day.weekday()]})"
        return f"{day:%A} {day.day} {day:%B}"


def people_and_channels(now: float) -> Iterator[Json]:
    yield from (person_record(p) for p in PEOPLE)
    for conversation in CONVERSATIONS:
        record = conversation_record(conversation)
        record["conversation"]["created"] = int(now) - 400 * 86_400
        yield record


def opening(now: float) -> Iterator[Json]:
    """All records of a new workspace."""
    yield from people_and_channels(now)
    for number, thread in enumerate(THREADS):
        yield from _thread(thread, number=number, now=now)


def _thread(thread: SeedThread, *, number: int, now: float) -> Iterator[Json]:
    begin = _office_day(datetime.fromtimestamp(now).astimezone() - timedelta(days=thread.days_ago), thread.at)
    root = ""
    for line_number, line in enumerate(thread.lines):
        at = begin + timedelta(minutes=line.minutes)
        ts = f"{int(at.timestamp()):010d}.{number * 1_000 + line_number * 37 + 119:06d}"
        message = _message(line, ts=ts, text=line.text.format(day=Day(begin), bot=f"<@{BOT_USER_ID}>"))
        yield {"kind": "message", "channel": thread.channel, "message": message | ({"thread_ts": root} if root else {})}
        root = root or ts


def _office_day(day: datetime, at: str) -> datetime:
    """That day, or the Tuesday before it: the offsets in the texts then fall on working days."""
    hour, minute = map(int, at.split(":"))
    day -= timedelta(days=max(0, day.weekday() - 1))
    return day.replace(hour=hour, minute=minute, second=11, microsecond=0)


def _message(line: Line, *, ts: str, text: str) -> Json:
    person = next(p for p in PEOPLE if p.name == line.user)
    base: dict[str, Any] = {"type": "message", "user": person.id, "text": text, "ts": ts, "team": TEAM_ID}
    if person.id == BOT_USER_ID:
        return base | {"bot_id": BOT_ID, "app_id": APP_ID}
    if person.is_bot:
        alert = {"subtype": "bot_message", "bot_id": person.bot_id, "username": person.display_name}
        return {k: v for k, v in base.items() if k != "user"} | alert | {"attachments": list(line.attachments), "blocks": list(line.blocks)}
    files = {"files": [file_object(f, user=person.id, created=int(float(ts))) for f in line.files], "subtype": "file_share"}
    return base | {"client_msg_id": f"seed-{ts}", "blocks": slack_richtext.blocks(text)} | (files if line.files else {})
