"""What was concretely asked for or promised."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from api.auth.access import Reader, Writer
from api.context import Context
from api.problems import NotFound
from api.routing import (
    MAX_NUMBER,
    Cursor,
    IdempotencyKey,
    ItemPath,
    Limit,
    Moment,
    make_router,
    page_of,
    position_cursor,
    position_of,
    request_id,
)
from api.schemas.base import Forgotten
from api.schemas.records import TaskFields, TaskIdsGiven, TaskPage, TaskView
from memory.model.task import TaskStatus

router = make_router("tasks")


@router.get("/tasks", summary="List tasks")
async def list_tasks(
    context: Context,
    acting: Reader,
    statuses: Annotated[list[TaskStatus] | None, Query(max_length=4, description="default: all")] = None,
    contact_id: Annotated[int | None, Query(ge=0, le=MAX_NUMBER, description="of this contact only")] = None,
    due_before: Annotated[Moment | None, Query(description="with a deadline before that time")] = None,
    sources: Annotated[bool, Query(description="with the quotes that they rest on")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TaskPage:
    """Newest first."""
    found = await context.memory.tasks.list(
        acting.scope,
        statuses=statuses or None,
        contact_id=contact_id,
        due_before=due_before,
        sources=sources,
        limit=limit + 1,
        after=position_of(cursor, "tasks"),
    )
    page, last = page_of(found, limit)
    return TaskPage(
        items=[TaskView.of(task, sources=sources) for task in page],
        next=None if last is None else position_cursor("tasks", last.created_at, last.task_id),
    )


@router.post("/tasks/forget", summary="Forget tasks")
async def forget_tasks(context: Context, acting: Writer, given: TaskIdsGiven) -> Forgotten:
    """Remove tasks with their sources for good. Unknown ones are left alone."""
    return Forgotten(forgotten=await context.memory.tasks.forget(acting.scope, given.ids))


@router.get("/tasks/{task_id}", summary="Read a task")
async def get_task(context: Context, acting: Reader, task_id: ItemPath) -> TaskView:
    """With the quotes that it rests on."""
    found = await context.memory.tasks.get(acting.scope, task_id)
    if found is None:
        raise NotFound("there is no such task")
    return TaskView.of(found, sources=True)


@router.patch("/tasks/{task_id}", summary="Correct a task")
async def change_task(
    context: Context, acting: Writer, task_id: ItemPath, given: TaskFields, key: IdempotencyKey = None
) -> TaskView:
    """Set fields; null empties one. 400: another open task has that name."""
    if await context.memory.tasks.get(acting.scope, task_id) is None:
        raise NotFound("there is no such task")
    fields = given.model_dump(include=given.model_fields_set)
    changed = await context.memory.tasks.change(
        acting.scope, task_id, request_id=request_id(key, "change", task_id, given), **fields
    )
    return TaskView.of(changed, sources=True)


@router.delete("/tasks/{task_id}", summary="Forget a task")
async def forget_task(context: Context, acting: Writer, task_id: ItemPath) -> Forgotten:
    """Remove it with its sources for good. One that is gone already counts as 0."""
    return Forgotten(forgotten=await context.memory.tasks.forget(acting.scope, task_id))
