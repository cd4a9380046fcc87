"""``afterturn window``: status, list, show, flush, rerun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, print_table, safe_text, stderr, when, write
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    open_client,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memory.model.window import Window, WindowState


def register(app: typer.Typer) -> None:
    window = typer.Typer(help="Recorded events and what was learned from each run of them.", no_args_is_help=True)
    window.command("status")(status)
    window.command("list")(list_windows)
    window.command("show")(show)
    window.command("flush")(flush)
    window.command("rerun")(rerun)
    app.add_typer(window, name="window")


def status(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show how many events wait for the next window, and how the last windows ended."""

    async def work(state: State) -> None:
        async with open_client(state.settings()) as client:
            found = await client.windows.status(scope_of(tenant, user))
        if as_json:
            emit_json({"waiting": found.waiting, **_fields(found)})
            return
        working = {True: "running", False: "idle", None: "unknown"}[found.running]
        progress = found.progress
        for name, value in (
            ("waiting events", f"{found.waiting}/{found.size}"),
            ("workflow", f"{found.workflow_id} ({working})"),
            ("recorded", f"{progress.last_seq} events, the last one at {when(progress.last_event_at) or '–'} UTC"),
            ("consolidated", f"up to {progress.consolidated_seq}"),
            ("searchable", f"up to {progress.indexed_seq}, by meaning up to {progress.embedded_seq}"),
        ):
            write(f"{name + ':':<16} {safe_text(value)}\n")
        if found.recent:
            write("\n")
            _print(found.recent)

    run(work(state_of(ctx)))


def _fields(found: object) -> dict[str, object]:
    import dataclasses

    return {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}  # type: ignore[arg-type]


def list_windows(
    ctx: typer.Context,
    states: Annotated[
        list[str] | None, typer.Option("--state", help="planned, done, partial, failed or skipped; can be given several times.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all-users", help="Windows of all users of the company.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")] = 50,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """List windows, newest first."""

    async def work(state: State) -> None:
        scope = scope_of(tenant, user)
        async with open_client(state.settings()) as client:
            found = await client.windows.list(
                tenant=scope.tenant if everybody else None,
                scope=None if everybody else scope,
                states=_states(states),
                limit=limit,
            )
        emit_json(list(found)) if as_json else _print(found, everybody=everybody)

    run(work(state_of(ctx)))


def show(
    ctx: typer.Context,
    window_id: Annotated[str, typer.Argument(help="The window's id, as the list shows it.", metavar="WINDOW")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show a window: its transcript, what was taken from it with the quotes, what was not taken and why, and the loops that enter
    what it learned into tables."""
    from starter.cli.window_view import extraction_lines, loop_lines

    async def work(state: State) -> None:
        async with open_client(state.settings()) as client:
            scope = scope_of(tenant, user)
            found = await client.windows.show(scope, window_id)
            people = await client.contacts.filter(scope, limit=1_000)
            tasks = await client.tasks.list(scope, limit=1_000)
        if as_json:
            emit_json(_fields(found))
            return
        _print([found.window])
        write(f"\n{safe_text(found.transcript.rstrip())}\n")
        marks = {"head": "\n", "item": "  + ", "quote": "      ", "dropped": "  - "}
        for kind, line in extraction_lines(found, people, tasks):
            write(f"{marks[kind]}{safe_text(line)}\n")
        if found.extraction is None:
            write("\nnothing was extracted (yet)\n")
        if lines := loop_lines(found):
            write("\ntables\n")
        for line in lines:
            write(f"  {safe_text(line)}\n")

    run(work(state_of(ctx)))


def flush(
    ctx: typer.Context,
    wait: Annotated[float, typer.Option("--wait", min=0, max=3600, help="Wait so many seconds for it to be done.")] = 60.0,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Have all events recorded so far consolidated, also as a short window."""
    from memory.model.errors import InvalidInput

    async def work(state: State) -> int:
        async with open_client(state.settings()) as client:
            progress = await client.flush(scope_of(tenant, user), wait_s=wait)
        if not progress.last_seq:
            raise InvalidInput(f"no event was ever recorded of the user {ascii(user)[:60]} of {ascii(tenant)[:60]}")
        if as_json:
            emit_json({"waiting": progress.waiting, "consolidated_seq": progress.consolidated_seq, "last_seq": progress.last_seq})
        else:
            write(f"consolidated up to event {progress.consolidated_seq}, {progress.waiting} wait\n")
        return progress.waiting

    if run(work(state_of(ctx))) and wait:
        raise typer.Exit(1)


def rerun(
    ctx: typer.Context,
    window_ids: Annotated[
        list[str] | None, typer.Argument(help="Only these; default: all that failed, wholly or partly.", metavar="[WINDOW]...")
    ] = None,
    states: Annotated[list[str] | None, typer.Option("--state", help="Those in this state; default: failed and partial.")] = None,
    everybody: Annotated[bool, typer.Option("--all-users", help="Of all users of the company.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many windows.")] = 100,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Run windows again. What they wrote already stays as it is."""
    from memory.model.errors import InvalidInput
    from memory.model.window import WindowState

    if window_ids and everybody:
        raise InvalidInput("window ids belong to one user: leave out --all-users")
    every = frozenset(WindowState) - {WindowState.PLANNED}
    wanted = _states(states) or (every if window_ids else frozenset({WindowState.FAILED, WindowState.PARTIAL}))

    async def work(state: State) -> int:
        scope = scope_of(tenant, user)
        async with open_client(state.settings()) as client:
            result = await client.windows.rerun(
                tenant=scope.tenant if everybody else None,
                scope=None if everybody else scope,
                window_ids=window_ids or None,
                states=wanted,
                limit=limit,
            )
        if as_json:
            emit_json(_fields(result))
        elif result.windows:
            _print(result.windows, everybody=everybody)
            waiting = f"; {result.waiting_for_sweeper} users wait for the sweeper" if result.waiting_for_sweeper else ""
            write(f"{len(result.windows)} windows run again{waiting}\n")
        elif not result.left:
            write("no window to run again\n")
        if result.left:
            stderr().print(f"afterturn: {'; '.join(_why_left(window) for window in result.left)}", markup=False)
        return len(result.left)

    if run(work(state_of(ctx))):
        raise typer.Exit(1)


def _why_left(window: Window) -> str:
    from memory.model.window import WindowState

    if window.state is WindowState.PLANNED:
        return f"{window.window_id} waits or runs already"
    why = f" ({safe_text(window.reason)})" if window.reason else ""
    return f"{window.window_id} is {window.state.value}{why} and stays so"


def _states(given: list[str] | None) -> frozenset[WindowState] | None:
    from memory.model.window import WindowState
    from starter.who import words_of

    return words_of(WindowState, given, "state of a window")


def _print(windows: Iterable[Window], *, everybody: bool = False) -> None:
    """``everybody``: with the user whose window it is, since ids are unique per user."""
    from starter.cli.window_view import WINDOW_COLUMNS, WINDOW_SPARE, window_row

    whose = ("company", "user") if everybody else ()
    print_table(
        (*whose, *WINDOW_COLUMNS),
        [(*((window.scope.tenant_id, window.scope.user_id) if everybody else ()), *window_row(window)) for window in windows],
        empty="no window yet",
        whole=("window", "user"),
        spare=(*WINDOW_SPARE, "applied"),
    )
