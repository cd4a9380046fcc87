"""The rules of the categories that need no store: the same, contradictions, times, directives, commitments, sentences."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.categories.commitments import is_commitment, is_concrete
from memory.categories.contact_texts import fitted, woven
from memory.categories.fact_rules import takes_place
from memory.categories.response_policies import is_directive
from memory.model.contact import MAX_TEXT_WORDS
from memory.model.contact_rules import MAX_TEXT_CHARS, count_words
from memory.model.fact import Fact
from memory.model.near_duplicate import is_opposite, is_same, may_be_same, statement_key
from memory.model.sentences import around, sentences
from memory.model.slots import contradicts, slot_of
from memory.model.validity import read_deadline, read_moment, validity
from tests.support.profiles import ANY_TEXT

SAID = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)  # a Wednesday


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# ------------------------------------------------------------------------------------------------------------ the same again


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Bergen plant runs on hydropower.", "Note: the plant in Bergen is running on hydropower!"),
        ("Invoices above 500 € need two signatures.", "Invoices above 500€ always need 2 signatures"),
        ("We organise the fair in Oslo.", "We organize the fair in Oslo."),
        ("The Atlas release is on 4 May.", "On 4 May is the Atlas release."),
        ("Reisekostenabrechnungen brauchen eine Unterschrift.", "Reisekostenabrechnungen brauchen immer eine Unterschrift!"),
        ("王芳负责财务。", "王芳现在负责财务"),
        ("ＡＲＲ means annual recurring revenue", "ARR means annual recurring revenue."),
        ("Der Vertrag läuft über fünf Jahre.", "der Vertrag läuft über 5 Jahre"),
    ],
)
def test_the_same_in_nearly_the_same_words(one: str, other: str) -> None:
    assert is_same(one, other)
    assert is_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Invoices above 500 € need two signatures.", "Invoices above 800 € need two signatures."),
        ("Invoices above 500 € need two signatures.", "Invoices above 500 € need three signatures."),
        ("Invoices over 500 € need two signatures.", "Invoices under 500 € need two signatures."),
        ("The plant is open.", "The plant is not open."),
        ("Das Werk ist offen.", "Das Werk ist nicht offen."),
        ("工厂开放参观。", "工厂不开放参观。"),
        ("Mara leads the Tom project.", "Tom leads the Mara project."),
        ("The server in Oslo is called Thor.", "The server in Oslo is called Odin."),
        ("The merger is possible.", "The merger is impossible."),
        ("The release is in January.", "The release is in February."),
        ("超过五百元的发票必须有两个签名。", "超过五百元的发票必须有三个签名。"),
        ("王芳负责财务。", "王方负责财务。"),
        ("The shop opens before noon.", "The shop opens after noon."),
        ("👍", "🎉"),
    ],
)
def test_other_numbers_names_dates_or_negations_are_never_the_same(one: str, other: str) -> None:
    assert not is_same(one, other)


@given(ANY_TEXT, ANY_TEXT)
def test_any_two_texts_can_be_compared_either_way(one: str, other: str) -> None:
    assert is_same(one, other) == is_same(other, one)
    assert contradicts(one, other) in (True, False)
    assert statement_key(one) == statement_key(one.strip())


def test_a_claim_that_both_are_the_same_is_checked() -> None:
    assert may_be_same("The Bergen plant is powered by hydropower.", "The Bergen plant runs on hydropower.")
    assert not may_be_same("The Oslo plant is powered by hydropower.", "The Bergen plant runs on hydropower.")
    assert is_opposite("The plant is not open on Sundays.", "The plant is open on Sundays.")
    assert not is_opposite("The plant is not open on Sundays.", "The plant is open on Mondays.")


# ------------------------------------------------------------------------------------------------------------- contradiction


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The Atlas release moves to 4 May.", "The Atlas release is on 20 April."),
        ("The release date of Atlas is 4 May.", "The Atlas release is on 20 April."),
        ("The owner of Atlas is Tom.", "Mara Lind leads Atlas."),
        ("Mara works for Kite.", "Mara works at Lumen."),
        ("Der Arbeitgeber von Mara ist Kite.", "Mara arbeitet bei Lumen."),
        ("Das Budget des Gartens beträgt 4000 €.", "Das Budget des Gartens beträgt 5000 €."),
        ("王芳住在上海。", "王芳住在北京。"),
        ("Atlas的负责人是王芳。", "Atlas的负责人是李雷。"),
        ("The Oslo warehouse is open again.", "The Oslo warehouse is closed until March."),
    ],
)
def test_two_values_of_one_slot(new: str, old: str) -> None:
    assert contradicts(new, old)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Tom also leads Atlas.", "Mara Lind leads Atlas."),
        ("Tom leads Beta.", "Mara Lind leads Atlas."),
        ("The team's favourite editor is Vim.", "The team's favourite colour is blue."),
        ("The workshop starts on 4 May.", "The workshop ends on 6 May."),
        ("The office is closed on Fridays.", "The office is closed on Mondays."),
        ("Atlas supports French.", "Atlas supports German."),
        ("The deadline is 4 May if the board agrees.", "The deadline is 3 May."),
        ("The deadline of Atlas is not 4 May.", "The deadline of Atlas is 3 May."),
        ("Lumen is based in Oslo.", "Lumen is based in Oslo, Norway."),
    ],
)
def test_no_contradiction_where_it_may_be_none(new: str, old: str) -> None:
    assert not contradicts(new, old)


def test_a_long_or_negated_statement_has_no_slot() -> None:
    assert slot_of("The deadline of Atlas is 4 May " + "and so on " * 100) is None
    assert slot_of("Atlas has no deadline.") is None


# --------------------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("quote", "begins", "ends"),
    [
        ("The Oslo warehouse is closed until March.", None, "2027-04-01"),
        ("The rate holds until the end of June.", None, "2026-07-01"),
        ("Das Lager ist bis Ende März geschlossen.", None, "2027-04-01"),
        ("Der Vertrag gilt bis 31.12.2026.", None, "2027-01-01"),
        ("Das gilt bis zum 4. Mai 2027.", None, "2027-05-05"),
        ("From 1 May the office is in Bergen.", "2026-05-01", None),
        ("Ab dem 1. Juli gilt der neue Tarif.", "2026-07-01", None),
        ("仓库关闭直到三月。", None, "2027-04-01"),
        ("从5月1日起办公室在上海。", "2026-05-01", None),
        ("12月31日之前有效。", None, "2027-01-01"),
        ("Open from 1 July until 5 August 2026.", "2026-07-01", "2026-08-06"),
        ("The plant is open until Friday.", None, "2026-06-20"),
        ("We worked until we dropped, in May.", None, None),
        ("新版本的发布推迟到5月4日。", None, None),
        ("Until 31 February it holds.", None, None),
    ],
)
def test_validity_as_people_say_it(quote: str, begins: str | None, ends: str | None) -> None:
    found = validity(None, None, [quote], said_at=SAID)
    assert found == (day(begins) if begins else None, day(ends) if ends else None)


def test_what_was_said_counts_more_than_what_the_model_wrote() -> None:
    quotes = ["closed until March"]
    assert validity(None, "2031-12-31", quotes, said_at=SAID)[1] == day("2027-04-01")
    assert validity(None, "2027-03-15", quotes, said_at=SAID)[1] == day("2027-03-16")
    assert validity(None, "2027-03-01", quotes, said_at=SAID)[1] == day("2027-03-01")
    assert validity(None, "2027-03", quotes, said_at=SAID)[1] == day("2027-04-01")


@pytest.mark.parametrize("written", ["1850-01-01", "2400-01-01", "soon", "2026-02-31", "99999", "", None, "0000-00-00"])
def test_an_implausible_moment_is_none(written: str | None) -> None:
    assert read_moment(written, said_at=SAID) is None


def test_a_day_is_one_of_the_zone() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    assert read_moment("2026-07-01", said_at=SAID, zone=tokyo) == datetime(2026, 6, 30, 15, tzinfo=UTC)
    assert read_moment("2026-07-01T10:00:00+02:00", said_at=SAID, zone=tokyo) == datetime(2026, 7, 1, 8, tzinfo=UTC)
    assert read_moment("2026-07", said_at=SAID, end=True) == day("2026-08-01")


@pytest.mark.parametrize(
    ("written", "quote", "due"),
    [
        ("2026-06-19", "by Friday", "2026-06-19T23:59:59"),
        ("2026-06-20", "by Friday", "2026-06-19T23:59:59"),
        ("2026-06-26", "by next Friday", "2026-06-26T23:59:59"),
        ("2026-06-19T15:00:00+00:00", "on Friday at 3 pm.", "2026-06-19T15:00:00"),
        ("2026-06-18", "on Friday at 3 pm.", "2026-06-19T15:00:00"),
        (None, "bis Freitag", "2026-06-19T23:59:59"),
        (None, "what we said on Monday", None),
        (None, "下周五之前", "2026-06-26T23:59:59"),
        ("2020-01-01", "some day", None),
    ],
)
def test_deadlines(written: str | None, quote: str, due: str | None) -> None:
    assert read_deadline(written, [quote], said_at=SAID) == (day(due) if due else None)


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_can_be_looked_at_for_times(written: str, quote: str) -> None:
    begins, ends = validity(written, written, [quote], said_at=SAID)
    assert ends is None or ends > SAID
    assert begins is None or begins.tzinfo is not None
    read_deadline(written, [quote], said_at=SAID)


# ---------------------------------------------------------------------------------------------------------------- directives


@pytest.mark.parametrize(
    "said",
    [
        "From now on, always answer me in German.",
        "Please never call me after six.",
        "Please don't call me at work.",
        "I want you to keep it short.",
        "Bitte ruf mich künftig nie vor neun Uhr an.",
        "Schreib mir nur noch auf Deutsch.",
        "Bitte duze mich nicht.",
        "请以后用中文回答我。",
        "不要给我打电话。",
        "Réponds-moi toujours en français, s'il te plaît.",
        "Responde siempre.",
        "これからは日本語で返事してください。",
    ],
)
def test_a_clear_directive(said: str) -> None:
    assert is_directive(said)


@pytest.mark.parametrize(
    "said",
    [
        "Can you answer this one in German, please?",
        "Please call me tomorrow at nine.",
        "I always answer my mail on Sundays.",
        "I like short answers.",
        "Thanks for the call yesterday.",
        "Ich antworte immer sonntags.",
        "Ruf mich bitte morgen an.",
        "Should you always answer in German?",
        "我总是周日回复邮件。",
        "请今天给我打电话。",
        "Imagine I said: never call me.",
    ],
)
def test_no_directive(said: str) -> None:
    assert not is_directive(said)


# --------------------------------------------------------------------------------------------------------------- commitments


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ("Please send the contract by Friday.", True),
        ("Remember to call the dentist.", True),
        ("I'll send you the lease tomorrow.", True),
        ("Could you book a table?", True),
        ("Remember that the deck closes at ten.", False),
        ("She is responsible for the mail.", False),
        ("You're in charge of travel.", False),
        ("Tom usually handles the invoices.", False),
        ("Deine Aufgabe ist es, die Post zu holen.", False),
        ("What time is it?", False),
        ("Wir haben den Vertrag schon geschickt.", False),
        ("我们已经把合同发了。", False),
        ("你负责订酒店。", False),
        ("请帮我订酒店。", True),
    ],
)
def test_commitments(said: str, *, is_one: bool) -> None:
    assert is_commitment(said) is is_one


def test_a_name_says_enough_to_act_on() -> None:
    assert is_concrete("Send Mara the contract")
    assert is_concrete("预订会议室")
    assert not is_concrete("Fix that")
    assert not is_concrete("Mach das besser")


# ------------------------------------------------------------------------------------------------------------ texts, sentences


def test_sentences() -> None:
    text = "The release is on 20. April at 3.30 p.m. sharp. Really? 是的。好！\nDone"
    assert sentences(text) == ["The release is on 20. April at 3.30 p.m. sharp.", "Really?", "是的。", "好！", "Done"]
    assert around("sorting the MAIL", "Hello. You are responsible for sorting the  mail. Bye.") == [
        "You are responsible for sorting the  mail."
    ]
    assert around("not there", "Hello.") == ["not there"]


@given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, max_size=3), st.booleans())
def test_any_texts_can_be_woven(old: str, new: str, quotes: list[str], lets_go: bool) -> None:
    result = fitted(woven(old, new, quotes, lets_go=lets_go))
    assert count_words(result) <= MAX_TEXT_WORDS
    assert len(result) <= MAX_TEXT_CHARS


@pytest.mark.parametrize("text", ["word " * 5000, "字" * 5000, "字。" * 2000, "x" * 20_000, "Eins zwei. " * 3000])
def test_a_text_is_cut_to_its_bounds(text: str) -> None:
    result = fitted(text.strip())
    assert 0 < count_words(result) <= MAX_TEXT_WORDS
    assert len(result) <= MAX_TEXT_CHARS


def test_when_there_is_no_room_the_new_sentences_stay() -> None:
    old = " ".join(f"Mara likes the town of number {number} very much." for number in range(60))
    new = "Mara works at Kite."
    assert fitted(woven(old, new, ["I work at Kite."])).endswith(new)


@pytest.mark.parametrize("claimed", [True, False])
def test_a_correction_of_one_thing_leaves_the_other_ones_alone(claimed: bool) -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)

    def fact(statement: str) -> Fact:
        return Fact(fact_id="f", owner="u/ann", statement=statement, observed_at=at, created_at=at)

    orchard, quarry = "The deadline of the Orchard project is 26 June 2026.", "The deadline of the Quarry project is 18 June 2026."
    said = [f"Correction: {quarry}"]
    assert not takes_place(fact(quarry), fact(orchard), said, claimed=claimed)
    later = "The deadline of the Quarry project is 20 June 2026."
    assert takes_place(fact(later), fact(quarry), [f"Correction: {later}"], claimed=claimed)
