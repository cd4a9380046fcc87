"""Tables of knowledge as they are written: whole or not at all, once per effect, one writer after the other, for one owner."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import pytest
from sqlalchemy import BigInteger, Connection, Double, MetaData, create_engine, delete, event, func, insert, select
from sqlalchemy import Column as SqlColumn
from sqlalchemy import Table as SqlTable

from memory.model.errors import StoreUnavailable
from memory.model.expression import parse_expression
from memory.model.expression_value import is_true, value_of
from memory.model.knowledge import (
    MAX_COLUMNS,
    AddRows,
    ColumnType,
    CopyColumn,
    CreateDerivedColumn,
    CreateEmptyColumn,
    CreateTable,
    DeleteColumn,
    DeleteRows,
    DeleteTables,
    MoveColumn,
    RenameColumn,
    RenameTable,
    Row,
    Table,
    TableChange,
    ToolProblem,
    TransformColumn,
    UpdateRows,
    VectorizeColumn,
)
from memory.model.owner import Owner
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.knowledge.compile import compile_condition, compile_value
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS
from memory.stores.tables.scoping import Records
from memory.stores.tables.sqlite_functions import add_functions
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, OTHER_ANN, SALES, losing, see

_numbers = itertools.count()


class Desk:
    """A user's tables. Effects are new ones unless they are named."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.store = tables.knowledge

    async def write(self, change: TableChange, owner: Owner = ANNS, effect: str = "") -> Mapping[str, Any]:
        return await self.store.write(owner, change, effect=effect or f"effect {next(_numbers)}", now=NOW)

    async def refused(self, change: TableChange, code: str, *words: str, owner: Owner = ANNS) -> str:
        before = await self.everything(owner)
        with pytest.raises(ToolProblem) as caught:
            await self.write(change, owner)
        assert caught.value.code == code, (change, caught.value.message)
        assert all(word in caught.value.message for word in words), caught.value.message
        caught.value.message.encode()
        assert await self.everything(owner) == before
        return caught.value.message

    async def table(self, name: str, owner: Owner = ANNS) -> Table:
        view = see(ANN, "sales") if owner in (ANNS, SALES) else see(BOB)
        return next(table for table in await self.store.tables(view) if table.name == name and table.owner == owner)

    async def names(self, owner: Owner = ANNS) -> list[str]:
        tables = await self.store.tables(see(ANN, "sales") if owner in (ANNS, SALES) else see(BOB))
        return [table.name for table in tables if table.owner == owner and table.table_id]

    async def rows(self, name: str, owner: Owner = ANNS) -> list[Row]:
        table = await self.table(name, owner)
        view = see(ANN, "sales") if owner in (ANNS, SALES) else see(BOB)
        found: list[Row] = []
        while page := await self.store.export(view, table, after=found[-1][table.unique_key] if found else None):
            found += page
        return [{name: value for name, value in row.items() if name != "_source"} for row in found]

    async def column(self, name: str, column: str) -> list[Any]:
        return [row[column] for row in await self.rows(name)]

    async def stored(self, owner: Owner = ANNS) -> Sequence[Mapping[str, Any]]:
        """The rows as they lie in the database."""
        rows = await self.tables.database.read(lambda c: Records(c, owner).rows(select(KNOWLEDGE_ROWS)))
        return [dict(row._mapping) for row in rows]  # pyright: ignore[reportPrivateUsage]

    async def everything(self, owner: Owner = ANNS) -> Any:
        view = see(ANN, "sales") if owner in (ANNS, SALES) else see(BOB)
        return [table for table in await self.store.tables(view) if table.owner == owner], await self.stored(owner)


@pytest.fixture
async def desk(sql_url: str) -> AsyncIterator[Desk]:
    made = build_tables(sql_url)
    yield Desk(made)
    await made.aclose()


COMPANIES = CreateTable("Companies", "Makers of cars", {"name": "str", "founded": "date", "size": "float"}, "company_id")


REFUSED_TABLES: list[tuple[Any, ...]] = [
    (CreateTable("companies"), "name_taken", "Companies"),
    (CreateTable("Contacts"), "bad_name", "contacts"),
    (CreateTable("contacts"), "bad_name", "contacts"),
    (CreateTable("_secret"), "bad_name", "letter"),
    (CreateTable("knowledge_rows; DROP TABLE facts"), "bad_name", "letters"),
    (CreateTable("a\x00b"), "bad_name", "letters"),
    (CreateTable("\ud800"), "bad_name", "letters"),
    (CreateTable("x" * 65), "bad_name", "64"),
    (CreateTable(""), "bad_name", "letters"),
    (CreateTable("for"), "bad_name", "for_"),
    (CreateTable("T", None, {"Name": "str"}), "bad_name", "snake_case"),
    (CreateTable("T", None, {"id": "int"}), "bad_name", "reserved"),
    (CreateTable("T", None, {"x": "varchar"}), "bad_arguments", "timedelta"),
    (CreateTable("T", None, {"x": "vector"}), "bad_arguments", "vectorize_column"),
    (CreateTable("T", None, {"row_id": "int"}), "name_taken", "row_id"),
    (CreateTable("T", None, {"ﬁ": "int", "fi": "int"}), "name_taken", "twice"),
    (CreateTable("T", None, {"x": "str"}, "x"), "name_taken", "x"),
    (CreateTable("T", "d\x00"), "bad_value", "NUL"),
    (CreateTable("T", "d" * 5000), "too_large", "4000"),
    (CreateTable("T", None, {f"c{n}": "int" for n in range(MAX_COLUMNS + 1)}), "too_large", "200"),
    (CreateTable("T", None, None, "row_id", {"a": "b"}), "bad_arguments", "no column"),
    (CreateTable("T", None, None, "row_id", {"a": "b", "b": "a"}), "bad_arguments", "within each other"),
    (CreateTable("T", None, {"a": "str"}, "row_id", {"a": None}), "bad_arguments", "int"),
    (CreateTable("T", None, {"l": "list"}, "row_id", {"a": "l"}), "bad_arguments", "list"),
    (RenameTable("Companies", "people"), "name_taken", "People"),
    (RenameTable("Nothing", "Else"), "unknown_table", "Companies, People"),
    (RenameTable("Contacts", "Else"), "read_only", "Contacts"),
    (DeleteTables(["People", "Nothing"]), "unknown_table", "Nothing"),
    (DeleteTables([], ""), "bad_arguments", "startswith"),
]


