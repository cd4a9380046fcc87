"""Filter, reduce and joins of random tables against plain Python, on both databases."""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from memory.model.knowledge import AddRows, CreateTable, FilterQuery, JoinQuery, JoinStep, ReduceQuery, ToolProblem
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from tests.support import expressions as ex
from tests.support.postgres import PostgresServer
from tests.support.records import ANN, ANNS, NOW, see

_numbers = itertools.count()
_SETTINGS = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


class Desk:
    """One database for all examples; each has tables of its own."""

    def __init__(self, tables: Tables, runner: asyncio.Runner) -> None:
        self.store = tables.knowledge
        self.run = runner.run

    def table(self, rows: Sequence[Mapping[str, Any]]) -> str:
        name = f"T{next(_numbers)}"
        columns = CreateTable(name, columns=ex.COLUMNS)
        self.run(self.store.write(ANNS, columns, effect=f"create {name}", now=NOW))
        if rows:
            added = AddRows(name, [ex.given(row) for row in rows])
            self.run(self.store.write(ANNS, added, effect=f"add {name}", now=NOW))
        return name

    def ask(self, call: Callable[..., Any], query: Any) -> Any:
        try:
            return self.run(call(see(ANN), query))
        except ToolProblem as problem:
            note(problem.message)
            assume("too large" not in problem.message)
            raise


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('property') / 'afterturn.db'}"
        migrate(url)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.url(server.create_database(migrated=True))
    with asyncio.Runner() as runner:
        tables = build_tables(url)
        yield Desk(tables, runner)
        runner.run(tables.aclose())


@_SETTINGS
@given(rows=ex.rows, asked=st.lists(ex.conditions, min_size=4, max_size=8))
def test_filter(desk: Desk, rows: list[dict[str, Any]], asked: list[ex.Meant]) -> None:
    name = desk.table(rows)
    for one in asked:
        note(one.text)
        found = desk.ask(desk.store.filter, FilterQuery(one.text, tables=[name], limit=1_000))[name]
        expected = [number for number, row in enumerate(rows) if one.value(row)]
        assert [row["row_id"] for row in found] == expected[::-1]


# ------------------------------------------------------------------------------------------------------------------ reduce


def figure(metric: str, values: Sequence[Any]) -> Any:
    """Of values without None, by the standard library."""
    if metric == "count":
        return len(values)
    if metric == "sum":
        return sum(values)
    if not values:
        return None
    if metric == "mode":
        counted = Counter(values)
        return min(value for value, count in counted.items() if count == max(counted.values()))
    plain: dict[str, Callable[[Any], Any]] = {
        "min": min,
        "max": max,
        "mean": statistics.fmean,
        "median": statistics.median,
        "var": lambda some: float(statistics.pvariance(some)),
        "std": statistics.pstdev,
    }
    return plain[metric](values)


def close(found: Any, expected: Any, scale: float) -> bool:
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9 * scale)
    return found == expected


_tame = st.one_of(st.none(), st.integers(-50, 50), st.sampled_from([2**62, -(2**62), 10**15]))
_reduced = st.lists(
    st.fixed_dictionaries(
        {
            "x": _tame,
            "f": st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False)),
            "s": st.one_of(st.none(), st.sampled_from(["a", "B", "Ä", "", "中", "b"])),
            "b": st.one_of(st.none(), st.booleans()),
            "y": st.one_of(st.none(), st.integers(0, 2)),
        }
    ),
    max_size=8,
)
_FILTERS: list[Any] = [
    None,
    ("y != 1", lambda row: row["y"] != 1),
    ("x > 0 or b", lambda row: (row["x"] or 0) > 0 or row["b"]),
]
_NUMERIC = ("sum", "mean", "median", "var", "std", "min", "max", "mode", "count")


@_SETTINGS
@given(
    rows=_reduced,
    asked=st.lists(
        st.tuples(
            st.one_of(
                st.tuples(st.sampled_from(_NUMERIC), st.sampled_from(["x", "f"])),
                st.tuples(st.sampled_from(("min", "max", "mode", "count")), st.sampled_from(["s", "b"])),
            ),
            st.sampled_from([[], ["y"], ["s"], ["b", "y"]]),
            st.sampled_from(
                [None, ("y != 1", lambda row: row["y"] != 1), ("x > 0 or b", lambda row: (row["x"] or 0) > 0 or row["b"])]
            ),
        ),
        min_size=3,
        max_size=6,
    ),
)
def test_reduce(desk: Desk, rows: list[dict[str, Any]], asked: list[Any]) -> None:
    name = desk.table([{**dict.fromkeys(ex.COLUMNS), **row} for row in rows])
    for (metric, key), groups, condition in asked:
        note(f"{metric} of {key} by {groups} where {condition and condition[0]}")
        query = ReduceQuery(name, metric, key, condition[0] if condition else None, groups or None)
        found = desk.ask(desk.store.reduce, query)
        taken = [row for row in rows if condition is None or condition[1](row)]
        of_group: dict[tuple[str, ...], list[Any]] = {} if groups else {(): []}
        for row in taken:
            of_group.setdefault(tuple(str(row[group]) for group in groups), []).append(row[key])
        flat: dict[tuple[str, ...], Any] = {(): found} if not groups else {}
        if groups:
            for first, inner in found.items():
                flat |= {(first, second): one for second, one in inner.items()} if len(groups) == 2 else {(first,): inner}
        assert flat.keys() == of_group.keys()
        for group, values in of_group.items():
            some = [value for value in values if value is not None]
            scale = max([abs(value) for value in some if isinstance(value, int | float)], default=1.0)
            expected = figure(metric, some)
            assert close(flat[group], expected, scale * scale if metric == "var" else scale), (group, flat[group], expected)


