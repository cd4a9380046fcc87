"""Schedules of tasks that repeat: iCalendar rules in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.errors import InvalidInput
from memory.model.schedule import checked_schedule


@pytest.mark.parametrize(
    ("given_rule", "stored"),
    [
        ("FREQ=DAILY", "FREQ=DAILY"),
        ("RRULE:freq=weekly; byday=mo,th", "FREQ=WEEKLY;BYDAY=MO,TH"),
        ("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3;", "FREQ=MONTHLY;BYDAY=-1FR;COUNT=3"),
        ("FREQ=YEARLY;UNTIL=20300101T000000Z", "FREQ=YEARLY;UNTIL=20300101T000000Z"),
        ("FREQ=YEARLY;UNTIL=20300101", "FREQ=YEARLY;UNTIL=20300101"),
        ("FREQ=MONTHLY;BYMONTHDAY=30;BYMONTH=2", "FREQ=MONTHLY;BYMONTHDAY=30;BYMONTH=2"),
    ],
)
def test_rules(given_rule: str, stored: str) -> None:
    assert checked_schedule(given_rule) == stored
    assert checked_schedule(stored) == stored


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "every Monday",
        "FREQ=SOMETIMES",
        "FREQ=DAILY;COLOUR=RED",
        "FREQ=DAILY;INTERVAL=X",
        "FREQ=WEEKLY;BYDAY=XX",
        "BYDAY=MO",
        "FREQ=DAILY\nDTSTART:20260101T000000Z",
        "FREQ=DAILY;UNTIL=never",
        "FREQ=DAILY;BYHOUR=" + ",".join(["1"] * 300),
    ],
)
def test_what_is_no_rule(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="schedule"):
        checked_schedule(wrong)


@given(st.text(alphabet="FREQ=DAILYWKMONTH;,:-+0123456789UBSZ \n", max_size=60))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        stored = checked_schedule(text)
    except InvalidInput:
        return
    assert checked_schedule(stored) == stored
