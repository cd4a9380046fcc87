"""What bounds a request, in a real server over real connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import structlog
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from api.headers import CONTENT_SECURITY_POLICY, Outermost
from api.limits import Admission, BodyLimit
from api.problems import TooMany
from api.rates import MAX_KEYS, Rates
from memory.stores.http_server import serving
from tests.support.api import StartApi, as_service
from tests.support.waiting import until


@dataclass
class Served:
    """A small application behind the middlewares."""

    base: str
    http: httpx2.AsyncClient
    release: asyncio.Event
    entered: list[str] = field(default_factory=list[str])

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    async def raw(self, data: bytes, *, head: bool = False) -> bytes:
        """What a connection answers to these bytes, until it is closed; only the ``head`` of it does not wait for that."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(20):
                return await (reader.readuntil(b"\r\n\r\n") if head else reader.read())
        finally:
            writer.close()


@asynccontextmanager
async def served(
    *, most_bytes: int = 1_000, total: int = 100_000, body_s: float = 10, most: int = 2, within_s: float = 20
) -> AsyncGenerator[Served]:
    app = FastAPI()
    release = asyncio.Event()
    entered: list[str] = []

    @app.post("/echo")
    async def echo(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.post("/json")
    async def json(body: dict[str, Any]) -> dict[str, int]:
        return {"keys": len(body)}

    @app.post("/pieces")
    async def pieces(request: Request) -> dict[str, int]:
        return {"bytes": sum([len(piece) async for piece in request.stream()])}

    @app.get("/wait/{name}")
    async def wait(name: str) -> dict[str, bool]:
        entered.append(name)
        await release.wait()
        return {"waited": True}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            entered.append("stream")
            await release.wait()
            yield b"data: 2\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/fail")
    async def fail() -> None:
        raise RuntimeError("the secret diary of Ada")

    app.add_middleware(BodyLimit, most=most_bytes, within_s=body_s, total=total)
    app.add_middleware(Admission, most=most, within_s=within_s)
    app.add_middleware(Outermost, template=lambda scope: getattr(scope.get("route"), "path", "-"), https=True)
    async with serving(app, name="the test", grace_s=1) as base, httpx2.AsyncClient(base_url=base, timeout=20) as http:
        try:
            yield Served(base, http, release, entered)
        finally:
            release.set()


