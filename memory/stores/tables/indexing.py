"""Rows that have a vector: what waits for the index, and what the index has seen of them (``DocumentSource``)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, bindparam, select, tuple_

from memory.model.errors import InvalidInput
from memory.model.owner import Owner
from memory.ports import DocumentSource, IndexDocument, IndexMark, Position
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_records import RECORD_OWNERS
from memory.stores.tables.scoping import EveryOwner, Prepared, Records, batches, checked_limit, guard
from memory.stores.tables.terms import change_terms, clear_terms

NEW: Final[Mapping[str, Any]] = {"revision": 1, "indexed_revision": 0, "index_terms": None, "index_length": 0}
"""The index columns of a row that is inserted."""
_OWNERS_AT_ONCE = 500


class IndexedRows(DocumentSource):
    """What the stores of facts, contacts, guidance and functions have in common.

    A change of what is searched by raises the ``revision``. Deleting a row blanks its text and leaves the row, not live any more,
    until its vector is gone.
    """

    def __init__(self, database: Database, table: Table, id_column: str) -> None:
        self._database = database
        self._table = table
        self._id = table.c[id_column]
        self._waiting = (
            select(table).where(table.c.indexed_revision < table.c.revision).order_by(table.c.tenant, table.c.owner_key, self._id)
        )
        self._waiting_of_owner = Prepared(self._waiting.limit(bindparam("b_limit")))
        self._by_id = Prepared(select(table).where(self._id.in_(bindparam("b_ids", expanding=True))))
        guard(database.engine)

    @abstractmethod
    def _live(self, row: Row[Any]) -> bool:
        """Whether the row has a vector."""

    @abstractmethod
    def _text(self, row: Row[Any]) -> str: ...

    @abstractmethod
    def _payload(self, row: Row[Any]) -> dict[str, Any]: ...

    def _is_gone(self, row: Row[Any]) -> bool:
        """Whether the row was deleted and only waits for its vector."""
        return row.deleted_at is not None

    def _key_of(self, document_id: str) -> Any:
        return document_id

    def _raised(self) -> dict[str, Any]:
        """Of an update that changes what is searched by."""
        return {"revision": self._table.c.revision + 1}

    async def pending(self, *, owner: Owner | None = None, limit: int = 200) -> Sequence[IndexDocument]:
        checked_limit(limit)

        def work(connection: Connection) -> list[IndexDocument]:
            if owner is None:
                rows = EveryOwner(connection).rows(self._waiting.limit(limit))
            else:
                rows = Records(connection, owner).rows(self._waiting_of_owner, {"b_limit": limit})
            return [self._document(row) for row in rows]

        return await self._database.read(work)

    async def documents(self, *, after: tuple[str, str] | None, limit: int = 500) -> Sequence[IndexDocument]:
        order = (self._table.c.tenant, self._table.c.owner_key, self._id)
        wanted = select(self._table).order_by(*order).limit(checked_limit(limit))
        if after is not None:
            tenant, _, owner_key = after[0].partition("/")
            wanted = wanted.where(tuple_(*order) > tuple_(tenant, owner_key, self._key_of(after[1])))
        return await self._database.read(lambda c: [self._document(row) for row in EveryOwner(c).rows(wanted)])

    async def mark_indexed(self, marks: Sequence[IndexMark]) -> int:
        ordered = sorted(marks, key=lambda mark: (mark.owner.path, mark.document_id))

        def work(connection: Connection) -> int:
            # Owners in one order for everyone, so that two of these cannot wait for each other.
            return sum(
                self._mark_owner(Records(connection, owner), owner, list(some))
                for owner, some in groupby(ordered, key=lambda mark: mark.owner)
            )

        return await self._database.write(work) if ordered else 0

    def _mark_owner(self, records: Records, owner: Owner, marks: Sequence[IndexMark]) -> int:
        records.lock(upkeep=True)
        rows: dict[Any, Row[Any]] = {}
        for some in batches(sorted({self._key_of(mark.document_id) for mark in marks})):
            rows.update((getattr(row, self._id.name), row) for row in records.rows(self._by_id, {"b_ids": some}))
        deltas: Counter[int] = Counter()
        length = documents = marked = 0
        for key, some in groupby(sorted(marks, key=self._mark_order), key=lambda mark: self._key_of(mark.document_id)):
            # A mark that comes late, or is of a row that was removed meanwhile, says nothing about the row as it is.
            row = rows.get(key)
            fitting = [mark for mark in some if row is not None and row.indexed_revision <= mark.revision <= row.revision]
            if row is None or not fitting:
                continue
            marked += 1
            last = fitting[-1]
            deltas.update(set(last.terms))
            deltas.subtract(row.index_terms or ())
            length += last.length - row.index_length
            documents += bool(last.length) - bool(row.index_length)
            if self._is_gone(row) and last.revision == row.revision:
                records.delete(self._table, self._id == key)
                continue
            terms = sorted(set(last.terms)) or None
            values = {"indexed_revision": last.revision, "index_terms": terms, "index_length": last.length}
            records.update(self._table, self._id == key, values=values)
        change_terms(records.connection, owner.tenant, owner.key, self.kind, deltas, length, documents)
        return marked

    def _mark_order(self, mark: IndexMark) -> tuple[Any, int]:
        return self._key_of(mark.document_id), mark.revision

    async def reset_index(self, tenant: str | None = None) -> int:
        count = 0
        after: tuple[str, str] | None = None
        while owners := await self._owners(tenant, after):
            for owner in owners:
                count += await self._reset_owner(owner)
            after = (owners[-1].tenant, owners[-1].key)
        return count

    async def _owners(self, tenant: str | None, after: tuple[str, str] | None) -> list[Owner]:
        columns = (RECORD_OWNERS.c.tenant, RECORD_OWNERS.c.owner_key)
        wanted = select(*columns).order_by(*columns).limit(_OWNERS_AT_ONCE)
        if tenant is not None:
            wanted = wanted.where(RECORD_OWNERS.c.tenant == tenant)
        if after is not None:
            wanted = wanted.where(tuple_(*columns) > tuple_(*after))
        return await self._database.read(lambda c: [Owner.of_key(row.tenant, row.owner_key) for row in EveryOwner(c).rows(wanted)])

    async def _reset_owner(self, owner: Owner) -> int:
        """A transaction for each owner: one over all of them could take longer than a statement may."""

        def work(connection: Connection) -> int:
            records = Records(connection, owner)
            records.lock(upkeep=True)
            reset = records.update(self._table, values={"indexed_revision": 0, "index_terms": None, "index_length": 0})
            clear_terms(connection, self.kind, tenant=owner.tenant, owner_key=owner.key)
            return reset

        return await self._database.write(work)

    def _document(self, row: Row[Any]) -> IndexDocument:
        live = self._live(row)
        return IndexDocument(
            document_id=str(getattr(row, self._id.name)),
            owner=Owner.of_key(row.tenant, row.owner_key),
            revision=row.revision,
            live=live,
            text=self._text(row) if live else "",
            payload=self._payload(row) if live else {},
            counted=tuple(row.index_terms or ()) if row.index_length else None,
        )


def joined(*parts: str | None) -> str:
    """The parts that are there, one a line."""
    return "\n".join(part for part in parts if part)


def after_row(records: Records, table: Table, id_column: str, after: str | Position) -> tuple[datetime, str]:
    """Where a page begins that follows this row in a list ordered by creation. Raises InvalidInput where it is not there."""
    if isinstance(after, Position):
        return to_utc(after.created_at), after.item_id
    found = records.row(select(table.c.created_at, table.c[id_column].label("after_id")).where(table.c[id_column] == after))
    if found is None:
        raise InvalidInput("the list cannot go on after an id that is not in it")
    return found.created_at, found.after_id
