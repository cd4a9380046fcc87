"""Names and types that the header and the cells of a table become; the text of a document in parts."""

from __future__ import annotations

from typing import Any

import pytest

from memory.files import Part
from memory.model.errors import InvalidInput
from starter.ingest import CHUNK_CHARS, chunks_of, column_names, column_type, snake_case, table_name, typed_column


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Units sold (2024)", "units_sold_2024"),
        ("unitPrice", "unit_price"),
        ("  Größe / cm ", "größe_cm"),
        ("名称", "名称"),
        ("2024", "c_2024"),
        ("__x__", "x"),
        ("...", ""),
        ("a" * 90, "a" * 60),
    ],
)
def test_a_title_becomes_a_column_name(title: str, name: str) -> None:
    assert snake_case(title) == name


def test_names_are_distinct_and_none_is_reserved() -> None:
    header = ["Name", "name", "id", "row_id", "source_file", "!", "Name 2"]
    assert column_names(header) == ["name", "name_2", "id_3", "row_id_4", "source_file_5", "column_6", "name_2_7"]
    assert column_names(["row_id", "x"], keep=("row_id",)) == ["row_id", "x"]


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
        ([1, 2.5, None], [1, 2.5, None]),
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
        (["x"], "str"),
        ([None], "str"),
    ],
)
def test_a_new_column_has_the_type_of_its_values(cells: list[Any], kind: str) -> None:
    assert column_type(cells) == kind


def test_a_table_is_named_after_file_and_sheet() -> None:
    assert table_name(None, "sales report-2024.xlsx", "Q1 north", 2) == "Sales_report_2024_Q1_north"
    assert table_name(None, "2024.csv", None, None) == "T_2024"
    assert table_name("orders", "x.csv", None, None) == "orders"
    assert table_name("orders", "x.html", None, 3) == "orders_3"
    with pytest.raises(InvalidInput, match="give one"):
        table_name("not a name", "x.csv", None, None)


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
