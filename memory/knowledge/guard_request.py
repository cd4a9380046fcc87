"""Whether a caller's own words ask for a deletion, of which kind, and of what."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from memory.knowledge import guard_words as words
from memory.knowledge.guard_text import NAMED, own_words, sentences

Scope: TypeAlias = Literal["tables", "rows", "column"]

TARGET: Final = "§"
OTHER: Final = "¤"
MAX_SENTENCE_CHARS: Final = 2_000
"""A sentence that asks is not longer."""
_PIECES: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_A-Za-z\d]+|\d+")
_BEFORE: Final = (
    r"(?:the|all|every|my|our|these|those|this|that|both|whole|entire|old|following|of|and|or|also|then|"
    r"die|alle|meine|unsere|diese|ganze|und|auch|la|les|las|los|le|el|lo|il|de|et|y|e|o|os|a|as|en|het|и|все|和|与|及|这个|这些|那个)"
)
_ARTICLE: Final = (
    r"(?:the|this|that|my|der|dem|den|die|dieser|meiner|la|el|le|cette|il|o|a|de|het|"
    r"table|tabelle|tabla|tabella|tabela|tabel|таблицы)"
)
_SOFT: Final = r"(?:bitte|please|komplett|ganz|vollständig|都|全部)"
_AFTER: Final = (
    r"\W*(?:$|§|¤|,|，|和|与|"
    r"(?:and|und|et|y|e|en|и|please|bitte|completely|entirely|altogether|komplett|ganz|vollständig|now|jetzt)\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What would be deleted, or lose rows or a column. ``names``, ``columns``: what else there is, so that ``delete the table A``
    is no leave to delete B. ``prefix``: of a call for all tables that begin with it."""

    table: str
    column: str | None = None
    names: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    prefix: str = ""


def is_asked_for(said: Sequence[str], scope: Scope, target: Target) -> bool:
    """Whether the last word of the caller on this deletion is that it shall be."""
    asked = False
    for text in said:
        for sentence in sentences(own_words(text)):
            for part in words.CONTRASTS.split(words.HARMLESS.sub(" ", sentence)):
                verdict = _verdict(part)
                names = _pointed_at(part, target.names) if scope == "rows" else target.names
                marked = _marked(part, (target.table, target.prefix), names)
                if verdict is True and len(part) <= MAX_SENTENCE_CHARS and _is_about(words.KEPT.sub(" ", marked), scope, target):
                    asked = True
                elif verdict is False and _is_forbidden(marked, part, target):
                    asked = False
                if _is_spared(marked):
                    asked = False
    return asked


def asks_for_a_deletion(said: Sequence[str]) -> bool:
    """Whether these texts ask for a deletion of anything at all; forbidding some does not take that back."""
    parts = (
        part for text in said for one in sentences(own_words(text)) for part in words.CONTRASTS.split(words.HARMLESS.sub(" ", one))
    )
    return any(len(part) <= MAX_SENTENCE_CHARS and _verdict(part) is True for part in parts)


def _verdict(sentence: str) -> bool | None:
    """True: it asks for a deletion; False: it forbids one; None: neither."""
    asks = words.ASKS.search(sentence)
    if asks is None and words.END_STATES.search(sentence):
        return None if words.REPORTED.search(sentence) or words.QUESTIONS.search(sentence) else True
    stem = words.STEMS.search(sentence)
    first = min((one for one in (asks, stem) if one is not None), key=lambda one: one.start(), default=None)
    if first is None:
        return None
    if any(_forbids(sentence, one) for one in (first, asks) if one is not None):
        return False
    if asks is None or words.REPORTED.search(sentence[: asks.start()]) or words.QUESTIONS.search(sentence):
        return None
    return True


def _forbids(sentence: str, found: re.Match[str]) -> bool:
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


def _is_spared(marked: str) -> bool:
    return any(TARGET in found.group() for one in (words.KEPT, words.SPARED) for found in one.finditer(marked))


def _is_forbidden(marked: str, sentence: str, target: Target) -> bool:
    """Whether a sentence that forbids deletions forbids this one: it names it, or it speaks of everything, or of nothing at all."""
    if TARGET in marked or (target.column is not None and _mentions(sentence, target.column)):
        return True
    if words.OTHERS.search(sentence):
        return False
    stem = words.STEMS.search(sentence)
    rest = sentence[stem.end() :] if stem else ""
    says_what = re.search(r"\w*\W+.*?([^\W\d_]{3}|[\u3040-\u9fff])|[\u3040-\u9fff]{2}", rest)
    return bool(words.GENERAL.search(sentence)) or (OTHER not in marked and not says_what)


