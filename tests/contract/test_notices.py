"""Notice sinks against a real HTTP server: signed, bounded in time, and one bad sink does not keep a notice from the others."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from memory.model.errors import InvalidInput, InvalidSettings, MemoryUnavailable
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.ports import Notice, Notifier
from memory.settings import load_settings
from memory.stores.notices import (
    SIGNATURE_HEADER,
    FanOut,
    LogNotifier,
    WebhookNotifier,
    build_notifier,
    sign,
    verify_signature,
)
from memory.stores.tables import build_tables

SECRET = "a shared secret"
GUARD_S = 20.0
"""Far above every time-out in this file: a test that would hang fails."""

NOTICE = Notice(
    notice_id="n-1",
    key="n-1/updating_started",
    step="updating_started",
    scope=Scope.of("acme/…", "user 🦊"),
    conversation_ids=("c1",),
    turn_ids=("t1", "t\ud83d2"),
    text="🧠 Updating context memory…",
    at=datetime(2026, 6, 17, 12, 0, tzinfo=UTC),
    outcome=Outcome.UPDATED,
    review_url="https://example.test/memory",
)


@dataclass
class Received:
    head: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A local HTTP server; ``reply`` is what it writes back (None: it never answers)."""

    reply: bytes | None = b"HTTP/1.1 204 No Content\r\n\r\n"
    endless: bool = False
    calls: list[Received] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.calls.append(Received(head, headers, body))
                self.called.set()
                if self.reply is None:
                    await reader.read()
                    return
                writer.write(self.reply)
                await writer.drain()
                while self.endless:
                    writer.write(b"x" * 65536)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


Start = Callable[..., Awaitable[Receiver]]


@pytest.fixture
async def receiver() -> AsyncIterator[Start]:
    servers: list[asyncio.Server] = []

    async def start(**how: object) -> Receiver:
        one = Receiver(**how)  # type: ignore[arg-type]
        server = await asyncio.start_server(one.handle, "127.0.0.1", 0)
        servers.append(server)
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        return one

    yield start
    for server in servers:
        server.close()


@asynccontextmanager
async def webhook(url: str, timeout_s: float = 5.0) -> AsyncIterator[WebhookNotifier]:
    sink = WebhookNotifier(url, SECRET, timeout_s=timeout_s)
    try:
        yield sink
    finally:
        await sink.aclose()


async def test_a_webhook_call_carries_the_notice_and_a_signature_that_its_receiver_can_check(receiver: Start) -> None:
    there = await receiver()
    async with webhook(there.url) as sink:
        await sink.send(NOTICE)
    (call,) = there.calls
    assert call.head == "POST /hook HTTP/1.1"
    assert call.headers["content-type"] == "application/json"
    verify_signature(SECRET, call.headers[SIGNATURE_HEADER.lower()], call.body)
    assert json.loads(call.body) == {
        "notice_id": "n-1",
        "key": "n-1/updating_started",
        "step": "updating_started",
        "tenant_id": "acme/…",
        "user_id": "user 🦊",
        "conversation_ids": ["c1"],
        "turn_ids": ["t1", "t\ud83d2"],
        "text": "🧠 Updating context memory…",
        "at": "2026-06-17T12:00:00+00:00",
        "expires_at": None,
        "outcome": "updated",
        "review_url": "https://example.test/memory",
    }


async def test_repeats_of_a_step_have_the_same_key_header_and_other_steps_another(receiver: Start) -> None:
    there = await receiver()
    async with webhook(there.url) as sink:
        await sink.send(NOTICE)
        await sink.send(NOTICE)
        await sink.send(replace(NOTICE, key="n-1/updating_completed", step="updating_completed"))
    first, again, other = (call.headers["x-afterturn-key"] for call in there.calls)
    assert first == again != other


async def test_calls_share_a_connection(receiver: Start) -> None:
    there = await receiver()
    async with webhook(there.url) as sink:
        for _ in range(5):
            await sink.send(NOTICE)
    assert len(there.calls) == 5
    assert there.connections == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops", "answered 500"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered 404"),
        (b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "answered 307"),
        (b"this is not HTTP\r\n\r\n", "cannot be reached"),
        (None, "did not answer within 0.2 s"),
    ],
)
async def test_a_receiver_that_fails_is_an_error_that_says_how(receiver: Start, reply: bytes | None, says: str) -> None:
    there = await receiver(reply=reply)
    async with webhook(there.url, timeout_s=0.2 if reply is None else 5.0) as sink, asyncio.timeout(GUARD_S):
        with pytest.raises(MemoryUnavailable, match=says) as caught:
            await sink.send(NOTICE)
    assert SECRET not in str(caught.value)


