"""Search over tables by meaning: rows by the sum of their distances to what is asked for.

The distance of a row to a reference is the cosine distance of their vectors, made on demand and kept in the vector index. Without
an embedder, or while it or the vectors are away, it is a distance by words, with the frequencies of the table's own rows. Rows are
always read from the tables: a vector of a row that is gone finds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import structlog

from memory.knowledge.distances import AWAY, Distances
from memory.knowledge.lineage import PREVIOUS, in_terms_of, origins
from memory.knowledge.ranking import Place, summed
from memory.model.embedded import embedding_of
from memory.model.federation import LEFT_OUT
from memory.model.knowledge import MAX_LIMIT, SOURCE_FIELD, FilterQuery, JoinStep, Row, SearchQuery, Table, ToolProblem
from memory.model.knowledge import Distances as Far
from memory.model.knowledge_names import name_key
from memory.model.owner import Owner, View
from memory.ports import Embedder, VectorIndex
from memory.ports.knowledge import KnowledgeEmbeddings, KnowledgeTables
from memory.retrieval.tables import MAX_NEAREST, Brought, TableVectors

VECTORIZE_BUDGET_S: Final = 45.0
MAX_EXACT: Final = 5_000
"""Rows that a filter takes whose distances are all looked up. Of more, those among the nearest 10,000 are compared."""
MAX_DISTANCES: Final = 20_000
"""Over all references, that a join is put in order by."""
CHECKED: Final = 500
"""Rows that are held against a filter at once."""

_log = structlog.get_logger("afterturn.knowledge")


class KnowledgeSearch:
    """For one process."""

    def __init__(
        self, tables: KnowledgeTables, embeddings: KnowledgeEmbeddings, *, vectors: VectorIndex, embedder: Embedder | None
    ) -> None:
        self._tables = tables
        self._vectors = TableVectors(vectors, embeddings, embedder)
        self._distances = Distances(self._vectors)

    async def search(self, view: View, query: SearchQuery) -> Sequence[Row]:
        """At most ``k`` rows, the nearest first, filled up with the newest rows that have nothing to compare.

        Raises ToolProblem, StoreUnavailable.
        """
        if query.joins is not None:
            return await self._joined(view, query, query.joins)
        if query.table is None:
            raise ToolProblem("bad_arguments", "a search is over a table or over joins")
        one = _Named(self._tables, view, query.table, named(await self._tables.tables(view), query.table))
        if query.filter is None:
            ranked = summed(await self._distances.of(one.tables, query.references, k=query.k))
            rows = await one.rows(ranked, query.k)
            return [*rows, *await one.newest(query.k - len(rows), beside=ranked)]
        matching = await one.matching(query.filter)
        is_whole = len(matching) <= MAX_EXACT
        places = list(matching) if is_whole else None
        ranked = summed(await self._distances.of(one.tables, query.references, k=query.k, places=places, most=MAX_NEAREST))
        if is_whole:
            rows = [matching[place] for place in ranked if place in matching][: query.k]
        else:
            rows = await one.rows_that(query.filter, ranked, query.k)
        rest = [row for place, row in matching.items() if place not in ranked]
        return [*rows, *rest[: query.k - len(rows)]]

    async def _joined(self, view: View, query: SearchQuery, steps: Sequence[JoinStep]) -> Sequence[Row]:
        """The database puts the rows of the join in order; it is told how far the rows of each table are."""
        seen = await self._tables.tables(view)
        names = list(dict.fromkeys(name for step in steps for name in step.tables if name not in PREVIOUS))
        tables = {name: named(seen, name) for name in names}
        known = origins(steps, tables)
        most = MAX_DISTANCES // max(1, len(query.references))
        ranked: list[Far] = []
        for reference, text in query.references.items():
            name, expression = in_terms_of(reference, known, names)
            (near,) = await self._distances.of(tables[name], {expression: text}, k=query.k, most=most)
            rows = {(tables[name][number].source, key): far for (number, key), far in near.items()}
            ranked.append(Far(name, rows))
        return await self._tables.join_ranked(view, steps, ranked, where=query.filter, k=query.k)

    async def vectorize(self, view: View, owner: Owner, table: str, source: str, *, keys: Collection[int] | None = None) -> Brought:
        """Embed what is behind in a column or expression, as far as there is time. Raises ToolProblem.

        What cannot be embedded now (the embedder is away) is left to the searches.
        """
        found = [one for one in named(await self._tables.tables(view), table) if one.owner == owner]
        if not found:
            raise ToolProblem("unknown_table", f"there is no table {table[:80]!r} in this destination")
        what = embedding_of(found[0], source)
        try:
            return await self._vectors.bring(what, budget_s=VECTORIZE_BUDGET_S, keys=keys)
        except AWAY as error:
            _log.warning("rows_not_embedded", error=type(error).__name__)
            behind, _ = await self._vectors.embeddings.behind(what)
            return Brought(0, len(behind))


class _Named:
    """The tables of one name, which are read as one."""

    def __init__(self, port: KnowledgeTables, view: View, name: str, tables: Sequence[Table]) -> None:
        self._port = port
        self._view = view
        self._name = name
        self.tables = tables
        self._places = {table.source: number for number, table in enumerate(tables)}

    async def rows(self, ranked: Collection[Place], k: int) -> list[Row]:
        """The first ``k`` of these that there are, in their order."""
        found: list[Row] = []
        wanted = list(ranked)
        for start in range(0, len(wanted), CHECKED):
            some = wanted[start : start + CHECKED]
            there: dict[Place, Row] = {}
            for number, table in enumerate(self.tables):
                keys = [key for place, key in some if place == number]
                if keys:
                    there |= {(number, key): row for key, row in (await self._port.rows(table, keys)).items()}
            found += [there[place] for place in some if place in there]
            if len(found) >= k:
                break
        return found[:k]

    async def rows_that(self, condition: str, ranked: Collection[Place], k: int) -> list[Row]:
        """The first ``k`` of these that fulfil a condition."""
        found: list[Row] = []
        wanted = list(ranked)
        for start in range(0, len(wanted), CHECKED):
            some = wanted[start : start + CHECKED]
            only = {t.source: [key for place, key in some if place == number] for number, t in enumerate(self.tables)}
            there = {place: row for page in await self._page(condition, MAX_LIMIT, 0, only) for place, row in page.items()}
            found += [there[place] for place in some if place in there]
            if len(found) >= k:
                break
        return found[:k]

    async def matching(self, condition: str) -> dict[Place, Row]:
        """Rows that fulfil a condition, newest first; more than MAX_EXACT where there are more."""
        found: dict[Place, Row] = {}
        offset = 0
        while len(found) <= MAX_EXACT:
            parts = await self._page(condition, MAX_LIMIT, offset)
            for part in parts:
                found |= part
            offset += MAX_LIMIT
            if all(len(part) < MAX_LIMIT for part in parts):
                break
        return found

    async def newest(self, count: int, *, beside: Collection[Place]) -> list[Row]:
        """The newest rows that are not among these."""
        found: list[Row] = []
        offset = 0
        while count > len(found):
            parts = await self._page(None, MAX_LIMIT, offset)
            found += [row for part in parts for place, row in part.items() if place not in beside]
            offset += MAX_LIMIT
            if all(len(part) < MAX_LIMIT for part in parts):
                break
        return found[: max(0, count)]

    async def _page(
        self, condition: str | None, limit: int, offset: int, only: Mapping[str, Collection[int]] | None = None
    ) -> list[dict[Place, Row]]:
        """One part for the tables that go together, and one for each that does not."""
        found = await self._port.filter(self._view, FilterQuery(condition, offset, limit, [self._name], only))
        parts = [rows for name, rows in found.items() if name != LEFT_OUT]
        return [{place: row for row in rows if (place := self._place(row)) is not None} for rows in parts]

    def _place(self, row: Row) -> Place | None:
        number = self._places.get(str(row.get(SOURCE_FIELD)))
        if number is None:  # of a team that has come since
            return None
        key = row.get(self.tables[number].unique_key)
        return (number, key) if isinstance(key, int) else None


def named(tables: Sequence[Table], name: str) -> list[Table]:
    """Those that a name means, as reads take it. Raises ToolProblem ``unknown_table``."""
    source, _, bare = name.rpartition(".")
    found = [one for one in tables if name_key(one.name) == name_key(bare) and source in ("", one.source)]
    if not found:
        known = ", ".join(dict.fromkeys(one.name for one in tables))[:1_000]
        raise ToolProblem("unknown_table", f"there is no table {name[:80]!r}; there are: {known}")
    return found
