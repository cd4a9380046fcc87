"""Knowledge loops from the outside: recorded first, then started; found again by id from any process.

The parts of :mod:`starter.knowledge` and :mod:`starter.steering` that talk to the store and to Temporal.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from memory.model.errors import InvalidInput, LoopEnded, MemoryUnavailable, NotPermitted
from memory.model.ids import new_id
from memory.model.knowledge import PERSONAL
from memory.model.knowledge_loop import (
    MAX_CONTEXT_BYTES,
    MAX_CONTEXT_MESSAGES,
    MAX_INSTRUCTIONS_BYTES,
    MAX_INTERJECTION_BYTES,
    MAX_REQUEST_BYTES,
    Entry,
    EntryKind,
    Limits,
    Loop,
    LoopState,
    Operation,
)
from memory.model.knowledge_steps import LoopInput, LoopStatus, Steer
from memory.model.names import KNOWLEDGE_LOOP_WORKFLOW, TASK_QUEUE
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.transcript import clean_text
from memory.ports import Directory
from memory.ports.knowledge import LoopStore
from memory.settings import Settings, limits_of
from starter.temporal import address_of, ask, temporal_errors, user_priority, user_search_attributes

STEER_S: Final = 30.0
START_S: Final = 15.0
HANDOVER_TRIES: Final = 10
HANDOVER_S: Final = 0.1
"""Between two runs of a loop that continues as new there is a moment in which nobody can be told."""
PAGE: Final = 1_000

ROLES: Final = ("user", "assistant", "system", "document")
"""Of messages of context. ``document``: a text that came from outside, such as a file."""
_LOOP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a caller asks for, before it is checked."""

    operation: Operation
    text: str
    instructions: str | None = None
    destination: str = PERSONAL
    response_format: Mapping[str, Any] | None = None
    context: Sequence[Mapping[str, str]] | None = None
    clarify: bool = False
    limits: Limits | None = None
    loop_id: str | None = None
    model: str | None = None
    said: Sequence[str] | None = None


