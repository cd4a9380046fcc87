"""Bases of all bodies."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from api.openapi import with_nulls
from api.routing import ItemId

ItemT = TypeVar("ItemT")


def example(*values: dict[str, Any]) -> ConfigDict:
    """For a ``model_config``: what such a body looks like, in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [with_nulls(value) for value in values]})


class Given(BaseModel):
    """What a caller sends."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Shown(BaseModel):
    """What a caller is told."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class Page(Shown, Generic[ItemT]):
    """A part of a list."""

    items: list[ItemT]
    next: str | None = Field(description="`cursor` of the next part; null: this was the last one")


class Forgotten(Shown):
    """How many there were; what was not there (any more) does not count."""

    forgotten: int = Field(examples=[1])


class IdsGiven(Given):
    ids: Annotated[list[ItemId], Field(min_length=1, max_length=1_000, examples=[["f-2c26b46b68ffc68f"]])]
    team: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="of this team of the user's; without it, the user's own"
    )
