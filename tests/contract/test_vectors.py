"""One suite for every vector index. ``server`` runs on qdrant-client's local mode: it shows that the adapter asks for the right
things, not how a server stores them, uses its payload indexes or ends a call (see test_vectors_http.py for the HTTP half)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from memory.model.errors import FolderInUse, InvalidInput, InvalidSettings, StoreUnavailable
from memory.ports.vectors import CollectionSpec, Filter, Hit, Point, SparseVector, VectorIndex, VectorQuery
from memory.settings import load_settings
from memory.stores.vectors import build_vectors, serve_vectors
from memory.stores.vectors.edge import EdgeVectors
from memory.stores.vectors.remote import RemoteVectorIndex
from memory.stores.vectors.server import ServerVectors
from tests.support.vectors import LocalClient, MemoryVectors

ROOT = Path(__file__).parents[2]
SPEC = CollectionSpec("facts", 3, "toy", {"status": "keyword", "tags": "keyword", "at": "integer", "share": "float"})
LEXICAL = CollectionSpec("events", None, None, {"status": "keyword"})
ADA, BOB = "acme/u/ada", "acme/u/bob"
TOKEN = "token-for-the-test"


@pytest.fixture(params=["memory", "edge", "remote", "server"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorIndex]:
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                opened: VectorIndex = MemoryVectors()
            case "edge":
                opened = EdgeVectors(tmp_path)
            case "server":
                opened = ServerVectors(LocalClient())
            case _:
                engine = EdgeVectors(tmp_path)
                stack.push_async_callback(engine.aclose)
                opened = RemoteVectorIndex(await stack.enter_async_context(serve_vectors(engine, token=TOKEN)), TOKEN)
        stack.push_async_callback(opened.aclose)
        yield opened


def pid(number: int) -> str:
    return str(uuid.UUID(int=number))


def sparse(weights: dict[int, float]) -> SparseVector:
    return SparseVector(tuple(sorted(weights)), tuple(weights[index] for index in sorted(weights)))


def point(
    number: int, owner: str = ADA, words: dict[int, float] | None = None, dense: tuple[float, ...] | None = None, **payload: object
) -> Point:
    return Point(pid(number), owner, sparse(words or {1: 1.0}), dense, payload)


def ask(
    *owners: str,
    words: dict[int, float] | None = None,
    dense: tuple[float, ...] | None = None,
    limit: int = 10,
    weights: tuple[float, float] = (1.0, 1.0),
    **more: object,
) -> VectorQuery:
    wanted = sparse(words) if words else None
    return VectorQuery(owners or (ADA,), limit, wanted, dense, *weights, **more)  # type: ignore[arg-type]


def scored(hits: object) -> list[tuple[str, float]]:
    return [(hit.point_id, pytest.approx(hit.score, rel=1e-5)) for hit in hits]  # type: ignore[attr-defined]


def ids(hits: object) -> list[str]:
    return [hit.point_id for hit in hits]  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------------- collections


async def test_missing_indexes_are_named_until_the_collection_is_ensured(index: VectorIndex) -> None:
    assert sorted(await index.missing_indexes(SPEC)) == ["at", "owner", "share", "status", "tags"]
    await index.ensure(SPEC)
    assert list(await index.missing_indexes(SPEC)) == []


async def test_an_index_that_a_newer_version_wants_is_added_to_what_is_there(index: VectorIndex) -> None:
    older = CollectionSpec("facts", 3, "toy", {"status": "keyword"})
    await index.ensure(older)
    await index.upsert("facts", [point(1, at=5)])
    assert sorted(await index.missing_indexes(SPEC)) == ["at", "share", "tags"]
    await index.ensure(SPEC)
    assert list(await index.missing_indexes(SPEC)) == []
    assert await index.count("facts") == 1


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (CollectionSpec("facts", 4, "toy", {}), "toy (4 dimensions)"),
        (CollectionSpec("facts", 3, "other", {}), "other (3 dimensions)"),
        (CollectionSpec("facts", None, None, {}), "no embedder"),
    ],
)
async def test_another_embedder_is_one_clear_line_at_start(index: VectorIndex, other: CollectionSpec, said: str) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1)])
    with pytest.raises(InvalidSettings) as caught:
        await index.ensure(other)
    message = str(caught.value)
    assert "toy (3 dimensions)" in message
    assert said in message
    assert "afterturn reindex" in message
    assert "\n" not in message
    assert await index.count("facts") == 1  # nothing was touched


async def test_recreate_drops_all_points_and_takes_the_new_embedder(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1, dense=(1.0, 0.0, 0.0))])
    wider = CollectionSpec("facts", 4, "other", {"status": "keyword"})
    await index.recreate(wider)
    assert await index.count("facts") == 0
    await index.ensure(wider)
    await index.upsert("facts", [point(1, dense=(1.0, 0.0, 0.0, 0.0))])
    assert ids(await index.query("facts", ask(dense=(1.0, 0.0, 0.0, 0.0)))) == [pid(1)]
    with pytest.raises(InvalidSettings, match="toy"):
        await index.ensure(SPEC)


async def test_recreate_makes_a_collection_that_was_not_there(index: VectorIndex) -> None:
    await index.recreate(LEXICAL)
    assert await index.count("events") == 0


@pytest.mark.parametrize("call", ["upsert", "delete", "delete_owner", "query", "scroll", "count"])
async def test_a_collection_that_was_never_made_is_said_by_name(index: VectorIndex, call: str) -> None:
    await index.ensure(LEXICAL)
    work = {
        "upsert": lambda: index.upsert("facts", [point(1)]),
        "delete": lambda: index.delete("facts", [pid(1)]),
        "delete_owner": lambda: index.delete_owner("facts", ADA),
        "query": lambda: index.query("facts", ask(words={1: 1.0})),
        "scroll": lambda: index.scroll("facts"),
        "count": lambda: index.count("facts"),
    }[call]
    with pytest.raises(InvalidSettings, match="no vector collection facts"):
        await work()


async def test_a_vector_of_another_dimension_is_refused(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.ensure(LEXICAL)
    for work in (
        index.upsert("facts", [point(1), point(2, dense=(1.0, 0.0))]),
        index.upsert("events", [point(1, dense=(1.0, 0.0, 0.0))]),
        index.query("facts", ask(dense=(1.0, 0.0))),
        index.query("events", ask(dense=(1.0, 0.0, 0.0))),
    ):
        with pytest.raises(InvalidSettings, match="afterturn reindex"):
            await work
    assert await index.count("facts") == 0


# ------------------------------------------------------------------------------------------------------------ what is found


async def test_the_score_is_the_weighted_sum_of_both_sides_with_the_boosts(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert(
        "facts",
        [
            point(1, words={1: 2.0, 7: 1.0}, dense=(1.0, 0.0, 0.0), status="active", tags=["ada"]),
            point(2, words={7: 1.0}, dense=(0.6, 0.8, 0.0), tags=["bob", "ada"]),  # dense only
            point(3, words={1: 3.0}, status="active"),  # sparse only: no dense vector
            point(4, words={9: 5.0}, dense=(-1.0, 0.0, 0.0)),
        ],
    )
    found = await index.query(
        "facts",
        ask(
            words={1: 1.5},
            dense=(2.0, 0.0, 0.0),
            weights=(2.0, 10.0),
            boosts=(("tags", "ada", 1.5), ("status", "active", 2.0), ("status", "gone", 9.0)),
        ),
    )
    assert scored(found) == [
        (pid(1), (2.0 * 3.0 + 10.0) * 3.0),
        (pid(3), 2.0 * 4.5 * 2.0),
        (pid(2), 6.0 * 1.5),
        (pid(4), -10.0),
    ]
    assert found[2].payload == {"owner": ADA, "tags": ["bob", "ada"]}


async def test_each_side_alone_and_none_at_all(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1, words={5: 1.0}, dense=(0.0, 1.0, 0.0)), point(2, words={6: 1.0})])
    assert ids(await index.query("facts", ask(words={6: 1.0}))) == [pid(2)]
    assert ids(await index.query("facts", ask(dense=(0.0, 1.0, 0.0)))) == [pid(1)]
    assert list(await index.query("facts", ask())) == []
    assert list(await index.query("facts", VectorQuery((ADA,), 5, SparseVector((), ())))) == []


async def test_equal_scores_come_by_id_also_where_the_limit_cuts(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    numbers = list(range(1, 41))
    random.Random(7).shuffle(numbers)
    await index.upsert("facts", [point(number, words={1: 1.0}, dense=(1.0, 0.0, 0.0)) for number in numbers])
    wanted = [pid(number) for number in range(1, 6)]
    assert ids(await index.query("facts", ask(words={1: 1.0}, dense=(1.0, 0.0, 0.0), limit=5))) == wanted


async def test_a_collection_without_dense_vectors_searches_lexically(index: VectorIndex) -> None:
    await index.ensure(LEXICAL)
    await index.upsert("events", [point(1, words={2**32 - 1: 1.0, 0: 0.5}), point(2, words={2**32 - 1: 3.0})])
    assert scored(await index.query("events", ask(words={0: 4.0, 2**32 - 1: 1.0}))) == [(pid(1), 3.0), (pid(2), 3.0)]


async def test_a_point_without_words_and_without_a_dense_vector_is_kept_and_found_by_nothing(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [Point(pid(1), ADA, SparseVector((), ()), None, {"status": "active"})])
    assert await index.count("facts", owner=ADA) == 1
    assert list(await index.query("facts", ask(words={1: 1.0}, dense=(1.0, 0.0, 0.0)))) == []


async def test_an_upsert_replaces_the_whole_point(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1, words={1: 1.0, 2: 1.0}, dense=(1.0, 0.0, 0.0), status="active", at=1)])
    await index.upsert("facts", [point(1, words={2: 2.0}, at=2)])
    assert await index.count("facts") == 1
    assert list(await index.query("facts", ask(words={1: 1.0}))) == []
    assert list(await index.query("facts", ask(dense=(1.0, 0.0, 0.0)))) == []
    [hit] = await index.query("facts", ask(words={2: 1.0}))
    assert hit == Hit(pid(1), 2.0, {"owner": ADA, "at": 2})


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(any_of={"status": ["active"]}), [1, 2]),
        (Filter(any_of={"status": ["active", "gone"]}), [1, 2, 3]),
        (Filter(any_of={"tags": ["b"]}), [1, 3]),
        (Filter(any_of={"at": [10, 30]}), [1, 3]),
        (Filter(any_of={"status": ["active", 7]}), [1, 2]),
        (Filter(any_of={"status": []}), []),
        (Filter(ranges={"at": (10, 20)}), [1, 2]),
        (Filter(ranges={"at": (None, 10)}), [1]),
        (Filter(ranges={"at": (11, None)}), [2, 3]),
        (Filter(ranges={"share": (0.25, 0.5)}), [1, 2]),
        (Filter(any_of={"status": ["active"], "tags": ["b"]}, ranges={"at": (0, 15)}), [1]),
        (Filter(any_of={"absent": ["x"]}), []),
    ],
)
async def test_filters(index: VectorIndex, wanted: Filter, found: list[int]) -> None:
    await index.ensure(SPEC)
    await index.upsert(
        "facts",
        [
            point(1, status="active", tags=["a", "b"], at=10, share=0.25),
            point(2, status="active", tags=["a"], at=20, share=0.5),
            point(3, status="gone", tags=["b"], at=30, share=0.75),
            point(4),
        ],
    )
    assert ids(await index.query("facts", ask(words={1: 1.0}, filter=wanted))) == [pid(number) for number in found]


async def test_random_points_are_scored_as_in_memory(index: VectorIndex) -> None:
    """The sum of every adapter is that of the plain one, over shapes that nobody thought of."""
    chance = random.Random(20261130)
    measure = MemoryVectors()
    for one in (index, measure):
        await one.ensure(SPEC)
    points = [
        Point(
            pid(number),
            chance.choice((ADA, BOB)),
            sparse({chance.randrange(12): chance.uniform(0.1, 5) for _ in range(chance.randrange(6))}),
            tuple(chance.gauss(0, 1) for _ in range(3)) if chance.random() < 0.7 else None,
            {"status": chance.choice(("active", "gone")), "at": chance.randrange(5)},
        )
        for number in range(1, 301)
    ]
    for one in (index, measure):
        await one.upsert("facts", points)
    for _ in range(25):
        query = ask(
            *chance.sample((ADA, BOB), chance.choice((1, 2))),
            words={chance.randrange(12): chance.uniform(0.1, 2) for _ in range(3)},
            dense=tuple(chance.gauss(0, 1) for _ in range(3)),
            limit=20,
            weights=(1.0, chance.choice((0.5, 10.0))),
            boosts=(("status", "active", 1.7),),
            filter=Filter(ranges={"at": (1, None)}),
        )
        found, expected = await index.query("facts", query), await measure.query("facts", query)
        assert scored(found) == [(hit.point_id, hit.score) for hit in expected]


# ------------------------------------------------------------------------------------------------------ owners, and deleting


async def test_nobody_finds_what_is_not_theirs(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    owners = [f"acme/u/user-{number}" for number in range(30)] + ["acme/t/user-1", "other/u/user-1"]
    await index.upsert("facts", [point(n + 1, owner, dense=(1.0, 0.0, 0.0)) for n, owner in enumerate(owners)])

    async def look(owner: str) -> set[object]:
        return {hit.payload["owner"] for hit in await index.query("facts", ask(owner, words={1: 1.0}, dense=(1.0, 0.0, 0.0)))}

    assert await asyncio.gather(*(look(owner) for owner in owners)) == [{owner} for owner in owners]
    both = await index.query("facts", ask(owners[0], "acme/t/user-1", words={1: 1.0}))
    assert {hit.payload["owner"] for hit in both} == {owners[0], "acme/t/user-1"}


async def test_a_query_without_an_owner_is_refused(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    for owners in ((), ("",)):
        with pytest.raises(InvalidInput, match="owners"):
            await index.query("facts", VectorQuery(owners, 5, sparse({1: 1.0})))


async def test_deleting_one_owner_leaves_all_others(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    near = ["acme/u/ada", "acme/u/ada2", "acme/u/ad", "acme/t/ada", "other/u/ada"]
    await index.upsert("facts", [point(n + 1, owner) for n, owner in enumerate(near)])
    await index.delete_owner("facts", "acme/u/ada")
    await index.delete_owner("facts", "acme/u/nobody")
    assert [await index.count("facts", owner=owner) for owner in near] == [0, 1, 1, 1, 1]
    assert list(await index.query("facts", ask("acme/u/ada", words={1: 1.0}))) == []
    assert len(await index.query("facts", ask(*near, words={1: 1.0}))) == 4


async def test_the_files_of_the_embedded_engine_name_a_deleted_owner_no_more(tmp_path: Path) -> None:
    """Not in the segments, not in the log; what others have is as it was, also what they write meanwhile."""
    index, gone, others = EdgeVectors(tmp_path), "acme/u/ada", ("acme/u/bob", "acme/t/ada")
    await index.ensure(SPEC)
    dense = [(1.0, 0.0, 0.0), (0.6, 0.8, 0.0)]
    points = [point(n, gone, words={1: 1.0}, dense=dense[n % 2], note=f"secret{n}") for n in range(300)]
    points += [point(300 + n, others[n % 2], words={1: 1.0 + n}, dense=dense[n % 2], note=f"kept{n}") for n in range(300)]
    await index.upsert("facts", points)
    await index.delete("facts", [pid(number) for number in range(50)])  # one by one, before

    def held(*words: str) -> list[str]:
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        return [f"{word} in {file.name}" for file in files for word in words if word.encode() in file.read_bytes()]

    async def seen() -> list[object]:
        found = [await index.query("facts", ask(*others, words={1: 1.0}, dense=dense[0]))]
        found += [await index.scroll("facts", owner=owner) for owner in others]
        return [(hit.point_id, round(hit.score, 4), dict(hit.payload)) for hits in found for hit in hits]

    before = await seen()
    assert held(gone, "secret7")
    new = [point(1_000 + n, "acme/u/new", words={2: 1.0}) for n in range(40)]
    searches = [index.query("facts", ask(*others, words={1: 1.0}, dense=dense[0])) for _ in range(40)]
    await asyncio.gather(*(index.upsert("facts", [one]) for one in new), index.delete_owner("facts", gone), *searches)
    assert held(gone, "secret") == []
    assert await index.count("facts", owner="acme/u/new") == len(new)
    await index.delete_owner("facts", "acme/u/new")
    assert await seen() == before
    assert await index.missing_indexes(SPEC) == []
    await index.aclose()
    # A crash between the two moves.
    (tmp_path / "facts").rename(tmp_path / "facts.new")
    (tmp_path / "facts.old").mkdir()
    (tmp_path / "facts.old" / "page").write_text("secret")
    again = EdgeVectors(tmp_path)
    assert await again.count("facts") == 300
    await again.aclose()
    assert held(gone, "secret") == []


async def test_a_deleted_point_is_not_found_and_an_unknown_id_is_no_error(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1, dense=(1.0, 0.0, 0.0)), point(2, dense=(1.0, 0.0, 0.0))])
    await index.delete("facts", [pid(1), pid(99)])
    await index.delete("facts", [])
    assert ids(await index.query("facts", ask(words={1: 1.0}, dense=(1.0, 0.0, 0.0)))) == [pid(2)]
    assert ids(await index.scroll("facts")) == [pid(2)]


async def test_pages_by_id_show_every_point_once(index: VectorIndex) -> None:
    await index.ensure(SPEC)
    numbers = [random.Random(3).randrange(2**128) for _ in range(1)] + list(range(1, 24)) + [2**128 - 1]
    await index.upsert("facts", [point(number, ADA if number % 2 else BOB) for number in numbers])
    seen: list[str] = []
    after = None
    while page := await index.scroll("facts", after=after, limit=7):
        seen += ids(page)
        after = seen[-1]
    assert seen == sorted(pid(number) for number in numbers)
    own = await index.scroll("facts", owner=BOB, limit=100)
    assert ids(own) == sorted(pid(number) for number in numbers if number % 2 == 0)
    assert {(hit.score, hit.payload["owner"]) for hit in own} == {(0.0, BOB)}


async def test_more_points_than_one_batch(index: VectorIndex) -> None:
    await index.ensure(LEXICAL)
    await index.upsert("events", [point(number) for number in range(1, 701)])
    await index.upsert("events", [])
    assert await index.count("events") == 700


# -------------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "wrong",
    [
        Point("not-a-uuid", ADA, sparse({1: 1.0})),
        Point(pid(1).upper().replace("0", "A"), ADA, sparse({1: 1.0})),
        Point(pid(1), "", sparse({1: 1.0})),
        Point(pid(1), ADA, sparse({1: 1.0}), None, {"owner": BOB}),
        Point(pid(1), ADA, SparseVector((2, 1), (1.0, 1.0))),
        Point(pid(1), ADA, SparseVector((1, 1), (1.0, 1.0))),
        Point(pid(1), ADA, SparseVector((1,), (1.0, 2.0))),
        Point(pid(1), ADA, SparseVector((2**32,), (1.0,))),
        Point(pid(1), ADA, SparseVector((1,), (float("nan"),))),
        Point(pid(1), ADA, sparse({1: 1.0}), (1.0, float("inf"), 0.0)),
    ],
)
async def test_a_point_that_is_none_is_refused_before_anything_is_written(index: VectorIndex, wrong: Point) -> None:
    await index.ensure(SPEC)
    with pytest.raises(InvalidInput):
        await index.upsert("facts", [point(2), wrong])
    assert await index.count("facts") == 0


@pytest.mark.parametrize("name", ["", "Facts", "../facts", "a/b", "x" * 64])
async def test_a_name_that_could_leave_the_folder_is_refused(index: VectorIndex, name: str) -> None:
    with pytest.raises(InvalidInput, match="name of a vector collection"):
        await index.ensure(CollectionSpec(name, None, None))
    with pytest.raises(InvalidInput, match="name of a vector collection"):
        await index.count(name)


async def test_many_calls_at_once(index: VectorIndex) -> None:
    await index.ensure(SPEC)

    async def one(number: int) -> int:
        owner = f"acme/u/{number}"
        await index.upsert("facts", [point(number + 1, owner, words={number: 1.0}, dense=(1.0, 0.0, 0.0))])
        return len(await index.query("facts", ask(owner, words={number: 1.0}, dense=(1.0, 0.0, 0.0))))

    assert await asyncio.gather(*(one(number) for number in range(60))) == [1] * 60
    assert await index.count("facts") == 60


# -------------------------------------------------------------------------------------------------- the engine's own folder

WRITER = """
import asyncio, sys, uuid
from pathlib import Path
from memory.ports.vectors import CollectionSpec, Point, SparseVector
from memory.stores.vectors.edge import EdgeVectors

