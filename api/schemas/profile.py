"""The profile, its versions, what became of a save."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.routing import MAX_NUMBER
from api.schemas.base import Given, Page, Shown, example
from memory.model.steps import WriteStatus
from starter.views import ProfileVersion, ProfileView


class ProfileShown(Shown):
    """A user's profile. Without one `exists` is false, `version` 0 and `etag` null."""

    body: str = Field(description="Markdown, without frontmatter")
    exists: bool
    version: int
    etag: str | None = Field(description="for `If-Match`; also in the header `ETag`")
    last_updated: datetime | None
    turn_count: int = Field(description="rewrites by the pipeline that changed it")
    tokens: int = Field(description="size of `body` by the memory model's tokenizer")
    max_tokens: int = Field(description="the budget of the space that was asked for")
    cause: str | None = Field(description="what wrote this version: `turns`, `edit`, `rollback`")

    model_config = example(
        {
            "body": "# User Memory\n\n## Identity\n- Lives in Berlin.\n…",
            "exists": True,
            "version": 7,
            "etag": "9b2cf535f27731c974343645a3985328",
            "last_updated": "2026-06-17T12:00:00Z",
            "turn_count": 6,
            "tokens": 212,
            "max_tokens": 2000,
            "cause": "turns",
        }
    )

    @classmethod
    def of(cls, view: ProfileView) -> ProfileShown:
        return cls(
            body=view.body,
            exists=view.exists,
            version=view.version,
            etag=view.etag,
            last_updated=view.last_updated,
            turn_count=view.turn_count,
            tokens=view.tokens,
            max_tokens=view.max_tokens,
            cause=view.cause,
        )


class ProfileGiven(Given):
    """The body as a whole. Frontmatter in it is ignored; a blank one empties the memory."""

    document: str = Field(
        description="at most 1 MiB of UTF-8", examples=["# User Memory\n\n## Identity\n- Lives in Berlin.\n"], repr=False
    )


class Saved(Shown):
    """`version` and `etag` are those of the profile as it is now."""

    status: WriteStatus = Field(description="`saved`, or `unchanged`: it was that already")
    version: int | None
    etag: str | None

    model_config = example({"status": "saved", "version": 8, "etag": "0a4d55a8d778e5022fab701977c5d840"})


class Version(Shown):
    """One line of the history."""

    version: int
    etag: str
    written_at: datetime
    cause: str | None = Field(examples=["turns"])
    size: int = Field(description="bytes of the stored file")
    is_latest: bool

    @classmethod
    def of(cls, found: ProfileVersion) -> Version:
        return cls(
            version=found.version,
            etag=found.etag,
            written_at=found.written_at,
            cause=found.cause,
            size=found.size,
            is_latest=found.is_latest,
        )


class VersionPage(Page[Version]):
    """Versions, newest first."""


class RollbackGiven(Given):
    to_version: Annotated[int, Field(ge=1, le=MAX_NUMBER, description="as in the list of versions", examples=[3])]
