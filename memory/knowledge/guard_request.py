"""Whether a caller's own words ask for a deletion, of which kind, and of what."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from memory.knowledge import guard_speech as speech
from memory.knowledge import guard_words as words
from memory.knowledge.guard_order import forbids, is_kept, orders, verdict
from memory.knowledge.guard_text import NAMED, own_words, sentences

Scope: TypeAlias = Literal["tables", "rows", "column", "values"]

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
_CLEARS: Final = re.compile(f"{words.ASKS.pattern}|{speech.CLEARS.pattern}", re.IGNORECASE | re.DOTALL)
"""An order to empty values; who orders rows to be deleted gives them up too."""
_EMPTIES: Final = re.compile(r"(?:clear|empty)\b|清空|清除", re.IGNORECASE)
"""A table that is emptied stays."""
_EDGE: Final = rf"(?:(?<![^\W_])|(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3])|(?<={NAMED}))"
_END: Final = r"(?:(?![^\W_])|(?=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]))"
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
    asked, since = False, 0
    for number, text in enumerate(said):
        parts = [part for one in sentences(own_words(text)) for part in words.CONTRASTS.split(words.HARMLESS.sub(" ", one))]
        for place, part in enumerate(parts):
            names = _pointed_at(part, target.names) if scope in ("rows", "values") else target.names
            marked = _marked(part, (target.table, target.prefix), names)
            found = verdict(_marked(part, (), _written(part, target)), asks=_CLEARS if scope == "values" else words.ASKS)
            if found is True and _is_meant(marked, part, scope, target) and not _is_kept_behind(parts[place:]):
                asked, since = True, number
            elif asked and _takes_back(marked, part, found, target, scope, later=number > since or (place > 0 and _is_short(part))):
                asked = False
            if _is_spared(marked):
                asked = False
    return asked


def asks_to_merge(said: Sequence[str]) -> bool:
    """Whether the caller's last word is that some are the same and shall be one."""
    asked = False
    for number, text in enumerate(said):
        for part in (part for one in sentences(own_words(text)) for part in words.CONTRASTS.split(one)):
            found = speech.MERGES.search(part)
            if found and not forbids(part, found):
                reported = words.REPORTED.search(part) or words.QUESTIONS.search(part) or is_kept(part, found)
                asked = asked or not reported
            elif found or (number and speech.RETRACTS.search(part)):
                asked = False
    return asked


def _is_meant(marked: str, part: str, scope: Scope, target: Target) -> bool:
    return len(part) <= MAX_SENTENCE_CHARS and _is_about(words.KEPT.sub(" ", marked), scope, target)


def _written(part: str, target: Target) -> list[str]:
    """Names of tables that stand there as they are written: others may be words like any."""
    return [name for name in {*target.names, target.table} if name and re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}", part)]


def _is_kept_behind(parts: Sequence[str]) -> bool:
    """``… . Note it down.``"""
    first = _CLEARS.search(parts[0])
    behind = parts[0][first.end() :] if first else ""
    return any(speech.STORED_BEHIND.search(one) for one in (behind, *parts[1:]))


def _takes_back(marked: str, part: str, found: bool | None, target: Target, scope: Scope, *, later: bool) -> bool:
    """Whether what was asked for is no longer sure. What the caller says later must be plainly about something else to leave it."""
    if found is False:
        return _is_forbidden(marked, part, target)
    if not later or found is True:
        return False
    if TARGET not in marked and OTHER in marked:
        # `Keep Models.` is about Models; `sorry, I meant Models` is not.
        marked = words.KEPT.sub(" ", marked)
    # Whoever goes on speaking of a table may well want it.
    return speech.RETRACTS.search(marked) is not None or (scope == "tables" and TARGET in marked)


def _is_short(part: str) -> bool:
    return len(part.split()) <= speech.SHORT_WORDS and speech.SHORT_RETRACTS.search(part) is not None


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
        # `everything in Models` is all of Models.
        return bool((rows or not columns) and (is_of_table or (words.ALL_WORDS.search(marked) and speech.ELSEWHERE.search(marked))))
    if scope in ("column", "values"):
        plain = marked.replace(TARGET, " ").replace(OTHER, " ")
        named = _marked(plain, (target.column or "",), target.columns)
        return bool(is_of_table and (columns or scope == "values") and (TARGET in named or OTHER not in named))
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
    for found in orders(marked, words.ASKS.finditer(marked)):
        if _EMPTIES.match(found.group()):
            continue
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
        if re.search(rf"{_EDGE}{re.escape(name)}{_END}", sentence)
        or re.search(rf"\b{words.WITHIN}\s+{article}{_pattern(name)}", sentence, re.IGNORECASE)
    ]


def _mentions(sentence: str, name: str) -> bool:
    return re.search(_pattern(name), sentence, re.IGNORECASE) is not None


def _pattern(name: str) -> str:
    """``ElectricCars`` is also said ``electric cars`` or ``electric car``."""
    pieces = _PIECES.findall(name) or [name]
    stems = [re.escape(piece[:-1] if len(piece) > 3 and piece.endswith("s") else piece) for piece in pieces]
    body = rf"[\s_-]*{NAMED}?".join(stems)
    return rf"{_EDGE}{body}(?:s|es|n|en)?{_END}" if name.isascii() else body
