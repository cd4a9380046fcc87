"""Whether a sentence of the caller orders a deletion: what is an order and not a mention, a question or a text to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from memory.knowledge import guard_speech as speech
from memory.knowledge import guard_words as words

_DONE: Final = re.compile(r"\b(?:must|should|shall|can|may|have to|has to|needs? to|ought to|are to|is to|to) be ", re.IGNORECASE)
_IN_PLACE: Final = re.compile(
    r"\b(?:by \w+ing|want|need|would like|wirf|werft|schmei|(?:soll|muss|müss|kann|könn|darf|dürf|möcht|will|woll|bitte)\w*)\b"
    r"|être ",
    re.IGNORECASE,
)
"""Forms that say themselves that they ask: their place tells nothing."""
_KANA: Final = re.compile(r"[\u3040-\u30ff\uac00-\ud7a3]")
"""Japanese and Korean, whose verb is the last word."""
_INFINITIVE: Final = re.compile(
    r"(?:l(?:ö|oe)schen|entfernen|tilgen|verwerfen|streichen|beseitigen|eliminieren|vernichten)$", re.IGNORECASE
)
_NESTED: Final = re.compile(r"\b(?:that|dass|daß|que|che|dat|что|to|zu)\W*$", re.IGNORECASE)
_RELATIVE: Final = re.compile(r"\b(?:whose|where|with|without|that|which|who|deren|dessen|mit|ohne|avec|dont|con|cuy\w*)\b")
_SPEAKER: Final = re.compile(
    r"^\W*(?!(?:Please|Also|Then|First|Second|Next|Now|Finally|Update|Edit|Correction|PS|Bitte|Auch|Dann|Jetzt)\b)[A-Z][a-zà-ÿ]+\s*:\s*$"
)
"""``Bob: …``, as in a chat."""
_PLACE: Final = rf"\b{words.WITHIN}\s+(?:\w+\s+){{0,2}}?{speech.VALUES}\b"


def verdict(sentence: str, *, asks: re.Pattern[str] = words.ASKS) -> bool | None:
    """True: it asks for a deletion; False: it forbids one; None: neither. Names of tables are marked in ``sentence``."""
    found = list(asks.finditer(sentence))
    if not found and words.END_STATES.search(sentence):
        state = words.END_STATES.search(sentence)
        reported = words.REPORTED.search(sentence) or words.QUESTIONS.search(sentence) or is_kept(sentence, state)
        return None if reported else True
    stem = words.STEMS.search(sentence)
    first = min((one for one in (*found[:1], stem) if one is not None), key=lambda one: one.start(), default=None)
    if first is None:
        return None
    if any(forbids(sentence, one) for one in (first, *found[:1])):
        return False
    return True if any(True for _ in orders(sentence, found)) else None


def orders(sentence: str, found: Iterable[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Of these forms in a sentence, those that are orders."""
    if words.QUESTIONS.search(sentence) or (re.search(r"[?？]\s*$", sentence) and not speech.MODALS.search(sentence)):
        return
    for one in found:
        if words.REPORTED.search(sentence[: one.start()]) or is_kept(sentence, one) or forbids(sentence, one):
            continue
        if _is_in_place(sentence, one) and not _is_of_a_value(sentence[one.end() :]):
            yield one


def is_kept(sentence: str, found: re.Match[str] | None) -> bool:
    """Whether it stands in what is to be kept, or behind a word for a text of somebody."""
    before = sentence[: found.start()] if found else sentence
    before = re.sub(r"\b(?:in|from|within)\s+(?:the\s+)?(?:table\s+)?[§¤]", " ", before)
    return bool(speech.STORED.search(before)) or (_KANA.search(sentence) is not None and speech.STORED.search(sentence) is not None)


def _is_in_place(sentence: str, found: re.Match[str]) -> bool:
    form = found.group()
    if _DONE.match(form) or _IN_PLACE.match(form) or _KANA.search(form):
        before = sentence[: found.start()]
        return not re.search(
            r"\b(?:rule|that|dass|que|if|whether|ob)\b[^,;:]*$", before, re.IGNORECASE
        ) or not speech.STORES.search(before)
    before = sentence[: found.start()]
    if re.match(speech.DENSE, form):
        clause = re.split(r"[,，。；;：:！!？?]", before)[-1]
        return speech.DENSE_LEAD.fullmatch(clause) is not None
    if _INFINITIVE.search(form) and not _NESTED.search(before):
        return re.match(r"\W*(?:$|[,;.!?…]|und\b|oder\b|§|¤)", sentence[found.end() :]) is not None
    # Any beginning of a clause will do: `in Companies, delete …`, `… and delete …`.
    starts = [0, *(one.end() for one in speech.CLAUSES.finditer(before))]
    if _SPEAKER.match(before):
        return False
    return any(speech.LEAD.fullmatch(before[start:]) is not None for start in starts[-4:])


def _is_of_a_value(behind: str) -> bool:
    """``remove the prefix from the names``: a part of values goes, no row and no column."""
    clause = re.split(r"[,;:.!?，；：。！？]|\band\b|\bund\b", behind, maxsplit=1)[0]
    place = re.search(rf"\b{words.WITHIN}\b|从", clause, re.IGNORECASE)
    thing = _RELATIVE.split(clause[: place.start()] if place else clause)[0]
    part = speech.PARTS.search(thing)
    kinds = (words.ROW_WORDS, words.TABLE_WORDS, words.COLUMN_WORDS)
    kind = min((one.start() for one in (kind.search(thing) for kind in kinds) if one), default=None)
    if part is not None:
        return kind is None or part.start() < kind
    return kind is None and re.match(rf"[^§¤]*?{_PLACE}", clause, re.IGNORECASE) is not None


def forbids(sentence: str, found: re.Match[str]) -> bool:
    """Whether a word forbids what this one says: before it, anywhere in the sentence; behind it, where languages put it."""
    before, after = sentence[: found.end()], sentence[found.end() :]
    clause = re.split(r"[,，、:：]", after, maxsplit=1)[0]
    return bool(
        words.FORBIDS.search(before)
        or words.FORBIDS_DENSE.search(before)
        or words.FORBIDS_AFTER.search(clause)
        or words.FORBIDS_LATE.search(clause)
        or words.FORBIDS_LATE_DENSE.search(sentence[found.start() :])
    )
