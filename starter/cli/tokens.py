"""Service tokens on the command line: ``tokens create|list|revoke``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, print_table, safe_text, when, write
from starter.cli.state import DEFAULT_TENANT, JsonOption, State, TenantOption, YesOption, open_tables, run, state_of

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from memory.ports.service import ServiceToken
    from memory.stores.tables import Tables

DEFAULT_EXPIRY = "90d"
MAX_DAYS = 3650


def register(app: typer.Typer) -> None:
    tokens = typer.Typer(help="Tokens by which an orchestrator acts for the users of one company.", no_args_is_help=True)
    tokens.command("create")(tokens_create)
    tokens.command("list")(tokens_list)
    tokens.command("revoke")(tokens_revoke)
    app.add_typer(tokens, name="tokens")


@asynccontextmanager
async def _tables(state: State) -> AsyncGenerator[Tables]:
    async with open_tables(state.settings()) as tables:
        await tables.log.ping()
        yield tables


def _tenant(tenant: str) -> str:
    from memory.model.ids import encode_segment

    return encode_segment(tenant, what="tenant id")


def tokens_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option("--name", help="What it is for, in a line.")],
    tenant: TenantOption = DEFAULT_TENANT,
    allow: Annotated[
        str, typer.Option("--allow", help="What it may do, by commas: read, write, forget, admin.", show_default=True)
    ] = "read,write",
    expires: Annotated[
        str, typer.Option("--expires", help="When it ends: 12h, 90d, or never.", show_default=True)
    ] = DEFAULT_EXPIRY,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown once, on standard output; only a hash of it is kept."""
    run(_create(state_of(ctx), _tenant(tenant), name, allow, expires, as_json=as_json))


async def _create(state: State, tenant: str, name: str, allow: str, expires: str, *, as_json: bool) -> None:
    import sys
    from datetime import UTC, datetime

    from memory.model.service_token import make_token

    now = datetime.now(UTC)
    lasts = duration_of(expires)
    made = make_token()
    async with _tables(state) as tables:
        token = await tables.tokens.create(
            tenant,
            token_id=made.token_id,
            secret_hash=made.secret_hash,
            name=name,
            permissions=[one.strip() for one in allow.split(",") if one.strip()],
            expires_at=None if lasts is None else now + lasts,
            now=now,
        )
    if as_json:
        emit_json({**_shown(token, now), "token": made.text})
        return
    # The token alone on standard output, so that it can be piped into where it is kept.
    write(made.text + "\n")
    ends = "never expires" if token.expires_at is None else f"expires {when(token.expires_at)} UTC"
    sys.stderr.write(safe_text(f"{token.name}: {', '.join(token.permissions)}; {ends}. It is not shown again.\n"))


def tokens_list(ctx: typer.Context, tenant: TenantOption = DEFAULT_TENANT, as_json: JsonOption = False) -> None:
    """List the tokens of a company, newest first, also those that have ended."""
    run(_list(state_of(ctx), _tenant(tenant), as_json=as_json))


async def _list(state: State, tenant: str, *, as_json: bool) -> None:
    from datetime import UTC, datetime

    async with _tables(state) as tables:
        found = await tables.tokens.list(tenant)
    now = datetime.now(UTC)
    if as_json:
        emit_json([_shown(token, now) for token in found])
        return
    print_table(
        ("token", "name", "may", "state", "created (UTC)", "expires (UTC)", "last used (UTC)"),
        [
            (
                token.token_id,
                token.name,
                ",".join(token.permissions),
                _state(token, now),
                when(token.created_at),
                when(token.expires_at),
                when(token.last_used_at),
            )
            for token in found
        ],
        empty="no token",
        whole=("token",),
        spare=("created (UTC)", "last used (UTC)"),
    )


def tokens_revoke(
    ctx: typer.Context,
    token: Annotated[str, typer.Argument(help="Its id, the part behind aft_, as `tokens list` shows it.")],
    tenant: TenantOption = DEFAULT_TENANT,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """End a token at once. It cannot be taken back."""
    from memory.model.errors import InvalidInput

    if token.startswith("aft_"):
        raise InvalidInput("give the id of the token only: a whole token does not belong on a command line")
    if not yes:
        typer.confirm(f"Revoke {token}?", abort=True, err=True)
    run(_revoke(state_of(ctx), _tenant(tenant), token, as_json=as_json))


async def _revoke(state: State, tenant: str, token_id: str, *, as_json: bool) -> None:
    from datetime import UTC, datetime

    from memory.model.errors import InvalidInput

    async with _tables(state) as tables:
        if not await tables.tokens.revoke(tenant, token_id, now=datetime.now(UTC)):
            raise InvalidInput(f"there is no token {ascii(token_id)[:60]} of this company; `afterturn tokens list` shows them")
    emit_json({"token_id": token_id, "revoked": True}) if as_json else write(safe_text(f"revoked {token_id}\n"))


def duration_of(text: str) -> timedelta | None:
    """``12h`` or ``90d``; None for ``never``. Raises InvalidInput."""
    from datetime import timedelta

    from memory.model.errors import InvalidInput

    given = text.strip().lower()
    if given == "never":
        return None
    number, unit = given[:-1], given[-1:]
    if unit in ("h", "d") and number.isascii() and number.isdecimal() and len(number) <= 6:
        lasts = timedelta(hours=int(number)) if unit == "h" else timedelta(days=int(number))
        if timedelta(0) < lasts <= timedelta(days=MAX_DAYS):
            return lasts
    raise InvalidInput(f"--expires is 1h to {MAX_DAYS}d, or never; not {ascii(text)[:40]}")


def _state(token: ServiceToken, now: datetime) -> str:
    return "revoked" if token.revoked_at is not None else "active" if token.usable(now) else "expired"


def _shown(token: ServiceToken, now: datetime) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "name": token.name,
        "permissions": token.permissions,
        "state": _state(token, now),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }
