"""Contacts and tasks from the outside."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, overload

from memory.model.contact import SYSTEM_CONTACTS, Contact, ContactChange
from memory.model.errors import InvalidInput
from memory.model.fact import Source
from memory.model.ids import new_id, short_hash
from memory.model.owner import Owner, View
from memory.model.redaction import redact
from memory.model.task import Task, TaskStatus
from memory.ports import (
    ContactChangeRequest,
    ContactResult,
    ContactStore,
    CreateContact,
    MergeContacts,
    Position,
    TaskStore,
    UpdateContact,
    UpdateTask,
)
from starter.knowledge import LoopVerbs
from starter.record_rows import Rows
from starter.steering import SteerableHandle
from starter.task_fields import task_fields
from starter.who import MAX_IDS, MAX_SEARCH, Who, checked_limit, checked_moment, checked_query, ids_of, scope_of, words_of

ORIGIN: Final = "manual"
_LONG_FIELDS: Final = ("job_title", "bio", "rolling_summary", "response_policy")
"""Where a secret may have got in; names and addresses are what they are."""


@dataclass(frozen=True, slots=True)
class FoundContact:
    """``score``: only for comparing within one answer."""

    contact: Contact = field(repr=False)
    score: float


class Contacts:
    """The contacts of a user. Id 0 is the assistant, id 1 the user. All methods raise MemoryUnavailable when a store is away."""

    def __init__(self, store: ContactStore, rows: Rows, verbs: LoopVerbs) -> None:
        self._store = store
        self._rows = rows
        self._verbs = verbs
        # A loop in the words of the user, as that of knowledge; see starter.knowledge.
        self.ask = verbs.ask

    async def filter(self, who: Who, *, limit: int = 100, after: int | None = None, **fields: Any) -> tuple[Contact, ...]:
        """Contacts by id whose fields are exactly these (all, without fields): ``filter(who, first_name="Ada")``; None: not known.

        Args:
            who: the user.
            limit: 1 to 1,000.
            after: the last contact id of the page before.
            fields: of :class:`memory.model.contact.Contact`.

        Raises:
            InvalidInput: there is no such field, or it cannot hold such a value.
        """
        return tuple(await self._store.list(scope_of(who), where=fields, limit=checked_limit(limit), after=after))

    async def get(self, who: Who, contact: int | str) -> Contact | None:
        """By id, or by an address, a number or a sender id. One that was merged away gives the one that it is now."""
        scope = scope_of(who)
        if isinstance(contact, str):
            return (await self._store.by_alias(scope, [contact])).get(contact) if contact.strip() else None
        return (await self._store.get(scope, [_contact_id(contact)])).get(contact)

    async def search(self, who: Who, text: str, *, limit: int = 10) -> tuple[FoundContact, ...]:
        """Contacts that fit a description, best first: names, job titles, bios, summaries; an exact address or number comes first.

        Raises InvalidInput for an empty text.
        """
        scope, text, limit = scope_of(who), checked_query(text), checked_limit(limit, most=MAX_SEARCH)
        view = View(scope)

        async def get(ids: Sequence[str]) -> dict[str, Contact]:
            found = await self._store.get(scope, [int(one) for one in ids if one.isdecimal()])
            return {str(contact_id): contact for contact_id, contact in found.items()}

        async def everything(most: int) -> Sequence[Contact]:
            return await self._store.list(scope, limit=most)

        exact = (await self._store.by_alias(scope, [text.strip()])).get(text.strip())
        ranked = await self._rows.search(view, text, limit=limit, get=get, everything=everything, text=_words)
        best = max((score for _, score in ranked), default=1.0)
        answer = [FoundContact(exact, best)] if exact is not None else []
        seen = {exact.contact_id} if exact is not None else set[int]()
        for contact, score in ranked:
            if contact.contact_id not in seen:
                seen.add(contact.contact_id)
                answer.append(FoundContact(contact, score))
        return tuple(answer[:limit])

    async def add(self, who: Who, *, aliases: Sequence[str] = (), request_id: str | None = None, **fields: Any) -> Contact:
        """A new contact; where an alias or a unique field belongs to one already, that one gets what it does not have yet.

        Args:
            who: the user.
            aliases: sender ids under which it writes.
            request_id: makes a repeated call the same call.
            fields: of :class:`memory.model.contact.Contact`.

        Raises:
            InvalidInput: a field that there is not or a value that it may not hold; a unique field of another contact.
        """
        if not fields and not aliases:
            raise InvalidInput("a contact needs at least one field or sender id")
        cleaned = await asyncio.to_thread(_clean, fields)
        return await self._apply(who, CreateContact(_effect(request_id), cleaned, tuple(ids_of(aliases, "sender id"))))

    @overload
    async def update(self, who: Who, contact_id: int, *, request_id: str | None = None, **fields: Any) -> Contact: ...

    @overload
    async def update(self, who: Who, contact_id: str, **options: Any) -> SteerableHandle: ...

    async def update(
        self, who: Who, contact_id: int | str, *, request_id: str | None = None, **fields: Any
    ) -> Contact | SteerableHandle:
        """By the id of a contact: set fields; None empties one. Returns the contact as it is now.

        By a text: have the contacts say what it says, by a loop. Arguments, result and errors as
        :meth:`starter.knowledge.Knowledge.update`; :meth:`ask` is the same for questions.

        Raises:
            InvalidInput: there is no such contact or field, a value that a field may not hold, a unique field of another contact.
        """
        if isinstance(contact_id, str):
            return await self._verbs.update(who, contact_id, **fields)
        if not fields:
            raise InvalidInput("name at least one field to be set")
        cleaned = await asyncio.to_thread(_clean, fields)
        return await self._apply(who, UpdateContact(_effect(request_id), _contact_id(contact_id), cleaned))

    async def merge(self, who: Who, keep: int, drop: int, *, request_id: str | None = None) -> Contact:
        """Make two contacts one: empty fields are filled, sender ids, tasks and both histories go to ``keep``, in one transaction.

        Raises:
            InvalidInput: there is no such contact; the assistant and the user are never merged away.
        """
        keep, drop = _contact_id(keep), _contact_id(drop)
        if keep == drop:
            raise InvalidInput("a contact cannot be merged with itself")
        if drop in SYSTEM_CONTACTS:
            raise InvalidInput(
                "the contacts 0 (the assistant) and 1 (the user) are never merged away; keep them and drop the other"
            )
        return await self._apply(who, MergeContacts(_effect(request_id), keep, drop))

    async def history(self, who: Who, contact_id: int, *, limit: int = 200) -> tuple[ContactChange, ...]:
        """The newest changes of its fields, oldest first, with those of what was merged into it."""
        return tuple(await self._store.history(scope_of(who), _contact_id(contact_id), limit=checked_limit(limit)))

    async def sources(self, who: Who, contact_id: int) -> tuple[Source, ...]:
        """The quotes that the contact and its fields rest on, oldest first; empty where there are none, or no such contact."""
        return tuple(await self._store.sources(scope_of(who), _contact_id(contact_id)))

    async def forget(self, who: Who, ids: Collection[int] | int) -> int:
        """Remove contacts for good: their texts, sender ids, history and sources, and what had been merged into them.

        Tasks stay, without the link. A contact that writes again later is a new one.

        Args:
            who: the user.
            ids: at most 1,000; unknown ones are left alone.

        Returns:
            How many there were.

        Raises:
            InvalidInput: the contacts 0 and 1 cannot be forgotten; empty their fields with :meth:`update` instead.
        """
        scope = scope_of(who)
        wanted = [_contact_id(one) for one in ([ids] if isinstance(ids, int) else ids)]
        if len(wanted) > MAX_IDS:
            raise InvalidInput(f"{len(wanted)} contact ids in one call; at most {MAX_IDS} are accepted")
        if not SYSTEM_CONTACTS.isdisjoint(wanted):
            raise InvalidInput(
                "the contacts 0 (the assistant) and 1 (the user) are always there; empty their fields instead (update with None)"
            )
        gone = await self._store.delete(scope, wanted, now=datetime.now(UTC)) if wanted else 0
        if gone:
            await self._rows.settle(Owner.user(scope))
        return gone

    async def _apply(self, who: Who, change: ContactChangeRequest) -> Contact:
        scope = scope_of(who)
        (result,) = await self._store.apply(scope, [change], origin=ORIGIN, now=datetime.now(UTC))
        _check(result, change)
        found = (await self._store.get(scope, [result.contact_id])).get(result.contact_id)
        if found is None:
            raise InvalidInput(f"there is no contact {result.contact_id}")
        return found


class Tasks:
    """The tasks of a user. All methods raise MemoryUnavailable when the database is away."""

    def __init__(self, store: TaskStore, verbs: LoopVerbs) -> None:
        self._store = store
        # Loops in the words of the user, as those of knowledge; see starter.knowledge.
        self.ask = verbs.ask
        self.update = verbs.update

    async def list(
        self,
        who: Who,
        *,
        statuses: Collection[TaskStatus | str] | None = None,
        contact_id: int | None = None,
        due_before: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> tuple[Task, ...]:
        """Tasks, newest first.

        Args:
            who: the user.
            statuses: ``open``, ``in_progress``, ``done``, ``cancelled``; None: all.
            contact_id: of this contact only.
            due_before: with a deadline before that time.
            sources: with the quotes that they rest on.
            limit: 1 to 1,000.
            after: the last task of the page before, by id, or as a Position where it may be gone by now.

        Raises:
            InvalidInput: an argument out of bounds.
        """
        scope, wanted = scope_of(who), words_of(TaskStatus, statuses, "status of a task")
        found = await self._store.list(
            scope,
            statuses=wanted,
            contact_id=None if contact_id is None else _contact_id(contact_id),
            due_before=checked_moment(due_before, "due_before"),
            sources=sources,
            limit=checked_limit(limit),
            after=after,
        )
        return tuple(found)

    async def get(self, who: Who, task_id: str) -> Task | None:
        """With its sources; None where there is no such task."""
        (checked,) = ids_of([task_id], "task id")
        return (await self._store.get(scope_of(who), [checked], sources=True)).get(checked)

    async def forget(self, who: Who, ids: Collection[str] | str) -> int:
        """Remove tasks with their sources for good. Returns how many there were.

        Args:
            who: the user.
            ids: at most 1,000; unknown ones are left alone.

        Raises InvalidInput for what are no ids.
        """
        scope, wanted = scope_of(who), ids_of(ids, "task id")
        return await self._store.delete(scope, wanted, now=datetime.now(UTC)) if wanted else 0

    async def change(self, who: Who, task_id: str, *, request_id: str | None = None, **fields: Any) -> Task:
        """Set fields of a task; None empties one. Returns the task as it is now. Secrets in texts are redacted.

        Args:
            who: the user.
            task_id: as :meth:`list` gives it.
            request_id: makes a repeated call the same call.
            fields: ``name``, ``description``, ``status``, ``priority``, ``deadline`` (a time with a zone, or ISO 8601),
                ``schedule`` (an iCalendar rule such as ``FREQ=WEEKLY;BYDAY=MO``), ``tags``, ``contact_id``.

        Raises:
            InvalidInput: there is no such task or field, a value that a field may not hold, or another live task has that name.
        """
        scope = scope_of(who)
        (checked,) = ids_of([task_id], "task id")
        values = task_fields(fields)
        if (before := (await self._store.get(scope, [checked])).get(checked)) is None:
            raise InvalidInput(f"there is no task {ascii(checked)[:80]}")
        change = UpdateTask(_effect(request_id), checked, values)
        (result,) = await self._store.apply(scope, [change], now=datetime.now(UTC))
        after = (await self._store.get(scope, [checked], sources=True)).get(checked)
        if after is None:
            raise InvalidInput(f"there is no task {ascii(checked)[:80]}")
        wanted = {name: values[name] for name in ("name", "status") if name in values}
        if result.did == "nothing" and not result.repeated and any(getattr(before, name) != wanted[name] for name in wanted):
            raise InvalidInput("another open task has this name; change that one, or end it first")
        return after


def _contact_id(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput("a contact id is a whole number from 0 on")
    return value


def _effect(request_id: str | None) -> str:
    return f"manual:{short_hash(request_id or new_id())}"


def _clean(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: redact(value).text if name in _LONG_FIELDS and isinstance(value, str) else value for name, value in fields.items()
    }


def _words(contact: Contact) -> str:
    parts = (contact.name, contact.job_title, contact.bio, contact.rolling_summary, contact.response_policy, *contact.aliases)
    return " ".join(part for part in parts if part)


def _check(result: ContactResult, change: ContactChangeRequest) -> None:
    match result.conflict:
        case None:
            return
        case "unknown":
            asked = f"{change.keep} or {change.drop}" if isinstance(change, MergeContacts) else str(result.contact_id)
            raise InvalidInput(f"there is no contact {asked}")
        case "system":
            raise InvalidInput("the contacts 0 (the assistant) and 1 (the user) are never merged away")
        case field_name:
            raise InvalidInput(f"the {field_name} belongs to another contact; merge the two, or give another one")
