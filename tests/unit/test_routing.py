"""Where a piece of content belongs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.routing import Store, is_how_to, route

CASES = {
    Store.GUIDANCE: [
        "To reset the router, press the button for ten seconds.",
        "How to file expenses: open the portal, upload the receipt and submit it.",
        "First open the ledger, then select the month, finally press Close.",
        "1. Open the app\n2. Choose Settings\n3. Press Reset",
        "Um das Passwort zurückzusetzen, musst du zuerst das Portal öffnen.",
        "So richtet man den Drucker ein: erst anschalten, dann verbinden.",
        "Zuerst öffnest du das Portal, dann lädst du den Beleg hoch.",
        "首先打开系统，然后选择月份，最后点击关闭。",
        "第一步打开系统，第二步选择月份。",
    ],
    Store.FUNCTIONS: [
        "def total(rows):\n    return sum(row.amount for row in rows)",
        "async def fetch(url):\n    ...",
        "export const add = (a, b) => a + b",
        "```python\ndef total(rows):\n    return 1\n```",
    ],
    Store.TASKS: [
        "Please send Mara the contract by Friday.",
        "Can you book a table for eight?",
        "Remind me to call the dentist.",
        "Bitte schick Mara den Vertrag bis Freitag.",
        "Kannst du einen Tisch für acht reservieren?",
        "请周五前把合同发给马拉。",
    ],
    Store.CONTACTS: [
        "Mara's email is mara@lumen.example",
        "Her phone number is +49 30 1234567.",
        "Mara Lind is 42 years old.",
        "Seine Telefonnummer lautet 030 1234567.",
        "马拉的电话是12345678",
    ],
    Store.PROFILE: [
        "I prefer short answers.",
        "My name is Ada.",
        "Ich wohne in Rom.",
        "我喜欢简短的回答。",
    ],
    Store.FACTS: [
        "Invoices above 500 € need two signatures.",
        "The release of Atlas is on 3 May.",
        "Rechnungen über 500 € brauchen zwei Unterschriften.",
        "超过五百元的发票需要两个签名。",
        "Our company closes at six on Fridays.",
        "The API returns JSON.",
        "The first quarter was better than expected.",
    ],
    Store.NOWHERE: ["", "  ", "ok", "the api key is sk-proj-abcdefghijklmnopqrstuvwx1234567890"],
}


@pytest.mark.parametrize(("store", "content"), [(store, content) for store, contents in CASES.items() for content in contents])
def test_where_it_belongs(store: Store, content: str) -> None:
    found = route(content)
    assert found.store is store
    assert found.write_path
    assert found.reason


def test_the_write_paths_are_those_of_the_stores() -> None:
    paths = {store: route(contents[-1]).write_path for store, contents in CASES.items()}
    assert paths[Store.GUIDANCE] == "add_guidance"
    assert paths[Store.FUNCTIONS] == "add_functions"
    assert paths[Store.FACTS] == "knowledge.update"


def test_the_reason_never_holds_the_content() -> None:
    assert all("canary" not in route(f"{content} canary-4711").reason for contents in CASES.values() for content in contents)


def test_a_how_to_is_told_from_a_fact_about_order() -> None:
    assert is_how_to("First open the ledger, then select the month.")
    assert not is_how_to("The ledger closes first, the bank a day later.")


def test_attributes_of_people_and_of_things() -> None:
    assert route("Mara Lind was born in 1980").store is Store.CONTACTS
    assert route("The address of the server is in the wiki").store is not Store.CONTACTS


@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_has_a_place(text: str) -> None:
    assert route(text).store in Store


def test_long_text_is_read_in_no_time() -> None:
    assert route("first " * 200_000).store in Store
    assert route("to " + "a " * 200_000).store in Store
