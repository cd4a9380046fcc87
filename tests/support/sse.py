"""Reading server-sent events in tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Seen:
    """One event, its ``data`` as the JSON that it is."""

    name: str
    data: Any
    id: str | None


class Stream:
    """``comments``: those seen so far. ``last_id``: what a browser would come back with."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self.last_id: str | None = None
        self._events = self._read(response.aiter_lines())

    async def next(self, within_s: float = 30.0) -> Seen | None:
        """None: the server ended the stream."""
        async with asyncio.timeout(within_s):
            return await anext(self._events, None)

    async def until(self, name: str) -> list[Seen]:
        """All events up to the first one of that name, with it."""
        found: list[Seen] = []
        while (event := await self.next()) is not None:
            found.append(event)
            if event.name == name:
                return found
        raise AssertionError(f"the stream ended without {name}: {[event.name for event in found]}")

    async def rest(self) -> list[Seen]:
        """All events to the end of the stream."""
        found: list[Seen] = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found

    async def _read(self, lines: AsyncIterator[str]) -> AsyncGenerator[Seen]:
        fields: dict[str, str] = {}
        async for line in lines:
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                self.last_id = fields.get("id", self.last_id)
                yield Seen(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}
            else:
                fields = {}


@asynccontextmanager
async def opened(http: httpx2.AsyncClient, path: str, headers: dict[str, str], **options: Any) -> AsyncGenerator[Stream]:
    """An event stream; the test fails where the server answers anything else."""
    async with http.stream("GET", path, headers=headers, timeout=60, **options) as response:
        assert response.status_code == 200, (response.status_code, await response.aread())
        assert response.headers["content-type"].startswith("text/event-stream"), response.headers
        yield Stream(response)
