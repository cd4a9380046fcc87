"""How the simulated model reads a request: by the structure of the prompts themselves, as any other model has to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from memory.model.errors import ModelRejected
from memory.model.profile import SECTIONS, Bullet, Profile, parse_body
from memory.model.transcript import ASSISTANT_LABEL, QUOTE, TURN_LABEL, USER_LABEL, unquote
from memory.ports import ChatRequest

TASKS = ("gate", "rewrite", "edits", "condense", "scrub")

_TASK = re.compile(r"^Task: (\w+)$", re.MULTILINE)
_PROFILE = re.compile(r"^<profile>\n(.*?)\n?^</profile>$", re.MULTILINE | re.DOTALL)
_EXCHANGE = re.compile(r"^<exchange>\n(.*?)\n?^</exchange>$", re.MULTILINE | re.DOTALL)
_LIMIT = re.compile(r"\b[Aa]t most (\d+) tokens\b")
_NUMBERED = re.compile(r"^(\s*)([A-Z]\d+(?:\.\d+)?): (.*)$")
_SECTION = re.compile(r"^## (.*?)(?: \([A-Z]\))?$")


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """``stamp``: ``2026-06-17 12:00 UTC``. Texts are empty where a side said nothing."""

    stamp: str
    user: str = field(repr=False)
    assistant: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Brief:
    """What a request asks for. ``limit``: the stated number of tokens of a ``condense`` task."""

    task: str
    profile: Profile = field(repr=False)
    turns: tuple[SpokenTurn, ...]
    limit: int | None


def read_request(request: ChatRequest) -> Brief:
    """Raises ModelRejected for a prompt that is none of ours: the simulated model can do nothing else."""
    task = _TASK.search(request.system_text)
    if task is None or task[1] not in TASKS or not request.messages:
        raise ModelRejected("the simulated model answers the prompts of this project only")
    text = request.messages[0].text
    profile = _PROFILE.search(text)
    exchange = _EXCHANGE.search(text, profile.end() if profile else 0)
    limit = _LIMIT.search(text, profile.end() if profile else 0)
    body = profile[1] if profile else ""
    return Brief(
        task[1],
        _numbered_profile(body) if task[1] == "edits" else parse_body(body),
        _turns(exchange[1]) if exchange else (),
        int(limit[1]) if limit else None,
    )


def _turns(block: str) -> tuple[SpokenTurn, ...]:
    turns: list[tuple[str, dict[str, list[str]]]] = []
    side = USER_LABEL
    for line in block.split("\n"):
        if line.startswith(QUOTE):
            if turns:
                turns[-1][1][side].append(unquote(line))
        elif line in (USER_LABEL, ASSISTANT_LABEL):
            side = line
        elif line.startswith(TURN_LABEL):
            turns.append((line[len(TURN_LABEL) :], {USER_LABEL: [], ASSISTANT_LABEL: []}))
    return tuple(SpokenTurn(at, "\n".join(said[USER_LABEL]), "\n".join(said[ASSISTANT_LABEL])) for at, said in turns)


def _numbered_profile(block: str) -> Profile:
    """A profile of numbered bullets; their order gives the numbers back."""
    rows: dict[str, list[Bullet]] = {name: [] for name in SECTIONS}
    section = ""
    for line in block.split("\n"):
        if heading := _SECTION.match(line):
            section = heading[1]
        elif (bullet := _NUMBERED.match(line)) and section in rows:
            if bullet[1] and rows[section]:
                last = rows[section][-1]
                rows[section][-1] = Bullet(last.text, (*last.children, bullet[3]))
            else:
                rows[section].append(Bullet(bullet[3]))
    return Profile.of(rows)