class TestTables:
    async def test_a_table_is_made_as_it_was_asked_for(self, desk: Desk) -> None:
        result = await desk.write(COMPANIES)
        assert result == {"outcome": "table created successfully", "details": {"table": "Companies"}}
        table = await desk.table("Companies")
        assert (table.source, table.description, table.unique_key, table.next_key) == (
            "personal",
            "Makers of cars",
            "company_id",
            0,
        )
        assert [(column.name, column.type.value) for column in table.columns] == [
            ("name", "str"),
            ("founded", "date"),
            ("size", "float"),
        ]

    async def test_what_cannot_be_is_refused(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(CreateTable("People"))
        for change, code, word in REFUSED_TABLES:
            await desk.refused(change, code, word)

    async def test_a_table_is_renamed_with_its_rows(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", [{"name": "Nio"}]))
        result = await desk.write(RenameTable("Companies", "companies"))
        assert result["details"] == {"old_name": "Companies", "new_name": "companies"}
        await desk.write(RenameTable("COMPANIES", "公司"))
        assert await desk.names() == ["公司"]
        assert await desk.column("公司", "name") == ["Nio"]

    async def test_tables_are_deleted_by_name_and_by_beginning(self, desk: Desk) -> None:
        for name in ("tmp_a", "tmp_b", "Tmp_c", "kept"):
            await desk.write(CreateTable(name))
            await desk.write(AddRows(name, [{"x": name}]))
        await desk.write(CreateTable("tmp_a"), SALES)
        result = await desk.write(DeleteTables(["Tmp_c"], "tmp_"))
        assert result == {"outcome": "tables deleted successfully", "details": {"tables": ["Tmp_c", "tmp_a", "tmp_b"]}}
        assert await desk.names() == ["kept"]
        assert [row["t00"] for row in await desk.stored()] == ["kept"]
        assert await desk.names(SALES) == ["tmp_a"]
        assert (await desk.write(DeleteTables([], "nothing")))["details"] == {"tables": []}

    async def test_a_name_is_free_again_and_shows_nothing_of_before(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", [{"name": "Nio"}]))
        before = await desk.table("Companies")
        await desk.write(DeleteTables(["Companies"]))
        await desk.write(COMPANIES)
        assert await desk.rows("Companies") == []
        assert (await desk.table("Companies")).table_id > before.table_id

    async def test_an_owner_has_a_bounded_number_of_tables(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memory.stores.tables.knowledge.schema.MAX_TABLES", 2)
        await desk.write(CreateTable("a"))
        await desk.write(CreateTable("b"))
        await desk.refused(CreateTable("c"), "too_large", "tables")
        await desk.write(CreateTable("c"), SALES)


ROWS: list[dict[str, Any]] = [
    {"name": "Nio", "founded": "2014-11-25", "size": 3},
    {"name": None, "size": 2.5},
    {},
]


BAD_ROWS: list[tuple[Any, ...]] = [
    ({"name": 5}, "bad_value", ("row 1", "column name", "int", "5")),
    ({"size": "big"}, "bad_value", ("row 1", "column size", "'big'")),
    ({"size": True}, "bad_value", ("column size", "True")),
    ({"size": float("nan")}, "bad_value", ("NaN",)),
    ({"size": 2**70}, "bad_value", ("64 bits",)),
    ({"founded": "yesterday"}, "bad_value", ("ISO 8601", "yesterday")),
    ({"name": "a\x00"}, "bad_value", ("NUL",)),
    ({"name": "\udfff"}, "bad_value", ("surrogate",)),
    ({"name": "x" * 300_000}, "too_large", ("row 1", "column name", "300000")),
    ({"size": object()}, "bad_value", ("object",)),
    ({"new": object()}, "bad_value", ("row 1", "column new")),
    ({"new": [float("inf")]}, "bad_value", ("row 1", "column new")),
    ({"new": {1: 2}}, "bad_value", ("keys",)),
    ({"mixed": "text"}, "bad_value", ("row 1", "column mixed", "int")),
    ({"Name": "x"}, "bad_name", ("snake_case", "name")),
    ({"_source": "x"}, "bad_name", ()),
    ({"x\x00": 1}, "bad_name", ()),
    ({"company_id": 7}, "bad_arguments", ("never written",)),
    ({5: 7}, "bad_arguments", ("row 1", "5")),
    (["name"], "bad_arguments", ("row 1", "dict")),
]


class TestAddedRows:
    async def test_rows_get_keys_that_count_up(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        result = await desk.write(AddRows("Companies", ROWS))
        assert result == {"outcome": "rows added successfully", "details": {"length": 3}}
        assert (await desk.write(AddRows("companies", [])))["details"] == {"length": 0}
        await desk.write(AddRows("personal.Companies", [{"name": "BYD"}]))
        assert await desk.rows("Companies") == [
            {"company_id": 0, "name": "Nio", "founded": "2014-11-25", "size": 3.0},
            {"company_id": 1, "name": None, "founded": None, "size": 2.5},
            {"company_id": 2, "name": None, "founded": None, "size": None},
            {"company_id": 3, "name": "BYD", "founded": None, "size": None},
        ]

    async def test_missing_columns_are_made_with_the_types_of_their_values(self, desk: Desk) -> None:
        await desk.write(CreateTable("T"))
        rows = [{"a": 1, "b": "x", "c": True, "d": [1], "e": {"k": None}, "f": None, "g": 1}, {"g": 0.5, "b": None}]
        await desk.write(AddRows("T", rows))
        types = {column.name: column.type.value for column in (await desk.table("T")).columns}
        assert types == {"a": "int", "b": "str", "c": "bool", "d": "list", "e": "dict", "f": "str", "g": "float"}
        assert await desk.rows("T") == [
            {"row_id": 0, "a": 1, "b": "x", "c": True, "d": [1], "e": {"k": None}, "f": None, "g": 1.0},
            {"row_id": 1, "a": None, "b": None, "c": None, "d": None, "e": None, "f": None, "g": 0.5},
        ]

    async def test_a_bad_row_in_the_middle_leaves_nothing_behind(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        for row, code, words in BAD_ROWS:
            await desk.refused(AddRows("Companies", [{"name": "A", "mixed": 1}, row, {"name": "C"}]), code, *words)

    async def test_a_call_takes_a_bounded_number_of_rows(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.refused(AddRows("Companies", [{"name": "x"}] * 1001), "too_large", "1001", "1000")
        await desk.refused(AddRows("Companies", {"name": "x"}), "bad_arguments", "list")  # pyright: ignore[reportArgumentType]

    async def test_hostile_values_come_back_as_they_are(self, desk: Desk) -> None:
        await desk.write(CreateTable("T"))
        texts = [
            "'; DROP TABLE facts; --",
            "%s {x} :b",
            "\\u0000",
            "e\u0301 é 🦊",
            "a\nb\r\t",
            "",
            "NULL",
            '{"a": 1}',
            "x" * 262_144,
        ]
        await desk.write(AddRows("T", [{"text": text, "list": [text[:100], {text[:20]: text[:20]}]} for text in texts]))
        assert await desk.column("T", "text") == texts
        assert await desk.column("T", "list") == [[text[:100], {text[:20]: text[:20]}] for text in texts]

    async def test_numbers_and_times_come_back_exactly(self, desk: Desk) -> None:
        types = {"i": "int", "f": "float", "at": "datetime", "d": "date", "t": "time", "s": "timedelta"}
        await desk.write(CreateTable("T", None, types))
        rows: list[dict[str, Any]] = [
            {"i": 2**63 - 1, "f": 1.7976931348623157e308, "at": "9999-12-31T23:59:59.999999Z", "d": "9999-12-31"},
            {"i": -(2**63), "f": 5e-324, "at": "0001-01-01T00:00:00+00:00", "d": "0001-01-01", "t": "23:59:59.999999"},
            {"f": 0.1, "at": "2026-03-29T02:30:00+02:00", "t": "00:00", "s": "-P1DT0.000001S"},
        ]
        await desk.write(AddRows("T", rows))
        assert await desk.column("T", "i") == [2**63 - 1, -(2**63), None]
        assert await desk.column("T", "f") == [1.7976931348623157e308, 5e-324, 0.1]
        assert (await desk.column("T", "at"))[1:] == ["0001-01-01T00:00:00+00:00", "2026-03-29T00:30:00+00:00"]
        assert await desk.column("T", "d") == ["9999-12-31", "0001-01-01", None]
        assert await desk.column("T", "t") == [None, "23:59:59.999999", "00:00:00"]
        assert await desk.column("T", "s") == [None, None, "-P1DT0.000001S"]

    async def test_columns_beyond_the_slots_hold_their_values_too(self, desk: Desk) -> None:
        types = {f"{kind}_{n}": kind for kind in ("int", "float", "str") for n in range(30)}
        await desk.write(CreateTable("Wide", None, types))
        values = (
            {f"int_{n}": n for n in range(30)} | {f"float_{n}": n / 7 for n in range(30)} | {f"str_{n}": f"s{n}" for n in range(30)}
        )
        await desk.write(AddRows("Wide", [values, {"int_29": 5}]))
        await desk.write(UpdateRows("Wide", {1: {"int_29": None, "str_29": "z", "float_28": 2}}))
        rows = await desk.rows("Wide")
        assert rows[0] == {"row_id": 0, **values}
        assert {name: value for name, value in rows[1].items() if value is not None} == {
            "row_id": 1,
            "str_29": "z",
            "float_28": 2.0,
        }
        for name in ("int_29", "str_29"):
            await desk.write(DeleteColumn("Wide", name))
            await desk.write(CreateEmptyColumn("Wide", name, "int"))
            assert await desk.column("Wide", name) == [None, None]

    async def test_ten_thousand_rows(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        for start in range(0, 10_000, 1_000):
            await desk.write(AddRows("Companies", [{"name": f"n{start + n}", "size": n} for n in range(1_000)]))
        names = await desk.column("Companies", "name")
        assert names == [f"n{n}" for n in range(10_000)]
        await desk.write(CreateTable("Names"))
        await desk.write(MoveColumn("Companies", "name", "Names"))
        assert await desk.column("Names", "name") == names


class TestCounting:
    async def test_columns_count_overall_and_within_a_parent(self, desk: Desk) -> None:
        counting = {"department_id": "company_id", "company_id": None}
        await desk.write(CreateTable("Departments", None, {"name": "str"}, "row_id", counting))
        await desk.write(AddRows("Departments", [{"company_id": 0}, {"company_id": 0}, {"company_id": 1}]))
        await desk.write(AddRows("Departments", [{"company_id": 0}, {}, {"company_id": 1, "department_id": 7}, {"company_id": 1}]))
        rows = [(row["company_id"], row["department_id"]) for row in await desk.rows("Departments")]
        assert rows == [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (1, 7), (1, 8)]

    async def test_a_number_is_not_given_out_again(self, desk: Desk) -> None:
        await desk.write(CreateTable("T", None, None, "row_id", {"n": None}))
        await desk.write(AddRows("T", [{}, {"n": 10}]))
        await desk.write(UpdateRows("T", {0: {"n": 20}}))
        await desk.write(UpdateRows("T", {0: {"n": 1}}))
        await desk.write(AddRows("T", [{}]))
        assert await desk.column("T", "n") == [1, 10, 21]

    @pytest.mark.parametrize("parent", ["str", "float", "date"])
    async def test_a_parent_of_any_simple_type_and_none(self, desk: Desk, parent: str) -> None:
        values = {"str": ["a", "b"], "float": [0.5, 1.5], "date": ["2026-01-01", "2026-01-02"]}[parent]
        await desk.write(CreateTable("T", None, {"p": parent}, "row_id", {"n": "p"}))
        for _ in range(2):
            await desk.write(AddRows("T", [{"p": values[0]}, {"p": values[1]}, {}, {"p": values[0]}]))
        assert await desk.column("T", "n") == [0, 0, 0, 1, 2, 1, 1, 3]

    async def test_the_unique_key_may_be_named_and_be_a_parent(self, desk: Desk) -> None:
        await desk.write(CreateTable("T", None, None, "t_id", {"t_id": None, "n": "t_id"}))
        await desk.write(AddRows("T", [{}, {}]))
        assert await desk.rows("T") == [{"t_id": 0, "n": 0}, {"t_id": 1, "n": 0}]

    async def test_a_parent_is_renamed_and_deleted(self, desk: Desk) -> None:
        await desk.write(CreateTable("T", None, {"p": "str"}, "row_id", {"n": "p"}))
        await desk.write(RenameColumn("T", "p", "q"))
        await desk.write(AddRows("T", [{"q": "a"}, {"q": "a"}]))
        result = await desk.write(DeleteColumn("T", "q"))
        assert result["details"] == {"table": "T", "column": "q", "no_longer_counting": ["n"]}
        await desk.write(AddRows("T", [{}]))
        assert await desk.column("T", "n") == [0, 1, None]


BAD_UPDATES: list[tuple[Any, ...]] = [
    ({0: {"name": "x"}, 99: {"name": "y"}}, "unknown_row", ("company_id 99",)),
    ({0: {"name": "x"}, 1: {"size": "y"}}, "bad_value", ("row 1", "column size")),
    ({0: {"name": "x"}, 1: {"nothing": "y"}}, "unknown_column", ("nothing", "founded")),
    ({0: {"company_id": 5}}, "bad_arguments", ("never written",)),
    ({-1: {}}, "bad_arguments", ("-1",)),
    ({True: {}}, "bad_arguments", ("True",)),
    ({"first": {}}, "bad_arguments", ("first",)),
    ({0: {}, "0": {}}, "bad_arguments", ("0",)),
    ({0: "x"}, "bad_arguments", ("dict",)),
    ([], "bad_arguments", ("dict",)),
    ({2**63: {}}, "bad_arguments", ()),
]


class TestUpdatedRows:
    async def test_what_is_not_named_stays(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", [{**row, "tags": ["a"], "more": {"b": 1}} for row in ROWS]))
        result = await desk.write(UpdateRows("Companies", {0: {"size": 4, "tags": None}, 2: {"name": "BYD", "more": {}}}))
        assert result == {"outcome": "rows updated successfully", "details": {"length": 2}}
        rows = await desk.rows("Companies")
        assert rows[0] == {"company_id": 0, "name": "Nio", "founded": "2014-11-25", "size": 4.0, "tags": None, "more": {"b": 1}}
        assert rows[1]["tags"] == ["a"]
        assert rows[2] == {"company_id": 2, "name": "BYD", "founded": None, "size": None, "tags": ["a"], "more": {}}
        assert [row["revision"] for row in await desk.stored()] == [2, 1, 2]

    async def test_keys_of_json_are_text(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", ROWS))
        await desk.write(UpdateRows("Companies", {"1": {"name": "x"}}))  # pyright: ignore[reportArgumentType]
        assert await desk.column("Companies", "name") == ["Nio", "x", None]

    async def test_one_bad_update_and_none_is_made(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", ROWS))
        for updates, code, words in BAD_UPDATES:
            await desk.refused(UpdateRows("Companies", updates), code, *words)


REFUSED_COLUMNS: list[tuple[Any, ...]] = [
    (CreateEmptyColumn("Companies", "size", "int"), "name_taken"),
    (CreateEmptyColumn("Companies", "company_id", "int"), "name_taken"),
    (CreateEmptyColumn("Companies", "Bad Name", "int"), "bad_name"),
    (CreateEmptyColumn("Companies", "ok", "number"), "bad_arguments"),
    (CreateEmptyColumn("Nothing", "ok", "int"), "unknown_table"),
    (CreateEmptyColumn("Contacts", "ok", "int"), "read_only"),
    (RenameColumn("Companies", "nothing", "x"), "unknown_column"),
    (RenameColumn("Companies", "name", "size"), "name_taken"),
    (RenameColumn("Companies", "name", "company_id"), "name_taken"),
    (RenameColumn("Companies", "company_id", "id"), "bad_name"),
    (DeleteColumn("Companies", "company_id"), "not_permitted"),
    (DeleteColumn("Companies", "x\x00"), "unknown_column"),
    (DeleteColumn("Comp\x00", "x"), "unknown_table"),
    (MoveColumn("Companies", "company_id", "Empty"), "not_permitted"),
    (MoveColumn("Companies", "name", "Companies"), "bad_arguments"),
    (CopyColumn("Companies", "row_id", "Empty"), "unknown_column"),
    (CopyColumn("Companies", "name", "Taken"), "name_taken"),
    (CopyColumn("Companies", "name", "Nothing"), "unknown_table"),
    (VectorizeColumn("Companies", "nothing", "v"), "unknown_column"),
    (VectorizeColumn("Companies", "name", "size"), "name_taken"),
    (VectorizeColumn("Companies", "__import__('os')", "v"), "bad_expression"),
]


class TestColumns:
    @pytest.fixture(autouse=True)
    async def _made(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", ROWS))

    async def test_a_column_is_renamed_in_its_place(self, desk: Desk) -> None:
        before = await desk.table("Companies")
        await desk.write(RenameColumn("Companies", "founded", "founded_on"))
        await desk.write(RenameColumn("Companies", "company_id", "maker_id"))
        assert await desk.rows("Companies") == [
            {"maker_id": 0, "name": "Nio", "founded_on": "2014-11-25", "size": 3.0},
            {"maker_id": 1, "name": None, "founded_on": None, "size": 2.5},
            {"maker_id": 2, "name": None, "founded_on": None, "size": None},
        ]
        assert (await desk.table("Companies")).version > before.version

    async def test_the_values_of_a_deleted_column_do_not_come_back(self, desk: Desk) -> None:
        before = await desk.table("Companies")
        assert (await desk.write(DeleteColumn("Companies", "name")))["details"] == {"table": "Companies", "column": "name"}
        assert all("Nio" not in row.values() for row in await desk.stored())
        await desk.write(CreateEmptyColumn("Companies", "name", "str"))
        assert await desk.column("Companies", "name") == [None, None, None]
        column = (await desk.table("Companies")).column("name")
        old = before.column("name")
        assert column is not None
        assert old is not None
        assert column.slot == old.slot
        assert column.key != old.key

    async def test_an_embedding_goes_with_its_source_and_knows_its_new_name(self, desk: Desk) -> None:
        change = VectorizeColumn("Companies", "name.lower() + str({size}) + 'name'  # name", "name_vector")
        await desk.write(change)
        version = (await desk.table("Companies")).version
        await desk.write(change)
        assert (await desk.table("Companies")).version == version
        await desk.write(RenameColumn("Companies", "name", "title"))
        vector = (await desk.table("Companies")).column("name_vector")
        assert vector is not None
        assert vector.source == "title.lower() + str({size}) + 'name'  # name"
        assert "name_vector" not in (await desk.rows("Companies"))[0]
        await desk.refused(AddRows("Companies", [{"name_vector": [0.5]}]), "bad_value", "embedding")
        await desk.refused(UpdateRows("Companies", {0: {"name_vector": None, "title": 3}}), "bad_value", "title")
        result = await desk.write(DeleteColumn("Companies", "title"))
        assert result["details"]["also_deleted"] == ["name_vector"]
        assert [column.name for column in (await desk.table("Companies")).columns] == ["founded", "size"]

    async def test_an_embedded_expression_follows_a_rename_whatever_its_text_holds(self, desk: Desk) -> None:
        sources = {
            '"a\u2028b\x0cc\x85d " + name': '"a\u2028b\x0cc\x85d " + title',
            'name + """name\ny""" + name': 'title + """name\ny""" + title',
            "{name}\r\n + ' é🦊 ' + name\r + name  # name": "{title}\r\n + ' é🦊 ' + title\r + title  # name",
            "name\\\n + str(name)": "title\\\n + str(title)",
        }
        for number, source in enumerate(sources):
            await desk.write(VectorizeColumn("Companies", source, f"v{number}"))
        await desk.write(RenameColumn("Companies", "name", "title"))
        columns = (await desk.table("Companies")).columns
        assert [column.source for column in columns if column.source] == list(sources.values())
        assert (await desk.write(DeleteColumn("Companies", "size")))["details"] == {"table": "Companies", "column": "size"}
        gone = (await desk.write(DeleteColumn("Companies", "title")))["details"]["also_deleted"]
        assert gone == [f"v{number}" for number in range(len(sources))]

    async def test_a_column_stays_fit_for_what_is_embedded_of_it(self, desk: Desk) -> None:
        await desk.write(VectorizeColumn("Companies", "name.lower()", "low"))
        await desk.write(VectorizeColumn("Companies", "str(size) + str(name)", "both"))
        await desk.refused(TransformColumn("Companies", "name", "len(name)"), "bad_expression", "low", "name.lower()", "Delete")
        await desk.write(TransformColumn("Companies", "size", "int(size)"))
        await desk.write(TransformColumn("Companies", "name", "name.upper()"))
        for name in ("founded", "low"):
            await desk.write(DeleteColumn("Companies", name))
        await desk.write(TransformColumn("Companies", "name", "len(name)"))
        await desk.write(VectorizeColumn("Companies", "str(name) + " * 29 + " " * 9_600 + "str(name)", "long"))
        await desk.refused(RenameColumn("Companies", "name", "name_of_it"), "bad_expression", "long", "10000")
        gone = (await desk.write(DeleteColumn("Companies", "name")))["details"]["also_deleted"]
        assert gone == ["both", "long"]

    async def test_what_cannot_be_is_refused(self, desk: Desk) -> None:
        await desk.write(CreateTable("Empty"))
        await desk.write(CreateTable("Taken", None, {"name": "int"}))
        for change, code in REFUSED_COLUMNS:
            await desk.refused(change, code)

    async def test_a_column_is_copied_by_key_and_missing_rows_are_added(self, desk: Desk) -> None:
        await desk.write(CreateTable("Other", None, {"x": "int"}))
        await desk.write(AddRows("Other", [{"x": 1}]))
        for column in ("name", "founded", "company_id"):
            result = await desk.write(CopyColumn("Companies", column, "Other"))
            assert result["details"] == {"table": "Other", "column": column, "length": 3}
        assert await desk.rows("Other") == [
            {"row_id": 0, "x": 1, "name": "Nio", "founded": "2014-11-25", "company_id": 0},
            {"row_id": 1, "x": None, "name": None, "founded": None, "company_id": 1},
            {"row_id": 2, "x": None, "name": None, "founded": None, "company_id": 2},
        ]
        await desk.write(AddRows("Other", [{"name": "new"}]))
        assert [row["row_id"] for row in await desk.rows("Other")] == [0, 1, 2, 3]
        assert len(await desk.rows("Companies")) == 3

    async def test_a_column_is_moved_lists_and_all(self, desk: Desk) -> None:
        await desk.write(AddRows("Companies", [{"tags": ["a", {"b": None}], "kind": {}}]))
        await desk.write(CreateTable("Other"))
        await desk.write(AddRows("Other", [{"list": [1]}] * 4))
        for column in ("tags", "kind"):
            await desk.write(MoveColumn("Companies", column, "Other"))
        assert (await desk.rows("Other"))[2:] == [
            {"row_id": 2, "list": [1], "tags": None, "kind": None},
            {"row_id": 3, "list": [1], "tags": ["a", {"b": None}], "kind": {}},
        ]
        assert list((await desk.rows("Companies"))[0]) == ["company_id", "name", "founded", "size"]

    async def test_rows_that_a_copy_adds_are_numbered(self, desk: Desk) -> None:
        counting = {"number": None, "of_key": "row_id", "of_kind": "kind", "of_number": "number"}
        await desk.write(CreateTable("Other", None, {"kind": "str"}, auto_counting=counting))
        await desk.write(AddRows("Other", [{"kind": "a"}, {}]))
        await desk.write(DeleteRows("row_id == 1", tables=["Other"]))
        await desk.write(AddRows("Other", [{}]))
        await desk.write(CopyColumn("Companies", "name", "Other"))
        await desk.write(MoveColumn("Companies", "size", "Other"))
        await desk.write(AddRows("Other", [{"kind": "a"}, {}]))
        assert [
            (row["row_id"], row["number"], row["of_key"], row["of_kind"], row["of_number"]) for row in await desk.rows("Other")
        ] == [
            (0, 0, 0, 0, 0),
            (1, 3, 0, 1, 0),
            (2, 2, 0, 0, 0),
            (3, 4, 0, 1, 0),
            (4, 5, 0, 2, 0),
        ]
        assert [row["size"] for row in await desk.rows("Other")] == [3.0, 2.5, None, None, None]

    async def test_a_copy_reaches_no_other_owner(self, desk: Desk) -> None:
        for owner in (BOBS, SALES):
            await desk.write(COMPANIES, owner)
            await desk.write(AddRows("Companies", [{"name": f"of {owner.key}"}] * 5), owner)
        await desk.write(CreateTable("Other"))
        before = [await desk.stored(owner) for owner in (BOBS, SALES)]
        await desk.write(MoveColumn("Companies", "name", "Other"))
        assert await desk.column("Other", "name") == ["Nio", None, None]
        assert [await desk.stored(owner) for owner in (BOBS, SALES)] == before


REFUSED_EQUATIONS: list[tuple[Any, ...]] = [
    (CreateDerivedColumn("T", "z", "x +"), "bad_expression"),
    (CreateDerivedColumn("T", "z", "x + nothing"), "unknown_column"),
    (CreateDerivedColumn("T", "z", "__import__('os').system('id')"), "bad_expression"),
    (CreateDerivedColumn("T", "z", "None"), "bad_expression"),
    (CreateDerivedColumn("T", "z", "tags[0]"), "bad_expression"),
    (CreateDerivedColumn("T", "x", "x"), "name_taken"),
    (CreateDerivedColumn("T", "Z", "x"), "bad_name"),
    (TransformColumn("T", "nothing", "x"), "unknown_column"),
    (TransformColumn("T", "row_id", "x"), "not_permitted"),
    (TransformColumn("T", "x", "x + 'a'"), "bad_expression"),
    (TransformColumn("T", "name", "name + name"), "too_large"),
    (DeleteRows("x >"), "bad_expression"),
    (DeleteRows("nothing > 1"), "unknown_column"),
    (DeleteRows("x > 1", tables=["T", "Other"]), "unknown_column"),
    (DeleteRows("x > 1", tables=["Nothing"]), "unknown_table"),
    (DeleteRows("should_respond", tables=["Contacts"]), "read_only"),
    (DeleteRows("x > 1", limit=1001), "bad_arguments"),
    (DeleteRows("x > 1", offset=-1), "bad_arguments"),
]


class TestEquations:
    @pytest.fixture(autouse=True)
    async def _made(self, desk: Desk) -> None:
        await desk.write(CreateTable("T", None, {"x": "float", "y": "float", "name": "str", "n": "int", "tags": "list"}))
        rows: list[dict[str, Any]] = [
            {"x": 3, "y": 4, "name": " Ab ", "n": 2**62, "tags": ["q", 7]},
            {"x": None, "y": 1, "name": "5", "n": 0, "tags": []},
            {"x": 5, "y": 12, "name": None, "n": -7},
        ]
        await desk.write(AddRows("T", rows))
        await desk.write(CreateTable("Other", None, {"name": "str"}))
        for owner in (BOBS, SALES):
            await desk.write(CreateTable("T", None, {"x": "float", "y": "float"}), owner)
            await desk.write(AddRows("T", [{"x": 1, "y": 1}]), owner)

    async def test_a_derived_column_is_computed_per_row(self, desk: Desk) -> None:
        others = [await desk.stored(owner) for owner in (BOBS, SALES)]
        result = await desk.write(CreateDerivedColumn("T", "length", "({x}**2 + {y}**2)**0.5"))
        assert result["outcome"] == "column created successfully"
        assert result["details"] == {"table": "T", "column": "length", "type": "float"}
        assert await desk.column("T", "length") == [5.0, None, 13.0]
        derived = {
            "clean": "name.strip().lower()",
            "big": "x > 4",
            "third": "n // 3",
            "key": "row_id * 10",
            "first": "str(tags[0])",
        }
        for name, equation in derived.items():
            await desk.write(CreateDerivedColumn("T", name, equation))
        assert await desk.column("T", "clean") == ["ab", "5", None]
        assert await desk.column("T", "big") == [False, False, True]
        assert await desk.column("T", "third") == [2**62 // 3, 0, -3]
        assert await desk.column("T", "key") == [0, 10, 20]
        assert await desk.column("T", "first") == ["q", None, None]
        assert [await desk.stored(owner) for owner in (BOBS, SALES)] == others

    async def test_a_column_is_transformed_in_its_place(self, desk: Desk) -> None:
        before = [column.name for column in (await desk.table("T")).columns]
        await desk.write(TransformColumn("T", "x", "n * 0 + 1"))
        assert await desk.column("T", "x") == [1.0, 1.0, 1.0]
        result = await desk.write(TransformColumn("T", "name", "int(name)"))
        assert result["details"] == {"table": "T", "column": "name", "type": "int"}
        assert await desk.column("T", "name") == [None, 5, None]
        assert all(row["t00"] is None for row in await desk.stored())
        await desk.write(TransformColumn("T", "name", "str(name) + '!'"))
        assert (await desk.column("T", "name"))[1] == "5!"
        await desk.write(TransformColumn("T", "tags", "len(tags)"))
        assert await desk.column("T", "tags") == [2, 0, None]
        assert not any(row["more"] for row in await desk.stored())
        await desk.write(TransformColumn("T", "y", "None"))
        assert await desk.column("T", "y") == [None, None, None]
        assert [column.name for column in (await desk.table("T")).columns] == before
        assert [row["revision"] for row in await desk.stored()] == [6, 6, 6]

    async def test_what_goes_out_of_its_range_is_none(self, desk: Desk) -> None:
        await desk.write(CreateDerivedColumn("T", "a", "n * 4"))
        await desk.write(CreateDerivedColumn("T", "b", "1e308 * y"))
        await desk.write(CreateDerivedColumn("T", "c", "1 / n"))
        assert await desk.column("T", "a") == [None, 0, -28]
        assert await desk.column("T", "b") == [None, 1e308, None]
        assert await desk.column("T", "c") == [1 / 2**62, None, -1 / 7]

    async def test_columns_beyond_the_slots_are_computed_and_read(self, desk: Desk) -> None:
        types = {f"s{number}": "str" for number in range(25)} | {f"f{number}": "float" for number in range(17)}
        await desk.write(CreateTable("Wide", None, types))
        await desk.write(AddRows("Wide", [{"s24": "a", "f16": 1.5}, {"s0": "b"}]))
        await desk.write(CreateDerivedColumn("Wide", "made", "s24 + 'z'"))
        await desk.write(CreateDerivedColumn("Wide", "twice", "f16 * 2"))
        await desk.write(TransformColumn("Wide", "s24", "s0"))
        assert await desk.column("Wide", "made") == ["az", None]
        assert await desk.column("Wide", "twice") == [3.0, None]
        assert await desk.column("Wide", "s24") == [None, "b"]
        assert (await desk.write(DeleteRows("twice == 3.0")))["details"]["length"] == 1

    async def test_floats_beyond_the_slots_keep_every_digit(self, desk: Desk) -> None:
        floats = [0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 123456789.12345679, None]
        full = {f"f{number}": "float" for number in range(16)}
        for name in ("Copied", "Moved", "Wide"):
            await desk.write(CreateTable(name, None, full))
        await desk.write(CreateTable("Narrow", None, {"a": "float", "b": "float"}))
        await desk.write(AddRows("Narrow", [{"a": number, "b": number} for number in floats]))
        await desk.write(AddRows("Wide", [{"f0": number} for number in floats]))
        await desk.write(CopyColumn("Narrow", "a", "Copied"))
        await desk.write(MoveColumn("Narrow", "b", "Moved"))
        await desk.write(CreateDerivedColumn("Wide", "made", "f0"))
        await desk.write(CreateEmptyColumn("Wide", "changed", "float"))
        await desk.write(TransformColumn("Wide", "changed", "made"))
        for table, column in (("Copied", "a"), ("Moved", "b"), ("Wide", "made"), ("Wide", "changed")):
            assert list(map(repr, await desk.column(table, column))) == list(map(repr, floats)), (table, column)
        # An int in a column of floats is one: divided, it has a fraction.
        await desk.write(TransformColumn("Wide", "changed", "row_id + 1"))
        await desk.write(CreateDerivedColumn("Wide", "half", "changed / 2"))
        assert await desk.column("Wide", "half") == [(number + 1) / 2 for number in range(len(floats))]
        assert (await desk.write(DeleteRows("f0 == 0.30000000000000004 and made == f0")))["details"]["length"] == 1

    async def test_what_cannot_be_is_refused(self, desk: Desk) -> None:
        await desk.write(AddRows("T", [{"name": "é" * 100_000}]))
        for change, code in REFUSED_EQUATIONS:
            await desk.refused(change, code)

    async def test_a_text_that_is_too_long_is_refused_before_anything_is_written(self, desk: Desk) -> None:
        await desk.write(CreateTable("Long", None, {"text": "str"}))
        await desk.write(AddRows("Long", [{"text": "x" * 50_000}] * 4))
        written: list[str] = []

        @event.listens_for(desk.tables.database.engine, "before_cursor_execute")
        def _(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            written.append(statement.split()[0])

        for change in (
            CreateDerivedColumn("Long", "longer", " + ".join(["text"] * 30)),
            TransformColumn("Long", "text", " + ".join(["text"] * 30)),
        ):
            with pytest.raises(ToolProblem) as caught:
                await desk.write(change)
            assert caught.value.code == "too_large"
            assert "row 0" in caught.value.message
        assert "SELECT" in written
        assert "UPDATE" not in written
        await desk.write(CreateDerivedColumn("Long", "longer", "text + text + text + text + text"))
        assert "UPDATE" in written
        assert len((await desk.column("Long", "longer"))[3]) == 250_000

    async def test_rows_are_deleted_newest_first(self, desk: Desk) -> None:
        await desk.write(AddRows("T", [{"x": 9, "y": number} for number in range(6)]))
        result = await desk.write(DeleteRows("x == 9", offset=1, limit=3))
        assert result == {"outcome": "rows deleted successfully", "details": {"length": 3, "tables": {"T": 3}}}
        assert [row["row_id"] for row in await desk.rows("T")] == [0, 1, 2, 3, 4, 8]
        await desk.write(DeleteRows("row_id == 8 or x is None", tables=["t"]))
        assert [row["row_id"] for row in await desk.rows("T")] == [0, 2, 3, 4]
        await desk.write(AddRows("T", [{}]))
        assert [row["row_id"] for row in await desk.rows("T")] == [0, 2, 3, 4, 9]
        assert len(await desk.rows("T", BOBS)) == 1

    async def test_without_a_filter_nothing_is_deleted(self, desk: Desk) -> None:
        assert (await desk.write(DeleteRows(None)))["details"] == {"length": 0}
        assert (await desk.write(DeleteRows("x == 12345")))["outcome"] == "no rows deleted"
        assert len(await desk.rows("T")) == 3


class TestEffects:
    async def test_a_retry_after_a_lost_answer_changes_nothing(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        lossy = losing(desk.store)
        with pytest.raises(StoreUnavailable):
            await lossy.write(ANNS, AddRows("Companies", ROWS), effect="loop/1/2/0", now=NOW)
        again = await desk.write(AddRows("Companies", ROWS), effect="loop/1/2/0")
        assert again == {"outcome": "rows added successfully", "details": {"length": 3}}
        assert len(await desk.rows("Companies")) == 3
        await desk.write(AddRows("Companies", ROWS), effect="loop/1/2/1")
        assert len(await desk.rows("Companies")) == 6

    async def test_a_refused_call_may_be_made_again(self, desk: Desk) -> None:
        with pytest.raises(ToolProblem):
            await desk.write(AddRows("Companies", ROWS), effect="e")
        await desk.write(COMPANIES)
        assert (await desk.write(AddRows("Companies", ROWS), effect="e"))["details"] == {"length": 3}

    async def test_the_same_effect_at_once_is_one(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        results = await asyncio.gather(*(desk.write(AddRows("Companies", ROWS), effect="e") for _ in range(6)))
        assert len(await desk.rows("Companies")) == 3
        assert all(result == results[0] for result in results)

    async def test_effects_of_two_owners_do_not_meet(self, desk: Desk) -> None:
        for owner in (ANNS, SALES):
            await desk.write(COMPANIES, owner, effect="e")
        assert await desk.names(SALES) == ["Companies"]

    async def test_two_writers_at_once_come_one_after_the_other(self, desk: Desk, sql_url: str) -> None:
        await desk.write(CreateTable("T", None, None, "row_id", {"n": None}))
        other = build_tables(sql_url)
        desks = [desk, Desk(other)]
        try:
            await asyncio.gather(*(desks[n % 2].write(AddRows("T", [{"x": n}] * 20)) for n in range(10)))
        finally:
            await other.aclose()
        rows = await desk.rows("T")
        assert [row["row_id"] for row in rows] == list(range(200))
        assert [row["n"] for row in rows] == list(range(200))
        assert all(len({row["x"] for row in rows[start : start + 20]}) == 1 for start in range(0, 200, 20))
        assert [column.name for column in (await desk.table("T")).columns] == ["n", "x"]


class TestOwners:
    async def test_nobody_writes_or_reads_the_tables_of_another(self, desk: Desk) -> None:
        await desk.write(COMPANIES)
        await desk.write(AddRows("Companies", ROWS))
        table = await desk.table("Companies")
        await desk.refused(AddRows("Companies", ROWS), "unknown_table", owner=BOBS)
        await desk.refused(DeleteTables(["Companies"]), "unknown_table", owner=BOBS)
        await desk.refused(AddRows("personal.Companies", ROWS), "unknown_table", owner=SALES)
        for stranger in (see(BOB), see(OTHER_ANN, "sales")):
            assert [one.name for one in await desk.store.tables(stranger)] == ["Contacts"]
            with pytest.raises(ToolProblem):
                await desk.store.export(stranger, table)

    async def test_a_team_and_what_the_deployment_ships_are_seen_with_their_source(self, desk: Desk) -> None:
        for owner in (ANNS, SALES, Owner.built_in()):
            await desk.write(CreateTable("Shared"), owner)
        seen = await desk.store.tables(see(ANN, "sales"))
        assert [(one.name, one.source) for one in seen] == [
            ("Contacts", "personal"),
            ("Shared", "personal"),
            ("Shared", "team:sales"),
            ("Shared", "built-in"),
        ]
        assert [one.source for one in await desk.store.tables(see(OTHER_ANN))] == ["personal", "built-in"]

    async def test_what_the_deployment_ships_is_read_only_and_said_to_be(self, desk: Desk) -> None:
        await desk.write(CreateTable("Shipped"), Owner.built_in())
        for name in ("Shipped", "shipped", "built-in.Shipped"):
            await desk.refused(DeleteTables([name]), "read_only", "built-in")
        await desk.refused(DeleteTables(["personal.Shipped"]), "unknown_table")
        await desk.write(CreateTable("Shipped"))
        await desk.write(DeleteTables(["Shipped"]))
        assert [one.source for one in await desk.store.tables(see(ANN))] == ["personal", "built-in"]

    async def test_rows_by_key(self, desk: Desk) -> None:
        await desk.write(COMPANIES, SALES)
        await desk.write(AddRows("Companies", ROWS), SALES)
        table = await desk.table("Companies", SALES)
        rows = await desk.store.rows(table, [2, 0, 99, -1, 2**70])
        assert sorted(rows) == [0, 2]
        assert rows[0] == {"company_id": 0, "name": "Nio", "founded": "2014-11-25", "size": 3.0, "_source": "team:sales"}
        await desk.write(RenameColumn("Companies", "name", "title"), SALES)
        assert (await desk.store.rows(table, [0]))[0]["title"] == "Nio"

    async def test_forgetting_an_owner_leaves_the_others(self, desk: Desk) -> None:
        for owner in (ANNS, BOBS, SALES):
            await desk.write(COMPANIES, owner, effect="e")
            await desk.write(AddRows("Companies", ROWS), owner)
        await desk.store.delete_owner(ANNS)
        await desk.store.delete_owner(ANNS)
        assert await desk.names() == []
        assert await desk.stored() == []
        assert len(await desk.stored(BOBS)) == len(await desk.stored(SALES)) == 3
        await desk.write(COMPANIES, effect="e")
        assert await desk.rows("Companies") == []


async def test_a_change_of_many_rows_may_take_longer_than_a_call(postgres_url: str) -> None:
    tables = build_tables(postgres_url)
    limits: list[str] = []

    def work(connection: Connection) -> None:
        limits.append(str(connection.exec_driver_sql("SHOW statement_timeout").scalar()))

    try:
        await tables.database.write(work, timeout_s=30)
        await tables.database.write(work)
    finally:
        await tables.aclose()
    assert limits == ["30s", "5s"]


POWERS = """
f**2 | f**0.5 | f**-1 | f**g | n**g | 2**f | n**n | n**2 | n**3 | (n+1)**2 | -(n**2) | (f**2+g**2)**0.5 | (f+1)**g/n
((f**2-g)**3*2)**0.25 | n**2-n**2 | f**2>g | n**9 | (f*1e308)**g | f**(g*1e308) | ((n**3)**3)**3
((((f**2)**2)**2)**2)**2 | f**2>g and n**2<50
"""
EVERYDAY = 16
"""Of these SQLite computes all by itself, where no number is infinite."""


def _refused(*_: object) -> None:
    raise AssertionError("a row went to the function")


def test_powers_are_those_of_python_and_mostly_of_sqlite_itself() -> None:
    """Bit for bit: the library of C that SQLite calls is Python's own."""
    floats = [0.0, -1.0, 0.5, 2.0, -3.0, 1e-310, 1e154, 1.7e308, 1 / 3, None]
    ints = [0, -1, 7, 3037000499, 3037000500, 2**63 - 1, -(2**63), None]
    rows = [{"f": f, "g": g, "n": n} for f in floats for g in floats for n in ints]
    types = {"f": ColumnType.FLOAT, "g": ColumnType.FLOAT, "n": ColumnType.INT}
    kinds: dict[ColumnType, Any] = {ColumnType.FLOAT: Double, ColumnType.INT: BigInteger}
    table = SqlTable("t", MetaData(), *(SqlColumn(name, kinds[type_]) for name, type_ in types.items()))
    powers = [parse_expression(text, types) for text in " | ".join(POWERS.strip().splitlines()).split(" | ")]
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        driver = cast("Any", connection.connection.driver_connection)
        add_functions(driver)
        table.create(connection)
        connection.execute(insert(table), rows)
        columns = dict(table.c.items())
        for power in powers:
            expected = [value_of(power.node, row) for row in rows]
            for row, one, other in zip(
                rows, connection.scalars(select(compile_value(power, columns, "sqlite"))), expected, strict=True
            ):
                infinite = isinstance(other, float) and math.isinf(other)  # is no value of a row
                assert (one is None) if infinite else (one == other and type(one) is type(other)), (power, row, one, other)
            true = connection.scalars(select(table.c.n.is_(table.c.n)).where(compile_condition(power, columns, "sqlite"))).all()
            assert len(true) == sum(is_true(value, power.type) for value in expected), power
        connection.execute(delete(table).where((func.abs(table.c.f) > 1e4) | (func.abs(table.c.g) > 1e4)))
        driver.create_function("knowledge_value", -1, None)
        driver.create_function("knowledge_value", -1, _refused)
        for power in powers[:EVERYDAY]:
            assert connection.scalars(select(compile_value(power, columns, "sqlite"))).all()
    engine.dispose()
