"""Settings of spaces, preferences of users and memory roots of companies in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select, update

from memory.model.category import Category
from memory.model.directory import MemoryFacts, MemoryRoot, SpaceSettings
from memory.model.erasure import user_hash
from memory.model.errors import InvalidInput, InvalidSettings
from memory.model.ids import decode_segment, encode_segment
from memory.model.scope import Scope
from memory.ports import Directory
from memory.stores.tables.engine import Database
from memory.stores.tables.forgetting import refuse_while_forgetting
from memory.stores.tables.rows import ROOTS, SPACES
from memory.stores.tables.rows_window import TEAM_MEMBERS
from memory.stores.tables.statements import FACTS, MEMBERSHIPS, writes

_ROOT = "root_folder"
_CATEGORIES = "memory_categories"
_KNOWN_CATEGORIES = frozenset(category.value for category in Category)

MAX_TEAMS = 500
"""Of one user."""


def read_facts(connection: Connection, scope: Scope, space_id: str) -> MemoryFacts:
    """As ``Directory.facts``, within the caller's transaction."""
    space_key = encode_segment(space_id, what="space id")
    binds = {"b_tenant": scope.tenant, "b_user": scope.user, "b_space": space_key, "b_user_hash": user_hash(scope)}
    rows = connection.execute(FACTS, binds).all()
    roots = tuple(sorted(row.folder for row in rows if row.folder is not None))
    return MemoryFacts(
        space=settings_of(rows[0].settings, roots, space_id),
        user_allows=rows[0].allow_user_memory is not False,
        active_roots=roots,
        forgetting=bool(rows[0].forgetting),
        forgotten_before=rows[0].forgotten_before,
    )


