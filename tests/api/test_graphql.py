"""GraphQL: one's own memory and preference, typed results, bounds, and a fuzz without a server error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
from graphql import get_introspection_query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_graphql import Mode, from_schema

from api.graphql import schema
from memory.model.errors import StoreUnavailable
from memory.model.scope import Scope
from tests.support.api import Api, StartApi, as_person, as_service

MIB = 1024 * 1024
READ = """query($space: String! = "default") {
  getMyContextMemory(space: $space) { state document exists version etag tokens maxTokens lastUpdated reason }
}"""
SAVE = """mutation($document: String!, $etag: String, $id: String) {
  updateMyContextMemory(document: $document, expectedEtag: $etag, editId: $id) {
    kind: __typename message
    ... on ContextMemorySaved { version etag memory { document etag tokens } }
    ... on ContextMemoryUnchanged { version etag }
    ... on ContextMemoryConflict { yours theirs version etag }
    ... on ContextMemoryTooLarge { bytes maxBytes }
  }
}"""


async def post(a: Api, who: dict[str, str], query: str, **variables: Any) -> Any:
    answer = await a.http.post("/graphql", json={"query": query, "variables": variables}, headers=who)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def save(a: Api, who: dict[str, str], document: str, **variables: Any) -> Any:
    return (await post(a, who, SAVE, document=document, **variables))["data"]["updateMyContextMemory"]


async def read(a: Api, who: dict[str, str]) -> Any:
    return (await post(a, who, READ))["data"]["getMyContextMemory"]


async def test_a_person_reads_and_saves_their_own_memory(api: StartApi) -> None:
    async with api() as a:
        ann = a.stack.user("ann")
        me = as_person(ann)
        empty = await read(a, me)
        assert empty == {
            "state": "EMPTY",
            "document": "",
            "exists": False,
            "version": 0,
            "etag": None,
            "tokens": 0,
            "maxTokens": 2000,
            "lastUpdated": None,
            "reason": None,
        }
        assert not (await a.stack.profile(ann)).exists  # reading creates nothing

        saved = await save(a, me, "## Identity\n- Ann, carpenter in Graz\n", id="first")
        assert saved["kind"] == "ContextMemorySaved"
        assert "- Ann, carpenter in Graz" in saved["memory"]["document"]
        assert saved["memory"]["etag"] == saved["etag"]
        again = await save(a, me, "## Identity\n- Ann, carpenter in Graz\n", id="first")
        assert again["etag"] == saved["etag"]
        same = await save(a, me, saved["memory"]["document"], etag=saved["etag"])
        assert (same["kind"], same["version"]) == ("ContextMemoryUnchanged", saved["version"])

        # A save carries the version that was read; nothing is overwritten else, and both are shown.
        late = await save(a, me, "## Identity\n- Ann, painter\n")
        assert (late["kind"], late["etag"]) == ("ContextMemoryConflict", saved["etag"])
        assert "painter" in late["yours"]
        assert "carpenter" in late["theirs"]
        assert (await read(a, me))["etag"] == saved["etag"]

        # Whoever acts for a user sees that user's memory; nobody else's memory can be named.
        assert (await read(a, as_service("acme", ann.user_id)))["etag"] == saved["etag"]
        for stranger in (
            as_person(a.stack.user()),
            as_person(Scope.of("umbrella", ann.user_id)),
            as_service("umbrella", ann.user_id),
        ):
            assert (await read(a, stranger))["state"] == "EMPTY"
        reads = as_service("acme", ann.user_id, permissions=("read",))
        for query in (SAVE, "mutation { setMyContextMemoryPreference(allowUserMemory: false) { allowUserMemory } }"):
            refused = await post(a, reads, query, document="x")
            assert refused["data"] is None
            assert refused["errors"][0]["extensions"]["code"] == "forbidden"
        assert (await a.http.post("/graphql", json={"query": READ})).status_code == 401
        assert (await a.http.post("/graphql", json={"query": READ}, headers=as_service("acme"))).status_code == 400
        named = {**me, "Afterturn-User": "somebody-else"}
        assert (await a.http.post("/graphql", json={"query": READ}, headers=named)).status_code == 403

        # The preference and why memory is off.
        choose = "mutation($on: Boolean!) { setMyContextMemoryPreference(allowUserMemory: $on) { allowUserMemory } }"
        ask = "{ myContextMemoryPreference { allowUserMemory } contextMemoryEnablement { active reasons { code remedy } } }"
        assert (await post(a, me, ask))["data"]["contextMemoryEnablement"] == {"active": True, "reasons": []}
        assert (await post(a, me, choose, on=False))["data"] == {"setMyContextMemoryPreference": {"allowUserMemory": False}}
        off = (await post(a, me, ask))["data"]
        assert off["myContextMemoryPreference"] == {"allowUserMemory": False}
        assert [one["code"] for one in off["contextMemoryEnablement"]["reasons"]] == ["user_opted_out"]
        assert (await read(a, me))["exists"]  # opting out deletes nothing

        # The bound is exact: 1 MiB is taken, one byte more is not, in characters of any size.
        line = "- " + "é" * 2000 + "\n"
        big = "## Work Context\n" + line * ((MIB - 16) // len(line.encode()))
        big += "é" * ((MIB - len(big.encode())) // 2)
        big += "x" * (MIB - len(big.encode()))
        assert len(big.encode()) == MIB
        etag = saved["etag"]
        over = await save(a, me, big + "x", etag=etag)
        assert (over["kind"], over["bytes"], over["maxBytes"]) == ("ContextMemoryTooLarge", MIB + 1, MIB)
        assert (await read(a, me))["etag"] == etag
        # As most programs write JSON: six characters for one that is not ASCII.
        escaped = json.dumps({"query": SAVE, "variables": {"document": big, "etag": etag}})
        answer = await a.http.post("/graphql", content=escaped, headers={**me, "Content-Type": "application/json"})
        taken = answer.json()["data"]["updateMyContextMemory"]
        assert taken["kind"] == "ContextMemorySaved"
        half = await a.http.post(
            "/graphql",
            content=json.dumps({"query": SAVE, "variables": {"document": "a\ud83d", "etag": taken["etag"]}}),
            headers={**me, "Content-Type": "application/json"},
        )
        assert half.json()["data"]["updateMyContextMemory"]["kind"] == "ContextMemoryRefused"
        assert (await read(a, me))["etag"] == taken["etag"]

        await asyncio.to_thread(fuzz, a.base, as_person(a.stack.user()))


def fuzz(base: str, who: dict[str, str]) -> None:
    """Whatever is asked, the answer is one of GraphQL's, and no fault of this program."""
    operations = st.one_of(*(from_schema(schema.as_str(), mode=mode) for mode in Mode))

    with httpx2.Client(base_url=base, headers=who, timeout=60) as http:

        @settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(operations)
        def ask(query: Any) -> None:
            answer = http.post("/graphql", json={"query": query})
            assert answer.status_code in (200, 422), (query, answer.text)
            for error in answer.json().get("errors") or ():
                assert error.get("extensions", {}).get("code") != "error", (query, answer.text)

        ask()


