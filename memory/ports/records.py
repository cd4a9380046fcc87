"""What the event window writes: facts, contacts, tasks, guidance, functions (SQL). Rows are the truth; vectors can be rebuilt.

Row-level scoping: every method takes an Owner (writes) or a View (reads) and cannot be asked without. Every write carries an
``effect`` key: the same key again changes nothing and gives the first result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from memory.model.contact import Contact, ContactChange
from memory.model.fact import Fact, FactKind, FactStatus, Source
from memory.model.library import FunctionRecord, Guidance
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import Task, TaskStatus


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a list that is ordered by creation: right behind this item, also when it is gone by now."""

    created_at: datetime
    item_id: str


# ------------------------------------------------------------------------------------------------------ index of documents


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """A row as the index sees it. ``live`` false: its vector has to go. ``payload``: what vectors are filtered by.

    ``counted``: the terms that the statistics hold of it, None where they do not hold it: those of the revision that was indexed.
    """

    document_id: str
    owner: Owner
    revision: int
    live: bool
    text: str = field(repr=False)
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    counted: Sequence[int] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class IndexMark:
    """``terms``: distinct terms of what was indexed, ``length`` its tokens; empty and 0 for one that is not live."""

    document_id: str
    owner: Owner
    revision: int
    terms: tuple[int, ...]
    length: int


class DocumentSource(Protocol):
    """Rows that have a vector. A change of a row raises its revision; the row is pending until that revision is marked."""

    @property
    def kind(self) -> str:
        """``facts``, ``contacts``, ``guidance`` or ``functions``."""
        ...

    async def pending(self, *, owner: Owner | None = None, limit: int = 200) -> Sequence[IndexDocument]: ...

    async def mark_indexed(self, marks: Sequence[IndexMark]) -> int:
        """In one transaction: the revision is indexed, and the owner's term statistics hold these terms in place of those marked
        before. A row that has changed again stays pending; a row that is gone for good is removed now. Returns rows marked."""
        ...

    async def documents(self, *, after: tuple[str, str] | None, limit: int = 500) -> Sequence[IndexDocument]:
        """All rows by (owner path, document id), for a reconciliation."""
        ...

    async def reset_index(self, tenant: str | None = None) -> int:
        """Everything is pending again and term statistics are emptied; before a reindex. Returns rows."""
        ...


# ------------------------------------------------------------------------------------------------------------------- facts


@dataclass(frozen=True, slots=True)
class AddFact:
    """``supersedes``: ids of active facts of the same owner that end with it. ``key``: normalised statement; of active facts of
    one owner it is unique: where another holds it, that one is confirmed instead."""

    effect: str
    fact: Fact
    key: str
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfirmFact:
    """Add sources to a fact. A source (event and quote) that is there already is not added again."""

    effect: str
    fact_id: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class EndFact:
    """Withdraw an active fact (``invalidated``)."""

    effect: str
    fact_id: str


FactChange = AddFact | ConfirmFact | EndFact


@dataclass(frozen=True, slots=True)
class FactResult:
    """``repeated``: this effect had been applied before; the rest says what it did then.

    ``forgotten``: nothing was added, because all that it rests on had been forgotten.
    """

    effect: str
    did: Literal["added", "superseded", "confirmed", "ended", "nothing", "forgotten"]
    fact_id: str
    superseded: tuple[str, ...] = ()
    repeated: bool = False


