"""One search over everything that is remembered of a user."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.event import MessageEvent
from memory.model.profile import SECTIONS, Bullet, Profile
from memory.model.scope import Scope
from memory.model.window import Window, WindowState
from memory.ports import CreateContact, WindowResult
from tests.starter.conftest import MakeWorld, World
from tests.support.records import create_task

ANN, BOB = ("acme", "ann"), ("acme", "bob")
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)


async def fill(world: World, who: tuple[str, str]) -> None:
    memory, scope = world.client(), Scope.of(*who)
    bullets = {"Identity": ("Lives in Zürich",), "Work Context": ("Renovates the harbour", "Leads the Atlas project")}
    await world.save(who, Profile(tuple(tuple(Bullet(one) for one in bullets.get(name, ())) for name in SECTIONS)))
    await memory.add_facts(who, ["The harbour closes at 22:00.", "Invoices above 500 € need two signatures."])
    person = CreateContact("c", {"first_name": "Mara", "job_title": "Harbour pilot"}, ("mara@example.com",))
    await world.tables.contacts.apply(scope, [person], origin="manual", now=NOW)
    await world.tables.tasks.apply(scope, [create_task(name="Call the harbour office", description="Before noon.")], now=NOW)
    await memory.guidance.add(who, "Entering the harbour", "Ask the pilot first.")
    await memory.functions.add(who, "harbour_fee", "def harbour_fee(): ...", docstring="What the harbour costs.")
    said = MessageEvent(event_id="e1", timestamp=NOW, sender_id="user", content=f"The harbour was full. {'x ' * 900}")
    await world.tables.log.record_events(scope, [said], now=NOW)
    await world.tables.windows.plan(Window(scope=scope, window_id="w1", first_seq=1, last_seq=1, events=1, planned_at=NOW))
    await world.tables.windows.commit(scope, "w1", 0, WindowResult(WindowState.SKIPPED), now=NOW)
    await world.index.events.index(scope)


async def test_what_fits_is_found_in_all_kinds_with_ids_to_go_on_with(make_world: MakeWorld) -> None:
    world = make_world()
    for who in (ANN, BOB):
        await fill(world, who)
    memory = world.client()
    found = await memory.search_all(ANN, "HARBOUR")
    kinds = [item.kind for item in found.items]
    assert list(dict.fromkeys(kinds)) == ["profile", "fact", "contact", "task", "guidance", "function", "message"]
    [bullet] = found.of("profile")
    assert (bullet.text, bullet.title, bullet.item_id) == ("Renovates the harbour", "Work Context", "Work Context/1")
    assert found.of("contact")[0].title == "Mara"
    assert found.of("contact")[0].item_id == "2"
    assert found.of("task")[0].item_id == "t1"
    assert [fact.text for fact in found.of("fact")] == ["The harbour closes at 22:00."]
    assert all(item.by_words for item in found.items)
    assert all(len(item.text) <= 600 for item in found.items)
    assert found.unavailable == {}

    [accents] = (await memory.search_all(ANN, "zurich")).items
    assert accents.text == "Lives in Zürich"
    assert [item.text for item in (await memory.search_all(ANN, "arbou", limit=1)).items] == ["Renovates the harbour"]
    assert (await memory.search_all(("acme", "nobody"), "harbour")).items == ()
    assert (await memory.search_all(ANN, "xylophone")).items == ()


async def test_what_cannot_be_searched_is_named(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    await fill(world, ANN)
    memory = world.client()
    world.directory.down = True
    found = await memory.search_all(ANN, "harbour")
    assert set(found.unavailable) == {"profile", "fact", "guidance", "function"}
    assert {item.kind for item in found.items} >= {"contact", "task"}
    await world.tables.aclose()
    with pytest.raises(MemoryUnavailable, match="nothing can be searched"):
        await memory.search_all(ANN, "harbour")
    for query, limit in (("  ", 5), ("x", 0), ("x", 51)):
        with pytest.raises(InvalidInput):
            await memory.search_all(ANN, query, limit=limit)
