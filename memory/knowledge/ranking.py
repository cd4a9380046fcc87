"""Distances of rows, put together and in order. A row is the place of its table among those that are searched, and its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from memory.model.lexical import document_terms, query_terms
from memory.model.lexical_bm25 import document_weights, query_weights, score
from memory.retrieval.documents import USUAL_LENGTH

Place: TypeAlias = tuple[int, int]

FAR: Final = 1.0
"""Of a row that has no vector for one of several references: as far as what has nothing in common."""


def summed(distances: Sequence[Mapping[Place, float]]) -> dict[Place, float]:
    """Rows by the sum over all references, the nearest first; of equal ones the newest."""
    places = {place for one in distances for place in one}
    sums = {place: sum(one.get(place, FAR) for one in distances) for place in places}
    return dict(sorted(sums.items(), key=lambda item: (item[1], item[0][0], -item[0][1])))


def by_words(text: str, texts: Mapping[int, str]) -> dict[int, float]:
    """Row → distance from 0 to 1: 1 for a text that has no word of ``text``, 0 for one that has all of them.

    How rare a word is, is counted over these texts alone: they are of one owner. CPU-bound.
    """
    bags = {key: document_terms(one) for key, one in texts.items()}
    frequencies = Counter(term for bag in bags.values() for term in bag)
    wanted = query_weights(query_terms(text), documents=len(bags), frequencies=frequencies)
    ideal = score(wanted, document_weights(query_terms(text), usual_length=USUAL_LENGTH))
    if ideal <= 0:
        return dict.fromkeys(bags, FAR)
    return {
        key: FAR - min(FAR, score(wanted, document_weights(bag, usual_length=USUAL_LENGTH)) / ideal) for key, bag in bags.items()
    }
