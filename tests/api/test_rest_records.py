"""Facts, contacts, tasks, guidance, functions and windows over HTTP: list, search, add, correct, forget."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import AddFact
from tests.support.api import Api, as_person, as_service
from tests.support.records import NOW, add, create_task, said

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def a(rest: Api) -> Api:
    return rest


async def walk(a: Api, path: str, scope: Scope, key: str, **query: Any) -> AsyncIterator[str]:
    """Ids of all items of a list, page by page."""
    cursor: str | None = None
    while True:
        params = {"limit": 3, **query, **({} if cursor is None else {"cursor": cursor})}
        answer = await a.http.get(path, params=params, headers=as_person(scope))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        for item in page["items"]:
            yield str(item[key])
        cursor = page["next"]
        if cursor is None:
            return
        assert len(page["items"]) == 3


async def test_facts(a: Api) -> None:
    scope, other = a.stack.user(), a.stack.user()
    me = as_person(scope)

    added = await a.http.post(
        "/v1/facts",
        json={
            "facts": [
                {"statement": "Globex pays within 30 days.", "subject": "Globex", "kind": "policy", "topics": ["invoices"]},
                {"statement": "The password is password: hunter2-Xy77-abc", "subject": "Vault"},
            ]
        },
        headers={**me, "Idempotency-Key": "call-1"},
    )
    assert added.status_code == 200, added.text
    first, secret = (one["fact"] for one in added.json()["items"])
    assert (first["subject"], first["kind"], first["team"], first["sources"]) == ("Globex", "policy", None, None)
    assert "hunter2" not in added.text
    again = await a.http.post(
        "/v1/facts",
        json={"facts": [{"statement": "Globex pays within 30 days.", "subject": "Globex", "kind": "policy"}]},
        headers=me,
    )
    assert [one["did"] for one in again.json()["items"]] == ["confirmed"]

    # Correct: the old one ends, and stays in the history. The same call again is the same call.
    correction = {"facts": [{"statement": "Globex pays within 14 days.", "subject": "Globex", "supersedes": [first["fact_id"]]}]}
    calls = [
        (await a.http.post("/v1/facts", json=correction, headers={**me, "Idempotency-Key": "call-2"})).json() for _ in range(2)
    ]
    assert calls[0]["items"][0]["did"] == "superseded"
    assert calls[0]["items"][0]["superseded"] == [first["fact_id"]]
    assert calls[0] == calls[1]
    # The same key for something else is something else.
    more = {"facts": [{"statement": "Initech pays at once.", "subject": "Initech"}]}
    told = await a.http.post("/v1/facts", json=more, headers={**me, "Idempotency-Key": "call-2"})
    assert told.json()["items"][0]["did"] == "added"
    shown = (await a.http.get(f"/v1/facts/{first['fact_id']}", headers=me)).json()
    assert [one["status"] for one in shown["history"]] == ["superseded", "active"]
    assert shown["fact"]["sources"][0]["origin"] == "manual"

    found = (await a.http.post("/v1/facts/search", json={"query": "When does Globex pay?", "sources": True}, headers=me)).json()
    assert found["items"][0]["fact"]["statement"] == "Globex pays within 14 days."
    assert found["items"][0]["fact"]["sources"]
    listed = (await a.http.get("/v1/facts", headers=me)).json()
    assert {fact["subject"] for fact in listed["items"]} == {"Globex", "Vault", "Initech"}
    ended = (await a.http.get("/v1/facts", params={"statuses": "superseded"}, headers=me)).json()
    assert [fact["fact_id"] for fact in ended["items"]] == [first["fact_id"]]
    of_subject = (await a.http.post("/v1/facts/filter", json={"subject": "globex"}, headers=me)).json()
    assert [fact["statement"] for fact in of_subject["items"]] == ["Globex pays within 14 days."]
    of_kind = (await a.http.get("/v1/facts", params=[("kinds", "policy"), ("statuses", "superseded")], headers=me)).json()
    assert len(of_kind["items"]) == 1

    # Nobody else sees or forgets them.
    theirs = as_person(other)
    assert (await a.http.get("/v1/facts", headers=theirs)).json() == {"items": [], "next": None}
    assert (await a.http.get(f"/v1/facts/{first['fact_id']}", headers=theirs)).status_code == 404
    assert (await a.http.delete(f"/v1/facts/{first['fact_id']}", headers=theirs)).json() == {"forgotten": 0}

    # A team's facts, for those in it.
    for_team = {"facts": [{"statement": "Sales meets on Mondays."}], "team": "sales"}
    assert (await a.http.post("/v1/facts", json=for_team, headers=me)).status_code == 403
    await a.stack.memory.set_teams(scope, ["sales"])
    team_fact = (await a.http.post("/v1/facts", json=for_team, headers=me)).json()["items"][0]["fact"]
    assert team_fact["team"] == "sales"
    own = await a.http.delete(f"/v1/facts/{team_fact['fact_id']}", headers=me)
    assert own.json() == {"forgotten": 0}
    gone = await a.http.delete(f"/v1/facts/{team_fact['fact_id']}", params={"team": "sales"}, headers=me)
    assert gone.json() == {"forgotten": 1}

    # Forget one, forget several, walk while forgetting.
    assert [(await a.http.delete(f"/v1/facts/{secret['fact_id']}", headers=me)).json()["forgotten"] for _ in range(2)] == [1, 0]
    changes: list[AddFact] = [
        add(f"n{n:02}", owner=Owner.user(other), statement=f"Number {n}.", created_at=NOW + timedelta(hours=n // 4))
        for n in range(10)
    ]
    await a.stack.parts.stores.facts.apply(Owner.user(other), changes, now=NOW)
    seen: list[str] = []
    async for fact_id in walk(a, "/v1/facts", other, "fact_id"):
        seen.append(fact_id)
        if len(seen) in (3, 6):
            some = {"ids": [fact_id, "unknown"]}
            assert (await a.http.post("/v1/facts/forget", json=some, headers=theirs)).json() == {"forgotten": 1}
    assert seen == [f"n{n:02}" for n in range(9, -1, -1)]
    assert len([one async for one in walk(a, "/v1/facts", other, "fact_id")]) == 8
    foreign = (await a.http.get("/v1/facts", params={"limit": 3}, headers=theirs)).json()["next"]
    assert (await a.http.get("/v1/tasks", params={"cursor": foreign}, headers=theirs)).status_code == 400
    wrong = {"facts": [{"statement": "x", "valid_from": "2026-01-02T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"}]}
    assert (await a.http.post("/v1/facts", json=wrong, headers=me)).status_code == 400


async def test_contacts_and_tasks(a: Api) -> None:
    scope, other = a.stack.user(), a.stack.user()
    me, theirs = as_person(scope), as_person(other)
    assert (await a.http.get("/v1/contacts", headers=me)).status_code == 200

    ada = {"first_name": "Ada", "email_address": "ada@example.com", "bio": "Handles invoices.", "aliases": ["slack:U1"]}
    made = [await a.http.post("/v1/contacts", json=ada, headers={**me, "Idempotency-Key": "c1"}) for _ in range(2)]
    assert [one.status_code for one in made] == [200, 200], made[0].text
    contact = made[0].json()
    assert made[1].json()["contact_id"] == contact["contact_id"]
    assert contact["aliases"] == ["slack:U1"]
    grace = (await a.http.post("/v1/contacts", json={"first_name": "Grace", "timezone": "UTC"}, headers=me)).json()
    where = f"/v1/contacts/{contact['contact_id']}"

    assert (await a.http.get(where, headers=me)).json()["bio"] == "Handles invoices."
    assert (await a.http.get(where, headers=theirs)).status_code == 404
    filtered = (await a.http.post("/v1/contacts/filter", json={"where": {"first_name": "Ada"}}, headers=me)).json()
    assert [one["contact_id"] for one in filtered["items"]] == [contact["contact_id"]]
    no_email = {"where": {"email_address": None, "first_name": "Grace"}}
    assert len((await a.http.post("/v1/contacts/filter", json=no_email, headers=me)).json()["items"]) == 1
    for query in ("ada@example.com", "who handles invoices?", "slack:U1"):
        found = (await a.http.post("/v1/contacts/search", json={"query": query}, headers=me)).json()
        assert found["items"][0]["contact"]["contact_id"] == contact["contact_id"], query

    changed = await a.http.patch(where, json={"job_title": "CFO", "bio": None}, headers=me)
    assert (changed.status_code, changed.json()["job_title"], changed.json()["bio"]) == (200, "CFO", None)
    assert changed.json()["first_name"] == "Ada"
    for wrong in ({}, {"timezone": "Mars/Base"}, {"email_address": "no address"}):
        assert (await a.http.patch(where, json=wrong, headers=me)).status_code == 400, wrong
    assert (await a.http.patch(where, json={"contact_id": 7}, headers=me)).status_code == 422
    assert (await a.http.patch("/v1/contacts/999", json={"bio": "x"}, headers=me)).status_code == 404
    merged = await a.http.post(f"{where}/merge", json={"drop": grace["contact_id"]}, headers=me)
    assert (merged.status_code, merged.json()["timezone"]) == (200, "UTC")
    as_it_is = await a.http.get(f"/v1/contacts/{grace['contact_id']}", headers=me)
    assert as_it_is.json()["contact_id"] == contact["contact_id"]
    assert (await a.http.post(f"{where}/merge", json={"drop": 1}, headers=me)).status_code == 400
    history = (await a.http.get(f"{where}/history", headers=me)).json()["items"]
    assert {"job_title", "bio", "first_name"} <= {change["field"] for change in history}

    # Tasks.
    changes = [
        create_task(
            f"t{n}",
            statement_key(f"Task {n}"),
            name=f"Task {n}",
            created_at=NOW + timedelta(hours=n // 3),
            sources=(said(f"quote {n}"),),
        )
        for n in range(8)
    ]
    await a.stack.parts.stores.tasks.apply(scope, changes, now=NOW)
    assert [one async for one in walk(a, "/v1/tasks", scope, "task_id")] == [f"t{n}" for n in range(7, -1, -1)]
    task = (await a.http.get("/v1/tasks/t3", headers=me)).json()
    assert (task["name"], task["sources"][0]["quote"]) == ("Task 3", "quote 3")
    edit = {"status": "done", "deadline": "2026-07-01T12:00:00+02:00", "tags": ["home"], "contact_id": contact["contact_id"]}
    edited = await a.http.patch("/v1/tasks/t3", json=edit, headers=me)
    assert edited.status_code == 200, edited.text
    assert (edited.json()["status"], edited.json()["tags"]) == ("done", ["home"])
    assert edited.json()["deadline"] == "2026-07-01T10:00:00Z"
    due = (await a.http.get("/v1/tasks", params={"due_before": "2026-07-02T00:00:00Z", "statuses": "done"}, headers=me)).json()
    assert [one["task_id"] for one in due["items"]] == ["t3"]
    linked = (await a.http.get("/v1/tasks", params={"contact_id": contact["contact_id"]}, headers=me)).json()
    assert [one["task_id"] for one in linked["items"]] == ["t3"]
    assert (await a.http.patch("/v1/tasks/t4", json={"name": "Task 5"}, headers=me)).status_code == 400
    assert (await a.http.patch("/v1/tasks/t4", json={"schedule": "whenever"}, headers=me)).status_code == 400
    assert (await a.http.patch("/v1/tasks/t4", json={"contact_id": 2**53 - 1}, headers=me)).status_code == 400
    assert (await a.http.patch("/v1/tasks/t4", json={"status": "maybe"}, headers=me)).status_code == 422
    assert (await a.http.patch("/v1/tasks/nothing", json={"status": "done"}, headers=me)).status_code == 404
    assert (await a.http.get("/v1/tasks/t3", headers=theirs)).status_code == 404
    assert (await a.http.delete("/v1/tasks/t3", headers=theirs)).json() == {"forgotten": 0}
    assert (await a.http.delete("/v1/tasks/t3", headers=me)).json() == {"forgotten": 1}
    assert (await a.http.post("/v1/tasks/forget", json={"ids": ["t3", "t4"]}, headers=me)).json() == {"forgotten": 1}
    assert (await a.http.get("/v1/tasks/t3", headers=me)).status_code == 404

    # One search over all of it.
    everything = (await a.http.post("/v1/search", json={"query": "CFO"}, headers=me)).json()
    assert [item["kind"] for item in everything["items"] if item["by_words"]] == ["contact"]
    assert everything["unavailable"] == {}

    assert (await a.http.delete(where, headers=theirs)).json() == {"forgotten": 0}
    assert (await a.http.delete(where, headers=me)).json() == {"forgotten": 1}
    assert (await a.http.get(where, headers=me)).status_code == 404
    assert (await a.http.delete("/v1/contacts/1", headers=me)).status_code == 400
    assert (await a.http.post("/v1/contacts/forget", json={"ids": [77]}, headers=me)).json() == {"forgotten": 0}
    for n in range(4):
        await a.http.post("/v1/contacts", json={"first_name": f"Bo{n}"}, headers=theirs)
    ids = [one async for one in walk(a, "/v1/contacts", other, "contact_id")]
    assert len(ids) == len(set(ids)) == 6

    # Read-only tokens read.
    reader = as_service("acme", scope.user_id, permissions=["read"])
    assert (await a.http.get("/v1/tasks", headers=reader)).status_code == 200
    assert (await a.http.delete("/v1/tasks/t1", headers=reader)).status_code == 403


async def test_library_and_windows(a: Api) -> None:
    scope, other = a.stack.user(), a.stack.user()
    me, theirs = as_person(scope), as_person(other)
    entry = {"title": "Book a room", "content": "First open the calendar, then choose a room.", "tags": ["office"]}
    made = [(await a.http.post("/v1/guidance", json=entry, headers=me)).json() for _ in range(2)]
    assert made[0]["guidance_id"] == made[1]["guidance_id"]
    code = {"name": "net_price", "docstring": "The price without VAT.", "source": "def net_price(g):\n    return g / 1.19\n"}
    function = (await a.http.post("/v1/functions", json=code, headers=me)).json()
    assert function["source"] == code["source"]
    assert (await a.http.post("/v1/functions", json={**code, "name": "1 x"}, headers=me)).status_code == 422
    assert (await a.http.post("/v1/functions", json={**code, "source": "\x00 "}, headers=me)).status_code == 400
    for kind, one, name in (("guidance", made[0], "guidance_id"), ("functions", function, "function_id")):
        where = f"/v1/{kind}/{one[name]}"
        assert [item[name] for item in (await a.http.get(f"/v1/{kind}", headers=me)).json()["items"]] == [one[name]]
        assert (await a.http.get(where, headers=me)).json() == one
        assert (await a.http.get(where, headers=theirs)).status_code == 404
        found = await a.http.post(f"/v1/{kind}/search", json={"query": "room or price"}, headers=me)
        assert len(found.json()["items"]) == 1
        assert (await a.http.delete(where, headers=theirs)).json() == {"forgotten": 0}
        assert [(await a.http.delete(where, headers=me)).json()["forgotten"] for _ in range(2)] == [1, 0]

    # A transcript, and the same again.
    chunk = {"transcript": "Ada: Please send me the offer by Friday.\nuser: I will send it.", "wait_s": 30}
    keyed = {**me, "Idempotency-Key": "chunk-1"}
    ended = [await a.http.post("/v1/windows/update_tasks", json=chunk, headers=keyed) for _ in range(2)]
    assert [one.status_code for one in ended] == [200, 200], ended[0].text
    assert ended[0].json() == ended[1].json()
    assert (ended[0].json()["kind"], ended[0].json()["categories"]) == ("chunk", ["tasks"])
    other_chunk = await a.http.post("/v1/windows/update_knowledge", json=chunk, headers=keyed)
    assert other_chunk.json()["window_id"] != ended[0].json()["window_id"]
    events = [{"timestamp": "2026-06-17T12:00:00Z", "sender_id": "ada@example.com", "content": "I am Ada."}]
    people = await a.http.post("/v1/windows/update_contacts", json={"transcript": events, "wait_s": 30}, headers=me)
    assert people.json()["state"] == "done", people.text
    everything = {"transcript": "Ada: hi", "categories": ["knowledge", "tasks"], "wait_s": 0}
    began = await a.http.post("/v1/windows/process_chunk", json=everything, headers=me)
    assert began.status_code in (200, 202)
    for wrong in (
        {"transcript": ""},
        {"transcript": []},
        {"transcript": "x", "categories": ["x"]},
        {"transcript": "x", "wait_s": 61},
    ):
        assert (await a.http.post("/v1/windows/process_chunk", json=wrong, headers=me)).status_code == 422, wrong

    # What a window held and gave.
    said_now = {"events": [{**event, "receiver_ids": ["user"]} for event in events], "allow_user_memory": True}
    assert (await a.http.post("/v1/events", json=said_now, headers=me)).status_code == 202
    flushed = await a.http.post("/v1/windows/flush", json={"wait_s": 30}, headers=me)
    assert (flushed.json()["waiting"], flushed.json()["last_seq"]) == (0, 1)
    window = (await a.http.get("/v1/windows/w1", headers=me)).json()
    assert window["state"] == "done"
    assert [event["content"] for event in window["events"]] == ["I am Ada."]
    assert "I am Ada." in window["transcript"]
    assert (await a.http.get("/v1/windows/w1", headers=theirs)).status_code == 404
    ids = [one async for one in walk(a, "/v1/windows", scope, "window_id")]
    assert len(ids) == len(set(ids)) == 5
    assert ids[0] == "w1"
    again = await a.http.post("/v1/windows/rerun", json={"window_ids": ["w1"]}, headers=me)
    assert again.status_code == 200, again.text
    assert [one["window_id"] for one in again.json()["windows"] + again.json()["left"]] == ["w1"]
    assert (await a.http.post("/v1/windows/rerun", json={"window_ids": ["w9"]}, headers=me)).status_code == 400
    assert (await a.http.post("/v1/windows/rerun", json={}, headers=me)).status_code == 200
    assert await a.stack.memory.windows.wait_until_idle(scope, timeout_s=30)
