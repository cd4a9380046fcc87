"""Files of events: what `afterturn demo --events` and `afterturn events record` take, and what is said of bad ones."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.redaction import redact
from starter.event_files import SHIPPED_EVENTS, load_events, parse_events

LOCOMO = Path(__file__).parents[3] / "shared/data/locomo-dev.json"
MESSAGE = {
    "timestamp": "2026-06-17T12:00:00+02:00",
    "sender_id": "ada",
    "receiver_ids": ["user"],
    "medium": "email",
    "content": "Hi.",
}
CALL = {
    "timestamp": "2026-06-17T12:01:00Z",
    "manager": "TaskManager",
    "method": "update",
    "phase": "incoming",
    "calling_id": "c1",
    "payload": {"text": "Water the plants"},
}
DIALOGUE: dict[str, Any] = {
    "sample_id": "garden",
    "conversation": {
        "speaker_a": "Yusuf",
        "speaker_b": "Greta",
        "session_2_date_time": "10:05 am on 3 June, 2024",
        "session_2": [{"speaker": "Greta", "dia_id": "D2:1", "text": "The beans are up."}],
        "session_1_date_time": "7:30 pm on 28 May, 2024",
        "session_1": [
            {"speaker": "Yusuf", "dia_id": "D1:1", "text": "I sowed beans today."},
            {"speaker": "Greta", "dia_id": "D1:2", "text": "Look at mine!", "blip_caption": "a raised bed with lettuce"},
            {"speaker": "Yusuf", "dia_id": "D1:3", "blip_caption": "a watering can"},
        ],
    },
    "qa": [{"question": "not an event"}],
}
NO_ZONE = "line 2: 'timestamp': needs a time zone, such as 2026-06-17T12:00:00+02:00"


def lines(*values: object) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def refused(data: bytes) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_events(data, name="week.jsonl")
    return caught.value.message


# --------------------------------------------------------------------------------------------------------------- JSON Lines


def test_messages_and_manager_calls_are_read_in_order() -> None:
    (stream,) = parse_events(b"\xef\xbb\xbf" + lines(MESSAGE, CALL) + b"\n  \n", name="week.jsonl")
    message, call = stream.events
    assert isinstance(message, MessageEvent)
    assert (message.sender_id, message.medium, message.content) == ("ada", "email", "Hi.")
    assert isinstance(call, ManagerMethodEvent)
    assert call.payload == {"text": "Water the plants"}
    assert stream.senders == ("ada",)
    assert stream.media == {"email": 1}


def test_the_same_line_without_an_id_is_the_same_event() -> None:
    (stream,) = parse_events(lines(MESSAGE, MESSAGE), name="week.jsonl")
    assert stream.events[0].event_id == stream.events[1].event_id


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (b"{oops", "line 2: is not JSON: Expecting property name enclosed in double quotes (column 2)"),
        (b"[1]", "line 2: must be an object with the fields of an event"),
        (lines({**MESSAGE, "timestamp": "2026-06-17T12:00:00"}), NO_ZONE),
        (lines({"timestamp": "2026-06-17T12:00:00Z"}), "line 2: 'sender_id': is missing"),
        (lines({**MESSAGE, "mood": "good"}), "line 2: 'mood': is not a field of an event"),
        (lines({**CALL, "phase": "sideways"}), "line 2: 'phase': should be 'incoming' or 'outgoing'"),
        (lines({**MESSAGE, "kind": "letter"}), "line 2: 'kind': must be message or manager_method"),
        (lines({**MESSAGE, "content": "x" * (1024 * 1024 + 1)}), "line 2: 'content': is longer than 1048576 bytes of UTF-8"),
        (b'{"sender_id": NaN}', "line 2: is not JSON: NaN is not JSON"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_with_its_field_and_without_its_text(second: bytes, complaint: str) -> None:
    assert refused(lines(MESSAGE) + second) == f"week.jsonl: {complaint}"


def test_several_faults_of_one_line_are_counted() -> None:
    assert refused(lines({"content": "secret words"})) == "week.jsonl: line 1: 'timestamp': is missing (and 1 more)"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b" \n", "is empty"),
        (b"\xff\xfe", "is not UTF-8 (byte 0)"),
        (lines([MESSAGE]), "is a list, but not of conversations; events stand one a line, each an object"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1", "is not JSON (line 1, column 3)"),
    ],
)
def test_what_is_no_file_of_events_is_refused_in_one_line(data: bytes, complaint: str) -> None:
    assert refused(data).startswith(f"week.jsonl: {complaint}")


def test_a_file_a_name_and_standard_input_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "week.jsonl"
    file.write_bytes(lines(MESSAGE))
    assert len(load_events(str(file)).events) == 1
    assert len(load_events("-", stdin=io.BytesIO(lines(MESSAGE))).events) == 1
    with pytest.raises(InvalidInput, match="there is no such file; did you mean events-office"):
        load_events("event-office")
    with pytest.raises(InvalidInput, match="is a folder"):
        load_events(str(tmp_path))


# ------------------------------------------------------------------------------------------------------------------- LoCoMo


def test_a_dialogue_becomes_messages_by_session_and_turn() -> None:
    (stream,) = parse_events(json.dumps([DIALOGUE]).encode(), name="talks.json")
    assert stream.name == "garden"
    assert [event.event_id for event in stream.events] == ["garden-D1:1", "garden-D1:2", "garden-D1:3", "garden-D2:1"]
    messages = [event for event in stream.events if isinstance(event, MessageEvent)]
    assert [(one.sender_id, one.receiver_ids) for one in messages[:2]] == [("Yusuf", ("Greta",)), ("Greta", ("Yusuf",))]
    assert messages[0].timestamp == datetime(2024, 5, 28, 19, 30, tzinfo=UTC)
    assert messages[3].timestamp == datetime(2024, 6, 3, 10, 5, tzinfo=UTC)
    assert [event.timestamp for event in messages] == sorted(event.timestamp for event in messages)


def test_a_picture_counts_with_what_it_shows() -> None:
    (stream,) = parse_events(json.dumps(DIALOGUE).encode(), name="talks.json")
    said = [event.content for event in stream.events if isinstance(event, MessageEvent)]
    assert said[1] == "Look at mine! [image: a raised bed with lettuce]"
    assert said[2] == "[image: a watering can]"


def test_sessions_may_stand_at_the_top_and_several_dialogues_are_chosen_from(tmp_path: Path) -> None:
    file = tmp_path / "talks.json"
    file.write_text(json.dumps([DIALOGUE, DIALOGUE["conversation"]], indent=1))
    with pytest.raises(InvalidInput, match="holds 2 conversations; choose one with --sample: garden, conversation-2"):
        load_events(str(file))
    assert load_events(str(file), sample="garden").name == "garden"
    assert load_events(str(file), sample="2").events[0].event_id == "conversation-2-D1:1"
    with pytest.raises(InvalidInput, match="there is no conversation 'orchard'"):
        load_events(str(file), sample="orchard")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"session_1_date_time": None}, "session_1: there is no session_1_date_time"),
        ({"session_1_date_time": "some day"}, "session_1: its date_time is not a date and time such as 1:56 pm on 8 May, 2023"),
        ({"session_1": "hello"}, "session_1: must be a list of turns"),
        ({"session_1": ["hello"]}, "session_1: turn 1: must be an object"),
        ({"session_1": [{"text": "hello"}]}, "session_1: turn 1: 'sender_id': should be a valid string"),
    ],
)
def test_a_broken_dialogue_is_named_by_session_and_turn(change: dict[str, Any], complaint: str) -> None:
    broken = {"sample_id": "garden", "conversation": {**DIALOGUE["conversation"], **change}}
    assert refused(json.dumps(broken).encode()) == f"week.jsonl: garden: {complaint}"


@pytest.mark.skipif(not LOCOMO.exists(), reason="the LoCoMo conversations are not on this machine")
def test_the_real_data_set_can_be_read() -> None:
    streams = parse_events(LOCOMO.read_bytes(), name="locomo")
    assert len(streams) == 3
    for stream in streams:
        assert len(stream.events) > 300
        assert len(stream.senders) == 2
        times = [event.timestamp for event in stream.events]
        assert times == sorted(times)
        assert len({event.event_id for event in stream.events}) == len(times)


# ------------------------------------------------------------------------------------------------------------- the shipped one


def test_the_shipped_events_are_several_hundred_on_all_media_in_three_languages() -> None:
    stream = load_events(SHIPPED_EVENTS)
    ids = [event.event_id for event in stream.events]
    assert len(set(ids)) >= 300
    assert len(set(ids)) < len(ids), "a channel delivers twice"
    assert set(stream.media) == {"chat", "email", "sms", "call", "whatsapp"}
    assert len(stream.senders) >= 10
    calls = [event for event in stream.events if isinstance(event, ManagerMethodEvent)]
    assert {"TaskManager", "ContactManager", "KnowledgeManager"} <= {call.manager for call in calls}
    assert any(call.is_own for call in calls), "calls of the memory itself are dropped"
    said = " ".join(event.content or "" for event in stream.events if isinstance(event, MessageEvent))
    for words in ("Bauantrag", "陶板", "Correction:", "until 15 March", "moves to 26 September", "first switch on"):
        assert words in said, words


def test_the_shipped_events_hold_one_secret_for_the_redaction() -> None:
    said = [event.content or "" for event in load_events(SHIPPED_EVENTS).events if isinstance(event, MessageEvent)]
    assert sum(bool(redact(text).kinds) for text in said) == 1
