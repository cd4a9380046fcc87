"""``afterturn export``: everything that is kept about a user, in one archive."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, safe_text, write
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
    from memory.model.scope import Scope


def register(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="A new file; default: afterturn-<company>-<user>-<day>.zip in this folder.", metavar="[FILE]"),
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write everything that is kept about a user into one zip archive: Markdown for people, JSON for programs."""
    run(_export(state_of(ctx), scope_of(tenant, user), file, force=force, as_json=as_json))


async def _export(state: State, scope: Scope, file: Path | None, *, force: bool, as_json: bool) -> None:
    path = file or Path(_default_name(scope))
    _check(path, force=force)
    async with open_client(state.settings()) as client:
        scratch = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
        # Whole or not at all, and for its owner only: it holds all that is known about somebody.
        with _written(scratch) as out:
            async for piece in client.export(scope):
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
            _put_in_place(scratch, path, force=force)
    counts = _counts(path)
    if as_json:
        emit_json({"file": str(path), "bytes": path.stat().st_size, "items": counts})
        return
    write(safe_text(f"{path}: {', '.join(f'{count} {name}' for name, count in counts.items() if count) or 'nothing'}\n"))


def _default_name(scope: Scope) -> str:
    from datetime import UTC, datetime

    return f"afterturn-{scope.tenant[:60]}-{scope.user[:60]}-{datetime.now(UTC):%Y-%m-%d}.zip"


def _check(path: Path, *, force: bool) -> None:
    """Raises InvalidInput."""
    from memory.model.errors import InvalidInput

    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent}")
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there already; name another file, or use --force")


@contextlib.contextmanager
def _written(scratch: Path) -> Generator[IO[bytes]]:
    """A new file, which is gone when the block ends unless it was put in place."""
    from memory.model.errors import InvalidInput

    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(f"{scratch.parent} cannot be written to ({error.strerror})") from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
    finally:
        scratch.unlink(missing_ok=True)


def _put_in_place(scratch: Path, path: Path, *, force: bool) -> None:
    from memory.model.errors import InvalidInput

    if force:
        scratch.replace(path)
        return
    try:
        os.link(scratch, path)  # refuses what is there, however short a time
    except FileExistsError:
        raise InvalidInput(f"{path} is there already; name another file, or use --force") from None
    except OSError:
        scratch.replace(path)  # a file system without links


def _counts(path: Path) -> dict[str, int]:
    """Items by kind, as the archive's own list says."""
    import json
    import zipfile

    with zipfile.ZipFile(path) as archive:
        files = json.loads(archive.read("manifest.json"))["files"]
    counts: dict[str, int] = {}
    for one in files:
        name: str = one["name"]
        if "items" in one and name.endswith(".json"):
            kind = "table rows" if name.startswith("tables/") else name.removesuffix(".json").split(".")[0].replace("/", " ")
            counts[kind] = counts.get(kind, 0) + one["items"]
    return counts