# ------------------------------------------------------------------------------------------------------------------- joins

_joined_rows = st.lists(
    st.fixed_dictionaries(
        {
            "x": st.one_of(st.none(), st.integers(0, 3)),
            "f": st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.5, 3.0])),
            "s": st.one_of(st.none(), st.sampled_from(["a", "Ä", ""])),
            "b": st.one_of(st.none(), st.booleans()),
        }
    ),
    max_size=5,
)
_Pair = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]
_ON: list[tuple[str, _Pair]] = [
    ("A.x == B.x", lambda a, b: a["x"] == b["x"]),
    ("A.s == B.s and A.x != B.x", lambda a, b: a["s"] == b["s"] and a["x"] != b["x"]),
    ("{B.s} == {A.s}", lambda a, b: a["s"] == b["s"]),
    ("A.x == B.f", lambda a, b: a["x"] == b["f"]),
    ("A.x + 1 == B.x and A.b", lambda a, b: ((a["x"] is not None and a["x"] + 1 == b["x"]) or a["x"] is b["x"] is None) and a["b"]),
    ("A.x < B.x", lambda a, b: a["x"] is not None and b["x"] is not None and a["x"] < b["x"]),
    ("A.x == B.x or A.s == B.s", lambda a, b: a["x"] == b["x"] or a["s"] == b["s"]),
    ("A.row_id == B.x", lambda a, b: a["row_id"] == b["x"]),
]
_WHERE: list[tuple[str | None, Callable[[Mapping[str, Any]], Any]]] = [
    (None, lambda row: True),
    ("x > 0", lambda row: (row["x"] or 0) > 0),
    ("not s", lambda row: not row["s"]),
]


def joined(left: Sequence[Any], right: Sequence[Any], on: _Pair, mode: str) -> list[tuple[Any, Any]]:
    pairs = [(a, b) for a in left for b in right if on(a, b)]
    if mode in ("left", "outer"):
        pairs += [(a, None) for a in left if not any(on(a, b) for b in right)]
    if mode in ("right", "outer"):
        pairs += [(None, b) for b in right if not any(on(a, b) for a in left)]

    def newest(pair: tuple[Any, Any]) -> tuple[Any, ...]:
        return tuple((one is None, -(one or {"row_id": 0})["row_id"]) for one in pair)

    return sorted(pairs, key=newest)


@settings(_SETTINGS, max_examples=12)
@given(
    left=_joined_rows,
    right=_joined_rows,
    asked=st.lists(
        st.tuples(
            st.sampled_from(_ON),
            st.sampled_from(["inner", "left", "right", "outer"]),
            st.sampled_from(_WHERE),
            st.sampled_from(_WHERE),
        ),
        min_size=3,
        max_size=4,
    ),
    again=st.booleans(),
)
def test_joins(desk: Desk, left: list[dict[str, Any]], right: list[dict[str, Any]], asked: list[Any], again: bool) -> None:
    sides = [[{**row, "row_id": number} for number, row in enumerate(rows)] for rows in (left, right)]
    a, b = (desk.table([{**dict.fromkeys(ex.COLUMNS), **row} for row in rows]) for rows in (left, right))
    for (on, meant), mode, left_where, right_where in asked:
        note(f"{mode} {on} {left_where[0]} {right_where[0]}")
        select = {f"{a}.row_id": "left_id", f"{b}.row_id": "right_id", f"{b}.x": "x"}
        text = on.replace("A.", f"{a}.").replace("B.", f"{b}.")
        steps = [JoinStep([a, b], text, select, mode, left_where[0], right_where[0])]
        taken = [[row for row in rows if where[1](row)] for rows, where in zip(sides, (left_where, right_where), strict=True)]
        pairs = joined(taken[0], taken[1], meant, mode)
        expected = [(p and p["row_id"], q and q["row_id"]) for p, q in pairs]
        if again:  # and once more with the first table, by what was selected of the second one
            chosen = {"_.left_id": "left_id", "$prev.right_id": "right_id", f"{a}.row_id": "third"}
            steps.append(JoinStep(["__prev__", a], f"$prev.x == {a}.x", chosen, "left"))
            expected = [
                (*one, other)
                for one, (_, q) in zip(expected, pairs, strict=True)
                for other in [r["row_id"] for r in sides[0][::-1] if r["x"] == (q and q["x"])] or [None]
            ]
        found = desk.ask(desk.store.join, JoinQuery(steps, result_limit=1_000))
        assert [tuple(value for name, value in row.items() if name != "x") for row in found] == expected
        page = desk.ask(desk.store.join, JoinQuery(steps, result_limit=2, result_offset=1))
        assert page == found[1:3]
