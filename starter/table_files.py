"""Files of tables, CSV and JSON, as ``knowledge export`` writes them and ``knowledge import`` reads them.

A CSV has strings as they are, other values as JSON, and an empty cell for None. Reading keeps a cell's value as it is: it becomes
a number, a truth value or a date only where that can be read back.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from memory.files.readers import Unreadable, read
from memory.model.errors import InvalidInput
from memory.model.knowledge import BUILT_IN, PERSONAL, SOURCE_FIELD, ColumnType, CreateTable, Row
from memory.model.knowledge_names import name_key
from starter.ingest_columns import SOURCES, Unfit, column_names, column_type, fitted, typed_column
from starter.knowledge import Knowledge
from starter.who import Who

Format = Literal["csv", "json"]

_KEEP: Final = ("row_id", *SOURCES)
_ROWS: Final = TypeAdapter(list[dict[str, Any]])


def cell(value: Any) -> str:
    """A value as a cell of a CSV."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()


def names_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def without_source(row: Row) -> Row:
    """What a file holds of a row: where it was seen from is not a part of it."""
    return {name: value for name, value in row.items() if name != SOURCE_FIELD}


def rows_of_file(data: bytes, form: Format) -> list[dict[str, Any]]:
    """Rows of a file that was exported, or of any with a header or names: names become snake_case. Raises InvalidInput."""
    if form == "csv":
        notes: list[str] = []
        try:
            parts = list(read("csv", data, notes))
        except (Unreadable, csv.Error) as error:
            raise InvalidInput(f"the file is no CSV that can be read: {error}") from None
        if not parts:
            raise InvalidInput("the file has no rows; the first line of a CSV names the columns")
        if cut := next((note for note in notes if " cut to " in note), None):
            raise InvalidInput(f"{cut}: split the file")
        names = column_names(parts[0].header, keep=_KEEP)
        return [dict(zip(names, row, strict=True)) for row in parts[0].rows]
    try:
        rows = _ROWS.validate_json(data)
    except ValidationError:
        raise InvalidInput("the file is not a JSON list of objects, one per row") from None
    given = names_of(rows)
    named = dict(zip(given, column_names(given, keep=_KEEP), strict=True))
    return [{named[key]: value for key, value in row.items()} for row in rows]


async def import_file(
    knowledge: Knowledge,
    who: Who,
    table: str,
    rows: Sequence[Mapping[str, Any]],
    form: Format,
    *,
    destination: str = PERSONAL,
    description: str | None = None,
    built_in: bool = False,
    import_id: str | None = None,
) -> int:
    """Add the rows of :func:`rows_of_file` to a table, which is made where it is not there. Unique keys are given anew.

    Arguments, result and errors as of :meth:`Knowledge.import_rows`; ``built_in``: a table of the deployment, ``who`` only looks.
    """
    same = [one for one in await knowledge.tables(who) if name_key(one.name) == name_key(table)]
    keys = {one.unique_key for one in same} | {"row_id"}
    kept: list[dict[str, Any]] = [{column: value for column, value in row.items() if column not in keys} for row in rows]
    place = BUILT_IN if built_in else destination
    types = {column.name: column.type for one in same if one.source == place for column in one.columns}
    columns: dict[str, Sequence[Any]] = {}
    if form == "csv" and kept:
        columns = {column: _typed([row[column] for row in kept], types.get(column)) for column in kept[0]}
        kept = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    kinds = {column: column_type(values) for column, values in columns.items()}
    create = CreateTable(table, description, kinds or None)
    owner = None if built_in else who
    return await knowledge.import_rows(owner, table, kept, destination=destination, create=create, import_id=import_id)


def _typed(values: Sequence[Any], type_: ColumnType | None) -> Sequence[Any]:
    """Cells of a CSV as the column takes them that is there. Where one does not fit, adding it says which."""
    if type_ is not None:
        try:
            return [fitted(value, type_) for value in values]
        except Unfit:
            pass
    return typed_column(values)
