"""Sessions of the pages: what the cookie is, how long it holds, and what keeps other sites from using it."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest
from fastapi import Request

from api.auth.claims import permissions_of
from api.auth.paths import local_path
from api.auth.sessions import CSRF_HEADER, Cookies, Sessions
from api.problems import Forbidden
from memory.model.access import OWN, Permission, Principal, Role
from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from tests.support.api import ISSUER, Api, StartApi, sign_in_path

SECRET = "x" * 32
HTTPS = Sessions(Cookies(SECRET, secure=True), max_age_s=60, origin="https://memory.example")


def person(user: str | None = "ada", *roles: Role) -> Principal:
    held = frozenset(roles or (Role.USER,))
    return Principal(
        tenant_id="acme", subject=user, roles=held, permissions=permissions_of(held, person=True), caller="x", via="session"
    )


def asking(cookie: str | None = None, method: str = "GET", **headers: str) -> Request:
    """A request with the cookie that a ``Set-Cookie`` made."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    if cookie is not None:
        said["cookie"] = cookie.split(";")[0]
    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": "memory.example", **said}.items()]
    return Request({"type": "http", "method": method, "path": "/", "query_string": b"", "headers": raw})


def test_the_cookie_is_for_this_server_alone_and_for_no_script() -> None:
    cookie = HTTPS.begin(person())
    assert cookie.startswith("__Host-afterturn_session=")
    assert cookie.split("; ")[1:] == ["Path=/", "Max-Age=60", "HttpOnly", "SameSite=Lax", "Secure"]
    plain = Sessions(Cookies(SECRET, secure=False), max_age_s=60).begin(person())
    assert plain.startswith("afterturn_session=")
    assert "Secure" not in plain
    assert HTTPS.end().startswith("__Host-afterturn_session=; Path=/; Max-Age=0")


def test_it_says_who_signed_in_and_nobody_else_can_make_one() -> None:
    found = HTTPS.read(asking(HTTPS.begin(person("ada", Role.USER, Role.ADMIN))))
    assert found is not None
    assert (found.tenant_id, found.subject, found.roles) == ("acme", "ada", {Role.USER, Role.ADMIN})
    assert found.permissions == OWN | {Permission.ADMIN}
    assert found.via == "session"
    cookie = HTTPS.begin(person())
    value = SimpleCookie(cookie)["__Host-afterturn_session"].value
    body, rest = value.split(".", 1)
    foreign = Sessions(Cookies("y" * 32, secure=True), max_age_s=60)
    other_purpose = Cookies(SECRET, secure=True).write("sign_in", {"t": "acme", "u": "eve", "r": ["admin"], "c": "c"}, max_age_s=60)
    for forged in (
        foreign.begin(person()),
        cookie.replace(body, body[:-2] + "AA"),
        f"__Host-afterturn_session={body}.{rest[:-3]}AAA",
        "__Host-afterturn_session=",
        "__Host-afterturn_session=" + "a" * 10_000,
        cookie.replace("__Host-", ""),
        "__Host-afterturn_session=" + other_purpose.split("=", 1)[1],
    ):
        assert HTTPS.read(asking(forged)) is None, forged
    with pytest.raises(Forbidden):
        HTTPS.begin(person(None, Role.ADMIN))
    with pytest.raises(InvalidInput):
        HTTPS.begin(person("".join(chr(0x4E00 + n % 9_000) for n in range(4_000))))


async def test_it_ends_at_its_age_however_often_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from itsdangerous import TimestampSigner

    now = 1_800_000_000
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: now)
    cookie = HTTPS.begin(person())
    for age in (30, 60):
        now = 1_800_000_000 + age
        assert await HTTPS.authenticate(asking(cookie)) is not None
    now = 1_800_000_061
    assert await HTTPS.authenticate(asking(cookie)) is None
    now = 1_700_000_000
    assert await HTTPS.authenticate(asking(cookie)) is None, "made in the future"


async def test_a_request_that_changes_something_names_its_token_and_comes_from_here() -> None:
    cookie = HTTPS.begin(person())
    principal = HTTPS.read(asking(cookie))
    assert principal is not None
    csrf = principal.csrf or ""
    ours: dict[str, Any] = {CSRF_HEADER: csrf, "origin": "https://memory.example", "sec-fetch-site": "same-origin"}
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert await HTTPS.authenticate(asking(cookie, method, **ours)) is not None
        assert await HTTPS.authenticate(asking(cookie, method, **{CSRF_HEADER: csrf})) is not None
        for wrong in (
            {CSRF_HEADER: ""},
            {CSRF_HEADER: csrf[:-1]},
            {CSRF_HEADER: "é"},
            {"origin": "https://evil.example"},
            {"origin": "https://memory.example.evil.example"},
            {"origin": "http://memory.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "none"},
        ):
            with pytest.raises(Forbidden):
                await HTTPS.authenticate(asking(cookie, method, **{**ours, **wrong}))
    another = HTTPS.read(asking(HTTPS.begin(person())))
    assert another is not None
    with pytest.raises(Forbidden):
        await HTTPS.authenticate(asking(cookie, "POST", **{CSRF_HEADER: another.csrf or ""}))
    # Without a public address, the one that the request itself names.
    local = Sessions(Cookies(SECRET, secure=False), max_age_s=60)
    made = local.begin(person())
    known = local.read(asking(made))
    assert known is not None
    headers = {CSRF_HEADER: known.csrf or ""}
    assert await local.authenticate(asking(made, "POST", **headers, origin="http://memory.example")) is not None
    with pytest.raises(Forbidden):
        await local.authenticate(asking(made, "POST", **headers, origin="http://memory.example:81"))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "settings",
        "//evil.example",
        "/\\evil.example",
        "/a\\b",
        "\\/evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/a\r\nSet-Cookie: x=y",
        "/ a",
        "/é",
        "/" + "a" * 1_000,
        "/login",
        "/login?next=/login",
        "/login/callback?code=1",
        "/logout",
        "/signed-out",
    ],
)
def test_a_sign_in_leads_to_paths_of_this_server_only(bad: str | None) -> None:
    assert local_path(bad, "/settings") == "/settings"


