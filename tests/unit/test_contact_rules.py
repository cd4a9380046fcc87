"""What the fields of a contact may hold, and the form in which they are stored."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.contact_rules import EDITABLE_FIELDS, checked_field, checked_fields, count_words
from memory.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("given_name", "stored"),
    [
        ("Ada", "Ada"),
        ("  Jean-Luc   O’Brien ", "Jean-Luc O'Brien"),
        ("'t Hooft", "'t Hooft"),
        ("Sammy Davis Jr.", "Sammy Davis Jr."),
        ("李雷", "李雷"),
        ("ジョン・スミス", "ジョン スミス"),
        ("अदिति", "अदिति"),
        ("สมชาย ใจดี", "สมชาย ใจดี"),
        ("أحمد", "أحمد"),
        ("Nguye\u0302\u0303n", "Nguyễn"),
        ("مهدی\u200cزاده", "مهدی\u200cزاده"),
        ("R2D2", "R2D2"),
        ("", None),
        (" \n", None),
        (None, None),
    ],
)
def test_names_of_any_script(given_name: str | None, stored: str | None) -> None:
    assert checked_fields({"first_name": given_name, "surname": given_name}) == {"first_name": stored, "surname": stored}


@pytest.mark.parametrize("name", ["Ada <admin>", "a@b", "Ada_L", "x/y", "💥", "- .", "Ada\u202eevil", "a" * 201, "A;B", 7, ["Ada"]])
def test_what_is_no_name_is_refused_without_repeating_it(name: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_field("first_name", name)
    assert "first_name" in str(caught.value)
    assert str(name) not in str(caught.value)


@pytest.mark.parametrize(
    ("given_address", "stored"),
    [
        ("Ada.Lovelace@Example.COM", "Ada.Lovelace@example.com"),
        (" a+b@mail.example.co.uk ", "a+b@mail.example.co.uk"),
        ("mailto:a@b.de", "a@b.de"),
        ("用户@例子.公司", "用户@例子.公司"),
        ("o'hara@x-y.org", "o'hara@x-y.org"),
    ],
)
def test_addresses(given_address: str, stored: str) -> None:
    assert checked_field("email_address", given_address) == stored


@pytest.mark.parametrize(
    "address", ["a", "a@b", "@b.de", "a@.de", "a@b..de", "a b@c.de", "a@b.de,c@d.de", "a@@b.de", "x" * 250 + "@b.de"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidInput, match="email_address"):
        checked_field("email_address", address)


@pytest.mark.parametrize(
    ("given_number", "stored"),
    [
        ("+49 151 234-5678", "+491512345678"),
        ("+49 (0)151 2345678", "+491512345678"),
        ("(555) 123.4567", "5551234567"),
        ("030/12 34 56", "030123456"),
        ("+1\u00a0555\u2011123\u20114567", "+15551234567"),
        ("٠١٢٣٤٥٦٧٨٩", "0123456789"),
        ("＋４９１５１", "+49151"),
        ("tel:+4915112345678", "+4915112345678"),
        ("110", "110"),
    ],
)
def test_numbers(given_number: str, stored: str) -> None:
    assert checked_fields({"phone_number": given_number, "whatsapp_number": given_number}) == {
        "phone_number": stored,
        "whatsapp_number": stored,
    }


@pytest.mark.parametrize("number", ["12", "+", "1-800-FLOWERS", "++49151", "49+151", "1" * 21, "12²34", "call me"])
def test_what_is_no_number(number: str) -> None:
    with pytest.raises(InvalidInput, match="phone_number"):
        checked_field("phone_number", number)


def test_time_zones() -> None:
    assert checked_field("timezone", " europe/berlin ") == "Europe/Berlin"
    for wrong in ("Berlin", "../../etc/passwd", "GMT+25", "Europe/Atlantis"):
        with pytest.raises(InvalidInput, match="timezone"):
            checked_field("timezone", wrong)


def test_a_yes_or_no_is_one() -> None:
    assert checked_field("should_respond", False) is False
    for wrong in ("no", 0, None):
        with pytest.raises(InvalidInput, match="should_respond"):
            checked_field("should_respond", wrong)


@pytest.mark.parametrize("name", ["contact_id", "is_system", "merged_into", "aliases", "shoe_size", ""])
def test_other_fields_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidInput, match="no field"):
        checked_field(name, "x")


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("one two, three - four", 4, 4),
        ("don't well-known", 2, 2),
        ("हिन्दी में लिखा हुआ", 4, 4),
        ("나는 베를린에 산다", 3, 3),
        ("她住在柏林，喜欢喝茶。", 4, 6),
        ("彼女はベルリンに住んでいます。", 5, 9),
        ("ฉันอาศัยอยู่ในกรุงเบอร์ลิน", 4, 8),
        ("她喜欢 green tea", 4, 4),
        ("🎉 — …", 0, 0),
    ],
)
def test_words_are_counted_in_any_script(text: str, least: int, most: int) -> None:
    assert least <= count_words(text) <= most


@pytest.mark.parametrize("field", ["bio", "rolling_summary"])
def test_long_texts(field: str) -> None:
    fits = "word " * 500
    assert checked_field(field, fits) == fits.strip()
    assert checked_field(field, "你" * 1000) == "你" * 1000
    for too_long in ("word " * 501, "你" * 1002, "x" * 8001):
        with pytest.raises(InvalidInput, match=f"{field} has .* at most"):
            checked_field(field, too_long)
    assert checked_field("response_policy", "word " * 501)
    with pytest.raises(InvalidInput, match="response_policy has"):
        checked_field("response_policy", "x" * 8001)


def test_paragraphs_stay_and_what_no_store_takes_goes() -> None:
    assert checked_field("bio", " first\n\nsecond\x00 \ud83d") == "first\n\nsecond \ufffd"
    assert checked_field("job_title", " Head\n of   sales ") == "Head of sales"


@given(field=st.sampled_from(EDITABLE_FIELDS), text=st.text(max_size=60))
def test_what_is_stored_is_a_fixed_point(field: str, text: str) -> None:
    try:
        stored = checked_field(field, text)
    except InvalidInput:
        return
    assert checked_field(field, stored) == stored
    if stored is not None:
        assert stored == unicodedata.normalize("NFC", stored).strip() or field.endswith("number")
