"""Qdrant's engine in this process: one shard per collection in a folder that one process owns.

An acknowledged write is in the shard's write-ahead log and outlives the death of the process; what a power cut takes is put
back by the reconciliation. The engine blocks, so each call runs in one of a few threads of this adapter.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import shutil
import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import qdrant_edge as qdrant

from memory.model.errors import AfterturnError, InvalidSettings, StoreUnavailable
from memory.ports.vectors import PAYLOAD_OWNER, CollectionSpec, Filter, Hit, Point, SparseVector, VectorQuery
from memory.stores.folder_lock import FolderLock
from memory.stores.vectors.rules import (
    BATCH,
    DENSE,
    LAST_ID,
    SPARSE,
    Candidate,
    after_id,
    all_indexes,
    check_id,
    check_name,
    check_page,
    check_points,
    check_query,
    check_spec,
    finds_nothing,
    fuse,
    mismatch,
    no_collection,
    payload_of,
    sidecar_text,
    wrong_dimension,
)
from memory.telemetry import store_call

T = TypeVar("T")
logger = logging.getLogger(__name__)

SIDECAR: Final = "afterturn.json"
"""File in a shard's folder: dimension and model of its dense vectors."""
MAX_WAITING: Final = 2_000
OPEN_TIMEOUT_S: Final = 60.0
"""Making a collection, loading one whose log is replayed, or writing one anew."""

MAX_REWRITTEN: Final = 200_000
"""Points of a collection that is written anew for an erasure: some ten seconds, while others who write wait."""

_FLUSH_AFTER = 2_000
"""Changed points after which the shard is flushed, so that its log can be cut and a start replays little."""
_INDEX_PARAMS: Final[dict[str, qdrant.PayloadSchemaType]] = {
    "keyword": qdrant.PayloadSchemaType.Keyword,
    "integer": qdrant.PayloadSchemaType.Integer,
    "float": qdrant.PayloadSchemaType.Float,
}


@dataclass(slots=True)
class _Open:
    shard: qdrant.EdgeShard
    dimension: int | None
    model: str | None
    unflushed: int = 0


_WAY_OUT = (
    "stop it, run one `afterturn dev` that the others share, set AFTERTURN_DATA_DIR to another folder,"
    " or AFTERTURN_VECTOR_URL to a Qdrant server"
)


