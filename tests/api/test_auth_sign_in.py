"""Signing in to the pages at an OpenID Connect provider: a real one, and one that does not do as it should."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest

from api.auth.setup import build_access, check_access
from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.settings import load_settings
from memory.stores.tables import build_tables
from starter.doctor import _Doctor  # pyright: ignore[reportPrivateUsage]
from starter.processes import free_ports
from tests.support.api import SESSION_SECRET, Api, StartApi
from tests.support.issuer import AUDIENCE, Keys, Provider, providing
from tests.support.waiting import until

CLIENT = "the-pages"


def settings_of(issuer: str, **more: Any) -> dict[str, Any]:
    client = {"oidc_client_id": CLIENT, "oidc_client_secret": "client-secret", "session_secret": SESSION_SECRET}
    return {"oidc_issuer": issuer, "oidc_audience": AUDIENCE, **client, **more}


@asynccontextmanager
async def provider_process() -> AsyncGenerator[str]:
    """A provider in a process of its own, with the users that are put into it."""
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient() as http:

            async def answers() -> bool:
                try:
                    return (await http.get(f"{url}/.well-known/openid-configuration")).status_code == 200
                except httpx2.TransportError:
                    return False

            await until(answers, within_s=60)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def test_a_person_signs_in_at_a_provider(api: StartApi) -> None:
    async with (
        provider_process() as url,
        api(workers=False, **settings_of(url)) as a,
        httpx2.AsyncClient(base_url=a.base) as browser,
        httpx2.AsyncClient() as elsewhere,
    ):
        # Company, roles and teams are told at the userinfo endpoint only, as many providers do.
        claims = {"tenant": "acme", "roles": ["user", "admin"], "teams": ["red", "blue"], "read_only_teams": ["blue"]}
        assert (await elsewhere.put(f"{url}/users/ada", json=claims)).is_success
        begun = await browser.get("/settings")
        assert begun.headers["location"] == "/login?next=/settings"
        sent = await browser.get("/login?next=/v1/account")
        assert sent.status_code == 303
        assert sent.headers["location"].startswith(f"{url}/oauth2/authorize?")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}
        assert (asked["code_challenge_method"], asked["response_type"], asked["scope"]) == ("S256", "code", "openid profile")
        assert {"state", "nonce", "code_challenge"} <= asked.keys()
        assert "HttpOnly" in sent.headers["set-cookie"]
        back = await elsewhere.post(sent.headers["location"], data={"sub": "ada"})
        callback = urlsplit(back.headers["location"])
        assert callback.path == "/login/callback"

        stranger = await elsewhere.get(f"{a.base}{callback.path}?{callback.query}")
        assert stranger.status_code == 400, "another browser cannot end this sign-in"
        assert "another one was begun" in stranger.text
        there = await browser.get(f"{callback.path}?{callback.query}")
        assert (there.status_code, there.headers["location"]) == (303, "/v1/account"), there.text
        account = (await browser.get("/v1/account")).json()
        assert account["user"] == "ada"
        assert account["roles"] == ["admin", "user"]
        assert await a.stack.parts.directory.memberships(_ada()) == {"red": True, "blue": False}
        again = await browser.get(f"{callback.path}?{callback.query}")
        assert again.status_code == 400, "a code is good once"

        # What does not go well is told with what to do.
        sent = await browser.get("/login")
        denied = await elsewhere.post(sent.headers["location"], data={"action": "deny"})
        refused = await browser.get("/login/callback?" + urlsplit(denied.headers["location"]).query + _state(sent))
        assert refused.status_code == 403
        assert "(access_denied)" in refused.text
        assert 'href="/login?next=/settings"' in refused.text
        assert (await elsewhere.put(f"{url}/users/eve", json={"roles": ["user"]})).is_success
        sent = await browser.get("/login")
        back = await elsewhere.post(sent.headers["location"], data={"sub": "eve"})
        refused = await browser.get("/login/callback?" + urlsplit(back.headers["location"]).query)
        assert refused.status_code == 403
        assert "names no company" in refused.text


def _ada() -> Any:
    from memory.model.scope import Scope

    return Scope.of("acme", "ada")


def _state(sent: httpx2.Response) -> str:
    return "&state=" + parse_qs(urlsplit(sent.headers["location"]).query)["state"][0]


@dataclass
class Way:
    """One sign-in on its way: what was asked of the provider."""

    a: Api
    provider: Provider
    browser: httpx2.AsyncClient
    state: str = ""
    nonce: str = ""
    challenge: str = ""

    async def begin(self) -> None:
        sent = await self.browser.get("/login?next=/admin")
        assert sent.status_code == 303, sent.text
        asked = parse_qs(urlsplit(sent.headers["location"]).query)
        self.state, self.nonce, self.challenge = asked["state"][0], asked["nonce"][0], asked["code_challenge"][0]

    def id_token(self, **claims: Any) -> str:
        return self.provider.token(**{"aud": CLIENT, "nonce": self.nonce, **claims})

    async def end(self, **answer: Any) -> httpx2.Response:
        self.provider.answer = {"token_type": "Bearer", "access_token": "opaque", **answer}
        return await self.browser.get("/login/callback", params={"code": "the-code", "state": self.state})


async def test_what_a_provider_says_is_not_believed_without_proof(api: StartApi) -> None:
    async with (
        providing(Keys("rsa-1")) as provider,
        api(workers=False, **settings_of(provider.url)) as a,
        httpx2.AsyncClient(base_url=a.base) as browser,
    ):
        way = Way(a, provider, browser)
        stranger = Keys("rsa-1")
        for wrong, told in (
            (lambda: {"id_token": way.id_token(nonce="another")}, "another sign-in"),
            (lambda: {"id_token": way.id_token(nonce=None)}, "another sign-in"),
            (lambda: {"id_token": way.id_token(aud=AUDIENCE)}, "audience"),
            (lambda: {"id_token": way.id_token(aud=[CLIENT, "other"])}, "another client"),
            (lambda: {"id_token": way.id_token(iss="https://else.example")}, "another issuer"),
            (lambda: {"id_token": way.id_token(exp=1)}, "expired"),
            (lambda: {"id_token": provider.token(stranger, aud=CLIENT, nonce=way.nonce)}, "signature"),
            (dict, "no id_token"),
            (lambda: {"id_token": way.id_token(roles=["service"])}, "for people"),
            (lambda: {"id_token": way.id_token(roles=None)}, "another user"),
        ):
            await way.begin()
            provider.user_info = {"sub": "eve", "tenant": "acme", "roles": ["admin"]}
            answer = await way.end(**wrong())
            assert answer.status_code in {403, 502}, answer.text
            assert told in answer.text, answer.text
            assert "afterturn_session=" not in str(answer.headers.get_list("set-cookie"))
            assert (await browser.get("/v1/account")).status_code == 401

        await way.begin()
        provider.answer_status = 401
        answer = await way.end(error="invalid_client")
        assert (answer.status_code, "AFTERTURN_OIDC_CLIENT_ID" in answer.text) == (502, True)
        provider.answer_status = 200
        await way.begin()
        answer = await browser.get("/login/callback", params={"code": "x", "state": way.state, "iss": "https://else.example"})
        assert (answer.status_code, "another issuer" in answer.text) == (400, True)
        await way.begin()
        answer = await browser.get("/login/callback", params={"error": "<script>alert(1)</script>", "state": way.state})
        assert "<script>alert" not in answer.text

        await way.begin()
        answer = await way.end(id_token=way.id_token())
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
        sent = provider.exchanged[-1]
        proof = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        assert proof == way.challenge
        assert sent["redirect_uri"].endswith("/login/callback")
        assert sent["authorization"].startswith("Basic ")
        assert (await browser.get("/v1/account")).json()["user"] == "ada"

        # The API takes access tokens of the same issuer, and takes no id_token for one.
        headers = {"Authorization": f"Bearer {provider.token()}"}
        assert (await a.http.get("/v1/account", headers=headers)).json()["user"] == "ada"
        headers = {"Authorization": f"Bearer {way.id_token()}"}
        assert (await a.http.get("/v1/account", headers=headers)).status_code == 401


async def test_a_provider_that_is_away_is_told(api: StartApi) -> None:
    [port] = free_ports(1)
    async with api(workers=False, **settings_of(f"http://127.0.0.1:{port}")) as a:
        answer = await a.http.get("/login?next=/admin")
        assert answer.status_code == 503
        assert "cannot be fetched" in answer.text
        assert 'href="/login?next=/admin"' in answer.text
        token = jwt.encode({"iss": f"http://127.0.0.1:{port}"}, Keys("k", "ES256").private, "ES256")
        away = await a.http.get("/v1/account", headers={"Authorization": f"Bearer {token}"})
        assert (away.status_code, away.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"oidc_issuer": "https://i.example"}, "AFTERTURN_OIDC_AUDIENCE"),
        ({"oidc_audience": "x"}, "AFTERTURN_OIDC_ISSUER"),
        ({"oidc_issuer": "https://i.example", "oidc_audience": "x", "oidc_client_id": "c"}, "AFTERTURN_SESSION_SECRET"),
        (settings_of("https://i.example", oidc_scopes="profile"), "AFTERTURN_OIDC_SCOPES"),
        (settings_of("https://i.example", api_address="0.0.0.0:8720"), "AFTERTURN_PUBLIC_URL"),
    ],
)
def test_settings_that_do_not_go_together_are_named(given: dict[str, Any], missing: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^{missing} ") as told:
        check_access(load_settings({}, **given))
    assert "\n" not in told.value.message


async def test_the_public_address_says_where_people_come_back_to() -> None:
    tables = build_tables("sqlite://")
    settings = load_settings({}, **settings_of("https://i.example", public_url="https://memory.example/api/"))
    access = build_access(settings, tokens=tables.tokens, directory=tables.directory)
    assert access.sign_in is not None
    assert access.sign_in._callback_url == "https://memory.example/api/login/callback"
    assert access.sessions is not None
    assert access.sessions.cookies.secure
    await access.aclose()
    await tables.aclose()


async def test_the_doctor_says_whether_the_issuer_answers() -> None:
    async def told(**given: Any) -> str:
        return await _Doctor(load_settings({}, **given)).api()

    async with providing(Keys("ec-1", "ES256")) as provider:
        found = await told(**settings_of(provider.url))
        assert "keys were fetched" in found
        assert "pages is on" in found
        provider.away = True
        with pytest.raises(MemoryUnavailable, match="answers 503"):
            await told(**settings_of(provider.url))
    assert "service tokens only" in await told(session_secret="x" * 40)
    with pytest.raises(InvalidSettings, match="AFTERTURN_OIDC_AUDIENCE"):
        await told(oidc_issuer="https://issuer.example")
