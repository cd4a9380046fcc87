"""Administration: the settings of spaces, users' preferences, companies' roots, and whether memory is on.

``space``, ``preference``, ``roots``, ``enablement``, ``settings``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, print_table, safe_text, write
from starter.cli.state import (
    JsonOption,
    State,
    TenantOption,
    UserOption,
    YesOption,
    open_tables,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from memory.model.directory import SpaceSettings
    from memory.settings import Settings
    from memory.stores.tables import Tables
    from starter.roots import Roots

SpaceArgument = Annotated[str, typer.Argument(help="The space.", show_default=True)]
SpaceOption = Annotated[str, typer.Option("--space", help="The space.", show_default=True)]
DEFAULT_SPACE = "default"


def register(app: typer.Typer) -> None:
    space = typer.Typer(help="Settings of a space.", no_args_is_help=True)
    space.command("show")(space_show)
    space.command("set")(space_set)
    preference = typer.Typer(help="A user's own choice.", no_args_is_help=True)
    preference.command("allow")(preference_allow)
    preference.command("deny")(preference_deny)
    roots = typer.Typer(help="Memory roots of a company.", no_args_is_help=True)
    roots.command("list")(roots_list)
    roots.command("rename")(roots_rename)
    roots.command("remove")(roots_remove)
    settings = typer.Typer(help="Settings of the deployment.", no_args_is_help=True)
    settings.command("list")(settings_list)
    app.add_typer(space, name="space")
    app.add_typer(preference, name="preference")
    app.add_typer(roots, name="roots")
    app.command("enablement")(enablement)
    app.add_typer(settings, name="settings")


@asynccontextmanager
async def _tables(state: State) -> AsyncGenerator[tuple[Tables, Settings]]:
    """The database, checked to be at the schema of this code."""
    settings = state.settings()
    async with open_tables(settings) as tables:
        await tables.log.ping()
        yield tables, settings


def _segment(raw: str, what: str) -> str:
    from memory.model.ids import encode_segment

    return encode_segment(raw, what=what)


# ------------------------------------------------------------------------------------------------------------------- spaces


def space_show(
    ctx: typer.Context, space: SpaceArgument = DEFAULT_SPACE, tenant: TenantOption = "demo", as_json: JsonOption = False
) -> None:
    """Show the settings of a space."""
    run(_space_show(state_of(ctx), _segment(tenant, "tenant id"), space, as_json=as_json))


async def _space_show(state: State, tenant: str, space: str, *, as_json: bool) -> None:
    from memory.model.directory import SpaceSettings

    async with _tables(state) as (tables, _):
        stored = await tables.directory.space(tenant, space)
    _print_space(space, stored or SpaceSettings(), stored=stored is not None, as_json=as_json)


def _print_space(space: str, settings: SpaceSettings, *, stored: bool, as_json: bool) -> None:
    values = settings.model_dump(mode="json")
    if as_json:
        emit_json({"space": space, "stored": stored, "settings": values})
        return
    print_table(("setting", "value"), [(name, _value(name, value)) for name, value in values.items()], empty="")
    if not stored:
        write("nothing is stored for this space: these are the defaults\n")


def _value(name: str, value: Any) -> str:
    """As `space set` takes it."""
    if name == "memory_categories":
        return ",".join(f"{'' if on else '-'}{category}" for category, on in value.items())
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def space_set(
    ctx: typer.Context,
    space: Annotated[str, typer.Argument(help="The space.")],
    values: Annotated[
        list[str], typer.Argument(help="name=value …; an empty value restores the default.", metavar="NAME=VALUE...")
    ],
    tenant: TenantOption = "demo",
    as_json: JsonOption = False,
) -> None:
    """Change settings of a space: afterturn space set default max_tokens=1000 consolidation_mode=edits.

    Categories of the event window are switched on, and with a - off, by name; the others follow the deployment's flags:
    afterturn space set default memory_categories=knowledge,tasks,-bios
    """
    run(_space_set(state_of(ctx), _segment(tenant, "tenant id"), space, values, as_json=as_json))


async def _space_set(state: State, tenant: str, space: str, values: list[str], *, as_json: bool) -> None:
    from memory.model.directory import SpaceSettings

    changes = _changes(values)
    _checked({name: value for name, value in changes.items() if value is not None})
    async with _tables(state) as (tables, _):
        stored = await tables.directory.space(tenant, space)
        merged = (stored or SpaceSettings()).model_dump(exclude_unset=True) | changes
        settings = _checked({name: value for name, value in merged.items() if value is not None})
        await tables.directory.save_space(tenant, space, settings)
    _print_space(space, settings, stored=True, as_json=as_json)


def _changes(pairs: list[str]) -> dict[str, Any]:
    import difflib

    from memory.model.directory import SpaceSettings
    from memory.model.errors import InvalidInput

    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"{pair[:60]!r} is not of the form name=value")
        if name not in SpaceSettings.model_fields:
            near = difflib.get_close_matches(name, SpaceSettings.model_fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SpaceSettings.model_fields)}"
            raise InvalidInput(f"a space has no setting {name[:60]!r}; {hint}")
        out[name] = _categories(value) if name == "memory_categories" and value else value or None
    return out


def _categories(text: str) -> dict[str, Any]:
    """``knowledge,tasks,-bios`` (on, on, off), or the same as a JSON object. Raises InvalidInput."""
    import json

    from memory.model.category import Category
    from memory.model.errors import InvalidInput

    said = "memory_categories is names apart by commas, - before one that is off (knowledge,tasks,-bios), or a JSON object"
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            raise InvalidInput(f"{said}; this is no JSON") from None
    else:
        names = [one.strip() for one in text.split(",") if one.strip()]
        found = {name.removeprefix("-"): not name.startswith("-") for name in names}
    for name in found:
        if name not in list(Category):
            raise InvalidInput(f"there is no category {ascii(name)[:40]}; there are {', '.join(Category)}")
    return found


def _checked(values: dict[str, Any]) -> SpaceSettings:
    from pydantic import ValidationError

    from memory.model.directory import SpaceSettings
    from memory.model.errors import InvalidInput

    try:
        return SpaceSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{first['loc'][0]}: {first['msg']}") from None


# -------------------------------------------------------------------------------------------------------- preference, roots


def preference_allow(
    ctx: typer.Context, tenant: TenantOption = "demo", user: UserOption = "me", as_json: JsonOption = False
) -> None:
    """The user allows memory (the default)."""
    run(_preference(state_of(ctx), tenant, user, allow=True, as_json=as_json))


def preference_deny(
    ctx: typer.Context, tenant: TenantOption = "demo", user: UserOption = "me", as_json: JsonOption = False
) -> None:
    """The user opts out: nothing is loaded or updated in any space; what is stored stays."""
    run(_preference(state_of(ctx), tenant, user, allow=False, as_json=as_json))


async def _preference(state: State, tenant: str, user: str, *, allow: bool, as_json: bool) -> None:
    async with _tables(state) as (tables, _):
        await tables.directory.set_preference(scope_of(tenant, user), allow_user_memory=allow)
    if as_json:
        emit_json({"tenant": tenant, "user": user, "allowed": allow})
        return
    write("memory is allowed\n" if allow else "memory is off for this user in every space; the stored profile stays\n")


def roots_list(ctx: typer.Context, tenant: TenantOption = "demo", as_json: JsonOption = False) -> None:
    """List the memory roots of a company; there should be exactly one active root."""
    run(_roots_list(state_of(ctx), _segment(tenant, "tenant id"), as_json=as_json))


async def _roots_list(state: State, tenant: str, *, as_json: bool) -> None:
    async with _tables(state) as (tables, _):
        roots = await tables.directory.roots(tenant)
    if as_json:
        emit_json(roots)
        return
    print_table(
        ("folder", "state"),
        [(root.folder, "active" if root.active else "removed") for root in roots],
        empty="no root yet: it is created on first use",
    )
    active = [root.folder for root in roots if root.active]
    if len(active) > 1:
        write(f"memory is off for this company: {' and '.join(active)} clash; rename or remove all but one\n")


def roots_rename(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="The root as it is called now.")],
    new_folder: Annotated[str, typer.Argument(help="Its new name; that of another root joins the two records.")],
    tenant: TenantOption = "demo",
    as_json: JsonOption = False,
) -> None:
    """Rename a root's record; of several active ones, it is set aside. Profiles in the object store are not moved.

    The only active root can be renamed while no profile lies under it.
    """
    run(_roots_rename(state_of(ctx), _segment(tenant, "tenant id"), folder, new_folder, as_json=as_json))


async def _roots_rename(state: State, tenant: str, folder: str, new_folder: str, *, as_json: bool) -> None:
    _checked({"root_folder": new_folder})
    async with _roots(state) as roots:
        done = await roots.rename(tenant, folder, new_folder)
    renamed = done.root
    if as_json:
        emit_json({"folder": renamed.folder, "active": renamed.active, "active_roots": list(done.active)})
        return
    write(f"{folder} is now {new_folder}{'' if renamed.active else ' and set aside'}\n")
    if len(done.was_active) > 1:
        write(f"profiles under {folder}/ stay where they are and are not used; active: {' and '.join(done.active)}\n")


def roots_remove(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="The root.")],
    tenant: TenantOption = "demo",
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Deactivate a root. Spaces that name it fall back to the default; profiles in the object store are not deleted.

    The only active root can be removed while no profile lies under it.
    """
    if not yes:
        typer.confirm(f"Deactivate the root {folder} of {tenant}?", abort=True, err=True)
    run(_roots_remove(state_of(ctx), _segment(tenant, "tenant id"), folder, as_json=as_json))


