"""Administration over HTTP: settings of spaces, roots, usage, what failed, tokens; and that no memory is in any of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities import Collaborators
from api.routing import cursor_of
from memory.model.category import Category
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.model.window import CategoryOutcome, WindowState
from memory.ports import TurnResult, Usage, WindowResult
from memory.ports.service import Process
from memory.settings import load_settings
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server, TemporalServer
from starter.payloads import IN_CLEAR
from tests.support.api import Api, as_admin, as_person, as_service, served_api
from tests.support.engines import unique_bucket_prefix
from tests.support.stack import GENEROUS, running_stack

CANARY = "the canary sings in Reykjavik"
NOW = datetime.now(UTC).replace(microsecond=0)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Admin:
    """An administrator of a company that no other test has."""

    api: Api
    tenant: str

    @property
    def headers(self) -> dict[str, str]:
        return as_admin(self.tenant)

    @property
    def parts(self) -> Collaborators:
        return self.api.stack.parts

    def user(self, name: str) -> Scope:
        return Scope.of(self.tenant, name)

    async def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any) -> Any:
        sent = {**self.headers, **(headers or {})}
        return await self.api.http.request(method, f"/v1/admin/{path}", headers=sent, **options)

    async def get(self, path: str, **params: Any) -> Any:
        answer = await self.ask("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def pages(self, path: str, **params: Any) -> list[list[Any]]:
        """All items, page by page."""
        seen: list[list[Any]] = []
        cursor: dict[str, str] = {}
        while True:
            some = await self.get(path, **params, **cursor)
            seen.append(some["items"])
            if some["next"] is None:
                return seen
            cursor = {"cursor": some["next"]}

    async def save(self, space: str, body: dict[str, Any], etag: str | None, *, method: str = "PUT") -> Any:
        condition = {"If-None-Match": "*"} if etag is None else {"If-Match": f'"{etag}"'}
        return await self.ask(method, f"spaces/{quote(space, safe='')}", headers=condition, json=body)

    async def kept_turn(self, user: str, turn_id: str, *, space: str = "default", at: datetime = NOW) -> None:
        scope = self.user(user)
        turn = Turn(
            turn_id=turn_id, user_text=CANARY, assistant_text=CANARY, occurred_at=at, space_id=space, allow_user_memory=True
        )
        await self.parts.log.record_turn(scope, turn, now=at)
        used = {"consolidate": {"input_tokens": 40, "output_tokens": 2, "cached_input_tokens": 0, "calls": 1}}
        flags = ("gate_failed",)
        result = TurnResult(turn_id, 0, Outcome.KEPT, "model_unavailable", None, "run-1", "", flags, used, {}, "m")
        await self.parts.log.finish(scope, [result], now=at)

    async def failed_window(self, user: str, name: str, *, at: datetime = NOW) -> str:
        scope, event = self.user(user), MessageEvent(timestamp=at, sender_id="user", content=CANARY)
        window = await self.parts.ledger.open_chunk(
            scope, [event], chunk_id=f"chunk-{name}", categories=[Category.TASKS], guidance=CANARY, model=None, now=at
        )
        outcomes = (CategoryOutcome(category=Category.TASKS, state="failed", reason="malformed output"),)
        result = WindowResult(WindowState.PARTIAL, reason=None, outcomes=outcomes, run_id="run-2", workflow_id="")
        await self.parts.ledger.commit(scope, window.window_id, 0, result, now=at)
        return window.window_id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    s3_server: S3Server, temporal_server: TemporalServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    given = {"embedder": "none", "temporal_ui_url": "http://ui.test:8233/", "memory_tasks": True, **GENEROUS, **s3_server.settings}
    settings = load_settings({}, data_dir=tmp_path_factory.mktemp("admin"), bucket_prefix=unique_bucket_prefix(), **given)
    client = await Client.connect(temporal_server.address, data_converter=IN_CLEAR)
    async with running_stack(client, settings, workers=False) as stack, served_api(stack) as running:
        yield running


@pytest.fixture
def a(served: Api) -> Admin:
    return Admin(served, f"acme-{uuid.uuid4().hex[:8]}")


def other_company(a: Admin) -> Admin:
    return Admin(a.api, f"not-{a.tenant}")


async def test_the_overview_says_who_changes_what_and_where_processes_differ(a: Admin) -> None:
    processes = a.parts.processes
    flags = {"feature_flag": [a.tenant, "a secret customer"], "allow_with_web_search": False}
    await processes.seen(Process("worker@one", "worker", "1.0", NOW, datetime.now(UTC), flags))
    await processes.seen(Process("api@two", "api", "1.0", NOW, datetime.now(UTC), {**flags, "feature_flag": ["a secret customer"]}))
    await processes.seen(Process("api@gone", "api", "0.9", NOW, datetime.now(UTC) - timedelta(hours=1), {"feature_flag": False}))
    answer = await a.ask("GET", "overview")
    told = answer.json()
    assert told["feature_flag"]["on"] is True
    assert told["feature_flag"]["setting"] == "FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033"
    assert "operator" in told["feature_flag"]["changed_by"]
    assert told["feature_flag"]["rule"] == "everyone"
    assert told["allow_with_web_search"]["on"] is False
    assert told["categories"]["tasks"] is True
    assert told["space_defaults"]["max_tokens"] == 2000
    assert told["clash"] is None
    assert [one["process_id"] for one in told["processes"]] == ["api@two", "worker@one"]
    (difference,) = told["differences"]
    assert difference["flag"] == "feature_flag"
    assert difference["setting"] == told["feature_flag"]["setting"]
    values = {one["processes"][0]: one["value"] for one in difference["values"]}
    assert values == {"api@two": False, "worker@one": True}
    # Which other companies there are is not told.
    assert "secret customer" not in answer.text


async def test_a_company_that_is_not_on_the_list_is_told_so(a: Admin) -> None:
    settings = a.api.stack.settings.model_copy(update={"feature_flag": frozenset({"globex"})})
    async with (
        running_stack(a.api.stack.client, settings, workers=False) as stack,
        served_api(stack) as other,
    ):
        a, listed = Admin(other, a.tenant), Admin(other, "globex")
        told = await a.get("overview")
        assert (told["feature_flag"]["on"], told["feature_flag"]["rule"]) == (False, "not_listed")
        assert "globex" not in str(told)
        state = (await a.ask("POST", "enablement", json={})).json()
        assert [one["code"] for one in state["reasons"]] == ["feature_flag_off"]
        assert "operator" in state["reasons"][0]["remedy"]
        assert (await listed.get("overview"))["feature_flag"]["rule"] == "listed"


class TestSpaces:
    async def test_settings_are_stored_as_given_and_the_rest_follows_the_defaults(self, a: Admin) -> None:
        nothing = await a.get("spaces/sales")
        assert (nothing["stored"], nothing["etag"]) == ({}, None)
        assert nothing["effective"]["max_tokens"] == 2000
        assert nothing["effective"]["context_memory"] is True
        assert nothing["effective"]["memory_categories"]["tasks"] is True
        assert nothing["enablement"] == {"active": True, "reasons": []}
        assert (await a.get("roots"))["items"] == []

        body = {"max_tokens": 900, "web_search": True, "memory_categories": {"tasks": False}, "privacy_scrub": None}
        saved = await a.save("sales", body, None)
        assert saved.status_code == 200, saved.text
        told = saved.json()
        assert saved.headers["etag"] == f'"{told["etag"]}"'
        assert told["stored"] == {"max_tokens": 900, "web_search": True, "memory_categories": {"tasks": False}}
        assert told["effective"]["memory_categories"] == {**nothing["effective"]["memory_categories"], "tasks": False}
        assert [one["code"] for one in told["enablement"]["reasons"]] == ["web_search_on"]
        assert "ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591" in told["enablement"]["reasons"][0]["remedy"]
        # Saving has made the root, once.
        assert (await a.get("roots"))["items"] == [{"folder": "user-memory", "active": True, "has_profiles": False}]

        changed = await a.save(
            "sales", {"web_search": None, "memory_categories": {"bios": False, "tasks": None}}, told["etag"], method="PATCH"
        )
        assert changed.json()["stored"] == {"max_tokens": 900, "memory_categories": {"bios": False}}
        assert changed.json()["enablement"]["active"] is True
        assert (await a.save("sales", {}, changed.json()["etag"])).json()["stored"] == {}

    async def test_two_administrators_do_not_overwrite_each_other(self, a: Admin) -> None:
        first = (await a.save("sales", {"max_tokens": 900}, None)).json()
        for etag in (None, "0" * 16):
            conflict = await a.save("sales", {"max_tokens": 1000}, etag)
            assert conflict.status_code == 412
            told = conflict.json()
            assert told["type"] == "/problems/conflict"
            assert (told["yours"], told["theirs"], told["etag"]) == ({"max_tokens": 1000}, {"max_tokens": 900}, first["etag"])
        assert (await a.save("sales", {"max_tokens": 1000}, first["etag"])).status_code == 200
        assert (await a.ask("PUT", "spaces/sales", json={})).status_code == 428
        for bad in ({"If-Match": "sales"}, {"If-None-Match": '"x"'}, {"If-Match": f'"{"0" * 16}"', "If-None-Match": "*"}):
            assert (await a.ask("PUT", "spaces/sales", headers=bad, json={})).status_code == 400
        answers = await asyncio.gather(*(a.save("race", {"max_tokens": 500 + n}, None) for n in range(6)))
        assert sorted(one.status_code for one in answers) == [200] + [412] * 5

    async def test_each_field_is_checked_and_nothing_is_stored(self, a: Admin) -> None:
        wrong = {
            "max_tokens": 9,
            "consolidation_mode": "wild",
            "language_model": "nobody:x",
            "memory_categories": {"dreams": True},
            "mood": 1,
        }
        answer = await a.save("sales", wrong, None)
        assert answer.status_code == 422
        fields = {one["where"][1]: one["what"] for one in answer.json()["errors"]}
        assert set(fields) == set(wrong)
        assert "500" in fields["max_tokens"]
        assert "openai" in fields["language_model"]
        assert (await a.get("spaces"))["items"] == []

    async def test_spaces_in_pages_and_with_awkward_names(self, a: Admin) -> None:
        names = ["plain", "a/b", "a/enablement", "💥", "50%", "x" * 500, "with space", ".hidden", "/"]
        for name in names:
            assert (await a.save(name, {"max_tokens": 700}, None)).status_code == 200, name
            assert (await a.get(f"spaces/{quote(name, safe='')}"))["space_id"] == name
        pages = await a.pages("spaces", limit=2)
        assert {len(page) for page in pages} == {1, 2}
        seen = [one["space_id"] for page in pages for one in page]
        assert sorted(seen) == sorted(names)
        assert (await other_company(a).get("spaces"))["items"] == []
        assert (await a.ask("GET", "spaces", params={"cursor": "no"})).status_code == 400

    async def test_every_reason_for_a_user(self, a: Admin) -> None:
        user = a.user("maria")
        await a.save("sales", {"context_memory": False, "web_search": True}, None)
        await a.parts.directory.set_preference(user, allow_user_memory=False)
        await a.parts.directory.provision_root(a.tenant, "second")
        body = {"space_id": "sales", "user": user.user_id, "allow_user_memory": False}
        answer = await a.ask("POST", "enablement", json=body)
        assert [one["code"] for one in answer.json()["reasons"]] == [
            "space_off",
            "web_search_on",
            "user_opted_out",
            "caller_not_allowed",
            "root_clash",
        ]
        no_search = {"space_id": "sales", "web_search": False}
        told = (await a.ask("POST", "enablement", json=no_search)).json()
        assert [one["code"] for one in told["reasons"]] == ["space_off", "root_clash"]


async def test_roots_clash_and_are_put_in_order(a: Admin) -> None:
    made = await a.ask("POST", "roots", json={})
    assert made.json()["items"] == [{"folder": "user-memory", "active": True, "has_profiles": False}]
    assert (await a.ask("POST", "roots", json={})).status_code == 200
    second = await a.ask("POST", "roots", json={"folder": "second"})
    assert second.status_code == 409
    assert second.json()["type"] == "/problems/root-clash"

    await a.parts.profiles.prepare(a.tenant)
    store = MinioObjectStore.from_settings(a.api.stack.settings)
    await store.put(a.parts.profiles.bucket(a.tenant), "user-memory/somebody/memory.md", b"# User Memory\n")
    await store.aclose()
    for folder in ("second", "third"):
        await a.parts.directory.provision_root(a.tenant, folder)
    told = await a.get("roots")
    assert told["clash"]["folders"] == ["second", "third", "user-memory"]
    assert "rename or remove" in told["clash"]["remedy"]
    assert {one["folder"]: one["has_profiles"] for one in told["items"]} == {"second": False, "third": False, "user-memory": True}
    assert (await a.get("overview"))["clash"] == told["clash"]

    renamed = await a.ask("POST", "roots/third/rename", json={"new_folder": "old-third"})
    assert {one["folder"]: one["active"] for one in renamed.json()["items"]}["old-third"] is False
    removed = await a.ask("DELETE", "roots/second")
    assert removed.json()["clash"] is None
    # The last one, with profiles in it: they would no longer be found.
    for refused in (
        await a.ask("DELETE", "roots/user-memory"),
        await a.ask("POST", "roots/user-memory/rename", json={"new_folder": "other"}),
        await a.ask("DELETE", "roots/nothing"),
    ):
        assert refused.status_code == 400
        assert "root" in refused.json()["detail"]
    assert (await a.ask("POST", "roots", json={"folder": "../x"})).status_code == 422
    assert (await other_company(a).get("roots"))["items"] == []


async def test_usage_by_any_key_and_by_space(a: Admin) -> None:
    ann, bob = a.user("ann"), a.user("bob")
    for scope, tokens in ((ann, 10), (bob, 100), (other_company(a).user("eve"), 9999)):
        for day in range(3):
            await a.parts.usage.add(scope, stage="gate", model="m", usage=Usage(tokens, 1), now=NOW - timedelta(days=day))
    told = await a.get("usage")
    assert [(one["user"], one["total_tokens"], one["calls"]) for one in told["items"]] == [
        (bob.user_id, 303, 3),
        (ann.user_id, 33, 3),
    ]
    first = await a.get("usage", by=["day", "user"], limit=4)
    rest = await a.get("usage", by=["day", "user"], limit=4, cursor=first["next"])
    lines = [*first["items"], *rest["items"]]
    assert [one["day"] for one in lines] == sorted((one["day"] for one in lines), reverse=True)
    assert len(lines) == 6
    assert rest["next"] is None
    assert {one["stage"] for one in lines} == {None}
    today = NOW.date().isoformat()
    assert [one["total_tokens"] for one in (await a.get("usage", since=today))["items"]] == [101, 11]
    for bad in ({"since": "2026-02-02", "until": "2026-02-01"}, {"since": "2001-01-01"}, {"cursor": first["next"]}):
        assert (await a.ask("GET", "usage", params=bad)).status_code == 400
    assert (await a.ask("GET", "usage", params={"by": "mood"})).status_code == 422

    for number in range(3):
        await a.kept_turn("ann", f"t{number}", space="sales")
    await a.kept_turn("bob", "t", space="hr")
    spaces = await a.get("usage/spaces", limit=1)
    (line,) = spaces["items"]
    assert (line["space_id"], line["turns"], line["users"], line["outcomes"]) == ("sales", 3, 1, {"kept": 3})
    assert (line["total_tokens"], line["calls"]) == (126, 3)
    more = await a.get("usage/spaces", limit=1, cursor=spaces["next"])
    assert [one["space_id"] for one in more["items"]] == ["hr"]
    assert more["next"] is None


async def test_what_failed_is_listed_and_run_again(a: Admin) -> None:
    ann, bob = a.user("ann"), a.user("bob")
    for number in range(3):
        await a.kept_turn("ann", f"t{number}", at=NOW - timedelta(minutes=2 * number))
    windows = [await a.failed_window("bob", f"w{number}", at=NOW - timedelta(minutes=2 * number + 1)) for number in range(2)]
    elsewhere = other_company(a)
    await elsewhere.kept_turn("eve", "elsewhere")
    seen: list[dict[str, Any]] = [one for page in await a.pages("runs", limit=2) for one in page]
    assert [one["id"] for one in seen] == ["t0", windows[0], "t1", windows[1], "t2"]
    turn, window = seen[0], seen[1]
    assert (turn["kind"], turn["state"], turn["reason"], turn["flags"]) == ("turn", "kept", "model_unavailable", ["gate_failed"])
    assert turn["user"] == ann.user_id
    assert turn["url"] == (
        f"http://ui.test:8233/namespaces/default/workflows/{quote(ann.post_answer_workflow_id, safe='')}/run-1/history"
    )
    assert (window["state"], window["categories"]) == ("partial", [{"category": "tasks", "reason": "malformed output"}])
    assert window["workflow_id"] == bob.consolidate_events_workflow_id
    assert {one["kind"] for one in (await a.get("runs", kind="window"))["items"]} == {"window"}

    async def rerun(**body: Any) -> Any:
        return await a.ask("POST", "runs/rerun", json=body)

    assert (await rerun(ids=["t0"])).status_code == 422
    raw = b'{"kind": "window", "user": "bob", "ids": ["no\\ud800"]}'
    assert (await a.ask("POST", "runs/rerun", headers={"Content-Type": "application/json"}, content=raw)).status_code == 422
    odd = cursor_of("runs", NOW.isoformat(), "u\ud800", 1, "", "", "")
    for path, cursor in (("runs", odd), ("spaces", cursor_of("spaces", "\ud800")), ("usage", cursor_of("usage:user", 1, "\ud800"))):
        assert (await a.ask("GET", path, params={"cursor": cursor})).status_code == 400
    # The user of another company is not theirs to run again.
    assert (await rerun(kind="turn", user="eve", ids=["elsewhere"])).status_code == 400
    one = (await rerun(kind="turn", user=ann.user_id, ids=["t0"])).json()
    assert (one["turns"], one["windows"], one["left"]) == (1, 0, [])
    again = (await rerun(kind="turn", user=ann.user_id, ids=["t0"])).json()
    assert [left["id"] for left in again["left"]] == ["t0"]
    some = (await rerun(limit=1)).json()
    assert (some["turns"], some["windows"], some["more"]) == (1, 1, True)
    rest = (await rerun()).json()
    assert (rest["turns"], rest["windows"], rest["more"]) == (1, 1, False)
    assert (await a.get("runs"))["items"] == []
    assert [turn["id"] for turn in (await elsewhere.get("runs"))["items"]] == ["elsewhere"]


async def test_tokens_are_shown_once_and_revoked(a: Admin) -> None:
    made = await a.ask("POST", "tokens", json={"name": "the chat backend"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    token = made.json()
    assert token["token"].startswith(f"aft_{token['token_id']}_")
    assert token["permissions"] == ["read", "write"]
    listed = await a.ask("GET", "tokens")
    assert token["token"] not in listed.text
    assert [(one["name"], one["state"]) for one in listed.json()["items"]] == [("the chat backend", "active")]
    for bad in ({"name": ""}, {"name": "x", "permissions": ["admin"]}, {"name": "x", "expires_in_days": 0}):
        assert (await a.ask("POST", "tokens", json=bad)).status_code == 422
    path = f"tokens/{token['token_id']}"
    assert (await other_company(a).ask("DELETE", path)).status_code == 404
    for _ in range(2):
        assert (await a.ask("DELETE", path)).status_code == 204
    assert (await a.get("tokens"))["items"][0]["state"] == "revoked"
    assert (await other_company(a).get("tokens"))["items"] == []


async def test_no_memory_is_in_any_answer_and_nobody_else_gets_one(a: Admin) -> None:
    user = a.user("maria")
    await a.parts.profiles.prepare(user.tenant)
    await a.kept_turn("maria", "t1")
    await a.failed_window("maria", "w1")
    await a.save("default", {"max_tokens": 900}, None)
    paths = ["overview", "spaces", "spaces/default", "roots", "usage", "usage/spaces", "runs", "tokens"]
    for path in paths:
        answer = await a.ask("GET", f"{path}")
        assert answer.status_code == 200
        assert "canary" not in answer.text
        assert (await a.api.http.get(f"/v1/admin/{path}")).status_code == 401
        for other in (as_person(user), as_service(a.tenant, user.user_id, permissions=["read", "write", "forget", "admin"])):
            assert (await a.api.http.get(f"/v1/admin/{path}", headers=other)).status_code == 403
    for path, body in (("enablement", {}), ("roots", {}), ("runs/rerun", {}), ("tokens", {"name": "x"})):
        assert (await a.api.http.post(f"/v1/admin/{path}", headers=as_person(user), json=body)).status_code == 403
    again = await a.ask("POST", "runs/rerun", json={})
    assert "canary" not in again.text