class SqlDirectory(Directory):
    """A space whose settings do not name a root lives in its company's only active one, ``user-memory`` when there is none yet.

    Only the keys that a caller set are stored; the others follow the defaults of the code.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = writes(database.engine.dialect.name)

    async def facts(self, scope: Scope, space_id: str) -> MemoryFacts:
        return await self._database.read(lambda connection: read_facts(connection, scope, space_id))

    async def space(self, tenant: str, space_id: str) -> SpaceSettings | None:
        space_key = encode_segment(space_id, what="space id")

        def work(connection: Connection) -> SpaceSettings | None:
            wanted = select(SPACES.c.settings).where(SPACES.c.tenant == tenant, SPACES.c.space_key == space_key)
            row = connection.execute(wanted).one_or_none()
            return None if row is None else settings_of(row.settings, active_roots_of(connection, tenant), space_id)

        return await self._database.read(work)

    async def save_space(self, tenant: str, space_id: str, settings: SpaceSettings) -> None:
        space_key = encode_segment(space_id, what="space id")
        stored = settings.model_dump(mode="json", exclude_unset=True)
        space_row = {
            "tenant": tenant,
            "space_key": space_key,
            "space_id_long": space_id if "=h" in space_key else None,
            "settings": stored,
        }

        def work(connection: Connection) -> None:
            connection.execute(self._writes.save_space, space_row)
            if _ROOT in stored or not active_roots_of(connection, tenant):
                connection.execute(self._writes.save_root, {"tenant": tenant, "folder": settings.root_folder, "active": True})

        await self._database.write(work)

    async def spaces(self, tenant: str) -> Mapping[str, SpaceSettings]:
        def work(connection: Connection) -> dict[str, SpaceSettings]:
            roots = active_roots_of(connection, tenant)
            rows = connection.execute(select(SPACES).where(SPACES.c.tenant == tenant).order_by(SPACES.c.space_key)).all()
            ids = [row.space_id_long or decode_segment(row.space_key) for row in rows]
            return {space_id: settings_of(row.settings, roots, space_id) for space_id, row in zip(ids, rows, strict=True)}

        return await self._database.read(work)

    async def set_preference(self, scope: Scope, *, allow_user_memory: bool) -> None:
        row = {"tenant": scope.tenant, "user_id": scope.user, "allow_user_memory": allow_user_memory}

        def work(connection: Connection) -> None:
            refuse_while_forgetting(connection, scope)
            connection.execute(self._writes.save_preference, row)

        await self._database.write(work)

    async def set_teams(self, scope: Scope, team_ids: Sequence[str], *, read_only: Collection[str] = ()) -> None:
        if len(team_ids) > MAX_TEAMS:
            raise InvalidInput(f"{len(team_ids)} teams of one user; at most {MAX_TEAMS} are accepted")
        keys = {encode_segment(team_id, what="team id"): team_id for team_id in team_ids}
        reads = {encode_segment(team_id, what="team id") for team_id in read_only}
        if not reads <= keys.keys():
            raise InvalidInput(f"{len(reads - keys.keys())} of the read-only teams are not among the user's teams")
        rows = [
            {
                "tenant": scope.tenant,
                "user_id": scope.user,
                "team_key": key,
                "team_id_long": raw if "=h" in key else None,
                "can_write": key not in reads,
            }
            for key, raw in sorted(keys.items())
        ]

        def work(connection: Connection) -> None:
            refuse_while_forgetting(connection, scope)
            # Of two callers at once, the second takes the place of the first as a whole.
            connection.execute(
                self._writes.take_numbers,
                {"b_tenant": scope.tenant, "b_user": scope.user, "b_turns": 0, "b_events": 0, "b_at": None},
            )
            mine = (TEAM_MEMBERS.c.tenant == scope.tenant, TEAM_MEMBERS.c.user_id == scope.user)
            connection.execute(delete(TEAM_MEMBERS).where(*mine, TEAM_MEMBERS.c.team_key.not_in(list(keys))))
            if rows:
                connection.execute(self._writes.save_team, rows)

        await self._database.write(work)

    async def teams(self, scope: Scope) -> Sequence[str]:
        return list(await self.memberships(scope))

    async def memberships(self, scope: Scope) -> Mapping[str, bool]:
        binds = {"b_tenant": scope.tenant, "b_user": scope.user}
        rows = await self._database.read(lambda c: c.execute(MEMBERSHIPS, binds).all())
        return {row.team_id_long or decode_segment(row.team_key): row.can_write for row in rows}

    async def tenants(self) -> Sequence[str]:
        wanted = select(ROOTS.c.tenant).distinct().order_by(ROOTS.c.tenant)
        return await self._database.read(lambda c: list(c.execute(wanted).scalars()))

    async def roots(self, tenant: str) -> Sequence[MemoryRoot]:
        wanted = select(ROOTS).where(ROOTS.c.tenant == tenant).order_by(ROOTS.c.folder)
        return await self._database.read(lambda c: [MemoryRoot(row.folder, row.active) for row in c.execute(wanted)])

    async def provision_root(self, tenant: str, folder: str) -> MemoryRoot:
        row = {"tenant": tenant, "folder": _checked(folder), "active": True}
        await self._database.write(lambda c: c.execute(self._writes.save_root, row))
        return MemoryRoot(folder, active=True)

    async def rename_root(self, tenant: str, folder: str, new_folder: str, *, nothing_in_it: bool = False) -> MemoryRoot:
        _checked(new_folder)

        def work(connection: Connection) -> MemoryRoot:
            roots = _locked_roots(connection, tenant)
            active = _of(roots, folder)
            if folder == new_folder:
                return MemoryRoot(folder, active)
            others = [name for name, is_active in roots.items() if is_active and name != folder]
            if active and not others:
                _check_left(folder, f"move them to {new_folder}/ in the object store first", nothing_in_it)
            # Beside another active root this is the duplicate, and two active roots are what is to be mended.
            stays_active = active and not others
            connection.execute(delete(ROOTS).where(*_is(tenant, folder)))
            if new_folder not in roots:
                connection.execute(insert(ROOTS).values(tenant=tenant, folder=new_folder, active=stays_active))
            elif stays_active:
                connection.execute(update(ROOTS).where(*_is(tenant, new_folder)).values(active=True))
            renamed = MemoryRoot(new_folder, stays_active or roots.get(new_folder, False))
            # A space that names a root makes it active when it is saved.
            _rewrite_spaces(connection, tenant, folder, new_folder if renamed.active else None)
            return renamed

        return await self._database.write(work)

    async def remove_root(self, tenant: str, folder: str, *, nothing_in_it: bool = False) -> None:
        def work(connection: Connection) -> None:
            roots = _locked_roots(connection, tenant)
            if _of(roots, folder) and sum(roots.values()) == 1:
                _check_left(folder, "without them in the object store it can be removed", nothing_in_it)
            connection.execute(update(ROOTS).where(*_is(tenant, folder)).values(active=False))
            _rewrite_spaces(connection, tenant, folder, None)

        await self._database.write(work)


def settings_of(stored: Mapping[str, Any] | None, active_roots: Sequence[str], space_id: str) -> SpaceSettings:
    """As they count, with the company's only active root where they name none. Raises InvalidSettings."""
    # A key that this version does not know was written by a newer one during a roll-out; it is not this version's to judge.
    known = {name: value for name, value in (stored or {}).items() if name in SpaceSettings.model_fields}
    if isinstance(known.get(_CATEGORIES), Mapping):
        known[_CATEGORIES] = {name: on for name, on in known[_CATEGORIES].items() if name in _KNOWN_CATEGORIES}
    if _ROOT not in known and len(active_roots) == 1:
        known[_ROOT] = active_roots[0]
    try:
        return SpaceSettings.model_validate(known)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"{first['loc'][0] if first['loc'] else 'settings'}: {first['msg']}"
    space = encode_segment(space_id)
    raise InvalidSettings(f"the stored settings of space {space} are not valid, save them again: {problem}")


