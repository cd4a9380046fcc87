"""A database of the first version with data in it becomes one with windows; on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text

from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.model.window import WindowTrigger
from memory.stores.migrations import config, migrate
from memory.stores.tables import build_tables
from memory.stores.tables.engine import WRITE_OPTION, database_url, make_engine

THEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
ANN, BOB = Scope.of("acme", "ann"), Scope.of("acme", "bob")


@pytest.fixture(params=["sqlite", "postgres"])
def first_version_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database at schema 0001: 30 turns of Ann, a minute apart, and a user without any event."""
    url = request.getfixturevalue("empty_postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'old.db'}"
    engine = make_engine(database_url(url), pool_size=1, create_file=True)
    with engine.execution_options(**{WRITE_OPTION: True}).begin() as connection:
        command.upgrade(config(connection), "0001")
        for n in range(30):
            moment = THEN + timedelta(minutes=n)
            at = moment.replace(tzinfo=None).isoformat(" ") if engine.dialect.name == "sqlite" else moment
            for side, seq in (("user", 2 * n + 1), ("assistant", 2 * n + 2)):
                connection.execute(
                    text(
                        "INSERT INTO events (tenant, user_id, seq, event_key, kind, timestamp, sender_id, receiver_ids, medium, "
                        "content, turn_key, recorded_at) VALUES ('acme', 'ann', :seq, :key, 'message', :at, :side, '[]', 'chat', "
                        ":content, :turn, :at)"
                    ),
                    {"seq": seq, "key": f"turn-{n}-{side}", "at": at, "side": side, "content": f"{side} {n}", "turn": f"t{n}"},
                )
            connection.execute(
                text(
                    "INSERT INTO turns (tenant, user_id, ordinal, turn_key, user_seq, assistant_seq, space_id, conversation_id, "
                    "medium, allow_user_memory, occurred_at, recorded_at, attempt, state) VALUES ('acme', 'ann', :n, :turn, :u, "
                    ":a, :space, 'c', 'chat', true, :at, :at, 0, 'pending')"
                ),
                {"n": n + 1, "turn": f"t{n}", "u": 2 * n + 1, "a": 2 * n + 2, "space": f"space {n % 2}", "at": at},
            )
        connection.execute(text("INSERT INTO user_counters VALUES ('acme', 'ann', 60, 30), ('acme', 'bob', 0, 1)"))
    engine.dispose()
    migrate(url)
    return url


async def test_what_was_recorded_before_waits_for_a_window(first_version_url: str) -> None:
    tables = build_tables(first_version_url)
    try:
        progress = await tables.windows.progress(ANN)
        assert (progress.last_seq, progress.consolidated_seq, progress.waiting, progress.flush_seq) == (60, 0, 60, 0)
        assert progress.last_event_at == THEN + timedelta(minutes=29)
        following = await tables.windows.next(ANN, size=50, now=NOW)
        assert following is not None
        assert (following.first_seq, following.last_seq, following.trigger) == (1, 50, WindowTrigger.SIZE)
        assert [(user.scope, user.waiting) for user in await tables.windows.due(size=50, limit=10)] == [(ANN, 60)]
        assert (await tables.windows.progress(BOB)).waiting == 0
    finally:
        await tables.aclose()


async def test_texts_turns_and_numbers_survive_and_go_on(first_version_url: str) -> None:
    tables = build_tables(first_version_url)
    try:
        stored = await tables.windows.events(ANN, 1, 60)
        assert [one.event.content for one in stored[:3] if isinstance(one.event, MessageEvent)] == [
            "user 0",
            "assistant 0",
            "user 1",
        ]
        assert [one.space_id for one in stored[:4]] == ["space 0", "space 0", "space 1", "space 1"]
        pending = await tables.log.pending(ANN, limit=100)
        assert [turn.turn.user_text for turn in pending] == [f"user {n}" for n in range(30)]

        recorded = await tables.log.record_turn(ANN, Turn(turn_id="new", user_text="hi", occurred_at=NOW), now=NOW)
        assert (recorded.ordinal, recorded.waiting) == (31, 61)
        assert (await tables.log.record_turn(ANN, Turn(turn_id="t3", user_text="hi", occurred_at=NOW), now=NOW)).duplicate
        message = MessageEvent(timestamp=NOW, sender_id="user", content="more")
        assert (await tables.log.record_events(ANN, [message], now=NOW)).last_seq == 62
        assert (await tables.log.record_events(BOB, [message], now=NOW)).waiting == 1
    finally:
        await tables.aclose()


async def test_an_idle_user_of_the_first_version_is_found_and_old_text_expires(first_version_url: str) -> None:
    tables = build_tables(first_version_url)
    try:
        idle = await tables.windows.flush_idle(idle_since=NOW, limit=10)
        assert [(user.scope, user.waiting) for user in idle] == [(ANN, 60)]
        assert await tables.windows.expirable_events("acme", before=NOW, limit=10) == []
    finally:
        await tables.aclose()
