# ruff: noqa: E501  (word lists)
"""Whether two statements say the same. Lexical and strict: when in doubt they are two statements.

Statements with other numbers, dates, names or another negation are never the same, however alike their words are. What may differ is
the form of words (stems, order of adverbials, spelling) and words that add nothing ("now", "also", "please note").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rapidfuzz import fuzz

from memory.model.ids import short_hash
from memory.model.lexical_languages import latin_languages, other_language, stem, stop_words
from memory.model.lexical_text import Word, strip_marks, words
from memory.model.stale import MONTHS
from memory.model.words import fold, is_dense, key_words, tokens

MIN_SPELLING: Final = 87.0
"""Two words are one in two spellings when they are so alike (0 to 100), as ``organise`` and ``organize``."""
MIN_SPELT: Final = 6
"""Shorter words have no other spelling: ``form`` and ``farm``."""
MIN_CLAIMED: Final = 0.6
"""Share of telling words that two statements have in common of which somebody says that they are the same."""

_LATIN_NEGATION: Final = re.compile(
    r"\b(?:not|no|none|nobody|nothing|never|neither|nor|without|cannot|hardly|kein\w*|nicht|nichts|nie|niemals|niemand|weder|ohne|kaum|pas|jamais|aucune?|sans|nunca|jamás|ningun[oa]|sin|non|senza|não|nao|niet|geen|nooit|zonder)\b|n['’]t\b",
    re.IGNORECASE,
)
_DENSE_NEGATION: Final = re.compile(
    r"不(?!仅|僅|但|过|過|断|斷|同)|没(?!错)|沒|無(?!錫)|无(?!锡)|未(?!来|來)|非(?!常|洲)|勿|别(?:再)?(?!的|人|处|墅)|禁止|ない|なく|ません|ず(?=に|、|。|$)|않|안 |못|ไม่"
)
_SOFT = """
    now currently presently still already also too just really actually basically simply indeed always generally today
    please note remember fyi information update reminder btw important that there very quite own
    jetzt derzeit aktuell momentan weiterhin bereits schon auch ja doch eben wirklich eigentlich übrigens hinweis info
    wichtig bitte beachte denk daran dass nun immer noch sehr maintenant actuellement ahora actualmente
"""
_SOFT_WORDS: Final = frozenset(map(fold, _SOFT.split()))
_SOFT_DENSE: Final = re.compile(
    r"目前|现在|現在|已经|已經|请注意|请记住|记住|其实|一直|正在|仍然|也|都|就|了|的|呢|啊|吧|ですよ|です|ます|は|が|を"
)
_TURNS = """
    before after over under above below up down off out only all any every more most less until against between through
    vor nach über unter nur alle aller allen mehr gegen bis aus hinter zwischen durch jede jeder jedes
    avant après sur sous tous toutes plus contre entre jusque antes después sobre todos todas más contra
"""
_TELLING: Final = frozenset(map(fold, _TURNS.split()))
"""Common words that turn what is said: they count, unlike others."""
_HAN_NUMBERS: Final = str.maketrans("〇零一二两兩三四五六七八九", "0012223456789")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/]\d+)*")
_NUMBER_WORDS: Final = {
    fold(word): str(number)
    for number, forms in enumerate(
        (
            "zero null", "one eins", "two zwei deux dos", "three drei trois tres", "four vier quatre cuatro", "five fünf cinq cinco",
            "six sechs seis", "seven sieben sept siete", "eight acht huit ocho", "nine neun neuf nueve", "ten zehn dix diez",
            "eleven elf onze once", "twelve zwölf douze doce", "thirteen dreizehn", "fourteen vierzehn", "fifteen fünfzehn",
            "sixteen sechzehn", "seventeen siebzehn", "eighteen achtzehn", "nineteen neunzehn", "twenty zwanzig vingt veinte",
        )
    )
    for word in forms.split()
}  # fmt: skip
_DAY_NAMES = """
    monday tuesday wednesday thursday friday saturday sunday
    montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag
