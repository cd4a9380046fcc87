"""What an attacker and a strict client send: said twice, in another encoding, forged, never read. It breaks nothing."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from api.limits import LEAST_SHARE, MAX_BODY_BYTES, Admission, BodyLimit
from memory.stores.http_server import serving
from tests.support.api import ISSUER, Api, StartApi, as_person, as_service, bearer, sign_in_path
from tests.support.waiting import until

HALF = "\ud83d"
"""Half of a character, which is no text."""


def packed(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def test_hostile_requests_are_refused_and_break_nothing(api: StartApi) -> None:
    async with api(workers=False, embedder="none", memory_knowledge=True) as a:
        await tokens_that_are_none(a)
        await what_is_said_twice(a)
        await addresses_and_methods(a)
        await encodings(a)
        await forged_cursors(a)
        await half_characters(a)
        await known_versions(a)


async def tokens_that_are_none(a: Api) -> None:
    for header in (
        {"alg": ["ES256"]},
        {"alg": {"ES256": 1}},
        {"alg": True},
        {"alg": "ES256", "kid": ["x"]},
        {"alg": "ES256", "kid": ""},
    ):
        for issuer in (ISSUER.url, [ISSUER.url], {"url": ISSUER.url}):
            forged = ".".join([packed(header), packed({"iss": issuer, "sub": "ada"}), packed("signature")])
            answer = await a.http.get("/v1/account", headers={"Authorization": f"Bearer {forged}"})
            assert (answer.status_code, answer.json()["type"]) == (401, "/problems/unauthenticated"), (header, answer.text)


async def what_is_said_twice(a: Api) -> None:
    ada = as_service("acme", "ada")
    twice = [*ada.items(), ("Afterturn-User", "eve")]
    for method, path, body in (("GET", "/v1/preference", None), ("PUT", "/v1/preference", {"allow_user_memory": False})):
        answer = await a.http.request(method, path, headers=twice, json=body)
        assert (answer.status_code, answer.json()["detail"]) == (400, "send the header Afterturn-User once")
    for user in ("ada", "eve"):
        assert (await a.http.get("/v1/preference", headers=as_service("acme", user))).json() == {"allow_user_memory": True}
    for name in ("Idempotency-Key", "If-Match", "Content-Type"):
        answer = await a.http.put("/v1/profile", headers=[*ada.items(), (name, '"1"'), (name, '"2"')], content=b"# x")
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-header"), name


async def addresses_and_methods(a: Api) -> None:
    person = as_person(a.stack.user("ada"))
    for path in ("/v1/profile/", "/settings/", "/docs/", "/v1//profile"):
        answer = await a.http.get(path, headers={**person, "Host": "evil.example"})
        assert answer.status_code == 404, "and not a redirect to the host that the request names"
        assert "evil" not in str(answer.headers)
        assert "evil" not in answer.text
    override = {"X-HTTP-Method-Override": "PUT", "X-Method-Override": "PUT", "_method": "PUT"}
    answer = await a.http.post("/v1/preference", headers={**person, **override}, json={"allow_user_memory": False})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def encodings(a: Api) -> None:
    person = as_person(a.stack.user("ada"))
    plain = b'{"allow_user_memory": true}'
    for headers in ({"Content-Encoding": "gzip"}, {"Content-Type": "application/json; charset=utf-16"}):
        answer = await a.http.put(
            "/v1/preference", headers={**person, "Content-Type": "application/json", **headers}, content=plain
        )
        assert (answer.status_code, answer.json()["type"]) == (415, "/problems/unsupported-media-type"), headers
    for told in ('application/json; charset="UTF-8"', "application/json;charset=utf-8", "application/json"):
        given = {**person, "Content-Type": told, "Content-Encoding": "identity"}
        assert (await a.http.put("/v1/preference", headers=given, content=plain)).status_code == 200
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na\n1\n\r\n--b--\r\n'
    for charset in ("undefined", "punycode", "unicode_escape"):
        given = {**person, "Content-Type": f"multipart/form-data; boundary=b; charset={charset}"}
        answer = await a.http.post("/v1/knowledge/documents", headers=given, content=form)
        assert answer.status_code == 415, (charset, answer.text)


async def forged_cursors(a: Api) -> None:
    person = as_person(a.stack.user("ada"))
    moment = "2026-06-17T12:00:00+00:00"
    for path, values in (
        ("facts", [moment, HALF]),
        ("tasks", [moment, HALF]),
        ("guidance", [moment, HALF]),
        ("functions", [moment, HALF]),
        ("loops", [moment, HALF]),
        ("windows", [moment, 1, HALF]),
        ("facts", [moment, "\x00"]),
        ("facts", [moment, 1]),
    ):
        answer = await a.http.get(f"/v1/{path}", params={"cursor": packed([path, *values])}, headers=person)
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-input"), path


async def half_characters(a: Api) -> None:
    odd = bearer(tenant="acme", user=f"ada{HALF}", roles=["user"])
    account = await a.http.get("/v1/account", headers=odd)
    assert (account.status_code, account.json()["user"]) == (200, f"ada{HALF}")
    change = {"kind": "create_table", "name": f"Firms{HALF}"}
    for key in ({}, {"Idempotency-Key": "k-1"}):
        given = {**odd, **key, "Content-Type": "application/json"}
        answer = await a.http.post("/v1/knowledge/changes", headers=given, content=json.dumps({"change": change}))
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-input"), answer.text


async def known_versions(a: Api) -> None:
    user = a.stack.user("grace")
    await a.stack.parts.profiles.prepare(user.tenant)
    await a.stack.parts.profiles.commit(
        user,
        "user-memory",
        "## Identity\n- Grace\n",
        base_etag=None,
        base_version=0,
        write_key="seed",
        cause="edit",
        applied_turns=(),
    )
    etag = (await a.http.get("/v1/profile", headers=as_person(user))).headers["etag"]
    for given, expected in (
        (["*"], 304),
        ([etag], 304),
        ([f"W/{etag}"], 304),
        ([f'"other", {etag}'], 304),
        (['"other"', etag], 304),
        (['"other"'], 200),
        ([f'"x{etag[1:]}'], 200),
        ([etag[1:-1]], 200),
        ([""], 200),
    ):
        headers = [*as_person(user).items(), *(("If-None-Match", one) for one in given)]
        assert (await a.http.get("/v1/profile", headers=headers)).status_code == expected, given


async def test_a_session_is_proved_by_what_can_be_read(api: StartApi) -> None:
    async with api(workers=False, embedder="none") as a:
        signed_in = await a.http.get(sign_in_path(a.stack.user("ada")))
        cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        for origin in ("http://[", "null", "//", "http://evil.example", "http://127.0.0.1@evil.example"):
            answer = await a.http.put("/v1/preference", headers={**cookie, "Origin": origin}, json={"allow_user_memory": False})
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden"), origin
        assert (await a.http.get("/v1/account", headers=cookie)).status_code == 200


async def test_a_user_is_one_however_the_name_is_written(api: StartApi) -> None:
    async with api(workers=False, embedder="none", api_rate_per_minute=2) as a:
        spelled = [{**as_service("acme"), "Afterturn-User": name} for name in ("ada", "%61da", "a%64a", "%61%64%61")]
        answers = [await a.http.get("/v1/preference", headers=headers) for headers in spelled]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]


async def test_no_caller_takes_all_places(api: StartApi) -> None:
    async with api(workers=False, embedder="none", api_max_streams=2 * LEAST_SHARE + 2) as a:
        ada, grace = as_person(a.stack.user("ada")), as_person(a.stack.user("grace"))
        tried = LEAST_SHARE + 3
        async with httpx2.AsyncClient(base_url=a.base, timeout=20, limits=httpx2.Limits(max_connections=30)) as http:
            opened = [await http.send(http.build_request("GET", "/v1/notices", headers=ada), stream=True) for _ in range(tried)]
            most = a.app.state.streams.share
            assert [one.status_code for one in opened] == [200] * most + [503] * (tried - most)
            other = await http.send(http.build_request("GET", "/v1/notices", headers=grace), stream=True)
            assert other.status_code == 200, "another caller is not kept out"
            for one in [*opened, other]:
                await one.aclose()
            await until(lambda: a.app.state.streams.open == 0)
        again = await a.http.send(a.http.build_request("GET", "/v1/notices", headers=ada), stream=True)
        assert again.status_code == 200, "places come back"
        await again.aclose()


async def test_a_caller_waits_with_as_many_requests_as_a_share_has(api: StartApi) -> None:
    async with api(workers=False, embedder="none", api_max_concurrent=2 * LEAST_SHARE + 2) as a:
        ada, grace = as_person(a.stack.user("ada")), as_person(a.stack.user("grace"))
        release = asyncio.Event()
        waiting = 0

        async def slow(*_: Any, **__: Any) -> Any:
            nonlocal waiting
            waiting += 1
            await release.wait()
            return ()

        a.stack.memory.teams = slow  # type: ignore[method-assign]
        held = [asyncio.create_task(a.http.get("/v1/teams", headers=ada)) for _ in range(LEAST_SHARE + 1)]
        await until(lambda: waiting == LEAST_SHARE + 1)
        refused = await a.http.get("/v1/preference", headers=ada)
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/too-many-requests")
        assert (await a.http.get("/v1/preference", headers=grace)).status_code == 200, "another caller is not kept out"
        release.set()
        assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}
        assert (await a.http.get("/v1/preference", headers=ada)).status_code == 200, "places come back"


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    app = FastAPI()

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1_000_000

        return StreamingResponse(pieces(), media_type="application/zip")

    @app.get("/quick")
    async def quick() -> dict[str, bool]:
        return {"quick": True}

    app.add_middleware(Admission, most=1, within_s=20, stalled_s=0.2)
    async with serving(app, name="the test", grace_s=1) as base, httpx2.AsyncClient(base_url=base, timeout=20) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]), limit=1)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.read(9) == b"HTTP/1.1 "

        async def is_free() -> bool:
            return (await http.get("/quick")).status_code == 200

        await until(is_free)
        writer.transport.abort()


@pytest.mark.parametrize("root", ["", "/memory"])
async def test_bounds_know_addresses_below_the_public_one(root: str) -> None:
    app = FastAPI()

    @app.put("/v1/profile")
    async def profile() -> dict[str, bool]:
        return {"saved": True}

    @app.get("/healthz")
    async def healthz() -> dict[str, bool]:
        return {"ok": True}

    app.add_middleware(BodyLimit)
    app.add_middleware(Admission, most=0, within_s=20)
    async with serving(app, name="the test", root_path=root) as base, httpx2.AsyncClient(base_url=base, timeout=20) as http:
        assert (await http.get("/healthz")).status_code == 200, "answered however busy the process is"
    without = FastAPI()
    without.put("/v1/profile")(profile)
    without.add_middleware(BodyLimit)
    async with serving(without, name="the test", root_path=root) as base, httpx2.AsyncClient(base_url=base, timeout=20) as http:
        large = b"x" * (MAX_BODY_BYTES + 1)
        assert (await http.put("/v1/profile", content=large)).status_code == 200, "a document may be larger than other bodies"
