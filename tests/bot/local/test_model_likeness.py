"""How two sentences stand to each other, by what they say and by the values that they give."""

from __future__ import annotations

import pytest

from bot.local.model_likeness import Likeness, denies, likeness, values

L = Likeness
FREEZE = "The deploy freeze starts on Friday at 15:00."
凍結 = "デプロイ凍結は金曜日の15時に始まります。"
MONDAYS = "We decided: release branches are cut on Mondays."


@pytest.mark.parametrize(
    ("like", "now", "before"),
    [
        (L.SAME, " the deploy freeze starts on friday at 15:00", FREEZE),
        (L.COVERED, "Please note that the deploy freeze starts Friday 15:00.", FREEZE),
        (L.COVERED, "The deploy freeze starts on Friday.", FREEZE),
        (L.COVERED, "金曜日の15時からデプロイを凍結します。", 凍結),
        (L.COVERED, "Release branches are cut on Mondays, we agreed on that.", MONDAYS),
        (L.COVERED, "SLO is short for service level objective.", "SLO stands for service level objective."),
        (L.AGAINST, "The deploy freeze starts on Thursday at 17:00.", FREEZE),
        (L.AGAINST, "The deploy freeze now starts on Thursday at 17:00, not on Friday.", FREEZE),
        (L.AGAINST, "デプロイ凍結は木曜日の17時に始まることになりました。", 凍結),
        (L.AGAINST, "We decided not to cut release branches on Mondays.", MONDAYS),
        (L.AGAINST, "予算の上限は400万円に決まりました。", "予算の上限は300万円です。"),
        (L.AGAINST, "The freeze starts on 5 November.", "The freeze starts on 3 November."),
        (L.AGAINST, "We decided to ship on Monday.", "We decided to ship on Friday."),
        (L.AGAINST, "リリースは月曜日に変更しました。", "リリースは金曜日に決まりました。"),
        (L.AGAINST, "The limit is 5.1 GB a day.", "The limit is 4.2 GB a day."),
        (L.MORE, "Release branches are cut on Mondays by Lena.", MONDAYS),
        (L.MORE, "予算の上限は300万円で、承認は田中部長です。", "予算の上限は300万円です。"),
        (L.COVERED, "Release branches are cut on Mondays.", "We decided: release branches are cut on Monday."),
        (L.OTHER, "On Monday.", "On Friday."),
        (L.OTHER, "Lunch is on Thursday at 12:00.", FREEZE),
        (L.OTHER, "会場の収容人数は300人です。", "予算の上限は300万円です。"),
    ],
)
def test_what_is_said_now_stands_so_to_what_was_said_before(like: Likeness, now: str, before: str) -> None:
    assert likeness(now, before) is like


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ("kestrel-13 has 128 GB.", "kestrel-12 has 64 GB."),
        ("4.3 goes out on Thursday.", "4.2 goes out on Tuesday."),
        ("Bob's standup is at 11:00.", "Alice's standup is at 10:00."),
        ("Rent is 1,400 dollars a month for flat #14.", "Rent is 1,200 dollars a month for flat #12."),
        ("The crew has supper at 18:00 in the canteen.", "The crew has lunch at 12:00 in the canteen."),
        ("Team B meets on Monday at 11:00.", "Team A meets on Monday at 10:00."),
        ("会議室Bの定例は火曜の11時です。", "会議室Aの定例は月曜の10時です。"),
        ("打ち上げは3月5日です。", "打ち合わせは3月4日です。"),
        ("出荷は月曜日に決まりました。", "リリースは金曜日に決まりました。"),
        ("ボブさんの定例は11時です。", "アリスさんの定例は10時です。"),
        ("SLA stands for service level agreement.", "SLO stands for service level objective."),
    ],
)
def test_what_is_said_of_another_thing_contradicts_nothing(now: str, before: str) -> None:
    assert likeness(now, before) is L.OTHER


def test_a_value_has_one_writing_and_the_number_in_a_name_is_none() -> None:
    assert values("On Fridays and on FRIDAY at １５：００") == {"friday", "15:00"}
    assert values("金曜日の15時、金曜の300万円") == {"金曜", "15時", "300万円"}
    assert values("kestrel-12 runs 4.2, see #118 and v7") == frozenset()


@pytest.mark.parametrize("text", ["We do not ship.", "We don't ship.", "本番では使いません。", "アクセスは禁止です。"])
def test_a_sentence_that_denies_is_known(text: str) -> None:
    assert denies(text)


@pytest.mark.parametrize("text", ["We ship a note.", "必ず確認しなければなりません。", "確認しないといけない。"])
def test_a_sentence_that_demands_denies_nothing(text: str) -> None:
    assert not denies(text)
