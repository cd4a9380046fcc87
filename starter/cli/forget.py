"""The right to be forgotten on the command line: ``forget``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, print_table, safe_text, stderr, when, write
from starter.cli.running import steps
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    YesOption,
    open_client,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memory.model.erasure import Erasure

    Look = Callable[[str, str], Awaitable[Erasure | None]]

FIRST_POLL_S = 0.2
LONGEST_POLL_S = 2.0


def register(app: typer.Typer) -> None:
    app.command("forget")(forget)


def forget(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    status: Annotated[str | None, typer.Option("--status", help="Only show the receipt with this id.")] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Wait at most so many seconds until it is done.")] = 60.0,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete everything of a user, in every store, for good.

    The profile with all versions, events, facts, contacts, tasks, tables, loops, vectors, usage, settings and the workflow
    executions. Until it is done nothing new of the user is taken. What the user's teams know together stays.
    """
    state = state_of(ctx)
    if status is None and not yes:
        _confirm(tenant, user)
    run(_forget(state, tenant, user, status, wait, as_json=as_json))


def _confirm(tenant: str, user: str) -> None:
    from memory.model.errors import InvalidInput

    whose = f"the user {safe_text(user)} of {safe_text(tenant)}"
    if typer.prompt(f"Everything of {whose} will be deleted for good. Type the user's id to confirm", err=True) != user:
        raise InvalidInput("that is not the user's id, so nothing was done")


async def _forget(state: State, tenant: str, user: str, status: str | None, wait_s: float, *, as_json: bool) -> None:
    from memory.model.errors import InvalidInput

    async with open_client(state.settings()) as client:
        if status is None:
            scope = scope_of(tenant, user)
            erasure = await client.forget(scope, requested_by="command line")
        else:
            found = await client.erasure(tenant, status)
            if found is None:
                raise InvalidInput(f"there is no erasure {status[:80]!r} of this company")
            erasure, wait_s = found, 0.0
        erasure = await _followed(client.erasure, tenant, erasure, wait_s)
    if as_json:
        emit_json(erasure)
    else:
        _print(erasure, tenant)


async def _followed(look: Look, tenant: str, erasure: Erasure, wait_s: float) -> Erasure:
    """Until it is done, or the time is over; shows where it stands on a terminal."""
    import asyncio

    from memory.model.erasure import ErasureState

    deadline = asyncio.get_running_loop().time() + wait_s
    pause = FIRST_POLL_S
    with steps(stderr()) as show:
        while erasure.state is not ErasureState.DONE and asyncio.get_running_loop().time() < deadline:
            show(_progress(erasure))
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_POLL_S)
            erasure = await look(tenant, erasure.erasure_id) or erasure
    return erasure


def _progress(erasure: Erasure) -> str:
    deleted = f"{sum(erasure.counts.values())} things deleted"
    held_up = "".join(f"; waits: {safe_text(problem)}" for problem in erasure.problems)
    return f"{erasure.state.value}, {deleted}{held_up}"


def _print(erasure: Erasure, tenant: str) -> None:
    from memory.model.erasure import ErasureState

    said = {
        ErasureState.RUNNING: "running: not all stores are empty yet",
        ErasureState.ERASED: "erased: all stores were emptied; what was still under way is waited for and deleted too",
        ErasureState.DONE: "done: nothing is left",
    }[erasure.state]
    lines = [
        ("erasure", erasure.erasure_id),
        ("state", said),
        ("requested by", erasure.requested_by),
        ("started", when(erasure.started_at)),
        ("erased", when(erasure.erased_at) if erasure.erased_at else ""),
        ("finished", when(erasure.finished_at) if erasure.finished_at else ""),
        *(("problem" if erasure.state is ErasureState.DONE else "waits", problem) for problem in erasure.problems),
    ]
    for name, value in lines:
        if value:
            write(f"{name + ':':<14} {safe_text(value)}\n")
    if erasure.counts:
        write("\n")
        print_table(("deleted", "count"), [(name, str(count)) for name, count in erasure.counts.items()], empty="")
    if erasure.state is not ErasureState.DONE:
        write(f"\n`afterturn forget --tenant {safe_text(tenant)} --status {erasure.erasure_id}` shows how far it is\n")
