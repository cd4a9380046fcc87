"""What a client does before its first turn, so that the first user does not wait for it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.settings import load_settings
from memory.stores.migrations import migrate
from memory.stores.objects.memory import MemoryObjectStore
from starter import loading
from tests.starter.conftest import GUARD_S, MakeWorld, World

ROOT = Path(__file__).parents[2]
FIRST_TURN = """
import asyncio, json, logging, sys
from starter import MemoryClient

async def main():
    async with MemoryClient() as memory:
        before = set(sys.modules)
        user = ("acme", "ann")
        await memory.load(user, allow_user_memory=True)
        said = "I am Ann, IBAN GB82WEST12345698765432, card 4111111111111111, key sk-abcdefghijklmnop1234"
        receipt = await memory.after_answer(user, {"turn_id": "t1", "user_text": said, "allow_user_memory": True})
        print(json.dumps([receipt.status, sorted(set(sys.modules) - before)]))

asyncio.run(main())
"""


def test_the_first_turn_of_a_process_imports_nothing(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path)
    migrate(settings.sqlalchemy_url)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AFTERTURN", "TEMPORAL", "FEATURE"))}
    ours = {
        "AFTERTURN_DATA_DIR": str(tmp_path),
        "AFTERTURN_FEATURE_FLAG": "true",
        "AFTERTURN_AFTER_ANSWER_BUDGET_MS": "20000",
        # Away, and what a client learns from that it has learned in its warm-up.
        "AFTERTURN_OBJECT_STORE_ENDPOINT": "127.0.0.1:1",
        "AFTERTURN_OBJECT_STORE_ACCESS_KEY": "k",
        "AFTERTURN_OBJECT_STORE_SECRET_KEY": "s",
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
    }
    done = subprocess.run(
        [sys.executable, "-c", FIRST_TURN], cwd=ROOT, env={**kept, **ours}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    status, imported = json.loads(done.stdout)
    assert status == "recorded"
    assert [name for name in imported if name.split(".")[0] not in {"temporalio", "google", "encodings"}] == []


async def test_the_stores_are_asked_once_and_nothing_is_made(world: World) -> None:
    async with world.client():
        assert world.directory.calls == ["facts"]
        assert world.store.calls["get"] == 1
    assert world.store.calls["put"] == world.store.calls["ensure_bucket"] == 0
    assert list(await world.tables.directory.tenants()) == []


async def test_a_client_for_which_memory_is_off_asks_nobody(make_world: MakeWorld) -> None:
    world = make_world(feature_flag=False)
    async with world.client():
        pass
    assert world.directory.calls == []
    assert world.store.calls["get"] == 0


async def test_a_database_that_fails_or_hangs_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "TRY_OUT_S", 0.05)
    async with asyncio.timeout(GUARD_S):
        world.directory.down = True
        async with world.client():
            pass
        world.directory.down = False
        world.directory.gate = asyncio.Event()
        async with world.client():
            pass
    assert world.directory.calls == ["facts", "facts"]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_an_object_store_that_breaks_is_no_fault_of_the_client(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr(MemoryObjectStore, "get", broken)
    async with world.client():
        pass
