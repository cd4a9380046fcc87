"""The catalogue: which tables there are, and where the values of their columns lie.

A read sees the tables of a view and those that the deployment ships; several may have the same name, and are read as one. A write
sees the tables of its owner.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, func, select

from memory.model.errors import InvalidInput
from memory.model.ids import decode_segment, encode_segment
from memory.model.knowledge import BUILT_IN, CONTACTS_TABLE, MAX_TABLES, PERSONAL, Column, ColumnType, Table, ToolProblem
from memory.model.knowledge_names import name_key
from memory.model.knowledge_values import shortened
from memory.model.owner import Owner, View
from memory.stores.tables.rows_knowledge import FLOAT_SLOTS, INTEGER_SLOTS, KNOWLEDGE_TABLES, TEXT_SLOTS
from memory.stores.tables.scoping import Prepared, PreparedUpdate, Query, Records, batches

CONTACTS_ID: Final = 0
"""The ``table_id`` of ``Contacts``, which lies in the records' own table. All others count up from 1."""
MAX_SEEN: Final = 10_000
"""Tables in one view."""

TEAM: Final = "team:"
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTACT_COLUMNS: Final = (
    *(
        Column(name, ColumnType.STR, name)
        for name in ("first_name", "surname", "email_address", "phone_number", "whatsapp_number", "timezone", "job_title", "bio")
    ),
    Column("rolling_summary", ColumnType.STR, "rolling_summary"),
    Column("response_policy", ColumnType.STR, "response_policy"),
    Column("should_respond", ColumnType.BOOL, "should_respond"),
)

_SLOTS: Final[Mapping[ColumnType, Sequence[str]]] = {
    ColumnType.STR: TEXT_SLOTS,
    ColumnType.FLOAT: FLOAT_SLOTS,
    ColumnType.LIST: (),
    ColumnType.DICT: (),
    ColumnType.VECTOR: (),
}


