"""Which claims belong in a table: some that do, in several languages, and many that do not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from memory.model.fact import FactKind
from memory.model.knowledge import Column, ColumnType, Table
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.table_routing import MAX_PHRASES, Said, belongs, label_of, phrases, text_columns

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ANN = Scope.of("acme", "ann")


def table(name: str, columns: Mapping[str, str], description: str | None = None, source: str = "personal") -> Table:
    made = tuple(Column(column, ColumnType(kind), f"c{number}") for number, (column, kind) in enumerate(columns.items()))
    return Table(1, Owner.user(ANN), name, source, description, "row_id", made, 0, 1, NOW, NOW)


SUPPLIERS = table(
    "Suppliers",
    {"name": "str", "city": "str", "delivery_days": "int", "price_eur": "float", "contact_email": "str", "notes": "str"},
)
LIEFERANTEN = table("Lieferanten", {"name": "str", "ort": "str", "lieferzeit_tage": "int", "mindestbestellwert_eur": "float"})
SUPPLIERS_ZH = table("供应商", {"名称": "str", "城市": "str", "交货天数": "int", "单价": "float"})
CARS = table("ElectricCars", {"model": "str", "maker": "str", "range_km": "int"}, "Each row is one car.")
CONTRACTS = table("rental_contracts", {"title": "str", "ends_on": "date", "rent_eur": "float"})
CITY_PLANS = table("Plans", {"name": "str", "budget_eur": "float", "deadline": "date"})


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("The city of the supplier Nordholz is Lübeck.", SUPPLIERS),
        ("The supplier Nordholz delivers within 5 days.", SUPPLIERS),
        ("The supplier Nordholz charges 12 EUR per metre.", SUPPLIERS),
        ("Our supplier X200 Timber moved to another city.", SUPPLIERS),
        ("The suppliers Nordholz and Holzmann are in the same city.", SUPPLIERS),
        ("Der Lieferant Nordholz hat eine Lieferzeit von 5 Tagen.", LIEFERANTEN),
        ("Beim Holzlieferanten Nordholz liegt der Mindestbestellwert bei 200 Euro.", LIEFERANTEN),
        ("供应商北木的交货期现在是5天", SUPPLIERS_ZH),
        ("供应商北木所在城市是青岛", SUPPLIERS_ZH),
        ("Поставщик Нордхольц находится в другом городе, город Любек", table("Поставщики", {"имя": "str", "город": "str"})),
        ("The rental contract Harbour 7 ends on 3 May 2027.", CONTRACTS),
        ("The car Kite of the maker Volta has a range of 515 km.", table("Cars", {"model": "str", "range_km": "int"})),
        ("Elektroauto Kite: Reichweite 515 km", table("Elektroautos", {"name": "str", "reichweite_km": "int"})),
        ("공급업체 노르드홀츠의 도시는 뤼베크이다", table("공급업체", {"이름": "str", "도시": "str"})),
    ],
)
def test_a_claim_about_a_thing_of_the_table(statement: str, where: Table) -> None:
    assert belongs(Said(statement), where)


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        # No thing of the table's kind.
        ("The deadline of the Atlas project is 3 May 2027.", SUPPLIERS),
        ("Office supplies for the Kiel branch have a delivery time of 5 days.", SUPPLIERS),
        ("The city of Lübeck plans a new bridge.", SUPPLIERS),
        ("Volta has a range of shops in Norway.", CARS),
        ("The car park of the Kiel office is 12 km away.", CARS),
        ("Nordholz is a supplier of Volta's city cars.", CARS),
        ("The sales contract with Nordholz ends in May.", CONTRACTS),
        ("青岛的城市规划明年改变", SUPPLIERS_ZH),
        # Nothing that a column holds.
        ("The supplier Nordholz is friendly.", SUPPLIERS),
        ("The supplier Nordholz is closed for five days in May.", SUPPLIERS),
        ("The name of the supplier is Nordholz.", SUPPLIERS),
        ("Der Lieferant Nordholz ist freundlich.", LIEFERANTEN),
        ("供应商北木很可靠", SUPPLIERS_ZH),
        # About all of the kind, or about none in particular.
        ("Every supplier has to be in a city near Berlin.", SUPPLIERS),
        ("All suppliers deliver within 5 days.", SUPPLIERS),
        ("Suppliers deliver within 5 days.", SUPPLIERS),
        ("Jeder Lieferant hat eine Lieferzeit.", LIEFERANTEN),
        ("所有供应商的交货期都是5天", SUPPLIERS_ZH),
        ("The supplier delivers within five days.", SUPPLIERS),
        # A table that it cannot be for.
        ("The supplier Nordholz delivers within 5 days.", table("Suppliers", {"name": "str", "notes": "str"})),
        ("The supplier Nordholz delivers within 5 days.", table("Suppliers", {"delivery_days": "int"}, source="team:a")),
        ("The supplier Nordholz delivers within 5 days.", table("Suppliers", {"delivery_days": "int"}, source="built-in")),
        ("Ann's phone number is 030 1234.", table("Contacts", {"phone_number": "str"})),
        ("", SUPPLIERS),
        ("🙂", SUPPLIERS),
    ],
)
def test_a_claim_that_stays_a_fact(statement: str, where: Table) -> None:
    assert not belongs(Said(statement), where)


@pytest.mark.parametrize("kind", [FactKind.POLICY, FactKind.DEFINITION, FactKind.PREFERENCE, FactKind.INSIGHT])
def test_rules_definitions_and_preferences_are_about_no_row(kind: FactKind) -> None:
    statement = "The supplier Nordholz delivers within 5 days."
    assert belongs(Said(statement), SUPPLIERS)
    assert not belongs(Said(statement, kind), SUPPLIERS)


def test_what_is_in_the_cells_tells_of_what_a_claim_is() -> None:
    known = {"name": ["nordholz"]}
    assert belongs(Said("Nordholz delivers within 3 days now."), SUPPLIERS, known)
    assert not belongs(Said("Nordholz delivers within 3 days now."), SUPPLIERS)
    assert not belongs(Said("Nordholz has a new director."), SUPPLIERS, known)
    assert belongs(Said("The supplier Holzmann is in Lübeck too."), SUPPLIERS, {"city": ["lübeck"]})
    assert not belongs(Said("Nordholz has a fair in Lübeck."), SUPPLIERS, {"city": ["lübeck"]})


def test_what_a_description_says_that_a_row_is_needs_two_values_beside_it() -> None:
    told = table("Bestand", {"name": "str", "city": "str", "delivery_days": "int"}, "Each row is one supplier of timber.")
    assert belongs(Said("The supplier Nordholz in the city of Kiel delivers within 5 days."), told)
    assert not belongs(Said("The supplier Nordholz delivers within 5 days."), told)


def test_what_a_row_is_called_by() -> None:
    assert label_of(SUPPLIERS) == "name"
    assert label_of(table("T", {"code": "int", "company_name": "str", "city": "str"})) == "company_name"
    assert label_of(table("T", {"code": "int"})) is None
    assert text_columns(SUPPLIERS)[0] == "name"


def test_phrases_that_a_cell_may_hold() -> None:
    found = phrases("The supplier Holz & Söhne GmbH, of Lübeck, delivers X200.")
    assert {"söhne gmbh", "lübeck", "x200"} <= set(found)
    assert "the" not in found
    assert "北木" in phrases("供应商北木的交货期是5天")
    assert len(phrases("Alpha Beta Gamma Delta " * 400)) <= MAX_PHRASES
    assert phrases("") == ()
