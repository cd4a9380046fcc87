"""Words of tables' names and of claims, and when they are one: for :mod:`memory.model.table_routing`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memory.model import table_routing_words as lists
from memory.model.lexical_languages import latin_languages, other_language, stem
from memory.model.lexical_text import Word, strip_marks, words
from memory.model.words import fold

_COMPOUND: Final = 6
"""Letters of a word from which it may be the end of a compound."""
_NEAR: Final = 2
"""Letters that all forms of a word begin with."""
_LOOSE: Final = 0.75
"""Words of a column and of a claim are alike when they begin with so much of the longer one."""
_HUMP: Final = re.compile(r"(?<=[^\W_A-Z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


@dataclass(frozen=True, slots=True)
class Text:
    """``tokens``: as written; ``words``: of each token its last part; ``dense``: runs of scripts without spaces.

    ``near``: places by the first letters of the word; ``long``: those of words that may be compounds.
    """

    plain: str
    tokens: tuple[str, ...]
    words: tuple[Word, ...]
    dense: str
    language: str
    near: Mapping[str, Sequence[int]]
    long: tuple[int, ...]

    def places(self, wanted: Word) -> Sequence[int]:
        """Where there may be a form of this word, in order."""
        near = self.near.get(wanted.plain[:_NEAR], ())
        if not self.long or len(wanted.plain) < _COMPOUND or wanted.script != "latin":
            return near
        return sorted({*near, *self.long})


@lru_cache(maxsize=512)
def text_of(statement: str) -> Text:
    plain = unicodedata.normalize("NFKC", statement)
    tokens: list[str] = []
    found: list[Word] = []
    dense: list[str] = []
    for match in re.finditer(r"[^\W_]+(?:['’-][^\W_]+)*", plain):
        for word in words(match[0]):
            if word.script in ("han", "hangul", "dense"):
                dense.append(word.text)
        parts = [word for word in words(match[0]) if word.script not in ("han", "hangul", "dense", "emoji")]
        if parts:
            tokens.append(match[0])
            found.append(parts[-1])
    latin = latin_languages([word.text for word in found if word.script == "latin"])[0]
    near: dict[str, list[int]] = {}
    for place, word in enumerate(found):
        near.setdefault(word.plain[:_NEAR], []).append(place)
    long = tuple(place for place, word in enumerate(found) if word.script == "latin" and len(word.plain) >= _COMPOUND + 3)
    return Text(plain, tuple(tokens), tuple(found), "\n".join(dense).casefold(), latin, near, long)


@lru_cache(maxsize=8_192)
def pieces_of(name: str) -> tuple[str, ...]:
    """``ElectricCars``, ``delivery_days`` → their words."""
    return tuple(piece for piece in _HUMP.split(unicodedata.normalize("NFKC", name)) if piece)


@lru_cache(maxsize=2_048)
def nouns_of(name: str) -> tuple[str, ...]:
    """Words of a table's name that say of what it is."""
    pieces = tuple(lists.LIST_ENDINGS.sub("", piece) or piece for piece in pieces_of(name))
    kept = tuple(piece for piece in pieces if fold(piece) not in lists.SMALL and not piece.isdigit())
    return kept or pieces


@lru_cache(maxsize=2_048)
def row_nouns(description: str) -> tuple[str, ...]:
    return tuple(match[1] or match[2] for match in lists.ROW_OF.finditer(description))[:3]


@lru_cache(maxsize=8_192)
def told_by(column: str) -> tuple[str | None, tuple[str, ...]]:
    """The unit of a column, and the words that a claim about it says."""
    pieces = pieces_of(column)
    unit = next((piece for piece in map(fold, pieces[-1:]) if piece in lists.UNITS and len(pieces) > 1), None)
    telling = tuple(piece for piece in (pieces[:-1] if unit else pieces) if fold(piece) not in lists.GENERIC)
    return unit, telling or pieces


@lru_cache(maxsize=8_192)
def word_of(piece: str) -> Word | None:
    return next(iter(words(piece)), None)


def is_word(one: Word, wanted: Word, text: Text) -> bool:
    if one.plain == wanted.plain:
        return True
    if one.script != wanted.script or one.script == "number":
        return False
    if alike(one.plain, wanted.plain):
        return True
    languages = (text.language, "en") if one.script == "latin" else (other_language(one.script, text.plain),)
    stems = [
        (strip_marks(stem(language, one.text)), strip_marks(stem(language, wanted.text))) for language in languages if language
    ]
    if any(mine == theirs for mine, theirs in stems[:1]):
        return True
    if one.script != "latin":
        return False
    # "Holzlieferant" is a kind of "Lieferant": what a compound is stands at its end.
    short = min((wanted.plain, *(theirs for _, theirs in stems)), key=len)
    return len(short) >= _COMPOUND and any(
        mine.endswith(short) and len(mine) >= len(short) + 3 for mine in (one.plain, *(mine for mine, _ in stems))
    )


def alike(one: str, other: str) -> bool:
    """One word in singular and plural, where the plural only adds letters; ``companies``, ``company``."""
    short, long = sorted((one, other), key=len)
    if len(short) >= 3 and long.startswith(short) and long[len(short) :] in ("", *lists.PLURALS):
        return len(short) > 3 or long[len(short) :] in ("", "s")
    return len(short) > 3 and short.endswith("y") and long == f"{short[:-1]}ies"


def begins_alike(one: str, other: str) -> bool:
    """``delivers``, ``delivery``."""
    short, long = sorted((one, other), key=len)
    if len(short) < 5:
        return False
    common = next((place for place, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return common >= 5 and common >= _LOOSE * len(long)
