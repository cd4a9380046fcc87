"""What the adapters of a Qdrant server and of the vector service make of what comes over HTTP.

The Qdrant half runs the real client against a stub that answers with the shapes of Qdrant's REST API as its documentation and
the client's models have them. So it shows what the adapter sends and how it takes errors, time-outs and strange bodies. It does
not show that a real server accepts these requests, keeps metadata, makes its indexes or scores as the sum expects: no server
binary was at hand when this was written. Run ``afterturn doctor`` and a search against yours before you rely on it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memory.model.errors import AfterturnError, FolderInUse, InvalidInput, InvalidSettings, StoreUnavailable
from memory.ports.vectors import CollectionSpec, Filter, Point, SparseVector, VectorQuery
from memory.settings import load_settings
from memory.stores.vectors import build_vectors, calls, serve_vectors
from memory.stores.vectors.edge import EdgeVectors
from memory.stores.vectors.remote import RemoteVectorIndex
from memory.stores.vectors.server import ServerVectors
from tests.support.http_stub import HttpReply, HttpRequest, HttpStub, http_stub
from tests.support.vectors import MemoryVectors

__all__ = ["http_stub"]

KEY = "qdrant-key-7f3a9e"
SPEC = CollectionSpec("facts", 3, "toy", {"status": "keyword", "at": "integer"})
ID = "00000000-0000-0000-0000-000000000001"
QUERY = VectorQuery(
    ("acme/u/ada",), 5, SparseVector((1,), (2.0,)), (1.0, 0.0, 0.0), 1.0, 10.0, Filter({"status": ["active"]}, {"at": (1, None)})
)
POINT = Point(ID, "acme/u/ada", SparseVector((1,), (1.0,)), (1.0, 0.0, 0.0), {"status": "active", "at": 5})


def info(model: str | None = "toy", size: int = 3, **indexes: str) -> HttpReply:
    """Qdrant's answer to GET /collections/{name}."""
    return HttpReply(
        {
            "result": {
                "status": "green",
                "optimizer_status": "ok",
                "segments_count": 2,
                "points_count": 0,
                "config": {
                    "params": {"vectors": {"dense": {"size": size, "distance": "Cosine"}}, "sparse_vectors": {"sparse": {}}},
                    "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
                    "optimizer_config": {
                        "deleted_threshold": 0.2,
                        "vacuum_min_vector_number": 1000,
                        "default_segment_number": 0,
                        "flush_interval_sec": 5,
                    },
                    "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
                    **({} if model is None else {"metadata": {"afterturn_model": model}}),
                },
                "payload_schema": {field: {"data_type": kind, "points": 0} for field, kind in indexes.items()},
            },
            "status": "ok",
            "time": 0.001,
        }
    )


def error(status: int, said: str = "scripted", **headers: str) -> HttpReply:
    return HttpReply({"status": {"error": said}, "time": 0.0}, status, headers)


