"""One reader per format; each yields the parts of a document."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from memory.files.cleaning import Cleaning
from memory.files.document import MAX_FILE_BYTES, MAX_TABLE_COLUMNS, MAX_TABLE_ROWS, Part

MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""Of all files in an Office document: a small archive can hold a very large one."""
SECTION_CHARS: Final = 6_000
"""Text without pages is cut into parts of about this size, between paragraphs."""

Notes = list[str]
_FORMULA = re.compile(rb"<(?:\w+:)?f[ >/]")
_HEADING_OR_BLANK = re.compile(r"\n\s*\n")


class Unreadable(Exception):
    """Says, to the caller, why a file cannot be read."""


def read(kind: str, data: bytes, notes: Notes) -> Generator[Part]:
    """The parts of a document, without what cannot be stored. ``notes`` gets what was left out. Raises Unreadable, and whatever a
    library makes of a damaged file."""
    return Cleaning(notes).parts(READERS[kind](data, notes))


def read_pdf(data: bytes, notes: Notes) -> Iterator[Part]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data), strict=False)
    # A document that only forbids printing opens with the empty password.
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("the pdf file is encrypted; remove its password first")
    empty = 0
    for number, page in enumerate(reader.pages, start=1):
        text = page.extract_text().strip()
        empty += not text
        yield Part(text=text, page=number)
    if empty:
        notes.append(f"{empty} pages have no text (pictures are not read)")


def read_docx(data: bytes, notes: Notes) -> Iterator[Part]:
    from docx import Document
    from docx.table import Table
    from docx.text.paragraph import Paragraph

    _check_archive(data)
    document = Document(io.BytesIO(data))
    lines: list[str] = []
    for block in document.iter_inner_content():
        if isinstance(block, Paragraph):
            lines.append(_paragraph(block))
        elif isinstance(block, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield from _sections("\n\n".join(lines))
            lines = []
            yield from _table([[cell.text.strip() for cell in row.cells] for row in block.rows], notes)
    yield from _sections("\n\n".join(lines))


def _paragraph(block: Any) -> str:
    style = (block.style.name or "") if block.style is not None else ""
    level = re.fullmatch(r"Heading ([1-6])", style)
    text = block.text.strip()
    if not text:
        return ""
    if level:
        return f"{'#' * int(level[1])} {text}"
    return f"# {text}" if style == "Title" else f"- {text}" if style.startswith("List") else text


def read_html(data: bytes, notes: Notes) -> Iterator[Part]:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(data, "lxml")
    for element in soup(["script", "style", "noscript", "template", "nav", "svg", "iframe", "object"]):
        element.decompose()
    for table in soup("table"):
        rows = [[cell.get_text(" ", strip=True) for cell in row(["th", "td"])] for row in table("tr")]
        if len(rows) > 1 and not table.find_parent("table"):
            table.decompose()
            yield from _table(rows, notes)
    text = MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(soup.body or soup)
    yield from _sections(re.sub(r"\n{3,}", "\n\n", text).strip())


def read_text(data: bytes, notes: Notes) -> Iterator[Part]:
    yield from _sections(_decoded(data, notes))


def read_csv(data: bytes, notes: Notes) -> Iterator[Part]:
    text = _decoded(data, notes)
    try:
        # Nothing else of what it finds: it takes a column of quoted words for a way of quoting.
        delimiter = csv.Sniffer().sniff(text[:16_384], delimiters=",;\t|").delimiter
    except csv.Error:
        delimiter = ","
    csv.field_size_limit(MAX_FILE_BYTES)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    yield from _table(list(rows), notes)


def read_xlsx(data: bytes, notes: Notes) -> Iterator[Part]:
    from openpyxl import load_workbook

    _check_archive(data)
    # Values, not formulas: what the workbook showed when it was saved.
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    formulas = load_workbook(io.BytesIO(data), read_only=True, keep_links=False) if _has_formulas(data) else None
    for sheet in book.worksheets:
        rows = [list(row) for row in sheet.iter_rows(values_only=True)]
        if formulas is not None and (unknown := _without_value(rows, formulas[sheet.title])):
            notes.append(
                f"{unknown} formulas of sheet {sheet.title} have no value in the file: open it in a spreadsheet program and save it"
            )
        yield from _table(rows, notes, sheet=sheet.title)


def _has_formulas(data: bytes) -> bool:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not name.startswith("xl/worksheets/") or not name.endswith(".xml"):
                continue
            with archive.open(name) as file:
                end = b""
                while piece := file.read(1024 * 1024):
                    if _FORMULA.search(end + piece):
                        return True
                    end = piece[-16:]
    return False


def _without_value(rows: Sequence[Sequence[Any]], sheet: Any) -> int:
    """How many cells hold a formula whose result was never written: programs other than spreadsheets write such files."""
    return sum(
        cell.data_type == "f" and value is None
        for values, cells in zip(rows, sheet.iter_rows(), strict=False)
        for value, cell in zip(values, cells, strict=False)
    )


def _table(rows: Sequence[Sequence[Any]], notes: Notes, *, sheet: str | None = None) -> Iterator[Part]:
    """The first row that is not empty is the header; empty rows and columns at the end are left out."""
    cells = [[_cell(value) for value in row] for row in rows[: MAX_TABLE_ROWS + 1]]
    cells = [row for row in cells if any(value is not None for value in row)]
    if not cells:
        return
    width = max(max((i for i, value in enumerate(row) if value is not None), default=0) for row in cells) + 1
    where = f" of sheet {sheet}" if sheet else ""
    if len(rows) > MAX_TABLE_ROWS + 1:
        notes.append(f"the table{where} was cut to {MAX_TABLE_ROWS} rows of {len(rows) - 1}")
    if width > MAX_TABLE_COLUMNS:
        notes.append(f"the table{where} was cut to {MAX_TABLE_COLUMNS} columns of {width}")
        width = MAX_TABLE_COLUMNS
    padded = [tuple((row + [None] * width)[:width]) for row in cells]
    header = tuple(str(value) if value is not None else f"column_{i + 1}" for i, value in enumerate(padded[0]))
    yield Part(sheet=sheet, header=header, rows=tuple(padded[1:]))


def _cell(value: Any) -> Any:
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()  # a day: workbooks know no other way of writing one
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value).strip() or None