class Loops:
    """For one event loop. All methods raise MemoryUnavailable when the database is away."""

    def __init__(
        self, settings: Settings, *, store: LoopStore, directory: Directory, temporal: Callable[[], Awaitable[Client]]
    ) -> None:
        self.settings = settings
        self.store = store
        self._directory = directory
        self._temporal = temporal

    # ------------------------------------------------------------------------------------------------------ begin and find

    async def begin(self, scope: Scope, request: Request) -> Loop:
        """Record a request, then start its loop. The same loop id again, with the same request, is the same loop.

        Raises:
            InvalidInput: what cannot be asked for; an id that was used for something else. Nothing was recorded.
            NotPermitted: the destination is a team's whose tables the user may only read.
            MemoryUnavailable: the database is away; or Temporal, then the loop is recorded and :meth:`start` starts it.
        """
        loop = await asyncio.to_thread(_checked, request, limits_of(self.settings), datetime.now(UTC))
        await self.check_destination(scope, loop.destination)
        opened = await self.store.open(scope, loop)
        if (opened.operation, opened.text, opened.destination) != (loop.operation, loop.text, loop.destination):
            raise InvalidInput(f"the loop id {loop.loop_id} was used for another request; take another one")
        await self.start(scope, opened)
        return opened

    async def check_destination(self, scope: Scope, destination: str) -> None:
        """Whether a team exists is told to its members alone."""
        if destination == PERSONAL:
            return
        kind, _, team = destination.partition(":")
        if kind != "team" or not team:
            raise InvalidInput(f'the destination is "{PERSONAL}" or "team:<id>"')
        may_write = (await self._directory.memberships(scope)).get(team)
        if may_write is None:
            raise InvalidInput(f"there is no team {ascii(team)[:60]} of this user")
        if not may_write:
            raise NotPermitted(f"the user may read the tables of the team {ascii(team)[:60]}, not write them")

    async def start(self, scope: Scope, loop: Loop) -> None:
        """Start a loop that was recorded, or leave it as it is: it runs, or has ended. Safe to repeat.

        Raises MemoryUnavailable: Temporal is away; the loop's entries say so.
        """
        if loop.state is not LoopState.RUNNING:
            return
        try:
            await start_loop(await self._temporal(), scope, loop.loop_id, loop.operation, again=True)
        except MemoryUnavailable as error:
            await self._note_unstarted(scope, loop.loop_id)
            raise MemoryUnavailable(
                f"the loop {loop.loop_id} is recorded and not started: {error.message}; `attach` starts it later"
            ) from None

    async def _note_unstarted(self, scope: Scope, loop_id: str) -> None:
        body = {"text": "recorded, not started: Temporal is away; attach to this loop to start it"}
        await self.append(scope, loop_id, f"unstarted/{new_id()}", EntryKind.NOTICE, body)

    async def find(self, scope: Scope, loop_id: str) -> Loop:
        """Raises InvalidInput where the user has no such loop."""
        found = await self.store.loop(scope, loop_id)
        if found is None:
            raise InvalidInput(f"there is no loop {ascii(loop_id)[:80]} of this user")
        return found

    async def entries(self, scope: Scope, loop_id: str, *, after: int = 0) -> list[Entry]:
        found: list[Entry] = []
        while True:
            page = await self.store.entries(scope, loop_id, after=after, limit=PAGE)
            found.extend(page)
            if len(page) < PAGE:
                return found
            after = page[-1].number

    async def append(self, scope: Scope, loop_id: str, key: str, kind: EntryKind, body: Mapping[str, Any], step: int = 0) -> Entry:
        (entry,) = await self.store.append(scope, loop_id, [Entry(key, kind, step, body)], now=datetime.now(UTC))
        return entry

    # ------------------------------------------------------------------------------------------------------------ steering

    async def handle(self, scope: Scope, loop_id: str) -> WorkflowHandle[Any, Any]:
        return (await self._temporal()).get_workflow_handle(scope.knowledge_workflow_id(loop_id))

    async def client(self) -> Client:
        return await self._temporal()

    async def update(self, scope: Scope, loop_id: str, name: str, said: Steer | None = None, *, update_id: str) -> LoopStatus:
        """Tell a running loop something.

        Raises:
            LoopEnded: it has ended, or is just ending.
            InvalidInput: the loop refuses it; the message says why.
            MemoryUnavailable: no run was reached, or none confirmed it in time.
        """
        for _ in range(HANDOVER_TRIES):
            handle = await self.handle(scope, loop_id)
            work = handle.execute_update(name, args=[] if said is None else [said], id=update_id, result_type=LoopStatus)
            try:
                async with asyncio.timeout(STEER_S):
                    with temporal_errors(f"to {name} a loop"):
                        return await _found(cast("Awaitable[LoopStatus]", work))
            except _NotThere:
                if (await self.find(scope, loop_id)).state is not LoopState.RUNNING:
                    raise LoopEnded(f"the loop {loop_id} has ended") from None
                await asyncio.sleep(HANDOVER_S)
            except WorkflowUpdateFailedError as error:
                raise _refusal(error, loop_id) from None
            except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
                raise MemoryUnavailable(f"the loop {loop_id} did not confirm it within {STEER_S:g} s; does a worker run?") from None
        raise MemoryUnavailable(f"the loop {loop_id} does not run; `attach` starts it again")

    async def signal(self, scope: Scope, loop_id: str, name: str, said: Steer) -> bool:
        """False: there is no run. Raises MemoryUnavailable."""
        handle = await self.handle(scope, loop_id)
        try:
            await ask(_found(handle.signal(name, said)), f"to {name} a loop", within_s=STEER_S)
        except _NotThere:
            return False
        return True

    async def wait(self, scope: Scope, loop_id: str, *, within_s: float) -> bool:
        """Until the run has ended; False: not in that time.

        Raises MemoryUnavailable: there is no run, it ended without a result, or Temporal is away.
        """
        handle = await self.handle(scope, loop_id)
        try:
            async with asyncio.timeout(within_s):
                with temporal_errors("waiting for a loop"):
                    await _found(handle.result())
        except TimeoutError:
            return False
        except WorkflowFailureError:
            return True
        except _NotThere:
            raise MemoryUnavailable(f"the loop {loop_id} was not started; `attach` starts it") from None
        return True


async def start_loop(client: Client, scope: Scope, loop_id: str, operation: Operation, *, again: bool) -> bool:
    """Start a loop that was recorded. True: it runs; False: it has ended.

    Args:
        client: connected or lazy.
        scope, loop_id, operation: of the loop.
        again: a run that was terminated begins again, and finds in the store what it had done; else it stays so.

    Raises MemoryUnavailable.
    """
    begin = client.start_workflow(
        KNOWLEDGE_LOOP_WORKFLOW,
        LoopInput(user=UserRef.of(scope), loop_id=loop_id, operation=operation),
        id=scope.knowledge_workflow_id(loop_id),
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY if again else WorkflowIDReusePolicy.REJECT_DUPLICATE,
        search_attributes=user_search_attributes(scope),
        static_summary=operation.value,
        priority=user_priority(scope),
        rpc_timeout=timedelta(seconds=START_S),
    )
    try:
        await ask(begin, "starting a loop", within_s=START_S, address=address_of(client))
    except WorkflowAlreadyStartedError:
        return False
    return True


