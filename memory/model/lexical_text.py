"""From a text to the words that lexical search compares: folded, split by script, in the order of the text."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MAX_WORD_CHARS: Final = 64
"""Longer runs of letters (keys, encoded data) are cut."""


def _ranges(categories: frozenset[str]) -> str:
    """A character class of all characters of these categories in the first planes."""
    found: list[str] = []
    start: int | None = None
    for code in range(0x300, 0x20000):
        inside = unicodedata.category(chr(code)) in categories
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append(f"{chr(start)}-{chr(code - 1)}")
            start = None
    return "".join(found)


_MARKS = _ranges(frozenset({"Mn", "Mc"})).replace("\ufe00-\ufe0f", "")
"""Marks belong to the letter before them: vowel signs of India and Thailand, Arabic and Hebrew points."""
HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30ff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
_SOUTH_EAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}|[\u203c\u2049\u2122\u2139\u231a\u231b\u23e9-\u23f3\u25aa-\u25fe\u2600-\u27bf\u2b05-\u2b55"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*(?:['’ʼ][^\W_](?:[^\W_]|[{_MARKS}])*)?|{_EMOJI}")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z0-9]+)?")
"""The same in a text of ASCII alone, at a fraction of the cost."""
_RUN = re.compile(rf"[{HAN}{_KANA}]+|[{_HANGUL}]+|[{_SOUTH_EAST}]+|[^{HAN}{_KANA}{_HANGUL}{_SOUTH_EAST}]+")
_IS_HAN = re.compile(f"[{HAN}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
_IS_EMOJI = re.compile(_EMOJI)
_DENSE = re.compile(f"[{HAN}{_KANA}{_HANGUL}{_SOUTH_EAST}]")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INVISIBLE = re.compile("[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]")
"""Joiners, directions, soft hyphens, variation selectors, the Arabic stretching line."""
_LIGHT_SCRIPTS = frozenset({"latin", "cyrillic", "greek", "arabic", "hebrew"})
"""Where marks are accents or points that people leave out."""

_SCRIPTS = (
    ("latin", 0x0041, 0x024F), ("latin", 0x1E00, 0x1EFF), ("greek", 0x0370, 0x03FF), ("greek", 0x1F00, 0x1FFF),
    ("cyrillic", 0x0400, 0x052F), ("armenian", 0x0530, 0x058F), ("hebrew", 0x0590, 0x05FF), ("arabic", 0x0600, 0x077F),
    ("arabic", 0x08A0, 0x08FF), ("devanagari", 0x0900, 0x097F), ("bengali", 0x0980, 0x09FF), ("tamil", 0x0B80, 0x0BFF),
)  # fmt: skip
_ARABIC_LETTERS = str.maketrans("أإآٱىةؤئکیہ", "اااايهويكيه")
_ARABIC_ARTICLES = ("وال", "بال", "كال", "فال", "لل", "ال")


@dataclass(frozen=True, slots=True)
class Word:
    """``text``: in small letters, canonical form. ``plain``: without accents. ``script``: ``latin``, …; ``han``, ``hangul`` and
    ``dense`` are written without spaces or with endings grown on; ``number``, ``emoji``, ``other``."""

    text: str
    plain: str
    script: str


def words(text: str) -> Iterator[Word]:
    """The words of a text. ``rocketLaunch`` is three: itself and its two parts."""
    normal = _normal(text)
    if normal.isascii():
        for token in _ASCII_WORD.findall(normal):
            yield from _ascii(token[:MAX_WORD_CHARS]) if token.isalnum() else _split(token)
        return
    for found in _WORD.finditer(normal):
        token = found[0]
        if token.isascii() and token.isalnum():
            yield from _ascii(token[:MAX_WORD_CHARS])
        elif _IS_EMOJI.match(token):
            yield Word(token, token, "emoji")
        else:
            yield from _split(token)


def _normal(text: str) -> str:
    if text.isascii():
        return text
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=20_000)
def _ascii(token: str) -> tuple[Word, ...]:
    small = token.lower()
    whole = Word(small, small, "number" if small.isdigit() else "latin")
    if small == token or token.isupper():
        return (whole,)
    parts = _HUMPS.split(token)
    return (whole, *(Word(part.lower(), part.lower(), "latin") for part in parts)) if len(parts) > 1 else (whole,)


def _split(token: str) -> Iterator[Word]:
    for run in _RUN.findall(token):
        if _DENSE.match(run):
            small = run.casefold()
            yield Word(small, small, "hangul" if _IS_HANGUL.match(run) else "han" if _IS_HAN.search(run) else "dense")
            continue
        for part in _without_apostrophe(unicodedata.normalize("NFC", run.casefold())):
            yield _word(part[:MAX_WORD_CHARS])


def _without_apostrophe(word: str) -> tuple[str, ...]:
    """``she's`` → she; ``don't`` → don; ``l'amour``, ``dell'arte`` → amour, arte; ``O'Brien`` → brien."""
    head, mark, tail = word.replace("’", "'").replace("ʼ", "'").partition("'")
    if not mark:
        return (word,)
    if not head:
        # An apostrophe that is a letter to Unicode (U+02BC) may stand alone.
        return (tail,) if tail else ()
    if tail in ("s", "t", "d", "m", "re", "ve", "ll"):
        return (head,)
    return (tail,) if len(head) <= 4 else (head, tail)


def _word(text: str) -> Word:
    script = _script(text)
    text = _one_spelling(text, script)
    if script == "arabic":
        return Word(text, _without_article(text), script)
    return Word(text, strip_marks(text) if script in _LIGHT_SCRIPTS else text, script)


def normal_form(word: str) -> str:
    """The ``text`` that a word of this spelling has."""
    small = unicodedata.normalize("NFC", word.casefold())
    return _one_spelling(small, _script(small)) if small else small


def _one_spelling(text: str, script: str) -> str:
    """Arabic without points and with one form of each letter, Greek without accents: their stemmers want it so."""
    if script == "arabic":
        return strip_marks(text).translate(_ARABIC_LETTERS)
    return strip_marks(text) if script == "greek" else text


def _script(text: str) -> str:
    if text[0].isdigit():
        return "number"
    code = ord(text[0])
    return next((name for name, first, last in _SCRIPTS if first <= code <= last), "other")


def _without_article(word: str) -> str:
    for article in _ARABIC_ARTICLES:
        if word.startswith(article) and len(word) - len(article) >= 3:
            return word[len(article) :]
    return word


@lru_cache(maxsize=50_000)
def strip_marks(word: str) -> str:
    """Without accents and points: ``élève`` → eleve, ``Straße`` (folded) → strasse."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    plain = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
    return sys.intern(unicodedata.normalize("NFC", plain).translate(_LATIN_LETTERS))


_LATIN_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i", "ß": "ss"})
