"""Server-sent events (``text/event-stream``): what every stream of this API does alike.

A stream begins with ``retry``, sends a comment while nothing happens, and ends when its events end, when the client is gone or
does not read, when the server stops, and after a quarter of an hour: whoever comes back (a browser does by itself, with
``Last-Event-ID``) has to prove again who they are. A process has only so many streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Header, Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from api.limits import LEAST_SHARE
from api.notice_hub import NoticeHub
from api.problems import PROBLEM_JSON, Problem, problem
from memory.model.errors import AfterturnError, InvalidInput

KEEP_ALIVE_S: Final = 15.0
RETRY_MS: Final = 2_000
STALLED_S: Final = 30.0
"""A client that takes nothing for so long is given up."""
LONGEST_S: Final = 900.0
READERS: Final = 2
"""Documents that are read at once, each in a process of its own."""
MEDIA_TYPE: Final = "text/event-stream"

_log = logging.getLogger(__name__)

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="id of the last event that was seen; the stream goes on after it",
        max_length=64,
        examples=["7"],
    ),
]


@dataclass(frozen=True, slots=True)
class Event:
    """``data``: a mapping, or JSON as text. ``id``: where a client that comes back goes on; None: where the event before said."""

    name: str
    data: Mapping[str, Any] | str = field(repr=False)
    id: str | None = None

    def encoded(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False, default=str)
        # A lone half of a character would end the stream; it is in no text that was stored, but ids of callers are what they are.
        shown = data.encode("utf-8", "replace").decode()
        return format_sse_event(data_str=shown, event=self.name, id=self.id)


class Streams:
    """The open streams of one process. No caller has more than ``share`` of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.share = max(LEAST_SHARE, most // 2)
        self.open = 0
        self._of: Counter[str] = Counter()
        self.stopping = asyncio.Event()
        """Set when the server begins to stop."""

    def refusal(self, caller: str) -> str | None:
        """Why this caller gets no stream now."""
        if self.open >= self.most:
            return f"{self.most} event streams are open in this process; come back later, or ask without a stream"
        if self._of[caller] >= self.share:
            return f"{self.share} of your event streams are open; end one of them, or ask without a stream"
        return None

    @contextlib.contextmanager
    def place(self, caller: str) -> Generator[None]:
        """Take one of them."""
        self.open += 1
        self._of[caller] += 1
        try:
            yield
        finally:
            self.open -= 1
            self._of[caller] -= 1
            if self._of[caller] <= 0:
                del self._of[caller]


class EventStream(EventSourceResponse):
    """Streams ``events`` to a client, and closes them whatever happens."""

    def __init__(self, streams: Streams, events: AsyncGenerator[Event]) -> None:
        # The body is sent by what is below; a buffering proxy would keep events back.
        super().__init__(content=(), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams
        self._events = events

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        caller: str = scope.get("state", {}).get("counted_as", "")
        try:
            if (refusal := self._streams.refusal(caller)) is not None:
                await problem(503, "too-many-streams", refusal)(scope, receive, send)
                return
            with self._streams.place(caller):
                await self._run(receive, send)
        finally:
            await self._events.aclose()

    async def _run(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send_all(send))
        gone = asyncio.create_task(gone_client(receive))
        stopping = asyncio.create_task(self._streams.stopping.wait())
        tasks: set[asyncio.Task[Any]] = {sending, gone, stopping}
        try:
            await asyncio.wait(tasks, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            # The generator must stand still before it can be closed.
            await asyncio.gather(*tasks, return_exceptions=True)
        if gone.done() and not gone.cancelled():
            return
        if not sending.cancelled() and (error := sending.exception()) is not None:
            if not isinstance(error, TimeoutError):
                raise error
            _log.info("an event stream was given up: its client took nothing for %g s", STALLED_S)
            return
        with contextlib.suppress(TimeoutError):
            await _within(send, {"type": "http.response.body", "body": b"", "more_body": False}, 1.0)

    async def _send_all(self, send: Send) -> None:
        async def put(data: bytes) -> None:
            await _within(send, {"type": "http.response.body", "body": data, "more_body": True}, STALLED_S)

        async def following() -> Event | None:
            return await anext(self._events, None)

        await put(format_sse_event(retry=RETRY_MS))
        task: asyncio.Task[Event | None] | None = None
        try:
            while True:
                task = task or asyncio.create_task(following())
                done, _ = await asyncio.wait({task}, timeout=KEEP_ALIVE_S)
                if not done:
                    await put(KEEPALIVE_COMMENT)
                    continue
                event, task = task.result(), None
                if event is None:
                    return
                await put(event.encoded())
        except AfterturnError as error:
            # A store that is away for a while: the client comes back and goes on where it was.
            await put(Event("unavailable", {"detail": error.message}).encoded())
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def gone_client(receive: Receive) -> None:
    """Returns when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _within(send: Send, message: Message, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await send(message)


# --------------------------------------------------------------------------------------------------------------- in the app


def install(app: FastAPI) -> None:
    """Give the application its streams. Needs ``app.state.context``."""
    context = app.state.context
    app.state.streams = Streams(context.settings.api_max_streams)
    app.state.stopping = app.state.streams.stopping
    app.state.notices = NoticeHub(context.box)
    app.state.readers = asyncio.Semaphore(READERS)


async def _streams(request: Request) -> Streams:
    """Async: see :mod:`api.context`."""
    return request.app.state.streams


OpenStreams = Annotated[Streams, Depends(_streams)]


def last_number(last_event_id: str | None) -> int | None:
    """The number in ``Last-Event-ID``. Raises InvalidInput for what this API never gave as one."""
    if last_event_id is None:
        return None
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 18:
        raise InvalidInput("the header Last-Event-ID is the id of an event of this stream, a number")
    return int(last_event_id)


def responses(description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document."""
    return {
        200: {"description": description, "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": example}}},
        503: {"model": Problem, "description": "Too many streams, or a store is away", "content": {PROBLEM_JSON: {}}},
    }
