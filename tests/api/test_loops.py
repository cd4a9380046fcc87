"""Loops through HTTP: begun, watched, steered, ended; nobody else's are seen. Real engines, a scripted model."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx2
import pytest

from memory.model.knowledge_loop import Entry, EntryKind
from memory.model.scope import Scope
from tests.support.api import Api, StartApi, as_person, as_service
from tests.support.loop_model import QUESTION_ANSWER, Call, LoopModel
from tests.support.sse import opened
from tests.support.waiting import until

CREATE: Call = ("create_table", {"name": "Cars", "columns": {"model": "str", "range_km": "int"}})
LOOK: Call = ("tables_overview", {})
CLARIFY: Call = ("request_clarification", {"question": "Which model do you mean?"})


def add(*models: str) -> Call:
    return ("add_rows", {"table": "Cars", "rows": [{"model": name, "range_km": 400} for name in models]})


async def begin(a: Api, headers: dict[str, str], verb: str = "knowledge/update", **body: object) -> str:
    begun = await a.http.post(f"/v1/{verb}", json={"text": "Add the Leaf.", **body}, headers=headers)
    assert begun.status_code == 202, begun.text
    assert begun.headers["location"] == begun.json()["links"]["self"]
    return begun.json()["loop_id"]


async def test_a_loop_is_begun_watched_and_read_again(api: StartApi) -> None:
    hold = asyncio.Event()
    model = LoopModel([[CREATE, add("Leaf")], [LOOK], "One car is in the table now."], holds={3: hold})
    async with api(model=model) as a:
        who = a.stack.user()
        me = as_person(who)
        named = {**me, "Idempotency-Key": "cars-1"}
        assert await begin(a, named) == "cars-1"
        async with opened(a.http, "/v1/loops/cars-1/events", me) as stream:
            first = await stream.until("status")
            while first[-1].data["step"] < 2:
                first += await stream.until("status")
            seen_until = stream.last_id
            assert first[-1].data["doing"] == "working"
        assert seen_until is not None
        # The client is gone; what happens meanwhile is not lost.
        hold.set()
        back = {**me, "Last-Event-ID": seen_until}
        async with opened(a.http, "/v1/loops/cars-1/events", back) as stream:
            rest = await stream.rest()
        told = [event for event in (*first, *rest) if event.name in ("entry", "notification")]
        numbers = [event.data["number"] for event in told]
        assert numbers == list(range(1, len(numbers) + 1)) == [int(event.id or 0) for event in told]
        kinds = [event.data["kind"] for event in told if event.name == "entry"]
        assert kinds == ["model", "result", "result", "model", "result", "model"]
        assert [event.data["text"] for event in told if event.name == "notification"] == ["Let me see."] * 2
        end = rest[-1]
        assert (end.name, end.id, end.data["state"]) == ("end", "end", "done")
        assert end.data["answer"] == "One car is in the table now."
        done = await a.http.get("/v1/loops/cars-1/events", headers={**me, "Last-Event-ID": "end"})
        assert done.status_code == 204

        again = await a.http.post("/v1/knowledge/update", json={"text": "Add the Leaf."}, headers=named)
        assert (again.status_code, again.json()["answer"]) == (200, "One car is in the table now.")
        assert len(model.reached) == 3
        other = await a.http.post("/v1/knowledge/update", json={"text": "Something else"}, headers=named)
        assert (other.status_code, other.json()["type"]) == (409, "/problems/id-in-use")

        page = (await a.http.get("/v1/loops/cars-1/entries?limit=4", headers=me)).json()
        more = (await a.http.get("/v1/loops/cars-1/entries", params={"limit": 4, "cursor": page["next"]}, headers=me)).json()
        assert [one["number"] for one in (*page["items"], *more["items"])] == numbers
        assert more["next"] is None
        assert "Leaf" in str(page["items"][0]["body"])
        late = await a.http.post("/v1/loops/cars-1/interject", json={"text": "No."}, headers=me)
        assert (late.status_code, late.json()["type"]) == (409, "/problems/loop-ended")
        assert (await a.http.post("/v1/loops/cars-1/stop", headers=me)).json()["state"] == "done"
        asked = await a.http.post("/v1/loops/cars-1/question", json={"text": "How?"}, headers=me)
        assert asked.json() == {"loop_id": "cars-1", "answer": QUESTION_ANSWER}

        # Newest first, page by page; a contact's loop and a task's are loops too; an answer can be waited for.
        asks = [
            await a.http.post(f"/v1/{verb}?wait_s=30", json={"text": "Who?"}, headers=me)
            for verb in ("knowledge/ask", "contacts/ask", "contacts/tell", "tasks/ask", "tasks/tell", "knowledge/refactor")
        ]
        assert {answer.status_code for answer in asks} == {200}
        assert all(answer.json()["state"] == "done" for answer in asks)
        walked: list[str] = []
        cursor: str | None = None
        while True:
            query = {"limit": "3"} | ({} if cursor is None else {"cursor": cursor})
            page = (await a.http.get("/v1/loops", params=query, headers=me)).json()
            walked += [one["operation"] for one in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        begun = [answer.json()["operation"] for answer in asks]
        assert walked == [*reversed(begun), "knowledge.update"]
        assert (await a.http.get("/v1/loops?running=true", headers=me)).json() == {"items": [], "next": None}


async def test_a_loop_is_steered_by_those_who_may(api: StartApi) -> None:
    holds = {step: asyncio.Event() for step in (1, 2, 4)}
    model = LoopModel([[LOOK], [CREATE], [CLARIFY], [add("Leaf")], "Done."], holds=holds)
    async with api(model=model) as a:
        who, other = a.stack.user(), a.stack.user()
        me = as_person(who)
        loop = await begin(a, me, clarify=True)
        place = f"/v1/loops/{loop}"
        await until(lambda: 1 in model.reached)

        # Another user, another tenant, a token that may only read: the loop is not there for them, or not theirs to steer.
        assert (await a.http.get("/v1/loops", headers=as_person(other))).json()["items"] == []
        strangers = (as_person(other), as_person(Scope.of("umbrella", who.user_id)), as_service("acme", other.user_id))
        for headers in strangers:
            for method, path, body in (
                ("GET", "", None),
                ("GET", "/entries", None),
                ("GET", "/events", None),
                ("GET", "/run", None),
                ("POST", "/attach", None),
                ("POST", "/pause", None),
                ("POST", "/resume", None),
                ("POST", "/stop", None),
                ("POST", "/interject", {"text": "x"}),
                ("POST", "/question", {"text": "x"}),
                ("POST", "/answers/clarification/3/0", {"text": "x"}),
            ):
                answer = await a.http.request(method, place + path, json=body, headers=headers)
                assert answer.status_code == 404, (path, answer.text)
        reads = as_service("acme", who.user_id, permissions=("read",))
        assert (await a.http.post(f"{place}/stop", headers=reads)).status_code == 403
        assert (await a.http.post("/v1/knowledge/update", json={"text": "x"}, headers=reads)).status_code == 403
        assert (await a.http.get(place, headers=reads)).json()["state"] == "running"

        run = (await a.http.get(f"{place}/run", headers=me)).json()
        assert (run["loop_id"], run["doing"]) == (loop, "thinking")
        assert (await a.http.post(f"{place}/pause", headers=me)).status_code == 200
        holds[1].set()
        async with opened(a.http, f"{place}/events", me) as stream:
            while (await stream.until("status"))[-1].data["doing"] != "paused":
                pass
            assert (await a.http.post(f"{place}/resume", headers=me)).status_code == 200
            said = await a.http.post(f"{place}/interject", json={"text": "Only electric ones."}, headers=me)
            assert (said.status_code, said.content) == (204, b"")
            holds[2].set()
            asked = (await stream.until("clarification"))[-1].data
            assert asked["question"] == "Which model do you mean?"
            waiting = (await stream.until("status"))[-1].data
            assert (waiting["doing"], waiting["clarification_id"]) == ("waiting_for_answer", asked["clarification_id"])
            question = await a.http.post(f"{place}/question", json={"text": "How far?"}, headers=me)
            assert question.json()["answer"] == QUESTION_ANSWER
            wrong = await a.http.post(f"{place}/answers/clarification/9/9", json={"text": "?"}, headers=me)
            assert wrong.status_code == 400
            answered = await a.http.post(f"{place}/answers/{asked['clarification_id']}", json={"text": "The Leaf."}, headers=me)
            assert answered.status_code == 204
            await until(lambda: 4 in model.reached)
            stopped = await a.http.post(f"{place}/stop?wait_s=30", json={"reason": "enough"}, headers=me)
            assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
            rest = await stream.rest()
        assert (rest[-1].name, rest[-1].data["state"]) == ("end", "stopped")
        kinds = [event.data["kind"] for event in rest if event.name == "entry"]
        assert "answer" in kinds
        assert "stop" in kinds


async def test_streams_are_bounded_and_end_with_the_server(api: StartApi) -> None:
    many = httpx2.Limits(max_connections=None)
    async with AsyncExitStack() as clients:
        async with api(workers=False, api_max_streams=200) as a:
            http = await clients.enter_async_context(httpx2.AsyncClient(base_url=a.base, limits=many))
            # No caller may have more than half of them.
            me, another = as_person(a.stack.user()), as_person(a.stack.user("another"))
            loop = await begin(a, me, "knowledge/ask")
            path = f"/v1/loops/{loop}/events"
            gone = [opened(http, path, me), opened(http, "/v1/notices", another)]
            leaving = [await one.__aenter__() for one in gone]
            both = itertools.cycle([(path, me), ("/v1/notices", another)])
            streams = [await clients.enter_async_context(opened(http, *one)) for one in itertools.islice(both, 198)]
            firsts = await asyncio.gather(*(stream.next() for stream in (*leaving, *streams)))
            assert {event.name for event in firsts if event} == {"listening", "status"}
            refused = await a.http.get(path, headers=me)
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/too-many-streams")
            assert refused.headers["retry-after"]
            # Beside them the server answers as ever, and a client that goes makes room at once.
            assert (await a.http.get(f"/v1/loops/{loop}", headers=me)).status_code == 200
            for one in gone:
                await one.__aexit__(None, None, None)

            async def there_is_room() -> bool:
                async with http.stream("GET", path, headers=me) as response:
                    return response.status_code == 200

            await until(there_is_room)
            rests = asyncio.gather(*(stream.rest() for stream in streams))
        # The server has stopped: all that was open has ended, none of it in the middle of an event.
        assert await rests == [[]] * 198


async def test_a_stream_outlives_silence_and_not_a_client_that_does_not_read(
    api: StartApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.streams.KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr("api.streams.STALLED_S", 0.5)
    async with api(workers=False) as a:
        who = a.stack.user()
        me = as_person(who)
        loop = await begin(a, me, "knowledge/ask")
        path = f"/v1/loops/{loop}/events"
        async with opened(a.http, path, me) as stream:
            await stream.until("status")
            waiting = asyncio.create_task(stream.next())
            await until(lambda: len(stream.comments) >= 2)
            entries = [Entry(f"notice/{n}", EntryKind.NOTICE, 0, {"text": "x" * 900_000}) for n in range(24)]
            for one in entries:
                await a.stack.parts.loops.append(who, loop, [one], now=datetime.now(UTC))
            told = await waiting
            assert told is not None
            assert told.name == "notification"
        await until(lambda: a.app.state.streams.open == 0)

        # More than the buffers on the way hold, and nobody takes it.
        address = urlsplit(a.base)
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1024)
        lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}", *(f"{name}: {value}" for name, value in me.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await until(lambda: a.app.state.streams.open == 1)
        await until(lambda: a.app.state.streams.open == 0)
        writer.close()
        del reader

        # A stream ends in time, whatever happens in it; the client comes back and proves anew who it is.
        monkeypatch.setattr("api.streams.LONGEST_S", 0.2)
        async with opened(a.http, path, {**me, "Last-Event-ID": "24"}) as stream:
            assert "end" not in [event.name for event in await stream.rest()]
        assert (await a.http.get(f"/v1/loops/{loop}", headers=me)).json()["state"] == "running"