async def test_a_reply_without_an_end_does_not_hold_the_sink(receiver: Start) -> None:
    there = await receiver(reply=b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", endless=True)
    async with webhook(there.url) as sink, asyncio.timeout(GUARD_S):
        await sink.send(NOTICE)
    assert len(there.calls) == 1


async def test_a_closed_port_is_an_error(unused_tcp_port: int) -> None:
    async with webhook(f"http://127.0.0.1:{unused_tcp_port}/") as sink, asyncio.timeout(GUARD_S):
        with pytest.raises(MemoryUnavailable, match="cannot be reached"):
            await sink.send(NOTICE)


async def test_the_other_sinks_get_the_notice_when_some_fail(receiver: Start, caplog: pytest.LogCaptureFixture) -> None:
    bad = await receiver(reply=b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    good, silent = await receiver(), await receiver(reply=None)
    caplog.set_level(logging.INFO)
    async with webhook(bad.url) as one, webhook(good.url) as two, webhook(silent.url, 0.2) as three:
        everywhere = FanOut([one, three, LogNotifier(), two])
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(MemoryUnavailable, match="2 of 4 notice sinks failed") as caught:
                await everywhere.send(NOTICE)
    assert "answered 503" in str(caught.value)
    assert "did not answer" in str(caught.value)
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert len(good.calls) == 1
    assert "updating_started" in caplog.text


async def test_cancelling_reaches_every_sink(receiver: Start) -> None:
    silent = await receiver(reply=None)
    async with webhook(silent.url, 60.0) as sink:
        task = asyncio.create_task(FanOut([sink, LogNotifier()]).send(NOTICE))
        async with asyncio.timeout(GUARD_S):
            await silent.called.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_the_log_line_has_ids_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await LogNotifier().send(replace(NOTICE, notice_id="x\nforged line"))
    assert "updating_started" in caplog.text
    assert NOTICE.text not in caplog.text
    assert "\nforged" not in caplog.text
    assert NOTICE.scope.user in caplog.text


class TestSignature:
    BODY = b'{"step":"updating_started"}'

    def test_holds_within_the_tolerance(self) -> None:
        header = sign(SECRET.encode(), self.BODY, timestamp=1000)
        verify_signature(SECRET, header, self.BODY, now=1200)
        verify_signature(SECRET, header, self.BODY, now=800)

    @pytest.mark.parametrize("now", [1301.0, 699.0])
    def test_an_old_or_future_one_is_refused(self, now: float) -> None:
        with pytest.raises(InvalidInput, match="old"):
            verify_signature(SECRET, sign(SECRET.encode(), self.BODY, timestamp=1000), self.BODY, now=now)

    def test_another_body_time_or_secret_is_refused(self) -> None:
        now = int(time.time())
        header = sign(SECRET.encode(), self.BODY, timestamp=now)
        for secret, value, body in [
            (SECRET, header, self.BODY + b" "),
            (SECRET, header.replace(f"t={now}", f"t={now + 1}"), self.BODY),
            ("another", header, self.BODY),
        ]:
            with pytest.raises(InvalidInput, match="does not fit"):
                verify_signature(secret, value, body)

    @pytest.mark.parametrize("header", ["", "t=1", "v1=abc", "t=x,v1=abc", "t=" + "9" * 40 + ",v1=a", ",,,=,=", "t=１,v1=a"])
    def test_a_header_of_another_form_is_refused(self, header: str) -> None:
        with pytest.raises(InvalidInput):
            verify_signature(SECRET, header, self.BODY)

    def test_one_of_several_signatures_is_enough_while_a_secret_is_replaced(self) -> None:
        header = sign(SECRET.encode(), self.BODY, timestamp=1000)
        verify_signature(SECRET, f"t=1000,v1={'0' * 64},v1=é,{header.partition(',')[2]}", self.BODY, now=1000)


class TestBuildNotifier:
    def test_the_settings_name_the_sinks(self) -> None:
        assert build_notifier(load_settings({}, notice_log=False)).sinks == ()
        both = build_notifier(load_settings({}, notice_webhook_url="https://example.test/x", notice_webhook_secret="s"))
        assert both.name == "log+webhook"

    async def test_with_a_box_they_go_to_the_streams_too(self) -> None:
        tables = build_tables("sqlite://")
        try:
            assert build_notifier(load_settings({}), tables.notices).name == "log+stream"
            assert build_notifier(load_settings({}, notice_stream=False), tables.notices).name == "log"
            await build_notifier(load_settings({}), tables.notices).send(NOTICE)
            [boxed] = await tables.notices.of_user(NOTICE.scope, after=0)
            assert boxed.notice == NOTICE
        finally:
            await tables.aclose()

    async def test_a_box_that_is_away_keeps_no_other_sink_from_its_notice(self, caplog: pytest.LogCaptureFixture) -> None:
        tables = build_tables("sqlite://")
        await tables.aclose()
        with caplog.at_level("INFO"), pytest.raises(MemoryUnavailable, match="1 of 2 notice sinks failed: stream"):
            await build_notifier(load_settings({}), tables.notices).send(NOTICE)
        assert any("updating_started" in message for message in caplog.messages)

    def test_a_url_without_a_secret_is_refused(self) -> None:
        with pytest.raises(InvalidSettings, match="AFTERTURN_NOTICE_WEBHOOK_SECRET"):
            build_notifier(load_settings({}, notice_webhook_url="https://example.test/x"))

    @pytest.mark.parametrize(
        "url", ["ftp://example.test/", "example.test/x", "http://", "https://[::1", "http://h:99999/", "http://h:0/"]
    )
    def test_a_url_that_cannot_be_used_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidSettings, match="AFTERTURN_NOTICE_WEBHOOK_URL") as caught:
            build_notifier(load_settings({}, notice_webhook_url=url, notice_webhook_secret="s"))
        assert url not in str(caught.value)


async def test_a_sink_that_is_not_ours_can_be_added() -> None:
    class Remembering:
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def send(self, notice: Notice) -> None:
            self.seen.append(notice.step)

    mine: Notifier = (sink := Remembering())
    fan = FanOut([mine])
    await fan.send(NOTICE)
    await fan.aclose()
    assert sink.seen == ["updating_started"]
    assert fan.name == "Remembering"
