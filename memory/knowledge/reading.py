"""A loop's entries as its steps read them: in which order, what the caller said, what may be deleted now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.model.knowledge_loop import Entry, EntryKind, Loop

_SAID = (EntryKind.INTERJECTION, EntryKind.ANSWER)


def in_reading_order(entries: Sequence[Entry]) -> list[Entry]:
    """Replies, results and what the caller said, as the model met them.

    Entries are numbered as they arrive, so an interjection that came while the model was answering stands before that answer in the
    store; here it stands behind it (and behind its results), where the model reads it. ``seen`` of a reply tells what it had read.
    """
    results: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.kind is EntryKind.RESULT:
            results.setdefault(entry.step, []).append(entry)
    said = [entry for entry in entries if entry.kind in _SAID]
    ordered: list[Entry] = []
    for reply in sorted((one for one in entries if one.kind is EntryKind.MODEL), key=lambda one: one.step):
        seen = reply.body.get("seen", reply.number - 1)
        while said and said[0].number <= seen:
            ordered.append(said.pop(0))
        ordered.append(reply)
        ordered.extend(sorted(results.get(reply.step, ()), key=_position))
    return [*ordered, *said]


def said_by_caller(loop: Loop, entries: Sequence[Entry]) -> list[str]:
    """The caller's own words in this loop, and nothing else: its request (or what it was made from, where a program wrote it),
    interjections, answers to clarifications."""
    begun = [loop.text] if loop.said is None else loop.said
    return [*begun, *(text for entry in entries if entry.kind in _SAID if isinstance(text := entry.body.get("text"), str))]


@dataclass(frozen=True, slots=True)
class Steered:
    """What was accepted from those who steer a loop, as its entries tell. ``newest``: number of the last interjection or answer.
    ``thought``: the last step that has a reply."""

    newest: int = 0
    paused: bool = False
    stopping: bool = False
    thought: int = 0


def steered(entries: Sequence[Entry]) -> Steered:
    """Entries by number. So a run that begins in the place of one that was lost knows what that one had been told."""
    pauses = [bool(entry.body.get("paused")) for entry in entries if entry.kind is EntryKind.PAUSE]
    return Steered(
        newest=max((entry.number for entry in entries if entry.kind in _SAID), default=0),
        paused=bool(pauses) and pauses[-1],
        stopping=any(entry.kind is EntryKind.STOP for entry in entries),
        thought=max((entry.step for entry in entries if entry.kind is EntryKind.MODEL), default=0),
    )


def last_answer(entries: Sequence[Entry], *, structured: bool = False) -> str | None:
    """The text of the newest reply that calls nothing; with ``structured`` of one that put this answer into its form."""
    for entry in sorted((one for one in entries if one.kind is EntryKind.MODEL), key=lambda one: -one.step):
        body = entry.body
        if body.get("calls") or body.get("problem"):
            continue
        if bool(body.get("structured")) is structured:
            return str(body.get("text") or "") or None
        if structured:
            return None  # an older form is that of an older answer
    return None


def _position(entry: Entry) -> int:
    """``result/<step>/<index>``."""
    return int(entry.key.rsplit("/", 1)[-1])
