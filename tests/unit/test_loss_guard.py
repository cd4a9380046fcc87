"""The loss guard."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.loss_guard import GUARDED, Loss, ends_early, find_core_loss, find_loss, find_removal
from memory.model.profile import EMPTY_PROFILE, SECTIONS, Bullet, Profile
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


def test_little_of_another_section_may_go():
    assert loss(OLD.with_section("Work Context", ())) is None


FULL = Profile.of(
    {
        "Identity": ["Name: Anna Schmidt", "Works at Siemens"],
        "Work Context": ["Migrates the platform to Kafka", "Budget of the migration: 40k", "Wants a promotion", "Writes a book"],
        "Skills & Expertise": ["Knows Terraform well", "Learns Rust", "Expert in SQL tuning"],
        "Recent Topics": [f"2026-06-0{day} 10:00 UTC: asked about topic {day}" for day in range(1, 8)],
        "Follow-ups": ["Send the report to Ben by Friday", "Book the offsite hotel", "Call the tax adviser"],
    }
)


@pytest.mark.parametrize("name", ["Work Context", "Skills & Expertise", "Follow-ups"])
def test_a_section_that_is_emptied_is_a_loss_anywhere(name: str):
    found = loss(FULL.with_section(name, ()), old=FULL)
    assert found is not None
    assert found.lost == found.total == len(FULL.section(name))


def test_most_of_a_section_is_a_loss_too():
    assert loss(FULL.with_section("Follow-ups", FULL.section("Follow-ups")[:1]), old=FULL) is not None
    assert loss(FULL.with_section("Follow-ups", FULL.section("Follow-ups")[:2]), old=FULL) is None


def test_half_of_all_bullets_is_a_loss_though_no_section_is_empty():
    new = Profile.of({name: bullets[: (len(bullets) + 1) // 2] for name, bullets in FULL.items()})
    less = new.with_section("Work Context", new.section("Work Context")[:1] + FULL.section("Work Context")[3:])
    assert loss(less, old=FULL) is None
    given = """apple brick cloud dream eagle flute grape honey igloo jewel koala lemon mango nurse ocean
        piano queen robot storm tulip uncle violin whale xenon yacht zebra quartz hammer pencil window"""
    words = given.split()
    wide = Profile.of({name: words[place::6] for place, name in enumerate(SECTIONS)})
    assert loss(Profile.of({name: bullets[:3] for name, bullets in wide.items()}), old=wide, fraction=0.5) is None
    fewer = Profile.of({name: bullets[: 2 if name not in GUARDED else 3] for name, bullets in wide.items()})
    assert loss(fewer, old=wide, fraction=0.5) is not None


def test_the_log_of_topics_and_stale_follow_ups_may_go():
    old = FULL.with_section(
        "Follow-ups", [Bullet("Send the report by 2026-05-03"), Bullet("Book by 2026-05-01"), Bullet("Pay on 1 June 2026")]
    )
    new = old.with_section("Recent Topics", ()).with_section("Follow-ups", ())
    limits = {"max_lost_fraction": 0.5, "min_bullets": 2}
    assert find_loss(old, new, "hello", today=date(2026, 6, 17), **limits) is None
    assert find_loss(old, new, "hello", today=date(2026, 4, 30), **limits) is not None
    assert find_loss(old, new, "hello", **limits) is not None


def test_follow_ups_that_the_turn_calls_done_are_explained():
    turn = "I sent the report to Ben. The offsite hotel is booked and I called the adviser."
    assert loss(FULL.with_section("Follow-ups", ()), turn, old=FULL, least=1) is None
    assert loss(FULL.with_section("Follow-ups", ()), "The hotel is nice.", old=FULL) is not None


def test_a_guarded_section_never_loses_its_last_bullet_unexplained():
    old = Profile.of({"Identity": ["Name: Anna"], "Skills & Expertise": ["SQL"]})
    bare = old.with_section("Identity", ())
    assert loss(bare, old=old, least=2) is not None
    assert loss(bare, "Forget my name.", old=old, least=2) is None
    assert loss(bare.with_section("Skills & Expertise", [Bullet("Anna (name), SQL")]), old=old, least=2) is None


def test_swapped_values_are_lost():
    old = Profile.of({"Identity": ["Name: Anna", "Works as a data engineer at Siemens", "Lives in Munich near the river Isar"]})
    new = Profile.of({"Identity": ["Name: Bernd", "Works as a data engineer at BMW", "Lives in Berlin near the river Spree"]})
    found = loss(new, old=old)
    assert found is not None
    assert found.lost == 3
    told = "My name is really Bernd. I work at BMW these days. I moved to Berlin, at the Spree."
    assert loss(new, told, old=old, fraction=0, least=1) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Works as a data engineer at Siemens", "Works as a data engineer"),
        ("Name: Anna Keler", "Name: Anna Keller"),
        ("Antwortet gern kurz auf Deutsch mit Beispielen", "Gern kurz, auf Deutsch, mit einem Beispiel"),
        ("Lives in Munich with a view of the Alps", "Lives in München with a view of the Alps"),
    ],
)
def test_shorter_or_respelt_is_not_swapped(before: str, after: str):
    assert loss(Profile.of({"Identity": [after]}), old=Profile.of({"Identity": [before]}), fraction=0, least=1) is None


TECHNICAL = [
    "Delete all rows in the table",
    "Please clear the whole cache",
    "drop everything in the test database and wipe all volumes",
    "Remove all spaces and erase the entire line",
    "forget everything about the previous query",
    "Delete the profile table and clear all memory buffers",
    "Remove the name, title, address and language columns of the team table",
    "Bitte lösche alle Zeilen und entferne das ganze Verzeichnis",
    "删除表里的所有行",
    """Now it does not work: the short name of the data engineer role, the Berlin time zone, the German and English answers,
    Siemens, Python code and emojis are not shown, now Anna cannot see who lives where and who works natively, never mind the
    fluent ones, and I don't know why""".replace("\n", " "),
]


