"""Golden cases of the event window: what was said, what is known before, what has to be stored afterwards and what must not.

A file of ``tests/golden`` is a JSON list of cases, see :class:`Case`. What a case expects holds for every model; what the
simulated model cannot do (a language that it does not speak) is said under ``simulated``.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory.model.category import Category
from memory.model.contact import TEXT_FIELDS
from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, ManagerMethodEvent, MessageEvent

GOLDEN: Final = Path(__file__).parents[1] / "tests" / "golden"
NOW: Final = datetime(2026, 6, 18, 9, 0, tzinfo=UTC)
"""When the windows of all cases are consolidated; their events are of the day before."""

_STARTED: Final = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Filler(_Part):
    text: str
    times: int


class CaseEvent(_Part):
    """A message (``from``, ``text``) or a manager call (``manager``, ``method``). ``filler``, ``then``: to make a text long."""

    sender: str | None = Field(None, alias="from")
    to: tuple[str, ...] | None = None
    medium: str = "chat"
    text: str = ""
    filler: Filler | None = None
    then: str = ""
    manager: str | None = None
    method: str = "update"
    phase: str = "incoming"
    payload: dict[str, Any] = Field(default_factory=dict)

    def event(self, at: datetime, count: int) -> MessageEvent | ManagerMethodEvent:
        if self.manager is not None:
            return ManagerMethodEvent.model_validate(
                {
                    "timestamp": at,
                    "manager": self.manager,
                    "method": self.method,
                    "phase": self.phase,
                    "calling_id": f"call-{count}",
                    "payload": self.payload,
                }
            )
        sender = self.sender or USER_ID
        middle = self.filler.text * self.filler.times if self.filler else ""
        return MessageEvent(
            timestamp=at,
            sender_id=sender,
            receiver_ids=self.to or ((USER_ID,) if sender == ASSISTANT_ID else (ASSISTANT_ID,)),
            medium=self.medium,
            content=self.text + middle + self.then,
            event_id=f"e{count}",
        )


class Before(_Part):
    """Known before. ``contacts``: fields and ``aliases``, or ``user: true`` for the user's own. ``tasks``: fields."""

    contacts: tuple[dict[str, Any], ...] = ()
    facts: tuple[dict[str, Any], ...] = ()
    tasks: tuple[dict[str, Any], ...] = ()


class Expected(_Part):
    """One thing that has to be stored. All that is given must hold.

    ``who``: an alias of the contact. ``words``: all are in its text (``a|b``: either). ``not``: none is. ``fields``: values, of
    which a beginning is enough and ``a|b`` gives a choice; null: not set. ``merged``: aliases that are one contact now.
    ``supersedes``: words of the fact that it took the place of; an empty list: it took nobody's. ``sources``: how many.
    """

    who: str | None = None
    words: tuple[str, ...] = ()
    not_words: tuple[str, ...] = Field((), alias="not")
    fields: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    merged: tuple[str, ...] = ()
    supersedes: tuple[str, ...] | None = None
    sources: int | None = None


Expectation = dict[Category, tuple[Expected, ...]]


class Override(_Part):
    """What the simulated model does where it cannot do what is expected."""

    expect: Expectation


class Case(_Part):
    """``language``: of what is said (``xx``: none). ``trap``: the kind of mistake that the case lies in wait for.

    ``absent``: in no stored text; ``absent_active``: in no active fact; ``absent_facts``: in no fact at all.
    """

    name: str
    about: str
    language: str
    categories: tuple[Category, ...]
    trap: str | None = None
    before: Before = Before()
    windows: tuple[tuple[CaseEvent, ...], ...]
    expect: Expectation
    absent: tuple[str, ...] = ()
    absent_active: tuple[str, ...] = ()
    absent_facts: tuple[str, ...] = ()
    simulated: Override | None = None

    def expectation(self, *, simulated: bool) -> Expectation:
        return self.simulated.expect if simulated and self.simulated else self.expect

    def events(self) -> list[list[MessageEvent | ManagerMethodEvent]]:
        """By window; a minute apart, the windows an hour."""
        count, windows = 0, list[list[MessageEvent | ManagerMethodEvent]]()
        for number, window in enumerate(self.windows):
            row: list[MessageEvent | ManagerMethodEvent] = []
            for place, event in enumerate(window):
                count += 1
                row.append(event.event(_STARTED + timedelta(hours=number, minutes=place), count))
            windows.append(row)
        return windows


def load_cases(folder: Path = GOLDEN) -> tuple[Case, ...]:
    """All cases of the folder, by file and place. Raises InvalidInput that names the file, or a name that is used twice."""
    cases: list[Case] = []
    reader = TypeAdapter(tuple[Case, ...])
    files = sorted(folder.glob("*.json"))
    if not files:
        raise InvalidInput(f"there are no golden cases in {folder}")
    for file in files:
        try:
            cases += reader.validate_python(json.loads(file.read_text(encoding="utf-8")))
        except (ValidationError, ValueError) as error:
            raise InvalidInput(f"{file.name} does not hold golden cases: {error}") from None
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(f"golden cases share a name: {', '.join(twice)}")
    return tuple(cases)


