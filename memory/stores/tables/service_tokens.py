"""Service tokens in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, insert, select, update

from memory.model.access import Permission
from memory.model.errors import InvalidInput
from memory.ports.service import ServiceToken, ServiceTokens
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_api import SERVICE_TOKENS

USED_EVERY = timedelta(minutes=1)
"""The time of the last use is written at most this often: a token is used with every request."""
MAX_NAME_CHARS = 200
MAX_LISTED = 1_000

_C = SERVICE_TOKENS.c


class SqlServiceTokens(ServiceTokens):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant: str,
        *,
        token_id: str,
        secret_hash: str,
        name: str,
        permissions: Collection[str],
        expires_at: datetime | None,
        now: datetime,
    ) -> ServiceToken:
        """Raises InvalidInput: no name or permission, one that does not exist, an end that has passed, an id that is taken."""
        token = ServiceToken(token_id, tenant, _name(name), _permissions(permissions), created_at=now, expires_at=expires_at)
        if not token.usable(now):
            raise InvalidInput("the token would have expired already")
        row = {
            "token_id": token_id,
            "tenant": tenant,
            "name": token.name,
            "secret_hash": secret_hash,
            "permissions": list(token.permissions),
            "created_at": now,
            "expires_at": expires_at,
        }
        await self._database.write(lambda c: c.execute(insert(SERVICE_TOKENS), row))
        return token

    async def find(self, token_id: str) -> tuple[ServiceToken, str] | None:
        wanted = select(SERVICE_TOKENS).where(_C.token_id == token_id)
        row = await self._database.read(lambda c: c.execute(wanted).one_or_none())
        return None if row is None else (_token(row), row.secret_hash)

    async def list(self, tenant: str) -> Sequence[ServiceToken]:
        wanted = select(SERVICE_TOKENS).where(_C.tenant == tenant).order_by(_C.created_at.desc(), _C.token_id).limit(MAX_LISTED)
        return await self._database.read(lambda c: [_token(row) for row in c.execute(wanted)])

    async def revoke(self, tenant: str, token_id: str, *, now: datetime) -> bool:
        """Once revoked, the time of the first revocation stays."""
        mine = (_C.tenant == tenant, _C.token_id == token_id)
        change = update(SERVICE_TOKENS).where(*mine, _C.revoked_at.is_(None)).values(revoked_at=now)
        there = select(_C.token_id).where(*mine)
        return await self._database.write(
            lambda c: c.execute(change).rowcount > 0 or c.execute(there).one_or_none() is not None,
        )

    async def used(self, token_id: str, *, now: datetime) -> None:
        """Written at most once a minute; an unknown token is no error."""
        last = select(_C.last_used_at).where(_C.token_id == token_id)
        before = await self._database.read(lambda c: c.execute(last).one_or_none())
        if before is None or (before.last_used_at is not None and now - before.last_used_at < USED_EVERY):
            return
        change = update(SERVICE_TOKENS).where(_C.token_id == token_id).values(last_used_at=now)
        await self._database.write(lambda c: c.execute(change))


def _token(row: Row[Any]) -> ServiceToken:
    return ServiceToken(
        token_id=row.token_id,
        tenant=row.tenant,
        name=row.name,
        permissions=tuple(row.permissions),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InvalidInput(f"the name of a token is one printable line of 1 to {MAX_NAME_CHARS} characters")
    return name


def _permissions(given: Collection[str]) -> tuple[str, ...]:
    """In the order of :class:`Permission`. Raises InvalidInput."""
    unknown = sorted(set(given) - set(Permission))
    if unknown or not given:
        allowed = ", ".join(Permission)
        raise InvalidInput(f"a token needs permissions, of: {allowed}" + (f"; not {unknown[0][:40]!r}" if unknown else ""))
    return tuple(permission.value for permission in Permission if permission in given)
