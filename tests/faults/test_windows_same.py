"""What windows end in is a matter of what was said: not of how far the search index is, of who holds its engine, or of how often a
step was begun before it was done. A few users of the long stream, step by step, without a server."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.categories import spec_of
from memory.categories.spec import ApplyContext, Stores
from memory.extraction import Extractor, load_known
from memory.llm.simulated import SimulatedModel
from memory.llm.tokens import counter_for
from memory.model.category import Category
from memory.model.errors import MalformedOutput, ModelRateLimited, ModelUnavailable
from memory.model.items import Grounded
from memory.model.scope import Scope
from memory.model.window import Extraction, Window, WindowState, WindowTrigger
from memory.ports import ChatModel, ChatReply, ChatRequest, WindowResult
from memory.retrieval import SearchIndex
from memory.stores.tables import Tables, build_tables
from memory.stores.vectors.edge import EdgeVectors
from starter.search import index_over, stores_of
from tests.support.event_stream import CATEGORIES, EVENTS, MISBEHAVIOUR, SEED, Seen, differences, look, stream, user
from tests.support.fleet import migrated_file
from tests.support.wires import Flaky, Point

USERS = (4, 9)
SIZE = 50
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
SPECS = [spec_of(Category(name)) for name in CATEGORIES]
TRIES = 20


@dataclass
class Unsteady:
    """The simulated model behind a provider whose calls fail now and then."""

    inner: ChatModel
    flaky: Flaky
    calls: int = 0
    name: str = "simulated"
    reasoning: bool = False

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        await self.flaky.at(Point(f"model.{request.stage}", "before", self.calls))
        return await self.inner.complete(request)


@dataclass
class Steps:
    """The steps of a window as a worker takes them.

    ``synced``: after which windows the index is brought up to date. ``again``: every step is taken twice, as after a death before
    its acknowledgement. ``flaky``: calls of the model fail, and whoever tries again knows nothing of the first try.
    """

    tables: Tables
    index: SearchIndex
    synced: Callable[[int], bool] = lambda _: False
    again: bool = False
    flaky: bool = False
    workers: int = 0

    @property
    def stores(self) -> Stores:
        return stores_of(self.tables, self.index)

    def model(self) -> ChatModel:
        model = SimulatedModel("simulated", MISBEHAVIOUR, SEED, 0, counter_for("simulated", ""))
        self.workers += 1
        return Unsteady(model, Flaky(0.3 if self.flaky else 0.0, f"worker {self.workers}"))

    async def run(self) -> Seen:
        for scope in map(user, USERS):
            await self.tables.log.record_events(scope, stream(int(scope.user[-2:])), now=NOW)
            for number, first in enumerate(range(1, EVENTS + 1, SIZE)):
                await self.window(scope, first, min(first + SIZE - 1, EVENTS))
                if self.synced(number):
                    await self.index.sync_documents(scope)
        return await look(self.stores, [user(number) for number in USERS])

    async def window(self, scope: Scope, first: int, last: int) -> None:
        window = Window(
            scope=scope,
            window_id=f"w{first}",
            trigger=WindowTrigger.SIZE,
            first_seq=first,
            last_seq=last,
            events=last - first + 1,
            categories=tuple(spec.category for spec in SPECS),
            planned_at=NOW + timedelta(minutes=first),
        )
        await self.tables.windows.plan(window)
        model = self.model()
        extraction = await self.extracted(window, model)
        if self.again:
            extraction = await self.extracted(window, model)
        refs = dict(extraction.refs)
        for category in window.categories:
            for _ in range(2 if self.again else 1):
                refs |= await self.applied(window, extraction, category, refs)
        done = WindowResult(state=WindowState.DONE)
        assert await self.tables.windows.commit(scope, window.window_id, 0, done, now=window.planned_at)

    async def extracted(self, window: Window, model: ChatModel) -> Extraction:
        events = await self.tables.windows.window_events(window)
        now = window.planned_at
        for _ in range(TRIES):
            known = await load_known(self.stores, window.scope, events, specs=SPECS, now=now)
            with suppress(ModelRateLimited, ModelUnavailable, MalformedOutput):
                result = await Extractor(model, timeout_s=10).run(window, events, known, SPECS, now=now)
                return result.extraction
            model = self.model()
        raise AssertionError("no try succeeded")

    async def applied(self, window: Window, extraction: Extraction, category: Category, refs: dict[str, str]) -> dict[str, str]:
        spec, found = spec_of(category), extraction.of(category)
        assert found is not None
        events = await self.tables.windows.window_events(window)
        items = [Grounded[spec.item].model_validate(item) for item in found.items]
        context = ApplyContext(window=window, events=events, refs=refs, stores=self.stores, now=window.planned_at)
        return dict((await spec.apply(items, context)).refs)


@asynccontextmanager
async def opened(folder: Path, template: Path) -> AsyncGenerator[tuple[Tables, SearchIndex]]:
    shutil.copyfile(template, folder / "memory.db")
    tables = build_tables(f"sqlite:///{folder / 'memory.db'}")
    index = index_over(tables, EdgeVectors(folder / "vectors", timeout_s=60))
    index.facts.rows_when_in_use = True
    try:
        yield tables, index
    finally:
        await index.aclose()
        await tables.aclose()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return migrated_file(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Seen:
    """Every step once, the index up to date after every window."""

    async def run() -> Seen:
        async with opened(tmp_path_factory.mktemp("calm"), template) as (tables, index):
            return await Steps(tables, index, synced=lambda _: True).run()

    # In a thread: a fixture of the module has no event loop of its own.
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(asyncio.run, run()).result()
    assert sum(len(whose["facts"]) for whose in seen.values()) > 10
    return seen


@pytest.mark.parametrize("synced", [(), (0,)], ids=["never", "after the first"])
async def test_how_far_the_index_is_changes_nothing(calm: Seen, tmp_path: Path, template: Path, synced: tuple[int, ...]) -> None:
    async with opened(tmp_path, template) as (tables, index):
        assert differences(calm, await Steps(tables, index, synced=lambda number: number in synced).run()) == {}


async def test_a_worker_beside_the_engines_owner_changes_nothing(calm: Seen, tmp_path: Path, template: Path) -> None:
    holder = EdgeVectors(tmp_path / "vectors", timeout_s=60)
    async with opened(tmp_path, template) as (tables, index):
        await holder.ping()
        assert differences(calm, await Steps(tables, index).run()) == {}
    await holder.aclose()


async def test_steps_that_are_taken_again_and_calls_that_fail_change_nothing(calm: Seen, tmp_path: Path, template: Path) -> None:
    async with opened(tmp_path, template) as (tables, index):
        steps = Steps(tables, index, synced=lambda number: number == 0, again=True, flaky=True)
        assert differences(calm, await steps.run()) == {}
        assert steps.workers > 3 * len(USERS)
