"""Conversation files: what is accepted, and what is said about what is not."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.errors import InvalidInput
from memory.model.redaction import redact
from memory.model.turn import MAX_MESSAGE_BYTES, Turn
from starter.conversations import (
    DEFAULT_CONVERSATION,
    FORMAT,
    Conversation,
    ConversationTurn,
    load_conversation,
    parse_conversation,
    shipped_conversations,
)

SHIPPED = ("engineer", "product-manager", "traveller")
AT = "2026-06-17T12:00:00+02:00"


def content(**changes: Any) -> dict[str, Any]:
    return {"format": FORMAT, "title": "A talk", "turns": [{"at": AT, "user": "hello"}]} | changes


def parsed(value: Any) -> Conversation:
    return parse_conversation(json.dumps(value).encode(), name="talk.json")


def complaint(value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        parsed(value)
    return caught.value.message


class TestShipped:
    def test_there_are_three_and_the_default_is_one_of_them(self) -> None:
        assert tuple(shipped_conversations()) == SHIPPED
        assert DEFAULT_CONVERSATION in SHIPPED

    @pytest.mark.parametrize("name", SHIPPED)
    def test_each_holds_what_a_demo_must_show(self, name: str) -> None:
        talk = load_conversation(name)
        assert len(talk.turns) >= 25
        assert {turn.expect for turn in talk.turns} == {"update", "noop"}
        assert len(talk.secrets) >= 3
        assert any(not turn.assistant for turn in talk.turns if turn.user), "a turn that was only a tool call"
        assert any("```" in (turn.assistant or "") for turn in talk.turns), "a request for code"

    @pytest.mark.parametrize("name", SHIPPED)
    def test_every_secret_is_one_that_redaction_knows(self, name: str) -> None:
        for turn in load_conversation(name).turns:
            said = redact(f"{turn.user or ''}\n{turn.assistant or ''}")
            assert bool(turn.secrets) == said.found, f"{name} {turn.id}"
            assert not [secret for secret in turn.secrets if secret in said.text], f"{name} {turn.id}"

    def test_languages_are_mixed(self) -> None:
        traveller = "".join(turn.user or "" for turn in load_conversation("traveller").turns)
        engineer = "".join(turn.user or "" for turn in load_conversation("engineer").turns)
        assert any("\u4e00" <= c <= "\u9fff" for c in traveller)
        assert "Ich " in traveller
        assert "I prefer" in traveller
        assert "Ich " in engineer
        assert "I prefer" in engineer


class TestAccepted:
    def test_defaults(self) -> None:
        talk = parsed(content())
        assert (talk.tenant, talk.user) == ("demo", "me")
        turn = talk.turns[0]
        assert (turn.id, turn.user, turn.assistant, turn.expect) == ("turn-0001", "hello", None, None)

    def test_a_time_without_an_offset_is_in_the_zone_of_the_conversation(self) -> None:
        turns = [{"at": "2026-06-17T12:00:00"}]
        assert parsed(content(turns=turns)).turns[0].at == datetime(2026, 6, 17, 12, tzinfo=UTC)
        assert parsed(content(turns=turns, timezone="Europe/Berlin")).turns[0].at == datetime(2026, 6, 17, 10, tzinfo=UTC)

    def test_a_byte_order_mark_is_no_harm(self) -> None:
        data = b"\xef\xbb\xbf" + json.dumps(content()).encode()
        assert parse_conversation(data, name="x").title == "A talk"

    def test_standard_input(self) -> None:
        assert load_conversation("-", io.BytesIO(json.dumps(content()).encode())).title == "A talk"

    def test_a_path_and_not_a_name_that_looks_like_one(self, tmp_path: Path) -> None:
        path = tmp_path / "engineer"
        path.write_text(json.dumps(content()), "utf-8")
        assert load_conversation(str(path)).title == "A talk"
        assert load_conversation("engineer").title != "A talk"

    def test_text_is_taken_as_it_is_and_makes_a_turn(self) -> None:
        odd = "a\u0000b \ud83d 👩\u200d🚀 \u202e\r\n"
        turn = parsed(content(turns=[{"at": AT, "user": odd, "assistant": ""}])).turns[0]
        assert turn.user == odd
        assert Turn(turn_id="1", user_text=turn.user, assistant_text=turn.assistant, occurred_at=turn.at).user_text == odd

    def test_the_largest_message(self) -> None:
        text = "x" * MAX_MESSAGE_BYTES
        assert parsed(content(turns=[{"at": AT, "user": text}])).turns[0].user == text

    def test_nothing_of_what_was_said_is_in_its_repr(self) -> None:
        talk = parsed(content(turns=[{"at": AT, "user": "canary 4711", "secrets": ["canary 4711"]}]))
        assert "canary" not in repr(talk)


REFUSED = [
    pytest.param({"turns": "x"}, "talk.json: 'turns': must be a list", id="turns no list"),
    pytest.param({"turns": []}, "talk.json: 'turns': is empty", id="no turns"),
    pytest.param({"turns": [7]}, "talk.json: turn 1: must be an object", id="turn no object"),
    pytest.param({"turns": [{"user": "x"}]}, "talk.json: turn 1: 'at': is missing", id="no time"),
    pytest.param(
        {"turns": [{"at": AT}, {"at": "yesterday", "id": "lunch"}]},
        "talk.json: turn 2 (id lunch): 'at': is not a date and time of ISO 8601",
        id="bad time",
    ),
    pytest.param({"turns": [{"at": 1_700_000_000}]}, "talk.json: turn 1: 'at': must be a text such as", id="time no text"),
    pytest.param({"turns": [{"at": "0001-01-01T00:00:00+14:00"}]}, "talk.json: turn 1: 'at': is out of range", id="time range"),
    pytest.param({"turns": [{"at": AT, "user": 5}]}, "talk.json: turn 1: 'user': must be a text", id="message no text"),
    pytest.param(
        {"turns": [{"at": AT, "assistant": "é" * (MAX_MESSAGE_BYTES // 2 + 1)}]},
        "talk.json: turn 1: 'assistant': is longer than",
        id="message too long",
    ),
    pytest.param(
        {"turns": [{"at": AT, "usr": "x"}]}, "talk.json: turn 1: 'usr': is not a field of this format", id="unknown field"
    ),
    pytest.param(
        {"turns": [{"at": AT, "expect": "maybe"}]}, "talk.json: turn 1: 'expect': should be 'update' or 'noop'", id="expect"
    ),
    pytest.param({"turns": [{"at": AT, "id": ""}]}, "talk.json: turn 1: 'id': ", id="empty id"),
    pytest.param(
        {"turns": [{"at": AT, "id": "a"}, {"at": AT, "id": "a"}]},
        "talk.json: turn 2 (id a): 'id': is the id of turn 1 already",
        id="same id twice",
    ),
    pytest.param(
        {"turns": [{"at": AT}, {"at": "2026-06-17T09:59:59Z"}]},
        "talk.json: turn 2: 'at': is before the turn above it",
        id="backwards",
    ),
    pytest.param(
        {"turns": [{"at": AT, "user": "x", "secrets": ["1234"]}]},
        "talk.json: turn 1: 'secrets': names a text that nobody says",
        id="secret not said",
    ),
    pytest.param({"format": "other/1"}, "talk.json: 'format': should be 'afterturn-conversation/1'", id="format"),
    pytest.param({"title": ""}, "talk.json: 'title': ", id="title"),
    pytest.param({"tenant": ""}, "talk.json: 'tenant': ", id="tenant"),
    pytest.param({"user": "u" * 5000}, "talk.json: 'user': ", id="user"),
    pytest.param({"timezone": "Mars/Olympus"}, "talk.json: 'timezone': is not a time zone", id="zone"),
    pytest.param({"timezone": "../../etc/passwd"}, "talk.json: 'timezone': is not a time zone", id="zone outside"),
    pytest.param({"extra": 1}, "talk.json: 'extra': is not a field", id="extra"),
]


class TestRefused:
    @pytest.mark.parametrize(("changes", "expected"), REFUSED)
    def test_one_line_names_file_turn_and_field(self, changes: dict[str, Any], expected: str) -> None:
        message = complaint(content(**changes))
        assert message.startswith(expected)
        assert "\n" not in message

    def test_several_faults_are_counted(self) -> None:
        assert complaint(content(turns=[{"at": 1, "user": 2}, {"user": 3}])).endswith("(and 3 more)")

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"", "x: is empty"),
            (b" \n", "x: is empty"),
            (b"\xff\xfe{", "x: is not UTF-8 (byte 0)"),
            (b'{"format": ', "x: is not JSON: Expecting value (line 1, column 12)"),
            (b"[]", "x: must be an object"),
            (b"null", "x: must be an object"),
            (b'{"title": "a", "title": "b"}', "x: the key 'title' is there twice"),
            (b"[" * 100_000, "x: is not a conversation: nested too deeply"),
            (b"1" * 10_000, "x: is not a conversation"),
        ],
    )
    def test_not_even_json(self, data: bytes, expected: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_conversation(data, name="x")
        assert caught.value.message.startswith(expected)

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("enginer", "did you mean engineer?"),
            ("nothing-like-it", "shipped ones are engineer, product-manager, traveller"),
            ("/tmp", "is a folder"),
            ("a\0b", "cannot be read"),
            ("../conversations/engineer", "there is no such file"),
        ],
    )
    def test_no_such_file(self, source: str, expected: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            load_conversation(source)
        assert expected in caught.value.message

    def test_nothing_of_what_was_said_is_in_the_message(self) -> None:
        message = complaint(content(turns=[{"at": "canary", "user": ["canary"], "expect": "canary", "secrets": "canary"}]))
        assert "canary" not in message


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(
    value=JSON_VALUES
    | st.fixed_dictionaries({"format": st.just(FORMAT), "title": st.just("t"), "turns": st.lists(JSON_VALUES, max_size=3)})
)
def test_any_json_is_a_conversation_or_one_clear_line(value: Any) -> None:
    problem = ""
    turns: tuple[ConversationTurn, ...] = ()
    try:
        turns = parse_conversation(json.dumps(value).encode(), name="f").turns
    except InvalidInput as error:
        problem = error.message
    assert turns or problem.startswith("f: ")
    assert "\n" not in problem
    assert all(turn.id and turn.at.utcoffset() is not None for turn in turns)


@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_conversation(data, name="f")


@given(hours=st.lists(st.integers(0, 10), min_size=1, max_size=20))
def test_turns_keep_their_order_and_get_distinct_ids(hours: list[int]) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    turns = [{"at": (start + timedelta(hours=hour)).isoformat()} for hour in sorted(hours)]
    talk = parsed(content(turns=turns))
    assert [turn.at.isoformat() for turn in talk.turns] == [turn["at"] for turn in turns]
    assert len({turn.id for turn in talk.turns}) == len(turns)
