"""The real adapters against servers that are not there, and against servers that accept and never answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.model.errors import MemoryUnavailable
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import build_tables
from starter.client import MAX_OBJECT_CALLS, MemoryClient
from starter.views import LoadReason, ReceiptStatus
from tests.starter.conftest import GUARD_S

USERS = [("acme", f"user{number}") for number in range(100)]
THREADS = MAX_OBJECT_CALLS + 40
"""Those of the object store's adapter, and a handful for the database, the spool, the tokenizer and redaction."""


@pytest.fixture(params=["closed", "hanging"])
def dead_ports(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """Three ports: nobody listens there, or somebody accepts and says nothing."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
            if request.param == "hanging":
                one.listen(200)
        yield [one.getsockname()[1] for one in sockets]


@pytest.fixture
def settings(dead_ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    objects, database, temporal = dead_ports
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{temporal}")
    return load_settings(
        {},
        data_dir=tmp_path,
        feature_flag=True,
        object_store_endpoint=f"127.0.0.1:{objects}",
        object_store_access_key="key",
        object_store_secret_key="secret",
        object_store_timeout_s=3,
        database_url=f"postgresql+psycopg://app:secret@127.0.0.1:{database}/app",
        load_budget_ms=300,
        after_answer_budget_ms=500,
    )


def turn(number: int) -> Turn:
    return Turn(turn_id=f"t{number}", user_text="I live in Berlin", occurred_at=datetime.now(UTC), allow_user_memory=True)


async def test_loads_come_home_with_a_reason_and_threads_do_not_pile_up(settings: Settings) -> None:
    before = threading.active_count()
    async with MemoryClient(settings) as client:
        async with asyncio.timeout(GUARD_S):
            results = await asyncio.gather(*(client.load(user, allow_user_memory=True) for user in USERS))
        assert threading.active_count() - before <= THREADS
        assert {loaded.body for loaded in results} == {""}
        assert {loaded.reason for loaded in results} <= {LoadReason.TIMEOUT, LoadReason.BUSY, LoadReason.UNAVAILABLE}
        assert all(loaded.detail and "secret" not in loaded.detail for loaded in results)


async def test_an_object_store_alone_that_is_dead(settings: Settings, tmp_path: Path) -> None:
    alone = settings.model_copy(update={"database_url": None})
    migrate(alone.sqlalchemy_url)
    before = threading.active_count()
    async with MemoryClient(alone) as client:
        async with asyncio.timeout(GUARD_S):
            results = await asyncio.gather(*(client.load(user, allow_user_memory=True) for user in USERS))
        assert threading.active_count() - before <= THREADS
        assert {loaded.reason for loaded in results} <= {LoadReason.TIMEOUT, LoadReason.BUSY, LoadReason.UNAVAILABLE}
        assert any(loaded.active for loaded in results)


async def test_turns_wait_in_the_spool_while_everything_is_down(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    async with MemoryClient(settings) as client:
        async with asyncio.timeout(GUARD_S):
            receipts = [await client.after_answer(("acme", "ann"), turn(number)) for number in range(10)]
        assert {receipt.status for receipt in receipts} <= {ReceiptStatus.SPOOLED, ReceiptStatus.PENDING}
    assert client.lost_turns == 0
    assert "Berlin" not in caplog.text
    assert "secret" not in caplog.text

    # The next process, with a database: nothing was lost on the way.
    up_again = settings.model_copy(update={"database_url": None})
    migrate(up_again.sqlalchemy_url)
    async with MemoryClient(up_again) as client, asyncio.timeout(GUARD_S):
        result = await client.drain_spool()
        assert result.remaining == 0
    tables = build_tables(up_again)
    stored = await tables.log.pending(Scope.of("acme", "ann"), limit=100)
    await tables.aclose()
    assert [one.turn.turn_id for one in stored] == [f"t{number}" for number in range(10)]


async def test_a_dead_temporal_alone_costs_no_turn(settings: Settings) -> None:
    alone = settings.model_copy(update={"database_url": None, "after_answer_budget_ms": 2_000})
    migrate(alone.sqlalchemy_url)
    async with MemoryClient(alone) as client:
        async with asyncio.timeout(GUARD_S):
            receipts = [await client.after_answer(("acme", "ann"), turn(number)) for number in range(8)]
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.RECORDED}
    assert not any(receipt.started for receipt in receipts)
    assert all(receipt.reason for receipt in receipts)


async def test_the_other_calls_say_what_is_away(settings: Settings) -> None:
    async with MemoryClient(settings) as client, asyncio.timeout(GUARD_S):
        with pytest.raises(MemoryUnavailable):
            await client.get_profile(("acme", "ann"))
        with pytest.raises(MemoryUnavailable):
            await client.edit_profile(("acme", "ann"), "## Identity\n- Ann", expected_etag=None)
        status = await client.status(("acme", "ann"))
    assert set(status.unavailable) == {"enablement", "pending_turns", "recent", "profile", "workflow"}
    assert (status.running, status.pending_turns, status.enablement) == (None, None, None)
