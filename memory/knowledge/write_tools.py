"""Tools that write: the schema suite and rows. Each call is one change of the store, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from memory.knowledge.arguments import Changes, Names, Objects
from memory.knowledge.search import KnowledgeSearch
from memory.model.knowledge import (
    DEFAULT_KEY,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_ROWS_PER_CALL,
    AddRows,
    CopyColumn,
    CreateDerivedColumn,
    CreateEmptyColumn,
    CreateTable,
    DeleteColumn,
    DeleteRows,
    DeleteTables,
    MoveColumn,
    RenameColumn,
    RenameTable,
    TableChange,
    ToolProblem,
    TransformColumn,
    UpdateRows,
    VectorizeColumn,
)
from memory.model.owner import Owner, View
from memory.ports.knowledge import KnowledgeTables

Destination = Annotated[
    str | None, Field(description="`personal` or `team:<id>`: where it is written. Left out: the destination of the request.")
]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
MAX_IDS: Final = 10_000


class Destinations:
    """Where the user may write. ``default``: of the request. ``readable``: those of the user's where only others may write."""

    def __init__(self, writable: Mapping[str, Owner], readable: frozenset[str], default: str) -> None:
        self._writable = writable
        self._readable = readable
        self._default = default

    def owner(self, destination: str | None) -> Owner:
        """Raises ToolProblem: ``unknown_destination`` (also for a team of others: nobody is told that it exists),
        ``not_permitted``."""
        wanted = destination or self._default
        owner = self._writable.get(wanted)
        if owner is not None:
            return owner
        known = ", ".join(sorted(self._writable)) or "none"
        if wanted in self._readable:
            raise ToolProblem("not_permitted", f"the user may read {wanted} but not write there; destinations to write to: {known}")
        raise ToolProblem("unknown_destination", f"there is no destination {wanted[:80]!r} for this user; there are: {known}")