# ----------------------------------------------------------------------------------------------------------------- about what


def _is_about(marked: str, scope: Scope, target: Target) -> bool:
    rows, columns = words.ROW_WORDS.search(marked), words.COLUMN_WORDS.search(marked)
    is_of_table = TARGET in marked or OTHER not in marked
    if scope == "rows":
        return bool((rows or not columns) and (is_of_table or words.ALL_WORDS.search(marked)))
    if scope == "column":
        plain = marked.replace(TARGET, " ").replace(OTHER, " ")
        named = _marked(plain, (target.column or "",), target.columns)
        return bool(is_of_table and columns and (TARGET in named or OTHER not in named))
    if _is_object(marked):
        return True
    if rows or columns:
        return False
    bare = _without_places(marked)
    if TARGET in bare:
        return bool(words.TABLE_WORDS.search(bare))
    return is_of_table and TARGET not in marked and bool(words.TABLE_WORDS.search(bare) or words.ALL_WORDS.search(bare))


def _is_object(marked: str) -> bool:
    """``delete the tables A and B with all their rows``, ``delete A``, ``A bitte löschen``: the table itself, by its place."""
    tables = words.TABLE_WORDS.pattern
    for found in words.ASKS.finditer(marked):
        behind = marked[found.end() :]
        chain = re.match(rf"\W*(?:(?:{_BEFORE}|(?P<table>{tables})|{OTHER})\W*)*?{TARGET}", behind, re.IGNORECASE)
        if chain and (chain["table"] or re.match(_AFTER, behind[chain.end() :], re.IGNORECASE)):
            return True
        ahead = rf"(?:^|[,，:]|把|将|{_BEFORE})\W*(?:(?:{tables}|{OTHER}|{_BEFORE})\W*)*{TARGET}\W*{_SOFT}?\W*$"
        if re.search(ahead, marked[: found.start()], re.IGNORECASE):
            return True
    return False


def _without_places(marked: str) -> str:
    """Without ``from the table A``: where something is deleted, not what."""
    bare = re.sub(rf"\b{words.WITHIN}\s+(?:{_ARTICLE}\s+)*(?:{TARGET}|{OTHER}|{_ARTICLE}\b)", " ", marked, flags=re.IGNORECASE)
    return re.sub(r"从[^，。]{0,30}?[中里内裡]", " ", bare)


# ------------------------------------------------------------------------------------------------------------------- names


def _marked(sentence: str, targets: Collection[str], others: Collection[str]) -> str:
    """With a mark in place of each name; longer names first, so that ``Car Models`` does not name ``Car``."""
    wanted = {one.casefold() for one in targets if one}
    for name in sorted({*(one for one in targets if one), *others}, key=lambda one: (-len(one), one)):
        mark = TARGET if name.casefold() in wanted else OTHER
        sentence = re.sub(_pattern(name), f" {mark} ", sentence, flags=re.IGNORECASE)
    return sentence


def _pointed_at(sentence: str, names: Collection[str]) -> list[str]:
    """Of these names of tables, those that are meant as such: written as the table is, or as the place of something. ``Remove
    Fisker and its models`` is about rows, also of a table of companies."""
    article = rf"(?:{_ARTICLE}\s+)*"
    return [
        name
        for name in names
        if re.search(rf"(?<![^\W_]){NAMED}?{re.escape(name)}(?![^\W_])", sentence)
        or re.search(rf"\b{words.WITHIN}\s+{article}{_pattern(name)}", sentence, re.IGNORECASE)
    ]


def _mentions(sentence: str, name: str) -> bool:
    return re.search(_pattern(name), sentence, re.IGNORECASE) is not None


def _pattern(name: str) -> str:
    """``ElectricCars`` is also said ``electric cars`` or ``electric car``."""
    pieces = _PIECES.findall(name) or [name]
    stems = [re.escape(piece[:-1] if len(piece) > 3 and piece.endswith("s") else piece) for piece in pieces]
    body = rf"[\s_-]*{NAMED}?".join(stems)
    return rf"(?:(?<![^\W_])|(?<={NAMED})){body}(?:s|es|n|en)?(?![^\W_])" if name.isascii() else body
