"""``afterturn knowledge tables|show|export|import``."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, print_table, write
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    open_client,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memory.model.knowledge import ColumnType

FORMATS = ("csv", "json")
MAX_IMPORT_BYTES = 256 * 1024 * 1024


def register(knowledge: typer.Typer) -> None:
    knowledge.command("tables")(tables)
    knowledge.command("show")(show)
    knowledge.command("export")(export)
    knowledge.command("import")(import_file)


def tables(
    ctx: typer.Context, tenant: TenantOption = DEFAULT_TENANT, user: UserOption = DEFAULT_USER, as_json: JsonOption = False
) -> None:
    """List the tables that the user sees: personal, of teams, built-in, contacts."""

    async def work(state: State) -> None:
        async with open_client(state.settings()) as client:
            found = await client.knowledge.tables(scope_of(tenant, user))
        if as_json:
            emit_json(
                [
                    {
                        "name": table.name,
                        "source": table.source,
                        "description": table.description,
                        "unique_key": table.unique_key,
                        "columns": {table.unique_key: "int"} | {column.name: column.type for column in table.columns},
                    }
                    for table in found
                ]
            )
            return
        print_table(
            ("table", "source", "columns", "description"),
            [
                (
                    table.name,
                    table.source,
                    ", ".join([table.unique_key, *(f"{column.name}: {column.type.value}" for column in table.columns)]),
                    table.description or "",
                )
                for table in found
            ],
            empty="no table",
        )

    run(work(state_of(ctx)))


def show(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Its name; personal.NAME or team:ID.NAME for one of several.")],
    where: Annotated[
        str | None, typer.Option("--where", help="A Python expression over the columns: \"price > 3 and 'a' in x\".")
    ] = None,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Rows left out.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")] = 50,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a table."""

    async def work(state: State) -> None:
        async with open_client(state.settings()) as client:
            rows = await client.knowledge.show(scope_of(tenant, user), table, where=where, offset=offset, limit=limit)
        if as_json:
            emit_json(rows)
        else:
            names = _names(rows)
            print_table(names, [[_cell(row.get(name)) for name in names] for row in rows], empty="no row")

    run(work(state_of(ctx)))


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def export(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(help="Its name; personal.NAME or team:ID.NAME for one of several.")],
    form: Annotated[str | None, typer.Option("--format", help="csv or json; default: as the file's name says, else csv.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; default: standard output.")] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
) -> None:
    """Write all rows of a table as CSV or as a JSON list; `import` takes both back."""
    kind = _format(form, output)

    async def work(state: State) -> list[dict[str, Any]]:
        from memory.model.knowledge import SOURCE_FIELD

        async with open_client(state.settings()) as client:
            rows = client.knowledge.export(scope_of(tenant, user), table)
            return [{name: value for name, value in row.items() if name != SOURCE_FIELD} async for row in rows]

    rows = run(work(state_of(ctx)))
    text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n" if kind == "json" else _as_csv(rows)
    if output is None:
        write(text)
    else:
        _write_file(output, text)
        write(f"{len(rows)} rows in {output}\n")


def _format(given: str | None, path: Path | None) -> str:
    from memory.model.errors import InvalidInput

    kind = given or (path.suffix.lower().lstrip(".") if path is not None else "") or "csv"
    if kind not in FORMATS:
        raise InvalidInput(f"the format is csv or json, not {ascii(kind)[:20]}; give --format")
    return kind


