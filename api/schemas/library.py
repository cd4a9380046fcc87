"""How-to (guidance) and functions (stored, never run)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.schemas.base import Given, Page, Shown, example
from api.schemas.records import TeamGiven, team_of
from memory.model.library import FunctionRecord, Guidance
from starter.record_library import MAX_GUIDANCE_CHARS, MAX_TAGS, MAX_TITLE_CHARS


class GuidanceGiven(Given):
    """A how-to. The same title again replaces its content. Secrets in it are redacted."""

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)]
    content: Annotated[str, Field(min_length=1, max_length=MAX_GUIDANCE_CHARS)]
    tags: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(default_factory=list[str], max_length=MAX_TAGS)
    team: TeamGiven = None

    model_config = example({"title": "Book a room", "content": "First open the calendar, then choose a room.", "tags": ["office"]})


class GuidanceView(Shown):
    guidance_id: str = Field(examples=["g-2c26b46b68ffc68f"])
    team: str | None = Field(description="the team that owns it; null: the user")
    title: str
    content: str
    tags: list[str]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, entry: Guidance) -> GuidanceView:
        return cls(**entry.model_dump(exclude={"owner", "tags"}), team=team_of(entry.owner), tags=list(entry.tags))


class GuidancePage(Page[GuidanceView]):
    """Entries, newest first."""


class FoundGuidance(Shown):
    guidance: GuidanceView
    score: float = Field(description="only for comparing within one answer")


class FoundGuidances(Shown):
    """Best first."""

    items: list[FoundGuidance]


class FunctionGiven(Given):
    """A function. The same name again replaces it. It is stored and found, never run here."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
    source: Annotated[str, Field(min_length=1, max_length=256 * 1024, description="kept as it is")]
    docstring: Annotated[str, Field(max_length=16 * 1024, description="what it does; this is what a search finds")] = ""
    dependencies: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list[str], max_length=100, description="names of other functions that it calls"
    )
    team: TeamGiven = None

    model_config = example(
        {"name": "net_price", "docstring": "The price without VAT.", "source": "def net_price(gross):\n    return gross / 1.19\n"}
    )


class FunctionView(Shown):
    function_id: str = Field(examples=["fn-2c26b46b68ffc68f"])
    team: str | None = Field(description="the team that owns it; null: the user")
    name: str
    docstring: str
    source: str
    dependencies: list[str]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, entry: FunctionRecord) -> FunctionView:
        told = entry.model_dump(exclude={"owner", "dependencies"})
        return cls(**told, team=team_of(entry.owner), dependencies=list(entry.dependencies))


class FunctionPage(Page[FunctionView]):
    """Functions, newest first."""


class FoundFunction(Shown):
    function: FunctionView
    score: float = Field(description="only for comparing within one answer")


class FoundFunctions(Shown):
    """Best first."""

    items: list[FoundFunction]
