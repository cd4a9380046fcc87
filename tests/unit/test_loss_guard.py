"""The loss guard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.loss_guard import Loss, find_loss
from memory.model.profile import EMPTY_PROFILE, Bullet, Profile
from tests.support.profiles import ANY_TEXT, PROFILES

OLD = Profile.of(
    {
        "Identity": [
            "Name is Anna Schmidt",
            "Works as a data engineer at Siemens",
            "Lives in Berlin",
            "Time zone Europe/Berlin",
            Bullet("Speaks German natively", ("fluent English",)),
        ],
        "Communication Preferences": ["Prefers short answers", "Wants code in Python", "No emojis"],
        "Work Context": ["Migrates the platform to Kafka"],
    }
)


def loss(
    new: Profile, turn: str = "thanks, what is the weather?", fraction: float = 0.5, least: int = 2, old: Profile = OLD
) -> Loss | None:
    return find_loss(old, new, turn, max_lost_fraction=fraction, min_bullets=least)


def with_identity(*bullets: str | Bullet) -> Profile:
    return OLD.with_section("Identity", Profile.of({"Identity": bullets}).section("Identity"))


def test_everything_gone_is_a_loss():
    found = loss(EMPTY_PROFILE)
    assert found is not None
    assert (found.lost, found.total, found.fraction) == (9, 9, 1.0)
    assert found.bullets[0] == "Name is Anna Schmidt"
    assert "fluent English" in found.bullets


def test_the_loss_shows_no_text_in_its_repr():
    assert "Anna" not in repr(loss(EMPTY_PROFILE))


def test_one_of_the_two_sections_is_enough():
    found = loss(OLD.with_section("Communication Preferences", ()))
    assert found is not None
    assert (found.lost, found.total) == (3, 3)


def test_other_sections_are_not_guarded():
    assert loss(OLD.with_section("Work Context", ())) is None


def test_little_may_be_lost():
    assert loss(with_identity("Name is Anna Schmidt", "Works as a data engineer at Siemens", "Lives in Berlin")) is None


def test_the_thresholds():
    two_of_six = with_identity(
        "Name is Anna Schmidt", "Works as a data engineer at Siemens", "Speaks German natively", "fluent English"
    )
    assert loss(two_of_six) is None
    assert loss(two_of_six, fraction=0.3) is not None
    assert loss(two_of_six, fraction=0.3, least=3) is None
    assert loss(two_of_six, fraction=0, least=0) is not None
    assert loss(EMPTY_PROFILE, fraction=1) is None
    assert loss(OLD, fraction=0, least=0) is None


def test_moved_merged_and_rephrased_bullets_are_not_lost():
    new = Profile.of(
        {
            "Identity": ["Anna Schmidt, data engineer at Siemens", "Berlin (Europe/Berlin time zone); lives there"],
            "Communication Preferences": ["Short answers preferred, Python code, no emojis"],
            "Skills & Expertise": ["German (native) — speaks it natively", "English, fluent"],
        }
    )
    assert loss(new, fraction=0, least=1) is None


def test_accents_and_case_do_not_matter():
    old = Profile.of({"Identity": ["Geschäftsführerin in Köln", "名字是王芳"]})
    assert loss(Profile.of({"Identity": ["GESCHÄFTSFÜHRERIN in Köln.", "名字：王芳"]}), old=old, fraction=0, least=1) is None


@pytest.mark.parametrize(
    "turn",
    [
        "Forget everything you know about me.",
        "Bitte vergiss alles, was du über mich weißt.",
        "请忘记关于我的一切",
        "please delete my whole profile",
    ],
)
def test_a_request_to_forget_everything_explains_everything(turn: str):
    assert loss(EMPTY_PROFILE, turn) is None


@pytest.mark.parametrize(
    "turn", ["Don't forget everything I said!", "I forget everything when I am tired", "Vergiss nicht alles wieder", "不要忘记一切"]
)
def test_other_talk_about_forgetting_explains_nothing(turn: str):
    assert loss(EMPTY_PROFILE, turn) is not None


def test_a_request_to_forget_a_topic_explains_that_topic_only():
    old = Profile.of({"Identity": ["Data engineer at Siemens", "Team lead since May", "Lives in Berlin", "Name is Anna"]})
    jobless = Profile.of({"Identity": ["Lives in Berlin", "Name is Anna"]})
    for turn in ("Forget everything about my job", "Vergiss alles über meine Arbeit", "忘记我的工作"):
        assert loss(jobless, turn, fraction=0, old=old) is None
    homeless = Profile.of({"Identity": ["Data engineer at Siemens", "Team lead since May"]})
    assert loss(homeless, "Forget everything about my job", fraction=0, old=old) is not None
    assert loss(OLD.with_section("Communication Preferences", ()), "forget everything about my job") is not None
    assert loss(OLD.with_section("Communication Preferences", ()), "forget my answer preferences") is None


@pytest.mark.parametrize(
    ("turn", "new"),
    [
        ("I no longer work at Siemens.", ()),
        ("I left Siemens last week", ()),
        ("Ich arbeite nicht mehr bei Siemens", ()),
        ("I moved to Munich and work for Bosch", ("Works at Bosch", "Lives in Munich")),
        ("Actually I am not a data engineer", ("Works as an architect",)),
    ],
)
def test_a_contradiction_explains_what_it_speaks_of(turn: str, new: tuple[str, ...]):
    old = Profile.of({"Identity": ["Works as a data engineer at Siemens", "Siemens team lead"]})
    assert loss(Profile.of({"Identity": new}), turn, fraction=0, least=2, old=old) is None
    assert loss(Profile.of({"Identity": new}), "what is the weather?", fraction=0, least=2, old=old) is not None


def test_a_contradiction_of_one_bullet_does_not_explain_the_others():
    found = loss(EMPTY_PROFILE, "I left Siemens. Now tell me about the weather.")
    assert found is not None
    assert "Works as a data engineer at Siemens" not in found.bullets
    assert "Name is Anna Schmidt" in found.bullets


def test_a_long_turn_that_uses_some_words_explains_nothing():
    turn = "Write a short answer about Python.\n" * 200
    found = loss(OLD.with_section("Identity", ()), turn)
    assert found is not None
    assert found.lost == 6


@given(PROFILES, st.one_of(ANY_TEXT, st.just("not now")))
def test_the_same_profile_never_loses(profile: Profile, turn: str):
    assert find_loss(profile, profile, turn, max_lost_fraction=0, min_bullets=0) is None


@given(PROFILES, PROFILES, ANY_TEXT, st.floats(0, 1), st.integers(0, 5))
def test_figures_are_consistent(old: Profile, new: Profile, turn: str, fraction: float, least: int):
    found = find_loss(old, new, turn, max_lost_fraction=fraction, min_bullets=least)
    if found is not None:
        assert found.lost == len(found.bullets) >= max(1, least)
        assert found.fraction > fraction
