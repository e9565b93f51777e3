"""What day it is, for whoever removes what is too old: the clock's word, unless what is kept itself says otherwise.

What must stay true: a clock that leaps ahead deletes nothing. A leap shows as records on a day or two, with no records on
the days before them; the sweep goes by such days only once there are three of them in a row. A bot that rests for longer
than that is swept a little later, never too early. Records of days to come move nothing and hinder nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

CONFIRMED_DAYS = 3  # in a row; nobody leaves a bot's clock wrong for so long
LOOKED_AT = CONFIRMED_DAYS + 1  # of the newest days with records, whoever has them in order needs no more
_DAY = timedelta(days=1)


def present_day(recorded: Iterable[date], today: date) -> date:
    """`recorded`: days with records, at least the newest LOOKED_AT of them; `today` by the clock. Both in UTC."""
    days = sorted({day for day in recorded if day <= today}, reverse=True)
    newest = next((place for place in range(1, len(days)) if days[place - 1] - days[place] > _DAY), len(days))
    if newest >= min(CONFIRMED_DAYS, len(days)):
        return min(today, days[0] + _DAY) if days else today
    return days[newest]
