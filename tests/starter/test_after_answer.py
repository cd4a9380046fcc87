"""``after_answer``: recorded once, started or left to the sweeper, spooled or counted as lost; never an exception, never late."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model.enablement import ReasonCode
from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.model.turn import MAX_MESSAGE_BYTES, Outcome, Turn
from memory.ports import TurnResult
from starter import recording
from starter.client import MemoryClient
from starter.pieces import TurnPiece
from starter.spool import decode_entry
from starter.views import ReceiptStatus
from tests.starter.conftest import GUARD_S, MakeWorld, World
from tests.support.waiting import until

ANN = ("acme", "ann")
BEN = ("acme", "ben")
CANARY = "canary 4711 sings"
NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)


def turn(number: int | str = 1, **fields: Any) -> Turn:
    given: dict[str, Any] = {
        "turn_id": f"t{number}",
        "user_text": f"My name is Ann. {CANARY}",
        "assistant_text": "Hello Ann.",
        "occurred_at": NOW,
        "allow_user_memory": True,
    }
    return Turn(**{**given, **fields})


class TestRecording:
    async def test_a_turn_is_recorded_and_its_workflow_told(self, world: World) -> None:
        receipt = await world.client().after_answer(ANN, turn())
        assert (receipt.status, receipt.started, receipt.ordinal, receipt.reason) == (ReceiptStatus.RECORDED, True, 1, None)
        (stored,) = await world.real_log.pending(Scope.of(*ANN), limit=10)
        assert stored.turn == turn()
        assert world.temporal.signalled == [("post-answer/acme/ann", ("t1",))]

    async def test_fields_in_a_mapping_are_a_turn_of_now(self, world: World) -> None:
        before = datetime.now(UTC)
        receipt = await world.client().after_answer(ANN, {"turn_id": "t1", "user_text": "hi", "allow_user_memory": True})
        assert receipt.status is ReceiptStatus.RECORDED
        (stored,) = await world.real_log.pending(Scope.of(*ANN), limit=10)
        assert before <= stored.turn.occurred_at <= datetime.now(UTC)

    async def test_the_same_turn_again_is_a_duplicate_and_wakes_the_workflow(self, world: World) -> None:
        client = world.client()
        await client.after_answer(ANN, turn())
        again = await client.after_answer(ANN, turn())
        assert (again.status, again.started, again.ordinal) == (ReceiptStatus.DUPLICATE, True, 1)
        assert await world.recorded(ANN) == ["t1"]

    async def test_a_finished_turn_again_wakes_nobody(self, world: World) -> None:
        client = world.client()
        await client.after_answer(ANN, turn())
        scope = Scope.of(*ANN)
        result = TurnResult("t1", 0, Outcome.NOOP, None, None, "r", "w", (), {}, {}, None)
        await world.real_log.finish(scope, [result], now=NOW)
        again = await client.after_answer(ANN, turn())
        assert again.status is ReceiptStatus.DUPLICATE
        assert len(world.temporal.signalled) == 1

    async def test_secrets_and_bytes_that_no_store_can_take_are_gone_before_the_log(self, world: World) -> None:
        text = "my password is hunter2secret! and \x00 a \ud83d half"
        await world.client().after_answer(ANN, turn(user_text=text))
        (stored,) = await world.real_log.pending(Scope.of(*ANN), limit=10)
        assert "hunter2secret" not in (stored.turn.user_text or "")
        assert "[redacted:" in (stored.turn.user_text or "")
        assert "\x00" not in (stored.turn.user_text or "")

    async def test_an_empty_exchange_is_recorded_too(self, world: World) -> None:
        receipt = await world.client().after_answer(ANN, turn(user_text=None, assistant_text=None))
        assert receipt.status is ReceiptStatus.RECORDED

    async def test_fifty_users_at_once_do_not_mix(self, world: World) -> None:
        client = world.client()
        users = [(f"tenant{number % 3}", f"user{number}/../x") for number in range(50)]
        work = [(user, turn(f"{n}-{user[1]}", user_text=f"I am {user}")) for n in range(4) for user in users]
        receipts = await asyncio.gather(*(client.after_answer(user, one) for user, one in work))
        assert {receipt.status for receipt in receipts} == {ReceiptStatus.RECORDED}
        for user in users:
            stored = await world.real_log.pending(Scope.of(*user), limit=10)
            assert sorted(one.turn.turn_id for one in stored) == [f"t{n}-{user[1]}" for n in range(4)]
            assert {one.turn.user_text for one in stored} == {f"I am {user}"}

    async def test_ids_only_in_the_log(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        client = world.client(spool_max_bytes=0)
        await client.after_answer(ANN, turn(1))
        world.log.down = True
        receipt = await client.after_answer(ANN, turn(2))
        assert receipt.status is ReceiptStatus.LOST
        world.log.error, world.log.down = ValueError(CANARY), False
        receipts = [receipt, await client.after_answer(ANN, turn(3))]
        assert "t2" in caplog.text
        assert CANARY not in caplog.text + repr(receipts) + repr(turn())


class TestSwitchedOff:
    async def test_without_consent_nothing_is_asked_or_written(self, world: World) -> None:
        receipt = await world.client().after_answer(ANN, turn(allow_user_memory=False))
        assert (receipt.status, receipt.reasons) == (ReceiptStatus.SKIPPED, (ReasonCode.CALLER_NOT_ALLOWED,))
        assert world.log.calls == world.directory.calls == []

    async def test_for_who_opted_out_nothing_is_written(self, world: World) -> None:
        client = world.client()
        await client.set_preference(ANN, allow_user_memory=False)
        receipt = await client.after_answer(ANN, turn())
        assert (receipt.status, receipt.reasons) == (ReceiptStatus.SKIPPED, (ReasonCode.USER_OPTED_OUT,))
        assert await world.recorded(ANN) == []
        assert world.temporal.signalled == []

    async def test_without_consent_nothing_is_spooled_while_all_is_down(self, world: World) -> None:
        world.log.down = world.directory.down = True
        client = world.client()
        assert (await client.after_answer(ANN, turn(allow_user_memory=False))).status is ReceiptStatus.SKIPPED
        assert world.settings.spool_file.exists() is False


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"turn_id": ""}, "turn_id"),
            ({"turn_id": "\ud83d"}, "turn_id"),
            ({"turn_id": "t", "occurred_at": datetime(2026, 1, 1)}, "occurred_at"),  # noqa: DTZ001
            ({"turn_id": "t", "user_text": 7}, "user_text"),
            ({"turn_id": "t", "colour": "red"}, "colour"),
            ({}, "turn_id"),
            (None, "mapping"),
            ("text", "mapping|valid"),
        ],
    )
    async def test_what_is_no_turn(self, world: World, given: Any, says: str) -> None:
        receipt = await world.client().after_answer(ANN, given)
        assert receipt.status is ReceiptStatus.REFUSED
        assert receipt.reason is not None
        assert any(word in receipt.reason for word in says.split("|"))
        assert world.log.calls == []

    @pytest.mark.parametrize("who", [("", "ann"), ("acme", "x" * 5000), None, "ab"])
    async def test_ids_that_cannot_be_used(self, world: World, who: Any) -> None:
        assert (await world.client().after_answer(who, turn())).status is ReceiptStatus.REFUSED

    async def test_a_message_over_a_megabyte(self, world: World) -> None:
        receipt = await world.client().after_answer(ANN, turn(assistant_text="x" * (MAX_MESSAGE_BYTES + 1)))
        assert receipt.status is ReceiptStatus.REFUSED
        assert receipt.reason is not None
        assert "1048577 bytes" in receipt.reason
        assert await world.recorded(ANN) == []

    async def test_a_megabyte_itself_is_recorded(self, world: World) -> None:
        client = world.client()
        text = "word " * (MAX_MESSAGE_BYTES // 5)
        receipt = await client.after_answer(ANN, turn(user_text=text))
        assert receipt.status is ReceiptStatus.RECORDED


class TestTemporalAway:
    async def test_a_turn_is_recorded_all_the_same(self, world: World) -> None:
        world.temporal.down = True
        receipt = await world.client().after_answer(ANN, turn())
        assert (receipt.status, receipt.started) == (ReceiptStatus.RECORDED, False)
        assert "UNAVAILABLE" in (receipt.reason or "")

    async def test_a_hanging_server_holds_nobody_and_the_signal_goes_on(self, make_world: MakeWorld) -> None:
        world = make_world(after_answer_budget_ms=600)
        world.temporal.gate = asyncio.Event()
        client = world.client()
        async with asyncio.timeout(GUARD_S):
            receipt = await client.after_answer(ANN, turn())
        assert (receipt.status, receipt.started) == (ReceiptStatus.RECORDED, False)
        world.temporal.gate.set()
        await until(lambda: world.temporal.turn_ids == ["t1"])


class TestSpool:
    async def test_turns_wait_while_the_log_is_away_and_are_recorded_in_order(self, world: World) -> None:
        client = world.client()
        world.log.down = world.directory.down = True
        for number in range(5):
            assert (await client.after_answer(ANN, turn(number))).status is ReceiptStatus.SPOOLED
        assert world.settings.spool_file.stat().st_mode & 0o777 == 0o600
        world.log.down = world.directory.down = False
        await until(lambda: not client._recorder.drainer.holds(Scope.of(*ANN)))
        assert await world.recorded(ANN) == [f"t{number}" for number in range(5)]
        await until(lambda: set(world.temporal.turn_ids) == {f"t{number}" for number in range(5)})
        assert client.lost_turns == 0

    async def test_a_users_next_turn_does_not_overtake_those_in_the_spool(self, world: World) -> None:
        client = world.client()
        world.log.down = True
        assert (await client.after_answer(ANN, turn(1))).status is ReceiptStatus.SPOOLED
        world.log.down = False
        assert (await client.after_answer(ANN, turn(2))).status is ReceiptStatus.SPOOLED
        assert (await client.after_answer(BEN, turn(3))).status is ReceiptStatus.RECORDED
        await until(lambda: not client._recorder.drainer.holds(Scope.of(*ANN)))
        assert (await client.after_answer(ANN, turn(4))).status is ReceiptStatus.RECORDED
        assert await world.recorded(ANN) == ["t1", "t2", "t4"]

    async def test_a_full_spool_does_not_keep_a_user_from_a_log_that_is_back(self, world: World) -> None:
        client = world.client(spool_max_bytes=600)
        world.log.down = True
        assert (await client.after_answer(ANN, turn(1))).status is ReceiptStatus.SPOOLED
        world.log.down = False
        receipts = [await client.after_answer(ANN, turn(number)) for number in (2, 3)]
        assert {receipt.status for receipt in receipts} <= {ReceiptStatus.RECORDED, ReceiptStatus.SPOOLED}
        assert ReceiptStatus.RECORDED in {receipt.status for receipt in receipts}
        assert client.lost_turns == 0

    async def test_the_log_may_hang(self, make_world: MakeWorld) -> None:
        world = make_world(after_answer_budget_ms=500)
        world.log.gate = asyncio.Event()
        client = world.client()
        async with asyncio.timeout(GUARD_S):
            receipts = await asyncio.gather(*(client.after_answer((f"t{n}", "u"), turn(n)) for n in range(30)))
        assert {receipt.status for receipt in receipts} <= {ReceiptStatus.SPOOLED, ReceiptStatus.PENDING}
        world.log.gate.set()
        for number in range(30):
            await until(lambda number=number: _has(world, (f"t{number}", "u"), f"t{number}"))
        assert client.lost_turns == 0

    async def test_what_an_earlier_process_left_is_recorded_at_the_start(self, world: World) -> None:
        world.log.down = True
        first = world.client()
        await first.after_answer(ANN, turn(1))
        await first.aclose()
        assert first._recorder.spool.waiting_bytes() > 0
        world.log.down = False
        async with world.client() as client:
            await until(lambda: _has(world, ANN, "t1"))
            assert client.lost_turns == 0

    async def test_secrets_are_gone_before_the_spool(self, world: World) -> None:
        world.log.down = True
        await world.client().after_answer(ANN, turn(user_text="my password is hunter2secret!"))
        (line,) = world.settings.spool_file.read_bytes().splitlines()
        assert b"hunter2secret" not in line
        piece = decode_entry(line).piece
        assert isinstance(piece, TurnPiece)
        assert "[redacted:" in (piece.turn.user_text or "")

    async def test_who_opted_out_meanwhile_is_not_recorded(self, world: World) -> None:
        client = world.client()
        world.log.down = True
        await client.after_answer(ANN, turn(1))
        await client.set_preference(ANN, allow_user_memory=False)
        world.log.down = False
        result = await client.drain_spool()
        assert (result.skipped, result.recorded, result.remaining) == (1, 0, 0)
        assert await world.recorded(ANN) == []
        assert client._recorder.spool.waiting_bytes() == 0

    async def test_a_turn_that_can_never_be_recorded_goes_aside_and_holds_nobody(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = world.client()
        world.log.down = True
        await client.after_answer(ANN, turn(1))
        await client.after_answer(BEN, turn(2))
        await client.aclose()
        world.log.down, world.log.error = False, InvalidInput("the log refuses this turn")
        again = world.client()
        result = await again.drain_spool()
        assert (result.rejected, result.remaining) == (2, 0)
        lines = again._recorder.spool.rejected_path.read_bytes().splitlines()
        assert [json.loads(line)["reason"] for line in lines] == ["the log refuses this turn"] * 2
        assert CANARY not in caplog.text

    async def test_a_drain_stops_at_the_first_failure_and_goes_on_from_there(self, world: World) -> None:
        client = world.client()
        world.log.down = True
        for number in range(3):
            await client.after_answer((f"tenant{number}", "u"), turn(number))
        await client.aclose()
        result = await world.client().drain_spool()
        assert (result.recorded, result.remaining) == (0, 3)
        assert "switched off" in (result.reason or "")
        world.log.down = False
        result = await world.client().drain_spool()
        assert (result.recorded, result.remaining, result.reason) == (3, 0, None)
        assert (await world.client().drain_spool()).recorded == 0

    async def test_a_turn_in_the_log_and_in_the_spool_is_one_turn(self, world: World) -> None:
        client = world.client()
        await client.after_answer(ANN, turn(1))
        world.log.down = True
        await client.after_answer(ANN, turn(1))
        world.log.down = False
        result = await client.drain_spool()
        assert result.duplicates + result.recorded <= 1
        assert await world.recorded(ANN) == ["t1"]


async def _has(world: World, who: tuple[str, str], turn_id: str) -> bool:
    return turn_id in await world.recorded(who)


class TestLost:
    async def test_a_full_spool_is_counted_and_told(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        client = world.client(spool_max_bytes=600)
        world.log.down = True
        receipts = [await client.after_answer((f"t{n}", "u"), turn(n)) for n in range(4)]
        assert [receipt.status for receipt in receipts] == [ReceiptStatus.SPOOLED, *[ReceiptStatus.LOST] * 3]
        assert "full" in (receipts[-1].reason or "")
        assert client.lost_turns == 3
        assert caplog.text.count("is lost") == 3

    async def test_a_spool_that_cannot_be_written(self, world: World, tmp_path: Path) -> None:
        blocked = tmp_path / "a file"
        blocked.write_text("")
        client = world.client(spool_path=blocked / "spool.jsonl")
        world.log.down = True
        receipt = await client.after_answer(ANN, turn())
        assert (receipt.status, client.lost_turns) == (ReceiptStatus.LOST, 1)
        world.log.down = False
        assert (await client.after_answer(ANN, turn(2))).status is ReceiptStatus.RECORDED

    async def test_more_at_once_than_this_process_may_hold(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recording, "MAX_UNDER_WAY", 10)
        world.directory.gate = asyncio.Event()
        client = world.client()
        tasks = [asyncio.create_task(client.after_answer(ANN, turn(n))) for n in range(15)]
        await until(lambda: client.lost_turns == 5)
        world.directory.gate.set()
        statuses = [receipt.status for receipt in await asyncio.gather(*tasks)]
        assert statuses.count(ReceiptStatus.LOST) == 5
        assert statuses.count(ReceiptStatus.RECORDED) == 10


class TestBudget:
    async def test_what_is_not_settled_in_time_goes_on(self, make_world: MakeWorld) -> None:
        world = make_world(after_answer_budget_ms=1)
        client = world.client()
        async with asyncio.timeout(GUARD_S):
            receipt = await client.after_answer(ANN, turn(user_text="word " * 100_000))
        assert receipt.status is ReceiptStatus.PENDING
        await until(lambda: _anywhere(world, client))
        assert client.lost_turns == 0

    async def test_a_cancelled_caller_does_not_lose_its_turn(self, world: World) -> None:
        world.log.gate = asyncio.Event()
        task = asyncio.create_task(world.client().after_answer(ANN, turn()))
        await until(lambda: world.log.calls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.log.gate.set()
        await until(lambda: _has(world, ANN, "t1"))
        await until(lambda: world.temporal.turn_ids == ["t1"])

    async def test_closing_lets_turns_on_their_way_be_recorded(self, world: World) -> None:
        client = world.client()
        world.log.gate = asyncio.Event()
        task = asyncio.create_task(client.after_answer(ANN, turn()))
        await until(lambda: world.log.calls)
        asyncio.get_running_loop().call_later(0.05, world.log.gate.set)
        async with asyncio.timeout(GUARD_S):
            await client.aclose()
        assert (await task).status is ReceiptStatus.RECORDED


async def _anywhere(world: World, client: MemoryClient) -> bool:
    """Recorded, or on its way there through the spool."""
    return await _has(world, ANN, "t1") or client._recorder.spool.waiting_bytes() > 0
