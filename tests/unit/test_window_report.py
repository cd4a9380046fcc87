"""What a window gave, in lines that a person reads: items with their quotes, and why others were not taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.items import Dropped, DropReason
from memory.model.knowledge_loop import Loop, LoopState, Operation
from memory.model.scope import Scope
from memory.model.task import Task
from memory.model.window import CategoryExtraction, CategoryOutcome, Extraction, Window, WindowState
from starter.cli.window_view import loop_lines
from starter.window_report import REASONS, counts_of, items_of
from starter.windows import WindowView

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
ADA = Contact(contact_id=7, first_name="Ada", surname="Holm", created_at=NOW, updated_at=NOW)


def grounded(item: dict[str, Any], *quotes: str) -> dict[str, Any]:
    sources = [{"quote": quote, "seq": place, "event_id": f"e{place}"} for place, quote in enumerate(quotes, 1)]
    return {"key": "k", "item": item, "sources": sources}


def extraction(*parts: CategoryExtraction) -> Extraction:
    refs = {"c1": "1", "c7": "7", "c8": "8", "t1": "35414dcc-ff7c"}
    return Extraction(window_id="w1", attempt=0, prompt_version="v1", model="m", refs=refs, categories=parts)


def texts(found: Extraction) -> list[str]:
    return [item.text for item in items_of(found, [ADA])]


def test_every_category_is_told_in_a_line() -> None:
    found = extraction(
        CategoryExtraction(
            category=Category.CONTACTS,
            items=(
                grounded({"action": "create", "contact": "new1", "first_name": "Lena", "phone_number": "+491"}),
                grounded({"action": "update", "contact": "c7", "job_title": "pilot"}),
                grounded({"action": "merge", "contact": "c7", "merge_with": "c8"}),
            ),
        ),
        CategoryExtraction(category=Category.BIOS, items=(grounded({"contact": "c1", "text": "The user sails."}),)),
        CategoryExtraction(
            category=Category.KNOWLEDGE,
            items=(
                grounded({"statement": "Parking is allowed.", "kind": "policy", "relation": "new", "valid_until": "2026-03-15"}),
            ),
        ),
        CategoryExtraction(
            category=Category.TASKS,
            items=(
                grounded({"action": "create", "name": "Water the plants", "deadline": "2026-06-20", "priority": "high"}),
                grounded({"action": "update", "task": "t1", "status": "done"}),
            ),
        ),
    )
    assert texts(found) == [
        "create first_name Lena, phone_number +491",
        "update Ada Holm: job_title pilot",
        "merge Ada Holm and contact 8",
        "the user: The user sails.",
        "Parking is allowed. (policy, until 2026-03-15)",
        "create Water the plants (high, by 2026-06-20)",
        "update task 35414dcc (done)",
    ]


def test_a_task_is_named_where_it_is_still_there() -> None:
    done = extraction(
        CategoryExtraction(category=Category.TASKS, items=(grounded({"action": "update", "task": "t1", "status": "done"}),))
    )
    task = Task(task_id="35414dcc-ff7c", name="Water the plants", created_at=NOW, updated_at=NOW)
    assert [item.text for item in items_of(done, [ADA], [task])] == ["update Water the plants (done)"]


def test_items_carry_the_words_that_they_rest_on() -> None:
    part = CategoryExtraction(category=Category.KNOWLEDGE, items=(grounded({"statement": "X is red."}, "x is red", "yes, red"),))
    (item,) = items_of(extraction(part))
    assert [(quote.text, quote.seq) for quote in item.quotes] == [("x is red", 1), ("yes, red", 2)]
    assert item.reason is None


def test_what_was_not_taken_says_why_and_is_not_among_what_was() -> None:
    kept, refused = {"statement": "X is red."}, {"statement": "First press Feed, then wait."}
    part = CategoryExtraction(
        category=Category.KNOWLEDGE,
        items=(grounded(kept, "x is red"), grounded(refused, "first press Feed")),
        refused=(Dropped(category=Category.KNOWLEDGE, reason=DropReason.ROUTED_ELSEWHERE, item=refused),),
        dropped=(
            Dropped(
                category=Category.KNOWLEDGE,
                reason=DropReason.QUOTE_NOT_FOUND,
                item={"statement": "Y is blue.", "evidence": [{"event": 3, "quote": "y is blue"}]},
            ),
        ),
    )
    found = items_of(extraction(part))
    assert [(item.text, item.reason) for item in found] == [
        ("X is red.", None),
        ("First press Feed, then wait.", "it belongs to another store"),
        ("Y is blue.", "its quote is not in the event that it cites"),
    ]
    assert [quote.text for quote in found[2].quotes] == ["y is blue"]


def test_every_reason_has_words_and_an_unknown_one_is_shown_as_it_is() -> None:
    assert set(REASONS) == set(DropReason)
    part = CategoryExtraction(category=Category.TASKS, dropped=(Dropped(category=Category.TASKS, reason="out_of_luck", item={}),))
    (item,) = items_of(extraction(part))
    assert (item.text, item.reason) == ("?", "out of luck")


def test_a_window_without_an_extraction_gave_nothing() -> None:
    assert items_of(None) == ()


def test_the_counts_of_a_window_are_one_line() -> None:
    window = Window(scope=Scope.of("acme", "ann"), window_id="w1", first_seq=1, last_seq=50, events=50, planned_at=NOW)
    assert counts_of(window) == "nothing"
    outcomes = (
        CategoryOutcome(category=Category.KNOWLEDGE, applied=4, confirmed=1, dropped={"no_quote": 2}),
        CategoryOutcome(category=Category.ROLLING_SUMMARIES, state="failed", reason="MalformedOutput"),
        CategoryOutcome(category=Category.TASKS),
    )
    told = counts_of(window.model_copy(update={"state": WindowState.PARTIAL, "outcomes": outcomes}))
    assert told == "knowledge 4 (+1 known), rolling summaries failed, 2 not taken"


def test_the_loops_of_a_window_are_named_with_what_became_of_them() -> None:
    loop = Loop("w1-ab", Operation.UPDATE, "Enter it.", "personal", NOW, parent="window:w1", only=("Suppliers",))
    ended = replace(loop, loop_id="w1-cd", state=LoopState.FAILED, reason="spend_cap_reached", answer="Nothing\nwas done.")
    window = Window(scope=Scope.of("acme", "ann"), window_id="w1", first_seq=1, last_seq=2, events=2, planned_at=NOW)
    assert (window.origin, window.model_copy(update={"window_id": "chunk-ab"}).origin) == ("window:w1", "chunk:ab")
    assert loop_lines(WindowView(window, (), "", None, (loop, ended))) == [
        "into Suppliers: loop w1-ab, running",
        "into Suppliers: loop w1-cd, failed (spend_cap_reached): Nothing was done.",
    ]
