"""Operation: ``status``, ``runs``, ``rerun``, ``spool``, ``replay``."""

from __future__ import annotations

import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, print_table, safe_text, stderr, stdout, write
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
    from collections.abc import Sequence

    from memory.ports import TurnSummary
    from starter.replay import ReplayReport
    from starter.views import UserStatus

LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")]


def register(app: typer.Typer) -> None:
    app.command("status")(status)
    app.command("runs")(runs)
    app.command("rerun")(rerun)
    spool = typer.Typer(help="Turns that wait on this machine.", no_args_is_help=True)
    spool.command("status")(spool_status)
    spool.command("drain")(spool_drain)
    app.add_typer(spool, name="spool")
    app.command("replay")(replay)


# ------------------------------------------------------------------------------------------------------------------- status


def status(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show where a user's memory stands.

    On or off and why, the run, waiting turns, the last outcomes.
    """
    run(_status(state_of(ctx), tenant, user, as_json=as_json))


async def _status(state: State, tenant: str, user: str, *, as_json: bool) -> None:
    scope = scope_of(tenant, user)
    async with open_client(state.settings()) as client:
        found = await client.status(scope)
    if as_json:
        emit_json(found)
    else:
        _print_status(found)
    if found.unavailable:
        raise typer.Exit(1)


def _print_status(found: UserStatus) -> None:
    memory = "unknown"
    if found.enablement is not None:
        memory = "on" if found.enablement.active else "off: " + "; ".join(reason.message for reason in found.enablement.reasons)
    working = {True: f"running, {found.stage or 'no worker says at what'}", False: "idle", None: "unknown"}[found.running]
    lines = [
        ("memory", memory),
        ("workflow", f"{found.workflow_id} ({working})"),
        ("waiting turns", "unknown" if found.pending_turns is None else str(found.pending_turns)),
        ("profile", "unknown" if found.profile_version is None else f"version {found.profile_version}"),
    ]
    missing: dict[str, list[str]] = {}
    for name, why in found.unavailable.items():
        missing.setdefault(why, []).append(name)
    lines += [("unavailable", f"{', '.join(names)}: {why}") for why, names in missing.items()]
    for name, value in lines:
        write(f"{name + ':':<15} {safe_text(value)}\n")
    if found.recent:
        write("\n")
        _print_turns(found.recent)


def _print_turns(turns: Sequence[TurnSummary]) -> None:
    print_table(
        ("turn", "recorded (UTC)", "outcome", "reason", "profile", "flags"),
        [
            (
                f"{turn.ordinal} {turn.turn_id[:40]}" + (f" (rerun {turn.attempt})" if turn.attempt else ""),
                f"{turn.recorded_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
                turn.outcome.value if turn.outcome else turn.state,
                turn.reason or "",
                "" if turn.profile_version is None else f"v{turn.profile_version}",
                ", ".join(turn.flags),
            )
            for turn in turns
        ],
        empty="no turn yet",
        whole=("turn",),
    )


# --------------------------------------------------------------------------------------------------------------------- runs


def runs(
    ctx: typer.Context,
    outcome: Annotated[
        str | None, typer.Option("--outcome", help="Only runs whose last outcome is this: updated, noop, kept.")
    ] = None,
    prompts: Annotated[str | None, typer.Option("--prompts", help="Only runs that used this version of the prompts.")] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only runs that are not finished.")] = False,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Only this company; default: all.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user; default: all.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List workflow runs."""
    run(_runs(state_of(ctx), _query(outcome, prompts, tenant, user, open_only=open_only), limit, as_json=as_json))


def _query(outcome: str | None, prompts: str | None, tenant: str | None, user: str | None, *, open_only: bool) -> str:
    from memory.model.errors import InvalidInput
    from memory.model.ids import encode_segment
    from memory.model.names import POST_ANSWER_WORKFLOW, SEARCH_OUTCOME, SEARCH_TENANT, SEARCH_USER
    from memory.model.turn import Outcome
    from starter.bulk_rollback import query_of

    terms = [f'WorkflowType = "{POST_ANSWER_WORKFLOW}"' if prompts is None else query_of(None, prompts)]
    if outcome is not None:
        if outcome not in set(Outcome):
            raise InvalidInput(f"there is no outcome {outcome[:40]!r}; there are {', '.join(Outcome)}")
        terms.append(f'{SEARCH_OUTCOME} = "{outcome}"')
    if tenant is not None:
        terms.append(f'{SEARCH_TENANT} = "{encode_segment(tenant, what="tenant id")}"')
    if user is not None:
        terms.append(f'{SEARCH_USER} = "{encode_segment(user, what="user id")}"')
    if open_only:
        terms.append('ExecutionStatus = "Running"')
    return " AND ".join(terms)


async def _runs(state: State, query: str, limit: int, *, as_json: bool) -> None:
    from temporalio.common import SearchAttributeKey

    from memory.model.names import SEARCH_OUTCOME, SEARCH_PROMPTS, SEARCH_STAGE
    from starter.temporal import connect

    outcome, stage = SearchAttributeKey.for_keyword(SEARCH_OUTCOME), SearchAttributeKey.for_keyword(SEARCH_STAGE)
    prompts = SearchAttributeKey.for_keyword_list(SEARCH_PROMPTS)
    client = await connect(state.settings())
    rows: list[dict[str, object]] = []
    async for found in client.list_workflows(query, limit=limit):
        attributes = found.typed_search_attributes
        rows.append(
            {
                "workflow_id": found.id,
                "run_id": found.run_id,
                "status": found.status.name.lower() if found.status else "unknown",
                "outcome": attributes.get(outcome),
                "stage": attributes.get(stage),
                "prompts": attributes.get(prompts) or [],
                "started_at": found.start_time,
                "closed_at": found.close_time,
            }
        )
    if as_json:
        emit_json(rows)
        return
    columns = ("workflow_id", "run_id", "status", "outcome", "stage", "started_at")
    print_table(
        columns,
        [tuple(_cell(row[name]) for name in columns) for row in rows],
        empty="no run found",
        whole=("workflow_id", "run_id"),
        spare=("run_id", "stage"),
    )


def _cell(value: object) -> str:
    from datetime import datetime

    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return "" if value is None else str(value)


# -------------------------------------------------------------------------------------------------------------------- rerun


def rerun(
    ctx: typer.Context,
    turn_ids: Annotated[list[str] | None, typer.Argument(help="Only these turns; default: all that were kept.")] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user; default: all users of the company.")] = None,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Also turns that were skipped because memory was off, except by the user's own wish.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many turns.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """Run turns again that a failure kept out.

    Their outcome is "kept": the old profile stayed as it was.
    """
    if run(_rerun(state_of(ctx), tenant, user, turn_ids, limit, skipped=skipped, as_json=as_json)):
        raise typer.Exit(1)


async def _rerun(
    state: State, tenant: str, user: str | None, turn_ids: list[str] | None, limit: int, *, skipped: bool, as_json: bool
) -> int:
    """How many of the turns that were named do not run again."""
    from memory.model.errors import InvalidInput
    from memory.model.ids import encode_segment
    from memory.model.turn import Outcome

    if turn_ids and user is None:
        raise InvalidInput("turn ids belong to a user: add --user")
    outcomes = (Outcome.KEPT, Outcome.SKIPPED) if skipped else (Outcome.KEPT,)
    async with open_client(state.settings()) as client:
        if user is None:
            result = await client.rerun(tenant=encode_segment(tenant, what="tenant id"), outcomes=outcomes, limit=limit)
        else:
            result = await client.rerun(scope=scope_of(tenant, user), turn_ids=turn_ids or None, outcomes=outcomes, limit=limit)
    kinds = "kept or skipped" if skipped else "kept"
    again = {turn.turn_id for turn in result.reopened}
    left = [turn_id for turn_id in dict.fromkeys(turn_ids or ()) if turn_id not in again]
    if as_json:
        emit_json(result)
    elif result.reopened:
        _print_turns(result.reopened)
        waiting = f"; {result.waiting} wait for the sweeper" if result.waiting else ""
        write(f"{len(result.reopened)} turns run again for {result.started + result.waiting} users{waiting}\n")
    elif not left:
        write(f"no turn was {kinds}: nothing to run again\n")
    if left:
        stderr().print(f"afterturn: {', '.join(ascii(one)[:80] for one in left[:5])}: not {kinds}, so not run again", markup=False)
    return len(left)


# -------------------------------------------------------------------------------------------------------------------- spool


def spool_status(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """How much waits in this machine's spool file."""
    from starter.spool import Spool

    settings = state_of(ctx).settings()
    spool = Spool(settings.spool_file, max_bytes=settings.spool_max_bytes)
    waiting = spool.waiting_bytes()
    rejected = spool.rejected_path.stat().st_size if spool.rejected_path.exists() else 0
    if as_json:
        emit_json(
            {
                "enabled": spool.enabled,
                "path": spool.path,
                "waiting_bytes": waiting,
                "max_bytes": spool.max_bytes,
                "rejected_bytes": rejected,
            }
        )
    elif not spool.enabled:
        write("the spool is switched off (AFTERTURN_SPOOL_MAX_BYTES is 0)\n")
    else:
        write(f"{spool.path}: {waiting} of {spool.max_bytes} bytes wait\n")
        if rejected:
            write(f"{spool.rejected_path}: {rejected} bytes could not be recorded and need a person\n")


def spool_drain(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Record what waits in the spool now."""
    run(_spool_drain(state_of(ctx), as_json=as_json))


async def _spool_drain(state: State, *, as_json: bool) -> None:
    async with open_client(state.settings()) as client:
        result = await client.drain_spool()
    if as_json:
        emit_json(result)
    elif result.busy:
        write("another process drains the spool\n")
    else:
        write(f"{result.recorded} recorded, {result.duplicates} were there already, {result.skipped} skipped, ")
        write(f"{result.rejected} rejected, {result.remaining} left\n")
    if result.remaining or result.reason:
        stderr().print(f"afterturn: the spool is not empty: {result.reason or 'see above'}", markup=False)
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------------------------------------- replay


def replay(
    ctx: typer.Context,
    histories: Annotated[Path, typer.Argument(help="A folder of recorded histories, or one file.")] = Path("tests/histories"),
    namespace: Annotated[bool, typer.Option("--namespace", help="Replay runs of the connected namespace instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="With --namespace: at most this many runs.")] = 100,
    open_only: Annotated[bool, typer.Option("--open", help="With --namespace: only runs that still have to go on.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check workflow code against histories.

    Replays recorded or live histories with the code of this installation: would running workflows survive it?
    """
    from starter.replay import lesson

    state = state_of(ctx)
    report = run(_replay(state, histories, namespace=namespace, limit=limit, open_only=open_only))
    if as_json:
        emit_json(report)
    else:
        for result in report.results:
            mark = "ok  " if result.ok else "FAIL"
            write(f"{mark} {safe_text(result.name)} ({result.events} events)\n")
        write(f"{len(report.results) - report.failed} of {len(report.results)} histories replay\n")
        if report.failed:
            sys.stdout.flush()
            stdout().print()
            write(lesson(report))
    if report.failed:
        raise typer.Exit(1)


async def _replay(state: State, histories: Path, *, namespace: bool, limit: int, open_only: bool) -> ReplayReport:
    from starter.payloads import data_converter
    from starter.replay import replay_files, replay_namespace
    from starter.temporal import connect

    settings = state.settings()
    if not namespace:
        return await replay_files(histories, converter=data_converter(settings))
    return await replay_namespace(await connect(settings), limit=limit, open_only=open_only)
