"""Knowledge from the outside: three operations in plain language, and the tables themselves.

``ask`` reads, ``update`` makes true what is said, ``refactor`` puts the tables in order. Each is recorded, starts a durable loop
and gives back a handle at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, TypeVar

from memory.model.errors import InvalidInput
from memory.model.federation import LEFT_OUT
from memory.model.ids import new_id, short_hash
from memory.model.knowledge import PERSONAL, AddRows, CreateTable, FilterQuery, Row, Table, TableChange, ToolProblem
from memory.model.knowledge_loop import Entry, Limits, Loop, LoopState, Operation
from memory.model.knowledge_names import name_key
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import Directory, Position
from memory.ports.knowledge import KnowledgeTables, Repeated
from starter.loops import Loops, Request
from starter.steering import SteerableHandle
from starter.who import Who, checked_limit, scope_of

T = TypeVar("T")

IMPORT_BATCH: Final = 500
EXPORT_PAGE: Final = 1_000


class LoopVerbs:
    """``ask`` and ``update`` of one manager, each a loop. The arguments are those of :class:`Knowledge`."""

    def __init__(self, loops: Loops, manager: str) -> None:
        self._loops = loops
        self._ask = Operation(f"{manager}.ask")
        self._update = Operation(f"{manager}.update")

    async def ask(self, who: Who, text: str, **options: Any) -> SteerableHandle:
        return await begun(self._loops, who, Request(operation=self._ask, text=text, **_named(options)))

    async def update(self, who: Who, text: str, **options: Any) -> SteerableHandle:
        return await begun(self._loops, who, Request(operation=self._update, text=text, **_named(options)))


class Knowledge:
    """The knowledge of users: personal tables, those of their teams, and those that the deployment ships.

    All methods raise MemoryUnavailable when the database is away, and InvalidInput for what cannot be used.
    """

    def __init__(self, loops: Loops, tables: KnowledgeTables, directory: Directory) -> None:
        self._loops = loops
        self._tables = tables
        self._directory = directory

    # ---------------------------------------------------------------------------------------------------------- operations

    async def ask(
        self,
        who: Who,
        text: str,
        *,
        case_specific_instructions: str | None = None,
        destination: str = PERSONAL,
        response_format: Mapping[str, Any] | None = None,
        context: Sequence[Mapping[str, str]] | None = None,
        clarify: bool = False,
        limits: Limits | None = None,
        loop_id: str | None = None,
        language_model: str | None = None,
    ) -> SteerableHandle:
        """Have a question answered from the tables. Nothing is ever changed.

        Args:
            who: the user.
            text: the question, at most 64 KiB.
            case_specific_instructions: for this call, beside the system prompt; at most 16 KiB.
            destination: ``personal`` or ``team:<id>``.
            response_format: JSON schema of a structured answer; the answer is checked against it.
            context: the chat that it came from, read only: up to 50 of ``{"role", "content"}``, oldest first.
            clarify: somebody listens to :meth:`SteerableHandle.next_clarification`, so that the loop may ask.
            limits: of steps, tokens and time; never more than the settings allow.
            loop_id: makes a repeated call the same loop; a new id by default.
            language_model: ``provider:model``; the deployment's by default.

        Raises:
            InvalidInput: an argument that cannot be used, or an unknown team; nothing was recorded.
            NotPermitted: a team whose tables the user may only read.
            MemoryUnavailable: the database is away; or Temporal, then the loop is recorded and :meth:`attach` starts it.
        """
        request = Request(
            operation=Operation.ASK,
            text=text,
            instructions=case_specific_instructions,
            destination=destination,
            response_format=response_format,
            context=context,
            clarify=clarify,
            limits=limits,
            loop_id=loop_id,
            model=language_model,
        )
        return await begun(self._loops, who, request)

    async def update(self, who: Who, text: str, **options: Any) -> SteerableHandle:
        """Have the tables say what ``text`` says: new facts, corrections, deletions that it asks for. Arguments and errors as
        :meth:`ask`; ``destination`` is where new tables and rows go. ``said``: where a program wrote ``text``, the messages of its
        user, oldest first: only they can ask for a deletion then."""
        return await begun(self._loops, who, Request(operation=Operation.UPDATE, text=text, **_named(options)))

    async def refactor(self, who: Who, text: str, **options: Any) -> SteerableHandle:
        """Have the tables put in order: no duplication, clear names, keys. The answer reports what was moved. Arguments and errors
        as :meth:`ask`."""
        return await begun(self._loops, who, Request(operation=Operation.REFACTOR, text=text, **_named(options)))

    async def attach(self, who: Who, loop_id: str) -> SteerableHandle:
        """The handle of a loop that somebody began, from any process. One that was recorded and does not run is started.

        Raises:
            InvalidInput: the user has no such loop.
            MemoryUnavailable: it has to be started, and Temporal is away.
        """
        scope = scope_of(who)
        loop = await self._loops.find(scope, loop_id)
        await self._loops.start(scope, loop)
        return SteerableHandle(self._loops, scope, loop)

    async def loop(self, who: Who, loop_id: str) -> Loop | None:
        """The request and how it ended, as it is recorded; nothing is started. None: the user has no such loop."""
        return await self._loops.store.loop(scope_of(who), loop_id)

    async def entries(self, who: Who, loop_id: str, *, after: int = 0, limit: int = 100) -> tuple[Entry, ...]:
        """A page of what was said and done in a loop, beyond entry ``after``; nothing is started."""
        return tuple(await self._loops.store.entries(scope_of(who), loop_id, after=after, limit=checked_limit(limit)))

    async def loops(self, who: Who, *, running: bool = False, after: Position | None = None, limit: int = 50) -> tuple[Loop, ...]:
        """The user's loops, newest first, those within others included.

        Args:
            who: the user.
            running: only those that have not ended.
            after: for the next page: the last loop of this one.
            limit: 1 to 1,000.
        """
        state = LoopState.RUNNING if running else None
        return tuple(await self._loops.store.loops(scope_of(who), state=state, after=after, limit=checked_limit(limit)))

    # -------------------------------------------------------------------------------------------------------------- tables

    async def tables(self, who: Who) -> tuple[Table, ...]:
        """All that the user sees, by name; contacts and built-in ones included."""
        return tuple(await self._tables.tables(await self._view(scope_of(who))))

    async def show(self, who: Who, table: str, *, where: str | None = None, offset: int = 0, limit: int = 100) -> tuple[Row, ...]:
        """Rows of a table (of all tables of that name that the user sees), newest key first, each with its ``_source``.

        Args:
            who: the user.
            table: its name; ``personal.<name>`` or ``team:<id>.<name>`` for one of several.
            where: a Python expression over its columns.
            offset: rows left out.
            limit: 1 to 1,000.
        """
        query = FilterQuery(where, offset, checked_limit(limit), (table,))
        found = await _mendable(self._tables.filter(await self._view(scope_of(who)), query))
        return tuple(row for name, rows in found.items() if name != LEFT_OUT for row in rows)

    async def export(self, who: Who, table: str) -> AsyncGenerator[Row]:
        """All rows of one table by unique key, upwards. Raises InvalidInput where several tables of that name are seen."""
        view = await self._view(scope_of(who))
        named = [one for one in await self._tables.tables(view) if table in (one.name, f"{one.source}.{one.name}")]
        if not named:
            raise InvalidInput(f"there is no table {ascii(table)[:80]} that the user sees")
        if len(named) > 1:
            raise InvalidInput("several tables have this name: " + ", ".join(f"{one.source}.{one.name}" for one in named))
        after: int | None = None
        while True:
            page = await self._tables.export(view, named[0], after=after, limit=EXPORT_PAGE)
            for row in page:
                yield row
            if len(page) < EXPORT_PAGE:
                return
            after = int(page[-1][named[0].unique_key])

    async def import_rows(
        self,
        who: Who | None,
        table: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        destination: str = PERSONAL,
        description: str | None = None,
        create: CreateTable | None = None,
        import_id: str | None = None,
    ) -> int:
        """Add rows to a table, which is made where it is not there; missing columns are made with the types of their values.

        Batches of 500 rows, each whole or not at all.

        Args:
            who: the user; None: a built-in table, which every user reads and no user writes.
            table: its name.
            rows: column → value.
            destination: ``personal`` or ``team:<id>``.
            description: of a new table.
            create: a new table as a whole: its key, its columns with their types.
            import_id: makes a repeated call with the same rows the same import, as long as the table is the same one; a new id by
                default.

        Returns how many rows this call added: none where an earlier one with the same ``import_id`` did.

        Raises:
            InvalidInput: a name, a column or a value that cannot be; the batches before the one that the message names were added.
            NotPermitted: a team whose tables the user may only read.
        """
        owner, view = await self._destination(who, destination)
        there = await self._table(owner, view, create or CreateTable(table, description))
        # A table that was deleted and made anew is another one.
        effect = f"import/{short_hash(import_id or new_id())}/{there.table_id}"
        added = seen = 0
        waiting = iter(rows)
        while batch := list(islice(waiting, IMPORT_BATCH)):
            what = f"rows {seen + 1} to {seen + len(batch)}"
            written = await self._change(owner, AddRows(table, batch), f"{effect}/{seen}", what)
            seen += len(batch)
            added += 0 if isinstance(written, Repeated) else int(written["details"]["length"])
        return added

    async def change(
        self, who: Who, change: TableChange, *, destination: str = PERSONAL, change_id: str | None = None
    ) -> Mapping[str, Any]:
        """Make one change of a table without a loop, whole or not at all; gives what the tool of its name gives.

        Args:
            who: the user.
            change: such as :class:`~memory.model.knowledge.TransformColumn`.
            destination: ``personal`` or ``team:<id>``.
            change_id: the same id again changes nothing and gives the first result; a new id by default.

        Raises:
            InvalidInput: what cannot be changed so; says why.
            NotPermitted: a team whose tables the user may only read.
        """
        owner, _ = await self._destination(who, destination)
        return await self._change(owner, change, f"change/{short_hash(change_id or new_id())}")

    async def _table(self, owner: Owner, view: View, create: CreateTable) -> Table:
        """The owner's table of this name, which is made where it is not there. Raises InvalidInput."""
        if there := await self._named(owner, view, create.name):
            return there
        try:
            # Its name says whether it is there, so that one that was deleted since an earlier import is made again.
            await self._tables.write(owner, create, effect=f"import/{new_id()}/table", now=datetime.now(UTC))
        except ToolProblem as problem:
            made = await self._named(owner, view, create.name) if problem.code == "name_taken" else None
            if made is None:
                raise InvalidInput(f"the table: {problem.message}") from None
            return made  # by another call at the same time
        if there := await self._named(owner, view, create.name):
            return there
        raise InvalidInput(f"the table {ascii(create.name)[:80]} was deleted while rows were about to be added")

    async def _named(self, owner: Owner, view: View, name: str) -> Table | None:
        tables = await self._tables.tables(view)
        return next((one for one in tables if one.owner == owner and name_key(one.name) == name_key(name)), None)

    async def check_destination(self, who: Who, destination: str) -> None:
        """Whether the user may write there. Raises InvalidInput for what there is not, NotPermitted."""
        await self._loops.check_destination(scope_of(who), destination)

    async def _destination(self, who: Who | None, destination: str) -> tuple[Owner, View]:
        if who is None:
            return Owner.built_in(), View(Scope.of("built-in", "operator"))
        scope = scope_of(who)
        await self._loops.check_destination(scope, destination)
        team = destination.partition(":")[2]
        return Owner.team(scope.tenant, team) if team else Owner.user(scope), await self._view(scope)

    async def _change(self, owner: Owner, change: TableChange, effect: str, what: str = "") -> Mapping[str, Any]:
        return await _mendable(self._tables.write(owner, change, effect=effect, now=datetime.now(UTC)), what)

    async def _view(self, scope: Scope) -> View:
        return View.of(scope, await self._directory.teams(scope))


async def begun(loops: Loops, who: Who, request: Request) -> SteerableHandle:
    scope = scope_of(who)
    return SteerableHandle(loops, scope, await loops.begin(scope, request))


_OPTIONS: Final[Mapping[str, str]] = {
    "case_specific_instructions": "instructions",
    "destination": "destination",
    "response_format": "response_format",
    "context": "context",
    "clarify": "clarify",
    "limits": "limits",
    "loop_id": "loop_id",
    "language_model": "model",
    "said": "said",
}


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an operation as the fields of a Request. Raises InvalidInput for one that there is not."""
    if unknown := sorted(options.keys() - _OPTIONS.keys()):
        raise InvalidInput(f"there is no argument {unknown[0]}; there are: {', '.join(_OPTIONS)}")
    return {_OPTIONS[name]: value for name, value in options.items()}


async def _mendable(work: Awaitable[T], what: str = "") -> T:
    """What a caller of the store can mend, as an error of ours. Its message may name tables, columns and values of the caller's."""
    try:
        return await work
    except ToolProblem as problem:
        raise InvalidInput(f"{what}: {problem.message}" if what else problem.message) from None
