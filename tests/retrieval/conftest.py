"""The search index on real stores: SQLite and the embedded vector engine, with an embedder that needs no model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.model.errors import StoreUnavailable
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import AddFact, CreateContact, Embedder
from memory.retrieval import FoundEvent, FoundFact, SearchIndex
from memory.stores.tables import Tables, build_tables
from memory.stores.vectors.edge import EdgeVectors
from tests.support.records import ANN, NOW, add


class ToyEmbedder:
    """Vectors of a text's letters in groups of three. ``away``: every call fails. ``texts``: what was embedded as a passage."""

    def __init__(self, name: str = "toy", dimension: int = 32) -> None:
        self.name, self.dimension, self.weight = name, dimension, 2.0
        self.away = False
        self.texts: list[str] = []

    async def query(self, text: str) -> tuple[float, ...]:
        self._check()
        return self._vector(text)

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        self._check()
        self.texts += texts
        return [self._vector(text) for text in texts]

    async def aclose(self) -> None:
        """Nothing is open."""

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("the embedder is away")

    def _vector(self, text: str) -> tuple[float, ...]:
        values = [0.001] * self.dimension
        small = f"  {text.lower()} "
        for place in range(len(small) - 2):
            values[hashlib.blake2b(small[place : place + 3].encode("utf-8", "replace")).digest()[0] % self.dimension] += 1.0
        length = math.sqrt(math.fsum(value * value for value in values))
        return tuple(value / length for value in values)


@dataclass
class World:
    """Stores, index and short ways to fill and ask them."""

    tables: Tables
    vectors: EdgeVectors
    embedder: ToyEmbedder | None
    index: SearchIndex = field(init=False)
    recorded: dict[Scope, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = self.another(self.embedder)

    def another(self, embedder: Embedder | None) -> SearchIndex:
        """A second process's view of the same stores."""
        return SearchIndex(
            vectors=self.vectors,
            embedder=embedder,
            terms=self.tables.terms,
            ledger=self.tables.windows,
            facts=self.tables.facts,
            contacts=self.tables.contacts,
            guidance=self.tables.guidance,
            functions=self.tables.functions,
        )

    # ---------------------------------------------------------------------------------------------------------------- facts

    async def add_fact(self, fact_id: str, statement: str, *, owner: Owner | None = None, **fields: Any) -> None:
        owner = owner or Owner.user(ANN)
        change: AddFact = add(fact_id, owner=owner, statement=statement, **fields)
        await self.tables.facts.apply(owner, [change], now=NOW)

    async def find_facts(self, query: str, *, view: View | None = None, **asked: Any) -> list[str]:
        return [found.fact.fact_id for found in await self.facts(query, view=view, **asked)]

    async def facts(self, query: str, *, view: View | None = None, **asked: Any) -> Sequence[FoundFact]:
        return await self.index.facts.search(view or View(ANN), query, **asked)

    # --------------------------------------------------------------------------------------------------------------- events

    async def say(self, *lines: str | tuple[str, str], scope: Scope = ANN, at: datetime = NOW, **fields: Any) -> None:
        """Record messages a minute apart; a tuple is (sender, text), else the user speaks to the assistant."""
        first = self.recorded.get(scope, 0)
        events: list[MessageEvent | ManagerMethodEvent] = []
        for number, line in enumerate(lines, first):
            sender, text = line if isinstance(line, tuple) else ("user", line)
            given = {"sender_id": sender, "receiver_ids": ("assistant",) if sender == "user" else ("user",), "content": text}
            when = at + timedelta(minutes=number - first)
            events.append(MessageEvent(event_id=f"e{number}", timestamp=when, **(given | fields)))
        self.recorded[scope] = first + len(events)
        await self.tables.log.record_events(scope, events, now=NOW)

    async def call(self, text: str, *, scope: Scope = ANN) -> None:
        number = self.recorded.get(scope, 0)
        self.recorded[scope] = number + 1
        event = ManagerMethodEvent(
            event_id=f"e{number}",
            timestamp=NOW,
            manager="TaskManager",
            method="update",
            phase=Phase.INCOMING,
            calling_id="c1",
            payload={"text": text},
        )
        await self.tables.log.record_events(scope, [event], now=NOW)

    async def find(self, query: str, *, scope: Scope = ANN, **asked: Any) -> list[str]:
        """Texts of the messages that are found."""
        return [text_of(found) for found in await self.index.events.search(scope, query, **asked)]

    async def meet(self, first_name: str, *aliases: str, scope: Scope = ANN, **fields: Any) -> int:
        """A contact with this name. Returns its id."""
        change = CreateContact(f"meet {first_name} {aliases}", {"first_name": first_name, **fields}, aliases)
        [result] = await self.tables.contacts.apply(scope, [change], origin="manual", now=NOW)
        return result.contact_id

    async def points(self, kind: str, owner: Owner | None = None) -> int:
        return await self.vectors.count(f"afterturn_{kind}", owner=None if owner is None else owner.path)


def text_of(found: FoundEvent) -> str:
    event = found.event.event
    assert isinstance(event, MessageEvent)
    return event.content or ""


@pytest.fixture
async def stores(sqlite_url: str, tmp_path: Path) -> AsyncIterator[tuple[Tables, EdgeVectors]]:
    tables, vectors = build_tables(sqlite_url), EdgeVectors(tmp_path / "vectors", timeout_s=60)
    yield tables, vectors
    await vectors.aclose()
    await tables.aclose()


@pytest.fixture(params=["lexical", "hybrid"])
def world(stores: tuple[Tables, EdgeVectors], request: pytest.FixtureRequest) -> World:
    """Without and with an embedder."""
    return World(*stores, ToyEmbedder() if request.param == "hybrid" else None)


@pytest.fixture
def hybrid(stores: tuple[Tables, EdgeVectors]) -> World:
    return World(*stores, ToyEmbedder())
