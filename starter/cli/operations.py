"""Commands that have something done in plain language: begin a loop, follow it, print its answer."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, for_stdout, safe_text, stderr, write
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

    from starter.steering import LoopAnswer, SteerableHandle

DestinationOption = Annotated[
    str, typer.Option("--destination", "-d", help="personal, or team:<id>: where new tables and rows are written.")
]
PERSONAL = "personal"
TEXTS = {
    "ask": "What you want to know; - reads standard input.",
    "update": "What shall be true: new facts, corrections, deletions; - reads standard input.",
    "refactor": "How the tables shall be put in order; - reads standard input.",
}
KEYS = "On a terminal, keys pause (p), resume (r), correct (i), ask about (a) and stop (s) it, and answer (c) its open question."


def operation(name: str, about: str, *, manager: str = "knowledge") -> Any:
    """A command that begins one operation of a manager and follows it.

    Args:
        name: ``ask``, ``update`` or ``refactor``, a method of the manager.
        about: first line of its help.
        manager: ``knowledge``, ``contacts`` or ``tasks`` of the client.
    """

    def begin(
        ctx: typer.Context,
        text: str,
        destination: DestinationOption = PERSONAL,
        instructions: Annotated[str | None, typer.Option("--instructions", help="For this call, beside the system prompt.")] = None,
        schema: Annotated[Path | None, typer.Option("--schema", help="JSON schema file: the answer is JSON of this form.")] = None,
        clarify: Annotated[
            bool | None, typer.Option("--clarify/--no-clarify", help="Whether it may ask; default: on a terminal.")
        ] = None,
        wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it, or print its id and leave it running.")] = True,
        loop_id: Annotated[str | None, typer.Option("--loop-id", help="Makes a repeated call the same loop.")] = None,
        model: Annotated[str | None, typer.Option("--model", help="provider:model; default: as the settings say.")] = None,
        tenant: TenantOption = DEFAULT_TENANT,
        user: UserOption = DEFAULT_USER,
        as_json: JsonOption = False,
    ) -> None:
        options = {
            "case_specific_instructions": instructions,
            "response_format": None if schema is None else _schema(schema),
            "clarify": _on_terminal() if clarify is None else clarify,
            "loop_id": loop_id,
            "language_model": model,
        }
        if destination != PERSONAL:
            options["destination"] = destination
        said = said_text(text)

        async def work(state: State) -> int:
            async with open_client(state.settings()) as client:
                handle = await getattr(getattr(client, manager), name)(scope_of(tenant, user), said, **options)
                if not wait:
                    emit_json({"loop_id": handle.loop_id}) if as_json else write(f"{handle.loop_id}\n")
                    return 0
                return await follow(handle, state, tenant, user, as_json=as_json)

        raise typer.Exit(run(work(state_of(ctx))))

    begin.__doc__ = f"{about}\n\n{KEYS}"
    begin.__annotations__["text"] = Annotated[str, typer.Argument(help=TEXTS[name])]
    if manager != "knowledge" or name == "ask":
        # These write to no table of a team, so there is nothing to choose.
        signature = inspect.signature(begin, eval_str=True)
        kept = [one for one in signature.parameters.values() if one.name != "destination"]
        begin.__dict__["__signature__"] = signature.replace(parameters=kept)
    return begin


def said_text(text: str) -> str:
    """The argument, or standard input for ``-``. Raises InvalidInput."""
    import sys

    from memory.model.errors import InvalidInput
    from memory.model.knowledge_loop import MAX_REQUEST_BYTES

    if text != "-":
        return text
    read = sys.stdin.buffer.read(MAX_REQUEST_BYTES + 1)
    try:
        return read.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input is not UTF-8 at byte {error.start}") from None


def _on_terminal() -> bool:
    import os

    return os.isatty(0) and os.isatty(2)


def _schema(path: Path) -> dict[str, Any]:
    from pydantic import TypeAdapter, ValidationError

    from memory.model.errors import InvalidInput

    try:
        return TypeAdapter(dict[str, Any]).validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"--schema {path} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise InvalidInput(f"--schema {path} is not a JSON schema: that is an object") from None


async def follow(handle: SteerableHandle, state: State, tenant: str, user: str, *, as_json: bool) -> int:
    """Show a loop until it ends, and its answer. Exit code 0 where it came to its own end."""
    import asyncio

    from starter.loop_view import LoopView

    try:
        ended = await LoopView(handle, stderr()).follow()
    except asyncio.CancelledError:
        command = attach_command(handle.loop_id, tenant, user, state.data_dir)
        stderr().print(f"it goes on; follow it with: {command}", markup=False)
        raise
    print_answer(ended, as_json=as_json)
    return 0 if ended.ok else 1


def attach_command(loop_id: str, tenant: str, user: str, data_dir: Path | None) -> str:
    """What follows a loop again, as a shell takes it: with its user and folder where they are not the defaults."""
    return user_command(("knowledge", "attach", loop_id), tenant, user, data_dir)


def user_command(command: Sequence[str], tenant: str, user: str, data_dir: Path | None) -> str:
    """A command for the same user and folder, as a shell takes it."""
    import shlex

    words = ["afterturn", *(() if data_dir is None else ("--data-dir", str(data_dir))), *command]
    words += () if tenant == DEFAULT_TENANT else ("-t", tenant)
    words += () if user == DEFAULT_USER else ("-u", user)
    return safe_text(shlex.join(words))


def print_answer(ended: LoopAnswer, *, as_json: bool) -> None:
    if as_json:
        emit_json(ended)
    elif ended.structured is not None:
        emit_json(ended.structured)
    else:
        write(for_stdout(ended.text) + "\n")
