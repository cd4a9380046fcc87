"""A retry, a rerun of a step, a crash anywhere between the writes: the end state is that of an undisturbed run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.categories.spec import Stores
from memory.model.category import Category
from memory.model.errors import StoreUnavailable
from tests.support.extracted import Memory, open_memory

C, B, P, K, T = Category.CONTACTS, Category.BIOS, Category.RESPONSE_POLICIES, Category.KNOWLEDGE, Category.TASKS

TEXTS = (
    (
        "The Atlas release is on 20 April. Invoices above 500 € need two signatures.",
        "My colleague Mara Lind, mara@lumen.example, joins us. Mara Lind comes from Oslo and has two brothers.",
        "Please send Mara the contract by Friday. Please never call Mara after six.",
        "To restart the print server, first log in as operator, then open the console and run the reset job.",
    ),
    (
        "The Atlas release moves to 4 May. Correction: invoices above 800 € need two signatures.",
        "Mara left Lumen, Mara now works at Kite, her number is +49 30 1234567 and she lives in Bergen.",
        "The contract is sent. Mara Lindholm is the same person as Mara Lind. Always answer Mara in German from now on.",
        "No, sorry: the Atlas release moves to 11 May.",
    ),
)
POOL: tuple[tuple[int, Category, dict[str, Any]], ...] = (
    (0, C, {"action": "create", "contact": "new1", "first_name": "Mara", "email_address": "mara@lumen.example", "line": 2}),
    (0, C, {"action": "create", "contact": "new2", "first_name": "Mara", "surname": "Lind", "line": 2}),
    (0, C, {"action": "update", "contact": "c2", "job_title": "Colleague", "email_address": "mara@lumen.example", "line": 2}),
    (0, C, {"action": "merge", "contact": "c2", "merge_with": "c3", "line": 2}),
    (0, B, {"contact": "c2", "text": "Mara comes from Oslo.", "line": 2}),
    (0, B, {"contact": "new1", "text": "Mara has two brothers.", "line": 2}),
    (0, P, {"contact": "c2", "text": "Never call Mara after six.", "line": 3}),
    (0, K, {"statement": "The Atlas release is on 20 April.", "subject": "Atlas release"}),
    (0, K, {"statement": "the Atlas release is on 20 April", "subject": "Atlas"}),
    (0, K, {"statement": "Invoices above 500 € need two signatures.", "subject": "invoices"}),
    (0, K, {"statement": "The print server is restarted with the reset job.", "subject": "Print server", "line": 4}),
    (0, K, {"statement": "Restart the print server as operator.", "subject": "Print server", "line": 4}),
    (0, T, {"action": "create", "name": "Send Mara the contract", "contact": "c2", "deadline": "2026-06-19", "line": 3}),
    (0, T, {"action": "create", "name": "Send the contract to Mara", "priority": "high", "line": 3}),
    (1, C, {"action": "update", "contact": "c2", "phone_number": "+49301234567", "job_title": "Designer", "line": 2}),
    (1, C, {"action": "update", "contact": "c3", "phone_number": "+49301234567", "line": 2}),
    (1, C, {"action": "merge", "contact": "c3", "merge_with": "c2", "line": 3}),
    (1, B, {"contact": "c2", "text": "Mara works at Kite.", "line": 2}),
    (1, B, {"contact": "c3", "text": "Mara lives in Bergen.", "line": 2}),
    (1, P, {"contact": "c2", "text": "Always answer Mara in German.", "line": 3}),
    (1, K, {"statement": "The Atlas release moves to 4 May.", "subject": "Atlas release"}),
    (1, K, {"statement": "The Atlas release moves to 11 May.", "subject": "Atlas release", "line": 4}),
    (1, K, {"statement": "Invoices above 800 € need two signatures.", "subject": "invoices"}),
    (1, T, {"action": "create", "name": "Send Mara the contract", "line": 3}),
    (1, T, {"action": "update", "task": "t1", "status": "done", "line": 3}),
)  # fmt: skip
ORDER = (C, B, P, K, T)
WRITES = ("apply", "add")


class Crash(Exception):
    """The process died."""


@dataclass
class Fuse:
    """Counts writes; the one with this number fails: before it is made, or after it, its answer lost."""

    left: int
    after: bool

    async def burn(self, write: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash
        done = await write()
        if self.left == 0:
            raise Crash
        return done


class Fused:
    def __init__(self, store: Any, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in WRITES:
            return found

        async def write(*args: Any, **kwargs: Any) -> Any:
            return await self._fuse.burn(lambda: found(*args, **kwargs))

        return write


def fused(stores: Stores, fuse: Fuse) -> Stores:
    names = ("facts", "contacts", "tasks", "guidance", "functions")
    return replace(stores, **{name: Fused(getattr(stores, name), fuse) for name in names})


async def prepare(memory: Memory) -> dict[str, str]:
    return {
        "c2": await memory.add_contact("mara", first_name="Mara", surname="Lind", bio="Mara works at Lumen. Mara plays the cello."),
        "c3": await memory.add_contact("ml", first_name="Mara", surname="Lindholm"),
    }


async def consolidate(
    memory: Memory, number: int, chosen: frozenset[int], refs: Mapping[str, str], tries: list[tuple[int, bool]]
) -> None:
    """One window, category by category, from the beginning again after every crash; at last undisturbed, and then once more."""
    stores = memory.stores
    window, events = memory.window(*TEXTS[number])
    tasks = await memory.tasks()
    known = {**refs, **({"t1": tasks[0].task_id} if tasks else {})}
    for left, after in [*tries, (0, False)]:
        memory.stores = fused(stores, Fuse(left, after))
        given = dict(known)
        try:
            for category in ORDER:
                items = [
                    item for place, (of, kind, item) in enumerate(POOL) if place in chosen and of == number and kind is category
                ]
                given |= (await memory.apply(category, window, events, items, refs=given)).refs
        except Crash:
            continue
        finally:
            memory.stores = stores


CRASHES = st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=2)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.frozensets(st.integers(0, len(POOL) - 1)), CRASHES, CRASHES, st.integers(0, 2))
async def test_any_items_with_any_crashes_end_as_undisturbed(
    chosen: frozenset[int], first: list[tuple[int, bool]], second: list[tuple[int, bool]], repeats: int
) -> None:
    ends: list[str] = []
    for crashes in (([], []), (first + [(0, False)] * repeats, second + [(0, False)] * repeats)):
        async with open_memory("sqlite://") as memory:
            refs = await prepare(memory)
            for number in range(len(TEXTS)):
                await consolidate(memory, number, chosen, refs, crashes[number])
            ends.append(await memory.snapshot())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("chosen", [frozenset(range(len(POOL))), frozenset({0, 4, 7, 9, 12, 16, 17, 20, 24})])
async def test_crashes_on_a_database_file_and_a_server(sql_url: str, chosen: frozenset[int]) -> None:
    async with open_memory("sqlite://") as memory:
        refs = await prepare(memory)
        for number in range(len(TEXTS)):
            await consolidate(memory, number, chosen, refs, [])
        undisturbed = await memory.snapshot()
    async with open_memory(sql_url) as memory:
        refs = await prepare(memory)
        for number in range(len(TEXTS)):
            await consolidate(memory, number, chosen, refs, [(1, True), (2, False), (3, True), (4, True), (5, False)])
        assert await memory.snapshot() == undisturbed


async def test_a_retry_counts_what_the_first_try_counted(sqlite_url: str) -> None:
    async with open_memory(sqlite_url) as memory:
        await memory.take(K, ["The Atlas release is on 20 April."], {"statement": "The Atlas release is on 20 April."})
        first = await memory.take(K, ["The Atlas release moves to 4 May."], {"statement": "The Atlas release moves to 4 May."})
        assert await memory.again() == first


async def test_what_was_refused_stays_refused_when_the_window_is_applied_again(sqlite_url: str) -> None:
    async with open_memory(sqlite_url) as memory:
        one = await memory.add_contact("mara", first_name="Mara", phone_number="+49301234567")
        other = await memory.add_contact("x", first_name="Xenia")
        item = {"action": "merge", "contact": "c2", "merge_with": "c3"}
        await memory.take(C, ["Mara and Xenia wrote."], item, refs={"c2": one, "c3": other})
        window = memory.last
        update = {"action": "update", "contact": "c3", "whatsapp_number": "+49301234567"}
        await memory.take(C, ["Xenia: +49301234567"], update, refs={"c3": other})
        memory.last = window
        await memory.again()
        assert len(await memory.contacts()) == 2


async def test_a_store_that_is_away_is_said_so(sqlite_url: str) -> None:
    async with open_memory(sqlite_url) as memory:
        window, events = memory.window("The Atlas release is on 20 April.")

        class Away:
            def __getattr__(self, name: str) -> Any:
                async def fail(*_: Any, **__: Any) -> Any:
                    raise StoreUnavailable("away")

                return fail

        memory.stores = replace(memory.stores, facts=Away())  # type: ignore[arg-type]
        with pytest.raises(StoreUnavailable):
            await memory.apply(K, window, events, [{"statement": "The Atlas release is on 20 April."}])
