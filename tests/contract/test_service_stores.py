"""Service tokens, the notice box and the list of running processes, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.ports import Notice
from memory.ports.service import Process, ServiceToken
from memory.stores.tables import Tables, build_tables, notice_box

NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
GLOBEX_ANN = Scope.of("globex", "ann")


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def create(
    tables: Tables,
    token_id: str = "t1",
    *,
    tenant: str = "acme",
    name: str = "chat",
    permissions: tuple[str, ...] = ("write", "read"),
    expires_at: datetime | None = None,
    now: datetime = NOW,
) -> ServiceToken:
    return await tables.tokens.create(
        tenant,
        token_id=token_id,
        secret_hash=f"hash of {token_id}",
        name=name,
        permissions=permissions,
        expires_at=expires_at,
        now=now,
    )


class TestServiceTokens:
    async def test_a_token_is_found_with_the_hash_of_its_secret(self, tables: Tables) -> None:
        made = await create(tables, name="  the  chat ", expires_at=NOW + HOUR)
        assert (made.name, made.permissions, made.tenant) == ("the chat", ("read", "write"), "acme")
        assert await tables.tokens.find("t1") == (made, "hash of t1")
        assert made.usable(NOW)
        assert not made.usable(NOW + HOUR)
        assert await tables.tokens.find("another") is None

    async def test_lists_are_of_one_tenant_newest_first(self, tables: Tables) -> None:
        await create(tables, "old")
        await create(tables, "new", now=NOW + HOUR)
        await create(tables, "theirs", tenant="globex")
        assert [token.token_id for token in await tables.tokens.list("acme")] == ["new", "old"]
        assert [token.token_id for token in await tables.tokens.list("globex")] == ["theirs"]

    async def test_a_revoked_one_is_not_usable_and_stays_listed(self, tables: Tables) -> None:
        await create(tables)
        assert not await tables.tokens.revoke("globex", "t1", now=NOW)
        assert not await tables.tokens.revoke("acme", "t2", now=NOW)
        [before] = await tables.tokens.list("acme")
        assert before.usable(NOW)
        assert await tables.tokens.revoke("acme", "t1", now=NOW + HOUR)
        assert await tables.tokens.revoke("acme", "t1", now=NOW + 2 * HOUR)
        [token] = await tables.tokens.list("acme")
        assert token.revoked_at == NOW + HOUR
        assert not token.usable(NOW)

    async def test_the_last_use_is_written_now_and_then(self, tables: Tables) -> None:
        await create(tables)
        seconds = timedelta(seconds=1)
        for after, seen in ((1, 1), (30, 1), (60, 1), (61, 61), (90, 61)):
            await tables.tokens.used("t1", now=NOW + after * seconds)
            [token] = await tables.tokens.list("acme")
            assert token.last_used_at == NOW + seen * seconds
        await tables.tokens.used("unknown", now=NOW)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": " "},
            {"name": "x" * 201},
            {"name": "a\x00b"},
            {"permissions": ()},
            {"permissions": ("read", "everything")},
            {"expires_at": NOW},
        ],
    )
    async def test_what_makes_no_sense_is_refused(self, tables: Tables, wrong: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            await create(tables, **wrong)  # pyright: ignore[reportArgumentType]
        assert await tables.tokens.list("acme") == []

    async def test_an_id_is_taken_once(self, tables: Tables) -> None:
        first = await create(tables)
        with pytest.raises(InvalidInput):
            await create(tables, tenant="globex")
        assert await tables.tokens.find("t1") == (first, "hash of t1")


def notice(key: str = "k1", scope: Scope = ANN, *, step: str = "updating_started") -> Notice:
    return Notice(
        notice_id=f"id of {key}",
        key=key,
        step=step,
        scope=scope,
        conversation_ids=("c\ud83d\x00\\1",),
        turn_ids=("t1", "t2"),
        text="🧠 Updating context memory…",
        at=NOW,
        expires_at=NOW + HOUR,
        outcome=Outcome.UPDATED,
        review_url="https://example.com/memory",
    )


class TestNoticeBox:
    async def test_a_notice_comes_out_as_it_went_in(self, tables: Tables) -> None:
        bare = replace(notice("k\ud83d2"), expires_at=None, outcome=None, review_url=None, turn_ids=())
        for one in (notice(), bare):
            await tables.notices.put(one, now=NOW)
        assert [boxed.notice for boxed in await tables.notices.of_user(ANN, after=0)] == [notice(), bare]

    async def test_the_same_key_of_a_user_is_put_once(self, tables: Tables) -> None:
        for one in (notice(), notice(step="again"), notice(scope=BOB), notice(scope=GLOBEX_ANN)):
            await tables.notices.put(one, now=NOW)
        boxed = await tables.notices.since(NOW)
        assert [(one.notice.scope, one.notice.step) for one in boxed] == [
            (scope, "updating_started") for scope in (ANN, BOB, GLOBEX_ANN)
        ]

    async def test_pages_go_on_after_a_number(self, tables: Tables) -> None:
        assert await tables.notices.last_number() == 0
        for number in range(5):
            await tables.notices.put(notice(f"k{number}"), now=NOW)
            await tables.notices.put(notice(f"k{number}", BOB), now=NOW)
        first = await tables.notices.of_user(ANN, after=0, limit=3)
        rest = await tables.notices.of_user(ANN, after=first[-1].number, limit=3)
        assert [one.notice.key for one in (*first, *rest)] == ["k0", "k1", "k2", "k3", "k4"]
        everything = await tables.notices.since(NOW, limit=7)
        assert len(everything) == 7
        assert sorted(everything, key=lambda one: one.number) == list(everything)
        assert await tables.notices.last_number() > rest[-1].number
        with pytest.raises(InvalidInput):
            await tables.notices.since(NOW, limit=0)

    async def test_since_a_moment(self, tables: Tables) -> None:
        for hour in range(3):
            await tables.notices.put(notice(f"k{hour}"), now=NOW + hour * HOUR)
        assert [one.notice.key for one in await tables.notices.since(NOW + HOUR)] == ["k1", "k2"]

    async def test_old_ones_are_removed_and_no_number_is_given_twice(self, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
        for hour in range(7):
            await tables.notices.put(notice(f"k{hour}"), now=NOW + hour * HOUR)
        last = await tables.notices.last_number()
        monkeypatch.setattr(notice_box, "EXPIRED_AT_ONCE", 2)
        assert await tables.notices.expire(before=NOW + 5 * HOUR) == 5
        assert [one.notice.key for one in await tables.notices.since(NOW)] == ["k5", "k6"]
        assert await tables.notices.expire(before=NOW + 9 * HOUR) == 2
        assert await tables.notices.expire(before=NOW + 9 * HOUR) == 0
        await tables.notices.put(notice("after"), now=NOW)
        [boxed] = await tables.notices.of_user(ANN, after=last)
        assert boxed.notice.key == "after"


def process(process_id: str = "p1", kind: str = "worker", *, at: datetime = NOW, **flags: object) -> Process:
    return Process(process_id, kind, "0.1.0", started_at=NOW, seen_at=at, flags=flags)  # pyright: ignore[reportArgumentType]


class TestProcesses:
    async def test_a_process_is_refreshed(self, tables: Tables) -> None:
        await tables.processes.seen(process(feature_flag=["acme"], web=False))
        await tables.processes.seen(process(at=NOW + HOUR, feature_flag=True, web=False))
        assert await tables.processes.running(since=NOW) == [process(at=NOW + HOUR, feature_flag=True, web=False)]

    async def test_the_running_ones_by_kind(self, tables: Tables) -> None:
        for one in (process("w2"), process("a1", "api"), process("w1"), process("old", at=NOW - HOUR)):
            await tables.processes.seen(one)
        running = await tables.processes.running(since=NOW - HOUR / 2)
        assert [(one.kind, one.process_id) for one in running] == [("api", "a1"), ("worker", "w1"), ("worker", "w2")]
        assert await tables.processes.expire(before=NOW - HOUR / 2) == 1
        await tables.processes.gone("w1")
        await tables.processes.gone("w1")
        assert {one.process_id for one in await tables.processes.running(since=NOW - 2 * HOUR)} == {"a1", "w2"}
