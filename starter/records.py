"""What a client offers on top of what the event window writes: facts, contacts, tasks, guidance, functions, the recorded messages.

``Records`` puts the parts together from ports; :class:`starter.MemoryClient` hands them out under its own names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from memory.categories.spec import Stores
from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment
from memory.model.routing import Route, route
from memory.ports import Directory, Usage, UsageLedger, UsageRow
from memory.retrieval import FoundEvent, SearchIndex
from starter.knowledge import LoopVerbs
from starter.loops import Loops
from starter.record_contacts import Contacts, Tasks
from starter.record_facts import Facts
from starter.record_library import FunctionLibrary, GuidanceLibrary
from starter.record_rows import Rows, Views
from starter.who import MAX_SEARCH, Who, checked_limit, checked_moment, checked_query, scope_of

MAX_TEAMS: Final = 1_000
MAX_NEIGHBOURS: Final = 10


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows by tenant, user, day, stage and model, newest day first. ``complete``: no row was left out."""

    rows: tuple[UsageRow, ...]
    total: Usage
    complete: bool


class Records:
    """For one event loop.

    Attributes:
        facts, contacts, tasks, guidance, functions: the namespaces.
    """

    def __init__(self, *, directory: Directory, stores: Stores, index: SearchIndex, usage: UsageLedger, loops: Loops) -> None:
        self._directory = directory
        self._index = index
        self._usage = usage
        documents, views = index.documents, Views(directory)
        self.facts = Facts(stores.facts, index.facts, Rows(stores.facts, documents), views)
        self.contacts = Contacts(stores.contacts, Rows(stores.contacts, documents), LoopVerbs(loops, "contacts"))
        self.tasks = Tasks(stores.tasks, LoopVerbs(loops, "tasks"))
        self.guidance = GuidanceLibrary(stores.guidance, Rows(stores.guidance, documents), views)
        self.functions = FunctionLibrary(stores.functions, Rows(stores.functions, documents), views)

    async def search_events(
        self,
        who: Who,
        query: str,
        *,
        contacts: Collection[int | str] | None = None,
        media: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        neighbours: int = 1,
    ) -> tuple[FoundEvent, ...]:
        """Recorded messages that fit, best first, each with what was said around it.

        Args:
            who: the user; nobody else's messages are ever found.
            query: any text, any language.
            contacts: only messages from or to one of these: contact ids, or sender ids.
            media: only on one of these (``chat``, ``email``, …).
            since, until: only said in this time, both inclusive.
            limit: 1 to 100.
            neighbours: so many messages before and after each, 0 to 10.

        Raises:
            InvalidInput: an empty query, a bound out of its range, a time without a zone.
            MemoryUnavailable: the database or the vectors are away.
        """
        scope, query, limit = scope_of(who), checked_query(query), checked_limit(limit, most=MAX_SEARCH)
        if isinstance(neighbours, bool) or not isinstance(neighbours, int) or not 0 <= neighbours <= MAX_NEIGHBOURS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"neighbours must be 0 to {MAX_NEIGHBOURS}")
        since, until = checked_moment(since, "since"), checked_moment(until, "until")
        if since is not None and until is not None and until < since:
            raise InvalidInput("until is before since")
        media = [media] if isinstance(media, str) else media
        people = [contacts] if isinstance(contacts, int | str) else contacts  # pyright: ignore[reportUnnecessaryIsInstance]
        found = await self._index.events.search(
            scope,
            query,
            senders=None if people is None else [one for one in people if isinstance(one, str)],
            contact_ids=None if people is None else [one for one in people if not isinstance(one, str)],
            media=media,
            since=since,
            until=until,
            limit=limit,
            neighbours=neighbours,
        )
        return tuple(found)

    @staticmethod
    def route(content: str) -> Route:
        """Which store a piece of content belongs to, and why: guidance, functions, facts, contacts, profile, tasks, nowhere."""
        if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"content is text, not {type(content).__name__}")
        return route(content)

    async def set_teams(self, who: Who, teams: Sequence[str], *, read_only: Collection[str] = ()) -> None:
        """The teams that the user belongs to, in place of those before; their facts, guidance and functions are seen too.

        Args:
            who: the user.
            teams: team ids.
            read_only: those of them whose tables the user reads and does not write.

        Raises InvalidInput for ids that cannot be used, BeingForgotten, MemoryUnavailable.
        """
        if isinstance(teams, str) or isinstance(read_only, str) or len(teams) > MAX_TEAMS:
            raise InvalidInput(f"teams are a list of at most {MAX_TEAMS} team ids")
        await self._directory.set_teams(scope_of(who), teams, read_only=read_only)

    async def teams(self, who: Who) -> tuple[str, ...]:
        """Raises MemoryUnavailable."""
        return tuple(await self._directory.teams(scope_of(who)))

    async def usage(
        self, who: Who | None = None, *, tenant: str | None = None, since: date | None = None, limit: int = 1_000
    ) -> UsageReport:
        """Tokens of language models by tenant, user, day (UTC), stage and model.

        Args:
            who: of this user only.
            tenant: of this company only, by its outside id.
            since: from this day on.
            limit: rows, 1 to 10,000.

        Raises:
            InvalidInput: an argument that cannot be used.
            MemoryUnavailable: the database is away.
        """
        scope = None if who is None else scope_of(who)
        if scope is not None and tenant is not None:
            raise InvalidInput("give a user or a tenant, not both")
        limit = checked_limit(limit, most=10_000)
        day = since.astimezone(UTC).date() if isinstance(since, datetime) else since
        company = None if tenant is None else encode_segment(tenant, what="tenant id")
        rows = await self._usage.rows(tenant=company, scope=scope, since=day, limit=limit + 1)
        shown = tuple(rows[:limit])
        return UsageReport(shown, sum((row.usage for row in shown), Usage(calls=0)), complete=len(rows) <= limit)