DONE = HttpReply({"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.0})
TRUE = HttpReply({"result": True, "status": "ok", "time": 0.0})
NOT_THERE = error(404, "Not found: Collection `afterturn-facts` doesn't exist!")
READY = info(owner="keyword", status="keyword", at="integer")

Make = Callable[..., ServerVectors]


@pytest.fixture
async def make(http_stub: HttpStub) -> AsyncIterator[Make]:
    opened: list[ServerVectors] = []

    def connect(**given: Any) -> ServerVectors:
        settings = load_settings({}, **{"vector_url": http_stub.url, "vector_api_key": KEY, **given})
        made = build_vectors(settings)
        assert isinstance(made, ServerVectors)
        opened.append(made)
        return made

    yield connect
    for index in opened:
        await index.aclose()


def shown(caught: BaseException) -> str:
    return "".join(traceback.format_exception(caught))


# -------------------------------------------------------------------------------------------------- what is sent to Qdrant


async def test_a_new_collection_gets_both_vectors_the_models_name_and_all_indexes(make: Make, http_stub: HttpStub) -> None:
    http_stub.script(NOT_THERE, TRUE, info())
    http_stub.default = DONE
    await make().ensure(SPEC)
    asked = [(request.method, request.path.partition("?")[0]) for request in http_stub.requests]
    path = "/collections/afterturn-facts"
    assert asked == [("GET", path), ("PUT", path), ("GET", path), *[("PUT", f"{path}/index")] * 3]
    made = http_stub.requests[1].body
    assert made["vectors"] == {"dense": {"size": 3, "distance": "Cosine"}}
    assert made["sparse_vectors"] == {"sparse": {}}
    assert made["metadata"] == {"afterturn_model": "toy"}
    indexes = {request.body["field_name"]: request.body["field_schema"] for request in http_stub.requests[3:]}
    assert indexes == {"owner": {"type": "keyword", "is_tenant": True}, "status": "keyword", "at": "integer"}
    assert {request.headers["api-key"] for request in http_stub.requests} == {KEY}


async def test_both_searches_are_one_request_with_the_owner_in_each(make: Make, http_stub: HttpStub) -> None:
    hit = {"id": ID, "version": 1, "score": 0.5, "payload": {"owner": "acme/u/ada"}}
    http_stub.script(READY, HttpReply({"result": [{"points": [{**hit, "score": 3.0}]}, {"points": [hit]}], "status": "ok"}))
    [found] = await make().query("facts", QUERY)
    assert (found.point_id, found.score) == (ID, 3.0 + 10 * 0.5)
    [_, search] = http_stub.requests
    assert search.path.partition("?")[0] == "/collections/afterturn-facts/points/query/batch"
    sparse, dense = search.body["searches"]
    assert (sparse["using"], dense["using"]) == ("sparse", "dense")
    assert sparse["query"] == {"nearest": {"indices": [1], "values": [2.0]}}
    assert dense["query"] == {"nearest": [1.0, 0.0, 0.0]}
    for side in (sparse, dense):
        owner, status, at = side["filter"]["must"]
        assert owner == {"key": "owner", "match": {"any": ["acme/u/ada"]}}
        assert status == {"should": [{"key": "status", "match": {"any": ["active"]}}]}
        assert (at["key"], at["range"]["gte"]) == ("at", 1.0)
        assert side["limit"] == 300


async def test_writes_wait_until_they_can_be_found(make: Make, http_stub: HttpStub) -> None:
    http_stub.script(READY)
    http_stub.default = DONE
    index = make()
    await index.upsert("facts", [POINT])
    await index.delete("facts", [ID])
    await index.delete_owner("facts", "acme/u/ada")
    writes = http_stub.requests[1:]
    assert all("wait=true" in request.path for request in writes)
    assert writes[0].body["points"][0]["payload"] == {"status": "active", "at": 5, "owner": "acme/u/ada"}
    assert writes[2].body["filter"] == {"must": [{"key": "owner", "match": {"any": ["acme/u/ada"]}}]}


async def test_the_other_process_that_made_the_collection_first_is_no_error(make: Make, http_stub: HttpStub) -> None:
    http_stub.script(NOT_THERE, error(409, "Wrong input: Collection `afterturn-facts` already exists!"), READY)
    await make().ensure(SPEC)
    assert len(http_stub.requests) == 3


async def test_missing_indexes_of_a_collection_that_somebody_else_made(make: Make, http_stub: HttpStub) -> None:
    http_stub.script(info(owner="keyword", at="keyword"), NOT_THERE)
    index = make()
    assert list(await index.missing_indexes(SPEC)) == ["status", "at"]
    assert list(await index.missing_indexes(SPEC)) == ["owner", "status", "at"]


# ------------------------------------------------------------------------------------------------- what Qdrant may answer


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (info("other", 8), "other (8 dimensions)"),
        (info("other"), "other (3 dimensions)"),
        (info(None), "older than 1.16"),
    ],
)
async def test_a_collection_of_another_embedder(make: Make, http_stub: HttpStub, reply: HttpReply, said: str) -> None:
    http_stub.default = reply
    with pytest.raises(InvalidSettings, match="afterturn reindex") as caught:
        await make().ensure(SPEC)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (error(401, "Must provide an API key"), InvalidSettings, "AFTERTURN_VECTOR_API_KEY"),
        (error(403, "Forbidden"), InvalidSettings, "AFTERTURN_VECTOR_API_KEY"),
        (NOT_THERE, InvalidSettings, "no vector collection facts"),
        (HttpReply(b"<html>404</html>", 404), InvalidSettings, "AFTERTURN_VECTOR_URL"),
        (HttpReply(b"", 302, {"Location": "http://elsewhere.example/"}), InvalidSettings, "AFTERTURN_VECTOR_URL"),
        (error(400, "Wrong input: Vector dimension error: expected dim: 4, got 3"), InvalidSettings, "afterturn reindex"),
        (error(400, "Wrong input: Not existing vector name error: dense"), InvalidSettings, "afterturn reindex"),
        (error(400, 'Bad request: Index required but not found for "status"'), InvalidSettings, "Index required"),
        (error(422, "Validation error in JSON body"), InvalidSettings, "422"),
        (error(429, "Rate limit", **{"Retry-After": "2"}), StoreUnavailable, "rate"),
        (error(429, "Rate limit"), StoreUnavailable, "429"),
        (error(500, "Service internal error"), StoreUnavailable, "500"),
        (error(503, "shard is not ready"), StoreUnavailable, "503"),
        (HttpReply(b"<html>hello</html>"), StoreUnavailable, "not Qdrant's API"),
        (HttpReply({"result": {"unexpected": 1}}), StoreUnavailable, "not Qdrant's API"),
        (HttpReply(fault="drop"), StoreUnavailable, "could not be reached"),
    ],
)
async def test_answers_that_are_none(
    make: Make, http_stub: HttpStub, reply: HttpReply, kind: type[AfterturnError], said: str
) -> None:
    http_stub.default = reply
    with pytest.raises(kind) as caught:
        await make().count("facts")
    assert said in str(caught.value)
    assert KEY not in shown(caught.value)
    assert len(http_stub.requests) == 1  # the client makes no second attempt


