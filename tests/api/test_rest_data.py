"""Taking all data along and deleting all of it, over HTTP; and the document that describes all routes."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.api.test_rest_profile import BERLIN, save
from tests.api.test_rest_turns import a_turn
from tests.support.api import Api, as_person, as_service
from tests.support.waiting import until

CANARY = "zebra-crossing-9141"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def a(rest: Api) -> Api:
    return rest


async def test_everything_is_exported_and_then_deleted(a: Api) -> None:
    scope, other = a.stack.user("Ü/export"), a.stack.user()
    me, theirs = as_person(scope), as_person(other)
    for who in (scope, other):
        assert (await save(a, who, BERLIN + f"- Likes the {CANARY}.\n")).status_code == 200
        fact = {"facts": [{"statement": f"The {CANARY} is on Main Street."}]}
        assert (await a.http.post("/v1/facts", json=fact, headers=as_person(who))).status_code == 200
        turn = a_turn("t1", f"Where is the {CANARY}?")
        assert (await a.http.post("/v1/turns", json=turn, headers=as_person(who))).status_code == 202
    await a.stack.settle(scope, other)

    answer = await a.http.get("/v1/export", headers=me)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].startswith('attachment; filename="memory-')
    assert scope.user_id not in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert any(name.endswith("profile.md") and CANARY in text for name, text in texts.items())
    assert any("facts" in name and CANARY in text for name, text in texts.items())
    # Reading and writing do not include it.
    agent = as_service("acme", scope.user_id)
    assert (await a.http.get("/v1/export", headers=agent)).status_code == 403
    assert (await a.http.post("/v1/forget", json={"confirm": "delete everything"}, headers=agent)).status_code == 403

    # What is not typed out is not done.
    for wrong in ("", "yes", "delete", "delete everything!"):
        refused = await a.http.post("/v1/forget", json={"confirm": wrong}, headers=me)
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/not-confirmed")
    assert (await a.http.post("/v1/forget", headers=me)).status_code == 422
    assert (await a.http.get("/v1/forget", headers=me)).json() == {"items": []}

    wish = await a.http.post("/v1/forget", json={"confirm": " Delete everything"}, headers=me)
    assert wish.status_code == 202, wish.text
    where = wish.headers["location"]
    assert where == f"/v1/forget/{wish.json()['erasure_id']}"

    async def is_done() -> bool:
        return (await a.http.get(where, headers=me)).json()["state"] == "done"

    await until(is_done, within_s=60)
    receipt = await a.http.get(where, headers=me)
    told = receipt.json()
    assert told["requested_by"] == "the user"
    assert told["problems"] == []
    assert sum(told["counts"].values()) > 5
    assert CANARY not in receipt.text
    assert scope.user_id not in receipt.text
    assert (await a.http.get(where, headers=theirs)).status_code == 404
    assert (await a.http.get("/v1/forget", headers=theirs)).json() == {"items": []}
    assert [one["erasure_id"] for one in (await a.http.get("/v1/forget", headers=me)).json()["items"]] == [told["erasure_id"]]

    profile = (await a.http.get("/v1/profile", headers=me)).json()
    assert (profile["exists"], profile["body"]) == (False, "")
    for path in ("/v1/profile/versions", "/v1/facts", "/v1/turns", "/v1/windows", "/v1/usage"):
        assert (await a.http.get(path, headers=me)).json()["items"] == [], path
    assert (await a.http.post("/v1/search", json={"query": CANARY}, headers=me)).json()["items"] == []
    # The other user's memory is as it was, and who was forgotten may begin anew.
    assert CANARY in (await a.http.get("/v1/profile", headers=theirs)).json()["body"]
    again = await a.http.post("/v1/turns", json=a_turn("t1", "Hello, it is me."), headers=me)
    assert (again.status_code, again.json()["status"]) == (202, "recorded")


async def test_the_openapi_document_says_what_there_is(a: Api) -> None:
    document = (await a.http.get("/openapi.json", headers=as_person(a.stack.user()))).json()
    assert document["openapi"].startswith("3.1")
    assert document == (await a.http.get("/openapi.json", headers=as_person(a.stack.user()))).json()
    schemas: dict[str, Any] = document["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert "__" not in name, f"two models have the name {name}"
        for example in schema.get("examples", ()):
            resolved = {**schema, "components": document["components"]}
            assert [error.message for error in Draft202012Validator(resolved).iter_errors(example)] == [], name
    names: list[str] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert operation["tags"], (method, path)
            assert {"401", "403", "422", "503"} <= set(operation["responses"]), (method, path)
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (method, path, status)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "$ref" in body:
                given = schemas[body["$ref"].rpartition("/")[2]]
                has_example = "examples" in given or any("examples" in one for one in given.get("properties", {}).values())
                assert has_example, f"{method} {path}: the body has no example"
    assert len(names) == len(set(names))
    described = {tag["name"] for tag in document["tags"]}
    used = {tag for operations in document["paths"].values() for one in operations.values() for tag in one["tags"]}
    assert used <= described
