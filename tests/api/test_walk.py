"""A walk through all routes, pages and GraphQL fields: nobody gets in who should not, and nobody gets at what is another's.

The routes come from the application itself. A new one is either in ``PUBLIC``, with its reason, or has a guard of ``GUARDS``; and
it is called here by everybody who must not get in.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from api.auth.access import GUARDS, NEEDS, administrator
from api.graphql import schema
from memory.model.access import Permission
from memory.model.ids import encode_segment
from memory.model.scope import Scope
from memory.model.service_token import make_token
from memory.stores.tables import build_tables
from tests.support.api import ISSUER, Api, StartApi, as_admin, as_person, as_service, bearer, sign_in_path

PUBLIC: Final[dict[str, str]] = {
    "GET /openapi.json": "describes the API, holds nothing of anybody",
    "GET /docs": "the same, to read",
    "GET /docs/{name}": "files of the documentation page",
    "GET /healthz": "the process answers",
    "GET /readyz": "what it needs answers, without a detail",
    "GET /login": "leads to the identity provider",
    "GET /login/callback": "checks the provider's proof",
    "POST /logout": "ends the session of whoever asks, and asks for its CSRF token",
    "GET /signed-out": "says so",
    "GET /assets/{digest}/{path:path}": "scripts, styles and pictures of the pages",
    "GET /dev/issuer/.well-known/openid-configuration": "public keys, in `afterturn dev` only",
    "GET /dev/issuer/jwks": "public keys, in `afterturn dev` only",
}
ANYBODY: Final = {"GET /v1/account"}
"""For everybody with a token: it tells what the token says."""
DEV_KEY: Final = {"POST /dev/issuer/token", "GET /login/dev"}
PAGES: Final = {"GET /", "GET /settings", "GET /admin"}
FIELDS: Final = {
    "getMyContextMemory": Permission.READ,
    "myContextMemoryPreference": Permission.READ,
    "contextMemoryEnablement": Permission.READ,
    "updateMyContextMemory": Permission.WRITE,
    "setMyContextMemoryPreference": Permission.WRITE,
}
CANARY: Final = "Zanzibarquartz"


@dataclass(frozen=True)
class Route:
    """``need``: the permission, of routes about a user; ``admin``: for administrators."""

    method: str
    path: str
    guards: frozenset[Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def need(self) -> Permission | None:
        return next((NEEDS[guard] for guard in self.guards if guard in NEEDS), None)

    @property
    def admin(self) -> bool:
        return any(guard.__qualname__.startswith(administrator.__name__) for guard in self.guards)

    def at(self, ids: Mapping[str, str]) -> str:
        """An address, with these in place of what is in braces."""
        return re.sub(r"\{(\w+)(:path)?\}", lambda found: quote(ids.get(found[1], "1"), safe=""), self.path)


def routes_of(app: FastAPI) -> list[Route]:
    """Fails for a route whose guards cannot be looked at."""

    def needed(dependant: Any) -> Iterator[Any]:
        for one in dependant.dependencies:
            yield one.call
            yield from needed(one)

    found: list[Route] = []
    for context in iter_route_contexts(app.routes):
        dependant = getattr(context, "dependant", None)
        guards = frozenset(call for call in needed(dependant) if call in GUARDS) if dependant is not None else frozenset[Any]()
        methods = getattr(context, "methods", None)
        assert methods, f"{context.path}: what is mounted here has to be walked too"
        found += [Route(method, str(context.path), guards) for method in sorted(methods) if method != "HEAD"]
    return found


async def call(http: httpx2.AsyncClient, route: Route, headers: Mapping[str, str], **ids: str) -> httpx2.Response:
    body = {"json": {}} if route.method in {"POST", "PUT", "PATCH"} else {}
    return await http.request(route.method, route.at(ids), headers=dict(headers), **body)


async def refused(http: httpx2.AsyncClient, routes: list[Route], headers: Mapping[str, str], *statuses: int, who: str) -> None:
    for route in routes:
        answer = await call(http, route, headers)
        assert answer.status_code in statuses, f"{who} at {route.name}: {answer.status_code} {answer.text[:300]}"


async def test_every_route_has_a_guard_and_lets_nobody_in_who_must_not(api: StartApi) -> None:
    async with api(workers=False) as a:
        routes = routes_of(a.app)
        names = {route.name for route in routes}
        assert len(names) == len(routes)
        assert len(routes) > 100
        assert PUBLIC.keys() | ANYBODY | DEV_KEY | PAGES <= names
        for route in routes:
            assert bool(route.guards) != (route.name in PUBLIC), route.name
            known = route.need is not None or route.admin or route.name in PUBLIC.keys() | ANYBODY | DEV_KEY | PAGES
            assert known, f"{route.name}: what kind of route is this?"
            if route.path.startswith("/v1/admin"):
                assert route.admin, route.name
        memory = [route for route in routes if route.need is not None]
        admin = [route for route in routes if route.admin]
        anybody = [route for route in routes if route.name in ANYBODY]
        closed = [*memory, *admin, *anybody]
        pages = [route for route in routes if route.name in PAGES]
        assert len(memory) > 70
        assert len(admin) > 10

        ada = a.stack.user("ada")
        for who, headers in nobody(ada).items():
            await refused(a.http, closed, headers, 401, who=who)
            await refused(a.http, [route for route in routes if route.name in DEV_KEY], headers, 401, who=who)
            for page in pages:
                answer = await call(a.http, page, headers)
                assert (answer.status_code, answer.headers.get("location")) == (303, f"/login?next={page.path}"), (who, page)

        another = {"Afterturn-User": quote(ada.user_id or "", safe="")}
        roleless = bearer(tenant="acme", user="bob", roles=["owner"])
        tenantless = bearer(tenant="", user="bob", roles=["user"])
        await refused(a.http, [*closed, *pages], roleless, 403, who="a person without a role")
        await refused(a.http, [*closed, *pages], tenantless, 403, who="a person without a company")
        await refused(a.http, memory, {**as_person(Scope.of("acme", "bob")), **another}, 403, who="a person for another")
        await refused(a.http, memory, {**as_person(Scope.of("other", "bob")), **another}, 403, who="a person of another company")
        await refused(a.http, memory, {**as_admin("acme"), **another}, 403, who="an administrator for somebody")
        memoryless = bearer(tenant="acme", user=None, roles=["admin"], sub=None)
        await refused(a.http, memory, {**memoryless, **another}, 403, who="an administrator who is nobody")
        await refused(a.http, memory, memoryless, 403, who="an administrator who is nobody, for nobody")
        await refused(a.http, admin, as_person(ada), 403, who="a person")
        everything = ("read", "write", "forget", "admin")
        await refused(a.http, admin, as_service("acme", "bob", permissions=everything), 403, who="a service")
        await refused(a.http, pages, as_service("acme", "bob", permissions=everything), 403, who="a service")
        await refused(a.http, memory, as_service("acme", permissions=everything), 400, who="a service for nobody")

        tables = build_tables(a.stack.settings)
        for lacking in (Permission.READ, Permission.WRITE, Permission.FORGET):
            granted = [one for one in ("read", "write", "forget") if one != lacking]
            mine = [route for route in memory if route.need is lacking]
            assert mine
            await refused(a.http, mine, as_service("acme", "bob", permissions=granted), 403, who=f"a service without {lacking}")
            made = make_token()
            await tables.tokens.create(
                encode_segment("acme"),
                token_id=made.token_id,
                secret_hash=made.secret_hash,
                name="one",
                permissions=granted,
                expires_at=None,
                now=datetime.now(UTC),
            )
            headers = {"Authorization": f"Bearer {made.text}", "Afterturn-User": "bob"}
            await refused(a.http, mine, headers, 403, who=f"a service token without {lacking}")
            await refused(a.http, admin, headers, 403, who="a service token")
        await tables.aclose()

        async with httpx2.AsyncClient(base_url=a.base) as browser:
            assert (await browser.get(sign_in_path(ada, "/healthz", role="admin"))).status_code == 303
            writing = [route for route in closed if route.method not in {"GET", "HEAD"}]
            await refused(browser, writing, {}, 403, who="a page of another site")


def nobody(victim: Scope) -> dict[str, dict[str, str]]:
    """Headers that prove nothing."""
    forged = ec.generate_private_key(ec.SECP256R1())
    token = ISSUER.token(tenant=victim.tenant_id, user=victim.user_id, roles=["user", "admin"])
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = {"kid": jwt.get_unverified_header(token)["kid"]}
    elsewhere = jwt.encode({**claims, "iss": "https://x.example"}, forged, "ES256")
    name = {"Afterturn-User": quote(victim.user_id or "", safe="")}
    given = {
        "nobody": {},
        "nobody who names a user": name,
        "a forger": {"Authorization": "Bearer " + jwt.encode(claims, forged, "ES256", headers=kid)},
        "somebody of another issuer": {"Authorization": f"Bearer {elsewhere}"},
        "somebody who was here yesterday": bearer(tenant="acme", user="bob", roles=["user", "admin"], lifetime_s=-3600),
        "somebody with a token for another API": bearer(tenant="acme", user="bob", roles=["user", "admin"], aud="another"),
        "a guesser": {"Authorization": f"Bearer {make_token().text}", **name},
        "somebody with a password": {"Authorization": "Basic YWRhOmFkYQ=="},
        "somebody with a made-up cookie": {"Cookie": "afterturn_session=eyJ0IjoiYWNtZSJ9.aaaaaa.bbbb"},
    }
    assert len(given) == 9
    return given


# ------------------------------------------------------------------------------------------------------ what is another's


async def test_nobody_gets_at_what_is_anothers(api: StartApi) -> None:
    """With the ids of what is Ada's, as a colleague, and as somebody of another company with her very name."""
    async with api() as a:
        ada = a.stack.user("ada")
        ids = await belongings(a, ada)
        before = await shown(a, ada, ids)
        assert before.count(CANARY) > 5
        document = (await a.http.get("/openapi.json")).json()
        routes = [route for route in routes_of(a.app) if route.need is not None]
        callers = {
            "a colleague": as_person(a.stack.user("bob")),
            "a namesake": as_person(Scope.of("other", ada.user_id)),
            "the administrator": as_admin("acme"),
            "another company's service": as_service("other", ada.user_id, permissions=("read", "write", "forget")),
        }
        for who, headers in callers.items():
            for route in routes:
                await untouched(a, route, document, ids, headers, who)
        assert await shown(a, ada, ids) == before


