"""What a model extracted from messages, brought to real stores the way a window does it: quotes grounded, checks, apply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memory.categories import spec_of
from memory.categories.spec import Applied, ApplyContext, Stores
from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.event import MessageEvent
from memory.model.evidence import cited_events, sources_of
from memory.model.fact import Fact, FactStatus
from memory.model.ids import short_hash
from memory.model.items import DropReason, Grounded, Item
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import Task
from memory.model.window import StoredEvent, Window
from memory.ports import CreateContact
from memory.retrieval.documents import Documents
from memory.retrieval.facts import FactSearch
from memory.stores.tables import Tables, build_tables
from tests.support.vectors import MemoryVectors

WEDNESDAY = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)


def message(text: str, sender: str = "user", *, at: datetime = WEDNESDAY, seq: int = 1) -> StoredEvent:
    receivers = ("user",) if sender == "assistant" else ("assistant",)
    event = MessageEvent(
        timestamp=at, sender_id=sender, receiver_ids=receivers, content=text, event_id=f"e{seq}-{short_hash(text)}"
    )
    return StoredEvent(seq=seq, event=event, recorded_at=at)


@dataclass
class Memory:
    """One user's stores, and windows of messages that are consolidated into them."""

    stores: Stores
    scope: Scope = field(default_factory=lambda: Scope.of("acme", "ann"))
    at: datetime = WEDNESDAY
    seq: int = 0
    number: int = 0
    teams: tuple[Owner, ...] = ()
    last: tuple[Category, list[Grounded[Any]], ApplyContext] | None = None

    def window(self, *texts: str | tuple[str, str]) -> tuple[Window, list[StoredEvent]]:
        """The next window: texts of the user, or (sender, text). An hour later than the one before."""
        self.number += 1
        self.at += timedelta(hours=1)
        events: list[StoredEvent] = []
        for place, one in enumerate(texts):
            sender, text = ("user", one) if isinstance(one, str) else one
            self.seq += 1
            events.append(message(text, sender, at=self.at + timedelta(minutes=place), seq=self.seq))
        window = Window(
            scope=self.scope,
            window_id=f"w{events[0].seq}",
            first_seq=events[0].seq,
            last_seq=events[-1].seq,
            events=len(events),
            categories=tuple(Category),
            planned_at=self.at,
        )
        return window, events

    async def take(
        self,
        category: Category,
        texts: Sequence[str | tuple[str, str]],
        *items: Mapping[str, Any],
        refs: Mapping[str, str] | None = None,
    ) -> Applied:
        """Consolidate a window of these texts, of which a model extracted these items. An item without ``evidence`` quotes the
        whole of the line ``line`` (from 1; the first when that is not given)."""
        window, events = self.window(*texts)
        return await self.apply(category, window, events, items, refs=refs)

    async def apply(
        self,
        category: Category,
        window: Window,
        events: Sequence[StoredEvent],
        items: Sequence[Mapping[str, Any]],
        *,
        refs: Mapping[str, str] | None = None,
    ) -> Applied:
        spec = spec_of(category)
        kept: list[Grounded[Any]] = []
        refused: list[str] = []
        for given in items:
            fields = dict(given)
            line = fields.pop("line", 1)
            fields.setdefault("evidence", [{"event": line, "quote": getattr(events[line - 1].event, "content", "")}])
            item: Item = spec.item.model_validate(fields)
            sources = sources_of(item, events, origin=f"window:{window.window_id}")
            if isinstance(sources, DropReason):
                refused.append(sources)
                continue
            reason = spec.check(item, cited_events(item, events)) if spec.check is not None else None
            if reason is not None:
                refused.append(reason)
                continue
            content = json.dumps(item.model_dump(mode="json", exclude={"evidence"}), sort_keys=True)
            key = short_hash(self.scope.tenant, self.scope.user, window.window_id, category.value, content)
            kept.append(Grounded[Any](key=key, item=item, sources=sources))
        known = {"c0": "0", "c1": "1", **(refs or {})}
        context = ApplyContext(
            window=window, events=events, refs=known, stores=self.stores, now=window.planned_at, teams=self.teams
        )
        self.last = (category, kept, context)
        applied = await spec.apply(kept, context)
        dropped = dict(applied.outcome.dropped)
        for reason in refused:
            dropped[reason] = dropped.get(reason, 0) + 1
        return replace(applied, outcome=applied.outcome.model_copy(update={"dropped": dropped}))

    async def again(self) -> Applied:
        """The last window's category once more, as after a crash before its acknowledgement."""
        assert self.last is not None
        category, kept, context = self.last
        return await spec_of(category).apply(kept, context)

    # ------------------------------------------------------------------------------------------------------- what is stored

    async def facts(self, *statuses: FactStatus) -> list[Fact]:
        """Oldest first, with sources."""
        wanted = statuses or (FactStatus.ACTIVE,)
        return list(reversed(await self.stores.facts.list(View(self.scope), statuses=wanted, sources=True, limit=500)))

    async def statements(self, *statuses: FactStatus) -> list[str]:
        return [fact.statement for fact in await self.facts(*statuses)]

    async def fact(self, statement: str) -> Fact:
        return next(fact for fact in await self.facts(*FactStatus) if fact.statement == statement)

    async def tasks(self) -> list[Task]:
        return list(reversed(await self.stores.tasks.list(self.scope, sources=True, limit=500)))

    async def contact(self, alias: str) -> Contact:
        return (await self.stores.contacts.by_alias(self.scope, [alias]))[alias]

    async def contacts(self) -> list[Contact]:
        """Without those of the system."""
        return [one for one in await self.stores.contacts.list(self.scope, limit=500) if one.contact_id > 1]

    async def add_contact(self, alias: str, **fields: Any) -> str:
        """Its number, as refs have it."""
        change = CreateContact(f"before:{alias}", fields, (alias,))
        [made] = await self.stores.contacts.apply(self.scope, [change], origin="manual", now=WEDNESDAY)
        return str(made.contact_id)

    async def snapshot(self) -> str:
        """All that the stores hold of the user, for comparing."""
        owner = Owner.user(self.scope)
        contacts = await self.contacts()
        history = [await self.stores.contacts.history(self.scope, one.contact_id) for one in contacts]
        guidance = await self.stores.guidance.list(View(self.scope), limit=500)
        state: dict[str, Any] = {
            "owner": owner.key,
            "facts": [fact.model_dump(mode="json") for fact in await self.facts(*FactStatus)],
            "tasks": [task.model_dump(mode="json") for task in await self.tasks()],
            "contacts": [one.model_dump(mode="json") for one in contacts],
            "history": [[change.model_dump(mode="json") for change in changes] for changes in history],
            "guidance": [one.model_dump(mode="json") for one in guidance],
        }
        return json.dumps(state, sort_keys=True, ensure_ascii=False)


def stores_on(tables: Tables) -> Stores:
    """The SQL stores, with search by words over an index in memory."""
    documents = Documents(MemoryVectors(), tables.terms, None)
    return Stores(
        facts=tables.facts,
        contacts=tables.contacts,
        tasks=tables.tasks,
        guidance=tables.guidance,
        functions=tables.functions,
        search=FactSearch(tables.facts, documents),
    )


@asynccontextmanager
async def open_memory(url: str) -> AsyncIterator[Memory]:
    tables = build_tables(url)
    try:
        yield Memory(stores_on(tables))
    finally:
        await tables.aclose()
