"""Files and rows into tables: what is said to be added is there, and nothing is there twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory.model.knowledge import DeleteRows, DeleteTables, TableChange
from memory.model.scope import Scope
from memory.stores.tables import build_tables
from starter.ingest import Progress, ingest
from starter.knowledge import Knowledge
from tests.support.records import ANN

WHO = (ANN.tenant, ANN.user)


class NoLoops:
    async def check_destination(self, scope: Scope, destination: str) -> None: ...


class NoTeams:
    async def teams(self, scope: Scope) -> Sequence[str]:
        return ()


class Desk:
    """The tables of Ann, and files in a folder of hers."""

    def __init__(self, knowledge: Knowledge, folder: Path) -> None:
        self.knowledge = knowledge
        self.folder = folder

    async def take_in(self, name: str, content: str | bytes, **options: Any) -> list[Progress]:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [done async for done in ingest(self.knowledge, WHO, path, **options)]

    async def counts(self, name: str, content: str | bytes, **options: Any) -> tuple[int, int]:
        """Rows that are said to be added, and those that are said to have been there."""
        done = await self.take_in(name, content, **options)
        return sum(one.rows for one in done), sum(one.skipped for one in done)

    async def rows(self, table: str) -> list[dict[str, Any]]:
        return [row async for row in self.knowledge.export(WHO, table)]

    async def column(self, table: str, name: str) -> list[Any]:
        return [row[name] for row in await self.rows(table)]

    async def types(self, table: str) -> dict[str, str]:
        (found,) = (one for one in await self.knowledge.tables(WHO) if one.name == table)
        return {column.name: column.type.value for column in found.columns if not column.name.startswith("source_")}

    async def change(self, change: TableChange) -> None:
        await self.knowledge.change(WHO, change)


@pytest.fixture
async def desk(sql_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    made = build_tables(sql_url)
    loops: Any = NoLoops()
    teams: Any = NoTeams()
    yield Desk(Knowledge(loops, made.knowledge, teams), tmp_path)
    await made.aclose()


TWO = "name,n\na,1\nb,2\n"


class TestWhatIsSaidToBeAddedIsThere:
    async def test_after_the_table_was_deleted(self, desk: Desk) -> None:
        assert await desk.counts("gone.csv", TWO) == (2, 0)
        await desk.change(DeleteTables(["Gone"]))
        assert await desk.counts("gone.csv", TWO) == (2, 0)
        assert await desk.column("Gone", "name") == ["a", "b"]

    async def test_after_rows_were_deleted(self, desk: Desk) -> None:
        for deleted, added in (("n == 2", 1), ("n == 2", 1), ("n > 0", 2), ("n > 0", 2)):
            await desk.take_in("rows.csv", TWO)
            await desk.change(DeleteRows(deleted, tables=["Rows"]))
            assert await desk.counts("rows.csv", TWO) == (added, 2 - added)
            assert sorted(await desk.column("Rows", "name")) == ["a", "b"]

    async def test_in_each_of_two_tables(self, desk: Desk) -> None:
        assert await desk.counts("s.csv", TWO, table="A1") == (2, 0)
        assert await desk.counts("s.csv", TWO, table="B1") == (2, 0)
        assert await desk.column("A1", "n") == await desk.column("B1", "n") == [1, 2]

    async def test_of_rows_that_are_imported_under_one_id(self, desk: Desk) -> None:
        async def imported(table: str, rows: list[dict[str, Any]]) -> int:
            return await desk.knowledge.import_rows(WHO, table, rows, import_id="one")

        rows = [{"x": number} for number in range(700)]
        assert [await imported("C1", rows), await imported("D1", rows)] == [700, 700]
        assert await desk.column("D1", "x") == list(range(700))
        assert await imported("c1", rows) == 0
        assert len(await desk.rows("C1")) == 700
        await desk.change(DeleteTables(["C1"]))
        assert await imported("C1", rows[:3]) == 3
        assert await desk.column("C1", "x") == [0, 1, 2]
