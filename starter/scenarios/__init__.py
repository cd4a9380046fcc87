"""Ready tables to try knowledge on, with questions and what their answers say. All of it is invented."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from memory.model.errors import InvalidInput
from memory.model.knowledge import CreateTable
from starter.knowledge import Knowledge
from starter.who import Who

SCENARIOS: Final = ("electric-vehicles", "papers")


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScenarioTable(_Shape):
    name: str
    description: str
    unique_key_name: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


class Question(_Shape):
    """``contains``: what a right answer says."""

    text: str
    contains: Sequence[str]


class Scenario(_Shape):
    """``updates`` and ``refactor``: requests with the state that they are to lead to, for trying and for tests."""

    name: str
    title: str
    about: str
    tables: Sequence[ScenarioTable]
    questions: Sequence[Question]
    updates: Sequence[Mapping[str, Any]]
    refactor: Mapping[str, Any]


def load_scenario(name: str) -> Scenario:
    """Raises InvalidInput for a name that there is not."""
    if name not in SCENARIOS:
        raise InvalidInput(f"there is no scenario {ascii(name)[:40]}; there are {', '.join(SCENARIOS)}")
    return Scenario.model_validate(json.loads((files(__name__) / f"{name}.json").read_text("utf-8")))


async def install(knowledge: Knowledge, who: Who, scenario: Scenario) -> int:
    """Make the scenario's tables for a user; those that are there already stay as they are. Returns how many were made."""
    there = {table.name for table in await knowledge.tables(who)}
    made = 0
    for table in (ScenarioTable.model_validate(scenario.refactor["table"]), *scenario.tables):
        if table.name in there:
            continue
        create = CreateTable(table.name, table.description, table.columns, table.unique_key_name)
        await knowledge.import_rows(who, table.name, table.rows, create=create)
        made += 1
    return made