async def _roots_remove(state: State, tenant: str, folder: str, *, as_json: bool) -> None:
    async with _roots(state) as roots:
        await roots.remove(tenant, folder)
    if as_json:
        emit_json({"folder": folder, "active": False})
        return
    write(f"{folder} is removed; nothing was deleted from the object store\n")


@asynccontextmanager
async def _roots(state: State) -> AsyncGenerator[Roots]:
    """The object store is met only where it matters whether a root is empty."""
    from starter.roots import Roots

    async with _tables(state) as (tables, settings):

        async def is_unused(tenant: str, folder: str) -> bool:
            from memory.profiles import Profiles
            from memory.stores.objects.minio import MinioObjectStore

            store = MinioObjectStore.from_settings(settings)
            try:
                return await Profiles(store, bucket_prefix=settings.bucket_prefix).is_unused(tenant, folder)
            finally:
                await store.aclose()

        yield Roots(tables.directory, is_unused)


# ----------------------------------------------------------------------------------------------------- enablement, settings


def enablement(
    ctx: typer.Context,
    space: SpaceOption = DEFAULT_SPACE,
    tenant: TenantOption = "demo",
    user: UserOption = "me",
    web_search: Annotated[
        bool | None, typer.Option("--web-search/--no-web-search", help="As the turn says; default: as the space says.")
    ] = None,
    consent: Annotated[bool, typer.Option("--consent/--no-consent", help="The caller's allow_user_memory.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Say whether memory is on, and if not, why."""
    run(_enablement(state_of(ctx), tenant, user, space, web_search=web_search, consent=consent, as_json=as_json))


async def _enablement(
    state: State, tenant: str, user: str, space: str, *, web_search: bool | None, consent: bool, as_json: bool
) -> None:
    from memory.model.enablement import effective_enablement

    scope = scope_of(tenant, user)
    async with _tables(state) as (tables, settings):
        facts = await tables.directory.facts(scope, space)
    found = effective_enablement(
        feature_flag=settings.feature_flag,
        allow_with_web_search=settings.allow_with_web_search,
        tenant=scope.tenant,
        facts=facts,
        allow_user_memory=consent,
        web_search=web_search,
    )
    if as_json:
        emit_json(found)
        return
    write(f"memory is {'on' if found.active else 'off'} for {safe_text(user)} in the space {safe_text(space)}\n")
    for reason in found.reasons:
        write(f"- {reason.message} ({reason.code}): {reason.remedy}\n")


class TableFormat(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def settings_list(
    ctx: typer.Context,
    table_format: Annotated[TableFormat, typer.Option("--format", help="text, markdown or json.")] = TableFormat.TEXT,
    as_json: JsonOption = False,
    values: Annotated[bool, typer.Option("--values", help="Also show the values in force; secrets stay hidden.")] = False,
) -> None:
    """List every setting with its default and meaning."""
    from starter.cli.settings_table import current_values, markdown, setting_rows

    rows = setting_rows()
    current = dict(current_values(state_of(ctx).settings())) if values else None
    if as_json or table_format is TableFormat.JSON:
        emit_json(
            [
                {
                    "name": row.names[0],
                    "also": row.names[1:],
                    "default": row.default,
                    "limits": row.limits,
                    "meaning": row.description,
                }
                | ({} if current is None else {"value": current[row.names[0]]})
                for row in rows
            ]
        )
    elif table_format is TableFormat.MARKDOWN:
        write(markdown(rows))
    else:
        columns = ("setting", "default", "meaning") if current is None else ("setting", "value", "default", "meaning")
        print_table(columns, [_setting_cells(row, current) for row in rows], empty="")


def _setting_cells(row: Any, current: dict[str, str] | None) -> tuple[str, ...]:
    meaning = row.description + (f"; {row.limits}" if row.limits else "")
    middle = () if current is None else (current[row.names[0]],)
    return (row.names[0], *middle, row.default, meaning)
