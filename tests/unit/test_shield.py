"""The shield: what a manager call shows as done is not done again, and nothing else is held back."""

from __future__ import annotations

from typing import Any

import pytest

from memory.model.event import Phase
from memory.model.shield import handled_by, is_write, manager_name
from tests.support.extractions import called, stored

KNOWLEDGE = frozenset({"knowledgemanager"})
CLAIM = "Invoices above 500 € need two signatures"


def handled(call: Any, *texts: str, values: tuple[str, ...] = (), managers: frozenset[str] = KNOWLEDGE) -> int | None:
    return handled_by(texts or (CLAIM,), stored("hello", call), managers, values=values)


@pytest.mark.parametrize(
    "method", ["add_knowledge", "update", "create_contact", "updateContact", "create_task", "_add", "delete_rows"]
)
def test_writing_shields(method: str) -> None:
    assert is_write(method)
    assert handled(called("KnowledgeManager", method, {"text": f"Please store: {CLAIM}"})) == 2


@pytest.mark.parametrize("method", ["ask", "search", "filter_contacts", "get_list_tasks", "_filter", "searchFacts", "getContact"])
def test_reading_does_not(method: str) -> None:
    assert not is_write(method)
    assert handled(called("KnowledgeManager", method, {"text": CLAIM})) is None


def test_the_request_and_the_answer_both_count() -> None:
    answer = called("KnowledgeManager", "update", {"answer": f"Stored that {CLAIM}."}, phase=Phase.OUTGOING)
    assert handled(answer) == 2


def test_a_call_that_targets_another_manager_does_not_block() -> None:
    assert handled(called("TaskManager", "create_task", {"text": CLAIM})) is None


def test_names_of_managers_are_compared_by_their_letters() -> None:
    assert manager_name("Knowledge_Manager 2") == "knowledgemanager"


@pytest.mark.parametrize(
    "payload", [{"text": "Invoices above 700 € need two signatures"}, {"text": "The office in Rome closes at six"}, {}]
)
def test_a_call_about_something_else_does_not_block(payload: dict[str, Any]) -> None:
    assert handled(called("KnowledgeManager", "update", payload)) is None


@pytest.mark.parametrize("answer", [{"error": "no such table"}, {"success": False}, {"status": "failed"}])
def test_a_call_that_failed_has_handled_nothing(answer: dict[str, Any]) -> None:
    events = stored(
        called("KnowledgeManager", "update", {"text": CLAIM}),
        called("KnowledgeManager", "update", {**answer, "text": CLAIM}, phase=Phase.OUTGOING),
    )
    assert handled_by([CLAIM], events, KNOWLEDGE) is None
    assert handled_by([CLAIM], events[:1], KNOWLEDGE) == 1


def test_addresses_and_numbers_have_to_be_in_the_call() -> None:
    managers = frozenset({"contactmanager"})
    call = called("ContactManager", "update_contact", {"contact_id": 7, "phone_number": "+49 (30) 123-4567"})
    assert handled(call, "", values=("+49301234567",), managers=managers) == 2
    assert handled(call, "", values=("+49309999999",), managers=managers) is None
    assert handled(call, "", managers=managers) is None


def test_other_languages() -> None:
    call = called("KnowledgeManager", "update", {"text": "请保存：超过五百元的发票需要两个签名"})
    assert handled(call, "超过五百元的发票需要两个签名") == 2
    assert handled(call, "办公室六点关门") is None
