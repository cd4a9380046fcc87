"""How far the rows of tables are from what is asked for: by their vectors, or by words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from memory.knowledge.ranking import Place, by_words
from memory.model.embedded import Embedding, embedding_of
from memory.model.errors import FolderInUse, MemoryUnavailable, ModelError
from memory.model.knowledge import Table, ToolProblem
from memory.ports import Embedder
from memory.retrieval.tables import MAX_NEAREST, TableVectors

SEARCH_BUDGET_S: Final = 20.0
"""For embedding rows that are behind, in one search; the rest waits for the next one."""
QUERY_TIMEOUT_S: Final = 10.0
MIN_DEPTH: Final = 300
MAX_BY_WORDS: Final = 20_000
"""Rows of a table, the newest, that are compared by words."""
AWAY: Final = (MemoryUnavailable, ModelError, FolderInUse, TimeoutError)

_log = structlog.get_logger("afterturn.knowledge")


class Distances:
    """For one process."""

    def __init__(self, vectors: TableVectors) -> None:
        self._vectors = vectors

    async def of(
        self,
        tables: Sequence[Table],
        references: Mapping[str, str],
        *,
        k: int,
        places: Sequence[Place] | None = None,
        most: int | None = None,
    ) -> list[dict[Place, float]]:
        """For each reference the distances of rows that have something to compare; those near to any reference have all of them.

        Args:
            places: of these rows only, and of all of them; None: of the nearest.
            most: so many of the nearest, where some will be taken out; None: as ``k`` needs.

        Raises ToolProblem for a reference that none of the tables has the columns for.
        """
        plans = [(_plan(tables, reference), text) for reference, text in references.items()]
        keys = None if places is None else {n: [key for place, key in places if place == n] for n in range(len(tables))}
        embedder = self._vectors.embedder
        if embedder is not None and plans:
            try:
                depth = min(MAX_NEAREST, most or max(MIN_DEPTH, 2 * k))
                return await self._by_meaning(embedder, plans, keys, depth)
            except AWAY as error:
                _log.warning("search_by_words", error=type(error).__name__)
        found = [await self._by_words(plan, text, keys) for plan, text in plans]
        return found if most is None else [dict(sorted(near.items(), key=lambda one: one[1])[:most]) for near in found]

    async def _by_meaning(
        self,
        embedder: Embedder,
        plans: Sequence[tuple[Mapping[int, Embedding], str]],
        keys: Mapping[int, Sequence[int]] | None,
        depth: int,
    ) -> list[dict[Place, float]]:
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            asked = [await embedder.query(text) for _, text in plans]
        until = asyncio.get_running_loop().time() + SEARCH_BUDGET_S
        found: list[dict[Place, float]] = []
        for (plan, text), vector in zip(plans, asked, strict=True):
            near: dict[Place, float] = {}
            for number, what in plan.items():
                left = max(0.0, until - asyncio.get_running_loop().time())
                only = None if keys is None else keys[number]
                brought = await self._vectors.bring(what, budget_s=left, keys=only, like=text)
                if brought.left:
                    _log.info("rows_wait_for_embedding", rows=brought.left)
                nearest = await self._vectors.nearest(what, vector, limit=depth, keys=only)
                near |= {(number, key): distance for key, distance in nearest.items()}
            found.append(near)
        if keys is None and len(plans) > 1:
            await self._complete(plans, asked, found)
        return found

    async def _complete(
        self,
        plans: Sequence[tuple[Mapping[int, Embedding], str]],
        asked: Sequence[tuple[float, ...]],
        found: Sequence[dict[Place, float]],
    ) -> None:
        """What is near to one reference is looked up for the others, exactly."""
        everything = {place for near in found for place in near}
        for (plan, _), vector, near in zip(plans, asked, found, strict=True):
            for number, what in plan.items():
                missing = [key for place, key in everything if place == number and (place, key) not in near]
                if missing:
                    more = await self._vectors.nearest(what, vector, limit=len(missing), keys=missing)
                    near |= {(number, key): distance for key, distance in more.items()}

    async def _by_words(
        self, plan: Mapping[int, Embedding], text: str, keys: Mapping[int, Sequence[int]] | None
    ) -> dict[Place, float]:
        found: dict[Place, float] = {}
        for number, what in plan.items():
            only = None if keys is None else keys[number]
            rows = await self._vectors.embeddings.texts(what, only, limit=MAX_BY_WORDS)
            texts = {key: one.text for key, one in rows.items() if one.text is not None}
            near = await asyncio.to_thread(by_words, text, texts)
            found |= {(number, key): distance for key, distance in near.items()}
        return found


def _plan(tables: Sequence[Table], reference: str) -> dict[int, Embedding]:
    """What is compared of each table that the reference goes with. Raises ToolProblem where there is none."""
    plan: dict[int, Embedding] = {}
    problem: ToolProblem | None = None
    for number, table in enumerate(tables):
        try:
            plan[number] = embedding_of(table, reference)
        except ToolProblem as error:
            # Of another owner's table, perhaps, in which a column of that name is something else.
            if problem is None or problem.code == "unknown_column":
                problem = error
    if not plan and problem is not None:
        raise problem
    return plan
