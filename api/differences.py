"""The differences between two texts, line by line and within lines word by word, for showing them side by side.

Bounded whatever the texts are: what is equal at both ends is set aside first, and where the rest is too long to be compared it
is told as replaced altogether (``coarse``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rapidfuzz.distance import Indel, Levenshtein

MAX_LINES: Final = 8_000
"""Lines of either text that are compared; equal ones at both ends do not count."""
MAX_ROWS: Final = 2_000
MAX_LINE_CHARS: Final = 4_000
"""A longer line is not compared word by word, and only its beginning is told."""
CONTEXT: Final = 3
"""Equal lines that are told around what differs."""
_ALIKE: Final = 0.4
_REACH: Final = 8
_MAX_PAIRED: Final = 1_000
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]", re.UNICODE)

Kind = Literal["same", "removed", "added", "changed", "gap"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line. ``marked``: it is not in the other text's line."""

    text: str = field(repr=False)
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """``before`` and ``after``: a line of each text, None where that text has none here. A gap stands for ``lines`` equal lines."""

    kind: Kind
    before: tuple[Piece, ...] | None = None
    after: tuple[Piece, ...] | None = None
    lines: int = 1


@dataclass(frozen=True, slots=True)
class Differences:
    """``removed`` and ``added`` count lines; a changed line counts in both. ``complete``: no row was left out."""

    rows: tuple[Row, ...]
    removed: int
    added: int
    coarse: bool
    complete: bool

    @property
    def same(self) -> bool:
        return not self.removed and not self.added


def differences(before: str, after: str) -> Differences:
    """What changed from one text to the other. Line ends of any kind and blanks at the end of a line do not count."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    coarse = max(len(old_middle), len(new_middle)) > MAX_LINES
    changed = list(_coarse(old_middle, new_middle) if coarse else _compared(old_middle, new_middle))
    rows = list(_with_gaps([*map(_same, old[:head]), *changed, *map(_same, old[len(old) - tail :])]))
    if coarse:
        return Differences(tuple(rows), len(old_middle), len(new_middle), coarse=True, complete=False)
    removed = sum(row.before is not None for row in changed if row.kind != "same")
    added = sum(row.after is not None for row in changed if row.kind != "same")
    return Differences(tuple(rows[:MAX_ROWS]), removed, added, coarse=False, complete=len(rows) <= MAX_ROWS)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _compared(old: list[str], new: list[str]) -> Iterator[Row]:
    """What is removed and added between two equal lines is one block; its lines are paired where they are alike."""
    gone: list[str] = []
    come: list[str] = []
    for step in Indel.opcodes(old, new):
        if step.tag == "equal":
            yield from _block(gone, come)
            gone, come = [], []
            yield from map(_same, old[step.src_start : step.src_end])
        else:
            gone += old[step.src_start : step.src_end]
            come += new[step.dest_start : step.dest_end]
    yield from _block(gone, come)


def _coarse(old: list[str], new: list[str]) -> Iterator[Row]:
    """The beginning of both."""
    yield from map(_removed, old[: MAX_ROWS // 2])
    yield from map(_added, new[: MAX_ROWS // 2])


def _block(gone: list[str], come: list[str]) -> Iterator[Row]:
    """In the order of both: a line and the next line of the other text that is alike are one changed line."""
    start = 0
    reach = _REACH if len(gone) + len(come) <= _MAX_PAIRED else 0
    for line in gone:
        near = range(start, min(len(come), start + reach))
        partner = next((at for at in near if _is_alike(line, come[at])), None)
        if partner is None:
            yield _removed(line)
            continue
        yield from map(_added, come[start:partner])
        yield _changed(line, come[partner])
        start = partner + 1
    yield from map(_added, come[start:])


def _is_alike(line: str, other: str) -> bool:
    short = max(len(line), len(other)) <= MAX_LINE_CHARS
    return short and bool(line.strip()) and Indel.normalized_similarity(_words(line), _words(other)) > _ALIKE


def _words(line: str) -> list[str]:
    return _WORD.findall(line)


def _changed(line: str, other: str) -> Row:
    old, new = _words(line), _words(other)
    before: list[Piece] = []
    after: list[Piece] = []
    for step in Levenshtein.opcodes(old, new):
        marked = step.tag != "equal"
        _put(before, old[step.src_start : step.src_end], marked)
        _put(after, new[step.dest_start : step.dest_end], marked)
    return Row("changed", _joined(before), _joined(after))


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Blanks between two marked words are marked too: it reads as one change."""
    last = len(pieces) - 1
    joined: list[Piece] = []
    for at, piece in enumerate(pieces):
        between = 0 < at < last and not piece.text.strip() and pieces[at - 1].marked and pieces[at + 1].marked
        _put(joined, [piece.text], piece.marked or between)
    return tuple(joined)


def _put(pieces: list[Piece], words: Iterable[str], marked: bool) -> None:
    text = "".join(words)
    if text and pieces and pieces[-1].marked == marked:
        pieces[-1] = Piece(pieces[-1].text + text, marked)
    elif text:
        pieces.append(Piece(text, marked))


def _shown(line: str) -> tuple[Piece, ...]:
    return (Piece(line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + " …"),)


def _same(line: str) -> Row:
    return Row("same", _shown(line), _shown(line))


def _removed(line: str) -> Row:
    return Row("removed", before=_shown(line))


def _added(line: str) -> Row:
    return Row("added", after=_shown(line))


def _with_gaps(rows: Sequence[Row]) -> Iterator[Row]:
    """Long runs of equal lines become gaps; the heading above a change stays in sight."""
    shown: set[int] = set()
    heading: int | None = None
    for at, row in enumerate(rows):
        line = row.after or row.before
        if line is not None and line[0].text.startswith("#"):
            heading = at
        if row.kind != "same":
            shown.update(range(max(0, at - CONTEXT), min(len(rows), at + CONTEXT + 1)))
            if heading is not None:
                shown.add(heading)
    hidden = 0
    for at, row in enumerate(rows):
        if at not in shown:
            hidden += 1
            continue
        if hidden:
            yield Row("gap", lines=hidden)
            hidden = 0
        yield row
    if hidden:
        yield Row("gap", lines=hidden)
