"""Names and types that the header and the cells of a table become; the text of a document in parts."""

from __future__ import annotations

from typing import Any

import pytest

from memory.files import Part
from memory.model.errors import InvalidInput
from memory.model.knowledge_names import checked_column_name
from starter.ingest import CHUNK_CHARS, chunks_of
from starter.ingest_columns import column_names, column_type, table_name, typed_column


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Units sold (2024)", "units_sold_2024"),
        ("unitPrice", "unit_price"),
        ("  Größe / cm ", "größe_cm"),
        ("名称", "名称"),
        ("2024", "column_2024"),
        ("__x__", "x"),
        ("...", "column_1"),
        ("___", "column_1"),
        ("a" * 90, "a" * 56),
        (
            "a_name__" + "b" * 56,
            "a_name__" + "b" * 56,
        ),
    ],
)
def test_a_title_becomes_a_column_name(title: str, name: str) -> None:
    assert column_names([title]) == [name]


def test_names_are_distinct_and_none_is_reserved() -> None:
    header = ["Name", "name", "ID", "row_id", "source_file", "!", "Name 2", "m²", "m2"]
    names = ["name", "name_2", "id_", "row_id_2", "source_file_2", "column_6", "name_2_2", "m2", "m2_2"]
    assert column_names(header) == names
    assert column_names(["row_id", "x"], keep=("row_id",)) == ["row_id", "x"]
    assert column_names(["company_id", "x"], key="company_id") == ["company_id_2", "x"]


def test_what_header_there_is_its_names_can_be_used() -> None:
    header = [
        "From",
        "Class",
        "In",
        "Is",
        "Import",
        "Lambda",
        "None",
        "True",
        "½",
        "m²",
        "_source",
        "İ",
        "ﷺ",
        "ẞ",
        "a\0b",
        "#1",
        "",
        "😀",
    ]
    names = column_names(header)
    assert [checked_column_name(name) for name in names] == names
    assert len(set(names)) == len(header)
    assert names[:6] == ["from_", "class_", "in_", "is_", "import_", "lambda_"]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", None], [1, -2, None]),
        (["1", "2.5", "1e3"], [1.0, 2.5, 1000.0]),
        (["007", "12"], ["007", "12"]),
        (["1", "x"], ["1", "x"]),
        (["true", "FALSE", None], [True, False, None]),
        (["12345678901234567890"], ["12345678901234567890"]),
        (["+49 228", "1"], ["+49 228", "1"]),
        (["+491701234567", "4"], ["+491701234567", "4"]),
        (["+1.5"], ["+1.5"]),
        (["-0"], ["-0"]),
        (["٤٢"], ["٤٢"]),
        (["9223372036854775807"], [2**63 - 1]),
        (["9223372036854775808"], ["9223372036854775808"]),
        (["9007199254740993", "1.5"], ["9007199254740993", "1.5"]),
        (["123456789012345.987654321"], ["123456789012345.987654321"]),
        (["0.1", "0.30000000000000004", "2.50"], [0.1, 0.1 + 0.2, 2.5]),
        (["1e999"], ["1e999"]),
        (["1e-400"], ["1e-400"]),
        ([2**64 + 1, 1], [str(2**64 + 1), "1"]),
        ([True, 1], ["True", "1"]),
        ([1, 2.5, None], [1.0, 2.5, None]),
        ([1, "x", None], ["1", "x", None]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_a_column_is_numbers_only_where_all_of_it_is(cells: list[Any], values: list[Any]) -> None:
    found = typed_column(cells)
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, None], "int"),
        ([1, 2.5], "float"),
        ([True], "bool"),
        ([True, 1], "str"),
        (["2024-02-29", None], "date"),
        (["2024-02-30"], "str"),
        (["20240229"], "str"),
        (["2024-02-29T08:30:00", "2024-03-01", None], "datetime"),
        (["2024-02-29T08:30:00Z"], "datetime"),
        (["2024-02-29T08:30:00+02:00"], "str"),
        (["2024-02-29T25:30:00"], "str"),
        (["x"], "str"),
        ([None], "str"),
    ],
)
def test_a_new_column_has_the_type_of_its_values(cells: list[Any], kind: str) -> None:
    assert column_type(cells) == kind


def test_a_table_is_named_after_file_and_sheet() -> None:
    assert table_name(None, "sales report-2024.xlsx", "Q1 north", 2) == "Sales_report_2024_Q1_north"
    assert table_name(None, "2024.csv", None, None) == "Table_2024"
    assert table_name(None, "contacts.csv", None, None) == "Contacts_"
    assert table_name(None, "none.csv", None, None) == "None_"
    assert table_name("orders", "x.csv", None, None) == "orders"
    assert table_name("orders", "x.html", None, 3) == "orders_3"
    assert table_name(None, "x.xlsx", "Q-1", 2, ["X_Q_1"]) == "X_Q_1_2"
    with pytest.raises(InvalidInput, match="a table's name is letters"):
        table_name("not a name", "x.csv", None, None)
    with pytest.raises(InvalidInput, match="choose another"):
        table_name("contacts", "x.csv", None, None)


def test_pages_share_a_loop_while_they_fit() -> None:
    chunks = chunks_of([Part(text="one", page=1), Part(text="two", page=2), Part(text="x" * (CHUNK_CHARS + 5), page=3)])
    assert [(chunk.first, chunk.last, chunk.pages) for chunk in chunks] == [
        (1, 2, "pages 1 to 2"),
        (3, 3, "page 3"),
        (3, 3, "page 3"),
    ]
    assert all(len(chunk.text) <= CHUNK_CHARS for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks).count("x") == CHUNK_CHARS + 5
    assert chunks_of([Part(text="no pages")])[0].pages == "the whole of this part"
