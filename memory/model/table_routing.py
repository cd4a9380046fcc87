"""Which claims of a conversation belong in a knowledge table as well: lexical, any script, and no when in doubt.

A claim belongs in a table when it names one thing of the table's kind (by the noun of the table's name, or by what a row of it is
called) and says something that a column holds (by the column's name, a number with the column's unit, or a value that is in its
cells). Rules about all things of a kind, definitions and preferences are about no row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from memory.model import table_routing_words as lists
from memory.model.fact import FactKind
from memory.model.knowledge import CONTACTS_TABLE, PERSONAL, Column, ColumnType, Table
from memory.model.lexical_languages import stem, stop_words
from memory.model.lexical_text import strip_marks
from memory.model.table_routing_text import (
    Text,
    alike,
    begins_alike,
    is_word,
    nouns_of,
    pieces_of,
    row_nouns,
    text_of,
    told_by,
    word_of,
)
from memory.model.words import fold, is_dense

KINDS: Final = frozenset({FactKind.FACT, FactKind.DECISION, FactKind.CONSTRAINT})
"""Of facts that can be a row."""
SOURCE_COLUMN: Final = "source_fact"
"""A column of this name gets the id of the fact."""
MAX_PHRASES: Final = 160
"""Of a claim, that a cell may hold."""
MAX_TEXT_COLUMNS: Final = 6
"""Of a table, whose cells are looked at."""

_PHRASE_WORDS: Final = 4
_DENSE_PHRASE: Final = (2, 8)
_DESCRIPTION_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Said:
    """A claim, as the rule looks at it."""

    statement: str = field(repr=False)
    kind: FactKind = FactKind.FACT


@dataclass(frozen=True, slots=True)
class Hits:
    """What of a table a claim meets, its cells left out. ``noun``: all words of the table's name; ``hint``: the last word of its
    name, or what its description says that a row is. ``columns``: by name."""

    noun: bool
    hint: bool
    columns: frozenset[str]

    @property
    def any(self) -> bool:
        return self.noun or self.hint or bool(self.columns)


def is_of_a_row(said: Said, table: Table) -> bool:
    """Whether this is a claim and a table that the rule looks at at all."""
    return said.kind in KINDS and table.source == PERSONAL and table.name != CONTACTS_TABLE and bool(_told(table))


def hits(said: Said, table: Table) -> Hits:
    """Pure and quick: for many tables, before any cell is looked at."""
    text = text_of(said.statement)
    parts = [_find(text, part) for part in nouns_of(table.name)]
    found = [one for one in parts if one is not None]
    noun = bool(parts) and len(found) == len(parts) and _names_one(text, found[-1])
    last = [*parts[-1:], *(_find(text, word) for word in row_nouns((table.description or "")[:_DESCRIPTION_CHARS]))]
    hinted = [one for one in last if one is not None]
    taken = frozenset(one.place for one in (*found, *hinted) if one.place is not None)
    columns = frozenset(name for name in _told(table) if _is_said(text, name, taken))
    return Hits(noun, any(_names_one(text, one) for one in hinted), columns)


def belongs(said: Said, table: Table, cells: Mapping[str, Collection[str]] | None = None) -> bool:
    """Whether a claim belongs in a table.

    Args:
        cells: what of :func:`phrases` is in the table's cells, by column.
    """
    if not is_of_a_row(said, table):
        return False
    found = hits(said, table)
    label = label_of(table)
    known = {name: values for name, values in (cells or {}).items() if values}
    row = label is not None and label in known
    values = {name for name in known if name != label}
    if found.noun:
        return (bool(found.columns) and (row or has_name(said, table))) or row or (bool(values) and has_name(said, table))
    if row:
        return bool(found.columns)
    details = found.columns | values
    return found.hint and len(details) >= 2 and has_name(said, table)


def label_of(table: Table) -> str | None:
    """The column that says what a row is called: by its name, else the first one of text."""
    texts = [column.name for column in table.columns if column.type is ColumnType.STR and column.name != SOURCE_COLUMN]
    named = (name for name in texts if any(part in lists.LABELS for part in map(fold, pieces_of(name))))
    return next(named, texts[0] if texts else None)


def text_columns(table: Table) -> tuple[str, ...]:
    """Whose cells are looked at, what a row is called by first."""
    label = label_of(table)
    texts = [column.name for column in table.columns if column.type is ColumnType.STR and column.name != SOURCE_COLUMN]
    return tuple(dict.fromkeys(([label] if label else []) + texts))[:MAX_TEXT_COLUMNS]


def phrases(statement: str) -> tuple[str, ...]:
    """Runs of words, and of characters in scripts without spaces, that a cell may hold; in small letters, longest first."""
    plain = unicodedata.normalize("NFKC", statement)
    found: dict[str, None] = {}
    for part in re.split(r"[,;:!?()\[\]\"“”„«»]|[，。；：！？、（）「」]|\.(?=\s|$)|\n", plain):
        tokens = re.findall(r"[^\W_](?:[\w.&'’/+-]*\w)?", part)
        for size in range(_PHRASE_WORDS, 0, -1):
            for start in range(len(tokens) - size + 1):
                run = tokens[start : start + size]
                if any(map(is_dense, run)) or not _may_name(run):
                    continue
                found[" ".join(run).lower()] = None
        for run in re.findall(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+", part):
            for size in range(min(_DENSE_PHRASE[1], len(run)), _DENSE_PHRASE[0] - 1, -1):
                found.update(dict.fromkeys(run[start : start + size] for start in range(len(run) - size + 1)))
    return tuple(sorted(found, key=len, reverse=True)[:MAX_PHRASES])


def has_name(said: Said, table: Table) -> bool:
    """Whether a claim names one thing: a proper name, a number of a model, a quoted word. Scripts without capital letters pass."""
    text = text_of(said.statement)
    if text.dense or not any(token.lower() != token.upper() for token in text.tokens):
        return True
    if re.search(r"[\"“”„«»]", said.statement):
        return True
    own = {fold(part) for name in (table.name, *(column.name for column in table.columns)) for part in pieces_of(name)}
    for place, token in enumerate(text.tokens):
        small = fold(token)
        if small in lists.NO_NAMES or any(alike(small, one) or one.startswith(small[:6]) for one in own if len(one) > 2):
            continue
        if re.search(r"[^\W\d_]", token) and re.search(r"\d", token):
            return True
        if token[:1].isupper() and (place > 0 or not any(small in stop_words(language) for language in ("en", "de", "fr", "es"))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Found:
    """``place``: among the tokens; None in scripts without spaces."""

    place: int | None
    word: str


def _told(table: Table) -> tuple[str, ...]:
    """Columns that a claim can be about."""
    return _telling(table.columns)


@lru_cache(maxsize=2_048)
def _telling(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(
        column.name
        for column in columns
        if column.type is not ColumnType.VECTOR
        and not column.auto
        and column.name != SOURCE_COLUMN
        and not all(fold(piece) in lists.NEVER for piece in pieces_of(column.name))
    )


def _find(text: Text, word: str) -> _Found | None:
    """A word of a table in a claim, strictly."""
    if is_dense(word):
        small = word.casefold()
        return _Found(None, small) if len(small) > 1 and small in text.dense else None
    wanted = word_of(word)
    if wanted is None:
        return None
    return next((_Found(place, word) for place in text.places(wanted) if is_word(text.words[place], wanted, text)), None)


def _names_one(text: Text, found: _Found) -> bool:
    """Whether a noun is about one thing, and not about all of the kind."""
    if found.place is None:
        return re.search(lists.EVERY_DENSE + re.escape(found.word), text.dense) is None
    if any(lists.EVERY.match(token) for token in text.tokens[max(0, found.place - 2) : found.place]):
        return False
    word = text.words[found.place].plain
    if text.language != "en" or not word.endswith("s") or word.endswith("ss") or word == strip_marks(stem("en", word)):
        return True
    # Several: unless a name follows, as in "the suppliers Nordholz and Holzmann".
    return any(token[:1].isupper() for token in text.tokens[found.place + 1 : found.place + 2])


def _is_said(text: Text, column: str, taken: Collection[int]) -> bool:
    """Whether a claim speaks of what a column holds; words at ``taken`` places name the table already."""
    unit, wanted = told_by(column)
    if unit is not None and lists.UNIT_PATTERNS[unit].search(text.plain):
        return True
    return all(_is_piece_said(text, piece, taken) for piece in wanted)


def _is_piece_said(text: Text, piece: str, taken: Collection[int]) -> bool:
    if is_dense(piece):
        small = piece.casefold()
        if small in text.dense:
            return True
        # 交货天数 is spoken of as 交货期: half of a longer word, its beginning.
        half = small[: max(2, len(small) // 2)]
        return len(small) >= 4 and half in text.dense
    wanted = word_of(piece)
    if wanted is None:
        return False
    return any(
        place not in taken and (is_word(text.words[place], wanted, text) or begins_alike(text.words[place].plain, wanted.plain))
        for place in text.places(wanted)
    )


def _may_name(run: Sequence[str]) -> bool:
    """Whether a run of words may be a cell: it does not begin or end in a common word."""
    ends = {fold(run[0]), fold(run[-1])}
    if any(one in stop_words(language) for one in ends for language in ("en", "de")):
        return False
    if len(run) == 1:
        return len(run[0]) >= 3 and not run[0].isdigit()
    return any(word[:1].isupper() or any(map(str.isdigit, word)) for word in run)