async def belongings(a: Api, ada: Scope) -> dict[str, str]:
    """Things of Ada, by the names that paths have for their ids."""
    me = as_person(ada)

    async def made(path: str, body: Any, method: str = "POST", **headers: str) -> Any:
        answer = await a.http.request(method, path, json=body, headers={**me, **headers})
        assert answer.is_success, (path, answer.text)
        return answer.json()

    document = f"# User Memory\n\n## Identity\n- Keeps a {CANARY}\n"
    await made("/v1/profile", {"document": document}, "PUT", **{"If-None-Match": "*"})
    fact = await made("/v1/facts", {"facts": [{"statement": f"The {CANARY} costs 40 euros."}]})
    contact = await made("/v1/contacts", {"first_name": CANARY, "email_address": "z@example.com"})
    guidance = await made("/v1/guidance", {"title": f"Care for a {CANARY}", "content": f"Water the {CANARY}."})
    source = f"def price(n):\n    return n  # {CANARY}\n"
    function = await made("/v1/functions", {"name": "price", "docstring": f"Of a {CANARY}.", "source": source})
    loop = await made("/v1/knowledge/update", {"text": f"Make a table for the {CANARY}."})
    return {
        "fact_id": _first(fact, "fact_id"),
        "contact_id": _first(contact, "contact_id"),
        "guidance_id": _first(guidance, "guidance_id"),
        "function_id": _first(function, "function_id"),
        "loop_id": _first(loop, "loop_id"),
        "version": "1",
    }


