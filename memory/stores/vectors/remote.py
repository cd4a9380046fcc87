"""The vector index of another process of this machine: the client of :mod:`memory.stores.vectors.service`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

import httpx2
from pydantic import ValidationError

from memory.model.errors import InvalidInput, InvalidSettings, StoreUnavailable
from memory.ports.vectors import CollectionSpec, Hit, Point, VectorQuery
from memory.stores.addresses import check_address, check_key
from memory.stores.vectors import calls
from memory.stores.vectors.rules import (
    BATCH,
    check_id,
    check_name,
    check_page,
    check_points,
    check_query,
    check_spec,
)
from memory.telemetry import store_call

URL: Final = "AFTERTURN_VECTOR_SERVICE_URL"
KEY: Final = "AFTERTURN_VECTOR_API_KEY"
SETUP_TIMEOUT_S: Final = 65.0
"""Making or loading a collection, or writing one anew; the service's own bound ends first."""
_ANSWER_S = 1.0
"""The service's own time-out says more than ours, so it gets a moment to arrive."""


class RemoteVectorIndex:
    """The port ``VectorIndex`` over HTTP. For one event loop. Every call can be repeated, but is made once."""

    def __init__(self, url: str, token: str, timeout_s: float = 5.0) -> None:
        """Connects to nothing yet. Raises InvalidSettings for an address or a token that cannot be one."""
        self._url = check_address(URL, KEY, url)
        self._token = check_key(KEY, token)
        self._timeout_s = timeout_s
        self._opened: httpx2.AsyncClient | None = None
        self._closed = False

    async def ensure(self, collection: CollectionSpec) -> None:
        check_spec(collection)
        await self._call(calls.Ensure(collection=collection), SETUP_TIMEOUT_S)

    async def missing_indexes(self, collection: CollectionSpec) -> Sequence[str]:
        check_spec(collection)
        return await self._call(calls.MissingIndexes(collection=collection))

    async def recreate(self, collection: CollectionSpec) -> None:
        check_spec(collection)
        await self._call(calls.Recreate(collection=collection), SETUP_TIMEOUT_S)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        check_name(collection)
        check_points(points)
        for start in range(0, len(points), BATCH):
            await self._call(calls.Upsert(collection=collection, points=tuple(points[start : start + BATCH])))

    async def delete(self, collection: str, point_ids: Collection[str]) -> None:
        check_name(collection)
        await self._call(calls.Delete(collection=collection, point_ids=tuple(str(check_id(one)) for one in point_ids)))

    async def delete_owner(self, collection: str, owner: str) -> None:
        check_name(collection)
        await self._call(calls.DeleteOwner(collection=collection, owner=owner), SETUP_TIMEOUT_S)

    async def query(self, collection: str, query: VectorQuery) -> Sequence[Hit]:
        check_name(collection)
        check_query(query)
        return await self._call(calls.Query(collection=collection, query=query))

    async def scroll(
        self, collection: str, *, owner: str | None = None, after: str | None = None, limit: int = 500
    ) -> Sequence[Hit]:
        check_name(collection)
        check_page(limit)
        return await self._call(calls.Scroll(collection=collection, owner=owner, after=after, limit=limit))

    async def count(self, collection: str, *, owner: str | None = None) -> int:
        check_name(collection)
        return await self._call(calls.Count(collection=collection, owner=owner))

    async def ping(self) -> None:
        await self._call(calls.Ping())

    async def aclose(self) -> None:
        self._closed = True
        client, self._opened = self._opened, None
        if client is not None:
            await client.aclose()

    async def _call(self, call: calls.Call, timeout_s: float | None = None) -> Any:
        with store_call("vectors", call):
            return await self._ask(call, timeout_s)

    async def _ask(self, call: calls.Call, timeout_s: float | None) -> Any:
        limit = timeout_s or self._timeout_s + _ANSWER_S
        try:
            async with asyncio.timeout(limit):
                response = await self._client.post(
                    calls.PATH + type(call).__name__,
                    content=call.model_dump_json().encode(),
                    headers={"Content-Type": "application/json"},
                    timeout=limit,
                )
        except (TimeoutError, httpx2.TimeoutException):
            raise StoreUnavailable(f"the vector service did not answer within {limit:g} s") from None
        except httpx2.HTTPError as error:
            raise StoreUnavailable(
                f"the vector service at {self._url} could not be reached or broke off ({type(error).__name__});"
                " is its `afterturn dev` still running?"
            ) from None
        if response.status_code != 200:
            raise _error(response)
        try:
            return call.result.validate_json(response.content)
        except ValidationError:
            raise _not_the_service() from None

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._closed:
            raise StoreUnavailable("the vector index was closed")
        if self._opened is None:
            self._opened = httpx2.AsyncClient(
                base_url=self._url,
                headers={"Authorization": f"Bearer {self._token}"},
                trust_env=False,  # no proxy between processes of one machine
                limits=httpx2.Limits(max_connections=32, keepalive_expiry=3.0),  # the service drops idle ones after 5 s
            )
        return self._opened


def _error(response: httpx2.Response) -> Exception:
    if response.status_code == 401:
        return InvalidSettings(
            f"the vector service does not take this token: start this process anew if `afterturn dev` was, or check {KEY}"
        )
    try:
        failure = calls.Failure.model_validate_json(response.content)
    except ValidationError:
        return StoreUnavailable("the vector service is overloaded") if response.status_code == 503 else _not_the_service()
    if response.status_code == 413:
        return InvalidInput(failure.message)
    made = calls.ERRORS.get(failure.error)
    return made(failure.message) if made else StoreUnavailable(f"the vector service failed ({response.status_code})")


def _not_the_service() -> StoreUnavailable:
    return StoreUnavailable(f"{URL} answered with something that is not the vector service; is its `afterturn dev` still running?")
