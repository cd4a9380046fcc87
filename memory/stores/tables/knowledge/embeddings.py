"""What the vector index holds of the rows of tables (:class:`memory.ports.knowledge.KnowledgeEmbeddings`), and their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from memory.model.embedded import Embedding, columns_of, embedding_of, types_of
from memory.model.errors import StoreUnavailable
from memory.model.expression import parse_expression
from memory.model.knowledge import ColumnType, Table, ToolProblem
from memory.model.knowledge_values import MAX_INT, to_shown
from memory.model.owner import Owner
from memory.ports.knowledge import EmbeddedColumn, RowMark, RowText
from memory.stores.tables.engine import Database
from memory.stores.tables.knowledge.catalogue import CONTACTS_ID, current
from memory.stores.tables.knowledge.compile import compile_value
from memory.stores.tables.knowledge.stored import cell
from memory.stores.tables.knowledge.work import ROWS
from memory.stores.tables.rows_knowledge import KNOWLEDGE_EMBEDDINGS, KNOWLEDGE_TABLES
from memory.stores.tables.rows_records import CONTACTS
from memory.stores.tables.scoping import EveryOwner, Records, batches, guard

MAX_TEXT_CHARS: Final = 16_384
MAX_CONTACTS: Final = 5_000
_TRIES: Final = 5
_MARKED = KNOWLEDGE_EMBEDDINGS.c
_COLUMN = (_MARKED.tenant, _MARKED.owner_key, _MARKED.table_id, _MARKED.column_key)


class SqlEmbeddings:
    """Beside the tables themselves, in the same database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        guard(database.engine)

    async def behind(self, what: Embedding) -> tuple[Sequence[int], Sequence[int]]:
        def work(connection: Connection) -> tuple[list[int], list[int]]:
            records, table = Records(connection, what.table.owner), what.table
            mine = (_MARKED.table_id == table.table_id, _MARKED.column_key == what.column_key)
            if table.table_id == CONTACTS_ID:
                there = {key: text.revision for key, text in _texts(connection, what, None, MAX_CONTACTS).items()}
            else:
                # Keys are never used again and revisions only rise, so equal sums over both mean equal rows.
                sums = (func.count(ROWS.row_key), func.sum(ROWS.row_key), func.sum(_mixed(ROWS.row_key, ROWS.revision)))
                marked = (
                    func.count(_MARKED.row_key),
                    func.sum(_MARKED.row_key),
                    func.sum(_mixed(_MARKED.row_key, _MARKED.revision)),
                )
                rows_now = records.rows(select(*sums).where(ROWS.table_id == table.table_id))[0]
                if tuple(rows_now) == tuple(records.rows(select(*marked).where(*mine))[0]):
                    return [], []
                pairs = records.rows(select(ROWS.row_key, ROWS.revision).where(ROWS.table_id == table.table_id))
                there = {row.row_key: row.revision for row in pairs}
            held = {row.row_key: row.revision for row in records.rows(select(_MARKED.row_key, _MARKED.revision).where(*mine))}
            stale = sorted((key for key, revision in there.items() if held.get(key) != revision), reverse=True)
            return stale, sorted(held.keys() - there.keys())

        return await self._database.read(work)

    async def texts(self, what: Embedding, keys: Collection[int] | None = None, *, limit: int = 1_000) -> Mapping[int, RowText]:
        return await self._database.read(lambda connection: _texts(connection, what, keys, limit))

    async def mark(self, column: EmbeddedColumn, marks: Sequence[RowMark]) -> None:
        def work(connection: Connection) -> None:
            records = Records(connection, column.owner)
            records.lock(upkeep=True)
            _unmark(records, column, [mark.row_key for mark in marks])
            key = {"table_id": column.table_id, "column_key": column.column_key}
            for some in batches(marks):
                rows = [{**key, "row_key": one.row_key, "revision": one.revision, "live": one.live} for one in some]
                records.insert(KNOWLEDGE_EMBEDDINGS, rows)

        if marks:
            await self._database.write(work)

    async def unmark(self, column: EmbeddedColumn, keys: Collection[int]) -> None:
        if keys:
            await self._database.write(lambda connection: _unmark(Records(connection, column.owner), column, keys))

    async def columns(self, *, after: EmbeddedColumn | None = None, limit: int = 100) -> Sequence[EmbeddedColumn]:
        wanted = select(*_COLUMN).distinct().order_by(*_COLUMN).limit(limit)
        if after is not None:
            last = (after.owner.tenant, after.owner.key, after.table_id, after.column_key)
            wanted = wanted.where(tuple_(*_COLUMN) > tuple_(*last))

        def work(connection: Connection) -> list[EmbeddedColumn]:
            rows = EveryOwner(connection).rows(wanted)
            return [EmbeddedColumn(Owner.of_key(row.tenant, row.owner_key), row.table_id, row.column_key) for row in rows]

        return await self._database.read(work)

    async def there(self, column: EmbeddedColumn) -> frozenset[int]:
        return await self._database.read(lambda connection: frozenset(_there(Records(connection, column.owner), column)))

    async def marked(self, column: EmbeddedColumn) -> Mapping[int, RowMark]:
        wanted = select(_MARKED.row_key, _MARKED.revision, _MARKED.live).where(*_of(column))

        def work(connection: Connection) -> dict[int, RowMark]:
            rows = Records(connection, column.owner).rows(wanted)
            return {row.row_key: RowMark(row.row_key, row.revision, row.live) for row in rows}

        return await self._database.read(work)

    async def reset(self) -> int:
        owners = select(_MARKED.tenant, _MARKED.owner_key).distinct()
        found = await self._database.read(
            lambda connection: [Owner.of_key(row.tenant, row.owner_key) for row in EveryOwner(connection).rows(owners)]
        )
        count = 0
        for owner in found:
            count += await self._database.write(lambda c, owner=owner: Records(c, owner).delete(KNOWLEDGE_EMBEDDINGS))
        return count


