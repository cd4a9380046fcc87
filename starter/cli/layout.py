"""How wide the columns of a table are on a terminal: ids stay whole, headers are never broken within a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = 3
"""Cells between two columns."""
WORD = 12
"""Words up to this many cells are not broken; longer ones are where there is no room."""
MAX_ID = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """``shown``: places of the columns that fit, in order, with their ``widths``. ``left_out``: places of the others."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    left_out: tuple[int, ...]


def layout(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, whole: Sequence[str] = (), spare: Sequence[str] = ()
) -> Layout:
    """Columns that fit into ``width`` cells.

    Args:
        columns: their headers.
        rows: cells as text.
        width: of the terminal.
        whole: columns of ids, which are never broken and are the last to be left out.
        spare: columns that can be left out, the first one first; after them the others from the right. The first column stays.
    """
    natural = [_longest_line((name, *(row[at] for row in rows))) for at, name in enumerate(columns)]
    least = [
        min(
            natural[at],
            max(_longest_word((name,)), min(_longest_word(row[at] for row in rows), MAX_ID if name in whole else WORD)),
        )
        for at, name in enumerate(columns)
    ]
    places = {name: at for at, name in enumerate(columns)}
    others = [at for at in reversed(range(1, len(columns))) if columns[at] not in (*whole, *spare)]
    going = [*(places[name] for name in spare if name in places), *others]
    going += [places[name] for name in reversed(whole) if places.get(name) and name not in spare]
    shown = list(range(len(columns)))
    while going and _needed([least[at] for at in shown]) > width:
        shown.remove(going.pop(0))
    widths = _spread([least[at] for at in shown], [natural[at] for at in shown], width)
    return Layout(tuple(shown), tuple(widths), tuple(at for at in range(len(columns)) if at not in shown))


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _spread(least: Sequence[int], natural: Sequence[int], width: int) -> list[int]:
    """What is left beyond the least goes to the narrowest column that wants more, so that the longest texts give way."""
    widths = list(least)
    left = width - _needed(widths)
    while left > 0:
        wanting = [at for at, now in enumerate(widths) if now < natural[at]]
        if not wanting:
            break
        widths[min(wanting, key=lambda at: widths[at])] += 1
        left -= 1
    return [max(1, min(one, width)) for one in widths]


def _longest_line(texts: Sequence[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=1)


def _longest_word(texts: Iterable[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=1)
