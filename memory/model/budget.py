"""The token budget: does a profile fit, the cut by rule, and whether a condensed profile may take the place of a long one.

The cost of a cut follows the budget, not the body: kept bullets are counted from the most worthy on, so that a body of 1 MiB
is cut in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from memory.model.errors import InvalidInput
from memory.model.grounding import find_invention
from memory.model.headings import COMMUNICATION_PREFERENCES, FOLLOW_UPS, IDENTITY, RECENT_TOPICS, SECTIONS, SKILLS, WORK_CONTEXT
from memory.model.profile import Bullet, Profile, render_body
from memory.model.recent import read_stamp
from memory.model.stale import is_stale

Count = Callable[[str], int]
"""Tokens of a text."""

MAX_CHARS_PER_TOKEN = 128
"""No tokenizer in use packs more characters into one token; longer texts are over budget without counting."""

_MIN_KEPT_SHARE = 0.1


def fits(profile: Profile, count: Count, max_tokens: int) -> bool:
    """Whether the rendered body has at most ``max_tokens`` tokens."""
    body = render_body(profile)
    return len(body) <= max_tokens * MAX_CHARS_PER_TOKEN and count(body) <= max_tokens


def cut_to_budget(profile: Profile, count: Count, max_tokens: int, *, today: date) -> Profile:
    """The profile itself if it fits, else without as few of its least worthy bullets as possible, marked as truncated.

    The order: Recent Topics by age; Follow-ups that are stale on ``today``; Work Context; Skills & Expertise; the other
    Follow-ups; Communication Preferences; Identity. Within a section the first goes first, in Identity the last. Whole bullets
    and sub-bullets; sub-bullets before their bullet. The cut stops as soon as the rest fits. A bullet that is alone larger than
    the budget has to go in any case, so it goes first; its sub-bullets stay.

    Raises:
        InvalidInput: not even the six empty sections fit.
    """
    if fits(profile, count, max_tokens):
        return profile
    if not fits(Profile(truncated=True), count, max_tokens):
        raise InvalidInput(f"a budget of {max_tokens} tokens cannot hold the six headings of a profile")
    units = [
        unit
        for unit in _cut_order(profile, today)
        # Every token is at least one byte, so only a long text can be over budget alone.
        if len(unit.text.encode()) * 2 < max_tokens or fits(_assemble([unit]), count, max_tokens)
    ]
    return _assemble(units[_first_fitting(units, count, max_tokens) :])


def check_condensed(before: Profile, condensed: Profile, count: Count, max_tokens: int) -> str | None:
    """Why a model's condensed profile must not replace ``before``; None when it may.

    It must be smaller, not (nearly) empty, keep something of Identity and Communication Preferences, and invent nothing. It may
    still be over ``max_tokens``: the cut by rule comes after. The reason holds no text of the profile.
    """
    size, former = count(render_body(condensed)), count(render_body(before))
    if size >= former:
        return f"not smaller: {size} tokens after {former}"
    if condensed.is_empty or size < min(max_tokens, former) * _MIN_KEPT_SHARE:
        return f"next to nothing left: {size} tokens of {former}"
    for name in (IDENTITY, COMMUNICATION_PREFERENCES):
        if before.section(name) and not condensed.section(name):
            return f"nothing left of {name}"
    return find_invention(before, condensed)


# ------------------------------------------------------------------------------------------------------------------ cut


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is cut in one piece: a bullet's own text, or one sub-bullet. ``child`` is -1 for the bullet itself."""

    section: int
    bullet: int
    child: int
    text: str


def _cut_order(profile: Profile, today: date) -> list[_Unit]:
    """All units, the least worthy first."""
    stale: list[int] = []
    fresh: list[int] = []
    for position, bullet in enumerate(profile.section(FOLLOW_UPS)):
        (stale if is_stale(bullet, today) else fresh).append(position)
    order: list[tuple[str, Sequence[int]]] = [
        (RECENT_TOPICS, _by_age(profile.section(RECENT_TOPICS))),
        (FOLLOW_UPS, stale),
        (WORK_CONTEXT, range(len(profile.section(WORK_CONTEXT)))),
        (SKILLS, range(len(profile.section(SKILLS)))),
        (FOLLOW_UPS, fresh),
        (COMMUNICATION_PREFERENCES, range(len(profile.section(COMMUNICATION_PREFERENCES)))),
        # A profile begins with the name and the role.
        (IDENTITY, range(len(profile.section(IDENTITY)) - 1, -1, -1)),
    ]
    units: list[_Unit] = []
    for name, positions in order:
        section = SECTIONS.index(name)
        bullets = profile.sections[section]
        for position in positions:
            bullet = bullets[position]
            children = [_Unit(section, position, place, text) for place, text in enumerate(bullet.children)]
            units += children if name != IDENTITY else reversed(children)
            units.append(_Unit(section, position, -1, bullet.text))
    return units


def _by_age(bullets: Sequence[Bullet]) -> list[int]:
    """Positions from the oldest on; a bullet without a stamp is as old as the one before it."""
    ages: list[float] = []
    last = float("-inf")
    for bullet in bullets:
        moment = read_stamp(bullet.text)[0]
        last = moment.timestamp() if moment else last
        ages.append(last)
    return sorted(range(len(bullets)), key=ages.__getitem__)


def _assemble(units: Sequence[_Unit]) -> Profile:
    """The truncated profile of these units, in the order of the file."""
    rows: list[list[Bullet]] = [[] for _ in SECTIONS]
    place = (-1, -1)
    text, children = "", list[str]()
    for unit in sorted(units, key=lambda one: (one.section, one.bullet, one.child)):
        if (unit.section, unit.bullet) != place:
            if place[0] >= 0:
                rows[place[0]].append(Bullet(text, tuple(children)))
            place, text, children = (unit.section, unit.bullet), "", []
        if unit.child < 0:
            text = unit.text
        else:
            children.append(unit.text)
    if place[0] >= 0:
        rows[place[0]].append(Bullet(text, tuple(children)))
    return Profile(tuple(tuple(row) for row in rows), truncated=True)


def _first_fitting(units: Sequence[_Unit], count: Count, max_tokens: int) -> int:
    """The smallest number of units to cut so that the rest fits: widens what is kept until it is too much, then halves."""
    sizes: list[int] = [0]
    for unit in reversed(units):
        sizes.append(sizes[-1] + len(unit.text) + 5)

    def is_within(kept: int) -> bool:
        return sizes[kept] <= max_tokens * MAX_CHARS_PER_TOKEN and fits(_assemble(units[len(units) - kept :]), count, max_tokens)

    good, bad, chars = 0, len(units) + 1, 2 * max_tokens
    while bad > len(units):
        tried = max(_last_within(sizes, chars), good + 1)
        if tried > len(units):
            break
        if is_within(tried):
            good, chars = tried, chars * 2
        else:
            bad = tried
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_within(middle):
            good = middle
        else:
            bad = middle
    return len(units) - good


def _last_within(sizes: Sequence[int], chars: int) -> int:
    """How many units of the end have at most ``chars`` characters together."""
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if sizes[middle] <= chars:
            low = middle
        else:
            high = middle - 1
    return low
