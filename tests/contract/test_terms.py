"""Term statistics by owner and kind, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import func, select

from memory.stores.tables import Tables, build_tables
from memory.stores.tables.rows_window import TERM_FREQUENCIES
from memory.stores.tables.terms import change_terms, clear_terms, replace_terms

ANN, BOB, TEAM = "u/ann", "u/bob", "t/sales"
HIGH = 2**32 - 1


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def add(tables: Tables, owner: str, terms: set[int], *, tenant: str = "acme", kind: str = "facts", length: int = 0) -> None:
    await tables.database.write(lambda c: replace_terms(c, tenant, owner, kind, (), terms, length or len(terms), 1))


async def test_what_was_added_is_counted_and_32_bits_fit(tables: Tables) -> None:
    await add(tables, ANN, {1, 2, HIGH}, length=7)
    await add(tables, ANN, {2}, length=2)
    found = await tables.terms.statistics("acme", [ANN], "facts", [0, 1, 2, HIGH])
    assert (found.documents, found.length, found.average_length) == (2, 9, 4.5)
    assert found.frequencies == {1: 1, 2: 2, HIGH: 1}


async def test_nothing_crosses_tenants_owners_or_kinds(tables: Tables) -> None:
    await add(tables, ANN, {1})
    await add(tables, ANN, {1}, tenant="globex")
    await add(tables, BOB, {1})
    await add(tables, ANN, {1}, kind="events")
    found = await tables.terms.statistics("acme", [ANN], "facts", [1])
    assert (found.documents, found.frequencies) == (1, {1: 1})
    assert (await tables.terms.statistics("acme", [], "facts", [1])).documents == 0
    assert (await tables.terms.statistics("acme", ["u/nobody"], "facts", [1])).average_length == 0.0


async def test_several_owners_are_added_up_and_one_named_twice_counts_once(tables: Tables) -> None:
    await add(tables, ANN, {1, 2}, length=10)
    await add(tables, TEAM, {2, 3}, length=4)
    found = await tables.terms.statistics("acme", [ANN, TEAM, ANN], "facts", [1, 2, 3])
    assert (found.documents, found.length, found.frequencies) == (2, 14, {1: 1, 2: 2, 3: 1})


async def test_a_changed_and_a_removed_document(tables: Tables) -> None:
    await add(tables, ANN, {1, 2}, length=5)
    await tables.database.write(lambda c: replace_terms(c, "acme", ANN, "facts", {1, 2}, {2, 3}, -2, 0))
    found = await tables.terms.statistics("acme", [ANN], "facts", [1, 2, 3])
    assert (found.documents, found.length, found.frequencies) == (1, 3, {2: 1, 3: 1})
    await tables.database.write(lambda c: replace_terms(c, "acme", ANN, "facts", {2, 3}, (), -3, -1))
    found = await tables.terms.statistics("acme", [ANN], "facts", [1, 2, 3])
    assert (found.documents, found.length, found.frequencies) == (0, 0, {})
    left = select(func.count()).select_from(TERM_FREQUENCIES)
    assert await tables.database.read(lambda c: c.execute(left).scalar()) == 0


async def test_nothing_falls_below_zero(tables: Tables) -> None:
    await tables.database.write(lambda c: change_terms(c, "acme", ANN, "facts", {1: -3}, -9, -2))
    await add(tables, ANN, {1}, length=4)
    await tables.database.write(lambda c: change_terms(c, "acme", ANN, "facts", {1: -3}, -9, -2))
    found = await tables.terms.statistics("acme", [ANN], "facts", [1])
    assert (found.documents, found.length, found.frequencies) == (0, 0, {})


async def test_more_terms_than_one_statement_takes(tables: Tables) -> None:
    many = set(range(0, 3_000_000, 1_000))
    await add(tables, ANN, many)
    found = await tables.terms.statistics("acme", [ANN], "facts", many)
    assert len(found.frequencies) == len(many)
    await tables.database.write(lambda c: replace_terms(c, "acme", ANN, "facts", many, (), -len(many), -1))
    assert (await tables.terms.statistics("acme", [ANN], "facts", many)).frequencies == {}


async def test_two_writers_with_the_terms_in_another_order(tables: Tables) -> None:
    terms = list(range(300))
    orders = [dict.fromkeys(terms if number % 2 else reversed(terms), 1) for number in range(20)]
    await asyncio.gather(
        *(
            tables.database.write(lambda c, deltas=deltas: change_terms(c, "acme", ANN, "facts", deltas, 300, 1))
            for deltas in orders
        )
    )
    found = await tables.terms.statistics("acme", [ANN], "facts", terms)
    assert (found.documents, found.length, set(found.frequencies.values())) == (20, 6000, {20})


async def test_clearing_one_owner_one_tenant_or_all(tables: Tables) -> None:
    async def documents() -> list[int]:
        whose = [("acme", ANN, "facts"), ("acme", BOB, "facts"), ("globex", ANN, "facts"), ("acme", ANN, "events")]
        return [(await tables.terms.statistics(tenant, [owner], kind, [1])).documents for tenant, owner, kind in whose]

    await add(tables, ANN, {1})
    await add(tables, BOB, {1})
    await add(tables, ANN, {1}, tenant="globex")
    await add(tables, ANN, {1}, kind="events")
    await tables.database.write(lambda c: clear_terms(c, "facts", tenant="acme", owner_key=ANN))
    assert await documents() == [0, 1, 1, 1]
    await tables.database.write(lambda c: clear_terms(c, "facts", tenant="acme"))
    assert await documents() == [0, 0, 1, 1]
    await tables.database.write(lambda c: clear_terms(c, "facts"))
    assert await documents() == [0, 0, 0, 1]
