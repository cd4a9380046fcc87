"""A loop's entries as its steps read them: in which order, what the caller said, what may be deleted now."""

from __future__ import annotations

from collections.abc import Sequence

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
    """The caller's own words in this loop, and nothing else: its request, interjections, answers to clarifications."""
    return [loop.text, *(text for entry in entries if entry.kind in _SAID if isinstance(text := entry.body.get("text"), str))]


def last_answer(entries: Sequence[Entry], *, structured: bool = False) -> str | None:
    """The text of the newest reply that calls nothing; with ``structured`` of one that was asked for a form, without of another."""
    for entry in sorted((one for one in entries if one.kind is EntryKind.MODEL), key=lambda one: -one.step):
        body = entry.body
        if not body.get("calls") and not body.get("problem") and bool(body.get("structured")) is structured:
            return str(body.get("text") or "") or None
    return None


def _position(entry: Entry) -> int:
    """``result/<step>/<index>``."""
    return int(entry.key.rsplit("/", 1)[-1])
