"""What a worker says of its connection while the server comes, goes, and fails in a way that nobody expected."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from starter import readiness
from starter.health import Health, Stage
from tests.support.waiting import until


class Server:
    """Of one namespace; counts how often it is asked. ``error``: what it answers with."""

    identity = "me"
    namespace = "default"

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    @property
    def workflow_service(self) -> Any:
        return self

    async def get_system_info(self, *_: Any, **__: Any) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    async def describe_task_queue(self, *_: Any, **__: Any) -> Any:
        raise RPCError("not allowed", RPCStatusCode.PERMISSION_DENIED, b"")


class Works:
    task_queue = "afterturn"
    is_running = True

    def config(self) -> dict[str, Any]:
        return {"workflows": [object]}


async def test_readiness_follows_the_server_through_every_kind_of_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "SEEN_WITHIN_S", 0.1)
    for name in ("FIRST_EVERY_S", "AGAIN_EVERY_S", "EVERY_S"):
        monkeypatch.setattr(readiness, name, 0.02)
    server, health = Server(), Health(max_tick_s=1_000)
    health.stage = Stage.WORKING
    async with readiness.watching(health, lambda: server, [Works()]):  # type: ignore[arg-type,return-value,list-item]
        await until(lambda: health.ready, what="a server that lists no pollers counts after a while")
        for error in (RPCError("away", RPCStatusCode.UNAVAILABLE, b""), RuntimeError("of the bridge"), ValueError("?")):
            server.error = error
            await until(lambda: not health.ready, what=repr(error))
            server.error = None
            await until(lambda: health.ready, what=f"back after {error!r}")


async def test_a_fleet_that_waits_for_a_server_asks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    server, health = Server(), Health(max_tick_s=1_000)
    server.error = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    health.stage, health.polling = Stage.WORKING, {"afterturn": False}
    times = iter((0.0, 0.0, 100.0, 100.0, 100.0, 100.0))

    class Enough(BaseException):
        pass

    async def slept(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 4:
            raise Enough
        server.error = None if len(waits) == 3 else server.error

    monkeypatch.setattr(readiness, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(readiness, "asyncio", SimpleNamespace(sleep=slept, timeout=asyncio.timeout))
    with pytest.raises(Enough):
        await readiness._watch(health, lambda: server, [Works()])  # type: ignore[arg-type,return-value,list-item]
    assert waits == [readiness.FIRST_EVERY_S, readiness.AGAIN_EVERY_S, readiness.AGAIN_EVERY_S, readiness.EVERY_S]
