"""``afterturn knowledge``: three operations in plain language, followed as they run; tables, files, loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.operations import DestinationOption, follow, operation, print_answer, said_text
from starter.cli.output import emit_json, for_stdout, print_table, safe_text, stderr, stdout, when, write
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
    from memory.model.knowledge_loop import Loop
    from starter.client import MemoryClient
    from starter.steering import SteerableHandle

LoopArgument = Annotated[str, typer.Argument(help="The loop's id.")]


def register(app: typer.Typer) -> None:
    knowledge = typer.Typer(help="Tables that are asked, filled and reshaped in plain language.", no_args_is_help=True)
    knowledge.command("ask")(operation("ask", "Have a question answered from the tables. Nothing is changed."))
    knowledge.command("update")(operation("update", "Have the tables say what TEXT says."))
    knowledge.command("refactor")(operation("refactor", "Have the tables put in order; ends with a report."))
    knowledge.command("loops")(loops)
    knowledge.command("attach")(attach)
    knowledge.command("history")(history)
    knowledge.command("pause")(_steer("pause", "Pause a loop before its next step."))
    knowledge.command("resume")(_steer("resume", "Let a paused loop go on."))
    knowledge.command("interject")(interject)
    knowledge.command("answer")(answer)
    knowledge.command("question")(question)
    knowledge.command("stop")(stop)
    knowledge.command("ingest")(ingest)
    knowledge.command("sandbox")(sandbox)
    from starter.cli import knowledge_tables

    knowledge_tables.register(knowledge)
    app.add_typer(knowledge, name="knowledge")


# ------------------------------------------------------------------------------------------------------------------- loops


def loops(
    ctx: typer.Context,
    running: Annotated[bool, typer.Option("--running", help="Only those that have not ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")] = 20,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """List loops; `afterturn knowledge attach` follows one that runs."""
    from starter.loop_view import shortened

    async def work(state: State) -> None:
        async with open_client(state.settings()) as client:
            found = await client.knowledge.loops(scope_of(tenant, user), running=running, limit=limit)
        if as_json:
            emit_json([_shown(loop) for loop in found])
            return
        print_table(
            ("loop", "operation", "state", "steps", "tokens", "begun (UTC)", "request"),
            [
                (
                    loop.loop_id,
                    loop.operation.value.removeprefix("knowledge."),
                    loop.state.value,
                    str(loop.steps),
                    str(loop.input_tokens + loop.output_tokens),
                    when(loop.created_at),
                    shortened(loop.text, 60),
                )
                for loop in found
            ],
            empty="no loop",
            whole=("loop",),
            spare=("tokens", "steps", "begun (UTC)"),
        )

    run(work(state_of(ctx)))


def _shown(loop: Loop) -> dict[str, Any]:
    return {
        "loop_id": loop.loop_id,
        "operation": loop.operation,
        "text": loop.text,
        "destination": loop.destination,
        "state": loop.state,
        "reason": loop.reason,
        "answer": loop.answer,
        "structured": loop.structured,
        "steps": loop.steps,
        "input_tokens": loop.input_tokens,
        "output_tokens": loop.output_tokens,
        "parent": loop.parent,
        "created_at": loop.created_at,
        "ended_at": loop.ended_at,
    }


def attach(
    ctx: typer.Context,
    loop_id: LoopArgument,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Follow a loop to its end, from its first step; start it where it was recorded and does not run."""

    async def work(state: State) -> int:
        async with open_client(state.settings()) as client:
            handle = await client.knowledge.attach(scope_of(tenant, user), loop_id)
            return await follow(handle, state, tenant, user, as_json=as_json)

    raise typer.Exit(run(work(state_of(ctx))))


