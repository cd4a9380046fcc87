"""Settings of spaces for administrators, in SQL: with versions, so that of two who save at once the second is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import Connection, Row, select, update
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.category import Category
from memory.model.directory import SpaceSettings
from memory.model.errors import InvalidInput, InvalidSettings
from memory.model.ids import decode_segment, encode_segment, short_hash
from memory.ports.administration import SpaceRecord, SpaceRecords
from memory.stores.tables.directory import active_roots_of, settings_of
from memory.stores.tables.engine import Database
from memory.stores.tables.rows import SPACES
from memory.stores.tables.statements import writes

_ROOT: Final = "root_folder"
_CATEGORIES: Final = "memory_categories"
_KNOWN_CATEGORIES: Final = frozenset(category.value for category in Category)


class SqlSpaces(SpaceRecords):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._save_root = writes(database.engine.dialect.name).save_root
        upsert: Any = sqlite.insert if database.is_sqlite else postgresql.insert
        self._first = upsert(SPACES).on_conflict_do_nothing().returning(SPACES.c.space_key)

    async def space(self, tenant: str, space_id: str) -> SpaceRecord:
        key = encode_segment(space_id, what="space id")

        def work(connection: Connection) -> SpaceRecord:
            row = connection.execute(select(SPACES).where(*_is(tenant, key))).one_or_none()
            return _record(space_id, None if row is None else row.settings, active_roots_of(connection, tenant))

        return await self._database.read(work)

    async def spaces(self, tenant: str, *, after: str | None = None, limit: int = 100) -> Sequence[SpaceRecord]:
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        wanted = select(SPACES).where(SPACES.c.tenant == tenant).order_by(SPACES.c.space_key).limit(limit)
        if after is not None:
            wanted = wanted.where(SPACES.c.space_key > after)

        def work(connection: Connection) -> list[SpaceRecord]:
            roots = active_roots_of(connection, tenant)
            return [_record(_id_of(row), row.settings, roots) for row in connection.execute(wanted)]

        return await self._database.read(work)

    async def replace(self, tenant: str, space_id: str, settings: SpaceSettings, *, expected: str | None) -> SpaceRecord | None:
        key = encode_segment(space_id, what="space id")
        given = settings.model_dump(mode="json", exclude_unset=True)

        def work(connection: Connection) -> SpaceRecord | None:
            there = connection.execute(select(SPACES.c.settings).where(*_is(tenant, key)).with_for_update()).one_or_none()
            if (None if there is None else _version(there.settings)) != expected:
                return None
            stored = given if there is None else _kept(there.settings) | given
            if there is not None:
                connection.execute(update(SPACES).where(*_is(tenant, key)).values(settings=stored))
            else:
                long_id = space_id if "=h" in key else None
                row = {"tenant": tenant, "space_key": key, "space_id_long": long_id, "settings": stored}
                if connection.execute(self._first, row).one_or_none() is None:
                    return None  # another one was first, a moment ago
            if _ROOT in given or not active_roots_of(connection, tenant):
                connection.execute(self._save_root, {"tenant": tenant, "folder": settings.root_folder, "active": True})
            return _record(space_id, stored, active_roots_of(connection, tenant))

        return await self._database.write(work)


def _is(tenant: str, key: str) -> tuple[Any, Any]:
    return SPACES.c.tenant == tenant, SPACES.c.space_key == key


def _id_of(row: Row[Any]) -> str:
    return row.space_id_long or decode_segment(row.space_key)


def _version(stored: Mapping[str, Any]) -> str:
    """Of all that is stored, also of what this version of the code does not know."""
    return short_hash("space", json.dumps(stored, sort_keys=True, ensure_ascii=True))


def _known(stored: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in stored.items() if name in SpaceSettings.model_fields}
    if isinstance(known.get(_CATEGORIES), Mapping):
        known[_CATEGORIES] = {name: on for name, on in known[_CATEGORIES].items() if name in _KNOWN_CATEGORIES}
    return known


def _kept(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a newer version of the code wrote."""
    return {name: value for name, value in stored.items() if name not in SpaceSettings.model_fields}


def _record(space_id: str, stored: Mapping[str, Any] | None, roots: Sequence[str]) -> SpaceRecord:
    if stored is None:
        return SpaceRecord(space_id, {}, None, settings_of(None, roots, space_id))
    known = _known(stored)
    try:
        return SpaceRecord(space_id, known, _version(stored), settings_of(stored, roots, space_id))
    except InvalidSettings as error:
        return SpaceRecord(space_id, known, _version(stored), settings_of(_valid(known), roots, space_id), error.message)


def _valid(known: Mapping[str, Any]) -> dict[str, Any]:
    try:
        SpaceSettings.model_validate(known)
    except ValidationError as error:
        wrong = {one["loc"][0] for one in error.errors(include_url=False, include_input=False) if one["loc"]}
        return {name: value for name, value in known.items() if name not in wrong}
    return dict(known)
