"""A Qdrant server (1.16 or newer) through ``qdrant-client``, over HTTP.

The two searches of a query are one request, and are summed here as with the embedded engine. A write is answered when it can be
found. The client makes no second attempt by itself; every call ends within ``timeout_s``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NoReturn, TypeVar

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from memory.model.errors import AfterturnError, InvalidSettings, StoreUnavailable
from memory.ports.vectors import PAYLOAD_OWNER, CollectionSpec, Filter, Hit, Point, SparseVector, VectorQuery
from memory.stores.addresses import check_address, check_key
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
    wrong_dimension,
)
from memory.telemetry import store_call

T = TypeVar("T")

URL: Final = "AFTERTURN_VECTOR_URL"
KEY: Final = "AFTERTURN_VECTOR_API_KEY"
OLDEST: Final = (1, 16)
"""The first version that keeps metadata with a collection."""
SETUP_TIMEOUT_S: Final = 60.0
"""Making a collection or an index: on a cluster all nodes take part."""

_MODEL = "afterturn_model"
_PASSING_4XX = frozenset({408, 409, 423, 425, 429})
_SCHEMA: Final[dict[str, models.PayloadSchemaType]] = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "integer": models.PayloadSchemaType.INTEGER,
    "float": models.PayloadSchemaType.FLOAT,
}


class ServerVectors:
    """The port ``VectorIndex`` on a Qdrant server. For one event loop."""

    def __init__(self, client: AsyncQdrantClient, *, prefix: str = "afterturn-", timeout_s: float = 5.0) -> None:
        """Owns ``client``. ``prefix``: of the collections' names on the server, which others may use too."""
        self._client = client
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._dimensions: dict[str, int | None] = {}

    @classmethod
    def connect(cls, url: str, *, api_key: str = "", prefix: str = "afterturn-", timeout_s: float = 5.0) -> ServerVectors:
        """Connects to nothing yet. Raises InvalidSettings for an address or a key that cannot be one."""
        address = check_address(URL, KEY, url)
        key = check_key(KEY, api_key)
        # One line per request at info, headers and bodies at debug.
        for name in ("httpx", "httpcore"):
            library = logging.getLogger(name)
            library.setLevel(max(library.level, logging.WARNING))
        port = httpx.URL(address).port or (443 if address.startswith("https") else 6333)
        client = AsyncQdrantClient(
            url=address,
            port=port,
            # As a header and not as `api_key`: the client warns about a key without TLS, which is what a private network has.
            headers={"api-key": key} if key else None,
            timeout=math.ceil(max(timeout_s, 1)),
            check_compatibility=False,
        )
        return cls(client, prefix=prefix, timeout_s=timeout_s)

    # -------------------------------------------------------------------------------------------------------- collections

    async def ensure(self, collection: CollectionSpec) -> None:
        check_spec(collection)
        info = await self._info(collection.name)
        if info is None:
            await self._create(collection)
            info = await self._info(collection.name)
        if info is None:
            raise StoreUnavailable(f"Qdrant has no collection {collection.name} a moment after it was made")
        self._check_made(collection, info)
        await self._index(collection, info)

    async def missing_indexes(self, collection: CollectionSpec) -> Sequence[str]:
        check_spec(collection)
        return _missing(collection, await self._info(collection.name))

    async def recreate(self, collection: CollectionSpec) -> None:
        check_spec(collection)
        name = self._prefix + collection.name
        self._dimensions.pop(collection.name, None)
        await self._call(collection.name, lambda: self._client.delete_collection(name), timeout_s=SETUP_TIMEOUT_S)
        await self._create(collection)
        await self.ensure(collection)

    async def _create(self, spec: CollectionSpec) -> None:
        vectors: dict[str, models.VectorParams] = {}
        if spec.dimension is not None:
            vectors[DENSE] = models.VectorParams(size=spec.dimension, distance=models.Distance.COSINE)

        async def create() -> None:
            try:
                await self._client.create_collection(
                    self._prefix + spec.name,
                    vectors_config=vectors,
                    sparse_vectors_config={SPARSE: models.SparseVectorParams()},
                    metadata={_MODEL: spec.model or ""},
                )
            except UnexpectedResponse as error:
                if error.status_code != 409 and "already exists" not in _said(error):
                    raise  # else another process was quicker, and what it made is looked at next

        await self._call(spec.name, create, timeout_s=SETUP_TIMEOUT_S)

    async def _info(self, name: str) -> models.CollectionInfo | None:
        async def look() -> models.CollectionInfo | None:
            try:
                return await self._client.get_collection(self._prefix + name)
            except UnexpectedResponse as error:
                if error.status_code == 404 and _is_qdrants(error):
                    return None
                raise

        return await self._call(name, look)

    def _check_made(self, spec: CollectionSpec, info: models.CollectionInfo) -> None:
        metadata = info.config.metadata
        if metadata is None or _MODEL not in metadata:
            raise InvalidSettings(
                f"the collection {self._prefix}{spec.name} on {URL} was not made by afterturn, or by a Qdrant older than"
                f" {_version(OLDEST)}: use a newer server, then run `afterturn reindex`"
            )
        wrong = mismatch(spec, _dimension(info), str(metadata[_MODEL]) or None)
        if wrong is not None:
            raise wrong
        self._dimensions[spec.name] = spec.dimension

    async def _index(self, spec: CollectionSpec, info: models.CollectionInfo) -> None:
        wanted = all_indexes(spec)
        for field in _missing(spec, info):
            schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            await self._call(
                spec.name,
                lambda field=field, schema=schema: self._client.create_payload_index(
                    self._prefix + spec.name, field, field_schema=schema if field == PAYLOAD_OWNER else _SCHEMA[wanted[field]]
                ),
                timeout_s=SETUP_TIMEOUT_S,
            )

    async def _check_dimension(self, name: str, dense: Sequence[float]) -> None:
        """A wrong dimension, said before the server refuses it in its own words."""
        if name not in self._dimensions:
            info = await self._info(name)
            if info is None:
                raise no_collection(name)
            self._dimensions[name] = _dimension(info)
        if len(dense) != self._dimensions[name]:
            raise wrong_dimension(name)

    # ------------------------------------------------------------------------------------------------------------- writing

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        check_name(collection)
        check_points(points)
        for dense in {len(point.dense): point.dense for point in points if point.dense is not None}.values():
            await self._check_dimension(collection, dense)
        for start in range(0, len(points), BATCH):
            batch = [_server_point(point) for point in points[start : start + BATCH]]
            await self._call(collection, lambda batch=batch: self._client.upsert(self._prefix + collection, batch, wait=True))

    async def delete(self, collection: str, point_ids: Collection[str]) -> None:
        check_name(collection)
        ids: list[Any] = [str(check_id(point_id)) for point_id in point_ids]
        if ids:
            await self._delete(collection, models.PointIdsList(points=ids))

    async def delete_owner(self, collection: str, owner: str) -> None:
        check_name(collection)
        await self._delete(collection, models.FilterSelector(filter=_filter((owner,))))

    async def _delete(self, collection: str, what: models.PointIdsList | models.FilterSelector) -> None:
        await self._call(collection, lambda: self._client.delete(self._prefix + collection, what, wait=True))

    # ------------------------------------------------------------------------------------------------------------- reading

    async def query(self, collection: str, query: VectorQuery) -> Sequence[Hit]:
        check_name(collection)
        check_query(query)
        if finds_nothing(query):
            return []
        if query.dense:
            await self._check_dimension(collection, query.dense)
        sides: dict[str, models.QueryRequest] = {}
        if query.sparse is not None and query.sparse.indices:
            sides[SPARSE] = _nearest(query, _server_sparse(query.sparse), SPARSE)
        if query.dense:
            sides[DENSE] = _nearest(query, list(query.dense), DENSE)
        answers = await self._call(
            collection, lambda: self._client.query_batch_points(self._prefix + collection, list(sides.values()))
        )
        found = {
            side: [Candidate(str(point.id), point.score, point.payload or {}) for point in answer.points]
            for side, answer in zip(sides, answers, strict=True)
        }
        return fuse(query, found.get(SPARSE, []), found.get(DENSE, []))

    async def scroll(
        self, collection: str, *, owner: str | None = None, after: str | None = None, limit: int = 500
    ) -> Sequence[Hit]:
        check_name(collection)
        check_page(limit)
        if after == LAST_ID:
            return []
        offset = after_id(after)
        condition = None if owner is None else _filter((owner,))
        records, _ = await self._call(
            collection,
            lambda: self._client.scroll(
                self._prefix + collection,
                scroll_filter=condition,
                offset=None if offset is None else str(offset),
                limit=limit,
                with_payload=True,
            ),
        )
        return [Hit(str(record.id), 0.0, record.payload or {}) for record in records]

    async def count(self, collection: str, *, owner: str | None = None) -> int:
        check_name(collection)
        condition = None if owner is None else _filter((owner,))
        answer = await self._call(
            collection, lambda: self._client.count(self._prefix + collection, count_filter=condition, exact=True)
        )
        return answer.count

    # ------------------------------------------------------------------------------------------------------------ lifetime

    async def ping(self) -> None:
        """Reaches the server, is new enough for it, and the key may read."""
        info = await self._call(None, self._client.info)
        try:
            version = tuple(int(part) for part in info.version.split(".")[:2])
        except ValueError:
            version = OLDEST  # a build of one's own; what it lacks shows when collections are made
        if version < OLDEST:
            raise InvalidSettings(f"{URL}: Qdrant {info.version[:20]} is too old; use {_version(OLDEST)} or newer")
        await self._call(None, self._client.get_collections)  # the version is told without a key

    async def aclose(self) -> None:
        await self._client.close()

    async def _call(self, collection: str | None, call: Callable[[], Awaitable[T]], *, timeout_s: float | None = None) -> T:
        with store_call("vectors", call):
            return await self._ask(collection, call, timeout_s)

    async def _ask(self, collection: str | None, call: Callable[[], Awaitable[T]], timeout_s: float | None) -> T:
        limit = timeout_s or self._timeout_s
        try:
            async with asyncio.timeout(limit):
                return await call()
        except TimeoutError:
            raise StoreUnavailable(f"Qdrant did not answer within {limit:g} s") from None
        except (ApiException, QdrantException, httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            _raise(collection, error)


def _raise(collection: str | None, error: Exception) -> NoReturn:
    """Raises the error of ours; the client's is left out of the chain where it may show headers."""
    if isinstance(error, AfterturnError):
        raise error
    if isinstance(error, UnexpectedResponse):
        raise _of_status(collection, error) from None
    if isinstance(error, QdrantException):
        raise StoreUnavailable("Qdrant limits the rate of calls") from None
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    if isinstance(cause, httpx.HTTPError | OSError):
        raise StoreUnavailable(f"Qdrant could not be reached or broke off ({type(cause).__name__}); see {URL}") from None
    raise StoreUnavailable(f"{URL} answered with something that is not Qdrant's API ({type(cause).__name__})") from None


def _of_status(collection: str | None, error: UnexpectedResponse) -> AfterturnError:
    status = error.status_code or 0
    said = _said(error)
    if status in {401, 403}:
        return InvalidSettings(f"Qdrant answered {status}: check {KEY} and what it may do")
    if status == 404 and collection is not None and _is_qdrants(error):
        return no_collection(collection)
    if status >= 500 or status in _PASSING_4XX:
        return StoreUnavailable(f"Qdrant answered {status}: {said}")
    if status == 404 or status < 400:
        return InvalidSettings(f"{URL} answered {status}: it is not the address of a Qdrant server's API")
    if collection is not None and ("dimension error" in said or "vector name" in said):
        return wrong_dimension(collection)
    return InvalidSettings(f"Qdrant refused the request ({status}): {said}")


def _said(error: UnexpectedResponse) -> str:
    """The server's own words, bounded: they name fields and ids. Empty when the body is not Qdrant's."""
    try:
        return str(json.loads(error.content)["status"]["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return ""


def _is_qdrants(error: UnexpectedResponse) -> bool:
    return bool(_said(error))


def _version(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


# ---------------------------------------------------------------------------------------------------------- to the client's


def _dimension(info: models.CollectionInfo) -> int | None:
    vectors = info.config.params.vectors
    if isinstance(vectors, models.VectorParams):
        return vectors.size
    dense = vectors.get(DENSE) if vectors else None
    return dense.size if dense else None


def _missing(spec: CollectionSpec, info: models.CollectionInfo | None) -> list[str]:
    there = {field: index.data_type for field, index in info.payload_schema.items()} if info else {}
    return [field for field, kind in all_indexes(spec).items() if there.get(field) != _SCHEMA[kind]]


def _nearest(query: VectorQuery, vector: models.SparseVector | list[float], using: str) -> models.QueryRequest:
    return models.QueryRequest(
        query=vector, using=using, filter=_filter(query.owners, query.filter), limit=query.depth, with_payload=True
    )


def _server_sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _server_point(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    if point.sparse.indices:
        vectors[SPARSE] = _server_sparse(point.sparse)
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    return models.PointStruct(id=point.point_id, vector=vectors, payload=payload_of(point))


def _filter(owners: Sequence[str], more: Filter | None = None) -> models.Filter:
    must: list[Any] = [models.FieldCondition(key=PAYLOAD_OWNER, match=models.MatchAny(any=list(owners)))]
    if more is not None:
        must += [_any_of(field, values) for field, values in more.any_of.items()]
        for field, (low, high) in more.ranges.items():
            must.append(models.FieldCondition(key=field, range=models.Range(gte=low, lte=high)))
    return models.Filter(must=must)


def _any_of(field: str, values: Sequence[str | int]) -> models.Filter:
    either: list[Any] = []
    words = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    if words:
        either.append(models.FieldCondition(key=field, match=models.MatchAny(any=words)))
    if numbers:
        either.append(models.FieldCondition(key=field, match=models.MatchAny(any=numbers)))
    return models.Filter(should=either)