@pytest.mark.parametrize("good", ["/", "/admin", "/settings?tab=history#v3", "/memory/settings", "/a//b", "/%2f%2fx"])
def test_and_to_all_of_them(good: str) -> None:
    assert local_path(good, "/settings") == good


async def test_a_person_signs_in_works_and_signs_out(api: StartApi) -> None:
    """By the link of `afterturn dev`, through the real server."""
    async with api(workers=False) as a:
        scope = a.stack.user("ada")
        async with httpx2.AsyncClient(base_url=a.base) as browser:
            answer = await browser.get(sign_in_path(scope, "/settings"))
            assert (answer.status_code, answer.headers["location"]) == (303, "/settings")
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            assert ISSUER.key_text not in str(answer.headers)
            account = (await browser.get("/v1/account")).json()
            assert (account["tenant"], account["user"], account["roles"]) == ("acme", scope.user_id, ["user"])
            csrf = await _csrf(browser)

            # Nothing that another site could send is taken.
            preference = {"allow_user_memory": False}
            for headers in ({}, {CSRF_HEADER: "x"}, {CSRF_HEADER: csrf, "origin": "https://evil.example"}):
                refused = await browser.put("/v1/preference", json=preference, headers=headers)
                assert refused.status_code == 403, refused.text
            allowed = await browser.put("/v1/preference", json=preference, headers={CSRF_HEADER: csrf, "origin": a.base})
            assert allowed.status_code == 200, allowed.text
            # A token that does not hold is not made good by a cookie.
            assert (await browser.get("/v1/account", headers={"authorization": "Bearer x.y.z"})).status_code == 401

            assert (await browser.post("/logout")).status_code == 403
            assert (
                await browser.post("/logout", data={"csrf": csrf}, headers={"origin": "https://evil.example"})
            ).status_code == 403
            out = await browser.post("/logout", data={"csrf": csrf}, headers={"origin": a.base})
            assert (out.status_code, out.headers["location"]) == (303, "/signed-out")
            assert "signed out" in (await browser.get("/signed-out")).text
            assert (await browser.get("/v1/account")).status_code == 401
            assert (await browser.get("/settings")).headers["location"] == "/login?next=/settings"
            assert (await browser.post("/logout")).status_code == 303, "somebody who is signed out may sign out"
        await _wrong_links(a, scope)


async def _csrf(browser: httpx2.AsyncClient) -> str:
    page = (await browser.get("/settings")).text
    return page.split('name="csrf-token" content="')[1].split('"')[0]


async def _wrong_links(a: Api, scope: Scope) -> None:
    link = sign_in_path(scope)
    for wrong in ("/login/dev", link.replace(ISSUER.key_text, "x"), link.replace(ISSUER.key_text, ISSUER.key_text + "x")):
        answer = await a.http.get(wrong)
        assert answer.status_code == 401
        assert "another start" in answer.text
        assert "set-cookie" not in answer.headers
    away = await a.http.get(sign_in_path(scope, "//evil.example/"))
    assert away.headers["location"] == "/settings"
    token = await a.http.post("/dev/issuer/token", json={}, headers={"authorization": "Bearer guess"})
    assert token.status_code == 401
    helped = await a.http.get("/login")
    assert helped.status_code == 503
    assert "afterturn dev-token --link" in helped.text


async def test_behind_a_proxy_with_a_path_all_of_it_stays_below_that_path(api: StartApi) -> None:
    """The proxy speaks https to browsers and takes its path off."""
    async with api(workers=False, public_url="https://memory.example/memory/") as a:
        scope = a.stack.user("ada")
        assert (await a.http.get("/healthz")).status_code == 200
        answer = await a.http.get("/settings")
        assert answer.headers["location"] == "/memory/login?next=/memory/settings"
        assert answer.headers["strict-transport-security"]
        answer = await a.http.get(sign_in_path(scope, "//evil.example"))
        assert answer.headers["location"] == "/memory/settings"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-afterturn_session=")
        session = {"cookie": cookie.split(";")[0]}
        page = (await a.http.get("/settings", headers=session)).text
        assert 'action="/memory/logout"' in page
        csrf = page.split('name="csrf-token" content="')[1].split('"')[0]
        ours = {**session, CSRF_HEADER: csrf}
        large = {"json": {"document": "x" * 3_000_000}}
        answer = await a.http.put("/v1/profile", **large, headers={**ours, "origin": "https://memory.example"})
        assert answer.status_code in {413, 428}, answer.text
        assert answer.json()["detail"] != "a body has at most 2097152 bytes", "its own limit is larger"
        answer = await a.http.put("/v1/preference", json={}, headers={**ours, "origin": a.base})
        assert answer.status_code == 403, "what browsers see is the public address"
        assert (await a.http.get("/openapi.json")).json()["servers"] == [{"url": "/memory"}]
