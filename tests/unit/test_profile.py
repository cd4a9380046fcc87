"""The profile: generous reading, strict writing, no word lost."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.model.profile import EMPTY_MARK, EMPTY_PROFILE, SECTIONS, TRUNCATION_MARK, Bullet, Profile, parse_body, render_body
from tests.support.profiles import ANY_TEXT, BODIES, PROFILES

STRICT = """\
# User Memory

## Identity
- Anna, data engineer
  - at Siemens

## Communication Preferences
- Short answers

## Work Context
_(empty)_

## Skills & Expertise
- Python

## Recent Topics
- 2026-06-17 12:00 UTC: Kafka retention

## Follow-ups
_(empty)_
"""

ANNA = Profile.of(
    {
        "Identity": [Bullet("Anna, data engineer", ("at Siemens",))],
        "Communication Preferences": ["Short answers"],
        "Skills & Expertise": ["Python"],
        "Recent Topics": ["2026-06-17 12:00 UTC: Kafka retention"],
    }
)


def texts(profile: Profile, section: str) -> list[str]:
    return [bullet.text for bullet in profile.section(section)]


# ------------------------------------------------------------------------------------------------------------- strict form


def test_strict_form_is_written_and_read_back():
    assert render_body(ANNA) == STRICT
    assert parse_body(STRICT) == ANNA


def test_empty_profile_has_all_six_headings_in_order():
    body = render_body(EMPTY_PROFILE)
    assert re.findall(r"^## (.*)$", body, re.MULTILINE) == list(SECTIONS)
    assert body.count(EMPTY_MARK) == 6
    assert parse_body(body) == EMPTY_PROFILE
    assert EMPTY_PROFILE.is_empty
    assert not ANNA.is_empty


def test_truncation_mark_ends_the_file():
    assert render_body(ANNA.with_truncated(True)).endswith(f"\n\n{TRUNCATION_MARK}\n")
    assert parse_body(render_body(ANNA.with_truncated(True))).truncated


def test_repr_shows_no_text():
    assert "Anna" not in repr(ANNA)
    assert "Anna" not in repr(ANNA.section("Identity")[0])


def test_unknown_section_and_wrong_shape_are_errors():
    with pytest.raises(KeyError):
        ANNA.section("Hobbies")
    with pytest.raises(KeyError):
        Profile.of({"Hobbies": []})
    with pytest.raises(ValueError, match="6 sections"):
        Profile(((), ()))


def test_bullet_text_becomes_one_clean_line():
    assert Bullet(" a\n\n b\t\x00c\ud800 \ufeff").text == "a b c\ufffd"
    assert Bullet("\ud83d\ude00").text == "😀"
    assert Bullet(EMPTY_MARK).text == ""
    assert Bullet(f"a {TRUNCATION_MARK} b").text == "a b"
    assert Bullet("a", ("", " ", "b")).children == ("b",)


def test_a_bullet_without_text_gives_way_to_its_children():
    assert Profile.of({"Identity": [Bullet("", ("a", "b")), Bullet("")]}).section("Identity") == (Bullet("a"), Bullet("b"))


@given(PROFILES)
def test_every_profile_survives_writing_and_reading(profile: Profile):
    assert parse_body(render_body(profile)) == profile


# --------------------------------------------------------------------------------------------------------- generous reading


@pytest.mark.parametrize(
    "body",
    [
        STRICT.replace("\n", "\r\n"),
        "\ufeff" + STRICT,
        STRICT.removeprefix("# User Memory\n\n"),
        STRICT.replace("- ", "* ").replace("  * ", "    + "),
        STRICT.replace("## ", "### "),
        STRICT.replace("# User Memory", "").replace("## ", "# "),
        STRICT.replace("## Skills & Expertise", "## Skills &amp; Expertise"),
        STRICT.replace("## Skills & Expertise", "## skills AND expertise:"),
        STRICT.replace("## Follow-ups", "## Follow Ups"),
        STRICT.replace("## Identity", "Identity\n--------"),
        STRICT.replace("## Identity", "## 1. Identity ##"),
        STRICT.replace("## Identity", "**Identity:**"),
        STRICT.replace("## Identity", "## Identitiy"),
        STRICT.replace("## Work Context", "##Work Context"),
        STRICT.replace("- Anna, data engineer", "- Anna,\n  data\nengineer"),
        STRICT.replace("_(empty)_", ""),
        STRICT.replace("_(empty)_", "- _(empty)_"),
        "```markdown\n" + STRICT + "```\n",
        "---\nuser_id: evil\nschema_version: 7\n---\n" + STRICT,
        "\n".join("    " + line for line in STRICT.splitlines()),
    ],
)
def test_other_ways_of_writing_the_same(body: str):
    assert parse_body(body) == ANNA


def test_sections_in_another_order_are_put_right():
    title, *blocks = STRICT.strip().split("\n\n")
    assert render_body(parse_body("\n\n".join([title, *reversed(blocks)]))) == STRICT


def test_the_mark_is_understood_anywhere():
    profile = parse_body(STRICT.replace("- Python", f"- Python {TRUNCATION_MARK}"))
    assert profile == ANNA.with_truncated(True)


def test_deeper_nesting_comes_to_two_levels():
    profile = parse_body("## Identity\n- a\n  - b\n    - c\n      - d\n  - e\n- f")
    assert profile.section("Identity") == (Bullet("a", ("b", "c", "d", "e")), Bullet("f"))


def test_duplicate_headings_are_merged():
    assert texts(parse_body("## Identity\n- a\n## Work Context\n- b\n## Identity\n- c"), "Identity") == ["a", "c"]


def test_paragraphs_and_key_lines_become_bullets():
    profile = parse_body("## Identity\nName: Anna\nRole: engineer\n\nLives in Berlin and\nlikes it.\n1. first\n2. second")
    assert texts(profile, "Identity") == ["Name: Anna", "Role: engineer", "Lives in Berlin and likes it.", "1. first", "2. second"]


def test_text_on_the_line_of_a_heading_is_kept():
    assert texts(parse_body("## Identity: Anna, engineer\n- Berlin"), "Identity") == ["Anna, engineer", "Berlin"]
    assert texts(parse_body("## Recent Topics (newest last)\n- x"), "Recent Topics") == ["(newest last)", "x"]


def test_code_in_a_bullet_stays_together():
    profile = parse_body("## Work Context\n- uses\n  ```bash\n  # install\n  - not a bullet\n  ```\n- next")
    assert texts(profile, "Work Context") == ["uses ```bash # install - not a bullet ```", "next"]


def test_text_before_the_first_heading_is_kept():
    assert texts(parse_body("Hello\n" + STRICT), "Work Context") == ["Hello"]


def test_a_text_without_headings_is_kept():
    assert texts(parse_body("just a note"), "Work Context") == ["just a note"]


def test_deleted_first_heading_leaves_its_bullets_in_identity():
    assert texts(parse_body(STRICT.replace("## Identity\n", "")), "Identity") == ["Anna, data engineer"]


def test_deleted_heading_keeps_the_bullets():
    profile = parse_body(STRICT.replace("## Skills & Expertise\n", ""))
    assert texts(profile, "Work Context") == ["Python"]


def test_renamed_heading_takes_the_place_of_the_missing_section():
    profile = parse_body(STRICT.replace("## Skills & Expertise", "## What I am good at"))
    assert profile.section("Skills & Expertise") == (Bullet("What I am good at", ("Python",)),)


def test_translated_headings_take_their_places():
    names = ["Identität", "Kommunikation", "Arbeit", "Fähigkeiten", "Letzte Themen", "Offenes"]
    body = "# Profil\n" + "".join(f"## {name}\n- inhalt {place}\n" for place, name in enumerate(names))
    profile = parse_body(body)
    for place, (section, name) in enumerate(zip(SECTIONS, names, strict=True)):
        assert profile.section(section)[-1] == Bullet(name, (f"inhalt {place}",))
    assert "Profil" in render_body(profile)


def test_unknown_heading_of_a_complete_file_goes_to_work_context():
    profile = parse_body(STRICT + "\n## Hobbies\n- chess\n  - rapid\n")
    assert profile.section("Work Context") == (Bullet("Hobbies", ("chess", "rapid")),)


def test_lower_heading_stays_in_its_section():
    profile = parse_body("## Identity\n- Anna\n### Family\n- two cats\n## Follow-ups\n- x")
    assert profile.section("Identity") == (Bullet("Anna"), Bullet("Family", ("two cats",)))


def test_hashtags_and_issue_numbers_are_text():
    assert texts(parse_body("## Work Context\n- a\n\n#1 priority\n\n#python"), "Work Context") == ["a", "#1 priority", "#python"]


@given(BODIES)
@example("- ```a\n\n```\n- b")
@example("## Identity\r- a\r  - b")
@example("<!-- trunc<!-- truncated to fit memory budget -->ated to fit memory budget -->")
def test_what_is_read_once_reads_the_same_again(body: str):
    profile = parse_body(body)
    assert parse_body(render_body(profile)) == profile


@given(ANY_TEXT)
def test_any_text_is_read(body: str):
    profile = parse_body(body)
    assert parse_body(render_body(profile)) == profile
    render_body(profile).encode("utf-8")


HEADING_LINES = [*(f"## {name}" for name in SECTIONS), "# User Memory", "## Hobbys", "### Unter", "Irgendwas\n======"]
MARK_LINES = ["", "---", "***", "```", "```md", EMPTY_MARK, TRUNCATION_MARK]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(HEADING_LINES),
            st.sampled_from(MARK_LINES),
            st.tuples(
                st.sampled_from(["- ", "* ", "  - ", "\t+ ", "        - ", "1. ", "", "   ", "> ", "```python ", "~~~", "- ```"]),
                st.lists(st.from_regex(r"w[0-9a-z]{1,4}[:.,]?", fullmatch=True), min_size=1, max_size=5).map(" ".join),
            ).map("".join),
        ),
        max_size=30,
    ),
    st.sampled_from(["\n", "\r\n", "\u2028"]),
)
def test_no_word_is_lost_or_made(lines: list[str], end: str):
    body = end.join(lines)
    words = re.compile(r"w[0-9a-z]{1,4}[:.,]?|Hobbys|Unter|Irgendwas")
    assert Counter(words.findall(render_body(parse_body(body)))) == Counter(words.findall(body))


@given(BODIES)
def test_the_strict_form_has_each_heading_once_and_only_bullets(body: str):
    lines = render_body(parse_body(body)).splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")] == list(SECTIONS)
    allowed = re.compile(r"(?:  )?- \S.*|## .*|# User Memory|_\(empty\)_|<!-- truncated to fit memory budget -->|")
    assert all(allowed.fullmatch(line) for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        "```" + " " * 500_000 + "x y",
        "# " + " #" * 250_000,
        "<!--" + " " * 500_000 + "truncated",
        "<!-- truncated " * 30_000 + "to fit memory budget -->" * 30_000,
        "- ```x\n  ```y\n" * 40_000,
        "```x\n" * 100_000,
        "".join(f"# idenfity{n}\n" for n in range(30_000)),
        "---\n" + "a: b\n" * 100_000,
        "**" + "_" * 500_000,
        "\n" * 500_000,
        "- a\n  - b" * 50_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_hostile_texts_are_read_in_linear_time(body: str):
    """Quadratic work on these would run into the test's time-out."""
    profile = parse_body(body)
    assert parse_body(render_body(profile)) == profile


@pytest.mark.parametrize(
    "block",
    ["title: My notes", "tags: [a, b]\nowner:\n  name: x\n# comment", "user_id: evil\nturn_count: 99", "aliases:\n\nplz: 01067"],
)
def test_frontmatter_above_a_body_is_no_part_of_it(block: str):
    profile = Profile.of({"Identity": ["Anna"]})
    for end in ("\n", "\r\n"):
        text = f"---\n{block}\n---\n\n{render_body(profile)}".replace("\n", end)
        assert parse_body(text) == profile
    assert parse_body(f"---\n{block}\n---\nLikes tea") == Profile.of({"Work Context": ["Likes tea"]})


@pytest.mark.parametrize("block", ["Hello there", "Likes: tea\nand cake", "# Identity\nname: Anna", "  a: b", "# only a comment"])
def test_text_between_rules_is_kept(block: str):
    words = [word for word in block.split() if word not in {"#", "Identity"}]
    assert all(word in render_body(parse_body(f"---\n{block}\n---\n- Berlin\n")) for word in words)


def test_the_body_of_a_stored_file_has_no_frontmatter_to_lose():
    assert "tea" in render_body(parse_body("---\nlikes: tea\n---\n- Berlin\n", is_stored=True))
