"""Two hundred requests at once: every one is answered, with what is its own."""

from __future__ import annotations

import asyncio

import httpx2

from memory.model.scope import Scope
from tests.support.api import Api, StartApi, as_person, as_service

MANY = 200
USERS = 10


def at_once(a: Api) -> httpx2.AsyncClient:
    """A client that really sends so many at once."""
    return httpx2.AsyncClient(base_url=a.base, timeout=60, limits=httpx2.Limits(max_connections=MANY))


def name(scope: Scope) -> str:
    return f"Name is {scope.user_id}."


async def test_two_hundred_loads_and_two_hundred_turns_at_once_lose_none(api: StartApi) -> None:
    async with api(workers=False) as a, at_once(a) as http:
        users = [a.stack.user(f"u{number}") for number in range(USERS)]
        await a.stack.parts.profiles.prepare(users[0].tenant)
        for user in users:
            empty = await a.stack.parts.profiles.read(user, "user-memory")
            await a.stack.parts.profiles.commit(
                user,
                "user-memory",
                f"## Identity\n- {name(user)}\n",
                base_etag=empty.etag,
                base_version=empty.version,
                write_key="seed",
                cause="edit",
                applied_turns=(),
            )

        async def load(number: int) -> None:
            user = users[number % USERS]
            headers = as_person(user) if number % 2 else as_service(user.tenant_id, user.user_id)
            answer = await http.get("/v1/memory", params={"allow_user_memory": True}, headers=headers)
            assert answer.status_code == 200, answer.text
            told = answer.json()
            assert told["reason"] is None, told
            assert [other.user_id for other in users if name(other) in told["body"]] == [user.user_id]

        await asyncio.gather(*(load(number) for number in range(MANY)))

        async def say(number: int) -> None:
            user = users[number % USERS]
            turn = {"turn_id": f"t-{number}", "user_text": f"I like the number {number}.", "assistant_text": "Noted."}
            answer = await http.post("/v1/turns", json={**turn, "allow_user_memory": True}, headers=as_person(user))
            assert answer.status_code == 202, answer.text

        await asyncio.gather(*(say(number) for number in range(MANY)))
        for place, user in enumerate(users):
            recorded = await a.stack.ledger(user)
            assert set(recorded) == {f"t-{number}" for number in range(MANY) if number % USERS == place}
        assert a.stack.memory.lost_turns == 0
