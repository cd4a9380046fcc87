"""``afterturn profile``: show, history, rollback, edit."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.output import emit_json, for_stdout, print_table, safe_text, stderr, write
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
    from types import FrameType

    from memory.model.scope import Scope
    from starter.views import EditResult, ProfileView

MAX_BODY_BYTES = 1024 * 1024


def register(app: typer.Typer) -> None:
    profile = typer.Typer(help="A user's profile.", no_args_is_help=True)
    profile.command("show")(show)
    profile.command("history")(history)
    profile.command("rollback")(rollback)
    profile.command("edit")(edit)
    app.add_typer(profile, name="profile")


def show(
    ctx: typer.Context,
    version: Annotated[int | None, typer.Option("--version", "-v", min=1, help="An older version; default: the newest.")] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Print the profile (the body only). Reading never creates anything."""
    run(_show(state_of(ctx), tenant, user, version, as_json=as_json))


async def _show(state: State, tenant: str, user: str, version: int | None, *, as_json: bool) -> None:
    from memory.model.errors import InvalidInput

    scope = scope_of(tenant, user)
    async with open_client(state.settings()) as client:
        profile = await client.get_profile(scope, version=version)
    if version is not None and not profile.exists:
        raise InvalidInput(f"there is no version {version} of the profile; `afterturn profile history` shows those there are")
    if as_json:
        emit_json(_view_json(profile))
    elif not profile.exists:
        stderr().print("no profile yet: nothing lasting has been learned about this user")
    else:
        write(for_stdout(profile.body.rstrip("\n") + "\n"))
        stderr().print(f"version {profile.version}, {profile.tokens} of {profile.max_tokens} tokens", style="dim")


def _view_json(profile: ProfileView) -> dict[str, object]:
    return {
        "exists": profile.exists,
        "version": profile.version,
        "etag": profile.etag,
        "last_updated": profile.last_updated,
        "turn_count": profile.turn_count,
        "tokens": profile.tokens,
        "max_tokens": profile.max_tokens,
        "cause": profile.cause,
        "body": profile.body,
    }


def history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")] = 50,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """List the versions of the profile, newest first."""
    run(_history(state_of(ctx), tenant, user, limit, as_json=as_json))


async def _history(state: State, tenant: str, user: str, limit: int, *, as_json: bool) -> None:
    scope = scope_of(tenant, user)
    async with open_client(state.settings()) as client:
        versions = await client.history(scope, limit=limit)
    if as_json:
        emit_json(list(versions))
        return
    print_table(
        ("version", "written (UTC)", "by", "prompts", "bytes"),
        [
            (
                f"{v.version}{' (now)' if v.is_latest else ''}",
                f"{v.written_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
                v.cause or "",
                v.prompts or "",
                f"{v.size}",
            )
            for v in versions
        ],
        empty="no version yet",
    )


def rollback(
    ctx: typer.Context,
    to: Annotated[int, typer.Option("--to", min=1, help="The version to bring back; it becomes the newest one.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Bring an older version back. The versions between stay in the history."""
    run(_rollback(state_of(ctx), tenant, user, to, as_json=as_json))


async def _rollback(state: State, tenant: str, user: str, to: int, *, as_json: bool) -> None:
    scope = scope_of(tenant, user)
    async with open_client(state.settings()) as client:
        result = await client.rollback(scope, to)
    _report_write(result, as_json=as_json, done=f"version {to} is back as version {result.version}")


