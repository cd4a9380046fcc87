"""Tools over tasks, for ``tasks.ask`` and ``tasks.update``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from memory.knowledge.arguments import Names
from memory.model.knowledge import MAX_LIMIT, ToolProblem
from memory.model.near_duplicate import statement_key
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.task import Task, TaskPriority, TaskStatus
from memory.model.words import key_words
from memory.ports import CreateTask, TaskResult, TaskStore, UpdateTask
from memory.retrieval.documents import rank

TASKS: Final = "Tasks"
MAX_SEARCHED: Final = 1_000
_IDS: Final = uuid.UUID("b2f5a9de-55f0-4c8a-9be1-4f6f1a1f7d52")

Status = Literal["open", "in_progress", "done", "cancelled"]
Priority = Literal["low", "normal", "high", "urgent"]
Statuses = Annotated[list[Status], Field(max_length=4)]


class TaskReads:
    """For one user."""

    def __init__(self, store: TaskStore, scope: Scope) -> None:
        self._store = store
        self._scope = scope

    async def list_tasks(
        self,
        *,
        statuses: Statuses | None = None,
        contact_id: int | None = None,
        due_before: AwareDatetime | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 100,
        after: str | None = None,
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Tasks, newest first.

        Args:
            statuses: open, in_progress, done, cancelled; left out: all.
            contact_id: Only those that have to do with this contact.
            due_before: Only those with a deadline before this time, in ISO 8601 with its zone.
            limit: At most 1000.
            after: The last task_id of the page before.

        Returns:
            {"Tasks": [task, …]}
        """
        wanted = None if statuses is None else [TaskStatus(one) for one in statuses]
        found = await self._store.list(
            self._scope, statuses=wanted, contact_id=contact_id, due_before=due_before, limit=limit, after=after
        )
        return {TASKS: [_shown(task) for task in found]}

    async def search_tasks(
        self, *, text: str, k: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The tasks whose words fit best, whatever their status.

        Args:
            text: What is looked for.
            k: Tasks, at most 100.

        Returns:
            {"Tasks": [task, …]}, the best first.
        """
        tasks = await self._store.list(self._scope, limit=MAX_SEARCHED)
        texts = [f"{task.name}\n{task.description}\n{' '.join(task.tags)}" for task in tasks]
        found = await asyncio.to_thread(rank, text, texts, [task.task_id for task in tasks])
        return {TASKS: [_shown(tasks[place]) for place, _ in found[:k]]}


class TaskTools:
    """For one call: ``effect`` is its idempotency key."""

    def __init__(self, store: TaskStore, scope: Scope, *, effect: str, now: datetime) -> None:
        self._store = store
        self._scope = scope
        self._effect = effect
        self._now = now

    async def create_task(
        self,
        *,
        name: str,
        description: str = "",
        priority: Priority = "normal",
        deadline: AwareDatetime | None = None,
        schedule: str | None = None,
        tags: Names | None = None,
        contact_id: int | None = None,
    ) -> Any:
        """Add a task. Where a live task has this name already, that one gets these fields instead.

        Args:
            name: What is to be done, in a line of at most 200 characters.
            description: More of it, at most 4000 characters.
            priority: low, normal, high or urgent.
            deadline: In ISO 8601 with its zone.
            schedule: Of one that repeats, an iCalendar rule such as FREQ=WEEKLY;BYDAY=MO.
            tags: Short words.
            contact_id: Whom it has to do with.
        """
        if not key_words(name):
            raise ToolProblem("bad_arguments", "the name of a task says what is to be done")
        try:
            task = Task(
                task_id=str(uuid.uuid5(_IDS, f"{self._scope.tenant}/{self._scope.user}/{self._effect}")),
                name=" ".join(name.split()),
                description=redact(description).text,
                priority=TaskPriority(priority),
                deadline=deadline,
                schedule=schedule,
                tags=tuple(tags or ()),
                contact_id=contact_id,
                created_at=self._now,
                updated_at=self._now,
            )
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            raise ToolProblem("bad_arguments", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return _told(await self._store.apply(self._scope, [CreateTask(self._effect, task, statement_key(name))], now=self._now))

    async def update_task(
        self,
        *,
        task_id: str,
        name: str | None = None,
        description: str | None = None,
        status: Status | None = None,
        priority: Priority | None = None,
        deadline: AwareDatetime | None = None,
        schedule: str | None = None,
        tags: Names | None = None,
        contact_id: int | None = None,
        clear: list[Literal["description", "deadline", "schedule", "tags", "contact_id"]] | None = None,
    ) -> Any:
        """Change a task; what is left out stays as it is. What is done has the status done, what is given up cancelled.

        Args:
            task_id: As list_tasks gives it.
            name: What is to be done, in a line.
            description: Takes the place of what was there.
            status: open, in_progress, done or cancelled.
            priority: low, normal, high or urgent.
            deadline: In ISO 8601 with its zone.
            schedule: An iCalendar rule such as FREQ=WEEKLY;BYDAY=MO.
            tags: Take the place of those that were there.
            contact_id: Whom it has to do with.
            clear: Names of fields to be emptied.
        """
        fields: dict[str, Any] = {
            "name": None if name is None else " ".join(name.split()),
            "description": None if description is None else redact(description).text,
            "status": None if status is None else TaskStatus(status),
            "priority": None if priority is None else TaskPriority(priority),
            "deadline": deadline,
            "schedule": schedule,
            "tags": None if tags is None else tuple(tags),
            "contact_id": contact_id,
        }
        fields = {key: value for key, value in fields.items() if value is not None}
        empty: dict[str, Any] = {"description": "", "tags": ()}
        fields |= {key: empty.get(key) for key in clear or ()}
        if not fields:
            raise ToolProblem("bad_arguments", "name at least one field to be set")
        if name is not None:
            fields["key"] = statement_key(name)
        if task_id not in await self._store.get(self._scope, [task_id]):
            raise ToolProblem("unknown_row", "there is no such task; look it up with list_tasks")
        return _told(await self._store.apply(self._scope, [UpdateTask(self._effect, task_id, fields)], now=self._now))


def _told(results: Sequence[TaskResult]) -> Mapping[str, Any]:
    (result,) = results
    outcome = "nothing to change" if result.did == "nothing" else f"task {result.did}"
    return {"outcome": outcome, "details": {"task_id": result.task_id}}


def _shown(task: Task) -> Mapping[str, Any]:
    return {
        "task_id": task.task_id,
        "name": task.name,
        "description": task.description,
        "status": task.status.value,
        "priority": task.priority.value,
        "deadline": task.deadline and task.deadline.isoformat(),
        "schedule": task.schedule,
        "tags": list(task.tags),
        "contact_id": task.contact_id,
        "created_at": task.created_at.isoformat(),
        "updated_at": task.updated_at.isoformat(),
    }