def _first(told: Any, name: str) -> str:
    found = re.search(rf'"{name}": ?"?([^",}}]+)', json.dumps(told))
    assert found, (name, told)
    return found[1]


async def shown(a: Api, ada: Scope, ids: Mapping[str, str]) -> str:
    """What Ada sees of it."""
    paths = [
        "/v1/profile",
        f"/v1/facts/{ids['fact_id']}",
        f"/v1/contacts/{ids['contact_id']}",
        f"/v1/guidance/{ids['guidance_id']}",
        f"/v1/functions/{ids['function_id']}",
    ]
    answers = [await a.http.get(path, headers=as_person(ada)) for path in paths]
    return "\n".join(answer.text for answer in answers)


async def untouched(a: Api, route: Route, document: Any, ids: Mapping[str, str], headers: Mapping[str, str], who: str) -> None:
    """The route called with Ada's ids in its path and in the document's own example of a body."""
    told = document["paths"].get(re.sub(r":path\}", "}", route.path), {}).get(route.method.lower(), {})
    body = _example(document, told)
    if route.path == "/v1/forget" and route.method == "POST":
        body = {"json": {"confirm": "no"}}  # what it deletes is the caller's own, and other tests see to that
    sent = _with(body, ids)
    async with asyncio.timeout(60), a.http.stream(route.method, route.at(ids), headers=dict(headers), **sent) as answer:
        # A stream that would not end begins with what it has.
        text = await anext(answer.aiter_text()) if route.name in STREAMS else (await answer.aread()).decode("utf-8", "replace")
    assert answer.status_code < 500, (who, route.name, text)
    assert CANARY not in text, (who, route.name, text[:2_000])
    if any(name in route.path for name in ("{fact_id}", "{guidance_id}", "{function_id}", "{loop_id}")):
        assert answer.status_code >= 400 or text == '{"forgotten":0}', (who, route.name, text)


STREAMS: Final = {"GET /v1/notices"}


