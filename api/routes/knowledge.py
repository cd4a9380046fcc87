"""Knowledge tables as they are: look, query, change, export, import; documents."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from api.auth.access import Reader, Writer
from api.context import ApiContext, Context
from api.problems import ApiError, NotFound
from api.routing import Cursor, IdempotencyKey, Limit, cursor_of, make_router, media_type, read_cursor, request_id
from api.table_changes import AnyChange
from memory.model.errors import InvalidInput
from memory.model.knowledge import MAX_DESCRIPTION_CHARS, PERSONAL, Column, ColumnType, Row, Table
from memory.model.knowledge_names import name_key
from memory.model.scope import Scope
from starter.table_files import Format, csv_lines, import_file, rows_of_file, without_source

MAX_ROWS: Final = 200
"""Of one answer."""
MAX_OFFSET: Final = 10**9
MEDIA_TYPES: Final[dict[str, Format]] = {"text/csv": "csv", "application/json": "json"}

router = make_router("knowledge")

TableName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=400,
        description="its name; `personal.<name>` or `team:<id>.<name>` for one of several",
        examples=["Suppliers"],
    ),
]
Where = Annotated[
    str,
    Field(
        max_length=20_000,
        description="a Python expression over the columns: comparisons, `in`, `and or not`, arithmetic, `len()`, string methods",
        examples=["days > 20 and city is not None"],
    ),
]
Destination = Annotated[str, Query(max_length=300, description="`personal` or `team:<id>`")]
_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "The user sees no such table"}}
_FILES: Final[dict[str, Any]] = {
    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}, "example": [{"name": "Lumen", "days": 14}]},
    "text/csv": {"schema": {"type": "string"}, "example": "name,days\nLumen,14\n"},
}


class TableView(BaseModel):
    name: str = Field(examples=["Suppliers"])
    source: str = Field(description="`personal`, `team:<id>` or `built-in`", examples=[PERSONAL])
    description: str | None
    unique_key: str = Field(description="the column that counts up from 0 and is never written", examples=["row_id"])
    columns: dict[str, ColumnType] = Field(examples=[{"row_id": "int", "name": "str", "days": "int"}])

    @classmethod
    def of(cls, table: Table) -> TableView:
        columns = {table.unique_key: ColumnType.INT} | {column.name: column.type for column in table.columns}
        return cls(
            name=table.name,
            source=table.source,
            description=table.description,
            unique_key=table.unique_key,
            columns=columns,
        )


class TablePage(BaseModel):
    items: list[TableView]
    next: str | None


class RowPage(BaseModel):
    """`_source` of a row says where it is from. Dates and times are ISO 8601."""

    items: list[dict[str, Any]] = Field(
        examples=[[{"row_id": 1, "name": "Lumen", "city": "Oslo", "days": 14, "_source": "personal"}]]
    )
    next: str | None


class RowsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"where": "days > 20", "limit": 50}]})

    where: Where | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 50
    cursor: str | None = Field(None, max_length=2_000, description="`next` of the answer before, with the same `where`")


class Imported(BaseModel):
    table: str
    added: int = Field(description="rows that this call added; 0 where an earlier one with the same key did")


class Changed(BaseModel):
    result: dict[str, Any] = Field(
        description="what the tool of this name gives",
        examples=[{"outcome": "rows added successfully", "details": {"length": 1}}],
    )


# --------------------------------------------------------------------------------------------------------------------- look


@router.get("/knowledge/tables", summary="List tables")
async def list_tables(acting: Reader, context: Context, limit: Limit = 100, cursor: Cursor = None) -> TablePage:
    """All that the user sees, by name: personal ones, those of their teams, built-in ones, and `Contacts`."""
    offset = _offset(cursor, "tables")
    tables = await context.memory.knowledge.tables(acting.scope)
    page = tables[offset : offset + limit]
    following = cursor_of("tables", offset + limit) if len(tables) > offset + limit else None
    return TablePage(items=[TableView.of(table) for table in page], next=following)


@router.get("/knowledge/tables/{name}/rows", responses=_UNKNOWN, summary="Rows of a table")
async def table_rows(
    acting: Reader,
    context: Context,
    name: TableName,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="rows of one answer")] = 50,
    cursor: Cursor = None,
) -> RowPage:
    """Of all tables of this name that the user sees, newest key first."""
    return await _rows(context, acting.scope, name, None, limit, cursor)


@router.post("/knowledge/tables/{name}/query", responses=_UNKNOWN, summary="Rows that fit")
async def query_table(acting: Reader, context: Context, name: TableName, body: RowsQuery) -> RowPage:
    """The rows for which an expression is true, newest key first."""
    return await _rows(context, acting.scope, name, body.where, body.limit, body.cursor)


async def _rows(context: ApiContext, scope: Scope, name: str, where: str | None, limit: int, cursor: str | None) -> RowPage:
    offset = _offset(cursor, "rows")
    await _tables(context, scope, name)
    found = await context.memory.knowledge.show(scope, name, where=where, offset=offset, limit=limit + 1)
    following = cursor_of("rows", offset + limit) if len(found) > limit else None
    return RowPage(items=list(found[:limit]), next=following)


@router.get(
    "/knowledge/tables/{name}/export",
    response_class=StreamingResponse,
    responses={**_UNKNOWN, 200: {"description": "All rows of the table, by unique key", "content": _FILES}},
    summary="Export a table",
)
async def export_table(
    acting: Reader,
    context: Context,
    name: TableName,
    form: Annotated[Literal["csv", "json"], Query(alias="format", description="`import` takes both back")] = "csv",
) -> Response:
    """One table as a file. In a CSV strings are as they are, other values JSON, and an empty cell is nothing."""
    tables = await _tables(context, acting.scope, name)
    if len(tables) > 1:
        several = ", ".join(f"{one.source}.{one.name}" for one in tables)
        raise InvalidInput(f"several tables have this name: {several}")
    (table,) = tables
    full_name = f"{table.source}.{table.name}"
    rows = context.memory.knowledge.export(acting.scope, full_name)
    # Asked for before the answer begins, so that what is wrong is told as an error.
    first = await anext(rows, None)
    written = _as_csv(table, first, rows) if form == "csv" else _as_json(first, rows)
    media = "text/csv; charset=utf-8; header=present" if form == "csv" else "application/json"
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(f'{table.name}.{form}')}", "Cache-Control": "no-store"}
    return StreamingResponse(written, media_type=media, headers=headers)


async def _as_csv(table: Table, first: Row | None, rows: AsyncGenerator[Row]) -> AsyncGenerator[str]:
    names = [table.unique_key, *(column.name for column in table.columns if _is_shown(column))]
    yield csv_lines([names])
    async for row in _all(first, rows):
        yield csv_lines([[row.get(name) for name in names]])


async def _as_json(first: Row | None, rows: AsyncGenerator[Row]) -> AsyncGenerator[str]:
    before = "["
    async for row in _all(first, rows):
        yield before + "\n" + json.dumps(without_source(row), ensure_ascii=False)
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


async def _all(first: Row | None, rows: AsyncGenerator[Row]) -> AsyncGenerator[Row]:
    if first is not None:
        yield first
        async for row in rows:
            yield row


def _is_shown(column: Column) -> bool:
    """An embedding is in no row."""
    return column.type is not ColumnType.VECTOR


# ------------------------------------------------------------------------------------------------------------------- change


@router.post(
    "/knowledge/tables/{name}/import",
    openapi_extra={"requestBody": {"required": True, "content": _FILES}},
    responses={415: {"description": "Neither CSV nor JSON"}},
    summary="Add the rows of a file",
)
async def import_table(
    acting: Writer,
    context: Context,
    request: Request,
    name: Annotated[str, Path(min_length=1, max_length=64, description="it is made where it is not there", examples=["Suppliers"])],
    destination: Destination = PERSONAL,
    description: Annotated[str | None, Query(max_length=MAX_DESCRIPTION_CHARS, description="of a new table")] = None,
    key: IdempotencyKey = None,
) -> Imported:
    """A CSV with a header, or a JSON list of objects. Columns that are not there are made with the types of their values; unique
    keys are given anew. Each 500 rows are added whole or not at all."""
    form = MEDIA_TYPES.get(media_type(request))
    if form is None:
        raise ApiError(415, "unsupported-media-type", "send text/csv or application/json")
    data = await request.body()
    rows = await asyncio.to_thread(rows_of_file, data, form)
    added = await import_file(
        context.memory.knowledge,
        acting.scope,
        name,
        rows,
        form,
        destination=destination,
        description=description,
        import_id=request_id(key, hashlib.sha256(data).hexdigest()),
    )
    return Imported(table=name, added=added)


@router.post("/knowledge/changes", summary="Change tables without a loop")
async def change_tables(acting: Writer, context: Context, body: AnyChange, key: IdempotencyKey = None) -> Changed:
    """One change of tables, columns or rows, whole or not at all: those that a loop's model makes, called by you. The same
    `Idempotency-Key` again changes nothing and gives the first result."""
    change_id = request_id(key, body)
    result = await context.memory.knowledge.change(acting.scope, body.asked, destination=body.destination, change_id=change_id)
    return Changed(result=dict(result))


# -------------------------------------------------------------------------------------------------------------------- parts


async def _tables(context: ApiContext, scope: Scope, name: str) -> Sequence[Table]:
    """Those of this name that the user sees. Raises NotFound."""
    wanted = name_key(name)
    found = [
        one
        for one in await context.memory.knowledge.tables(scope)
        if wanted in (name_key(one.name), name_key(f"{one.source}.{one.name}"))
    ]
    if not found:
        raise NotFound("the user sees no such table")
    return found


def _offset(cursor: str | None, kind: str) -> int:
    if cursor is None:
        return 0
    (offset,) = read_cursor(cursor, kind, int)
    return min(int(offset), MAX_OFFSET)
