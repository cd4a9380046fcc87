"""A loop's entries as its steps read them, and the words with which a loop ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memory.knowledge.answers import NotInForm, checked_schema, ending_text, fitting_text, in_form, json_bytes
from memory.knowledge.reading import in_reading_order, last_answer, said_by_caller
from memory.model.errors import InvalidInput
from memory.model.knowledge_loop import Entry, EntryKind, Loop, LoopState, Operation

CALLS = [{"call_id": "c1", "name": "filter"}]


def reply(number: int, step: int, *, seen: int, text: str = "", calls: Any = CALLS, **body: Any) -> Entry:
    return Entry(f"model/{step}", EntryKind.MODEL, step, {"text": text, "calls": calls, "seen": seen, **body}, number)


def result(number: int, step: int, index: int, **body: Any) -> Entry:
    return Entry(f"result/{step}/{index}", EntryKind.RESULT, step, {"content": "{}", **body}, number)


def said(number: int, text: str) -> Entry:
    return Entry(f"interjection/{number}", EntryKind.INTERJECTION, 0, {"text": text}, number)


def test_what_was_said_stands_where_the_model_reads_it() -> None:
    """3 came while the first reply was made; 5 while its tools ran; 8 before the second reply was asked for; 10 after it."""
    entries = [
        said(1, "a"), said(3, "b"), reply(4, 1, seen=1), said(5, "c"), result(6, 1, 1), result(7, 1, 0), said(8, "d"),
        reply(9, 2, seen=8), said(10, "e"), Entry("stop", EntryKind.STOP, 0, {}, 11),
    ]  # fmt: skip
    ordered = [entry.number for entry in in_reading_order(entries)]
    assert ordered == [1, 4, 7, 6, 3, 5, 8, 9, 10]


def test_only_the_callers_own_words_count_as_said() -> None:
    loop = Loop(
        "l", Operation.UPDATE, "the request", "personal", datetime.now(UTC), instructions="delete all", context=({"content": "no"},)
    )
    answer = Entry("answer/clarification/1/0", EntryKind.ANSWER, 1, {"text": "an answer"}, 5)
    side = Entry("question/x", EntryKind.SIDE_QUESTION, 1, {"text": "delete"}, 6)
    entries = [reply(1, 1, seen=0, text="delete it"), result(2, 1, 0, content="delete"), said(3, "a word"), answer, side]
    assert said_by_caller(loop, entries) == ["the request", "a word", "an answer"]


def test_the_answer_is_the_newest_reply_that_calls_nothing() -> None:
    entries = [
        reply(1, 1, seen=0, text="let me see"),
        reply(2, 2, seen=1, text="three", calls=[]),
        reply(3, 3, seen=2, text="cut", calls=[], problem="truncated"),
        reply(4, 4, seen=3, text='{"n": 3}', calls=[], structured=True),
    ]
    assert last_answer(entries) == "three"
    assert last_answer(entries, structured=True) == '{"n": 3}'
    assert last_answer(entries[:1]) is None


@pytest.mark.parametrize("text", ['{"n": 3}', ' {"n": 3}\n', '```json\n{"n": 3}\n```'])
def test_an_answer_in_its_form_is_read(text: str) -> None:
    assert in_form(text, {"type": "object", "required": ["n"]}) == {"n": 3}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("three", {}),
        ("{}", {"required": ["n"]}),
        ("3", {"type": "string"}),
        ("3", {"$ref": "https://example.org/elsewhere.json"}),
        ("[" * 100_000, {}),
    ],
)
def test_an_answer_that_is_not_in_its_form_is_told_apart(text: str, schema: dict[str, Any]) -> None:
    with pytest.raises(NotInForm):
        in_form(text, schema)


@pytest.mark.parametrize("schema", [{"type": 3}, {"x": {1, 2}}, {"description": "y" * 40_000}, ["a"], None])
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidInput, match="response_format"):
        checked_schema(schema)


def test_a_schema_may_not_be_deeper_than_anybody_needs() -> None:
    schema: dict[str, Any] = {}
    for _ in range(40):
        schema = {"items": schema}
    with pytest.raises(InvalidInput, match="levels deep"):
        checked_schema(schema)


@pytest.mark.parametrize("text", ["a" * 5_000, "\x01" * 5_000, '"' * 5_000, "ä" * 3_000, "🚗" * 2_000, "\ud83d" * 2_000, "short"])
def test_a_text_is_shortened_to_what_its_json_may_take(text: str) -> None:
    fitting = fitting_text(text, 2_000)
    assert (json_bytes(fitting) or 0) <= 2_000
    assert fitting == "short" or len(fitting) > 100


def test_what_no_json_can_hold_has_no_size() -> None:
    assert json_bytes({"n": float("nan")}) is None
    assert json_bytes({"n": 1}) == 8


def test_every_end_without_an_answer_says_what_happened_and_what_stands() -> None:
    assert ending_text(LoopState.STOPPED, "stopped", steps=1, said="lunch") == (
        "Stopped after 1 step. What was done until then stands. Reason: lunch"
    )
    assert "limit of tokens" in ending_text(LoopState.LIMIT, "tokens", steps=7)
    assert "nothing was changed" in ending_text(LoopState.FAILED, "user_opted_out", steps=0)
    assert "ModelRejected" in ending_text(LoopState.FAILED, "model_failed:ModelRejected", steps=3)
    assert "what was done until then stands" in ending_text(LoopState.FAILED, "empty", steps=3)
    assert "(another_code)" in ending_text(LoopState.FAILED, "another_code", steps=3)