@pytest.mark.parametrize("fault", ["hang", "drip"])
async def test_a_server_that_does_not_come_to_an_end(make: Make, http_stub: HttpStub, fault: Any) -> None:
    http_stub.default = HttpReply(fault=fault)
    with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.3 s"):
        await make(vector_timeout_s=0.3).count("facts")


async def test_a_server_that_is_not_there(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(StoreUnavailable, match="could not be reached"):
        await make(vector_url=f"http://127.0.0.1:{port}").ping()


async def test_ping_looks_at_the_version_and_at_the_key(make: Make, http_stub: HttpStub) -> None:
    def answer(request: HttpRequest) -> HttpReply:
        if request.path == "/":
            return HttpReply({"title": "qdrant - vector search engine", "version": "1.16.2"})
        return HttpReply({"result": {"collections": []}, "status": "ok", "time": 0.0})

    http_stub.default = answer
    await make().ping()
    http_stub.script(answer, error(401, "Must provide an API key"))
    with pytest.raises(InvalidSettings, match="AFTERTURN_VECTOR_API_KEY"):
        await make().ping()
    http_stub.script(HttpReply({"title": "qdrant - vector search engine", "version": "1.9.0"}))
    with pytest.raises(InvalidSettings, match=r"1\.9\.0 is too old"):
        await make().ping()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"vector_url": "qdrant:6333"}, "AFTERTURN_VECTOR_URL is not the address"),
        ({"vector_url": f"http://user:{KEY}@qdrant:6333"}, "AFTERTURN_VECTOR_URL holds a user or password"),
        ({"vector_api_key": f"{KEY}\n{KEY}"}, "AFTERTURN_VECTOR_API_KEY has characters"),
    ],
)
def test_settings_that_cannot_be(make: Make, given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettings, match=said) as caught:
        make(**given)
    assert KEY not in shown(caught.value)


async def test_the_key_is_in_no_log_line(make: Make, http_stub: HttpStub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    http_stub.script(READY, error(500), HttpReply(fault="drop"))
    index = make()
    await index.ensure(SPEC)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await index.count("facts")
    assert KEY not in caplog.text
    assert KEY not in repr(index)


# -------------------------------------------------------------------------------------------------- the service of this machine


async def post(url: str, call: str, body: bytes, token: str | None = KEY) -> httpx2.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.post(f"{url}{calls.PATH}{call}", content=body, headers=headers)


@pytest.mark.parametrize("token", [None, "wrong", KEY + "x", KEY[:-1], "ä"])
async def test_the_service_answers_nobody_without_its_token(token: str | None) -> None:
    async with serve_vectors(MemoryVectors(), token=KEY) as url:
        headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode("latin-1"))]
        async with httpx2.AsyncClient(trust_env=False) as client:
            response = await client.post(f"{url}{calls.PATH}Ping", content=b"{}", headers=headers)
    assert response.status_code == 401
    assert KEY not in response.text