async def test_a_body_is_bounded_by_what_it_says_and_by_what_comes() -> None:
    async with served() as s:
        for path in ("/echo", "/pieces"):
            assert (await s.http.post(path, content=b"x" * 1_000)).json() == {"bytes": 1_000}
            over = await s.http.post(path, content=b"x" * 1_001)
            assert (over.status_code, over.json()["type"]) == (413, "/problems/too-large")

            async def chunks(count: int) -> AsyncIterator[bytes]:
                for _ in range(count):
                    yield b"x" * 100

            assert (await s.http.post(path, content=chunks(10))).json() == {"bytes": 1_000}
            over = await s.http.post(path, content=chunks(11))
            assert (over.status_code, over.json()["type"], over.headers["connection"]) == (413, "/problems/too-large", "close")

            endless = await s.http.post("/json", content=chunks(30), headers={"content-type": "application/json"})
            assert endless.status_code == 413, "not what the framework makes of a body that was cut off"
        said = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %b\r\n\r\n"
        for length in (b"5000000000", b"9" * 30):
            answer = await s.raw(said % length, head=True)
            assert answer.split(b" ")[1] in {b"413", b"400"}, answer
        # A body that is longer than it says is not another part of it.
        answer = await s.raw(b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n" + b"x" * 5_000)
        assert b'{"bytes":3}' in answer


async def test_all_bodies_together_are_bounded() -> None:
    async with served(total=1_500) as s:
        first = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n" + b"x" * 900
        reader, writer = await asyncio.open_connection("127.0.0.1", s.port)
        writer.write(first)

        async def is_full() -> bool:
            answer = await s.http.post("/echo", content=b"x" * 700)
            assert answer.status_code in {200, 503}
            return answer.status_code == 503

        await until(is_full)
        writer.write(b"x" * 100)
        assert b'{"bytes":1000}' in await reader.read()
        writer.close()
        assert (await s.http.post("/echo", content=b"x" * 700)).status_code == 200


async def test_a_body_that_never_ends_is_given_up() -> None:
    async with served(body_s=0.2) as s:
        answer = await s.raw(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"/problems/too-slow" in answer


async def test_so_many_at_once_and_streams_apart() -> None:
    async with served(most=2) as s:
        async with s.http.stream("GET", "/stream") as stream:
            await until(lambda: "stream" in s.entered)
            running = [asyncio.create_task(s.http.get(f"/wait/{number}")) for number in range(2)]
            await until(lambda: len(s.entered) == 3)
            busy = await s.http.get("/wait/3")
            assert (busy.status_code, busy.headers["retry-after"], busy.json()["type"]) == (503, "1", "/problems/too-busy")
            assert (await s.http.get("/healthz")).status_code == 200
            s.release.set()
            assert [(await task).status_code for task in running] == [200, 200]
            assert await stream.aread()
        assert (await s.http.get("/wait/4")).status_code == 200, "places come back"


async def test_an_answer_begins_in_time_and_a_stream_goes_on() -> None:
    async with served(within_s=0.2) as s:
        late = await s.http.get("/wait/1")
        assert (late.status_code, late.json()["type"]) == (504, "/problems/too-slow")
        async with s.http.stream("GET", "/stream") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "data: 1"
            assert (await s.http.get("/wait/2")).status_code == 504, "the time has passed for the stream as well"
            s.release.set()
            assert "data: 2" in [line async for line in lines]


async def test_every_answer_has_its_headers_and_a_line_in_the_log_without_what_is_private() -> None:
    async with served() as s:
        with structlog.testing.capture_logs() as lines:
            answers = [
                await s.http.get("/wait/ada@example.com?q=diary", headers={"x-request-id": "a b"}, timeout=20)
                if path == "wait"
                else await s.http.get(path, headers={"x-request-id": "trace-12345"})
                for path in ("/healthz", "/nothing/ada", "/fail")
            ]
            assert [answer.status_code for answer in answers] == [200, 404, 500]
            for answer in answers:
                assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
                assert answer.headers["strict-transport-security"].startswith("max-age=")
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["x-request-id"] == "trace-12345"
            assert answers[2].json()["type"] == "/problems/error"
            assert "diary" not in answers[2].text
            s.release.set()
            odd = await s.http.get("/wait/ada@example.com?q=diary", headers={"x-request-id": "a b"})
            assert len(odd.headers["x-request-id"]) == 36
        told = str(lines)
        assert "ada@" not in told
        assert "/ada" not in told
        assert "diary" not in told
        # Health checks are lines of the level debug: there only where somebody asked for them.
        others = [line for line in lines if line["route"] != "/healthz"]
        assert {line["route"] for line in others} == {"-", "/fail", "/wait/{name}"}
        assert [line["status"] for line in others if line["event"] == "request"] == [404, 500, 200]


async def test_headers_are_bounded(api: StartApi) -> None:
    async with api(workers=False) as a:
        most = {"x-big": "x" * 40_000}
        assert (await a.http.get("/healthz", headers=most)).status_code == 200
        # The server hangs up on what is larger; whether its answer arrives first is up to the network.
        with contextlib.suppress(httpx2.TransportError):
            answer = await a.http.get("/healthz", headers={"x-big": "x" * 200_000})
            assert answer.status_code in {400, 431}
        assert (await a.http.get("/healthz")).status_code == 200


async def test_how_often_a_caller_may_ask(api: StartApi) -> None:
    async with api(workers=False, api_rate_per_minute=5) as a:
        ada, grace = as_service("acme", "ada"), as_service("acme", "grace")
        answers = [await a.http.get("/v1/preference", headers=ada) for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert answers[0].headers["ratelimit-policy"] == '"caller";q=5;w=60'
        assert answers[0].headers["ratelimit"].startswith('"caller";r=4;t=')
        refused = answers[-1]
        assert refused.headers["ratelimit"].startswith('"caller";r=0;t=')
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.json()["type"] == "/problems/too-many-requests"
        assert (await a.http.get("/v1/preference", headers=grace)).status_code == 200, "another user of the same service"
        assert (await a.http.get("/healthz")).status_code == 200


async def test_the_window_moves_and_callers_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.time", lambda: now)
    rates = Rates(3)
    for moment in (1_000.0, 1_010.0, 1_020.0):
        now = moment
        assert await rates.count("ada") is not None
    with pytest.raises(TooMany) as refused:
        await rates.count("ada")
    assert refused.value.headers["Retry-After"] == "40"
    now = 1_060.5
    rate = await rates.count("ada")
    assert rate is not None
    assert (rate.remaining, rate.reset_s) == (0, 10)
    with pytest.raises(TooMany):
        await rates.count("ada")
    for number in range(MAX_KEYS + 10):
        await rates.count(f"caller {number}")
    assert len(rates._limiter.storage._moments) == MAX_KEYS  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    assert await Rates(0).count("anybody") is None
