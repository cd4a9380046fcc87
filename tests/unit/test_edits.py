"""The ``edits`` mode: named changes, and nothing that is not named."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.edits import EDITS_SCHEMA, MAX_EDITS, MAX_TEXT_CHARS, Edit, Edits, apply_edits, number_bullets, parse_edits
from memory.model.errors import MalformedOutput
from memory.model.profile import EMPTY_PROFILE, SECTIONS, Bullet, Profile
from memory.model.reply import NOOP
from tests.support.profiles import ANY_TEXT, PROFILES

NOON = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
BASE = Profile.of(
    {
        "Identity": ["Anna", "Works at Siemens"],
        "Work Context": ["Reporting", Bullet("Project Apollo", ("deadline May", "with Ben")), "Hiring"],
        "Recent Topics": ["2026-06-01 08:00 UTC: Kafka"],
        "Follow-ups": ["Send the report"],
    },
    truncated=True,
)


def edited(*edits: dict[str, Any], profile: Profile = BASE, at: datetime | None = None) -> Profile:
    parsed = parse_edits(json.dumps({"edits": edits}))
    assert isinstance(parsed, Edits)
    return apply_edits(profile, parsed, occurred_at=at)


def test_what_the_model_sees():
    assert number_bullets(BASE).startswith(
        "## Identity (I)\nI1: Anna\nI2: Works at Siemens\n\n## Communication Preferences (C)\n_(empty)_\n\n"
    )
    assert "W2: Project Apollo\n  W2.1: deadline May\n  W2.2: with Ben\nW3: Hiring\n" in number_bullets(BASE)


def test_the_four_operations():
    result = edited(
        {"op": "add", "to": "C", "text": "Short answers"},
        {"op": "update", "target": "I2", "text": "Works at Bosch"},
        {"op": "delete", "target": "F1"},
        {"op": "move", "target": "W3", "to": "S"},
    )
    assert result == Profile.of(
        {
            "Identity": ["Anna", "Works at Bosch"],
            "Communication Preferences": ["Short answers"],
            "Work Context": ["Reporting", Bullet("Project Apollo", ("deadline May", "with Ben"))],
            "Skills & Expertise": ["Hiring"],
            "Recent Topics": ["2026-06-01 08:00 UTC: Kafka"],
        }
    )


def test_numbers_mean_the_profile_that_the_model_saw():
    result = edited({"op": "delete", "target": "W1"}, {"op": "delete", "target": "W3"}, {"op": "add", "to": "W", "text": "x"})
    assert result.section("Work Context") == (Bullet("Project Apollo", ("deadline May", "with Ben")), Bullet("x"))


def test_sub_bullets_of_a_deleted_bullet_stay():
    result = edited({"op": "delete", "target": "W2"}, {"op": "delete", "target": "W2.2"})
    assert [bullet.text for bullet in result.section("Work Context")] == ["Reporting", "deadline May", "Hiring"]


def test_under_a_bullet():
    result = edited(
        {"op": "add", "to": "W1", "text": "weekly"},
        {"op": "move", "target": "W2", "to": "W1"},
        {"op": "update", "target": "W2.1", "text": "deadline June"},
        {"op": "move", "target": "W2.2", "to": "I"},
        {"op": "add", "to": "W2.1", "text": "sharp"},
    )
    assert result.section("Work Context") == (
        Bullet("Reporting", ("weekly", "Project Apollo", "deadline June", "sharp")),
        Bullet("Hiring"),
    )
    assert result.section("Identity")[-1] == Bullet("with Ben")


def test_moved_with_its_sub_bullets_and_under_something_deleted():
    result = edited(
        {"op": "move", "target": "W2", "to": "F"}, {"op": "delete", "target": "W1"}, {"op": "move", "target": "W3", "to": "W1"}
    )
    assert result.section("Work Context") == (Bullet("Hiring"),)
    assert result.section("Follow-ups")[-1] == Bullet("Project Apollo", ("deadline May", "with Ben"))


def test_a_text_that_is_there_already_is_not_added_again():
    assert edited({"op": "add", "to": "I", "text": "anna"}).section("Identity") == BASE.section("Identity")
    assert edited({"op": "add", "to": "S", "text": "Go"}, {"op": "add", "to": "S", "text": "go"}).section("Skills & Expertise") == (
        Bullet("Go"),
    )
    swapped = edited({"op": "delete", "target": "I1"}, {"op": "add", "to": "I", "text": "Anna"})
    assert [bullet.text for bullet in swapped.section("Identity")] == ["Works at Siemens", "Anna"]


def test_new_topics_get_the_time_of_the_turn():
    result = edited(
        {"op": "add", "to": "R", "text": "Pulsar"},
        {"op": "add", "to": "R", "text": "2020-01-01 00:00 UTC: Flink"},
        {"op": "add", "to": "I", "text": "Berlin"},
        at=NOON,
    )
    assert [bullet.text for bullet in result.section("Recent Topics")] == [
        "2026-06-01 08:00 UTC: Kafka",
        "2026-06-17 12:00 UTC: Pulsar",
        "2026-06-17 12:00 UTC: Flink",
    ]
    assert result.section("Identity")[-1].text == "Berlin"


def test_texts_are_made_one_bullet():
    result = edited(
        {"op": "add", "to": "I", "text": "- I3: speaks\n  German\x00 "},
        {"op": "update", "target": "I1", "text": "I1: Anna Schmidt"},
    )
    assert [bullet.text for bullet in result.section("Identity")] == ["Anna Schmidt", "Works at Siemens", "speaks German"]


@pytest.mark.parametrize(
    "text",
    [
        'Here you go:\n```json\n{"edits": [{"op": "delete", "target": "F1"}]}\n```\nDone!',
        '[{"op": "delete", "target": "F1"}]',
        '{"edits": [{"OP": "Remove", "id": "[f1]"}]}',
        '{"edits": [{"op": "delete", "target": "F1:"}, {"op": "noop"}]}',
        '<think>{"edits": []}</think>{"edits": [{"op": "delete", "target": " F1 ", "text": null, "to": ""}]}',
    ],
)
def test_replies_in_other_forms(text: str):
    parsed = parse_edits(text)
    assert isinstance(parsed, Edits)
    assert apply_edits(BASE, parsed).section("Follow-ups") == ()


@pytest.mark.parametrize("place", ["W", "w", "[W]", "Work Context", "work context", "## Work Context", "W (Work Context)"])
def test_places_in_other_forms(place: str):
    assert edited({"op": "add", "to": place, "text": "x"}).section("Work Context")[-1].text == "x"


@pytest.mark.parametrize("text", ["NOOP", "```\nNOOP\n```", '{"edits": []}', '{"edits": [{"op": "noop"}]}', "[]", "Decision: NOOP"])
def test_nothing_to_do(text: str):
    assert parse_edits(text) is NOOP


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("I added it.", "no complete JSON"),
        ('{"edits": [{"op": "delete", "target": "F1"}', "no complete JSON"),
        ('{"edits": [{"op": "delete", "target": "F1"}]} {"edits": []}', "several JSON objects"),
        ('{"edits": {"op": "delete"}}', "not a list"),
        ('{"edits": ["F1"]}', "edit 1 is not an object"),
        ('{"edits": [{"op": "drop table", "target": "F1"}]}', "edit 1 has no operation"),
        ('{"edits": [{"target": "F1"}]}', "edit 1 has no operation"),
        ('{"edits": [{"op": "delete", "target": "the secret thing"}]}', "edit 1 .delete. has no bullet number"),
        ('{"edits": [{"op": "delete", "target": "*"}]}', "no bullet number"),
        ('{"edits": [{"op": "delete", "target": "W1-W3"}]}', "no bullet number"),
        ('{"edits": [{"op": "update", "target": "I1"}]}', "has no text"),
        ('{"edits": [{"op": "add", "to": "I", "text": "…"}]}', "has no text"),
        ('{"edits": [{"op": "add", "to": "Hobbies", "text": "chess"}]}', "section letter"),
        ('{"edits": [{"op": "add", "to": "I", "text": 5}]}', "not a string"),
        (json.dumps({"edits": [{"op": "add", "to": "I", "text": "x" * (MAX_TEXT_CHARS + 1)}]}), "at most 2000"),
        (json.dumps({"edits": [{"op": "delete", "target": f"I{n}"} for n in range(MAX_EDITS + 1)]}), "at most 100"),
    ],
)
def test_unusable_replies_are_refused_with_a_reason(text: str, problem: str):
    with pytest.raises(MalformedOutput, match=problem) as error:
        parse_edits(text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ([{"op": "delete", "target": "W9"}], "there is no bullet W9"),
        ([{"op": "update", "target": "w2.7", "text": "x"}], "there is no bullet W2.7"),
        ([{"op": "delete", "target": "I0"}], "there is no bullet I0"),
        ([{"op": "add", "to": "S1", "text": "x"}], "there is no bullet S1"),
        ([{"op": "update", "target": "I1", "text": "x"}, {"op": "delete", "target": "I1"}], "I1 is named by more than one edit"),
        ([{"op": "move", "target": "W2", "to": "W2.1"}], "W2 cannot be moved under itself"),
        (
            [{"op": "move", "target": "W1", "to": "W2"}, {"op": "move", "target": "W2", "to": "W1"}],
            "W2 cannot be moved under itself",
        ),
    ],
)
def test_wrong_targets_are_named(edits: list[dict[str, Any]], problem: str):
    with pytest.raises(MalformedOutput, match=problem):
        edited(*edits)


def test_schema_is_strict():
    """As OpenAI's structured output wants it: no optional property, nothing additional, on every object."""
    variants = EDITS_SCHEMA["properties"]["edits"]["items"]["anyOf"]
    for schema in (EDITS_SCHEMA, *variants):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
    assert [schema["properties"]["op"]["enum"] for schema in variants] == [["add"], ["update"], ["delete"], ["move"]]


