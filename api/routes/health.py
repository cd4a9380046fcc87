"""Is the process alive, and is everything there that it needs: for load balancers and Kubernetes. Public, and says no more."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from api.context import ApiContext, Context
from memory.model.errors import AfterturnError

PROBE_S: Final = 3.0
KEPT_S: Final = 2.0
"""However often somebody asks, what is behind is asked no more often than this."""

State = Literal["ok", "away", "wrong"]

router = APIRouter()


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """``checks``: ``away``: does not answer; ``wrong``: answers, and cannot be used as it is (see `afterturn doctor`)."""

    status: Literal["ready", "not ready", "stopping"]
    checks: dict[str, State]


class Readiness:
    """For one event loop."""

    def __init__(self) -> None:
        self._found: tuple[float, dict[str, State]] | None = None
        self._asking = asyncio.Lock()

    async def look(self, context: ApiContext) -> dict[str, State]:
        async with self._asking:
            if self._found is None or time.monotonic() - self._found[0] > KEPT_S:
                names = list(context.probes)
                states = await asyncio.gather(*(self._probe(context, name) for name in names))
                self._found = (time.monotonic(), dict(zip(names, states, strict=True)))
            return self._found[1]

    async def _probe(self, context: ApiContext, name: str) -> State:
        try:
            async with asyncio.timeout(PROBE_S):
                await context.probes[name]()
        except TimeoutError:
            return "away"
        except AfterturnError as error:
            # What the error says is for the log of whoever works here, not for everybody.
            return "wrong" if type(error).__name__ == "InvalidSettings" else "away"
        return "ok"


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> Alive:
    """The process answers."""
    return Alive()


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request, response: Response, context: Context) -> Ready:
    """Database, object store and Temporal answer. 503 where one does not, and once the process is stopping."""
    if request.app.state.stopping.is_set():
        response.status_code = 503
        return Ready(status="stopping", checks={})
    readiness: Readiness | None = getattr(request.app.state, "readiness", None)
    if readiness is None:
        readiness = request.app.state.readiness = Readiness()
    checks = await readiness.look(context)
    ready = all(state == "ok" for state in checks.values())
    if not ready:
        response.status_code = 503
    return Ready(status="ready" if ready else "not ready", checks=checks)
