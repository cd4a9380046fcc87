"""Vector indexes for tests: one in memory that is plain enough to be the measure of the others, and ways to open each.

``LocalClient`` is qdrant-client's local mode made to look like a server where the adapter looks: unknown collections are a 404
with Qdrant's body, payload indexes are noted (local mode has none). What that leaves unseen is said where it is used.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from memory.model.errors import StoreUnavailable
from memory.ports.vectors import PAYLOAD_OWNER, CollectionSpec, Filter, Hit, Point, SparseVector, VectorIndex, VectorQuery
from memory.stores.vectors import rules


@dataclass
class _Kept:
    spec: CollectionSpec
    indexes: dict[str, str]
    points: dict[str, Point] = field(default_factory=dict)


class MemoryVectors(VectorIndex):
    """The port in a dictionary. Every search looks at every point and adds up what the port's docstrings say."""

    def __init__(self) -> None:
        self._collections: dict[str, _Kept] = {}
        self._closed = False
        self.away = False
        """Set it, and every call fails as if the store could not be reached."""

    async def ensure(self, collection: CollectionSpec) -> None:
        self._check()
        rules.check_spec(collection)
        kept = self._collections.get(collection.name)
        if kept is None:
            kept = self._collections[collection.name] = _Kept(collection, {})
        wrong = rules.mismatch(collection, kept.spec.dimension, kept.spec.model)
        if wrong is not None:
            raise wrong
        kept.indexes |= {**collection.indexes, PAYLOAD_OWNER: "keyword"}

    async def missing_indexes(self, collection: CollectionSpec) -> Sequence[str]:
        self._check()
        kept = self._collections.get(collection.name)
        wanted = {PAYLOAD_OWNER: "keyword", **collection.indexes}
        return [name for name, kind in wanted.items() if kept is None or kept.indexes.get(name) != kind]

    async def recreate(self, collection: CollectionSpec) -> None:
        self._check()
        self._collections.pop(collection.name, None)
        await self.ensure(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        kept = self._get(collection)
        rules.check_points(points)
        if any(point.dense is not None and len(point.dense) != kept.spec.dimension for point in points):
            raise rules.wrong_dimension(collection)
        kept.points |= {point.point_id: point for point in points}

    async def delete(self, collection: str, point_ids: Collection[str]) -> None:
        kept = self._get(collection)
        for point_id in point_ids:
            rules.check_id(point_id)
            kept.points.pop(point_id, None)

    async def delete_owner(self, collection: str, owner: str) -> None:
        kept = self._get(collection)
        kept.points = {point_id: point for point_id, point in kept.points.items() if point.owner != owner}

    async def query(self, collection: str, query: VectorQuery) -> Sequence[Hit]:
        kept = self._get(collection)
        rules.check_query(query)
        if query.dense and len(query.dense) != kept.spec.dimension:
            raise rules.wrong_dimension(collection)
        seen = [p for p in kept.points.values() if p.owner in query.owners and _passes(query.filter, p)]
        sparse = {p.point_id: _dot(query.sparse, p.sparse) for p in seen if query.sparse and _meets(query.sparse, p.sparse)}
        dense = {p.point_id: _cosine(query.dense, p.dense) for p in seen if query.dense and p.dense is not None}
        scores: dict[str, float] = {}
        for weight, side in ((query.sparse_weight, sparse), (query.dense_weight, dense)):
            for point_id in sorted(side, key=lambda one: (-side[one], one))[: query.depth]:
                scores[point_id] = scores.get(point_id, 0.0) + weight * side[point_id]
        for point_id in scores:
            for name, value, factor in query.boosts:
                if value in _values(kept.points[point_id].payload.get(name)):
                    scores[point_id] *= factor
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: query.limit]
        return [Hit(point_id, score, _payload(kept.points[point_id])) for point_id, score in best]

    async def scroll(
        self, collection: str, *, owner: str | None = None, after: str | None = None, limit: int = 500
    ) -> Sequence[Hit]:
        points = self._of(collection, owner)
        return [Hit(p.point_id, 0.0, _payload(p)) for p in points if after is None or p.point_id > after][:limit]

    async def count(self, collection: str, *, owner: str | None = None) -> int:
        return len(self._of(collection, owner))

    async def ping(self) -> None:
        self._check()

    async def aclose(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed or self.away:
            raise StoreUnavailable("the vector index was closed" if self._closed else "the vector index is away")

    def _get(self, collection: str) -> _Kept:
        self._check()
        rules.check_name(collection)
        if collection not in self._collections:
            raise rules.no_collection(collection)
        return self._collections[collection]

    def _of(self, collection: str, owner: str | None) -> list[Point]:
        points = self._get(collection).points
        return [points[one] for one in sorted(points) if owner is None or points[one].owner == owner]


def _payload(point: Point) -> dict[str, Any]:
    return {**point.payload, PAYLOAD_OWNER: point.owner}


def _values(held: Any) -> Iterable[Any]:
    return held if isinstance(held, list) else [held]


def _passes(wanted: Filter, point: Point) -> bool:
    payload = point.payload
    if any(not set(values) & set(_values(payload.get(name))) for name, values in wanted.any_of.items()):
        return False
    for name, (low, high) in wanted.ranges.items():
        held = [value for value in _values(payload.get(name)) if isinstance(value, int | float)]
        if not any((low is None or value >= low) and (high is None or value <= high) for value in held):
            return False
    return True


def _meets(query: SparseVector, held: SparseVector) -> bool:
    return bool(set(query.indices) & set(held.indices))


def _dot(query: SparseVector, held: SparseVector) -> float:
    weights = dict(zip(held.indices, held.values, strict=True))
    return math.fsum(value * weights.get(index, 0.0) for index, value in zip(query.indices, query.values, strict=True))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in one)) * math.sqrt(math.fsum(x * x for x in other))
    return math.fsum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else 0.0


