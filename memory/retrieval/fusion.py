"""What words find and what meaning finds, in one order.

The lexical score is the ground. The dense one is added at a low weight (:attr:`memory.ports.Embedder.weight`) and counts from the
weakest candidate up: a document that has no dense vector yet is only a little behind, never below everything that has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory.ports import Filter, Hit

NEARLY: Final = 1e-5
"""Two scores that differ by less, in parts of the greater one, are one score: an index adds up in 32 bits, this process in 64."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """``score``: only for comparing within one answer."""

    point_id: str
    score: float
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


def fuse(
    lexical: Sequence[Hit],
    dense: Sequence[Hit],
    *,
    dense_weight: float,
    boosts: Sequence[tuple[str, str, float]] = (),
) -> list[Candidate]:
    """Best first, see :func:`in_order`.

    Args:
        boosts: (payload field, value, factor); a field may hold one value or a list.
    """
    scores = {hit.point_id: hit.score for hit in lexical}
    payloads = {hit.point_id: hit.payload for hit in (*lexical, *dense)}
    # One candidate alone has nothing to be compared with.
    floor = min(hit.score for hit in dense) if len(dense) > 1 else 0.0
    for hit in dense:
        scores[hit.point_id] = scores.get(hit.point_id, 0.0) + dense_weight * (hit.score - floor)
    for name, value, factor in boosts:
        for point_id, payload in payloads.items():
            if value in _values(payload.get(name)):
                scores[point_id] *= factor
    return [Candidate(point_id, scores[point_id], payloads[point_id]) for point_id in in_order(scores)]


def in_order(scores: Mapping[str, float]) -> list[str]:
    """Names by score, best first, and of scores that are equal but for rounding the smaller name first: the order is the same
    whoever added up the scores."""
    ordered: list[str] = []
    equals: list[str] = []
    for name in sorted(scores, key=lambda name: -scores[name]):
        if equals and scores[equals[-1]] - scores[name] > NEARLY * abs(scores[equals[-1]]):
            ordered += sorted(equals)
            equals = []
        equals.append(name)
    return [*ordered, *sorted(equals)]


def passes(payload: Mapping[str, Any], where: Filter) -> bool:
    """What the vector index asks of a point, asked of one that is not there yet."""
    for name, wanted in where.any_of.items():
        if not any(value in wanted for value in _values(payload.get(name))):
            return False
    for name, (least, most) in where.ranges.items():
        value = payload.get(name)
        if value is None or (least is not None and value < least) or (most is not None and value > most):
            return False
    return True


def _values(held: Any) -> Sequence[Any]:
    return cast(Sequence[Any], held) if isinstance(held, list | tuple) else (held,)
