"""What is kept apart from facts: procedural how-to (guidance) and reusable functions (stored, never executed here)."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Guidance(BaseModel):
    """A how-to. ``owner``: as in :class:`memory.model.fact.Fact`."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    guidance_id: str
    owner: str
    title: str = Field(min_length=1, max_length=200, repr=False)
    content: str = Field(min_length=1, max_length=64 * 1024, repr=False)
    tags: tuple[str, ...] = ()
    created_at: AwareDatetime
    updated_at: AwareDatetime


class FunctionRecord(BaseModel):
    """A compositional function: ``name`` is unique per owner, ``dependencies`` are names of other functions."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    function_id: str
    owner: str
    name: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")
    docstring: str = Field(default="", max_length=16 * 1024, repr=False)
    source: str = Field(min_length=1, max_length=256 * 1024, repr=False)
    dependencies: tuple[str, ...] = ()
    created_at: AwareDatetime
    updated_at: AwareDatetime
