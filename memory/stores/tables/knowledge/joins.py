"""Joins of two tables, and chains of them. A step's result is a relation that the next one may join on.

Rows that have None on both sides of an ``==`` match, as everywhere in the language.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Double, Integer, Text, and_, false, literal, null, select, true, union_all
from sqlalchemy.dialects.postgresql import JSONB

from memory.model.expression import Expression
from memory.model.expression_tree import Compare, Either, Name, Node
from memory.model.knowledge import ColumnType, Distances, JoinStep, Table, ToolProblem
from memory.model.knowledge_values import shortened
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.knowledge.compile import Compiler, compiler
from memory.stores.tables.knowledge.join_steps import LEFT, RIGHT, Step, planned, tables_in
from memory.stores.tables.knowledge.relation import Relation, relation
from memory.stores.tables.sources import Sources

__all__ = ["JoinPlan", "tables_in"]

_NOTHING: Final[Mapping[ColumnType, str]] = {ColumnType.STR: "''", ColumnType.FLOAT: "0::float8"}
_Place = tuple[ColumnElement[Any], ColumnElement[Any]]
_KEYED: Final = frozenset(ColumnType) - {ColumnType.LIST, ColumnType.DICT, ColumnType.VECTOR}


@dataclass(frozen=True, slots=True)
class Joined:
    """The last step's rows. ``order``: what to sort by. ``places``: table as it was named → its place and key in each row."""

    columns: Mapping[str, ColumnElement[Any]]
    order: tuple[ColumnElement[Any], ...]
    places: Mapping[str, _Place]


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows of one side, with ``where`` applied: a CTE, and what it gives."""

    rows: Any
    columns: Mapping[str, ColumnElement[Any]]
    sorts: tuple[ColumnElement[Any], ...]
    places: Mapping[str, _Place]
    keys: tuple[ColumnElement[Any], ...]


@dataclass(frozen=True, slots=True)
class _Given:
    """What a side is made of: a relation, or the result of the step before. ``sorts``: ascending where marked so."""

    columns: Mapping[str, ColumnElement[Any]]
    sorts: tuple[ColumnElement[Any], ...]
    places: Mapping[str, _Place]


class JoinPlan:
    """Steps whose expressions are read and checked. ``types``: the result's columns. ``tables``: by name as the steps have it."""

    def __init__(self, steps: Sequence[JoinStep], tables: Mapping[str, Sequence[Table]]) -> None:
        self._steps = planned(steps, tables)
        self.tables = tables
        self.types: Mapping[str, ColumnType] = self._steps[-1].types

    def build(self, sources: Sources, *, safe: bool) -> Joined:
        found: _Given | None = None
        for number, step in enumerate(self._steps):
            found = _Join(sources, step, number, safe=safe).result(self._given(sources, step, found))
        assert found is not None  # noqa: S101 - there is at least one step
        order: list[ColumnElement[Any]] = []
        for sort in found.sorts:
            order += [sort.is_(None), sort.desc()]
        return Joined(found.columns, tuple(order), found.places)

    def _given(self, sources: Sources, step: Step, previous: _Given | None) -> tuple[_Given, _Given]:
        sides: list[_Given] = []
        for name in step.tables:
            if name is None:
                assert previous is not None  # noqa: S101 - the plan was checked
                sides.append(previous)
                continue
            one: Relation = relation(sources, name, self.tables[name])
            # Newest first; of equal keys the first table first.
            place: ColumnElement[Any] = Fragment("(-{0})", [one.rows.c.p], type_=one.rows.c.p.type)
            sides.append(_Given(one.columns, (one.rows.c.k, place), {name: (one.rows.c.p, one.rows.c.k)}))
        return sides[0], sides[1]


def distance(joined: Joined, one: Distances, tables: Sequence[Table], dialect: str) -> ColumnElement[Any]:
    """How far a row is, by its row of that table. The distances are one parameter, however many there are."""
    if one.table not in joined.places:
        raise ToolProblem("unknown_table", f"no step joins the table {shortened(one.table)}")
    place, key = joined.places[one.table]
    number = {table.source: number for number, table in enumerate(tables)}
    known = {f"{number[source]}:{row}": float(far) for (source, row), far in one.rows.items() if source in number}
    otherwise = literal(float(one.otherwise), Double)
    if dialect == "sqlite":
        found = "json_extract({0}, '$.\"' || {1} || ':' || {2} || '\"')"
        return Fragment(f"coalesce({found}, {{3}})", [literal(json.dumps(known), Text), place, key, otherwise], type_=Double())
    found = "({0} ->> ({1}::text || ':' || {2}::text))::float8"
    return Fragment(f"coalesce({found}, {{3}})", [literal(known, JSONB), place, key, otherwise], type_=Double())


