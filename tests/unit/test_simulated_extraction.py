"""The simulated model extracts: exact quotes, the six categories in three languages, traps, and misbehaviour on demand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from memory.llm.simulated import MODEL_NAME, SimulatedModel
from memory.llm.simulated_extraction_dates import find_date, repeat_rule, valid_from, valid_until
from memory.llm.simulated_extraction_faults import INVENTED
from memory.llm.simulated_extraction_prompt import read_extraction
from memory.llm.simulated_faults import EXTRACTION_FAULTS
from memory.llm.tokens import counter_for
from memory.model.category import Category
from memory.model.errors import ModelRejected
from memory.model.routing import Store, route
from memory.ports import ChatMessage, ChatReply, ChatRequest, PromptPart, StopReason

COUNTER = counter_for("simulated", "")
ALL = ", ".join(category.value for category in Category)
ASSISTANT = {"ref": "c0", "name": "", "assistant": True}
USER = {"ref": "c1", "name": "Ada Lovelace", "user": True, "sender_ids": ["user"]}
MARA = {"ref": "c7", "name": "Mara Lind", "email_address": "mara@lumen.example", "sender_ids": ["mara"]}
TEXTS = ("bios", "rolling_summaries", "response_policies")
RULES = "Task: extract\nEvery item cites the lines of the transcript that it rests on. Never invent anything."


def ada(text: str) -> str:
    return f"Ada Lovelace → assistant | chat | {text}"


def mara(text: str) -> str:
    return f"Mara Lind → assistant | email | {text}"


def assistant(text: str) -> str:
    return f"assistant → Ada Lovelace | chat | {text}"


def call(manager: str, method: str, **request: str) -> str:
    return json.dumps({"manager": manager, "method": method, "phase": "incoming", "request": request}, ensure_ascii=False)


def request(*lines: str, known: Sequence[dict[str, Any]] = (), categories: str = ALL) -> ChatRequest:
    rows = "\n".join(json.dumps(row, ensure_ascii=False) for row in (ASSISTANT, USER, *known))
    said = "\n".join(f"[{count}] 2026-06-17 12:{count:02} UTC | {line}" for count, line in enumerate(lines, 1))
    text = f"<known>\n{rows}\n</known>\n<transcript>\n{said}\n</transcript>\nToday is 2026-06-18. Categories: {categories}."
    return ChatRequest(
        "extract",
        (PromptPart(RULES),),
        (ChatMessage("user", (PromptPart(text),)),),
        8000,
        30,
        {"type": "object"},
        "window_items",
    )


async def reply(asked: ChatRequest, faults: str = "", seed: int = 0) -> ChatReply:
    return await SimulatedModel("simulated", faults, seed, 0, COUNTER).complete(asked)


async def extracted(*lines: str, known: Sequence[dict[str, Any]] = (), faults: str = "", categories: str = ALL) -> dict[str, Any]:
    """The items, after their quotes were looked up in the lines that they cite."""
    answer: dict[str, Any] = json.loads((await reply(request(*lines, known=known, categories=categories), faults)).text)
    if not faults:
        for items in answer.values():
            for item in items:
                assert item["evidence"]
                for entry in item["evidence"]:
                    assert entry["quote"] in lines[entry["event"] - 1]
    return answer


async def one(category: str, *lines: str, known: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    found = (await extracted(*lines, known=known, categories=category))[category]
    assert len(found) == 1, found
    return found[0]


async def test_answers_the_categories_asked_for_and_says_what_it_is() -> None:
    answer = await reply(request(ada("We decided to use Postgres for Atlas."), categories="knowledge, tasks"))
    assert set(json.loads(answer.text)) == {"knowledge", "tasks"}
    assert (answer.model, answer.stop) == (MODEL_NAME, StopReason.END)
    assert answer.usage.input_tokens > 0 < answer.usage.output_tokens


async def test_a_prompt_without_a_transcript_is_rejected() -> None:
    asked = request(ada("Hi"))
    bare = ChatRequest(
        "extract", asked.system, (ChatMessage("user", (PromptPart("hello"),)),), 100, 1, {"type": "object"}, "window_items"
    )
    with pytest.raises(ModelRejected, match="prompts of this project"):
        await reply(bare)


async def test_nothing_said_gives_nothing() -> None:
    for lines in ((), (ada("ok"), assistant("…")), (ada("👍🎉"),), (assistant("Ada works at Northwind. The plant runs on gas."),)):
        assert not any((await extracted(*lines)).values())


async def test_reads_tasks_facts_and_contacts_of_the_known_block() -> None:
    brief = read_extraction(
        request(
            mara("Hello"),
            known=[MARA, {"ref": "t1", "name": "Pay"}, {"ref": "f1", "subject": "a", "statement": "b", "valid_until": None}],
        )
    )
    assert [one.ref for one in brief.contacts] == ["c0", "c1", "c7"]
    assert (brief.tasks[0].ref, brief.facts[0].statement, brief.lines[0].sender) == ("t1", "b", "c7")


async def test_a_new_contact_may_be_spoken_of_where_contacts_are_asked_for() -> None:
    said = ada("My colleague Jon Falk, jon@kite.example, joins us. He works as a designer at Kite.")
    together = await extracted(said, categories="contacts, bios")
    assert together["contacts"][0]["contact"] == together["bios"][0]["contact"] == "new1"
    assert (await extracted(said, categories="bios"))["bios"] == []


async def test_a_name_that_comes_later_is_an_update_of_the_nameless_contact() -> None:
    nameless = {"ref": "c8", "name": "", "phone_number": "+4915112345", "sender_ids": ["+4915112345"]}
    item = await one("contacts", "+4915112345 → assistant | sms | Hi, this is Tom Berger from Kite.", known=[nameless])
    assert (item["action"], item["contact"], item["first_name"], item["surname"]) == ("update", "c8", "Tom", "Berger")


async def test_what_is_known_already_is_no_change() -> None:
    assert (await extracted(ada("Mara Lind's email is mara@lumen.example."), known=[MARA], categories="contacts"))["contacts"] == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("I work as an engineer at Lumen and I speak Danish.", ("engineer", "Lumen", "Danish")),
        ("Ich arbeite als Ärztin bei der Charité.", ("Ärztin", "Charité")),
        ("我在华信科技工作。", ("华信科技",)),
    ],
)
async def test_bios_in_the_language_of_the_source(said: str, words: tuple[str, ...]) -> None:
    item = await one("bios", ada(said))
    assert item["contact"] == "c1"
    assert all(word in item["text"] for word in words)


async def test_an_old_bio_keeps_what_nobody_contradicted() -> None:
    old = {**MARA, "bio": "Mara works at Lumen and lives in Oslo. Mara has two brothers."}
    item = await one("bios", mara("I now work at Kite."), known=[old])
    assert item["text"] == "Mara works at Kite and lives in Oslo. Mara has two brothers."


@pytest.mark.parametrize(
    "said",
    [
        "Can you answer this in German?",
        "I always answer my mail on Sundays.",
        "Please call me tomorrow at nine.",
        "You always say that.",
    ],
)
async def test_only_clear_directives_are_policies(said: str) -> None:
    assert (await extracted(ada(said), categories="response_policies"))["response_policies"] == []


async def test_a_directive_is_of_the_contact_who_gives_it() -> None:
    item = await one("response_policies", mara("Please never call me after six."), known=[MARA])
    assert (item["contact"], item["text"]) == ("c7", "Never call Mara after six.")


@pytest.mark.parametrize(
    ("fact", "said", "relation"),
    [
        ("The Atlas release is on 20 April.", "The Atlas release moves to 4 May.", "supersedes"),
        ("Atlas is led by Mara Lind.", "Tom Berger now leads Atlas.", "supersedes"),
        ("Invoices above 500 € need two signatures.", "Correction: invoices above 800 € need two signatures.", "supersedes"),
        ("Invoices above 500 € need two signatures.", "Invoices above 500 € need two signatures!", "same"),
        ("Invoices above 500 € need two signatures.", "Invoices above 9000 € also need the approval of the board.", "new"),
        ("The Bergen plant runs on gas.", "The Oslo plant runs on hydropower.", "new"),
        ("Der Atlas-Release ist am 20. April.", "Der Atlas-Release wird auf den 4. Mai verschoben.", "supersedes"),
        ("新版本的发布定于4月20日。", "新版本的发布推迟到5月4日。", "supersedes"),
    ],
)
async def test_relation_to_a_known_fact(fact: str, said: str, relation: str) -> None:
    item = await one("knowledge", ada(said), known=[{"ref": "f1", "subject": "", "statement": fact}])
    assert (item["relation"], item.get("related")) == (relation, None if relation == "new" else "f1")


@pytest.mark.parametrize(
    "said",
    [
        "To restart the print server, first log in, then open the console and run the job.",
        "The wifi password is rosebud.",
        "Mara Lind is a vegetarian.",
        "My brother is a dentist.",
        "Is the Atlas release on 4 May?",
        "Maybe the plant runs on gas.",
        "The invoice is paid.",
        "The weather is lovely.",
    ],
)
async def test_what_is_no_knowledge(said: str) -> None:
    assert (await extracted(ada(said), known=[MARA], categories="knowledge"))["knowledge"] == []


async def test_of_two_claims_in_one_window_the_later_one_stays() -> None:
    item = await one("knowledge", ada("The Atlas release moves to 4 May."), ada("No, sorry: the Atlas release moves to 11 May."))
    assert "11 May" in item["statement"]


async def test_a_task_with_all_that_was_said_of_it() -> None:
    item = await one("tasks", ada("Please send Mara the contract by Friday, it's urgent. #legal"), known=[MARA])
    assert (item["action"], item["deadline"], item["priority"], item["contact"], item["tags"]) == (
        "create",
        "2026-06-19",
        "urgent",
        "c7",
        ["legal"],
    )


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("The electrician's invoice is paid.", {"action": "update", "status": "done"}),
        ("That's done.", {"action": "update", "status": "done"}),
        ("Never mind the electrician's invoice.", {"action": "cancel", "status": "cancelled"}),
        ("Move the electrician's invoice to Friday.", {"action": "update", "deadline": "2026-06-19"}),
        ("Please pay the electrician's invoice by 30 June.", {"action": "update", "deadline": "2026-06-30"}),
    ],
)
async def test_news_of_a_known_task(said: str, change: dict[str, str]) -> None:
    item = await one("tasks", ada(said), known=[{"ref": "t1", "name": "Pay the electrician's invoice", "status": "open"}])
    assert {name: item.get(name) for name in change} == change
    assert item["task"] == "t1"


@pytest.mark.parametrize(
    "said",
    [
        "You are responsible for sorting the mail.",
        "Remember that the parking deck closes at ten.",
        "Could you fix that?",
        "Can you tell me how late it is?",
        "Thanks for sending the minutes.",
    ],
)
async def test_what_is_no_task(said: str) -> None:
    assert (await extracted(ada(said), categories="tasks"))["tasks"] == []


async def test_honours_the_shield_of_the_right_manager() -> None:
    rule = "Invoices above 500 € need two signatures."
    done = call("KnowledgeManager", "update", text=rule)
    assert (await extracted(ada(rule), done, categories="knowledge"))["knowledge"] == []
    for other in (call("TaskManager", "update", text=rule), call("KnowledgeManager", "ask", text=rule)):
        assert len((await extracted(ada(rule), other, categories="knowledge"))["knowledge"]) == 1


async def test_other_languages_are_left_alone() -> None:
    for said in (
        "안녕하세요! 오늘 날씨가 정말 좋네요.",
        "أنا أعمل مهندسة في شركة النخيل.",
        "วันนี้อากาศดีมาก",
        "Je travaille à Lyon et la réunion est finie.",
    ):
        assert not any((await extracted(ada(said))).values())


async def test_a_message_of_sixty_thousand_characters_is_read_to_its_end() -> None:
    said = "Minutes." + " People talked at length and with much joy." * 1400 + " The Bergen plant runs on hydropower."
    item = await one("knowledge", ada(said))
    assert "hydropower" in item["statement"]


# ----------------------------------------------------------------------------------------------------------- misbehaviour


SAID = (ada("The Atlas release moves to 4 May."), ada("Please send Mara the contract by Friday."), assistant("I will."))


async def test_made_up_items_rest_on_nothing() -> None:
    kinds: set[str] = set()
    for seed in range(8):
        answer = json.loads((await reply(request(*SAID, known=[MARA]), "hallucinated=1", seed)).text)
        for items in answer.values():
            made_up = [item for item in items if INVENTED.split()[0] in json.dumps(item)]
            assert len(made_up) == 1
            evidence = made_up[0]["evidence"]
            if not evidence:
                kinds.add("no quote")
            elif evidence[0]["event"] > len(SAID):
                kinds.add("no such line")
            elif evidence[0]["quote"] in RULES:
                kinds.add("of the prompt")
            elif any(evidence[0]["quote"] in line for line in SAID):
                kinds.add("of another line")
                assert evidence[0]["quote"] not in SAID[evidence[0]["event"] - 1]
            else:
                kinds.add("wrong quote")
    assert kinds == {"no quote", "no such line", "of the prompt", "of another line", "wrong quote"}


async def test_misbehaviour_in_items() -> None:
    good = await extracted(*SAID, known=[MARA])
    twice = await extracted(*SAID, known=[MARA], faults="duplicated=1")
    assert [len(items) for items in twice.values()] == [2 * len(items) for items in good.values()]
    broken = await extracted(*SAID, known=[MARA], faults="broken_section=1")
    assert sum(not isinstance(items, list) for items in broken.values()) == 1
    rule = "Invoices above 500 € need two signatures."
    done = call("KnowledgeManager", "update", text=rule)
    assert len((await extracted(ada(rule), done, faults="double_handled=1"))["knowledge"]) == 1
    chinese = await extracted(ada("超过五百元的发票必须有两个签名。"), faults="translated=1", categories="knowledge")
    assert "发票" not in chinese["knowledge"][0]["statement"]
    assert "发票" in chinese["knowledge"][0]["evidence"][0]["quote"]


@pytest.mark.parametrize(
    "fault", ["truncated", "cut_silently", "fenced", "preamble", "think", "malformed", "empty", "dropped_section"]
)
async def test_misbehaviour_around_the_reply(fault: str) -> None:
    good, bad = await reply(request(*SAID)), await reply(request(*SAID), f"{fault}=1")
    assert bad.text != good.text
    assert (bad.stop is StopReason.LENGTH) == (fault == "truncated")
    if fault == "fenced":
        assert bad.text == f"```json\n{good.text}\n```"


async def test_misbehaviour_depends_on_the_seed_alone() -> None:
    plan = "hallucinated=0.3,duplicated=0.3,broken_section=0.2"
    asked = [request(ada(f"The plant number {count} runs on gas.")) for count in range(30)]
    first = [(await reply(one, plan, 5)).text for one in asked]
    assert first == [(await reply(one, plan, 5)).text for one in asked]
    assert first != [(await reply(one, plan, 6)).text for one in asked]
    assert len(EXTRACTION_FAULTS) == 5


# ------------------------------------------------------------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("by Friday", "2026-06-19"),
        ("until 15 March", "2027-03-15"),
        ("on July 1st at 3 pm", "2026-07-01T15:00:00+00:00"),
        ("am Freitag um 15 Uhr", "2026-06-19T15:00:00+00:00"),
        ("in zwei Wochen", "2026-07-01"),
        ("Ende März", "2027-03-31"),
        ("bis zum 31.12.2026", "2026-12-31"),
        ("by Friday next week", "2026-06-26"),
        ("next week, on Monday at 3 pm", "2026-06-22T15:00:00+00:00"),
        ("by Friday of next week", "2026-06-26"),
        ("bis Freitag nächster Woche", "2026-06-26"),
        ("nächste Woche am Dienstag", "2026-06-23"),
        ("next week", "2026-06-22"),
        ("next Friday", "2026-06-19"),
        ("下周五下午3点", "2026-06-26T15:00:00+00:00"),
        ("5月4日", "2027-05-04"),
        ("on 2026-13-45", None),
        ("31 June", None),
        ("no date at all", None),
    ],
)
def test_dates(text: str, date: str | None) -> None:
    at = read_extraction(request(ada("Hi"))).lines[0].at
    found = find_date(text, at)
    assert (found.text if found else None) == date


async def test_a_promise_by_a_day_of_next_week_is_due_then() -> None:
    found = await extracted(mara("I will draft the niche cushions by Friday next week."), categories="tasks")
    (task,) = found["tasks"]
    assert task["deadline"][:10] == "2026-06-26"


@pytest.mark.parametrize("mark", ["：", "，", ":", "。"])
async def test_a_lead_in_of_a_correction_goes_with_what_stands_behind_it(mark: str) -> None:
    said = f"更正{mark}陶板的最小订货量是四百平方米，不是五百平方米。"
    (item,) = (await extracted(ada(said), categories="knowledge"))["knowledge"]
    assert item["statement"] == "陶板的最小订货量是四百平方米，不是五百平方米。"


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        (
            "How to plot on the big machine, since everybody asks: first load the roll, then press Feed.",
            "How to plot on the big machine",
        ),
        ("So geht es am Plotter: zuerst die Rolle einlegen, dann auf Start drücken.", "So geht es am Plotter"),
        ("大绘图机的使用方法：首先装纸卷，然后按两次进纸。", "大绘图机的使用方法"),
    ],
)
async def test_a_how_to_is_proposed_as_it_was_said(said: str, subject: str) -> None:
    (item,) = (await extracted(mara(said), categories="knowledge"))["knowledge"]
    assert (item["statement"], item["subject"]) == (said, subject)
    assert route(item["statement"]).store is Store.GUIDANCE


@pytest.mark.parametrize(
    "said",
    [
        "How to plot on the big machine?",
        "I wonder how to plot.",
        "First come, first served, then we talk.",
        "Please tell me how to plot: first or then?",
    ],
)
async def test_what_explains_nothing_is_no_how_to(said: str) -> None:
    assert not (await extracted(mara(said), categories="knowledge")).get("knowledge")


def test_validity_and_repetition() -> None:
    at = read_extraction(request(ada("Hi"))).lines[0].at
    assert valid_until("closed until March", at) == "2027-03-01"
    assert valid_until("gilt bis 31.12.2026", at) == "2026-12-31"
    assert valid_until("新版本推迟到5月4日", at) is None
    assert valid_from("Ab März gilt das.", at) == "2027-03-01"
    assert repeat_rule("jeden zweiten Montag") == "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"
    assert repeat_rule("every once in a while") is None
