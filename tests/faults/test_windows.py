"""FAULTS 4, 6, 8, 10, 11, 14, 16, 17, 18, 19, 20, 22, 26 of the event window: real Temporal, S3 and SQLite, whole product."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from memory.model.errors import AfterturnError
from memory.model.fact import Fact, FactStatus
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.window import Window, WindowState
from starter.views import ReceiptStatus
from tests.support.stack import START, Stack, StartStack

ALL = {f"memory_{name}": True for name in ("contacts", "bios", "rolling_summaries", "response_policies", "knowledge", "tasks")}
KNOWLEDGE_ONLY: dict[str, Any] = {name: name == "memory_knowledge" for name in ALL}

_minutes = 0


def said(content: str | None, *, sender: str = "user", **fields: Any) -> dict[str, Any]:
    """A message a minute later than the one before."""
    global _minutes
    _minutes += 1
    return {
        "timestamp": (START + timedelta(minutes=_minutes)).isoformat(),
        "sender_id": sender,
        "content": content,
        "event_id": uuid.uuid4().hex,
        **fields,
    }


async def window(s: Stack, user: Scope, *events: dict[str, Any]) -> Window:
    """Record these events and consolidate them as one window."""
    receipt = await s.memory.record_events(user, events, allow_user_memory=True)
    assert receipt.status in {ReceiptStatus.RECORDED, ReceiptStatus.PENDING}, receipt
    progress = await s.memory.flush(user, wait_s=60)
    assert progress.waiting == 0, progress
    (newest,) = await s.memory.windows.list(scope=user, limit=1)
    return newest


async def facts(s: Stack, user: Scope, *statuses: FactStatus) -> Sequence[Fact]:
    return await s.memory.facts(user, statuses=statuses or (FactStatus.ACTIVE,), sources=True)


async def statements(s: Stack, user: Scope) -> list[str]:
    return sorted(fact.statement for fact in await facts(s, user))


# ------------------------------------------------------------------------------------------------- 4, 6, 8, 10: one memory


async def test_the_same_fact_in_ten_windows_is_one_fact_with_ten_sources(stack: StartStack) -> None:
    async with stack(**KNOWLEDGE_ONLY) as s:
        user = s.user()
        for _ in range(10):
            done = await window(s, user, said("The deadline of the Atlas project is 3 May 2027."))
            assert done.state is WindowState.DONE
        (fact,) = await facts(s, user, *FactStatus)
    assert "Atlas" in fact.statement
    assert len({source.event_id for source in fact.sources}) == 10


async def test_the_same_text_by_turn_and_by_events_is_one_memory(stack: StartStack) -> None:
    async with stack(**KNOWLEDGE_ONLY) as s:
        user = s.user()
        text = "The deadline of the Atlas project is 3 May 2027."
        await s.say(user, text)
        await s.settle(user)
        await s.memory.flush(user, wait_s=60)
        await window(s, user, said(text))
        chunk = await s.memory.windows.update_knowledge(user, f"user: {text}")
        (fact,) = await facts(s, user, *FactStatus)
    assert chunk.state is WindowState.DONE
    assert len(fact.sources) == 3


async def test_memory_that_the_assistant_recalls_is_not_learned_again(stack: StartStack) -> None:
    async with stack(**ALL) as s:
        user = s.user()
        told = (
            "The Atlas project is led by Jonas Adler.",
            "The deadline of the Atlas project is 3 May 2027.",
            "I work as an architect and I live in Porto.",
            "Please send Mara the plans of Atlas by 3 May 2027.",
            "Always answer me in German.",
        )
        await window(s, user, *(said(text) for text in told))

        async def kept() -> tuple[Any, ...]:
            people = await s.memory.contacts.filter(user)
            texts = [(one.contact_id, one.name, one.bio, one.response_policy) for one in people]
            return await statements(s, user), texts, [task.name for task in await s.memory.tasks.list(user)]

        first = await kept()
        (before,) = await s.memory.windows.list(scope=user)
        injected = "\n".join([*first[0], *(bio for _, _, bio, _ in first[1] if bio), *first[2]])
        for number in range(20):
            await s.say(user, f"What do you know about me? ({number})", f"What I know about you:\n{injected}")
        await s.settle(user)
        await s.memory.flush(user, wait_s=60)
        (after, *_) = await s.memory.windows.list(scope=user)
        last = await kept()
    assert first[0]
    assert last == first
    assert (before.events, after.events, after.state) == (5, 40, WindowState.DONE)


@pytest.mark.parametrize(
    ("first", "then", "old", "new"),
    [
        ("The Atlas project is led by Jonas Adler.", "The Atlas project is now led by Ines Roth.", "Jonas", "Ines"),
        ("The Atlas project runs on Hetzner.", "Correction: the Atlas project runs on Azure.", "Hetzner", "Azure"),
    ],
)
async def test_a_reassignment_retires_the_old_one(stack: StartStack, first: str, then: str, old: str, new: str) -> None:
    async with stack(**KNOWLEDGE_ONLY) as s:
        user = s.user()
        await window(s, user, said(first))
        await window(s, user, said(then))
        (active,) = await facts(s, user)
        (retired,) = await facts(s, user, FactStatus.SUPERSEDED)
        found = await s.memory.search_facts(user, "Atlas project")
    assert new in active.statement
    assert old in retired.statement
    assert retired.superseded_by == active.fact_id
    assert [one.fact.fact_id for one in found] == [active.fact_id]
