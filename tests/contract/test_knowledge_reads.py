"""Reads of knowledge tables on SQLite and PostgreSQL: every expression as Python has it, federation, joins, bounds, messages."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, BigInteger, Column, Connection, Double, Integer, MetaData, Table, Text, insert, null, select
from sqlalchemy import exc as sa
from sqlalchemy.dialects.postgresql import JSONB

from memory.model.errors import InvalidInput
from memory.model.expression import parse_expression
from memory.model.expression_tree import CONTAINERS, Loose
from memory.model.expression_value import is_true, value_of
from memory.model.knowledge import (
    MAX_LIMIT,
    AddRows,
    ColumnType,
    CreateTable,
    Distances,
    FilterQuery,
    JoinQuery,
    JoinStep,
    Metric,
    ReduceQuery,
    TableChange,
    ToolProblem,
)
from memory.model.owner import Owner
from memory.ports import CreateContact, MergeContacts
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.faults import translate
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.knowledge.compile import compile_condition, compile_value
from memory.stores.tables.knowledge.reads import KnowledgeReads
from tests.support.postgres import PostgresServer
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, SALES, see

_numbers = itertools.count()
SEEN = see(ANN, "sales")


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def write(tables: Tables, change: TableChange, owner: Owner = ANNS) -> Mapping[str, Any]:
    return await tables.knowledge.write(owner, change, effect=f"effect {next(_numbers)}", now=NOW)


async def make(
    tables: Tables, name: str, columns: Mapping[str, str], rows: Sequence[Any], owner: Owner = ANNS, **more: Any
) -> None:
    await write(tables, CreateTable(name, columns=columns, **more), owner)
    if rows:
        await write(tables, AddRows(name, rows), owner)


async def problem(call: Any, code: str) -> str:
    with pytest.raises(ToolProblem) as caught:
        await call
    assert caught.value.code == code, caught.value.message
    return caught.value.message


# ----------------------------------------------------------------------------------------------------------- expressions

_COLUMNS = {
    "x": ColumnType.INT, "y": ColumnType.INT, "f": ColumnType.FLOAT, "g": ColumnType.FLOAT, "s": ColumnType.STR,
    "t": ColumnType.STR, "b": ColumnType.BOOL, "d": ColumnType.DATE, "m": ColumnType.DATETIME, "tm": ColumnType.TIME,
    "td": ColumnType.TIMEDELTA, "l": ColumnType.LIST, "o": ColumnType.DICT,
}  # fmt: skip
_ROWS: list[dict[str, Any]] = [
    {"x": 7, "y": -3, "f": 2.5, "g": 0.0, "s": " Straße ", "t": "a", "b": 1, "d": 20_000, "m": 10**15 + 5, "tm": 3_600_000_001,
     "td": 90_061_500_000, "l": ["red", 1, True, None, [2], 2.0], "o": {"k": {"z": [1, 2.0]}, "t": "text", "n": 5, "f": False}},
    {},
    {"x": 2**63 - 1, "y": 2, "f": 1.7e308, "g": 1e308, "s": "ΑΣ İ 😀", "t": "", "b": 0, "d": -1, "m": -1, "tm": 0, "td": -1,
     "l": [], "o": {}},
    {"x": -(2**63), "y": -1, "f": 5e-324, "g": 9007199254740993.0, "s": "12", "t": "12", "b": 1, "d": 2_932_896,
     "m": 253_402_300_799_999_999, "tm": 86_399_999_999, "td": 0, "l": ["12", 12], "o": {"12": "12", "t": 7}},
    {"x": 9007199254740993, "y": 0, "f": 9007199254740992.0, "g": 123456789.125, "s": "1e3", "t": "٣", "b": 0, "d": 0, "m": 0,
     "tm": 1, "td": 86_400_000_000, "l": [[1], {"a": 1.0}], "o": {"t": None, "l": [1, "2"]}},
]  # fmt: skip
EXPRESSIONS = """
f**5e-324 | g**5e-324 | 1.0**f | 0.0**f | (x==7)**o['n'] | x**5e-324 | ('\\x1c\\x1f '+s+'\\x1d\\x85\\u3000').strip()
x+y | x-y | x*y | x//y | x%y | x/y | x**2 | x**3 | x**0 | x**70 | x**y | -x | +x | b+1 | x%3 | x//2 | (-x)//3 | x%-3
x+1-1 | x*0.1 | f+g | f*g | f/g | f-g | -f | f*f*f | f**2 | f**g | f**0.5 | g**-1 | x+f | f+1e308+1e308
f*1e308*1e308-f*1e308*1e308 | ((x+y)*2-y)//3%5 | (x>1)+(y>1) | (x>1)==(y<1) | int(f) | int(g) | int(b) | float(x) | int(s)
float(s) | int(t) | int(str(x)) | x>f | x==f | x!=f | x<=f | f>=x | x<2.5 | x>=2.5 | x==7.0 | x!=7.5 | x==9007199254740992.0
x<1e30 | x>-1e30 | x<-1e30 | 7<f | f==7 | s==t | s!=t | s<t | s>='a' | s+t | s.upper() | s.lower() | s.strip() | s.strip(t)
s.startswith(t) | s.endswith(t) | len(s) | s.startswith('1') | s.endswith('2') | s.endswith('') | s.startswith('')
s.startswith(('1','Σ')) | t in s | s in t | '12' in s | '' in s | s[0] | s[-1] | s[x] | str(x) | str(f) | str(g) | str(f/3)
str(x/7) | float(str(f)) | str(b) | str(d) | str(m) | str(tm) | str(td) | bool(s) | bool(f) | bool(tm) | bool(td) | not s
not x | not x>1 | not(x>1 and f>1) | x is None | x == None | None != x | None == None | x in [7,None]
x not in [7,9007199254740993] | x in [7, 2.5] | s in ['12',t] | x in (y, 7) | x in [] | s not in ('12', None) | 1<x<10
d+'P1D' | d+td | d-td | d-'1970-01-01' | m+td | m-td | m-'P1D' | td*2 | td*x | td/td | -td | td+td | td>'PT1H'
d>'1970-01-01' | m=='1970-01-01' | m<m | m>='1970-01-01T05:45+05:45' | tm<'12:00' | d in ['1970-01-01', None]
str(d).startswith('19') | l[0] | l[-1] | l[x] | len(l) | len(o) | len(l)==len(o) | o['k'] | o['t'] | o['l'] | o['k']['z'][1]
l[3] is None | o['t'] is None | o['t'].upper() | o['t']=='text' | o['t']!='text' | o['t']==7 | o['t']>6 | o['t']<'z'
o['n']+1 | o['n']==5.0 | o['n']>=x | o['n']<f | o['f']==False | o['f']!=b | o['f']<2 | o['t']==o['n'] | o['t']<o['n']
o['t']==s | not o['t'] | len(o['l']) | len(o['t']) | -o['n'] | '12' in l | 12 in l | 12.0 in l | None in l | True in l
1 in l | b in l | x in l | s in l | [2] in l | {'a':1} in l | o['t'] in l | 't' in o | s in o | o['t'] in o | 'e' in o['t']
1 in o['l'] | '2' in o['l'] | 'z' in o['k'] | None in o['l'] | l[0] in o['l'] | l==["12",12.0] | o=={} | l!=[] | l==l
l[0]==[1] | not l | not o | l or o | x or y | x and y | s or t or 'z' | x or f | s or None | b and x | b or x | b == True
b is True | x>1 and s or t | str(o['t']) | str(o['f']) | int(o['t']) | int(l[1]) | float(o['n']) | bool(o['f']) | o['t'][0]
o['l'][1] | o['n'] or x | s.strip().lower().startswith('s') | len(s.strip())+len(t)*2>3
"""


def _table(dialect: str) -> Table:
    kinds: dict[ColumnType, Any] = {ColumnType.STR: Text, ColumnType.FLOAT: Double}
    kinds |= dict.fromkeys(CONTAINERS, Text if dialect == "sqlite" else JSONB(none_as_null=True))
    columns = (Column(name, kinds.get(kind, BigInteger)) for name, kind in _COLUMNS.items())
    return Table("values_of_all_types", MetaData(), Column("number", Integer, primary_key=True), *columns)


def _alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        if not math.isfinite(expected):
            return found is None
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-13)
    return type(found) is type(expected) and found == expected


async def test_every_expression_is_as_in_python(tables: Tables) -> None:
    """Values and conditions, in the quick and in the safe form; the quick one may fail where a number goes out of its range."""

    def work(connection: Connection) -> list[str]:
        dialect = connection.dialect.name
        table = _table(dialect)
        table.create(connection)
        for number, row in enumerate(_ROWS):
            stored = {
                name: json.dumps(value) if dialect == "sqlite" and _COLUMNS[name] in CONTAINERS else value
                for name, value in row.items()
            }
            connection.execute(insert(table).values(number=number, **(dict.fromkeys(_COLUMNS, null()) | stored)))
        return [wrong for text in _texts() for safe in (True, False) for wrong in _wrong(connection, table, text, safe=safe)]

    assert await tables.database.write(work) == []


def _texts() -> list[str]:
    return [text.strip() for line in EXPRESSIONS.strip().splitlines() for text in line.split(" | ")]


def _wrong(connection: Connection, table: Table, text: str, *, safe: bool) -> list[str]:
    dialect = connection.dialect.name
    expression = parse_expression(text, _COLUMNS)
    columns = {name: table.c[name] for name in _COLUMNS}
    condition = compile_condition(expression, columns, dialect, safe=safe)
    expected = [value_of(expression.node, row) for row in _ROWS]
    true = {number for number, value in enumerate(expected) if is_true(value, expression.type)}
    found: list[str] = []
    try:
        with connection.begin_nested():
            if {number for (number,) in connection.execute(select(table.c.number).where(condition))} != true:
                found.append(f"{dialect} safe={safe}: {text} holds for other rows")
            if expression.type is not None:
                value = compile_value(expression, columns, dialect, safe=safe).label("value")
                values = [row.value for row in connection.execute(select(value, table.c.number).order_by(table.c.number))]
                if dialect == "sqlite" and (expression.type in CONTAINERS or expression.type is Loose.ANY):
                    values = [None if one is None else json.loads(one) for one in values]
                if not all(map(_alike, values, expected)):
                    found.append(f"{dialect} safe={safe}: {text} gives {values}, not {expected}")
    except Exception as error:  # noqa: BLE001 - which one it may be is looked at
        state = getattr(getattr(error, "orig", None), "sqlstate", "")
        if safe or not str(state).startswith("22"):
            found.append(f"{dialect} safe={safe}: {text} fails: {error}")
    return found


# ------------------------------------------------------------------------------------------------------------------ filter


class TestFilter:
    async def test_tables_of_a_name_are_one(self, tables: Tables) -> None:
        await make(tables, "Company", {"name": "str", "founded": "int"}, [{"name": "Äb", "founded": 1990}, {"name": "b"}])
        await make(tables, "company", {"name": "str", "founded": "float"}, [{"founded": 1990.5}], SALES, unique_key_name="nr")
        await make(tables, "Company", {"name": "str"}, [{"name": "shipped"}], Owner.built_in())
        await make(tables, "Company", {"name": "str"}, [{"name": "Bob's"}], BOBS)
        found = await tables.knowledge.filter(SEEN, FilterQuery(tables=["Company"]))
        assert found == {
            "Company": [
                {"row_id": 1, "name": "b", "founded": None, "_source": "personal"},
                {"row_id": 0, "name": "Äb", "founded": 1990, "_source": "personal"},
                {"nr": 0, "name": None, "founded": 1990.5, "_source": "team:sales"},
                {"row_id": 0, "name": "shipped", "_source": "built-in"},
            ]
        }
        for name, sources in (
            ("personal.Company", {"personal"}),
            ("team:sales.company", {"team:sales"}),
            ("built-in.Company", {"built-in"}),
        ):
            [rows] = (await tables.knowledge.filter(SEEN, FilterQuery(tables=[name]))).values()
            assert {row["_source"] for row in rows} == sources
        [rows] = (await tables.knowledge.filter(SEEN, FilterQuery("founded > 1990 or _source == 'built-in'"))).values()
        assert [row["_source"] for row in rows] == ["team:sales", "built-in"]
        assert (await tables.knowledge.filter(see(BOB), FilterQuery(tables=["Company"])))["Company"][0]["name"] == "Bob's"
        assert "no table" in await problem(
            tables.knowledge.filter(see(ANN), FilterQuery(tables=["team:sales.Company"])), "unknown_table"
        )

    async def test_a_table_that_does_not_go_with_the_others_of_its_name_is_one_of_its_own(self, tables: Tables) -> None:
        await make(tables, "T", {"a": "str", "n": "int"}, [{"a": "x", "n": 1}])
        await make(tables, "T", {"a": "int", "n": "float"}, [{"a": 5, "n": 2.5}], SALES)
        await make(tables, "T", {"n": "float"}, [{"n": 0.5}], Owner.built_in())
        await make(tables, "U", {"a": "str"}, [{"a": "u"}])
        mine = {"row_id": 0, "a": "x", "n": 1, "_source": "personal"}
        shipped = {"row_id": 0, "n": 0.5, "_source": "built-in"}
        others = {"row_id": 0, "a": 5, "n": 2.5, "_source": "team:sales"}
        assert await tables.knowledge.filter(SEEN, FilterQuery(tables=["T"])) == {"T": [mine, shipped], "team:sales.T": [others]}
        assert await tables.knowledge.filter(SEEN, FilterQuery(tables=["personal.T"])) == {"personal.T": [mine]}
        assert await tables.knowledge.filter(SEEN, FilterQuery("n > 0.7", tables=["T"])) == {"T": [mine], "team:sales.T": [others]}
        for names in (None, ["T", "U"]):
            found = dict(await tables.knowledge.filter(SEEN, FilterQuery("a != 'z'", tables=names)))
            [told] = found.pop("_left_out")
            assert found == {"T": [mine, shipped], "U": [{"row_id": 0, "a": "u", "_source": "personal"}]}
            assert told["table"] == "team:sales.T"
            assert "a (int)" in told["why"]
        found = await tables.knowledge.filter(SEEN, FilterQuery("a > 3"))
        assert [found["team:sales.T"], [one["table"] for one in found["_left_out"]]] == [[others], ["T", "U"]]
        await problem(tables.knowledge.filter(SEEN, FilterQuery("a > None.x")), "bad_expression")
        await problem(tables.knowledge.filter(SEEN, FilterQuery("a > 3", tables=["T"])), "bad_expression")
        assert await tables.knowledge.reduce(SEEN, ReduceQuery("T", "sum", "n")) == 1.5
        assert await tables.knowledge.reduce(SEEN, ReduceQuery("team:sales.T", "sum", "n")) == 2.5
        step = JoinStep(["U", "T"], "U.row_id == T.row_id", {"T.n": "n"})
        assert [row["n"] for row in await tables.knowledge.join(SEEN, JoinQuery([step]))] == [1.0, 0.5]
        assert await tables.knowledge.join_ranked(
            SEEN, [step], [Distances("T", {("team:sales", 0): 0.0, ("built-in", 0): 0.1})]
        ) == [
            {"n": 0.5},
            {"n": 1.0},
        ]

    async def test_only_some_rows(self, tables: Tables) -> None:
        await make(tables, "T", {"n": "int"}, [{"n": number} for number in range(9)])
        await make(tables, "T", {"n": "int"}, [{"n": number} for number in range(9)], SALES)
        query = FilterQuery("n != 2", tables=["T"], only={"personal": [1, 2, 3, 99], "team:sales": [8], "team:other": [1]})
        found = await tables.knowledge.filter(SEEN, query)
        assert [(row["_source"], row["n"]) for row in found["T"]] == [("team:sales", 8), ("personal", 3), ("personal", 1)]
        assert await tables.knowledge.filter(SEEN, FilterQuery(tables=["T"], only={})) == {"T": []}

    async def test_pages_and_what_is_left_out(self, tables: Tables) -> None:
        await make(tables, "A", {"n": "int"}, [{"n": number} for number in range(25)])
        await make(tables, "B", {"m": "int"}, [{"m": 1}])
        keys: list[int] = []
        for offset in range(0, 30, 10):
            page = await tables.knowledge.filter(SEEN, FilterQuery("n % 2 == 0", offset, 10, ["A"]))
            keys += [row["row_id"] for row in page["A"]]
        assert keys == list(range(24, -1, -2))
        assert set(await tables.knowledge.filter(SEEN, FilterQuery())) == {"A", "B", "Contacts"}
        assert set(await tables.knowledge.filter(SEEN, FilterQuery("n == 3"))) == {"A"}
        assert "no column z" in await problem(tables.knowledge.filter(SEEN, FilterQuery("z == 3")), "unknown_column")
        assert "row_id, m" in await problem(
            tables.knowledge.filter(SEEN, FilterQuery("n == 3", tables=["A", "B"])), "unknown_column"
        )
        for query in (FilterQuery(limit=0), FilterQuery(limit=MAX_LIMIT + 1), FilterQuery(offset=-1), FilterQuery(tables="A")):
            await problem(tables.knowledge.filter(SEEN, query), "bad_arguments")
        await problem(tables.knowledge.filter(SEEN, FilterQuery("1 +", tables=["A"])), "bad_expression")

    async def test_columns_beyond_the_slots(self, tables: Tables) -> None:
        columns = {f"s{number}": "str" for number in range(30)} | {f"i{number}": "int" for number in range(20)}
        columns |= {f"f{number}": "float" for number in range(20)} | {"done": "bool", "at": "datetime"}
        row: dict[str, Any] = {"s29": "Ä", "i19": 2**53 + 1, "f19": 1.0, "done": True, "at": "2026-01-01T00:00:00+05:45"}
        await make(tables, "Wide", columns, [row, {}])
        wanted = "s29.lower() == 'ä' and i19 == 9007199254740993 and f19 / 2 == 0.5 and done and at < '2026-01-01' and i18 is None"
        [found] = (await tables.knowledge.filter(SEEN, FilterQuery(wanted, tables=["Wide"])))["Wide"]
        assert {name: found[name] for name in row} == row | {"at": "2025-12-31T18:15:00+00:00"}
        assert await tables.knowledge.reduce(SEEN, ReduceQuery("Wide", "max", ["f19", "i19", "s29", "at"])) == {
            "f19": 1.0,
            "i19": 2**53 + 1,
            "s29": "Ä",
            "at": "2025-12-31T18:15:00+00:00",
        }

    async def test_contacts_are_a_table(self, tables: Tables) -> None:
        created = [CreateContact(name, {"first_name": name, "email_address": f"{name}@example.com"}) for name in ("Bo", "Al", "Cy")]
        for scope in (ANN, BOB):
            await tables.contacts.apply(scope, created if scope is ANN else created[:1], origin="manual", now=NOW)
        await tables.contacts.apply(ANN, [MergeContacts("m", 2, 4)], origin="manual", now=NOW)
        await make(tables, "Deal", {"contact_id": "int", "amount": "int"}, [{"contact_id": 3, "amount": 5}, {"contact_id": 9}])
        rows = (await tables.knowledge.filter(SEEN, FilterQuery("first_name is not None and should_respond", tables=["contacts"])))[
            "contacts"
        ]
        assert [(row["contact_id"], row["first_name"], row["should_respond"], row["_source"]) for row in rows] == [
            (3, "Al", True, "personal"),
            (2, "Bo", True, "personal"),
        ]
        step = JoinStep(["Deal", "Contacts"], "Deal.contact_id == Contacts.contact_id", {"first_name": "who", "amount": "amount"})
        assert await tables.knowledge.join(SEEN, JoinQuery([step])) == [{"who": "Al", "amount": 5}]
        counted = ReduceQuery("Contacts", "count", "contact_id", "email_address is not None", "should_respond")
        assert await tables.knowledge.reduce(SEEN, counted) == {"True": 2}


# ------------------------------------------------------------------------------------------------------------------ reduce


class TestReduce:
    async def test_rows_without_a_value_have_a_group_of_their_own(self, tables: Tables) -> None:
        rows: list[dict[str, Any]] = [
            {"s": "None", "t": "a"},
            {"s": None, "t": "None"},
            {"s": "None", "t": None},
            {"s": "null"},
            {},
        ]
        await make(tables, "T", {"s": "str", "t": "str", "n": "int"}, [row | {"n": n} for n, row in enumerate(rows)])
        for metric in ("count", "median", "mode"):
            figures = {name: n if metric != "count" else 1 for n, name in enumerate(("0a", "1None", "2null", "3null", "4null"))}
            found = await tables.knowledge.reduce(SEEN, ReduceQuery("T", metric, "n", None, ["s", "t"]))
            assert found == {
                "None": {"a": figures["0a"], "null": figures["2null"]},
                "null 2": {"None": figures["1None"], "null": figures["4null"]},
                "null": {"null": figures["3null"]},
            }
        # Each key's groups have the same names, whatever its filter leaves.
        query = ReduceQuery("T", "count", ["n", "row_id"], {"row_id": "s is None"}, "s")
        counts = {"n": {"None": 2, "null": 1, "null 2": 2}, "row_id": {"null 2": 2}}
        assert await tables.knowledge.reduce(SEEN, query) == counts

    async def test_shapes(self, tables: Tables) -> None:
        rows = [
            {"x": 1, "f": 0.5, "s": "a", "d": "2026-01-02", "took": "PT1H", "b": True},
            {"x": 3, "f": None, "s": "a", "d": "2026-01-01", "took": "PT30M", "b": False},
            {"x": None, "f": 2.5, "s": None, "d": None, "took": None, "b": None},
        ]
        kinds = {"x": "int", "f": "float", "s": "str", "d": "date", "took": "timedelta", "b": "bool", "l": "list"}
        await make(tables, "T", kinds, rows)

        async def reduce(metric: str, keys: Any, where: Any = None, by: Any = None) -> Any:
            return await tables.knowledge.reduce(SEEN, ReduceQuery("T", metric, keys, where, by))

        assert await reduce("sum", "x") == 4
        assert await reduce("sum", ["x", "f"]) == {"x": 4, "f": 3.0}
        assert await reduce("mean", "x", by="s") == {"a": 2.0, "None": None}
        assert await reduce("median", ["x"], by=["s", "d"]) == {
            "x": {"a": {"2026-01-01": 3, "2026-01-02": 1}, "None": {"None": None}}
        }
        assert await reduce("count", ["x", "row_id"], {"x": "f is None"}) == {"x": 1, "row_id": 3}
        assert await reduce("max", ["d", "s", "took", "b"]) == {"d": "2026-01-02", "s": "a", "took": "PT1H", "b": True}
        assert await reduce("sum", "took") == "PT1H30M"
        assert await reduce("mean", "took") == "PT45M"
        assert await reduce("sum", "b", by="b") == {"False": 0, "True": 1, "None": 0}
        empty = {metric.value: await reduce(metric, "x", "x > 99") for metric in Metric}
        assert empty == {metric.value: 0 if metric.value in ("sum", "count") else None for metric in Metric}
        assert await reduce("sum", "x", "x > 99", "s") == {}
        for metric, keys, by in (
            ("sum", "s", None),
            ("var", "took", None),
            ("mode", "l", None),
            ("count", "x", "l"),
            ("total", "x", None),
        ):
            await problem(reduce(metric, keys, None, by), "bad_arguments")
        for keys, by in (("z", None), ("x", "z"), (["x", "z"], None)):
            assert "row_id, x, f" in await problem(reduce("count", keys, None, by), "unknown_column")
        await problem(reduce("count", ["x"], {"f": "x > 1"}), "bad_arguments")
        await problem(reduce("count", []), "bad_arguments")

    async def test_what_goes_beyond_the_types(self, tables: Tables) -> None:
        top = 2**63 - 1
        await make(
            tables, "T", {"x": "int", "f": "float"}, [{"x": top, "f": 1.7e308}, {"x": top, "f": 1.7e308}, {"x": -1, "f": 1.0}]
        )
        found = {
            metric: await tables.knowledge.reduce(SEEN, ReduceQuery("T", metric, ["x", "f"])) for metric in ("sum", "var", "mean")
        }
        assert found["sum"] == {"x": 2 * top - 1, "f": None}
        assert found["mean"] == {"x": (2 * top - 1) / 3, "f": None}
        assert found["var"]["f"] is None
        assert found["var"]["x"] == pytest.approx(2 / 9 * float(top) ** 2)
        assert await tables.knowledge.reduce(SEEN, ReduceQuery("T", "count", "x", "x + x > 0 or f * f > 1e300")) == 2


# ------------------------------------------------------------------------------------------------------------------- joins


class TestJoins:
    async def test_messages(self, tables: Tables) -> None:
        await make(tables, "A", {"x": "int", "s": "str"}, [{"x": 1}])
        await make(tables, "B", {"x": "int"}, [{"x": 1}])
        good: dict[str, Any] = {"tables": ["A", "B"], "join_expr": "A.x == B.x", "select": {"A.x": "x"}}

        async def refused(code: str, *said: str, **other: Any) -> None:
            message = await problem(tables.knowledge.join(SEEN, JoinQuery([JoinStep(**(good | other))])), code)
            assert all(one in message for one in said), message
            assert "__left" not in message

        await refused("unknown_column", "A.y", "A.x", "B.x", join_expr="A.y == B.x")
        await refused("bad_expression", "A.s (str)", "different types", join_expr="A.s == B.x")
        await refused("unknown_column", "there is no column x", join_expr="x == 1")  # of both
        await refused("unknown_column", "left_where", left_where="B.x == 1")
        await refused("unknown_column", "select", select={"A.z": "z"})
        await refused("unknown_column", "select", select={"x": "x"})
        await refused("bad_arguments", "same name", select={"A.x": "x", "B.x": "x"})
        await refused("bad_arguments", "no name", select={"A.x": "not a name"})
        await refused("bad_arguments", "underscore", select={"A.x": "_source"})
        await refused("bad_arguments", "at least one", select={})
        await refused("bad_arguments", "cross", mode="cross")
        await refused("bad_arguments", "itself", tables=["A", "a"])
        await refused("bad_arguments", "first step", tables=["$prev", "B"])
        await refused("unknown_table", "C", tables=["A", "C"])
        steps = [JoinStep(**good), JoinStep(["A", "B"], "A.x == B.x", {"A.x": "x"})]
        assert "step 2: one of the two tables is $prev" in await problem(
            tables.knowledge.join(SEEN, JoinQuery(steps)), "bad_arguments"
        )
        where = JoinQuery([JoinStep(**good)], result_where="y > 1")
        assert "result_where: there is no column y" in await problem(tables.knowledge.join(SEEN, where), "unknown_column")
        assert await tables.knowledge.join(SEEN, JoinQuery([JoinStep(**good)] * 1, result_where="x == 1")) == [{"x": 1}]

    async def test_sources_in_a_join(self, tables: Tables) -> None:
        await make(tables, "T", {"x": "int"}, [{"x": 1}, {"x": 2}])
        await make(tables, "T", {"x": "int"}, [{"x": 2}, {"x": 3}], SALES)
        step = JoinStep(
            ["personal.T", "team:sales.T"], "personal.T.x == team:sales.T.x", {"personal.T.x": "x", "team:sales.T._source": "from_"}
        )
        assert await tables.knowledge.join(SEEN, JoinQuery([step])) == [{"x": 2, "from_": "team:sales"}]

    async def test_ranked(self, tables: Tables) -> None:
        await make(tables, "A", {"x": "int"}, [{"x": number} for number in range(4)])
        await make(tables, "B", {"x": "int"}, [{"x": number % 2} for number in range(4)])
        step = JoinStep(["A", "B"], "A.x == B.x", {"A.row_id": "a", "B.row_id": "b"}, "left")
        far = [
            Distances("A", {("personal", 1): 0.5, ("personal", 0): 0.6}),
            Distances("B", {("personal", 2): 0.0, ("personal", 3): 0.2}, 1),
        ]
        ranked = await tables.knowledge.join_ranked(SEEN, [step], far, k=5)
        assert [(row["a"], row["b"]) for row in ranked] == [(0, 2), (1, 3), (1, 1), (0, 0), (3, None)]
        ranked = await tables.knowledge.join_ranked(SEEN, [step], far, where="a != 0", k=1)
        assert [(row["a"], row["b"]) for row in ranked] == [(1, 3)]

    async def test_large_tables_are_joined_by_their_keys(self, tables: Tables) -> None:
        """Compared pair by pair this takes minutes, and is given up."""
        for name in ("A", "B"):
            await write(tables, CreateTable(name, columns={"x": "int", "s": "str"}))
            for start in range(0, 20_000, 1_000):
                await write(tables, AddRows(name, [{"x": n, "s": f"n{n % 1_000}"} for n in range(start, start + 1_000)]))
        for mode in ("inner", "left", "right", "outer"):
            step = JoinStep(["A", "B"], "A.x == B.x + 10000", {"A.x": "a", "B.x": "b"}, mode)
            rows = await tables.knowledge.join(SEEN, JoinQuery([step], result_limit=2))
            assert rows[0] == {"a": 19_999, "b": 9_999}


# ------------------------------------------------------------------------------------------------------------------ bounds


async def test_what_takes_too_long_on_sqlite(sqlite_url: str) -> None:
    tables = build_tables(sqlite_url)
    try:
        for name in ("A", "B"):
            await write(tables, CreateTable(name, columns={"x": "int"}))
            for _ in range(3):
                await write(tables, AddRows(name, [{"x": n} for n in range(1_000)]))
        reads = KnowledgeReads(tables.database, timeout_s=0.05)
        query = JoinQuery([JoinStep(["A", "B"], "A.x * B.x == -1", {"A.x": "a"})])
        began = time.monotonic()
        assert "within 0.05 s; narrow it down" in await problem(reads.join(SEEN, query), "too_large")
        assert time.monotonic() - began < 5  # a bound: the whole of it takes longer
        assert (await tables.knowledge.reduce(SEEN, ReduceQuery("A", "count", "x"))) == 3_000
    finally:
        await tables.aclose()


async def test_what_takes_too_long_on_postgres(postgres_url: str, postgres_server: PostgresServer) -> None:
    """The server's own time-out ends a statement as a cancelled one ends."""
    tables = build_tables(postgres_url)
    try:
        for name in ("A", "B"):
            await write(tables, CreateTable(name, columns={"x": "int"}))
            for _ in range(6):
                await write(tables, AddRows(name, [{"x": n} for n in range(1_000)]))
        query = JoinQuery([JoinStep(["A", "B"], "A.x * B.x == -1", {"A.x": "a"})])
        asked = asyncio.ensure_future(problem(tables.knowledge.join(SEEN, query), "too_large"))
        cancel = Fragment("pg_cancel_backend(pid)")
        running = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '%left_0%'"
        )
        while not asked.done():
            await tables.database.write(
                lambda connection: connection.exec_driver_sql(f"SELECT {cancel.template} FROM ({running.replace('%', '%%')}"
                " AND pid <> pg_backend_pid()) AS them").all()
            )  # fmt: skip
            await asyncio.sleep(0.02)
        assert "narrow it down" in await asked
    finally:
        await tables.aclose()