# -------------------------------------------------------------------------------------------------------------------- texts


def _texts(connection: Connection, what: Embedding, keys: Collection[int] | None, limit: int) -> dict[int, RowText]:
    """The columns of a table may change between two statements: a slot is another column's then. So it is read again."""
    if what.table.table_id == CONTACTS_ID:
        return _read(connection, what, keys, limit)
    for _ in range(_TRIES):
        now = current(connection, what.table)
        if now is None:
            return {}
        try:
            if embedding_of(now, what.source).column_key != what.column_key:
                return {}
        except ToolProblem:
            return {}
        found = _read(connection, Embedding(now, what.source, what.column_key), keys, limit)
        after = current(connection, now)
        if after is not None and after.version == now.version:
            return found
    raise StoreUnavailable("the columns of a table are changing all the time")


def _read(connection: Connection, what: Embedding, keys: Collection[int] | None, limit: int) -> dict[int, RowText]:
    table, dialect = what.table, connection.dialect.name
    expression = parse_expression(what.source, types_of(table), what="reference")
    is_contacts = table.table_id == CONTACTS_ID
    key: ColumnElement[Any] = CONTACTS.c.contact_id if is_contacts else ROWS.row_key
    cells = {table.unique_key: key} | {column.name: _cell(table, column.name, dialect) for column in table.columns}
    value = compile_value(expression, {name: cells[name] for name in expression.names}, dialect).label("value")
    where = CONTACTS.c.merged_into.is_(None) if is_contacts else ROWS.table_id == table.table_id
    wanted = select(key.label("row_key"), (key if is_contacts else ROWS.revision).label("revision"), value).where(where)
    records = Records(connection, table.owner)
    if keys is None:
        rows = records.rows(wanted.order_by(key.desc()).limit(limit))
    else:
        asked = sorted({one for one in keys if 0 <= one <= MAX_INT}, reverse=True)
        rows = [row for some in batches(asked) for row in records.rows(wanted.where(key.in_(some)).order_by(key.desc()))]
    kind = expression.type if isinstance(expression.type, ColumnType) else None
    texts = ((row, _text(row.value, kind)) for row in rows)
    return {row.row_key: RowText(_number(text) if is_contacts else row.revision, text) for row, text in texts}


def _cell(table: Table, name: str, dialect: str) -> ColumnElement[Any]:
    column = table.column(name)
    assert column is not None  # noqa: S101 - a name of this table
    return CONTACTS.c[column.key] if table.table_id == CONTACTS_ID else cell(column, dialect)


def _text(stored: Any, kind: ColumnType | None) -> str | None:
    value = stored if kind is None else to_shown(stored, kind)
    if value is None:
        return None
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return text[:MAX_TEXT_CHARS] if text.strip() else None


def _number(text: str | None) -> int:
    """Of a text whose row counts no revisions for it: the same text has the same number."""
    digest = hashlib.blake2b((text or "").encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


# -------------------------------------------------------------------------------------------------------------------- marks


def _of(column: EmbeddedColumn) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _MARKED.table_id == column.table_id, _MARKED.column_key == column.column_key


def _unmark(records: Records, column: EmbeddedColumn, keys: Collection[int]) -> None:
    for some in batches(sorted(keys)):
        records.delete(KNOWLEDGE_EMBEDDINGS, *_of(column), _MARKED.row_key.in_(some))


def _there(records: Records, column: EmbeddedColumn) -> set[int]:
    """Keys of the rows that can have such a vector."""
    if column.table_id == CONTACTS_ID:
        return {row.contact_id for row in records.rows(select(CONTACTS.c.contact_id).where(CONTACTS.c.merged_into.is_(None)))}
    entry = records.row(select(KNOWLEDGE_TABLES.c.columns).where(KNOWLEDGE_TABLES.c.table_id == column.table_id))
    if entry is None or not columns_of(column.column_key) <= {one["key"] for one in entry.columns}:
        return set()
    return {row.row_key for row in records.rows(select(ROWS.row_key).where(ROWS.table_id == column.table_id))}


def _mixed(key: Any, revision: Any) -> ColumnElement[int]:
    """A number of the pair that stays small."""
    return ((key % 1_000_003) * 1_009 + revision % 1_000_033) % 1_000_003 * (key % 101 + 1)
