"""Durable loops over knowledge, contacts and tasks: begin them in plain language."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Response

from api.auth.access import Acting, Reader, Writer
from api.context import ApiContext, Context
from api.loop_views import Change, LoopView, Question
from api.problems import ApiError
from api.routing import IdempotencyKey, make_router
from api.streams import OpenStreams, Streams, gone_client
from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.ids import new_id, short_hash
from memory.model.knowledge_loop import MAX_REQUEST_BYTES, Loop, LoopState, Operation
from memory.model.scope import Scope
from memory.settings import limits_of
from starter.loops import said_text
from starter.steering import SteerableHandle

MAX_WAIT_S: Final = 60.0
_LOOP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

router = make_router("loops")

Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT_S, description="wait so many seconds for the end: 200 with the answer then, else 202")
]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How the answer to a request about a loop is given. ``wait_s``: how long it may take."""

    request: Request
    response: Response
    context: ApiContext
    streams: Streams
    wait_s: float

    async def for_end(self, scope: Scope, handle: SteerableHandle) -> LoopView:
        """The loop as it is when it has ended, the time is over, the client is gone, or the server stops."""
        if self.wait_s > 0:
            await _first_of(_ended(handle, self.wait_s), gone_client(self.request.receive), self.streams.stopping.wait())
        loop = await self.context.memory.knowledge.loop(scope, handle.loop_id)
        if loop is None:
            raise ApiError(409, "forgotten", "everything of this user was deleted meanwhile")
        return self.shown(loop)

    def shown(self, loop: Loop) -> LoopView:
        view = LoopView.of(loop)
        self.response.headers["Location"] = view.links.self
        self.response.status_code = 202 if loop.state is LoopState.RUNNING else 200
        return view


async def _waiting(request: Request, response: Response, context: Context, streams: OpenStreams, wait_s: Wait = 0.0) -> Waiting:
    return Waiting(request, response, context, streams, wait_s)


Waits = Annotated[Waiting, Depends(_waiting)]

ACCEPTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": LoopView, "description": "It runs: `links` say where to watch it, `Location` where to ask again"},
}
_BEGIN: Final[dict[int | str, dict[str, Any]]] = {
    **ACCEPTED,
    409: {"description": "The idempotency key was used for another request"},
}


@router.post("/knowledge/ask", responses=_BEGIN, summary="Ask the tables")
async def ask_knowledge(acting: Reader, waits: Waits, body: Question, key: IdempotencyKey = None) -> LoopView:
    """Have a question answered from the user's tables, those of their teams and the built-in ones. Nothing is ever changed.

    The loop is recorded, then begun. The same `Idempotency-Key` again is the same loop; the key is the loop's id, where it is 1 to
    64 letters, digits, `-` and `_`.
    """
    return await _begin(acting, waits, Operation.ASK, body, key)


@router.post("/knowledge/update", responses=_BEGIN, summary="Tell the tables")
async def update_knowledge(acting: Writer, waits: Waits, body: Change, key: IdempotencyKey = None) -> LoopView:
    """Have the tables say what the text says: new facts, corrections, deletions that it asks for in so many words."""
    return await _begin(acting, waits, Operation.UPDATE, body, key)


@router.post("/knowledge/refactor", responses=_BEGIN, summary="Put the tables in order")
async def refactor_knowledge(acting: Writer, waits: Waits, body: Change, key: IdempotencyKey = None) -> LoopView:
    """Have the tables restructured: no duplication, clear names, keys. The answer reports what was moved."""
    return await _begin(acting, waits, Operation.REFACTOR, body, key)


@router.post("/contacts/ask", responses=_BEGIN, summary="Ask about people")
async def ask_contacts(acting: Reader, waits: Waits, body: Question, key: IdempotencyKey = None) -> LoopView:
    """Have a question about the people whom the user deals with answered. Nothing is ever changed."""
    return await _begin(acting, waits, Operation.CONTACTS_ASK, body, key)


@router.post("/contacts/tell", responses=_BEGIN, summary="Tell of people")
async def tell_contacts(acting: Writer, waits: Waits, body: Change, key: IdempotencyKey = None) -> LoopView:
    """Have the contacts say what the text says: somebody new, an address, that two are the same person."""
    return await _begin(acting, waits, Operation.CONTACTS_UPDATE, body, key)


@router.post("/tasks/ask", responses=_BEGIN, summary="Ask about tasks")
async def ask_tasks(acting: Reader, waits: Waits, body: Question, key: IdempotencyKey = None) -> LoopView:
    """Have a question about what is to be done answered. Nothing is ever changed."""
    return await _begin(acting, waits, Operation.TASKS_ASK, body, key)


@router.post("/tasks/tell", responses=_BEGIN, summary="Tell of tasks")
async def tell_tasks(acting: Writer, waits: Waits, body: Change, key: IdempotencyKey = None) -> LoopView:
    """Have the tasks say what the text says: something new to do, a deadline, that something is done."""
    return await _begin(acting, waits, Operation.TASKS_UPDATE, body, key)


# -------------------------------------------------------------------------------------------------------------------- parts


async def _begin(acting: Acting, waits: Waiting, operation: Operation, body: Question, key: str | None) -> LoopView:
    memory, scope = waits.context.memory, acting.scope
    loop_id = new_id() if key is None else key if _LOOP_ID.fullmatch(key) else f"key-{short_hash(key)}"
    verbs: dict[Operation, Callable[..., Awaitable[SteerableHandle]]] = {
        Operation.ASK: memory.knowledge.ask,
        Operation.UPDATE: memory.knowledge.update,
        Operation.REFACTOR: memory.knowledge.refactor,
        Operation.CONTACTS_ASK: memory.contacts.ask,
        Operation.CONTACTS_UPDATE: memory.contacts.update,
        Operation.TASKS_ASK: memory.tasks.ask,
        Operation.TASKS_UPDATE: memory.tasks.update,
    }
    try:
        handle = await verbs[operation](scope, body.text, loop_id=loop_id, **_options(body, waits.context))
    except InvalidInput:
        if key is not None and await _is_another(waits.context, scope, loop_id, operation, body):
            raise ApiError(409, "id-in-use", "this idempotency key was used for another request; take another one") from None
        raise
    except MemoryUnavailable as error:
        # Recorded is not lost: the same request with this key begins it.
        again = {"loop_id": loop_id, "retry_with": {"Idempotency-Key": key or loop_id}}
        raise ApiError(503, "unavailable", error.message, extra=again) from None
    return await waits.for_end(scope, handle)


def _options(body: Question, context: ApiContext) -> dict[str, Any]:
    given: dict[str, Any] = {
        "case_specific_instructions": body.case_specific_instructions,
        "destination": body.destination,
        "response_format": body.response_format,
        "context": None if body.context is None else [one.model_dump() for one in body.context],
        "clarify": body.clarify,
        "limits": None if body.limits is None else body.limits.over(limits_of(context.settings)),
        "language_model": body.language_model,
    }
    return {**given, "said": body.said} if isinstance(body, Change) else given


async def _is_another(context: ApiContext, scope: Scope, loop_id: str, operation: Operation, body: Question) -> bool:
    there = await context.memory.knowledge.loop(scope, loop_id)
    if there is None:
        return False
    text = await asyncio.to_thread(said_text, body.text, "the request", MAX_REQUEST_BYTES)
    return (there.operation, there.text, there.destination) != (operation, text, body.destination)


async def _ended(handle: SteerableHandle, wait_s: float) -> None:
    try:
        await handle.result(timeout_s=wait_s)
    except (TimeoutError, MemoryUnavailable):
        return  # the caller is told how it stands


async def _first_of(*works: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
