"""What users and operators do with a profile: read, edit, roll back, ask where it stands, run kept turns again.

Off the answering path: these calls may take seconds and raise clear errors. Writes go through the user's workflow as updates, so
they queue behind a write in progress and never undo a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributeKey, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from memory.model.directory import MemoryFacts
from memory.model.document import Document
from memory.model.enablement import Enablement
from memory.model.errors import AfterturnError, BeingForgotten, InvalidInput, MemoryUnavailable, UnreadableProfile
from memory.model.ids import encode_segment, new_id, short_hash
from memory.model.names import EDIT_UPDATE, POST_ANSWER_WORKFLOW, ROLLBACK_UPDATE, SEARCH_STAGE, STATUS_QUERY, TASK_QUEUE
from memory.model.profile import EMPTY_PROFILE, Profile, parse_body, render_body
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.steps import EditRequest, Payload, PostAnswerInput, RollbackRequest, RunStatus, UserRef, WriteReply, WriteStatus
from memory.model.transcript import clean_text
from memory.model.turn import Outcome
from memory.ports import Directory, EventLog
from memory.profiles import Profiles, ProfileSnapshot
from memory.settings import Settings
from starter.loading import Loader, root_of
from starter.temporal import address_of, ask, temporal_errors, user_search_attributes
from starter.views import EditResult, ProfilePreview, ProfileVersion, ProfileView, RerunResult, UserStatus

T = TypeVar("T")

MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_PENDING_COUNT = 1_000
RECENT_TURNS = 10
STATUS_S = 5.0
STAGE_S = 2.0
FIRST_POLL_S = 0.05
LONGEST_POLL_S = 1.0

Wake = Callable[[Scope, Sequence[str], float], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class _Run:
    """A user's last run; ``run_id`` is None where there never was one. ``noted_stage``: its search attribute."""

    running: bool
    run_id: str | None = None
    noted_stage: str | None = None