def edit(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="The new body; - for standard input; default: your editor.")
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Change the profile by hand: in the editor of $VISUAL or $EDITOR, from a file, or from standard input."""
    state, scope = state_of(ctx), scope_of(tenant, user)
    # Reading and the editor stand outside of the event loop, in which nothing would answer Ctrl-C meanwhile.
    if file is None:
        etag, body = run(_stored(state, scope))
        scratch = _scratch_file(body)
        given = _edited(scratch)
        if given == body:
            scratch.unlink()
            stderr().print("nothing was changed")
            return
        result = run(_save(state, scope, given, scratch, etag))
    else:
        scratch, given = None, _read_body(file)
        result = run(_save_now(state, scope, given))
    if not result.saved:
        _keep(scratch, given, conflict=result)
    elif scratch is not None:
        scratch.unlink()
    _report_write(result, as_json=as_json, done=f"saved as version {result.version}")


async def _stored(state: State, scope: Scope) -> tuple[str | None, str]:
    """ETag and body."""
    async with open_client(state.settings()) as client:
        profile = await client.get_profile(scope)
    return profile.etag, profile.body


async def _save(state: State, scope: Scope, given: str, scratch: Path, etag: str | None) -> EditResult:
    async with _keeping(scratch, given), open_client(state.settings()) as client:
        return await client.edit_profile(scope, given, expected_etag=etag)


async def _save_now(state: State, scope: Scope, given: str) -> EditResult:
    """Over whatever is there. A file that is too large to be read can be saved over as well."""
    from memory.model.errors import UnreadableProfile

    async with open_client(state.settings()) as client:
        try:
            etag = (await client.get_profile(scope)).etag
        except UnreadableProfile as error:
            etag = error.etag
        async with _keeping(None, given):
            return await client.edit_profile(scope, given, expected_etag=etag)


@asynccontextmanager
async def _keeping(scratch: Path | None, given: str) -> AsyncGenerator[None]:
    """Whatever ends the block early: the user's text stays in a file."""
    try:
        yield
    except BaseException:
        _keep(scratch, given)
        raise


def _read_body(file: str) -> str:
    from memory.model.errors import InvalidInput

    name = "standard input" if file == "-" else file
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MAX_BODY_BYTES + 1)
        else:
            with Path(file).open("rb") as source:
                data = source.read(MAX_BODY_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{name}: cannot be read: {reason}") from None
    if len(data) > MAX_BODY_BYTES:
        raise InvalidInput(f"{name}: is larger than 1 MiB; nothing was changed")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: is not UTF-8 (byte {error.start}); nothing was changed") from None


def _scratch_file(body: str) -> Path:
    """A private file with what is stored, for the editor; kept when the save does not succeed."""
    descriptor, name = tempfile.mkstemp(prefix="afterturn-profile-", suffix=".md")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(body)
    return Path(name)


def _leave_it(_number: int, _frame: FrameType | None) -> None:
    """A signal that somebody else answers."""


def _edited(scratch: Path) -> str:
    from memory.model.errors import InvalidInput
    from memory.settings import editor_command

    command = editor_command()
    # Ctrl-C is for the editor, which gets it as well. A handler, unlike "ignore", is not handed down to it.
    before = signal.signal(signal.SIGINT, _leave_it)
    try:
        done = subprocess.run([*shlex.split(command), str(scratch)], check=False)  # noqa: S603  the user's own editor
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the editor {command!r} cannot be started: {error}; set EDITOR or use --file") from None
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode != 0:
        how = f"with exit code {done.returncode}" if done.returncode > 0 else f"by {signal.Signals(-done.returncode).name}"
        raise InvalidInput(f"the editor ended {how}; nothing was changed, your text is in {scratch}")
    return _read_body(str(scratch))


def _keep(scratch: Path | None, text: str, *, conflict: EditResult | None = None) -> None:
    """The user's text stays in a file; after a conflict both versions are shown."""
    kept = scratch or _scratch_file(text)
    console = stderr()
    if conflict is not None and conflict.theirs is not None:
        from starter.cli.demo_view import diff_style
        from starter.demo import unified

        console.print("the profile changed while you edited; nothing was overwritten. From the stored version (-) to yours (+):")
        for line in unified(conflict.theirs, text):
            console.print(safe_text(line), style=diff_style(line), markup=False)
    console.print(f"your text is in {kept}", markup=False)


def _report_write(result: EditResult, *, as_json: bool, done: str) -> None:
    if as_json:
        emit_json(
            {
                "status": result.status,
                "version": result.version,
                "etag": result.etag,
                "reason": result.reason,
                "yours": result.yours,
                "theirs": result.theirs,
            }
        )
    elif result.saved:
        write("unchanged: the profile says this already\n" if result.status.value == "unchanged" else done + "\n")
    if not result.saved:
        from memory.model.errors import AfterturnError

        raise AfterturnError(f"not saved: {result.reason or result.status.value}")
