"""Tables on a terminal of 80 columns: ids and headers are whole, and what finds no room is said."""

from __future__ import annotations

import io
import uuid

import pytest
from rich.console import Console

from starter.cli.layout import GAP, layout
from starter.cli.output import table

ID = str(uuid.UUID(int=2**127))
COLUMNS = ("loop", "operation", "state", "steps", "tokens", "begun (UTC)", "request")
ROWS = [(ID, "update", "running", "12", "123456", "2026-01-02 03:04:05", "Add the company Volta from Norway, founded in 2012")] * 2


def shown(width: int, *, cut: bool = False, columns: tuple[str, ...] = COLUMNS) -> tuple[str, list[str]]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    made, left_out = table(columns, ROWS, width=width, whole=("loop",), spare=("tokens", "steps", "begun (UTC)"), cut=cut)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), left_out


def test_an_id_is_whole_and_spare_columns_go_first() -> None:
    text, left_out = shown(80)
    assert text.count(ID) == len(ROWS)
    assert left_out == ["steps", "tokens", "begun (UTC)"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_wide_terminal_shows_all() -> None:
    text, left_out = shown(200)
    assert not left_out
    assert ROWS[0][-1] in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 132])
@pytest.mark.parametrize("cut", [False, True])
def test_headers_that_are_shown_are_whole(width: int, cut: bool) -> None:
    text, left_out = shown(
        width, cut=cut, columns=("row_id", "name", "range_km", "battery_kwh", "x", "launched", "a_long_description")
    )
    head = text.split("─")[0]
    for name in {"name", "range_km", "battery_kwh", "launched", "a_long_description"} - set(left_out):
        assert name in head


def test_long_texts_are_cut_where_that_is_wanted() -> None:
    text, _ = shown(80, cut=True)
    assert "…" in text
    assert len(text.splitlines()) == 2 + len(ROWS)


def test_widths_never_exceed_the_terminal_and_use_it() -> None:
    found = layout(("a", "b"), [("x" * 50, "y" * 50)], width=43)
    assert sum(found.widths) + GAP == 43
    assert layout(("a",), [("x" * 50,)], width=10).widths == (10,)
