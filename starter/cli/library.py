"""Guidance and teams on the command line: ``guidance list|search``, ``teams show|set``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.desk import AfterOption, BestOption, LimitOption, day, open_desk
from starter.cli.output import emit_json, one_line, print_table
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    open_tables,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory.model.library import Guidance

MAX_SHOWN_CHARS = 200


def register(app: typer.Typer) -> None:
    guidance = typer.Typer(help="How things are done: what was learned of it.", no_args_is_help=True)
    guidance.command("list")(guidance_list)
    guidance.command("search")(guidance_search)
    app.add_typer(guidance, name="guidance")
    teams = typer.Typer(help="The teams of a user, whose facts, guidance and tables the user sees too.", no_args_is_help=True)
    teams.command("show")(teams_show)
    teams.command("set")(teams_set)
    app.add_typer(teams, name="teams")


# ---------------------------------------------------------------------------------------------------------------- guidance


def guidance_list(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    after: AfterOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List how-tos of the user and of the user's teams; --json shows them whole."""

    async def work(state: State) -> Sequence[Guidance]:
        async with open_desk(state) as desk:
            return await desk.records.guidance.list((tenant, user), limit=limit, after=after)

    found = run(work(state_of(ctx)))
    emit_json(found) if as_json else _print(found, empty="no how-to")


def guidance_search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Any text, any language.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    limit: BestOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Find how-tos by meaning and words."""

    async def work(state: State) -> None:
        async with open_desk(state) as desk:
            found = await desk.records.guidance.search((tenant, user), query, limit=limit)
        if as_json:
            emit_json([{"guidance": one.guidance, "score": round(one.score, 4)} for one in found])
        else:
            _print([one.guidance for one in found], empty="no how-to fits")

    run(work(state_of(ctx)))


def _print(entries: Sequence[Guidance], *, empty: str) -> None:
    print_table(
        ("how-to", "title", "content", "tags", "changed"),
        [(one.guidance_id, one.title, _shortened(one.content), ", ".join(one.tags), day(one.updated_at)) for one in entries],
        empty=empty,
        whole=("how-to",),
        spare=("tags", "changed"),
    )


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= MAX_SHOWN_CHARS else line[: MAX_SHOWN_CHARS - 1] + "…"


# ------------------------------------------------------------------------------------------------------------------- teams


def teams_show(
    ctx: typer.Context, tenant: TenantOption = DEFAULT_TENANT, user: UserOption = DEFAULT_USER, as_json: JsonOption = False
) -> None:
    """Show the teams that the user belongs to, and whether the user may write to their tables."""

    async def work(state: State) -> Mapping[str, bool]:
        async with open_tables(state.settings()) as tables:
            await tables.log.ping()
            return await tables.directory.memberships(scope_of(tenant, user))

    _print_teams(run(work(state_of(ctx))), as_json=as_json)


def teams_set(
    ctx: typer.Context,
    teams: Annotated[list[str] | None, typer.Argument(help="Ids of teams; none at all: the user is in no team.")] = None,
    read_only: Annotated[
        list[str] | None, typer.Option("--read-only", help="A team whose tables the user only reads; several times.")
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Set the teams that the user belongs to, in place of those before: afterturn teams set sales --read-only board."""
    reads = read_only or []
    wanted = list(dict.fromkeys([*(teams or ()), *reads]))

    async def work(state: State) -> Mapping[str, bool]:
        scope = scope_of(tenant, user)
        async with open_tables(state.settings()) as tables:
            await tables.log.ping()
            await tables.directory.set_teams(scope, wanted, read_only=reads)
            return await tables.directory.memberships(scope)

    _print_teams(run(work(state_of(ctx))), as_json=as_json)


def _print_teams(found: Mapping[str, bool], *, as_json: bool) -> None:
    if as_json:
        emit_json([{"team": team, "can_write": writes} for team, writes in found.items()])
        return
    print_table(
        ("team", "tables"),
        [(team, "reads and writes" if writes else "only reads") for team, writes in found.items()],
        empty="in no team",
    )
