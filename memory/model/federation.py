"""Tables of one name, which are read as one: which of them go together.

They belong to different owners, who know nothing of each other. The first one, the user's own where there is one, says what a
column is; a table in which a column of that name is something else is left out of the whole, and is read by its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.model.knowledge import SOURCE_FIELD, ColumnType, Table

LEFT_OUT: Final = "_left_out"
"""In the result of a read: the tables that are not in it, as :meth:`LeftOut.shown`. No table is called like that."""
_NUMBERS: Final = (ColumnType.INT, ColumnType.FLOAT)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """``why``: may be shown to whoever sees the table."""

    table: Table
    why: str

    @property
    def name(self) -> str:
        """By which the table can be read alone."""
        return f"{self.table.source}.{self.table.name}"

    def shown(self) -> Mapping[str, str]:
        return {"table": self.name, "why": self.why}


@dataclass(frozen=True, slots=True)
class Together:
    """``types``: the columns of these tables, each table's key first; the rows' source last."""

    tables: tuple[Table, ...]
    types: Mapping[str, ColumnType]
    left_out: tuple[LeftOut, ...]


def together(tables: Sequence[Table]) -> Together:
    """Those of one name that can be read as one, in the order in which they are given. Ints and floats are floats."""
    fitting: list[Table] = []
    left_out: list[LeftOut] = []
    types: dict[str, ColumnType] = {}
    for table in tables:
        has = columns_of(table)
        other = next((name for name, type_ in has if not _goes_with(types.get(name, type_), type_)), None)
        if other is not None:
            kinds = f"{dict(has)[other].value} there and {types[other].value} in {fitting[0].source}.{fitting[0].name}"
            left_out.append(LeftOut(table, f"its column {other} is {kinds}; read it alone, as {table.source}.{table.name}"))
            continue
        fitting.append(table)
        for name, type_ in has:
            found = types.setdefault(name, type_)
            types[name] = type_ if found is type_ else ColumnType.FLOAT
    return Together(tuple(fitting), types | {SOURCE_FIELD: ColumnType.STR}, tuple(left_out))


def columns_of(table: Table) -> list[tuple[str, ColumnType]]:
    """What a read shows of a table, its unique key first."""
    kept = [(column.name, column.type) for column in table.columns if column.type is not ColumnType.VECTOR]
    return [(table.unique_key, ColumnType.INT), *kept]


def _goes_with(one: ColumnType, other: ColumnType) -> bool:
    return one is other or (one in _NUMBERS and other in _NUMBERS)
