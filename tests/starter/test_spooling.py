"""Who has to queue behind the spool, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.model.scope import Scope
from memory.model.turn import Turn
from starter.pieces import TurnPiece
from starter.spool import Spool, SpoolEntry
from starter.spooling import Drainer

ANN, BEN = Scope.of("acme", "ann"), Scope.of("acme", "ben")
NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)


def entry(scope: Scope, number: int) -> SpoolEntry:
    at = NOW + timedelta(seconds=number)
    return SpoolEntry(scope, TurnPiece(Turn(turn_id=f"{scope.user}-{number}", user_text="hello", occurred_at=at)), at)


async def test_a_user_is_free_as_soon_as_nothing_of_theirs_waits_though_others_go_on(tmp_path: Path) -> None:
    held: list[tuple[bool, bool]] = []

    async def record(one: SpoolEntry) -> str:
        held.append((drainer.holds(ANN), drainer.holds(BEN)))
        if len(held) < 20:
            # Another turn of somebody comes in with each one that is drained.
            await drainer.append(entry(BEN, 100 + len(held)))
        return "recorded"

    async def wake(scope: Scope, turn_ids: Sequence[str]) -> None:
        pass

    drainer = Drainer(Spool(tmp_path / "spool.jsonl", max_bytes=1_000_000), record, wake)
    try:
        await drainer.append(entry(ANN, 1))
        await drainer.append(entry(ANN, 2))
        await drainer.append(entry(BEN, 1))
        result = await drainer.drain()
    finally:
        await drainer.aclose(within_s=5)
    assert result.recorded == 22
    assert [ann for ann, _ in held] == [True, True, *[False] * 20], "free once both are recorded"
    assert all(ben for _, ben in held[:-1]), "and nobody overtakes what waits of them"
    assert not drainer.holds(BEN)