class FactStore(DocumentSource, Protocol):
    async def apply(self, owner: Owner, changes: Sequence[FactChange], *, now: datetime) -> Sequence[FactResult]:
        """All of them in one transaction. A fact to end, to confirm or to supersede that is not an active one of this owner is left
        alone (``nothing``, or added without superseding it)."""
        ...

    async def get(self, view: View, fact_ids: Collection[str], *, sources: bool = False) -> Mapping[str, Fact]: ...

    async def by_key(self, owner: Owner, keys: Collection[str]) -> Mapping[str, Fact]:
        """Active facts by their key."""
        ...

    async def list(
        self,
        view: View,
        *,
        statuses: Collection[FactStatus] = (FactStatus.ACTIVE,),
        kinds: Collection[FactKind] | None = None,
        subject: str | None = None,
        as_of: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> Sequence[Fact]:
        """Newest first; ``after``: last fact of the page before; where only its id is given it must still be there.

        ``as_of``: those that held then, whatever their status now.
        """
        ...

    async def history(self, view: View, fact_id: str) -> Sequence[Fact]:
        """The chain that this fact belongs to, oldest first, with sources; empty where the user may not see it."""
        ...

    async def delete(self, owner: Owner, fact_ids: Collection[str], *, now: datetime) -> int:
        """Forget: the text, its sources and its key are gone at once, the row when its vector is.

        What rests on the same words of the same messages is not added again (``forgotten``): a rerun of an old window does not
        bring it back. The same said anew, or added by a person, is.
        """
        ...


# ---------------------------------------------------------------------------------------------------------------- contacts


@dataclass(frozen=True, slots=True)
class CreateContact:
    """``fields``: of :class:`Contact`. ``aliases``: sender ids. Where an alias or a unique field belongs to a contact already, that
    one gets the fields that it does not have yet.

    ``seen_at``: when somebody wrote or was written to under these ids, where that is why there is to be a contact: one that was
    forgotten since is not made again.
    """

    effect: str
    fields: Mapping[str, Any] = field(repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class UpdateContact:
    effect: str
    contact_id: int
    fields: Mapping[str, Any] = field(repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class MergeContacts:
    """``drop`` is merged into ``keep``: empty fields are filled, aliases, tasks, provenance and history move. System contacts are
    only ever kept."""

    effect: str
    keep: int
    drop: int
    sources: tuple[Source, ...] = field(default=(), repr=False)


ContactChangeRequest = CreateContact | UpdateContact | MergeContacts


@dataclass(frozen=True, slots=True)
class ContactResult:
    """``conflict``: the unique field that belongs to another contact, or ``system``, ``unknown``, ``forgotten`` (it had been, and
    nothing newer speaks of it); nothing was written for it."""

    effect: str
    contact_id: int
    did: Literal["created", "updated", "merged", "nothing"]
    changed: tuple[str, ...] = ()
    conflict: str | None = None
    repeated: bool = False


class ContactStore(DocumentSource, Protocol):
    """Contacts 0 and 1 exist from the first use on."""

    async def apply(
        self, scope: Scope, changes: Sequence[ContactChangeRequest], *, origin: str, now: datetime
    ) -> Sequence[ContactResult]:
        """All in one transaction; each change of a field is in the history. Raises InvalidInput for values that the rules of
        :mod:`memory.model.contact_rules` refuse."""
        ...

    async def get(self, scope: Scope, contact_ids: Collection[int]) -> Mapping[int, Contact]:
        """A merged contact's id gives the one that it was merged into."""
        ...

    async def by_alias(self, scope: Scope, sender_ids: Collection[str]) -> Mapping[str, Contact]:
        """By sender or receiver id: an alias, a contact id in digits, or a unique field. ``user`` is 1, ``assistant`` 0."""
        ...

    async def list(
        self, scope: Scope, *, where: Mapping[str, Any] | None = None, limit: int = 100, after: int | None = None
    ) -> Sequence[Contact]:
        """By id. ``where``: equality on fields (InvalidInput for an unknown one). Merged ones are left out."""
        ...

    async def history(self, scope: Scope, contact_id: int, *, limit: int = 200) -> Sequence[ContactChange]:
        """Oldest first, what was merged into it included."""
        ...

    async def sources(self, scope: Scope, contact_id: int) -> Sequence[Source]:
        """What the contact rests on, oldest first, what was merged into it included."""
        ...

    async def delete(self, scope: Scope, contact_ids: Collection[int], *, now: datetime) -> int:
        """Forget contacts, with what was merged into them, their sender ids, history and sources; tasks lose the link to them.

        Those of the system are left alone. The texts are gone at once, the row when its vector is; a rerun of an old window does
        not bring it back. Returns how many there were.
        """
        ...


# ------------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True)
class CreateTask:
    """``key``: normalised name; among live tasks it is unique: where another holds it, that one gets the fields instead."""

    effect: str
    task: Task
    key: str


@dataclass(frozen=True, slots=True)
class UpdateTask:
    effect: str
    task_id: str
    fields: Mapping[str, Any] = field(repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TaskResult:
    effect: str
    task_id: str
    did: Literal["created", "updated", "confirmed", "nothing", "forgotten"]
    """``forgotten``: nothing was created, because all that it rests on had been forgotten."""
    repeated: bool = False


class TaskStore(Protocol):
    async def apply(self, scope: Scope, changes: Sequence[CreateTask | UpdateTask], *, now: datetime) -> Sequence[TaskResult]: ...

    async def get(self, scope: Scope, task_ids: Collection[str], *, sources: bool = False) -> Mapping[str, Task]: ...

    async def list(
        self,
        scope: Scope,
        *,
        statuses: Collection[TaskStatus] | None = None,
        contact_id: int | None = None,
        due_before: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> Sequence[Task]:
        """Newest first; None for statuses: all."""
        ...

    async def delete(self, scope: Scope, task_ids: Collection[str], *, now: datetime) -> int:
        """Forget tasks with their sources; a rerun of an old window does not bring them back. Returns how many there were."""
        ...


# ----------------------------------------------------------------------------------------------------- guidance, functions


class GuidanceStore(DocumentSource, Protocol):
    async def add(self, owner: Owner, items: Sequence[Guidance], *, now: datetime) -> Sequence[Guidance]:
        """The same title again replaces the content (one entry). Returns what is stored now."""
        ...

    async def get(self, view: View, ids: Collection[str]) -> Mapping[str, Guidance]: ...

    async def list(self, view: View, *, limit: int = 100, after: str | Position | None = None) -> Sequence[Guidance]: ...

    async def delete(self, owner: Owner, ids: Collection[str], *, now: datetime) -> int: ...


class FunctionStore(DocumentSource, Protocol):
    async def add(self, owner: Owner, items: Sequence[FunctionRecord], *, now: datetime) -> Sequence[FunctionRecord]:
        """By name; the same name again replaces it."""
        ...

    async def get(self, view: View, ids: Collection[str]) -> Mapping[str, FunctionRecord]: ...

    async def list(self, view: View, *, limit: int = 100, after: str | Position | None = None) -> Sequence[FunctionRecord]: ...

    async def delete(self, owner: Owner, ids: Collection[str], *, now: datetime) -> int: ...