class Handles:
    """Everything but the answering path. For one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        directory: Directory,
        log: EventLog,
        profiles: Profiles,
        loader: Loader,
        temporal: Callable[[], Awaitable[Client]],
        wake: Wake,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._event_log = log
        self._profiles = profiles
        self._loader = loader
        self._temporal = temporal
        self._wake = wake

    # ------------------------------------------------------------------------------------------------------------- reading

    async def get_profile(self, scope: Scope, *, space_id: str, version: int | None) -> ProfileView:
        facts = await self._directory.facts(scope, space_id)
        root = root_of(facts)
        if version is None:
            found: ProfileSnapshot | None = await self._profiles.read(scope, root)
        else:
            found = await self._profiles.read_version(scope, root, version)
        if found is None or not found.exists:
            return ProfileView("", False, 0, None, None, 0, 0, facts.space.max_tokens)
        document: Document = found.document
        return ProfileView(
            body=document.body,
            exists=True,
            version=found.version,
            etag=found.etag,
            last_updated=document.frontmatter.last_updated or found.modified_at,
            turn_count=document.frontmatter.turn_count,
            tokens=await self._loader.count(self._loader.counter(facts.space), document.body),
            max_tokens=facts.space.max_tokens,
            cause=found.cause,
        )

    async def history(self, scope: Scope, *, limit: int) -> tuple[ProfileVersion, ...]:
        root = root_of(await self._directory.facts(scope, "default"))
        return tuple(
            ProfileVersion(v.version, v.etag, v.modified_at, v.cause, v.size, v.is_latest, v.prompts)
            for v in await self._profiles.history(scope, root, limit=limit)
        )

    async def preview_profile(self, scope: Scope, document: str, *, space_id: str) -> ProfilePreview:
        facts = await self._directory.facts(scope, space_id)
        profile, removed = await asyncio.to_thread(_as_stored, document)
        body = await asyncio.to_thread(render_body, profile)
        return ProfilePreview(
            profile=profile,
            tokens=await self._loader.count(self._loader.counter(facts.space), body),
            max_tokens=facts.space.max_tokens,
            size=len(document.encode("utf-8")),
            removed=removed,
        )

    async def enablement(self, scope: Scope, *, space_id: str, allow_user_memory: bool, web_search: bool | None) -> Enablement:
        facts = await self._directory.facts(scope, space_id)
        return self._loader.rule(scope, facts, allow_user_memory=allow_user_memory, web_search=web_search)

    # ------------------------------------------------------------------------------------------------------------- writing

    async def edit_profile(self, scope: Scope, document: str, *, expected_etag: str | None, edit_id: str | None) -> EditResult:
        text = await asyncio.to_thread(_editable, document)
        root = root_of(await self._writable(scope))
        edit_id = _named(edit_id)
        candidate = await self._profiles.stage(scope, text, owner=edit_id)
        request = EditRequest(edit_id=edit_id, candidate=candidate, expected_etag=expected_etag)
        # Part of the id is what is asked for: an id that is used again for another text must not get the answer of the first.
        update_id = f"{edit_id}:{short_hash(candidate, expected_etag or '')}"
        reply = await self._update(scope, EDIT_UPDATE, request, update_id, "save")
        if reply.status is not WriteStatus.CONFLICT:
            return EditResult(reply.status, reply.version, reply.etag, reply.reason)
        theirs, reason = "", reply.reason
        try:
            theirs = (await self._profiles.read(scope, root)).document.body
        except UnreadableProfile as error:
            reason = error.message
        return EditResult(reply.status, reply.version, reply.etag, reason, yours=document, theirs=theirs)

    async def rollback(self, scope: Scope, to_version: int, *, expected_etag: str | None, edit_id: str | None) -> EditResult:
        if to_version < 1:
            raise InvalidInput(f"versions count from 1; there is no version {to_version}")
        root_of(await self._writable(scope))
        request = RollbackRequest(edit_id=_named(edit_id), to_version=to_version, expected_etag=expected_etag)
        update_id = f"{request.edit_id}:{short_hash(str(to_version), expected_etag or '')}"
        reply = await self._update(scope, ROLLBACK_UPDATE, request, update_id, "roll-back")
        return EditResult(reply.status, reply.version, reply.etag, reply.reason)

    async def _writable(self, scope: Scope) -> MemoryFacts:
        """Raises BeingForgotten."""
        facts = await self._directory.facts(scope, "default")
        if facts.forgetting:
            raise BeingForgotten
        return facts

    async def _update(self, scope: Scope, name: str, request: Payload, update_id: str, what: str) -> WriteReply:
        try:
            reply = await self._told(scope, name, request, update_id, what)
        except MemoryUnavailable:
            # The run may be one of those that an erasure has just stopped.
            await self._writable(scope)
            raise
        if reply.status is WriteStatus.FAILED and reply.reason == BeingForgotten.__name__:
            await self._writable(scope)
        return reply

    async def _told(self, scope: Scope, name: str, request: Payload, update_id: str, what: str) -> WriteReply:
        client = await self._temporal()
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            POST_ANSWER_WORKFLOW,
            PostAnswerInput(user=UserRef.of(scope)),
            id=scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=user_search_attributes(scope),
            static_summary="memory after the answer",
        )
        limit_s = self._settings.edit_timeout_s
        unsure = f"it may still be applied; read the profile again to see (its id is {update_id[:80]})"
        try:
            async with asyncio.timeout(limit_s):
                with temporal_errors(f"the {what} of a profile", address=address_of(client)):
                    return await client.execute_update_with_start_workflow(
                        name, request, start_workflow_operation=start, id=update_id, result_type=WriteReply
                    )
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
            raise MemoryUnavailable(f"the {what} was not confirmed within {limit_s:g} s: {unsure}") from None
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            kind = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
            raise MemoryUnavailable(f"the {what} failed and nothing was changed ({kind or 'unknown cause'})") from None

    # -------------------------------------------------------------------------------------------------------------- status

    async def status(self, scope: Scope, *, space_id: str) -> UserStatus:
        """Every part is asked for at once, and one that is away does not hide the others."""
        unavailable: dict[str, str] = {}

        async def part(name: str, work: Awaitable[T]) -> T | None:
            try:
                return await work
            except AfterturnError as error:
                unavailable[name] = error.message
                return None

        enablement, pending, recent, profile, run = await asyncio.gather(
            part("enablement", self.enablement(scope, space_id=space_id, allow_user_memory=True, web_search=None)),
            part("pending_turns", self._event_log.summaries(scope=scope, state="pending", limit=MAX_PENDING_COUNT)),
            part("recent", self._event_log.summaries(scope=scope, limit=RECENT_TURNS)),
            part("profile", self._current(scope)),
            part("workflow", self._run_and_stage(scope)),
        )
        last, stage = run or (None, None)
        return UserStatus(
            workflow_id=scope.post_answer_workflow_id,
            running=None if last is None else last.running,
            stage=stage,
            run_id=None if last is None else last.run_id,
            pending_turns=None if pending is None else len(pending),
            recent=tuple(recent or ()),
            profile_version=None if profile is None else profile.version,
            profile_etag=None if profile is None else profile.etag,
            enablement=enablement,
            unavailable=unavailable,
        )

    async def _current(self, scope: Scope) -> ProfileSnapshot:
        return await self._profiles.read(scope, root_of(await self._directory.facts(scope, "default")))

    async def _run(self, scope: Scope) -> _Run:
        """The user's last run, as the server knows it; no worker is needed."""
        client = await self._temporal()
        handle = client.get_workflow_handle(scope.post_answer_workflow_id)
        found = await ask(
            _unless_missing(handle.describe()), "the state of a workflow", within_s=STATUS_S, address=address_of(client)
        )
        if found is None:
            return _Run(running=False)
        noted = found.typed_search_attributes.get(SearchAttributeKey.for_keyword(SEARCH_STAGE))
        return _Run(running=found.status is WorkflowExecutionStatus.RUNNING, run_id=found.run_id, noted_stage=noted)

    async def _run_and_stage(self, scope: Scope) -> tuple[_Run, str | None]:
        """The stage is what the run itself says. Without a worker to ask, what it noted: only what is out of the ordinary."""
        run = await self._run(scope)
        if not run.running:
            return run, None
        client = await self._temporal()
        handle = client.get_workflow_handle(scope.post_answer_workflow_id, run_id=run.run_id)
        question = handle.query(STATUS_QUERY, result_type=RunStatus, rpc_timeout=timedelta(seconds=STAGE_S))
        try:
            return run, (await ask(question, "the stage of a run", within_s=STAGE_S)).stage
        except (AfterturnError, WorkflowQueryFailedError):
            # "done" is what was noted of an earlier batch.
            return run, None if run.noted_stage == "done" else run.noted_stage

    async def wait_until_idle(self, scope: Scope, *, timeout_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pause = FIRST_POLL_S
        while True:
            pending = await self._event_log.summaries(scope=scope, state="pending", limit=1)
            run = await self._run(scope)
            if not pending and not run.running:
                return True
            left = deadline - loop.time()
            if left <= 0:
                return False
            if run.running and run.run_id:
                await self._run_ends(scope, run.run_id, left)
            else:
                # Recorded, and nobody has been told yet: the sweeper will.
                await asyncio.sleep(min(pause, left))
                pause = min(pause * 2, LONGEST_POLL_S)

    async def _run_ends(self, scope: Scope, run_id: str, within_s: float) -> None:
        handle = (await self._temporal()).get_workflow_handle(scope.post_answer_workflow_id, run_id=run_id)
        try:
            async with asyncio.timeout(within_s):
                with temporal_errors("waiting for a workflow"):
                    await _unless_missing(handle.result())
        except (TimeoutError, WorkflowFailureError):
            return

    # --------------------------------------------------------------------------------------------------------------- rerun

    async def rerun(
        self,
        *,
        tenant: str | None,
        scope: Scope | None,
        turn_ids: Sequence[str] | None,
        outcomes: Collection[Outcome],
        limit: int,
    ) -> RerunResult:
        if turn_ids is not None and scope is not None:
            known = {stored.turn.turn_id for stored in await self._event_log.turns(scope, turn_ids)}
            if unknown := [turn_id for turn_id in turn_ids if turn_id not in known]:
                raise InvalidInput(
                    f"there is no turn {ascii(unknown[0])[:80]} of this user; `afterturn status` shows the last ones"
                )
        reopened = await self._event_log.reopen(tenant=tenant, scope=scope, turn_ids=turn_ids, outcomes=outcomes, limit=limit)
        by_user: dict[Scope, list[str]] = {}
        for turn in reopened:
            by_user.setdefault(turn.scope, []).append(turn.turn_id)
        started = waiting = 0
        deadline = asyncio.get_running_loop().time() + self._settings.edit_timeout_s
        users = list(by_user.items())
        for position in range(0, len(users), 50):
            some = users[position : position + 50]
            problems = await asyncio.gather(*(self._wake(user, ids, deadline) for user, ids in some))
            started += problems.count(None)
            waiting += len(problems) - problems.count(None)
        return RerunResult(tuple(reopened), started, waiting)


async def _unless_missing(work: Awaitable[T]) -> T | None:
    try:
        return await work
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
            return None
        raise


def _named(edit_id: str | None) -> str:
    """The caller's id in a form that Temporal takes, whatever is in it, or a new one. Raises InvalidInput."""
    return new_id() if edit_id is None else encode_segment(edit_id, what="edit id")


def _editable(document: str) -> str:
    """The text that is staged: without what no store may have. Raises InvalidInput."""
    text = redact(_checked(document)).text
    # Whoever deletes all of the text wants an empty memory, and an empty file is never stored.
    return text if text.strip() else render_body(EMPTY_PROFILE)


def _as_stored(document: str) -> tuple[Profile, Mapping[str, int]]:
    """The profile that a save of this text would store, and the secrets that it would take out. Raises InvalidInput."""
    redacted = redact(_checked(document))
    return parse_body(redacted.text), redacted.kinds


def _checked(document: str) -> str:
    """Without what is no text. Raises InvalidInput."""
    try:
        size = len(document.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the document is not valid Unicode at character {error.start}; nothing was changed") from None
    except AttributeError:
        raise InvalidInput(f"the document must be a string, not {type(document).__name__}") from None
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidInput(
            f"the document has {size} bytes of UTF-8; at most {MAX_DOCUMENT_BYTES} are accepted; nothing was changed"
        )
    return clean_text(document)