@pytest.mark.parametrize("turn", TECHNICAL)
def test_ordinary_talk_explains_next_to_nothing(turn: str):
    found = loss(EMPTY_PROFILE, turn)
    assert found is not None
    assert found.lost >= 6
    assert loss(FULL.with_section("Skills & Expertise", ()), turn, old=FULL) is not None


@pytest.mark.parametrize(
    "turn",
    [
        "Forget everything!",
        "Vergiss alles.",
        "vergiss bitte alles, was du über mich gespeichert hast",
        "Please erase everything about me",
        "delete what you know about me",
        "wipe your memory of me",
        "Lösche bitte mein ganzes Profil",
        "Lösche dein Gedächtnis über mich",
        "清除你的记忆",
        "忘掉一切",
        "删除关于我的所有信息",
    ],
)
def test_ways_to_ask_for_a_clean_slate(turn: str):
    assert loss(EMPTY_PROFILE, turn) is None


@pytest.mark.parametrize(
    "turn", ["Remove Siemens from my profile, please", "Please delete that I work at Siemens", "forget Siemens"]
)
def test_a_request_may_name_the_thing_itself(turn: str):
    old = Profile.of({"Identity": ["Consultant for Siemens"]})
    assert loss(Profile(), turn, old=old, fraction=0, least=1) is None


def test_condensing_and_the_privacy_pass_have_their_own_measure():
    limits = {"max_lost_fraction": 0.5, "min_bullets": 2}
    without_work = Profile.of({"Identity": FULL.section("Identity"), "Skills & Expertise": ["SQL"]})
    assert find_core_loss(FULL, without_work, "", **limits) is None
    assert find_core_loss(FULL, FULL.with_section("Identity", ()), "", **limits) is not None
    assert find_removal(FULL, without_work, **limits) is not None
    assert find_removal(FULL, EMPTY_PROFILE, **limits) is not None
    assert find_removal(Profile.of({"Work Context": ["Client: Bob"]}), EMPTY_PROFILE, **limits) is not None
    fewer = FULL.with_section("Work Context", FULL.section("Work Context")[:1])
    assert find_removal(FULL, fewer, **limits) is None
    assert find_removal(FULL, FULL.with_section("Recent Topics", ()), **limits) is not None


@pytest.mark.parametrize(
    ("last", "early"),
    [
        (["Send the report to Ben by Friday", "Book the offs"], True),
        (["Send the report to Ben by Friday", "Book the"], True),
        (["Send the report"], True),
        (["Send the report to Ben by Friday", "Book the offsite hotel", "Call the tax"], False),
        (["Send the report to Ben by Friday", "Book the offsite hotel", "Call the tax advis"], True),
        (["Send the report to Ben by Friday", "Book the offsite hotel", "Call the"], True),
        (["Send the report", "Call the tax adviser"], False),
        (["Send the report to Ben by Friday"], False),
        (["S"], True),
        ([], False),
        (["Something new"], False),
    ],
)
def test_a_profile_that_breaks_off_in_an_old_bullet(last: list[str], early: bool):
    new = FULL.with_section("Follow-ups", [Bullet(text) for text in last])
    assert ends_early(FULL, new) is early


@pytest.mark.parametrize("turn", ["not now " * 25_000, "forget my job " * 14_000, "delete " * 28_000, "I " * 100_000])
def test_hostile_turns_are_read_in_bounded_time(turn: str):
    """Quadratic work on these would run into the test's time-out."""
    wide = Profile.of({name: [f"{name} fact number {count}" for count in range(300)] for name in SECTIONS})
    assert loss(Profile.of({"Identity": ["Other thing entirely"]}), turn, old=wide) is not None


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
        assert found.lost == len(found.bullets) >= 1
        assert found.lost <= found.total
        emptied = any(old.section(name) and not new.section(name) for name in GUARDED)
        assert emptied or (found.lost >= least and found.fraction > fraction)
