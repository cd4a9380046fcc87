"""The idempotency shield: what a manager call in the window did, or is doing, is not done again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from memory.model.event import ManagerMethodEvent, Phase
from memory.model.window import StoredEvent
from memory.model.window_transcript import manager_json
from memory.model.words import key_words

MIN_OVERLAP: Final = 0.7
"""An item is handled when so much of what it says is in one call's request or answer."""

_READS: Final = re.compile(
    r"^_*(?:ask|search|filter|get|list|find|read|show|describe|reduce|join|count|lookup|look|query|history|fetch|view|check|exists)(?:_|$)"
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
_FAILED: Final = frozenset({"error", "errors", "failed", "failure", "exception", "rejected", "cancelled"})


def manager_name(name: str) -> str:
    """In the form that shields are named by: its letters, small."""
    return "".join(filter(str.isalpha, name.casefold()))


def is_write(method: str) -> bool:
    """Whether a method changes something; reading shields nothing."""
    return not _READS.match(_WORD.sub("_", method).lower())


def handled_by(
    texts: Iterable[str], events: Sequence[StoredEvent], managers: frozenset[str], *, values: Iterable[str] = ()
) -> int | None:
    """The line (from 1) of a call of one of these managers that holds what the texts say; None: nobody has handled it.

    A call whose answer says that it failed handles nothing. Another number is another matter, however much else is the same.

    Args:
        texts: what the item says, without its quotes.
        events: the window.
        managers: as :func:`manager_name` has them.
        values: addresses and numbers that the item sets; each has to be in the call.
    """
    wanted, numbers = key_words(" ".join(texts)), set(_NUMBER.findall(" ".join(texts)))
    exact = [_plain(value) for value in values]
    if not managers or not (wanted or exact):
        return None
    failed = failed_calls(events)
    for number, stored in enumerate(events, 1):
        event = stored.event
        if not isinstance(event, ManagerMethodEvent) or manager_name(event.manager) not in managers or not is_write(event.method):
            continue
        if event.calling_id in failed:
            continue
        told = manager_json(event)
        if len(wanted & key_words(told)) < MIN_OVERLAP * len(wanted) or not numbers <= set(_NUMBER.findall(told)):
            continue
        if all(value in _plain(told) for value in exact):
            return number
    return None


def failed_calls(events: Sequence[StoredEvent]) -> set[str]:
    """Ids of the calls whose answer in the window says that they failed."""
    calls = (stored.event for stored in events if isinstance(stored.event, ManagerMethodEvent))
    return {event.calling_id for event in calls if _has_failed(event)}


def _plain(text: str) -> str:
    """Without what addresses and telephone numbers are divided with."""
    return re.sub(r"[\s()/+-]", "", text.casefold())


def _has_failed(event: ManagerMethodEvent) -> bool:
    if event.phase is not Phase.OUTGOING:
        return False
    answer = event.payload
    if any(answer.get(name) is False for name in ("ok", "success", "succeeded")):
        return True
    if any(answer.get(name) for name in ("error", "errors", "exception", "traceback")):
        return True
    status: Any = answer.get("status") or answer.get("outcome")
    return isinstance(status, str) and status.casefold() in _FAILED
