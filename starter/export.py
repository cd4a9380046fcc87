"""Everything that is kept about a user, as one zip archive that is written while it is sent.

What goes in follows the tables that an erasure empties: :data:`EXPORTED` and :data:`LEFT_OUT` together name all of them, and a test
holds that. Lists are read page by page; what is written meanwhile may or may not be in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from memory.model.contact import Contact
from memory.model.contact_rules import EDITABLE_FIELDS
from memory.model.errors import BeingForgotten
from memory.model.fact import FactStatus
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.window import WindowKind
from memory.ports import Position, WindowPlace
from memory.profiles import MAX_HISTORY, PROFILE_FILE
from memory.stores.tables.knowledge.catalogue import CONTACTS_ID
from starter.client_parts import Parts
from starter.export_archive import Archive, JsonList, to_json
from starter.export_texts import (
    README,
    contact_text,
    contacts_header,
    fact_text,
    facts_header,
    task_text,
    tasks_header,
)
from starter.table_files import without_source

T = TypeVar("T")
FORMAT: Final = 1
"""Of the archive; raised when a reader of an older one would not understand it."""
PAGE: Final = 200
SMALL_PAGE: Final = 50
"""Of items that have long texts, or that are put together from several reads."""
AT_ONCE: Final = 8
MAX_CHANGES: Final = 1_000
"""Of one contact's history."""
MAX_USAGE_ROWS: Final = 100_000
MAX_RECEIPTS: Final = 1_000

EXPORTED: Final[Mapping[str, str]] = {
    "turns": "turns",
    "events": "events",
    "windows": "windows",
    "window_chunks": "windows",
    "extractions": "windows",
    "facts": "facts",
    "provenance": "facts",
    "contacts": "contacts",
    "contact_aliases": "contacts",
    "contact_changes": "contacts",
    "tasks": "tasks",
    "guidance": "guidance",
    "functions": "functions",
    "knowledge_tables": "tables",
    "knowledge_rows": "tables",
    "knowledge_loops": "loops",
    "knowledge_entries": "loops",
    "model_usage": "usage",
    "user_preferences": "account",
    "team_members": "account",
    "erasures": "erasures",
}
"""By table, the file that holds what is in it. (Quotes are also in those of contacts and tasks.)"""
LEFT_OUT: Final[Mapping[str, str]] = {
    "user_counters": "numbers given out and how far events were read; nothing of the user's",
    "effects": "keys by which a repeated write is recognised, and hashes by which forgotten items are; no text",
    "record_owners": "numbers given out",
    "knowledge_embeddings": "which rows the search index holds; can be made anew",
    "term_frequencies": "statistics of the search index; can be made anew",
    "term_totals": "statistics of the search index; can be made anew",
    "notices": "notices on their way to a front end; ids only, gone after an hour",
    "erased_users": "a mark during and after an erasure; a hash only",
}
"""By table, why what is in it is not exported."""