class EdgeVectors:
    """The port ``VectorIndex`` on the embedded engine. Takes the folder's lock with the first call, keeps it until ``aclose``.

    Raises FolderInUse while another process has it.
    """

    def __init__(self, folder: Path, *, owner: str = "afterturn", timeout_s: float = 5.0, threads: int = 4) -> None:
        """Opens nothing. ``owner``: what this process is, for the message that another one shows."""
        self._folder = folder
        self._timeout_s = timeout_s
        self._lock = FolderLock(folder, owner=owner, what=f"the vectors in {folder} are", way_out=_WAY_OUT)
        self._threads = ThreadPoolExecutor(threads, "afterturn-vectors")
        self._guard = threading.RLock()
        self._changing = threading.RLock()
        """Of those who write, one at a time: nothing is written to a collection that is being replaced. Taken before the guard."""
        self._open: dict[str, _Open] = {}
        self._replaced = 0
        """Collections so far that another one took the place of."""
        self._waiting = 0
        self._closed = False

    # -------------------------------------------------------------------------------------------------------- collections

    async def ensure(self, collection: CollectionSpec) -> None:
        check_spec(collection)
        await self._run(lambda: self._ensure(collection), timeout_s=OPEN_TIMEOUT_S)

    async def missing_indexes(self, collection: CollectionSpec) -> Sequence[str]:
        check_spec(collection)

        def work() -> list[str]:
            wanted = all_indexes(collection)
            opened = self._find(collection.name)
            if opened is None:
                return list(wanted)
            there = {field: info.data_type for field, info in opened.shard.info().payload_schema.items()}
            return [field for field, kind in wanted.items() if there.get(field) != _INDEX_PARAMS[kind]]

        return await self._run(work)

    async def recreate(self, collection: CollectionSpec) -> None:
        check_spec(collection)

        def work() -> None:
            with self._changing:
                self._make(collection)

        await self._run(work, timeout_s=OPEN_TIMEOUT_S)

    def _ensure(self, spec: CollectionSpec) -> None:
        with self._guard:
            opened = self._find(spec.name)
            if opened is None:
                self._make(spec)
                return
            wrong = mismatch(spec, opened.dimension, opened.model)
            if wrong is not None:
                raise wrong
            _index(opened.shard, spec)

    def _make(self, spec: CollectionSpec, fill: Callable[[qdrant.EdgeShard], None] | None = None) -> None:
        """Made complete beside its place and moved there: a crash leaves the old collection or the new one, never half of one."""
        with self._guard:
            self._own_folder()
            place, fresh, old = self._places(spec.name)
            for leftover in (fresh, old):
                shutil.rmtree(leftover, ignore_errors=True)
            shard = qdrant.EdgeShard.create(str(fresh), _config(spec))
            _index(shard, spec)
            if fill is not None:
                fill(shard)
            shard.flush()
            shard.close()
            (fresh / SIDECAR).write_text(sidecar_text(spec), "utf-8")
            opened = self._open.pop(spec.name, None)
            if opened is not None:
                self._replaced += 1
                opened.shard.close()
            if place.exists():
                place.rename(old)
            fresh.rename(place)
            self._open[spec.name] = self._load(spec.name)
            shutil.rmtree(old, ignore_errors=True)

    def _places(self, name: str) -> tuple[Path, Path, Path]:
        """Of the collection, of the one that is to take its place, and of the one that was there before."""
        return self._folder / name, self._folder / f"{name}.new", self._folder / f"{name}.old"

    def _own_folder(self) -> None:
        with self._guard:
            if self._closed:
                raise StoreUnavailable("the vector index was closed")
            self._lock.acquire()

    def _find(self, name: str) -> _Open | None:
        """The collection, loaded from the folder when this process has not used it yet; None when there is none."""
        opened = self._open.get(name)
        if opened is not None:
            return opened
        with self._guard:
            self._own_folder()
            if name not in self._open:
                place, fresh, old = self._places(name)
                if not place.exists() and (fresh / SIDECAR).exists():
                    fresh.rename(place)  # a crash on its way there
                if not (place / SIDECAR).exists():
                    return None
                self._open[name] = self._load(name)
                for leftover in (fresh, old):
                    shutil.rmtree(leftover, ignore_errors=True)
            return self._open[name]

    def _get(self, name: str) -> _Open:
        opened = self._find(name)
        if opened is None:
            raise no_collection(name)
        return opened

    def _load(self, name: str) -> _Open:
        place = self._folder / name
        try:
            made = json.loads((place / SIDECAR).read_text("utf-8"))
            dimension, model = made["dimension"], made["model"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidSettings(f"{place / SIDECAR} is not readable; remove {place} and run `afterturn reindex`") from None
        return _Open(qdrant.EdgeShard.load(str(place)), dimension, model)

    # ------------------------------------------------------------------------------------------------------------- writing

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        check_name(collection)
        check_points(points)

        def work() -> None:
            opened = self._get(collection)
            if any(point.dense is not None and len(point.dense) != opened.dimension for point in points):
                raise wrong_dimension(collection)
            for start in range(0, len(points), BATCH):
                batch = [_engine_point(point) for point in points[start : start + BATCH]]
                self._change(collection, qdrant.UpdateOperation.upsert_points(batch), len(batch))

        await self._run(work)

    async def delete(self, collection: str, point_ids: Collection[str]) -> None:
        check_name(collection)
        ids: list[qdrant.PointId] = [check_id(point_id) for point_id in point_ids]

        def work() -> None:
            self._get(collection)
            if ids:
                self._change(collection, qdrant.UpdateOperation.delete_points(ids), len(ids))

        await self._run(work)

    async def delete_owner(self, collection: str, owner: str) -> None:
        check_name(collection)
        await self._run(lambda: self._delete_owner(collection, owner), timeout_s=OPEN_TIMEOUT_S)

    def _delete_owner(self, name: str, owner: str) -> None:
        """A deleted point stays in the engine's files and in its log, with its vectors: they are written anew where they still name
        the owner. Repeated after a crash or a time-out it goes on, or finds nothing to do."""
        with self._changing:
            self._change(name, qdrant.UpdateOperation.delete_points_by_filter(_filter((owner,))), _FLUSH_AFTER)
            if not _names(self._folder / name, owner):
                return
            opened = self._get(name)
            count = opened.shard.count(qdrant.CountRequest(exact=True))
            if count > MAX_REWRITTEN:
                logger.warning(
                    "the files of %s keep copies of deleted vectors: with %d points it is too large to be written anew; "
                    "`afterturn reindex` does it",
                    name,
                    count,
                )
                return
            kinds = {schema: kind for kind, schema in _INDEX_PARAMS.items()}
            indexes = {field: kinds[info.data_type] for field, info in opened.shard.info().payload_schema.items()}
            spec = CollectionSpec(name, opened.dimension, opened.model, indexes)
            self._make(spec, lambda fresh: _copy(opened.shard, fresh))

    def _change(self, collection: str, operation: qdrant.UpdateOperation, size: int) -> None:
        with self._changing:
            opened = self._get(collection)
            opened.shard.update(operation)
            opened.unflushed += size
            if opened.unflushed >= _FLUSH_AFTER:
                opened.unflushed = 0
                opened.shard.flush()

    # ------------------------------------------------------------------------------------------------------------- reading

    async def query(self, collection: str, query: VectorQuery) -> Sequence[Hit]:
        check_name(collection)
        check_query(query)
        return await self._run(lambda: self._query(collection, query))

    def _query(self, collection: str, query: VectorQuery) -> list[Hit]:
        opened = self._get(collection)
        if finds_nothing(query):
            return []
        dense = query.dense
        if dense and len(dense) != opened.dimension:
            raise wrong_dimension(collection)
        condition = _filter(query.owners, query.filter)
        sides: list[qdrant.Query | None] = [None, None]
        if query.sparse is not None and query.sparse.indices:
            sides[0] = qdrant.Query.Nearest(_engine_sparse(query.sparse), using=SPARSE)
        if dense:
            sides[1] = qdrant.Query.Nearest(list(dense), using=DENSE)
        found = [self._nearest(opened, side, query.depth, condition) for side in sides]
        return fuse(query, *found)

    @staticmethod
    def _nearest(opened: _Open, side: qdrant.Query | None, depth: int, condition: qdrant.Filter) -> list[Candidate]:
        if side is None:
            return []
        found = opened.shard.query(qdrant.QueryRequest(limit=depth, query=side, filter=condition, with_payload=True))
        return [Candidate(str(point.id), point.score, point.payload or {}) for point in found]

    async def scroll(
        self, collection: str, *, owner: str | None = None, after: str | None = None, limit: int = 500
    ) -> Sequence[Hit]:
        check_name(collection)
        check_page(limit)
        if after == LAST_ID:
            return []
        offset = after_id(after)

        def work() -> list[Hit]:
            condition = None if owner is None else _filter((owner,))
            request = qdrant.ScrollRequest(offset=offset, limit=limit, filter=condition, with_payload=True)
            records, _ = self._get(collection).shard.scroll(request)
            return [Hit(str(record.id), 0.0, record.payload or {}) for record in records]

        return await self._run(work)

    async def count(self, collection: str, *, owner: str | None = None) -> int:
        check_name(collection)
        condition = None if owner is None else _filter((owner,))
        return await self._run(lambda: self._get(collection).shard.count(qdrant.CountRequest(exact=True, filter=condition)))

    # ------------------------------------------------------------------------------------------------------------ lifetime

    async def ping(self) -> None:
        """Takes the folder, if nobody else has it."""
        await self._run(self._own_folder)

    async def aclose(self) -> None:
        """Let running calls end, write everything out and give the folder back; may be called twice."""

        def close() -> None:
            self._threads.shutdown(wait=True, cancel_futures=True)
            with self._guard:
                self._closed = True
                while self._open:
                    self._open.popitem()[1].shard.close()
                self._lock.release()

        await asyncio.to_thread(close)

    async def _run(self, work: Callable[[], T], *, timeout_s: float | None = None) -> T:
        with store_call("vectors", work):
            return await self._in_thread(work, timeout_s)

    async def _in_thread(self, work: Callable[[], T], timeout_s: float | None) -> T:
        limit = timeout_s or self._timeout_s
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(f"the vector index is overloaded: {self._waiting} calls are waiting")
        try:
            future = self._threads.submit(self._perform, work)
        except RuntimeError:
            raise StoreUnavailable("the vector index was closed") from None
        self._waiting += 1
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StoreUnavailable(f"the vector index did not answer within {limit:g} s") from None
        finally:
            self._waiting -= 1

    def _perform(self, work: Callable[[], T]) -> T:
        try:
            replaced = self._replaced
            try:
                return work()
            except Exception:
                # Under its feet the collection was written anew. Every call can be repeated.
                if self._replaced == replaced:
                    raise
                return work()
        except AfterturnError:
            raise
        except OSError as error:
            raise StoreUnavailable(f"the vector index cannot use {self._folder}: {error.strerror}") from error
        except BaseException as error:
            # The engine raises bare Exceptions, and for a panic of its own a BaseException, which would end the event loop.
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            raise self._translated(str(error)) from error

    def _translated(self, said: str) -> AfterturnError:
        if "WouldBlock" in said:
            return self._lock.in_use_by(None, "another program that opened it directly")
        if "dimension error" in said:
            return InvalidSettings(f"the vectors do not fit their collection ({said[:200]}): run `afterturn reindex`")
        return StoreUnavailable(f"the vector index failed: {said[:300]}")


# -------------------------------------------------------------------------------------------------------- to the engine's


def _config(spec: CollectionSpec) -> qdrant.EdgeConfig:
    vectors = (
        None if spec.dimension is None else {DENSE: qdrant.EdgeVectorParams(size=spec.dimension, distance=qdrant.Distance.Cosine)}
    )
    return qdrant.EdgeConfig(vectors=vectors, sparse_vectors={SPARSE: qdrant.EdgeSparseVectorParams()})


def _index(shard: qdrant.EdgeShard, spec: CollectionSpec) -> None:
    there = {field: info.data_type for field, info in shard.info().payload_schema.items()}
    for field, kind in all_indexes(spec).items():
        wanted = _INDEX_PARAMS[kind]
        if there.get(field) == wanted:
            continue
        if field in there:
            shard.update(qdrant.UpdateOperation.delete_field_index(field))
        params = qdrant.KeywordIndexParams(is_tenant=True) if field == PAYLOAD_OWNER else wanted
        shard.update(qdrant.UpdateOperation.create_field_index(field, params))


def _copy(source: qdrant.EdgeShard, target: qdrant.EdgeShard) -> None:
    offset: Any = None
    while True:
        request = qdrant.ScrollRequest(offset=offset, limit=BATCH, with_payload=True, with_vector=True)
        records, offset = source.scroll(request)
        points = [qdrant.Point(record.id, record.vector or {}, record.payload or {}) for record in records]  # pyright: ignore[reportArgumentType]
        if points:
            target.update(qdrant.UpdateOperation.upsert_points(points))
        if offset is None:
            return


def _names(folder: Path, owner: str) -> bool:
    """Whether a file of the collection holds the owner's path, or one that begins like it."""
    needle = owner.encode()
    for file in folder.rglob("*"):
        if file.is_file() and file.stat().st_size:
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data.find(needle) >= 0:
                    return True
    return False


def _engine_sparse(vector: SparseVector) -> qdrant.SparseVector:
    return qdrant.SparseVector(list(vector.indices), list(vector.values))


def _engine_point(point: Point) -> qdrant.Point:
    vectors: dict[str, Any] = {}
    if point.sparse.indices:
        vectors[SPARSE] = _engine_sparse(point.sparse)
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    return qdrant.Point(uuid.UUID(point.point_id), vectors, payload_of(point))


def _filter(owners: Sequence[str], more: Filter | None = None) -> qdrant.Filter:
    must: list[qdrant.ConditionType] = [qdrant.FieldCondition(PAYLOAD_OWNER, match=qdrant.MatchAny(list(owners)))]
    if more is not None:
        must += [_any_of(field, values) for field, values in more.any_of.items()]
        for field, (low, high) in more.ranges.items():
            must.append(qdrant.FieldCondition(field, range=qdrant.RangeFloat(gte=low, lte=high)))
    return qdrant.Filter(must=must)


def _any_of(field: str, values: Sequence[str | int]) -> qdrant.ConditionType:
    words = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    either: list[qdrant.ConditionType] = []
    if words:
        either.append(qdrant.FieldCondition(field, match=qdrant.MatchAny(words)))
    if numbers:
        either.append(qdrant.FieldCondition(field, match=qdrant.MatchAny(numbers)))
    return qdrant.Filter(should=either)
