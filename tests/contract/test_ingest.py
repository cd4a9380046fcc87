"""Files and rows into tables: what is said to be added is there, and nothing is there twice."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from memory.model.errors import InvalidInput
from memory.model.knowledge import CreateDerivedColumn, CreateEmptyColumn, DeleteRows, DeleteTables, TableChange, UpdateRows
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


class TestAFileThatHasChanged:
    async def test_a_column_that_was_added_to_the_table_makes_no_row_another(self, desk: Desk) -> None:
        await desk.take_in("d.csv", TWO)
        await desk.change(CreateDerivedColumn("D", "m", "n * 2"))
        await desk.change(CreateEmptyColumn("D", "remark", "str"))
        await desk.change(UpdateRows("D", {0: {"remark": "checked"}}))
        assert await desk.counts("d.csv", TWO + "c,3\n") == (1, 2)
        assert [(row["name"], row["m"]) for row in await desk.rows("D")] == [("a", 2), ("b", 4), ("c", None)]

    async def test_whole_numbers_are_compared_exactly(self, desk: Desk) -> None:
        assert await desk.counts("big.csv", f"n\n{2**53}\n") == (1, 0)
        assert await desk.counts("big.csv", f"n\n{2**53 + 1}\n") == (1, 0)
        assert await desk.column("Big", "n") == [2**53, 2**53 + 1]

    async def test_a_column_that_the_file_has_got_has_a_type(self, desk: Desk) -> None:
        await desk.take_in("g.csv", "a\n1\n")
        changed = "a,day,n\n1,,\n2,2024-02-29,7\n"
        assert await desk.counts("g.csv", changed) == (1, 1)
        assert await desk.types("G") == {"a": "int", "day": "date", "n": "int"}
        assert await desk.counts("g.csv", changed) == (0, 2)

    @pytest.mark.parametrize(
        ("before", "after", "type_"),
        [
            ("1", "n/a", "str"),
            ("1", "2.5", "float"),
            (str(2**53 + 1), "2.5", "str"),
            ("2.50", "n/a", "str"),
            ("TRUE", "maybe", "str"),
            ("2024-01-01", "unknown", "str"),
            ("2024-01-01T08:30:00", "later", "str"),
        ],
    )
    async def test_a_column_whose_cells_are_of_another_type_now_is_widened(
        self, desk: Desk, before: str, after: str, type_: str
    ) -> None:
        first = f"a,b\nx,{before}\nz,\n"
        assert await desk.counts("c.csv", first) == (2, 0)
        (done,) = await desk.take_in("c.csv", f"{first}y,{after}\n")
        assert (done.rows, done.skipped, await desk.types("C")) == (1, 2, {"a": "str", "b": type_})
        assert f" and is {type_} now" in done.notes[0]
        wanted = [before, None, after] if type_ == "str" else [float(before), None, float(after)]
        assert await desk.column("C", "b") == wanted
        assert await desk.counts("c.csv", f"{first}y,{after}\n") == (0, 3)

    async def test_a_column_of_a_table_that_is_not_from_a_file_stays_as_it_is(self, desk: Desk) -> None:
        await desk.knowledge.import_rows(WHO, "Own", [{"a": 1}])
        with pytest.raises(InvalidInput, match="row 2 does not fit the column a of the table Own, which is int: name"):
            await desk.take_in("x.csv", "a\n5\nn/a\n", table="Own")
        assert await desk.types("Own") == {"a": "int"}


class TestFilesOfAnyForm:
    async def test_days_and_moments_of_a_workbook(self, desk: Desk) -> None:
        book = Workbook()
        for row in (["day", "at"], [datetime.fromisoformat("2024-02-29"), datetime.fromisoformat("2024-02-29T08:30")]):
            book.worksheets[0].append(row)
        out = io.BytesIO()
        book.save(out)
        assert await desk.counts("b.xlsx", out.getvalue()) == (1, 0)
        assert await desk.types("B") == {"day": "date", "at": "datetime"}
        assert await desk.counts("b.xlsx", out.getvalue()) == (0, 1)

    async def test_a_wide_file_leaves_room_for_its_source(self, desk: Desk) -> None:
        names = [f"c{number}" for number in range(210)]
        text = "\n".join([",".join(names), ",".join("1" for _ in names)])
        (done,) = await desk.take_in("w.csv", text)
        assert done.rows == 1
        assert done.notes == (
            "the table was cut to 200 columns of 210",
            "2 columns were left out, as a table has 200 with source_file and source_row: c198, c199",
        )
        assert await desk.counts("w.csv", text) == (0, 1)

    async def test_words_of_the_language_and_what_cannot_be_stored(self, desk: Desk) -> None:
        assert await desk.counts("none.csv", "From,Class,½\na\0,1,2\nb,3,4\n") == (2, 0)
        assert await desk.column("None_", "from_") == ["a", "b"]