class Exporter:
    """For one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def export(self, scope: Scope) -> AsyncGenerator[bytes]:
        """The archive, piece by piece. What is wrong from the beginning is raised before the first piece.

        Raises:
            MemoryUnavailable: a store is away; an archive that is cut off by it has no directory and cannot be opened.
            BeingForgotten: all of it is being deleted; also at the end, where that began meanwhile: what was sent is cut off too.
        """
        return _Export(self._parts, scope).pieces()


class _Export:
    """One archive."""

    def __init__(self, parts: Parts, scope: Scope) -> None:
        self._parts = parts
        self._scope = scope
        self._view = View(scope)
        self._now = datetime.now(UTC)
        self._archive = Archive(made_at=self._now)
        self._counts: dict[str, int] = {}
        self._notes: list[str] = []

    async def pieces(self) -> AsyncGenerator[bytes]:
        facts = await self._parts.directory.facts(self._scope, "default")
        if facts.forgetting:
            raise BeingForgotten("all of this user's memory is being deleted: there is nothing to export")
        account = {
            "tenant_id": self._scope.tenant_id,
            "user_id": self._scope.user_id,
            "allow_user_memory": facts.user_allows,
            "teams": [
                {"team_id": team, "can_write": writes}
                for team, writes in (await self._parts.directory.memberships(self._scope)).items()
            ],
        }
        # From here on: what fails cuts the archive off.
        self._archive.file("README.md", README)
        self._archive.file("account.json", to_json(account, indent=2))
        for section in (
            self._profiles,
            lambda: self._markdown("facts.md", facts_header(self._now), self._facts, fact_text),
            self._contacts_for_people,
            lambda: self._markdown("tasks.md", tasks_header(self._now), self._tasks, task_text),
            lambda: self._list("facts", self._facts()),
            lambda: self._list("contacts", self._contacts()),
            lambda: self._list("tasks", self._tasks()),
            lambda: self._list("guidance", self._pages(self._guidance, _guidance_place)),
            lambda: self._list("functions", self._pages(self._functions, _function_place)),
            lambda: self._list("events", self._events()),
            lambda: self._list("turns", self._turns()),
            lambda: self._list("windows", self._windows()),
            self._tables,
            lambda: self._list("loops", self._loops()),
            lambda: self._list("usage", self._usage()),
            lambda: self._list("erasures", self._erasures()),
        ):
            async for piece in section():
                yield piece
        facts = await self._parts.directory.facts(self._scope, "default")
        if facts.forgetting or (facts.forgotten_before is not None and facts.forgotten_before >= self._now):
            raise BeingForgotten("all of this user's memory was deleted while it was exported: this archive is not whole")
        self._archive.file("manifest.json", to_json(self._manifest(), indent=2))
        self._archive.close()
        yield self._archive.take()

    def _manifest(self) -> dict[str, Any]:
        left_out = [{"what": table, "why": why} for table, why in LEFT_OUT.items()]
        left_out.append({"what": "rows of teams", "why": "they are the teams': facts, guidance, functions and tables"})
        left_out.append({"what": "built-in tables", "why": "they come with the deployment and are the same for everybody"})
        return {
            "format": FORMAT,
            "made_at": self._now,
            "tenant_id": self._scope.tenant_id,
            "user_id": self._scope.user_id,
            "files": [
                {"name": name, "bytes": size, **({"items": self._counts[name]} if name in self._counts else {})}
                for name, size in self._archive.sizes.items()
            ],
            "left_out": left_out,
            "notes": self._notes,
        }

    # ------------------------------------------------------------------------------------------------------------- writing

    async def _list(self, name: str, pages: AsyncIterator[Sequence[Any]]) -> AsyncGenerator[bytes]:
        """A list in one file, or in several. Compressing is work: it is done beside the event loop."""
        out = JsonList(self._archive, name)
        async for page in pages:
            await asyncio.to_thread(out.add, page)
            yield self._archive.take()
        out.close()
        self._counts.update(out.counts)
        yield self._archive.take()

    async def _markdown(
        self, name: str, header: str, pages: Callable[[], AsyncIterator[Sequence[T]]], text: Callable[[T], str]
    ) -> AsyncGenerator[bytes]:
        self._archive.begin(name)
        self._archive.write(header.encode())
        count = 0
        async for page in pages():
            data = "".join(map(text, page)).encode("utf-8", "backslashreplace")
            await asyncio.to_thread(self._archive.write, data)
            count += len(page)
            yield self._archive.take()
        if not count:
            self._archive.write(b"\nNothing.\n")
        self._archive.end()
        self._counts[name] = count
        yield self._archive.take()

    async def _pages(
        self, read: Callable[[Position | None], Any], place: Callable[[Any], Position]
    ) -> AsyncGenerator[Sequence[Any]]:
        """All pages of a list that is ordered by creation."""
        after: Position | None = None
        while page := await read(after):
            yield page
            if len(page) < PAGE:
                return
            after = place(page[-1])

    # ------------------------------------------------------------------------------------------------------------- profile

    async def _profiles(self) -> AsyncGenerator[bytes]:
        """The files as they are stored, of every root that is active: as a rule of one."""
        facts = await self._parts.directory.facts(self._scope, "default")
        roots = sorted(facts.active_roots) or [facts.space.root_folder]
        if len(roots) > 1:
            self._notes.append(f"the company has {len(roots)} active memory roots; the profiles of each are in its own folder")
        for root in roots:
            folder = f"profile/{root}/" if len(roots) > 1 else "profile/"
            async for piece in self._profile(root, folder, "profile.md" if len(roots) == 1 else f"{folder}profile.md"):
                yield piece

    async def _profile(self, root: str, folder: str, current: str) -> AsyncGenerator[bytes]:
        profiles = self._parts.profiles
        versions = await profiles.history(self._scope, root, limit=MAX_HISTORY)
        if len(versions) == MAX_HISTORY:
            self._notes.append(f"{folder}: the newest {MAX_HISTORY} versions of the profile")
        listed: list[dict[str, Any]] = []
        for start in range(0, len(versions), AT_ONCE):
            some = versions[start : start + AT_ONCE]
            files = await asyncio.gather(*(profiles.file(self._scope, root, one.version_id) for one in some))
            for one, data in zip(some, files, strict=True):
                name = f"{folder}versions/{one.version:06}.md"
                if data is None:
                    self._notes.append(f"{name}: not there any more, or not a profile (too large)")
                else:
                    await asyncio.to_thread(self._archive.file, name, data)
                    if one.is_latest:
                        self._archive.file(current, data)
                listed.append(
                    {
                        "version": one.version,
                        "file": None if data is None else name,
                        "written_at": one.modified_at,
                        "cause": one.cause,
                        "bytes": one.size,
                        "is_latest": one.is_latest,
                    }
                )
            yield self._archive.take()
        if not any(one.is_latest for one in versions):
            self._archive.file(current, f"There is no profile ({PROFILE_FILE}).\n")
        self._archive.file(f"{folder}versions.json", to_json(listed, indent=1))
        self._counts[f"{folder}versions.json"] = len(listed)
        yield self._archive.take()

    # ------------------------------------------------------------------------------------------------------------- records

    async def _facts(self) -> AsyncGenerator[Sequence[Any]]:
        async def read(after: Position | None) -> Sequence[Any]:
            return await self._parts.stores.facts.list(
                self._view, statuses=tuple(FactStatus), sources=True, limit=PAGE, after=after
            )

        async for page in self._pages(read, lambda fact: Position(fact.created_at, fact.fact_id)):
            yield page

    async def _tasks(self) -> AsyncGenerator[Sequence[Any]]:
        async def read(after: Position | None) -> Sequence[Any]:
            return await self._parts.stores.tasks.list(self._scope, sources=True, limit=PAGE, after=after)

        async for page in self._pages(read, lambda task: Position(task.created_at, task.task_id)):
            yield page

    async def _contact_pages(self) -> AsyncGenerator[Sequence[Contact]]:
        after: int | None = None
        while page := await self._parts.stores.contacts.list(self._scope, limit=SMALL_PAGE, after=after):
            yield page
            if len(page) < SMALL_PAGE:
                return
            after = page[-1].contact_id

    async def _contacts(self) -> AsyncGenerator[Sequence[Any]]:
        contacts = self._parts.stores.contacts

        async def whole(contact: Contact) -> dict[str, Any]:
            changes = await contacts.history(self._scope, contact.contact_id, limit=MAX_CHANGES)
            if len(changes) == MAX_CHANGES:
                self._notes.append(f"contact {contact.contact_id}: the newest {MAX_CHANGES} changes")
            sources = await contacts.sources(self._scope, contact.contact_id)
            named = {name: getattr(contact, name) for name in ("contact_id", *EDITABLE_FIELDS, "is_system", "aliases")}
            times = {"created_at": contact.created_at, "updated_at": contact.updated_at}
            return {**named, **times, "changes": changes, "sources": sources}

        async for page in self._contact_pages():
            for start in range(0, len(page), AT_ONCE):
                yield await asyncio.gather(*map(whole, page[start : start + AT_ONCE]))

    async def _contacts_for_people(self) -> AsyncGenerator[bytes]:
        contacts = self._parts.stores.contacts

        async def texts() -> AsyncGenerator[Sequence[str]]:
            async for page in self._contact_pages():
                for start in range(0, len(page), AT_ONCE):
                    some = page[start : start + AT_ONCE]
                    sources = await asyncio.gather(*(contacts.sources(self._scope, one.contact_id) for one in some))
                    yield [contact_text(contact, cited) for contact, cited in zip(some, sources, strict=True)]

        async for piece in self._markdown("contacts.md", contacts_header(self._now), texts, str):
            yield piece

    async def _guidance(self, after: Position | None) -> Sequence[Any]:
        return await self._parts.stores.guidance.list(self._view, limit=PAGE, after=after)

    async def _functions(self, after: Position | None) -> Sequence[Any]:
        return await self._parts.stores.functions.list(self._view, limit=PAGE, after=after)

    # ---------------------------------------------------------------------------------------------------- events and turns

    async def _events(self) -> AsyncGenerator[Sequence[Any]]:
        last = (await self._parts.ledger.progress(self._scope)).last_seq
        for first in range(1, last + 1, SMALL_PAGE):
            yield await self._parts.ledger.events(self._scope, first, min(first + SMALL_PAGE - 1, last))

    async def _turns(self) -> AsyncGenerator[Sequence[Any]]:
        below: int | None = None
        while page := await self._parts.log.summaries(scope=self._scope, below=below, limit=SMALL_PAGE):
            texts = {one.turn.turn_id: one.turn for one in await self._parts.log.turns(self._scope, [one.turn_id for one in page])}
            yield [{**{name: getattr(one, name) for name in _TURN_FIELDS}, "turn": texts.get(one.turn_id)} for one in page]
            if len(page) < SMALL_PAGE:
                return
            below = page[-1].ordinal

    async def _windows(self) -> AsyncGenerator[Sequence[Any]]:
        ledger = self._parts.ledger
        after: WindowPlace | None = None
        while page := await ledger.windows(scope=self._scope, after=after, limit=SMALL_PAGE):
            for window in page:
                one: dict[str, Any] = {name: getattr(window, name) for name in type(window).model_fields if name != "scope"}
                one["extraction"] = await ledger.extraction(self._scope, window.window_id)
                if window.kind is WindowKind.CHUNK:
                    one["transcript"] = await ledger.window_events(window)
                yield [one]
            if len(page) < SMALL_PAGE:
                return
            after = WindowPlace(page[-1].planned_at, page[-1].first_seq, page[-1].window_id)

    # ----------------------------------------------------------------------------------------------------------- knowledge

    async def _tables(self) -> AsyncGenerator[bytes]:
        knowledge = self._parts.knowledge
        mine = Owner.user(self._scope)
        tables = [one for one in await knowledge.tables(self._view) if one.owner == mine and one.table_id != CONTACTS_ID]
        listed: list[dict[str, Any]] = []
        for number, table in enumerate(tables, start=1):
            name = f"tables/{number:03}-{_file_name(table.name)}"

            async def rows(table: Any = table) -> AsyncGenerator[Sequence[Any]]:
                after: int | None = None
                while page := await knowledge.export(self._view, table, after=after, limit=PAGE):
                    yield [without_source(row) for row in page]
                    if len(page) < PAGE:
                        return
                    after = int(page[-1][table.unique_key])

            async for piece in self._list(name, rows()):
                yield piece
            columns = [{"name": one.name, "type": one.type, "auto": one.auto, "within": one.within} for one in table.columns]
            listed.append(
                {
                    "name": table.name,
                    "file": f"{name}.json",
                    "description": table.description,
                    "unique_key": table.unique_key,
                    "columns": columns,
                    "created_at": table.created_at,
                    "updated_at": table.updated_at,
                }
            )
        self._archive.file("tables.json", to_json(listed, indent=1))
        self._counts["tables.json"] = len(listed)
        yield self._archive.take()

    async def _loops(self) -> AsyncGenerator[Sequence[Any]]:
        store = self._parts.loops
        after: Position | None = None
        while page := await store.loops(self._scope, after=after, limit=SMALL_PAGE):
            for loop in page:
                entries: list[Any] = []
                while some := await store.entries(self._scope, loop.loop_id, after=len(entries), limit=PAGE):
                    entries += some
                    if len(some) < PAGE:
                        break
                yield [{"loop": loop, "conversation": entries}]
            if len(page) < SMALL_PAGE:
                return
            after = Position(page[-1].created_at, page[-1].loop_id)

    # --------------------------------------------------------------------------------------------------------------- other

    async def _usage(self) -> AsyncGenerator[Sequence[Any]]:
        rows = await self._parts.usage.rows(scope=self._scope, limit=MAX_USAGE_ROWS)
        if len(rows) == MAX_USAGE_ROWS:
            self._notes.append(f"usage: the newest {MAX_USAGE_ROWS} rows")
        yield [{"day": row.day, "stage": row.stage, "model": row.model, **_counts_of(row.usage)} for row in rows]

    async def _erasures(self) -> AsyncGenerator[Sequence[Any]]:
        yield await self._parts.erasures.of_user(self._scope, limit=MAX_RECEIPTS)


_TURN_FIELDS: Final = (
    "turn_id",
    "ordinal",
    "attempt",
    "state",
    "outcome",
    "reason",
    "flags",
    "profile_version",
    "recorded_at",
    "finished_at",
    "model",
    "usage",
    "durations_ms",
)


def _guidance_place(entry: Any) -> Position:
    return Position(entry.created_at, entry.guidance_id)


def _function_place(entry: Any) -> Position:
    return Position(entry.created_at, entry.function_id)


def _counts_of(usage: Any) -> dict[str, int]:
    return {name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "cached_input_tokens", "calls")}


def _file_name(name: str) -> str:
    """Of a table's name, what every file system takes; the name itself is in the list."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "table"
