"""What the routes work with: one client, and the ports behind what a client does not offer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from api.auth.setup import Access
from memory.model.access import Principal
from memory.ports import Directory, EventLog, UsageLedger, WindowLedger
from memory.ports.administration import Reports, SpaceRecords
from memory.ports.service import NoticeBox, Processes, ServiceTokens
from memory.settings import Settings
from starter import MemoryClient


class Authenticator(Protocol):
    """One way to prove who is asking."""

    async def authenticate(self, request: Request) -> Principal | None:
        """None: the request carries no proof of this kind. Raises Unauthenticated for a proof that does not hold."""
        ...


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Made once per process; see :mod:`api.serve`.

    ``access``: how people sign in. ``probes``: what has to answer for the process to be ready; each raises an AfterturnError.
    """

    settings: Settings
    memory: MemoryClient
    directory: Directory
    log: EventLog
    ledger: WindowLedger
    usage: UsageLedger
    tokens: ServiceTokens
    box: NoticeBox
    processes: Processes
    spaces: SpaceRecords
    reports: Reports
    authenticators: Sequence[Authenticator] = ()
    access: Access = field(default_factory=Access)
    probes: Mapping[str, Callable[[], Awaitable[object]]] = field(default_factory=dict[str, Callable[[], Awaitable[object]]])
    close: Sequence[Callable[[], Awaitable[None]]] = field(default=())


def context_of(request: Request) -> ApiContext:
    return request.app.state.context


async def _context(request: Request) -> ApiContext:
    """Async, because the framework takes each plain function to a thread and back: a millisecond of every request."""
    return context_of(request)


Context = Annotated[ApiContext, Depends(_context)]
