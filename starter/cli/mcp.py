"""``afterturn mcp``: a user's memory for a desktop assistant, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    State,
    TenantOption,
    UserOption,
    open_client,
    run,
    scope_of,
    state_of,
    until_signalled,
)

LOAD_BUDGET_MS = 10_000
"""An assistant's tool may take its time; a turn of the orchestrator may not."""


def register(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    space: Annotated[str, typer.Option("--space", "-s", help="The space whose settings count.")] = "default",
    allow_update: Annotated[
        bool, typer.Option("--allow-update", help="Offer the tools that change memory; without it everything is read only.")
    ] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", min=1, max=3600, help="Seconds that a tool waits for a loop; then it gives its id.")
    ] = 50.0,
) -> None:
    """Serve one user's memory to a desktop assistant (Model Context Protocol, on standard input and output).

    Whoever starts it consents to memory for that user; the company's flag, the space and the user's own choice still count.
    """
    run(_serve(state_of(ctx), tenant, user, space, allow_update=allow_update, wait_s=wait_s))


async def _serve(state: State, tenant: str, user: str, space: str, *, allow_update: bool, wait_s: float) -> None:
    import asyncio
    import logging

    scope = scope_of(tenant, user)
    settings = state.settings(load_budget_ms=LOAD_BUDGET_MS)

    from starter.mcp_server import build_server
    from starter.mcp_stdio import serve

    # Below warnings the SDK writes what tools were called with.
    logging.getLogger("mcp").setLevel(max(logging.WARNING, logging.getLogger().level))
    async with open_client(settings) as client:
        server = build_server(client, scope, space_id=space, allow_update=allow_update, wait_s=wait_s)
        serving = asyncio.create_task(serve(server))
        stopped = asyncio.create_task(until_signalled())
        try:
            await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not serving.done():
                serving.cancel()
            await asyncio.gather(serving, stopped, return_exceptions=True)
        if not serving.cancelled():
            serving.result()
