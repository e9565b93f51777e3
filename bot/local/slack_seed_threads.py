"""The texts of the opening content. `{day:en+5}` is the date five days after the thread began; `{bot}` mentions the bot.
Offsets suit a thread that begins on a Monday or a Tuesday (`slack_seed` sees to that).

Each thread holds facts that somebody could ask about a month later: a reason, a name, a number, a date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """One message; `minutes` after the thread began."""

    user: str
    minutes: int
    text: str
    attachments: tuple[dict[str, Any], ...] = ()
    blocks: tuple[dict[str, Any], ...] = ()
    files: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SeedThread:
    channel: str
    days_ago: int
    at: str
    lines: tuple[Line, ...]


_ALERT = {
    "color": "#d72b3f",
    "fallback": "Disk latency high on kestrel-07",
    "title": "Disk latency high on kestrel-07",
    "text": "p99 write latency 840 ms, threshold 200 ms, during the nightly backup",
    "fields": [
        {"title": "Rack", "value": "B-04", "short": True},
        {"title": "Volume", "value": "/data/ledger", "short": True},
    ],
    "footer": "Lighthouse",
}
_ALERT_BLOCKS = (
    {"type": "header", "text": {"type": "plain_text", "text": "Lighthouse: storage"}},
    {"type": "section", "text": {"type": "mrkdwn", "text": "*Firing* for 12 minutes. Third night in a row."}},
)
_FLOOR_PLAN = {"name": "floor-plan-v3.pdf", "title": "Floor plan v3", "mimetype": "application/pdf", "size": 348_112}

# What a newcomer may ask, and the first words of the thread that knows.
OPENING_QUESTION = ("Why does 4.2 not go out on Thursday, and what is the new date?", "Heads-up: 4.2 does not go out")

THREADS = (
    SeedThread(
        "C0NIHONGO",
        52,
        "10:20",
        (
            Line("yuki", 0, "検証用サーバーの見積もりが届きました。3台で税込1,284,000円です。"),
            Line("haruto", 6, "思ったより高いですね。今期の予算はあといくら残っていますか？"),
            Line("yuki", 9, "残りは95万円です。3台だと足りません。"),
            Line("haruto", 31, "2台に減らして、メモリを128GBから64GBにすると税込782,000円になります。負荷試験にはこれで十分です。"),
            Line("mika", 34, "賛成です。足りなくなったら来期に1台足しましょう。"),
            Line("yuki", 50, "では2台で申請します。稟議番号は R-0417 です。納品は{day:ja+28}の予定、設置場所は3階のラックB-12です。"),
        ),
    ),
    SeedThread(
        "C0RELEASE",
        47,
        "09:05",
        (
            Line(
                "haruto",
                0,
                "昨夜の決済エラーのふりかえりです。22:41から22:59までの18分間、312件の支払いが失敗しました。二重請求はありません。",
            ),
            Line("tom", 8, "Thanks. Short version for the rest of us: 18 minutes, 312 failed payments, nobody charged twice?"),
            Line("haruto", 10, "はい、その通りです。312件は今朝8時までにすべて再送しました。"),
            Line(
                "priya",
                42,
                "Root cause: since the 4.1 upgrade the connection pool was capped at 40, before that it was 120. "
                "I have set it back and added an alert at 80 % use.",
            ),
            Line("lena", 55, "Good catch. Follow-up for Tom: put the pool size into the upgrade checklist, page 2. Due {day:en+3}."),
        ),
    ),
    SeedThread(
        "C0GENERAL",
        43,
        "14:10",
        (
            Line("priya", 0, "The new floor plan. We get the corner with the balcony: desks 31 to 38.", files=(_FLOOR_PLAN,)),
            Line("tom", 3, "Lovely. When do we move?"),
            Line("priya", 7, "On {day:en+23}. Boxes have to be packed by 16:00 the day before; labels are blue for our team."),
            Line("mika", 12, "What about the big ficus?"),
            Line("priya", 15, "It goes to the kitchen, Lena waters it. And the printer stays on floor 2: it is called Gutenberg now."),
            Line("lena", 21, "I water it on Mondays, 200 ml, no more. It has survived three offices."),
        ),
    ),
    SeedThread(
        "G0HIRING",
        40,
        "11:30",
        (
            Line("lena", 0, "After round two for the SRE role: two candidates left, the one from Lisbon and the one from Sapporo."),
            Line(
                "mika", 14, "My vote is Lisbon. The best post-mortem I have read in years, and she asked about our on-call before we did."
            ),
            Line(
                "lena",
                19,
                "Agreed. The offer goes out on {day:en+3}, level 4, start on the first of the month after next. Please keep it in here.",
            ),
        ),
    ),
    SeedThread(
        "C0RELEASE",
        38,
        "08:26",
        (
            Line("lighthouse", 0, "", attachments=(_ALERT,), blocks=_ALERT_BLOCKS),
            Line("tom", 35, "It is always kestrel-07, never 06 or 08."),
            Line(
                "priya",
                61,
                "Looked at it: slot 3, the NVMe whose serial ends in 4C19, reports 1,204 media errors. The other disks have none.",
            ),
            Line(
                "tom",
                512,
                "Swapped for a spare at 14:40; the rebuild took 2 h 10 min. The old disk is in the drawer with the orange sticker.",
            ),
            Line("priya", 520, "If it comes back, suspect the riser card, not the disk. Vendor ticket is HW-2291."),
        ),
    ),
    SeedThread(
        "C0NIHONGO",
        36,
        "12:40",
        (
            Line("yuki", 0, "チームの食事会、{day:ja+16}の19時でどうでしょう。お店の希望はありますか？"),
            Line("haruto", 5, "駅前の「鳥よし」か、川沿いの「みなと食堂」はどうですか。みなと食堂は個室が10名まで入ります。"),
            Line("mika", 9, "Lenaさんがえび・かにのアレルギーなので、だしを相談できるお店がいいです。"),
            Line("yuki", 33, "みなと食堂に電話しました。えびを使わないだしに変えてもらえます。コースは一人5,800円、飲み放題込みです。"),
            Line("haruto", 36, "では「みなと食堂」で決まりですね。何名で予約しますか？"),
            Line("yuki", 41, "9名で予約しました。名前は小林、キャンセルは3日前まで無料です。"),
        ),
    ),
    SeedThread(
        "D0MIKA",
        35,
        "16:45",
        (
            Line("mika", 0, "Please keep this for me: my one-to-one with Lena moved to Wednesdays at 15:30, room Heron."),
            Line("insomnia", 1, "Noted: one-to-one with Lena, Wednesdays at 15:30, room Heron."),
        ),
    ),
    SeedThread(
        "C0RELEASE",
        33,
        "10:12",
        (
            Line("lena", 0, "Heads-up: 4.2 does not go out on {day:en+2}. The new date is {day:en+7}, 10:00 UTC."),
            Line("tom", 2, "What happened?"),
            Line(
                "lena",
                7,
                "Priya's rehearsal showed that the migration of the `invoices` table takes 47 minutes on our biggest customer, Norrsken. "
                "Our window is 30.",
            ),
            Line(
                "priya",
                11,
                "It is the index rebuild. If we build the index concurrently the evening before, the migration is down to 6 minutes. "
                "I tried it twice on the staging copy.",
            ),
            Line("tom", 16, "Then let's do it that way: index on the evening before, release the next morning. I will tell Norrsken."),
            Line(
                "lena",
                24,
                "Decided. For the record: we moved because of the 47-minute migration, not because of the login bug, that one is fixed. "
                "Priya owns the rollback, I write the customer mail.",
            ),
        ),
    ),
    SeedThread(
        "C0GENERAL",
        31,
        "13:15",
        (
            Line(
                "lena",
                0,
                "Support over the quiet weeks: two shifts a day, 08:00 to 14:00 and 14:00 to 20:00. "
                "The hard part is {day:en+21} to {day:en+24}. Who takes what?",
            ),
            Line("tom", 4, "I take all the mornings."),
            Line("haruto", 9, "Afternoons are fine for me, except {day:en+22}: my sister gets married in Nagano."),
            Line("mika", 26, "{bot} can you put together who has which shift?"),
            Line(
                "insomnia",
                27,
                "Here is what I have for {day:en+21} to {day:en+24}:\n• mornings, 08:00 to 14:00: Tom\n• afternoons, 14:00 to 20:00: 陽斗, "
                "except {day:en+22}\nNobody has the afternoon of {day:en+22} yet.",
            ),
            Line("priya", 40, "I take that afternoon. The support phone is the grey one, PIN is on the card in the case."),
            Line("lena", 44, "Thank you all. Tom, Haruto, Priya it is. Anything urgent goes to me first."),
        ),
    ),
)
