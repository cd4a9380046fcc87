"""Words of a text, for comparing what two texts say. Crude on purpose: no dictionaries, any script.

A word is folded (case, accents, width) and shortened to its first letters, so that "manages" and "managing" meet. Scripts that are
written without spaces (Chinese, Japanese, Korean, Thai, …) count as pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z0-9]+)?")
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_DENSE}]+|[^{_DENSE}]+")
_IS_DENSE = re.compile(rf"[{_DENSE}]")
_STEM = 5

_STOP_WORDS = """
    a an and are as at be been but by can did do does for from had has have he her hers him his i if in into is it its me my
    of on or our she so some than that the their them then there these they this those to us user was we were what when which
    who will with would you your
    aber als am an auf aus bei bin bis das dass dein dem den der des die dir du ein eine einem einen einer er es für hat hatte
    ich ihm ihn ihr im in ist ja mein meine mich mir mit nach noch nun nutzer oder sein seine sich sie sind so um und uns vom
    von vor war was wenn wer wie wir wird zu zum zur über
    le la les un une des du de et est en dans pour avec sur que qui je il elle mon ma mes el los las una y es con por para
    mi
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def fold(text: str) -> str:
    """Small letters without accents, compatibility forms resolved ("Ｅｌêve" → "eleve"). Hangul stays whole."""
    plain = text.casefold()
    if plain.isascii():
        return plain
    decomposed = unicodedata.normalize("NFKD", plain)
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if unicodedata.category(char) != "Mn"))


def tokens(text: str) -> Iterator[str]:
    """The words of a text as written, numbers too; a run of a dense script is one token."""
    if text.isascii():
        yield from _ASCII_TOKEN.findall(text)
        return
    for found in _TOKEN.finditer(unicodedata.normalize("NFC", text)):
        for run in _RUN.finditer(found[0]):
            yield run[0]


def is_dense(token: str) -> bool:
    """Whether a token is of a script written without spaces."""
    return not token.isascii() and _IS_DENSE.match(token) is not None


def stem(word: str) -> str:
    """The first letters of a folded word: what its forms have in common, roughly."""
    return word if len(word) <= 3 else word[: min(_STEM, max(3, len(word) - 1))]


def pairs(run: str) -> list[str]:
    """Neighbouring characters of a dense run; a single character stands for itself."""
    return [run] if len(run) == 1 else [run[place : place + 2] for place in range(len(run) - 1)]


def key_words(text: str) -> frozenset[str]:
    """What a text is about: stems of its words without the most common ones, numbers, pairs of dense characters."""
    found: set[str] = set()
    for token in tokens(text):
        if is_dense(token):
            found.update(pairs(fold(token)))
            continue
        word = fold(token).split("'")[0].split("’")[0]
        if word and word not in STOP_WORDS:
            found.add(word if word.isdigit() else stem(word))
    return frozenset(found)