def _sections(text: str) -> Iterator[Part]:
    """Whole paragraphs, up to about ``SECTION_CHARS`` a part; a longer paragraph is cut hard."""
    held = ""
    for paragraph in _HEADING_OR_BLANK.split(text):
        piece = paragraph.strip("\n")
        while len(piece) > SECTION_CHARS:
            if held:
                yield Part(text=held)
                held = ""
            yield Part(text=piece[:SECTION_CHARS])
            piece = piece[SECTION_CHARS:]
        if held and len(held) + len(piece) > SECTION_CHARS:
            yield Part(text=held)
            held = ""
        held = f"{held}\n\n{piece}" if held and piece else held or piece
    if held.strip():
        yield Part(text=held)


def _decoded(data: bytes, notes: Notes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    if best is None or (b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff"))):
        raise Unreadable("the file is not text in a known encoding")
    notes.append(f"read as {best.encoding}")
    return str(best)


def _check_archive(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except zipfile.BadZipFile:
        raise Unreadable("the file is not an Office document (docx and xlsx are zip archives)") from None
    if size > MAX_UNPACKED_BYTES:
        raise Unreadable(f"the file unpacks to {size} bytes; at most {MAX_UNPACKED_BYTES} are read")


READERS: Final[dict[str, Callable[[bytes, Notes], Iterator[Part]]]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "html": read_html,
    "markdown": read_text,
    "text": read_text,
    "csv": read_csv,
    "xlsx": read_xlsx,
}
