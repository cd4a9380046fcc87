"""Effects: a change and the record that it was made are one transaction, so a retry after a lost answer finds the first result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import bindparam, select

from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment
from memory.ports import ContactResult, FactResult, TaskResult
from memory.stores.tables.rows_records import EFFECTS
from memory.stores.tables.scoping import Prepared, Records, batches

MAX_CHANGES = 1000
"""In one call."""


class _Change(Protocol):
    @property
    def effect(self) -> str: ...


ChangeT = TypeVar("ChangeT", bound=_Change)
ResultT = TypeVar("ResultT", FactResult, ContactResult, TaskResult)


def effect_keys(changes: Sequence[_Change]) -> list[str]:
    """As they are stored. Raises InvalidInput for an empty key, or for too many changes in one call."""
    if len(changes) > MAX_CHANGES:
        raise InvalidInput(f"{len(changes)} changes in one call; at most {MAX_CHANGES} are accepted")
    return [encode_segment(change.effect, what="effect key") for change in changes]


def apply_once(
    records: Records,
    store: str,
    changes: Sequence[ChangeT],
    do: Callable[[ChangeT], ResultT],
    result_type: type[ResultT],
    *,
    now: datetime,
) -> list[ResultT]:
    """Do each change whose effect is not there yet, in order. The caller holds the owner's lock.

    Args:
        store: effect keys of different stores do not meet.
    """
    keys = effect_keys(changes)
    adapter = _adapter(result_type)
    done = _done(records, store, keys)
    new: list[dict[str, Any]] = []
    results: list[ResultT] = []
    for key, change in zip(keys, changes, strict=True):
        if key in done:
            results.append(replace(adapter.validate_python(done[key]), effect=change.effect, repeated=True))
            continue
        result = do(change)
        done[key] = adapter.dump_python(result, mode="json", exclude={"effect", "repeated"}) | {"effect": ""}
        new.append({"store": store, "effect_key": key, "result": done[key], "applied_at": now})
        results.append(result)
    records.insert(EFFECTS, new)
    return results


@cache
def _adapter(result_type: type[ResultT]) -> TypeAdapter[ResultT]:
    return TypeAdapter(result_type)


_DONE = Prepared(
    select(EFFECTS.c.effect_key, EFFECTS.c.result).where(
        EFFECTS.c.store == bindparam("b_store"), EFFECTS.c.effect_key.in_(bindparam("b_keys", expanding=True))
    )
)


def _done(records: Records, store: str, keys: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for some in batches(sorted(set(keys))):
        found.update((row.effect_key, row.result) for row in records.rows(_DONE, {"b_store": store, "b_keys": some}))
    return found
