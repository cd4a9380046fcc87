"""Commands that run something: ``dev``, ``demo``, ``chat``, ``worker``, ``api``, ``migrate``, ``doctor``."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.demo import demo
from starter.cli.output import emit_json, safe_text, stderr, stdout, write
from starter.cli.running import check_model, steps, until_stopped_or_broken
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    open_client,
    open_tables,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from memory.settings import Settings
    from starter.dev import LocalStack


def register(app: typer.Typer) -> None:
    app.command("dev")(dev)
    app.command("demo")(demo)
    app.command("chat")(chat)
    app.command("worker")(worker)
    app.command("api")(api)
    app.command("migrate")(migrate)
    app.command("doctor")(doctor)


# ---------------------------------------------------------------------------------------------------------------------- dev


def dev(ctx: typer.Context) -> None:
    """Run everything on this machine.

    S3 server, Temporal with its Web UI, database, worker, schedules, the HTTP API and its pages.

    Context memory is switched on for every company here, unless the environment says otherwise. Ctrl-C stops all of it; the data
    stays in the data folder.
    """
    run(_dev(state_of(ctx)), patient=True)


async def _dev(state: State) -> None:
    from starter.dev import LocalStack

    data_dir = _data_dir(state)
    console = stderr()
    with steps(console) as step:
        stack = await LocalStack(data_dir, progress=step).__aenter__()
    try:
        state.logs(stack.settings, level="info")
        _show_urls(stack)
        await until_stopped_or_broken(stack)
        console.print("stopping …", style="dim")
    finally:
        await stack.__aexit__(None, None, None)


def _data_dir(state: State) -> Path:
    """The folder alone: its other settings are read once it is locked, without what a dead `afterturn dev` left there."""
    from memory.settings import load_settings

    return state.data_dir or load_settings().data_dir


def _categories(settings: Settings) -> str:
    on = [category.value for category, wanted in settings.memory_flags.items() if wanted]
    off = [category.value for category, wanted in settings.memory_flags.items() if not wanted]
    hint = f"; off: {', '.join(off)} (AFTERTURN_MEMORY_{off[0].upper()}=true, or per space)" if off else ""
    return f"takes {', '.join(on) or 'nothing'}{hint}"


def _show_urls(stack: LocalStack) -> None:
    from rich.markup import escape
    from rich.panel import Panel
    from rich.table import Table

    model = stack.settings.language_model
    rows = [
        ("Temporal", stack.client.service_client.config.target_host),
        ("S3 server", stack.urls["object_store"]),
        ("database", "SQLite in the data folder" if stack.settings.database_url is None else "as AFTERTURN_DATABASE_URL says"),
        ("language model", f"{model} (rules, not a language model)" if model.split(":")[0] == "simulated" else model),
        ("event window", _categories(stack.settings)),
        ("to try", "afterturn chat, afterturn dev-token, afterturn events sandbox, afterturn knowledge sandbox, afterturn doctor"),
        ("data folder", str(stack.data_dir)),
    ]
    if "metrics" in stack.urls:
        rows.insert(-1, ("metrics", stack.urls["metrics"]))
    links = [
        ("settings page", stack.urls["settings_page"]),
        ("admin page", stack.urls["admin_page"]),
        ("API documentation", stack.urls["docs"]),
        ("Temporal Web UI", stack.urls["web_ui"]),
    ]
    console = stdout()
    if not console.is_terminal:
        write("".join(f"{name}: {value}\n" for name, value in [*links, *rows]) + "ready\n")
        return
    grid = Table.grid(padding=(0, 2))
    for name, value in rows:
        grid.add_row(f"[dim]{name}[/dim]", safe_text(value))
    console.print(Panel(grid, title="afterturn dev", subtitle="Ctrl-C stops all of it", expand=False), soft_wrap=False)
    # Each on a line of its own and never cut, so that a terminal can open it.
    for name, address in links:
        console.print(f"[dim]{name:<18}[/dim] {escape(safe_text(address))}", soft_wrap=True, highlight=False)
    console.print("[dim]The links of the pages sign in: whoever has them is that user. They hold until this stops.[/dim]")


# --------------------------------------------------------------------------------------------------------------------- chat


def chat(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    space: Annotated[str, typer.Option("--space", help="The space.")] = "default",
    model: Annotated[str | None, typer.Option("--model", help="provider:model that answers; default: the setting.")] = None,
) -> None:
    """Chat in the terminal and watch memory.

    Shows the injected memory, the notice, and what each turn changed. Needs `afterturn dev` or a worker.
    """
    from starter.chat import Chat
    from starter.temporal import connect

    scope = scope_of(tenant, user)
    state = state_of(ctx)
    settings = state.settings()
    name = model or settings.language_model
    check_model(settings, name)

    async def talk() -> None:
        async with open_client(settings) as client, open_tables(settings) as tables:
            temporal = await connect(settings)
            session = Chat(client, tables, temporal, settings, scope, space_id=space, model=name, console=stdout())
            await session.run()

    run(talk())


# -------------------------------------------------------------------------------------------- worker, api, migrate, doctor


class Queue(StrEnum):
    ALL = "all"
    WORKFLOWS = "workflows"
    MODELS = "models"


def worker(
    ctx: typer.Context,
    queue: Annotated[
        Queue, typer.Option("--queue", help="all, workflows (with store steps), or models (model calls).")
    ] = Queue.ALL,
) -> None:
    """Work on the task queues until told to stop.

    After SIGTERM or Ctrl-C what runs may finish, for as long as AFTERTURN_GRACEFUL_SHUTDOWN_S says.
    """
    from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
    from worker import run_worker

    state = state_of(ctx)
    settings = state.settings()
    state.logs(settings, level="info")
    queues = {Queue.ALL: (TASK_QUEUE, MODEL_TASK_QUEUE), Queue.WORKFLOWS: (TASK_QUEUE,), Queue.MODELS: (MODEL_TASK_QUEUE,)}
    asyncio.run(run_worker(settings, queues[queue]))


def api(ctx: typer.Context) -> None:
    """Serve the HTTP API and the pages until told to stop.

    At AFTERTURN_API_ADDRESS. After SIGTERM or Ctrl-C nothing new is accepted, streams end, and requests that run may finish, for
    as long as AFTERTURN_GRACEFUL_SHUTDOWN_S says.
    """
    from api.serve import run_api

    state = state_of(ctx)
    settings = state.settings()
    state.logs(settings, level="info")
    asyncio.run(run_api(settings))


def migrate(
    ctx: typer.Context,
    temporal: Annotated[bool, typer.Option("--temporal", help="Also set up search attributes and the schedules.")] = False,
    attributes: Annotated[bool, typer.Option("--search-attributes", help="Set up the search attributes, nothing else.")] = False,
    schedules: Annotated[bool, typer.Option("--schedules", help="Set up the schedules, nothing else.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the database to this version's schema. Safe to repeat; needed before the first start and after an update."""
    from memory.stores.migrations import head
    from memory.stores.migrations import migrate as migrate_database

    settings = state_of(ctx).settings()
    report: dict[str, Any] = {}
    if temporal or not (attributes or schedules):
        with steps(stderr()) as step:
            step("bringing the database to its schema")
            report["schema"] = migrate_database(settings.sqlalchemy_url)
        if not as_json:
            newer = "" if report["schema"] == head() else ", of a newer afterturn; it serves this one too and is left as it is"
            write(f"the database is at schema {report['schema']}{newer}\n")
    if temporal or attributes or schedules:
        with steps(stderr()) as step:
            step("setting up search attributes and the schedules")
            report |= run(_set_up_temporal(settings, attributes=temporal or attributes, schedules=temporal or schedules))
        if not as_json:
            _tell_set_up(settings, report)
    if as_json:
        emit_json(report)


