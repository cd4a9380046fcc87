"""REST and what goes on in the background: turns become memory, saves beside them, lost connections, failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from memory.ports import ChatReply, ChatRequest
from tests.api.test_rest_profile import BERLIN, headers, read, save, versions
from tests.api.test_rest_turns import a_turn
from tests.support.api import StartApi, as_person, as_service
from tests.support.models import ScriptedModel, profile_text
from tests.support.waiting import until


@dataclass
class HeldModel(ScriptedModel):
    """Says nothing at one stage until it is let go."""

    hold: str = "consolidate"
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == self.hold:
            self.reached.set()
            await self.go.wait()
        return await super().complete(request)


async def test_a_turn_becomes_memory(api: StartApi) -> None:
    model = ScriptedModel({"gate": "UPDATE", "consolidate": profile_text(identity="- Lives in Berlin.")})
    async with api(model=model) as a:
        scope = a.stack.user("a/b ü😀")
        agent, me = as_service("acme", scope.user_id), as_person(scope)

        async def load(**query: Any) -> Any:
            answer = await a.http.get("/v1/memory", params={"allow_user_memory": True, **query}, headers=agent)
            assert answer.status_code == 200, answer.text
            assert answer.headers["server-timing"].startswith("load;dur=")
            return answer.json()

        nothing = await load()
        assert (nothing["active"], nothing["reason"], nothing["body"], nothing["system_prompt_section"]) == (
            True,
            "no_profile",
            "",
            "",
        )
        off = await load(allow_user_memory=False)
        assert (off["reason"], off["reasons"]) == ("off", ["caller_not_allowed"])
        silent = await a.http.get("/v1/memory", headers=agent)
        assert silent.json()["reasons"] == ["caller_not_allowed"]

        answers = [await a.http.post("/v1/turns", json=a_turn("t/1"), headers=agent) for _ in range(2)]
        assert [one.status_code for one in answers] == [202, 200], answers[0].text
        assert [one.json()["status"] for one in answers] == ["recorded", "duplicate"]
        assert answers[0].json() == {
            "turn_id": "t/1",
            "status": "recorded",
            "reason": None,
            "reasons": [],
            "started": True,
            "ordinal": 1,
        }
        status = (await a.http.get("/v1/status", params={"wait_s": 30}, headers=agent)).json()
        assert (status["idle"], status["pending_turns"], status["profile_version"]) == (True, 0, 1)
        assert [turn["outcome"] for turn in status["recent"]] == ["updated"]
        assert status["unavailable"] == {}

        loaded = await load()
        assert "Lives in Berlin" in loaded["body"]
        assert loaded["system_prompt_section"].index("What I know about you") < loaded["system_prompt_section"].index("Berlin")
        assert (loaded["version"], loaded["reason"], loaded["truncated"]) == (1, None, False)
        assert loaded["etag"] == (await a.http.get("/v1/profile", headers=me)).json()["etag"]

        # Without consent nothing is written, and the answer says so.
        refused = await a.http.post("/v1/turns", json=a_turn("t2", allow_user_memory=False), headers=agent)
        assert (refused.status_code, refused.json()["status"], refused.json()["reasons"]) == (
            200,
            "skipped",
            ["caller_not_allowed"],
        )
        ledger = (await a.http.get("/v1/turns", headers=me)).json()
        assert [turn["turn_id"] for turn in ledger["items"]] == ["t/1"]
        assert "Berlin" not in str(ledger)

        # What it cost.
        usage = (await a.http.get("/v1/usage", headers=me)).json()
        assert {row["stage"] for row in usage["items"]} == {"gate", "consolidate"}
        assert usage["total"]["calls"] == 2
        first = (await a.http.get("/v1/usage", params={"limit": 1}, headers=me)).json()
        second = (await a.http.get("/v1/usage", params={"limit": 1, "cursor": first["next"]}, headers=me)).json()
        assert first["items"] + second["items"] == usage["items"]
        assert second["next"] is None


def rewritten(request: ChatRequest) -> str:
    """Builds on what it is shown."""
    known = "- Lives in Kiel.\n" if any("Lives in Kiel" in message.text for message in request.messages) else ""
    return profile_text(identity=f"{known}- Works in Munich.")


async def test_a_save_while_the_pipeline_works_undoes_nothing(api: StartApi) -> None:
    model = HeldModel({"gate": "UPDATE", "consolidate": rewritten})
    async with api(model=model) as a:
        scope = a.stack.user()
        first = await save(a, scope, BERLIN)
        await a.stack.say(scope, "I work in Munich.")
        await model.reached.wait()

        # The rewrite is under way from the first version; the save does not wait for the model, and is not overwritten by it.
        saved = await save(a, scope, BERLIN.replace("Berlin", "Kiel"), match=first.headers["etag"])
        assert (saved.status_code, saved.json()["version"]) == (200, 2)
        model.go.set()
        await a.stack.settle(scope)
        now = await read(a, scope)
        assert "Lives in Kiel." in now["body"]
        assert "Works in Munich." in now["body"]
        assert [one["cause"] for one in await versions(a, scope)] == ["turns", "edit", "edit"]

        # A tab that was open all the while is told of both.
        late = await save(a, scope, BERLIN + "- Sails.\n", match=saved.headers["etag"])
        assert late.status_code == 412, late.text
        assert "Sails" in late.json()["yours"]
        assert "Works in Munich." in late.json()["theirs"]


async def test_a_lost_connection_at_save_is_one_version(api: StartApi) -> None:
    model = HeldModel({"gate": "NOOP"}, hold="gate")
    async with api(model=model) as a:
        scope = a.stack.user()
        await a.stack.say(scope, "Hello!")
        await model.reached.wait()

        # The save waits behind the turn; its caller goes away before there is an answer.
        body = json.dumps({"document": BERLIN}).encode()
        head = {**headers(scope, key="tab-1"), "Content-Type": "application/json", "Content-Length": str(len(body))}
        where = urlsplit(a.base)
        _, writer = await asyncio.open_connection(where.hostname, where.port)
        lines = [f"PUT /v1/profile HTTP/1.1\r\nHost: {where.netloc}", *(f"{name}: {value}" for name, value in head.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        handle = a.stack.client.get_workflow_handle(scope.post_answer_workflow_id)

        async def arrived() -> bool:
            events = (await handle.fetch_history()).events
            return any(event.HasField("workflow_execution_update_accepted_event_attributes") for event in events)

        await until(arrived, what="the save reached the workflow")
        writer.transport.abort()

        again = asyncio.create_task(save(a, scope, BERLIN, key="tab-1"))
        model.go.set()
        answer = await again
        assert answer.status_code == 200, answer.text
        assert answer.json()["version"] == 1
        repeated = await save(a, scope, BERLIN, key="tab-1")
        assert (repeated.status_code, repeated.headers["etag"]) == (200, answer.headers["etag"])
        assert [one["cause"] for one in await versions(a, scope)] == ["edit"]
        # The same key for another text is another save: it has to name what it saw.
        assert (await save(a, scope, BERLIN + "- Sails.\n", key="tab-1")).status_code == 412


async def test_turns_that_failed_run_again(api: StartApi) -> None:
    said = ["nonsense"]
    model = ScriptedModel({"gate": "UPDATE", "consolidate": lambda _: said[0], "repair": lambda _: said[0]})
    async with api(model=model) as a:
        scope, other = a.stack.user(), a.stack.user()
        me = as_person(scope)
        for number in range(3):
            await a.http.post("/v1/turns", json=a_turn(f"t{number}"), headers=me)
        await a.http.post("/v1/turns", json=a_turn("t0"), headers=as_person(other))
        await a.stack.settle(scope, other)
        kept = (await a.http.get("/v1/turns", params={"outcome": "kept"}, headers=me)).json()
        assert {turn["outcome"] for turn in kept["items"]} == {"kept"}
        assert kept["items"][0]["reason"]

        walked: list[str] = []
        cursor: str | None = None
        while True:
            page = (await a.http.get("/v1/turns", params={"limit": 2, **({"cursor": cursor} if cursor else {})}, headers=me)).json()
            walked += [turn["turn_id"] for turn in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert walked == ["t2", "t1", "t0"]

        unknown = await a.http.post("/v1/rerun", json={"turn_ids": ["nobody's"]}, headers=me)
        assert unknown.status_code == 400
        assert (await a.http.post("/v1/rerun", json={"outcomes": ["updated"]}, headers=me)).status_code == 422
        said[0] = profile_text(identity="- Lives in Berlin.")
        again = await a.http.post("/v1/rerun", json={}, headers=me)
        assert again.status_code == 200, again.text
        assert again.json()["started"] is True
        assert {turn["attempt"] for turn in again.json()["turns"]} == {1}
        await a.stack.settle(scope)
        assert "Berlin" in (await a.http.get("/v1/profile", headers=me)).json()["body"]
        left = (await a.http.get("/v1/turns", params={"outcome": "kept"}, headers=as_person(other))).json()
        assert [turn["attempt"] for turn in left["items"]] == [0]


async def test_the_answer_goes_on_while_stores_are_away(api: StartApi) -> None:
    """Loading is on the path of the answer: it says why there is no memory, and that is no error."""
    async with api(workers=False, load_budget_ms=300, after_answer_budget_ms=300) as a:
        scope = a.stack.user()
        me = as_person(scope)
        await a.stack.parts.log.aclose()

        async def unavailable() -> bool:
            answer = await a.http.get("/v1/memory", params={"allow_user_memory": True}, headers=me)
            assert answer.status_code == 200
            return answer.json()["reason"] in ("unavailable", "timeout", "busy", "error")

        await until(unavailable)
