"""How windows look on a terminal: what was taken, word for word why, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from memory.model.window import CategoryExtraction, Window
from starter.cli.output import one_line
from starter.windows import WindowView

MAX_SHOWN_CHARS = 200
_NAMES = ("contact", "statement", "name", "text", "first_name", "surname", "email_address", "phone_number", "job_title")
_EXTRAS = ("action", "status", "deadline", "kind", "relation", "merge_with")


def window_row(window: Window) -> tuple[str, ...]:
    """Cells: window, events, state, what was applied, confirmed, dropped, why."""
    applied = sum(outcome.applied for outcome in window.outcomes)
    confirmed = sum(outcome.confirmed for outcome in window.outcomes)
    dropped = sum(sum(outcome.dropped.values()) for outcome in window.outcomes)
    rerun = f" (rerun {window.attempt})" if window.attempt else ""
    return (
        window.window_id + rerun,
        f"{window.first_seq}–{window.last_seq}" if window.kind.value == "events" else str(window.events),
        window.trigger.value,
        window.state.value,
        str(applied),
        str(confirmed),
        str(dropped),
        window.reason or "",
    )


WINDOW_COLUMNS = ("window", "events", "trigger", "state", "applied", "confirmed", "dropped", "reason")


def extraction_lines(view: WindowView, *, dropped: bool = True) -> list[tuple[str, str]]:
    """Lines with their kind (``head``, ``item``, ``quote``, ``dropped``), category by category."""
    if view.extraction is None:
        return []
    lines: list[tuple[str, str]] = []
    for found in view.extraction.categories:
        lines.append(("head", _head(view.window, found)))
        for item in found.items:
            lines.append(("item", describe(cast(Mapping[str, Any], item.get("item") or {}))))
            for source in cast(Sequence[Mapping[str, Any]], item.get("sources") or ()):
                lines.append(("quote", f"“{shortened(str(source.get('quote') or ''))}” ({source.get('event_id') or '?'})"))
        if dropped:
            lines += [("dropped", f"{one.reason}: {describe(one.item)}") for one in (*found.dropped, *found.refused)]
    return lines


def _head(window: Window, found: CategoryExtraction) -> str:
    outcome = next((one for one in window.outcomes if one.category is found.category), None)
    if found.failed or (outcome is not None and outcome.state == "failed"):
        return f"{found.category.value}: failed: {found.failed or (outcome.reason if outcome else '')}"
    if outcome is None:
        return f"{found.category.value}: {found.proposed} proposed"
    gone = sum(outcome.dropped.values())
    return f"{found.category.value}: {outcome.applied} applied, {outcome.confirmed} known already, {gone} dropped"


def describe(item: Mapping[str, Any]) -> str:
    """An item in one line, whichever category it is of."""
    said = ", ".join(shortened(str(item[name])) for name in _NAMES if item.get(name))
    extra = ", ".join(f"{name} {item[name]}" for name in _EXTRAS if item.get(name))
    return one_line(f"{said} [{extra}]" if extra else said or "(nothing)")


def shortened(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"
