"""What a window learned and that belongs in a table of the user's is handed to a knowledge loop, which enters it beside the window.

The facts are stored before, and stay whatever the loop does. Each of them is handed over once, however often its window is applied;
and the loops of one user's windows run one after the other, so that no two of them add the same thing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from memory.categories.spec import AddedFact, ApplyContext
from memory.model.fact import Fact, FactStatus
from memory.model.ids import short_hash
from memory.model.knowledge import PERSONAL, FilterQuery, Table, ToolProblem
from memory.model.knowledge_loop import MAX_CONTEXT_BYTES, MAX_CONTEXT_MESSAGES, Loop, Operation
from memory.model.owner import View
from memory.model.scope import Scope
from memory.model.table_claims import LIMITS, REQUEST, document_of, fact_of, instructions
from memory.model.table_routing import SOURCE_COLUMN, Said, belongs, hits, is_of_a_row, phrases, text_columns
from memory.ports.knowledge import KnowledgeTables, LoopStore

MAX_LOOKUPS: Final = 60
"""Searches in cells for one window; beyond them a claim is judged by the tables' names alone."""
MAX_PAIRS: Final = 12_000
"""Of a claim and a table, that are compared for one window; beyond them the tables that changed longest ago are left out."""
MAX_FILTER_CHARS: Final = 8_000
MAX_FILTER_VALUES: Final = 600
FOUND_ROWS: Final = 20
MAX_TABLES_OF_A_CLAIM: Final = 4
MAX_LOOPS_OF_A_WINDOW: Final = 50
WAITS_FOR: Final = timedelta(days=2)
"""A loop that did not begin within this time is not begun any more by itself."""
SOON: Final = timedelta(minutes=1)
"""Clocks of workers differ by less."""


@dataclass(frozen=True, slots=True)
class _Claim:
    fact: Fact
    document: str = field(repr=False)
    tables: tuple[str, ...]
    with_source: bool


class TableLoops:
    """For one event loop."""

    def __init__(self, tables: KnowledgeTables, loops: LoopStore) -> None:
        self._tables = tables
        self._loops = loops

    async def open(self, context: ApplyContext, added: Sequence[AddedFact]) -> int:
        """Record the loops for what was added and belongs in a table; repeating it records nothing more. Returns how many are new.

        Raises StoreUnavailable.
        """
        if not added:
            return 0
        scope = context.window.scope
        view = View(scope)
        tables = [table for table in await self._tables.tables(view) if table.source == PERSONAL]
        if not tables:
            return 0
        handed = await self._handed(scope, context.origin)
        new = [one for one in added if one.fact_id not in handed]
        wanted = {fact_id for one in new for fact_id in (one.fact_id, *one.superseded)}
        facts: Mapping[str, Fact] = await context.stores.facts.get(view, wanted, sources=True) if wanted else {}
        live = [one for one in new if one.fact_id in facts and facts[one.fact_id].status is FactStatus.ACTIVE]
        may_fit = await asyncio.to_thread(_may_fit, [facts[one.fact_id] for one in live], tables)
        claims: list[_Claim] = []
        finder = _Cells(self._tables, view)
        for one in live:
            fact = facts[one.fact_id]
            fitting = await _fitting(fact, may_fit.get(one.fact_id, ()), finder)
            if fitting:
                claims.append(_claim(fact, fitting, [facts[old].statement for old in one.superseded if old in facts]))
        batches = _batches(claims)
        for batch in batches:
            await self._loops.open(scope, _loop(context, batch))
        return len(batches)

    async def next(self, scope: Scope) -> str | None:
        """See :func:`next_loop`."""
        return await next_loop(self._loops, scope)

    async def _handed(self, scope: Scope, origin: str) -> frozenset[str]:
        """Facts that loops of this window have been given."""
        loops = await self._loops.loops(scope, parent=origin, limit=MAX_LOOPS_OF_A_WINDOW)
        ids = (fact_of(message.get("content", "")) for loop in loops for message in loop.context)
        return frozenset(fact_id for fact_id in ids if fact_id is not None)


async def next_loop(loops: LoopStore, scope: Scope) -> str | None:
    """The loop of the user's windows whose turn it is: the oldest one that has not ended. None: there is none."""
    now = datetime.now(UTC)
    waiting = await loops.of_windows(scope, after=now - WAITS_FOR, before=now + SOON, limit=1)
    return waiting[0].loop_id if waiting else None


