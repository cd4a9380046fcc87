"""Searching facts. The rows are the truth: what the index names is read again, within the user's view, and checked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from memory.model.errors import FolderInUse, InvalidInput, MemoryUnavailable, ModelError, StoreUnavailable
from memory.model.fact import Fact, FactKind, FactStatus
from memory.model.owner import Owner, View
from memory.ports import FactStore, Filter
from memory.retrieval.documents import MAX_WAITING, Documents, point_id, rank

ACTIVE: Final = (FactStatus.ACTIVE,)
MAX_LIMIT: Final = 200
MAX_RANKED: Final = 2_000
"""Facts that are ranked in memory, for a look into the past or while the vectors are away."""

_log = structlog.get_logger("afterturn.retrieval")


@dataclass(frozen=True, slots=True)
class FoundFact:
    """``score``: only for comparing within one answer. ``why``: ``hybrid``, ``lexical`` (no embedder), ``lexical, embedder
    away`` (it failed), ``rows`` (ranked in memory)."""

    fact: Fact = field(repr=False)
    score: float
    why: str


class FactSearch:
    def __init__(self, facts: FactStore, documents: Documents) -> None:
        self._facts = facts
        self._documents = documents
        self.rows_when_in_use = False
        """For a worker beside the process that holds the embedded engine: its steps go on, by words of the rows."""

    async def search(
        self,
        view: View,
        query: str,
        *,
        limit: int = 10,
        kinds: Collection[FactKind] | None = None,
        statuses: Collection[FactStatus] = ACTIVE,
        as_of: datetime | None = None,
        sources: bool = False,
    ) -> Sequence[FoundFact]:
        """Facts that fit, best first.

        A fact that was written a moment ago is found: what waits for the index is compared in memory. While the vectors are
        away the rows are ranked by their words.

        Args:
            view: whose facts.
            query: any text; the first 20,000 characters count.
            limit: 1 to 200.
            kinds: of these kinds only.
            statuses: active ones by default; others are ranked in memory.
            as_of: those that held at that time.
            sources: with where they come from.

        Raises:
            InvalidInput: a limit out of bounds.
            StoreUnavailable: the database is away.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidInput(f"the limit must be 1 to {MAX_LIMIT}, not {limit}")
        if as_of is not None or tuple(statuses) != ACTIVE:
            return await self._ranked(view, query, limit, kinds, statuses, as_of, sources)
        try:
            return await self._hybrid(view, query, limit, kinds, sources)
        except (StoreUnavailable, FolderInUse) as error:
            if isinstance(error, FolderInUse) and not self.rows_when_in_use:
                raise
            _log.warning("search_without_vectors", tenant=view.scope.tenant, error=error.message)
            return await self._ranked(view, query, limit, kinds, statuses, None, sources)

    async def settle(self, view: View) -> None:
        """Bring the rows of this view that wait for the index into it, as far as that can be done now.

        Whoever decides by what a search gives calls this first: the rarity of a term, and with it the order of what is found,
        is then that of the rows, and the same decision is taken again however far the index was when a worker died.
        """
        for owner in view.owners:
            try:
                await self._documents.sync(self._facts, owner=owner, limit=MAX_WAITING)
            except (MemoryUnavailable, ModelError, FolderInUse) as error:
                if isinstance(error, FolderInUse) and not self.rows_when_in_use:
                    raise
                # The search itself says how it goes on without.
                _log.info("facts_not_settled", tenant=view.scope.tenant, error=type(error).__name__)
                return

    async def _hybrid(
        self, view: View, query: str, limit: int, kinds: Collection[FactKind] | None, sources: bool
    ) -> Sequence[FoundFact]:
        where = Filter(any_of={"kind": sorted(kind.value for kind in kinds)}) if kinds is not None else None
        found = await self._documents.search(view, self._facts.kind, query, limit=limit, where=where, source=self._facts)
        facts = await self._facts.get(view, [one.document_id for one in found.found], sources=sources)
        why = "hybrid" if found.dense else "lexical" if self._documents.embedder is None else "lexical, embedder away"
        answers: list[FoundFact] = []
        for one in found.found:
            fact = facts.get(one.document_id)
            if fact is not None and fact.status is FactStatus.ACTIVE and (kinds is None or fact.kind in kinds):
                answers.append(FoundFact(fact, one.score, why))
        return answers[:limit]

    async def _ranked(
        self,
        view: View,
        query: str,
        limit: int,
        kinds: Collection[FactKind] | None,
        statuses: Collection[FactStatus],
        as_of: datetime | None,
        sources: bool,
    ) -> Sequence[FoundFact]:
        rows = await self._facts.list(view, statuses=statuses, kinds=kinds, as_of=as_of, limit=MAX_RANKED)
        texts = [_text(fact) for fact in rows]
        names = [self._name(view, fact) for fact in rows]
        ranked = (await asyncio.to_thread(rank, query, texts, names))[:limit]
        chosen = [(rows[place], score) for place, score in ranked]
        if sources:
            full = await self._facts.get(view, [fact.fact_id for fact, _ in chosen], sources=True)
            chosen = [(full.get(fact.fact_id, fact), score) for fact, score in chosen]
        return [FoundFact(fact, score, "rows") for fact, score in chosen]

    def _name(self, view: View, fact: Fact) -> str:
        return point_id(Owner.of_key(view.scope.tenant, fact.owner), self._facts.kind, fact.fact_id)


def _text(fact: Fact) -> str:
    """What the index has of it: words find the same facts in the same order, with vectors and without."""
    return "\n".join(part for part in (fact.subject, fact.statement, " ".join(fact.topics)) if part)