# ------------------------------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True, slots=True)
class Observed:
    """One thing that a case's windows stored or changed. ``text``: all its words. ``whose``: aliases of the contact."""

    category: Category
    text: str = field(repr=False)
    fields: Mapping[str, str | None] = field(repr=False)
    whose: frozenset[str] = frozenset()
    supersedes: tuple[str, ...] = field(default=(), repr=False)
    sources: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """What the stores hold after a case: what is new or changed, and all texts for what must not be there."""

    observed: tuple[Observed, ...]
    texts: tuple[str, ...] = field(default=(), repr=False)
    facts: tuple[str, ...] = field(default=(), repr=False)
    active_facts: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts by category: (right, expected, observed). ``missing``, ``extra``, ``forbidden``: in words.

    ``dropped``: category and reason of what the model proposed and the program did not take.
    """

    case: Case
    counts: Mapping[Category, tuple[int, int, int]]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        return not (self.missing or self.extra or self.forbidden or self.error)


def judge(case: Case, stored: Stored, *, simulated: bool) -> Verdict:
    """Compare what is stored with what the case expects."""
    counts: dict[Category, tuple[int, int, int]] = {}
    missing: list[str] = []
    extra: list[str] = []
    expectation = case.expectation(simulated=simulated)
    for category in case.categories:
        left = [one for one in stored.observed if one.category is category]
        observed, expected, right = len(left), expectation.get(category, ()), 0
        for wanted in expected:
            found = next((one for one in left if _is(wanted, one)), None)
            if found is None:
                missing.append(f"{category.value}: {_words(wanted)}")
            else:
                left.remove(found)
                right += 1
        extra += [f"{category.value}: {_shown(one)}" for one in left]
        counts[category] = right, len(expected), observed
    forbidden = [
        word
        for words, texts in (
            (case.absent, stored.texts),
            (case.absent_facts, stored.facts),
            (case.absent_active, stored.active_facts),
        )
        for word in words
        if any(_has(text, word) for text in texts)
    ]
    return Verdict(case, counts, tuple(missing), tuple(extra), tuple(forbidden))


def _is(wanted: Expected, found: Observed) -> bool:
    if wanted.who is not None and wanted.who not in found.whose:
        return False
    if wanted.merged and not set(wanted.merged) <= found.whose:
        return False
    if not all(any(_has(found.text, choice) for choice in word.split("|")) for word in wanted.words):
        return False
    if any(_has(found.text, word) for word in wanted.not_words):
        return False
    for name, value in wanted.fields.items():
        is_set = found.fields.get(name)
        if value is None and is_set:
            return False
        if value is not None and not any(_folded(is_set or "").startswith(_folded(choice)) for choice in value.split("|")):
            return False
    if wanted.supersedes is not None:
        if not wanted.supersedes and found.supersedes:
            return False
        if not all(any(_has(old, word) for old in found.supersedes) for word in wanted.supersedes):
            return False
    return wanted.sources is None or wanted.sources == found.sources


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split())


def _has(text: str, words: str) -> bool:
    return _folded(words) in _folded(text)


def _words(wanted: Expected) -> str:
    parts = [wanted.who or "", *wanted.words, *(f"{name}={value}" for name, value in wanted.fields.items())]
    parts += [f"in place of {word}" for word in wanted.supersedes or ()]
    if wanted.sources is not None:
        parts.append(f"{wanted.sources} sources")
    return ", ".join(part for part in parts if part) or "an item"


def _shown(found: Observed) -> str:
    shown = found.text if len(found.text) <= 160 else found.text[:160] + "…"
    fields = {name: value for name, value in found.fields.items() if value and name not in TEXT_FIELDS}
    return f"{shown} {fields}" if fields else shown


@dataclass(frozen=True, slots=True)
class Score:
    """``precision`` and ``recall``: None where nothing was observed, or nothing expected."""

    cases: int
    passed: int
    right: int
    expected: int
    observed: int

    @property
    def precision(self) -> float | None:
        return self.right / self.observed if self.observed else None

    @property
    def recall(self) -> float | None:
        return self.right / self.expected if self.expected else None


def scores(verdicts: Sequence[Verdict], *, by: str) -> Iterator[tuple[str, Score]]:
    """By ``category``, ``language`` or ``trap``; a case of several categories counts in each."""

    def rows(verdict: Verdict) -> Iterator[tuple[str, Sequence[tuple[int, int, int]]]]:
        if by == "category":
            yield from ((category.value, [counts]) for category, counts in verdict.counts.items())
        elif by == "language":
            yield verdict.case.language, list(verdict.counts.values())
        elif verdict.case.trap:
            yield verdict.case.trap, list(verdict.counts.values())

    found: dict[str, list[tuple[bool, Sequence[tuple[int, int, int]]]]] = {}
    for verdict in verdicts:
        for name, counts in rows(verdict):
            found.setdefault(name, []).append((verdict.passed, counts))
    order = [category.value for category in Category] if by == "category" else sorted(found)
    for name in (one for one in order if one in found):
        right, expected, observed = (sum(count[i] for _, counts in found[name] for count in counts) for i in range(3))
        yield name, Score(len(found[name]), sum(passed for passed, _ in found[name]), right, expected, observed)