_BY_NAME: Final = Prepared(select(KNOWLEDGE_TABLES).where(KNOWLEDGE_TABLES.c.name_key == bindparam("b_name_key")))
_GROW: Final = PreparedUpdate(
    KNOWLEDGE_TABLES,
    KNOWLEDGE_TABLES.c.table_id == bindparam("b_table_id"),
    values={"next_key": "b_next_key", "updated_at": "b_now"},
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A table with what the catalogue counts for it. ``next_values``: of a column that counts overall, by column key."""

    table: Table
    next_column: int
    next_values: Mapping[str, int]


def source_of(owner: Owner) -> str:
    """``personal``, ``team:<id>`` or ``built-in``."""
    if owner.kind == "t":
        return f"{TEAM}{decode_segment(owner.name)}"
    return PERSONAL if owner.kind == "u" else BUILT_IN


def contacts_table(view: View) -> Table:
    """The user's contacts as a table. A column's ``key`` is the name of the database column in ``contacts``; there are no slots."""
    owner = Owner.user(view.scope)
    description = "The people and organisations that the user deals with. Read only: contacts have operations of their own."
    return Table(CONTACTS_ID, owner, CONTACTS_TABLE, PERSONAL, description, "contact_id", _CONTACT_COLUMNS, 0, 0, _NEVER, _NEVER)


# -------------------------------------------------------------------------------------------------------------------- reads


def tables_of(connection: Connection, view: View) -> list[Table]:
    """All that a view shows, by name, then source; contacts and built-in ones included."""
    wanted = select(KNOWLEDGE_TABLES).limit(MAX_SEEN)
    found = [_table(row) for row in _seen(connection, view, wanted)]
    return sorted([*found, contacts_table(view)], key=_order)


def resolve(connection: Connection, view: View, name: str) -> tuple[Table, ...]:
    """The tables that a name means in a view: personal, then teams', then built-in ones; one alone as ``<source>.<name>``.

    Raises ToolProblem (``unknown_table``).
    """
    return resolve_all(connection, view, (name,))[name]


def resolve_all(connection: Connection, view: View, names: Iterable[str]) -> dict[str, tuple[Table, ...]]:
    """As :func:`resolve`, for several names at once."""
    wanted = {name: _split(name) for name in names}
    # What is no identifier may be no text that a database takes either.
    keys = sorted({key for _, key in wanted.values() if key.isidentifier()} - {name_key(CONTACTS_TABLE)})
    seen: list[Table] = []
    for some in batches(keys):
        rows = _seen(connection, view, select(KNOWLEDGE_TABLES).where(KNOWLEDGE_TABLES.c.name_key.in_(some)))
        seen += [_table(row) for row in rows]
    seen = [*sorted(seen, key=_order), contacts_table(view)]
    found: dict[str, tuple[Table, ...]] = {}
    for name, (source, key) in wanted.items():
        found[name] = tuple(t for t in seen if name_key(t.name) == key and (source is None or _is_of(t.owner, source)))
        if not found[name]:
            raise unknown_table(name, [table.name for table in tables_of(connection, view)])
    return found


def current(connection: Connection, table: Table) -> Table | None:
    """The table as it is now; None where it is gone."""
    row = Records(connection, table.owner).row(select(KNOWLEDGE_TABLES).where(KNOWLEDGE_TABLES.c.table_id == table.table_id))
    return None if row is None else _table(row)


def _seen(connection: Connection, view: View, wanted: Query) -> list[Row[Any]]:
    return [*Records(connection, view).rows(wanted), *Records(connection, Owner.built_in()).rows(wanted)]


def _order(table: Table) -> tuple[str, int, str]:
    return name_key(table.name), ("u", "t", "b").index(table.owner.kind), table.source


def _split(name: str) -> tuple[str | None, str]:
    """The source, where one is named, and the table's name as it is compared."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem("bad_arguments", f"{shortened(name)} is not the name of a table")
    source, _, table = name.rpartition(".")  # the id of a team may hold dots, the name of a table cannot
    return source or None, name_key(table)


def _is_of(owner: Owner, source: str) -> bool:
    if not source.startswith(TEAM):
        return source == source_of(owner)
    try:
        return owner.kind == "t" and encode_segment(source.removeprefix(TEAM)) == owner.name
    except InvalidInput:
        return False


# ------------------------------------------------------------------------------------------------------------------- writes


def entry_of(records: Records, owner: Owner, name: str) -> Entry:
    """A table of the owner that is written to. The owner's lock is held.

    Raises ToolProblem: ``unknown_table``; ``read_only`` for contacts and built-in tables.
    """
    source, key = _split(name)
    if key == name_key(CONTACTS_TABLE):
        raise ToolProblem("read_only", f"{CONTACTS_TABLE} is read only here: contacts have operations of their own")
    row = None
    if key.isidentifier() and (source is None or _is_of(owner, source)):
        row = records.row(_BY_NAME, {"b_name_key": key})
    if row is None and key.isidentifier() and (source in (None, BUILT_IN)) and owner != Owner.built_in():
        shared = Records(records.connection, Owner.built_in())
        if shared.row(_BY_NAME, {"b_name_key": key}) is not None:
            raise ToolProblem("read_only", f"{shortened(name)} is a built-in table, which all users read and none can change")
    if row is None:
        raise unknown_table(name, [entry.table.name for entry in entries_of(records)], where=f" in {source_of(owner)}")
    return _entry(row)


def entries_of(records: Records) -> list[Entry]:
    """All tables of the owner, by name."""
    return [_entry(row) for row in records.rows(select(KNOWLEDGE_TABLES).order_by(KNOWLEDGE_TABLES.c.name_key))]


def count_of(records: Records) -> int:
    return records.rows(select(func.count(KNOWLEDGE_TABLES.c.table_id)))[0][0]


def taken(records: Records, name: str) -> str | None:
    """The owner's table that has this name already, as it is written there."""
    row = records.row(select(KNOWLEDGE_TABLES.c.name).where(KNOWLEDGE_TABLES.c.name_key == name_key(name)))
    return None if row is None else row.name


def add_entry(records: Records, entry: Entry) -> None:
    table = entry.table
    records.insert(KNOWLEDGE_TABLES, [_stored(entry) | {"table_id": table.table_id, "created_at": table.created_at}])


def save_entry(records: Records, entry: Entry, *, now: datetime, schema: bool) -> Entry:
    """Write an entry back. ``schema``: columns or names have changed, which raises the version."""
    table = replace(entry.table, version=entry.table.version + schema, updated_at=now)
    saved = replace(entry, table=table)
    if not schema and not entry.next_values:
        records.run(_GROW, {"b_table_id": table.table_id, "b_next_key": table.next_key, "b_now": now})
    else:
        records.update(KNOWLEDGE_TABLES, KNOWLEDGE_TABLES.c.table_id == table.table_id, values=_stored(saved))
    return saved


def remove_entry(records: Records, table_id: int) -> None:
    records.delete(KNOWLEDGE_TABLES, KNOWLEDGE_TABLES.c.table_id == table_id)


def free_slot(columns: Sequence[Column], type_: ColumnType) -> str | None:
    """A slot for one more column of this type; None where its values go into ``more``."""
    used = {column.slot for column in columns}
    return next((slot for slot in _SLOTS.get(type_, INTEGER_SLOTS) if slot not in used), None)


def fits_slot(slot: str | None, type_: ColumnType) -> bool:
    """Whether values of this type lie in this slot, or as None in ``more``."""
    slots = _SLOTS.get(type_, INTEGER_SLOTS)
    return not slots if slot is None else slot in slots


def too_many_tables() -> ToolProblem:
    return ToolProblem("too_large", f"there are {MAX_TABLES} tables, which is as many as there can be; delete or merge some first")


def unknown_table(name: str, known: Sequence[str], *, where: str = "") -> ToolProblem:
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name[:100], names, n=5, cutoff=0.5)
    listed = ", ".join([*close, *(one for one in names if one not in close)][:20])
    return ToolProblem(
        "unknown_table", f"there is no table {shortened(name)}{where}; {f'there are: {listed}' if listed else 'there is none yet'}"
    )


