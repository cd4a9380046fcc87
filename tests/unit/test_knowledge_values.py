"""Values and names of knowledge tables: what fits, how it is stored and shown, what a new column is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest

from memory.model.knowledge import ColumnType, ToolProblem
from memory.model.knowledge_bulk import stored_column
from memory.model.knowledge_names import (
    checked_column_name,
    checked_table_name,
    column_name_of,
    name_key,
    table_name_of,
)
from memory.model.knowledge_values import inferred_type, to_shown, to_stored

T = ColumnType
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("type_", "value", "stored", "shown"),
    [
        (T.STR, "2026-01-01", "2026-01-01", "2026-01-01"),
        (T.FLOAT, 3, 3.0, 3.0),
        (T.BOOL, True, 1, True),
        (T.INT, -(2**63), -(2**63), -(2**63)),
        (T.DATETIME, "2025-03-31T14:00:00+02:00", 1_743_422_400_000_000, "2025-03-31T12:00:00+00:00"),
        (T.DATETIME, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000, "1969-12-31T23:59:59+00:00"),
        (T.DATETIME, datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=1))), 1_735_686_000_000_000, "2024-12-31T23:00:00+00:00"),
        (T.DATE, date(1970, 1, 2), 1, "1970-01-02"),
        (T.DATE, " 1969-12-31 ", -1, "1969-12-31"),
        (T.TIME, time(14, 30), 52_200_000_000, "14:30:00"),
        (T.TIMEDELTA, "PT1H30M", 5_400_000_000, "PT1H30M"),
        (T.TIMEDELTA, "P1W", 604_800_000_000, "P7D"),
        (T.TIMEDELTA, "-1 day, 23:59:59", -1_000_000, "-PT1S"),
        (T.TIMEDELTA, timedelta(0), 0, "PT0S"),
        (T.LIST, (1, {"on": date(2026, 1, 1)}), [1, {"on": "2026-01-01"}], [1, {"on": "2026-01-01"}]),
        (T.DICT, {"a": None}, {"a": None}, {"a": None}),
        (T.INT, None, None, None),
    ],
)
def test_a_value_is_stored_and_shown(type_: ColumnType, value: Any, stored: Any, shown: Any) -> None:
    found = to_stored(value, type_)
    assert (found, type(found)) == (stored, type(stored))
    assert to_shown(found, type_) == shown
    assert to_stored(shown, type_) == stored


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (T.INT, True), (T.INT, 1.0), (T.INT, "5"), (T.INT, 2**63), (T.INT, 10**5000), (T.BOOL, 1), (T.FLOAT, True),
        (T.FLOAT, float("inf")), (T.FLOAT, 2**64), (T.STR, 5), (T.STR, "\x00"), (T.STR, "\ud800"), (T.DATE, "2026-02-30"),
        (T.DATE, NAIVE), (T.TIME, "10:00+01:00"), (T.TIMEDELTA, "P"), (T.TIMEDELTA, "PT"), (T.TIMEDELTA, "P1Y"),
        (T.TIMEDELTA, timedelta.max), (T.DATETIME, "0001-01-01T00:00:00+05:00"), (T.LIST, {}), (T.LIST, [{1: 2}]),
        (T.LIST, [float("nan")]), (T.DICT, {"\ud800": 1}), (T.DICT, []), (T.LIST, [object()]), (T.LIST, [[10**5000]]),
        (T.VECTOR, [0.5]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_does_not_fit_is_said_with_row_and_column(type_: ColumnType, value: Any) -> None:
    with pytest.raises(ToolProblem) as caught:
        to_stored(value, type_, row=7, column="size")
    assert caught.value.code == "bad_value"
    assert caught.value.message.startswith("row 7, column size: ")
    caught.value.message.encode()
    with pytest.raises(ToolProblem) as again:
        stored_column([None] * 7 + [value], type_, column="size")
    assert again.value.message == caught.value.message


def test_lists_are_bounded_in_depth() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ToolProblem):
        to_stored(deep, T.LIST)


def test_a_computed_time_beyond_the_calendar_is_none() -> None:
    for type_ in (T.DATETIME, T.DATE, T.TIME):
        assert to_shown(2**62, type_) is None


def test_many_values_are_stored_as_one_is() -> None:
    chance = random.Random(3)
    pools: dict[ColumnType, list[Any]] = {
        T.STR: ["a", "", "é", "\udfff", "\x00", "x" * 10, None, 5, "y" * 300_000],
        T.INT: [0, -5, 2**63 - 1, -(2**63), 2**63, None, True, 1.0],
        T.FLOAT: [0.5, 1, float("nan"), float("-inf"), None, False, 1e308],
        T.BOOL: [True, False, None, 1],
        T.DATE: ["2026-01-01", date(2020, 2, 29), " 2026-01-01", None, "no", NAIVE],
        T.DATETIME: ["2026-01-01", NAIVE, None, "no"],
    }
    for type_, pool in pools.items():
        for _ in range(300):
            values = chance.choices(pool[: chance.randint(1, len(pool))], k=chance.randint(0, 4))
            assert outcome(stored_column, values, type_) == outcome(one_by_one, values, type_)


def one_by_one(values: Sequence[Any], type_: ColumnType, *, column: str) -> Sequence[Any]:
    return [to_stored(value, type_, row=row, column=column) for row, value in enumerate(values)]


def outcome(convert: Callable[..., Sequence[Any]], values: Sequence[Any], type_: ColumnType) -> str:
    try:
        return repr(list(convert(values, type_, column="c")))
    except ToolProblem as problem:
        return problem.message


def test_the_type_of_a_new_column() -> None:
    assert inferred_type([None, 1, 2.5]) is T.FLOAT
    assert inferred_type([None]) is T.STR
    assert inferred_type(["2026-01-01"]) is T.STR
    assert inferred_type([date(2026, 1, 1)]) is T.DATE
    assert inferred_type([{}]) is T.DICT
    mixtures: list[list[Any]] = [[1, "a"], [True, 1], [[], {}]]
    for values in mixtures:
        with pytest.raises(ToolProblem, match="bad_value"):
            inferred_type(values, column="c")


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("Company Name", "company_name"), ("companyName", "company_name"),
        ("HTMLPage", "html_page"), ("ID", "id_"), ("from", "from_"),
        ("2024 Sales (€)", "column_2024_sales"), ("Größe", "größe"), ("价格", "价格"), ("", "column"), ("__x__", "x"),
        ("x" * 300, "x" * 56), ("\ud800", "column"), ("ﬁsh", "fish"), ("a.b; DROP TABLE x", "a_b_drop_table_x"),
    ],
)  # fmt: skip
def test_headers_become_names(header: str, column: str) -> None:
    assert column_name_of(header) == checked_column_name(column) == column
    assert checked_table_name(table_name_of(header))


def test_names_that_are_taken_get_a_number() -> None:
    assert column_name_of("A", {"a", "a_2"}) == "a_3"
    assert table_name_of("sales", {"Sales"}) == "sales_2"
    assert table_name_of("Contacts") == "Contacts_"


@pytest.mark.parametrize(
    "name", ["", "_a", "a b", "1a", "x" * 65, "in", "None", "a-b", "\x00", "\ud800", "contacts", "CONTACTS", 5]
)
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(ToolProblem, match="bad_name"):
        checked_table_name(name)


def test_names_are_compared_without_case_and_in_one_form() -> None:
    assert name_key("STRASSE") == name_key("Straße")
    assert name_key("ﬁ") == name_key("FI")
    assert checked_column_name("ﬁ") == "fi"
