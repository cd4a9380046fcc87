"""Guidance (how-to) and functions (stored, never run) in SQL: entries that an owner has once by title, or by name."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, and_, select, tuple_

from memory.model.errors import InvalidInput
from memory.model.ids import body_hash
from memory.model.library import FunctionRecord, Guidance
from memory.model.owner import Owner, View
from memory.model.transcript import clean_text
from memory.model.words import fold
from memory.ports import FunctionStore, GuidanceStore, Position
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.indexing import NEW, IndexedRows, after_row, joined
from memory.stores.tables.rows_records import FUNCTIONS, GUIDANCE
from memory.stores.tables.scoping import Query, Records, batches, checked_limit

ItemT = TypeVar("ItemT", Guidance, FunctionRecord)

MAX_ITEMS = 1000
"""In one call."""
_WORDS_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class _Library(IndexedRows, Generic[ItemT]):
    """What both have in common. ``key``: the column of what an owner has once; its text in the index is never more than that."""

    _key_column: str

    @abstractmethod
    def _key(self, item: ItemT) -> str: ...

    @abstractmethod
    def _values(self, item: ItemT) -> dict[str, Any]:
        """What is replaced when the entry is given again."""

    @abstractmethod
    def _blank(self) -> dict[str, Any]: ...

    @abstractmethod
    def _item(self, row: Row[Any]) -> ItemT: ...

    @abstractmethod
    def _id_of(self, item: ItemT) -> str: ...

    def _live(self, row: Row[Any]) -> bool:
        return row.deleted_at is None

    async def add(self, owner: Owner, items: Sequence[ItemT], *, now: datetime) -> Sequence[ItemT]:
        moment = to_utc(now)
        if len(items) > MAX_ITEMS:
            raise InvalidInput(f"{len(items)} entries in one call; at most {MAX_ITEMS} are accepted")
        if any(item.owner != owner.key for item in items):
            raise InvalidInput("an entry is added to the owner that it names")

        def work(connection: Connection) -> list[ItemT]:
            records = Records(connection, owner)
            records.lock()
            ids = [self._put(records, item, moment) for item in items]
            stored = {item_id: self._item(row) for item_id, row in self._rows(records, sorted(set(ids))).items()}
            return [stored[item_id] for item_id in ids]

        return await self._database.write(work) if items else []

    async def get(self, view: View, ids: Collection[str]) -> Mapping[str, ItemT]:
        wanted = sorted(set(ids))

        def work(connection: Connection) -> dict[str, ItemT]:
            rows = self._rows(Records(connection, view), wanted)
            return {item_id: self._item(row) for item_id, row in rows.items()}

        return await self._database.read(work) if wanted else {}

    async def list(self, view: View, *, limit: int = 100, after: str | Position | None = None) -> Sequence[ItemT]:
        """Newest first."""
        created = self._table.c.created_at
        wanted = select(self._table).where(self._there).order_by(created.desc(), self._id.desc()).limit(checked_limit(limit))

        def work(connection: Connection) -> list[ItemT]:
            records = Records(connection, view)
            page: Query = wanted
            if after is not None:
                page = page.where(tuple_(created, self._id) < tuple_(*after_row(records, self._table, self._id.name, after)))
            return [self._item(row) for row in records.rows(page)]

        return await self._database.read(work)

    async def delete(self, owner: Owner, ids: Collection[str], *, now: datetime) -> int:
        moment = to_utc(now)
        wanted = sorted(set(ids))
        blank = {**self._blank(), self._key_column: None, "updated_at": moment, "deleted_at": moment, **self._raised()}

        def work(connection: Connection) -> int:
            records = Records(connection, owner)
            records.lock()
            return sum(records.update(self._table, self._id.in_(some), self._there, values=blank) for some in batches(wanted))

        return await self._database.write(work) if wanted else 0

    @property
    def _there(self) -> ColumnElement[bool]:
        return self._table.c.deleted_at.is_(None)

    def _rows(self, records: Records, ids: Sequence[str]) -> dict[str, Row[Any]]:
        found: dict[str, Row[Any]] = {}
        for some in batches(ids):
            wanted = select(self._table).where(and_(self._id.in_(some), self._there))
            found.update((getattr(row, self._id.name), row) for row in records.rows(wanted))
        return found

    def _put(self, records: Records, item: ItemT, now: datetime) -> str:
        """Insert or replace. Returns the id under which the entry is."""
        key = body_hash(self._key(item))
        key_column = self._table.c[self._key_column]
        values = {**self._values(item), self._key_column: key}
        row = records.row(select(self._table).where(key_column == key))
        if row is None:
            row = records.row(select(self._table).where(self._id == self._id_of(item)))
        if row is None:
            created = {"created_at": item.created_at, "updated_at": item.updated_at}
            records.insert(self._table, [{self._id.name: self._id_of(item), **values, **created, **NEW}])
            return self._id_of(item)
        item_id: str = getattr(row, self._id.name)
        if row.deleted_at is not None or any(getattr(row, name) != value for name, value in values.items()):
            changed = {**values, "deleted_at": None, "updated_at": now, **self._raised()}
            if row.deleted_at is not None:
                changed["created_at"] = item.created_at
            records.update(self._table, self._id == item_id, values=changed)
        return item_id


class SqlGuidance(_Library[Guidance], GuidanceStore):
    _key_column = "title_key"

    def __init__(self, database: Database) -> None:
        super().__init__(database, GUIDANCE, "guidance_id")

    @property
    def kind(self) -> str:
        return "guidance"

    def _text(self, row: Row[Any]) -> str:
        return joined(row.title, row.content, " ".join(row.tags))

    def _payload(self, row: Row[Any]) -> dict[str, Any]:
        return {}

    def _key(self, item: Guidance) -> str:
        return " ".join(fold(clean_text(item.title)).split())

    def _values(self, item: Guidance) -> dict[str, Any]:
        return {
            "title": clean_text(item.title),
            "content": clean_text(item.content),
            "tags": [clean_text(tag) for tag in item.tags],
        }

    def _blank(self) -> dict[str, Any]:
        return {"title": "", "content": "", "tags": []}

    def _id_of(self, item: Guidance) -> str:
        return item.guidance_id

    def _item(self, row: Row[Any]) -> Guidance:
        # Not validated again: it was when it was stored.
        return Guidance.model_construct(
            guidance_id=row.guidance_id,
            owner=row.owner_key,
            title=row.title,
            content=row.content,
            tags=tuple(row.tags),
            created_at=row.created_at,
            updated_at=row.updated_at,
        )


class SqlFunctions(_Library[FunctionRecord], FunctionStore):
    _key_column = "name_key"

    def __init__(self, database: Database) -> None:
        super().__init__(database, FUNCTIONS, "function_id")

    @property
    def kind(self) -> str:
        return "functions"

    def _text(self, row: Row[Any]) -> str:
        return joined(" ".join(_WORDS_OF_NAME.findall(row.name)), row.docstring)

    def _payload(self, row: Row[Any]) -> dict[str, Any]:
        return {}

    def _key(self, item: FunctionRecord) -> str:
        return item.name

    def _values(self, item: FunctionRecord) -> dict[str, Any]:
        return {
            "name": item.name,
            "docstring": clean_text(item.docstring),
            "source": clean_text(item.source),
            "dependencies": [clean_text(name) for name in item.dependencies],
        }

    def _blank(self) -> dict[str, Any]:
        return {"name": "", "docstring": "", "source": "", "dependencies": []}

    def _id_of(self, item: FunctionRecord) -> str:
        return item.function_id

    def _item(self, row: Row[Any]) -> FunctionRecord:
        # Not validated again: it was when it was stored.
        return FunctionRecord.model_construct(
            function_id=row.function_id,
            owner=row.owner_key,
            name=row.name,
            docstring=row.docstring,
            source=row.source,
            dependencies=tuple(row.dependencies),
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
