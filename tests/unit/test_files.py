"""Documents of every format, and what is wrong with them."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from docx import Document
from openpyxl import Workbook
from pypdf import PdfReader, PdfWriter

from memory.files import FORMATS, parse
from memory.files.document import MAX_FILE_BYTES
from memory.files.readers import MAX_UNPACKED_BYTES, SECTION_CHARS
from memory.model.errors import InvalidInput
from memory.model.knowledge import MAX_TEXT_BYTES


def pdf(*pages: str) -> bytes:
    """A PDF with one line of text a page, written by hand."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {font} /Contents {5 + 2 * i} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out = b"%PDF-1.4\n"
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    tail = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>"
    return out + f"{tail}\nstartxref\n{len(out)}\n%%EOF\n".encode()


def workbook() -> bytes:
    book = Workbook()
    first = book.worksheets[0]
    first.title = "Sales"
    for row in (["Region", "Units", "Since"], ["Norway", 12, None], [None, None, None], ["Überlingen", 3.5, True]):
        first.append(row)
    book.create_sheet("Empty")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def letter() -> bytes:
    document = Document()
    document.add_heading("Terms", level=1)
    document.add_paragraph("Payment within 30 days.")
    document.add_paragraph("by transfer", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((c for row in table.rows for c in row.cells), ("Part", "Price", "Bolt", "2"), strict=True):
        cell.text = text
    document.add_paragraph("After the table.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


async def test_a_pdf_has_its_pages(tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    file.write_bytes(pdf("Turnover rose to 12 million", "", "Staff: 40"))
    parsed = await parse(file)
    assert [(part.page, part.text) for part in parsed.parts] == [(1, "Turnover rose to 12 million"), (2, ""), (3, "Staff: 40")]
    assert parsed.notes == ("1 pages have no text (pictures are not read)",)
    assert "<!-- page 3 -->\nStaff: 40" in parsed.text
    assert (parsed.name, parsed.format, len(parsed.sha256)) == ("report.pdf", "pdf", 64)


async def test_a_workbook_has_its_sheets() -> None:
    parsed = await parse(workbook(), name="b.xlsx")
    assert [(part.sheet, part.header, part.rows) for part in parsed.parts] == [
        ("Sales", ("Region", "Units", "Since"), (("Norway", 12, None), ("Überlingen", 3.5, True)))
    ]


async def test_a_letter_keeps_headings_lists_and_tables_in_order() -> None:
    parsed = await parse(letter(), name="terms.DOCX")
    assert [part.text or part.rows for part in parsed.parts] == [
        "# Terms\n\nPayment within 30 days.\n\n- by transfer",
        (("Bolt", "2"),),
        "After the table.",
    ]
    assert parsed.parts[1].header == ("Part", "Price")


async def test_html_loses_scripts_and_keeps_tables() -> None:
    page = b"<h1>Tea</h1><script>steal()</script><p>Green <b>tea</b></p><table><tr><th>a<th>b<tr><td>1<td>2</table>"
    parsed = await parse(page, name="x.html")
    assert [(part.header, part.rows, part.text) for part in parsed.parts] == [
        (("a", "b"), (("1", "2"),), ""),
        ((), (), "# Tea\n\nGreen **tea**"),
    ]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a;b\n1;x y\n2;\n", (("1", "x y"), ("2", None))),
        ("a,b\nKöln,中文\n".encode("utf-8-sig"), (("Köln", "中文"),)),
        ("a,b\nKöln,Straße\nMünchen,Allee\n".encode("latin-1"), (("Köln", "Straße"), ("München", "Allee"))),
        (b'a,b\n"two\nlines","say ""hi"""\n', (("two\nlines", 'say "hi"'),)),
        (b"a,b,c\n1\n", (("1", None, None),)),
        (
            b"id,quote,note\n1,'x',\"y, z\"\n2,'a',\"b, c\"\n3,'k',\"l, m\"\n",
            (("1", "'x'", "y, z"), ("2", "'a'", "b, c"), ("3", "'k'", "l, m")),
        ),
        (b'id, text\n1, "a, b"\n2, c\n', (("1", "a, b"), ("2", "c"))),
        (b"a,b\nx\x00y,\x00\n", (("xy", None),)),
    ],
)
async def test_csv(data: bytes, rows: tuple[tuple[str | None, ...], ...]) -> None:
    (part,) = (await parse(data, name="t.csv")).parts
    assert part.rows == rows


async def test_a_quotation_after_many_rows_without_one_is_read() -> None:
    plain = "id,text\n" + "".join(f'{number},"plain, text"\n' for number in range(1_200))
    (part,) = (await parse(f'{plain}9,"say ""hi"", ok"\n'.encode(), name="t.csv")).parts
    assert (part.header, part.rows[0], part.rows[-1]) == (("id", "text"), ("0", "plain, text"), ("9", 'say "hi", ok'))


async def test_what_no_table_can_hold_is_left_out_and_said() -> None:
    parsed = await parse(f"a,b\nx\0,{'ü' * 200_000}\n{'z' * 1_500_000},1\n".encode(), name="t.csv")
    (part,) = parsed.parts
    assert [[len(cell.encode()) for cell in row] for row in part.rows] == [[1, MAX_TEXT_BYTES], [MAX_TEXT_BYTES, 1]]
    assert set(part.rows[0][1]) == {"ü"}
    assert parsed.notes == (
        "1 texts held NUL or halves of surrogate pairs, which were left out",
        f"2 cells of more than {MAX_TEXT_BYTES} bytes were cut to that",
    )
    assert (await parse(b"one\0two", name="t.txt")).text == "onetwo"
    many = ",".join(f"c{number}" for number in range(210))
    assert (await parse(f"{many}\n{many}\n".encode(), name="t.csv")).notes == ("the table was cut to 200 columns of 210",)


async def test_a_workbook_has_days_and_says_which_formulas_have_no_value() -> None:
    book = Workbook()
    book.worksheets[0].title = "S"
    for row in (
        ["when", "at", "sum"],
        [datetime.fromisoformat("2024-02-29"), datetime.fromisoformat("2024-02-29T08:30"), "=1+1"],
        [None, None, "=SUM(C2:C2)"],
    ):
        book.worksheets[0].append(row)
    out = io.BytesIO()
    book.save(out)
    parsed = await parse(out.getvalue(), name="b.xlsx")
    assert parsed.parts[0].rows == (("2024-02-29", "2024-02-29T08:30:00", None),)
    assert parsed.notes == ("2 formulas of sheet S have no value in the file: open it in a spreadsheet program and save it",)
    assert (await parse(workbook(), name="b.xlsx")).notes == ()


async def test_long_text_is_cut_between_paragraphs() -> None:
    text = "\n\n".join(f"Paragraph {i}. " + "word " * 200 for i in range(20)) + "\n\n" + "x" * (SECTION_CHARS * 2)
    parsed = await parse(text.encode(), name="notes.md")
    assert all(len(part.text) <= SECTION_CHARS for part in parsed.parts)
    assert "".join("".join(part.text.split()) for part in parsed.parts) == "".join(text.split())


def encrypted() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("a password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def bomb() -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as file,
    ):
        for _ in range(MAX_UNPACKED_BYTES // (1024 * 1024) + 1):
            file.write(bytes(1024 * 1024))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.exe", b"MZ", r"ends in \.exe cannot be read; known are \.csv"),
        ("noend", b"x", "ends in nothing cannot be read"),
        ("x.txt", b"", "the file is empty"),
        ("x.txt", b"  \n ", "the text file has no text"),
        ("x.txt", b"\x00\x01\x02\xff\xfe" * 50, "not text in a known encoding"),
        ("x.csv", b"\n\n", "the csv file has no text"),
        ("x.pdf", b"%PDF-1.4 rubbish", "the pdf file is damaged"),
        ("x.pdf", pdf("", ""), "pictures are not read"),
        ("x.docx", b"no archive", "not an Office document"),
        ("x.xlsx", letter(), "the xlsx file is damaged or not what its name says"),
    ],
)
async def test_what_cannot_be_read_says_why(name: str, data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        await parse(data, name=name)


async def test_an_encrypted_pdf_a_bomb_and_a_giant_are_refused() -> None:
    with pytest.raises(InvalidInput, match="encrypted; remove its password"):
        await parse(encrypted(), name="x.pdf")
    with pytest.raises(InvalidInput, match="unpacks to"):
        await parse(bomb(), name="x.docx")
    with pytest.raises(InvalidInput, match=f"at most {MAX_FILE_BYTES} are read"):
        await parse(b"x" * (MAX_FILE_BYTES + 1), name="x.txt")
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        await parse(Path("nowhere.txt"))


async def test_a_reader_that_takes_too_long_is_ended() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(InvalidInput, match=r"not be read within 0\.01 s"):
        await parse(workbook(), name="x.xlsx", timeout_s=0.01)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_every_format_is_tested_or_the_same_as_one_that_is() -> None:
    assert set(FORMATS.values()) == {"pdf", "docx", "html", "markdown", "csv", "xlsx", "text"}