async def test_what_is_too_complex(tables: Tables) -> None:
    await make(tables, "T", {f"c{number}": "int" for number in range(100)}, [{}])
    deep = "c0"
    for number in range(1, 38):
        deep = f"(c{number} - {deep})" if number % 2 else f"({deep} // c{number})"
    wide = " and ".join(f"c{number} is None" for number in range(100))
    for text in (f"{deep} is None", wide, " or ".join(f"c{n % 100} in {list(range(15))}" for n in range(100)), f"not ({wide})"):
        found = await tables.knowledge.filter(SEEN, FilterQuery(text, tables=["T"]))
        assert len(found["T"]) == (0 if text.startswith(("not", "c0 in")) else 1)


async def test_chains_and_nests_of_every_kind_stay_small(tables: Tables) -> None:
    """Each of these once wrote a part several times, or had a level for each operand."""
    await make(tables, "T", {"x": "int", "s": "str"}, [{"x": 1, "s": "1"}])

    def nested(template: str, seed: str, levels: int) -> str:
        for _ in range(levels):
            seed = template.replace("@", seed)
        return seed

    for text, holds in {
        "(" + " or ".join(["x"] * 300) + ") == 1": True,
        "(" + " and ".join(["(x + x + x)"] * 200) + ") == 3": True,
        "(" + " and ".join(["x", "None", *["x"] * 300]) + ") is None": True,
        "(" + " or ".join([*["None"] * 300, "x"]) + ") == 1": True,
        nested("int(str(@))", "x", 18) + " == 1": True,
        nested("(@ in [1, 2.5, x])", "x", 30): True,
        nested("s.endswith(str(@))", "x", 15): False,
        nested("str(@ == s)", "s", 12) + " == 'False'": True,
        nested("(@ < 2.5)", "x", 35): True,
        nested("((@ or x) - 0)", "x", 18) + " == 1": True,
        nested("(@ % 7)", "x", 36) + " == 1": True,
        nested("s[int(@) - 1]", "s", 9) + " == '1'": True,
    }.items():
        found = await tables.knowledge.filter(SEEN, FilterQuery(text, tables=["T"]))
        assert bool(found["T"]) == holds, text[:200]