def active_roots_of(connection: Connection, tenant: str) -> list[str]:
    wanted = select(ROOTS.c.folder).where(ROOTS.c.tenant == tenant, ROOTS.c.active).order_by(ROOTS.c.folder)
    return list(connection.execute(wanted).scalars())


def _is(tenant: str, folder: str) -> tuple[Any, Any]:
    return ROOTS.c.tenant == tenant, ROOTS.c.folder == folder


def _locked_roots(connection: Connection, tenant: str) -> dict[str, bool]:
    """Whether each is active. Two administrators who each take the other's root away wait for each other."""
    wanted = select(ROOTS).where(ROOTS.c.tenant == tenant).order_by(ROOTS.c.folder).with_for_update()
    return {row.folder: row.active for row in connection.execute(wanted)}


def _of(roots: Mapping[str, bool], folder: str) -> bool:
    if folder not in roots:
        raise InvalidInput(f"this company has no memory root named {encode_segment(folder, what='folder')}")
    return roots[folder]


def _check_left(folder: str, way_out: str, nothing_in_it: bool) -> None:
    if not nothing_in_it:
        raise InvalidInput(f"{folder} is the company's only active root, and its profiles would no longer be found; {way_out}")


def _rewrite_spaces(connection: Connection, tenant: str, folder: str, new_folder: str | None) -> None:
    """In the spaces that name ``folder``: name the other one instead, or none."""
    rows = connection.execute(select(SPACES).where(SPACES.c.tenant == tenant).with_for_update()).all()
    for row in rows:
        if row.settings.get(_ROOT) != folder:
            continue
        settings = {name: value for name, value in row.settings.items() if name != _ROOT}
        if new_folder is not None:
            settings[_ROOT] = new_folder
        connection.execute(
            update(SPACES).where(SPACES.c.tenant == tenant, SPACES.c.space_key == row.space_key).values(settings=settings)
        )


def _checked(folder: str) -> str:
    try:
        return SpaceSettings(root_folder=folder).root_folder
    except ValidationError:
        raise InvalidInput("a root folder is 1 to 63 letters, digits, - and _, beginning with a letter or digit") from None
