"""Is memory on for this turn, and if not, why: one pure function that lists every reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from memory.model.directory import MemoryFacts
from memory.model.ids import MAX_ID_CHARS, encode_segment


class ReasonCode(StrEnum):
    """Why memory is off, in the order in which reasons are listed."""

    BEING_FORGOTTEN = "being_forgotten"
    FEATURE_FLAG_OFF = "feature_flag_off"
    SPACE_OFF = "space_off"
    WEB_SEARCH_ON = "web_search_on"
    USER_OPTED_OUT = "user_opted_out"
    CALLER_NOT_ALLOWED = "caller_not_allowed"
    ROOT_CLASH = "root_clash"


@dataclass(frozen=True, slots=True)
class Reason:
    """``message``: what is off. ``remedy``: who can do what about it."""

    code: ReasonCode
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Enablement:
    """``active`` exactly when ``reasons`` is empty."""

    active: bool
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[ReasonCode, ...]:
        return tuple(reason.code for reason in self.reasons)


def effective_enablement(
    *,
    feature_flag: bool | frozenset[str],
    allow_with_web_search: bool,
    tenant: str,
    facts: MemoryFacts,
    allow_user_memory: bool,
    web_search: bool | None,
    accepted_at: datetime | None = None,
) -> Enablement:
    """All conditions at once.

    Args:
        feature_flag: on or off for every company, or the companies (outside ids) for which memory exists.
        allow_with_web_search: the operator lets memory stay on beside web search.
        tenant: the company, encoded as in a Scope: a long outside id cannot be had back from there.
        allow_user_memory: the caller's consent in the turn.
        web_search: whether this turn searches the web; None: as the space says.
        accepted_at: when what is to be recorded was handed over; what came before the user was forgotten stays forgotten.
    """
    reasons: list[Reason] = []

    def off(code: ReasonCode, message: str, remedy: str) -> None:
        reasons.append(Reason(code, message, remedy))

    late = accepted_at is not None and facts.forgotten_before is not None and accepted_at <= facts.forgotten_before
    if facts.forgetting or late:
        off(
            ReasonCode.BEING_FORGOTTEN,
            "all of the user's memory is being deleted"
            if facts.forgetting
            else "all of the user's memory was deleted after this was handed over",
            "nothing: what happens after the deletion has ended is remembered again",
        )
    if not is_flagged(feature_flag, tenant):
        off(
            ReasonCode.FEATURE_FLAG_OFF,
            "context memory is not switched on for this company",
            "the operator sets FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033 to true or adds the company to its list",
        )
    if facts.space.context_memory is False:
        off(
            ReasonCode.SPACE_OFF,
            'the "Context memory" toggle of this space is off',
            "an administrator of the space switches it on",
        )
    searches = facts.space.web_search if web_search is None else web_search
    if searches and not allow_with_web_search:
        off(
            ReasonCode.WEB_SEARCH_ON,
            "web search is on, and memory is not used beside it" if web_search is None else "this turn searches the web",
            "switch web search off, or the operator sets ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591",
        )
    if not facts.user_allows:
        off(
            ReasonCode.USER_OPTED_OUT,
            "the user has opted out of context memory (what was stored is kept)",
            "the user switches allowUserMemory on in their preferences",
        )
    if not allow_user_memory:
        off(
            ReasonCode.CALLER_NOT_ALLOWED,
            "the caller did not allow memory for this turn",
            "the caller sends allow_user_memory: true",
        )
    if len(facts.active_roots) > 1:
        off(
            ReasonCode.ROOT_CLASH,
            f"the company has {len(facts.active_roots)} active memory roots: {', '.join(sorted(facts.active_roots))}",
            "an administrator renames or removes all but one",
        )
    return Enablement(active=not reasons, reasons=tuple(reasons))


def is_flagged(feature_flag: bool | frozenset[str], tenant: str) -> bool:
    """Whether memory exists for the company, which is given in the encoded form."""
    return feature_flag if isinstance(feature_flag, bool) else tenant in _segments(feature_flag)


@lru_cache(maxsize=16)
def _segments(companies: frozenset[str]) -> frozenset[str]:
    """The listed companies as they are in a Scope. A name that is too long for an id is nobody's."""
    return frozenset(encode_segment(name) for name in companies if 0 < len(name) <= MAX_ID_CHARS)
