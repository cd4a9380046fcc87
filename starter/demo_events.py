"""Plays a file of events as a user's life would bring them, and gathers what the windows made of it.

What is shown is what is stored: windows from their ledger, facts, contacts and tasks from their stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory.model.contact import Contact
from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.fact import Fact, FactStatus
from memory.model.library import Guidance
from memory.model.scope import Scope
from memory.model.task import Task
from memory.model.window import WindowState
from memory.retrieval import FoundEvent
from memory.retrieval.facts import FoundFact
from starter.client import MemoryClient
from starter.event_files import EventStream
from starter.views import ReceiptStatus
from starter.windows import WindowView

BATCH = 50
WINDOWS_TIMEOUT_S = 180.0
MAX_WINDOWS = 1_000
MAX_FACT_QUERIES = 3
_TAKEN = frozenset({ReceiptStatus.RECORDED, ReceiptStatus.DUPLICATE})


@dataclass(frozen=True, slots=True)
class EventsReport:
    """What is stored after the play. ``replaced``: facts that ended, each with the one that took its place. ``…_searches``: queries
    with what was found."""

    name: str
    scope: Scope
    counts: Mapping[str, int]
    windows: tuple[WindowView, ...] = field(repr=False)
    facts: tuple[Fact, ...] = field(repr=False)
    replaced: tuple[tuple[Fact, Fact], ...] = field(repr=False)
    contacts: tuple[Contact, ...] = field(repr=False)
    tasks: tuple[Task, ...] = field(repr=False)
    guidance: tuple[Guidance, ...] = field(repr=False)
    fact_searches: tuple[tuple[str, tuple[FoundFact, ...]], ...] = field(repr=False)
    event_searches: tuple[tuple[str, tuple[FoundEvent, ...]], ...] = field(repr=False)
    seconds: float

    @property
    def ok(self) -> bool:
        """Every window ended well."""
        return all(view.window.state in (WindowState.DONE, WindowState.SKIPPED) for view in self.windows)

    @property
    def last_line(self) -> str:
        return (
            f"events: {sum(self.counts[name] for name in ('recorded', 'duplicates'))} recorded, {len(self.windows)} windows, "
            f"{len(self.facts)} facts, {len(self.contacts)} contacts, {len(self.tasks)} tasks, {len(self.guidance)} how-tos, "
            f"{self.seconds:.1f} s"
        )


async def record_all(
    client: MemoryClient,
    scope: Scope,
    events: Sequence[MessageEvent | ManagerMethodEvent],
    *,
    space_id: str = "default",
) -> dict[str, int]:
    """Record them in order, in batches. Returns counts by what became of them.

    Raises MemoryUnavailable when a batch was not taken; those before it are recorded, and the same call again goes on.
    """
    counts = {"recorded": 0, "duplicates": 0, "dropped": 0, "waiting": 0}
    for start in range(0, len(events), BATCH):
        receipt = await client.record_events(scope, events[start : start + BATCH], space_id=space_id, allow_user_memory=True)
        if receipt.status is ReceiptStatus.REFUSED:
            raise InvalidInput(receipt.reason or "the events were refused")
        if receipt.status in (ReceiptStatus.LOST, ReceiptStatus.SKIPPED):
            why = receipt.reason or ", ".join(receipt.reasons) or "no reason given"
            raise MemoryUnavailable(f"events from number {start + 1} on were not recorded ({receipt.status.value}): {why}")
        if receipt.status in _TAKEN:
            counts["recorded"] += receipt.recorded
            counts["duplicates"] += receipt.duplicates
            counts["dropped"] += receipt.dropped
            counts["waiting"] = receipt.waiting
    return counts


async def play_events(
    client: MemoryClient,
    scope: Scope,
    stream: EventStream,
    *,
    fact_queries: Sequence[str] = (),
    event_queries: Sequence[str] = (),
    timeout_s: float = WINDOWS_TIMEOUT_S,
) -> EventsReport:
    """Record the events, have all of them consolidated, and look at what there is then.

    Args:
        client: as an orchestrator would hold it.
        scope: whose memory; the caller makes sure that it is a fresh one.
        stream: what is played.
        fact_queries, event_queries: what is searched for in the end; without any, first words of facts and of messages.
        timeout_s: how long the windows may take.

    Raises MemoryUnavailable when something is away, or the windows take too long.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    counts = await record_all(client, scope, stream.events)
    await client.flush(scope)
    if not await client.windows.wait_until_idle(scope, timeout_s=timeout_s):
        raise MemoryUnavailable(
            f"the events are recorded, but their windows were not through within {timeout_s:g} s; see `afterturn window status`"
        )
    windows = await client.windows.list(scope=scope, limit=MAX_WINDOWS)
    views = [await client.windows.show(scope, window.window_id) for window in reversed(windows)]
    facts = await client.facts(scope, limit=1_000, sources=True)
    ended = await client.facts(scope, statuses=(FactStatus.SUPERSEDED,), limit=1_000)
    by_id = {fact.fact_id: fact for fact in (*facts, *ended)}
    wanted = list(fact_queries) or list(dict.fromkeys(fact.subject for fact in facts if fact.subject))[:MAX_FACT_QUERIES]
    said = list(event_queries) or wanted[:1]
    return EventsReport(
        name=stream.name,
        scope=scope,
        counts=counts,
        windows=tuple(views),
        facts=facts,
        replaced=tuple((old, by_id[old.superseded_by]) for old in reversed(ended) if old.superseded_by in by_id),
        contacts=await client.contacts.filter(scope, limit=1_000),
        tasks=await client.tasks.list(scope, limit=1_000),
        guidance=await client.guidance.list(scope, limit=1_000),
        fact_searches=tuple([(query, await client.search_facts(scope, query, limit=3, sources=True)) for query in wanted]),
        event_searches=tuple([(query, await client.search_events(scope, query, limit=3)) for query in said]),
        seconds=clock() - started,
    )
