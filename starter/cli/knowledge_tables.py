"""``afterturn knowledge tables|show|export|import``."""

from __future__ import annotations

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
    from collections.abc import Mapping, Sequence

    from starter.table_files import Format

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
        from starter.table_files import cell, names_of

        if as_json:
            emit_json(rows)
        else:
            names = names_of(rows)
            print_table(names, [[cell(row.get(name)) for name in names] for row in rows], empty="no row")

    run(work(state_of(ctx)))


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
        from starter.table_files import without_source

        async with open_client(state.settings()) as client:
            return [without_source(row) async for row in client.knowledge.export(scope_of(tenant, user), table)]

    rows = run(work(state_of(ctx)))
    text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n" if kind == "json" else _as_csv(rows)
    if output is None:
        write(text)
    else:
        _write_file(output, text)
        write(f"{len(rows)} rows in {output}\n")


def _format(given: str | None, path: Path | None) -> Format:
    from memory.model.errors import InvalidInput

    kind = given or (path.suffix.lower().lstrip(".") if path is not None else "") or "csv"
    if kind == "csv" or kind == "json":
        return kind
    raise InvalidInput(f"the format is csv or json, not {ascii(kind)[:20]}; give --format")


def _write_file(path: Path, text: str) -> None:
    from memory.model.errors import InvalidInput

    try:
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    from starter.table_files import csv_lines, names_of

    names = names_of(rows)
    return csv_lines([names, *([row.get(name) for name in names] for row in rows)])


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
    data = _read(file)

    async def work(state: State) -> int:
        from starter.table_files import import_file as add_file
        from starter.table_files import rows_of_file

        rows = rows_of_file(data, kind)
        async with open_client(state.settings()) as client:
            return await add_file(
                client.knowledge,
                scope_of(tenant, user),
                name,
                rows,
                kind,
                destination=destination,
                description=description,
                built_in=built_in,
            )

    added = run(work(state_of(ctx)))
    if as_json:
        emit_json({"table": name, "added": added})
    else:
        write(f"{added} rows added to {name}\n")


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
