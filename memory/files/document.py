"""What a document is read into, and which formats there are."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from memory.model.errors import InvalidInput

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
MAX_PARTS: Final = 5_000
MAX_TEXT_CHARS: Final = 8 * 1024 * 1024
"""Over all parts."""
MAX_TABLE_ROWS: Final = 200_000
MAX_TABLE_COLUMNS: Final = 200

FORMATS: Final = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".csv": "csv",
    ".tsv": "csv",
    ".xlsx": "xlsx",
    ".txt": "text",
    ".text": "text",
    ".log": "text",
}
"""By the end of the name."""


class Part(BaseModel):
    """A page, a section or a table. ``text``: Markdown; empty for a table. ``page``: from 1. ``sheet``: of a workbook.

    ``header`` and ``rows``: of a table; cells are text, numbers, booleans, None or ISO 8601 dates, every row as long as the header.
    """

    model_config = ConfigDict(frozen=True)

    text: str = ""
    page: int | None = None
    sheet: str | None = None
    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    @property
    def is_table(self) -> bool:
        return bool(self.header)


class ParsedFile(BaseModel):
    """``sha256``: of the file's bytes. ``notes``: what was left out or could not be read, for the caller."""

    model_config = ConfigDict(frozen=True)

    name: str
    format: str
    sha256: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All text, pages marked by a comment; tables are left out."""
        return "\n\n".join(
            f"<!-- page {part.page} -->\n{part.text}" if part.page else part.text for part in self.parts if part.text
        )


class ChildReply(BaseModel):
    """What the reading process gives: parts and notes, or why there are none."""

    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None


def format_of(name: str) -> str:
    """Raises InvalidInput for a name whose end says nothing that can be read."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise InvalidInput(f"a file that ends in {suffix[:12] or 'nothing'} cannot be read; known are {known}")
    return FORMATS[suffix]
