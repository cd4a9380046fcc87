"""How the demo's events look on a terminal and in a plain log."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from memory.model.event import MessageEvent
from memory.model.window import WindowState
from starter.cli.output import one_line, safe_text
from starter.cli.window_view import extraction_lines, shortened
from starter.demo_events import EventsReport
from starter.event_files import EventStream
from starter.window_report import counts_of
from starter.windows import WindowView

MAX_LINES = 24
"""Shown of each window; ``afterturn window show`` shows all of them."""
_STYLES = {"head": "bold", "item": "green", "quote": "dim", "dropped": "yellow"}
_MARKS = {"head": "  ", "item": "    + ", "quote": "        ", "dropped": "    - "}


def show_stream(console: Console, stream: EventStream) -> None:
    console.print()
    media = ", ".join(f"{medium} {count}" for medium, count in sorted(stream.media.items()))
    console.print(
        Text(safe_text(stream.name), style="bold"),
        Text(f"  {len(stream.events)} events by {len(stream.senders)} senders ({safe_text(media)})", style="dim"),
    )


def show_events(console: Console, report: EventsReport, *, lines: int = MAX_LINES) -> None:
    """Windows with what was taken and why, what is stored in the end, a few searches."""
    for view in report.windows:
        show_window(console, view, report, lines=lines)
    _show_stored(console, report)
    for query, facts in report.fact_searches:
        console.print(Text(f"facts search {query!r}", style="bold"))
        for found in facts:
            quotes = "; ".join(f"“{shortened(source.quote, 100)}”" for source in found.fact.sources[:2])
            console.print(Text(f"  {shortened(found.fact.statement)}  ({found.why})"), Text(quotes, style="dim"))
    for query, events in report.event_searches:
        console.print(Text(f"events search {query!r}", style="bold"))
        for hit in events:
            event = hit.event.event
            if isinstance(event, MessageEvent):
                console.print(Text(f"  [{hit.event.seq}] {one_line(event.sender_id)}: {shortened(event.content or '')}"))


def show_window(console: Console, view: WindowView, report: EventsReport | None = None, *, lines: int = MAX_LINES) -> None:
    window = view.window
    style = {WindowState.DONE: "bold green", WindowState.SKIPPED: "cyan"}.get(window.state, "bold red")
    console.print(
        Text.assemble(
            (f"window {window.window_id}  ", "bold"),
            (window.state.value.upper(), style),
            (f"  events {window.first_seq} to {window.last_seq}, {counts_of(window)}", "dim"),
            (f"  {safe_text(window.reason)}" if window.reason else "", "yellow"),
        )
    )
    shown = left = quotes = 0
    known = ((), ()) if report is None else (report.contacts, report.tasks)
    for kind, line in extraction_lines(view, *known):
        quotes = quotes + 1 if kind == "quote" else 0
        if quotes > 1:
            left += 1
            continue
        shown = 0 if kind == "head" else shown + 1
        left += shown > lines
        if shown <= lines:
            console.print(Text(_MARKS[kind] + safe_text(line), style=_STYLES[kind]))
    if left:
        console.print(Text(f"  … {left} more lines: afterturn window show {window.window_id}", style="dim"))


def _show_stored(console: Console, report: EventsReport) -> None:
    console.print()
    console.print(Text(f"What is stored of {safe_text(report.scope.user_id)}", style="bold"))
    for contact in report.contacts:
        texts = [name for name in ("bio", "rolling_summary", "response_policy") if getattr(contact, name)]
        details = [contact.email_address, contact.phone_number or contact.whatsapp_number, contact.job_title, *texts]
        shown = ", ".join(one_line(detail).replace("_", " ") for detail in details if detail)
        known_as = one_line(contact.name or next(iter(contact.aliases), "(no name)"))
        console.print(Text(f"  contact {contact.contact_id}: {known_as}"), Text(shown, style="dim"))
    for task in report.tasks:
        due = f", until {task.deadline:%Y-%m-%d}" if task.deadline else ""
        console.print(Text(f"  task ({task.status.value}{due}): {shortened(task.name)}"))
    for guidance in report.guidance:
        console.print(Text(f"  how-to: {shortened(guidance.title)}"))
    console.print(Text(f"  {len(report.facts)} facts{'; what took the place of what:' if report.replaced else ''}"))
    for old, new in report.replaced:
        console.print(Text(f"    {shortened(old.statement, 120)}", style="dim"), Text(f"→ {shortened(new.statement, 120)}"))
    console.print()


def events_json(report: EventsReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "tenant": report.scope.tenant_id,
        "user": report.scope.user_id,
        "ok": report.ok,
        "counts": dict(report.counts),
        "windows": [view.window for view in report.windows],
        "facts": report.facts,
        "replaced": [{"old": old, "new": new} for old, new in report.replaced],
        "contacts": report.contacts,
        "tasks": report.tasks,
        "guidance": report.guidance,
        "searches": {
            "facts": {query: [found.fact for found in facts] for query, facts in report.fact_searches},
            "events": {query: [hit.event for hit in events] for query, events in report.event_searches},
        },
        "seconds": round(report.seconds, 3),
        "last_line": report.last_line,
    }
