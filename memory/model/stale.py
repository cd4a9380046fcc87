"""Whether a follow-up is stale: marked as done, or every date it names is past."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from memory.model.profile_form import Bullet

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar jänner", "feb february februar", "mar march märz mrz", "apr april", "may mai", "jun june juni",
            "jul july juli", "aug august", "sep sept september", "oct october okt oktober", "nov november",
            "dec december dez dezember",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_FROM_YEAR = re.compile(
    r"(?P<y>\d{4})(?:[-/.]\s?(?P<m>\d{1,2})[-/.]\s?(?P<d>\d{1,2})(?!\d)|\s*年\s*(?P<m2>\d{1,2})\s*月\s*(?P<d2>\d{1,2})\s*日)"
)
_TO_YEAR = re.compile(
    r"(?:(?<!\d)(?P<d>\d{1,2})[./]\s?(?P<m>\d{1,2})[./]\s?"
    rf"|(?<!\d)(?P<d2>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<n>{_MONTH})\.?,?\s+"
    rf"|\b(?P<n2>{_MONTH})\.?\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s+)(?P<y>\d{{4}})$",
    re.IGNORECASE,
)
_WINDOW = 32
_DONE = re.compile(
    r"\[[xX✓✔]\]|^(?:✓|✔|✅|☑)|^~~.*~~$|^\W*(?:done|completed|finished|cancelled|canceled|declined|erledigt|abgeschlossen|完成|已完成)\b"
    r"|[(\[](?:done|completed|finished|cancelled|canceled|declined|erledigt|abgeschlossen|已完成|完成)[)\]]\W*$",
    re.IGNORECASE,
)
_MAX_CHARS = 2000


def is_stale(bullet: Bullet, today: date) -> bool:
    """A follow-up without any date, and not marked as done, is not stale: nobody knows."""
    if _DONE.search(bullet.text[:_MAX_CHARS]):
        return True
    dates = [found for line in bullet.lines for found in find_dates(line[:_MAX_CHARS])]
    return bool(dates) and max(dates) < today


def find_dates(text: str) -> Iterator[date]:
    """Full dates (with a year) in English, German, Chinese and numeric forms; of 3/4/2026 the day is the first number."""
    for year in _YEAR.finditer(text):
        start, end = year.span()
        found = _FROM_YEAR.match(text, start) or _TO_YEAR.search(text[max(0, start - _WINDOW) : end])
        if found is None:
            continue
        parts = {name[0]: value for name, value in found.groupdict().items() if value}
        month = int(parts["m"]) if "m" in parts else MONTHS[parts["n"].casefold()]
        try:
            yield date(int(parts["y"]), month, int(parts["d"]))
        except ValueError:
            continue  # the 31st of a short month: not a date