class _NotThere(Exception):
    """No such run, or it has ended."""


async def _found(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
            raise _NotThere from None
        raise


def _refusal(error: WorkflowUpdateFailedError, loop_id: str) -> Exception:
    cause = error.cause
    kind = cause.type if isinstance(cause, ApplicationError) else None
    if kind == "InvalidInput" and isinstance(cause, ApplicationError):
        return InvalidInput(f"the loop {loop_id}: {cause.message}")
    return LoopEnded(f"the loop {loop_id} has ended or is just ending")


# ------------------------------------------------------------------------------------------------------------------- checks


def _checked(request: Request, most: Limits, now: datetime) -> Loop:
    """CPU-bound. Raises InvalidInput that names what is wrong."""
    loop_id = request.loop_id or new_id()
    if not _LOOP_ID.fullmatch(loop_id):
        raise InvalidInput("a loop id is 1 to 64 ASCII letters, digits, - and _, beginning with a letter or digit")
    response_format = None
    if request.response_format is not None:
        from memory.knowledge.answers import checked_schema  # the JSON schema library is slow to load

        response_format = checked_schema(request.response_format)
    instructions = None
    if request.instructions is not None:
        instructions = said_text(request.instructions, "case_specific_instructions", MAX_INSTRUCTIONS_BYTES)
    return Loop(
        loop_id=loop_id,
        operation=request.operation,
        text=said_text(request.text, "the request", MAX_REQUEST_BYTES),
        destination=request.destination,
        created_at=now,
        instructions=instructions,
        context=_context(request.context or ()),
        response_format=response_format,
        clarify=request.clarify is True,
        limits=_limits(request.limits, most),
        model=request.model or "",
        said=None if request.said is None else _said(request.said),
    )


def said_text(text: str, what: str, max_bytes: int = MAX_INTERJECTION_BYTES) -> str:
    """A person's words as they are kept: cleaned, secrets redacted. Raises InvalidInput for none, or too many."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{what} is text, not {type(text).__name__}")
    # Before anything else is done with it: a text of many megabytes is refused for what it is.
    size = len(text) if len(text) > max_bytes else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise InvalidInput(f"{what} is longer than {max_bytes} bytes")
    clean = clean_text(text)
    if not clean.strip():
        raise InvalidInput(f"{what} is empty")
    return redact(clean).text


def _said(texts: Sequence[str]) -> tuple[str, ...]:
    """The newest that there is room for: what is not there asks for nothing."""
    if isinstance(texts, str | bytes) or not all(isinstance(text, str) for text in texts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput("said is a list of texts: the messages of the user, oldest first")
    kept: list[str] = []
    room = MAX_CONTEXT_BYTES // 4
    for text in reversed(texts[-MAX_CONTEXT_MESSAGES:]):
        room -= len(text) if len(text) > room else len(text.encode("utf-8", "surrogatepass"))
        if room < 0:
            break
        kept.append(redact(clean_text(text)).text)
    return tuple(reversed(kept))


def _context(messages: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput('the context is a list of messages: {"role": …, "content": …}')
    if len(messages) > MAX_CONTEXT_MESSAGES:
        raise InvalidInput(f"{len(messages)} messages of context; at most {MAX_CONTEXT_MESSAGES} are taken, the newest are best")
    checked: list[Mapping[str, str]] = []
    room = MAX_CONTEXT_BYTES // 2
    for number, message in enumerate(messages, 1):
        role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)  # pyright: ignore[reportUnnecessaryIsInstance]
        if role not in ROLES or not isinstance(content, str):
            known = ", ".join(ROLES)
            raise InvalidInput(f'message {number} of the context is not {{"role": …, "content": text}}; roles are {known}')
        room -= len(content) if len(content) > room else len(content.encode("utf-8", "surrogatepass"))
        if room < 0:
            raise InvalidInput(f"the context is longer than {MAX_CONTEXT_BYTES // 2} bytes; the newest messages are best")
        checked.append({"role": role, "content": redact(clean_text(content)).text})
    return tuple(checked)


def _limits(asked: Limits | None, most: Limits) -> Limits:
    """Never more than the deployment allows."""
    if asked is None:
        return most
    if not isinstance(asked, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"limits are Limits(...), not {type(asked).__name__}")
    if problem := asked.problem():
        raise InvalidInput(problem)
    if asked.steps < 2:
        raise InvalidInput("a loop needs at least 2 steps")
    return Limits(
        steps=min(asked.steps, most.steps),
        tokens=min(asked.tokens, most.tokens),
        wall_s=min(asked.wall_s, most.wall_s),
        clarification_wait_s=min(asked.clarification_wait_s, most.clarification_wait_s),
    )
