"""Guidance (how-to) and functions (stored, never run) from the outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from memory.model.errors import InvalidInput
from memory.model.ids import short_hash
from memory.model.library import FunctionRecord, Guidance
from memory.model.owner import Owner
from memory.model.transcript import clean_text
from memory.ports import FunctionStore, GuidanceStore, Position
from starter.record_rows import Rows, Views, plain
from starter.who import MAX_SEARCH, Who, checked_limit, checked_query, ids_of, scope_of

MAX_TAGS: Final = 20
MAX_GUIDANCE_CHARS: Final = 64 * 1024
MAX_TITLE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class FoundGuidance:
    """``score``: only for comparing within one answer."""

    guidance: Guidance = field(repr=False)
    score: float


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """``score``: only for comparing within one answer."""

    function: FunctionRecord = field(repr=False)
    score: float


class GuidanceLibrary:
    """How things are done. Reads give the user's own entries and those of the user's teams.

    All methods raise MemoryUnavailable when a store is away.
    """

    def __init__(self, store: GuidanceStore, rows: Rows, views: Views) -> None:
        self._store = store
        self._rows = rows
        self._views = views

    async def add(self, who: Who, title: str, content: str, *, tags: Sequence[str] = (), team: str | None = None) -> Guidance:
        """Keep a how-to; the same title again replaces its content. Secrets in it are redacted. Returns what is stored now.

        Args:
            who: the user.
            title: at most 200 characters.
            content: at most 65,536 characters.
            tags: at most 20.
            team: for this team of the user's; None: the user's own.

        Raises:
            InvalidInput: a blank or too long text.
            NotPermitted: the user is not in that team.
        """
        scope = scope_of(who)
        title = " ".join(plain(title, "title", longest=MAX_TITLE_CHARS).split())
        content = plain(content, "content", longest=MAX_GUIDANCE_CHARS)
        if len(tags) > MAX_TAGS:
            raise InvalidInput(f"{len(tags)} tags; at most {MAX_TAGS} are accepted")
        tags = tuple(dict.fromkeys(plain(tag, "tag", longest=60) for tag in tags))
        owner = await self._views.owner(scope, team)
        now = datetime.now(UTC)
        entry = Guidance(
            guidance_id=f"g-{short_hash(owner.path, title.casefold())}",
            owner=owner.key,
            title=title,
            content=content,
            tags=tags,
            created_at=now,
            updated_at=now,
        )
        (stored,) = await self._store.add(owner, [entry], now=now)
        return stored

    async def search(self, who: Who, query: str, *, limit: int = 10) -> tuple[FoundGuidance, ...]:
        """Entries that fit, best first. Raises InvalidInput for an empty query."""
        query, limit = checked_query(query), checked_limit(limit, most=MAX_SEARCH)
        view = await self._views.of(scope_of(who))
        found = await self._rows.search(
            view,
            query,
            limit=limit,
            get=lambda ids: self._store.get(view, ids),
            everything=lambda most: self._store.list(view, limit=most),
            text=lambda entry: f"{entry.title} {entry.content} {' '.join(entry.tags)}",
        )
        return tuple(FoundGuidance(entry, score) for entry, score in found)

    async def get(self, who: Who, entry_id: str) -> Guidance | None:
        """None where the user may see no such entry."""
        (checked,) = ids_of([entry_id], "id")
        return (await self._store.get(await self._views.of(scope_of(who)), [checked])).get(checked)

    async def list(self, who: Who, *, limit: int = 100, after: str | Position | None = None) -> tuple[Guidance, ...]:
        """Newest first; ``after``: the last id of the page before."""
        view = await self._views.of(scope_of(who))
        return tuple(await self._store.list(view, limit=checked_limit(limit), after=after))

    async def forget(self, who: Who, ids: Collection[str] | str, *, team: str | None = None) -> int:
        """Remove entries for good; unknown ones and those of others are left alone. Returns how many there were."""
        return await _forget(self._store, self._rows, self._views, who, ids, team)


class FunctionLibrary:
    """Compositional functions: name, docstring, source, dependencies. They are stored and found, never run here.

    All methods raise MemoryUnavailable when a store is away.
    """

    def __init__(self, store: FunctionStore, rows: Rows, views: Views) -> None:
        self._store = store
        self._rows = rows
        self._views = views

    async def add(
        self,
        who: Who,
        name: str,
        source: str,
        *,
        docstring: str = "",
        dependencies: Sequence[str] = (),
        team: str | None = None,
    ) -> FunctionRecord:
        """Keep a function; the same name again replaces it. Returns what is stored now.

        Args:
            who: the user.
            name: letters, digits, ``_`` and ``.``, at most 200.
            source: at most 262,144 characters, kept as it is.
            docstring: what it does; this is what a search finds.
            dependencies: names of other functions that it calls.
            team: for this team of the user's; None: the user's own.

        Raises:
            InvalidInput: a name or a text that cannot be used; says which.
            NotPermitted: the user is not in that team.
        """
        scope = scope_of(who)
        owner = await self._views.owner(scope, team)
        now = datetime.now(UTC)
        fields: dict[str, Any] = {"name": name, "docstring": docstring, "source": source, "dependencies": tuple(dependencies)}
        entry = _function(owner, fields, now)
        (stored,) = await self._store.add(owner, [entry], now=now)
        return stored

    async def search(self, who: Who, query: str, *, limit: int = 10) -> tuple[FoundFunction, ...]:
        """Functions by their names and docstrings, best first. Raises InvalidInput for an empty query."""
        query, limit = checked_query(query), checked_limit(limit, most=MAX_SEARCH)
        view = await self._views.of(scope_of(who))
        found = await self._rows.search(
            view,
            query,
            limit=limit,
            get=lambda ids: self._store.get(view, ids),
            everything=lambda most: self._store.list(view, limit=most),
            text=lambda entry: f"{entry.name.replace('_', ' ').replace('.', ' ')} {entry.docstring}",
        )
        return tuple(FoundFunction(entry, score) for entry, score in found)

    async def get(self, who: Who, entry_id: str) -> FunctionRecord | None:
        """None where the user may see no such function."""
        (checked,) = ids_of([entry_id], "id")
        return (await self._store.get(await self._views.of(scope_of(who)), [checked])).get(checked)

    async def list(self, who: Who, *, limit: int = 100, after: str | Position | None = None) -> tuple[FunctionRecord, ...]:
        """Newest first; ``after``: the last id of the page before."""
        view = await self._views.of(scope_of(who))
        return tuple(await self._store.list(view, limit=checked_limit(limit), after=after))

    async def forget(self, who: Who, ids: Collection[str] | str, *, team: str | None = None) -> int:
        """Remove functions for good; unknown ones and those of others are left alone. Returns how many there were."""
        return await _forget(self._store, self._rows, self._views, who, ids, team)


async def _forget(
    store: GuidanceStore | FunctionStore, rows: Rows, views: Views, who: Who, ids: Collection[str] | str, team: str | None
) -> int:
    scope, wanted = scope_of(who), ids_of(ids, "id")
    owner = await views.owner(scope, team)
    gone = await store.delete(owner, wanted, now=datetime.now(UTC)) if wanted else 0
    if gone:
        await rows.settle(owner)
    return gone


def _function(owner: Owner, fields: Mapping[str, Any], now: datetime) -> FunctionRecord:
    try:
        entry = FunctionRecord.model_validate(
            {
                **fields,
                "function_id": f"fn-{short_hash(owner.path, str(fields['name']))}",
                "owner": owner.key,
                "created_at": now,
                "updated_at": now,
            }
        )
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"]) or "it"
        raise InvalidInput(f"the function is not valid: {place}: {first['msg']}") from None
    if not clean_text(entry.source).strip():
        raise InvalidInput("the function is not valid: its source is empty")
    return entry