async def main():
    index = EdgeVectors(Path(sys.argv[1]), owner="the writing test process")
    await index.ensure(CollectionSpec("facts", 3, "toy", {"status": "keyword"}))
    for number in range(1, 1_000_000):
        await index.upsert("facts", [Point(str(uuid.UUID(int=number)), "acme/u/ada", SparseVector((1,), (1.0,)), (1.0, 0.0, 0.0))])
        print(number, flush=True)

asyncio.run(main())
"""


async def start_writer(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(folder), cwd=ROOT, stdout=asyncio.subprocess.PIPE)


async def acknowledged(writer: asyncio.subprocess.Process, least: int) -> int:
    assert writer.stdout is not None
    last = 0
    async with asyncio.timeout(60):
        while last < least and (line := await writer.stdout.readline()):
            last = int(line)
    return last


async def test_kill_9_loses_no_acknowledged_point(tmp_path: Path) -> None:
    """Dies by SIGKILL in mid write, more than once on one folder, past a flush of the engine too."""
    for least in (40, 2_500):
        writer = await start_writer(tmp_path)
        last = await acknowledged(writer, least)
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        rest = (await writer.stdout.read()).split()
        await writer.wait()
        last = int(rest[-1]) if rest else last
        index = EdgeVectors(tmp_path)
        try:
            await index.ensure(CollectionSpec("facts", 3, "toy", {"status": "keyword"}))
            assert list(await index.missing_indexes(CollectionSpec("facts", 3, "toy", {"status": "keyword"}))) == []
            found = {int(uuid.UUID(hit.point_id)) for hit in await index.scroll("facts", limit=10_000)}
            assert set(range(1, last + 1)) <= found
            assert len(await index.query("facts", ask(words={1: 1.0}, dense=(1.0, 0.0, 0.0), limit=300))) == 300 or last < 300
        finally:
            await index.aclose()


async def test_a_folder_in_use_is_said_with_the_process_that_uses_it(tmp_path: Path) -> None:
    writer = await start_writer(tmp_path)
    try:
        await acknowledged(writer, 1)
        index = EdgeVectors(tmp_path)
        with pytest.raises(FolderInUse) as caught:
            await index.ping()
        await index.aclose()
    finally:
        writer.kill()
        await writer.communicate()
    message = str(caught.value)
    assert f"process {writer.pid} (the writing test process)" in message
    assert "AFTERTURN_DATA_DIR" in message
    assert str(tmp_path) in message


async def test_the_folder_is_free_again_after_closing_and_nothing_is_lost(tmp_path: Path) -> None:
    first = EdgeVectors(tmp_path)
    second = EdgeVectors(tmp_path)
    await first.ensure(SPEC)
    await first.upsert("facts", [point(1, dense=(1.0, 0.0, 0.0), status="active")])
    with pytest.raises(FolderInUse, match=rf"the vectors in .* are in use by process {os.getpid()} .*AFTERTURN_VECTOR_URL"):
        await second.count("facts")
    await first.aclose()
    await first.aclose()
    assert await second.count("facts") == 1
    with pytest.raises(StoreUnavailable, match="closed"):
        await first.count("facts")
    await second.aclose()


async def test_what_a_crash_left_while_a_collection_was_made_is_no_obstacle(tmp_path: Path) -> None:
    index = EdgeVectors(tmp_path)
    await index.ensure(SPEC)
    await index.upsert("facts", [point(1)])
    await index.aclose()
    (tmp_path / "facts.new" / "segments").mkdir(parents=True)
    (tmp_path / "facts.old").mkdir()
    (tmp_path / "facts.old" / "leftover").write_text("x")
    index = EdgeVectors(tmp_path)
    await index.ensure(SPEC)
    assert await index.count("facts") == 1
    await index.recreate(SPEC)
    assert await index.count("facts") == 0
    await index.aclose()
    assert sorted(os.listdir(tmp_path)) == ["facts", "lock"]


async def test_a_sidecar_that_cannot_be_read_is_said_with_its_path(tmp_path: Path) -> None:
    index = EdgeVectors(tmp_path)
    await index.ensure(SPEC)
    await index.aclose()
    (tmp_path / "facts" / "afterturn.json").write_text("{")
    index = EdgeVectors(tmp_path)
    with pytest.raises(InvalidSettings, match=r"afterturn\.json is not readable"):
        await index.ensure(SPEC)
    await index.recreate(SPEC)  # what `afterturn reindex` does
    assert await index.count("facts") == 0
    await index.aclose()


async def test_the_embedded_index_takes_no_lock_before_it_is_used(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path)
    idle, user = build_vectors(settings), build_vectors(settings)
    assert not (tmp_path / "vectors").exists()
    await user.ensure(LEXICAL)
    await idle.aclose()
    await user.aclose()


async def test_a_server_goes_before_a_service_goes_before_the_engine(tmp_path: Path) -> None:
    service = {"vector_service_url": "http://127.0.0.1:1", "vector_api_key": "key", "data_dir": tmp_path}
    made = [
        build_vectors(load_settings({}, **service, vector_url="http://127.0.0.1:6333")),
        build_vectors(load_settings({}, **service)),
        build_vectors(load_settings({}, data_dir=tmp_path)),
    ]
    assert [type(one) for one in made] == [ServerVectors, RemoteVectorIndex, EdgeVectors]
    for one in made:
        await one.aclose()
    with pytest.raises(InvalidSettings, match="AFTERTURN_VECTOR_API_KEY"):
        build_vectors(load_settings({}, vector_service_url="http://127.0.0.1:1", data_dir=tmp_path))


async def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    index = EdgeVectors(tmp_path / "file" / "vectors")
    with pytest.raises(InvalidSettings, match="AFTERTURN_DATA_DIR"):
        await index.ping()
    await index.aclose()
