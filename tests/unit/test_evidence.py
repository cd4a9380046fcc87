"""Quotes: what counts as the words of an event, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.evidence import has_quote, is_asking, is_assent, is_telling, keeps_script, normalised, sources_of, stands_in
from memory.model.items import DropReason, KnowledgeItem
from memory.prompts import all_prompt_texts
from tests.support.extractions import called, claim, quote, stored

SAID = "Invoices above 500 €  need “two” signatures — that’s Ｆｉｎａｌ.\nBudget: <known> 5,000."


@pytest.mark.parametrize(
    "words",
    [
        'Invoices above 500 € need "two" signatures',
        "invoices ABOVE 500 €\nneed two signatures",
        "'need two signatures'",
        "signatures - that's final",
        "Invoices … two signatures",
        "Invoices above [...] two signatures",
        "Budget: ‹known> 5,000",
    ],
)
def test_form_does_not_count(words: str) -> None:
    assert stands_in(SAID, words)


@pytest.mark.parametrize(
    "words",
    [
        "Invoices above 600 € need two signatures",
        "voices above 500",
        "Invoices above 5",
        "two signatures … Invoices above",
        "In … 500 … to … that",
        "signature",
        "…",
        "",
    ],
)
def test_other_words_pieces_of_words_and_another_order_are_no_quote(words: str) -> None:
    assert not stands_in(SAID, words)


def test_a_quote_in_chinese_may_begin_anywhere() -> None:
    assert stands_in("我们的预算是五千元。", "预算是五千")
    assert not stands_in("我们的预算是五千元。", "预算是六千")


@pytest.mark.parametrize("words", ["a", "the", "of the", "is it", "。", "…", "的", "und die", "I", "42"])
def test_a_letter_or_a_stop_word_says_nothing(words: str) -> None:
    assert not is_telling(words)


@pytest.mark.parametrize("words", ["yes", "预算", "Rom", "500", "の会議", "ใช่แล้ว"])
def test_a_word_says_something(words: str) -> None:
    assert is_telling(words)


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ([], DropReason.NO_QUOTE),
        ([quote(1, " ")], DropReason.NO_QUOTE),
        ([quote(1, "e")], DropReason.NO_QUOTE),
        ([quote(2, "two signatures")], DropReason.QUOTE_NOT_FOUND),
        ([quote(0, "two signatures")], DropReason.QUOTE_NOT_FOUND),
        ([quote(9, "two signatures")], DropReason.QUOTE_NOT_FOUND),
        ([quote(1, "two signatures"), quote(1, "three signatures")], DropReason.QUOTE_NOT_FOUND),
        ([quote(1, "You keep the long-term memory of an assistant")], DropReason.QUOTE_NOT_FOUND),
    ],
)
def test_evidence_that_does_not_hold(evidence: list[dict[str, object]], reason: DropReason) -> None:
    events = stored("Invoices need two signatures.", "I see.")
    assert sources_of(KnowledgeItem(statement="x", evidence=evidence), events, origin="window:w1") is reason  # type: ignore[arg-type]


def test_no_sentence_of_the_prompts_is_a_quote_of_an_event() -> None:
    (event,) = stored("Invoices need two signatures.")
    for text in all_prompt_texts():
        assert not any(has_quote(event, line) for line in text.splitlines() if is_telling(line))


def test_sources_name_the_event_and_its_time() -> None:
    events = stored("Invoices need two signatures.", "I see.")
    item = KnowledgeItem.model_validate(claim("x", quote(1, "Invoices need"), quote(2, "I see"), quote(1, "Invoices need")))
    found = sources_of(item, events, origin="window:w1")
    assert not isinstance(found, DropReason)
    assert [(one.event_id, one.seq, one.quote, one.origin) for one in found] == [
        ("e1", 1, "Invoices need", "window:w1"),
        ("e2", 2, "I see", "window:w1"),
    ]
    assert found[1].said_at == events[1].event.timestamp


def test_a_manager_call_can_be_quoted_as_it_is_shown() -> None:
    (event,) = stored(called("KnowledgeManager", "update", {"text": "Invoices need two signatures", "row_id": 77}))
    assert has_quote(event, '"text":"Invoices need two signatures"')
    assert not has_quote(event, "row_id")


def test_a_secret_is_no_evidence() -> None:
    events = stored("the password is hunter2-Zebra!")
    item = KnowledgeItem.model_validate(claim("x", quote(1, "the password is hunter2-Zebra!")))
    assert sources_of(item, events, origin="o") is DropReason.ROUTED_ELSEWHERE


@pytest.mark.parametrize("words", ["Yes, please.", "ja genau", "Oh yes!", "That's right", "好的，谢谢", "Perfect. Do it."])
def test_assent(words: str) -> None:
    assert is_assent(words)


@pytest.mark.parametrize("words", ["No, not at all.", "What do you know about me?", "Yesterday was fun", "Jakob kommt", "不对"])
def test_no_assent(words: str) -> None:
    assert not is_assent(words)


@pytest.mark.parametrize(
    "words",
    [
        "What do you know about me?",
        "And where do I live?",
        "Tell me about Atlas.",
        "Was weißt du über mich? ",
        "Wie heißt es?",
        "我住在哪里？",
    ],
)
def test_a_question_states_nothing(words: str) -> None:
    assert is_asking(words)


@pytest.mark.parametrize(
    "words", ["We need two signatures, right?", "Who asks wins.", "Das ist so, oder?", "Atlas ships in May.", "我住在罗马。"]
)
def test_a_statement_is_no_question(words: str) -> None:
    assert not is_asking(words)


# ---------------------------------------------------------------------------------------------------------------- language


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The budget is five thousand.", "预算是五千元"),
        ("Wang (王) says that the budget is five thousand.", "王说预算是五千元"),
        ("予算は五千円です。", "The budget is five thousand."),
        ("Byudzhet raven pyati tysyacham", "Бюджет равен пяти тысячам"),
        ("The meeting is on Monday", "الاجتماع يوم الاثنين"),
    ],
)
def test_another_script_than_what_was_said(text: str, said: str) -> None:
    assert not keeps_script(text, [said])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("预算是五千元", "我们的预算是五千元"),
        ("团队使用 Kubernetes 和 PostgreSQL", "我们用 Kubernetes 和 PostgreSQL 部署"),
        ("Das Budget beträgt 5.000", "The budget is 5,000"),
        ("5.000 €", "预算是 5.000 €"),
        ("The deck is called 春", "The deck is called 春"),
    ],
)
def test_the_script_of_what_was_said(text: str, said: str) -> None:
    assert keeps_script(text, [said])


def test_an_older_text_is_gone_on_with_in_its_script() -> None:
    assert keeps_script("Ada works in Rome and moves in May.", ["我五月搬家"], known="Ada works in Rome.")
    assert not keeps_script("Ada moves in May.", ["我五月搬家"])


# -------------------------------------------------------------------------------------------------------------- any text

TEXTS = st.text(st.characters(codec=None), max_size=80)
WRITTEN = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=80)


@given(WRITTEN, WRITTEN, WRITTEN)
def test_a_telling_part_on_word_bounds_is_found(before: str, middle: str, after: str) -> None:
    text = f"{before} {middle} {after}"
    if (
        is_telling(middle)
        and "…" not in normalised(middle)
        and "..." not in normalised(middle)
        and normalised(middle).strip(" .,;:!?")
    ):
        assert stands_in(text, middle)


@given(TEXTS, TEXTS)
def test_what_is_found_was_said(text: str, words: str) -> None:
    if stands_in(text, words) and "…" not in normalised(words) and "..." not in normalised(words):
        assert normalised(words).strip(" .,;:!?") in normalised(text) or "<" in text


@given(TEXTS, TEXTS)
def test_nothing_raises(text: str, words: str) -> None:
    is_telling(words)
    is_assent(words)
    keeps_script(text, [words], known=text)
    stands_in(text, words)
