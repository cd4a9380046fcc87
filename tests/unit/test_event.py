"""Events, their deterministic ids, and the events of a turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, Event, ManagerMethodEvent, MessageEvent, Phase, turn_messages
from memory.model.turn import MAX_MESSAGE_BYTES, Turn

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)


def a_message(**fields: object) -> MessageEvent:
    return MessageEvent.model_validate({"timestamp": NOW, "sender_id": "u", "content": "hello"} | fields)


def a_call(**fields: object) -> ManagerMethodEvent:
    given = {"timestamp": NOW, "manager": "tasks", "method": "update", "phase": "incoming", "calling_id": "c1"}
    return ManagerMethodEvent.model_validate(given | fields)


class TestIds:
    def test_the_same_content_gives_the_same_id(self) -> None:
        assert a_message().event_id == a_message().event_id
        assert a_call(payload={"b": 1, "a": [2]}).event_id == a_call(payload={"a": [2], "b": 1}).event_id

    @pytest.mark.parametrize(
        "change",
        [
            {"content": "hello!"},
            {"content": None},
            {"sender_id": "v"},
            {"receiver_ids": ["w"]},
            {"medium": "sms"},
            {"timestamp": NOW + timedelta(microseconds=1)},
        ],
    )
    def test_any_other_content_gives_another(self, change: dict[str, object]) -> None:
        assert a_message(**change).event_id != a_message().event_id

    def test_a_call_and_its_answer_differ(self) -> None:
        assert a_call().event_id != a_call(phase="outgoing").event_id

    def test_a_given_id_is_kept(self) -> None:
        assert a_message(event_id="mine").event_id == "mine"


class TestShape:
    def test_a_time_without_a_zone_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="timezone"):
            a_message(timestamp=NOW.replace(tzinfo=None))

    def test_json_round_trip_by_kind(self) -> None:
        adapter: TypeAdapter[MessageEvent | ManagerMethodEvent] = TypeAdapter(Event)
        for event in (a_message(receiver_ids=["a", "b"]), a_call(payload={"x": [1, "ü"]})):
            assert adapter.validate_json(adapter.dump_json(event)) == event

    def test_no_text_is_shown(self) -> None:
        assert "canary" not in repr(a_message(content="canary"))
        assert "canary" not in repr(a_call(payload={"x": "canary"}))
        with pytest.raises(ValidationError) as caught:
            a_message(content="canary", surprise="canary")
        assert "canary" not in str(caught.value)

    def test_an_event_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            a_message().content = "other"  # type: ignore[misc]

    @pytest.mark.parametrize(("content", "empty"), [(None, True), ("", True), (" \n", True), ("x", False)])
    def test_a_message_without_content_is_empty(self, content: str | None, empty: bool) -> None:
        assert a_message(content=content).is_empty is empty

    @pytest.mark.parametrize(
        ("manager", "own"),
        [("memory", True), ("MemoryManager", True), ("memory_manager", True), ("tasks", False), ("memory_lane", False)],
    )
    def test_the_memory_knows_its_own_calls(self, manager: str, own: bool) -> None:
        assert a_call(manager=manager).is_own is own

    def test_phases(self) -> None:
        assert [phase.value for phase in Phase] == ["incoming", "outgoing"]


class TestTurnMessages:
    def test_a_turn_is_two_messages(self) -> None:
        at = datetime(2026, 6, 17, 14, tzinfo=timezone(timedelta(hours=2)))
        user, assistant = turn_messages(Turn(turn_id="t", user_text="Hi", assistant_text="Hello", occurred_at=at, medium="email"))
        assert (user.sender_id, user.receiver_ids, user.content) == (USER_ID, (ASSISTANT_ID,), "Hi")
        assert (assistant.sender_id, assistant.receiver_ids, assistant.content) == (ASSISTANT_ID, (USER_ID,), "Hello")
        assert {(m.timestamp, m.medium) for m in (user, assistant)} == {(at, "email")}
        assert MessageEvent.model_validate(user.model_dump()) == user

    def test_the_ids_come_from_the_turn_id_alone(self) -> None:
        first = turn_messages(Turn(turn_id="t", user_text="a", assistant_text="b", occurred_at=NOW))
        again = turn_messages(Turn(turn_id="t", user_text="c", assistant_text="d", occurred_at=NOW + timedelta(1)))
        other = turn_messages(Turn(turn_id="u", user_text="a", assistant_text="b", occurred_at=NOW))
        assert [m.event_id for m in first] == [m.event_id for m in again]
        assert len({m.event_id for m in (*first, *other)}) == 4

    @pytest.mark.parametrize("empty", [None, "", " \t\n", "\x00"])
    def test_a_side_that_says_nothing_makes_no_event(self, empty: str | None) -> None:
        assert turn_messages(Turn(turn_id="t", user_text=empty, assistant_text=empty, occurred_at=NOW)) == ()
        [only] = turn_messages(Turn(turn_id="t", user_text=empty, assistant_text="x", occurred_at=NOW))
        assert only.sender_id == ASSISTANT_ID

    def test_too_long_is_refused_with_sizes_and_without_the_text(self) -> None:
        turn = Turn(turn_id="t", user_text="ü" * MAX_MESSAGE_BYTES, occurred_at=NOW)
        with pytest.raises(InvalidInput) as caught:
            turn_messages(turn)
        assert f"{2 * MAX_MESSAGE_BYTES} bytes" in str(caught.value)
        assert "ü" not in str(caught.value)

    @given(st.text(st.characters(exclude_categories=[])), st.text(min_size=1, max_size=50))
    def test_whatever_the_text_the_content_can_be_stored(self, text: str, turn_id: str) -> None:
        turn = Turn(turn_id="t", occurred_at=NOW).model_copy(update={"user_text": text, "turn_id": turn_id})
        for message in turn_messages(turn):
            assert message.content is not None
            assert "\x00" not in message.content
            message.content.encode("utf-8")
            assert message.event_id.isascii()
