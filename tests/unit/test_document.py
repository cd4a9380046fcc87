"""The stored file: frontmatter and body."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

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


UNKNOWN = """\
# where it came from
plz: 01067
ver: 1.10   # not 1.1
country: NO
t: 12:30:45
"1": one
1: other
tags: [a, 'true', 1.5]
owner:
  name: x

  # inside
  turn_count: 99
list:
- a
- b
note: |
  two
    lines
null_: ~
über-uns: ja
"""


def test_unknown_lines_are_kept_word_for_word():
    text = FILE.replace("turn_count", f"{UNKNOWN}turn_count")
    for data in (text, text.replace("\n", "\r\n")):
        document = parse_document(data, user_id="user_123")
        assert document.frontmatter == Frontmatter("user_123", 1, NOON, 12, UNKNOWN)
        again = render_document(document.frontmatter.advanced(now=NOON, rewrite=False), document.profile)
        assert again == FILE.replace("---\n\n", f"{UNKNOWN}---\n\n")
        assert parse_document(again, user_id="user_123").frontmatter == document.frontmatter


@pytest.mark.parametrize(
    "broken", ["tags: [a, b\n", "not yaml at all\n", "a: b: c\n", '"open\n', "\ttab: x\n", "- item\n", "k: v\nk: w\n", "{a: b\n"]
)
def test_broken_yaml_is_kept_word_for_word(broken: str):
    document = parse_document(FILE.replace("turn_count", f"{broken}turn_count"), user_id="user_123")
    assert document.frontmatter == Frontmatter("user_123", 1, NOON, 12, broken)
    assert document.profile == ANNA
    assert parse_document(render_document(document.frontmatter, ANNA), user_id="user_123") == replace(document)


def test_the_schema_version_of_a_newer_program_stays():
    front = parse_document(FILE.replace("schema_version: 1", "schema_version: 2"), user_id="u").frontmatter
    assert front.advanced(now=NOON, rewrite=True).schema_version == 2


def test_values_of_own_keys_on_the_next_line_quoted_or_with_a_comment():
    text = (
        "---\n'turn_count':\n  12\n\"schema_version\": '3' # new\nlast_updated: 2026-06-17T12:00:00Z # noon\nturn_count: 7\n---\n"
    )
    assert parse_document(text, user_id="u").frontmatter == Frontmatter("u", 3, NOON, 12)


def test_a_block_of_text_between_two_rules_is_no_frontmatter():
    document = parse_document(f"---\nHello there\nName: Anna\n---\n{render_body(ANNA)}", user_id="u")
    assert document.frontmatter == Frontmatter("u")
    assert "Hello there" in render_body(document.profile)


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
    before = Frontmatter("u", 2, NOON, 12, "k: 1\n")
    assert before.advanced(now=later, rewrite=True) == Frontmatter("u", 2, datetime(2026, 6, 18, tzinfo=UTC), 13, "k: 1\n")
    assert before.advanced(now=later, rewrite=False).turn_count == 12


TIMES = st.integers(0, 4_102_444_800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
EXTRA_LINES = st.lists(
    st.one_of(
        st.from_regex(r"[a-z]{1,8}_x: [ -~]{0,20}", fullmatch=True),
        st.sampled_from(
            ["  indented: 1", "- item", "# comment", "", "text", "\ttab", "x: \u2028 \x85 y", "a: \r b", "....", "{", "? a"]
        ),
    ),
    max_size=6,
).map(lambda lines: "".join(f"{line}\n" for line in lines).strip("\n") + "\n" if any(lines) else "")


@given(
    st.text(st.characters(codec=None), min_size=1, max_size=40),
    PROFILES,
    EXTRA_LINES,
    st.none() | TIMES,
    st.integers(0, 10**9),
)
@example("a\nturn_count: 7", EMPTY_PROFILE, "  a: b\n", None, 0)
@example("12\u2028", EMPTY_PROFILE, "a_x: \ud800\n", None, 0)
def test_what_is_written_is_read(user_id: str, profile: Profile, extra: str, updated: datetime | None, turns: int):
    front = Frontmatter(user_id, 1, updated, turns, extra)
    text = render_document(front, profile)
    document = parse_document(text.encode("utf-8"), user_id=user_id)
    assert document.frontmatter == replace(front, extra=extra.replace("\ud800", "\ufffd"))
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
