"""The flags that running processes should agree on, and where they do not. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

SEEN_EVERY: Final = timedelta(seconds=20)
"""A running process writes down that it runs."""
SEEN_WITHIN: Final = timedelta(seconds=70)
"""A process that was seen within this time counts as running: it may have missed two of its times."""


class Flagged(Protocol):
    """A running process, as :class:`memory.ports.service.Process`."""

    @property
    def process_id(self) -> str: ...

    @property
    def flags(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class FlagValue:
    """``value`` as JSON has it; ``processes``: ids of those that run with it, in order."""

    value: Any
    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlagDifference:
    """``values``: at least two; the one that most processes have comes first."""

    flag: str
    values: tuple[FlagValue, ...]

    @property
    def told(self) -> str:
        """In a line, for people: ``feature_flag: true (worker@a), false (api@b)``."""
        parts = (f"{_text(one.value)} ({', '.join(one.processes)})" for one in self.values)
        return f"{self.flag}: {', '.join(parts)}"


def differences(processes: Iterable[Flagged]) -> list[FlagDifference]:
    """The flags in which these processes differ, by name. One that a process (of another version) does not know does not count."""
    found: dict[str, dict[str, list[str]]] = {}
    for process in processes:
        for flag, value in process.flags.items():
            found.setdefault(flag, {}).setdefault(_text(value), []).append(process.process_id)
    return [
        FlagDifference(
            flag,
            tuple(
                FlagValue(json.loads(text), tuple(sorted(ids)))
                for text, ids in sorted(values.items(), key=lambda one: (-len(one[1]), one[0]))
            ),
        )
        for flag, values in sorted(found.items())
        if len(values) > 1
    ]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