class _Join:
    """One step as SQL."""

    def __init__(self, sources: Sources, step: Step, number: int, *, safe: bool) -> None:
        self._sqlite = sources.dialect == "sqlite"
        self._dialect, self._safe = sources.dialect, safe
        self._step, self._number = step, number

    def result(self, given: tuple[_Given, _Given]) -> _Given:
        step = self._step
        equal, rest = _split(step.on)
        left = self._side(LEFT, given[0], step.left_where, [pair[0] for pair in equal])
        right = self._side(RIGHT, given[1], step.right_where, [pair[1] for pair in equal])
        on = self._on(left, right, equal, rest)
        made = self._joined(left, right, on)
        rows = made.cte(f"step_{self._number}")
        places = {name: (rows.c[f"p{i}"], rows.c[f"k{i}"]) for i, name in enumerate([*left.places, *right.places])}
        columns = {name: rows.c[f"c{i}"] for i, (_, _, name) in enumerate(step.select)}
        sorts = tuple(rows.c[f"o{i}"] for i in range(len(left.sorts) + len(right.sorts)))
        return _Given(columns, sorts, places)

    def _compiler(self, columns: Mapping[str, ColumnElement[Any]]) -> Compiler:
        return compiler(columns, self._dialect, safe=self._safe)

    def _side(self, side: str, given: _Given, where: Expression | None, keys: Sequence[Node]) -> _Side:
        wanted = sorted(self._step.names(side))
        compiled = self._compiler({f"{side}.{name}": column for name, column in given.columns.items()})
        columns = [given.columns[name].label(f"c{i}") for i, name in enumerate(wanted)]
        sorts = [sort.label(f"o{i}") for i, sort in enumerate(given.sorts)]
        places = [
            one.label(f"{letter}{i}")
            for i, pair in enumerate(given.places.values())
            for letter, one in zip("pk", pair, strict=True)
        ]
        made_keys = [self._key(compiled, key).label(f"e{i}") for i, key in enumerate(keys)]
        made = select(*columns, *sorts, *places, *made_keys, literal(1, Integer).label("there"))
        if where is not None:
            made = made.where(compiled.condition(where.node))
        # SQLite takes the rows of a table for few, and compares all pairs. What is recursive it takes for many, and makes an index.
        rows = made.cte(f"{side.strip('_')}_{self._number}", recursive=self._sqlite)
        if self._sqlite:
            rows = rows.union_all(select(*rows.c).where(false()))
        return _Side(
            rows,
            {name: rows.c[f"c{i}"] for i, name in enumerate(wanted)},
            tuple(rows.c[f"o{i}"] for i in range(len(sorts))),
            {name: (rows.c[f"p{i}"], rows.c[f"k{i}"]) for i, name in enumerate(given.places)},
            tuple(rows.c[f"e{i}"] for i in range(len(keys))),
        )

    def _key(self, compiled: Compiler, node: Node) -> ColumnElement[Any]:
        value = compiled.value(node)
        if not self._sqlite:
            return value
        # Only of a column with a type does SQLite make an index that it uses.
        type_name = {ColumnType.STR: "TEXT", ColumnType.FLOAT: "REAL"}.get(ColumnType(node.kind or ColumnType.BOOL), "INTEGER")
        return Fragment(f"CAST({{0}} AS {type_name})", [value], type_=value.type)

    def _on(self, left: _Side, right: _Side, equal: Sequence[tuple[Node, Node]], rest: Sequence[Node]) -> ColumnElement[bool]:
        conditions = [
            condition for (node, _), a, b in zip(equal, left.keys, right.keys, strict=True) for condition in self._same(node, a, b)
        ]
        columns = {f"{LEFT}.{name}": column for name, column in left.columns.items()}
        columns |= {f"{RIGHT}.{name}": column for name, column in right.columns.items()}
        compiled = self._compiler(columns)
        conditions += [compiled.condition(node) for node in rest]
        return and_(*conditions) if conditions else true()

    def _same(self, node: Node, a: ColumnElement[Any], b: ColumnElement[Any]) -> list[ColumnElement[bool]]:
        """None is None, in a form for which there are hash joins and indexes."""
        if self._sqlite:
            return [Fragment("({0} IS {1})", [a, b])]
        nothing = _NOTHING.get(ColumnType(node.kind or ColumnType.BOOL), "0::bigint")
        template = f"(coalesce({{0}}, {nothing}) = coalesce({{1}}, {nothing}))"
        return [Fragment(template, [a, b]), Fragment("(({0} IS NULL) = ({1} IS NULL))", [a, b])]

    def _joined(self, left: _Side, right: _Side, on: ColumnElement[bool]) -> Any:
        wanted = self._columns(left, right)
        match self._step.mode:
            case "inner":
                return select(*wanted).select_from(left.rows.join(right.rows, on))
            case "left":
                return select(*wanted).select_from(left.rows.outerjoin(right.rows, on))
            case "right":
                return select(*wanted).select_from(right.rows.outerjoin(left.rows, on))
            case _:
                # In two parts: PostgreSQL has a full join for equalities only, SQLite makes no index for one.
                alone = self._columns(None, right, left)
                unmatched = select(*alone).select_from(right.rows.outerjoin(left.rows, on)).where(left.rows.c.there.is_(None))
                return union_all(select(*wanted).select_from(left.rows.outerjoin(right.rows, on)), unmatched)

    def _columns(self, left: _Side | None, right: _Side, like: _Side | None = None) -> list[ColumnElement[Any]]:
        """The result's columns. ``left`` None: of rows that have no left side, which would be ``like`` this one."""
        shape = left or like
        assert shape is not None  # noqa: S101
        sides = {LEFT: shape, RIGHT: right}

        def value(side: _Side, column: ColumnElement[Any]) -> ColumnElement[Any]:
            if left is None and side is shape:
                return null()
            return column

        made: list[ColumnElement[Any]] = [
            value(sides[side], sides[side].columns[column]).label(f"c{i}") for i, (side, column, _) in enumerate(self._step.select)
        ]
        sorts = [value(side, sort) for side in (shape, right) for sort in side.sorts]
        places = [(value(side, place), value(side, key)) for side in (shape, right) for place, key in side.places.values()]
        made += [sort.label(f"o{i}") for i, sort in enumerate(sorts)]
        return [*made, *_labelled(places)]


