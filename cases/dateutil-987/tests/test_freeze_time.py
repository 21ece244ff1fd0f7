"""What somebody sees who freezes the time at a date that is none.

freezegun hands the text to dateutil's parser, whose documented error is ParserError, a ValueError.
"""

import datetime

import freezegun
import pytest
from dateutil.parser import ParserError


@pytest.mark.parametrize(
    "text", [pytest.param("2013-00", id="month-0"), pytest.param("13/2020", id="month-13")]
)
def test_month_that_does_not_exist(text):
    with pytest.raises(ParserError, match=f"bad month number .*: {text}$"):
        freezegun.freeze_time(text)


def test_day_that_does_not_exist():
    with pytest.raises(ParserError, match=r"^day is out of range for month: Feb 30 2021$"):
        freezegun.freeze_time("Feb 30 2021")


def test_month_that_exists():
    with freezegun.freeze_time("2013-01-14"):
        assert datetime.date.today() == datetime.date(2013, 1, 14)
