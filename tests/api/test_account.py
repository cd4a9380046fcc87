"""Who is asking, over HTTP."""

from __future__ import annotations

from tests.support.api import StartApi, as_person, as_service


async def test_a_person_is_told_who_they_are(api: StartApi) -> None:
    async with api(workers=False) as a:
        scope = a.stack.user()
        answer = await a.http.get("/v1/account", headers=as_person(scope))
        assert answer.status_code == 200
        assert answer.json() == {
            "tenant": "acme",
            "user": scope.user_id,
            "roles": ["user"],
            "permissions": ["forget", "read", "write"],
        }
        told = (await a.http.get("/v1/account", headers=as_service("acme"))).json()
        assert told["user"] is None


async def test_nobody_gets_in_without_a_token(api: StartApi) -> None:
    async with api(workers=False) as a:
        answer = await a.http.get("/v1/account")
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "/problems/unauthenticated"
