"""``reduce``: one figure of a column, of all rows that a filter takes or of each group. None values are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Double, Row, Select, Subquery, case, func, literal, or_, select

from memory.model.expression import parse_expression
from memory.model.expression_tree import CONTAINERS, NUMBERS
from memory.model.knowledge import ColumnType, Metric, ReduceQuery, ToolProblem
from memory.model.knowledge_values import shortened
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.knowledge.compile import compile_condition
from memory.stores.tables.knowledge.relation import Relation, shown_value
from memory.stores.tables.knowledge.running import run
from memory.stores.tables.sources import Sources

MAX_KEYS: Final = 50
MAX_GROUP_BY: Final = 5
MAX_GROUPS: Final = 10_000
_NO_VALUE: Final = ("None", "null")
"""What a group without a value is called: the first that no text of the column is."""
Group: TypeAlias = tuple[Any, ...]

_SPAN: Final = ColumnType.TIMEDELTA
_SUMMED: Final = NUMBERS | {_SPAN}
_TAKES: Final[Mapping[Metric, frozenset[ColumnType]]] = {
    Metric.SUM: _SUMMED,
    Metric.MEAN: _SUMMED,
    Metric.MEDIAN: _SUMMED,
    Metric.VAR: NUMBERS,
    Metric.STD: NUMBERS,
    Metric.MIN: frozenset(ColumnType) - CONTAINERS,
    Metric.MAX: frozenset(ColumnType) - CONTAINERS,
    Metric.MODE: frozenset(ColumnType) - CONTAINERS,
    Metric.COUNT: frozenset(ColumnType),
}


def reduce(sources: Sources, one: Relation, query: ReduceQuery, *, timeout_s: float) -> Any:
    """One key gives its figure, several a dict by key. With ``group_by`` each figure is a dict by the group's value as text, nested
    where there are several. Rows without a value are in the group ``None``; where a text of that column is ``None``, too, in the
    group ``null``, and so on (see :data:`_NO_VALUE`).

    Variance and standard deviation are those of a population. Of nothing, the sum and the count are 0, all else is None. Of several
    values that are as frequent, the mode is the smallest.

    Raises ToolProblem.
    """
    metric = _metric(query.metric)
    keys = _names(query.keys, "keys", one, most=MAX_KEYS)
    groups = [] if query.group_by is None else _names(query.group_by, "group_by", one, most=MAX_GROUP_BY)
    for key in keys:
        if one.types[key] not in _TAKES[metric]:
            kinds = ", ".join(sorted(_TAKES[metric]))
            raise ToolProblem("bad_arguments", f"{metric} takes columns of the types {kinds}; {key} is {one.types[key].value}")
    for name in groups:
        if one.types[name] in CONTAINERS:
            raise ToolProblem("bad_arguments", f"rows cannot be grouped by {name}, a {one.types[name].value}")
    filters = _filters(query, keys)
    figures = {key: _Figure(sources, one, metric, key, groups, filters.get(key), timeout_s) for key in keys}
    if not groups:
        found = {key: figure.alone() for key, figure in figures.items()}
    else:
        by_group = {key: figure.by_group() for key, figure in figures.items()}
        nothing = [_nothing({values[at] for one_ in by_group.values() for values in one_}) for at in range(len(groups))]
        found = {key: _nested(one_, nothing) for key, one_ in by_group.items()}
    return found[keys[0]] if isinstance(query.keys, str) else found


def _nothing(values: Collection[Any]) -> str:
    """What the group without a value is called among groups of these values."""
    return next(name for name in chain(_NO_VALUE, (f"null {number}" for number in count(2))) if name not in values)


def _nested(figures: Mapping[Group, Any], nothing: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for values, figure in figures.items():
        place = found
        labels = [none if value is None else str(value) for value, none in zip(values, nothing, strict=True)]
        for label in labels[:-1]:
            place = place.setdefault(label, {})
        place[labels[-1]] = figure
    return found


def _metric(name: str) -> Metric:
    try:
        return Metric(name)
    except ValueError:
        raise ToolProblem("bad_arguments", f"{shortened(name)} is no metric; there are {', '.join(Metric)}") from None


def _names(given: str | Sequence[str], what: str, one: Relation, *, most: int) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    if not names or len(names) > most:
        raise ToolProblem("bad_arguments", f"{what} is the name of a column, or a list of 1 to {most} of them")
    for name in names:
        if not isinstance(name, str) or name not in one.types:  # pyright: ignore[reportUnnecessaryIsInstance]
            known = ", ".join(one.types)[:1_000]
            raise ToolProblem("unknown_column", f"{what}: {one.name} has no column {shortened(name)}; its columns are: {known}")
    return names


def _filters(query: ReduceQuery, keys: Sequence[str]) -> Mapping[str, str]:
    if query.filter is None:
        return {}
    if isinstance(query.filter, str):
        return dict.fromkeys(keys, query.filter)
    unknown = [key for key in query.filter if key not in keys]
    if unknown:
        raise ToolProblem("bad_arguments", f"filter has a key that is none of keys: {shortened(unknown[0])}")
    return query.filter


class _Figure:
    """One metric of one column. ``x``: its values, ``g0``, ``g1``, …: those of the groups."""

    def __init__(
        self, sources: Sources, one: Relation, metric: Metric, key: str, groups: Sequence[str], text: str | None, timeout_s: float
    ) -> None:
        self._sources, self._one, self._metric, self._groups, self._timeout_s = sources, one, metric, groups, timeout_s
        self._type = one.types[key]
        self._key = key
        self._filter = None if text is None else parse_expression(text, one.types)
        self._sqlite = sources.dialect == "sqlite"

    def alone(self) -> Any:
        build, read = self._plan()
        rows = self._run(build)
        return read(rows[0]) if rows else None

    def by_group(self) -> dict[Group, Any]:
        """By the groups' values as they are shown."""
        build, read = self._plan()
        rows = self._run(build)
        found: dict[Group, Any] = {}
        if self._metric in (Metric.MEDIAN, Metric.MODE):  # groups of None alone have no row there
            found |= {self._group(row): None for row in self._run(lambda safe: self._grouped(self._base(safe)))}
        return found | {self._group(row): read(row) for row in rows}

    def _run(self, build: Callable[[bool], Select[Any]]) -> Sequence[Row[Any]]:
        rows = run(self._sources, lambda safe: build(safe).limit(MAX_GROUPS + 1), timeout_s=self._timeout_s)
        if len(rows) > MAX_GROUPS:
            raise ToolProblem("too_large", f"there are more than {MAX_GROUPS} groups; group by a column with fewer values")
        return rows

    def _group(self, row: Row[Any]) -> Group:
        return tuple(shown_value(row[number], self._one.types[name]) for number, name in enumerate(self._groups))

    # ------------------------------------------------------------------------------------------------------------ statements

    def _plan(self) -> tuple[Callable[[bool], Select[Any]], Callable[[Any], Any]]:
        match self._metric:
            case Metric.COUNT:
                return lambda safe: self._simple(safe, func.count), self._count
            case Metric.SUM | Metric.MEAN:
                return self._sum, self._summed
            case Metric.MIN | Metric.MAX:
                smallest = func.min if self._metric is Metric.MIN else func.max
                return lambda safe: self._simple(safe, lambda x: smallest(self._ordered(x))), self._shown
            case Metric.VAR | Metric.STD:
                return self._variance, self._spread
            case Metric.MEDIAN:
                return self._middle, self._median
            case Metric.MODE:
                return self._most_frequent, self._shown

    def _base(self, safe: bool, *, none: bool = True) -> Subquery:
        one = self._one
        x = one.columns[self._key]
        columns = [one.columns[name].label(f"g{number}") for number, name in enumerate(self._groups)]
        base = select(*columns, x.label("x"))
        if self._filter is not None:
            base = base.where(compile_condition(self._filter, one.columns, self._sources.dialect, safe=safe))
        return (base if none else base.where(x.is_not(None))).subquery()

    def _grouped(self, rows: Subquery, *figures: ColumnElement[Any]) -> Select[Any]:
        groups = self._of_groups(rows)
        wanted = select(*groups, *figures)
        for group, name in zip(groups, self._groups, strict=True):
            order = self._ordered(group) if self._one.types[name] is ColumnType.STR else group
            wanted = wanted.order_by(group.is_(None), order)
        return wanted.group_by(*groups) if groups else wanted

    def _of_groups(self, rows: Subquery) -> list[ColumnElement[Any]]:
        return [rows.c[f"g{number}"] for number in range(len(self._groups))]

    def _ordered(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """Texts by code point."""
        if self._sqlite or value.type.python_type is not str:
            return value
        return Fragment('({0} COLLATE "C")', [value], type_=value.type)

    def _simple(self, safe: bool, figure: Callable[[ColumnElement[Any]], ColumnElement[Any]]) -> Select[Any]:
        rows = self._base(safe)
        return self._grouped(rows, figure(rows.c.x).label("figure"))

    def _sum(self, safe: bool) -> Select[Any]:
        rows = self._base(safe)
        x: ColumnElement[Any] = rows.c.x
        low: ColumnElement[Any] = literal(0, BigInteger)
        if self._type is ColumnType.FLOAT:
            x = self._exact(x) if safe else x
        elif safe and self._sqlite:  # in halves, which do not overflow
            low = func.sum(Fragment("({0} & 4294967295)", [x], type_=BigInteger()))
            x = Fragment("({0} >> 32)", [x], type_=BigInteger())
        return self._grouped(rows, func.sum(x).label("figure"), func.count(rows.c.x).label("n"), low.label("low"))

    def _exact(self, x: ColumnElement[Any]) -> ColumnElement[Any]:
        """A float as a number that does not overflow."""
        return x if self._sqlite else Fragment("({0}::text::numeric)", [x])

    def _variance(self, safe: bool) -> Select[Any]:
        """In two passes: the squares of large numbers would swallow small differences."""
        base = self._base(safe, none=True)
        real = base.c.x if self._type is ColumnType.FLOAT else Fragment(self._real, [base.c.x], type_=Double())
        number = self._exact(real) if safe else real
        groups = self._of_groups(base)
        mean = func.avg(number).over(partition_by=groups or None)
        rows = select(*groups, number.label("x"), mean.label("m")).subquery()
        square = Fragment("(({0} - {1}) * ({0} - {1}))", [rows.c.x, rows.c.m], type_=Double())
        return self._grouped(rows, func.avg(square).label("figure"))

    @property
    def _real(self) -> str:
        return "CAST({0} AS REAL)" if self._sqlite else "({0}::float8)"

    def _middle(self, safe: bool) -> Select[Any]:
        base = self._base(safe, none=False)
        groups = self._of_groups(base)
        place = func.row_number().over(partition_by=groups or None, order_by=base.c.x)
        count = func.count(base.c.x).over(partition_by=groups or None)
        rows = select(*groups, base.c.x, place.label("place"), count.label("n")).subquery()
        is_middle = or_(
            Fragment("({0} = ({1} + 1) / 2)", [rows.c.place, rows.c.n]), Fragment("({0} = {1} / 2 + 1)", [rows.c.place, rows.c.n])
        )
        low, high = func.min(rows.c.x).label("figure"), func.max(rows.c.x).label("high")
        return self._grouped(rows, low, high, func.max(rows.c.n).label("n")).where(is_middle)

    def _most_frequent(self, safe: bool) -> Select[Any]:
        base = self._base(safe, none=False)
        groups = self._of_groups(base)
        counted = select(*groups, base.c.x, func.count(base.c.x).label("n")).group_by(*groups, base.c.x).subquery()
        of = self._of_groups(counted)
        place = func.row_number().over(partition_by=of or None, order_by=(counted.c.n.desc(), self._ordered(counted.c.x)))
        rows = select(*of, counted.c.x, place.label("place")).subquery()
        first = func.min(case((rows.c.place == 1, rows.c.x)), type_=rows.c.x.type)
        return self._grouped(rows, first.label("figure"))

    # ----------------------------------------------------------------------------------------------------------------- rows

    @staticmethod
    def _count(row: Any) -> int:
        return int(row.figure)

    def _shown(self, row: Any) -> Any:
        return None if row.figure is None else shown_value(row.figure, self._type)

    def _summed(self, row: Any) -> Any:
        if not row.n:
            total: Any = 0
        elif row.figure is None:
            return None
        elif self._type is ColumnType.FLOAT:
            total = _finite(row.figure)
        else:
            total = int(row.figure) if not row.low else (int(row.figure) << 32) + int(row.low)
        if self._metric is Metric.SUM or total is None:
            return self._of_type(total)
        return self._of_type(total / row.n) if row.n else None

    def _of_type(self, total: Any) -> Any:
        if self._type is not _SPAN or total is None:
            return total
        return shown_value(round(total), _SPAN)

    def _spread(self, row: Any) -> float | None:
        variance = None if row.figure is None else _finite(row.figure)
        return math.sqrt(variance) if variance is not None and self._metric is Metric.STD else variance

    def _median(self, row: Any) -> Any:
        if row.figure is None:
            return None
        middle = row.figure if row.n % 2 else (row.figure + row.high) / 2
        return self._of_type(_finite(middle) if isinstance(middle, float) else middle)


def _finite(number: Any) -> float | None:
    try:
        found = float(number)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
