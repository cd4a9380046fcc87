"""A long stream of what happens to some users, and what the windows made of it, in a form that two runs can be compared by."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memory.categories.spec import Stores
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.fact import FactStatus
from memory.model.owner import View
from memory.model.scope import Scope

SEED = 20261130
EVENTS = 125
"""Of each user: two full windows and a short one."""
MISBEHAVIOUR = "hallucinated=0.15,duplicated=0.1,double_handled=0.1,fenced=0.1,preamble=0.1,truncated=0.05"
CATEGORIES = ("contacts", "bios", "rolling_summaries", "response_policies", "knowledge", "tasks")
PEOPLE = ("Mara Lind", "Jonas Adler", "Ines Roth", "Paul Weber", "Lea Brandt", "Tom Falk")
PROJECTS = ("Atlas", "Harbour", "Meadow", "Quarry", "Lantern", "Orchard")

Seen = dict[str, dict[str, Any]]
"""By user."""


def user(number: int) -> Scope:
    return Scope.of("acme", f"user-{number:02}")


def stream(number: int) -> list[MessageEvent | ManagerMethodEvent]:
    """What happens to a user: statements, changes, repeats, requests, small talk, manager calls."""
    draw = random.Random(f"{SEED}:{number}")
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    events: list[MessageEvent | ManagerMethodEvent] = []
    for place in range(EVENTS):
        project, person, day = draw.choice(PROJECTS), draw.choice(PEOPLE), draw.randint(1, 28)
        first, last = person.split()
        address = f"{first}.{last}@example.org".lower()
        said = draw.choice(
            (
                f"The deadline of the {project} project is {day} May 2026.",
                f"Correction: the deadline of the {project} project is {day} June 2026.",
                f"My colleague {person} works on the {project} project, her email is {address}.",
                f"We decided that the {project} project uses oak for the stairs.",
                f"Please send the plans of {project} to {first} by {day} April 2026.",
                "Always answer me in German.",
                "I work as an architect and I live in Porto.",
                "Thanks, that helps.",
                "What is the weather like today?",
            )
        )
        when = at + timedelta(minutes=7 * place)
        sender = "assistant" if place % 4 == 3 else "user"
        if place % 31 == 30:
            events.append(
                ManagerMethodEvent(
                    event_id=f"e{place}",
                    timestamp=when,
                    manager="KnowledgeManager",
                    method="update",
                    phase=Phase.INCOMING,
                    calling_id=f"call-{place}",
                    payload={"text": said},
                )
            )
            continue
        content = f"Noted: {said}" if sender == "assistant" else said
        events.append(MessageEvent(event_id=f"e{place}", timestamp=when, sender_id=sender, medium="chat", content=content))
    return events


async def look(stores: Stores, users: Sequence[Scope]) -> Seen:
    """Everything that was stored, without ids that are drawn and times of writing."""
    seen: Seen = {}
    for scope in users:
        facts = await stores.facts.list(View(scope), statuses=tuple(FactStatus), sources=True, limit=1000)
        contacts = await stores.contacts.list(scope, limit=1000)
        tasks = await stores.tasks.list(scope, sources=True, limit=1000)
        said = {fact.fact_id: fact.statement for fact in facts}
        seen[scope.user] = {
            "facts": sorted(
                (
                    f.statement,
                    f.status.value,
                    said.get(f.superseded_by or "", ""),
                    sorted((s.event_id or "", s.quote) for s in f.sources),
                )
                for f in facts
            ),
            "contacts": [(c.contact_id, c.name, c.email_address, c.bio, c.rolling_summary, c.response_policy) for c in contacts],
            "guidance": sorted((g.title, g.content) for g in await stores.guidance.list(View(scope), limit=1000)),
            "tasks": sorted((t.name, t.status.value, str(t.deadline), sorted(s.quote for s in t.sources)) for t in tasks),
        }
    return seen


def check_nothing_twice(seen: dict[str, Any]) -> None:
    for whose in seen.values():
        active = [statement for statement, status, *_ in whose["facts"] if status == "active"]
        assert len(active) == len(set(active)), whose
        addresses = [address for *_, address, _bio, _summary, _policy in whose["contacts"] if address]
        assert len(addresses) == len(set(addresses)), whose
        live = [name for name, status, *_ in whose["tasks"] if status in ("open", "in_progress")]
        assert len(live) == len(set(live)), whose


def differences(calm: Mapping[str, Any], wild: Mapping[str, Any]) -> dict[str, tuple[list[Any], list[Any]]]:
    """By user and store: what only the first run left, and what only the second one did; both empty where one left it twice."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for name in calm.keys() | wild.keys():
        for what in ("facts", "contacts", "guidance", "tasks"):
            left, right = calm.get(name, {}).get(what, []), wild.get(name, {}).get(what, [])
            if left != right:
                found[f"{what} of {name}"] = ([one for one in left if one not in right], [one for one in right if one not in left])
    return found
