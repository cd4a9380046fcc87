"""Guidance and functions on SQLite and on PostgreSQL: one entry by title or name, replaced, listed, deleted, indexed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory.model.errors import InvalidInput
from memory.model.library import FunctionRecord, Guidance
from memory.model.owner import Owner
from memory.ports import IndexMark
from memory.stores.tables import Tables, build_tables
from tests.support.records import ANN, ANNS, NOW, SALES, see

DAY = timedelta(days=1)
ME = see(ANN)


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def guidance(guidance_id: str = "g1", *, owner: Owner = ANNS, **fields: Any) -> Guidance:
    given: dict[str, Any] = {"title": "Refunds", "content": "Ask first.", "created_at": NOW, "updated_at": NOW}
    return Guidance(guidance_id=guidance_id, owner=owner.key, **(given | fields))


def function(function_id: str = "f1", *, owner: Owner = ANNS, **fields: Any) -> FunctionRecord:
    given: dict[str, Any] = {"name": "send_refund", "source": "pass", "created_at": NOW, "updated_at": NOW}
    return FunctionRecord(function_id=function_id, owner=owner.key, **(given | fields))


class TestGuidance:
    async def test_an_entry_comes_back_as_it_was(self, tables: Tables) -> None:
        item = guidance(title="退款 🎉", content="1. Frag zuerst.\n2. Dann zahle.", tags=("money", "città"))
        assert await tables.guidance.add(ANNS, [item], now=NOW) == [item]
        assert await tables.guidance.get(ME, ["g1", "unknown"]) == {"g1": item}
        assert await tables.guidance.list(ME) == [item]

    async def test_the_same_title_again_replaces_the_content(self, tables: Tables) -> None:
        await tables.guidance.add(ANNS, [guidance("g1")], now=NOW)
        [stored] = await tables.guidance.add(ANNS, [guidance("g2", title="  refunds ", content="Never ask.")], now=NOW + DAY)
        assert (stored.guidance_id, stored.content, stored.created_at, stored.updated_at) == ("g1", "Never ask.", NOW, NOW + DAY)
        assert await tables.guidance.list(ME) == [stored]
        [same] = await tables.guidance.add(ANNS, [guidance("g3", title="  refunds ", content="Never ask.")], now=NOW + 2 * DAY)
        assert same == stored

    async def test_the_same_id_under_another_title_is_renamed(self, tables: Tables) -> None:
        await tables.guidance.add(ANNS, [guidance("g1"), guidance("g2", title="Returns")], now=NOW)
        [renamed] = await tables.guidance.add(ANNS, [guidance("g1", title="Money back")], now=NOW)
        assert (renamed.guidance_id, renamed.title) == ("g1", "Money back")
        [other] = await tables.guidance.add(ANNS, [guidance("g1", title="Returns", content="New.")], now=NOW)
        assert (other.guidance_id, other.content) == ("g2", "New.")
        assert len(await tables.guidance.list(ME)) == 2

    async def test_twice_in_one_call(self, tables: Tables) -> None:
        stored = await tables.guidance.add(ANNS, [guidance("g1"), guidance("g2", content="Second.")], now=NOW)
        assert [item.guidance_id for item in stored] == ["g1", "g1"]
        assert [item.content for item in await tables.guidance.list(ME)] == ["Second."]

    async def test_a_team_shares_its_own(self, tables: Tables) -> None:
        await tables.guidance.add(ANNS, [guidance("g1")], now=NOW)
        await tables.guidance.add(SALES, [guidance("g2", owner=SALES, created_at=NOW + DAY)], now=NOW)
        assert [item.guidance_id for item in await tables.guidance.list(see(ANN, "sales"))] == ["g2", "g1"]
        assert [item.guidance_id for item in await tables.guidance.list(ME)] == ["g1"]

    async def test_deleted_it_is_gone_and_may_come_again(self, tables: Tables) -> None:
        await tables.guidance.add(ANNS, [guidance("g1")], now=NOW)
        assert await tables.guidance.delete(ANNS, ["g1", "unknown"], now=NOW) == 1
        assert await tables.guidance.delete(ANNS, ["g1"], now=NOW) == 0
        assert await tables.guidance.list(ME) == []
        assert await tables.guidance.get(ME, ["g1"]) == {}
        [document] = await tables.guidance.pending()
        assert (document.live, document.text, document.revision) == (False, "", 2)

        [again] = await tables.guidance.add(ANNS, [guidance("g1", content="Anew.", created_at=NOW + DAY)], now=NOW + DAY)
        assert (again.guidance_id, again.created_at) == ("g1", NOW + DAY)
        # The index's answer to the deletion comes late and removes nothing.
        assert await tables.guidance.mark_indexed([IndexMark("g1", ANNS, 2, (), 0)]) == 1
        assert [item.content for item in await tables.guidance.list(ME)] == ["Anew."]
        [document] = await tables.guidance.pending()
        assert (document.live, document.revision) == (True, 3)

    async def test_what_is_indexed(self, tables: Tables) -> None:
        await tables.guidance.add(ANNS, [guidance(tags=("money", "care"))], now=NOW)
        [document] = await tables.guidance.pending(owner=ANNS)
        assert document.text.split("\n") == ["Refunds", "Ask first.", "money care"]
        assert document.payload == {}
        await tables.guidance.mark_indexed([IndexMark("g1", ANNS, 1, (4, 5), 6)])
        await tables.guidance.add(ANNS, [guidance(tags=("money", "care"))], now=NOW + DAY)
        assert await tables.guidance.pending() == []  # nothing changed
        await tables.guidance.delete(ANNS, ["g1"], now=NOW)
        await tables.guidance.mark_indexed([IndexMark("g1", ANNS, 2, (), 0)])
        assert await tables.guidance.documents(after=None) == []
        statistics = await tables.terms.statistics("acme", [ANNS.key], "guidance", [4, 5])
        assert (statistics.documents, statistics.length, statistics.frequencies) == (0, 0, {})
        assert tables.guidance.kind == "guidance"

    async def test_pages_and_limits(self, tables: Tables) -> None:
        items = [guidance(f"g{n:02}", title=f"Title {n}", created_at=NOW + (n // 3) * DAY) for n in range(10)]
        await tables.guidance.add(ANNS, items, now=NOW)
        seen: list[str] = []
        while page := await tables.guidance.list(ME, limit=4, after=seen[-1] if seen else None):
            seen += [item.guidance_id for item in page]
        assert seen == ["g09", "g08", "g07", "g06", "g05", "g04", "g03", "g02", "g01", "g00"]
        with pytest.raises(InvalidInput, match="at most"):
            await tables.guidance.add(ANNS, [guidance(f"g{n}", title=str(n)) for n in range(1001)], now=NOW)

    async def test_text_that_no_store_takes_is_cleaned(self, tables: Tables) -> None:
        dirty = guidance().model_copy(update={"title": "a\x00b", "content": "c \ud83d", "tags": ("t\x00",)})
        [stored] = await tables.guidance.add(ANNS, [dirty], now=NOW)
        assert (stored.title, stored.content, stored.tags) == ("ab", "c \ufffd", ("t",))

    async def test_many_writers_of_one_title(self, sql_url: str) -> None:
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:
            stored = await asyncio.gather(
                *(both[n % 2].guidance.add(ANNS, [guidance(f"g{n}", content=f"Text {n}.")], now=NOW) for n in range(10))
            )
            assert len({item.guidance_id for [item] in stored}) == 1
            assert len(await both[0].guidance.list(ME)) == 1
        finally:
            for made in both:
                await made.aclose()


class TestFunctions:
    async def test_a_function_comes_back_as_it_was(self, tables: Tables) -> None:
        item = function(docstring="Sends money.", source="def send_refund():\n    ...\n", dependencies=("bank.transfer", "log"))
        assert await tables.functions.add(ANNS, [item], now=NOW) == [item]
        assert await tables.functions.get(ME, ["f1"]) == {"f1": item}
        assert await tables.functions.list(ME) == [item]

    async def test_the_same_name_again_replaces_it(self, tables: Tables) -> None:
        await tables.functions.add(ANNS, [function("f1")], now=NOW)
        [stored] = await tables.functions.add(ANNS, [function("f2", source="return 1", dependencies=("x",))], now=NOW + DAY)
        assert (stored.function_id, stored.source, stored.dependencies, stored.updated_at) == ("f1", "return 1", ("x",), NOW + DAY)
        await tables.functions.add(ANNS, [function("f3", name="Send_Refund")], now=NOW)  # names tell capitals apart
        assert [item.function_id for item in await tables.functions.list(ME)] == ["f3", "f1"]

    async def test_deleted_it_is_gone(self, tables: Tables) -> None:
        await tables.functions.add(ANNS, [function("f1")], now=NOW)
        assert await tables.functions.delete(ANNS, ["f1"], now=NOW) == 1
        assert await tables.functions.list(ME) == []
        assert await tables.functions.mark_indexed([IndexMark("f1", ANNS, 2, (), 0)]) == 1
        assert await tables.functions.documents(after=None) == []

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("send_refund", "send refund"),
            ("sendRefundToUser", "send Refund To User"),
            ("billing.HTTPServer2_start", "billing HTTP Server 2 start"),
            ("X", "X"),
            ("_private", "private"),
        ],
    )
    async def test_its_name_is_indexed_word_by_word(self, tables: Tables, name: str, words: str) -> None:
        await tables.functions.add(ANNS, [function(name=name, docstring="Sends money.", source="secret()")], now=NOW)
        [document] = await tables.functions.pending()
        assert document.text == f"{words}\nSends money."
        assert tables.functions.kind == "functions"