async def test_a_wrong_token_is_said_to_the_caller() -> None:
    async with serve_vectors(MemoryVectors(), token=KEY) as url:
        stranger = RemoteVectorIndex(url, "another-token")
        with pytest.raises(InvalidSettings, match="does not take this token") as caught:
            await stranger.ping()
        await stranger.aclose()
    assert "another-token" not in shown(caught.value)


async def test_the_service_takes_only_calls_of_the_port_and_only_so_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_vectors(MemoryVectors(), token=KEY) as url:
        assert (await post(url, "aclose", b"{}")).status_code == 404
        for wrong in (b"", b"{", b"[]", b'{"collection": 3}', b'{"collection": "facts", "owner": null, "more": 1}'):
            answer = await post(url, "Count", wrong)
            assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInput")
        monkeypatch.setattr("memory.stores.vectors.service.MAX_REQUEST_BYTES", 100)
        assert (await post(url, "Count", json.dumps({"collection": "f" * 200, "owner": None}).encode())).status_code == 413


@pytest.mark.parametrize(
    "failure",
    [InvalidInput("no such thing"), InvalidSettings("set it right"), FolderInUse("in use by 7"), StoreUnavailable("away for now")],
)
async def test_errors_come_out_on_the_other_side_as_they_went_in(failure: AfterturnError) -> None:
    class Failing(MemoryVectors):
        async def ping(self) -> None:
            raise failure

    async with serve_vectors(Failing(), token=KEY) as url:
        remote = RemoteVectorIndex(url, KEY)
        with pytest.raises(type(failure)) as caught:
            await remote.ping()
        await remote.aclose()
    assert str(caught.value) == str(failure)


async def test_an_error_of_the_service_itself_tells_nothing_of_it() -> None:
    class Broken(MemoryVectors):
        async def ping(self) -> None:
            raise RuntimeError("secret detail")

    async with serve_vectors(Broken(), token=KEY) as url:
        remote = RemoteVectorIndex(url, KEY)
        with pytest.raises(StoreUnavailable) as caught:
            await remote.ping()
        await remote.aclose()
    assert "secret detail" not in shown(caught.value)


async def test_a_service_that_hangs_and_one_that_is_gone() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    class Hanging(MemoryVectors):
        async def ping(self) -> None:
            entered.set()
            await release.wait()

    async with serve_vectors(Hanging(), token=KEY) as url:
        remote = RemoteVectorIndex(url, KEY, timeout_s=0.1)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await remote.ping()
        assert entered.is_set()
        release.set()
    with pytest.raises(StoreUnavailable, match="afterturn dev"):
        await remote.ping()
    await remote.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await remote.ping()


@pytest.mark.parametrize("reply", [HttpReply(b"<html>"), HttpReply({"a": 1}, 500), HttpReply(fault="drop"), HttpReply({}, 404)])
async def test_something_else_at_the_services_address(http_stub: HttpStub, reply: HttpReply) -> None:
    http_stub.default = reply
    remote = RemoteVectorIndex(http_stub.url, KEY)
    with pytest.raises(StoreUnavailable):
        await remote.count("facts")
    await remote.aclose()


async def test_the_service_stops_when_its_owner_fails_and_leaves_the_index_open(tmp_path: Path) -> None:
    index = EdgeVectors(tmp_path)
    url = ""
    with pytest.raises(RuntimeError, match="owner"):
        async with serve_vectors(index, token=KEY) as url:
            raise RuntimeError("owner")
    with pytest.raises(httpx2.ConnectError):
        await post(url, "Ping", b"{}")
    await index.ensure(SPEC)
    await index.aclose()


async def test_a_client_of_the_service_and_its_owner_see_the_same(tmp_path: Path) -> None:
    """What is written through one is found through the other at once."""
    index = EdgeVectors(tmp_path)
    async with serve_vectors(index, token=KEY) as url:
        settings = load_settings({}, data_dir=tmp_path, vector_service_url=url, vector_api_key=KEY)
        remote = build_vectors(settings)
        await remote.ensure(SPEC)
        await index.upsert("facts", [POINT])
        [hit] = await remote.query("facts", QUERY)
        assert (hit.point_id, hit.score) == (ID, pytest.approx(12.0))
        await remote.delete_owner("facts", "acme/u/ada")
        assert await index.count("facts") == 0
        await remote.aclose()
    await index.aclose()
