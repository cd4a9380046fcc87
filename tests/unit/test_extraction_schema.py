"""The schema that goes out, and reading what comes back, whatever it looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.category import Category
from memory.model.errors import MalformedOutput
from memory.model.extraction_schema import looks_cut_off, read_reply, reply_schema
from memory.model.items import MAX_ITEMS, ContactItem, DropReason, KnowledgeItem, TaskItem
from memory.model.task import TaskPriority
from tests.support.extractions import ITEMS, claim, quote, reply

TWO = {Category.KNOWLEDGE: ITEMS[Category.KNOWLEDGE], Category.TASKS: ITEMS[Category.TASKS]}
ONE = {Category.KNOWLEDGE: ITEMS[Category.KNOWLEDGE]}
ITEM = claim("Invoices need two signatures.", quote(1, "two signatures"))
WHOLE = reply(knowledge=[ITEM], tasks=[])


def nodes(schema: Any) -> Any:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def test_the_schema_is_in_the_strict_form_of_both_providers() -> None:
    schema = reply_schema(ITEMS)
    assert list(schema["properties"]) == [category.value for category in Category]
    for node in nodes(schema):
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        assert not node.keys() & {
            "$ref",
            "$defs",
            "default",
            "maxLength",
            "minLength",
            "pattern",
            "minimum",
            "format",
            "title",
            "const",
        }
    knowledge = schema["properties"]["knowledge"]["items"]["properties"]
    assert knowledge["related"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert knowledge["kind"]["enum"][0] == "fact"
    assert knowledge["evidence"]["items"]["required"] == ["event", "quote"]


def test_only_the_categories_asked_for_are_in_it() -> None:
    assert list(reply_schema(ONE)["properties"]) == ["knowledge"]


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"Here is what I found:\n```json\n{WHOLE}\n```\nLet me know!",
        f"````\n```json\n{WHOLE}\n```\n````",
        f"Sure! {WHOLE} That is all.",
        f"<think>maybe {{'knowledge': []}} or not</think>{WHOLE}",
        f"<think>never closed\n{WHOLE}",
        f"\ufeff{WHOLE}",
        f"[{WHOLE}]",
        json.dumps({"window_items": json.loads(WHOLE)}),
        reply(knowledge=ITEM, tasks=None),
        reply(knowledge=[ITEM]),
        reply(knowledge=[ITEM]) + "\n" + reply(tasks=[]),
        WHOLE + WHOLE,
        json.dumps(json.loads(WHOLE), indent=2).replace("\n", "\r\n"),
    ],
)
def test_what_stands_around_the_json_does_not_matter(text: str) -> None:
    sections = read_reply(text, TWO)
    assert [item.statement for item in sections.items[Category.KNOWLEDGE] if isinstance(item, KnowledgeItem)] == [ITEM["statement"]]
    assert sections.items[Category.TASKS] == []
    assert not sections.broken
    assert sections.proposed == {Category.KNOWLEDGE: 1, Category.TASKS: 0}


def test_for_one_category_a_bare_list_will_do() -> None:
    assert len(read_reply(json.dumps([ITEM]), ONE).items[Category.KNOWLEDGE]) == 1
    assert read_reply("[]", ONE).items[Category.KNOWLEDGE] == []
    assert read_reply("[]", TWO).items == {Category.KNOWLEDGE: [], Category.TASKS: []}


@pytest.mark.parametrize("text", ["", "   ", "NOOP", "There is nothing to extract.", "{}", '{"other": []}', "```json\n```", "null"])
def test_a_reply_without_a_section_is_malformed(text: str) -> None:
    with pytest.raises(MalformedOutput):
        read_reply(text, TWO)


@pytest.mark.parametrize("left_out", [1, 2, 5, 20, 60])
def test_a_reply_cut_off_is_malformed_and_looks_so(left_out: int) -> None:
    text = WHOLE[:-left_out]
    with pytest.raises(MalformedOutput):
        read_reply(text, TWO)
    assert looks_cut_off(text)
    assert looks_cut_off(f"```json\n{text}")
    assert not looks_cut_off(WHOLE)
    assert not looks_cut_off("There is nothing {here}.")


def test_one_bad_item_does_not_spoil_the_others() -> None:
    bad = [{"evidence": [quote(1, "x")]}, "text", None, {"statement": 5}, {**ITEM, "evidence": [{"event": "many", "quote": "x"}]}]
    sections = read_reply(reply(knowledge=[*bad, ITEM], tasks=[]), TWO)
    assert len(sections.items[Category.KNOWLEDGE]) == 1
    assert [one.reason for one in sections.dropped[Category.KNOWLEDGE]] == [DropReason.MALFORMED] * 5
    assert sections.proposed[Category.KNOWLEDGE] == 6
    assert not sections.broken


@pytest.mark.parametrize("section", ["none", 5, {"a": 1}, ["x", "y"], [{"statement": None}]])
def test_a_section_without_anything_readable_is_broken_and_the_others_stand(section: Any) -> None:
    sections = read_reply(reply(knowledge=[ITEM], tasks=section), TWO)
    assert set(sections.broken) == {Category.TASKS}
    assert len(sections.items[Category.KNOWLEDGE]) == 1


def test_sections_that_differ_are_unclear() -> None:
    sections = read_reply(f"{reply(knowledge=[ITEM])} or {reply(knowledge=[])} and {reply(tasks=[])}", TWO)
    assert sections.broken == {Category.KNOWLEDGE: "several_sections"}
    assert sections.items[Category.TASKS] == []


def test_usual_slips_are_put_right() -> None:
    given = {
        "action": "Create", "name": "Send it", "priority": "Very high", "status": None, "tags": "a, b", "deadline": 5,
        "evidence": {"event": "[1]", "quote": "two signatures"}, "extra": 1,
    }  # fmt: skip
    (task,) = read_reply(reply(tasks=[given]), {Category.TASKS: TaskItem}).items[Category.TASKS]
    assert isinstance(task, TaskItem)
    assert (task.action, task.tags, task.priority, task.deadline) == ("create", ("a", "b"), None, None)
    assert task.evidence[0].event == 1
    (urgent,) = read_reply(reply(tasks=[{**given, "priority": "URGENT"}]), {Category.TASKS: TaskItem}).items[Category.TASKS]
    assert isinstance(urgent, TaskItem)
    assert urgent.priority is TaskPriority.URGENT
    contact = {"action": "create", "contact": "new1", "phone_number": 491701234567, "evidence": [quote(1, "x")]}
    (found,) = read_reply(reply(contacts=[contact]), {Category.CONTACTS: ContactItem}).items[Category.CONTACTS]
    assert isinstance(found, ContactItem)
    assert found.phone_number == "491701234567"


def test_items_without_end_are_counted_and_not_taken() -> None:
    sections = read_reply(reply(knowledge=[ITEM] * (MAX_ITEMS + 5)), ONE)
    assert len(sections.items[Category.KNOWLEDGE]) == MAX_ITEMS
    assert [one.reason for one in sections.dropped[Category.KNOWLEDGE]] == [DropReason.TOO_MANY] * 5


def test_what_is_kept_of_a_malformed_item_is_bounded() -> None:
    bad = {f"field-{number}" * 50: "x" * 10_000 for number in range(100)}
    (dropped,) = read_reply(reply(knowledge=[ITEM, bad]), ONE).dropped[Category.KNOWLEDGE]
    assert len(json.dumps(dropped.item)) < 20_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["knowledge", "tasks", "evidence", "event", "x"]), inner)
    ),
    max_leaves=12,
)


@given(st.text(st.characters(codec=None), max_size=200) | st.text(alphabet='{}[]",:knowledgtas`<>/ 01\n', max_size=200))
def test_any_text_is_read_or_malformed(text: str) -> None:
    try:
        read_reply(text, TWO)
    except MalformedOutput:
        looks_cut_off(text)


@given(JSON, st.booleans())
def test_any_json_is_read_or_malformed(value: Any, fenced: bool) -> None:
    text = json.dumps(value)
    try:
        sections = read_reply(f"```json\n{text}\n```" if fenced else text, TWO)
    except MalformedOutput:
        return
    assert set(sections.items) | set(sections.broken) == set(TWO)


def test_brackets_without_end_are_malformed_in_no_time() -> None:
    for text in ("[" * 200_000, '{"knowledge":' * 100_000, "<think>" * 100_000):
        with pytest.raises(MalformedOutput):
            read_reply(text, TWO)
        looks_cut_off(text)
