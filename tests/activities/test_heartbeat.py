"""A blocking call in a thread does not starve the heartbeats (FAULTS 37); a cancelled activity ends."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import heartbeats


def environment(timeout_s: float | None) -> tuple[ActivityEnvironment, list[tuple[object, ...]]]:
    env = ActivityEnvironment()
    beats: list[tuple[object, ...]] = []
    env.on_heartbeat = lambda *details: beats.append(details)
    env.info = env.default_info().__class__(
        **{**env.default_info().__dict__, "heartbeat_timeout": None if timeout_s is None else timedelta(seconds=timeout_s)}
    )
    return env, beats


async def test_beats_go_on_beside_a_blocking_call_and_carry_nothing() -> None:
    env, beats = environment(0.15)
    enough = threading.Event()

    async def blocking() -> bool:
        async with heartbeats():
            return await asyncio.to_thread(enough.wait, 20)

    running = asyncio.create_task(env.run(blocking))
    while len(beats) < 4:
        await asyncio.sleep(0.01)
    enough.set()
    assert await running
    assert set(beats) == {()}


async def test_no_beats_where_the_activity_has_no_time_out() -> None:
    env, beats = environment(None)

    async def quick() -> str:
        async with heartbeats():
            return "done"

    assert await env.run(quick) == "done"
    assert beats == []


async def test_the_bodys_error_comes_through() -> None:
    env, _ = environment(1)

    async def failing() -> None:
        async with heartbeats():
            raise LookupError("body")

    with pytest.raises(LookupError, match="body"):
        await env.run(failing)


async def test_a_beat_that_fails_is_not_swallowed() -> None:
    env, _ = environment(0.03)

    def broken(*_: object) -> None:
        raise OSError("no connection")

    env.on_heartbeat = broken

    async def waits() -> None:
        async with heartbeats():
            await asyncio.sleep(0.2)

    with pytest.raises(OSError, match="no connection"):
        await env.run(waits)