class WriteTools:
    """For one call: ``effect`` is its idempotency key."""

    def __init__(
        self,
        tables: KnowledgeTables,
        search: KnowledgeSearch,
        view: View,
        destinations: Destinations,
        *,
        effect: str,
        now: datetime,
    ) -> None:
        self._tables = tables
        self._search = search
        self._view = view
        self._destinations = destinations
        self._effect = effect
        self._now = now

    async def create_table(
        self,
        *,
        name: str,
        description: str | None = None,
        columns: dict[str, str] | None = None,
        unique_key_name: str = DEFAULT_KEY,
        auto_counting: dict[str, str | None] | None = None,
        destination: Destination = None,
    ) -> Any:
        """Create a table. Its unique integer key counts up from 0 by itself and is never written.

        Args:
            name: Letters, digits and _, for instance ``Companies``.
            description: What its rows are, in a sentence.
            columns: Column → type: str, int, float, bool, datetime, date, time, timedelta, list or dict. Names in snake_case;
                ``id`` is reserved.
            unique_key_name: Name of the unique key, for instance ``company_id``.
            auto_counting: Further columns that count by themselves → null, or the column within whose values they count.
        """
        change = CreateTable(name, description, columns, unique_key_name, auto_counting)
        return await self._write(change, destination)

    async def rename_table(self, *, old_name: str, new_name: str, destination: Destination = None) -> Any:
        """Give a table another name. A name that is taken is an error.

        Args:
            old_name: Its name now.
            new_name: Its name from now on.
        """
        return await self._write(RenameTable(old_name, new_name), destination)

    async def delete_tables(self, *, tables: Names, startswith: str | None = None, destination: Destination = None) -> Any:
        """Delete tables with all their rows, for good. Only where the caller has asked for it in so many words.

        Args:
            tables: Names; empty where ``startswith`` says all.
            startswith: All tables whose name begins with this as well.
        """
        return await self._write(DeleteTables(tuple(tables), startswith), destination)

    async def create_empty_column(self, *, table: str, column_name: str, column_type: str, destination: Destination = None) -> Any:
        """Add a column without values.

        Args:
            table: The table.
            column_name: In snake_case; ``id`` is reserved.
            column_type: str, int, float, bool, datetime, date, time, timedelta, list or dict.
        """
        return await self._write(CreateEmptyColumn(table, column_name, column_type), destination)

    async def create_derived_column(self, *, table: str, column_name: str, equation: str, destination: Destination = None) -> Any:
        """Add a column that is computed once from the others of each row.

        Args:
            table: The table.
            column_name: The new column, in snake_case.
            equation: A Python expression, columns as ``x`` or ``{x}``, for instance ``({x}**2 + {y}**2)**0.5``.
        """
        return await self._write(CreateDerivedColumn(table, column_name, equation), destination)

    async def transform_column(self, *, table: str, column_name: str, equation: str, destination: Destination = None) -> Any:
        """Compute the values of a column anew, in place.

        Args:
            table: The table.
            column_name: The column that is changed.
            equation: A Python expression over the columns of the row, for instance ``name.strip().lower()``.
        """
        return await self._write(TransformColumn(table, column_name, equation), destination)

    async def rename_column(self, *, table: str, old_name: str, new_name: str, destination: Destination = None) -> Any:
        """Give a column another name; its place and its values stay.

        Args:
            table: The table.
            old_name: Its name now.
            new_name: Its name from now on, in snake_case.
        """
        return await self._write(RenameColumn(table, old_name, new_name), destination)

    async def copy_column(self, *, source_table: str, column_name: str, dest_table: str, destination: Destination = None) -> Any:
        """Copy a column into another table, row by row by their unique keys.

        Args:
            source_table: Where it is.
            column_name: The column.
            dest_table: Where it is copied to.
        """
        return await self._write(CopyColumn(source_table, column_name, dest_table), destination)

    async def move_column(self, *, source_table: str, column_name: str, dest_table: str, destination: Destination = None) -> Any:
        """Move a column into another table, row by row by their unique keys.

        Args:
            source_table: Where it is.
            column_name: The column.
            dest_table: Where it goes.
        """
        return await self._write(MoveColumn(source_table, column_name, dest_table), destination)

    async def delete_column(self, *, table: str, column_name: str, destination: Destination = None) -> Any:
        """Delete a column with its values, for good. Only where the caller has asked for it, or its data has been moved.

        Args:
            table: The table.
            column_name: The column.
        """
        return await self._write(DeleteColumn(table, column_name), destination)

    async def vectorize_column(
        self,
        *,
        table: str,
        source_column: str,
        target_column_name: str,
        from_ids: list[int] | None = None,
        destination: Destination = None,
    ) -> Any:
        """Make or complete the embedding of a column, so that searches over it are quick. Searches make what they need anyway.

        Args:
            table: The table.
            source_column: The column, or an expression over columns, that is embedded.
            target_column_name: Name of the embedding column.
            from_ids: Unique keys of the rows to embed; left out: all that are missing.
        """
        if from_ids is not None and len(from_ids) > MAX_IDS:
            raise ToolProblem("bad_arguments", f"from_ids are at most {MAX_IDS}; leave them out to embed all rows")
        owner = self._destinations.owner(destination)
        result = await self._tables.write(
            owner, VectorizeColumn(table, source_column, target_column_name), effect=self._effect, now=self._now
        )
        embedded = await self._search.vectorize(self._view, owner, table, source_column, keys=from_ids)
        return {**result, "details": {"embedded": embedded.embedded, "left": embedded.left}}

    async def add_rows(self, *, table: str, rows: Objects, destination: Destination = None) -> Any:
        """Add rows. Columns that are missing are made first, with the types of their values. The unique key is given by the store.

        Args:
            table: The table.
            rows: At most 1000 objects of column → value; dates and times in ISO 8601.

        Returns:
            {"outcome": "rows added successfully", "details": {"length": n}}
        """
        if len(rows) > MAX_ROWS_PER_CALL:
            raise ToolProblem("too_large", f"{len(rows)} rows in one call; send at most {MAX_ROWS_PER_CALL}, in several calls")
        return await self._write(AddRows(table, rows), destination)

    async def update_rows(self, *, table: str, updates: Changes, destination: Destination = None) -> Any:
        """Change values of rows; other rows and columns stay as they are.

        Args:
            table: The table.
            updates: Unique key → column → new value, for instance ``{'3': {'city': 'Bonn'}}``. An unknown key is an error.
        """
        if len(updates) > MAX_ROWS_PER_CALL:
            raise ToolProblem("too_large", f"{len(updates)} rows in one call; send at most {MAX_ROWS_PER_CALL}, in several calls")
        return await self._write(UpdateRows(table, updates), destination)

    async def delete_rows(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the contract's name
        offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0,
        limit: Limit = DEFAULT_LIMIT,
        tables: Names | None = None,
        destination: Destination = None,
    ) -> Any:
        """Delete the rows that a condition holds for, for good. Only where the caller has asked for it in so many words.

        Args:
            filter: A Python expression over column names. Left out: nothing is deleted.
            offset: Rows of each table to leave out, from the newest on.
            limit: Rows of each table, at most 1000.
            tables: Names of tables; left out: all of the destination.
        """
        return await self._write(DeleteRows(filter, offset, limit, tables), destination)

    async def _write(self, change: TableChange, destination: str | None) -> Mapping[str, Any]:
        return await self._tables.write(self._destinations.owner(destination), change, effect=self._effect, now=self._now)