@given(PROFILES, st.data())
def test_what_is_not_named_stays(profile: Profile, data: st.DataObject):
    numbers = [line.split(":")[0].strip() for line in number_bullets(profile).splitlines() if line[:1] in "ICWSRF " and ":" in line]
    every = dict(zip(numbers, (line for bullets in profile.sections for bullet in bullets for line in bullet.lines), strict=True))
    named = data.draw(st.lists(st.sampled_from(numbers), unique=True, max_size=8)) if numbers else []
    places = [*"ICWSRF", *numbers]
    edits: list[dict[str, str]] = []
    gone: list[str] = []
    made: list[str] = []
    for number in named:
        op = data.draw(st.sampled_from(["update", "delete", "move"]))
        edits.append(
            {
                "op": op,
                "target": number,
                "text": f"new {number}" if op == "update" else "",
                "to": data.draw(st.sampled_from(places)),
            }
        )
        gone += [every[number]] if op != "move" else []
        made += [f"new {number}"] if op == "update" else []
    if not edits:
        return
    try:
        result = edited(*edits, profile=profile)
    except MalformedOutput as error:
        assert "under itself" in error.message  # noqa: PT017
        return
    left = Counter(line for bullets in result.sections for bullet in bullets for line in bullet.lines)
    expected = Counter(every.values())
    expected.subtract(gone)
    expected.update(made)
    assert left == +expected


@given(ANY_TEXT)
def test_any_reply_gives_edits_noop_or_a_reason(text: str):
    try:
        parsed = parse_edits(text)
    except MalformedOutput:
        return
    assert parsed is NOOP or isinstance(parsed, Edits)


def test_an_empty_profile_can_be_filled():
    result = edited(*({"op": "add", "to": name[0], "text": name} for name in SECTIONS), profile=EMPTY_PROFILE)
    assert [bullets[0].text for bullets in result.sections] == list(SECTIONS)


def test_an_edit_whose_text_ends_in_the_word_noop_is_no_noop():
    found = parse_edits('{"edits": [{"op": "add", "to": "C", "text": "When nothing changes, the answer: NOOP"}]}')
    assert found == Edits((Edit("add", None, 1, "When nothing changes, the answer: NOOP"),))
