"""Figures of the simulated model: one value, groups, and groups of another table, by ``reduce`` and keys."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, cast

from memory.llm.simulated_knowledge_paths import Call, GivesUp, among, edges_of, is_upward, path_between, reach, read, rows_of
from memory.llm.simulated_knowledge_prompt import Result, TableView

_TOGETHER: Final[Mapping[str, Callable[[float, float], float]]] = {
    "sum": lambda one, other: one + other,
    "count": lambda one, other: one + other,
    "min": min,
    "max": max,
}


def figure(
    table: TableView, metric: str, column: str | None, where: str | None, group_by: str | None = None
) -> Generator[list[Call], list[Result], Any]:
    arguments: dict[str, Any] = {"table": table.name, "metric": metric, "keys": column or table.key}
    if where:
        arguments["filter"] = where
    if group_by:
        arguments["group_by"] = group_by
    return (yield from read(("reduce", arguments)))


def grouped(
    table: TableView,
    metric: str,
    column: str | None,
    conditions: Mapping[str, list[str]],
    by: tuple[TableView, str],
    tables: Mapping[str, TableView],
) -> Generator[list[Call], list[Result], dict[str, float]]:
    """A metric of ``table`` by a column of it, or of a table that it refers to (over several references too)."""
    other, name = by
    if other.name == table.name:
        where = yield from reach(table, conditions, tables)
        return numbers((yield from figure(table, metric, column, where, name)))
    path = path_between(table.name, other.name, tables)
    if path is None:
        raise GivesUp(f"I know of no reference between {table.name} and {other.name}")
    if not is_upward(path, table.name):
        bridge = _bridge(table, other, tables)
        if bridge is None or metric != "count":
            raise GivesUp(f"I have no rule for {metric} of {table.name} by {other.name}")
        # Each row between the two is one of the first for one of the second.
        return (yield from grouped(bridge, "count", None, conditions, by, tables))
    where = yield from reach(table, conditions, tables)
    if metric == "mean":
        sums = yield from _carried(table, "sum", column, where, by, tables)
        counts = yield from _carried(table, "count", column, where, by, tables)
        return {key: value / counts[key] for key, value in sums.items() if counts.get(key)}
    if metric not in _TOGETHER:
        raise GivesUp(f"I have no rule for {metric} over several tables")
    return (yield from _carried(table, metric, column, where, by, tables))


def _carried(
    table: TableView,
    metric: str,
    column: str | None,
    where: str | None,
    by: tuple[TableView, str],
    tables: Mapping[str, TableView],
) -> Generator[list[Call], list[Result], dict[str, float]]:
    """Groups by the first reference, then carried from reference to reference to the column that was asked for."""
    other, name = by
    path = path_between(table.name, other.name, tables) or []
    groups = numbers((yield from figure(table, metric, column, where, path[0].column)))
    for number, edge in enumerate(path):
        parent = tables[edge.parent]
        onward = path[number + 1].column if number + 1 < len(path) else name
        if number + 1 == len(path) and onward == parent.key:
            break
        rows = yield from rows_of(parent, among(parent.key, (int(key) for key in groups if key.lstrip("-").isdigit())))
        next_of = {str(row.get(parent.key)): row.get(onward) for row in rows}
        merged: dict[str, float] = {}
        for key, value in groups.items():
            target = str(next_of.get(key))
            merged[target] = _TOGETHER[metric](merged[target], value) if target in merged else value
        groups = merged
    return groups


def _bridge(one: TableView, other: TableView, tables: Mapping[str, TableView]) -> TableView | None:
    """A table that refers to both."""
    of_one = {edge.child for edge in edges_of(tables) if edge.parent == one.name}
    of_other = {edge.child for edge in edges_of(tables) if edge.parent == other.name}
    return next((tables[name] for name in tables if name in of_one & of_other), None)


def numbers(value: Any) -> dict[str, float]:
    """Groups as ``reduce`` gives them, without those of nothing."""
    if not isinstance(value, dict):
        return {}
    given = cast("dict[str, Any]", value)
    return {key: one for key, one in given.items() if isinstance(one, int | float) and key not in ("None", "_cut")}


def extremes(groups: Mapping[str, float], metric: str) -> tuple[list[str], float | None]:
    """The groups with the largest or smallest value; all of them where they are level."""
    if not groups:
        return [], None
    best = max(groups.values()) if metric == "max" else min(groups.values())
    return [key for key, value in groups.items() if value == best], best
