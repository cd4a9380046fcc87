"""What all rows with a vector have in common: pending rows, marks, upkeep. See :class:`memory.ports.records.DocumentSource`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import Connection, Table, literal, select, tuple_, update
from sqlalchemy.engine import RowMapping

from memory.model.owner import Owner
from memory.ports import DocumentSource, IndexDocument, IndexMark
from memory.stores.tables.engine import Database
from memory.stores.tables.scoping import Rows, guard, over_everybody
from memory.stores.tables.terms import change_terms, clear_terms


class IndexedTable(DocumentSource, ABC):
    """One table of the records with its part of the index."""

    table: ClassVar[Table]
    id_column: ClassVar[str]

    def __init__(self, database: Database) -> None:
        self._database = database
        guard(database.engine)

    @property
    def kind(self) -> str:
        return self.table.name

    @abstractmethod
    def _text(self, row: RowMapping) -> str:
        """What is searched."""

    def _payload(self, row: RowMapping) -> Mapping[str, Any]:
        """What vectors are filtered by; no text of a user."""
        return {}

    def _is_live(self, row: RowMapping) -> bool:
        return not row["deleted"]

    def _document(self, row: RowMapping) -> IndexDocument:
        live = self._is_live(row)
        return IndexDocument(
            document_id=str(row[self.id_column]),
            owner=Owner.of_key(row["tenant"], row["owner"]),
            revision=row["revision"],
            live=live,
            text=self._text(row) if live else "",
            payload=self._payload(row),
        )

    async def pending(self, *, owner: Owner | None = None, limit: int = 200) -> Sequence[IndexDocument]:
        changed = self.table.c.revision != self.table.c.indexed_revision
        if owner is not None:
            statement = Rows(owner).select(self.table).where(changed)
        else:
            statement = over_everybody(select(self.table).where(changed), reason="the index is brought up to date for all")
        order = (self.table.c.tenant, self.table.c.owner, self.table.c[self.id_column])
        return await self._database.read(
            lambda c: [self._document(row) for row in c.execute(statement.order_by(*order).limit(limit)).mappings()]
        )

    async def documents(self, *, after: tuple[str, str] | None, limit: int = 500) -> Sequence[IndexDocument]:
        columns = self.table.c
        statement = select(self.table)
        if after is not None:
            path, document_id = after
            tenant, _, key = path.partition("/")
            last = self._id_of(document_id)
            statement = statement.where(
                tuple_(columns.tenant, columns.owner, columns[self.id_column]) > tuple_(*_literals(tenant, key, last))
            )
        statement = statement.order_by(columns.tenant, columns.owner, columns[self.id_column]).limit(limit)
        wanted = over_everybody(statement, reason="a reconciliation looks at all rows")
        return await self._database.read(lambda c: [self._document(row) for row in c.execute(wanted).mappings()])

    def _id_of(self, document_id: str) -> Any:
        return document_id

    async def mark_indexed(self, marks: Sequence[IndexMark]) -> int:
        by_owner: dict[Owner, list[IndexMark]] = {}
        for mark in marks:
            by_owner.setdefault(mark.owner, []).append(mark)

        def work(connection: Connection) -> int:
            # In one order for everyone, so that two writers cannot wait for each other.
            return sum(
                self._mark(connection, owner, some) for owner, some in sorted(by_owner.items(), key=lambda item: item[0].path)
            )

        return await self._database.write(work) if marks else 0

    def _mark(self, connection: Connection, owner: Owner, marks: Sequence[IndexMark]) -> int:
        rows, columns = Rows(owner), self.table.c
        own_id = columns[self.id_column]
        wanted = {self._id_of(mark.document_id): mark for mark in marks}
        found = connection.execute(
            rows.select(
                self.table,
                own_id.label("id"),
                columns.index_terms,
                columns.index_length,
                columns.revision,
                columns.indexed_revision,
                columns.deleted,
            )
            .where(own_id.in_(list(wanted)))
            .order_by(own_id)
            .with_for_update()
        ).mappings()
        deltas: dict[int, int] = {}
        length = documents = marked = 0
        for row in found.all():
            mark = wanted[row["id"]]
            if mark.revision <= row["indexed_revision"] or mark.revision > row["revision"]:
                continue
            marked += 1
            before = None if row["index_terms"] is None else frozenset(row["index_terms"])
            after = frozenset(mark.terms) if mark.length else None
            for term in after or ():
                deltas[term] = deltas.get(term, 0) + 1
            for term in before or ():
                deltas[term] = deltas.get(term, 0) - 1
            length += mark.length - row["index_length"]
            documents += (after is not None) - (before is not None)
            mine = own_id == row["id"]
            if row["deleted"] and mark.revision == row["revision"]:
                connection.execute(rows.delete(self.table).where(mine))
            else:
                connection.execute(
                    rows.update(self.table)
                    .where(mine)
                    .values(
                        indexed_revision=mark.revision,
                        index_terms=None if after is None else sorted(after),
                        index_length=mark.length,
                    )
                )
        change_terms(connection, owner.tenant, owner.key, self.kind, deltas, length, documents)
        return marked

    async def reset_index(self, tenant: str | None = None) -> int:
        statement = update(self.table).values(indexed_revision=0, index_terms=None, index_length=0)
        if tenant is not None:
            statement = statement.where(self.table.c.tenant == tenant)
        wanted = over_everybody(statement, reason="a reindex begins anew for all")

        def work(connection: Connection) -> int:
            clear_terms(connection, self.kind, tenant=tenant)
            return connection.execute(wanted).rowcount

        return await self._database.write(work)


def _literals(*values: Any) -> Sequence[Any]:
    return [literal(value) for value in values]
