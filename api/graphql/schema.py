"""Queries and mutations. Whose memory it is comes from the token, never from an argument."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

import strawberry
from graphql import GraphQLError
from strawberry.extensions import MaxTokensLimiter
from strawberry.types import ExecutionContext

from api.auth.access import Acting
from api.context import ApiContext
from api.graphql.bounds import MAX_TOKENS, Bounds
from api.graphql.types import (
    RESULTS,
    Allow,
    ContextMemory,
    ContextMemoryConflict,
    ContextMemoryEnablement,
    ContextMemoryPreference,
    ContextMemoryRefused,
    ContextMemorySaved,
    ContextMemoryState,
    ContextMemoryTooLarge,
    ContextMemoryUnavailable,
    ContextMemoryUnchanged,
    Document,
    EditId,
    ExpectedEtag,
    Space,
    UpdateContextMemoryResult,
    WebSearch,
)
from memory.model.access import Permission
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable, NotPermitted, RootClash, UnreadableProfile
from memory.model.steps import WriteStatus
from starter.faults import fault
from starter.handles import MAX_DOCUMENT_BYTES
from starter.views import EditResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """The context of one operation."""

    api: ApiContext
    acting: Acting

    def check(self, permission: Permission) -> None:
        """Raises NotPermitted. That the caller may read was checked before."""
        if permission not in self.acting.principal.permissions:
            raise NotPermitted(f"this token may not {permission}")


Info = strawberry.Info[Asked, None]


@strawberry.type
class Query:
    @strawberry.field(description="The memory of the authenticated user. Reading creates nothing.")
    async def get_my_context_memory(self, info: Info, space: Space = "default") -> ContextMemory:
        asked = info.context
        try:
            return ContextMemory.of(await asked.api.memory.get_profile(asked.acting.scope, space_id=space))
        except UnreadableProfile as error:
            return _unavailable(error, exists=True, version=error.version, etag=error.etag)
        except (MemoryUnavailable, RootClash) as error:
            return _unavailable(error)

    @strawberry.field(description="Whether the authenticated user allows memory.")
    async def my_context_memory_preference(self, info: Info) -> ContextMemoryPreference:
        facts = await info.context.api.directory.facts(info.context.acting.scope, "default")
        return ContextMemoryPreference(allow_user_memory=facts.user_allows)

    @strawberry.field(description="Whether memory is on, and every reason why not.")
    async def context_memory_enablement(
        self, info: Info, space: Space = "default", web_search: WebSearch = None
    ) -> ContextMemoryEnablement:
        asked = info.context
        return ContextMemoryEnablement.of(
            await asked.api.memory.enablement(asked.acting.scope, space_id=space, web_search=web_search)
        )


@strawberry.type
class Mutation:
    @strawberry.mutation(description="Save the memory of the authenticated user. It waits for a rewrite in progress.")
    async def update_my_context_memory(
        self, info: Info, document: Document, expected_etag: ExpectedEtag = None, edit_id: EditId = None
    ) -> UpdateContextMemoryResult:
        asked = info.context
        asked.check(Permission.WRITE)
        size = len(document.encode("utf-8", "surrogatepass"))
        if size > MAX_DOCUMENT_BYTES:
            message = f"The document has {size} bytes; at most {MAX_DOCUMENT_BYTES} are accepted. Nothing was changed."
            return ContextMemoryTooLarge(message=message, bytes=size, max_bytes=MAX_DOCUMENT_BYTES)
        try:
            result = await asked.api.memory.edit_profile(asked.acting.scope, document, expected_etag=expected_etag, edit_id=edit_id)
        except (MemoryUnavailable, RootClash) as error:
            return ContextMemoryUnavailable(message=error.message)
        except (InvalidInput, NotPermitted) as error:
            return ContextMemoryRefused(message=error.message)
        return await _became(asked, result, document)

    @strawberry.mutation(description="The authenticated user's choice, for all spaces. Opting out deletes nothing.")
    async def set_my_context_memory_preference(self, info: Info, allow_user_memory: Allow) -> ContextMemoryPreference:
        asked = info.context
        asked.check(Permission.WRITE)
        await asked.api.memory.set_preference(asked.acting.scope, allow_user_memory=allow_user_memory)
        return ContextMemoryPreference(allow_user_memory=allow_user_memory)


def _unavailable(error: AfterturnError, **known: Any) -> ContextMemory:
    return ContextMemory(state=ContextMemoryState.UNAVAILABLE, reason=error.message, **known)


async def _became(asked: Asked, result: EditResult, document: str) -> UpdateContextMemoryResult:
    version, etag = result.version or 0, result.etag
    match result.status:
        case WriteStatus.SAVED:
            return ContextMemorySaved(message="Saved.", version=version, etag=etag, memory=await _stored(asked, etag))
        case WriteStatus.UNCHANGED:
            return ContextMemoryUnchanged(message="Nothing has changed.", version=version, etag=etag)
        case WriteStatus.CONFLICT:
            message = "The memory changed since it was read. Nothing was overwritten."
            yours = document if result.yours is None else result.yours
            return ContextMemoryConflict(message=message, yours=yours, theirs=result.theirs or "", version=version, etag=etag)
        case _:
            reason = result.reason or result.status.value
            return ContextMemoryUnavailable(message=f"The save did not succeed and nothing was changed ({reason}).")


async def _stored(asked: Asked, etag: str | None) -> ContextMemory | None:
    """What was saved, in the form in which it is stored; None where that is away, or another version by now."""
    try:
        view = await asked.api.memory.get_profile(asked.acting.scope)
    except AfterturnError:
        return None
    return ContextMemory.of(view) if view.etag == etag else None


class _Schema(strawberry.Schema):
    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Into the log goes what is a fault of this program, and no text of a user: not what a client did wrong."""
        for error in errors:
            original = error.original_error
            if original is not None and not isinstance(original, AfterturnError | GraphQLError):
                _log.error("a GraphQL field failed: %s", fault(original))


schema: Final = _Schema(Query, Mutation, types=RESULTS, extensions=[lambda: MaxTokensLimiter(MAX_TOKENS), Bounds])
"""Introspection is on: the schema is public, asking for it needs a token and is bounded like all else."""
