"""What words find and what meaning finds, in one order.

The lexical score is the ground. The dense one is added at a low weight (:attr:`memory.ports.Embedder.weight`) and counts from the
weakest candidate up: a document that has no vector yet is only a little behind, never below everything that has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.ports import Hit

DEPTH: Final = 300
"""Candidates from each side."""
WORDS, MEANING, NO_EMBEDDER = "words", "meaning", "embedder away"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document with its score. ``why``: ``words``, ``meaning``, and ``embedder away`` where only words could be compared."""

    key: str
    score: float
    why: tuple[str, ...]
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


def fuse(
    lexical: Sequence[Hit],
    dense: Sequence[Hit],
    *,
    dense_weight: float,
    boosts: Mapping[tuple[str, str], float] | None = None,
    flags: tuple[str, ...] = (),
) -> list[Candidate]:
    """Best first, of equal scores the smaller point id first. ``key`` is the point id.

    Args:
        boosts: (payload field, value) → factor.
    """
    scores = {hit.point_id: hit.score for hit in lexical}
    payloads = {hit.point_id: hit.payload for hit in (*lexical, *dense)}
    floor = min((hit.score for hit in dense), default=0.0) if len(dense) > 1 else 0.0
    for hit in dense:
        scores[hit.point_id] = scores.get(hit.point_id, 0.0) + dense_weight * (hit.score - floor)
    for (name, value), factor in (boosts or {}).items():
        for point_id, payload in payloads.items():
            if payload.get(name) == value:
                scores[point_id] *= factor
    by_words, by_meaning = {hit.point_id for hit in lexical}, {hit.point_id for hit in dense}
    return [
        Candidate(
            point_id,
            scores[point_id],
            (*((WORDS,) if point_id in by_words else ()), *((MEANING,) if point_id in by_meaning else ()), *flags),
            payloads[point_id],
        )
        for point_id in sorted(scores, key=lambda point_id: (-scores[point_id], point_id))
    ]
