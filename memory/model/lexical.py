"""Terms of lexical search: what a document is indexed by and what a query looks for, any language.

A term is a 32-bit hash. A document holds each word's stem and, at a lower weight, its plain form, so that a query meets it also
where the language of one of the two short texts was told wrong. Scripts without spaces are indexed by pairs of characters (and by
single ones where those are words), long words of compounding languages by their beginnings and endings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from memory.model.lexical_languages import COMPOUNDING, latin_languages, other_language, stem, stop_words
from memory.model.lexical_text import Word, strip_marks, words

Bag = dict[int, float]
"""Term → how often it occurs, in fractions where it counts less."""

MAX_CHARS: Final = 65_536
"""Of a document; what it is about is said before that."""
MAX_WORDS: Final = 20_000
MAX_TERMS: Final = 4_096
"""Distinct terms of a document: the most frequent are kept."""
MAX_QUERY_CHARS: Final = 16_384
MAX_QUERY_TERMS: Final = 512

_PLAIN: Final = 0.3
"""Weight of the plain form beside the stem."""
_GUESS: Final = 0.5
"""Weight of a query word's stem in a language that the query may be in."""
_SINGLE: Final = 0.3
"""Weight of a single character beside its pairs."""
_PART: Final = 0.3
"""Weight of a part of a compound."""
_LONG: Final = 9
"""Letters from which a word may be a compound."""
_SHORTEST_PART: Final = 5
_PARTS = "~"


@lru_cache(maxsize=200_000)
def term_id(term: str) -> int:
    """The term's number of 32 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=4).digest(), "big")


def document_terms(text: str) -> Bag:
    """What a document is found by. Empty for a text without a word; bounded for a long one."""
    bag = _bag(text[:MAX_CHARS], of_query=False)
    if len(bag) <= MAX_TERMS:
        return bag
    return dict(sorted(bag.items(), key=lambda item: -item[1])[:MAX_TERMS])


def query_terms(text: str) -> Bag:
    """What a query looks for; of a long one, the terms that it says most often, then first."""
    bag = _bag(text[:MAX_QUERY_CHARS], of_query=True)
    if len(bag) <= MAX_QUERY_TERMS:
        return bag
    return dict(sorted(bag.items(), key=lambda item: -item[1])[:MAX_QUERY_TERMS])


def name_words(text: str) -> frozenset[str]:
    """Words without accents, for finding somebody's name in a query; pairs of characters where there are no spaces."""
    found: set[str] = set()
    for word in words(text[:MAX_QUERY_CHARS]):
        found.update((word.plain, *_pairs(word.text)) if word.script in ("han", "hangul", "dense") else (word.plain,))
    return frozenset(found)


def add(bag: Bag, other: Mapping[int, float], weight: float = 1.0) -> None:
    """Add the terms of another bag, each times ``weight``."""
    for term, count in other.items():
        if term in bag:
            bag[term] += count * weight
        else:
            bag[term] = count * weight


def _bag(text: str, *, of_query: bool) -> Bag:
    found = list(islice(words(text), MAX_WORDS))
    latin = latin_languages([word.text for word in found if word.script == "latin"])
    others = {script: other_language(script, text) for script in {word.script for word in found} - {"latin"}}
    stops = stop_words(latin[0])
    kept = [word for word in found if not (word.text in stops if word.script == "latin" else _is_stop(word, others))]
    bag: Bag = {}
    # A text of nothing but common words ("Who are you?") is all there is to go by.
    for word in kept or found:
        languages = latin if word.script == "latin" else (others.get(word.script, ""),)
        for number, weight in _terms(word.text, word.plain, word.script, languages, of_query):
            bag[number] = bag.get(number, 0.0) + weight
    return bag


@lru_cache(maxsize=50_000)
def _terms(text: str, plain: str, script: str, languages: tuple[str, ...], of_query: bool) -> tuple[tuple[int, float], ...]:
    """Of one word: texts say few words often."""
    word = Word(text, plain, script)
    match script:
        case "latin":
            found = _latin(word, languages, of_query)
        case "han" | "hangul" | "dense":
            found = _dense(word)
        case _:
            found = _stemmed(word, languages)
    return tuple((term_id(term), weight) for term, weight in found)


def _is_stop(word: Word, others: Mapping[str, str]) -> bool:
    """Of a word that is not in Latin script."""
    if word.script in ("han", "hangul", "dense"):
        return len(word.text) == 1 and any(word.text in stop_words(language) for language in ("zh", "ja", "ko"))
    return word.text in stop_words(others.get(word.script, ""))


def _latin(word: Word, languages: Sequence[str], of_query: bool) -> Iterator[tuple[str, float]]:
    yield from _stemmed(word, languages if of_query else languages[:1])
    is_compounding = languages[0] in COMPOUNDING or len(languages) > 1
    if is_compounding and len(word.text) >= _SHORTEST_PART:
        stems = {strip_marks(stem(language, word.text)) for language in languages if language in COMPOUNDING} or {word.plain}
        for whole in stems:
            if of_query:
                yield _PARTS + whole, _PART
            for part in _parts(whole):
                # A document's parts are looked for by whole words of the query, and its whole words by parts of the query's:
                # two compounds that only share an end do not meet.
                yield (part if of_query else _PARTS + part), _PART


def _stemmed(word: Word, languages: Sequence[str]) -> Iterator[tuple[str, float]]:
    first = strip_marks(stem(languages[0], word.text))
    yield first, 1.0
    seen = {first}
    for language in languages[1:]:
        guess = strip_marks(stem(language, word.text))
        if guess not in seen:
            seen.add(guess)
            yield guess, _GUESS
    for form in (word.plain, strip_marks(word.text)):
        if form not in seen:
            seen.add(form)
            yield form, _PLAIN


def _dense(word: Word) -> Iterator[tuple[str, float]]:
    yield from ((pair, 1.0) for pair in _pairs(word.text))
    if len(word.text) > 1 and word.script in ("han", "hangul"):
        for char in word.text:
            # Kana alone say nothing; a Chinese character or a Korean syllable can be a word.
            if not "\u3040" <= char <= "\u30ff":
                yield char, _SINGLE


def _pairs(run: str) -> Sequence[str]:
    return [run] if len(run) == 1 else [run[place : place + 2] for place in range(len(run) - 1)]


def _parts(word: str) -> Iterator[str]:
    """Beginnings and endings of a long word, as the parts of a compound are."""
    if len(word) >= _LONG:
        yield from (word[:end] for end in range(_SHORTEST_PART, len(word) - 2))
        yield from (word[start:] for start in range(3, len(word) - _SHORTEST_PART + 1))
