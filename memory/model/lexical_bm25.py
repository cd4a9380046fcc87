"""BM25 in two halves: a document's vector holds the part that its own words make, the query's vector the rarity of each term.

Document frequencies are the user's own (see :class:`memory.ports.Terms`) and change with every message; vectors in the index do
not have to. Lengths are measured against a fixed usual length of the kind of document, for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

K1: Final = 0.9
"""How soon a repeated word stops to count more: messages and facts are short, a second mention says little."""
B: Final = 0.3
"""How much a longer document's words count less."""

LONGEST: Final = 8.0
"""In usual lengths: beyond, a document is not made harder to find."""

Weights = dict[int, float]
"""Term → weight, by ascending term."""


def document_weights(bag: Mapping[int, float], *, usual_length: float) -> Weights:
    length = min(LONGEST, math.fsum(bag.values()) / usual_length)
    pivot = K1 * (1 - B + B * length)
    return {term: count * (K1 + 1) / (count + pivot) for term, count in sorted(bag.items()) if count > 0}


def query_weights(bag: Mapping[int, float], *, documents: int, frequencies: Mapping[int, int], most: int = 128) -> Weights:
    """Each term times its rarity among ``documents``; of a long query the ``most`` telling terms."""
    weights = {term: count * rarity(documents, frequencies.get(term, 0)) for term, count in bag.items()}
    chosen = weights if len(weights) <= most else sorted(weights, key=lambda term: (-weights[term], term))[:most]
    return {term: weights[term] for term in sorted(chosen)}


def rarity(documents: int, frequency: int) -> float:
    """The inverse document frequency; above zero however common the term is."""
    whole = max(documents, frequency)
    return math.log(1 + (whole - frequency + 0.5) / (frequency + 0.5))


def score(query: Mapping[int, float], document: Mapping[int, float]) -> float:
    """The dot product: what the vector index would say."""
    if len(document) < len(query):
        query, document = document, query
    return math.fsum(weight * document[term] for term, weight in query.items() if term in document)
