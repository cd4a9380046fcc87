"""The probes of a worker process."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from memory.model.errors import InvalidSettings
from memory.settings import load_settings
from starter.health import MAX_CONNECTIONS, Health, Stage, answering, ticking

GUARD_S = 30.0


def ask(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            status, data = reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            status, data = refusal.code, refusal.read()
    return status, json.loads(data) if data else None


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def working(clock: Clock) -> Health:
    health = Health(max_tick_s=20, now=clock)
    health.stage, health.connected, health.polling = Stage.WORKING, True, {"afterturn": True, "afterturn-llm": True}
    return health


def test_a_worker_is_ready_when_it_is_connected_polls_every_queue_and_does_not_stop() -> None:
    clock = Clock()
    assert working(clock).ready
    for stage in (Stage.CONNECTING, Stage.CHECKING, Stage.STOPPING):
        health = working(clock)
        health.stage = stage
        assert not health.ready
    health = working(clock)
    health.connected = False
    assert not health.ready
    health = working(clock)
    health.polling["afterturn-llm"] = False
    assert not health.ready
    health.polling = {}
    assert not health.ready


def test_age_of_the_tick_decides_about_life_at_every_stage() -> None:
    for stage in Stage:
        clock = Clock()
        health = working(clock)
        health.stage = stage
        clock.now += 20
        assert health.live
        clock.now += 0.1
        assert not health.live
        assert not health.ready, "what stands still does no task"
        health.tick()
        assert health.live


def test_a_start_is_over_when_the_dependencies_are_checked() -> None:
    health = working(Clock())
    started = {}
    for stage in Stage:
        health.stage = stage
        started[stage] = health.started
    assert started == {Stage.CONNECTING: False, Stage.CHECKING: False, Stage.WORKING: True, Stage.STOPPING: True}


async def test_a_loop_that_stands_still_is_seen_from_outside(unused_tcp_port: int) -> None:
    """The loop is blocked for real, until the probe has told so."""
    settings = load_settings({}, health_address=f"127.0.0.1:{unused_tcp_port}")
    health = Health(max_tick_s=0.2)
    dead, alive_again = threading.Event(), threading.Event()

    def probe() -> None:
        while ask(unused_tcp_port, "/livez")[0] != 503:
            pass
        dead.set()
        while ask(unused_tcp_port, "/livez")[0] != 200:
            pass
        alive_again.set()

    with answering(settings, health):
        async with ticking(health):
            watcher = threading.Thread(target=probe, daemon=True)
            watcher.start()
            assert dead.wait(GUARD_S)  # in the loop's own thread, on purpose
            async with asyncio.timeout(GUARD_S):
                # The tick comes once a second, the limit is shorter: both answers are seen.
                await asyncio.to_thread(alive_again.wait, GUARD_S)
            assert alive_again.is_set()
            await asyncio.to_thread(watcher.join, GUARD_S)


def test_answers_have_a_body_and_other_paths_none(unused_tcp_port: int) -> None:
    settings = load_settings({}, health_address=f"localhost:{unused_tcp_port}")
    clock = Clock()
    health = working(clock)
    with answering(settings, health):
        assert ask(unused_tcp_port, "/livez") == (200, {"status": "alive", "tick_age_s": 0.0, "max_tick_s": 20})
        assert ask(unused_tcp_port, "/startupz?verbose") == (200, {"status": "started", "stage": "working"})
        ready = {"stage": "working", "connected": True, "polling": {"afterturn": True, "afterturn-llm": True}, "tick_age_s": 0.0}
        assert ask(unused_tcp_port, "/readyz") == (200, {"status": "ready", **ready})
        assert ask(unused_tcp_port, "/readyz", "HEAD") == (200, None)
        health.stage = Stage.STOPPING
        assert ask(unused_tcp_port, "/readyz")[0] == 503
        assert ask(unused_tcp_port, "/livez")[0] == 200
        assert ask(unused_tcp_port, "/metrics")[0] == 404


def test_clients_that_dawdle_keep_no_probe_out(unused_tcp_port: int) -> None:
    settings = load_settings({}, health_address=f"127.0.0.1:{unused_tcp_port}")
    slow: list[socket.socket] = []
    with answering(settings, working(Clock())):
        try:
            for _ in range(3 * MAX_CONNECTIONS):
                slow.append(socket.create_connection(("127.0.0.1", unused_tcp_port), timeout=10))
                slow[-1].sendall(b"GET /livez HTTP/1.1\r\n")
            assert ask(unused_tcp_port, "/livez")[0] == 200
            assert threading.active_count() < 3 * MAX_CONNECTIONS
        finally:
            for one in slow:
                one.close()


def test_a_port_that_is_taken_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(InvalidSettings, match=f"AFTERTURN_HEALTH_ADDRESS: cannot listen at {address}: address already in use"),
            answering(load_settings({}, health_address=address), working(Clock())),
        ):
            pass


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_HEALTH_ADDRESS: must be host:port"):
        load_settings({}, health_address="8081")


def test_without_an_address_nobody_listens() -> None:
    with answering(load_settings({}), working(Clock())) as port:
        assert port is None