def unknown_column(name: object, table: Table) -> ToolProblem:
    names = ", ".join((table.unique_key, *(column.name for column in table.columns)))
    return ToolProblem(
        "unknown_column", f"the table {table.name} has no column {shortened(name)}; its columns are: {names[:1_000]}"
    )


def _table(row: Row[Any]) -> Table:
    return _entry(row).table


def _entry(row: Row[Any]) -> Entry:
    owner = Owner.of_key(row.tenant, row.owner_key)
    columns = tuple(
        Column(
            one["name"],
            ColumnType(one["type"]),
            one["key"],
            one.get("slot"),
            auto=one.get("auto", False),
            within=one.get("within"),
            source=one.get("source"),
        )
        for one in row.columns
    )
    table = Table(
        table_id=row.table_id,
        owner=owner,
        name=row.name,
        source=source_of(owner),
        description=row.description,
        unique_key=row.unique_key,
        columns=columns,
        next_key=row.next_key,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
    return Entry(table, row.next_column, {one["key"]: one["next"] for one in row.columns if "next" in one})


def _stored(entry: Entry) -> dict[str, Any]:
    table = entry.table
    columns: list[dict[str, Any]] = []
    for column in table.columns:
        stored: dict[str, Any] = {"name": column.name, "type": column.type.value, "key": column.key, "slot": column.slot}
        stored |= {"auto": column.auto, "within": column.within, "source": column.source}
        if column.key in entry.next_values:
            stored["next"] = entry.next_values[column.key]
        columns.append({name: value for name, value in stored.items() if value is not None and value is not False})
    return {
        "name": table.name,
        "name_key": name_key(table.name),
        "description": table.description,
        "unique_key": table.unique_key,
        "columns": columns,
        "next_column": entry.next_column,
        "next_key": table.next_key,
        "version": table.version,
        "updated_at": table.updated_at,
    }
