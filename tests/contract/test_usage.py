"""What models cost, and the teams of users, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.ports import Usage
from memory.stores.tables import Tables, build_tables

NOW = datetime(2026, 6, 17, 23, 30, tzinfo=UTC)
TODAY = NOW.date()
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
GLOBEX_ANN = Scope.of("globex", "ann")


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def add(tables: Tables, scope: Scope = ANN, *, stage: str = "extract", model: str = "m", tokens: int = 10) -> int:
    return await tables.usage.add(scope, stage=stage, model=model, usage=Usage(tokens, 1, 2), now=NOW)


class TestUsage:
    async def test_calls_add_up_by_stage_and_model(self, tables: Tables) -> None:
        assert await add(tables) == 11
        assert await add(tables) == 22
        assert await add(tables, stage="gate", tokens=100) == 123
        assert await add(tables, model="other") == 134
        rows = await tables.usage.rows(scope=ANN)
        assert [(row.stage, row.model, row.usage) for row in rows] == [
            ("extract", "m", Usage(20, 2, 4, 2)),
            ("extract", "other", Usage(10, 1, 2, 1)),
            ("gate", "m", Usage(100, 1, 2, 1)),
        ]
        assert {(row.tenant, row.user, row.day) for row in rows} == {("acme", "ann", TODAY)}

    async def test_a_day_is_one_of_utc(self, tables: Tables) -> None:
        kathmandu = timezone(timedelta(hours=5, minutes=45))
        late = NOW.astimezone(kathmandu)
        assert late.date() == TODAY + timedelta(days=1)
        await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(5, 5), now=late)
        assert await tables.usage.spent(ANN, TODAY) == 10
        assert await tables.usage.spent(ANN, TODAY + timedelta(days=1)) == 0
        assert await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(1, 1), now=NOW + timedelta(hours=1)) == 2

    async def test_users_and_companies_are_counted_apart(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await add(tables, scope)
        assert [await tables.usage.spent(scope, TODAY) for scope in (ANN, BOB, GLOBEX_ANN)] == [11, 11, 11]
        assert {row.user for row in await tables.usage.rows(tenant="acme")} == {"ann", "bob"}
        assert {row.tenant for row in await tables.usage.rows()} == {"acme", "globex"}
        assert await tables.usage.rows(tenant="nobody") == []

    async def test_rows_are_newest_first_bounded_and_since(self, tables: Tables) -> None:
        for days in range(5):
            await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(1, 1), now=NOW - timedelta(days=days))
        rows = await tables.usage.rows(since=TODAY - timedelta(days=2))
        assert [row.day for row in rows] == [TODAY, TODAY - timedelta(days=1), TODAY - timedelta(days=2)]
        assert [row.day for row in await tables.usage.rows(limit=1)] == [TODAY]
        with pytest.raises(InvalidInput, match="limit"):
            await tables.usage.rows(limit=0)

    async def test_calls_at_once_are_all_counted(self, tables: Tables) -> None:
        sums = await asyncio.gather(*(add(tables) for _ in range(30)))
        assert max(sums) == 330
        assert await tables.usage.spent(ANN, TODAY) == 330

    async def test_a_model_name_that_no_store_takes(self, tables: Tables) -> None:
        await add(tables, model="m\x00\ud83d" + "x" * 1000)
        [row] = await tables.usage.rows()
        assert row.model.startswith("m\ufffdxx")
        assert len(row.model) == 300
        with pytest.raises(InvalidInput, match="below zero"):
            await add(tables, tokens=-1)

    async def test_nothing_was_spent_on_a_day_without_calls(self, tables: Tables) -> None:
        assert await tables.usage.spent(ANN, date(2020, 1, 1)) == 0


class TestTeams:
    async def test_teams_take_the_place_of_those_before(self, tables: Tables) -> None:
        assert await tables.directory.teams(ANN) == []
        await tables.directory.set_teams(ANN, ["sales", "ops", "sales"])
        assert await tables.directory.teams(ANN) == ["ops", "sales"]
        await tables.directory.set_teams(ANN, ["ops", "legal"])
        assert await tables.directory.teams(ANN) == ["legal", "ops"]
        await tables.directory.set_teams(ANN, [])
        assert await tables.directory.teams(ANN) == []

    async def test_who_may_write_is_said_with_the_teams(self, tables: Tables) -> None:
        long = "x" * 4096
        await tables.directory.set_teams(ANN, ["sales", "ops", long], read_only=["ops", long])
        assert await tables.directory.memberships(ANN) == {"ops": False, "sales": True, long: False}
        assert await tables.directory.teams(ANN) == ["ops", "sales", long]
        await tables.directory.set_teams(ANN, ["sales", "ops"], read_only=["sales"])
        assert await tables.directory.memberships(ANN) == {"ops": True, "sales": False}
        await tables.directory.set_teams(ANN, ["sales"])
        assert await tables.directory.memberships(ANN) == {"sales": True}
        with pytest.raises(InvalidInput, match="not among"):
            await tables.directory.set_teams(ANN, ["ops"], read_only=["sales"])
        assert await tables.directory.memberships(ANN) == {"sales": True}
        assert await tables.directory.memberships(BOB) == {}

    async def test_teams_of_others_are_untouched(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await tables.directory.set_teams(scope, [f"{scope.tenant}-{scope.user}"])
        await tables.directory.set_teams(ANN, [])
        assert await tables.directory.teams(BOB) == ["acme-bob"]
        assert await tables.directory.teams(GLOBEX_ANN) == ["globex-ann"]

    async def test_any_team_id_comes_back(self, tables: Tables) -> None:
        awkward = ["a/b/../c", "nul\x00inside", "x" * 4096, "é" * 4096, "lone \ud83d surrogate"]
        await tables.directory.set_teams(ANN, awkward)
        assert set(await tables.directory.teams(ANN)) == set(awkward)

    async def test_two_at_once_are_one_after_the_other(self, tables: Tables) -> None:
        choices = [[f"team-{number}-{n}" for n in range(5)] for number in range(8)]
        await asyncio.gather(*(tables.directory.set_teams(ANN, choice) for choice in choices))
        assert await tables.directory.teams(ANN) in choices

    async def test_too_many_or_an_empty_id(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="501 teams"):
            await tables.directory.set_teams(ANN, [str(n) for n in range(501)])
        with pytest.raises(InvalidInput, match="team id is empty"):
            await tables.directory.set_teams(ANN, [""])
