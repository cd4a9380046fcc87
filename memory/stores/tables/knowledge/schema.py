"""Tables: made, renamed, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory.model.knowledge import MAX_TABLES, ColumnType, CreateTable, DeleteTables, RenameTable, Table, ToolProblem
from memory.model.knowledge_names import checked_column_name, checked_description, checked_table_name, name_key, normal_name
from memory.model.knowledge_values import checked_type, shortened
from memory.stores.tables.knowledge.catalogue import (
    CONTACTS_ID,
    Entry,
    add_entry,
    count_of,
    entries_of,
    remove_entry,
    source_of,
    taken,
    too_many_tables,
)
from memory.stores.tables.knowledge.counting import checked_counting
from memory.stores.tables.knowledge.stored import JSON_TYPES
from memory.stores.tables.knowledge.work import ROWS, Work, done, with_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS
from memory.stores.tables.rows_records import RECORD_OWNERS
from memory.stores.tables.scoping import batches


def create_table(work: Work, change: CreateTable) -> Mapping[str, Any]:
    name = _free_name(work, change.name)
    if count_of(work.records) >= MAX_TABLES:
        raise too_many_tables()
    types = _checked_columns(change.columns)
    unique_key = checked_column_name(change.unique_key_name)
    counting = checked_counting(change.auto_counting or {}, unique_key, types)
    last = work.records.lock().last_table_id
    work.records.update(RECORD_OWNERS, values={"last_table_id": last + 1})
    table = Table(
        table_id=max(last, CONTACTS_ID) + 1,
        owner=work.owner,
        name=name,
        source=source_of(work.owner),
        description=checked_description(change.description),
        unique_key=unique_key,
        columns=(),
        next_key=0,
        version=1,
        created_at=work.now,
        updated_at=work.now,
    )
    entry = Entry(table, 0, {})
    for column, type_ in {**types, **{one: ColumnType.INT for one in counting if one not in types}}.items():
        within = counting.get(column)
        if column in counting and type_ is not ColumnType.INT:
            raise ToolProblem("bad_arguments", f"{column} counts, so its type is int, not {type_.value}")
        if within is not None and types.get(within) in JSON_TYPES:
            raise ToolProblem("bad_arguments", f"{column} cannot count within {within}, which is a {types[within].value}")
        entry, _ = with_column(entry, column, type_, auto=column in counting, within=within)
    add_entry(work.records, entry)
    return done("table created successfully", table=name)


def rename_table(work: Work, change: RenameTable) -> Mapping[str, Any]:
    entry = work.entry(change.old_name)
    old = entry.table.name
    checked = checked_table_name(change.new_name)
    name = checked if name_key(checked) == name_key(old) else _free_name(work, checked)
    work.save(replace(entry, table=replace(entry.table, name=name)))
    return done("table renamed successfully", old_name=old, new_name=name)


def delete_tables(work: Work, change: DeleteTables) -> Mapping[str, Any]:
    """Their rows go with them. What the index holds of them is taken out when it is next looked through."""
    if change.startswith is not None and (not isinstance(change.startswith, str) or not change.startswith):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem("bad_arguments", "startswith is the beginning of names, at least one character; or leave it out")
    gone = {entry.table.table_id: entry.table for entry in map(work.entry, _names(change.tables))}
    if change.startswith is not None:
        beginning = normal_name(change.startswith)
        gone |= {one.table.table_id: one.table for one in entries_of(work.records) if one.table.name.startswith(beginning)}
    for table_id in gone:
        remove_entry(work.records, table_id)
    for some in batches(sorted(gone)):
        work.records.delete(KNOWLEDGE_ROWS, ROWS.table_id.in_(some))
    outcome = "tables deleted successfully" if gone else "no tables deleted"
    return done(outcome, tables=sorted(table.name for table in gone.values()))


def _names(tables: Sequence[str]) -> Sequence[str]:
    if isinstance(tables, str):
        return (tables,)
    if len(tables) > MAX_TABLES:
        raise ToolProblem("too_large", f"{len(tables)} tables in one call; there are never more than {MAX_TABLES}")
    return tables


def _free_name(work: Work, name: str) -> str:
    checked = checked_table_name(name)
    there = taken(work.records, checked)
    if there is not None:
        raise ToolProblem(
            "name_taken", f"there is a table {there} already in {source_of(work.owner)}; names differ by more than case"
        )
    return checked


def _checked_columns(columns: Mapping[str, str] | None) -> dict[str, ColumnType]:
    types: dict[str, ColumnType] = {}
    for name, type_ in (columns or {}).items():
        checked = checked_column_name(name)
        if checked in types:
            raise ToolProblem("name_taken", f"the column {shortened(name)} is named twice")
        types[checked] = checked_type(type_)
    return types
