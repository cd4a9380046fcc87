"""Tasks on the command line: ``tasks list|change|forget|ask|tell``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.contacts import found_contact, shortened
from starter.cli.desk import AfterOption, LimitOption, fields_of, minute, moment_of, open_desk
from starter.cli.operations import operation
from starter.cli.output import emit_json, print_table, stderr, write
from starter.cli.state import DEFAULT_TENANT, DEFAULT_USER, JsonOption, State, TenantOption, UserOption, YesOption, run, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.model.task import Task


def register(app: typer.Typer) -> None:
    tasks = typer.Typer(help="What was asked for or promised.", no_args_is_help=True)
    tasks.command("list")(tasks_list)
    tasks.command("change")(tasks_change)
    tasks.command("forget")(tasks_forget)
    tasks.command("ask")(operation("ask", "Have a question about tasks answered. Nothing is changed.", manager="tasks"))
    tasks.command("tell")(operation("update", "Have the tasks say what TEXT says.", manager="tasks"))
    app.add_typer(tasks, name="tasks")


def tasks_list(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="open, in_progress, done, cancelled; may be repeated; default: all.")
    ] = None,
    contact: Annotated[int | None, typer.Option("--contact", help="Only of the contact with this id.")] = None,
    due_before: Annotated[str | None, typer.Option("--due-before", help="Only with a deadline before that time, ISO 8601.")] = None,
    after: AfterOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List tasks with the quotes that they come from."""
    wanted = {
        "statuses": status,
        "contact_id": contact,
        "due_before": moment_of(due_before, "--due-before"),
        "after": after,
        "limit": limit,
    }
    run(_list(state_of(ctx), (tenant, user), wanted, as_json=as_json))


async def _list(state: State, who: tuple[str, str], wanted: dict[str, Any], *, as_json: bool) -> None:
    from memory.model.contact import SYSTEM_CONTACTS

    async with open_desk(state) as desk:
        if wanted["contact_id"] not in (None, *SYSTEM_CONTACTS):
            await found_contact(desk.records.contacts, who, wanted["contact_id"])
        found: tuple[Task, ...] = await desk.records.tasks.list(who, sources=True, **wanted)
    if as_json:
        emit_json(found)
        return
    _print(found)


def _print(tasks: Sequence[Task]) -> None:
    print_table(
        ("task", "name", "status", "priority", "deadline (UTC)", "repeats", "contact", "tags", "said"),
        [
            (
                task.task_id,
                task.name,
                task.status.value,
                task.priority.value,
                minute(task.deadline),
                task.schedule or "",
                "" if task.contact_id is None else str(task.contact_id),
                ", ".join(task.tags),
                shortened(next((source.quote for source in task.sources if source.quote), "")),
            )
            for task in tasks
        ],
        empty="no task",
        whole=("task",),
        spare=("tags", "priority", "repeats", "contact"),
    )


# ------------------------------------------------------------------------------------------------------------------ change


def tasks_change(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="The id of a task, as `tasks list` shows it.")],
    values: Annotated[list[str], typer.Argument(help="name=value …; an empty value removes it.", metavar="NAME=VALUE...")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Change a task: afterturn tasks change ID status=done tags=tax,2026 deadline=2026-06-30T17:00+02:00."""
    run(_change(state_of(ctx), (tenant, user), task, _values(values), as_json=as_json))


async def _change(state: State, who: tuple[str, str], task_id: str, values: dict[str, Any], *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        changed = await desk.records.tasks.change(who, task_id, **values)
    emit_json(changed) if as_json else _print([changed])


def _values(pairs: list[str]) -> dict[str, Any]:
    """Fields of tasks as they are typed. Raises InvalidInput."""
    from memory.model.errors import InvalidInput

    values: dict[str, Any] = dict(fields_of(pairs))
    if values.get("tags") is not None:
        values["tags"] = [tag.strip() for tag in values["tags"].split(",")]
    if values.get("deadline") is not None:
        values["deadline"] = moment_of(values["deadline"], "deadline")
    if values.get("contact_id") is not None:
        if not values["contact_id"].isdecimal():
            raise InvalidInput("the contact_id of a task is a whole number from 0 on")
        values["contact_id"] = int(values["contact_id"])
    if "request_id" in values:
        raise InvalidInput("a task has no field 'request_id'")
    return values


# ------------------------------------------------------------------------------------------------------------------ forget


def tasks_forget(
    ctx: typer.Context,
    tasks: Annotated[list[str], typer.Argument(help="Ids of tasks.", metavar="TASK...")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove tasks with their sources for good."""
    if not yes:
        typer.confirm(f"Remove {len(tasks)} tasks for good?", abort=True, err=True)
    wanted = list(dict.fromkeys(tasks))
    if run(_forget(state_of(ctx), (tenant, user), wanted, as_json=as_json)) < len(wanted):
        raise typer.Exit(1)


async def _forget(state: State, who: tuple[str, str], task_ids: list[str], *, as_json: bool) -> int:
    async with open_desk(state) as desk:
        gone = await desk.records.tasks.forget(who, task_ids)
    emit_json({"asked": len(task_ids), "removed": gone}) if as_json else write(f"{gone} of {len(task_ids)} tasks removed\n")
    if gone < len(task_ids):
        stderr().print(f"afterturn: {len(task_ids) - gone} of the ids are not of tasks of the user", markup=False)
    return gone