async def test_an_index_may_be_any_int(tables: Tables) -> None:
    rows = [
        {"s": "abc", "l": [1, 2], "o": {"k": "abc"}, "n": n} for n in (2**31 - 1, -(2**31), 3_000_000_000, 2**63 - 1, 1, -1, None)
    ]
    await make(tables, "T", {"s": "str", "l": "list", "o": "dict", "n": "int"}, rows)
    for at in (2**31 - 2, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 3_000_000_000, -3_000_000_000, 2**63 - 1, -(2**63) + 1):
        for of in ("s", "l", "o['k']"):
            found = await tables.knowledge.filter(SEEN, FilterQuery(f"{of}[{at}] is None", tables=["T"]))
            assert len(found["T"]) == len(rows)
    for of in ("s", "l", "o['k']"):
        found = await tables.knowledge.filter(SEEN, FilterQuery(f"{of}[n] is not None", tables=["T"]))
        assert [row["n"] for row in found["T"]] == [-1, 1]
        found = await tables.knowledge.filter(SEEN, FilterQuery(f"{of}[n * 3 + 3000000000] is None", tables=["T"]))
        assert len(found["T"]) == len(rows)


async def test_a_number_that_the_database_cannot_compute_is_a_problem(
    tables: Tables, sql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sql_url.startswith("sqlite"):
        pytest.skip("SQLite makes a float or nothing of it")
    await make(tables, "T", {"x": "int"}, [{"x": 1}])
    beyond = Fragment("((4294967296)::int > 0)")

    def condition(*_given: Any, **_how: Any) -> Fragment:
        return beyond

    monkeypatch.setattr("memory.stores.tables.knowledge.reads.compile_condition", condition)
    told = await problem(tables.knowledge.filter(SEEN, FilterQuery("x > 0", tables=["T"])), "bad_expression")
    assert "beyond" in told


@pytest.mark.parametrize("error", [sqlite3.IntegrityError("x"), psycopg.errors.NumericValueOutOfRange("x"), ValueError("x")])
def test_what_refuses_a_value_does_not_say_where_it_is(error: Exception) -> None:
    """Such an error is shown to the model that gave the value."""
    urls = (
        URL.create("postgresql+psycopg", "ann", "secret", "db.internal", 5433, "known"),
        URL.create("sqlite", database="/srv/known"),
    )
    for url in urls:
        told = translate(url, sa.StatementError("x", "x", None, error) if isinstance(error, ValueError) else error)
        assert isinstance(told, InvalidInput)
        assert not any(part in told.message for part in ("db.internal", "5433", "known", "secret"))
