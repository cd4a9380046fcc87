"""What the namespaces of records have in common: whose rows a user may see, and hybrid search over rows that have a vector."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from memory.model.errors import AfterturnError, InvalidInput, NotPermitted, StoreUnavailable
from memory.model.owner import Owner, View
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.ports import Directory, DocumentSource
from memory.retrieval.documents import Documents, rank

MAX_RANKED = 1_000
"""Rows that are ranked by their words while the vectors are away."""

Row = TypeVar("Row")

_log = logging.getLogger(__name__)


class Views:
    """Whose rows count. Teams are those that the directory has for the user, never what a caller says."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def of(self, scope: Scope) -> View:
        """The user's own rows and those of the user's teams. Raises MemoryUnavailable."""
        return View.of(scope, await self._directory.teams(scope))

    async def owner(self, scope: Scope, team: str | None) -> Owner:
        """Where a write goes: the user, or a team of the user's.

        Raises:
            NotPermitted: the user is not in that team.
            MemoryUnavailable: the directory is away.
        """
        if team is None:
            return Owner.user(scope)
        owner = Owner.team(scope.tenant, team)
        if team not in await self._directory.teams(scope):
            raise NotPermitted(f"the user is not in the team {ascii(team)[:60]}")
        return owner


class Rows:
    """Search over one kind of rows. Rows are the truth: what the index names is read again within the view."""

    def __init__(self, source: DocumentSource, documents: Documents) -> None:
        self._source = source
        self._documents = documents

    async def search(
        self,
        view: View,
        query: str,
        *,
        limit: int,
        get: Callable[[Sequence[str]], Awaitable[Mapping[str, Row]]],
        everything: Callable[[int], Awaitable[Sequence[Row]]],
        text: Callable[[Row], str],
    ) -> list[tuple[Row, float]]:
        """Rows with their scores, best first. One written a moment ago is found; while the vectors are away words alone count.

        Args:
            get: reads rows by id within the view.
            everything: reads the newest rows of the view, at most so many.
            text: what a row is found by.
        """
        try:
            found = await self._documents.search(view, self._source.kind, query, limit=limit, source=self._source)
        except StoreUnavailable as error:
            _log.warning("%s of %s are searched without vectors: %s", self._source.kind, view.scope.tenant, error.message)
            rows = await everything(MAX_RANKED)
            return [(rows[place], score) for place, score in rank(query, [text(row) for row in rows])[:limit]]
        rows_by_id = await get([one.document_id for one in found.found])
        return [(rows_by_id[one.document_id], one.score) for one in found.found if one.document_id in rows_by_id][:limit]

    async def settle(self, owner: Owner) -> None:
        """After a deletion: the vectors go too, now if they can be reached, else with the next pass of the sweeper."""
        try:
            await self._documents.sync(self._source, owner=owner, limit=1_000)
        except AfterturnError as error:
            _log.warning("vectors of deleted %s stay until the next pass: %s", self._source.kind, error.message)


def plain(text: str, what: str, *, longest: int) -> str:
    """Text as a store may have it: cleaned and without secrets. Raises InvalidInput when it is blank or too long."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the {what} is text, not {type(text).__name__}")
    if len(text) > longest:
        raise InvalidInput(f"the {what} has {len(text)} characters; at most {longest} are accepted")
    cleaned = redact(clean_text(text)).text.strip()
    if not cleaned:
        raise InvalidInput(f"the {what} is empty")
    return cleaned