def _labelled(places: Iterable[_Place]) -> list[ColumnElement[Any]]:
    return [one.label(f"{letter}{i}") for i, pair in enumerate(places) for letter, one in zip("pk", pair, strict=True)]


def _split(on: Expression) -> tuple[list[tuple[Node, Node]], list[Node]]:
    """The equalities of a value of the left side with one of the right, and what else must hold."""
    parts = on.node.operands if isinstance(on.node, Either) and on.node.op == "and" else (on.node,)
    equal: list[tuple[Node, Node]] = []
    rest: list[Node] = []
    for part in parts:
        pair = _pair(part) if isinstance(part, Compare) and part.op == "==" else None
        if pair is None:
            rest.append(part)
        else:
            equal.append(pair)
    return equal, rest


def _pair(part: Compare) -> tuple[Node, Node] | None:
    if part.left.kind is not part.right.kind or part.left.kind not in _KEYED:
        return None
    sides = {_sides(part.left): part.left, _sides(part.right): part.right}
    one, other = sides.get(frozenset({LEFT})), sides.get(frozenset({RIGHT}))
    return None if one is None or other is None else (one, other)


def _sides(node: Any) -> frozenset[str]:
    if isinstance(node, Name):
        return frozenset({node.name.split(".")[0]})
    found = frozenset[str]()
    for part in ("operand", "left", "right", "index"):
        if (one := getattr(node, part, None)) is not None:
            found |= _sides(one)
    for part in ("operands", "items", "arguments"):
        for one in getattr(node, part, ()):
            found |= _sides(one)
    return found
