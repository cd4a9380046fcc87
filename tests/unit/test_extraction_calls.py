"""How often a model is asked for a window, and what is made of replies that are cut off, unreadable or bad in one section."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from memory.extraction import MAX_MODEL_CALLS
from memory.extraction.extractor import MAX_LINES
from memory.model.category import Category
from memory.model.errors import MalformedOutput, ModelRateLimited, ModelRejected, ModelUnavailable
from memory.model.items import DropReason
from memory.ports import ChatReply, ChatRequest, StopReason, Usage
from tests.support.extractions import a_contact, claim, extract, known, quote, reasons, reply, said, section, specs, stored, taken
from tests.support.models import ScriptedModel, cut

K, C, B, T = Category.KNOWLEDGE, Category.CONTACTS, Category.BIOS, Category.TASKS
RULE = "Invoices above 500 € need two signatures."
ITEM = claim(RULE, quote(1, "two signatures"))
GOOD = reply(knowledge=[ITEM], tasks=[])


def lines_of(request: ChatRequest) -> list[str]:
    """The texts of the transcript, by their lines."""
    block = re.search(r"<transcript>\n(.*)\n</transcript>", request.messages[0].text, re.DOTALL)
    assert block is not None
    found = [re.fullmatch(r"\[(\d+)\] .*? \| chat \| (.*)", line) for line in block[1].split("\n")]
    assert [one and int(one[1]) for one in found] == list(range(1, len(found) + 1)), "each part is numbered from its own 1"
    return [one[2] for one in found if one]


def every_line(request: ChatRequest) -> str:
    """A model that takes each line as a fact."""
    items = [claim(text, quote(number, text)) for number, text in enumerate(lines_of(request), 1)]
    return reply(knowledge=items, tasks=[])


def room_for(lines: int, answer: Callable[[ChatRequest], str] = every_line) -> Callable[[ChatRequest], str | ChatReply]:
    return lambda request: answer(request) if len(lines_of(request)) <= lines else cut('{"knowledge": [{"evi')


NAMES = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "iris", "jade", "koala", "lemon", "maple", "north"]


def rules(count: int) -> list[str]:
    return [f"rule {NAMES[place % 14]} {place} holds" for place in range(count)]


# -------------------------------------------------------------------------------------------------------- 12: cut off


async def test_a_reply_that_is_cut_off_is_asked_for_with_more_room() -> None:
    model = ScriptedModel({"extract": [cut(GOOD[:-20]), GOOD]})
    result = await extract(model, stored(RULE), K, T)
    first, second = model.requests
    assert second.max_output_tokens == 2 * first.max_output_tokens
    assert (second.stage, second.messages, second.schema) == (first.stage, first.messages, first.schema)
    assert len(taken(result, K)) == 1
    assert result.extraction.flags == ("more_room",)
    assert result.usage["extract"].calls == 2


@pytest.mark.parametrize("left_out", [1, 10, 40, 80])
async def test_a_cut_that_nobody_tells_of_is_seen(left_out: int) -> None:
    model = ScriptedModel({"extract": [GOOD[:-left_out], GOOD]})
    result = await extract(model, stored(RULE), K, T)
    assert len(taken(result, K)) == 1
    assert "more_room" in result.extraction.flags


async def test_of_a_reply_that_says_it_is_cut_off_nothing_is_taken_even_if_it_can_be_read() -> None:
    model = ScriptedModel({"extract": [cut(reply(knowledge=[ITEM])), reply(knowledge=[], tasks=[])]})
    assert taken(await extract(model, stored(RULE), K, T), K) == []


async def test_a_window_whose_reply_does_not_fit_is_split_in_halves() -> None:
    events = stored(*rules(50))
    model = ScriptedModel({"extract": room_for(15)})
    result = await extract(model, events, K, T)
    assert [item.statement for item in taken(result, K)] == rules(50)
    assert [one["sources"][0]["event_id"] for one in section(result, K).items] == [f"e{number}" for number in range(1, 51)]
    assert result.extraction.flags == ("more_room", "split:cut_off")
    assert section(result, K).proposed == 50
    assert len(model.requests) <= MAX_MODEL_CALLS


async def test_halves_give_the_same_keys_as_the_whole() -> None:
    events = stored(*rules(12))
    whole = await extract(ScriptedModel({"extract": every_line}), events, K, T)
    halves = await extract(ScriptedModel({"extract": room_for(6)}), events, K, T)
    assert [one["key"] for one in section(whole, K).items] == [one["key"] for one in section(halves, K).items]


async def test_what_both_halves_say_is_one_item_with_both_sources() -> None:
    events = stored(*rules(4), RULE, *rules(4)[::-1], RULE)
    result = await extract(ScriptedModel({"extract": room_for(5)}), events, K, T)
    assert len(taken(result, K)) == 5
    assert reasons(result, K) == [DropReason.DUPLICATE] * 5
    (rule,) = [one for one in section(result, K).items if one["item"]["statement"] == RULE]
    assert [one["event_id"] for one in rule["sources"]] == ["e5", "e10"]


async def test_a_few_lines_that_do_not_fit_are_malformed_output() -> None:
    model = ScriptedModel({"extract": cut("")})
    with pytest.raises(MalformedOutput, match="does not fit"):
        await extract(model, stored(*rules(7)), K, T)
    assert len(model.requests) == 2


async def test_a_window_takes_so_many_calls_and_no_more() -> None:
    model = ScriptedModel({"extract": room_for(7)})
    with pytest.raises(MalformedOutput, match="model calls"):
        await extract(model, stored(*rules(190)), K, T)
    assert len(model.requests) == MAX_MODEL_CALLS


async def test_a_long_chunk_is_taken_in_parts() -> None:
    model = ScriptedModel({"extract": reply(knowledge=[], tasks=[])})
    result = await extract(model, stored(*rules(2 * MAX_LINES + 2)), K, T)
    assert [len(lines_of(request)) for request in model.requests] == [100, 101, 100, 101]
    assert result.extraction.flags == ("split:long",)


# ------------------------------------------------------------------------------------------------- too long for the model


async def test_a_prompt_that_the_model_refuses_for_its_length_is_split() -> None:
    def answer(request: ChatRequest) -> str:
        if len(lines_of(request)) > 10:
            raise ModelRejected("scripted:test answered 400 (context_length_exceeded)")
        return reply(knowledge=[claim(lines_of(request)[0], quote(1, "and more of it"))], tasks=[])

    events = stored(*(f"{rule} {'and more of it ' * 100}" for rule in rules(20)))
    result = await extract(ScriptedModel({"extract": answer}), events, K, T)
    assert len(taken(result, K)) == 2
    assert "split:rejected" in result.extraction.flags


async def test_a_short_prompt_that_is_refused_is_refused() -> None:
    model = ScriptedModel({"extract": ModelRejected("scripted:test answered 400")})
    with pytest.raises(ModelRejected):
        await extract(model, stored(*rules(50)), K, T)
    assert len(model.requests) == 1


async def test_a_model_that_declines_is_a_refusal() -> None:
    refused = ChatReply("", StopReason.REFUSED, Usage(1, 1), "scripted:test")
    with pytest.raises(ModelRejected, match="refused"):
        await extract(ScriptedModel({"extract": refused}), stored(RULE), K, T)


# ------------------------------------------------------------------------------- 2, 13: unreadable, and broken in a part


@pytest.mark.parametrize("text", ["", "I found nothing.", "[1, 2", '{"profile": []}'])
async def test_a_reply_of_which_nothing_can_be_read_is_malformed_output(text: str) -> None:
    with pytest.raises(MalformedOutput):
        await extract(ScriptedModel({"extract": text}), stored(RULE), K, T)


@pytest.mark.parametrize(
    "text", [f"```json\n{GOOD}\n```", f"Here you are:\n````\n```json\n{GOOD}\n```\n````\nBye!", f"<think>hm {{</think>{GOOD}"]
)
async def test_fences_prose_and_thinking_do_not_matter(text: str) -> None:
    model = ScriptedModel({"extract": text})
    assert len(taken(await extract(model, stored(RULE), K, T), K)) == 1
    assert len(model.requests) == 1


async def test_a_broken_section_is_asked_for_again_alone() -> None:
    model = ScriptedModel({"extract": reply(knowledge="none", tasks=[]), "extract_knowledge": reply(knowledge=[ITEM])})
    result = await extract(model, stored(RULE), K, T)
    (again,) = model.asked("extract_knowledge")
    assert list((again.schema or {})["properties"]) == ["knowledge"]
    assert "## knowledge" in again.system_text
    assert "## tasks" not in again.system_text
    assert again.messages[0].text.endswith("Categories: knowledge.")
    assert len(taken(result, K)) == 1
    assert result.extraction.flags == ("repaired:knowledge",)
    assert {stage: usage.calls for stage, usage in result.usage.items()} == {"extract": 1, "extract_knowledge": 1}


@pytest.mark.parametrize("again", ["", reply(tasks="x"), cut("{"), ModelRejected("no")])
async def test_a_category_that_stays_broken_fails_and_the_others_stand(again: Any) -> None:
    model = ScriptedModel({"extract": reply(knowledge=[ITEM], tasks="x"), "extract_tasks": again})
    result = await extract(model, stored(RULE), K, T)
    assert len(taken(result, K)) == 1
    assert section(result, K).failed is None
    assert section(result, T).failed == "not_a_list"
    assert section(result, T).items == ()


@pytest.mark.parametrize("error", [ModelRateLimited("slow down"), ModelUnavailable("down")])
async def test_what_may_pass_is_raised_and_nothing_is_kept_half_done(error: Exception) -> None:
    model = ScriptedModel({"extract": reply(knowledge=[ITEM], tasks="x"), "extract_tasks": error})
    with pytest.raises(type(error)):
        await extract(model, stored(RULE), K, T)


async def test_of_a_category_that_fails_in_one_half_nothing_is_taken() -> None:
    def answer(request: ChatRequest) -> str:
        good = json.loads(every_line(request))
        return reply(knowledge=good["knowledge"], tasks="x" if lines_of(request)[0].endswith("0 holds") else [])

    model = ScriptedModel({"extract": room_for(10, answer), "extract_tasks": ""})
    result = await extract(model, stored(*rules(20)), K, T)
    assert section(result, T).failed == "not_a_list"
    assert len(taken(result, K)) == 20
    assert "Categories: knowledge." in model.requests[-1].messages[0].text, "the failed one is not asked for again"


# ------------------------------------------------------------------------------------------------- people over two halves


def introduce(*found: dict[str, Any]) -> Callable[[ChatRequest], str | ChatReply]:
    replies = iter(found)
    return room_for(5, lambda request: reply(**next(replies)))


def made(ref: str, line: int, words: str, **fields: Any) -> dict[str, Any]:
    return {"action": "create", "contact": ref, "evidence": [quote(line, words)], **fields}


async def test_new_contacts_of_both_halves_do_not_get_mixed_up() -> None:
    events = stored(
        "This is Mara Lind.", *rules(4), "And that is Bo Berg, bo@lumen.example.", "Mara Lind designs posters.", *rules(3)
    )
    first = {
        "contacts": [made("new1", 1, "Mara Lind", first_name="Mara", surname="Lind")],
        "bios": [{"contact": "new1", "text": "Mara Lind is known to Ada.", "evidence": [quote(1, "This is Mara Lind")]}],
    }
    second = {
        "contacts": [
            made("new1", 1, "Bo Berg", first_name="Bo", surname="Berg", email_address="bo@lumen.example"),
            made("new2", 2, "Mara Lind", first_name="Mara", surname="Lind", job_title="posters"),
        ],
        "bios": [
            {"contact": "new1", "text": "Bo Berg.", "evidence": [quote(1, "that is Bo Berg")]},
            {"contact": "new2", "text": "Mara Lind designs posters.", "evidence": [quote(2, "designs posters")]},
        ],
    }
    result = await extract(ScriptedModel({"extract": introduce(first, second)}), events, C, B)
    people = taken(result, C)
    assert [(one.action, one.contact, one.first_name) for one in people] == [
        ("create", "new1", "Mara"),
        ("create", "new1p2", "Bo"),
        ("update", "new1", "Mara"),
    ]
    assert [(one.contact, one.text) for one in taken(result, B)] == [
        ("new1", "Mara Lind is known to Ada."),
        ("new1p2", "Bo Berg."),
        ("new1", "Mara Lind designs posters."),
    ]


async def test_the_second_half_goes_on_with_the_texts_of_the_first() -> None:
    events = stored(said("I come from Oslo.", "mara"), *rules(4), said("I design posters.", "mara"), *rules(4))
    texts = ["She comes from Oslo.", "She comes from Oslo. She designs posters."]
    model = ScriptedModel(
        {
            "extract": introduce(
                {"bios": [{"contact": "c7", "text": texts[0], "evidence": [quote(1, "come from Oslo")]}]},
                {"bios": [{"contact": "c7", "text": texts[1], "evidence": [quote(1, "design posters")]}]},
            )
        }
    )
    result = await extract(model, events, B, what=known(a_contact(7, first_name="Mara", aliases=("mara",))))
    assert [one.text for one in taken(result, B)] == texts
    assert '"bio": "She comes from Oslo."' in model.requests[-1].messages[0].text


async def test_all_categories_are_asked_in_one_call() -> None:
    model = ScriptedModel({"extract": reply(**{category.value: [] for category in Category})})
    result = await extract(model, stored(RULE), specs=specs())
    assert len(model.requests) == 1
    assert [part.cacheable for part in model.requests[0].system] == [True]
    assert all(f"## {category.value}" in model.requests[0].system_text for category in Category)
    assert [one.category for one in result.extraction.categories] == list(Category)
