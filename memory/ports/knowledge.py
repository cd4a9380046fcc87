"""Knowledge: the table store and the store of loops.

Every method takes an Owner (writes) or a View (reads). What a caller can mend is a
:class:`~memory.model.knowledge.ToolProblem`; a table that the view does not show does not exist for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from memory.model.embedded import Embedding
from memory.model.knowledge import Distances, FilterQuery, JoinQuery, JoinStep, ReduceQuery, Row, Table, TableChange
from memory.model.knowledge_loop import Entry, Loop, LoopState
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports.pipeline import Usage
from memory.ports.records import Position


class Repeated(dict[str, Any]):
    """What :meth:`KnowledgeTables.write` gives where an earlier call with the same effect key made the change: its result."""


class KnowledgeTables(Protocol):
    """Typed tables of users and teams. Reads run in the database and are bounded."""

    async def tables(self, view: View) -> Sequence[Table]:
        """All that the view shows, by name, then source; contacts and built-in ones included."""
        ...

    async def write(self, owner: Owner, change: TableChange, *, effect: str, now: datetime) -> Mapping[str, Any]:
        """Make one change, whole or not at all, and return what its tool returns.

        ``effect``: the same key again changes nothing and gives the first result, as :class:`Repeated`.
        Raises ToolProblem, StoreUnavailable.
        """
        ...

    async def filter(self, view: View, query: FilterQuery) -> Mapping[str, Sequence[Row]]: ...

    async def reduce(self, view: View, query: ReduceQuery) -> Any: ...

    async def join(self, view: View, query: JoinQuery) -> Sequence[Row]: ...

    async def join_ranked(
        self, view: View, steps: Sequence[JoinStep], distances: Sequence[Distances], *, where: str | None = None, k: int = 10
    ) -> Sequence[Row]:
        """The ``k`` rows of a join with the smallest sum of distances. ``where``: over the selected names of the last step."""
        ...

    async def rows(self, table: Table, keys: Collection[int]) -> Mapping[int, Row]:
        """By unique key, as :meth:`filter` gives them."""
        ...

    async def export(self, view: View, table: Table, *, after: int | None = None, limit: int = 1_000) -> Sequence[Row]:
        """Rows by unique key, upwards, for an export."""
        ...


@dataclass(frozen=True, slots=True)
class WindowLoop:
    """A loop that a window opened, by whom it is found again."""

    scope: Scope
    loop_id: str


class LoopStore(Protocol):
    """Loops, their conversations, questions and answers. Text of users is here and not in Temporal."""

    async def open(self, scope: Scope, loop: Loop) -> Loop:
        """Record a loop before it is started; the same id again gives what is there."""
        ...

    async def loop(self, scope: Scope, loop_id: str) -> Loop | None: ...

    async def loops(
        self,
        scope: Scope,
        *,
        state: LoopState | None = None,
        parent: str | None = None,
        after: Position | None = None,
        limit: int = 50,
    ) -> Sequence[Loop]:
        """Newest first. ``parent``: only those with this one. ``after``: only those behind this place."""
        ...

    async def of_windows(self, scope: Scope | None, *, after: datetime, before: datetime, limit: int = 50) -> Sequence[WindowLoop]:
        """Those that windows opened between these times and that have not ended, oldest first. ``scope`` None: of everybody."""
        ...

    async def append(self, scope: Scope, loop_id: str, entries: Sequence[Entry], *, now: datetime) -> Sequence[Entry]:
        """Add entries under their keys; one whose key is there already is left as it is, and given back as it is, with its number.

        Numbers count up from 1 without gaps within a loop.
        """
        ...

    async def entries(self, scope: Scope, loop_id: str, *, after: int = 0, limit: int = 1_000) -> Sequence[Entry]: ...

    async def finish(
        self,
        scope: Scope,
        loop_id: str,
        *,
        state: LoopState,
        answer: str | None,
        structured: Any = None,
        reason: str | None = None,
        steps: int,
        usage: Usage,
        now: datetime,
    ) -> Loop:
        """Once; later calls give what the first one wrote."""
        ...


@dataclass(frozen=True, slots=True)
class RowText:
    """What of a row is embedded. ``text`` None: there is none. ``revision``: of the row when it was read; of contacts, a number
    made from the text."""

    revision: int
    text: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RowMark:
    """``live`` false: the row has no text in this column, so there is no vector."""

    row_key: int
    revision: int
    live: bool


@dataclass(frozen=True, slots=True)
class EmbeddedColumn:
    """``column_key``: see :func:`memory.model.embedded.embedding_of`."""

    owner: Owner
    table_id: int
    column_key: str


class KnowledgeEmbeddings(Protocol):
    """Which rows of tables the vector index holds, and in which revision; and the texts to be embedded."""

    async def behind(self, what: Embedding) -> tuple[Sequence[int], Sequence[int]]:
        """Keys of rows that are not embedded as they are now, newest first; and keys that are embedded and gone."""
        ...

    async def texts(self, what: Embedding, keys: Collection[int] | None = None, *, limit: int = 1_000) -> Mapping[int, RowText]:
        """By row, newest first. ``keys`` None: of the newest ``limit`` rows. Empty where the columns have changed since."""
        ...

    async def mark(self, column: EmbeddedColumn, marks: Sequence[RowMark]) -> None:
        """These rows are embedded in these revisions, whatever was marked before."""
        ...

    async def unmark(self, column: EmbeddedColumn, keys: Collection[int]) -> None: ...

    async def columns(self, *, after: EmbeddedColumn | None = None, limit: int = 100) -> Sequence[EmbeddedColumn]:
        """All columns of which something is embedded, in one order, for a reconciliation."""
        ...

    async def there(self, column: EmbeddedColumn) -> frozenset[int]:
        """Keys of the rows that can have such a vector: none, where the table is gone, or a column that it is made from."""
        ...

    async def marked(self, column: EmbeddedColumn) -> Mapping[int, RowMark]: ...

    async def reset(self) -> int:
        """Nothing is embedded, before a reindex. Returns rows."""
        ...
