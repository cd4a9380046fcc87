"""Columns that count up by themselves.

One that counts overall goes on where it stopped, also when its last row is gone. One that counts within a parent goes on after the
highest number that the parent's rows have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from memory.model.knowledge import Column, Table, ToolProblem
from memory.model.knowledge_names import checked_column_name, normal_name
from memory.model.knowledge_values import MAX_INT, shortened
from memory.stores.tables.knowledge.catalogue import Entry
from memory.stores.tables.knowledge.stored import cell
from memory.stores.tables.knowledge.work import ROWS, Work
from memory.stores.tables.scoping import batches


def checked_counting(given: Mapping[str, str | None], unique_key: str, columns: Iterable[str]) -> dict[str, str | None]:
    """``auto_counting`` of a table that is made, parents first. The unique key counts anyway, and may be named in it.

    Raises ToolProblem (``bad_arguments``) for a parent that is no column, or columns that count within each other.
    """
    wanted: dict[str, str | None] = {}
    for name, within in given.items():
        column = checked_column_name(name)
        if column == unique_key and within is None:
            continue
        if column == unique_key:
            raise ToolProblem(
                "bad_arguments", f"the unique key {unique_key} counts over the whole table, not within another column"
            )
        wanted[column] = None if within is None else normal_name(within)
    known = {unique_key, *columns, *wanted}
    ordered: dict[str, str | None] = {}
    while len(ordered) < len(wanted):
        ready = {n: w for n, w in wanted.items() if n not in ordered and (w in ordered or w not in wanted)}
        if not ready:
            raise ToolProblem(
                "bad_arguments", f"auto_counting: {', '.join(sorted(set(wanted) - set(ordered)))} count within each other"
            )
        for name, within in ready.items():
            if within is not None and within not in known:
                raise ToolProblem("bad_arguments", f"auto_counting: {name} counts within {shortened(within)}, which is no column")
        ordered |= ready
    return ordered


def count_up(work: Work, entry: Entry, values: dict[str, Sequence[Any]], count: int) -> Entry:
    """Fill in the numbers of rows that are about to be inserted, where the caller gave none.

    ``values``: column key → stored values by row, of ``count`` rows; columns that count are put into it.
    """
    counters = dict(entry.next_values)
    for column in _in_order(entry.table):
        numbers: list[int | None] = list(values.get(column.key) or [None] * count)
        if column.within is None:
            counters[column.key] = _fill(column, numbers, range(count), counters.get(column.key, 0))
        elif column.within == entry.table.unique_key:
            numbers = [number or 0 for number in numbers]
        else:
            parent = entry.table.column(column.within)
            if parent is not None:
                groups = _groups(values.get(parent.key) or [None] * count)
                following = _highest(work, entry.table, column, parent, groups)
                for value, rows in groups.items():
                    _fill(column, numbers, rows, following.get(value, 0))
        values[column.key] = numbers
    return replace(entry, next_values=counters)


def _in_order(table: Table) -> list[Column]:
    """Parents first."""
    waiting = [column for column in table.columns if column.auto]
    ordered: list[Column] = []
    while waiting:
        names = {column.name for column in waiting}
        ready = [column for column in waiting if column.within not in names] or waiting
        ordered += ready
        waiting = [column for column in waiting if column not in ready]
    return ordered


def _fill(column: Column, numbers: list[int | None], rows: Sequence[int], following: int) -> int:
    """Returns the number after the last one."""
    following = max([following, *(number + 1 for row in rows if (number := numbers[row]) is not None)])
    for row in rows:
        if numbers[row] is None:
            if following > MAX_INT:
                raise ToolProblem("too_large", f"column {column.name}: there is no number left to count up to")
            numbers[row] = following
            following += 1
    return following


def _groups(parents: Sequence[Any]) -> dict[Any, list[int]]:
    """Value of the parent → its rows."""
    groups: dict[Any, list[int]] = {}
    for row, value in enumerate(parents):
        groups.setdefault(value, []).append(row)
    return groups


def _highest(work: Work, table: Table, column: Column, parent: Column, groups: Mapping[Any, Any]) -> dict[Any, int]:
    """Per value of the parent that the new rows have: the number after the highest one there is."""
    value, number = cell(parent, work.dialect), ROWS[str(column.slot)]
    wanted = (
        select(value.label("parent"), func.max(number).label("highest"))
        .where(ROWS.table_id == table.table_id, number.is_not(None))
        .group_by(value)
    )
    found: dict[Any, int] = {}
    for some in batches([one for one in groups if one is not None]):
        found |= {row.parent: row.highest + 1 for row in work.records.rows(wanted.where(value.in_(some)))}
    if None in groups:
        found |= {row.parent: row.highest + 1 for row in work.records.rows(wanted.where(value.is_(None)))}
    return found
