"""Signals: few in flight per workflow, the rest together, nobody waits for ever. The client's one RPC is a stand-in here."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.model.names import SEARCH_TENANT, SEARCH_USER
from memory.model.scope import Scope
from memory.model.steps import PostAnswerInput, TurnsRecorded
from starter import signals
from starter.signals import MAX_ID_CHARS_PER_SIGNAL, MAX_IDS_PER_SIGNAL, MAX_IN_FLIGHT_PER_WORKFLOW, TurnSignaller

ANN, BEN = Scope.of("acme", "ann"), Scope.of("acme", "ben")
GUARD_S = 20.0


class Server:
    """Stands for the client: keeps what it was asked, and answers when told to."""

    def __init__(self, *, hold: bool = False, error: Exception | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.held: deque[asyncio.Future[None]] = deque()
        self.hold = hold
        self.error = error
        self.most = 0

    async def start_workflow(self, workflow: str, arg: object, **options: Any) -> None:
        self.calls.append({"workflow": workflow, "arg": arg, **options})
        if self.hold:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.held.append(gate)
            self.most = max(self.most, sum(not g.done() for g in self.held))
            await gate
        if self.error is not None:
            raise self.error

    def turn_ids(self, position: int) -> tuple[str, ...]:
        (signal,) = self.calls[position]["start_signal_args"]
        assert isinstance(signal, TurnsRecorded)
        return signal.turn_ids

    def release(self, count: int) -> None:
        for _ in range(count):
            self.held.popleft().set_result(None)

    def signaller(self, **how: Any) -> TurnSignaller:
        client: Client = self  # type: ignore[assignment]
        return TurnSignaller(client, **how)


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_signal_starts_the_users_workflow_and_carries_ids_only() -> None:
    server = Server()
    await server.signaller(rpc_timeout_s=3).signal(ANN, ["t1"])
    (call,) = server.calls
    assert call["workflow"] == "PostAnswerWorkflow"
    assert call["id"] == "post-answer/acme/ann"
    assert call["task_queue"] == "afterturn"
    assert call["start_signal"] == "turns_recorded"
    assert call["id_conflict_policy"] is WorkflowIDConflictPolicy.USE_EXISTING
    assert isinstance(call["arg"], PostAnswerInput)
    assert call["arg"].user.scope == ANN
    assert call["search_attributes"][SearchAttributeKey.for_keyword(SEARCH_TENANT)] == "acme"
    assert call["search_attributes"][SearchAttributeKey.for_keyword(SEARCH_USER)] == "ann"
    assert call["rpc_timeout"] == timedelta(seconds=3)
    assert server.turn_ids(0) == ("t1",)


async def test_beyond_twenty_in_flight_turns_wait_and_go_together() -> None:
    server = Server(hold=True)
    signaller = server.signaller()
    tasks = [asyncio.create_task(signaller.signal(ANN, [f"t{n}"])) for n in range(100)]
    await settle()
    assert len(server.calls) == MAX_IN_FLIGHT_PER_WORKFLOW
    server.release(1)
    await settle()
    assert len(server.calls) == MAX_IN_FLIGHT_PER_WORKFLOW + 1
    assert server.turn_ids(-1) == tuple(f"t{n}" for n in range(20, 100))
    server.hold = False
    server.release(MAX_IN_FLIGHT_PER_WORKFLOW)
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*tasks)
    assert server.most == MAX_IN_FLIGHT_PER_WORKFLOW
    assert signaller.in_flight == 0


async def test_users_do_not_wait_for_each_other() -> None:
    server = Server(hold=True)
    signaller = server.signaller()
    anns = [asyncio.create_task(signaller.signal(ANN, [f"a{n}"])) for n in range(30)]
    await settle()
    server.hold = False
    async with asyncio.timeout(GUARD_S):
        await signaller.signal(BEN, ["b"])
    assert server.calls[-1]["id"] == "post-answer/acme/ben"
    server.release(MAX_IN_FLIGHT_PER_WORKFLOW)
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*anns)


async def test_one_signal_carries_a_bounded_number_of_ids() -> None:
    server = Server(hold=True)
    signaller = server.signaller()
    tasks = [asyncio.create_task(signaller.signal(ANN, [f"t{n}"])) for n in range(MAX_IN_FLIGHT_PER_WORKFLOW)]
    tasks += [asyncio.create_task(signaller.signal(ANN, [f"w{n}"])) for n in range(MAX_IDS_PER_SIGNAL + 10)]
    tasks += [asyncio.create_task(signaller.signal(ANN, [f"{n}" + "x" * 4090])) for n in range(100)]
    await settle()
    server.hold = False
    server.release(MAX_IN_FLIGHT_PER_WORKFLOW)
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*tasks)
    later = [server.turn_ids(n) for n in range(MAX_IN_FLIGHT_PER_WORKFLOW, len(server.calls))]
    assert sum(map(len, later)) == MAX_IDS_PER_SIGNAL + 10 + 100
    assert max(map(len, later)) <= MAX_IDS_PER_SIGNAL
    assert max(sum(map(len, ids)) for ids in later) <= MAX_ID_CHARS_PER_SIGNAL


async def test_a_caller_with_more_ids_than_fit_wakes_the_workflow_all_the_same() -> None:
    server = Server()
    await server.signaller().signal(ANN, [f"t{n}" for n in range(5000)])
    assert len(server.turn_ids(0)) == MAX_IDS_PER_SIGNAL


async def test_a_failure_reaches_everyone_whose_turn_was_in_the_signal_and_nobody_else() -> None:
    server = Server(hold=True, error=RPCError("down", RPCStatusCode.UNAVAILABLE, b""))
    signaller = server.signaller()
    tasks = [asyncio.create_task(signaller.signal(ANN, [f"t{n}"])) for n in range(25)]
    await settle()
    server.hold = False
    server.release(1)
    await settle()
    failed = [task for task in tasks if task.done()]
    assert failed == [tasks[0], *tasks[20:]]
    for task in failed:
        with pytest.raises(MemoryUnavailable, match="UNAVAILABLE"):
            await task
    server.error = None
    server.release(len(server.held))
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*tasks[1:20])


async def test_what_the_server_refuses_is_told_apart_from_what_passes() -> None:
    refused = Server(error=RPCError("search attribute AfterturnUser is not defined", RPCStatusCode.INVALID_ARGUMENT, b""))
    with pytest.raises(InvalidSettings, match="AfterturnUser is not defined"):
        await refused.signaller().signal(ANN, ["t"])
    unreachable = Server(error=RuntimeError("Failed client connect"))
    with pytest.raises(MemoryUnavailable, match="cannot be reached"):
        await unreachable.signaller().signal(ANN, ["t"])


async def test_a_cancelled_caller_does_not_take_its_signal_back() -> None:
    server = Server(hold=True)
    signaller = server.signaller()
    task = asyncio.create_task(signaller.signal(ANN, ["t1"]))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert signaller.in_flight == 1
    server.release(1)
    await settle()
    assert signaller.in_flight == 0


async def test_too_many_waiting_turns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "MAX_WAITING_IDS", 5)
    server = Server(hold=True)
    signaller = server.signaller()
    tasks = [asyncio.create_task(signaller.signal(ANN, [f"t{n}"])) for n in range(MAX_IN_FLIGHT_PER_WORKFLOW + 5)]
    await settle()
    with pytest.raises(MemoryUnavailable, match="too many"):
        await signaller.signal(ANN, ["one more"])
    server.hold = False
    server.release(MAX_IN_FLIGHT_PER_WORKFLOW)
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*tasks)
    await signaller.signal(ANN, ["one more"])


async def test_closing_ends_what_hangs_and_what_waits() -> None:
    server = Server(hold=True)
    signaller = server.signaller()
    tasks = [asyncio.create_task(signaller.signal(ANN, [f"t{n}"])) for n in range(30)]
    await settle()
    async with asyncio.timeout(GUARD_S):
        await signaller.aclose(within_s=0.01)
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert signaller.in_flight == 0