@dataclass
class _Cells:
    """Looks for parts of claims in the cells of tables, a bounded number of times."""

    tables: KnowledgeTables
    view: View
    left: int = MAX_LOOKUPS

    async def find(self, statement: str, table: Table) -> Mapping[str, Collection[str]]:
        """By column, which phrases of the statement are in its cells."""
        columns, wanted = text_columns(table), phrases(statement)
        if not columns or not wanted or self.left <= 0:
            return {}
        self.left -= 1
        query = FilterQuery(_filter(columns, wanted), limit=FOUND_ROWS, tables=(f"{table.source}.{table.name}",))
        try:
            found = await self.tables.filter(self.view, query)
        except ToolProblem:
            return {}  # the table has changed since it was listed
        rows = [row for some in found.values() for row in some]
        known = frozenset(wanted)
        return {
            column: {value.lower() for row in rows if isinstance(value := row.get(column), str) and value.lower() in known}
            for column in columns
        }


def _filter(columns: Sequence[str], wanted: Sequence[str]) -> str:
    """``name.lower() in ["a", "b"] or city.lower() in ["a", "b"]``; of very many phrases the longest."""
    kept: list[str] = []
    room = MAX_FILTER_CHARS // len(columns)
    for phrase in wanted[: MAX_FILTER_VALUES // len(columns)]:
        literal = json.dumps(phrase, ensure_ascii=False)
        room -= len(literal) + 2
        if room < 0:
            break
        kept.append(literal)
    values = ", ".join(kept)
    return " or ".join(f"{column}.lower() in [{values}]" for column in columns)


def _may_fit(facts: Sequence[Fact], tables: Sequence[Table]) -> dict[str, list[Table]]:
    """By fact, the tables that it meets in a word, those that changed last first. CPU-bound: 0.1 ms for each pair at most."""
    looked_at = sorted(tables, key=lambda table: table.updated_at, reverse=True)[: MAX_PAIRS // max(1, len(facts))]
    found: dict[str, list[Table]] = {}
    for fact in facts:
        said = Said(fact.statement, fact.kind)
        found[fact.fact_id] = [table for table in looked_at if is_of_a_row(said, table) and hits(said, table).any]
    return found


async def _fitting(fact: Fact, tables: Sequence[Table], finder: _Cells) -> list[Table]:
    said = Said(fact.statement, fact.kind)
    found: list[Table] = []
    for table in tables:
        if len(found) >= MAX_TABLES_OF_A_CLAIM:
            break
        if belongs(said, table) or belongs(said, table, await finder.find(fact.statement, table)):
            found.append(table)
    return found


def _claim(fact: Fact, tables: Sequence[Table], instead_of: Sequence[str]) -> _Claim:
    names = tuple(table.name for table in tables)
    with_source = any(table.column(SOURCE_COLUMN) is not None for table in tables)
    return _Claim(fact, document_of(fact, names, instead_of), names, with_source)


def _batches(claims: Sequence[_Claim]) -> list[list[_Claim]]:
    """As many loops as the claims need; nearly always one."""
    batches: list[list[_Claim]] = []
    room = 0
    for claim in claims:
        size = len(json.dumps(claim.document, ensure_ascii=False).encode()) + 100
        if not batches or size > room or len(batches[-1]) >= MAX_CONTEXT_MESSAGES:
            batches.append([])
            room = MAX_CONTEXT_BYTES // 2
        batches[-1].append(claim)
        room -= size
    return batches


def _loop(context: ApplyContext, claims: Sequence[_Claim]) -> Loop:
    """Its id is made from what it is given: applied again, it is the same loop."""
    names = tuple(dict.fromkeys(name for claim in claims for name in claim.tables))
    window_id = context.window.window_id
    return Loop(
        loop_id=f"{window_id}-{short_hash(window_id, *sorted(claim.fact.fact_id for claim in claims))}",
        operation=Operation.UPDATE,
        text=REQUEST,
        destination=PERSONAL,
        created_at=datetime.now(UTC),
        instructions=instructions(names, with_source=any(claim.with_source for claim in claims)),
        context=tuple({"role": "document", "content": claim.document} for claim in claims),
        limits=LIMITS,
        parent=context.origin,
        only=names,
    )