def _example(document: Any, operation: Any) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    media = content.get("application/json")
    if media is None:
        return {}
    schema_of = media.get("schema", {})
    if "$ref" in schema_of:
        schema_of = document["components"]["schemas"][schema_of["$ref"].rpartition("/")[2]]
    examples = [*schema_of.get("examples", ()), *(one.get("value") for one in media.get("examples", {}).values())]
    return {"json": media.get("example", examples[0] if examples else {})}


def _with(body: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Ada's ids wherever the body names some."""

    def put(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: put(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [put(inner, name) for inner in value]
        if name == "wait_s":
            return 0
        known = ids.get(name) or ids.get(name.removesuffix("s"))
        return (int(known) if isinstance(value, int) else known) if known is not None else value

    if "json" not in body:
        return {}
    given = put(body["json"])
    if isinstance(given, dict) and not given:
        given = {"fact_ids": [ids["fact_id"]], "contact_ids": [int(ids["contact_id"])], "ids": [ids["fact_id"]]}
    return {"json": given}


# -------------------------------------------------------------------------------------------------------------- GraphQL


def operations() -> Iterator[tuple[str, str]]:
    """Every field of the schema, and a document that asks for it with arguments of the right kind."""
    made = schema.introspect()["__schema"]
    types = {one["name"]: one for one in made["types"]}
    assert made.get("subscriptionType") is None
    for kind, root in (("query", made["queryType"]), ("mutation", made["mutationType"])):
        for field in types[root["name"]]["fields"]:
            given = ", ".join(
                f"{one['name']}: {_literal(one['type'])}" for one in field["args"] if one["type"]["kind"] == "NON_NULL"
            )
            yield field["name"], f"{kind} {{ {field['name']}{f'({given})' if given else ''} {{ __typename }} }}"


def _literal(kind: Any) -> str:
    inner = kind.get("ofType") or kind
    return {"Boolean": "false", "Int": "1"}.get(inner["name"], f'"{CANARY}"')


async def test_every_field_of_graphql_is_for_its_user_alone(api: StartApi) -> None:
    async with api(workers=False) as a:
        asked = dict(operations())
        assert asked.keys() == FIELDS.keys(), "a new field needs its permission here"
        ada = a.stack.user("ada")
        name = {"Afterturn-User": quote(ada.user_id or "", safe="")}

        async def ask(document: str, headers: Mapping[str, str]) -> httpx2.Response:
            return await a.http.post("/graphql", json={"query": document}, headers=dict(headers))

        for field, document in asked.items():
            for who, headers in nobody(ada).items():
                assert (await ask(document, headers)).status_code == 401, (who, field)
            for who, headers in {
                "a person for another": {**as_person(Scope.of("acme", "bob")), **name},
                "a person of another company": {**as_person(Scope.of("other", "bob")), **name},
                "an administrator for somebody": {**as_admin("acme"), **name},
                "an administrator who is nobody": {**bearer(tenant="acme", user=None, roles=["admin"], sub=None), **name},
                "a service without read": as_service("acme", ada.user_id, permissions=("write", "forget")),
            }.items():
                assert (await ask(document, headers)).status_code == 403, (who, field)
            reads = await ask(document, as_service("acme", ada.user_id, permissions=("read", "forget")))
            code = reads.json().get("errors", [{}])[0].get("extensions", {}).get("code")
            assert (code == "forbidden") == (FIELDS[field] is Permission.WRITE), (field, reads.text)
            async with httpx2.AsyncClient(base_url=a.base) as browser:
                await browser.get(sign_in_path(ada, "/healthz"))
                crossed = await browser.post("/graphql", json={"query": document})
                assert crossed.status_code == 403, "a page of another site"
        assert (
            await a.http.get("/graphql", params={"query": asked["getMyContextMemory"]}, headers=as_person(ada))
        ).status_code == 405
        memory = await a.http.get("/v1/profile", headers=as_person(ada))
        assert CANARY not in memory.text


def test_the_ways_in_of_afterturn_dev_are_there_and_nowhere_else() -> None:
    from types import SimpleNamespace
    from typing import cast

    from api.app import create_app
    from api.auth.setup import Access
    from api.context import ApiContext
    from memory.settings import load_settings

    def paths(access: Access) -> set[str]:
        context = SimpleNamespace(settings=load_settings({}), access=access, box=None, close=())
        return {route.path for route in routes_of(create_app(cast("ApiContext", context)))}

    served, in_dev = paths(Access()), paths(Access(local=ISSUER))
    issuer = {f"/dev/issuer/{name}" for name in ("token", "jwks", ".well-known/openid-configuration")}
    assert in_dev - served == {"/login/dev", *issuer}
    assert not any("dev" in path for path in served)
