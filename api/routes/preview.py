"""What a text would be as a memory, and what differs between versions: what an editor shows before and after a save."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from api.auth.access import Reader
from api.context import Context
from api.differences import Differences, differences
from api.markdown import render_profile
from api.problems import NotFound
from api.routing import make_router
from memory.model.profile import parse_body, render_body
from starter.views import ProfileView

router = make_router("profile")

_DOCUMENT = "## Identity\n- Anna, product manager in Vienna\n"


class PreviewRequest(BaseModel):
    document: str = Field(description="Markdown, as it would be saved", examples=[_DOCUMENT])


class PreviewSection(BaseModel):
    title: str = Field(examples=["Identity"])
    html: str = Field(
        description="safe to show: sanitized, without script, pictures and style; empty for an empty section",
        examples=["<ul><li>Anna, product manager in Vienna</li></ul>"],
    )
    lines: int = Field(description="bullets and sub-bullets in it", examples=[1])


class Preview(BaseModel):
    """What a save of the text would store."""

    sections: list[PreviewSection] = Field(description="always all six, in their order")
    complete: bool = Field(description="false where only the beginning of a very long text is shown")
    tokens: int = Field(description="size by the memory model's tokenizer", examples=[34])
    max_tokens: int = Field(description="the budget", examples=[2000])
    over_budget: bool = Field(description="the memory will be shortened when it is used")
    size: int = Field(description="bytes of UTF-8 of the text that was sent", examples=[47])
    removed: dict[str, int] = Field(description="secrets that a save takes out, by kind", examples=[{"password": 1}])


@router.post("/memory/preview", summary="Show a text as a memory")
async def preview_memory(acting: Reader, context: Context, request: PreviewRequest) -> Preview:
    """Nothing is stored. Text that fits no section is shown where a save would put it."""
    found = await context.memory.preview_profile(acting.scope, request.document)
    shown = await asyncio.to_thread(render_profile, found.profile)
    return Preview(
        sections=[PreviewSection(title=one.title, html=one.html, lines=one.lines) for one in shown.sections],
        complete=shown.complete,
        tokens=found.tokens,
        max_tokens=found.max_tokens,
        over_budget=found.tokens > found.max_tokens,
        size=found.size,
        removed=dict(found.removed),
    )


class DifferencePiece(BaseModel):
    text: str = Field(examples=["Vienna"])
    marked: bool = Field(description="this part of the line is not in the other version")


class DifferenceRow(BaseModel):
    """A line of both versions side by side. Equal lines far from a change are a ``gap`` of ``lines`` lines."""

    kind: Literal["same", "removed", "added", "changed", "gap"]
    before: list[DifferencePiece] | None = None
    after: list[DifferencePiece] | None = None
    lines: int = 1


class DifferencesFound(BaseModel):
    """``from_version`` and ``to_version``: what was compared; null for a text that is not stored."""

    from_version: int | None = Field(examples=[3])
    to_version: int | None = Field(examples=[5])
    etag: str | None = Field(description="of the newest version, where that was compared", default=None)
    rows: list[DifferenceRow]
    removed: int = Field(description="lines that are only in the first; a changed line counts here too", examples=[1])
    added: int = Field(description="lines that are only in the second; a changed line counts here too", examples=[2])
    coarse: bool = Field(description="the texts are too long to be compared line by line: all is told as replaced")
    complete: bool = Field(description="false where only the first rows are given")


class CompareRequest(BaseModel):
    document: str = Field(description="Markdown that is not stored, for instance a save that met a conflict", examples=[_DOCUMENT])


@router.get("/profile/differences", summary="Compare two versions of the profile")
async def profile_differences(
    acting: Reader,
    context: Context,
    from_: Annotated[int, Query(alias="from", ge=1, le=10**9, description="a version of the history", examples=[3])],
    to: Annotated[int | None, Query(ge=1, le=10**9, description="another; default: the newest", examples=[5])] = None,
) -> DifferencesFound:
    """Line by line and, within lines, word by word. 404 where there is no such version (any more)."""
    before, after = await asyncio.gather(
        context.memory.get_profile(acting.scope, version=from_), context.memory.get_profile(acting.scope, version=to)
    )
    for view, version in ((before, from_), (after, to)):
        if not view.exists and version is not None:
            raise NotFound(f"there is no version {version} of this profile")
    found = await asyncio.to_thread(differences, before.body, after.body)
    return _told(found, from_version=from_, to_version=after.version, etag=after.etag if to is None else None)


@router.post("/profile/differences", summary="Compare a text with the profile")
async def compare_with_profile(acting: Reader, context: Context, request: CompareRequest) -> DifferencesFound:
    """From the newest version to a text that is not stored, both in the form in which profiles are stored."""
    preview, stored = await asyncio.gather(
        context.memory.preview_profile(acting.scope, request.document), context.memory.get_profile(acting.scope)
    )

    def compare(view: ProfileView) -> Differences:
        return differences(render_body(parse_body(view.body, is_stored=True)), render_body(preview.profile))

    found = await asyncio.to_thread(compare, stored)
    return _told(found, from_version=stored.version, to_version=None, etag=stored.etag)


def _told(found: Differences, *, from_version: int | None, to_version: int | None, etag: str | None) -> DifferencesFound:
    return DifferencesFound(
        from_version=from_version,
        to_version=to_version,
        etag=etag,
        rows=[DifferenceRow.model_validate(asdict(row)) for row in found.rows],
        removed=found.removed,
        added=found.added,
        coarse=found.coarse,
        complete=found.complete,
    )
