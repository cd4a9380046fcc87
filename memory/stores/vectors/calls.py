"""The port's calls as they go between processes: what service and client of the vector service agree on.

``POST /v1/<call>`` with the call's JSON and ``Authorization: Bearer <token>``; 200 with the result's JSON, or a status with
``{"error": <name of the exception>, "message": …}``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter

from memory.model.errors import AfterturnError, FolderInUse, InvalidInput, InvalidSettings, StoreUnavailable
from memory.ports.vectors import CollectionSpec, Hit, NoCollection, Point, VectorIndex, VectorQuery

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
PATH: Final = "/v1/"

STATUSES: Final[dict[type[AfterturnError], int]] = {
    InvalidInput: 400,
    NoCollection: 409,
    InvalidSettings: 409,
    FolderInUse: 423,
    StoreUnavailable: 503,
}
ERRORS: Final = {error.__name__: error for error in STATUSES}

_NOTHING: Final[TypeAdapter[Any]] = TypeAdapter(None)
_HITS: Final[TypeAdapter[Any]] = TypeAdapter(tuple[Hit, ...])
_NAMES: Final[TypeAdapter[Any]] = TypeAdapter(tuple[str, ...])
_NUMBER: Final[TypeAdapter[Any]] = TypeAdapter(int)


class Failure(BaseModel):
    """Body of an answer that is no result."""

    error: str
    message: str


class Call(BaseModel, ABC):
    """Arguments of one method of the port. ``result``: how its result is written and read."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)
    result: ClassVar[TypeAdapter[Any]] = _NOTHING

    @abstractmethod
    async def run(self, index: VectorIndex) -> Any: ...


class Ensure(Call):
    collection: CollectionSpec

    async def run(self, index: VectorIndex) -> None:
        await index.ensure(self.collection)


class MissingIndexes(Call):
    result = _NAMES
    collection: CollectionSpec

    async def run(self, index: VectorIndex) -> Any:
        return await index.missing_indexes(self.collection)


class Recreate(Call):
    collection: CollectionSpec

    async def run(self, index: VectorIndex) -> None:
        await index.recreate(self.collection)


class Upsert(Call):
    collection: str
    points: tuple[Point, ...]

    async def run(self, index: VectorIndex) -> None:
        await index.upsert(self.collection, self.points)


class Delete(Call):
    collection: str
    point_ids: tuple[str, ...]

    async def run(self, index: VectorIndex) -> None:
        await index.delete(self.collection, self.point_ids)


class DeleteOwner(Call):
    collection: str
    owner: str

    async def run(self, index: VectorIndex) -> None:
        await index.delete_owner(self.collection, self.owner)


class Query(Call):
    result = _HITS
    collection: str
    query: VectorQuery

    async def run(self, index: VectorIndex) -> Any:
        return await index.query(self.collection, self.query)


class Scroll(Call):
    result = _HITS
    collection: str
    owner: str | None
    after: str | None
    limit: int

    async def run(self, index: VectorIndex) -> Any:
        return await index.scroll(self.collection, owner=self.owner, after=self.after, limit=self.limit)


class Count(Call):
    result = _NUMBER
    collection: str
    owner: str | None

    async def run(self, index: VectorIndex) -> int:
        return await index.count(self.collection, owner=self.owner)


class Ping(Call):
    async def run(self, index: VectorIndex) -> None:
        await index.ping()


CALLS: Final[dict[str, type[Call]]] = {
    call.__name__: call for call in (Ensure, MissingIndexes, Recreate, Upsert, Delete, DeleteOwner, Query, Scroll, Count, Ping)
}
