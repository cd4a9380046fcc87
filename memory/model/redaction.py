"""Secrets and payment data out of text, before it reaches a model or a store and again on what comes back.

What is found becomes ``[redacted:<kind>]``; everything else stays byte for byte. Provider keys come from the plugins of
detect-secrets; check digits (cards, IBAN, government ids) from python-stdnum; passwords, codes and keys that people write in
sentences (English, German, Chinese, and a few common words of other languages) from the rules of
:mod:`memory.model.redaction_rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from memory.model.redaction_rules import MARKER, find_secrets

_SAMPLES = "4111111111111111 GB82WEST12345698765432 sk-0000000000000000 eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ"
_MAX_PASSES = 10
_MAX_REMEMBERED_CHARS = 16_384


@dataclass(frozen=True, slots=True)
class Redacted:
    """``kinds``: how many of each kind were taken out, for instance ``{"password": 1}``."""

    text: str = field(repr=False)
    kinds: Mapping[str, int]

    @property
    def found(self) -> bool:
        return bool(self.kinds)


def redact(text: str) -> Redacted:
    """``text`` with every recognised secret replaced. Idempotent; never raises; time linear in the length of the text."""
    return _redact_short(text) if len(text) <= _MAX_REMEMBERED_CHARS else _redact(text)


@lru_cache(maxsize=128)
def _redact_short(text: str) -> Redacted:
    """A turn shows the same profile to the gate and to the rewrite, and gets most of it back."""
    return _redact(text)


def warm_up() -> None:
    """Load what the first text with numbers or keys needs: up to a tenth of a second, better spent before a user waits."""
    _redact(_SAMPLES)


def _redact(text: str) -> Redacted:
    kinds: Counter[str] = Counter()
    # A replacement may lay bare the next secret (digits beside it, say), so it is repeated until nothing is found.
    for _ in range(_MAX_PASSES):
        spans = _merge(find_secrets(text))
        if not spans:
            break
        pieces: list[str] = []
        position = 0
        for start, end, kind in spans:
            pieces += [text[position:start], f"[redacted:{kind}]"]
            kinds[kind] += 1
            position = end
        text = "".join([*pieces, text[position:]])
    return Redacted(text, dict(kinds))


def _merge(found: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Overlapping finds become one, with the kind of the first; old markers inside a find are swallowed whole."""
    merged: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(found, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            last_start, last_end, last_kind = merged[-1]
            merged[-1] = (last_start, max(last_end, end), last_kind)
        else:
            merged.append((start, end, kind))
    return merged


__all__ = ["MARKER", "Redacted", "redact"]
