"""How windows look on a terminal: what was taken, word for word why, and what was not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from memory.model.contact import Contact
from memory.model.task import Task
from memory.model.window import Window
from starter.cli.output import one_line
from starter.window_report import items_of
from starter.windows import WindowView

MAX_SHOWN_CHARS = 240


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
WINDOW_SPARE = ("trigger", "confirmed", "dropped")
"""What a narrow terminal can do without."""


def extraction_lines(view: WindowView, contacts: Iterable[Contact] = (), tasks: Iterable[Task] = ()) -> list[tuple[str, str]]:
    """Lines with their kind (``head``, ``item``, ``quote``, ``dropped``), category by category."""
    lines: list[tuple[str, str]] = []
    for category, items in groupby(items_of(view.extraction, contacts, tasks), key=lambda one: one.category):
        lines.append(("head", category.value.replace("_", " ")))
        for item in items:
            if item.reason is not None:
                lines.append(("dropped", f"{shortened(item.text)}: {item.reason}"))
                continue
            lines.append(("item", shortened(item.text)))
            lines += [("quote", f"“{shortened(quote.text)}” [{quote.seq or quote.event_id or '?'}]") for quote in item.quotes]
    return lines


def loop_lines(view: WindowView) -> list[str]:
    """The loops that enter what the window learned into tables, and what became of them."""
    return [
        f"into {', '.join(loop.only) or 'tables'}: loop {loop.loop_id}, {loop.state.value}"
        + (f" ({loop.reason})" if loop.reason else "")
        + (f": {shortened(loop.answer)}" if loop.answer else "")
        for loop in view.loops
    ]


def shortened(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"
