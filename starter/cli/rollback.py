"""``rollback``: profiles that bad runs damaged, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, print_table, safe_text, stderr, write
from starter.cli.running import steps
from starter.cli.state import JsonOption, State, open_client, run, state_of

if TYPE_CHECKING:
    from starter.views import ProfileRepair, RepairReport


def register(app: typer.Typer) -> None:
    app.command("rollback")(rollback)


def rollback(
    ctx: typer.Context,
    where: Annotated[
        str | None, typer.Option("--where", help="Which runs: a query as in the Temporal Web UI (AfterturnPrompts = 'v2' AND …).")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="Only what was written with this version of the prompts, for instance v2.")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Empty a profile that was damaged from its first version on.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="Change at most so many profiles.")] = 10_000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; otherwise only show what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring back all profiles that some runs have damaged.

    Each to the version before the damage, which becomes its newest one; history stays. What a person wrote over the damage is left
    alone, and so are users who are being forgotten. Without --yes nothing is changed. Repeating it goes on where it was broken off.
    Exit code 1 when something is left that another call may get done.
    """
    report = run(_rollback(state_of(ctx), where, prompts, limit, empty=empty, yes=yes))
    if as_json:
        emit_json({**_as_json(report), "counts": report.counts, "again": report.again})
    else:
        _print(report)
    if report.applied and report.again:
        raise typer.Exit(1)


async def _rollback(state: State, where: str | None, prompts: str | None, limit: int, *, empty: bool, yes: bool) -> RepairReport:
    async with open_client(state.settings()) as client:
        with steps(stderr()) as show:
            return await client.rollback_runs(where, prompts=prompts, apply=yes, empty=empty, limit=limit, progress=show)


def _as_json(report: RepairReport) -> dict[str, object]:
    import dataclasses

    return {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}


def _print(report: RepairReport) -> None:
    print_table(
        ("company", "user", "now", "damaged from", "back to", "lost with it", "what"),
        [_row(one) for one in report.profiles],
        empty="no user's profile was written by such runs" if not report.users else "nothing was looked at",
        whole=("user",),
        spare=("lost with it",),
    )
    write(f"\n{report.runs} runs of {report.users} users\n")
    for status, count in report.counts.items():
        write(f"{count:>7}  {status.value.replace('_', ' ')}\n")
    if report.left:
        write(f"{report.left:>7}  not looked at{'' if report.stopped else ': the limit was reached (--limit)'}\n")
    if report.stopped:
        stderr().print(f"afterturn: stopped: {safe_text(report.stopped)}", markup=False)
    if not report.applied:
        write("a dry run: nothing was changed; --yes does it\n")
    elif report.again:
        write("run it again for the rest\n")


def _row(one: ProfileRepair) -> tuple[str, ...]:
    from memory.model.ids import decode_segment

    what = one.status.value.replace("_", " ")
    if one.edited is not None:
        what += f" (v{one.edited})"
    if one.written is not None and one.status.value in {"rolled_back", "emptied"}:
        what += f" (now v{one.written})"
    if one.reason:
        what += f": {one.reason}"
    return (
        decode_segment(one.scope.tenant),
        decode_segment(one.scope.user),
        *(f"v{number}" if number is not None else "" for number in (one.version, one.damaged, one.target)),
        str(one.lost) if one.lost else "",
        what,
    )