def _tell_set_up(settings: Settings, report: dict[str, Any]) -> None:
    if "search_attributes_added" in report:
        added = report["search_attributes_added"]
        write(f"search attributes: {', '.join(added)} added\n" if added else "search attributes: all were there\n")
    if "schedule_created" in report:
        made = "created" if report["schedule_created"] else "was there and is brought up to date"
        write(f"sweep schedule, every {settings.sweep_interval_s:g} s: {made}\n")
        write(f"reconcile schedule, every {settings.reconcile_every_s:g} s: {made}\n")


async def _set_up_temporal(settings: Settings, *, attributes: bool, schedules: bool) -> dict[str, Any]:
    from starter.schedules import ensure_schedules
    from starter.temporal import connect, ensure_search_attributes

    client = await connect(settings)
    report: dict[str, Any] = {}
    if attributes:
        report["search_attributes_added"] = await ensure_search_attributes(client)
    if schedules:
        report["schedule_created"] = await ensure_schedules(client, settings)
    return report


def doctor(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Check everything memory depends on.

    One line each: ok, or what is wrong and what to do. Exit code 1 when something is wrong.
    """
    from memory.model.errors import InvalidSettings
    from starter.doctor import Check, examine

    state = state_of(ctx)
    try:
        settings = state.settings()
        checks = run(examine(settings))
    except InvalidSettings as error:
        checks = (Check("settings", ok=False, detail=error.message, advice="see `afterturn settings list`"),)
    if as_json:
        emit_json({"ok": all(check.ok for check in checks), "checks": checks})
    else:
        console = stdout()
        for check in checks:
            advice = f" → {check.advice}" if check.advice else ""
            line = f"{'ok ' if check.ok else 'BAD'} {check.name + ':':<18} {safe_text(check.detail + advice)}"
            console.print(line, style=None if check.ok else "red", markup=False)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
