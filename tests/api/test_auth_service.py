"""Service tokens over HTTP and in a process: whose users they act for, and how soon a revocation is felt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import Request

from api.auth.service_tokens import ServiceTokenAuthenticator
from api.problems import Unauthenticated
from memory.model.access import Permission, Role
from memory.model.ids import encode_segment
from memory.model.service_token import NewToken, make_token
from memory.ports.service import ServiceToken, ServiceTokens
from memory.stores.tables import build_tables
from tests.support.api import StartApi, as_person
from tests.support.waiting import until


async def stored(tokens: ServiceTokens, tenant: str = "acme", *permissions: str, **more: Any) -> NewToken:
    made = make_token()
    await tokens.create(
        encode_segment(tenant),
        token_id=made.token_id,
        secret_hash=made.secret_hash,
        name="the orchestrator",
        permissions=permissions or ("read", "write"),
        **{"expires_at": None, "now": datetime.now(UTC), **more},
    )
    return made


def asking(text: str) -> Request:
    return Request({"type": "http", "method": "GET", "headers": [(b"authorization", f"Bearer {text}".encode())]})


async def test_a_service_acts_for_users_of_its_own_company(api: StartApi) -> None:
    async with api(workers=False) as a:
        tokens = build_tables(a.stack.settings)
        made = await stored(tokens.tokens)
        mine = {"Authorization": f"Bearer {made.text}"}
        account = (await a.http.get("/v1/account", headers=mine)).json()
        assert account == {"tenant": "acme", "user": None, "roles": ["service"], "permissions": ["read", "write"]} | account
        ada = a.stack.user("ada/é")
        named = {"Afterturn-User": "ada%2F%C3%A9" + (ada.user_id or "").removeprefix("ada/é")}
        wish = {"allow_user_memory": False}
        assert (await a.http.put("/v1/preference", json=wish, headers={**mine, **named})).status_code == 200
        assert (await a.http.get("/v1/preference", headers=as_person(ada))).json()["allow_user_memory"] is False
        # The same name in another company is somebody else.
        foreign = await stored(tokens.tokens, "other")
        theirs = {"Authorization": f"Bearer {foreign.text}", **named}
        assert (await a.http.get("/v1/preference", headers=theirs)).json()["allow_user_memory"] is True
        assert (await a.http.get("/v1/preference", headers=mine)).status_code == 400, "nobody is named"
        for wrong in ("%ff", "", "a" * 20_000):
            assert (await a.http.get("/v1/preference", headers={**mine, "Afterturn-User": wrong})).status_code in {400, 422}
        await until(lambda: _was_used(tokens.tokens, made.token_id))
        await tokens.aclose()


async def _was_used(tokens: ServiceTokens, token_id: str) -> bool:
    found = await tokens.find(token_id)
    return found is not None and found[0].last_used_at is not None


async def test_it_may_do_what_was_granted_until_it_is_revoked() -> None:
    tables = build_tables("sqlite://")
    now = 100.0
    counted = Counted(tables.tokens)
    door = ServiceTokenAuthenticator(counted, cache_s=5, clock=lambda: now)
    made = await stored(tables.tokens, "acme/é", "read", "forget", "admin")
    for _ in range(20):
        found = await door.authenticate(asking(made.text))
        assert found is not None
        assert (found.tenant_id, found.subject, found.roles) == ("acme/é", None, {Role.SERVICE})
        assert found.permissions == {Permission.READ, Permission.FORGET}, "administration is for people"
    await door.aclose()
    assert (counted.found, counted.noted) == (1, 1), "looked up, and noted as used, once"

    assert await tables.tokens.revoke(encode_segment("acme/é"), made.token_id, now=datetime.now(UTC))
    now += 4.9
    assert await door.authenticate(asking(made.text)) is not None
    now += 0.2
    with pytest.raises(Unauthenticated):
        await door.authenticate(asking(made.text))
    now += 60
    other = await stored(tables.tokens)
    for _ in range(3):
        await door.authenticate(asking(other.text))
    now += 61
    await door.authenticate(asking(other.text))
    await door.aclose()
    assert counted.noted == 3, "once a minute"
    await tables.aclose()


async def test_all_that_do_not_hold_are_refused_in_the_same_words() -> None:
    tables = build_tables("sqlite://")
    counted = Counted(tables.tokens)
    door = ServiceTokenAuthenticator(counted)
    good, revoked = await stored(tables.tokens), await stored(tables.tokens)
    past = datetime.now(UTC) - timedelta(days=2)
    expired = await stored(tables.tokens, now=past, expires_at=past + timedelta(days=1))
    await tables.tokens.revoke("acme", revoked.token_id, now=datetime.now(UTC))
    head, _, secret = good.text.rpartition("_")[0], "_", good.text.split("_", 2)[2]
    swapped = good.text.replace(secret, make_token().text.split("_", 2)[2])
    told: set[str] = set()
    for text in (make_token().text, swapped, revoked.text, expired.text):
        with pytest.raises(Unauthenticated) as refused:
            await door.authenticate(asking(text))
        told.add(refused.value.detail)
        assert text not in refused.value.detail
    assert len(told) == 1
    for malformed in ("aft_", head, good.text + "x", good.text.upper().replace("AFT", "aft"), "aft_x_y"):
        with pytest.raises(Unauthenticated):
            await door.authenticate(asking(malformed))
    assert await door.authenticate(asking("eyJ.eyJ.x")) is None, "a token of another kind is for others"
    # What is not there is remembered too: the same guess does not reach the database again.
    before, unknown = counted.found, make_token().text
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await door.authenticate(asking(unknown))
    assert counted.found == before + 1
    await door.aclose()
    await tables.aclose()


class Counted:
    """Counts what reaches the database."""

    def __init__(self, tokens: ServiceTokens) -> None:
        self._tokens = tokens
        self.found = self.noted = 0
        self.create: Callable[..., Any] = tokens.create
        self.list: Callable[..., Any] = tokens.list
        self.revoke: Callable[..., Any] = tokens.revoke

    async def find(self, token_id: str) -> tuple[ServiceToken, str] | None:
        self.found += 1
        return await self._tokens.find(token_id)

    async def used(self, token_id: str, *, now: datetime) -> None:
        self.noted += 1
        await self._tokens.used(token_id, now=now)