def history(
    ctx: typer.Context,
    loop_id: LoopArgument,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show all that was said and done in a loop."""

    async def work(client: MemoryClient, handle: SteerableHandle) -> None:
        from starter.loop_view import entry_lines

        entries = await handle.history()
        if as_json:
            emit_json(entries)
            return
        for entry in entries:
            for line, _ in entry_lines(entry):
                write(safe_text(line) + "\n")
        if await handle.done():
            print_answer(await handle.result(), as_json=False)

    _with_handle(ctx, tenant, user, loop_id, work)


def _with_handle(ctx: typer.Context, tenant: str, user: str, loop_id: str, work: Any) -> None:
    async def whole(state: State) -> None:
        async with open_client(state.settings()) as client:
            await work(client, await client.knowledge.attach(scope_of(tenant, user), loop_id))

    run(whole(state_of(ctx)))


def _steer(name: str, about: str) -> Any:
    def steer(
        ctx: typer.Context,
        loop_id: LoopArgument,
        tenant: TenantOption = DEFAULT_TENANT,
        user: UserOption = DEFAULT_USER,
        as_json: JsonOption = False,
    ) -> None:
        async def work(client: MemoryClient, handle: SteerableHandle) -> None:
            status = await getattr(handle, name)()
            if as_json:
                emit_json({"loop_id": loop_id, "doing": status.doing, "steps": status.progress.step})
            else:
                write(f"{status.doing}, {status.progress.step} steps\n")

        _with_handle(ctx, tenant, user, loop_id, work)

    steer.__doc__ = about
    return steer


def interject(
    ctx: typer.Context,
    loop_id: LoopArgument,
    text: Annotated[str, typer.Argument(help="What is to be corrected or added; - reads standard input.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Correct a loop that runs; the model reads it before its next step."""
    said = said_text(text)

    async def work(client: MemoryClient, handle: SteerableHandle) -> None:
        await handle.interject(said)
        emit_json({"loop_id": loop_id, "heard": True}) if as_json else write("heard\n")

    _with_handle(ctx, tenant, user, loop_id, work)


def answer(
    ctx: typer.Context,
    loop_id: LoopArgument,
    text: Annotated[str, typer.Argument(help="The answer to what the loop asks; - reads standard input.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Answer the question that a loop waits with."""
    said = said_text(text)

    async def work(client: MemoryClient, handle: SteerableHandle) -> None:
        from starter.loop_view import clarified

        await clarified(handle, said)
        emit_json({"loop_id": loop_id, "answered": True}) if as_json else write("answered\n")

    _with_handle(ctx, tenant, user, loop_id, work)


def question(
    ctx: typer.Context,
    loop_id: LoopArgument,
    text: Annotated[str, typer.Argument(help="What you want to know of the loop; - reads standard input.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Ask about a loop: how far it is, or afterwards how it came to its answer. The loop goes on meanwhile."""
    said = said_text(text)

    async def work(client: MemoryClient, handle: SteerableHandle) -> None:
        from memory.model.errors import MemoryUnavailable

        try:
            told = await handle.ask(said)
        except TimeoutError:
            raise MemoryUnavailable("no answer in time; does a worker run?") from None
        emit_json({"loop_id": loop_id, "answer": told}) if as_json else write(for_stdout(told) + "\n")

    _with_handle(ctx, tenant, user, loop_id, work)


def stop(
    ctx: typer.Context,
    loop_id: LoopArgument,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the loop.")] = "",
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Stop a loop; what it has done stands."""

    async def work(client: MemoryClient, handle: SteerableHandle) -> None:
        ended = await handle.stop(reason)
        if as_json:
            emit_json({"loop_id": loop_id, "stopping": ended is None, "ended": ended})
        else:
            write(f"it had ended: {ended.state.value}\n" if ended else "stopping\n")

    _with_handle(ctx, tenant, user, loop_id, work)


# ---------------------------------------------------------------------------------------------------------- files, sandbox


def ingest(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="PDF, DOCX, HTML, Markdown, CSV, XLSX or text files.")],
    destination: DestinationOption = "personal",
    table: Annotated[
        str | None, typer.Option("--table", help="Name for the rows of tables; default: from the file's name.")
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Take documents into the tables, with file and page of each row. Again: nothing is added twice."""

    async def work(state: State) -> int:
        from memory.model.errors import InvalidInput
        from starter.ingest import Progress
        from starter.ingest import ingest as take_in

        seen: list[Progress] = []
        problems = 0
        async with open_client(state.settings()) as client:
            for file in files:
                try:
                    async for done in take_in(client.knowledge, scope_of(tenant, user), file, destination=destination, table=table):
                        seen.append(done)
                        problems += not done.ok
                        if not as_json:
                            write(safe_text(_progress(done)) + "\n")
                            for note in done.notes:
                                stderr().print(f"afterturn: {safe_text(file.name)}: {safe_text(note)}", markup=False)
                except InvalidInput as error:
                    problems += 1
                    stderr().print(f"afterturn: {safe_text(file.name)}: {error.message}", markup=False)
        if as_json:
            emit_json(seen)
        return 1 if problems else 0

    raise typer.Exit(run(work(state_of(ctx))))


def _progress(done: Any) -> str:
    where = f"{done.file} {done.part}/{done.parts} {done.what}"
    if done.loop_id is None:
        skipped = f", {done.skipped} were there" if done.skipped else ""
        return f"{where}: {done.rows} rows into {done.table}{skipped}"
    why = f" ({done.reason})" if done.reason else ""
    return f"{where}: {done.state.value}{why}, loop {done.loop_id}"


def sandbox(
    ctx: typer.Context,
    scenario: Annotated[str, typer.Argument(help="electric-vehicles or papers.")] = "electric-vehicles",
    tenant: TenantOption = "sandbox",
    user: Annotated[str | None, typer.Option("--user", "-u", help="The user; default: a new one.")] = None,
) -> None:
    """Ask, fill and reshape the tables of a ready scenario, and watch the loops.

    Needs `afterturn dev` or a worker.
    """

    async def work(state: State) -> None:
        from secrets import token_hex

        from starter.knowledge_sandbox import KnowledgeSandbox

        scope = scope_of(tenant, user or f"sandbox-{token_hex(4)}")
        async with open_client(state.settings()) as client:
            await KnowledgeSandbox(client, scope, scenario, stdout()).run()

    run(work(state_of(ctx)))