"""
_DAYS: Final = frozenset(map(fold, _DAY_NAMES.split()))
_BARE: Final = ".,;:!?\"'()[]{}„“”‚‘’»«…–—"


def statement_key(statement: str) -> str:
    """The same for statements that differ in case, punctuation, accents, width or white space only."""
    return short_hash(*(fold(token) for token in tokens(unicodedata.normalize("NFKC", statement))))


def is_same(one: str, other: str) -> bool:
    """Whether both say the same in nearly the same words."""
    if statement_key(one) == statement_key(other):
        return bool(key_words(one))
    left, right = _Said.of(one), _Said.of(other)
    if left.numbers != right.numbers or left.negated != right.negated or left.dense != right.dense:
        return False
    if _orders_differ(left, right):
        return False
    return _differ_in_spelling_only(left.stems, right.stems)


def may_be_same(one: str, other: str) -> bool:
    """Whether nothing speaks against the claim that both say the same in other words."""
    if is_same(one, other):
        return True
    left, right = _Said.of(one), _Said.of(other)
    if sorted(left.numbers) != sorted(right.numbers) or left.negated != right.negated:
        return False
    # A name that only one of them has: another person, another place, another month.
    if left.names ^ right.names:
        return False
    return overlap(one, other) >= MIN_CLAIMED


def is_opposite(one: str, other: str) -> bool:
    """Whether one denies what the other says, in nearly the same words."""
    left, right = _Said.of(one), _Said.of(other)
    if left.negated == right.negated or left.numbers != right.numbers or _orders_differ(left, right):
        return False
    if left.dense or right.dense:
        return (
            _DENSE_NEGATION.sub("", left.dense) == _DENSE_NEGATION.sub("", right.dense) and left.stems.keys() == right.stems.keys()
        )
    bare = [{stem for stem, word in said.stems.items() if not _LATIN_NEGATION.fullmatch(word)} for said in (left, right)]
    return bool(bare[0]) and bare[0] == bare[1]


def overlap(one: str, other: str) -> float:
    """How much of the shorter statement's telling words the other has, 0 to 1."""
    left, right = key_words(one), key_words(other)
    return len(left & right) / max(1, min(len(left), len(right)))


def is_negated(text: str) -> bool:
    return _LATIN_NEGATION.search(text) is not None or _DENSE_NEGATION.search(text) is not None


def numbers_of(text: str) -> tuple[str, ...]:
    """Numbers in their order: digits, small number words, months by number, Chinese digits."""
    return _Said.of(text).numbers


class _Said:
    """What a statement says, taken apart. ``names``: words that are capitalised inside a sentence. ``stems``: with a word of each."""

    __slots__ = ("dense", "names", "negated", "numbers", "order", "stems")

    def __init__(self, text: str) -> None:
        plain = unicodedata.normalize("NFKC", text)
        self.negated = is_negated(plain)
        found = list(words(plain))
        latin = latin_languages([word.text for word in found if word.script == "latin"])[0]
        numbers: list[str] = []
        stems: dict[str, str] = {}
        dense: list[str] = []
        for token in tokens(plain):
            if is_dense(token):
                dense.append(_SOFT_DENSE.sub("", token.casefold()))
            small = fold(token)
            if is_dense(token):
                numbers += _NUMBER.findall(token.translate(_HAN_NUMBERS))
            elif any(map(str.isdigit, token)):
                numbers += [number.lstrip("0") or "0" for number in re.findall(r"\d+", token)]
            elif small in _NUMBER_WORDS and small not in ("once",):
                numbers.append(_NUMBER_WORDS[small])
        for word in found:
            if word.script in ("han", "hangul", "dense", "number"):
                continue
            is_common = word.text in stop_words(latin) and word.plain not in _TELLING
            if is_common or word.plain in _SOFT_WORDS or word.plain in _NUMBER_WORDS:
                continue
            stems[_stem(word, latin, plain)] = word.plain
        self.numbers = tuple(numbers)
        self.names = frozenset(_names(plain))
        self.order = tuple(_bare(word) for word in plain.split())
        self.stems = stems
        self.dense = "".join(dense)

    @classmethod
    def of(cls, text: str) -> _Said:
        return _taken_apart(text)


@lru_cache(maxsize=4096)
def _taken_apart(text: str) -> _Said:
    return _Said(text)


def _stem(word: Word, latin: str, text: str) -> str:
    if word.script == "emoji":
        return word.text
    language = latin if word.script == "latin" else other_language(word.script, text)
    return strip_marks(stem(language, word.text)) if language else word.plain


def _bare(word: str) -> str:
    return fold(word.strip(_BARE)).removesuffix("'s").removesuffix("’s")


def _names(text: str) -> list[str]:
    found: list[str] = []
    begins = True
    for word in text.split():
        small = _bare(word)
        if word.strip(_BARE)[:1].isupper() and not begins and small not in MONTHS and small not in _DAYS:
            found.append(small)
        begins = word.endswith((".", "!", "?", ":")) and not word[:-1].isdigit()
    return found


def _orders_differ(left: _Said, right: _Said) -> bool:
    """Whether names that both have come in another order, so that who does what to whom may be another."""
    names = left.names | right.names
    return [word for word in left.order if word in names] != [word for word in right.order if word in names]


def _differ_in_spelling_only(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    only_left, only_right = sorted(left.keys() - right.keys()), sorted(right.keys() - left.keys())
    if len(only_left) != len(only_right):
        return False
    return all(_is_spelling(left[one], right[other]) for one, other in zip(only_left, only_right, strict=True))


def _is_spelling(one: str, other: str) -> bool:
    if min(len(one), len(other)) < MIN_SPELT or one[0] != other[0]:
        return False  # "possible" and "impossible" begin differently
    return fuzz.ratio(one, other) >= MIN_SPELLING
