"""Reconciliation and reindex: drift is found and mended, deleted things stay deleted, work that was cut short goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.windows import WindowActivities
from memory.metering import Meter
from memory.model.errors import InvalidInput, InvalidSettings, StoreUnavailable
from memory.model.event import Event, MessageEvent
from memory.model.lexical import document_terms
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.window import Window, WindowState
from memory.model.window_steps import ReconcileInput, ReconcilePlace, ReconcileReply
from memory.ports import Expirable, Point, SparseVector, TermStatistics, WindowResult
from memory.retrieval import Cursor
from memory.retrieval.documents import BATCH, point_id
from tests.activities.test_window_plan import RULES
from tests.retrieval.conftest import ToyEmbedder, World
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW


async def filled(world: World) -> None:
    for number in range(5):
        await world.add_fact(f"f{number}", f"fact number{number} about the garden")
        await world.add_fact(f"b{number}", f"fact number{number} about the garden", owner=BOBS)
    await world.meet("Ada", "ada@example.com")
    await world.say("hello garden", "how are you", "fine")
    await world.say("hello garden", scope=BOB)
    await world.index.sync_documents(None)
    for scope in (ANN, BOB):
        await world.index.events.index(scope)
        await world.index.events.embed(scope)


def stray(owner: Owner, kind: str, name: str, **payload: object) -> Point:
    return Point(point_id(owner, kind, name), owner.path, SparseVector((1,), (1.0,)), None, {"id": name, "revision": 1, **payload})


class TestReconcile:
    async def test_no_drift(self, world: World) -> None:
        await filled(world)
        report = await world.index.reconcile(limit=10_000)
        assert report.drift == 0
        assert report.checked["facts"] == 10
        assert report.checked["events"] == 4
        assert not any(report.repaired.values())

    async def test_what_is_missing_is_put_back(self, world: World) -> None:
        await filled(world)
        await world.vectors.delete("afterturn_facts", [point_id(ANNS, "facts", "f1")])
        await world.vectors.delete_owner("afterturn_events", ANNS.path)
        report = await world.index.reconcile(limit=10_000)
        assert (report.missing["facts"], report.missing["events"]) == (1, 3)
        assert (report.repaired["facts"], report.repaired["events"]) == (1, 3)
        assert "f1" in await world.find_facts("number1")
        assert (await world.index.reconcile(limit=10_000)).drift == 0

    async def test_an_owner_who_is_deleted_meanwhile_gets_no_more_points(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(BATCH + 6):
            await world.add_fact(f"f{number:03}", f"fact number{number}")
        await world.index.sync_documents(None)
        await world.vectors.delete_owner("afterturn_facts", ANNS.path)
        real, written = world.vectors.upsert, list[int]()

        async def deleted_meanwhile(collection: str, points: Sequence[Point]) -> None:
            await world.tables.erasures.erase_rows(ANN)
            written.append(len(points))
            await real(collection, points)

        monkeypatch.setattr(world.vectors, "upsert", deleted_meanwhile)
        await world.index.reconcile(limit=10_000)
        # The batch under way is what an erasure waits for; the look at points without an owner takes it too.
        assert written == [BATCH]
        assert await world.points("facts") == 0

    async def test_what_has_no_row_goes(self, world: World) -> None:
        await filled(world)
        ghost = Owner.user(Scope.of("acme", "ghost"))
        await world.vectors.upsert("afterturn_facts", [stray(ANNS, "facts", "gone"), stray(ghost, "facts", "gone")])
        await world.vectors.upsert("afterturn_events", [stray(ghost, "events", "1", seq=1)])
        report = await world.index.reconcile(limit=10_000)
        assert (report.orphaned["facts"], report.orphaned["events"]) == (2, 1)
        assert (await world.points("facts"), await world.points("events")) == (10, 4)

    async def test_an_old_revision_is_written_again(self, world: World) -> None:
        await filled(world)
        await world.vectors.upsert("afterturn_facts", [_lexical(ANNS, "f1", revision=0)])
        report = await world.index.reconcile(limit=10_000)
        assert report.stale["facts"] == 1
        assert (await world.find_facts("number1"))[0] == "f1"

    async def test_only_looking_changes_nothing(self, world: World) -> None:
        await filled(world)
        await world.vectors.delete("afterturn_facts", [point_id(ANNS, "facts", "f1")])
        report = await world.index.reconcile(limit=10_000, repair=False)
        assert report.missing["facts"] == 1
        assert not any(report.repaired.values())
        assert await world.points("facts") == 9

    async def test_a_look_at_a_part_takes_nothing_else_for_drift_and_the_next_goes_on(self, world: World) -> None:
        await filled(world)
        await world.vectors.delete(
            "afterturn_facts", [point_id(owner, "facts", name) for owner, name in ((ANNS, "f1"), (BOBS, "b1"))]
        )
        places: dict[str, Cursor] = {}
        reports = [await world.index.reconcile(limit=1, cursors=places) for _ in range(3)]
        assert [report.checked["facts"] for report in reports[:2]] == [5, 5]
        assert sum(report.missing["facts"] for report in reports) == 2
        assert sum(report.orphaned["facts"] for report in reports) == 0
        assert await world.points("facts") == 10

    async def test_another_process_goes_on_where_the_result_of_the_last_pass_says(self, world: World) -> None:
        await filled(world)
        places: dict[str, ReconcilePlace] = {}
        looked_at: list[tuple[int, int]] = []
        for _ in range(2):
            unused: Any = None
            meter, index = Meter(world.tables.usage, cap=0), world.another(world.embedder)
            steps = WindowActivities(world.tables.windows, unused, unused, index, meter, RULES, unused)
            reply = await ActivityEnvironment().run(steps.reconcile, ReconcileInput(limit=1, places=places))
            looked_at.append((reply.checked["facts"], reply.checked["events"]))
            places = ReconcileReply.model_validate_json(reply.model_dump_json()).places
        assert looked_at == [(5, 3), (5, 1)], "first one user's, then the other's"

    async def test_what_was_written_while_the_embedder_was_away_gets_its_meaning(self, hybrid: World) -> None:
        await filled(hybrid)
        document = next(one for one in await hybrid.tables.facts.documents(after=None) if one.document_id == "f1")
        await hybrid.vectors.upsert("afterturn_facts", [_lexical(document.owner, "f1", document.revision)])
        report = await hybrid.index.reconcile(limit=10_000)
        assert report.stale["facts"] == 1
        assert all(hit.payload["embedded"] for hit in await hybrid.vectors.scroll("afterturn_facts"))


def _lexical(owner: Owner, name: str, revision: int) -> Point:
    payload = {"id": name, "revision": revision, "embedded": 0, "kind": "fact", "status": "active"}
    return Point(point_id(owner, "facts", name), owner.path, SparseVector((1,), (1.0,)), None, payload)


class TestDeleted:
    async def test_one_users_deletion_leaves_the_others(self, world: World) -> None:
        await filled(world)
        await world.tables.facts.delete(ANNS, [f"f{number}" for number in range(5)], now=NOW)
        await world.index.sync_documents(ANN)
        await world.index.events.remove(ANN, [1, 2, 3])
        assert (await world.points("facts", ANNS), await world.points("facts", BOBS)) == (0, 5)
        assert (await world.points("events", ANNS), await world.points("events", BOBS)) == (0, 1)

    async def test_what_is_deleted_stays_so_after_a_reindex_and_a_reconciliation(self, world: World) -> None:
        await filled(world)
        await world.tables.facts.delete(ANNS, ["f1"], now=NOW)
        for step in (None, world.index.reindex):
            if step is not None:
                await step()
            await world.index.reconcile(limit=10_000)
            assert "f1" not in await world.find_facts("fact number1 garden", limit=50)
        assert await world.points("facts") == 9


class TestReindex:
    async def test_everything_is_found_again(self, world: World) -> None:
        await filled(world)
        done = await world.index.reindex()
        assert (done["facts"], done["guidance"], done["functions"], done["events"]) == (10, 0, 0, 4)
        assert (await world.points("facts"), await world.points("events")) == (10, 4)
        assert len(await world.find_facts("garden")) == 5
        assert (await world.find("hello garden"))[0] == "hello garden"
        assert (await world.index.reconcile(limit=10_000)).drift == 0

    async def test_another_embedder_is_refused_until_the_index_is_built_anew(self, hybrid: World) -> None:
        await filled(hybrid)
        other = hybrid.another(ToyEmbedder("other", dimension=16))
        with pytest.raises(InvalidSettings, match="reindex"):
            await other.check()
        done = await other.reindex()
        assert done["facts"] == 10
        await other.check()
        assert (await hybrid.another(ToyEmbedder("other", dimension=16)).reconcile(limit=10_000)).drift == 0

    async def test_cut_short_it_goes_on(self, hybrid: World) -> None:
        await filled(hybrid)
        assert hybrid.embedder is not None
        hybrid.embedder.away = True
        with pytest.raises(StoreUnavailable):
            await hybrid.index.reindex()
        assert len(await hybrid.find_facts("garden")) == 5
        hybrid.embedder.away = False
        await hybrid.index.sync_documents(None)
        assert await hybrid.points("facts") == 10
        done = await hybrid.index.reindex()
        assert (done["facts"], done["events"]) == (10, 4)

    async def test_term_statistics_do_not_count_twice(self, world: World) -> None:
        await filled(world)
        before = [await world.tables.terms.statistics("acme", [ANNS.key], kind, []) for kind in ("facts", "events")]
        await world.index.reindex()
        assert [await world.tables.terms.statistics("acme", [ANNS.key], kind, []) for kind in ("facts", "events")] == before

    async def test_one_kind_and_an_unknown_one(self, world: World) -> None:
        await filled(world)
        assert set(await world.index.reindex(["events"])) == {"events"}
        with pytest.raises(InvalidInput, match="there are facts"):
            await world.index.reindex(["facsimiles"])


class TestExpiry:
    """Messages whose time is over leave the index, then the log; a failure in between leaves nothing that is found."""

    async def consolidated(self, world: World) -> None:
        await world.say("The heron nests by the lock.", "It has three eggs.", "The survey is on Monday.")
        await world.say("A heron of my own.", scope=BOB)
        for scope, last in ((ANN, 3), (BOB, 1)):
            await world.index.events.index(scope)
            await world.index.events.embed(scope)
            window = Window(scope=scope, window_id="w1", first_seq=1, last_seq=last, events=last, planned_at=NOW)
            await world.tables.windows.plan(window)
            await world.tables.windows.commit(scope, "w1", 0, WindowResult(WindowState.SKIPPED), now=NOW)

    async def due(self, world: World, limit: int = 10) -> Expirable:
        found = await world.tables.windows.expirable_events("acme", before=NOW + timedelta(days=1), limit=limit)
        return next(one for one in found if one.scope == ANN)

    async def expire(self, world: World, limit: int = 10) -> None:
        due = await self.due(world, limit)
        counted = await world.index.events.forget(due)
        ledger = world.tables.windows
        assert await ledger.expire_events(due, document_frequencies=counted.frequencies, length=counted.length)

    async def check_that_no_heron_is_found(self, world: World) -> None:
        found = await world.find("heron nests lock")
        assert "The heron nests by the lock." not in found
        assert world.embedder is not None or found == [], "its words are gone from its neighbours too"

    async def test_nothing_of_them_is_found_also_not_by_what_was_said_around(self, world: World) -> None:
        await self.consolidated(world)
        assert "It has three eggs." in await world.find("heron"), "a message is found with its neighbours' words"
        await self.expire(world, limit=1)
        await self.check_that_no_heron_is_found(world)
        assert (await world.find("eggs"))[0] == "It has three eggs."
        assert await world.find("heron", scope=BOB) == ["A heron of my own."]
        assert (await world.index.reconcile(limit=10_000)).drift == 0

    async def test_cut_short_before_the_log_nothing_is_found_and_the_next_pass_goes_on(self, world: World) -> None:
        await self.consolidated(world)
        await world.index.events.forget(await self.due(world, limit=1))
        await self.check_that_no_heron_is_found(world)
        assert (await self.due(world)).seqs == (1, 2, 3), "they are still to be expired"
        await self.expire(world)
        assert await world.points("events", ANNS) == 0
        assert [text_of(one.event) for one in await world.tables.windows.events(ANN, 1, 3)] == [None, None, None]

    async def test_they_no_longer_count_in_the_term_statistics(self, world: World) -> None:
        await self.consolidated(world)
        terms = [*document_terms("heron eggs survey nests lock three Monday")]

        async def counts() -> TermStatistics:
            return await world.tables.terms.statistics("acme", [ANNS.key], "events", terms)

        await self.expire(world, limit=2)
        after = await counts()
        await world.index.reindex(["events"])
        assert after == await counts(), "as if they had never been there"
        assert after.documents == 1
        await self.expire(world)
        assert await counts() == TermStatistics(0, 0, {})
        assert (await world.tables.terms.statistics("acme", [BOBS.key], "events", terms)).documents == 1

    async def test_what_was_indexed_meanwhile_is_left_to_the_next_pass(self, world: World) -> None:
        await self.consolidated(world)
        due = await self.due(world)
        counted = await world.index.events.forget(due)
        await world.tables.windows.reset_index(ANN)
        ledger = world.tables.windows
        assert not await ledger.expire_events(due, document_frequencies=counted.frequencies, length=counted.length)
        assert (await self.due(world)).seqs == (1, 2, 3)

    async def test_neighbours_lose_their_meaning_for_a_while_when_the_embedder_is_away(self, hybrid: World) -> None:
        await self.consolidated(hybrid)
        assert hybrid.embedder is not None
        hybrid.embedder.away = True
        await self.expire(hybrid, limit=1)
        hybrid.embedder.away = False
        assert (await hybrid.index.reconcile(limit=10_000)).stale["events"] == 2
        assert all(hit.payload["embedded"] for hit in await hybrid.vectors.scroll("afterturn_events"))


def text_of(event: Event) -> str | None:
    assert isinstance(event, MessageEvent)
    return event.content
