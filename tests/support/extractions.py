"""Windows for tests of the extraction: short ways to write what was said, what a model answers, and what a category is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.extraction import ExtractionResult, Extractor, Known
from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.fact import Fact
from memory.model.items import ContactItem, ContactTextItem, Grounded, Item, KnowledgeItem, TaskItem
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.task import Task
from memory.model.window import CategoryExtraction, StoredEvent, Window
from memory.ports import ChatModel

NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
SCOPE = Scope.of("acme", "ada")
ITEMS: Mapping[Category, type[Item]] = {
    Category.CONTACTS: ContactItem,
    Category.BIOS: ContactTextItem,
    Category.ROLLING_SUMMARIES: ContactTextItem,
    Category.RESPONSE_POLICIES: ContactTextItem,
    Category.KNOWLEDGE: KnowledgeItem,
    Category.TASKS: TaskItem,
}
SHIELDS = {
    Category.CONTACTS: frozenset({"contactmanager"}),
    Category.KNOWLEDGE: frozenset({"knowledgemanager"}),
    Category.TASKS: frozenset({"taskmanager"}),
}


async def _writes_nothing(_: Sequence[Grounded[Any]], __: ApplyContext) -> Applied:
    raise AssertionError("these tests apply nothing")


def spec(category: Category, **fields: Any) -> CategorySpec:
    given: dict[str, Any] = {"shielded_by": SHIELDS.get(category, frozenset())}
    return CategorySpec(category, f"extract_{category.value}", ITEMS[category], _writes_nothing, **(given | fields))


def specs(*categories: Category) -> list[CategorySpec]:
    return [spec(category) for category in categories or tuple(Category)]


def said(text: str | None, sender: str = "user", *to: str, medium: str = "chat", **fields: Any) -> MessageEvent:
    receivers = to or (("user",) if sender == "assistant" else ("assistant",))
    return MessageEvent(timestamp=NOW, sender_id=sender, receiver_ids=receivers, medium=medium, content=text, **fields)


def called(manager: str, method: str, payload: dict[str, Any], *, phase: Phase = Phase.INCOMING, call: str = "call-1") -> Any:
    return ManagerMethodEvent(
        timestamp=NOW, manager=manager, method=method, phase=phase, calling_id=call, payload=payload, event_id=f"{call}-{phase}"
    )


def stored(*events: Any, first: int = 1, space: str = "default") -> list[StoredEvent]:
    """A plain text is said by the user; each line comes a minute after the one before."""
    made = [said(event, event_id=f"e{first + place}") if isinstance(event, str) else event for place, event in enumerate(events)]
    return [
        StoredEvent(
            seq=first + place,
            event=event.model_copy(update={"timestamp": NOW + timedelta(minutes=place)}),
            space_id=space,
            recorded_at=NOW,
        )
        for place, event in enumerate(made)
    ]


def a_window(events: Sequence[StoredEvent], **fields: Any) -> Window:
    given: dict[str, Any] = {"scope": SCOPE, "window_id": "w1", "planned_at": NOW, "events": len(events)}
    given |= {"first_seq": events[0].seq if events else 1, "last_seq": events[-1].seq if events else 1}
    return Window(**(given | fields))


def a_contact(number: int, **fields: Any) -> Contact:
    return Contact(contact_id=number, is_system=number < 2, created_at=NOW, updated_at=NOW, **fields)


def a_fact(statement: str, fact_id: str = "fact-1", **fields: Any) -> Fact:
    owner = Owner.user(SCOPE).key
    return Fact(fact_id=fact_id, owner=owner, statement=statement, observed_at=NOW, created_at=NOW, **fields)


def a_task(name: str, task_id: str = "task-1", **fields: Any) -> Task:
    return Task(task_id=task_id, name=name, created_at=NOW, updated_at=NOW, **fields)


def known(*contacts: Contact, tasks: Sequence[Task] = (), facts: Sequence[Fact] = (), names: Any = None) -> Known:
    return Known((a_contact(0), a_contact(1, first_name="Ada"), *contacts), tuple(tasks), tuple(facts), names or {})


def quote(line: int, text: str) -> dict[str, Any]:
    return {"event": line, "quote": text}


def claim(statement: str, *evidence: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"evidence": list(evidence), "statement": statement, **fields}


def reply(**sections: Any) -> str:
    return json.dumps(sections, ensure_ascii=False)


async def extract(
    model: ChatModel, events: Sequence[StoredEvent], *categories: Category, what: Known | None = None, **fields: Any
) -> ExtractionResult:
    """Run an extraction. ``specs``: instead of the plain ones of these categories; other fields are the window's."""
    wanted = fields.pop("specs") if "specs" in fields else specs(*categories)
    window = a_window(events, categories=tuple(one.category for one in wanted), **fields)
    return await Extractor(model, timeout_s=5).run(window, events, what or known(), wanted, now=NOW)


def taken(result: ExtractionResult, category: Category) -> list[Any]:
    """The items of a category."""
    item = ITEMS[category]
    return [Grounded[item].model_validate(one).item for one in section(result, category).items]


def section(result: ExtractionResult, category: Category) -> CategoryExtraction:
    found = result.extraction.of(category)
    assert found is not None
    return found


def reasons(result: ExtractionResult, category: Category) -> list[str]:
    return [one.reason for one in section(result, category).dropped]
