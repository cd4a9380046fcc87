"""The tree of commands. Command modules import what is heavy inside their functions, so ``--help`` is quick."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from starter.cli import (
    codec,
    contacts,
    dev_token,
    engines,
    events,
    export,
    facts,
    forget,
    knowledge,
    library,
    mcp,
    operate,
    profiles,
    rollback,
    spaces,
    tasks,
    tokens,
    windows,
)
from starter.cli.output import write
from starter.cli.state import state_of

app = typer.Typer(
    name="afterturn",
    help="Durable memory for AI assistants, on Temporal.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            write(f"afterturn {version('afterturn')}\n")
        except PackageNotFoundError:
            write("afterturn (not installed)\n")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder of the local engines; as the setting AFTERTURN_DATA_DIR.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs on standard error.")] = False,
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Options that stand before the command."""
    state = state_of(ctx)
    state.debug = debug
    state.data_dir = data_dir


engines.register(app)
dev_token.register(app)
codec.register(app)
profiles.register(app)
operate.register(app)
rollback.register(app)
spaces.register(app)
events.register(app)
windows.register(app)
facts.register(app)
contacts.register(app)
tasks.register(app)
forget.register(app)
library.register(app)
knowledge.register(app)
mcp.register(app)
tokens.register(app)
export.register(app)
