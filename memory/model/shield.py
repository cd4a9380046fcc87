"""The idempotency shield: what a manager call in the window did, or is doing, is not done again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from memory.model.event import ManagerMethodEvent
from memory.model.window import StoredEvent
from memory.model.window_transcript import manager_json
from memory.model.words import key_words

MIN_OVERLAP: Final = 0.6
"""An item is handled when so much of what it says is in one call's request or answer."""

_READS: Final = re.compile(
    r"^_*(?:ask|search|filter|get|list|find|read|show|describe|reduce|join|count|lookup|query|history)(?:_|$)"
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def manager_name(name: str) -> str:
    """In the form that shields are named by: its letters, small."""
    return "".join(filter(str.isalpha, name.casefold()))


def is_write(method: str) -> bool:
    """Whether a method changes something; reading shields nothing."""
    return not _READS.match(_WORD.sub("_", method).lower())


def handled_by(texts: Iterable[str], events: Sequence[StoredEvent], managers: frozenset[str]) -> int | None:
    """The line (from 1) of a call of one of these managers that holds what the texts say; None: nobody has handled it.

    Args:
        texts: what the item says, without its quotes.
        events: the window.
        managers: as :func:`manager_name` has them.
    """
    wanted = key_words(" ".join(texts))
    if not wanted or not managers:
        return None
    for number, stored in enumerate(events, 1):
        event = stored.event
        if not isinstance(event, ManagerMethodEvent) or manager_name(event.manager) not in managers or not is_write(event.method):
            continue
        if len(wanted & key_words(manager_json(event))) >= MIN_OVERLAP * len(wanted):
            return number
    return None
