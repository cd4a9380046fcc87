"""Document frequencies for BM25 in SQL, by owner and kind of document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from memory.ports import Terms, TermStatistics
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_window import TERM_FREQUENCIES, TERM_TOTALS

_BATCH = 500
"""Values in one statement: within the limits of every SQLite."""


class SqlTerms(Terms):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def statistics(self, tenant: str, owner_keys: Sequence[str], kind: str, terms: Collection[int]) -> TermStatistics:
        owners = sorted(set(owner_keys))
        if not owners:
            return TermStatistics(0, 0, {})
        wanted = sorted(set(terms))

        def work(connection: Connection) -> TermStatistics:
            documents = length = 0
            found: dict[int, int] = {}
            for some_owners in _batches(owners):
                totals = connection.execute(_TOTALS, {"b_tenant": tenant, "b_owners": some_owners, "b_kind": kind}).one()
                documents += int(totals.documents)
                length += int(totals.length)
                for some_terms in _batches(wanted):
                    binds = {"b_tenant": tenant, "b_owners": some_owners, "b_kind": kind, "b_terms": some_terms}
                    for row in connection.execute(_FREQUENCIES, binds):
                        found[row.term] = found.get(row.term, 0) + int(row.documents)
            return TermStatistics(documents, length, found)

        return await self._database.read(work)


def replace_terms(
    connection: Connection,
    tenant: str,
    owner_key: str,
    kind: str,
    old: Collection[int],
    new: Collection[int],
    length_delta: int,
    documents_delta: int,
) -> None:
    """One document's terms were ``old`` and are ``new``: distinct terms, empty where it was or is not there.

    Within the caller's transaction. For many documents of one owner add up and call :func:`change_terms` once.

    Args:
        length_delta: by how many tokens the document has become longer.
        documents_delta: 1 for a new document, -1 for one that is gone, else 0.
    """
    before, after = set(old), set(new)
    deltas = dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1)
    change_terms(connection, tenant, owner_key, kind, deltas, length_delta, documents_delta)


def change_terms(
    connection: Connection,
    tenant: str,
    owner_key: str,
    kind: str,
    deltas: Mapping[int, int],
    length_delta: int,
    documents_delta: int,
) -> None:
    """Add to the document frequencies of an owner, within the caller's transaction. Nothing falls below zero.

    The row of totals is written first: two writers of one owner wait for each other there and cannot deadlock over the terms.
    """
    changed = {term: delta for term, delta in deltas.items() if delta}
    if not (changed or length_delta or documents_delta):
        return
    key = {"tenant": tenant, "owner_key": owner_key, "kind": kind}
    is_sqlite = connection.dialect.name == "sqlite"
    connection.execute(
        _ADD_TOTALS_SQLITE if is_sqlite else _ADD_TOTALS_POSTGRES,
        {**key, "documents": max(documents_delta, 0), "length": max(length_delta, 0)}
        | {"b_documents": documents_delta, "b_length": length_delta},
    )
    if changed:
        rows = [{**key, "term": term, "documents": changed[term]} for term in sorted(changed)]
        connection.execute(_ADD_FREQUENCIES_SQLITE if is_sqlite else _ADD_FREQUENCIES_POSTGRES, rows)
    for terms in _batches(sorted(term for term, delta in changed.items() if delta < 0)):
        connection.execute(_DROP_EMPTY, {"b_tenant": tenant, "b_owners": [owner_key], "b_kind": kind, "b_terms": terms})


def clear_terms(connection: Connection, kind: str, *, tenant: str | None = None, owner_key: str | None = None) -> None:
    """Forget the statistics of one kind: of all tenants, of one, or of one owner in it. Within the caller's transaction."""
    for table in (TERM_TOTALS, TERM_FREQUENCIES):
        statement = delete(table).where(table.c.kind == kind)
        if tenant is not None:
            statement = statement.where(table.c.tenant == tenant)
        if owner_key is not None:
            statement = statement.where(table.c.owner_key == owner_key)
        connection.execute(statement)


_OF_OWNERS = (
    TERM_TOTALS.c.tenant == bindparam("b_tenant"),
    TERM_TOTALS.c.owner_key.in_(bindparam("b_owners", expanding=True)),
    TERM_TOTALS.c.kind == bindparam("b_kind"),
)
_TOTALS = select(
    func.coalesce(func.sum(TERM_TOTALS.c.documents), 0).label("documents"),
    func.coalesce(func.sum(TERM_TOTALS.c.length), 0).label("length"),
).where(*_OF_OWNERS)
_THESE_TERMS = (
    TERM_FREQUENCIES.c.tenant == bindparam("b_tenant"),
    TERM_FREQUENCIES.c.owner_key.in_(bindparam("b_owners", expanding=True)),
    TERM_FREQUENCIES.c.kind == bindparam("b_kind"),
    TERM_FREQUENCIES.c.term.in_(bindparam("b_terms", expanding=True)),
)
_FREQUENCIES = (
    select(TERM_FREQUENCIES.c.term, func.sum(TERM_FREQUENCIES.c.documents).label("documents"))
    .where(*_THESE_TERMS)
    .group_by(TERM_FREQUENCIES.c.term)
)
_DROP_EMPTY = delete(TERM_FREQUENCIES).where(*_THESE_TERMS, TERM_FREQUENCIES.c.documents <= 0)


def _add_totals(upsert: Any) -> Any:
    def more(column: Any, delta: Any) -> Any:
        return case((column + delta < 0, 0), else_=column + delta)

    columns = TERM_TOTALS.c
    documents, length = (bindparam(name, type_=columns.documents.type) for name in ("b_documents", "b_length"))
    return (
        upsert(TERM_TOTALS)
        .values({column.name: bindparam(column.name) for column in columns})
        .on_conflict_do_update(
            index_elements=["tenant", "owner_key", "kind"],
            set_={"documents": more(columns.documents, documents), "length": more(columns.length, length)},
        )
    )


def _add_frequencies(upsert: Any) -> Any:
    added = upsert(TERM_FREQUENCIES)
    return added.on_conflict_do_update(
        index_elements=["tenant", "owner_key", "kind", "term"],
        set_={"documents": TERM_FREQUENCIES.c.documents + added.excluded.documents},
    )


_ADD_TOTALS_SQLITE, _ADD_TOTALS_POSTGRES = _add_totals(sqlite.insert), _add_totals(postgresql.insert)
_ADD_FREQUENCIES_SQLITE, _ADD_FREQUENCIES_POSTGRES = _add_frequencies(sqlite.insert), _add_frequencies(postgresql.insert)


def _batches(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]
