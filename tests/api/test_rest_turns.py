"""Memory before an answer and turns after it, over HTTP, and what a user may ask about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.model.directory import SpaceSettings
from memory.model.enablement import ReasonCode
from tests.support.api import Api, as_person, as_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def a(rest: Api) -> Api:
    return rest


def a_turn(turn_id: str, user_text: str | None = "I moved to Berlin.", **fields: Any) -> dict[str, Any]:
    return {"turn_id": turn_id, "user_text": user_text, "assistant_text": "Noted.", "allow_user_memory": True, **fields}


async def test_is_it_on_and_what_was_chosen(a: Api) -> None:
    scope = a.stack.user(tenant="choosers")
    me = as_person(scope)

    async def reasons(**query: Any) -> list[str]:
        found = (await a.http.get("/v1/enablement", params=query, headers=me)).json()
        assert found["active"] is (not found["reasons"])
        assert all(one["remedy"] for one in found["reasons"])
        return [one["code"] for one in found["reasons"]]

    assert await reasons() == []
    assert await reasons(allow_user_memory=False, web_search=True) == [
        ReasonCode.WEB_SEARCH_ON,
        ReasonCode.CALLER_NOT_ALLOWED,
    ]
    assert (await a.http.get("/v1/preference", headers=me)).json() == {"allow_user_memory": True}
    out = await a.http.put("/v1/preference", json={"allow_user_memory": False}, headers=me)
    assert (out.status_code, out.json()) == (200, {"allow_user_memory": False})
    assert await reasons() == [ReasonCode.USER_OPTED_OUT]
    skipped = await a.http.post("/v1/turns", json=a_turn("t1"), headers=me)
    assert (skipped.status_code, skipped.json()["reasons"]) == (200, ["user_opted_out"])
    for wrong in ({"allow_user_memory": "yes"}, {"allow_user_memory": 1}, {}, {"allow_user_memory": True, "x": 1}, None):
        assert (await a.http.put("/v1/preference", json=wrong, headers=me)).status_code == 422, wrong
    await a.http.put("/v1/preference", json={"allow_user_memory": True}, headers=me)
    assert await reasons() == []

    settings = (await a.http.get("/v1/settings", headers=me)).json()
    assert (settings["max_tokens"], settings["show_update_notice"], settings["context_memory"]) == (2000, True, True)
    await a.stack.parts.directory.save_space(
        scope.tenant, "sales/ü", SpaceSettings(context_memory=False, max_tokens=500, show_update_notice=False)
    )
    settings = (await a.http.get("/v1/settings", params={"space": "sales/ü"}, headers=me)).json()
    assert (settings["max_tokens"], settings["show_update_notice"], settings["context_memory"]) == (500, False, False)
    assert "root_folder" not in settings
    assert await reasons(space="sales/ü") == [ReasonCode.SPACE_OFF]
    loaded = await a.http.get("/v1/memory", params={"space": "sales/ü", "allow_user_memory": True}, headers=me)
    assert loaded.json()["reasons"] == ["space_off"]

    await a.stack.memory.set_teams(scope, ["sales", "all hands"])
    assert (await a.http.get("/v1/teams", headers=me)).json() == {"items": ["all hands", "sales"]}
    account = (await a.http.get("/v1/account", headers=me)).json()
    assert account["user"] == scope.user_id


async def test_events_are_recorded_once_and_found(a: Api) -> None:
    scope = a.stack.user()
    me = as_person(scope)
    events = [
        {
            "timestamp": f"2026-06-17T12:0{number}:00+02:00",
            "sender_id": "ada@example.com",
            "receiver_ids": ["user"],
            "medium": "email",
            "content": f"The offer for Globex, part {number}.",
        }
        for number in range(3)
    ]
    call = {
        "timestamp": "2026-06-17T12:05:00Z",
        "manager": "TaskManager",
        "method": "create",
        "phase": "incoming",
        "calling_id": "c1",
        "payload": {"name": "Send the offer", "deep": [[{"a": None}]]},
    }
    body = {"events": [*events, call], "allow_user_memory": True}
    answers = [await a.http.post("/v1/events", json=body, headers=me) for _ in range(2)]
    assert [one.status_code for one in answers] == [202, 200], answers[0].text
    assert [(one.json()["recorded"], one.json()["duplicates"]) for one in answers] == [(4, 0), (0, 4)]
    assert answers[1].json()["waiting"] == 4
    unasked = await a.http.post("/v1/events", json={"events": events}, headers=me)
    assert (unasked.status_code, unasked.json()["status"]) == (200, "skipped")

    where = (await a.http.get("/v1/windows/status", headers=me)).json()
    assert where["progress"]["last_seq"] == 4
    assert where["running"] is False

    search = {"query": "offer for Globex", "contacts": ["ada@example.com"], "media": ["email"], "limit": 2}
    found = await a.http.post("/v1/events/search", json=search, headers=me)
    assert found.status_code == 200, found.text
    hits = found.json()["items"]
    assert len(hits) == 2
    assert all("Globex" in hit["event"]["content"] for hit in hits)
    assert {hit["event"]["receiver_ids"][0] for hit in hits} == {"user"}
    narrow = {**search, "media": ["chat"]}
    assert (await a.http.post("/v1/events/search", json=narrow, headers=me)).json() == {"items": []}
    flushed = await a.http.post("/v1/windows/flush", json={}, headers=me)
    assert (flushed.status_code, flushed.json()["waiting"]) == (200, 4)

    said = {"content": "First open the form, then fill in the date, finally press send."}
    routed = (await a.http.post("/v1/route", json=said, headers=me)).json()
    assert routed["store"] == "guidance"


async def test_odd_input_is_refused_and_never_breaks_anything(a: Api) -> None:
    scope = a.stack.user()
    me = as_person(scope)
    json_headers = {**me, "Content-Type": "application/json"}

    async def answer(method: str, path: str, **options: Any) -> tuple[int, str]:
        got = await a.http.request(method, path, **{"headers": me, **options})
        assert got.status_code < 500, (method, path, got.text)
        if got.status_code >= 400:
            assert got.headers["content-type"] == "application/problem+json", (path, got.text)
        return got.status_code, got.text

    # Bodies that are no JSON, or not what is asked for.
    for content in (
        b"",
        b"{",
        b"\xff\xfe{}",
        b'{"turn_id": NaN}',
        b'{"turn_id": "t", "web_search": Infinity}',
        b"[" * 200_000,
        b'{"turn_id": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"turn_id": ' + b"9" * 5_000 + b"}",
        b"null",
        b'"text"',
        b'{"turn_id": "t", "allow_user_memory": "true"}',
        b'{"turn_id": "t", "unknown": 1}',
        b'{"turn_id": ""}',
        b'{"turn_id": "t", "occurred_at": "yesterday"}',
        b'{"turn_id": "t", "occurred_at": "2026-06-17T12:00:00"}',
        b'{"turn_id": "t", "occurred_at": "0001-01-01T00:00:00+14:00"}',
        b'{"turn_id": "t", "occurred_at": "9999-12-31T23:59:59-14:00"}',
        b'{"turn_id": "t", "occurred_at": 1e308}',
        b'{"turn_id": "' + b"x" * 5_000 + b'"}',
        b'{"\\ud800": 1, "turn_id": "\\ud800"}',
    ):
        status, text = await answer("POST", "/v1/turns", content=content, headers=json_headers)
        assert status in (400, 422), (content[:40], text)
        assert "9" * 50 not in text
    assert (await answer("POST", "/v1/turns", content=b"{}", headers={**me, "Content-Type": "text/plain"}))[0] == 415
    assert (await answer("POST", "/v1/turns", content=b"{}"))[0] == 415
    long = "x" * (1024 * 1024 + 1)
    assert (await answer("POST", "/v1/turns", json=a_turn("long", long)))[0] == 413

    # Text that no store takes is cleaned; ids may be anything.
    odd = "a\x00b \ud83d c"
    for turn in (a_turn("nul\x00id", odd, conversation_id="\x00/..", space_id="\x00"), a_turn("😀" * 1_000, None)):
        content = json.dumps(turn).encode()
        assert (await answer("POST", "/v1/turns", content=content, headers=json_headers))[0] == 202
    listed = (await a.http.get("/v1/turns", headers=me)).json()["items"]
    assert [turn["turn_id"] for turn in listed] == ["😀" * 1_000, "nul\x00id"]
    event = {
        "timestamp": "2026-06-17T12:00:00Z",
        "sender_id": "\x00<script>",
        "content": odd,
        "event_id": "e\x00",
    }
    call = {
        "timestamp": "2026-06-17T12:00:00Z",
        "manager": "M",
        "method": "m",
        "phase": "outgoing",
        "calling_id": "\x00",
        "payload": {"\x00\ud800": [odd, 10**30, 1e308, None]},
    }
    content = json.dumps({"events": [event, call], "allow_user_memory": True}).encode()
    assert (await answer("POST", "/v1/events", content=content, headers=json_headers))[0] == 202
    many = {**event, "content": "x"}
    for wrong in (
        *[[one] for one in ({**many, "kind": "other"}, {**call, "phase": "x"}, {**many, "timestamp": None}, 1, None, [])],
        [],
        [many] * 1_001,
    ):
        content = json.dumps({"events": wrong, "allow_user_memory": True}).encode()
        assert (await answer("POST", "/v1/events", content=content, headers=json_headers))[0] == 422

    # Addresses.
    for path in (
        "/v1/memory?space=%ff",
        "/v1/memory?space=%zz",
        "/v1/memory?space=%",
        "/v1/facts/%c3%28",
        "/v1/memory?space=",
        "/v1/memory?space=" + "x" * 5_000,
        "/v1/memory?allow_user_memory=perhaps",
        "/v1/memory?language_model=" + "x" * 300,
        "/v1/facts?limit=0",
        "/v1/facts?limit=501",
        "/v1/facts?limit=" + "9" * 400,
        "/v1/facts?cursor=x",
        "/v1/facts?cursor=" + "W10" * 400,
        "/v1/facts?cursor=bnVsbA",
        "/v1/facts?as_of=0001-01-01T00:00:00%2B14:00",
        "/v1/facts?kinds=nonsense",
        "/v1/facts/%00",
        "/v1/facts/..%2f..%2f",
        "/v1/contacts/" + "9" * 40,
        "/v1/contacts/-1",
        "/v1/contacts/one",
        "/v1/windows/%00",
        "/v1/usage?since=0000-00-00",
        "/v1/status?wait_s=nan",
        "/v1/status?wait_s=1e9",
        "/v1/turns?cursor=WyJ0dXJucyIsLTFd",
    ):
        assert (await answer("GET", path))[0] in (400, 404, 422), path
    for path in ("/v1/memory?space=%00", "/v1/enablement?space=%00&web_search=true", "/v1/settings?space=..%2F"):
        assert (await answer("GET", path))[0] == 200, path
    for key in ("", "x" * 300):
        keyed = {**me, "Idempotency-Key": key}
        assert (await answer("POST", "/v1/facts", json={"facts": [{"statement": "x"}]}, headers=keyed))[0] == 422
    # Nobody else's user, and no user at all.
    assert (await answer("GET", "/v1/memory", headers={**me, "Afterturn-User": "bob"}))[0] == 403
    assert (await answer("GET", "/v1/memory", headers={**as_service("acme"), "Afterturn-User": "%ff"}))[0] == 400
    assert (await answer("GET", "/v1/memory", headers=as_service("acme")))[0] == 400