def _write_file(path: Path, text: str) -> None:
    from memory.model.errors import InvalidInput

    try:
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Strings as they are, other values as JSON; None is an empty cell."""
    names = _names(rows)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([[_cell(row.get(name)) for name in names] for row in rows])
    return out.getvalue()


def import_file(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(help="CSV with a header, or a JSON list of objects; - reads standard input (--format).")],
    table: Annotated[
        str | None, typer.Option("--table", help="Its name; default: the file's. It is made where it is not there.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="Of a new table.")] = None,
    destination: Annotated[str, typer.Option("--destination", "-d", help="personal, or team:<id>.")] = "personal",
    built_in: Annotated[
        bool, typer.Option("--built-in", help="A table of the deployment, which all users read and none can write.")
    ] = False,
    form: Annotated[str | None, typer.Option("--format", help="csv or json; default: as the file's name says.")] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Add the rows of a file to a table. Unique keys are given anew; `knowledge ingest` adds nothing twice."""
    kind = _format(form, None if file == "-" else Path(file))
    name = table or _name_of(file)
    rows = _rows_of(_read(file), kind)

    async def work(state: State) -> int:
        from memory.model.knowledge import BUILT_IN, CreateTable
        from starter.ingest_columns import column_type

        async with open_client(state.settings()) as client:
            who = None if built_in else scope_of(tenant, user)
            known = await client.knowledge.tables(scope_of(tenant, user))
            same = [one for one in known if one.name.casefold() == name.casefold()]
            keys = {one.unique_key for one in same} | {"row_id"}
            kept = [{column: value for column, value in row.items() if column not in keys} for row in rows]
            place = BUILT_IN if built_in else destination
            types = {column.name: column.type for one in same if one.source == place for column in one.columns}
            columns: dict[str, Sequence[Any]] = {}
            if kind == "csv":
                columns = {column: _typed([row[column] for row in kept], types.get(column)) for column in kept[0]} if kept else {}
                kept = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            kinds = {column: column_type(values) for column, values in columns.items()}
            create = CreateTable(name, description, kinds or None)
            return await client.knowledge.import_rows(who, name, kept, destination=destination, create=create)

    added = run(work(state_of(ctx)))
    if as_json:
        emit_json({"table": name, "added": added})
    else:
        write(f"{added} rows added to {name}\n")


def _typed(values: Sequence[Any], type_: ColumnType | None) -> Sequence[Any]:
    """Cells of a CSV as the column takes them that is there. Where one does not fit, adding it says which."""
    from starter.ingest_columns import Unfit, fitted, typed_column

    if type_ is not None:
        try:
            return [fitted(value, type_) for value in values]
        except Unfit:
            pass
    return typed_column(values)


def _name_of(file: str) -> str:
    from memory.model.errors import InvalidInput
    from memory.model.knowledge_names import table_name_of

    if file == "-":
        raise InvalidInput("standard input has no name: give --table")
    return table_name_of(Path(file).stem)


def _read(file: str) -> bytes:
    from memory.model.errors import InvalidInput

    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_IMPORT_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_IMPORT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > MAX_IMPORT_BYTES:
        raise InvalidInput(f"the file has more than {MAX_IMPORT_BYTES} bytes; split it")
    return data


def _rows_of(data: bytes, kind: str) -> list[dict[str, Any]]:
    """Rows of a file that `export` wrote, or of any with a header or names: names become snake_case."""
    from pydantic import TypeAdapter, ValidationError

    from memory.files.readers import Unreadable, read
    from memory.model.errors import InvalidInput
    from starter.ingest_columns import SOURCES, column_names

    keep = ("row_id", *SOURCES)
    if kind == "csv":
        notes: list[str] = []
        try:
            parts = list(read("csv", data, notes))
        except (Unreadable, csv.Error) as error:
            raise InvalidInput(f"the file is no CSV that can be read: {error}") from None
        if not parts:
            raise InvalidInput("the file has no rows; the first line of a CSV names the columns")
        if cut := next((note for note in notes if " cut to " in note), None):
            raise InvalidInput(f"{cut}: split the file")
        names = column_names(parts[0].header, keep=keep)
        return [dict(zip(names, row, strict=True)) for row in parts[0].rows]
    try:
        rows = TypeAdapter(list[dict[str, Any]]).validate_json(data)
    except ValidationError:
        raise InvalidInput("the file is not a JSON list of objects, one per row") from None
    given = list(dict.fromkeys(key for row in rows for key in row))
    named = dict(zip(given, column_names(given, keep=keep), strict=True))
    return [{named[key]: value for key, value in row.items()} for row in rows]
