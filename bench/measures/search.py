"""``search_facts`` of one user with 1,000 facts, among 10,000 and among 100,000 facts of a thousand users.

The product's own stores: SQLite and the embedded vector engine with dense and lexical vectors. Embedding takes no time here (a
stand-in gives vectors without a model): what a model needs for the query comes on top.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from sqlalchemy import Connection

from bench.measures.locomo import open_index
from bench.results import BenchError, Reach, Row
from memory.model.fact import Fact
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import AddFact, IndexDocument
from memory.retrieval import SearchIndex
from memory.retrieval.documents import mark_of
from memory.settings import load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.rows_records import FACTS
from memory.stores.tables.scoping import Records
from memory.stores.tables.terms import change_terms

OWN: Final = 1_000
SIZES: Final = (10_000, 100_000)
USERS: Final = 1_000
SEARCHES: Final = 100
ROUNDS: Final = 7
MOST_MS: Final = Reach(most=20)
MOST_RATIO: Final = Reach(most=1.5)
DIMENSION: Final = 384
_PAYLOAD: Final = {"kind": "fact", "status": "active"}

_SUBJECT_WORDS: Final = """
    invoice contract server backup holiday garden kitchen budget office bicycle train meeting project database printer garage
    insurance school doctor recipe passport camera laptop warehouse supplier customer tax heating window concert
"""
_SUBJECTS: Final = _SUBJECT_WORDS.split()
_VERBS: Final = ("moves", "needs", "keeps", "costs", "replaces", "follows", "opens", "closes", "requires", "includes")
_HEADS: Final = ("Al", "Bri", "Ca", "Do", "El", "Fa", "Gre", "Ha")
_NAMES: Final = [f"{head}{tail}" for head in _HEADS for tail in ("n", "ra", "tus", "vik", "mond")]


class InstantEmbedder:
    """Unit vectors made from the text's hash: like nothing, in no time."""

    name = "instant"
    dimension = DIMENSION
    weight = 1.0

    async def query(self, text: str) -> tuple[float, ...]:
        return self._vector(text)

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        return [self._vector(text) for text in texts]

    async def aclose(self) -> None:
        """Nothing is open."""

    @staticmethod
    def _vector(text: str) -> tuple[float, ...]:
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        vector = np.random.default_rng(seed).standard_normal(DIMENSION)
        return tuple((vector / np.linalg.norm(vector)).tolist())


async def measure() -> list[Row]:
    p95: dict[int, float] = {}
    p50: dict[int, float] = {}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-search-")))
        settings = load_settings({}, data_dir=folder, embedder="none")
        migrate(settings.sqlalchemy_url)
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        index = open_index(tables, folder, InstantEmbedder())
        stack.push_async_callback(index.aclose)
        ours = Scope.of("bench", "searcher")
        await _our_facts(tables, index, ours)
        there = 0
        for size in SIZES:
            each = (size - OWN) // (USERS - 1)
            for number in range(1, USERS):
                await _other_facts(tables, index, Scope.of("bench", f"user-{number}"), range(there, each), seed=number)
            there = each
            rounds = await _search_times(index, ours)
            p50[size], p95[size] = _at(0.5, rounds), _at(0.95, rounds)
    small, large = SIZES
    details = {"p50_ms": {str(size): value for size, value in p50.items()}, "p95_ms": {str(size): v for size, v in p95.items()}}
    among = f"one user of {OWN:,} facts among {large:,} of {USERS:,} users, without the query's embedding"
    return [
        Row("search_facts p95", p95[large], "ms", among, MOST_MS, note=f"p50 {p50[large]:.1f} ms", details=details),
        Row(
            "search_facts p95, many facts to few",
            p95[large] / p95[small],
            "ratio",
            f"the same among {small:,} facts",
            MOST_RATIO,
            details={"ours": p95[large], "theirs": p95[small], "unit_of_both": "ms"},
        ),
    ]


async def _our_facts(tables: Tables, index: SearchIndex, scope: Scope) -> None:
    """The way of every fact: written by the store, brought in by a sync."""
    owner, now, chance = Owner.user(scope), datetime.now(UTC), random.Random(0)
    changes: list[AddFact] = []
    for number in range(OWN):
        statement = _statement(chance, number)
        fact = Fact(fact_id=f"own-{number}", owner=owner.key, statement=statement, observed_at=now, created_at=now)
        changes.append(AddFact(effect=f"bench-{number}", fact=fact, key=f"{number}"))
    for start in range(0, len(changes), 200):
        await tables.facts.apply(owner, changes[start : start + 200], now=now)
    await index.sync_documents(scope)


async def _other_facts(tables: Tables, index: SearchIndex, scope: Scope, numbers: range, *, seed: int) -> None:
    """The same rows, points and term statistics as those of the usual way, written in bulk: 100,000 facts take minutes there."""
    owner, now, chance = Owner.user(scope), datetime.now(UTC), random.Random(f"{seed}/{numbers.start}")
    documents = [
        IndexDocument(f"{scope.user}-{number}", owner, 1, live=True, text=_statement(chance, number), payload=_PAYLOAD)
        for number in numbers
    ]
    marks = [mark_of(document) for document in documents]
    columns = {column.name: None for column in FACTS.columns}
    rows = [
        {
            **columns,
            "fact_id": document.document_id,
            "chain_id": document.document_id,
            "statement": document.text,
            "fact_key": document.document_id,
            "subject": "",
            "topics": [],
            "confidence": 1.0,
            "observed_at": now,
            "created_at": now,
            "revision": 1,
            "indexed_revision": 1,
            "index_terms": list(mark.terms),
            "index_length": mark.length,
            **_PAYLOAD,
        }
        for document, mark in zip(documents, marks, strict=True)
    ]
    frequencies = Counter(term for mark in marks for term in mark.terms)
    length = sum(mark.length for mark in marks)

    def work(connection: Connection) -> None:
        own = [{name: value for name, value in row.items() if name not in ("tenant", "owner_key")} for row in rows]
        Records(connection, owner).insert(FACTS, own)
        change_terms(connection, owner.tenant, owner.key, "facts", frequencies, length, len(rows))

    await index.documents.write("facts", documents)
    await tables.database.write(work)


def _statement(chance: random.Random, number: int) -> str:
    name, verb = chance.choice(_NAMES), chance.choice(_VERBS)
    first, second = chance.sample(_SUBJECTS, 2)
    return f"{name} {verb} the {first} before the {second} number {number % 97} in {chance.randint(2001, 2026)}"


async def _search_times(index: SearchIndex, scope: Scope) -> list[list[float]]:
    """Milliseconds by round, ascending. The first searches warm caches and are not counted."""
    chance, view, rounds = random.Random(7), View(scope), list[list[float]]()
    for number in range(-1, ROUNDS):
        times: list[float] = []
        for _ in range(SEARCHES if number >= 0 else 20):
            query = f"when does {chance.choice(_NAMES)} need the {chance.choice(_SUBJECTS)} and the {chance.choice(_SUBJECTS)}?"
            began = time.perf_counter()
            found = await index.facts.search(view, query, limit=10)
            times.append((time.perf_counter() - began) * 1000)
            if not found:
                raise BenchError("a search that has to find something found nothing")
        if number >= 0:
            rounds.append(sorted(times))
    return rounds


def _at(share: float, rounds: Sequence[Sequence[float]]) -> float:
    """The median over the rounds of their value at this share."""
    return statistics.median(times[int(len(times) * share)] for times in rounds)
