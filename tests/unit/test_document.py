"""The stored file: frontmatter and body."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.model.document import Frontmatter, parse_document, render_document
from memory.model.profile import EMPTY_PROFILE, Profile, render_body
from tests.support.profiles import ANY_TEXT, BODIES, PROFILES

ANNA = Profile.of({"Identity": ["Anna"], "Skills & Expertise": ["Python"]})
NOON = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
FILE = f"""\
---
user_id: user_123
schema_version: 1
last_updated: 2026-06-17T12:00:00+00:00
turn_count: 12
---

{render_body(ANNA)}"""


def test_the_file_is_written_as_documented():
    assert render_document(Frontmatter("user_123", 1, NOON, 12), ANNA) == FILE


@pytest.mark.parametrize(
    "data", [FILE, FILE.encode(), FILE.encode("utf-8-sig"), FILE.encode("utf-16"), FILE.replace("\n", "\r\n"), "\n\n" + FILE]
)
def test_the_file_is_read(data: str | bytes):
    document = parse_document(data, user_id="user_123")
    assert document.frontmatter == Frontmatter("user_123", 1, NOON, 12)
    assert document.profile == ANNA
    assert document.body.replace("\r\n", "\n") == render_body(ANNA)


def test_a_file_without_frontmatter():
    document = parse_document(render_body(ANNA), user_id="u")
    assert document.frontmatter == Frontmatter("u")
    assert document.body == render_body(ANNA)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"---\n---\n", b"---\n# only a comment\n---\n"])
def test_an_empty_file(data: bytes):
    assert parse_document(data, user_id="u").profile == EMPTY_PROFILE


def test_the_callers_user_id_wins():
    assert parse_document(FILE, user_id="other").frontmatter.user_id == "other"


def test_unknown_keys_are_kept_with_their_types():
    text = FILE.replace("turn_count", "tags: [a, 'true', 1.5]\nowner: {name: x}\nday: 2026-01-02\nnote: null\n1: one\nturn_count")
    document = parse_document(text, user_id="user_123")
    assert document.frontmatter.turn_count == 12
    assert document.frontmatter.extra == {
        "tags": ["a", "true", 1.5],
        "owner": {"name": "x"},
        "day": date(2026, 1, 2),
        "note": None,
        "1": "one",
    }
    again = parse_document(render_document(document.frontmatter, document.profile), user_id="user_123")
    assert again == parse_document(render_document(again.frontmatter, again.profile), user_id="user_123")
    assert again.frontmatter == document.frontmatter


def test_broken_yaml_keeps_its_keys_and_its_text():
    text = FILE.replace("turn_count", "tags: [a, b\nnot yaml at all\nturn_count")
    document = parse_document(text, user_id="u")
    assert document.frontmatter == Frontmatter("u", 1, NOON, 12, {"tags": "[a, b"})
    assert "not yaml at all" in render_body(document.profile)
    assert document.profile.section("Identity") == ANNA.section("Identity")


def test_frontmatter_that_is_not_closed():
    document = parse_document(FILE.replace("12\n---\n", "12\n") + "\n---\n", user_id="u")
    assert document.frontmatter == Frontmatter("u", 1, NOON, 12)
    assert document.profile == ANNA


def test_a_rule_at_the_top_is_no_frontmatter():
    document = parse_document("---\nHello there\n\n## Identity\n- Anna\n\n---\n- Berlin\n", user_id="u")
    assert [bullet.text for bullet in document.profile.section("Identity")] == ["Anna", "Berlin"]
    assert "Hello there" in render_body(document.profile)


@pytest.mark.parametrize(
    ("line", "turn_count", "last_updated"),
    [
        ("turn_count: -1", 0, None),
        ("turn_count: many", 0, None),
        ("turn_count: true", 0, None),
        ("turn_count: '7'", 7, None),
        ("turn_count: 1e400", 0, None),
        (f"turn_count: {10**30}", 0, None),
        ("last_updated: yesterday", 0, None),
        ("last_updated: 2026-02-31T00:00:00Z", 0, None),
        ("last_updated: 2026-06-17 12:00:00", 0, NOON),
        ("last_updated: '2026-06-17T14:00:00+02:00'", 0, NOON),
        ("last_updated: 2026-06-17", 0, NOON.replace(hour=0)),
    ],
)
def test_odd_values(line: str, turn_count: int, last_updated: datetime | None):
    found = parse_document(f"---\n{line}\n---\n{render_body(ANNA)}", user_id="u").frontmatter
    assert (found.turn_count, found.last_updated) == (turn_count, last_updated)


@pytest.mark.parametrize(
    "block",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]",
        "a: &a [*a]",
        "a: " + "[" * 200 + "]" * 200,
        "- " * 200 + "x",
        "a: " + "{a: " * 5000,
        "k: v\n" * 50_000,
        "!!python/object/apply:os.system [echo]",
        "? [a, b]\n: c",
        "a: \x00\x01",
    ],
    ids=lambda block: repr(block[:16]),
)
def test_hostile_yaml_is_read_and_can_be_written(block: str):
    document = parse_document(f"---\n{block}\n---\n{render_body(ANNA)}", user_id="u")
    text = render_document(document.frontmatter, document.profile)
    assert len(text) < 2 * len(block) + 5000
    again = parse_document(text, user_id="u")
    assert again.profile == document.profile
    assert "Python" in render_body(again.profile)


def test_wrong_bytes_lose_only_themselves():
    document = parse_document(b"## Identity\n- Anna \xff Schmidt\n", user_id="u")
    assert document.profile.section("Identity")[0].text == "Anna \ufffd Schmidt"


def test_advanced():
    later = datetime(2026, 6, 18, 2, 0, 0, 123, tzinfo=timezone(timedelta(hours=2)))
    before = Frontmatter("u", 1, NOON, 12, {"k": 1})
    assert before.advanced(now=later, rewrite=True) == Frontmatter("u", 1, datetime(2026, 6, 18, tzinfo=UTC), 13, {"k": 1})
    assert before.advanced(now=later, rewrite=False).turn_count == 12


TIMES = st.integers(0, 4_102_444_800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
YAML_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.text(st.characters(codec=None), min_size=1, max_size=40),
    PROFILES,
    st.dictionaries(st.from_regex(r"[a-z]{1,8}_x", fullmatch=True), YAML_VALUES, max_size=3),
    st.none() | TIMES,
    st.integers(0, 10**9),
)
@example("u", EMPTY_PROFILE, {"a_x": ["\x85", "a\r\u2028b", "\ud800"]}, None, 0)
def test_what_is_written_is_read(user_id: str, profile: Profile, extra: dict[str, Any], updated: datetime | None, turns: int):
    front = Frontmatter(user_id, 1, updated, turns, extra)
    text = render_document(front, profile)
    document = parse_document(text.encode("utf-8"), user_id=user_id)
    assert document.frontmatter == front
    assert document.profile == profile
    assert document.body == render_body(profile)
    assert render_document(document.frontmatter, document.profile) == text


@given(st.one_of(ANY_TEXT, BODIES, st.binary(max_size=200), BODIES.map(lambda body: f"---\na: b\n---\n{body}")))
def test_any_file_is_read(data: str | bytes):
    document = parse_document(data, user_id="u")
    text = render_document(document.frontmatter, document.profile)
    again = parse_document(text.encode("utf-8"), user_id="u")
    assert again.profile == document.profile
    assert again.frontmatter == document.frontmatter
