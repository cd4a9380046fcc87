"""The profile over HTTP: reading makes nothing, a save names its version, nothing is overwritten that its writer has not seen."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from memory.model.scope import Scope
from tests.support.api import Api, as_person, as_service

MIB = 1024 * 1024
BERLIN = "# User Memory\n\n## Identity\n- Lives in Berlin.\n"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def a(rest: Api) -> Api:
    return rest


def headers(scope: Scope, match: str | None = None, key: str | None = None) -> dict[str, str]:
    """Of a save: without ``match`` there must be no profile."""
    named = {"If-None-Match": "*"} if match is None else {"If-Match": match}
    return {**as_person(scope), **named, **({} if key is None else {"Idempotency-Key": key})}


async def save(a: Api, scope: Scope, document: str | bytes, match: str | None = None, key: str | None = None) -> httpx2.Response:
    """As JSON, or as raw Markdown where the document is bytes."""
    sent = headers(scope, match, key)
    if isinstance(document, bytes):
        return await a.http.put("/v1/profile", content=document, headers={"Content-Type": "text/markdown", **sent})
    return await a.http.put("/v1/profile", json={"document": document}, headers=sent)


async def read(a: Api, scope: Scope) -> dict[str, Any]:
    answer = await a.http.get("/v1/profile", headers=as_person(scope))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def versions(a: Api, scope: Scope, **query: Any) -> list[dict[str, Any]]:
    return (await a.http.get("/v1/profile/versions", params=query, headers=as_person(scope))).json()["items"]


async def test_a_profile_is_read_saved_compared_and_rolled_back(a: Api) -> None:
    scope = a.stack.user()
    me = as_person(scope)

    # Reading makes nothing.
    assert await read(a, scope) == {
        "body": "",
        "exists": False,
        "version": 0,
        "etag": None,
        "last_updated": None,
        "turn_count": 0,
        "tokens": 0,
        "max_tokens": 2000,
        "cause": None,
    }
    assert "etag" not in (await a.http.get("/v1/profile", headers=me)).headers
    assert await versions(a, scope) == []
    assert (await a.stack.parts.directory.facts(scope, "default")).active_roots == ()

    # A save has to say what it has seen.
    nameless = await a.http.put("/v1/profile", json={"document": BERLIN}, headers=me)
    assert (nameless.status_code, nameless.json()["type"]) == (428, "/problems/precondition-required")
    blind = await save(a, scope, BERLIN, match="*")
    assert blind.status_code == 428
    for odd in ("abc", 'W/"abc"', '"a", "b"', '""'):
        assert (await save(a, scope, BERLIN, match=odd)).status_code == 400, odd
    both = await a.http.put("/v1/profile", json={"document": BERLIN}, headers={**headers(scope), "If-Match": '"x"'})
    assert both.status_code == 400
    named = await a.http.put("/v1/profile", json={"document": BERLIN}, headers={**me, "If-None-Match": '"x"'})
    assert named.status_code == 400
    early = await save(a, scope, BERLIN, match='"0000"')
    assert (early.status_code, early.json()["theirs"], early.json()["etag"]) == (412, "", None)
    assert await versions(a, scope) == []

    first = await save(a, scope, BERLIN)
    assert first.status_code == 200, first.text
    assert first.json() | {"etag": ""} == {"status": "saved", "version": 1, "etag": ""}
    etag = first.headers["etag"]
    assert etag == f'"{first.json()["etag"]}"'
    shown = await read(a, scope)
    assert (shown["exists"], shown["version"], shown["cause"]) == (True, 1, "edit")
    assert "- Lives in Berlin." in shown["body"]
    assert "user_id" not in shown["body"]
    assert "## Follow-ups" in shown["body"]

    # Two tabs: the second one is told of the first, with both texts.
    one = await save(a, scope, BERLIN.replace("Berlin", "Hamburg"), match=etag)
    other = await save(a, scope, BERLIN.replace("Berlin", "Köln"), match=etag)
    assert (one.status_code, other.status_code) == (200, 412)
    problem = other.json()
    assert other.headers["content-type"] == "application/problem+json"
    assert problem["type"] == "/problems/profile-conflict"
    assert "Köln" in problem["yours"]
    assert "Hamburg" in problem["theirs"]
    assert (problem["etag"], problem["version"]) == (one.json()["etag"], 2)
    assert other.headers["etag"] == one.headers["etag"]
    again = await save(a, scope, BERLIN)
    assert (again.status_code, "Hamburg" in again.json()["theirs"]) == (412, True)
    merged = await save(a, scope, BERLIN.replace("Berlin", "Köln"), match=other.headers["etag"])
    assert (merged.status_code, merged.json()["version"]) == (200, 3)
    same = await save(a, scope, (await read(a, scope))["body"], match=merged.headers["etag"])
    assert (same.status_code, same.json()["status"]) == (200, "unchanged")

    # As Markdown, and not again when it is known.
    text = await a.http.get("/v1/profile", headers={**me, "Accept": "text/markdown"})
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "- Lives in Köln." in text.text
    known = await a.http.get("/v1/profile", headers={**me, "If-None-Match": text.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")

    # History, walked page by page, and back.
    newest_first = await versions(a, scope)
    assert [one["version"] for one in newest_first] == [3, 2, 1]
    assert [one["is_latest"] for one in newest_first] == [True, False, False]
    walked: list[int] = []
    page = (await a.http.get("/v1/profile/versions", params={"limit": 2}, headers=me)).json()
    walked += [one["version"] for one in page["items"]]
    page = (await a.http.get("/v1/profile/versions", params={"limit": 2, "cursor": page["next"]}, headers=me)).json()
    walked += [one["version"] for one in page["items"]]
    assert (walked, page["next"]) == ([3, 2, 1], None)
    old = await a.http.get("/v1/profile/versions/1", headers=me)
    assert "- Lives in Berlin." in old.json()["body"]
    assert (await a.http.get("/v1/profile/versions/9", headers=me)).status_code == 404
    assert (await a.http.get("/v1/profile/versions/0", headers=me)).status_code == 422
    assert (await a.http.get(f"/v1/profile/versions/{10**40}", headers=me)).status_code == 422
    between = await a.http.get("/v1/profile/differences", params={"from": 1, "to": 3}, headers=me)
    assert between.status_code == 200

    back = {"to_version": 1}
    assert (await a.http.post("/v1/profile/rollback", json=back, headers=me)).status_code == 428
    stale = await a.http.post("/v1/profile/rollback", json=back, headers={**me, "If-Match": etag})
    assert stale.status_code == 412
    undone = [
        await a.http.post(
            "/v1/profile/rollback", json=back, headers={**me, "If-Match": merged.headers["etag"], "Idempotency-Key": "undo"}
        )
        for _ in range(2)
    ]
    assert [(one.status_code, one.json()["version"]) for one in undone] == [(200, 4), (200, 4)]
    assert "Berlin" in (await read(a, scope))["body"]
    unknown = await a.http.post(
        "/v1/profile/rollback", json={"to_version": 77}, headers={**me, "If-Match": undone[0].headers["etag"]}
    )
    assert unknown.status_code == 404

    # The same memory for an orchestrator of the company, and for nobody else.
    loaded = await a.http.get("/v1/memory", params={"allow_user_memory": True}, headers=as_service("acme", scope.user_id))
    assert "Lives in Berlin" in loaded.json()["system_prompt_section"]
    assert loaded.headers["etag"] == undone[0].headers["etag"]
    stranger = await a.http.get("/v1/profile", headers=as_person(Scope.of("globex", scope.user_id)))
    assert stranger.json()["exists"] is False


async def test_what_a_document_may_hold(a: Api) -> None:
    scope = a.stack.user()
    me = as_person(scope)

    # Exactly 1 MiB and one byte more, both ways.
    start = b"# User Memory\n\n## Identity\n- "
    most = start + b"x" * (MIB - len(start))
    for document in (most + b"x", (most + b"x").decode()):
        over = await save(a, scope, document)
        assert (over.status_code, over.json()["type"]) == (413, "/problems/too-large"), over.text
        assert "nothing was changed" in over.json()["detail"]
    assert await versions(a, scope) == []
    largest = await save(a, scope, most)
    assert largest.status_code == 200, largest.text
    etag = largest.headers["etag"]
    assert len((await read(a, scope))["body"]) > MIB
    largest = await save(a, scope, most.decode(), match=etag)
    assert (largest.status_code, largest.json()["status"]) == (200, "unchanged")

    # What is no text is refused, and nothing changes.
    for body, kind in (
        (b"## Identity\n- caf\xe9\n", "text/markdown"),
        (b'{"document": "caf\xe9"}', "application/json"),
        (b'{"document": "\\ud800 half of a pair"}', "application/json"),
        (b'{"document": NaN}', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"document": "x"', "application/json"),
    ):
        wrong = await a.http.put("/v1/profile", content=body, headers={**headers(scope, etag), "Content-Type": kind})
        assert wrong.status_code == 400, (body[:30], wrong.text)
        assert wrong.headers["content-type"] == "application/problem+json"
    for given in ({"document": 1}, {"document": None}, {}, {"document": "x", "more": 1}, [], "x"):
        wrong = await a.http.put("/v1/profile", json=given, headers=headers(scope, etag))
        assert wrong.status_code == 422, given
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        wrong = await a.http.put("/v1/profile", content=b"x", headers={**headers(scope, etag), "Content-Type": kind})
        assert wrong.status_code == 415, kind
    assert len(await versions(a, scope)) == 1

    # Script is text, a broken heading keeps what is under it, a secret does not stay.
    broken = (
        b"\xef\xbb\xbf---\nuser_id: somebody-else\n---\r\n"
        b"## Identitty\r\n- Lives in Bremen.\r\n<script>alert(1)</script>\r\n"
        b"## Hobbies\r\n- Sails on Sundays.\r\n# Identity\r\n- Born in Kiel, password: hunter2-Xy77-abc\x00\r\n"
    )
    saved = await save(a, scope, broken, match=etag)
    assert saved.status_code == 200, saved.text
    text = (await a.http.get("/v1/profile", headers={**me, "Accept": "text/markdown"})).text
    for kept in ("Lives in Bremen.", "<script>alert(1)</script>", "Sails on Sundays.", "Born in Kiel"):
        assert kept in text
    assert "hunter2" not in text
    assert "somebody-else" not in text
    assert "\x00" not in text
    stored = await a.stack.parts.profiles.read(scope, "user-memory")
    assert stored.document.frontmatter.user_id == scope.user_id

    # All of it deleted is an empty memory.
    emptied = await save(a, scope, " \n", match=saved.headers["etag"])
    assert emptied.status_code == 200
    loaded = await a.http.get("/v1/memory", params={"allow_user_memory": True}, headers=me)
    assert (loaded.json()["body"], loaded.json()["reason"]) == ("", "no_profile")
