"""What a window gave, for the person who looks: each item in a line with the quotes it rests on, and why others were not taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.items import Dropped, DropReason
from memory.model.task import Task
from memory.model.window import CategoryExtraction, Extraction, Window

REASONS: Final[Mapping[str, str]] = {
    DropReason.NO_QUOTE: "it cites no words of the transcript",
    DropReason.QUOTE_NOT_FOUND: "its quote is not in the event that it cites",
    DropReason.UNKNOWN_REF: "it refers to something that was not in the prompt",
    DropReason.MALFORMED: "it is not in the form that was asked for",
    DropReason.UNGROUNDED: "it says what neither its quotes nor what was known say",
    DropReason.TRANSLATED: "it is in another script than its quotes",
    DropReason.ASSISTANT_ONLY: "it rests on the assistant's own words alone",
    DropReason.ALREADY_HANDLED: "a manager call in the window did it already",
    DropReason.ROUTED_ELSEWHERE: "it belongs to another store",
    DropReason.NOT_A_COMMITMENT: "it is no concrete commitment",
    DropReason.FORGOTTEN: "the user had it forgotten",
    DropReason.CATEGORY_OFF: "the category is off where it was said",
    DropReason.DUPLICATE: "it is in the same reply twice",
    DropReason.TOO_MANY: "there are too many of its category",
    DropReason.CONFLICT: "it clashes with what another contact has, or with a rule",
}
_CONTACT_FIELDS: Final = (
    "first_name",
    "surname",
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
)


@dataclass(frozen=True, slots=True)
class Quote:
    """``seq``: the event's number in the user's log; None where it is not there."""

    text: str = field(repr=False)
    seq: int | None
    event_id: str | None


@dataclass(frozen=True, slots=True)
class ReportedItem:
    """``text``: the item in one line. ``reason``: why it was not taken, in words; None: it was."""

    category: Category
    text: str = field(repr=False)
    quotes: tuple[Quote, ...] = field(default=(), repr=False)
    reason: str | None = None


def items_of(
    extraction: Extraction | None, contacts: Iterable[Contact] = (), tasks: Iterable[Task] = ()
) -> tuple[ReportedItem, ...]:
    """All items of an extraction by category: those taken first, then those that were not.

    Args:
        extraction: None gives none.
        contacts, tasks: for the names of those that items are about.
    """
    if extraction is None:
        return ()
    # Ids of contacts are numbers, those of tasks never are.
    names = {str(contact.contact_id): contact.name for contact in contacts if contact.name}
    names |= {task.task_id: task.name for task in tasks}
    found: list[ReportedItem] = []
    for part in extraction.categories:
        found += _taken(part, extraction.refs, names)
        found += [
            ReportedItem(
                part.category, _line(part.category, one.item, extraction.refs, names), _proposed_quotes(one), _why(one.reason)
            )
            for one in (*part.refused, *part.dropped)
        ]
    return tuple(found)


def _taken(part: CategoryExtraction, refs: Mapping[str, str], names: Mapping[str, str]) -> list[ReportedItem]:
    refused = Counter(_mark(one.item) for one in part.refused)
    taken: list[ReportedItem] = []
    for grounded in part.items:
        item = cast(Mapping[str, Any], grounded.get("item") or {})
        if refused[_mark(item)] > 0:
            refused[_mark(item)] -= 1
            continue
        sources = cast(Sequence[Mapping[str, Any]], grounded.get("sources") or ())
        quotes = tuple(Quote(str(one.get("quote") or ""), one.get("seq"), one.get("event_id")) for one in sources)
        taken.append(ReportedItem(part.category, _line(part.category, item, refs, names), quotes))
    return taken


def _mark(item: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells an item from the others of its category, also in the shortened form of a refused one."""
    names = ("action", "contact", "task", "statement", "text", "name", *_CONTACT_FIELDS)
    return tuple(str(item.get(name) or "")[:400] for name in names)


def _proposed_quotes(dropped: Dropped) -> tuple[Quote, ...]:
    evidence = dropped.item.get("evidence")
    if not isinstance(evidence, list | tuple):
        return ()
    given = [cast(Mapping[str, Any], one) for one in cast(Sequence[Any], evidence) if isinstance(one, Mapping)]
    return tuple(Quote(str(one.get("quote") or ""), None, None) for one in given[:8])


def _why(reason: str) -> str:
    return REASONS.get(reason, reason.replace("_", " "))


def _line(category: Category, item: Mapping[str, Any], refs: Mapping[str, str], names: Mapping[str, str]) -> str:
    match category:
        case Category.KNOWLEDGE:
            details = [str(item[name]) for name in ("kind",) if item.get(name)]
            details += [f"until {str(item['valid_until'])[:10]}"] if item.get("valid_until") else []
            details += [str(item["relation"])] if item.get("relation") in ("same", "supersedes") else []
            return _with(str(item.get("statement") or "?"), details)
        case Category.TASKS:
            details = [str(item[name]) for name in ("status", "priority") if item.get(name)]
            details += [f"by {str(item['deadline'])[:16]}"] if item.get("deadline") else []
            details += [str(item["schedule"])] if item.get("schedule") else []
            return _with(f"{item.get('action') or '?'} {item.get('name') or _task(item.get('task'), refs, names)}".strip(), details)
        case Category.CONTACTS:
            about = _contact(item.get("contact"), refs, names)
            if item.get("action") == "merge":
                return f"merge {about} and {_contact(item.get('merge_with'), refs, names)}"
            fields = ", ".join(f"{name} {item[name]}" for name in _CONTACT_FIELDS if item.get(name))
            return f"{item.get('action') or '?'} {'' if item.get('action') == 'create' else about + ': '}{fields}".strip()
        case _:
            return f"{_contact(item.get('contact'), refs, names)}: {item.get('text') or '?'}"


def _with(text: str, details: Sequence[str]) -> str:
    return f"{text} ({', '.join(details)})" if details else text


def _task(ref: object, refs: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Its name; of one that is not there any more the beginning of its id."""
    task_id = refs.get(str(ref))
    return "" if task_id is None else names.get(task_id) or f"task {task_id[:8]}"


def _contact(ref: object, refs: Mapping[str, str], names: Mapping[str, str]) -> str:
    contact_id = refs.get(str(ref))
    if contact_id is None:
        return f"contact {ref}" if ref else "somebody"
    return names.get(contact_id) or {"0": "the assistant", "1": "the user"}.get(contact_id, f"contact {contact_id}")


def counts_of(window: Window) -> str:
    """``knowledge 4 (+1 known), tasks 2, 3 dropped``: what a window gave, in a line."""
    parts: list[str] = []
    dropped = 0
    for outcome in window.outcomes:
        dropped += sum(outcome.dropped.values())
        if outcome.state == "failed":
            parts.append(f"{_name(outcome.category)} failed")
        elif outcome.applied or outcome.confirmed:
            known = f" (+{outcome.confirmed} known)" if outcome.confirmed else ""
            parts.append(f"{_name(outcome.category)} {outcome.applied}{known}")
    if dropped:
        parts.append(f"{dropped} not taken")
    return ", ".join(parts) or "nothing"


def _name(category: Category) -> str:
    return category.value.replace("_", " ")
