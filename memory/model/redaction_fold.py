"""A plain copy of a text to look for secrets in, with the way back to the original.

Full-width letters, ligatures and odd spaces become ordinary ones (NFKC), digits of any script 0-9, and characters nobody sees
(zero-width spaces, soft hyphens, joiners, direction marks) are left out.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

_MAX_GROWTH = 4
"""One character becomes this many at most; a few Arabic ones would become 18."""
_MAX_MARKS = 30
"""Marks on one letter that are composed with it; longer rows would be sorted in quadratic time."""
_UNSEEN = "\u034f\u115f\u1160\u3164\uffa0"


@dataclass(frozen=True, slots=True)
class Folded:
    """``text``: the copy. ``starts``, ``pieces``: where its length differs from the original's, in order of place."""

    text: str
    starts: tuple[int, ...] = ()
    pieces: tuple[tuple[int, int, int], ...] = ()

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that shows as ``text[start:end]``, which is not empty."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.starts, position) - 1
        if index < 0:
            return position, position + 1
        folded_end, start, end = self.pieces[index]
        if position < folded_end:
            return start, end
        return end + position - folded_end, end + position - folded_end + 1


def fold(text: str) -> Folded:
    """Time linear in the length of the text; a text that needs no folding is its own copy."""
    if text.isascii():
        return Folded(text)
    chars = [c for c in set(text) if c > "\x7f"]
    marks = "".join(re.escape(c) for c in chars if unicodedata.combining(c))
    changing = "".join(re.escape(c) for c in chars if _fold_char(c) != c)
    if not marks and not changing:
        return Folded(text)
    patterns = [f"[^{marks}][{marks}]{{1,{_MAX_MARKS}}}"] if marks else []
    patterns += [f"[{changing}]"] if changing else []
    copy: list[str] = []
    starts: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    position = length = 0
    for match in re.finditer("|".join(patterns), text, re.DOTALL):
        start, end = match.span()
        plain = _fold_cluster(match[0]) if end - start > 1 else _fold_char(match[0])
        copy += [text[position:start], plain]
        length += start - position
        if len(plain) != end - start:
            starts.append(length)
            pieces.append((length + len(plain), start, end))
        length += len(plain)
        position = end
    copy.append(text[position:])
    return Folded("".join(copy), tuple(starts), tuple(pieces))


def _fold_cluster(cluster: str) -> str:
    """A letter with its marks; they become one character where there is one."""
    return "".join(map(_fold_char, unicodedata.normalize("NFC", cluster)))


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f" or char in _UNSEEN:
        return ""
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) <= _MAX_GROWTH else char
