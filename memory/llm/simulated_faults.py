"""Misbehaviour of the simulated model: which fault strikes which call.

A plan is written ``name=rate,…``, for instance ``rate_limited=0.1,empty=0.02``; at most one fault strikes a call. The draw is made
from the seed, the request's text and how often this text was asked before, so it does not depend on what runs beside it. Faults in
what an answer says (:data:`LASTING`) do not depend on how often it was asked either: a worker that dies and one that does not
come to the same answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.model.errors import InvalidInput

FAULTS: Mapping[str, str] = {
    "rate_limited": "429 without Retry-After",
    "rate_limited_retry_after": "429 that asks to wait",
    "server_error": "500",
    "timeout": "no reply within the time-out",
    "rejected": "400; the same request fails again",
    "refused": "the provider declines to answer",
    "empty": "a reply without text",
    "truncated": "a reply cut off at the output limit, and said to be so",
    "cut_silently": "a reply cut off that claims to be complete",
    "fenced": "a code fence around the reply",
    "think": "a leaked <think> block before the reply",
    "think_unterminated": "a leaked <think> block that never ends",
    "malformed": "prose instead of the reply",
    "dropped_section": "a profile without its second half",
    "preamble": "prose before the reply and after it",
    "titled": "frontmatter and a title before the reply",
    "hallucinated": "extraction: made-up items without a quote, with a wrong one, one of another event or of the prompt",
    "double_handled": "extraction: what a manager call did already is extracted again",
    "duplicated": "extraction: every item twice",
    "translated": "extraction: Chinese comes back in English",
    "broken_section": "extraction: one category is no list of items",
    "bad_arguments": "knowledge loop: the first call's arguments are no JSON",
    "unknown_tool": "knowledge loop: the first call is of a tool that there is not",
    "writes_in_ask": "knowledge loop: an ask calls tools that write and delete",
    "endless": "knowledge loop: it calls tools for ever and never answers, until it gets none",
}
"""Every fault by name, with what it looks like."""

EXTRACTION_FAULTS = frozenset({"hallucinated", "double_handled", "duplicated", "translated", "broken_section"})
"""Those in the items of an extraction; a reply of another stage is not touched by them."""

KNOWLEDGE_FAULTS = frozenset({"bad_arguments", "unknown_tool", "writes_in_ask", "endless"})
"""Those in the calls of a knowledge loop; a reply of another stage is not touched by them."""

TEXT_ONLY_FAULTS = frozenset({"refused", "empty", "truncated", "cut_silently", "think_unterminated", "malformed"})
"""Those that leave a reply without the calls that it would have made; the others do not touch a reply that calls tools."""

LASTING = frozenset({"truncated", "fenced", "think", "preamble", "titled", *EXTRACTION_FAULTS}) - {"broken_section"}
"""Asked the same again, the model goes wrong in the same way again: these can be lived with, or are mended by asking otherwise.
The other faults pass; each try is a new draw."""

_PAIR = re.compile(r"\s*([a-z_]+)\s*=\s*([0-9.eE+-]+)\s*")
_SCALE = 2**53


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Rates (0 to 1, in sum at most 1) by name, and the seed."""

    rates: tuple[tuple[str, float], ...]
    seed: int

    @classmethod
    def parse(cls, text: str, seed: int) -> FaultPlan:
        """Raises InvalidInput that names the unknown fault or the wrong rate."""
        rates: dict[str, float] = {}
        for piece in filter(str.strip, text.split(",")):
            pair = _PAIR.fullmatch(piece)
            if pair is None:
                raise InvalidInput(f"simulated faults: {piece.strip()[:60]!r} is not name=rate")
            name = pair[1]
            if name not in FAULTS:
                raise InvalidInput(f"simulated faults: unknown fault {name[:60]!r}; known: {', '.join(FAULTS)}")
            if name in rates:
                raise InvalidInput(f"simulated faults: {name} is given twice")
            rates[name] = _rate(name, pair[2])
        if sum(rates.values()) > 1 + 1e-9:
            raise InvalidInput(f"simulated faults: the rates add up to {sum(rates.values()):g}, more than 1")
        return cls(tuple(rates.items()), seed)

    def draw(self, request: bytes, attempt: int) -> str | None:
        """The fault that strikes this attempt (0 at first) at this request, or None."""
        if not self.rates:
            return None
        passing = [(name, rate) for name, rate in self.rates if name not in LASTING]
        lasting = [(name, rate) for name, rate in self.rates if name in LASTING]
        fault = _struck(passing, _unit(self.seed, b"fault", request, attempt))
        if fault is not None:
            return fault
        # Of the calls that no other fault strikes, so that every rate is a share of all calls.
        left = 1 - sum(rate for _, rate in passing)
        return _struck(lasting, left * _unit(self.seed, b"lasting", request, 0))

    def share(self, request: bytes, attempt: int, fault: str | None = None) -> float:
        """A second number in [0, 1) for this attempt and the fault that strikes it, for instance where to cut."""
        return _unit(self.seed, b"share", request, 0 if fault in LASTING else attempt)


def _struck(rates: Sequence[tuple[str, float]], share: float) -> str | None:
    for name, rate in rates:
        share -= rate
        if share < 0:
            return name
    return None


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise InvalidInput(f"simulated faults: the rate of {name} is not a number") from None
    if not 0 <= rate <= 1:
        raise InvalidInput(f"simulated faults: the rate of {name} is {rate:g}; it must be from 0 to 1")
    return rate


def _unit(seed: int, purpose: bytes, request: bytes, attempt: int) -> float:
    digest = hashlib.blake2b(b"%d|%s|%d|" % (seed, purpose, attempt) + request, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / _SCALE
