"""What GraphQL gives back. Results that a client has to handle are types of their own, not errors."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated

import strawberry

from memory.model.enablement import Enablement
from starter.views import ProfileView


@strawberry.enum
class ContextMemoryState(Enum):
    READY = strawberry.enum_value("ready", description="there is a memory")
    EMPTY = strawberry.enum_value("empty", description="nothing has been learned about this user yet")
    UNAVAILABLE = strawberry.enum_value("unavailable", description="it cannot be read for the moment; `reason` says why")


@strawberry.type(description="What is remembered about the user, as Markdown with six sections; without frontmatter.")
class ContextMemory:
    state: ContextMemoryState
    document: str = strawberry.field(description="empty where there is none", default="")
    exists: bool = False
    version: int = strawberry.field(description="0 where there is none", default=0)
    etag: str | None = strawberry.field(description="a save names it as `expectedEtag`", default=None)
    tokens: int = strawberry.field(description="size of the document by the memory model's tokenizer", default=0)
    max_tokens: int = strawberry.field(description="the budget of the space", default=0)
    last_updated: datetime | None = None
    reason: str | None = strawberry.field(description="why it is unavailable, and what can be done", default=None)

    @classmethod
    def of(cls, view: ProfileView) -> ContextMemory:
        return cls(
            state=ContextMemoryState.READY if view.exists else ContextMemoryState.EMPTY,
            document=view.body,
            exists=view.exists,
            version=view.version,
            etag=view.etag,
            tokens=view.tokens,
            max_tokens=view.max_tokens,
            last_updated=view.last_updated,
        )


@strawberry.interface(description="What became of a save.")
class UpdateContextMemoryResult:
    message: str = strawberry.field(description="for the user")


@strawberry.type(description="The document is the memory now.")
class ContextMemorySaved(UpdateContextMemoryResult):
    version: int
    etag: str | None
    memory: ContextMemory | None = strawberry.field(
        description="as it is stored: in order, without secrets; null where it could not be read back"
    )


@strawberry.type(description="The memory already said this; nothing was written.")
class ContextMemoryUnchanged(UpdateContextMemoryResult):
    version: int
    etag: str | None


@strawberry.type(description="The memory changed since it was read. Nothing was overwritten: merge both and save with this `etag`.")
class ContextMemoryConflict(UpdateContextMemoryResult):
    yours: str = strawberry.field(description="the document that was not saved")
    theirs: str = strawberry.field(description="the document that is stored")
    version: int
    etag: str | None = strawberry.field(description="of what is stored; null where it was deleted")


@strawberry.type(description="Nothing was changed.")
class ContextMemoryTooLarge(UpdateContextMemoryResult):
    bytes: int = strawberry.field(description="of the document as UTF-8")
    max_bytes: int


@strawberry.type(description="The document cannot be stored; nothing was changed.")
class ContextMemoryRefused(UpdateContextMemoryResult):
    pass


@strawberry.type(description="A store is away. The message says whether the save may still be applied.")
class ContextMemoryUnavailable(UpdateContextMemoryResult):
    pass


RESULTS = (
    ContextMemorySaved,
    ContextMemoryUnchanged,
    ContextMemoryConflict,
    ContextMemoryTooLarge,
    ContextMemoryRefused,
    ContextMemoryUnavailable,
)


@strawberry.type(description="The user's own choice, for all spaces. Opting out deletes nothing.")
class ContextMemoryPreference:
    allow_user_memory: bool


@strawberry.type
class EnablementReason:
    code: str
    message: str
    remedy: str = strawberry.field(description="who can do what about it")


@strawberry.type(description="Whether memory is on for the user in a space, for a caller that allows it.")
class ContextMemoryEnablement:
    active: bool
    reasons: list[EnablementReason] = strawberry.field(description="every reason why it is off; empty where it is on")

    @classmethod
    def of(cls, found: Enablement) -> ContextMemoryEnablement:
        reasons = [EnablementReason(code=one.code.value, message=one.message, remedy=one.remedy) for one in found.reasons]
        return cls(active=found.active, reasons=reasons)


Document = Annotated[str, strawberry.argument(description="Markdown, at most 1 MiB of UTF-8; frontmatter in it is ignored")]
ExpectedEtag = Annotated[str | None, strawberry.argument(description="`etag` of the memory that was edited; null: there was none")]
EditId = Annotated[str | None, strawberry.argument(description="makes a repeated call with the same document the same save")]
Space = Annotated[str, strawberry.argument(description="whose settings count")]
WebSearch = Annotated[bool | None, strawberry.argument(description="whether the turn searches the web; null: as the space says")]
Allow = Annotated[bool, strawberry.argument(description="false: memory is neither used nor updated, in any space")]
