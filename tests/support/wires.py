"""Ports with a wire around them: every call is announced before it begins and after it is done, by name.

Names: ``log.finish``, ``profiles.commit``, ``directory.facts``, ``ledger.commit``, ``facts.apply``, ``loops.append``, …;
``model.<stage>``; ``notice.<step>``.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from activities import Collaborators
from memory.model.errors import ModelRateLimited, ModelUnavailable
from memory.ports import ChatModel, ChatReply, ChatRequest, ModelProvider, Notice, Notifier, TokenCounter

When = Literal["before", "after"]


@dataclass(frozen=True)
class Point:
    """The ``nth`` call of ``call`` in a process: before it begins, or after it is done and before anybody hears of it."""

    call: str
    when: When
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.call} {self.when} #{self.nth}"


class Wire(Protocol):
    async def at(self, point: Point) -> None:
        """Called at every point; the call goes on when this returns."""
        ...


@dataclass
class Pause:
    """Holds the first call that comes to ``point`` until it is released."""

    point: Point
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def at(self, point: Point) -> None:
        if point == self.point:
            self.reached.set()
            await self.release.wait()


@dataclass(frozen=True)
class Flaky:
    """A provider whose calls fail now and then before a model answers: by the number of the call in this process and ``seed``, so
    that what a model says to a text does not depend on it."""

    share: float
    seed: str

    async def at(self, point: Point) -> None:
        if point.when != "before" or not point.call.startswith("model."):
            return
        drawn = random.Random(f"{self.seed}:{point.call}:{point.nth}").random()
        if drawn < self.share / 2:
            raise ModelRateLimited("rate limited (a test)")
        if drawn < self.share:
            raise ModelUnavailable("answered 500 (a test)")


class _Counted:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._begun: Counter[str] = Counter()

    async def begin(self, call: str) -> int:
        self._begun[call] += 1
        number = self._begun[call]
        await self._wire.at(Point(call, "before", number))
        return number

    async def end(self, call: str, number: int) -> None:
        await self._wire.at(Point(call, "after", number))


class _Wired:
    """Stands in for a port: every coroutine method is announced as ``<port>.<method>``."""

    def __init__(self, inner: object, port: str, wire: _Counted) -> None:
        self._inner = inner
        self._port = port
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(member):
            return member
        call = f"{self._port}.{name}"

        async def wired(*args: Any, **kwargs: Any) -> Any:
            number = await self._wire.begin(call)
            result = await member(*args, **kwargs)
            await self._wire.end(call, number)
            return result

        return wired


@dataclass
class _WiredModel:
    inner: ChatModel
    wire: _Counted

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def reasoning(self) -> bool:
        return self.inner.reasoning

    async def complete(self, request: ChatRequest) -> ChatReply:
        number = await self.wire.begin(f"model.{request.stage}")
        reply = await self.inner.complete(request)
        await self.wire.end(f"model.{request.stage}", number)
        return reply


@dataclass
class _WiredModels:
    inner: ModelProvider
    wire: _Counted

    def model(self, name: str) -> ChatModel:
        return _WiredModel(self.inner.model(name), self.wire)

    def token_counter(self, name: str) -> TokenCounter:
        return self.inner.token_counter(name)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass
class _WiredNotifier:
    inner: Notifier
    wire: _Counted

    async def send(self, notice: Notice) -> None:
        number = await self.wire.begin(f"notice.{notice.step}")
        await self.inner.send(notice)
        await self.wire.end(f"notice.{notice.step}", number)


def wired(parts: Collaborators, wire: Wire) -> Collaborators:
    """The same collaborators, wired."""
    counted = _Counted(wire)
    log: Any = _Wired(parts.log, "log", counted)
    directory: Any = _Wired(parts.directory, "directory", counted)
    profiles: Any = _Wired(parts.profiles, "profiles", counted)
    ledger: Any = _Wired(parts.ledger, "ledger", counted)
    loops: Any = _Wired(parts.loops, "loops", counted)
    knowledge: Any = _Wired(parts.knowledge, "knowledge", counted)
    stores: Any = replace(
        parts.stores,
        **{name: _Wired(getattr(parts.stores, name), name, counted) for name in ("facts", "contacts", "tasks", "guidance")},
    )
    return replace(
        parts,
        log=log,
        directory=directory,
        profiles=profiles,
        ledger=ledger,
        loops=loops,
        knowledge=knowledge,
        stores=stores,
        models=_WiredModels(parts.models, counted),
        notifier=_WiredNotifier(parts.notifier, counted),
    )
