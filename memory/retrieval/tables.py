"""Vectors of the rows of knowledge tables: made when a search needs them, and kept in step with the rows.

A row is embedded once for each column or expression that is searched by. The tables' own store says which rows are behind; nothing
of the tables themselves is ever changed from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from memory.model.embedded import Embedding
from memory.model.owner import Owner
from memory.ports import PAYLOAD_OWNER, CollectionSpec, Embedder, Filter, Hit, Point, SparseVector, VectorIndex, VectorQuery
from memory.ports.knowledge import EmbeddedColumn, KnowledgeEmbeddings, RowMark
from memory.retrieval.documents import PAYLOAD_REVISION, collection_name, point_id, rank
from memory.retrieval.reconcile import Cursor, ReconcileReport

KIND: Final = "knowledge"
TABLE: Final = "table"
COLUMN: Final = "column"
ROW: Final = "row"
BATCH: Final = 32
PAGE: Final = 1_000
MAX_NEAREST: Final = 10_000
"""Points that one query gives at most."""
MAX_RANKED: Final = 2_000
"""Rows that are behind and are put in an order before they are embedded: what is likely to be found comes first."""
_NO_WORDS: Final = SparseVector((), ())


@dataclass(frozen=True, slots=True)
class Brought:
    """``left``: rows that are still to be embedded."""

    embedded: int
    left: int


class TableVectors:
    """For one process. ``embedder`` None: nothing is embedded, and searches go by words."""

    def __init__(self, index: VectorIndex, embeddings: KnowledgeEmbeddings, embedder: Embedder | None) -> None:
        self._index = index
        self.embeddings = embeddings
        self.embedder = embedder
        self._ready = False
        self._bringing: dict[tuple[str, int, str], asyncio.Lock] = {}

    def spec(self) -> CollectionSpec:
        return CollectionSpec(
            collection_name(KIND),
            self.embedder.dimension if self.embedder else None,
            self.embedder.name if self.embedder else None,
            {TABLE: "keyword", COLUMN: "keyword", ROW: "integer", PAYLOAD_REVISION: "integer"},
        )

    async def ready(self) -> str:
        """The collection, made on first use. Raises InvalidSettings where it was made for another embedder."""
        spec = self.spec()
        if not self._ready:
            await self._index.ensure(spec)
            self._ready = True
        return spec.name

    async def recreate(self) -> int:
        """Drop all vectors of tables; searches make anew what they need. Returns how many rows had been embedded."""
        count = await self.embeddings.reset()
        await self._index.recreate(self.spec())
        return count + await self.embeddings.reset()

    # -------------------------------------------------------------------------------------------------------------- embedding

    async def bring(
        self,
        what: Embedding,
        *,
        budget_s: float,
        keys: Collection[int] | None = None,
        like: str | None = None,
    ) -> Brought:
        """Embed rows that are behind, and remove vectors of rows that are gone.

        Args:
            budget_s: no batch is begun after so many seconds; what is left is done by the next search.
            keys: of these rows only; None: all.
            like: a text: where many rows are behind, those that have words of it come first.

        Raises StoreUnavailable, or what the embedder raises; what was embedded until then stays.
        """
        if self.embedder is None:
            return Brought(0, 0)
        place = (what.table.owner.path, what.table.table_id, what.column_key)
        lock = self._bringing.setdefault(place, asyncio.Lock())
        try:
            async with lock:  # a second search of the same column does not embed the same rows beside it
                return await self._bring(what, self.embedder, budget_s, keys, like)
        finally:
            if not lock.locked():
                self._bringing.pop(place, None)

    async def _bring(
        self, what: Embedding, embedder: Embedder, budget_s: float, keys: Collection[int] | None, like: str | None
    ) -> Brought:
        until = asyncio.get_running_loop().time() + budget_s
        behind, gone = await self.embeddings.behind(what)
        column = _column(what)
        if gone:
            await self.remove(column, gone)
        wanted = list(behind) if keys is None else [key for key in behind if key in set(keys)]
        if like is not None and len(wanted) > BATCH:
            wanted = await self._likely_first(what, wanted, like)
        done = 0
        for start in range(0, len(wanted), BATCH):
            if start and asyncio.get_running_loop().time() > until:
                break
            done += await self._embed(what, embedder, wanted[start : start + BATCH])
        return Brought(done, len(wanted) - done)

    async def _likely_first(self, what: Embedding, keys: Sequence[int], like: str) -> list[int]:
        texts = await self.embeddings.texts(what, keys[:MAX_RANKED])
        some = [key for key in keys[:MAX_RANKED] if key in texts]
        found = await asyncio.to_thread(rank, like, [texts[key].text or "" for key in some])
        first = [some[number] for number, _ in found]
        chosen = set(first)
        return [*first, *(key for key in keys if key not in chosen)]

    async def _embed(self, what: Embedding, embedder: Embedder, keys: Sequence[int]) -> int:
        collection, column = await self.ready(), _column(what)
        texts = await self.embeddings.texts(what, keys)
        live = {key: one.text for key, one in texts.items() if one.text is not None}
        vectors = await embedder.passages(list(live.values())) if live else ()
        points = [
            Point(
                point_id=_point_id(column, key),
                owner=column.owner.path,
                sparse=_NO_WORDS,
                dense=tuple(vector),
                payload={
                    TABLE: str(column.table_id),
                    COLUMN: column.column_key,
                    ROW: key,
                    PAYLOAD_REVISION: texts[key].revision,
                },
            )
            for key, vector in zip(live, vectors, strict=True)
        ]
        empty = [_point_id(column, key) for key in texts if key not in live]
        if empty:
            await self._index.delete(collection, empty)
        if points:
            await self._index.upsert(collection, points)
        await self.embeddings.mark(column, [RowMark(key, one.revision, key in live) for key, one in texts.items()])
        return len(keys)

    async def remove(self, column: EmbeddedColumn, keys: Collection[int]) -> None:
        """Vectors first: what is marked is removed again, what is not would stay for ever."""
        await self._index.delete(await self.ready(), [_point_id(column, key) for key in keys])
        await self.embeddings.unmark(column, keys)

    # --------------------------------------------------------------------------------------------------------------- nearest

    async def nearest(
        self, what: Embedding, vector: tuple[float, ...], *, limit: int, keys: Collection[int] | None = None
    ) -> dict[int, float]:
        """Row → cosine distance (0 to 2), the nearest first. ``keys``: of these rows only, all of them."""
        collection = await self.ready()
        if keys is None:
            return await self._query(collection, what, vector, limit, None)
        found: dict[int, float] = {}
        ordered = sorted(keys)
        for start in range(0, len(ordered), PAGE):
            some = ordered[start : start + PAGE]
            found |= await self._query(collection, what, vector, len(some), some)
        return dict(sorted(found.items(), key=lambda one: (one[1], -one[0])))

    async def _query(
        self, collection: str, what: Embedding, vector: tuple[float, ...], limit: int, keys: Sequence[int] | None
    ) -> dict[int, float]:
        wanted: dict[str, Sequence[str | int]] = {TABLE: [str(what.table.table_id)], COLUMN: [what.column_key]}
        if keys is not None:
            wanted[ROW] = keys
        limit = min(limit, MAX_NEAREST)
        query = VectorQuery(owners=(what.table.owner.path,), limit=limit, depth=limit, dense=vector, filter=Filter(any_of=wanted))
        hits = await self._index.query(collection, query)
        return {int(hit.payload[ROW]): 1.0 - hit.score for hit in hits}

    # ---------------------------------------------------------------------------------------------------------------- upkeep

    async def reconcile(self, report: ReconcileReport, cursor: Cursor, *, limit: int, repair: bool = True) -> None:
        """Points against rows, and what is marked against points, about ``limit`` of each. What is not embedded yet is no drift.

        Raises StoreUnavailable; what was mended stays so.
        """
        if self.embedder is None:
            return
        for counts in ("checked", "missing", "orphaned", "stale", *(("repaired",) if repair else ())):
            report.add(counts, KIND, 0)
        await self._remove_orphans(report, cursor, limit, repair)
        await self._find_missing(report, cursor, limit, repair)

    async def _remove_orphans(self, report: ReconcileReport, cursor: Cursor, limit: int, repair: bool) -> None:
        """Points of rows, columns and tables that are gone."""
        collection, looked_at = await self.ready(), 0
        while looked_at < limit:
            page = await self._index.scroll(collection, after=cursor.point, limit=PAGE)
            if not page:
                cursor.point = None
                return
            cursor.point = page[-1].point_id
            looked_at += len(page)
            there: dict[EmbeddedColumn, frozenset[int]] = {}
            orphans: list[str] = []
            for hit in page:
                column = _column_of(hit)
                if column not in there:
                    there[column] = await self.embeddings.there(column)
                if int(hit.payload[ROW]) not in there[column]:
                    orphans.append(hit.point_id)
            report.add("checked", KIND, len(page))
            report.add("orphaned", KIND, len(orphans))
            if repair and orphans:
                await self._index.delete(collection, orphans)
                report.add("repaired", KIND, len(orphans))

    async def _find_missing(self, report: ReconcileReport, cursor: Cursor, limit: int, repair: bool) -> None:
        """What counts as embedded and has no such point is marked no more: the next search embeds it."""
        looked_at, of_owner = 0, dict[EmbeddedColumn, dict[int, int]]()
        while looked_at < limit:
            after = None if cursor.row is None else _column_at(cursor.row)
            columns = await self.embeddings.columns(after=after, limit=20)
            if not columns:
                cursor.row = None
                return
            for column in columns:
                if not any(one.owner == column.owner for one in of_owner):
                    of_owner = await self._points(column)
                marked, points = await self.embeddings.marked(column), of_owner.get(column, {})
                wrong = {key for key, mark in marked.items() if mark.live and points.get(key) != mark.revision}
                if wrong:  # the points were read before the marks: what is marked anew since is none
                    of_owner = await self._points(column)
                    points = of_owner.get(column, {})
                    wrong = {key for key in wrong if points.get(key) != marked[key].revision}
                gone = marked.keys() - await self.embeddings.there(column)
                report.add("missing", KIND, len(wrong - gone))
                if repair and (wrong or gone):
                    await self.embeddings.unmark(column, wrong | gone)
                    report.add("repaired", KIND, len(wrong - gone))
                looked_at += max(1, len(marked))
                cursor.row = (column.owner.path, f"{column.table_id}/{column.column_key}")

    async def _points(self, column: EmbeddedColumn) -> dict[EmbeddedColumn, dict[int, int]]:
        """All of an owner: column → row → revision."""
        collection, after = await self.ready(), None
        found: dict[EmbeddedColumn, dict[int, int]] = {column: {}}
        while page := await self._index.scroll(collection, owner=column.owner.path, after=after, limit=PAGE):
            after = page[-1].point_id
            for hit in page:
                found.setdefault(_column_of(hit), {})[int(hit.payload[ROW])] = int(hit.payload[PAYLOAD_REVISION])
        return found


def _column(what: Embedding) -> EmbeddedColumn:
    return EmbeddedColumn(what.table.owner, what.table.table_id, what.column_key)


def _point_id(column: EmbeddedColumn, key: int) -> str:
    return point_id(column.owner, KIND, f"{column.table_id}/{column.column_key}/{key}")


def _column_of(hit: Hit) -> EmbeddedColumn:
    return _column_at((str(hit.payload[PAYLOAD_OWNER]), f"{hit.payload[TABLE]}/{hit.payload[COLUMN]}"))


def _column_at(place: tuple[str, str]) -> EmbeddedColumn:
    tenant, _, owner = place[0].partition("/")
    table, _, column = place[1].partition("/")
    return EmbeddedColumn(Owner.of_key(tenant, owner), int(table), column)
