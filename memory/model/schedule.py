"""The schedule of a task that repeats: an iCalendar RRULE, in one form."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dateutil.rrule import rrulestr

from memory.model.errors import InvalidInput

MAX_SCHEDULE_CHARS = 500

_PARTS = re.compile(r"[A-Z]+=[A-Z0-9,+:/-]+(?:;[A-Z]+=[A-Z0-9,+:/-]+)*")
_UNTIL = re.compile(r"(?:^|;)UNTIL=([0-9TZ]+)(?:;|$)")


def checked_schedule(text: str) -> str:
    """The rule in capitals, without the prefix ``RRULE:``. Raises InvalidInput for what is not a rule."""
    rule = "".join(text.split()).upper().removeprefix("RRULE:").rstrip(";")
    if len(rule) > MAX_SCHEDULE_CHARS:
        raise InvalidInput(f"the schedule has {len(rule)} characters; at most {MAX_SCHEDULE_CHARS} are accepted")
    if not _PARTS.fullmatch(rule) or "FREQ=" not in rule:
        raise InvalidInput("the schedule is not an iCalendar rule, as FREQ=WEEKLY;BYDAY=MO is")
    until = _UNTIL.search(rule)
    # A rule that ends at a time in UTC needs a start with a zone, one that ends at a local time a start without.
    begins = datetime(2000, 1, 1, tzinfo=UTC)
    begins = begins if until is None or until[1].endswith("Z") else begins.replace(tzinfo=None)
    try:
        # Read, never run through: a rule may have no end.
        rrulestr(rule, dtstart=begins)
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError):
        problem = True
    else:
        problem = False
    if problem:
        raise InvalidInput("the schedule is not an iCalendar rule, as FREQ=WEEKLY;BYDAY=MO is")
    return rule
