"""The tools of one loop: what a model is offered, and the one way in which its calls are carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from memory.categories.spec import Stores
from memory.knowledge.arguments import check_size
from memory.knowledge.contacts_tools import ContactTools
from memory.knowledge.groups import (
    CLARIFY,
    CONTACT_TOOLS,
    CONTACT_WRITES,
    GROUPS,
    JOINS,
    OF_ROWS,
    READ_TOOLS,
    TASK_READ_TOOLS,
    TASK_READS,
    TASK_WRITES,
    TOOLS,
    WRITE_TOOLS,
    kind_of,
)
from memory.knowledge.guard import (
    DESTRUCTIVE,
    MERGING,
    Ground,
    check_merge,
    emptying_refusal,
    not_asked_for,
    not_asked_to_empty,
    refusal,
)
from memory.knowledge.guard_request import Scope, Target
from memory.knowledge.guard_values import EMPTYING, emptied
from memory.knowledge.lossless import nothing_is_lost
from memory.knowledge.read_tools import ReadTools, overview
from memory.knowledge.results import ToolOutcome, problem, rendered
from memory.knowledge.search import KnowledgeSearch
from memory.knowledge.tasks_tools import TaskReads, TaskTools
from memory.knowledge.write_tools import Destinations, WriteTools
from memory.model.errors import InvalidInput
from memory.model.knowledge import CONTACTS_TABLE, Table, ToolProblem
from memory.model.knowledge_loop import Loop, Operation
from memory.model.knowledge_names import name_key
from memory.model.knowledge_steps import CallKind
from memory.model.owner import Owner, View
from memory.model.tools import ToolCall, ToolDefinition
from memory.ports.knowledge import KnowledgeTables

__all__ = ["ToolOutcome", "Toolbox"]

MAX_ASKED_CHARS: Final = 16 * 1024
"""Of a question to the caller or to a loop of its own."""


class Toolbox:
    """Made anew for each step; holds nothing of a call."""

    def __init__(
        self,
        *,
        tables: KnowledgeTables,
        search: KnowledgeSearch,
        stores: Stores | None,
        view: View,
        loop: Loop,
        writable: Mapping[str, Owner],
        readable: Collection[str] = (),
    ) -> None:
        """
        Args:
            tables, search: of this deployment.
            stores: contacts and tasks, for the loops over them; None where there are none.
            view: what the user sees.
            loop: whose tools these are: its operation says which, its destination where is written by default.
            writable: destination → Owner that the user may write to.
            readable: destinations of the user's that only others may write to.
        """
        self._tables = tables
        self._search = search
        self._stores = stores
        self._view = view
        self._loop = loop
        bound = {name: owner for name, owner in writable.items() if not loop.only or name == loop.destination}
        self._destinations = Destinations(bound, frozenset((*readable, *(writable.keys() - bound.keys()))), loop.destination)

    def definitions(self, *, several_tables: bool) -> tuple[ToolDefinition, ...]:
        """What the model is offered. ``several_tables``: there is more than one, so that joins make sense."""
        return tuple(TOOLS[name].definition for name in self._names() if several_tables or name not in JOINS)

    def kind(self, name: str) -> CallKind:
        """How a call of this name is carried out; ``refused`` for one that this operation does not have."""
        return kind_of(name) if name in self._names() else CallKind.REFUSED

    async def run(self, call: ToolCall, *, effect: str, said: Sequence[str], moved: Collection[str], now: datetime) -> ToolOutcome:
        """Carry out one call. What the model can mend comes back as an error it can read; nothing is written then.

        Args:
            call: what the model asked for.
            effect: idempotency key of what it writes.
            said: the caller's own texts of this loop: request, interjections, answers to clarifications; nothing else.
            moved: what earlier steps of this loop have put elsewhere: see :func:`memory.knowledge.moved.moved_by`.
            now: the time of the step.

        Raises:
            StoreUnavailable: the call can be made again.
        """
        try:
            return await self._run(call, effect=effect, said=said, moved=moved, now=now)
        except ToolProblem as error:
            return problem(error)
        except InvalidInput as error:
            return problem(ToolProblem("bad_arguments", error.message))

    async def overview(self) -> Mapping[str, Any]:
        """As ``tables_overview`` gives it."""
        return overview(await self._tables.tables(self._view))

    async def _run(self, call: ToolCall, *, effect: str, said: Sequence[str], moved: Collection[str], now: datetime) -> ToolOutcome:
        kind = self.kind(call.name)
        if kind is CallKind.REFUSED:
            raise ToolProblem("not_permitted", self._refusal(call.name))
        check_size(call.raw)
        arguments = TOOLS[call.name].bind(call.arguments)
        if kind in (CallKind.CLARIFY, CallKind.NESTED):
            (text,) = arguments.values()
            if not text.strip():
                raise ToolProblem("bad_arguments", f"the text of {call.name} is empty")
            return ToolOutcome("", asked=text[:MAX_ASKED_CHARS])
        if kind is CallKind.WRITE:
            self._check_bound(arguments)
        # The text of a loop within a loop is a model's.
        own = said if self._loop.parent is None else ()
        if call.name in DESTRUCTIVE:
            await self._check_deletion(call.name, arguments, own, moved)
        elif call.name in EMPTYING:
            await self._check_emptying(call.name, arguments, own, moved)
        elif call.name == MERGING:
            check_merge(own)
        hand = self._hand(call.name, effect=effect, now=now)
        content, rows = rendered(await getattr(hand, call.name)(**arguments))
        return ToolOutcome(content, rows=rows)

    def _hand(self, name: str, *, effect: str, now: datetime) -> object:
        """What carries out a tool: the one place where a name becomes a call. Only names of the operation's group come here."""
        scope, stores = self._view.scope, self._stores
        if name in READ_TOOLS:
            return ReadTools(self._tables, self._search, self._view)
        if name in WRITE_TOOLS:
            return WriteTools(self._tables, self._search, self._view, self._destinations, effect=effect, now=now)
        assert stores is not None  # noqa: S101 - else these are not in the group
        if name in CONTACT_TOOLS:
            origin = f"loop:{self._loop.loop_id}"
            return ContactTools(stores.contacts, scope, effect=effect, origin=origin, now=now)
        if name in TASK_READ_TOOLS:
            return TaskReads(stores.tasks, scope)
        return TaskTools(stores.tasks, scope, effect=effect, now=now)

    async def _check_deletion(self, name: str, arguments: Mapping[str, Any], said: Sequence[str], moved: Collection[str]) -> None:
        """Raises ToolProblem ``not_permitted`` for a deletion that nobody asked for."""
        destination, ground = await self._ground(arguments, said)
        for target in not_asked_for(name, arguments, ground):
            if not await self._is_elsewhere(DESTRUCTIVE[name], target, destination, ground.tables, moved):
                raise refusal(name, target, self._loop.operation)

    async def _check_emptying(self, name: str, arguments: Mapping[str, Any], said: Sequence[str], moved: Collection[str]) -> None:
        """Raises ToolProblem ``not_permitted`` for a change after which values are gone, and nobody asked for that."""
        destination, ground = await self._ground(arguments, said)
        found = await emptied(self._tables, self._view, name, arguments, ground.tables)
        if found is None:
            return
        table, counts = found
        for target in not_asked_to_empty(table, counts, ground):
            if not await self._is_elsewhere("column", target, destination, ground.tables, moved):
                raise emptying_refusal(name, target, counts[target.column or ""])

    async def _ground(self, arguments: Mapping[str, Any], said: Sequence[str]) -> tuple[str, Ground]:
        """The destination of a call, and what it is judged by."""
        destination = arguments["destination"] or self._loop.destination
        owner = self._destinations.owner(destination)
        seen = await self._tables.tables(self._view)
        tables = [table for table in seen if table.owner == owner and name_key(table.name) != name_key(CONTACTS_TABLE)]
        return destination, Ground(said, tables, {table.name for table in seen})

    async def _is_elsewhere(
        self, scope: Scope, target: Target, destination: str, tables: Sequence[Table], moved: Collection[str]
    ) -> bool:
        """Only ``refactor`` puts things elsewhere."""
        return self._loop.operation is Operation.REFACTOR and await nothing_is_lost(
            self._tables, self._view, scope, target, destination=destination, tables=tables, moved=moved
        )

    def _check_bound(self, arguments: Mapping[str, Any]) -> None:
        """Raises ToolProblem where the loop may write to some tables only, and this is another one."""
        only = self._loop.only
        if only and name_key(str(arguments.get("table")).rpartition(".")[2]) not in map(name_key, only):
            raise ToolProblem("not_permitted", f"only rows of these tables may be added or changed here: {', '.join(only)}")

    def _names(self) -> tuple[str, ...]:
        names = GROUPS[self._loop.operation]
        if self._stores is None:
            names = tuple(name for name in names if name not in (*CONTACT_WRITES, *TASK_READS, *TASK_WRITES))
        if self._loop.only:
            names = tuple(name for name in names if name in OF_ROWS)
        return (*names, CLARIFY) if self._loop.clarify else names

    def _refusal(self, name: str) -> str:
        if name in TOOLS and kind_of(name) is CallKind.WRITE and not self._loop.operation.writes:
            return f"{name} is refused: {self._loop.operation.value} only reads and can change nothing; answer from what is there"
        return f"there is no tool {name[:64]!r} here; there are: {', '.join(self._names())}"