async def test_what_is_too_much_is_refused_before_it_is_run(api: StartApi) -> None:
    async with api(workers=False) as a:
        me = as_person(a.stack.user())

        async def refusal(query: str, **variables: Any) -> str:
            answer = await post(a, me, query, **variables)
            assert answer.get("data") is None, answer
            return answer["errors"][0]["message"]

        bomb = " ".join(f"fragment f{n} on ContextMemory {{ ...f{n + 1} ...f{n + 1} }}" for n in range(60))
        bomb += " fragment f60 on ContextMemory { version }"
        field = "getMyContextMemory { version }"
        assert "costs too much" in await refusal(f"{{ getMyContextMemory {{ ...f0 }} }} {bomb}")
        assert "aliases" in await refusal("{ " + " ".join(f"a{n}: __typename" for n in range(11)) + " }")
        assert "costs" in await refusal("{ " + " ".join(f"a{n}: {field}" for n in range(10)) + f" {field}" * 15 + " }")
        assert "costs" in await refusal(
            "mutation { " + " ".join(f'a{n}: updateMyContextMemory(document: "x") {{ message }}' for n in range(6)) + " }"
        )
        deep = "{ __schema { types " + "{ fields { type " * 10 + "{ name }" + " } }" * 10 + " } }"
        assert "at most" in await refusal(deep)
        assert "nested" in await refusal("{ a { b { c { d { e { f } } } } } }")
        assert "tokens" in await refusal("{ " + "version " * 1_001 + "}")
        assert await refusal("{" * 900)
        assert "operationName" in await refusal("query A { __typename } query B { __typename }")
        assert "fragment" in await refusal("{ ...nowhere }")
        assert await refusal("fragment f on Query { ...f } { ...f }")
        assert await refusal("subscription { __typename }")
        assert await refusal("fragment f on Query { __typename }")
        # What was written is not told back.
        for query, variables in (
            ('{ getMyContextMemory(space: ["my secret"]) { version } }', {}),
            ('{ "my secret" }', {}),
            (SAVE, {"document": {"text": "my secret"}}),
            (SAVE, {"document": None, "etag": ["my secret"]}),
        ):
            assert "secret" not in await refusal(query, **variables)
        introspected = await post(a, me, get_introspection_query())
        assert introspected["data"]["__schema"]["queryType"]["name"] == "Query"

        for method, content, kind, status in (
            ("GET", None, None, 405),
            ("POST", json.dumps([{"query": READ}, {"query": READ}]), "application/json", 422),
            ("POST", READ, "application/graphql", 415),
            ("POST", "query=%7B__typename%7D", "application/x-www-form-urlencoded", 415),
            ("POST", json.dumps({"query": "x" * 40_000}), "application/json", 422),
            ("POST", "{" * 100_000, "application/json", 400),
            ("POST", json.dumps({"variables": {}}), "application/json", 422),
        ):
            headers = me if kind is None else {**me, "Content-Type": kind}
            answer = await a.http.request(method, "/graphql?query={__typename}", content=content, headers=headers)
            assert answer.status_code == status, (kind, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"

        modern = {**me, "Accept": "application/graphql-response+json"}
        for query, status in (("{ __typename }", 200), ("{ nothing }", 400)):
            answer = await a.http.post("/graphql", json={"query": query}, headers=modern)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/graphql-response+json")


class Away:
    def __getattr__(self, name: str) -> Any:
        async def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("the object store cannot be reached")

        return away


async def test_a_store_that_is_away_is_a_state_and_not_a_failure(api: StartApi) -> None:
    async with api(workers=False, parts={"profiles": Away()}) as a:
        me = as_person(a.stack.user())
        found = await read(a, me)
        assert (found["state"], found["reason"]) == ("UNAVAILABLE", "the object store cannot be reached")
        kept = await save(a, me, "- x")
        assert (kept["kind"], kept["message"]) == ("ContextMemoryUnavailable", "the object store cannot be reached")
    async with api(workers=False, parts={"directory": Away()}) as a:
        told = await post(a, as_person(a.stack.user()), "{ contextMemoryEnablement { active } }")
        assert told["data"] is None
        assert told["errors"][0]["extensions"] == {"code": "unavailable"}
