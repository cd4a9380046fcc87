"""Knowledge on real stores: contradiction, correction, addition, reassignment, limits in time, the same again, routing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from memory.model.category import Category
from memory.model.fact import FactStatus
from memory.model.owner import Owner, View
from memory.ports import EndFact, UpdateContact
from tests.support.extracted import Memory, open_memory

K = Category.KNOWLEDGE
ACTIVE, SUPERSEDED = FactStatus.ACTIVE, FactStatus.SUPERSEDED


@pytest.fixture
async def memory(sql_url: str) -> AsyncIterator[Memory]:
    async with open_memory(sql_url) as made:
        yield made


async def learn(memory: Memory, statement: str, said: str | None = None, **fields: object) -> str:
    """Take one statement in a window of its own; the id of the fact that says it (or that it confirmed) is in the refs as f1."""
    await memory.take(K, [said or statement], {"statement": statement, **fields})
    return next((fact.fact_id for fact in await memory.facts() if fact.statement == statement), "")


class TestTheSameAgain:
    async def test_ten_windows_with_one_fact_are_one_fact_with_ten_provenances(self, memory: Memory) -> None:
        ways = (
            "The Bergen plant runs on hydropower.",
            "Note: the plant in Bergen is running on hydropower!",
            "the Bergen plant runs on hydropower",
        )
        for number in range(10):
            outcome = (
                await memory.take(
                    K,
                    [f"{ways[number % 3]} #{number}"],
                    {"statement": ways[number % 3], "evidence": [{"event": 1, "quote": ways[number % 3]}]},
                )
            ).outcome
            assert (outcome.applied, outcome.confirmed) == ((1, 0) if number == 0 else (0, 1))
        [fact] = await memory.facts()
        assert fact.statement == ways[0]
        assert len({source.event_id for source in fact.sources}) == 10
        assert {source.origin for source in fact.sources} == {f"window:w{number}" for number in range(1, 11)}

    async def test_the_same_in_other_words_is_confirmed_when_the_model_says_so(self, memory: Memory) -> None:
        known = await learn(memory, "The Bergen plant runs on hydropower.")
        item = {"statement": "The Bergen plant is powered by hydropower.", "relation": "same", "related": "f1"}
        outcome = (await memory.take(K, ["The Bergen plant is powered by hydropower."], item, refs={"f1": known})).outcome
        assert (outcome.confirmed, await memory.statements()) == (1, ["The Bergen plant runs on hydropower."])

    async def test_a_model_that_calls_other_numbers_the_same_is_not_believed(self, memory: Memory) -> None:
        known = await learn(memory, "Invoices above 500 € need two signatures.")
        item = {"statement": "Invoices above 9000 € need four signatures.", "relation": "same", "related": "f1"}
        await memory.take(K, ["Invoices above 9000 € need four signatures."], item, refs={"f1": known})
        assert len(await memory.statements()) == 2

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Der Rahmenvertrag mit Lumen gilt für alle Werke.", "Hinweis: der Rahmenvertrag mit Lumen gilt für alle Werke"),
            ("超过五百元的发票必须有两个签名。", "超过五百元的发票也必须有两个签名"),
            ("五万円を超える請求書には部長の承認が必要です。", "五万円を超える請求書には部長の承認が必要"),
        ],
    )  # fmt: skip
    async def test_in_other_languages(self, memory: Memory, one: str, other: str) -> None:
        await learn(memory, one)
        await learn(memory, other)
        [fact] = await memory.facts()
        assert len(fact.sources) == 2

    async def test_twice_in_one_window(self, memory: Memory) -> None:
        texts = ["The Bergen plant runs on hydropower.", "As I said, the Bergen plant runs on hydropower!"]
        items = [
            {"statement": "The Bergen plant runs on hydropower."},
            {"statement": "the plant in Bergen runs on hydropower", "line": 2},
        ]
        outcome = (await memory.take(K, texts, *items)).outcome
        assert (outcome.applied, outcome.confirmed) == (1, 1)
        [fact] = await memory.facts()
        assert len(fact.sources) == 2


class TestWhatTakesThePlaceOfWhat:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("The Atlas release is on 20 April.", "The Atlas release moves to 4 May."),
            ("Der Atlas-Release ist am 20. April.", "Der Atlas-Release wird auf den 4. Mai verschoben."),
            ("新版本的发布定于4月20日。", "新版本的发布推迟到5月4日。"),
            ("Atlas is led by Mara Lind.", "Tom Berger now leads Atlas."),
            ("The team's favourite tool is Vim.", "The team's favourite tool is Emacs."),
            ("Die Lieblingsfarbe des Teams ist Blau.", "Die Lieblingsfarbe des Teams ist Rot."),
            ("Lumen is based in Oslo.", "Lumen is headquartered in Bergen."),
            ("The garden budget is 4000 €.", "The garden budget is 5000 €."),
            ("财务由王芳负责。", "财务现在由李雷负责。"),
            ("The status of the audit is red.", "The status of the audit is green."),
            ("The cantine serves lunch on Sundays.", "The cantine does not serve lunch on Sundays."),
        ],
    )  # fmt: skip
    async def test_another_value_of_one_slot_even_when_the_model_forgets_to_say_so(
        self, memory: Memory, old: str, new: str
    ) -> None:
        first = await learn(memory, old)
        second = await learn(memory, new)
        assert await memory.statements() == [new]
        [before, after] = await memory.stores.facts.history(View(memory.scope), second)
        assert (before.fact_id, before.status, before.superseded_by) == (first, SUPERSEDED, second)
        assert before.ended_at == after.observed_at
        assert before.holds_at(after.observed_at - timedelta(minutes=1))
        assert not before.holds_at(after.observed_at)
        assert [source.quote for source in before.sources] == [old]

    async def test_a_correction_ends_what_was_wrong(self, memory: Memory) -> None:
        await learn(memory, "Invoices above 500 € need two signatures.")
        await learn(memory, "Invoices above 800 € need two signatures.", "Correction: invoices above 800 € need two signatures.")
        assert await memory.statements() == ["Invoices above 800 € need two signatures."]
        assert await memory.statements(SUPERSEDED) == ["Invoices above 500 € need two signatures."]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("Invoices above 500 € need two signatures.", "Invoices above 9000 € also need the approval of the board."),
            ("Mara Lind leads Atlas.", "Tom Berger also leads Atlas."),
            ("The workshop starts on 4 May.", "The workshop ends on 6 May."),
            ("Atlas supports German.", "Atlas supports French."),
            ("The office is closed on Mondays.", "The office is closed on Fridays."),
            ("Lumen的办公室在北京。", "Lumen也有一个办公室在上海。"),
        ],
    )  # fmt: skip
    async def test_what_adds_leaves_the_old_one_alone(self, memory: Memory, old: str, new: str) -> None:
        await learn(memory, old)
        await learn(memory, new)
        assert await memory.statements() == [old, new]

    async def test_an_addition_stays_one_when_the_model_calls_it_a_replacement(self, memory: Memory) -> None:
        known = await learn(memory, "Invoices above 500 € need two signatures.")
        new = "Invoices above 9000 € also need the approval of the board."
        await memory.take(K, [new], {"statement": new, "relation": "supersedes", "related": "f1"}, refs={"f1": known})
        assert len(await memory.statements()) == 2

    async def test_a_fact_about_something_else_is_not_replaced(self, memory: Memory) -> None:
        known = await learn(memory, "The Bergen plant runs on hydropower.")
        new = "ARR means annual recurring revenue."
        await memory.take(K, [new], {"statement": new, "relation": "supersedes", "related": "f1"}, refs={"f1": known})
        assert len(await memory.statements()) == 2

    async def test_a_fact_that_was_withdrawn_is_not_replaced(self, memory: Memory) -> None:
        known = await learn(memory, "Atlas runs on Postgres.")
        await memory.stores.facts.apply(Owner.user(memory.scope), [EndFact("end", known)], now=memory.at)
        new = "Atlas runs on SQLite."
        await memory.take(K, [new], {"statement": new, "relation": "supersedes", "related": "f1"}, refs={"f1": known})
        assert await memory.statements() == [new]
        assert (await memory.fact("Atlas runs on Postgres.")).superseded_by is None

    async def test_what_holds_by_now_in_place_of_the_related_fact_is_replaced(self, memory: Memory) -> None:
        first = await learn(memory, "Atlas runs on Postgres.")
        item = {"relation": "supersedes", "related": "f1"}
        for store in ("SQLite", "DuckDB"):
            new = f"Atlas runs on {store}."
            await memory.take(K, [new], {"statement": new, **item}, refs={"f1": first})
        assert await memory.statements() == ["Atlas runs on DuckDB."]
        chain = await memory.stores.facts.history(View(memory.scope), first)
        assert [fact.statement for fact in chain] == ["Atlas runs on Postgres.", "Atlas runs on SQLite.", "Atlas runs on DuckDB."]

    async def test_of_two_in_one_window_the_later_said_holds_whatever_the_order_of_the_items(self, memory: Memory) -> None:
        texts = ["The Atlas release moves to 4 May.", "No, sorry: the Atlas release moves to 11 May."]
        items = [{"statement": "The Atlas release moves to 11 May.", "line": 2}, {"statement": "The Atlas release moves to 4 May."}]
        await memory.take(K, texts, *items)
        assert await memory.statements() == ["The Atlas release moves to 11 May."]
        assert await memory.statements(SUPERSEDED) == ["The Atlas release moves to 4 May."]

    async def test_an_old_transcript_does_not_overrule_what_was_said_since(self, memory: Memory) -> None:
        await learn(memory, "The Atlas release is on 4 May.")
        memory.at -= timedelta(days=30)
        outcome = (
            await memory.take(K, ["The Atlas release is on 20 April."], {"statement": "The Atlas release is on 20 April."})
        ).outcome
        assert outcome.dropped == {"conflict": 1}
        assert await memory.statements() == ["The Atlas release is on 4 May."]


class TestTime:
    async def test_until_march(self, memory: Memory) -> None:
        await learn(memory, "The Oslo warehouse is closed until March.")
        [fact] = await memory.facts()
        assert fact.valid_until == datetime(2027, 4, 1, tzinfo=UTC)
        assert fact.holds_at(datetime(2027, 3, 1, tzinfo=UTC))
        assert not fact.holds_at(datetime(2027, 4, 2, tzinfo=UTC))
        later = await memory.stores.facts.list(View(memory.scope), as_of=datetime(2027, 5, 1, tzinfo=UTC))
        assert later == []

    async def test_the_quote_corrects_a_model_that_read_another_time(self, memory: Memory) -> None:
        await learn(memory, "Der Rahmenvertrag mit Lumen gilt bis 31.12.2026.", valid_until="2031-12-31", valid_from="2026-06-17")
        [fact] = await memory.facts()
        assert fact.valid_until == datetime(2027, 1, 1, tzinfo=UTC)

    async def test_an_end_before_it_was_said_is_none(self, memory: Memory) -> None:
        await learn(memory, "The plant is shut.", valid_until="1999-01-01")
        assert (await memory.facts())[0].valid_until is None

    async def test_days_are_those_of_the_users_zone(self, memory: Memory) -> None:
        change = UpdateContact("zone", 1, {"timezone": "Asia/Tokyo"})
        await memory.stores.contacts.apply(memory.scope, [change], origin="manual", now=memory.at)
        await learn(memory, "The warehouse is closed until 31 December 2026.")
        assert (await memory.facts())[0].valid_until == datetime(2026, 12, 31, 15, tzinfo=UTC)

    async def test_two_limited_statements_one_after_the_other_both_stand(self, memory: Memory) -> None:
        await learn(memory, "The rate of the loan is 3 %.", "The rate of the loan is 3 % until March.", valid_until="2027-03-31")
        await learn(
            memory, "The rate of the loan is 4 %.", "The rate of the loan is 4 % from 1 April 2027.", valid_from="2027-04-01"
        )
        assert len(await memory.statements()) == 2


class TestRouting:
    async def test_a_how_to_goes_to_guidance_with_all_that_was_said(self, memory: Memory) -> None:
        text = "To restart the print server, first log in as operator, then open the console and run the reset job."
        item = {"statement": "The print server is restarted with the reset job.", "subject": "Restart the print server"}
        outcome = (await memory.take(K, [text], item)).outcome
        assert (outcome.dropped, await memory.statements()) == ({"routed_elsewhere": 1}, [])
        [entry] = await memory.stores.guidance.list(View(memory.scope))
        assert (entry.title, entry.content) == ("Restart the print server", text)

    async def test_what_a_person_is_like_is_no_fact(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind")
        for statement in ("Mara Lind is a vegetarian.", "My brother is a dentist.", "The user prefers tea.", "她喜欢喝茶。"):
            outcome = (await memory.take(K, [statement], {"statement": statement}, refs={"c2": mara})).outcome
            assert outcome.dropped == {"routed_elsewhere": 1}, statement
        assert await memory.statements() == []

    async def test_who_does_what_for_a_matter_is_one(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara", surname="Lind")
        statement = "Mara Lind is responsible for Atlas."
        await memory.take(K, [statement], {"statement": statement}, refs={"c2": mara})
        assert await memory.statements() == [statement]

    async def test_a_secret_is_never_kept(self, memory: Memory) -> None:
        text = "The wifi password is Tr0ub4dor&3-horse."
        outcome = (await memory.take(K, [text], {"statement": text})).outcome
        assert (outcome.dropped, await memory.statements()) == ({"routed_elsewhere": 1}, [])
