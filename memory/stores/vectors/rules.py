"""What all adapters of the vector index do alike: checks of what goes in, the sum of two searches, the wording of errors."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from operator import lt
from typing import Any, Final, NamedTuple

from memory.model.errors import InvalidInput, InvalidSettings
from memory.ports.vectors import PAYLOAD_OWNER, CollectionSpec, Hit, NoCollection, Point, SparseVector, VectorQuery

DENSE: Final = "dense"
SPARSE: Final = "sparse"
"""Names of the two vectors of a point."""

INDEX_TYPES: Final = frozenset({"keyword", "integer", "float"})
MAX_LIMIT: Final = 10_000
"""Points that one query or one page can ask for."""
MAX_DEPTH: Final = 10_000
LAST_ID: Final = str(uuid.UUID(int=2**128 - 1))
BATCH: Final = 256
"""Points that are written in one operation; a larger upsert is split."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_MAX_INDEX = 2**32 - 1


# ------------------------------------------------------------------------------------------------------------------ checks


def check_name(collection: str) -> str:
    """The name becomes a folder and a part of a URL."""
    if not _NAME.fullmatch(collection):
        raise InvalidInput("the name of a vector collection is 1 to 63 of a-z, 0-9, - and _, a letter first")
    return collection


def check_spec(spec: CollectionSpec) -> None:
    check_name(spec.name)
    if (spec.dimension is None) != (spec.model is None):
        raise InvalidInput(f"vector collection {spec.name}: dimension and model are given together or not at all")
    wrong = sorted(set(spec.indexes.values()) - INDEX_TYPES)
    if wrong:
        raise InvalidInput(f"vector collection {spec.name}: no index type {wrong[0]!r}; use keyword, integer or float")


def check_points(points: Iterable[Point]) -> None:
    """Raises InvalidInput for what an index would refuse or, worse, take: an id in another form, a NaN, another order."""
    for point in points:
        check_id(point.point_id)
        if not point.owner or point.payload.get(PAYLOAD_OWNER, point.owner) != point.owner:
            raise InvalidInput(f"point {point.point_id}: its owner is empty, or not that of its payload")
        check_sparse(point.sparse)
        check_dense(point.dense)


def check_id(point_id: str) -> uuid.UUID:
    try:
        parsed = uuid.UUID(point_id)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput("a point id is a UUID") from None
    if str(parsed) != point_id:
        raise InvalidInput("a point id is a UUID in its usual form: lower case, with hyphens")
    return parsed


def check_sparse(vector: SparseVector | None) -> None:
    if vector is None:
        return
    indices = vector.indices
    ascending = all(map(lt, indices, indices[1:]))
    in_range = not indices or (indices[0] >= 0 and indices[-1] <= _MAX_INDEX)
    if len(indices) != len(vector.values) or not ascending or not in_range or not all(map(math.isfinite, vector.values)):
        raise InvalidInput("a sparse vector has ascending, unique indices of 32 bits and as many finite values")


def check_dense(vector: Sequence[float] | None) -> None:
    if vector is not None and not all(map(math.isfinite, vector)):
        raise InvalidInput("a dense vector has a value that is not a finite number")


def check_query(query: VectorQuery) -> None:
    if not query.owners or not all(query.owners):
        raise InvalidInput("a vector query names the owners whose points it may find")
    if not 0 < query.limit <= MAX_LIMIT or not 0 < query.depth <= MAX_DEPTH:
        raise InvalidInput(f"limit and depth of a vector query are 1 to {MAX_LIMIT}")
    check_sparse(query.sparse)
    check_dense(query.dense)


def check_page(limit: int) -> None:
    if not 0 < limit <= MAX_LIMIT:
        raise InvalidInput(f"a page of points has 1 to {MAX_LIMIT}")


def finds_nothing(query: VectorQuery) -> bool:
    """Whether no point can match: no vector to search with, or a field that may have none of no values."""
    has_sparse = query.sparse is not None and bool(query.sparse.indices)
    return not (has_sparse or query.dense) or not all(query.filter.any_of.values())


def after_id(after: str | None) -> uuid.UUID | None:
    """The smallest id beyond ``after`` (which is not LAST_ID); None for the first page."""
    return None if after is None else uuid.UUID(int=check_id(after).int + 1)


def payload_of(point: Point) -> dict[str, Any]:
    return {**point.payload, PAYLOAD_OWNER: point.owner}


def all_indexes(spec: CollectionSpec) -> dict[str, str]:
    """Payload field → type of index, the owner's first."""
    return {PAYLOAD_OWNER: "keyword", **{field: kind for field, kind in spec.indexes.items() if field != PAYLOAD_OWNER}}


# --------------------------------------------------------------------------------------------------------------------- sum


class Candidate(NamedTuple):
    """A point that one of the two searches found."""

    point_id: str
    score: float
    payload: Mapping[str, Any]


def fuse(query: VectorQuery, sparse: Iterable[Candidate], dense: Iterable[Candidate]) -> list[Hit]:
    """The weighted sum with its boosts. Summed here and not in the engine: the result is the same with every adapter, and of
    equal scores the smaller id wins also where the limit cuts."""
    scores: dict[str, float] = {}
    payloads: dict[str, Mapping[str, Any]] = {}
    for weight, found in ((query.sparse_weight, sparse), (query.dense_weight, dense)):
        for point_id, score, payload in found:
            scores[point_id] = scores.get(point_id, 0.0) + weight * score
            payloads[point_id] = payload
    for point_id, payload in payloads.items():
        for field, value, factor in query.boosts:
            if _holds(payload.get(field), value):
                scores[point_id] *= factor
    best = sorted(scores, key=lambda point_id: (-scores[point_id], point_id))[: query.limit]
    return [Hit(point_id, scores[point_id], payloads[point_id]) for point_id in best]


def _holds(held: Any, value: str) -> bool:
    return held == value or (isinstance(held, list) and value in held)


# ------------------------------------------------------------------------------------------------------------------ errors


def mismatch(spec: CollectionSpec, dimension: int | None, model: str | None) -> InvalidSettings | None:
    """The error for a collection that was made with another embedder; None when it fits."""
    if (spec.dimension, spec.model) == (dimension, model):
        return None
    return InvalidSettings(
        f"vector collection {spec.name} was made with {_embedder(dimension, model)}, the settings say"
        f" {_embedder(spec.dimension, spec.model)}: run `afterturn reindex`, or set AFTERTURN_EMBEDDER back"
    )


def _embedder(dimension: int | None, model: str | None) -> str:
    if dimension is None:
        return "no embedder"
    return f"{(model or 'an unknown embedder')[:100]} ({dimension} dimensions)"


def no_collection(name: str) -> NoCollection:
    return NoCollection(f"there is no vector collection {name}; start a worker, which makes it, or run `afterturn reindex`")


def wrong_dimension(name: str) -> InvalidSettings:
    return InvalidSettings(
        f"vector collection {name} has another dimension than the vectors that the embedder gives: run `afterturn reindex`,"
        " or set AFTERTURN_EMBEDDER back"
    )


def sidecar_text(spec: CollectionSpec) -> str:
    return json.dumps({"dimension": spec.dimension, "model": spec.model}, sort_keys=True)
