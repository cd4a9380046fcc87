"""What no table can hold is taken out of what was read, and said: it is no reason to refuse a whole file."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from memory.files.document import Part
from memory.model.knowledge import MAX_TEXT_BYTES

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""NUL, and halves of surrogate pairs."""
_SURELY_SHORT: Final = MAX_TEXT_BYTES // 4
"""Characters that are never more than MAX_TEXT_BYTES."""


class Cleaning:
    """``notes`` gets what was taken out when :meth:`parts` is through; also where its reader stops before."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._mended = 0
        self._cut = 0

    def parts(self, given: Iterable[Part]) -> Generator[Part]:
        try:
            for part in given:
                header = part.header if self._is_clean(part.header) else tuple(map(self._text, part.header))
                yield part.model_copy(
                    update={
                        "text": self._storable(part.text),
                        "sheet": None if part.sheet is None else self._storable(part.sheet),
                        "header": header,
                        "rows": tuple(row if self._is_clean(row) else tuple(map(self._cell, row)) for row in part.rows),
                    }
                )
        finally:
            if self._mended:
                self._notes.append(f"{self._mended} texts held NUL or halves of surrogate pairs, which were left out")
            if self._cut:
                self._notes.append(f"{self._cut} cells of more than {MAX_TEXT_BYTES} bytes were cut to that")

    @staticmethod
    def _is_clean(row: Sequence[Any]) -> bool:
        joined = "".join([value for value in row if isinstance(value, str)])
        return len(joined) <= _SURELY_SHORT and _UNSTORABLE.search(joined) is None

    def _cell(self, value: Any) -> Any:
        return (self._text(value) or None) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = self._storable(text)
        if len(text) <= _SURELY_SHORT or len(data := text.encode()) <= MAX_TEXT_BYTES:
            return text
        self._cut += 1
        return data[:MAX_TEXT_BYTES].decode(errors="ignore")

    def _storable(self, text: str) -> str:
        if _UNSTORABLE.search(text) is None:
            return text
        self._mended += 1
        return _UNSTORABLE.sub("", text)
