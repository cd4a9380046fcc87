"""The command ``dev-token``: be anybody in a running `afterturn dev`, with curl or in a browser."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, write
from starter.cli.state import DEFAULT_TENANT, DEFAULT_USER, JsonOption, TenantOption, UserOption, run, scope_of, state_of

if TYPE_CHECKING:
    from memory.settings import Settings

ASK_S = 10.0


class DevRole(StrEnum):
    USER = "user"
    ADMIN = "admin"
    SERVICE = "service"


def register(app: typer.Typer) -> None:
    app.command("dev-token")(dev_token)


def dev_token(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    role: Annotated[DevRole, typer.Option("--role", help="user, admin (with a memory too), or service.")] = DevRole.USER,
    hours: Annotated[int, typer.Option("--hours", min=1, max=24, help="How long it holds.")] = 1,
    link: Annotated[bool, typer.Option("--link", help="A link that signs a browser in, in place of a token.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Be anybody in the running `afterturn dev`.

    Prints a bearer token for its API: curl -H "Authorization: Bearer $(afterturn dev-token)" … A service's token needs the header
    Afterturn-User beside it. Nothing but `afterturn dev` accepts these; for production see `afterturn tokens`.
    """
    from api.auth.local_issuer import sign_in_link
    from memory.model.errors import InvalidInput, InvalidSettings
    from memory.settings import read_dev_file

    scope = scope_of(tenant, user)
    settings = state_of(ctx).settings()
    dev = read_dev_file(settings.data_dir)
    if "api_key" not in dev:
        raise InvalidSettings(f"no `afterturn dev` runs in {settings.data_dir.absolute()}: start it")
    base, key = dev["urls"]["api"], dev["api_key"]
    if link:
        if role is DevRole.SERVICE:
            raise InvalidInput("the pages are for people: --role user or admin")
        page = "/admin" if role is DevRole.ADMIN else "/settings"
        address = sign_in_link(base, key, page, tenant=scope.tenant_id, user=scope.user_id, role=role.value)
        emit_json({"link": address}) if as_json else write(f"{address}\n")
        return
    wish = {"tenant": scope.tenant_id, "user": scope.user_id, "role": role.value, "lifetime_s": hours * 3600}
    told = run(_ask(settings, base, key, wish))
    emit_json(told) if as_json else write(f"{told['access_token']}\n")


async def _ask(settings: Settings, base: str, key: str, wish: dict[str, Any]) -> dict[str, Any]:
    """Raises MemoryUnavailable."""
    import httpx2

    from api.auth.local_issuer import PATH
    from memory.model.errors import MemoryUnavailable

    try:
        # What is on this machine is not behind its proxy.
        async with httpx2.AsyncClient(timeout=ASK_S, trust_env=False) as http:
            answer = await http.post(f"{base}{PATH}/token", json=wish, headers={"Authorization": f"Bearer {key}"})
            answer.raise_for_status()
            return answer.json()
    except httpx2.HTTPError as error:
        raise MemoryUnavailable(
            f"the API of `afterturn dev` in {settings.data_dir.absolute()} does not answer at {base} ({type(error).__name__})"
        ) from None
