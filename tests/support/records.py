"""Records for tests: short ways to make facts, contacts and tasks, and the stores with an answer that gets lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from memory.model.errors import StoreUnavailable
from memory.model.fact import Fact, Source
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import Task
from memory.ports import AddFact, CreateTask
from memory.stores.tables.engine import Database

T = TypeVar("T")

NOW = datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
OTHER_ANN = Scope.of("globex", "ann")
ANNS = Owner.user(ANN)
BOBS = Owner.user(BOB)
SALES = Owner.team("acme", "sales")


def see(scope: Scope, *teams: str) -> View:
    return View.of(scope, teams)


def said(quote: str, event_id: str | None = "e1", **fields: Any) -> Source:
    return Source(event_id=event_id, quote=quote, origin="window:w1", **fields)


def a_fact(fact_id: str = "f1", owner: Owner = ANNS, **fields: Any) -> Fact:
    given: dict[str, Any] = {"statement": "Ann lives in Berlin.", "observed_at": NOW, "created_at": NOW}
    return Fact(fact_id=fact_id, owner=owner.key, **(given | fields))


def add(
    fact_id: str = "f1", key: str = "", *, owner: Owner = ANNS, effect: str = "", supersedes: Any = (), **fields: Any
) -> AddFact:
    """The key is made from the id, and so is the effect, where they are not given."""
    return AddFact(effect or f"add {fact_id}", a_fact(fact_id, owner, **fields), key or f"key of {fact_id}", tuple(supersedes))


def a_task(task_id: str = "t1", **fields: Any) -> Task:
    given: dict[str, Any] = {"name": "Call the dentist", "created_at": NOW, "updated_at": NOW}
    return Task(task_id=task_id, **(given | fields))


def create_task(task_id: str = "t1", key: str = "", *, effect: str = "", **fields: Any) -> CreateTask:
    return CreateTask(effect or f"create {task_id}", a_task(task_id, **fields), key or f"key of {task_id}")


class LosesAnswers:
    """A database whose next writes are committed, and whose answer never arrives."""

    def __init__(self, database: Database, lost: int = 1) -> None:
        self._database = database
        self._lost = lost
        self.engine = database.engine

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        result = await self._database.write(work)
        if self._lost:
            self._lost -= 1
            raise StoreUnavailable("the answer was lost")
        return result


def losing(store: T, lost: int = 1) -> T:
    """The same store, whose next writes lose their answer."""
    made: Any = object.__new__(type(store))
    made.__dict__.update(store.__dict__)
    made._database = LosesAnswers(made._database, lost)
    return made