class LocalClient(AsyncQdrantClient):
    """qdrant-client's local mode, in memory, with a server's manners."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self._schemas: dict[str, dict[str, models.PayloadIndexInfo]] = {}

    async def create_payload_index(self, collection_name: str, field_name: str, field_schema: Any = None, **more: Any) -> Any:
        keyword = isinstance(field_schema, models.KeywordIndexParams)
        kind = models.PayloadSchemaType.KEYWORD if keyword else field_schema
        params = field_schema if keyword else None
        info = models.PayloadIndexInfo(data_type=kind, params=params, points=0)
        self._schemas.setdefault(collection_name, {})[field_name] = info
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "Payload indexes have no effect in the local Qdrant"
            return await super().create_payload_index(collection_name, field_name, field_schema=field_schema, **more)

    async def get_collection(self, collection_name: str, **more: Any) -> models.CollectionInfo:
        await self._require(collection_name)
        info = await super().get_collection(collection_name, **more)
        return info.model_copy(update={"payload_schema": self._schemas.get(collection_name, {})})

    async def delete_collection(self, collection_name: str, *args: Any, **more: Any) -> bool:
        self._schemas.pop(collection_name, None)
        return await super().delete_collection(collection_name, *args, **more)

    async def upsert(self, collection_name: str, *args: Any, **more: Any) -> Any:
        await self._require(collection_name)
        return await super().upsert(collection_name, *args, **more)

    async def delete(self, collection_name: str, *args: Any, **more: Any) -> Any:
        await self._require(collection_name)
        return await super().delete(collection_name, *args, **more)

    async def query_batch_points(self, collection_name: str, *args: Any, **more: Any) -> Any:
        await self._require(collection_name)
        return await super().query_batch_points(collection_name, *args, **more)

    async def scroll(self, collection_name: str, *args: Any, **more: Any) -> Any:
        await self._require(collection_name)
        return await super().scroll(collection_name, *args, **more)

    async def count(self, collection_name: str, *args: Any, **more: Any) -> Any:
        await self._require(collection_name)
        return await super().count(collection_name, *args, **more)

    async def _require(self, name: str) -> None:
        if not await self.collection_exists(name):
            body = b'{"status":{"error":"Not found: Collection `' + name.encode() + b'` doesn\'t exist!"},"time":0.0}'
            raise UnexpectedResponse(404, "Not Found", body, httpx.Headers())
