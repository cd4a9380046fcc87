"""The token budget: the cut by rule and the check of a condensed profile."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.model.budget import Count, check_condensed, cut_to_budget, fits
from memory.model.errors import InvalidInput
from memory.model.profile import EMPTY_PROFILE, SECTIONS, TRUNCATION_MARK, Bullet, Profile, parse_body, render_body
from memory.model.stale import find_dates, is_stale
from tests.support.profiles import BODIES, PROFILES, char_count, word_count

TODAY = date(2026, 6, 17)
SKELETON = word_count(render_body(EMPTY_PROFILE.with_truncated(True)))


def lines(profile: Profile, section: str) -> list[str]:
    return [line for bullet in profile.section(section) for line in bullet.lines]


def full() -> Profile:
    """Five bullets of ten words in every section."""
    return Profile.of(
        {
            "Identity": [f"identity {n} a b c d e f g h" for n in range(5)],
            "Communication Preferences": [f"style {n} a b c d e f g h" for n in range(5)],
            "Work Context": [f"work {n} a b c d e f g h" for n in range(5)],
            "Skills & Expertise": [f"skill {n} a b c d e f g h" for n in range(5)],
            "Recent Topics": [f"2026-06-{n + 10} 08:00 UTC: topic {n} a b c d e" for n in range(5)],
            "Follow-ups": [f"task {n} by 2026-0{5 + 4 * (n % 2)}-01 c d e f g" for n in range(5)],
        }
    )


def left(profile: Profile, max_tokens: int) -> dict[str, list[int]]:
    """Which of the five are left, per section."""
    cut = cut_to_budget(profile, word_count, max_tokens, today=TODAY)
    number = re.compile(r"(?:identity|style|work|skill|topic|task) (\d)")
    return {name: [int(found[1]) for text in lines(cut, name) if (found := number.search(text))] for name in SECTIONS}


def test_a_profile_that_fits_is_not_touched():
    profile = full()
    exact = word_count(render_body(profile))
    assert cut_to_budget(profile, word_count, exact, today=TODAY) is profile
    assert not fits(profile, word_count, exact - 1)
    marked = profile.with_truncated(True)
    assert cut_to_budget(marked, word_count, 5000, today=TODAY).truncated


def test_the_order_of_the_cut():
    profile, everything = full(), [0, 1, 2, 3, 4]
    whole = word_count(render_body(profile.with_truncated(True)))
    assert left(profile, whole - 9)["Recent Topics"] == [1, 2, 3, 4]
    topics_gone = left(profile, whole - 48)
    assert topics_gone["Recent Topics"] == []
    assert topics_gone["Follow-ups"] == everything
    stale_gone = left(profile, whole - 80)
    assert stale_gone["Follow-ups"] == [1, 3]
    assert stale_gone["Work Context"] == everything
    work = left(profile, whole - 100)
    assert work["Work Context"] == [2, 3, 4]
    skills = left(profile, whole - 150)
    assert (skills["Work Context"], skills["Skills & Expertise"], skills["Follow-ups"]) == ([], [2, 3, 4], [1, 3])
    tasks = left(profile, whole - 195)
    assert (tasks["Skills & Expertise"], tasks["Follow-ups"], tasks["Communication Preferences"]) == ([], [3], everything)
    last = left(profile, SKELETON + 34)
    assert (last["Communication Preferences"], last["Identity"]) == ([], [0, 1, 2])


def test_recent_topics_go_by_their_stamps_not_by_their_places():
    profile = Profile.of(
        {
            "Recent Topics": [
                "2026-06-03 08:00 UTC: c c c",
                "2026-06-01 08:00 UTC: a a a",
                "goes with a a a",
                "2026-06-02 08:00 UTC: b b b",
            ]
        }
    )
    kept = cut_to_budget(profile, word_count, SKELETON + 14, today=TODAY)
    assert [text[-5:] for text in lines(kept, "Recent Topics")] == ["c c c", "b b b"]


def test_sub_bullets_go_before_their_bullet_and_never_without_need():
    profile = Profile.of({"Work Context": [Bullet("project one", ("a " * 12, "d e f")), "project two"]})
    whole = word_count(render_body(profile.with_truncated(True)))
    kept = cut_to_budget(profile, word_count, whole - 10, today=TODAY)
    assert kept.section("Work Context") == (Bullet("project one", ("d e f",)), Bullet("project two"))


def test_a_bullet_larger_than_the_budget_costs_no_other():
    profile = full().with_section("Identity", [Bullet("giant " * 3000, ("child of giant",)), *full().section("Identity")])
    cut = cut_to_budget(profile, word_count, 1000, today=TODAY)
    assert cut == full().with_section("Identity", [Bullet("child of giant"), *full().section("Identity")]).with_truncated(True)


def test_the_mark_ends_the_file_and_the_headings_stay():
    body = render_body(cut_to_budget(full(), word_count, SKELETON, today=TODAY))
    assert body.endswith(f"{TRUNCATION_MARK}\n")
    assert re.findall(r"^## (.*)$", body, re.MULTILINE) == list(SECTIONS)
    assert body.count("_(empty)_") == 6


def test_a_budget_below_the_headings_is_refused():
    with pytest.raises(InvalidInput, match="10 tokens"):
        cut_to_budget(full(), word_count, 10, today=TODAY)


@pytest.mark.parametrize("max_tokens", [500, 2000, 8000])
def test_a_body_of_one_mebibyte(max_tokens: int):
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return char_count(text)

    body = "## Work Context\n" + "".join(f"- note {n} about the project with some words\n" for n in range(24_000))
    cut = cut_to_budget(parse_body(body), count, max_tokens, today=TODAY)
    assert char_count(render_body(cut)) <= max_tokens
    assert lines(cut, "Work Context")[-1] == "note 23999 about the project with some words"
    # The work follows the budget: the whole is counted once at most.
    assert counted < 1_100_000 + 200 * max_tokens


@given(PROFILES, st.integers(0, 200), st.sampled_from([word_count, char_count]))
def test_the_result_fits_and_nothing_is_lost_without_need(profile: Profile, room: int, count: Count):
    max_tokens = count(render_body(EMPTY_PROFILE.with_truncated(True))) + room
    cut = cut_to_budget(profile, count, max_tokens, today=TODAY)
    assert count(render_body(cut)) <= max_tokens
    assert parse_body(render_body(cut)) == cut
    if fits(profile, count, max_tokens):
        assert cut == profile
        return
    assert cut.truncated
    # What is left was there, in the same order.
    for name in SECTIONS:
        before = iter(lines(profile, name))
        assert all(line in before for line in lines(cut, name))
    # Every section that is cut before another has lost all that fits at all before the other loses any.
    order = ["Recent Topics", "Work Context", "Skills & Expertise", "Communication Preferences", "Identity"]
    able = {
        name: [text for text in lines(profile, name) if fits(Profile.of({name: [text]}, truncated=True), count, max_tokens)]
        for name in order
    }
    touched = [name for name in order if len([t for t in lines(cut, name) if t in able[name]]) < len(able[name])]
    assert all(not lines(cut, name) for name in touched[:-1])


@given(BODIES, st.integers(500, 8000))
def test_any_body_fits_after_the_cut(body: str, max_tokens: int):
    cut = cut_to_budget(parse_body(body * 40), char_count, max_tokens, today=TODAY)
    assert char_count(render_body(cut)) <= max_tokens


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(0, 300))
def test_the_cut_stops_as_soon_as_it_fits(sizes: list[int], room: int):
    bullets = [Bullet(f"b{n} " + "x " * size) for n, size in enumerate(sizes)]
    profile = Profile.of({"Skills & Expertise": bullets})
    max_tokens = SKELETON + 50 + room
    cut = cut_to_budget(profile, word_count, max_tokens, today=TODAY)
    kept = len(cut.section("Skills & Expertise"))
    assert cut.section("Skills & Expertise") == tuple(bullets[len(bullets) - kept :])
    if cut is not profile:
        one_more = Profile.of({"Skills & Expertise": bullets[len(bullets) - kept - 1 :]}, truncated=True)
        assert word_count(render_body(one_more)) > max_tokens


# ------------------------------------------------------------------------------------------------------------------- stale


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("send the report by 2026-06-16", True),
        ("send the report by 2026-06-17", False),
        ("Bericht bis 16.06.2026", True),
        ("Bericht bis 3. Juli 2026", False),
        ("call on June 1st, 2026", True),
        ("call on 1 June 2026, again on 1 July 2026", False),
        ("2026年6月1日提交报告", True),
        ("2026年7月1日提交报告", False),
        ("send the report", False),
        ("in 2024, maybe", False),
        ("[x] send the report", True),
        ("[ ] send the report", False),
        ("send the report (done)", True),
        ("✅ send the report", True),
        ("pay by 2026-13-45", False),
    ],
)
def test_stale_follow_ups(text: str, stale: bool):
    assert is_stale(Bullet(text), TODAY) is stale


def test_a_sub_bullet_with_a_later_date_keeps_its_bullet():
    assert not is_stale(Bullet("since 2026-01-01", ("again 2026-12-01",)), TODAY)


@given(
    st.dates(date(1900, 1, 1), date(2099, 12, 31)),
    st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%Y年%m月%d日", "%d %B %Y", "%B %d, %Y"]),
)
def test_dates_are_found(day: date, form: str):
    assert list(find_dates(f"until {day.strftime(form)} at the latest")) == [day]


# --------------------------------------------------------------------------------------------------------------- condensed

LONG = Profile.of(
    {
        "Identity": ["Name is Anna Schmidt", "Data engineer at Siemens in Berlin", "Time zone Europe/Berlin"],
        "Communication Preferences": ["Prefers short answers", "Prefers short replies without emojis", "用户喜欢简短的回答"],
        "Work Context": [
            "Migrates the data platform to Kafka until 30 September 2026",
            "The migration of the data platform to Kafka is led by her team",
            "Arbeitet an der Migration der Datenplattform mit großem Zeitdruck",
        ],
        "Skills & Expertise": ["Knows Python very well", "Has used Python for 12 years", "Site Reliability Engineering basics"],
        "Recent Topics": ["2026-06-01 08:00 UTC: compared Kafka with Pulsar for the platform"],
    }
)


def condensed(**sections: list[str]) -> Profile:
    names = {"identity": "Identity", "style": "Communication Preferences", "work": "Work Context", "skills": "Skills & Expertise"}
    base = {
        "Identity": ["Anna Schmidt, data engineer at Siemens, Berlin"],
        "Communication Preferences": ["Short answers, no emojis"],
    }
    return Profile.of({**base, **{names[key]: value for key, value in sections.items()}})


@pytest.mark.parametrize(
    "profile",
    [
        condensed(),
        condensed(work=["Her team leads the migration of the data platform to Kafka (until 30 September 2026)"]),
        condensed(work=["Leitet die Migration der Datenplattform", "Migrating the platform to Kafka"]),
        condensed(skills=["Python (12 years)", "SRE basics"]),
        condensed(work=["Kafka migration of the platform, until Sept 2026", "Kafka migration until 2026-09-30"]),
        condensed(style=["喜欢简短回答", "Prefers short answers"]),
        condensed(style=["用户偏好简短的回答"]),
        condensed(identity=["Anna", "Works as a data engineer, Siemens"]),
    ],
)
def test_merging_and_shortening_are_accepted(profile: Profile):
    assert check_condensed(LONG, profile, word_count, 100) is None


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (LONG, "not smaller"),
        (EMPTY_PROFILE, "next to nothing"),
        (condensed(identity=[]), "nothing left of Identity"),
        (condensed(style=[]), "nothing left of Communication"),
        (condensed(skills=["Python (15 years)"]), "number"),
        (condensed(work=["Migrates the data platform to Kafka until 30 September 2027"]), "number"),
        (condensed(work=["Kafka migration of the platform, until October 2026"]), "name or term"),
        (condensed(identity=["Anna Schmidt, data engineer at Bosch"]), "name or term"),
        (condensed(identity=["Anna Maria Schmidt"]), "name or term"),
        (condensed(skills=["Knows Python and GraphQL"]), "name or term"),
        (condensed(skills=["Knows Python", "vegetarian"]), "does not support"),
        (condensed(identity=["Anna Schmidt aus München"]), "name or term"),
        (condensed(identity=["Anna Schmidt", "住在上海"]), "statement"),
        (condensed(style=["用户喜欢详细解释"]), "statement"),
    ],
)
def test_inventions_and_losses_are_refused(profile: Profile, reason: str):
    found = check_condensed(LONG, profile, word_count, 100)
    assert found is not None
    assert reason in found


@settings(max_examples=40)
@given(PROFILES, st.data())
def test_leaving_bullets_out_invents_nothing(profile: Profile, data: st.DataObject):
    rows = [[b for b in bullets if data.draw(st.booleans())] for bullets in profile.sections]
    smaller = Profile(tuple(tuple(row) for row in rows))
    reason = check_condensed(profile, smaller, char_count, 5000)
    assert reason is None or reason.startswith(("not smaller", "nothing left", "next to nothing"))
