"""The registry, and that a seventh category is a name, an entry and a prompt section, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory.categories import REGISTRY, spec_of
from memory.model.category import Category
from memory.model.extraction_schema import reply_schema
from memory.model.shield import manager_name
from memory.prompts.texts import prompt_text

ROOT = Path(__file__).parents[2]

SEVENTH = """
import asyncio, enum, json, sys, types
from datetime import UTC, datetime

import memory.model.category as real

class Category(enum.StrEnum):
    locals().update({one.name: one.value for one in real.Category})
    MOODS = "moods"

real.Category = Category

from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.items import Grounded, Item
from memory.model.window import CategoryOutcome, Extraction, StoredEvent, Window

class MoodItem(Item):
    contact: str
    mood: str

seen = []

async def apply(items, context):
    seen.extend((context.refs[one.item.contact], one.item.mood, one.sources[0].quote) for one in items)
    return Applied(CategoryOutcome(category=Category.MOODS, applied=len(items)))

import memory.categories as categories
categories.REGISTRY = (*categories.REGISTRY, CategorySpec(Category.MOODS, "extract_bios", MoodItem, apply))

# From here on it is as for any category.
from memory.extraction import Extractor
from memory.model.contact import Contact
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.ports import ChatReply, StopReason, Usage
from memory.prompts.extraction import Known

NOW = datetime(2026, 6, 17, tzinfo=UTC)

class Model:
    name, reasoning = "scripted:test", False

    async def complete(self, request):
        assert "moods" in request.schema["properties"]
        item = {"contact": "c1", "mood": "happy", "evidence": [{"event": 1, "quote": "so happy"}]}
        invented = {**item, "evidence": [{"event": 1, "quote": "so sad"}]}
        return ChatReply(json.dumps({"moods": [item, invented]}), StopReason.END, Usage(), "test")

async def main():
    event = MessageEvent(timestamp=NOW, sender_id="user", content="I am so happy today", event_id="e1")
    events = [StoredEvent(seq=1, event=event, recorded_at=NOW)]
    fields = {"first_seq": 1, "last_seq": 1, "events": 1, "categories": (Category.MOODS,), "planned_at": NOW}
    window = Window(scope=Scope.of("acme", "ann"), window_id="w1", **fields)
    window = Window.model_validate_json(window.model_dump_json())
    known = Known((Contact(contact_id=1, created_at=NOW, updated_at=NOW),))
    specs = [categories.spec_of(category) for category in window.categories]
    done = await Extractor(Model(), timeout_s=5).run(window, events, known, specs, now=NOW)
    stored = Extraction.model_validate_json(done.extraction.model_dump_json())
    for category in window.categories:
        spec = categories.spec_of(category)
        items = [Grounded[spec.item].model_validate(item) for item in stored.of(category).items]
        await spec.apply(items, ApplyContext(window, events, stored.refs, None, NOW))
    print(json.dumps({"seen": seen, "dropped": [one.reason for one in stored.of(Category.MOODS).dropped]}))

asyncio.run(main())
"""


def test_a_seventh_category_is_one_entry() -> None:
    done = subprocess.run([sys.executable, "-c", SEVENTH], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"seen": [["1", "happy", "so happy"]], "dropped": ["quote_not_found"]}


def test_contacts_come_first_since_the_others_refer_to_them() -> None:
    assert [spec.category.value for spec in REGISTRY] == [
        "contacts", "bios", "rolling_summaries", "response_policies", "knowledge", "tasks",
    ]  # fmt: skip


@pytest.mark.parametrize("category", list(Category))
def test_every_category_has_its_entry_prompt_and_schema(category: Category) -> None:
    spec = spec_of(category)
    assert spec.category is category
    assert prompt_text(spec.prompt)
    assert reply_schema({category: spec.item})["properties"][category.value]["type"] == "array"


def test_shields_name_managers_in_the_form_they_are_compared_in() -> None:
    for spec in REGISTRY:
        assert {manager_name(name) for name in spec.shielded_by} == set(spec.shielded_by)
    for category in (Category.CONTACTS, Category.KNOWLEDGE, Category.TASKS):
        assert spec_of(category).shielded_by
    assert not spec_of(Category.TASKS).shielded_by & spec_of(Category.KNOWLEDGE).shielded_by
