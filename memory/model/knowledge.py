"""Knowledge tables: columns, types, tables, and the changes that can be made to them. Pure types; the rules on values are in
:mod:`memory.model.knowledge_values`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from memory.model.owner import Owner

PERSONAL: Final = "personal"
"""The destination of a user's own tables; a team's is ``team:<id>``."""
BUILT_IN: Final = "built-in"
CONTACTS_TABLE: Final = "Contacts"
"""The user's contacts, linked in: read here, written by the contacts' own operations."""
SOURCE_FIELD: Final = "_source"
"""In every row that is read: ``personal``, ``team:<id>`` or ``built-in``. Names of callers never begin with an underscore."""
DEFAULT_KEY: Final = "row_id"

MAX_TABLES: Final = 1_000
"""Of one owner."""
MAX_COLUMNS: Final = 200
MAX_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 4_000
MAX_TEXT_BYTES: Final = 256 * 1024
"""Of one value, a list or dict as JSON."""
MAX_ROWS_PER_CALL: Final = 1_000
MAX_LIMIT: Final = 1_000
"""Rows that a read returns at most."""
DEFAULT_LIMIT: Final = 100

Value: TypeAlias = Any
"""What a caller gives and gets: None, str, int, float, bool, list, dict; dates and times in ISO 8601 (a datetime in UTC, a
timedelta as a duration, ``PT1H30M``)."""
Row: TypeAlias = dict[str, Value]


class ColumnType(StrEnum):
    STR = "str"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DATETIME = "datetime"
    DATE = "date"
    TIME = "time"
    TIMEDELTA = "timedelta"
    LIST = "list"
    DICT = "dict"
    VECTOR = "vector"
    """The embedding of another column or expression: in the vector index, never in a row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``key``: stays the same when it is renamed, never used again in its table. ``slot``: the database column that
    holds its values; None: they are in the JSON of what has no slot.

    ``auto``: counts up by itself from 0, within the rows that share the column named ``within`` (a column name), or overall.
    ``source``: of a vector column, the expression that is embedded.
    """

    name: str
    type: ColumnType
    key: str
    slot: str | None = None
    auto: bool = False
    within: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalogue has it. ``columns``: in order, without the unique key. ``next_key``: what the next row gets.

    ``source``: where it is seen from: ``personal``, ``team:<id>``, ``built-in``. ``version``: raised by every change of the schema.
    """

    table_id: int
    owner: Owner
    name: str
    source: str
    description: str | None
    unique_key: str
    columns: tuple[Column, ...]
    next_key: int
    version: int
    created_at: datetime
    updated_at: datetime

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


# ------------------------------------------------------------------------------------------------------------------ changes


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``columns``: name → type. ``auto_counting``: column → None, or the column within whose values it counts."""

    name: str
    description: str | None = None
    columns: Mapping[str, str] | None = None
    unique_key_name: str = DEFAULT_KEY
    auto_counting: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class RenameTable:
    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DeleteTables:
    """The tables named, and all whose name begins with ``startswith``."""

    tables: Sequence[str] = ()
    startswith: str | None = None


@dataclass(frozen=True, slots=True)
class CreateEmptyColumn:
    table: str
    column_name: str
    column_type: str


@dataclass(frozen=True, slots=True)
class CreateDerivedColumn:
    table: str
    column_name: str
    equation: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TransformColumn:
    table: str
    column_name: str
    equation: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RenameColumn:
    table: str
    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class CopyColumn:
    """By the rows' unique keys; rows that the destination does not have are added."""

    source_table: str
    column_name: str
    dest_table: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    source_table: str
    column_name: str
    dest_table: str


@dataclass(frozen=True, slots=True)
class DeleteColumn:
    table: str
    column_name: str


@dataclass(frozen=True, slots=True)
class VectorizeColumn:
    """Makes the vector column in the catalogue, or leaves it as it is; the embedding itself is the search's part."""

    table: str
    source_column: str
    target_column_name: str


@dataclass(frozen=True, slots=True)
class AddRows:
    table: str
    rows: Sequence[Mapping[str, Value]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """``updates``: unique key → column → value."""

    table: str
    updates: Mapping[int, Mapping[str, Value]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Newest first, those that ``filter`` takes, ``offset`` of them left out, at most ``limit``. None as filter deletes nothing."""

    filter: str | None = field(default=None, repr=False)
    offset: int = 0
    limit: int = DEFAULT_LIMIT
    tables: Sequence[str] | None = None


TableChange: TypeAlias = (
    CreateTable
    | RenameTable
    | DeleteTables
    | CreateEmptyColumn
    | CreateDerivedColumn
    | TransformColumn
    | RenameColumn
    | CopyColumn
    | MoveColumn
    | DeleteColumn
    | VectorizeColumn
    | AddRows
    | UpdateRows
    | DeleteRows
)

# -------------------------------------------------------------------------------------------------------------------- reads


class Metric(StrEnum):
    SUM = "sum"
    MEAN = "mean"
    VAR = "var"
    STD = "std"
    MIN = "min"
    MAX = "max"
    MEDIAN = "median"
    MODE = "mode"
    COUNT = "count"


JoinMode: TypeAlias = Literal["inner", "left", "right", "outer"]


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """``tables`` None: all that the user sees. ``only``: of these rows alone, by source their keys."""

    filter: str | None = field(default=None, repr=False)
    offset: int = 0
    limit: int = DEFAULT_LIMIT
    tables: Sequence[str] | None = None
    only: Mapping[str, Collection[int]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ReduceQuery:
    """``keys``: one name gives a scalar, a list a dict. ``filter``: one expression, or one per key."""

    table: str
    metric: str
    keys: str | Sequence[str]
    filter: str | Mapping[str, str] | None = field(default=None, repr=False)
    group_by: str | Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class JoinStep:
    """``tables``: two names; from the second step of a chain on, one of them may be ``$prev``, ``__prev__`` or ``_``."""

    tables: Sequence[str]
    join_expr: str = field(repr=False)
    select: Mapping[str, str]
    mode: str = "inner"
    left_where: str | None = field(default=None, repr=False)
    right_where: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """One step, or a chain of them. ``result_where``: over the selected names of the last step."""

    joins: Sequence[JoinStep]
    result_where: str | None = field(default=None, repr=False)
    result_limit: int = DEFAULT_LIMIT
    result_offset: int = 0


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """``references``: expression over the columns → the text that it should be like. ``joins`` None: over ``table``."""

    references: Mapping[str, str] = field(repr=False)
    table: str | None = None
    joins: Sequence[JoinStep] | None = None
    k: int = 10
    filter: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Distances:
    """How far rows of one table of a join are from what is searched for.

    ``table``: as a step names it. ``rows``: source and unique key → distance. ``otherwise``: of all other rows, and where a row of
    the join has none of this table.
    """

    table: str
    rows: Mapping[tuple[str, int], float] = field(repr=False)
    otherwise: float = 2.0


# ---------------------------------------------------------------------------------------------------------------- errors


class ToolProblem(Exception):
    """What the caller of a tool can mend: said to the model as data, ``{"error": …, "message": …}``, never a stack trace.

    ``code``: ``unknown_table``, ``unknown_column``, ``unknown_row``, ``unknown_destination``, ``bad_value``, ``bad_expression``,
    ``bad_name``, ``bad_arguments``, ``name_taken``, ``not_permitted``, ``read_only``, ``too_large``. ``message``: for the model and
    the caller; may name tables, columns and values, so it goes into the store and never into a log or a workflow history.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code = code
        self.message = message[:2_000]
