"""The stamps of Recent Topics: ``YYYY-MM-DD HH:MM UTC: …``, with the time of the turn. The program writes them, not the model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from memory.model.headings import RECENT_TOPICS
from memory.model.profile_form import Bullet, Profile

_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(?::\d{2})?\s*(?:UTC|Z)\s*[:：]\s*", re.IGNORECASE)
_LOOSE_STAMP = re.compile(
    r"[\[(*_]*\d{4}-\d{2}-\d{2}"
    r"(?:[ T,]+\d{1,2}:\d{2}(?::\d{2})?(?:\s*(?:UTC|GMT|Z|[+-]\d{2}:?\d{2}))?)?[\])*_]*\s*(?:[:：–—-]\s*|\s(?=\S))",
    re.IGNORECASE,
)
_SAME_TOPIC = 0.6
_MAX_COMPARED = 200


def format_stamp(moment: datetime) -> str:
    """``2026-06-17 12:00 UTC`` of a time with a zone. Raises ValueError for one without."""
    if moment.tzinfo is None:
        raise ValueError("the time of a turn needs a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def read_stamp(text: str) -> tuple[datetime | None, str]:
    """``(time, text without the stamp)``; None when the text does not begin with a valid stamp."""
    found = _STAMP.match(text)
    if found is None:
        return None, text
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None, text
    return moment, text[found.end() :]


def stamp_recent_topics(old: Profile, new: Profile, occurred_at: datetime | Sequence[datetime]) -> Profile:
    """``new`` with right stamps in its Recent Topics, newest last.

    An entry of ``old`` keeps its stamp (also when the model dropped or changed the stamp, or refined the text under it). A new
    entry gets the time of its turn, whatever the model wrote.

    Args:
        occurred_at: the time of the turn, with a zone; for turns processed together the times of all, in order. An entry stamped
            with one of them keeps it, every other new one gets the last.
    """
    times = [occurred_at] if isinstance(occurred_at, datetime) else list(occurred_at)
    if not times:
        raise ValueError("at least one time of a turn is needed")
    stamps = [format_stamp(moment) for moment in times]
    before = _Log(old.section(RECENT_TOPICS))
    entries = [Bullet(before.stamped(bullet.text, stamps), bullet.children) for bullet in new.section(RECENT_TOPICS)]
    return new.with_section(RECENT_TOPICS, oldest_first(entries))


def oldest_first(bullets: Sequence[Bullet]) -> list[Bullet]:
    """In the order of their stamps; a bullet without one stays behind the bullet before it."""
    keyed: list[tuple[datetime, Bullet]] = []
    last = datetime.min.replace(tzinfo=UTC)
    for bullet in bullets:
        last = read_stamp(bullet.text)[0] or last
        keyed.append((last, bullet))
    return [bullet for _, bullet in sorted(keyed, key=lambda pair: pair[0])]


class _Log:
    """The entries that were there before."""

    def __init__(self, bullets: Sequence[Bullet]) -> None:
        self._exact = {bullet.text for bullet in bullets}
        self._by_topic: dict[str, str] = {}
        self._by_stamp: dict[str, list[str]] = {}
        for bullet in bullets:
            moment, topic = read_stamp(bullet.text)
            self._by_topic.setdefault(_fold(topic), bullet.text)
            if moment is not None:
                self._by_stamp.setdefault(format_stamp(moment), []).append(_fold(topic))

    def stamped(self, text: str, stamps: Sequence[str]) -> str:
        if text in self._exact:
            return text
        moment, topic = read_stamp(text)
        stamp = format_stamp(moment) if moment else None
        if stamp in stamps:
            return f"{stamp}: {topic}"
        if moment is None:
            topic = _LOOSE_STAMP.sub("", text, count=1) if _LOOSE_STAMP.match(text) else text
        if known := self._by_topic.get(_fold(topic)):
            return known
        if stamp is not None and self._is_refined(stamp, _fold(topic)):
            return f"{stamp}: {topic}"
        return f"{stamps[-1]}: {topic or text}"

    def _is_refined(self, stamp: str, topic: str) -> bool:
        earlier = self._by_stamp.get(stamp, ())[:_MAX_COMPARED]
        return any(difflib.SequenceMatcher(None, one[:500], topic[:500]).ratio() >= _SAME_TOPIC for one in earlier)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
